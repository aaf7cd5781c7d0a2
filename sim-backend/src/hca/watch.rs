//! What the engine tells the sanitizer besides its accesses: requests, messages of several packets, refusals.

use super::packet::{Endpoint, Part};
use super::qp::Qp;
use super::requester::wc_op;
use super::{Gather, Hardware, Io, Key, RecvRequest, SendRequest, Sge};
use crate::access::{Access, RegionId, What, Who};
use crate::sanitizer::{Posted, Poster, Side};
use weft_verbs::{Nanos, WcOp};

/// The ranges of a list that lie in regions which are there.
fn ranges(data: &Gather, hw: &Hardware) -> impl Iterator<Item = (RegionId, u32, u32)> {
    let range = |sge: &Sge| Some((hw.memory.get(sge.mr)?.id, sge.at, sge.len));
    data.list().iter().filter_map(range)
}

fn receive(at: Nanos, request: &RecvRequest) -> Posted {
    Posted { at, wr_id: request.wr_id, op: WcOp::Recv, remote: None, len: request.data.len() }
}

impl Hardware {
    /// A receive request is accepted by a shared queue.
    #[inline]
    pub(super) fn watch_shared(&self, at: Nanos, srq: Key, request: &RecvRequest, io: &mut Io<'_>) {
        if let Some(sanitizer) = io.access.sanitizer() {
            sanitizer.shared(self.id, srq, receive(at, request), ranges(&request.data, self));
        }
    }

    /// A shared queue is gone.
    pub(super) fn watch_shared_end(&self, srq: Key, io: &mut Io<'_>) {
        if let Some(sanitizer) = io.access.sanitizer() {
            sanitizer.shared_ended(self.id, srq);
        }
    }
}

impl Qp {
    fn poster(&self, hw: &Hardware) -> Poster {
        Poster { hca: hw.id, key: self.key, num: self.num, peer: self.peer.map(|peer| peer.hca) }
    }

    /// A send request is accepted.
    #[inline]
    pub(super) fn watch_send(
        &self,
        at: Nanos,
        request: &SendRequest,
        len: u64,
        hw: &Hardware,
        io: &mut Io<'_>,
    ) {
        if let Some(sanitizer) = io.access.sanitizer() {
            let (wr_id, op, remote) = (request.wr_id, wc_op(&request.op), request.op.remote());
            let posted = Posted { at, wr_id, op, remote, len };
            sanitizer.posted(self.poster(hw), posted, ranges(&request.data, hw));
        }
    }

    /// A receive request is accepted.
    #[inline]
    pub(super) fn watch_recv(&self, at: Nanos, request: &RecvRequest, hw: &Hardware, io: &mut Io<'_>) {
        if let Some(sanitizer) = io.access.sanitizer() {
            sanitizer.posted(self.poster(hw), receive(at, request), ranges(&request.data, hw));
        }
    }

    /// The oldest receive request of a shared queue is drawn.
    #[inline]
    pub(super) fn watch_draw(&self, srq: Key, hw: &Hardware, io: &mut Io<'_>) {
        if let Some(sanitizer) = io.access.sanitizer() {
            sanitizer.drawn(srq, self.poster(hw));
        }
    }

    /// A packet has landed in the memory of a request of this node, by this side of the queue pair.
    #[inline]
    pub(super) fn watch_scatter(
        &self,
        side: Side,
        part: Part,
        (wr_id, data): (u64, &Gather),
        hw: &Hardware,
        io: &mut Io<'_>,
    ) {
        if io.access.sanitizer().is_none() {
            return;
        }
        let who = Who::Adapter { node: hw.node, qp: self.num, wr_id };
        if part.begins() && !part.ends() {
            for (region, start, len) in ranges(data, hw) {
                self.watch_landing(side, who, (region, u64::from(start), u64::from(len)), io);
            }
        }
        self.watch_landed(side, part, hw, io);
    }

    /// A packet of a peer's write has landed; the whole message goes to this range.
    #[inline]
    pub(super) fn watch_write(
        &self,
        part: Part,
        from: Endpoint,
        whole: (RegionId, u64, u64),
        hw: &Hardware,
        io: &mut Io<'_>,
    ) {
        if io.access.sanitizer().is_none() || part == Part::Only {
            return;
        }
        if part == Part::First {
            self.watch_landing(Side::Responder, self.as_server(hw.node, from, WcOp::Write), whole, io);
        }
        self.watch_landed(Side::Responder, part, hw, io);
    }

    fn watch_landing(
        &self,
        side: Side,
        who: Who,
        (region, start, len): (RegionId, u64, u64),
        io: &mut Io<'_>,
    ) {
        if let Some(sanitizer) = io.access.sanitizer() {
            sanitizer.landing(
                self.key,
                side,
                &Access { at: io.now, who, region, start, len, what: What::Write },
            );
        }
    }

    fn watch_landed(&self, side: Side, part: Part, hw: &Hardware, io: &mut Io<'_>) {
        if part.ends()
            && let Some(sanitizer) = io.access.sanitizer()
        {
            sanitizer.landed(hw.id, self.key, side);
        }
    }

    /// A peer's request was refused for its key, or because the region has gone.
    #[cold]
    pub(super) fn watch_refusal(&self, from: Endpoint, op: WcOp, hw: &Hardware, io: &mut Io<'_>) {
        if let Some(sanitizer) = io.access.sanitizer() {
            sanitizer.refused(hw.id, from, op, io.now);
        }
    }
}
