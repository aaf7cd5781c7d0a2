//! One execution from the root to its end, by somebody's choices.

use super::choices::{Choices, Step};
use super::options::Options;
use super::system::{ModelFactory, Stuck, TransitionSystem, Violation};
use super::trace_event::TraceEvent;
use weft_sim::explore::{Enabled, FaultSet, Outcome};

/// One execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// All its choices.
    pub choices: Choices,
    /// The promise that it broke.
    pub violation: Option<Violation>,
    /// The columns of its diagram.
    pub columns: Vec<String>,
    /// What happened at each choice; and, last, what happened after them. Empty unless somebody asked.
    pub trace: Vec<Vec<TraceEvent>>,
}

impl Run {
    /// What happened, one line for each thing: the same for the same choices, to the byte.
    pub fn log(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for (number, trace) in self.trace.iter().enumerate() {
            if let Some(step) = self.choices.0.get(number) {
                let _ = writeln!(text, "{:4} {:x} {}", number + 1, step.event.0, step.outcome);
            }
            // A step speaks by what it does, if it does anything that is seen.
            let is_bare = trace.iter().all(TraceEvent::is_step);
            for event in trace.iter().filter(|event| is_bare || !event.is_step()) {
                let _ = writeln!(text, "       {event}");
            }
        }
        if let Some(violation) = &self.violation {
            let _ = writeln!(text, "violated: {violation}");
        }
        text
    }

    /// A digest of the log: sixteen hexadecimal digits.
    pub fn digest(&self) -> String {
        // FNV-1a, which is the same on every machine.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        format!("{:016x}", self.log().bytes().fold(0xcbf2_9ce4_8422_2325, step))
    }
}

/// Runs a world by a list of choices. Of those that were not taken yet, the first that is possible is taken; where none
/// is, the run goes on quietly: the first event in the world's order, and no fault. The whole list of a run's choices
/// therefore repeats the run, and a part of it makes another one. Of the options, the kinds of faults, the depth and whether circles
/// end a run matter.
///
/// # Errors
///
/// The world does not let an event happen that it called enabled.
pub fn replay<B: ModelFactory>(
    factory: &mut B,
    choices: &Choices,
    options: &Options,
    traced: bool,
) -> Result<Run, Stuck> {
    // Without a fault nodes are asked what they know in every state, as where this was found.
    factory.allow(options.faults_of(FaultSet::ALL, choices.faults() as u32));
    factory.compare(options.circles);
    let mut world = factory.root();
    if traced {
        world.record_trace();
    }
    let mut pending = Pending::new(choices);
    let mut trace = Vec::new();
    let pick = |enabled: &[Enabled], _| pending.pick(enabled);
    let seen = |world: &mut B::System| {
        if traced {
            trace.push(world.take_trace())
        }
    };
    let (choices, violation) = drive(&mut world, options, pick, seen)?;
    if traced {
        trace.push(world.take_trace());
    }
    Ok(Run { choices, violation, columns: world.columns(), trace })
}

/// Runs a world to its end, by the choices of `pick`, which says which event and how, and is told whether the fault that it chose last
/// was in vain.
pub(super) fn drive<W: TransitionSystem>(
    world: &mut W,
    options: &Options,
    mut pick: impl FnMut(&[Enabled], bool) -> (usize, Outcome),
    mut seen: impl FnMut(&mut W),
) -> Result<(Choices, Option<Violation>), Stuck> {
    let mut taken = Choices::default();
    let mut enabled = Vec::new();
    let mut path = Vec::new();
    loop {
        if let Some(violation) = world.violation() {
            return Ok((taken, Some(violation)));
        }
        enabled.clear();
        world.enabled(&mut enabled);
        if enabled.is_empty() {
            return Ok((taken, world.finish().err()));
        }
        let after = taken.0.len();
        if after >= options.livelock as usize {
            return Ok((taken, Some(Violation::endless(format!("{after} events and no end")))));
        }
        if options.circles
            && let Some(state) = world.fingerprint()
        {
            if let Some(&(first, _)) = path.iter().find(|(_, known)| *known == state) {
                return Ok((taken, Some(Violation::circle(first, after))));
            }
            path.push((after, state));
        }
        let (index, chosen) = pick(&enabled, world.in_vain());
        let event = enabled[index].event;
        world.take(event, chosen, None)?;
        let outcome = if world.in_vain() { Outcome::Done } else { chosen };
        taken.0.push(Step { event, outcome });
        if outcome.is_fault() {
            // There are only so many: a circle with one in it has an end.
            path.clear();
        }
        seen(world);
    }
}

/// Choices that wait to become possible.
struct Pending<'a> {
    choices: &'a [Step],
    taken: Vec<bool>,
    /// All before it were taken.
    first: usize,
}

impl Pending<'_> {
    fn new(choices: &Choices) -> Pending<'_> {
        Pending { choices: &choices.0, taken: vec![false; choices.0.len()], first: 0 }
    }

    fn pick(&mut self, enabled: &[Enabled]) -> (usize, Outcome) {
        for index in self.first..self.choices.len() {
            let Step { event, outcome } = self.choices[index];
            let possible = |candidate: &Enabled| {
                candidate.event == event && (!outcome.is_fault() || candidate.faults.contains(outcome))
            };
            if self.taken[index] {
                continue;
            }
            if let Some(found) = enabled.iter().position(possible) {
                self.taken[index] = true;
                while self.taken.get(self.first) == Some(&true) {
                    self.first += 1;
                }
                return (found, outcome);
            }
        }
        (0, Outcome::Done)
    }
}
