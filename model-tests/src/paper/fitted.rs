//! What was fitted to a paper's figures.

use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt;
use weft_sim::profile::Profile;

/// A constant that was fitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// The figure's full name in the profile.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// The value's unit.
    pub unit: &'static str,
    /// To what it was fitted.
    pub source: String,
}

impl Fitted {
    /// The constants of a profile that were fitted.
    pub fn of(profile: &Profile) -> Vec<Fitted> {
        let figures = profile.figures().iter().filter(|figure| figure.fitted);
        let fitted = |figure: &weft_sim::profile::Figure| Fitted {
            name: figure.name.to_string(),
            value: figure.value,
            unit: figure.unit,
            source: figure.source.to_string(),
        };
        figures.map(fitted).collect()
    }
}

impl fmt::Display for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fitted { name, value, unit, source } = self;
        write!(f, "{name} = {value} {unit} ({source})")
    }
}

impl Serialize for Fitted {
    /// The value's key carries its unit, as the keys of all reports do: `value_ns`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry(&format!("value_{}", self.unit), &self.value)?;
        map.serialize_entry("source", &self.source)?;
        map.end()
    }
}
