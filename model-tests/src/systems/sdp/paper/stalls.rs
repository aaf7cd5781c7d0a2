//! A rail fails in the middle of a stream: how long its reader gets nothing, for cuts all over a transfer.

use super::flow::Mode;
use super::pair::Pair;
use crate::paper::{PaperError, refused};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use weft_protocols::rt::JoinHandle;
use weft_protocols::sdp::{SdpError, SdpOptions, SdpStream, Transfer};
use weft_protocols::transport::Rank;
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::profile::Profile;
use weft_sim::{NodeId, Sim};
use weft_verbs::{AckTimeout, Nanos, Wait};

/// The bytes of a call, and how many calls there are.
const CALL: u32 = 256 << 10;
const CALLS: u32 = 24;

const BEGIN: Nanos = Nanos::from_millis(100);

/// The last cut, from the reader's first bytes on: before the fastest transfer ends.
const LAST: Nanos = Nanos::from_micros(3_600);

/// How many places there are at which a rail fails.
pub(super) const PLACES: u64 = 48;

/// When the rail fails whose stall is shown as it passes, and the spans of time that are shown.
pub(super) const SHOWN_CUT: Nanos = Nanos::from_micros(2_000);
pub(super) const SPAN: Nanos = Nanos::from_micros(250);

const END: Nanos = Nanos::from_secs(20);

const PORT: u16 = 7;

/// How a rail fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cut {
    /// A port loses its link, which its adapter notices.
    Port,
    /// Packets are lost in both directions, and nobody is told.
    Silent,
    /// Those to the reader are.
    Data,
    /// Those from the reader are.
    Answers,
}

impl Cut {
    pub const ALL: [Cut; 4] = [Cut::Port, Cut::Silent, Cut::Data, Cut::Answers];

    pub fn name(self) -> &'static str {
        match self {
            Cut::Port => "port event",
            Cut::Silent => "silent",
            Cut::Data => "one way there",
            Cut::Answers => "one way back",
        }
    }

    /// The figure that shows it by its place.
    pub fn figure(self) -> &'static str {
        match self {
            Cut::Port => "Stalls by place, port event",
            _ => "Stalls by place, silent",
        }
    }

    /// The fault: on the first rail of the reader's machine, for good.
    fn fault(self) -> Fault {
        let node = NodeId(1);
        let cut = |way| Fault::Cut { link: Link::Port(node, 1), way, lasts: None };
        match self {
            Cut::Port => Fault::PortDown { node, port: 1, lasts: None },
            Cut::Silent => cut(Way::Both),
            Cut::Data => cut(Way::To),
            Cut::Answers => cut(Way::From),
        }
    }

    /// How long it may take until one end knows.
    fn detection(self, profile: &Profile) -> Nanos {
        match self {
            Cut::Port => Nanos::ZERO,
            // (retries + 1) x 4 x 4.096 us x 2^exponent: an adapter may wait four times what it is told (IBA 9.7.6.1.3).
            _ => {
                let transport = &profile.transport;
                let exponent = AckTimeout::new(transport.ack_timeout as u8).map_or(0, AckTimeout::exponent);
                Nanos((transport.retry + 1) * 4 * (4_096 << exponent))
            }
        }
    }
}

/// How long a stall may be: until one end knows, and then three round trips, the revocation, and what is sent again.
pub(super) fn bound(profile: &Profile, cut: Cut) -> Nanos {
    let round_trip = 2 * profile.one_way_send(256, Wait::Poll).0;
    let revocation = profile.cpu.modify_qp_ns + profile.cpu.syscall_ns;
    let options = SdpOptions::default();
    let window = u64::from(options.buffers * options.buffer_bytes);
    let again = profile.copy(2 * window) + profile.serialization(window);
    cut.detection(profile) + Nanos(3 * round_trip + revocation) + again
}

/// The place of a cut among all, from the reader's first bytes on.
pub(super) fn place(nth: u64) -> Nanos {
    Nanos(LAST.0 * nth / PLACES)
}

/// When the reader has its first bytes, from the beginning of the transfer on, where no rail fails. Until then it waits for the
/// transfer's first buffers to be registered, which no rail makes longer or shorter.
pub(super) fn first_bytes(profile: &Profile, mode: Mode) -> Result<Nanos, PaperError> {
    let reads = reads(profile, mode, None)?;
    Ok(reads.first().map_or(Nanos::ZERO, |(at, _)| *at - BEGIN))
}

/// The longest time from the cut on in which the reader got nothing, if a rail fails so long after the transfer has begun. How long it had
/// waited by then is not the rail's doing.
pub(super) fn stall(profile: &Profile, mode: Mode, cut: Cut, after: Nanos) -> Result<Nanos, PaperError> {
    let reads = reads(profile, mode, Some((cut, after)))?;
    let down = BEGIN + after;
    let later = reads.iter().map(|(at, _)| *at).filter(|at| *at > down);
    let waits = later.clone().zip(std::iter::once(down).chain(later)).map(|(at, before)| at - before);
    Ok(waits.max().unwrap_or_default())
}

/// What the reader gets in each of equal spans of time from the beginning on: when a span begins, in microseconds, and in
/// megabits a second. The bytes of a read came since the one before: a read may take a span. The last span, of which the transfer has a
/// part, is left out.
pub(super) fn course(
    profile: &Profile,
    mode: Mode,
    cut: Cut,
    after: Nanos,
    span: Nanos,
) -> Result<Vec<(u64, f64)>, PaperError> {
    let reads = reads(profile, mode, Some((cut, after)))?;
    let end = reads.last().map_or(BEGIN, |(at, _)| *at);
    let mut spans = vec![0.0; ((end - BEGIN).0 / span.0) as usize];
    let mut before = BEGIN;
    for (at, bytes) in reads {
        let to = (at - BEGIN).0;
        let from = (before - BEGIN).0.min(to - 1);
        let each_ns = bytes as f64 / (to - from) as f64;
        for (nth, of) in (0..).zip(&mut spans) {
            let (start, end) = (span.0 * nth, span.0 * (nth + 1));
            *of += each_ns * to.min(end).saturating_sub(from.max(start)) as f64;
        }
        before = at;
    }
    let rate = |bytes: f64| bytes * 8e3 / span.0 as f64;
    Ok((0..).zip(spans).map(|(nth, bytes)| (nth * span.0 / 1_000, rate(bytes))).collect())
}

/// When the reader got how many bytes, if a rail fails so long after the transfer has begun, or none does.
fn reads(
    profile: &Profile,
    mode: Mode,
    fails: Option<(Cut, Nanos)>,
) -> Result<Vec<(Nanos, u64)>, PaperError> {
    let options = SdpOptions { zcopy_threshold: u32::from(mode != Mode::BCopy), ..SdpOptions::default() };
    let pair = Pair::new(profile, 2, Wait::Poll, options)?;
    if let Some((cut, after)) = fails {
        pair.below.plan(BEGIN + after, cut.fault())?;
    }
    let sender = pair.sender.clone();
    drop(sender.rt.clone().spawn(async move {
        let stream = Rc::new(sender.sdp.connect(Rank::from_index(1), PORT).await?);
        sender.rt.sleep_until(BEGIN).await;
        let bytes = vec![7; CALL as usize];
        let mut under_way: VecDeque<JoinHandle<Transfer<Sim>>> = VecDeque::new();
        for _ in 0..CALLS {
            if mode == Mode::BCopy {
                stream.write_all(&bytes).await?;
                continue;
            }
            if under_way.len() == options.zcopy_depth as usize
                && let Some(first) = under_way.pop_front()
            {
                first.await.map_or(Err(SdpError::Closed), |(sent, _)| sent)?;
            }
            let buffer = sender.sdp.buffer(CALL).map_err(|_| SdpError::Closed)?;
            let stream = Rc::clone(&stream);
            under_way.push_back(sender.rt.spawn(async move { stream.send(buffer, CALL).await }));
        }
        for sent in under_way {
            sent.await.map_or(Err(SdpError::Closed), |(sent, _)| sent)?;
        }
        Rc::into_inner(stream).ok_or(SdpError::Closed)?.close().await
    }));
    let ended = Rc::new(RefCell::new(None));
    let book = Rc::clone(&ended);
    let receiver = pair.receiver.clone();
    let listener = receiver.sdp.bind(PORT).map_err(refused)?;
    drop(receiver.rt.clone().spawn(async move {
        let stream: SdpStream<Sim> = listener.accept().await?;
        let (mut into, mut bytes) = (vec![0; CALL as usize], 0);
        let mut reads = Vec::new();
        while bytes < u64::from(CALL) * u64::from(CALLS) {
            let read = stream.read(&mut into).await? as u64;
            if read == 0 {
                return Err(SdpError::UnexpectedEnd);
            }
            bytes += read;
            reads.push((receiver.rt.now(), read));
        }
        *book.borrow_mut() = Some(reads);
        Ok::<(), SdpError>(())
    }));
    pair.below.run_until(END);
    let ended = ended.take();
    let cut = || fails.map_or("no cut".to_string(), |(cut, after)| format!("{} after {after}", cut.name()));
    ended.ok_or_else(|| PaperError::Unfinished(format!("{}, {}", mode.name(), cut())))
}
