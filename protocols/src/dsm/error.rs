//! Why a call has no result.

use super::ObjectId;
use crate::transport::{Rank, TransportError};
use thiserror::Error;
use weft_verbs::VerbsError;

/// Why a call has no result. Nothing was loaded, and nothing stored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DsmError {
    /// A grain that cannot be.
    #[error("a grain is a multiple of 64 bytes, from 64 to 1048576, not {0}")]
    Grain(u64),
    /// A number of bytes that an object cannot have.
    #[error("an object has 1 to 2147483647 bytes, not {0}")]
    Size(u64),
    /// Elements would lie in two minipages.
    #[error("elements of {element} bytes do not fill minipages of {grain}")]
    Straddles {
        /// The minipage, in bytes.
        grain: u32,
        /// An element, in bytes.
        element: usize,
    },
    /// The node that is to manage the minipages is not there.
    #[error("rank {rank} cannot manage minipages: place them at a rank from 1 to {nodes}, or round robin")]
    Placement {
        /// The rank that was asked for.
        rank: Rank,
        /// How many nodes there are.
        nodes: u32,
    },
    /// The minipage is longer than what the mesh's messages carry.
    #[error("messages carry minipages of at most {most} bytes, not {grain}")]
    Message {
        /// The minipage, in bytes.
        grain: u32,
        /// The longest that can be carried.
        most: u32,
    },
    /// The node has made as many objects as there are numbers for them, 2^32 - 1, freed ones among them.
    #[error("the node has used up its numbers for objects")]
    UsedUp,
    /// An element that the object has not.
    #[error("element {index} of {len}")]
    Index {
        /// The element asked for, or the end of those.
        index: usize,
        /// How many there are.
        len: usize,
    },
    /// Two ranges of one claim overlap.
    #[error("a claim of overlapping ranges: elements {start}..{end} are in two of them")]
    Overlap {
        /// The first element that is in two.
        start: usize,
        /// The end of those.
        end: usize,
    },
    /// The deadline has passed.
    #[error("the deadline has passed")]
    Deadline,
    /// The object has been freed.
    #[error("object {n:#x} has been freed", n = .0.0)]
    Freed(ObjectId),
    /// The node knows the object by another size, grain or placement; or another node has asked for the minipage in another length.
    #[error("object {n:#x} is there, and is otherwise", n = .0.0)]
    Otherwise(ObjectId),
    /// There is no memory for it.
    #[error("no memory for the object: {0}")]
    Memory(VerbsError),
    /// The last version of these bytes of the object was with a node that died.
    #[error("bytes {start}..{end} of object {n:#x} are lost with the node that had them", n = .object.0)]
    Lost {
        /// The object.
        object: ObjectId,
        /// The first byte of the minipage, counted over the object.
        start: usize,
        /// The end of the minipage.
        end: usize,
    },
    /// A node died, and with it threads that may have been awaited. Each thread is told once of each.
    #[error("rank {0} died; its threads come to no barrier")]
    Died(Rank),
    /// The membership goes on without this node, or is lost: so is the shared memory here.
    #[error("this node is in no view of the membership any more")]
    Out,
    /// A node restarted, and what it had is gone: the memory of its cluster has ended.
    #[error("rank {0} restarted; what it had is gone")]
    PeerReset(Rank),
    /// The node has been shut down.
    #[error("the node has been shut down")]
    Closed,
    /// The service cannot start.
    #[error("{0}")]
    Transport(#[from] TransportError),
}
