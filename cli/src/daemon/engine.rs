//! The thread on which a daemon's systems run: its device, its mesh, its members, and the services on them.

use super::bridge::{Frame, Kind};
use crate::node::device::Choice;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::task::{Poll, Waker};
use weft_check::scenario::{Membership, Span};
use weft_control::daemon::config::Systems;
use weft_control::message::{Report, View};
use weft_hw::{Driver, Hw, HwContext, HwStream};
use weft_protocols::ddss::named::{Named, NamedError, Reply, Request};
use weft_protocols::ddss::{Ddss, DdssError};
use weft_protocols::members::Members;
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_verbs::{Context, Nanos, Stream, Wait};

/// What the systems of a node need.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which node this is.
    pub rank: u32,
    /// Its device.
    pub on: Choice,
    /// What it runs.
    pub systems: Systems,
    /// Whether it spins on its completion queues.
    pub spin: bool,
}

/// How often a node looks whether what it reports has changed.
const LOOK: Nanos = Nanos::from_millis(500);

/// How long a node that leaves waits for the others to begin without it.
const FAREWELL: Nanos = Nanos::from_secs(2);

/// Where a rank is, by its name in the mesh.
pub fn name(rank: u32) -> String {
    format!("n{rank}")
}

/// Runs the systems until the daemon says that they are to end.
pub fn run(setup: &Setup, addresses: &[IpAddr], daemon: UnixStream) -> Result<(), String> {
    let context = setup.on.open(None).map_err(|why| why.to_string())?;
    let names: Vec<String> = (0..addresses.len() as u32).map(name).collect();
    for (name, address) in names.iter().zip(addresses) {
        context.name_peer(name, *address);
    }
    let text = |why: &dyn std::fmt::Display| why.to_string();
    let wait = if setup.spin { Wait::Poll } else { Wait::Notify };
    let rt = Rt::new(&context, RtConfig { wait, ..RtConfig::default() }).map_err(|why| text(&why))?;
    let engine = Engine::start(&rt, setup, &context, names)?;
    let oob = context.out_of_band().map_err(|why| text(&why))?;
    let stream = oob.adopt_local(daemon).map_err(|why| text(&why))?;
    rt.spawn(Rc::clone(&engine).talk(stream));
    rt.spawn(Rc::clone(&engine).report());
    let mut driver = Driver::new(std::slice::from_ref(&context)).map_err(|why| text(&why))?;
    driver.run(&mut rt.program(), || false);
    Ok(())
}

/// The services of a node, and what is to be said to the daemon.
struct Engine {
    rt: Rt<Hw>,
    members: Members<Hw>,
    ddss: Ddss<Hw>,
    named: Named<Hw>,
    to_daemon: RefCell<VecDeque<u8>>,
    talker: RefCell<Option<Waker>>,
    stopping: Cell<bool>,
    /// The others go on without this node.
    out: Cell<bool>,
}

impl Engine {
    fn start(
        rt: &Rt<Hw>,
        setup: &Setup,
        context: &HwContext,
        names: Vec<String>,
    ) -> Result<Rc<Engine>, String> {
        let text = |why: &dyn std::fmt::Display| why.to_string();
        let nodes = names.len() as u32;
        let mut mesh = MeshConfig::new(Rank::from_index(setup.rank), names);
        mesh.port = context.port();
        let span = |millis| Span(Nanos::from_millis(millis));
        let Systems { lease_ms, drift_ms, patience_ms, .. } = setup.systems;
        let membership =
            Membership { lease: span(lease_ms), drift: span(drift_ms), patience: span(patience_ms) };
        membership.mesh(nodes, &mut mesh);
        let mesh = Mesh::start(rt, mesh).map_err(|why| text(&why))?;
        let members = Members::start(rt, &mesh, membership.config(nodes)).map_err(|why| text(&why))?;
        let ddss = Ddss::start_among(rt, &mesh, &members).map_err(|why| text(&why))?;
        let (rt, named) = (rt.clone(), Named::new(rt, &ddss));
        let (to_daemon, talker) = (RefCell::default(), RefCell::default());
        let (stopping, out) = (Cell::new(false), Cell::new(false));
        Ok(Rc::new(Engine { rt, members, ddss, named, to_daemon, talker, stopping, out }))
    }

    fn say(&self, frame: &Frame) {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        self.to_daemon.borrow_mut().extend(bytes);
        if let Some(talker) = self.talker.take() {
            talker.wake();
        }
    }

    /// Writes what is to be said and does what is told, until the daemon is gone or says that this was all.
    async fn talk(self: Rc<Self>, mut stream: HwStream) {
        let mut heard = Vec::new();
        poll_fn(|cx| {
            self.talker.replace(Some(cx.waker().clone()));
            loop {
                let mut idle = true;
                let mut out = self.to_daemon.borrow_mut();
                if !out.is_empty() {
                    match stream.poll_write(cx, out.make_contiguous()) {
                        Poll::Ready(Ok(written)) => {
                            out.drain(..written);
                            idle = false;
                        }
                        Poll::Ready(Err(_)) => return Poll::Ready(()),
                        Poll::Pending => {}
                    }
                }
                drop(out);
                let mut bytes = [0; 16_384];
                match stream.poll_read(cx, &mut bytes) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                    Poll::Ready(Ok(read)) => {
                        heard.extend_from_slice(&bytes[..read]);
                        idle = false;
                    }
                    Poll::Pending => {}
                }
                while let Some(frame) = Frame::take(&mut heard) {
                    self.obey(frame);
                }
                if idle {
                    return Poll::Pending;
                }
            }
        })
        .await;
        self.rt.shutdown();
    }

    fn obey(self: &Rc<Self>, frame: Frame) {
        match frame.kind {
            Kind::Call => drop(self.rt.spawn(Rc::clone(self).serve(frame.call, frame.body))),
            Kind::Stop => drop(self.rt.spawn(Rc::clone(self).leave())),
            Kind::Done | Kind::Failed | Kind::Report => {}
        }
    }

    async fn serve(self: Rc<Self>, call: u64, body: Vec<u8>) {
        let served = match Request::from_bytes(&body) {
            Ok(request) => self.named.serve(request).await,
            Err(why) => {
                return self.say(&Frame { kind: Kind::Failed, call, body: why.to_string().into_bytes() });
            }
        };
        if let Err(NamedError::Ddss(DdssError::Out)) = served {
            self.out.set(true);
        }
        let reply = served.as_ref().map(Reply::to_bytes);
        let longest = weft_control::message::CALL;
        let (kind, body) = match reply {
            Ok(bytes) if bytes.len() <= longest => (Kind::Done, bytes),
            Ok(bytes) => {
                let bytes = bytes.len();
                (
                    Kind::Failed,
                    format!("the answer has {bytes} bytes, and at most {longest} are passed on").into_bytes(),
                )
            }
            Err(why) => (Kind::Failed, why.to_string().into_bytes()),
        };
        self.say(&Frame { kind, call, body });
    }

    /// Leaves the members; the thread ends once they have begun without this node, or have had the time to.
    async fn leave(self: Rc<Self>) {
        if self.stopping.replace(true) {
            return;
        }
        self.members.leave();
        let end = self.rt.now() + FAREWELL;
        let alone = || self.members.view().is_none_or(|view| view.members.len() < 2);
        while !self.members.is_out() && !alone() && self.rt.now() < end {
            self.rt.sleep(Nanos::from_millis(10)).await;
        }
        self.rt.shutdown();
    }

    /// Reports what has changed.
    async fn report(self: Rc<Self>) {
        let mut last = None;
        loop {
            let report = self.state();
            if last.as_ref() != Some(&report) {
                let body = serde_json::to_vec(&report).expect("a report can always be written");
                self.say(&Frame::of(Kind::Report, body));
                last = Some(report);
            }
            self.rt.sleep(LOOK).await;
        }
    }

    fn state(&self) -> Report {
        let view = self.members.view().filter(|_| !self.members.is_out());
        let is_out = self.out.get() || self.members.is_out();
        let state = match (is_out, &view) {
            (true, _) => "out: start it again with all others",
            (false, None) => "waits for a view",
            (false, Some(_)) => "running",
        };
        let view = view.map(|view| View {
            number: view.id.number,
            members: view.members.iter().map(|member| member.rank.index() as u32).collect(),
        });
        let (kept, stats) = (self.ddss.kept(), self.ddss.stats());
        let said = [
            ("state", state.to_string()),
            ("kept", kept.len().to_string()),
            ("bytes", kept.iter().map(|(_, bytes)| bytes).sum::<u64>().to_string()),
            ("gets", stats.gets.to_string()),
            ("puts", stats.puts.to_string()),
        ];
        let said: BTreeMap<String, String> = said.map(|(key, value)| (key.to_string(), value)).into();
        // Calls go to nodes that report the system.
        let name = if state == "running" { super::SEGMENTS } else { super::NOT_RUNNING };
        Report { view, systems: BTreeMap::from([(name.to_string(), said)]) }
    }
}
