//! Worlds of files: the shipped service on each way that data go, and readings of the paper that must be refuted.

mod calls;
mod published;
mod remote;
mod shipped;
mod stores;

use super::oracles::FileOracles;
use crate::explore::{Entry, Key};
use crate::harness::{self, Explored, worlds};
use shipped::{Way, make};

const KEYS: &[Key] = &[Key {
    name: "calls",
    help: "what each client calls, w to write and r to read the same bytes of a file that is open and x to close it, f to write to it where no file has bytes, y to sync it, a to append to the file and t to cut it, i to list all names, e to ask for a file's size and attributes and v to say what they are, c to make and h to make and keep open, u to remove and n to give another one a name, k to make the other one and p to open it, m to make and write and o to open and read one file, l to leave as a guest and d to die as one, b to come to a barrier, g to make and open a file and s to cut one together with all others that do, as in w,rr",
}];

/// The worlds of files.
pub fn worlds() -> Vec<Entry> {
    let shipped = worlds! { KEYS;
        "pario-write" make(Way::Staged, "w") Held, "files: a client writes two units, which the server pulls";
        "pario-read" make(Way::Staged, "r") Held, "files: a client reads two units, which the server pushes";
        "pario-write-offered" make(Way::Offered, "w") Held, "files: a client writes two units into a place that the server offers";
        "pario-read-offered" make(Way::Offered, "r") Held, "files: a client reads two units out of a place that the server offers";
        "pario-both" make(Way::Staged, "w,r") Held, "files: a client writes what another one reads at the same time";
        "pario-eager" make(Way::Eager, "w,r") Held, "the same with the bytes in requests and answers";
        "pario-list" make(Way::List, "w,r") Held, "files: a client writes four rows by one list, and another one reads them at the same time";
        "pario-names" make(Way::Eager, "cu,c") Held, "files: two clients, one name";
        "pario-unlink-open" make(Way::Eager, "rx,xu") Held, "files: a client reads and closes a file whose name another one removes";
        "pario-dropped-write" make(Way::Staged, "w!r,r") Held, "files: a client drops its write at any moment and reads, beside another one that reads";
        "pario-dropped-read" make(Way::Staged, "r!w,r") Held, "files: a client drops its read and writes: what is still moved reaches no buffer of the next call";
        "pario-dropped-offered" make(Way::Offered, "w!w,") Held, "files: the same of a write into a place that the server offers, which comes back";
        "pario-dropped-narrow" make(Way::Narrow, "w!x,") Held, "files: a client drops its write of two rows, of which one may wait for room, and closes the file";
        "pario-dropped-rows" make(Way::List, "w!r,w") Held, "files: the same of four rows, beside another client's";
        "pario-dropped-names" make(Way::Eager, "c!u,cu") Held, "files: the same of who makes a file and closes it, and removes its name";
        "pario-dropped-append" make(Way::Durable, "a!a,") Held, "files: the same of an append to a file on a disk, while its server crashes and comes back";
        "pario-append" make(Way::Durable, "aa") Held, "files: a client appends to a file on a disk, while its server crashes and comes back";
        "pario-rename" make(Way::Durable, "kcn") Held, "files: a file takes another one's name on a disk, while its server crashes and comes back";
        "pario-unlink" make(Way::Durable, "muo") Held, "files: a client makes a file on a disk, removes its name and looks for it, while the disk fails and its server crashes and comes back";
        "pario-guest-leaves" make(Way::Guests, "cl") Held, "files: a guest makes a file and leaves, and the server keeps nothing of it";
        "pario-guest-dies" make(Way::Guests, "cd") Held, "files: a guest dies while it makes another file, and the server keeps nothing of it";
        "pario-guest-restart" make(Way::DurableGuests, "mo") Held, "files: a guest makes a file on a disk and looks at it, while its server crashes and comes back";
        "pario-guest-open" make(Way::DurableGuests, "hurx") Held, "files: a guest reads a file that it has open and whose name it removed, while its server crashes and comes back";
        "pario-spread" make(Way::Spread, "w,r") Held, "files: a client writes what another one reads at the same time, over two servers";
        "pario-spread-cut" make(Way::Spread, "tr,a") Held, "files: a file is cut on two servers while another client appends to it";
        "pario-spread-removed" make(Way::Spread, "rx,ur") Held, "files: a file is read whose name is removed: it ends on both servers once nobody has it open";
        "pario-spread-names" make(Way::DurableSpread, "mu") Held, "files: a file on the disks of two servers is made, written and removed, while either crashes and comes back";
        "pario-spread-append" make(Way::DurableSpread, "aa") Held, "files: a client appends to a file on the disks of two servers, while either crashes and comes back";
        "pario-group" make(Way::Eager, "g,g") Held, "files: two members of a group make a file and open it";
        "pario-group-barrier" make(Way::Durable, "bb,bb") Held, "files: two members come to two barriers, while the server crashes and comes back";
        "pario-group-files" make(Way::Durable, "g,g") Held, "files: two members of a group make a file on a disk and open it, while the server crashes and comes back";
        "pario-group-cut" make(Way::Eager, "sr,sr") Held, "files: two members of a group cut a file and read it";
        "pario-listed" make(Way::Eager, "cu,ii") Held, "files: a client makes a file and removes its name, and another one lists the names meanwhile";
        "pario-listed-twice" make(Way::Paged, "ki,cu") Held, "files: a client lists names of which no two fit into an answer, and another one makes one and removes it meanwhile";
        "pario-unit" make(Way::Unit, "r,w,r") Held, "files: a client writes a unit of two rows on a disk, and two others read it at the same time";
        "pario-lost" make(Way::Asked, "hwx,") Held, "files: a client writes a file on a disk that is asked for safety, and closes it, while its server crashes and comes back";
        "pario-lost-synced" make(Way::Asked, "hwyywx,") Held, "files: the same of one that syncs twice in between";
        "pario-lost-spread" make(Way::AskedSpread, "hwx,") Held, "files: the same over the disks of two servers, of which either crashes and comes back";
        "pario-told" make(Way::Eager, "cve,eve") Held, "files: two clients make a file, say what it is and ask for it";
        "pario-told-restart" make(Way::Durable, "mve") Held, "files: a client makes a file on a disk, says what it is and asks for it, while its server crashes and comes back";
        "pario-told-spread" make(Way::Spread, "at,ee") Held, "files: a file on two servers grows and is cut while another client asks for its size";
        "pario-told-appended" make(Way::DurableSpread, "ae,") Held, "files: a client appends to a file on the disks of two servers and asks for its size, while either crashes and comes back";
        "pario-told-dropped" make(Way::Staged, "w!e,t!e") Held, "files: two clients drop a write and a cut at any moment and ask for the size";
        "pario-told-beyond" make(Way::Eager, "hfex") Held, "files: a client writes where no file has bytes, and asks for the size";
        "pario-remote" make(Way::Remote, "mo") Held, "files: a daemon makes and writes a file for another program and reads it, while its server crashes and comes back";
        "pario-remote-names" make(Way::Remote, "cnu,i") Held, "files: the same of who makes a file, renames it and looks for its old name, while another one lists the names with their sizes";
        "pario-remote-replaced" make(Way::Remote, "uc,mo") Held, "files: the same of who writes and reads a file that another one removes and makes anew";
        "pario-remote-cut" make(Way::Remote, "mto") Held, "files: the same of who makes a file, cuts and reads it";
        "pario-dropped-remote" make(Way::Remote, "m!o,") Held, "files: the same of a program that waits no longer for the file to be made and written, and reads it";
        "pario-restart" make(Way::Durable, "mo") Held, "files: a client makes a file on a disk and looks at it, while its server crashes and comes back";
    };
    [shipped, published::entries()].concat()
}

/// How many names there are.
const NAMES: u32 = 2;

/// The oracles where nobody looks at a clock.
type InOrder = harness::InOrder<FileOracles>;

/// Those of worlds that need say no more of their files.
fn oracles() -> InOrder {
    InOrder::new(FileOracles::new(NAMES, 0))
}

impl Explored for FileOracles {}
