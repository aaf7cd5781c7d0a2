//! What a client will ask for, request by request.

use super::KeyPicker;
use crate::history::ClientId;
use crate::scenario::{Share, Spread, Workload};
use std::rc::Rc;
use weft_protocols::locks::{LockKey, Mode};
use weft_sim::choice::Rng;
use weft_verbs::Nanos;

/// One request to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// How long the client rests first.
    pub think: Nanos,
    /// The lock.
    pub key: LockKey,
    /// The mode.
    pub mode: Mode,
    /// How long the client is willing to wait.
    pub manner: Manner,
    /// How long it holds what it is granted.
    pub hold: Nanos,
    /// Whether it downgrades an exclusive hold half-way.
    pub downgrade: bool,
}

/// How long a client is willing to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As long as it takes.
    Patient,
    /// This long.
    Hurried(Nanos),
    /// Not at all.
    Try,
}

/// The wishes of one client, in order. The same seed and client give the same wishes, whatever becomes of
/// them.
#[derive(Clone, Debug)]
pub struct Plan {
    work: Rc<Workload>,
    keys: Rc<KeyPicker>,
    rng: Rng,
    /// For downgrades alone: a share of them changes nothing else about the requests.
    downgrades: Rng,
}

impl Plan {
    /// The plan of one client in the run of one seed.
    pub fn new(work: &Rc<Workload>, keys: &Rc<KeyPicker>, seed: u64, client: ClientId) -> Plan {
        // Clients must not share a stream, nor may one's stream be another seed's: SplitMix64, which seeds
        // the generator, takes care of seeds that are near each other.
        let mut node = Rng::from_seed(seed ^ 0xc11e_4700_0000_0000 ^ (u64::from(client.node) << 16));
        let rng = Rng::from_seed(node.next_u64() ^ u64::from(client.index));
        let downgrades = Rng::from_seed(node.next_u64() ^ u64::from(client.index));
        Plan { work: Rc::clone(work), keys: Rc::clone(keys), rng, downgrades }
    }

    /// The next wish.
    pub fn wish(&mut self) -> Wish {
        let think = self.time(self.work.think);
        let key = self.keys.pick(&mut self.rng);
        let shared = whether(&mut self.rng, self.work.shared);
        let tries = whether(&mut self.rng, self.work.tries);
        let hurried = whether(&mut self.rng, self.work.hurried);
        let downgrade = whether(&mut self.downgrades, self.work.downgrades) && !shared;
        let hold = self.time(self.work.hold);
        let manner = match self.work.deadline {
            _ if tries => Manner::Try,
            Some(deadline) if hurried => Manner::Hurried(deadline.nanos()),
            _ => Manner::Patient,
        };
        let mode = if shared { Mode::Shared } else { Mode::Exclusive };
        Wish { think, key, mode, manner, hold, downgrade }
    }

    fn time(&mut self, spread: Spread) -> Nanos {
        let (min, max) = (spread.min.nanos(), spread.max.nanos());
        min + Nanos(self.rng.below((max - min).0.saturating_add(1)))
    }
}

/// Draws even for a share of nothing or all, so that one share does not shift what is drawn after it.
fn whether(rng: &mut Rng, share: Share) -> bool {
    const MILLION: u64 = 1_000_000;
    rng.below(MILLION) < u64::from(share.ppm())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn plan(extra: &str, node: u32, seed: u64) -> Plan {
        let head = "[cluster]\nnodes = 3\n[workload]\nkind = \"locks\"\nscheme = \"srsl\"\nrequests = 5\n";
        let work = Rc::new(Scenario::parse(&format!("{head}{extra}")).unwrap().workload);
        let keys = Rc::new(KeyPicker::new(work.keys, work.locks));
        Plan::new(&work, &keys, seed, ClientId { node, index: 0 })
    }

    fn wishes(mut plan: Plan) -> Vec<Wish> {
        (0..1_000).map(|_| plan.wish()).collect()
    }

    #[test]
    fn a_plan_is_its_seeds_and_its_clients() {
        const MIX: &str = "locks = 50\nshared = 0.5\n";
        let one = wishes(plan(MIX, 0, 1));
        assert_eq!(one, wishes(plan(MIX, 0, 1)));
        assert_ne!(one, wishes(plan(MIX, 1, 1)));
        assert_ne!(one, wishes(plan(MIX, 0, 2)));
    }

    #[test]
    fn shares_and_times_are_those_of_the_scenario() {
        let wishes = wishes(plan(
            "shared = 0.25\ntries = 0.5\ndeadline = \"9us\"\nhold = { min = \"2ns\", max = \"4ns\" }\n",
            0,
            1,
        ));
        let count = |wanted: &dyn Fn(&Wish) -> bool| wishes.iter().filter(|wish| wanted(wish)).count();
        assert!((200..300).contains(&count(&|wish| wish.mode == Mode::Shared)));
        assert!((430..570).contains(&count(&|wish| wish.manner == Manner::Try)));
        assert_eq!(count(&|wish| wish.manner == Manner::Patient), 0);
        for hold in 2..=4 {
            assert!(count(&|wish| wish.hold == Nanos(hold)) > 250);
        }
        assert_eq!(count(&|wish| wish.think != Nanos::ZERO), 0);
    }

    #[test]
    fn a_share_of_downgrades_is_of_exclusive_requests_and_changes_nothing_else() {
        const MIX: &str = "locks = 50\nshared = 0.5\n";
        let (without, with) =
            (wishes(plan(MIX, 0, 1)), wishes(plan(&format!("{MIX}downgrades = 0.5\n"), 0, 1)));
        let count = with.iter().filter(|wish| wish.downgrade).count();
        assert!((200..300).contains(&count), "{count}");
        assert!(with.iter().all(|wish| !wish.downgrade || wish.mode == Mode::Exclusive));
        assert_eq!(without, with.iter().map(|wish| Wish { downgrade: false, ..*wish }).collect::<Vec<_>>());
    }

    #[test]
    fn without_a_deadline_nobody_hurries() {
        assert!(wishes(plan("", 0, 1)).iter().all(|wish| wish.manner == Manner::Patient));
    }
}
