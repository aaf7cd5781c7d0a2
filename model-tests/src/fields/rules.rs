//! Rules that the types of fields cannot express: bounds, and fields that must or must not go together.

use super::Span;
use weft_verbs::Nanos;

/// The longest time in a scenario; timers count nanoseconds.
pub(crate) const LONGEST: Nanos = Nanos::from_secs(24 * 3600);

/// A broken rule: the field's path and what to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Where the field is, from the root of the file.
    pub path: Vec<Step>,
    /// What is wrong and what to do, in one line.
    pub problem: String,
}

/// One step of a path into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A field of a table.
    Field(String),
    /// An element of a list, from 0.
    Item(usize),
}

/// Whether a rule is kept.
pub type Rule = Result<(), Broken>;

/// A number from 1 to `most`.
pub fn count(path: Vec<Step>, value: u32, most: u32, advice: &str) -> Rule {
    if (1..=most).contains(&value) { Ok(()) } else { broken(path, format!("from 1 to {most}; {advice}")) }
}

/// A number from `least` to `most`, if there is one.
pub fn between(path: Vec<Step>, value: Option<u32>, least: u32, most: u32) -> Rule {
    match value {
        Some(value) if !(least..=most).contains(&value) => broken(path, format!("from {least} to {most}")),
        _ => Ok(()),
    }
}

/// A time above zero.
pub fn positive(path: Vec<Step>, span: Span) -> Rule {
    if span.0 > Nanos::ZERO && span.0 <= LONGEST {
        return Ok(());
    }
    broken(path, "longer than nothing and at most a day of virtual time".into())
}

/// The most clients on one machine.
const MOST_CLIENTS: u32 = 1_024;

/// A workload says how many clients each machine has.
pub fn clients(clients: u32) -> Rule {
    count(in_section("workload", "clients"), clients, MOST_CLIENTS, "give the processes of one machine")
}

/// The most requests of one client: a run's history is kept in memory.
const MOST_REQUESTS: u32 = 10_000_000;

/// A workload says how many requests each client makes, in the field `name`, or for how long it goes on; one of the two.
pub fn requests_or_duration(name: &str, requests: Option<u32>, duration: Option<Span>) -> Rule {
    let at = |field| in_section("workload", field);
    match (requests, duration) {
        (None, None) => broken(at(name), format!("give {name} (per client) or duration (in virtual time)")),
        (Some(_), Some(_)) => broken(at("duration"), format!("{name} is given too; give one of the two")),
        (Some(requests), None) => {
            count(at(name), requests, MOST_REQUESTS, &format!("give the {name} of one client"))
        }
        (None, Some(duration)) => positive(at("duration"), duration),
    }
}

/// A broken rule.
pub fn broken(path: Vec<Step>, problem: String) -> Rule {
    Err(Broken { path, problem })
}

/// The path of a section's field.
pub fn in_section(section: &str, field: &str) -> Vec<Step> {
    vec![Step::Field(section.into()), Step::Field(field.into())]
}
