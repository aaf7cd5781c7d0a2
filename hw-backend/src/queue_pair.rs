//! Queue pairs and address handles.

use crate::completion::HwCq;
use crate::device::ContextInner;
use crate::ffi::{self, Attributes, QpSizes, RawSge, RecvBatch, RecvRoom, SendBatch, SendRoom, refused};
use crate::given::Given;
use crate::ledger::{Hold, QueueIndex, Side};
use crate::memory::{HwMr, HwPd};
use crate::shared_receive::HwSrq;
use crate::{Hw, convert};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use weft_verbs::{
    AccessFlags, AltPath, Caps, Migration, Modify, Path, Payload, PostError, QpAttr, QpCaps,
    QpInit, QpNum, QpState, QpType, QueuePair, RecvWr, Result, SendOp, SendWr, Sge, ToInit, ToRtr, ToRts,
    Update, VerbsError, WcOp,
};

/// A queue pair.
#[derive(Clone)]
pub struct HwQp(Rc<QpHandle>);

struct QpHandle {
    kind: QpType,
    caps: QpCaps,
    /// The state that the last transition led to. The device may have moved on to Sqe or Err by itself, which
    /// changes nothing for posts: those are accepted there.
    state: Cell<QpState>,
    given: RefCell<Given>,
    ledger: QueueIndex,
    shared: bool,
    /// `None` only while it is being destroyed: before the ledger lets its memory go.
    raw: Option<ffi::Qp>,
    pd: HwPd,
    _cqs: (HwCq, HwCq),
    _srq: Option<HwSrq>,
}

impl fmt::Debug for HwQp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HwQp").field(&self.num().0).finish()
    }
}

impl Drop for QpHandle {
    fn drop(&mut self) {
        self.raw = None;
        let mut released = Vec::new();
        self.pd.context.ledgers.borrow_mut().close(self.ledger, &mut released);
        drop(released);
    }
}

impl QpHandle {
    fn raw(&self) -> &ffi::Qp {
        self.raw.as_ref().expect("present until the destructor")
    }

    fn context(&self) -> &ContextInner {
        &self.pd.context
    }
}

fn at_most(what: &'static str, value: u32, bound: u32) -> Result<()> {
    if value > bound {
        return Err(VerbsError::TooLarge { what, value: value.into(), bound: bound.into() });
    }
    Ok(())
}

impl HwQp {
    pub(crate) fn create(pd: &HwPd, init: &QpInit<'_, Hw>) -> Result<HwQp> {
        let context = &pd.context;
        check_family(pd, init)?;
        check_sizes(context, init)?;
        let sizes = QpSizes {
            send_wr: init.caps.max_send_wr,
            recv_wr: if init.srq.is_some() { 0 } else { init.caps.max_recv_wr },
            send_sge: init.caps.max_send_sge,
            recv_sge: if init.srq.is_some() { 0 } else { init.caps.max_recv_sge },
            inline: init.caps.max_inline,
        };
        let cqs = (&init.send_cq.0.raw, &init.recv_cq.0.raw);
        let srq = init.srq.map(|srq| srq.raw());
        let datagrams = init.kind == QpType::Ud;
        let raw = ffi::Qp::create(&pd.raw, datagrams, cqs, srq, sizes, init.sq_sig_all)?;
        let depths = (init.caps.max_send_wr, init.caps.max_recv_wr);
        let ledger = context.ledgers.borrow_mut().open(QpNum(raw.num()), datagrams, depths)?;
        Ok(HwQp(Rc::new(QpHandle {
            kind: init.kind,
            caps: init.caps,
            state: Cell::new(QpState::Reset),
            given: RefCell::default(),
            ledger,
            shared: init.srq.is_some(),
            raw: Some(raw),
            pd: pd.clone(),
            _cqs: (init.send_cq.clone(), init.recv_cq.clone()),
            _srq: init.srq.cloned(),
        })))
    }

    pub(crate) fn is_in(&self, context: &Rc<ContextInner>) -> bool {
        Rc::ptr_eq(&self.0.pd.context, context)
    }

    /// What Init was given.
    pub(crate) fn given_init(&self) -> Option<ToInit> {
        self.0.given.borrow().init
    }

    /// Forgets what is posted.
    fn forget(&self) {
        let mut released = Vec::new();
        self.0.context().ledgers.borrow_mut().reset(self.0.ledger, &mut released);
        drop(released);
    }

    /// What has changed of itself. A connection that has moved to its alternate path is known to be on it from then on.
    fn look(&self) -> Result<ffi::Queried> {
        let raw = self.0.raw().query()?;
        self.0.given.borrow_mut().settle(convert::migration_of(raw.migration));
        Ok(raw)
    }

    fn hw_state(&self) -> Result<QpState> {
        Ok(convert::qp_state_of(self.look()?.state))
    }

    fn check_path(&self, path: &Path) -> Result<()> {
        let context = self.0.context();
        context.link(path.port)?;
        let gids = context.raw.port(path.port)?.gid_tbl_len.max(0) as u32;
        at_most("the index of the GID", path.sgid_index.into(), gids.min(255).saturating_sub(1))
    }

    fn check_alternate(&self, alt: Option<&AltPath>, migration: Option<Migration>) -> Result<()> {
        let asks = alt.is_some() || migration.is_some_and(|state| state != Migration::Migrated);
        if asks && !self.0.context().caps().contains(Caps::APM) {
            return Err(VerbsError::Unsupported(Caps::APM));
        }
        alt.map_or(Ok(()), |alt| self.check_path(&alt.path))
    }

    fn with_alternate(&self, attributes: Attributes, alt: Option<&AltPath>) -> Result<Attributes> {
        let Some(alt) = alt else { return Ok(attributes) };
        let to = self.0.context().vector(&alt.path)?;
        Ok(attributes.alternate(&to, alt.pkey_index, alt.timeout.exponent()))
    }

    /// Peers' rights as the device takes them. Of a device without remote atomics some drivers refuse that right when the queue pair is to
    /// receive, and some take it.
    fn rights(&self, access: AccessFlags) -> Result<u32> {
        match access.contains(AccessFlags::REMOTE_ATOMIC) && !self.0.context().limits.atomics {
            true => Err(VerbsError::Unsupported(Caps::ATOMICS)),
            false => Ok(convert::access(access)),
        }
    }

    fn init_attributes(&self, to: &ToInit) -> Result<Attributes> {
        self.0.context().link(to.port)?;
        let attributes = Attributes::new().port(to.port, to.pkey_index);
        Ok(match self.0.kind {
            QpType::Rc => attributes.access(self.rights(to.access)?),
            QpType::Ud => attributes.qkey(to.qkey),
        })
    }

    fn rtr_attributes(&self, to: &ToRtr) -> Result<Attributes> {
        if self.0.kind == QpType::Ud {
            return Ok(Attributes::new());
        }
        self.check_path(&to.path)?;
        self.check_alternate(to.alt.as_ref(), None)?;
        let port = self.0.context().raw.port(to.path.port)?;
        at_most("the path MTU", to.mtu.bytes(), convert::mtu_of(port.max_mtu).bytes())?;
        let serves = self.0.context().limits.max_dest_rd_atomic;
        at_most("the number of reads served", to.max_dest_rd_atomic.into(), serves)?;
        let attributes = Attributes::new()
            .path(&self.0.context().vector(&to.path)?, convert::mtu(to.mtu))
            .peer(to.dest_qp.0, to.rq_psn.get())
            .serves(to.max_dest_rd_atomic)
            .min_rnr_timer(to.min_rnr_timer.code());
        self.with_alternate(attributes, to.alt.as_ref())
    }

    fn rts_attributes(&self, to: &ToRts) -> Result<Attributes> {
        let attributes = Attributes::new().sends_from(to.sq_psn.get());
        if self.0.kind == QpType::Ud {
            return Ok(attributes);
        }
        self.check_alternate(to.alt.as_ref(), Some(to.migration))?;
        let depth = self.0.context().limits.max_rd_atomic;
        at_most("the number of reads in flight", to.max_rd_atomic.into(), depth)?;
        let endless = self.0.context().quirks.seven_retries_are_endless;
        let retry = if endless { to.retry.count().min(6) } else { to.retry.count() };
        let attributes = attributes
            .retries(to.timeout.exponent(), retry, to.rnr_retry.count())
            .in_flight(to.max_rd_atomic);
        let attributes = self.with_alternate(attributes, to.alt.as_ref())?;
        Ok(match to.migration {
            Migration::Migrated => attributes,
            other => attributes.migration(convert::migration(other)),
        })
    }

    fn update_attributes(&self, to: &Update) -> Result<Attributes> {
        self.check_alternate(to.alt.as_ref(), to.migration)?;
        let mut attributes = self.with_alternate(Attributes::new(), to.alt.as_ref())?;
        if let Some(access) = to.access {
            attributes = attributes.access(self.rights(access)?);
        }
        if let Some(timer) = to.min_rnr_timer {
            attributes = attributes.min_rnr_timer(timer.code());
        }
        if let Some(qkey) = to.qkey {
            attributes = attributes.qkey(qkey);
        }
        if let Some(state) = to.migration {
            attributes = attributes.migration(convert::migration(state));
        }
        Ok(attributes)
    }

    fn attributes(&self, change: &Modify) -> Result<Attributes> {
        match change {
            Modify::Reset | Modify::Err | Modify::Resume => Ok(Attributes::new()),
            Modify::Init(to) => self.init_attributes(to),
            Modify::Rtr(to) => self.rtr_attributes(to),
            Modify::Rts(to) => self.rts_attributes(to),
            Modify::Update(to) => self.update_attributes(to),
            Modify::Sqd { .. } if !self.0.context().caps().contains(Caps::SQD) => {
                Err(VerbsError::Unsupported(Caps::SQD))
            }
            Modify::Sqd { notify } => Ok(Attributes::new().tell_drained(*notify)),
        }
    }
}

fn check_family(pd: &HwPd, init: &QpInit<'_, Hw>) -> Result<()> {
    let raw = &pd.context.raw;
    if !init.send_cq.0.raw.is_in(raw) || !init.recv_cq.0.raw.is_in(raw) {
        return Err(VerbsError::Foreign("the completion queue"));
    }
    if init.srq.is_some_and(|srq| !srq.raw().is_in(raw)) {
        return Err(VerbsError::Foreign("the shared receive queue"));
    }
    Ok(())
}

fn check_sizes(context: &ContextInner, init: &QpInit<'_, Hw>) -> Result<()> {
    let caps = &init.caps;
    let device = context.attr();
    at_most("the number of send requests", caps.max_send_wr, device.max_qp_wr)?;
    at_most("the number of receive requests", caps.max_recv_wr, device.max_qp_wr)?;
    at_most("the number of gather entries", caps.max_send_sge, device.max_sge)?;
    at_most("the number of scatter entries", caps.max_recv_sge, device.max_sge)?;
    at_most("the length of inline data", caps.max_inline, device.max_inline)
}

impl QueuePair<Hw> for HwQp {
    fn num(&self) -> QpNum {
        QpNum(self.0.raw().num())
    }

    fn state(&self) -> QpState {
        self.hw_state().unwrap_or(QpState::Err)
    }

    fn query(&self) -> Result<QpAttr> {
        let raw = self.look()?;
        let given = *self.0.given.borrow();
        Ok(QpAttr {
            state: convert::qp_state_of(raw.state),
            kind: self.0.kind,
            caps: self.0.caps,
            init: given.init,
            rtr: given.rtr,
            rts: given.rts,
            migration: convert::migration_of(raw.migration),
            draining: raw.draining,
        })
    }

    fn modify(&self, change: &Modify) -> Result<()> {
        let from = self.hw_state()?;
        let to = change.check(from, self.0.kind)?;
        let attributes = self.attributes(change)?;
        let attributes = match change {
            Modify::Update(_) => attributes,
            _ => attributes.state(convert::qp_state(to)),
        };
        self.0.raw().modify(attributes)?;
        self.0.state.set(to);
        self.0.given.borrow_mut().remember(change);
        if matches!(change, Modify::Reset) {
            self.forget();
        }
        Ok(())
    }

    #[inline]
    fn post_send(&self, list: &[SendWr<'_, Hw>]) -> std::result::Result<(), PostError> {
        let this = &*self.0;
        let mut room = SendRoom::new();
        let (mut batch, mut posted) = (SendBatch::new(&mut room), 0);
        let mut refusal = None;
        for wr in list {
            if !batch.fits(entries(&wr.data)) {
                posted += self.ring(&mut batch, posted)?;
            }
            if let Err(why) = this.write_send(&mut batch, wr) {
                refusal = Some(why);
                break;
            }
        }
        posted += self.ring(&mut batch, posted)?;
        refusal.map_or(Ok(()), |why| Err(PostError { posted, why }))
    }

    fn post_recv(&self, list: &[RecvWr<'_, Hw>]) -> std::result::Result<(), PostError> {
        let this = &*self.0;
        if this.shared {
            let why = VerbsError::Invalid("a shared receive queue serves this queue pair");
            return Err(PostError { posted: 0, why });
        }
        let mut room = RecvRoom::new();
        let (mut batch, mut posted) = (RecvBatch::new(&mut room), 0);
        let mut refusal = None;
        for wr in list {
            if !batch.fits(wr.data.len()) {
                posted += self.ring_receives(&mut batch, posted)?;
            }
            if let Err(why) = this.write_receive(&mut batch, wr) {
                refusal = Some(why);
                break;
            }
        }
        posted += self.ring_receives(&mut batch, posted)?;
        this.push_late_receives();
        refusal.map_or(Ok(()), |why| Err(PostError { posted, why }))
    }
}

#[inline]
fn entries<M>(data: &Payload<'_, M>) -> usize {
    match data {
        Payload::None => 0,
        Payload::Sge(list) => list.len(),
        Payload::Inline(_) => 1,
    }
}

impl HwQp {
    /// Rings the doorbell for a batch: how many requests it had.
    #[inline]
    fn ring(&self, batch: &mut SendBatch<'_, '_>, before: usize) -> std::result::Result<usize, PostError> {
        let count = batch.len();
        match batch.post(self.0.raw()) {
            Ok(()) => Ok(count),
            Err((accepted, errno)) => Err(self.refused(Side::Send, (accepted, count, before), errno)),
        }
    }

    fn ring_receives(&self, batch: &mut RecvBatch<'_>, before: usize) -> std::result::Result<usize, PostError> {
        let count = batch.len();
        match batch.post(self.0.raw()) {
            Ok(()) => Ok(count),
            Err((accepted, errno)) => Err(self.refused(Side::Receive, (accepted, count, before), errno)),
        }
    }

    /// The adapter refused a part of a batch: takes it back.
    #[cold]
    fn refused(&self, side: Side, (accepted, count, before): (usize, usize, usize), errno: i32) -> PostError {
        let mut released = Vec::new();
        let ledgers = &self.0.context().ledgers;
        ledgers.borrow_mut().retract(self.0.ledger, side, count - accepted, &mut released);
        drop(released);
        let (call, queue, depth) = match side {
            Side::Send => ("ibv_post_send", "send", self.0.caps.max_send_wr),
            _ => ("ibv_post_recv", "receive", self.0.caps.max_recv_wr),
        };
        let why = match errno.abs() {
            libc::ENOMEM => VerbsError::QueueFull { queue, depth },
            other => refused(call, other),
        };
        PostError { posted: before + accepted, why }
    }
}

const MISPLACED: VerbsError =
    VerbsError::Invalid("datagram queue pairs carry datagrams, connections everything else");

impl QpHandle {
    /// Checks a send request, writes it down, and adds it to the batch.
    #[inline]
    fn write_send<'a>(&'a self, batch: &mut SendBatch<'_, 'a>, wr: &SendWr<'a, Hw>) -> Result<()> {
        let state = self.state.get();
        if !state.accepts_sends() {
            return Err(VerbsError::WrongState { call: "post_send", state });
        }
        self.check_op(&wr.op)?;
        let inline = matches!(wr.data, Payload::Inline(_));
        let len = match wr.data {
            Payload::None => 0,
            Payload::Sge(list) => {
                check_sges(&self.pd, list, self.caps.max_send_sge, |sge| batch.entry(sge))?
            }
            Payload::Inline(bytes) => {
                at_most("the length of the inline data", bytes.len() as u32, self.caps.max_inline)?;
                batch.inline(bytes);
                bytes.len() as u32
            }
        };
        let kind = batch.describe(&wr.op);
        check_answer(kind, inline, entries(&wr.data), len)?;
        let name = {
            let mut ledgers = self.context().ledgers.borrow_mut();
            let (place, name) = ledgers.post(self.ledger, Side::Send)?;
            place.fill(wr.wr_id, kind, len, held_by(wr));
            name
        };
        batch.push(name, convert::send_flags(wr.flags, inline));
        Ok(())
    }

    /// Has receives flushed that were posted to a queue pair in error, on a device that forgets to.
    #[inline]
    fn push_late_receives(&self) {
        if !self.context().quirks.late_receives_need_a_push {
            return;
        }
        let failed = || self.context().ledgers.borrow().has_failed(self.ledger);
        if self.state.get() == QpState::Err || failed() {
            let _ = self.raw().modify(Attributes::new().state(convert::qp_state(QpState::Err)));
        }
    }

    #[inline]
    fn check_op(&self, op: &SendOp<'_, Hw>) -> Result<()> {
        match op {
            SendOp::SendTo { ah, .. } if self.kind == QpType::Ud => match ah.0.is_of(&self.pd.raw) {
                true => Ok(()),
                false => Err(VerbsError::Foreign("the address handle")),
            },
            SendOp::SendTo { .. } => Err(MISPLACED),
            _ if self.kind == QpType::Ud => Err(MISPLACED),
            SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } if !self.context().limits.atomics => {
                Err(VerbsError::Unsupported(Caps::ATOMICS))
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn write_receive(&self, batch: &mut RecvBatch<'_>, wr: &RecvWr<'_, Hw>) -> Result<()> {
        let state = self.state.get();
        if !state.accepts_receives() {
            return Err(VerbsError::WrongState { call: "post_recv", state });
        }
        let len = check_sges(&self.pd, wr.data, self.caps.max_recv_sge, |_| ())?;
        check_ranges(wr.data)?;
        let name = {
            let mut ledgers = self.context().ledgers.borrow_mut();
            let (place, name) = ledgers.post(self.ledger, Side::Receive)?;
            place.fill(wr.wr_id, WcOp::Recv, len, Hold::new(wr.data));
            name
        };
        batch.push(name, wr.data.iter().map(raw_sge));
        Ok(())
    }
}

/// The memory and the address that a send request needs until it ends.
#[inline]
fn held_by(wr: &SendWr<'_, Hw>) -> Hold {
    let memory = match wr.data {
        Payload::Sge(list) => list,
        Payload::None | Payload::Inline(_) => &[],
    };
    match wr.op {
        SendOp::SendTo { ah, .. } => Hold::datagram(memory, &ah.0),
        _ => Hold::new(memory),
    }
}

/// What no adapter could execute is refused at once: it is a mistake in the program, not an event.
#[inline]
fn check_answer(op: WcOp, inline: bool, entries: usize, len: u32) -> Result<()> {
    match op {
        WcOp::Read | WcOp::CompareSwap | WcOp::FetchAdd if inline => {
            Err(VerbsError::Invalid("inline data cannot take an answer"))
        }
        WcOp::CompareSwap | WcOp::FetchAdd if len != 8 || entries != 1 => {
            Err(VerbsError::Invalid("an atomic's old value needs one range of 8 bytes"))
        }
        _ => Ok(()),
    }
}

/// Checks a scatter or gather list, and hands each entry on: its length in bytes.
#[inline]
pub(crate) fn check_sges(
    pd: &HwPd,
    list: &[Sge<'_, HwMr>],
    most: u32,
    mut each: impl FnMut(RawSge),
) -> Result<u32> {
    at_most("the number of scatter or gather entries", list.len() as u32, most)?;
    let mut sum = 0u64;
    for sge in list {
        if !sge.mr.0.is_of(&pd.raw) {
            return Err(VerbsError::Foreign("the memory region"));
        }
        if !sge.mr.0.is_registered() {
            return Err(VerbsError::Invalid("the memory region was deregistered"));
        }
        // A range of a send that sticks out of its region is found by the adapter when it executes the request.
        sum += u64::from(sge.len);
        each(raw_sge(sge));
    }
    payload(sum, pd.context.max_msg)
}

/// The length of a list, which is at most that of the device's largest message. The adapter does not always say so itself: a
/// provider may keep a mark of its own in a range's highest bit, as mlx5 does for inline data.
#[inline]
fn payload(sum: u64, largest: u32) -> Result<u32> {
    let bound = u64::from(largest);
    let too_large = VerbsError::TooLarge { what: "the payload's length", value: sum, bound };
    u32::try_from(sum).ok().filter(|len| *len <= largest).ok_or(too_large)
}

/// Checks that a receive's ranges lie within their regions. An adapter may take a short message without a look at the
/// ranges behind it.
#[inline]
pub(crate) fn check_ranges(list: &[Sge<'_, HwMr>]) -> Result<()> {
    let beyond = |sge: &&Sge<'_, HwMr>| u64::from(sge.at) + u64::from(sge.len) > sge.mr.0.len() as u64;
    list.iter().find(beyond).map_or(Ok(()), |sge| {
        Err(VerbsError::OutOfRange { at: sge.at.into(), len: sge.len.into(), size: sge.mr.0.len() as u64 })
    })
}

#[inline]
pub(crate) fn raw_sge(sge: &Sge<'_, HwMr>) -> RawSge {
    RawSge { addr: sge.mr.0.addr() + u64::from(sge.at), len: sge.len, lkey: sge.mr.0.lkey() }
}

/// The address of a peer for datagrams.
#[derive(Clone)]
pub struct HwAh(pub(crate) Rc<ffi::Ah>);

impl fmt::Debug for HwAh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HwAh").finish_non_exhaustive()
    }
}

impl HwAh {
    pub(crate) fn create(pd: &HwPd, path: &Path) -> Result<HwAh> {
        Ok(HwAh(Rc::new(ffi::Ah::create(&pd.raw, &pd.context.vector(path)?)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_list_is_longer_than_the_largest_message() {
        const LARGEST: u32 = 1 << 30;
        assert_eq!(payload(0, LARGEST), Ok(0));
        assert_eq!(payload(u64::from(LARGEST), LARGEST), Ok(LARGEST));
        for sum in [u64::from(LARGEST) + 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 8] {
            let refused = payload(sum, LARGEST);
            assert!(matches!(refused, Err(VerbsError::TooLarge { value, .. }) if value == sum), "{refused:?}");
        }
    }
}
