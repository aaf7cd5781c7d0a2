//! Sockets: cluster, transfers, faults and order from the bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_check::fuzz::system::<weft_check::systems::sdp::Sockets>(data));
