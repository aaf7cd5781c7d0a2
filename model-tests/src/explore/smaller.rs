//! Finds a failure again in a smaller world: with fewer nodes, with fewer requests.

use super::any_model::{AnyModel, Entry, Watch};
use super::search::{self, ExploreError};
use super::sense::Notations;
use super::size::Size;
use super::system::{Stuck, Violation};
use super::walk::{Strategy, Walk};
use super::{Counterexample, Options, Progress};
use std::ops::ControlFlow;
use thiserror::Error;

/// A failing run, and the world in which it fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The world's whole size.
    pub size: Size,
    /// The run.
    pub run: Counterexample,
    /// How the scripts of the size are written, if they were drawn: then those of smaller worlds must make sense, too.
    pub drawn: Option<Notations>,
}

/// How a failure is looked for in each smaller world: as it was found in the large one, and within a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hunt {
    /// By exploring it, for at most so many executions.
    Explore(u64),
    /// By walks from seed 0 on, at most so many.
    Walk(Strategy, u64),
}

impl Hunt {
    /// After an exploration that took so many executions: a smaller world gets as many and a thousand, up to 20,000.
    pub fn explored(executions: u64) -> Hunt {
        Hunt::Explore(executions.saturating_add(1_000).min(20_000))
    }

    /// After walks: a smaller world gets two thousand.
    pub const fn walked(strategy: Strategy) -> Hunt {
        Hunt::Walk(strategy, 2_000)
    }
}

/// Why a smaller world could not be searched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SmallerError {
    /// It could not be explored.
    #[error(transparent)]
    Explore(#[from] ExploreError),
    /// A run of it could not be made.
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

/// The failure in the smallest world in which this finds the same promise broken: as long as a world that is smaller by
/// one thing shows it, that one. The run is made as short as it gets, with as few faults. If `watch` breaks it off, it is the smallest so far.
///
/// # Errors
///
/// A world is not deterministic.
pub fn smallest(
    entry: &Entry,
    case: Case,
    hunt: Hunt,
    options: &Options,
    watch: Watch<'_>,
) -> Result<Case, SmallerError> {
    let Ok(mut model) = entry.build(&case.size) else { return Ok(case) };
    let oracle = Some(case.run.violation.oracle.clone());
    let mut best = shortest(model.as_mut(), case.run, options, watch)?;
    let (mut size, drawn) = (case.size, case.drawn);
    // A smaller world need not show it with more faults than it takes.
    let mut options = Options { oracle, faults: best.choices.faults() as u32, ..options.clone() };
    while let Some(found) = one_smaller(entry, (model.smaller(), drawn.as_ref()), hunt, &options, watch)? {
        (model, best) = found;
        size = model.size();
        options.faults = best.choices.faults() as u32;
    }
    Ok(Case { size, run: best, drawn })
}

/// A world, and a run of it that fails.
type Failing = (Box<dyn AnyModel>, Counterexample);

/// The first world of these sizes that shows the failure, with its shortest run; none if `watch` breaks it off before.
fn one_smaller(
    entry: &Entry,
    (sizes, drawn): (Vec<Size>, Option<&Notations>),
    hunt: Hunt,
    options: &Options,
    watch: Watch<'_>,
) -> Result<Option<Failing>, SmallerError> {
    for smaller in sizes {
        if watch(&Progress::default()).is_break() {
            return Ok(None);
        }
        let Ok(mut model) = entry.build(&smaller) else { continue };
        if drawn.is_some_and(|notations| !notations.make_sense(entry, &smaller)) {
            continue;
        }
        if let Some(found) = find(model.as_mut(), hunt, options, watch)? {
            let shortest = shortest(model.as_mut(), found, options, watch)?;
            return Ok(Some((model, shortest)));
        }
    }
    Ok(None)
}

pub(super) fn find(
    model: &mut dyn AnyModel,
    hunt: Hunt,
    options: &Options,
    watch: Watch<'_>,
) -> Result<Option<Counterexample>, SmallerError> {
    // In this size it may not have the faults.
    if search::faults(model, options).is_err() {
        return Ok(None);
    }
    match hunt {
        Hunt::Explore(most) => {
            let options = Options { max_executions: Some(most), max_time: None, ..options.clone() };
            Ok(model.explore(&options, watch)?.counterexample)
        }
        Hunt::Walk(strategy, most) => {
            let mut found = None;
            let mut look = |_, Walk { choices, violation }: Walk| {
                let sought = violation.filter(|violation| options.looks_for(violation));
                found = sought.map(|violation| Counterexample { violation, choices });
                if found.is_some() { ControlFlow::Break(()) } else { watch(&Progress::default()) }
            };
            model.walks(strategy, &mut (0..most), options, &mut look)?;
            Ok(found)
        }
    }
}

/// The same failure by fewer faults and choices.
fn shortest(
    model: &mut dyn AnyModel,
    found: Counterexample,
    options: &Options,
    watch: Watch<'_>,
) -> Result<Counterexample, Stuck> {
    let choices = model.minimise(&found, options, watch)?;
    let run = model.replay(&choices, &options.to_repeat(&found.violation), false)?;
    let violation: Violation = run.violation.unwrap_or(found.violation);
    Ok(Counterexample { violation, choices })
}

#[cfg(test)]
mod tests {
    use super::super::Choices;
    use super::super::script::Notation;
    use super::*;
    use crate::systems;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn entry() -> Entry {
        let all = systems::worlds().into_iter();
        all.into_iter().find(|entry| entry.name == "sdp-dropped-write").expect("it is there")
    }

    /// A run of a size whose script was drawn.
    fn drawn(size: &Size) -> Case {
        let run = Counterexample { violation: Violation::new("deadlock", ""), choices: Choices::default() };
        let notations = Notations(BTreeMap::from([("calls", Notation::Letters)]));
        Case { size: size.clone(), run, drawn: Some(notations) }
    }

    /// One writer less, and who reads waits for what the other one may drop.
    #[test]
    fn a_drawn_script_is_not_made_one_that_waits_for_what_may_be_dropped() {
        let size = Size::new([("calls", "cwww!w+r,rrrw")]);
        let (hunt, options) = (Hunt::Explore(500), Options { livelock: 400, ..Options::default() });
        let small = smallest(&entry(), drawn(&size), hunt, &options, &mut |_| ControlFlow::Continue(()));
        assert_eq!(small.map(|case| case.size), Ok(size));
    }

    #[test]
    fn who_breaks_it_off_is_made_to_wait_for_no_other_size() {
        static BUILT: AtomicU32 = AtomicU32::new(0);
        let counted = Entry {
            make: |size| {
                BUILT.fetch_add(1, Ordering::Relaxed);
                (entry().make)(size)
            },
            ..entry()
        };
        let size = Size::new([("calls", "cwww!w+r,rrrw")]);
        let hunt = Hunt::Explore(500);
        let small =
            smallest(&counted, drawn(&size), hunt, &Options::default(), &mut |_| ControlFlow::Break(()));
        assert_eq!(small.map(|case| case.size), Ok(size));
        assert_eq!(BUILT.load(Ordering::Relaxed), 1, "the world in which it was found");
    }
}
