//! What keeps this node from its peers: why connections could not be made or accepted.
//!
//! An attempt is made again for as long as something waits for it, so whatever prevents a connection comes again with each attempt. It is
//! counted here, and forgotten when the connection stands. To say it, once, is the affair of whoever runs the mesh.

use super::mesh::Shared;
use super::wire::Refusal;
use super::{Mesh, Rank};
use std::collections::BTreeMap;
use thiserror::Error;
use weft_verbs::{RejectReason, Verbs, VerbsError};

/// Why a connection could not be made or accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Cause {
    /// This node's device has no queue pair for it, or its system no memory for the buffers.
    #[error("this node has no queue pair or no buffers for it: {0}")]
    Queue(VerbsError),
    /// This node's device or connection manager refused to connect the queue pair.
    #[error("this node cannot connect its queue pair: {0}")]
    Connect(VerbsError),
    /// Another guest has no place here.
    #[error("all {0} places for guests are taken")]
    Full(u32),
    /// The peer turned this node down.
    #[error("it turned this node down: {0}")]
    Rejected(Rejection),
    /// The peer did not answer, or no way leads there. What the connection manager knows of it is the backend's to say.
    #[error("it does not answer, or no way leads there")]
    Unreachable,
}

impl Cause {
    /// The kind of cause, in a word or two. What differs in detail alone is of one kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Cause::Queue(_) => "no queue pair",
            Cause::Connect(_) => "not connected",
            Cause::Full(_) => "full",
            Cause::Rejected(_) => "turned down",
            Cause::Unreachable => "unreachable",
        }
    }
}

/// Why a peer turned this node down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// The peer is closing, or has no queue pair, memory or place for the connection: it knows which.
    #[error("it is closing, or has no room for a connection, which it says itself")]
    Unable,
    /// To the peer this node is a stranger.
    #[error("this node is of another version, has another longest message, or is none of its peers")]
    Stranger,
    /// Another node is there, which has the peer's address.
    #[error("another node is at its address")]
    Astray,
    /// The peer has [expelled](Mesh::expel) this node's incarnation.
    #[error("it has left this node out")]
    Expelled,
    /// The peer's incarnation has nothing to do with anybody any more ([`Mesh::retire`]).
    #[error("it has been left out itself")]
    Retired,
    /// No mesh listens there.
    #[error("its mesh is not running")]
    NoListener,
    /// What answered there is no mesh of this version.
    #[error("what runs there is no mesh of this version")]
    Foreign,
    /// A connection manager's reason, as InfiniBand numbers them (IBA 12.6.7.2).
    #[error("its connection manager's reason {0} (IBA 12.6.7.2)")]
    Other(u16),
}

/// IBA 12.6.7.2: the other end's time-out.
const TIMEOUT: u16 = 4;

impl Rejection {
    /// What an answer means. None: it belongs to the course of things, and the next attempt goes on from there.
    fn of(reason: RejectReason, private: &[u8]) -> Option<Rejection> {
        match (Refusal::decode(private), reason) {
            (Some(Refusal::Unable), _) => Some(Rejection::Unable),
            (Some(Refusal::Stranger), _) => Some(Rejection::Stranger),
            (Some(Refusal::Astray), _) => Some(Rejection::Astray),
            (Some(Refusal::Expelled(_)), _) => Some(Rejection::Expelled),
            (Some(Refusal::Retired), _) => Some(Rejection::Retired),
            (Some(Refusal::Stale { .. } | Refusal::SimultaneousOpen | Refusal::Trial), _) => None,
            (None, RejectReason::NoListener) => Some(Rejection::NoListener),
            // A runtime that listens and whose mesh is closed. A mesh says something, whatever its version.
            (None, RejectReason::Consumer) if private.is_empty() => Some(Rejection::NoListener),
            (None, RejectReason::Consumer) => Some(Rejection::Foreign),
            (None, RejectReason::Timeout) => Some(Rejection::Other(TIMEOUT)),
            (None, RejectReason::Other(code)) => Some(Rejection::Other(code)),
        }
    }
}

/// What keeps this node from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The peer; none where it is a guest: all guests count as one.
    pub peer: Option<Rank>,
    /// Why no connection came to be, the last time of this [kind](Cause::kind).
    pub cause: Cause,
    /// How often the kind came since there was a connection.
    pub times: u64,
}

/// By peer and kind.
#[derive(Default)]
pub(super) struct Troubles {
    all: BTreeMap<(Option<Rank>, &'static str), (u64, Trouble)>,
    /// Counts what is written down.
    last: u64,
}

impl Troubles {
    fn add(&mut self, peer: Option<Rank>, cause: Cause) {
        self.last += 1;
        let fresh = Trouble { peer, cause, times: 0 };
        let (at, trouble) = self.all.entry((peer, cause.kind())).or_insert((0, fresh));
        *at = self.last;
        *trouble = Trouble { cause, times: trouble.times + 1, ..*trouble };
    }

    fn end(&mut self, peer: Option<Rank>) {
        self.all.retain(|(of, _), _| *of != peer);
    }
}

impl<V: Verbs> Mesh<V> {
    /// What keeps this node from its peers, one of each [kind](Cause::kind) for each peer, the last one last: why connections could not be
    /// made or accepted since there was one. A connection that stands may have one, too, where another one was to stand by for it.
    pub fn troubles(&self) -> Vec<Trouble> {
        let troubles = self.shared.troubles.borrow();
        let mut all: Vec<_> = troubles.all.values().copied().collect();
        all.sort_unstable_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, trouble)| trouble).collect()
    }
}

impl<V: Verbs> Shared<V> {
    /// No connection with a peer came to be.
    pub(super) fn is_kept_from(&self, index: usize, cause: Cause) {
        self.troubles.borrow_mut().add(self.whom(index), cause);
    }

    /// No connection with a guest came to be, which has no place among the peers yet.
    pub(super) fn is_kept_from_a_guest(&self, cause: Cause) {
        self.troubles.borrow_mut().add(None, cause);
    }

    /// A peer turned down what this node had asked.
    pub(super) fn is_turned_down(&self, index: usize, reason: RejectReason, private: &[u8]) {
        if let Some(rejection) = Rejection::of(reason, private) {
            self.is_kept_from(index, Cause::Rejected(rejection));
        }
    }

    /// A connection with a peer came to stand.
    pub(super) fn is_together_with(&self, index: usize) {
        self.troubles.borrow_mut().end(self.whom(index));
    }

    fn whom(&self, index: usize) -> Option<Rank> {
        (index <= self.loopback()).then(|| self.rank_at(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Channel;
    use crate::transport::grounds::{GROUNDS_LEN, Grounds};
    use crate::transport::on_fakes::{OWN, OnFakes};
    use weft_verbs::CmEvent;

    const NO_MEMORY: VerbsError = VerbsError::Exhausted { what: "memory", limit: 0 };

    fn peer() -> Rank {
        Rank::from_index(1)
    }

    #[test]
    fn a_node_without_memory_for_a_connection_says_so_once_however_often_it_is_asked() {
        let mut node = OnFakes::new();
        node.world(0).refuse_regions = true;
        for attempt in 1..=3 {
            node.is_asked(0, attempt, attempt as u32);
            node.settle();
            let trouble = Trouble { peer: Some(peer()), cause: Cause::Queue(NO_MEMORY), times: attempt };
            assert_eq!(node.mesh.troubles(), [trouble]);
        }
        assert_eq!(node.world(0).rejected.len(), 3);
    }

    #[test]
    fn a_trouble_is_over_once_there_is_a_connection() {
        let mut node = OnFakes::new();
        node.world(0).refuse_regions = true;
        node.is_asked(0, 1, 1);
        node.settle();
        assert_eq!(node.mesh.troubles().len(), 1);
        node.world(0).refuse_regions = false;
        node.stands_on(0);
        assert_eq!(node.mesh.troubles(), []);
    }

    /// What a node that asks is told, where its request is turned down so.
    fn turned_down(reason: RejectReason, private: Vec<u8>) -> Option<Cause> {
        let mut node = OnFakes::new();
        node.mesh.send(peer(), Channel(3), b"there").expect("there is room for one");
        node.settle();
        for event in [CmEvent::Resolved { id: OWN }, CmEvent::Rejected { id: OWN, reason, private }] {
            node.world(0).cm_events.push_back(event);
            node.settle();
        }
        let troubles = node.mesh.troubles();
        assert!(troubles.len() <= 1, "{troubles:?}");
        troubles.first().map(|trouble| trouble.cause)
    }

    #[test]
    fn who_is_turned_down_says_why_unless_that_is_in_the_course_of_things() {
        let refused = |refusal: Refusal| turned_down(RejectReason::Consumer, refusal.encode().to_vec());
        let because = |rejection| Some(Cause::Rejected(rejection));
        assert_eq!(refused(Refusal::Unable), because(Rejection::Unable));
        assert_eq!(refused(Refusal::Stranger), because(Rejection::Stranger));
        assert_eq!(refused(Refusal::Astray), because(Rejection::Astray));
        assert_eq!(refused(Refusal::Expelled(Grounds([7; GROUNDS_LEN]))), because(Rejection::Expelled));
        assert_eq!(refused(Refusal::Retired), because(Rejection::Retired));
        for ordinary in [Refusal::Stale { floor: 3 }, Refusal::SimultaneousOpen, Refusal::Trial] {
            assert_eq!(refused(ordinary), None, "{ordinary:?}");
        }
        let by_manager = |reason| turned_down(reason, Vec::new());
        assert_eq!(by_manager(RejectReason::NoListener), because(Rejection::NoListener));
        assert_eq!(turned_down(RejectReason::Consumer, vec![1, 2, 3]), because(Rejection::Foreign));
        // A node listens there, and its mesh is closed.
        assert_eq!(by_manager(RejectReason::Consumer), because(Rejection::NoListener));
        assert_eq!(by_manager(RejectReason::Other(10)), because(Rejection::Other(10)));
    }

    #[test]
    fn the_last_trouble_is_last() {
        let mut troubles = Troubles::default();
        let kept = |troubles: &Troubles| {
            let mut all: Vec<_> = troubles.all.values().collect();
            all.sort_by_key(|(at, _)| *at);
            all.into_iter().map(|(_, trouble)| (trouble.cause, trouble.times)).collect::<Vec<_>>()
        };
        troubles.add(Some(peer()), Cause::Unreachable);
        troubles.add(Some(peer()), Cause::Queue(NO_MEMORY));
        troubles.add(Some(peer()), Cause::Unreachable);
        assert_eq!(kept(&troubles), [(Cause::Queue(NO_MEMORY), 1), (Cause::Unreachable, 2)]);
    }
}
