//! What the nodes say to each other and ask of words, and what becomes of it.

use super::rank;
use crate::locks::LockKey;
use crate::locks::ncosed::messages::Message;
use crate::locks::ncosed::world::Arrival;
use crate::locks::ncosed::{OutcomeUnknown, Wire, Word};
use crate::locks::stats::Counters;
use crate::rt::WaitPoint;
use crate::transport::Rank;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::rc::Rc;
use weft_verbs::RemoteSlice;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    About(Message),
    Reported,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Swap { compare: Word, swap: Word },
    Add(u64),
}

pub(super) struct Atomic {
    pub(super) by: usize,
    /// None where its home itself asked, in this view.
    pub(super) arrival: Option<Rc<RefCell<Arrival>>>,
    pub(super) view: u64,
    pub(super) home: usize,
    pub(super) at: u64,
    pub(super) operation: Operation,
    pub(super) was: Option<Word>,
    /// It executes no more, and its outcome is not told.
    pub(super) fenced: bool,
}

#[derive(Default)]
pub(super) struct Shared {
    pub(super) ways: BTreeMap<(usize, usize), VecDeque<(u64, Said)>>,
    pub(super) atomics: Vec<Atomic>,
    /// In which view each node acts.
    pub(super) views: Vec<u64>,
    /// Who was left out, of all views after the first.
    pub(super) gone: Option<usize>,
    pub(super) log: String,
}

impl Shared {
    pub(super) fn say(&mut self, from: usize, to: usize, said: Said) {
        let _ = writeln!(self.log, "  n{from} -> n{to} in v{}: {said:?}", self.views[from]);
        let view = self.views[from];
        self.ways.entry((from, to)).or_default().push_back((view, said));
    }
}

pub(super) struct NodeWire {
    pub(super) me: usize,
    pub(super) shared: Rc<RefCell<Shared>>,
    pub(super) counters: Counters,
}

impl NodeWire {
    async fn atomic(
        &self,
        home: Rank,
        at: RemoteSlice,
        operation: Operation,
    ) -> Result<Word, OutcomeUnknown> {
        let arrival = Rc::new(RefCell::new(Arrival::default()));
        {
            let mut shared = self.shared.borrow_mut();
            let (arrival, view) = (Some(Rc::clone(&arrival)), shared.views[self.me]);
            let (by, home, at) = (self.me, home.index(), at.addr);
            let _ = writeln!(shared.log, "  n{by} asks n{home} for {operation:?} at {at:x}");
            // One whom its home has expelled.
            let fenced = shared.gone == Some(by) && shared.views[home] > 1;
            shared.atomics.push(Atomic { by, arrival, view, home, at, operation, was: None, fenced });
        }
        Arrival::wait(&arrival).at(()).await
    }
}

impl Wire for NodeWire {
    fn me(&self) -> Rank {
        rank(self.me)
    }

    fn view(&self) -> u64 {
        self.shared.borrow().views[self.me]
    }

    fn send(&self, to: Rank, _: LockKey, message: Message) {
        self.shared.borrow_mut().say(self.me, to.index(), Said::About(message));
    }

    async fn compare_swap(
        &self,
        home: Rank,
        at: RemoteSlice,
        compare: Word,
        swap: Word,
    ) -> Result<Word, OutcomeUnknown> {
        self.atomic(home, at, Operation::Swap { compare, swap }).at(()).await
    }

    async fn fetch_add(&self, home: Rank, at: RemoteSlice, add: u64) -> Result<Word, OutcomeUnknown> {
        self.atomic(home, at, Operation::Add(add)).at(()).await
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
