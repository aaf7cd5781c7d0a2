//! What the fuzz targets do with their bytes.
//!
//! A fuzzer that is guided by coverage mutates bytes and keeps those that reach new code. Here bytes are answers:
//! each [target](crate::fuzz_targets) hands them to a [`Bytes`](weft_sim::choice::Bytes), asks it for everything that
//! shapes its input, and panics if a promise is broken. The entry points for `cargo fuzz` are in `fuzz/`, which needs a
//! nightly toolchain; the corpora there are run by `cargo test` as well.

mod adapter;
mod scenario;
mod system;

pub use adapter::adapter;
pub use scenario::scenario;
pub use system::system;

/// A body: it panics if a promise is broken.
pub type Body = fn(&[u8]);

/// A target: its name, which is that of its entry point and of its corpus' folder, and its body. Systems have one each, by their
/// kinds (see [`fuzz_targets`](crate::fuzz_targets)); these are the others.
pub const TARGETS: [(&str, Body); 2] = [("adapter", adapter), ("scenario", scenario)];
