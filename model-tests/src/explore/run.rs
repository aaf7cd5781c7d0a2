//! One execution from the root to its end, by somebody's choices.

use super::choices::{Choices, Step};
use super::options::Options;
use super::panics;
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
    /// The kinds of faults that it might have had.
    pub kinds: FaultSet,
    /// The columns of its diagram.
    pub columns: Vec<String>,
    /// What happened at each choice; and, last, what happened after them. Empty unless somebody asked.
    pub trace: Vec<Vec<TraceEvent>>,
}

impl Run {
    /// What happened, one line for each thing: the same for the same choices, to the byte.
    pub fn log(&self) -> String {
        self.log_of(&self.trace)
    }

    fn log_of(&self, trace: &[Vec<TraceEvent>]) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for (number, trace) in trace.iter().enumerate() {
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

    /// A digest of the log: sixteen hexadecimal digits. Of a run that has panicked it is one of its choices and of what the panic said: where
    /// a panic ends the program, nothing else is known.
    pub fn digest(&self) -> String {
        let panicked = self.violation.as_ref().is_some_and(Violation::is_panic);
        let log = if panicked { self.log_of(&vec![Vec::new(); self.choices.0.len()]) } else { self.log() };
        // FNV-1a, which is the same on every machine.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        format!("{:016x}", log.bytes().fold(0xcbf2_9ce4_8422_2325, step))
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
    let kinds = options.kinds_of(factory);
    // Without a fault nodes are asked what they know in every state, as where this was found.
    factory.allow(if choices.faults() == 0 { FaultSet::NONE } else { kinds });
    factory.compare(options.circles);
    let options = &Options { kinds: Some(kinds), ..options.clone() };
    let _begun = panics::begin(factory, options);
    let mut world = match panics::caught(|| factory.root()) {
        Ok(world) => world,
        Err((violation, choices)) => {
            let trace = if traced { vec![Vec::new()] } else { Vec::new() };
            return Ok(Run { choices, violation: Some(violation), kinds, columns: Vec::new(), trace });
        }
    };
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
    let Driven { choices, violation, broken } = drive(&mut world, options, pick, seen)?;
    let columns = world.columns();
    if traced {
        // Of a choice that has panicked some is known, and nothing has happened after it.
        let rest = if broken { panics::caught(|| world.take_trace()).ok() } else { Some(world.take_trace()) };
        trace.push(rest.unwrap_or_default());
        trace.resize_with(choices.0.len() + 1, Vec::new);
    }
    if broken {
        panics::drop_broken(world);
    }
    Ok(Run { choices, violation, kinds, columns, trace })
}

/// What a run came to.
pub(super) struct Driven {
    pub choices: Choices,
    pub violation: Option<Violation>,
    /// It has panicked: the system is not to be used again.
    pub broken: bool,
}

/// Runs a world from its root to its end, by the choices of `pick`, which says which event and how, and is told whether the fault that it
/// chose last was in vain.
pub(super) fn drive<W: TransitionSystem>(
    world: &mut W,
    options: &Options,
    pick: impl FnMut(&[Enabled], bool) -> (usize, Outcome),
    seen: impl FnMut(&mut W),
) -> Result<Driven, Stuck> {
    panics::note_root();
    match panics::caught(|| drive_on(world, options, pick, seen)) {
        Ok(driven) => driven.map(|(choices, violation)| Driven { choices, violation, broken: false }),
        Err((violation, choices)) => Ok(Driven { choices, violation: Some(violation), broken: true }),
    }
}

fn drive_on<W: TransitionSystem>(
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
        panics::note(after, Step { event, outcome: chosen });
        world.take(event, chosen, None)?;
        let outcome = if world.in_vain() { Outcome::Done } else { chosen };
        panics::note(after, Step { event, outcome });
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
