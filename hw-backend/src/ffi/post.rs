//! Posting: lists of requests, built without zeroing or allocation.

use super::{Qp, Srq};
use crate::Hw;
use rdma_sys as sys;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use weft_verbs::{SendOp, WcOp};

/// A scatter or gather entry: an address, a length and a local key, all of which the adapter checks.
#[derive(Clone, Copy)]
pub(crate) struct RawSge {
    pub addr: u64,
    pub len: u32,
    pub lkey: u32,
}

/// Most requests of one batch.
const WRS: usize = 16;
/// Most scatter or gather entries of one batch.
const SGES: usize = 64;

/// Room for the requests of a batch and their scatter or gather entries. It stays where it is while a batch refers to
/// it, so that requests can point to each other and to their entries; and it is never zeroed.
pub(crate) struct Room<W> {
    wrs: [MaybeUninit<W>; WRS],
    sges: [MaybeUninit<sys::ibv_sge>; SGES],
}

/// Room for send requests.
pub(crate) type SendRoom = Room<sys::ibv_send_wr>;
/// Room for receive requests.
pub(crate) type RecvRoom = Room<sys::ibv_recv_wr>;

impl<W> Room<W> {
    #[inline]
    pub(crate) fn new() -> Self {
        Room { wrs: [const { MaybeUninit::uninit() }; WRS], sges: [const { MaybeUninit::uninit() }; SGES] }
    }
}

/// The requests of a batch, linked one to the next. Its counts are apart from the room, which is given to C: so they
/// stay in registers.
struct List<'r, W> {
    /// The room's first places. Pointers to others are made from these alone, so that none of them is outdated by a
    /// borrow of the room.
    wrs: *mut W,
    sges: *mut sys::ibv_sge,
    wr_count: usize,
    sge_count: usize,
    /// Where the entries begin of the request that is added next.
    first_sge: usize,
    _room: PhantomData<&'r mut Room<W>>,
}

impl<'r, W> List<'r, W> {
    #[inline]
    fn new(room: &'r mut Room<W>) -> Self {
        let (wrs, sges) = (room.wrs.as_mut_ptr().cast(), room.sges.as_mut_ptr().cast());
        List { wrs, sges, wr_count: 0, sge_count: 0, first_sge: 0, _room: PhantomData }
    }

    /// Whether a request with so many entries fits.
    #[inline]
    fn fits(&self, sges: usize) -> bool {
        self.wr_count < WRS && self.sge_count + sges <= SGES
    }

    /// An entry of the request that is added next. An empty one is left out: some adapters read a length of 0 as 2 GiB (mlx4 and mlx5, in
    /// receives of a shared queue).
    #[inline]
    fn entry(&mut self, RawSge { addr, len, lkey }: RawSge) {
        if len == 0 {
            return;
        }
        assert!(self.sge_count < SGES, "the caller has asked whether it fits");
        // SAFETY: a place of the room's, as just asserted.
        unsafe { self.sges.add(self.sge_count).write(sys::ibv_sge { addr, length: len, lkey }) };
        self.sge_count += 1;
    }

    /// The next request's place.
    #[inline]
    fn place(&mut self) -> *mut W {
        assert!(self.wr_count < WRS, "the caller has asked whether it fits");
        // SAFETY: a place of the room's, as just asserted.
        unsafe { self.wrs.add(self.wr_count) }
    }

    /// Takes the next request's place: the place, the one before it, and its entries, of which there are so many.
    #[inline]
    fn push(&mut self) -> (*mut W, Option<*mut W>, *mut sys::ibv_sge, i32) {
        let (number, place) = (self.wr_count, self.place());
        let first = std::mem::replace(&mut self.first_sge, self.sge_count);
        self.wr_count += 1;
        // SAFETY: places of the room's: there is a request before, and the first entry's place is not behind the last one's.
        unsafe {
            let before = number.checked_sub(1).map(|before| self.wrs.add(before));
            (place, before, self.sges.add(first), (self.sge_count - first) as i32)
        }
    }

    /// Empties the list: its first request, and how many it had.
    #[inline]
    fn take(&mut self) -> (*mut W, usize) {
        (self.sge_count, self.first_sge) = (0, 0);
        (self.wrs, std::mem::take(&mut self.wr_count))
    }
}

/// Send requests that are posted with one doorbell.
pub(crate) struct SendBatch<'r, 'a> {
    list: List<'r, sys::ibv_send_wr>,
    /// Inline data and address handles that the requests point to.
    _borrowed: PhantomData<&'a [u8]>,
}

impl<'r, 'a> SendBatch<'r, 'a> {
    /// Most entries that one request may have here.
    pub(crate) const MAX_SGE: u32 = 32;

    #[inline]
    pub(crate) fn new(room: &'r mut SendRoom) -> Self {
        SendBatch { list: List::new(room), _borrowed: PhantomData }
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

    /// Writes down what the request does that [`SendBatch::push`] adds next.
    #[inline]
    pub(crate) fn describe(&mut self, op: &SendOp<'a, Hw>) -> WcOp {
        use sys::ibv_wr_opcode::*;
        let place = self.list.place();
        let set = |opcode: u32, imm: Option<u32>, wr: sys::wr_t| {
            let imm_data = imm.unwrap_or(0).to_be();
            // SAFETY: the place is a request's.
            unsafe {
                (&raw mut (*place).opcode).write(opcode);
                (&raw mut (*place).imm_data_invalidated_rkey_union)
                    .write(sys::imm_data_invalidated_rkey_union_t { imm_data });
                (&raw mut (*place).wr).write(wr);
            }
        };
        let with = |imm: Option<u32>, yes, no| if imm.is_some() { yes } else { no };
        match *op {
            SendOp::Send { imm } => {
                set(with(imm, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND), imm, rdma(0, 0));
                WcOp::Send
            }
            SendOp::SendTo { imm, ah, qp, qkey } => {
                let ud = sys::ud_t { ah: ah.0.ptr.as_ptr(), remote_qpn: qp.0, remote_qkey: qkey };
                set(with(imm, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND), imm, sys::wr_t { ud });
                WcOp::Send
            }
            SendOp::Write { to, imm } => {
                let opcode = with(imm, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE);
                set(opcode, imm, rdma(to.addr, to.rkey));
                WcOp::Write
            }
            SendOp::Read { from } => {
                set(IBV_WR_RDMA_READ, None, rdma(from.addr, from.rkey));
                WcOp::Read
            }
            SendOp::CompareSwap { at, compare, swap } => {
                set(IBV_WR_ATOMIC_CMP_AND_SWP, None, atomic(at.addr, at.rkey, compare, swap));
                WcOp::CompareSwap
            }
            SendOp::FetchAdd { at, add } => {
                set(IBV_WR_ATOMIC_FETCH_AND_ADD, None, atomic(at.addr, at.rkey, add, 0));
                WcOp::FetchAdd
            }
        }
    }

    /// Adds the request that was described last, with the entries since the one before.
    #[inline]
    pub(crate) fn push(&mut self, wr_id: u64, flags: u32) {
        let (place, before, entries, count) = self.list.push();
        // SAFETY: the place is a request's, in which `describe` has written what it does: with that, every field is
        // written that providers read for these operations; those of extended connections, memory windows and
        // segmentation stay unwritten and are never read as Rust values. The request before it is whole.
        unsafe {
            (&raw mut (*place).wr_id).write(wr_id);
            (&raw mut (*place).next).write(std::ptr::null_mut());
            (&raw mut (*place).sg_list).write(entries);
            (&raw mut (*place).num_sge).write(count);
            (&raw mut (*place).send_flags).write(flags);
            if let Some(before) = before {
                (&raw mut (*before).next).write(place);
            }
        }
    }

    /// Posts the batch, if there is something in it, and empties it. Otherwise: how many requests were accepted, and the
    /// errno.
    #[inline]
    pub(crate) fn post(&mut self, qp: &Qp) -> Result<(), (usize, i32)> {
        let ((first, count), mut bad) = (self.list.take(), std::ptr::null_mut());
        if count == 0 {
            return Ok(());
        }
        // SAFETY: queue pair, address handles and inline data are alive (the borrows say so), `push` has written and
        // linked the requests, and everything else in them is a number that the adapter checks.
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
pub(crate) struct RecvBatch<'r>(List<'r, sys::ibv_recv_wr>);

impl<'r> RecvBatch<'r> {
    #[inline]
    pub(crate) fn new(room: &'r mut RecvRoom) -> Self {
        RecvBatch(List::new(room))
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
        list.for_each(|entry| self.0.entry(entry));
        let (place, before, sg_list, num_sge) = self.0.push();
        let next = std::ptr::null_mut();
        // SAFETY: the place is a request's; the one before it was written by an earlier call.
        unsafe {
            place.write(sys::ibv_recv_wr { wr_id, next, sg_list, num_sge });
            if let Some(before) = before {
                (*before).next = place;
            }
        }
    }

    /// Posts the batch, if there is something in it, and empties it. Otherwise: how many requests were accepted, and the
    /// errno.
    #[inline]
    pub(crate) fn post(&mut self, qp: &Qp) -> Result<(), (usize, i32)> {
        let ((first, count), mut bad) = (self.0.take(), std::ptr::null_mut());
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the queue pair lives, `push` has written and linked the requests, and the numbers in them are checked
        // by the adapter.
        let answer = unsafe { sys::ibv_post_recv(qp.ptr.as_ptr(), first, &mut bad) };
        if answer == 0 { Ok(()) } else { Err((accepted(first, bad, count), answer)) }
    }

    /// The same on a shared receive queue.
    pub(crate) fn post_shared(&mut self, srq: &Srq) -> Result<(), (usize, i32)> {
        let ((first, count), mut bad) = (self.0.take(), std::ptr::null_mut());
        if count == 0 {
            return Ok(());
        }
        // SAFETY: as in `post`.
        let answer = unsafe { sys::ibv_post_srq_recv(srq.ptr.as_ptr(), first, &mut bad) };
        if answer == 0 { Ok(()) } else { Err((accepted(first, bad, count), answer)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list's requests as the adapter is given them: the lengths of each one's entries.
    fn given(batch: &RecvBatch<'_>) -> Vec<Vec<u32>> {
        let number = |n| {
            // SAFETY: `push` has written so many requests, and each one's entries before it.
            unsafe {
                let wr = &*batch.0.wrs.add(n);
                std::slice::from_raw_parts(wr.sg_list, wr.num_sge as usize).iter().map(|sge| sge.length).collect()
            }
        };
        (0..batch.len()).map(number).collect()
    }

    #[test]
    fn an_adapter_is_given_no_empty_range() {
        let mut room = RecvRoom::new();
        let mut batch = RecvBatch::new(&mut room);
        let lists: [&[u32]; 4] = [&[0, 8, 0, 4], &[], &[0], &[2, 0]];
        for (name, lengths) in lists.into_iter().enumerate() {
            batch.push(name as u64, lengths.iter().map(|&len| RawSge { addr: 4_096, len, lkey: 7 }));
        }
        assert_eq!(given(&batch), [vec![8, 4], vec![], vec![], vec![2]]);
    }
}
