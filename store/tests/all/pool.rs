//! Calls that threads make.

use super::Scratch;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use weft_store::{Buffer, Call, End, Pool};
use weft_verbs::{DiskDone, DiskError, ObjectName};

const A: ObjectName = ObjectName(1);

struct Bench {
    pool: Pool,
    rung: Receiver<()>,
    ended: BTreeMap<u64, End>,
    _scratch: Scratch,
}

impl Bench {
    fn new() -> Bench {
        let scratch = Scratch::new();
        let (ring, rung) = channel();
        let pool = Pool::start(Arc::new(scratch.objects()), 4, move || {
            let _ = ring.send(());
        });
        let pool = pool.unwrap();
        Bench { pool, rung, ended: BTreeMap::new(), _scratch: scratch }
    }

    /// Waits for the bell as often as it takes until a call has ended.
    fn end(&mut self, id: u64) -> End {
        loop {
            self.ended.extend(self.pool.take().into_iter().map(|end| (end.id, end)));
            match self.ended.remove(&id) {
                Some(end) => return end,
                None => self.rung.recv_timeout(Duration::from_secs(20)).expect("the bell is rung"),
            }
        }
    }

    fn run(&mut self, call: Call) -> End {
        let id = self.pool.begin(call);
        self.end(id)
    }
}

fn write(object: ObjectName, at: u64, byte: u8) -> Call {
    Call::Write { object, at, from: Buffer::Owned(vec![byte; 1_000]) }
}

#[test]
fn each_call_ends_with_its_buffer_and_rings_the_bell() {
    let mut bench = Bench::new();
    let end = bench.run(write(A, 0, 7));
    assert_eq!(end.outcome, Ok(DiskDone::Moved(1_000)));
    assert!(matches!(end.buffer, Some(Buffer::Owned(bytes)) if bytes == [7; 1_000]));
    assert_eq!(bench.run(Call::Sync(A)).outcome, Ok(DiskDone::Done));
    let end = bench.run(Call::Read { object: A, at: 500, into: Buffer::Owned(vec![1; 600]) });
    assert_eq!(end.outcome, Ok(DiskDone::Moved(500)));
    assert!(
        matches!(end.buffer, Some(Buffer::Owned(bytes)) if bytes == [[7; 500].as_slice(), &[1; 100]].concat())
    );
    assert_eq!(bench.run(Call::Create(A)).outcome, Err(DiskError::Exists(A)));
    assert_eq!(bench.run(Call::Size(A)).outcome, Ok(DiskDone::Size(1_000)));
    assert_eq!(bench.run(Call::List).outcome, Ok(DiskDone::Objects(vec![A])));
    assert_eq!(bench.run(Call::Remove(A)).outcome, Ok(DiskDone::Done));
}

#[test]
fn calls_that_are_under_way_at_once_all_end() {
    let mut bench = Bench::new();
    let ids: Vec<u64> =
        (0..200).map(|n| bench.pool.begin(write(ObjectName(n % 7), n * 1_000, n as u8))).collect();
    for id in ids {
        assert_eq!(bench.end(id).outcome, Ok(DiskDone::Moved(1_000)));
    }
    for n in 0..200 {
        let into = Buffer::Owned(vec![0; 1_000]);
        let end = bench.run(Call::Read { object: ObjectName(n % 7), at: n * 1_000, into });
        assert!(matches!(end.buffer, Some(Buffer::Owned(bytes)) if bytes == [n as u8; 1_000]), "{n}");
    }
}

#[test]
fn calls_that_nobody_waits_for_are_made_before_the_pool_is_gone() {
    let scratch = Scratch::new();
    let pool = Pool::start(Arc::new(scratch.objects()), 2, || {}).unwrap();
    for n in 0..100 {
        pool.begin(write(A, n * 1_000, 3));
    }
    drop(pool);
    assert_eq!(scratch.objects().size(A), Ok(100_000));
}
