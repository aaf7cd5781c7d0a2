//! Water, n-squared (SPLASH-2): forces between all pairs of molecules. A thread computes those of its own molecules with the half
//! of all others that follows each, adds them up for itself, and then adds its sums to the shared ones, each molecule under a
//! lock of its own. After a barrier all move their own molecules.
//!
//! A molecule has 640 bytes and is a minipage: Table 3's 0.3 MB by 512 molecules. Forces are whole numbers of a small unit, so
//! that their sum is the same in any order.

use super::{Answer, AppError, Input, Worker, digest, noise};
use weft_protocols::dsm::Shared;
use weft_verbs::Verbs;

/// Bytes of a molecule: three places, three speeds, three forces, and what a real one has besides.
pub(super) const RECORD: u64 = 640;
const WORDS: usize = RECORD as usize / 8;

/// Force's unit.
const SCALE: f64 = 1e9;

/// Units of work that moving a molecule takes, and each other phase of its own, where a pair takes one.
const MOVE: u64 = 2;
/// Phases in which a thread computes for its own molecules only; with those of the forces, a round has seven.
const PHASES: u64 = 5;

type Molecule = [f64; WORDS];
type Force = [i64; 3];

fn begin(index: usize) -> Molecule {
    let mut molecule = [0.0; WORDS];
    for (axis, place) in molecule[..3].iter_mut().enumerate() {
        *place = noise(4 * index + axis);
    }
    molecule
}

fn pair(one: &Molecule, other: &Molecule) -> Force {
    let mut force = [0; 3];
    let mut square = 0.01;
    for axis in 0..3 {
        square += (one[axis] - other[axis]) * (one[axis] - other[axis]);
    }
    for axis in 0..3 {
        force[axis] = (SCALE * (one[axis] - other[axis]) / (square * square)) as i64;
    }
    force
}

/// The molecules whose pairs with this one are its own: the half that follows it.
fn followers(index: usize, all: usize) -> impl Iterator<Item = usize> {
    let half = all / 2;
    // Where their number is even, the pairs that lie opposite are the first half's.
    let number = if all.is_multiple_of(2) && index >= half { half.saturating_sub(1) } else { half };
    (1..=number.min(all - 1)).map(move |step| (index + step) % all)
}

fn moved(molecule: &Molecule, force: Force) -> Molecule {
    let mut molecule = *molecule;
    for axis in 0..3 {
        molecule[3 + axis] += 1e-9 * force[axis] as f64 / SCALE;
        molecule[axis] += molecule[3 + axis];
    }
    molecule
}

fn add(to: &mut Force, force: Force, sign: i64) {
    for (sum, part) in to.iter_mut().zip(force) {
        *sum += sign * part;
    }
}

/// A force is kept in the words behind place and speed.
fn stored(molecule: &mut Molecule, force: Force) {
    for (word, part) in molecule[6..9].iter_mut().zip(force) {
        *word = f64::from_bits(part as u64);
    }
}

fn kept(molecule: &Molecule) -> Force {
    [6, 7, 8].map(|word: usize| molecule[word].to_bits() as i64)
}

/// One thread's part.
pub(super) async fn run<V: Verbs>(worker: &mut Worker<V>, input: Input) -> Result<u64, AppError> {
    let shared: Shared<[Molecule]> = worker.shared(0, input.size, RECORD as u32)?;
    let (size, own) = (input.size, worker.share(input.size));
    for index in own.clone() {
        worker.write(shared, index, &[begin(index)]).await?;
    }
    worker.barrier().await?;
    worker.begins();
    for _ in 0..input.rounds {
        let mut seen: Vec<Option<Box<Molecule>>> = vec![None; size];
        let mut forces: Vec<Option<Force>> = vec![None; size];
        let mut pairs = 0;
        for index in own.clone() {
            let one = look(worker, shared, &mut seen, index).await?;
            for other_index in followers(index, size) {
                let other = look(worker, shared, &mut seen, other_index).await?;
                let force = pair(&one, &other);
                add(forces[index].get_or_insert_default(), force, 1);
                add(forces[other_index].get_or_insert_default(), force, -1);
                pairs += 1;
            }
        }
        worker.compute(pairs).await;
        worker.barrier().await?;
        // Each begins with its own, so that not all come to the same ones.
        for index in (0..size).map(|step| (own.start + step) % size) {
            let Some(force) = forces[index] else { continue };
            let lock = worker.lock(index as u64).await?;
            let mut molecule = [[0.0; WORDS]];
            worker.read(shared, index, &mut molecule).await?;
            let mut sum = kept(&molecule[0]);
            add(&mut sum, force, 1);
            stored(&mut molecule[0], sum);
            worker.write(shared, index, &molecule).await?;
            worker.unlock(lock).await;
        }
        worker.barrier().await?;
        for index in own.clone() {
            let mut molecule = [[0.0; WORDS]];
            worker.read(shared, index, &mut molecule).await?;
            let force = kept(&molecule[0]);
            molecule[0] = moved(&molecule[0], force);
            stored(&mut molecule[0], [0; 3]);
            worker.write(shared, index, &molecule).await?;
        }
        // Moving them, and the four phases that look at a thread's own molecules only: predicting, the forces within them, kinetic
        // and potential energy.
        for _ in 0..PHASES {
            worker.compute(MOVE * own.len() as u64).await;
            worker.barrier().await?;
        }
    }
    worker.ends();
    let mut sum = 0u64;
    for index in own {
        let mut molecule = [[0.0; WORDS]];
        worker.read(shared, index, &mut molecule).await?;
        sum = sum.wrapping_add(place_digest(index, &molecule[0]));
    }
    Ok(sum)
}

/// A molecule as it is in this round: places do not change while forces are computed.
async fn look<V: Verbs>(
    worker: &mut Worker<V>,
    shared: Shared<[Molecule]>,
    seen: &mut [Option<Box<Molecule>>],
    index: usize,
) -> Result<Box<Molecule>, AppError> {
    if let Some(molecule) = &seen[index] {
        return Ok(molecule.clone());
    }
    let mut molecule = [[0.0; WORDS]];
    worker.read(shared, index, &mut molecule).await?;
    let [molecule] = molecule;
    Ok(seen[index].insert(Box::new(molecule)).clone())
}

fn place_digest(index: usize, molecule: &Molecule) -> u64 {
    digest(index, [0, 1, 2].map(|axis: usize| molecule[axis].to_bits()))
}

/// The same by one thread on its own memory.
pub(super) fn sequential(input: Input) -> Answer {
    let size = input.size;
    let mut all: Vec<Molecule> = (0..size).map(begin).collect();
    let mut pairs = 0;
    for _ in 0..input.rounds {
        let mut forces = vec![[0; 3]; size];
        for index in 0..size {
            for other in followers(index, size) {
                let force = pair(&all[index], &all[other]);
                add(&mut forces[index], force, 1);
                add(&mut forces[other], force, -1);
                pairs += 1;
            }
        }
        all = all.iter().zip(forces).map(|(molecule, force)| moved(molecule, force)).collect();
    }
    let parts = all.iter().enumerate().map(|(index, molecule)| place_digest(index, molecule));
    let units = pairs + PHASES * MOVE * size as u64 * u64::from(input.rounds);
    Answer { value: parts.fold(0, u64::wrapping_add), units }
}

#[cfg(test)]
mod tests {
    use super::followers;

    #[test]
    fn every_pair_is_one_molecules_own() {
        for all in [2, 3, 8, 9] {
            let mut pairs: Vec<(usize, usize)> = (0..all)
                .flat_map(|one| followers(one, all).map(move |other| (one.min(other), one.max(other))))
                .collect();
            pairs.sort_unstable();
            let each: Vec<(usize, usize)> =
                (0..all).flat_map(|one| (one + 1..all).map(move |other| (one, other))).collect();
            assert_eq!(pairs, each, "{all} molecules");
        }
    }
}
