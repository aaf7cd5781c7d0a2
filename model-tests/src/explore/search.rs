//! The search itself: depth first, every execution from the root.

use super::any_model::Watch;
use super::cache::{Cache, Visit, Ways};
use super::choices::{Choices, Step};
use super::happens_before::HappensBefore;
use super::options::{Options, Reduction};
use super::panics;
use super::report::{Report, Stopped};
use super::size::SizeError;
use super::system::{Coverage, Described, ModelFactory, Stuck, TransitionSystem, Violation};
use super::tree::{Entered, Tree};
use std::time::{Duration, Instant};
use thiserror::Error;
use weft_sim::explore::{Enabled, FaultSet, Footprint, Outcome};

/// How far an exploration has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Executions that were run to their end.
    pub executions: u64,
    /// Events that were executed.
    pub transitions: u64,
    /// Time since it began.
    pub elapsed: Duration,
    /// How much of the search tree is done, from 0 to 1: a guess, since what is behind a choice is known when it was
    /// tried.
    pub share: f64,
}

/// Why a world could not be explored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExploreError {
    /// A choice that was possible once is no longer, after the same choices.
    #[error(
        "the world is not deterministic: after the same {after} choices {stuck}, which it could before. Something outside of \
         the execution changes it: a clock, a random number, the order of a hash map, a thread, or what its model keeps from one \
         execution to the next"
    )]
    NotDeterministic {
        /// What could not be repeated.
        stuck: Stuck,
        /// How many choices went before.
        after: usize,
    },
    /// States were to be cached, and the world cannot tell them apart.
    #[error("states of '{0}' cannot be cached: the world gives no fingerprints")]
    NoFingerprint(String),
    /// A walk came to an event that the world called enabled and does not let happen.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// It was to be explored under faults that it does not have.
    #[error("{0}")]
    Faults(String),
    /// It cannot be built in the size that it is to be explored in.
    #[error(transparent)]
    Size(#[from] SizeError),
}

/// Explores every execution of a world that the options allow.
///
/// # Errors
///
/// The world is not deterministic, its states cannot be told apart and were to be cached, or it does not have these faults.
pub fn explore<B: ModelFactory>(
    factory: &mut B,
    options: &Options,
    watch: Watch<'_>,
) -> Result<Report, ExploreError> {
    search(factory, None, options, watch)
}

/// Explores every execution that begins in one initial configuration. The reports of all of them add up to that of
/// [`explore()`].
pub(super) fn explore_part<B: ModelFactory>(
    factory: &mut B,
    configuration: usize,
    options: &Options,
    watch: Watch<'_>,
) -> Result<Report, ExploreError> {
    search(factory, Some(configuration), options, watch)
}

fn search<B: ModelFactory>(
    factory: &mut B,
    only: Option<usize>,
    options: &Options,
    watch: Watch<'_>,
) -> Result<Report, ExploreError> {
    let kinds = faults(factory, options)?;
    let reduction = factory.reduction().unwrap_or(options.reduction);
    let options = &Options { reduction, kinds: Some(kinds), ..options.clone() };
    let mut report = Report::new(factory.name(), options);
    let _begun = panics::begin(factory, options);
    let world = match panics::caught(|| root(factory, options)) {
        Ok(world) => world,
        Err((violation, choices)) => {
            report.executions = 1;
            match options.looks_for(&violation) {
                true => report.violated(violation, choices),
                false => report.passed_over = 1,
            }
            report.stopped = report.counterexample.as_ref().map(|_| Stopped::Violation);
            return Ok(report);
        }
    };
    let mut search = Search {
        factory,
        options,
        only,
        world,
        broken: false,
        panics: 0,
        report,
        order: HappensBefore::new(),
        tree: Tree::new(),
        cache: Cache::new(options.max_cache, options.max_depth.is_some()),
        enabled: Vec::new(),
        footprint: Footprint::new(),
        races: Vec::new(),
        coverage: Coverage::default(),
        saved: Vec::new(),
        began: Instant::now(),
    };
    search.run(watch)?;
    Ok(search.finish())
}

/// The kinds of faults under which a model is explored.
pub(super) fn faults(model: &(impl Described + ?Sized), options: &Options) -> Result<FaultSet, ExploreError> {
    let (name, has, kinds) = (model.name(), model.faults(), options.kinds_of(model));
    let asks = options.kinds.is_some_and(|asked| !asked.is_empty());
    if options.faults > 0 && asks && kinds.is_empty() {
        let list = |kinds: FaultSet| kinds.iter().map(Outcome::name).collect::<Vec<_>>().join(", ");
        let asked = list(options.kinds.unwrap_or(FaultSet::NONE));
        let known = if has.is_empty() { "none".to_string() } else { list(has) };
        return Err(ExploreError::Faults(format!("'{name}' has no such faults as {asked}; it has: {known}")));
    }
    match model.most_faults().filter(|most| options.faults > *most) {
        Some(most) => {
            let text = format!("'{name}' is a world of at most {most} faults, not {}", options.faults);
            Err(ExploreError::Faults(text))
        }
        None => Ok(kinds),
    }
}

/// A world at its root, as it fits what is to be explored.
fn root<B: ModelFactory>(factory: &mut B, options: &Options) -> B::System {
    factory.allow(options.faults_of(FaultSet::ALL, options.faults));
    let caches = options.reduction == Reduction::Cache;
    factory.compare(caches || options.merges() || options.collect_ends);
    // Where every state is asked what it knows, programs had better be there.
    factory.memoise(options.memoise && !caches);
    let world = factory.root();
    factory.memoise(false);
    world
}

struct Search<'a, B: ModelFactory> {
    factory: &'a mut B,
    options: &'a Options,
    /// The initial configuration that is explored, if not all are.
    only: Option<usize>,
    world: B::System,
    /// A panic has left it in some state or other.
    broken: bool,
    /// How many executions a panic has ended.
    panics: u64,
    report: Report,
    order: HappensBefore,
    tree: Tree,
    cache: Cache,
    enabled: Vec<Enabled>,
    footprint: Footprint,
    races: Vec<u32>,
    coverage: Coverage,
    /// The states on the present path that are saved: after how many events each.
    saved: Vec<usize>,
    began: Instant,
}

/// From how many events on it is less work to save a state than to come to it again.
const WORTH_SAVING: usize = 8;

impl<B: ModelFactory> Search<'_, B> {
    fn run(&mut self, watch: Watch<'_>) -> Result<(), ExploreError> {
        let mut next = None;
        loop {
            self.execute(next)?;
            self.report.stopped = self.must_stop(watch);
            if self.report.stopped.is_some() {
                return Ok(());
            }
            next = self.retreat();
            if next.is_none() {
                // Going on after a violation still sees everything: what follows on one is cut off on purpose. But what a panic touched
                // is not known in whole.
                let cut_off = self.report.passed_over + self.report.too_deep + self.panics;
                self.report.exhaustive = cut_off == 0;
                self.report.stopped = (self.report.too_deep > 0).then_some(Stopped::Depth);
                return Ok(());
            }
            self.cache.go_back(self.order.len());
        }
    }

    /// Executes from the root, or from a choice at the end of the present path, on to an end. A panic is one.
    fn execute(&mut self, next: Option<(Enabled, Outcome)>) -> Result<(), ExploreError> {
        let executed = panics::caught(|| {
            if let Some((enabled, outcome)) = next {
                self.repeat()?;
                self.take(&enabled, outcome)?;
            }
            self.descend()
        });
        executed.unwrap_or_else(|(violation, choices)| {
            self.end_in_a_panic(violation, choices);
            Ok(())
        })
    }

    /// Goes on from the present state, choosing what is to be tried first, until the execution ends.
    fn descend(&mut self) -> Result<(), ExploreError> {
        loop {
            if self.world.in_vain() {
                self.report.redundant += 1;
                return Ok(());
            }
            if let Some(violation) = self.world.violation() {
                self.end(Err(violation));
                return Ok(());
            }
            self.enabled.clear();
            self.world.enabled(&mut self.enabled);
            if !self.enabled.is_empty() && self.is_too_deep() {
                return Ok(());
            }
            let entered = self.tree.enter(&self.enabled, &mut self.order, self.options);
            if entered != Entered::End && !self.is_to_be_explored()? {
                self.report.redundant += 1;
                self.tree.leave();
                return Ok(());
            }
            self.note_state();
            match entered {
                Entered::Open => {}
                // A state that is cached is explored in what does not sleep, and that may be nothing.
                Entered::Asleep if self.tree.is_open() => {}
                Entered::Asleep => {
                    self.report.redundant += 1;
                    return Ok(());
                }
                Entered::End => {
                    let verdict = self.world.finish();
                    self.end(verdict);
                    return Ok(());
                }
            }
            let Some((enabled, outcome)) = self.tree.choose() else { return Ok(()) };
            self.take(&enabled, outcome)?;
        }
    }

    /// Counts the present state. The root is counted by the first part; another part explores one choice there.
    fn note_state(&mut self) {
        let root_of = self.only.filter(|_| self.order.len() == 0);
        self.report.states += u64::from(root_of.is_none_or(|part| part == 0));
        if let Some(part) = root_of {
            self.tree.keep_only(part);
        }
    }

    fn is_too_deep(&mut self) -> bool {
        let reaches = |events: u32| self.order.len() >= events as usize;
        if reaches(self.options.livelock) {
            self.end(Err(Violation::endless(format!("{} events and no end", self.order.len()))));
            return true;
        }
        let cut = self.options.max_depth.is_some_and(reaches);
        if cut {
            self.report.too_deep += 1;
            self.end(Ok(()));
        }
        cut
    }

    /// Looks up the state whose node was just entered, and leaves of it only what is to be explored. False if that is
    /// nothing.
    fn is_to_be_explored(&mut self) -> Result<bool, ExploreError> {
        let quiescent = self.enabled.first().is_some_and(|event| event.quiescent);
        match self.options.reduction {
            Reduction::Cache => self.is_new(),
            _ => Ok(!(quiescent && self.options.merges()) || self.is_new_quiescent()),
        }
    }

    /// What happens in a quiescent state comes after all that happened before, and before all that happens afterwards. So
    /// nothing races across it: what follows depends on nothing but the state, and is explored once.
    fn is_new_quiescent(&mut self) -> bool {
        if self.cache.is_full() || self.tree.has_sleepers() {
            return true;
        }
        let Some(state) = self.world.fingerprint() else { return true };
        match self.cache.visit(state, self.tree.faults(), Ways::default(), self.order.len()) {
            Visit::New => true,
            Visit::Again(_) => {
                self.note_coverage();
                false
            }
            Visit::Circle(first) => {
                self.end_in_a_circle(first);
                false
            }
        }
    }

    /// The same for any state, where all of them are cached.
    fn is_new(&mut self) -> Result<bool, ExploreError> {
        let name = || ExploreError::NoFingerprint(self.factory.name().to_string());
        let state = self.world.fingerprint().ok_or_else(name)?;
        let Search { world, cache, tree, .. } = self;
        let slept = tree.slept(|actor, outcome| {
            let lasting = world.is_lasting(actor);
            if lasting { cache.way(actor, outcome) } else { None }
        });
        let depth = self.order.len();
        match cache.visit(state, tree.faults(), slept, depth) {
            Visit::New => Ok(true),
            Visit::Circle(first) => {
                self.end_in_a_circle(first);
                Ok(false)
            }
            Visit::Again(ways) => {
                tree.narrow(|actor, outcome| cache.way(actor, outcome).is_some_and(|way| ways.has(way)));
                // What it leads to has reached what it has reached, and so does this.
                self.note_coverage();
                Ok(!ways.is_empty())
            }
        }
    }

    fn take(&mut self, enabled: &Enabled, outcome: Outcome) -> Result<(), ExploreError> {
        let reduces = self.options.reduction != Reduction::None;
        self.footprint.clear();
        let touched = reduces.then_some(&mut self.footprint);
        self.report.transitions += 1;
        let after = self.order.len();
        let not_now = |stuck| ExploreError::NotDeterministic { stuck, after };
        panics::note(after, Step { event: enabled.event, outcome });
        self.world.take(enabled.event, outcome, touched).map_err(not_now)?;
        if outcome.is_fault() && !self.world.in_vain() {
            *self.report.struck.entry(outcome.name()).or_default() += 1;
        }
        match self.options.reduction {
            Reduction::None => self.order.push_plain(enabled, outcome),
            Reduction::Sleep | Reduction::Cache => self.order.push_touches(enabled, outcome, &self.footprint),
            Reduction::Dpor => {
                self.order.push(enabled, outcome, &self.footprint);
                self.reverse_races();
            }
        }
        Ok(())
    }

    fn reverse_races(&mut self) {
        let Some(last) = self.order.last() else { return };
        self.tree.forget_put_off(self.order.len() - 1);
        self.races.clear();
        self.races.extend_from_slice(self.order.races());
        for &earlier in &self.races {
            self.tree.reverse(earlier as usize, last, &mut self.order.reversal(earlier as usize));
        }
        self.tree.reverse_put_off(last, &mut self.order);
    }

    /// Goes back to the last state where something is left to be tried, and chooses it.
    fn retreat(&mut self) -> Option<(Enabled, Outcome)> {
        loop {
            if self.order.len() == self.tree.len() {
                self.step_back();
            }
            if let Some(choice) = self.tree.choose() {
                return Some(choice);
            }
            self.tree.leave();
            if self.tree.len() == 0 {
                return None;
            }
        }
    }

    fn step_back(&mut self) {
        match self.options.reduction {
            Reduction::None => drop(self.order.pop_plain()),
            Reduction::Sleep | Reduction::Cache => {
                self.order.pop_plain().into_iter().for_each(|slept| self.tree.sleep(slept))
            }
            Reduction::Dpor => self.order.pop().into_iter().for_each(|slept| self.tree.sleep(slept)),
        }
    }

    /// Repeats the present path from the last state on it that was saved, or from the root. What its steps touched is
    /// known.
    fn repeat(&mut self) -> Result<(), ExploreError> {
        let from = self.go_back();
        let steps = self.order.len() - from;
        self.report.transitions += steps as u64;
        for (after, step) in self.order.choices().enumerate().skip(from) {
            let not_now = |stuck| ExploreError::NotDeterministic { stuck, after };
            panics::note(after, step);
            self.world.take(step.event, step.outcome, None).map_err(not_now)?;
        }
        // Most of what comes next goes on from here, or from further on.
        if steps >= WORTH_SAVING && self.world.save(self.saved.len()) {
            self.saved.push(self.order.len());
        }
        Ok(())
    }

    /// Goes back to a state on the present path: after how many events.
    fn go_back(&mut self) -> usize {
        if std::mem::take(&mut self.broken) {
            self.saved.clear();
            panics::note_root();
            panics::drop_broken(std::mem::replace(&mut self.world, root(self.factory, self.options)));
            return 0;
        }
        while self.saved.last().is_some_and(|&depth| depth > self.order.len()) {
            self.saved.pop();
        }
        if let Some(&depth) = self.saved.last() {
            if self.world.restore(self.saved.len() - 1) {
                return depth;
            }
            self.saved.clear();
        }
        panics::note_root();
        self.factory.reset(&mut self.world);
        0
    }

    fn end(&mut self, verdict: Result<(), Violation>) {
        self.report.executions += 1;
        self.report.deepest = self.report.deepest.max(self.order.len() as u64);
        self.note_coverage();
        if self.options.collect_ends {
            self.report.ends.extend(self.world.fingerprint());
        }
        if let Err(violation) = verdict {
            self.violated(violation, Choices(self.order.choices().collect()));
        }
    }

    fn violated(&mut self, violation: Violation, choices: Choices) {
        if self.options.looks_for(&violation) {
            self.report.violated(violation, choices);
        } else {
            self.report.passed_over += 1;
        }
    }

    /// The execution has ended in a panic: before a choice of the present path was taken, or at its end. Its world is not to be used again,
    /// and is not asked what it has reached.
    fn end_in_a_panic(&mut self, violation: Violation, choices: Choices) {
        self.broken = true;
        self.panics += 1;
        self.report.executions += 1;
        self.report.deepest = self.report.deepest.max(choices.0.len() as u64);
        self.violated(violation, choices);
    }

    fn end_in_a_circle(&mut self, first: usize) {
        self.end(Err(Violation::circle(first, self.order.len())));
    }

    fn note_coverage(&mut self) {
        self.coverage.rewind();
        self.world.coverage(&mut self.coverage);
    }

    fn must_stop(&self, watch: Watch<'_>) -> Option<Stopped> {
        let Report { executions, redundant, transitions, .. } = self.report;
        if self.report.counterexample.is_some() && !self.options.go_on {
            return Some(Stopped::Violation);
        }
        if self.options.max_executions.is_some_and(|most| executions >= most) {
            return Some(Stopped::Executions);
        }
        if self.options.reduction == Reduction::Cache && self.cache.is_full() {
            return Some(Stopped::Memory);
        }
        // Looking at the clock takes as long as some steps do.
        let ended = executions + redundant;
        if ended != 1 && !ended.is_multiple_of(16) {
            return None;
        }
        let elapsed = self.began.elapsed();
        if self.options.max_time.is_some_and(|most| elapsed >= most) {
            return Some(Stopped::Time);
        }
        let progress = Progress { executions, transitions, elapsed, share: self.tree.share() };
        watch(&progress).is_break().then_some(Stopped::Asked)
    }

    fn finish(mut self) -> Report {
        self.report.seconds = self.began.elapsed().as_secs_f64();
        self.report.imprecise = self.tree.imprecise();
        self.report.cover(&self.coverage);
        if self.broken {
            panics::drop_broken(self.world);
        }
        self.report
    }
}
