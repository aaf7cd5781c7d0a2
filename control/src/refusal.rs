//! Why somebody is turned away, word by word: the same line is shown on both sides.

use serde::{Deserialize, Serialize};

/// Why the coordinator turned a node or a client away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// It does not know the secret.
    #[error("the secrets differ: give both ends the same file, or neither one")]
    Secret,
    /// It belongs to another cluster.
    #[error("this is cluster '{coordinator}', and the caller belongs to '{caller}': is the address right?")]
    Cluster {
        /// The coordinator's.
        coordinator: String,
        /// The caller's.
        caller: String,
    },
    /// It is of another version.
    #[error(
        "the coordinator is of version {coordinator}, and the caller of {caller}: install the same one on all machines"
    )]
    Program {
        /// The coordinator's.
        coordinator: String,
        /// The caller's.
        caller: String,
    },
    /// It has another scenario, or runs other systems.
    #[error(
        "the coordinator and the caller do not run the same ({} and {}): give all machines the same file and options",
        runs(coordinator),
        runs(caller)
    )]
    Scenario {
        /// The coordinator's.
        coordinator: String,
        /// The caller's.
        caller: String,
    },
    /// It thinks that there are more nodes, or fewer.
    #[error("the cluster has {coordinator} nodes, and the caller says {caller}")]
    Nodes {
        /// As the coordinator knows.
        coordinator: u32,
        /// As the caller says.
        caller: u32,
    },
    /// There is no such rank.
    #[error("there is no rank {rank}: the cluster's ranks are 0 to {last}")]
    NoSuchRank {
        /// As the caller says.
        rank: u32,
        /// The last one.
        last: u32,
    },
    /// Another node has the rank, and answers.
    #[error("rank {rank} is taken by {holder}, which is alive: give this node a rank of its own")]
    RankTaken {
        /// Which rank.
        rank: u32,
        /// Where its holder is.
        holder: String,
    },
    /// What it says of itself is too long.
    #[error("{what} has {bytes} bytes, and at most {most} are taken")]
    TooLong {
        /// What is too long.
        what: String,
        /// How long.
        bytes: u64,
        /// How long it may be.
        most: u64,
    },
    /// As many clients ask as may.
    #[error("{most} clients ask at this moment, and more are not served: ask again")]
    Full {
        /// How many may.
        most: u32,
    },
    /// No node runs what a call is for.
    #[error("no node that is here runs {system}: `weft status` shows what they run")]
    NoSystem {
        /// What was called for.
        system: String,
    },
    /// The node that a call is for is not there.
    #[error("node {node} is not here")]
    NotHere {
        /// Its rank.
        node: u32,
    },
    /// The node that a call is for went before it answered.
    #[error("node {node} was lost before it answered: whether it did what was asked is not known")]
    LostAmid {
        /// Its rank.
        node: u32,
    },
    /// The node that a call is for did not answer.
    #[error("node {node} did not answer within {seconds} s: whether it does what was asked is not known")]
    NoAnswer {
        /// Its rank.
        node: u32,
        /// For how long it was waited.
        seconds: u64,
    },
    /// The coordinator ends.
    #[error("the coordinator is ending")]
    Ending,
}

/// What somebody runs, as people read it.
fn runs(scenario: &str) -> &str {
    if scenario.is_empty() { "no systems" } else { scenario }
}
