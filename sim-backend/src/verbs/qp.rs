//! Queue pairs: from the contract's borrowed work requests to the adapter's own.

use super::{Place, Sim, SimCq, SimMr, SimPd, SimSrq, on_drop};
use crate::NodeId;
use crate::hca::{self, Atomic, Gather, Key, NewQp, Op, RecvRequest, Remote, SendRequest};
use crate::world::World;
use std::fmt;
use std::rc::Rc;
use weft_verbs::{
    Modify, Payload, PostError, QpAttr, QpCaps, QpInit, QpNum, QpState, QueuePair, RecvWr, RemoteSlice,
    Result, SendOp, SendWr, Sge, VerbsError,
};

/// A queue pair of a simulated adapter.
#[derive(Clone)]
pub struct SimQp(pub(crate) Rc<QpHandle>);

pub(crate) struct QpHandle {
    place: Place,
    pd: SimPd,
    pub(crate) key: Key,
    num: QpNum,
    caps: QpCaps,
    /// Keep the completion queues alive as long as the queue pair may report to them.
    _cqs: (SimCq, SimCq),
    /// The same for the shared receive queue.
    _srq: Option<SimSrq>,
}

impl fmt::Debug for SimQp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimQp").field(&self.0.num).finish()
    }
}

impl Drop for QpHandle {
    fn drop(&mut self) {
        let (hca, key) = (self.place.hca, self.key);
        on_drop(&self.place.world, move |w| w.destroy_qp(hca, key));
    }
}

impl QpHandle {
    pub(super) fn create(pd: &SimPd, init: &QpInit<'_, Sim>) -> Result<SimQp> {
        let ctx = &pd.0.place;
        if init.srq.is_some_and(|srq| !srq.0.place.is_that_of(ctx)) {
            return Err(VerbsError::Foreign("the shared receive queue"));
        }
        if !init.send_cq.0.place.is_that_of(ctx) || !init.recv_cq.0.place.is_that_of(ctx) {
            return Err(VerbsError::Foreign("the completion queue"));
        }
        let new = NewQp {
            kind: init.kind,
            pd: pd.0.key,
            send_cq: init.send_cq.0.key,
            recv_cq: init.recv_cq.0.key,
            srq: init.srq.map(|srq| srq.0.key),
            caps: init.caps,
            sq_sig_all: init.sq_sig_all,
        };
        let &Place { ref world, node, hca, ctx: of } = ctx;
        let (key, num) = world.borrow_mut().call(move |world| world.create_qp(node, hca, of, new))?;
        let cqs = (init.send_cq.clone(), init.recv_cq.clone());
        Ok(SimQp(Rc::new(QpHandle {
            place: ctx.clone(),
            pd: pd.clone(),
            key,
            num,
            caps: init.caps,
            _cqs: cqs,
            _srq: init.srq.cloned(),
        })))
    }
}

impl SimQp {
    pub(super) fn place(&self) -> &Place {
        &self.0.place
    }

    fn send_request(&self, wr: &SendWr<'_, Sim>, caps: &QpCaps) -> Result<SendRequest> {
        let op = self.op(&wr.op)?;
        let data = match wr.data {
            Payload::None | Payload::Inline(_) => Gather::None,
            Payload::Sge(list) => gather(&self.0.place, list, caps.max_send_sge)?,
        };
        let inline = inline_data(&wr.data);
        if inline.len() > caps.max_inline as usize {
            return Err(VerbsError::TooLarge {
                what: "the length of the inline data",
                value: inline.len() as u64,
                bound: u64::from(caps.max_inline),
            });
        }
        check_payload(&op, &data, matches!(wr.data, Payload::Inline(_)))?;
        Ok(SendRequest { wr_id: wr.wr_id, op, data, flags: wr.flags })
    }

    fn op(&self, op: &SendOp<'_, Sim>) -> Result<Op> {
        let aim = |r: RemoteSlice| Remote { addr: r.addr, rkey: r.rkey };
        Ok(match *op {
            SendOp::Send { imm } => Op::Send { imm },
            SendOp::SendTo { ah, .. } if !ah.is_of(&self.0.pd) => {
                return Err(VerbsError::Foreign("the address handle"));
            }
            SendOp::SendTo { imm, ah, qp, qkey } => Op::Datagram { to: ah.address(), qp, qkey, imm },
            SendOp::Write { to, imm } => Op::Write { to: aim(to), imm },
            SendOp::Read { from } => Op::Read { from: aim(from) },
            SendOp::CompareSwap { at, compare, swap } => {
                Op::Atomic { at: aim(at), atomic: Atomic::CompareSwap { compare, swap } }
            }
            SendOp::FetchAdd { at, add } => Op::Atomic { at: aim(at), atomic: Atomic::FetchAdd { add } },
        })
    }

    /// Posts a list one by one until one is refused.
    fn post<'a, W>(
        &self,
        list: &'a [W],
        mut one: impl FnMut(&mut World, bool, &'a W) -> Result<()>,
    ) -> std::result::Result<(), PostError> {
        let mut world = self.0.place.world.borrow_mut();
        for (posted, wr) in list.iter().enumerate() {
            one(&mut world, posted == 0, wr).map_err(|why| PostError { posted, why })?;
        }
        Ok(())
    }
}

/// The bytes that a request brings along itself.
fn inline_data<'a>(data: &Payload<'a, SimMr>) -> &'a [u8] {
    match *data {
        Payload::Inline(bytes) => bytes,
        Payload::None | Payload::Sge(_) => &[],
    }
}

/// A program learns whether its request was accepted.
fn seen(world: &mut World, node: NodeId, answer: Result<()>) -> Result<()> {
    world.saw(node, &answer.is_ok());
    answer
}

/// The adapter's form of a scatter or gather list. Regions of another context are refused here; those of another
/// protection domain are found by the adapter when it executes the request, as on a real one.
pub(super) fn gather(place: &Place, list: &[Sge<'_, SimMr>], most: u32) -> Result<Gather> {
    if list.len() > most as usize {
        return Err(VerbsError::TooLarge {
            what: "the number of scatter or gather entries",
            value: list.len() as u64,
            bound: u64::from(most),
        });
    }
    if list.iter().any(|sge| !sge.mr.0.place.is_that_of(place)) {
        return Err(VerbsError::Foreign("the memory region"));
    }
    if list.iter().any(|sge| sge.mr.0.revoked.get()) {
        return Err(VerbsError::Invalid("the memory region was deregistered"));
    }
    let data = Gather::new(list.iter().map(|s| hca::Sge { mr: s.mr.0.key, at: s.at, len: s.len }));
    if data.len() > u64::from(hca::MAX_MESSAGE) {
        let (value, bound) = (data.len(), u64::from(hca::MAX_MESSAGE));
        return Err(VerbsError::TooLarge { what: "the payload's length", value, bound });
    }
    Ok(data)
}

/// What no adapter could execute is refused at once: it is a mistake in the program, not an event.
fn check_payload(op: &Op, data: &Gather, inline: bool) -> Result<()> {
    match op {
        Op::Read { .. } | Op::Atomic { .. } if inline => {
            Err(VerbsError::Invalid("inline data cannot take an answer"))
        }
        Op::Atomic { .. } if data.len() != 8 || data.entries() != 1 => {
            Err(VerbsError::Invalid("an atomic's old value needs one range of 8 bytes"))
        }
        _ => Ok(()),
    }
}

impl QueuePair<Sim> for SimQp {
    fn num(&self) -> QpNum {
        self.0.num
    }

    fn state(&self) -> QpState {
        self.query().map_or(QpState::Err, |attr| attr.state)
    }

    fn query(&self) -> Result<QpAttr> {
        let ctx = &self.0.place;
        let (hca, key) = (ctx.hca, self.0.key);
        ctx.world.borrow_mut().call(move |world| world.qp_attr(hca, key))
    }

    fn modify(&self, change: &Modify) -> Result<()> {
        let &Place { ref world, node, hca, .. } = &self.0.place;
        let (key, change) = (self.0.key, *change);
        world.borrow_mut().call(move |world| world.modify_qp(node, hca, key, &change))
    }

    fn post_send(&self, list: &[SendWr<'_, Sim>]) -> std::result::Result<(), PostError> {
        let &Place { node, hca, .. } = &self.0.place;
        let (key, caps) = (self.0.key, self.0.caps);
        self.post(list, |world, first, wr| {
            let inline = inline_data(&wr.data);
            world.call_with(self.send_request(wr, &caps), inline, move |world, request, inline| {
                let post = |request| world.post_send(node, hca, key, first, request, inline);
                let answer = request.and_then(post);
                seen(world, node, answer)
            })
        })
    }

    fn post_recv(&self, list: &[RecvWr<'_, Sim>]) -> std::result::Result<(), PostError> {
        let &Place { node, hca, .. } = &self.0.place;
        let (key, caps) = (self.0.key, self.0.caps);
        self.post(list, |world, first, wr| {
            let data = gather(&self.0.place, wr.data, caps.max_recv_sge);
            let request = data.map(|data| RecvRequest { wr_id: wr.wr_id, data });
            world.call_with(request, &[], move |world, request, _| {
                let answer = request.and_then(|request| world.post_recv(node, hca, key, first, request));
                seen(world, node, answer)
            })
        })
    }
}
