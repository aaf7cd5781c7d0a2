//! The encoding's promises: every message comes back, every other byte string is refused.

use super::messages::{Claim, Message, Passed, Report};
use super::word::Word;
use crate::locks::client::WaitPolicy;
use crate::locks::codec::{LONGEST, Malformed};
use crate::locks::{LockKey, Mode, Scheme};
use crate::transport::Rank;
use proptest::prelude::*;
use weft_verbs::RemoteSlice;

fn rank() -> impl Strategy<Value = Rank> {
    (1..=u32::MAX).prop_map(|n| Rank::new(n).unwrap())
}

fn word() -> impl Strategy<Value = RemoteSlice> {
    any::<(u64, u32)>().prop_map(|(addr, rkey)| RemoteSlice { addr: addr & !7, len: 8, rkey })
}

fn claim() -> impl Strategy<Value = Claim> {
    prop_oneof![
        Just(Claim::Nothing),
        Just(Claim::Holds(Mode::Shared)),
        Just(Claim::Holds(Mode::Exclusive)),
        Just(Claim::WantsShared),
        any::<u64>().prop_map(|w| Claim::WantsExclusive { over: Word(w) }),
    ]
}

fn report() -> impl Strategy<Value = Report> {
    (claim(), any::<u32>(), proptest::option::of((rank(), any::<u32>()))).prop_map(|(claim, turn, passed)| {
        Report { claim, turn, passed: passed.map(|(who, turn)| Passed { who, turn }) }
    })
}

fn message() -> impl Strategy<Value = Message> {
    let n = any::<u32>;
    prop_oneof![
        Just(Message::Open { policy: WaitPolicy::Queue }),
        Just(Message::Open { policy: WaitPolicy::Try }),
        (n(), word()).prop_map(|(epoch, word)| Message::Opened { epoch, word }),
        Just(Message::Refused),
        Just(Message::Busy),
        (n(), n(), n()).prop_map(|(epoch, readers, turn)| Message::Queue { epoch, readers, turn }),
        n().prop_map(|epoch| Message::Read { epoch }),
        n().prop_map(|epoch| Message::Grant { epoch }),
        (n(), rank(), n()).prop_map(|(epoch, who, readers)| Message::Wait { epoch, who, readers }),
        n().prop_map(|epoch| Message::Release { epoch }),
        n().prop_map(|epoch| Message::Downgrade { epoch }),
        n().prop_map(|epoch| Message::RetryReset { epoch }),
        n().prop_map(|epoch| Message::Freeze { epoch }),
        (n(), report()).prop_map(|(epoch, report)| Message::Report { epoch, report }),
        n().prop_map(|epoch| Message::GrantAfterRecovery { epoch }),
        any::<u64>().prop_map(|remaining| Message::Reported { remaining }),
    ]
}

proptest! {
    #[test]
    fn a_message_comes_back_from_its_bytes(key: u64, message in message()) {
        let encoded = message.encode(Scheme::Ncosed, LockKey(key));
        prop_assert!(encoded.bytes().len() <= LONGEST);
        prop_assert_eq!(Message::decode(Scheme::Ncosed, encoded.bytes()), Ok((LockKey(key), message)));
    }

    #[test]
    fn a_message_cut_short_or_with_more_behind_it_is_refused(key: u64, message in message(), cut: u8) {
        let encoded = message.encode(Scheme::Ncosed, LockKey(key));
        let bytes = encoded.bytes();
        let short = &bytes[..usize::from(cut) % bytes.len()];
        prop_assert_eq!(Message::decode(Scheme::Ncosed, short), Err(Malformed::TooShort));
        let mut long = bytes.to_vec();
        long.push(cut);
        prop_assert_eq!(Message::decode(Scheme::Ncosed, &long), Err(Malformed::TooLong(1)));
    }

    #[test]
    fn any_bytes_are_answered_and_what_is_accepted_is_canonical(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..64),
        kind in 0u8..18,
    ) {
        if let [version, scheme, k, zero, ..] = &mut bytes[..] {
            (*version, *scheme, *k, *zero) = (1, 2, kind, 0);
        }
        if let Ok((key, message)) = Message::decode(Scheme::Ncosed, &bytes) {
            let encoded = message.encode(Scheme::Ncosed, key);
            prop_assert_eq!(encoded.bytes(), &bytes[..]);
        }
    }
}

/// Where nobody shares, nobody says so: what only N-CoSED means, DQNL's nodes do not take.
#[test]
fn what_is_about_sharing_is_refused_where_nodes_do_not_share() {
    let key = LockKey(1);
    let report = |claim| Message::Report { epoch: 1, report: Report { claim, turn: 1, passed: None } };
    let queue = |readers| Message::Queue { epoch: 1, readers, turn: 1 };
    let read = |message: Message| Message::decode(Scheme::Dqnl, message.encode(Scheme::Dqnl, key).bytes());
    for message in [
        Message::Read { epoch: 1 },
        Message::Wait { epoch: 1, who: Rank::from_index(0), readers: 1 },
        Message::RetryReset { epoch: 1 },
        Message::Downgrade { epoch: 1 },
        queue(1),
        report(Claim::WantsShared),
        report(Claim::Holds(Mode::Shared)),
    ] {
        assert_eq!(read(message), Err(Malformed::Sharing));
    }
    for message in [queue(0), report(Claim::Holds(Mode::Exclusive)), Message::Grant { epoch: 1 }] {
        assert_eq!(read(message), Ok((key, message)));
    }
    let foreign = Message::Open { policy: WaitPolicy::Queue }.encode(Scheme::Ncosed, key);
    assert_eq!(Message::decode(Scheme::Dqnl, foreign.bytes()), Err(Malformed::Scheme(2)));
}

/// What is not a place for atomics is refused where it comes in, and not by an adapter later.
#[test]
fn the_place_of_a_word_is_aligned_and_eight_bytes_long() {
    let read = |addr, len| {
        let opened = Message::Opened { epoch: 1, word: RemoteSlice { addr, len, rkey: 3 } };
        Message::decode(Scheme::Ncosed, opened.encode(Scheme::Ncosed, LockKey(1)).bytes()).map(|_| ())
    };
    assert_eq!(read(64, 8), Ok(()));
    for (addr, len) in [(65, 8), (68, 8), (64, 0), (64, 4), (64, 16), (65, 4)] {
        assert_eq!(read(addr, len), Err(Malformed::Value("the place of a word")), "{len} bytes at {addr}");
    }
}

#[test]
fn other_versions_schemes_and_kinds_are_refused_by_name() {
    let bytes = Message::Open { policy: WaitPolicy::Queue }.encode(Scheme::Ncosed, LockKey(1));
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.bytes().to_vec();
        bytes[at] = value;
        Message::decode(Scheme::Ncosed, &bytes).unwrap_err()
    };
    assert_eq!(with(0, 9), Malformed::Version(9));
    assert_eq!(with(1, 1), Malformed::Scheme(1));
    assert_eq!(with(2, 99), Malformed::Kind(99));
    assert_eq!(with(3, 1), Malformed::Value("the reserved byte"));
}
