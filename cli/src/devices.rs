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
        let asked = device.open().and_then(|context| Ok((context.device_attr(), context.port_attr(1)?)));
        let (attr, port) =
            asked.map_err(|e| Failure::unfinished(format!("device {}: {e}", device.name())))?;
        Ok(describe("", device.name(), attr, port))
    };
    devices.iter().map(row).collect()
}

#[derive(Serialize)]
struct List {
    hardware_backend: bool,
    real: Vec<Row>,
    devices: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
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
}

fn row(profile: &Profile) -> Result<Row, Failure> {
    let config = Config::new(1, profile.clone());
    let fabric = Fabric::new(config, Box::new(First)).map_err(Failure::unfinished)?;
    let devices = fabric.devices(NodeId(0));
    let Some(device) = devices.first() else {
        return Err(Failure::unfinished(format!("a machine of profile {} has no device", profile.name)));
    };
    let asked = device.open().and_then(|context| Ok((context.device_attr(), context.port_attr(1)?)));
    let (attr, port) =
        asked.map_err(|e: VerbsError| Failure::unfinished(format!("device {}: {e}", device.name())))?;
    Ok(describe(&profile.name, device.name(), attr, port))
}

fn describe(profile: &str, name: &str, attr: DeviceAttr, port: PortAttr) -> Row {
    Row {
        name: name.to_string(),
        profile: profile.to_string(),
        model: attr.model,
        ports: attr.ports,
        link_layer: match port.link_layer {
            LinkLayer::InfiniBand => "InfiniBand",
            LinkLayer::Ethernet => "Ethernet",
        },
        bits_per_second: port.bits_per_second,
        mtu_bytes: port.active_mtu.bytes(),
        max_qp: attr.max_qp,
        max_qp_wr: attr.max_qp_wr,
        max_cq: attr.max_cq,
        max_mr: attr.max_mr,
        max_rd_atomic: attr.max_rd_atomic,
        max_inline_bytes: attr.max_inline,
        capabilities: attr.caps.to_string(),
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
    }
    text
}

fn most(objects: u32, of_each: &str, each: u32, what: &str) -> String {
    format!("at most {}, {of_each} at most {} {what}", count(objects.into()), count(each.into()))
}
