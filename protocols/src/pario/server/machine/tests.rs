use super::super::super::{Datatype, DirEntry, Distribution, Name, Path, Storage, View, Wire};
use super::*;
use weft_verbs::Nanos;

const CONFIG: FsConfig = FsConfig {
    servers: 2,
    eager: 16,
    unit: 32,
    stages: 2,
    places: 2,
    regions: 64,
    movers: Movers::Server,
    sync: Sync::Asked,
    storage: Storage::Memory { most: 1 << 20 },
    wire: Wire::Verbs,
    log_room: 0,
    window: 8,
    probe_after: Nanos::MAX,
};

const EPOCH: u64 = 77;
const FULL: Unwritten = Unwritten::Full { cut: false };
const AT: Answer = Answer::At { epoch: EPOCH };

/// A machine, and the actions that it asked for last.
struct Bench {
    machine: Machine,
    actions: Vec<Action>,
}

impl Bench {
    fn new(config: FsConfig) -> Bench {
        let machine = Machine::new((0, EPOCH), config, 600, Some(Directory::in_memory(0)));
        Bench { machine, actions: Vec::new() }
    }

    fn on(&mut self, event: Event) -> &[Action] {
        self.actions.clear();
        self.machine.on(event, &mut self.actions);
        &self.actions
    }

    fn ask(&mut self, id: u64, request: Request) -> &[Action] {
        self.on(Event::Request { from: rank(5), id, request })
    }

    fn is_empty(&self) -> bool {
        self.machine.leftovers().iter().all(|(_, number)| *number == 0)
    }
}

fn rank(n: u32) -> Rank {
    Rank::from_index(n)
}

const FILE: Handle = Handle(9);

fn memory(len: u32) -> Memory {
    let slice = RemoteSlice { addr: 1_000, len, rkey: 1 };
    Memory { slice, view: View::of(0..len.into()).unwrap(), from: 0, load: 0 }
}

fn bytes(at: u64, len: u32) -> Bytes {
    let file = View::of(at..at + u64::from(len)).unwrap();
    Bytes { handle: FILE, layout: Distribution::single(0), file, from: 0, len }
}

fn write(at: u64, len: u32) -> Request {
    Request::Write { bytes: bytes(at, len), from: Source::Memory(memory(len)) }
}

fn read(at: u64, len: u32) -> Request {
    Request::Read { bytes: bytes(at, len), into: Target::Memory(memory(len)) }
}

/// The pull among actions: its number, its place, and its address.
fn pulls(actions: &[Action]) -> Vec<(u64, Stage, u64)> {
    let pull = |action: &Action| match action {
        Action::Pull { op, stage, memory, runs, .. } => Some((*op, *stage, memory.addr + runs[0].at)),
        _ => None,
    };
    actions.iter().filter_map(pull).collect()
}

fn stores(actions: &[Action]) -> Vec<u64> {
    let store = |action: &Action| match action {
        Action::Store { op, .. } => Some(*op),
        _ => None,
    };
    actions.iter().filter_map(store).collect()
}

fn answers(actions: &[Action]) -> Vec<(u64, Answer)> {
    let answer = |action: &Action| match action {
        Action::Answer { id, answer, .. } => Some((*id, answer.clone())),
        _ => None,
    };
    actions.iter().filter_map(answer).collect()
}

#[test]
fn a_write_is_pulled_by_units_in_bounded_staging_and_answered_after_the_last() {
    let mut bench = Bench::new(CONFIG);
    let first = pulls(bench.ask(1, write(0, 80)));
    assert_eq!(
        first.iter().map(|(.., addr)| *addr).collect::<Vec<_>>(),
        [1_000, 1_032],
        "two places, three units"
    );
    let store = stores(bench.on(Event::Moved { op: first[0].0, done: true }));
    let next = bench.on(Event::Stored { op: store[0], end: Ok(Stored::Done) });
    let third = pulls(next);
    assert_eq!((third[0].1, third[0].2), (first[0].1, 1_064), "in the place that is free");
    assert!(answers(next).is_empty());
    for op in [first[1].0, third[0].0] {
        let store = stores(bench.on(Event::Moved { op, done: true }));
        bench.on(Event::Stored { op: store[0], end: Ok(Stored::Done) });
    }
    assert_eq!(answers(&bench.actions), [(1, AT)]);
    assert!(bench.is_empty());
}

#[test]
fn a_synced_write_is_answered_when_it_is_durable_and_once() {
    let mut bench = Bench::new(FsConfig { sync: Sync::Each, ..CONFIG });
    let pull = pulls(bench.ask(1, write(0, 8)))[0].0;
    let store = stores(bench.on(Event::Moved { op: pull, done: true }))[0];
    let sync = bench.on(Event::Stored { op: store, end: Ok(Stored::Done) }).to_vec();
    let [Action::Store { op, call: StoreCall::Sync(FILE) }] = sync[..] else { panic!("{sync:?}") };
    // Somebody else's event must not answer it.
    bench.ask(2, Request::Size { handle: FILE });
    assert!(answers(&bench.actions).is_empty());
    assert_eq!(answers(bench.on(Event::Stored { op, end: Ok(Stored::Done) })), [(1, AT)]);
}

#[test]
fn a_read_is_pushed_from_its_place_and_short_where_bytes_are_missing() {
    let mut bench = Bench::new(CONFIG);
    let store = stores(bench.ask(1, read(0, 40)));
    assert_eq!(store.len(), 2);
    let mut pushed = Vec::new();
    for (op, moved) in [(store[0], 32), (store[1], 3)] {
        let end = Ok(Stored::Read { moved, bytes: Vec::new() });
        for action in bench.on(Event::Stored { op, end }) {
            let Action::Push { op, memory, runs, .. } = action else { panic!("{action:?}") };
            let [run] = runs[..] else { panic!("{runs:?}") };
            pushed.push((*op, memory.addr + run.at, run.len));
        }
    }
    assert_eq!(
        pushed.iter().map(|(_, addr, len)| (*addr, *len)).collect::<Vec<_>>(),
        [(1_000, 32), (1_032, 8)]
    );
    bench.on(Event::Moved { op: pushed[0].0, done: true });
    let end = bench.on(Event::Moved { op: pushed[1].0, done: true });
    assert_eq!(answers(end), [(1, Answer::Pushed { short: true })]);
    assert!(bench.is_empty());
}

#[test]
fn places_go_round_among_requests() {
    let mut bench = Bench::new(FsConfig { stages: 1, ..CONFIG });
    let mut pull = pulls(bench.ask(1, write(0, 96)))[0];
    bench.ask(2, write(1_000, 64));
    let mut order = vec![pull.2];
    loop {
        let store = stores(bench.on(Event::Moved { op: pull.0, done: true }))[0];
        let next = pulls(bench.on(Event::Stored { op: store, end: Ok(Stored::Done) }));
        let Some(&next) = next.first() else { break };
        pull = next;
        order.push(pull.2);
    }
    // Byte 1,000 of the second file is no multiple of a unit.
    assert_eq!(order, [1_000, 1_032, 1_000, 1_064, 1_024, 1_056]);
    assert!(bench.is_empty());
}

#[test]
fn what_fails_is_refused_when_all_that_had_begun_is_over() {
    let mut bench = Bench::new(CONFIG);
    let begun = pulls(bench.ask(1, write(0, 96)));
    assert!(answers(bench.on(Event::Moved { op: begun[0].0, done: false })).is_empty());
    let store = stores(bench.on(Event::Moved { op: begun[1].0, done: true }))[0];
    let end = bench.on(Event::Stored { op: store, end: Err(Refusal::Full) });
    assert_eq!(answers(end), [(1, Answer::Refused(Refusal::Full))]);
    assert!(bench.is_empty());
}

#[test]
fn a_client_that_begins_anew_is_not_answered_and_leaves_nothing() {
    let mut bench = Bench::new(CONFIG);
    let path = Path::new("a").unwrap();
    bench.ask(1, Request::Create { path: path.clone(), layout: Distribution::single(0) });
    bench.ask(2, Request::Unlink { path });
    let begun = pulls(bench.ask(3, write(0, 96)));
    let removed = bench.on(Event::Reset { client: rank(5) }).to_vec();
    let [Action::Store { op: remove, call: StoreCall::Remove(_) }] = removed[..] else {
        panic!("{removed:?}")
    };
    bench.on(Event::Stored { op: remove, end: Ok(Stored::Done) });
    for (op, ..) in begun {
        assert_eq!(bench.on(Event::Moved { op, done: true }), [], "what it had sent is not written");
    }
    assert!(bench.is_empty());
}

#[test]
fn an_unlinked_file_is_removed_everywhere_before_that_is_answered() {
    let mut bench = Bench::new(CONFIG);
    let (path, layout) = (Path::new("a").unwrap(), Distribution::stripe(8, 2, 1).unwrap());
    let made = answers(bench.ask(1, Request::Create { path: path.clone(), layout }));
    let [(1, Answer::Opened { handle, .. })] = made[..] else { panic!("{made:?}") };
    assert_eq!(answers(bench.ask(2, Request::Unlink { path })), [(2, Answer::Done)], "it is open");
    let close = bench.ask(3, Request::Close { handle, epoch: EPOCH }).to_vec();
    let [Action::Spread { op: other, server: 1, .. }, Action::Store { op: own, .. }] = close[..] else {
        panic!("{close:?}")
    };
    assert!(bench.on(Event::Stored { op: own, end: Ok(Stored::Done) }).is_empty());
    assert_eq!(answers(bench.on(Event::Spread { op: other, end: Ok(()) })), [(3, Answer::Done)]);
    assert!(bench.is_empty());
}

/// All small files would lie on one server else, whatever the number of these.
#[test]
fn a_file_begins_at_the_next_server_in_turn_unless_its_first_one_is_said() {
    let mut bench = Bench::new(CONFIG);
    let first = [Distribution::IN_TURN, Distribution::IN_TURN, 0, Distribution::IN_TURN, 1, 2];
    let made = (1..).zip(first).map(|(id, first)| {
        let (path, layout) =
            (Path::new(&id.to_string()).unwrap(), Distribution::stripe(8, 2, first).unwrap());
        match &answers(bench.ask(id, Request::Create { path, layout }))[..] {
            [(_, Answer::Opened { layout, .. })] => Ok(layout.first()),
            [(_, Answer::Refused(why))] => Err(*why),
            other => panic!("{other:?}"),
        }
    });
    let made: Vec<_> = made.collect();
    assert_eq!(made, [Ok(0), Ok(1), Ok(0), Ok(1), Ok(1), Err(Refusal::Distribution)]);
}

/// Makes a file over both servers, whose home is this one, and removes it: what the home does then.
fn removal(bench: &mut Bench, name: &str, id: u64) -> (Handle, Vec<Action>) {
    let (path, layout) = (Path::new(name).unwrap(), Distribution::stripe(8, 2, 0).unwrap());
    let made = answers(bench.ask(id, Request::Create { path: path.clone(), layout }));
    let [(_, Answer::Opened { handle, .. })] = made[..] else { panic!("{made:?}") };
    bench.ask(id + 1, Request::Close { handle, epoch: EPOCH });
    (handle, bench.ask(id + 2, Request::Unlink { path }).to_vec())
}

#[test]
fn who_removes_files_waits_for_no_server_that_is_away_and_that_one_removes_them_once_it_is_back() {
    let mut bench = Bench::new(CONFIG);
    let (_, begun) = removal(&mut bench, "a", 1);
    let [Action::Store { op: own, .. }, Action::Spread { op: late, server: 1, .. }] = begun[..] else {
        panic!("{begun:?}")
    };
    assert_eq!(bench.on(Event::Late { op: late }), [], "its own disk is not away");
    assert_eq!(answers(bench.on(Event::Stored { op: own, end: Ok(Stored::Done) })), [(3, Answer::Done)]);

    let (handle, begun) = removal(&mut bench, "b", 4);
    let [Action::Store { op: own, .. }] = begun[..] else { panic!("it is asked in vain: {begun:?}") };
    assert_eq!(answers(bench.on(Event::Stored { op: own, end: Ok(Stored::Done) })), [(6, Answer::Done)]);

    let asked = bench.on(Event::Spread { op: late, end: Ok(()) }).to_vec();
    let [Action::Spread { op, server: 1, ref request }] = asked[..] else { panic!("{asked:?}") };
    let Request::Remove { handle: removed, .. } = request else { panic!("{request:?}") };
    assert_eq!(*removed, handle);
    assert_eq!(bench.on(Event::Spread { op, end: Ok(()) }), [], "nobody waits");
    assert!(bench.is_empty());
    assert_eq!(removal(&mut bench, "c", 7).1.len(), 2, "it is asked at once");
}

#[test]
fn what_no_client_of_this_version_asks_is_refused() {
    let mut bench = Bench::new(CONFIG);
    let elsewhere = Bytes { layout: Distribution::single(1), ..bytes(0, 8) };
    let no_such = Bytes { layout: Distribution::stripe(8, 3, 0).unwrap(), ..bytes(0, 8) };
    let short = Request::Read { bytes: bytes(0, 100), into: Target::Memory(memory(99)) };
    let beyond = Memory { view: View::of(1..101).unwrap(), ..memory(100) };
    let beyond = Request::Read { bytes: bytes(0, 100), into: Target::Memory(beyond) };
    let far = Bytes { from: u64::MAX, ..bytes(0, 8) };
    let far = Request::Read { bytes: far, into: Target::Memory(memory(8)) };
    let file = Datatype::vector(1 << 30, 2, Datatype::bytes(1).unwrap()).unwrap();
    let many = Bytes { file: View::new(0, file).unwrap(), len: 1 << 30, ..bytes(0, 8) };
    let many = Request::Read { bytes: many, into: Target::Memory(memory(1 << 30)) };
    let long = Request::Read { bytes: bytes(0, 17), into: Target::Answer };
    let wrong = Request::Write { bytes: bytes(0, 8), from: Source::Request(vec![0; 9]) };
    let of = |bytes| Request::Read { bytes, into: Target::Answer };
    for (request, refusal) in [
        (of(elsewhere), Refusal::Distribution),
        (of(no_such), Refusal::Distribution),
        (short, Refusal::Memory),
        (beyond, Refusal::Memory),
        (many, Refusal::TooLong),
        (far, Refusal::Position),
        (long, Refusal::Memory),
        (wrong, Refusal::Position),
        (Request::Close { handle: FILE, epoch: EPOCH }, Refusal::Stale),
    ] {
        assert_eq!(answers(bench.ask(7, request)), [(7, Answer::Refused(refusal))]);
    }
    assert!(bench.is_empty());
}

#[test]
fn a_list_is_staged_together_and_its_pieces_go_where_they_belong() {
    let mut bench = Bench::new(FsConfig { servers: 1, ..CONFIG });
    let file = View::new(100, Datatype::vector(4, 20, Datatype::bytes(10).unwrap()).unwrap()).unwrap();
    let view = View::new(5, Datatype::regions([(100, 20), (0, 20)]).unwrap()).unwrap();
    let memory = Memory { view, ..memory(200) };
    let bytes = Bytes { file, len: 40, ..bytes(0, 8) };
    let run = |at, len| Run { at, len };
    let begun = bench.ask(1, Request::Write { bytes, from: Source::Memory(memory) }).to_vec();
    let [Action::Pull { op, runs: first, .. }, Action::Pull { runs: second, .. }] = &begun[..] else {
        panic!("{begun:?}")
    };
    // A unit has 32 bytes at most, and the fourth region would be ten more than 30.
    assert_eq!((&first[..], &second[..]), (&[run(105, 20), run(5, 10)][..], &[run(15, 10)][..]));
    let store = bench.on(Event::Moved { op: *op, done: true }).to_vec();
    let [Action::Store { call: StoreCall::Write { runs, .. }, .. }] = &store[..] else { panic!("{store:?}") };
    assert_eq!(runs[..], [run(100, 10), run(120, 10), run(140, 10)]);
}

#[test]
fn one_sync_serves_all_whose_writes_had_ended_before_it_began() {
    let mut bench = Bench::new(FsConfig { sync: Sync::Each, ..CONFIG });
    let eager = |at| Request::Write { bytes: bytes(at, 8), from: Source::Request(vec![1; 8]) };
    let written = |bench: &mut Bench, id, at| {
        let store = stores(bench.ask(id, eager(at)))[0];
        stores(bench.on(Event::Stored { op: store, end: Ok(Stored::Done) }))
    };
    let [first] = written(&mut bench, 1, 0)[..] else { panic!("a sync") };
    assert!(written(&mut bench, 2, 8).is_empty() && written(&mut bench, 3, 16).is_empty());
    let end = bench.on(Event::Stored { op: first, end: Ok(Stored::Done) }).to_vec();
    assert_eq!(answers(&end), [(1, AT)], "the others were written after it began");
    let [second] = stores(&end)[..] else { panic!("{end:?}") };
    let end = bench.on(Event::Stored { op: second, end: Err(Refusal::Io) }).to_vec();
    assert_eq!(answers(&end), [2, 3].map(|id| (id, Answer::Refused(Refusal::Io))));
    assert!(bench.is_empty());
}

/// The offers among actions: their operations and places.
fn offers(actions: &[Action]) -> Vec<(u64, Stage)> {
    let offer = |action: &Action| match action {
        Action::Offer { op, stage, .. } => Some((*op, *stage)),
        _ => None,
    };
    actions.iter().filter_map(offer).collect()
}

#[test]
fn an_offered_place_is_its_clients_until_it_says_so_for_that_call() {
    let mut bench = Bench::new(FsConfig { movers: Movers::Client, stages: 1, ..CONFIG });
    let offered = offers(bench.ask(7, write(0, 64)));
    let [(op, place)] = offered[..] else { panic!("{offered:?}") };
    let moved = Request::Moved { op, done: true };
    assert_eq!(bench.ask(6, moved.clone()), [], "another call's");
    assert_eq!(
        bench.on(Event::Request { from: rank(4), id: 7, request: moved.clone() }),
        [],
        "another client's"
    );
    let store = stores(bench.ask(7, moved.clone()))[0];
    assert_eq!(bench.ask(7, moved), [], "said before");
    let next = offers(bench.on(Event::Stored { op: store, end: Ok(Stored::Done) }));
    assert_eq!(next[0].1, place, "free again");
    bench.on(Event::Reset { client: rank(5) });
    assert!(bench.is_empty(), "{:?}", bench.machine.leftovers());
}

#[test]
fn who_moves_is_told_by_load() {
    // The load of the client, who moves a write, and who a read: a server of one request of 32 bytes, with places for 64.
    for (client, writes, reads) in
        [(0, true, true), (32, true, false), (33, false, false), (1_000, false, false)]
    {
        for (request, wanted) in [(write(0, 32), writes), (read(0, 32), reads)] {
            let mut bench = Bench::new(FsConfig { movers: Movers::Adaptive, ..CONFIG });
            let loaded = |memory: Memory| Memory { load: client, ..memory };
            let request = match request {
                Request::Write { bytes, from: Source::Memory(memory) } => {
                    Request::Write { bytes, from: Source::Memory(loaded(memory)) }
                }
                Request::Read { bytes, into: Target::Memory(memory) } => {
                    Request::Read { bytes, into: Target::Memory(loaded(memory)) }
                }
                other => other,
            };
            let mut begun = bench.ask(1, request).to_vec();
            if let [op] = stores(&begun)[..] {
                let read = Stored::Read { moved: 32, bytes: Vec::new() };
                begun = bench.on(Event::Stored { op, end: Ok(read) }).to_vec();
            }
            assert_eq!(offers(&begun).len() == 1, wanted, "{client} {begun:?}");
        }
    }
    // A server whose places are all asked for moves nothing.
    let mut bench = Bench::new(FsConfig { movers: Movers::Adaptive, ..CONFIG });
    let loaded = Memory { load: 1_000, ..memory(96) };
    let request = Request::Write { bytes: bytes(0, 96), from: Source::Memory(loaded) };
    assert_eq!(offers(bench.ask(1, request)).len(), 2);
}

/// A server whose directory has a log.
fn logged() -> Bench {
    let log = Some(super::super::log::Log::behind(None, None, 0));
    let directory = Directory::new(Default::default(), log);
    Bench { machine: Machine::new((0, EPOCH), CONFIG, 600, Some(directory)), actions: Vec::new() }
}

fn commit(actions: &[Action]) -> u64 {
    let [Action::Commit { op, .. }] = actions else { panic!("{actions:?}") };
    *op
}

fn name(text: &str) -> Path {
    Path::new(text).unwrap()
}

fn create(text: &str) -> Request {
    Request::Create { path: name(text), layout: Distribution::single(0) }
}

#[test]
fn a_name_is_told_of_when_it_is_durable_and_one_commit_serves_all_who_waited() {
    let mut bench = logged();
    let first = commit(bench.ask(1, create("a")));
    for id in 2..18 {
        assert!(bench.ask(id, create(&format!("b{id}"))).is_empty());
    }
    assert!(
        bench.ask(18, Request::List { directory: Path::default(), after: None }).is_empty(),
        "who looks waits, too"
    );
    let end = bench.on(Event::Committed { op: first, end: Ok(()) }).to_vec();
    assert!(matches!(answers(&end)[..], [(1, Answer::Opened { .. })]), "{end:?}");
    let second = commit(&end[1..]);
    let end = answers(bench.on(Event::Committed { op: second, end: Ok(()) }));
    assert_eq!(end.len(), 17);
    assert!(matches!(&end[16], (18, Answer::Names { names, more: false }) if names.len() == 17));
    assert_eq!(bench.machine.counts.commits, 2);
}

#[test]
fn a_batch_without_room_is_taken_back_and_one_that_failed_ends_the_directory() {
    let mut bench = logged();
    let op = commit(bench.ask(1, create("a")));
    let end = bench.on(Event::Committed { op, end: Err(FULL) });
    assert_eq!(answers(end), [(1, Answer::Refused(Refusal::Full))]);
    let list = answers(bench.ask(2, Request::List { directory: Path::default(), after: None }));
    assert_eq!(list, [(2, Answer::Names { names: Vec::new(), more: false })]);
    assert!(bench.is_empty());
    let op = commit(bench.ask(3, create("a")));
    assert_eq!((bench.machine.failed(), bench.machine.counts.disk_errors), (None, 0));
    assert_eq!(answers(bench.on(Event::Committed { op, end: Err(Unwritten::Failed(Refusal::Io)) })).len(), 1);
    // Whoever runs the server is told.
    assert_eq!((bench.machine.failed(), bench.machine.counts.disk_errors), (Some(Refusal::Io), 1));
    assert_eq!(
        answers(bench.ask(4, Request::List { directory: Path::default(), after: None })),
        [(4, Answer::Refused(Refusal::Io))]
    );
}

#[test]
fn where_there_is_no_room_only_what_makes_something_is_refused() {
    let mut bench = logged();
    let op = commit(bench.ask(1, create("a")));
    let opened = answers(bench.on(Event::Committed { op, end: Ok(()) }));
    let [(1, Answer::Opened { handle, epoch, .. })] = opened[..] else { panic!("{opened:?}") };
    let op = commit(bench.ask(2, create("b")));
    for (id, request) in [
        (3, create("c")),
        (4, Request::Unlink { path: name("a") }),
        (5, Request::List { directory: Path::default(), after: None }),
        (6, Request::Close { handle, epoch }),
    ] {
        assert!(bench.ask(id, request).is_empty());
    }
    let end = bench.on(Event::Committed { op, end: Ok(()) }).to_vec();
    assert!(matches!(answers(&end)[..], [(2, Answer::Opened { .. })]), "{end:?}");
    // The create, the unlink, the list and the close are one batch.
    let end = bench.on(Event::Committed { op: commit(&end[1..]), end: Err(FULL) }).to_vec();
    let told = answers(&end);
    assert_eq!(told[..2], [(3, Answer::Refused(Refusal::Full)), (6, Answer::Done)], "{end:?}");
    let end = bench.on(Event::Committed { op: commit(&end[2..]), end: Ok(()) }).to_vec();
    let names = vec![DirEntry { name: Name::new("b").unwrap(), is_directory: false }];
    assert!(answers(&end).contains(&(5, Answer::Names { names, more: false })), "{end:?}");
    let ended = bench.on(Event::Stored { op: stores(&end)[0], end: Ok(Stored::Done) }).to_vec();
    assert_eq!(answers(&ended), [(4, Answer::Done)]);
    // Where not even a removal finds room, it is refused.
    let op = commit(bench.ask(7, Request::Unlink { path: name("b") }));
    let end = answers(bench.on(Event::Committed { op, end: Err(FULL) }));
    assert_eq!(end, [(7, Answer::Refused(Refusal::Full))]);
}

#[test]
fn nothing_is_removed_of_a_file_whose_unlinking_failed() {
    let mut bench = logged();
    let op = commit(bench.ask(1, create("a")));
    let opened = answers(bench.on(Event::Committed { op, end: Ok(()) }));
    let [(1, Answer::Opened { handle, epoch, .. })] = opened[..] else { panic!("{opened:?}") };
    bench.ask(2, Request::Close { handle, epoch });
    let op = commit(bench.ask(3, Request::Unlink { path: name("a") }));
    let end = bench.on(Event::Committed { op, end: Err(Unwritten::Failed(Refusal::Io)) }).to_vec();
    // A restart may find the name, and then the file has to be whole.
    assert_eq!(answers(&end), [(3, Answer::Refused(Refusal::Io))]);
    assert_eq!(end.len(), 1);
    assert_eq!(bench.on(Event::Reset { client: rank(7) }), []);
}

#[test]
fn an_unlinked_file_is_removed_when_its_unlinking_is_durable() {
    let mut bench = logged();
    let op = commit(bench.ask(1, create("a")));
    let opened = answers(bench.on(Event::Committed { op, end: Ok(()) }));
    let [(1, Answer::Opened { handle, epoch, .. })] = opened[..] else { panic!("{opened:?}") };
    let op = commit(bench.ask(2, Request::Unlink { path: name("a") }));
    // The client that has it open is gone while the unlinking is being committed.
    assert!(bench.on(Event::Reset { client: rank(5) }).is_empty());
    let end = bench.on(Event::Committed { op, end: Ok(()) }).to_vec();
    assert_eq!(answers(&end), [(2, Answer::Done)]);
    // That nobody can reach it any more is durable before its object is removed.
    let end = bench.on(Event::Committed { op: commit(&end[1..]), end: Ok(()) }).to_vec();
    assert_eq!(stores(&end).len(), 1, "{end:?}");
    bench.on(Event::Stored { op: stores(&end)[0], end: Ok(Stored::Done) });
    assert!(bench.is_empty());
    let stale = answers(bench.ask(3, Request::Close { handle, epoch }));
    assert_eq!(stale, [(3, Answer::Refused(Refusal::Stale))]);
}

#[path = "ends_tests.rs"]
mod ends;
