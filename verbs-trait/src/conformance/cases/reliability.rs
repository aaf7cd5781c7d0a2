//! Order and exactly-once under any mixture of loss, duplication and delay short of retry exhaustion
//! (IBA 9.7.2: "reliable" as such). Programs and faults are drawn by seed and checked against a model.

use super::prelude::*;
use std::collections::VecDeque;

cases! { "reliability":
    any_program_runs_as_written_on_a_quiet_fabric, "9.7.2", needs Caps::ATOMICS;
    any_program_runs_as_written_under_loss, "9.7.2", needs Caps::ATOMICS, with HarnessCaps::NOISE;
    any_program_runs_as_written_under_duplication, "9.7.2", needs Caps::ATOMICS, with HarnessCaps::NOISE;
    any_program_runs_as_written_under_delay, "9.7.2", needs Caps::ATOMICS, with HarnessCaps::NOISE;
    any_program_runs_as_written_under_all_of_them, "9.7.2", needs Caps::ATOMICS, with HarnessCaps::NOISE;
    any_program_runs_as_written_on_a_loopback, "9.7.2; 17.2.7", needs Caps::ATOMICS;
    a_failure_is_a_clean_cut, "9.9.2; 10.3.1.7", needs Caps::ATOMICS, with HarnessCaps::NOISE;
}

/// Requests of each side.
const REQUESTS: u64 = 60;
/// Requests of a side that may be posted and not yet known to be complete.
const WINDOW: usize = 12;
/// Receives of each side, each with a buffer of its own.
const RECEIVES: usize = 8;
/// Longest message, in bytes: sixteen packets of the smallest kind.
const LONGEST: u64 = 4_000;
/// Room for the longest message.
const SLOT: usize = 4_096;

// The map of each side's region. The peer adds to COUNTER, writes and reads WRITTEN.
const COUNTER: usize = 0;
const WRITTEN: usize = 4_096;
const WRITTEN_LEN: usize = 8_192;
const SOURCE: usize = 16_384;
const SOURCE_LEN: usize = 16_384;
const BUFFERS: usize = SOURCE + SOURCE_LEN;
const ANSWERS: usize = BUFFERS + RECEIVES * SLOT;
const MEMORY: usize = ANSWERS + WINDOW * SLOT;

/// A small generator (splitmix64), so that a program is told by its seed on every machine.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What a posted request must have done once it completes.
enum Promise {
    /// Nothing that this side can see.
    Nothing,
    /// It is answered.
    Answer(Answer),
}

/// Bytes that are to stand in this side's region.
struct Answer {
    to: &'static str,
    at: usize,
    bytes: Vec<u8>,
    /// What stood there when it was asked for.
    before: Vec<u8>,
}

impl Answer {
    /// How another answer differs: what was asked for and where they part, and whether anything came at all.
    fn unlike(&self, seen: &[u8]) -> String {
        let Answer { to, bytes, before, .. } = self;
        let parts = |as_much: &[u8]| seen.iter().zip(as_much).take_while(|(a, b)| a == b).count();
        let (len, same, untouched) = (bytes.len(), parts(bytes), seen.len() - parts(before));
        match untouched {
            0 => format!("with other bytes: {to} of {len} completed and brought nothing"),
            _ => format!("with other bytes: {to} of {len}, the first at {same}"),
        }
    }
}

struct Posted {
    wr_id: u64,
    signaled: bool,
    promise: Promise,
}

/// What the peer's next receive must bring.
struct Message {
    op: WcOp,
    bytes: Vec<u8>,
    len: u32,
    imm: Option<u32>,
}

/// One side of the game.
struct Player<V: Verbs> {
    end: End<V>,
    draw: Draw,
    posted: VecDeque<Posted>,
    next: u64,
    /// Messages on their way to the peer, in order.
    sent: VecDeque<Message>,
    /// What the peer's WRITTEN holds once everything posted is executed.
    written: Vec<u8>,
    /// Additions posted to the peer's counter.
    added: u64,
    received: u64,
    /// Receive buffers that are not posted at the moment.
    idle_buffers: Vec<usize>,
}

impl<V: Verbs> Player<V> {
    fn new(end: End<V>, seed: u64) -> Outcome<Self> {
        end.fill(SOURCE, &pattern(SOURCE_LEN, seed))?;
        Ok(Player {
            end,
            draw: Draw(seed),
            posted: VecDeque::new(),
            next: 0,
            sent: VecDeque::new(),
            written: vec![0; WRITTEN_LEN],
            added: 0,
            received: 0,
            idle_buffers: (0..RECEIVES).collect(),
        })
    }

    fn finished(&self) -> bool {
        self.next == REQUESTS && self.posted.is_empty() && self.sent.is_empty()
    }

    /// Posts receives, sometimes late, so that the peer meets a receiver that is not ready.
    fn feed(&mut self) -> Outcome {
        while let Some(buffer) = self.idle_buffers.pop() {
            if self.draw.one_in(3) {
                self.idle_buffers.push(buffer);
                break;
            }
            let at = (BUFFERS + buffer * SLOT) as u32;
            self.end.recv(buffer as u64, at..at + SLOT as u32)?;
        }
        Ok(())
    }

    fn turn(&mut self, peer: &End<V>) -> Outcome {
        self.feed()?;
        while self.next < REQUESTS && self.posted.len() < WINDOW && !self.draw.one_in(4) {
            self.post(peer)?;
        }
        self.settle_sends()
    }

    fn post(&mut self, peer: &End<V>) -> Outcome {
        let longest = [8, 600, 600, LONGEST][self.draw.below(4) as usize];
        let len = self.draw.below(longest + 1) as u32;
        let from = SOURCE as u32 + self.draw.below(SOURCE_LEN as u64 - LONGEST) as u32;
        let at = self.draw.below(WRITTEN_LEN as u64 - LONGEST) as usize;
        let answer = (ANSWERS + (self.next % WINDOW as u64) as usize * SLOT) as u32;
        let there = peer.remote(WRITTEN + at..WRITTEN + at + len as usize)?;
        let source = from..from + len;
        let imm = self.draw.one_in(2).then(|| self.draw.next() as u32);
        match self.draw.below(6) {
            0 | 1 => {
                let bytes = self.end.bytes(from as usize..(from + len) as usize)?;
                self.sent.push_back(Message { op: WcOp::Recv, bytes, len, imm });
                self.request(SendOp::Send { imm }, source, Promise::Nothing)
            }
            2 | 3 => {
                let bytes = self.end.bytes(from as usize..(from + len) as usize)?;
                self.written[at..at + len as usize].copy_from_slice(&bytes);
                if imm.is_some() {
                    self.sent.push_back(Message { op: WcOp::RecvWriteImm, bytes: Vec::new(), len, imm });
                }
                self.request(SendOp::Write { to: there, imm }, source, Promise::Nothing)
            }
            4 => {
                let seen = self.written[at..at + len as usize].to_vec();
                let promise = self.answer("a read", answer, seen)?;
                self.request(SendOp::Read { from: there }, answer..answer + len, promise)
            }
            _ => {
                let promise = self.answer("a fetch-and-add", answer, self.added.to_ne_bytes().to_vec())?;
                self.added += 1;
                let op = SendOp::FetchAdd { at: peer.word(COUNTER)?, add: 1 };
                self.request(op, answer..answer + 8, promise)
            }
        }
    }

    fn answer(&self, to: &'static str, at: u32, bytes: Vec<u8>) -> Outcome<Promise> {
        let at = at as usize;
        let before = self.end.bytes(at..at + bytes.len())?;
        Ok(Promise::Answer(Answer { to, at, bytes, before }))
    }

    fn request(&mut self, op: SendOp<'_, V>, local: std::ops::Range<u32>, promise: Promise) -> Outcome {
        let wr_id = self.next;
        // What has an answer is signaled, and so is the last, so that everything is known to be complete.
        // A window of unsignaled requests alone would never move.
        let last = self.posted.len() + 1 == WINDOW || wr_id + 1 == REQUESTS;
        let signaled = matches!(promise, Promise::Answer(_)) || last || self.draw.one_in(2);
        // A read that is executed again must not see writes behind it: those are fenced.
        let mut flags =
            if matches!(op, SendOp::Write { .. }) { SendFlags::FENCE } else { SendFlags::empty() };
        flags.set(SendFlags::SIGNALED, signaled);
        self.end.post_with(wr_id, op, local, flags)?;
        self.posted.push_back(Posted { wr_id, signaled, promise });
        self.next += 1;
        Ok(())
    }

    /// Checks what has completed since the last time.
    fn settle_sends(&mut self) -> Outcome {
        for seen in self.end.poll_sends()? {
            let request = loop {
                match self.posted.pop_front() {
                    Some(request) if request.signaled => break request,
                    Some(_) => {}
                    None => return Err(Failure::new(format!("nothing was posted that {seen:?} could be"))),
                }
            };
            check_eq!(seen.wr_id, request.wr_id, "the next request to complete");
            check!(seen.result.is_ok(), "request {} failed: {:?}", seen.wr_id, seen.result);
            if let Promise::Answer(answer) = request.promise {
                let seen = self.end.bytes(answer.at..answer.at + answer.bytes.len())?;
                check!(
                    seen == answer.bytes,
                    "request {} was answered {}",
                    request.wr_id,
                    answer.unlike(&seen)
                );
            }
        }
        Ok(())
    }

    /// Checks what was received against what the peer sent.
    fn settle_receives(&mut self, sent: &mut VecDeque<Message>) -> Outcome {
        for seen in self.end.poll_recvs()? {
            let n = self.received;
            self.received += 1;
            let Some(message) = sent.pop_front() else {
                return Err(Failure::new(format!("message {n} was never sent: {seen:?}")));
            };
            let done = seen.result.map_err(|e| Failure::new(format!("receive {n} failed: {e}")))?;
            let expected = (message.op, message.len, message.imm);
            check_eq!((done.op, done.len, done.imm), expected, "message {n}");
            let at = BUFFERS + seen.wr_id as usize * SLOT;
            check!(self.end.bytes(at..at + message.bytes.len())? == message.bytes, "message {n} changed");
            self.idle_buffers.push(seen.wr_id as usize);
        }
        Ok(())
    }
}

/// Plays until both sides are through.
fn game<H: Harness>(bed: &mut TestBed<'_, H>, pair: Pair<H::V>, seed: u64) -> Outcome {
    let mut gaps = Draw(seed ^ 0x5eed);
    let mut players = [Player::new(pair.a, seed * 2)?, Player::new(pair.b, seed * 2 + 1)?];
    let begun = bed.now();
    loop {
        let [a, b] = &mut players;
        a.turn(&b.end)?;
        b.turn(&a.end)?;
        a.settle_receives(&mut b.sent)?;
        b.settle_receives(&mut a.sent)?;
        if a.finished() && b.finished() {
            break;
        }
        check!(bed.now() - begun < bed.timing().timeout, "the game does not end");
        let span = Nanos(1 + gaps.below(bed.timing().round_trip.0));
        bed.advance(span);
    }
    bed.settle();
    let [a, b] = &players;
    for (side, peer) in [(a, b), (b, a)] {
        check_eq!(peer.end.mr.load(COUNTER)?, side.added, "the counter");
        let seen = peer.end.bytes(WRITTEN..WRITTEN + WRITTEN_LEN)?;
        check!(seen == side.written, "the writes left other bytes");
        check!(
            side.end.poll_sends()?.is_empty() && side.end.poll_recvs()?.is_empty(),
            "something completed twice"
        );
    }
    Ok(())
}

/// How a fabric misbehaves: packets of each million lost, doubled and delayed.
#[derive(Clone, Copy)]
struct Weather {
    loss: u32,
    duplicate: u32,
    delay: u32,
}

const CALM: Weather = Weather { loss: 0, duplicate: 0, delay: 0 };

/// Packet numbers (some about to wrap), packet sizes and depths that differ from seed to seed.
fn setup_for_noise<H: Harness>(bed: &TestBed<'_, H>, seed: u64) -> Setup {
    let mut draw = Draw(seed ^ 0xca11);
    let mut setup = Setup::new(bed);
    let mut psn = || Psn::new(if draw.one_in(3) { 0xff_fff0 } else { draw.next() as u32 });
    setup.psn = [psn(), psn()];
    setup.mtu = if draw.one_in(4) { Mtu::B1024 } else { Mtu::B256 };
    setup.depth = 1 + draw.below(4) as u8;
    setup.serves = setup.depth;
    setup.memory = MEMORY;
    setup.ack = AckTimeout::at_least(bed.timing().round_trip * 8);
    setup
}

fn disturb<H: Harness>(bed: &mut TestBed<'_, H>, weather: Weather, setup: &Setup, seed: u64) -> Outcome {
    // A delay of up to two time-outs: requests are sent again while the first copy is still on its way.
    let at_most = setup.ack.span().expect("a time-out") * 2;
    let Weather { loss, duplicate, delay } = weather;
    bed.inject(Fault::Noise { a: 0, b: 1, loss, duplicate, delay, at_most, seed })?;
    Ok(())
}

fn under<H: Harness>(bed: &mut TestBed<'_, H>, weather: Option<Weather>) -> Outcome {
    for seed in 0..bed.timing().seeds {
        bed.world(2, seed)?;
        let setup = setup_for_noise(bed, seed);
        let pair = bed.pair_with(&setup)?;
        if let Some(weather) = weather {
            disturb(bed, weather, &setup, seed)?;
        }
        game(bed, pair, seed).map_err(|e| e.during(format!("seed {seed}")))?;
    }
    Ok(())
}

fn any_program_runs_as_written_on_a_quiet_fabric<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    under(bed, None)
}

fn any_program_runs_as_written_under_loss<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    under(bed, Some(Weather { loss: 30_000, ..CALM }))
}

fn any_program_runs_as_written_under_duplication<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    under(bed, Some(Weather { duplicate: 200_000, ..CALM }))
}

fn any_program_runs_as_written_under_delay<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    under(bed, Some(Weather { delay: 100_000, ..CALM }))
}

fn any_program_runs_as_written_under_all_of_them<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    under(bed, Some(Weather { loss: 20_000, duplicate: 50_000, delay: 50_000 }))
}

fn any_program_runs_as_written_on_a_loopback<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for seed in 0..bed.timing().seeds.div_ceil(4) {
        bed.world(2, seed)?;
        let setup = setup_for_noise(bed, seed);
        let pair = bed.pair_between(0, 0, &setup)?;
        game(bed, pair, seed).map_err(|e| e.during(format!("seed {seed}")))?;
    }
    Ok(())
}

/// Where losses do exhaust the retries, the completions are successes, then one true error, then flushes; and
/// the counter lies between what is known to be added and what was asked for.
fn a_failure_is_a_clean_cut<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for seed in 0..bed.timing().seeds {
        bed.world(2, seed)?;
        let mut setup = setup_for_noise(bed, seed);
        setup.retry = retries((seed % 3) as u8);
        let Pair { a, b } = bed.pair_with(&setup)?;
        disturb(bed, Weather { loss: 150_000, duplicate: 20_000, delay: 20_000 }, &setup, seed)?;
        const N: u64 = 40;
        for i in 0..N {
            a.fetch_add(i, i as u32 * 8, b.word(4_096)?, 1)?;
        }
        let seen = bed.completions(&a.sends, N as usize)?;
        let good = seen.iter().take_while(|c| c.result.is_ok()).count();
        for (i, completion) in seen.iter().enumerate() {
            let expected = match i.cmp(&good) {
                std::cmp::Ordering::Less => continue,
                std::cmp::Ordering::Equal => WcError::RetryExc,
                std::cmp::Ordering::Greater => WcError::Flush,
            };
            check_eq!(completion.wr_id, i as u64, "seed {seed}: the next request to complete");
            check_eq!(completion.result, Err(expected), "seed {seed}: request {i} with {good} successes");
        }
        for i in 0..good {
            check_eq!(a.mr.load(i * 8)?, i as u64, "seed {seed}: old value {i}");
        }
        b.qp.modify(&Modify::Err)?;
        let fixed = b.mr.load(4_096)?;
        check!((good as u64..=N).contains(&fixed), "seed {seed}: {good} known, {fixed} executed of {N}");
        bed.advance(setup.ack.span().expect("a time-out") * 10);
        check_eq!(b.mr.load(4_096)?, fixed, "seed {seed}: the counter after the fence");
    }
    Ok(())
}
