//! Shared receive queues.

use crate::device::ContextInner;
use crate::ffi::{self, RecvBatch, RecvRoom, refused};
use crate::ledger::{Hold, QueueIndex, Side};
use crate::memory::HwPd;
use crate::queue_pair::{check_ranges, check_sges, raw_sge};
use crate::Hw;
use std::fmt;
use std::rc::Rc;
use weft_verbs::{Caps, PostError, RecvWr, Result, SharedReceiveQueue, SrqId, VerbsError, WcOp};

/// A shared receive queue.
#[derive(Clone)]
pub struct HwSrq(Rc<SrqHandle>);

struct SrqHandle {
    id: u32,
    depth: u32,
    max_sge: u32,
    ledger: QueueIndex,
    /// `None` only while it is being destroyed: before the ledger lets its memory go.
    raw: Option<Rc<ffi::Srq>>,
    pd: HwPd,
}

impl fmt::Debug for HwSrq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HwSrq").field(&self.0.id).finish()
    }
}

impl Drop for SrqHandle {
    fn drop(&mut self) {
        self.raw = None;
        let mut released = Vec::new();
        self.context().ledgers.borrow_mut().close(self.ledger, &mut released);
        drop(released);
    }
}

impl SrqHandle {
    fn context(&self) -> &ContextInner {
        &self.pd.context
    }

    fn raw(&self) -> &Rc<ffi::Srq> {
        self.raw.as_ref().expect("present until the destructor")
    }

    /// Checks one request, writes it down and posts it.
    fn post(&self, wr: &RecvWr<'_, Hw>) -> Result<()> {
        let len = check_sges(&self.pd, wr.data, self.max_sge, |_| ())?;
        check_ranges(wr.data)?;
        let hold = Hold::new(wr.data);
        let ledgers = &self.context().ledgers;
        let name = {
            let mut ledgers = ledgers.borrow_mut();
            let (place, name) = ledgers.post(self.ledger, Side::Shared)?;
            place.fill(wr.wr_id, WcOp::Recv, len, hold);
            name
        };
        let mut room = RecvRoom::new();
        let mut batch = RecvBatch::new(&mut room);
        batch.push(name, wr.data.iter().map(raw_sge));
        let Err((_, errno)) = batch.post_shared(self.raw()) else { return Ok(()) };
        let mut released = Vec::new();
        ledgers.borrow_mut().retract_shared(self.ledger, name, &mut released);
        drop(released);
        Err(match errno.abs() {
            libc::ENOMEM => VerbsError::QueueFull { queue: "receive", depth: self.depth },
            other => refused("ibv_post_srq_recv", other),
        })
    }
}

impl HwSrq {
    pub(crate) fn create(pd: &HwPd, max_wr: u32, max_sge: u32) -> Result<HwSrq> {
        let context = &pd.context;
        let limits = &context.limits;
        if limits.max_srq == 0 {
            return Err(VerbsError::Unsupported(Caps::SRQ));
        }
        let bounded = |what, value: u32, bound: u32| {
            let error = VerbsError::TooLarge { what, value: value.into(), bound: bound.into() };
            if value > bound { Err(error) } else { Ok(()) }
        };
        bounded("the number of receive requests", max_wr, limits.max_srq_wr)?;
        bounded("the number of scatter entries", max_sge, context.attr().max_sge)?;
        if max_wr == 0 {
            return Err(VerbsError::Invalid("a shared receive queue needs room for one request at least"));
        }
        let id = context.fresh_id();
        let raw = Some(Rc::new(ffi::Srq::create(&pd.raw, max_wr, max_sge, id)?));
        let ledger = context.ledgers.borrow_mut().open_shared(max_wr)?;
        Ok(HwSrq(Rc::new(SrqHandle { id, depth: max_wr, max_sge, ledger, raw, pd: pd.clone() })))
    }

    pub(crate) fn raw(&self) -> &Rc<ffi::Srq> {
        self.0.raw()
    }
}

impl SharedReceiveQueue<Hw> for HwSrq {
    fn id(&self) -> SrqId {
        SrqId(self.0.id)
    }

    fn post_recv(&self, list: &[RecvWr<'_, Hw>]) -> std::result::Result<(), PostError> {
        for (posted, wr) in list.iter().enumerate() {
            self.0.post(wr).map_err(|why| PostError { posted, why })?;
        }
        Ok(())
    }

    fn arm_limit(&self, limit: u32) -> Result<()> {
        let bound = u64::from(self.0.depth);
        if u64::from(limit) > bound {
            return Err(VerbsError::TooLarge { what: "the limit", value: limit.into(), bound });
        }
        self.0.raw().arm_limit(limit)
    }
}
