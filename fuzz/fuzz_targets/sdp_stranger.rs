//! Sockets: what a peer says, whatever that is, from the bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_check::systems::sdp::stranger(data));
