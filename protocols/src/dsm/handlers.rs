//! The asynchronous entry points: what a node does about each message, without waiting (kernel-dsm.txt, 4.1).

use super::DsmError;
use super::barrier::BarrierId;
use super::directory::{Asks, Book};
use super::memory::{Memory, Object};
use super::messages::{Access, Message};
use super::reading::Decision;
use super::rebuild::Report;
use super::requests::{Progress, hops};
use super::server::{Order, Verdict};
use super::service::{Gone, Service};
use super::shared::PageId;
use crate::rt::sync::Mailbox;
use crate::transport::{Inbox, Incoming, Rank};
use std::rc::Rc;
use weft_verbs::{Verbs, Work};

impl<V: Verbs> Service<V> {
    pub async fn listen(self: Rc<Self>, mut inbox: Inbox) {
        while let Some(incoming) = inbox.recv().await {
            match incoming {
                Incoming::Message(message) if self.restarted.get().is_some() => {
                    self.on_late(message.from(), message.bytes());
                }
                Incoming::Message(message) => {
                    if let Some(bytes) = self.counts(message.from(), message.bytes()) {
                        self.receive(message.from(), bytes);
                    }
                }
                // Where nodes agree on who is alive, a view tells. A guest has no part in the memory.
                Incoming::PeerReset { peer, .. }
                    if self.following.is_some() || peer.get() > self.mesh.size() => {}
                Incoming::PeerReset { peer, .. } => {
                    self.reach.hears_of(peer);
                    self.on_reset(peer);
                }
            }
        }
        self.fail(DsmError::Closed);
    }

    /// The asynchronous entry points (kernel-dsm.txt, 4.1): one message, handled without waiting.
    pub fn receive(self: &Rc<Self>, from: Rank, bytes: &[u8]) {
        let book = self.book();
        let mut sends = self.sends.take();
        match Message::decode(bytes) {
            Some(Message::Request { page, id, need, has, at, heir_of }) => {
                // Either of the two may have missed a view that says who died first. What one of them knows is so.
                let known = heir_of.is_none_or(|base| self.knows(base, page.object));
                let asks = Asks { from, id, need, at, had: has, known };
                let is_lost = self.directory.borrow_mut().on_request(page, asks, book, &mut sends);
                self.are_lost(is_lost.then_some(page));
            }
            Some(Message::Done { page, id }) => {
                let mut directory = self.directory.borrow_mut();
                let open = directory.on_done(page, from, id, book, &mut sends);
                // The last word about an object that is freed may be overtaken.
                let known =
                    open || !self.decides(Decision::PullsAreOpen) || self.frees.borrow().has(page.object);
                self.stats.borrow_mut().out_of_turn += u64::from(!known);
            }
            Some(Message::Forward { page, id, to, at, need, notices, version }) => {
                let keep = if need == Access::Read { Access::Read } else { Access::Invalid };
                self.on_order(Order { page, to, id, keep, transfer: Some(at), notices, version });
            }
            Some(Message::Invalidate { page, id, to, notices, version }) => {
                self.on_order(Order {
                    page,
                    to,
                    id,
                    keep: Access::Invalid,
                    transfer: None,
                    notices,
                    version,
                });
            }
            Some(Message::Notice { page, id, notices, version, data }) => {
                self.on_notice(from, page, id, notices, version, data);
            }
            Some(Message::Pull { page, id, from: source, at, version }) => {
                self.on_pull(page, id, (source, at), version);
            }
            Some(Message::Free { object, id, step }) => self.on_free(object, (from, id), step),
            Some(Message::Freed { id, step, .. }) => self.on_freed((from, id), step),
            Some(Message::Enter { barrier, id, parties }) => {
                let parties =
                    if self.decides(Decision::BarriersCountOnce) { parties } else { parties.div_ceil(2) };
                let come = self.barriers.borrow_mut().on_enter(BarrierId(barrier), from, id, parties);
                sends.extend(come.into_iter().map(|(node, id)| (node, Message::Leave { barrier, id })));
            }
            Some(Message::Leave { id, .. }) => match self.entered.borrow_mut().remove(&id) {
                // The call may have been dropped.
                Some(thread) => drop(thread.leave.send(Ok(()))),
                None => self.stats.borrow_mut().out_of_turn += 1,
            },
            Some(Message::Lost { page, id }) => self.on_lost(page, id),
            Some(Message::Otherwise { page, id }) => self.on_otherwise(page, id),
            Some(Message::Report { page, access, version, len, given }) => {
                let report = Report { from, access, version, len, given };
                let awaited = self.directory.borrow_mut().on_report(page, report);
                self.after_report(awaited, &mut sends);
            }
            Some(Message::Reported { reports }) => {
                let awaited = self.directory.borrow_mut().on_reported(from, reports);
                self.after_report(awaited, &mut sends);
            }
            Some(Message::Restore { page, version }) => self.on_restore(from, page, version),
            Some(Message::Restarted { who }) => self.on_restarted(who),
            // Its stamp has said all: see `counts`.
            Some(Message::Begun) => {}
            // They are of no memory: see `counts`.
            Some(Message::Here | Message::Ended) | None => self.stats.borrow_mut().malformed += 1,
        }
        for (to, message) in sends.drain(..) {
            self.send(to, &message);
        }
        self.sends.replace(sends);
        self.close_freed();
        self.watch_no_more();
    }

    /// How this node's managers keep their books.
    pub fn book(&self) -> Book {
        Book {
            decides_when_served: self.decides(Decision::DecidesWhenServed),
            keeps_server: self.decides(Decision::KeepsServer),
            pulls: self.config.pulls,
            pulls_from_done: self.decides(Decision::PullsFromDone),
            pulls_are_open: self.decides(Decision::PullsAreOpen),
            lost_with_receiver: self.decides(Decision::LostWithReceiver),
            me: self.mesh.me(),
        }
    }

    /// A manager orders something of this node.
    fn on_order(self: &Rc<Self>, order: Order) {
        let Some(object) = self.memory.object(order.page.object) else {
            self.stats.borrow_mut().out_of_turn += 1;
            return;
        };
        let has = object.page(order.page.index);
        let verdict = self.server.borrow_mut().on_order(
            order,
            has,
            self.pinned(order.page),
            self.decides(Decision::GrantsStay),
        );
        match verdict {
            Verdict::Now => self.carry_out(&object, order),
            Verdict::Later => self.stats.borrow_mut().orders_waited += 1,
            Verdict::OutOfTurn => self.stats.borrow_mut().out_of_turn += 1,
        }
    }

    /// Takes access away, transfers, and gives notice, in this order: a store after the transfer would be lost.
    fn carry_out(self: &Rc<Self>, object: &Rc<Object<V>>, order: Order) {
        if order.keep == Access::Invalid {
            object.change(order.page.index, |page| (page.given, page.told) = (Some(order.to), false));
        }
        if self.decides(Decision::ProtectsFirst) {
            self.revoke(order);
            self.hand_over(object, order);
        } else {
            self.hand_over(object, order);
            let service = Rc::clone(self);
            drop(self.rt.spawn(async move {
                service.rt.yield_now().await;
                service.revoke(order);
            }));
        }
    }

    fn revoke(&self, Order { page, keep, .. }: Order) {
        self.charge(Work::Protect { pages: 1 });
        if keep == Access::Invalid {
            self.memory.take_away(page);
            self.stats.borrow_mut().invalidations += 1;
        } else if self.decides(Decision::SharingDowngrades) {
            self.memory.downgrade(page);
        }
    }

    /// A holder, or the manager itself, has done what this node's request takes. With the last of them access is granted.
    fn on_notice(
        self: &Rc<Self>,
        from: Rank,
        page: PageId,
        id: u32,
        notices: u16,
        version: u64,
        data: Option<&[u8]>,
    ) {
        let Some(object) = self.memory.object(page.object).filter(|object| object.has(page.index)) else {
            self.stats.borrow_mut().out_of_turn += 1;
            return;
        };
        let manager = self.manager(&object, page);
        let ordered = if self.decides(Decision::CountsNotices) { notices } else { 1 };
        let hops = hops(self.mesh.me(), manager, from);
        let progress = self.requests.borrow_mut().on_notice(page, id, ordered, hops);
        if progress == Progress::Unknown {
            // Of a request that is done already: of a reading that does not count.
            self.stats.borrow_mut().out_of_turn += u64::from(self.decides(Decision::CountsNotices));
            return;
        }
        if let Some(data) = data {
            // Data in a notice, where no adapter has put them.
            let range = object.range(page.index);
            if data.len() != range.len() {
                self.stats.borrow_mut().malformed += 1;
                return;
            }
            object.write(range.start, data);
        }
        let done = match progress {
            Progress::More { first } => first && !self.decides(Decision::DoneWhenSet),
            Progress::Granted { need, joined, hops } => {
                self.grant(&object, page, need, version, joined, hops);
                self.decides(Decision::DoneWhenSet) || ordered == 1
            }
            Progress::Unknown => false,
        };
        if done {
            self.send(manager, &Message::Done { page, id });
        }
    }

    /// Another node has made the object otherwise, and asked for this minipage first: all who wait for it here are told.
    fn on_otherwise(&self, page: PageId, id: u32) {
        let object = self.memory.object(page.object);
        match object.filter(|_| self.requests.borrow_mut().ends_without(page, id)) {
            Some(object) => {
                object.change(page.index, |page| page.otherwise = true);
                self.memory.wake(page);
            }
            None => self.stats.borrow_mut().out_of_turn += 1,
        }
    }

    /// All who had to act have. The threads that wait may go on, and the grant stays until they have.
    pub fn grant(
        self: &Rc<Self>,
        object: &Object<V>,
        page: PageId,
        need: Access,
        version: u64,
        joined: u32,
        hops: u8,
    ) {
        let has = object.page(page.index).access;
        self.stats.borrow_mut().upgrades += u64::from(has == Access::Read && need == Access::Write);
        self.charge(Work::Protect { pages: 1 });
        object.change(page.index, |page| page.owed += joined);
        if joined > 0 {
            self.hops.borrow_mut().insert(page, hops);
        }
        if self.decides(Decision::WakesWhenSet) {
            self.memory.grant(page, need, version);
            self.memory.wake(page);
        } else {
            self.memory.wake(page);
            let service = Rc::clone(self);
            drop(self.rt.spawn(async move {
                service.rt.yield_now().await;
                service.memory.grant(page, need, version);
            }));
        }
    }

    /// An access that waited for a grant is executed, or was given up.
    pub fn executed(self: &Rc<Self>, object: &Rc<Object<V>>, page: PageId) {
        let mut owed = 0;
        object.change(page.index, |page| {
            page.owed -= 1;
            owed = page.owed;
        });
        if owed == 0 {
            self.hops.borrow_mut().remove(&page);
            self.go_on(object, page);
            self.close_freed();
        }
    }

    /// Carries out the orders that nothing holds up any more, and lets those go on who let them go first.
    fn go_on(self: &Rc<Self>, object: &Rc<Object<V>>, page: PageId) {
        let pinned = self.pinned(page);
        let orders = self.server.borrow_mut().on_free(
            page,
            object.page(page.index),
            pinned,
            self.decides(Decision::GrantsStay),
        );
        if !orders.is_empty() {
            orders.into_iter().for_each(|order| self.carry_out(object, order));
            self.memory.wake(page);
        }
    }

    /// Threads that were dropped owe nothing any more; their destructors post nothing.
    pub async fn clean_up(self: Rc<Self>, mut gone: Mailbox<Gone>) {
        while let Ok(gone) = gone.recv().await {
            let (Gone::Access(page) | Gone::Claim(page)) = gone;
            let Some(object) = self.memory.object(page.object) else { continue };
            match gone {
                Gone::Access(_) => self.executed(&object, page),
                Gone::Claim(_) => {
                    self.go_on(&object, page);
                    self.close_freed();
                }
            }
        }
    }
}
