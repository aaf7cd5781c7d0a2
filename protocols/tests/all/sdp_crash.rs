//! What users of sockets are told of a node that crashes and does not come back.

use crate::common::{Cluster, accepts_and_rests, ms, rank, sockets};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use weft_protocols::sdp::{Sdp, SdpError, SdpOptions, SdpStream};
use weft_sim::fault::Fault;
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

const PORT: u16 = 9;
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

/// How a call ends whose peer crashes while nothing is on its way, and how long after that.
fn ends(call: Call, options: SdpOptions) -> Option<(Nanos, Result<(), SdpError>)> {
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
    cluster.plan(begun + CRASH, Fault::Crash { node: NodeId(1) });
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

/// The peer's transport had acknowledged every message when it crashed: no message is left that could go unacknowledged.
#[test]
fn a_call_that_has_something_open_with_a_dead_peer_ends_within_give_up_though_every_message_had_arrived() {
    for call in [Call::Sends, Call::Writes, Call::Receives, Call::Closes] {
        let (took, end) = ends(call, OPTIONS()).unwrap_or_else(|| panic!("{call:?} waits for ever"));
        assert_eq!(end, Err(SdpError::TimedOut), "{call:?}");
        assert!(took <= GIVE_UP + ms(1) && took * 2 >= GIVE_UP, "{call:?}: {took}");
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
