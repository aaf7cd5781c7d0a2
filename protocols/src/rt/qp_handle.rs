//! A queue pair as tasks use it: every post has a slot, every slot a place in the ledger.

use super::Rt;
use super::ledger::{Closing, QueueId, Side};
use super::shared_receives::SharedReceives;
use super::slots::{BufferGuard, CompletionSink, Outcome, Posted, Target};
use super::wait_point::leaf;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use weft_verbs::{
    Modify, Payload, ProtectionDomain, QpCaps, QpInit, QpNum, QpState, QpType, QueuePair, RecvWr, Result,
    SendFlags, SendOp, SendWr, Verbs, VerbsError, WcOp,
};

struct Inner<V: Verbs> {
    rt: Rt<V>,
    /// Taken only by the destructor, which must destroy the queue pair before the guards end.
    qp: Option<V::Qp>,
    id: QueueId,
    /// Which of the runtime's completion queues it uses, and how much of it.
    cq: usize,
    cqe: u32,
    depth: u32,
    /// Every so many unsignaled requests, one is signaled all the same, so that places become free.
    signal_every: u32,
    /// Once it was fenced: whether the device obeyed.
    fenced: Cell<Option<bool>>,
    resting: Cell<bool>,
    /// It rests, and is connected.
    listening: Cell<bool>,
    /// The queue that it draws receives from, if it does.
    drawn_from: Option<SharedReceives<V>>,
}

/// A reliable connection's queue pair with its slots and its ledger. Clones are the same one; the last drop
/// destroys the queue pair, and then what was outstanding ends as
/// [`Failed::Destroyed`](super::Failed::Destroyed).
pub struct QpHandle<V: Verbs> {
    inner: Rc<Inner<V>>,
}

impl<V: Verbs> Clone for QpHandle<V> {
    fn clone(&self) -> Self {
        QpHandle { inner: Rc::clone(&self.inner) }
    }
}

/// Local bytes of a request.
pub enum Local<'a, V: Verbs> {
    /// Memory that the slot guards.
    Guarded(BufferGuard<V>),
    /// Bytes that the post copies.
    Inline(&'a [u8]),
}

impl<V: Verbs> QpHandle<V> {
    pub(super) fn create(rt: &Rt<V>, pd: &V::Pd, caps: QpCaps) -> Result<QpHandle<V>> {
        QpHandle::create_drawing(rt, pd, caps, None)
    }

    pub(super) fn create_drawing(
        rt: &Rt<V>,
        pd: &V::Pd,
        caps: QpCaps,
        from: Option<&SharedReceives<V>>,
    ) -> Result<QpHandle<V>> {
        // One place more than the caller asked for: the marker by which a fenced queue drains.
        let granted = QpCaps { max_send_wr: caps.max_send_wr + 1, ..caps };
        let cqe = granted.max_send_wr + granted.max_recv_wr;
        let (cq, handle) = rt.reserve_cq(cqe)?;
        let made = pd.create_qp(&QpInit {
            kind: QpType::Rc,
            send_cq: &handle,
            // What is received by a shared queue has its places in that queue's own.
            recv_cq: from.map_or(&handle, SharedReceives::cq),
            srq: from.map(SharedReceives::srq),
            caps: granted,
            sq_sig_all: false,
        });
        let qp = made.inspect_err(|_| rt.release_cq(cq, cqe, false))?;
        let ledgers = &mut rt.inner.requests.borrow_mut().ledgers;
        let id = ledgers.open();
        if from.is_some() {
            ledgers.begin_to_draw(id);
        }
        let inner = Inner {
            rt: rt.clone(),
            qp: Some(qp),
            id,
            cq,
            cqe,
            depth: caps.max_send_wr,
            signal_every: (caps.max_send_wr / 4).clamp(1, 16),
            fenced: Cell::new(None),
            resting: Cell::new(false),
            listening: Cell::new(false),
            drawn_from: from.cloned(),
        };
        Ok(QpHandle { inner: Rc::new(inner) })
    }

    /// The queue pair, for transitions and connection management. Posts go through this type.
    pub fn qp(&self) -> &V::Qp {
        self.inner.qp.as_ref().expect("present until the destructor")
    }

    pub(super) fn rt(&self) -> &Rt<V> {
        &self.inner.rt
    }

    pub(super) fn id(&self) -> QueueId {
        self.inner.id
    }

    /// Whether it was [fenced](QpHandle::fence).
    pub(crate) fn is_fenced(&self) -> bool {
        self.inner.fenced.get().is_some()
    }

    /// The queue pair's number.
    pub fn num(&self) -> QpNum {
        self.qp().num()
    }

    /// How many more send requests it takes now.
    pub fn room(&self) -> u32 {
        self.inner.depth.saturating_sub(self.sends() as u32)
    }

    /// Send requests whose end is not known. Unsignaled ones count until a later signaled one completes.
    pub fn sends(&self) -> usize {
        self.inner.rt.inner.requests.borrow().ledgers.sends(self.inner.id)
    }

    /// Send requests that will complete: those up to the last signaled one.
    pub(crate) fn completing(&self) -> usize {
        let requests = self.inner.rt.inner.requests.borrow();
        let tail = requests.ledgers.unsignaled_tail(self.inner.id) as usize;
        requests.ledgers.sends(self.inner.id) - tail
    }

    /// Receive requests posted and not consumed.
    #[cfg(test)]
    pub fn receives(&self) -> usize {
        self.inner.rt.inner.requests.borrow().ledgers.receives(self.inner.id)
    }

    /// Whether a request is known to have failed, which puts a reliable connection's queue pair in error:
    /// whatever is posted from now on is flushed.
    pub fn is_broken(&self) -> bool {
        self.inner.rt.inner.requests.borrow().ledgers.is_broken(self.inner.id)
    }

    /// How many send requests were posted, and how many of them, from the first on without a gap, are known
    /// to have succeeded.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.inner.rt.inner.requests.borrow().ledgers.counts(self.inner.id)
    }

    /// Posts a signaled send request and awaits its end.
    pub fn post(&self, op: SendOp<'_, V>, local: Local<'_, V>) -> Result<Pending<V>> {
        let id = self.submit(op, local, SendFlags::SIGNALED, Target::Future(None))?;
        Ok(Pending { rt: self.inner.rt.clone(), id, done: false })
    }

    /// Posts requests as one list, with one doorbell. Only the last is signaled: its completion tells of the success of all, and
    /// one that fails completes by itself. The adapter begins them in order, and begins none behind one that has failed
    /// (IBA 10.8.5.1, 9.5).
    ///
    /// # Errors
    ///
    /// The device refused a request. Those before it go on.
    pub fn post_list<const N: usize>(
        &self,
        list: [(SendOp<'_, V>, BufferGuard<V>); N],
    ) -> std::result::Result<[Pending<V>; N], BrokenOff<V>> {
        if (self.room() as usize) < N {
            let why = VerbsError::QueueFull { queue: "send", depth: self.inner.depth };
            return Err(BrokenOff { accepted: Vec::new(), why });
        }
        let Inner { rt, id: queue, .. } = &*self.inner;
        let ids: [u64; N] = {
            let slots = &rt.inner.requests.borrow().slots;
            std::array::from_fn(|nth| slots.coming_id(nth))
        };
        let flags = |nth| if nth + 1 == N { SendFlags::SIGNALED } else { SendFlags::empty() };
        let posted = {
            let sges: [_; N] = std::array::from_fn(|nth| list[nth].1.sge().map(|sge| [sge]));
            let requests: [SendWr<'_, V>; N] = std::array::from_fn(|nth| SendWr {
                wr_id: ids[nth],
                op: list[nth].0,
                data: sges[nth].as_ref().map_or(Payload::None, |sge| Payload::Sge(sge)),
                flags: flags(nth),
            });
            self.qp().post_send(&requests)
        };
        let accepted = posted.as_ref().map_or_else(|refused| refused.posted, |()| N);
        let mut requests = rt.inner.requests.borrow_mut();
        requests.ledgers.is_used(*queue);
        for (nth, (op, guard)) in list.into_iter().enumerate().take(accepted) {
            let target = Target::Future(None);
            let posted = Posted { queue: *queue, side: Side::Send, op: done_as(&op), guard, target };
            requests.slots.fill(posted);
            let signaled = flags(nth).contains(SendFlags::SIGNALED);
            requests.ledgers.enter(*queue, Side::Send, ids[nth], signaled);
        }
        drop(requests);
        let pending = |id| Pending { rt: rt.clone(), id, done: false };
        match posted {
            Ok(()) => Ok(ids.map(pending)),
            Err(refused) => {
                let accepted = ids.into_iter().take(accepted).map(pending).collect();
                Err(BrokenOff { accepted, why: refused.why })
            }
        }
    }

    /// Posts a send request whose success nobody is told of; a failure shows on the requests behind it. It
    /// is signaled now and then, so that its kind does not fill the queue.
    pub fn post_quiet(&self, op: SendOp<'_, V>, local: Local<'_, V>) -> Result<()> {
        self.submit(op, local, self.quiet_flags(), Target::Nobody).map(drop)
    }

    /// As [`QpHandle::post_quiet`], telling a sink once the end is known.
    pub fn post_to(
        &self,
        sink: &CompletionSink<V>,
        tag: u64,
        op: SendOp<'_, V>,
        local: Local<'_, V>,
    ) -> Result<()> {
        self.submit(op, local, self.quiet_flags(), Target::Sink(sink.clone(), tag)).map(drop)
    }

    fn quiet_flags(&self) -> SendFlags {
        let tail = self.inner.rt.inner.requests.borrow().ledgers.unsignaled_tail(self.inner.id);
        if tail + 1 >= self.inner.signal_every { SendFlags::SIGNALED } else { SendFlags::empty() }
    }

    fn submit(
        &self,
        op: SendOp<'_, V>,
        local: Local<'_, V>,
        flags: SendFlags,
        target: Target<V>,
    ) -> Result<u64> {
        if self.room() == 0 {
            return Err(VerbsError::QueueFull { queue: "send", depth: self.inner.depth });
        }
        self.submit_unchecked(op, local, flags, target)
    }

    fn submit_unchecked(
        &self,
        op: SendOp<'_, V>,
        local: Local<'_, V>,
        flags: SendFlags,
        target: Target<V>,
    ) -> Result<u64> {
        let requests = &self.inner.rt.inner.requests;
        let wr_id = requests.borrow_mut().slots.next_id();
        let (guard, inline) = match local {
            Local::Guarded(guard) => (guard, None),
            Local::Inline(bytes) => (BufferGuard::Nothing, Some(bytes)),
        };
        let sge = guard.sge().map(|sge| [sge]);
        let data = match (&sge, inline) {
            (Some(sge), _) => Payload::Sge(sge),
            (None, Some(bytes)) => Payload::Inline(bytes),
            (None, None) => Payload::None,
        };
        self.qp().post_send(&[SendWr { wr_id, op, data, flags }]).map_err(|refused| refused.why)?;
        let mut requests = requests.borrow_mut();
        if !self.is_fenced() {
            // Behind a fence requests tell by their flush that all before them have ended.
            requests.ledgers.is_used(self.inner.id);
        }
        let posted = Posted { queue: self.inner.id, side: Side::Send, op: done_as(&op), guard, target };
        requests.slots.fill(posted);
        requests.ledgers.enter(self.inner.id, Side::Send, wr_id, flags.contains(SendFlags::SIGNALED));
        Ok(wr_id)
    }

    /// Makes room in the runtime's books for so many receives, so that posting them does not do it in steps.
    pub(crate) fn reserve_receives(&self, receives: u32) {
        let mut requests = self.inner.rt.inner.requests.borrow_mut();
        requests.slots.reserve(receives as usize);
        requests.ledgers.reserve_receives(self.inner.id, receives as usize);
    }

    /// Posts a receive buffer; the sink is told when a message has filled it, or when it is flushed.
    pub fn post_recv(&self, sink: &CompletionSink<V>, tag: u64, guard: BufferGuard<V>) -> Result<()> {
        let requests = &self.inner.rt.inner.requests;
        let wr_id = requests.borrow_mut().slots.next_id();
        let sge = guard.sge().map(|sge| [sge]);
        let data = sge.as_ref().map_or(&[][..], |sge| &sge[..]);
        self.qp().post_recv(&[RecvWr { wr_id, data }]).map_err(|refused| refused.why)?;
        let mut requests = requests.borrow_mut();
        let target = Target::Sink(sink.clone(), tag);
        let posted = Posted { queue: self.inner.id, side: Side::Receive, op: WcOp::Recv, guard, target };
        requests.slots.fill(posted);
        requests.ledgers.enter(self.inner.id, Side::Receive, wr_id, true);
        Ok(())
    }

    /// Wakes the task when a send request ends: for tasks that wait for room or for a count.
    pub fn watch_sends(&self, cx: &Context<'_>) {
        self.inner.rt.inner.requests.borrow_mut().ledgers.watch_sends(self.inner.id, cx);
    }

    /// Moves the queue pair to the error state: from the return on, nothing more of the peer's requests
    /// executes, and everything posted is on its way to be flushed, which [`QpHandle::drained`] waits for. A device that refuses is gone:
    /// it neither executes nor flushes anything.
    pub fn fence(&self) {
        if self.is_fenced() {
            return;
        }
        // What is posted from now on is behind the fence.
        self.inner.fenced.set(Some(false));
        // What rested is flushed like all else.
        self.wake();
        let obeyed = self.qp().modify(&Modify::Err).is_ok();
        if obeyed && !self.mark_end() {
            // Some providers take no post in the error state (bnxt_re of rdma-core before 47, mana, ocrdma), against IBA 10.3.1.
            // What had completed is in the completion queue.
            let Inner { rt, cq, id, .. } = &*self.inner;
            rt.inner.cqs.borrow_mut().end(*cq, *id, Closing::Unmarked);
        }
        self.inner.fenced.set(Some(obeyed));
    }

    /// The flush of a last, signaled request retires the unsignaled ones before it that had succeeded.
    fn mark_end(&self) -> bool {
        let marker = SendOp::Send { imm: None };
        let guard = Local::Guarded(BufferGuard::Nothing);
        self.submit_unchecked(marker, guard, SendFlags::SIGNALED, Target::Nobody).is_ok()
    }

    /// Lets the queue pair rest. It is in state Init, where it takes receives and completes none (IBA 10.3.1), so the runtime
    /// need not look for completions of it. Where it is connected it is to [listen](QpHandle::listen), and before it is used it is to be
    /// [woken](QpHandle::wake).
    pub(crate) fn rest(&self) {
        let Inner { rt, cq, cqe, resting, .. } = &*self.inner;
        if !resting.replace(true) {
            rt.inner.cqs.borrow_mut().rest(*cq, *cqe);
        }
    }

    /// A queue pair that rests is connected. The runtime looks whether the peer has sent something over it when there is nothing else
    /// to do.
    pub(crate) fn listen(&self) {
        let Inner { rt, cq, resting, listening, .. } = &*self.inner;
        if resting.get() && !listening.replace(true) {
            rt.inner.cqs.borrow_mut().listen(*cq);
        }
    }

    /// Ends a [rest](QpHandle::rest). The runtime looks for completions before it waits the next time.
    pub(crate) fn wake(&self) {
        self.inner.wake();
    }

    /// The device says that it draws no more receives from its shared queue: what it has drawn has completed or was flushed (IBA 11.6.3.2).
    /// The event may be taken before completions that came first, so the runtime knows the ends of all of them once it has found their
    /// queue empty (IBA 10.3.1). A node that takes completions and events [one by one](super::RtConfig::one_by_one) takes them in order.
    pub fn draws_no_more(&self) {
        let Inner { rt, id, drawn_from: Some(from), .. } = &*self.inner else { return };
        if rt.inner.config.one_by_one {
            let watchers = rt.inner.requests.borrow_mut().ledgers.closes(*id, Closing::Drawn);
            return watchers.wake();
        }
        rt.inner.cqs.borrow_mut().end(from.cq_index(), *id, Closing::Drawn);
    }

    /// Waits, after [`QpHandle::fence`], until everything posted has completed or was flushed; of a queue pair that draws from a shared queue
    /// also until it [draws no more](QpHandle::draws_no_more) and all that it had drawn was looked at. Where the device takes nothing behind
    /// the fence that would tell of the end, it waits until the completions were looked at that there are. It waits for nothing where nothing
    /// will tell: the device refused the fence, or has failed.
    pub async fn drained(&self) {
        poll_fn(|cx| {
            if self.inner.fenced.get() == Some(false) || self.inner.rt.is_lost() {
                return Poll::Ready(());
            }
            let mut requests = self.inner.rt.inner.requests.borrow_mut();
            let ledgers = &mut requests.ledgers;
            if ledgers.is_drained(self.inner.id) {
                return Poll::Ready(());
            }
            ledgers.watch_drain(self.inner.id, cx);
            Poll::Pending
        })
        .await;
    }
}

impl<V: Verbs> Inner<V> {
    fn wake(&self) {
        if self.resting.replace(false) {
            self.rt.inner.cqs.borrow_mut().wake(self.cq, self.cqe, self.listening.replace(false));
        }
    }
}

fn done_as<V: Verbs>(op: &SendOp<'_, V>) -> WcOp {
    match op {
        SendOp::Send { .. } | SendOp::SendTo { .. } => WcOp::Send,
        SendOp::Write { .. } => WcOp::Write,
        SendOp::Read { .. } => WcOp::Read,
        SendOp::CompareSwap { .. } => WcOp::CompareSwap,
        SendOp::FetchAdd { .. } => WcOp::FetchAdd,
    }
}

impl<V: Verbs> Drop for Inner<V> {
    fn drop(&mut self) {
        // One that rests has completed nothing. The connection manager moves one that it cannot make ready to error, which flushes its
        // receives; and one that it has made ready may have received something.
        let in_init = self.qp.as_ref().is_some_and(|qp| qp.state() == QpState::Init);
        // First the queue pair, so that no adapter touches the memory; then the guards.
        self.qp = None;
        let requests = &self.rt.inner.requests;
        let (outstanding, watchers) = requests.borrow_mut().ledgers.close(self.id);
        self.rt.inner.cqs.borrow_mut().forget(self.id);
        // Once the runtime is closed nobody is left to be told.
        let closed = self.rt.is_closed();
        for id in outstanding {
            let effect = match closed {
                true => requests.borrow_mut().slots.abandon(id),
                false => requests.borrow_mut().slots.resolve(id, Some(Err(super::Failed::Destroyed))),
            };
            effect.apply();
        }
        watchers.wake();
        if self.listening.get() || !in_init {
            // What it received last may be in the completion queue.
            self.wake();
        }
        self.rt.release_cq(self.cq, self.cqe, self.resting.get());
    }
}

/// A list of which the device refused a request.
pub struct BrokenOff<V: Verbs> {
    /// The requests before it. None is signaled: those that succeed end with what is posted behind them, or with the queue pair.
    pub accepted: Vec<Pending<V>>,
    /// Why it refused.
    pub why: VerbsError,
}

impl<V: Verbs> std::fmt::Debug for BrokenOff<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} behind {} requests", self.why, self.accepted.len())
    }
}

/// Awaits a request's end. Dropping it recalls nothing: the request goes on, and its memory stays guarded.
pub struct Pending<V: Verbs> {
    rt: Rt<V>,
    id: u64,
    done: bool,
}

impl<V: Verbs> Future for Pending<V> {
    type Output = (Outcome, BufferGuard<V>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let end = self.rt.inner.requests.borrow_mut().slots.poll(self.id, cx);
        self.done = end.is_ready();
        if !self.done {
            leaf();
        }
        end
    }
}

impl<V: Verbs> Drop for Pending<V> {
    fn drop(&mut self) {
        if !self.done {
            let effect = self.rt.inner.requests.borrow_mut().slots.orphan(self.id);
            effect.apply();
        }
    }
}
