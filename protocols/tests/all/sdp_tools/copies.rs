//! Copies of files.

use super::{Place, Task, accept, both, both_of, coded, connect};
use crate::common::{Cluster, all_regions, ms};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use weft_protocols::sdp::copy::{self, CopyError, Finished, Partial, Source, Store, Stored};
use weft_protocols::sdp::{Sdp, SdpError, SdpOptions};
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::{Nanos, Wait};
const KIB: u32 = 1024;

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
