//! The connection managers' messages (IBA 12.6), as typed values.

use crate::hca::HcaId;
use weft_verbs::{Gid, Mtu, Psn, QpNum, RejectReason, Service};

/// Where a manager is: a port of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The adapter.
    pub hca: HcaId,
    /// The port, from 1.
    pub port: u8,
    /// The port's first GID.
    pub gid: Gid,
}

/// A side's name for a connection (IBA 12.6.1, "communication ID"); never used twice by one manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommId(pub u32);

/// What one side tells of its queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    /// Its number.
    pub qp: QpNum,
    /// The first sequence number that it will send.
    pub psn: Psn,
    /// The largest packet that it wants.
    pub mtu: Mtu,
    /// Reads and atomics of the peer that it serves at a time.
    pub responder_resources: u8,
    /// Reads and atomics that it wants to have in flight.
    pub initiator_depth: u8,
}

/// A message between two managers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Who sent it.
    pub from: Address,
    /// The sender's name for the connection.
    pub local: CommId,
    /// The receiver's name for it, where the sender knows that.
    pub remote: Option<CommId>,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// Asks to connect (12.6.5).
    Req {
        /// To whom.
        service: Service,
        /// The sender's queue pair.
        offer: Offer,
        /// The application's bytes.
        private: Vec<u8>,
    },
    /// Accepts (12.6.8).
    Rep {
        /// The sender's queue pair.
        offer: Offer,
        /// The application's bytes.
        private: Vec<u8>,
    },
    /// Confirms the acceptance (12.6.9).
    Rtu,
    /// Turns a request down, or an acceptance (12.6.7).
    Rej {
        /// Why.
        reason: RejectReason,
        /// The application's bytes.
        private: Vec<u8>,
    },
    /// Ends the connection, or the attempt (12.6.10).
    Dreq,
    /// Confirms the end (12.6.11).
    Drep,
}

impl Message {
    /// The name in the event log.
    pub const fn name(&self) -> &'static str {
        match self.body {
            Body::Req { .. } => "req",
            Body::Rep { .. } => "rep",
            Body::Rtu => "rtu",
            Body::Rej { .. } => "rej",
            Body::Dreq => "dreq",
            Body::Drep => "drep",
        }
    }
}

/// Bytes of one on the wire: a management datagram is always full (IBA 13.4.2), and travels as an unreliable
/// datagram with its headers.
pub const WIRE_BYTES: u64 = 256 + 26 + 8;

/// A rejection because the receiver knows no such connection (IBA 12.6.7.2, code 6).
pub(super) const INVALID_ID: RejectReason = RejectReason::Other(6);
/// A rejection because the request is of a connection that is over (IBA 12.6.7.2, code 10).
pub(super) const STALE: RejectReason = RejectReason::Other(10);
