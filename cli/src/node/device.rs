//! The device on which something runs: which one, by which port, and by which of the port's addresses.

use crate::device_args::DeviceArgs;
use crate::exit::Failure;
use std::sync::Arc;
use weft_check::scenario::Cluster;
use weft_hw::{HwContext, HwDevice};
use weft_store::Objects;
use weft_verbs::Device;

/// What was chosen; the rest is the device's own order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    device: Option<String>,
    port: Option<u8>,
    gid: Option<u8>,
}

impl From<&DeviceArgs> for Choice {
    fn from(args: &DeviceArgs) -> Choice {
        Choice { device: args.device.clone(), port: args.device_port, gid: args.gid }
    }
}

impl Choice {
    /// What the command line says, and otherwise the scenario.
    pub fn of(args: &DeviceArgs, cluster: &Cluster) -> Choice {
        let given = Choice::from(args);
        Choice {
            device: given.device.or_else(|| cluster.device.clone()),
            port: given.port.or(cluster.device_port),
            gid: given.gid.or(cluster.gid),
        }
    }

    /// What a daemon's configuration says.
    pub fn of_daemon(node: &weft_control::daemon::config::Node) -> Choice {
        Choice { device: node.device.clone(), port: node.device_port, gid: node.gid }
    }

    /// Opens the device and chooses on it. The machine's disk is that store, if there is one.
    pub fn open(&self, store: Option<&Arc<Objects>>) -> Result<HwContext, Failure> {
        let device = HwDevice::find(self.device.as_deref()).map_err(Failure::unfinished)?;
        let device = device.ok_or_else(|| match &self.device {
            Some(name) => Failure::bad_input(format!(
                "this machine has no RDMA device {name} (`weft devices` lists those that it has)"
            )),
            None => Failure::unfinished(
                "this machine has no RDMA device: `weft devices` lists them, hw-backend/README.md says what one needs",
            ),
        })?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_overrides_the_scenario_field_by_field() {
        let cluster =
            Cluster { device: Some("mlx5_0".into()), device_port: Some(2), gid: Some(3), ..Cluster::of(2) };
        let none = DeviceArgs { device: None, device_port: None, gid: None };
        let of_scenario = Choice { device: Some("mlx5_0".into()), port: Some(2), gid: Some(3) };
        assert_eq!(Choice::of(&none, &cluster), of_scenario);
        let given = DeviceArgs { gid: Some(5), ..none };
        assert_eq!(Choice::of(&given, &cluster), Choice { gid: Some(5), ..of_scenario });
    }
}
