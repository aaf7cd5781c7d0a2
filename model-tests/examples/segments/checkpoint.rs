//! Check-pointing and restart (6.4.2): every process saves its state in the memory of another node, at times of its own. To restart, all
//! go back to the last checkpoint that everybody has. Model delta: the segment keeps the checkpoints before the last one.

use crate::cluster::{Fails, Machine, run};
use weft_protocols::ddss::{Ddss, DdssError, Model, Name, Spec};
use weft_verbs::{Nanos, Verbs};

const PROCESSES: u32 = 4;
/// How many checkpoints before the last one are kept: nobody may be further ahead of the last of all.
const KEPT: u8 = 3;
const SPEC: Spec = Spec { size: 1_024, model: Model::Delta(KEPT) };

/// The segment of a process; its home is the next node.
fn name(process: u32) -> Name {
    Name(u64::from((process + 1) % PROCESSES))
}

/// A process's state after so many steps.
fn state(process: u32, step: u64) -> Vec<u8> {
    let seed = step * 7 + u64::from(process);
    (0..u64::from(SPEC.size)).map(|at| (seed + at) as u8).collect()
}

/// Saves a state: checkpoint n is version n.
async fn save<V: Verbs>(ddss: &Ddss<V>, process: u32, step: u64) -> Result<(), DdssError> {
    let segment = ddss.open(name(process), SPEC).await?;
    ddss.put(&segment, &state(process, step)).await.map(drop)
}

/// Reads a process's state back as it was at the last checkpoint that all have. Returns that checkpoint's number and the state.
async fn restart<V: Verbs>(ddss: &Ddss<V>, process: u32) -> Result<(u64, Vec<u8>), DdssError> {
    let (mut consistent, mut own) = (u64::MAX, 0);
    let mut bytes = vec![0; SPEC.size as usize];
    for of in 0..PROCESSES {
        let segment = ddss.open(name(of), SPEC).await?;
        let last = ddss.get(&segment, &mut bytes).await?;
        consistent = consistent.min(last);
        if of == process {
            own = last;
        }
    }
    let segment = ddss.open(name(process), SPEC).await?;
    let version = ddss.get_earlier(&segment, (own - consistent) as u8, &mut bytes).await?;
    Ok((version, bytes))
}

async fn node(process: u32, machine: Machine) -> Result<(u64, Vec<u8>), Fails> {
    let Machine { rt, ddss } = machine;
    // Some are ahead of others when the failure comes.
    for step in 1..=8 + u64::from(process % (u32::from(KEPT) + 1)) {
        rt.sleep(Nanos::from_micros(100 + 13 * u64::from(process))).await;
        save(&ddss, process, step).await?;
    }
    rt.sleep_until(Nanos::from_millis(10)).await;
    Ok(restart(&ddss, process).await?)
}

pub fn show() -> Result<String, Fails> {
    let restarted: Vec<String> =
        run(PROCESSES, node)?.iter().map(|(checkpoint, _)| checkpoint.to_string()).collect();
    Ok(format!("{PROCESSES} processes restart from checkpoints {}", restarted.join(", ")))
}

#[test]
fn all_processes_restart_from_the_last_checkpoint_that_everybody_has() {
    for (process, (checkpoint, found)) in (0..).zip(run(PROCESSES, node).expect("a run that ends")) {
        assert_eq!((checkpoint, found), (8, state(process, 8)), "process {process}");
    }
}
