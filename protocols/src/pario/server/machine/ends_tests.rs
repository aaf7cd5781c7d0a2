//! Where files end: places for appends, cuts, and files that are gone; and answers that are known again.

use super::super::super::super::slots::Asked;
use super::super::super::super::{Distribution, Path, Storage};
use super::*;
use crate::pario::server::log::Log;
use crate::pario::server::names::Names;

fn recorded(slot: u16, sequence: u64, request: Request) -> Request {
    Request::Recorded { asked: Asked { slot, sequence }, request: Box::new(request) }
}

fn create(text: &str, layout: Distribution) -> Request {
    Request::Create { path: Path::new(text).unwrap(), layout }
}

/// A machine with a file that is open, over two servers in strips of eight bytes.
fn with_file() -> (Bench, Handle) {
    let mut bench = Bench::new(CONFIG);
    let made = answers(bench.ask(1, create("a", Distribution::stripe(8, 2, 0).unwrap())));
    let [(1, Answer::Opened { handle, .. })] = made[..] else { panic!("{made:?}") };
    (bench, handle)
}

fn place(bench: &mut Bench, id: u64, handle: Handle, least: u64, cuts: u64) -> Vec<(u64, Answer)> {
    answers(bench.ask(id, Request::Place { handle, len: 10, least, cuts: (EPOCH, cuts) }))
}

/// Cuts a file, and has each server do it.
fn cut(bench: &mut Bench, id: u64, handle: Handle, size: u64) -> Vec<(u64, Answer)> {
    let begun = bench.ask(id, Request::Truncate { handle, size }).to_vec();
    let [Action::Store { op: own, call: StoreCall::Cut { .. } }, Action::Spread { op: other, .. }] =
        begun[..]
    else {
        panic!("{begun:?}")
    };
    bench.on(Event::Stored { op: own, end: Ok(Stored::Done) });
    answers(bench.on(Event::Spread { op: other, end: Ok(()) }))
}

#[test]
fn no_two_places_have_a_byte_in_common_and_none_lies_before_the_end_that_was_seen() {
    let (mut bench, handle) = with_file();
    assert_eq!(place(&mut bench, 2, handle, 5, 0), [(2, Answer::Place { at: 5 })]);
    assert_eq!(place(&mut bench, 3, handle, 5, 0), [(3, Answer::Place { at: 15 })]);
    assert_eq!(place(&mut bench, 4, handle, 40, 0), [(4, Answer::Place { at: 40 })]);
    assert_eq!(place(&mut bench, 5, Handle(77), 0, 0), [(5, Answer::Refused(Refusal::Stale))]);
}

#[test]
fn a_cut_ends_each_object_where_the_file_ends_and_grows_the_one_with_the_last_byte() {
    let (mut bench, handle) = with_file();
    let begun = bench.ask(2, Request::Truncate { handle, size: 20 }).to_vec();
    let [Action::Store { call: own, .. }, Action::Spread { server: 1, request: other, .. }] = &begun[..]
    else {
        panic!("{begun:?}")
    };
    assert_eq!(*own, StoreCall::Cut { handle, size: 12, grows: true });
    assert_eq!(*other, Request::Cut { handle, size: 8, grows: false });
}

#[test]
fn who_saw_a_file_before_it_was_cut_is_given_no_place_and_places_begin_at_the_cut() {
    let (mut bench, handle) = with_file();
    place(&mut bench, 2, handle, 0, 0);
    bench.ask(3, Request::Placed { handle, at: 0 });
    assert_eq!(cut(&mut bench, 4, handle, 0), [(4, Answer::Done)]);
    assert_eq!(place(&mut bench, 5, handle, 10, 0), [(5, Answer::Cuts((EPOCH, 1)))]);
    assert_eq!(place(&mut bench, 6, handle, 0, 1), [(6, Answer::Place { at: 0 })]);
}

#[test]
fn a_place_to_which_somebody_may_write_is_not_given_out_again_after_a_cut() {
    let (mut bench, handle) = with_file();
    assert_eq!(place(&mut bench, 2, handle, 0, 0), [(2, Answer::Place { at: 0 })]);
    cut(&mut bench, 3, handle, 0);
    assert_eq!(place(&mut bench, 4, handle, 0, 1), [(4, Answer::Place { at: 10 })]);
}

#[test]
fn no_place_is_given_out_while_a_file_is_cut() {
    let (mut bench, handle) = with_file();
    let begun = bench.ask(2, Request::Truncate { handle, size: 3 }).to_vec();
    let ops: Vec<u64> = begun
        .iter()
        .map(|action| match action {
            Action::Store { op, .. } | Action::Spread { op, .. } => *op,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(place(&mut bench, 3, handle, 3, 0), []);
    bench.on(Event::Stored { op: ops[0], end: Ok(Stored::Done) });
    let last = answers(bench.on(Event::Spread { op: ops[1], end: Ok(()) }));
    assert_eq!(last, [(2, Answer::Done), (3, Answer::Cuts((EPOCH, 1)))]);
}

#[test]
fn nothing_makes_an_object_of_a_file_that_is_gone() {
    let mut bench = Bench::new(CONFIG);
    let pulled = pulls(bench.ask(1, write(0, 32)));
    let removed =
        stores(bench.on(Event::Request { from: rank(1), id: 4, request: Request::Remove { handle: FILE } }));
    bench.on(Event::Stored { op: removed[0], end: Ok(Stored::Done) });
    let late = bench.on(Event::Moved { op: pulled[0].0, done: true }).to_vec();
    assert_eq!((stores(&late), answers(&late)), (vec![], vec![(1, Answer::Refused(Refusal::Stale))]));
    assert_eq!(answers(bench.ask(2, write(0, 32))), [(2, Answer::Refused(Refusal::Stale))]);
    let data = Request::Write { bytes: bytes(0, 8), from: Source::Request(vec![1; 8]) };
    assert_eq!(answers(bench.ask(3, data)), [(3, Answer::Refused(Refusal::Stale))]);
    assert!(bench.is_empty());
}

#[test]
fn members_are_answered_when_all_have_come_and_one_that_began_anew_is_not_waited_for_as_it_was() {
    let mut bench = Bench::new(CONFIG);
    let come = |member, word| Request::Gather { group: 1, round: 0, member, members: 2, word };
    assert_eq!(bench.ask(1, come(1, 0)), []);
    let other = Event::Request { from: rank(6), id: 2, request: come(0, 5) };
    assert_eq!(answers(bench.on(other)), [(2, Answer::Gathered(5)), (1, Answer::Gathered(5))]);
    assert_eq!(bench.ask(3, come(1, 0)), []);
    bench.on(Event::Reset { client: rank(5) });
    assert!(bench.is_empty());
    let none = Request::Gather { group: 1, round: 0, member: 2, members: 2, word: 0 };
    assert_eq!(answers(bench.ask(4, none)), [(4, Answer::Refused(Refusal::Position))]);
}

/// A machine whose directory has a log, and the bytes of that.
fn logged(names: Names, newest: Option<u64>) -> Bench {
    let log = Log::behind(newest, None, 0);
    let config = FsConfig { storage: Storage::Disk, ..CONFIG };
    let machine = Machine::new((0, EPOCH), config, 600, Some(Directory::new(names, Some(log))));
    Bench { machine, actions: Vec::new() }
}

/// Ends the commit that is under way: its bytes, and what is answered then.
fn committed(bench: &mut Bench) -> (Vec<u8>, Vec<(u64, Answer)>) {
    let commit = bench.actions.iter().find_map(|action| match action {
        Action::Commit { op, commit } => Some((*op, commit.clone())),
        _ => None,
    });
    let (op, commit) = commit.expect("a commit");
    (commit.bytes, answers(bench.on(Event::Committed { op, end: Ok(()) })))
}

#[test]
fn a_call_that_was_executed_is_answered_by_the_next_life_and_not_executed_again() {
    let mut bench = logged(Names::default(), None);
    bench.ask(1, recorded(3, 50, create("a", Distribution::single(0))));
    let (log, told) = committed(&mut bench);
    let [(1, Answer::Opened { handle, layout, .. })] = told[..] else { panic!("{told:?}") };

    let found = crate::pario::server::log::read(0, &log).expect("whole").names;
    let mut bench = logged(found, Some(0));
    let again = answers(bench.ask(2, recorded(3, 50, create("a", Distribution::single(0)))));
    assert_eq!(again, [(2, Answer::Opened { handle, layout, epoch: EPOCH })], "and nothing is committed");
    let other = answers(bench.ask(3, recorded(3, 51, create("a", Distribution::single(0)))));
    assert_eq!(other, [(3, Answer::Refused(Refusal::Exists))], "another call in that slot");
    let closed = answers(bench.ask(4, Request::Close { handle, epoch: EPOCH }));
    assert_eq!(closed, [(4, Answer::Done)], "it is open in this life");

    bench.ask(5, recorded(3, 52, Request::Unlink { path: Path::new("a").unwrap() }));
    let (_, told) = committed(&mut bench);
    assert_eq!(told, [], "before its object is removed");
    assert_eq!(
        answers(bench.ask(6, recorded(3, 52, Request::Unlink { path: Path::new("a").unwrap() }))),
        [(6, Answer::Done)]
    );
}

#[test]
fn an_answer_that_found_no_room_is_not_kept() {
    let mut bench = logged(Names::default(), None);
    bench.ask(1, recorded(0, 7, create("a", Distribution::single(0))));
    let op = match bench.actions[..] {
        [Action::Commit { op, .. }] => op,
        ref other => panic!("{other:?}"),
    };
    let refused = answers(bench.on(Event::Committed { op, end: Err(Refusal::Full) }));
    assert_eq!(refused, [(1, Answer::Refused(Refusal::Full))]);
    bench.ask(2, recorded(0, 7, create("a", Distribution::single(0))));
    let (_, told) = committed(&mut bench);
    assert!(matches!(told[..], [(2, Answer::Opened { .. })]), "{told:?}");
}
