//! The machine under a node: its clock and its random numbers.

use crate::ffi::refused;
use std::cell::Cell;
use std::rc::Rc;
pub use weft_verbs::machine::now;
use weft_verbs::{Clock, Host, Nanos, Result, Work};

/// A real machine. Work that a node names costs what it costs.
#[derive(Clone, Debug)]
pub struct HwHost(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Cell<u64>,
}

impl HwHost {
    pub(crate) fn new() -> Result<HwHost> {
        let seed = getrandom::u64();
        let seed = seed.map_err(|why| refused("getrandom", why.raw_os_error().unwrap_or(libc::EINVAL)))?;
        Ok(HwHost(Rc::new(Inner { state: Cell::new(seed) })))
    }
}

impl Clock for HwHost {
    fn now(&self) -> Nanos {
        now()
    }
}

impl Host for HwHost {
    /// SplitMix64 (Steele, Lea and Flood, 2014), seeded by the operating system: protocols draw back-offs and
    /// incarnations from it, nothing secret.
    fn random(&self) -> u64 {
        let state = self.0.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.state.set(state);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn spend(&self, _work: Work) {}
}
