//! The promises of the coherence models (ddss.txt, 4 and 5.3).

mod alone;
mod causes;
mod earlier;
mod exchanges;
mod losses;

use super::history::{Event, Value, What};
use crate::history::{HistoryEvent, RequestId, Stage};
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
        if there == value {
            Ok(())
        } else {
            Err(format!("version {version} has had two values: {there}, and {value}"))
        }
    }
}

/// The versions that a call's value was seen at: all of one segment.
#[derive(Clone, Copy, Debug, Hash)]
struct Made {
    /// Which of the segments that had the name.
    life: u64,
    /// The lowest of them.
    first: u64,
    /// The highest.
    last: u64,
}

/// Latest value: a get returns nothing that a put which completed before the get began had superseded, and gets agree on the
/// order of values. A put takes effect once: its value has one version, and that of a call that puts twice has two that follow each other.
/// With whole values, that is linearizability, since each version has one value and each value its versions. Delta and temporal allow a get
/// to return older values, and bound how old.
#[derive(Clone, Debug)]
pub struct Latest {
    allowed: Allowed,
    /// By name, and which of those that had the name.
    segments: BTreeMap<(u64, u64), Segment>,
    /// The calls that are under way.
    began: BTreeMap<RequestId, Began>,
    /// By name, and the call that put it: where each value was seen.
    made: BTreeMap<(u64, RequestId), Made>,
    /// Calls that put their value twice.
    twice: BTreeSet<RequestId>,
}

/// A call that is under way.
#[derive(Clone, Debug, Hash)]
struct Began {
    /// The highest version that was completed before it began, of each segment that had the name; none of one that came later.
    completed: Vec<(u64, u64)>,
    /// Of a get that asks for an earlier version, how far back.
    back: Option<u64>,
}

impl Latest {
    fn new(model: Model) -> Latest {
        let (segments, began, made) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Latest { allowed: Allowed::by(model), segments, began, made, twice: BTreeSet::new() }
    }

    /// A call begins.
    fn begins(&mut self, event: &Event) {
        let of_this = self.segments.range((event.segment, 0)..=(event.segment, u64::MAX));
        let completed = of_this.map(|((_, life), segment)| (*life, segment.completed(event.at())));
        let back = if let What::GetsEarlier { back } = event.what { Some(back.into()) } else { None };
        self.began.insert(event.request, Began { completed: completed.collect(), back });
        if event.what == What::ExchangesTwice {
            self.twice.insert(event.request);
        }
    }

    /// A value has one version, of one segment; that of a call that puts twice has two that follow each other.
    fn makes(&mut self, (name, life): (u64, u64), version: u64, value: Value) -> Result<(), String> {
        let Value::Of(call) = value else { return Ok(()) };
        let made = self.made.entry((name, call)).or_insert(Made { life, first: version, last: version });
        let before = *made;
        if before.life != life {
            return Err(format!("{value} is one of another segment that had this name"));
        }
        *made = Made { life, first: before.first.min(version), last: before.last.max(version) };
        if made.last - made.first <= u64::from(self.twice.contains(&call)) {
            return Ok(());
        }
        let seen = if version < before.first { before.last } else { before.first };
        Err(format!("{value} has had version {seen}, and was put once more: version {version}"))
    }

    /// Which segment a call was on, and its highest version that was completed before the call.
    fn before(&self, event: &Event) -> Option<(u64, u64)> {
        let began = &self.began.get(&event.request)?.completed;
        // Who does not say which segment had the name means the only one.
        let life = match (event.life, &began[..]) {
            (0, [(only, _)]) => *only,
            (life, _) => life,
        };
        Some((life, began.iter().find(|(of, _)| *of == life).map_or(0, |(_, version)| *version)))
    }

    fn returned(&mut self, event: &Event, version: u64, value: Option<Value>) -> Result<(), String> {
        let Some((life, completed)) = self.before(event) else { return Ok(()) };
        let segment = self.segments.entry((event.segment, life)).or_default();
        let gets = matches!(event.what, What::Got { .. } | What::Unchanged { .. });
        // What a get may not be older than.
        let (least, since) = match self.allowed {
            Allowed::Versions(behind) if gets => {
                let back = self.began.get(&event.request).and_then(|began| began.back).unwrap_or(behind);
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
            return Err(format!("{event}, but version {least} was completed before {since}"));
        }
        let Some(value) = value else { return Ok(()) };
        let named = segment.names(version, value);
        named
            .and_then(|()| self.makes((event.segment, life), version, value))
            .map_err(|why| format!("{event}; {why}"))
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
        if event.stage() == Stage::Asked {
            self.begins(event);
            return Ok(());
        }
        let judged = match event.what {
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
            _ => Ok(()),
        };
        if !matches!(event.what, What::Holds { .. }) {
            self.began.remove(&event.request);
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
        if event.what.puts() > 0 {
            self.puts.insert(event.request, event.segment);
        }
        let value = match event.what {
            What::Got { value, .. } | What::Exchanged { value, .. } => value,
            _ => return Ok(()),
        };
        match value {
            Value::Zero => Ok(()),
            Value::Of(request) if self.puts.get(&request) == Some(&event.segment) => Ok(()),
            Value::Of(_) => Err(format!("{event}, which was not put to this segment")),
            Value::Torn => Err(event.to_string()),
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
    /// Segments of which a call was told that they are gone: no name stands for them from then on.
    told: BTreeSet<(u64, u64)>,
    /// For each call that is under way on such a name, the segments that had been released before it began; for one that looks a name up,
    /// those that were told of as well.
    began: BTreeMap<RequestId, Vec<u64>>,
    /// What died with its home.
    losses: Losses,
}

impl Gone {
    fn ended(&self, event: &Event) -> Result<(), String> {
        let late = self.began.get(&event.request).is_some_and(|before| before.contains(&event.life));
        match event.what {
            What::Gone if !self.begun.contains(&event.segment) => {
                Err(format!("{event}, and nobody has released it"))
            }
            What::Gone | What::Locked | What::Lost | What::Failed(_) => Ok(()),
            What::Found if late => Err(format!("{event}, which was gone before the call")),
            _ if late => Err(format!("{event}, which was released before the call")),
            What::Released if self.released.contains(&(event.segment, event.life)) => {
                Err(format!("{event}, and so has another call"))
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
        "what is released or lost is gone, and users are told"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let name = event.segment;
        let lost = self.losses.observe(event, self.begun.contains(&name));
        if matches!(event.what, What::Crashed | What::LeftOut) {
            return lost;
        }
        if event.stage() == Stage::Asked {
            if event.what == What::Releases {
                self.begun.insert(name);
            }
            let of_name = |all: &BTreeSet<(u64, u64)>| {
                all.range((name, 0)..=(name, u64::MAX)).map(|(_, life)| *life).collect::<Vec<_>>()
            };
            let mut before = of_name(&self.released);
            if event.what == What::Finds {
                before.extend(of_name(&self.told));
            }
            self.began.insert(event.request, before);
            return lost;
        }
        if matches!(event.what, What::Holds { .. }) {
            return lost;
        }
        let judged = self.ended(event).and(lost);
        self.began.remove(&event.request);
        match event.what {
            What::Released => _ = self.released.insert((name, event.life)),
            What::Gone if event.life > 0 => _ = self.told.insert((name, event.life)),
            _ => {}
        }
        judged
    }
}

/// Which kinds of calls have returned something to judge.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    got: bool,
    earlier: bool,
    exchanged: bool,
}

impl Seen {
    fn observe(&mut self, event: &Event, is_earlier: bool) {
        match event.what {
            What::Got { .. } | What::Unchanged { .. } => {
                self.got = true;
                self.earlier |= is_earlier;
            }
            What::Exchanged { .. } => (self.got, self.exchanged) = (true, true),
            _ => {}
        }
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
    seen: Seen,
}

impl DdssOracles {
    /// Oracles that have seen nothing.
    pub fn new(model: Model, nodes: u32) -> DdssOracles {
        let (latest, progress) = (Latest::new(model), Returns::default());
        let gone = Gone { losses: Losses::among(nodes), ..Gone::default() };
        let (whole, alone, earlier) = (Whole::default(), Alone::new(model), Earlier::default());
        let (exchanges, causes) = (Exchanges::default(), Causes::new(model, nodes));
        let seen = Seen::default();
        DdssOracles { model, latest, whole, alone, earlier, exchanges, gone, causes, progress, seen }
    }

    /// Those that judge this model, in a fixed order.
    fn judging(&mut self) -> impl Iterator<Item = &mut dyn Oracle<Event>> {
        let DdssOracles { model, latest, whole, alone, earlier, exchanges, gone, causes, progress, .. } =
            self;
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
        self.seen.observe(event, self.earlier.is_asked_by(event.request));
        show(event, self.judging(), broken);
    }

    fn untested(&self) -> Vec<&'static str> {
        let Seen { got, earlier, exchanged } = self.seen;
        let of_gets = [self.latest.name(), self.whole.name()].into_iter().filter(|_| !got);
        let of_earlier = [self.earlier.name()].into_iter().filter(|_| !earlier);
        of_gets.chain(of_earlier).chain([self.alone.name()].into_iter().filter(|_| !exchanged)).collect()
    }

    fn ended(&self) -> u64 {
        self.progress.ended()
    }

    fn unended(&self) -> u64 {
        self.progress.unended()
    }

    fn oldest(&self) -> Option<Nanos> {
        self.progress.oldest()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        self.progress.finish(now, healthy).chain(self.causes.finish(now)).collect()
    }

    fn finish_unharmed(&self) -> Option<Violation> {
        self.causes.finish_unharmed()
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        for (name, segment) in &self.latest.segments {
            (name, &segment.values, segment.completed(Nanos::MAX)).hash(&mut to);
        }
        (self.exchanges.state(), self.causes.state()).hash(&mut to);
        (self.alone.state(), &self.earlier).hash(&mut to);
        (&self.latest.began, &self.latest.made, &self.latest.twice).hash(&mut to);
        (&self.gone.begun, &self.gone.released, &self.gone.told).hash(&mut to);
        (&self.gone.began, &self.gone.losses).hash(&mut to);
    }
}

#[cfg(test)]
mod tests;
