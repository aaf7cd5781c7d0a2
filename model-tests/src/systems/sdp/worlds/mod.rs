//! Worlds of sockets: two nodes and one transfer, cut at every event; and ends that behave as no end may.

mod planted;
mod transfer;

use crate::explore::{AnyModel, Entry, Expected, Key, Size, SizeError};
use crate::harness::Harness;
use transfer::{Kind, Transfer};

const KEYS: &[Key] = &[
    Key { name: "bytes", help: "how many bytes the request has, from 24; 32 are a message" },
    Key { name: "reply", help: "how many bytes the answer has" },
];

macro_rules! worlds {
    ($($name:literal $kind:ident, $expected:ident, $bytes:literal, $reply:literal, $about:literal;)*) => {
        /// The worlds of sockets.
        pub fn worlds() -> Vec<Entry> {
            vec![$(Entry {
                name: $name,
                about: $about,
                expected: Expected::$expected,
                keys: KEYS,
                make: |size| make($name, Kind::$kind, size, $bytes, $reply),
            }),*]
        }
    };
}

worlds! {
    "sdp-bcopy" Shipped, Held, 96, 8, "sockets: a request of several messages through private buffers, and a short answer";
    "sdp-half-closed" Shipped, Held, 24, 128,
        "sockets: the client writes no more, and the answer takes more buffers than it has";
    "sdp-closes" Closes, Held, 56, 96,
        "sockets: the server answers while it reads, both ends run out of credits, and both close at once";
    "sdp-closes-read" ClosesReads, Held, 88, 64, "sockets: the same with bytes that both ends advertise";
    "sdp-rails" Rails, Held, 96, 8, "sockets: the same between nodes of two rails";
    "sdp-standby" StandsBy, Held, 56, 8,
        "sockets: a request through private buffers, while a connection stands by over the other rail";
    "sdp-standby-read" StandsByReads, Held, 56, 8,
        "sockets: a request that is advertised and read, while a connection stands by over the other rail";
    "sdp-zcopy-read" Reads, Held, 152, 8, "sockets: the request is advertised, two buffers at a time, and read by RDMA";
    "sdp-crossing" Crosses, Held, 120, 8,
        "sockets: both ends have buffers ready, so that advertisements cross; the request is read or written by RDMA";
    "sdp-recalls" Recalls, Held, 152, 8,
        "sockets: the request is advertised, two buffers at a time, and the client wants them back at once";
    "sdp-recalls-wanted" RecallsWanted, Held, 152, 8,
        "sockets: both ends have buffers ready and want every other one back at once";
    "sdp-restarts" Restarts, Held, 56, 8,
        "sockets: a request of several messages through private buffers; either node may crash and begin anew";
    "sdp-restarts-read" RestartsReads, Held, 88, 8,
        "sockets: the request is advertised and read by RDMA; either node may crash and begin anew";
    "sdp-restarts-crossing" RestartsCrosses, Held, 88, 8,
        "sockets: both ends have buffers ready; either node may crash and begin anew";
    "sdp-modes" Modes, Held, 120, 8,
        "sockets: both ends have buffers ready, and readers change how bytes may come to them";
    "sdp-resizes" Resizes, Held, 96, 8,
        "sockets: private buffers become smaller and larger between the calls of a request";
    "sdp-zcopy-rails" ReadsOverRails, Held, 88, 8,
        "sockets: the request is advertised and read by RDMA, between nodes of two rails";
    "as-published-sdp-suspends-dead-link" SuspendsDeadLink, ViolatedUnderFaults, 56, 8,
        "sockets over two rails: after the link failed, the end waits for what is in process before it goes over";
    "as-published-sdp-cancels-unrevoked" CancelsUnrevoked, ViolatedUnderFaults, 88, 8,
        "sockets over two rails: what was advertised counts as cancelled when the connection broke";
    "as-published-sdp-moves-one-end" MovesOneEnd, ViolatedUnderFaults, 56, 8,
        "sockets over two rails: who loses a rail moves its own end of the connection, when both have lost theirs for good";
    "planted-sdp-keeps-credits" KeepsCredits, Violated, 24, 128,
        "sockets: an end that writes no more returns no credits either";
    "planted-sdp-forgets-end" ForgetsEnd, Violated, 24, 8,
        "sockets: an end is forgotten when it has sent its own end, and not when the peer's has come";
    "planted-sdp-reuses-source" ReusesSource, Violated, 88, 8,
        "sockets: advertised memory is used again when the message has been sent";
    "planted-sdp-uses-void-sink" UsesVoidSink, Violated, 120, 8,
        "sockets: bytes are written where they were wanted before the writer sent others";
    "planted-sdp-recalls-blindly" RecallsBlindly, Violated, 88, 8,
        "sockets: advertised memory is used again when its cancel was sent";
    "planted-sdp-refills-early" RefillsEarly, Violated, 24, 64,
        "sockets: memory that was to be filled is used again when its cancel was sent";
    "planted-sdp-other-rails-key" OtherRailsKey, ViolatedUnderFaults, 88, 8,
        "sockets over two rails: advertised memory is read over any rail, with the key of the memory's";
    "planted-sdp-resumes-from-sent" ResumesFromSent, ViolatedUnderFaults, 56, 8,
        "sockets over two rails: what was sent is not sent again, whatever the peer has received";
}

fn make(
    name: &'static str,
    kind: Kind,
    size: &Size,
    bytes: u32,
    reply: u32,
) -> Result<Box<dyn AnyModel>, SizeError> {
    let bytes = size.number("bytes")?.unwrap_or(bytes);
    let reply = size.number("reply")?.unwrap_or(reply);
    // What a client's mistake is about takes so many bytes.
    let least = match kind {
        Kind::UsesVoidSink => 24 + transfer::PAYLOAD + 1,
        Kind::ReusesSource | Kind::RecallsBlindly | Kind::CancelsUnrevoked => 24 + 17,
        _ => 24,
    };
    size.within("bytes", bytes, least..=512)?;
    size.within("reply", reply, 1..=512)?;
    Ok(Harness::boxed(Transfer { name, kind, bytes, reply }))
}
