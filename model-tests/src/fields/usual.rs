//! What a field is that nobody writes, in workloads of every kind.

use super::Spread;
use weft_verbs::Nanos;

/// One: clients on each machine, threads, files.
pub fn one() -> u32 {
    1
}

/// No rest.
pub fn no_time() -> Spread {
    Spread::fixed(Nanos::ZERO)
}
