//! Which scripts make sense: those that hold where nothing goes wrong, whichever of the calls that users may drop they do drop.
//!
//! A script that breaks a promise even then asks for what it may not, as who waits for a barrier that nobody else comes to. So does one
//! that waits for what a call was to bring that its user may drop.

use super::any_model::{AnyModel, Entry};
use super::choices::Choices;
use super::options::Options;
use super::script::{Notation, Script};
use super::size::{Size, Value};
use std::collections::BTreeMap;

/// How the texts of a world's size are written, by its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notations(pub(super) BTreeMap<&'static str, Notation>);

/// Calls that may be dropped: of no more of them each choice is tried, which is an execution each.
const FEW: usize = 6;

impl Notations {
    /// Whether a world's scripts make sense.
    pub(super) fn make_sense(&self, entry: &Entry, size: &Size) -> bool {
        let holds = |size: &Size| Some(holds_quietly(entry.build(size).ok()?.as_mut()));
        // What a world refuses is no script at all, and says nothing of this one: a barrier that is dropped is called again, and not left
        // out by one thread alone.
        let may_be = |other: &Size| holds(other) != Some(false);
        holds(size) == Some(true) && self.dropped_or_not(size).iter().all(may_be)
    }

    /// The sizes in which some calls that may be dropped are at once, and the others never, as far as these are others than this one.
    pub(super) fn dropped_or_not(&self, size: &Size) -> Vec<Size> {
        let script = |(key, notation): (&&'static str, &Notation)| match size.get(key) {
            Some(Value::Text(text)) => Some((*key, notation.script(text))),
            _ => None,
        };
        let scripts: Vec<(&str, Script)> = self.0.iter().filter_map(script).collect();
        let marked = scripts.iter().map(|(_, script)| script.marked()).sum();
        let with = |drops: Vec<bool>| {
            let (mut other, mut drops) = (size.clone(), drops.into_iter());
            for (key, script) in &scripts {
                other.set(*key, script.clone().dropping(&mut drops).text());
            }
            other
        };
        choices(marked).into_iter().map(with).filter(|other| other != size).collect()
    }
}

/// Which of so many calls are dropped: each choice where they are few. Otherwise none, all, and each one unlike all others.
fn choices(marked: usize) -> Vec<Vec<bool>> {
    let each = |drops: &dyn Fn(usize) -> bool| (0..marked).map(drops).collect();
    if marked <= FEW {
        return (0..1_u32 << marked).map(|set| each(&|call| set >> call & 1 == 1)).collect();
    }
    // No call has the number behind the last one: there all are alike.
    (0..=marked).flat_map(|one| [true, false].map(|drops| each(&|call| (call == one) == drops))).collect()
}

/// Whether a world holds where every first event happens and no fault.
fn holds_quietly(model: &mut dyn AnyModel) -> bool {
    let options = Options { livelock: Options::WALK, ..Options::default() };
    model.replay(&Choices::default(), &options, false).is_ok_and(|run| run.violation.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems;

    #[test]
    fn few_calls_are_dropped_in_every_choice_and_many_one_by_one() {
        assert_eq!(choices(0), [[false; 0]]);
        assert_eq!(choices(2), [[false, false], [true, false], [false, true], [true, true]]);
        let many = choices(FEW + 1);
        assert_eq!(many.len(), 2 * (FEW + 2));
        for dropped in [0, 1, FEW, FEW + 1] {
            let of_them = |drops: &Vec<bool>| drops.iter().filter(|drops| **drops).count();
            assert!(many.iter().any(|drops| of_them(drops) == dropped), "{dropped} of {}", FEW + 1);
        }
    }

    /// Whoever drops one call and not the other one reads what nobody writes.
    #[test]
    fn a_script_that_waits_for_a_call_that_may_be_dropped_makes_no_sense() {
        let all = systems::worlds().into_iter();
        let entry = all.into_iter().find(|entry| entry.name == "sdp-dropped-write").expect("it is there");
        let notations = Notations(BTreeMap::from([("calls", Notation::Letters)]));
        let make_sense = |calls: &str| notations.make_sense(&entry, &Size::new([("calls", calls)]));
        for calls in ["cwwW!w!wfx,rex", "cwww!w+r,rrrw", "cwww!r,rrw"] {
            assert!(make_sense(calls), "{calls}");
        }
        for calls in ["cwww!r,r!rrw", "cwww!+r,rrrw"] {
            assert!(!make_sense(calls), "{calls}");
        }
    }
}
