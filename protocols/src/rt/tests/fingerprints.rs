//! What explorers are told that a runtime knows: as much as what it does next depends on, and nothing else.

use super::super::fingerprint::{AdapterState, StateHasher};
use super::*;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::task::{Context, Waker};
use weft_verbs::{MemoryRegion, ProtectionDomain, QpNum, RemoteSlice};

/// What an adapter holds and its program cannot know: this many sends, and so many bytes of the first message.
struct Held {
    sends: u32,
    bytes: Option<u32>,
}

impl AdapterState for Held {
    fn unended_sends(&self, _rail: u8, _qp: QpNum) -> u32 {
        self.sends
    }

    fn arrived(&self, _rail: u8, _qp: QpNum, n: usize) -> Option<u32> {
        self.bytes.filter(|_| n == 0)
    }
}

fn digest(of: impl Hash) -> u128 {
    let mut digest = StateHasher::default();
    of.hash(&mut digest);
    digest.whole()
}

fn content(of: &BufferGuard<V>, range: Range<u32>) -> u128 {
    let mut digest = StateHasher::default();
    of.hash_bytes(range, &mut digest);
    digest.whole()
}

fn known(queue: &QpHandle<V>, held: Held) -> u128 {
    let mut digest = StateHasher::default();
    queue.fingerprint(&held, &mut digest);
    digest.whole()
}

fn region(bench: &Bench, bytes: &[u8]) -> Fake {
    let region = bench.fake.alloc_mr(bytes.len(), AccessFlags::LOCAL_WRITE).expect("memory");
    region.write(0, bytes).expect("within");
    region
}

#[test]
fn each_half_of_a_digest_tells_words_their_order_and_their_number_apart() {
    let mut all: Vec<u128> = (0..1_000u64).map(digest).collect();
    all.extend((0..1_000u64).map(|n| digest((n, 7u64))));
    all.extend((0..1_000u64).map(|n| digest((8u64, n))));
    all.extend((0..20).map(|n| digest(&[0u8; 20][..n])));
    let low: BTreeSet<u64> = all.iter().map(|digest| *digest as u64).collect();
    let high: BTreeSet<u64> = all.iter().map(|digest| (digest >> 64) as u64).collect();
    // One pair is written twice: (8, 7).
    assert_eq!((low.len(), high.len()), (all.len() - 1, all.len() - 1));
    let mut finished = StateHasher::default();
    7u64.hash(&mut finished);
    assert_eq!(finished.finish(), digest(7u64) as u64);
}

/// As wide as it is: a hash that leaned to one side would tell fewer states apart than it has bits.
#[test]
fn each_bit_of_a_digest_is_set_as_often_as_not() {
    const MANY: u64 = 4_000;
    // Words that differ in their lowest bits, and in their highest ones.
    for shift in [0, 52] {
        let all: Vec<u128> = (0..MANY).map(|n| digest(n << shift)).collect();
        for bit in 0..128 {
            let set = all.iter().filter(|digest| *digest >> bit & 1 == 1).count();
            assert!((1_800..2_200).contains(&set), "bit {bit} is set in {set} of {MANY}");
        }
    }
}

#[test]
fn numbers_of_every_width_and_the_last_bytes_of_a_slice_are_told() {
    let written = |bytes: &[u8]| {
        let mut digest = StateHasher::default();
        digest.write(bytes);
        digest.whole()
    };
    let mut all = vec![digest(()), digest(1u8), digest(2u8), digest(3u32), digest(4u32), digest(5usize)];
    all.extend((0..24).map(|len| written(&[0; 24][..len])));
    all.extend((0..20).map(|at| {
        let mut bytes = [0; 20];
        bytes[at] = 200;
        written(&bytes)
    }));
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    assert_ne!(digest(true), digest(false));
    assert_ne!(digest("ab"), digest("ac"));
}

#[test]
fn a_lease_is_known_by_the_bytes_asked_for_wherever_they_are() {
    let bench = Bench::new(Wait::Poll);
    let bytes: Vec<u8> = (0..150).collect();
    let shifted: Vec<u8> = [9; 40].into_iter().chain(bytes.iter().copied()).collect();
    let (here, there) = (region(&bench, &bytes), region(&bench, &shifted));
    let guard = |mr: &Fake, at| BufferGuard::Range { mr: mr.clone(), at, len: 150 };
    let before = content(&guard(&here, 0), 0..150);
    let none = BufferGuard::<V>::Range { mr: here.clone(), at: 3, len: 0 };
    assert_eq!((guard(&here, 0).len(), none.len(), BufferGuard::<V>::Nothing.len()), (150, 0, 0));
    assert!(none.is_empty() && BufferGuard::<V>::Nothing.is_empty() && !guard(&here, 0).is_empty());
    assert_eq!(content(&guard(&there, 40), 0..150), before);
    assert_eq!(content(&guard(&here, 0), 0..1_000), before, "it has no more");
    assert_ne!(content(&guard(&there, 39), 0..150), before);
    for at in [0, 63, 64, 127, 128, 149] {
        here.write(at, &[255]).expect("within");
        assert_ne!(content(&guard(&here, 0), 0..150), before, "byte {at}");
        assert_eq!(content(&guard(&here, 0), 0..at as u32), content(&guard(&there, 40), 0..at as u32));
        here.write(at, &bytes[at..at + 1]).expect("within");
    }
}

#[test]
fn a_queue_is_known_by_what_it_owes_and_by_who_watches() {
    let bench = Bench::new(Wait::Poll);
    let queue = bench.queue(4, 4);
    let now = |sends| known(&queue, Held { sends, bytes: None });
    let mut seen = vec![now(0)];
    let pending = queue.post(SEND, nothing()).expect("room");
    seen.push(now(1));
    queue.post_recv(&CompletionSink::new(), 7, BufferGuard::Nothing).expect("room");
    seen.push(now(1));
    queue.watch_sends(&Context::from_waker(Waker::noop()));
    seen.push(now(1));
    drop(pending);
    seen.push(now(1));
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len(), "{seen:x?}");
    assert_eq!(now(1), seen[4], "looking changes nothing");
}

#[test]
fn of_a_receive_buffer_what_has_arrived_is_known_and_no_more() {
    let bench = Bench::new(Wait::Poll);
    let queue = bench.queue(4, 4);
    let buffer = region(&bench, &[1; 16]);
    queue
        .post_recv(&CompletionSink::new(), 7, BufferGuard::Range { mr: buffer.clone(), at: 0, len: 16 })
        .expect("room");
    let with = |bytes| known(&queue, Held { sends: 0, bytes });
    let (nothing, five) = (with(None), with(Some(5)));
    buffer.write(5, &[2]).expect("within");
    assert_eq!((with(None), with(Some(5))), (nothing, five));
    buffer.write(4, &[2]).expect("within");
    assert_eq!(with(None), nothing);
    assert_ne!(with(Some(5)), five);
}

/// What each way of using a queue leaves outstanding there.
#[test]
fn a_queue_is_known_by_each_thing_that_decides_how_its_requests_end() {
    type Use = fn(&QpHandle<V>, &Fake);
    const AT: RemoteSlice = RemoteSlice { addr: 0, len: 8, rkey: 0 };
    const READ: SendOp<'static, V> = SendOp::Read { from: AT };
    let quiet = |queue: &QpHandle<V>, op| queue.post_quiet(op, nothing()).expect("room");
    let uses: Vec<(Use, usize)> = vec![
        (|_, _| {}, 0),
        (|queue, _| queue.post_quiet(SEND, nothing()).expect("room"), 1),
        (|queue, _| queue.post_quiet(SendOp::Write { to: AT, imm: None }, nothing()).expect("room"), 1),
        (|queue, _| queue.post_quiet(READ, nothing()).expect("room"), 1),
        (|queue, _| queue.post_quiet(SendOp::FetchAdd { at: AT, add: 1 }, nothing()).expect("room"), 1),
        (
            |queue, _| {
                let swap = SendOp::CompareSwap { at: AT, compare: 0, swap: 1 };
                queue.post_quiet(swap, nothing()).expect("room");
            },
            1,
        ),
        // As the first, but it completes by itself; and then once more as the marker of a fence.
        (|queue, _| drop(queue.post(SEND, nothing()).expect("room")), 1),
        (|queue, _| queue.fence(), 1),
        // Somebody waits for it: has not looked yet, or has.
        (|queue, _| std::mem::forget(queue.post(SEND, nothing()).expect("room")), 1),
        (
            |queue, _| {
                let mut pending = queue.post(SEND, nothing()).expect("room");
                let mut cx = Context::from_waker(Waker::noop());
                assert!(std::pin::Pin::new(&mut pending).poll(&mut cx).is_pending());
                std::mem::forget(pending);
            },
            1,
        ),
        (|queue, _| queue.post_to(&CompletionSink::new(), 1, SEND, nothing()).expect("room"), 1),
        (|queue, _| queue.post_to(&CompletionSink::new(), 2, SEND, nothing()).expect("room"), 1),
        (
            |queue, mr| {
                let guard = BufferGuard::Range { mr: mr.clone(), at: 0, len: 8 };
                queue.post_quiet(SEND, Local::Guarded(guard)).expect("room");
            },
            1,
        ),
        (
            |queue, mr| {
                let guard = BufferGuard::Range { mr: mr.clone(), at: 0, len: 16 };
                queue.post_quiet(SEND, Local::Guarded(guard)).expect("room");
            },
            1,
        ),
        (|queue, _| queue.post_recv(&CompletionSink::new(), 1, BufferGuard::Nothing).expect("room"), 1),
        (|queue, _| queue.post_recv(&CompletionSink::new(), 2, BufferGuard::Nothing).expect("room"), 1),
        (
            |queue, _| [SEND, READ].into_iter().for_each(|op| queue.post_quiet(op, nothing()).expect("room")),
            2,
        ),
        (
            |queue, _| [READ, SEND].into_iter().for_each(|op| queue.post_quiet(op, nothing()).expect("room")),
            2,
        ),
        (|queue, _| queue.watch_sends(&Context::from_waker(Waker::noop())), 0),
        (
            |queue, _| {
                queue.post_recv(&CompletionSink::new(), 1, BufferGuard::Nothing).expect("room");
                let drained = std::pin::pin!(queue.drained());
                assert!(drained.poll(&mut Context::from_waker(Waker::noop())).is_pending());
            },
            1,
        ),
    ];
    let tell = |(usage, count): &(Use, usize), before: u32| {
        let bench = Bench::new(Wait::Poll);
        let (queue, another, mr) = (bench.queue(16, 4), bench.queue(16, 4), region(&bench, &[7; 16]));
        // Whatever names and places requests of another queue have taken.
        (0..before).for_each(|_| quiet(&another, SEND));
        usage(&queue, &mr);
        let mut digest = StateHasher::default();
        assert_eq!(queue.fingerprint(&Held { sends: 2, bytes: None }, &mut digest), *count);
        assert_eq!(bench.rt.requests_known(), count + before as usize);
        digest.whole()
    };
    let known: Vec<u128> = uses.iter().map(|usage| tell(usage, 0)).collect();
    for (i, one) in known.iter().enumerate() {
        assert!(!known[..i].contains(one), "{i} is as {:?}", known.iter().position(|other| other == one));
        assert_eq!(tell(&uses[i], 3), *one, "{i}");
    }
}

#[test]
fn a_queue_that_failed_is_known_from_one_that_did_not() {
    let after = |result| {
        let mut bench = Bench::new(Wait::Poll);
        let queue = bench.queue(4, 4);
        drop(queue.post(SEND, nothing()).expect("room"));
        bench.complete(0, result);
        bench.settle();
        assert_eq!(bench.rt.requests_known(), 0);
        known(&queue, Held { sends: 0, bytes: None })
    };
    let unused = Bench::new(Wait::Poll);
    let fresh = known(&unused.queue(4, 4), Held { sends: 0, bytes: None });
    assert_eq!(after(Ok(WcOp::Send)), fresh, "how often it was used does not count");
    assert_ne!(after(Err(WcError::RetryExc)), fresh);
}

/// Results of requests that have ended at the adapter are in memory, and the program may look at them soon. Of the
/// others, and of what is only sent, memory says nothing.
#[test]
fn of_the_memory_of_sends_the_results_of_those_that_ended_are_known() {
    const AT: RemoteSlice = RemoteSlice { addr: 0, len: 8, rkey: 0 };
    let ops: [(SendOp<'static, V>, bool); 5] = [
        (SendOp::Read { from: AT }, true),
        (SendOp::FetchAdd { at: AT, add: 1 }, true),
        (SendOp::CompareSwap { at: AT, compare: 0, swap: 1 }, true),
        (SEND, false),
        (SendOp::Write { to: AT, imm: None }, false),
    ];
    for (op, fetches) in ops {
        let bench = Bench::new(Wait::Poll);
        let (queue, memory) = (bench.queue(16, 4), region(&bench, &[0; 24]));
        for at in [0, 8, 16] {
            let guard = BufferGuard::Range { mr: memory.clone(), at, len: 8 };
            queue.post_quiet(op, Local::Guarded(guard)).expect("room");
        }
        for sends in 0..=4 {
            let now = || known(&queue, Held { sends, bytes: None });
            for n in 0..3 {
                let before = now();
                memory.write(8 * n + 7, &[1]).expect("within");
                let ended = n + (sends as usize) < 3;
                assert_eq!(now() != before, fetches && ended, "{sends} have not ended, of {n}");
                memory.write(8 * n + 7, &[0]).expect("within");
                assert_eq!(now(), before);
            }
        }
    }
}
