//! What clients of files ask for, by a seed.

use super::workload::{Access, PfWork};
use crate::fields::{Share, draw};
use crate::history::ClientId;
use weft_sim::choice::Rng;
use weft_verbs::Nanos;
/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Writes cells of a file.
    Write {
        /// The file.
        file: u32,
        /// The first cell.
        first: u64,
        /// How many.
        cells: u32,
    },
    /// Reads them.
    Read {
        /// The file.
        file: u32,
        /// The first cell.
        first: u64,
        /// How many.
        cells: u32,
    },
    /// Writes a rectangle of the array in the first file.
    WriteTile(Tile),
    /// Reads one.
    ReadTile(Tile),
    /// Makes a small file, or opens it, and writes all of it.
    Make {
        /// The file.
        file: u32,
        /// How many cells.
        cells: u32,
    },
    /// Opens a small file and reads it.
    Look {
        /// The file.
        file: u32,
    },
    /// Removes a name.
    Unlink {
        /// The file.
        file: u32,
    },
    /// Gives a file another name.
    Rename {
        /// The file.
        from: u32,
        /// The file whose name it takes.
        to: u32,
    },
    /// Appends cells to a file.
    Append {
        /// The file.
        file: u32,
        /// How many.
        cells: u32,
    },
    /// Cuts a file.
    Truncate {
        /// The file.
        file: u32,
        /// To how many cells.
        cells: u64,
    },
    /// Asks what is told of a file.
    Stat {
        /// The file.
        file: u32,
    },
    /// Says what is to be told of it.
    Say {
        /// The file.
        file: u32,
    },
    /// Lists all names.
    List,
    /// A guest leaves, and another one comes.
    Leave,
    /// A guest dies so long after it has begun to make a small file, and another one comes.
    Die {
        /// The file.
        file: u32,
        /// After that.
        after: Nanos,
    },
}

/// A rectangle of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The first cell.
    pub first: u64,
    /// Cells of a row.
    pub cells: u32,
    /// Rows.
    pub rows: u32,
    /// From the first cell of a row to that of the next.
    pub stride: u64,
    /// Whether servers are told of each row, and not of a step.
    pub list: bool,
}

impl Tile {
    /// Cells side by side.
    pub const fn row(first: u64, cells: u32) -> Tile {
        Tile { first, cells, rows: 1, stride: 0, list: false }
    }
}

/// Tiles side by side.
const COLUMNS: u64 = 4;

/// What one client asks for. The same seed and client give the same requests, whatever becomes of them.
#[derive(Clone, Debug)]
pub struct Plan {
    work: PfWork,
    client: ClientId,
    rng: Rng,
    /// Blocks that were written, in bulk.
    written: u64,
    /// Requests of this visit.
    visited: u32,
}

impl Plan {
    /// The plan of one client in the run of one seed.
    pub fn new(work: &PfWork, seed: u64, client: ClientId) -> Plan {
        let [rng] = draw::of_client(seed ^ 0x7066_7300_0000_0000, client);
        Plan { work: work.clone(), client, rng, written: 0, visited: 0 }
    }

    /// The next request, and how long the client rests before it.
    pub fn request(&mut self) -> (Nanos, Request) {
        if self.work.visit > 0 && self.client.node >= self.work.servers {
            if self.visited == self.work.visit {
                self.visited = 0;
                return (Nanos::ZERO, self.goodbye());
            }
            self.visited += 1;
        }
        let writes = draw::whether(&mut self.rng, self.work.writes);
        let request = match self.work.access {
            Access::Bulk => self.bulk(writes),
            Access::Mix => self.mix(writes),
            Access::Small => self.small(writes),
            Access::Tiles => self.tiles(writes),
        };
        (draw::time(&mut self.rng, self.work.think), request)
    }

    /// The client's number among all.
    fn number(&self) -> u64 {
        u64::from(self.client.node) * u64::from(self.work.clients) + u64::from(self.client.index)
    }

    /// How a guest's visit ends.
    fn goodbye(&mut self) -> Request {
        match draw::whether(&mut self.rng, self.work.dies) {
            true => {
                let file = self.rng.below(self.work.files.into()) as u32;
                Request::Die { file, after: Nanos(self.rng.below(200_000)) }
            }
            false => Request::Leave,
        }
    }

    /// The client's next block, from the first again after its last; or one that it has written.
    fn bulk(&mut self, writes: bool) -> Request {
        let PfWork { cells, blocks, .. } = self.work;
        let blocks = u64::from(blocks);
        let client = self.number();
        let first = |block: u64| (client * blocks + block) * u64::from(cells);
        if writes || self.written == 0 {
            self.written += 1;
            return Request::Write { file: 0, first: first((self.written - 1) % blocks), cells };
        }
        let block = self.rng.below(self.written.min(blocks));
        Request::Read { file: 0, first: first(block), cells }
    }

    /// A request about what is told of a file, if it is one: to ask or to say it. (Where there is none nothing is drawn.)
    fn about(&mut self, file: u32) -> Option<Request> {
        let is_one = self.work.stats > Share::NONE && draw::whether(&mut self.rng, self.work.stats);
        is_one.then(|| if self.rng.below(2) == 0 { Request::Stat { file } } else { Request::Say { file } })
    }

    fn mix(&mut self, writes: bool) -> Request {
        let PfWork { files, cells, blocks, appends, cuts, .. } = self.work;
        let file = self.rng.below(files.into()) as u32;
        // Where there is none nothing is drawn for it: such workloads are as they were.
        if let Some(about) = self.about(file) {
            return about;
        }
        if cuts > Share::NONE && draw::whether(&mut self.rng, cuts) {
            return Request::Truncate { file, cells: self.rng.below(u64::from(cells) * u64::from(blocks)) };
        }
        if writes && appends > Share::NONE && draw::whether(&mut self.rng, appends) {
            return Request::Append { file, cells: 1 + self.rng.below(cells.into()) as u32 };
        }
        let first = self.rng.below(u64::from(cells) * u64::from(blocks));
        let cells = 1 + self.rng.below(cells.into()) as u32;
        if writes { Request::Write { file, first, cells } } else { Request::Read { file, first, cells } }
    }

    /// The client's own tile, or one beside it that overlaps with it.
    fn tiles(&mut self, writes: bool) -> Request {
        let PfWork { cells, blocks: rows, .. } = self.work;
        let (client, stride) = (self.number(), COLUMNS * u64::from(cells));
        let own = client / COLUMNS * u64::from(rows) * stride + client % COLUMNS * u64::from(cells);
        let first = own + if self.rng.below(2) == 0 { 0 } else { self.rng.below(stride) };
        let tile = Tile { first, cells, rows, stride, list: self.rng.below(2) == 0 };
        if writes { Request::WriteTile(tile) } else { Request::ReadTile(tile) }
    }

    fn small(&mut self, writes: bool) -> Request {
        let PfWork { files, cells, renames, .. } = self.work;
        let file = self.rng.below(files.into()) as u32;
        if let Some(about) = self.about(file) {
            return about;
        }
        // Where nothing is renamed nothing is drawn for it: such workloads are as they were.
        if files > 1 && renames > Share::NONE && draw::whether(&mut self.rng, renames) {
            let other = self.rng.below(u64::from(files) - 1) as u32;
            return Request::Rename { from: file, to: if other < file { other } else { other + 1 } };
        }
        match (self.rng.below(16), writes) {
            (0, _) => Request::List,
            (1..4, _) => Request::Unlink { file },
            (_, true) => Request::Make { file, cells: 1 + self.rng.below(cells.into()) as u32 },
            (_, false) => Request::Look { file },
        }
    }
}
