//! One figure: its value with unit and source, and how groups of figures are read.

use super::ProfileError;
use serde::Deserialize;
use toml::{Table, Value};

/// One figure of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Group and field: `cpu.post_ns`.
    pub name: String,
    /// What it is.
    pub about: &'static str,
    /// Its value.
    pub value: u64,
    /// The unit of the value.
    pub unit: &'static str,
    /// Where the value comes from.
    pub source: String,
    /// Whether the value was fitted to a system's result, instead of being known or derived beforehand.
    pub fitted: bool,
    least: u64,
    most: u64,
}

/// What a figure's table in the file holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    value: i64,
    unit: String,
    source: String,
    #[serde(default)]
    fitted: bool,
}

/// What the code knows of a figure.
pub(super) struct Known {
    pub(super) group: &'static str,
    pub(super) field: &'static str,
    pub(super) about: &'static str,
    pub(super) unit: &'static str,
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Figure {
    /// The figure with another value.
    pub(super) fn changed(&self, value: i64, source: &str) -> Result<Figure, ProfileError> {
        let value = within(&self.name, value, self.unit, self.least, self.most)?;
        Ok(Figure { value, source: source.to_string(), ..self.clone() })
    }
}

fn within(name: &str, value: i64, unit: &'static str, least: u64, most: u64) -> Result<u64, ProfileError> {
    match u64::try_from(value) {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        _ => Err(ProfileError::OutOfBounds { name: name.to_string(), value, unit, least, most }),
    }
}

/// Takes fields out of a profile's table one by one, so that what is left at the end is unknown.
pub(super) struct Reader {
    rest: Table,
    figures: Vec<Figure>,
}

impl Reader {
    pub(super) fn new(text: &str) -> Result<Reader, ProfileError> {
        let rest = text.parse::<Table>().map_err(|error| ProfileError::Syntax {
            line: error.span().map_or(1, |at| text[..at.start].matches('\n').count() + 1),
            message: error.message().to_string(),
        })?;
        Ok(Reader { rest, figures: Vec::new() })
    }

    /// A text at the top of the file.
    pub(super) fn text(&mut self, name: &str) -> Result<String, ProfileError> {
        match self.rest.remove(name) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(ProfileError::Form { name: name.to_string(), want: "a text" }),
            None => Err(ProfileError::Missing { name: name.to_string() }),
        }
    }

    /// Whether the file has a group.
    pub(super) fn has(&self, group: &str) -> bool {
        self.rest.contains_key(group)
    }

    /// A figure of a group.
    pub(super) fn figure(&mut self, known: &Known) -> Result<u64, ProfileError> {
        let name = format!("{}.{}", known.group, known.field);
        let group = match self.rest.get_mut(known.group) {
            Some(Value::Table(group)) => group,
            Some(_) => {
                return Err(ProfileError::Form { name: known.group.to_string(), want: "a table of figures" });
            }
            None => return Err(ProfileError::Missing { name }),
        };
        let Some(value) = group.remove(known.field) else { return Err(ProfileError::Missing { name }) };
        let want = "{ value = whole number, unit = \"..\", source = \"..\" }";
        let Ok(entry) = value.try_into::<Entry>() else { return Err(ProfileError::Form { name, want }) };
        if entry.unit != known.unit {
            return Err(ProfileError::Unit { name, unit: entry.unit, want: known.unit });
        }
        if entry.source.trim().is_empty() {
            return Err(ProfileError::NoSource { name });
        }
        let value = within(&name, entry.value, known.unit, known.least, known.most)?;
        self.figures.push(Figure {
            name,
            about: known.about,
            value,
            unit: known.unit,
            source: entry.source,
            fitted: entry.fitted,
            least: known.least,
            most: known.most,
        });
        Ok(value)
    }

    /// Everything read; an error if anything is left.
    pub(super) fn finish(&mut self) -> Result<Vec<Figure>, ProfileError> {
        for (key, value) in &self.rest {
            let name = match value {
                Value::Table(group) if super::GROUPS.contains(&key.as_str()) => {
                    let Some(field) = group.keys().next() else { continue };
                    format!("{key}.{field}")
                }
                _ => key.clone(),
            };
            return Err(ProfileError::UnknownField { name });
        }
        Ok(std::mem::take(&mut self.figures))
    }
}

/// Declares a group: a struct of plain numbers, how it is read, and how one of them is changed.
macro_rules! figures {
    (
        $(#[doc = $group_doc:literal])*
        $Group:ident in $group:literal {
            $( #[doc = $doc:literal] $field:ident: $unit:literal in $least:literal..=$most:expr, )*
        }
    ) => {
        $(#[doc = $group_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $Group {
            $( #[doc = $doc] pub $field: u64, )*
        }

        impl $Group {
            pub(super) const GROUP: &'static str = $group;

            fn read(reader: &mut Reader) -> Result<$Group, ProfileError> {
                Ok($Group {
                    $( $field: reader.figure(&figure::Known {
                        group: $group,
                        field: stringify!($field),
                        about: $doc,
                        unit: $unit,
                        least: $least,
                        most: $most,
                    })?, )*
                })
            }

            fn set(&mut self, field: &str, value: u64) {
                match field {
                    $( stringify!($field) => self.$field = value, )*
                    _ => unreachable!("a figure of this group that was read"),
                }
            }
        }
    };
}
pub(super) use figures;
