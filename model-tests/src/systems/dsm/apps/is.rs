//! Integer sort (NAS IS, as TreadMarks has it): each thread counts its own keys by buckets, and adds its counts to the shared
//! ones, one section of them after the other, each at another time than the others do. After that all know where each key goes.
//!
//! The 512 shared counts have 2 KiB, as in the paper's Table 3; a minipage is 256 bytes, a section where there are eight threads.

use super::{Answer, AppError, Input, Worker, digest, share};
use weft_protocols::dsm::Shared;
use weft_verbs::Verbs;

const BUCKETS: usize = 512;
/// Bytes of the shared counts.
pub(super) const MEMORY: u64 = 4 * BUCKETS as u64;
pub(super) const GRAIN: u32 = 256;

/// The bucket of a key, in a round: keys change a little from round to round.
fn bucket(key: usize, round: u32) -> usize {
    let word = (key as u64 ^ u64::from(round) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 55) as usize
}

fn counts(keys: std::ops::Range<usize>, round: u32) -> Vec<u32> {
    let mut counts = vec![0u32; BUCKETS];
    keys.for_each(|key| counts[bucket(key, round)] += 1);
    counts
}

/// One thread's part.
pub(super) async fn run<V: Verbs>(worker: &mut Worker<V>, input: Input) -> Result<u64, AppError> {
    let shared: Shared<[u32]> = worker.shared(0, BUCKETS, GRAIN)?;
    let own = worker.share(input.size);
    let mut sum = 0u64;
    worker.barrier().await?;
    worker.begins();
    for round in 0..input.rounds {
        let counted = counts(own.clone(), round);
        // Counting a key, and ranking it in the end.
        worker.compute(own.len() as u64).await;
        for stage in 0..worker.all {
            let section = share((worker.me + stage) % worker.all, worker.all, BUCKETS);
            let mut so_far = vec![0u32; section.len()];
            // The first one to come finds the last round's.
            if stage > 0 {
                worker.read(shared, section.start, &mut so_far).await?;
            }
            for (count, more) in so_far.iter_mut().zip(&counted[section.clone()]) {
                *count += more;
            }
            worker.write(shared, section.start, &so_far).await?;
            worker.barrier().await?;
        }
        let mut all = vec![0u32; BUCKETS];
        worker.read(shared, 0, &mut all).await?;
        worker.compute(own.len() as u64).await;
        if worker.me == 0 {
            sum = sum.wrapping_add(digest(round as usize, &all));
        }
        worker.barrier().await?;
    }
    worker.ends();
    Ok(sum)
}

/// The same by one thread on its own memory.
pub(super) fn sequential(input: Input) -> Answer {
    let rounds = (0..input.rounds).map(|round| digest(round as usize, counts(0..input.size, round)));
    let value = rounds.fold(0, u64::wrapping_add);
    Answer { value, units: 2 * input.size as u64 * u64::from(input.rounds) }
}
