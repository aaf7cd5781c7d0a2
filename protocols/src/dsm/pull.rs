//! Pulls: a reader takes a minipage that others read already, by RDMA, and disturbs no processor there (kernel-dsm.txt, 4.2:
//! "fetching data with RDMA-R when the remote processor need not be disturbed").
//!
//! The manager names a node whose own read of the version is done, so that the data are there; the read stays open until this node
//! says that it is done, so that they stay there. What ends in an error is read again: nobody changes it meanwhile.

use super::DsmError;
use super::follow::Flight;
use super::memory::Object;
use super::messages::{Access, Message};
use super::reach::Moment;
use super::reading::Decision;
use super::requests::{Progress, hops};
use super::service::Service;
use super::shared::PageId;
use crate::transport::{BEFORE_MEMORY_IS_ASKED_FOR, NotExecuted, OpError, Rank};
use std::rc::Rc;
use weft_verbs::{RemoteSlice, Verbs};

impl<V: Verbs> Service<V> {
    /// The manager says where this node finds what it asked for.
    pub fn on_pull(self: &Rc<Self>, page: PageId, id: u32, source: (Rank, RemoteSlice), version: u64) {
        let asked = self.requests.borrow().is_open(page, Access::Read, id);
        match self.memory.object(page.object).filter(|object| object.has(page.index) && asked) {
            Some(object) => {
                let service = Rc::clone(self);
                // Of this epoch, whichever the task begins in: in the next one the source need not keep what it has.
                let under_way = (self.reach.now(source.0), self.takes_off());
                let pull = async move { service.pull(&object, page, id, source, version, under_way).await };
                drop(self.rt.spawn(pull));
            }
            None => self.stats.borrow_mut().out_of_turn += 1,
        }
    }

    async fn pull(
        self: Rc<Self>,
        object: &Rc<Object<V>>,
        page: PageId,
        id: u32,
        (source, at): (Rank, RemoteSlice),
        version: u64,
        (when, _flight): (Moment, Flight<V>),
    ) {
        loop {
            // Nothing is fetched for a memory that has ended.
            if self.check().is_err() {
                return;
            }
            // In the next epoch the request is made again.
            if !self.reach.met(source, when).await {
                return;
            }
            match self.mesh.read_into(source, at, object.bytes(page.index)).await {
                Ok(_) => break,
                Err(OpError::Unknown(_) | OpError::NotExecuted(NotExecuted::Failed(_))) => {
                    // The next one waits until the connection is there again.
                    match self.mesh.resolve_outcomes(source).await {
                        Err(NotExecuted::PeerGone(_)) => return,
                        Err(_) => return self.fail(DsmError::Closed),
                        Ok(()) if !self.reach.is_now(source, when) => return,
                        Ok(()) => {}
                    }
                }
                Err(OpError::NotExecuted(NotExecuted::PeerGone(_) | NotExecuted::PeerReset(_)))
                    if self.following.is_some() => {}
                // The inbox tells of it, and that is the end.
                Err(OpError::NotExecuted(NotExecuted::PeerReset(_))) => return,
                // Messages carry a read over another rail than the memory's, and need some for themselves.
                Err(why) if why.lacks_memory() => self.rt.sleep(BEFORE_MEMORY_IS_ASKED_FOR).await,
                Err(OpError::NotExecuted(_)) => return self.fail(DsmError::Closed),
            }
        }
        if !self.reach.is_now(source, when) {
            return;
        }
        {
            let mut stats = self.stats.borrow_mut();
            stats.pulls += 1;
            stats.pulled += object.range(page.index).len() as u64;
        }
        let manager = self.manager(object, page);
        let hops = hops(self.mesh.me(), manager, source);
        let progress = self.requests.borrow_mut().on_notice(page, id, 1, hops);
        if let Progress::Granted { need, joined, hops } = progress {
            self.grant(object, page, need, version, joined, hops);
            if self.decides(Decision::PullsAreOpen) {
                self.send(manager, &Message::Done { page, id });
            }
            self.close_freed();
            self.watch_no_more();
        }
    }
}
