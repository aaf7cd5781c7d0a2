//! Fields that a command line gives instead of the file: `workload.scheme=srsl`.

use super::ScenarioError;
use crate::fields::Step;
use std::borrow::Cow;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One field of a scenario, with a value instead of the file's: `cluster.nodes=4`, `faults.1.lasts=2ms`.
///
/// The value is TOML; what is no TOML is text, so that quotes may be left out. The fields of a list are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    text: String,
    path: Vec<Step>,
    /// The value as a line of TOML that a parser can borrow from.
    line: String,
}

impl FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> Result<Override, String> {
        let wrong = || "a field and its value are written as in workload.requests=20".to_string();
        let (path, value) = text.split_once('=').ok_or_else(wrong)?;
        let step = |name: &str| match name.trim().parse::<usize>() {
            Ok(number) => {
                number.checked_sub(1).map(Step::Item).ok_or("the fields of a list are counted from 1")
            }
            Err(_) => Ok(Step::Field(name.trim().to_owned())),
        };
        let path = path.split('.').map(step).collect::<Result<Vec<_>, _>>()?;
        if path.iter().any(|step| matches!(step, Step::Field(name) if name.is_empty())) {
            return Err(wrong());
        }
        let value = value.trim();
        let line = format!("v = {value}");
        let line =
            if DeTable::parse(&line).is_ok() { line } else { format!("v = {}", toml::Value::from(value)) };
        Ok(Override { text: text.to_owned(), path, line })
    }
}

impl Override {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Puts the value into a document, as if it stood at byte `at` and the next one.
    pub(super) fn apply<'a>(&'a self, root: &mut DeTable<'a>, at: usize) -> Result<(), ScenarioError> {
        let refused = |why: &str| ScenarioError::Override { text: self.text.clone(), why: why.to_owned() };
        let value = DeTable::parse(&self.line).map_err(|why| refused(why.message()))?.into_inner();
        let (_, value) = value.into_iter().next().ok_or_else(|| refused("it has no value"))?;
        let (last, way) = self.path.split_last().ok_or_else(|| refused("it names no field"))?;
        let mut table = root;
        let mut steps = way.iter();
        while let Some(step) = steps.next() {
            let Step::Field(name) = step else {
                return Err(refused("a number comes after the name of a list"));
            };
            let key = Spanned::new(at..at + 1, Cow::Borrowed(name.as_str()));
            let entry = table.entry(key).or_insert_with(|| spanned(DeValue::Table(DeTable::new()), at));
            let mut inner = entry.get_mut();
            if let DeValue::Array(list) = inner {
                let Some(Step::Item(index)) = steps.next() else {
                    return Err(refused("say which one of the list, counted from 1"));
                };
                let length = list.len();
                let Some(item) = list.get_mut(*index) else {
                    return Err(refused(&format!("there are {length} in the list")));
                };
                inner = item.get_mut();
            }
            let DeValue::Table(next) = inner else { return Err(refused("that is no section")) };
            table = next;
        }
        let Step::Field(name) = last else { return Err(refused("it ends with a number, not with a field")) };
        let key = Spanned::new(at..at + 1, Cow::Borrowed(name.as_str()));
        // The old key has the place of the file's value.
        table.remove(name.as_str());
        table.insert(key, moved(value, at));
        Ok(())
    }
}

fn spanned(value: DeValue<'_>, at: usize) -> Spanned<DeValue<'_>> {
    Spanned::new(at + 1..at + 2, value)
}

/// A value and all that is in it, at another place.
fn moved(value: Spanned<DeValue<'_>>, at: usize) -> Spanned<DeValue<'_>> {
    let value = match value.into_inner() {
        DeValue::Array(list) => DeValue::Array(list.into_iter().map(|item| moved(item, at)).collect()),
        DeValue::Table(table) => {
            let entry = |(key, value): (Spanned<Cow<'_, str>>, _)| {
                (Spanned::new(at..at + 1, Cow::Owned(key.into_inner().into_owned())), moved(value, at))
            };
            DeValue::Table(table.into_iter().map(entry).collect())
        }
        other => other,
    };
    spanned(value, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_without_quotes_is_text_unless_it_is_toml() {
        let line = |text: &str| text.parse::<Override>().unwrap().line;
        assert_eq!(line("a.b=srsl"), "v = \"srsl\"");
        assert_eq!(line("a.b = \"srsl\""), "v = \"srsl\"");
        assert_eq!(line("a=3"), "v = 3");
        assert_eq!(line("a={ zipf = 0.5 }"), "v = { zipf = 0.5 }");
        assert_eq!(line("a=5us"), "v = \"5us\"");
    }

    #[test]
    fn what_is_no_field_with_a_value_is_refused() {
        for text in ["", "nodes", "=3", "a..b=3", "faults.0.at=1ms"] {
            assert!(text.parse::<Override>().is_err(), "{text}");
        }
    }
}
