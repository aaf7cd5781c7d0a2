//! Several devices of one node: each a world of its own, with its own objects, ports and connections (IBA 11.2.1.2).

use super::cm_kit::{SERVICE, params};
use super::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

const TWO: HarnessCaps = HarnessCaps::SECOND_DEVICE;

cases! { "devices":
    devices_of_one_node_have_names_and_addresses_of_their_own, "11.2.1.2; 4.1.1", with TWO;
    objects_of_another_device_are_foreign, "11.2.1", with TWO;
    each_device_carries_traffic, "11.2.1", with TWO;
    devices_of_one_node_reach_each_other, "11.2.1", with TWO;
    a_device_keeps_running_when_the_others_port_fails, "11.6.3.4", with TWO.union(HarnessCaps::PORT);
    each_device_has_a_connection_manager_of_its_own, "12; contract, ConnectionManager", with TWO;
    a_completion_on_any_device_wakes_the_node, "contract, Park", with TWO.union(HarnessCaps::MOUNT);
    additions_by_two_devices_to_two_words_are_all_counted, "contract, Caps::ATOMICS",
        needs Caps::ATOMICS, with TWO;
}

/// A connection between second devices, or between others.
fn joined<V: Verbs>(a: End<V>, b: End<V>, setup: &Setup) -> Outcome<Pair<V>> {
    a.connect(&b, setup, 0)?;
    b.connect(&a, setup, 1)?;
    Ok(Pair { a, b })
}

fn second_pair<H: Harness>(bed: &mut TestBed<'_, H>, setup: &Setup) -> Outcome<Pair<H::V>> {
    let (a, b) = (bed.second_end(0, setup)?, bed.second_end(1, setup)?);
    joined(a, b, setup)
}

/// A message there, and an addition back.
fn talk<H: Harness>(bed: &mut TestBed<'_, H>, Pair { a, b }: &Pair<H::V>) -> Outcome {
    a.fill(0, &pattern(100, 1))?;
    b.recv(1, 0..100)?;
    a.send(2, 0..100)?;
    bed.done(&a.sends, 2)?;
    bed.done(&b.recvs, 1)?;
    check!(b.bytes(0..100)? == pattern(100, 1), "the message changed");
    b.read(3, 200..300, a.remote(0..100)?)?;
    bed.done(&b.sends, 3)?;
    check!(b.bytes(200..300)? == pattern(100, 1), "what was read changed");
    Ok(())
}

fn devices_of_one_node_have_names_and_addresses_of_their_own<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    bed.at_least(2)?;
    let machine = &bed.machines[0];
    let second = machine.second.as_ref().map_or("", |second| second.device.name());
    check!(!second.is_empty() && second != machine.device.name(), "two devices of one name: {second}");
    let mut seen = Vec::new();
    for node in [0, 1] {
        for ctx in [bed.ctx(node), bed.second(node)] {
            let index = bed.machines[node].gid_index;
            seen.push((ctx.device_attr().node_guid, ctx.gid(1, index)?));
        }
    }
    for (i, one) in seen.iter().enumerate() {
        for other in &seen[..i] {
            check!(one.0 != other.0, "two devices of one identifier: {:#x}", one.0);
            check!(one.1 != other.1, "two ports of one GID: {}", one.1);
        }
    }
    Ok(())
}

fn objects_of_another_device_are_foreign<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (first, second) = (bed.end(0, &setup)?, bed.second_end(0, &setup)?);
    let pair = second_pair(bed, &setup)?;
    let making = second.pd.create_qp(&QpInit {
        kind: QpType::Rc,
        send_cq: &first.sends,
        recv_cq: &second.recvs,
        srq: None,
        caps: setup.caps,
        sq_sig_all: false,
    });
    check_refused!(making, VerbsError::Foreign(_), "a queue pair on another device's completion queue");
    let sges = [Sge { mr: &first.mr, at: 0, len: 8 }];
    let (op, flags) = (SendOp::Send { imm: None }, SendFlags::SIGNALED);
    let posting = pair.a.qp.post_send(&[SendWr { wr_id: 1, op, data: Payload::Sge(&sges), flags }]);
    check_refused!(posting.map_err(|e| e.why), VerbsError::Foreign(_), "a post of another device's region");
    talk(bed, &pair)
}

fn each_device_carries_traffic<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let first = bed.pair_with(&setup)?;
    let second = second_pair(bed, &setup)?;
    for _ in 0..3 {
        talk(bed, &first)?;
        talk(bed, &second)?;
    }
    Ok(())
}

fn devices_of_one_node_reach_each_other<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (a, b) = (bed.end(0, &setup)?, bed.second_end(0, &setup)?);
    let pair = joined(a, b, &setup)?;
    talk(bed, &pair)?;
    let (a, b) = (bed.second_end(1, &setup)?, bed.end(0, &setup)?);
    let pair = joined(a, b, &setup)?;
    talk(bed, &pair)
}

fn a_device_keeps_running_when_the_others_port_fails<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let first = bed.pair_with(&setup)?;
    let second = second_pair(bed, &setup)?;
    for (device, down, up) in [(0, &first, &second), (1, &second, &first)] {
        let fault = bed.inject(Fault::PortDown { node: 0, device, port: 1 })?;
        check_eq!(bed.async_event(&down.a.ctx)?, AsyncEvent::PortError(1), "the event of the device");
        check!(down.a.ctx.port_attr(1)?.state != PortState::Active, "a failed port is active");
        check_eq!(up.a.ctx.port_attr(1)?.state, PortState::Active, "the other device's port");
        down.a.write(1, 0..8, down.b.word(0)?)?;
        talk(bed, up)?;
        check_eq!(up.a.ctx.async_event(), None, "an event of the other device");
        check!(down.a.poll_sends()?.is_empty(), "a write completed through a failed port");
        bed.heal(fault);
        check_eq!(bed.async_event(&down.a.ctx)?, AsyncEvent::PortActive(1), "the event of the repair");
        bed.done(&down.a.sends, 1)?;
    }
    Ok(())
}

fn each_device_has_a_connection_manager_of_its_own<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let pair = Pair { a: bed.second_end(0, &setup)?, b: bed.second_end(1, &setup)? };
    let (active, passive) = (pair.a.ctx.connection_manager()?, pair.b.ctx.connection_manager()?);
    passive.listen(SERVICE)?;
    // The same service of the first device is another one.
    let others = bed.ctx(1).connection_manager()?;
    others.listen(SERVICE)?;
    let name = bed.machines[1].second.as_ref().map_or(String::new(), |second| second.name.clone());
    let from = active.resolve(&name, SERVICE)?;
    check_eq!(bed.cm_event(&active)?, CmEvent::Resolved { id: from }, "the answer to resolve");
    check_eq!(active.port(from)?, pair.a.port, "the port of the active side");
    pair.a.qp.modify(&pair.a.to_init(&setup))?;
    active.connect(from, &pair.a.qp, &params(&setup, b"second"))?;
    let CmEvent::Request { id: to, private, .. } = bed.cm_event(&passive)? else {
        return Err(Failure::new("the second device was to get a request"));
    };
    check!(private == b"second", "the request changed");
    check_eq!(passive.port(to)?, pair.b.port, "the port of the passive side");
    pair.b.qp.modify(&pair.b.to_init(&setup))?;
    passive.accept(to, &pair.b.qp, &params(&setup, b""))?;
    check!(matches!(bed.cm_event(&active)?, CmEvent::Established { .. }), "the active side's event");
    check!(matches!(bed.cm_event(&passive)?, CmEvent::Established { .. }), "the passive side's event");
    talk(bed, &pair)?;
    check_eq!(others.event(), None, "an event of the first device's manager");
    Ok(())
}

/// Polls two queues once a step, and waits for either.
struct Listener<V: Verbs> {
    queues: [V::Cq; 2],
    seen: Rc<RefCell<Vec<u64>>>,
}

impl<V: Verbs> Node for Listener<V> {
    fn step(&mut self) -> Park {
        let mut found = Vec::new();
        for queue in &self.queues {
            if queue.poll(&mut found, 16).is_err() {
                return Park::Done;
            }
        }
        self.seen.borrow_mut().extend(found.iter().map(|completion| completion.wr_id));
        Park::Until { style: Wait::Poll, deadline: None }
    }
}

fn a_completion_on_any_device_wakes_the_node<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let first = bed.pair_with(&setup)?;
    let second = second_pair(bed, &setup)?;
    let seen = Rc::new(RefCell::new(Vec::new()));
    let queues = [first.b.recvs.clone(), second.b.recvs.clone()];
    for (pair, wr_id) in [(&first, 1), (&second, 2), (&first, 3)] {
        pair.b.recv(wr_id, 0..8)?;
    }
    bed.mount(1, Box::new(Listener::<H::V> { queues, seen: Rc::clone(&seen) }))?;
    bed.settle();
    for (pair, wr_id) in [(&second, 2), (&first, 1), (&first, 3)] {
        pair.a.send(wr_id, 0..8)?;
        bed.done(&pair.a.sends, wr_id)?;
        bed.settle();
        check_eq!(seen.borrow().last().copied(), Some(wr_id), "what the node was woken for");
    }
    Ok(())
}

fn additions_by_two_devices_to_two_words_are_all_counted<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let pairs = [bed.pair_with(&setup)?, second_pair(bed, &setup)?];
    for i in 0..20 {
        for pair in &pairs {
            pair.a.fetch_add(i, 8 * i as u32, pair.b.word(512)?, 1)?;
        }
    }
    for pair in &pairs {
        for i in 0..20 {
            bed.done(&pair.a.sends, i)?;
            check_eq!(pair.a.mr.load(8 * i as usize)?, i, "the value before addition {i}");
        }
        check_eq!(pair.b.mr.load(512)?, 20, "the word of one device");
    }
    Ok(())
}
