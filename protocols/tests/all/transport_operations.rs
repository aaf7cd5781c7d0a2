//! One-sided operations: posted once, and what became of them told as it is.

use crate::common::{Cluster, Dice, STYLES, all_regions, begins, ms, rank, seeds, us};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use weft_protocols::rt::BufferGuard;
use weft_protocols::transport::{Channel, Lost, Mesh, MeshConfig, NotExecuted, OpError};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim, SimMr};
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, RemoteSlice, SendOp, Wait, WcError};

/// A node's memory that every peer may use, and its address.
fn memory(mesh: &Mesh<Sim>, len: usize) -> (SimMr, RemoteSlice) {
    let mr = mesh.alloc(len, AccessFlags::all()).expect("there is memory");
    let remote = mr.remote(0..len).expect("in bounds");
    (mr, remote)
}

/// Runs one task on node 0 and hands out its result.
fn run<T: 'static>(
    cluster: &Cluster,
    span: Nanos,
    task: impl AsyncFnOnce(Mesh<Sim>) -> T + 'static,
) -> Option<T> {
    let result = Rc::new(RefCell::new(None));
    let (keep, mesh) = (Rc::clone(&result), cluster.members[0].mesh.clone());
    drop(cluster.members[0].rt.spawn(async move {
        let value = task(mesh).await;
        *keep.borrow_mut() = Some(value);
    }));
    cluster.run(span);
    result.take()
}

#[test]
fn operations_act_on_a_peers_memory_and_on_ones_own_through_the_adapter() {
    for style in STYLES {
        for to in 0..2 {
            let cluster = Cluster::new(2, 1, style);
            let (mr, at) = memory(&cluster.members[to].mesh, 8 * 1024);
            mr.store(8, 5).expect("in bounds");
            let word = at.word(8).expect("in bounds");
            let got = run(&cluster, ms(100), async move |mesh| {
                let to = rank(to);
                let mut log = vec![
                    mesh.compare_swap(to, word, 4, 9).await,
                    mesh.compare_swap(to, word, 5, 9).await,
                    mesh.fetch_add(to, word, u64::MAX).await,
                ];
                let mut read = [0; 8];
                mesh.read(to, word, &mut read).await.expect("it stands");
                log.push(Ok(u64::from_ne_bytes(read)));
                // Longer than a pooled buffer, and shorter, and nothing.
                let long: Vec<u8> = (0..5_000).map(|i| i as u8).collect();
                let place = at.slice(1_000..6_000).expect("in bounds");
                mesh.write(to, place, &long).await.expect("it stands");
                let mut back = vec![0; 5_000];
                mesh.read(to, place, &mut back).await.expect("it stands");
                assert_eq!(back, long);
                mesh.write(to, at.slice(16..20).expect("in bounds"), &[1, 2, 3, 4]).await.expect("so");
                mesh.write(to, at, &[]).await.expect("nothing is nothing");
                log
            });
            assert_eq!(got, Some(vec![Ok(5), Ok(5), Ok(9), Ok(8)]));
            let mut out = [0; 4];
            mr.read(16, &mut out).expect("in bounds");
            assert_eq!(out, [1, 2, 3, 4]);
            cluster.assert_at_rest("operations");
        }
    }
}

#[test]
fn an_impossible_operation_is_refused_and_not_executed() {
    let cluster = Cluster::new(2, 1, Wait::Notify);
    let (_mr, at) = memory(&cluster.members[1].mesh, 16);
    let got = run(&cluster, ms(500), async move |mesh| {
        let (to, bytes) = (rank(1), [0u8; 17]);
        let short = at.slice(0..7).expect("in bounds");
        let mut into = [0; 17];
        let forged = RemoteSlice { rkey: at.rkey ^ 0x5555, ..at };
        vec![
            mesh.fetch_add(rank(2), at, 1).await.err(),
            mesh.fetch_add(to, short, 1).await.err(),
            mesh.write(to, at, &bytes).await.err(),
            mesh.read(to, at, &mut into).await.err(),
            mesh.fetch_add(to, forged, 1).await.err(),
            mesh.write(to, forged, &bytes[..2]).await.err(),
            mesh.fetch_add(to, at, 1).await.err(),
        ]
    });
    let length = |need, have| Some(OpError::NotExecuted(NotExecuted::Length { need, have }));
    let expected = vec![
        Some(OpError::NotExecuted(NotExecuted::NoSuchPeer(rank(2)))),
        length(8, 7),
        length(17, 16),
        length(17, 16),
        Some(OpError::NotExecuted(NotExecuted::Failed(WcError::RemAccess))),
        // A write may have left a part.
        Some(OpError::Unknown(Lost::Failed(WcError::RemAccess))),
        None,
    ];
    assert_eq!(got, Some(expected));
}

#[test]
fn a_deadline_ends_the_wait_for_a_peer_that_is_not_there() {
    for style in STYLES {
        let cluster = Cluster::new(2, 1, style);
        let cut = Fault::Cut { link: Link::Node(NodeId(1)), way: Way::Both, lasts: None };
        cluster.plan(Nanos::ZERO, cut);
        let (_mr, at) = memory(&cluster.members[1].mesh, 8);
        let rt = cluster.members[0].rt.clone();
        let got = run(&cluster, ms(100), async move |mesh| {
            let late = rt.deadline(ms(20), mesh.fetch_add(rank(1), at, 1)).await.is_err();
            (late, rt.now() < ms(21))
        });
        assert_eq!(got, Some((true, true)));
        assert_eq!(cluster.members[0].mesh.audit().waiting, 0);
    }
}

#[test]
fn operations_wait_for_their_turn_in_order_and_none_overtakes() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let (mr, at) = memory(&cluster.members[1].mesh, 8);
    let member = &cluster.members[0];
    let seen: Rc<RefCell<Vec<(u64, u64)>>> = Rc::default();
    for i in 0..200 {
        let (mesh, seen) = (member.mesh.clone(), Rc::clone(&seen));
        drop(member.rt.spawn(async move {
            let old = mesh.fetch_add(rank(1), at, 1).await.expect("it stands");
            seen.borrow_mut().push((i, old));
        }));
    }
    cluster.run(ms(100));
    assert_eq!(mr.load(0), Ok(200));
    assert!(seen.borrow().iter().all(|(i, old)| i == old) && seen.borrow().len() == 200);
    cluster.assert_at_rest("a crowd");
}

/// So many words of one's own that writes take their bytes from.
fn writes<const N: usize>(
    mesh: &Mesh<Sim>,
    at: RemoteSlice,
) -> [(SendOp<'static, Sim>, BufferGuard<Sim>); N] {
    let pool = mesh.pool(8);
    std::array::from_fn(|_| {
        let block = pool.alloc().expect("there is memory");
        block.write(0, &7u64.to_ne_bytes()).expect("in bounds");
        (SendOp::Write { to: at, imm: None }, BufferGuard::Block { block, len: 8 })
    })
}

/// A message holds a place of the send queue until something signaled is posted behind it, and here nothing else is.
#[test]
fn the_longest_list_goes_behind_a_message_that_has_arrived() {
    for style in STYLES {
        let cluster = Cluster::special(2, 1, 1, style, |config| config.send_depth = 128);
        let (mr, at) = memory(&cluster.members[1].mesh, 8);
        let got = run(&cluster, ms(100), async move |mesh| {
            assert_eq!(mesh.longest_list(rank(1)), 96);
            mesh.send(rank(1), Channel(3), b"first").expect("there is room");
            mesh.all_received().await;
            mesh.post_list(rank(1), writes::<96>(&mesh, at)).await.map(drop)
        });
        assert_eq!(got, Some(Ok(())), "{style:?}");
        assert_eq!(mr.load(0), Ok(7));
    }
}

#[test]
fn a_list_of_which_the_device_refuses_a_later_request_has_a_fixed_outcome_in_the_end() {
    for style in STYLES {
        let cluster = Cluster::new(2, 1, style);
        let (mr, at) = memory(&cluster.members[1].mesh, 8);
        let got = run(&cluster, ms(100), async move |mesh| {
            let [first, (_, buffer)] = writes::<2>(&mesh, at);
            let BufferGuard::Block { block, .. } = buffer else { unreachable!("it is a block") };
            // The old value of an atomic takes eight bytes.
            let short = |block| (SendOp::FetchAdd { at, add: 1 }, BufferGuard::Block { block, len: 4 });
            let ends = [
                mesh.post_list(rank(1), [first, short(block.clone())]).await.map(drop),
                mesh.resolve_outcomes(rank(1)).await.map_err(OpError::NotExecuted),
                {
                    // That it has succeeded is known once something signaled is posted behind it.
                    mesh.send(rank(1), Channel(3), &[1; 8]).expect("it is kept");
                    mesh.all_received().await;
                    mesh.post_list(rank(1), [short(block.clone()), short(block)]).await.map(drop)
                },
                mesh.resolve_outcomes(rank(1)).await.map_err(OpError::NotExecuted),
            ];
            (ends, mesh.stats().reconnects)
        });
        let (ends, reconnects) = got.expect("it ends");
        assert!(matches!(ends[0], Err(OpError::Unknown(Lost::Refused(_)))), "{:?}", ends[0]);
        assert!(matches!(ends[2], Err(OpError::NotExecuted(NotExecuted::Refused(_)))), "{:?}", ends[2]);
        assert_eq!((&ends[1], &ends[3]), (&Ok(()), &Ok(())));
        assert_eq!(reconnects, 1, "where none was accepted, nothing needs to be fenced");
        assert!(matches!(mr.load(0), Ok(0 | 7)));
    }
}

#[test]
fn a_future_that_is_dropped_in_line_lets_the_next_one_go() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let (mr, at) = memory(&cluster.members[1].mesh, 8);
    let member = &cluster.members[0];
    for i in 0..100 {
        let (mesh, rt) = (member.mesh.clone(), member.rt.clone());
        drop(member.rt.spawn(async move {
            let at_once = if i % 2 == 0 { us(1) } else { ms(90) };
            let _ = rt.deadline(at_once, mesh.fetch_add(rank(1), at, 1)).await;
        }));
    }
    cluster.run(ms(100));
    assert_eq!(mr.load(0), Ok(50), "those that gave up were not connected yet, and never posted");
    cluster.assert_at_rest("half a crowd");
}

#[test]
fn the_first_in_line_may_give_up_and_the_next_one_takes_its_place() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let (mr, at) = memory(&cluster.members[1].mesh, 8);
    let member = &cluster.members[0];
    let add = |start: Nanos, patience: Nanos| {
        let (mesh, rt) = (member.mesh.clone(), member.rt.clone());
        drop(member.rt.spawn(async move {
            rt.sleep_until(start).await;
            let _ = rt.deadline(rt.now() + patience, mesh.fetch_add(rank(1), at, 1)).await;
        }));
    };
    // The first connects. Then twelve fill the operations' share of the send queue; of the two that wait
    // behind them, the first gives up at once.
    add(Nanos::ZERO, ms(50));
    (0..12).for_each(|_| add(ms(10), ms(50)));
    add(ms(10), Nanos(1));
    add(ms(10), ms(50));
    cluster.run(ms(11));
    assert_eq!(mr.load(0), Ok(14), "long before its patience ends");
    cluster.run(ms(100));
    cluster.assert_at_rest("the next one");
}

#[test]
fn a_lost_completion_is_an_unknown_fate_and_settling_fixes_it() {
    // The second silence outlasts many attempts to connect.
    for (style, silence) in STYLES.into_iter().flat_map(|style| [(style, ms(2)), (style, ms(300))]) {
        let cluster = Cluster::new(2, 1, style);
        let (mr, at) = memory(&cluster.members[1].mesh, 8);
        let lose = Fault::LoseCompletion { node: NodeId(0), lasts: Some(silence) };
        cluster.plan(Nanos::ZERO, lose);
        let got = run(&cluster, ms(2_000), async move |mesh| {
            let lost = mesh.fetch_add(rank(1), at, 1).await;
            let settled = mesh.resolve_outcomes(rank(1)).await;
            let mut now = [0; 8];
            mesh.read(rank(1), at, &mut now).await.expect("it stands again");
            (lost, settled, u64::from_ne_bytes(now))
        });
        let unknown = Err(OpError::Unknown(Lost::Failed(WcError::RetryExc)));
        assert_eq!(got, Some((unknown, Ok(()), 1)), "{style:?}, {silence}");
        assert_eq!(mr.load(0), Ok(1));
        let stats = cluster.members[0].mesh.stats();
        assert_eq!((stats.unknown_outcomes, stats.reconnects), (1, 1));
        cluster.assert_at_rest("lost");
    }
}

#[test]
fn settling_what_is_settled_asks_for_no_connection() {
    let cluster = Cluster::new(2, 1, Wait::Notify);
    assert_eq!(run(&cluster, ms(10), async |mesh| mesh.resolve_outcomes(rank(1)).await), Some(Ok(())));
    assert_eq!(cluster.fabric.stats().packets, 0);
}

#[test]
fn settling_waits_for_operations_whose_futures_are_gone() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let (mr, at) = memory(&cluster.members[1].mesh, 8);
    let rt = cluster.members[0].rt.clone();
    let got = run(&cluster, ms(100), async move |mesh| {
        mesh.fetch_add(rank(1), at, 1).await.expect("it stands");
        let begun = rt.now();
        let gone = rt.deadline(rt.now() + Nanos(200), mesh.fetch_add(rank(1), at, 1)).await.is_err();
        mesh.resolve_outcomes(rank(1)).await.expect("the mesh is open");
        (gone, rt.now() - begun)
    });
    let (gone, took) = got.expect("it ended");
    assert!(gone && took > us(1), "{took}: no sooner than the operation can have come back");
    assert_eq!(mr.load(0), Ok(2));
}

/// What one run of [`late_copies`] saw.
#[derive(Default)]
struct Seen {
    unknown: Cell<u32>,
    late: Cell<u32>,
}

/// A client whose requests are delayed beyond all retries adds to a word. After each add of unknown outcome it
/// waits, by resolving or for a fixed time, looks at the word, does nothing for long, and looks again.
fn late_copies(seed: u64, style: Wait, settle: bool) -> Rc<Seen> {
    let cluster = Cluster::new(2, seed, style);
    let (mr, at) = memory(&cluster.members[1].mesh, 8);
    let mut dice = Dice::new(seed);
    for i in 0..5 {
        let start = ms(1 + 10 * i) + us(dice.below(2_000));
        let link = Link::Node(NodeId(0));
        let (extra, jitter, lasts) = (us(50), ms(4), Some(ms(1)));
        let delay = Fault::Delay { link, way: Way::From, extra, jitter, in_order: false, lasts };
        cluster.plan(start, delay);
        if dice.below(2) == 0 {
            let lasts = Some(us(dice.below(2_000)));
            cluster.plan(start + us(dice.below(500)), Fault::Cut { link, way: Way::Both, lasts });
        }
    }
    let seen: Rc<Seen> = Rc::default();
    let (keep, rt) = (Rc::clone(&seen), cluster.members[0].rt.clone());
    let adds = Rc::new(Cell::new((0u64, 0u64)));
    let counted = Rc::clone(&adds);
    let ended = run(&cluster, ms(2_000), async move |mesh| {
        let to = rank(1);
        while rt.now() < ms(60) {
            let (sure, maybe) = counted.get();
            match mesh.fetch_add(to, at, 1).await {
                Ok(old) => {
                    assert!(old >= sure && old <= sure + maybe, "nothing is executed twice");
                    counted.set((sure + 1, maybe));
                }
                Err(OpError::NotExecuted(_)) => {}
                Err(OpError::Unknown(lost)) => {
                    assert_ne!(lost, Lost::Destroyed, "a fenced queue pair is drained, not destroyed");
                    counted.set((sure, maybe + 1));
                    keep.unknown.set(keep.unknown.get() + 1);
                    if settle {
                        mesh.resolve_outcomes(to).await.expect("the mesh is open");
                    }
                    let then = mr.load(0);
                    rt.sleep(ms(10)).await;
                    keep.late.set(keep.late.get() + u32::from(mr.load(0) != then));
                }
            }
            rt.sleep(us(20)).await;
        }
    });
    assert!(ended.is_some(), "seed {seed}: the client ended");
    cluster.assert_at_rest(&format!("seed {seed}"));
    seen
}

#[test]
fn no_late_copy_of_an_operation_executes_after_settling() {
    let (mut unknown, mut late) = (0, 0);
    for seed in seeds(150) {
        for style in STYLES {
            let seen = late_copies(seed, style, true);
            unknown += seen.unknown.get();
            late += seen.late.get();
        }
    }
    assert_eq!(late, 0);
    assert!(unknown > 100, "{unknown}");
    // The danger is real: without resolving, some word changes after the operation has failed.
    let late: u32 = seeds(150).map(|seed| late_copies(seed, Wait::Poll, false).late.get()).sum();
    assert!(late > 0, "the faults never made a late copy");
}

#[test]
fn an_operation_that_waited_while_its_peer_restarted_is_not_posted_to_the_new_life() {
    let cluster = Cluster::new(2, 3, Wait::Notify);
    let (_mr, at) = memory(&cluster.members[1].mesh, 8);
    let rt = cluster.members[0].rt.clone();
    cluster.plan(ms(10), Fault::Crash { node: NodeId(1) });
    let result = Rc::new(RefCell::new(None));
    let (keep, mesh) = (Rc::clone(&result), cluster.members[0].mesh.clone());
    drop(cluster.members[0].rt.spawn(async move {
        mesh.fetch_add(rank(1), at, 1).await.expect("it stands");
        rt.sleep_until(ms(11)).await;
        let lost = mesh.fetch_add(rank(1), at, 1).await;
        let waited = mesh.fetch_add(rank(1), at, 1).await;
        *keep.borrow_mut() = Some((lost, waited));
    }));
    cluster.run(ms(100));
    assert_eq!(*result.borrow(), None, "it waits for as long as it takes");
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(1) });
    cluster.run(us(10));
    let reborn = cluster.start(1);
    cluster.run(ms(500));
    let unknown = Err(OpError::Unknown(Lost::Failed(WcError::RetryExc)));
    let reset = Err(OpError::NotExecuted(NotExecuted::PeerReset(rank(1))));
    assert_eq!(result.take(), Some((unknown, reset)));
    assert_eq!(reborn.mesh.stats().operations, 0);
}

#[test]
fn closing_ends_every_wait() {
    let cluster = Cluster::new(2, 1, Wait::Notify);
    let cut = Fault::Cut { link: Link::Node(NodeId(1)), way: Way::Both, lasts: None };
    cluster.plan(Nanos::ZERO, cut);
    let (_mr, at) = memory(&cluster.members[1].mesh, 8);
    cluster.members[0].close_at(ms(10));
    let got = run(&cluster, ms(100), async move |mesh| mesh.fetch_add(rank(1), at, 1).await);
    assert_eq!(got, Some(Err(OpError::NotExecuted(NotExecuted::Closed))));
    assert_eq!(cluster.members[0].rt.audit().tasks, 0);
}

/// The owner of the word keeps what it has said to a node that is cut off, and everything else is taken.
#[test]
fn an_operation_that_is_carried_ends_though_its_owner_has_no_memory_for_the_answer_for_a_while() {
    let cluster = Cluster::scarce(3, 1, 200, |config| (config.atomics, config.chunk) = (false, 1));
    let cut = Fault::Cut { link: Link::Node(NodeId(2)), way: Way::Both, lasts: None };
    cluster.plan(Nanos::ZERO, cut);
    let (mr, at) = memory(&cluster.members[1].mesh, 8);
    let owner = &cluster.members[1];
    let (rt, mesh) = (owner.rt.clone(), owner.mesh.clone());
    drop(owner.rt.spawn(async move {
        rt.sleep_until(ms(5)).await;
        let hoard: Vec<_> = std::iter::from_fn(|| mesh.alloc(8, AccessFlags::all()).ok()).collect();
        while mesh.send(rank(2), Channel(3), &[1; 8]).is_ok() {}
        rt.sleep_until(ms(20)).await;
        drop(hoard);
    }));
    let rt = cluster.members[0].rt.clone();
    let got = run(&cluster, ms(100), async move |mesh| {
        let first = mesh.fetch_add(rank(1), at, 1).await;
        rt.sleep_until(ms(10)).await;
        let second = mesh.fetch_add(rank(1), at, 1).await;
        (first, second, rt.now() > ms(20), mesh.resolve_outcomes(rank(1)).await, mesh.stats().reconnects)
    });
    assert_eq!(got, Some((Ok(0), Ok(1), true, Ok(()), 0)));
    assert_eq!(mr.load(0), Ok(2));
}

#[test]
fn a_closed_mesh_leaves_no_task_behind_whose_processor_stood_in_for_its_adapter() {
    let cluster = Cluster::special(2, 1, 1, Wait::Notify, |config| config.atomics = false);
    let (mr, at) = memory(&cluster.members[1].mesh, 8);
    cluster.members.iter().for_each(|member| member.close_at(ms(20)));
    assert_eq!(run(&cluster, ms(30), async move |mesh| mesh.fetch_add(rank(1), at, 1).await), Some(Ok(0)));
    assert_eq!(mr.load(0), Ok(1));
    for member in &cluster.members {
        assert_eq!(member.rt.audit().tasks, 0);
    }
}

/// Operations toward a node that does not answer, each of which holds memory for a word.
type Held = Vec<Pin<Box<dyn Future<Output = Result<u64, OpError>>>>>;

/// Begins operations toward node 1 until there is no memory for another one.
async fn hold_words(mesh: &Mesh<Sim>, held: &mut Held) {
    loop {
        let mesh = mesh.clone();
        let nowhere = RemoteSlice { len: 8, ..RemoteSlice::default() };
        let mut call: Pin<Box<dyn Future<Output = _>>> =
            Box::pin(async move { mesh.fetch_add(rank(1), nowhere, 1).await });
        if poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await {
            return;
        }
        held.push(call);
    }
}

/// Its write was flushed, and before the connection to oneself stood again another operation had the write's memory.
#[test]
fn an_atomic_that_the_processor_executes_has_an_outcome_though_there_is_no_memory_to_look_at_its_word() {
    let mut met = 0;
    for nth in 0..16 {
        let few = |config: &mut MeshConfig| (config.atomics, config.chunk) = (false, 1_024);
        let cluster = Cluster::of_few_regions(2, 1, 1, few);
        cluster.plan(us(1), Fault::Cut { link: Link::Node(NodeId(1)), way: Way::Both, lasts: None });
        let (mr, at) = memory(&cluster.members[0].mesh, 16);
        let (word, forged) = (at.word(0).expect("in bounds"), RemoteSlice { rkey: at.rkey ^ 0x5555, ..at });
        let rt = cluster.members[0].rt.clone();
        let got = run(&cluster, ms(50), async move |mesh| {
            let (me, mut into) = (mesh.me(), [0; 16]);
            mesh.read(me, at, &mut into).await.expect("it stands");
            mesh.fetch_add(me, word, 0).await.expect("there is memory for words");
            let (regions, mut held) = (all_regions(&rt), Held::new());
            hold_words(&mesh, &mut held).await;
            // One for the old value, and one for the read and the write in turn.
            held.truncate(held.len() - 2);
            let mut adds = Box::pin(mesh.fetch_add(me, word, 1));
            begins(adds.as_mut()).await;
            rt.sleep(Nanos(nth * 200)).await;
            let mut breaks = Box::pin(mesh.read(me, forged, &mut into));
            begins(breaks.as_mut()).await;
            let before = held.len();
            for _ in 0..2_000 {
                rt.sleep(us(1)).await;
                hold_words(&mesh, &mut held).await;
            }
            let taken = held.len() - before;
            drop((held, regions));
            (adds.await, taken, mesh.stats().unknown_outcomes)
        });
        let (end, taken, unknown) = got.expect("it ends");
        assert!(!matches!(end, Err(OpError::Unknown(_))), "{nth}: {end:?}");
        assert_eq!(mr.load(0), Ok(u64::from(end.is_ok())), "{nth}");
        met += u32::from(end.is_ok() && taken > 0 && unknown > 0);
    }
    assert!(met > 0, "its memory is taken while its outcome is unknown");
}
