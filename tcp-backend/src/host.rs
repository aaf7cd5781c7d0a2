//! The machine under a node: its clock and its random numbers.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
pub use weft_verbs::machine::now;
use weft_verbs::{Clock, Host, Nanos, Result, VerbsError, Work};

/// A real machine. Work that a node names costs what it costs.
#[derive(Clone, Debug)]
pub struct TcpHost(Rc<RefCell<Xoshiro256PlusPlus>>);

impl TcpHost {
    /// Seeded by the operating system: protocols draw back-offs and incarnations from it, nothing secret.
    pub(crate) fn new() -> Result<TcpHost> {
        let mut seed = [0; 32];
        let errno = |why: getrandom::Error| why.raw_os_error().unwrap_or(22);
        getrandom::fill(&mut seed).map_err(|why| VerbsError::Os { call: "getrandom", errno: errno(why) })?;
        Ok(TcpHost(Rc::new(RefCell::new(Xoshiro256PlusPlus::from_seed(seed)))))
    }
}

impl Clock for TcpHost {
    fn now(&self) -> Nanos {
        now()
    }
}

impl Host for TcpHost {
    fn random(&self) -> u64 {
        self.0.borrow_mut().next_u64()
    }

    fn spend(&self, _work: Work) {}
}
