//! Two adapters under forged, lost and repeated packets.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| model_tests::fuzz::adapter(data));
