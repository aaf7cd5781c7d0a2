//! One member: a state machine without I/O. Events and the time in, messages and views out.
//!
//! This file has what it knows, its views and its leases; `agree` has how the next view is decided, `detect` who is suspected,
//! `incarnations` who is no more, `lineages` where members act, `bound` when one that accepted a list may come in elsewhere.

use super::bound::Asked;
use super::config::MembersConfig;
use super::events::{Action, Event};
use super::lease::Lease;
use super::messages::{Envelope, Message};
use super::synod::{Acceptor, Proposal};
use super::view::{Ballot, Member, View, ViewId};
use crate::transport::Rank;
use std::collections::{BTreeMap, BTreeSet};
use weft_verbs::Nanos;

/// What a member takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It has no view.
    Cold,
    /// It has one.
    In,
    /// It was left out of one.
    Out,
}

/// A node that something here waits for.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Watched {
    waiters: u32,
    /// When to ask it next whether it is there.
    pub(super) next: Nanos,
}

/// One member.
#[derive(Clone, Debug, Hash)]
pub struct Core {
    pub(super) config: MembersConfig,
    pub(super) me: Member,
    pub(super) phase: Phase,
    pub(super) view: View,
    /// Its voice in a cold start, and in deciding what follows on its view.
    pub(super) cold: Acceptor,
    pub(super) acceptor: Acceptor,
    /// A view of another lineage than that of the list that it accepted in a cold start.
    pub(super) asked: Option<Asked>,
    /// Views that it was told of and does not begin, by what it knows of their members. It has not said anything in them, and begins one if it
    /// hears better.
    pub(super) declined: BTreeSet<ViewId>,
    pub(super) proposal: Option<Proposal>,
    /// When it proposes, if nobody else has by then.
    pub(super) turn: Option<Nanos>,
    /// Without a view and known to be so, by rank.
    pub(super) joiners: BTreeMap<Rank, Member>,
    pub(super) leaving: BTreeSet<Member>,
    /// They do not answer.
    pub(super) suspected: BTreeSet<Member>,
    /// They are no more: another incarnation of their node spoke after them, or a view left them out.
    pub(super) dead: BTreeSet<Member>,
    /// Whom each node spoke as last.
    pub(super) spoke: BTreeMap<Rank, Member>,
    /// Known from a list alone, while another incarnation of their node speaks: nobody knows which is the later one. Whoever
    /// of them is suspected, too, counts as dead until it speaks.
    pub(super) doubted: BTreeSet<Member>,
    /// In which lineage incarnations are known to act.
    pub(super) acts_in: BTreeMap<Member, Ballot>,
    /// Who gave views of which lineages up, itself and others that have said so, with the number of the last one.
    pub(super) given_up: BTreeMap<(Member, Ballot), u64>,
    /// They have been asked for an answer: until when it must come, and who complained about them.
    pub(super) probes: BTreeMap<Member, (Nanos, Vec<Rank>)>,
    pub(super) watched: BTreeMap<Rank, Watched>,
    pub(super) lease: Lease,
    /// From when on it may grant anew what a member that left may have held.
    grants_from: Nanos,
}

impl Core {
    /// A member that has heard of nobody.
    pub fn new(config: MembersConfig, me: Member) -> Core {
        Core {
            config,
            me,
            phase: Phase::Cold,
            view: View::default(),
            cold: Acceptor::default(),
            acceptor: Acceptor::default(),
            asked: None,
            declined: BTreeSet::new(),
            proposal: None,
            turn: None,
            joiners: BTreeMap::new(),
            leaving: BTreeSet::new(),
            suspected: BTreeSet::new(),
            dead: BTreeSet::new(),
            spoke: BTreeMap::new(),
            doubted: BTreeSet::new(),
            acts_in: BTreeMap::new(),
            given_up: BTreeMap::new(),
            probes: BTreeMap::new(),
            watched: BTreeMap::new(),
            lease: Lease::default(),
            grants_from: Nanos::ZERO,
        }
    }

    /// This incarnation.
    pub fn me(&self) -> Member {
        self.me
    }

    /// The view that it acts in; none before its first one, and none after its last.
    pub fn view(&self) -> Option<&View> {
        (self.phase == Phase::In).then_some(&self.view)
    }

    /// Whether it was left out.
    pub fn is_out(&self) -> bool {
        self.phase == Phase::Out
    }

    /// Until when, by this node's clock, it may rely on what it was granted. In the past if its lease has run out.
    pub fn lease_until(&self) -> Nanos {
        self.lease.until()
    }

    /// From when on, by this node's clock, it may grant anew what a member that is not in its view may have held.
    pub fn grants_from(&self) -> Nanos {
        self.grants_from
    }

    /// How long a lease runs.
    pub(super) fn lease(&self) -> Nanos {
        self.config.lease
    }

    /// By how much two clocks may differ over one lease.
    pub(super) fn drift(&self) -> Nanos {
        self.config.drift
    }

    /// How long a member that is asked may be silent.
    pub(super) fn patience(&self) -> Nanos {
        self.config.patience
    }

    /// When [`Event::Time`] is due, if ever. Never while nothing is owed.
    pub fn deadline(&self) -> Option<Nanos> {
        let lease = self.lease.due().filter(|_| self.phase == Phase::In);
        let probes = self.probes.values().map(|(until, _)| *until);
        let pings = self.watched.iter().filter(|(rank, _)| self.is_pinged(**rank));
        probes.chain(pings.map(|(_, watched)| watched.next)).chain(lease).chain(self.turn).min()
    }

    /// Takes an event in. `now` is this node's clock, which never goes back.
    pub fn on_event(&mut self, now: Nanos, event: Event, out: &mut Vec<Action>) {
        if self.phase == Phase::Out {
            return;
        }
        match event {
            Event::Begin => self.begin(out),
            Event::Message(from, envelope) => self.on_message(now, from, envelope, out),
            Event::PeerReset(rank) if self.phase == Phase::Cold => self.send_to(rank, 0, Message::Join, out),
            Event::PeerReset(_) | Event::Time => {}
            Event::Hold(held) => self.lease.wanted = held,
            Event::Watch(rank, true) => {
                self.watched.entry(rank).or_insert(Watched { waiters: 0, next: now }).waiters += 1;
            }
            Event::Watch(rank, false) => self.unwatch(rank),
            Event::Leave => self.leave(out),
            Event::Expelled(view) if self.is_news(view) => return self.go_out(out),
            Event::Expelled(_) => {}
        }
        self.detect(now, out);
        self.renew(now, out);
        self.agree(now, out);
    }

    pub(super) fn begin(&mut self, out: &mut Vec<Action>) {
        for rank in self.others() {
            self.send_to(rank, 0, Message::Join, out);
        }
    }

    /// Nothing is held any more. As [`Event::Hold`]: what is done about it is nothing.
    pub(super) fn let_go(&mut self) {
        self.lease.wanted = false;
    }

    pub(super) fn unwatch(&mut self, rank: Rank) {
        if let Some(watched) = self.watched.get_mut(&rank) {
            watched.waiters -= 1;
            if watched.waiters == 0 {
                self.watched.remove(&rank);
            }
        }
    }

    fn leave(&mut self, out: &mut Vec<Action>) {
        self.leaving.insert(self.me);
        self.tell_all(&Message::Leave, out);
    }

    // Messages.

    fn on_message(&mut self, now: Nanos, from: Rank, envelope: Envelope, out: &mut Vec<Action>) {
        let Envelope { from: incarnation, to, message } = envelope;
        let from = Member { rank: from, incarnation };
        // What was meant for an earlier boot of this node, or comes from one that is no more, is void.
        if (to != 0 && to != self.me.incarnation) || self.dead.contains(&from) || from.rank == self.me.rank {
            return;
        }
        // One that asks from another lineage is told each time: it may have asked when there was no view here yet.
        let is_other = |view: ViewId| view.number > 0 && view.lineage != self.view.id.lineage;
        let asks = matches!(message, Message::Ping { view } if is_other(view));
        let is_elsewhere = self.note_lineage(from, &message) || asks;
        if let Message::GivenUp { view } = message {
            self.note_given_up(from, view);
        }
        self.meet(now, from, out);
        self.answered(now, from, out);
        if is_elsewhere && self.phase == Phase::In {
            // It is told so when that is news, and whenever it asks: a view of which too many act elsewhere can decide nothing.
            self.update(from, out);
        }
        match message {
            Message::Join if self.phase == Phase::In && self.view.contains(from) => self.update(from, out),
            Message::Join => self.on_join(from, out),
            Message::Leave => drop(self.leaving.insert(from)),
            Message::Prepare { after, ballot } => self.on_prepare(now, from, after, ballot, out),
            Message::Promise { after, ballot, accepted } => {
                self.on_promise(now, from, after, ballot, accepted, out);
            }
            Message::Accept { after, ballot, next } => self.on_accept(from, after, ballot, next, out),
            Message::Accepted { after, ballot } => self.on_accepted(now, from, after, ballot, out),
            Message::Decided { view } => {
                let id = view.id;
                self.learn(now, view, out);
                self.say_if_given_up(from, id, out);
            }
            Message::Renew { view, id } => self.on_renew(from, view, id, out),
            Message::Renewed { view, id } => self.on_renewed(from, view, id, out),
            Message::Ping { view } => {
                self.pong(from, out);
                self.on_view_of(from, view, out);
            }
            Message::Pong { view } => self.on_view_of(from, view, out),
            Message::Complaint { about } => self.on_complaint(now, from, about, out),
            Message::Vouch { about } => self.trust(now, about),
            Message::GivenUp { .. } => {}
            Message::Ask { view, accepted } => self.on_ask(from, view, accepted, out),
            Message::Acts { view, accepted } => {
                if let Some(view) = self.on_acts(from, view, accepted).filter(|view| !self.is_lost(view)) {
                    self.install(now, view, out);
                }
            }
        }
    }

    /// A node has no view. Two that have none know of each other.
    fn on_join(&mut self, from: Member, out: &mut Vec<Action>) {
        let is_known = self.joiners.insert(from.rank, from) == Some(from);
        if self.phase == Phase::Cold && !is_known {
            self.send(from, Message::Join, out);
        }
    }

    // Views.

    /// A view was decided. One of another lineage is none of ours.
    pub(super) fn learn(&mut self, now: Nanos, view: View, out: &mut Vec<Action>) {
        let is_ours = match self.phase {
            Phase::Cold => {
                let is_mine = view.contains(self.me);
                self.forget_what_is_given_up(&view);
                if is_mine && !self.may_act(&view) {
                    // It would give it up as soon as it began it.
                    self.declined.insert(view.id);
                }
                let begins = is_mine && !self.is_lost(&view);
                if begins && self.is_bound_elsewhere(&view) {
                    return self.ask(now, view, out);
                }
                begins
            }
            Phase::In => {
                if view.id.lineage != self.view.id.lineage {
                    self.doubt_by(now, &view, out);
                }
                view.follows(&self.view)
            }
            Phase::Out => false,
        };
        if self.phase == Phase::Cold && view.left.contains(&self.me) && self.is_news(view.id) {
            // It never heard of the view that it was in.
            return self.go_out(out);
        }
        match is_ours {
            true if view.contains(self.me) => self.install(now, view, out),
            true => self.go_out(out),
            false => {}
        }
    }

    /// Begins a view.
    ///
    /// Whoever is not in it renewed its lease for the last time before the view was decided: the majority that decided has
    /// renewed none since it accepted, and no lease is renewed without one of them. So all those leases are over one lease
    /// and the drift from now on.
    pub(super) fn install(&mut self, now: Nanos, view: View, out: &mut Vec<Action>) {
        let before = std::mem::replace(&mut self.view, view);
        let newcomers = self.view.members.iter().copied().filter(|member| !before.contains(*member));
        let newcomers: Vec<Member> = newcomers.filter(|member| *member != self.me).collect();
        let left: Vec<Member> =
            before.members.iter().copied().filter(|member| !self.view.contains(*member)).collect();
        // Of views between the two, it does not know who left.
        let missed = self.view.id.number > before.id.number + 1;
        if self.phase == Phase::Cold || missed || !left.is_empty() {
            self.grants_from = self.grants_from.max(now + self.config.lease + self.config.drift);
        }
        let comes_in = std::mem::replace(&mut self.phase, Phase::In) == Phase::Cold;
        (self.acceptor, self.proposal, self.turn) = (Acceptor::default(), None, None);
        self.cold.withdraw();
        (self.asked, self.declined) = (None, BTreeSet::new());
        let view = self.view.clone();
        for member in view.gone(&left) {
            self.bury(member);
        }
        // Before anything is said in it: who is in it can be told, whatever became of an earlier boot of its node.
        out.push(Action::Install { view: view.clone(), left });
        // The one that proposed it may have died before it told all. Newcomers asked once, and too many of the view before may
        // be dead for those who are behind to find out by themselves: so the old members tell the new ones, and these the old.
        // (After a cold start all are new, and the one that decided tells them. Who asked before this one was told goes on asking: see `reached`.)
        if !comes_in || view.id.number > 1 {
            for newcomer in newcomers {
                self.send(newcomer, Message::Decided { view: view.clone() }, out);
            }
        }
        self.joiners.retain(|_, joiner| !view.contains(*joiner));
        self.leaving.retain(|member| view.contains(*member));
        // Who had no view once may have been in one since that this member has not seen, and have been left out; and of two incarnations of
        // a node, the one that still speaks is the later one. So these are asked anew, and are no joiners until they answer.
        let is_stale = missed || (comes_in && view.id.number > 1);
        let (asked, kept): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.joiners)
            .into_iter()
            .partition(|(rank, _)| is_stale || view.of(*rank).is_some());
        self.joiners = kept;
        for joiner in asked.into_values() {
            self.send(joiner, Message::Ping { view: view.id }, out);
        }
        self.lease.view_ended();
    }

    fn go_out(&mut self, out: &mut Vec<Action>) {
        self.phase = Phase::Out;
        self.lease.end();
        self.probes.clear();
        self.watched.clear();
        (self.proposal, self.turn) = (None, None);
        out.push(Action::Out);
    }

    /// Whether it is to be believed that a view is without this member: not if it is none, or one that this member has left behind or
    /// given up, or a later one of a lineage that it gave up for another. (To go out is always safe. But one who is out itself could take
    /// others along.) The lineage that it acts in may be one that it gave up and came back to: it was not dead.
    fn is_news(&self, view: ViewId) -> bool {
        let acts_in = self.view.id.lineage;
        let given_up = self.given_up.get(&(self.me, view.lineage)).copied();
        let past = match self.phase {
            Phase::In if view.lineage == acts_in => self.view.id.number,
            Phase::In if given_up.is_some() => return false,
            _ => given_up.unwrap_or_default(),
        };
        view.number > past
    }

    // Leases.

    fn renew(&mut self, now: Nanos, out: &mut Vec<Action>) {
        if self.phase != Phase::In || self.lease.due().is_none_or(|due| due > now) {
            return;
        }
        let id = self.lease.renew(now, self.config.lease);
        self.on_renewed_by_me(id, out);
        let view = self.view.id;
        for member in self.living() {
            self.send(member, Message::Renew { view, id }, out);
            self.probe(now, member);
        }
        if self.candidates().len() < self.view.quorum() {
            // Too few of its view answer. The others may have begun another one and not know of this member: they say where they act.
            let is_outside = |other: &&Member| !self.view.contains(**other) && !self.is_dead(**other);
            for other in self.spoke.values().filter(is_outside) {
                self.send(*other, Message::Ping { view }, out);
            }
        }
    }

    fn on_renewed_by_me(&mut self, id: u64, out: &mut Vec<Action>) {
        if self.acceptor.accepted().is_none() {
            self.on_renewed(self.me, self.view.id, id, out);
        }
    }

    /// Once the next view is accepted, no lease is renewed in this one: else a member that the next one leaves out could have
    /// one that nobody there waits for.
    fn on_renew(&mut self, from: Member, view: ViewId, id: u64, out: &mut Vec<Action>) {
        let is_current = self.phase == Phase::In && self.view.id == view && self.view.contains(from);
        if is_current && self.acceptor.accepted().is_none() {
            self.send(from, Message::Renewed { view, id }, out);
        } else if self.is_older(view) {
            self.update(from, out);
        } else {
            self.pong(from, out);
        }
    }

    fn on_renewed(&mut self, from: Member, view: ViewId, id: u64, out: &mut Vec<Action>) {
        let counts = self.phase == Phase::In && self.view.id == view && self.view.contains(from);
        if counts && self.lease.renewed(id, from, self.view.quorum(), self.config.lease) {
            out.push(Action::Leased);
        }
    }

    // What it knows.

    /// Whether a view is one that this member has left behind.
    pub(super) fn is_older(&self, view: ViewId) -> bool {
        self.phase == Phase::In && view.lineage == self.view.id.lineage && view.number < self.view.id.number
    }

    pub(super) fn others(&self) -> Vec<Rank> {
        (0..self.config.nodes).map(Rank::from_index).filter(|rank| *rank != self.me.rank).collect()
    }

    // Sending.

    pub(super) fn send(&self, to: Member, message: Message, out: &mut Vec<Action>) {
        self.send_to(to.rank, to.incarnation, message, out);
    }

    fn send_to(&self, rank: Rank, to: u64, message: Message, out: &mut Vec<Action>) {
        out.push(Action::Send(rank, Envelope { from: self.me.incarnation, to, message }));
    }

    fn tell_all(&self, message: &Message, out: &mut Vec<Action>) {
        for member in self.living() {
            self.send(member, message.clone(), out);
        }
    }

    /// I am there, and nothing else is to be said.
    pub(super) fn pong(&self, to: Member, out: &mut Vec<Action>) {
        self.send(to, Message::Pong { view: self.view.id }, out);
    }

    /// A member says in which view it is. Whoever told it of a later one may have died before that arrived, and it may be
    /// unable to find that out by itself: too many of its own view may be dead.
    fn on_view_of(&mut self, from: Member, view: ViewId, out: &mut Vec<Action>) {
        let has_none = self.phase == Phase::In && view == ViewId::default();
        if has_none && !self.view.contains(from) {
            self.joiners.insert(from.rank, from);
        } else if has_none || self.is_older(view) {
            self.update(from, out);
        }
    }

    /// Tells one that is behind what the view is.
    pub(super) fn update(&self, to: Member, out: &mut Vec<Action>) {
        self.send(to, Message::Decided { view: self.view.clone() }, out);
    }
}
