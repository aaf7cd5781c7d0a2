//! The promises of the coherence models (ddss.txt, 4 and 5.3).

mod alone;
mod causes;
mod earlier;
mod exchanges;
mod losses;

use super::history::{Event, Timeless, Value, What};
use crate::history::{HistoryEvent, RequestId};
use crate::oracle::{Oracle, Oracles, Returns, Violation, show};
use alone::Alone;
use causes::Causes;
use earlier::Earlier;
use exchanges::Exchanges;
use losses::Losses;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use weft_protocols::ddss::{Model, Name};
use weft_verbs::Nanos;

/// The home of the segments of a name, among so many nodes.
fn home(name: u64, nodes: u32) -> u32 {
    Name(name).home(nodes).index() as u32
}

/// What a get may return beside the latest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowed {
    /// What is at most so many versions older than what had completed before the get began.
    Versions(u64),
    /// What nothing had superseded that completed so long before the get returned.
    Time(Nanos),
}

impl Allowed {
    fn by(model: Model) -> Allowed {
        match model {
            Model::Temporal(us) => Allowed::Time(Nanos::from_micros(us.into())),
            model => Allowed::Versions(model.behind().into()),
        }
    }

    /// How long ago completed versions must still be told apart.
    fn looks_back(self) -> Nanos {
        match self {
            Allowed::Versions(_) => AHEAD,
            Allowed::Time(time) => AHEAD + time,
        }
    }
}

/// How far a node's clock runs ahead of the fabric's within a step, as a rule: versions that were completed so long ago need
/// not be told apart any more. A node that runs further ahead makes the oracle miss something, not see what is not there.
const AHEAD: Nanos = Nanos::from_millis(1);

/// What is known of a segment.
#[derive(Clone, Debug, Default)]
struct Segment {
    /// The value of each version that somebody saw.
    values: BTreeMap<u64, Value>,
    /// The highest version that was completed long ago.
    old: u64,
    /// Versions that were completed since, with when.
    recent: Vec<(Nanos, u64)>,
}

impl Segment {
    /// The highest version that was completed before a moment.
    fn completed(&self, before: Nanos) -> u64 {
        let recent = self.recent.iter().filter(|(at, _)| *at < before).map(|(_, version)| *version);
        recent.fold(self.old, u64::max)
    }

    fn complete(&mut self, at: Nanos, version: u64, looks_back: Nanos) {
        let old = self.recent.extract_if(.., |(then, _)| *then + looks_back < at).map(|(_, version)| version);
        self.old = old.fold(self.old, u64::max);
        self.recent.push((at, version));
    }

    /// A version has one value; that of the first one nobody puts.
    fn names(&mut self, version: u64, value: Value) -> Result<(), String> {
        self.values.entry(0).or_insert(Value::Zero);
        let there = *self.values.entry(version).or_insert(value);
        if there == value { Ok(()) } else { Err(format!("version {version} is {there}, and {value}")) }
    }
}

/// Latest value: a get returns nothing that a put which completed before the get began had superseded, and gets agree on the
/// order of values. With whole values, that is linearizability, since each value has a version. Delta and temporal allow a get to
/// return older values, and bound how old.
#[derive(Clone, Debug)]
pub struct Latest {
    allowed: Allowed,
    /// By name, and which of those that had the name.
    segments: BTreeMap<(u64, u64), Segment>,
    /// For each call that is under way, the highest version that was completed before it began, of each segment that had the name;
    /// none of one that came later.
    began: BTreeMap<RequestId, Vec<(u64, u64)>>,
    /// Of gets under way that ask for an earlier version, how far back.
    back: BTreeMap<RequestId, u64>,
}

impl Latest {
    fn new(model: Model) -> Latest {
        let (segments, began, back) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Latest { allowed: Allowed::by(model), segments, began, back }
    }

    /// A call begins.
    fn begins(&mut self, event: &Event) {
        let of_this = self.segments.range((event.segment, 0)..=(event.segment, u64::MAX));
        let completed = of_this.map(|((_, life), segment)| (*life, segment.completed(event.at())));
        self.began.insert(event.request, completed.collect());
        if let What::GetsEarlier { back } = event.what {
            self.back.insert(event.request, back.into());
        }
    }

    /// Which segment a call was on, and its highest version that was completed before the call.
    fn before(&self, event: &Event) -> Option<(u64, u64)> {
        let began = self.began.get(&event.request)?;
        // Who does not say which segment had the name means the only one.
        let life = match (event.life, &began[..]) {
            (0, [(only, _)]) => *only,
            (life, _) => life,
        };
        Some((life, began.iter().find(|(of, _)| *of == life).map_or(0, |(_, version)| *version)))
    }

    /// A put returned whose value another one's has replaced: then there is a later version than those before it.
    fn superseded(&mut self, event: &Event) {
        if let Some((life, completed)) = self.before(event) {
            let segment = self.segments.entry((event.segment, life)).or_default();
            segment.complete(event.at(), completed + 1, self.allowed.looks_back());
        }
    }

    fn returned(&mut self, event: &Event, version: u64, value: Option<Value>) -> Result<(), String> {
        let Some((life, completed)) = self.before(event) else { return Ok(()) };
        let segment = self.segments.entry((event.segment, life)).or_default();
        let gets = matches!(event.what, What::Got { .. } | What::Unchanged { .. });
        // What a get may not be older than.
        let (least, since) = match self.allowed {
            Allowed::Versions(behind) if gets => {
                let back = self.back.get(&event.request).copied().unwrap_or(behind);
                (completed.saturating_sub(back), "it began")
            }
            Allowed::Time(time) if gets => {
                let before = event.at().0.checked_sub(time.0).map_or(0, |at| segment.completed(Nanos(at)));
                (before, "that time")
            }
            _ => (completed, "it began"),
        };
        segment.complete(event.at(), version, self.allowed.looks_back());
        let puts = matches!(event.what, What::Put { .. });
        if version < least || (puts && version == least) {
            return Err(format!("{}, but version {least} was completed before {since}", Timeless(event)));
        }
        match value {
            Some(value) => segment.names(version, value).map_err(|why| format!("{}; {why}", Timeless(event))),
            None => Ok(()),
        }
    }
}

impl Oracle<Event> for Latest {
    fn name(&self) -> &'static str {
        match self.allowed {
            Allowed::Versions(0) => "latest value",
            Allowed::Versions(_) => "versions behind",
            Allowed::Time(_) => "time behind",
        }
    }

    fn promise(&self) -> &'static str {
        match self.allowed {
            Allowed::Versions(0) => "no get returns what a completed put superseded",
            Allowed::Versions(_) => "no get is more versions behind than the model allows",
            Allowed::Time(_) => "no get returns what was superseded longer ago than the model allows",
        }
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let judged = match event.what {
            What::Gets
            | What::GetsEarlier { .. }
            | What::Puts
            | What::Exchanges
            | What::ExchangesTwice
            | What::Releases => {
                self.begins(event);
                return Ok(());
            }
            What::Got { version: Some(version), value } => self.returned(event, version, Some(value)),
            What::Unchanged { version } => self.returned(event, version, None),
            What::Put { version: Some(version) } => {
                self.returned(event, version, Some(Value::Of(event.request)))
            }
            What::Exchanged { value, got: Some(got), put } => {
                let read = self.returned(event, got, Some(value));
                let mine = Value::Of(event.request);
                read.and_then(|()| put.map_or(Ok(()), |put| self.returned(event, put, Some(mine))))
            }
            What::Put { version: None } => {
                self.superseded(event);
                Ok(())
            }
            What::Got { version: None, .. }
            | What::Exchanged { got: None, .. }
            | What::Holds { .. }
            | What::Released
            | What::Gone
            | What::Locked
            | What::Lost
            | What::Failed(_)
            | What::Crashed
            | What::LeftOut => Ok(()),
        };
        if !matches!(event.what, What::Holds { .. }) {
            self.began.remove(&event.request);
            self.back.remove(&event.request);
        }
        judged
    }
}

/// Whole values: a get returns the value of one put, and of one that was called on this segment.
#[derive(Clone, Debug, Default)]
pub struct Whole {
    /// The segment that each put was called on.
    puts: BTreeMap<RequestId, u64>,
}

impl Oracle<Event> for Whole {
    fn name(&self) -> &'static str {
        "whole values"
    }

    fn promise(&self) -> &'static str {
        "a get returns one whole value put to this segment"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let value = match event.what {
            What::Puts | What::Exchanges | What::ExchangesTwice => {
                self.puts.insert(event.request, event.segment);
                return Ok(());
            }
            What::Got { value, .. } | What::Exchanged { value, .. } => value,
            _ => return Ok(()),
        };
        match value {
            Value::Zero => Ok(()),
            Value::Of(request) if self.puts.get(&request) == Some(&event.segment) => Ok(()),
            Value::Of(_) => Err(format!("{}, which was not put to this segment", Timeless(event))),
            Value::Torn => Err(Timeless(event).to_string()),
        }
    }
}

/// Released segments: what was released is gone for good, and nothing else is but what died with its home.
#[derive(Clone, Debug, Default)]
pub struct Gone {
    /// Names of which somebody has begun to release a segment.
    begun: BTreeSet<u64>,
    /// Segments that were released: by name, and which of those that had the name.
    released: BTreeSet<(u64, u64)>,
    /// For each call that is under way on such a name, the segments that had been released before it began.
    began: BTreeMap<RequestId, Vec<u64>>,
    /// What died with its home.
    losses: Losses,
}

impl Gone {
    fn ended(&self, event: &Event) -> Result<(), String> {
        let late = self.began.get(&event.request).is_some_and(|before| before.contains(&event.life));
        match event.what {
            What::Gone if !self.begun.contains(&event.segment) => {
                Err(format!("{}, and nobody has released it", Timeless(event)))
            }
            What::Gone | What::Locked | What::Lost | What::Failed(_) => Ok(()),
            _ if late => Err(format!("{}, which was released before the call", Timeless(event))),
            What::Released if self.released.contains(&(event.segment, event.life)) => {
                Err(format!("{}, and so has another call", Timeless(event)))
            }
            _ => Ok(()),
        }
    }
}

impl Oracle<Event> for Gone {
    fn name(&self) -> &'static str {
        "released"
    }

    fn promise(&self) -> &'static str {
        "what was released or lost is gone, and users are told"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let name = event.segment;
        let lost = self.losses.observe(event, self.begun.contains(&name));
        if matches!(event.what, What::Crashed | What::LeftOut) {
            return lost;
        }
        if event.what.begins() {
            if event.what == What::Releases {
                self.begun.insert(name);
            }
            let before = self.released.range((name, 0)..=(name, u64::MAX)).map(|(_, life)| *life);
            self.began.insert(event.request, before.collect());
            return lost;
        }
        if matches!(event.what, What::Holds { .. }) {
            return lost;
        }
        let judged = self.ended(event).and(lost);
        self.began.remove(&event.request);
        if event.what == What::Released {
            self.released.insert((name, event.life));
        }
        judged
    }
}

/// All the oracles of shared segments of one model. Null promises nothing but that the lock excludes, that released segments are gone, that
/// calls fail with cause and that they return.
#[derive(Clone, Debug)]
pub struct DdssOracles {
    model: Model,
    latest: Latest,
    whole: Whole,
    alone: Alone,
    earlier: Earlier,
    exchanges: Exchanges,
    gone: Gone,
    causes: Causes,
    progress: Returns<Event>,
}

impl DdssOracles {
    /// Oracles that have seen nothing.
    pub fn new(model: Model, nodes: u32) -> DdssOracles {
        let (latest, progress) = (Latest::new(model), Returns::default());
        let gone = Gone { losses: Losses::among(nodes), ..Gone::default() };
        let (whole, alone, earlier) = (Whole::default(), Alone::new(model), Earlier::default());
        let (exchanges, causes) = (Exchanges::default(), Causes::new(model, nodes));
        DdssOracles { model, latest, whole, alone, earlier, exchanges, gone, causes, progress }
    }

    /// Those that judge this model, in a fixed order.
    fn judging(&mut self) -> impl Iterator<Item = &mut dyn Oracle<Event>> {
        let DdssOracles { model, latest, whole, alone, earlier, exchanges, gone, causes, progress } = self;
        let is_null = *model == Model::Null;
        let with_versions: [&mut dyn Oracle<Event>; 4] = [latest, whole, alone, earlier];
        let all: [&mut dyn Oracle<Event>; 4] = [exchanges, gone, causes, progress];
        let of_model = with_versions.into_iter().take(match model {
            Model::Null => 0,
            Model::Delta(_) => 4,
            _ => 3,
        });
        of_model.chain(all.into_iter().skip(if is_null { 0 } else { 1 }))
    }
}

impl Oracles for DdssOracles {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        let mut these = DdssOracles::new(self.model, self.gone.losses.nodes());
        these.judging().map(|oracle| (oracle.name(), oracle.promise())).collect()
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(Violation)) {
        if event.what == What::Crashed {
            self.progress.node_restarted(event.node());
        }
        show(event, self.judging(), broken);
    }

    fn ended(&self) -> u64 {
        self.progress.ended()
    }

    fn unended(&self) -> u64 {
        self.progress.unended()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        self.progress.finish(now, healthy).chain(self.causes.finish(now)).collect()
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        for (name, segment) in &self.latest.segments {
            (name, &segment.values, segment.completed(Nanos::MAX)).hash(&mut to);
        }
        (self.exchanges.state(), &self.causes).hash(&mut to);
        (self.alone.state(), &self.earlier).hash(&mut to);
        (&self.latest.began, &self.latest.back).hash(&mut to);
        (&self.gone.begun, &self.gone.released, &self.gone.began, &self.gone.losses).hash(&mut to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ClientId;
    use weft_protocols::ddss::Name;

    const fn request(node: u32) -> RequestId {
        RequestId { client: ClientId { node, index: 0 }, number: 0 }
    }

    /// What is said of a history of one segment: at so many microseconds, a node's only request, and what happens to it.
    fn said(model: Model, history: &[(u64, u32, What)]) -> Vec<&'static str> {
        let (mut oracles, mut said) = (DdssOracles::new(model, 3), Vec::new());
        for &(at, node, what) in history {
            let event = Event { at_ns: 1_000 * at, request: request(node), segment: 1, life: 0, what };
            oracles.observe(&event, &mut |violation| said.push(violation.oracle));
        }
        said.extend(oracles.finish(Nanos::ZERO, Nanos::ZERO).iter().map(|violation| violation.oracle));
        said
    }

    const fn got(node: u32, version: u64) -> What {
        What::Got { value: Value::Of(request(node)), version: Some(version) }
    }

    const fn put(version: u64) -> What {
        What::Put { version: Some(version) }
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn a_get_beside_a_put_may_return_either_value_and_one_after_it_the_new_one() {
        let zero = What::Got { value: Value::Zero, version: Some(0) };
        for seen in [zero, got(0, 1)] {
            let beside = [(1, 0, What::Puts), (2, 1, What::Gets), (3, 0, put(1)), (4, 1, seen)];
            assert_eq!(said(Model::Write, &beside), NOTHING);
        }
        let after = |seen| [(1, 0, What::Puts), (2, 0, put(1)), (3, 1, What::Gets), (4, 1, seen)];
        assert_eq!(said(Model::Write, &after(got(0, 1))), NOTHING);
        assert_eq!(said(Model::Write, &after(zero)), ["latest value"]);
        assert_eq!(said(Model::Null, &after(zero)), NOTHING, "null promises nothing");
    }

    #[test]
    fn what_one_get_has_seen_no_later_one_may_unsee() {
        let history = |second| {
            [
                (1, 0, What::Puts),
                (2, 1, What::Gets),
                (3, 1, got(0, 1)),
                (4, 2, What::Gets),
                (5, 2, second),
                (6, 0, put(1)),
            ]
        };
        assert_eq!(said(Model::Strict, &history(got(0, 1))), NOTHING);
        let zero = What::Got { value: Value::Zero, version: Some(0) };
        assert_eq!(said(Model::Strict, &history(zero)), ["latest value"]);
    }

    #[test]
    fn delta_allows_so_many_versions_and_temporal_so_much_time() {
        let zero = What::Got { value: Value::Zero, version: Some(0) };
        // Two puts complete at 2 us and 4 us, and a get returns the value before both at 10 us.
        let history = |seen| {
            [
                (1, 0, What::Puts),
                (2, 0, put(1)),
                (3, 1, What::Puts),
                (4, 1, put(2)),
                (5, 2, What::Gets),
                (10, 2, seen),
            ]
        };
        let unchanged = What::Unchanged { version: 0 };
        for seen in [zero, unchanged] {
            assert_eq!(said(Model::Delta(2), &history(seen)), NOTHING);
            assert_eq!(said(Model::Delta(1), &history(seen)), ["versions behind"]);
            assert_eq!(said(Model::Temporal(9), &history(seen)), NOTHING);
            assert_eq!(said(Model::Temporal(7), &history(seen)), ["time behind"]);
        }
        // One version behind: superseded at 4 us.
        assert_eq!(said(Model::Temporal(7), &history(got(0, 1))), NOTHING);
        assert_eq!(said(Model::Temporal(5), &history(got(0, 1))), ["time behind"]);
    }

    #[test]
    fn a_version_that_is_asked_for_by_its_distance_is_that_one() {
        let zero = What::Got { value: Value::Zero, version: Some(0) };
        // Two puts complete, and a third is under way; a get asks for a version, and returns this one.
        let history = |back, seen| {
            [
                (1, 0, What::Puts),
                (2, 0, put(1)),
                (3, 1, What::Puts),
                (4, 1, put(2)),
                (5, 0, What::Puts),
                (5, 2, What::GetsEarlier { back }),
                (6, 2, seen),
                (7, 0, put(3)),
            ]
        };
        let said = |back, seen| said(Model::Delta(2), &history(back, seen));
        assert_eq!((said(2, zero), said(2, got(0, 1))), (vec![], vec![]));
        assert_eq!(said(2, got(1, 2)), ["earlier"]);
        for older in [zero, got(0, 1)] {
            assert_eq!(said(0, older), ["versions behind"], "a copy may be as old as that");
        }
        assert_eq!(said(0, got(1, 2)), NOTHING);
    }

    #[test]
    fn a_put_between_the_lock_and_the_unlock_of_another_is_noticed() {
        let exchanged = |put| What::Exchanged { value: Value::Zero, got: Some(0), put: Some(put) };
        let history = |first| {
            [(1, 0, What::Exchanges), (2, 1, What::Puts), (3, 1, put(3 - first)), (4, 0, exchanged(first))]
        };
        assert_eq!(said(Model::Strict, &history(1)), NOTHING);
        assert!(said(Model::Write, &history(2)).contains(&"holder alone"));
        assert_eq!(said(Model::Null, &history(2)), NOTHING);
    }

    #[test]
    fn without_versions_whoever_has_the_lock_finds_what_the_one_before_it_put() {
        let holds = |value| What::Holds { value };
        let done = What::Exchanged { value: Value::Zero, got: None, put: None };
        let of = |node| Value::Of(request(node));
        // Node 0 has the lock and returns or dies; then node 1 has it and returns, and then node 2 finds a value.
        let history = |ends, second, third| {
            [
                (1, 0, What::Exchanges),
                (1, 1, What::Exchanges),
                (1, 2, What::Exchanges),
                (2, 0, holds(Value::Zero)),
                (3, 0, ends),
                (4, 1, holds(second)),
                (5, 1, done),
                (6, 2, holds(third)),
                (7, 2, done),
            ]
        };
        assert_eq!(said(Model::Null, &history(done, of(0), of(1))), NOTHING);
        assert_eq!(said(Model::Null, &history(done, Value::Zero, of(1))), ["holder alone"]);
        for second in [Value::Zero, of(0)] {
            assert_eq!(said(Model::Null, &history(What::Crashed, second, of(1))), NOTHING);
            assert_eq!(said(Model::Null, &history(What::Crashed, second, of(0))), ["holder alone"], "late");
            assert_eq!(said(Model::Null, &history(What::Crashed, second, Value::Torn)), ["holder alone"]);
        }
        // What died amid its put may be there in part, until the next one has put; what one has put that returned is whole.
        assert_eq!(said(Model::Null, &history(What::Crashed, Value::Torn, of(1))), NOTHING);
        let left_out = history(What::LeftOut, Value::Torn, of(1));
        assert_eq!(said(Model::Null, &[&left_out[..], &[(8, 0, What::Crashed)]].concat()), NOTHING);
        assert_eq!(said(Model::Null, &history(What::Crashed, Value::Torn, Value::Torn)), ["holder alone"]);
        assert_eq!(said(Model::Null, &history(done, Value::Torn, of(1))), ["holder alone"]);
        // The first returns after the second has found something.
        let late = |found| {
            [
                (1, 0, What::Exchanges),
                (1, 1, What::Exchanges),
                (2, 0, holds(Value::Zero)),
                (3, 1, holds(found)),
                (4, 0, done),
                (5, 1, done),
            ]
        };
        assert_eq!(said(Model::Null, &late(of(0))), NOTHING);
        assert_eq!(said(Model::Null, &late(Value::Zero)), ["holder alone"]);
    }

    #[test]
    fn what_was_released_is_gone_and_what_has_its_name_next_begins_anew() {
        let zero = What::Got { value: Value::Zero, version: Some(0) };
        let end = |life, what| (life, what);
        // Version 1 is put, and the segment is released; then somebody ends so.
        let said = |last: (u64, What)| {
            let (mut oracles, mut said) = (DdssOracles::new(Model::Write, 3), Vec::new());
            let history = [
                (0, end(0, What::Puts)),
                (0, end(7, put(1))),
                (1, end(0, What::Releases)),
                (1, end(7, What::Released)),
                (2, end(0, What::Gets)),
                (2, last),
            ];
            for (at, (node, (life, what))) in (0..).zip(history) {
                let event = Event { at_ns: at, request: request(node), segment: 1, life, what };
                oracles.observe(&event, &mut |violation| said.push(violation.oracle));
            }
            said
        };
        assert_eq!(said((8, zero)), NOTHING, "another segment");
        assert_eq!(said((7, got(0, 1))), ["released"]);
        assert_eq!(said((0, What::Gone)), NOTHING);
        assert_eq!(self::said(Model::Null, &[(1, 0, What::Gets), (2, 0, What::Gone)]), ["released"]);
    }

    #[test]
    fn a_segment_is_gone_with_its_home_and_with_nobody_else_and_the_dead_need_not_return() {
        let home = Name(1).home(3).index() as u32;
        for (dies, expected) in [(home, &[][..]), ((home + 1) % 3, &["released"])] {
            let asks = (home + 2) % 3;
            let history =
                |ends| [(1, dies, What::Gets), (2, dies, ends), (3, asks, What::Gets), (4, asks, What::Lost)];
            // One that is left out alive must return.
            for (ends, waiting) in [(What::Crashed, 0), (What::LeftOut, 1)] {
                let (mut oracles, mut said) = (DdssOracles::new(Model::Write, 3), Vec::new());
                for (at_ns, node, what) in history(ends) {
                    let event = Event { at_ns, request: request(node), segment: 1, life: 0, what };
                    let event = if what == ends { Event::of_node(Nanos(at_ns), node, what) } else { event };
                    oracles.observe(&event, &mut |violation| said.push(violation.oracle));
                }
                assert_eq!((&said[..], oracles.unended()), (expected, waiting), "{ends:?}");
            }
        }
    }

    #[test]
    fn two_values_of_one_version_a_torn_value_and_a_call_that_never_returns_are_told_apart() {
        let two = [(1, 0, What::Puts), (1, 1, What::Puts), (2, 0, put(1)), (2, 1, put(1))];
        assert_eq!(said(Model::Version, &two), ["latest value"]);
        let torn = What::Got { value: Value::Torn, version: Some(1) };
        assert_eq!(said(Model::Write, &[(1, 0, What::Gets), (2, 0, torn)]), ["whole values"]);
        assert_eq!(said(Model::Null, &[(1, 0, What::Gets), (2, 0, torn)]), NOTHING);
        assert_eq!(said(Model::Null, &[(1, 0, What::Puts)]), ["progress"]);
    }
}
