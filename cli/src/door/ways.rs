//! Ways to a node's systems: the door of this machine's daemon, and the coordinator.

use std::sync::OnceLock;
use weft_control::ask::{CallError, Callee, Caller, Meeting};
use weft_control::message::{Answer, Call};
use weft_control::net::{Endpoint, Tcp};
use weft_control::timing::Timing;

/// The ways to the nodes of a cluster.
pub struct Ways {
    coordinator: Caller<Tcp>,
    near: Option<Near>,
}

/// The daemon of this machine.
struct Near {
    caller: Caller<Tcp>,
    /// Its node, once that is known.
    node: OnceLock<u32>,
}

impl Ways {
    /// To the coordinator of a cluster; where this machine's daemon has a door, to that one as well, with the rank of its node if the cluster's
    /// file says it.
    pub fn new(of: &Meeting, door: Option<(Endpoint, Option<u32>)>, timing: Timing) -> Ways {
        let near = door.map(|(at, own)| {
            let of = Meeting { at: Callee::Daemon(at), ..of.clone() };
            Near { caller: Caller::new(Tcp, of, timing), node: own.map(OnceLock::from).unwrap_or_default() }
        });
        Ways { coordinator: Caller::new(Tcp, of.clone(), timing), near }
    }

    /// Calls a system of a node: the node's rank, and its answer. A call for this machine's node, or for any, goes to its own door; what that
    /// does not take goes to the coordinator.
    pub async fn call(&self, call: Call) -> Result<(u32, Answer), CallError> {
        let serves = |near: &&Near| call.node.is_none_or(|node| near.node.get() == Some(&node));
        if let Some(near) = self.near.as_ref().filter(serves) {
            match near.caller.call(call.clone()).await {
                // No node was asked.
                Err(why) if !why.may_have_come() => {}
                Ok((node, answer)) => return Ok((*near.node.get_or_init(|| node), answer)),
                ended => return ended,
            }
        }
        self.coordinator.call(call).await
    }
}
