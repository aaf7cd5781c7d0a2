//! The machine under a node: its clock and its random numbers.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Instant;
use weft_verbs::{Clock, Host, Nanos, Result, VerbsError, Work};

/// A real machine. Work that a node names costs what it costs.
#[derive(Clone, Debug)]
pub struct TcpHost(Rc<RefCell<Xoshiro256PlusPlus>>);

/// Time since the process first asked: the clock of every [`TcpHost`].
pub fn now() -> Nanos {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let span = BEGAN.get_or_init(Instant::now).elapsed();
    Nanos(span.as_nanos().try_into().unwrap_or(u64::MAX))
}

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
