//! A world's size: what a user may choose about it. The explorer passes it on and never looks inside.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use thiserror::Error;

/// A size as users write it: values by their keys. What is absent is the world's own choice.
///
/// A world parses it into a type of its own, and says it whole again; so a failure file names a size that no later default
/// can change.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Size(BTreeMap<String, Value>);

/// A value of a size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(u32),
    /// Text in the world's own words.
    Text(String),
}

/// A key that a world's size has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// What its value says, in a few words.
    pub help: &'static str,
}

/// A world cannot be built like that.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SizeError(pub String);

impl Size {
    /// A size of these values.
    pub fn new<K: Into<String>, V: Into<Value>>(values: impl IntoIterator<Item = (K, V)>) -> Size {
        Size(values.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// Whether nothing is chosen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Chooses a value.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(key.into(), value.into());
    }

    /// The number of a key, if it is chosen.
    ///
    /// # Errors
    ///
    /// The value is text.
    pub fn number(&self, key: &str) -> Result<Option<u32>, SizeError> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(*number)),
            Some(Value::Text(text)) => Err(SizeError(format!("{key} is a number, not '{text}'"))),
        }
    }

    /// The value of a key if it is in bounds.
    ///
    /// # Errors
    ///
    /// It is not.
    pub fn within(&self, key: &str, value: u32, bounds: RangeInclusive<u32>) -> Result<u32, SizeError> {
        match bounds.contains(&value) {
            true => Ok(value),
            false => Err(SizeError(format!(
                "{key} is {value}, and must be {} to {}",
                bounds.start(),
                bounds.end()
            ))),
        }
    }

    /// The text of a key, if it is chosen.
    pub fn text(&self, key: &str) -> Option<String> {
        self.0.get(key).map(Value::to_string)
    }

    /// The sizes in which one number is less by one, in the order of the keys. Some may be too small for a world.
    pub fn one_less(&self) -> Vec<Size> {
        let less = |(key, value): (&String, &Value)| {
            let Value::Number(number) = value else { return None };
            let mut smaller = self.clone();
            smaller.set(key, number.checked_sub(1).filter(|number| *number > 0)?);
            Some(smaller)
        };
        self.0.iter().filter_map(less).collect()
    }

    /// Refuses a key that is not among `known`.
    pub(super) fn check(&self, known: &[Key]) -> Result<(), SizeError> {
        let is_known = |key: &str| known.iter().any(|known| known.name == key);
        let Some(strange) = self.0.keys().find(|key| !is_known(key)) else { return Ok(()) };
        let all: Vec<String> = known.iter().map(Key::to_string).collect();
        Err(SizeError(match all.is_empty() {
            true => format!("it has one size only, and no '{strange}'"),
            false => format!("its size has no '{strange}'; it has: {}", all.join(", ")),
        }))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (key, value)) in self.0.iter().enumerate() {
            write!(f, "{}{key}={value}", if number > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.help)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(number)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl FromStr for Value {
    type Err = std::convert::Infallible;

    /// A number if it can be read as one.
    fn from_str(text: &str) -> Result<Value, Self::Err> {
        Ok(text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[Key] =
        &[Key { name: "nodes", help: "how many nodes" }, Key { name: "rounds", help: "how many rounds" }];

    #[test]
    fn a_size_survives_its_text() {
        let size = Size::new([("nodes", Value::from(3)), ("modes", "x,s".into())]);
        let text = toml::to_string(&size).unwrap();
        assert_eq!(text, "modes = \"x,s\"\nnodes = 3\n");
        assert_eq!((toml::from_str(&text), size.to_string()), (Ok(size), "modes=x,s nodes=3".to_owned()));
        assert!(toml::from_str::<Size>("nodes = -1").is_err());
        assert!(toml::from_str::<Size>("nodes = [1]").is_err());
    }

    #[test]
    fn a_smaller_size_has_one_number_less() {
        let size = Size::new([("nodes", Value::from(2)), ("rounds", 1.into()), ("modes", "x".into())]);
        let smaller = Size::new([("nodes", Value::from(1)), ("rounds", 1.into()), ("modes", "x".into())]);
        assert_eq!(size.one_less(), [smaller]);
    }

    #[test]
    fn an_unknown_key_is_told_with_those_that_there_are() {
        assert_eq!(Size::new([("rounds", 2)]).check(KEYS), Ok(()));
        let strange = Size::new([("rouns", 2)]);
        let told = strange.check(KEYS).unwrap_err().to_string();
        assert!(told.contains("'rouns'") && told.contains("rounds (how many rounds)"), "{told}");
        assert!(strange.check(&[]).is_err());
    }

    #[test]
    fn a_value_is_read_as_a_number_where_it_is_one() {
        let read = |text: &str| text.parse::<Value>().unwrap();
        assert_eq!((read("4"), read("x,s"), read("-4")), (4.into(), "x,s".into(), "-4".into()));
        let size = Size::new([("nodes", "x")]);
        assert!(size.number("nodes").is_err() && size.number("rounds") == Ok(None));
    }
}
