//! The minipages that a node manages: who owns each, who has a copy, and whose request is served. A state machine without
//! I/O: requests and their ends in, messages out (kernel-dsm.txt, 2.2: "the manager").
//!
//! A request is a **transaction**. It is open from the moment at which the manager orders what it takes until the requestor
//! says that it is done. Reads may be open together; a write is open alone. So a node is never asked to give up what it has
//! not got yet, and what a node has got cannot be on its way to be taken from it. The manager trusts its own book and nobody's
//! word about copies: what a requestor had when it asked may have been taken away while the request waited here.

use super::messages::{Access, Message};
use super::rebuild::{Known, Rebuild, Report, Restored, restore};
use super::shared::{ObjectId, PageId};
use crate::transport::Rank;
use std::collections::{BTreeMap, VecDeque};
use weft_verbs::RemoteSlice;

/// Messages to be sent, and where to.
pub(super) type Sends = Vec<(Rank, Message<'static>)>;

/// How a manager keeps its book; see [`Reading`](super::Reading), which has the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Book {
    /// It decides when it serves a request whether the requestor needs data; otherwise by what the requestor had when
    /// it asked.
    pub decides_when_served: bool,
    /// A node that shares what it owns stays in the book.
    pub keeps_server: bool,
    /// A reader takes what others read already from one of them, by RDMA, unless the manager's node has it, too.
    pub pulls: bool,
    /// From one whose read is done; otherwise from the last one that was promised the data.
    pub pulls_from_done: bool,
    /// A pull is open until the requestor says that it is done.
    pub pulls_are_open: bool,
    /// What was given up for one that died is lost.
    pub lost_with_receiver: bool,
    /// The node of the manager itself.
    pub me: Rank,
}

/// The minipages that a node manages.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// Those that somebody has asked for.
    pages: BTreeMap<PageId, Entry>,
    /// While an epoch begins: what survivors have reported, and what they ask for already.
    rebuild: Option<(Rebuild, Vec<(PageId, Asks)>)>,
}

/// A minipage, as its manager's book has it.
#[derive(Debug, Default)]
struct Entry {
    /// One more with each write granted. At version 0 nobody has written, and all of it is zero.
    version: u64,
    /// The node that was granted the version, and has it still.
    owner: Option<Rank>,
    /// The nodes that may access it, the owner among them, in ascending order.
    copies: Vec<Rank>,
    /// A node that has the version to read, and where: its read of it is done.
    source: Option<(Rank, RemoteSlice)>,
    open: Open,
    queue: VecDeque<Asks>,
    /// Its latest version died.
    lost: bool,
    /// Its length for the first who asked, or for those who have had it as an epoch began: to one who has it in another length nobody could
    /// transfer it.
    len: Option<u32>,
}

/// The transaction that is open.
#[derive(Debug, Default)]
enum Open {
    #[default]
    None,
    /// With where each has its data then.
    Reads(Vec<(Rank, u32, RemoteSlice)>),
    Write(Rank, u32),
    /// One that gave it up is to have it again.
    Restoring(Rank),
}

/// A request, from a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
    pub from: Rank,
    pub id: u32,
    pub need: Access,
    /// Where its data go.
    pub at: RemoteSlice,
    /// What it had when it asked; only a reading that was refuted looks at that.
    pub had: Access,
    /// Whether the manager knows all that was ever written of what it has in no book.
    pub known: bool,
}

impl Directory {
    /// A node needs a minipage. Says whether that is found lost by it: it is in no book, and nobody knows whether it was written.
    pub fn on_request(&mut self, page: PageId, asks: Asks, book: Book, out: &mut Sends) -> bool {
        if let Some((_, early)) = &mut self.rebuild {
            early.push((page, asks));
            return false;
        }
        let mut is_found_lost = false;
        let entry = self.pages.entry(page).or_insert_with(|| {
            is_found_lost = !asks.known;
            Entry { lost: is_found_lost, ..Entry::default() }
        });
        if *entry.len.get_or_insert(asks.at.len) == asks.at.len {
            entry.queue.push_back(asks);
            entry.serve(page, book, out);
        } else {
            out.push((asks.from, Message::Otherwise { page, id: asks.id }));
        }
        is_found_lost
    }

    /// An epoch begins: all that is open begins again when these have reported what they have.
    pub fn begin(&mut self, members: impl IntoIterator<Item = Rank>) {
        for entry in self.pages.values_mut() {
            entry.open = Open::None;
            entry.queue.clear();
        }
        self.rebuild = Some((Rebuild::of(members), Vec::new()));
    }

    /// A survivor reports a minipage. False if it is not awaited.
    pub fn on_report(&mut self, page: PageId, report: Report) -> bool {
        self.rebuild.as_mut().is_some_and(|(rebuild, _)| rebuild.on_report(page, report))
    }

    /// A survivor has reported so many, and all. False if that is not awaited.
    pub fn on_reported(&mut self, from: Rank, reports: u32) -> bool {
        self.rebuild.as_mut().is_some_and(|(rebuild, _)| rebuild.on_reported(from, reports))
    }

    /// Whether all have reported, and nobody has gone on by that.
    pub fn has_all_reports(&self) -> bool {
        self.rebuild.as_ref().is_some_and(|(rebuild, _)| rebuild.is_complete())
    }

    /// Goes on if all have reported: the book is what they have, but for objects that were `forgotten` meanwhile, and what they ask for is
    /// served. Gives the minipages that are found lost.
    pub fn rebuilt(
        &mut self,
        survives: impl Fn(Rank) -> bool,
        forgotten: impl Fn(ObjectId) -> bool,
        book: Book,
        out: &mut Sends,
    ) -> Vec<PageId> {
        let Some((rebuild, early)) = self.rebuild.take_if(|(rebuild, _)| rebuild.is_complete()) else {
            return Vec::new();
        };
        let mut reports = rebuild.reports();
        reports.retain(|page, _| !forgotten(page.object));
        let pages: Vec<PageId> = self
            .pages
            .keys()
            .chain(reports.keys().filter(|page| !self.pages.contains_key(page)))
            .copied()
            .collect();
        let mut lost = Vec::new();
        for page in pages {
            let known = self.pages.get(&page).map(Entry::known);
            let reported = reports.get(&page).map_or(&[][..], Vec::as_slice);
            let restored = restore(known, reported, &survives, book.lost_with_receiver);
            let entry = self.pages.entry(page).or_default();
            let was_lost = entry.lost;
            entry.restore(page, restored, out);
            entry.len = entry.len.or(reported.first().map(|report| report.len));
            lost.extend(Some(page).filter(|_| entry.lost && !was_lost));
        }
        lost.extend(early.into_iter().filter_map(|(page, asks)| {
            let is_lost = self.on_request(page, asks, book, out);
            is_lost.then_some(page)
        }));
        lost
    }

    /// Whether reports are awaited.
    pub fn is_rebuilding(&self) -> bool {
        self.rebuild.is_some()
    }

    /// A requestor has what it asked for: its transaction closes, and the next one opens. False if it has none open.
    pub fn on_done(&mut self, page: PageId, from: Rank, id: u32, book: Book, out: &mut Sends) -> bool {
        let Some(entry) = self.pages.get_mut(&page) else { return false };
        match &mut entry.open {
            Open::Write(by, open) if (*by, *open) == (from, id) => entry.open = Open::None,
            Open::Restoring(by) if *by == from => entry.open = Open::None,
            Open::Reads(reads) => {
                let Some(place) = reads.iter().position(|read| (read.0, read.1) == (from, id)) else {
                    return false;
                };
                let (_, _, at) = reads.swap_remove(place);
                // The owner may write still: it was asked for nothing when another thread of its own read.
                if entry.owner != Some(from) {
                    entry.source = Some((from, at));
                }
                if reads.is_empty() {
                    entry.open = Open::None;
                }
            }
            Open::None | Open::Write(..) | Open::Restoring(_) => return false,
        }
        entry.serve(page, book, out);
        true
    }

    /// An object is freed: nothing of it is open.
    pub fn forget(&mut self, object: ObjectId) {
        let known: Vec<PageId> = self.pages.range(PageId::all_of(object)).map(|(page, _)| *page).collect();
        known.iter().for_each(|page| drop(self.pages.remove(page)));
    }

    /// Requests that are not done.
    pub fn unserved(&self) -> u64 {
        let open = |open: &Open| match open {
            Open::None => 0,
            Open::Reads(reads) => reads.len(),
            Open::Write(..) | Open::Restoring(_) => 1,
        };
        let early = self.rebuild.as_ref().map_or(0, |(_, early)| early.len() as u64);
        early + self.pages.values().map(|entry| (open(&entry.open) + entry.queue.len()) as u64).sum::<u64>()
    }

    /// What the book says: by minipage, its version, its owner, and who may access it.
    pub fn book(&self) -> impl Iterator<Item = (PageId, u64, Option<Rank>, &[Rank])> {
        self.pages.iter().map(|(page, entry)| (*page, entry.version, entry.owner, &*entry.copies))
    }
}

impl Entry {
    fn known(&self) -> Known {
        Known { version: self.version, owner: self.owner, lost: self.lost }
    }

    /// What the survivors have is what the book has.
    fn restore(&mut self, page: PageId, restored: Restored, out: &mut Sends) {
        *self = Entry { len: self.len, ..Entry::default() };
        match restored {
            Restored::Fresh => {}
            Restored::Held { version, copies } => {
                self.version = version;
                // At version 0 all is zero everywhere, and nobody needs to send it.
                self.owner = copies.first().copied().filter(|_| version > 0);
                self.copies = copies;
            }
            Restored::Given { version, by } => {
                self.version = version;
                self.owner = Some(by).filter(|_| version > 0);
                self.copies = vec![by];
                self.open = Open::Restoring(by);
                out.push((by, Message::Restore { page, version }));
            }
            Restored::Lost => self.lost = true,
        }
    }

    /// Opens what may be open now, in the order of arrival: a read behind a write that waits does not join open reads.
    fn serve(&mut self, page: PageId, book: Book, out: &mut Sends) {
        if self.lost {
            out.extend(self.queue.drain(..).map(|asks| (asks.from, Message::Lost { page, id: asks.id })));
            return;
        }
        while let Some(&next) = self.queue.front() {
            match (&self.open, next.need) {
                (Open::None | Open::Reads(_), Access::Read) => self.read(page, next, book, out),
                (Open::None, Access::Write) => self.write(page, next, book, out),
                _ => return,
            }
            self.queue.pop_front();
        }
    }

    /// Orders what a read takes: the owner's data. It may be the owner that asks: then it has them.
    fn read(&mut self, page: PageId, Asks { from, id, at, .. }: Asks, book: Book, out: &mut Sends) {
        let version = self.version;
        if let Some((source, there)) = self.pulled_from(from, book) {
            out.push((from, Message::Pull { page, id, from: source, at: there, version }));
            return self.opens_read((from, id, at), book, book.pulls_are_open);
        }
        let order = match self.owner.filter(|owner| *owner != from) {
            Some(owner) => {
                (owner, Message::Forward { page, id, to: from, at, need: Access::Read, notices: 1, version })
            }
            // Nobody has written: what the requestor has is zero, and so are all copies.
            None => (from, Message::Notice { page, id, notices: 1, version, data: None }),
        };
        out.push(order);
        self.opens_read((from, id, at), book, true);
    }

    /// Whence a reader takes the data itself: "when the requested page is currently shared and not available in the manager node"
    /// (4.2). The source keeps them while the read is open, since no write opens before.
    fn pulled_from(&self, requestor: Rank, book: Book) -> Option<(Rank, RemoteSlice)> {
        let managers = self.copies.binary_search(&book.me).is_ok();
        self.source.filter(|(source, _)| book.pulls && !managers && *source != requestor)
    }

    /// A read is on its way.
    fn opens_read(&mut self, (from, id, at): (Rank, u32, RemoteSlice), book: Book, open: bool) {
        if !book.pulls_from_done {
            self.source = Some((from, at));
        }
        if let Err(place) = self.copies.binary_search(&from) {
            self.copies.insert(place, from);
        }
        if !book.keeps_server {
            self.copies.retain(|copy| Some(*copy) != self.owner);
        }
        match &mut self.open {
            _ if !open => {}
            Open::Reads(reads) => reads.push((from, id, at)),
            open => *open = Open::Reads(vec![(from, id, at)]),
        }
    }

    /// Orders what a write takes: all others give up, and the owner sends its data where the requestor has none.
    fn write(&mut self, page: PageId, Asks { from, id, at, had, .. }: Asks, book: Book, out: &mut Sends) {
        let has = self.copies.binary_search(&from).is_ok();
        let had = if book.decides_when_served { has } else { had == Access::Read };
        let others = self.copies.iter().filter(|holder| **holder != from);
        let notices = others.clone().count().max(1) as u16;
        self.version += 1;
        let version = self.version;
        let server = self.owner.filter(|owner| !had && *owner != from);
        let orders = out.len();
        for &holder in others {
            let order = if Some(holder) == server {
                Message::Forward { page, id, to: from, at, need: Access::Write, notices, version }
            } else {
                Message::Invalidate { page, id, to: from, notices, version }
            };
            out.push((holder, order));
        }
        if out.len() == orders {
            // No other node has to act: the manager gives the one notice itself.
            out.push((from, Message::Notice { page, id, notices, version, data: None }));
        }
        self.owner = Some(from);
        self.copies = vec![from];
        self.source = None;
        self.open = Open::Write(from, id);
    }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
