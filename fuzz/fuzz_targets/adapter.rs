//! Two adapters under forged, lost and repeated packets.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_check::fuzz::adapter(data));
