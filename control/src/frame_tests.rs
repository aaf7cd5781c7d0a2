//! Decoders, fed with anything.

use super::*;
use crate::secret::{End, NONCE, Secret, Shared};
use proptest::prelude::*;

fn seal() -> Seal {
    let shared = Shared { version: 1, coordinator: [1; NONCE], caller: [2; NONCE] };
    Secret::of(&[9; 32]).seal(End::Caller, &shared)
}

const MOST: usize = 300;

/// Feeds a decoder in pieces; what it finds, and the most memory that it held.
fn feed(decoder: &mut Decoder, bytes: &[u8], pieces: &[usize]) -> (Vec<Frame>, Option<FrameError>, usize) {
    let (mut found, mut held, mut rest) = (Vec::new(), 0, bytes);
    let mut pieces = pieces.iter().copied().cycle();
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(pieces.next().unwrap_or(1).clamp(1, rest.len()));
        rest = tail;
        decoder.push(piece);
        held = held.max(decoder.held());
        loop {
            match decoder.take_frame() {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(why) => return (found, Some(why), held),
            }
        }
    }
    (found, None, held)
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Control), Just(Kind::Data)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_messages_or_an_error_within_bounded_memory(
        bytes in prop::collection::vec(any::<u8>(), 0..4_096),
        pieces in prop::collection::vec(1_usize..600, 1..8),
        sealed in any::<bool>(),
    ) {
        let mut decoder = Decoder::new(MOST);
        if sealed {
            decoder.seal(seal(), MOST);
        }
        let (found, _, held) = feed(&mut decoder, &bytes, &pieces);
        prop_assert!(found.iter().all(|frame| frame.body.len() <= MOST));
        prop_assert!(held <= LENGTH + MOST + 1 + SEAL + CHUNK, "{held} bytes are held");
    }

    #[test]
    fn what_is_written_is_read_however_it_is_cut(
        frames in prop::collection::vec((kind(), prop::collection::vec(any::<u8>(), 0..=MOST)), 0..8),
        pieces in prop::collection::vec(1_usize..600, 1..8),
    ) {
        let (mut bytes, mut sealer) = (Vec::new(), seal());
        for (kind, body) in &frames {
            encode(*kind, body, MOST, Some(&mut sealer), &mut bytes).expect("it is short enough");
        }
        let mut decoder = Decoder::new(0);
        decoder.seal(seal(), MOST);
        let (found, why, _) = feed(&mut decoder, &bytes, &pieces);
        let found: Vec<_> = found.into_iter().map(|frame| (frame.kind, frame.body)).collect();
        prop_assert_eq!((found, why), (frames, None));
    }

    #[test]
    fn one_changed_bit_is_never_taken_for_a_message(
        body in prop::collection::vec(any::<u8>(), 0..=MOST),
        place in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let mut bytes = Vec::new();
        encode(Kind::Data, &body, MOST, Some(&mut seal()), &mut bytes).expect("it is short enough");
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        let mut decoder = Decoder::new(MOST);
        decoder.seal(seal(), MOST);
        prop_assert_eq!(feed(&mut decoder, &bytes, &[4_096]).0, Vec::new());
    }
}

#[test]
fn a_message_of_four_gigabytes_is_refused_by_its_length() {
    let mut decoder = Decoder::new(MOST);
    decoder.push(&[0xFF; 4]);
    let why = decoder.take_frame().expect_err("nobody has so much memory");
    assert_eq!(why.to_string(), "it announced a message of 4294967294 bytes, and at most 300 are taken");
}

#[test]
fn a_body_that_is_too_long_is_not_sent() {
    let mut bytes = Vec::new();
    let why = encode(Kind::Control, &[0; MOST + 1], MOST, None, &mut bytes);
    assert_eq!((why, bytes.len()), (Err(FrameError::TooLong { length: 301, most: MOST }), 0));
}
