//! Linearizability (Herlihy and Wing 1990): what concurrent operations returned can be explained by one order of them,
//! in which each takes its place between its call and its return.
//!
//! The search for that order is [stateright](https://docs.rs/stateright)'s; an object is any of its
//! [`SequentialSpec`]s.

use crate::history::{Event, RequestId, What};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};
use std::collections::BTreeMap;
use std::fmt::Debug;
use weft_protocols::locks::Mode;

/// What a client did to an object, in the order of recording. A call that never returns may have had its effect or
/// not; its client calls nothing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call<O, R> {
    /// A client calls an operation.
    Invoked(u32, O),
    /// A client's call returns.
    Returned(u32, R),
}

/// A finished history of one object.
pub type Calls<S> = [Call<<S as SequentialSpec>::Op, <S as SequentialSpec>::Ret>];

/// The oracle of linearizability.
#[derive(Debug)]
pub struct Linearizability;

impl Linearizability {
    /// Its name.
    pub const NAME: &'static str = "linearizability";

    /// Judges a finished history of an object that began as `object`.
    ///
    /// # Errors
    ///
    /// No order explains it, or it is no history: a client called while it was in a call, or returned from none.
    pub fn judge<S>(object: S, calls: &Calls<S>) -> Result<(), String>
    where
        S: SequentialSpec + Clone + Debug,
        S::Op: Clone + Debug,
        S::Ret: Clone + Debug + PartialEq,
    {
        let mut tester = LinearizabilityTester::new(object);
        for call in calls {
            let kept = match call {
                Call::Invoked(client, op) => tester.on_invoke(*client, op.clone()).map(drop),
                Call::Returned(client, value) => tester.on_return(*client, value.clone()).map(drop),
            };
            kept.map_err(|why| format!("this is no history: {why}"))?;
        }
        if tester.is_consistent() {
            return Ok(());
        }
        let told: Vec<String> = calls.iter().map(told).collect();
        Err(format!("no order explains: {}", told.join(", ")))
    }
}

fn told<O: Debug, R: Debug>(call: &Call<O, R>) -> String {
    match call {
        Call::Invoked(client, op) => format!("c{client} calls {op:?}"),
        Call::Returned(client, value) => format!("c{client} has {value:?}"),
    }
}

/// A number that can be added to and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter(pub u64);

/// What is done to a [`Counter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterOp {
    /// Adds so much, and returns what was there before.
    Add(u64),
    /// Returns what is there.
    Read,
}

impl SequentialSpec for Counter {
    type Op = CounterOp;
    type Ret = u64;

    fn invoke(&mut self, op: &CounterOp) -> u64 {
        let was = self.0;
        if let CounterOp::Add(more) = op {
            self.0 = self.0.wrapping_add(*more);
        }
        was
    }
}

/// A lock that is held by one alone or by several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadersWriter {
    shared: u32,
    exclusive: bool,
}

/// What is done to a [`ReadersWriter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOp {
    /// Takes it; a call that would have to wait has no place yet.
    Take(Mode),
    /// Gives up a hold.
    Leave(Mode),
    /// Goes on sharing what was held alone.
    Downgrade,
}

/// Whether the object let the call through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// It did.
    Yes,
    /// Not in this state.
    No,
}

impl SequentialSpec for ReadersWriter {
    type Op = LockOp;
    type Ret = Through;

    fn invoke(&mut self, op: &LockOp) -> Through {
        let possible = match op {
            LockOp::Take(Mode::Shared) => !self.exclusive,
            LockOp::Take(Mode::Exclusive) => !self.exclusive && self.shared == 0,
            LockOp::Leave(Mode::Shared) => self.shared > 0,
            LockOp::Leave(Mode::Exclusive) | LockOp::Downgrade => self.exclusive,
        };
        if !possible {
            return Through::No;
        }
        match op {
            LockOp::Take(Mode::Shared) => self.shared += 1,
            LockOp::Take(Mode::Exclusive) => self.exclusive = true,
            LockOp::Leave(Mode::Shared) => self.shared -= 1,
            LockOp::Leave(Mode::Exclusive) => self.exclusive = false,
            LockOp::Downgrade => (self.exclusive, self.shared) = (false, self.shared + 1),
        }
        Through::Yes
    }
}

/// A history of one lock as calls of a [`ReadersWriter`]: a request is a call until it is granted; a release counts
/// from the moment when its client gives the lock up, which is when the history has it. Requests without a grant have
/// done nothing to the lock. Each request is a client of its own.
pub fn calls_of_a_lock(events: &[Event]) -> Vec<Call<LockOp, Through>> {
    let mut calls = Vec::new();
    let mut clients: BTreeMap<RequestId, u32> = BTreeMap::new();
    for event in events {
        let next = clients.len() as u32;
        let client = *clients.entry(event.request).or_insert(next);
        let at_once = |op| [Call::Invoked(client, op), Call::Returned(client, Through::Yes)];
        match event.what {
            What::Requested { .. } => calls.push(Call::Invoked(client, LockOp::Take(event.mode))),
            What::Granted { .. } => calls.push(Call::Returned(client, Through::Yes)),
            What::Downgraded { .. } => calls.extend(at_once(LockOp::Downgrade)),
            What::Released => calls.extend(at_once(LockOp::Leave(event.mode))),
            What::TimedOut | What::Refused | What::Failed => {
                let of_this = |call: &Call<_, _>| matches!(call, Call::Invoked(who, _) if *who == client);
                if let Some(place) = calls.iter().rposition(of_this) {
                    calls.remove(place);
                }
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ClientId;
    use crate::oracle::{MutualExclusion, Oracle};
    use Call::{Invoked, Returned};
    use CounterOp::{Add, Read};
    use stateright::semantics::register::{Register, RegisterOp, RegisterRet};
    use weft_protocols::locks::LockKey;
    use weft_sim::choice::Rng;
    use weft_verbs::Nanos;

    fn counter(calls: &Calls<Counter>) -> bool {
        Linearizability::judge(Counter(0), calls).is_ok()
    }

    #[test]
    fn a_counter_loses_no_addition_and_counts_none_twice() {
        let both = [Invoked(0, Add(1)), Invoked(1, Add(1))];
        let ends = |a, b| [&both[..], &[Returned(0, a), Returned(1, b)]].concat();
        assert!(counter(&ends(0, 1)) && counter(&ends(1, 0)), "they overlap: either may be first");
        assert!(!counter(&ends(0, 0)), "one of the two is lost");
        assert!(!counter(&[Invoked(0, Add(1)), Returned(0, 1)]), "it was done twice");
        let read = |n| [Invoked(0, Add(1)), Returned(0, 0), Invoked(0, Read), Returned(0, n)];
        assert!(counter(&read(1)) && !counter(&read(0)) && !counter(&read(2)));
    }

    #[test]
    fn what_ended_before_another_began_comes_before_it() {
        let one_by_one = |a, b| [Invoked(0, Add(1)), Returned(0, a), Invoked(1, Add(1)), Returned(1, b)];
        assert!(counter(&one_by_one(0, 1)) && !counter(&one_by_one(1, 0)));
    }

    #[test]
    fn a_call_that_never_returned_may_have_had_its_effect_or_not() {
        let unknown = |n| [Invoked(0, Add(1)), Invoked(1, Read), Returned(1, n)];
        assert!(counter(&unknown(0)) && counter(&unknown(1)) && !counter(&unknown(2)));
    }

    #[test]
    fn a_register_holds_what_was_written_last() {
        let history = |first, second| {
            let (write, read) = (RegisterOp::Write(7), RegisterOp::Read);
            let mut calls = vec![Invoked(0, write), Invoked(1, read.clone())];
            calls.extend([Returned(1, RegisterRet::ReadOk(first)), Invoked(1, read)]);
            calls.extend([Returned(1, RegisterRet::ReadOk(second)), Returned(0, RegisterRet::WriteOk)]);
            Linearizability::judge(Register(0), &calls)
        };
        assert!(history(0, 0).is_ok() && history(0, 7).is_ok() && history(7, 7).is_ok());
        assert!(history(7, 0).unwrap_err().starts_with("no order explains: c0 calls Write(7)"));
    }

    #[test]
    fn what_is_no_history_is_told_as_that() {
        let twice: [Call<CounterOp, u64>; 2] = [Invoked(0, Read), Invoked(0, Read)];
        let never: [Call<CounterOp, u64>; 1] = [Returned(0, 3)];
        for calls in [&twice[..], &never[..]] {
            assert!(Linearizability::judge(Counter(0), calls).unwrap_err().starts_with("this is no history"));
        }
    }

    /// Two oracles that know nothing of each other: a lock's history is linearizable just where nobody holds
    /// what excludes another.
    #[test]
    fn a_lock_is_linearizable_just_where_it_excludes() {
        let mut rng = Rng::from_seed(3);
        let mut broken = 0;
        for _ in 0..2_000 {
            let events = random_lock(&mut rng);
            let mut exclusion = MutualExclusion::default();
            let excludes = events.iter().all(|event| exclusion.observe(event).is_ok());
            let verdict = Linearizability::judge(ReadersWriter::default(), &calls_of_a_lock(&events));
            assert_eq!(verdict.is_ok(), excludes, "{events:#?}");
            broken += u32::from(!excludes);
        }
        assert!((200..1_800).contains(&broken), "both must be frequent: {broken}");
    }

    /// Four requests for a lock, of which some wait while it is held, and some do not.
    fn random_lock(rng: &mut Rng) -> Vec<Event> {
        let mut stage = [0; 4];
        let modes = stage.map(|_| Mode::ALL[rng.below(2) as usize]);
        let careful = rng.below(2) == 0;
        let mut events = Vec::new();
        for _ in 0..60 {
            let who = rng.below(4) as usize;
            let clashes =
                |other: usize| other != who && stage[other] == 2 && !modes[who].goes_with(modes[other]);
            let what = match stage[who] {
                0 => What::Requested { deadline: None },
                1 if careful && (0..4).any(clashes) => continue,
                1 if rng.below(10) == 0 => What::TimedOut,
                1 => What::Granted { token: None },
                2 => What::Released,
                _ => continue,
            };
            stage[who] = if what == What::TimedOut { 3 } else { stage[who] + 1 };
            let request = RequestId { client: ClientId { node: who as u32, index: 0 }, number: 0 };
            events.push(Event { at: Nanos::ZERO, request, key: LockKey(0), mode: modes[who], what });
        }
        events
    }
}
