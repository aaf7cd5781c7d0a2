//! What `[workload]` may say of sockets, and what clients ask for.

use super::coding::Head;
use crate::fields::{
    Dice, Rule, Span, Spread, broken, clients, count, draw, in_section, no_time, one, requests_or_duration,
};
use crate::history::ClientId;
use crate::system::Amount;
use serde::{Deserialize, Serialize};
use weft_protocols::sdp::{Failover, SdpOptions};
use weft_sim::choice::Rng;
use weft_verbs::Nanos;

/// `[workload]` with `kind = "sdp"`: what the users of sockets do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SdpWork {
    /// Application processes on each machine, 1 to 1024. Default: 1.
    #[serde(default = "one")]
    pub clients: u32,
    /// How many bytes a request has, 24 to 1,073,741,824. Default: 64.
    #[serde(default = "request")]
    pub bytes: u32,
    /// How many bytes its answer has, 1 to 1,073,741,824. Default: 64.
    #[serde(default = "request")]
    pub reply: u32,
    /// Whether a client keeps its connection to each machine. Otherwise it makes one for each request, and half-closes it behind the
    /// request. Default: false.
    #[serde(default)]
    pub keep: bool,
    /// How many bytes a call of write or read is given at most, 1 to 16,777,216. Default: 65,536.
    #[serde(default = "call")]
    pub call: u32,
    /// Private receive buffers of each stream, 4 to 4,096. Default: 16.
    #[serde(default = "buffers")]
    pub buffers: u32,
    /// How many bytes a private buffer takes, 16 to 1,000,000. Default: 8,192.
    #[serde(default = "buffer_bytes")]
    pub buffer_bytes: u32,
    /// Owned buffers with more bytes than this go by ZCopy, 1 to 1,073,741,824; 0 disables it, and all is read and written by
    /// calls that borrow. Default: 0.
    #[serde(default)]
    pub zcopy_threshold: u32,
    /// How many advertisements of a stream and direction may be open, and how many owned buffers a writer has under way, 1 to
    /// 64. Default: 4.
    #[serde(default = "depth")]
    pub zcopy_depth: u32,
    /// With ZCopy: whether readers give owned buffers, into which the peer may write; otherwise their calls borrow. Default:
    /// true.
    #[serde(default = "yes")]
    pub owned_reads: bool,
    /// With ZCopy: whether a client that gives owned buffers begins to read the answer before it writes the last byte of its request, so
    /// that the server surely writes there. Default: false.
    #[serde(default)]
    pub wants_first: bool,
    /// With ZCopy: every so many owned buffers a user wants all of its buffers back at once and goes on with what was not moved, 2 to
    /// 1,000; 0 for never. Default: 0.
    #[serde(default)]
    pub recall: u32,
    /// With ZCopy: whether readers change before each call how bytes may come to them: through private buffers only, advertised one
    /// at a time, or several, in turn. Default: false.
    #[serde(default)]
    pub modes: bool,
    /// How many owned buffers count as given before the first one; for worlds, in which the first one is to be wanted back.
    #[serde(skip)]
    pub given_before: u32,
    /// With which of the modes they begin; for worlds.
    #[serde(skip)]
    pub modes_from: usize,
    /// Before each of their calls writers have the peer's private buffers take so many bytes and `buffer_bytes` in turn, 16 to
    /// 1,000,000; 0 for never. Default: 0.
    #[serde(default)]
    pub resize: u32,
    /// Whether servers write an answer while they read its request, all but its last byte, and end their half behind it. Default:
    /// false.
    #[serde(default)]
    pub duplex: bool,
    /// What streams do when their connection goes over to another rail: `"transparent"`, they go on; `"application"`, they fail, and the
    /// client connects again and makes its request anew. Default: `"transparent"`.
    #[serde(default)]
    pub failover: FailoverMode,
    /// Within how long a dead link is found by probes while something is open, at least 6 ms; none without it. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Span>,
    /// How long nothing may be heard of a machine until it is asked whether it is there, though nothing is open with it: who only waits
    /// for an answer learns by that that its server has restarted. Where machines restart it is needed. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<Span>,
    /// How many times each machine moves its connection with the next one to another rail, as planned, 0 to 1,000,000. Default: 0.
    #[serde(default)]
    pub moves: u32,
    /// How long it rests before each. Default: `"1ms"`.
    #[serde(default = "milli")]
    pub move_every: Span,
    /// How many requests each client makes. Give this or `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// How long clients go on making requests, in virtual time. Give this or `requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// How long a client rests before each request. Default: `"0us"`, none.
    #[serde(default = "no_time")]
    pub think: Spread,
}

/// What streams do when their connection goes over to another rail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailoverMode {
    /// They go on.
    #[default]
    Transparent,
    /// They fail, and clients connect again.
    Application,
}

impl From<FailoverMode> for Failover {
    fn from(mode: FailoverMode) -> Failover {
        match mode {
            FailoverMode::Transparent => Failover::Transparent,
            FailoverMode::Application => Failover::Application,
        }
    }
}

fn milli() -> Span {
    Span(Nanos::from_millis(1))
}

fn request() -> u32 {
    64
}

fn call() -> u32 {
    65_536
}

fn buffers() -> u32 {
    SdpOptions::default().buffers
}

fn buffer_bytes() -> u32 {
    SdpOptions::default().buffer_bytes
}

fn depth() -> u32 {
    SdpOptions::default().zcopy_depth
}

fn yes() -> bool {
    true
}

/// The most messages of one machine's clients in a workload that is drawn, unless one request takes more: as many as are surely sent
/// in the 10 s that a scenario has to settle, where the transport takes one at a time and each is acknowledged 1 ms later.
const MESSAGES: u32 = 8_000;

/// A long request, in one call.
const LONG: u32 = 1 << 24;

impl SdpWork {
    /// One client a machine that makes so many small requests, each on a connection of its own.
    pub fn of(requests: u32) -> SdpWork {
        SdpWork {
            clients: one(),
            bytes: request(),
            reply: request(),
            keep: false,
            call: call(),
            buffers: buffers(),
            buffer_bytes: buffer_bytes(),
            zcopy_threshold: 0,
            zcopy_depth: depth(),
            owned_reads: yes(),
            wants_first: false,
            recall: 0,
            modes: false,
            modes_from: 0,
            given_before: 0,
            resize: 0,
            duplex: false,
            failover: FailoverMode::Transparent,
            probe: None,
            keepalive: None,
            moves: 0,
            move_every: milli(),
            requests: Some(requests),
            duration: None,
            think: no_time(),
        }
    }

    /// The options of its streams.
    pub fn options(&self) -> SdpOptions {
        let SdpWork { buffers, buffer_bytes, zcopy_threshold, zcopy_depth, .. } = *self;
        let [probe, keepalive] = [self.probe, self.keepalive].map(|span| span.map(|span| span.nanos()));
        let options =
            SdpOptions { failover: self.failover.into(), probe, keepalive, ..SdpOptions::default() };
        SdpOptions { buffers, buffer_bytes, zcopy_threshold, zcopy_depth, ..options }
    }

    /// The longest message of its streams, whatever size private buffers are changed to.
    pub fn longest_message(&self) -> u32 {
        let options = self.options();
        SdpOptions { buffer_bytes: self.buffer_bytes.max(self.resize), ..options }.longest_message()
    }

    /// A workload that is drawn at random.
    pub(super) fn drawn(dice: &mut Dice<'_>) -> SdpWork {
        let buffer_bytes = dice.among(&[64, 1_000, 8_192]);
        // Transports are drawn that take one message at a time, so the number of messages is what takes time. Most draws are light, and
        // have all kinds of transfers and faults; one in eight is heavy.
        let heavy = dice.one_in(8);
        let size = |dice: &mut Dice<'_>| match heavy {
            true => dice.among(&[24, buffer_bytes, 4 * buffer_bytes + 1, 30 * buffer_bytes]),
            false => dice.among(&[24, 100, buffer_bytes, 2 * buffer_bytes + 1]),
        };
        let work = SdpWork {
            clients: if heavy { dice.among(&[1, 1, 2, 3]) } else { 1 },
            bytes: size(dice),
            reply: size(dice),
            keep: dice.one_in(2),
            call: dice.among(&[100, 4_096, 65_536]),
            buffers: dice.among(&[4, 5, 16]),
            buffer_bytes,
            zcopy_threshold: dice.among(&[0, 1, 1_000, buffer_bytes + 1]),
            zcopy_depth: dice.among(&[1, 2, 4]),
            owned_reads: dice.one_in(2),
            wants_first: false,
            recall: dice.among(&[0, 0, 2, 5]),
            modes: false,
            modes_from: 0,
            given_before: 0,
            resize: 0,
            duplex: false,
            failover: FailoverMode::Transparent,
            probe: dice.among(&[None, None, Some(Span(Nanos::from_millis(8)))]),
            keepalive: Some(Span(dice.among(&[Nanos::from_millis(4), Nanos::from_millis(40)]))),
            moves: dice.among(&[0, 0, 0, 4]),
            move_every: Span(dice.among(&[Nanos::from_micros(50), Nanos::from_millis(1)])),
            requests: Some(dice.from(1, if heavy { 20 } else { 4 }) as u32),
            duration: None,
            think: dice.pause([0, 10, 300]),
        };
        let failover =
            dice.among(&[FailoverMode::Transparent, FailoverMode::Transparent, FailoverMode::Application]);
        let modes = dice.one_in(3);
        let resize = dice.among(&[0, 0, buffer_bytes / 2, 2 * buffer_bytes]);
        // What is changed before each call takes a message each time. Each call is a message at least, and of those one at a time may
        // be under way: short calls of a long request would take more time than there is.
        let longest = work.bytes.max(work.reply);
        let calls = if modes || resize > 0 { 16 } else { 512 };
        let call = work.call.max(longest / calls);
        // What one machine's clients send and hear, all their requests together.
        let messages = work.clients * (work.bytes + work.reply).div_ceil(call.min(buffer_bytes));
        let requests = work.requests.map(|requests| requests.min((MESSAGES / messages).max(1)));
        // A recall is one of both directions, of which the writer beside a reader knows nothing.
        let duplex = dice.one_in(3) && work.recall == 0;
        let wants_first = work.zcopy_threshold > 0 && work.owned_reads && dice.one_in(2);
        let work = SdpWork { failover, modes, resize, duplex, call, requests, wants_first, ..work };
        // One buffer that a link carries for longer than it may be silent. Over another rail it goes through private buffers.
        let long = work.probe.is_some() && work.zcopy_threshold > 0 && buffer_bytes == 8_192;
        match long && dice.one_in(4) {
            true => SdpWork { clients: 1, bytes: LONG, call: LONG, requests: Some(1), ..work },
            false => work,
        }
    }

    /// How much work there is.
    pub fn amount(&self) -> Amount {
        Amount::of(self.clients, self.requests, self.duration)
    }

    /// Checks what the types of the fields cannot express.
    ///
    /// # Errors
    ///
    /// The first broken rule.
    pub fn check(&self, nodes: u32) -> Rule {
        let at = |field| in_section("workload", field);
        let within = |field, value, least: u32, most: u32| {
            let sound = (least..=most).contains(&value);
            if sound { Ok(()) } else { broken(at(field), format!("from {least} to {most} bytes")) }
        };
        if nodes < 2 {
            return broken(in_section("cluster", "nodes"), "sockets take two machines at least".into());
        }
        clients(self.clients)?;
        within("bytes", self.bytes, Head::LEN, 1 << 30)?;
        within("reply", self.reply, 1, 1 << 30)?;
        within("call", self.call, 1, 1 << 24)?;
        within("buffer_bytes", self.buffer_bytes, 16, 1_000_000)?;
        if self.zcopy_threshold > 1 << 30 {
            return broken(at("zcopy_threshold"), "from 0, for none, to 1073741824 bytes".into());
        }
        count(at("zcopy_depth"), self.zcopy_depth, 64, "give the depth of the pipeline")?;
        if self.recall == 1 || self.recall > 1_000 {
            return broken(at("recall"), "0, for never, or from 2 to 1000".into());
        }
        if self.duplex && self.recall > 0 {
            let must = "0 beside duplex: a recall is one of both directions, and the other one's writer knows nothing of it";
            return broken(at("recall"), must.into());
        }
        if self.resize != 0 && !(16..=1_000_000).contains(&self.resize) {
            return broken(at("resize"), "0, for never, or from 16 to 1000000 bytes".into());
        }
        if self.probe.is_some_and(|span| span.nanos() < Nanos::from_millis(6)) {
            return broken(at("probe"), "at least 6 ms: acknowledgements may take 1 ms".into());
        }
        if self.keepalive.is_some_and(|span| span.nanos() < Nanos::from_millis(1)) {
            return broken(at("keepalive"), "at least 1 ms: acknowledgements may take as long".into());
        }
        if self.moves > 1_000_000 {
            return broken(at("moves"), "from 0 to 1000000".into());
        }
        if self.move_every.nanos() == Nanos::ZERO {
            return broken(at("move_every"), "more than zero".into());
        }
        if !(4..=4_096).contains(&self.buffers) {
            return broken(at("buffers"), "from 4 to 4096; two of them are kept for control".into());
        }
        requests_or_duration("requests", self.requests, self.duration)
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The server.
    pub to: u32,
    /// How many bytes it has.
    pub bytes: u32,
    /// How many bytes its answer has.
    pub reply: u32,
}

/// What one client asks for. The same seed and client give the same requests, whatever becomes of them.
#[derive(Clone, Debug)]
pub struct Plan {
    work: SdpWork,
    nodes: u32,
    node: u32,
    rng: Rng,
}

impl Plan {
    /// The plan of one client among so many nodes in the run of one seed.
    pub fn new(work: &SdpWork, nodes: u32, seed: u64, client: ClientId) -> Plan {
        let [rng] = draw::of_client(seed ^ 0x7364_7000_0000_0000, client);
        Plan { work: work.clone(), nodes, node: client.node, rng }
    }

    /// The next request, and how long the client rests before it.
    pub fn request(&mut self) -> (Nanos, Request) {
        let SdpWork { bytes, reply, think, .. } = self.work;
        let to = (self.node + 1 + self.rng.below(u64::from(self.nodes) - 1) as u32) % self.nodes;
        (draw::time(&mut self.rng, think), Request { to, bytes, reply })
    }
}
