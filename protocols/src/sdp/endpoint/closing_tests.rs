//! Two ends with the fewest buffers that both close, in every order of what happens: none lacks a credit for its last word.

use super::super::{Endpoint, Event, Failure, Outgoing};
use super::{exchange, message, offer, pair};
use crate::sdp::message::Message;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use weft_verbs::RemoteSlice;

const RANGE: RemoteSlice = RemoteSlice { addr: 0, len: 20, rkey: 1 };

/// What one end's user still does beside reading: each of these once, or as often as it says.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Script {
    writes: u8,
    offers: u8,
    wants: bool,
    recalls: bool,
    resizes: bool,
    closes: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    ends: [Endpoint; 2],
    scripts: [Script; 2],
    unread: [u8; 2],
    sources: [u8; 2],
    to: [VecDeque<Message<'static>>; 2],
}

impl World {
    fn flush(&mut self, at: usize) {
        while let Some(outgoing) = self.ends[at].next() {
            self.to[1 - at].push_back(message(outgoing));
        }
    }

    fn deliver(&mut self, at: usize) -> bool {
        let Some(message) = self.to[at].pop_front() else { return false };
        assert!(!self.ends[at].is_over(), "{message:?} comes late");
        match self.ends[at].on_message(&message).expect("an honest peer") {
            Event::Data => self.unread[at] += 1,
            Event::Source(_) => self.sources[at] += 1,
            _ => {}
        }
        self.flush(at);
        true
    }

    fn read(&mut self, at: usize) -> bool {
        if self.unread[at] > 0 {
            self.unread[at] -= 1;
            self.ends[at].consumed();
        } else if self.sources[at] > 0 {
            self.sources[at] -= 1;
            self.ends[at].source_read();
        } else {
            return false;
        }
        self.flush(at);
        true
    }

    /// The user does the next thing of its script of this kind, if it may: whether it did.
    fn act(&mut self, at: usize, kind: u8) -> bool {
        let (end, script) = (&mut self.ends[at], &mut self.scripts[at]);
        match kind {
            0 if script.writes > 0 && end.may_write() => {
                script.writes -= 1;
                let header = end.data(1);
                self.to[1 - at].push_back(Message::Data { header, bytes: b"x" });
            }
            1 if script.offers > 0 && end.may_offer() => {
                script.offers -= 1;
                let offered = message(end.offer(RANGE));
                self.to[1 - at].push_back(offered);
            }
            2 if script.wants && end.may_want() => {
                script.wants = false;
                let wanted = message(end.want(RANGE));
                self.to[1 - at].push_back(wanted);
            }
            3 if script.recalls && end.wanted() > 0 => {
                script.recalls = false;
                end.recall_wants();
            }
            4 if script.resizes && end.resize(4) => script.resizes = false,
            5 if script.closes => {
                script.closes = false;
                end.shutdown();
            }
            _ => return false,
        }
        self.flush(at);
        true
    }

    fn step(&self, at: usize, kind: u8) -> Option<World> {
        let mut next = self.clone();
        let done = match kind {
            0..=5 => next.act(at, kind),
            6 => next.deliver(at),
            _ => next.read(at),
        };
        done.then_some(next)
    }

    /// All arrives, and all is read; then both close.
    fn end(mut self) -> World {
        for last in [false, true] {
            if last {
                for at in 0..2 {
                    self.act(at, 5);
                }
            }
            while (0..2).any(|at| self.deliver(at) || self.read(at)) {}
        }
        self
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// Every order of these scripts, and from each state on to the end: how many states there were.
fn explored(buffers: u32, scripts: [Script; 2]) -> usize {
    let (unread, sources) = ([0; 2], [0; 2]);
    let first = World { ends: pair(buffers), scripts, unread, sources, to: Default::default() };
    let mut known = BTreeSet::from([first.digest()]);
    let mut left = vec![first];
    while let Some(world) = left.pop() {
        let ended = world.clone().end();
        assert!(ended.ends.iter().all(Endpoint::is_over), "{:?}", ended.ends);
        for (at, kind) in (0..2).flat_map(|at| (0..8).map(move |kind| (at, kind))) {
            left.extend(world.step(at, kind).filter(|next| known.insert(next.digest())));
        }
    }
    known.len()
}

#[test]
fn two_ends_with_the_fewest_buffers_that_both_close_are_over_in_every_order_of_what_happens() {
    let none = Script { writes: 0, offers: 0, wants: false, recalls: false, resizes: false, closes: true };
    let data = Script { writes: 2, ..none };
    let wanting = Script { wants: true, recalls: true, ..none };
    let offering = Script { offers: 1, ..none };
    let resizing = Script { resizes: true, ..none };
    let mut states = 0;
    for scripts in [
        [data, data],
        [data, wanting],
        [wanting, wanting],
        [offering, wanting],
        [offering, data],
        [resizing, wanting],
    ] {
        states += explored(4, scripts);
    }
    assert!(states > 10_000, "{states} states are no exploration");
}

/// The peer has read what was offered and heard the end behind it, so that it is over, when this end fails: its last word is on its way.
#[test]
fn an_end_that_fails_behind_its_end_does_not_wait_for_a_peer_that_is_over() {
    let [mut a, mut b] = pair(8);
    a.shutdown();
    exchange(&mut a, &mut b);
    exchange(&mut b, &mut a);
    offer(&mut b, &mut a, 20);
    b.shutdown();
    assert_eq!(exchange(&mut b, &mut a), [Event::End]);
    a.source_read();
    let last = message(a.next().expect("it tells what it has received"));
    assert!(a.is_over());
    b.fail(Failure::Aborted, true);
    assert!(matches!(b.next(), Some(Outgoing::AbortConn { .. })), "nobody is there to answer it");
    assert!(!b.is_over(), "the peer may still read");
    assert_eq!(b.on_message(&last), Ok(Event::Progress));
    assert!(b.is_over());
}

/// What the peer said of one range says nothing of the next one.
#[test]
fn an_end_that_fails_waits_for_its_peer_while_one_of_its_ranges_may_be_read() {
    let [mut a, mut b] = pair(8);
    offer(&mut b, &mut a, 20);
    offer(&mut b, &mut a, 20);
    a.source_read();
    let first = message(a.next().expect("it tells what it has read"));
    b.fail(Failure::Aborted, true);
    assert_eq!(exchange(&mut b, &mut a), [Event::Aborted]);
    assert_eq!(b.on_message(&first), Ok(Event::Progress));
    assert!(!b.is_over());
    assert_eq!(exchange(&mut a, &mut b), [Event::Progress]);
    assert!(a.is_over() && b.is_over());
}
