//! What explorers are told that a runtime knows: as much as what it does next depends on, and nothing else.

use super::super::content::{Digest, Unseen};
use super::*;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::task::{Context, Waker};
use verbs_trait::{MemoryRegion, ProtectionDomain, QpNum};

/// What an adapter holds and its program cannot know: this many sends, and so many bytes of the first message.
struct Held {
    sends: u32,
    bytes: Option<u32>,
}

impl Unseen for Held {
    fn unended_sends(&self, _qp: QpNum) -> u32 {
        self.sends
    }

    fn arrived(&self, _qp: QpNum, n: usize) -> Option<u32> {
        self.bytes.filter(|_| n == 0)
    }
}

fn digest(of: impl Hash) -> u128 {
    let mut digest = Digest::default();
    of.hash(&mut digest);
    digest.whole()
}

fn content(of: &Lease<V>, range: Range<u32>) -> u128 {
    let mut digest = Digest::default();
    of.content(range, &mut digest);
    digest.whole()
}

fn known(queue: &Queue<V>, held: Held) -> u128 {
    let mut digest = Digest::default();
    queue.content(&held, &mut digest);
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
    let mut finished = Digest::default();
    7u64.hash(&mut finished);
    assert_eq!(finished.finish(), digest(7u64) as u64);
}

#[test]
fn a_lease_is_known_by_the_bytes_asked_for_wherever_they_are() {
    let bench = Bench::new(Wait::Poll);
    let bytes: Vec<u8> = (0..150).collect();
    let shifted: Vec<u8> = [9; 40].into_iter().chain(bytes.iter().copied()).collect();
    let (here, there) = (region(&bench, &bytes), region(&bench, &shifted));
    let lease = |mr: &Fake, at| Lease::Range { mr: mr.clone(), at, len: 150 };
    let before = content(&lease(&here, 0), 0..150);
    assert_eq!(content(&lease(&there, 40), 0..150), before);
    assert_eq!(content(&lease(&here, 0), 0..1_000), before, "it has no more");
    assert_ne!(content(&lease(&there, 39), 0..150), before);
    for at in [0, 63, 64, 127, 128, 149] {
        here.write(at, &[255]).expect("within");
        assert_ne!(content(&lease(&here, 0), 0..150), before, "byte {at}");
        assert_eq!(content(&lease(&here, 0), 0..at as u32), content(&lease(&there, 40), 0..at as u32));
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
    queue.post_recv(&Sink::new(), 7, Lease::Nothing).expect("room");
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
    queue.post_recv(&Sink::new(), 7, Lease::Range { mr: buffer.clone(), at: 0, len: 16 }).expect("room");
    let with = |bytes| known(&queue, Held { sends: 0, bytes });
    let (nothing, five) = (with(None), with(Some(5)));
    buffer.write(5, &[2]).expect("within");
    assert_eq!((with(None), with(Some(5))), (nothing, five));
    buffer.write(4, &[2]).expect("within");
    assert_eq!(with(None), nothing);
    assert_ne!(with(Some(5)), five);
}
