//! A run as the list of its choices.

use serde::{Deserialize, Serialize};
use weft_sim::choice::EventId;
use weft_sim::explore::Outcome;

/// One choice: this event came next, and went like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The event.
    pub event: EventId,
    /// How it went.
    pub outcome: Outcome,
}

/// The choices of a run, from the root on. Its text is a list of events in hexadecimal, each followed by the fault
/// that hit it, if one did: `2a0001` or `2a0001 drop`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Choices(pub Vec<Step>);

impl Choices {
    /// How many of them are faults.
    pub fn faults(&self) -> usize {
        self.0.iter().filter(|step| step.outcome.is_fault()).count()
    }
}

impl TryFrom<Vec<String>> for Choices {
    type Error = String;

    fn try_from(list: Vec<String>) -> Result<Choices, String> {
        let read = |text: &String| parse(text).ok_or_else(|| format!("'{text}' is not a choice"));
        list.iter().map(read).collect::<Result<_, _>>().map(Choices)
    }
}

impl From<Choices> for Vec<String> {
    fn from(choices: Choices) -> Vec<String> {
        choices.0.iter().map(text).collect()
    }
}

fn parse(text: &str) -> Option<Step> {
    let (event, outcome) = match text.split_once(' ') {
        Some((event, fault)) => (event, Outcome::from_name(fault)?),
        None => (text, Outcome::Done),
    };
    Some(Step { event: EventId(u64::from_str_radix(event, 16).ok()?), outcome })
}

fn text(step: &Step) -> String {
    match step.outcome {
        Outcome::Done => format!("{:x}", step.event.0),
        fault => format!("{:x} {fault}", step.event.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_choices_survives_its_text() {
        let step = |event, outcome| Step { event: EventId(event), outcome };
        let choices = Choices(vec![step(0, Outcome::Done), step(u64::MAX, Outcome::PortDown)]);
        let list: Vec<String> = choices.clone().into();
        assert_eq!(list, ["0", "ffffffffffffffff port-down"]);
        assert_eq!((Choices::try_from(list), choices.faults()), (Ok(choices.clone()), 1));
        for wrong in ["", "x", "1 bang", "1  drop"] {
            assert!(Choices::try_from(vec![wrong.to_string()]).is_err(), "{wrong:?}");
        }
    }
}
