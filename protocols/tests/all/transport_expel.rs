//! Expelling an incarnation: nothing of it acts here any more, nothing waits for it, and its successor comes in.

use crate::common::{Cluster, ms, rank, us};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::transport::{Channel, GuestConfig, Incoming, NotExecuted, OpError, SendError};
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, Wait, Work};

const CHANNEL: Channel = Channel(3);

#[test]
fn what_waits_for_one_who_is_expelled_ends_and_says_so() {
    let cluster = Cluster::new(2, 1, Wait::Notify);
    let [here, there] = &cluster.members[..] else { panic!("two of them") };
    let memory = there.mesh.alloc(64, AccessFlags::all()).expect("there is memory");
    let word = memory.remote(0..64).expect("in bounds").word(0).expect("in bounds");
    let ends = Rc::new(RefCell::new(Vec::new()));
    let (rt, mesh, keep) = (here.rt.clone(), here.mesh.clone(), Rc::clone(&ends));
    drop(here.rt.spawn(async move {
        let before = mesh.fetch_add(rank(1), word, 1).await;
        assert_eq!(before, Ok(0), "it stands");
        keep.borrow_mut().push(("reached", Ok(0)));
        rt.sleep_until(ms(6)).await;
        // The peer is cut off now: this one's outcome is not to be known.
        let unknown = mesh.fetch_add(rank(1), word, 1).await;
        keep.borrow_mut().push(("unknown", unknown));
        let resolved = mesh.resolve_outcomes(rank(1)).await;
        keep.borrow_mut().push(("resolved", resolved.map(|()| 0).map_err(OpError::NotExecuted)));
        let next = mesh.fetch_add(rank(1), word, 1).await;
        keep.borrow_mut().push(("next", next));
    }));
    cluster.run(ms(5));
    cluster
        .plan(cluster.fabric.now(), Fault::Cut { link: Link::Node(NodeId(1)), way: Way::Both, lasts: None });
    let (mesh, incarnation) = (here.mesh.clone(), there.mesh.incarnation());
    assert_eq!(mesh.incarnation_of(rank(1)), Some(incarnation));
    here.at(ms(8), move || {
        mesh.send(rank(1), CHANNEL, &[1; 8]).expect("it is kept");
        mesh.send(rank(1), CHANNEL, &[2; 8]).expect("it is kept");
    });
    let mesh = here.mesh.clone();
    here.at(ms(20), move || {
        mesh.expel(rank(1), incarnation);
        assert_eq!(mesh.send(rank(1), CHANNEL, &[3; 8]), Err(SendError::PeerGone(rank(1))));
    });
    cluster.run(ms(50));
    let gone = Err(OpError::NotExecuted(NotExecuted::PeerGone(rank(1))));
    let ends = ends.borrow();
    assert_eq!(ends.len(), 4, "{ends:?}");
    assert!(matches!(ends[1].1, Err(OpError::Unknown(_))) || ends[1].1 == gone, "{ends:?}");
    assert_eq!([ends[2].1, ends[3].1], [gone, gone]);
    assert_eq!(here.mesh.stats().dropped, 2);
    assert_eq!((here.mesh.audit().unacked, here.mesh.audit().waiting), (0, 0));
}

#[test]
fn one_who_is_expelled_is_refused_and_told_and_its_successor_comes_in() {
    let mut cluster = Cluster::new(2, 1, Wait::Notify);
    let incarnation = cluster.members[1].mesh.incarnation();
    let got = Rc::new(RefCell::new(Vec::new()));
    let (keep, mut inbox) =
        (Rc::clone(&got), cluster.members[0].mesh.open(CHANNEL).expect("nobody opened it"));
    drop(cluster.members[0].rt.spawn(async move {
        while let Some(incoming) = inbox.recv().await {
            if let Incoming::Message(message) = incoming {
                keep.borrow_mut().push(message[0]);
            }
        }
    }));
    let say = |cluster: &Cluster, at: Nanos, what: u8| {
        let mesh = cluster.members[1].mesh.clone();
        cluster.members[1].at(at, move || mesh.send(rank(0), CHANNEL, &[what; 8]).expect("there is room"));
    };
    say(&cluster, us(10), 1);
    let mesh = cluster.members[0].mesh.clone();
    cluster.members[0].at(ms(5), move || mesh.expel(rank(1), incarnation));
    say(&cluster, ms(6), 2);
    cluster.run(ms(40));
    assert_eq!(*got.borrow(), [1]);
    assert!(cluster.members[1].mesh.is_expelled() && !cluster.members[0].mesh.is_expelled());
    // What it had to say is dropped, and it asks for no connection any more.
    let (mesh, timers) = (&cluster.members[1].mesh, cluster.members[1].rt.audit().timers);
    assert_eq!((mesh.audit().unacked, mesh.audit().waiting, timers), (0, 0, 0));
    assert_eq!(mesh.stats().dropped, 1);
    assert_eq!(mesh.send(rank(0), CHANNEL, &[4; 8]), Err(SendError::PeerGone(rank(0))));

    cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(1) });
    cluster.run(ms(1));
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(1) });
    cluster.run(ms(1));
    cluster.members[1] = cluster.start(1);
    assert_ne!(cluster.members[1].mesh.incarnation(), incarnation);
    let soon = cluster.fabric.now() + ms(1);
    say(&cluster, soon, 3);
    cluster.run(ms(100));
    assert_eq!(*got.borrow(), [1, 3]);
    assert!(!cluster.members[1].mesh.is_expelled());
}

/// How the connection between one who expels and one who is expelled ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    /// By the word of who expels.
    ByWord,
    /// It breaks at the end of who expels, who asks for another one before that.
    AtOneEnd,
    /// It breaks at the end of who is expelled, under a call that is dropped. No word of the other gets there.
    AtTheOtherEnd,
}

/// Its connection ends while it stands; or it is asked for one by who has expelled it meanwhile, which finds that out by its answer; or
/// it finds its connection broken, and has no call under way.
#[test]
fn one_that_listens_learns_that_it_was_expelled_though_it_says_nothing() {
    let ends = [Ends::ByWord, Ends::AtOneEnd, Ends::AtTheOtherEnd];
    for (listens, ends) in [true, false].into_iter().flat_map(|listens| ends.map(|ends| (listens, ends))) {
        let cluster = Cluster::new(2, 1, Wait::Notify);
        let [here, there] = &cluster.members[..] else { panic!("two of them") };
        let say = |at: Nanos| {
            let mesh = here.mesh.clone();
            here.at(at, move || mesh.send(rank(1), CHANNEL, &[1; 8]).expect("it is kept"));
        };
        if listens {
            there.mesh.listen();
        }
        say(us(10));
        if ends != Ends::ByWord {
            let link = Link::Node(NodeId(1));
            cluster.plan(ms(5), Fault::Cut { link, way: Way::Both, lasts: Some(ms(20)) });
        }
        let memory = here.mesh.alloc(64, AccessFlags::all()).expect("there is memory");
        match ends {
            Ends::ByWord => {}
            Ends::AtOneEnd => say(ms(6)),
            Ends::AtTheOtherEnd => {
                let (rt, mesh) = (there.rt.clone(), there.mesh.clone());
                let word = memory.remote(0..64).expect("in bounds").word(0).expect("in bounds");
                drop(there.rt.spawn(async move {
                    rt.sleep_until(ms(6)).await;
                    let call = rt.deadline(ms(6) + us(50), mesh.fetch_add(rank(0), word, 1)).await;
                    assert!(call.is_err(), "it is cut off");
                }));
            }
        }
        let (mesh, incarnation) = (here.mesh.clone(), there.mesh.incarnation());
        here.at(ms(10), move || mesh.expel(rank(1), incarnation));
        cluster.run(ms(500));
        assert_eq!(there.mesh.is_expelled(), listens, "{ends:?}");
        assert!(!here.mesh.is_expelled());
        assert_eq!((here.rt.audit().timers, there.rt.audit().timers), (0, 0), "nobody goes on asking");
    }
}

/// It has met that node's last incarnation only, which it has expelled. The next one has asked for a connection in vain, and perhaps has expelled
/// this node since: neither says anything any more.
#[test]
fn one_that_calls_the_next_incarnation_of_a_peer_reaches_it_or_hears_that_it_is_out() {
    for is_out in [false, true] {
        let mut cluster = Cluster::new(2, 1, Wait::Notify);
        let mesh = cluster.members[0].mesh.clone();
        let say = move || mesh.send(rank(1), CHANNEL, &[1; 8]);
        let first = say.clone();
        cluster.members[0].at(us(10), move || first().expect("it is kept"));
        let (mesh, old) = (cluster.members[0].mesh.clone(), cluster.members[1].mesh.incarnation());
        cluster.members[0].at(ms(5), move || mesh.expel(rank(1), old));
        cluster.run(ms(10));
        cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(1) });
        cluster.run(ms(1));
        cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(1) });
        cluster.run(ms(1));
        cluster.members[1] = cluster.start(1);
        let [here, there] = &cluster.members[..] else { panic!("two of them") };
        if is_out {
            let (mesh, incarnation) = (there.mesh.clone(), here.mesh.incarnation());
            there.at(cluster.fabric.now(), move || mesh.expel(rank(0), incarnation));
        }
        assert_eq!(say(), Err(SendError::PeerGone(rank(1))));
        // One that is expelled is not called.
        for (called, stands) in [(old, false), (there.mesh.incarnation(), !is_out)] {
            let mesh = here.mesh.clone();
            here.at(cluster.fabric.now(), move || mesh.call(rank(1), called));
            cluster.run(ms(40));
            assert_eq!(say().is_ok(), stands);
        }
        assert_eq!((here.mesh.is_expelled(), there.mesh.is_expelled()), (is_out, false));
        cluster.run(ms(40));
        assert_eq!((here.rt.audit().timers, there.rt.audit().timers), (0, 0), "nobody goes on asking");
    }
}

#[test]
fn one_that_has_retired_refuses_whoever_asks_and_nobody_waits_for_it() {
    let cluster = Cluster::new(2, 1, Wait::Notify);
    let [retired, other] = &cluster.members[..] else { panic!("two of them") };
    let say = |at: Nanos| {
        let mesh = other.mesh.clone();
        other.at(at, move || mesh.send(rank(0), CHANNEL, &[1; 8]).expect("it is kept"));
    };
    say(us(10));
    let mesh = retired.mesh.clone();
    retired.at(ms(5), move || mesh.retire());
    say(ms(6));
    cluster.run(ms(40));
    assert_eq!(other.mesh.send(rank(0), CHANNEL, &[2; 8]), Err(SendError::PeerGone(rank(0))));
    assert_eq!((other.mesh.audit().unacked, other.mesh.stats().dropped, other.rt.audit().timers), (0, 1, 0));
    assert!(!other.mesh.is_expelled(), "it was asked for nothing, and nobody left it out");
}

/// Each knows of an earlier boot of the other's that it had nothing to do with, and of no later one: neither would ask.
#[test]
fn two_who_took_each_other_for_gone_before_they_met_reach_each_other_once_one_is_admitted() {
    const GONE: u64 = 77;
    let cluster = Cluster::new(2, 1, Wait::Notify);
    let [here, there] = &cluster.members[..] else { panic!("two of them") };
    for (member, other) in [(here, 1), (there, 0)] {
        let mesh = member.mesh.clone();
        member.at(us(10), move || mesh.expel(rank(other), GONE));
    }
    let got = Rc::new(RefCell::new(Vec::new()));
    let (keep, mut inbox) = (Rc::clone(&got), there.mesh.open(CHANNEL).expect("nobody opened it"));
    drop(there.rt.spawn(async move {
        while let Some(Incoming::Message(message)) = inbox.recv().await {
            keep.borrow_mut().push(message[0]);
        }
    }));
    let (mesh, incarnation) = (here.mesh.clone(), there.mesh.incarnation());
    here.at(ms(1), move || {
        let say = |what: u8| mesh.send(rank(1), CHANNEL, &[what; 8]);
        assert_eq!(say(1), Err(SendError::PeerGone(rank(1))));
        mesh.admit(rank(1), GONE);
        assert_eq!(say(2), Err(SendError::PeerGone(rank(1))), "who was expelled is not admitted");
        mesh.admit(rank(1), incarnation);
        say(3).expect("it is kept");
    });
    cluster.run(ms(40));
    assert_eq!(*got.borrow(), [3]);
    assert!(!here.mesh.is_gone(rank(1)) && !there.mesh.is_gone(rank(0)));

    // What is said to one that was met is lost with it: nothing is said to its successor before that connects.
    let mesh = here.mesh.clone();
    here.at(cluster.fabric.now(), move || {
        mesh.expel(rank(1), incarnation);
        mesh.admit(rank(1), incarnation + 1);
        assert_eq!(mesh.send(rank(1), CHANNEL, &[4; 8]), Err(SendError::PeerGone(rank(1))));
    });
    cluster.run(ms(40));
    assert_eq!(*got.borrow(), [3]);
}

/// Where the two of a pair are, and which of them executes atomics: another rail than the memory's, or a processor that stands in.
fn carrying(stands_in: bool, seed: u64) -> Cluster {
    if stands_in {
        return Cluster::unwatched(2, 1, seed, |config| config.atomics = false);
    }
    let cluster = Cluster::unwatched(2, 2, seed, |_| {});
    cluster.plan(Nanos(1), Fault::PortDown { node: NodeId(1), port: 1, lasts: None });
    cluster
}

/// One who was expelled has asked for an operation by a message. This node had yet to connect to itself, which it needs for that.
#[test]
fn what_one_who_is_expelled_had_asked_for_is_not_executed_later() {
    for stands_in in [false, true] {
        let cluster = carrying(stands_in, 1);
        let [here, there] = &cluster.members[..] else { panic!("two of them") };
        let memory = here.mesh.alloc(64, AccessFlags::all()).expect("there is memory");
        let word = memory.remote(0..64).expect("in bounds").word(0).expect("in bounds");
        let (mesh, incarnation) = (there.mesh.clone(), there.mesh.incarnation());
        drop(there.rt.spawn(async move { mesh.fetch_add(rank(0), word, 1).await }));
        let (rt, mesh) = (here.rt.clone(), here.mesh.clone());
        let expelled = here.rt.spawn(async move {
            while mesh.heard(rank(1)) == 0 {
                rt.yield_now().await;
            }
            mesh.expel(rank(1), incarnation);
        });
        cluster.run(ms(50));
        assert!(expelled.is_finished(), "{stands_in}: it asked");
        assert_eq!(memory.load(0), Ok(0), "{stands_in}");
        assert_eq!(here.mesh.audit().waiting, 0, "{stands_in}");
    }
}

/// What it had asked for is on its way through the adapter at whatever moment it is expelled. This node's own memory is reached again then.
#[test]
fn nothing_that_one_who_is_expelled_had_asked_for_executes_once_it_is() {
    let mut fenced = 0;
    for (stands_in, nth) in [false, true].into_iter().flat_map(|way| (0..40).map(move |nth| (way, nth))) {
        let cluster = carrying(stands_in, 1 + nth);
        let [here, there] = &cluster.members[..] else { panic!("two of them") };
        let memory = here.mesh.alloc(64, AccessFlags::all()).expect("there is memory");
        let word = memory.remote(0..64).expect("in bounds").word(0).expect("in bounds");
        for _ in 0..4 {
            let mesh = there.mesh.clone();
            drop(there.rt.spawn(async move { while mesh.fetch_add(rank(0), word, 1).await.is_ok() {} }));
        }
        let (rt, mesh, incarnation) = (here.rt.clone(), here.mesh.clone(), there.mesh.incarnation());
        let (counted, ended) = (memory.clone(), Rc::new(RefCell::new(None)));
        let keep = Rc::clone(&ended);
        drop(here.rt.spawn(async move {
            rt.sleep_until(ms(8) + Nanos(nth * 97)).await;
            mesh.expel(rank(1), incarnation);
            let at_once = counted.load(0).expect("in bounds");
            rt.sleep(ms(20)).await;
            let then = counted.load(0).expect("in bounds");
            let own = mesh.fetch_add(rank(0), word, 1).await;
            *keep.borrow_mut() = Some((at_once, then, own));
        }));
        cluster.run(ms(60));
        let (at_once, then, own) = ended.take().expect("it ends");
        let context = format!("stands in: {stands_in}, {nth}");
        assert!(at_once > 100, "{context}: {at_once}");
        assert_eq!((at_once, own), (then, Ok(then)), "{context}");
        fenced += here.mesh.stats().fences;
    }
    assert!(fenced > 40, "{fenced}: it is in process now and then");
}

/// A connection that stands by is connected at both ends. Who was asked over it may answer, and act right behind its answer, which this
/// node's processor looks at only when it has time.
#[test]
fn one_who_is_expelled_while_it_is_asked_over_a_connection_that_stood_by_does_nothing_over_that() {
    for nth in 0..8 {
        let cluster = Cluster::unwatched(2, 2, 1, |config| config.hold_off = Nanos::MAX);
        let [here, there] = &cluster.members[..] else { panic!("two of them") };
        // First over the second rail, and another connection stands by over the memory's.
        cluster.plan(Nanos(1), Fault::PortDown { node: NodeId(0), port: 1, lasts: Some(ms(2)) });
        cluster.plan(ms(6), Fault::PortDown { node: NodeId(0), port: 2, lasts: None });
        let memory = here.mesh.alloc(64, AccessFlags::all()).expect("there is memory");
        let word = memory.remote(0..64).expect("in bounds").word(0).expect("in bounds");
        here.mesh.send(rank(1), CHANNEL, &[1]).expect("it is kept");
        let (rt, mesh) = (there.rt.clone(), there.mesh.clone());
        drop(there.rt.spawn(async move {
            rt.sleep_until(ms(5)).await;
            while rt.now() < ms(7) {
                let mesh = mesh.clone();
                drop(rt.spawn(async move { mesh.fetch_add(rank(0), word, 1).await }));
                rt.sleep(us(5)).await;
            }
        }));
        let (rt, mesh, incarnation) = (here.rt.clone(), here.mesh.clone(), there.mesh.incarnation());
        let (counted, ended) = (memory.clone(), Rc::new(RefCell::new(None)));
        let keep = Rc::clone(&ended);
        drop(here.rt.spawn(async move {
            rt.sleep_until(ms(5)).await;
            assert!(mesh.carries(rank(1)));
            while mesh.carries(rank(1)) {
                rt.yield_now().await;
            }
            rt.sleep(Nanos(nth * 500)).await;
            mesh.expel(rank(1), incarnation);
            let at_once = counted.load(0).expect("in bounds");
            rt.spend(Work::Compute(us(200)));
            rt.sleep(ms(2)).await;
            *keep.borrow_mut() = Some((at_once, counted.load(0).expect("in bounds")));
        }));
        cluster.run(ms(12));
        let (at_once, then) = ended.take().expect("it ends");
        assert!(at_once > 100, "{nth}: {at_once}");
        assert_eq!(at_once, then, "{nth}");
    }
}

#[test]
fn guests_of_one_that_has_retired_do_nothing_there_and_are_forgotten() {
    let cluster = Cluster::special(2, 1, 1, Wait::Notify, |config| {
        let whole = config.clone();
        *config = match config.me == rank(0) {
            true => whole.with_guests(1, GuestConfig::default()),
            false => whole.as_guest_of(1),
        };
    });
    let [server, guest] = &cluster.members[..] else { panic!("two of them") };
    let memory = server.mesh.alloc(64, AccessFlags::all()).expect("there is memory");
    let at = memory.remote(0..8).expect("in bounds");
    let mesh = guest.mesh.clone();
    drop(guest.rt.spawn(async move {
        for number in 1..u64::MAX {
            if let Err(OpError::NotExecuted(_)) = mesh.write(rank(0), at, &number.to_ne_bytes()).await {
                break;
            }
        }
    }));
    let (rt, mesh, ended) = (server.rt.clone(), server.mesh.clone(), Rc::new(RefCell::new(None)));
    let (word, keep) = (memory.clone(), Rc::clone(&ended));
    drop(server.rt.spawn(async move {
        rt.sleep_until(ms(5)).await;
        let known = mesh.guests().known;
        mesh.retire();
        let at_once = word.load(0).expect("in bounds");
        rt.sleep(ms(20)).await;
        *keep.borrow_mut() = Some((known, at_once, word.load(0).expect("in bounds")));
    }));
    cluster.run(ms(30));
    let (known, at_once, then) = ended.take().expect("it ends");
    assert_eq!((known, server.mesh.guests().known), (1, 0));
    assert!(at_once > 100, "{at_once}");
    assert_eq!(at_once, then);
    assert_eq!(server.mesh.audit().connections, 0);
}
