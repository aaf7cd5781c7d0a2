//! The thread on which a daemon's systems run: its device, its mesh, its members, and the services on them.

use super::frame::{Frame, Kind};
use super::services::Services;
use crate::bridge::Outbox;
use crate::node::device::Choice;
use std::cell::Cell;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use weft_control::daemon::config::Systems;
use weft_hw::{Driver, Hw, HwStream};
use weft_protocols::rt::{Rt, RtConfig};
use weft_store::Objects;
use weft_verbs::{Context, Nanos, Wait};

/// What the systems of a node need.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which node this is.
    pub rank: u32,
    /// Its device.
    pub on: Choice,
    /// Where it keeps the bytes of files, if it is a file server.
    pub store: Option<Arc<Objects>>,
    /// What it runs.
    pub systems: Systems,
    /// Whether it spins on its completion queues.
    pub spin: bool,
}

impl Setup {
    /// The systems that it runs, and how calls to them are marked.
    pub fn runs(&self) -> impl Iterator<Item = (&'static str, Kind)> + use<> {
        let Systems { segments, file_servers, .. } = self.systems;
        let segments = segments.then_some((super::SEGMENTS, Kind::Segments));
        segments.into_iter().chain((file_servers > 0).then_some((super::FILES, Kind::Files)))
    }
}

/// How often a node looks whether what it reports has changed.
const LOOK: Nanos = Nanos::from_millis(500);

/// How long a node that leaves waits for the others to begin without it.
const FAREWELL: Nanos = Nanos::from_secs(2);

/// Runs the systems until the daemon says that they are to end.
pub fn run(setup: &Setup, addresses: &[IpAddr], daemon: UnixStream) -> Result<(), String> {
    let text = |why: &dyn std::fmt::Display| why.to_string();
    let context = setup.on.open(setup.store.as_ref()).map_err(|why| text(&why))?;
    let names: Vec<String> = (0..addresses.len()).map(|rank| format!("n{rank}")).collect();
    for (name, address) in names.iter().zip(addresses) {
        context.name_peer(name, *address);
    }
    let wait = if setup.spin { Wait::Poll } else { Wait::Notify };
    let rt = Rt::new(&context, RtConfig { wait, ..RtConfig::default() }).map_err(|why| text(&why))?;
    let services = Services::start(&rt, (setup.rank, context.port()), &setup.systems, names)?;
    let engine = Rc::new(Engine::new(&rt, services));
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
    services: Services<Hw>,
    to_daemon: Outbox,
    stopping: Cell<bool>,
}

impl Engine {
    fn new(rt: &Rt<Hw>, services: Services<Hw>) -> Engine {
        Engine { rt: rt.clone(), services, to_daemon: Outbox::default(), stopping: Cell::new(false) }
    }

    fn say(&self, frame: &Frame) {
        self.to_daemon.say(&frame.to_message());
    }

    /// Writes what is to be said and does what is told, until the daemon is gone.
    async fn talk(self: Rc<Self>, stream: HwStream) {
        let hear = |message: Vec<u8>| {
            self.obey(Frame::of_message(&message));
            ControlFlow::<()>::Continue(())
        };
        // A daemon that is gone needs no more to be said.
        let _ = self.to_daemon.talk(stream, Vec::new(), hear).await;
        self.rt.shutdown();
    }

    fn obey(self: &Rc<Self>, frame: Frame) {
        match frame.kind {
            Kind::Segments | Kind::Files => drop(self.rt.spawn(Rc::clone(self).serve(frame))),
            Kind::Stop => drop(self.rt.spawn(Rc::clone(self).leave())),
            Kind::Done | Kind::Failed | Kind::Report => {}
        }
    }

    async fn serve(self: Rc<Self>, Frame { kind, call, body }: Frame) {
        let served = match kind {
            Kind::Files => self.services.files(&body).await,
            _ => self.services.segments(&body).await,
        };
        let (kind, body) = match served {
            Ok(bytes) => (Kind::Done, bytes),
            Err(why) => (Kind::Failed, why.into_bytes()),
        };
        self.say(&Frame { kind, call, body });
    }

    /// Leaves the members; the thread ends once they have begun without this node, or have had the time to.
    async fn leave(self: Rc<Self>) {
        if self.stopping.replace(true) {
            return;
        }
        self.services.leave();
        let end = self.rt.now() + FAREWELL;
        while !self.services.has_left() && self.rt.now() < end {
            self.rt.sleep(Nanos::from_millis(10)).await;
        }
        self.rt.shutdown();
    }

    /// Reports what has changed.
    async fn report(self: Rc<Self>) {
        let mut last = None;
        loop {
            let report = self.services.report();
            if last.as_ref() != Some(&report) {
                let body = serde_json::to_vec(&report).expect("a report can always be written");
                self.say(&Frame::of(Kind::Report, body));
                last = Some(report);
            }
            self.rt.sleep(LOOK).await;
        }
    }
}
