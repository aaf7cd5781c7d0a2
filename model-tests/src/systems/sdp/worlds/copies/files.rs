//! The file that is copied, and the shelf that it comes to.

use super::super::super::coding::{Coding, Way};
use super::history::{Event, What};
use super::promises::CopyOracles;
use crate::harness::Recorder;
use crate::history::{ClientId, RequestId};
use crate::record::Record;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::copy::{Finished, Partial, Source, Store};
use weft_sim::Sim;

/// Its name.
pub(super) const NAME: &str = "f";

/// The first bytes of the file.
fn fill(at: u32, bytes: &mut [u8]) {
    coding().fill(at.into(), bytes);
}

fn coding() -> Coding {
    Coding::of(RequestId { client: ClientId { node: 0, index: 0 }, number: 0 }, Way::There)
}

/// The file at its sender. A disk takes its time: others run before each answer.
pub(super) struct Given {
    pub rt: Rt<Sim>,
    pub at: u32,
    /// Where it ends.
    pub len: u32,
}

impl Source for Given {
    async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.rt.yield_now().await;
        let len = into.len().min((self.len - self.at) as usize);
        fill(self.at, &mut into[..len]);
        self.at += len as u32;
        Ok(len)
    }
}

/// When a shelf has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    Never,
    /// For nothing of the file.
    Begin,
    /// For a part of it.
    Append,
    /// For all of it, but it cannot be made safe.
    Finish,
    /// For all of it, but its name cannot be made safe.
    Name,
}

/// Where the file comes to.
#[derive(Clone)]
pub(super) struct Shelf {
    pub rt: Rt<Sim>,
    pub node: u32,
    pub full: Full,
    /// Files that are on their way.
    pub partials: Rc<Cell<u64>>,
    /// The length of the file that was put.
    pub len: u32,
    pub recorder: Recorder<CopyOracles>,
}

pub(super) struct OnItsWay {
    shelf: Shelf,
    got: u32,
    right: bool,
}

impl Shelf {
    async fn room(&self, at: Full) -> io::Result<()> {
        self.rt.yield_now().await;
        if self.full == at { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Store for Shelf {
    type Partial = OnItsWay;

    async fn create(&self, name: &str, len: u64) -> io::Result<OnItsWay> {
        self.room(Full::Begin).await?;
        self.partials.update(|partials| partials + 1);
        let right = name == NAME && len == u64::from(self.len);
        Ok(OnItsWay { shelf: self.clone(), got: 0, right })
    }
}

impl Partial for OnItsWay {
    async fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.shelf.room(Full::Append).await?;
        self.right &= coding().is_at(self.got.into(), bytes);
        self.got += bytes.len() as u32;
        Ok(())
    }

    async fn finish(self) -> io::Result<Finished> {
        self.shelf.room(Full::Finish).await?;
        let (node, whole) = (self.shelf.node, self.right && self.got == self.shelf.len);
        self.shelf.recorder.record(Event { node, what: What::Named { whole } });
        let is_safe = self.shelf.full != Full::Name;
        Ok(if is_safe { Finished::Safe } else { Finished::Named(io::ErrorKind::StorageFull.into()) })
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.shelf.partials.update(|partials| partials - 1);
    }
}
