//! The door of a cluster of daemons: what commands ask systems through.

use crate::exit::Failure;
use crate::segment_args::ClusterArgs;
use weft_control::ask::{self, CallError};
use weft_control::message::{Answer, Call, Presence};
use weft_control::net::{Endpoint, Tcp};
use weft_control::secret::Secret;
use weft_control::timing::Timing;

/// Where daemons are asked.
pub struct Door {
    at: Endpoint,
    secret: Secret,
    /// The node that is to serve calls; none: the first one that runs the system.
    pub node: Option<u32>,
    timing: Timing,
    runtime: tokio::runtime::Runtime,
}

impl Door {
    /// The door of a cluster.
    ///
    /// # Errors
    /// The configuration or the secret cannot be read.
    pub fn new(of: &ClusterArgs, node: Option<u32>) -> Result<Door, Failure> {
        let ClusterArgs { cluster, at, secret } = of;
        let (at, secret) = crate::status::coordinator(cluster.as_deref(), at.as_ref(), secret.as_deref())?;
        Ok(Door { at, secret, node, timing: Timing::default(), runtime: crate::control::runtime()? })
    }

    /// Calls a system of a node: the node's rank, and its answer.
    ///
    /// # Errors
    /// It was not served: why.
    pub fn call(&self, node: Option<u32>, system: &str, body: Vec<u8>) -> Result<(u32, Vec<u8>), Failure> {
        let call = Call { node, system: system.to_string(), body };
        let asked = ask::system(&Tcp, &self.at, &self.secret, &self.timing, call);
        match self.runtime.block_on(asked).map_err(failure)? {
            (node, Answer::Done(bytes)) => Ok((node, bytes)),
            (_, Answer::Failed(why)) => Err(Failure::bad_input(why)),
        }
    }

    /// The nodes that are asked when all are: those that are here, or the one that was named.
    ///
    /// # Errors
    /// The coordinator does not answer.
    pub fn nodes(&self) -> Result<Vec<u32>, Failure> {
        if let Some(node) = self.node {
            return Ok(vec![node]);
        }
        let asked = ask::status(&Tcp, &self.at, &self.secret, &self.timing);
        let status = self.runtime.block_on(asked).map_err(failure)?;
        let here = status.members.iter().filter(|member| member.presence == Some(Presence::Present));
        Ok(here.map(|member| member.rank).collect())
    }
}

fn failure(why: CallError) -> Failure {
    match why.is_final() {
        true => Failure::bad_input(why),
        false => Failure::unfinished(why),
    }
}

/// A daemon of another version answered.
pub fn odd() -> Failure {
    Failure::unfinished("the daemon answers another question: are both programs of one version?")
}
