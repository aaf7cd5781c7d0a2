//! What every file of cases uses.

pub(super) use crate::conformance::failure::{check, check_eq, check_refused};
pub(super) use crate::conformance::pair::{ALL_RIGHTS, End, Pair, Setup, pattern, retries, rnr_at_least};
pub(super) use crate::conformance::report::cases;
pub(super) use crate::conformance::{
    Act, Failure, Fault, Harness, HarnessCaps, Outcome, PacketClass, TestBed,
};
pub(super) use crate::*;
