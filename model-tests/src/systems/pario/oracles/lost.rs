//! Lost writes: who has written to a server that crashed before anybody synced that is told so, by the next sync or close of the file.
//!
//! A write lies on the servers of its strips. Of a file that nobody was seen to make nobody knows where its strips begin, and nothing is
//! said of it.

use crate::history::{ClientId, RequestId};
use std::collections::BTreeMap;
use std::ops::Range;
use weft_verbs::Nanos;

/// In the place of the servers of a write where they are not known.
const UNKNOWN: u32 = u32::MAX;

/// Writes that were answered, and that their clients have not synced since.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Unsynced {
    /// How many servers there are.
    pub servers: u32,
    /// Bytes of a strip; 0 where it is not known how files lie over several servers. The strips of the n-th file begin at the n-th server.
    pub strip: u32,
    /// Files that are being made, by their numbers.
    making: BTreeMap<RequestId, u32>,
    /// The numbers of files that were made, by handle.
    made: BTreeMap<u64, u32>,
    /// The oldest answer to a write, by client, file and server.
    written: BTreeMap<(ClientId, u64, u32), Nanos>,
    /// When each server crashed last.
    crashed: BTreeMap<u32, Nanos>,
}

impl Unsynced {
    /// A call makes the file of a number.
    pub(super) fn makes(&mut self, request: RequestId, number: u32) {
        if self.is_spread() {
            self.making.insert(request, number);
        }
    }

    /// A call has ended: if it made a file, that has this handle.
    pub(super) fn ended(&mut self, request: RequestId, handle: Option<u64>) {
        let number = self.making.remove(&request);
        self.made.extend(handle.zip(number));
    }

    /// A write to a range of a file was answered.
    pub(super) fn answered(&mut self, client: ClientId, file: u64, bytes: &Range<u64>, at: Nanos) {
        for server in self.servers_of(file, bytes) {
            self.written.entry((client, file, server)).or_insert(at);
        }
    }

    /// Whether it is known how files lie over several servers.
    fn is_spread(&self) -> bool {
        self.servers > 1 && self.strip > 0
    }

    fn servers_of(&self, file: u64, bytes: &Range<u64>) -> Vec<u32> {
        if self.servers == 1 {
            return vec![0];
        }
        let Some(number) = self.made.get(&file) else { return vec![UNKNOWN] };
        let (strip, servers) = (u64::from(self.strip), u64::from(self.servers));
        let strips = bytes.start / strip..bytes.end.div_ceil(strip);
        let server = |nth| ((u64::from(*number) + nth) % servers) as u32;
        strips.take(self.servers as usize).map(server).collect()
    }

    /// A sync or a close that began then has told a client that nothing is lost of what it wrote; whether that is wrong.
    pub(super) fn kept(&mut self, client: ClientId, file: u64, began: Nanos) -> bool {
        let mut of_file = self.written.range((client, file, 0)..=(client, file, UNKNOWN));
        let is_lost = |server, written: Nanos| {
            self.crashed.get(server).is_some_and(|crashed| written < *crashed && *crashed < began)
        };
        let lost = of_file.any(|((.., server), written)| is_lost(server, *written));
        self.told(client, file);
        lost
    }

    /// A client is told what became of all that it wrote to a file.
    pub(super) fn told(&mut self, client: ClientId, file: u64) {
        self.written.retain(|(of, at, _), _| (*of, *at) != (client, file));
    }

    /// A sync has failed. It may have covered what lies on some of several servers.
    pub(super) fn failed(&mut self, client: ClientId, file: u64) {
        if self.is_spread() {
            self.told(client, file);
        }
    }

    /// What a client has open is closed, and what that finds is told to nobody.
    pub(super) fn dropped(&mut self, client: ClientId) {
        self.written.retain(|(of, ..), _| *of != client);
    }

    /// A node has crashed, and is there again.
    pub(super) fn restarted(&mut self, node: u32, serves: bool, at: Nanos) {
        self.making.retain(|request, _| request.client.node != node);
        self.written.retain(|(client, ..), _| client.node != node);
        if serves && (self.servers == 1 || self.is_spread()) {
            self.crashed.insert(node, at);
        }
    }
}
