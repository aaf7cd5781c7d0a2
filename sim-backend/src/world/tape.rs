//! What a set-up was answered, so that the same set-up can run again without anything being carried out.
//!
//! Every call of a handle goes by here. While a tape is recorded, its answer is kept; while it is played, the kept
//! answer is given, and the call is not made: what it would do is in the state already. A call whose answer cannot be
//! kept spoils the tape, and then the set-up is carried out every time.

use super::{NewRegion, World};
use crate::NodeId;
use crate::hca::Key;
use verbs_trait::{
    AsyncEvent, CmEvent, CmId, CqId, Nanos, QpAttr, QpNum, Result, VerbsError, WorkCompletion,
};

/// What is done with answers.
#[derive(Debug, Default)]
pub(crate) enum Tape {
    /// Nothing.
    #[default]
    Off,
    /// They are kept.
    Recording(Vec<Answer>),
    /// They were kept until there was one that cannot be.
    Spoilt,
    /// They are given again, in the same order.
    Playing { answers: Vec<Answer>, next: usize },
}

/// An answer, or what else happened in a set-up that is to happen again.
#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    Nothing,
    Refused(VerbsError),
    Number(u64),
    Key(Key),
    Pair(Key, QpNum),
    Region(NewRegion),
    Attributes(Box<QpAttr>),
    Completions(Box<[WorkCompletion]>),
    Bytes(Box<[u8]>),
    /// A node's program was stepped.
    Stepped(NodeId),
    /// Nothing more could happen.
    Settled,
}

const OTHER: &str = "a set-up does the same every time";

/// What a call can answer while a tape is recorded.
pub(crate) trait Recorded: Sized {
    /// The answer as the tape keeps it; `None` if it cannot.
    fn kept(&self) -> Option<Answer>;

    /// The answer that was kept; `None` if another kind was.
    fn of(answer: &Answer) -> Option<Self>;
}

/// Answers that are numbers, or contained in a variant as they are.
macro_rules! recorded {
    ($($type:ty: $value:pat => $kept:expr, $answer:pat => $given:expr;)*) => {$(
        impl Recorded for $type {
            fn kept(&self) -> Option<Answer> {
                let $value = *self;
                Some($kept)
            }
            fn of(answer: &Answer) -> Option<$type> {
                match *answer {
                    $answer => Some($given),
                    _ => None,
                }
            }
        }
    )*};
}

recorded! {
    (): () => Answer::Done, Answer::Done => ();
    u8: n => Answer::Number(n.into()), Answer::Number(n) => n as u8;
    u32: n => Answer::Number(n.into()), Answer::Number(n) => n as u32;
    u64: n => Answer::Number(n), Answer::Number(n) => n;
    Nanos: Nanos(n) => Answer::Number(n), Answer::Number(n) => Nanos(n);
    CqId: CqId(n) => Answer::Number(n.into()), Answer::Number(n) => CqId(n as u32);
    CmId: CmId(n) => Answer::Number(n), Answer::Number(n) => CmId(n);
    Key: key => Answer::Key(key), Answer::Key(key) => key;
    (Key, QpNum): (key, num) => Answer::Pair(key, num), Answer::Pair(key, num) => (key, num);
    NewRegion: region => Answer::Region(region), Answer::Region(region) => region;
    QpAttr: attr => Answer::Attributes(Box::new(attr)), Answer::Attributes(ref attr) => **attr;
}

/// Answers that no tape keeps.
macro_rules! not_recorded {
    ($($type:ty),*) => {$(
        impl Recorded for $type {
            fn kept(&self) -> Option<Answer> {
                None
            }
            fn of(_: &Answer) -> Option<$type> {
                None
            }
        }
    )*};
}

not_recorded! { AsyncEvent, CmEvent }

impl<T: Recorded> Recorded for Option<T> {
    fn kept(&self) -> Option<Answer> {
        self.as_ref().map_or(Some(Answer::Nothing), T::kept)
    }

    fn of(answer: &Answer) -> Option<Option<T>> {
        match answer {
            Answer::Nothing => Some(None),
            other => T::of(other).map(Some),
        }
    }
}

impl<T: Recorded> Recorded for Result<T> {
    fn kept(&self) -> Option<Answer> {
        match self {
            Ok(value) => value.kept(),
            Err(why) => Some(Answer::Refused(*why)),
        }
    }

    fn of(answer: &Answer) -> Option<Result<T>> {
        match answer {
            Answer::Refused(why) => Some(Err(*why)),
            other => T::of(other).map(Ok),
        }
    }
}

impl World {
    /// Makes a handle's call and keeps its answer, or gives the answer that was kept. The call stands in one place, so that
    /// it is compiled into whoever makes it: without a tape, this costs two comparisons.
    #[inline]
    pub fn answer<A: Recorded>(&mut self, call: impl FnOnce(&mut World) -> A) -> A {
        if self.is_playing() {
            return self.given();
        }
        let answer = call(self);
        if matches!(self.tape, Tape::Recording(_)) {
            self.record(&answer);
        }
        answer
    }

    #[cold]
    fn record<A: Recorded>(&mut self, answer: &A) {
        self.keep(|| answer.kept());
    }

    #[inline(never)]
    fn given<A: Recorded>(&mut self) -> A {
        self.played().and_then(A::of).expect(OTHER)
    }

    /// The next answer on the tape, if one is played.
    #[inline]
    pub fn played(&mut self) -> Option<&Answer> {
        let Tape::Playing { answers, next } = &mut self.tape else { return None };
        *next += 1;
        Some(answers.get(*next - 1).expect(OTHER))
    }

    /// Keeps an answer if a tape is recorded, and spoils the tape if there is none to keep.
    #[inline]
    pub fn keep(&mut self, answer: impl FnOnce() -> Option<Answer>) {
        if let Tape::Recording(answers) = &mut self.tape {
            match answer() {
                Some(answer) => answers.push(answer),
                None => self.tape = Tape::Spoilt,
            }
        }
    }

    /// A call was made that no tape knows.
    #[inline]
    pub fn spoil(&mut self) {
        match self.tape {
            Tape::Recording(_) => self.tape = Tape::Spoilt,
            Tape::Playing { .. } => panic!("{OTHER}"),
            Tape::Off | Tape::Spoilt => {}
        }
    }

    /// Whether calls are not carried out.
    #[inline]
    pub fn is_playing(&self) -> bool {
        matches!(self.tape, Tape::Playing { .. })
    }

    /// The completions of a poll, from the tape if one is played.
    #[inline]
    pub fn poll_taped(
        &mut self,
        out: &mut Vec<WorkCompletion>,
        poll: impl FnOnce(&mut World, &mut Vec<WorkCompletion>) -> Result<usize>,
    ) -> Result<usize> {
        match self.played() {
            Some(Answer::Completions(found)) => {
                out.extend_from_slice(found);
                Ok(found.len())
            }
            Some(other) => Result::of(other).expect(OTHER).map(|n: u32| n as usize),
            None => {
                let polled = poll(self, out);
                self.keep(|| match polled {
                    Ok(n) => Some(Answer::Completions(out[out.len() - n..].into())),
                    Err(why) => Some(Answer::Refused(why)),
                });
                polled
            }
        }
    }

    /// The bytes of a region, from the tape if one is played.
    #[inline]
    pub fn read_taped(
        &mut self,
        out: &mut [u8],
        read: impl FnOnce(&mut World, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        match self.played() {
            Some(Answer::Bytes(bytes)) => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            Some(other) => Result::of(other).expect(OTHER),
            None => {
                let answer = read(self, out);
                self.keep(|| match answer {
                    Ok(()) => Some(Answer::Bytes((&*out).into())),
                    Err(why) => Some(Answer::Refused(why)),
                });
                answer
            }
        }
    }
}
