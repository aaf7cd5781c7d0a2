//! Shared memory: cluster, calls, faults and order from the bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_check::fuzz::system::<weft_check::systems::dsm::SharedMemory>(data));
