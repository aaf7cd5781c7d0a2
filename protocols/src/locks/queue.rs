//! The queue of one lock where a single node decides: first come, first served.
//!
//! SRSL's home is this and little more (ncosed.txt, 2.2.1); N-CoSED's home drains a rebuilt queue by it.

use super::Mode;
use crate::transport::Rank;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// Who holds a lock and who waits for it. A node appears at most once: it has one request a lock in the
/// network (see [`super::local`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GrantQueue {
    holders: Vec<Rank>,
    held: Option<Mode>,
    /// What nodes that left the membership may hold until their leases have run out.
    dead: Option<Mode>,
    waiting: VecDeque<(Rank, Mode)>,
}

impl Hash for GrantQueue {
    /// Those who hold are in no order.
    fn hash<H: Hasher>(&self, to: &mut H) {
        let mut holders = self.holders.clone();
        holders.sort_unstable();
        (holders, self.held, self.dead, &self.waiting).hash(to);
    }
}

/// A message that contradicts what the queue knows; its sender is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfTurn;

impl GrantQueue {
    /// Enters a node that holds already (before this queue began to decide).
    pub(crate) fn hold(&mut self, who: Rank, mode: Mode) -> Result<(), OutOfTurn> {
        if self.knows(who) || self.held.is_some_and(|held| !held.goes_with(mode)) {
            return Err(OutOfTurn);
        }
        self.holders.push(who);
        self.held = Some(mode);
        Ok(())
    }

    /// Puts a request at the end of the queue.
    pub(crate) fn request(&mut self, who: Rank, mode: Mode) -> Result<(), OutOfTurn> {
        if self.knows(who) {
            return Err(OutOfTurn);
        }
        self.waiting.push_back((who, mode));
        Ok(())
    }

    /// The first of those that wait of whom something is so.
    pub(crate) fn first_waiting(&self, is: impl Fn(Rank) -> bool) -> Option<Rank> {
        self.waiting.iter().map(|(who, _)| *who).find(|who| is(*who))
    }

    /// Takes a request out that waits. Says whether it did.
    pub(crate) fn withdraw(&mut self, who: Rank) -> bool {
        let at = self.waiting.iter().position(|&(waiting, _)| waiting == who);
        at.and_then(|at| self.waiting.remove(at)).is_some()
    }

    /// Ends a hold.
    pub(crate) fn release(&mut self, who: Rank) -> Result<(), OutOfTurn> {
        let at = self.holders.iter().position(|&h| h == who).ok_or(OutOfTurn)?;
        self.holders.swap_remove(at);
        if self.holders.is_empty() {
            self.held = None;
        }
        Ok(())
    }

    /// An exclusive hold becomes a shared one.
    pub(crate) fn downgrade(&mut self, who: Rank) -> Result<(), OutOfTurn> {
        if self.held != Some(Mode::Exclusive) || !self.holders.contains(&who) {
            return Err(OutOfTurn);
        }
        self.held = Some(Mode::Shared);
        Ok(())
    }

    /// The next grant that is due, if any; call it until there is none. A shared request never passes an
    /// exclusive one that came before it, so nobody starves.
    pub(crate) fn next_grant(&mut self) -> Option<(Rank, Mode)> {
        let &(who, mode) = self.waiting.front()?;
        if !self.has_place_for(mode) {
            return None;
        }
        self.waiting.pop_front();
        self.holders.push(who);
        self.held = Some(mode);
        Some((who, mode))
    }

    /// Whether a request made now would be granted now.
    pub(crate) fn would_grant(&self, mode: Mode) -> bool {
        self.waiting.is_empty() && self.has_place_for(mode)
    }

    fn has_place_for(&self, mode: Mode) -> bool {
        self.held.into_iter().chain(self.dead).all(|held| held.goes_with(mode))
    }

    /// Goes on from the queue that the same node kept in the membership's last view: those of it who left may hold what they
    /// held, and those who wait keep their order: first those to whom a grant was under way.
    pub(crate) fn follow(&mut self, before: &GrantQueue, left: &[Rank]) {
        let died_holding = before.holders.iter().any(|holder| left.contains(holder));
        self.dead = before.dead.max(before.held.filter(|_| died_holding));
        let place = |who| match before.waiting.iter().position(|&(waiting, _)| waiting == who) {
            _ if before.holders.contains(&who) => 0,
            Some(before_it) => 1 + before_it,
            None => usize::MAX,
        };
        self.waiting.make_contiguous().sort_by_key(|&(who, _)| place(who));
    }

    /// Whether it must be remembered for those who left.
    pub(crate) fn is_held_by_the_dead(&self) -> bool {
        self.dead.is_some()
    }

    /// The leases of all who left have run out.
    pub(crate) fn forget_the_dead(&mut self) {
        self.dead = None;
    }

    /// How many nodes hold.
    pub(crate) fn holding(&self) -> usize {
        self.holders.len()
    }

    /// How many nodes wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody holds and nobody waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.waiting.is_empty() && self.dead.is_none()
    }

    fn knows(&self, who: Rank) -> bool {
        self.holders.contains(&who) || self.waiting.iter().any(|&(w, _)| w == who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(n: u32) -> Rank {
        Rank::new(n).unwrap()
    }

    fn grants(queue: &mut GrantQueue) -> Vec<u32> {
        std::iter::from_fn(|| queue.next_grant()).map(|(who, _)| who.get()).collect()
    }

    #[test]
    fn shared_requests_share_and_do_not_pass_an_exclusive_one() {
        let mut queue = GrantQueue::default();
        for (who, mode) in [(1, Mode::Shared), (2, Mode::Shared), (3, Mode::Exclusive), (4, Mode::Shared)] {
            queue.request(rank(who), mode).unwrap();
        }
        assert_eq!(grants(&mut queue), [1, 2]);
        queue.release(rank(1)).unwrap();
        assert_eq!(grants(&mut queue), []);
        queue.release(rank(2)).unwrap();
        assert_eq!(grants(&mut queue), [3]);
        queue.release(rank(3)).unwrap();
        assert_eq!(grants(&mut queue), [4]);
        queue.release(rank(4)).unwrap();
        assert!(queue.is_idle());
    }

    #[test]
    fn a_node_has_one_request_and_releases_only_what_it_holds() {
        let mut queue = GrantQueue::default();
        queue.request(rank(1), Mode::Exclusive).unwrap();
        assert_eq!(queue.request(rank(1), Mode::Shared), Err(OutOfTurn));
        assert_eq!(queue.release(rank(1)), Err(OutOfTurn));
        assert_eq!(grants(&mut queue), [1]);
        assert_eq!(queue.request(rank(1), Mode::Shared), Err(OutOfTurn));
        queue.release(rank(1)).unwrap();
        assert_eq!(queue.release(rank(1)), Err(OutOfTurn));
    }

    #[test]
    fn a_downgrade_lets_in_those_who_share_and_come_next() {
        let mut queue = GrantQueue::default();
        for (who, mode) in [(1, Mode::Exclusive), (2, Mode::Shared), (3, Mode::Exclusive), (4, Mode::Shared)]
        {
            queue.request(rank(who), mode).unwrap();
        }
        assert_eq!(grants(&mut queue), [1]);
        assert_eq!(queue.downgrade(rank(2)), Err(OutOfTurn));
        queue.downgrade(rank(1)).unwrap();
        assert_eq!(grants(&mut queue), [2]);
        assert_eq!(queue.downgrade(rank(1)), Err(OutOfTurn));
        queue.release(rank(2)).unwrap();
        assert_eq!(grants(&mut queue), []);
        queue.release(rank(1)).unwrap();
        assert_eq!(grants(&mut queue), [3]);
    }

    #[test]
    fn holders_from_before_count_and_must_go_together() {
        let mut queue = GrantQueue::default();
        queue.hold(rank(1), Mode::Shared).unwrap();
        queue.hold(rank(2), Mode::Shared).unwrap();
        assert_eq!(queue.hold(rank(2), Mode::Shared), Err(OutOfTurn));
        assert_eq!(queue.hold(rank(3), Mode::Exclusive), Err(OutOfTurn));
        assert!(queue.would_grant(Mode::Shared) && !queue.would_grant(Mode::Exclusive));
        queue.request(rank(3), Mode::Exclusive).unwrap();
        assert!(!queue.would_grant(Mode::Shared));
        assert_eq!(grants(&mut queue), []);
        queue.release(rank(1)).unwrap();
        queue.release(rank(2)).unwrap();
        assert_eq!(grants(&mut queue), [3]);
    }
}
