//! A lock scheme by its name.

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use weft_protocols::locks::Scheme;

/// Writes the scheme's name.
pub(super) fn serialize<S: Serializer>(scheme: &Scheme, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(scheme)
}

/// Reads a scheme's name.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Scheme, D::Error> {
    let name = String::deserialize(from)?;
    name.parse().map_err(|_| {
        let known: Vec<String> = Scheme::ALL.iter().map(|scheme| format!("\"{scheme}\"")).collect();
        D::Error::custom(format!("no such lock scheme; there are {}", known.join(", ")))
    })
}
