//! The seam: what becomes of the calls of handles. They are made; or they are answered as they were answered before, and
//! not made, because what they did is in the state already.
//!
//! Handles pass every call as a function of the world that can be kept and called again. What it borrows (bytes to
//! write, room to read into) is passed beside it, so that an ordinary run copies nothing.

use super::tree::{CallTree, NON_DETERMINISTIC, TreeNode};
use crate::NodeId;
use crate::world::World;
use std::any::Any;
use std::borrow::BorrowMut;
use weft_verbs::Park;

/// What is done with calls.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(super) mode: Mode,
    /// What programs are known to do, if they are memoised. A box: it is taken out while it is used to make calls.
    pub(super) tree: Option<Box<CallTree>>,
}

#[derive(Debug, Default)]
pub(super) enum Mode {
    /// They are made.
    #[default]
    Direct,
    /// A set-up is carried out: they are made, and their answers are logged.
    Recording(ReplayLog),
    /// They were logged until there was one that cannot be answered from a log.
    Unrepeatable,
    /// A set-up is replayed: the answers are given again, in the same order.
    Replaying { log: ReplayLog, next: usize },
    /// A program retraces its way from a node of the call tree on: it is given the answers that lead along this path.
    Retracing { from: TreeNode, path: Vec<TreeNode>, next: usize },
    /// A program does what the call tree does not have: its calls are made, and entered.
    Learning(TreeNode),
    /// Programs are dropped to be made again: what their handles stand for stays.
    Discarding,
}

/// All that a set-up was answered, in its order.
pub(super) type ReplayLog = Vec<Logged>;

/// An answer, or what else happened in a set-up and is to happen again.
#[derive(Debug)]
pub(super) enum Logged {
    Answer(Box<dyn Any>),
    /// A node's program was stepped.
    Step(NodeId),
    /// Nothing more could happen.
    Quiescent,
}

pub(super) const OTHER_SET_UP: &str = "a set-up does the same every time";
const NO_TREE: &str = "programs are memoised";
pub(super) const NOT_REPEATABLE: &str = "a memoised program makes no call that cannot be made again for it, as it would by bringing or claiming memory: \
     its model is not memoisable";

/// What a call can answer: it is given again, and compared.
pub(crate) trait Answer: Clone + PartialEq + 'static {}

impl<T: Clone + PartialEq + 'static> Answer for T {}

/// Room that a call fills.
pub(crate) trait Room {
    /// The same, owned.
    type Owned: Answer + BorrowMut<Self>;

    /// Makes room like this.
    fn like(&self) -> impl Fn() -> Self::Owned + 'static;

    /// Is filled as the other was.
    fn take_over(&mut self, filled: &Self::Owned);
}

/// Exactly so many bytes.
impl Room for [u8] {
    type Owned = Vec<u8>;

    fn like(&self) -> impl Fn() -> Vec<u8> + 'static {
        let len = self.len();
        move || vec![0; len]
    }

    fn take_over(&mut self, filled: &Vec<u8>) {
        self.copy_from_slice(filled);
    }
}

/// As many as there are, behind those that are there.
impl<T: Answer> Room for Vec<T> {
    type Owned = Vec<T>;

    fn like(&self) -> impl Fn() -> Vec<T> + 'static {
        Vec::new
    }

    fn take_over(&mut self, filled: &Vec<T>) {
        self.extend_from_slice(filled);
    }
}

impl World {
    /// Makes a handle's call, or gives the answer that it is to have.
    #[inline]
    pub fn call<A: Answer>(&mut self, call: impl Fn(&mut World) -> A + 'static) -> A {
        if self.is_direct() {
            return call(self);
        }
        self.call_recorded(call)
    }

    /// The same, for a call that is given a value and reads bytes.
    #[inline(always)]
    pub fn call_with<G: Clone + 'static, A: Answer>(
        &mut self,
        given: G,
        bytes: &[u8],
        call: impl Fn(&mut World, G, &[u8]) -> A + 'static,
    ) -> A {
        if self.is_direct() {
            return call(self, given, bytes);
        }
        let bytes = Box::<[u8]>::from(bytes);
        self.call_recorded(move |world| call(world, given.clone(), &bytes))
    }

    /// The same, for a call that fills something.
    #[inline(always)]
    pub fn call_into<R: Room + ?Sized, A: Answer>(
        &mut self,
        out: &mut R,
        call: impl Fn(&mut World, &mut R) -> A + 'static,
    ) -> A {
        if self.is_direct() {
            return call(self, out);
        }
        let room = out.like();
        let (answer, filled) = self.call_recorded(move |world| {
            let mut room = room();
            let answer = call(world, room.borrow_mut());
            (answer, room)
        });
        out.take_over(&filled);
        answer
    }

    /// A call is about to be made that cannot be made again.
    #[inline]
    pub fn call_is_unrepeatable(&mut self) {
        if !self.is_direct() {
            self.refuse_unrepeatable();
        }
    }

    /// A handle is dropped: what it stands for is destroyed. False if it is not, because another
    /// handle stands for it.
    pub fn drop_handle(&mut self, destroy: impl Fn(&mut World) + 'static) -> bool {
        match self.recorder.mode {
            Mode::Direct | Mode::Recording(_) | Mode::Unrepeatable => destroy(self),
            Mode::Replaying { .. } | Mode::Discarding => return false,
            Mode::Retracing { .. } | Mode::Learning(_) => self.call_recorded(destroy),
        }
        true
    }

    /// Whether calls are made, and nothing else.
    #[inline]
    fn is_direct(&self) -> bool {
        matches!(self.recorder.mode, Mode::Direct)
    }

    #[inline(never)]
    fn call_recorded<A: Answer>(&mut self, call: impl Fn(&mut World) -> A + 'static) -> A {
        if let Some(answer) = self.recorder.answer() {
            return answer.downcast_ref::<A>().expect(OTHER_SET_UP).clone();
        }
        let answer = call(self);
        let Recorder { mode, tree } = &mut self.recorder;
        match mode {
            Mode::Recording(log) => log.push(Logged::Answer(Box::new(answer.clone()))),
            Mode::Learning(at) => *at = tree.as_mut().expect(NO_TREE).called(*at, call, answer.clone()),
            _ => {}
        }
        answer
    }

    #[cold]
    fn refuse_unrepeatable(&mut self) {
        match self.recorder.mode {
            Mode::Recording(_) => self.recorder.mode = Mode::Unrepeatable,
            Mode::Replaying { .. } => panic!("{OTHER_SET_UP}"),
            Mode::Retracing { .. } | Mode::Learning(_) => panic!("{NOT_REPEATABLE}"),
            Mode::Direct | Mode::Unrepeatable | Mode::Discarding => {}
        }
    }
}

impl Recorder {
    /// The answer that the next call is to have.
    fn answer(&mut self) -> Option<&dyn Any> {
        if let Some(to) = self.retraced() {
            return Some(self.tree().answer(to));
        }
        match self.replayed()? {
            Logged::Answer(answer) => Some(&**answer),
            _ => panic!("{OTHER_SET_UP}"),
        }
    }

    /// What comes next in the log of a set-up, if one is replayed.
    pub(super) fn replayed(&mut self) -> Option<&Logged> {
        let Mode::Replaying { log, next } = &mut self.mode else { return None };
        *next += 1;
        Some(log.get(*next - 1).expect(OTHER_SET_UP))
    }

    /// Something that happens in a set-up is logged, if one is carried out.
    pub(super) fn log(&mut self, what: Logged) {
        if let Mode::Recording(log) = &mut self.mode {
            log.push(what);
        }
    }

    pub(super) fn tree(&mut self) -> &mut CallTree {
        self.tree.as_mut().expect(NO_TREE)
    }

    /// The node that comes next if a program retraces its way. At the end of that it learns from there on.
    fn retraced(&mut self) -> Option<TreeNode> {
        let Mode::Retracing { from, path, next } = &mut self.mode else { return None };
        if let Some(to) = path.get(*next) {
            *next += 1;
            return Some(*to);
        }
        self.mode = Mode::Learning(*path.last().unwrap_or(from));
        None
    }

    /// The next calls are answered as the way from one node of the tree to another says, and after that made and learned.
    pub(super) fn retrace(&mut self, from: TreeNode, to: TreeNode) {
        let path = self.tree().path(from, to);
        self.mode = Mode::Retracing { from, path, next: 0 };
    }

    /// Whether all was given that was to be retraced.
    pub(super) fn is_retraced(&self) -> bool {
        !matches!(&self.mode, Mode::Retracing { path, next, .. } if *next < path.len())
    }

    /// A program has an effect on observers: false if it has had it before, and is only retraced.
    pub(super) fn is_new_effect(&mut self) -> bool {
        self.retraced().is_none()
    }

    /// The effect is entered in the tree.
    pub(super) fn learn_effect(&mut self, effect: impl Fn() + 'static) {
        if let Mode::Learning(at) = self.mode {
            self.mode = Mode::Learning(self.tree().affected(at, effect));
        }
    }

    /// A program's step has ended. The node to which that leads if it is entered now; `None` if the step was retraced.
    pub(super) fn step_ended(&mut self, park: Park) -> Option<TreeNode> {
        if self.retraced().is_some() {
            return None;
        }
        let Mode::Learning(at) = self.mode else { panic!("{NON_DETERMINISTIC}") };
        let to = self.tree().parked(at, park);
        self.mode = Mode::Learning(to);
        Some(to)
    }

    /// The node to which what is retraced or learned has come.
    pub(super) fn reached(&self) -> TreeNode {
        match &self.mode {
            Mode::Learning(at) => *at,
            Mode::Retracing { from, path, next } if *next == path.len() => *path.last().unwrap_or(from),
            _ => panic!("{NON_DETERMINISTIC}"),
        }
    }
}
