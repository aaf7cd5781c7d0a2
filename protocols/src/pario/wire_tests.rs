use super::*;
use crate::rt::RtConfig;
use crate::rt::fake::{Fake, V};
use std::pin::pin;
use std::task::Waker;
use weft_verbs::{Node, Park, VerbsError};

/// A stream that takes and gives a few bytes at a time.
struct Pipe {
    bytes: VecDeque<u8>,
    step: usize,
}

impl Stream for Pipe {
    fn poll_read(&mut self, _: &mut TaskContext<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let n = into.len().min(self.step).min(self.bytes.len());
        if n == 0 {
            return Poll::Pending;
        }
        into.iter_mut().zip(self.bytes.drain(..n)).for_each(|(to, from)| *to = from);
        Poll::Ready(Ok(n))
    }

    fn poll_write(&mut self, _: &mut TaskContext<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let n = from.len().min(self.step);
        self.bytes.extend(&from[..n]);
        Poll::Ready(Ok(n))
    }

    fn poll_shutdown(&mut self, _: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn frames_come_out_as_they_went_in_however_a_stream_cuts_them() {
    let frame = |head: &[u8], data: &[u8]| Frame { head: head.to_vec(), data: data.to_vec() };
    let frames = [frame(&[1, 2, 3], &[]), frame(&[4], &[5; 20]), frame(&[6; 9], &[7])];
    let mut cx = TaskContext::from_waker(Waker::noop());
    for step in [1, 3, 8, 100] {
        let outgoing = Outgoing::default();
        outgoing.frames.borrow_mut().extend(frames.clone());
        let mut pipe = Pipe { bytes: VecDeque::new(), step };
        assert!(Writing::default().poll(&mut pipe, &mut cx, &outgoing).is_pending());
        let mut reading = Reading::default();
        for frame in &frames {
            let Poll::Ready(Ok(read)) = reading.poll(&mut pipe, &mut cx, 20) else { panic!("{step}") };
            assert_eq!(read, *frame);
        }
        assert!(reading.poll(&mut pipe, &mut cx, 20).is_pending());
    }
}

#[test]
fn a_length_beyond_what_is_agreed_ends_the_stream_before_there_is_memory_for_it() {
    let lengths = |head: u32, data: u32| {
        let mut bytes = [0; LENGTHS];
        bytes[..4].copy_from_slice(&head.to_le_bytes());
        bytes[4..].copy_from_slice(&data.to_le_bytes());
        bytes
    };
    assert!(room_for(lengths(9, 20), 20).is_some());
    assert_eq!((room_for(lengths(9, 21), 20), room_for(lengths(u32::MAX, 0), 20)), (None, None));
}

/// Frames as a stream carries them.
fn bytes_of(frames: impl IntoIterator<Item = Frame>) -> Vec<u8> {
    let (outgoing, mut pipe) = (Outgoing::default(), Pipe { bytes: VecDeque::new(), step: usize::MAX });
    outgoing.frames.borrow_mut().extend(frames);
    let mut cx = TaskContext::from_waker(Waker::noop());
    assert!(Writing::default().poll(&mut pipe, &mut cx, &outgoing).is_pending());
    pipe.bytes.into()
}

/// The streams of the first of two nodes.
fn streams(rt: &Rt<V>, fake: &Fake) -> Rc<Streams<V>> {
    Rc::new(Streams {
        rt: rt.clone(),
        oob: fake.clone(),
        names: ["n0", "n1"].map(String::from).to_vec(),
        me: Rank::from_index(0),
        life: 1,
        opened: Cell::default(),
        most: 0,
        asking: Open::default(),
        asked: Open::default(),
        newest: RefCell::default(),
        taker: RefCell::default(),
    })
}

#[test]
fn a_connection_that_fails_at_once_ends_as_a_stream_that_breaks_and_the_next_one_is_another() {
    let fake = Fake::default();
    let rt = Rt::<V>::new(&fake, RtConfig::default()).expect("the fake device obeys");
    fake.world.borrow_mut().connects.extend([Err(VerbsError::DeviceGone), Ok(())]);
    let (streams, gone) = (streams(&rt, &fake), Rc::new(Cell::new(0)));
    let told = Rc::clone(&gone);
    streams.deliver_to(Rc::new(move |_, arrived| {
        told.set(told.get() + u32::from(matches!(arrived, Arrived::ServerGone)));
    }));
    let (server, mut program) = (Rank::from_index(1), rt.program());
    let mut cx = TaskContext::from_waker(Waker::noop());
    for is_open in [false, true] {
        let asked = pin!(streams.ask(server, Frame::default())).poll(&mut cx);
        assert_eq!(asked, Poll::Ready(Ok(())));
        while program.step() == Park::Again {}
        assert_eq!((streams.asking.borrow().contains_key(&server), gone.get()), (is_open, 1));
    }
    assert!(fake.world.borrow().connects.is_empty());
}

#[test]
fn a_server_goes_on_to_listen_after_one_who_came_could_not_be_taken() {
    let fake = Fake::default();
    let rt = Rt::<V>::new(&fake, RtConfig::default()).expect("the fake device obeys");
    fake.world.borrow_mut().accepts.extend([Err(io::ErrorKind::ConnectionAborted), Ok(()), Ok(())]);
    drop(rt.spawn(streams(&rt, &fake).accept(fake.clone())));
    let mut program = rt.program();
    while program.step() == Park::Again {}
    assert_eq!(fake.world.borrow().accepts.len(), 2, "not at once: the machine may be short of something");
    fake.world.borrow_mut().now += PAUSE;
    while program.step() == Park::Again {}
    assert!(fake.world.borrow().accepts.is_empty());
}

/// On a link that fails for a while, what was written to a stream that was given up comes when the next one has been answered.
#[test]
fn a_stream_that_comes_behind_a_later_one_of_its_client_asks_nothing_and_ends_nothing() {
    let fake = Fake::default();
    let rt = Rt::<V>::new(&fake, RtConfig::default()).expect("the fake device obeys");
    let (streams, seen) = (streams(&rt, &fake), Rc::new(RefCell::new(Vec::new())));
    let told = Rc::clone(&seen);
    streams.deliver_to(Rc::new(move |_, arrived| {
        told.borrow_mut().push(match arrived {
            Arrived::Request(frame) => frame.head[0],
            _ => 0,
        });
    }));
    let (client, mut program) = (Rank::from_index(1), rt.program());
    for (number, asks) in [(2, 20), (1, 10), (3, 30)] {
        let hello = Hello { client, server: streams.me, life: 7, number };
        let request = Frame { head: vec![asks], data: Vec::new() };
        let stream = fake.stream_of(&bytes_of([hello.into_frame(), request]));
        drop(rt.spawn(Rc::clone(&streams).answer_by(stream)));
        while program.step() == Park::Again {}
    }
    // Its client is told of as gone, by 0, once: when its third stream takes the place of the second one.
    assert_eq!(*seen.borrow(), [20, 0, 30]);
}

/// Addresses change hands: this node's may have been that of another server, which is down.
#[test]
fn a_stream_that_is_for_another_server_asks_nothing_and_ends() {
    let fake = Fake::default();
    let rt = Rt::<V>::new(&fake, RtConfig::default()).expect("the fake device obeys");
    let streams = streams(&rt, &fake);
    streams.deliver_to(Rc::new(|_, _| panic!("nothing has come")));
    let hello = Hello { client: Rank::from_index(1), server: Rank::from_index(2), life: 7, number: 1 };
    let request = Frame { head: vec![1], data: Vec::new() };
    let answered =
        rt.spawn(Rc::clone(&streams).answer_by(fake.stream_of(&bytes_of([hello.into_frame(), request]))));
    let mut program = rt.program();
    while program.step() == Park::Again {}
    assert!(answered.is_finished() && streams.asked.borrow().is_empty());
}

/// A monitor that looks whether the port is open, say, and stays connected.
#[test]
fn a_stream_on_which_nobody_says_who_it_is_ends_and_one_of_a_client_that_rests_does_not() {
    let fake = Fake::default();
    let rt = Rt::<V>::new(&fake, RtConfig::default()).expect("the fake device obeys");
    let streams = streams(&rt, &fake);
    let hello = Hello { client: Rank::from_index(1), server: streams.me, life: 7, number: 1 };
    let hello = bytes_of([hello.into_frame()]);
    let [silent, begun, client] = [&[][..], &hello[..7], &hello]
        .map(|bytes| rt.spawn(Rc::clone(&streams).answer_by(fake.stream_of(bytes))));
    let mut program = rt.program();
    let mut after = |span: Nanos| {
        while program.step() == Park::Again {}
        fake.world.borrow_mut().now += span;
        while program.step() == Park::Again {}
        [&silent, &begun, &client].map(|stream| stream.is_finished())
    };
    assert_eq!(after(SILENCE - Nanos(1)), [false; 3]);
    assert_eq!(after(Nanos(1)), [true, true, false]);
}

/// A machine that lost its power says nothing, and the system that asked it waits for a quarter of an hour.
#[test]
fn a_stream_whose_server_says_nothing_to_a_question_is_given_up_and_one_from_which_something_comes_is_not() {
    let fake = Fake::default();
    let rt = Rt::<V>::new(&fake, RtConfig::default()).expect("the fake device obeys");
    fake.world.borrow_mut().connects.push_back(Ok(()));
    let (streams, gone) = (streams(&rt, &fake), Rc::new(Cell::new(0)));
    let told = Rc::clone(&gone);
    streams.deliver_to(Rc::new(move |_, arrived| {
        told.set(told.get() + u32::from(matches!(arrived, Arrived::ServerGone)));
    }));
    let (server, mut program) = (Rank::from_index(1), rt.program());
    let mut probe_for = |span: Nanos| {
        // What has come is read before.
        while program.step() == Park::Again {}
        let probed = Rc::clone(&streams);
        drop(rt.spawn(async move { probed.probe(server).await }));
        while program.step() == Park::Again {}
        fake.world.borrow_mut().now += span;
        while program.step() == Park::Again {}
    };
    probe_for(SILENCE - Nanos(1));
    fake.arrive(&bytes_of([Frame::default()]));
    probe_for(SILENCE - Nanos(1));
    assert_eq!((streams.asking.borrow().len(), gone.get()), (1, 0));
    probe_for(Nanos(1));
    assert_eq!((streams.asking.borrow().len(), gone.get()), (0, 1));
}
