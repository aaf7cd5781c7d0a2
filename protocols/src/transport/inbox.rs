//! Where the messages of one channel arrive.

use super::{Channel, Rank, TransportError};
use crate::rt::sync::{Mailbox, MailboxSender, mailbox};
use std::ops::Deref;

/// Messages up to this length travel without an allocation.
pub(super) const SMALL: usize = 64;

#[derive(Clone, Debug)]
enum Bytes {
    Small {
        len: u8,
        bytes: [u8; SMALL],
    },
    /// What arrived, and where its content begins.
    Large(Vec<u8>, usize),
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
            Bytes::Large(content.into(), 0)
        };
        Message { from, bytes }
    }

    /// The message whose content lies in a frame behind so many bytes: without a copy, if it is long.
    pub(super) fn of_frame(from: Rank, frame: Vec<u8>, head: usize) -> Message {
        match frame.len() <= head + SMALL {
            true => Message::new(from, &frame[head.min(frame.len())..]),
            false => Message { from, bytes: Bytes::Large(frame, head) },
        }
    }

    /// Who sent it.
    pub fn from(&self) -> Rank {
        self.from
    }

    /// Its content.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Small { len, bytes } => &bytes[..usize::from(*len)],
            Bytes::Large(frame, head) => &frame[*head..],
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
    /// acknowledged are dropped; whether it saw them nobody knows. Every open channel is told.
    PeerReset {
        /// The peer.
        peer: Rank,
        /// How many of this channel's messages were dropped.
        lost: u64,
    },
}

/// The messages of one channel, from all peers.
///
/// It grows while nobody takes from it: a protocol bounds what its peers may send without an answer.
pub struct Inbox {
    mailbox: Mailbox<Incoming>,
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

    /// How often it is to be told yet, behind messages that wait, that a peer began anew.
    pub(super) fn resets_of(&self, rank: Rank) -> u32 {
        self.mailbox.count(|incoming| matches!(incoming, Incoming::PeerReset { peer, .. } if *peer == rank))
            as u32
    }
}

struct Entry {
    sender: MailboxSender<Incoming>,
    /// Present until the channel is opened: what comes before that is kept for it.
    unopened: Option<Mailbox<Incoming>>,
}

/// The inboxes of all channels.
#[derive(Default)]
pub(super) struct Inboxes {
    entries: Vec<Option<Entry>>,
    closed: bool,
}

impl Inboxes {
    fn entry(&mut self, channel: Channel) -> &mut Entry {
        let index = usize::from(channel.0);
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
        }
        self.entries[index].get_or_insert_with(|| {
            let (sender, unopened) = mailbox();
            Entry { sender, unopened: Some(unopened) }
        })
    }

    pub(super) fn open(&mut self, channel: Channel) -> Result<Inbox, TransportError> {
        if self.closed {
            return Err(TransportError::Closed);
        }
        let mailbox = self.entry(channel).unopened.take().ok_or(TransportError::ChannelTaken(channel))?;
        Ok(Inbox { mailbox })
    }

    /// Delivers; to nobody if the inbox was dropped.
    pub(super) fn deliver(&mut self, channel: Channel, incoming: Incoming) {
        if !self.closed {
            drop(self.entry(channel).sender.send(incoming));
        }
    }

    /// Tells every open channel that a peer began anew.
    pub(super) fn tell_reset(&mut self, peer: Rank, lost: impl Fn(Channel) -> u64) {
        for (number, entry) in self.entries.iter().enumerate() {
            if let Some(entry) = entry {
                let lost = lost(Channel(number as u8));
                drop(entry.sender.send(Incoming::PeerReset { peer, lost }));
            }
        }
    }

    /// Whether no channel that nobody opened has messages.
    pub(super) fn is_idle(&self) -> bool {
        let unopened = self.entries.iter().flatten().filter_map(|entry| entry.unopened.as_ref());
        unopened.fold(!self.closed, |idle, mailbox| idle && mailbox.is_empty())
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.entries.clear();
    }
}
