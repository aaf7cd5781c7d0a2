//! Copies of files, pipes and measurements, which `weft cp`, `weft pipe` and `weft perf` are, between nodes of two rails while links fail.

use crate::common::{Cluster, all_regions, ms, rank, us};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use weft_protocols::rt::Rt;
use weft_protocols::sdp::copy::{self, CopyError, Finished, Partial, Source, Store, Stored};
use weft_protocols::sdp::perf::{self, Figures, PerfError, Plan};
use weft_protocols::sdp::pipe::{Ends, PipeError, Piped, pipe};
use weft_protocols::sdp::{Sdp, SdpError, SdpOptions, SdpStream};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Stream, Wait};

const PORT: u16 = 22;
const KIB: u32 = 1024;

#[derive(Clone)]
struct Place {
    rt: Rt<Sim>,
    sdp: Sdp<Sim>,
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Runs a task on each of two nodes with two rails, under faults, to their ends.
fn both(faults: &[(Nanos, Fault)], client: impl FnOnce(Place) -> Task, server: impl FnOnce(Place) -> Task) {
    both_of(Cluster::railed(2, 2, 1, Wait::Notify), faults, client, server);
}

fn both_of(
    cluster: Cluster,
    faults: &[(Nanos, Fault)],
    client: impl FnOnce(Place) -> Task,
    server: impl FnOnce(Place) -> Task,
) {
    let options = SdpOptions { buffers: 16, buffer_bytes: 200, ..SdpOptions::default() };
    let places = [0, 1].map(|node| {
        let member = &cluster.members[node];
        let sdp = Sdp::start(&member.rt, &member.mesh, options).expect("good options");
        Place { rt: member.rt.clone(), sdp }
    });
    faults.iter().for_each(|(at, fault)| cluster.plan(*at, *fault));
    let tasks =
        [places[1].rt.spawn(server(places[1].clone())), places[0].rt.spawn(client(places[0].clone()))];
    cluster.run(Nanos::from_secs(100));
    assert!(tasks.iter().all(|task| task.is_finished()), "both come to their ends");
    assert_eq!(places.map(|place| place.sdp.streams()), [0, 0], "no stream is left over");
}

async fn accept(place: &Place) -> SdpStream<Sim> {
    place.sdp.bind(PORT).expect("nobody has the port").accept().await.expect("somebody comes")
}

async fn connect(place: &Place) -> SdpStream<Sim> {
    place.sdp.connect(rank(1), PORT).await.expect("the server listens")
}

fn coded(len: u32) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}

/// A file to be sent, in parts of odd sizes; it fails after so many bytes.
struct Given {
    bytes: Vec<u8>,
    at: usize,
    fails: usize,
}

impl Source for Given {
    async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.fails {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let len = into.len().min(self.bytes.len() - self.at).min(100_003);
        into[..len].copy_from_slice(&self.bytes[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

/// Files by name, and how many are on their way.
#[derive(Clone, Default)]
struct Shelf {
    files: Rc<RefCell<BTreeMap<String, Vec<u8>>>>,
    open: Rc<RefCell<u32>>,
}

struct OnItsWay {
    shelf: Shelf,
    name: String,
    bytes: Vec<u8>,
}

impl Store for Shelf {
    type Partial = OnItsWay;

    async fn create(&self, name: &str, _: u64) -> io::Result<OnItsWay> {
        if name == "full" {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *self.open.borrow_mut() += 1;
        Ok(OnItsWay { shelf: self.clone(), name: name.to_string(), bytes: Vec::new() })
    }
}

impl Partial for OnItsWay {
    async fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    async fn finish(mut self) -> io::Result<Finished> {
        let bytes = std::mem::take(&mut self.bytes);
        self.shelf.files.borrow_mut().insert(self.name.clone(), bytes);
        Ok(Finished::Safe)
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        *self.shelf.open.borrow_mut() -= 1;
    }
}

/// What an end that takes a file has of a client, and its shelf.
fn takes(client: impl FnOnce(Place) -> Task) -> (Result<Stored, CopyError>, Shelf) {
    let (shelf, taken) = (Shelf::default(), Rc::new(RefCell::new(None)));
    let (store, keep) = (shelf.clone(), Rc::clone(&taken));
    both(&[], client, move |place| {
        Box::pin(async move {
            let stream = accept(&place).await;
            *keep.borrow_mut() = Some(copy::take(&place.sdp, stream, &store, |_| ()).await);
        })
    });
    (taken.take().expect("it has ended"), shelf)
}

struct Copied {
    sent: Result<(), CopyError>,
    taken: Result<Stored, CopyError>,
    files: BTreeMap<String, Vec<u8>>,
    /// What the sender was told of its progress.
    told: Vec<u64>,
    /// When the copy was over at its sender.
    at: Nanos,
}

/// Copies a file of `len` bytes, whose source fails after `fails`.
fn copied(name: &'static str, len: u32, fails: usize, faults: &[(Nanos, Fault)]) -> Copied {
    let (shelf, ends) = (Shelf::default(), Rc::new(RefCell::new((None, None))));
    let told = Rc::new(RefCell::new(Vec::new()));
    let (store, taken, sent, tell) = (shelf.clone(), Rc::clone(&ends), Rc::clone(&ends), Rc::clone(&told));
    both(
        faults,
        move |place| {
            Box::pin(async move {
                let source = Given { bytes: coded(len), at: 0, fails };
                let stream = connect(&place).await;
                let progress = |there| tell.borrow_mut().push(there);
                let (name, len) = (name, u64::from(len));
                let end = copy::put(&place.rt, &place.sdp, stream, (name, len), source, progress).await;
                sent.borrow_mut().0 = Some((end, place.rt.now()));
            })
        },
        move |place| {
            Box::pin(async move {
                let stream = accept(&place).await;
                let end = copy::take(&place.sdp, stream, &store, |_| ()).await;
                taken.borrow_mut().1 = Some(end);
            })
        },
    );
    assert_eq!(*shelf.open.borrow(), 0, "no file is on its way for ever");
    let ((sent, at), taken) = match ends.take() {
        (Some(sent), Some(taken)) => (sent, taken),
        _ => unreachable!("both have ended"),
    };
    Copied { sent, taken, files: shelf.files.take(), told: told.take(), at }
}

fn is_there(copied: &Copied, len: u32) {
    assert!(copied.sent.is_ok() && copied.taken.is_ok(), "{:?} {:?}", copied.sent, copied.taken);
    assert!(copied.files == [("a/b".to_string(), coded(len))].into(), "{len} bytes, exactly");
}

#[test]
fn a_file_of_any_length_arrives_whole() {
    for len in [0, 1, 65_536, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1, 3_000_017] {
        is_there(&copied("a/b", len, usize::MAX, &[]), len);
    }
}

/// Adapters refuse to register memory from the moment on at which the stream stands: at one end or at both.
#[test]
fn a_file_is_copied_where_no_memory_can_be_registered_for_it() {
    let len = 300_000;
    for refused in [[true, false], [false, true], [true, true]] {
        let shelf = Shelf::default();
        let (store, ends) = (shelf.clone(), Rc::new(RefCell::new((None, None))));
        let (sent, taken) = (Rc::clone(&ends), Rc::clone(&ends));
        let client = move |place: Place| -> Task {
            Box::pin(async move {
                let stream = connect(&place).await;
                let regions = refused[0].then(|| all_regions(&place.rt));
                let source = Given { bytes: coded(len), at: 0, fails: usize::MAX };
                let file = ("a/b", u64::from(len));
                sent.borrow_mut().0 =
                    Some(copy::put(&place.rt, &place.sdp, stream, file, source, |_| ()).await);
                drop(regions);
            })
        };
        let server = move |place: Place| -> Task {
            Box::pin(async move {
                let stream = accept(&place).await;
                let regions = refused[1].then(|| all_regions(&place.rt));
                taken.borrow_mut().1 = Some(copy::take(&place.sdp, stream, &store, |_| ()).await);
                drop(regions);
            })
        };
        both_of(Cluster::of_few_regions(2, 1, 1, |_| ()), &[], client, server);
        let (sent, taken) = ends.take();
        assert!(matches!(sent, Some(Ok(()))) && matches!(taken, Some(Ok(_))), "{sent:?} {taken:?}");
        assert!(shelf.files.borrow()["a/b"] == coded(len), "all of it");
    }
}

#[test]
fn a_copy_survives_a_cut_at_any_moment_of_it_and_is_exact_to_the_byte() {
    const LEN: u32 = 2_000_003;
    let whole = copied("a/b", LEN, usize::MAX, &[]);
    is_there(&whole, LEN);
    assert!(whole.told.is_sorted() && whole.told.last() == Some(&u64::from(LEN)), "{:?}", whole.told);
    for nth in 0..12 {
        let at = Nanos(whole.at.0 * nth / 12);
        let link = Link::Port(NodeId((nth % 2) as u32), 1);
        let cut = Fault::Cut { link, way: Way::Both, lasts: None };
        let down = Fault::PortDown { node: NodeId(0), port: 1, lasts: Some(ms(2)) };
        for fault in [cut, down] {
            let under = copied("a/b", LEN, usize::MAX, &[(at, fault)]);
            is_there(&under, LEN);
        }
    }
}

#[test]
fn a_copy_that_is_interrupted_leaves_nothing_under_the_final_name() {
    // The source fails in the middle.
    let broken = copied("a/b", 2_000_003, 700_000, &[]);
    assert!(matches!(broken.sent, Err(CopyError::Source(_))), "{:?}", broken.sent);
    assert!(matches!(broken.taken, Err(CopyError::Stream(SdpError::Reset))), "{:?}", broken.taken);
    assert!(broken.files.is_empty());
    // The file has become shorter than it was when the copy began.
    let (taken, shelf) = takes(|place| {
        Box::pin(async move {
            let source = Given { bytes: coded(400_000), at: 0, fails: usize::MAX };
            let stream = connect(&place).await;
            let end = copy::put(&place.rt, &place.sdp, stream, ("a", 500_000), source, |_| ()).await;
            assert!(matches!(end, Err(CopyError::Source(_))), "{end:?}");
        })
    });
    assert!(matches!(taken, Err(CopyError::Stream(SdpError::Reset))), "{taken:?}");
    assert!(shelf.files.borrow().is_empty());
    assert_eq!(*shelf.open.borrow(), 0);
}

#[test]
fn both_rails_dead_for_longer_than_is_waited_end_a_copy_and_leave_no_name() {
    let middle = Nanos(copied("a", 4_000_000, usize::MAX, &[]).at.0 * 3 / 4);
    let faults = [1, 2]
        .map(|port| (middle, Fault::Cut { link: Link::Port(NodeId(0), port), way: Way::Both, lasts: None }));
    let (shelf, taken) = (Shelf::default(), Rc::new(RefCell::new(None)));
    let (store, keep) = (shelf.clone(), Rc::clone(&taken));
    let cluster = Cluster::railed(2, 2, 1, Wait::Notify);
    let options = SdpOptions {
        buffers: 16,
        buffer_bytes: 200,
        give_up: ms(50),
        read_timeout: Some(ms(80)),
        ..SdpOptions::default()
    };
    let [client, server] = [0, 1].map(|node| {
        let member = &cluster.members[node];
        Place {
            rt: member.rt.clone(),
            sdp: Sdp::start(&member.rt, &member.mesh, options).expect("good options"),
        }
    });
    let there = server.clone();
    drop(server.rt.spawn(async move {
        let stream = accept(&there).await;
        *keep.borrow_mut() = Some(copy::take(&there.sdp, stream, &store, |_| ()).await);
    }));
    let sent = Rc::new(RefCell::new(None));
    let (here, tell) = (client.clone(), Rc::clone(&sent));
    drop(client.rt.spawn(async move {
        let source = Given { bytes: coded(4_000_000), at: 0, fails: usize::MAX };
        let stream = connect(&here).await;
        let end = copy::put(&here.rt, &here.sdp, stream, ("a", 4_000_000), source, |_| ()).await;
        *tell.borrow_mut() = Some(end);
    }));
    faults.into_iter().for_each(|(at, fault)| cluster.plan(at, fault));
    cluster.run(Nanos::from_secs(1));
    let (sent, taken) = (sent.take(), taken.take());
    assert!(matches!(sent, Some(Err(CopyError::Stream(SdpError::TimedOut)))), "{sent:?}");
    assert!(matches!(taken, Some(Err(CopyError::Stream(SdpError::TimedOut)))), "{taken:?}");
    assert!(shelf.files.borrow().is_empty() && *shelf.open.borrow() == 0);
}

#[test]
fn what_became_of_a_file_is_known_before_the_two_ends_part() {
    both(
        &[],
        |place| {
            Box::pin(async move {
                let stream = connect(&place).await;
                stream.write_all(b"weft-cp1\x03\0\0\0\0\0\0\0\x01\0fabc").await.expect("written");
                place.rt.sleep(ms(5)).await;
                let mut verdict = [9];
                assert_eq!(stream.try_read(&mut verdict), Ok(None), "its taker knows, and has not said so");
                stream.read_exact(&mut verdict).await.expect("it is told");
                assert_eq!((verdict, stream.read(&mut [0]).await), ([0], Ok(0)));
            })
        },
        |place| {
            Box::pin(async move {
                let (stream, shelf) = (accept(&place).await, Shelf::default());
                let taken = copy::take_and_stay(&place.sdp, stream, &shelf, |_| ()).await;
                let (stored, parting) = taken.expect("it is stored");
                assert_eq!(stored, Stored { name: "f".to_string(), len: 3 });
                place.rt.sleep(ms(10)).await;
                parting.part().await;
            })
        },
    );
    both(
        &[],
        |place| {
            Box::pin(async move {
                let (stream, source) = (connect(&place).await, Given { bytes: Vec::new(), at: 0, fails: 0 });
                let put = copy::put_and_stay(&place.rt, &place.sdp, stream, ("f", 0), source, |_| ()).await;
                let parting = put.expect("it is stored");
                place.rt.sleep(ms(10)).await;
                parting.part().await;
            })
        },
        |place| {
            Box::pin(async move {
                let stream = accept(&place).await;
                stream.read_exact(&mut [0; 19]).await.expect("what is to be stored");
                stream.write_all(&[0]).await.expect("written");
                place.rt.sleep(ms(5)).await;
                assert_eq!(stream.try_read(&mut [0]), Ok(None), "its sender knows, and has not closed");
                assert_eq!(stream.read(&mut [0]).await, Ok(0));
            })
        },
    );
}

/// The answer is reset on its way. `weft check sdp-copy-dropped` found that the taker said then that nothing was stored.
#[test]
fn a_file_that_is_stored_is_so_for_its_taker_though_nobody_waits_for_the_answer() {
    let (taken, shelf) = takes(|place| {
        Box::pin(async move {
            let stream = connect(&place).await;
            stream.write_all(b"weft-cp1\x03\0\0\0\0\0\0\0\x01\0fabc").await.expect("written");
            drop(stream);
        })
    });
    let stored = Stored { name: "f".to_string(), len: 3 };
    assert!(matches!(taken, Ok(file) if file == stored));
    assert_eq!(*shelf.files.borrow(), [("f".to_string(), b"abc".to_vec())].into());
}

#[test]
fn names_that_leave_the_folder_are_refused_by_both_ends() {
    for name in ["", "/etc/passwd", "../a", "a/../../b", "a//b", "a/.", "a\0b", "a/"] {
        assert!(matches!(copy::check_name(name), Err(CopyError::Name { .. })), "{name:?}");
    }
    assert!(copy::check_name("a/b.c").is_ok());
    // A sender that does not look.
    let (taken, shelf) = takes(|place| {
        Box::pin(async move {
            let stream = connect(&place).await;
            stream.write_all(b"weft-cp1\x01\0\0\0\0\0\0\0\x04\0../x!").await.expect("written");
            let mut answer = [0; 3];
            stream.read_exact(&mut answer).await.expect("an answer");
            assert_eq!(answer[0], 1);
            let mut text = vec![0; u16::from_le_bytes([answer[1], answer[2]]).into()];
            stream.read_exact(&mut text).await.expect("a reason");
            assert!(String::from_utf8_lossy(&text).contains("below the folder"), "{text:?}");
            stream.close().await.expect("closed");
        })
    });
    assert!(matches!(taken, Err(CopyError::Name { .. })), "{taken:?}");
    assert!(shelf.files.borrow().is_empty());
}

#[test]
fn a_receiver_that_cannot_store_the_file_says_why_before_all_of_it_came() {
    let refused = copied("full", 4_000_000, usize::MAX, &[]);
    let Err(CopyError::Refused(why)) = &refused.sent else { panic!("{:?}", refused.sent) };
    assert!(why.contains("cannot be stored"), "{why}");
    assert!(matches!(refused.taken, Err(CopyError::Store(_))), "{:?}", refused.taken);
    assert!(refused.told.last().is_none_or(|there| *there < 4_000_000), "{:?}", refused.told);
}

/// An input of so many coded bytes that then ends, or fails, or says nothing any more.
struct Input {
    bytes: Vec<u8>,
    at: usize,
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Ends,
    Fails,
    Waits,
}

impl Stream for Input {
    fn poll_read(&mut self, _: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let len = into.len().min(self.bytes.len() - self.at).min(9_001);
        into[..len].copy_from_slice(&self.bytes[self.at..self.at + len]);
        self.at += len;
        match self.then {
            Then::Fails if len == 0 => Poll::Ready(Err(io::ErrorKind::Other.into())),
            Then::Waits if len == 0 => Poll::Pending,
            _ => Poll::Ready(Ok(len)),
        }
    }

    fn poll_write(&mut self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        unreachable!("it is an input")
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        unreachable!("it is an input")
    }
}

/// An output: what was written, and whether it has ended.
#[derive(Clone, Default)]
struct Output(Rc<RefCell<(Vec<u8>, bool)>>);

impl Stream for Output {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        unreachable!("it is an output")
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let len = bytes.len().min(5_003);
        self.0.borrow_mut().0.extend_from_slice(&bytes[..len]);
        Poll::Ready(Ok(len))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().1 = true;
        Poll::Ready(Ok(()))
    }
}

/// A pipe whose ends have these inputs: what each end says, and what came out at each.
fn piped(
    inputs: [(u32, Then); 2],
    ends: [Ends; 2],
    faults: &[(Nanos, Fault)],
) -> [(Result<Piped, PipeError>, Output); 2] {
    let outputs = [Output::default(), Output::default()];
    let said = Rc::new(RefCell::new([None, None]));
    let task = |end: usize| {
        let (output, said, (len, then)) = (outputs[end].clone(), Rc::clone(&said), inputs[end]);
        move |place: Place| -> Task {
            Box::pin(async move {
                let stream = if end == 0 { connect(&place).await } else { accept(&place).await };
                let input = Input { bytes: coded(len), at: 0, then };
                said.borrow_mut()[end] = Some(pipe(&place.rt, stream, input, output, ends[end]).await);
            })
        }
    };
    both(faults, task(0), task(1));
    let [near, far] = said.take();
    let [out_near, out_far] = outputs;
    [(near.expect("it ended"), out_near), (far.expect("it ended"), out_far)]
}

#[test]
fn a_pipe_carries_both_ways_while_a_link_is_cut() {
    let cut = |at| {
        let link = Link::Port(NodeId(1), 1);
        (at, Fault::Cut { link, way: Way::Both, lasts: Some(ms(1)) })
    };
    for faults in [vec![], vec![cut(us(300))], vec![cut(us(900)), cut(ms(4))]] {
        let [near, far] = piped([(300_000, Then::Ends), (20_000, Then::Ends)], [Ends::Both; 2], &faults);
        assert_eq!(near.0.expect("it held"), Piped { sent: 300_000, received: 20_000 });
        assert_eq!(far.0.expect("it held"), Piped { sent: 20_000, received: 300_000 });
        assert!(*near.1.0.borrow() == (coded(20_000), true));
        assert!(*far.1.0.borrow() == (coded(300_000), true));
    }
}

#[test]
fn an_input_that_a_person_types_does_not_keep_a_pipe_whose_peer_has_ended() {
    let ends = [Ends::Both, Ends::WithPeer];
    let [near, far] = piped([(30_000, Then::Ends), (10, Then::Waits)], ends, &[]);
    assert_eq!(near.0.expect("it held"), Piped { sent: 30_000, received: 10 });
    assert_eq!(far.0.expect("it held"), Piped { sent: 10, received: 30_000 });
    assert!(*far.1.0.borrow() == (coded(30_000), true));
}

#[test]
fn an_input_that_fails_is_an_error_at_both_ends_and_not_the_end_of_what_came() {
    let [near, far] = piped([(30_000, Then::Fails), (0, Then::Ends)], [Ends::Both; 2], &[]);
    assert!(matches!(near.0, Err(PipeError::Input(_))), "{:?}", near.0);
    assert!(matches!(far.0, Err(PipeError::Stream(SdpError::Reset))), "{:?}", far.0);
    assert!(!far.1.0.borrow().1, "the output is not told an end");
}

/// What a caller measures while links fail, and what the listener says at the end.
fn measured(
    plans: &'static [Plan],
    faults: &[(Nanos, Fault)],
) -> (Vec<Result<Figures, PerfError>>, Result<u32, PerfError>) {
    let (figures, answered) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(None)));
    let (tell, end) = (Rc::clone(&figures), Rc::clone(&answered));
    both(
        faults,
        |place| {
            Box::pin(async move {
                let stream = connect(&place).await;
                for plan in plans {
                    let measured = perf::call(&place.rt, &stream, *plan).await;
                    tell.borrow_mut().push(measured);
                }
                stream.close().await.expect("it ends");
            })
        },
        |place| {
            Box::pin(async move {
                let stream = accept(&place).await;
                *end.borrow_mut() = Some(perf::answer(&stream).await);
            })
        },
    );
    (figures.take(), answered.take().expect("it ended"))
}

#[test]
fn a_measurement_goes_on_over_a_cut_and_says_how_long_it_stalled() {
    const PLANS: &[Plan] =
        &[Plan { bytes: 64, transfers: 1, rounds: 100 }, Plan { bytes: 5_000, transfers: 20, rounds: 3 }];
    let (quiet, answered) = measured(PLANS, &[]);
    assert_eq!(answered, Ok(2));
    let [ping, bulk] = [0, 1].map(|at| quiet[at].expect("it held"));
    assert_eq!([ping.transfers, ping.bytes, bulk.transfers, bulk.bytes], [200, 12_800, 120, 600_000]);
    // A transfer of a ping-pong takes some microseconds each way; beside one of them a connection is made that stands by.
    assert!(ping.longest < us(200) && ping.took > ping.longest, "{ping:?}");
    let cut = Fault::Cut { link: Link::Port(NodeId(1), 1), way: Way::Both, lasts: None };
    let (cut, answered) = measured(PLANS, &[(ping.took / 2, cut)]);
    assert_eq!(answered, Ok(2));
    let stalled = cut[0].expect("it held").longest;
    // The adapter has to give the dead link up first; what stands by takes over at once.
    assert!(stalled > ping.longest * 3, "{stalled:?} beside {:?}", ping.longest);
}

/// Who left, whether nothing was owed then, and how long that took.
type Left = Rc<RefCell<Vec<(bool, Nanos)>>>;

async fn leave(place: Place, left: Left) {
    let began = place.rt.now();
    let settled = place.sdp.settle(Nanos::from_secs(5)).await;
    left.borrow_mut().push((settled, place.rt.now() - began));
    place.rt.shutdown();
}

/// One that leaves and has not acknowledged what it got has the other one wait until that gives up: after every copy and every
/// measurement.
#[test]
fn two_ends_that_are_done_both_leave_at_once() {
    const DELAY: Nanos = Nanos::from_millis(20);
    for rounds in 1..=8 {
        let left = Left::default();
        let (calls, answers) = (Rc::clone(&left), Rc::clone(&left));
        both_of(
            Cluster::acknowledging_late(2, 2, 1, DELAY),
            &[],
            |place| {
                Box::pin(async move {
                    let stream = connect(&place).await;
                    let plan = Plan { bytes: 100, transfers: 1, rounds };
                    perf::call(&place.rt, &stream, plan).await.expect("it holds");
                    stream.close().await.expect("it ends");
                    leave(place, calls).await;
                })
            },
            |place| {
                Box::pin(async move {
                    let stream = accept(&place).await;
                    perf::answer(&stream).await.expect("it holds");
                    stream.close().await.expect("it ends");
                    leave(place, answers).await;
                })
            },
        );
        let left = left.take();
        assert_eq!(left.len(), 2);
        assert!(left.iter().all(|(settled, took)| *settled && *took < DELAY * 2), "{rounds}: {left:?}");
    }
}

#[test]
fn a_measurement_out_of_bounds_is_refused_at_either_end() {
    const PLANS: &[Plan] = &[
        Plan { bytes: 0, transfers: 1, rounds: 1 },
        Plan { bytes: Plan::MOST_BYTES + 1, transfers: 1, rounds: 1 },
        Plan { bytes: 1, transfers: 1, rounds: Plan::MOST + 1 },
    ];
    let (figures, answered) = measured(PLANS, &[]);
    assert!(figures.iter().all(|end| matches!(end, Err(PerfError::Plan { .. }))), "{figures:?}");
    assert_eq!(answered, Ok(0));
    let said = Rc::new(RefCell::new(None));
    let tell = Rc::clone(&said);
    both(
        &[],
        |place| {
            Box::pin(async move {
                let stream = connect(&place).await;
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n\r\n").await.expect("it is sent");
                let _ = stream.close().await;
            })
        },
        |place| {
            Box::pin(async move {
                let stream = accept(&place).await;
                *tell.borrow_mut() = Some(perf::answer(&stream).await);
            })
        },
    );
    assert_eq!(said.take(), Some(Err(PerfError::Stranger)));
}
