//! What `[workload]` may say of shared segments, and what clients ask for.

use crate::fields::{
    Dice, Rule, Share, Span, Spread, broken, clients, count, draw, in_section, no_time, one,
    requests_or_duration,
};
use crate::history::ClientId;
use crate::system::Amount;
use serde::{Deserialize, Serialize};
use weft_protocols::ddss::{Model, Name, Spec};
use weft_sim::choice::Rng;
use weft_verbs::Nanos;

/// `[workload]` with `kind = "ddss"`: what the users of shared segments do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DdssWork {
    /// The coherence model of all segments: `"null"`, `"read"`, `"version"`, `"delta(X)"`, `"temporal(Nus)"`, `"write"` or
    /// `"strict"`.
    #[serde(with = "named")]
    pub model: Model,
    /// Who keeps the values: `"segments"`, the default, or what a user might take instead: `"rpc"`, a store behind its home's
    /// processor, or `"versioned"`, objects that are read without it. Those know model `"write"`, gets and puts.
    #[serde(default, skip_serializing_if = "Store::is_usual")]
    pub store: Store,
    /// Application processes on each machine, 1 to 1024. Default: 1.
    #[serde(default = "one")]
    pub clients: u32,
    /// How many segments there are, 1 to 100,000. Default: 1, where contention is worst.
    #[serde(default = "one")]
    pub segments: u32,
    /// The share of requests that are for the first segment, beside those that are by chance. Default: 0.
    #[serde(default)]
    pub hot: Share,
    /// How large each is, 16 to 1,048,576 bytes. Default: 64.
    #[serde(default = "size")]
    pub bytes: u32,
    /// The share of requests that put; the others get. Default: 0.2.
    #[serde(default = "fifth")]
    pub puts: Share,
    /// The share of requests that lock the segment, get, put and unlock instead. Default: 0.
    #[serde(default)]
    pub exchanges: Share,
    /// The share of exchanges that put twice before they unlock: of those that wait for the lock. Default: 0.
    #[serde(default, skip_serializing_if = "is_none")]
    pub twice: Share,
    /// The share of gets that ask for an earlier version, any that the segment keeps; for model `"delta"`. Default: 0.
    #[serde(default)]
    pub earlier: Share,
    /// The share of requests that release the segment instead; who opens its name afterwards makes another one. Where some do, every
    /// fourth get is by the first key that the client had of the name. Default: 0.
    #[serde(default)]
    pub releases: Share,
    /// How many requests each client makes. Give this or `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// How long clients go on making requests, in virtual time. Give this or `requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// How long a client rests before each request. Default: `"0us"`, none.
    #[serde(default = "no_time")]
    pub think: Spread,
}

/// Who keeps the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    /// Shared segments.
    #[default]
    Segments,
    /// A key-value store by calls of its home's processor.
    Rpc,
    /// Versioned objects: lock-free reads, puts by calls.
    Versioned,
}

impl Store {
    /// The longest value of a rival, in bytes: it travels in one message.
    const LONGEST: u32 = 65_536;

    fn is_usual(&self) -> bool {
        *self == Store::Segments
    }
}

fn is_none(share: &Share) -> bool {
    share.ppm() == 0
}

fn size() -> u32 {
    64
}

fn fifth() -> Share {
    Share::new(0.2).unwrap_or_default()
}

/// A model by its name.
mod named {
    use serde::de::{Deserializer, Error};
    use serde::{Deserialize, Serializer};
    use weft_protocols::ddss::Model;

    pub fn serialize<S: Serializer>(model: &Model, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(model)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Model, D::Error> {
        let known = || Model::ALL.map(|model| format!("\"{model}\"")).join(", ");
        let name = String::deserialize(from)?;
        name.parse().map_err(|()| D::Error::custom(format!("no such model; there are {}", known())))
    }
}

impl DdssWork {
    /// One client a machine that makes so many requests of one small segment.
    pub fn of(model: Model, requests: u32) -> DdssWork {
        DdssWork {
            model,
            store: Store::Segments,
            clients: one(),
            segments: one(),
            hot: Share::default(),
            bytes: size(),
            puts: fifth(),
            exchanges: Share::default(),
            twice: Share::default(),
            earlier: Share::default(),
            releases: Share::default(),
            requests: Some(requests),
            duration: None,
            think: no_time(),
        }
    }

    /// A workload that is drawn at random.
    pub(super) fn drawn(dice: &mut Dice<'_>, model: Model) -> DdssWork {
        let share = |dice: &mut Dice<'_>| Share::new(dice.among(&[0.05, 0.2, 0.5, 1.0])).unwrap_or_default();
        let work = DdssWork {
            model,
            store: Store::Segments,
            clients: dice.among(&[1, 1, 2, 3]),
            segments: dice.among(&[1, 1, 2, 10]),
            bytes: dice.among(&[16, 24, 64, 1_000, 4_096]),
            puts: share(dice),
            exchanges: Share::new(dice.among(&[0.0, 0.0, 0.1, 0.5])).unwrap_or_default(),
            twice: Share::default(),
            earlier: Share::new(if model.behind() > 0 { 0.3 } else { 0.0 }).unwrap_or_default(),
            requests: Some(dice.from(3, 40) as u32),
            duration: None,
            think: dice.pause([0, 10, 300]),
            hot: Share::default(),
            // Drawn last, so that the other draws of a seed stay what they were.
            releases: Share::new(dice.among(&[0.0, 0.0, 0.02])).unwrap_or_default(),
        };
        // Without a draw, for the same reason. What is put and superseded under the lock is what others must not get.
        let twice = if work.exchanges.ppm() > 0 { 0.5 } else { 0.0 };
        DdssWork { twice: Share::new(twice).unwrap_or_default(), ..work }
    }

    /// What each segment is.
    pub fn spec(&self) -> Spec {
        Spec { size: self.bytes, model: self.model }
    }

    /// How much work there is.
    pub fn amount(&self) -> Amount {
        Amount::of(self.clients, self.requests, self.duration)
    }

    /// Checks what the types of the fields cannot express.
    ///
    /// # Errors
    ///
    /// The first broken rule.
    pub fn check(&self, nodes: u32) -> Rule {
        let at = |field| in_section("workload", field);
        clients(self.clients)?;
        count(at("segments"), self.segments, 100_000, "give the number of segments")?;
        if !(16..=1 << 20).contains(&self.bytes) {
            return broken(at("bytes"), "from 16 to 1048576: a value says who put it".into());
        }
        let others =
            [self.exchanges, self.twice, self.earlier, self.releases].iter().any(|share| share.ppm() > 0);
        if self.store != Store::Segments && (others || self.model != Model::Write) {
            return broken(at("store"), "it knows model \"write\", gets and puts: use \"segments\"".into());
        }
        if self.store != Store::Segments && self.bytes > Store::LONGEST {
            return broken(at("bytes"), format!("at most {} with this store", Store::LONGEST));
        }
        if self.earlier.ppm() > 0 && self.model.behind() == 0 {
            return broken(
                at("earlier"),
                format!("model {} keeps no earlier version: use delta", self.model),
            );
        }
        if self.twice.ppm() > 0 && self.exchanges.ppm() == 0 {
            return broken(at("twice"), "a share of no exchanges: give \"exchanges\"".into());
        }
        if self.model.behind() > Model::MOST_BEHIND {
            return broken(at("model"), format!("delta is at most {} versions behind", Model::MOST_BEHIND));
        }
        if self.store == Store::Segments
            && let Err(why) = self.spec().check(nodes)
        {
            return broken(at("model"), why.to_string());
        }
        requests_or_duration("requests", self.requests, self.duration)
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The segment.
    pub segment: Name,
    /// What is called.
    pub call: Call,
}

/// What a client calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Get.
    Get,
    /// Get of the version that is so many before the current one.
    Earlier(u8),
    /// Put.
    Put,
    /// Lock, get, put, unlock.
    Exchange,
    /// Lock, get, put, put once more, unlock.
    Twice,
    /// The same, if the lock is free.
    TryExchange,
    /// Lock, get, begin a put and drop it, unlock.
    Abandon,
    /// Get by the first key that the client had.
    Stale,
    /// Release.
    Release,
    /// Look up what the name stands for.
    Find,
}

/// What one client asks for. The same seed and client give the same requests, whatever becomes of them.
#[derive(Clone, Debug)]
pub struct Plan {
    work: DdssWork,
    rng: Rng,
}

impl Plan {
    /// The plan of one client in the run of one seed.
    pub fn new(work: &DdssWork, seed: u64, client: ClientId) -> Plan {
        let [rng] = draw::of_client(seed ^ 0x6464_7373_0000_0000, client);
        Plan { work: work.clone(), rng }
    }

    /// The next request, and how long the client rests before it.
    pub fn request(&mut self) -> (Nanos, Request) {
        let mut segment = Name(self.rng.below(self.work.segments.into()));
        if self.work.hot.ppm() > 0 && draw::whether(&mut self.rng, self.work.hot) {
            segment = Name(0);
        }
        let DdssWork { puts, exchanges, twice, earlier, model, think, .. } = &self.work;
        let mut call = match draw::whether(&mut self.rng, *puts) {
            true => Call::Put,
            false => Call::Get,
        };
        let think = draw::time(&mut self.rng, *think);
        // What a scenario does not ask for takes no random word, so that others' runs stay what they are.
        if exchanges.ppm() > 0 && draw::whether(&mut self.rng, *exchanges) {
            call = if self.rng.below(4) == 0 { Call::TryExchange } else { Call::Exchange };
        }
        if twice.ppm() > 0 && call == Call::Exchange && draw::whether(&mut self.rng, *twice) {
            call = Call::Twice;
        }
        if earlier.ppm() > 0 && call == Call::Get && draw::whether(&mut self.rng, *earlier) {
            call = Call::Earlier(self.rng.below(u64::from(model.behind()) + 1) as u8);
        }
        if self.work.releases.ppm() > 0 {
            if draw::whether(&mut self.rng, self.work.releases) {
                call = Call::Release;
            } else if call == Call::Get && self.rng.below(4) == 0 {
                call = Call::Stale;
            }
        }
        (think, Request { segment, call })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_sim::choice::Seeded;

    #[test]
    fn a_share_of_what_there_is_none_of_is_refused() {
        let all = Share::new(1.0).unwrap_or_default();
        let work = DdssWork { twice: all, ..DdssWork::of(Model::Write, 1) };
        assert!(work.check(2).is_err() && DdssWork { exchanges: all, ..work }.check(2).is_ok());
    }

    #[test]
    fn a_segment_that_cannot_be_on_so_many_nodes_is_refused_and_says_why() {
        let work = |bytes| DdssWork { bytes, ..DdssWork::of(Model::Delta(14), 1) };
        for (bytes, nodes) in [(64, 511), (1 << 20, 255)] {
            assert_eq!(work(bytes).check(nodes), Ok(()));
            let why = work(bytes).check(nodes + 1).expect_err("it has too many slots, or bytes").problem;
            assert!(why.contains("at most 8192 in all and 4 GiB"), "{why}");
        }
    }

    /// Only what is put and superseded under the lock tells read and strict from write.
    #[test]
    fn random_scenarios_in_which_somebody_locks_have_some_who_put_twice() {
        let drawn = |seed| DdssWork::drawn(&mut Dice(&mut Seeded::new(seed)), Model::Strict);
        let works: Vec<DdssWork> = (0..40).map(drawn).collect();
        assert!(works.iter().all(|work| work.check(16).is_ok()));
        let twice = works.iter().filter(|work| work.twice.ppm() > 0).count();
        let locks = works.iter().filter(|work| work.exchanges.ppm() > 0).count();
        assert!(locks > 0 && twice == locks, "{twice} of {locks}");
    }
}
