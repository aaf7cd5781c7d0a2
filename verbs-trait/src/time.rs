//! Time as a node sees it.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// A point in time or a span of it, in nanoseconds.
///
/// On the simulated fabric this is virtual time since the world began; on hardware it is a monotonic
/// clock's reading since the process began. Arithmetic saturates, so that `Nanos::MAX` means "never".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The beginning of time, or no time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// Never.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000))
    }

    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000_000))
    }

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Nanos {
        Nanos(n.saturating_mul(1_000_000_000))
    }

    /// The span in microseconds, for people to read.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The span in seconds, for rates.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Nanos {
    type Output = Nanos;
    fn mul(self, by: u64) -> Nanos {
        Nanos(self.0.saturating_mul(by))
    }
}

impl Div<u64> for Nanos {
    type Output = Nanos;
    fn div(self, by: u64) -> Nanos {
        Nanos(self.0 / by)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        let text = match n {
            u64::MAX => "never".to_string(),
            0..1_000 => format!("{n} ns"),
            1_000..1_000_000 => format!("{:.2} us", n as f64 / 1e3),
            1_000_000..1_000_000_000 => format!("{:.2} ms", n as f64 / 1e6),
            _ => format!("{:.3} s", n as f64 / 1e9),
        };
        f.pad(&text)
    }
}

/// A clock that never runs backwards. On a real machine it counts the time for which the machine is suspended: leases of members run by it.
pub trait Clock {
    /// The time now. In simulation, a node's own time: it runs ahead of the fabric's by what the node's
    /// processor has spent since its step began.
    fn now(&self) -> Nanos;
}
