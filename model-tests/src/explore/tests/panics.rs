//! A panic in a protocol, a model or an oracle is a violation as any other.

use crate::explore::panics::{UnderWay, under_way};
use crate::explore::{
    Failure, Options, Reduction, Report, Size, Stopped, Strategy, Violation, Walk, explore, minimise, replay,
    walks,
};
use crate::harness::{Harness, Member, Model, Recorder, Shape};
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use weft_protocols::rt::fingerprint::StateHasher;
use weft_protocols::transport::{Channel, Incoming};
use weft_sim::explore::Outcome;
use weft_verbs::{AccessFlags, Wait};

const CHANNEL: Channel = Channel(1);

/// Who gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Start,
    Program,
    Judge,
    Finish,
    /// A program that finds no memory.
    Memory,
}

/// Two nodes tell the third one something, and the second one must not be first.
struct Expects {
    gives_up: Where,
    memoised: bool,
    /// What a hook would have been told.
    under_way: Rc<RefCell<Option<UnderWay>>>,
}

/// Two lines: a violation is one.
fn expect(first: u32) {
    assert_eq!(first, 0, "who comes first");
}

impl Model for Expects {
    /// Who came first, and whether all is done.
    type State = Rc<Cell<Option<u32>>>;
    type Oracles = ();

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 3, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn is_memoisable(&self) -> bool {
        self.memoised
    }

    fn start(&self, _: usize, members: &[Member], _: &Recorder<()>) -> Self::State {
        assert!(self.gives_up != Where::Start, "who comes first");
        let (gives_up, came) = (self.gives_up, Rc::new(Cell::new(None)));
        let third = &members[2];
        for Member { rt, mesh, .. } in &members[..2] {
            let (mesh, to) = (mesh.clone(), third.mesh.me());
            rt.spawn(async move {
                if gives_up == Where::Memory {
                    mesh.alloc(8, AccessFlags::LOCAL_WRITE).expect("who comes first");
                }
                let _ = mesh.send(to, CHANNEL, &[]);
            });
        }
        let (mut inbox, first) = (third.mesh.open(CHANNEL).expect("it is free"), Rc::clone(&came));
        third.rt.spawn(async move {
            while let Some(Incoming::Message(message)) = inbox.recv().await {
                let from = message.from().index() as u32;
                if gives_up == Where::Program && first.get().is_none() {
                    expect(from);
                }
                first.set(first.get().or(Some(from)));
            }
        });
        came
    }

    fn judge(&self, first: &Self::State, _: &[Member], _: &mut StateHasher) -> Result<(), Violation> {
        if self.gives_up == Where::Judge {
            *self.under_way.borrow_mut() = under_way();
            first.get().into_iter().for_each(expect);
        }
        Ok(())
    }

    fn finish(&self, first: &Self::State, _: &[Member], _: &Recorder<()>) -> Result<(), Violation> {
        if self.gives_up == Where::Finish {
            first.get().into_iter().for_each(expect);
        }
        match first.get() {
            Some(0) => Err(Violation::new("other", "the first one came first")),
            _ => Ok(()),
        }
    }
}

fn harness(gives_up: Where, memoised: bool) -> Harness<Expects> {
    Harness::new("expects", Expects { gives_up, memoised, under_way: Rc::default() })
}

fn explored(harness: &mut Harness<Expects>, options: &Options) -> Report {
    explore(harness, options, &mut |_| ControlFlow::Continue(())).expect("it is deterministic")
}

fn panics_only() -> Options {
    Options { oracle: Some("panic".to_string()), ..Options::default() }
}

#[test]
fn a_panic_is_a_counterexample_that_is_seen_again_and_made_short() {
    use Where::{Finish, Judge, Memory, Program, Start};
    let all =
        [(Program, false), (Program, true), (Judge, false), (Finish, false), (Memory, true), (Start, false)];
    for ((gives_up, memoised), reduction) in
        all.into_iter().flat_map(|one| [Reduction::Dpor, Reduction::Sleep].map(|reduction| (one, reduction)))
    {
        let what = format!("{gives_up:?}, memoised: {memoised}, {reduction}");
        let harness = &mut harness(gives_up, memoised);
        let faults = u32::from(gives_up == Memory);
        let options = Options { faults, reduction, ..panics_only() };
        let found = explored(harness, &options).counterexample.expect(&what);
        let text = found.violation.to_string();
        assert!(text.starts_with("panic: ") && text.contains("panics.rs:"), "{what}: {text}");
        assert!(text.contains("who comes first") && !text.contains('\n'), "{what}: {text}");
        assert_eq!(found.choices.faults(), faults as usize, "{what}");
        assert_eq!(under_way().map(|runs| runs.world), None, "{what}: it is over");

        let run = replay(harness, &found.choices, &options, true).expect(&what);
        assert_eq!(
            (&run.choices, run.violation.as_ref()),
            (&found.choices, Some(&found.violation)),
            "{what}"
        );
        let mut on = |_: &_| ControlFlow::Continue(());
        let short = minimise(harness, &found.choices, &found.violation, &options, &mut on).expect(&what);
        assert!(short.0.len() <= found.choices.0.len(), "{what}");
        let run = replay(harness, &short, &options, true).expect(&what);
        assert!(run.violation.as_ref().is_some_and(Violation::is_panic), "{what}");
        assert!(gives_up == Start || run.trace.len() > run.choices.0.len(), "{what}");
        let saved = Failure::new("expects", Size::default(), short, &run, &options).expect(&what);
        let read = Failure::parse(&saved.text().expect(&what)).expect(&what);
        let again = replay(harness, &read.choices, &read.options(), true).expect(&what);
        assert_eq!((again.digest(), again.violation), (read.digest, Some(read.violation)), "{what}");
    }
}

#[test]
fn where_memory_is_refused_the_choices_say_so() {
    let options = Options { faults: 1, ..panics_only() };
    let found = explored(&mut harness(Where::Memory, false), &options).counterexample.expect("a panic");
    assert!(found.choices.0.iter().any(|step| step.outcome == Outcome::NoMemory), "{:?}", found.choices);
}

#[test]
fn an_exploration_goes_on_behind_a_panic_and_does_not_take_all_for_seen() {
    let options = Options { go_on: true, ..Options::default() };
    for gives_up in [Where::Program, Where::Judge, Where::Finish] {
        let report = explored(&mut harness(gives_up, false), &options);
        assert!(report.executions > 1 && !report.exhaustive && !report.held(), "{gives_up:?}");
        let other = Options { oracle: Some("other".to_string()), ..Options::default() };
        let report = explored(&mut harness(gives_up, false), &other);
        assert_eq!(report.counterexample.map(|found| found.violation.oracle), Some("other".to_string()));
    }
    let report = explored(&mut harness(Where::Start, false), &options);
    assert_eq!((report.executions, report.stopped), (1, Some(Stopped::Violation)));
}

#[test]
fn walks_go_on_behind_a_panic() {
    let mut harness = harness(Where::Program, false);
    let mut walked = || {
        let mut broken = Vec::new();
        let look = |_, Walk { violation, .. }| {
            broken.push(violation.map(|violation: Violation| violation.oracle));
            ControlFlow::Continue(())
        };
        walks(&mut harness, Strategy::Random, 0..40, &Options::default(), look).expect("they walk");
        broken
    };
    let first = walked();
    let some = |name: &str| first.iter().flatten().filter(|oracle| *oracle == name).count();
    assert!(some("panic") > 0 && some("other") > 0 && some("panic") + some("other") == 40, "{first:?}");
    assert_eq!(walked(), first);
}

#[test]
fn who_would_be_ended_by_a_panic_knows_what_led_to_it() {
    let model = Expects { gives_up: Where::Judge, memoised: false, under_way: Rc::default() };
    let told = Rc::clone(&model.under_way);
    let mut harness = Harness::new("expects", model);
    let found = explored(&mut harness, &panics_only()).counterexample.expect("a panic");
    let UnderWay { world, choices, .. } = told.borrow_mut().take().expect("something was under way");
    assert_eq!((world.as_str(), choices), ("expects", found.choices));
}
