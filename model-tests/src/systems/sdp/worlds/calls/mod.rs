//! Streams as programs use them: small scripts of calls, of which any may be dropped at any moment.

mod history;
mod listening;
mod promises;
mod script;
mod user;

use super::super::leftovers;
use super::branches::{self, Branch};
use super::setting::Setting;
use crate::explore::{Entry, Key, Size, SizeError, Violation};
use crate::harness::{Member, Model, Quits, Recorder, Requests, Shape, at_rest, worlds};
use crate::oracle::Conduct;
use listening::{Listening, Server};
use promises::CallOracles;
use std::rc::Rc;
use user::{Line, User};
use weft_protocols::sdp::Sdp;
use weft_protocols::transport::MeshConfig;
use weft_sim::Sim;
use weft_sim::explore::FaultSet;
use weft_verbs::{Nanos, Wait};

const KEYS: &[Key] = &[Key { name: "calls", help: script::LETTERS }];

/// Where scripts run.
#[derive(Clone, Copy)]
struct Kind {
    setting: Setting,
    /// Owned buffers with more bytes go without a copy; 0 for none.
    threshold: u32,
    listening: Listening,
}

const COPIES: Kind = Kind { setting: Setting::PLAIN, threshold: 0, listening: Listening::Accepts };
const NARROW: Kind = Kind { setting: Setting::NARROW, ..COPIES };
const IMPATIENT: Kind = Kind { setting: Setting::IMPATIENT, ..COPIES };
const IMPATIENT_ZCOPY: Kind = Kind { threshold: 16, ..IMPATIENT };
const NARROW_STOPS: Kind = Kind { setting: Setting::NARROW, ..STOPS };
const ZCOPY: Kind = Kind { threshold: 16, ..COPIES };
const RAILS: Kind = Kind { setting: Setting::RAILS, ..COPIES };
const ZCOPY_RAILS: Kind = Kind { threshold: 16, ..RAILS };
const DROPS_ACCEPT: Kind = Kind { listening: Listening::DropsAccept, ..COPIES };
const STOPS: Kind = Kind { listening: Listening::Stops, ..COPIES };

/// The worlds of calls.
pub(super) fn worlds() -> Vec<Entry> {
    worlds! { KEYS;
        "sdp-calls" make(COPIES, "cWWkfRKex,RRWfex") Held,
            "sockets: calls that do not wait, and those that say when they need not: try_write, writable, peek, try_read, readable";
        "sdp-calls-rails" make(RAILS, "cWkfRKex,RWfex") Held, "sockets: the same between nodes of two rails";
        "sdp-calls-zcopy" make(ZCOPY, "csfex,RRfex") Held, "sockets: peek and try_read of bytes that are advertised";
        "sdp-calls-both-ways" make(COPIES, "cWfx+Re,wfx+re") Held, "sockets: at both ends one user writes while another one reads";
        "sdp-calls-resize" make(COPIES, "czWkfex,ex") Held, "sockets: private buffers are resized before a write that does not wait";
        "sdp-aborts" make(COPIES, "cwb,rwe") Held, "sockets: a stream is aborted while its peer reads and writes";
        "sdp-aborts-zcopy" make(ZCOPY, "csb,vse") Held, "sockets: the same while memory is advertised";
        "sdp-aborts-behind-end" make(ZCOPY, "cs!fb,fe") Held,
            "sockets: the same behind the end of the stream, while its peer, which has ended, reads what is advertised";
        "sdp-aborts-all" make(COPIES, "cW+R,RB") Held, "sockets: a node aborts all of its streams under the calls of their users";
        "sdp-narrow-calls" make(NARROW, "cWWkfRKex,RRWfex") Held,
            "sockets: calls that do not wait, where a message waits until the one before it is acknowledged";
        "sdp-narrow-dropped-write" make(NARROW, "cwwW!w!wfx,rex") Held, "sockets: the same of writes that are dropped at any moment";
        "sdp-narrow-aborts" make(NARROW, "cwwb,rwe") Held, "sockets: the same of a stream that is aborted while its peer reads and writes";
        "sdp-narrow-listener-stops" make(NARROW_STOPS, "cwfxcwfx,ex") Held, "sockets: the same of a listener that is dropped at any moment";
        "sdp-impatient-connect" make(IMPATIENT, "ccwfex,rfex") Held, "sockets: a connect that takes too long fails, and is made again";
        "sdp-impatient-read" make(IMPATIENT, "crrwfex,rwwfex") Held,
            "sockets: both ends read before they write: a read that takes too long fails, and loses nothing";
        "sdp-impatient-write" make(IMPATIENT, "cwwwwfex,wwwwfex") Held,
            "sockets: both ends write before they read: a write that takes too long fails, and what it took arrives";
        "sdp-impatient-receive" make(IMPATIENT_ZCOPY, "cvwwfex,vvwfex") Held,
            "sockets: both ends give a buffer before they write: a receive that takes too long has it back, and loses nothing";
        "sdp-impatient-send" make(IMPATIENT_ZCOPY, "cssfex,svfex") Held,
            "sockets: both ends advertise before they read: a send that takes too long has its buffer back, and says what was sent";
        "sdp-impatient-close" make(IMPATIENT_ZCOPY, "cs!x,wwwwex") Held,
            "sockets: a close takes too long, since what a send that was left advertises is not read, and aborts the stream";
        "sdp-listener-stops" make(STOPS, "cwfxcwfx,ex") Held, "sockets: a listener is dropped at any moment; who connects later is refused";
        "sdp-dropped-connect" make(COPIES, "c!cwfex,rfex") Held, "sockets: a connect is dropped at any moment, and made again";
        "sdp-dropped-accept" make(DROPS_ACCEPT, "cwfex,rfex") Held, "sockets: an accept is dropped at any moment, and made again";
        "sdp-dropped-write" make(COPIES, "cwwW!w!wfx,rex") Held, "sockets: writes are dropped at any moment: what they took arrives";
        "sdp-dropped-read" make(COPIES, "cwWfx,r!R!ex") Held, "sockets: reads are dropped at any moment, and lose nothing";
        "sdp-dropped-read-zcopy" make(ZCOPY, "csfx,r!R!ex") Held, "sockets: the same of bytes that are advertised";
        "sdp-dropped-send" make(ZCOPY, "cs!swfx,ex") Held, "sockets: a send is dropped at any moment, and carried out all the same";
        "sdp-dropped-receive" make(ZCOPY, "csx,v!ex") Held, "sockets: a receive is dropped at any moment, and what comes for it is read by the next call";
        "sdp-dropped-receive-first" make(ZCOPY, "crssx,v!+vex+w") Held,
            "sockets: of two receives that wait the first one is dropped at any moment: the second one has the first bytes";
        "sdp-left-receive" make(ZCOPY, "crswx,v?ex+w") Held,
            "sockets: a receive is left after its first step and dropped later: bytes stay in their order";
        "sdp-left-receive-read" make(ZCOPY, "crsrx,v?+rwex+w") Held,
            "sockets: the same while another call waits to read, which has what came for the one that is dropped";
        "sdp-left-receive-end" make(ZCOPY, "crsfx,v?+ex+w") Held,
            "sockets: the same while another call reads on: it waits for what came first, and is told no end before";
        "sdp-left-receive-behind" make(ZCOPY, "crswx,v?+rex+w") Held, "sockets: the same of bytes that come behind";
        "sdp-left-receive-next" make(ZCOPY, "crssx,v?+vex+w") Held, "sockets: the same of another receive, and of what is written for it";
        "sdp-left-receive-waits" make(ZCOPY, "crsrx,v?+vwex+w") Held,
            "sockets: the same of another receive for which nothing is written: it has what came for the one that is dropped";
        "sdp-left-receive-rails" make(ZCOPY_RAILS, "csx,v?ex") Held, "sockets: a receive is left and dropped between nodes of two rails";
        "sdp-dropped-close" make(COPIES, "cwx!,rex") Held, "sockets: a close is dropped at any moment: what was written arrives";
        "sdp-dropped-close-zcopy" make(ZCOPY, "cs!x!,ex") Held, "sockets: the same behind a send that was dropped";
        "sdp-dropped-resize" make(COPIES, "cz!zwx,ex") Held, "sockets: a resize is dropped at any moment, and made again";
        "sdp-dropped-stream" make(ZCOPY, "cesx,v!d") Held,
            "sockets: a receive is dropped and then its stream: nobody closes in good faith what is written there";
        "sdp-dropped-send-abort" make(ZCOPY, "cs!b,ve") Held, "sockets: a send is dropped at any moment, and the stream aborted";
    }
}

fn make(size: &Size, kind: Kind, calls: &str) -> Result<Calls, SizeError> {
    let scripts = Requests::parse(&size.text("calls").unwrap_or_else(|| calls.to_string()));
    size.within("calls", scripts.nodes(), 2..=2)?;
    for node in 0..2 {
        let mut users = Vec::new();
        let shares = scripts.of(node).count() > 1;
        for (client, letters) in scripts.of(node) {
            let Some(calls) = script::calls(letters) else {
                return Err(SizeError(format!("calls are {}, not '{letters}'", script::LETTERS)));
            };
            let connects = client.node == 0 && client.index == 0;
            script::check(&calls, connects, shares).map_err(|why| SizeError(why.into()))?;
            users.push(calls);
        }
        script::check_end(&users).map_err(|why| SizeError(why.into()))?;
    }
    Ok(Calls { kind, scripts })
}

/// Scripts of calls on streams between two nodes.
struct Calls {
    kind: Kind,
    scripts: Requests,
}

/// What an execution keeps: the sockets of both nodes.
struct State {
    sockets: [Sdp<Sim>; 2],
}

impl Calls {
    /// Whether a third node says when calls are dropped.
    fn drops(&self, node: u32) -> bool {
        script::drops(&self.scripts, node) || (node == 1 && self.kind.listening != Listening::Accepts)
    }

    /// Whether a user ends a stream at once, or drops it, or closes it while its peer writes: messages for it may be on their way then.
    fn gives_up(&self) -> bool {
        let ends = |letters: &str| {
            let unread = self.kind.setting.impatient && !letters.contains('e');
            letters.contains(['b', 'B', 'd']) || letters.contains("c!") || letters.contains("c?") || unread
        };
        let any = (0..2).flat_map(|node| self.scripts.of(node)).any(|(_, letters)| ends(letters));
        any || self.kind.listening == Listening::Stops
    }

    /// The branches that a node may reach.
    fn interesting(&self) -> Vec<Branch> {
        let mut all = branches::OF_LINKS.to_vec();
        let sends = (0..2).flat_map(|node| self.scripts.of(node)).any(|(_, letters)| letters.contains('s'));
        all.extend((self.kind.threshold > 0 && sends).then_some(branches::WITHOUT_A_COPY));
        all.extend(self.gives_up().then_some(branches::ABORTED));
        all
    }
}

impl Model for Calls {
    type State = State;
    type Oracles = CallOracles;

    fn size(&self) -> Size {
        Size::new([("calls", self.scripts.to_string())])
    }

    fn smaller(&self) -> Vec<Size> {
        let sized = |less: &Requests| Size::new([("calls", less.to_string())]);
        self.scripts.smaller(2).iter().map(sized).collect()
    }

    fn rails(&self) -> u8 {
        self.kind.setting.rails
    }

    fn mesh(&self, config: &mut MeshConfig) {
        self.kind.setting.mesh(config);
    }

    /// Where a call is dropped a third node says when: what it says comes at any moment.
    fn shape(&self) -> Shape {
        let nodes = if self.drops(0) || self.drops(1) { 3 } else { 2 };
        Shape { nodes, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn oracles(&self) -> CallOracles {
        CallOracles::of(self.kind.setting.impatient)
    }

    fn usual_faults(&self) -> FaultSet {
        self.kind.setting.faults()
    }

    fn drift(&self) -> Option<Nanos> {
        self.kind.setting.drift()
    }

    fn is_memoisable(&self) -> bool {
        true
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<CallOracles>) -> State {
        let start = |node: usize| {
            let Member { rt, mesh } = &members[node];
            let options = self.kind.setting.short_options(self.kind.threshold);
            Sdp::start(rt, mesh, options).expect("nobody else has the channel")
        };
        let sockets = [start(0), start(1)];
        let user = |node: u32, line: Rc<Line>| {
            let (rt, sdp) = (members[node as usize].rt.clone(), sockets[node as usize].clone());
            let mesh = &members[node as usize].mesh;
            let quits = self.drops(node).then(|| Quits::told(&rt, mesh, &members[2].mesh));
            User { rt, sdp, line, quits, recorder: recorder.clone() }
        };
        let scripts = |node: u32| {
            let known = |letters| script::calls(letters).expect("letters were checked");
            self.scripts.of(node).map(|(_, letters)| known(letters)).collect::<Vec<_>>()
        };
        let server = Server {
            user: user(1, Line::new(1, 0)),
            listening: self.kind.listening,
            scripts: scripts(1).into(),
        };
        drop(members[1].rt.spawn(server.listen()));
        let scripts = scripts(0);
        let client = user(0, Line::new(0, scripts.len()));
        for script in scripts {
            drop(members[0].rt.spawn(client.clone().run(script)));
        }
        State { sockets }
    }

    fn violation_at(&self, state: &State, node: usize, member: &Member) -> Option<Violation> {
        let Some(sdp) = state.sockets.get(node) else {
            return at_rest(node, Conduct::default(), member.leftovers());
        };
        let stats = sdp.stats();
        let conduct = Conduct { out_of_turn: stats.out_of_turn, malformed: stats.malformed };
        at_rest(node, conduct, leftovers(sdp).into_iter().chain(member.leftovers()))
    }

    fn branches(&self) -> Vec<&'static str> {
        branches::names(&self.interesting())
    }

    fn reached_at(&self, state: &State, node: usize, member: &Member) -> u32 {
        let sdp = state.sockets.get(node).map(Sdp::stats).unwrap_or_default();
        branches::reached(&self.interesting(), &member.mesh.stats(), &sdp)
    }
}
