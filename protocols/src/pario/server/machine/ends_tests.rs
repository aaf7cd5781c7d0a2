//! Where files end: places for appends, cuts, and files that are gone; and answers that are known again.

use super::super::super::super::slots::Asked;
use super::super::super::super::{Distribution, Path, Storage};
use super::*;
use crate::pario::messages::BROKEN;
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

/// A guest may be forgotten and write on, and a byte stream may break of which a server has yet to read the rest.
#[test]
fn a_place_of_a_client_that_is_forgotten_or_never_gave_it_back_is_not_given_out_again_after_a_cut() {
    for is_forgotten in [true, false] {
        let (mut bench, handle) = with_file();
        let other =
            |bench: &mut Bench, id, request| answers(bench.on(Event::Request { from: rank(6), id, request }));
        other(&mut bench, 1, Request::Open { path: Path::new("a").unwrap() });
        let place = Request::Place { handle, len: 10, least: 0, cuts: (EPOCH, 0) };
        assert_eq!(other(&mut bench, 2, place), [(2, Answer::Place { at: 0 })]);
        match is_forgotten {
            true => drop(bench.on(Event::Reset { client: rank(6) }).to_vec()),
            false => drop(other(&mut bench, 3, Request::Close { handle, epoch: EPOCH })),
        }
        cut(&mut bench, 4, handle, 0);
        assert_eq!(
            self::place(&mut bench, 5, handle, 0, 1),
            [(5, Answer::Place { at: 10 })],
            "{is_forgotten}"
        );
    }
}

/// Its client may have died since with a write on its way, of which the server does not know yet that nobody waits for it.
#[test]
fn no_place_of_an_earlier_life_is_given_out_again_whatever_became_of_its_client() {
    let path = || Path::new("a").unwrap();
    let mut names = Names::default();
    let (handle, _) = names.create(0, rank(5), path(), Distribution::single(0)).unwrap();
    names.place(rank(5), handle, (10, 0)).unwrap();
    let log = Log::behind(None, None, 0).commit(&names, &[]).bytes;
    let died_before_it_told = |names: &mut Names| names.forget(rank(5));
    let told_and_died = |names: &mut Names| {
        names.heard(rank(5), &[(handle, 1)], false);
        names.forget(rank(5));
    };
    let died_while_the_home_was_down = |names: &mut Names| names.heard(rank(5), &[], false);
    let closed = |names: &mut Names| {
        names.heard(rank(5), &[(handle, 1)], false);
        names.close(rank(5), handle, true).unwrap();
    };
    let fates: [&dyn Fn(&mut Names); 4] =
        [&died_before_it_told, &told_and_died, &died_while_the_home_was_down, &closed];
    for (nth, fate) in fates.into_iter().enumerate() {
        let mut names = crate::pario::server::log::read(0, &log).expect("whole").names;
        names.ask(std::iter::once(rank(5)));
        fate(&mut names);
        names.open(rank(6), &path()).unwrap();
        names.cut(rank(6), handle).unwrap();
        names.is_cut(handle);
        assert_eq!(names.place(rank(6), handle, (10, 0)).map(|(at, _)| at), Ok(10), "fate {nth}");
    }
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
    let removed = stores(bench.on(Event::Request {
        from: rank(1),
        id: 4,
        request: Request::Remove { handle: FILE, first: FILE },
    }));
    bench.on(Event::Stored { op: removed[0], end: Ok(Stored::Done) });
    let late = bench.on(Event::Moved { op: pulled[0].0, done: true }).to_vec();
    assert_eq!((stores(&late), answers(&late)), (vec![], vec![(1, Answer::Refused(Refusal::Stale))]));
    assert_eq!(answers(bench.ask(2, write(0, 32))), [(2, Answer::Refused(Refusal::Stale))]);
    let data = Request::Write { bytes: bytes(0, 8), from: Source::Request(vec![1; 8]) };
    assert_eq!(answers(bench.ask(3, data)), [(3, Answer::Refused(Refusal::Stale))]);
    let cut = Request::Cut { handle: FILE, size: 8, grows: true };
    assert_eq!(answers(bench.ask(5, cut)), [(5, Answer::Refused(Refusal::Stale))]);
    assert!(bench.is_empty());
}

#[test]
fn the_size_of_a_file_that_ends_while_it_is_read_is_told_to_nobody() {
    let mut bench = Bench::new(CONFIG);
    let size = stores(bench.ask(1, Request::Size { handle: FILE }))[0];
    let removed = stores(bench.on(Event::Request {
        from: rank(1),
        id: 2,
        request: Request::Remove { handle: FILE, first: FILE },
    }));
    let told = answers(bench.on(Event::Stored { op: size, end: Ok(Stored::Size(0)) }));
    assert_eq!(told, [(1, Answer::Refused(Refusal::Stale))]);
    bench.on(Event::Stored { op: removed[0], end: Ok(Stored::Done) });
    assert!(bench.is_empty());
}

/// A server without the directory, some of whose clients may have been forgotten.
#[test]
fn a_server_that_began_anew_asks_the_home_before_it_says_anything_of_a_file_from_before() {
    let config = FsConfig { servers: 2, ..CONFIG };
    let machine = Machine::new((1, EPOCH), config, 600, None).with_clients_that_are_forgotten();
    let mut bench = Bench { machine, actions: Vec::new() };
    let of = |handle| Bytes { handle, layout: Distribution::single(1), ..bytes(0, 8) };
    let read = |handle| Request::Read { bytes: of(handle), into: Target::Answer };
    let asked = |actions: &[Action]| match actions {
        [Action::Lives { op, handle }] => (*op, *handle),
        other => panic!("{other:?}"),
    };
    let [gone, lives, later] = [1, 2, 9].map(|n| Handle::of(0, n));
    // Two requests of one file ask once.
    let (op, of_file) = asked(bench.ask(1, read(gone)));
    assert_eq!(of_file, gone);
    assert_eq!(bench.ask(2, Request::Size { handle: gone }), []);
    assert_eq!(
        bench.ask(10, Request::Sync { handle: gone }),
        [],
        "what was written is gone, and not durable"
    );
    let ended = bench.on(Event::Lives { op, end: Err(Refusal::Stale) });
    assert_eq!(answers(ended), [1, 2, 10].map(|id| (id, Answer::Refused(Refusal::Stale))));
    for request in [read(gone), Request::Sync { handle: gone }] {
        assert_eq!(answers(bench.ask(3, request)), [(3, Answer::Refused(Refusal::Stale))], "it is known now");
    }
    let (op, _) = asked(bench.ask(4, read(lives)));
    let begun = stores(bench.on(Event::Lives { op, end: Ok(5) }));
    assert_eq!(begun.len(), 1);
    bench.on(Event::Stored { op: begun[0], end: Ok(Stored::Read { moved: 0, bytes: vec![0; 8] }) });
    // Nobody is asked again, and of what was made in this life of the server nobody at all.
    for (id, handle) in [(5, lives), (6, later)] {
        let begun = stores(bench.ask(id, read(handle)));
        bench.on(Event::Stored { op: begun[0], end: Ok(Stored::Read { moved: 0, bytes: vec![0; 8] }) });
    }
    // What ends while its home is asked is gone.
    let ends = Handle::of(0, 3);
    let (op, _) = asked(bench.ask(7, read(ends)));
    let removed = stores(bench.ask(8, Request::Remove { handle: ends, first: ends }));
    bench.on(Event::Stored { op: removed[0], end: Ok(Stored::Done) });
    assert_eq!(answers(bench.on(Event::Lives { op, end: Ok(6) })), [(7, Answer::Refused(Refusal::Stale))]);
    let size = bench.ask(9, Request::Size { handle: ends });
    assert_eq!(answers(size), [(9, Answer::Refused(Refusal::Stale))], "it has none any more");
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

#[test]
fn a_member_that_lost_its_answer_breaks_its_group_for_those_that_wait_and_those_that_come() {
    let mut bench = Bench::new(CONFIG);
    let come = |from, id, round, member, word| {
        let request = Request::Gather { group: 1, round, member, members: 3, word };
        Event::Request { from: rank(from), id, request }
    };
    // Two wait in round 1, of which the third had its answer before the home began anew.
    assert_eq!(bench.on(come(5, 1, 1, 0, 0)), []);
    let broken = Answer::Gathered(BROKEN);
    let told = answers(bench.on(come(6, 2, 1, 1, BROKEN)));
    assert_eq!(told, [(1, broken.clone()), (2, broken.clone())]);
    assert_eq!(answers(bench.on(come(7, 3, 2, 2, 0))), [(3, broken.clone())], "in the next round");
    assert!(bench.is_empty());
    // All have been told: the number is free.
    assert_eq!(bench.on(come(7, 4, 0, 2, 0)), []);
    bench.on(Event::Reset { client: rank(7) });
    // Who did not need to be told is through, and another group has the number.
    assert_eq!(answers(bench.on(come(5, 5, 3, 0, BROKEN))), [(5, broken)]);
    assert_eq!(bench.on(come(6, 6, 0, 1, 0)), []);
    assert_eq!(bench.on(come(5, 7, 0, 0, 1)), []);
    let all = answers(bench.on(come(7, 8, 0, 2, 0)));
    assert_eq!(all, [(7, Answer::Gathered(1)), (6, Answer::Gathered(1)), (8, Answer::Gathered(1))]);
}

/// A machine whose directory has a log, and the bytes of that.
fn logged(names: Names, newest: Option<u64>) -> Bench {
    let log = Log::behind(newest, None, 0);
    let config = FsConfig { storage: Storage::Disk, ..CONFIG };
    let machine = Machine::new((0, EPOCH), config, 600, Some(Directory::new(names, Some(log))));
    Bench { machine, actions: Vec::new() }
}

/// The commit that is under way: its number, and its bytes.
fn under_way(bench: &Bench) -> (u64, Vec<u8>) {
    let commit = bench.actions.iter().find_map(|action| match action {
        Action::Commit { op, commit } => Some((*op, commit.bytes.clone())),
        _ => None,
    });
    commit.expect("a commit")
}

/// It ends: its bytes, and what is answered then.
fn committed(bench: &mut Bench) -> (Vec<u8>, Vec<(u64, Answer)>) {
    let (op, bytes) = under_way(bench);
    (bytes, answers(bench.on(Event::Committed { op, end: Ok(()) })))
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
    let refused = answers(bench.on(Event::Committed { op, end: Err(FULL) }));
    assert_eq!(refused, [(1, Answer::Refused(Refusal::Full))]);
    bench.ask(2, recorded(0, 7, create("a", Distribution::single(0))));
    let (_, told) = committed(&mut bench);
    assert!(matches!(told[..], [(2, Answer::Opened { .. })]), "{told:?}");
}

/// It ends for want of room: what is answered then.
fn refused(bench: &mut Bench) -> Vec<(u64, Answer)> {
    let (op, _) = under_way(bench);
    answers(bench.on(Event::Committed { op, end: Err(FULL) }))
}

/// A home with a log, and a file on it alone.
fn logged_with_file() -> (Bench, Handle) {
    let mut bench = logged(Names::default(), None);
    bench.ask(1, create("a", Distribution::single(0)));
    let (_, told) = committed(&mut bench);
    let [(1, Answer::Opened { handle, .. })] = told[..] else { panic!("{told:?}") };
    (bench, handle)
}

#[test]
fn a_cut_that_finds_no_room_is_refused_and_keeps_nobody_waiting() {
    let (mut bench, handle) = logged_with_file();
    bench.ask(2, Request::Truncate { handle, size: 0 });
    assert_eq!(refused(&mut bench), [(2, Answer::Refused(Refusal::Full))]);
    bench.ask(3, Request::Unlink { path: Path::new("a").unwrap() });
    committed(&mut bench);
}

#[test]
fn where_there_is_no_room_what_alters_a_file_is_refused_before_what_removes_one() {
    let (mut bench, handle) = logged_with_file();
    let path = Path::new("a").unwrap();
    bench.ask(2, create("b", Distribution::single(0)));
    let before = bench.actions.clone();
    bench.ask(3, Request::Truncate { handle, size: 0 });
    bench.ask(4, recorded(0, 1, Request::SetAttributes { path: path.clone(), set: Default::default() }));
    bench.ask(5, Request::Unlink { path });
    bench.actions = before;
    committed(&mut bench);
    let full = Answer::Refused(Refusal::Full);
    assert_eq!(refused(&mut bench), [(3, full.clone()), (4, full)]);
    let (_, told) = committed(&mut bench);
    assert_eq!(told, [(5, Answer::Done)]);
}

/// Two clients cut one file, and a third makes another one, while the disk has no room.
#[test]
fn a_cut_that_waits_for_another_one_which_finds_no_room_is_carried_out_once() {
    for with_another in [true, false] {
        let (mut bench, handle) = logged_with_file();
        bench.ask(2, create("b", Distribution::single(0)));
        let before = bench.actions.clone();
        bench.ask(3, Request::Truncate { handle, size: 0 });
        bench.ask(4, Request::Truncate { handle, size: 0 });
        if with_another {
            bench.ask(5, create("c", Distribution::single(0)));
        }
        bench.actions = before;
        committed(&mut bench);
        let who = if with_another { 5 } else { 3 };
        assert_eq!(refused(&mut bench), [(who, Answer::Refused(Refusal::Full))]);
        let waiting = if with_another { vec![3, 4] } else { vec![4] };
        for id in waiting {
            committed(&mut bench);
            let [op] = stores(&bench.actions)[..] else { panic!("{:?}", bench.actions) };
            let told = answers(bench.on(Event::Stored { op, end: Ok(Stored::Done) }));
            assert_eq!(told, [(id, Answer::Done)]);
        }
        assert_eq!(bench.actions.len(), 1, "nothing more is begun: {:?}", bench.actions);
    }
}

/// The home has forgotten the client meanwhile, and lives on.
#[test]
fn a_close_that_is_refused_is_answered_also_where_its_batch_finds_no_room() {
    let (mut bench, handle) = logged_with_file();
    bench.on(Event::Reset { client: rank(5) });
    bench.ask(2, create("b", Distribution::single(0)));
    let before = bench.actions.clone();
    bench.ask(3, Request::Close { handle, epoch: EPOCH });
    bench.ask(4, create("c", Distribution::single(0)));
    bench.actions = before;
    committed(&mut bench);
    let told = refused(&mut bench);
    assert_eq!(told, [(4, Answer::Refused(Refusal::Full)), (3, Answer::Refused(Refusal::Stale))]);
    assert!(bench.machine.leftovers().iter().all(|(what, left)| *left == 0 || *what == "open files"));
}

/// A home's next life, as its log says, which waits for guests to name what they have open.
fn next_life(log: &[u8]) -> Bench {
    let mut names = crate::pario::server::log::read(0, log).expect("whole").names;
    names.ask(std::iter::once(rank(9)));
    let mut bench = logged(names, Some(0));
    bench.machine = bench.machine.with_clients_that_are_forgotten();
    bench
}

/// The guest was forgotten, and the file has ended since: its objects are being removed when the home crashes.
#[test]
fn a_guest_that_was_forgotten_opens_no_file_again_of_which_objects_may_be_gone() {
    for unlinked_first in [true, false] {
        let mut bench = logged(Names::default(), None);
        bench.ask(1, create("a", Distribution::single(0)));
        let (mut log, told) = committed(&mut bench);
        let [(1, Answer::Opened { handle, .. })] = told[..] else { panic!("{told:?}") };
        let unlink = Request::Unlink { path: Path::new("a").unwrap() };
        let forgotten = Event::Reset { client: rank(5) };
        if unlinked_first {
            bench.ask(2, unlink);
            log.extend(committed(&mut bench).0);
            assert_eq!(stores(bench.on(forgotten)), [], "not before it is durable that nobody can reach it");
        } else {
            bench.on(forgotten);
            bench.on(Event::Request { from: rank(6), id: 2, request: unlink });
        }
        log.extend(committed(&mut bench).0);
        assert_eq!(stores(&bench.actions).len(), 1, "the object is removed");

        let mut bench = next_life(&log);
        let removed = stores(bench.on(Event::Heard { client: rank(0), open: Vec::new(), more: false }));
        assert_eq!(removed.len(), 1, "whoever else may have had it open is not waited for");
        bench.on(Event::Heard { client: rank(9), open: vec![(handle, 1)], more: false });
        let read = Request::Read { bytes: Bytes { handle, ..bytes(0, 8) }, into: Target::Answer };
        let told = answers(bench.on(Event::Request { from: rank(9), id: 3, request: read }));
        assert_eq!(told, [(3, Answer::Refused(Refusal::Stale))]);
    }
}

#[test]
fn a_file_that_a_guest_still_has_open_lives_through_its_homes_crash() {
    let mut bench = logged(Names::default(), None);
    bench.ask(1, create("a", Distribution::single(0)));
    let (mut log, told) = committed(&mut bench);
    let [(1, Answer::Opened { handle, .. })] = told[..] else { panic!("{told:?}") };
    bench.ask(2, Request::Unlink { path: Path::new("a").unwrap() });
    log.extend(committed(&mut bench).0);
    let mut bench = next_life(&log);
    bench.on(Event::Heard { client: rank(9), open: vec![(handle, 1)], more: false });
    let read = Request::Read { bytes: Bytes { handle, ..bytes(0, 8) }, into: Target::Answer };
    assert_eq!(stores(bench.on(Event::Request { from: rank(9), id: 3, request: read })).len(), 1);
}

/// The record finds no room: a full disk is to be emptied all the same.
#[test]
fn a_file_that_nobody_can_reach_is_removed_though_its_end_finds_no_room_in_the_log() {
    let mut bench = logged(Names::default(), None);
    bench.ask(1, create("a", Distribution::single(0)));
    committed(&mut bench);
    bench.ask(2, Request::Unlink { path: Path::new("a").unwrap() });
    committed(&mut bench);
    bench.on(Event::Reset { client: rank(5) });
    let op = match bench.actions[..] {
        [Action::Commit { op, .. }] => op,
        ref other => panic!("{other:?}"),
    };
    let removed = stores(bench.on(Event::Committed { op, end: Err(FULL) }));
    assert_eq!(removed.len(), 1);
    bench.on(Event::Stored { op: removed[0], end: Ok(Stored::Done) });
    assert!(bench.is_empty());
}

/// A close waits for a commit, and behind it the client tells what else it has open of that file.
#[test]
fn a_close_of_what_its_home_has_not_heard_of_closes_nothing_that_it_hears_of_before_its_turn() {
    let mut bench = logged(Names::default(), None);
    bench.ask(1, create("a", Distribution::single(0)));
    let (log, told) = committed(&mut bench);
    let [(1, Answer::Opened { handle, .. })] = told[..] else { panic!("{told:?}") };
    let mut bench = next_life(&log);
    bench.ask(2, create("b", Distribution::single(0)));
    let [Action::Commit { op, .. }] = bench.actions[..] else { panic!("{:?}", bench.actions) };
    let close = Request::Close { handle, epoch: EPOCH - 1 };
    let closed = answers(bench.on(Event::Request { from: rank(9), id: 3, request: close }));
    assert_eq!(closed, [(3, Answer::Done)]);
    // It had the file open twice.
    bench.on(Event::Heard { client: rank(9), open: vec![(handle, 1)], more: false });
    let place = Request::Place { handle, len: 10, least: 0, cuts: (EPOCH, 0) };
    bench.on(Event::Request { from: rank(9), id: 4, request: place });
    bench.on(Event::Committed { op, end: Ok(()) });
    let (_, told) = committed(&mut bench);
    assert_eq!(told, [(4, Answer::Place { at: 0 })]);
}

#[path = "removals_tests.rs"]
mod removals;
