//! What a request holds, how it ends, and whom a completion tells.

use super::*;
use std::pin::pin;
use std::task::{Context, Waker};

#[test]
fn a_buffer_guard_outlives_the_future_until_the_request_completes() {
    let mut bench = Bench::new(Wait::Poll);
    let queue = bench.queue(4, 4);
    let pool = BufferPool::<V>::new(&bench.fake, 8, 4, AccessFlags::LOCAL_WRITE);
    let block = pool.alloc().expect("room");
    let pending = queue.post(SEND, Local::Guarded(BufferGuard::Block { block, len: 8 })).expect("room");
    drop(pending);
    bench.settle();
    assert_eq!((pool.in_use(), bench.rt.audit().guards), (1, 1), "the adapter may still write there");
    bench.complete(0, Ok(WcOp::Send));
    bench.settle();
    assert_eq!((pool.in_use(), bench.rt.audit().slots), (0, 0));
}

#[test]
fn a_completion_retires_the_unsignaled_requests_before_it() {
    let mut bench = Bench::new(Wait::Poll);
    let queue = bench.queue(64, 4);
    let sink = CompletionSink::new();
    queue.post_to(&sink, 1, SEND, nothing()).expect("room");
    queue.post_to(&sink, 2, SEND, nothing()).expect("room");
    assert!(bench.world().sends.iter().all(|s| !s.1));
    let audit = bench.rt.audit();
    assert_eq!((audit.sends, audit.unsignaled), (0, 2));
    let pending = queue.post(SEND, nothing()).expect("room");
    assert_eq!(queue.room(), 61);
    assert_eq!(queue.completing(), 3);
    bench.complete(2, Ok(WcOp::Send));
    bench.settle();
    assert_eq!(queue.room(), 64);
    assert_eq!(queue.counts(), (3, 3));
    let told: Vec<_> = std::iter::from_fn(|| sink.take()).map(|c| (c.tag, c.outcome.is_ok())).collect();
    assert_eq!(told, [(1, true), (2, true)]);
    drop(pending);
}

#[test]
fn quiet_requests_are_signaled_often_enough_to_free_their_places() {
    let bench = Bench::new(Wait::Poll);
    let queue = bench.queue(8, 4);
    for _ in 0..8 {
        queue.post_quiet(SEND, nothing()).expect("room");
    }
    let signaled: Vec<bool> = bench.world().sends.iter().map(|s| s.1).collect();
    assert_eq!(signaled, [false, true, false, true, false, true, false, true]);
    let full = VerbsError::QueueFull { queue: "send", depth: 8 };
    assert_eq!(queue.post_quiet(SEND, nothing()).err(), Some(full));
}

#[test]
fn a_list_has_one_signal_and_its_completion_ends_all_of_its_requests() {
    let mut bench = Bench::new(Wait::Poll);
    let queue = bench.queue(8, 4);
    // A slot that was used before comes first.
    drop(queue.post(SEND, nothing()).expect("room"));
    bench.complete(0, Ok(WcOp::Send));
    bench.settle();
    let pending = queue.post_list([SEND; 3].map(|op| (op, BufferGuard::Nothing))).expect("room");
    let posted: Vec<_> = bench.world().sends[1..].to_vec();
    assert_eq!(posted.iter().map(|s| s.1).collect::<Vec<_>>(), [false, false, true]);
    bench.complete(3, Ok(WcOp::Send));
    let ended = Rc::new(RefCell::new(Vec::new()));
    let book = Rc::clone(&ended);
    bench.rt.spawn(async move {
        for one in pending {
            let (outcome, _) = one.await;
            book.borrow_mut().push(outcome.is_ok());
        }
    });
    bench.settle();
    assert_eq!(ended.take(), [true; 3]);
    assert_eq!(bench.rt.audit(), RtAudit { slots: 0, ..RtAudit::default() });
    let too_many = queue.post_list([SEND; 9].map(|op| (op, BufferGuard::Nothing)));
    let why = too_many.err().map(|broken_off| broken_off.why);
    assert_eq!(why, Some(VerbsError::QueueFull { queue: "send", depth: 8 }));
}

#[test]
fn a_list_that_breaks_off_ends_each_of_its_requests_by_its_own_completion() {
    let mut bench = Bench::new(Wait::Poll);
    let queue = bench.queue(8, 4);
    let pending = queue.post_list([SEND; 3].map(|op| (op, BufferGuard::Nothing))).expect("room");
    bench.complete(1, Err(WcError::RemAccess));
    bench.complete(2, Err(WcError::Flush));
    let ended = Rc::new(RefCell::new(Vec::new()));
    let book = Rc::clone(&ended);
    bench.rt.spawn(async move {
        for one in pending {
            let (outcome, _) = one.await;
            book.borrow_mut().push(outcome.err());
        }
    });
    bench.settle();
    let failed = |status| Some(Failed::Status(status));
    assert_eq!(ended.take(), [None, failed(WcError::RemAccess), failed(WcError::Flush)]);
    assert_eq!(bench.rt.audit(), RtAudit::default());
}

#[test]
fn a_list_of_which_a_later_request_is_refused_tells_of_the_ends_of_those_before_it() {
    let mut bench = Bench::new(Wait::Poll);
    let queue = bench.queue(8, 4);
    bench.world().most_of_a_list = Some(1);
    let broken_off = queue.post_list([SEND; 3].map(|op| (op, BufferGuard::Nothing))).err().expect("refused");
    assert_eq!((broken_off.accepted.len(), broken_off.why), (1, VerbsError::DeviceGone));
    assert_eq!((bench.world().sends.len(), queue.counts()), (1, (1, 0)));
    bench.complete(0, Err(WcError::Flush));
    let ended = Rc::new(RefCell::new(Vec::new()));
    let book = Rc::clone(&ended);
    bench.rt.spawn(async move {
        for one in broken_off.accepted {
            let (outcome, _) = one.await;
            book.borrow_mut().push(outcome.err());
        }
    });
    bench.settle();
    assert_eq!(ended.take(), [Some(Failed::Status(WcError::Flush))]);
    assert_eq!(bench.rt.audit(), RtAudit::default());
}

#[test]
fn after_a_failure_nothing_more_counts_as_succeeded() {
    let mut bench = Bench::new(Wait::Poll);
    let queue = bench.queue(8, 4);
    let pending: Vec<_> = (0..3).map(|_| queue.post(SEND, nothing()).expect("room")).collect();
    assert!(!queue.is_broken());
    bench.complete(0, Ok(WcOp::Send));
    bench.complete(1, Err(WcError::RetryExc));
    bench.complete(2, Err(WcError::Flush));
    bench.settle();
    assert_eq!((queue.counts(), queue.is_broken()), ((3, 1), true));
    let outcomes = bench.rt.spawn(async move {
        let mut outcomes = Vec::new();
        for p in pending {
            outcomes.push(p.await.0.err());
        }
        outcomes
    });
    let (send, mut get) = mailbox();
    bench.rt.spawn(async move { send.send(outcomes.await).map_err(drop) });
    bench.settle();
    let failed = |status| Some(Failed::Status(status));
    let expected = vec![None, failed(WcError::RetryExc), failed(WcError::Flush)];
    assert_eq!(get.try_recv(), Some(Some(expected)));
}

#[test]
fn unsignaled_requests_that_fail_no_longer_wait_for_a_signaled_one() {
    let mut bench = Bench::new(Wait::Poll);
    let queue = bench.queue(64, 4);
    for _ in 0..3 {
        queue.post_quiet(SEND, nothing()).expect("room");
    }
    assert_eq!((queue.completing(), bench.rt.audit().unsignaled), (0, 3));
    bench.complete(0, Err(WcError::RetryExc));
    bench.complete(1, Err(WcError::Flush));
    bench.settle();
    assert_eq!((queue.completing(), bench.rt.audit().unsignaled), (0, 1));
    bench.complete(2, Err(WcError::Flush));
    bench.settle();
    assert_eq!((queue.room(), queue.counts()), (64, (3, 0)));
    assert_eq!(bench.rt.audit(), RtAudit::default());
}

#[test]
fn destroying_a_queue_pair_ends_what_never_completes_and_only_then_frees_its_memory() {
    let mut bench = Bench::new(Wait::Poll);
    let queue = bench.queue(8, 4);
    let pool = BufferPool::<V>::new(&bench.fake, 8, 4, AccessFlags::LOCAL_WRITE);
    let guard = || BufferGuard::Block { block: pool.alloc().expect("room"), len: 8 };
    let sink = CompletionSink::new();
    queue.post_recv(&sink, 9, guard()).expect("room");
    queue.post_quiet(SEND, Local::Guarded(guard())).expect("room");
    let pending = queue.post(SEND, Local::Guarded(guard())).expect("room");
    let (guarded, seen) = (pool.clone(), Rc::new(Cell::new(0)));
    let at_destruction = Rc::clone(&seen);
    bench.world().at_destruction = Some(Box::new(move || at_destruction.set(guarded.in_use())));
    drop(queue);
    assert_eq!(seen.get(), 3, "the adapter may have used the memory until then");
    assert_eq!(bench.world().qps_destroyed.len(), 1);
    let told = sink.take().expect("the receive is settled");
    assert_eq!((told.tag, told.outcome), (9, Err(Failed::Destroyed)));
    drop(told);
    let end = bench.rt.spawn(pending);
    bench.settle();
    assert!(end.is_finished());
    drop(end);
    assert_eq!((pool.in_use(), bench.rt.audit()), (0, RtAudit::default()));
    // What the adapter had written before is late, and harms nobody.
    for post in 0..2 {
        bench.complete(post, Ok(WcOp::Send));
    }
    bench.settle();
    assert_eq!(bench.rt.audit(), RtAudit::default());
}

#[test]
fn a_late_completion_does_not_end_the_next_tenant_of_its_slot() {
    let mut bench = Bench::new(Wait::Poll);
    let first = bench.queue(8, 4);
    drop(first.post(SEND, nothing()).expect("room"));
    drop(first);
    let second = bench.queue(8, 4);
    let pending = bench.rt.spawn(second.post(SEND, nothing()).expect("room"));
    bench.complete(0, Ok(WcOp::Send));
    bench.settle();
    assert!(!pending.is_finished());
    bench.complete(1, Ok(WcOp::Send));
    bench.settle();
    assert!(pending.is_finished());
}

#[test]
fn a_fenced_queue_pair_drains_to_the_last_request() {
    let mut bench = Bench::new(Wait::Poll);
    let queue = bench.queue(8, 4);
    let sink = CompletionSink::new();
    assert_eq!(queue.receives(), 0);
    queue.post_recv(&sink, 1, BufferGuard::Nothing).expect("room");
    for _ in 0..8 {
        // Full, and the last of them signaled or not: the marker still has its place.
        queue.post_quiet(SEND, nothing()).expect("room");
    }
    queue.fence();
    queue.fence();
    assert_eq!(bench.world().modified.len(), 1, "fencing twice is fencing once");
    assert_eq!(bench.world().sends.len(), 9);
    assert!(bench.world().sends[8].1, "the marker completes whatever happens");
    let waiting = queue.clone();
    let drained = bench.rt.spawn(async move { waiting.drained().await });
    bench.complete(8, Err(WcError::Flush));
    bench.settle();
    assert!(!drained.is_finished(), "the receive is still out");
    assert_eq!((queue.sends(), queue.receives()), (0, 1));
    let id = bench.world().receives[0].0;
    bench.world().complete(id, Err(WcError::Flush));
    bench.settle();
    assert!(drained.is_finished());
}

/// The device's word comes by another way than completions, and may be heard first. What is unpolled when the queue pair is destroyed
/// goes with it, and its buffers would be lost.
#[test]
fn a_queue_pair_that_draws_from_a_shared_queue_drains_to_the_last_message_that_it_drew() {
    // The queue pair's own completions are in a queue of their own.
    let config = RtConfig { wait: Wait::Poll, cqe: 8, poll_batch: 2, max_rounds: 1, ..RtConfig::default() };
    let mut bench = Bench::with(config);
    let receives = bench.rt.create_shared_receives(&bench.fake, 8).expect("the fake device obeys");
    let caps = QpCaps { max_send_wr: 4, ..QpCaps::default() };
    let queue = bench.rt.create_drawing_qp(&bench.fake, caps, &receives).expect("the fake device obeys");
    let sink = CompletionSink::new();
    for nth in 0..6 {
        receives.post(&sink, BufferGuard::Nothing).expect("room");
        let id = bench.world().receives[nth].0;
        bench.world().complete(id, Ok(WcOp::Recv));
    }
    queue.fence();
    let marker = bench.world().sends[0].0;
    let flushed = weft_verbs::WorkCompletion { wr_id: marker, qp: queue.num(), result: Err(WcError::Flush) };
    bench.world().cqs[1].push_back(flushed);
    queue.draws_no_more();
    let unheard = bench.rt.spawn(async move {
        queue.drained().await;
        receives.posted()
    });
    let (send, mut get) = mailbox();
    bench.rt.spawn(async move { send.send(unheard.await).map_err(drop) });
    assert_eq!(bench.settle(), until(Wait::Poll, None));
    assert_eq!(get.try_recv(), Some(Some(0)));
}

/// The name of one that was destroyed meanwhile is the next one's.
#[test]
fn a_queue_pair_is_not_drained_by_what_the_device_said_of_an_earlier_one() {
    let mut bench = Bench::new(Wait::Poll);
    let receives = bench.rt.create_shared_receives(&bench.fake, 8).expect("the fake device obeys");
    let drawing = || {
        let caps = QpCaps { max_send_wr: 4, ..QpCaps::default() };
        bench.rt.create_drawing_qp(&bench.fake, caps, &receives).expect("the fake device obeys")
    };
    let first = drawing();
    first.draws_no_more();
    drop(first);
    let second = drawing();
    second.fence();
    bench.complete(0, Err(WcError::Flush));
    let waiting = second.clone();
    let drained = bench.rt.spawn(async move { waiting.drained().await });
    bench.settle();
    assert!(!drained.is_finished(), "it may draw more");
    second.draws_no_more();
    bench.settle();
    assert!(drained.is_finished());
}

/// The second who fenced it was told that it drains, and waited for that for ever.
#[test]
fn nobody_waits_for_a_drain_where_the_device_refused_the_fence() {
    let bench = Bench::new(Wait::Poll);
    let waits = |refuses: fn(&mut World, bool)| {
        let queue = bench.queue(8, 4);
        queue.post_recv(&CompletionSink::new(), 1, BufferGuard::Nothing).expect("room");
        refuses(&mut bench.world(), true);
        queue.fence();
        refuses(&mut bench.world(), false);
        // It is not asked twice.
        queue.fence();
        assert!(queue.is_fenced());
        let mut drained = pin!(queue.drained());
        drained.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
    };
    assert!(waits(|_, _| ()), "it obeyed");
    assert!(!waits(|world, refuses| world.refuse_changes = refuses), "nothing is flushed");
}

/// Some providers take no post of a queue pair in error, so that nothing tells of the end of what was posted before.
#[test]
fn what_had_completed_before_a_fence_is_known_where_the_device_takes_nothing_behind_it() {
    let config = RtConfig { wait: Wait::Poll, poll_batch: 2, max_rounds: 1, ..RtConfig::default() };
    let mut bench = Bench::with(config);
    let queue = bench.queue(8, 4);
    let sent = [(); 5].map(|()| bench.rt.spawn(queue.post(SEND, nothing()).expect("room")));
    let posted: Vec<u64> = bench.world().sends.iter().map(|(id, ..)| *id).collect();
    posted[..3].iter().for_each(|id| bench.world().complete(*id, Ok(WcOp::Send)));
    bench.world().refuse_posts = true;
    queue.fence();
    let drains = |queue: &QpHandle<V>| {
        let mut drained = pin!(queue.drained());
        drained.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    assert!(!drains(&queue), "three of them have ended, and nobody has looked");
    let waiting = queue.clone();
    let drained = bench.rt.spawn(async move { waiting.drained().await });
    assert_eq!(bench.settle(), until(Wait::Poll, None));
    assert!(drained.is_finished(), "nothing tells of the ends of the others");
    assert_eq!(sent.map(|send| send.is_finished()), [true, true, true, false, false]);
    assert_eq!((queue.sends(), queue.counts()), (2, (5, 3)));
}

/// The name of one that was destroyed meanwhile is the next one's.
#[test]
fn a_queue_pair_is_not_drained_by_the_fence_of_an_earlier_one() {
    let mut bench = Bench::new(Wait::Poll);
    let first = bench.queue(8, 4);
    bench.world().refuse_posts = true;
    first.fence();
    bench.world().refuse_posts = false;
    drop(first);
    let second = bench.queue(8, 4);
    second.post_quiet(SEND, nothing()).expect("room");
    second.fence();
    let drained = bench.rt.spawn(async move { second.drained().await });
    bench.settle();
    assert!(!drained.is_finished(), "its requests have not ended");
}

#[test]
fn a_refused_post_leaves_no_slot_and_gives_its_memory_back() {
    let bench = Bench::new(Wait::Poll);
    let queue = bench.queue(8, 4);
    let pool = BufferPool::<V>::new(&bench.fake, 8, 4, AccessFlags::LOCAL_WRITE);
    bench.world().refuse_posts = true;
    let guard = || BufferGuard::Block { block: pool.alloc().expect("room"), len: 8 };
    assert!(queue.post(SEND, Local::Guarded(guard())).is_err());
    assert!(queue.post_recv(&CompletionSink::new(), 0, guard()).is_err());
    assert_eq!((bench.rt.audit(), pool.in_use()), (RtAudit::default(), 0));
}

#[test]
fn no_completion_queue_is_promised_more_than_it_holds() {
    let mut bench = Bench::with(RtConfig { cqe: 16, ..RtConfig::default() });
    let first = bench.queue(7, 4);
    assert_eq!(bench.world().capacities, [16]);
    let second = bench.queue(7, 4);
    assert_eq!(bench.world().capacities, [16, 16]);
    let large = bench.queue(40, 4);
    assert_eq!(bench.world().capacities, [16, 16, 45]);
    drop((first, second, large));
    let _soon = bench.queue(7, 4);
    assert_eq!(bench.world().capacities.len(), 4, "old completions may still be in the others");
    // The promises are free again once the queues were found empty.
    bench.settle();
    let _later = [bench.queue(7, 4), bench.queue(7, 4), bench.queue(40, 4)];
    assert_eq!(bench.world().capacities.len(), 4);
}
