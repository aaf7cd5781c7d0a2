//! Connections of unusual shape, packet numbers that wrap, many queue pairs (IBA 9.7.1, 10.2.4, 17.2.7).

use super::prelude::*;

cases! { "shapes":
    a_node_can_connect_to_itself, "17.2.7";
    a_queue_pair_can_connect_to_itself, "17.2.7";
    loopback_keeps_the_transports_rules, "17.2.7";
    packet_numbers_wrap, "9.7.1";
    packet_numbers_wrap_amid_losses, "9.7.1", with HarnessCaps::STRIKE;
    packet_numbers_wrap_amid_a_read, "9.7.1", with HarnessCaps::STRIKE;
    many_connections_between_two_nodes_do_not_mix, "10.2.4";
    many_connections_on_one_node_pass_a_token_around, "10.2.4";
    numbers_of_destroyed_queue_pairs_do_no_harm, "10.2.4";
    a_packet_to_a_queue_pair_that_is_gone_is_dropped, "9.6.1";
    packets_of_a_stranger_are_dropped, "9.6.1";
}

/// One of each operation, both ways.
fn all_operations<H: Harness>(bed: &mut TestBed<'_, H>, one: &End<H::V>, other: &End<H::V>) -> Outcome {
    for (from, to, seed) in [(one, other, 1), (other, one, 2)] {
        let data = pattern(3_000, seed);
        from.fill(0, &data)?;
        to.recv(9, 10_000..13_000)?;
        from.send(1, 0..3_000)?;
        bed.done(&from.sends, 1)?;
        bed.done(&to.recvs, 9)?;
        from.write(2, 0..3_000, to.remote(20_000..23_000)?)?;
        bed.done(&from.sends, 2)?;
        from.read(3, 30_000..33_000, to.remote(20_000..23_000)?)?;
        bed.done(&from.sends, 3)?;
        check!(to.bytes(10_000..13_000)? == data, "the message changed");
        check!(from.bytes(30_000..33_000)? == data, "what was written and read back changed");
        if bed.harness.capabilities().contains(Caps::ATOMICS) {
            to.mr.store(40_000, 5)?;
            from.fetch_add(4, 40_008, to.word(40_000)?, 2)?;
            bed.done(&from.sends, 4)?;
            check_eq!((from.mr.load(40_008)?, to.mr.load(40_000)?), (5, 7), "old value and word");
        }
    }
    Ok(())
}

fn a_node_can_connect_to_itself<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let Pair { a, b } = bed.pair_between(0, 0, &setup)?;
    all_operations(bed, &a, &b)
}

fn a_queue_pair_can_connect_to_itself<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.psn = [Psn::new(77), Psn::new(77)];
    let end = bed.end(0, &setup)?;
    end.connect(&end, &setup, 0)?;
    all_operations(bed, &end, &end)
}

fn loopback_keeps_the_transports_rules<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.rnr_retry = retries(1);
    let Pair { a, b: _b } = bed.pair_between(0, 0, &setup)?;
    a.send(1, 0..8)?;
    bed.fails(&a.sends, 1, WcError::RnrRetryExc)?;
    let Pair { a, b } = bed.pair_between(0, 0, &setup)?;
    b.recv(1, 0..7)?;
    a.send(2, 0..8)?;
    bed.fails(&a.sends, 2, WcError::RemInvReq)?;
    bed.fails(&b.recvs, 1, WcError::LocLen)?;
    let Pair { a, b } = bed.pair_between(0, 0, &setup)?;
    b.qp.modify(&Modify::Err)?;
    a.write(3, 0..8, b.word(0)?)?;
    bed.fails(&a.sends, 3, WcError::RetryExc)
}

/// Packet numbers that start just before the wrap, for both ends.
fn near_the_wrap<H: Harness>(bed: &mut TestBed<'_, H>, before: u32) -> Outcome<Pair<H::V>> {
    bed.world(2, 0)?;
    let mut setup = Setup::new(bed);
    setup.mtu = Mtu::B256;
    setup.psn = [Psn::new(0x100_0000 - before), Psn::new(0x100_0000 - before - 1)];
    bed.pair_with(&setup)
}

fn packet_numbers_wrap<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for before in 1..8 {
        let Pair { a, b } = near_the_wrap(bed, before)?;
        all_operations(bed, &a, &b).map_err(|e| e.during(format!("{before} packets before the wrap")))?;
    }
    Ok(())
}

fn packet_numbers_wrap_amid_losses<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for lost in 0..8 {
        let Pair { a, b } = near_the_wrap(bed, 4)?;
        let (from, to, class, act) = (0, 1, PacketClass::Request, Act::Drop);
        bed.inject(Fault::Strike { from, to, class, skip: lost, count: 1, act })?;
        all_operations(bed, &a, &b).map_err(|e| e.during(format!("packet {lost} lost at the wrap")))?;
    }
    Ok(())
}

fn packet_numbers_wrap_amid_a_read<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for lost in 0..8 {
        let Pair { a, b } = near_the_wrap(bed, 4)?;
        let data = pattern(2_000, lost);
        b.fill(0, &data)?;
        let (from, to, class, act) = (1, 0, PacketClass::ReadResponse, Act::Drop);
        bed.inject(Fault::Strike { from, to, class, skip: lost, count: 1, act })?;
        a.read(1, 4_000..6_000, b.remote(0..2_000)?)?;
        bed.done(&a.sends, 1)?;
        check!(a.bytes(4_000..6_000)? == data, "a read changed with answer {lost} lost at the wrap");
    }
    Ok(())
}

fn many_connections_between_two_nodes_do_not_mix<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let mut setup = Setup::new(bed);
    setup.memory = 4_096;
    (setup.cqe, setup.caps.max_send_wr, setup.caps.max_recv_wr) = (16, 8, 8);
    let pairs: Vec<_> = (0..64).map(|_| bed.pair_with(&setup)).collect::<Outcome<_>>()?;
    for (i, Pair { a, b }) in pairs.iter().enumerate() {
        let n = i as u64;
        a.mr.store(0, n)?;
        b.mr.store(0, 1_000 + n)?;
        b.recv(n, 8..16)?;
        a.recv(n, 8..16)?;
    }
    for (i, Pair { a, b }) in pairs.iter().enumerate() {
        a.send(i as u64, 0..8)?;
        b.send(i as u64, 0..8)?;
    }
    for (i, Pair { a, b }) in pairs.iter().enumerate() {
        let n = i as u64;
        for end in [a, b] {
            bed.done(&end.recvs, n)?;
            bed.done(&end.sends, n)?;
        }
        check_eq!((a.mr.load(8)?, b.mr.load(8)?), (1_000 + n, n), "what connection {n} carried");
    }
    Ok(())
}

fn many_connections_on_one_node_pass_a_token_around<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.world(4, 0)?;
    let setup = Setup::new(bed);
    let hops: Vec<_> = (0..4).map(|n| bed.pair_between(n, (n + 1) % 4, &setup)).collect::<Outcome<_>>()?;
    let mut token = 1;
    for round in 0..20 {
        let Pair { a, b } = &hops[round % 4];
        b.recv(1, 8..16)?;
        a.mr.store(0, token)?;
        a.send(1, 0..8)?;
        bed.done(&b.recvs, 1)?;
        bed.done(&a.sends, 1)?;
        token = b.mr.load(8)? * 3 + 1;
    }
    check_eq!(token, (0..20).fold(1, |t: u64, _| t * 3 + 1), "the token");
    Ok(())
}

fn numbers_of_destroyed_queue_pairs_do_no_harm<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for round in 0..50u64 {
        let Pair { a, b } = bed.pair()?;
        b.recv(round, 0..8)?;
        a.send(round, 0..8)?;
        bed.done(&a.sends, round)?;
        bed.done(&b.recvs, round)?;
        // Destroyed with requests posted and in flight.
        b.recv(1, 0..8)?;
        a.send(2, 0..8)?;
        a.read(3, 0..8, b.word(0)?)?;
    }
    Ok(())
}

fn a_packet_to_a_queue_pair_that_is_gone_is_dropped<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let Pair { a, b } = bed.pair_with(&setup)?;
    let (mr, remote) = (b.mr.clone(), b.remote(0..8)?);
    drop(b);
    a.fill(0, &[1; 8])?;
    a.write(1, 0..8, remote)?;
    bed.fails(&a.sends, 1, WcError::RetryExc)?;
    check_eq!(mr.load(0)?, 0, "the region of the queue pair that is gone");
    Ok(())
}

/// A connection has two ends: what a third queue pair sends there is not for it.
fn packets_of_a_stranger_are_dropped<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.world(3, 0)?;
    let mut setup = Setup::new(bed);
    let Pair { a, b } = bed.pair_with(&setup)?;
    setup.retry = retries(1);
    let stranger = bed.end(2, &setup)?;
    stranger.connect(&b, &setup, 0)?;
    stranger.fill(0, &[1; 8])?;
    stranger.write(1, 0..8, b.word(0)?)?;
    bed.fails(&stranger.sends, 1, WcError::RetryExc)?;
    check_eq!(b.mr.load(0)?, 0, "the word that a stranger wrote to");
    b.recv(2, 8..16)?;
    a.send(3, 0..8)?;
    bed.done(&a.sends, 3)?;
    bed.done(&b.recvs, 2)?;
    Ok(())
}
