//! Freeing: an object is given back on all nodes, in two steps.
//!
//! A node that frees an object asks all nodes to **close** it: from then on every call that names it ends in
//! [`DsmError::Freed`], and the node answers when nothing of it is open there any more: no request, no grant whose access is not
//! executed, no claim, be it one that waits for another object's minipages, no minipage that an adapter still sends. When all have
//! answered nothing is on its way anywhere that names the object's memory, and all are asked to **forget** it. A freed name does not
//! come back.
//!
//! A task does that, and goes on if the call that waits for it is dropped: an object that is closed and never forgotten would keep its
//! memory on all nodes, and nobody could free it any more.

use super::DsmError;
use super::messages::{Freeing, Message};
use super::reading::Decision;
use super::service::Service;
use super::shared::{ObjectId, PageId, Plain, Shared};
use super::thread::Thread;
use crate::number_set::NumberSet;
use crate::rt::sync::{OneshotSender, oneshot};
use crate::transport::Rank;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use weft_verbs::Verbs;

/// What a node knows of objects that are being freed.
#[derive(Default)]
pub(super) struct Frees {
    /// Objects that are being freed, with which nobody may begin anything any more, and who frees each.
    closed: BTreeMap<ObjectId, Rank>,
    /// Those that were forgotten here once. They may be closed and forgotten again, after others have died.
    forgotten: NumberSet,
    /// Nodes that wait until nothing of an object is open here, each with the number of its call.
    closing: Vec<(ObjectId, Rank, u32)>,
    /// This node's calls, by number: the step, and who has not answered.
    calls: BTreeMap<u32, Call>,
    next: u32,
}

struct Call {
    object: ObjectId,
    step: Freeing,
    awaited: BTreeSet<Rank>,
    done: OneshotSender<()>,
}

impl Frees {
    /// Whether an object is freed, or is being.
    pub fn has(&self, object: ObjectId) -> bool {
        self.closed.contains_key(&object) || self.has_forgotten(object)
    }

    /// The objects that are freed, or are being.
    pub fn all(&self) -> Vec<ObjectId> {
        let forgotten = self.forgotten.iter().map(ObjectId);
        let all: BTreeSet<ObjectId> = self.closed.keys().copied().chain(forgotten).collect();
        all.into_iter().collect()
    }

    /// Calls and answers that are open.
    pub fn open(&self) -> u64 {
        (self.closing.len() + self.calls.len()) as u64
    }

    /// Whether a node waits until nothing of an object is open here.
    pub fn is_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// Whether this node waits for others.
    pub fn waits(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Nothing of an object is there any more.
    fn forget(&mut self, object: ObjectId) {
        self.closed.remove(&object);
        self.forgotten.insert(object.0);
    }

    /// Whether an object was forgotten here. What others report of it later is of no use.
    pub fn has_forgotten(&self, object: ObjectId) -> bool {
        self.forgotten.contains(object.0)
    }

    /// Nobody will answer.
    pub fn fail(&mut self) {
        self.calls.clear();
        self.closing.clear();
    }
}

impl<V: Verbs> Thread<V> {
    /// Gives memory back, on all nodes. Whoever uses it from now on gets an error; what others have begun is ended first. If the call is
    /// dropped the memory is given back all the same.
    ///
    /// # Errors
    ///
    /// It is freed already, or the shared memory has ended.
    pub async fn free<T: Plain>(&mut self, what: Shared<[T]>) -> Result<(), DsmError> {
        let (service, object) = (&self.dsm().0, what.object());
        service.check()?;
        if service.frees.borrow().has(object) {
            return Err(DsmError::Freed(object));
        }
        // From now on, whoever waits for the call: it is not freed once more.
        service.frees.borrow_mut().closed.insert(object, service.mesh.me());
        let freeing = Rc::clone(service);
        let freed = service.rt.spawn(async move { freeing.free(object).await });
        freed.await.unwrap_or(Err(DsmError::Closed))
    }
}

impl<V: Verbs> Service<V> {
    async fn free(self: &Rc<Self>, object: ObjectId) -> Result<(), DsmError> {
        for step in [Freeing::Close, Freeing::Forget] {
            // Who asks after the memory has ended is told by nobody.
            self.check()?;
            let (done, all) = oneshot();
            self.ask_all(object, step, done);
            self.watch();
            if all.await.is_err() {
                return self.check().and(Err(DsmError::Closed));
            }
        }
        Ok(())
    }

    fn ask_all(&self, object: ObjectId, step: Freeing, done: OneshotSender<()>) {
        let nodes = self.nodes();
        let id = {
            let mut frees = self.frees.borrow_mut();
            let id = frees.next;
            frees.next = id.wrapping_add(1);
            frees.calls.insert(id, Call { object, step, awaited: nodes.iter().copied().collect(), done });
            id
        };
        if self.has_begun() {
            nodes.into_iter().for_each(|node| self.send(node, &Message::Free { object, id, step }));
        }
    }

    /// An epoch begins: what is asked of the others is asked anew, and what the dead were freeing is freed by those who know.
    pub fn free_again(self: &Rc<Self>) {
        let (nodes, mut frees) = (self.nodes(), self.frees.borrow_mut());
        frees.closing.retain(|(_, to, _)| nodes.contains(to));
        let mut asks = Vec::new();
        for (id, call) in &mut frees.calls {
            call.awaited = nodes.iter().copied().collect();
            asks.push(Message::Free { object: call.object, id: *id, step: call.step });
        }
        let me = self.mesh.me();
        // Also those that this node has no memory of: others may have some, and not know that it is freed.
        let orphans = frees.closed.iter_mut().filter(|(_, by)| !nodes.contains(by));
        let orphans: Vec<ObjectId> = orphans
            .map(|(object, by)| {
                *by = me;
                *object
            })
            .collect();
        drop(frees);
        for ask in asks {
            nodes.iter().for_each(|node| self.send(*node, &ask));
        }
        for object in orphans {
            let service = Rc::clone(self);
            // Others may do so, too; it fails with the memory.
            drop(self.rt.spawn(async move { drop(service.free(object).await) }));
        }
    }

    /// A node frees an object.
    pub fn on_free(self: &Rc<Self>, object: ObjectId, (from, id): (Rank, u32), step: Freeing) {
        match step {
            Freeing::Close => {
                let mut frees = self.frees.borrow_mut();
                frees.closed.insert(object, from);
                // It may be asked once more, in another epoch.
                frees.closing.retain(|open| *open != (object, from, id));
                frees.closing.push((object, from, id));
            }
            Freeing::Forget => {
                if self.decides(Decision::FreeForgetsBook) {
                    self.directory.borrow_mut().forget(object);
                }
                self.memory.forget(object);
                self.forget_lost(object);
                self.by_object.borrow_mut().forget(object);
                self.frees.borrow_mut().forget(object);
                self.send(from, &Message::Freed { object, id, step });
            }
        }
    }

    /// Answers for the objects of which nothing is open here any more.
    pub fn close_freed(&self) {
        if !self.frees.borrow().is_closing() {
            return;
        }
        let closed: Vec<_> = {
            let mut frees = self.frees.borrow_mut();
            frees
                .closing
                .extract_if(.., |(object, ..)| !self.decides(Decision::FreeWaits) || !self.uses(*object))
                .collect()
        };
        for (object, to, id) in closed {
            self.send(to, &Message::Freed { object, id, step: Freeing::Close });
        }
    }

    /// Whether anything of an object is open at this node.
    fn uses(&self, id: ObjectId) -> bool {
        self.requests.borrow().any_of(id)
            || self.pins.borrow().any_of(id)
            || self.leaving.borrow().range(PageId::all_of(id)).next().is_some()
            || self.memory.object(id).is_some_and(|object| object.owed() > 0)
    }

    /// A node has done a step.
    pub fn on_freed(&self, (from, id): (Rank, u32), step: Freeing) {
        let mut frees = self.frees.borrow_mut();
        let Some(call) = frees.calls.get_mut(&id).filter(|call| call.step == step) else {
            drop(frees);
            // It was asked once more, in another epoch.
            return;
        };
        call.awaited.remove(&from);
        if call.awaited.is_empty()
            && let Some(call) = frees.calls.remove(&id)
        {
            // The node's program may have ended.
            let _ = call.done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_takes_no_more_room_than_there_are_gaps_in_it() {
        let (mut frees, by) = (Frees::default(), Rank::from_index(1));
        let made = |number| ObjectId::of(by, number, 0);
        // In pairs, the later one first.
        for number in (0..10_000).map(|nth| nth ^ 1) {
            frees.closed.insert(made(number), by);
            assert!(frees.has(made(number)) && !frees.has_forgotten(made(number)));
            frees.forget(made(number));
            assert!(frees.has(made(number)) && frees.has_forgotten(made(number)));
        }
        assert_eq!((frees.closed.len(), frees.forgotten.ranges()), (0, 1));
        // One that is freed once more, after others have died, is there once.
        frees.closed.insert(made(3), by);
        assert_eq!(frees.all().len(), 10_000);
        assert!(!frees.has(made(10_000)) && !frees.has(ObjectId(0)));
    }
}
