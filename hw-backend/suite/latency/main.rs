//! What the contract costs over raw verbs: fetch-and-add and 8-byte read, against `perftest` on the same device.
//!
//! `hw-latency [ROUNDS]` measures in pairs, ours and `ib_atomic_lat`'s or `ib_read_lat`'s right after each other, and
//! fails where the median of the ratios is above 1.05. Targets stay passive: two processes that both spin on one
//! processor would measure its time slice.
//!
//! Both take the same span, from one post to the next with one operation in flight, and the median of as many; both in
//! cycles as the processor counts them. (In microseconds `perftest` may use a rate of its own: where a measurement of
//! 0.2 s differs from the kernel's figure by more than 2 %, it takes the measured one, which on an emulated processor
//! changes from run to run.)
//!
//! `hw-latency count` makes operations for a counter of instructions (`valgrind --tool=callgrind`), which collects in
//! `posted` and `polled` alone.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use weft_hw::{Hw, HwContext, HwCq, HwDevice, HwMr, HwQp, cycles};
use weft_verbs::{
    AccessFlags, AckTimeout, CompletionQueue, Context, Device, MemoryRegion, Migration, Modify, Mtu, Path,
    Payload, PostError, ProtectionDomain, Psn, QpCaps, QpInit, QpType, QueuePair, RemoteSlice, Retries,
    RnrTimer, SendFlags, SendOp, SendWr, Sge, ToInit, ToRtr, ToRts, WorkCompletion,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The most that the contract may cost.
const MOST: f64 = 1.05;
const ITERATIONS: usize = 2_000;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let done = match argument.as_deref() {
        Some("count") => count(),
        rounds => compare(rounds.and_then(|text| text.parse().ok()).unwrap_or(21)),
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
    fn posted(&self, operation: Operation) -> std::result::Result<(), PostError> {
        let into = [Sge { mr: &self.mr, at: 0, len: 8 }];
        let (op, data) = (operation.op(self.to), Payload::Sge(&into));
        self.qp.post_send(&[SendWr { wr_id: 1, op, data, flags: SendFlags::SIGNALED }])
    }

    #[inline(never)]
    fn polled(&self, out: &mut Vec<WorkCompletion>) -> weft_verbs::Result<usize> {
        self.cq.poll(out, 1)
    }

    /// The median of the cycles from one post to the next, with one operation in flight.
    fn median(&self, operation: Operation) -> Result<f64> {
        let mut out = Vec::with_capacity(1);
        let mut times = Vec::with_capacity(ITERATIONS);
        for _ in 0..ITERATIONS {
            times.push(cycles().ok_or("this processor has no cycle counter")?);
            self.posted(operation)?;
            while self.polled(&mut out)? == 0 {}
            out.pop().ok_or("a completion")?.result?;
        }
        let mut spans: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        spans.sort_unstable();
        Ok(spans[spans.len() / 2] as f64)
    }
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

/// The median that a program of `perftest` finds, in cycles, server and client on this machine.
fn rival(operation: Operation, device: &str) -> Result<f64> {
    let iterations = ITERATIONS.to_string();
    let command = || {
        let mut command = Command::new(operation.rival());
        command.args(["-d", device, "-x", "1", "-n", &iterations, "--report-cycles"]);
        if operation == Operation::Read {
            command.args(["-s", "8"]);
        }
        command
    };
    let mut server = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let began = Instant::now();
    while !rival_listens() && began.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = command().arg("127.0.0.1").output()?;
    server.wait()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Columns: bytes, iterations, minimum, maximum, typical, which is the median.
    let row = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = row.into_iter().find(|words| words.len() >= 9 && words.first() == Some(&"8"));
    Ok(row.ok_or_else(|| format!("{} said: {text}", operation.rival()))?[4].parse()?)
}

/// Whether something listens at `perftest`'s port, 18515.
fn rival_listens() -> bool {
    let lists =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    lists.iter().flat_map(|list| list.lines()).any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.len() > 3 && words[1].ends_with(":4853") && words[3] == "0A"
    })
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
            let ratio = ours / theirs;
            println!("{name}: {theirs:.0} cycles, ours {ours:.0}, ratio {ratio:.3}");
            ratios.push(ratio);
        }
        ratios.sort_by(f64::total_cmp);
        let [low, median, high] = [1, 2, 3].map(|quarter| ratios[(ratios.len() - 1) * quarter / 4]);
        let verdict = if median <= MOST { "held" } else { "TOO SLOW" };
        println!(
            "{name}: median ratio {median:.3} of {rounds} pairs, half of them {low:.3} to {high:.3}, at most {MOST}: \
             {verdict}"
        );
        held &= median <= MOST;
    }
    Ok(held)
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
