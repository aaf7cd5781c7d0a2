//! What a claim saves a thread that reads and writes all bodies, as one does in NBodyW's sequential phase (5.4). The paper has no claims.

use super::cluster::{mean, shared};
use crate::paper::{Goal, PaperError, Row, Wanted, X, refused};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::dsm::{BarrierId, DsmError, Grain, Placement};
use weft_sim::profile::Profile;
use weft_verbs::{Nanos, Wait};

const NODES: usize = 8;
/// The paper's number, and where they lie as in our NBodyW.
const BODIES: usize = 8_192;
const GRAIN: Grain = Grain::Bytes(1_024);

/// How often the phase comes: before each all nodes have written what is theirs. The first time connects.
const ROUNDS: u32 = 3;

const SAVED: &str = "one by one, of a claim";

pub(super) fn rows(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let (each, claimed) = (phase(profile, false)?, phase(profile, true)?);
    let row = |series: &str, unit, value| Row::new("Claims", series, X::Name("8K bodies"), unit, None, value);
    Ok(vec![
        row("one by one", "ms", each),
        row("by a claim of all", "ms", claimed),
        row(SAVED, "ratio", each / claimed),
    ])
}

/// The phase's mean time in milliseconds, without what it computes.
fn phase(profile: &Profile, claims: bool) -> Result<f64, PaperError> {
    let (cluster, nodes) = shared(profile, &[Wait::Notify; NODES])?;
    let bodies = nodes[0].named::<[f64; 8]>(0, BODIES, GRAIN, Placement::RoundRobin).map_err(refused)?;
    let times: Rc<RefCell<Vec<Nanos>>> = Rc::default();
    for (node, dsm) in nodes.iter().enumerate() {
        let (rt, times) = (cluster.machines[node].rt.clone(), Rc::clone(&times));
        drop(dsm.spawn(async move |mut thread| {
            let own = vec![[1.0; 8]; BODIES / NODES];
            for round in 0..=ROUNDS {
                thread.write(bodies, node * own.len(), &own).await?;
                thread.barrier(BarrierId(0), NODES as u32).await?;
                let begin = rt.now();
                if node == 0 && claims {
                    let mut all = thread.claim_mut(bodies, 0..BODIES, Nanos::MAX).await?;
                    all.iter_mut().for_each(|body| body[7] += body[6]);
                } else if node == 0 {
                    for index in 0..BODIES {
                        let mut body = [[0.0; 8]];
                        thread.read(bodies, index, &mut body).await?;
                        body[0][7] += body[0][6];
                        thread.write(bodies, index, &body).await?;
                    }
                }
                times.borrow_mut().extend((node == 0 && round > 0).then(|| rt.now() - begin));
                thread.barrier(BarrierId(0), NODES as u32).await?;
            }
            Ok::<_, DsmError>(())
        }));
    }
    let times = cluster.finish(Nanos::from_secs(60), &times, ROUNDS as usize)?;
    Ok(mean(times, ROUNDS) / 1e3)
}

/// Our goal: a third of the time.
pub(super) fn goals(rows: &[Row]) -> impl Iterator<Item = Goal> + '_ {
    let saved = rows.iter().filter(|row| row.figure == "Claims" && row.series == SAVED);
    saved.map(|row| {
        Goal::limited(row, "NBodyW's reads and writes one by one, of those by a claim", Wanted::AtLeast(3.0))
    })
}
