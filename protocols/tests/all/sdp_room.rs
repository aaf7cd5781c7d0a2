//! Streams to one peer that share the room of the transport.

use crate::common::{Cluster, ms, rank};
use crate::sdp::{OPTIONS, PORT, Place, connect, filled, places, read_all};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::sdp::{SdpOptions, SdpStream};
use weft_protocols::transport::Mesh;
use weft_sim::Sim;
use weft_verbs::{Nanos, Wait};

#[test]
fn a_stream_that_always_has_something_to_say_keeps_no_other_one_to_its_peer_from_saying_anything() {
    // There is room for one message.
    let cluster = Cluster::narrow(2, 1, Wait::Poll, 1);
    let [client, server] = places(&cluster, OPTIONS());
    let (written, heard) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (all_written, hears, rt) = (Rc::clone(&written), Rc::clone(&heard), server.rt.clone());
    drop(server.rt.clone().spawn(async move {
        let listener = server.sdp.bind(PORT).expect("nobody has the port");
        let [long, short] = [listener.accept().await, listener.accept().await].map(Result::unwrap);
        drop(rt.spawn(async move { assert_eq!(read_all(&long).await.len(), 40_000) }));
        assert_eq!(read_all(&short).await, b"hello");
        assert!(!all_written.get(), "the other stream has not said all that it has to say");
        hears.set(true);
    }));
    let rt = client.rt.clone();
    drop(client.rt.clone().spawn(async move {
        let [long, short] = [connect(&client).await, connect(&client).await];
        let writes = rt.spawn(async move {
            long.write_all(&[7; 40_000]).await.expect("written");
            written.set(true);
            long.close().await.expect("closed");
        });
        rt.sleep(ms(1)).await;
        short.write_all(b"hello").await.expect("written");
        short.close().await.expect("closed");
        writes.await.expect("it is not dropped");
    }));
    cluster.run(Nanos::from_secs(100));
    assert!(heard.get(), "it came");
}

/// How many owned buffers each end of the busy stream sends.
const OWNED: u32 = 50;

/// Sends them by copy, counts them, and reads as much as the other end sends.
fn is_busy(place: &Place, stream: &Rc<SdpStream<Sim>>, sent: &Rc<Cell<u32>>) {
    for _ in 0..OWNED {
        let (sends, sent, buffer) = (Rc::clone(stream), Rc::clone(sent), filled(&place.sdp, 8, 1));
        drop(place.rt.spawn(async move {
            assert_eq!(sends.send(buffer, 8).await.0, Ok(8));
            sent.set(sent.get() + 1);
        }));
    }
    let reads = Rc::clone(stream);
    drop(place.rt.spawn(async move { reads.read_exact(&mut [0; 8 * OWNED as usize]).await.expect("read") }));
}

/// Each message of the busy stream acknowledges the last one of the other end, whose service is woken before the line is.
#[test]
fn a_stream_that_hears_of_room_first_keeps_its_place_in_line() {
    let cluster = Cluster::narrow(2, 1, Wait::Poll, 1);
    let [client, server] = places(&cluster, SdpOptions { buffers: 16, ..OPTIONS() });
    let sent = [0, 1].map(|_| Rc::new(Cell::new(0)));
    let (here, there) = (Rc::clone(&sent[0]), Rc::clone(&sent[1]));
    drop(server.rt.clone().spawn(async move {
        let listener = server.sdp.bind(PORT).expect("nobody has the port");
        let [busy, short] = [listener.accept().await, listener.accept().await].map(Result::unwrap);
        busy.readable().await;
        is_busy(&server, &Rc::new(busy), &there);
        assert_eq!(read_all(&short).await, b"hello");
    }));
    let written = Rc::new(Cell::new(None));
    let tells = Rc::clone(&written);
    drop(client.rt.clone().spawn(async move {
        let [busy, short] = [connect(&client).await, connect(&client).await];
        client.rt.sleep(ms(1)).await;
        is_busy(&client, &Rc::new(busy), &here);
        client.rt.yield_now().await;
        short.write_all(b"hello").await.expect("written");
        tells.set(Some(here.get()));
        short.close().await.expect("closed");
    }));
    cluster.run(Nanos::from_secs(100));
    let before = written.get().expect("it was written");
    assert!(before < OWNED / 2, "{before} messages of the other stream had gone before");
    assert_eq!(sent.map(|sent| sent.get()), [OWNED; 2]);
}

/// How many streams only receive.
const QUIET: usize = 20;

/// Writes to a stream while there is no room. How many passes it waits from when there is some.
async fn passes_until_written(place: &Place, mesh: &Mesh<Sim>, writer: &SdpStream<Sim>) -> usize {
    let (rt, mesh, written) = (place.rt.clone(), mesh.clone(), Rc::new(Cell::new(false)));
    let ended = Rc::clone(&written);
    let counts = place.rt.spawn(async move {
        mesh.room(rank(1)).await.expect("the mesh is open");
        let mut passes = 0;
        while !ended.get() {
            passes += 1;
            rt.yield_now().await;
        }
        passes
    });
    writer.write_all(b"b").await.expect("written");
    written.set(true);
    counts.await.expect("it is not dropped")
}

#[test]
fn a_stream_that_has_nothing_to_say_has_no_turn_before_one_that_has() {
    let cluster = Cluster::narrow(2, 1, Wait::Poll, 1);
    let [client, server] = places(&cluster, SdpOptions { buffers: 16, backlog: 32, ..OPTIONS() });
    drop(server.rt.clone().spawn(async move {
        let listener = server.sdp.bind(PORT).expect("nobody has the port");
        let mut quiet = Vec::new();
        for _ in 0..QUIET {
            quiet.push(listener.accept().await.expect("it comes"));
        }
        let writer = listener.accept().await.expect("it comes");
        for stream in &quiet {
            stream.write_all(b"x").await.expect("written");
        }
        assert_eq!(read_all(&writer).await, b"ab");
    }));
    let (mesh, passes) = (cluster.members[0].mesh.clone(), Rc::new(Cell::new(None)));
    let tells = Rc::clone(&passes);
    drop(client.rt.clone().spawn(async move {
        let mut quiet = Vec::new();
        for _ in 0..QUIET {
            quiet.push(connect(&client).await);
        }
        let writer = connect(&client).await;
        client.rt.sleep(ms(50)).await;
        writer.write_all(b"a").await.expect("written");
        // There is no room now.
        for stream in &quiet {
            assert_eq!(stream.try_read(&mut [0; 9]), Ok(Some(1)));
        }
        tells.set(Some(passes_until_written(&client, &mesh, &writer).await));
        writer.close().await.expect("closed");
    }));
    cluster.run(Nanos::from_secs(100));
    let passes = passes.get().expect("it was written");
    assert!(passes < QUIET / 2, "{passes} passes from when there was room");
}

/// More owned buffers than a stream has credits or advertisements for, of a peer that reads nothing.
const TOO_MANY: usize = 4;

/// Sends an owned buffer, which is given up with its stream.
fn offers(place: &Place, stream: &Rc<SdpStream<Sim>>, len: u32) {
    let (sends, buffer) = (Rc::clone(stream), filled(&place.sdp, len, 1));
    drop(place.rt.spawn(async move { drop(sends.send(buffer, len).await) }));
}

/// Accepts streams of which it reads the last one alone, to its end.
async fn reads_the_last(server: Place) {
    let listener = server.sdp.bind(PORT).expect("nobody has the port");
    let mut held_up = Vec::new();
    for _ in 0..QUIET {
        held_up.push(listener.accept().await.expect("it comes"));
    }
    let writer = listener.accept().await.expect("it comes");
    assert_eq!(read_all(&writer).await, b"ab");
}

/// Has streams that wait for what their peer does look for room when there is none, each with owned buffers of so many bytes on their way. How
/// many passes a stream that has something to say waits from when there is room.
fn passes_beside_those_held_up(len: u32, looks: fn(&Place, &Rc<SdpStream<Sim>>, u32)) -> usize {
    let cluster = Cluster::narrow(2, 1, Wait::Poll, 1);
    let options = SdpOptions { zcopy_threshold: 100, zcopy_depth: 2, backlog: 32, ..OPTIONS() };
    let [client, server] = places(&cluster, options);
    drop(server.rt.clone().spawn(reads_the_last(server)));
    let (mesh, passes) = (cluster.members[0].mesh.clone(), Rc::new(Cell::new(None)));
    let tells = Rc::clone(&passes);
    drop(client.rt.clone().spawn(async move {
        let mut held_up = Vec::new();
        for _ in 0..QUIET {
            held_up.push(Rc::new(connect(&client).await));
        }
        let writer = connect(&client).await;
        for stream in &held_up {
            (0..TOO_MANY).for_each(|_| offers(&client, stream, len));
        }
        client.rt.sleep(ms(50)).await;
        writer.write_all(b"a").await.expect("written");
        // There is no room now.
        held_up.iter().for_each(|stream| looks(&client, stream, len));
        client.rt.yield_now().await;
        assert_eq!(mesh.room_left(rank(1)), 0, "nothing was acknowledged yet");
        tells.set(Some(passes_until_written(&client, &mesh, &writer).await));
        writer.close().await.expect("closed");
    }));
    cluster.run(Nanos::from_secs(100));
    passes.get().expect("it was written")
}

#[test]
fn a_stream_that_has_no_credit_for_its_buffers_or_offers_all_that_it_may_has_no_turn_before_one_that_can_use_it()
 {
    for (way, len) in [("through private buffers", 8), ("by ZCopy", 150)] {
        let passes = passes_beside_those_held_up(len, offers);
        assert!(passes < QUIET / 2, "{way}: {passes} passes from when there was room");
    }
}

#[test]
fn who_waits_until_a_stream_can_be_written_has_no_turn_while_more_than_room_is_missing() {
    let waits = |place: &Place, stream: &Rc<SdpStream<Sim>>, _: u32| {
        let stream = Rc::clone(stream);
        drop(place.rt.spawn(async move { stream.writable().await }));
    };
    let passes = passes_beside_those_held_up(8, waits);
    assert!(passes < QUIET / 2, "{passes} passes from when there was room");
}

/// How many streams send both ways, and how many messages each, so that neither end has room for long.
const LOUD: usize = 60;
const LONG: usize = 20;

/// Sends and reads so many messages on each of these streams.
fn are_loud(place: &Place, streams: Vec<SdpStream<Sim>>) {
    for stream in streams.into_iter().map(Rc::new) {
        let reads = Rc::clone(&stream);
        drop(place.rt.spawn(async move { reads.read_exact(&mut [0; 200 * LONG]).await.expect("read") }));
        drop(place.rt.spawn(async move { stream.write_all(&[1; 200 * LONG]).await.expect("written") }));
    }
}

/// The stream has no credit left to ask for what it offers. The peer, which has no room either, reads it meanwhile, and says all in one message.
#[test]
fn a_stream_whose_offers_were_read_before_it_could_ask_for_them_goes_on_where_there_is_no_room() {
    let cluster = Cluster::narrow(2, 1, Wait::Poll, 8);
    let options = SdpOptions { zcopy_threshold: 100, zcopy_depth: 2, backlog: 64, ..OPTIONS() };
    let [client, server] = places(&cluster, options);
    let heard = Rc::new(Cell::new(false));
    let tells = Rc::clone(&heard);
    drop(server.rt.clone().spawn(async move {
        let listener = server.sdp.bind(PORT).expect("nobody has the port");
        let quiet = listener.accept().await.expect("it comes");
        let mut loud = Vec::new();
        for _ in 0..LOUD {
            loud.push(listener.accept().await.expect("it comes"));
        }
        server.rt.sleep_until(ms(50)).await;
        are_loud(&server, loud);
        assert_eq!(read_all(&quiet).await.len(), 2 * 8 + 2 * 150 + 5);
        tells.set(true);
    }));
    drop(client.rt.clone().spawn(async move {
        let quiet = Rc::new(connect(&client).await);
        let mut loud = Vec::new();
        for _ in 0..LOUD {
            loud.push(connect(&client).await);
        }
        client.rt.sleep_until(ms(50)).await;
        for len in [8, 8, 150, 150] {
            offers(&client, &quiet, len);
        }
        client.rt.yield_now().await;
        quiet.recall();
        are_loud(&client, loud);
        quiet.write_all(b"hello").await.expect("written");
        quiet.shutdown().expect("it stands");
    }));
    cluster.run(Nanos::from_secs(100));
    assert!(heard.get(), "the stream goes on");
}
