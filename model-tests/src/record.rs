//! The history recorder of a run: takes down what clients see, shows it to the oracles and measures it.
//!
//! Clients of every system write to a [`Record`], and a [`Judge`] shows the oracles what they write. There are two recorders,
//! this one and that of explored models ([`crate::harness::Recorder`]), since what they keep beside the judge has nothing in
//! common: a run is measured and may keep its whole history, and has one past. An execution is measured by nothing, its
//! recorder says how each step accessed what the oracles judge by, its state is saved, restored and hashed millions of times,
//! and its writes are carried out again without the program that made them. One type with both would have parts that every use
//! leaves out.

use crate::history::{HistoryEvent, Stage};
use crate::oracle::{Judge, Oracles};
use std::cell::RefCell;
use std::rc::Rc;
use weft_verbs::Nanos;

/// Takes down what clients see.
pub trait Record<E>: Clone + 'static {
    /// The next event of the history.
    fn record(&self, event: E);

    /// Ends once the history has what was recorded so far. A client waits for it before it goes on with what it was given
    /// and before it gives it back: where the history is kept on another machine, the order in which events arrive there is
    /// then one in which they can have happened. At once, where the history is at hand.
    fn written(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }
}

/// Takes nothing down: for experiments that look at their clients themselves.
impl<E> Record<E> for () {
    fn record(&self, _: E) {}
}

/// Measures a history as it grows. `()` measures nothing.
pub trait Meter<E>: 'static {
    /// The next event.
    fn measure(&mut self, event: &E);
}

impl<E> Meter<E> for () {
    fn measure(&mut self, _: &E) {}
}

/// The recorder of one run. Clones are the same recorder.
pub struct Recorder<O: Oracles, M = ()>(Rc<RefCell<Pages<O, M>>>);

struct Pages<O: Oracles, M> {
    judge: Judge<O>,
    meter: M,
    last: Nanos,
    /// When clients saw the earliest event of theirs, and the latest.
    busy: Option<(Nanos, Nanos)>,
    history: Option<Vec<O::Event>>,
    /// Is told of every event.
    listener: Option<Listener<O::Event>>,
}

type Listener<E> = Box<dyn Fn(&E)>;

impl<O: Oracles, M> Clone for Recorder<O, M> {
    fn clone(&self) -> Recorder<O, M> {
        Recorder(Rc::clone(&self.0))
    }
}

impl<O: Oracles, M: Meter<O::Event>> Recorder<O, M> {
    /// A recorder of nothing yet.
    pub fn new(oracles: O, meter: M) -> Recorder<O, M> {
        let judge = Judge::new(oracles);
        Recorder(Rc::new(RefCell::new(Pages {
            judge,
            meter,
            last: Nanos::ZERO,
            busy: None,
            history: None,
            listener: None,
        })))
    }

    /// The same recorder, which keeps the history from now on.
    #[must_use]
    pub fn keeping_history(self) -> Recorder<O, M> {
        self.0.borrow_mut().history.get_or_insert_default();
        self
    }

    /// Tells of every event from now on, as it is recorded: for a log.
    pub fn tell(&self, listener: impl Fn(&O::Event) + 'static) {
        self.0.borrow_mut().listener = Some(Box::new(listener));
    }

    /// The history so far, if it is kept.
    pub fn history(&self) -> Vec<O::Event> {
        self.0.borrow().history.clone().unwrap_or_default()
    }

    /// Looks at the oracles, or has them judge.
    pub fn judge<T>(&self, look: impl FnOnce(&mut Judge<O>) -> T) -> T {
        look(&mut self.0.borrow_mut().judge)
    }

    /// Looks at what was measured, beside the oracles.
    pub fn measured<T>(&self, look: impl FnOnce(&M, &O) -> T) -> T {
        let pages = self.0.borrow();
        look(&pages.meter, pages.judge.oracles())
    }

    /// When the last event was.
    pub fn last(&self) -> Nanos {
        self.0.borrow().last
    }

    /// From the first event of clients to the last. What is of a node is none: a node may be back long after the last client is through.
    pub fn busy(&self) -> Nanos {
        self.0.borrow().busy.map_or(Nanos::ZERO, |(first, last)| last - first)
    }
}

impl<O: Oracles, M: Meter<O::Event>> Record<O::Event> for Recorder<O, M> {
    fn record(&self, event: O::Event) {
        let Pages { judge, meter, last, busy, history, listener } = &mut *self.0.borrow_mut();
        judge.observe(&event);
        meter.measure(&event);
        let at = event.at();
        *last = at.max(*last);
        if event.stage() != Stage::OfNode {
            // What is recorded first need not be the earliest: nodes' clocks run ahead.
            let (from, to) = busy.unwrap_or((at, at));
            *busy = Some((from.min(at), to.max(at)));
        }
        if let Some(tell) = listener {
            tell(&event);
        }
        if let Some(history) = history {
            history.push(event);
        }
    }
}
