//! `weft perf`: sockets between two machines, measured on their devices.

use super::args::PerfArgs;
use super::broken::Broken;
use super::meet::{self, Turn};
use super::pair::{Devices, PORT, Waits, listener};
use super::run::{called, calls, course, say};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::table::{Table, count};
use crate::{interrupt, output};
use serde::Serialize;
use std::cell::RefCell;
use std::net::TcpStream;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weft_hw::Hw;
use weft_protocols::sdp::perf::{self, Figures, PerfError, Plan};
use weft_protocols::sdp::{SdpError, SdpStream};
use weft_protocols::transport::MeshStats;
use weft_verbs::Nanos;

const PERF: &str = "weft-perf-1";
/// How long a caller may take to begin, and a link that is down until the other end is given up.
const SILENCE: Nanos = Nanos::from_secs(60);
/// How long a caller waits for its turn: the other end answers one after another.
const TURN: Duration = Duration::from_secs(600);

/// `weft perf`.
pub fn run(args: &PerfArgs) -> Result<Exit, Failure> {
    interrupt::install();
    match (&args.to, args.listen) {
        (Some(to), _) => call(meet::call(to, &interrupt::requested)?, &to.host, args),
        (None, port) => listen(port.unwrap_or_default(), args),
    }
}

/// What is to be measured.
fn plans(args: &PerfArgs) -> Vec<Plan> {
    match args.bytes {
        Some(bytes) => vec![Plan { bytes, transfers: args.transfers, rounds: args.rounds }],
        None => [(64, 1, 1_000), (4_096, 1, 1_000), (65_536, 100, 10)]
            .map(|(bytes, transfers, rounds)| Plan { bytes, transfers, rounds })
            .to_vec(),
    }
}

/// One measurement, as programs read it.
#[derive(Serialize)]
struct Measured {
    bytes: u32,
    transfers: u32,
    rounds: u32,
    seconds: f64,
    /// One way.
    microseconds_each: f64,
    megabytes_per_second: f64,
    longest_microseconds: f64,
}

#[derive(Serialize)]
struct Report {
    rails: usize,
    measured: Vec<Measured>,
    reconnects: u64,
    failovers: u64,
}

fn measured(plan: Plan, figures: Figures) -> Measured {
    let seconds = figures.took.as_secs_f64();
    Measured {
        bytes: plan.bytes,
        transfers: plan.transfers,
        rounds: plan.rounds,
        seconds,
        microseconds_each: figures.took.as_micros_f64() / figures.transfers as f64,
        megabytes_per_second: figures.bytes as f64 / 1e6 / seconds.max(1e-9),
        longest_microseconds: figures.longest.as_micros_f64(),
    }
}

fn call(stream: TcpStream, host: &str, args: &PerfArgs) -> Result<Exit, Failure> {
    let devices = Devices::open(&args.over)?;
    let turn = Turn { patience: TURN, quiet: args.over.quiet };
    let pair = calls(stream, devices, turn, PERF, Waits::AtMost(SILENCE))?;
    let (rt, sdp, mesh, rails) = (pair.rt.clone(), pair.sdp.clone(), pair.mesh.clone(), pair.contexts.len());
    let (plans, began) = (plans(args), Instant::now());
    let progress = Rc::new(RefCell::new(Some(Progress::begin(args.over.quiet))));
    let shows = Rc::clone(&progress);
    let ended = pair.run(async move {
        let stream = sdp.connect(listener(), PORT).await?;
        let (mut all, of) = (Vec::new(), plans.len());
        for (at, plan) in plans.into_iter().enumerate() {
            if let Some(shown) = shows.borrow_mut().as_mut() {
                let words = format!("transfers of {} bytes", count(plan.bytes.into()));
                shown.step(at as f64 / of as f64, &words);
            }
            all.push(measured(plan, perf::call(&rt, &stream, plan).await?));
        }
        Ok((all, closes(stream)))
    });
    progress.take().map(Progress::end).unwrap_or_default();
    let measured = ended?.map_err(|why: Broken<PerfError>| Failure::unfinished(why))?;
    let stats = mesh.stats();
    if args.json {
        let MeshStats { reconnects, failovers, .. } = stats;
        output::json(&Report { rails, measured, reconnects, failovers })?;
    } else {
        output::text(&text(&format!("Sockets to {host}, {}", rails_text(rails)), &measured))?;
        if !args.over.quiet {
            say(&course(began, stats));
        }
    }
    Ok(Exit::Held)
}

/// How the two ends part once all is measured: that changes nothing of it.
async fn closes(stream: SdpStream<Hw>) {
    let _ = stream.close().await;
}

fn rails_text(rails: usize) -> String {
    if rails == 1 { "one rail".to_string() } else { format!("{rails} rails") }
}

fn text(title: &str, measured: &[Measured]) -> String {
    let heads = ["bytes", "transfers", "rounds", "seconds", "us each", "MB/s", "longest us"];
    let mut table = Table::new(title, 0, &heads);
    for one in measured {
        table.row([
            count(one.bytes.into()),
            count(one.transfers.into()),
            count(one.rounds.into()),
            format!("{:.3}", one.seconds),
            format!("{:.1}", one.microseconds_each),
            format!("{:.1}", one.megabytes_per_second),
            count(one.longest_microseconds.round() as u64),
        ]);
    }
    let mut text = String::new();
    table.print(&mut text);
    text
}

/// Answers callers, one after another: two at a time would measure each other.
fn listen(port: u16, args: &PerfArgs) -> Result<Exit, Failure> {
    // What is wrong with the devices is said before anybody comes.
    drop(Devices::open(&args.over)?);
    let waiting = meet::listen(port)?;
    say(&format!("answering at port {port}"));
    while let Some((stream, from)) = meet::accept(&waiting, &interrupt::requested)? {
        match answer(stream, args) {
            Ok((times, course)) if !args.over.quiet => {
                say(&format!("{} measured {times} times, {course}", from.ip()));
            }
            Ok(_) => {}
            Err(why) => say(&format!("nothing measured for {}: {why}", from.ip())),
        }
    }
    Ok(Exit::Held)
}

fn answer(stream: TcpStream, args: &PerfArgs) -> Result<(u32, String), Failure> {
    let devices = Devices::open(&args.over)?;
    let pair = called(stream, devices, PERF, Waits::AtMost(SILENCE))?;
    let (rt, sdp, mesh, began) = (pair.rt.clone(), pair.sdp.clone(), pair.mesh.clone(), Instant::now());
    let ended = pair.run(async move {
        let listens = sdp.bind(PORT)?;
        let until = rt.now() + SILENCE;
        let stream = rt.deadline(until, listens.accept()).await.unwrap_or(Err(SdpError::TimedOut))?;
        let times = perf::answer(&stream).await?;
        Ok((times, closes(stream)))
    });
    let times = ended?.map_err(|why: Broken<PerfError>| Failure::unfinished(why))?;
    Ok((times, course(began, mesh.stats())))
}
