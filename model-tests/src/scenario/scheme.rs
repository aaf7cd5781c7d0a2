//! A lock scheme by its name.

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use std::{fmt, str::FromStr};

/// Stand-in until the lock service is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// A server that queues.
    Srsl,
    /// Remote atomics.
    Ncosed,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Scheme; 2] = [Scheme::Srsl, Scheme::Ncosed];
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scheme::Srsl => "srsl",
            Scheme::Ncosed => "ncosed",
        })
    }
}

impl FromStr for Scheme {
    type Err = String;
    fn from_str(s: &str) -> Result<Scheme, String> {
        Scheme::ALL.into_iter().find(|x| x.to_string() == s).ok_or_else(|| format!("no such scheme: {s}"))
    }
}

/// Writes the scheme's name.
pub(super) fn serialize<S: Serializer>(scheme: &Scheme, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(scheme)
}

/// Reads a scheme's name.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Scheme, D::Error> {
    let name = String::deserialize(from)?;
    name.parse().map_err(|_| {
        let known: Vec<String> = Scheme::ALL.iter().map(|scheme| format!("\"{scheme}\"")).collect();
        D::Error::custom(format!("no such lock scheme; there are {}", known.join(" and ")))
    })
}
