//! What the contract costs over raw verbs: fetch-and-add and 8-byte read, against `perftest` on the same device.
//!
//! `hw-latency [ROUNDS]` measures in pairs, ours and `ib_atomic_lat`'s or `ib_read_lat`'s right after each other, and
//! fails where the median of the ratios is above 1.05. Targets stay passive: two processes that both spin on one
//! processor would measure its time slice.
//!
//! `hw-latency count` makes operations for a counter of instructions (`valgrind --tool=callgrind`), which collects in
//! `posted` and `polled` alone.

use hw_backend::{Hw, HwContext, HwCq, HwDevice, HwMr, HwQp, cycles};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use verbs_trait::{
    AccessFlags, AckTimeout, CompletionQueue, Context, Device, MemoryRegion, Migration, Modify, Mtu, Path,
    Payload, ProtectionDomain, Psn, QpCaps, QpInit, QpType, QueuePair, RemoteSlice, Retries, RnrTimer,
    SendFlags, SendOp, SendWr, Sge, ToInit, ToRtr, ToRts, WorkCompletion,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The most that the contract may cost.
const MOST: f64 = 1.05;
const ITERATIONS: usize = 2_000;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let done = match argument.as_deref() {
        Some("count") => count(),
        rounds => compare(rounds.and_then(|text| text.parse().ok()).unwrap_or(9)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("hw-latency: {why}");
            ExitCode::from(3)
        }
    }
}

/// What is measured, and the program to measure against.
#[derive(Clone, Copy, PartialEq)]
enum Operation {
    FetchAdd,
    Read,
}

impl Operation {
    fn rival(self) -> &'static str {
        match self {
            Operation::FetchAdd => "ib_atomic_lat",
            Operation::Read => "ib_read_lat",
        }
    }

    fn op(self, at: RemoteSlice) -> SendOp<'static, Hw> {
        match self {
            Operation::FetchAdd => SendOp::FetchAdd { at, add: 1 },
            Operation::Read => SendOp::Read { from: at },
        }
    }
}

/// One connection on one device, from a queue pair to another of the same process.
struct Bench {
    cq: HwCq,
    qp: HwQp,
    mr: HwMr,
    to: RemoteSlice,
    _peer: HwQp,
    _context: HwContext,
}

impl Bench {
    fn new() -> Result<Bench> {
        let device = HwDevice::find(None)?.ok_or("there is no RDMA device")?;
        let context = device.open()?;
        let (pd, cq) = (context.alloc_pd()?, context.create_cq(64, None)?);
        let access = AccessFlags::all();
        let (mr, target) = (pd.alloc_mr(64, access)?, pd.alloc_mr(64, access)?);
        let caps = QpCaps { max_send_wr: 8, max_recv_wr: 1, max_inline: 0, ..QpCaps::default() };
        let (kind, srq, sq_sig_all) = (QpType::Rc, None, false);
        let make = || pd.create_qp(&QpInit { kind, send_cq: &cq, recv_cq: &cq, srq, caps, sq_sig_all });
        let (qp, peer) = (make()?, make()?);
        connect(&context, &qp, &peer)?;
        connect(&context, &peer, &qp)?;
        let to = target.remote(0..8)?;
        // The target lives as long as the process.
        std::mem::forget(target);
        Ok(Bench { cq, qp, mr, to, _peer: peer, _context: context })
    }

    #[inline(never)]
    fn posted(&self, operation: Operation) -> Result<()> {
        let into = [Sge { mr: &self.mr, at: 0, len: 8 }];
        let (op, data) = (operation.op(self.to), Payload::Sge(&into));
        self.qp.post_send(&[SendWr { wr_id: 1, op, data, flags: SendFlags::SIGNALED }])?;
        Ok(())
    }

    #[inline(never)]
    fn polled(&self, out: &mut Vec<WorkCompletion>) -> Result<usize> {
        Ok(self.cq.poll(out, 1)?)
    }

    /// The median time from one post to the next, with one operation in flight, by the cycle counter: as `perftest`
    /// takes it.
    fn median(&self, operation: Operation) -> Result<Duration> {
        let mut out = Vec::with_capacity(1);
        let mut times = Vec::with_capacity(ITERATIONS + 1);
        for _ in 0..=ITERATIONS {
            times.push(cycles().ok_or("this processor has no cycle counter")?);
            self.posted(operation)?;
            while self.polled(&mut out)? == 0 {}
            out.pop().ok_or("a completion")?.result?;
        }
        let mut spans: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        spans.sort_unstable();
        Ok(Duration::from_secs_f64(spans[spans.len() / 2] as f64 / cycles_a_second()?))
    }
}

/// The counter's rate as the kernel states it, which is where `perftest` takes it from.
fn cycles_a_second() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/cpuinfo")?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz")).ok_or("no rate of the processor")?;
    let mhz: f64 = line.split(':').nth(1).ok_or("no rate of the processor")?.trim().parse()?;
    Ok(mhz * 1e6)
}

fn connect(context: &HwContext, qp: &HwQp, peer: &HwQp) -> Result<()> {
    let (access, index) = (AccessFlags::all(), context.usable_gid(1)?);
    let path = Path { sgid_index: index, ..Path::to(context.gid(1, index)?, 1) };
    let lid = context.port_attr(1)?.lid;
    qp.modify(&Modify::Init(ToInit { port: 1, pkey_index: 0, access, qkey: 0 }))?;
    qp.modify(&Modify::Rtr(ToRtr {
        dest_qp: peer.num(),
        rq_psn: Psn::new(1),
        path: Path { dlid: lid, ..path },
        mtu: Mtu::B1024,
        min_rnr_timer: RnrTimer::new(12).ok_or("a code")?,
        max_dest_rd_atomic: 16,
        alt: None,
    }))?;
    qp.modify(&Modify::Rts(ToRts {
        sq_psn: Psn::new(1),
        timeout: AckTimeout::new(14).ok_or("an exponent")?,
        retry: Retries::MOST,
        rnr_retry: Retries::FOREVER,
        max_rd_atomic: 16,
        alt: None,
        migration: Migration::Migrated,
    }))?;
    Ok(())
}

/// The median that a program of `perftest` finds, server and client on this machine.
fn rival(operation: Operation, device: &str) -> Result<Duration> {
    let iterations = ITERATIONS.to_string();
    let command = || {
        let mut command = Command::new(operation.rival());
        command.args(["-d", device, "-x", "1", "-n", &iterations, "-s", "8"]);
        if operation == Operation::FetchAdd {
            command = Command::new(operation.rival());
            command.args(["-d", device, "-x", "1", "-n", &iterations]);
        }
        command
    };
    let mut server = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    std::thread::sleep(Duration::from_millis(700));
    let output = command().arg("127.0.0.1").output()?;
    server.wait()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Columns: bytes, iterations, minimum, maximum, typical.
    let row = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = row.into_iter().find(|words| words.len() >= 9 && words.first() == Some(&"8"));
    let typical: f64 = row.ok_or_else(|| format!("{} said: {text}", operation.rival()))?[4].parse()?;
    Ok(Duration::from_secs_f64(typical / 1e6))
}

fn compare(rounds: usize) -> Result<bool> {
    let device = HwDevice::find(None)?.ok_or("there is no RDMA device")?;
    let mut held = true;
    for operation in [Operation::FetchAdd, Operation::Read] {
        let mut ratios = Vec::new();
        let name = operation.rival();
        for round in 0..rounds {
            // Whoever is first in one pair is second in the next.
            let (ours, theirs) = if round % 2 == 0 {
                let ours = Bench::new()?.median(operation)?;
                (ours, rival(operation, device.name())?)
            } else {
                let theirs = rival(operation, device.name())?;
                (Bench::new()?.median(operation)?, theirs)
            };
            let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
            println!("{name}: {:.2} us, ours {:.2} us, ratio {ratio:.3}", micros(theirs), micros(ours));
            ratios.push(ratio);
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        let verdict = if median <= MOST { "held" } else { "TOO SLOW" };
        println!("{name}: median ratio {median:.3} of {rounds} pairs, at most {MOST}: {verdict}");
        held &= median <= MOST;
    }
    Ok(held)
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

fn count() -> Result<bool> {
    const OPERATIONS: usize = 500;
    let bench = Bench::new()?;
    let mut out = Vec::with_capacity(1);
    for _ in 0..OPERATIONS {
        bench.posted(Operation::FetchAdd)?;
        // One poll that hits, and no empty one.
        std::thread::sleep(Duration::from_millis(5));
        if bench.polled(&mut out)? != 1 {
            return Err("an operation took longer than it may".into());
        }
        out.clear();
    }
    println!("{OPERATIONS} operations");
    Ok(true)
}
