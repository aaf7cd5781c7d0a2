//! Readings of the paper, each to be refuted: what it leaves open, done in the plausible way that is wrong.
//!
//! Each is a small protocol of its own and test-only code: none of it is in what ships.

mod buffer_back;
mod moves;
mod names;
mod notice;
mod staging;

use super::super::history::{Event, What};
use super::InOrder;
use crate::explore::Entry;
use crate::harness::{Member, Recorder, of_one_size, worlds};
use crate::history::{ClientId, RequestId};
use crate::record::Record;
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, Rank};
use weft_sim::Sim;

/// All of them.
pub(super) fn entries() -> Vec<Entry> {
    use names::{Names, Reading};
    worlds! { &[];
        "as-published-pario-buffer-back" of_one_size(buffer_back::BufferBack) Violated,
            "a reader gives up, and writes from the buffer into which its bytes are still to come";
        "as-published-pario-staging-back" of_one_size(staging::StagingBack) Violated,
            "a server takes a place in staging back by a time-out, and offers it to another client";
        "as-published-pario-notice-elsewhere" of_one_size(notice::NoticeElsewhere) Violated,
            "the notice of a push comes by another server's queue pair, and not behind the data";
        "as-published-pario-moves-unturned" of_one_size(moves::Moves) Violated,
            "two servers move a directory each into the other one, and both have looked before";
        "as-published-pario-answered-early" of_one_size(Names(Reading::AnsweredEarly)) ViolatedUnderFaults,
            "a name is told to be made before it is durable";
        "as-published-pario-retried" of_one_size(Names(Reading::Retried)) ViolatedUnderFaults,
            "a call whose server began anew is asked again, and is executed once more";
        "as-published-pario-objects-first" of_one_size(Names(Reading::ObjectsFirst)) ViolatedUnderFaults,
            "a file's objects are made before its name, as PVFS2 does it";
    }
}

const CHANNEL: Channel = Channel(0);

/// One end of messages: a kind, and what it has.
struct End {
    mesh: Mesh<Sim>,
    inbox: Inbox,
}

/// What came to an end.
enum Came {
    Message(Rank, u8, Vec<u8>),
    /// The peer has begun anew.
    Reset,
}

impl End {
    fn of(Member { mesh, .. }: &Member) -> End {
        End { mesh: mesh.clone(), inbox: mesh.open(CHANNEL).expect("nobody else has it") }
    }

    fn send(&self, to: Rank, kind: u8, bytes: &[u8]) {
        self.mesh.send(to, CHANNEL, &[&[kind][..], bytes].concat()).expect("room for a few messages");
    }

    async fn next(&mut self) -> Option<Came> {
        Some(match self.inbox.recv().await? {
            Incoming::PeerReset { .. } => Came::Reset,
            Incoming::Message(message) => {
                let (kind, bytes) = message.bytes().split_first()?;
                Came::Message(message.from(), *kind, bytes.to_vec())
            }
        })
    }
}

/// Who tells of a node's calls.
struct Teller {
    node: u32,
    recorder: Recorder<InOrder>,
}

impl Teller {
    fn id(&self, number: u32) -> RequestId {
        RequestId { client: ClientId { node: self.node, index: 0 }, number }
    }

    fn happens(&self, number: u32, what: What) {
        self.recorder.record(Event { at_ns: 0, request: self.id(number), what });
    }
}
