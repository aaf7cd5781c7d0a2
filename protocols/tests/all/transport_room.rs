//! Little room: peers for which no more than one message is kept.

use crate::common::{Cluster, Member, STYLES, begins, ms, rank};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use weft_protocols::transport::Channel;
use weft_verbs::Nanos;

const LOUD: Channel = Channel(3);
const QUIET: Channel = Channel(4);

/// The channels of what a node received, in order.
type Got = Rc<RefCell<Vec<Channel>>>;

fn receive(member: &Member, channels: &[Channel]) -> Got {
    let got = Got::default();
    for &channel in channels {
        let (mut inbox, keep) = (member.mesh.open(channel).expect("nobody opened it"), Rc::clone(&got));
        drop(member.rt.spawn(async move {
            while inbox.recv().await.is_some() {
                keep.borrow_mut().push(channel);
            }
        }));
    }
    got
}

/// Always has one more message to send, until all are sent.
fn talk(member: &Member, to: usize, channel: Channel, count: u32) {
    let mesh = member.mesh.clone();
    drop(member.rt.spawn(async move {
        for _ in 0..count {
            mesh.room(rank(to)).await.expect("the mesh is open");
            mesh.send(rank(to), channel, &[1]).expect("there is room");
        }
    }));
}

#[test]
fn one_system_s_messages_keep_no_other_s_from_being_sent() {
    for style in STYLES {
        let cluster = Cluster::narrow(2, 1, style, 1);
        let got = receive(&cluster.members[1], &[LOUD, QUIET]);
        talk(&cluster.members[0], 1, LOUD, 400);
        talk(&cluster.members[0], 1, QUIET, 100);
        cluster.run(ms(500));
        let got = got.borrow();
        assert_eq!(got.len(), 500, "{style:?}");
        let last = got.iter().rposition(|channel| *channel == QUIET).expect("100 of them");
        assert!((199..=201).contains(&last), "{style:?}: by turns, and not {last} before the last one");
    }
}

#[test]
fn two_ends_without_room_do_not_wait_for_each_other_s_delayed_acknowledgement() {
    for style in STYLES {
        let cluster = Cluster::narrow(2, 1, style, 1);
        let got = [0, 1].map(|node| receive(&cluster.members[node], &[LOUD]));
        talk(&cluster.members[0], 1, LOUD, 200);
        talk(&cluster.members[1], 0, LOUD, 200);
        // A delay of 0.2 ms for each message would be 40 ms.
        cluster.run(ms(8));
        assert_eq!(got.map(|got| got.borrow().len()), [200, 200], "{style:?}");
    }
}

/// A fuzzer found it: an acknowledgement that was due while the send queue was full broke the connection, and the next one in the same
/// way, for ever.
#[test]
fn no_connection_breaks_because_its_send_queue_is_full() {
    for style in STYLES {
        for (max_queued, depth) in [(4, 4), (8, 4), (8, 5), (16, 4)] {
            let cluster = Cluster::shallow(2, 1, style, max_queued, depth);
            let got = [0, 1].map(|node| receive(&cluster.members[node], &[LOUD]));
            talk(&cluster.members[0], 1, LOUD, 400);
            talk(&cluster.members[1], 0, LOUD, 400);
            cluster.run(ms(20));
            let context = format!("{style:?}, {max_queued} kept, {depth} places");
            assert_eq!(got.map(|got| got.borrow().len()), [400, 400], "{context}");
            let again: u64 = cluster.members.iter().map(|member| member.mesh.stats().reconnects).sum();
            assert_eq!(again, 0, "{context}");
        }
    }
}

/// An acknowledgement that was due while the send queue was full was due again at once, in the same step, for ever.
#[test]
fn acknowledgements_without_a_delay_wait_for_room_in_a_full_send_queue() {
    for style in STYLES {
        let cluster = Cluster::special(2, 1, 1, style, |config| {
            (config.ack_delay, config.send_depth, config.max_queued) = (Nanos::ZERO, 4, 8);
        });
        let got = [0, 1].map(|node| receive(&cluster.members[node], &[LOUD]));
        talk(&cluster.members[0], 1, LOUD, 400);
        talk(&cluster.members[1], 0, LOUD, 400);
        cluster.run(ms(20));
        assert_eq!(got.map(|got| got.borrow().len()), [400, 400], "{style:?}");
        let audit = cluster.members[0].mesh.audit();
        assert_eq!((audit.unacked, audit.acks_owed), (0, 0), "{style:?}");
    }
}

#[test]
fn room_that_one_has_waited_for_and_does_not_use_is_the_next_one_s() {
    for style in STYLES {
        let cluster = Cluster::narrow(2, 1, style, 1);
        let got = receive(&cluster.members[1], &[LOUD, QUIET]);
        let (rt, mesh) = (cluster.members[0].rt.clone(), cluster.members[0].mesh.clone());
        drop(cluster.members[0].rt.spawn(async move {
            mesh.send(rank(1), LOUD, &[1]).expect("there is room");
            let mut first = pin!(mesh.room(rank(1)));
            begins(first.as_mut()).await;
            mesh.all_received().await;
            let next = mesh.clone();
            drop(rt.spawn(async move {
                next.room(rank(1)).await.expect("the mesh is open");
                next.send(rank(1), QUIET, &[1]).expect("there is room");
            }));
            // The next one looks, and is behind the first in line.
            rt.yield_now().await;
            first.await.expect("the mesh is open");
        }));
        cluster.run(ms(50));
        assert_eq!(got.borrow()[..], [LOUD, QUIET], "{style:?}");
    }
}

/// Each acknowledgement woke all that waited, and each of them counted those before it: a claim of ten thousand minipages of one manager
/// took a minute of the processor.
#[test]
fn of_thousands_that_wait_for_room_only_those_look_for_whom_there_is_some() {
    const MANY: u32 = 2_000;
    for style in STYLES {
        let cluster = Cluster::narrow(2, 1, style, 16);
        let got = receive(&cluster.members[1], &[LOUD]);
        let looks = Rc::new(Cell::new(0));
        for _ in 0..MANY {
            let (mesh, looks) = (cluster.members[0].mesh.clone(), Rc::clone(&looks));
            drop(cluster.members[0].rt.spawn(async move {
                let mut room = pin!(mesh.room(rank(1)));
                poll_fn(|cx| {
                    looks.set(looks.get() + 1);
                    room.as_mut().poll(cx)
                })
                .await
                .expect("the mesh is open");
                mesh.send(rank(1), LOUD, &[1]).expect("there is room");
            }));
        }
        cluster.run(ms(100));
        assert_eq!(got.borrow().len() as u32, MANY, "{style:?}");
        assert!(looks.get() <= 4 * MANY, "{style:?}: {} looks", looks.get());
    }
}
