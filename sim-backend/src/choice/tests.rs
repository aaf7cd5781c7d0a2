use std::collections::BTreeSet;

use super::Rng;
use super::*;

fn ask(choice: &mut impl Choice, questions: &[u64]) -> Vec<u64> {
    questions.iter().map(|&n| choice.pick("test", n)).collect()
}

#[test]
fn a_seed_gives_the_same_answers_on_every_machine() {
    // Fixed for ever: saved seeds and reports depend on these.
    let got = ask(&mut Seeded::new(1), &[10, 100, 1 << 40, u64::MAX, 3]);
    assert_eq!(got, ask(&mut Seeded::new(1), &[10, 100, 1 << 40, u64::MAX, 3]));
    let mut rng = Rng::from_seed(0);
    assert_eq!([rng.next_u64(), rng.next_u64()], SEED_0_WORDS);
}

/// Xoshiro256++ after SplitMix64 of seed 0, computed apart from this code.
const SEED_0_WORDS: [u64; 2] = [5_987_356_902_031_041_503, 7_051_070_477_665_621_255];

#[test]
fn picks_are_even() {
    let mut choice = Seeded::new(3);
    let mut seen = [0u32; 7];
    for _ in 0..70_000 {
        seen[choice.pick("test", 7) as usize] += 1;
    }
    // Five standard deviations of a binomial of 70,000 and 1/7 are 463.
    assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 463), "{seen:?}");
}

#[test]
fn a_range_that_does_not_divide_the_word_is_even_too() {
    // By plain `% n` the lower third would come up twice as often as the rest.
    let n = 3 << 62;
    let mut choice = Seeded::new(4);
    let low = (0..30_000).filter(|_| choice.pick("test", n) < 1 << 62).count();
    assert!(low.abs_diff(10_000) < 410, "{low}");
}

#[test]
fn a_question_with_one_answer_draws_nothing() {
    let (mut a, mut b) = (Seeded::new(5), Seeded::new(5));
    assert_eq!((a.pick("test", 1), a.schedule(1)), (0, 0));
    assert_eq!(a.word("test"), b.word("test"));
}

#[test]
fn the_quiet_answer_is_no_fault() {
    assert!(!First.chance("loss", 999_999));
    assert!(First.chance("loss", 1_000_000), "what always happens is no question");
    let mut choice = Seeded::new(6);
    let hits = (0..100_000).filter(|_| choice.chance("loss", 10_000)).count();
    assert!(hits.abs_diff(1_000) < 160, "{hits}");
}

#[test]
fn a_fuzzers_byte_changes_one_decision() {
    let bytes = [3, 200, 0x34, 0x12, 7];
    assert_eq!(ask(&mut Bytes::new(bytes), &[4, 256, 65_536, 5, 9]), [3, 200, 0x1234, 2, 0]);
    let mut short = Bytes::new([0xff]);
    assert_eq!(ask(&mut short, &[1 << 40, 3]), [0xff, 0]);
    assert_eq!(short.used(), 1);
}

#[test]
fn words_of_no_bytes_differ() {
    let mut none: Box<dyn Choice> = Box::new(Bytes::new([]));
    let words: BTreeSet<u64> = (0..100).map(|_| none.word("incarnation")).collect();
    assert_eq!(words.len(), 100);
}
