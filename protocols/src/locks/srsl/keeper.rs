//! All locks that a node keeps, in the views of a membership or without one: a state machine without I/O.

use super::home::{Home, May};
use super::messages::Message;
use crate::locks::queue::OutOfTurn;
use crate::locks::views::Term;
use crate::locks::{LockKey, Token};
use crate::members::View;
use crate::transport::Rank;
use std::collections::BTreeMap;
use weft_verbs::Nanos;

/// What a home says: to whom, about which lock.
pub(crate) type Out = Vec<(Rank, LockKey, Message)>;

/// The locks that a node keeps.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Keeper {
    me: Rank,
    /// How many nodes keep locks: ranks 1 to this number, or who takes their place.
    configured: u32,
    homes: BTreeMap<LockKey, Home>,
    /// Whether there is a membership, and the view of it in which this node acts, if it does.
    in_views: bool,
    term: Option<Term>,
    /// What it kept in the view before and goes on to keep, until all members have reported.
    before: BTreeMap<LockKey, Home>,
}

impl Keeper {
    pub(crate) fn new(me: Rank, configured: u32, in_views: bool) -> Keeper {
        let (homes, before) = (BTreeMap::new(), BTreeMap::new());
        Keeper { me, configured, homes, in_views, term: None, before }
    }

    /// Who keeps a lock; nobody while this node is in no view of the membership.
    pub(crate) fn home_of(&self, key: LockKey) -> Option<Rank> {
        match self.in_views {
            true => self.term.as_ref().map(|term| term.home_of(key)),
            false => Some(key.home(self.configured)),
        }
    }

    /// The view in which this node acts, if it does.
    pub(crate) fn term(&self) -> Option<&Term> {
        self.term.as_ref()
    }

    /// The members of the view.
    pub(crate) fn members(&self) -> Vec<Rank> {
        self.term.as_ref().map_or_else(Vec::new, |term| term.members().collect())
    }

    /// Takes a message for the home of a lock in.
    pub(crate) fn on_message(
        &mut self,
        now: Nanos,
        from: Rank,
        key: LockKey,
        message: Message,
        out: &mut Vec<(Rank, Message)>,
    ) -> Result<(), OutOfTurn> {
        // Without views there is nothing to be reported at the beginning of one.
        let is_of_a_view = matches!(message, Message::Holds { .. });
        if self.home_of(key) != Some(self.me) || is_of_a_view && !self.in_views {
            return Err(OutOfTurn);
        }
        let may = self.may(key, now);
        self.homes.entry(key).or_default().on_message(from, message, may, out)
    }

    /// Whether a lock may be granted now, and above which token. Where a view has no token left for it, it waits for the next view: a
    /// token of that view would be refused by whoever has seen it then.
    fn may(&self, key: LockKey, now: Nanos) -> May {
        let last = self.homes.get(&key).map(Home::token).unwrap_or_default();
        match &self.term {
            _ if !self.in_views => May::Grant { above: Token::default() },
            Some(term) if term.may_grant(key, now) => match term.view().id.number {
                number if last.leaves_room_in(number) => May::Grant { above: Token::before_view(number) },
                _ => May::NotInThisView,
            },
            _ => May::Wait,
        }
    }

    // Views of the membership.

    /// A view begins, which these left. Until `fence` they may hold what they held. All that was kept is of the view before; what
    /// this node goes on to keep it needs once all have reported.
    pub(crate) fn begin(&mut self, view: View, left: Vec<Rank>, fence: Nanos, now: Nanos) {
        let before = self.term.take();
        let term = Term::begin(view, before.as_ref(), self.me, self.configured, left, fence, now);
        self.before = std::mem::take(&mut self.homes);
        self.before.retain(|key, _| term.is_kept(*key));
        self.term = Some(term);
    }

    /// There is no view.
    pub(crate) fn end(&mut self) {
        self.term = None;
        self.homes.clear();
        self.before.clear();
    }

    /// A member has reported; by what it says, nobody who left holds anything from `over` on. If it was the last to report, what
    /// is free is granted. Says until when the rest waits, if it does.
    pub(crate) fn reported(&mut self, now: Nanos, from: Rank, over: Nanos, out: &mut Out) -> Option<Nanos> {
        let term = self.term.as_mut()?;
        if !term.reported(from, over) {
            return None;
        }
        let fence = term.fence();
        for (key, before) in std::mem::take(&mut self.before) {
            self.homes.entry(key).or_default().follow(&before, term.left());
        }
        self.homes.retain(|_, home| home.entries() > 0 || home.is_held_by_the_dead());
        if fence > now {
            self.grant_all(now, out);
            return Some(fence);
        }
        self.lift(now, out);
        None
    }

    /// A fence is over. If it is that of this view, nobody who left holds anything any more.
    pub(crate) fn lift(&mut self, now: Nanos, out: &mut Out) {
        if !self.term.as_ref().is_some_and(|term| term.is_settled(now)) {
            return;
        }
        self.homes.values_mut().for_each(Home::forget_the_dead);
        self.grant_all(now, out);
    }

    fn grant_all(&mut self, now: Nanos, out: &mut Out) {
        let mut granted = Vec::new();
        for key in self.homes.keys().copied().collect::<Vec<_>>() {
            let may = self.may(key, now);
            if let Some(home) = self.homes.get_mut(&key) {
                home.grant(may, &mut granted);
            }
            out.extend(granted.drain(..).map(|(to, message)| (to, key, message)));
        }
    }

    /// How many locks it keeps, and who holds or waits.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let entries = self.homes.values().map(|home| home.entries() as u64).sum();
        (self.homes.len() as u64, entries)
    }
}
