//! Completion channels and completion queues.

use super::os::set_nonblocking;
use super::{Context, errno, refused, zero};
use crate::census::{Counted, Kind};
use rdma_sys as sys;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::rc::Rc;
use weft_verbs::{Caps, Result, VerbsError};

/// A completion channel, which does not block.
pub(crate) struct Channel {
    ptr: NonNull<sys::ibv_comp_channel>,
    context: Rc<Context>,
    _counted: Counted,
}

impl Channel {
    pub(crate) fn create(context: &Rc<Context>) -> Result<Channel> {
        // SAFETY: the context is open.
        let ptr = unsafe { sys::ibv_create_comp_channel(context.ptr.as_ptr()) };
        let ptr = NonNull::new(ptr).ok_or_else(|| refused("ibv_create_comp_channel", errno()))?;
        let channel = Channel { ptr, context: Rc::clone(context), _counted: Counted::new(Kind::Channel) };
        set_nonblocking(channel.fd())?;
        Ok(channel)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives, and closes its descriptor as it is destroyed; the field does not change.
        unsafe { BorrowedFd::borrow_raw((*self.ptr.as_ptr()).fd) }
    }

    pub(crate) fn is_in(&self, context: &Rc<Context>) -> bool {
        Rc::ptr_eq(&self.context, context)
    }

    /// Takes and acknowledges the oldest event: the identity of the queue that raised it.
    pub(crate) fn event(&self) -> Option<u32> {
        let (mut cq, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel lives, both places are valid, and the descriptor does not block.
        if unsafe { sys::ibv_get_cq_event(self.ptr.as_ptr(), &mut cq, &mut context) } != 0 {
            return None;
        }
        // SAFETY: the call named a queue that lives (its destruction waits for this acknowledgement), with one event
        // taken and not acknowledged.
        unsafe { sys::ibv_ack_cq_events(cq, 1) };
        Some(context as usize as u32)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; every queue on it holds this value and is gone.
        unsafe { sys::ibv_destroy_comp_channel(self.ptr.as_ptr()) };
    }
}

/// A completion as the adapter reports it: `struct ibv_wc`, with status and operation as the integers that they are
/// in C.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawWc {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// Immediate data, big-endian.
    pub imm: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub path_bits: u8,
}

const _: () = {
    use std::mem::{align_of, offset_of, size_of};
    assert!(size_of::<RawWc>() == size_of::<sys::ibv_wc>() && align_of::<RawWc>() == align_of::<sys::ibv_wc>());
    assert!(offset_of!(RawWc, status) == offset_of!(sys::ibv_wc, status));
    assert!(offset_of!(RawWc, byte_len) == offset_of!(sys::ibv_wc, byte_len));
    assert!(offset_of!(RawWc, imm) == offset_of!(sys::ibv_wc, imm_data_invalidated_rkey_union));
    assert!(offset_of!(RawWc, qp_num) == offset_of!(sys::ibv_wc, qp_num));
    assert!(offset_of!(RawWc, flags) == offset_of!(sys::ibv_wc, wc_flags));
    assert!(offset_of!(RawWc, slid) == offset_of!(sys::ibv_wc, slid));
    assert!(offset_of!(RawWc, sl) == offset_of!(sys::ibv_wc, sl));
};

/// Room for the completions of one poll. Never zeroed: it is made anew for every poll, and most find one or none.
pub(crate) struct WcRoom(MaybeUninit<[RawWc; WcRoom::MOST]>);

impl WcRoom {
    /// Most completions that one poll takes.
    pub(crate) const MOST: usize = 32;

    #[inline]
    pub(crate) fn new() -> WcRoom {
        WcRoom(MaybeUninit::uninit())
    }
}

/// A completion queue.
pub(crate) struct Cq {
    pub(super) ptr: NonNull<sys::ibv_cq>,
    pub(super) context: Rc<Context>,
    _channel: Option<Rc<Channel>>,
    capacity: Cell<u32>,
    _counted: Counted,
}

impl Cq {
    /// `id` comes back in events.
    pub(crate) fn create(
        context: &Rc<Context>,
        cqe: u32,
        id: u32,
        channel: Option<&Rc<Channel>>,
    ) -> Result<Cq> {
        let on = channel.map_or(std::ptr::null_mut(), |c| c.ptr.as_ptr());
        let id = id as usize as *mut libc::c_void;
        // SAFETY: context and channel are alive; `id` is a number that is never dereferenced.
        let ptr = unsafe { sys::ibv_create_cq(context.ptr.as_ptr(), cqe as i32, id, on, 0) };
        let ptr = NonNull::new(ptr).ok_or_else(|| refused("ibv_create_cq", errno()))?;
        let cq = Cq {
            ptr,
            context: Rc::clone(context),
            _channel: channel.cloned(),
            capacity: Cell::new(0),
            _counted: Counted::new(Kind::Cq),
        };
        cq.learn_capacity();
        Ok(cq)
    }

    fn learn_capacity(&self) {
        // SAFETY: the queue lives; the field is written by `ibv_create_cq` and `ibv_resize_cq` alone.
        self.capacity.set(unsafe { (*self.ptr.as_ptr()).cqe } as u32);
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity.get()
    }

    pub(crate) fn is_in(&self, context: &Rc<Context>) -> bool {
        Rc::ptr_eq(&self.context, context)
    }

    /// Takes up to `most` completions, oldest first.
    #[inline]
    pub(crate) fn poll<'r>(&self, room: &'r mut WcRoom, most: usize) -> Result<&'r [RawWc]> {
        let most = most.min(WcRoom::MOST);
        let first = room.0.as_mut_ptr().cast::<RawWc>();
        // SAFETY: the queue lives and the room has at least `most` places of the layout of `ibv_wc`, as asserted
        // at compile time.
        let n = unsafe { sys::ibv_poll_cq(self.ptr.as_ptr(), most as i32, first.cast()) };
        let filled = usize::try_from(n).map_err(|_| refused("ibv_poll_cq", -n))?;
        // SAFETY: the first `filled` places were written by the poll.
        Ok(unsafe { std::slice::from_raw_parts(first, filled) })
    }

    pub(crate) fn arm(&self, solicited: bool) -> Result<()> {
        // SAFETY: the queue lives.
        zero("ibv_req_notify_cq", unsafe { sys::ibv_req_notify_cq(self.ptr.as_ptr(), i32::from(solicited)) })
    }

    pub(crate) fn resize(&self, cqe: u32) -> Result<()> {
        // SAFETY: the queue lives.
        let answer = unsafe { sys::ibv_resize_cq(self.ptr.as_ptr(), cqe as i32) };
        self.learn_capacity();
        // Only the driver knows (irdma's, of the X722).
        zero("ibv_resize_cq", answer).map_err(|why| match why {
            VerbsError::Os { errno: libc::EOPNOTSUPP | libc::ENOSYS, .. } => VerbsError::Unsupported(Caps::CQ_RESIZE),
            other => other,
        })
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; queue pairs on it hold this value and are gone, and every event
        // taken from it was acknowledged at once, so the call does not wait.
        unsafe { sys::ibv_destroy_cq(self.ptr.as_ptr()) };
    }
}
