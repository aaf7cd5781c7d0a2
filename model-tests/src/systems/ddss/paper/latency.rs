//! One call at a time: Figure 4, and what library and daemon add (Table 2).

use super::super::published::Sequence;
use super::cluster::{Cluster, Way};
use crate::paper::{PaperError, Row, X};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::ddss::{Model, Name, Spec};
use weft_sim::profile::Profile;
use weft_verbs::Nanos;

/// How often each call is made; all take the same time.
const ROUNDS: u32 = 10;

/// Between two calls: longer than what one leaves behind.
const PAUSE: Nanos = Nanos::from_micros(500);

/// When all are over.
const END: Nanos = Nanos::from_secs(1);

/// The sizes of Figure 4, in bytes.
const SIZES: [u32; 6] = [1, 64, 512, 4_096, 16_384, 65_536];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Put,
    Get,
}

/// Mean time of a call of the paper's sequence, in microseconds.
fn published(
    profile: &Profile,
    way: Way,
    sequence: Sequence,
    call: Call,
    size: u32,
) -> Result<f64, PaperError> {
    let cluster = Cluster::new(profile, 2)?;
    let segment = cluster.segment(size)?.remove(0);
    let rt = cluster.machine(0).rt;
    let results = Rc::new(RefCell::new(Vec::new()));
    let book = Rc::clone(&results);
    drop(rt.clone().spawn(async move {
        let (mut bytes, mut sum) = (vec![1; size as usize], Nanos::ZERO);
        // The first calls connect, register memory, and learn the version.
        let mut version = segment.put(sequence, 0, &bytes).await.ok()?;
        version = segment.get(sequence, None, &mut bytes).await.ok().map(|found| found.max(version))?;
        for _ in 0..ROUNDS {
            rt.sleep(PAUSE).await;
            let begin = rt.now();
            version = way
                .call(&rt, async {
                    match call {
                        Call::Put => segment.put(sequence, version, &bytes).await,
                        Call::Get => segment.get(sequence, Some(version), &mut bytes).await,
                    }
                })
                .await
                .ok()?;
            sum += rt.now() - begin;
        }
        book.borrow_mut().push(sum.as_micros_f64() / f64::from(ROUNDS));
        Some(())
    }));
    cluster.below.finish(END, &results, 1).map(|mut all| all.remove(0))
}

/// Mean time of a call as the models are here, in microseconds.
fn ours(profile: &Profile, way: Way, model: Model, call: Call, size: u32) -> Result<f64, PaperError> {
    let cluster = Cluster::new(profile, 2)?;
    let machine = cluster.machine(0);
    let results = Rc::new(RefCell::new(Vec::new()));
    let book = Rc::clone(&results);
    drop(machine.rt.clone().spawn(async move {
        // Its home is the other node.
        let segment = machine.ddss.open(Name(1), Spec { size, model }).await.ok()?;
        let (mut bytes, mut sum) = (vec![1; size as usize], Nanos::ZERO);
        machine.ddss.put(&segment, &bytes).await.ok()?;
        let mut held = Some(machine.ddss.get(&segment, &mut bytes).await.ok()?);
        for _ in 0..ROUNDS {
            machine.rt.sleep(PAUSE).await;
            let begin = machine.rt.now();
            way.call(&machine.rt, async {
                match call {
                    Call::Put => machine.ddss.put(&segment, &bytes).await.map(drop),
                    Call::Get => {
                        let known = held.filter(|_| model.keeps_copies());
                        let version = machine.ddss.get_if_newer(&segment, known, &mut bytes).await?;
                        held = version.or(held);
                        Ok(())
                    }
                }
            })
            .await
            .ok()?;
            sum += machine.rt.now() - begin;
        }
        book.borrow_mut().push(sum.as_micros_f64() / f64::from(ROUNDS));
        Some(())
    }));
    cluster.below.finish(END, &results, 1).map(|mut all| all.remove(0))
}

/// The paper's Figure 4(a) at one byte, in microseconds.
fn figure_4a(sequence: Sequence) -> f64 {
    match sequence {
        Sequence::Null => 20.0,
        Sequence::Read | Sequence::ReadLocked => 23.0,
        Sequence::Version => 37.0,
        Sequence::Delta => 41.0,
        Sequence::Write => 54.3,
        Sequence::Strict => 54.8,
    }
}

/// Figure 4, the paper's sequences and the models as they are here.
pub(super) fn rows(profile: &Profile, mut progress: impl FnMut(f64)) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for (figure, call) in [("Figure 4(a)", Call::Put), ("Figure 4(b)", Call::Get)] {
        for (nth, size) in SIZES.into_iter().enumerate() {
            for sequence in Sequence::ALL {
                let measured = published(profile, Way::Daemon, sequence, call, size)?;
                let known = call == Call::Put && size == 1;
                let paper = known.then(|| figure_4a(sequence));
                rows.push(Row::new(figure, sequence.name(), X::Number(size.into()), "us", paper, measured));
            }
            let done = (nth + 1) as f64 / SIZES.len() as f64;
            progress(if call == Call::Put { done / 2.0 } else { 0.5 + done / 2.0 });
        }
    }
    rows.push(flat(&rows));
    for (figure, call) in [("Ours, put", Call::Put), ("Ours, get", Call::Get)] {
        for size in SIZES {
            for model in Model::ALL {
                let measured = ours(profile, Way::Daemon, model, call, size)?;
                rows.push(Row::new(figure, model.name(), X::Number(size.into()), "us", None, measured));
            }
        }
    }
    Ok(rows)
}

/// A get under version does not grow with the segment if the version is the one held.
fn flat(rows: &[Row]) -> Row {
    let at = |size: u32| {
        let wanted = |row: &&Row| {
            row.figure == "Figure 4(b)" && row.series == "version" && row.x == X::Number(size.into())
        };
        rows.iter().find(wanted).map_or(f64::NAN, |row| row.measured)
    };
    let ratio = at(SIZES[SIZES.len() - 1]) / at(SIZES[0]);
    Row::new("Figure 4(b)", "version, 64 KiB / 1 byte", X::Name("unchanged"), "ratio", 1.0, ratio)
}

/// Table 2: what library and daemon add to one RDMA write, and a synchronization.
pub(super) fn overheads(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let put = |way| published(profile, way, Sequence::Null, Call::Put, 1);
    let bare = put(Way::Bare)?;
    let locked = published(profile, Way::Bare, Sequence::Write, Call::Put, 1)?;
    // A put under write coherence locks and unlocks around the transfer: two atomics.
    let synchronization = (locked - bare) / 2.0;
    let mut rows = Vec::new();
    for (name, way, paper) in [
        ("direct", Way::Direct, 0.35),
        ("daemon", Way::Daemon, 10.0),
        ("asynchronous", Way::Asynchronous, 12.0),
    ] {
        let protocol = put(way)? - bare;
        let row = |x, paper, measured| Row::new("Table 2", name, X::Name(x), "us", paper, measured);
        rows.push(row("overhead", paper, protocol));
        rows.push(row("synchronization", 20.0, synchronization));
        rows.push(row("total", 20.0 + paper, protocol + synchronization));
    }
    let library = ours(profile, Way::Direct, Model::Null, Call::Put, 1)? - bare;
    rows.push(Row::new("Table 2", "direct, the library here", X::Name("overhead"), "us", None, library));
    Ok(rows)
}
