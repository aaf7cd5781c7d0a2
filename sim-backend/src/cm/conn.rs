//! One connection as its manager keeps it, and what both sides settle on.

use super::{Address, Body, CommId, Offer, Owner, QpRef};
use weft_verbs::{
    AckTimeout, Migration, Modify, Mtu, Nanos, Path, Psn, QpNum, RejectReason, Retries, RnrTimer, Service,
    ToRtr, ToRts,
};

/// The application's side of a connection's parameters.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Params {
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) timeout: AckTimeout,
    pub(super) retry: Retries,
    pub(super) rnr_retry: Retries,
    pub(super) min_rnr_timer: RnrTimer,
    pub(super) mtu: Mtu,
}

#[derive(Clone, Debug, Hash)]
pub(super) enum State {
    /// The peer is known, nothing was sent.
    Resolved { service: Service },
    /// Active: a request is out.
    ReqSent { mine: Mine },
    /// Passive: the application has not answered yet.
    ReqReceived { theirs: Offer },
    /// Passive: accepted, and not confirmed yet.
    RepSent { mine: Mine },
    /// It stands.
    Established,
    /// This side has ended it, and waits for the confirmation. The application has forgotten it.
    DreqSent,
    /// Passive: over. A late copy of its request is answered by a rejection. The application has forgotten it.
    Over { reason: RejectReason, private: Vec<u8> },
}

/// This side's queue pair in a connection.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Mine {
    pub(super) qp: QpRef,
    pub(super) psn: Psn,
    pub(super) params: Params,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Conn {
    pub(super) owner: Owner,
    /// The port of this adapter by which it goes.
    pub(super) me: Address,
    pub(super) peer: Address,
    /// The peer's name for it, once known.
    pub(super) remote: Option<CommId>,
    /// The peer's queue pair, once known.
    pub(super) remote_qp: Option<QpNum>,
    /// Whether the peer asked for it.
    pub(super) passive: bool,
    pub(super) state: State,
    /// What is repeated until it is answered, and how often it still may be.
    pub(super) unanswered: Option<(Body, u8)>,
    /// When to repeat, or to forget.
    pub(super) deadline: Nanos,
    /// Where there is no time: what became of its messages.
    pub(super) untimed: Untimed,
}

/// What lets a connection's timer run out where there is no time.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct Untimed {
    /// A message about it was lost since it began to ask, or since its timer ran out: it may ask again.
    pub(super) lost: bool,
    /// How often that happened.
    pub(super) losses: u32,
    /// How often its timer ran out.
    pub(super) fired: u32,
}

impl Conn {
    /// Whether the application still knows it.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self.state, State::DreqSent | State::Over { .. })
    }
}

impl Params {
    /// What both sides can do.
    pub(super) fn agree(&mut self, theirs: &Offer) {
        self.mtu = self.mtu.min(theirs.mtu);
        self.responder_resources = self.responder_resources.min(theirs.initiator_depth);
        self.initiator_depth = self.initiator_depth.min(theirs.responder_resources);
    }
}

impl Mine {
    pub(super) fn offer(&self) -> Offer {
        Offer {
            qp: self.qp.num,
            psn: self.psn,
            mtu: self.params.mtu,
            responder_resources: self.params.responder_resources,
            initiator_depth: self.params.initiator_depth,
        }
    }

    pub(super) fn to_rtr(self, me: Address, peer: Address, theirs: &Offer) -> Modify {
        Modify::Rtr(ToRtr {
            dest_qp: theirs.qp,
            rq_psn: theirs.psn,
            path: Path::to(peer.gid, me.port),
            mtu: self.params.mtu,
            min_rnr_timer: self.params.min_rnr_timer,
            max_dest_rd_atomic: self.params.responder_resources,
            alt: None,
        })
    }

    pub(super) fn to_rts(self) -> Modify {
        Modify::Rts(ToRts {
            sq_psn: self.psn,
            timeout: self.params.timeout,
            retry: self.params.retry,
            rnr_retry: self.params.rnr_retry,
            max_rd_atomic: self.params.initiator_depth,
            alt: None,
            migration: Migration::Migrated,
        })
    }
}
