//! One stream of bytes between two machines, as netperf makes it (chapter 6): how fast it is, and what it costs.

use super::pair::{Machine, Pair};
use crate::paper::{PaperError, refused};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use weft_protocols::rt::JoinHandle;
use weft_protocols::sdp::{SdpBuffer, SdpError, SdpOptions, SdpStream, Transfer};
use weft_protocols::transport::Rank;
use weft_sim::Sim;
use weft_sim::profile::Profile;
use weft_verbs::{Nanos, Wait, Work};

/// What a call of netperf's receiver takes: the thesis's receive socket size, in bytes.
const RECEIVES: u32 = 87_380;

/// What a private buffer of 8 KiB costs its receiver beside what the protocol here does with it: OFED allocates, maps and frees
/// its pages each time, where Weft posts the same memory again. Fitted to the throughput of 10 MiB without ZCopy.
pub(super) const REFILL: Nanos = Nanos(2_360);

/// The cores of a machine.
const CORES: f64 = 16.0;

/// How many cores work for a sender: netperf's lines say 12.5 % of 16 cores where the sender is what bounds.
pub(super) const SENDERS_CORES: u64 = 2;

/// At most so many bytes are sent. Of a longer message, so many of its bytes are.
const VOLUME: u32 = 16 << 20;

/// At most so many calls are made, and at least so many where several are under way.
const CALLS: u32 = 1_024;
const IN_ROW: u32 = 12;

/// When the connection stands and all begins.
const BEGIN: Nanos = Nanos::from_millis(100);
const END: Nanos = Nanos::from_secs(10);

const PORT: u16 = 12_865;

/// How bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Through private buffers.
    BCopy,
    /// From user's memory to user's memory, one buffer at a time, as OFED does it.
    ZCopy,
    /// The same with several buffers at a time at both ends.
    Pipelined,
    /// The same with buffers that are registered once and used again, as the interface here has it.
    Kept,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::BCopy, Mode::ZCopy, Mode::Pipelined, Mode::Kept];

    pub fn name(self) -> &'static str {
        match self {
            Mode::BCopy => "BCopy",
            Mode::ZCopy => "ZCopy",
            Mode::Pipelined => "pipelined",
            Mode::Kept => "pipelined, kept",
        }
    }

    /// How many of a sender's buffers are under way.
    fn depth(self) -> u32 {
        if self.is_pipelined() { SdpOptions::default().zcopy_depth } else { 1 }
    }

    /// Whether several buffers are under way.
    fn is_pipelined(self) -> bool {
        matches!(self, Mode::Pipelined | Mode::Kept)
    }

    /// A receiver of short messages spins, since the next one comes soon; one that waits for an RDMA read sleeps.
    fn wait(self) -> Wait {
        if self == Mode::BCopy { Wait::Poll } else { Wait::Notify }
    }
}

/// What a stream gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// Megabits a second.
    pub rate: f64,
    /// Processor time of sender and receiver, in microseconds for a KiB.
    pub cost: [f64; 2],
    /// The same in percent of a machine.
    pub percent: [f64; 2],
}

/// Measures messages of so many bytes between machines of so many rails.
pub(super) fn measure(profile: &Profile, rails: u8, mode: Mode, message: u32) -> Result<Flow, PaperError> {
    let call = message.min(VOLUME);
    let least = if mode.is_pipelined() { IN_ROW } else { 1 };
    let calls = (VOLUME / call).clamp(least, CALLS);
    let options = SdpOptions { zcopy_threshold: 1, zcopy_depth: mode.depth(), ..SdpOptions::default() };
    let pair = Pair::new(profile, rails, mode.wait(), options)?;
    let (sender, receiver) = (pair.sender.clone(), pair.receiver.clone());
    drop(sender.rt.clone().spawn(async move {
        let stream = Rc::new(sender.sdp.connect(Rank::from_index(1), PORT).await?);
        sender.rt.sleep_until(BEGIN).await;
        match mode {
            Mode::BCopy => write(&sender, &stream, call, calls).await?,
            _ => send(&sender, &stream, mode, call, calls).await?,
        }
        stream.shutdown()
    }));
    let ended = Rc::new(RefCell::new(None));
    let book = Rc::clone(&ended);
    // One that is asked for what it gives must not answer with a buffer of its own: OFED has no SinkAvail.
    let options = SdpOptions { zcopy_threshold: 0, ..options };
    let listener = receiver.sdp.bind_with(PORT, options).map_err(refused)?;
    drop(receiver.rt.clone().spawn(async move {
        let stream = Rc::new(listener.accept().await?);
        let bytes = match mode {
            Mode::BCopy => read(&receiver, &stream).await?,
            Mode::ZCopy => receive(&receiver, &stream, mode, RECEIVES, 1).await?,
            _ => receive(&receiver, &stream, mode, call.max(RECEIVES), 2).await?,
        };
        *book.borrow_mut() = Some((receiver.rt.now(), bytes));
        Ok::<(), SdpError>(())
    }));
    // The first call is made at the very beginning.
    pair.below.run_until(BEGIN - Nanos(1));
    let before = pair.busy();
    pair.below.run_until(END);
    let ended = *ended.borrow();
    let Some((end, bytes)) = ended.filter(|(_, bytes)| *bytes == u64::from(call) * u64::from(calls)) else {
        return Err(PaperError::Unfinished(format!("{} of {message} bytes: {ended:?}", mode.name())));
    };
    let elapsed = (end - BEGIN).0;
    let busy = [0, 1].map(|node| pair.busy()[node] - before[node]);
    let receiver = if mode == Mode::BCopy { elapsed } else { busy[1].0 };
    let cores = [busy[0].0 * SENDERS_CORES, receiver].map(|ns| ns as f64);
    Ok(Flow {
        rate: bytes as f64 * 8e3 / elapsed as f64,
        cost: cores.map(|ns| ns / 1e3 / (bytes as f64 / 1_024.0)),
        percent: cores.map(|ns| 100.0 * ns / elapsed as f64 / CORES),
    })
}

/// BCopy: each call copies.
async fn write(machine: &Machine, stream: &SdpStream<Sim>, call: u32, calls: u32) -> Result<(), SdpError> {
    let bytes = vec![7; call as usize];
    for _ in 0..calls {
        machine.rt.spend(Work::Syscall);
        stream.write_all(&bytes).await?;
    }
    Ok(())
}

/// A user's buffers.
struct Buffers {
    mode: Mode,
    machine: Machine,
    len: u32,
    free: Vec<SdpBuffer<Sim>>,
}

impl Buffers {
    /// A buffer for a call. The thesis's calls register theirs each time; it is why there is a threshold (chapter 6).
    fn take(&mut self) -> Result<SdpBuffer<Sim>, SdpError> {
        self.machine.rt.spend(Work::Syscall);
        let new = || self.machine.sdp.buffer(self.len).map_err(|_| SdpError::Closed);
        self.free.pop().map_or_else(new, Ok)
    }

    /// Awaits the first call's end. How many bytes it moved.
    async fn end_first(&mut self, under_way: &mut VecDeque<Call>) -> Result<u32, SdpError> {
        let Some(first) = under_way.pop_front() else { return Ok(0) };
        let (moved, buffer) = first.await.unwrap_or((Err(SdpError::Closed), None));
        self.free.extend(buffer.filter(|_| self.mode == Mode::Kept));
        moved
    }
}

type Call = JoinHandle<Transfer<Sim>>;

/// ZCopy: each call gives a buffer.
async fn send(
    machine: &Machine,
    stream: &Rc<SdpStream<Sim>>,
    mode: Mode,
    call: u32,
    calls: u32,
) -> Result<(), SdpError> {
    let mut buffers = Buffers { mode, machine: machine.clone(), len: call, free: Vec::new() };
    let mut under_way = VecDeque::new();
    for _ in 0..calls {
        if under_way.len() == mode.depth() as usize {
            buffers.end_first(&mut under_way).await?;
        }
        let (buffer, stream) = (buffers.take()?, Rc::clone(stream));
        under_way.push_back(machine.rt.spawn(async move { stream.send(buffer, call).await }));
        // Its turn comes before that of the next one.
        machine.rt.yield_now().await;
    }
    while !under_way.is_empty() {
        buffers.end_first(&mut under_way).await?;
    }
    Ok(())
}

/// Reads to the end by calls that copy.
async fn read(machine: &Machine, stream: &SdpStream<Sim>) -> Result<u64, SdpError> {
    let (mut into, mut bytes) = (vec![0; RECEIVES as usize], 0);
    let private = u64::from(stream.options().buffer_bytes);
    loop {
        machine.rt.spend(Work::Syscall);
        let n = stream.read(&mut into).await? as u64;
        if n == 0 {
            return Ok(bytes);
        }
        machine.rt.spend(Work::Compute(Nanos(REFILL.0 * n / private)));
        bytes += n;
    }
}

/// Reads to the end by calls that each give a buffer, so many at a time.
async fn receive(
    machine: &Machine,
    stream: &Rc<SdpStream<Sim>>,
    mode: Mode,
    call: u32,
    depth: usize,
) -> Result<u64, SdpError> {
    let mut buffers = Buffers { mode, machine: machine.clone(), len: call, free: Vec::new() };
    let (mut under_way, mut bytes) = (VecDeque::new(), 0);
    loop {
        while under_way.len() < depth {
            let (buffer, stream) = (buffers.take()?, Rc::clone(stream));
            under_way.push_back(machine.rt.spawn(async move { stream.recv(buffer).await }));
            machine.rt.yield_now().await;
        }
        match buffers.end_first(&mut under_way).await? {
            0 => return Ok(bytes),
            n => bytes += u64::from(n),
        }
        // The next read is posted at the end of this step, and so before another buffer is registered.
        machine.rt.sleep(Nanos(1)).await;
    }
}
