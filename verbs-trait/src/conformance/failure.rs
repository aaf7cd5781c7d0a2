//! How a case fails: in words, with the place, and never by panicking.

use super::HarnessCaps;
use crate::{Caps, PostError, VerbsError};
use std::fmt;
use std::panic::Location;

/// A case's outcome.
pub(super) type Outcome<T = ()> = std::result::Result<T, Failure>;

/// Why a case did not pass.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The backend broke its promise.
    Broken {
        /// What was expected and what was seen.
        text: String,
        /// Where in the suite.
        at: &'static Location<'static>,
    },
    /// The case found out that backend or harness lacks something that it needs.
    Lacking {
        /// What the backend lacks.
        caps: Caps,
        /// What the harness lacks.
        harness_caps: HarnessCaps,
    },
}

impl Failure {
    /// A broken promise, in words.
    #[track_caller]
    pub fn new(text: impl Into<String>) -> Failure {
        Failure::Broken { text: text.into(), at: Location::caller() }
    }

    pub(crate) fn lacks(harness_caps: HarnessCaps) -> Failure {
        Failure::Lacking { caps: Caps::empty(), harness_caps }
    }

    /// The same failure, with more words behind.
    pub(crate) fn and(self, more: impl fmt::Display) -> Failure {
        match self {
            Failure::Broken { text, at } => Failure::Broken { text: format!("{text} {more}"), at },
            lacking => lacking,
        }
    }

    /// The same failure, with the circumstances in front.
    pub(crate) fn during(self, circumstances: impl fmt::Display) -> Failure {
        match self {
            Failure::Broken { text, at } => Failure::Broken { text: format!("{circumstances}: {text}"), at },
            lacking => lacking,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Broken { text, at } => {
                let file = at.file().rsplit('/').next().unwrap_or_default();
                write!(f, "{text} ({file}:{})", at.line())
            }
            Failure::Lacking { caps, harness_caps } if harness_caps.is_empty() => write!(f, "lacks {caps}"),
            Failure::Lacking { caps, harness_caps } if caps.is_empty() => {
                write!(f, "the harness cannot: {harness_caps}")
            }
            Failure::Lacking { caps, harness_caps } => {
                write!(f, "lacks {caps}; the harness cannot: {harness_caps}")
            }
        }
    }
}

impl From<VerbsError> for Failure {
    #[track_caller]
    fn from(why: VerbsError) -> Failure {
        Failure::new(format!("a call was refused: {why}"))
    }
}

impl From<PostError> for Failure {
    #[track_caller]
    fn from(why: PostError) -> Failure {
        Failure::new(format!("a post was refused: {why}"))
    }
}

/// Fails the case unless a condition holds.
macro_rules! check {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err($crate::conformance::Failure::new(format!($($text)+)));
        }
    };
}

/// Fails the case unless two values are equal.
macro_rules! check_eq {
    ($seen:expr, $expected:expr, $($text:tt)+) => {{
        let (seen, expected) = (&$seen, &$expected);
        if seen != expected {
            let text = format!($($text)+);
            return Err($crate::conformance::Failure::new(format!(
                "{text}: expected {expected:?}, saw {seen:?}"
            )));
        }
    }};
}

/// Fails the case unless a call is refused with an error of this shape.
macro_rules! check_refused {
    ($call:expr, $error:pat $(if $guard:expr)?, $($text:tt)+) => {
        match $call {
            Err($error) $(if $guard)? => {}
            Err(other) => {
                let text = format!($($text)+);
                return Err($crate::conformance::Failure::new(format!(
                    "{text}: expected {}, saw {other:?}", stringify!($error)
                )));
            }
            Ok(_) => {
                let text = format!($($text)+);
                return Err($crate::conformance::Failure::new(format!(
                    "{text}: expected {}, and it was accepted", stringify!($error)
                )));
            }
        }
    };
}

pub(crate) use {check, check_eq, check_refused};
