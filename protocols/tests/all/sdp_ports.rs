//! The ports of a node, and what a user changes of a stream who ends it meanwhile.

use crate::common::{Cluster, ms, rank, sockets};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::sdp::{SdpError, SdpOptions};
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::{Nanos, Wait};

const PORT: u16 = 9;

const OPTIONS: fn() -> SdpOptions = || SdpOptions { buffers: 8, buffer_bytes: 200, ..SdpOptions::default() };

#[test]
fn a_port_that_nobody_asks_for_is_one_where_nobody_listens() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let (_, sdp) = sockets(&cluster.members[0], OPTIONS());
    let listeners = [0, 0, 0].map(|port| sdp.bind(port).expect("there are some"));
    let mut ports = listeners.each_ref().map(|listener| listener.local_addr().port).to_vec();
    ports.dedup();
    assert!(ports.len() == 3 && !ports.contains(&0), "{ports:?}");
}

/// There are 16,384 of them: the stream that began first is still there when they begin anew.
#[test]
fn no_two_streams_with_one_port_of_a_peer_have_the_same_port_here() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let [(rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], OPTIONS()));
    drop(far_rt.spawn(async move {
        let listener = far.bind(PORT).expect("free");
        let _streams = [listener.accept().await, listener.accept().await];
        std::future::pending::<()>().await;
    }));
    let done = Rc::new(Cell::new(false));
    let tell = Rc::clone(&done);
    drop(rt.spawn(async move {
        let first = near.connect(rank(1), PORT).await.expect("it listens");
        for _ in 1..16_384 {
            assert!(matches!(near.connect(rank(1), PORT + 1).await, Err(SdpError::Refused(_))));
        }
        let second = near.connect(rank(1), PORT).await.expect("it listens");
        assert_ne!(first.local_addr(), second.local_addr());
        tell.set(true);
    }));
    cluster.run(Nanos::from_secs(60));
    assert!(done.get());
}

/// The link is out, so that the peer cannot have answered.
#[test]
fn who_shuts_a_stream_down_while_buffers_of_another_size_are_asked_for_is_told_of_none() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let [(rt, near), far] = [0, 1].map(|node| sockets(&cluster.members[node], OPTIONS()));
    crate::common::accepts_and_rests(far, PORT);
    let end = Rc::new(Cell::new(None));
    let tell = Rc::clone(&end);
    drop(rt.clone().spawn(async move {
        let stream = Rc::new(near.connect(rank(1), PORT).await.expect("it listens"));
        rt.sleep_until(ms(2)).await;
        let resizes = Rc::clone(&stream);
        let resized = rt.spawn(async move { resizes.resize(100).await });
        rt.sleep(ms(1)).await;
        stream.shutdown().expect("it stands");
        tell.set(resized.await);
    }));
    let link = Link::Port(NodeId(1), 1);
    cluster.plan(ms(1), Fault::Cut { link, way: Way::Both, lasts: Some(ms(5)) });
    cluster.run(ms(200));
    assert_eq!(end.take(), Some(Err(SdpError::BrokenPipe)));
}
