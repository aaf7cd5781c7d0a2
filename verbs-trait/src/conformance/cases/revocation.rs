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
    // The key is dead for as long as the handles live, and the next region has another one.
    let next = pair.b.pd.alloc_mr(4096, ALL_RIGHTS)?;
    check!(next.rkey() != at.rkey, "key {:#x} was given out again at once", at.rkey);
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
