//! Scenario files as a stranger may write them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_check::fuzz::scenario(data));
