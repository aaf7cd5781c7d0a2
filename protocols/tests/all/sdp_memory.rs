//! What users of sockets see where adapters refuse to register memory for a while.

use crate::common::{Cluster, NOBODYS, all_regions, ms, rank, sockets, us, use_up};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::sdp::{Sdp, SdpError, SdpOptions};
use weft_protocols::transport::{MeshConfig, SendError};
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::{AckTimeout, Nanos};

const PORT: u16 = 9;

const OPTIONS: fn() -> SdpOptions =
    || SdpOptions { buffers: 8, buffer_bytes: 200, zcopy_threshold: 1_000, ..SdpOptions::default() };

fn cut_off(cluster: &Cluster, node: u32) {
    cluster.plan(us(1), Fault::Cut { link: Link::Node(NodeId(node)), way: Way::Both, lasts: None });
}

/// The answer to the word that nothing is started was lost for longer than the move may take. The word that it goes on has no memory at first.
#[test]
fn the_word_that_a_connection_goes_on_is_said_once_there_is_memory_for_it() {
    let slow = |config: &mut MeshConfig| config.timeout = AckTimeout::new(11).expect("an exponent");
    let cluster = Cluster::of_few_regions(3, 2, 4, slow);
    cut_off(&cluster, 2);
    let options = SdpOptions { move_timeout: Some(ms(3)), ..OPTIONS() };
    let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], options));
    let serves = far.clone();
    let got = Rc::new(RefCell::new(Vec::new()));
    let reads = Rc::clone(&got);
    drop(far_rt.spawn(async move {
        let stream = serves.bind(PORT).expect("free").accept().await.expect("one comes");
        let mut part = [0; 64];
        while let Ok(len @ 1..) = stream.read(&mut part).await {
            reads.borrow_mut().extend_from_slice(&part[..len]);
        }
    }));
    let ended = Rc::new(Cell::new(None));
    let (keep, asks, rt) = (Rc::clone(&ended), near.clone(), near_rt.clone());
    drop(near_rt.clone().spawn(async move {
        let stream = asks.connect(rank(1), PORT).await.expect("the server listens");
        stream.write_all(&[1; 40]).await.expect("written");
        rt.sleep_until(ms(20)).await;
        keep.set(Some(asks.move_to(rank(1), 1).await));
        rt.sleep_until(ms(200)).await;
        stream.write_all(&[2; 40]).await.expect("written");
        stream.close().await.expect("closed");
    }));
    let (uses, waits, rt) = (use_up(&cluster.members[0], 2), near.clone(), near_rt.clone());
    drop(near_rt.spawn(async move {
        rt.sleep_until(ms(10)).await;
        let regions = all_regions(&rt);
        rt.sleep_until(ms(20)).await;
        while waits.held_up() == 0 {
            rt.sleep(Nanos(500)).await;
        }
        // What asks for it is on its way, and what acknowledges it gives its memory back.
        while rt.now() < ms(30) {
            rt.sleep(us(2)).await;
            uses();
        }
        rt.sleep_until(ms(60)).await;
        drop(regions);
    }));
    // From the second node to the first nothing comes while the move may last.
    let held_up = Rc::new(Cell::new(0));
    let (sees, watches, rt) = (Rc::clone(&held_up), far.clone(), cluster.members[1].rt.clone());
    drop(rt.clone().spawn(async move {
        rt.sleep_until(ms(59)).await;
        sees.set(watches.held_up());
    }));
    cluster.run(ms(20));
    let link = Link::Port(NodeId(1), 1);
    cluster.plan(cluster.fabric.now(), Fault::Cut { link, way: Way::From, lasts: Some(ms(5)) });
    cluster.run(ms(400));
    assert_eq!(ended.get(), Some(Err(SdpError::TimedOut)));
    assert_eq!(held_up.get(), 1, "there was no memory for the word");
    assert_eq!([&near, &far].map(Sdp::held_up), [0, 0]);
    assert_eq!(got.borrow().len(), 80);
}

/// Its reader gives no buffer, and none can be registered for what is advertised.
#[test]
fn what_is_advertised_is_brought_though_no_memory_can_be_registered_for_it() {
    let cluster = Cluster::of_few_regions(2, 1, 4, |_| ());
    let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], OPTIONS()));
    let end = Rc::new(RefCell::new(None));
    let tell = Rc::clone(&end);
    let rt = far_rt.clone();
    drop(far_rt.clone().spawn(async move {
        let stream = far.bind(PORT).expect("free").accept().await.expect("one comes");
        let (mut all, mut part) = (Vec::new(), [0; 999]);
        let end = loop {
            match stream.read(&mut part).await {
                Ok(0) => break Ok(all),
                Ok(len) => all.extend_from_slice(&part[..len]),
                Err(why) => break Err(why),
            }
        };
        tell.replace(Some((rt.now(), end)));
    }));
    let rt = far_rt.clone();
    drop(far_rt.spawn(async move {
        rt.sleep_until(ms(4)).await;
        let regions = all_regions(&rt);
        rt.sleep_until(Nanos::from_secs(60)).await;
        drop(regions);
    }));
    let bytes: Vec<u8> = (0..20_000_u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    let sent = bytes.clone();
    let rt = near_rt.clone();
    drop(near_rt.spawn(async move {
        let stream = near.connect(rank(1), PORT).await.expect("the server listens");
        let buffer = near.buffer(20_000).expect("memory");
        buffer.write(0, &sent).expect("it fits");
        rt.sleep_until(ms(5)).await;
        assert_eq!(stream.send(buffer, 20_000).await.0, Ok(20_000));
        stream.close().await.expect("closed");
    }));
    cluster.run(ms(100));
    let (at, got) = end.take().expect("it comes to an end");
    assert!(got.expect("nobody ends the stream") == bytes, "all of it");
    assert!(at < ms(20), "it waited for memory: {at}");
}

/// A reader is told that its peer had no memory for a message, as soon as there is some. Says whether the peer owed nothing before.
fn told_of_a_message_without_memory(writes: bool) -> bool {
    let cluster = Cluster::of_few_regions(3, 1, 4, |_| ());
    cut_off(&cluster, 2);
    let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], OPTIONS()));
    let end = Rc::new(Cell::new(None));
    let tell = Rc::clone(&end);
    let rt = far_rt.clone();
    drop(far_rt.spawn(async move {
        let stream = far.bind(PORT).expect("free").accept().await.expect("one comes");
        tell.set(Some(stream.read(&mut [0]).await).map(|read| (rt.now(), read)));
    }));
    let (uses, mesh) = (use_up(&cluster.members[0], 2), cluster.members[0].mesh.clone());
    let streams = Rc::new(Cell::new(0));
    let (owes, rt) = (Rc::clone(&streams), near_rt.clone());
    drop(near_rt.spawn(async move {
        let stream = near.connect(rank(1), PORT).await.expect("the server listens");
        rt.sleep_until(ms(5)).await;
        let regions = all_regions(&rt);
        uses();
        assert!(matches!(mesh.send(rank(1), NOBODYS, &[0]), Err(SendError::Memory(_))));
        if writes {
            // What could not be sent was taken, as what is lost on the way is.
            assert_eq!(stream.try_write(&[7; 100]), Ok(Some(100)));
            assert_eq!(stream.try_write(&[7; 100]), Err(SdpError::Aborted));
            rt.sleep_until(ms(15)).await;
            owes.set(near.streams());
            drop(regions);
            // It keeps the stream, and makes no call on it.
            rt.sleep_until(ms(90)).await;
            drop(stream);
        } else {
            stream.abort();
            rt.sleep_until(ms(15)).await;
            owes.set(near.streams());
            drop(regions);
        }
    }));
    cluster.run(ms(100));
    let (at, read) = end.get().expect("it waits for ever");
    assert_eq!(read, Err(SdpError::Reset));
    assert!((ms(15)..ms(20)).contains(&at), "{at}");
    streams.get() == 0
}

#[test]
fn a_peer_is_told_of_a_stream_that_ended_for_want_of_memory_though_nobody_calls_on_it_any_more() {
    told_of_a_message_without_memory(true);
}

#[test]
fn a_stream_is_owed_to_its_peer_until_the_word_that_it_is_over_was_sent() {
    let owed_nothing = told_of_a_message_without_memory(false);
    assert!(!owed_nothing, "it has yet to say so");
}
