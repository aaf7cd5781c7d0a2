//! One end of a stream.

use super::{Actions, EndId, Kind, Segment, Settings};
use crate::NodeId;
use std::collections::VecDeque;
use std::io;
use weft_verbs::{Nanos, Service};

/// Most bytes that an end holds for its reader, and most that it holds unacknowledged for its writer.
pub(super) const ROOM: usize = 64 * 1024;

/// What an end has become ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ready {
    /// A listener has a stream to accept.
    Accept,
    /// Bytes, an end or an error can be read.
    Read,
    /// Bytes can be written, or an error be seen.
    Write,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// It asked, and has no answer.
    Asking { service: Service },
    /// It stands.
    Open { peer: EndId },
    /// It failed, and why.
    Failed(io::ErrorKind),
}

#[derive(Clone, Debug)]
pub(super) struct End {
    pub id: EndId,
    pub node: NodeId,
    peer: NodeId,
    pub state: State,
    /// The name that the peer gave it, where the peer asked for it.
    pub asked_by: Option<EndId>,
    /// Its program has dropped it.
    dropped: bool,
    /// When to send again, or give up; `MAX` is never.
    pub deadline: Nanos,
    /// When its next entry in the caller's queue is.
    pub timer_set: Nanos,
    /// How often that came in vain.
    tries: u8,

    /// Written bytes from `acked` on.
    out: VecDeque<u8>,
    /// The peer has everything before this position.
    acked: u64,
    /// The next position to send.
    next: u64,
    /// The peer has room for everything before this position.
    limit: u64,
    /// The program has ended this direction, and the peer knows.
    ended: bool,
    end_acked: bool,

    /// Bytes to be read.
    read: VecDeque<u8>,
    /// Everything before this position was received.
    taken: u64,
    /// What the peer was last told to have room for.
    told: u64,
    /// The peer has ended its direction.
    peer_ended: bool,
}

impl End {
    fn new(id: EndId, (node, peer): (NodeId, NodeId), state: State) -> End {
        End {
            id,
            node,
            peer,
            state,
            asked_by: None,
            dropped: false,
            deadline: Nanos::MAX,
            timer_set: Nanos::MAX,
            tries: 0,
            out: VecDeque::new(),
            acked: 0,
            next: 0,
            limit: 0,
            ended: false,
            end_acked: false,
            read: VecDeque::new(),
            taken: 0,
            told: 0,
            peer_ended: false,
        }
    }

    /// An end that is about to ask.
    pub fn asking(id: EndId, nodes: (NodeId, NodeId), service: Service) -> End {
        End::new(id, nodes, State::Asking { service })
    }

    /// An end that was asked for, by a peer with room for so much.
    pub fn accepting(id: EndId, nodes: (NodeId, NodeId), peer: EndId, limit: u64) -> End {
        End { limit, asked_by: Some(peer), ..End::new(id, nodes, State::Open { peer }) }
    }

    /// Whether nothing more is to be done for it.
    pub fn is_over(&self) -> bool {
        self.dropped && (self.end_acked || matches!(self.state, State::Failed(_)))
    }

    // Calls of its program.

    pub fn ask(&mut self, now: Nanos, settings: &Settings, out: &mut Actions) {
        if let State::Asking { service } = self.state {
            self.tell(Kind::Ask { service }, out);
            self.set_timer(now, settings, out);
        }
    }

    pub fn read(&mut self, into: &mut [u8], out: &mut Actions) -> io::Result<Option<usize>> {
        match self.state {
            State::Failed(why) => return Err(why.into()),
            State::Asking { .. } => return Ok(None),
            State::Open { .. } => {}
        }
        if into.is_empty() || (self.read.is_empty() && self.peer_ended) {
            return Ok(Some(0));
        }
        if self.read.is_empty() {
            return Ok(None);
        }
        let n = into.len().min(self.read.len());
        for (to, byte) in into.iter_mut().zip(self.read.drain(..n)) {
            *to = byte;
        }
        // A writer that may be waiting for room is told once half of it is free.
        if self.room() >= self.told + ROOM as u64 / 2 {
            self.tell(Kind::Data, out);
        }
        Ok(Some(n))
    }

    pub fn write(
        &mut self,
        now: Nanos,
        bytes: &[u8],
        settings: &Settings,
        out: &mut Actions,
    ) -> io::Result<Option<usize>> {
        match self.state {
            State::Failed(why) => return Err(why.into()),
            State::Asking { .. } => return Ok(None),
            State::Open { .. } if self.ended => return Err(io::ErrorKind::BrokenPipe.into()),
            State::Open { .. } => {}
        }
        let n = bytes.len().min(ROOM - self.out.len());
        if n == 0 && !bytes.is_empty() {
            return Ok(None);
        }
        self.out.extend(&bytes[..n]);
        self.pump(now, settings, out);
        Ok(Some(n))
    }

    pub fn shutdown(&mut self, now: Nanos, settings: &Settings, out: &mut Actions) -> io::Result<()> {
        if let State::Failed(why) = self.state {
            return Err(why.into());
        }
        self.ended = true;
        self.pump(now, settings, out);
        Ok(())
    }

    pub fn close(&mut self, now: Nanos, settings: &Settings, out: &mut Actions) {
        self.dropped = true;
        match self.state {
            State::Failed(_) => {}
            State::Open { .. } if self.read.is_empty() => {
                self.ended = true;
                self.pump(now, settings, out);
            }
            // Nothing was written to one that does not stand yet; or something is lost to its reader.
            State::Asking { .. } => self.fail(io::ErrorKind::ConnectionAborted, out),
            State::Open { .. } => self.reset(out),
        }
    }

    /// Ends it at once, here and at the peer.
    pub fn reset(&mut self, out: &mut Actions) {
        self.tell(Kind::Reset, out);
        self.fail(io::ErrorKind::ConnectionReset, out);
    }

    // Sending.

    /// Where this direction ends, as far as it was written.
    fn written(&self) -> u64 {
        self.acked + self.out.len() as u64
    }

    /// Up to which position there is room for the peer's bytes.
    fn room(&self) -> u64 {
        self.taken + (ROOM - self.read.len()) as u64
    }

    /// Sends a segment without bytes.
    pub fn tell(&mut self, kind: Kind, out: &mut Actions) {
        let segment = self.segment(kind, Vec::new(), (false, false));
        out.segments.push(segment);
    }

    fn segment(&mut self, kind: Kind, bytes: Vec<u8>, (last, asks): (bool, bool)) -> Segment {
        self.told = self.room();
        let to = if let State::Open { peer } = self.state { Some(peer) } else { None };
        let (from_node, at_node) = (self.node, self.peer);
        let (at, taken, room) = (self.next, self.taken, self.told);
        Segment { from_node, from: self.id, at_node, to, kind, at, bytes, last, asks, taken, room }
    }

    /// Sends what there is and the peer has room for.
    fn pump(&mut self, now: Nanos, settings: &Settings, out: &mut Actions) {
        let State::Open { .. } = self.state else { return };
        loop {
            let written = self.written();
            let till = written.min(self.limit).min(self.next + settings.segment as u64);
            let skip = (self.next - self.acked).min(self.out.len() as u64) as usize;
            let len = till.saturating_sub(self.next) as usize;
            let last = self.ended && !self.end_acked && self.next + len as u64 == written;
            if len == 0 && !last {
                break;
            }
            let bytes = self.out.range(skip..skip + len).copied().collect();
            let segment = self.segment(Kind::Data, bytes, (last, true));
            self.next = segment.end();
            out.segments.push(segment);
        }
        if self.deadline == Nanos::MAX && self.owes() {
            self.set_timer(now, settings, out);
        }
    }

    /// Whether something waits for the peer: an acknowledgement, or room.
    fn owes(&self) -> bool {
        !self.out.is_empty() || (self.ended && !self.end_acked)
    }

    fn set_timer(&mut self, now: Nanos, settings: &Settings, out: &mut Actions) {
        self.deadline = now + settings.timeout * (1 << self.tries.min(16));
        out.timers.push(self.id);
    }

    pub fn on_timer(&mut self, now: Nanos, settings: &Settings, out: &mut Actions) {
        if now < self.deadline {
            return;
        }
        self.deadline = Nanos::MAX;
        if self.tries >= settings.retries {
            return self.fail(io::ErrorKind::TimedOut, out);
        }
        self.tries += 1;
        self.ask(now, settings, out);
        if let State::Open { .. } = self.state {
            self.next = self.acked;
            let before = out.segments.len();
            self.pump(now, settings, out);
            if out.segments.len() == before && self.owes() {
                // The window is closed: is it still?
                let probe = self.segment(Kind::Data, Vec::new(), (false, true));
                out.segments.push(probe);
                self.set_timer(now, settings, out);
            }
        }
    }

    // Receiving.

    pub fn on_segment(&mut self, now: Nanos, segment: Segment, settings: &Settings, out: &mut Actions) {
        match (segment.kind, self.state) {
            (_, State::Failed(_)) | (Kind::Ask { .. }, _) => {}
            (Kind::Reset, State::Asking { .. }) => self.fail(io::ErrorKind::ConnectionRefused, out),
            (Kind::Accept, State::Asking { .. }) => {
                self.state = State::Open { peer: segment.from };
                (self.limit, self.tries, self.deadline) = (segment.room, 0, Nanos::MAX);
                out.ready.push((self.id, Ready::Write));
                self.pump(now, settings, out);
            }
            (_, State::Asking { .. }) => {}
            (_, State::Open { peer }) if peer != segment.from => {
                if segment.kind != Kind::Reset {
                    out.segments.push(segment.refusal());
                }
            }
            (Kind::Reset, State::Open { .. }) => self.fail(io::ErrorKind::ConnectionReset, out),
            (Kind::Accept, State::Open { .. }) => {}
            (Kind::Data, State::Open { .. }) => self.on_data(now, segment, settings, out),
        }
    }

    fn on_data(&mut self, now: Nanos, segment: Segment, settings: &Settings, out: &mut Actions) {
        self.on_acknowledgement(now, &segment, settings, out);
        let new = segment.at <= self.taken && segment.end() > self.taken;
        if new && self.dropped && !segment.bytes.is_empty() {
            return self.reset(out);
        }
        if new {
            let known = (self.taken - segment.at) as usize;
            self.read.extend(segment.bytes.iter().skip(known));
            self.taken = segment.end();
            self.peer_ended |= segment.last;
            out.ready.push((self.id, Ready::Read));
        }
        if segment.asks {
            self.tell(Kind::Data, out);
        }
        self.pump(now, settings, out);
    }

    fn on_acknowledgement(&mut self, now: Nanos, segment: &Segment, settings: &Settings, out: &mut Actions) {
        let written = self.written();
        let upto = segment.taken.min(written);
        let end_acked = self.ended && segment.taken > written && !self.end_acked;
        if segment.room > self.limit {
            self.limit = segment.room;
        }
        if upto > self.acked || end_acked {
            self.out.drain(..(upto - self.acked) as usize);
            self.acked = upto;
            self.next = self.next.max(upto);
            self.end_acked |= end_acked;
            self.tries = 0;
            self.deadline = Nanos::MAX;
            if self.owes() {
                self.set_timer(now, settings, out);
            }
            out.ready.push((self.id, Ready::Write));
        } else if self.limit <= self.acked {
            // It has no room, but it is there.
            self.tries = 0;
        }
    }

    fn fail(&mut self, why: io::ErrorKind, out: &mut Actions) {
        self.state = State::Failed(why);
        self.deadline = Nanos::MAX;
        self.out.clear();
        self.read.clear();
        out.ready.push((self.id, Ready::Read));
        out.ready.push((self.id, Ready::Write));
    }
}
