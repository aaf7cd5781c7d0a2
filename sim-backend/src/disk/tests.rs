use super::*;

const COSTS: profile::Disk = profile::Disk {
    access_ns: 1_000,
    bytes_per_second: 1_000_000_000,
    sync_ns: 500,
    depth: 2,
    cache_bytes: 8_192,
    cache_ns_per_kib: 100,
    read_cpu_ns_per_kib: 0,
    write_cpu_ns_per_kib: 0,
    capacity_bytes: 32_768,
};

const A: ObjectName = ObjectName(1);

/// The one region, of nobody's size.
struct Ram(Vec<u8>);

impl Memory<()> for Ram {
    fn read(&mut self, (): &(), at: usize, out: &mut [u8]) -> bool {
        out.copy_from_slice(&self.0[at..at + out.len()]);
        true
    }
    fn write(&mut self, (): &(), at: usize, bytes: &[u8]) -> bool {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        true
    }
}

struct Bench {
    disk: Disk<()>,
    ram: Ram,
}

impl Bench {
    fn new() -> Bench {
        Bench { disk: Disk::default(), ram: Ram(vec![0; 1 << 16]) }
    }

    fn begin(&mut self, at: u64, call: Call<()>) -> (u32, u64) {
        let (id, end) = self.disk.begin(Nanos(at), call, &COSTS);
        (id, end.0)
    }

    fn finish(&mut self, id: u32) -> End {
        self.disk.end(id, &COSTS, &mut self.ram);
        self.disk.take(id).expect("it ended")
    }

    fn run(&mut self, at: u64, call: Call<()>) -> (u64, End) {
        let (id, end) = self.begin(at, call);
        (end, self.finish(id))
    }
}

fn write(at: u64, bytes: &[u8]) -> Call<()> {
    Call::Write { object: A, at, from: Buffer::Owned(bytes.to_vec()) }
}

fn read(at: u64, len: usize) -> Call<()> {
    Call::Read { object: A, at, into: Buffer::Owned(vec![9; len]) }
}

#[test]
fn bytes_that_were_never_written_are_zero_and_those_behind_the_end_are_left_alone() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(0, read(0, 4)).1.outcome, Err(DiskError::NoObject(A)));
    bench.run(0, write(5_000, &[7; 10]));
    let (_, end) = bench.run(0, read(4_998, 20));
    assert_eq!(end.outcome, Ok(DiskDone::Moved(12)));
    assert_eq!(end.bytes, Some([[0; 2].as_slice(), &[7; 10], &[9; 8]].concat()));
    assert_eq!(bench.run(0, Call::Size(A)).1.outcome, Ok(DiskDone::Size(5_010)));
}

#[test]
fn a_write_is_fast_until_the_cache_is_full_and_a_sync_waits_for_the_medium() {
    let mut bench = Bench::new();
    let (first, _) = bench.run(0, write(0, &[1; 8_192]));
    assert_eq!(first, 800, "eight KiB into the cache");
    let (second, _) = bench.run(0, write(8_192, &[1; 8_192]));
    assert_eq!(second, 8_192, "the cache has room when the medium has the first");
    let (synced, _) = bench.run(0, Call::Sync(A));
    assert_eq!(synced, 16_384 + 500);
}

#[test]
fn a_read_beyond_the_cache_pays_the_access_and_no_more_than_the_depth_run_at_once() {
    let mut bench = Bench::new();
    bench.run(0, write(0, &[1; 16_384]));
    let ends: Vec<u64> = (0..3).map(|_| bench.begin(100_000, read(0, 1_024)).1).collect();
    assert_eq!(ends, [102_024, 103_048, 104_072], "one stream; the third waits for a place");
    let mut small = Bench::new();
    small.run(0, write(0, &[1; 100]));
    assert_eq!(small.run(100_000, read(0, 100)).0, 100_010, "from the cache");
}

#[test]
fn a_full_disk_refuses_and_is_emptied_by_removing() {
    let mut bench = Bench::new();
    bench.run(0, write(0, &[1; 32_768]));
    assert_eq!(bench.run(0, write(32_768, &[1])).1.outcome, Err(DiskError::Full));
    assert_eq!(
        bench.run(0, write(5, &[1])).1.outcome,
        Ok(DiskDone::Moved(1)),
        "what is there can be written"
    );
    assert_eq!(bench.run(0, Call::Remove(A)).1.outcome, Ok(DiskDone::Done));
    assert_eq!(bench.run(0, write(32_768, &[1])).1.outcome, Ok(DiskDone::Moved(1)));
}

#[test]
fn a_broken_disk_fails_transfers_and_a_position_beyond_two_to_the_63_is_none() {
    let mut bench = Bench::new();
    let far = u64::MAX - 1;
    assert_eq!(bench.run(0, write(far, &[1; 2])).1.outcome, Err(DiskError::Position { at: far, len: 2 }));
    bench.run(0, write(0, &[1; 8]));
    bench.disk.broken = true;
    for call in [write(0, &[2]), read(0, 1), Call::Sync(A)] {
        assert_eq!(bench.run(0, call).1.outcome, Err(DiskError::Io));
    }
    bench.disk.broken = false;
    assert_eq!(bench.run(0, read(0, 1)).1.bytes, Some(vec![1]));
}

#[test]
fn a_write_takes_its_bytes_when_it_ends_or_when_nobody_holds_them_any_more() {
    let region = |at| Call::Write { object: A, at, from: Buffer::Region { region: (), at: 0, len: 4 } };
    let mut bench = Bench::new();
    let (first, _) = bench.begin(0, region(0));
    let (second, _) = bench.begin(0, region(4));
    bench.ram.0[..4].fill(1);
    let Bench { disk, ram, .. } = &mut bench;
    disk.abandon(second, ram);
    ram.0[..4].fill(2);
    disk.end(second, &COSTS, ram);
    assert_eq!(bench.finish(first).outcome, Ok(DiskDone::Moved(4)));
    let (_, end) = bench.run(0, read(0, 8));
    assert_eq!(end.bytes, Some(vec![2, 2, 2, 2, 1, 1, 1, 1]));
}

#[test]
fn a_crash_forgets_what_was_under_way() {
    let mut bench = Bench::new();
    let (id, _) = bench.begin(0, write(0, &[1]));
    bench.disk.crash(Nanos(0));
    assert!(!bench.disk.end(id, &COSTS, &mut bench.ram));
    assert_eq!(bench.disk.take(id), None);
    assert_eq!(bench.run(0, Call::List).1.outcome, Ok(DiskDone::Objects(Vec::new())));
}

/// What an object has after a crash that kept these sectors of unsynced writes, counted over all of them.
fn after_crash(bench: &mut Bench, kept: &[u32]) -> Option<Vec<u8>> {
    bench.disk.crash(Nanos(0));
    let mut sector = 0;
    bench.disk.decide(|_| {
        sector += 1;
        kept.contains(&(sector - 1))
    });
    let Ok(DiskDone::Size(size)) = bench.run(0, Call::Size(A)).1.outcome else { return None };
    bench.run(0, read(0, size as usize)).1.bytes
}

#[test]
fn a_crash_keeps_what_was_synced_and_each_other_sector_by_choice() {
    let written = || {
        let mut bench = Bench::new();
        bench.run(0, write(0, &[1; 600]));
        bench.run(0, Call::Sync(A));
        bench.run(0, write(500, &[2; 600]));
        bench.run(0, write(0, &[3; 4]));
        bench
    };
    let synced = vec![1; 600];
    assert_eq!(after_crash(&mut written(), &[]), Some(synced.clone()));
    // Sectors of the second write: 500 to 511, 512 to 1023, 1024 to 1099; then that of the third.
    let last = [&synced[..], &[0; 424], &[2; 76]].concat();
    assert_eq!(after_crash(&mut written(), &[2]), Some(last), "a hole is zero");
    let first = [&[3; 4][..], &[1; 496], &[2; 12], &[1; 88]].concat();
    assert_eq!(after_crash(&mut written(), &[0, 3]), Some(first));
    assert_eq!(after_crash(&mut written(), &[0, 1, 2, 3]).map(|bytes| bytes.len()), Some(1_100));
}

#[test]
fn a_sync_covers_what_had_ended_when_it_began() {
    let mut bench = Bench::new();
    let (early, _) = bench.begin(0, write(0, &[1; 4]));
    bench.finish(early);
    let (late, _) = bench.begin(0, write(4, &[2; 4]));
    let (sync, _) = bench.begin(0, Call::Sync(A));
    bench.finish(late);
    assert_eq!(bench.finish(sync).outcome, Ok(DiskDone::Done));
    assert_eq!(after_crash(&mut bench, &[]), Some(vec![1; 4]));
}

#[test]
fn what_the_medium_has_survives_and_an_object_that_was_never_synced_may_not() {
    let mut bench = Bench::new();
    bench.run(0, write(0, &[1; 512]));
    assert_eq!(after_crash(&mut bench, &[]), None);
    bench.run(0, write(0, &[1; 512]));
    // A byte takes a nanosecond to the medium.
    bench.disk.crash(Nanos(5_000));
    assert!(bench.disk.undecided().is_empty());
    assert_eq!(bench.run(0, Call::Size(A)).1.outcome, Ok(DiskDone::Size(512)));
}
