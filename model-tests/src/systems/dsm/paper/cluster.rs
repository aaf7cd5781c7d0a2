//! The paper's cluster: a few nodes, each with its own way to learn of completions.

use crate::paper::{Cluster, PaperError};
use weft_sim::Config;
use weft_sim::profile::Profile;
use weft_verbs::Wait;

/// The longest message, in bytes: notices carry minipages of 4 KiB.
const LONGEST: u32 = 4_096 + 64;

/// A node for each way.
pub(super) fn cluster(profile: &Profile, waits: &[Wait]) -> Result<Cluster, PaperError> {
    let config = Config::new(waits.len() as u32, profile.clone());
    Cluster::new(config, |node| waits[node as usize], |mesh| mesh.max_message = LONGEST)
}
