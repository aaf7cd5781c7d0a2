//! Queue pairs, shared receive queues and address handles: made, changed, asked, destroyed.

use super::{Cq, Pd, errno, presume_invalid, refused, zero};
use crate::census::{Counted, Kind};
use rdma_sys as sys;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::rc::Rc;
use weft_verbs::Result;

use sys::ibv_qp_attr_mask as Mask;

/// A queue pair's sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpSizes {
    pub send_wr: u32,
    pub recv_wr: u32,
    pub send_sge: u32,
    pub recv_sge: u32,
    pub inline: u32,
}

/// A queue pair.
pub(crate) struct Qp {
    pub(super) ptr: NonNull<sys::ibv_qp>,
    num: u32,
    /// The most inline data of a request.
    inline: u32,
    /// Parents, which must outlive it.
    _pd: Rc<Pd>,
    _cqs: (Rc<Cq>, Rc<Cq>),
    _srq: Option<Rc<Srq>>,
    _counted: Counted,
}

/// Where packets go: `struct ibv_ah_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vector {
    pub dgid: [u8; 16],
    pub dlid: u16,
    pub sgid_index: u8,
    pub port: u8,
    pub sl: u8,
    pub traffic_class: u8,
    pub hop_limit: u8,
    /// Whether packets carry a global route header; on Ethernet they always do.
    pub global: bool,
    /// One of `ibv_rate`.
    pub static_rate: u8,
    pub source_path_bits: u8,
}

impl Vector {
    fn raw(&self) -> sys::ibv_ah_attr {
        sys::ibv_ah_attr {
            grh: sys::ibv_global_route {
                dgid: sys::ibv_gid { raw: self.dgid },
                flow_label: 0,
                sgid_index: self.sgid_index,
                hop_limit: self.hop_limit,
                traffic_class: self.traffic_class,
            },
            dlid: self.dlid,
            sl: self.sl,
            src_path_bits: self.source_path_bits,
            static_rate: self.static_rate,
            is_global: u8::from(self.global),
            port_num: self.port,
        }
    }
}

/// Attributes to set. Each setter marks its attribute as given, as `ibv_modify_qp` wants it.
pub(crate) struct Attributes {
    attr: sys::ibv_qp_attr,
    mask: u32,
}

impl Attributes {
    pub(crate) fn new() -> Attributes {
        // SAFETY: all fields are integers, or structures and unions of integers: zero is a value of each.
        Attributes { attr: unsafe { MaybeUninit::zeroed().assume_init() }, mask: 0 }
    }

    fn with(mut self, mask: Mask, set: impl FnOnce(&mut sys::ibv_qp_attr)) -> Attributes {
        self.mask |= mask.0;
        set(&mut self.attr);
        self
    }

    /// `state` is one of `rdma_sys::ibv_qp_state`.
    pub(crate) fn state(self, state: u32) -> Attributes {
        self.with(Mask::IBV_QP_STATE, |a| a.qp_state = state)
    }

    pub(crate) fn port(self, port: u8, pkey_index: u16) -> Attributes {
        let this = self.with(Mask::IBV_QP_PORT, |a| a.port_num = port);
        this.with(Mask::IBV_QP_PKEY_INDEX, |a| a.pkey_index = pkey_index)
    }

    pub(crate) fn access(self, flags: u32) -> Attributes {
        self.with(Mask::IBV_QP_ACCESS_FLAGS, |a| a.qp_access_flags = flags)
    }

    pub(crate) fn qkey(self, qkey: u32) -> Attributes {
        self.with(Mask::IBV_QP_QKEY, |a| a.qkey = qkey)
    }

    pub(crate) fn path(self, to: &Vector, mtu: u32) -> Attributes {
        let this = self.with(Mask::IBV_QP_AV, |a| a.ah_attr = to.raw());
        this.with(Mask::IBV_QP_PATH_MTU, |a| a.path_mtu = mtu)
    }

    pub(crate) fn alternate(self, to: &Vector, pkey_index: u16, timeout: u8) -> Attributes {
        self.with(Mask::IBV_QP_ALT_PATH, |a| {
            a.alt_ah_attr = to.raw();
            a.alt_port_num = to.port;
            a.alt_pkey_index = pkey_index;
            a.alt_timeout = timeout;
        })
    }

    /// `state` is one of `rdma_sys::ibv_mig_state`.
    pub(crate) fn migration(self, state: u32) -> Attributes {
        self.with(Mask::IBV_QP_PATH_MIG_STATE, |a| a.path_mig_state = state)
    }

    pub(crate) fn peer(self, qp: u32, rq_psn: u32) -> Attributes {
        let this = self.with(Mask::IBV_QP_DEST_QPN, |a| a.dest_qp_num = qp);
        this.with(Mask::IBV_QP_RQ_PSN, |a| a.rq_psn = rq_psn)
    }

    pub(crate) fn serves(self, reads: u8) -> Attributes {
        self.with(Mask::IBV_QP_MAX_DEST_RD_ATOMIC, |a| a.max_dest_rd_atomic = reads)
    }

    pub(crate) fn min_rnr_timer(self, code: u8) -> Attributes {
        self.with(Mask::IBV_QP_MIN_RNR_TIMER, |a| a.min_rnr_timer = code)
    }

    pub(crate) fn sends_from(self, psn: u32) -> Attributes {
        self.with(Mask::IBV_QP_SQ_PSN, |a| a.sq_psn = psn)
    }

    pub(crate) fn retries(self, timeout: u8, retry: u8, rnr: u8) -> Attributes {
        let this = self.with(Mask::IBV_QP_TIMEOUT, |a| a.timeout = timeout);
        let this = this.with(Mask::IBV_QP_RETRY_CNT, |a| a.retry_cnt = retry);
        this.with(Mask::IBV_QP_RNR_RETRY, |a| a.rnr_retry = rnr)
    }

    pub(crate) fn in_flight(self, reads: u8) -> Attributes {
        self.with(Mask::IBV_QP_MAX_QP_RD_ATOMIC, |a| a.max_rd_atomic = reads)
    }

    pub(crate) fn tell_drained(self, tell: bool) -> Attributes {
        self.with(Mask::IBV_QP_EN_SQD_ASYNC_NOTIFY, |a| a.en_sqd_async_notify = u8::from(tell))
    }
}

/// What changes of itself in a queue pair, as the device has it now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queried {
    pub state: u32,
    pub migration: u32,
    pub draining: bool,
}

impl Qp {
    pub(crate) fn create(
        pd: &Rc<Pd>,
        datagrams: bool,
        (send_cq, recv_cq): (&Rc<Cq>, &Rc<Cq>),
        srq: Option<&Rc<Srq>>,
        sizes: QpSizes,
        signal_all: bool,
    ) -> Result<Qp> {
        let mut init = sys::ibv_qp_init_attr {
            qp_context: std::ptr::null_mut(),
            send_cq: send_cq.ptr.as_ptr(),
            recv_cq: recv_cq.ptr.as_ptr(),
            srq: srq.map_or(std::ptr::null_mut(), |s| s.ptr.as_ptr()),
            cap: sys::ibv_qp_cap {
                max_send_wr: sizes.send_wr,
                max_recv_wr: sizes.recv_wr,
                max_send_sge: sizes.send_sge,
                max_recv_sge: sizes.recv_sge,
                max_inline_data: sizes.inline,
            },
            qp_type: if datagrams { sys::ibv_qp_type::IBV_QPT_UD } else { sys::ibv_qp_type::IBV_QPT_RC },
            sq_sig_all: i32::from(signal_all),
        };
        presume_invalid();
        // SAFETY: domain and queues are alive and the structure is whole.
        let ptr = unsafe { sys::ibv_create_qp(pd.ptr.as_ptr(), &mut init) };
        let ptr = NonNull::new(ptr).ok_or_else(|| refused("ibv_create_qp", errno()))?;
        // SAFETY: the queue pair was just made; its number does not change.
        let num = unsafe { (*ptr.as_ptr()).qp_num };
        Ok(Qp {
            ptr,
            num,
            inline: init.cap.max_inline_data,
            _pd: Rc::clone(pd),
            _cqs: (Rc::clone(send_cq), Rc::clone(recv_cq)),
            _srq: srq.cloned(),
            _counted: Counted::new(Kind::Qp),
        })
    }

    pub(crate) fn num(&self) -> u32 {
        self.num
    }

    /// The most inline data of a request, as the device has granted it.
    pub(crate) fn inline(&self) -> u32 {
        self.inline
    }

    pub(crate) fn modify(&self, mut to: Attributes) -> Result<()> {
        // SAFETY: the queue pair lives and the structure is whole.
        zero("ibv_modify_qp", unsafe {
            sys::ibv_modify_qp(self.ptr.as_ptr(), &mut to.attr, to.mask as i32)
        })
    }

    pub(crate) fn query(&self) -> Result<Queried> {
        let mut attr = MaybeUninit::<sys::ibv_qp_attr>::zeroed();
        let mut init = MaybeUninit::<sys::ibv_qp_init_attr>::zeroed();
        let mask = Mask::IBV_QP_STATE.0 | Mask::IBV_QP_PATH_MIG_STATE.0;
        // SAFETY: the queue pair lives and both places are large enough.
        zero("ibv_query_qp", unsafe {
            sys::ibv_query_qp(self.ptr.as_ptr(), attr.as_mut_ptr(), mask as i32, init.as_mut_ptr())
        })?;
        // SAFETY: zeroed, and filled by the call; all fields are integers.
        let attr = unsafe { attr.assume_init() };
        Ok(Queried { state: attr.qp_state, migration: attr.path_mig_state, draining: attr.sq_draining != 0 })
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // Quiesced first: drivers finish what is in flight on the way to the error state, and Soft-RoCE's is known to
        // trip over work that a destruction cuts off. Refused from Reset, where there is nothing in flight.
        let _ = self.modify(Attributes::new().state(sys::ibv_qp_state::IBV_QPS_ERR));
        // SAFETY: created once, destroyed once. Every asynchronous event taken was acknowledged at once, so the call
        // does not wait.
        unsafe { sys::ibv_destroy_qp(self.ptr.as_ptr()) };
    }
}

/// A shared receive queue.
pub(crate) struct Srq {
    pub(super) ptr: NonNull<sys::ibv_srq>,
    pd: Rc<Pd>,
    _counted: Counted,
}

impl Srq {
    /// `id` comes back in events.
    pub(crate) fn create(pd: &Rc<Pd>, wr: u32, sge: u32, id: u32) -> Result<Srq> {
        let mut init = sys::ibv_srq_init_attr {
            srq_context: id as usize as *mut libc::c_void,
            attr: sys::ibv_srq_attr { max_wr: wr, max_sge: sge, srq_limit: 0 },
        };
        // SAFETY: the domain lives, the structure is whole, the context is a number that is never dereferenced.
        let ptr = unsafe { sys::ibv_create_srq(pd.ptr.as_ptr(), &mut init) };
        let ptr = NonNull::new(ptr).ok_or_else(|| refused("ibv_create_srq", errno()))?;
        Ok(Srq { ptr, pd: Rc::clone(pd), _counted: Counted::new(Kind::Srq) })
    }

    pub(crate) fn is_in(&self, context: &Rc<super::Context>) -> bool {
        Rc::ptr_eq(&self.pd.context, context)
    }

    pub(crate) fn arm_limit(&self, limit: u32) -> Result<()> {
        let mut attr = sys::ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: limit };
        let mask = sys::ibv_srq_attr_mask::IBV_SRQ_LIMIT.0 as i32;
        // SAFETY: the queue lives and the structure is whole.
        zero("ibv_modify_srq", unsafe { sys::ibv_modify_srq(self.ptr.as_ptr(), &mut attr, mask) })
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; queue pairs on it hold this value and are gone.
        unsafe { sys::ibv_destroy_srq(self.ptr.as_ptr()) };
    }
}

/// An address handle.
pub(crate) struct Ah {
    pub(super) ptr: NonNull<sys::ibv_ah>,
    pd: Rc<Pd>,
    _counted: Counted,
}

impl Ah {
    pub(crate) fn create(pd: &Rc<Pd>, to: &Vector) -> Result<Ah> {
        // SAFETY: the domain lives and the structure is whole.
        let ptr = unsafe { sys::ibv_create_ah(pd.ptr.as_ptr(), &mut to.raw()) };
        let ptr = NonNull::new(ptr).ok_or_else(|| refused("ibv_create_ah", errno()))?;
        Ok(Ah { ptr, pd: Rc::clone(pd), _counted: Counted::new(Kind::Ah) })
    }

    pub(crate) fn is_of(&self, pd: &Rc<Pd>) -> bool {
        Rc::ptr_eq(&self.pd, pd)
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; requests that name it hold this value.
        unsafe { sys::ibv_destroy_ah(self.ptr.as_ptr()) };
    }
}
