//! Memory regions without an adapter: memory of the process, which nobody else reaches.

use crate::{NoQueuePair, NoSrq, Tcp, no_adapter};
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use weft_verbs::{
    AccessFlags, Caps, MemoryRegion, Path, PinnedMemory, ProtectionDomain, QpInit, RemoteSlice, Result,
    VerbsError,
};

/// `ENOMEM`.
const NO_MEMORY: i32 = 12;

/// A protection domain, of which all are alike.
#[derive(Clone, Copy, Debug)]
pub struct TcpPd(pub(crate) ());

impl ProtectionDomain<Tcp> for TcpPd {
    fn alloc_mr(&self, len: usize, _access: AccessFlags) -> Result<TcpMr> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| VerbsError::Os { call: "malloc", errno: NO_MEMORY })?;
        bytes.resize(len, 0);
        Ok(TcpMr(Rc::new(RefCell::new(bytes))))
    }

    fn register(&self, _memory: Box<dyn PinnedMemory>, _access: AccessFlags) -> Result<TcpMr> {
        Err(VerbsError::Unsupported(Caps::BROUGHT_MEMORY))
    }

    fn register_part(&self, _of: &TcpMr, _range: Range<usize>, _access: AccessFlags) -> Result<TcpMr> {
        no_adapter()
    }

    fn create_qp(&self, _init: &QpInit<'_, Tcp>) -> Result<NoQueuePair> {
        no_adapter()
    }

    fn create_srq(&self, _max_wr: u32, _max_sge: u32) -> Result<NoSrq> {
        Err(VerbsError::Unsupported(Caps::SRQ))
    }

    fn create_ah(&self, _path: &Path) -> Result<NoQueuePair> {
        Err(VerbsError::Unsupported(Caps::UD))
    }
}

/// A region: memory with the accessors of one. Its keys open nothing.
#[derive(Clone)]
pub struct TcpMr(Rc<RefCell<Vec<u8>>>);

impl fmt::Debug for TcpMr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpMr").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl TcpMr {
    fn checked(&self, at: usize, len: usize) -> Result<Range<usize>> {
        let end = at.checked_add(len).filter(|end| *end <= self.len());
        let outside = || VerbsError::OutOfRange { at: at as u64, len: len as u64, size: self.len() as u64 };
        end.map(|end| at..end).ok_or_else(outside)
    }

    fn word(&self, at: usize) -> Result<Range<usize>> {
        match at % 8 {
            0 => self.checked(at, 8),
            _ => Err(VerbsError::Misaligned { at: at as u64, align: 8 }),
        }
    }
}

impl MemoryRegion for TcpMr {
    fn len(&self) -> usize {
        self.0.borrow().len()
    }

    fn addr(&self) -> u64 {
        0
    }

    fn lkey(&self) -> u32 {
        0
    }

    fn rkey(&self) -> u32 {
        0
    }

    fn remote(&self, range: Range<usize>) -> Result<RemoteSlice> {
        let len = range.end.saturating_sub(range.start);
        self.checked(range.start, len)?;
        let bound = u32::MAX.into();
        let too_large = |_| VerbsError::TooLarge { what: "the range's length", value: len as u64, bound };
        Ok(RemoteSlice { addr: range.start as u64, len: len.try_into().map_err(too_large)?, rkey: 0 })
    }

    fn read(&self, at: usize, out: &mut [u8]) -> Result<()> {
        let range = self.checked(at, out.len())?;
        out.copy_from_slice(&self.0.borrow()[range]);
        Ok(())
    }

    fn write(&self, at: usize, bytes: &[u8]) -> Result<()> {
        let range = self.checked(at, bytes.len())?;
        self.0.borrow_mut()[range].copy_from_slice(bytes);
        Ok(())
    }

    fn load(&self, at: usize) -> Result<u64> {
        let mut word = [0; 8];
        self.word(at)?;
        self.read(at, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    fn store(&self, at: usize, value: u64) -> Result<()> {
        self.word(at)?;
        self.write(at, &value.to_ne_bytes())
    }

    fn deregister(&self) -> Result<()> {
        Ok(())
    }

    #[allow(unsafe_code, reason = "the contract's signature; nothing is claimed")]
    unsafe fn claim(&self, _range: Range<usize>) -> Result<std::ptr::NonNull<[u8]>> {
        no_adapter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_for_which_no_machine_has_memory_is_refused() {
        let asked = TcpPd(()).alloc_mr(usize::MAX / 2, AccessFlags::LOCAL_WRITE);
        assert_eq!(asked.map(|mr| mr.len()), Err(VerbsError::Os { call: "malloc", errno: NO_MEMORY }));
        assert_eq!(TcpPd(()).alloc_mr(9, AccessFlags::LOCAL_WRITE).map(|mr| mr.len()), Ok(9));
    }
}
