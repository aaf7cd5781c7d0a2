//! Section 7.2: all clients write a block each to one file, and read it back.

use super::cluster::{cluster, files, keeps_open, shared_file};
use crate::paper::{PaperError, Row, X, refused};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::pario::{Distribution, FsConfig, Storage, Sync, Wire};
use weft_sim::profile::Profile;
use weft_verbs::Nanos;

/// Bytes that each process writes and reads (7.2).
const BLOCK: u32 = 4 << 20;

/// PVFS2's strip, unless it is told otherwise.
pub(super) const STRIP: u32 = 64 << 10;

/// Nodes of the cluster: what is no server may be a client.
const NODES: u32 = 8;

/// Servers of the figures' lines.
const SERVERS: [u32; 3] = [1, 2, 4];

/// Rounds of writing and reading: seven in the paper. Those with the lowest and the highest time are dropped (7.2).
const ROUNDS: usize = 3;

/// When all are connected, and how long writing or reading may take.
const BEGIN: Nanos = Nanos::from_millis(100);
const SPAN: Nanos = Nanos::from_millis(500);

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Write,
    Read,
}

/// How the service is set up: as the paper's, as far as there is such a thing here.
pub(super) fn config(servers: u32, wire: Wire) -> FsConfig {
    FsConfig {
        eager: 2_048,
        unit: STRIP,
        stages: 64,
        sync: Sync::Asked,
        storage: Storage::Disk,
        wire,
        ..FsConfig::new(servers)
    }
}

/// Aggregate bandwidths of writes and of reads, in MB/s.
fn measure(profile: &Profile, servers: u32, clients: u32, wire: Wire) -> Result<[f64; 2], PaperError> {
    let cluster = cluster(profile, servers + clients, config(servers, wire).max_message())?;
    let files = files(&cluster, config(servers, wire))?;
    let book = Rc::new(RefCell::new(Vec::new()));
    for client in 0..clients {
        let node = (servers + client) as usize;
        let (rt, files, book) = (cluster.machines[node].rt.clone(), files[node].clone(), Rc::clone(&book));
        let layout = Distribution::stripe(STRIP, servers as u16, 0).ok_or_else(|| refused("no servers"))?;
        drop(rt.clone().spawn(async move {
            let file = shared_file(&rt, &files, client == 0, layout, BEGIN / 2).await?;
            let mut buffer = files.buffer(BLOCK as usize).ok()?;
            let at = u64::from(client) * u64::from(BLOCK);
            let mut begin = BEGIN;
            for round in 0..ROUNDS {
                for call in [Call::Write, Call::Read] {
                    rt.sleep_until(begin).await;
                    let since = rt.now();
                    let (done, back) = match call {
                        Call::Write => files.write(&file, at, buffer).await,
                        Call::Read => {
                            let (read, back) = files.read(&file, at, buffer).await;
                            (read.map(drop), back)
                        }
                    };
                    done.ok()?;
                    buffer = back;
                    book.borrow_mut().push((round, call, rt.now() - since));
                    begin += SPAN;
                }
            }
            keeps_open(&rt, file, begin).await;
            Some(())
        }));
    }
    let end = BEGIN + SPAN * (2 * ROUNDS as u64 + 1);
    let all = cluster.finish(end, &book, 2 * ROUNDS * clients as usize)?;
    let aggregate = |wanted: Call| {
        let mean = |round: usize| {
            let of = all.iter().filter(|(of, call, _)| *of == round && *call == wanted);
            of.map(|(.., took)| took.as_micros_f64()).sum::<f64>() / f64::from(clients)
        };
        let mut rounds: Vec<f64> = (0..ROUNDS).map(mean).collect();
        rounds.sort_by(f64::total_cmp);
        let kept = &rounds[1..ROUNDS - 1];
        f64::from(clients) * f64::from(BLOCK) / (kept.iter().sum::<f64>() / kept.len() as f64)
    };
    Ok([aggregate(Call::Write), aggregate(Call::Read)])
}

/// Figures 8 and 9 by clients, and what the paper's text says of them.
pub(super) fn rows(profile: &Profile, mut progress: impl FnMut(f64)) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    let mut gains = [f64::NAN; 2];
    for (nth, servers) in SERVERS.into_iter().enumerate() {
        for clients in 1..=NODES - servers {
            let verbs = measure(profile, servers, clients, Wire::Verbs)?;
            let tcp = measure(profile, servers, clients, Wire::Tcp)?;
            for (name, [write, read]) in [("Elan4", verbs), ("TCP", tcp)] {
                let row = |figure, value| {
                    let series = format!("{name} {servers}S");
                    Row::new(figure, series, X::Number(clients.into()), "MB/s", None, value)
                };
                rows.extend([row("Figure 9", write), row("Figure 8", read)]);
            }
            // The text names no number of clients; with four servers, four are left to be equal.
            if (servers, clients) == (4, 4) {
                gains = [0, 1].map(|n| (verbs[n] / tcp[n] - 1.0) * 100.0);
            }
        }
        progress((nth + 1) as f64 / SERVERS.len() as f64);
    }
    let [write, read] = gains;
    rows.push(Row::new("Figure 8", "read, Elan4 above TCP", X::Name("4 servers"), "%", 140.0, read));
    rows.push(Row::new("Figure 9", "write, Elan4 above TCP", X::Name("4 servers"), "%", 82.0, write));
    Ok(rows)
}
