//! Ports and devices as they describe themselves, and a port that loses its link (IBA 11.2.1.2, 11.6.3).

use super::prelude::*;

cases! { "ports":
    a_device_describes_itself, "11.2.1.2";
    a_device_has_the_capabilities_that_its_harness_names, "contract, Caps";
    two_nodes_have_devices_of_their_own, "11.2.1.2";
    a_nodes_clock_never_runs_backwards, "contract, Clock";
    random_words_differ, "contract, Host::random";
    a_port_that_fails_says_so, "11.6.3.4", with HarnessCaps::PORT;
    a_port_that_comes_back_says_so, "11.6.3.4", with HarnessCaps::PORT;
    requests_outlive_a_short_port_failure, "9.7.6.1.3", with HarnessCaps::PORT;
    requests_outlive_a_port_that_fails_at_any_moment, "9.7.6.1.3; 9.7.5.1.5",
        needs Caps::ATOMICS, with HarnessCaps::PORT;
    each_port_has_addresses_of_its_own, "3.5.1; 4.1.1", needs Caps::MULTI_PORT;
    each_port_fails_by_itself, "11.6.3.4", needs Caps::MULTI_PORT, with HarnessCaps::PORT;
    two_ports_of_one_device_reach_each_other, "3.5.1", needs Caps::MULTI_PORT;
    a_failed_port_does_not_change_queue_pairs, "11.6.3.4", with HarnessCaps::PORT;
}

fn a_device_describes_itself<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    let ctx = bed.ctx(0);
    let device = ctx.device_attr();
    check!(!bed.machines[0].device.name().is_empty(), "a device without a name");
    check!(device.ports >= 1, "a device without ports");
    for (what, n) in [
        ("queue pairs", u64::from(device.max_qp)),
        ("requests of a queue", u64::from(device.max_qp_wr)),
        ("ranges", u64::from(device.max_sge)),
        ("completion queues", u64::from(device.max_cq)),
        ("completions", u64::from(device.max_cqe)),
        ("regions", u64::from(device.max_mr)),
        ("bytes of a region", device.max_mr_size),
        ("bytes of a message", u64::from(device.max_msg)),
        ("reads served", u64::from(device.max_dest_rd_atomic)),
        ("reads in flight", u64::from(device.max_rd_atomic)),
    ] {
        check!(n > 0, "a device of no {what}");
    }
    let port = ctx.port_attr(bed.machines[0].port)?;
    check!(port.active_mtu <= port.max_mtu, "an active MTU above the largest: {port:?}");
    check!(port.bits_per_second > 0 && port.gids > 0, "a port of no use: {port:?}");
    check_eq!(port.lid == 0, port.link_layer == LinkLayer::Ethernet, "whether a local identifier is missing");
    Ok(())
}

fn a_device_has_the_capabilities_that_its_harness_names<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    check_eq!(bed.ctx(0).device_attr().caps, bed.harness.capabilities(), "the device's capabilities");
    Ok(())
}

fn two_nodes_have_devices_of_their_own<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    check!(bed.machines[0].name != bed.machines[1].name, "two nodes of one name");
    let guid = |node| bed.ctx(node).device_attr().node_guid;
    check!(guid(0) != guid(1), "two devices of one identifier");
    Ok(())
}

fn a_nodes_clock_never_runs_backwards<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let pair = bed.pair()?;
    let host = pair.a.ctx.host();
    let mut last = host.now();
    for i in 0..100 {
        match i % 4 {
            0 => bed.advance(Nanos(100)),
            1 => host.spend(Work::Compute(Nanos(1_000))),
            2 => pair.a.write(i, 0..8, pair.b.word(0)?)?,
            _ => drop(bed.completion(&pair.a.sends)?),
        }
        let now = host.now();
        check!(now >= last, "{now} after {last}");
        last = now;
    }
    Ok(())
}

fn random_words_differ<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    let hosts = [bed.ctx(0).host(), bed.ctx(1).host()];
    let mut seen: Vec<u64> = (0..64).map(|i| hosts[i % 2].random()).collect();
    seen.sort_unstable();
    seen.dedup();
    check_eq!(seen.len(), 64, "different words of 64");
    Ok(())
}

fn fail_port<H: Harness>(bed: &mut TestBed<'_, H>, node: usize) -> Outcome<crate::conformance::FaultId> {
    let port = bed.machines[node].port;
    bed.inject(Fault::PortDown { node, device: 0, port })
}

fn a_port_that_fails_says_so<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    let (ctx, other, port) = (bed.ctx(0), bed.ctx(1), bed.machines[0].port);
    fail_port(bed, 0)?;
    check_eq!(bed.async_event(&ctx)?, AsyncEvent::PortError(port), "the event");
    check!(ctx.port_attr(port)?.state != PortState::Active, "a failed port is active");
    bed.settle();
    check_eq!(ctx.async_event(), None, "a second event");
    check_eq!(other.async_event(), None, "an event at the other node");
    check_eq!(other.port_attr(bed.machines[1].port)?.state, PortState::Active, "the other node's port");
    Ok(())
}

fn a_port_that_comes_back_says_so<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    let (ctx, port) = (bed.ctx(0), bed.machines[0].port);
    let fault = fail_port(bed, 0)?;
    check_eq!(bed.async_event(&ctx)?, AsyncEvent::PortError(port), "the first event");
    bed.heal(fault);
    check_eq!(bed.async_event(&ctx)?, AsyncEvent::PortActive(port), "the second event");
    check_eq!(ctx.port_attr(port)?.state, PortState::Active, "the port's state");
    Ok(())
}

fn requests_outlive_a_short_port_failure<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let Pair { a, b } = bed.pair_with(&setup)?;
    for node in [0, 1] {
        let fault = fail_port(bed, node)?;
        a.write(1, 0..8, b.word(0)?)?;
        bed.advance(setup.ack.span().expect("a time-out") * 2);
        check!(a.poll_sends()?.is_empty(), "a write completed through a failed port");
        bed.heal(fault);
        bed.done(&a.sends, 1)?;
    }
    Ok(())
}

/// A port fails while packets are on their way to it, from it, and just arriving.
fn requests_outlive_a_port_that_fails_at_any_moment<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const MOMENTS: u64 = 24;
    for moment in 0..MOMENTS {
        bed.world(2, moment)?;
        let setup = Setup::new(bed);
        let pair = bed.pair_with(&setup)?;
        bed.warm(&pair)?;
        let Pair { a, b } = &pair;
        for i in 0..4 {
            b.recv(i, 64 + 8 * i as u32..72 + 8 * i as u32)?;
            a.fetch_add(2 * i, 512 + 8 * i as u32, b.word(1_024)?, 1)?;
            a.send(2 * i + 1, 0..8)?;
        }
        bed.advance(Nanos(bed.timing().round_trip.0 * moment / MOMENTS));
        let fault = fail_port(bed, (moment % 2) as usize)?;
        bed.settle();
        bed.heal(fault);
        for i in 0..8 {
            bed.done(&a.sends, i)?;
        }
        for i in 0..4 {
            check_eq!(a.mr.load(512 + 8 * i as usize)?, i, "the value before addition {i}");
            bed.done(&b.recvs, i)?;
        }
        check_eq!(b.mr.load(1_024)?, 4, "the word");
    }
    Ok(())
}

fn a_failed_port_does_not_change_queue_pairs<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let fault = fail_port(bed, 0)?;
    bed.settle();
    check_eq!((a.qp.state(), b.qp.state()), (QpState::Rts, QpState::Rts), "states of idle queue pairs");
    bed.heal(fault);
    bed.settle();
    a.write(1, 0..8, b.word(0)?)?;
    bed.done(&a.sends, 1)?;
    Ok(())
}

fn each_port_has_addresses_of_its_own<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    let index = bed.machines[0].gid_index;
    let mut seen = Vec::new();
    for ctx in [bed.ctx(0), bed.ctx(1)] {
        let ports = ctx.device_attr().ports;
        check!(ports >= 2, "a device of several ports has {ports}");
        for port in 1..=ports {
            seen.push((ctx.gid(port, index)?, ctx.port_attr(port)?.lid));
        }
        check!(ctx.port_attr(0).is_err() && ctx.gid(0, index).is_err(), "port 0 is there");
        check!(
            ctx.port_attr(ports + 1).is_err() && ctx.gid(ports + 1, index).is_err(),
            "a port too many is there"
        );
    }
    for (i, one) in seen.iter().enumerate() {
        for other in &seen[..i] {
            check!(one.0 != other.0, "two ports of one GID: {}", one.0);
            check!(one.1 == 0 || one.1 != other.1, "two ports of one local identifier: {}", one.1);
        }
    }
    Ok(())
}

/// Two ends connected by their second ports.
fn by_second_ports<H: Harness>(bed: &mut TestBed<'_, H>, setup: &Setup) -> Outcome<Pair<H::V>> {
    let (mut a, mut b) = (bed.end(0, setup)?, bed.end(1, setup)?);
    (a.port, b.port) = (2, 2);
    a.connect(&b, setup, 0)?;
    b.connect(&a, setup, 1)?;
    Ok(Pair { a, b })
}

fn each_port_fails_by_itself<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let first = bed.pair_with(&setup)?;
    let second = by_second_ports(bed, &setup)?;
    let fault = bed.inject(Fault::PortDown { node: 0, device: 0, port: 2 })?;
    check_eq!(bed.async_event(&first.a.ctx)?, AsyncEvent::PortError(2), "the event");
    check!(first.a.ctx.port_attr(2)?.state != PortState::Active, "a failed port is active");
    check_eq!(first.a.ctx.port_attr(1)?.state, PortState::Active, "the other port");
    second.a.write(1, 0..8, second.b.word(0)?)?;
    first.a.write(2, 0..8, first.b.word(0)?)?;
    bed.done(&first.a.sends, 2)?;
    check!(second.a.poll_sends()?.is_empty(), "a write completed through a failed port");
    bed.heal(fault);
    bed.done(&second.a.sends, 1)?;
    Ok(())
}

fn two_ports_of_one_device_reach_each_other<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (a, mut b) = (bed.end(0, &setup)?, bed.end(0, &setup)?);
    b.port = 2;
    a.connect(&b, &setup, 0)?;
    b.connect(&a, &setup, 1)?;
    a.write(1, 0..8, b.word(0)?)?;
    bed.done(&a.sends, 1)?;
    b.write(2, 0..8, a.word(0)?)?;
    bed.done(&b.sends, 2)?;
    Ok(())
}
