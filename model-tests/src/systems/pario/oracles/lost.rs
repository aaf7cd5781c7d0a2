//! Lost writes: who has written to a server that crashed before anybody synced that is told so, by the next sync or close of the file. And
//! nobody else is, nor anybody twice.
//!
//! A write lies on the servers of its strips. Of a file that nobody was seen to make nobody knows where its strips begin, and nobody must be
//! told of it.

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
    /// The same of those that may be untold, and when the write began: it may have been answered before a crash of which others hear first.
    untold: BTreeMap<(ClientId, u64, u32), Nanos>,
    /// How often each client has a file open, at most.
    open: BTreeMap<(ClientId, u64), u32>,
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
        handle.into_iter().for_each(|file| *self.open.entry((request.client, file)).or_default() += 1);
    }

    /// A write to a range of a file, which began then, was answered.
    pub(super) fn answered(
        &mut self,
        client: ClientId,
        file: u64,
        bytes: &Range<u64>,
        (began, at): (Nanos, Nanos),
    ) {
        for server in self.servers_of(file, bytes) {
            self.written.entry((client, file, server)).or_insert(at);
            self.untold.entry((client, file, server)).or_insert(began);
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
    fn told(&mut self, client: ClientId, file: u64) {
        self.written.retain(|(of, at, _), _| (*of, *at) != (client, file));
    }

    /// A sync has covered what a client wrote to a file.
    pub(super) fn covered(&mut self, client: ClientId, file: u64) {
        self.untold.retain(|(of, at, _), _| (*of, *at) != (client, file));
    }

    /// A client has closed a file. It may have it open once more.
    pub(super) fn closed(&mut self, client: ClientId, file: u64) {
        let times = self.open.remove(&(client, file)).unwrap_or_default().saturating_sub(1);
        match times {
            0 => self.covered(client, file),
            times => _ = self.open.insert((client, file), times),
        }
    }

    /// A client is told that writes to a file are lost; whether some may be of which it was not told before. Where they may lie on one
    /// server alone, it is told of those.
    pub(super) fn lost(&mut self, client: ClientId, file: u64) -> bool {
        self.told(client, file);
        let of_file = self.untold.range((client, file, 0)..=(client, file, UNKNOWN));
        let crashed = |server| match server {
            UNKNOWN => self.crashed.values().max(),
            server => self.crashed.get(&server),
        };
        let may_be_lost = |&((.., server), began): &(&(ClientId, u64, u32), &Nanos)| {
            crashed(*server).is_some_and(|crashed| began < crashed)
        };
        let lost: Vec<_> = of_file.filter(may_be_lost).map(|(key, _)| *key).collect();
        if let [(.., server)] = lost[..]
            && server != UNKNOWN
        {
            self.untold.remove(&(client, file, server));
        }
        !lost.is_empty()
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
        self.untold.retain(|(client, ..), _| client.node != node);
        self.open.retain(|(client, _), _| client.node != node);
        if serves {
            self.crashed.insert(node, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::history::{Call, Cells, Event, What, Why};
    use super::super::{FileOracles, Survival};
    use super::*;
    use crate::oracle::Oracles;

    const CELLS: Cells = Cells { file: 1, first: 4, cells: 2, rows: 1, stride: 0, bytes: 32 };

    /// Calls of a client, one after the other, and the end of each.
    fn calls(node: u32, calls: &[(Call, What)]) -> Vec<(u32, u32, What)> {
        let both = |(number, (call, end)): (u32, &(Call, What))| {
            [(node, number, What::Calls(*call)), (node, number, end.clone())]
        };
        (1..).zip(calls).flat_map(both).collect()
    }

    /// Whether a history breaks no promise that is about files on so many servers, of which a cell is a strip.
    fn holds(servers: u32, history: &[Vec<(u32, u32, What)>]) -> bool {
        let mut oracles = FileOracles::new(2, 0).surviving(servers, Survival::Synced).striped(32);
        let mut held = true;
        for (at, (node, number, what)) in (1_u64..).zip(history.concat()) {
            let request = RequestId { client: ClientId { node, index: 0 }, number };
            oracles.observe(&Event { at_ns: 1_000 * at, request, what }, &mut |_| held = false);
        }
        held
    }

    #[test]
    fn writes_are_told_to_be_lost_once_and_to_nobody_who_has_lost_none() {
        let (write, sync) = (Call::Write(CELLS), Call::Sync(1));
        let synced = |end| (sync, end);
        let writes = calls(5, &[(Call::Create(0), What::Opened(1)), (write, What::Done)]);
        let crash = vec![(0, 9, What::Restarted)];
        let then = |rest: &[(Call, What)]| {
            let rest = calls(5, rest).into_iter().map(|(node, number, what)| (node, number + 2, what));
            holds(1, &[writes.clone(), crash.clone(), rest.collect()])
        };
        assert!(then(&[synced(What::Lost), synced(What::Done), (Call::Close(1), What::Done)]));
        assert!(then(&[(Call::Close(1), What::Lost)]));
        let twice = then(&[synced(What::Lost), synced(What::Lost)]);
        let again = then(&[synced(What::Lost), (write, What::Done), (Call::Close(1), What::Lost)]);
        assert!(!twice && !again, "it was told before");
        let failed = [synced(What::Failed(Why::Disk)), synced(What::Lost)];
        assert!(then(&failed), "who failed was told nothing");
        let other = calls(6, &[synced(What::Lost)]);
        assert!(!holds(1, &[writes.clone(), crash.clone(), other]), "it wrote nothing");
        let synced_before = calls(5, &[(write, What::Done), synced(What::Done)]);
        let late = vec![(5, 3, What::Calls(sync)), (5, 3, What::Lost)];
        assert!(!holds(1, &[synced_before, crash, late]), "it was synced before the crash");
    }

    #[test]
    fn where_several_servers_have_lost_writes_each_may_be_told_by_itself() {
        let written = calls(5, &[(Call::Create(0), What::Opened(1)), (Call::Write(CELLS), What::Done)]);
        let crashes = |servers: &[u32]| servers.iter().map(|server| (*server, 9, What::Restarted)).collect();
        let lost = |number| vec![(5, number, What::Calls(Call::Sync(1))), (5, number, What::Lost)];
        let twice = |servers| holds(3, &[written.clone(), crashes(servers), lost(3), lost(4)]);
        assert!(twice(&[1, 2]), "both cells' servers");
        assert!(!twice(&[1]) && !twice(&[0, 1]));
    }
}
