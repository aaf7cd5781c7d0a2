//! Worlds of shared segments: the shipped service under each model, and ways of publishing that must be refuted.

use super::history::{Event, Value, What};
use super::workload::{DdssWork, Request};
use super::{Counts, Segments};
use crate::explore::Entry;
use crate::harness::{Nodes, RecorderOf, Requests, SystemModel, worlds_of};
use crate::history::{ClientId, RequestId};
use crate::record::Record;
use weft_protocols::ddss::{self, Header, Name};
use weft_protocols::transport::{Mesh, MeshStats, Rank};
use weft_sim::Sim;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Verbs};

/// The worlds of shared segments.
pub fn worlds() -> Vec<Entry> {
    worlds_of! { Publishing:
        "ddss-write" Publishing::Shipped(ddss::Model::Write), Held, "p,p,g", "shared segments, model write: whoever gets, gets the latest";
        "ddss-strict" Publishing::Shipped(ddss::Model::Strict), Held, "p,p,g", "the same, model strict";
        "ddss-version" Publishing::Shipped(ddss::Model::Version), Held, "p,gg", "the same, model version: who has the version moves no data";
        "ddss-null" Publishing::Shipped(ddss::Model::Null), Held, "p,p,g", "the same, model null, which promises nothing";
        "as-published-ddss-in-place" Publishing::InPlace, Violated, "p,g",
            "values are put in place, and the version is added behind them";
    }
}

/// The one segment: its home is node 0.
const NAME: Name = Name(0);

/// How values are published.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Publishing {
    /// As the service does it.
    Shipped(ddss::Model),
    /// In place, and a fetch-and-add on the version behind it; a get reads the version, then the value (a reading of
    /// ddss.txt, 5.3: a fetch-and-add updates the version for every put).
    InPlace,
}

impl SystemModel for Publishing {
    type System = Segments;

    const LETTERS: &'static str = "p to put and g to get, a list for each node, as in p,gg";

    const BRANCHES: &'static [&'static str] = &[
        "a get read a slot again",
        "a header was swapped again",
        "an operation's outcome was unknown",
        "a get moved no data",
    ];

    fn work(&self) -> DdssWork {
        let model = match *self {
            Publishing::Shipped(model) => model,
            Publishing::InPlace => ddss::Model::Version,
        };
        DdssWork { bytes: Value::SHORTEST, ..DdssWork::of(model, 0) }
    }

    fn request(&self, _: ClientId, letter: char) -> Option<Request> {
        match letter {
            'p' => Some(Request { segment: NAME, puts: true }),
            'g' => Some(Request { segment: NAME, puts: false }),
            _ => None,
        }
    }

    fn reached(&self, counts: Counts, _: MeshStats) -> impl IntoIterator<Item = bool> {
        let Counts { get_retries, swap_misses, unknown_outcomes, unchanged, .. } = counts;
        [get_retries, swap_misses, unknown_outcomes, unchanged].map(|count| count > 0)
    }

    fn start_clients(&self, nodes: &Nodes<Self>, requests: &Requests, recorder: &RecorderOf<Self>) {
        match self {
            Publishing::Shipped(_) => nodes.start_all_clients(self, requests, recorder),
            Publishing::InPlace => InPlace::start(nodes, requests, recorder),
        }
    }

    /// Segments that are put in place are known to all nodes from the start.
    fn is_memoisable(&self) -> bool {
        *self != Publishing::InPlace
    }
}

/// A segment that is put in place.
#[derive(Clone)]
struct InPlace {
    home: Rank,
    at: RemoteSlice,
    /// Keeps it where it is.
    _memory: <Sim as Verbs>::Mr,
}

impl InPlace {
    fn start(nodes: &Nodes<Publishing>, requests: &Requests, recorder: &RecorderOf<Publishing>) {
        let mut places = nodes.places().peekable();
        let Some(segment) = places.peek().map(|home| InPlace::new(&home.mesh)) else { return };
        for place in places {
            for (client, letters) in requests.of(place.node) {
                let (mesh, letters) = (place.mesh.clone(), letters.to_owned());
                place.rt.spawn(segment.clone().call(mesh, client, letters, recorder.clone()));
            }
        }
    }

    fn new(home: &Mesh<Sim>) -> InPlace {
        let access = AccessFlags::LOCAL_WRITE
            .union(AccessFlags::REMOTE_READ)
            .union(AccessFlags::REMOTE_WRITE)
            .union(AccessFlags::REMOTE_ATOMIC);
        let len = 8 + Value::SHORTEST as usize;
        let memory = home.alloc(len, access).expect("a few bytes");
        let at = memory.remote(0..len).expect("all of it");
        InPlace { home: home.me(), at, _memory: memory }
    }

    async fn call(
        self,
        mesh: Mesh<Sim>,
        client: ClientId,
        letters: String,
        recorder: RecorderOf<Publishing>,
    ) {
        for (number, letter) in (0..).zip(letters.chars()) {
            let request = RequestId { client, number };
            let happens = |what| recorder.record(Event { at_ns: 0, request, segment: NAME.0, what });
            happens(if letter == 'p' { What::Puts } else { What::Gets });
            let done = match letter {
                'p' => self.put(&mesh, request).await,
                _ => self.get(&mesh).await,
            };
            happens(done.unwrap_or(What::Failed));
        }
    }

    async fn put(&self, mesh: &Mesh<Sim>, request: RequestId) -> Option<What> {
        let value = Value::bytes(request, Value::SHORTEST as usize);
        mesh.write(self.home, self.at.slice(8..self.at.len)?, &value).await.ok()?;
        let before = mesh.fetch_add(self.home, self.at, Header::default().next(0).word()).await.ok()?;
        Some(What::Put { version: Some(Header::from_word(before).version + 1) })
    }

    async fn get(&self, mesh: &Mesh<Sim>) -> Option<What> {
        let (mut word, mut bytes) = ([0; 8], vec![0; Value::SHORTEST as usize]);
        mesh.read(self.home, self.at.word(0)?, &mut word).await.ok()?;
        mesh.read(self.home, self.at.slice(8..self.at.len)?, &mut bytes).await.ok()?;
        let version = Header::from_word(u64::from_ne_bytes(word)).version;
        Some(What::Got { value: Value::of(&bytes), version: Some(version) })
    }
}
