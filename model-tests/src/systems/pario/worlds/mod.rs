//! Worlds of files: the shipped service on each way that data go, and readings of the paper that must be refuted.

mod calls;
mod published;
mod remote;
mod shipped;
mod whole;

use super::history::{Event, What};
use super::oracles::FileOracles;
use crate::explore::{Entry, Expected, Key};
use crate::harness::Explored;
use crate::oracle::{self, Oracle, Oracles};
use shipped::Way;
use std::hash::{Hash, Hasher};
use weft_sim::explore::AccessKind;
use weft_verbs::Nanos;
use whole::Whole;

const KEYS: &[Key] = &[Key {
    name: "calls",
    help: "what each client calls, w to write and r to read the same bytes of a file that is open and x to close it, f to write to it where no file has bytes, y to sync it, a to append to the file and t to cut it, i to list all names, e to ask for a file's size and attributes and v to say what they are, c to make and h to make and keep open, u to remove and n to give another one a name, k to make the other one and p to open it, m to make and write and o to open and read one file, l to leave as a guest and d to die as one, b to come to a barrier, g to make and open a file and s to cut one together with all others that do, as in w,rr",
}];

macro_rules! worlds {
    ($($name:literal $way:expr, $calls:literal, $about:literal;)*) => {
        /// The worlds of files.
        pub fn worlds() -> Vec<Entry> {
            let shipped = vec![
                $(Entry {
                    name: $name,
                    about: $about,
                    expected: Expected::Held,
                    keys: KEYS,
                    make: |size| shipped::make($name, $way, size, $calls),
                },)*
            ];
            [shipped, published::entries()].concat()
        }
    };
}

worlds! {
    "pario-write" Way::Staged, "w", "files: a client writes two units, which the server pulls";
    "pario-read" Way::Staged, "r", "files: a client reads two units, which the server pushes";
    "pario-write-offered" Way::Offered, "w", "files: a client writes two units into a place that the server offers";
    "pario-read-offered" Way::Offered, "r", "files: a client reads two units out of a place that the server offers";
    "pario-both" Way::Staged, "w,r", "files: a client writes what another one reads at the same time";
    "pario-eager" Way::Eager, "w,r", "the same with the bytes in requests and answers";
    "pario-list" Way::List, "w,r", "files: a client writes four rows by one list, and another one reads them at the same time";
    "pario-names" Way::Eager, "cu,c", "files: two clients, one name";
    "pario-unlink-open" Way::Eager, "rx,xu", "files: a client reads and closes a file whose name another one removes";
    "pario-dropped-write" Way::Staged, "w!r,r", "files: a client drops its write at any moment and reads, beside another one that reads";
    "pario-dropped-read" Way::Staged, "r!w,r", "files: a client drops its read and writes: what is still moved reaches no buffer of the next call";
    "pario-dropped-offered" Way::Offered, "w!w,", "files: the same of a write into a place that the server offers, which comes back";
    "pario-dropped-narrow" Way::Narrow, "w!x,", "files: a client drops its write of two rows, of which one may wait for room, and closes the file";
    "pario-dropped-rows" Way::List, "w!r,w", "files: the same of four rows, beside another client's";
    "pario-dropped-names" Way::Eager, "c!u,cu", "files: the same of who makes a file and closes it, and removes its name";
    "pario-dropped-append" Way::Durable, "a!a,", "files: the same of an append to a file on a disk, while its server crashes and comes back";
    "pario-append" Way::Durable, "aa", "files: a client appends to a file on a disk, while its server crashes and comes back";
    "pario-rename" Way::Durable, "kcn", "files: a file takes another one's name on a disk, while its server crashes and comes back";
    "pario-unlink" Way::Durable, "muo", "files: a client makes a file on a disk, removes its name and looks for it, while the disk fails and its server crashes and comes back";
    "pario-guest-leaves" Way::Guests, "cl", "files: a guest makes a file and leaves, and the server keeps nothing of it";
    "pario-guest-dies" Way::Guests, "cd", "files: a guest dies while it makes another file, and the server keeps nothing of it";
    "pario-guest-restart" Way::DurableGuests, "mo", "files: a guest makes a file on a disk and looks at it, while its server crashes and comes back";
    "pario-guest-open" Way::DurableGuests, "hurx", "files: a guest reads a file that it has open and whose name it removed, while its server crashes and comes back";
    "pario-spread" Way::Spread, "w,r", "files: a client writes what another one reads at the same time, over two servers";
    "pario-spread-cut" Way::Spread, "tr,a", "files: a file is cut on two servers while another client appends to it";
    "pario-spread-removed" Way::Spread, "rx,ur", "files: a file is read whose name is removed: it ends on both servers once nobody has it open";
    "pario-spread-names" Way::DurableSpread, "mu", "files: a file on the disks of two servers is made, written and removed, while either crashes and comes back";
    "pario-spread-append" Way::DurableSpread, "aa", "files: a client appends to a file on the disks of two servers, while either crashes and comes back";
    "pario-group" Way::Eager, "g,g", "files: two members of a group make a file and open it";
    "pario-group-barrier" Way::Durable, "bb,bb", "files: two members come to two barriers, while the server crashes and comes back";
    "pario-group-files" Way::Durable, "g,g", "files: two members of a group make a file on a disk and open it, while the server crashes and comes back";
    "pario-group-cut" Way::Eager, "sr,sr", "files: two members of a group cut a file and read it";
    "pario-listed" Way::Eager, "cu,ii", "files: a client makes a file and removes its name, and another one lists the names meanwhile";
    "pario-listed-twice" Way::Paged, "ki,cu", "files: a client lists names of which no two fit into an answer, and another one makes one and removes it meanwhile";
    "pario-unit" Way::Unit, "r,w,r", "files: a client writes a unit of two rows on a disk, and two others read it at the same time";
    "pario-lost" Way::Asked, "hwx,", "files: a client writes a file on a disk that is asked for safety, and closes it, while its server crashes and comes back";
    "pario-lost-synced" Way::Asked, "hwyywx,", "files: the same of one that syncs twice in between";
    "pario-lost-spread" Way::AskedSpread, "hwx,", "files: the same over the disks of two servers, of which either crashes and comes back";
    "pario-told" Way::Eager, "cve,eve", "files: two clients make a file, say what it is and ask for it";
    "pario-told-restart" Way::Durable, "mve", "files: a client makes a file on a disk, says what it is and asks for it, while its server crashes and comes back";
    "pario-told-spread" Way::Spread, "at,ee", "files: a file on two servers grows and is cut while another client asks for its size";
    "pario-told-appended" Way::DurableSpread, "ae,", "files: a client appends to a file on the disks of two servers and asks for its size, while either crashes and comes back";
    "pario-told-dropped" Way::Staged, "w!e,t!e", "files: two clients drop a write and a cut at any moment and ask for the size";
    "pario-told-beyond" Way::Eager, "hfex", "files: a client writes where no file has bytes, and asks for the size";
    "pario-remote" Way::Remote, "mo", "files: a daemon makes and writes a file for another program and reads it, while its server crashes and comes back";
    "pario-remote-names" Way::Remote, "cnu,i", "files: the same of who makes a file, renames it and looks for its old name, while another one lists the names with their sizes";
    "pario-remote-replaced" Way::Remote, "uc,mo", "files: the same of who writes and reads a file that another one removes and makes anew";
    "pario-remote-cut" Way::Remote, "mto", "files: the same of who makes a file, cuts and reads it";
    "pario-dropped-remote" Way::Remote, "m!o,", "files: the same of a program that waits no longer for the file to be made and written, and reads it";
    "pario-restart" Way::Durable, "mo", "files: a client makes a file on a disk and looks at it, while its server crashes and comes back";
}

/// How many names there are.
const NAMES: u32 = 2;

/// The oracles where nobody looks at a clock: events happen in the order of recording, far apart.
#[derive(Clone)]
pub struct InOrder {
    oracles: FileOracles,
    /// Where all transfers are of one unit.
    whole: Option<Whole>,
    events: u64,
}

impl InOrder {
    fn new() -> InOrder {
        InOrder::of(FileOracles::new(NAMES, 0))
    }

    /// The same of these oracles.
    fn of(oracles: FileOracles) -> InOrder {
        InOrder { oracles, whole: None, events: 0 }
    }

    /// The same where all transfers are of one unit.
    fn of_one_unit(self) -> InOrder {
        InOrder { whole: Some(Whole::default()), ..self }
    }
}

impl Oracles for InOrder {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        let whole = self.whole.iter().map(|whole| (whole.name(), whole.promise()));
        self.oracles.promises().into_iter().chain(whole).collect()
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(oracle::Violation)) {
        self.events += 1;
        let at_ns = Nanos::from_secs(self.events).0;
        let event = Event { at_ns, ..event.clone() };
        self.oracles.observe(&event, broken);
        let whole = self.whole.iter_mut().map(|whole| whole as &mut dyn Oracle<Event>);
        oracle::show(&event, whole, broken);
    }

    fn ended(&self) -> u64 {
        self.oracles.ended()
    }

    fn unended(&self) -> u64 {
        self.oracles.unended()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<oracle::Violation> {
        self.oracles.finish(now, healthy)
    }

    fn finish_unharmed(&self) -> Option<oracle::Violation> {
        let whole = self.whole.as_ref().and_then(Whole::finish_unharmed);
        self.oracles.finish_unharmed().or(whole)
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        self.oracles.state(to);
        self.whole.hash(&mut to);
    }
}

impl Explored for InOrder {
    /// A call that begins looks at what has completed.
    fn access(event: &Event) -> Option<AccessKind> {
        match event.what {
            What::Calls(_) => Some(AccessKind::Read),
            _ => Some(AccessKind::Write),
        }
    }
}
