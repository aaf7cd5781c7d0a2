//! Copies of a small file, as `weft cp` makes them: one node puts it and the other one takes it.

mod files;
mod history;
mod promises;

use super::super::history::Why;
use super::super::{PORT, leftovers};
use super::branches::{self, Branch};
use super::setting::Setting;
use super::transfer::PAYLOAD;
use crate::explore::{Entry, Key, Size, SizeError, Violation};
use crate::harness::{Member, Model, Quits, Recorder, Shape, at_rest, worlds};
use crate::oracle::{Conduct, Oracles};
use crate::record::Record;
use files::{Full, Given, NAME, Shelf};
use history::{End, Event, What};
use promises::CopyOracles;
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::{Sdp, SdpStream, copy};
use weft_protocols::transport::{MeshConfig, Rank};
use weft_sim::explore::FaultSet;
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

const KEYS: &[Key] = &[Key { name: "bytes", help: "how many bytes the file has; 32 are a message" }];

/// What becomes of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The client puts the file.
    Put,
    /// The client connects, and takes the file that the server puts.
    Taken,
    /// The file is shorter when it is read than when its length was told.
    Shorter,
    /// The server has no room for it.
    Full(Full),
    /// Whoever puts it drops the call at any moment.
    PutDropped,
    /// Whoever takes it does.
    TakeDropped,
}

/// A copy between two nodes: the first one connects.
struct Copies {
    kind: Kind,
    setting: Setting,
    /// Owned buffers with more bytes go without a copy; 0 for none.
    threshold: u32,
    bytes: u32,
}

/// The worlds of copies.
pub(super) fn worlds() -> Vec<Entry> {
    const PLAIN: Setting = Setting::PLAIN;
    const RAILS: Setting = Setting::RAILS;
    const CRASHES: Setting = Setting::CRASHES;
    worlds! { KEYS;
        "sdp-copy" make(Kind::Put, PLAIN, 0, 40) Held, "sockets: a file is put, through private buffers, and taken";
        "sdp-copy-zcopy" make(Kind::Put, PLAIN, 16, 72) Held, "sockets: the same of a file that is written or read by RDMA";
        "sdp-copy-taken" make(Kind::Taken, PLAIN, 0, 40) Held, "sockets: a file is taken from the node to which its taker connects";
        "sdp-copy-empty" make(Kind::Put, PLAIN, 0, 0) Held, "sockets: a file without a byte is put and taken";
        "sdp-copy-shorter" make(Kind::Shorter, PLAIN, 0, 40) Held, "sockets: a file that is put is shorter than it was: nothing is stored";
        "sdp-copy-refused" make(Kind::Full(Full::Begin), PLAIN, 0, 20) Held, "sockets: a file is put where there is no room: its sender is told why";
        "sdp-copy-refused-amid" make(Kind::Full(Full::Append), PLAIN, 16, 72) Held, "sockets: the same where there was some room, by RDMA";
        "sdp-copy-refused-last" make(Kind::Full(Full::Finish), PLAIN, 0, 40) Held, "sockets: the same of a file that cannot be made safe";
        "sdp-copy-named" make(Kind::Full(Full::Name), PLAIN, 0, 40) Held,
            "sockets: a file is put whose name cannot be made safe: both ends are told that it has its name";
        "sdp-copy-rails" make(Kind::Put, RAILS, 0, 40) Held, "sockets: a file is put, between nodes of two rails";
        "sdp-copy-zcopy-rails" make(Kind::Put, RAILS, 16, 20) Held, "sockets: the same by RDMA";
        "sdp-copy-crashes" make(Kind::Put, CRASHES, 0, 40) Held, "sockets: a file is put; either node may crash for good";
        "sdp-copy-dropped" make(Kind::PutDropped, PLAIN, 0, 40) Held,
            "sockets: whoever puts a file drops the call at any moment: it is stored whole or not at all, and the taker knows";
        "sdp-copy-dropped-zcopy" make(Kind::PutDropped, PLAIN, 16, 40) Held, "sockets: the same by RDMA";
        "sdp-copy-take-dropped" make(Kind::TakeDropped, PLAIN, 0, 40) Held,
            "sockets: whoever takes a file drops the call at any moment: its sender is not told that it is stored before it is";
    }
}

fn make(size: &Size, kind: Kind, setting: Setting, threshold: u32, bytes: u32) -> Result<Copies, SizeError> {
    let bytes = size.number("bytes")?.unwrap_or(bytes);
    // One that is shorter than it was, and one of which there is a part, has a byte.
    let least = u32::from(matches!(kind, Kind::Shorter | Kind::Full(Full::Append)));
    size.within("bytes", bytes, least..=512)?;
    Ok(Copies { kind, setting, threshold, bytes })
}

/// What runs on one of the two nodes.
struct Side {
    rt: Rt<Sim>,
    sdp: Sdp<Sim>,
    node: u32,
    /// Files that are on their way to its shelf.
    partials: Rc<Cell<u64>>,
}

/// What an execution keeps.
struct State {
    sides: Vec<Side>,
    /// When a node crashed, by the other one's clock.
    crashed_at: Option<Nanos>,
}

/// What an end does with its stream.
#[derive(Clone)]
struct Task {
    rt: Rt<Sim>,
    sdp: Sdp<Sim>,
    node: u32,
    puts: bool,
    bytes: u32,
    /// Where the file ends for who reads it.
    ends: u32,
    shelf: Shelf,
    /// What says that the call is dropped, if it may be.
    quits: Option<Rc<Quits>>,
    recorder: Recorder<CopyOracles>,
}

impl Task {
    fn happens(&self, what: What) {
        self.recorder.record(Event { node: self.node, what });
    }

    async fn connect(self) {
        self.happens(if self.puts { What::Puts } else { What::Takes });
        match self.sdp.connect(Rank::from_index(1), PORT).await {
            Ok(stream) => self.run(stream).await,
            Err(why) => self.ends(End::Stream(why.into())),
        }
    }

    async fn serve(self) {
        let Ok(listener) = self.sdp.bind(PORT) else { return };
        while let Ok(stream) = listener.accept().await {
            self.happens(if self.puts { What::Puts } else { What::Takes });
            drop(self.rt.spawn(self.clone().run(stream)));
        }
    }

    fn ends(&self, end: End) {
        self.happens(if self.puts { What::PutEnds(end) } else { What::TakeEnds(end) });
    }

    async fn run(self, stream: SdpStream<Sim>) {
        let quits = self.quits.as_deref();
        let end = match self.puts {
            true => {
                let source = Given { rt: self.rt.clone(), at: 0, len: self.ends };
                let file = (NAME, u64::from(self.bytes));
                let tells = |bytes| self.happens(What::Told { bytes });
                let put = copy::put(&self.rt, &self.sdp, stream, file, source, tells);
                Quits::call(quits, put).await.map(|end| End::from(&end))
            }
            false => {
                let take = copy::take(&self.sdp, stream, &self.shelf, |_| ());
                Quits::call(quits, take).await.map(|end| End::from(&end))
            }
        };
        match end {
            Some(end) => self.ends(end),
            None => self.happens(if self.puts { What::PutDropped } else { What::TakeDropped }),
        }
    }
}

impl Copies {
    fn is_dropped(&self) -> bool {
        matches!(self.kind, Kind::PutDropped | Kind::TakeDropped)
    }

    /// How the calls of `put` and `take` end.
    fn usual(&self) -> (End, End) {
        match self.kind {
            Kind::Shorter => (End::Source, End::Stream(Why::Reset)),
            Kind::Full(Full::Name) => (End::Named, End::Named),
            Kind::Full(_) => (End::Refused, End::Store),
            _ => (End::Stored, End::Stored),
        }
    }

    /// The branches that a node may reach.
    fn interesting(&self) -> Vec<Branch> {
        let mut all = branches::OF_LINKS.to_vec();
        all.extend((self.threshold > 0).then_some(branches::WITHOUT_A_COPY));
        all.extend(self.setting.crashes.then_some(branches::GIVEN_UP));
        all
    }

    fn conduct(&self, side: &Side) -> Conduct {
        let stats = side.sdp.stats();
        Conduct { out_of_turn: stats.out_of_turn, malformed: stats.malformed }
    }
}

impl Side {
    fn leftovers(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let partials = ("files that are on their way still", self.partials.get());
        leftovers(&self.sdp).into_iter().chain([partials])
    }
}

impl Model for Copies {
    type State = State;
    type Oracles = CopyOracles;

    fn size(&self) -> Size {
        Size::new([("bytes", self.bytes)])
    }

    /// With a message less.
    fn smaller(&self) -> Vec<Size> {
        let less = self.bytes.checked_sub(PAYLOAD);
        less.map(|bytes| Size::new([("bytes", bytes)])).into_iter().collect()
    }

    fn rails(&self) -> u8 {
        self.setting.rails
    }

    fn mesh(&self, config: &mut MeshConfig) {
        self.setting.mesh(config);
    }

    /// Where a call is dropped a third node says when: what it says comes at any moment.
    fn shape(&self) -> Shape {
        Shape { nodes: if self.is_dropped() { 3 } else { 2 }, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn oracles(&self) -> CopyOracles {
        let (put, take) = self.usual();
        CopyOracles::new(put, take, self.bytes)
    }

    fn usual_faults(&self) -> FaultSet {
        self.setting.faults()
    }

    fn drift(&self) -> Option<Nanos> {
        self.setting.drift()
    }

    /// Until a call of an end that lives must have ended.
    fn waits(&self, state: &State, crashed: &[NodeId], recorder: &Recorder<CopyOracles>) -> bool {
        let waits = |side: &Side| {
            let over = state.crashed_at.is_some_and(|at| side.rt.now() > at + Setting::BOUND);
            let left = side.leftovers().any(|(_, count)| count > 0);
            !over && (left || recorder.oracles(|oracles| oracles.unended() > 0))
        };
        state.sides.iter().filter(|side| !crashed.contains(&NodeId(side.node))).any(waits)
    }

    /// Who waits for a dead node is told so in time.
    fn needs(&self, _: &State, _: NodeId, _: &Recorder<CopyOracles>) -> bool {
        !self.setting.crashes
    }

    fn is_memoisable(&self) -> bool {
        true
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<CopyOracles>) -> State {
        let side = |(node, Member { rt, mesh }): (u32, &Member)| {
            let options = self.setting.short_options(self.threshold);
            let sdp = Sdp::start(rt, mesh, options).expect("nobody else has the channel");
            Side { rt: rt.clone(), sdp, node, partials: Rc::default() }
        };
        let sides: Vec<Side> = (0..).zip(&members[..2]).map(side).collect();
        for side in &sides {
            let puts = (side.node == 0) != (self.kind == Kind::Taken);
            let quits = if puts { Kind::PutDropped } else { Kind::TakeDropped } == self.kind;
            let (rt, node, partials) = (side.rt.clone(), side.node, Rc::clone(&side.partials));
            let full = if let Kind::Full(at) = self.kind { at } else { Full::Never };
            let shelf =
                Shelf { rt: rt.clone(), node, full, partials, len: self.bytes, recorder: recorder.clone() };
            let task = Task {
                rt: rt.clone(),
                sdp: side.sdp.clone(),
                node,
                puts,
                bytes: self.bytes,
                ends: self.bytes - u32::from(self.kind == Kind::Shorter),
                shelf,
                quits: quits.then(|| Quits::told(&rt, &members[node as usize].mesh, &members[2].mesh)),
                recorder: recorder.clone(),
            };
            drop(if node == 0 { rt.spawn(task.connect()) } else { rt.spawn(task.serve()) });
        }
        State { sides, crashed_at: None }
    }

    fn crashed(&self, state: &mut State, node: NodeId, recorder: &Recorder<CopyOracles>) {
        recorder.record(Event { node: node.0, what: What::Crashes });
        let other = state.sides.iter().find(|side| side.node != node.0);
        state.crashed_at = other.map(|side| side.rt.now());
    }

    fn finish_without(&self, state: &State, crashed: &[NodeId], _: &[Member]) -> Result<(), Violation> {
        let lives = |side: &&Side| !crashed.contains(&NodeId(side.node));
        state.sides.iter().filter(lives).try_for_each(|side| {
            at_rest(side.node as usize, self.conduct(side), side.leftovers()).map_or(Ok(()), Err)
        })
    }

    fn violation_at(&self, state: &State, node: usize, member: &Member) -> Option<Violation> {
        let side = state.sides.get(node);
        let conduct = side.map(|side| self.conduct(side)).unwrap_or_default();
        let left = side.into_iter().flat_map(Side::leftovers);
        at_rest(node, conduct, left.chain(member.leftovers()))
    }

    fn branches(&self) -> Vec<&'static str> {
        branches::names(&self.interesting())
    }

    fn reached_at(&self, state: &State, node: usize, member: &Member) -> u32 {
        let sdp = state.sides.get(node).map(|side| side.sdp.stats()).unwrap_or_default();
        branches::reached(&self.interesting(), &member.mesh.stats(), &sdp)
    }
}
