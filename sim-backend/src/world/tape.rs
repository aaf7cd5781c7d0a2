//! What becomes of the calls of handles: they are made; or they are answered as they were answered before, and not made,
//! because what they did is in the state already.
//!
//! Every call goes by here, as something that can be kept and made again. A *set-up* is repeated by the list of its
//! answers: [`Root`](crate::Root). A *program* is repeated by what is [known](super::known) of it:
//! [`Repertoire`](crate::Repertoire).

use super::World;
use super::known::{self, Moment};
use crate::NodeId;
use std::any::Any;

/// What is done with calls.
#[derive(Debug, Default)]
pub(crate) enum Tape {
    /// They are made.
    #[default]
    Off,
    /// A set-up is carried out: they are made, and their answers are kept.
    Recording(Vec<Answer>),
    /// They were kept until there was one that cannot be.
    Spoilt,
    /// A set-up is repeated: the answers are given again, in the same order.
    Playing { answers: Vec<Answer>, next: usize },
    /// A program is repeated, from a moment on: it is given the answers that lead to these moments.
    Repeating { from: Moment, path: Vec<Moment>, next: usize },
    /// A program does what is not known of it: its calls are made, and become known.
    Learning(Moment),
}

/// An answer, or what else happened in a set-up that is to happen again.
#[derive(Debug)]
pub(crate) enum Answer {
    To(Box<dyn Any>),
    /// A node's program was stepped.
    Stepped(NodeId),
    /// Nothing more could happen.
    Settled,
}

const OTHER: &str = "a set-up does the same every time";

/// What a call can answer: it is given again, and compared.
pub(crate) trait Given: Clone + PartialEq + 'static {}

impl<T: Clone + PartialEq + 'static> Given for T {}

impl World {
    /// Makes a handle's call, or gives the answer that it is to have. The call stands in one place, so that it is compiled
    /// into whoever makes it: without a tape, this costs a comparison.
    #[inline]
    pub fn answer<A: Given>(&mut self, call: impl Fn(&mut World) -> A + 'static) -> A {
        if self.is_plain() {
            return call(self);
        }
        self.taped(call)
    }

    /// Whether calls are made, and nothing else.
    #[inline]
    pub fn is_plain(&self) -> bool {
        matches!(self.tape, Tape::Off)
    }

    /// The same, where there is a tape.
    #[inline(never)]
    pub fn taped<A: Given>(&mut self, call: impl Fn(&mut World) -> A + 'static) -> A {
        if let Some(answer) = self.given() {
            return answer.downcast_ref::<A>().expect(OTHER).clone();
        }
        let answer = call(self);
        match &mut self.tape {
            Tape::Recording(answers) => answers.push(Answer::To(Box::new(answer.clone()))),
            Tape::Learning(at) => *at = self.known.as_mut().expect(KNOWN).called(*at, call, answer.clone()),
            _ => {}
        }
        answer
    }

    /// The answer that the next call is to have.
    fn given(&mut self) -> Option<&dyn Any> {
        if let Some(to) = self.repeated() {
            return Some(self.known.as_ref().expect(KNOWN).answer(to));
        }
        match self.played()? {
            Answer::To(answer) => Some(&**answer),
            _ => panic!("{OTHER}"),
        }
    }

    /// What comes next on the tape of a set-up, if one is repeated.
    #[inline]
    pub fn played(&mut self) -> Option<&Answer> {
        let Tape::Playing { answers, next } = &mut self.tape else { return None };
        *next += 1;
        Some(answers.get(*next - 1).expect(OTHER))
    }

    /// The moment that comes next if a program is repeated. When that has come to its last one, it learns from there on.
    fn repeated(&mut self) -> Option<Moment> {
        let Tape::Repeating { from, path, next } = &mut self.tape else { return None };
        if let Some(to) = path.get(*next) {
            *next += 1;
            return Some(*to);
        }
        self.tape = Tape::Learning(*path.last().unwrap_or(from));
        None
    }

    /// Something else that happens in a set-up is kept, if one is carried out.
    pub fn keep(&mut self, what: Answer) {
        if let Tape::Recording(answers) = &mut self.tape {
            answers.push(what);
        }
    }

    /// A call was made that cannot be made again.
    #[inline]
    pub fn spoil(&mut self) {
        match self.tape {
            Tape::Recording(_) => self.tape = Tape::Spoilt,
            Tape::Playing { .. } => panic!("{OTHER}"),
            Tape::Repeating { .. } | Tape::Learning(_) => panic!("{UNKNOWABLE}"),
            Tape::Off | Tape::Spoilt => {}
        }
    }

    /// Whether a set-up is repeated.
    #[inline]
    pub fn is_playing(&self) -> bool {
        matches!(self.tape, Tape::Playing { .. })
    }

    /// A program says something: false if it has said so before, and it is only repeated.
    pub fn is_said(&mut self) -> bool {
        self.repeated().is_none()
    }

    /// Whether all was given that was to be repeated.
    pub fn is_repeated(&self) -> bool {
        !matches!(&self.tape, Tape::Repeating { path, next, .. } if *next < path.len())
    }

    /// What it said is known from now on.
    pub fn said(&mut self, what: impl Fn() + 'static) {
        if let Tape::Learning(at) = &mut self.tape {
            *at = self.known.as_mut().expect(KNOWN).said(*at, what);
        }
    }

    /// A program's step has ended. The moment to which that leads if it was not known; `None` if the step was repeated.
    pub fn waited(&mut self, park: weft_verbs::Park) -> Option<Moment> {
        if self.repeated().is_some() {
            return None;
        }
        match &mut self.tape {
            Tape::Learning(at) => {
                *at = self.known.as_mut().expect(KNOWN).waited(*at, park);
                Some(*at)
            }
            _ => panic!("{}", known::OTHER),
        }
    }

    /// The moment to which what is repeated or learned has come.
    pub fn reached(&mut self) -> Moment {
        match &self.tape {
            Tape::Learning(at) => *at,
            Tape::Repeating { from, path, next } if *next == path.len() => *path.last().unwrap_or(from),
            _ => panic!("{}", known::OTHER),
        }
    }
}

const KNOWN: &str = "whoever learns keeps what is known";
const UNKNOWABLE: &str =
    "a program that is to be known by heart makes no call that cannot be made again for it";
