//! What a client will ask for, request by request.

use super::{KeyPicker, LockWork};
use crate::fields::draw;
use crate::history::ClientId;
use std::rc::Rc;
use weft_protocols::locks::{LockKey, Mode};
use weft_sim::choice::Rng;
use weft_verbs::Nanos;

/// One request to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How long the client rests first.
    pub think: Nanos,
    /// The lock.
    pub key: LockKey,
    /// The mode.
    pub mode: Mode,
    /// How long the client is willing to wait.
    pub wait: WaitPolicy,
    /// How long it holds what it is granted.
    pub hold: Nanos,
    /// Whether it downgrades an exclusive hold half-way.
    pub downgrade: bool,
}

/// How long a client is willing to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// As long as it takes.
    Wait,
    /// This long.
    Until(Nanos),
    /// Not at all.
    Try,
}

/// The requests of one client, in order. The same seed and client give the same requests, whatever becomes of
/// them.
#[derive(Clone, Debug)]
pub struct Plan {
    work: Rc<LockWork>,
    keys: Rc<KeyPicker>,
    rng: Rng,
    /// For downgrades alone: a share of them changes nothing else about the requests.
    downgrades: Rng,
}

impl Plan {
    /// The plan of one client in the run of one seed.
    pub fn new(work: &Rc<LockWork>, keys: &Rc<KeyPicker>, seed: u64, client: ClientId) -> Plan {
        let [rng, downgrades] = draw::of_client(seed ^ 0xc11e_4700_0000_0000, client);
        Plan { work: Rc::clone(work), keys: Rc::clone(keys), rng, downgrades }
    }

    /// The next request.
    pub fn request(&mut self) -> Request {
        let think = draw::time(&mut self.rng, self.work.think);
        let key = self.keys.pick(&mut self.rng);
        let shared = draw::whether(&mut self.rng, self.work.shared);
        let tries = draw::whether(&mut self.rng, self.work.tries);
        let hurried = draw::whether(&mut self.rng, self.work.hurried);
        let downgrade = draw::whether(&mut self.downgrades, self.work.downgrades) && !shared;
        let hold = draw::time(&mut self.rng, self.work.hold);
        let wait = match self.work.deadline {
            _ if tries => WaitPolicy::Try,
            Some(deadline) if hurried => WaitPolicy::Until(deadline.nanos()),
            _ => WaitPolicy::Wait,
        };
        let mode = if shared { Mode::Shared } else { Mode::Exclusive };
        Request { think, key, mode, wait, hold, downgrade }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(extra: &str, node: u32, seed: u64) -> Plan {
        let head = "scheme = \"srsl\"\nrequests = 5\n";
        let work = Rc::new(toml::from_str::<LockWork>(&format!("{head}{extra}")).unwrap());
        let keys = Rc::new(KeyPicker::new(work.keys, work.locks));
        Plan::new(&work, &keys, seed, ClientId { node, index: 0 })
    }

    fn requests(mut plan: Plan) -> Vec<Request> {
        (0..1_000).map(|_| plan.request()).collect()
    }

    #[test]
    fn a_plan_is_its_seeds_and_its_clients() {
        const MIX: &str = "locks = 50\nshared = 0.5\n";
        let one = requests(plan(MIX, 0, 1));
        assert_eq!(one, requests(plan(MIX, 0, 1)));
        assert_ne!(one, requests(plan(MIX, 1, 1)));
        assert_ne!(one, requests(plan(MIX, 0, 2)));
    }

    #[test]
    fn shares_and_times_are_those_of_the_scenario() {
        let requests = requests(plan(
            "shared = 0.25\ntries = 0.5\ndeadline = \"9us\"\nhold = { min = \"2ns\", max = \"4ns\" }\n",
            0,
            1,
        ));
        let count =
            |wanted: &dyn Fn(&Request) -> bool| requests.iter().filter(|request| wanted(request)).count();
        assert!((200..300).contains(&count(&|request| request.mode == Mode::Shared)));
        assert!((430..570).contains(&count(&|request| request.wait == WaitPolicy::Try)));
        assert_eq!(count(&|request| request.wait == WaitPolicy::Wait), 0);
        for hold in 2..=4 {
            assert!(count(&|request| request.hold == Nanos(hold)) > 250);
        }
        assert_eq!(count(&|request| request.think != Nanos::ZERO), 0);
    }

    #[test]
    fn a_share_of_downgrades_is_of_exclusive_requests_and_changes_nothing_else() {
        const MIX: &str = "locks = 50\nshared = 0.5\n";
        let (without, with) =
            (requests(plan(MIX, 0, 1)), requests(plan(&format!("{MIX}downgrades = 0.5\n"), 0, 1)));
        let count = with.iter().filter(|request| request.downgrade).count();
        assert!((200..300).contains(&count), "{count}");
        assert!(with.iter().all(|request| !request.downgrade || request.mode == Mode::Exclusive));
        assert_eq!(
            without,
            with.iter().map(|request| Request { downgrade: false, ..*request }).collect::<Vec<_>>()
        );
    }

    #[test]
    fn without_a_deadline_nobody_hurries() {
        assert!(requests(plan("", 0, 1)).iter().all(|request| request.wait == WaitPolicy::Wait));
    }
}
