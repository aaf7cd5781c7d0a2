//! Queue pairs: states, transitions, attributes (IBA 10.3.1, 11.2.5).

use crate::{
    AccessFlags, AckTimeout, Gid, PostError, RecvWr, Result, Retries, RnrTimer, SendWr, Verbs, VerbsError,
};
use std::fmt;

/// A queue pair's number, 24 bits, unique within its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QpNum(pub u32);

impl fmt::Display for QpNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "qp{}", self.0)
    }
}

/// A packet sequence number: 24 bits that wrap (IBA 9.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// The number's low 24 bits.
    pub const fn new(n: u32) -> Psn {
        Psn(n & 0xff_ffff)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number `n` further on.
    #[must_use]
    pub const fn plus(self, n: u32) -> Psn {
        Psn::new(self.0.wrapping_add(n))
    }

    /// How far this number is after `earlier`, from -2^23 to 2^23-1.
    pub const fn since(self, earlier: Psn) -> i32 {
        ((self.0.wrapping_sub(earlier.0) << 8) as i32) >> 8
    }
}

/// The largest payload of one packet on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mtu {
    /// 256 bytes.
    B256,
    /// 512 bytes.
    B512,
    /// 1024 bytes.
    B1024,
    /// 2048 bytes.
    B2048,
    /// 4096 bytes.
    B4096,
}

impl Mtu {
    /// In bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Mtu::B256 => 256,
            Mtu::B512 => 512,
            Mtu::B1024 => 1024,
            Mtu::B2048 => 2048,
            Mtu::B4096 => 4096,
        }
    }

    /// The one of so many bytes.
    pub const fn from_bytes(bytes: u32) -> Option<Mtu> {
        match bytes {
            256 => Some(Mtu::B256),
            512 => Some(Mtu::B512),
            1024 => Some(Mtu::B1024),
            2048 => Some(Mtu::B2048),
            4096 => Some(Mtu::B4096),
            _ => None,
        }
    }
}

/// The kind of transport service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable datagram.
    Ud,
}

/// A queue pair's state (IBA 10.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpState {
    /// Newly made, or reset. Posts are refused.
    Reset,
    /// Receives may be posted; nothing is processed.
    Init,
    /// Ready to receive: incoming requests are processed.
    Rtr,
    /// Ready to send: both queues are processed.
    Rts,
    /// Send queue drained or draining: requests are accepted and not begun.
    Sqd,
    /// Send queue error: a UD send failed; receives go on.
    Sqe,
    /// Error: everything posted is flushed.
    Err,
}

impl QpState {
    /// All states.
    pub const ALL: [QpState; 7] =
        [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe, QpState::Err];

    /// Whether a caller may ask for the transition (IBA 10.3.1, figure 124; Linux's `qp_state_table`).
    pub const fn may_become(self, to: QpState, kind: QpType) -> bool {
        use QpState::*;
        match (self, to) {
            (_, Reset) => true,
            (Reset, Init) | (Init, Init) | (Init, Rtr) | (Rtr, Rts) => true,
            (Rts, Rts) | (Rts, Sqd) | (Sqd, Sqd) | (Sqd, Rts) => true,
            // Only an unreliable send queue can fail alone.
            (Sqe, Rts) => matches!(kind, QpType::Ud),
            (Reset, Err) => false,
            (_, Err) => true,
            _ => false,
        }
    }

    /// Whether `post_send` accepts requests (IBA 10.3.1: in Err they are flushed, in Sqd they wait).
    pub const fn accepts_sends(self) -> bool {
        matches!(self, QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err)
    }

    /// Whether `post_recv` accepts requests.
    pub const fn accepts_receives(self) -> bool {
        !matches!(self, QpState::Reset)
    }
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            QpState::Reset => "RESET",
            QpState::Init => "INIT",
            QpState::Rtr => "RTR",
            QpState::Rts => "RTS",
            QpState::Sqd => "SQD",
            QpState::Sqe => "SQE",
            QpState::Err => "ERR",
        })
    }
}

/// Where packets go and how: an address vector (IBA 11.2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// The peer port's global identifier.
    pub dgid: Gid,
    /// The peer port's local identifier; 0 on Ethernet.
    pub dlid: u16,
    /// Which of the local port's GIDs to send from.
    pub sgid_index: u8,
    /// The local port, from 1.
    pub port: u8,
    /// Service level.
    pub sl: u8,
    /// Traffic class of the global route header.
    pub traffic_class: u8,
    /// Hop limit of the global route header.
    pub hop_limit: u8,
    /// Whether packets carry a global route header although the local identifier is known: the peer is behind a router. On Ethernet,
    /// and without a local identifier, they always do.
    pub global: bool,
    /// The fastest that packets may be sent, as `libibverbs` numbers rates (`ibv_rate`): that of the slowest link on the way, where it is
    /// slower than the port. 0 for the port's.
    pub static_rate: u8,
    /// The low bits of the local identifier that packets are sent from, where the port has several (its LMC is not zero).
    pub source_path_bits: u8,
}

impl Path {
    /// The way from a local port to a GID, by defaults: GID index 0, service level 0, 64 hops, no router, at the port's rate, from its
    /// first local identifier.
    pub const fn to(dgid: Gid, port: u8) -> Path {
        Path {
            dgid,
            dlid: 0,
            sgid_index: 0,
            port,
            sl: 0,
            traffic_class: 0,
            hop_limit: 64,
            global: false,
            static_rate: 0,
            source_path_bits: 0,
        }
    }
}

/// A second path for a connection, with its own partition key and time-out (IBA 17.2.8).
///
/// Both ends load theirs, each the reverse of the other. The packet size of the primary path holds on it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AltPath {
    /// The path.
    pub path: Path,
    /// Partition key, by its index in the table of the path's port.
    pub pkey_index: u16,
    /// The time-out of acknowledgements on it.
    pub timeout: AckTimeout,
}

/// Where path migration stands (IBA 17.2.8).
///
/// A connection begins in `Migrated`. Its user loads an alternate path and asks for `Rearm`, at both ends and in any
/// order; each end's adapter goes on to `Armed` by itself, with the first packet of the other end that says that it
/// has rearmed as well. (An idle connection stays in `Rearm`.) From `Armed` a connection moves to its alternate path,
/// which is its only one then, when its user asks for `Migrated`, when its retries are used up (which it gets anew), or
/// when the peer has moved. Each end that moves raises [`AsyncEvent::PathMigrated`](crate::AsyncEvent::PathMigrated).
/// No request fails or is executed twice because of it.
///
/// A peer that moves to another path than the one loaded here is not followed: its packets are dropped, and
/// [`AsyncEvent::PathMigrationFailed`](crate::AsyncEvent::PathMigrationFailed) tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Migration {
    /// On the only path that is loaded; not armed.
    Migrated,
    /// An alternate path is loaded; the peers agree to arm.
    Rearm,
    /// Armed: the adapter may move to the alternate path by itself. Adapters arm, and users cannot ask for it.
    Armed,
}

/// A queue pair's making.
#[derive(Clone)]
pub struct QpInit<'a, V: Verbs> {
    /// Reliable connection or unreliable datagram.
    pub kind: QpType,
    /// Where completions of send requests go.
    pub send_cq: &'a V::Cq,
    /// Where completions of receive requests go.
    pub recv_cq: &'a V::Cq,
    /// A shared receive queue in place of its own.
    pub srq: Option<&'a V::Srq>,
    /// Its sizes.
    pub caps: QpCaps,
    /// Every send request completes, whether it is flagged or not.
    pub sq_sig_all: bool,
}

/// A queue pair's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QpCaps {
    /// Most outstanding send requests.
    pub max_send_wr: u32,
    /// Most outstanding receive requests.
    pub max_recv_wr: u32,
    /// Most entries of a send request's gather list.
    pub max_send_sge: u32,
    /// Most entries of a receive request's scatter list.
    pub max_recv_sge: u32,
    /// Most bytes of inline data.
    pub max_inline: u32,
}

impl Default for QpCaps {
    fn default() -> QpCaps {
        QpCaps { max_send_wr: 64, max_recv_wr: 64, max_send_sge: 1, max_recv_sge: 1, max_inline: 64 }
    }
}

/// A change of a queue pair's state or attributes. Each variant holds what its transition requires, and as
/// options what it allows (IBA table 96).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modify {
    /// Back to the beginning: every posted request vanishes **without a completion**. Completions that it had
    /// already and that were not polled may vanish or not: some adapters' drivers remove them, others leave
    /// them. A caller that wants them goes to [`Modify::Err`] first and polls.
    Reset,
    /// Reset or Init to Init.
    Init(ToInit),
    /// Init to ready-to-receive. A UD queue pair uses none of the attributes.
    Rtr(ToRtr),
    /// Ready-to-receive to ready-to-send.
    Rts(ToRts),
    /// Attributes that may change in Rts or Sqd, the state staying as it is.
    Update(Update),
    /// Rts to Sqd: requests in flight end, no new one begins.
    Sqd {
        /// Raise [`AsyncEvent::SqDrained`](crate::AsyncEvent::SqDrained) when the queue has drained.
        notify: bool,
    },
    /// Sqd, or Sqe of a datagram queue pair, back to Rts.
    Resume,
    /// To the error state: everything posted is flushed, in order, and nothing more of the peer's requests is
    /// executed. When the call returns the adapter accepts no further packet for the queue pair: this is the
    /// **fence** that fixes the outcome of the peer's requests.
    Err,
}

impl Modify {
    /// The state it asks for, coming from `from`.
    pub const fn target(&self, from: QpState) -> QpState {
        match self {
            Modify::Reset => QpState::Reset,
            Modify::Init(_) => QpState::Init,
            Modify::Rtr(_) => QpState::Rtr,
            Modify::Rts(_) | Modify::Resume => QpState::Rts,
            Modify::Sqd { .. } => QpState::Sqd,
            Modify::Err => QpState::Err,
            Modify::Update(_) => from,
        }
    }

    /// Checks the transition; both backends refuse alike.
    pub fn check(&self, from: QpState, kind: QpType) -> Result<QpState> {
        let to = self.target(from);
        let fits = match self {
            Modify::Rts(_) => from == QpState::Rtr,
            Modify::Resume => matches!(from, QpState::Sqd | QpState::Sqe),
            Modify::Update(_) => matches!(from, QpState::Rts | QpState::Sqd),
            _ => true,
        };
        if fits && from.may_become(to, kind) { Ok(to) } else { Err(VerbsError::NoTransition { from, to }) }
    }
}

/// What Init takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ToInit {
    /// The local port, from 1.
    pub port: u8,
    /// Partition key, by its index.
    pub pkey_index: u16,
    /// What peers may do to memory through this queue pair (RC). Remote atomics need [`Caps::ATOMICS`](crate::Caps::ATOMICS).
    pub access: AccessFlags,
    /// Queue key (UD): datagrams with another one are dropped.
    pub qkey: u32,
}

/// What ready-to-receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ToRtr {
    /// The peer's queue pair.
    pub dest_qp: QpNum,
    /// The first packet sequence number that the peer will send.
    pub rq_psn: Psn,
    /// The way to the peer.
    pub path: Path,
    /// Packets are cut to this size; both ends must agree.
    pub mtu: Mtu,
    /// How long a peer is to wait that found no receive buffer.
    pub min_rnr_timer: RnrTimer,
    /// How many reads and atomics of the peer are served at a time, and replayed if duplicated.
    pub max_dest_rd_atomic: u8,
    /// A second path. Needs [`Caps::APM`](crate::Caps::APM).
    pub alt: Option<AltPath>,
}

/// What ready-to-send takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ToRts {
    /// The first packet sequence number to send.
    pub sq_psn: Psn,
    /// Time-out of acknowledgements.
    pub timeout: AckTimeout,
    /// How often to send again after a time-out or a sequence error, without progress.
    pub retry: Retries,
    /// How often to send again after receiver-not-ready.
    pub rnr_retry: Retries,
    /// How many reads and atomics may be in flight.
    pub max_rd_atomic: u8,
    /// A second path. Needs [`Caps::APM`](crate::Caps::APM).
    pub alt: Option<AltPath>,
    /// The migration state to begin in, `Migrated` or `Rearm`. Needs [`Caps::APM`](crate::Caps::APM) unless
    /// `Migrated`.
    pub migration: Migration,
}

/// Attributes that may change while a queue pair is in use. `None` leaves one as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Update {
    /// What peers may do to memory through this queue pair.
    pub access: Option<AccessFlags>,
    /// How long a peer is to wait that found no receive buffer.
    pub min_rnr_timer: Option<RnrTimer>,
    /// Queue key (UD).
    pub qkey: Option<u32>,
    /// A second path. Needs [`Caps::APM`](crate::Caps::APM).
    pub alt: Option<AltPath>,
    /// The migration state. Asking for `Rearm` needs a loaded alternate path; asking for `Migrated` while armed moves
    /// to it now. Anything else is refused.
    pub migration: Option<Migration>,
}

/// A queue pair as it is (IBA 11.2.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QpAttr {
    /// Its state.
    pub state: QpState,
    /// Its kind.
    pub kind: QpType,
    /// Its sizes, as they were asked for.
    pub caps: QpCaps,
    /// What Init was given.
    pub init: Option<ToInit>,
    /// What ready-to-receive was given, with the path that is in use and the alternate one that is loaded now.
    pub rtr: Option<ToRtr>,
    /// What ready-to-send was given, with the time-out that is in use and the alternate path that is loaded now.
    pub rts: Option<ToRts>,
    /// Where path migration stands.
    pub migration: Migration,
    /// In Sqd: requests are still in flight.
    pub draining: bool,
}

/// A queue pair. Clones are the same queue pair, destroyed with the last of them; requests still posted then
/// vanish without a completion, and their memory is released.
pub trait QueuePair<V: Verbs>: Clone + 'static {
    /// Its number.
    fn num(&self) -> QpNum;
    /// Its state now.
    fn state(&self) -> QpState;
    /// Everything about it.
    fn query(&self) -> Result<QpAttr>;
    /// Changes state or attributes. Refused in whole or done in whole.
    fn modify(&self, change: &Modify) -> Result<()>;
    /// Queues send requests, in order.
    fn post_send(&self, list: &[SendWr<'_, V>]) -> std::result::Result<(), PostError>;
    /// Queues receive requests, in order. Refused where a shared receive queue serves.
    fn post_recv(&self, list: &[RecvWr<'_, V>]) -> std::result::Result<(), PostError>;
}

/// Identifies a shared receive queue within its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SrqId(pub u32);

/// A receive queue that many queue pairs draw from. A queue pair's error does not flush it (IBA 10.2.9).
pub trait SharedReceiveQueue<V: Verbs>: Clone + 'static {
    /// Its identity in events.
    fn id(&self) -> SrqId;
    /// Queues receive requests.
    fn post_recv(&self, list: &[RecvWr<'_, V>]) -> std::result::Result<(), PostError>;
    /// Asks for one [`AsyncEvent::SrqLimit`](crate::AsyncEvent::SrqLimit) once fewer than `limit` requests
    /// are left. 0 disarms.
    fn arm_limit(&self, limit: u32) -> Result<()>;
}
