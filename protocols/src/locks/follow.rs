//! How a node's lock daemon follows the membership: what happens when a view begins, when it is lost, and when this node is left
//! out of it.
//!
//! *Freeze, revoke, report, resume.* Who left the view has been expelled from the mesh before this is told; what was said in earlier
//! views counts no more. Every member reports what it holds and wants to the homes of the new view, and these grant once all
//! have. `views` has what a home knows then.

use super::daemon::Daemon;
use super::stats::bump;
use super::views::{self, Place, Stamp};
use super::{Scheme, codec, ncosed, srsl};
use crate::members::{Change, Member, View, Watch};
use crate::rt::WaitPoint;
use crate::rt::sync::Mailbox;
use crate::transport::Rank;
use std::rc::Rc;
use weft_verbs::{Nanos, Verbs};

impl<V: Verbs> Daemon<V> {
    /// Follows the membership for as long as there is one.
    pub(super) async fn follow(self: Rc<Self>, mut changes: Mailbox<Change>) {
        while let Ok(change) = changes.recv().at(()).await {
            match change {
                Change::Begins { view, left } => self.begin(view, &left),
                Change::Lost => self.lose_all(),
                Change::Out => {
                    self.out.set(true);
                    self.lose_for_good();
                }
            }
        }
    }

    fn begin(self: &Rc<Self>, view: View, left: &[Member]) {
        let Some(members) = &self.members else { return };
        let stamp = views::stamp(view.id);
        self.net.speak_in(stamp, &view.members);
        let fence = members.grants_from();
        self.homes.begin(view, left.iter().map(|member| member.rank).collect(), fence);
        for (key, lock) in self.locks.borrow().iter() {
            if let Some(home) = self.homes.home_of(*key) {
                lock.requester.view_begins(home);
            }
        }
        for member in self.homes.members() {
            match self.net.is_settled(member) {
                true => self.say_reported(member),
                false => drop(self.rt.spawn(Rc::clone(self).report_once_settled(member, stamp))),
            }
        }
        for (from, of, bytes) in self.early.take() {
            match self.place(of) {
                Place::Now => self.on_message(from, &bytes),
                Place::Later => self.early.borrow_mut().push((from, of, bytes)),
                Place::Over => bump(&self.counters.stale_messages),
            }
        }
        self.reported.notify();
        if !self.homes.awaited().is_empty() {
            drop(self.rt.spawn(Rc::clone(self).watch_the_silent(stamp)));
        }
    }

    /// Has those asked whether they live who have not reported a patience after a view began: what is at home here waits for them. The one that
    /// proposes may be the only one whom they do not reach, and learns that from nobody else.
    async fn watch_the_silent(self: Rc<Self>, view: Stamp) {
        let Some(members) = &self.members else { return };
        let is_over = || self.net.view() != view || self.homes.awaited().is_empty();
        let at = self.rt.now() + members.patience();
        if self.rt.deadline(at, self.reported.until(is_over)).at((view, at)).await.is_err() {
            let watches: Vec<Watch<V>> =
                self.homes.awaited().into_iter().map(|rank| members.watch(rank)).collect();
            self.reported.until(is_over).at((view, "asks")).await;
            drop(watches);
        }
    }

    /// An atomic of an earlier view is under way to a member's words, which it uses anew once all have reported. (The view is the one
    /// that began as the task was made: another one may have begun before it runs.)
    async fn report_once_settled(self: Rc<Self>, to: Rank, view: Stamp) {
        self.net.settled(to).at((view, to)).await;
        if self.net.view() == view {
            self.say_reported(to);
        }
    }

    /// That was all that this node has and wants of the locks which that member keeps.
    fn say_reported(&self, to: Rank) {
        let Some(members) = &self.members else { return };
        let remaining = members.grants_from().0.saturating_sub(self.rt.now().0);
        match self.config.scheme {
            Scheme::Srsl => {
                srsl::Wire::send(&*self.net, to, ABOUT_NONE, srsl::Message::Reported { remaining });
            }
            _ => ncosed::Wire::send(&*self.net, to, ABOUT_NONE, ncosed::Message::Reported { remaining }),
        }
    }

    /// A member has reported all that it has and wants.
    pub(super) fn on_reported(self: &Rc<Self>, from: Rank, remaining: u64) {
        let Some(members) = &self.members else { return bump(&self.counters.out_of_turn) };
        let over = match remaining {
            0 => Nanos::ZERO,
            // By its clock, which may be slower by the drift.
            _ => self.rt.now() + Nanos(remaining) + members.drift(),
        };
        let fence = self.homes.reported(from, over);
        self.reported.notify();
        let Some(fence) = fence else { return };
        // The next view may begin before the task runs.
        let (daemon, view) = (Rc::clone(self), self.net.view());
        self.rt.spawn(async move { daemon.lift(view, fence).at(fence).await });
    }

    /// What those who left before this view may have held is free from then on.
    async fn lift(&self, view: Stamp, fence: Nanos) {
        self.rt.sleep_until(fence).at((view, fence)).await;
        if self.net.view() == view {
            self.homes.lift();
        }
    }

    /// A message that was said in a view.
    pub(super) fn in_a_view(self: &Rc<Self>, from: Rank, bytes: &[u8]) {
        let Some((message, of)) = codec::split_stamp(bytes) else { return bump(&self.counters.malformed) };
        match self.place(of) {
            Place::Now => self.on_message(from, message),
            Place::Later => self.early.borrow_mut().push((from, of, message.to_vec())),
            Place::Over => bump(&self.counters.stale_messages),
        }
    }

    fn place(&self, of: Stamp) -> Place {
        views::place(of, self.net.view(), &self.given_up.borrow())
    }

    /// Nothing that was held is held any more, and there is no home until the next view.
    fn lose_all(&self) {
        self.given_up.borrow_mut().note(self.net.view());
        self.net.speak_in(0, &[]);
        self.homes.end();
        self.reported.notify();
        self.losses.count.set(self.losses.count.get() + 1);
        self.losses.changed.notify();
        for lock in self.locks.borrow().values() {
            if lock.requester.view_lost() {
                lock.revoked.set(true);
                lock.queue_changed.notify();
            }
        }
    }

    /// The same, and there will be no next view.
    pub(super) fn lose_for_good(&self) {
        self.lose_all();
        self.locks.borrow().values().for_each(|lock| lock.requester.give_up());
    }
}

/// The key of a message that is about no lock.
const ABOUT_NONE: super::LockKey = super::LockKey(0);
