//! How fast files are on machines of today: the goals of the project itself, on profile `present-day`.

use super::cluster::{cluster, files};
use super::guests;
use crate::paper::{
    Bars, Goal, Group, Note, Paper, PaperError, Plot, Progress, Results, Row, Shape, Wanted, X, refused,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_protocols::pario::{Buffer, Datatype, File, FsConfig, FsError, Movers, Pario, Storage, Sync, View};
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Channel, Incoming, Rank};
use weft_sim::Sim;
use weft_sim::profile::Profile;
use weft_verbs::Nanos;

const SERVERS: u32 = 8;
const CLIENTS: u32 = 16;

/// Bytes that each client writes and reads.
const BLOCK: u32 = 16 << 20;

/// Bytes of a piece of a list.
const PIECE: u32 = 4 << 10;

/// When all have the file open; and when a round begins behind the one before.
const BEGIN: Nanos = Nanos::from_millis(100);
const SPAN: Nanos = Nanos::from_millis(200);

/// A client's bytes in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Side by side.
    Contiguous,
    /// Pieces, with those of all others between.
    Pieces,
    /// The same, each by a call of its own, so many at once.
    OneByOne(u32),
}

/// A client's part of a run.
#[derive(Clone)]
struct Client {
    rt: Rt<Sim>,
    files: Pario<Sim>,
    number: u32,
    access: Access,
    /// Bytes that it writes and reads.
    block: u32,
}

impl Client {
    fn view(&self) -> Option<View> {
        let (number, piece) = (u64::from(self.number), u64::from(PIECE));
        match self.access {
            Access::Contiguous => {
                let block = u64::from(self.block);
                View::of(number * block..(number + 1) * block)
            }
            _ => {
                let pieces = u64::from(self.block / PIECE);
                let all = Datatype::vector(pieces, piece * u64::from(CLIENTS), Datatype::bytes(piece)?)?;
                View::new(number * piece, all)
            }
        }
    }

    async fn transfer(
        &self,
        file: &File<Sim>,
        buffer: Buffer<Sim>,
        writes: bool,
    ) -> Result<Buffer<Sim>, FsError> {
        let (view, all) = (self.view(), View::of(0..self.block.into()));
        let (Some(view), Some(all)) = (view, all) else { return Err(FsError::TooLong) };
        let (done, back) = match writes {
            true => self.files.write_list(file, &view, buffer, &all).await,
            false => {
                let (read, back) = self.files.read_list(file, &view, buffer, &all).await;
                (read.map(drop), back)
            }
        };
        done.map(|()| back)
    }

    /// Every piece by itself.
    async fn one_by_one(self, file: Rc<File<Sim>>, at_once: u32, writes: bool) -> Option<()> {
        let workers: Vec<_> = (0..at_once)
            .map(|worker| {
                let (this, file) = (self.clone(), Rc::clone(&file));
                self.rt.spawn(async move {
                    let mut buffer = this.files.buffer(PIECE as usize).ok()?;
                    for piece in (worker..this.block / PIECE).step_by(at_once as usize) {
                        let at = (u64::from(piece) * u64::from(CLIENTS) + u64::from(this.number))
                            * u64::from(PIECE);
                        buffer = match writes {
                            true => {
                                let (done, back) = this.files.write(&file, at, buffer).await;
                                done.ok()?;
                                back
                            }
                            false => {
                                let (read, back) = this.files.read(&file, at, buffer).await;
                                read.ok()?;
                                back
                            }
                        };
                    }
                    Some(())
                })
            })
            .collect();
        for worker in workers {
            worker.await?;
        }
        Some(())
    }
}

fn config(movers: Movers, eager: u32) -> FsConfig {
    FsConfig { movers, eager, sync: Sync::Asked, storage: Storage::Disk, ..FsConfig::new(SERVERS) }
}

/// A bulk run: aggregate MB/s of writes and of reads out of the servers' caches, and bytes that processors copied.
fn bulk(
    profile: &Profile,
    config: FsConfig,
    access: Access,
    block: u32,
) -> Result<([f64; 2], u64), PaperError> {
    let cluster = cluster(profile, SERVERS + CLIENTS, config.max_message())?;
    let files = files(&cluster, config)?;
    let book = Rc::new(RefCell::new(Vec::new()));
    for number in 0..CLIENTS {
        let node = (SERVERS + number) as usize;
        let rt = cluster.machines[node].rt.clone();
        let client = Client { rt: rt.clone(), files: files[node].clone(), number, access, block };
        let book = Rc::clone(&book);
        drop(rt.clone().spawn(async move {
            let file =
                super::cluster::shared_file(&rt, &client.files, number == 0, config.layout(), BEGIN / 2);
            let file = Rc::new(file.await?);
            let mut buffer = client.files.buffer(block as usize).ok()?;
            // The first round connects and registers.
            for round in 0..4 {
                let (begin, writes) = (BEGIN + SPAN * round, round % 2 == 0);
                rt.sleep_until(begin).await;
                match access {
                    Access::OneByOne(at_once) => {
                        client.clone().one_by_one(Rc::clone(&file), at_once, writes).await?;
                    }
                    _ => buffer = client.transfer(&file, buffer, writes).await.ok()?,
                }
                book.borrow_mut().push((round, rt.now() - begin));
            }
            super::cluster::keeps_open(&rt, file, BEGIN + SPAN * 4).await;
            Some(())
        }));
    }
    let all = cluster.finish(BEGIN + SPAN * 5, &book, 4 * CLIENTS as usize)?;
    let rate = |wanted: u64| {
        let slowest = all.iter().filter(|(round, _)| *round == wanted).map(|(_, took)| *took).max();
        f64::from(block) * f64::from(CLIENTS) / slowest.unwrap_or_default().as_micros_f64()
    };
    let copied = files.iter().map(|files| files.stats().copied).sum();
    Ok(([rate(2), rate(3)], copied))
}

/// A message of 4 KiB there and a short one back, in microseconds.
fn round_trip(profile: &Profile) -> Result<f64, PaperError> {
    const CHANNEL: Channel = Channel(0);
    let cluster = cluster(profile, 2, 8_192)?;
    let [near, far] = [0, 1].map(|node: usize| cluster.machines[node].clone());
    let mut echoes = far.mesh.open(CHANNEL).map_err(refused)?;
    let mut inbox = near.mesh.open(CHANNEL).map_err(refused)?;
    let book = Rc::new(RefCell::new(Vec::new()));
    let results = Rc::clone(&book);
    drop(far.rt.clone().spawn(async move {
        while let Some(Incoming::Message(_)) = echoes.recv().await {
            far.mesh.send(Rank::from_index(0), CHANNEL, &[1; 32]).ok()?;
        }
        Some(())
    }));
    drop(near.rt.clone().spawn(async move {
        let mut took = Nanos::ZERO;
        for _ in 0..2 {
            let since = near.rt.now();
            near.mesh.send(Rank::from_index(1), CHANNEL, &[1; PIECE as usize]).ok()?;
            inbox.recv().await?;
            took = near.rt.now() - since;
        }
        results.borrow_mut().push(took.as_micros_f64());
        Some(())
    }));
    Ok(cluster.finish(BEGIN, &book, 1)?[0])
}

/// What a client does with a small file, in microseconds each, disk aside, and the requests that it took.
fn small(profile: &Profile) -> Result<Vec<(&'static str, f64, u64)>, PaperError> {
    let config = FsConfig { storage: Storage::Memory { most: 1 << 30 }, ..FsConfig::new(1) };
    let cluster = cluster(profile, 2, config.max_message())?;
    let files = files(&cluster, config)?;
    let (rt, client) = (cluster.machines[1].rt.clone(), files[1].clone());
    let book = Rc::new(RefCell::new(Vec::new()));
    let results = Rc::clone(&book);
    drop(rt.clone().spawn(async move {
        // The first file connects and registers.
        for name in ["a", "b"] {
            let mut rows = Vec::new();
            let mut since = (rt.now(), client.stats().asked);
            let mut note = |what| {
                let now = (rt.now(), client.stats().asked);
                rows.push((what, (now.0 - since.0).as_micros_f64(), now.1 - since.1));
                since = now;
            };
            let file = client.create(name, None).await.ok()?;
            note("create");
            let buffer = client.buffer(PIECE as usize).ok()?;
            note("");
            let (written, buffer) = client.write(&file, 0, buffer).await;
            written.ok()?;
            note("write 4 KiB");
            let (read, _buffer) = client.read(&file, 0, buffer).await;
            read.ok()?;
            note("read 4 KiB");
            client.close(file).await.ok()?;
            note("close");
            client.stat(name).await.ok()?;
            note("stat");
            let file = client.open(name).await.ok()?;
            note("open");
            client.close(file).await.ok()?;
            if name == "b" {
                results.borrow_mut().extend(rows.into_iter().filter(|(what, ..)| !what.is_empty()));
            }
        }
        Some(())
    }));
    cluster.finish(BEGIN, &book, 6)
}

/// Creates of so many clients at once: thousands a second, and creates for each sync of the log.
fn creates(profile: &Profile, clients: u32) -> Result<(f64, f64), PaperError> {
    const EACH: u32 = 8;
    let config = FsConfig::new(1);
    let cluster = cluster(profile, 1 + clients, config.max_message())?;
    let files = files(&cluster, config)?;
    let book = Rc::new(RefCell::new(Vec::new()));
    for client in 1..=clients {
        let (rt, files, book) =
            (cluster.machines[client as usize].rt.clone(), files[client as usize].clone(), Rc::clone(&book));
        drop(rt.clone().spawn(async move {
            drop(files.readdir("").await);
            rt.sleep_until(BEGIN).await;
            for n in 0..EACH {
                let file = files.create(&format!("{client}-{n}"), None).await.ok()?;
                files.close(file).await.ok()?;
            }
            book.borrow_mut().push(rt.now() - BEGIN);
            Some(())
        }));
    }
    let took = cluster.finish(BEGIN * 20, &book, clients as usize)?;
    let (all, commits) = (f64::from(clients * EACH), files[0].stats().commits);
    let slowest = took.into_iter().max().unwrap_or_default();
    Ok((all / slowest.as_micros_f64() * 1_000.0, all / commits as f64))
}

const BULK: &str = "Bulk";
const LISTS: &str = "Lists";
const MOVERS: &str = "Movers";
const SMALL: &str = "Small files";
const CREATES: &str = "Creates";

/// How many clients create files.
const CREATORS: [u64; 4] = [1, 4, 16, 64];

const SYNCS: &str = "creates a sync of the log";

/// The project's goals on such machines.
pub(in super::super) const PRESENT: Paper = Paper {
    name: "pario",
    about: "Parallel files on machines of today: the project's own goals",
    details: "Measures the service on simulated machines of profile present-day: contiguous reads and writes of 16 clients on 8 servers, lists of \
              pieces of 4 KiB beside two other ways to move them, who moves data, small files, creations by many clients, and guests, of \
              which there are up to 1,024. A goal is what the project wants, and not a paper's figure.",
    heading: "Parallel files on machines of today",
    title: "The project's own goals",
    run: results,
};

fn results(progress: Progress<'_>) -> Result<Results, PaperError> {
    let profile = Profile::builtin("present-day")?;
    let rows = rows(&profile, |share| progress(share, "files on machines of today"))?;
    let of = |figure: &str, unit: &str| -> Vec<&Row> {
        rows.iter().filter(|row| row.figure == figure && row.unit == unit).collect()
    };
    let shown = [
        (BULK, "Contiguous, MB/s", "MB/s"),
        (BULK, "Contiguous, of the servers' links, %", "%"),
        (BULK, "Contiguous, bytes copied", "count"),
        (LISTS, "Pieces of 4 KiB, MB/s", "MB/s"),
        (LISTS, "Pieces of 4 KiB, of contiguous, %", "%"),
        (MOVERS, "Who moves data, MB/s", "MB/s"),
        (SMALL, "Small files, disk aside, us", "us"),
        (SMALL, "Small files, requests", "count"),
        (SMALL, "Small files, times a raw round trip", "times"),
    ];
    let group = |(figure, title, unit): (&'static str, &str, &str)| {
        Group::compared(figure, title.to_string(), &of(figure, unit))
    };
    let bars = |file, figure, title: &str, unit| Plot {
        file,
        figure,
        title: title.to_string(),
        y: unit,
        shape: Shape::Bars(Bars::beside(&of(figure, unit))),
    };
    let mut plots = vec![
        bars("bulk", BULK, "Contiguous reads and writes", "MB/s"),
        bars("lists", LISTS, "Pieces of 4 KiB", "MB/s"),
        bars("movers", MOVERS, "Who moves data", "MB/s"),
    ];
    plots.extend(guests::plots(&rows));
    let creates: Vec<&Row> = rows.iter().filter(|row| row.figure == CREATES).collect();
    let creates =
        Group::lines(CREATES, "Creates by so many clients".to_string(), "clients", &CREATORS, &creates);
    let groups = shown.into_iter().map(group).chain([creates]).chain(guests::groups(&rows)).collect();
    Ok(Results {
        setting: "Simulated machines of profile present-day; times are virtual.".to_string(),
        facts: BTreeMap::new(),
        goals: GOALS.iter().chain(&guests::GOALS).filter_map(|goal| goal.judge(&rows)).collect(),
        fitted: Vec::new(),
        notes: [&NOTES[..], &guests::NOTES].concat(),
        groups,
        plots,
        rows,
    })
}

/// What the project wants of a row.
pub(super) struct Want {
    pub what: &'static str,
    pub figure: &'static str,
    pub series: &'static str,
    /// Of how many, where that is what its row is over.
    pub of: Option<u64>,
    pub wanted: Wanted,
}

impl Want {
    fn judge(&self, rows: &[Row]) -> Option<Goal> {
        let is_it =
            |row: &&Row| row.figure == self.figure && row.series == self.series && row.x.number() == self.of;
        rows.iter().find(is_it).map(|row| Goal::limited(row, self.what, self.wanted))
    }
}

const GOALS: [Want; 7] = [
    Want {
        what: "writes, of the servers' links",
        figure: BULK,
        series: "write, of the servers' links",
        of: None,
        wanted: Wanted::AtLeast(95.0),
    },
    Want {
        what: "reads, of the servers' links",
        figure: BULK,
        series: "read, of the servers' links",
        of: None,
        wanted: Wanted::AtLeast(95.0),
    },
    Want {
        what: "writes by one list, of contiguous ones",
        figure: LISTS,
        series: "write, one list, of contiguous",
        of: None,
        wanted: Wanted::AtLeast(85.0),
    },
    Want {
        what: "reads by one list, of contiguous ones",
        figure: LISTS,
        series: "read, one list, of contiguous",
        of: None,
        wanted: Wanted::AtLeast(85.0),
    },
    Want {
        what: "write of 4 KiB, of a raw round trip",
        figure: SMALL,
        series: "write 4 KiB, above a raw round trip",
        of: None,
        wanted: Wanted::AtMost(1.5),
    },
    Want {
        what: "read of 4 KiB, of a raw round trip",
        figure: SMALL,
        series: "read 4 KiB, above a raw round trip",
        of: None,
        wanted: Wanted::AtMost(1.5),
    },
    Want {
        what: "creates a sync of the log, 64 clients",
        figure: CREATES,
        series: SYNCS,
        of: Some(64),
        wanted: Wanted::AtLeast(16.0),
    },
];

const NOTES: [Note; 4] = [
    Note {
        figure: BULK,
        text: "A server's writes end in its cache, and its reads come out of it: nothing waits for a disk, and both are held against the \
               links. What is synced is as fast as disks are: 6.5 GB/s each, a quarter of a link.",
    },
    Note {
        figure: LISTS,
        text: "Each client's pieces lie between those of all others. Packed means that they ride in messages (eager = 64 KiB), which \
               processors copy at both ends.",
    },
    Note { figure: MOVERS, text: "Always the server, always the client, or whoever is less loaded (5.1)." },
    Note { figure: CREATES, text: "What comes while the log is synced is the next batch." },
];

/// Contiguous writes and reads, which servers' caches take in and give: MB/s, and of the servers' links or adapters.
fn contiguous(profile: &Profile, rates: [f64; 2]) -> Vec<Row> {
    let figure = |name: &str| {
        let found = profile.figures().iter().find(|figure| figure.name == name);
        found.map_or(f64::NAN, |figure| figure.value as f64)
    };
    let link = (figure("link.bits_per_second") / 8e6).min(1_024.0 / figure("adapter.dma_ns_per_kib") * 1e3);
    let row = |series: String, unit, value| {
        Row::new(BULK, series, X::Name("8 servers, 16 clients"), unit, None, value)
    };
    let rows = |(name, rate): (&str, f64)| {
        let share = rate / (link * f64::from(SERVERS)) * 100.0;
        [row(name.to_string(), "MB/s", rate), row(format!("{name}, of the servers' links"), "%", share)]
    };
    ["write", "read"].into_iter().zip(rates).flat_map(rows).collect()
}

/// Everything.
fn rows(profile: &Profile, mut progress: impl FnMut(f64)) -> Result<Vec<Row>, PaperError> {
    let usual = config(Movers::Server, 4_096);
    let (whole, copied) = bulk(profile, usual, Access::Contiguous, BLOCK)?;
    let mut rows = contiguous(profile, whole);
    progress(0.15);
    rows.push(Row::new(BULK, "bytes copied by processors", X::Name("all"), "count", None, copied as f64));
    let lists = [
        ("one list", usual, Access::Pieces),
        ("packed into messages of 64 KiB", config(Movers::Server, 64 << 10), Access::Pieces),
        ("a request for each piece, 16 at once", usual, Access::OneByOne(16)),
    ];
    for (nth, (name, config, access)) in lists.into_iter().enumerate() {
        let (rates, _) = bulk(profile, config, access, BLOCK)?;
        for (call, (rate, whole)) in ["write", "read"].into_iter().zip(rates.into_iter().zip(whole)) {
            rows.push(Row::new(
                LISTS,
                format!("{call}, {name}"),
                X::Name("4 KiB pieces"),
                "MB/s",
                None,
                rate,
            ));
            let share = rate / whole * 100.0;
            let series = format!("{call}, {name}, of contiguous");
            rows.push(Row::new(LISTS, series, X::Name("4 KiB pieces"), "%", None, share));
        }
        progress(0.2 + 0.1 * nth as f64);
    }
    for (name, movers) in
        [("server", Movers::Server), ("client", Movers::Client), ("adaptive", Movers::Adaptive)]
    {
        let (rates, _) = bulk(profile, config(movers, 4_096), Access::Contiguous, BLOCK)?;
        for (call, rate) in ["write", "read"].into_iter().zip(rates) {
            rows.push(Row::new(MOVERS, call, X::Name(name), "MB/s", None, rate));
        }
    }
    progress(0.6);
    let raw = round_trip(profile)?;
    rows.push(Row::new(SMALL, "message of 4 KiB and back", X::Name("raw"), "us", None, raw));
    for (call, took, requests) in small(profile)? {
        rows.push(Row::new(SMALL, call, X::Name("latency"), "us", None, took));
        rows.push(Row::new(SMALL, call, X::Name("requests"), "count", None, requests as f64));
        if call.ends_with("KiB") {
            let series = format!("{call}, above a raw round trip");
            rows.push(Row::new(SMALL, series, X::Name("latency"), "times", None, took / raw));
        }
    }
    for clients in CREATORS {
        let (rate, each) = creates(profile, clients as u32)?;
        let x = || X::Number(clients);
        rows.push(Row::new(CREATES, "thousands a second", x(), "k/s", None, rate));
        rows.push(Row::new(CREATES, SYNCS, x(), "count", None, each));
    }
    progress(0.7);
    rows.extend(guests::rows(profile, |share| progress(0.7 + 0.3 * share))?);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rate_is_more_than_all_of_what_it_is_held_against() {
        let profile = Profile::builtin("present-day").expect("the program brings it");
        let usual = config(Movers::Server, 4_096);
        let (rates, _) = bulk(&profile, usual, Access::Contiguous, 1 << 20).expect("it ends");
        let rows = contiguous(&profile, rates);
        let shares = GOALS.iter().filter(|goal| goal.figure == BULK).map(|goal| goal.judge(&rows));
        let shares: Vec<f64> =
            shares.map(|goal| goal.and_then(|goal| goal.limit).map_or(f64::NAN, |of| of.measured)).collect();
        assert!(shares.len() == 2 && shares.iter().all(|share| (25.0..=100.0).contains(share)), "{shares:?}");
    }
}
