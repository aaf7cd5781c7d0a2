//! Where the messages of one channel arrive.

use super::Rank;
use crate::rt::sync::Mailbox;
use std::ops::Deref;

/// Messages up to this length travel without an allocation.
const SMALL: usize = 64;

#[derive(Clone, Debug)]
enum Bytes {
    Small { len: u8, bytes: [u8; SMALL] },
    Large(Box<[u8]>),
}

/// A received message; it dereferences to its bytes.
#[derive(Clone, Debug)]
pub struct Message {
    from: Rank,
    bytes: Bytes,
}

impl Message {
    pub(super) fn new(from: Rank, content: &[u8]) -> Message {
        let bytes = if content.len() <= SMALL {
            let mut bytes = [0; SMALL];
            bytes[..content.len()].copy_from_slice(content);
            Bytes::Small { len: content.len() as u8, bytes }
        } else {
            Bytes::Large(content.into())
        };
        Message { from, bytes }
    }

    /// Who sent it.
    pub fn from(&self) -> Rank {
        self.from
    }

    /// Its content.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Small { len, bytes } => &bytes[..usize::from(*len)],
            Bytes::Large(bytes) => bytes,
        }
    }
}

impl Deref for Message {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

/// What an inbox delivers.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// A message. From one peer they arrive in the order of sending, each exactly once.
    Message(Message),
    /// The peer lost its memory of us (it restarted): a new session begins. Messages of ours that it had not
    /// acknowledged are dropped; whether it saw them nobody knows.
    PeerReset {
        /// The peer.
        peer: Rank,
        /// How many of this channel's messages were dropped.
        lost: u64,
    },
}

/// The messages of one channel, from all peers.
pub struct Inbox {
    pub(super) mailbox: Mailbox<Incoming>,
}

impl Inbox {
    /// Waits for the next message or event; `None` once the mesh is closed.
    pub async fn recv(&mut self) -> Option<Incoming> {
        self.mailbox.recv().await.ok()
    }

    /// Takes the next message or event if one is there.
    pub fn try_recv(&mut self) -> Option<Incoming> {
        self.mailbox.try_recv()
    }

    /// How many messages and events wait.
    pub fn len(&self) -> usize {
        self.mailbox.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.mailbox.is_empty()
    }
}
