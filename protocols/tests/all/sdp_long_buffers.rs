//! Planned moves of a connection while a buffer goes over it that takes longer than a move may.

use crate::common::{Cluster, begins, ms, rank, sockets, us};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::{Sdp, SdpBuffer, SdpOptions, SdpStream};
use weft_sim::Sim;
use weft_verbs::{Nanos, Wait};

const PORT: u16 = 9;
/// When the writer begins: both ends have registered their buffers long before.
const BEGINS: Nanos = Nanos::from_millis(5);

/// What the buffer takes: more than 4 ms at the link's 200 Gb/s.
const LEN: u32 = 96 << 20;
/// It has its own position every so many bytes.
const MARKS: u32 = 1 << 20;

const OPTIONS: fn() -> SdpOptions = || SdpOptions {
    buffer_bytes: 65_536,
    zcopy_threshold: 1_000,
    move_timeout: Some(ms(3)),
    ..SdpOptions::default()
};

/// How the buffer comes to its reader.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goes {
    /// The writer's adapter writes it.
    Written,
    /// The reader's adapter reads it.
    Read,
    /// The same, and the writer has said that it writes no more.
    ReadBehindTheEnd,
}

fn marks(len: u32) -> impl Iterator<Item = u32> {
    (0..len).step_by(MARKS as usize)
}

async fn writes(rt: Rt<Sim>, sdp: Sdp<Sim>, goes: Goes) {
    let buffer = sdp.buffer(LEN).expect("memory");
    let stream = sdp.connect(rank(1), PORT).await.expect("the server listens");
    marks(LEN).for_each(|at| buffer.write(at, &at.to_le_bytes()).expect("it fits"));
    rt.sleep_until(BEGINS).await;
    {
        let mut sends = pin!(stream.send(buffer, LEN));
        begins(sends.as_mut()).await;
        if goes == Goes::ReadBehindTheEnd {
            stream.shutdown().expect("it stands");
        }
        assert_eq!(sends.await.0, Ok(LEN));
    }
    stream.close().await.expect("closed");
}

/// Reads all, and looks at every position. With how many calls.
async fn reads(stream: &SdpStream<Sim>, mut buffer: SdpBuffer<Sim>) -> u32 {
    let (mut got, mut calls) = (0, 0);
    while got < LEN {
        let (received, back) = stream.recv(buffer).await;
        let len = received.expect("the stream stands");
        buffer = back.expect("it is given back");
        for at in marks(LEN).filter(|at| (got..got + len).contains(at)) {
            let mut mark = [0; 4];
            buffer.read(at - got, &mut mark).expect("it is there");
            assert_eq!(u32::from_le_bytes(mark), at);
        }
        (got, calls) = (got + len, calls + 1);
    }
    calls
}

/// Has nodes move the connection at a time each, to a rail each: what became of that, how long the buffer took, and by how many calls it was
/// read.
fn moved(goes: Goes, moves: &[(usize, Nanos, u8)]) -> (Vec<bool>, Nanos, u32) {
    let cluster = Cluster::special(2, 2, 4, Wait::Poll, |config| config.max_message = 70_000);
    let [(near_rt, near), (far_rt, far)] = [0, 1].map(|node| sockets(&cluster.members[node], OPTIONS()));
    let read = Rc::new(Cell::new(None));
    let (keep, serves, rt) = (Rc::clone(&read), far.clone(), far_rt.clone());
    drop(far_rt.spawn(async move {
        let listener = serves.bind(PORT).expect("free");
        let buffer = serves.buffer(LEN).expect("memory");
        let stream = listener.accept().await.expect("one comes");
        rt.sleep_until(if goes == Goes::Written { ms(4) } else { BEGINS + us(10) }).await;
        let calls = reads(&stream, buffer).await;
        keep.set(Some((rt.now() - BEGINS, calls)));
        assert_eq!(stream.read(&mut [0]).await, Ok(0));
    }));
    drop(near_rt.clone().spawn(writes(near_rt, near.clone(), goes)));
    let ends = Rc::new(RefCell::new(Vec::new()));
    for &(mover, at, rail) in moves {
        let (rt, ends) = (cluster.members[mover].rt.clone(), Rc::clone(&ends));
        let moves = [&near, &far][mover].clone();
        drop(rt.clone().spawn(async move {
            rt.sleep_until(BEGINS + at).await;
            let end = moves.move_to(rank(1 - mover), rail).await;
            ends.borrow_mut().push(end == Ok(rail));
        }));
    }
    cluster.run(ms(200));
    let rail = moves.last().map_or(0, |(_, _, rail)| *rail);
    assert!(cluster.members.iter().enumerate().all(|(n, m)| m.mesh.rail(rank(1 - n)) == Some(rail)));
    assert_eq!([&near, &far].map(|sdp| (sdp.stats().repeated, sdp.streams())), [(0, 0); 2]);
    assert!(!moves.is_empty() || far.stats().crossed == 0, "it goes as it is to go");
    let (took, calls) = read.get().expect("all was read");
    (ends.take(), took, calls)
}

#[test]
fn a_planned_move_waits_for_no_more_of_a_long_buffer_than_the_part_under_way() {
    for goes in [Goes::Written, Goes::Read, Goes::ReadBehindTheEnd] {
        let (_, took, calls) = moved(goes, &[]);
        assert!(took > ms(4) && calls == 1, "{goes:?}: alone it takes longer than a move may: {took}");
        for mover in [0, 1] {
            let (ends, _, calls) = moved(goes, &[(mover, us(300), 1)]);
            assert!(ends == [true] && calls > 1, "{goes:?}: by node {mover}: {ends:?}, {calls}");
        }
    }
}

/// On the other rail messages carry what is read behind the end of a stream.
#[test]
fn a_connection_moves_back_while_messages_carry_a_long_buffer() {
    for mover in [0, 1] {
        let (ends, took, calls) = moved(Goes::ReadBehindTheEnd, &[(0, us(300), 1), (mover, ms(4), 0)]);
        assert!(ends == [true, true] && calls == 3, "by node {mover}: {ends:?}, {took}, {calls}");
    }
}
