//! Takes down what the clients see, shows it to the oracles and measures it.

use super::{Latencies, Percentiles, Requests};
use crate::history::{Event, RequestId, What};
use crate::oracle::Judge;
use crate::workload::Recorder;
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_protocols::locks::Mode;
use weft_verbs::Nanos;

/// The one book in which all clients of a world write. Clones are the same book.
#[derive(Clone)]
pub struct Scribe(Rc<RefCell<Book>>);

struct Book {
    judge: Judge,
    requests: Requests,
    asked: BTreeMap<RequestId, Nanos>,
    shared: Histogram<u64>,
    exclusive: Histogram<u64>,
    first: Option<Nanos>,
    last: Nanos,
    history: Option<Vec<Event>>,
}

impl Scribe {
    /// An empty book, judged by the oracles of a scheme with or without tokens. `keep` keeps the history.
    pub fn new(tokens: bool, keep: bool) -> Scribe {
        // Three significant digits; the highest trackable value grows by itself.
        let histogram = || Histogram::new(3).expect("three digits are within the histogram's bounds");
        Scribe(Rc::new(RefCell::new(Book {
            judge: Judge::new(tokens),
            requests: Requests::default(),
            asked: BTreeMap::new(),
            shared: histogram(),
            exclusive: histogram(),
            first: None,
            last: Nanos::ZERO,
            history: keep.then(Vec::new),
        })))
    }

    /// Looks at the oracles.
    pub fn judge<T>(&self, look: impl FnOnce(&mut Judge) -> T) -> T {
        look(&mut self.0.borrow_mut().judge)
    }

    /// The history so far, if it is kept.
    pub fn history(&self) -> Vec<Event> {
        self.0.borrow().history.clone().unwrap_or_default()
    }

    /// What became of the requests so far.
    pub fn requests(&self) -> Requests {
        let book = self.0.borrow();
        Requests { unended: book.judge.unended(), ..book.requests }
    }

    /// How many requests have ended, a lock that was granted having been released.
    pub fn ended(&self) -> u64 {
        let book = self.0.borrow();
        book.requests.made - book.judge.unended()
    }

    /// The latencies of the requests that were granted.
    pub fn latencies(&self) -> Latencies {
        let book = self.0.borrow();
        Latencies { shared: percentiles(&book.shared), exclusive: percentiles(&book.exclusive) }
    }

    /// From the first request to the last event.
    pub fn busy(&self) -> Nanos {
        let book = self.0.borrow();
        book.first.map_or(Nanos::ZERO, |first| book.last - first)
    }
}

impl Recorder for Scribe {
    fn record(&self, event: Event) {
        self.0.borrow_mut().record(event);
    }
}

impl Book {
    fn record(&mut self, event: Event) {
        self.judge.observe(&event);
        self.count(&event);
        self.first.get_or_insert(event.at);
        self.last = self.last.max(event.at);
        if let Some(history) = &mut self.history {
            history.push(event);
        }
    }

    fn count(&mut self, event: &Event) {
        let requests = &mut self.requests;
        match event.what {
            What::Requested { .. } => {
                requests.made += 1;
                self.asked.insert(event.request, event.at);
            }
            What::Granted { .. } => {
                requests.granted += 1;
                self.measure(event);
            }
            What::TimedOut => requests.timed_out += 1,
            What::Refused => requests.refused += 1,
            What::Failed => requests.failed += 1,
            What::Downgraded { .. } | What::Released => {}
        }
        if event.what.ends() {
            self.asked.remove(&event.request);
        }
    }

    fn measure(&mut self, event: &Event) {
        let Some(asked) = self.asked.get(&event.request) else { return };
        let latency = (event.at - *asked).0;
        let histogram = match event.mode {
            Mode::Shared => &mut self.shared,
            Mode::Exclusive => &mut self.exclusive,
        };
        // It grows as it must: the clamp of `saturating_record` would be to its present size.
        histogram.record(latency).expect("a histogram that resizes takes any value");
    }
}

fn percentiles(histogram: &Histogram<u64>) -> Percentiles {
    if histogram.is_empty() {
        return Percentiles::default();
    }
    let at = |percent| histogram.value_at_percentile(percent);
    Percentiles {
        count: histogram.len(),
        min_ns: histogram.min(),
        mean_ns: histogram.mean() as u64,
        p50_ns: at(50.0),
        p90_ns: at(90.0),
        p99_ns: at(99.0),
        max_ns: histogram.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ClientId;
    use weft_protocols::locks::LockKey;

    fn write(scribe: &Scribe, at: u64, number: u32, mode: Mode, what: What) {
        let request = RequestId { client: ClientId { node: 0, index: 0 }, number };
        scribe.record(Event { at: Nanos(at), request, key: LockKey(number.into()), mode, what });
    }

    const ASKS: What = What::Requested { deadline: None };
    const GRANTED: What = What::Granted { token: None };

    #[test]
    fn every_request_is_counted_once_by_its_end() {
        let scribe = Scribe::new(false, false);
        let ends = [Some(What::TimedOut), Some(What::Refused), Some(What::Failed), None];
        for (number, end) in (0..).zip(ends) {
            write(&scribe, 1, number, Mode::Shared, ASKS);
            end.into_iter().for_each(|end| write(&scribe, 2, number, Mode::Shared, end));
        }
        write(&scribe, 3, 9, Mode::Shared, ASKS);
        write(&scribe, 4, 9, Mode::Shared, GRANTED);
        let all = Requests { made: 5, granted: 1, timed_out: 1, refused: 1, failed: 1, unended: 2 };
        assert_eq!((scribe.requests(), scribe.ended()), (all, 3));
        write(&scribe, 5, 9, Mode::Shared, What::Released);
        assert_eq!(scribe.ended(), 4);
    }

    #[test]
    fn latencies_are_from_the_call_to_the_grant_by_mode() {
        let scribe = Scribe::new(false, false);
        for number in 0..100 {
            write(&scribe, 1_000, number, Mode::Exclusive, ASKS);
            write(&scribe, 1_000 + 100_000 * u64::from(number), number, Mode::Exclusive, GRANTED);
            write(&scribe, 90_000_000, number, Mode::Exclusive, What::Released);
        }
        let Latencies { shared, exclusive } = scribe.latencies();
        assert_eq!(shared, Percentiles::default());
        assert_eq!((exclusive.count, exclusive.min_ns), (100, 0));
        // To three digits.
        for (measured, exact) in
            [(exclusive.p50_ns, 4_900_000), (exclusive.mean_ns, 4_950_000), (exclusive.max_ns, 9_900_000)]
        {
            assert!(measured.abs_diff(exact) <= exact / 1_000, "{measured} {exact}");
        }
        assert_eq!(scribe.busy(), Nanos(89_999_000));
    }

    #[test]
    fn a_history_is_kept_if_asked_for() {
        for keep in [false, true] {
            let scribe = Scribe::new(false, keep);
            write(&scribe, 1, 0, Mode::Shared, ASKS);
            assert_eq!(scribe.history().len(), usize::from(keep));
        }
    }
}
