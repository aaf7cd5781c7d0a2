//! Byte streams beside the fabric: what TCP is to its users (the contract's `OutOfBand`).

use super::prelude::*;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

const OOB: Caps = Caps::OUT_OF_BAND;

cases! { "streams":
    a_byte_stream_carries_bytes_both_ways, "contract, OutOfBand", needs OOB;
    a_stream_keeps_its_bytes_in_order_whatever_happens_to_packets, "contract, Stream",
        needs OOB, with HarnessCaps::NOISE;
    a_stream_outlives_a_short_cut, "contract, Stream", needs OOB, with HarnessCaps::CUT;
    a_stream_that_was_shut_down_still_reads, "contract, Stream", needs OOB;
    a_writer_waits_for_its_reader, "contract, Stream", needs OOB;
    what_was_written_arrives_although_the_writer_is_gone, "contract, Stream", needs OOB;
    a_stream_dropped_with_bytes_unread_is_reset, "contract, Stream; RFC 1122, 4.2.2.13", needs OOB;
    writing_to_a_peer_that_is_gone_fails, "contract, Stream", needs OOB;
    a_service_that_nobody_listens_on_refuses, "contract, OutOfBand", needs OOB;
    a_second_listener_on_a_service_of_streams_is_refused, "contract, OutOfBand", needs OOB;
    a_machine_that_is_not_there_is_not_reached, "contract, OutOfBand", needs OOB;
    many_streams_to_one_listener_do_not_mix, "contract, StreamListener", needs OOB;
    a_machine_can_stream_to_itself, "contract, OutOfBand", needs OOB;
    readiness_steps_the_node_and_wakes_the_task, "contract, Stream; Park", needs OOB, with HarnessCaps::MOUNT;
}

type StreamOf<H> = <<H as Harness>::V as Verbs>::Stream;
type ListenerOf<H> = <<H as Harness>::V as Verbs>::StreamListener;

fn failed(error: io::Error) -> Failure {
    Failure::new(format!("a stream failed: {error}"))
}

fn context() -> TaskContext<'static> {
    TaskContext::from_waker(Waker::noop())
}

/// A listener on a node.
fn listen<H: Harness>(bed: &mut TestBed<'_, H>, node: usize, service: Service) -> Outcome<ListenerOf<H>> {
    bed.at_least(2.max(node + 1))?;
    Ok(bed.ctx(node).out_of_band()?.listen(service)?)
}

fn connect<H: Harness>(
    bed: &TestBed<'_, H>,
    from: usize,
    to: usize,
    service: Service,
) -> Outcome<StreamOf<H>> {
    let name = bed.machines[to].name.clone();
    Ok(bed.ctx(from).out_of_band()?.connect(&name, service)?)
}

fn accepted<H: Harness>(bed: &mut TestBed<'_, H>, listener: &mut ListenerOf<H>) -> Outcome<StreamOf<H>> {
    bed.until("a stream to arrive", || match listener.poll_accept(&mut context()) {
        Poll::Ready(stream) => Ok(Some(stream.map_err(failed)?)),
        Poll::Pending => Ok(None),
    })
}

/// A stream from node 0 to node 1, both of its ends.
fn joined<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome<(StreamOf<H>, StreamOf<H>)> {
    const PORT: Service = Service(7_000);
    let mut listener = listen(bed, 1, PORT)?;
    let near = connect(bed, 0, 1, PORT)?;
    let far = accepted(bed, &mut listener)?;
    Ok((near, far))
}

/// Writes all of it.
fn write_all<H: Harness>(bed: &mut TestBed<'_, H>, to: &mut StreamOf<H>, data: &[u8]) -> Outcome {
    let mut sent = 0;
    bed.until("room in a stream", || {
        while sent < data.len()
            && let Poll::Ready(n) = to.poll_write(&mut context(), &data[sent..])
        {
            let n = n.map_err(failed)?;
            check!((1..=data.len() - sent).contains(&n), "a write of {n} bytes");
            sent += n;
        }
        Ok((sent == data.len()).then_some(()))
    })
}

/// Reads what comes until the stream ends, or so many bytes are there.
fn read_some<H: Harness>(bed: &mut TestBed<'_, H>, from: &mut StreamOf<H>, most: usize) -> Outcome<Vec<u8>> {
    let mut seen = Vec::new();
    bed.until("a stream's bytes", || {
        let mut chunk = [0; 4_096];
        while seen.len() < most
            && let Poll::Ready(n) =
                from.poll_read(&mut context(), &mut chunk[..(most - seen.len()).min(4_096)])
        {
            match n.map_err(failed)? {
                0 => return Ok(Some(())),
                n => seen.extend_from_slice(&chunk[..n]),
            }
        }
        Ok((seen.len() == most).then_some(()))
    })?;
    Ok(seen)
}

/// The error that reading, or writing, comes to.
fn error_of<H: Harness, T>(
    bed: &mut TestBed<'_, H>,
    mut call: impl FnMut(&mut TaskContext<'_>) -> Poll<io::Result<T>>,
) -> Outcome<io::ErrorKind> {
    bed.until("a stream to fail", || match call(&mut context()) {
        Poll::Ready(Err(error)) => Ok(Some(error.kind())),
        _ => Ok(None),
    })
}

/// Sends one way and receives at the other end at once.
fn carries<H: Harness>(
    bed: &mut TestBed<'_, H>,
    (from, to): (&mut StreamOf<H>, &mut StreamOf<H>),
    data: &[u8],
) -> Outcome {
    let (mut sent, mut seen) = (0, Vec::new());
    bed.until("a stream's bytes", || {
        if sent < data.len()
            && let Poll::Ready(n) = from.poll_write(&mut context(), &data[sent..])
        {
            sent += n.map_err(failed)?;
        }
        let mut chunk = [0; 4_096];
        while let Poll::Ready(n) = to.poll_read(&mut context(), &mut chunk) {
            let n = n.map_err(failed)?;
            check!(n > 0, "the stream ended after {} bytes", seen.len());
            seen.extend_from_slice(&chunk[..n]);
        }
        Ok((seen.len() == data.len()).then_some(()))
    })?;
    check!(seen == data, "the stream changed");
    Ok(())
}

fn a_byte_stream_carries_bytes_both_ways<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (mut near, mut far) = joined(bed)?;
    let data = pattern(500_000, 1);
    carries(bed, (&mut near, &mut far), &data)?;
    carries(bed, (&mut far, &mut near), &data)
}

fn a_stream_keeps_its_bytes_in_order_whatever_happens_to_packets<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    for seed in 0..bed.timing().seeds.min(10) {
        bed.world(2, seed)?;
        let (a, b, at_most) = (0, 1, bed.timing().round_trip * 3);
        let (loss, duplicate, delay) = (50_000, 100_000, 200_000);
        bed.inject(Fault::Noise { a, b, loss, duplicate, delay, at_most, seed })?;
        let (mut near, mut far) = joined(bed)?;
        let data = pattern(60_000, seed);
        carries(bed, (&mut near, &mut far), &data)?;
        carries(bed, (&mut far, &mut near), &data)?;
    }
    Ok(())
}

fn a_stream_outlives_a_short_cut<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (mut near, mut far) = joined(bed)?;
    let cut = bed.inject(Fault::Cut { a: 0, b: 1 })?;
    write_all(bed, &mut near, b"through")?;
    bed.settle();
    check!(far.poll_read(&mut context(), &mut [0; 8]).is_pending(), "bytes came through a cut");
    bed.heal(cut);
    check!(read_some(bed, &mut far, 7)? == b"through", "the stream changed");
    Ok(())
}

fn a_stream_that_was_shut_down_still_reads<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (mut near, mut far) = joined(bed)?;
    write_all(bed, &mut near, b"question")?;
    bed.until("the end to be taken", || Ok(near.poll_shutdown(&mut context()).is_ready().then_some(())))?;
    check!(read_some(bed, &mut far, usize::MAX)? == b"question", "the question changed");
    let more = near.poll_write(&mut context(), b"more");
    check!(matches!(more, Poll::Ready(Err(_))), "a write behind the end: {more:?}");
    write_all(bed, &mut far, b"answer")?;
    drop(far);
    check!(read_some(bed, &mut near, usize::MAX)? == b"answer", "the answer changed");
    Ok(())
}

fn a_writer_waits_for_its_reader<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (mut near, mut far) = joined(bed)?;
    let data = pattern(1 << 24, 3);
    let mut sent = 0;
    // A real machine's stream breaks where nobody reads for 40 s (`crate::silence`). Where a round trip is 10 ms this takes 20.
    for _ in 0..2_000 {
        while let Poll::Ready(n) =
            near.poll_write(&mut context(), &data[sent..(sent + 65_536).min(data.len())])
        {
            let n = n.map_err(failed)?;
            sent += n;
            check!(n > 0 || sent == data.len(), "a write of nothing");
            check!(sent < data.len(), "16 MiB were taken although nobody reads");
        }
        bed.advance(bed.timing().round_trip);
    }
    check!(read_some(bed, &mut far, sent)? == data[..sent], "the stream changed");
    bed.until("room again", || Ok(near.poll_write(&mut context(), b"more").is_ready().then_some(())))?;
    check!(read_some(bed, &mut far, 4)? == b"more", "what was written afterwards changed");
    Ok(())
}

fn what_was_written_arrives_although_the_writer_is_gone<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (mut near, mut far) = joined(bed)?;
    let data = pattern(20_000, 4);
    write_all(bed, &mut near, &data)?;
    drop(near);
    check!(read_some(bed, &mut far, usize::MAX)? == data, "the stream changed");
    Ok(())
}

fn a_stream_dropped_with_bytes_unread_is_reset<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (mut near, mut far) = joined(bed)?;
    write_all(bed, &mut near, b"unread")?;
    read_some(bed, &mut far, 1)?;
    bed.settle();
    drop(far);
    let mut chunk = [0; 8];
    let seen = error_of(bed, |cx| near.poll_read(cx, &mut chunk))?;
    check_eq!(seen, io::ErrorKind::ConnectionReset, "the error of a reset stream");
    Ok(())
}

fn writing_to_a_peer_that_is_gone_fails<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let (mut near, far) = joined(bed)?;
    drop(far);
    bed.settle();
    let seen = error_of(bed, |cx| near.poll_write(cx, b"anybody there?"))?;
    check!(
        matches!(seen, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe),
        "writing to nobody ended in {seen:?}"
    );
    Ok(())
}

fn a_service_that_nobody_listens_on_refuses<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    let mut stream = connect(bed, 0, 1, Service(7_001))?;
    let seen = error_of(bed, |cx| stream.poll_write(cx, b"hello?"))?;
    check_eq!(seen, io::ErrorKind::ConnectionRefused, "the error of a stream to nobody");
    // So is one whose listener has gone.
    drop(listen(bed, 1, Service(7_001))?);
    let mut stream = connect(bed, 0, 1, Service(7_001))?;
    let seen = error_of(bed, |cx| stream.poll_write(cx, b"hello?"))?;
    check_eq!(seen, io::ErrorKind::ConnectionRefused, "the error of a stream to a former listener");
    Ok(())
}

fn a_second_listener_on_a_service_of_streams_is_refused<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let first = listen(bed, 1, Service(7_002))?;
    let oob = bed.ctx(1).out_of_band()?;
    check_refused!(oob.listen(Service(7_002)), VerbsError::Busy(_), "a second listener");
    drop(first);
    bed.settle();
    oob.listen(Service(7_002))?;
    Ok(())
}

fn a_machine_that_is_not_there_is_not_reached<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.at_least(2)?;
    // Either the name is refused, or what comes of it.
    if let Ok(mut stream) = bed.ctx(0).out_of_band()?.connect("no-such-machine.invalid", Service(7_003)) {
        error_of(bed, |cx| stream.poll_write(cx, b"hello?"))?;
    }
    Ok(())
}

fn many_streams_to_one_listener_do_not_mix<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const PORT: Service = Service(7_004);
    let mut listener = listen(bed, 1, PORT)?;
    let mut near: Vec<StreamOf<H>> = (0..20).map(|_| connect(bed, 0, 1, PORT)).collect::<Outcome<_>>()?;
    for (i, stream) in near.iter_mut().enumerate() {
        write_all(bed, stream, &[i as u8; 1_000])?;
    }
    let mut seen = Vec::new();
    for _ in 0..near.len() {
        let mut far = accepted(bed, &mut listener)?;
        let bytes = read_some(bed, &mut far, 1_000)?;
        check!(bytes.iter().all(|byte| *byte == bytes[0]), "bytes of two streams in one");
        seen.push(bytes[0]);
    }
    seen.sort_unstable();
    check!(seen == (0..20).collect::<Vec<u8>>(), "the streams that came: {seen:?}");
    check!(listener.poll_accept(&mut context()).is_pending(), "a stream too many");
    Ok(())
}

fn a_machine_can_stream_to_itself<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const PORT: Service = Service(7_005);
    let mut listener = listen(bed, 0, PORT)?;
    let mut near = connect(bed, 0, 0, PORT)?;
    let mut far = accepted(bed, &mut listener)?;
    let data = pattern(100_000, 5);
    carries(bed, (&mut near, &mut far), &data)?;
    carries(bed, (&mut far, &mut near), &data)
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads only when its task was woken, and waits for nothing else.
struct Reader<S> {
    stream: S,
    woken: Arc<Count>,
    polled: u32,
    seen: Rc<RefCell<Vec<u8>>>,
    steps: Rc<Cell<u32>>,
    style: Wait,
}

impl<S: Stream> Node for Reader<S> {
    fn step(&mut self) -> Park {
        self.steps.set(self.steps.get() + 1);
        let due = self.woken.0.load(Ordering::Relaxed);
        if due >= self.polled {
            self.polled = due + 1;
            let waker = Waker::from(Arc::clone(&self.woken));
            let mut chunk = [0; 64];
            while let Poll::Ready(Ok(n @ 1..)) =
                self.stream.poll_read(&mut TaskContext::from_waker(&waker), &mut chunk)
            {
                self.seen.borrow_mut().extend_from_slice(&chunk[..n]);
            }
        }
        Park::Until { style: self.style, deadline: None }
    }
}

fn readiness_steps_the_node_and_wakes_the_task<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for style in [Wait::Poll, Wait::Notify] {
        bed.world(2, 0)?;
        let (mut near, stream) = joined(bed)?;
        let (seen, steps) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
        let woken = Arc::new(Count::default());
        let reader = Reader {
            stream,
            woken: Arc::clone(&woken),
            polled: 0,
            seen: Rc::clone(&seen),
            steps: Rc::clone(&steps),
            style,
        };
        bed.mount(1, Box::new(reader))?;
        bed.settle();
        for round in 1..=3 {
            let (before, wakes) = (steps.get(), woken.0.load(Ordering::Relaxed));
            write_all(bed, &mut near, &[round; 10])?;
            bed.settle();
            check!(steps.get() > before, "bytes that arrived did not step the node");
            check!(woken.0.load(Ordering::Relaxed) > wakes, "bytes that arrived did not wake the task");
            check_eq!(seen.borrow().len(), usize::from(round) * 10, "bytes read after round {round}");
        }
    }
    Ok(())
}
