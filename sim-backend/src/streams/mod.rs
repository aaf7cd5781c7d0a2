//! Byte streams between machines, beside the fabric: what TCP is to its users, as a state machine without I/O.
//!
//! Calls of programs, segments and the passing of time go in; segments and news of readiness come out, in
//! [`Actions`]. Segments may be lost, doubled, late and out of order.
//!
//! - A stream is opened by asking (`Ask`) and accepting (`Accept`). A machine on whose service nobody listens refuses.
//! - Each direction is a sequence of bytes and, at most, an end. Every segment says how far its sender has received
//!   and up to which position it has room, so a writer waits for its reader.
//! - What is not acknowledged is sent again from there on, after a time-out that doubles each time; after so many in
//!   vain, the stream fails. A window that is closed is asked about by the same timer.
//! - A stream that is dropped sends what was written and ends. With bytes unread it is reset instead, and so is a peer
//!   that goes on writing to it (RFC 9293, 3.10.4; RFC 1122, 4.2.2.13).
//! - A machine that crashes says nothing. It answers with a reset once it is there again.
//!
//! Not modelled: congestion control, slow start, delayed acknowledgements, urgent data, keep-alives; a name of a stream
//! is never used twice, so old segments do no harm.
//!
//! # Why not a library
//!
//! `turmoil-net` 0.1 has a complete stack, and cannot stand here. `Net::enter` moves a network into the thread, panics
//! if there is one already, and its guard's drop destroys it: a thread could hold one world, where it may hold many. A
//! `Net` is neither `Clone` nor free of wakers, and so is no part of a state that is taken and put back. It counts
//! `EnterGuard::egress_all` calls as its clock for retransmission, which in a loop driven by events would end a stream
//! while its segments are under way. And a host, once added, cannot crash.

mod end;
mod segment;
#[cfg(test)]
mod tests;

pub use end::Ready;
pub use segment::{EndId, Kind, Segment};

use crate::NodeId;
use end::End;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use weft_verbs::{Nanos, Result, Service, VerbsError};

/// Most streams that wait to be accepted at a listener; further requests are not answered.
const BACKLOG: usize = 128;

/// What all streams have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most bytes of a segment.
    pub segment: usize,
    /// The first time-out; it doubles each time.
    pub timeout: Nanos,
    /// How often to send again before giving up.
    pub retries: u8,
}

/// What a call wants done.
#[derive(Debug, Default)]
pub struct Actions {
    /// Segments to send.
    pub segments: Vec<Segment>,
    /// Streams and listeners that have become ready.
    pub ready: Vec<(EndId, Ready)>,
    /// Streams whose deadline may have moved.
    pub timers: Vec<EndId>,
}

#[derive(Clone, Debug)]
struct Listener {
    node: NodeId,
    service: Service,
    waiting: VecDeque<EndId>,
}

/// Every stream of a world, as plain data.
#[derive(Clone, Debug)]
pub struct Streams {
    settings: Settings,
    /// Names of streams and listeners, of all machines.
    next: u32,
    ends: BTreeMap<EndId, End>,
    listeners: BTreeMap<EndId, Listener>,
    /// Streams that were accepted, by the name that the asking side gave them.
    answered: BTreeMap<EndId, EndId>,
    /// Names below this one died with their machine.
    dead_below: BTreeMap<NodeId, EndId>,
}

impl Streams {
    /// No streams yet.
    pub fn new(settings: Settings) -> Streams {
        Streams {
            settings,
            next: 0,
            ends: BTreeMap::new(),
            listeners: BTreeMap::new(),
            answered: BTreeMap::new(),
            dead_below: BTreeMap::new(),
        }
    }

    /// How many streams and listeners of a machine there are.
    pub fn alive(&self, node: NodeId) -> u32 {
        let ends = self.ends.values().filter(|end| end.node == node).count();
        let listeners = self.listeners.values().filter(|listener| listener.node == node).count();
        (ends + listeners) as u32
    }

    /// The machine of a stream or listener.
    pub fn node_of(&self, id: EndId) -> Option<NodeId> {
        let listener = || self.listeners.get(&id).map(|listener| listener.node);
        self.ends.get(&id).map(|end| end.node).or_else(listener)
    }

    fn new_name(&mut self) -> EndId {
        self.next += 1;
        EndId(self.next)
    }

    // Calls of programs.

    /// Takes requests for a service from now on.
    pub fn listen(&mut self, node: NodeId, service: Service) -> Result<EndId> {
        if self.listener(node, service).is_some() {
            return Err(VerbsError::Busy("the service"));
        }
        let id = self.new_name();
        self.listeners.insert(id, Listener { node, service, waiting: VecDeque::new() });
        Ok(id)
    }

    fn listener(&self, node: NodeId, service: Service) -> Option<EndId> {
        let mut all = self.listeners.iter();
        all.find(|(_, l)| (l.node, l.service) == (node, service)).map(|(id, _)| *id)
    }

    /// The next stream of a listener, if there is one.
    pub fn accept(&mut self, listener: EndId) -> io::Result<Option<EndId>> {
        let found = self.listeners.get_mut(&listener).ok_or(io::ErrorKind::NotConnected)?;
        Ok(found.waiting.pop_front())
    }

    /// Nobody listens any more. Streams that nobody accepted are reset.
    pub fn close_listener(&mut self, listener: EndId, out: &mut Actions) {
        if let Some(listener) = self.listeners.remove(&listener) {
            for id in listener.waiting {
                self.with(id, |end| end.reset(out));
                self.forget(id);
            }
        }
    }

    /// Begins to connect with a service of a machine.
    pub fn connect(
        &mut self,
        now: Nanos,
        (node, peer): (NodeId, NodeId),
        service: Service,
        out: &mut Actions,
    ) -> EndId {
        let id = self.new_name();
        let mut end = End::asking(id, (node, peer), service);
        end.ask(now, &self.settings, out);
        self.ends.insert(id, end);
        id
    }

    /// Reads what is there; `None` where nothing is yet.
    pub fn read(&mut self, id: EndId, into: &mut [u8], out: &mut Actions) -> io::Result<Option<usize>> {
        self.ends.get_mut(&id).ok_or(io::ErrorKind::NotConnected)?.read(into, out)
    }

    /// Takes what there is room for; `None` where there is none.
    pub fn write(
        &mut self,
        now: Nanos,
        id: EndId,
        bytes: &[u8],
        out: &mut Actions,
    ) -> io::Result<Option<usize>> {
        let end = self.ends.get_mut(&id).ok_or(io::ErrorKind::NotConnected)?;
        end.write(now, bytes, &self.settings, out)
    }

    /// Ends the sending direction.
    pub fn shutdown(&mut self, now: Nanos, id: EndId, out: &mut Actions) -> io::Result<()> {
        let end = self.ends.get_mut(&id).ok_or(io::ErrorKind::NotConnected)?;
        end.shutdown(now, &self.settings, out)
    }

    /// A program dropped a stream: what was written is sent yet.
    pub fn close(&mut self, now: Nanos, id: EndId, out: &mut Actions) {
        let settings = self.settings;
        self.with(id, |end| end.close(now, &settings, out));
        self.sweep(id);
    }

    // What comes from outside.

    /// A segment has arrived.
    pub fn on_segment(&mut self, now: Nanos, segment: Segment, out: &mut Actions) {
        if let Kind::Ask { service } = segment.kind {
            return self.on_ask(service, &segment, out);
        }
        let Some(end) = segment.to.and_then(|id| self.ends.get_mut(&id)) else {
            return self.answer_for_nobody(&segment, out);
        };
        let id = end.id;
        end.on_segment(now, segment, &self.settings, out);
        self.sweep(id);
    }

    fn on_ask(&mut self, service: Service, segment: &Segment, out: &mut Actions) {
        let (node, peer, theirs) = (segment.at_node, segment.from_node, segment.from);
        if let Some(&id) = self.answered.get(&theirs) {
            // Its acceptance was lost, perhaps.
            return self.with(id, |end| end.tell(Kind::Accept, out));
        }
        let Some(listener) = self.listener(node, service) else {
            return out.segments.push(segment.refusal());
        };
        if self.listeners[&listener].waiting.len() >= BACKLOG {
            return;
        }
        let id = self.new_name();
        let mut end = End::accepting(id, (node, peer), theirs, segment.room);
        end.tell(Kind::Accept, out);
        self.ends.insert(id, end);
        self.answered.insert(theirs, id);
        if let Some(listener) = self.listeners.get_mut(&listener) {
            listener.waiting.push_back(id);
        }
        out.ready.push((listener, Ready::Accept));
    }

    /// A segment for a stream that is not there. One that was closed in peace confirms its peer's end; anything else is
    /// reset.
    fn answer_for_nobody(&self, segment: &Segment, out: &mut Actions) {
        if segment.kind == Kind::Accept {
            return out.segments.push(segment.refusal());
        }
        if segment.kind != Kind::Data || !segment.asks {
            return;
        }
        let died = self.dead_below.get(&segment.at_node).zip(segment.to).is_some_and(|(dead, to)| to < *dead);
        let peaceful = !died && segment.bytes.is_empty();
        out.segments.push(if peaceful { segment.confirmation() } else { segment.refusal() });
    }

    /// The moment that [`Streams::timer_to_set`] named has come.
    pub fn on_timer(&mut self, now: Nanos, id: EndId, out: &mut Actions) {
        let settings = self.settings;
        self.with(id, |end| {
            end.timer_set = Nanos::MAX;
            end.on_timer(now, &settings, out);
            out.timers.push(id);
        });
        self.sweep(id);
    }

    /// When [`Streams::on_timer`] is to be called for a stream, if that is before the moment that was named last.
    pub fn timer_to_set(&mut self, id: EndId) -> Option<Nanos> {
        let end = self.ends.get_mut(&id).filter(|end| end.deadline < end.timer_set)?;
        end.timer_set = end.deadline;
        Some(end.deadline)
    }

    /// A machine crashed: its streams and listeners are gone, and nobody is told.
    pub fn crash(&mut self, node: NodeId) {
        self.ends.retain(|_, end| end.node != node);
        self.listeners.retain(|_, listener| listener.node != node);
        let ends = &self.ends;
        self.answered.retain(|_, id| ends.contains_key(id));
        self.dead_below.insert(node, EndId(self.next + 1));
    }

    fn with(&mut self, id: EndId, f: impl FnOnce(&mut End)) {
        if let Some(end) = self.ends.get_mut(&id) {
            f(end);
        }
    }

    /// Forgets a stream that its program has dropped, once nothing more is to be done for it.
    fn sweep(&mut self, id: EndId) {
        if self.ends.get(&id).is_some_and(End::is_over) {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: EndId) {
        if let Some(end) = self.ends.remove(&id)
            && let Some(asker) = end.asked_by
        {
            self.answered.remove(&asker);
        }
    }
}
