//! Unreliable datagrams: one packet a message, and nobody answers (IBA 9.8.3).

use super::prelude::*;

cases! { "datagrams":
    a_datagram_arrives_and_names_its_sender, "9.8.3; 11.4.2.1", needs Caps::UD;
    a_datagram_with_another_queue_key_is_dropped, "9.6.1", needs Caps::UD;
    a_datagram_that_finds_no_room_is_dropped, "9.8.3", needs Caps::UD;
    a_datagram_longer_than_a_packet_never_leaves, "10.7.2 (C10-93.1.1)", needs Caps::UD;
    a_datagram_as_long_as_a_packet_arrives_whole, "9.8.3", needs Caps::UD;
    a_lost_datagram_is_not_sent_again, "9.8.3", needs Caps::UD, with HarnessCaps::CUT;
    one_queue_pair_hears_many_and_answers_each, "9.8.3; 11.4.2.1", needs Caps::UD;
    a_send_that_fails_stops_the_send_queue_and_not_the_receives, "10.3.1.6", needs Caps::UD;
    datagram_queue_pairs_take_datagrams_and_connections_do_not, "10.2.4; 11.4.1.1", needs Caps::UD;
    an_address_of_another_domain_is_refused, "10.2.3", needs Caps::UD;
    an_error_flushes_a_datagram_queue_pair, "10.3.1.7", needs Caps::UD;
    a_queue_key_can_change_in_use, "11.2.5.2", needs Caps::UD;
}

pub(super) fn datagram_qp<V: Verbs>(end: &End<V>, srq: Option<&V::Srq>, setup: &Setup) -> Result<V::Qp> {
    end.pd.create_qp(&QpInit {
        kind: QpType::Ud,
        send_cq: &end.sends,
        recv_cq: &end.recvs,
        srq,
        caps: setup.caps,
        sq_sig_all: false,
    })
}

pub(super) const QKEY: u32 = 0x1111_2222;

/// A datagram queue pair, ready to send, in place of an end's connected one.
fn datagram_end<H: Harness>(bed: &mut TestBed<'_, H>, node: usize, setup: &Setup) -> Outcome<End<H::V>> {
    let mut end = bed.end(node, setup)?;
    end.qp = datagram_qp(&end, None, setup)?;
    ready(&end, setup)?;
    Ok(end)
}

/// Reset to ready-to-send.
pub(super) fn ready<V: Verbs>(end: &End<V>, setup: &Setup) -> Outcome {
    let init = ToInit { port: end.port, pkey_index: 0, access: AccessFlags::empty(), qkey: QKEY };
    end.qp.modify(&Modify::Init(init))?;
    end.qp.modify(&end.to_rtr(end, setup, 0)?)?;
    Ok(end.qp.modify(&end.to_rts(setup, 0))?)
}

fn a_datagram_arrives_and_names_its_sender<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (a, b) = (datagram_end(bed, 0, &setup)?, datagram_end(bed, 1, &setup)?);
    a.fill(0, &pattern(100, 1))?;
    b.recv(1, 0..200)?;
    let ah = a.pd.create_ah(&a.path_to(&b)?)?;
    a.post(2, SendOp::SendTo { imm: Some(3), ah: &ah, qp: b.qp.num(), qkey: QKEY }, 0..100)?;
    bed.done(&a.sends, 2)?;
    let done = bed.done(&b.recvs, 1)?;
    check_eq!((done.len, done.imm), (100 + GRH, Some(3)), "the receiver's length and immediate data");
    check_eq!(done.from.map(|f| f.qp), Some(a.qp.num()), "the sender");
    check!(b.bytes(GRH as usize..GRH as usize + 100)? == pattern(100, 1), "the datagram changed");
    Ok(())
}

fn a_datagram_with_another_queue_key_is_dropped<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (a, b) = (datagram_end(bed, 0, &setup)?, datagram_end(bed, 1, &setup)?);
    b.recv(1, 0..200)?;
    let ah = a.pd.create_ah(&a.path_to(&b)?)?;
    for (wr_id, qkey) in [(2, QKEY + 1), (3, QKEY)] {
        a.post(wr_id, SendOp::SendTo { imm: Some(wr_id as u32), ah: &ah, qp: b.qp.num(), qkey }, 0..100)?;
        bed.done(&a.sends, wr_id)?;
    }
    check_eq!(bed.done(&b.recvs, 1)?.imm, Some(3), "the datagram that arrived");
    bed.settle();
    check!(b.poll_recvs()?.is_empty(), "a second datagram arrived");
    Ok(())
}

/// Where to send datagrams for an end.
fn address_of<V: Verbs>(from: &End<V>, to: &End<V>) -> Outcome<V::Ah> {
    Ok(from.pd.create_ah(&from.path_to(to)?)?)
}

fn two_ends<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome<Pair<H::V>> {
    let setup = Setup::new(bed);
    Ok(Pair { a: datagram_end(bed, 0, &setup)?, b: datagram_end(bed, 1, &setup)? })
}

/// Sends `len` bytes from the end's memory, with the request's number as immediate data.
fn send_to<V: Verbs>(from: &End<V>, wr_id: u64, ah: &V::Ah, to: &End<V>, len: u32) -> Outcome {
    let op = SendOp::SendTo { imm: Some(wr_id as u32), ah, qp: to.qp.num(), qkey: QKEY };
    Ok(from.post(wr_id, op, 0..len)?)
}

fn a_datagram_that_finds_no_room_is_dropped<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = two_ends(bed)?;
    let ah = address_of(&a, &b)?;
    send_to(&a, 1, &ah, &b, 100)?;
    bed.done(&a.sends, 1)?;
    bed.settle();
    check_eq!((a.qp.state(), b.qp.state()), (QpState::Rts, QpState::Rts), "states after a drop");
    b.recv(7, 0..GRH + 100)?;
    send_to(&a, 2, &ah, &b, 101)?;
    bed.done(&a.sends, 2)?;
    bed.settle();
    check!(!b.poll_recvs()?.iter().any(|seen| seen.result.is_ok()), "a datagram too long was received");
    if b.qp.state() == QpState::Rts {
        // Where the buffer was not spent on the failure, it serves the next one.
        send_to(&a, 3, &ah, &b, 100)?;
        bed.done(&a.sends, 3)?;
        check_eq!(bed.done(&b.recvs, 7)?.imm, Some(3), "the datagram that fitted");
    }
    Ok(())
}

fn a_datagram_longer_than_a_packet_never_leaves<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = two_ends(bed)?;
    let mtu = a.ctx.port_attr(a.port)?.active_mtu.bytes();
    let ah = address_of(&a, &b)?;
    b.recv(7, 0..GRH + 2 * mtu)?;
    send_to(&a, 1, &ah, &b, mtu + 1)?;
    // No error by the specification; there are adapters that report one.
    let seen = bed.completion(&a.sends)?;
    check!(matches!(seen.result, Ok(_) | Err(WcError::LocLen)), "the send completed as {seen:?}");
    bed.settle();
    check!(b.poll_recvs()?.is_empty(), "a datagram longer than a packet arrived");
    Ok(())
}

fn a_datagram_as_long_as_a_packet_arrives_whole<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = two_ends(bed)?;
    let mtu = a.ctx.port_attr(a.port)?.active_mtu.bytes();
    let ah = address_of(&a, &b)?;
    for (wr_id, len) in [(1, mtu), (2, 0)] {
        a.fill(0, &pattern(len as usize, wr_id))?;
        b.recv(wr_id, 0..GRH + len)?;
        send_to(&a, wr_id, &ah, &b, len)?;
        bed.done(&a.sends, wr_id)?;
        check_eq!(bed.done(&b.recvs, wr_id)?.len, GRH + len, "the receiver's length");
        let (from, to) = (GRH as usize, (GRH + len) as usize);
        check!(b.bytes(from..to)? == pattern(len as usize, wr_id), "the datagram changed");
    }
    Ok(())
}

fn a_lost_datagram_is_not_sent_again<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = two_ends(bed)?;
    let ah = address_of(&a, &b)?;
    b.recv(7, 0..200)?;
    let cut = bed.inject(Fault::Cut { a: 0, b: 1 })?;
    send_to(&a, 1, &ah, &b, 8)?;
    bed.done(&a.sends, 1)?;
    bed.settle();
    bed.heal(cut);
    bed.settle();
    check!(b.poll_recvs()?.is_empty(), "a lost datagram arrived");
    send_to(&a, 2, &ah, &b, 8)?;
    bed.done(&a.sends, 2)?;
    check_eq!(bed.done(&b.recvs, 7)?.imm, Some(2), "the datagram that was not lost");
    Ok(())
}

fn one_queue_pair_hears_many_and_answers_each<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(3)?;
    let setup = Setup::new(bed);
    let hub = datagram_end(bed, 0, &setup)?;
    let others =
        [datagram_end(bed, 1, &setup)?, datagram_end(bed, 2, &setup)?, datagram_end(bed, 0, &setup)?];
    for (i, other) in others.iter().enumerate() {
        let wr_id = i as u64;
        hub.recv(wr_id, 0..200)?;
        other.recv(wr_id, 0..200)?;
        send_to(other, wr_id, &address_of(other, &hub)?, &hub, 8)?;
        bed.done(&other.sends, wr_id)?;
        let source = bed.done(&hub.recvs, wr_id)?.from;
        check_eq!(source.map(|s| s.qp), Some(other.qp.num()), "whom the hub heard");
        let lid = other.ctx.port_attr(other.port)?.lid;
        check!(lid == 0 || source.is_some_and(|s| s.lid == lid), "the sender's port: {source:?}");
        send_to(&hub, wr_id, &address_of(&hub, other)?, other, 8)?;
        bed.done(&hub.sends, wr_id)?;
        let source = bed.done(&other.recvs, wr_id)?.from;
        check_eq!(source.map(|s| s.qp), Some(hub.qp.num()), "who answered");
    }
    Ok(())
}

fn a_send_that_fails_stops_the_send_queue_and_not_the_receives<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let Pair { a, b } = two_ends(bed)?;
    let (there, back) = (address_of(&a, &b)?, address_of(&b, &a)?);
    a.recv(7, 0..200)?;
    let end = a.mr.len() as u32;
    let op = SendOp::SendTo { imm: None, ah: &there, qp: b.qp.num(), qkey: QKEY };
    a.post(1, op, end - 4..end + 4)?;
    send_to(&a, 2, &there, &b, 8)?;
    bed.fails(&a.sends, 1, WcError::LocProt)?;
    bed.fails(&a.sends, 2, WcError::Flush)?;
    check_eq!(a.qp.state(), QpState::Sqe, "the state after a failed send");
    send_to(&a, 3, &there, &b, 8)?;
    bed.fails(&a.sends, 3, WcError::Flush)?;
    send_to(&b, 4, &back, &a, 8)?;
    bed.done(&b.sends, 4)?;
    bed.done(&a.recvs, 7)?;
    a.qp.modify(&Modify::Resume)?;
    b.recv(8, 0..200)?;
    send_to(&a, 5, &there, &b, 8)?;
    bed.done(&a.sends, 5)?;
    bed.done(&b.recvs, 8)?;
    Ok(())
}

fn datagram_queue_pairs_take_datagrams_and_connections_do_not<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let Pair { a: rc, b: peer } = bed.pair()?;
    let Pair { a, b } = two_ends(bed)?;
    let ah = address_of(&a, &b)?;
    check!(a.send(1, 0..8).is_err(), "a datagram queue pair took a send without an address");
    check!(a.write(1, 0..8, b.word(0)?).is_err(), "a datagram queue pair took a write");
    check!(a.read(1, 0..8, b.word(0)?).is_err(), "a datagram queue pair took a read");
    check!(a.fetch_add(1, 0, b.word(0)?, 1).is_err(), "a datagram queue pair took an atomic");
    let own = address_of(&rc, &peer)?;
    let op = SendOp::SendTo { imm: None, ah: &own, qp: peer.qp.num(), qkey: QKEY };
    check!(rc.post(1, op, 0..8).is_err(), "a connection took a datagram");
    // And one that is sent to a connection does it no harm.
    peer.recv(7, 0..200)?;
    send_to(&a, 2, &ah, &peer, 8)?;
    bed.done(&a.sends, 2)?;
    bed.settle();
    rc.send(3, 0..8)?;
    bed.done(&rc.sends, 3)?;
    check_eq!(bed.done(&peer.recvs, 7)?.from, None, "what the connection received");
    Ok(())
}

fn an_address_of_another_domain_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = two_ends(bed)?;
    let ah = a.ctx.alloc_pd()?.create_ah(&a.path_to(&b)?)?;
    let op = SendOp::SendTo { imm: None, ah: &ah, qp: b.qp.num(), qkey: QKEY };
    check_refused!(
        a.post(1, op, 0..8).map_err(|e| e.why),
        VerbsError::Foreign(_),
        "an address of another domain"
    );
    Ok(())
}

fn an_error_flushes_a_datagram_queue_pair<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = two_ends(bed)?;
    let ah = address_of(&a, &b)?;
    a.recv(7, 0..200)?;
    a.qp.modify(&Modify::Err)?;
    send_to(&a, 1, &ah, &b, 8)?;
    bed.fails(&a.sends, 1, WcError::Flush)?;
    bed.fails(&a.recvs, 7, WcError::Flush)?;
    Ok(())
}

fn a_queue_key_can_change_in_use<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = two_ends(bed)?;
    let ah = address_of(&a, &b)?;
    b.recv(7, 0..200)?;
    b.qp.modify(&Modify::Update(Update { qkey: Some(QKEY + 1), ..Update::default() }))?;
    for (wr_id, qkey) in [(1, QKEY), (2, QKEY + 1)] {
        a.post(wr_id, SendOp::SendTo { imm: Some(wr_id as u32), ah: &ah, qp: b.qp.num(), qkey }, 0..8)?;
        bed.done(&a.sends, wr_id)?;
    }
    check_eq!(bed.done(&b.recvs, 7)?.imm, Some(2), "the datagram that arrived");
    Ok(())
}
