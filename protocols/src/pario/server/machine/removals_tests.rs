//! Removals of many files: at a server that does not keep up, and at the home's own disk.

use super::*;

/// What another server is asked to remove: operations, and files.
fn asked_to_remove(actions: &[Action]) -> Vec<(u64, Handle)> {
    let asked = |action: &Action| match action {
        Action::Spread { op, request: Request::Remove { handle, .. }, .. } => Some((*op, *handle)),
        _ => None,
    };
    actions.iter().filter_map(asked).collect()
}

/// The home finds all at once. Each request for a server that is away costs it time, again and again.
#[test]
fn a_server_is_asked_for_64_removals_at_a_time_also_by_the_homes_next_life_and_for_all_in_the_end() {
    let (mut bench, mut log, mut removed) = (logged(Names::default(), None), Vec::new(), Vec::new());
    for n in 0..100 {
        let name = n.to_string();
        bench.ask(1, create(&name, Distribution::single(1)));
        let (bytes, told) = committed(&mut bench);
        log.extend(bytes);
        let [(1, Answer::Opened { handle, .. })] = told[..] else { panic!("{told:?}") };
        removed.push(handle);
        bench.ask(2, Request::Close { handle, epoch: EPOCH });
        bench.ask(3, Request::Unlink { path: Path::new(&name).unwrap() });
        let (bytes, told) = committed(&mut bench);
        log.extend(bytes);
        assert_eq!(
            told.is_empty(),
            n < 64,
            "who has removed the {n}th file waits for what is under way, alone"
        );
    }
    let mut bench = next_life(&log);
    let mut asked =
        asked_to_remove(bench.on(Event::Heard { client: rank(0), open: Vec::new(), more: false }));
    assert_eq!(asked.len(), 64);
    // It is away, and comes back.
    for (op, _) in asked.clone() {
        assert_eq!(bench.on(Event::Late { op }), []);
    }
    for n in 0..100 {
        let (op, _) = asked[n];
        asked.extend(asked_to_remove(bench.on(Event::Spread { op, end: Ok(()) })));
        assert!(asked.len() - n <= 65, "at its return, too");
    }
    assert_eq!(asked.into_iter().map(|(_, handle)| handle).collect::<Vec<_>>(), removed);
}

/// The file has objects on two servers, and the other one's disk fails.
#[test]
fn an_object_that_a_server_could_not_remove_is_removed_in_the_homes_next_life() {
    let mut bench = logged(Names::default(), None);
    bench.ask(1, create("a", Distribution::stripe(8, 2, 0).unwrap()));
    let (mut log, told) = committed(&mut bench);
    let [(1, Answer::Opened { handle, .. })] = told[..] else { panic!("{told:?}") };
    bench.ask(2, Request::Close { handle, epoch: EPOCH });
    bench.ask(3, Request::Unlink { path: Path::new("a").unwrap() });
    log.extend(committed(&mut bench).0);
    let [Action::Store { op: own, .. }, Action::Spread { op: other, .. }] = bench.actions[..] else {
        panic!("{:?}", bench.actions)
    };
    bench.on(Event::Stored { op: own, end: Ok(Stored::Done) });
    let told = answers(bench.on(Event::Spread { op: other, end: Err(Refusal::Io) }));
    assert_eq!(told, [(3, Answer::Done)], "it has no name any more");
    assert!(bench.is_empty());
    // What the home says of files from now on does not say that this one has no objects.
    bench.ask(4, create("b", Distribution::single(0)));
    log.extend(committed(&mut bench).0);
    let mut bench = next_life(&log);
    let begun = bench.on(Event::Heard { client: rank(0), open: Vec::new(), more: false }).to_vec();
    let [Action::Store { call, .. }, Action::Spread { server: 1, request, .. }] = &begun[..] else {
        panic!("{begun:?}")
    };
    assert_eq!((call, request), (&StoreCall::Remove(handle), &Request::Remove { handle, first: handle }));
}

/// By verbs a node is away while the home begins anew, and files are removed until it comes.
#[test]
fn a_home_has_its_own_disk_make_64_removals_at_a_time_for_which_nobody_waits_and_each_at_once_for_which_somebody_does()
 {
    let mut names = Names::default();
    names.ask(std::iter::once(rank(9)));
    let mut bench = logged(names, None);
    let names: Vec<String> = (0..101).map(|n| n.to_string()).collect();
    let unlink = |name: &str| Request::Unlink { path: Path::new(name).unwrap() };
    for name in &names {
        bench.ask(1, create(name, Distribution::single(0)));
        let (_, told) = committed(&mut bench);
        let [(1, Answer::Opened { handle, .. })] = told[..] else { panic!("{told:?}") };
        bench.ask(2, Request::Close { handle, epoch: EPOCH });
    }
    for name in &names[..100] {
        bench.ask(3, unlink(name));
        assert_eq!(committed(&mut bench).1, [(3, Answer::Done)]);
        assert_eq!(stores(&bench.actions), [], "the node may have it open");
    }
    assert_eq!(bench.machine.unheard(), [rank(9)]);
    bench.on(Event::Heard { client: rank(9), open: Vec::new(), more: false });
    assert_eq!(bench.machine.unheard(), []);
    committed(&mut bench);
    let mut begun = stores(&bench.actions);
    assert_eq!(begun.len(), 64, "calls of the log, and of files, come behind these");
    bench.ask(4, unlink(&names[100]));
    assert_eq!(committed(&mut bench).1, []);
    let [waited_for] = stores(&bench.actions)[..] else { panic!("{:?}", bench.actions) };
    let told = answers(bench.on(Event::Stored { op: waited_for, end: Ok(Stored::Done) }));
    assert_eq!(told, [(4, Answer::Done)], "its room is free");
    for n in 0..100 {
        begun.extend(stores(bench.on(Event::Stored { op: begun[n], end: Ok(Stored::Done) })));
        assert_eq!(begun.len(), 100.min(65 + n), "one for each that has ended");
    }
    assert!(bench.is_empty());
}

/// Files of one server each, in turn over four: each server is asked to remove every fourth one.
#[test]
fn a_server_keeps_no_range_for_each_file_that_it_removed_where_none_lives_between_them() {
    let config = FsConfig { servers: 4, storage: Storage::Disk, ..CONFIG };
    let machine = Machine::new((0, EPOCH), config, 600, Some(Directory::in_memory(0)));
    let mut bench = Bench { machine, actions: Vec::new() };
    let mut other = Machine::new((1, EPOCH), config, 600, None);
    let mut lives = None;
    for n in 0..400 {
        let path = Path::new(&n.to_string()).unwrap();
        let layout = Distribution::stripe(8, 1, Distribution::IN_TURN).unwrap();
        let made = answers(bench.ask(1, Request::Create { path: path.clone(), layout }));
        let [(1, Answer::Opened { handle, .. })] = made[..] else { panic!("{made:?}") };
        if n == 201 {
            lives = Some(handle);
            continue;
        }
        bench.ask(2, Request::Close { handle, epoch: EPOCH });
        for action in bench.ask(3, Request::Unlink { path }).to_vec() {
            match action {
                Action::Store { op, .. } => drop(bench.on(Event::Stored { op, end: Ok(Stored::Done) })),
                Action::Spread { op, server, request } => {
                    if server == 1 {
                        other.on(Event::Request { from: rank(0), id: op, request }, &mut Vec::new());
                    }
                    bench.on(Event::Spread { op, end: Ok(()) });
                }
                _ => {}
            }
        }
        assert_eq!(other.lives(handle).is_err(), n % 4 == 1, "of others it is told later");
    }
    assert!(lives.is_some_and(|handle| other.lives(handle).is_ok()));
    assert_eq!(other.barred.ranges(), 2, "on either side of the file that lives");
}
