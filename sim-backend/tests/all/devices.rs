//! Nodes of several adapters of several ports: names, cables, crashes.

use crate::common::*;
use std::cell::Cell;
use std::rc::Rc;
use weft_sim::choice::Seeded;
use weft_sim::fault::{Fault, FaultError, Link, Way};
use weft_sim::log::Log;
use weft_sim::{Config, ConfigError, Fabric, NodeId, SimContext};
use weft_verbs::*;

const N1: NodeId = NodeId(1);

fn world(devices: u8, ports: u8) -> Fabric {
    let config = Config { devices, ports, sanitize: true, ..Config::new(2, profile()) };
    fabric_with(config, Box::new(Seeded::new(1)))
}

/// A side on a node's device.
fn side(fabric: &Fabric, node: u32, device: usize) -> Side {
    Side::on(fabric, (node, device), QpCaps::default(), 64)
}

/// Connects two sides by ports of theirs.
fn connect(a: &Side, b: &Side, ports: (u8, u8)) {
    let path = |peer: &Side, to, from| Path::to(peer.ctx.gid(to, 0).unwrap(), from);
    a.connect(ToRtr { path: path(b, ports.1, ports.0), ..rtr(b) }, rts());
    b.connect(ToRtr { path: path(a, ports.0, ports.1), ..rtr(a) }, rts());
}

fn carries(fabric: &Fabric, a: &Side, b: &Side) -> bool {
    a.post(1, SendOp::Write { to: b.remote(0, 8), imm: None }, 0, 8, SendFlags::SIGNALED);
    settle(fabric);
    a.polled()[0].result.is_ok()
}

#[test]
fn devices_count_from_sim0() {
    let fabric = world(3, 1);
    let names: Vec<String> = fabric.devices(N1).iter().map(|device| device.name().to_owned()).collect();
    assert_eq!(names, ["sim0", "sim1", "sim2"]);
    assert_eq!(fabric.stats().alive.len(), 2, "what is alive is counted by node");
}

#[test]
fn a_number_of_devices_that_cannot_be_is_refused() {
    for devices in [0, 9] {
        let config = Config { devices, ..Config::new(2, profile()) };
        let made = Fabric::new(config, Box::new(Seeded::new(1)));
        assert_eq!(made.err(), Some(ConfigError::Devices(devices)));
    }
}

#[test]
fn a_fault_names_a_cable_counted_over_all_devices() {
    for cable in 1..=4u8 {
        let fabric = world(2, 2);
        let link = Link::Port(N1, cable);
        fabric.plan(Nanos::ZERO, Fault::Cut { link, way: Way::Both, lasts: None }).unwrap();
        for (device, port) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
            let (a, b) = (side(&fabric, 0, 0), side(&fabric, 1, device));
            connect(&a, &b, (1, port));
            let cut = device as u8 * 2 + port == cable;
            assert_eq!(carries(&fabric, &a, &b), !cut, "cable {cable}, device {device}, port {port}");
        }
        assert!(fabric.faults()[0].packets_hit > 0);
    }
    let (node, port) = (N1, 5);
    let refused = world(2, 2).plan(Nanos::ZERO, Fault::PortDown { node, port, lasts: None });
    assert_eq!(refused, Err(FaultError::NoSuchPort { node, port, ports: 4 }));
}

#[test]
fn a_crash_takes_all_devices_of_a_node() {
    let fabric = world(2, 1);
    let rails = [0, 1].map(|device| (side(&fabric, 0, device), side(&fabric, 1, device)));
    for (a, b) in &rails {
        connect(a, b, (1, 1));
        assert!(carries(&fabric, a, b));
    }
    fabric.plan(fabric.now(), Fault::Crash { node: N1 }).unwrap();
    run(&fabric, Nanos(1));
    for (a, b) in &rails {
        assert_eq!(b.ctx.alloc_pd().err(), Some(VerbsError::DeviceGone));
        assert!(!carries(&fabric, a, b));
    }
    assert_eq!(fabric.stats().alive[1], Default::default());
    fabric.plan(fabric.now(), Fault::Restart { node: N1 }).unwrap();
    run(&fabric, Nanos(1));
    assert!(fabric.devices(N1).iter().all(|device| device.open().is_ok()));
}

#[test]
fn a_context_that_died_with_its_node_is_told_nothing() {
    let fabric = world(2, 1);
    let before = fabric.devices(N1)[0].open().unwrap();
    fabric.plan(fabric.now(), Fault::Crash { node: N1 }).unwrap();
    run(&fabric, Nanos(1));
    fabric.plan(fabric.now(), Fault::Restart { node: N1 }).unwrap();
    run(&fabric, Nanos(1));
    let after = fabric.devices(N1)[0].open().unwrap();
    fabric.set_log(Log::memory());
    fabric.plan(fabric.now(), Fault::PortDown { node: N1, port: 1, lasts: None }).unwrap();
    run(&fabric, Nanos(1));
    assert_eq!((before.async_event(), after.async_event()), (None, Some(AsyncEvent::PortError(1))));
    let log = String::from_utf8(fabric.take_log()).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains("PortError")).count(), 1, "{log}");
}

/// Counts its steps, polls nothing, and spins on its completion queues.
struct Idler(Rc<Cell<u32>>);

impl Node for Idler {
    fn step(&mut self) -> Park {
        self.0.set(self.0.get() + 1);
        Park::Until { style: Wait::Poll, deadline: None }
    }
}

#[test]
fn a_completion_left_on_any_device_ends_the_next_wait() {
    for left in [None, Some(0), Some(1)] {
        let fabric = world(2, 1);
        let sides = [side(&fabric, 0, 0), side(&fabric, 0, 1)];
        if let Some(device) = left {
            let (near, far) = (&sides[device], side(&fabric, 1, 0));
            connect(near, &far, (1, 1));
            near.post(1, SendOp::Write { to: far.remote(0, 8), imm: None }, 0, 8, SendFlags::SIGNALED);
            settle(&fabric);
        }
        let steps = Rc::new(Cell::new(0));
        fabric.mount(NodeId(0), Box::new(Idler(Rc::clone(&steps))));
        run(&fabric, Nanos::from_micros(100));
        assert_eq!(steps.get() > 1, left.is_some(), "left on device {left:?}: {} steps", steps.get());
    }
}

/// Resolves a name from a device, and says by which port of the device that leads, if anywhere.
fn leads_by(fabric: &Fabric, ctx: &SimContext, name: &str) -> Option<u8> {
    let cm = ctx.connection_manager().unwrap();
    let id = cm.resolve(name, Service(1)).unwrap();
    run(fabric, Nanos::from_micros(10));
    match cm.event() {
        Some(CmEvent::Resolved { id: resolved }) => {
            assert_eq!(resolved, id);
            Some(cm.port(id).unwrap())
        }
        Some(CmEvent::Unreachable { .. }) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_name_leads_to_a_cable_by_the_own_port_of_that_number() {
    let fabric = world(2, 2);
    let ctx = fabric.devices(NodeId(0))[1].open().unwrap();
    let names = ["n1", "n1.1", "n1.2", "n1.3", "n1.4", "n1.5", "n1.0", "n2.1", "n0.4"];
    let ports = names.map(|name| leads_by(&fabric, &ctx, name));
    assert_eq!(ports, [Some(1), Some(1), Some(2), Some(1), Some(2), None, None, None, Some(2)]);
}

#[test]
fn the_manager_connects_second_ports_over_their_own_cable() {
    let fabric = world(1, 2);
    let (a, b) = (side(&fabric, 0, 0), side(&fabric, 1, 0));
    let (active, passive) = (a.ctx.connection_manager().unwrap(), b.ctx.connection_manager().unwrap());
    passive.listen(Service(1)).unwrap();
    for node in [0, 1] {
        let down = Fault::PortDown { node: NodeId(node), port: 1, lasts: None };
        fabric.plan(Nanos::ZERO, down).unwrap();
    }
    let event = |cm: &weft_sim::SimCm| {
        run(&fabric, Nanos::from_millis(1));
        cm.event().expect("an event of the manager")
    };
    let from = active.resolve("n1.2", Service(1)).unwrap();
    assert_eq!(event(&active), CmEvent::Resolved { id: from });
    let params = ConnParams {
        private: b"",
        responder_resources: 1,
        initiator_depth: 1,
        timeout: AckTimeout::new(8).unwrap(),
        retry: Retries::MOST,
        rnr_retry: Retries::MOST,
        min_rnr_timer: RnrTimer::new(1).unwrap(),
        mtu: None,
        traffic_class: 0,
    };
    active.connect(from, &a.qp, &params).unwrap();
    let CmEvent::Request { id: to, .. } = event(&passive) else { panic!("no request") };
    assert_eq!((active.port(from), passive.port(to)), (Ok(2), Ok(2)));
    passive.accept(to, &b.qp, &params).unwrap();
    assert!(matches!(event(&active), CmEvent::Established { .. }));
    assert!(carries(&fabric, &a, &b));
}
