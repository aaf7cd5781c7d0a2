//! Two ends that do what their users may, in any order: nobody waits for ever.

use super::super::{Endpoint, Event, Failure, Half, Resize};
use super::{message, pair};
use crate::sdp::Mode;
use crate::sdp::message::Message;
use proptest::prelude::*;
use std::collections::VecDeque;
use weft_verbs::RemoteSlice;

const SOURCE: RemoteSlice = RemoteSlice { addr: 0, len: 20, rkey: 1 };

/// What a user has: data messages that it has not read, advertised ranges that it has not read.
#[derive(Default)]
struct User {
    unread: u32,
    sources: u32,
}

pub(super) struct World {
    pub(super) ends: [Endpoint; 2],
    users: [User; 2],
    /// Messages under way, by their receiver.
    to: [VecDeque<Message<'static>>; 2],
}

impl World {
    pub(super) fn new(buffers: u32) -> World {
        World { ends: pair(buffers), users: Default::default(), to: Default::default() }
    }

    /// Sends what an end says unasked, as it does after everything that happens to it.
    fn flush(&mut self, at: usize) {
        if self.ends[at].may_return_sources() {
            self.ends[at].return_sources(SOURCE.len);
            self.users[at].sources = 0;
        }
        let before = loop {
            let before = self.ends[at].clone();
            let Some(outgoing) = self.ends[at].next() else { break before };
            self.to[1 - at].push_back(message(outgoing));
        };
        assert_eq!(self.ends[at], before, "an end that says nothing stays as it is");
    }

    fn deliver(&mut self, at: usize) -> bool {
        let Some(message) = self.to[at].pop_front() else { return false };
        assert!(self.hear(at, &message), "an honest peer");
        true
    }

    /// A message arrives, whoever made it. One that contradicts the stream's state ends it, as the service has it.
    pub(super) fn hear(&mut self, at: usize, message: &Message<'_>) -> bool {
        let event = self.ends[at].on_message(message);
        match event {
            Ok(Event::Data) => self.users[at].unread += 1,
            Ok(Event::Source(_)) => self.users[at].sources += 1,
            Ok(_) => {}
            Err(_) => self.ends[at].fail(Failure::Aborted, true),
        }
        self.flush(at);
        event.is_ok()
    }

    /// The user reads something that is there.
    fn read(&mut self, at: usize) -> bool {
        let user = &mut self.users[at];
        if user.unread > 0 {
            user.unread -= 1;
            self.ends[at].consumed();
        } else if user.sources > 0 {
            user.sources -= 1;
            self.ends[at].source_read();
        } else {
            return false;
        }
        self.flush(at);
        true
    }

    fn write(&mut self, at: usize, bytes: &'static [u8]) -> bool {
        let end = &mut self.ends[at];
        let bytes = &bytes[..bytes.len().min(end.payload() as usize)];
        let may = end.may_write();
        if may {
            let header = end.data(bytes.len() as u64);
            self.to[1 - at].push_back(Message::Data { header, bytes });
        }
        self.flush(at);
        may
    }

    /// Into a range that the peer wants.
    fn write_there(&mut self, at: usize) {
        if let Some(sink) = self.ends[at].sink() {
            self.ends[at].begin_write();
            self.ends[at].end_write(sink.len);
        }
        self.flush(at);
    }

    pub(super) fn step(&mut self, kind: u8, at: usize) {
        let end = &mut self.ends[at];
        match kind {
            0..=5 => drop(self.deliver(at)),
            6..=8 => drop(self.read(at)),
            9..=11 => drop(self.write(at, b"some bytes")),
            12 if end.may_offer() => {
                let offered = message(end.offer(SOURCE));
                self.to[1 - at].push_back(offered);
            }
            13 if end.may_want() => {
                let wanted = message(end.want(SOURCE));
                self.to[1 - at].push_back(wanted);
            }
            14 => self.write_there(at),
            15 => end.set_mode(Mode::Buffered),
            16 => end.set_mode(Mode::Combined),
            17 => end.set_mode(Mode::Pipelined),
            18 => drop(end.resize(4)),
            19 => drop(end.resize(10)),
            20 => drop(end.recall_offers()),
            21 => end.recall_wants(),
            22 => end.shutdown(),
            _ => {}
        }
        self.flush(at);
    }

    /// All arrives, and all is read.
    fn settle(&mut self) {
        while (0..2).any(|at| self.deliver(at) || self.read(at)) {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// When all has arrived and was read, nothing is left to be told, an end that has not closed its half can write on, and a stream
    /// that both ends have closed is over.
    #[test]
    fn whatever_users_do_nobody_waits_for_ever(
        buffers in 4u32..6,
        steps in prop::collection::vec((0u8..23, 0usize..2), 0..200),
        close in 0usize..4,
    ) {
        let mut world = World::new(buffers);
        for (kind, at) in steps {
            if kind < 22 || close & (1 << at) > 0 {
                world.step(kind, at);
            }
        }
        // What is asked of the other end's protocol needs no user of it: not even one who reads.
        while (0..2).any(|at| world.deliver(at)) {}
        for end in &world.ends {
            prop_assert!(end.mode == end.told_mode || end.ended, "its mode is not told: {end:?}");
            prop_assert!(end.resize == Resize::None && end.resized.is_none(), "{end:?}");
        }
        world.settle();
        if world.ends.iter().all(|end| end.half != Half::Open) {
            prop_assert!(world.ends.iter().all(Endpoint::is_over), "{:?}", world.ends);
        }
        for at in 0..2 {
            let end = &world.ends[at];
            prop_assert!(end.mode == end.told_mode || end.ended, "its mode is not told: {end:?}");
            prop_assert!(end.resize == Resize::None && end.resized.is_none(), "{end:?}");
            prop_assert!(end.read.is_empty() && !end.is_recalling(), "{end:?}");
            prop_assert!(end.half != Half::Closing, "{end:?}");
            for _ in 0..9 {
                if world.ends[at].half == Half::Open {
                    prop_assert!(world.write(at, b"more"), "{:?}", world.ends);
                    world.settle();
                }
            }
        }
    }
}
