//! When a processor sees what its adapter wrote: late, line by line, and with a completion for certain.

use crate::common::*;
use weft_sim::choice::Seeded;
use weft_sim::{Config, Fabric, SimMr};
use weft_verbs::*;

const MOST: Nanos = Nanos(5_000);
const LEN: usize = 4_096;

fn world(seed: u64, visibility: Nanos) -> (Fabric, Side, Side) {
    let config = Config { visibility, sanitize: false, ..Config::new(2, profile()) };
    let fabric = fabric_with(config, Box::new(Seeded::new(seed)));
    let (a, b) = connected(&fabric);
    (fabric, a, b)
}

/// Posts a write of `LEN` bytes of one value to the start of the peer's region.
fn write(a: &Side, b: &Side, wr_id: u64, value: u8) {
    let at = value as u32 * LEN as u32;
    a.mr.write(at as usize, &[value; LEN]).unwrap();
    let to = b.remote(0, LEN);
    a.post(wr_id, SendOp::Write { to, imm: None }, at, LEN as u32, SendFlags::SIGNALED);
}

fn bytes(mr: &SimMr) -> Vec<u8> {
    let mut seen = vec![0; LEN];
    mr.read(0, &mut seen).unwrap();
    seen
}

/// Runs until a side has a completion.
fn wait(fabric: &Fabric, side: &Side) -> WorkCompletion {
    for _ in 0..100_000 {
        if let Some(done) = side.polled().first() {
            return *done;
        }
        run(fabric, Nanos(50));
    }
    panic!("no completion");
}

#[test]
fn an_acknowledgement_may_come_before_the_data_is_seen_and_in_parts() {
    let (mut late, mut partial) = (0, 0);
    for seed in 0..40 {
        let (fabric, a, b) = world(seed, MOST);
        write(&a, &b, 1, 7);
        assert!(wait(&fabric, &a).result.is_ok());
        let seen = bytes(&b.mr);
        for line in seen.chunks(64) {
            assert!(line.iter().all(|byte| *byte == line[0]), "a line is seen as a whole");
        }
        late += u32::from(seen.contains(&0));
        partial += u32::from(seen.contains(&0) && seen.contains(&7));
        run(&fabric, MOST);
        assert_eq!(bytes(&b.mr), [7; LEN], "seed {seed}: seen in the end");
    }
    assert!(late > 10 && partial > 10, "{late} late, {partial} in parts, of 40");
}

#[test]
fn without_that_setting_data_is_seen_at_once() {
    for seed in 0..10 {
        let (fabric, a, b) = world(seed, Nanos::ZERO);
        write(&a, &b, 1, 7);
        wait(&fabric, &a);
        assert_eq!(bytes(&b.mr), [7; LEN]);
    }
}

#[test]
fn a_completion_says_that_everything_before_it_is_there() {
    for seed in 0..40 {
        let (fabric, a, b) = world(seed, MOST);
        for (wr_id, imm) in [(1, None), (2, Some(9))] {
            write(&a, &b, wr_id, wr_id as u8);
            b.recv(7, 32_768, 64);
            let op = match imm {
                None => SendOp::Send { imm },
                Some(_) => SendOp::Write { to: b.remote(40_000, 8), imm },
            };
            a.post(10, op, 0, 8, SendFlags::empty());
            assert!(wait(&fabric, &b).result.is_ok());
            assert_eq!(bytes(&b.mr), [wr_id as u8; LEN], "seed {seed}");
            wait(&fabric, &a);
        }
    }
}

#[test]
fn what_a_request_brings_is_there_with_its_completion() {
    for seed in 0..20 {
        let (fabric, a, b) = world(seed, MOST);
        b.mr.write(0, &[5; LEN]).unwrap();
        a.post(1, SendOp::Read { from: b.remote(0, LEN) }, 0, LEN as u32, SendFlags::SIGNALED);
        wait(&fabric, &a);
        assert_eq!(bytes(&a.mr), [5; LEN]);
        a.post(2, SendOp::FetchAdd { at: b.remote(8, 8), add: 1 }, 8_192, 8, SendFlags::SIGNALED);
        wait(&fabric, &a);
        assert_eq!(a.mr.load(8_192).unwrap(), 0x0505_0505_0505_0505);
    }
}

#[test]
fn an_atomic_that_is_seen_says_that_the_writes_before_it_are_there() {
    for seed in 0..40 {
        let (fabric, a, b) = world(seed, MOST);
        write(&a, &b, 1, 3);
        a.post(2, SendOp::FetchAdd { at: b.remote(8_192, 8), add: 1 }, 40_000, 8, SendFlags::SIGNALED);
        while b.mr.load(8_192).unwrap() == 0 {
            run(&fabric, Nanos(50));
        }
        assert_eq!(bytes(&b.mr), [3; LEN], "seed {seed}");
    }
}

#[test]
fn adapters_see_what_adapters_wrote() {
    for seed in 0..20 {
        let (fabric, a, b) = world(seed, Nanos::from_millis(1));
        write(&a, &b, 1, 6);
        a.post(2, SendOp::Read { from: b.remote(0, LEN) }, 32_768, LEN as u32, SendFlags::SIGNALED);
        settle(&fabric);
        assert!(a.polled().iter().all(|done| done.result.is_ok()));
        let mut seen = vec![0; LEN];
        a.mr.read(32_768, &mut seen).unwrap();
        assert_eq!(seen, [6; LEN]);
    }
}

#[test]
fn a_word_never_goes_back() {
    for seed in 0..40 {
        let (fabric, a, b) = world(seed, MOST);
        for value in 1..=4 {
            write(&a, &b, value.into(), value);
        }
        let mut last = vec![0; LEN];
        for _ in 0..800 {
            run(&fabric, Nanos(50));
            let seen = bytes(&b.mr);
            assert!(seen.iter().zip(&last).all(|(now, before)| now >= before), "seed {seed}");
            last = seen;
        }
        assert_eq!(last, [4; LEN], "seed {seed}");
    }
}

#[test]
fn a_processor_sees_its_own_stores() {
    for seed in 0..20 {
        let (fabric, a, b) = world(seed, Nanos::from_millis(1));
        write(&a, &b, 1, 7);
        wait(&fabric, &a);
        b.mr.store(128, 42).unwrap();
        assert_eq!(b.mr.load(128).unwrap(), 42);
        run(&fabric, Nanos::from_millis(2));
        assert_eq!(b.mr.load(128).unwrap(), 42);
    }
}
