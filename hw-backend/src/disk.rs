//! Disks on real machines: none yet. A context answers [`Caps::DISK`](weft_verbs::Caps::DISK) with `Unsupported`, so no value
//! of this type is ever made.

use crate::Hw;
use std::task::{Context, Poll};
use weft_verbs::{Disk, DiskCall, DiskEnd, DiskRequest};

/// A disk, of which there is none.
#[derive(Clone, Copy, Debug)]
pub enum HwDisk {}

impl Disk<Hw> for HwDisk {
    fn begin(&self, _: DiskCall<Hw>) -> HwDisk {
        *self
    }
}

impl DiskRequest<Hw> for HwDisk {
    fn poll_end(&mut self, _: &mut Context<'_>) -> Poll<DiskEnd<Hw>> {
        match *self {}
    }
}
