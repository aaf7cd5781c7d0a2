//! The devices on which something runs: which ones, by which port, and by which of the port's addresses.

use crate::device_args::DeviceArgs;
use crate::exit::Failure;
use std::net::IpAddr;
use std::sync::Arc;
use weft_check::scenario::Cluster;
use weft_hw::{HwContext, HwDevice};
use weft_store::Objects;
use weft_verbs::Device;

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
        Choice { devices: args.devices.clone(), port: args.device_port, gid: args.gid }
    }
}

impl Choice {
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

    /// Opens the one device. The machine's disk is that store, if there is one.
    pub fn open(&self, store: Option<&Arc<Objects>>) -> Result<HwContext, Failure> {
        if self.devices.len() > 1 {
            let named = self.devices.len();
            return Err(Failure::bad_input(format!("{named} devices are named, and one is used here")));
        }
        let name = self.devices.first().map(String::as_str);
        let device = HwDevice::find(name).map_err(Failure::unfinished)?;
        self.choose(&device.ok_or_else(|| absent(name))?, store)
    }

    /// Opens a device for each of so many rails. Where none is named, they are the first ones that have an IP address.
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
        for device in self.candidates()? {
            // The disk is one of the node, not of an adapter.
            let context = self.choose(&device, store.filter(|_| contexts.is_empty()))?;
            if named != 0 || context.address().is_some() {
                contexts.push(context);
            }
            if contexts.len() == rails {
                return Ok(contexts);
            }
        }
        let found = contexts.len();
        Err(Failure::bad_input(format!(
            "the scenario has {rails} rails, and this machine has {found} RDMA devices with an IP address (`weft devices` lists them)"
        )))
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
            Failure::bad_input(format!(
                "device {name}, port {port}{gid}: {error} (`weft devices` lists them)"
            ))
        })?;
        Ok(context)
    }
}

fn absent(name: Option<&str>) -> Failure {
    match name {
        Some(name) => Failure::bad_input(format!(
            "this machine has no RDMA device {name} (`weft devices` lists those that it has)"
        )),
        None => Failure::unfinished(
            "this machine has no RDMA device: `weft devices` lists them, hw-backend/README.md says what one needs",
        ),
    }
}

/// Where peers find an adapter.
pub fn address(context: &HwContext) -> Result<IpAddr, Failure> {
    context.address().ok_or_else(|| {
        let (device, port) = (context.device_name(), context.port());
        Failure::bad_input(format!("port {port} of {device} has no IP address, by which peers find it"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_overrides_the_scenario_field_by_field() {
        let cluster =
            Cluster { device: Some("mlx5_0".into()), device_port: Some(2), gid: Some(3), ..Cluster::of(2) };
        let none = DeviceArgs { devices: Vec::new(), device_port: None, gid: None };
        let of_scenario = Choice { devices: vec!["mlx5_0".into()], port: Some(2), gid: Some(3) };
        assert_eq!(Choice::of(&none, &cluster), of_scenario);
        let given = DeviceArgs { gid: Some(5), ..none };
        assert_eq!(Choice::of(&given, &cluster), Choice { gid: Some(5), ..of_scenario });
    }
}
