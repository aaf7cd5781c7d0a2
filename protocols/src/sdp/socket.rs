//! What the user's handle and the node's service share of one stream.

use super::SdpOptions;
use super::endpoint::Endpoint;
use super::message::{HEADER_LEN, Handle};
use super::stream::Address;
use crate::rt::sync::Signal;
use crate::transport::{Message, Rank};
use std::cell::RefCell;
use std::collections::VecDeque;

/// A stream of this node.
pub(super) struct Socket {
    pub handle: Handle,
    /// The stream's identity, drawn by the end that asked for it.
    pub id: u128,
    pub peer: Rank,
    pub local: Address,
    pub remote: Address,
    pub options: SdpOptions,
    pub end: RefCell<Endpoint>,
    unread: RefCell<Unread>,
    /// Bytes came, or the end of them, or the stream failed.
    pub readable: Signal,
    /// There may be room for bytes, or everything is acknowledged, or the stream failed.
    pub writable: Signal,
}

/// Data messages that the user has not read to the end: they are the private buffers in use.
#[derive(Default)]
struct Unread {
    messages: VecDeque<Message>,
    /// How many bytes of the first one were read.
    read: usize,
}

impl Socket {
    pub fn new(
        handle: Handle,
        id: u128,
        [local, remote]: [Address; 2],
        options: SdpOptions,
        end: Endpoint,
    ) -> Socket {
        Socket {
            handle,
            id,
            peer: remote.rank,
            local,
            remote,
            options,
            end: RefCell::new(end),
            unread: RefCell::default(),
            readable: Signal::new(),
            writable: Signal::new(),
        }
    }

    /// Wakes all who wait for anything.
    pub fn wake(&self) {
        self.readable.notify();
        self.writable.notify();
    }

    /// Keeps the bytes of a data message.
    pub fn keep(&self, message: Message) {
        self.unread.borrow_mut().messages.push_back(message);
    }

    /// Whether bytes wait to be read.
    pub fn has_unread(&self) -> bool {
        !self.unread.borrow().messages.is_empty()
    }

    /// Copies bytes out without taking them.
    pub fn peek(&self, into: &mut [u8]) -> usize {
        let unread = self.unread.borrow();
        let (mut filled, mut skip) = (0, unread.read);
        for message in &unread.messages {
            let bytes = &message.bytes()[HEADER_LEN as usize + skip..];
            let n = bytes.len().min(into.len() - filled);
            into[filled..filled + n].copy_from_slice(&bytes[..n]);
            (filled, skip) = (filled + n, 0);
        }
        filled
    }

    /// Copies bytes out and takes them. Buffers that were read to their end are free.
    pub fn take(&self, into: &mut [u8]) -> usize {
        let filled = self.peek(into);
        self.consume(filled);
        filled
    }

    fn consume(&self, mut bytes: usize) {
        let mut unread = self.unread.borrow_mut();
        while let Some(first) = unread.messages.front() {
            let left = first.len() - HEADER_LEN as usize - unread.read;
            if bytes < left {
                unread.read += bytes;
                return;
            }
            bytes = bytes.saturating_sub(left);
            unread.read = 0;
            unread.messages.pop_front();
            self.end.borrow_mut().consumed();
        }
    }

    /// Drops what was not read. Says whether there was something.
    pub fn discard(&self) -> bool {
        let had = self.has_unread();
        self.consume(usize::MAX);
        had
    }
}
