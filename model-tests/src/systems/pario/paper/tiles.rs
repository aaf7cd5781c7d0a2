//! Sections 7.4 and 7.5: what lies apart in the file, by lists of regions.

use super::bandwidth;
use super::cluster::{cluster, files, keeps_open, shared_file};
use crate::paper::{PaperError, Row, X, refused};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::pario::{Datatype, Distribution, FsConfig, Sync, View, Wire};
use weft_sim::profile::Profile;
use weft_verbs::Nanos;

/// Servers, and clients: half of the nodes each (7.4, 7.5).
const SERVERS: u32 = 4;
const CLIENTS: u64 = 4;

/// Regions of a request, as PVFS2 has it.
const REGIONS: u32 = 64;

/// When all have the file open, and when all must be done.
const BEGIN: Nanos = Nanos::from_millis(100);
const END: Nanos = Nanos::from_secs(60);

/// What a client's access to the file is: its regions, one call after the other.
type Calls = Vec<Vec<(u64, u32)>>;

/// mpi-tile-io: 2 x 2 tiles of 1,024 x 768 elements of 32 bytes, one each.
fn tile(client: u64) -> Calls {
    let (row, rows) = (1_024 * 32, 768);
    let first = client / 2 * rows * 2 * row + client % 2 * row;
    vec![(0..rows).map(|nth| (first + nth * 2 * row, row as u32)).collect()]
}

/// Dumps that are measured, of BT's forty.
const DUMPS: u64 = 4;
const ALL_DUMPS: u64 = 40;

/// BT of class A: an array of 64^3 points of five doubles in 2 x 2 x 2 cells. Each of four processes has two of them, on a
/// diagonal, and dumps them one behind the other dump.
fn dumps(client: u64) -> Calls {
    let (point, side, half) = (5 * 8, 64, 32);
    let (x, y) = (client % 2, client / 2);
    let cell = |z: u64| {
        let (x, y) = ((x + z) % 2, (y + z) % 2);
        (0..half * half).map(move |row| {
            let (z, y) = (z * half + row / half, y * half + row % half);
            (((z * side + y) * side + x * half) * point, (half * point) as u32)
        })
    };
    let whole = side * side * side * point;
    let dump = |nth: u64| (0..2).flat_map(cell).map(move |(at, len)| (nth * whole + at, len)).collect();
    (0..DUMPS).map(dump).collect()
}

/// How long the slowest client takes to write, and to read, in microseconds.
fn measure(
    profile: &Profile,
    calls: fn(u64) -> Calls,
    wire: Wire,
    sync: Sync,
) -> Result<[f64; 2], PaperError> {
    let config = FsConfig { regions: REGIONS, sync, ..bandwidth::config(SERVERS, wire) };
    // A list of so many regions is to fit into a request.
    let message = config.max_message() + REGIONS * 24;
    let cluster = cluster(profile, SERVERS + CLIENTS as u32, message)?;
    let files = files(&cluster, config)?;
    let book = Rc::new(RefCell::new(Vec::new()));
    for client in 0..CLIENTS {
        let node = (u64::from(SERVERS) + client) as usize;
        let (rt, files, book) = (cluster.machines[node].rt.clone(), files[node].clone(), Rc::clone(&book));
        let layout =
            Distribution::stripe(bandwidth::STRIP, SERVERS as u16, 0).ok_or_else(|| refused("no servers"))?;
        drop(rt.clone().spawn(async move {
            let file = shared_file(&rt, &files, client == 0, layout, BEGIN / 2).await?;
            let lists = calls(client);
            let len: u64 = lists[0].iter().map(|(_, len)| u64::from(*len)).sum();
            let mut buffer = files.buffer(len as usize).ok()?;
            let (packed, mut took) = (View::of(0..len)?, [0.0; 2]);
            for (nth, begin) in [BEGIN, END / 2].into_iter().enumerate() {
                rt.sleep_until(begin).await;
                let since = rt.now();
                for regions in &lists {
                    let there = View::new(0, Datatype::regions(regions.iter().copied())?)?;
                    buffer = match nth {
                        0 => {
                            let (done, back) = files.write_list(&file, &there, buffer, &packed).await;
                            done.ok()?;
                            back
                        }
                        _ => {
                            let (done, back) = files.read_list(&file, &there, buffer, &packed).await;
                            done.ok().filter(|read| *read as u64 == len)?;
                            back
                        }
                    };
                }
                took[nth] = (rt.now() - since).as_micros_f64();
            }
            book.borrow_mut().push(took);
            keeps_open(&rt, file, END).await;
            Some(())
        }));
    }
    let all = cluster.finish(END, &book, CLIENTS as usize)?;
    Ok([0, 1].map(|nth| all.iter().map(|took| took[nth]).fold(0.0, f64::max)))
}

/// Figure 10 and table 4.
pub(super) fn rows(profile: &Profile, mut progress: impl FnMut(f64)) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    let bytes: u64 = (0..CLIENTS).flat_map(tile).flatten().map(|(_, len)| u64::from(len)).sum();
    for (nth, (sync, synced)) in [(Sync::Asked, "no sync"), (Sync::Each, "synced")].into_iter().enumerate() {
        let verbs = measure(profile, tile, Wire::Verbs, sync)?;
        let tcp = measure(profile, tile, Wire::Tcp, sync)?;
        let on_writes = if sync == Sync::Each { 12.0 } else { 170.0 };
        let gains = [("write", on_writes), ("read", 240.0)];
        for (call, (name, paper)) in gains.into_iter().enumerate() {
            for (wire, took) in [("Elan4", verbs), ("TCP", tcp)] {
                let rate = bytes as f64 / took[call];
                rows.push(Row::new(
                    "Figure 10",
                    format!("{wire}, {name}"),
                    X::Name(synced),
                    "MB/s",
                    None,
                    rate,
                ));
            }
            let gain = (tcp[call] / verbs[call] - 1.0) * 100.0;
            rows.push(Row::new(
                "Figure 10",
                format!("{name}, Elan4 above TCP"),
                X::Name(synced),
                "%",
                paper,
                gain,
            ));
        }
        progress((nth + 1) as f64 / 3.0);
    }
    for (name, wire, paper) in [("Elan4", Wire::Verbs, 2.12), ("TCP", Wire::Tcp, 5.38)] {
        let [write, _] = measure(profile, dumps, wire, Sync::Asked)?;
        let all = write / 1e6 * (ALL_DUMPS / DUMPS) as f64;
        rows.push(Row::new("Table 4", name, X::Name("I/O time"), "s", paper, all));
    }
    progress(1.0);
    Ok(rows)
}
