//! Keys, ranges and rights (IBA 9.4, 9.7.4.1, 10.6).

use super::prelude::*;

cases! { "keys":
    a_wrong_remote_key_is_refused, "10.6.3.1";
    a_key_of_a_deregistered_region_is_refused, "10.6.3.1";
    one_byte_beyond_the_region_is_refused, "10.6.3.1";
    the_whole_region_may_be_reached, "10.6.3.1";
    a_region_without_the_right_refuses, "10.6.3.1";
    a_queue_pair_without_the_right_refuses, "9.9.3, table 59; 11.6.2";
    a_region_of_another_domain_refuses, "10.2.3";
    atomics_check_keys_and_rights, "10.6.3.1", needs Caps::ATOMICS;
    a_misaligned_atomic_is_refused, "9.4.5", needs Caps::ATOMICS;
    remote_rights_to_write_need_the_local_one, "10.6.3.1";
    no_answer_is_put_into_memory_that_the_adapter_may_not_write, "10.7.3.2";
    no_message_is_put_into_memory_that_the_adapter_may_not_write, "9.9.3, table 59";
    an_atomics_old_value_is_not_put_where_the_adapter_may_not_write, "10.7.3.2", needs Caps::ATOMICS;
    nothing_is_checked_where_nothing_is_moved, "9.7.4.1.5, C9-88";
    a_refused_request_changes_nothing_and_fails_both_queue_pairs, "9.9.3, table 59";
    nothing_behind_a_refused_request_is_executed, "9.9.3, table 59";
    a_region_that_goes_amid_a_write_refuses_the_rest, "10.6.3.1; 10.6.5", with HarnessCaps::STRIKE;
    a_region_that_goes_amid_a_read_refuses_the_rest, "10.6.3.1; 10.6.5", with HarnessCaps::STRIKE;
    a_region_deregistered_amid_a_write_is_not_written_on, "10.6.3.1; 10.6.5", with HarnessCaps::STRIKE;
    a_region_deregistered_amid_a_read_is_not_read_on, "10.6.3.1; 10.6.5", with HarnessCaps::STRIKE;
    keys_and_addresses_of_living_regions_differ, "10.6.3";
}

/// Runs one request towards `to` on a fresh pair of connections between the given ends, and expects it refused.
fn refused<H: Harness>(
    bed: &mut TestBed<'_, H>,
    pair: &Pair<H::V>,
    op: SendOp<'_, H::V>,
    len: u32,
    error: WcError,
    what: &str,
) -> Outcome {
    let Pair { a, b } = pair;
    let setup = Setup::new(bed);
    pair.reconnect(&setup)?;
    a.post(1, op, 0..len)?;
    bed.fails(&a.sends, 1, error).map_err(|e| e.during(what))?;
    bed.settle();
    check_eq!(a.qp.state(), QpState::Err, "{what}: the requester's state");
    check_eq!(b.qp.state(), QpState::Err, "{what}: the responder's state");
    Ok(())
}

/// A write and a read of the same remote range.
fn write_and_read<'a, V: Verbs>(at: RemoteSlice) -> [(&'static str, SendOp<'a, V>); 2] {
    [("write", SendOp::Write { to: at, imm: None }), ("read", SendOp::Read { from: at })]
}

/// Both atomics on the same remote word.
fn both_atomics<'a, V: Verbs>(at: RemoteSlice) -> [(&'static str, SendOp<'a, V>); 2] {
    [
        ("compare-and-swap", SendOp::CompareSwap { at, compare: 0, swap: 1 }),
        ("fetch-and-add", SendOp::FetchAdd { at, add: 1 }),
    ]
}

fn a_wrong_remote_key_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let right = pair.b.remote(0..64)?;
    for rkey in [!right.rkey, right.rkey ^ 1, right.rkey ^ 0x100, 0] {
        if rkey == right.rkey {
            continue;
        }
        for (what, op) in write_and_read(RemoteSlice { rkey, ..right }) {
            let what = format!("{what} with key {rkey:#x} for {:#x}", right.rkey);
            refused(bed, &pair, op, 64, WcError::RemAccess, &what)?;
        }
    }
    Ok(())
}

fn a_key_of_a_deregistered_region_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let region = pair.b.pd.alloc_mr(4096, ALL_RIGHTS)?;
    let stale = region.remote(0..64)?;
    pair.a.write(1, 0..64, stale)?;
    bed.done(&pair.a.sends, 1)?;
    drop(region);
    for (what, op) in write_and_read(stale) {
        refused(bed, &pair, op, 64, WcError::RemAccess, &format!("{what} with a dead key"))?;
    }
    // A region made in its place may have its key and its address, and lets no peer do what it gives no right to.
    let local = AccessFlags::LOCAL_WRITE;
    let mut next = pair.b.pd.alloc_mr(4096, local)?;
    for _ in 0..50 {
        drop(next);
        next = pair.b.pd.alloc_mr(4096, local)?;
    }
    for addr in [stale.addr, next.addr()] {
        for (what, op) in write_and_read(RemoteSlice { addr, ..stale }) {
            refused(bed, &pair, op, 64, WcError::RemAccess, &format!("{what} with a stale key"))?;
        }
    }
    Ok(())
}

fn one_byte_beyond_the_region_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let whole = pair.b.remote(0..pair.b.mr.len())?;
    let end = whole.addr + u64::from(whole.len);
    for (addr, len, where_) in [
        (end - 7, 8, "one byte beyond the end"),
        (end, 1, "at the end"),
        (whole.addr - 1, 8, "one byte before the beginning"),
        (whole.addr, whole.len + 1, "longer than the region"),
        (u64::MAX - 3, 8, "around the end of the address space"),
    ] {
        if len as usize > pair.a.mr.len() {
            continue;
        }
        for (what, op) in write_and_read(RemoteSlice { addr, len, rkey: whole.rkey }) {
            refused(bed, &pair, op, len, WcError::RemAccess, &format!("{what} {where_}"))?;
        }
    }
    Ok(())
}

fn the_whole_region_may_be_reached<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let size = b.mr.len();
    let data = pattern(size, 3);
    a.fill(0, &data)?;
    a.write(1, 0..size as u32, b.remote(0..size)?)?;
    bed.done(&a.sends, 1)?;
    check_eq!(b.bytes(size - 64..size)?, data[size - 64..], "the region's last bytes");
    for at in [0, size - 1] {
        a.read(2, 0..1, b.remote(at..at + 1)?)?;
        bed.done(&a.sends, 2)?;
        check_eq!(a.bytes(0..1)?, data[at..at + 1], "byte {at}");
    }
    Ok(())
}

fn a_region_without_the_right_refuses<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let local = AccessFlags::LOCAL_WRITE;
    let without = |right| (ALL_RIGHTS - right) | local;
    for rights in [local, without(AccessFlags::REMOTE_WRITE)] {
        let region = pair.b.pd.alloc_mr(64, rights)?;
        let op = SendOp::Write { to: region.remote(0..64)?, imm: None };
        refused(bed, &pair, op, 64, WcError::RemAccess, &format!("a write to a region with {rights:?}"))?;
    }
    for rights in [local, without(AccessFlags::REMOTE_READ)] {
        let region = pair.b.pd.alloc_mr(64, rights)?;
        let op = SendOp::Read { from: region.remote(0..64)? };
        refused(bed, &pair, op, 64, WcError::RemAccess, &format!("a read of a region with {rights:?}"))?;
    }
    Ok(())
}

/// IBA table 59: an operation "not set up for this" queue pair is an unsupported opcode, an invalid request;
/// not an access violation, which is about keys.
fn a_queue_pair_without_the_right_refuses<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    let all = setup.access;
    let pair = bed.pair_with(&setup)?;
    let Pair { a, b } = &pair;
    let to = b.word(0)?;
    let mut ops: Vec<(AccessFlags, SendOp<'_, H::V>)> = vec![
        (AccessFlags::REMOTE_WRITE, SendOp::Write { to, imm: None }),
        (AccessFlags::REMOTE_READ, SendOp::Read { from: to }),
    ];
    if bed.harness.capabilities().contains(Caps::ATOMICS) {
        ops.push((AccessFlags::REMOTE_ATOMIC, SendOp::FetchAdd { at: to, add: 1 }));
    }
    for (right, op) in ops {
        setup.access = all - right;
        pair.reconnect(&setup)?;
        a.post(1, op, 0..8)?;
        bed.fails(&a.sends, 1, WcError::RemInvReq).map_err(|e| e.during(format!("{right:?} missing")))?;
    }
    check_eq!(b.mr.load(0)?, 0, "the responder's memory");
    Ok(())
}

fn a_region_of_another_domain_refuses<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let elsewhere = pair.b.ctx.alloc_pd()?.alloc_mr(64, ALL_RIGHTS)?;
    for (what, op) in write_and_read(elsewhere.remote(0..64)?) {
        refused(bed, &pair, op, 64, WcError::RemAccess, &format!("{what} in another domain"))?;
    }
    Ok(())
}

fn atomics_check_keys_and_rights<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let right = pair.b.word(0)?;
    let end = pair.b.mr.addr() + pair.b.mr.len() as u64;
    let weak = pair.b.pd.alloc_mr(64, ALL_RIGHTS - AccessFlags::REMOTE_ATOMIC)?;
    let elsewhere = pair.b.ctx.alloc_pd()?.alloc_mr(64, ALL_RIGHTS)?;
    for (circumstances, at) in [
        ("with a wrong key", RemoteSlice { rkey: !right.rkey, ..right }),
        ("beyond the region", RemoteSlice { addr: end, ..right }),
        ("on a region without the right", weak.remote(0..8)?),
        ("in another domain", elsewhere.remote(0..8)?),
    ] {
        for (what, op) in both_atomics(at) {
            refused(bed, &pair, op, 8, WcError::RemAccess, &format!("{what} {circumstances}"))?;
        }
    }
    check_eq!(pair.b.mr.load(0)?, 0, "the word");
    Ok(())
}

fn a_misaligned_atomic_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    for off in [1, 4, 7] {
        for (what, op) in both_atomics(pair.b.word(off)?) {
            refused(bed, &pair, op, 8, WcError::RemInvReq, &format!("{what} at offset {off}"))?;
        }
    }
    Ok(())
}

fn remote_rights_to_write_need_the_local_one<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let end = bed.end(0, &setup)?;
    for rights in [AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_ATOMIC] {
        check_refused!(end.pd.alloc_mr(64, rights), VerbsError::Invalid(_), "a region with {rights:?} alone");
    }
    end.pd.alloc_mr(64, AccessFlags::REMOTE_READ)?;
    end.pd.alloc_mr(64, AccessFlags::empty())?;
    Ok(())
}

fn no_answer_is_put_into_memory_that_the_adapter_may_not_write<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.fill(0, &pattern(64, 1))?;
    let sealed = a.pd.alloc_mr(64, AccessFlags::REMOTE_READ)?;
    let range = [Sge { mr: &sealed, at: 0, len: 64 }];
    let op = SendOp::Read { from: b.remote(0..64)? };
    a.qp.post_send(&[SendWr { wr_id: 1, op, data: Payload::Sge(&range), flags: SendFlags::SIGNALED }])?;
    bed.fails(&a.sends, 1, WcError::LocProt)?;
    check_eq!(a.qp.state(), QpState::Err, "the requester's state");
    let mut bytes = [1; 64];
    sealed.read(0, &mut bytes)?;
    check_eq!(bytes, [0; 64], "memory without the right to write");
    Ok(())
}

/// The responder's own fault: the sender learns of it as a remote operational error.
fn no_message_is_put_into_memory_that_the_adapter_may_not_write<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.fill(0, &pattern(64, 1))?;
    let sealed = b.pd.alloc_mr(64, AccessFlags::REMOTE_READ)?;
    let range = [Sge { mr: &sealed, at: 0, len: 64 }];
    b.qp.post_recv(&[RecvWr { wr_id: 2, data: &range }])?;
    a.send(1, 0..64)?;
    bed.fails(&a.sends, 1, WcError::RemOp)?;
    bed.fails(&b.recvs, 2, WcError::LocProt)?;
    check_eq!(b.qp.state(), QpState::Err, "the receiver's state");
    let mut bytes = [1; 64];
    sealed.read(0, &mut bytes)?;
    check_eq!(bytes, [0; 64], "memory without the right to write");
    Ok(())
}

fn an_atomics_old_value_is_not_put_where_the_adapter_may_not_write<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.mr.store(0, 77)?;
    let sealed = a.pd.alloc_mr(64, AccessFlags::REMOTE_READ)?;
    let range = [Sge { mr: &sealed, at: 0, len: 8 }];
    let op = SendOp::FetchAdd { at: b.word(0)?, add: 1 };
    a.qp.post_send(&[SendWr { wr_id: 1, op, data: Payload::Sge(&range), flags: SendFlags::SIGNALED }])?;
    bed.fails(&a.sends, 1, WcError::LocProt)?;
    check_eq!(sealed.load(0)?, 0, "memory without the right to write");
    Ok(())
}

fn nothing_is_checked_where_nothing_is_moved<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let nowhere = RemoteSlice { addr: 3, len: 0, rkey: 0xdead_beef };
    let empty = [a.sge(0..0)];
    for (wr_id, (what, op)) in write_and_read(nowhere).into_iter().enumerate() {
        for data in [Payload::None, Payload::Sge(&[]), Payload::Sge(&empty)] {
            a.qp.post_send(&[SendWr { wr_id: wr_id as u64, op, data, flags: SendFlags::SIGNALED }])?;
            let done = bed.done(&a.sends, wr_id as u64).map_err(|e| e.during(what))?;
            check_eq!(done.len, 0, "bytes moved by an empty {what}");
        }
    }
    check_eq!(b.qp.state(), QpState::Rts, "the responder's state");
    Ok(())
}

fn a_refused_request_changes_nothing_and_fails_both_queue_pairs<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.fill(0, &pattern(4096, 1))?;
    b.recv(50, 0..8)?;
    // Several packets long, and only the last byte is beyond the region: checked before any is written.
    let mut to = b.remote(b.mr.len() - 4095..b.mr.len())?;
    to.len = 4096;
    a.write(1, 0..4096, to)?;
    a.send(2, 0..8)?;
    bed.fails(&a.sends, 1, WcError::RemAccess)?;
    bed.fails(&a.sends, 2, WcError::Flush)?;
    bed.fails(&b.recvs, 50, WcError::Flush)?;
    check_eq!((a.qp.state(), b.qp.state()), (QpState::Err, QpState::Err), "both states");
    check_eq!(b.bytes(b.mr.len() - 4095..b.mr.len())?, vec![0; 4095], "the responder's memory");
    Ok(())
}

/// The refusal waits behind a long answer; what comes meanwhile is not executed.
fn nothing_behind_a_refused_request_is_executed<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const LEN: u32 = 60_000;
    let Pair { a, b } = bed.pair()?;
    a.fill(65_000, &[1; 8])?;
    let word = b.word(65_000)?;
    a.read(1, 0..LEN, b.remote(0..LEN as usize)?)?;
    a.write(2, 65_000..65_008, RemoteSlice { rkey: !word.rkey, ..word })?;
    for i in 3..20 {
        a.write(i, 65_000..65_008, word)?;
    }
    bed.done(&a.sends, 1)?;
    bed.fails(&a.sends, 2, WcError::RemAccess)?;
    for i in 3..20 {
        bed.fails(&a.sends, i, WcError::Flush)?;
    }
    bed.settle();
    check_eq!(b.mr.load(65_000)?, 0, "the word that later writes were aimed at");
    Ok(())
}

/// Bytes of an operation amid which its target goes.
const LONG: u32 = 1 << 20;

type MrOf<H> = <<H as Harness>::V as Verbs>::Mr;

/// A long operation of which some packets are on their way, and its target.
fn amid<H: Harness>(bed: &mut TestBed<'_, H>, reading: bool) -> Outcome<(Pair<H::V>, MrOf<H>)> {
    let mut setup = Setup::new(bed);
    setup.memory = LONG as usize;
    let pair = bed.pair_with(&setup)?;
    let region = pair.b.pd.alloc_mr(LONG as usize, ALL_RIGHTS)?;
    let there = region.remote(0..LONG as usize)?;
    if !reading {
        pair.a.fill(0, &pattern(LONG as usize, 1))?;
    }
    let passed = if reading {
        bed.strike((1, 0), PacketClass::ReadResponse, u64::MAX, Act::Pass)?
    } else {
        bed.strike((0, 1), PacketClass::Request, u64::MAX, Act::Pass)?
    };
    let op = if reading { SendOp::Read { from: there } } else { SendOp::Write { to: there, imm: None } };
    pair.a.post(1, op, 0..LONG)?;
    bed.until_struck(passed, 5)?;
    Ok((pair, region))
}

fn the_rest_is_refused<H: Harness>(bed: &mut TestBed<'_, H>, pair: &Pair<H::V>) -> Outcome {
    bed.fails(&pair.a.sends, 1, WcError::RemAccess)?;
    bed.settle();
    check_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Err, QpState::Err), "both states");
    Ok(())
}

/// Drops the target of an operation once some of its packets are on their way.
fn goes_amid<H: Harness>(bed: &mut TestBed<'_, H>, reading: bool) -> Outcome {
    let (pair, region) = amid(bed, reading)?;
    drop(region);
    the_rest_is_refused(bed, &pair)
}

fn a_region_that_goes_amid_a_write_refuses_the_rest<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    goes_amid(bed, false)
}

fn a_region_that_goes_amid_a_read_refuses_the_rest<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    goes_amid(bed, true)
}

/// The owner keeps its handle, and finds unchanged what it has taken from its peers.
fn a_region_deregistered_amid_a_write_is_not_written_on<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (pair, region) = amid(bed, false)?;
    region.deregister()?;
    let (mut then, mut later) = (vec![0; LONG as usize], vec![0; LONG as usize]);
    region.read(0, &mut then)?;
    the_rest_is_refused(bed, &pair)?;
    region.read(0, &mut later)?;
    check!(then == later, "the memory changed after it was deregistered");
    Ok(())
}

/// The owner keeps its handle, and what it writes from then on no peer reads.
fn a_region_deregistered_amid_a_read_is_not_read_on<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const SECRET: u8 = 7;
    let (pair, region) = amid(bed, true)?;
    region.deregister()?;
    region.write(0, &vec![SECRET; LONG as usize])?;
    the_rest_is_refused(bed, &pair)?;
    let seen = pair.a.bytes(0..LONG as usize)?;
    check!(!seen.contains(&SECRET), "a peer read what was written after the region was deregistered");
    Ok(())
}

fn keys_and_addresses_of_living_regions_differ<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let end = bed.end(0, &setup)?;
    let regions: Vec<_> = (0..32).map(|_| end.pd.alloc_mr(100, ALL_RIGHTS)).collect::<Result<_>>()?;
    for (i, one) in regions.iter().enumerate() {
        for other in &regions[..i] {
            check!(one.rkey() != other.rkey(), "two regions have remote key {:#x}", one.rkey());
            check!(one.lkey() != other.lkey(), "two regions have local key {:#x}", one.lkey());
            let apart = one.addr() + 100 <= other.addr() || other.addr() + 100 <= one.addr();
            check!(apart, "regions overlap at {:#x} and {:#x}", one.addr(), other.addr());
        }
    }
    Ok(())
}
