//! A node of the worlds: the shipped state machine, and a right that is granted by means of it.
//!
//! The right is what every system does with members, at its smallest. The lowest rank of the view grants it. When a view begins,
//! each member reports what it has, so that the one that grants now knows; whoever is not in the view reports nothing, and
//! what it may have had is granted when its lease has run out.

use super::planted::Planted;
use super::rules::Rules;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weft_protocols::members::{Action, Core, Envelope, Event, Member, MembersConfig, Message, View, ViewId};
use weft_protocols::transport::Rank;
use weft_verbs::Nanos;

/// A clock that drifts is a tick ahead or not.
const DRIFT: Nanos = Nanos(1);

/// What a member says of the right when a view begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Claim {
    Nothing,
    Wants,
    Has,
}

/// What nodes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Letter {
    Member(Envelope),
    /// In this view, my part in the right is this.
    Report(ViewId, Member, Claim),
    /// In this view, the right is yours.
    Grant(ViewId),
    /// In this view, I am done with it.
    Done(ViewId, Member),
}

/// A node's part in the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Nothing,
    Wants,
    Granted,
    Done,
}

/// What the one that grants knows, in one view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Book {
    reported: BTreeMap<Member, Claim>,
    holder: Option<Member>,
    queue: VecDeque<Member>,
}

/// A node that is up.
#[derive(Clone, Debug, Hash)]
pub(super) struct Node {
    pub(super) core: Core,
    planted: Option<Planted>,
    /// Until when the lease would run if it began when it was renewed.
    from_receipt: Nanos,
    lease: Nanos,
    pub(super) part: Part,
    /// Whether it has said that it leaves.
    pub(super) leaves: bool,
    book: Book,
    watched: BTreeSet<Rank>,
    holds: bool,
    /// What arrived of a view that has not begun here.
    early: Vec<Letter>,
    /// The view that began when it had none.
    cold: Option<ViewId>,
    had_none: bool,
    pub(super) clock: Nanos,
    /// To be sent.
    pub(super) out: Vec<(Rank, Letter)>,
    /// Views that began.
    pub(super) began: Vec<View>,
}

impl Node {
    pub(super) fn new(rules: Rules, me: Member, clock: Nanos, wants: bool) -> Node {
        let none = rules.planted == Some(Planted::NoDrift);
        let drift = if none { Nanos::ZERO } else { DRIFT };
        let config = MembersConfig {
            nodes: rules.nodes,
            lease: rules.lease(),
            drift,
            patience: Nanos(rules.patience.into()),
        };
        let mut node = Node {
            core: Core::new(config, me),
            planted: rules.planted,
            from_receipt: Nanos::ZERO,
            lease: rules.lease(),
            part: Part::Nothing,
            leaves: false,
            book: Book::default(),
            watched: BTreeSet::new(),
            holds: false,
            early: Vec::new(),
            cold: None,
            had_none: true,
            clock,
            out: Vec::new(),
            began: Vec::new(),
        };
        node.event(Event::Begin);
        if wants {
            node.want();
        }
        node
    }

    /// It wants the right from now on.
    pub(super) fn want(&mut self) {
        self.part = Part::Wants;
        if let (Some(home), Some(view)) = (self.home(), self.core.view().map(|view| view.id)) {
            self.send(home, Letter::Report(view, self.me(), Claim::Wants));
        }
        self.serve();
        self.settle();
    }

    pub(super) fn me(&self) -> Member {
        self.core.me()
    }

    /// Whether it may use the right at this moment: it was granted, and the lease runs.
    pub(super) fn has(&self) -> bool {
        self.part == Part::Granted && !self.core.is_out() && self.clock < self.lease_until()
    }

    fn lease_until(&self) -> Nanos {
        match (self.planted, self.core.lease_until()) {
            (Some(Planted::LeaseFromReceipt), until) if until > Nanos::ZERO => self.from_receipt,
            (_, until) => until,
        }
    }

    /// Whether a deadline has come.
    pub(super) fn is_due(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= self.clock)
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        let grants = self.may_grant().then(|| self.grants_from());
        self.core.deadline().into_iter().chain(grants).min()
    }

    pub(super) fn wake(&mut self) {
        self.hear(Event::Time);
    }

    /// Something happens to its member, and it goes on.
    fn hear(&mut self, event: Event) {
        self.event(event);
        self.serve();
        self.settle();
    }

    fn settle(&mut self) {
        self.hold();
        self.watch();
    }

    /// Lets the members take an event in, and does what they want.
    fn event(&mut self, event: Event) {
        let mut actions = Vec::new();
        let until = self.core.lease_until();
        self.core.on_event(self.clock, event, &mut actions);
        if self.planted == Some(Planted::LeaseFromReceipt) && self.core.lease_until() > until {
            self.from_receipt = self.clock + self.lease;
        }
        for action in actions {
            match action {
                Action::Send(to, envelope) => self.out.push((to, Letter::Member(envelope))),
                Action::Install { view, left } => self.begin(view, &left),
                Action::Leased => {}
                Action::Lost => self.forget(),
                Action::Out => {
                    self.forget();
                    self.part = Part::Nothing;
                }
            }
        }
        self.watch();
    }

    fn forget(&mut self) {
        self.book = Book::default();
        self.had_none = true;
        if self.part == Part::Granted {
            self.part = Part::Wants;
        }
    }

    /// Watches whom it waits for, and nobody else.
    fn watch(&mut self) {
        let home = self.home().filter(|_| self.part == Part::Wants);
        let holder = self.book.holder.filter(|_| !self.book.queue.is_empty());
        let reporters = self.unreported();
        let waits_for = home.into_iter().chain(holder).chain(reporters).map(|member| member.rank);
        let watched: BTreeSet<Rank> = waits_for.filter(|rank| *rank != self.me().rank).collect();
        let before = std::mem::replace(&mut self.watched, watched.clone());
        let changes = before.difference(&watched).map(|rank| (*rank, false));
        let changes: Vec<_> = changes.chain(watched.difference(&before).map(|rank| (*rank, true))).collect();
        for (rank, on) in changes {
            self.event(Event::Watch(rank, on));
        }
    }

    fn home(&self) -> Option<Member> {
        self.core.view().and_then(|view| view.members.first().copied())
    }

    fn is_home(&self) -> bool {
        self.home() == Some(self.me())
    }

    fn unreported(&self) -> Vec<Member> {
        let members = self.core.view().filter(|_| self.is_home()).map_or(&[][..], |view| &view.members);
        members.iter().copied().filter(|member| !self.book.reported.contains_key(member)).collect()
    }

    // Views.

    fn begin(&mut self, view: View, left: &[Member]) {
        let by_rank = self.planted == Some(Planted::ByRank);
        let kept = self
            .book
            .holder
            .filter(|holder| by_rank && left.contains(holder) && view.of(holder.rank).is_some());
        self.book = Book::default();
        self.began.push(view.clone());
        let (me, home) = (self.me(), view.members[0]);
        let claim = match self.part {
            Part::Wants => Claim::Wants,
            Part::Granted => Claim::Has,
            Part::Nothing | Part::Done => Claim::Nothing,
        };
        self.book.holder = kept;
        self.send(home, Letter::Report(view.id, me, claim));
        self.early.retain(|letter| letter.view() == Some(view.id) || letter.is_early(Some(view.id)));
        self.cold = if self.had_none { Some(view.id) } else { self.cold };
        self.had_none = false;
        for letter in std::mem::take(&mut self.early) {
            self.right(letter);
        }
    }

    fn grants_from(&self) -> Nanos {
        let began_cold = self.cold.is_some() && self.cold == self.core.view().map(|view| view.id);
        match self.planted {
            Some(Planted::GrantsAtOnce) => Nanos::ZERO,
            Some(Planted::ColdStartDoesNotWait) if began_cold => Nanos::ZERO,
            _ => self.core.grants_from(),
        }
    }

    /// It leaves: the next view is to be without it. Until then it goes on as before.
    pub(super) fn leave(&mut self) {
        self.leaves = true;
        self.hear(Event::Leave);
    }

    // Letters.

    pub(super) fn take(&mut self, from: Rank, letter: Letter) {
        match letter {
            Letter::Member(envelope) => {
                let renewed = self.renews_still(&envelope);
                self.event(Event::Message(from, envelope));
                self.out.extend(renewed.map(|letter| (from, letter)));
            }
            letter => self.right(letter),
        }
        self.serve();
        self.settle();
    }

    /// What it renews by mistake: the lease of a member of its view, when it has accepted the next one, too.
    fn renews_still(&self, of: &Envelope) -> Option<Letter> {
        let Message::Renew { view, id } = of.message else { return None };
        let is_wrong = self.planted == Some(Planted::RenewsStill)
            && self.core.view().is_some_and(|current| current.id == view);
        let message = Message::Renewed { view, id };
        let renewed = Envelope { from: self.me().incarnation, to: of.from, message };
        is_wrong.then_some(Letter::Member(renewed))
    }

    /// Somebody refuses what this one says: it is not in that one's view.
    pub(super) fn refused(&mut self, view: ViewId) {
        self.hear(Event::Expelled(view));
    }

    /// A node met another boot of this one.
    pub(super) fn reset(&mut self, peer: Rank) {
        self.event(Event::PeerReset(peer));
    }

    fn send(&mut self, to: Member, letter: Letter) {
        match to == self.me() {
            true => self.right(letter),
            false => self.out.push((to.rank, letter)),
        }
    }

    fn right(&mut self, letter: Letter) {
        let current = self.core.view().map(|view| view.id);
        if letter.view() != current {
            if letter.is_early(current) && !self.core.is_out() {
                self.early.push(letter);
            }
            return;
        }
        match letter {
            Letter::Report(_, from, claim) if self.is_home() => self.reported(from, claim),
            Letter::Done(_, from) if self.book.holder == Some(from) => self.book.holder = None,
            // It counts under a lease, which is asked for now if none runs.
            Letter::Grant(_) if self.part == Part::Wants => self.part = Part::Granted,
            _ => {}
        }
    }

    /// Keeps a lease while it has something, and no longer.
    fn hold(&mut self) {
        let has = self.part == Part::Granted;
        if std::mem::replace(&mut self.holds, has) != has {
            self.event(Event::Hold(has));
        }
    }

    fn reported(&mut self, from: Member, claim: Claim) {
        self.book.reported.insert(from, claim);
        match claim {
            Claim::Has => self.book.holder = Some(from),
            Claim::Wants => self.book.queue.push_back(from),
            Claim::Nothing => {}
        }
    }

    fn may_grant(&self) -> bool {
        let free = self.book.holder.is_none() && !self.book.queue.is_empty();
        self.is_home() && free && self.unreported().is_empty()
    }

    fn serve(&mut self) {
        if self.may_grant()
            && self.grants_from() <= self.clock
            && let Some(view) = self.core.view().map(|view| view.id)
            && let Some(next) = self.book.queue.pop_front()
        {
            self.book.holder = Some(next);
            self.send(next, Letter::Grant(view));
        }
    }

    /// Gives the right back.
    pub(super) fn release(&mut self) {
        self.part = Part::Done;
        if let (Some(home), Some(view)) = (self.home(), self.core.view().map(|view| view.id)) {
            self.send(home, Letter::Done(view, self.me()));
        }
        self.serve();
        self.settle();
    }
}

impl Letter {
    pub(super) fn view(&self) -> Option<ViewId> {
        match self {
            Letter::Member(_) => None,
            Letter::Report(id, ..) | Letter::Grant(id) | Letter::Done(id, _) => Some(*id),
        }
    }

    /// Whether its view may yet begin. Of one that is over it says nothing. One of another lineage may begin once this one is lost.
    fn is_early(&self, current: Option<ViewId>) -> bool {
        let is_later =
            |current: ViewId, id: ViewId| id.lineage != current.lineage || id.number > current.number;
        self.view().is_some_and(|id| current.is_none_or(|current| is_later(current, id)))
    }
}
