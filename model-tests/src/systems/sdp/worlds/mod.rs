//! Worlds of sockets: two nodes and one transfer, cut at every event; and ends that behave as no end may.

mod calls;
mod copies;
mod planted;
mod setting;
mod transfer;

use crate::explore::{AnyModel, Entry, Expected, Key, Size, SizeError};
use crate::harness::Harness;
use setting::Setting;
use transfer::{Kind, Transfer};
use weft_protocols::transport::Planted;

const KEYS: &[Key] = &[
    Key { name: "bytes", help: "how many bytes the request has, from 24; 32 are a message" },
    Key { name: "reply", help: "how many bytes the answer has" },
];

macro_rules! worlds {
    ($($name:literal $kind:ident, $setting:expr, $expected:ident, $bytes:literal, $reply:literal, $about:literal;)*) => {
        /// The worlds of one request and its answer.
        fn transfers() -> Vec<Entry> {
            vec![$(Entry {
                name: $name,
                about: $about,
                expected: Expected::$expected,
                keys: KEYS,
                make: |size| make($name, Kind::$kind, $setting, size, $bytes, $reply),
            }),*]
        }
    };
}

/// The worlds of sockets.
pub fn worlds() -> Vec<Entry> {
    let mut all = transfers();
    all.extend(calls::worlds());
    all.extend(copies::worlds());
    all
}

const PLAIN: Setting = Setting::PLAIN;
const RAILS: Setting = Setting::RAILS;
const STANDBY: Setting = Setting::STANDBY;
const MOVED: Setting = Setting::MOVED;
const MOVED_TWICE: Setting = Setting::MOVED_TWICE;
const NARROW: Setting = Setting::NARROW;
const NARROW_MOVED: Setting = Setting::NARROW_MOVED;
const NARROW_RESTARTS: Setting = Setting::NARROW_RESTARTS;
const TOLD: Setting = Setting::TOLD;
const TOLD_MOVED: Setting = Setting::TOLD_MOVED;
const RESTARTS: Setting = Setting::RESTARTS;
const CRASHES: Setting = Setting::CRASHES;

worlds! {
    "sdp-bcopy" Shipped, PLAIN, Held, 96, 8,
        "sockets: a request of several messages through private buffers, and a short answer";
    "sdp-half-closed" Shipped, PLAIN, Held, 24, 128,
        "sockets: the client writes no more, and the answer takes more buffers than it has";
    "sdp-closes" Closes, PLAIN, Held, 56, 96,
        "sockets: the server answers while it reads, both ends run out of credits, and both close at once";
    "sdp-closes-read" ClosesReads, PLAIN, Held, 88, 64, "sockets: the same with bytes that both ends advertise";
    "sdp-zcopy-read" Reads, PLAIN, Held, 152, 8,
        "sockets: the request is advertised, two buffers at a time, and read by RDMA";
    "sdp-zcopy-write" Writes, PLAIN, Held, 24, 128,
        "sockets: the client wants the answer before it has asked for it, and it is written by RDMA";
    "sdp-crossing" Crosses, PLAIN, Held, 120, 8,
        "sockets: both ends have buffers ready, so that advertisements cross; the request is read or written by RDMA";
    "sdp-recalls" Recalls, PLAIN, Held, 64, 8,
        "sockets: the request is advertised, and the client wants its buffers back at once, some of which goes through private ones";
    "sdp-recalls-amid" RecallsAmid, PLAIN, Held, 72, 8,
        "sockets: two buffers are advertised and wanted back at once, while the first one is read by parts";
    "sdp-recalls-sinks" RecallsSinks, PLAIN, Held, 56, 8,
        "sockets: both ends have buffers ready, and the reader wants every other one back at once";
    "sdp-recalls-wanted" RecallsWanted, PLAIN, Held, 56, 8,
        "sockets: both ends have buffers ready and want every other one back at once";
    "sdp-modes" Modes, PLAIN, Held, 88, 8,
        "sockets: both ends have buffers ready; the reader has bytes come through private buffers, then advertised one at a time";
    "sdp-modes-on" ModesOn, PLAIN, Held, 64, 8,
        "sockets: both ends have buffers ready; the reader has bytes come advertised one at a time, then several";
    "sdp-resizes" Resizes, PLAIN, Held, 96, 8,
        "sockets: private buffers become smaller and larger between the calls of a request";
    "sdp-narrow" Closes, NARROW, Held, 56, 96,
        "sockets: the server answers while it reads; a message waits until the one before it is acknowledged";
    "sdp-narrow-read" ClosesReads, NARROW, Held, 56, 40, "sockets: the same with bytes that both ends advertise";
    "sdp-narrow-write" Writes, NARROW, Held, 24, 40, "sockets: the same of an answer that is wanted and written";
    "sdp-narrow-recalls" RecallsWanted, NARROW, Held, 56, 8,
        "sockets: the same of buffers that both ends want back at once";
    "sdp-narrow-moved" Shipped, NARROW_MOVED, Held, 56, 8,
        "sockets: a request of several messages, each of which waits until the one before it is acknowledged, while the client has its connection moved";
    "sdp-narrow-restarts" Shipped, NARROW_RESTARTS, Held, 56, 8,
        "sockets: the same of a request of several messages, while either node may crash and begin anew";
    "sdp-rails" Shipped, RAILS, Held, 96, 8, "sockets: a request through private buffers, between nodes of two rails";
    "sdp-half-closed-rails" Shipped, RAILS, Held, 24, 96,
        "sockets: an answer to a client that writes no more, between nodes of two rails";
    "sdp-zcopy-rails" Reads, RAILS, Held, 88, 8,
        "sockets: the request is advertised and read by RDMA, between nodes of two rails";
    "sdp-zcopy-write-rails" Writes, RAILS, Held, 24, 64,
        "sockets: the answer is wanted and written by RDMA, between nodes of two rails";
    "sdp-short-answer-rails" Writes, RAILS, Held, 24, 20,
        "sockets: an answer that is advertised, cancelled and sent again, and too short for its reader to return a buffer";
    "sdp-crossing-rails" Crosses, RAILS, Held, 88, 8, "sockets: advertisements cross between nodes of two rails";
    "sdp-standby" Shipped, STANDBY, Held, 56, 8,
        "sockets: a request through private buffers, while a connection stands by over the other rail";
    "sdp-standby-read" Reads, STANDBY, Held, 56, 8,
        "sockets: a request that is advertised and read, while a connection stands by over the other rail";
    "sdp-moved" Shipped, MOVED, Held, 56, 8,
        "sockets: a request through private buffers, while the client has its connection moved to the other rail";
    "sdp-moved-read" Reads, MOVED, Held, 56, 8, "sockets: the same of a request that is advertised and read";
    "sdp-moved-write" Writes, MOVED, Held, 24, 40, "sockets: the same of an answer that is wanted and written";
    "sdp-moved-twice" Shipped, MOVED_TWICE, Held, 56, 8,
        "sockets: the same, while both ends have it moved, each to another rail";
    "sdp-told" Shipped, TOLD, Held, 56, 8,
        "sockets over two rails: users are told of another rail, and make their request again over a new stream";
    "sdp-told-read" Reads, TOLD, Held, 56, 8, "sockets: the same of a request that is advertised and read";
    "sdp-told-moved" Shipped, TOLD_MOVED, Held, 56, 8,
        "sockets: the same, while the client has its connection moved to the other rail";
    "sdp-restarts" Shipped, RESTARTS, Held, 56, 8,
        "sockets: a request of several messages through private buffers; either node may crash and begin anew";
    "sdp-restarts-half-closed" Shipped, RESTARTS, Held, 24, 96,
        "sockets: an answer to a client that writes no more; either node may crash and begin anew";
    "sdp-restarts-read" Reads, RESTARTS, Held, 88, 8,
        "sockets: the request is advertised and read by RDMA; either node may crash and begin anew";
    "sdp-restarts-write" Writes, RESTARTS, Held, 24, 64,
        "sockets: the answer is wanted and written by RDMA; either node may crash and begin anew";
    "sdp-restarts-crossing" Crosses, RESTARTS, Held, 88, 8,
        "sockets: both ends have buffers ready; either node may crash and begin anew";
    "sdp-crashes" Shipped, CRASHES, Held, 56, 8,
        "sockets: a request of several messages through private buffers; either node may crash for good";
    "sdp-crashes-half-closed" Shipped, CRASHES, Held, 24, 96,
        "sockets: an answer to a client that writes no more; either node may crash for good";
    "sdp-crashes-read" Reads, CRASHES, Held, 88, 8,
        "sockets: the request is advertised and read by RDMA; either node may crash for good";
    "sdp-crashes-write" Writes, CRASHES, Held, 24, 64,
        "sockets: the answer is wanted and written by RDMA; either node may crash for good";
    "sdp-crashes-crossing" Crosses, CRASHES, Held, 88, 8,
        "sockets: both ends have buffers ready; either node may crash for good";
    "as-published-sdp-suspends-dead-link" Shipped, Setting::of(Planted::SuspendsDeadLink), ViolatedUnderFaults, 56, 8,
        "sockets over two rails: after the link failed, the end waits for what is in process before it goes over";
    "as-published-sdp-cancels-unrevoked" CancelsUnrevoked, RAILS, ViolatedUnderFaults, 88, 8,
        "sockets over two rails: what was advertised counts as cancelled when the connection broke";
    "as-published-sdp-moves-one-end" Shipped, Setting::of(Planted::MovesOneEnd), ViolatedUnderFaults, 56, 8,
        "sockets over two rails: who loses a rail moves its own end of the connection, when both have lost theirs for good";
    "planted-sdp-keeps-credits" KeepsCredits, PLAIN, Violated, 24, 128,
        "sockets: an end that writes no more returns no credits either";
    "planted-sdp-forgets-end" ForgetsEnd, PLAIN, Violated, 24, 8,
        "sockets: an end is forgotten when it has sent its own end, and not when the peer's has come";
    "planted-sdp-reuses-source" ReusesSource, PLAIN, Violated, 88, 8,
        "sockets: advertised memory is used again when the message has been sent";
    "planted-sdp-uses-void-sink" UsesVoidSink, PLAIN, Violated, 120, 8,
        "sockets: bytes are written where they were wanted before the writer sent others";
    "planted-sdp-recalls-blindly" RecallsBlindly, PLAIN, Violated, 88, 8,
        "sockets: advertised memory is used again when its cancel was sent";
    "planted-sdp-refills-early" RefillsEarly, PLAIN, Violated, 24, 64,
        "sockets: memory that was to be filled is used again when its cancel was sent";
    "planted-sdp-deregisters-first" DeregistersFirst, PLAIN, Violated, 24, 64,
        "sockets: memory is deregistered and used again, and only then the queue pair fenced that reads into it";
    "planted-sdp-returns-on-error" ReturnsOnError, PLAIN, ViolatedUnderFaults, 88, 8,
        "sockets: a buffer is its user's again when the write from it has failed, and the write is made again";
    "planted-sdp-reuses-session" Shipped, Setting::of(Planted::ReusesSession), ViolatedUnderFaults, 56, 8,
        "sockets: a node that begins anew uses the number of its last session again";
    "planted-sdp-asks-nothing" Shipped, Setting::UNASKED, ViolatedUnderFaults, 56, 8,
        "sockets: an end that only reads never asks whether its peer is there";
    "planted-sdp-other-rails-key" Reads, Setting::of(Planted::OtherRailsKey), ViolatedUnderFaults, 88, 8,
        "sockets over two rails: advertised memory is read over any rail, with the key of the memory's";
    "planted-sdp-resumes-from-sent" Shipped, Setting::of(Planted::ResumesFromSent), ViolatedUnderFaults, 56, 8,
        "sockets over two rails: what was sent is not sent again, whatever the peer has received";
}

fn make(
    name: &'static str,
    kind: Kind,
    setting: Setting,
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
        // A whole buffer of the server's.
        Kind::ReturnsOnError => 24 + transfer::CALL,
        _ => 24,
    };
    size.within("bytes", bytes, least..=512)?;
    size.within("reply", reply, 1..=512)?;
    Ok(Harness::boxed(name, Transfer { kind, setting, bytes, reply }))
}
