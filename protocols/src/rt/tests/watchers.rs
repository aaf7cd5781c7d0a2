//! Who waits for a queue is woken by what it waits for, and by nothing else.

use super::*;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Count {
    fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Completes the oldest receive of which no completion has come.
fn receive(bench: &Bench, nth: usize) {
    let id = bench.world().receives[nth].0;
    bench.world().complete(id, Ok(WcOp::Recv));
}

#[test]
fn who_watches_sends_is_woken_once_by_the_end_of_one() {
    let mut bench = Bench::new(Wait::Poll);
    let queue = bench.queue(8, 4);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    queue.post_recv(&CompletionSink::new(), 1, BufferGuard::Nothing).expect("room");
    let _pending: Vec<_> = (0..2).map(|_| queue.post(SEND, nothing()).expect("room")).collect();
    for _ in 0..2 {
        queue.watch_sends(&Context::from_waker(&waker));
    }
    receive(&bench, 0);
    bench.settle();
    assert_eq!(count.now(), 0, "a message came");
    bench.complete(0, Ok(WcOp::Send));
    bench.settle();
    assert_eq!(count.now(), 1);
    bench.complete(1, Ok(WcOp::Send));
    bench.settle();
    assert_eq!(count.now(), 1, "it does not watch any more");
}

#[test]
fn who_waits_for_a_drained_queue_is_woken_when_nothing_is_left_on_either_side() {
    for sends_first in [true, false] {
        let mut bench = Bench::new(Wait::Poll);
        let queue = bench.queue(8, 4);
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        queue.post_recv(&CompletionSink::new(), 1, BufferGuard::Nothing).expect("room");
        let _pending = queue.post(SEND, nothing()).expect("room");
        let mut drained = pin!(queue.drained());
        assert!(drained.as_mut().poll(&mut cx).is_pending());
        if sends_first {
            bench.complete(0, Ok(WcOp::Send))
        } else {
            receive(&bench, 0)
        }
        bench.settle();
        assert_eq!(count.now(), 0, "half of it is left");
        if sends_first {
            receive(&bench, 0)
        } else {
            bench.complete(0, Ok(WcOp::Send))
        }
        bench.settle();
        assert_eq!(count.now(), 1);
        assert!(drained.poll(&mut cx).is_ready());
    }
}

#[test]
fn who_waits_is_woken_when_the_queue_pair_is_destroyed() {
    let bench = Bench::new(Wait::Poll);
    let queue = bench.queue(8, 4);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    queue.post_quiet(SEND, nothing()).expect("room");
    queue.watch_sends(&Context::from_waker(&waker));
    drop(queue);
    assert_eq!(count.now(), 1);
}

#[test]
fn a_sink_wakes_the_task_that_asked_last() {
    let mut bench = Bench::new(Wait::Poll);
    let (queue, sink) = (bench.queue(8, 4), CompletionSink::new());
    let counts = [(); 2].map(|()| Arc::new(Count::default()));
    for _ in 0..2 {
        queue.post_recv(&sink, 1, BufferGuard::Nothing).expect("room");
    }
    for count in &counts {
        assert!(sink.poll_ready(&mut Context::from_waker(&Waker::from(Arc::clone(count)))).is_pending());
    }
    receive(&bench, 0);
    bench.settle();
    assert_eq!(counts.each_ref().map(|count| count.now()), [0, 1]);
    assert!(sink.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
    receive(&bench, 1);
    bench.settle();
    assert_eq!(counts.each_ref().map(|count| count.now()), [0, 1], "nobody asked again");
}
