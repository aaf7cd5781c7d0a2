//! DQNL: a distributed queue by compare-and-swap, exclusive only (ncosed.txt, 2.2.2).
//!
//! A lock's word names the tail of its queue, or nobody. A requester puts itself there by compare-and-swap,
//! guessing first that the word is free and then that it is what the last attempt found; the node that it
//! replaced is before it in the queue, and is told. A holder passes the lock to whoever has told it so; if
//! nobody has, it takes itself out of the word, and if that fails a successor is about to tell.
//!
//! N-CoSED's exclusive requests are this protocol (3.2.1 repeats it), with a count of shared requests beside
//! the tail. Where nobody shares, the count stays zero and all that is about it does not happen. So DQNL is
//! [`ncosed::Requester`](super::ncosed::Requester) under [`Sharing::Never`], step by step:
//!
//! | 2.2.2 | here |
//! |---|---|
//! | compare-and-swap `0 -> me`; free: granted | one atomic, `0:0 -> me:0` |
//! | otherwise again, with the value found | until it succeeds, over `t:0` |
//! | wait behind the old tail | `Queue` to t, then `Grant` from t |
//! | leave | `Grant` to the successor, or `me:0 -> 0:0` |
//!
//! The rank is in the word's upper half, as N-CoSED has it, and not in its lower bits: nothing else reads a
//! word. The home's processor has no part in this, beyond telling where the word is. An atomic of unknown outcome
//! ends the word's epoch and the home rebuilds the queue, as N-CoSED's does and by the same machine; the
//! argument for it there holds for a protocol with fewer moves. Nodes do not accept N-CoSED's messages about
//! sharing.
//!
//! What is lost is sharing between nodes: a shared request waits for its turn, and has the lock alone among
//! the nodes. (The applications of its own node may share it: that is the daemon's affair.) A downgrade would
//! let nobody in, and is refused. What is gained is the order: every request is served in that of its
//! compare-and-swap.

use super::LockKey;
use super::ncosed::{Requester, Sharing, Wire};
use crate::transport::Rank;
use std::rc::Rc;

/// A node's requests for one lock.
pub(crate) fn requester<W: Wire>(wire: Rc<W>, key: LockKey, home: impl Into<Option<Rank>>) -> Requester<W> {
    Requester::new(wire, key, home, Sharing::Never)
}
