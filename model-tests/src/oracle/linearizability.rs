//! Linearizability (Herlihy and Wing 1990): what concurrent operations returned can be explained by one order of them,
//! in which each takes its place between its call and its return.
//!
//! The search for that order is [stateright](https://docs.rs/stateright)'s; an object is any of its
//! [`SequentialSpec`]s.

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};
use std::fmt::Debug;

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

#[cfg(test)]
mod tests {
    use super::*;
    use Call::{Invoked, Returned};
    use CounterOp::{Add, Read};
    use stateright::semantics::register::{Register, RegisterOp, RegisterRet};

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
}
