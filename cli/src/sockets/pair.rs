//! Two nodes that have met: a mesh of two over all their devices, with sockets on it.

use super::args::Over;
use super::broken::Broken;
use super::meet::Introduction;
use super::service::drawn;
use crate::device::Choice;
use crate::exit::Failure;
use crate::interrupt;
use crate::taken::Address;
use crate::troubles::words;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use weft_hw::{Driver, Ended, Hw, HwContext};
use weft_protocols::rt::{Program, Rt, RtConfig};
use weft_protocols::sdp::{Sdp, SdpOptions};
use weft_protocols::transport::{Cause, MOST_RAILS, Mesh, MeshConfig, Rank, TransportError};
use weft_verbs::{AckTimeout, ConnectionManager, Context, Host, Nanos, Retries, Service, VerbsError, Wait};

/// The socket's port within the mesh of two.
pub const PORT: u16 = 1;
/// How long an end that is done stays, so that the other one's last words are acknowledged.
const FAREWELL: Nanos = Nanos::from_secs(5);
/// The adapters' time-out, as an exponent: 16.8 ms, so that a dead link is given up after a tenth of a second to half a second.
const ACK_TIMEOUT: u8 = 12;
/// How long an acknowledgement waits for a message that carries it: an answer of a slow machine comes in less. Each time that it is over a node
/// that sleeps is woken, mostly for nothing, since an answer has carried it; and it is well below the 50 ms after which a peer is probed.
const ACK_DELAY: Nanos = Nanos::from_millis(20);

/// Which of the two this end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It waited for the other.
    Listener,
    /// It called the other.
    Caller,
}

/// The other end's rank.
pub fn listener() -> Rank {
    Rank::from_index(0)
}

/// This machine's devices, opened.
pub struct Devices {
    contexts: Vec<HwContext>,
    addresses: Vec<IpAddr>,
    /// How long they are looked at before this end sleeps.
    spin: Nanos,
    /// The traffic class of this end's packets.
    traffic_class: u8,
}

impl Devices {
    /// Opens the devices that were named, or all that can be opened and have an IP address.
    pub fn open(over: &Over) -> Result<Devices, Failure> {
        if over.devices.len() > MOST_RAILS {
            return Err(Failure::bad_input(format!("--device: no more than {MOST_RAILS}")));
        }
        let found = Choice::at(&over.devices, &over.at).open_every()?;
        let (contexts, addresses) = found.into_iter().unzip();
        let (spin, traffic_class) = (Nanos::from_micros(over.spin.into()), over.traffic_class);
        Ok(Devices { contexts, addresses, spin, traffic_class })
    }

    /// What is told to the other end.
    pub fn introduction(&self, weft: &str) -> Result<Introduction, Failure> {
        let host = self.contexts[0].host();
        let Service(service) =
            drawn(|| host.random(), |service| self.listen(service)).map_err(Failure::unfinished)?;
        Ok(Introduction { weft: weft.to_string(), addresses: self.addresses.clone(), service })
    }

    /// Listens at a service for as long as it takes to know that it can be had.
    fn listen(&self, service: Service) -> weft_verbs::Result<()> {
        self.contexts.iter().try_for_each(|context| context.connection_manager()?.listen(service))
    }
}

/// How many bytes of data a private buffer takes: a bulk writer's usual 64 KiB, which are one message then. On two machines with Soft-RoCE a
/// transfer of 64 KiB takes 0.90 of the instructions that it takes with 32 KiB. The receive buffers, 64 of this size, are 4 MiB.
const BUFFER_BYTES: u32 = 64 * 1_024;

/// How long one waits for the other end.
#[derive(Clone, Copy)]
pub enum Waits {
    /// For ever, as one does at a pipe: what an end of it reads from or writes to may be stopped for as long as somebody likes. An end that
    /// is stopped itself is given up as one that is away.
    Forever,
    /// As long as it is there, however long that takes: its disk may be slow.
    WhileItLives,
    /// Until nothing has come of it for so long.
    AtMost(Nanos),
}

/// How long nothing may be heard of one for which the other one waits while it lives, until it is asked whether it does.
const KEEPALIVE: Nanos = Nanos::from_secs(10);

/// What all of these commands choose of their streams.
fn options(waits: Waits) -> SdpOptions {
    let (read_timeout, keepalive) = match waits {
        Waits::Forever => (None, None),
        Waits::WhileItLives => (None, Some(KEEPALIVE)),
        Waits::AtMost(span) => (Some(span), None),
    };
    SdpOptions { buffer_bytes: BUFFER_BYTES, read_timeout, keepalive, ..SdpOptions::default() }
}

/// Ends the node, once it and the other one owe each other nothing.
async fn leave(rt: Rt<Hw>, sdp: Sdp<Hw>) {
    sdp.settle(FAREWELL).await;
    rt.shutdown();
}

/// Carries work out, and says how it has ended before the two ends part: what has ended well has, whatever ends this node meanwhile.
async fn carry_out<T, E, P: Future<Output = ()>>(
    work: impl Future<Output = Result<(T, P), E>>,
    trouble: impl FnOnce() -> Option<String>,
    ended: &RefCell<Option<Result<T, Broken<E>>>>,
) {
    match work.await {
        Ok((end, parts)) => {
            ended.replace(Some(Ok(end)));
            parts.await;
        }
        Err(why) => drop(ended.replace(Some(Err(Broken { why, trouble: trouble() })))),
    }
}

/// A node of two, with its driver.
pub struct Pair {
    pub rt: Rt<Hw>,
    pub mesh: Mesh<Hw>,
    pub sdp: Sdp<Hw>,
    /// The devices that are used, by rail.
    pub contexts: Vec<HwContext>,
    peer: Rank,
    driver: Driver,
    program: Program<Hw>,
}

impl Pair {
    /// Starts this end, whose streams wait so long for the other one.
    pub fn start(
        mut devices: Devices,
        role: Role,
        own: &Introduction,
        theirs: &Introduction,
        waits: Waits,
    ) -> Result<Pair, Failure> {
        let options = options(waits);
        let rails = devices.contexts.len().min(theirs.addresses.len()).min(MOST_RAILS);
        devices.contexts.truncate(rails);
        let (me, peer) = if role == Role::Listener { (0, 1) } else { (1, 0) };
        let names = |rail: usize| vec![format!("listener.{rail}"), format!("caller.{rail}")];
        for (rail, context) in devices.contexts.iter().enumerate() {
            context.name_peer(&names(rail)[peer], theirs.addresses[rail]);
            context.name_peer(&names(rail)[me], devices.addresses[rail]);
        }
        let mut config = MeshConfig::new(Rank::from_index(me as u32), names(0));
        config.other_rails = (1..rails).map(|rail| names(rail).into()).collect();
        (config.port, config.service) = (devices.contexts[0].port(), Service(own.service));
        config.calls = Some(Service(theirs.service));
        config.max_message = options.longest_message();
        config.chunk = 256 * 1024;
        config.traffic_class = devices.traffic_class;
        config.ack_delay = ACK_DELAY;
        config.timeout = AckTimeout::new(ACK_TIMEOUT).unwrap_or(config.timeout);
        config.retry = Retries::new(6).unwrap_or(config.retry);
        let wait = RtConfig { wait: Wait::Notify, spin: devices.spin, ..RtConfig::default() };
        let rt = Rt::over(&devices.contexts, wait).map_err(Failure::unfinished)?;
        let at = devices.addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
        let taken = Address { at: &at, instead: "begin once more, which takes another port" };
        let mesh = Mesh::start(&rt, config).map_err(|why| {
            let refused = if let TransportError::Verbs(refused) = &why { Some(*refused) } else { None };
            Failure::unfinished(taken.why(Service(own.service), refused, why.to_string()))
        })?;
        let sdp = Sdp::start(&rt, &mesh, options).map_err(Failure::unfinished)?;
        let driver = Driver::new(&devices.contexts).map_err(Failure::unfinished)?;
        let program = rt.program();
        let (contexts, peer) = (devices.contexts, Rank::from_index(peer as u32));
        Ok(Pair { rt, mesh, sdp, contexts, peer, driver, program })
    }

    /// Runs work to its end, or until the user wants to stop: then the other end is told, if the two have yet to part. Work that has ended well
    /// says with what, and how they part.
    pub fn run<T: 'static, E: 'static, P: Future<Output = ()> + 'static>(
        mut self,
        work: impl Future<Output = Result<(T, P), E>> + 'static,
    ) -> Result<Result<T, Broken<E>>, Failure> {
        let (ended, rt) = (Rc::new(RefCell::new(None)), self.rt.clone());
        let tell = Rc::clone(&ended);
        let leaves = leave(rt.clone(), self.sdp.clone());
        let parted = Rc::new(Cell::new(false));
        let (parts, trouble) = (Rc::clone(&parted), self.trouble());
        drop(rt.spawn(async move {
            carry_out(work, trouble, &tell).await;
            parts.set(true);
            leaves.await;
        }));
        let stopped = self.driver.run(&mut self.program, interrupt::requested) == Ended::Stopped;
        let interrupted = (stopped && !parted.get()).then(|| {
            let trouble = self.trouble()();
            self.sdp.abort_all();
            drop(rt.spawn(leave(rt.clone(), self.sdp.clone())));
            self.driver.run(&mut self.program, || false);
            Broken { why: "it was interrupted", trouble }
        });
        rt.shutdown();
        ended_with(ended.take(), rt.fatal(), interrupted)
    }

    /// Says why the other end is out of reach, if it is and that is known. What kept the two apart before is of no matter while they are
    /// connected.
    fn trouble(&self) -> impl FnOnce() -> Option<String> + use<> {
        let (mesh, peer, contexts) = (self.mesh.clone(), self.peer, self.contexts.clone());
        move || {
            let of_devices = contexts.iter().flat_map(HwContext::take_troubles).next_back();
            let last = match mesh.troubles().last() {
                Some(last) if last.cause != Cause::Unreachable => Some(words(last, mesh.names())),
                // The devices say more of a peer that does not answer.
                _ => of_devices.map(|(text, _)| text),
            };
            last.filter(|_| mesh.rail(peer).is_none())
        }
    }
}

/// How work has ended. Of work that has not ended well the devices are the reason, where they have ended the node, and else the user, who has
/// interrupted it: how it has ended afterwards is a consequence.
fn ended_with<T, E>(
    ended: Option<Result<T, Broken<E>>>,
    fatal: Option<VerbsError>,
    interrupted: Option<Broken<&str>>,
) -> Result<Result<T, Broken<E>>, Failure> {
    if !matches!(ended, Some(Ok(_))) {
        Failure::of_devices(fatal)?;
        interrupted.map_or(Ok(()), |why| Err(Failure::unfinished(why)))?;
    }
    ended.ok_or_else(|| Failure::unfinished("this node has ended"))
}

#[cfg(test)]
mod tests {
    use super::super::aside::without_node::look;
    use super::*;
    use std::future::{Ready, pending, ready};
    use std::pin::pin;

    #[test]
    fn how_work_has_ended_is_known_before_the_two_ends_part() {
        let ended = RefCell::new(None);
        {
            let mut works = pin!(carry_out(ready(Ok::<_, ()>((7, pending()))), || None, &ended));
            assert!(look(works.as_mut()).is_pending(), "the other end does not answer");
        }
        assert_eq!(ended.take(), Some(Ok(7)));
        let fails = ready(Err::<((), Ready<()>), _>("the stream is closed"));
        let (ended, trouble) = (RefCell::new(None), || Some("no way".to_string()));
        assert!(look(pin!(carry_out(fails, trouble, &ended))).is_ready());
        assert_eq!(ended.take(), Some(Err(Broken { why: "the stream is closed", trouble: trouble() })));
    }

    #[test]
    fn work_that_has_ended_well_has_whatever_ends_its_node_afterwards() {
        let (fatal, interrupted) =
            (|| Some(VerbsError::Invalid("a device")), || Some(Broken::from("interrupted")));
        assert!(matches!(ended_with(Some(Ok::<_, Broken<()>>(7)), fatal(), interrupted()), Ok(Ok(7))));
        let failed = || Some(Err::<(), Broken<&str>>(Broken::from("the stream is closed")));
        for is_under_way in [true, false] {
            let ended = || if is_under_way { None } else { failed() };
            let why = ended_with(ended(), fatal(), interrupted()).expect_err("the devices have ended");
            assert!(why.to_string().contains("this node has ended"), "{why}");
            let why = ended_with(ended(), None, interrupted()).expect_err("the user has ended it");
            assert_eq!(why.to_string(), "interrupted", "not by the peer");
        }
        assert!(ended_with(failed(), None, None).is_ok_and(|same| Some(same) == failed()));
    }
}
