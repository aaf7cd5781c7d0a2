//! Many clients: guests of file servers, from 16 to 1,024 of them at a time. How fast they are together, how even their shares are, and
//! what a server registers for each.

use super::cluster::{files, keeps_open, shared_file};
use super::present::Want;
use crate::paper::{
    Axis, Cluster, Group, Lines, Note, PaperError, Plot, Row, Scale, Shape, Wanted, X, apart,
};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::pario::{Distribution, File, FsConfig, Pario, Sync};
use weft_protocols::rt::Rt;
use weft_protocols::transport::{GuestConfig, MeshConfig};
use weft_sim::profile::Profile;
use weft_sim::{Config, Sim};
use weft_verbs::{Nanos, Wait};

const SERVERS: u32 = 8;

/// How many guests there are.
const GUESTS: [u64; 4] = [16, 64, 256, 1_024];

/// Bytes of a call, and of a strip: a call is one server's.
const PIECE: u32 = 16 << 10;

/// Calls of a guest that are under way at a time, each at another server.
const AT_ONCE: u32 = 8;

/// When the first guest comes, which makes the file; when the others do, one after the other; when all have written once, which
/// takes longer the more they are, since each connects to each server; and how long is measured.
const FIRST: Nanos = Nanos::from_millis(2);
const COME: Nanos = Nanos::from_millis(10);
const APART: Nanos = Nanos::from_micros(20);
const READY: Nanos = Nanos::from_millis(100);
const EACH: Nanos = Nanos::from_millis(1);
const SPAN: Nanos = Nanos::from_millis(4);

pub(super) const FIGURE: &str = "Guests";
const RATE: &str = "GB/s";
const SHARE: &str = "%";
const MEMORY: &str = "KiB";
const REGISTERED: &str = "registered for each at a server";

/// What is wanted where there are the most guests.
pub(super) const GOALS: [Want; 5] = [
    want("writes of 1,024 guests, of those of 16", "write, of that of 16", Wanted::AtLeast(90.0)),
    want("least share of 1,024 guests that write", "write, least share", Wanted::AtLeast(50.0)),
    want("reads of 1,024 guests, of those of 16", "read, of that of 16", Wanted::AtLeast(90.0)),
    want("least share of 1,024 guests that read", "read, least share", Wanted::AtLeast(50.0)),
    want("registered for each of 1,024 guests", REGISTERED, Wanted::AtMost(12.0)),
];

const fn want(what: &'static str, series: &'static str, wanted: Wanted) -> Want {
    Want { what, figure: FIGURE, series, of: Some(GUESTS[GUESTS.len() - 1]), wanted }
}

pub(super) const NOTES: [Note; 2] = [
    Note {
        figure: FIGURE,
        text: "Each guest has eight calls of 16 KiB under way, each at another of eight servers. A share is a guest's bytes in 4 ms beside \
               an equal part of all.",
    },
    Note {
        figure: FIGURE,
        text: "What a server registers for a guest: its receive buffers and those for answers, after that guest has worked. Queue pairs and \
               what a program keeps beside are not counted.",
    },
];

/// A guest's part of a run.
#[derive(Clone)]
struct Guest {
    rt: Rt<Sim>,
    files: Pario<Sim>,
    number: u32,
    /// Bytes of each guest in each of two rounds.
    moved: Rc<RefCell<Vec<[u64; 2]>>>,
}

impl Guest {
    /// One of the calls that are under way at a time, again and again until the round ends.
    async fn calls(self, file: Rc<File<Sim>>, nth: u32, round: usize, end: Nanos) -> Option<()> {
        let mut buffer = self.files.buffer(PIECE as usize).ok()?;
        for turn in 0.. {
            if self.rt.now() >= end {
                break;
            }
            let strip = self.number * AT_ONCE + (nth + turn) % AT_ONCE;
            let at = u64::from(strip) * u64::from(PIECE);
            buffer = if round == 0 {
                let (done, back) = self.files.write(&file, at, buffer).await;
                done.ok()?;
                back
            } else {
                let (read, back) = self.files.read(&file, at, buffer).await;
                read.ok()?;
                back
            };
            // What ends later is not of this round.
            if self.rt.now() <= end {
                self.moved.borrow_mut()[self.number as usize][round] += u64::from(PIECE);
            }
        }
        Some(())
    }

    async fn works(self, layout: Distribution, ready: Nanos, book: Rc<RefCell<Vec<u32>>>) -> Option<()> {
        let is_first = self.number == 0;
        let come = if is_first { FIRST } else { COME + APART * u64::from(self.number) };
        self.rt.sleep_until(come).await;
        let file = Rc::new(shared_file(&self.rt, &self.files, is_first, layout, come).await?);
        let piece = self.files.buffer(PIECE as usize).ok()?;
        let mut piece = Some(piece);
        for nth in 0..AT_ONCE {
            // It meets each server.
            let at = u64::from(self.number * AT_ONCE + nth) * u64::from(PIECE);
            let (done, back) = self.files.write(&file, at, piece.take()?).await;
            done.ok()?;
            piece = Some(back);
        }
        for round in 0..2 {
            let begin = ready + SPAN * (2 * round as u64);
            self.rt.sleep_until(begin).await;
            let start = |nth| {
                let this = self.clone();
                self.rt.spawn(this.calls(Rc::clone(&file), nth, round, begin + SPAN))
            };
            let calls: Vec<_> = (0..AT_ONCE).map(start).collect();
            for call in calls {
                call.await?;
            }
        }
        book.borrow_mut().push(self.number);
        keeps_open(&self.rt, file, ready + SPAN * 4).await;
        Some(())
    }
}

/// What a round comes to: the rate of all in GB/s, and the least share and Jain's index in percent.
type Round = (f64, f64, f64);

/// What so many guests come to: of writes and of reads the rate of all in GB/s, the least share and Jain's index in percent; and what a
/// server registers for each, in KiB.
fn run(profile: &Profile, guests: u32) -> Result<([Round; 2], f64), PaperError> {
    let config = FsConfig { sync: Sync::Asked, ..FsConfig::new(SERVERS) };
    let machines = Config { sanitize: false, ..Config::new(SERVERS + guests, profile.clone()) };
    let cluster = Cluster::new(
        machines,
        |_| Wait::Poll,
        |mesh: &mut MeshConfig| {
            mesh.max_message = config.max_message();
            *mesh = match mesh.me.index() < SERVERS as usize {
                true => mesh.clone().with_guests(SERVERS, GuestConfig::default()),
                false => mesh.clone().as_guest_of(SERVERS),
            };
        },
    )?;
    let files = files(&cluster, config)?;
    let layout = Distribution::stripe(PIECE, SERVERS as u16, 0).unwrap_or(config.layout());
    let ready = READY + EACH * u64::from(guests);
    let (book, moved) = (Rc::default(), Rc::new(RefCell::new(vec![[0; 2]; guests as usize])));
    for number in 0..guests {
        let node = (SERVERS + number) as usize;
        let rt = cluster.machines[node].rt.clone();
        let guest = Guest { rt: rt.clone(), files: files[node].clone(), number, moved: Rc::clone(&moved) };
        drop(rt.spawn(guest.works(layout, ready, Rc::clone(&book))));
    }
    cluster.run_until(FIRST / 2);
    // A server that is not the directory's home.
    let registered = || cluster.fabric.stats().asked[1].registered;
    let before = registered();
    cluster.finish(ready + SPAN * 40, &book, guests as usize)?;
    let each = (registered() - before) as f64 / f64::from(guests) / 1024.0;
    let of = |round: usize| {
        let bytes: Vec<f64> = moved.borrow().iter().map(|moved| moved[round] as f64).collect();
        let (all, least) = (bytes.iter().sum::<f64>(), bytes.iter().copied().fold(f64::INFINITY, f64::min));
        let (n, squares) = (f64::from(guests), bytes.iter().map(|bytes| bytes * bytes).sum::<f64>());
        (all / SPAN.0 as f64, least / (all / n) * 100.0, all * all / (n * squares) * 100.0)
    };
    Ok(([of(0), of(1)], each))
}

/// All rows.
pub(super) fn rows(profile: &Profile, progress: impl FnMut(f64)) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    let mut few: Option<[f64; 2]> = None;
    // The longest first.
    let counts: Vec<u64> = GUESTS.into_iter().rev().collect();
    let ran = apart(&counts, |guests| run(profile, *guests as u32), progress)?;
    for (guests, (rounds, each)) in GUESTS.into_iter().zip(ran.into_iter().rev()) {
        let few = few.get_or_insert(rounds.map(|(rate, ..)| rate));
        let mut row = |series: String, unit, value| {
            rows.push(Row::new(FIGURE, series, X::Number(guests), unit, None, value));
        };
        for ((call, (rate, least, jain)), first) in ["write", "read"].into_iter().zip(rounds).zip(*few) {
            row(call.to_string(), RATE, rate);
            row(format!("{call}, of that of 16"), SHARE, rate / first * 100.0);
            row(format!("{call}, least share"), SHARE, least);
            row(format!("{call}, Jain's index"), SHARE, jain);
        }
        row(REGISTERED.to_string(), MEMORY, each);
    }
    Ok(rows)
}

fn of<'a>(rows: &'a [Row], unit: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.figure == FIGURE && row.unit == unit).collect()
}

/// All tables.
pub(super) fn groups(rows: &[Row]) -> Vec<Group> {
    let lines =
        |unit, title: &str| Group::lines(FIGURE, title.to_string(), "guests", &GUESTS, &of(rows, unit));
    vec![
        lines(RATE, "Guests, GB/s in all"),
        lines(SHARE, "Guests, shares, %"),
        lines(MEMORY, "Guests, memory, KiB"),
    ]
}

/// The drawings.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let lines = |file, unit, title: &str| {
        let x = Axis { title: "guests", scale: Scale::Logarithmic };
        let shape = Shape::Lines(Lines::of(x, &of(rows, unit)));
        Plot { file, figure: FIGURE, title: title.to_string(), y: unit, shape }
    };
    vec![
        lines("guests", RATE, "Guests: rate of all"),
        lines("guests-shares", SHARE, "Guests: rate beside 16 guests, and shares"),
        lines("guests-memory", MEMORY, "Guests: registered for each at a server"),
    ]
}
