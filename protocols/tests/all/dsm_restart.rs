//! Shared memory of nodes that do not agree on who is alive: it ends for all when one of them restarts, and for that one, too.

use crate::common::{Cluster, Member, NOBODYS, ms, rank, us};
use crate::dsm_told::Found;
use std::rc::Rc;
use weft_protocols::dsm::{BarrierId, Dsm, DsmError, Grain, Placement, Shared, Thread};
use weft_protocols::transport::{Channel, Inbox, Incoming};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::Wait;

/// The channel of shared memory, and the kinds of some of its messages.
const MEMORY: Channel = Channel(5);
const DONE: u8 = 6;
const ENTER: u8 = 7;
const RESTARTED: u8 = 19;

/// The bytes of a message about no minipage.
fn message(kind: u8, id: u32) -> Vec<u8> {
    [&[kind][..], &[0; 12], &id.to_le_bytes()].concat()
}

fn start(member: &Member) -> Dsm<Sim> {
    Dsm::start(&member.rt, &member.mesh).expect("the channel is free")
}

/// A thread of a node calls something now.
fn call<T: 'static, F: Future<Output = T> + 'static>(
    member: &Member,
    dsm: &Dsm<Sim>,
    call: impl FnOnce(Thread<Sim>) -> F,
) -> Found<T> {
    let found = Found::default();
    let (finds, calls) = (Rc::clone(&found), call(dsm.thread()));
    drop(member.rt.spawn(async move { *finds.borrow_mut() = Some(calls.await) }));
    found
}

fn load(member: &Member, dsm: &Dsm<Sim>, of: Shared<[u64]>) -> Found<Result<u64, DsmError>> {
    call(member, dsm, move |mut thread| async move { thread.load(of, 0).await })
}

/// A word in a minipage that a node manages.
fn word_at(dsm: &Dsm<Sim>, node: usize) -> Shared<[u64]> {
    let placement = Placement::Node(rank(node));
    dsm.named(node as u32, 1, Grain::Bytes(64), placement).expect("it fits")
}

fn restart(cluster: &mut Cluster, node: u32) {
    cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(node) });
    cluster.run(ms(1));
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(node) });
    cluster.run(ms(1));
    cluster.members[node as usize] = cluster.start(node);
}

/// What has come in so far.
fn take_all(inbox: &mut Inbox) -> Vec<Vec<u8>> {
    let all = std::iter::from_fn(|| inbox.try_recv());
    let messages = all.filter_map(|incoming| match incoming {
        Incoming::Message(message) => Some(message.bytes().to_vec()),
        Incoming::PeerReset { .. } => None,
    });
    messages.collect()
}

/// The second node manages what the last one had stored in; the first one had nothing to do with that one, and is the barrier's home.
#[test]
fn a_node_that_restarts_ends_the_memory_for_all_and_finds_no_zeros_of_what_it_had_stored() {
    let mut cluster = Cluster::new(3, 5, Wait::Notify);
    let mut all: Vec<_> = cluster.members.iter().map(start).collect();
    let [home, word] = [0, 1].map(|node| word_at(&all[0], node));
    let stored =
        call(&cluster.members[2], &all[2], move |mut thread| async move { thread.store(word, 0, 7).await });
    cluster.run(ms(5));
    assert_eq!(stored.take(), Some(Ok(())));
    let waiting = [0, 1].map(|node| {
        let barrier = |mut thread: Thread<Sim>| async move { thread.barrier(BarrierId(0), 3).await };
        call(&cluster.members[node], &all[node], barrier)
    });
    cluster.run(ms(5));
    restart(&mut cluster, 2);
    all[2] = start(&cluster.members[2]);
    let found = load(&cluster.members[2], &all[2], word);
    cluster.run(ms(20));
    let why = DsmError::PeerReset(rank(2));
    assert_eq!(found.take(), Some(Err(why.clone())), "it is told under its own name");
    assert_eq!(waiting.map(|end| end.take()), [(); 2].map(|()| Some(Err(why.clone()))));
    let later = [0, 1, 2].map(|node| load(&cluster.members[node], &all[node], home));
    cluster.run(ms(5));
    assert_eq!(later.map(|end| end.take()), [(); 3].map(|()| Some(Err(why.clone()))));
    for dsm in &all {
        assert_eq!((dsm.stats().out_of_turn, dsm.stats().malformed), (0, 0));
        assert!(dsm.unfinished().iter().all(|(_, open)| *open == 0), "{:?}", dsm.unfinished());
    }
}

/// The second node has no memory, and says what it likes.
#[test]
fn who_says_something_to_a_node_whose_memory_has_ended_by_a_restart_is_told_that_it_has() {
    let mut cluster = Cluster::new(3, 6, Wait::Notify);
    let dsms = [0, 2].map(|node| start(&cluster.members[node]));
    let mut inbox = cluster.members[1].mesh.open(MEMORY).expect("it is free");
    let word = word_at(&dsms[0], 0);
    let says = |cluster: &Cluster, message: &[u8]| {
        cluster.members[1].mesh.send(rank(0), MEMORY, message).expect("there is room");
        cluster.run(ms(5));
    };
    // There is no such node.
    says(&cluster, &message(RESTARTED, 4));
    assert_eq!(dsms[0].stats().malformed, 1);
    let met = load(&cluster.members[2], &dsms[1], word);
    cluster.run(ms(5));
    assert_eq!((met.take(), take_all(&mut inbox)), (Some(Ok(0)), Vec::<Vec<u8>>::new()));
    restart(&mut cluster, 2);
    let anew = start(&cluster.members[2]);
    let found = load(&cluster.members[2], &anew, word);
    cluster.run(ms(20));
    let ended = message(RESTARTED, rank(2).get());
    assert_eq!(take_all(&mut inbox), std::slice::from_ref(&ended), "all others are told");
    assert_eq!(found.take(), Some(Err(DsmError::PeerReset(rank(2)))));
    says(&cluster, &message(DONE, 0));
    assert_eq!(take_all(&mut inbox), std::slice::from_ref(&ended));
    // Who says that itself knows.
    says(&cluster, &ended);
    assert_eq!((take_all(&mut inbox), dsms[0].stats().malformed), (Vec::new(), 1));
}

/// Both are on their way, the second one behind the only message that is kept, when the node restarts that asked for them.
#[test]
fn a_minipage_that_waits_for_room_is_not_written_to_what_its_requestor_is_next() {
    let mut cluster = Cluster::narrow(3, 7, Wait::Notify, 1);
    let mut all: Vec<_> = cluster.members.iter().map(start).collect();
    let placement = Placement::Node(rank(1));
    let words = all[0].named::<u64>(1, 24, Grain::Bytes(64), placement).expect("it fits");
    let stored = call(&cluster.members[0], &all[0], move |mut thread| async move {
        thread.write(words, 0, &[7; 24]).await
    });
    cluster.run(ms(5));
    let first = load(&cluster.members[2], &all[2], words);
    cluster.run(ms(5));
    assert_eq!((stored.take(), first.take()), (Some(Ok(())), Some(Ok(7))));
    let (now, link) = (cluster.fabric.now(), Link::Pair(NodeId(0), NodeId(2)));
    cluster.plan(now, Fault::Cut { link, way: Way::Both, lasts: Some(ms(10)) });
    let asked = [8, 16].map(|index| {
        let loads = move |mut thread: Thread<Sim>| async move { thread.load(words, index).await };
        call(&cluster.members[2], &all[2], loads)
    });
    cluster.run(ms(5));
    assert_eq!(asked.map(|found| found.take()), [None, None]);
    assert!(all[0].stats().stalls > 0, "one of them waits for room");
    restart(&mut cluster, 2);
    all[2] = start(&cluster.members[2]);
    let found = load(&cluster.members[2], &all[2], words);
    cluster.run(ms(50));
    let before = cluster.members[0].mesh.stats().reconnects;
    cluster.run(ms(50));
    assert_eq!(
        cluster.members[0].mesh.stats().reconnects,
        before,
        "a write to what is gone breaks a connection"
    );
    let why = DsmError::PeerReset(rank(2));
    assert_eq!(found.take(), Some(Err(why.clone())));
    let later = load(&cluster.members[0], &all[0], words);
    cluster.run(ms(5));
    assert_eq!(later.take(), Some(Err(why)));
    assert_eq!(all[0].unfinished().map(|(_, open)| open), [0; 10]);
}

/// The first thing that is kept for it is a notice, which its next boot takes. Then there is room for the minipage behind that.
#[test]
fn a_minipage_that_waits_for_room_to_a_node_that_was_never_met_is_not_written_to_its_next_boot() {
    let mut cluster = Cluster::narrow(3, 8, Wait::Notify, 1);
    let link = Link::Pair(NodeId(1), NodeId(2));
    cluster.plan(us(1), Fault::Cut { link, way: Way::Both, lasts: Some(ms(100)) });
    let mut all: Vec<_> = cluster.members.iter().map(start).collect();
    let placement = Placement::Node(rank(0));
    let words = all[0].named::<u64>(1, 16, Grain::Bytes(64), placement).expect("it fits");
    let store = |cluster: &Cluster, all: &[Dsm<Sim>], node: usize, index| {
        let stores = move |mut thread: Thread<Sim>| async move { thread.store(words, index, 7).await };
        call(&cluster.members[node], &all[node], stores)
    };
    let stored = [(0, 0), (1, 8)].map(|(node, index)| store(&cluster, &all, node, index));
    cluster.run(ms(5));
    let copied = load(&cluster.members[1], &all[1], words);
    cluster.run(ms(5));
    assert_eq!((stored.map(|end| end.take()), copied.take()), ([(); 2].map(|()| Some(Ok(()))), Some(Ok(7))));
    let taken = store(&cluster, &all, 2, 0);
    cluster.run(ms(2));
    let loads = move |mut thread: Thread<Sim>| async move { thread.load(words, 8).await };
    let asked = call(&cluster.members[2], &all[2], loads);
    cluster.run(ms(5));
    assert_eq!((taken.take(), asked.take()), (None, None));
    assert!(all[1].stats().stalls > 0, "the minipage waits for room");
    restart(&mut cluster, 2);
    all[2] = start(&cluster.members[2]);
    let found = load(&cluster.members[2], &all[2], words);
    cluster.run(ms(20));
    let later = load(&cluster.members[1], &all[1], words);
    cluster.run(ms(5));
    let why = DsmError::PeerReset(rank(2));
    assert_eq!([found, later].map(|end| end.take()), [(); 2].map(|()| Some(Err(why.clone()))));
    let mesh = &cluster.members[1].mesh;
    assert_eq!(mesh.incarnation_of(rank(2)), None, "they have yet to meet");
    cluster.run(ms(400));
    assert!(mesh.incarnation_of(rank(2)).is_some(), "they have met");
    assert_eq!(mesh.stats().reconnects, 0, "a write to what is gone breaks a connection");
    assert_eq!(all[1].unfinished().map(|(_, open)| open), [0; 10]);
}

/// The first one has no memory yet when it is told that a thread has come to a barrier, and when who has said so begins anew.
#[test]
fn what_a_boot_asks_of_a_node_whose_memory_has_yet_to_begin_is_not_answered_to_the_next_boot() {
    let mut cluster = Cluster::new(2, 9, Wait::Notify);
    let enters = [&[ENTER][..], &[0; 8], &1_u32.to_le_bytes(), &5_u32.to_le_bytes()].concat();
    cluster.members[1].mesh.send(rank(0), MEMORY, &enters).expect("there is room");
    cluster.run(ms(5));
    restart(&mut cluster, 1);
    let mut inbox = cluster.members[1].mesh.open(MEMORY).expect("it is free");
    cluster.members[1].mesh.send(rank(0), NOBODYS, &[0]).expect("there is room");
    cluster.run(ms(20));
    assert_eq!(cluster.members[0].mesh.resets_of(rank(1)), 1);
    let dsm = start(&cluster.members[0]);
    cluster.run(ms(5));
    assert_eq!(take_all(&mut inbox), [message(RESTARTED, rank(1).get())]);
    assert_eq!((dsm.stats().out_of_turn, dsm.stats().malformed), (0, 0));
}
