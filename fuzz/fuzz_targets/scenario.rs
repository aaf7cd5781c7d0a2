//! Scenario files as a stranger may write them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| model_tests::fuzz::scenario(data));
