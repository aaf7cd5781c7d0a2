//! Queue pairs that rest: nobody looks at what they do not complete.

use super::*;

/// A bench on which each queue pair of so many requests has a completion queue of its own.
fn bench(wait: Wait) -> Bench {
    Bench::with(RtConfig { wait, cqe: 9, ..RtConfig::default() })
}

fn polls_of_a_step(bench: &mut Bench) -> u32 {
    let before = bench.world().polls;
    let _ = bench.program.step();
    bench.world().polls - before
}

#[test]
fn a_completion_queue_of_queue_pairs_that_rest_is_not_looked_at_until_one_is_woken() {
    let mut bench = bench(Wait::Poll);
    let [_used, resting] = [bench.queue(4, 4), bench.queue(4, 4)];
    assert_eq!(polls_of_a_step(&mut bench), 2);
    resting.rest();
    assert_eq!(polls_of_a_step(&mut bench), 1);
    resting.wake();
    assert_eq!(polls_of_a_step(&mut bench), 2);
}

#[test]
fn a_node_that_waits_for_events_arms_it_when_one_is_woken() {
    let mut bench = bench(Wait::Notify);
    let [_used, resting] = [bench.queue(4, 4), bench.queue(4, 4)];
    resting.rest();
    assert_eq!(bench.settle(), until(Wait::Notify, None));
    assert_eq!(bench.world().armed, [true, false]);
    resting.wake();
    assert_eq!(bench.settle(), until(Wait::Notify, None));
    assert_eq!(bench.world().armed, [true, true]);
}

#[test]
fn what_listens_while_it_rests_is_looked_at_when_there_is_nothing_else_to_do() {
    let mut bench = bench(Wait::Poll);
    let [_used, listening] = [bench.queue(4, 4), bench.queue(4, 4)];
    listening.rest();
    listening.listen();
    assert_eq!(polls_of_a_step(&mut bench), 2);
    listening.wake();
    assert_eq!(polls_of_a_step(&mut bench), 2);
    drop(listening);
    assert_eq!(bench.settle(), until(Wait::Poll, None));
}

#[test]
fn a_node_that_waits_for_events_arms_what_listens() {
    let mut bench = bench(Wait::Notify);
    let [_used, listening] = [bench.queue(4, 4), bench.queue(4, 4)];
    listening.rest();
    listening.listen();
    assert_eq!(bench.settle(), until(Wait::Notify, None));
    assert_eq!(bench.world().armed, [true, true]);
}

#[test]
fn what_rests_is_woken_by_its_fence_and_gives_its_room_back_when_it_is_gone() {
    let mut bench = bench(Wait::Poll);
    let fenced = bench.queue(4, 4);
    fenced.rest();
    fenced.fence();
    assert_eq!(polls_of_a_step(&mut bench), 1, "what it flushes is looked for");
    drop(fenced);
    bench.settle();
    let resting = bench.queue(4, 4);
    resting.rest();
    drop(resting);
    let _again = bench.queue(4, 4);
    assert_eq!(bench.world().cqs.len(), 1, "one completion queue was enough for all three");
}

/// What it flushed may be in the completion queue, whose places are not another one's before that was looked for.
#[test]
fn what_rests_and_was_moved_to_error_by_its_connection_manager_gives_its_room_back_once_it_was_looked_for() {
    let mut bench = bench(Wait::Poll);
    let resting = bench.queue(4, 4);
    resting.rest();
    resting.qp().modify(&Modify::Err).expect("the fake device obeys");
    drop(resting);
    let _other = bench.queue(4, 4);
    assert_eq!(bench.world().cqs.len(), 2, "its places are not free yet");
    bench.settle();
    let _again = bench.queue(4, 4);
    assert_eq!(bench.world().cqs.len(), 2, "they are now");
}
