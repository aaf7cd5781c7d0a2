//! The thread on which a daemon's systems run: its device, its meshes, its members, and the services on them.

use super::frame::{Frame, Kind};
use super::machine::{Backend, Machine};
use super::services::{Own, Services};
use super::troubles;
use crate::bridge::Outbox;
use std::cell::Cell;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use weft_control::daemon::config::Systems;
use weft_protocols::rt::{Rt, RtConfig};
use weft_store::Objects;
use weft_tcp::TcpContext;
use weft_verbs::{Nanos, Stream, Wait};

/// What the systems of a node need.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which node this is.
    pub rank: u32,
    /// What it runs on.
    pub on: Machine,
    /// Where it keeps the bytes of files, if it is a file server.
    pub store: Option<Arc<Objects>>,
    /// What it runs.
    pub systems: Systems,
    /// Whether it spins on its completion queues.
    pub spin: bool,
    /// The traffic class of its packets.
    pub traffic_class: u8,
}

impl Setup {
    /// The systems that it runs, and how calls to them are marked.
    pub fn runs(&self) -> impl Iterator<Item = (&'static str, Kind)> + use<> {
        let Systems { segments, locks, file_servers, .. } = self.systems;
        let all = [
            (segments, super::SEGMENTS, Kind::Segments),
            (locks.is_some(), super::LOCKS, Kind::Locks),
            (file_servers > 0, super::FILES, Kind::Files),
        ];
        all.into_iter().filter(|(runs, ..)| *runs).map(|(_, system, kind)| (system, kind))
    }
}

/// How often a node looks whether what it reports has changed.
const LOOK: Nanos = Nanos::from_millis(500);

/// How long a node that leaves waits for the others to begin without it.
const FAREWELL: Nanos = Nanos::from_secs(2);

/// Runs the systems until the daemon says that they are to end.
pub fn run(setup: &Setup, addresses: &[IpAddr], daemon: UnixStream) -> Result<(), String> {
    match &setup.on {
        Machine::Tcp(address) => {
            let machine = TcpContext::open(Some(*address), setup.store.clone());
            run_on::<weft_tcp::Tcp>(&machine.map_err(text)?, setup, addresses, daemon)
        }
        #[cfg(feature = "hw")]
        Machine::Rdma(device) => {
            let context = device.open(setup.store.as_ref()).map_err(text)?;
            tracing::info!("node {}: {}", setup.rank, crate::device::told(&context));
            run_on::<weft_hw::Hw>(&context, setup, addresses, daemon)
        }
    }
}

fn text(why: impl std::fmt::Display) -> String {
    why.to_string()
}

fn run_on<V: Backend>(
    machine: &V::Context,
    setup: &Setup,
    addresses: &[IpAddr],
    daemon: UnixStream,
) -> Result<(), String> {
    let names: Vec<String> = (0..addresses.len() as u32).map(name).collect();
    for (name, address) in names.iter().zip(addresses) {
        V::name_peer(machine, name, *address);
    }
    let wait = if setup.spin { Wait::Poll } else { Wait::Notify };
    let rt = Rt::<V>::new(machine, RtConfig { wait, ..RtConfig::default() }).map_err(text)?;
    let at = *addresses.get(setup.rank as usize).ok_or("this node does not know its own address")?;
    let Setup { rank, traffic_class, .. } = *setup;
    let own = Own { rank, port: V::port(machine), at, traffic_class };
    let services = Services::start(&rt, &own, &setup.systems, names)?;
    let engine = Rc::new(Engine::new(&rt, services));
    let stream = V::adopt(machine, daemon).map_err(text)?;
    rt.spawn(Rc::clone(&engine).talk(stream));
    rt.spawn(Rc::clone(&engine).report());
    let of = Rc::clone(&engine);
    rt.spawn(troubles::log(rt.clone(), machine.clone(), move || of.services.meshes(), setup.rank));
    V::drive(machine, &mut rt.program()).map_err(text)?;
    rt.fatal().map_or(Ok(()), |why| Err(text(why)))
}

/// By which name protocols know a node.
fn name(rank: u32) -> String {
    format!("n{rank}")
}

/// The services of a node, and what is to be said to the daemon.
struct Engine<V: Backend> {
    rt: Rt<V>,
    services: Services<V>,
    to_daemon: Outbox,
    stopping: Cell<bool>,
}

impl<V: Backend> Engine<V> {
    fn new(rt: &Rt<V>, services: Services<V>) -> Engine<V> {
        Engine { rt: rt.clone(), services, to_daemon: Outbox::default(), stopping: Cell::new(false) }
    }

    fn say(&self, frame: &Frame) {
        self.to_daemon.say(&frame.to_message());
    }

    /// Writes what is to be said and does what is told, until the daemon is gone.
    async fn talk(self: Rc<Self>, stream: impl Stream) {
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
            Kind::Segments | Kind::Locks | Kind::Files => drop(self.rt.spawn(Rc::clone(self).serve(frame))),
            Kind::Stop => drop(self.rt.spawn(Rc::clone(self).leave())),
            Kind::Moved => self.follow(&frame.body),
            Kind::Done | Kind::Failed | Kind::Report => {}
        }
    }

    /// From now on a node is at another address: whoever connects to it finds it there.
    fn follow(&self, body: &[u8]) {
        let (rank, address) = serde_json::from_slice(body).expect("the other end is of this process");
        V::name_peer(self.rt.context(), &name(rank), address);
    }

    async fn serve(self: Rc<Self>, Frame { kind, call, body }: Frame) {
        let served = match kind {
            Kind::Files => self.services.files(&body).await,
            Kind::Locks => self.services.locks(&body).await,
            _ => self.services.segments(&body).await,
        };
        let (kind, body) = match served {
            Ok(bytes) => (Kind::Done, bytes),
            Err(why) => (Kind::Failed, serde_json::to_vec(&why).expect("a text can always be written")),
        };
        self.say(&Frame { kind, call, body });
    }

    /// Leaves the members; the thread ends once they have begun without this node and have heard what it said, or have had the time to.
    async fn leave(self: Rc<Self>) {
        if self.stopping.replace(true) {
            return;
        }
        self.services.leave(self.rt.now() + FAREWELL).await;
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
