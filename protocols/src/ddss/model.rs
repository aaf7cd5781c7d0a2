//! What a user says of a segment: its name, its size and its coherence model.

use super::{DdssError, Header};
use crate::transport::Rank;
use std::fmt;
use std::str::FromStr;
use weft_verbs::Nanos;

/// A segment's name, the same on all nodes (ddss.txt, 5.9: what allocation is asked for). Users give names below 2^63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u64);

impl Name {
    /// Names from here on are those of segments that were allocated without one.
    const ANONYMOUS: u64 = 1 << 63;

    /// The name that a home gives to a segment which has none.
    pub(super) fn anonymous(home: Rank, number: u64) -> Name {
        Name(Name::ANONYMOUS | u64::from(home.get()) << 40 | number)
    }

    /// Its number among those that users give, or among those that its home has given.
    pub(super) const fn number(self) -> u64 {
        if self.is_given() { self.0 } else { self.0 & ((1 << 40) - 1) }
    }

    /// Whether a user may give it.
    pub(super) const fn is_given(self) -> bool {
        self.0 < Name::ANONYMOUS
    }

    /// The node that keeps the segment, among so many: round robin by name (5.7).
    pub fn home(self, nodes: u32) -> Rank {
        Rank::from_index((self.0 % u64::from(nodes.max(1))) as u32)
    }
}

/// What a get may return while others put (ddss.txt, 4 and 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Model {
    /// Whatever is there, torn values too: no coordination at all.
    Null,
    /// The latest completed put's value. A get has the segment's lock for its moment: no other get and no put has an effect
    /// then.
    Read,
    /// The latest completed put's value with its version. Who has that version already moves no data.
    Version,
    /// At most so many versions behind the puts that had completed before the get began. The current version and so many
    /// before it can be got by their numbers.
    Delta(u8),
    /// Nothing that a put had superseded which completed so many microseconds before the get returned.
    Temporal(u32),
    /// The latest completed put's value, also while somebody has the lock.
    Write,
    /// The latest completed put's value. A get waits while somebody has the lock.
    Strict,
}

impl Model {
    /// One of each kind.
    pub const ALL: [Model; 7] = [
        Model::Null,
        Model::Read,
        Model::Version,
        Model::Delta(2),
        Model::Temporal(100),
        Model::Write,
        Model::Strict,
    ];

    /// The most versions that delta may be behind.
    pub const MOST_BEHIND: u8 = 14;

    /// How much slower or faster than true time a node's clock may run, in millionths: what crystals are sold for, both ends of
    /// an interval and a margin.
    pub const DRIFT: u64 = 200;

    /// Its kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Null => "null",
            Model::Read => "read",
            Model::Version => "version",
            Model::Delta(_) => "delta",
            Model::Temporal(_) => "temporal",
            Model::Write => "write",
            Model::Strict => "strict",
        }
    }

    /// Whether a get may return a mixture of values.
    pub const fn may_tear(self) -> bool {
        matches!(self, Model::Null)
    }

    /// How many versions a get may be behind.
    pub const fn behind(self) -> u8 {
        match self {
            Model::Delta(behind) => behind,
            _ => 0,
        }
    }

    /// Whether a get may say that what the caller has is good enough.
    pub const fn keeps_copies(self) -> bool {
        matches!(self, Model::Version | Model::Delta(_) | Model::Temporal(_))
    }

    /// For how long a copy that was the latest one is good, by any clock that keeps to [`Model::DRIFT`].
    pub fn patience(self) -> Nanos {
        match self {
            Model::Temporal(us) => {
                Nanos(u64::from(us) * 1_000 - (u64::from(us) * Model::DRIFT).div_ceil(1_000))
            }
            _ => Nanos::ZERO,
        }
    }

    /// Its code and its parameter, for messages.
    pub(super) const fn code(self) -> (u8, u32) {
        match self {
            Model::Null => (0, 0),
            Model::Version => (1, 0),
            Model::Write => (2, 0),
            Model::Strict => (3, 0),
            Model::Read => (4, 0),
            Model::Delta(behind) => (5, behind as u32),
            Model::Temporal(us) => (6, us),
        }
    }

    pub(super) fn from_code(code: u8, parameter: u32) -> Option<Model> {
        let model = match code {
            0 => Model::Null,
            1 => Model::Version,
            2 => Model::Write,
            3 => Model::Strict,
            4 => Model::Read,
            5 => Model::Delta(parameter.try_into().ok()?),
            6 => Model::Temporal(parameter),
            _ => return None,
        };
        (model.code() == (code, parameter)).then_some(model)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Model::Delta(behind) => write!(f, "delta({behind})"),
            Model::Temporal(us) => write!(f, "temporal({us}us)"),
            plain => f.pad(plain.name()),
        }
    }
}

/// `delta(2)`, `temporal(100us)`; a kind's name alone is that of [`Model::ALL`].
impl FromStr for Model {
    type Err = ();

    fn from_str(text: &str) -> Result<Model, ()> {
        let Some((name, rest)) = text.split_once('(') else {
            return Model::ALL.into_iter().find(|model| model.name() == text).ok_or(());
        };
        let inner = rest.strip_suffix(')').ok_or(())?;
        match name {
            "delta" => inner.parse().map(Model::Delta).map_err(drop),
            "temporal" => inner.strip_suffix("us").ok_or(())?.parse().map(Model::Temporal).map_err(drop),
            _ => Err(()),
        }
    }
}

/// What a segment is: all who open it say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Its size in bytes, 1 to [`Spec::LARGEST`].
    pub size: u32,
    /// Its coherence model.
    pub model: Model,
}

impl Spec {
    /// The largest segment, in bytes: with its slots it fits into one registered region of common adapters.
    pub const LARGEST: u32 = 1 << 20;

    /// The length of the header, before the slots.
    pub(super) const HEADER: u32 = 8;

    /// Checks that a segment can be so, among so many nodes.
    ///
    /// # Errors
    ///
    /// [`DdssError::Impossible`], which says why not.
    pub fn check(self, nodes: u32) -> Result<(), DdssError> {
        self.is_possible(nodes).then_some(()).ok_or(DdssError::Impossible(self.size, self.model))
    }

    pub(super) fn is_possible(self, nodes: u32) -> bool {
        (1..=Spec::LARGEST).contains(&self.size)
            && self.model.behind() <= Model::MOST_BEHIND
            && self.model != Model::Temporal(0)
            && nodes <= Header::NODES
            && self.slots(nodes) <= Header::SLOTS
            && u32::try_from(self.footprint(nodes)).is_ok()
    }

    /// Why it is not, in words.
    pub(super) fn why_impossible(self) -> String {
        let Spec { size, model } = self;
        if !(1..=Spec::LARGEST).contains(&size) {
            return format!("a segment has 1 to {} bytes, not {size}", Spec::LARGEST);
        }
        if model.behind() > Model::MOST_BEHIND {
            return format!("versions are kept {} back at most, not {}", Model::MOST_BEHIND, model.behind());
        }
        if model == Model::Temporal(0) {
            return "under temporal a value is good for 1 us at least: no get could return otherwise"
                .to_owned();
        }
        let (each, slots, nodes) = (self.slots_each(), Header::SLOTS, Header::NODES);
        format!(
            "under {model} a segment of {size} bytes is too much for so many nodes: it has room for {each} values of each, at most {slots} in all \
             and 4 GiB, for {nodes} nodes at most"
        )
    }

    /// How many slots of its own a node has: those whose versions can be got, and the one to write next. Null has none.
    pub const fn slots_each(self) -> u32 {
        match self.model {
            Model::Null => 0,
            model => 2 + model.behind() as u32,
        }
    }

    /// How many slots a segment has among so many nodes: the first value's, and those of each node.
    pub const fn slots(self, nodes: u32) -> u32 {
        1 + nodes * self.slots_each()
    }

    /// The first slot of a node's own.
    pub(super) const fn first_slot(self, index: u32) -> u32 {
        1 + index * self.slots_each()
    }

    /// What stands in a slot before the value: under delta, the header that this version superseded.
    pub const fn prefix(self) -> u32 {
        match self.model {
            Model::Delta(_) => 8,
            _ => 0,
        }
    }

    /// The length of a slot's content.
    pub(super) const fn content(self) -> u32 {
        self.prefix() + self.size
    }

    /// The length of a slot: its content, rounded up so that slots begin at words.
    pub const fn stride(self) -> u32 {
        self.content().next_multiple_of(8)
    }

    /// Where a slot begins, behind the header.
    pub const fn slot_at(self, slot: u32) -> u32 {
        Spec::HEADER + slot * self.stride()
    }

    /// The length of the whole segment in memory.
    pub const fn footprint(self, nodes: u32) -> u64 {
        Spec::HEADER as u64 + self.slots(nodes) as u64 * self.stride() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_survives_its_name_and_its_code() {
        for model in Model::ALL.into_iter().chain([Model::Delta(0), Model::Temporal(7)]) {
            assert_eq!(model.to_string().parse(), Ok(model));
            let (code, parameter) = model.code();
            assert_eq!(Model::from_code(code, parameter), Some(model));
        }
        for wrong in ["delta(x)", "delta(2", "temporal(5)", "strict(1)", "lax", ""] {
            assert_eq!(wrong.parse::<Model>(), Err(()), "{wrong}");
        }
        assert_eq!(Model::from_code(3, 1), None, "strict has no parameter");
    }

    #[test]
    fn a_segment_whose_slots_no_header_can_name_is_impossible() {
        let delta = |behind| Spec { size: 8, model: Model::Delta(behind) };
        assert!(delta(14).is_possible(511) && !delta(14).is_possible(512) && !delta(15).is_possible(1));
        assert!(!Spec { size: 0, ..delta(1) }.is_possible(1));
        assert!(!Spec { size: Spec::LARGEST + 1, ..delta(1) }.is_possible(1));
    }

    /// No look at the home takes less than no time.
    #[test]
    fn a_segment_whose_values_are_good_for_no_time_is_impossible() {
        let temporal = |us| Spec { size: 8, model: Model::Temporal(us) };
        assert!(temporal(1).is_possible(2) && !temporal(0).is_possible(2));
        assert!(temporal(0).why_impossible().contains("1 us at least"));
    }

    #[test]
    fn who_wants_an_impossible_segment_is_told_which_rule_it_breaks() {
        let why = |size, behind| Spec { size, model: Model::Delta(behind) }.why_impossible();
        assert_eq!(why(0, 14), "a segment has 1 to 1048576 bytes, not 0");
        assert_eq!(why(8, 15), "versions are kept 14 back at most, not 15");
        let many = "under delta(14) a segment of 8 bytes is too much for so many nodes: it has room for 16 values of each, at most 8192 in all and \
                    4 GiB, for 2047 nodes at most";
        assert_eq!(why(8, 14), many);
    }
}
