//! Posting: lists of requests, built without zeroing or allocation.

use super::{Ah, Qp, Srq};
use rdma_sys as sys;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A scatter or gather entry: an address, a length and a local key, all of which the adapter checks.
#[derive(Clone, Copy)]
pub(crate) struct RawSge {
    pub addr: u64,
    pub len: u32,
    pub lkey: u32,
}

/// What a send request does, as the adapter has it.
#[derive(Clone, Copy)]
pub(crate) enum RawOp<'a> {
    Send { imm: Option<u32> },
    SendTo { imm: Option<u32>, ah: &'a Ah, qp: u32, qkey: u32 },
    Write { addr: u64, rkey: u32, imm: Option<u32> },
    Read { addr: u64, rkey: u32 },
    CompareSwap { addr: u64, rkey: u32, compare: u64, swap: u64 },
    FetchAdd { addr: u64, rkey: u32, add: u64 },
}

/// Most requests of one batch.
const WRS: usize = 16;
/// Most scatter or gather entries of one batch.
const SGES: usize = 64;

/// The requests of a batch and their scatter or gather entries, request by request.
struct List<W> {
    wrs: [MaybeUninit<W>; WRS],
    sges: [MaybeUninit<sys::ibv_sge>; SGES],
    wr_count: usize,
    sge_count: usize,
}

impl<W> List<W> {
    #[inline]
    fn new() -> Self {
        List {
            wrs: [const { MaybeUninit::uninit() }; WRS],
            sges: [const { MaybeUninit::uninit() }; SGES],
            wr_count: 0,
            sge_count: 0,
        }
    }

    /// Whether a request with so many entries fits.
    #[inline]
    fn fits(&self, sges: usize) -> bool {
        self.wr_count < WRS && self.sge_count + sges <= SGES
    }

    #[inline]
    fn entry(&mut self, RawSge { addr, len, lkey }: RawSge) {
        self.sges[self.sge_count].write(sys::ibv_sge { addr, length: len, lkey });
        self.sge_count += 1;
    }

    /// Empties the list: how many requests it had.
    #[inline]
    fn take(&mut self) -> usize {
        self.sge_count = 0;
        std::mem::take(&mut self.wr_count)
    }
}

/// Send requests that are posted with one doorbell.
pub(crate) struct SendBatch<'a> {
    list: List<sys::ibv_send_wr>,
    /// Inline data and address handles that the requests point to.
    _borrowed: PhantomData<&'a [u8]>,
}

impl<'a> SendBatch<'a> {
    /// Most entries that one request may have here.
    pub(crate) const MAX_SGE: u32 = 32;

    #[inline]
    pub(crate) fn new() -> Self {
        SendBatch { list: List::new(), _borrowed: PhantomData }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.list.wr_count
    }

    /// Whether a request with so many entries fits.
    #[inline]
    pub(crate) fn fits(&self, sges: usize) -> bool {
        self.list.fits(sges)
    }

    /// An entry of the request that [`SendBatch::push`] adds next.
    #[inline]
    pub(crate) fn entry(&mut self, entry: RawSge) {
        self.list.entry(entry);
    }

    /// The next request's inline data: copied by the post.
    #[inline]
    pub(crate) fn inline(&mut self, bytes: &'a [u8]) {
        self.entry(RawSge { addr: bytes.as_ptr() as u64, len: bytes.len() as u32, lkey: 0 });
    }

    /// Adds a request whose entries are the last `sges` ones.
    #[inline]
    pub(crate) fn push(&mut self, wr_id: u64, op: RawOp<'a>, flags: u32, sges: usize) {
        use sys::ibv_wr_opcode::*;
        let (opcode, imm, wr) = match op {
            RawOp::Send { imm } => (
                if imm.is_some() { IBV_WR_SEND_WITH_IMM } else { IBV_WR_SEND },
                imm,
                rdma(0, 0),
            ),
            RawOp::SendTo { imm, ah, qp, qkey } => (
                if imm.is_some() { IBV_WR_SEND_WITH_IMM } else { IBV_WR_SEND },
                imm,
                sys::wr_t { ud: sys::ud_t { ah: ah.ptr.as_ptr(), remote_qpn: qp, remote_qkey: qkey } },
            ),
            RawOp::Write { addr, rkey, imm } => (
                if imm.is_some() { IBV_WR_RDMA_WRITE_WITH_IMM } else { IBV_WR_RDMA_WRITE },
                imm,
                rdma(addr, rkey),
            ),
            RawOp::Read { addr, rkey } => (IBV_WR_RDMA_READ, None, rdma(addr, rkey)),
            RawOp::CompareSwap { addr, rkey, compare, swap } => {
                (IBV_WR_ATOMIC_CMP_AND_SWP, None, atomic(addr, rkey, compare, swap))
            }
            RawOp::FetchAdd { addr, rkey, add } => (IBV_WR_ATOMIC_FETCH_AND_ADD, None, atomic(addr, rkey, add, 0)),
        };
        let place = self.list.wrs[self.list.wr_count].as_mut_ptr();
        // SAFETY: the place is a request's. Every field is written that providers read for these operations; those
        // of extended connections, memory windows and segmentation stay unwritten and are never read as Rust values.
        // `post` sets `sg_list` once the batch no longer moves.
        unsafe {
            (&raw mut (*place).wr_id).write(wr_id);
            (&raw mut (*place).next).write(std::ptr::null_mut());
            (&raw mut (*place).num_sge).write(sges as i32);
            (&raw mut (*place).opcode).write(opcode);
            (&raw mut (*place).send_flags).write(flags);
            (&raw mut (*place).imm_data_invalidated_rkey_union)
                .write(sys::imm_data_invalidated_rkey_union_t { imm_data: imm.unwrap_or(0).to_be() });
            (&raw mut (*place).wr).write(wr);
        }
        self.list.wr_count += 1;
    }

    /// Posts the batch and empties it. Otherwise: how many requests were accepted, and the errno.
    #[inline]
    pub(crate) fn post(&mut self, qp: &Qp) -> Result<(), (usize, i32)> {
        let count = self.list.take();
        let mut sge = self.list.sges.as_mut_ptr();
        let first = self.list.wrs.as_mut_ptr().cast::<sys::ibv_send_wr>();
        // SAFETY: the first `count` requests were written by `push`, with their entries one after the other from
        // the first on. The batch does not move from here to the call's end.
        unsafe {
            for n in 0..count {
                let wr = first.add(n);
                (&raw mut (*wr).sg_list).write(sge.cast());
                sge = sge.add((&raw const (*wr).num_sge).read() as usize);
                if n + 1 < count {
                    (&raw mut (*wr).next).write(first.add(n + 1));
                }
            }
        }
        let mut bad = std::ptr::null_mut();
        // SAFETY: queue pair, address handles and inline data are alive (the borrows say so), the list is well
        // formed, and everything else in it is a number that the adapter checks.
        let answer = unsafe { sys::ibv_post_send(qp.ptr.as_ptr(), first, &mut bad) };
        if answer == 0 { Ok(()) } else { Err((accepted(first, bad, count), answer)) }
    }
}

#[inline]
fn rdma(remote_addr: u64, rkey: u32) -> sys::wr_t {
    sys::wr_t { rdma: sys::rdma_t { remote_addr, rkey } }
}

#[inline]
fn atomic(remote_addr: u64, rkey: u32, compare_add: u64, swap: u64) -> sys::wr_t {
    sys::wr_t { atomic: sys::atomic_t { remote_addr, compare_add, swap, rkey } }
}

/// How many requests of a list precede the one that was refused.
fn accepted<T>(first: *const T, bad: *const T, count: usize) -> usize {
    let bytes = (bad as usize).wrapping_sub(first as usize);
    let index = bytes / std::mem::size_of::<T>();
    if bad.is_null() || index >= count { 0 } else { index }
}

/// Receive requests that are posted with one doorbell.
pub(crate) struct RecvBatch(List<sys::ibv_recv_wr>);

impl RecvBatch {
    #[inline]
    pub(crate) fn new() -> Self {
        RecvBatch(List::new())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.wr_count
    }

    /// Whether a request with so many entries fits.
    #[inline]
    pub(crate) fn fits(&self, sges: usize) -> bool {
        self.0.fits(sges)
    }

    /// Adds a request.
    #[inline]
    pub(crate) fn push(&mut self, wr_id: u64, list: impl Iterator<Item = RawSge>) {
        let before = self.0.sge_count;
        list.for_each(|entry| self.0.entry(entry));
        let (next, sg_list) = (std::ptr::null_mut(), std::ptr::null_mut());
        let num_sge = (self.0.sge_count - before) as i32;
        self.0.wrs[self.0.wr_count].write(sys::ibv_recv_wr { wr_id, next, sg_list, num_sge });
        self.0.wr_count += 1;
    }

    #[inline]
    fn link(&mut self) -> (*mut sys::ibv_recv_wr, usize) {
        let count = self.0.take();
        let mut sge = self.0.sges.as_mut_ptr();
        let first = self.0.wrs.as_mut_ptr().cast::<sys::ibv_recv_wr>();
        // SAFETY: the first `count` requests were written by `push`, with their entries one after the other from
        // the first on; the caller posts them before the batch moves.
        unsafe {
            for n in 0..count {
                let wr = &mut *first.add(n);
                wr.sg_list = sge.cast();
                sge = sge.add(wr.num_sge as usize);
                if n + 1 < count {
                    wr.next = first.add(n + 1);
                }
            }
        }
        (first, count)
    }

    /// Posts the batch and empties it. Otherwise: how many requests were accepted, and the errno.
    #[inline]
    pub(crate) fn post(&mut self, qp: &Qp) -> Result<(), (usize, i32)> {
        let ((first, count), mut bad) = (self.link(), std::ptr::null_mut());
        // SAFETY: the queue pair lives and the list is well formed; the numbers in it are checked by the adapter.
        let answer = unsafe { sys::ibv_post_recv(qp.ptr.as_ptr(), first, &mut bad) };
        if answer == 0 { Ok(()) } else { Err((accepted(first, bad, count), answer)) }
    }

    /// The same on a shared receive queue.
    pub(crate) fn post_shared(&mut self, srq: &Srq) -> Result<(), (usize, i32)> {
        let ((first, count), mut bad) = (self.link(), std::ptr::null_mut());
        // SAFETY: as in `post`.
        let answer = unsafe { sys::ibv_post_srq_recv(srq.ptr.as_ptr(), first, &mut bad) };
        if answer == 0 { Ok(()) } else { Err((accepted(first, bad, count), answer)) }
    }
}
