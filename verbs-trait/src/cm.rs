//! Connection management: how two queue pairs find each other (IBA chapter 12, `rdma_cm`).

use crate::{AckTimeout, Mtu, Result, Retries, RnrTimer, Verbs};

/// A listener's address within a node: `rdma_cm`'s port number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Service(pub u16);

/// A connection attempt or a connection, as one side names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CmId(pub u64);

/// Most bytes of private data with a request: `rdma_cm`'s 56 (IBA's 92 less its header), less 4 in which a backend
/// says how long the data is and what path MTU it wants. `rdma_cm` pads the one and has no field for the other.
pub const MAX_PRIVATE_REQUEST: usize = 52;
/// Most bytes of private data with an acceptance: IBA 12.6.8's 196 less those 4.
pub const MAX_PRIVATE_ACCEPT: usize = 192;
/// Most bytes of private data with a rejection: IBA 12.6.7's 148 less those 4.
pub const MAX_PRIVATE_REJECT: usize = 144;

/// What one side brings into a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnParams<'a> {
    /// Bytes for the peer's application; see the bounds above.
    pub private: &'a [u8],
    /// Reads and atomics of the peer that are served at a time.
    pub responder_resources: u8,
    /// Reads and atomics of ours in flight.
    pub initiator_depth: u8,
    /// Time-out of acknowledgements.
    pub timeout: AckTimeout,
    /// Retries after a time-out.
    pub retry: Retries,
    /// Retries after receiver-not-ready.
    pub rnr_retry: Retries,
    /// How long a peer is to wait that found no receive buffer.
    pub min_rnr_timer: RnrTimer,
    /// Largest packet, lowered to the port's [active MTU](crate::PortAttr::active_mtu); the smaller of both sides' counts. `None` for the
    /// port's.
    pub mtu: Option<Mtu>,
    /// Traffic class of the packets that this side sends, where they carry a global route header: on RoCE the DSCP in its upper six bits.
    /// 0 for what the connection manager takes by itself.
    pub traffic_class: u8,
}

/// Why a request was turned down (IBA 12.6.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// Nobody listens on the service.
    NoListener,
    /// The listener's application rejected it.
    Consumer,
    /// The request timed out at the other side.
    Timeout,
    /// Any other code.
    Other(u16),
}

/// Progress of connections. Every identity is the receiving side's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CmEvent {
    /// The peer's address is known; `connect` may be called.
    Resolved {
        /// As given by `resolve`.
        id: CmId,
    },
    /// A peer asks to connect to a service that this side listens on: accept or reject it.
    Request {
        /// The new connection.
        id: CmId,
        /// The service asked for.
        service: Service,
        /// The peer's private data.
        private: Vec<u8>,
    },
    /// The connection stands: the queue pair is ready to send.
    Established {
        /// The connection.
        id: CmId,
        /// The accepting side's private data; empty on the accepting side.
        private: Vec<u8>,
    },
    /// The peer turned the request down.
    Rejected {
        /// The attempt, which is over.
        id: CmId,
        /// Why.
        reason: RejectReason,
        /// The peer's private data.
        private: Vec<u8>,
    },
    /// No answer within the retries, or no such node.
    Unreachable {
        /// The attempt, which is over.
        id: CmId,
    },
    /// The peer ended the connection. The queue pair's state is not touched.
    Disconnected {
        /// The connection, which is over.
        id: CmId,
    },
}

/// The connection manager of one device.
///
/// Its messages are datagrams that can be lost and are repeated by it. It takes queue pairs in state **Init**
/// (so that receives can be posted first) and brings them to ready-to-send; a queue pair whose attempt failed
/// is left in Init or in the error state.
pub trait ConnectionManager<V: Verbs>: Clone + 'static {
    /// Takes requests for a service from now on.
    fn listen(&self, service: Service) -> Result<()>;
    /// Begins an attempt: finds the node of that name. Ends in `Resolved` or `Unreachable`.
    ///
    /// A name that stands for one of several ports or devices of a node (an address, on hardware) leads to that one. On machines a name
    /// is one that the backend was told, or an address in digits: nothing is looked up, since that may wait.
    fn resolve(&self, node: &str, service: Service) -> Result<CmId>;
    /// The port of this device, from 1, by which the peer of a resolved attempt or of a request is reached: the one
    /// that its queue pair's [`ToInit`](crate::ToInit) must name.
    fn port(&self, id: CmId) -> Result<u8>;
    /// Asks the resolved peer. Ends in `Established`, `Rejected` or `Unreachable`.
    fn connect(&self, id: CmId, qp: &V::Qp, params: &ConnParams<'_>) -> Result<()>;
    /// Accepts a request. Ends in `Established`, or in `Unreachable` where the peer gave up.
    fn accept(&self, id: CmId, qp: &V::Qp, params: &ConnParams<'_>) -> Result<()>;
    /// Turns a request down.
    fn reject(&self, id: CmId, private: &[u8]) -> Result<()>;
    /// Ends a connection or an attempt, and forgets it. The peer gets `Disconnected` if it can be reached.
    fn disconnect(&self, id: CmId) -> Result<()>;
    /// Takes the oldest event, if there is one. Never blocks.
    fn event(&self) -> Option<CmEvent>;
}
