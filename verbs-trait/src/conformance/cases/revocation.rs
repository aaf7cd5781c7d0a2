//! The revocation of a region: an act that returns when nothing can reach the memory any more (the contract's
//! [`MemoryRegion::deregister`](crate::MemoryRegion::deregister); IBA 10.6.5).

use super::prelude::*;

cases! { "revocation":
    a_deregistered_region_is_out_of_reach, "10.6.5; 10.6.3.1";
    a_deregistered_region_is_out_of_reach_of_atomics, "10.6.5; 10.6.3.1", needs Caps::ATOMICS;
    its_owner_keeps_what_peers_left_in_it, "contract, deregister";
    nothing_more_is_posted_with_a_deregistered_region, "contract, deregister";
    a_region_that_a_request_holds_is_not_deregistered, "contract, deregister; 10.6.5";
    after_the_fence_and_the_drain_a_region_is_deregistered, "contract, deregister; 10.3.1";
    a_part_has_keys_of_its_own_and_lets_nobody_reach_further, "10.6.3.1; contract, register_part";
    parts_that_live_do_not_overlap, "contract, register_part";
    the_key_of_a_part_dies_and_its_memory_is_used_again, "10.6.5; contract, register_part";
}

/// Connects the pair anew and expects an operation to be refused by the far side.
fn refused<H: Harness>(bed: &mut TestBed<'_, H>, pair: &Pair<H::V>, op: SendOp<'_, H::V>) -> Outcome {
    let setup = Setup::new(bed);
    pair.reconnect(&setup)?;
    pair.a.post(1, op, 0..8)?;
    bed.fails(&pair.a.sends, 1, WcError::RemAccess)
}

fn a_deregistered_region_is_out_of_reach<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let region = pair.b.pd.alloc_mr(4096, ALL_RIGHTS)?;
    let at = region.remote(0..8)?;
    pair.a.write(1, 0..8, at)?;
    bed.done(&pair.a.sends, 1)?;
    let other = region.clone();
    region.deregister()?;
    region.deregister()?;
    other.deregister()?;
    refused(bed, &pair, SendOp::Write { to: at, imm: None })?;
    refused(bed, &pair, SendOp::Read { from: at })?;
    // The next region may have the same key, and has other bytes.
    let _next = pair.b.pd.alloc_mr(4096, ALL_RIGHTS)?;
    refused(bed, &pair, SendOp::Write { to: at, imm: None })
}

fn a_deregistered_region_is_out_of_reach_of_atomics<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let region = pair.b.pd.alloc_mr(4096, ALL_RIGHTS)?;
    let at = region.remote(0..8)?;
    region.deregister()?;
    refused(bed, &pair, SendOp::FetchAdd { at, add: 1 })?;
    refused(bed, &pair, SendOp::CompareSwap { at, compare: 0, swap: 1 })?;
    let mut bytes = [1; 8];
    region.read(0, &mut bytes)?;
    check_eq!(bytes, [0; 8], "the word");
    Ok(())
}

fn its_owner_keeps_what_peers_left_in_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let region = pair.b.pd.alloc_mr(4096, ALL_RIGHTS)?;
    let at = region.remote(0..64)?;
    pair.a.fill(0, &pattern(64, 1))?;
    pair.a.write(1, 0..64, at)?;
    bed.done(&pair.a.sends, 1)?;
    region.deregister()?;
    let mut bytes = [0; 64];
    region.read(0, &mut bytes)?;
    check_eq!(bytes[..], pattern(64, 1)[..], "what the peer wrote");
    region.write(8, &pattern(8, 2))?;
    check_eq!(region.load(8)?.to_ne_bytes()[..], pattern(8, 2)[..], "what its owner wrote");
    check_eq!(region.len(), 4096, "its length");
    Ok(())
}

fn nothing_more_is_posted_with_a_deregistered_region<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let region = pair.a.pd.alloc_mr(4096, ALL_RIGHTS)?;
    region.deregister()?;
    let data = [Sge { mr: &region, at: 0, len: 8 }];
    let (op, flags) = (SendOp::Send { imm: None }, SendFlags::SIGNALED);
    let sent = pair.a.qp.post_send(&[SendWr { wr_id: 1, op, data: Payload::Sge(&data), flags }]);
    check_refused!(sent.map_err(|e| e.why), VerbsError::Invalid(_), "a send");
    let received = pair.a.qp.post_recv(&[RecvWr { wr_id: 2, data: &data }]);
    check_refused!(received.map_err(|e| e.why), VerbsError::Invalid(_), "a receive");
    Ok(())
}

fn a_region_that_a_request_holds_is_not_deregistered<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.recv(1, 0..64)?;
    check_refused!(b.mr.deregister(), VerbsError::Busy(_), "while a receive holds it");
    // It is what it was.
    a.fill(0, &pattern(64, 3))?;
    a.send(2, 0..64)?;
    bed.done(&a.sends, 2)?;
    bed.done(&b.recvs, 1)?;
    check_eq!(b.bytes(0..64)?, pattern(64, 3), "the message");
    b.mr.deregister()?;
    check_eq!(b.bytes(0..64)?, pattern(64, 3), "the message, afterwards");
    Ok(())
}

fn after_the_fence_and_the_drain_a_region_is_deregistered<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let at = b.remote(0..8)?;
    b.recv(1, 0..64)?;
    b.qp.modify(&Modify::Err)?;
    bed.fails(&b.recvs, 1, WcError::Flush)?;
    b.mr.deregister()?;
    // The peer does not know yet, and reaches nothing.
    a.fill(0, &[7; 8])?;
    a.write(2, 0..8, at)?;
    bed.settle();
    check_eq!(b.bytes(0..8)?, [0; 8], "the memory");
    Ok(())
}

fn a_part_has_keys_of_its_own_and_lets_nobody_reach_further<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let whole = pair.b.pd.alloc_mr(8192, AccessFlags::LOCAL_WRITE)?;
    whole.write(1024, &pattern(64, 1))?;
    let part = pair.b.pd.register_part(&whole, 1024..2048, ALL_RIGHTS)?;
    let at = part.remote(0..1024)?;
    check!(at.rkey != whole.rkey(), "both have key {:#x}", at.rkey);
    // What was there is there, and what a peer writes is found by both.
    pair.a.read(1, 0..64, at)?;
    bed.done(&pair.a.sends, 1)?;
    check_eq!(pair.a.bytes(0..64)?, pattern(64, 1), "what was there before");
    pair.a.fill(0, &pattern(64, 2))?;
    pair.a.write(2, 0..64, part.remote(64..128)?)?;
    bed.done(&pair.a.sends, 2)?;
    let beyond = RemoteSlice { addr: at.addr + 1020, len: 8, ..at };
    pair.a.post(3, SendOp::Write { to: beyond, imm: None }, 0..8)?;
    bed.fails(&pair.a.sends, 3, WcError::RemAccess)?;
    part.deregister()?;
    drop(part);
    let mut bytes = [0; 128];
    whole.read(1024, &mut bytes)?;
    check_eq!(bytes[..64], pattern(64, 1)[..], "what the owner wrote");
    check_eq!(bytes[64..], pattern(64, 2)[..], "what the peer wrote");
    Ok(())
}

fn parts_that_live_do_not_overlap<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let pd = &pair.b.pd;
    let whole = pd.alloc_mr(8192, AccessFlags::LOCAL_WRITE)?;
    let part = pd.register_part(&whole, 1024..2048, ALL_RIGHTS)?;
    for range in [0..1025, 2047..4096, 1500..1600, 0..8192] {
        let overlapping = pd.register_part(&whole, range.clone(), ALL_RIGHTS).map(drop);
        check_refused!(overlapping, VerbsError::Busy(_), "{range:?}");
    }
    check_refused!(
        pd.register_part(&whole, 8000..8193, ALL_RIGHTS).map(drop),
        VerbsError::OutOfRange { .. },
        "beyond"
    );
    check_refused!(whole.write(1020, &[1; 8]), VerbsError::Busy(_), "the whole region's bytes there");
    check_refused!(whole.deregister(), VerbsError::Busy(_), "the whole region");
    let beside = pd.register_part(&whole, 2048..4096, ALL_RIGHTS)?;
    beside.write(0, &[7; 8])?;
    drop(part);
    let again = pd.register_part(&whole, 0..2048, ALL_RIGHTS)?;
    drop((again, beside));
    check_eq!(whole.load(2048)?.to_ne_bytes(), [7; 8], "what was written in a part");
    whole.deregister()?;
    check_refused!(pd.register_part(&whole, 0..8, ALL_RIGHTS).map(drop), VerbsError::Invalid(_), "no region");
    Ok(())
}

fn the_key_of_a_part_dies_and_its_memory_is_used_again<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let whole = pair.b.pd.alloc_mr(8192, AccessFlags::LOCAL_WRITE)?;
    let part = pair.b.pd.register_part(&whole, 0..1024, ALL_RIGHTS)?;
    let stale = part.remote(0..8)?;
    part.deregister()?;
    drop(part);
    refused(bed, &pair, SendOp::Write { to: stale, imm: None })?;
    // The next part may have the same key, and gives no right that it has not.
    let sealed = pair.b.pd.register_part(&whole, 0..1024, AccessFlags::LOCAL_WRITE)?;
    refused(bed, &pair, SendOp::Write { to: stale, imm: None })?;
    drop(sealed);
    let next = pair.b.pd.register_part(&whole, 0..1024, ALL_RIGHTS)?;
    let setup = Setup::new(bed);
    pair.reconnect(&setup)?;
    pair.a.write(1, 0..8, next.remote(0..8)?)?;
    bed.done(&pair.a.sends, 1)?;
    Ok(())
}
