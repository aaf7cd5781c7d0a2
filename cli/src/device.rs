//! The devices on which something runs: which ones, by which port, and by which of the port's addresses.

use crate::device_args::DeviceArgs;
use crate::exit::Failure;
use crate::port_args::PortArgs;
use std::net::IpAddr;
use std::sync::Arc;
use weft_check::scenario::Cluster;
use weft_hw::{HwContext, HwDevice};
use weft_store::Objects;
use weft_verbs::{Context, Device, PortState};

/// What was chosen; the rest is the devices' own order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// By rail; empty: the first ones that will do.
    devices: Vec<String>,
    port: Option<u8>,
    gid: Option<u8>,
}

impl From<&DeviceArgs> for Choice {
    fn from(args: &DeviceArgs) -> Choice {
        Choice::at(&args.devices, &args.at)
    }
}

impl Choice {
    /// Devices by rail, and where on each of them.
    pub fn at(devices: &[String], at: &PortArgs) -> Choice {
        Choice { devices: devices.to_vec(), port: at.device_port, gid: at.gid }
    }

    /// What the command line says, and otherwise the scenario.
    pub fn of(args: &DeviceArgs, cluster: &Cluster) -> Choice {
        let given = Choice::from(args);
        let of_cluster = || cluster.device.iter().cloned().collect();
        Choice {
            devices: if given.devices.is_empty() { of_cluster() } else { given.devices },
            port: given.port.or(cluster.device_port),
            gid: given.gid.or(cluster.gid),
        }
    }

    /// What a daemon's configuration says.
    pub fn of_daemon(node: &weft_control::daemon::config::Node) -> Choice {
        Choice { devices: node.device.iter().cloned().collect(), port: node.device_port, gid: node.gid }
    }

    /// Opens the one device: where none is named, the first one that has an IP address, or else the first one that can be opened. One whose
    /// link comes up late is the same one as ever, unless it gets its address with the link only: which ones were left out for want of one
    /// is said. The machine's disk is that store, if there is one.
    pub fn open(&self, store: Option<&Arc<Objects>>) -> Result<HwContext, Failure> {
        if self.devices.len() > 1 {
            let named = self.devices.len();
            return Err(Failure::bad_input(format!("{named} devices are named, and one is used here")));
        }
        let found = self.candidates()?;
        let opened = found.iter().map(|device| self.choose(device, store));
        let mut left_out = Vec::new();
        let will_do = |context: &HwContext| {
            let has_address = has_address(context);
            if !has_address {
                left_out.push(context.device_name().to_string());
            }
            has_address
        };
        let chosen = first_usable(opened, will_do).unwrap_or_else(|| Err(absent(None)))?;
        if has_address(&chosen) && !left_out.is_empty() {
            tracing::warn!("{}", guessed(chosen.device_name(), &left_out));
        }
        Ok(chosen)
    }

    /// The same, of the device that was chosen by it: whoever opens it once more has that one.
    pub fn of_opened(self, context: &HwContext) -> Choice {
        Choice { devices: vec![context.device_name().to_string()], ..self }
    }

    /// Opens a device for each of so many rails. Where none is named, they are the first ones that can be opened and have an IP address:
    /// one whose link is down keeps its place, which is the same one on all machines.
    pub fn open_all(&self, rails: u8, store: Option<&Arc<Objects>>) -> Result<Vec<HwContext>, Failure> {
        let rails = usize::from(rails);
        if rails == 1 {
            return Ok(vec![self.open(store)?]);
        }
        let named = self.devices.len();
        if named != 0 && named != rails {
            let wanted = format!(
                "the scenario has {rails} rails, and {named} devices are named: say --device once for each"
            );
            return Err(Failure::bad_input(wanted));
        }
        let mut contexts: Vec<HwContext> = Vec::new();
        let mut refused = None;
        for device in self.candidates()? {
            // The disk is one of the node, not of an adapter.
            match self.choose(&device, store.filter(|_| contexts.is_empty())) {
                Ok(context) if named != 0 || has_address(&context) => contexts.push(context),
                Ok(_) => {}
                Err(why) if named != 0 => return Err(why),
                Err(why) => drop(refused.get_or_insert(why)),
            }
            if contexts.len() == rails {
                return Ok(contexts);
            }
        }
        let found = contexts.len();
        let why = refused.map_or(String::new(), |why| format!("; {why}"));
        Err(Failure::bad_input(format!(
            "the scenario has {rails} rails, and this machine has {found} RDMA devices with an IP address (`weft devices` lists them){why}"
        )))
    }

    /// Opens the devices that were named, or all that can be opened and have an IP address, by which the other end of a pair finds them.
    pub fn open_every(&self) -> Result<Vec<(HwContext, IpAddr)>, Failure> {
        let (mut found, mut refused) = (Vec::new(), None);
        for device in self.candidates()? {
            let opened = self.choose(&device, None);
            match opened.and_then(|context| address(&context).map(|address| (context, address))) {
                Ok(one) => found.push(one),
                Err(why) if !self.devices.is_empty() => return Err(why),
                Err(why) => drop(refused.get_or_insert(why)),
            }
        }
        if found.is_empty() {
            let why = refused.map_or(String::new(), |why| format!("; {why}"));
            return Err(Failure::unfinished(format!(
                "this machine has no RDMA device with an IP address: `weft devices` lists its devices, \
                 hw-backend/README.md says what one needs{why}"
            )));
        }
        Ok(found)
    }

    /// The devices that were named, in that order, or all.
    fn candidates(&self) -> Result<Vec<HwDevice>, Failure> {
        if self.devices.is_empty() {
            return HwDevice::all().map_err(Failure::unfinished);
        }
        let find = |name: &String| {
            let found = HwDevice::find(Some(name)).map_err(Failure::unfinished)?;
            found.ok_or_else(|| absent(Some(name)))
        };
        self.devices.iter().map(find).collect()
    }

    fn choose(&self, device: &HwDevice, store: Option<&Arc<Objects>>) -> Result<HwContext, Failure> {
        device.set_store(store.map(Arc::clone));
        let name = device.name();
        let context =
            device.open().map_err(|error| Failure::unfinished(format!("device {name}: {error}")))?;
        let port = self.port.unwrap_or(1);
        context.choose(port, self.gid).map_err(|error| {
            let gid = self.gid.map_or(String::new(), |gid| format!(", GID {gid}"));
            let line = format!("device {name}, port {port}{gid}: {error} (`weft devices` lists them)");
            // A GID is there once its address is.
            if self.gid.is_some() { Failure::unfinished(line) } else { Failure::bad_input(line) }
        })?;
        Ok(context)
    }
}

/// Of devices that were opened or not, in their order: the first one that will do, or else the first one that is open, or else why the
/// first one is not. None of no device.
fn first_usable<C, E>(
    opened: impl IntoIterator<Item = Result<C, E>>,
    mut will_do: impl FnMut(&C) -> bool,
) -> Option<Result<C, E>> {
    let (mut open, mut refused) = (None, None);
    for one in opened {
        match one {
            Ok(context) if will_do(&context) => return Some(Ok(context)),
            Ok(context) => drop(open.get_or_insert(context)),
            Err(why) => drop(refused.get_or_insert(why)),
        }
    }
    open.map(Ok).or(refused.map(Err))
}

/// That a device was taken which may not be the one that is meant.
fn guessed(taken: &str, left_out: &[String]) -> String {
    let left_out = left_out.join(", ");
    format!("takes device {taken}, since {left_out} has no IP address, or not yet: to be sure, name one")
}

/// Whether a device is on a network at all. Whether its link is up now is no matter: a node that took another card because a switch was
/// slow would be on another network for as long as it lives.
fn has_address(context: &HwContext) -> bool {
    context.address().is_ok()
}

/// What a node runs on, and whether it has no link yet, in a line.
pub fn told(context: &HwContext) -> String {
    let (device, port) = (context.device_name(), context.port());
    let at = context.address().map_or(String::new(), |address| format!(", at {address}"));
    let state = context.port_attr(port).map(|port| port.state);
    let yet = if state == Ok(PortState::Active) { "" } else { ", which has no link yet" };
    format!("runs on port {port} of {device}{at}{yet}")
}

/// A driver may not have been loaded yet.
fn absent(name: Option<&str>) -> Failure {
    Failure::unfinished(match name {
        Some(name) => format!("this machine has no RDMA device {name} (`weft devices` lists those that it has)"),
        None => "this machine has no RDMA device: `weft devices` lists them, hw-backend/README.md says what one needs"
            .to_string(),
    })
}

/// Where peers find an adapter. Its port may get its address later.
pub fn address(context: &HwContext) -> Result<IpAddr, Failure> {
    context.address().map_err(|why| {
        let (device, port) = (context.device_name(), context.port());
        Failure::unfinished(format!("port {port} of {device} {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `first_usable` makes of devices that cannot be opened (`x`), that have no address (`-`) and that have one (`+`).
    fn chosen(devices: &str) -> Option<Result<usize, usize>> {
        let open = devices.chars().enumerate();
        let open = open.map(|(at, kind)| if kind == 'x' { Err(at) } else { Ok((at, kind)) });
        first_usable(open, |(_, kind)| *kind == '+').map(|chosen| chosen.map(|(at, _)| at))
    }

    #[test]
    fn of_devices_that_nobody_named_the_first_that_has_an_address_is_taken() {
        assert_eq!(chosen("x-+x+"), Some(Ok(2)));
        assert_eq!(chosen("xx--"), Some(Ok(2)), "the first that is open says itself what it lacks");
        assert_eq!(chosen("xx"), Some(Err(0)), "the first reason is told");
        assert_eq!(chosen(""), None);
    }

    #[test]
    fn a_device_that_may_get_its_address_late_is_told_to_have_been_left_out() {
        let line = guessed("mlx5_1", &["mlx5_0".to_string()]);
        assert!(line.contains("device mlx5_1") && line.contains("mlx5_0 has no IP address"), "{line}");
    }

    #[test]
    fn the_command_line_overrides_the_scenario_field_by_field() {
        let cluster =
            Cluster { device: Some("mlx5_0".into()), device_port: Some(2), gid: Some(3), ..Cluster::of(2) };
        let none = DeviceArgs { devices: Vec::new(), at: PortArgs::default() };
        let of_scenario = Choice { devices: vec!["mlx5_0".into()], port: Some(2), gid: Some(3) };
        assert_eq!(Choice::of(&none, &cluster), of_scenario);
        let given = DeviceArgs { at: PortArgs { gid: Some(5), ..none.at }, ..none };
        assert_eq!(Choice::of(&given, &cluster), Choice { gid: Some(5), ..of_scenario });
    }
}
