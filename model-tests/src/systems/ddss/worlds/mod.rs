//! Worlds of shared segments: the shipped service under each model, and ways of publishing that must be refuted.

mod back;
mod crash;
mod named;
mod readings;
#[cfg(test)]
mod said_tests;

use super::history::{Event, Value};
use super::oracles::DdssOracles;
use super::workload::{Call, DdssWork, Request};
use super::{Counts, Segments, Service};
use crate::explore::{Entry, Key};
use crate::harness::{Explored, Nodes, RecorderOf, Requests, SystemModel, of_system, worlds};
use crate::history::{ClientId, HistoryEvent, Stage};
use crate::system::{Place, System};
use readings::Reading;
use weft_protocols::ddss::{Model, Name};
use weft_protocols::transport::{MeshConfig, MeshStats};
use weft_sim::Sim;

/// What may be said of a world where a node dies.
const MORTAL_KEYS: &[Key] = &[
    Publishing::KEYS[0],
    Key { name: "dies", help: "the node that dies; otherwise each of them, one in each execution" },
];

/// The worlds where a node dies: the first is the home.
fn mortal() -> Vec<Entry> {
    use Publishing::{Mortal, Unfenced};
    worlds! { MORTAL_KEYS;
        "ddss-crash" crash::make(Mortal(Model::Write), ",p,g") Held,
            "any node dies at any moment, model write: its segments are gone, and nobody waits for it";
        "ddss-crash-strict" crash::make(Mortal(Model::Strict), ",p,g") Held, "the same, model strict";
        "ddss-crash-read" crash::make(Mortal(Model::Read), ",p,g") Held, "the same, model read";
        "ddss-crash-version" crash::make(Mortal(Model::Version), ",p,g") Held, "the same, model version";
        "ddss-crash-delta" crash::make(Mortal(Model::Delta(1)), ",p,e") Held, "the same, model delta: an earlier version is got";
        "ddss-crash-temporal" crash::make(Mortal(Model::Temporal(u32::MAX)), ",p,g") Held, "the same, model temporal";
        "ddss-crash-null" crash::make(Mortal(Model::Null), ",p,g") Held, "the same, model null";
        "ddss-crash-lock" crash::make(Mortal(Model::Strict), ",x,x") Held, "the same, model strict: get and put under the lock";
        "ddss-crash-hides" crash::make(Mortal(Model::Strict), ",w,g") Held,
            "the same, model strict: nobody gets what is superseded under the lock";
        "ddss-crash-null-lock" crash::make(Mortal(Model::Null), ",x,x") Held,
            "the same, model null: get and put under the lock, in place, so that no header refuses what comes late";
        "ddss-crash-release" crash::make(Mortal(Model::Write), ",p,r") Held, "the same beside a release";
        "planted-ddss-unfenced" crash::make(Unfenced(Model::Null), ",x,x") Violated,
            "the lock of a dead client goes on before its home has fenced that one, model null";
    }
}

/// The worlds where a node restarts: the first is the home.
fn returning() -> Vec<Entry> {
    use Publishing::Shipped;
    worlds! { Publishing::KEYS;
        "ddss-back" back::make(Shipped(Model::Write), ",p,g") Held, "any node restarts at any event, model write: its next incarnation makes the same calls";
        "ddss-back-lock" back::make(Shipped(Model::Strict), ",x,x") Held, "the same, model strict: get and put under the lock";
        "ddss-back-delta" back::make(Shipped(Model::Delta(1)), ",p,e") Held, "the same, model delta: earlier versions are got";
    }
}

/// The worlds of shared segments.
pub fn worlds() -> Vec<Entry> {
    use Publishing::{Atomless, Judged, Long, Read, Shipped};
    let mut all = worlds! { Publishing::KEYS;
        "ddss-write" of_system(Shipped(Model::Write), "p,p,g") Held, "shared segments, model write: whoever gets, gets the latest";
        "ddss-strict" of_system(Shipped(Model::Strict), "p,p,g") Held, "the same, model strict";
        "ddss-version" of_system(Shipped(Model::Version), "p,gg") Held, "the same, model version: who has the version moves no data";
        "ddss-read" of_system(Shipped(Model::Read), "p,g,g") Held, "the same, model read: gets exclude each other";
        "ddss-read-reuses" of_system(Shipped(Model::Read), "ppp,g") Held,
            "the same, and the slot that a get reads is written again";
        "ddss-delta" of_system(Shipped(Model::Delta(1)), "p,ge") Held,
            "the same, model delta: a copy may be one version behind, and the version before the current one can be got";
        "ddss-delta-far" of_system(Shipped(Model::Delta(2)), "pp,e") Held,
            "the same of two versions: the one before the one before the current one can be got";
        "ddss-temporal" of_system(Shipped(Model::Temporal(u32::MAX)), "p,gg") Held,
            "the same, model temporal: whole values; how old they are is judged where there is a clock";
        "ddss-lock" of_system(Shipped(Model::Strict), "x,x") Held, "the same, model strict: get and put under the lock";
        "ddss-lock-hides" of_system(Shipped(Model::Strict), "w,g") Held,
            "the same, model strict: nobody gets what is put under the lock and superseded before the unlock";
        "ddss-lock-hides-read" of_system(Shipped(Model::Read), "w,g") Held, "the same, model read";
        "ddss-try-lock" of_system(Shipped(Model::Write), "t,t") Held,
            "the same, model write: get and put under the lock, if it is free";
        "ddss-try-lock-free" of_system(Shipped(Model::Write), "t,") Held, "the same of who tries alone: it is free";
        "ddss-null" of_system(Shipped(Model::Null), "p,p,g") Held, "the same, model null, which promises nothing";
        "ddss-release" of_system(Shipped(Model::Write), "gs,r") Held,
            "a segment is released beside a get, whose client comes back with its key";
        "ddss-release-found" of_system(Shipped(Model::Write), "gsf,r") Held,
            "the same, whose client looks the name up after it was told";
        "ddss-release-put" of_system(Shipped(Model::Write), "p,r") Held, "a segment is released beside a put";
        "ddss-release-twice" of_system(Shipped(Model::Null), "r,r") Held, "a segment is released twice, model null";
        "ddss-atomless" of_system(Atomless(Model::Write), "p,g") Held,
            "adapters without remote atomics, whose processors stand in, model write";
        "ddss-atomless-lock" of_system(Atomless(Model::Strict), "x,x") Held, "the same, model strict: get and put under the lock";
        "ddss-long" of_system(Long(Model::Write), ",p,g") Held, "one home and two clients, a value of two packets, model write";
        "ddss-long-strict" of_system(Long(Model::Strict), ",p,g") Held, "the same, model strict";
        "ddss-long-read" of_system(Long(Model::Read), ",p,g") Held, "the same, model read";
        "ddss-long-version" of_system(Long(Model::Version), ",p,g") Held, "the same, model version";
        "ddss-long-delta" of_system(Long(Model::Delta(1)), ",p,e") Held, "the same, model delta: an earlier version is got";
        "ddss-long-temporal" of_system(Long(Model::Temporal(u32::MAX)), ",p,g") Held, "the same, model temporal";
        "ddss-long-null" of_system(Long(Model::Null), ",p,g") Held, "the same, model null";
        "ddss-long-null-lock" of_system(Long(Model::Null), ",x,x") Held, "the same, model null: get and put under the lock, in place";
        "ddss-dropped" of_system(Shipped(Model::Write), ",p,p!g") Held,
            "a user drops its put at any moment and gets, model write: whatever was published, the segment goes on";
        "ddss-dropped-get" of_system(Shipped(Model::Read), ",p,g!p") Held, "the same of a get that excludes others, model read";
        "ddss-dropped-lock" of_system(Shipped(Model::Strict), ",p,x!p") Held,
            "the same under the lock, which is given back, model strict";
        "ddss-dropped-put" of_system(Shipped(Model::Write), ",gg,ap") Held,
            "a put under the lock is dropped, and the lock is given back, model write: whatever was published is not written over";
        "ddss-dropped-try-lock" of_system(Shipped(Model::Write), ",p,t!p") Held, "the same of who only tries, model write";
        "ddss-dropped-waiting" of_system(Shipped(Model::Write), ",x,x+p!") Held,
            "the same of who waits behind another call of its node, model write";
        "ddss-dropped-release" of_system(Shipped(Model::Write), ",p,r!") Held, "a release that nobody waits for goes on, model write";
        "as-published-ddss-in-place" of_system(Read(Reading::InPlace), "p,g") Violated,
            "values are put in place, and the version is added behind them";
        "planted-ddss-publish-first" of_system(Read(Reading::PublishFirst), "p,g") Violated,
            "the header is swapped before the slot is written";
        "planted-ddss-one-look" of_system(Read(Reading::OneLook), "ppp,g") Violated,
            "a get does not look at the header again, and its slot is written anew";
        "planted-ddss-shared-slots" of_system(Read(Reading::SharedSlots), "p,p,g") Violated, "two nodes write the same slot";
        "planted-ddss-blind-unlock" of_system(Read(Reading::BlindUnlock), "x,x,x") Violated,
            "who did not get the lock writes that nobody has it";
        "planted-ddss-released-behind" of_system(Read(Reading::ReleasedBehind), "p,g") ViolatedUnderFaults,
            "the lock is given back behind the reads of a get in one list, and the header not looked at again";
        "planted-ddss-put-again" of_system(Read(Reading::PutAgain), "gp,p") ViolatedUnderFaults,
            "a put whose answer is lost is made again though others have put since";
        "planted-ddss-behind-swap" of_system(Read(Reading::BehindSwap), "x,p") Violated,
            "a put stands behind the swap of the lock in one list";
        "planted-ddss-version-last" of_system(Read(Reading::VersionLast), "p,g") Violated,
            "a get reads the value, and its version only then";
        "planted-ddss-reused" of_system(Read(Reading::Reused), "g,r") Violated,
            "a segment's memory is another one's as soon as it is released, without a look at who reads it";
        "planted-ddss-coalesced" of_system(Read(Reading::Coalesced), "g,r") Violated,
            "free memory becomes one with a block that is in use";
        "planted-ddss-delta-miscounts" of_system(Judged { serves: Model::Delta(2), model: Model::Delta(1) }, "pp,gg") Violated,
            "delta lets a copy be one version older than it promises";
        "planted-ddss-null-as-write" of_system(Judged { serves: Model::Null, model: Model::Write }, "p,g") Violated,
            "null does not promise what write does: a get beside a put";
        "planted-ddss-write-as-strict" of_system(Judged { serves: Model::Write, model: Model::Strict }, "w,g") Violated,
            "write does not promise what strict does: a get while another one has the lock";
        "planted-ddss-write-as-read" of_system(Judged { serves: Model::Write, model: Model::Read }, "w,g") Violated,
            "nor what read does";
    };
    all.extend(mortal());
    all.extend(returning());
    all.extend(named::worlds());
    all
}

/// The one segment: its home is node 0.
const NAME: Name = Name(0);

/// More than the fabric's packets hold, which are of 2,048 bytes.
const TWO_PACKETS: u32 = 2_064;

/// How values are published.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Publishing {
    /// As the service does it.
    Shipped(Model),
    /// The same where a node dies, with a value that its put may leave half on the way.
    Mortal(Model),
    /// The same, and views do not wait until the dead is fenced.
    Unfenced(Model),
    /// The same as shipped, with a value of two packets.
    Long(Model),
    /// The same as shipped, between adapters without remote atomics.
    Atomless(Model),
    /// The same under one model, and judged by another.
    Judged { serves: Model, model: Model },
    /// Otherwise.
    Read(Reading),
}

impl SystemModel for Publishing {
    type System = Segments;

    const LETTERS: &'static str = "p to put, g to get, e to get the earliest version that is kept (delta), x to get and put under the lock, w to put twice then and t to put \
                                   once if it is free, a to lock, begin to put, drop that and unlock (not under null), r to release it, f to look its name up and s to get by the first key that was had, with an exclamation mark if its user may drop the call at any \
                                   moment, a list for each node, as in p,g!g";

    const BRANCHES: &'static [&'static str] = &[
        "a get read a slot again",
        "a get read another node's slots",
        "a header was swapped again",
        "a home handed a turn over",
        "an operation's outcome was unknown",
        "a get moved no data",
    ];

    fn work(&self) -> DdssWork {
        let (model, bytes) = match *self {
            Publishing::Shipped(model) | Publishing::Atomless(model) => (model, Value::SHORTEST),
            Publishing::Mortal(model) | Publishing::Unfenced(model) | Publishing::Long(model) => {
                (model, TWO_PACKETS)
            }
            Publishing::Judged { serves, model } if serves.may_tear() => (model, TWO_PACKETS),
            Publishing::Judged { model, .. } => (model, Value::SHORTEST),
            Publishing::Read(reading) => (reading.model(), Value::SHORTEST),
        };
        DdssWork { bytes, ..DdssWork::of(model, 0) }
    }

    fn mesh(&self, config: &mut MeshConfig) {
        config.atomics = !matches!(self, Publishing::Atomless(_));
    }

    /// A segment of a world is a part of memory that its home keeps: one that is released can be read yet.
    fn breaks_connections(&self) -> bool {
        false
    }

    fn drops(&self) -> bool {
        !matches!(self, Publishing::Read(_))
    }

    fn request(&self, _: ClientId, letter: char) -> Option<Request> {
        let call = match letter {
            'p' => Call::Put,
            'g' => Call::Get,
            'e' if matches!(self.work().model, Model::Delta(_)) => Call::Earlier(self.work().model.behind()),
            'x' => Call::Exchange,
            'w' => Call::Twice,
            't' => Call::TryExchange,
            // Under null it is written in place: if its connection breaks amid a put that was dropped, a part of it stays there.
            'a' if self.work().model != Model::Null => Call::Abandon,
            's' => Call::Stale,
            'r' => Call::Release,
            'f' => Call::Find,
            _ => return None,
        };
        Some(Request { segment: NAME, call })
    }

    fn start(&self, place: &Place<Sim>, recorder: &RecorderOf<Self>) -> Service<Sim> {
        let work = match *self {
            Publishing::Judged { serves, .. } => DdssWork { model: serves, ..self.work() },
            _ => self.work(),
        };
        Segments::start(place, &work, recorder).expect("a model's workload is good")
    }

    fn reached(&self, counts: Counts, _: MeshStats) -> impl IntoIterator<Item = bool> {
        let Counts { get_retries, wrong_guesses, swap_misses, turns, unknown_outcomes, unchanged, .. } =
            counts;
        [get_retries, wrong_guesses, swap_misses, turns, unknown_outcomes, unchanged].map(|count| count > 0)
    }

    fn start_clients(&self, nodes: &Nodes<Self>, requests: &Requests, recorder: &RecorderOf<Self>) {
        match self {
            Publishing::Read(reading) => readings::start(*reading, nodes, requests, recorder),
            _ => nodes.start_all_clients(self, requests, recorder),
        }
    }

    /// Segments of readings are known to all nodes from the start.
    fn is_memoisable(&self) -> bool {
        !matches!(self, Publishing::Read(_))
    }
}

impl Explored for DdssOracles {
    /// Oracles keep what had ended before each call began, and of what has ended the highest version, the value of each version and
    /// what was released: sets, in whatever order they grew. What they keep of a node's losses only its own calls change. What happens
    /// to a node is no end of a call: verdicts may depend on its place among the ends.
    fn is_response(event: &Event) -> bool {
        matches!(event.stage(), Stage::Served | Stage::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::ddss::history::What;
    use weft_sim::explore::AccessKind;
    use weft_verbs::Nanos;

    #[test]
    fn what_happens_to_a_node_has_its_place_among_the_ends_of_calls() {
        let access = |event: &Event| (DdssOracles::is_response(event), DdssOracles::access(event));
        for what in [What::Crashed, What::LeftOut] {
            let event = Event::of_node(Nanos::ZERO, 0, what);
            assert_eq!(access(&event), (false, Some(AccessKind::Write)), "{event}");
        }
        let lost = Event { what: What::Lost, ..Event::of_node(Nanos::ZERO, 0, What::Gets) };
        assert!(access(&lost).0, "the end of a call");
    }
}
