//! Byte streams on the fabric: its links, its faults, its crashes, its time.

use std::io::{self, ErrorKind};
use std::task::{Context as Cx, Poll, Waker};
use weft_sim::choice::Seeded;
use weft_sim::fault::{Fault, Link, PacketClass, Rule, Verdict, Way};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, SimOob, SimStream, SimStreamListener};
use weft_verbs::*;

const N0: NodeId = NodeId(0);
const N1: NodeId = NodeId(1);
const SERVICE: Service = Service(40);

fn world(seed: u64) -> Fabric {
    let mut config = Config::new(2, Profile::builtin("present-day").unwrap());
    config.ports = 2;
    config.log = true;
    Fabric::new(config, Box::new(Seeded::new(seed))).unwrap()
}

fn oob(fabric: &Fabric, node: NodeId) -> SimOob {
    fabric.devices(node)[0].open().unwrap().out_of_band().unwrap()
}

fn cx() -> Cx<'static> {
    Cx::from_waker(Waker::noop())
}

fn run(fabric: &Fabric, span: Nanos) {
    fabric.run_until(fabric.now() + span);
}

/// A stream between the two nodes, with its listener.
fn joined(fabric: &Fabric) -> (SimStream, SimStream, SimStreamListener) {
    let mut listener = oob(fabric, N1).listen(SERVICE).unwrap();
    let near = oob(fabric, N0).connect("n1", SERVICE).unwrap();
    run(fabric, Nanos::from_millis(1));
    let Poll::Ready(Ok(far)) = listener.poll_accept(&mut cx()) else { panic!("no stream came") };
    (near, far, listener)
}

fn write(stream: &mut SimStream, bytes: &[u8]) -> Poll<io::Result<usize>> {
    stream.poll_write(&mut cx(), bytes)
}

fn read(stream: &mut SimStream) -> Poll<std::result::Result<Vec<u8>, ErrorKind>> {
    let mut into = vec![0; 65_536];
    let seen = stream.poll_read(&mut cx(), &mut into);
    seen.map(|n| n.map(|n| into[..n].to_vec()).map_err(|e| e.kind()))
}

#[test]
fn a_cut_that_outlasts_the_retries_ends_a_stream_that_is_written_to() {
    let fabric = world(1);
    let (mut near, mut far, _listener) = joined(&fabric);
    let cut = Fault::Cut { link: Link::Port(N1, 1), way: Way::Both, lasts: None };
    fabric.plan(fabric.now(), cut).unwrap();
    run(&fabric, Nanos(1));
    assert!(write(&mut near, b"lost").is_ready());
    run(&fabric, Nanos::from_secs(10));
    assert_eq!(read(&mut near), Poll::Ready(Err(ErrorKind::TimedOut)));
    assert_eq!(read(&mut far), Poll::Pending, "one that only reads learns nothing");
    let hit = fabric.faults()[0];
    assert!(hit.packets_hit > 0 && !hit.struck, "a stream is no operation");
}

#[test]
fn streams_go_by_the_first_port_alone() {
    let fabric = world(2);
    let (mut near, mut far, _listener) = joined(&fabric);
    let down = Fault::PortDown { node: N1, port: 2, lasts: None };
    fabric.plan(fabric.now(), down).unwrap();
    assert!(write(&mut near, b"through").is_ready());
    run(&fabric, Nanos::from_millis(1));
    assert_eq!(read(&mut far), Poll::Ready(Ok(b"through".to_vec())));
    // And what is on its way when that one goes down is lost, and sent again.
    assert!(write(&mut near, b"again").is_ready());
    let down = Fault::PortDown { node: N1, port: 1, lasts: Some(Nanos::from_millis(1)) };
    fabric.plan(fabric.now(), down).unwrap();
    run(&fabric, Nanos::from_millis(5));
    assert_eq!(read(&mut far), Poll::Pending);
    run(&fabric, Nanos::from_millis(100));
    assert_eq!(read(&mut far), Poll::Ready(Ok(b"again".to_vec())));
}

#[test]
fn a_crash_takes_a_machines_streams_and_the_peer_is_reset_when_it_is_back() {
    let fabric = world(3);
    let (mut near, mut far, mut listener) = joined(&fabric);
    fabric.plan(fabric.now(), Fault::Crash { node: N1 }).unwrap();
    fabric.plan(fabric.now() + Nanos::from_millis(50), Fault::Restart { node: N1 }).unwrap();
    run(&fabric, Nanos(1));
    assert_eq!(
        read(&mut far),
        Poll::Ready(Err(ErrorKind::NotConnected)),
        "a handle of its former incarnation"
    );
    assert!(matches!(listener.poll_accept(&mut cx()), Poll::Ready(Err(_))));
    assert_eq!(fabric.stats().alive[1].streams, 0);
    assert!(write(&mut near, b"anybody?").is_ready());
    run(&fabric, Nanos::from_millis(40));
    assert_eq!(read(&mut near), Poll::Pending);
    run(&fabric, Nanos::from_secs(1));
    assert_eq!(read(&mut near), Poll::Ready(Err(ErrorKind::ConnectionReset)));
    let again = oob(&fabric, N1).listen(SERVICE);
    assert!(again.is_ok(), "the service is free in its next incarnation");
}

#[test]
fn a_stream_takes_the_links_time() {
    let fabric = world(4);
    let (mut near, mut far, _listener) = joined(&fabric);
    let (bytes, begun) = (vec![5; 4 << 20], fabric.now());
    let (mut sent, mut seen) = (0, 0);
    while seen < bytes.len() {
        while let Poll::Ready(Ok(n @ 1..)) = write(&mut near, &bytes[sent..]) {
            sent += n;
        }
        while let Poll::Ready(Ok(got)) = read(&mut far) {
            seen += got.len();
        }
        run(&fabric, Nanos::from_micros(1));
    }
    let bits = fabric.devices(N0)[0].open().unwrap().port_attr(1).unwrap().bits_per_second;
    let least = Nanos(bytes.len() as u64 * 8 * 1_000_000_000 / bits);
    let took = fabric.now() - begun;
    assert!(took > least && took < least * 40, "{took} for what a cable carries in {least}");
}

#[test]
fn nothing_is_left_of_streams_and_the_world_comes_to_rest() {
    let fabric = world(5);
    let (mut near, far, listener) = joined(&fabric);
    assert!(write(&mut near, b"unread").is_ready());
    drop((near, far, listener));
    fabric.run_until(Nanos::MAX);
    assert_eq!(fabric.stats().alive, vec![Default::default(); 2]);
}

#[test]
fn the_same_seed_makes_the_same_log() {
    let log = |seed| {
        let fabric = world(seed);
        let noise = [Rule::new(Verdict::Drop).ppm(200_000), Rule::new(Verdict::Duplicate).ppm(200_000)];
        fabric.rules(|rules| noise.map(|rule| rules.push(rule.class(PacketClass::Stream))));
        let mut listener = oob(&fabric, N1).listen(SERVICE).unwrap();
        let mut near = oob(&fabric, N0).connect("n1", SERVICE).unwrap();
        let mut far = None;
        for _ in 0..400 {
            if far.is_none()
                && let Poll::Ready(Ok(stream)) = listener.poll_accept(&mut cx())
            {
                far = Some(stream);
            }
            let _ = write(&mut near, &[1; 3_000]);
            let _ = far.as_mut().map(read);
            run(&fabric, Nanos::from_millis(1));
        }
        fabric.take_log()
    };
    let first = log(6);
    assert!(first.len() > 10_000);
    assert!(first == log(6) && first != log(7));
}
