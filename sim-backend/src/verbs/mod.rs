//! The verbs contract's objects as handles on a simulated world.
//!
//! A handle is a reference count on the world and a number in it; its last clone destroys the object. The
//! world is borrowed for the length of one call and never while a node runs, so handles can be used from
//! anywhere in the thread: from a node's step, from a test, from another handle's drop.

mod ah;
mod cm;
mod cq;
mod device;
mod disk;
mod host;
mod memory;
mod oob;
mod qp;
mod srq;

pub use ah::SimAh;
pub use cm::SimCm;
pub use cq::{SimChannel, SimCq};
pub use device::{SimContext, SimDevice};
pub use disk::{SimDisk, SimDiskRequest};
pub use host::SimHost;
pub use memory::{SimMr, SimPd};
pub use oob::{SimOob, SimStream, SimStreamListener};
pub use qp::SimQp;
pub use srq::SimSrq;

use crate::NodeId;
use crate::hca::HcaId;
use crate::world::World;
use std::cell::RefCell;
use std::rc::Rc;
use weft_verbs::Verbs;

/// The simulated backend: the family of its types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sim;

impl Verbs for Sim {
    type Device = SimDevice;
    type Context = SimContext;
    type Pd = SimPd;
    type Mr = SimMr;
    type Channel = SimChannel;
    type Cq = SimCq;
    type Qp = SimQp;
    type Srq = SimSrq;
    type Ah = SimAh;
    type Cm = SimCm;
    type Oob = SimOob;
    type StreamListener = SimStreamListener;
    type Stream = SimStream;
    type Disk = SimDisk;
    type DiskRequest = SimDiskRequest;
    type Host = SimHost;
}

/// A world shared by its handles. The nodes' programs are kept elsewhere: a program holds handles, and a world
/// that held its programs would never be freed.
pub(crate) type WorldRef = Rc<RefCell<World>>;

/// Where a handle's object lives. Every handle has its own copy, so that a call need not ask its object's parents.
#[derive(Clone)]
pub(crate) struct Place {
    pub world: WorldRef,
    pub node: NodeId,
    pub hca: HcaId,
    /// The context, by its number.
    pub ctx: u32,
}

impl Place {
    /// Whether two handles live in the same context of the same world.
    #[inline]
    fn is_that_of(&self, other: &Place) -> bool {
        Rc::ptr_eq(&self.world, &other.world) && self.hca == other.hca && self.ctx == other.ctx
    }
}

/// Runs a destructor if the world can be borrowed. It always can, unless the code that an application brought
/// (the release of its own memory) drops handles while the world is at work; such an object lives on.
fn on_drop(world: &WorldRef, destroy: impl Fn(&mut World) + 'static) {
    let Ok(mut borrowed) = world.try_borrow_mut() else { return };
    if !borrowed.drop_handle(destroy) {
        return;
    }
    let (brought, woken) = (std::mem::take(&mut borrowed.brought), std::mem::take(&mut borrowed.woken));
    drop(borrowed);
    drop((brought, woken));
}
