//! Who is suspected. Nothing depends on it for safety: a member that is suspected in error is left out of a view, and
//! learns so.
//!
//! A member is asked for an answer when something waits for it: its voice, its renewal of a lease, or what a system
//! [watches](super::Event::Watch) it for. One that gives none in time is suspected until it speaks.

use super::core::{Core, Phase};
use super::events::Action;
use super::messages::Message;
use super::view::Member;
use crate::transport::Rank;
use weft_verbs::Nanos;

impl Core {
    /// An answer is expected from this member, whatever it is.
    pub(super) fn probe(&mut self, now: Nanos, member: Member) {
        let until = now + self.config.patience;
        if !self.suspected.contains(&member) {
            self.probes.entry(member).or_insert((until, Vec::new()));
        }
    }

    /// What is due now.
    pub(super) fn detect(&mut self, now: Nanos, out: &mut Vec<Action>) {
        let silent: Vec<Member> =
            self.probes.iter().filter(|(_, (until, _))| *until <= now).map(|(member, _)| *member).collect();
        for member in silent {
            self.probes.remove(&member);
            self.suspected.insert(member);
            self.complain(member, out);
            self.give_up_what_cannot_act(out);
        }
        let due = |rank: &Rank| self.is_pinged(*rank) && self.watched[rank].next <= now;
        let due: Vec<Rank> = self.watched.keys().copied().filter(due).collect();
        for rank in due {
            let Some(member) = self.view.of(rank) else { continue };
            self.send(member, Message::Ping { view: self.view.id }, out);
            self.probe(now, member);
        }
    }

    /// Whether a node is watched and may be asked: its answer is not awaited already, and has not failed to come.
    pub(super) fn is_pinged(&self, rank: Rank) -> bool {
        let member = self.view.of(rank).filter(|member| self.phase == Phase::In && *member != self.me);
        member.is_some_and(|member| !self.probes.contains_key(&member) && !self.suspected.contains(&member))
    }

    /// Tells the one that proposes, if that is somebody else.
    fn complain(&mut self, about: Member, out: &mut Vec<Action>) {
        if self.phase == Phase::In
            && let Some(first) = self.candidates().first().copied().filter(|first| *first != self.me)
        {
            self.send(first, Message::Complaint { about }, out);
        }
    }

    /// Somebody cannot reach a member. If this one can, it says so.
    pub(super) fn on_complaint(&mut self, now: Nanos, from: Member, about: Member, out: &mut Vec<Action>) {
        if self.phase != Phase::In || !self.view.contains(about) || self.suspected.contains(&about) {
            return;
        }
        if about == self.me {
            return self.send(from, Message::Vouch { about }, out);
        }
        if !self.probes.contains_key(&about) {
            self.send(about, Message::Ping { view: self.view.id }, out);
            self.probe(now, about);
        }
        if let Some((_, complainers)) = self.probes.get_mut(&about) {
            complainers.push(from.rank);
        }
    }

    /// A member has spoken.
    pub(super) fn answered(&mut self, now: Nanos, from: Member, out: &mut Vec<Action>) {
        let complainers = self.probes.get(&from).map(|(_, complainers)| complainers.clone());
        for rank in complainers.into_iter().flatten() {
            if let Some(member) = self.view.of(rank) {
                self.send(member, Message::Vouch { about: from }, out);
            }
        }
        self.trust(now, from);
    }

    /// A member is there, by its own word or another's.
    pub(super) fn trust(&mut self, now: Nanos, member: Member) {
        self.probes.remove(&member);
        self.suspected.remove(&member);
        let next = now + self.config.patience;
        if let Some(watched) = self.watched.get_mut(&member.rank) {
            watched.next = next;
        }
    }
}
