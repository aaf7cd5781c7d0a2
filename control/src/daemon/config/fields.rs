//! What each field of a configuration must be, and what is said where one is not.

use super::{LONGEST_SPAN, NODES};
use crate::message::TEXT;
use std::fmt;
use std::ops::Range;

/// What a field must be.
#[derive(Clone, Copy, Debug)]
enum Must {
    /// A whole number between these two.
    Number(u64, u64),
    /// What these words say.
    Be(&'static str),
}

impl fmt::Display for Must {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Must::Number(least, most) => write!(f, "a whole number from {least} to {most}"),
            Must::Be(words) => f.write_str(words),
        }
    }
}

/// The longest time for which a daemon tries to join, in seconds: a year.
const YEAR: u64 = 366 * 86_400;

const YES_OR_NO: Must = Must::Be("true or false");
const PATH: Must = Must::Be("a path, in quotes");

/// Every field, by its section.
const FIELDS: [(&str, &str, Must); 24] = [
    ("cluster", "name", Must::Be("text in quotes, without control characters")),
    ("cluster", "nodes", Must::Number(1, NODES as u64)),
    ("cluster", "meet", Must::Be("HOST or HOST:PORT of the coordinator, in quotes")),
    ("cluster", "secret", PATH),
    ("node", "rank", Must::Number(0, NODES as u64 - 1)),
    ("node", "coordinate", YES_OR_NO),
    ("node", "listen", Must::Be("HOST or HOST:PORT, in quotes")),
    ("node", "metrics", Must::Be("HOST:PORT, in quotes")),
    ("node", "door", Must::Be("HOST:PORT, in quotes")),
    ("node", "patience_s", Must::Number(1, YEAR)),
    ("node", "store", PATH),
    ("node", "address", Must::Be("an IP address of this machine, in quotes")),
    ("node", "device", Must::Be("the name of an RDMA device, in quotes (see `weft devices`)")),
    ("node", "device_port", Must::Number(1, 255)),
    ("node", "gid", Must::Number(0, 255)),
    ("node", "traffic_class", Must::Number(0, 255)),
    ("node", "spin", YES_OR_NO),
    ("systems", "segments", YES_OR_NO),
    ("systems", "locks", Must::Be("\"srsl\" or \"ncosed\"")),
    ("systems", "file_servers", Must::Number(0, NODES as u64)),
    ("systems", "wire", Must::Be("\"verbs\" or \"tcp\"")),
    ("systems", "lease_ms", Must::Number(1, LONGEST_SPAN)),
    ("systems", "drift_ms", Must::Number(0, LONGEST_SPAN)),
    ("systems", "patience_ms", Must::Number(1, LONGEST_SPAN)),
];

fn must(section: &str, field: &str) -> Option<Must> {
    FIELDS.iter().find(|known| (known.0, known.1) == (section, field)).map(|(_, _, must)| *must)
}

/// Whether a number is one that the field can have.
///
/// # Errors
/// It is not: what it must be.
pub(super) fn within(section: &str, field: &str, value: u64) -> Result<(), String> {
    match must(section, field) {
        Some(must @ Must::Number(least, most)) if !(least..=most).contains(&value) => {
            Err(format!("[{section}] {field} = {value}: {must}"))
        }
        _ => Ok(()),
    }
}

/// Whether a cluster can have this name.
///
/// # Errors
/// It cannot: what it must be.
pub(super) fn name(name: &str) -> Result<(), String> {
    match name.is_empty() || name.len() > TEXT || name.contains(char::is_control) {
        true => Err(format!("[cluster] name: 1 to {TEXT} characters without control characters")),
        false => Ok(()),
    }
}

/// What the parser has found wrong with a text: of a field that is known, which one, its value, and what it must be.
pub(super) fn told(text: &str, error: &toml::de::Error) -> String {
    let said = error.message();
    if let Some(field) = said.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
        return match must("cluster", field) {
            Some(must) => format!("[cluster] {field} is missing: {must}"),
            None => format!("there is no section [{field}]"),
        };
    }
    let Some((section, field, value)) = error.span().and_then(|span| place(text, span)) else {
        return said.to_string();
    };
    // The rest are words of our own, or of the language of the file.
    let is_of_types = ["invalid ", "unknown variant ", "wanted "].iter().any(|start| said.starts_with(start));
    match must(section, field) {
        Some(must) if is_of_types => format!("[{section}] {field} = {value}: {must}"),
        Some(_) => format!("[{section}] {field}: {said}"),
        None => said.to_string(),
    }
}

/// The section, the field and the value that a part of a text is about.
fn place(text: &str, part: Range<usize>) -> Option<(&str, &str, &str)> {
    let value = text.get(part.clone())?.lines().next()?;
    let line = text[..part.start].rfind('\n').map_or(0, |end| end + 1);
    let (field, _) = text[line..].lines().next()?.split_once('=')?;
    let headers = text[..line].lines().rev().filter_map(|line| line.trim_start().strip_prefix('['));
    let section = headers.filter_map(|rest| rest.split(']').next()).next()?;
    Some((section.trim(), field.trim(), value))
}
