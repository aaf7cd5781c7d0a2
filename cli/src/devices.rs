//! `weft devices`: what a scenario can run on.

use crate::args::ListArgs;
use crate::exit::{Exit, Failure};
use crate::profiles;
use crate::table::{Table, count};
use crate::{output, table};
use serde::Serialize;
use weft_sim::choice::First;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId};
use weft_verbs::{Context, Device, DeviceAttr, LinkLayer, PortAttr, VerbsError};

/// Why the list holds simulated devices only.
#[cfg(not(feature = "hw"))]
const NO_HARDWARE: &str =
    "This build has no hardware backend: real devices are listed by one with the feature hw.";

/// Lists them. They are opened and asked through the contract, as any device would be.
pub fn run(args: &ListArgs) -> Result<Exit, Failure> {
    let profiles = profiles::all()?;
    let rows: Vec<Row> = profiles.iter().map(row).collect::<Result<_, _>>()?;
    let real = real()?;
    match args.json {
        true => output::json(&List { hardware_backend: cfg!(feature = "hw"), real, devices: rows })?,
        false => output::text(&text(&real, &rows))?,
    }
    Ok(Exit::Held)
}

/// The devices of this machine.
#[cfg(not(feature = "hw"))]
fn real() -> Result<Vec<Row>, Failure> {
    Ok(Vec::new())
}

/// The devices of this machine.
#[cfg(feature = "hw")]
fn real() -> Result<Vec<Row>, Failure> {
    let devices = weft_hw::HwDevice::all().map_err(Failure::unfinished)?;
    let row = |device: &weft_hw::HwDevice| {
        let asked = device.open().and_then(|context| {
            let attr = context.device_attr();
            let ports = (1..=attr.ports).map(|number| real_port(&context, number));
            let ports = ports.collect::<weft_verbs::Result<Vec<Port>>>()?;
            Ok(describe("", device.name(), attr, context.port_attr(1)?, ports))
        });
        asked.unwrap_or_else(|why| Row::unusable(device.name(), why))
    };
    Ok(devices.iter().map(row).collect())
}

/// A port with its addresses: what `weft node --device-port` and `--gid` choose.
#[cfg(feature = "hw")]
fn real_port(context: &weft_hw::HwContext, number: u8) -> weft_verbs::Result<Port> {
    context.choose(number, None)?;
    let (attr, usual, found) = (context.port_attr(number)?, context.usable_gid(number)?, context.address());
    let address = |gid: &weft_hw::HwGid| Address {
        gid: gid.index,
        address: gid.address().map_or_else(|| gid.gid.to_string(), |address| address.to_string()),
        kind: gid.kind.clone(),
        interface: gid.interface.clone(),
        usual: found.is_ok() && gid.index == usual,
    };
    let addresses = context.gids(number).iter().map(address).collect();
    let (reached_by, lacks) = match found {
        Ok(address) => (Some(address.to_string()), None),
        Err(why) => (None, Some(why.to_string())),
    };
    Ok(Port { reached_by, lacks, addresses, ..Port::new(number, &attr) })
}

#[derive(Serialize)]
struct List {
    hardware_backend: bool,
    real: Vec<Row>,
    devices: Vec<Row>,
}

#[derive(Default, Serialize)]
struct Row {
    name: String,
    /// Why nothing is known of it, if that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    profile: String,
    model: String,
    ports: u8,
    link_layer: &'static str,
    bits_per_second: u64,
    mtu_bytes: u32,
    max_qp: u32,
    max_qp_wr: u32,
    max_cq: u32,
    max_mr: u32,
    max_rd_atomic: u8,
    max_inline_bytes: u32,
    capabilities: String,
    /// Where on it a node can run.
    ports_and_addresses: Vec<Port>,
}

#[cfg(any(feature = "hw", test))]
impl Row {
    /// A device that is there and cannot be asked: the others are listed all the same.
    fn unusable(name: &str, why: VerbsError) -> Row {
        Row { name: name.to_string(), error: Some(why.to_string()), ..Row::default() }
    }
}

/// A port of a real device.
#[derive(Serialize)]
struct Port {
    number: u8,
    state: String,
    link_layer: &'static str,
    bits_per_second: u64,
    mtu_bytes: u32,
    /// The address by which peers reach it, unless another is chosen.
    reached_by: Option<String>,
    /// Why no peer reaches it, if that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    lacks: Option<String>,
    addresses: Vec<Address>,
}

impl Port {
    fn new(number: u8, attr: &PortAttr) -> Port {
        Port {
            number,
            state: format!("{:?}", attr.state).to_lowercase(),
            link_layer: link_layer(attr.link_layer),
            bits_per_second: attr.bits_per_second,
            mtu_bytes: attr.active_mtu.bytes(),
            reached_by: None,
            lacks: None,
            addresses: Vec::new(),
        }
    }
}

/// An address of a port.
#[derive(Serialize)]
struct Address {
    gid: u8,
    address: String,
    kind: Option<String>,
    interface: Option<String>,
    /// Whether it is used unless another is chosen.
    usual: bool,
}

const fn link_layer(of: LinkLayer) -> &'static str {
    match of {
        LinkLayer::InfiniBand => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
    }
}

fn row(profile: &Profile) -> Result<Row, Failure> {
    let config = Config::new(1, profile.clone());
    let fabric = Fabric::new(config, Box::new(First)).map_err(Failure::unfinished)?;
    let devices = fabric.devices(NodeId(0));
    let Some(device) = devices.first() else {
        return Err(Failure::unfinished(format!("a machine of profile {} has no device", profile.name)));
    };
    let asked = device.open().and_then(|context| {
        let (attr, port) = (context.device_attr(), context.port_attr(1)?);
        let gid = Address {
            gid: 0,
            address: context.gid(1, 0)?.to_string(),
            kind: None,
            interface: None,
            usual: true,
        };
        let ports = vec![Port { addresses: vec![gid], ..Port::new(1, &port) }];
        Ok(describe(&profile.name, device.name(), attr, port, ports))
    });
    asked.map_err(|e: VerbsError| Failure::unfinished(format!("device {}: {e}", device.name())))
}

fn describe(profile: &str, name: &str, attr: DeviceAttr, port: PortAttr, ports: Vec<Port>) -> Row {
    Row {
        name: name.to_string(),
        error: None,
        profile: profile.to_string(),
        model: attr.model,
        ports: attr.ports,
        link_layer: link_layer(port.link_layer),
        bits_per_second: port.bits_per_second,
        mtu_bytes: port.active_mtu.bytes(),
        max_qp: attr.max_qp,
        max_qp_wr: attr.max_qp_wr,
        max_cq: attr.max_cq,
        max_mr: attr.max_mr,
        max_rd_atomic: attr.max_rd_atomic,
        max_inline_bytes: attr.max_inline,
        capabilities: attr.caps.to_string(),
        ports_and_addresses: ports,
    }
}

/// What is said of this machine's devices before they are listed.
#[cfg(feature = "hw")]
fn heading(real: &[Row]) -> &'static str {
    if real.is_empty() {
        "This machine has no RDMA device."
    } else {
        "Devices of this machine, and simulated ones."
    }
}

/// What is said of this machine's devices before they are listed.
#[cfg(not(feature = "hw"))]
fn heading(_real: &[Row]) -> &'static str {
    NO_HARDWARE
}

fn text(real: &[Row], simulated: &[Row]) -> String {
    let mut text = format!("{}\n", heading(real));
    for row in real.iter().chain(simulated) {
        let title = match row.profile.as_str() {
            "" => format!("{} of this machine", row.name),
            profile => format!("{} of a machine of profile {profile} (simulated)", row.name),
        };
        if let Some(why) = &row.error {
            text.push_str(&format!("\n{title}\n"));
            table::wrap(&format!("cannot be used: {why}"), 2, &mut text);
            continue;
        }
        let gigabits = row.bits_per_second as f64 / 1e9;
        let mut table = Table::facts(&title);
        table
            .row(["model".into(), row.model.clone()])
            .row(["ports".into(), format!("{} x {}, {gigabits} Gb/s", row.ports, row.link_layer)])
            .row(["MTU".into(), format!("{} bytes", count(row.mtu_bytes.into()))])
            .row(["queue pairs".into(), most(row.max_qp, "of each", row.max_qp_wr, "work requests")])
            .row(["completion queues".into(), format!("at most {}", count(row.max_cq.into()))])
            .row(["memory regions".into(), format!("at most {}", count(row.max_mr.into()))])
            .row([
                "reads and atomics in flight".into(),
                format!("at most {} a queue pair", row.max_rd_atomic),
            ])
            .row(["inline data".into(), format!("at most {} bytes", row.max_inline_bytes)]);
        table.print(&mut text);
        table::wrap(&format!("capabilities: {}", row.capabilities), 2, &mut text);
        // A simulated cluster connects its nodes itself.
        let real = row.ports_and_addresses.iter().filter(|_| row.profile.is_empty());
        real.for_each(|port| addresses(port, &mut text));
    }
    text
}

/// What `--device-port` and `--gid` can choose.
fn addresses(port: &Port, text: &mut String) {
    let Port { number, state, link_layer, mtu_bytes, .. } = port;
    let gigabits = port.bits_per_second as f64 / 1e9;
    let reached = match (&port.reached_by, &port.lacks) {
        (Some(address), _) => format!("at {address}"),
        (None, lacks) => format!("which {}", lacks.as_deref().unwrap_or("no peer reaches")),
    };
    let title =
        format!("port {number}: {state}, {link_layer}, {gigabits} Gb/s, MTU {mtu_bytes} bytes,\n{reached}");
    let mut table = Table::new(&title, 5, &["GID", "address", "kind", "interface", ""]);
    for Address { gid, address, kind, interface, usual } in &port.addresses {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        let usual = if *usual { "used" } else { "" };
        table.row([gid.to_string(), address.clone(), or_none(kind), or_none(interface), usual.into()]);
    }
    table.print(text);
}

fn most(objects: u32, of_each: &str, each: u32, what: &str) -> String {
    format!("at most {}, {of_each} at most {} {what}", count(objects.into()), count(each.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_cannot_be_opened_is_listed_with_the_reason() {
        let row = Row::unusable("mlx5_3", VerbsError::Os { call: "ibv_open_device", errno: 13 });
        let listed = text(&[row], &[]);
        assert!(listed.contains("mlx5_3 of this machine\n"), "{listed}");
        assert!(listed.contains("cannot be used: ibv_open_device failed: Permission denied"), "{listed}");
    }

    #[test]
    fn ports_and_addresses_are_listed_by_what_chooses_them() {
        let address = |gid, address: &str, kind: &str, usual| Address {
            gid,
            address: address.into(),
            kind: Some(kind.into()),
            interface: Some("eth0".into()),
            usual,
        };
        let port = Port {
            number: 1,
            state: "active".into(),
            link_layer: "Ethernet",
            bits_per_second: 100_000_000_000,
            mtu_bytes: 1024,
            reached_by: Some("10.0.0.1".into()),
            lacks: None,
            addresses: vec![
                address(0, "fe80::2:c9ff:fe00:1", "IB/RoCE v1", false),
                address(3, "10.0.0.1", "RoCE v2", true),
            ],
        };
        let mut text = String::new();
        addresses(&port, &mut text);
        let page = include_str!("../../hw-backend/README.md");
        let shown = page.split("$ weft devices\n").nth(1).and_then(|rest| rest.split("\n```").next());
        let trimmed =
            |text: &str| text.trim().lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(trimmed(shown.expect("the page shows it")), trimmed(&text));
        let lines: Vec<String> =
            text.trim().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(
            lines,
            [
                "port 1: active, Ethernet, 100 Gb/s, MTU 1024 bytes,",
                "at 10.0.0.1",
                "GID address kind interface",
                "0 fe80::2:c9ff:fe00:1 IB/RoCE v1 eth0",
                "3 10.0.0.1 RoCE v2 eth0 used",
            ]
        );
    }
}
