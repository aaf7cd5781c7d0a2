//! Resource monitoring (3.2, 5.5): every server keeps its load in a segment of its own memory, and a monitor reads all of them
//! without disturbing a processor. Model null: a reading is a hint, and one word is never torn.

use crate::cluster::{Fails, Machine, run};
use weft_protocols::ddss::{Ddss, DdssError, Model, Name, Spec};
use weft_verbs::{Nanos, Verbs};

const SERVERS: u32 = 4;
const SPEC: Spec = Spec { size: 8, model: Model::Null };
const PERIOD: Nanos = Nanos::from_micros(50);
const READINGS: u64 = 20;

/// A server's load at a time: each has a peak of its own.
fn load(server: u32, at: Nanos) -> u64 {
    let phase = at.0 / PERIOD.0 + u64::from(server) * 25;
    100 - (phase % 100).abs_diff(50)
}

/// The names of the servers' segments: each is the home of its own.
fn name(server: u32) -> Name {
    Name(u64::from(server))
}

/// Writes the load of a moment.
async fn report<V: Verbs>(ddss: &Ddss<V>, server: u32, at: Nanos) -> Result<(), DdssError> {
    let segment = ddss.open(name(server), SPEC).await?;
    ddss.put(&segment, &load(server, at).to_le_bytes()).await.map(drop)
}

/// The loads as one look at all of them finds them: all gets are under way at once.
async fn look<V: Verbs>(ddss: &Ddss<V>) -> Result<Vec<u64>, DdssError> {
    let mut gets = Vec::new();
    for server in 0..SERVERS {
        gets.push(ddss.begin_get(&ddss.open(name(server), SPEC).await?));
    }
    let mut loads = Vec::new();
    for get in gets {
        let (value, _) = get.wait().await?;
        loads.push(u64::from_le_bytes(value.try_into().unwrap_or_default()));
    }
    Ok(loads)
}

/// The monitor is the last node. What it has seen: when, and which loads.
async fn node(node: u32, machine: Machine) -> Result<Vec<(Nanos, Vec<u64>)>, Fails> {
    let Machine { rt, ddss } = machine;
    let mut seen = Vec::new();
    // The first calls connect.
    match node < SERVERS {
        true => report(&ddss, node, rt.now()).await?,
        false => drop(look(&ddss).await?),
    }
    for round in 1..=READINGS {
        rt.sleep_until(Nanos(PERIOD.0 * 20 * round)).await;
        if node < SERVERS {
            for tick in 0..10 {
                report(&ddss, node, rt.now()).await?;
                rt.sleep_until(Nanos(PERIOD.0 * (20 * round + tick))).await;
            }
        } else {
            rt.sleep(Nanos(PERIOD.0 * 5)).await;
            let loads = look(&ddss).await?;
            seen.push((rt.now(), loads));
        }
    }
    Ok(seen)
}

fn seen() -> Result<Vec<(Nanos, Vec<u64>)>, Fails> {
    Ok(run(SERVERS + 1, node)?.pop().unwrap_or_default())
}

pub fn show() -> Result<String, Fails> {
    let seen = seen()?;
    let loads: Vec<String> = seen.iter().map(|(_, loads)| format!("{loads:?}")).collect();
    Ok(format!("the loads of {SERVERS} servers, {} times: {}", seen.len(), loads.join(" ")))
}

#[test]
fn the_monitor_sees_what_was_the_load_a_few_periods_ago() {
    let seen = seen().expect("a run that ends");
    assert_eq!(seen.len(), READINGS as usize);
    for (at, loads) in seen {
        for (server, seen) in (0..).zip(loads) {
            let recent = (0..4).map(|ago| load(server, at - Nanos(PERIOD.0 * ago)));
            assert!(recent.into_iter().any(|load| load == seen), "server {server} at {at}: {seen}");
        }
    }
}
