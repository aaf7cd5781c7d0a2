//! A shared receive queue as tasks use it: buffers that messages of many queue pairs fill (IBA 10.2.9).
//!
//! Requests of one queue pair end in order; those of a shared queue do not, since each queue pair ends what it has drawn. So its ledger
//! is a set. Who is told of a message is told by which queue pair it came.

use super::Rt;
use super::ledger::{QueueId, Side};
use super::slots::{BufferGuard, CompletionSink, Posted, Target};
use std::rc::Rc;
use weft_verbs::{ProtectionDomain, RecvWr, Result, SharedReceiveQueue, Verbs, WcOp};

struct Inner<V: Verbs> {
    rt: Rt<V>,
    /// Taken only by the destructor, which must destroy the queue before the guards end.
    srq: Option<V::Srq>,
    id: QueueId,
    /// The completion queue of all that is received by it, with room for all of it.
    cq: usize,
    handle: V::Cq,
    depth: u32,
}

/// A shared receive queue with its ledger. Clones are the same one; queue pairs that draw from it keep it.
pub struct SharedReceives<V: Verbs>(Rc<Inner<V>>);

impl<V: Verbs> Clone for SharedReceives<V> {
    fn clone(&self) -> Self {
        SharedReceives(Rc::clone(&self.0))
    }
}

impl<V: Verbs> SharedReceives<V> {
    pub(super) fn create(rt: &Rt<V>, pd: &V::Pd, depth: u32) -> Result<SharedReceives<V>> {
        let (cq, handle) = rt.reserve_cq(depth)?;
        let srq = pd.create_srq(depth, 1).inspect_err(|_| rt.release_cq(cq, depth, false))?;
        let id = rt.inner.requests.borrow_mut().ledgers.open();
        Ok(SharedReceives(Rc::new(Inner { rt: rt.clone(), srq: Some(srq), id, cq, handle, depth })))
    }

    pub(super) fn srq(&self) -> &V::Srq {
        self.0.srq.as_ref().expect("present until the destructor")
    }

    /// Where completions of what it receives are.
    pub(super) fn cq(&self) -> &V::Cq {
        &self.0.handle
    }

    /// Which of the runtime's completion queues that is.
    pub(super) fn cq_index(&self) -> usize {
        self.0.cq
    }

    /// How many buffers are posted and not filled.
    #[cfg(test)]
    pub fn posted(&self) -> usize {
        self.0.rt.inner.requests.borrow().ledgers.shared(self.0.id)
    }

    /// Posts a buffer. The sink is told when a message has filled it, or when it was flushed by the queue pair that drew it: the tag is that
    /// queue pair's number.
    ///
    /// # Errors
    ///
    /// The device refused it: it has no more room, or is gone.
    pub fn post(&self, sink: &CompletionSink<V>, guard: BufferGuard<V>) -> Result<()> {
        let Inner { rt, id, .. } = &*self.0;
        let requests = &rt.inner.requests;
        let wr_id = requests.borrow_mut().slots.next_id();
        let sge = guard.sge().map(|sge| [sge]);
        let data = sge.as_ref().map_or(&[][..], |sge| &sge[..]);
        self.srq().post_recv(&[RecvWr { wr_id, data }]).map_err(|refused| refused.why)?;
        let mut requests = requests.borrow_mut();
        let target = Target::Sink(sink.clone(), 0);
        requests.slots.fill(Posted { queue: *id, side: Side::Shared, op: WcOp::Recv, guard, target });
        requests.ledgers.enter(*id, Side::Shared, wr_id, true);
        Ok(())
    }
}

impl<V: Verbs> Drop for Inner<V> {
    fn drop(&mut self) {
        // First the queue, so that no adapter touches the memory; then the guards.
        self.srq = None;
        let requests = &self.rt.inner.requests;
        let (outstanding, watchers) = requests.borrow_mut().ledgers.close(self.id);
        for id in outstanding {
            let effect = requests.borrow_mut().slots.abandon(id);
            effect.apply();
        }
        watchers.wake();
        self.rt.release_cq(self.cq, self.depth, false);
    }
}
