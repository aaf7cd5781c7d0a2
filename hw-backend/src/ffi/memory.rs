//! Protection domains and registered memory.

use super::{Context, errno, refused, zero};
use crate::census::{self, Counted, Kind};
use rdma_sys as sys;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_verbs::{PinnedMemory, Result, VerbsError};

/// A protection domain.
pub(crate) struct Pd {
    pub(super) ptr: NonNull<sys::ibv_pd>,
    pub(super) context: Rc<Context>,
    _counted: Counted,
}

impl Pd {
    pub(crate) fn alloc(context: &Rc<Context>) -> Result<Pd> {
        // SAFETY: the context is open.
        let ptr = unsafe { sys::ibv_alloc_pd(context.ptr.as_ptr()) };
        let ptr = NonNull::new(ptr).ok_or_else(|| refused("ibv_alloc_pd", errno()))?;
        Ok(Pd { ptr, context: Rc::clone(context), _counted: Counted::new(Kind::Pd) })
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: allocated by `alloc`, freed once; every object made in it holds this value and is gone.
        unsafe { sys::ibv_dealloc_pd(self.ptr.as_ptr()) };
    }
}

/// Where a region's bytes are.
enum Backing {
    /// Allocated here.
    Own(Pages),
    /// The application's. The box is the owner that keeps it in place.
    Brought(Box<dyn PinnedMemory>),
    /// So many bytes of another region, from this one on.
    Part(Rc<Mr>, usize, usize),
}

impl Backing {
    fn start(&self) -> NonNull<u8> {
        match self {
            Backing::Own(pages) => pages.ptr,
            Backing::Brought(memory) => memory.ptr(),
            Backing::Part(of, at, len) => of.place(*at, *len),
        }
    }

    fn len(&self) -> usize {
        match self {
            Backing::Own(pages) => pages.len,
            Backing::Brought(memory) => memory.len(),
            Backing::Part(_, _, len) => *len,
        }
    }
}

/// Page-aligned zeroed memory.
struct Pages {
    ptr: NonNull<u8>,
    len: usize,
    layout: Layout,
}

const PAGE: usize = 4_096;

impl Pages {
    fn new(len: usize) -> Result<Pages> {
        let whole = len.max(1).checked_next_multiple_of(PAGE);
        let layout = whole.and_then(|whole| Layout::from_size_align(whole, PAGE).ok());
        let (value, bound) = (len as u64, isize::MAX as u64);
        let layout = layout.ok_or(VerbsError::TooLarge { what: "the region's length", value, bound })?;
        // SAFETY: the layout's size is not zero.
        let ptr = unsafe { alloc_zeroed(layout) };
        let ptr = NonNull::new(ptr).ok_or_else(|| refused("malloc", libc::ENOMEM))?;
        Ok(Pages { ptr, len, layout })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout, freed once.
        unsafe { dealloc(self.ptr.as_ptr(), self.layout) }
    }
}

/// A registered region. Its bytes are reached by copies and single words: adapters touch them at any moment, so there
/// is never a reference to them.
pub(crate) struct Mr {
    /// `None` once it is deregistered.
    ptr: Cell<Option<NonNull<sys::ibv_mr>>>,
    /// `None` only while it is being destroyed.
    backing: Option<Backing>,
    start: NonNull<u8>,
    len: usize,
    /// Its ranges that are registered as regions of their own: first byte and length.
    lent: RefCell<Vec<(usize, usize)>>,
    /// The adapter did not let go of one of those: its memory is never given back.
    keeps: Cell<bool>,
    lkey: u32,
    rkey: u32,
    pd: Rc<Pd>,
    _counted: Counted,
}

impl Mr {
    /// Registers memory of this crate's own.
    pub(crate) fn alloc(pd: &Rc<Pd>, len: usize, access: u32) -> Result<Mr> {
        Mr::register(pd, Backing::Own(Pages::new(len)?), access)
    }

    /// Registers memory that the application brings.
    pub(crate) fn brought(pd: &Rc<Pd>, memory: Box<dyn PinnedMemory>, access: u32) -> Result<Mr> {
        Mr::register(pd, Backing::Brought(memory), access)
    }

    /// Registers a range of another region, which no living part has and which is within it.
    pub(crate) fn part(pd: &Rc<Pd>, of: &Rc<Mr>, at: usize, len: usize, access: u32) -> Result<Mr> {
        let mr = Mr::register(pd, Backing::Part(Rc::clone(of), at, len), access)?;
        of.lent.borrow_mut().push((at, len));
        Ok(mr)
    }

    /// Whether parts may be registered: its memory is of this crate's own, and whole.
    pub(crate) fn has_parts(&self) -> bool {
        matches!(self.backing, Some(Backing::Own(_)))
    }

    /// Whether a range has bytes of a living part.
    pub(crate) fn is_lent(&self, at: usize, len: usize) -> bool {
        self.lent.borrow().iter().any(|&(first, count)| at < first + count && first < at + len)
    }

    /// Whether it has a living part.
    pub(crate) fn lends(&self) -> bool {
        !self.lent.borrow().is_empty()
    }

    fn register(pd: &Rc<Pd>, backing: Backing, access: u32) -> Result<Mr> {
        let (start, len) = (backing.start(), backing.len());
        // SAFETY: the domain is alive. The range is valid for reads and writes and stays where it is until it is
        // deregistered: own pages by construction, brought memory by the promise of `PinnedMemory`.
        let ptr = unsafe { sys::ibv_reg_mr(pd.ptr.as_ptr(), start.as_ptr().cast(), len, access as i32) };
        let ptr = NonNull::new(ptr).ok_or_else(|| refused("ibv_reg_mr", errno()))?;
        // SAFETY: the region was just registered; its keys do not change.
        let (lkey, rkey) = unsafe { ((*ptr.as_ptr()).lkey, (*ptr.as_ptr()).rkey) };
        let counted = Counted::new(Kind::Mr);
        let (ptr, pd) = (Cell::new(Some(ptr)), Rc::clone(pd));
        let (lent, keeps) = (RefCell::default(), Cell::new(false));
        Ok(Mr { ptr, backing: Some(backing), start, len, lent, keeps, lkey, rkey, pd, _counted: counted })
    }

    /// Ends the registration, if it has not ended; when this returns, the adapter reaches nothing of it (`ibv_dereg_mr` is
    /// a call of the kernel that waits for the device).
    pub(crate) fn deregister(&self) -> Result<()> {
        let Some(ptr) = self.ptr.get() else { return Ok(()) };
        // SAFETY: registered by `register`, and not deregistered before: the pointer is taken out on success.
        zero("ibv_dereg_mr", unsafe { sys::ibv_dereg_mr(ptr.as_ptr()) })?;
        self.ptr.set(None);
        Ok(())
    }

    /// Whether the adapter knows it.
    pub(crate) fn is_registered(&self) -> bool {
        self.ptr.get().is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn addr(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    pub(crate) fn lkey(&self) -> u32 {
        self.lkey
    }

    pub(crate) fn rkey(&self) -> u32 {
        self.rkey
    }

    pub(crate) fn is_of(&self, pd: &Rc<Pd>) -> bool {
        Rc::ptr_eq(&self.pd, pd)
    }

    fn inside(&self, at: usize, len: usize) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.len)
    }

    /// The byte at an offset.
    ///
    /// Panics where a range from there on would leave the region: the callers have refused that with an error.
    fn at(&self, at: usize, len: usize) -> *mut u8 {
        assert!(self.inside(at, len), "checked by the caller");
        // SAFETY: within the region, as just asserted.
        unsafe { self.start.as_ptr().add(at) }
    }

    /// Copies bytes out.
    pub(crate) fn read(&self, at: usize, out: &mut [u8]) {
        // SAFETY: the list's memory may be written, and what was a byte stays one.
        unsafe { self.copy_out(at, out.as_mut_ptr(), out.len()) }
    }

    /// Copies bytes out, behind those of a list, which is not filled with anything else before.
    pub(crate) fn read_behind(&self, at: usize, len: usize, to: &mut Vec<u8>) {
        to.reserve(len);
        let before = to.len();
        // SAFETY: so much is reserved behind its bytes, and is written before it counts among them.
        unsafe {
            self.copy_out(at, to.as_mut_ptr().add(before), len);
            to.set_len(before + len);
        }
    }

    /// Copies bytes out. Whole words are loaded in one access each, so that none of them is torn.
    ///
    /// # Safety
    ///
    /// So many bytes may be written there, and nobody else looks at them meanwhile.
    unsafe fn copy_out(&self, at: usize, out: *mut u8, len: usize) {
        let from = self.at(at, len);
        let head = from.align_offset(8).min(len);
        let words = head + (len - head) / 8 * 8;
        let byte = |at: usize| {
            // SAFETY: within both ranges. Volatile, because an adapter may write at the same moment: each access is made once, and
            // nothing is concluded from an earlier one.
            unsafe { out.add(at).write(from.add(at).read_volatile()) }
        };
        (0..head).for_each(byte);
        for at in (head..words).step_by(8) {
            // SAFETY: as before, and the load is aligned: the head was cut for that.
            unsafe { out.add(at).cast::<u64>().write_unaligned(from.add(at).cast::<u64>().read_volatile()) }
        }
        (words..len).for_each(byte);
    }

    /// Copies bytes in, whole words in one access each.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        let to = self.at(at, bytes.len());
        let (head, rest) = bytes.split_at(to.align_offset(8).min(bytes.len()));
        let (words, tail) = rest.as_chunks::<8>();
        let mut cursor = to;
        // SAFETY: the cursor stays within the range asserted above. Volatile and aligned as in `copy_out`.
        unsafe {
            for byte in head {
                cursor.write_volatile(*byte);
                cursor = cursor.add(1);
            }
            for word in words {
                cursor.cast::<u64>().write_volatile(u64::from_ne_bytes(*word));
                cursor = cursor.add(8);
            }
            for byte in tail {
                cursor.write_volatile(*byte);
                cursor = cursor.add(1);
            }
        }
    }

    /// The word at an offset that is a multiple of 8.
    fn word(&self, at: usize) -> &AtomicU64 {
        let place = self.at(at, 8).cast::<u64>();
        assert!(place.is_aligned(), "checked by the caller");
        // SAFETY: valid, aligned, and only ever accessed atomically or volatilely through this type and by the
        // adapter; it lives as long as `self`.
        unsafe { AtomicU64::from_ptr(place) }
    }

    pub(crate) fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    pub(crate) fn store(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }

    /// Whether a word may be accessed at an offset: brought memory may begin anywhere.
    pub(crate) fn is_word(&self, at: usize) -> bool {
        (self.start.as_ptr() as usize).wrapping_add(at).is_multiple_of(8)
    }

    pub(crate) fn claim(&self, at: usize, len: usize) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.place(at, len), len)
    }

    fn place(&self, at: usize, len: usize) -> NonNull<u8> {
        NonNull::new(self.at(at, len)).expect("within an allocation")
    }

    /// A range for transfers between it and files. Its region lives as long as that does.
    pub(crate) fn transfer(self: &Rc<Mr>, at: usize, len: usize) -> (FileTransfer, TransferGuard) {
        (FileTransfer { start: self.place(at, len), len }, TransferGuard(Rc::clone(self)))
    }
}

/// Keeps a region while a [`FileTransfer`] of it may be under way.
#[expect(dead_code, reason = "held, and never looked at")]
pub(crate) struct TransferGuard(Rc<Mr>);

/// A range of a region that another thread reads into from a file, or writes from. Whoever made it keeps the guard until that thread
/// has handed it back.
pub(crate) struct FileTransfer {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the range stays valid as long as the guard, which stays on its thread; nobody has a reference to a region's bytes, and
// the kernel copies them as an adapter does.
unsafe impl Send for FileTransfer {}

impl FileTransfer {
    /// What is behind the first `done` bytes: the place, and how many.
    fn rest(&self, done: usize) -> (*mut libc::c_void, usize) {
        let done = done.min(self.len);
        // SAFETY: within the range.
        (unsafe { self.start.as_ptr().add(done) }.cast(), self.len - done)
    }
}

/// What `pread` or `pwrite` answered.
fn moved(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

impl weft_store::Memory for FileTransfer {
    fn len(&self) -> usize {
        self.len
    }

    fn read_from(&mut self, file: &File, done: usize, at: u64) -> io::Result<usize> {
        let (to, len) = self.rest(done);
        // SAFETY: the place has so many bytes, which may be written; the file is open.
        moved(unsafe { libc::pread(file.as_raw_fd(), to, len, at as libc::off_t) })
    }

    fn write_to(&self, file: &File, done: usize, at: u64) -> io::Result<usize> {
        let (from, len) = self.rest(done);
        // SAFETY: the place has so many bytes; the file is open.
        moved(unsafe { libc::pwrite(file.as_raw_fd(), from, len, at as libc::off_t) })
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        let ended = self.deregister();
        // That an adapter which is gone refuses is nobody's fault.
        if ended.is_err_and(|why| why != VerbsError::DeviceGone) {
            census::leaked();
        }
        let refused = self.is_registered();
        match self.backing.take() {
            // The adapter may still write there: memory that it holds is never given back. A part has none of its own.
            Some(Backing::Part(of, ..)) if refused => of.keeps.set(true),
            Some(Backing::Part(of, at, len)) => of.lent.borrow_mut().retain(|lent| *lent != (at, len)),
            memory if refused || self.keeps.get() => std::mem::forget(memory),
            _ => {}
        }
    }
}
