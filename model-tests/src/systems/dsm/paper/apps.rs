//! Applications on the paper's cluster: Table 3, and what sections 5.2 to 5.4 say of them.

use super::super::apps::sequential_part;
use super::super::apps::{Application, Input, Worker};
use super::super::history::Spent;
use super::cluster::cluster;
use crate::paper::{Fitted, Machine, PaperError, Row, X, refused};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::dsm::{Charges, Dsm, DsmConfig, DsmStats};
use weft_protocols::locks::{LockConfig, LockService, Scheme};
use weft_protocols::rt::Receives;
use weft_sim::Sim;
use weft_sim::profile::Profile;
use weft_verbs::{Nanos, Wait};

/// Long enough for every run.
const LIMIT: Nanos = Nanos::from_secs(10_000);

/// Processors of a node (section 5).
const PROCESSORS: u32 = 2;

/// Nodes of Table 3 and of section 5.2.
pub(super) const NODES: usize = 8;

/// A line of Table 3: the application, an input, what a unit of work takes, and what the paper counts: faults, barriers and locks a
/// second, and bytes a second by RDMA write, RDMA read and send.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub name: &'static str,
    pub application: Application,
    pub input: Input,
    /// Nanoseconds, fitted to one of the paper's rates: that.
    pub unit: f64,
    pub fitted_to: &'static str,
    faults: f64,
    barriers: f64,
    locks: f64,
    bytes: [f64; 3],
}

/// The application of Table 3 that stands in neither of the figures, nor in the paper's list of applications.
const IN_NO_FIGURE: &str = "Ocean";

/// The paper's inputs; rounds are fewer, since rates do not depend on them.
pub(super) const LINES: [Line; 9] = [
    Line {
        name: "Barnes",
        application: Application::Barnes,
        input: Input { size: 16_384, rounds: 2 },
        unit: 840.0,
        fitted_to: "barriers a second",
        faults: 4_256.0,
        barriers: 1.8,
        locks: 0.0,
        bytes: [3.9e6, 174e3, 228e3],
    },
    Line {
        name: "IS",
        application: Application::Is,
        input: Input { size: 1 << 24, rounds: 2 },
        unit: 27.0,
        fitted_to: "barriers a second",
        faults: 138.0,
        barriers: 76.0,
        locks: 0.0,
        bytes: [18e3, 0.0, 19e3],
    },
    Line {
        name: "LU",
        application: Application::Lu,
        input: Input { size: 1_024, rounds: 1 },
        unit: 50.0,
        fitted_to: "barriers a second",
        faults: 129.0,
        barriers: 35.0,
        locks: 0.0,
        bytes: [0.8e6, 625e3, 21e3],
    },
    Line {
        name: "NBody",
        application: Application::Nbody,
        input: Input { size: 8_192, rounds: 2 },
        unit: 46.0,
        fitted_to: "barriers a second",
        faults: 1_089.0,
        barriers: 4.3,
        locks: 0.0,
        bytes: [1.8e6, 44e3, 81e3],
    },
    Line {
        name: "NBodyW",
        application: Application::Nbodyw,
        input: Input { size: 8_192, rounds: 2 },
        unit: 46.0,
        fitted_to: "barriers a second, by its sequential phase",
        faults: 826.0,
        barriers: 2.3,
        locks: 0.0,
        bytes: [1.2e6, 23e3, 50e3],
    },
    Line {
        name: "Ocean",
        application: Application::Ocean,
        input: Input { size: 1_024, rounds: 1 },
        unit: 820.0,
        fitted_to: "barriers a second",
        faults: 647.0,
        barriers: 88.0,
        locks: 76.0,
        bytes: [0.5e6, 0.0, 84e3],
    },
    Line {
        name: "SOR",
        application: Application::Sor,
        input: Input { size: 4_096, rounds: 2 },
        unit: 86.0,
        fitted_to: "barriers a second",
        faults: 21.0,
        barriers: 11.0,
        locks: 0.0,
        bytes: [83e3, 0.0, 4.3e3],
    },
    Line {
        name: "TSP",
        application: Application::Tsp,
        input: Input { size: 19, rounds: 1 },
        unit: 106_000.0,
        fitted_to: "locks a second",
        faults: 313.0,
        barriers: 0.0,
        locks: 28.0,
        bytes: [1.3e6, 26e3, 30e3],
    },
    Line {
        name: "Water",
        application: Application::Water,
        input: Input { size: 512, rounds: 2 },
        unit: 10_400.0,
        fitted_to: "barriers a second",
        faults: 882.0,
        barriers: 19.0,
        locks: 857.0,
        bytes: [2.7e6, 482e3, 157e3],
    },
];

/// What a run came to.
pub(super) struct Ran {
    pub elapsed: Nanos,
    /// By thread.
    pub spent: Vec<Spent>,
    /// What node 0 counted meanwhile.
    pub node: DsmStats,
    /// Messages that it sent, in all.
    messages: u64,
}

impl Ran {
    /// The time that one thread alone computes for, by what the run took.
    pub fn speed_up(&self, line: &Line) -> f64 {
        let alone = line.application.sequential(line.input).units as f64 * line.unit;
        alone / self.elapsed.0 as f64
    }
}

/// How a run differs from the paper's own system.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub nodes: usize,
    pub threads: u32,
    pub pulls: bool,
    pub receives: Receives,
    /// Processes of others on each node, which compute all the time.
    pub load: u32,
}

impl Setup {
    /// The paper's own system: messages are taken in in the interrupt, and nothing else runs.
    pub fn of(nodes: usize, threads: u32) -> Setup {
        Setup { nodes, threads, pulls: true, receives: Receives::AtOnce, load: 0 }
    }

    /// How a node of it takes messages in. Turns of different nodes do not begin together.
    fn receives_on(&self, node: u32) -> Receives {
        let Receives::Signal { quantum, .. } = self.receives else { return self.receives };
        let round = quantum.0 * u64::from(self.threads + self.load);
        Receives::Signal { quantum, offset: Nanos(round * u64::from(node) / self.nodes as u64) }
    }
}

/// A thread that has ended: which one, its part of the answer, what it spent, and what its node counted.
type Done = (u32, u64, Spent, [(DsmStats, u64); 2]);

/// Runs an application.
pub(super) fn run(profile: &Profile, line: &Line, setup: Setup) -> Result<Ran, PaperError> {
    let Setup { nodes, threads, pulls, load, .. } = setup;
    let cluster = cluster(profile, &vec![Wait::Notify; nodes])?;
    let all = nodes as u32 * threads;
    let done: Rc<RefCell<Vec<Done>>> = Rc::default();
    for (node, Machine { rt, mesh }) in (0..).zip(&cluster.machines) {
        rt.set_processors(PROCESSORS);
        rt.set_load(load);
        rt.set_receives(setup.receives_on(node));
        let config = DsmConfig { charges: Charges::Mapped, pulls };
        let dsm: Dsm<Sim> = Dsm::start_as(rt, mesh, config).map_err(refused)?;
        let locks = LockConfig::new(Scheme::Srsl, nodes as u32);
        let locks = LockService::start(rt, mesh, locks).map_err(refused)?;
        for index in 0..threads {
            let mut worker = Worker {
                thread: dsm.thread(),
                locks: locks.client(),
                rt: rt.clone(),
                me: node * threads + index,
                all,
                pace: line.unit,
                grain: None,
                spent: Spent::default(),
                ran: Spent::default(),
                mesh: mesh.clone(),
                counted: Default::default(),
            };
            let (done, application, input) = (Rc::clone(&done), line.application, line.input);
            drop(rt.spawn(async move {
                if let Ok(part) = application.run(&mut worker, input).await {
                    done.borrow_mut().push((worker.me, part, worker.ran, worker.counted));
                }
            }));
        }
    }
    cluster.run_until(LIMIT);
    let mut done = done.take();
    done.sort_by_key(|(thread, ..)| *thread);
    let answer = done.iter().map(|(_, part, ..)| *part).fold(0, u64::wrapping_add);
    if done.len() != all as usize || answer != line.application.sequential(line.input).value {
        let ended = done.len();
        return Err(PaperError::Unfinished(format!(
            "{}: {ended} of {all} threads ended, {answer:#x}",
            line.name
        )));
    }
    let from = done.iter().map(|(_, _, spent, _)| spent.from).min().unwrap_or_default();
    let to = done.iter().map(|(_, _, spent, _)| spent.to).max().unwrap_or_default();
    let [(before, sent_before), (after, sent)] = done[0].3;
    let node = DsmStats {
        read_faults: after.read_faults - before.read_faults,
        write_faults: after.write_faults - before.write_faults,
        joined: after.joined - before.joined,
        transfers: after.transfers - before.transfers,
        transferred: after.transferred - before.transferred,
        pulls: after.pulls - before.pulls,
        pulled: after.pulled - before.pulled,
        ..DsmStats::default()
    };
    let messages = sent - sent_before;
    let spent = done.into_iter().map(|(_, _, spent, _)| spent).collect();
    Ok(Ran { elapsed: Nanos(to - from), spent, node, messages })
}

/// Bytes of a control message, headers of the session and of InfiniBand with it.
const MESSAGE: f64 = 96.0;

/// Table 3 and Figure 4: one thread a node, pulls on, what node 0 counts.
pub(super) fn table_3(profile: &Profile, line: &Line) -> Result<Vec<Row>, PaperError> {
    let ran = run(profile, line, Setup::of(NODES, 1))?;
    let seconds = ran.elapsed.0 as f64 / 1e9;
    let mine = ran.spent[0];
    let mut rows = Vec::new();
    let mut row = |x, unit, paper: f64, count: f64| {
        let paper = (paper > 0.0).then_some(paper);
        rows.push(Row::new("Table 3", line.name, X::Name(x), unit, paper, count / seconds));
    };
    row("faults a second", "1/s", line.faults, (ran.node.read_faults + ran.node.write_faults) as f64);
    row("barriers a second", "1/s", line.barriers, mine.barriers_entered as f64);
    row("locks a second", "1/s", line.locks, mine.locks_taken as f64);
    row("RDMA write, KB/s", "KB/s", line.bytes[0] / 1e3, ran.node.transferred as f64 / 1e3);
    row("RDMA read, KB/s", "KB/s", line.bytes[1] / 1e3, ran.node.pulled as f64 / 1e3);
    row("send, KB/s", "KB/s", line.bytes[2] / 1e3, ran.messages as f64 * MESSAGE / 1e3);
    if line.name == IN_NO_FIGURE {
        return Ok(rows);
    }
    let parts = [
        ("compute", mine.compute),
        ("faults", mine.faults),
        ("barriers", mine.barriers),
        ("locks", mine.locks),
        ("handlers", mine.handlers),
    ];
    for (part, time) in parts {
        let share = 100.0 * time as f64 / ran.elapsed.0 as f64;
        rows.push(Row::new(
            "Figure 4",
            format!("{}, {part}", line.name),
            X::Name("8 nodes"),
            "%",
            None,
            share,
        ));
    }
    rows.push(Row::new("Figure 3", line.name, X::Number(NODES as u64), "ratio", None, ran.speed_up(line)));
    Ok(rows)
}

/// Figure 3, beside Table 3's eight nodes: nodes, and threads of each.
const CLUSTERS: [(usize, u32); 5] = [(1, 1), (2, 1), (4, 1), (8, 2), (12, 2)];

/// Figure 3: speed-up by processors.
pub(super) fn speed_ups(profile: &Profile, line: &Line) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for (nodes, threads) in CLUSTERS.iter().copied().filter(|_| line.name != IN_NO_FIGURE) {
        let ran = run(profile, line, Setup::of(nodes, threads))?;
        let processors = nodes as u64 * u64::from(threads);
        let x = X::Number(processors);
        rows.push(Row::new("Figure 3", line.name, x, "ratio", None, ran.speed_up(line)));
    }
    Ok(rows)
}

/// Figure 3's dashed line and its limit: NBodyW with a perfect speed-up of all but its sequential phase (5.4).
pub(super) fn in_theory() -> Vec<Row> {
    let Some(line) = line("NBodyW") else { return Vec::new() };
    let alone = sequential_part(line.input);
    let with = |processors: u64| {
        let row = |name: &str, x| Row::new("Figure 3", name, X::Number(processors), "ratio", None, x);
        let speed_up = 1.0 / (alone + (1.0 - alone) / processors as f64);
        [row("NBodyW in theory", speed_up), row("NBodyW's limit", 1.0 / alone)]
    };
    [1, 2, 4, 8, 16, 24].into_iter().flat_map(with).collect()
}

/// The user-level build: a signal to the process for each notification, 1 us before each system call, and `mprotect`, of which the
/// paper's primitive takes "roughly half" (5.2). What a signal takes is what Table 2 has for a process above the interrupt.
pub(super) fn user_level(profile: &Profile, signal: Nanos) -> Profile {
    let mut user = profile.clone();
    user.cpu.event_ns += signal.0;
    user.cpu.syscall_ns += 1_000;
    user.cpu.protect_page_ns *= 2;
    user
}

/// Between two ticks of the scheduler: Linux 2.4 has 100 a second on such machines.
const TICK: Nanos = Nanos::from_millis(10);

/// A process's turn: Linux 2.4 has six ticks of 10 ms at nice 0 (`NICE_TO_TICKS` of its scheduler).
const QUANTUM: Nanos = Nanos::from_millis(60);

/// The rows of a cluster where others compute, too.
pub(super) const LOADED: &str = "Load";

/// The build whose messages are taken in by a task queue: what that takes on top of the interrupt is what Table 2 has, and where all
/// processors compute it waits.
fn by_task_queue(profile: &Profile) -> (Profile, Receives) {
    let mut queued = profile.clone();
    queued.cpu.event_ns += super::ping_pong::TASK_QUEUE.0;
    (queued, Receives::TaskQueue { tick: TICK })
}

/// What was fitted of the applications.
pub(super) fn fitted() -> Vec<Fitted> {
    let fitted = |line: &Line| Fitted {
        name: format!("{}, a unit of work", line.name),
        value: line.unit as u64,
        unit: "ns",
        source: format!("fitted: Table 3, {}", line.fitted_to),
    };
    LINES.iter().map(fitted).collect()
}

/// An application's line.
pub(super) fn line(name: &str) -> Option<&'static Line> {
    LINES.iter().find(|line| line.name == name)
}

/// An application whose time is compared with the user-level build's, and by how much the paper says it is shorter, in percent.
pub(super) const COMPARED: [(&str, Option<f64>); 4] =
    [("TSP", Some(-23.0)), ("Barnes", Some(-20.0)), ("NBodyW", Some(-7.0)), ("Water", None)];

/// Section 5.2, and the pulls of 5.3: eight nodes, two threads each.
pub(super) fn compared(
    profile: &Profile,
    (name, paper): &(&str, Option<f64>),
) -> Result<Vec<Row>, PaperError> {
    let Some(line) = line(name) else { return Ok(Vec::new()) };
    let setup = Setup { pulls: false, ..Setup::of(NODES, 2) };
    let kernel = run(profile, line, setup)?.elapsed;
    let user_level = user_level(profile, super::ping_pong::SIGNAL);
    let user = run(&user_level, line, setup)?.elapsed;
    let loaded = Setup { load: 1, ..setup };
    let by_signal = Setup { receives: Receives::Signal { quantum: QUANTUM, offset: Nanos::ZERO }, ..loaded };
    let (loaded, loaded_user) =
        (run(profile, line, loaded)?.elapsed, run(&user_level, line, by_signal)?.elapsed);
    let pulls = run(profile, line, Setup { pulls: true, ..setup })?.elapsed;
    let (queued, receives) = by_task_queue(profile);
    let queued = run(&queued, line, Setup { receives, ..setup })?.elapsed;
    let polling = Setup { receives: Receives::Polling, ..setup };
    let polls = run(profile, line, polling)?.elapsed;
    let many = |setup| run(profile, line, Setup { threads: 2 * PROCESSORS, ..setup });
    let (crowded, crowded_polls) = (many(setup)?.elapsed, many(polling)?.elapsed);
    let less = |time: Nanos, than: Nanos| 100.0 * (time.0 as f64 / than.0 as f64 - 1.0);
    let saved = X::Name("time against the user-level build");
    let pulled = format!("{name}, time with RDMA reads");
    let against = X::Name("against without");
    let polled = |threads: &str| format!("{name}, {threads}, time with selective polling");
    // "In TSP, execution time almost doubled in Kernel-TQ with respect to VIA-sim."
    let doubled = (*name == "TSP").then_some(100.0);
    let queue = format!("{name} by task queue");
    Ok(vec![
        Row::new("Section 5.2", *name, saved.clone(), "%", *paper, less(kernel, user)),
        Row::new(LOADED, *name, saved.clone(), "%", None, less(loaded, loaded_user)),
        Row::new("Task queue", queue, saved, "%", doubled, less(queued, user)),
        Row::new("Section 5.3", polled("2 threads"), against.clone(), "%", None, less(polls, kernel)),
        Row::new("Section 5.3", polled("4 threads"), against, "%", None, less(crowded_polls, crowded)),
        Row::new("Section 5.3", pulled, X::Name("against without"), "%", None, less(pulls, kernel)),
    ])
}

/// A speed-up that the paper names: nodes, threads of each, and what it is.
pub(super) const SCALED: [(&str, usize, u32, Option<f64>); 3] =
    [("NBody", 12, 2, Some(15.0)), ("Water", 8, 2, None), ("Water", 12, 2, None)];

/// What Figure 3 has of it.
pub(super) fn scaled(
    rows: &[Row],
    &(name, nodes, threads, paper): &(&str, usize, u32, Option<f64>),
) -> Option<Row> {
    let processors = X::Number(nodes as u64 * u64::from(threads));
    let is_it = |row: &&Row| row.figure == "Figure 3" && row.series == name && row.x == processors;
    let speed_up = rows.iter().find(is_it)?.measured;
    let series = format!("{name}, {nodes} nodes of two processors");
    Some(Row::new("Section 5.4", series, X::Name("speed-up"), "ratio", paper, speed_up))
}

/// Whether a rate of Table 3 is one that a constant was fitted to.
pub(super) fn is_fitted(row: &Row) -> bool {
    line(&row.series).is_some_and(|line| line.fitted_to.starts_with(&row.x.to_string()))
}

/// Water "does not scale from eight to 12 nodes" with two threads a node (5.4): its speed-up on 12 by that on 8.
pub(super) fn flat(rows: &[Row]) -> Option<Row> {
    let on = |nodes: &str| rows.iter().find(|row| row.series.starts_with(nodes)).map(|row| row.measured);
    let ratio = on("Water, 12 nodes")? / on("Water, 8 nodes")?;
    Some(Row::new("Section 5.4", "Water, 12 nodes by 8", X::Name("speed-up"), "ratio", 1.0, ratio))
}
