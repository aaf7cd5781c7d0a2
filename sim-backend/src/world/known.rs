//! What programs are known to do.
//!
//! A program is deterministic: what it does next depends on nothing but what it was answered since it began. So all that
//! programs were ever seen to do is kept as a tree. Its places are *moments*: where a program stands after certain
//! answers. At a moment it makes a certain call, and each answer that the call ever had leads to another moment; or it
//! says something to those who watch; or its step ends. A program whose moment is known need not run: its calls are made
//! for it, and what they are answered says where it stands then. Only where nobody has seen what it does next it has to
//! run itself, as far as that moment by the answers that lead there, and from there on in earnest.

use super::World;
use crate::NodeId;
use std::any::Any;
use std::fmt;
use weft_verbs::Park;

/// A moment in a program's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Moment(u32);

/// The tree of all moments.
#[derive(Debug, Default)]
pub(crate) struct Known {
    moments: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    before: Moment,
    /// How many moments there are before it.
    depth: u32,
    next: Next,
}

/// What a program does at a moment.
enum Next {
    /// Nobody has seen it.
    Unknown,
    Calls(Box<dyn Call>),
    Says(Box<dyn Fn()>, Moment),
    Waits(Park, Moment),
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Next::Unknown => f.write_str("Unknown"),
            Next::Calls(_) => f.write_str("Calls"),
            Next::Says(_, to) => f.debug_tuple("Says").field(to).finish(),
            Next::Waits(park, to) => f.debug_tuple("Waits").field(park).field(to).finish(),
        }
    }
}

/// A call, with every answer that it ever had.
trait Call {
    /// Makes it. An answer that it never had leads to `fresh`.
    fn make(&mut self, world: &mut World, fresh: Moment) -> Moment;

    /// The answer that leads to a moment.
    fn answer(&self, to: Moment) -> &dyn Any;
}

struct Asked<C, A> {
    call: C,
    answers: Vec<(A, Moment)>,
}

impl<C: Fn(&mut World) -> A, A: PartialEq + 'static> Call for Asked<C, A> {
    fn make(&mut self, world: &mut World, fresh: Moment) -> Moment {
        let answer = (self.call)(world);
        if let Some((_, to)) = self.answers.iter().find(|(known, _)| *known == answer) {
            return *to;
        }
        self.answers.push((answer, fresh));
        fresh
    }

    fn answer(&self, to: Moment) -> &dyn Any {
        let (answer, _) = self.answers.iter().find(|(_, leads)| *leads == to).expect("it was answered so");
        answer
    }
}

impl Known {
    /// How many moments are known.
    pub fn len(&self) -> usize {
        self.moments.len()
    }

    /// The first moment of another program.
    pub fn begin(&mut self) -> Moment {
        let first = Moment(self.moments.len() as u32);
        self.moments.push(Kept { before: first, depth: 0, next: Next::Unknown });
        first
    }

    fn follow(&mut self, before: Moment) -> Moment {
        let next = Moment(self.moments.len() as u32);
        let depth = self.kept(before).depth + 1;
        self.moments.push(Kept { before, depth, next: Next::Unknown });
        next
    }

    fn kept(&self, at: Moment) -> &Kept {
        &self.moments[at.0 as usize]
    }

    fn set(&mut self, at: Moment, next: Next) {
        let place = &mut self.moments[at.0 as usize].next;
        assert!(matches!(place, Next::Unknown), "{OTHER}");
        *place = next;
    }

    /// A program makes a call where nobody had seen what it does, and is answered.
    pub fn called<A: PartialEq + 'static>(
        &mut self,
        at: Moment,
        call: impl Fn(&mut World) -> A + 'static,
        answer: A,
    ) -> Moment {
        let to = self.follow(at);
        self.set(at, Next::Calls(Box::new(Asked { call, answers: vec![(answer, to)] })));
        to
    }

    /// It says something.
    pub fn said(&mut self, at: Moment, what: impl Fn() + 'static) -> Moment {
        let to = self.follow(at);
        self.set(at, Next::Says(Box::new(what), to));
        to
    }

    /// Its step ends.
    pub fn waited(&mut self, at: Moment, park: Park) -> Moment {
        let to = self.follow(at);
        self.set(at, Next::Waits(park, to));
        to
    }

    /// The answer that leads to a moment.
    pub fn answer(&self, to: Moment) -> &dyn Any {
        match &self.kept(self.kept(to).before).next {
            Next::Calls(call) => call.answer(to),
            _ => panic!("{OTHER}"),
        }
    }

    /// Whether a program can come from one moment to another.
    pub fn leads(&self, from: Moment, to: Moment) -> bool {
        let depth = self.kept(from).depth;
        let mut at = to;
        while self.kept(at).depth > depth {
            at = self.kept(at).before;
        }
        at == from
    }

    /// How far a moment is from its program's first one.
    pub fn depth(&self, of: Moment) -> u32 {
        self.kept(of).depth
    }

    /// The moments after one and up to another.
    pub fn path(&self, from: Moment, to: Moment) -> Vec<Moment> {
        let mut path = Vec::new();
        let mut at = to;
        while at != from {
            path.push(at);
            at = self.kept(at).before;
        }
        path.reverse();
        path
    }
}

/// A program did something else after the same answers.
pub(super) const OTHER: &str = "a program does the same after the same answers";

impl World {
    /// Where a node's program stands.
    pub fn moment(&mut self, node: NodeId) -> &mut Moment {
        self.state.untimed.moment(node)
    }

    /// Does for a node's program what that is known to do until its step ends. `None` if that is not known: its moment is
    /// then the last one that is.
    pub fn recall_step(&mut self, node: NodeId) -> Option<Park> {
        let at = *self.moment(node);
        let (to, park) = self.recall(at);
        *self.moment(node) = to;
        park
    }

    /// Does what is known to be done from a moment on, until a step ends or nothing more is known.
    pub fn recall(&mut self, mut at: Moment) -> (Moment, Option<Park>) {
        let Some(mut known) = self.known.take() else { return (at, None) };
        let park = loop {
            let fresh = Moment(known.moments.len() as u32);
            match &mut known.moments[at.0 as usize].next {
                Next::Unknown => break None,
                Next::Calls(call) => {
                    let to = call.make(self, fresh);
                    if to == fresh {
                        known.follow(at);
                    }
                    at = to;
                }
                Next::Says(say, to) => {
                    say();
                    at = *to;
                }
                Next::Waits(park, to) => {
                    at = *to;
                    break Some(*park);
                }
            }
        };
        self.known = Some(known);
        (at, park)
    }
}
