//! A root that is put up again by what it was answered the first time.

use weft_sim::choice::First;
use weft_sim::memo::Root;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Order, SimContext, SimMr, SimPd};
use weft_verbs::{
    AccessFlags, Clock, Context, Device, Host, MemoryRegion, Nanos, Node, Park, Path, ProtectionDomain, Wait,
};

fn fabric() -> Fabric {
    let profile = Profile::builtin("ncosed-2007").unwrap();
    let config = Config { order: Order::Untimed, sanitize: false, ..Config::new(2, profile) };
    Fabric::new(config, Box::new(First)).unwrap()
}

/// A program that counts its steps in registered memory, and asks for ten of them.
struct Counter(SimMr);

impl Node for Counter {
    fn step(&mut self) -> Park {
        let count = self.0.load(0).unwrap() + 1;
        self.0.store(0, count).unwrap();
        match count % 10 {
            0 => Park::Until { style: Wait::Poll, deadline: None },
            _ => Park::Again,
        }
    }
}

type Built = (SimContext, SimPd, SimMr, Nanos);

/// A device opened, a region made and written, a program run to its rest.
fn set_up(fabric: &Fabric, len: usize) -> Built {
    let ctx = fabric.devices(NodeId(0))[0].open().unwrap();
    let pd = ctx.alloc_pd().unwrap();
    let mr = pd.alloc_mr(len, AccessFlags::LOCAL_WRITE).unwrap();
    mr.store(8, ctx.host().random()).unwrap();
    fabric.mount(NodeId(0), Box::new(Counter(mr.clone())));
    fabric.run_until_quiescent();
    fabric.nudge(NodeId(0));
    let now = ctx.host().now();
    (ctx, pd, mr, now)
}

fn alive(fabric: &Fabric) -> (u32, u32) {
    let alive = &fabric.stats().alive[0];
    (alive.mrs, alive.pds)
}

#[test]
fn a_root_put_up_again_is_the_same_to_the_last_byte() {
    let (fabric, mut enabled) = (fabric(), Vec::new());
    let mut root = Root::new(&fabric);
    let built = fabric.begin(&mut root, || set_up(&fabric, 64));
    assert!(root.is_kept());
    let (first, now, addr) = (fabric.fingerprint_parts(), built.3, built.2.addr());
    drop(built);
    for _ in 0..3 {
        let built = fabric.begin(&mut root, || set_up(&fabric, 64));
        assert!(root.is_kept());
        assert_eq!(fabric.fingerprint_parts(), first);
        assert_eq!((built.3, built.2.addr(), built.2.load(0)), (now, addr, Ok(10)));
        fabric.enabled(&mut enabled);
        assert_eq!(enabled.len(), 1, "it was nudged");
        fabric.run_until_quiescent();
        assert_eq!(built.2.load(0), Ok(20), "its program goes on where the first one was");
    }
}

#[test]
fn a_handle_of_a_root_put_up_again_destroys_its_object_once() {
    let fabric = fabric();
    let mut root = Root::new(&fabric);
    for _ in 0..3 {
        let (ctx, pd, mr, _) = fabric.begin(&mut root, || set_up(&fabric, 64));
        assert_eq!(alive(&fabric), (1, 1));
        drop((ctx, pd, mr));
        assert_eq!(alive(&fabric), (1, 1), "the program holds them");
        fabric.mount(NodeId(0), Box::new(Idle));
        assert_eq!(alive(&fabric), (0, 0));
    }
}

struct Idle;

impl Node for Idle {
    fn step(&mut self) -> Park {
        Park::Done
    }
}

#[test]
fn what_cannot_be_answered_again_is_carried_out_every_time() {
    let fabric = fabric();
    let mut root = Root::new(&fabric);
    for _ in 0..3 {
        let mr = fabric.begin(&mut root, || {
            let (ctx, pd, mr, _) = set_up(&fabric, 64);
            let ah = pd.create_ah(&Path::to(ctx.gid(1, 0).unwrap(), 1));
            assert!(ah.is_ok());
            mr
        });
        assert!(!root.is_kept());
        assert_eq!((alive(&fabric).0, mr.load(0)), (1, Ok(10)));
    }
}

#[test]
#[should_panic(expected = "the same every time")]
fn a_set_up_that_does_something_else_the_second_time_is_found() {
    let fabric = fabric();
    let mut root = Root::new(&fabric);
    drop(fabric.begin(&mut root, || set_up(&fabric, 64)));
    fabric.begin(&mut root, || drop(fabric.devices(NodeId(0))[0].open()));
}
