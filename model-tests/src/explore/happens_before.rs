//! One execution as a partial order: which of its steps happened before which, and which of them race.

use super::choices::Step;
use super::intern::Interner;
use std::ops::Range;
use weft_sim::explore::{AccessKind, Actor, Enabled, Footprint, Outcome};

/// The steps of the present execution, with what they touched. All its tables are reused from one execution to the
/// next, and taking a step back undoes exactly what the step did.
#[derive(Debug)]
pub(super) struct HappensBefore {
    steps: Vec<Taken>,
    /// What steps touched, a stack: of steps that were taken back, too, as long as they sleep.
    touches: Vec<Touched>,
    objects: Interner,
    /// For each object, who touched it last.
    last: Vec<Last>,
    /// For each object, how the latest step touched it: a generation and a bit for each way.
    marks: Vec<u32>,
    generation: u32,
    actors: Interner,
    /// For each actor, its last step, counted from 1.
    acted: Vec<u32>,
    /// For each step, the steps that happened before it: a row of a bit matrix.
    before: Vec<u64>,
    /// The length of a row, in words.
    row: usize,
    conflicts: Vec<u64>,
    ordered: Vec<u64>,
    /// The steps without which the latest one could not be.
    origins: Vec<u64>,
    /// The steps that a reversal leaves in place.
    free: Vec<u64>,
    races: Vec<u32>,
}

/// A step that was taken.
#[derive(Clone, Copy, Debug)]
struct Taken {
    step: Step,
    actor: Actor,
    quiescent: bool,
    /// The actor's number, and its step before, counted from 1.
    acts: (u32, u32),
    /// The last step in a quiescent state up to this one, counted from 1.
    quiesced: u32,
    touches: (u32, u32),
}

#[derive(Clone, Copy, Debug)]
struct Touched {
    object: u32,
    how: AccessKind,
    step: u32,
    /// What `Last` held before.
    shadows: (u32, u32),
}

/// Touches that matter to the next one, each as an index into `touches`, counted from 1; 0 is none.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    write: u32,
    /// The last read since that write; the reads before it follow in `Touched::shadows`.
    read: u32,
    cause: u32,
    origin: u32,
}

/// A step that was explored here and need not be taken again until something dependent has happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleeper {
    /// What sleeps.
    pub(super) step: Step,
    actor: Actor,
    quiescent: bool,
    touches: (u32, u32),
}

impl Taken {
    fn sleeper(&self) -> Sleeper {
        Sleeper { step: self.step, actor: self.actor, quiescent: self.quiescent, touches: self.touches }
    }
}

const READ: u32 = 1;
const WRITE: u32 = 2;
const CAUSE: u32 = 4;
const ORIGIN: u32 = 8;
const WAYS: u32 = 4;

const fn bit(how: AccessKind) -> u32 {
    match how {
        AccessKind::Read => READ,
        AccessKind::Write => WRITE,
        AccessKind::Cause => CAUSE,
        AccessKind::EnablingEdge => ORIGIN,
    }
}

/// The ways to touch that conflict with `how`.
const fn against(how: AccessKind) -> u32 {
    match how {
        AccessKind::Read => WRITE,
        AccessKind::Write => READ | WRITE,
        AccessKind::Cause => CAUSE,
        AccessKind::EnablingEdge => ORIGIN,
    }
}

impl HappensBefore {
    pub(super) fn new() -> HappensBefore {
        HappensBefore {
            steps: Vec::new(),
            touches: Vec::new(),
            objects: Interner::new(),
            last: Vec::new(),
            marks: Vec::new(),
            generation: 0,
            actors: Interner::new(),
            acted: Vec::new(),
            before: Vec::new(),
            row: 1,
            conflicts: Vec::new(),
            ordered: Vec::new(),
            origins: Vec::new(),
            free: Vec::new(),
            races: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn step(&self, number: usize) -> Step {
        self.steps[number].step
    }

    pub(super) fn last(&self) -> Option<Step> {
        self.steps.last().map(|taken| taken.step)
    }

    pub(super) fn choices(&self) -> impl Iterator<Item = Step> {
        self.steps.iter().map(|taken| taken.step)
    }

    /// Adds a step without looking at what it touched.
    pub(super) fn push_plain(&mut self, enabled: &Enabled, outcome: Outcome) {
        let step = Step { event: enabled.event, outcome };
        self.steps.push(Taken {
            step,
            actor: enabled.actor,
            quiescent: enabled.quiescent,
            acts: (0, 0),
            quiesced: 0,
            touches: (self.top(), self.top()),
        });
    }

    /// Takes back the last step of [`HappensBefore::push_plain`] or [`HappensBefore::push_touches`], which may sleep from now on.
    pub(super) fn pop_plain(&mut self) -> Option<Sleeper> {
        let taken = self.steps.pop()?;
        self.touches.truncate(taken.touches.1 as usize);
        Some(taken.sleeper())
    }

    /// Adds a step with what it touched, for sleep sets alone.
    pub(super) fn push_touches(&mut self, enabled: &Enabled, outcome: Outcome, footprint: &Footprint) {
        let first = self.top();
        for touch in footprint.touches() {
            let object = self.object(touch.object.0);
            self.touches.push(Touched { object, how: touch.kind, step: 0, shadows: (0, 0) });
        }
        self.push_plain(enabled, outcome);
        if let Some(taken) = self.steps.last_mut() {
            taken.touches.0 = first;
        }
    }

    /// Adds a step and finds its place in the partial order. [`HappensBefore::races`] has the steps that it races with.
    pub(super) fn push(&mut self, enabled: &Enabled, outcome: Outcome, footprint: &Footprint) {
        let number = self.steps.len();
        self.make_room(number);
        let words = number / 64 + 1;
        self.conflicts[..words].fill(0);
        self.ordered[..words].fill(0);
        self.origins[..words].fill(0);
        let acts = self.acts(enabled.actor, number);
        let quiesced = self.quiesces(enabled.quiescent, number);
        let first = self.top();
        for touch in footprint.touches() {
            let object = self.object(touch.object.0);
            self.touch(object, touch.kind, number as u32);
        }
        self.steps.push(Taken {
            step: Step { event: enabled.event, outcome },
            actor: enabled.actor,
            quiescent: enabled.quiescent,
            acts,
            quiesced,
            touches: (first, self.top()),
        });
        self.close(number);
    }

    /// Takes back the last step of [`HappensBefore::push`], which may sleep from now on.
    pub(super) fn pop(&mut self) -> Option<Sleeper> {
        let taken = self.steps.pop()?;
        self.touches.truncate(taken.touches.1 as usize);
        for index in (taken.touches.0..taken.touches.1).rev() {
            let touched = self.touches[index as usize];
            let last = &mut self.last[touched.object as usize];
            match touched.how {
                AccessKind::Read => last.read = touched.shadows.0,
                AccessKind::Write => (last.write, last.read) = touched.shadows,
                AccessKind::Cause => last.cause = touched.shadows.0,
                AccessKind::EnablingEdge => last.origin = touched.shadows.0,
            }
        }
        self.acted[taken.acts.0 as usize] = taken.acts.1;
        Some(taken.sleeper())
    }

    /// The steps that race with the last one, each the latest of its kind: nothing lies between the two in the partial
    /// order.
    pub(super) fn races(&self) -> &[u32] {
        &self.races
    }

    /// Turns the race of the last step with an earlier one around, as far as that can be known here: the steps after
    /// the earlier one that did not need it, and then the last one.
    pub(super) fn reversal(&mut self, earlier: usize) -> Reversal<'_> {
        let last = self.steps.len() - 1;
        let words = last / 64 + 1;
        self.free[..words].fill(0);
        let (word, mask) = (earlier / 64, 1 << (earlier % 64));
        for step in earlier + 1..last {
            if self.before[step * self.row + word] & mask == 0 {
                set(&mut self.free, step as u32);
            }
        }
        Reversal { order: self, earlier, last }
    }

    /// Prepares [`HappensBefore::wakes`]: notes what the last step touched.
    pub(super) fn mark_last(&mut self) {
        let Some(taken) = self.steps.last() else { return };
        self.mark(taken.touches);
    }

    fn mark(&mut self, touches: (u32, u32)) {
        let range: Range<usize> = touches.0 as usize..touches.1 as usize;
        if self.generation == u32::MAX >> WAYS {
            self.marks.fill(0);
            self.generation = 0;
        }
        self.generation += 1;
        for touched in &self.touches[range] {
            let mark = &mut self.marks[touched.object as usize];
            let kept = if *mark >> WAYS == self.generation { *mark } else { self.generation << WAYS };
            *mark = kept | bit(touched.how);
        }
    }

    /// Whether the last step wakes a sleeper: the two depend on each other.
    pub(super) fn wakes(&self, sleeper: &Sleeper) -> bool {
        let Some(taken) = self.steps.last() else { return false };
        sleeper.actor == taken.actor
            || sleeper.quiescent
            || taken.quiescent
            || self.meets_marks(sleeper.touches)
    }

    /// Whether touches conflict with those that are marked.
    fn meets_marks(&self, touches: (u32, u32)) -> bool {
        self.touches[touches.0 as usize..touches.1 as usize].iter().any(|touched| {
            let mark = self.marks[touched.object as usize];
            mark >> WAYS == self.generation && mark & against(touched.how) != 0
        })
    }

    /// Whether the last step depends on neither of two earlier ones, and does on what the later one of them would be without the
    /// other. [`HappensBefore::mark_last`] goes before.
    pub(super) fn meets_without(&self, race: (usize, usize), sleeper: &Sleeper) -> bool {
        let row = &self.before[(self.steps.len() - 1) * self.row..];
        let depends = |step: usize| row[step / 64] >> (step % 64) & 1 != 0;
        !depends(race.0) && !depends(race.1) && self.wakes(sleeper)
    }

    fn top(&self) -> u32 {
        self.touches.len() as u32
    }

    fn object(&mut self, identity: u64) -> u32 {
        let (number, new) = self.objects.number(identity);
        if new {
            self.last.push(Last::default());
            self.marks.push(0);
        }
        number
    }

    /// The actor's number and its step before; orders the two.
    fn acts(&mut self, actor: Actor, number: usize) -> (u32, u32) {
        let (actor, new) = self.actors.number(actor.0);
        if new {
            self.acted.push(0);
        }
        let before = std::mem::replace(&mut self.acted[actor as usize], number as u32 + 1);
        if before > 0 {
            set(&mut self.ordered, before - 1);
        }
        (actor, before)
    }

    /// A step in a quiescent state comes after all before it, and before all after it.
    fn quiesces(&mut self, quiescent: bool, number: usize) -> u32 {
        if quiescent {
            (0..number as u32).for_each(|earlier| set(&mut self.ordered, earlier));
            return number as u32 + 1;
        }
        let quiesced = self.steps.last().map_or(0, |taken| taken.quiesced);
        if quiesced > 0 {
            set(&mut self.ordered, quiesced - 1);
        }
        quiesced
    }

    fn touch(&mut self, object: u32, how: AccessKind, step: u32) {
        let index = self.touches.len() as u32 + 1;
        let last = &mut self.last[object as usize];
        let shadows = match how {
            AccessKind::Read => (last.read, 0),
            AccessKind::Write => (last.write, last.read),
            AccessKind::Cause => (last.cause, 0),
            AccessKind::EnablingEdge => (last.origin, 0),
        };
        let (write, read, cause, origin) = (last.write, last.read, last.cause, last.origin);
        match how {
            AccessKind::Read => last.read = index,
            AccessKind::Write => (last.write, last.read) = (index, 0),
            AccessKind::Cause => last.cause = index,
            AccessKind::EnablingEdge => last.origin = index,
        }
        self.touches.push(Touched { object, how, step, shadows });
        match how {
            AccessKind::Read => self.conflict(write, step),
            AccessKind::Write => {
                self.conflict(write, step);
                let mut read = read;
                while read > 0 {
                    self.conflict(read, step);
                    read = self.touches[read as usize - 1].shadows.0;
                }
            }
            AccessKind::Cause => {
                if let Some(by) = self.maker(cause, step) {
                    set(&mut self.ordered, by);
                }
            }
            AccessKind::EnablingEdge => {
                if let Some(by) = self.maker(origin, step) {
                    set(&mut self.ordered, by);
                    set(&mut self.origins, by);
                }
            }
        }
    }

    /// Who made what a step came of. A step can make what it does next itself.
    fn maker(&self, index: u32, step: u32) -> Option<u32> {
        let earlier = self.touches[index.checked_sub(1)? as usize].step;
        (earlier != step).then_some(earlier)
    }

    fn conflict(&mut self, index: u32, step: u32) {
        if index == 0 {
            return;
        }
        let earlier = self.touches[index as usize - 1].step;
        if earlier != step {
            set(&mut self.conflicts, earlier);
        }
    }

    /// Writes the step's row and finds its races: conflicts with steps that no step in between is ordered with.
    fn close(&mut self, number: usize) {
        self.races.clear();
        let words = number / 64 + 1;
        let (earlier, row) = self.before.split_at_mut(number * self.row);
        let row = &mut row[..words];
        row.fill(0);
        let taken = self.steps[number];
        // From the latest to the earliest: what lies between two steps is in the row before the earlier one.
        for word in (0..words).rev() {
            let mut bits = self.conflicts[word] | self.ordered[word];
            while bits != 0 {
                let high = 63 - bits.leading_zeros() as usize;
                bits ^= 1 << high;
                if row[word] >> high & 1 != 0 {
                    continue;
                }
                let step = word * 64 + high;
                let from = &earlier[step * self.row..];
                row[..=word].iter_mut().zip(&from[..=word]).for_each(|(to, from)| *to |= from);
                row[word] |= 1 << high;
                let conflict = self.conflicts[word] & !self.origins[word] & 1 << high != 0;
                if conflict && !taken.quiescent && self.steps[step].actor != taken.actor {
                    self.races.push(step as u32);
                }
            }
        }
    }

    fn make_room(&mut self, number: usize) {
        let words = number / 64 + 1;
        if words > self.row {
            self.widen(words.next_power_of_two());
        }
        if self.conflicts.len() < self.row {
            self.conflicts.resize(self.row, 0);
            self.ordered.resize(self.row, 0);
            self.origins.resize(self.row, 0);
            self.free.resize(self.row, 0);
        }
        if self.before.len() < (number + 1) * self.row {
            self.before.resize((number + 1).next_power_of_two() * self.row, 0);
        }
    }

    #[cold]
    fn widen(&mut self, row: usize) {
        let mut wide = vec![0; self.before.len() / self.row * row];
        for (from, to) in self.before.chunks_exact(self.row).zip(wide.chunks_exact_mut(row)) {
            to[..from.len()].copy_from_slice(from);
        }
        (self.before, self.row) = (wide, row);
    }
}

fn set(bits: &mut [u64], bit: u32) {
    bits[bit as usize / 64] |= 1 << (bit % 64);
}

/// See [`HappensBefore::reversal`].
#[derive(Debug)]
pub(super) struct Reversal<'a> {
    order: &'a mut HappensBefore,
    earlier: usize,
    last: usize,
}

impl Reversal<'_> {
    /// The steps that need none of the others: each could have come instead of the earlier one of the race.
    pub(super) fn initials(&self) -> impl Iterator<Item = Step> {
        let after = self.earlier + 1..=self.last;
        after
            .filter(|&step| self.is_free(step) && !self.needs_another(step))
            .map(|step| self.order.step(step))
    }

    /// The later step of the race.
    pub(super) fn last(&self) -> usize {
        self.last
    }

    /// Whether the last step needs some of the others, which need not be enabled where the race begins.
    pub(super) fn is_prepared(&self) -> bool {
        self.needs_another(self.last)
    }

    /// Whether a sleeper, which is the last step as it would be without the earlier one, depends on one of the others.
    pub(super) fn wakes(&mut self, sleeper: &Sleeper) -> bool {
        self.order.mark(sleeper.touches);
        let order = &*self.order;
        (self.earlier + 1..self.last).any(|step| {
            let taken = &order.steps[step];
            self.is_free(step) && (taken.actor == sleeper.actor || order.meets_marks(taken.touches))
        })
    }

    fn is_free(&self, step: usize) -> bool {
        step == self.last || self.order.free[step / 64] >> (step % 64) & 1 != 0
    }

    fn needs_another(&self, step: usize) -> bool {
        let row = &self.order.before[step * self.order.row..];
        let words = self.earlier / 64..=step / 64;
        words.into_iter().any(|word| row[word] & self.order.free[word] != 0)
    }
}

#[cfg(test)]
#[path = "happens_before_tests.rs"]
mod tests;
