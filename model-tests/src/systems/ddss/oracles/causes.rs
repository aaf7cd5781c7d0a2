//! What a call says that fails.

use super::super::history::{Event, What, Why};
use super::home;
use crate::history::{HistoryEvent, RequestId, Stage};
use crate::oracle::{Oracle, Outcasts, Violation, unexplained};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use weft_protocols::ddss::Model;
use weft_verbs::Nanos;

/// A call fails with cause: faults of links are repaired and not told, and who dies or is left out is named.
///
/// Some errors only a fault brings about: without one, and while nobody is gone, they are wrong. And then somebody has the lock, if a try
/// finds it taken.
#[derive(Clone, Debug)]
pub(super) struct Causes {
    nodes: u32,
    /// Under temporal: how long a call has taken at least that finds its home too slow.
    slow: Option<Nanos>,
    outcasts: Outcasts,
    /// Who has been served by which home: they are members of one view.
    served: BTreeSet<(u32, u32)>,
    /// When the calls under way began, by the clocks of their nodes.
    began: BTreeMap<RequestId, Nanos>,
    unharmed: Unharmed,
}

/// What is wrong where nothing has gone wrong.
#[derive(Clone, Debug, Default)]
struct Unharmed {
    /// The first call that failed.
    failed: Option<String>,
    /// The first one whose answer was lost.
    unknown: Option<String>,
    /// Somebody has begun to release a segment: whoever still asks for its memory breaks a connection, and with that answers are lost.
    releases: bool,
    /// The first one that found the lock taken.
    locked: Option<String>,
    /// A call has come to another end: it may have had the lock.
    otherwise: bool,
}

impl Unharmed {
    fn ends(&mut self, event: &Event) {
        let words = || event.to_string();
        match event.what {
            What::Locked => drop(self.locked.get_or_insert_with(words)),
            // A home may be slow without a fault, and how slow it was is judged at once.
            What::Failed(Why::Dropped | Why::Slow) => self.otherwise = true,
            What::Failed(Why::Unknown) => drop(self.unknown.get_or_insert_with(words)),
            What::Failed(_) => drop(self.failed.get_or_insert_with(words)),
            _ => self.otherwise = true,
        }
    }

    /// The first call that ended without cause.
    fn found(&self) -> Option<&String> {
        let unknown = self.unknown.as_ref().filter(|_| !self.releases);
        let locked = self.locked.as_ref().filter(|_| !self.otherwise);
        self.failed.as_ref().or(unknown).or(locked)
    }

    fn state(&self) -> impl Hash + use<> {
        let Unharmed { failed, unknown, locked, releases, otherwise } = self;
        (failed.is_some(), unknown.is_some(), locked.is_some(), *releases, *otherwise)
    }
}

/// After so many looks that are too late each, a home is too slow (docs/ddss.md).
const MOST_LATE: u64 = 8;

impl Causes {
    pub fn new(model: Model, nodes: u32) -> Causes {
        let slow = matches!(model, Model::Temporal(_)).then(|| Nanos(MOST_LATE * model.patience().0));
        let (outcasts, unharmed) = (Outcasts::default(), Unharmed::default());
        Causes { nodes, slow, outcasts, served: BTreeSet::new(), began: BTreeMap::new(), unharmed }
    }

    /// What it judges by where no time passes.
    pub fn state(&self) -> impl Hash + '_ {
        (&self.outcasts, &self.served, self.unharmed.state())
    }

    fn is_known(&self, why: Why, node: u32, took: Option<Nanos>) -> bool {
        match why {
            // It may not have come yet.
            Why::Absent(other) => !self.served.contains(&(node, other)),
            Why::Slow => self.slow.is_some_and(|slow| took.is_none_or(|took| took >= slow)),
            Why::NotSaid | Why::Dropped | Why::Out | Why::Unknown => true,
            Why::Other => false,
        }
    }

    /// A node is in the views of others no more.
    fn goes(&mut self, node: u32) {
        self.served.retain(|(served, home)| ![*served, *home].contains(&node));
    }

    /// What nothing has explained by the end.
    pub fn finish(&self, now: Nanos) -> impl Iterator<Item = Violation> {
        self.outcasts.finish(self.name(), now)
    }

    /// What nothing but a fault would have explained, where there was none.
    pub fn finish_unharmed(&self) -> Option<Violation> {
        let words = self.unharmed.found().filter(|_| !self.outcasts.any())?;
        Some(Violation { oracle: self.name(), at: Nanos::ZERO, text: unexplained(words) })
    }
}

impl Oracle<Event> for Causes {
    fn name(&self) -> &'static str {
        "causes"
    }

    fn promise(&self) -> &'static str {
        "no call fails that nothing has happened to"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let node = event.request.client.node;
        match event.what {
            What::Crashed => {
                self.goes(node);
                self.outcasts.crashes(node);
                self.began.retain(|request, _| request.client.node != node);
                return Ok(());
            }
            What::LeftOut => {
                self.goes(node);
                self.outcasts.is_left_out(node);
                return Ok(());
            }
            What::Holds { .. } => return Ok(()),
            _ if event.stage() == Stage::Asked => {
                self.began.insert(event.request, event.at());
                self.unharmed.releases |= event.what == What::Releases;
                return Ok(());
            }
            What::Got { .. } | What::Put { .. } | What::Exchanged { .. } => {
                self.served.insert((node, home(event.segment, self.nodes)));
            }
            _ => {}
        }
        let took = self.began.remove(&event.request).map(|began| event.at() - began);
        self.unharmed.ends(event);
        match event.what {
            What::Failed(Why::Out) => self.outcasts.says(node, || event.to_string()),
            What::Failed(why) if !self.is_known(why, node, took) => {
                return Err(unexplained(&event.to_string()));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::history::Value;
    use super::*;
    use crate::history::ClientId;

    /// Whether it is an error that a call of node 1 fails, to a segment that it has put to before; meanwhile nodes are left out, or crash.
    fn is_told(model: Model, meanwhile: &[(u32, What)], why: Why) -> bool {
        let mut oracle = Causes::new(model, 4);
        let request = RequestId { client: ClientId { node: 1, index: 0 }, number: 0 };
        let event = |what| Event { at_ns: 0, request, segment: 1, life: 0, what };
        let before = [event(What::Put { version: None })].into_iter();
        let meanwhile = meanwhile.iter().map(|(node, what)| Event::of_node(Nanos::ZERO, *node, *what));
        for event in before.chain(meanwhile) {
            oracle.observe(&event).expect("nothing fails");
        }
        oracle.observe(&event(What::Failed(why))).is_err() || oracle.finish(Nanos::ZERO).count() > 0
    }

    #[test]
    fn a_call_fails_for_want_of_who_is_gone_and_of_nobody_else() {
        let write = |meanwhile: &[_], why| is_told(Model::Write, meanwhile, why);
        let home = home(1, 4);
        let another = (home + 1) % 4;
        assert!(!write(&[], Why::Absent(another)), "it may not have come");
        assert!(write(&[(another, What::LeftOut)], Why::Absent(home)), "it was there");
        for gone in [What::LeftOut, What::Crashed] {
            assert!(!write(&[(home, gone)], Why::Absent(home)));
        }
        assert!(write(&[(2, What::LeftOut)], Why::Out) && write(&[(1, What::Crashed)], Why::Out));
        assert!(!write(&[(1, What::LeftOut)], Why::Out));
        assert!(!write(&[(2, What::Crashed)], Why::Out), "that may have been a majority");
        assert!(write(&[], Why::Slow) && !is_told(Model::Temporal(9), &[], Why::Slow));
        assert!(write(&[(0, What::Crashed), (1, What::LeftOut)], Why::Other));
    }
    fn event(number: u32, at_ns: u64, what: What) -> Event {
        let request = RequestId { client: ClientId { node: 1, index: 0 }, number };
        Event { at_ns, request, segment: 1, life: 0, what }
    }

    #[test]
    fn a_home_is_too_slow_only_for_who_has_waited_for_eight_times_the_models_time() {
        let judged = |took: u64| {
            let mut oracle = Causes::new(Model::Temporal(10), 4);
            oracle.observe(&event(0, 1_000, What::Gets)).expect("it begins");
            oracle.observe(&event(0, 1_000 + took, What::Failed(Why::Slow)))
        };
        assert!(judged(70_000).is_err());
        assert!(judged(80_000).is_ok());
    }

    #[test]
    fn without_a_fault_no_call_fails_but_what_its_user_drops_or_whose_home_is_slow() {
        let told = |why, meanwhile: &[Event]| {
            let mut oracle = Causes::new(Model::Temporal(1), 4);
            let all = [event(0, 0, What::Gets), event(0, 9_000, What::Failed(why))];
            for event in all.iter().chain(meanwhile) {
                oracle.observe(event).expect("a fault may be the cause");
            }
            oracle.finish_unharmed().is_some()
        };
        for why in [Why::Unknown, Why::NotSaid, Why::Absent(3), Why::Out] {
            assert!(told(why, &[]), "{why:?}");
            assert!(!told(why, &[Event::of_node(Nanos::ZERO, 3, What::LeftOut)]), "{why:?}");
        }
        let releases = [event(1, 0, What::Releases)];
        assert!(!told(Why::Unknown, &releases), "that may have broken a connection");
        assert!(told(Why::NotSaid, &releases));
        assert!(!told(Why::Dropped, &[]) && !told(Why::Slow, &[]));
    }

    #[test]
    fn of_tries_alone_one_at_least_has_the_lock() {
        let had = What::Exchanged { value: Value::Zero, got: Some(0), put: Some(1) };
        let told = |ends: &[What]| {
            let mut oracle = Causes::new(Model::Write, 4);
            for (number, end) in (0..).zip(ends) {
                oracle.observe(&event(number, 0, What::Exchanges)).expect("it begins");
                oracle.observe(&event(number, 0, *end)).expect("others may have it");
            }
            oracle.finish_unharmed().is_some()
        };
        assert!(told(&[What::Locked]) && told(&[What::Locked; 2]));
        assert!(!told(&[What::Locked, had]) && !told(&[]));
    }
}
