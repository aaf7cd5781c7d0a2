//! Worlds of sockets: two nodes and one transfer, cut at every event; and ends that behave as no end may.

mod branches;
mod calls;
mod copies;
mod planted;
mod setting;
mod transfer;

use crate::explore::{Entry, Key, Size, SizeError};
use crate::harness::worlds;
use setting::Setting;
use transfer::{Kind, Transfer};
use weft_protocols::transport::Planted;

const KEYS: &[Key] = &[
    Key { name: "bytes", help: "how many bytes the request has, from 24; 32 are a message" },
    Key { name: "reply", help: "how many bytes the answer has" },
];

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

/// The worlds of one request and its answer.
fn transfers() -> Vec<Entry> {
    use Kind::*;
    worlds! { KEYS;
        "sdp-bcopy" transfer(Shipped, PLAIN, 96, 8) Held,
            "sockets: a request of several messages through private buffers, and a short answer";
        "sdp-half-closed" transfer(Shipped, PLAIN, 24, 128) Held,
            "sockets: the client writes no more, and the answer takes more buffers than it has";
        "sdp-closes" transfer(Closes, PLAIN, 56, 96) Held,
            "sockets: the server answers while it reads, both ends run out of credits, and both close at once";
        "sdp-closes-read" transfer(ClosesReads, PLAIN, 88, 64) Held, "sockets: the same with bytes that both ends advertise";
        "sdp-zcopy-read" transfer(Reads, PLAIN, 152, 8) Held,
            "sockets: the request is advertised, two buffers at a time, and read by RDMA";
        "sdp-zcopy-write" transfer(Writes, PLAIN, 24, 128) Held,
            "sockets: the client wants the answer before it has asked for it, and it is written by RDMA";
        "sdp-crossing" transfer(Crosses, PLAIN, 120, 8) Held,
            "sockets: both ends have buffers ready, so that advertisements cross; the request is read or written by RDMA";
        "sdp-recalls" transfer(Recalls, PLAIN, 64, 8) Held,
            "sockets: the request is advertised, and the client wants its buffers back at once, some of which goes through private ones";
        "sdp-recalls-amid" transfer(RecallsAmid, PLAIN, 72, 8) Held,
            "sockets: two buffers are advertised and wanted back at once, while the first one is read by parts";
        "sdp-recalls-sinks" transfer(RecallsSinks, PLAIN, 56, 8) Held,
            "sockets: both ends have buffers ready, and the reader wants every other one back at once";
        "sdp-recalls-wanted" transfer(RecallsWanted, PLAIN, 56, 8) Held,
            "sockets: both ends have buffers ready and want every other one back at once";
        "sdp-modes" transfer(Modes, PLAIN, 88, 8) Held,
            "sockets: both ends have buffers ready; the reader has bytes come through private buffers, then advertised one at a time";
        "sdp-modes-on" transfer(ModesOn, PLAIN, 64, 8) Held,
            "sockets: both ends have buffers ready; the reader has bytes come advertised one at a time, then several";
        "sdp-resizes" transfer(Resizes, PLAIN, 96, 8) Held,
            "sockets: private buffers become smaller and larger between the calls of a request";
        "sdp-narrow" transfer(Closes, NARROW, 56, 96) Held,
            "sockets: the server answers while it reads; a message waits until the one before it is acknowledged";
        "sdp-narrow-read" transfer(ClosesReads, NARROW, 56, 40) Held, "sockets: the same with bytes that both ends advertise";
        "sdp-narrow-write" transfer(Writes, NARROW, 24, 40) Held, "sockets: the same of an answer that is wanted and written";
        "sdp-narrow-recalls" transfer(RecallsWanted, NARROW, 56, 8) Held,
            "sockets: the same of buffers that both ends want back at once";
        "sdp-narrow-moved" transfer(Shipped, NARROW_MOVED, 56, 8) Held,
            "sockets: a request of several messages, each of which waits until the one before it is acknowledged, while the client has its connection moved";
        "sdp-narrow-restarts" transfer(Shipped, NARROW_RESTARTS, 56, 8) Held,
            "sockets: the same of a request of several messages, while either node may crash and begin anew";
        "sdp-rails" transfer(Shipped, RAILS, 96, 8) Held, "sockets: a request through private buffers, between nodes of two rails";
        "sdp-half-closed-rails" transfer(Shipped, RAILS, 24, 96) Held,
            "sockets: an answer to a client that writes no more, between nodes of two rails";
        "sdp-zcopy-rails" transfer(Reads, RAILS, 88, 8) Held,
            "sockets: the request is advertised and read by RDMA, between nodes of two rails";
        "sdp-zcopy-write-rails" transfer(Writes, RAILS, 24, 64) Held,
            "sockets: the answer is wanted and written by RDMA, between nodes of two rails";
        "sdp-short-answer-rails" transfer(Writes, RAILS, 24, 20) Held,
            "sockets: an answer that is advertised, cancelled and sent again, and too short for its reader to return a buffer";
        "sdp-crossing-rails" transfer(Crosses, RAILS, 88, 8) Held, "sockets: advertisements cross between nodes of two rails";
        "sdp-standby" transfer(Shipped, STANDBY, 56, 8) Held,
            "sockets: a request through private buffers, while a connection stands by over the other rail";
        "sdp-standby-read" transfer(Reads, STANDBY, 56, 8) Held,
            "sockets: a request that is advertised and read, while a connection stands by over the other rail";
        "sdp-moved" transfer(Shipped, MOVED, 56, 8) Held,
            "sockets: a request through private buffers, while the client has its connection moved to the other rail";
        "sdp-moved-read" transfer(Reads, MOVED, 56, 8) Held, "sockets: the same of a request that is advertised and read";
        "sdp-moved-write" transfer(Writes, MOVED, 24, 40) Held, "sockets: the same of an answer that is wanted and written";
        "sdp-moved-twice" transfer(Shipped, MOVED_TWICE, 56, 8) Held,
            "sockets: the same, while both ends have it moved, each to another rail";
        "sdp-told" transfer(Shipped, TOLD, 56, 8) Held,
            "sockets over two rails: users are told of another rail, and make their request again over a new stream";
        "sdp-told-read" transfer(Reads, TOLD, 56, 8) Held, "sockets: the same of a request that is advertised and read";
        "sdp-told-moved" transfer(Shipped, TOLD_MOVED, 56, 8) Held,
            "sockets: the same, while the client has its connection moved to the other rail";
        "sdp-restarts" transfer(Shipped, RESTARTS, 56, 8) Held,
            "sockets: a request of several messages through private buffers; either node may crash and begin anew";
        "sdp-restarts-half-closed" transfer(Shipped, RESTARTS, 24, 96) Held,
            "sockets: an answer to a client that writes no more; either node may crash and begin anew";
        "sdp-restarts-read" transfer(Reads, RESTARTS, 88, 8) Held,
            "sockets: the request is advertised and read by RDMA; either node may crash and begin anew";
        "sdp-restarts-write" transfer(Writes, RESTARTS, 24, 64) Held,
            "sockets: the answer is wanted and written by RDMA; either node may crash and begin anew";
        "sdp-restarts-crossing" transfer(Crosses, RESTARTS, 88, 8) Held,
            "sockets: both ends have buffers ready; either node may crash and begin anew";
        "sdp-crashes" transfer(Shipped, CRASHES, 56, 8) Held,
            "sockets: a request of several messages through private buffers; either node may crash for good";
        "sdp-crashes-half-closed" transfer(Shipped, CRASHES, 24, 96) Held,
            "sockets: an answer to a client that writes no more; either node may crash for good";
        "sdp-crashes-read" transfer(Reads, CRASHES, 88, 8) Held,
            "sockets: the request is advertised and read by RDMA; either node may crash for good";
        "sdp-crashes-write" transfer(Writes, CRASHES, 24, 64) Held,
            "sockets: the answer is wanted and written by RDMA; either node may crash for good";
        "sdp-crashes-crossing" transfer(Crosses, CRASHES, 88, 8) Held,
            "sockets: both ends have buffers ready; either node may crash for good";
        "as-published-sdp-suspends-dead-link" transfer(Shipped, Setting::of(Planted::SuspendsDeadLink), 56, 8) ViolatedUnderFaults,
            "sockets over two rails: after the link failed, the end waits for what is in process before it goes over";
        "as-published-sdp-cancels-unrevoked" transfer(CancelsUnrevoked, RAILS, 88, 8) ViolatedUnderFaults,
            "sockets over two rails: what was advertised counts as cancelled when the connection broke";
        "as-published-sdp-moves-one-end" transfer(Shipped, Setting::of(Planted::MovesOneEnd), 56, 8) ViolatedUnderFaults,
            "sockets over two rails: who loses a rail moves its own end of the connection, when both have lost theirs for good";
        "planted-sdp-keeps-credits" transfer(KeepsCredits, PLAIN, 24, 128) Violated,
            "sockets: an end that writes no more returns no credits either";
        "planted-sdp-forgets-end" transfer(ForgetsEnd, PLAIN, 24, 8) Violated,
            "sockets: an end is forgotten when it has sent its own end, and not when the peer's has come";
        "planted-sdp-reuses-source" transfer(ReusesSource, PLAIN, 88, 8) Violated,
            "sockets: advertised memory is used again when the message has been sent";
        "planted-sdp-uses-void-sink" transfer(UsesVoidSink, PLAIN, 120, 8) Violated,
            "sockets: bytes are written where they were wanted before the writer sent others";
        "planted-sdp-recalls-blindly" transfer(RecallsBlindly, PLAIN, 88, 8) Violated,
            "sockets: advertised memory is used again when its cancel was sent";
        "planted-sdp-refills-early" transfer(RefillsEarly, PLAIN, 24, 64) Violated,
            "sockets: memory that was to be filled is used again when its cancel was sent";
        "planted-sdp-deregisters-first" transfer(DeregistersFirst, PLAIN, 24, 64) Violated,
            "sockets: memory is deregistered and used again, and only then the queue pair fenced that reads into it";
        "planted-sdp-returns-on-error" transfer(ReturnsOnError, PLAIN, 88, 8) ViolatedUnderFaults,
            "sockets: a buffer is its user's again when the write from it has failed, and the write is made again";
        "planted-sdp-reuses-session" transfer(Shipped, Setting::of(Planted::ReusesSession), 56, 8) ViolatedUnderFaults,
            "sockets: a node that begins anew uses the number of its last session again";
        "planted-sdp-asks-nothing" transfer(Shipped, Setting::UNASKED, 56, 8) ViolatedUnderFaults,
            "sockets: an end that only reads never asks whether its peer is there";
        "planted-sdp-other-rails-key" transfer(Reads, Setting::of(Planted::OtherRailsKey), 88, 8) ViolatedUnderFaults,
            "sockets over two rails: advertised memory is read over any rail, with the key of the memory's";
        "planted-sdp-resumes-from-sent" transfer(Shipped, Setting::of(Planted::ResumesFromSent), 56, 8) ViolatedUnderFaults,
            "sockets over two rails: what was sent is not sent again, whatever the peer has received";
    }
}

fn transfer(
    size: &Size,
    kind: Kind,
    setting: Setting,
    bytes: u32,
    reply: u32,
) -> Result<Transfer, SizeError> {
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
    Ok(Transfer { kind, setting, bytes, reply })
}
