use super::super::shared::ObjectId;
use super::*;
use Access::{Read, Write};

const BOOK: Book = Book {
    decides_when_served: true,
    keeps_server: true,
    pulls: false,
    pulls_from_done: true,
    pulls_are_open: true,
    lost_with_receiver: true,
    me: Rank::from_index(0),
};

const PAGE: PageId = PageId { object: ObjectId(0), index: 0 };

fn node(index: u32) -> Rank {
    Rank::from_index(index)
}

/// What a message is, and whom it goes to.
fn told(sends: &mut Sends) -> Vec<(u32, &'static str)> {
    let name = |message| match message {
        Message::Forward { need: Read, .. } => "share",
        Message::Forward { .. } => "transfer",
        Message::Invalidate { .. } => "give up",
        Message::Notice { .. } => "notice",
        Message::Pull { .. } => "pull",
        _ => "?",
    };
    sends.drain(..).map(|(to, message)| (to.index() as u32, name(message))).collect()
}

fn request(from: u32, id: u32, need: Access) -> Asks {
    Asks { from: node(from), id, need, at: RemoteSlice::default(), had: Access::Invalid, known: true }
}

struct Manager(Directory, Sends, Book);

impl Manager {
    fn new() -> Manager {
        Manager(Directory::default(), Vec::new(), BOOK)
    }

    fn asks(&mut self, from: u32, id: u32, need: Access) -> Vec<(u32, &'static str)> {
        self.0.on_request(PAGE, request(from, id, need), self.2, &mut self.1);
        told(&mut self.1)
    }

    fn done(&mut self, from: u32, id: u32) -> Vec<(u32, &'static str)> {
        assert!(self.0.on_done(PAGE, node(from), id, self.2, &mut self.1), "n{from} has it open");
        told(&mut self.1)
    }
}

/// A node reports late what it has of an object that all have closed, and that was forgotten here since.
#[test]
fn what_is_reported_of_a_forgotten_object_is_in_no_book() {
    let (mut manager, given) = (Manager::new(), Some(node(1)));
    manager.0.begin([node(0), node(1)]);
    let report = Report { from: node(0), access: Access::Invalid, version: 3, len: 64, given };
    assert!(manager.0.on_report(PAGE, report));
    manager.0.forget(PAGE.object);
    assert!(manager.0.on_reported(node(0), 1) && manager.0.on_reported(node(1), 0));
    let forgotten = |object| object == PAGE.object;
    assert_eq!(manager.0.rebuilt(|_| true, forgotten, BOOK, &mut manager.1), []);
    assert_eq!((manager.0.unserved(), manager.0.book().count(), told(&mut manager.1)), (0, 0, vec![]));
}

/// The manager took over from one that died, and knows no length: a node that wrote the minipage would give it up, and nobody get it.
#[test]
fn a_manager_s_heir_tells_the_one_that_has_a_minipage_in_another_length_than_those_who_have_had_it() {
    let (mut manager, mut out) = (Manager::new().0, Vec::new());
    manager.begin([node(0)]);
    let report = Report { from: node(0), access: Write, version: 1, len: 64, given: None };
    assert!(manager.on_report(PAGE, report) && manager.on_reported(node(0), 1));
    assert_eq!(manager.rebuilt(|_| true, |_| false, BOOK, &mut out), []);
    let asks = |from, id, len| {
        let at = RemoteSlice { len, ..RemoteSlice::default() };
        Asks { at, ..request(from, id, Write) }
    };
    manager.on_request(PAGE, asks(1, 5, 128), BOOK, &mut out);
    assert_eq!(std::mem::take(&mut out), [(node(1), Message::Otherwise { page: PAGE, id: 5 })]);
    manager.on_request(PAGE, asks(2, 6, 64), BOOK, &mut out);
    assert_eq!(told(&mut out), [(0, "transfer")]);
}

/// The manager took over from one that died: a minipage that nobody has reported may have been written, and is found lost once.
#[test]
fn a_minipage_of_which_nobody_knows_whether_it_was_written_is_found_lost_by_the_first_who_asks() {
    let (mut manager, asks) = (Manager::new(), Asks { known: false, ..request(1, 0, Read) });
    let early = PageId { index: 1, ..PAGE };
    manager.0.begin([node(0)]);
    assert!(!manager.0.on_request(early, asks, BOOK, &mut manager.1), "reports are awaited");
    assert!(manager.0.on_reported(node(0), 0));
    assert_eq!(manager.0.rebuilt(|_| true, |_| false, BOOK, &mut manager.1), [early]);
    let found = [0, 1].map(|_| manager.0.on_request(PAGE, asks, BOOK, &mut manager.1));
    assert_eq!(found, [true, false]);
    assert!(manager.1.iter().all(|(_, told)| matches!(told, Message::Lost { .. })) && manager.1.len() == 3);
}

#[test]
fn a_first_touch_takes_the_manager_alone_and_a_read_then_the_owner() {
    let mut manager = Manager::new();
    assert_eq!(manager.asks(1, 0, Write), [(1, "notice")]);
    assert_eq!(manager.asks(2, 0, Read), [], "it waits until the write is done");
    assert_eq!(manager.done(1, 0), [(1, "share")]);
    assert_eq!(manager.done(2, 0), []);
    assert_eq!(manager.0.unserved(), 0);
    let book: Vec<_> = manager.0.book().collect();
    assert_eq!(book, [(PAGE, 1, Some(node(1)), &[node(1), node(2)][..])]);
}

#[test]
fn a_write_takes_all_others_and_its_count_says_how_many() {
    let mut manager = Manager::new();
    manager.asks(0, 0, Write);
    manager.done(0, 0);
    for reader in [1, 2] {
        assert_eq!(manager.asks(reader, 0, Read), [(0, "share")]);
    }
    assert_eq!(manager.asks(3, 0, Write), [], "both reads are open");
    assert_eq!(manager.done(2, 0), []);
    manager.0.on_done(PAGE, node(1), 0, BOOK, &mut manager.1);
    let counts = manager.1.iter().map(|(_, message)| match message {
        Message::Forward { notices, version, .. } | Message::Invalidate { notices, version, .. } => {
            (*notices, *version)
        }
        _ => (0, 0),
    });
    assert_eq!(counts.collect::<Vec<_>>(), [(3, 2); 3]);
    assert_eq!(told(&mut manager.1), [(0, "transfer"), (1, "give up"), (2, "give up")]);
}

#[test]
fn an_upgrade_moves_no_data_and_an_upgrade_that_lost_its_copy_in_the_queue_does() {
    let mut manager = Manager::new();
    manager.asks(0, 0, Write);
    manager.done(0, 0);
    manager.asks(1, 0, Read);
    manager.done(1, 0);
    // Both have a copy and want to write. The second one's is taken away while it waits.
    assert_eq!(manager.asks(0, 1, Write), [(1, "give up")]);
    assert_eq!(manager.asks(1, 1, Write), []);
    assert_eq!(manager.done(0, 1), [(0, "transfer")]);
    manager.done(1, 1);
}

#[test]
fn a_read_behind_a_write_that_waits_does_not_join_open_reads() {
    let mut manager = Manager::new();
    manager.asks(0, 0, Write);
    manager.done(0, 0);
    assert_eq!(manager.asks(1, 0, Read), [(0, "share")]);
    assert_eq!(manager.asks(2, 0, Write), []);
    assert_eq!(manager.asks(3, 0, Read), []);
    assert_eq!(manager.done(1, 0), [(0, "transfer"), (1, "give up")]);
    assert_eq!(manager.done(2, 0), [(2, "share")]);
    manager.done(3, 0);
}

#[test]
fn who_has_nothing_open_is_not_done() {
    let mut manager = Manager::new();
    manager.asks(0, 7, Write);
    for (from, id) in [(0, 8), (1, 7)] {
        assert!(!manager.0.on_done(PAGE, node(from), id, BOOK, &mut manager.1));
    }
    manager.done(0, 7);
    assert!(!manager.0.on_done(PAGE, node(0), 7, BOOK, &mut manager.1));
}

/// `weft fuzz swarm-16-dsm-rails` found a copy that was taken before a store that its owner had been granted (seed 48460).
#[test]
fn nobody_pulls_from_an_owner_that_read_itself_and_may_still_write() {
    let mut manager = Manager::new();
    manager.2.pulls = true;
    assert_eq!(manager.asks(1, 0, Write), [(1, "notice")]);
    assert_eq!(manager.asks(1, 1, Read), [], "another thread's");
    assert_eq!(manager.done(1, 0), [(1, "notice")]);
    assert_eq!(manager.done(1, 1), []);
    assert_eq!(manager.asks(2, 0, Read), [(1, "share")]);
    assert_eq!(manager.done(2, 0), []);
    assert_eq!(manager.asks(3, 0, Read), [(3, "pull")]);
}

#[test]
fn a_reader_pulls_from_one_whose_read_is_done_and_a_write_waits_for_it() {
    let mut manager = Manager::new();
    manager.2.pulls = true;
    assert_eq!(manager.asks(1, 0, Write), [(1, "notice")]);
    assert_eq!(manager.done(1, 0), []);
    assert_eq!(manager.asks(2, 0, Read), [(1, "share")], "nobody reads it yet");
    assert_eq!(manager.asks(3, 0, Read), [(1, "share")], "nobody's read is done");
    assert_eq!(manager.done(2, 0), []);
    assert_eq!(manager.asks(4, 0, Read), [(4, "pull")]);
    assert_eq!(manager.asks(1, 1, Write), []);
    assert_eq!(manager.done(3, 0), []);
    assert_eq!(manager.done(4, 0), [(2, "give up"), (3, "give up"), (4, "give up")]);
    assert_eq!(manager.done(1, 1), []);
    assert_eq!(manager.asks(0, 0, Read), [(1, "share")], "that version is gone");
    assert_eq!(manager.done(0, 0), []);
    assert_eq!(manager.asks(2, 1, Read), [(1, "share")], "the manager's node has it");
}
