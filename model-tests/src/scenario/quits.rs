//! `[quits]`: users that do not wait for the end of their calls.

use crate::fields::{Rule, Share, Span, Spread, broken, draw, in_section};
use crate::history::ClientId;
use serde::{Deserialize, Serialize};
use weft_sim::choice::Rng;
use weft_verbs::Nanos;

/// Users that drop calls before they end, as `select` and time-outs do: the future of the call is dropped, wherever it waits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quits {
    /// The share of calls that are dropped, if they have not ended by then.
    pub share: Share,
    /// How long after its call a user drops it. Default: 0 to 50 us, any moment of a call without contention and of many that wait.
    #[serde(default = "soon")]
    pub after: Spread,
}

fn soon() -> Spread {
    Spread { min: Span(Nanos::ZERO), max: Span(Nanos::from_micros(50)) }
}

impl Quits {
    /// When a client of a run drops its calls, by the run's seed.
    pub fn by(self, seed: u64, client: ClientId) -> Quitter {
        let [rng] = draw::of_client(seed ^ 0x7175_6974_0000_0000, client);
        Quitter { quits: self, rng }
    }

    pub(super) fn check(&self) -> Rule {
        if self.share == Share::NONE {
            return broken(in_section("quits", "share"), "above 0, or leave [quits] out".into());
        }
        Ok(())
    }
}

/// One client that drops calls.
pub struct Quitter {
    quits: Quits,
    rng: Rng,
}

impl Quitter {
    /// How long after its next call the client drops it, if it does.
    pub(crate) fn next(&mut self) -> Option<Nanos> {
        let after = draw::time(&mut self.rng, self.quits.after);
        draw::whether(&mut self.rng, self.quits.share).then_some(after)
    }
}
