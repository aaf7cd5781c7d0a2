//! What is wrong with a scenario file, in one line that says where, what, and what to do.

use super::Override;
use super::locate::Document;
use crate::fields::{Broken, Step};
use std::fmt;

/// A scenario that cannot be run. Its text is one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// The file could not be read.
    #[error("{file}: cannot be read: {why}; name a scenario file, such as scenarios/quick-3.toml")]
    Unreadable {
        /// As it was named.
        file: String,
        /// The operating system's words.
        why: String,
    },
    /// The file is not text.
    #[error("{file}:{line}: not UTF-8 text; a scenario is a TOML file")]
    NotUtf8 {
        /// As it was named.
        file: String,
        /// The first line, from 1, that is not text.
        line: usize,
    },
    /// The file is not TOML.
    #[error("{at}: not TOML: {why}")]
    Syntax {
        /// Where.
        at: Place,
        /// The parser's words.
        why: String,
    },
    /// A field or section that does not exist.
    #[error("{at}: {field}: no such field; {advice}", advice = advise(.nearest, .known))]
    UnknownField {
        /// Where.
        at: Place,
        /// The field, with its section.
        field: String,
        /// The field that was probably meant.
        nearest: Option<String>,
        /// All fields that exist there.
        known: Vec<String>,
    },
    /// A field is not there that has no default, or whose default does not do.
    #[error("{at}: {field} is not given; {hint}")]
    Missing {
        /// The section that lacks it.
        at: Place,
        /// The field, with its section.
        field: String,
        /// What to write.
        hint: String,
    },
    /// A field that a command line gives, and that has no place.
    #[error("--set {text}: {why}")]
    Override {
        /// As it was written.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A value that cannot be.
    #[error("{at}: {field} = {value}: {problem}")]
    Value {
        /// Where.
        at: Place,
        /// The field, with its section.
        field: String,
        /// The value as it is written.
        value: String,
        /// The bound that it breaks and what to do.
        problem: String,
    },
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named, `"scenario"` for text that came from elsewhere, or the option that gave the field.
    pub file: String,
    /// The line, from 1; none if it is no file's.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

fn advise(nearest: &Option<String>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => format!("there are: {}", known.join(", ")),
    }
}

/// What `hint` says for the fields that a file must have.
fn hint(field: &str) -> &'static str {
    match field {
        "cluster" => "add a section [cluster] with nodes = 16",
        "workload" => "add a section [workload] with the kind of system, for example kind = \"locks\"",
        "nodes" => "write how many machines there are, for example nodes = 16",
        "kind" => "write what goes wrong, for example kind = \"cut\"",
        "min" | "max" => "a range has both min and max",
        _ => NO_DEFAULT,
    }
}

/// What is said of a field of which nothing more is known.
pub(super) const NO_DEFAULT: &str = "it has no default";

/// Turns the parser's error into ours. It knows fields by spans and by its message, which is pinned by tests.
pub(super) fn from_toml(document: &Document<'_>, error: &toml::de::Error) -> ScenarioError {
    let span = error.span().unwrap_or(0..0);
    let message = error.message();
    let at = document.place(span.start);
    if let Some(field) = quoted_after(message, "missing field ") {
        let table = document.path_at(&span);
        return ScenarioError::Missing {
            at,
            field: document.name(&table, Some(field)),
            hint: hint(field).into(),
        };
    }
    if let Some(field) = quoted_after(message, "unknown field ") {
        let known = all_quoted(message.split_once("expected").map_or("", |(_, rest)| rest));
        let mut path = document.path_at(&span);
        // A section's span is its header, which lies in the section itself.
        if path.last() != Some(&Step::Field(field.into())) {
            path.push(Step::Field(field.into()));
        }
        return ScenarioError::UnknownField {
            at,
            field: document.name(&path, None),
            nearest: nearest(field, &known),
            known,
        };
    }
    let path = document.path_at(&span);
    if path.is_empty() {
        return ScenarioError::Syntax { at, why: one_line(message) };
    }
    ScenarioError::Value {
        at,
        field: document.name(&path, None),
        value: document.source(span),
        problem: reword(message),
    }
}

/// Turns a broken rule into an error at the field's line.
pub(super) fn from_rule(document: &Document<'_>, broken: Broken) -> ScenarioError {
    match document.find(&broken.path) {
        Some(span) => ScenarioError::Value {
            at: document.place(span.start),
            field: document.name(&broken.path, None),
            value: document.source(span),
            problem: broken.problem,
        },
        None => ScenarioError::Missing {
            at: document.place(document.nearest(&broken.path)),
            field: document.name(&broken.path, None),
            hint: broken.problem,
        },
    }
}

/// Says in plain words what serde says in Rust's.
fn reword(message: &str) -> String {
    if message.starts_with("unknown variant ") {
        let known = all_quoted(message.split_once("expected").map_or("", |(_, rest)| rest));
        let known: Vec<String> = known.iter().map(|name| format!("\"{name}\"")).collect();
        return format!("no such choice; there are {}", known.join(", "));
    }
    let expected = message.rsplit_once("expected ").map_or(message, |(_, rest)| rest);
    match expected {
        // The field's own bounds are narrower than its type's.
        "u8" | "u32" | "u64" => match integer(message) {
            Some(number) if number.starts_with('-') => TOO_SMALL.into(),
            Some(_) => TOO_LARGE.into(),
            None => "expected a whole number, 0 or more".into(),
        },
        "f64" => "expected a number".into(),
        "string" | "a string" => "expected text in quotes".into(),
        // A choice that has a value, and one that has none, as `keys` of locks has both.
        "newtype variant" => "this choice has a value: write { NAME = VALUE }".into(),
        "unit variant" => "this choice has no value: write its name in quotes".into(),
        _ if message == "wanted string or table" => {
            "expected a choice: its name in quotes, or { NAME = VALUE }".into()
        }
        _ if message.starts_with("wanted exactly 1 element") => {
            "expected one choice with its value: { NAME = VALUE }".into()
        }
        _ if expected.starts_with("struct ") => "expected a section with fields".into(),
        _ if expected.starts_with("a sequence") => "expected a list; faults are written as [[faults]]".into(),
        _ if message.starts_with("invalid ") => format!("expected {}", one_line(expected)),
        _ => one_line(message),
    }
}

/// The whole number that a message is about, which its type does not have.
fn integer(message: &str) -> Option<&str> {
    message.split_once("integer `").map(|(_, number)| number)
}

/// What is said of numbers that a field's type does not have.
const TOO_LARGE: &str = "too large";
const TOO_SMALL: &str = "too small: it cannot be below 0";

/// Says of a number that its field's type does not have what the field can be: the same as of the type's first or last one, of which
/// `with` says what is wrong.
pub(super) fn bounded(
    error: ScenarioError,
    with: impl Fn(Override) -> Option<ScenarioError>,
) -> ScenarioError {
    let ScenarioError::Value { at, field, value, problem } = error else { return error };
    let limits: &[u32] = match problem.as_str() {
        TOO_LARGE => &[u32::MAX, u8::MAX as u32],
        TOO_SMALL => &[0],
        _ => &[],
    };
    let told = limits.iter().find_map(|limit| {
        let path = field.strip_prefix('[')?.replacen("] ", ".", 1);
        match with(format!("{path}={limit}").parse().ok()?)? {
            ScenarioError::Value { field: same, problem, .. } if same == field && problem != TOO_LARGE => {
                Some(problem)
            }
            _ => None,
        }
    });
    ScenarioError::Value { at, field, value, problem: told.unwrap_or(problem) }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn quoted_after<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    message.strip_prefix(start)?.strip_prefix('`')?.split('`').next()
}

fn all_quoted(message: &str) -> Vec<String> {
    message.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The known name that is nearest to what was written, if any is near enough to be meant.
pub fn nearest(written: &str, known: &[String]) -> Option<String> {
    let best = known.iter().min_by_key(|name| distance(written, name))?;
    let enough = 1 + written.chars().count().max(best.chars().count()) / 3;
    (distance(written, best) <= enough).then(|| best.clone())
}

/// Levenshtein's distance: how many letters must be added, dropped or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
