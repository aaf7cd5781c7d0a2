//! A node's side: it joins, stays, and leaves.
//!
//! A task keeps the connection to the coordinator (the module `keep`): it makes a new one when it breaks, for as long as the
//! node lives. Systems that run on the cluster do not stop for that; they see in [`Members`] that the coordinator is
//! away, and what they know of the others stays as it was.

use crate::ask::CallError;
use crate::coordinator::CLIENTS;
use crate::frame::span;
pub use crate::keep::Called;
use crate::keep::{self, Command};
use crate::message::{Answer, Entry, Join, Presence, REPORT, Report, encode};
use crate::net::{Endpoint, Network};
use crate::secret::Secret;
use crate::timing::Timing;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// What a node needs to join.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the coordinator is.
    pub at: Endpoint,
    /// What the node says of itself.
    pub join: Join,
    /// The cluster's secret.
    pub secret: Secret,
    /// How long things take.
    pub timing: Timing,
    /// How long the first attempts to join may take in all: the coordinator may start later than the node.
    pub patience: Duration,
}

/// Why a node is not in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// It was not let in, and another attempt would end alike.
    #[error(transparent)]
    Call(#[from] CallError),
    /// It tried for as long as it may.
    #[error("{last}; tried for {}", span(*.tried))]
    GaveUp {
        /// For how long.
        tried: Duration,
        /// What the last attempt came to.
        last: CallError,
    },
    /// The coordinator ended.
    #[error("the coordinator at {at} has ended the cluster")]
    Ended {
        /// Where it was.
        at: Endpoint,
    },
    /// The report is too long.
    #[error("a report of {bytes} bytes is too long: it may have {REPORT}")]
    Report {
        /// How long it is, as JSON.
        bytes: usize,
    },
}

/// What a node knows of its cluster.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// The latest that was told of each rank; ranks that never came are not in it.
    pub entries: BTreeMap<u32, Entry>,
    /// Whether the coordinator is there at this moment.
    pub coordinator: bool,
    /// Why the node is not in the cluster any more, if so.
    pub ended: Option<MemberError>,
}

impl Members {
    /// Which of so many nodes are not there.
    pub fn missing(&self, nodes: u32) -> Vec<u32> {
        let here =
            |rank: &u32| self.entries.get(rank).is_some_and(|entry| entry.presence == Presence::Present);
        (0..nodes).filter(|rank| !here(rank)).collect()
    }
}

/// A node's place in its cluster. Dropped without [`Membership::leave`], it counts as lost.
#[derive(Debug)]
pub struct Membership {
    members: watch::Receiver<Members>,
    commands: mpsc::Sender<Command>,
    data: mpsc::Receiver<Vec<u8>>,
    calls: mpsc::Receiver<Called>,
    task: JoinHandle<()>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Joins a cluster: tries until it is in, is refused, or has tried for as long as it may.
///
/// # Errors
/// See [`MemberError`].
pub async fn join<N: Network>(net: N, config: Config) -> Result<Membership, MemberError> {
    let first = keep::enter_first(&net, &config).await?;
    let (tell, members) = watch::channel(Members { coordinator: true, ..Members::default() });
    let (commands, asked) = mpsc::channel(crate::connection::QUEUE);
    let (pass, data) = mpsc::channel(crate::connection::QUEUE);
    // As many as can ask at a time: one more is of a client that has gone.
    let (call, calls) = mpsc::channel(CLIENTS);
    tracing::info!("node {}: joined cluster '{}' at {}", config.join.rank, config.join.cluster, config.at);
    let task = tokio::spawn(keep::Keeper::new(net, config, tell, pass, call).run(first, asked));
    Ok(Membership { members, commands, data, calls, task })
}

impl Membership {
    /// What the node knows of its cluster, as it changes.
    pub fn members(&self) -> watch::Receiver<Members> {
        self.members.clone()
    }

    /// Waits until the node is not in the cluster any more, for another reason than that it left.
    pub fn ended(&self) -> impl Future<Output = MemberError> + use<> {
        let mut members = self.members.clone();
        async move {
            let ended = members.wait_for(|members| members.ended.is_some()).await;
            match ended.ok().and_then(|members| members.ended.clone()) {
                Some(why) => why,
                // The task only goes with the membership.
                None => std::future::pending().await,
            }
        }
    }

    /// Reports of the node and its systems, in place of what was reported before. A view of members goes this way.
    ///
    /// # Errors
    /// It is longer than [`REPORT`].
    pub async fn report(&self, report: Report) -> Result<(), MemberError> {
        let bytes = encode(&report).len();
        if bytes > REPORT {
            return Err(MemberError::Report { bytes });
        }
        // Without its task the node is not in the cluster, and nobody asks.
        let _ = self.commands.send(Command::Report(report)).await;
        Ok(())
    }

    /// Sends data to those above the coordinator. What is sent while it is away is lost, as is what was on its way.
    pub async fn send(&self, data: Vec<u8>) {
        let _ = self.commands.send(Command::Data(data)).await;
    }

    /// The next data from those above the coordinator; `None` once the node is not in the cluster any more.
    pub async fn data(&mut self) -> Option<Vec<u8>> {
        self.data.recv().await
    }

    /// The next call of a client to a system of this node; `None` once the node is not in the cluster any more.
    pub async fn called(&mut self) -> Option<Called> {
        self.calls.recv().await
    }

    /// Answers a call. What is said while the coordinator is away is lost: it has told the client already.
    pub async fn answer(&self, id: u64, answer: Answer) {
        let _ = self.commands.send(Command::Answer(id, answer)).await;
    }

    /// Leaves: says so, and waits for the answer as long as one may take.
    pub async fn leave(mut self) {
        if self.commands.send(Command::Leave).await.is_ok() {
            let _ = (&mut self.task).await;
        }
    }
}
