//! Misuse is answered by a typed error, at once, and nothing happens (IBA 10.10.2.1, the contract's errors).

use super::prelude::*;

cases! { "misuse":
    oversize_inline_data_is_refused, "11.4.1.1";
    too_many_ranges_are_refused, "11.4.1.1";
    a_list_longer_than_the_largest_message_is_refused, "11.4.1.1; contract, max_msg";
    inline_data_is_refused_where_nothing_is_sent, "11.4.1.1";
    an_atomic_wants_one_local_range_of_eight_bytes, "10.7.2.3", needs Caps::ATOMICS;
    a_range_outside_its_region_is_never_sent, "10.7.3.2";
    another_domains_region_is_never_sent, "10.2.3";
    another_contexts_objects_are_foreign, "10.2.3";
    two_contexts_of_one_device_do_not_mix, "11.2.1";
    a_port_that_is_not_there_is_refused, "11.2.1.2";
    a_gid_index_beyond_the_table_is_refused, "11.2.1.2";
    sizes_beyond_the_device_are_refused, "11.2.5.1";
    a_region_larger_than_the_device_allows_is_refused, "11.2.8.1";
}

fn oversize_inline_data_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.recv(1, 0..4096)?;
    let most = a.qp.query()?.caps.max_inline as usize;
    let data = pattern(most + 1, 1);
    let post = |len: usize| {
        a.qp.post_send(&[SendWr {
            wr_id: len as u64,
            op: SendOp::Send { imm: None },
            data: Payload::Inline(&data[..len]),
            flags: SendFlags::SIGNALED,
        }])
    };
    check_refused!(
        post(most + 1),
        PostError { posted: 0, why: VerbsError::TooLarge { .. } },
        "{} bytes inline where {most} were granted",
        most + 1
    );
    post(most)?;
    bed.done(&a.sends, most as u64)?;
    bed.done(&b.recvs, 1)?;
    check_eq!(b.bytes(0..most)?, data[..most], "the largest inline message");
    Ok(())
}

fn too_many_ranges_are_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let caps = a.qp.query()?.caps;
    let many = vec![a.sge(0..1); caps.max_send_sge.max(caps.max_recv_sge) as usize + 1];
    let (sends, recvs) = (&many[..=caps.max_send_sge as usize], &many[..=caps.max_recv_sge as usize]);
    let ops = [
        SendOp::Send { imm: None },
        SendOp::Write { to: b.remote(0..sends.len())?, imm: None },
        SendOp::Read { from: b.remote(0..sends.len())? },
    ];
    for op in ops {
        let wr = SendWr { wr_id: 1, op, data: Payload::Sge(sends), flags: SendFlags::SIGNALED };
        check_refused!(
            a.qp.post_send(&[wr]),
            PostError { why: VerbsError::TooLarge { .. }, .. },
            "a gather list of {}",
            sends.len()
        );
    }
    check_refused!(
        a.qp.post_recv(&[RecvWr { wr_id: 2, data: recvs }]),
        PostError { why: VerbsError::TooLarge { .. }, .. },
        "a scatter list of {}",
        recvs.len()
    );
    Ok(())
}

/// Not all adapters would notice: some take a range's highest bit for something else.
fn a_list_longer_than_the_largest_message_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let longest = a.ctx.device_attr().max_msg;
    let all = |len: u32| Sge { mr: &a.mr, at: 0, len };
    let lists = [vec![all(longest + 1)], vec![all(u32::MAX)], vec![all(longest), all(1)]];
    for list in &lists {
        let lens: Vec<u32> = list.iter().map(|range| range.len).collect();
        for op in [SendOp::Send { imm: None }, SendOp::Write { to: b.word(0)?, imm: None }] {
            let wr = SendWr { wr_id: 1, op, data: Payload::Sge(list), flags: SendFlags::SIGNALED };
            check_refused!(
                a.qp.post_send(&[wr]),
                PostError { posted: 0, why: VerbsError::TooLarge { .. } },
                "sending {lens:?} where {longest} are the most"
            );
        }
        check_refused!(
            a.qp.post_recv(&[RecvWr { wr_id: 2, data: list }]),
            PostError { posted: 0, why: VerbsError::TooLarge { .. } },
            "receiving into {lens:?} where {longest} are the most"
        );
    }
    Ok(())
}

fn inline_data_is_refused_where_nothing_is_sent<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let wr = SendWr {
        wr_id: 1,
        op: SendOp::Read { from: b.word(0)? },
        data: Payload::Inline(&[0; 8]),
        flags: SendFlags::SIGNALED,
    };
    check_refused!(
        a.qp.post_send(&[wr]),
        PostError { why: VerbsError::Invalid(_), .. },
        "a read whose answer has nowhere to go"
    );
    Ok(())
}

fn an_atomic_wants_one_local_range_of_eight_bytes<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let (short, long, two) = ([a.sge(0..4)], [a.sge(0..16)], [a.sge(0..4), a.sge(8..12)]);
    let bad = [
        ("none", Payload::None),
        ("4 bytes", Payload::Sge(&short)),
        ("16 bytes", Payload::Sge(&long)),
        ("two ranges", Payload::Sge(&two)),
        ("inline", Payload::Inline(&[0; 8])),
    ];
    for (what, data) in bad {
        let op = SendOp::FetchAdd { at: b.word(0)?, add: 1 };
        let wr = SendWr { wr_id: 1, op, data, flags: SendFlags::SIGNALED };
        check_refused!(
            a.qp.post_send(&[wr]),
            PostError { why: VerbsError::Invalid(_) | VerbsError::TooLarge { .. }, .. },
            "an atomic whose old value would go to {what}"
        );
    }
    bed.settle();
    check_eq!(b.mr.load(0)?, 0, "the word after refused atomics");
    Ok(())
}

/// Posts a send from ranges that must not be touched: refused at once with `refusal`, or failed by the adapter as
/// a local protection error (IBA 10.10.2.2 has it so, and a backend that knows earlier may say so earlier).
fn never_sent<H: Harness>(
    bed: &mut TestBed<'_, H>,
    pair: &Pair<H::V>,
    ranges: &[Sge<'_, <H::V as Verbs>::Mr>],
    refusal: fn(&VerbsError) -> bool,
) -> Outcome {
    let setup = Setup::new(bed);
    let Pair { a, b } = pair;
    pair.reconnect(&setup)?;
    b.recv(9, 0..64)?;
    let op = SendOp::Send { imm: None };
    let sent =
        a.qp.post_send(&[SendWr { wr_id: 1, op, data: Payload::Sge(ranges), flags: SendFlags::SIGNALED }]);
    match sent {
        Err(PostError { posted: 0, why }) if refusal(&why) => {}
        Err(other) => return Err(Failure::new(format!("a send was refused with {other:?}"))),
        Ok(()) => bed.fails(&a.sends, 1, WcError::LocProt)?,
    }
    bed.settle();
    check!(b.poll_recvs()?.is_empty(), "a message arrived from memory that is out of bounds");

    pair.reconnect(&setup)?;
    match a.qp.post_recv(&[RecvWr { wr_id: 2, data: ranges }]) {
        Err(PostError { posted: 0, why }) if refusal(&why) => Ok(()),
        Err(other) => Err(Failure::new(format!("a receive was refused with {other:?}"))),
        Ok(()) => {
            b.send(3, 0..1)?;
            bed.fails(&a.recvs, 2, WcError::LocProt)?;
            bed.fails(&b.sends, 3, WcError::RemOp)
        }
    }
}

fn a_range_outside_its_region_is_never_sent<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let size = pair.a.mr.len() as u32;
    for local in [size - 7..size + 1, size..size + 8, u32::MAX - 7..u32::MAX] {
        let outside = [pair.a.sge(0..1), pair.a.sge(local.clone())];
        never_sent(bed, &pair, &outside, |why| matches!(why, VerbsError::OutOfRange { .. }))
            .map_err(|e| e.during(format!("bytes {local:?} of a region of {size}")))?;
    }
    let setup = Setup::new(bed);
    pair.reconnect(&setup)?;
    pair.b.recv(1, 0..8)?;
    pair.a.send(2, size - 8..size)?;
    bed.done(&pair.a.sends, 2)?;
    Ok(())
}

fn another_domains_region_is_never_sent<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let other = pair.a.ctx.alloc_pd()?.alloc_mr(64, ALL_RIGHTS)?;
    let ranges = [Sge { mr: &other, at: 0, len: 8 }];
    never_sent(bed, &pair, &ranges, |why| matches!(why, VerbsError::Foreign(_)))
}

fn another_contexts_objects_are_foreign<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let Pair { a, b } = bed.pair_with(&setup)?;
    let channel = b.ctx.create_channel()?;
    check_refused!(
        a.ctx.create_cq(8, Some(&channel)),
        VerbsError::Foreign(_),
        "a completion queue on another context's channel"
    );
    let made = a.pd.create_qp(&QpInit {
        kind: QpType::Rc,
        send_cq: &a.sends,
        recv_cq: &b.recvs,
        srq: None,
        caps: setup.caps,
        sq_sig_all: false,
    });
    check_refused!(made, VerbsError::Foreign(_), "a queue pair on another context's completion queue");
    let range = [Sge { mr: &b.mr, at: 0, len: 8 }];
    check_refused!(
        a.qp.post_recv(&[RecvWr { wr_id: 1, data: &range }]),
        PostError { why: VerbsError::Foreign(_), .. },
        "a receive into another context's region"
    );
    Ok(())
}

fn two_contexts_of_one_device_do_not_mix<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let end = bed.end(0, &setup)?;
    let other = bed.machines[0].device.open()?;
    let (cq, pd) = (other.create_cq(8, None)?, other.alloc_pd()?);
    let init = |send_cq| QpInit {
        kind: QpType::Rc,
        send_cq,
        recv_cq: send_cq,
        srq: None,
        caps: setup.caps,
        sq_sig_all: false,
    };
    check_refused!(
        end.pd.create_qp(&init(&cq)),
        VerbsError::Foreign(_),
        "another context's completion queue"
    );
    check_refused!(pd.create_qp(&init(&end.sends)), VerbsError::Foreign(_), "another context's domain");
    pd.create_qp(&init(&cq))?;
    Ok(())
}

fn a_port_that_is_not_there_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    let ctx = bed.ctx(0);
    let ports = ctx.device_attr().ports;
    for port in 1..=ports {
        check_eq!(ctx.port_attr(port)?.state, PortState::Active, "port {port}");
    }
    for port in [0, ports + 1, u8::MAX] {
        check_refused!(
            ctx.port_attr(port),
            VerbsError::TooLarge { .. } | VerbsError::Invalid(_),
            "the attributes of port {port}"
        );
    }
    Ok(())
}

fn a_gid_index_beyond_the_table_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    let (ctx, other) = (bed.ctx(0), bed.ctx(1));
    let (port, index) = (bed.machines[0].port, bed.machines[0].gid_index);
    let gids = ctx.port_attr(port)?.gids;
    check!(index < gids, "the harness names GID {index} of {gids}");
    check!(ctx.gid(port, index)? != other.gid(port, index)?, "two nodes have one GID");
    check_refused!(
        ctx.gid(port, gids),
        VerbsError::TooLarge { .. } | VerbsError::Invalid(_),
        "GID {gids} of a table of {gids}"
    );
    Ok(())
}

fn sizes_beyond_the_device_are_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let end = bed.end(0, &setup)?;
    let device = end.ctx.device_attr();
    if let Some(cqe) = device.max_cqe.checked_add(1) {
        check_refused!(
            end.ctx.create_cq(cqe, None),
            VerbsError::TooLarge { .. },
            "a completion queue of {cqe}"
        );
    }
    let too_large = [
        QpCaps { max_send_wr: device.max_qp_wr.saturating_add(1), ..setup.caps },
        QpCaps { max_recv_wr: device.max_qp_wr.saturating_add(1), ..setup.caps },
        QpCaps { max_send_sge: device.max_sge.saturating_add(1), ..setup.caps },
        QpCaps { max_recv_sge: device.max_sge.saturating_add(1), ..setup.caps },
        QpCaps { max_inline: device.max_inline.saturating_add(1), ..setup.caps },
    ];
    for caps in too_large {
        let made = end.pd.create_qp(&QpInit {
            kind: QpType::Rc,
            send_cq: &end.sends,
            recv_cq: &end.recvs,
            srq: None,
            caps,
            sq_sig_all: false,
        });
        check_refused!(made, VerbsError::TooLarge { .. }, "a queue pair of {caps:?}");
    }
    if device.caps.contains(Caps::SRQ)
        && let Some(wr) = device.max_srq_wr.checked_add(1)
    {
        let made = end.pd.create_srq(wr, 1);
        check_refused!(made, VerbsError::TooLarge { .. }, "a shared receive queue of {wr}");
    }
    Ok(())
}

fn a_region_larger_than_the_device_allows_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let end = bed.end(0, &setup)?;
    let most = end.ctx.device_attr().max_mr_size;
    let Some(size) = most.checked_add(1).and_then(|n| usize::try_from(n).ok()) else { return Ok(()) };
    check_refused!(
        end.pd.alloc_mr(size, ALL_RIGHTS),
        VerbsError::TooLarge { .. },
        "a region of {size} bytes where {most} are the most"
    );
    Ok(())
}
