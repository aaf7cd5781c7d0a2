//! How a thread comes by a minipage: it faults if its node has not the access, and waits for its turn if another thread has claimed
//! it (kernel-dsm.txt, 4.1: the synchronous entry point).

use super::DsmError;
use super::memory::{Memory, Object};
use super::messages::Access;
use super::pins::Purpose;
use super::reading::Decision;
use super::service::{Gone, Service};
use super::shared::PageId;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use weft_verbs::{Verbs, Work};

/// A minipage that a thread may use now, until it waits for anything else.
pub(super) struct Come<'a, V: Verbs> {
    /// The fault whose grant stays for it, if it had to wait for one.
    granted: Option<Fault<'a, V>>,
    /// If it did: over how many hops.
    pub hops: Option<u8>,
}

impl<V: Verbs> Come<'_, V> {
    /// What the thread came for is done: the grant need not stay for it any more.
    pub fn executed(self) {
        if let Some(fault) = self.granted {
            fault.executed();
        }
    }
}

/// Waits until the node may access a minipage so, and until it is this thread's turn there.
///
/// It keeps at most the grant that it waited for, and that in the one minipage. A claim's thread keeps those that it has pinned,
/// too: all of them lower.
pub(super) async fn come<'a, V: Verbs>(
    service: &'a Rc<Service<V>>,
    object: &'a Rc<Object<V>>,
    page: PageId,
    need: Access,
    purpose: Purpose,
) -> Result<Come<'a, V>, DsmError> {
    let mut come = Come { granted: None, hops: None };
    let mut had_turn = false;
    loop {
        // A grant that stays is there when the thread comes out of its fault: nobody looks again.
        if come.granted.is_none() && object.page(page.index).access < need {
            had_turn = false;
            service.check_there(object, page)?;
            let mut fault = Fault::begin(service, object, page, need);
            fault.wait().await?;
            come.hops = service.hops.borrow().get(&page).copied();
            if service.decides(Decision::GrantsStay) {
                come.granted = Some(fault);
            } else {
                drop(fault);
                // The thread needs a while to come out of its fault; messages are taken in meanwhile.
                service.rt.yield_now().await;
                service.rt.yield_now().await;
            }
            continue;
        }
        let owed = come.granted.is_some();
        if had_turn || service.admits(page, need, purpose, owed) {
            return Ok(come);
        }
        let turn = Turn::wait(service, page, need, owed);
        turn.until_it_is_the_first().await;
        service.memory.wait(page, || turn.is_it(purpose) || service.has_failed()).await;
        service.check()?;
        had_turn = true;
    }
}

impl<V: Verbs> Service<V> {
    /// How a minipage is claimed, for those who want to take it away.
    pub fn pinned(&self, page: PageId) -> Access {
        if self.decides(Decision::ClaimsStay) { self.pins.borrow().pinned(page) } else { Access::Invalid }
    }

    /// Whether a thread that has not waited for its turn may go ahead. A claim that no grant stays for lets an order go first.
    fn admits(&self, page: PageId, need: Access, purpose: Purpose, owed: bool) -> bool {
        let passes = owed || purpose == Purpose::Access || !self.order_waits(page);
        passes && self.pins.borrow().admits(page, need, purpose)
    }

    fn order_waits(&self, page: PageId) -> bool {
        self.server.borrow().waits_for(page)
    }

    /// Asks for a minipage that somebody will need, unless that is done already.
    pub fn fetch(self: &Rc<Self>, page: PageId, need: Access) {
        let Some(object) = self.memory.object(page.object) else { return };
        let there = self.check_there(&object, page).is_ok();
        if object.page(page.index).access < need && there && !self.requests.borrow().serves(page, need) {
            self.request(&object, page, need, 0);
        }
    }
}

/// A place among those that wait for a minipage that is claimed.
struct Turn<'a, V: Verbs> {
    service: &'a Rc<Service<V>>,
    page: PageId,
    turn: u64,
    owed: bool,
}

impl<'a, V: Verbs> Turn<'a, V> {
    fn wait(service: &'a Rc<Service<V>>, page: PageId, need: Access, owed: bool) -> Self {
        let turn = service.pins.borrow_mut().wait(page, need, owed);
        Turn { service, page, turn, owed }
    }

    /// Waits until there is nobody before it, or the memory has failed: until then nothing that happens is for it.
    async fn until_it_is_the_first(&self) {
        poll_fn(|cx| {
            let behind = self.service.pins.borrow_mut().stands_behind(self.page, self.turn, cx);
            if behind && !self.service.has_failed() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// A claim that no grant stays for lets an order go first that waits for the minipage: its node may not get it otherwise.
    fn is_it(&self, purpose: Purpose) -> bool {
        let passes = self.owed || purpose == Purpose::Access || !self.service.order_waits(self.page);
        passes && self.service.pins.borrow().is_turn(self.page, self.turn)
    }
}

impl<V: Verbs> Drop for Turn<'_, V> {
    fn drop(&mut self) {
        let next = self.service.pins.borrow_mut().leave(self.page, self.turn);
        // The next one may be able to go now.
        next.into_iter().for_each(Waker::wake);
        self.service.memory.wake(self.page);
        // So may who frees the minipage: a call that is dropped here may be the last that kept it.
        if self.service.frees.borrow().is_closing() {
            let _ = self.service.given_up.send(Gone::Claim(self.page));
        }
    }
}

/// An access that waits for its minipage: a page fault.
struct Fault<'a, V: Verbs> {
    service: &'a Rc<Service<V>>,
    object: &'a Rc<Object<V>>,
    page: PageId,
    /// The request's kind and number.
    kind: Access,
    id: u32,
    over: bool,
}

impl<'a, V: Verbs> Fault<'a, V> {
    /// Joins a request that serves the access, or makes one.
    fn begin(service: &'a Rc<Service<V>>, object: &'a Rc<Object<V>>, page: PageId, need: Access) -> Self {
        // The access faults, and its handler enters the kernel to block (kernel-dsm.txt, 4).
        service.charge(Work::PageFault);
        service.charge(Work::Syscall);
        let joined =
            service.requests.borrow_mut().join(page, need, service.decides(Decision::JoinsWhatServes));
        let (id, kind) = match joined {
            Some(joined) => {
                service.stats.borrow_mut().joined += 1;
                service.by_object.borrow_mut().of(page.object).joined += 1;
                joined
            }
            None => (service.request(object, page, need, 1), need),
        };
        Fault { service, object, page, kind, id, over: false }
    }

    fn is_open(&self) -> bool {
        self.service.requests.borrow().is_open(self.page, self.kind, self.id)
    }

    /// An error if the object is forgotten. A grant would have kept it, so the minipage was lost, and that is forgotten with it.
    fn check_freed(&self) -> Result<(), DsmError> {
        let object = self.page.object;
        if self.service.frees.borrow().has_forgotten(object) { Err(DsmError::Freed(object)) } else { Ok(()) }
    }

    /// Waits until the request is granted. From then on the grant stays until this fault is over.
    async fn wait(&mut self) -> Result<(), DsmError> {
        self.service.memory.wait(self.page, || !self.is_open()).await;
        self.service.check()?;
        let granted = self.check_freed().and_then(|()| self.service.check_there(self.object, self.page));
        // Otherwise nothing was granted that could stay.
        self.over = granted.is_err();
        granted
    }

    /// The access is executed: the grant need not stay for it any more.
    fn executed(mut self) {
        self.over = true;
        self.service.executed(self.object, self.page);
    }
}

impl<V: Verbs> Drop for Fault<'_, V> {
    fn drop(&mut self) {
        let is_there = || self.service.check_there(self.object, self.page).is_ok();
        if self.over || self.service.has_failed() || !is_there() {
            return;
        }
        let open = self.service.requests.borrow_mut().leave(self.page, self.kind, self.id);
        if !open {
            // Granted meanwhile. What waits for that is done elsewhere: a destructor sends nothing.
            let _ = self.service.given_up.send(Gone::Access(self.page));
        }
    }
}
