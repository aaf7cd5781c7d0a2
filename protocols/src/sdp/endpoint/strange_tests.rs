//! A peer that says anything at any time: it is refused, and nothing panics.

use super::random::World;
use crate::sdp::endpoint::{Endpoint, Failure, Outgoing};
use crate::sdp::message::{Greeting, Handle, Header, Message};
use crate::sdp::{Mode, Refusal};
use proptest::prelude::*;
use weft_verbs::RemoteSlice;

/// A number as it should be, or next to it, or anything.
#[derive(Clone, Copy, Debug)]
enum Number {
    Right,
    Off(i8),
    Any(u64),
}

impl Number {
    fn near(self, right: u64) -> u64 {
        match self {
            Number::Right => right,
            Number::Off(by) => right.wrapping_add_signed(by.into()),
            Number::Any(number) => number,
        }
    }
}

fn number() -> impl Strategy<Value = Number> {
    let edges = prop_oneof![Just(0), Just(1), Just(u64::from(u32::MAX)), Just(u64::MAX), any::<u64>()];
    prop_oneof![6 => Just(Number::Right), 2 => (-2i8..3).prop_map(Number::Off), 1 => edges.prop_map(Number::Any)]
}

/// What a peer says: which message, with which numbers in place of the right ones.
#[derive(Clone, Copy, Debug)]
struct Strange {
    kind: u8,
    grant: Number,
    acked: Number,
    at: Number,
    start: Number,
    len: Number,
}

impl Strange {
    fn message(self, end: &Endpoint) -> Message<'static> {
        const BYTES: &[u8] = b"twenty bytes or less";
        let (credits, sent) = (u64::from(end.peer.buffers), end.sent);
        let header = Header {
            to: Handle { place: 1, use_of: 0 },
            grant: self.grant.near(credits) as u32,
            acked: self.acked.near(sent),
            at: self.at.near(end.expected),
        };
        let len = self.len.near(10) as u32;
        let range = RemoteSlice { addr: self.start.near(0), len, rkey: 1 };
        let to = header.to;
        let greeting = Greeting { from: to, buffers: len, buffer_bytes: len, adverts: len };
        match self.kind {
            0 | 1 => Message::Data { header, bytes: &BYTES[..(len as usize).min(BYTES.len())] },
            2 | 3 => Message::SrcAvail { header, source: range },
            4 | 5 => Message::SinkAvail { header, start: self.start.near(sent), sink: range },
            6 => Message::RdmaRdCompl { header, len },
            7 => Message::RdmaWrCompl { header, len },
            8 => Message::SrcAvailCancel { header },
            9 => Message::SendSm { header },
            10 => Message::SinkAvailCancel { header },
            11 => Message::SinkCancelAck { header },
            12 => Message::ModeChange { header, mode: [Mode::Buffered, Mode::Combined][len as usize % 2] },
            13 => Message::ChRcvBuf { header, bytes: len },
            14 => Message::ChRcvBufAck { header, bytes: len },
            15 => Message::DisConn { header },
            16 => Message::Hello { id: 1, port: 1, from_port: 1, greeting },
            17 => Message::HelloAck { to, greeting },
            18 => Message::Reject { to, why: Refusal::Unfit },
            19 => Message::Probe,
            20 => Message::AckRecv { rail: None },
            _ => Message::AbortConn { to, moved: len > 10 },
        }
    }
}

fn strange() -> impl Strategy<Value = Strange> {
    (0u8..22, number(), number(), number(), number(), number())
        .prop_map(|(kind, grant, acked, at, start, len)| Strange { kind, grant, acked, at, start, len })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// An end that takes a message which contradicts its state says so, fails as the service has it fail, says `AbortConn` once, and
    /// nothing after it.
    #[test]
    fn whatever_a_peer_says_an_end_answers_or_aborts(
        buffers in 4u32..6,
        steps in prop::collection::vec((0u8..23, 0usize..2), 0..60),
        said in prop::collection::vec((strange(), 0u8..23), 1..40),
    ) {
        let mut world = World::new(buffers);
        for (kind, at) in steps {
            world.step(kind, at);
        }
        for (strange, kind) in said {
            let end = &mut world.ends[0];
            let message = strange.message(end);
            let failed = end.failure().is_some();
            let taken = world.hear(0, &message);
            prop_assert!(!failed || taken, "one that has failed takes whatever comes: {message:?}");
            // Its user goes on, too.
            world.step(6 + kind % 17, 0);
        }
        let end = &mut world.ends[0];
        end.fail(Failure::Reset, true);
        end.set_reading(false);
        end.end_write(0);
        let says: Vec<Outgoing> = std::iter::from_fn(|| end.next()).collect();
        let aborts = |say: &&Outgoing| matches!(say, Outgoing::AbortConn { .. });
        prop_assert_eq!(says.iter().filter(aborts).count(), says.len(), "nothing else is said: {:?}", says);
        prop_assert!(says.len() <= 1);
    }

    /// Bytes that are no message are none, and none of them is a panic.
    #[test]
    fn any_bytes_are_a_message_or_none(kind: u8, bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let bytes: Vec<u8> = [kind, 0, 0, 0].into_iter().chain(bytes).collect();
        if let Some(message) = Message::decode(&bytes) {
            let mut again = Vec::new();
            message.encode(&mut again);
            prop_assert_eq!(Message::decode(&again), Some(message));
        }
    }
}
