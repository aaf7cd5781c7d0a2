//! `members` in `[cluster]`: how nodes agree on who is alive.

use crate::fields::{LONGEST, Rule, Span, broken, in_section};
use serde::{Deserialize, Serialize};
use weft_protocols::members::{MembersConfig, longest};
use weft_protocols::transport::MeshConfig;
use weft_verbs::Nanos;

/// How nodes agree on who is alive (docs/members.md): what a node holds counts while its lease runs, and what one that died held
/// is granted on when that has run out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Membership {
    /// How long a lease runs. Default: the members', `"100ms"`.
    #[serde(default = "lease")]
    pub lease: Span,
    /// By how much two clocks may differ over one lease. Default: the members', `"1ms"`.
    #[serde(default = "drift")]
    pub drift: Span,
    /// How long a member that is asked may be silent before it is suspected. Default: the members', `"50ms"`.
    #[serde(default = "patience")]
    pub patience: Span,
}

/// The shortest lease and patience: a hundred times what a message and its answer take. Shorter ones end before they can be renewed.
const SHORTEST: Nanos = Nanos::from_millis(1);

const USUAL: MembersConfig = MembersConfig::new(0);

fn lease() -> Span {
    Span(USUAL.lease)
}

fn drift() -> Span {
    Span(USUAL.drift)
}

fn patience() -> Span {
    Span(USUAL.patience)
}

impl Default for Membership {
    fn default() -> Membership {
        Membership { lease: lease(), drift: drift(), patience: patience() }
    }
}

impl Membership {
    /// The settings of the members of so many nodes.
    pub fn config(&self, nodes: u32) -> MembersConfig {
        let [lease, drift, patience] = [self.lease, self.drift, self.patience].map(Span::nanos);
        MembersConfig { nodes, lease, drift, patience }
    }

    /// What members need of the connections of so many nodes.
    pub fn mesh(&self, nodes: u32, config: &mut MeshConfig) {
        config.max_message = config.max_message.max(longest(nodes));
    }

    /// After how long at most the others go on without one that died: they look at it a patience and a third of a lease later, the one that
    /// begins the next view asks it for a patience itself, and what it held is free once its lease has run out by all clocks. The first
    /// view begins no later.
    fn goes_on_after(&self) -> Nanos {
        let [lease, drift, patience] = [self.lease, self.drift, self.patience].map(|span| span.nanos().0);
        Nanos(2 * patience + lease / 3 + lease + drift)
    }

    /// Checks that requests have the time to end that wait for one that died.
    pub(super) fn check_settle(&self, settle: Span) -> Rule {
        let least = self.goes_on_after();
        match settle.nanos() > least {
            true => Ok(()),
            false => {
                let least = Span(least);
                broken(
                    in_section("run", "settle"),
                    format!("more than {least}: so long members go on waiting for one that has died"),
                )
            }
        }
    }

    pub(super) fn check(&self) -> Rule {
        let at = || in_section("cluster", "members");
        if [self.lease, self.patience].iter().any(|span| !(SHORTEST..=LONGEST).contains(&span.nanos())) {
            return broken(at(), "lease and patience are from 1ms to a day".into());
        }
        match self.drift < self.lease {
            true => Ok(()),
            false => broken(at(), "drift is shorter than lease".into()),
        }
    }
}
