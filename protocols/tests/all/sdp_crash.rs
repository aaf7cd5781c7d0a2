//! What users of sockets are told of a node that crashes and does not come back.

use crate::common::{Cluster, accepts_and_rests, ms, rank, sockets, us};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use weft_protocols::sdp::{Sdp, SdpError, SdpOptions, SdpStream};
use weft_protocols::transport::Channel;
use weft_sim::fault::Fault;
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait, Work};

const PORT: u16 = 9;
const CHANNEL: Channel = Channel(40);
const GIVE_UP: Nanos = Nanos::from_millis(80);
const CRASH: Nanos = Nanos::from_millis(30);

/// A call of a user who waits for the peer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    /// It has advertised bytes, and the peer does not read them.
    Sends,
    /// It has used up its credits, and the peer frees no buffer.
    Writes,
    /// It has advertised a buffer, and the peer does not write into it.
    Receives,
    /// It has sent the end of its stream behind advertised bytes.
    Closes,
    /// It waits for bytes through private buffers: nothing is open.
    Reads,
}

async fn perform(call: Call, sdp: &Sdp<Sim>, stream: SdpStream<Sim>) -> Result<(), SdpError> {
    let buffer = || sdp.buffer(400).expect("there is memory");
    match call {
        Call::Sends => stream.send(buffer(), 400).await.0.map(drop),
        Call::Writes => loop {
            stream.write(&[1; 200]).await?;
        },
        Call::Receives => stream.recv(buffer()).await.0.map(drop),
        Call::Closes => {
            // A call that is dropped is carried out all the same.
            let sends =
                pin!(stream.send(buffer(), 400)).poll(&mut Context::from_waker(Waker::noop())).is_pending();
            assert!(sends, "the peer has to read it");
            stream.close().await
        }
        Call::Reads => stream.read(&mut [0]).await.map(drop),
    }
}

/// What becomes of a peer.
#[derive(Clone, Copy, Debug)]
enum Dies {
    /// Its machine does nothing any more.
    Crashes,
    /// Its program does nothing any more, and its adapter answers.
    Hangs,
}

/// How a call ends whose peer crashes while nothing is on its way, and how long after that.
fn ends(call: Call, options: SdpOptions) -> Option<(Nanos, Result<(), SdpError>)> {
    ends_as(call, options, Dies::Crashes)
}

/// The same of a peer that may hang.
fn ends_as(call: Call, options: SdpOptions, dies: Dies) -> Option<(Nanos, Result<(), SdpError>)> {
    let cluster = Cluster::new(2, 11, Wait::Poll);
    let [(near_rt, near), far] = [0, 1].map(|node| sockets(&cluster.members[node], options));
    accepts_and_rests(far, PORT);
    let end = Rc::new(Cell::new(None));
    let tell = Rc::clone(&end);
    let begun = cluster.fabric.now();
    drop(near_rt.clone().spawn(async move {
        let stream = near.connect(rank(1), PORT).await.expect("the server listens");
        let end = perform(call, &near, stream).await;
        tell.set(Some((near_rt.now(), end)));
    }));
    match dies {
        Dies::Crashes => cluster.plan(begun + CRASH, Fault::Crash { node: NodeId(1) }),
        Dies::Hangs => {
            let rt = cluster.members[1].rt.clone();
            let hangs = Work::Compute(Nanos::from_secs(60));
            cluster.members[1].at(begun + CRASH, move || rt.spend(hangs));
        }
    }
    cluster.run(Nanos::from_secs(5));
    end.get().map(|(at, end)| (at - (begun + CRASH), end))
}

const OPTIONS: fn() -> SdpOptions = || SdpOptions {
    buffers: 4,
    buffer_bytes: 200,
    zcopy_threshold: 300,
    linger: None,
    give_up: GIVE_UP,
    ..SdpOptions::default()
};

/// It writes into what the peer wants: bytes go by an operation, and no message is under way.
#[test]
fn a_write_into_a_peer_s_buffer_ends_within_give_up_at_whatever_moment_of_it_the_peer_died() {
    let sends = ms(5);
    for after in (0..80).map(|n| us(n) / 2) {
        let cluster = Cluster::new(2, 11, Wait::Poll);
        let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], OPTIONS()));
        drop(far_rt.clone().spawn(async move {
            let stream = far.bind(PORT).expect("free").accept().await.expect("one comes");
            loop {
                drop(stream.recv(far.buffer(20_000).expect("there is memory")).await);
            }
        }));
        let end = Rc::new(Cell::new(None));
        let tell = Rc::clone(&end);
        drop(near_rt.clone().spawn(async move {
            let stream = near.connect(rank(1), PORT).await.expect("the server listens");
            near_rt.sleep_until(sends).await;
            let error = loop {
                let sent = stream.send(near.buffer(20_000).expect("there is memory"), 20_000).await;
                if let Err(error) = sent.0 {
                    break error;
                }
            };
            tell.set(Some((near_rt.now(), error)));
        }));
        cluster.plan(sends + after, Fault::Crash { node: NodeId(1) });
        cluster.run(ms(400));
        let (at, error) = end.take().unwrap_or_else(|| panic!("it waits for ever: {after}"));
        assert_eq!(error, SdpError::TimedOut, "{after}");
        assert!(at - (sends + after) <= GIVE_UP + ms(1), "{after}: {at}");
    }
}

/// Nothing is kept for a peer that was expelled, so nothing of it goes unacknowledged.
#[test]
fn a_writer_whose_peer_is_expelled_is_told_within_give_up() {
    let cluster = Cluster::new(2, 11, Wait::Poll);
    let [(near_rt, near), far] = [0, 1].map(|node| sockets(&cluster.members[node], OPTIONS()));
    accepts_and_rests(far, PORT);
    let end = Rc::new(Cell::new(None));
    let tell = Rc::clone(&end);
    drop(near_rt.clone().spawn(async move {
        let stream = near.connect(rank(1), PORT).await.expect("the server listens");
        let end = perform(Call::Writes, &near, stream).await;
        tell.set(Some((near_rt.now(), end)));
    }));
    let (mesh, incarnation) = (cluster.members[0].mesh.clone(), cluster.members[1].mesh.incarnation());
    cluster.members[0].at(CRASH, move || mesh.expel(rank(1), incarnation));
    cluster.run(ms(400));
    let (at, end) = end.take().expect("it waits for ever");
    assert_eq!(end, Err(SdpError::Reset));
    assert!(at - CRASH <= GIVE_UP, "{at}");
}

/// A stream that was given up keeps its place as long as the peer may use its memory.
#[test]
fn keepalive_toward_a_dead_peer_keeps_few_messages() {
    let cluster = Cluster::new(2, 11, Wait::Poll);
    let options = SdpOptions { keepalive: Some(ms(1)), ..OPTIONS() };
    let [(_, near), far] = [0, 1].map(|node| sockets(&cluster.members[node], options));
    accepts_and_rests(far, PORT);
    drop(cluster.members[0].rt.spawn(async move {
        let stream = near.connect(rank(1), PORT).await.expect("the server listens");
        let _ = perform(Call::Receives, &near, stream).await;
        std::future::pending::<()>().await;
    }));
    cluster.plan(CRASH, Fault::Crash { node: NodeId(1) });
    cluster.run(ms(3_000));
    let unacked = cluster.members[0].mesh.audit().unacked;
    assert!(unacked <= 4, "{unacked}");
}

/// The peer's transport had acknowledged every message when it crashed: no message is left that could go unacknowledged.
#[test]
fn a_call_that_has_something_open_with_a_dead_peer_ends_within_give_up_though_every_message_had_arrived() {
    for call in [Call::Sends, Call::Writes, Call::Receives, Call::Closes] {
        let (took, end) = ends(call, OPTIONS()).unwrap_or_else(|| panic!("{call:?} waits for ever"));
        assert_eq!(end, Err(SdpError::TimedOut), "{call:?}");
        assert!(took <= GIVE_UP + ms(1) && took * 2 >= GIVE_UP, "{call:?}: {took}");
    }
}

/// Its adapter answers probes, and carries out what others ask of it.
#[test]
fn a_peer_that_hangs_is_given_up_as_one_that_died_though_its_adapter_answers() {
    for probe in [None, Some(ms(4))] {
        for call in [Call::Sends, Call::Writes, Call::Receives, Call::Closes] {
            let (took, end) = ends_as(call, SdpOptions { probe, ..OPTIONS() }, Dies::Hangs)
                .unwrap_or_else(|| panic!("{call:?}, {probe:?}: waits for ever"));
            assert_eq!(end, Err(SdpError::TimedOut), "{call:?}, {probe:?}");
            assert!(took <= GIVE_UP + ms(1) && took * 2 >= GIVE_UP, "{call:?}, {probe:?}: {took}");
        }
        let keepalive = ms(20);
        let reads = SdpOptions { probe, keepalive: Some(keepalive), ..OPTIONS() };
        let (took, end) = ends_as(Call::Reads, reads, Dies::Hangs).expect("it is told");
        assert_eq!(end, Err(SdpError::TimedOut), "{probe:?}");
        assert!(took <= keepalive * 2 + GIVE_UP + ms(1) && took * 2 >= GIVE_UP, "{probe:?}: {took}");
    }
}

#[test]
fn a_reader_of_a_dead_peer_is_told_by_keepalive_and_by_nothing_else() {
    assert_eq!(ends(Call::Reads, OPTIONS()), None);
    let keepalive = ms(20);
    let (took, end) =
        ends(Call::Reads, SdpOptions { keepalive: Some(keepalive), ..OPTIONS() }).expect("it is told");
    assert_eq!(end, Err(SdpError::TimedOut));
    assert!(took <= keepalive * 2 + GIVE_UP + ms(1) && took * 2 >= GIVE_UP, "{took}");
}

/// How the reads of streams end that begin one after the other with options of their own, on a node that is told nothing else of a peer that
/// crashes, and how long after that.
fn reads_end(
    of_node: SdpOptions,
    of_streams: [SdpOptions; 2],
) -> [Option<(Nanos, Result<usize, SdpError>)>; 2] {
    let cluster = Cluster::new(2, 11, Wait::Poll);
    let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], of_node));
    drop(far_rt.clone().spawn(async move {
        let listener = far.bind(PORT).expect("free");
        let streams = [listener.accept().await, listener.accept().await];
        far_rt.sleep(Nanos::from_secs(60)).await;
        drop(streams);
    }));
    let ends = [0, 1].map(|nth| {
        let end = Rc::new(Cell::new(None));
        let (tell, near, rt, options) = (Rc::clone(&end), near.clone(), near_rt.clone(), of_streams[nth]);
        drop(near_rt.spawn(async move {
            rt.sleep_until(ms(1 + 5 * nth as u64)).await;
            let stream = near.connect_with(rank(1), PORT, options).await.expect("the server listens");
            let read = stream.read(&mut [0]).await;
            tell.set(Some((rt.now() - CRASH, read)));
        }));
        end
    });
    cluster.plan(CRASH, Fault::Crash { node: NodeId(1) });
    cluster.run(Nanos::from_secs(5));
    ends.map(|end| end.get())
}

#[test]
fn a_stream_that_begins_behind_another_one_is_kept_alive_as_often_as_its_own_options_say() {
    let every = |keepalive| SdpOptions { keepalive: Some(keepalive), ..OPTIONS() };
    let streams = [every(Nanos::from_secs(1)), every(ms(5))];
    let [_, second] = reads_end(OPTIONS(), streams);
    let (took, end) = second.expect("it is told");
    assert_eq!(end, Err(SdpError::TimedOut));
    assert!(took <= ms(5) * 2 + GIVE_UP + ms(1), "{took}");
}

#[test]
fn a_stream_is_given_up_when_its_own_options_say_so_and_not_when_its_node_s_or_another_stream_s_do() {
    let after = |give_up| SdpOptions { keepalive: Some(ms(5)), give_up, ..OPTIONS() };
    for of_node in [Nanos::from_secs(30), ms(1), Nanos::MAX] {
        let of_node = SdpOptions { give_up: of_node, ..OPTIONS() };
        let ends = reads_end(of_node, [after(ms(400)), after(ms(20))]);
        for (end, give_up) in ends.into_iter().zip([ms(400), ms(20)]) {
            let (took, end) = end.expect("it is told");
            assert_eq!(end, Err(SdpError::TimedOut));
            assert!(took <= ms(5) * 2 + give_up + ms(1) && took * 2 >= give_up, "{give_up}: {took}");
        }
    }
}

/// How the writes of two streams with little different patience end whose peer reads until it crashes, and how long after that.
fn writes_end(crash: Nanos, give_up: [Nanos; 2]) -> [Option<(Nanos, SdpError)>; 2] {
    let cluster = Cluster::new(2, 11, Wait::Poll);
    let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], OPTIONS()));
    drop(far_rt.clone().spawn(async move {
        let listener = far.bind(PORT).expect("free");
        while let Ok(stream) = listener.accept().await {
            drop(far_rt.spawn(async move { while let Ok(1..) = stream.read(&mut [0; 200]).await {} }));
        }
    }));
    let ends = give_up.map(|give_up| {
        let end = Rc::new(Cell::new(None));
        let (tell, near, rt) = (Rc::clone(&end), near.clone(), near_rt.clone());
        drop(near_rt.spawn(async move {
            let options = SdpOptions { give_up, ..OPTIONS() };
            let stream = near.connect_with(rank(1), PORT, options).await.expect("the server listens");
            let why = loop {
                if let Err(why) = stream.write(&[1; 40]).await {
                    break why;
                }
                rt.sleep(us(200)).await;
            };
            tell.set(Some((rt.now() - crash, why)));
        }));
        end
    });
    cluster.plan(crash, Fault::Crash { node: NodeId(1) });
    cluster.run(Nanos::from_secs(1));
    ends.map(|end| end.get())
}

/// The crash comes at any moment between two looks at the peer.
#[test]
fn a_stream_is_given_up_in_time_though_another_one_with_its_peer_has_a_little_less_patience() {
    let patience = [ms(400), ms(390)];
    for after in (0..50).step_by(7).map(ms) {
        for (end, give_up) in writes_end(CRASH + after, patience).into_iter().zip(patience) {
            let (took, why) = end.expect("it is told");
            assert_eq!(why, SdpError::TimedOut);
            assert!(took <= give_up + ms(1) && took * 2 >= give_up, "{after}: {give_up}: {took}");
        }
    }
}

/// Messages to the dead peer that nobody acknowledges are all that the transport keeps: the first one of a new stream has no room there.
#[test]
fn a_connection_to_a_dead_peer_is_given_up_in_time_though_its_first_message_cannot_even_be_sent() {
    let cluster = Cluster::narrow(2, 12, Wait::Poll, 2);
    let options = SdpOptions { connect_timeout: None, buffers: 8, ..OPTIONS() };
    let [(rt, near), (_, far)] = [0, 1].map(|node| sockets(&cluster.members[node], options));
    let listener = far.bind(PORT).expect("free");
    let end = Rc::new(Cell::new(None));
    let tell = Rc::clone(&end);
    drop(cluster.members[0].rt.spawn(async move {
        let stream = near.connect(rank(1), PORT).await.expect("the server listens");
        rt.sleep_until(CRASH + ms(1)).await;
        while stream.write(&[1; 200]).await.is_ok() {}
        let since = rt.now();
        let connected = near.connect(rank(1), PORT).await;
        tell.set(Some((rt.now() - since, connected.map(drop))));
    }));
    cluster.plan(CRASH, Fault::Crash { node: NodeId(1) });
    cluster.run(Nanos::from_secs(5));
    drop(listener);
    let (took, connected) = end.take().expect("it waits for ever");
    assert_eq!(connected, Err(SdpError::TimedOut));
    assert!(took <= GIVE_UP + ms(1), "{took}");
}

/// Who asked for a move has died before it said that the connection goes on. Until it says so the other end starts nothing, and every
/// message had arrived.
#[test]
fn a_write_ends_within_give_up_at_whatever_moment_of_a_planned_move_the_peer_died() {
    let moves = ms(5);
    for after in 0..150 {
        let cluster = Cluster::railed(2, 2, 11, Wait::Poll);
        let [(rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], OPTIONS()));
        let end = Rc::new(Cell::new(None));
        let tell = Rc::clone(&end);
        drop(rt.clone().spawn(async move {
            let stream = near.bind(PORT).expect("free").accept().await.expect("one comes");
            rt.sleep_until(moves + ms(1)).await;
            let since = rt.now();
            let error = loop {
                if let Err(error) = stream.write(&[1; 200]).await {
                    break error;
                }
            };
            tell.set(Some((rt.now() - since, error)));
        }));
        drop(far_rt.clone().spawn(async move {
            let stream = far.connect(rank(0), PORT).await.expect("the server listens");
            far_rt.sleep_until(moves).await;
            let _moved = far.move_to(rank(0), 1).await;
            far_rt.sleep(Nanos::from_secs(60)).await;
            drop(stream);
        }));
        cluster.plan(moves + us(after), Fault::Crash { node: NodeId(1) });
        cluster.run(ms(400));
        let (took, error) =
            end.take().unwrap_or_else(|| panic!("it waits for ever: {after} us after the move began"));
        assert_eq!(error, SdpError::TimedOut, "{after} us");
        assert!(took <= GIVE_UP + ms(1), "{after} us: {took}");
    }
}

/// Who was asked for it has died. A move has no end of its own here, and none of the mesh's attempts comes to one.
#[test]
fn a_planned_move_without_a_time_out_ends_within_give_up_at_whatever_moment_the_peer_died() {
    let moves = ms(5);
    for after in 0..150 {
        let cluster = Cluster::railed(2, 2, 11, Wait::Poll);
        let options = SdpOptions { move_timeout: None, ..OPTIONS() };
        let [(rt, near), far] = [0, 1].map(|node| sockets(&cluster.members[node], options));
        accepts_and_rests(far, PORT);
        let end = Rc::new(Cell::new(None));
        let (tell, held_up) = (Rc::clone(&end), near.clone());
        drop(rt.clone().spawn(async move {
            let stream = near.connect(rank(1), PORT).await.expect("the server listens");
            rt.sleep_until(moves).await;
            let moved = near.move_to(rank(1), 1).await;
            tell.set(Some((rt.now() - moves, moved)));
            rt.sleep(Nanos::from_secs(60)).await;
            drop(stream);
        }));
        cluster.plan(moves + us(after), Fault::Crash { node: NodeId(1) });
        cluster.run(Nanos::from_secs(20));
        let (took, moved) = end.take().unwrap_or_else(|| panic!("it never ends: {after} us after it began"));
        assert!(moved == Ok(1) || took <= GIVE_UP + Nanos::from_secs(10), "{after} us: {took} {moved:?}");
        assert_eq!(held_up.held_up(), 0, "{after} us");
    }
}

/// What a peer had advertised before it began anew is memory of its last life.
#[test]
fn nothing_is_written_into_the_next_life_of_a_peer_by_what_its_last_one_had_advertised() {
    let sends = ms(5);
    for after in (0..60).map(|n| us(n) / 2) {
        let mut cluster = Cluster::new(2, 11, Wait::Poll);
        let options = SdpOptions { give_up: Nanos::MAX, ..OPTIONS() };
        let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], options));
        drop(far_rt.clone().spawn(async move {
            let stream = far.bind(PORT).expect("free").accept().await.expect("one comes");
            loop {
                drop(stream.recv(far.buffer(20_000).expect("there is memory")).await);
            }
        }));
        let sends_all = near.clone();
        drop(near_rt.clone().spawn(async move {
            let stream = sends_all.connect(rank(1), PORT).await.expect("the server listens");
            near_rt.sleep_until(sends).await;
            while stream.send(sends_all.buffer(20_000).expect("there is memory"), 20_000).await.0.is_ok() {}
        }));
        cluster.run(sends + after);
        cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(1) });
        cluster.run(us(5));
        cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(1) });
        cluster.run(us(5));
        cluster.members[1] = cluster.start(1);
        let (_, again) = sockets(&cluster.members[1], options);
        cluster.members[1].mesh.send(rank(0), CHANNEL, &[1]).expect("there is room");
        cluster.run(ms(200));
        let [here, there] = [0, 1].map(|node| cluster.members[node].mesh.stats());
        assert_eq!((here.reconnects, there.reconnects), (1, 0), "{after}");
        drop((near, again));
    }
}

/// Messages to the dead peer that nobody acknowledges are all that the transport keeps. What waits for room behind them was meant for the
/// peer's last life: bytes of a stream. A connection that was asked for is asked for anew.
#[test]
fn nothing_that_waited_for_room_is_sent_to_the_next_life_of_a_peer_but_the_wish_for_a_connection() {
    let mut cluster = Cluster::narrow(2, 12, Wait::Poll, 2);
    let options = SdpOptions { connect_timeout: None, give_up: Nanos::MAX, buffers: 8, ..OPTIONS() };
    let [(near_rt, near), far] = [0, 1].map(|node| sockets(&cluster.members[node], options));
    accepts_and_rests(far, PORT);
    let ends = Rc::new(Cell::new([None; 2]));
    let (tell, asks, rt) = (Rc::clone(&ends), near.clone(), near_rt.clone());
    drop(near_rt.spawn(async move {
        let stream = asks.connect(rank(1), PORT).await.expect("the server listens");
        rt.sleep_until(CRASH + ms(1)).await;
        let end = loop {
            if let Err(why) = stream.write(&[1; 200]).await {
                break why;
            }
        };
        tell.set([Some(end), tell.get()[1]]);
    }));
    let connected = Rc::new(Cell::new(false));
    let (tell, asks, rt, stands) = (Rc::clone(&ends), near.clone(), near_rt.clone(), Rc::clone(&connected));
    drop(near_rt.spawn(async move {
        rt.sleep_until(CRASH + ms(3)).await;
        let end = asks.connect(rank(1), PORT).await;
        stands.set(end.is_ok());
        tell.set([tell.get()[0], end.err()]);
        rt.sleep(Nanos::from_secs(60)).await;
    }));
    cluster.plan(CRASH, Fault::Crash { node: NodeId(1) });
    cluster.run(CRASH + ms(10));
    assert_eq!(ends.get(), [None; 2], "both wait");
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(1) });
    cluster.run(us(5));
    cluster.members[1] = cluster.start(1);
    let (_, again) = sockets(&cluster.members[1], options);
    let listener = again.bind(PORT).expect("free");
    cluster.members[1].mesh.send(rank(0), CHANNEL, &[1]).expect("there is room");
    cluster.run(ms(200));
    assert_eq!(ends.get(), [Some(SdpError::Reset), None]);
    assert!(connected.get(), "it listens");
    let stats = again.stats();
    assert_eq!((stats.accepted, stats.refused, stats.out_of_turn, stats.late), (1, 0, 0, 0), "{stats:?}");
    drop(listener);
}

/// Its client is idle, and learns of the restart by what it asks: that was meant for the last life. A server of the next one listens.
#[test]
fn a_connection_to_a_peer_that_has_begun_anew_is_made_at_whatever_moment_of_its_making_that_is_known() {
    for after in (0..80).map(|n| us(n) / 2) {
        let mut cluster = Cluster::new(2, 13, Wait::Poll);
        let [(near_rt, near), far] = [0, 1].map(|node| sockets(&cluster.members[node], OPTIONS()));
        accepts_and_rests(far, PORT);
        let connected = Rc::new(RefCell::new(Vec::new()));
        let (tell, rt) = (Rc::clone(&connected), near_rt.clone());
        drop(near_rt.spawn(async move {
            for at in [ms(1), CRASH + ms(1) + after] {
                rt.sleep_until(at).await;
                let end = near.connect(rank(1), PORT).await;
                tell.borrow_mut().push(end.map(drop));
            }
        }));
        cluster.run(CRASH);
        cluster.plan(CRASH, Fault::Crash { node: NodeId(1) });
        cluster.run(ms(1));
        cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(1) });
        cluster.run(us(5));
        cluster.members[1] = cluster.start(1);
        let (_, again) = sockets(&cluster.members[1], OPTIONS());
        let listener = again.bind(PORT).expect("free");
        cluster.run(ms(200));
        assert_eq!(*connected.borrow(), [Ok(()), Ok(())], "{after}");
        drop(listener);
    }
}
