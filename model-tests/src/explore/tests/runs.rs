//! Walks, failures, their files and their minimising, and limits.

use super::{options, planted_bugs, run};
use crate::explore::toy::{self, Op, Program, Test, Toy, Value, planted};
use crate::explore::{
    AnyModel, Choices, Described, Failure, FailureError, Fingerprint, Found, LIVELOCK, ModelFactory, Options,
    PANIC, Progress, Reduction, Size, Step, Stopped, Strategy, Stuck, TransitionSystem, Violation, Walk,
    explore, minimise, replay, walks,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;
use weft_sim::choice::EventId;
use weft_sim::explore::{Actor, Enabled, FaultSet, Footprint, Outcome};

fn shallow() -> Options {
    Options { livelock: 1_000, ..Options::default() }
}

#[test]
fn a_minimised_run_fails_alike_and_has_no_choice_that_can_be_left_out() {
    for (mut toy, faults) in planted_bugs() {
        let found = run(&mut toy, &options(Reduction::Dpor, faults)).counterexample.expect("a violation");
        let mut on = |_: &Progress| ControlFlow::Continue(());
        let least = minimise(&mut toy, &found.choices, &found.violation, &shallow(), &mut on).expect("runs");
        assert!(least.0.len() < found.choices.0.len() && least.faults() == faults as usize);
        let fails = |toy: &mut Toy, choices: &Choices| {
            let run = replay(toy, choices, &shallow(), false).expect("runs");
            run.violation.is_some_and(|violation| violation.oracle == found.violation.oracle)
        };
        assert!(fails(&mut toy, &least), "{}", Described::name(&toy));
        for index in 0..least.0.len() {
            let mut without = least.clone();
            without.0.remove(index);
            assert!(!fails(&mut toy, &without), "{}: {index}", Described::name(&toy));
        }
    }
}

#[test]
fn a_failure_file_gives_the_same_run_to_the_byte() {
    let mut toy = planted::mcs_links_first();
    let found = run(&mut toy, &options(Reduction::Dpor, 0)).counterexample.expect("a violation");
    let first = replay(&mut toy, &found.choices, &shallow(), true).expect("runs");
    assert_eq!((&first.choices, first.violation.as_ref()), (&found.choices, Some(&found.violation)));
    let size = Size::new([("nodes", 2)]);
    let mut failure = Failure::new("mcs", size, found.choices, &first, &shallow()).expect("a failure");
    failure.kinds = FaultSet::one(Outcome::Drop).with(Outcome::Cut);
    let oracle = Some("sum".to_string());
    failure.found = Some(Found { by: "dpor".into(), faults: 1, oracle, seed: Some(7), params: None });
    let read = Failure::parse(&failure.text().expect("a text")).expect("a failure");
    assert_eq!(read, failure);
    let again = replay(&mut toy, &read.choices, &read.options(), true).expect("runs");
    assert_eq!((again.log(), again.digest()), (first.log(), read.digest));
    assert!(first.log().lines().count() > first.choices.0.len());
    for wrong in ["", "weft = 1", "[choices]"] {
        assert!(Failure::parse(wrong).is_err());
    }
}

#[test]
fn files_of_other_versions_are_read_or_refused_by_their_version() {
    let found = run(&mut planted::lost_update(), &options(Reduction::Dpor, 0)).counterexample.expect("found");
    let first = replay(&mut planted::lost_update(), &found.choices, &shallow(), true).expect("runs");
    let failure = Failure::new("x", Size::default(), found.choices, &first, &shallow()).expect("a failure");
    let text = failure.text().expect("a text");
    let kinds = text.lines().find(|line| line.starts_with("kinds")).expect("kinds");
    let older = Failure::parse(&text.replace(kinds, "")).expect("it is read");
    assert_eq!(older.kinds, FaultSet::ALL, "kinds were not kept then: any could have been");
    let other = text.replace(&format!("weft = \"{}\"", Failure::VERSION), "weft = \"9.1.0\"\ncolour = 3");
    assert_eq!(Failure::parse(&other), Err(FailureError::OtherVersion("9.1.0".into())));
    let bang = text.replace(kinds, "kinds = [\"bang\"]");
    assert!(Failure::parse(&bang).unwrap_err().to_string().contains("'bang' is no kind of fault"));
}

#[test]
fn every_planted_bug_is_found_by_every_kind_of_walk() {
    for (mut toy, faults) in planted_bugs() {
        for strategy in Strategy::ALL {
            let mut found = false;
            let mut look = |_, walk: Walk| {
                found = walk.violation.is_some();
                if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let options = Options { faults, ..Options::default() };
            toy.walks(strategy, &mut (0..5_000), &options, &mut look).expect("walks");
            assert!(found, "{}, {strategy}", Described::name(&toy));
        }
    }
}

#[test]
fn a_seed_walks_the_same_way_twice_and_within_its_faults() {
    let mut toy = planted::blind_resend();
    let options = Options { faults: 1, ..Options::default() };
    let walked = |toy: &mut Toy, strategy| {
        let mut walked = Vec::new();
        let each = |_, walk: Walk| {
            walked.push(walk);
            ControlFlow::Continue(())
        };
        walks(toy, strategy, 0..200, &options, each).expect("walks");
        walked
    };
    for strategy in Strategy::ALL {
        let first = walked(&mut toy, strategy);
        assert_eq!(first, walked(&mut toy, strategy));
        assert!(first.iter().all(|walk| walk.choices.faults() <= 1), "{strategy}");
        assert!(first.iter().any(|walk| walk.choices.faults() == 1), "{strategy}");
    }
}

/// Two processes that hand a word to and fro for ever.
fn endless() -> Toy {
    let process = |mine: u8, other: u8| {
        let go_on = Op::Branch(Test::Equals(Value::Is(mine)), 0);
        vec![Op::Await(0, Test::Equals(Value::Is(mine))), Op::Write(0, Value::Is(other)), go_on]
    };
    Toy::new(
        "endless",
        Program { processes: vec![process(0, 1), process(1, 0)], words: 1, ..Program::default() },
    )
}

#[test]
fn an_execution_without_end_is_reported_and_not_cut_off_in_silence() {
    for reduction in Reduction::ALL {
        let options = options(reduction, 0);
        let found = run(&mut endless(), &Options { livelock: 100, ..options.clone() }).counterexample;
        assert_eq!(found.expect("found").violation.oracle, "possible livelock", "{reduction}");
        // A limit that somebody asked for is no violation.
        let report = run(&mut endless(), &Options { max_depth: Some(2), ..options });
        assert_eq!((report.held(), report.exhaustive), (true, false), "{reduction}");
        assert_eq!(report.stopped, Some(Stopped::Depth), "{reduction}");
        assert!(report.too_deep > 0 && report.deepest == 2, "{reduction}");
    }
}

/// Asks in vain, which leaves it where it was, or comes to its end.
struct AsksInVain {
    asked: u64,
    ended: bool,
    of: Vain,
}

impl TransitionSystem for AsksInVain {
    fn enabled(&mut self, out: &mut Vec<Enabled>) {
        if self.ended {
            return;
        }
        let offer = |actor, event| Enabled {
            event: EventId(event),
            actor: Actor(actor),
            faults: FaultSet::NONE,
            quiescent: self.of.quiescent,
        };
        out.extend([offer(1, 1), offer(2, 2 + self.asked)]);
    }

    fn take(&mut self, event: EventId, _: Outcome, _: Option<&mut Footprint>) -> Result<(), Stuck> {
        self.ended = event == EventId(1);
        self.asked += 1;
        Ok(())
    }

    fn violation(&mut self) -> Option<Violation> {
        None
    }

    fn finish(&mut self) -> Result<(), Violation> {
        Ok(())
    }

    fn fingerprint(&mut self) -> Option<Fingerprint> {
        let Vain { quiescent, may_break } = self.of;
        let seen = if may_break && !quiescent { self.asked } else { 0 };
        Some(Fingerprint((u128::from(seen) << 1) | u128::from(self.ended)))
    }
}

/// Where something may break, states are told apart by what happened before unless they are quiescent, as the harness does it.
#[derive(Clone, Copy)]
struct Vain {
    quiescent: bool,
    may_break: bool,
}

impl Described for Vain {
    fn name(&self) -> &'static str {
        "vain"
    }
}

impl ModelFactory for Vain {
    type System = AsksInVain;

    fn allow(&mut self, faults: FaultSet) {
        self.may_break = !faults.is_empty();
    }

    fn root(&mut self) -> AsksInVain {
        AsksInVain { asked: 0, ended: false, of: *self }
    }
}

/// By its first events the run would end.
#[test]
fn an_execution_that_comes_back_to_a_state_is_made_short_saved_and_seen_again() {
    let explored =
        [(Reduction::Cache, 0), (Reduction::Cache, 1), (Reduction::Dpor, 1), (Reduction::Sleep, 1)];
    for (reduction, faults) in explored {
        let mut vain = Vain { quiescent: faults > 0, may_break: false };
        let options = Options { reduction, faults, ..shallow() };
        let explored = explore(&mut vain, &options, &mut |_| ControlFlow::Continue(())).expect("explores");
        let found = explored.counterexample.expect("it comes back to where it was");
        let mut on = |_: &Progress| ControlFlow::Continue(());
        let least = minimise(&mut vain, &found.choices, &found.violation, &options, &mut on).expect("runs");
        assert_eq!(least.0.len(), 1, "{reduction}: it asks once");
        let run = replay(&mut vain, &least, &options.to_repeat(&found.violation), true).expect("runs");
        let failure = Failure::new("vain", Size::default(), least, &run, &options).expect("it fails again");
        let read = Failure::parse(&failure.text().expect("a text")).expect("a failure");
        let again = replay(&mut vain, &read.choices, &read.options(), true).expect("runs");
        assert_eq!((again.digest(), again.violation), (read.digest, Some(found.violation)));
    }
}

#[test]
fn limits_end_an_exploration_cleanly() {
    let wide = Program {
        processes: vec![vec![Op::FetchAdd(0, Value::Is(1)); 4]; 4],
        words: 1,
        ..Program::default()
    };
    let mut toy = Toy::new("wide", wide);
    let limited = [
        (Options { max_executions: Some(7), ..options(Reduction::Dpor, 0) }, Stopped::Executions),
        (Options { max_time: Some(Duration::ZERO), ..options(Reduction::Sleep, 0) }, Stopped::Time),
        (Options { max_cache: 1_000, ..options(Reduction::Cache, 0) }, Stopped::Memory),
    ];
    for (options, why) in limited {
        let report = run(&mut toy, &options);
        assert_eq!((report.stopped, report.exhaustive, report.held()), (Some(why), false, true));
        assert!(report.executions > 0 && report.transitions >= report.executions);
    }
    let stopped = explore(&mut toy, &options(Reduction::None, 0), &mut |_| ControlFlow::Break(()));
    assert_eq!(stopped.expect("explores").stopped, Some(Stopped::Asked));
}

/// Survives one kind of fault, and can be explored under another one besides, once. It asks in vain, and any fault ends it.
struct Careful;

impl Described for Careful {
    fn name(&self) -> &'static str {
        "careful"
    }

    fn faults(&self) -> FaultSet {
        FaultSet::one(Outcome::Drop).with(Outcome::Crash)
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::one(Outcome::Drop)
    }

    fn most_faults(&self) -> Option<u32> {
        Some(1)
    }
}

/// One event, which may go wrong in every way.
struct OneEvent(bool);

impl TransitionSystem for OneEvent {
    fn enabled(&mut self, out: &mut Vec<Enabled>) {
        let (event, actor, faults) = (EventId(1), Actor(1), FaultSet::ALL);
        out.extend((!self.0).then_some(Enabled { event, actor, faults, quiescent: false }));
    }

    fn take(&mut self, _: EventId, _: Outcome, _: Option<&mut Footprint>) -> Result<(), Stuck> {
        self.0 = true;
        Ok(())
    }

    fn violation(&mut self) -> Option<Violation> {
        None
    }

    fn finish(&mut self) -> Result<(), Violation> {
        Ok(())
    }
}

impl ModelFactory for Careful {
    type System = OneEvent;

    fn root(&mut self) -> OneEvent {
        OneEvent(false)
    }
}

#[test]
fn a_model_is_explored_under_the_faults_that_it_survives_unless_others_of_its_own_are_asked_for() {
    let explored = |faults, kinds: Option<FaultSet>| {
        let options = Options { faults, kinds, ..Options::default() };
        explore(&mut Careful, &options, &mut |_| ControlFlow::Continue(())).map(|report| report.struck)
    };
    assert_eq!(explored(1, None), Ok(BTreeMap::from([("drop", 1)])));
    assert_eq!(explored(1, Some(FaultSet::ALL)), Ok(BTreeMap::from([("crash", 1), ("drop", 1)])));
    let told = |faults, kinds| explored(faults, kinds).unwrap_err().to_string();
    let cut = told(1, Some(FaultSet::one(Outcome::Cut)));
    assert_eq!(cut, "'careful' has no such faults as cut; it has: drop, crash");
    assert_eq!(told(2, None), "'careful' is a world of at most 1 faults, not 2");
}

#[test]
fn walks_are_refused_the_faults_that_a_search_is_refused() {
    let refused = |faults, kinds: Option<FaultSet>| {
        let options = Options { faults, kinds, ..Options::default() };
        let each = |seed, walk: Walk| panic!("seed {seed}: {walk:?}");
        let walked = walks(&mut Careful, Strategy::Swarm, 0..20, &options, each);
        let searched = explore(&mut Careful, &options, &mut |_| ControlFlow::Continue(())).err();
        assert_eq!(walked.err(), searched);
        searched.is_some()
    };
    assert!(refused(1, Some(FaultSet::one(Outcome::Cut))));
    assert!(refused(2, None));
}

#[test]
fn what_a_search_itself_may_find_can_be_looked_for_alone_in_every_toy() {
    for entry in toy::all() {
        let promises = entry.build(&Size::default()).expect("it has one size").promises();
        assert!(promises.contains(&LIVELOCK) && promises.contains(&PANIC), "{}: {promises:?}", entry.name);
    }
}

#[test]
fn a_run_that_does_not_fail_again_is_not_made_short() {
    let choices = Choices(vec![Step { event: EventId(1), outcome: Outcome::Done }]);
    let violation = Violation::new("never", "seen");
    let mut on = |_: &Progress| ControlFlow::Continue(());
    let least = minimise(&mut Careful, &choices, &violation, &Options::default(), &mut on);
    assert_eq!(least, Ok(choices));
}
