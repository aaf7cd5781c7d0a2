//! How old what gets return is, under each model that lets it be old: a distribution. The paper has no such figure.

use super::cluster::{Cluster, NODES};
use crate::paper::{PaperError, Row, X};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::ddss::{Model, Name, Spec};
use weft_sim::choice::Rng;
use weft_sim::profile::Profile;
use weft_verbs::Nanos;

const READERS: u32 = 8;
const GETS: u32 = 150;
/// The segment of the last node, beyond the names of others.
const NAME: Name = Name(NODES as u64 * 2 - 1);
const BEGIN: Nanos = Nanos::from_millis(50);
const END: Nanos = Nanos::from_secs(3);
/// How long the writer rests between two puts, in microseconds, at the most.
const REST_US: u64 = 200;

/// How many versions behind the puts that had completed when they returned the gets of all readers were.
fn behind(profile: &Profile, model: Model) -> Result<Vec<u64>, PaperError> {
    let cluster = Cluster::new(profile, NODES)?;
    let completed = Rc::new(Cell::new(0));
    let results = Rc::new(RefCell::new(Vec::new()));
    for node in 0..=READERS {
        let machine = cluster.machine(node);
        let (completed, book) = (Rc::clone(&completed), Rc::clone(&results));
        drop(machine.rt.clone().spawn(async move {
            let spec = Spec { size: 64, model };
            let segment = machine.ddss.open(NAME, spec).await.ok()?;
            machine.rt.sleep_until(BEGIN).await;
            let mut rng = Rng::from_seed(u64::from(node));
            let (mut value, mut held) = ([0; 64], None);
            if node == 0 {
                // As long as anybody reads.
                while book.borrow().len() < (READERS * GETS) as usize {
                    machine.rt.sleep(Nanos::from_micros(rng.below(REST_US))).await;
                    completed.set(machine.ddss.put(&segment, &value).await.ok()?.unwrap_or_default());
                }
                return Some(());
            }
            for _ in 0..GETS {
                machine.rt.sleep(Nanos::from_micros(rng.below(REST_US))).await;
                let newer = machine.ddss.get_if_newer(&segment, held, &mut value).await.ok()?;
                held = newer.or(held);
                book.borrow_mut().push(completed.get().saturating_sub(held.unwrap_or_default()));
            }
            Some(())
        }));
    }
    cluster.below.finish(END, &results, (READERS * GETS) as usize)
}

/// The shares of gets by how old their values were.
pub(super) fn rows(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let models = [Model::Write, Model::Version, Model::Delta(2), Model::Delta(4), Model::Temporal(500)];
    let mut rows = Vec::new();
    for model in models {
        let ages = behind(profile, model)?;
        for age in 0..=8u64 {
            // The last place has what is older, too.
            let is = |seen: &&u64| **seen == age || (age == 8 && **seen > age);
            let share = ages.iter().filter(is).count() as f64 / ages.len() as f64 * 100.0;
            rows.push(Row::new("Ours, staleness", model.to_string(), X::Number(age), "%", None, share));
        }
    }
    Ok(rows)
}
