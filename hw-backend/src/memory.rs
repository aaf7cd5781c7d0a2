//! Protection domains and memory regions.

use crate::device::{ContextInner, HwContext};
use crate::queue_pair::{HwAh, HwQp};
use crate::shared_receive::HwSrq;
use crate::{Hw, convert, ffi};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;
use weft_verbs::{
    AccessFlags, MemoryRegion, Path, PinnedMemory, ProtectionDomain, QpInit, RemoteSlice, Result, VerbsError,
};

/// A protection domain.
#[derive(Clone)]
pub struct HwPd {
    pub(crate) raw: Rc<ffi::Pd>,
    pub(crate) context: Rc<ContextInner>,
}

impl fmt::Debug for HwPd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HwPd").finish_non_exhaustive()
    }
}

impl HwPd {
    pub(crate) fn alloc(context: &HwContext) -> Result<HwPd> {
        Ok(HwPd { raw: Rc::new(ffi::Pd::alloc(&context.0.raw)?), context: Rc::clone(&context.0) })
    }

    fn check_len(&self, len: usize) -> Result<()> {
        let (value, bound) = (len as u64, self.context.limits.max_mr_size);
        if value > bound {
            return Err(VerbsError::TooLarge { what: "the region's length", value, bound });
        }
        Ok(())
    }
}

/// Rights as the adapter accepts them: remote writing and remote atomics need local writing as well (IBA 10.6.3.1).
fn check_access(access: AccessFlags) -> Result<u32> {
    let writing = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
    if access.intersects(writing) && !access.contains(AccessFlags::LOCAL_WRITE) {
        return Err(VerbsError::Invalid("remote writing and remote atomics need local writing"));
    }
    Ok(convert::access(access))
}

impl ProtectionDomain<Hw> for HwPd {
    fn alloc_mr(&self, len: usize, access: AccessFlags) -> Result<HwMr> {
        self.check_len(len)?;
        let raw = ffi::Mr::alloc(&self.raw, len, check_access(access)?)?;
        Ok(HwMr(Rc::new(raw), Rc::new(())))
    }

    fn register(&self, memory: Box<dyn PinnedMemory>, access: AccessFlags) -> Result<HwMr> {
        self.check_len(memory.len())?;
        let raw = ffi::Mr::brought(&self.raw, memory, check_access(access)?)?;
        Ok(HwMr(Rc::new(raw), Rc::new(())))
    }

    fn register_part(&self, of: &HwMr, range: Range<usize>, access: AccessFlags) -> Result<HwMr> {
        let len = of.span(&range)?;
        of.reach(range.start, len)?;
        if !of.0.is_registered() {
            return Err(VerbsError::Invalid("the memory region was deregistered"));
        }
        if !of.0.is_of(&self.raw) {
            return Err(VerbsError::Invalid("the memory region is of another domain"));
        }
        if !of.0.has_parts() {
            return Err(VerbsError::Invalid("parts are of memory that was allocated whole"));
        }
        let raw = ffi::Mr::part(&self.raw, &of.0, range.start, len, check_access(access)?)?;
        Ok(HwMr(Rc::new(raw), Rc::new(())))
    }

    fn create_qp(&self, init: &QpInit<'_, Hw>) -> Result<HwQp> {
        HwQp::create(self, init)
    }

    fn create_srq(&self, max_wr: u32, max_sge: u32) -> Result<HwSrq> {
        HwSrq::create(self, max_wr, max_sge)
    }

    fn create_ah(&self, path: &Path) -> Result<HwAh> {
        HwAh::create(self, path)
    }
}

/// A memory region: the registration, which posted requests hold as well, and what counts the handles alone.
#[derive(Clone)]
pub struct HwMr(pub(crate) Rc<ffi::Mr>, Rc<()>);

impl fmt::Debug for HwMr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HwMr")
            .field("addr", &format_args!("{:#x}", self.0.addr()))
            .field("len", &self.0.len())
            .field("rkey", &format_args!("{:#x}", self.0.rkey()))
            .finish()
    }
}

impl HwMr {
    fn bounds(&self, at: usize, len: usize) -> Result<()> {
        if at.checked_add(len).is_some_and(|end| end <= self.0.len()) {
            return Ok(());
        }
        Err(VerbsError::OutOfRange { at: at as u64, len: len as u64, size: self.0.len() as u64 })
    }

    /// The range is there, and is no living part's.
    fn reach(&self, at: usize, len: usize) -> Result<()> {
        self.bounds(at, len)?;
        if self.0.is_lent(at, len) {
            return Err(VerbsError::Busy("the range of the memory region"));
        }
        Ok(())
    }

    fn span(&self, range: &Range<usize>) -> Result<usize> {
        let backwards = VerbsError::Invalid("a range that ends before it begins");
        let len = range.end.checked_sub(range.start).ok_or(backwards)?;
        self.bounds(range.start, len)?;
        Ok(len)
    }

    fn word(&self, at: usize) -> Result<()> {
        if !at.is_multiple_of(8) || !self.0.is_word(at) {
            return Err(VerbsError::Misaligned { at: at as u64, align: 8 });
        }
        self.reach(at, 8)
    }
}

impl MemoryRegion for HwMr {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn addr(&self) -> u64 {
        self.0.addr()
    }

    fn lkey(&self) -> u32 {
        self.0.lkey()
    }

    fn rkey(&self) -> u32 {
        self.0.rkey()
    }

    fn remote(&self, range: Range<usize>) -> Result<RemoteSlice> {
        let len = self.span(&range)?;
        let bound = u64::from(u32::MAX);
        let too_large = || VerbsError::TooLarge { what: "the range's length", value: len as u64, bound };
        let len = u32::try_from(len).map_err(|_| too_large())?;
        Ok(RemoteSlice { addr: self.0.addr() + range.start as u64, len, rkey: self.0.rkey() })
    }

    fn read(&self, at: usize, out: &mut [u8]) -> Result<()> {
        self.reach(at, out.len())?;
        self.0.read(at, out);
        Ok(())
    }

    fn read_behind(&self, at: usize, len: usize, to: &mut Vec<u8>) -> Result<()> {
        self.reach(at, len)?;
        self.0.read_behind(at, len, to);
        Ok(())
    }

    fn write(&self, at: usize, bytes: &[u8]) -> Result<()> {
        self.reach(at, bytes.len())?;
        self.0.write(at, bytes);
        Ok(())
    }

    fn load(&self, at: usize) -> Result<u64> {
        self.word(at)?;
        Ok(self.0.load(at))
    }

    fn store(&self, at: usize, value: u64) -> Result<()> {
        self.word(at)?;
        self.0.store(at, value);
        Ok(())
    }

    fn deregister(&self) -> Result<()> {
        if Rc::strong_count(&self.0) > Rc::strong_count(&self.1) || self.0.lends() {
            return Err(VerbsError::Busy("the memory region"));
        }
        self.0.deregister()
    }

    #[allow(unsafe_code, reason = "the contract's own unsafe claim; nothing unsafe is done here")]
    unsafe fn claim(&self, range: Range<usize>) -> Result<NonNull<[u8]>> {
        let len = self.span(&range)?;
        self.reach(range.start, len)?;
        Ok(self.0.claim(range.start, len))
    }
}
