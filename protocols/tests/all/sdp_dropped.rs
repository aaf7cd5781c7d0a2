//! What calls on streams leave that nobody waits for any more. `weft check sdp-dropped-*` and `sdp-left-*` found most of it.

use crate::common::{Cluster, begins, encoded, ms, rank, sockets, us};
use crate::sdp::{OPTIONS, PORT, Place, ZCOPY, accept, both, connect, filled, places, read_all};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::sdp::message::{Greeting, Handle, Header, Message};
use weft_protocols::sdp::{CHANNEL, SdpError, SdpOptions};
use weft_protocols::transport::Incoming;
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::{Nanos, Wait};

/// Sends a range without a copy, and then bytes through private buffers.
async fn send_both(place: Place) {
    let stream = connect(&place).await;
    place.rt.sleep(ms(2)).await;
    let (sent, _) = stream.send(filled(&place.sdp, 300, 1), 300).await;
    assert_eq!(sent, Ok(300));
    assert!(place.sdp.stats().zcopy_sent > 0, "it was written where it was wanted");
    stream.write_all(&[2; 50]).await.expect("written");
    stream.close().await.expect("closed");
}

/// Sends a range without a copy. Nothing more comes before the answer.
async fn send_one(place: Place) {
    let stream = connect(&place).await;
    place.rt.sleep(ms(2)).await;
    let (sent, _) = stream.send(filled(&place.sdp, 300, 1), 300).await;
    assert_eq!(sent, Ok(300));
    assert_eq!(stream.read(&mut [0; 9]).await, Ok(1));
}

fn in_order() -> Vec<u8> {
    [[1; 300].as_slice(), &[2; 50]].concat()
}

#[test]
fn what_came_for_a_call_that_was_left_and_dropped_keeps_its_place_in_the_stream() {
    both(ZCOPY(), send_both, |place| async move {
        let stream = accept(&place).await;
        let mut left = Box::pin(stream.recv(place.sdp.buffer(300).expect("memory")));
        begins(left.as_mut()).await;
        // All of it comes meanwhile.
        place.rt.sleep(ms(10)).await;
        drop(left);
        assert!(read_all(&stream).await == in_order(), "in the order of the stream");
    });
}

#[test]
fn of_two_receives_the_second_one_has_what_came_for_the_first_which_was_dropped() {
    let twice = |place: Place| async move {
        let stream = connect(&place).await;
        place.rt.sleep(ms(5)).await;
        for with in [1, 2] {
            let (sent, _) = stream.send(filled(&place.sdp, 300, with), 300).await;
            assert_eq!(sent, Ok(300));
        }
        stream.close().await.expect("closed");
    };
    both(ZCOPY(), twice, |place| async move {
        let stream = accept(&place).await;
        let mut first = Box::pin(stream.recv(place.sdp.buffer(300).expect("memory")));
        begins(first.as_mut()).await;
        let mut second = Box::pin(stream.recv(place.sdp.buffer(300).expect("memory")));
        begins(second.as_mut()).await;
        place.rt.sleep(ms(1)).await;
        drop(first);
        let (received, buffer) = second.await;
        let mut bytes = vec![0; received.expect("received") as usize];
        buffer.expect("it is given back").read(0, &mut bytes).expect("it has as many");
        bytes.extend(read_all(&stream).await);
        assert!(bytes == [[1; 300], [2; 300]].concat(), "in the order of the stream");
    });
}

#[test]
fn who_waits_to_read_has_what_came_for_a_call_once_that_is_dropped() {
    both(ZCOPY(), send_one, |place| async move {
        let stream = Rc::new(accept(&place).await);
        let mut left = Box::pin(stream.recv(place.sdp.buffer(300).expect("memory")));
        begins(left.as_mut()).await;
        let reads = Rc::clone(&stream);
        let reader = place.rt.spawn(async move { reads.read(&mut [0; 9]).await });
        place.rt.sleep(ms(10)).await;
        assert!(!reader.is_finished(), "what came is the first call's");
        drop(left);
        let read = place.rt.deadline(place.rt.now() + ms(10), reader).await;
        assert_eq!(read.expect("it is woken"), Some(Ok(9)));
        stream.write_all(&[3]).await.expect("written");
        assert_eq!(read_all(&stream).await.len(), 291);
    });
}

/// Bytes behind them are here, and the end of the stream: until the call looks, or is dropped, nobody knows whether it reads before.
#[test]
fn nobody_reads_on_behind_bytes_that_another_call_was_told_of_and_has_not_taken() {
    both(ZCOPY(), send_both, |place| async move {
        let stream = accept(&place).await;
        let mut left = Box::pin(stream.recv(place.sdp.buffer(300).expect("memory")));
        begins(left.as_mut()).await;
        place.rt.sleep(ms(10)).await;
        assert_eq!(stream.try_read(&mut [0; 9]), Ok(None));
        assert_eq!(stream.peek(&mut [0; 9]), Ok(None));
        let soon = || place.rt.now() + ms(1);
        assert!(place.rt.deadline(soon(), stream.readable()).await.is_err());
        assert!(place.rt.deadline(soon(), stream.read(&mut [0; 9])).await.is_err());
        let receives = stream.recv(place.sdp.buffer(300).expect("memory"));
        assert!(place.rt.deadline(soon(), receives).await.is_err());
        drop(left);
        assert!(read_all(&stream).await == in_order(), "in the order of the stream");
    });
}

/// The call that was left looks after all: who waited reads on behind it.
#[test]
fn who_waits_behind_a_call_that_was_left_reads_on_once_that_has_looked() {
    both(ZCOPY(), send_both, |place| async move {
        let stream = Rc::new(accept(&place).await);
        let mut left = Box::pin(stream.recv(place.sdp.buffer(300).expect("memory")));
        begins(left.as_mut()).await;
        let reads = Rc::clone(&stream);
        let reader = place.rt.spawn(async move { read_all(&reads).await });
        place.rt.sleep(ms(10)).await;
        assert!(!reader.is_finished(), "what came first is the other call's");
        assert_eq!(left.await.0, Ok(300));
        let read = place.rt.deadline(place.rt.now() + ms(10), reader).await;
        assert_eq!(read.expect("it is woken"), Some(vec![2; 50]));
    });
}

/// It waits with a buffer of its own, for which the peer has nothing.
#[test]
fn a_receive_that_waits_has_what_came_for_another_one_once_that_is_dropped() {
    both(ZCOPY(), send_one, |place| async move {
        let stream = Rc::new(accept(&place).await);
        let mut left = Box::pin(stream.recv(place.sdp.buffer(300).expect("memory")));
        begins(left.as_mut()).await;
        let (receives, buffer) = (Rc::clone(&stream), place.sdp.buffer(300).expect("memory"));
        let receiver = place.rt.spawn(async move { receives.recv(buffer).await.0 });
        place.rt.sleep(ms(10)).await;
        assert!(!receiver.is_finished(), "what came is the first call's");
        drop(left);
        let received = place.rt.deadline(place.rt.now() + ms(10), receiver).await;
        assert_eq!(received.expect("it is woken"), Some(Ok(300)));
        stream.write_all(&[3]).await.expect("written");
        assert!(read_all(&stream).await.is_empty());
    });
}

#[test]
fn nobody_closes_in_good_faith_what_was_written_for_a_user_who_reads_no_more() {
    both(
        ZCOPY(),
        |place| async move {
            let stream = connect(&place).await;
            assert_eq!(stream.read(&mut [0; 9]).await, Ok(0), "the reader has gone");
            let (sent, _) = stream.send(filled(&place.sdp, 300, 1), 300).await;
            assert_eq!(sent, Ok(300));
            assert!(place.sdp.stats().zcopy_sent > 0, "it was written where it was wanted");
            assert_eq!(stream.close().await, Err(SdpError::Reset));
        },
        |place| async move {
            let stream = accept(&place).await;
            let call = stream.recv(place.sdp.buffer(300).expect("memory"));
            assert!(place.rt.deadline(place.rt.now() + ms(1), call).await.is_err());
            drop(stream);
            place.rt.sleep(ms(20)).await;
            let stats = place.sdp.stats();
            assert_eq!((stats.aborts, stats.malformed), (1, 0), "the peer has made no mistake");
        },
    );
}

/// One stream takes all the room that the transport has for the peer. What gives it back is no message of the other stream.
#[test]
fn a_stream_is_writable_again_when_another_one_has_given_back_the_room() {
    let cluster = Cluster::narrow(2, 1, Wait::Poll, 3);
    let [here, there] = places(&cluster, SdpOptions { buffers: 16, ..OPTIONS() });
    let server = there.clone();
    drop(there.rt.spawn(async move {
        let listener = server.sdp.bind(PORT).expect("nobody has the port");
        let streams = [listener.accept().await, listener.accept().await];
        server.rt.sleep(ms(100)).await;
        drop(streams);
    }));
    let writable = Rc::new(Cell::new(false));
    let (told, client) = (Rc::clone(&writable), here.clone());
    drop(here.rt.spawn(async move {
        let [first, second] = [0, 1].map(|_| client.sdp.connect(rank(1), PORT));
        let (first, second) = (first.await.expect("it listens"), second.await.expect("it listens"));
        client.rt.sleep(ms(1)).await;
        let mut written = 0;
        while let Some(bytes) = first.try_write(&[7; 200]).expect("it stands") {
            written += bytes;
        }
        assert!(written > 0 && second.try_read(&mut [0]) == Ok(None));
        let waits = client.rt.deadline(client.rt.now() + ms(10), second.writable());
        told.set(waits.await.is_ok());
    }));
    cluster.run(Nanos::from_secs(1));
    assert!(writable.get(), "there is room");
}

/// The answer to a connection that was dropped comes late, as what is on its way when a stream is aborted does.
#[test]
fn what_comes_for_a_stream_that_its_user_gave_up_is_out_of_turn_for_nobody() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let [here, there] = places(&cluster, OPTIONS());
    let server = there.clone();
    drop(there.rt.spawn(async move {
        let listener = server.sdp.bind(PORT).expect("nobody has the port");
        while let Ok(stream) = listener.accept().await {
            while stream.write(&[7; 100]).await.is_ok() {}
        }
    }));
    let client = here.clone();
    drop(here.rt.spawn(async move {
        for after in (0..40).map(us) {
            let connects = client.sdp.connect(rank(1), PORT);
            drop(client.rt.deadline(client.rt.now() + after, connects).await);
            client.rt.sleep(ms(1)).await;
            // In the same place as the one before: what came late for that one was for no other.
            let stream = client.sdp.connect(rank(1), PORT).await.expect("the server listens");
            client.rt.sleep(after).await;
            drop(stream);
        }
    }));
    cluster.run(Nanos::from_secs(1));
    let stats = [here, there].map(|place| place.sdp.stats());
    assert!(stats[0].late > 40, "{:?}", stats[0]);
    assert_eq!(stats.map(|stats| (stats.out_of_turn, stats.malformed)), [(0, 0); 2]);
}

/// A stream that has ended in order, its place when nobody has that, and a place that nobody ever had.
#[test]
fn what_comes_for_a_stream_that_nobody_gave_up_is_out_of_turn() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let (rt, sdp) = sockets(&cluster.members[1], OPTIONS());
    let server = sdp.clone();
    drop(rt.spawn(async move {
        let stream = server.bind(PORT).expect("nobody has the port").accept().await.expect("one comes");
        assert_eq!(stream.read(&mut [0]).await, Ok(0));
        stream.close().await.expect("closed");
    }));
    let mesh = cluster.members[0].mesh.clone();
    drop(cluster.members[0].rt.spawn(async move {
        let mut inbox = mesh.open(CHANNEL).expect("nobody else has it");
        let send = |message: &Message<'_>| {
            mesh.send(rank(1), CHANNEL, &encoded(message)).expect("room");
        };
        let greeting = Greeting { from: Handle::default(), buffers: 4, buffer_bytes: 200, adverts: 0 };
        send(&Message::Hello { id: 1, port: PORT, from_port: 1, greeting });
        let mut header = Header { to: Handle::default(), grant: 4, acked: 0, at: 0 };
        while let Some(Incoming::Message(received)) = inbox.recv().await {
            match Message::decode(received.bytes()) {
                Some(Message::HelloAck { greeting, .. }) => {
                    header.to = greeting.from;
                    send(&Message::DisConn { header });
                }
                Some(Message::DisConn { .. }) => {
                    header = Header { acked: 1, at: 1, ..header };
                    let Handle { place, use_of } = header.to;
                    // The first one is in order.
                    let next = Handle { place, use_of: use_of.wrapping_add(1) };
                    for to in [header.to, header.to, next, Handle { place: place + 1, use_of }] {
                        send(&Message::Data { header: Header { to, ..header }, bytes: &[] });
                    }
                }
                _ => {}
            }
        }
    }));
    cluster.run(ms(100));
    let stats = sdp.stats();
    assert_eq!((sdp.streams(), stats.late, stats.out_of_turn, stats.malformed), (0, 0, 3, 0));
}

/// All that it had asked for while its link was cut comes at once, and is answered by an abort: the listener's backlog was full of that.
#[test]
fn a_client_that_gave_up_asking_again_and_again_finds_room_at_the_listener_when_its_link_is_there() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let options = SdpOptions { backlog: 2, connect_timeout: Some(ms(1)), ..OPTIONS() };
    let [(near_rt, near), (_, far)] = [0, 1].map(|node| sockets(&cluster.members[node], options));
    let listener = far.bind(PORT).expect("free");
    let link = Link::Port(NodeId(1), 1);
    cluster.plan(Nanos(1), Fault::Cut { link, way: Way::Both, lasts: Some(ms(20)) });
    let connected = Rc::new(Cell::new(None));
    let tell = Rc::clone(&connected);
    drop(near_rt.clone().spawn(async move {
        for _ in 0..4 {
            assert_eq!(near.connect(rank(1), PORT).await.map(drop), Err(SdpError::TimedOut));
        }
        near_rt.sleep_until(ms(200)).await;
        tell.set(Some(near.connect(rank(1), PORT).await.map(drop)));
    }));
    cluster.run(ms(300));
    assert_eq!(connected.take(), Some(Ok(())));
    drop(listener);
}
