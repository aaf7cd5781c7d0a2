//! Kernels that imitate N-body programs (kernel-dsm.txt, 5.1, after Niv and Schuster 2001). In each round every thread computes the
//! forces on its own bodies from the places of all, and moves them after a barrier. In the second kernel, NBodyW, one thread then
//! reads and writes all bodies, one after the other, in a phase of its own.
//!
//! A body has 64 bytes; 16 of them are a minipage, 1 KiB.

use super::{Answer, AppError, Input, Worker, digest, noise};
use weft_protocols::dsm::Shared;
use weft_verbs::Verbs;

/// Bytes of a body: place, speed, mass, and a word that the sequential phase writes.
pub(super) const RECORD: u64 = 64;
pub(super) const GRAIN: u32 = 1_024;

/// Units of the sequential phase for each body, where a force takes one. Fitted: with the pace of NBody it gives the barriers a second
/// that Table 3 has of NBodyW.
const SEQUENTIAL: u64 = 1_870;

/// What the sequential phase takes of the work of one thread alone.
pub(in crate::systems::dsm) fn sequential_part(input: Input) -> f64 {
    SEQUENTIAL as f64 / (SEQUENTIAL + input.size as u64) as f64
}

type Body = [f64; 8];

fn begin(index: usize) -> Body {
    let place = |axis: usize| noise(8 * index + axis);
    [place(0), place(1), place(2), 0.0, 0.0, 0.0, 1.0 + place(3), 0.0]
}

/// The force of all bodies on one.
fn force(on: &Body, all: &[Body]) -> [f64; 3] {
    let mut sum = [0.0; 3];
    for other in all {
        let away = [other[0] - on[0], other[1] - on[1], other[2] - on[2]];
        let square = 0.01 + away[0] * away[0] + away[1] * away[1] + away[2] * away[2];
        let pull = other[6] / (square * square);
        for (sum, away) in sum.iter_mut().zip(away) {
            *sum += pull * away;
        }
    }
    sum
}

fn moved(body: &Body, force: [f64; 3]) -> Body {
    let mut body = *body;
    for axis in 0..3 {
        body[3 + axis] += 1e-6 * force[axis];
        body[axis] += body[3 + axis];
    }
    body
}

/// What the sequential phase does to a body.
fn touched(body: &Body) -> Body {
    let mut body = *body;
    body[7] += body[0] * body[6];
    body
}

/// One thread's part.
pub(super) async fn run<V: Verbs>(
    worker: &mut Worker<V>,
    input: Input,
    sequential: bool,
) -> Result<u64, AppError> {
    let shared: Shared<[Body]> = worker.shared(0, input.size, GRAIN)?;
    let own = worker.share(input.size);
    let mut bodies: Vec<Body> = own.clone().map(begin).collect();
    worker.write(shared, own.start, &bodies).await?;
    worker.barrier().await?;
    worker.begins();
    let mut all = vec![[0.0; 8]; input.size];
    for _ in 0..input.rounds {
        worker.read(shared, 0, &mut all).await?;
        let forces: Vec<[f64; 3]> = all[own.clone()].iter().map(|body| force(body, &all)).collect();
        worker.compute((own.len() * input.size) as u64).await;
        worker.barrier().await?;
        bodies = all[own.clone()].iter().zip(forces).map(|(body, force)| moved(body, force)).collect();
        worker.write(shared, own.start, &bodies).await?;
        worker.barrier().await?;
        if sequential {
            if worker.me == 0 {
                for index in 0..input.size {
                    let mut body = [[0.0; 8]];
                    worker.read(shared, index, &mut body).await?;
                    worker.write(shared, index, &[touched(&body[0])]).await?;
                }
                worker.compute(SEQUENTIAL * input.size as u64).await;
            }
            worker.barrier().await?;
        }
    }
    worker.ends();
    worker.read(shared, own.start, &mut bodies).await?;
    Ok(sum(own.start, &bodies))
}

fn sum(begin: usize, bodies: &[Body]) -> u64 {
    let parts = bodies.iter().zip(begin..).map(|(body, index)| digest(index, body.map(f64::to_bits)));
    parts.fold(0, u64::wrapping_add)
}

/// The same by one thread on its own memory.
pub(super) fn sequential(input: Input, sequential: bool) -> Answer {
    let mut bodies: Vec<Body> = (0..input.size).map(begin).collect();
    for _ in 0..input.rounds {
        let forces: Vec<[f64; 3]> = bodies.iter().map(|body| force(body, &bodies)).collect();
        bodies = bodies.iter().zip(forces).map(|(body, force)| moved(body, force)).collect();
        if sequential {
            bodies = bodies.iter().map(touched).collect();
        }
    }
    let each = input.size as u64 + if sequential { SEQUENTIAL } else { 0 };
    Answer { value: sum(0, &bodies), units: input.size as u64 * each * u64::from(input.rounds) }
}
