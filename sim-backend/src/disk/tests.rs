use super::*;
use std::collections::BTreeSet;

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

    /// The power is cut, with what is under way.
    fn crash(&mut self) {
        self.disk.crash(Some((&COSTS, &mut self.ram)));
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
fn a_write_that_finds_no_room_writes_what_fits() {
    let mut bench = Bench::new();
    bench.run(0, write(0, &[1; 28_672]));
    assert_eq!(bench.run(0, write(20_480, &[2; 20_000])).1.outcome, Err(DiskError::Full));
    assert_eq!(bench.run(0, Call::Size(A)).1.outcome, Ok(DiskDone::Size(32_768)));
    bench.disk.suffer(true, false);
    assert_eq!(bench.run(0, Call::Remove(A)).1.outcome, Ok(DiskDone::Done));
    bench.run(0, write(0, &[1; 4_096]));
    bench.disk.suffer(false, false);
    bench.disk.suffer(true, false);
    assert_eq!(bench.run(0, write(4_096, &[1])).1.outcome, Err(DiskError::Full), "full with what is taken");
    bench.disk.suffer(false, false);
    assert_eq!(bench.run(0, write(4_096, &[1])).1.outcome, Ok(DiskDone::Moved(1)));
}

#[test]
fn after_a_sync_has_failed_no_later_one_vouches_for_the_object() {
    let mut bench = Bench::new();
    bench.run(0, write(0, &[1; 8]));
    bench.disk.suffer(false, true);
    assert_eq!(bench.run(0, Call::Sync(A)).1.outcome, Err(DiskError::Io));
    assert_eq!(bench.run(0, Call::Remove(A)).1.outcome, Err(DiskError::Io));
    bench.disk.suffer(false, false);
    assert_eq!(bench.run(0, Call::Sync(A)).1.outcome, Err(DiskError::Io));
    bench.crash();
    bench.disk.draw(PowerCut::new(1));
    bench.run(0, write(0, &[1; 8]));
    assert_eq!(bench.run(0, Call::Sync(A)).1.outcome, Ok(DiskDone::Done), "the next life looks anew");
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
    bench.crash();
    bench.disk.settle();
    assert!(!bench.disk.end(id, &COSTS, &mut bench.ram));
    assert_eq!(bench.disk.take(id), None);
    assert_eq!(bench.run(0, Call::List).1.outcome, Ok(DiskDone::Objects(Vec::new())));
}

/// All that an object can have after a power cut, as far as draws find it; `None` where it is not there.
fn after_crash(bench: &Bench) -> BTreeSet<Option<Vec<u8>>> {
    let draw = |seed| {
        let mut bench = Bench { disk: bench.disk.clone(), ram: Ram(bench.ram.0.clone()) };
        bench.crash();
        bench.disk.draw(PowerCut::new(seed));
        let there = bench.disk.objects().find(|(name, _)| *name == A);
        assert_eq!(bench.disk.taken, bench.disk.objects.values().map(Object::taken).sum());
        there.map(|(_, bytes)| bytes)
    };
    (0..400).map(draw).collect()
}

fn all(of: impl IntoIterator<Item = Vec<u8>>) -> BTreeSet<Option<Vec<u8>>> {
    of.into_iter().map(Some).collect()
}

#[test]
fn a_power_cut_leaves_each_sector_as_any_write_since_the_sync_has_made_it() {
    let mut bench = Bench::new();
    bench.run(0, write(0, &[1; 1_024]));
    bench.run(0, Call::Sync(A));
    bench.run(0, write(0, &[2; 1_024]));
    bench.run(0, write(0, &[3; 512]));
    let sectors = |first, second| [[first; 512], [second; 512]].concat();
    let any = [1, 2, 3].into_iter().flat_map(|first| [1, 2].map(|second| sectors(first, second)));
    assert_eq!(after_crash(&bench), all(any));
    bench.run(0, Call::Sync(A));
    assert_eq!(after_crash(&bench), all([sectors(3, 2)]), "time makes nothing durable, and a sync all");
}

#[test]
fn an_end_may_be_there_without_the_bytes_before_it_and_bytes_without_those_before_them() {
    let mut bench = Bench::new();
    bench.run(0, write(0, &[1; 600]));
    bench.run(0, Call::Sync(A));
    bench.run(0, write(600, &[2; 500]));
    let parts = |second: &[u8], third: &[u8]| [&[1; 512], second, third].concat();
    let (old, new) = (vec![1; 88], [[1; 88].as_slice(), &[2; 424]].concat());
    let mut expected = vec![parts(&old, &[]), parts(&new, &[]), parts(&new, &[0; 76]), parts(&new, &[2; 76])];
    let old = [&old[..], &[0; 424]].concat();
    expected.extend([parts(&old, &[0; 76]), parts(&old, &[2; 76])]);
    assert_eq!(after_crash(&bench), all(expected));
}

#[test]
fn an_object_that_was_never_synced_may_not_be_there_and_one_that_was_made_is() {
    let mut bench = Bench::new();
    bench.run(0, write(0, &[1; 4]));
    assert_eq!(after_crash(&bench), [None, Some(vec![0; 4]), Some(vec![1; 4])].into());
    let mut bench = Bench::new();
    bench.run(0, Call::Create(A));
    assert_eq!(after_crash(&bench), all([Vec::new()]));
}

#[test]
fn calls_under_way_may_have_reached_the_medium_in_parts_or_not_at_all() {
    let mut bench = Bench::new();
    bench.run(0, write(0, &[1; 1_024]));
    bench.run(0, Call::Sync(A));
    bench.begin(0, write(0, &[2; 1_024]));
    let sectors = |first, second| [[first; 512], [second; 512]].concat();
    let torn = [1, 2].into_iter().flat_map(|first| [1, 2].map(|second| sectors(first, second)));
    assert_eq!(after_crash(&bench), all(torn));
    let mut bench = Bench::new();
    bench.run(0, Call::Create(A));
    bench.begin(0, Call::Remove(A));
    assert_eq!(after_crash(&bench), [None, Some(Vec::new())].into());
    let mut bench = Bench::new();
    bench.begin(0, Call::Create(A));
    assert_eq!(after_crash(&bench), [None, Some(Vec::new())].into());
}

#[test]
fn a_sync_covers_what_had_ended_when_it_began() {
    let mut bench = Bench::new();
    let (early, _) = bench.begin(0, write(0, &[1; 512]));
    bench.finish(early);
    let (late, _) = bench.begin(0, write(512, &[2; 512]));
    let (sync, _) = bench.begin(0, Call::Sync(A));
    bench.finish(late);
    assert_eq!(bench.finish(sync).outcome, Ok(DiskDone::Done));
    let ends = [vec![1; 512], [[1; 512], [0; 512]].concat(), [[1; 512], [2; 512]].concat()];
    assert_eq!(after_crash(&bench), all(ends));
}

#[test]
fn what_a_power_cut_has_left_another_one_leaves() {
    let mut bench = Bench::new();
    bench.run(0, write(0, &[1; 4_096]));
    bench.crash();
    bench.disk.draw(PowerCut::new(7));
    let left: Vec<_> = bench.disk.objects().collect();
    for seed in 0..20 {
        bench.crash();
        bench.disk.draw(PowerCut::new(seed));
        assert!(bench.disk.objects().eq(left.iter().cloned()));
    }
}
