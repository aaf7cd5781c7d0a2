//! What is moved arrives as it was: sizes, segmentation, lists, immediate data (IBA 9.4, 9.7.3, 10.7).

use super::prelude::*;

cases! { "data":
    a_message_of_any_size_arrives_whole, "9.4.1";
    a_write_of_any_size_arrives_whole, "9.4.3";
    a_read_of_any_size_arrives_whole, "9.4.4";
    a_megabyte_goes_both_ways, "9.7.3";
    a_message_is_gathered_and_scattered_in_list_order, "10.7.3.2";
    a_write_is_gathered_and_a_read_is_scattered_in_list_order, "10.7.3.2";
    inline_data_is_copied_by_the_post, "11.4.1.1";
    immediate_data_arrives_with_the_message, "9.4.1, 11.4.2.1";
    immediate_data_of_a_write_consumes_a_receive, "9.4.3";
    a_plain_write_consumes_no_receive, "9.4.3";
    a_message_may_be_shorter_than_its_buffer, "10.7.3.2";
    a_message_that_fits_exactly_arrives, "9.9.3, table 59";
    a_message_longer_than_its_buffer_fails_on_both_sides, "9.9.3, table 59; 11.6.2";
    a_message_of_several_packets_longer_than_its_buffer_fails_on_both_sides, "9.9.3, table 59; 11.6.2";
    a_receive_without_buffers_takes_an_empty_message, "10.7.3.2";
    both_directions_work_at_once, "9.7.2";
    a_completion_names_operation_length_and_queue_pair, "11.4.2.1";
}

/// Path MTUs that nodes 0 and 1 can use.
fn mtus<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome<Vec<Mtu>> {
    bed.at_least(2)?;
    let most = bed.ctx(0).port_attr(bed.machines[0].port)?.active_mtu;
    Ok([Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096]
        .into_iter()
        .filter(|m| *m <= most)
        .collect())
}

/// Sizes around the borders of one packet and of several.
fn sizes(mtu: Mtu) -> Vec<usize> {
    let m = mtu.bytes() as usize;
    vec![0, 1, 7, m - 1, m, m + 1, 2 * m, 3 * m - 1, 3 * m + 1, 30_000]
}

/// Where the far side's bytes begin in these cases, odd on purpose.
const FAR: usize = 33;

/// For each MTU and size: fresh bytes at the source, the operation, the same bytes at the target and not one more.
fn each_size<H: Harness>(
    bed: &mut TestBed<'_, H>,
    operate: fn(&mut TestBed<'_, H>, &Pair<H::V>, usize) -> Outcome,
    reading: bool,
) -> Outcome {
    for mtu in mtus(bed)? {
        let mut setup = Setup::new(bed);
        setup.mtu = mtu;
        let pair = bed.pair_with(&setup)?;
        for len in sizes(mtu) {
            let data = pattern(len, len as u64);
            let (from, from_at, to, to_at) =
                if reading { (&pair.b, FAR, &pair.a, 5) } else { (&pair.a, 5, &pair.b, FAR) };
            from.fill(from_at, &data)?;
            to.fill(0, &vec![0xee; to.mr.len()])?;
            operate(bed, &pair, len).map_err(|e| e.during(format!("{len} bytes, {mtu:?}")))?;
            let seen = to.bytes(0..to.mr.len())?;
            check!(seen[to_at..to_at + len] == data[..], "{len} bytes arrived changed, {mtu:?}");
            let around = seen[..to_at].iter().chain(&seen[to_at + len..]).all(|b| *b == 0xee);
            check!(around, "bytes around {len} were touched, {mtu:?}");
        }
    }
    Ok(())
}

fn a_message_of_any_size_arrives_whole<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    each_size(
        bed,
        |bed, Pair { a, b }, len| {
            b.recv(7, FAR as u32..FAR as u32 + 32_000)?;
            a.send(8, 5..5 + len as u32)?;
            check_eq!(bed.done(&b.recvs, 7)?.len as usize, len, "the receiver's length");
            bed.done(&a.sends, 8)?;
            Ok(())
        },
        false,
    )
}

fn a_write_of_any_size_arrives_whole<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    each_size(
        bed,
        |bed, Pair { a, b }, len| {
            a.write(8, 5..5 + len as u32, b.remote(FAR..FAR + len)?)?;
            bed.done(&a.sends, 8)?;
            Ok(())
        },
        false,
    )
}

fn a_read_of_any_size_arrives_whole<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    each_size(
        bed,
        |bed, Pair { a, b }, len| {
            a.read(8, 5..5 + len as u32, b.remote(FAR..FAR + len)?)?;
            check_eq!(bed.done(&a.sends, 8)?.len as usize, len, "the reader's length");
            Ok(())
        },
        true,
    )
}

fn a_megabyte_goes_both_ways<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const LEN: usize = 1 << 20;
    let mut setup = Setup::new(bed);
    setup.memory = 2 * LEN;
    setup.ack = AckTimeout::at_least(bed.timing().round_trip * 2_000);
    let Pair { a, b } = bed.pair_with(&setup)?;
    let data = pattern(LEN, 9);
    a.fill(0, &data)?;
    a.write(1, 0..LEN as u32, b.remote(LEN..2 * LEN)?)?;
    bed.done(&a.sends, 1)?;
    check!(b.bytes(LEN..2 * LEN)? == data, "a written megabyte changed");
    a.read(2, LEN as u32..2 * LEN as u32, b.remote(LEN..2 * LEN)?)?;
    bed.done(&a.sends, 2)?;
    check!(a.bytes(LEN..2 * LEN)? == data, "a megabyte read back changed");
    b.recv(3, 0..LEN as u32)?;
    a.send(4, 0..LEN as u32)?;
    check_eq!(bed.done(&b.recvs, 3)?.len as usize, LEN, "the receiver's length");
    check!(b.bytes(0..LEN)? == data, "a sent megabyte changed");
    Ok(())
}

/// Three uneven ranges in an order that is not that of their addresses, 1,000 bytes together.
fn uneven<V: Verbs>(end: &End<V>) -> [Sge<'_, V::Mr>; 3] {
    [end.sge(5_000..5_001), end.sge(100..799), end.sge(3_000..3_300)]
}

/// The bytes of those ranges, one after the other.
fn collected<V: Verbs>(end: &End<V>) -> Outcome<Vec<u8>> {
    Ok([end.bytes(5_000..5_001)?, end.bytes(100..799)?, end.bytes(3_000..3_300)?].concat())
}

/// A pair with the smallest packets, so that packets and ranges end at different bytes.
fn small_packets<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome<Pair<H::V>> {
    let mut setup = Setup::new(bed);
    setup.mtu = Mtu::B256;
    bed.pair_with(&setup)
}

fn a_message_is_gathered_and_scattered_in_list_order<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = small_packets(bed)?;
    a.fill(0, &pattern(8_192, 4))?;
    let into = [b.sge(0..300), b.sge(2_000..2_001), b.sge(1_000..1_000), b.sge(4_000..5_000)];
    b.qp.post_recv(&[RecvWr { wr_id: 1, data: &into }])?;
    let from = uneven(&a);
    a.qp.post_send(&[SendWr {
        wr_id: 2,
        op: SendOp::Send { imm: None },
        data: Payload::Sge(&from),
        flags: SendFlags::SIGNALED,
    }])?;
    bed.done(&a.sends, 2)?;
    check_eq!(bed.done(&b.recvs, 1)?.len, 1_000, "the receiver's length");
    let seen = [b.bytes(0..300)?, b.bytes(2_000..2_001)?, b.bytes(4_000..4_699)?].concat();
    check!(seen == collected(&a)?, "the message changed between its lists");
    check_eq!(b.bytes(4_699..5_000)?, vec![0; 301], "the rest of the last range");
    Ok(())
}

fn a_write_is_gathered_and_a_read_is_scattered_in_list_order<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let Pair { a, b } = small_packets(bed)?;
    a.fill(0, &pattern(8_192, 5))?;
    let (sent, ranges) = (collected(&a)?, uneven(&a));
    let there = b.remote(7..1_007)?;
    let flags = SendFlags::SIGNALED;
    let op = SendOp::Write { to: there, imm: None };
    a.qp.post_send(&[SendWr { wr_id: 1, op, data: Payload::Sge(&ranges), flags }])?;
    bed.done(&a.sends, 1)?;
    check!(b.bytes(7..1_007)? == sent, "a write changed on its way from a list");
    a.fill(0, &[0; 8_192])?;
    let op = SendOp::Read { from: there };
    a.qp.post_send(&[SendWr { wr_id: 2, op, data: Payload::Sge(&ranges), flags }])?;
    check_eq!(bed.done(&a.sends, 2)?.len, 1_000, "the reader's length");
    check!(collected(&a)? == sent, "a read changed on its way into a list");
    check_eq!(a.bytes(799..3_000)?, vec![0; 2_201], "memory between the ranges");
    Ok(())
}

fn inline_data_is_copied_by_the_post<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.recv(1, 0..64)?;
    let mut buffer = pattern(40, 6);
    let sent = buffer.clone();
    let flags = SendFlags::SIGNALED;
    let ops = [SendOp::Send { imm: None }, SendOp::Write { to: b.remote(100..140)?, imm: None }];
    for (wr_id, op) in ops.into_iter().enumerate() {
        a.qp.post_send(&[SendWr { wr_id: wr_id as u64, op, data: Payload::Inline(&buffer), flags }])?;
        buffer.fill(0xff);
        bed.done(&a.sends, wr_id as u64)?;
        buffer.copy_from_slice(&sent);
    }
    bed.done(&b.recvs, 1)?;
    check_eq!(b.bytes(0..40)?, sent, "an inline message");
    check_eq!(b.bytes(100..140)?, sent, "an inline write");
    Ok(())
}

fn immediate_data_arrives_with_the_message<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for (wr_id, (imm, len)) in
        [(Some(0), 8), (None, 8), (Some(0xdead_beef), 0), (Some(u32::MAX), 3_000)].into_iter().enumerate()
    {
        let wr_id = wr_id as u64;
        b.recv(wr_id, 0..4096)?;
        a.post(wr_id, SendOp::Send { imm }, 0..len)?;
        let done = bed.done(&b.recvs, wr_id)?;
        check_eq!((done.op, done.imm, done.len), (WcOp::Recv, imm, len), "the receiver's completion");
        check_eq!(bed.done(&a.sends, wr_id)?.imm, None, "immediate data at the sender");
    }
    Ok(())
}

fn immediate_data_of_a_write_consumes_a_receive<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let data = pattern(3_000, 7);
    a.fill(0, &data)?;
    b.recv(1, 0..64)?;
    b.recv(2, 0..64)?;
    for (wr_id, len) in [(1, 3_000), (2, 0)] {
        let to = b.remote(10_000..10_000 + len as usize)?;
        a.post(wr_id, SendOp::Write { to, imm: Some(0x1234_0000 + len) }, 0..len)?;
        let done = bed.done(&b.recvs, wr_id)?;
        let expected = (WcOp::RecvWriteImm, Some(0x1234_0000 + len), len);
        check_eq!((done.op, done.imm, done.len), expected, "the receiver's completion");
        check_eq!(bed.done(&a.sends, wr_id)?.op, WcOp::Write, "the writer's completion");
    }
    check!(b.bytes(10_000..13_000)? == data, "the written data changed");
    check_eq!(b.bytes(0..64)?, vec![0; 64], "the receive's own buffer");
    Ok(())
}

fn a_plain_write_consumes_no_receive<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.recv(1, 0..64)?;
    a.write(2, 0..64, b.remote(64..128)?)?;
    bed.done(&a.sends, 2)?;
    bed.settle();
    check!(b.poll_recvs()?.is_empty(), "a write without immediate data completed a receive");
    a.send(3, 0..64)?;
    bed.done(&b.recvs, 1)?;
    Ok(())
}

fn a_message_may_be_shorter_than_its_buffer<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.fill(0, &pattern(10, 8))?;
    b.fill(0, &[0xaa; 100])?;
    b.recv(1, 0..100)?;
    a.send(2, 0..10)?;
    check_eq!(bed.done(&b.recvs, 1)?.len, 10, "the receiver's length");
    check_eq!(b.bytes(10..100)?, vec![0xaa; 90], "the rest of the buffer");
    Ok(())
}

fn a_message_that_fits_exactly_arrives<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for len in [0, 1, 1024, 1025, 4000] {
        b.recv(1, 0..len)?;
        a.send(2, 0..len)?;
        check_eq!(bed.done(&b.recvs, 1)?.len, len, "the receiver's length");
        bed.done(&a.sends, 2)?;
    }
    Ok(())
}

fn too_long<H: Harness>(bed: &mut TestBed<'_, H>, buffer: u32, message: u32) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    a.fill(0, &pattern(message as usize, 2))?;
    b.recv(1, 0..buffer)?;
    b.recv(2, 0..buffer)?;
    a.send(3, 0..message)?;
    bed.fails(&b.recvs, 1, WcError::LocLen)?;
    bed.fails(&b.recvs, 2, WcError::Flush)?;
    bed.fails(&a.sends, 3, WcError::RemInvReq)?;
    check_eq!((a.qp.state(), b.qp.state()), (QpState::Err, QpState::Err), "both states");
    let beyond = b.bytes(buffer as usize..message as usize)?;
    check!(beyond.iter().all(|byte| *byte == 0), "bytes were written beyond the receive buffer");
    Ok(())
}

fn a_message_longer_than_its_buffer_fails_on_both_sides<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    too_long(bed, 63, 64)
}

fn a_message_of_several_packets_longer_than_its_buffer_fails_on_both_sides<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    too_long(bed, 3_000, 3_001)
}

fn a_receive_without_buffers_takes_an_empty_message<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for wr_id in 0..3 {
        b.qp.post_recv(&[RecvWr { wr_id, data: &[] }])?;
    }
    let empty =
        |imm| SendWr { wr_id: 9, op: SendOp::Send { imm }, data: Payload::None, flags: SendFlags::SIGNALED };
    a.qp.post_send(&[empty(None), empty(Some(4))])?;
    for (wr_id, imm) in [(0, None), (1, Some(4))] {
        let done = bed.done(&b.recvs, wr_id)?;
        check_eq!((done.len, done.imm), (0, imm), "the empty message");
        bed.done(&a.sends, 9)?;
    }
    a.send(10, 0..1)?;
    bed.fails(&b.recvs, 2, WcError::LocLen)
}

fn both_directions_work_at_once<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for (end, seed) in [(&a, 1), (&b, 2)] {
        end.fill(0, &pattern(20_000, seed))?;
        for i in 0..10u32 {
            end.recv(u64::from(i), 30_000 + i * 2_000..32_000 + i * 2_000)?;
        }
    }
    for i in 0..10u32 {
        a.send(u64::from(i), i * 2_000..(i + 1) * 2_000)?;
        b.send(u64::from(i), i * 2_000..(i + 1) * 2_000)?;
    }
    for i in 0..10 {
        for end in [&a, &b] {
            bed.done(&end.sends, i)?;
            bed.done(&end.recvs, i)?;
        }
    }
    check!(a.bytes(30_000..50_000)? == pattern(20_000, 2), "what the second node sent changed");
    check!(b.bytes(30_000..50_000)? == pattern(20_000, 1), "what the first node sent changed");
    Ok(())
}

fn a_completion_names_operation_length_and_queue_pair<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.recv(9, 0..64)?;
    let mut expected = vec![WcOp::Send, WcOp::Write, WcOp::Read];
    a.send(0, 0..24)?;
    a.write(1, 0..24, b.remote(0..24)?)?;
    a.read(2, 0..24, b.remote(0..24)?)?;
    if bed.harness.capabilities().contains(Caps::ATOMICS) {
        expected.extend([WcOp::CompareSwap, WcOp::FetchAdd]);
        a.compare_swap(3, 0, b.word(0)?, 0, 0)?;
        a.fetch_add(4, 0, b.word(0)?, 0)?;
    }
    for (i, op) in expected.into_iter().enumerate() {
        let seen = bed.completion(&a.sends)?;
        check_eq!((seen.wr_id, seen.qp), (i as u64, a.qp.num()), "whose completion it is");
        let done = seen.result.map_err(|e| Failure::new(format!("{op:?} failed: {e}")))?;
        check_eq!((done.op, done.imm, done.from), (op, None, None), "the completion of {op:?}");
        if op == WcOp::Read {
            check_eq!(done.len, 24, "bytes read");
        }
    }
    let seen = bed.completion(&b.recvs)?;
    check_eq!((seen.wr_id, seen.qp), (9, b.qp.num()), "whose receive it is");
    Ok(())
}
