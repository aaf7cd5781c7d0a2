//! The choice points on the way from the root to the present state: what could happen at each, what is in its backtrack set,
//! what was explored, what sleeps.

use super::cache::Ways;
use super::choices::Step;
use super::happens_before::{HappensBefore, Reversal, Sleeper};
use super::options::{Options, Reduction};
use std::ops::Range;
use weft_sim::choice::EventId;
use weft_sim::explore::{Actor, Enabled, Outcome};

/// The branch of the search tree that is being explored. All its tables are stacks, reused from one execution to the
/// next.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    candidates: Vec<Candidate>,
    sleepers: Vec<Sleeper>,
    /// Races that were not turned around because the later step slept.
    put_off: Vec<PutOff>,
    imprecise: u64,
}

/// A race that was not turned around: at the earlier step's node, the later one slept.
#[derive(Clone, Copy, Debug)]
struct PutOff {
    earlier: usize,
    later: usize,
    sleeper: Sleeper,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Where its candidates and its sleepers begin; they end where the next node's begin.
    candidates: usize,
    sleepers: usize,
    /// How many faults there may be from here on.
    faults: u32,
    /// The candidate that was taken last.
    taken: usize,
}

/// Something that could happen at a node.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    enabled: Enabled,
    /// Its outcomes; and those that are neither asleep nor explored.
    all: Bits,
    left: Bits,
    /// Whether some of its outcomes were asleep when the node was entered.
    slept: bool,
    /// Whether it is in the node's backtrack set.
    backtrack: bool,
}

/// Outcomes, a bit for each.
type Bits = u16;

const _: () = assert!(Outcome::ALL.len() <= Bits::BITS as usize);

const fn bit(outcome: Outcome) -> Bits {
    1 << outcome as u8
}

fn outcomes(bits: Bits) -> impl Iterator<Item = Outcome> {
    Outcome::ALL.into_iter().filter(move |&outcome| bits & bit(outcome) != 0)
}

/// What a node offers when it is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// Something is to be tried.
    Open,
    /// Something could happen, and all of it was explored elsewhere.
    Asleep,
    /// Nothing can happen any more.
    End,
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree {
            nodes: Vec::new(),
            candidates: Vec::new(),
            sleepers: Vec::new(),
            put_off: Vec::new(),
            imprecise: 0,
        }
    }

    /// How many nodes lie on the branch.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many faults there may be behind the step that `order` ends with.
    pub(super) fn faults_left(&self, order: &HappensBefore, options: &Options) -> u32 {
        let before = self.nodes.last().map_or(options.faults, |node| node.faults);
        before - u32::from(order.last().is_some_and(|step| step.outcome.is_fault()))
    }

    /// Adds the node behind the step that `order` ends with.
    pub(super) fn enter(
        &mut self,
        enabled: &[Enabled],
        order: &mut HappensBefore,
        options: &Options,
    ) -> Entered {
        let faults = self.faults_left(order, options);
        if options.reduction == Reduction::Dpor {
            self.backtrack_disabled(enabled, options);
        }
        let sleepers = self.fall_asleep(order, options.reduction);
        let candidates = self.candidates.len();
        let dpor = options.reduction == Reduction::Dpor;
        for event in enabled {
            let kinds = options.faults_of(event.faults, faults);
            let all = kinds.iter().fold(bit(Outcome::Done), |bits, fault| bits | bit(fault));
            let asleep = all & self.asleep(sleepers..self.sleepers.len(), event.event);
            let candidate =
                Candidate { enabled: *event, all, left: all & !asleep, slept: asleep != 0, backtrack: !dpor };
            self.candidates.push(candidate);
        }
        self.nodes.push(Node { candidates, sleepers, faults, taken: candidates });
        if dpor {
            self.begin_backtrack_set(candidates);
        }
        match &self.candidates[candidates..] {
            [] => Entered::End,
            all if all.iter().all(|candidate| candidate.left == 0) => Entered::Asleep,
            _ => Entered::Open,
        }
    }

    /// How many faults there may be from the last node on.
    pub(super) fn faults(&self) -> u32 {
        self.nodes.last().map_or(0, |node| node.faults)
    }

    /// Whether anything sleeps at the last node.
    pub(super) fn has_sleepers(&self) -> bool {
        self.nodes.last().is_some_and(|node| node.sleepers < self.sleepers.len())
    }

    /// Whether something is to be tried at the last node.
    pub(super) fn is_open(&self) -> bool {
        self.last_candidates().iter().any(|candidate| candidate.left != 0)
    }

    /// What sleeps at the last node of what could happen there, by names that last. What has no such name is woken.
    pub(super) fn slept(&mut self, mut way: impl FnMut(Actor, Outcome) -> Option<Ways>) -> Ways {
        let first = self.nodes.last().map_or(0, |node| node.candidates);
        let mut slept = Ways::default();
        for candidate in &mut self.candidates[first..] {
            for outcome in outcomes(candidate.all & !candidate.left) {
                match way(candidate.enabled.actor, outcome) {
                    Some(way) => slept.add(way),
                    None => candidate.left |= bit(outcome),
                }
            }
        }
        slept
    }

    /// Leaves to be tried at the last node only what slept there before, of which `slept` knows.
    pub(super) fn narrow(&mut self, mut slept: impl FnMut(Actor, Outcome) -> bool) {
        let first = self.nodes.last().map_or(0, |node| node.candidates);
        for candidate in &mut self.candidates[first..] {
            for outcome in outcomes(candidate.left) {
                if !slept(candidate.enabled.actor, outcome) {
                    candidate.left &= !bit(outcome);
                }
            }
        }
    }

    /// Leaves to be tried at the last node only one of what can happen there, by its number.
    pub(super) fn keep_only(&mut self, number: usize) {
        let first = self.nodes.last().map_or(0, |node| node.candidates);
        let others = self.candidates[first..].iter_mut().enumerate().filter(|(at, _)| *at != number);
        others.for_each(|(_, candidate)| candidate.left = 0);
    }

    fn last_candidates(&self) -> &[Candidate] {
        let first = self.nodes.last().map_or(0, |node| node.candidates);
        &self.candidates[first..]
    }

    /// The next step to try at the last node, if there is one.
    pub(super) fn choose(&mut self) -> Option<(Enabled, Outcome)> {
        let node = self.nodes.last_mut()?;
        let next = |candidate: &Candidate| candidate.backtrack && candidate.left != 0;
        let offset = self.candidates[node.candidates..].iter().position(next)?;
        node.taken = node.candidates + offset;
        let candidate = &mut self.candidates[node.taken];
        let outcome = Outcome::from_number(candidate.left.trailing_zeros() as u8)?;
        candidate.left &= candidate.left - 1;
        Some((candidate.enabled, outcome))
    }

    /// A step that was explored at the last node need not be taken again behind it, until something wakes it.
    pub(super) fn sleep(&mut self, sleeper: Sleeper) {
        self.sleepers.push(sleeper);
    }

    /// Leaves the last node.
    pub(super) fn leave(&mut self) {
        if let Some(node) = self.nodes.pop() {
            self.candidates.truncate(node.candidates);
            self.sleepers.truncate(node.sleepers);
        }
    }

    /// Sees to it that the last step's race with an earlier one is explored the other way round: a step with which that
    /// could begin is tried at the earlier one's node, unless one is already, or sleeps there.
    ///
    /// Abdulla, Aronis, Jonsson and Sagonas, "Optimal dynamic partial order reduction" (2014), algorithm 1. A step is
    /// found by its event alone: a candidate in the backtrack set is tried with all its outcomes.
    pub(super) fn reverse(&mut self, earlier: usize, last: Step, reversal: &mut Reversal<'_>) {
        let place = self.candidates_of(earlier);
        if !reversal.is_prepared() && self.find(&place, last.event).is_none() {
            // It could only happen because of the earlier one, so there is no other way round.
            return;
        }
        let sleepers = self.sleepers_of(earlier);
        let slept = self.sleepers[sleepers.clone()].iter().find(|sleeper| sleeper.step == last).copied();
        // It touched more there, it may be, than it did behind the earlier one: then it is not what that begins with.
        let wakes = slept.is_some_and(|slept| reversal.wakes(&slept));
        let mut first = None;
        for step in reversal.initials() {
            if step == last && slept.is_some() {
                if wakes {
                    continue;
                }
                self.put_off.extend(slept.map(|sleeper| PutOff { earlier, later: reversal.last(), sleeper }));
                return;
            }
            if self.sleepers[sleepers.clone()].iter().any(|sleeper| sleeper.step == step) {
                return;
            }
            let Some(found) = self.find(&place, step.event) else { continue };
            if self.candidates[found].backtrack {
                return;
            }
            first.get_or_insert(found);
        }
        match first {
            Some(found) => self.candidates[found].backtrack = true,
            // The world's footprints do not say all that enables an event: all that can happen is tried.
            None => {
                self.imprecise += 1;
                self.backtrack_all(place);
            }
        }
    }

    /// Forgets the races of steps that were taken back, where a step is the next to be taken anew.
    pub(super) fn forget_put_off(&mut self, step: usize) {
        let kept = self.put_off.partition_point(|race| race.later < step);
        self.put_off.truncate(kept);
    }

    /// Turns the races of steps that slept around for the last step, where it wakes them and could come without the earlier of the two.
    pub(super) fn reverse_put_off(&mut self, last: Step, order: &mut HappensBefore) {
        let number = order.len() - 1;
        if self.put_off.first().is_none_or(|race| race.later == number) {
            return;
        }
        order.mark_last();
        for index in 0..self.put_off.len() {
            let PutOff { earlier, later, sleeper } = self.put_off[index];
            if later < number && order.meets_without((earlier, later), &sleeper) {
                self.reverse(earlier, last, &mut order.reversal(earlier));
                order.mark_last();
            }
        }
    }

    /// How often a race could not be turned around because footprints did not say what had enabled a step.
    pub(super) fn imprecise(&self) -> u64 {
        self.imprecise
    }

    /// How much of what is known of the tree is done: each node's choices are taken to be of equal weight.
    pub(super) fn share(&self) -> f64 {
        let (mut share, mut weight) = (0.0, 1.0);
        for (number, _) in self.nodes.iter().enumerate().take(40) {
            let backtrack = self.candidates[self.candidates_of(number)].iter().filter(|one| one.backtrack);
            let (mut left, mut known) = (0.0, 0.0);
            for candidate in backtrack {
                left += f64::from(candidate.left.count_ones());
                known += f64::from(candidate.enabled.faults.len() + 1);
            }
            if known > 0.0 {
                share += weight * ((known - left - 1.0) / known).max(0.0);
                weight /= known;
            }
        }
        share
    }

    /// An event that the last step has disabled, or that cannot go wrong any more in some way in which it could before, was in a race with
    /// it that no later step will show, so it is tried instead. Its other races are found then; but not if it sleeps, and what would wake
    /// it might come between: then everything is tried.
    fn backtrack_disabled(&mut self, enabled: &[Enabled], options: &Options) {
        let Some(node) = self.nodes.last() else { return };
        let taken = self.candidates[node.taken].enabled.event;
        let place = node.candidates..self.candidates.len();
        for index in place.clone() {
            let Candidate { enabled: before, slept, .. } = self.candidates[index];
            // With as many faults as there could be then: that one of them is spent is no race.
            let ways = |event: &Enabled| options.faults_of(event.faults, node.faults);
            let still = enabled.iter().find(|still| still.event == before.event);
            if before.event == taken
                || still.is_some_and(|still| ways(&before).without_all(ways(still)).is_empty())
            {
                continue;
            }
            self.candidates[index].backtrack = true;
            if slept {
                return self.backtrack_all(place);
            }
        }
    }

    /// What slept at the last node, or was explored there, and does not depend on the last step, sleeps on.
    fn fall_asleep(&mut self, order: &mut HappensBefore, reduction: Reduction) -> usize {
        let here = self.sleepers.len();
        let Some(node) = self.nodes.last() else { return here };
        if here > node.sleepers && reduction != Reduction::None {
            order.mark_last();
            for index in node.sleepers..here {
                let sleeper = self.sleepers[index];
                if !order.wakes(&sleeper) {
                    self.sleepers.push(sleeper);
                }
            }
        }
        here
    }

    /// The outcomes with which an event sleeps.
    fn asleep(&self, sleepers: Range<usize>, event: EventId) -> Bits {
        let same = self.sleepers[sleepers].iter().filter(|sleeper| sleeper.step.event == event);
        same.fold(0, |bits, sleeper| bits | bit(sleeper.step.outcome))
    }

    /// Begins a node's backtrack set with one event that can be done: its conflicts show which others are needed. Where there
    /// is none, and in a quiescent state, where each event excludes the others, the set begins with all.
    fn begin_backtrack_set(&mut self, first: usize) {
        let all = &mut self.candidates[first..];
        let quiescent = all.first().is_some_and(|candidate| candidate.enabled.quiescent);
        match all.iter_mut().find(|candidate| candidate.left & bit(Outcome::Done) != 0) {
            Some(candidate) if !quiescent => candidate.backtrack = true,
            _ => all.iter_mut().for_each(|candidate| candidate.backtrack = true),
        }
    }

    fn backtrack_all(&mut self, place: Range<usize>) {
        self.candidates[place].iter_mut().for_each(|candidate| candidate.backtrack = true);
    }

    fn find(&self, place: &Range<usize>, event: EventId) -> Option<usize> {
        let offset =
            self.candidates[place.clone()].iter().position(|candidate| candidate.enabled.event == event)?;
        Some(place.start + offset)
    }

    fn candidates_of(&self, number: usize) -> Range<usize> {
        let end = self.nodes.get(number + 1).map_or(self.candidates.len(), |next| next.candidates);
        self.nodes[number].candidates..end
    }

    fn sleepers_of(&self, number: usize) -> Range<usize> {
        let end = self.nodes.get(number + 1).map_or(self.sleepers.len(), |next| next.sleepers);
        self.nodes[number].sleepers..end
    }
}
