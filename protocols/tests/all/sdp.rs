//! What users of sockets expect of single streams.

use crate::common::{Cluster, Dice, config, encoded, ms, rank, sockets};
use std::cell::{RefCell, UnsafeCell};
use std::future::Future;
use std::ptr::NonNull;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::message::{Greeting, Handle, Header, Message};
use weft_protocols::sdp::{CHANNEL, Mode, Refusal, Sdp, SdpBuffer, SdpError, SdpOptions, SdpStream};
use weft_protocols::transport::Incoming;
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, RunEnd, Sim};
use weft_verbs::{Nanos, PinnedMemory, Wait};

/// A node of a test.
#[derive(Clone)]
pub(crate) struct Place {
    pub rt: Rt<Sim>,
    pub sdp: Sdp<Sim>,
}

pub(crate) const PORT: u16 = 80;

/// What a private buffer of these tests takes: the mesh carries 256 bytes.
pub(crate) const OPTIONS: fn() -> SdpOptions =
    || SdpOptions { buffers: 4, buffer_bytes: 200, backlog: 2, ..SdpOptions::default() };

/// Runs a client on the first node and a server on the second one to their ends.
pub(crate) fn both<C, S>(
    options: SdpOptions,
    client: impl FnOnce(Place) -> C,
    server: impl FnOnce(Place) -> S,
) where
    C: Future<Output = ()> + 'static,
    S: Future<Output = ()> + 'static,
{
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let places = places(&cluster, options);
    let ended = Rc::new(RefCell::new(0));
    let counted = |part: std::pin::Pin<Box<dyn Future<Output = ()>>>| {
        let ended = Rc::clone(&ended);
        async move {
            part.await;
            *ended.borrow_mut() += 1;
        }
    };
    let [a, b] = [&places[0], &places[1]];
    drop(b.rt.spawn(counted(Box::pin(server(b.clone())))));
    drop(a.rt.spawn(counted(Box::pin(client(a.clone())))));
    cluster.run(Nanos::from_secs(100));
    assert_eq!(*ended.borrow(), 2, "both come to their ends");
    let left = places.map(|place| place.sdp.streams());
    assert_eq!(left, [0, 0], "no stream is left over");
}

pub(crate) fn places(cluster: &Cluster, options: SdpOptions) -> [Place; 2] {
    [0, 1].map(|node| {
        let (rt, sdp) = sockets(&cluster.members[node], options);
        Place { rt, sdp }
    })
}

pub(crate) async fn accept(place: &Place) -> SdpStream<Sim> {
    place.sdp.bind(PORT).expect("nobody has the port").accept().await.expect("somebody comes")
}

pub(crate) async fn connect(place: &Place) -> SdpStream<Sim> {
    // The server binds its port before the client's message can be there.
    place.sdp.connect(rank(1), PORT).await.expect("the server listens")
}

pub(crate) async fn read_all(stream: &SdpStream<Sim>) -> Vec<u8> {
    let (mut all, mut part) = (Vec::new(), [0; 64]);
    while let n @ 1.. = stream.read(&mut part).await.expect("it is read") {
        all.extend_from_slice(&part[..n]);
    }
    all
}

#[test]
fn each_half_of_a_stream_ends_by_itself() {
    let long: Vec<u8> = (0..5_000_u32).map(|n| n as u8).collect();
    let (asked, there) = (long.clone(), long);
    both(
        OPTIONS(),
        |place| async move {
            let stream = connect(&place).await;
            assert_eq!(stream.peer_addr().to_string(), "2:80");
            stream.write_all(&asked).await.expect("written");
            stream.shutdown().expect("it stands");
            assert_eq!(stream.write(b"more").await, Err(SdpError::BrokenPipe));
            assert_eq!(read_all(&stream).await, b"thank you");
            assert_eq!(stream.acknowledged(), (5_000, 5_000));
            stream.close().await.expect("closed");
        },
        |place| async move {
            let stream = accept(&place).await;
            let mut peeked = [0; 3];
            stream.readable().await;
            assert_eq!(stream.peek(&mut peeked), Ok(Some(3)));
            assert_eq!(peeked, there[..3]);
            assert_eq!(read_all(&stream).await, there);
            assert_eq!(stream.try_read(&mut peeked), Ok(Some(0)), "the end stays");
            stream.write_vectored(&[b"thank", b" ", b"you"]).await.expect("written");
            stream.close().await.expect("closed");
        },
    );
}

#[test]
fn nobody_listening_and_a_full_backlog_refuse() {
    let refused = |why| Err(SdpError::Refused(why));
    both(
        OPTIONS(),
        move |place| async move {
            let connect = |port| place.sdp.connect(rank(1), port);
            assert_eq!(connect(PORT + 1).await.map(drop), refused(Refusal::NoListener));
            let waiting = [connect(PORT).await.expect("room"), connect(PORT).await.expect("room")];
            assert_eq!(connect(PORT).await.map(drop), refused(Refusal::BacklogFull));
            // They are told when the listener goes.
            for stream in waiting {
                assert_eq!(stream.read(&mut [0]).await, Err(SdpError::Reset));
            }
        },
        |place| async move {
            let listener = place.sdp.bind(PORT).expect("free");
            assert_eq!(place.sdp.bind(PORT).map(drop), Err(SdpError::PortInUse(PORT)));
            place.rt.sleep(ms(5)).await;
            assert_eq!(listener.waiting(), 2);
        },
    );
}

#[test]
fn who_drops_a_stream_with_bytes_unread_resets_it_and_who_has_read_them_does_not() {
    for read in [0, 10] {
        both(
            OPTIONS(),
            move |place| async move {
                let stream = connect(&place).await;
                stream.write_all(&[7; 10]).await.expect("written");
                let end = stream.read(&mut [0; 9]).await;
                assert_eq!(end, if read == 0 { Err(SdpError::Reset) } else { Ok(0) });
            },
            move |place| async move {
                let stream = accept(&place).await;
                stream.readable().await;
                stream.read_exact(&mut vec![0; read]).await.expect("read");
            },
        );
    }
}

#[test]
fn what_came_before_a_reset_is_read_before_it_is_told() {
    both(
        OPTIONS(),
        |place| async move {
            let stream = connect(&place).await;
            stream.write_all(b"last words").await.expect("written");
            stream.abort();
        },
        |place| async move {
            let stream = accept(&place).await;
            place.rt.sleep(ms(5)).await;
            let mut words = [0; 10];
            stream.read_exact(&mut words).await.expect("read");
            assert_eq!(&words, b"last words");
            assert_eq!(stream.read(&mut words).await, Err(SdpError::Reset));
            assert_eq!(stream.write(b"?").await, Err(SdpError::Reset));
        },
    );
}

#[test]
fn a_call_waits_no_longer_than_its_time_out() {
    let options = SdpOptions { read_timeout: Some(ms(3)), write_timeout: Some(ms(2)), ..OPTIONS() };
    both(
        options,
        |place| async move {
            let stream = connect(&place).await;
            let since = place.rt.now();
            assert_eq!(stream.read(&mut [0]).await, Err(SdpError::TimedOut));
            assert!(place.rt.now() - since >= ms(3) && place.rt.now() - since < ms(4));
            let since = place.rt.now();
            assert_eq!(stream.write_all(&[0; 2_000]).await, Err(SdpError::TimedOut), "nobody reads");
            assert!(place.rt.now() - since >= ms(2));
            stream.abort();
        },
        |place| async move {
            let stream = accept(&place).await;
            place.rt.sleep(ms(20)).await;
            drop(stream);
        },
    );
}

#[test]
fn close_waits_for_the_peer_s_end_and_not_for_its_user() {
    both(
        OPTIONS(),
        |place| async move {
            let stream = connect(&place).await;
            stream.write_all(&[1; 300]).await.expect("written");
            stream.close().await.expect("the peer's end has it");
            assert!(place.rt.now() < ms(10), "the peer's user reads much later");
        },
        |place| async move {
            let stream = accept(&place).await;
            place.rt.sleep(ms(20)).await;
            assert_eq!(read_all(&stream).await, [1; 300]);
        },
    );
}

#[test]
fn a_close_that_takes_longer_than_its_linger_time_aborts_the_stream_and_the_peer_is_told_so() {
    let options = SdpOptions { zcopy_threshold: 100, linger: Some(ms(5)), ..OPTIONS() };
    both(
        options,
        |place| async move {
            let stream = connect(&place).await;
            stream.write_all(&[1; 50]).await.expect("written");
            let advertised = place.sdp.buffer(500).expect("memory");
            let left = place.rt.deadline(place.rt.now() + ms(1), stream.send(advertised, 500)).await;
            assert!(left.is_err(), "nobody reads it, and it is carried out all the same");
            let since = place.rt.now();
            assert_eq!(stream.close().await, Err(SdpError::TimedOut));
            assert!(place.rt.now() - since >= ms(5) && place.rt.now() - since < ms(6));
            place.rt.sleep(ms(1)).await;
            assert_eq!(place.sdp.streams(), 0, "it does not go on behind its user's back");
        },
        |place| async move {
            let stream = accept(&place).await;
            place.rt.sleep(ms(40)).await;
            let mut bytes = [0; 100];
            assert_eq!(stream.read(&mut bytes).await, Ok(50), "what had come");
            assert_eq!(stream.read(&mut bytes).await, Err(SdpError::Reset), "it is not the end");
        },
    );
}

/// A cable that stays cut: who has something open is told within `give_up`, and not much sooner.
#[test]
fn a_peer_that_is_away_for_too_long_is_given_up_in_time() {
    let give_up = ms(80);
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let places = places(&cluster, SdpOptions { give_up, ..OPTIONS() });
    let told = Rc::new(RefCell::new(None));
    let [a, b] = places;
    let (kept, server) = (Rc::clone(&told), b.clone());
    drop(b.rt.spawn(async move {
        let stream = accept(&server).await;
        // Nothing of this end is open: it waits, and that is all.
        let _ = stream.read(&mut [0; 9]).await;
        server.rt.sleep(Nanos::from_secs(1_000)).await;
    }));
    drop(a.rt.clone().spawn(async move {
        let stream = connect(&a).await;
        a.rt.sleep_until(ms(30)).await;
        let since = a.rt.now();
        while stream.write(&[1; 200]).await.is_ok() {}
        let why = stream.write(&[1]).await;
        *kept.borrow_mut() = Some((a.rt.now() - since, why));
    }));
    cluster.run(ms(20));
    let cut = Fault::Cut { link: Link::Node(NodeId(0)), way: Way::Both, lasts: None };
    cluster.plan(cluster.fabric.now(), cut);
    cluster.run(Nanos::from_secs(5));
    let (took, why) = told.borrow().expect("it was told");
    assert_eq!(why, Err(SdpError::TimedOut));
    assert!(took <= give_up + ms(1) && took * 2 >= give_up, "{took}");
}

/// A stranger on the mesh: random bytes, and messages that contradict the state of a stream that stands.
#[test]
fn no_message_whatever_it_says_panics_and_one_out_of_state_aborts_its_stream() {
    let (cluster, mut dice) = (Cluster::new(2, 1, Wait::Poll), Dice::new(5));
    let member = &cluster.members[1];
    let sdp = Sdp::start(&member.rt, &member.mesh, OPTIONS()).expect("good options");
    let _listener = sdp.bind(PORT).expect("free");
    let (rt, mesh) = (cluster.members[0].rt.clone(), cluster.members[0].mesh.clone());
    let aborted = Rc::new(RefCell::new(0));
    let count = Rc::clone(&aborted);
    drop(rt.clone().spawn(async move {
        let mut inbox = mesh.open(CHANNEL).expect("nobody else has it");
        let mut send = |message: &Message<'_>, spoil: Option<u64>| {
            let mut bytes = encoded(message);
            if let Some(at) = spoil {
                let at = at as usize % bytes.len();
                bytes[at] ^= 1 << (dice.below(8) as u8);
            }
            mesh.send(rank(1), CHANNEL, &bytes).expect("room");
        };
        let greeting = Greeting { from: Handle::default(), buffers: 4, buffer_bytes: 200, adverts: 0 };
        for round in 0..400_u64 {
            send(&Message::Hello { id: 1, port: PORT, from_port: 1, greeting }, None);
            let mut to = None;
            while let Some(Incoming::Message(received)) = inbox.recv().await {
                match Message::decode(received.bytes()) {
                    Some(Message::HelloAck { greeting, .. }) => to = Some(greeting.from),
                    Some(Message::AbortConn { .. }) => *count.borrow_mut() += 1,
                    _ => {}
                }
                if let Some(to) = to.take() {
                    let header = Header { to, grant: 4, acked: 0, at: 0 };
                    // Each byte of a header is spoilt in its turn, in data and in an end.
                    send(
                        &Message::Data { header, bytes: b"byte" },
                        (round % 2 == 0).then_some(round / 2 % 36),
                    );
                    let header = Header { at: 4, ..header };
                    send(&Message::DisConn { header }, (round % 2 == 1).then_some(round / 2 % 32));
                    send(&Message::AbortConn { to, moved: false }, None);
                    break;
                }
            }
        }
    }));
    // What waits to be accepted is let go, so that there is room for the next.
    let (rt, sdp) = (member.rt.clone(), sdp);
    drop(rt.clone().spawn(async move {
        let listener = _listener;
        while let Ok(stream) = listener.accept().await {
            drop(rt.spawn(async move { while let Ok(1..) = stream.read(&mut [0; 64]).await {} }));
        }
    }));
    assert_eq!(cluster.run(Nanos::from_secs(20)), RunEnd::Idle);
    assert!(*aborted.borrow() > 50, "streams were aborted: {}", aborted.borrow());
    let stats = sdp.stats();
    assert!(stats.malformed > 100 && stats.accepted > 300, "{stats:?}");
    assert_eq!(sdp.streams(), 0);
}

#[test]
fn a_vectored_read_fills_its_places_in_order_with_what_is_there_and_waits_for_no_more() {
    both(
        OPTIONS(),
        |place| async move {
            let stream = connect(&place).await;
            assert_eq!(stream.write_vectored(&[b"one ", b"", b"message"]).await, Ok(11));
            place.rt.sleep(ms(5)).await;
            stream.write_all(b"and more").await.expect("written");
            stream.close().await.expect("closed");
        },
        |place| async move {
            let stream = accept(&place).await;
            let (mut head, mut none, mut middle, mut tail) = ([0; 4], [0; 0], [0; 5], [0; 9]);
            let read = stream.read_vectored(&mut [&mut head, &mut none, &mut middle, &mut tail]).await;
            assert_eq!((read, &head, &middle, &tail[..2]), (Ok(11), b"one ", b"messa", &b"ge"[..]));
            assert_eq!(stream.read_vectored(&mut [&mut none]).await, Ok(0));
            assert_eq!(stream.read_vectored(&mut [&mut head, &mut tail]).await, Ok(8));
            assert_eq!((&head, &tail[..4]), (b"and ", &b"more"[..]));
            assert_eq!(stream.read_vectored(&mut [&mut head, &mut tail]).await, Ok(0), "the end");
        },
    );
}

/// A message of a known kind with a byte too few: its stream has a hole there, and neither end would say anything any more.
#[test]
fn a_message_that_is_none_aborts_the_stream_that_it_names() {
    let cluster = Cluster::new(2, 1, Wait::Poll);
    let (rt, sdp) = sockets(&cluster.members[1], OPTIONS());
    let listener = sdp.bind(PORT).expect("free");
    let read = Rc::new(RefCell::new(None));
    let tell = Rc::clone(&read);
    drop(rt.spawn(async move {
        let stream = listener.accept().await.expect("somebody comes");
        *tell.borrow_mut() = Some(stream.read(&mut [0; 64]).await);
    }));
    let mesh = cluster.members[0].mesh.clone();
    let aborted = Rc::new(RefCell::new(false));
    let sees = Rc::clone(&aborted);
    drop(cluster.members[0].rt.spawn(async move {
        let mut inbox = mesh.open(CHANNEL).expect("nobody else has it");
        let greeting = Greeting { from: Handle::default(), buffers: 4, buffer_bytes: 200, adverts: 0 };
        let hello = encoded(&Message::Hello { id: 1, port: PORT, from_port: 1, greeting });
        mesh.send(rank(1), CHANNEL, &hello).expect("room");
        while let Some(Incoming::Message(received)) = inbox.recv().await {
            match Message::decode(received.bytes()) {
                Some(Message::HelloAck { greeting, .. }) => {
                    let header = Header { to: greeting.from, grant: 4, acked: 0, at: 0 };
                    let bytes = encoded(&Message::DisConn { header });
                    mesh.send(rank(1), CHANNEL, &bytes[..bytes.len() - 1]).expect("room");
                }
                Some(Message::AbortConn { .. }) => *sees.borrow_mut() = true,
                _ => {}
            }
        }
    }));
    cluster.run(ms(50));
    assert_eq!(*read.borrow(), Some(Err(SdpError::Aborted)));
    assert!(*aborted.borrow(), "its peer is told");
    assert_eq!((sdp.stats().malformed, sdp.streams()), (1, 0));
}

/// Options under which owned buffers of more than 100 bytes go without a copy.
pub(crate) const ZCOPY: fn() -> SdpOptions =
    || SdpOptions { zcopy_threshold: 100, zcopy_depth: 2, ..OPTIONS() };

pub(crate) fn filled(sdp: &Sdp<Sim>, len: u32, with: u8) -> SdpBuffer<Sim> {
    let buffer = sdp.buffer(len).expect("memory");
    buffer.write(0, &vec![with; len as usize]).expect("it fits");
    buffer
}

/// Memory that a user brings.
struct Brought(Box<[UnsafeCell<u8>]>);

// SAFETY: the boxed cells do not move while this value lives, are valid for reads and writes, and nothing else refers to them.
#[allow(unsafe_code, reason = "a user's promise about the memory that it brings")]
unsafe impl PinnedMemory for Brought {
    fn ptr(&self) -> NonNull<u8> {
        NonNull::from(&*self.0).cast()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

#[test]
fn memory_that_a_user_brings_is_sent_without_a_copy() {
    both(
        ZCOPY(),
        |place| async move {
            let stream = connect(&place).await;
            let memory = Brought((0..300).map(|n| UnsafeCell::new(n as u8)).collect());
            let buffer = place.sdp.buffer_of(Box::new(memory)).expect("the device takes it");
            let (sent, buffer) = stream.send(buffer, 300).await;
            assert_eq!((sent, buffer.map(|buffer| buffer.len())), (Ok(300), Some(300)));
            assert_eq!(place.sdp.stats().zcopy_sent, 300);
            stream.close().await.expect("closed");
        },
        |place| async move {
            let stream = accept(&place).await;
            assert_eq!(read_all(&stream).await, (0..300).map(|n| n as u8).collect::<Vec<_>>());
            stream.close().await.expect("closed");
        },
    );
}

#[test]
fn owned_buffers_arrive_in_the_order_of_the_calls_whichever_way_each_goes() {
    // Above and below the threshold in turn, and borrowed bytes behind them.
    const LENGTHS: [u32; 6] = [5_000, 50, 300, 100, 101, 4_000];
    both(
        ZCOPY(),
        |place| async move {
            let stream = Rc::new(connect(&place).await);
            let send = |(n, len): (usize, u32)| {
                let (stream, buffer) = (Rc::clone(&stream), filled(&place.sdp, len, n as u8));
                place.rt.spawn(async move { stream.send(buffer, len).await })
            };
            let calls: Vec<_> = LENGTHS.into_iter().enumerate().map(send).collect();
            place.rt.yield_now().await;
            stream.write_all(b"behind").await.expect("written");
            stream.shutdown().expect("it stands");
            for (call, len) in calls.into_iter().zip(LENGTHS) {
                let (sent, buffer) = call.await.expect("it was carried out");
                assert_eq!((sent, buffer.map(|buffer| buffer.len())), (Ok(len), Some(len)));
            }
            assert!(place.sdp.stats().zcopy_sent > 9_000, "{:?}", place.sdp.stats());
        },
        |place| async move {
            let stream = accept(&place).await;
            let (mut all, mut buffer) = (Vec::new(), place.sdp.buffer(700).expect("memory"));
            loop {
                let (received, back) = stream.recv(buffer).await;
                buffer = back.expect("the stream is sound");
                let mut bytes = vec![0; received.expect("read") as usize];
                buffer.read(0, &mut bytes).expect("it has them");
                if bytes.is_empty() {
                    break;
                }
                all.extend(bytes);
            }
            let sent = LENGTHS.into_iter().enumerate().flat_map(|(n, len)| vec![n as u8; len as usize]);
            assert!(all == sent.chain(*b"behind").collect::<Vec<u8>>(), "{} bytes", all.len());
        },
    );
}

#[test]
fn what_comes_for_a_call_that_was_dropped_is_read_by_the_next() {
    both(
        ZCOPY(),
        |place| async move {
            let stream = connect(&place).await;
            place.rt.sleep(ms(5)).await;
            let (sent, _) = stream.send(filled(&place.sdp, 300, 9), 300).await;
            assert_eq!(sent, Ok(300));
        },
        |place| async move {
            let stream = accept(&place).await;
            let buffer = place.sdp.buffer(500).expect("memory");
            // The peer is asked to write there, and nobody waits for it any more.
            let waits = place.rt.deadline(place.rt.now() + ms(2), stream.recv(buffer)).await;
            assert!(waits.is_err());
            assert_eq!(read_all(&stream).await, [9; 300]);
        },
    );
}

#[test]
fn a_stream_that_is_aborted_gives_no_buffer_back_that_the_peer_may_still_use() {
    both(
        ZCOPY(),
        |place| async move {
            let stream = Rc::new(connect(&place).await);
            let (sender, buffer) = (Rc::clone(&stream), filled(&place.sdp, 400, 1));
            let call = place.rt.spawn(async move { sender.send(buffer, 400).await });
            place.rt.sleep(ms(1)).await;
            let waiting = (stream.read(&mut [0]).await, call.await.expect("it was carried out"));
            let (read, (sent, _)) = waiting;
            assert_eq!((read, sent), (Err(SdpError::Reset), Err(SdpError::Reset)));
        },
        |place| async move {
            let stream = accept(&place).await;
            place.rt.sleep(ms(5)).await;
            stream.abort();
        },
    );
}

#[test]
fn private_buffers_take_what_the_writer_asks_for_as_far_as_the_mesh_carries_it() {
    both(
        OPTIONS(),
        |place| async move {
            let stream = connect(&place).await;
            let messages = || place.sdp.stats().data_sent;
            assert_eq!(stream.resize(50).await, Ok(50));
            stream.write_all(&[1; 500]).await.expect("written");
            assert_eq!(messages(), 10);
            assert_eq!(stream.resize(1 << 20).await, Ok(224), "256 bytes with the header");
            stream.write_all(&[2; 448]).await.expect("written");
            assert_eq!(messages(), 12);
            let none = SdpError::Options { field: "buffer_bytes", value: 0, must: "at least 1" };
            assert_eq!(stream.resize(0).await, Err(none));
            stream.shutdown().expect("it stands");
            assert_eq!(stream.resize(50).await, Err(SdpError::BrokenPipe));
        },
        |place| async move {
            let stream = accept(&place).await;
            assert_eq!(read_all(&stream).await, [[1; 500].as_slice(), &[2; 448]].concat());
        },
    );
}

#[test]
fn a_stream_is_refused_that_would_give_up_a_peer_before_that_one_has_to_acknowledge_anything() {
    both(
        OPTIONS(),
        |place| async move {
            let least = config(2, 0).ack_delay * 2;
            let connects =
                |give_up| place.sdp.connect_with(rank(1), PORT, SdpOptions { give_up, ..OPTIONS() });
            for give_up in [Nanos::ZERO, Nanos(least.0 - 1)] {
                let refused = connects(give_up).await.err();
                let is_it = |why| matches!(why, SdpError::Options { field: "give_up", value, .. } if value == give_up.0);
                assert!(refused.is_some_and(is_it));
            }
            connects(least).await.expect("connected").abort();
        },
        |place| async move { drop(accept(&place).await) },
    );
}

#[test]
fn a_reader_says_whether_bytes_come_without_a_copy() {
    both(
        ZCOPY(),
        |place| async move {
            let stream = connect(&place).await;
            // The reader's wish is there before it asks for more.
            for (say, without_copy) in [(b'b', 0), (b'c', 300), (b'p', 600)] {
                let mut ready = [0];
                stream.read_exact(&mut ready).await.expect("read");
                assert_eq!(ready, [say]);
                let (sent, _) = stream.send(filled(&place.sdp, 300, say), 300).await;
                assert_eq!((sent, place.sdp.stats().zcopy_sent), (Ok(300), without_copy));
            }
        },
        |place| async move {
            let stream = accept(&place).await;
            for (mode, say) in [(Mode::Buffered, b'b'), (Mode::Combined, b'c'), (Mode::Pipelined, b'p')] {
                stream.set_mode(mode);
                stream.write_all(&[say]).await.expect("written");
                let mut bytes = [0; 300];
                stream.read_exact(&mut bytes).await.expect("read");
                assert_eq!(bytes, [say; 300]);
            }
            assert_eq!(stream.read(&mut [0]).await, Ok(0));
        },
    );
}
