//! Protection domains and memory regions.

use super::qp::QpHandle;
use super::{Place, Sim, SimAh, SimContext, SimQp, SimSrq, on_drop};
use crate::hca::Key;
use crate::world::World;
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;
use weft_verbs::{
    AccessFlags, MemoryRegion, Path, PinnedMemory, ProtectionDomain, QpInit, RemoteSlice, Result, VerbsError,
};

/// A protection domain of a simulated adapter.
#[derive(Clone)]
pub struct SimPd(pub(super) Rc<PdHandle>);

pub(super) struct PdHandle {
    pub place: Place,
    /// Keeps the context open.
    _context: SimContext,
    pub key: Key,
}

impl fmt::Debug for SimPd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimPd").field(&self.0.key).finish()
    }
}

impl Drop for PdHandle {
    fn drop(&mut self) {
        let (hca, key) = (self.place.hca, self.key);
        on_drop(&self.place.world, move |w| w.free_pd(hca, key));
    }
}

impl SimPd {
    pub(super) fn alloc(context: &SimContext) -> Result<SimPd> {
        let place = context.place().clone();
        let (hca, ctx) = (place.hca, place.ctx);
        let key = place.world.borrow_mut().call(move |world| world.alloc_pd(hca, ctx))?;
        Ok(SimPd(Rc::new(PdHandle { place, _context: context.clone(), key })))
    }

    fn region(&self, new: crate::world::NewRegion, of: Option<SimMr>) -> SimMr {
        SimMr(Rc::new(MrHandle {
            place: self.0.place.clone(),
            _pd: self.clone(),
            _of: of,
            key: new.key,
            addr: new.addr,
            len: new.len,
            lkey: new.lkey,
            rkey: new.rkey,
            revoked: Cell::new(false),
        }))
    }
}

impl ProtectionDomain<Sim> for SimPd {
    fn alloc_mr(&self, len: usize, access: AccessFlags) -> Result<SimMr> {
        let &Place { ref world, node, hca, .. } = &self.0.place;
        let key = self.0.key;
        let new = world.borrow_mut().call(move |world| world.alloc_mr(node, hca, key, len, access))?;
        Ok(self.region(new, None))
    }

    fn register(&self, memory: Box<dyn PinnedMemory>, access: AccessFlags) -> Result<SimMr> {
        let ctx = &self.0.place;
        let mut world = ctx.world.borrow_mut();
        // The state that is kept holds on to this memory, and the next set-up brings other.
        world.call_is_unrepeatable();
        let new = world.register_mr(ctx.node, ctx.hca, self.0.key, Rc::from(memory), access)?;
        drop(world);
        Ok(self.region(new, None))
    }

    fn register_part(&self, of: &SimMr, range: Range<usize>, access: AccessFlags) -> Result<SimMr> {
        let &Place { ref world, node, hca, .. } = &self.0.place;
        if of.0.revoked.get() {
            return Err(VerbsError::Invalid("the memory region was deregistered"));
        }
        if of.0.place.node != node || of.0.place.hca != hca {
            return Err(VerbsError::Invalid("the memory region is of another adapter"));
        }
        of.span(&range)?;
        let (key, part) = (self.0.key, (of.0.key, range));
        let register = move |world: &mut World| world.register_part(node, hca, key, part.clone(), access);
        let new = world.borrow_mut().call(register)?;
        Ok(self.region(new, Some(of.clone())))
    }

    fn create_qp(&self, init: &QpInit<'_, Sim>) -> Result<SimQp> {
        QpHandle::create(self, init)
    }

    fn create_srq(&self, max_wr: u32, max_sge: u32) -> Result<SimSrq> {
        SimSrq::create(self, max_wr, max_sge)
    }

    fn create_ah(&self, path: &Path) -> Result<SimAh> {
        SimAh::create(self, path)
    }
}

/// A memory region of a simulated adapter.
#[derive(Clone)]
pub struct SimMr(pub(super) Rc<MrHandle>);

pub(super) struct MrHandle {
    pub place: Place,
    _pd: SimPd,
    /// Keeps the region of which it is a part.
    _of: Option<SimMr>,
    pub key: Key,
    addr: u64,
    len: usize,
    lkey: u32,
    rkey: u32,
    /// Whether it was deregistered.
    pub revoked: Cell<bool>,
}

impl fmt::Debug for SimMr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimMr")
            .field("addr", &format_args!("{:#x}", self.0.addr))
            .field("len", &self.0.len)
            .field("rkey", &format_args!("{:#x}", self.0.rkey))
            .finish()
    }
}

impl Drop for MrHandle {
    fn drop(&mut self) {
        let &Place { ref world, node, hca, .. } = &self.place;
        let key = self.key;
        // Memory that the application brought is released after the world's borrow has ended: its destructor
        // is the application's code.
        on_drop(world, move |w| {
            let brought = w.dereg_mr(node, hca, key);
            w.brought.extend(brought);
        });
    }
}

impl SimMr {
    fn bounds(&self, at: usize, len: usize) -> Result<()> {
        if at.checked_add(len).is_some_and(|end| end <= self.0.len) {
            Ok(())
        } else {
            Err(VerbsError::OutOfRange { at: at as u64, len: len as u64, size: self.0.len as u64 })
        }
    }

    fn span(&self, range: &Range<usize>) -> Result<usize> {
        let backwards = VerbsError::Invalid("a range that ends before it begins");
        let len = range.end.checked_sub(range.start).ok_or(backwards)?;
        self.bounds(range.start, len)?;
        Ok(len)
    }

    fn word(&self, at: usize) -> Result<()> {
        if !at.is_multiple_of(8) {
            return Err(VerbsError::Misaligned { at: at as u64, align: 8 });
        }
        self.bounds(at, 8)
    }
}

impl MemoryRegion for SimMr {
    fn len(&self) -> usize {
        self.0.len
    }

    fn addr(&self) -> u64 {
        self.0.addr
    }

    fn lkey(&self) -> u32 {
        self.0.lkey
    }

    fn rkey(&self) -> u32 {
        self.0.rkey
    }

    fn remote(&self, range: Range<usize>) -> Result<RemoteSlice> {
        let len = self.span(&range)?;
        let bound = u64::from(u32::MAX);
        let len = u32::try_from(len).map_err(|_| VerbsError::TooLarge {
            what: "the range's length",
            value: len as u64,
            bound,
        })?;
        Ok(RemoteSlice { addr: self.0.addr + range.start as u64, len, rkey: self.0.rkey })
    }

    fn read(&self, at: usize, out: &mut [u8]) -> Result<()> {
        self.bounds(at, out.len())?;
        let &Place { ref world, node, hca, .. } = &self.0.place;
        let key = self.0.key;
        world.borrow_mut().call_into(out, move |world, out| world.cpu_read(node, hca, key, at, out))
    }

    fn write(&self, at: usize, bytes: &[u8]) -> Result<()> {
        self.bounds(at, bytes.len())?;
        let &Place { ref world, node, hca, .. } = &self.0.place;
        let key = self.0.key;
        let write = move |world: &mut World, (), bytes: &[u8]| world.cpu_write(node, hca, key, at, bytes);
        world.borrow_mut().call_with((), bytes, write)
    }

    fn load(&self, at: usize) -> Result<u64> {
        self.word(at)?;
        let mut word = [0; 8];
        self.read(at, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    fn store(&self, at: usize, value: u64) -> Result<()> {
        self.word(at)?;
        self.write(at, &value.to_ne_bytes())
    }

    fn deregister(&self) -> Result<()> {
        if self.0.revoked.get() {
            return Ok(());
        }
        let &Place { ref world, node, hca, .. } = &self.0.place;
        let key = self.0.key;
        world.borrow_mut().call(move |world| world.revoke_mr(node, hca, key))?;
        self.0.revoked.set(true);
        Ok(())
    }

    #[allow(unsafe_code)]
    unsafe fn claim(&self, range: Range<usize>) -> Result<NonNull<[u8]>> {
        self.span(&range)?;
        let ctx = &self.0.place;
        let mut world = ctx.world.borrow_mut();
        world.call_is_unrepeatable();
        world.claim(ctx.node, ctx.hca, self.0.key, range)
    }
}
