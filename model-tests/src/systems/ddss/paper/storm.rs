//! Distributed STORM (section 6.4.1, Figure 9(a)): a select over a dataset, with the records in the memory of the nodes and without.
//!
//! The paper gives one figure, 19 %, and neither the size of a record nor what a record takes to be processed. Without the substrate, the
//! storage node reads pieces from its disk (the file system's cache was flushed) and sends them in messages; with it, pieces are
//! got from other nodes' memory. What a record takes is fitted to 19 % at 10,000 records, and the other sizes come out.

use super::super::published::{Published, Sequence};
use super::cluster::{Cluster, Way};
use crate::paper::{Fitted, PaperError, Row, X, refused};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::transport::{Channel, Incoming, Mesh, Rank, SendError};
use weft_sim::Sim;
use weft_sim::profile::Profile;
use weft_verbs::{Nanos, Work};

/// Records by the paper's sizes; the second one is what is fitted.
const SIZES: [u64; 3] = [1_000, 10_000, 100_000];
const FITTED_AT: u64 = SIZES[1];
/// By how much the paper's select is faster, in percent.
const PAPER: f64 = 19.0;

/// Bytes of a record, and records of a piece: stated, since the paper does not.
const RECORD: u64 = 64;
const PIECE: u64 = 250;
/// What a disk of that time takes for a byte: 60 MB/s, without a seek between the pieces of a file.
const DISK_NS_A_BYTE: u64 = 16;

const CHANNEL: Channel = Channel(9);
/// The longest message that carries a part of a piece.
const MESSAGE: u64 = 2_000;
const BEGIN: Nanos = Nanos::from_millis(100);
const END: Nanos = Nanos::from_secs(20);

/// Sends a message as soon as there is room.
async fn send(mesh: &Mesh<Sim>, to: Rank, bytes: &[u8]) -> Option<()> {
    loop {
        mesh.room(to).await.ok()?;
        match mesh.send(to, CHANNEL, bytes) {
            Err(SendError::Full { .. }) => {}
            done => return done.ok(),
        }
    }
}

/// How long a select over so many records takes, of which each takes so long, in nanoseconds.
fn select(profile: &Profile, records: u64, each: Nanos, shared: bool) -> Result<f64, PaperError> {
    let cluster = Cluster::with_messages(profile, 2, MESSAGE as u32)?;
    let bytes = PIECE * RECORD;
    let piece: Published<Sim> = cluster.segment(bytes as u32)?.remove(0);
    let (asker, storage) = (cluster.machine(0), cluster.machine(1));
    let mut answers = asker.mesh.open(CHANNEL).map_err(refused)?;
    let mut questions = storage.mesh.open(CHANNEL).map_err(refused)?;
    drop(storage.rt.clone().spawn(async move {
        while let Some(Incoming::Message(message)) = questions.recv().await {
            storage.rt.sleep(Nanos(DISK_NS_A_BYTE * bytes)).await;
            // Out of the file system into messages.
            storage.rt.spend(Work::Syscall);
            storage.rt.spend(Work::Copy { bytes });
            for _ in 0..bytes / MESSAGE {
                send(&storage.mesh, message.from(), &[0; MESSAGE as usize]).await;
            }
        }
    }));
    let results = Rc::new(RefCell::new(Vec::new()));
    let book = Rc::clone(&results);
    drop(asker.rt.clone().spawn(async move {
        let (rt, mut value) = (asker.rt.clone(), vec![0; bytes as usize]);
        // The first ones connect.
        piece.get(Sequence::Null, None, &mut value).await.ok()?;
        asker.rt.sleep_until(BEGIN).await;
        let begin = rt.now();
        for _ in 0..records / PIECE {
            if shared {
                Way::Daemon.call(&rt, piece.get(Sequence::Null, None, &mut value)).await.ok()?;
            } else {
                send(&asker.mesh, Rank::from_index(1), &[0; 8]).await?;
                for _ in 0..bytes / MESSAGE {
                    answers.recv().await?;
                    rt.spend(Work::Copy { bytes: MESSAGE });
                }
            }
            rt.spend(Work::Compute(Nanos(each.0 * PIECE)));
        }
        book.borrow_mut().push((rt.now() - begin).0 as f64);
        Some(())
    }));
    Ok(cluster.below.finish(END, &results, 1)?[0])
}

/// What a record takes, so that a select is faster by the paper's share with the substrate: both take so much more.
fn fit(profile: &Profile) -> Result<Nanos, PaperError> {
    let without = select(profile, FITTED_AT, Nanos::ZERO, false)?;
    let with = select(profile, FITTED_AT, Nanos::ZERO, true)?;
    let share = PAPER / 100.0;
    let all = (without - (1.0 + share) * with) / share;
    Ok(Nanos((all / FITTED_AT as f64) as u64))
}

/// Figure 9(a), and what was fitted for it.
pub(super) fn rows(profile: &Profile) -> Result<(Vec<Row>, Fitted), PaperError> {
    let each = fit(profile)?;
    let mut rows = Vec::new();
    for records in SIZES {
        let without = select(profile, records, each, false)?;
        let with = select(profile, records, each, true)?;
        let x = X::Number(records);
        rows.push(Row::new("Figure 9(a)", "without", x.clone(), "ms", None, without / 1e6));
        rows.push(Row::new("Figure 9(a)", "with", x.clone(), "ms", None, with / 1e6));
        let faster = (without / with - 1.0) * 100.0;
        rows.push(Row::new("Figure 9(a)", "faster", x, "%", PAPER, faster));
    }
    let fitted = Fitted {
        name: "storm.record_ns".to_string(),
        value: each.0,
        unit: "ns",
        source: "what a record takes to be selected, fitted to 19 % at 10,000 records".to_string(),
    };
    Ok((rows, fitted))
}
