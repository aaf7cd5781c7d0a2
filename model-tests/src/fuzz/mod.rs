//! What the fuzz targets do with their bytes.
//!
//! A fuzzer that is guided by coverage mutates bytes and keeps those that reach new code. Here bytes are answers:
//! each [`target`](TARGETS) hands them to a [`Bytes`](weft_sim::choice::Bytes), asks it for everything that
//! shapes its input, and panics if a promise is broken. The entry points for `cargo fuzz` are in `fuzz/`, which needs a
//! nightly toolchain; the corpora there are run by `cargo test` as well.

mod adapter;
mod locks;
mod scenario;

pub use adapter::adapter;
pub use locks::locks;
pub use scenario::scenario;

/// A body: it panics if a promise is broken.
pub type Body = fn(&[u8]);

/// Every target by its name, which is that of its entry point and of its corpus' folder.
pub const TARGETS: [(&str, Body); 3] = [("adapter", adapter), ("locks", locks), ("scenario", scenario)];
