//! Linearizability (Herlihy and Wing 1990): what concurrent operations returned can be explained by one order of them,
//! in which each takes its place between its call and its return.
//!
//! The search for that order is Wing and Gong's (1993), with the states that were tried before kept, as Lowe's (2017) is.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;

/// An object as one client alone would know it: what each operation returns, and what it leaves behind.
pub trait SequentialSpec {
    /// What can be done to it.
    type Op;
    /// What that returns.
    type Ret;

    /// Does it.
    fn invoke(&mut self, op: &Self::Op) -> Self::Ret;
}

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
        S: SequentialSpec + Clone + Eq + Hash,
        S::Op: Debug,
        S::Ret: Debug + PartialEq,
    {
        let operations = operations::<S>(calls)?;
        let mut search = Search { operations: &operations, tried: HashSet::new() };
        if search.explains(&mut vec![false; operations.len()], &object) {
            return Ok(());
        }
        let told: Vec<String> = calls.iter().map(told).collect();
        Err(format!("no order explains: {}", told.join(", ")))
    }
}

/// One call of a history: when it began, and when and with what it ended, if it did.
struct Operation<'a, S: SequentialSpec> {
    op: &'a S::Op,
    began: usize,
    ended: Option<(usize, &'a S::Ret)>,
}

/// The calls of a history, each with its return.
fn operations<S: SequentialSpec>(calls: &Calls<S>) -> Result<Vec<Operation<'_, S>>, String> {
    let mut operations: Vec<Operation<'_, S>> = Vec::new();
    let mut open: BTreeMap<u32, usize> = BTreeMap::new();
    for (place, call) in calls.iter().enumerate() {
        match call {
            Call::Invoked(client, op) => {
                if open.insert(*client, operations.len()).is_some() {
                    return Err(format!("this is no history: c{client} calls while it is in a call"));
                }
                operations.push(Operation { op, began: place, ended: None });
            }
            Call::Returned(client, value) => match open.remove(client) {
                Some(number) => operations[number].ended = Some((place, value)),
                None => return Err(format!("this is no history: c{client} returns from no call")),
            },
        }
    }
    Ok(operations)
}

struct Search<'a, S: SequentialSpec> {
    operations: &'a [Operation<'a, S>],
    /// Which operations had taken place, and what they had made of the object, wherever that led to nothing.
    tried: HashSet<(Vec<bool>, S)>,
}

impl<S: SequentialSpec<Ret: PartialEq> + Clone + Eq + Hash> Search<'_, S> {
    /// Whether the operations that have not taken place yet can, one after the other, and each returns what it did.
    fn explains(&mut self, placed: &mut Vec<bool>, object: &S) -> bool {
        let operations = self.operations;
        let left = || operations.iter().zip(placed.iter()).filter(|(_, placed)| !**placed);
        // What begins after this has another before it.
        let Some(first_end) = left().filter_map(|(operation, _)| Some(operation.ended?.0)).min() else {
            return true;
        };
        if !self.tried.insert((placed.clone(), object.clone())) {
            return false;
        }
        for (number, operation) in operations.iter().enumerate() {
            if placed[number] || operation.began > first_end {
                continue;
            }
            let mut next = object.clone();
            let value = next.invoke(operation.op);
            if operation.ended.is_none_or(|(_, returned)| *returned == value) {
                placed[number] = true;
                if self.explains(placed, &next) {
                    return true;
                }
                placed[number] = false;
            }
        }
        false
    }
}

fn told<O: Debug, R: Debug>(call: &Call<O, R>) -> String {
    match call {
        Call::Invoked(client, op) => format!("c{client} calls {op:?}"),
        Call::Returned(client, value) => format!("c{client} has {value:?}"),
    }
}

/// A number that can be added to and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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

    /// A word that is written and read.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Register(u64);

    #[derive(Clone, Debug)]
    enum RegisterOp {
        Write(u64),
        Read,
    }

    #[derive(Clone, Debug, PartialEq)]
    enum RegisterRet {
        WriteOk,
        ReadOk(u64),
    }

    impl SequentialSpec for Register {
        type Op = RegisterOp;
        type Ret = RegisterRet;

        fn invoke(&mut self, op: &RegisterOp) -> RegisterRet {
            match op {
                RegisterOp::Write(value) => {
                    self.0 = *value;
                    RegisterRet::WriteOk
                }
                RegisterOp::Read => RegisterRet::ReadOk(self.0),
            }
        }
    }

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
