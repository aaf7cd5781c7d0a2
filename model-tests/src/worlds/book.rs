//! What the clients of a world see, shown to the oracles as it happens.

use crate::explore::{BandState, Tale, Violation};
use crate::history::{ClientId, RequestId};
use crate::oracle::Judge;
use crate::systems::locks::history::{Event, What};
use crate::systems::locks::oracles::LockOracles;
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::locks::{LockKey, Mode, Token};
use weft_protocols::rt::Rt;
use weft_sim::Asides;
use weft_sim::explore::How;
use weft_verbs::{Nanos, Verbs};

/// The book in which all clients of one execution write. Clones are the same book.
#[derive(Clone)]
pub struct Book {
    pages: Rc<RefCell<Pages>>,
    /// Whom programs tell what is to be written, if they are known by heart.
    asides: Option<Asides>,
}

/// What is written in a book.
#[derive(Clone, Default)]
pub(super) struct Pages {
    judge: Judge<LockOracles>,
    /// What happened since it was last asked for, if somebody asks.
    tales: Option<Vec<Tale>>,
    /// How the holders have changed since it was last asked for.
    changed: Option<How>,
    /// All that happened, if the world's judgement needs it.
    events: Option<Vec<Event>>,
    /// What was noted, in its order.
    past: u128,
    /// A bit for each node that has asked for something.
    asked: u64,
}

impl Book {
    /// An empty book. `tokens` says whether every grant must carry a fencing token.
    pub fn new(tokens: bool) -> Book {
        let pages = Pages { judge: Judge::new(LockOracles::new(tokens)), ..Pages::default() };
        Book { pages: Rc::new(RefCell::new(pages)), asides: None }
    }

    /// The same book for programs that are known by heart: they say what is to be written.
    #[must_use]
    pub fn heard_by(mut self, asides: Asides) -> Book {
        self.asides = Some(asides);
        self
    }

    /// Keeps what is written in it.
    pub(super) fn save(&self, to: &mut Pages) {
        to.clone_from(&self.pages.borrow());
    }

    /// Puts back what was written in it.
    pub(super) fn put_back(&self, pages: &Pages) {
        self.pages.borrow_mut().clone_from(pages);
    }

    /// Replaces what is written in it.
    pub fn rewrite(&self, by: Book) {
        self.pages.swap(&by.pages);
    }

    /// Writes, now and whenever a program that is known by heart comes here again.
    fn write(&self, what: impl Fn(&mut Pages) + 'static) {
        match &self.asides {
            None => what(&mut self.pages.borrow_mut()),
            Some(asides) => {
                // Not for ever: what is known is kept by the fabric, and the book knows the fabric.
                let pages = Rc::downgrade(&self.pages);
                asides.say(move || {
                    if let Some(pages) = pages.upgrade() {
                        what(&mut pages.borrow_mut());
                    }
                });
            }
        }
    }

    /// The same book, which keeps all events for a judgement at the end.
    #[must_use]
    pub fn keeping_events(self) -> Book {
        self.pages.borrow_mut().events = Some(Vec::new());
        self
    }

    /// Shows all events so far, if it keeps them.
    pub fn events<T>(&self, look: impl FnOnce(&[Event]) -> T) -> T {
        look(self.pages.borrow().events.as_deref().unwrap_or_default())
    }

    /// Something has happened, by a number for it, whose place among what is noted matters to a judgement at the end.
    pub fn note(&self, what: u64) {
        self.write(move |pages| {
            pages.changed = Some(How::Write);
            pages.past = (pages.past ^ (u128::from(what) + 1)).wrapping_mul(MIX).rotate_right(61);
        });
    }

    /// What was noted, in its order, as a number.
    pub fn past(&self) -> u128 {
        self.pages.borrow().past
    }

    /// Whether any client of a node has asked for anything.
    pub fn has_asked(&self, node: u32) -> bool {
        self.pages.borrow().asked & 1 << node != 0
    }

    /// Takes an event down.
    pub fn record(&self, event: Event) {
        self.write(move |pages| pages.record(&event));
    }

    /// How what happened since the last call changed what the oracles judge holders by: those who share come and go in any
    /// order, one that excludes does not.
    pub fn take_change(&self) -> Option<How> {
        self.pages.borrow_mut().changed.take()
    }

    /// The first promise that was broken.
    pub fn violation(&self) -> Option<Violation> {
        self.pages.borrow().judge.violations().first().cloned().map(Violation::from).map(without_times)
    }

    /// Looks at the oracles, or has them judge.
    pub fn judge<T>(&self, look: impl FnOnce(&mut Judge<LockOracles>) -> T) -> T {
        look(&mut self.pages.borrow_mut().judge)
    }

    /// Takes down in words what happens on a node, if somebody asks for words.
    pub fn say(&self, node: u32, what: impl FnOnce() -> String) {
        if let Some(tales) = &mut self.pages.borrow_mut().tales {
            tales.push(Tale::Note { node, text: what() });
        }
    }

    /// Takes down what happens in words, too, from now on.
    pub fn narrate(&self) {
        self.pages.borrow_mut().tales.get_or_insert_default();
    }

    /// What happened since the last call, in words.
    pub fn told(&self) -> Vec<Tale> {
        self.pages.borrow_mut().tales.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Pages {
    fn record(&mut self, event: &Event) {
        self.judge.observe(event);
        match (event.what, event.mode) {
            (What::Requested { .. }, _) => {}
            (_, Mode::Exclusive) => self.changed = Some(How::Write),
            (_, Mode::Shared) => self.changed = self.changed.max(Some(How::Read)),
        }
        if let What::Requested { .. } = event.what {
            self.asked |= 1 << event.request.client.node;
        }
        if let Some(events) = &mut self.events {
            events.push(*event);
        }
        if let Some(tales) = &mut self.tales {
            tales.push(band(event));
        }
    }
}

/// An odd number without a pattern.
const MIX: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// Nobody looks at a clock in these worlds.
fn without_times(mut violation: Violation) -> Violation {
    for time in [" since 0 ns", "; the last fault was over 0 ns ago"] {
        violation.text = violation.text.replace(time, "");
    }
    violation
}

fn band(event: &Event) -> Tale {
    let state = match (event.what, event.mode) {
        (What::Requested { .. }, mode) => BandState::Waiting(format!("asks {mode}")),
        (What::Granted { .. }, Mode::Shared) => BandState::Shared("shares".into()),
        (What::Granted { .. }, Mode::Exclusive) => BandState::Exclusive("holds".into()),
        _ => BandState::Nothing,
    };
    Tale::Band { node: event.request.client.node, of: format!("lock {}", event.key.0), state }
}

/// A lock as a client uses it, whoever made it.
pub trait Locker {
    /// What is held.
    type Held;

    /// Takes the lock.
    fn lock(&self, mode: Mode) -> impl Future<Output = Self::Held>;

    /// Gives it back.
    fn unlock(&self, held: Self::Held) -> impl Future<Output = ()>;

    /// The fencing token of a hold, if it has one.
    fn token(_held: &Self::Held) -> Option<Token> {
        None
    }
}

/// A client: takes a lock in these modes, one after the other, and holds it each time until its node's next step, so
/// that whatever should not happen meanwhile can happen.
pub async fn client<V: Verbs, L: Locker>(
    rt: Rt<V>,
    book: Book,
    node: u32,
    key: LockKey,
    modes: Vec<Mode>,
    lock: L,
) {
    for (number, mode) in (0..).zip(modes) {
        let request = RequestId { client: ClientId { node, index: 0 }, number };
        let record = |what| book.record(Event { at: Nanos::ZERO, request, key, mode, what });
        record(What::Requested { deadline: None });
        let frame = rt.frame();
        frame.knows((number, "asks"));
        let held = lock.lock(mode).await;
        record(What::Granted { token: L::token(&held) });
        frame.knows((number, "holds"));
        let rest = rt.rest();
        rt.yield_now().await;
        drop(rest);
        drop(frame);
        record(What::Released);
        lock.unlock(held).await;
    }
}
