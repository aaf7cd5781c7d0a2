//! Files: messages between clients and servers, and the directory's log, from the bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_protocols::pario::read_anything(data));
