//! The mesh: what a protocol sees of its peers.

use super::{Channel, Inbox, MeshConfig, NotExecuted, OpError, Rank, SendError, TransportError};
use crate::rt::Rt;
use crate::rt::sync::mailbox;
use std::rc::Rc;
use verbs_trait::{AccessFlags, Context, ProtectionDomain, RemoteSlice, Verbs, VerbsError};

struct Shared<V: Verbs> {
    pd: V::Pd,
    config: MeshConfig,
}

/// This node's connections and sessions with its peers. Clones are the same mesh.
pub struct Mesh<V: Verbs> {
    shared: Rc<Shared<V>>,
}

impl<V: Verbs> Clone for Mesh<V> {
    fn clone(&self) -> Self {
        Mesh { shared: Rc::clone(&self.shared) }
    }
}

/// What a mesh holds at this moment; at rest everything but `connections` is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeshAudit {
    /// Connections that stand.
    pub connections: usize,
    /// Messages that their receivers have not acknowledged.
    pub unacked: u64,
    /// Credits that this node's peers have used and not got back.
    pub credits_out: u64,
    /// Operations posted and not completed, receives aside.
    pub outstanding: u64,
}

/// What a mesh has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeshStats {
    /// Messages sent, without repetitions.
    pub messages_sent: u64,
    /// Messages delivered to inboxes.
    pub messages_received: u64,
    /// Messages received again and dropped.
    pub duplicates: u64,
    /// One-sided operations posted.
    pub operations: u64,
    /// One-sided operations whose fate was lost.
    pub unknown_fates: u64,
    /// Connections made again after the first.
    pub reconnects: u64,
    /// Queue pairs moved to the error state to fix the fate of what they carried.
    pub fences: u64,
}

impl<V: Verbs> Mesh<V> {
    /// Joins the mesh: listens for its peers. Nothing is connected before it is needed.
    pub fn start(rt: &Rt<V>, config: MeshConfig) -> Result<Mesh<V>, TransportError> {
        let pd = rt.context().alloc_pd()?;
        Ok(Mesh { shared: Rc::new(Shared { pd, config }) })
    }

    /// This node's rank.
    pub fn me(&self) -> Rank {
        self.shared.config.me
    }

    /// How many nodes the mesh has, this one included. Their ranks are 1 to this number.
    pub fn size(&self) -> u32 {
        self.shared.config.peers.len() as u32
    }

    /// Takes the messages of one channel from now on. One inbox a channel.
    pub fn open(&self, _channel: Channel) -> Result<Inbox, TransportError> {
        Ok(Inbox { mailbox: mailbox().1 })
    }

    /// Sends a message: in order with the others to this peer, exactly once, across reconnections. Returns
    /// once the message is kept; what is sent to oneself goes straight to the inbox.
    pub fn send(&self, _to: Rank, _channel: Channel, _bytes: &[u8]) -> Result<(), SendError> {
        Err(SendError::Closed)
    }

    /// Waits until [`Mesh::send`] to this peer has room.
    pub async fn room(&self, _to: Rank) -> Result<(), SendError> {
        Err(SendError::Closed)
    }

    /// Compare-and-swap on a peer's word (or one's own, through the adapter): the word's old value.
    ///
    /// Waits for the connection for as long as it takes: set a deadline.
    pub async fn compare_swap(
        &self,
        _to: Rank,
        _at: RemoteSlice,
        _compare: u64,
        _swap: u64,
    ) -> Result<u64, OpError> {
        Err(OpError::NotExecuted(NotExecuted::Closed))
    }

    /// Fetch-and-add on a peer's word: the word's old value.
    pub async fn fetch_add(&self, _to: Rank, _at: RemoteSlice, _add: u64) -> Result<u64, OpError> {
        Err(OpError::NotExecuted(NotExecuted::Closed))
    }

    /// Reads a peer's memory. More than one word may be torn.
    pub async fn read(&self, _to: Rank, _from: RemoteSlice, _into: &mut [u8]) -> Result<(), OpError> {
        Err(OpError::NotExecuted(NotExecuted::Closed))
    }

    /// Writes a peer's memory; returns once the peer's adapter has acknowledged it.
    pub async fn write(&self, _to: Rank, _at: RemoteSlice, _bytes: &[u8]) -> Result<(), OpError> {
        Err(OpError::NotExecuted(NotExecuted::Closed))
    }

    /// Returns once every operation toward `to` that was posted before the call has a **fixed** fate: it has
    /// completed, or its connection is fenced at the responder (a later incarnation of the connection stands,
    /// which the peer accepted or asked for only after it had moved the old queue pair to error). From then on
    /// no late copy of such an operation can execute.
    pub async fn settle(&self, _to: Rank) -> Result<(), NotExecuted> {
        Err(NotExecuted::Closed)
    }

    /// Registered memory that peers of this mesh may use, as far as `access` allows. Zeroed.
    pub fn alloc(&self, len: usize, access: AccessFlags) -> Result<V::Mr, VerbsError> {
        self.shared.pd.alloc_mr(len, access)
    }

    /// What the mesh holds now.
    pub fn audit(&self) -> MeshAudit {
        MeshAudit::default()
    }

    /// What the mesh has done.
    pub fn stats(&self) -> MeshStats {
        MeshStats::default()
    }
}
