//! Memory regions: bounds, alignment, and how long they live (IBA 10.6, the contract's `MemoryRegion`).

use super::prelude::*;

cases! { "memory":
    a_new_region_is_zeroed_and_named, "contract, alloc_mr";
    a_region_for_which_no_machine_has_memory_is_refused, "contract, alloc_mr";
    copies_stay_within_the_region, "contract, MemoryRegion";
    words_are_aligned_and_within_the_region, "contract, MemoryRegion";
    words_and_bytes_are_the_same_memory, "contract, MemoryRegion";
    a_remote_range_stays_within_the_region, "contract, MemoryRegion";
    a_region_lives_while_a_handle_does, "contract, MemoryRegion";
    a_region_lives_while_a_request_holds_it, "contract, MemoryRegion";
    a_destroyed_queue_pair_lets_its_regions_go, "contract, QueuePair";
    a_reset_queue_pair_lets_its_regions_go, "contract, Modify::Reset";
    a_region_outlives_its_domains_handle, "contract, parents";
    brought_memory_serves_like_any_other, "10.6.3", needs Caps::BROUGHT_MEMORY;
    brought_memory_keeps_what_was_in_it, "10.6.3", needs Caps::BROUGHT_MEMORY;
    brought_memory_is_given_back, "contract, register", needs Caps::BROUGHT_MEMORY;
}

fn a_new_region_is_zeroed_and_named<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let end = bed.end(0, &setup)?;
    for len in [1, 8, 4_095, 4_096, 100_000] {
        let mr = end.pd.alloc_mr(len, ALL_RIGHTS)?;
        let mut bytes = vec![1; len];
        mr.read(0, &mut bytes)?;
        check!(bytes.iter().all(|b| *b == 0), "a new region of {len} bytes is not zeroed");
        check_eq!((mr.len(), mr.is_empty()), (len, false), "its length");
        check_eq!(mr.addr() % 4_096, 0, "its address's place in a page");
        let remote = mr.remote(0..len)?;
        let expected = RemoteSlice { addr: mr.addr(), len: len as u32, rkey: mr.rkey() };
        check_eq!(remote, expected, "its whole range, as a peer needs it");
    }
    Ok(())
}

fn a_region_for_which_no_machine_has_memory_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    // More than an address space has.
    let Ok(len) = usize::try_from(1_u64 << 48) else { return Ok(()) };
    check!(bed.end(0, &setup)?.pd.alloc_mr(len, ALL_RIGHTS).is_err(), "a region of {len} bytes was made");
    Ok(())
}

fn copies_stay_within_the_region<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let mr = bed.end(0, &setup)?.pd.alloc_mr(100, ALL_RIGHTS)?;
    for (at, len) in [(93, 8), (100, 1), (101, 0), (0, 101), (usize::MAX, 1), (usize::MAX - 3, 8)] {
        let mut bytes = vec![7; len];
        check_refused!(mr.write(at, &bytes), VerbsError::OutOfRange { .. }, "a write of {at}+{len} of 100");
        check_refused!(mr.read(at, &mut bytes), VerbsError::OutOfRange { .. }, "a read of {at}+{len} of 100");
        check!(bytes.iter().all(|b| *b == 7), "a refused read changed its buffer");
    }
    mr.write(92, &pattern(8, 1))?;
    let mut bytes = [0; 9];
    mr.read(91, &mut bytes)?;
    check_eq!(bytes[1..], pattern(8, 1)[..], "the last 8 bytes");
    mr.write(100, &[])?;
    Ok(())
}

fn words_are_aligned_and_within_the_region<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let mr = bed.end(0, &setup)?.pd.alloc_mr(100, ALL_RIGHTS)?;
    for at in [1, 4, 7, 9, 91] {
        check_refused!(mr.load(at), VerbsError::Misaligned { .. }, "a load at {at}");
        check_refused!(mr.store(at, 1), VerbsError::Misaligned { .. }, "a store at {at}");
    }
    for at in [96, 104, usize::MAX - 7] {
        check_refused!(mr.load(at), VerbsError::OutOfRange { .. }, "a load at {at} of 100");
        check_refused!(mr.store(at, 1), VerbsError::OutOfRange { .. }, "a store at {at} of 100");
    }
    mr.store(88, u64::MAX - 5)?;
    check_eq!(mr.load(88)?, u64::MAX - 5, "the last word");
    Ok(())
}

fn words_and_bytes_are_the_same_memory<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let mr = bed.end(0, &setup)?.pd.alloc_mr(64, ALL_RIGHTS)?;
    mr.store(8, 0x0123_4567_89ab_cdef)?;
    let mut bytes = [0; 8];
    mr.read(8, &mut bytes)?;
    check_eq!(bytes, 0x0123_4567_89ab_cdef_u64.to_ne_bytes(), "a stored word's bytes");
    mr.write(16, &77u64.to_ne_bytes())?;
    check_eq!((mr.load(16)?, mr.load(24)?), (77, 0), "written bytes as words");
    Ok(())
}

fn a_remote_range_stays_within_the_region<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let mr = bed.end(0, &setup)?.pd.alloc_mr(100, ALL_RIGHTS)?;
    for range in [0..101, 100..101, 101..101, usize::MAX - 1..usize::MAX] {
        check_refused!(mr.remote(range.clone()), VerbsError::OutOfRange { .. }, "bytes {range:?} of 100");
    }
    #[allow(clippy::reversed_empty_ranges, reason = "the caller's mistake that is to be refused")]
    let backwards = 50..40;
    check!(mr.remote(backwards).is_err(), "a range that ends before it begins");
    check_eq!(mr.remote(40..50)?.addr, mr.addr() + 40, "the address of byte 40");
    check_eq!(mr.remote(100..100)?.len, 0, "the empty range at the end");
    Ok(())
}

/// Whether a peer can still reach a region.
fn reachable<H: Harness>(bed: &mut TestBed<'_, H>, probe: &Pair<H::V>, to: RemoteSlice) -> Outcome<bool> {
    let setup = Setup::new(bed);
    probe.reconnect(&setup)?;
    probe.a.write(1, 0..to.len, to)?;
    match bed.completion(&probe.a.sends)?.result {
        Ok(_) => Ok(true),
        Err(WcError::RemAccess) => Ok(false),
        Err(other) => Err(Failure::new(format!("a probing write failed with {other:?}"))),
    }
}

fn a_region_lives_while_a_handle_does<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let probe = bed.pair()?;
    let first = probe.b.pd.alloc_mr(64, ALL_RIGHTS)?;
    let (second, to) = (first.clone(), first.remote(0..8)?);
    check_eq!((first.rkey(), first.addr()), (second.rkey(), second.addr()), "key and address of a clone");
    drop(first);
    check!(reachable(bed, &probe, to)?, "a region with a living handle is gone");
    drop(second);
    check!(!reachable(bed, &probe, to)?, "a region without handles lives on");
    Ok(())
}

fn a_region_lives_while_a_request_holds_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (Pair { a, b }, probe) = (bed.pair()?, bed.pair()?);
    let into = b.pd.alloc_mr(64, ALL_RIGHTS)?;
    b.qp.post_recv(&[RecvWr { wr_id: 1, data: &[Sge { mr: &into, at: 0, len: 64 }] }])?;
    drop(into);
    let from = a.pd.alloc_mr(64, ALL_RIGHTS)?;
    from.write(0, &pattern(64, 1))?;
    let data = [Sge { mr: &from, at: 0, len: 64 }];
    a.qp.post_send(&[SendWr {
        wr_id: 2,
        op: SendOp::Send { imm: None },
        data: Payload::Sge(&data),
        flags: SendFlags::SIGNALED,
    }])?;
    drop(from);
    check_eq!(bed.done(&b.recvs, 1)?.len, 64, "a message between regions without handles");
    bed.done(&a.sends, 2)?;
    // The domain of `probe` differs, so a region of its own shows that completion lets go.
    let held = probe.b.pd.alloc_mr(64, ALL_RIGHTS)?;
    let to = held.remote(0..8)?;
    probe.b.qp.post_recv(&[RecvWr { wr_id: 3, data: &[Sge { mr: &held, at: 0, len: 64 }] }])?;
    drop(held);
    probe.a.send(4, 0..8)?;
    bed.done(&probe.b.recvs, 3)?;
    bed.done(&probe.a.sends, 4)?;
    check!(!reachable(bed, &probe, to)?, "a region lives on after its last request completed");
    Ok(())
}

/// A queue pair in Init that holds the only claim on a region of the probe's domain.
fn holder<H: Harness>(bed: &mut TestBed<'_, H>, probe: &Pair<H::V>) -> Outcome<(End<H::V>, RemoteSlice)> {
    let setup = Setup::new(bed);
    let region = probe.b.pd.alloc_mr(64, ALL_RIGHTS)?;
    let (sends, recvs) = (probe.b.ctx.create_cq(8, None)?, probe.b.ctx.create_cq(8, None)?);
    let end = bed.end_on(1, probe.b.pd.clone(), sends, recvs, &setup)?;
    end.qp.modify(&end.to_init(&setup))?;
    end.qp.post_recv(&[RecvWr { wr_id: 1, data: &[Sge { mr: &region, at: 0, len: 64 }] }])?;
    let to = region.remote(0..8)?;
    Ok((end, to))
}

fn a_destroyed_queue_pair_lets_its_regions_go<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let probe = bed.pair()?;
    let (end, to) = holder(bed, &probe)?;
    check!(reachable(bed, &probe, to)?, "a region that a receive holds is gone");
    drop(end);
    check!(!reachable(bed, &probe, to)?, "a region lives on after its queue pair");
    Ok(())
}

fn a_reset_queue_pair_lets_its_regions_go<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let probe = bed.pair()?;
    let (end, to) = holder(bed, &probe)?;
    end.qp.modify(&Modify::Reset)?;
    check!(!reachable(bed, &probe, to)?, "a region lives on after its queue pair was reset");
    Ok(())
}

fn a_region_outlives_its_domains_handle<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let Pair { a, b } = bed.pair_with(&setup)?;
    let End { qp, mr, sends, pd, ctx, .. } = a;
    drop((pd, ctx));
    let data = [Sge { mr: &mr, at: 0, len: 8 }];
    let op = SendOp::Write { to: b.word(0)?, imm: None };
    qp.post_send(&[SendWr { wr_id: 1, op, data: Payload::Sge(&data), flags: SendFlags::SIGNALED }])?;
    bed.done(&sends, 1)?;
    Ok(())
}

/// A region of memory that the harness brings, on the second node of a pair.
fn brought<H: Harness>(
    bed: &mut TestBed<'_, H>,
    pair: &Pair<H::V>,
    len: usize,
) -> Outcome<<H::V as Verbs>::Mr> {
    let memory = bed
        .harness
        .brought_memory(len)
        .ok_or_else(|| Failure::new("the harness names the capability and brings no memory"))?;
    check_eq!(memory.len(), len, "the length of the memory that the harness brought");
    Ok(pair.b.pd.register(memory, ALL_RIGHTS)?)
}

fn brought_memory_serves_like_any_other<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let mr = brought(bed, &pair, 8_192)?;
    let data = pattern(3_000, 1);
    pair.a.fill(0, &data)?;
    pair.b.qp.post_recv(&[RecvWr { wr_id: 1, data: &[Sge { mr: &mr, at: 64, len: 3_000 }] }])?;
    pair.a.send(2, 0..3_000)?;
    bed.done(&pair.b.recvs, 1)?;
    bed.done(&pair.a.sends, 2)?;
    pair.a.write(3, 0..3_000, mr.remote(4_096..7_096)?)?;
    pair.a.read(4, 10_000..13_000, mr.remote(4_096..7_096)?)?;
    bed.done(&pair.a.sends, 3)?;
    bed.done(&pair.a.sends, 4)?;
    let mut seen = vec![0; 3_000];
    mr.read(64, &mut seen)?;
    check!(seen == data, "the message changed");
    check!(pair.a.bytes(10_000..13_000)? == data, "what was written and read back changed");
    check_refused!(mr.load(8_192), VerbsError::OutOfRange { .. }, "a load beyond brought memory");
    Ok(())
}

fn brought_memory_keeps_what_was_in_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let memory = bed.harness.brought_memory(64).ok_or_else(|| Failure::new("no memory was brought"))?;
    let mr = pair.b.pd.register(memory, ALL_RIGHTS)?;
    mr.store(0, 9)?;
    pair.a.read(1, 0..8, mr.remote(0..8)?)?;
    bed.done(&pair.a.sends, 1)?;
    check_eq!(pair.a.mr.load(0)?, 9, "what the owner had stored");
    Ok(())
}

fn brought_memory_is_given_back<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let probe = bed.pair()?;
    let mr = brought(bed, &probe, 64)?;
    let to = mr.remote(0..8)?;
    check!(reachable(bed, &probe, to)?, "brought memory cannot be reached");
    drop(mr);
    check!(!reachable(bed, &probe, to)?, "brought memory can be reached after its region is gone");
    Ok(())
}
