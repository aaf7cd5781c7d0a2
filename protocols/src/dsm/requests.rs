//! What a node has asked its minipages' managers for, and which threads wait for it (kernel-dsm.txt, 4.1: "bookkeeping").

use super::messages::Access;
use super::shared::{ObjectId, PageId};
use crate::transport::Rank;
use std::collections::BTreeMap;

/// A request: a node has at most one for each minipage and kind.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Request {
    pub id: u32,
    /// Threads that wait for it.
    pub joined: u32,
    /// Notices that have arrived.
    pub notices: u16,
    /// How many messages one after the other the longest way took, so far.
    pub hops: u8,
}

/// What a notice does to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is of no request of this node.
    Unknown,
    /// Others are to come. Whether it was the first.
    More { first: bool },
    /// It was the last: this access is granted to so many threads that wait.
    Granted { need: Access, joined: u32, hops: u8 },
}

/// A node's requests.
#[derive(Debug, Default)]
pub(super) struct Requests {
    open: BTreeMap<(PageId, Access), Request>,
    next_id: u32,
}

impl Requests {
    /// A thread joins the request that serves it. Gives that request's number and kind; `None` if there is none: then it has to
    /// be [made](Requests::make).
    pub fn join(&mut self, page: PageId, need: Access, only_what_serves: bool) -> Option<(u32, Access)> {
        let serves: &[Access] = match need {
            // A write serves a read, too.
            Access::Invalid | Access::Read => &[Access::Read, Access::Write],
            Access::Write if only_what_serves => &[Access::Write],
            Access::Write => &[Access::Write, Access::Read],
        };
        let kind = serves.iter().copied().find(|kind| self.open.contains_key(&(page, *kind)))?;
        let request = self.open.get_mut(&(page, kind))?;
        request.joined += 1;
        Some((request.id, kind))
    }

    /// A new request, for which so many threads wait. Gives its number.
    pub fn make(&mut self, page: PageId, need: Access, joined: u32) -> u32 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.open.insert((page, need), Request { id, joined, notices: 0, hops: 0 });
        id
    }

    /// Whether a request is open.
    pub fn is_open(&self, page: PageId, kind: Access, id: u32) -> bool {
        self.open.get(&(page, kind)).is_some_and(|request| request.id == id)
    }

    /// Whether there is one for the minipage that serves a need.
    pub fn serves(&self, page: PageId, need: Access) -> bool {
        let reads = need < Access::Write && self.open.contains_key(&(page, Access::Read));
        reads || self.open.contains_key(&(page, Access::Write))
    }

    /// Whether there is one for the minipage.
    pub fn any(&self, page: PageId) -> bool {
        [Access::Read, Access::Write].iter().any(|kind| self.open.contains_key(&(page, *kind)))
    }

    /// A thread gives up. False if the request is open no more.
    pub fn leave(&mut self, page: PageId, kind: Access, id: u32) -> bool {
        match self.open.get_mut(&(page, kind)) {
            Some(request) if request.id == id => {
                request.joined -= 1;
                true
            }
            _ => false,
        }
    }

    /// One of `ordered` notices arrives, over so many hops.
    pub fn on_notice(&mut self, page: PageId, id: u32, ordered: u16, hops: u8) -> Progress {
        let kinds = [Access::Read, Access::Write];
        let Some(need) = kinds.into_iter().find(|kind| self.is_open(page, *kind, id)) else {
            return Progress::Unknown;
        };
        let request = self.open.get_mut(&(page, need)).expect("it is open");
        request.notices += 1;
        request.hops = request.hops.max(hops);
        if request.notices < ordered {
            return Progress::More { first: request.notices == 1 };
        }
        let Request { joined, hops, .. } = *request;
        self.open.remove(&(page, need));
        Progress::Granted { need, joined, hops }
    }

    /// A request ends, and nothing is granted. False if it is open no more.
    pub fn ends_without(&mut self, page: PageId, id: u32) -> bool {
        let kinds = [Access::Read, Access::Write];
        let kind = kinds.into_iter().find(|kind| self.is_open(page, *kind, id));
        kind.is_some_and(|kind| self.open.remove(&(page, kind)).is_some())
    }

    /// An epoch begins: the notices of the one before do not count. Gives all that have to be made again.
    pub fn again(&mut self) -> Vec<(PageId, Access, u32)> {
        self.open.values_mut().for_each(|request| (request.notices, request.hops) = (0, 0));
        self.open.iter().map(|((page, need), request)| (*page, *need, request.id)).collect()
    }

    /// Whether there is one for any of an object's minipages.
    pub fn any_of(&self, object: ObjectId) -> bool {
        let pages = PageId::all_of(object);
        let all = (*pages.start(), Access::Invalid)..=(*pages.end(), Access::Write);
        self.open.range(all).next().is_some()
    }

    /// Requests that are open.
    pub fn len(&self) -> u64 {
        self.open.len() as u64
    }

    /// Gives all up: nobody will answer.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}

/// How many messages one after the other a notice took: the request, the manager's order, and the notice; those to oneself not
/// counted (kernel-dsm.txt, 2.2: "two or three hops").
pub(super) fn hops(requestor: Rank, manager: Rank, server: Rank) -> u8 {
    u8::from(requestor != manager) + u8::from(manager != server) + u8::from(server != requestor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Read, Write};

    const PAGE: PageId = PageId { object: ObjectId(0), index: 0 };

    #[test]
    fn a_read_joins_a_write_and_a_write_joins_no_read() {
        let mut requests = Requests::default();
        let read = requests.make(PAGE, Read, 1);
        assert_eq!(requests.join(PAGE, Write, true), None);
        let write = requests.make(PAGE, Write, 1);
        assert_eq!(requests.join(PAGE, Read, true), Some((read, Read)));
        assert_eq!(
            requests.on_notice(PAGE, read, 1, 3),
            Progress::Granted { need: Read, joined: 2, hops: 3 }
        );
        assert_eq!(requests.join(PAGE, Read, true), Some((write, Write)));
        assert!(requests.leave(PAGE, Write, write), "it is open still");
        assert_eq!(requests.on_notice(PAGE, write, 2, 2), Progress::More { first: true });
        assert_eq!(
            requests.on_notice(PAGE, write, 2, 3),
            Progress::Granted { need: Write, joined: 1, hops: 3 }
        );
        assert_eq!(requests.on_notice(PAGE, write, 2, 3), Progress::Unknown);
    }

    #[test]
    fn a_request_for_any_minipage_is_one_for_its_object_and_for_no_other() {
        for (kind, index) in [(Read, 0), (Write, 0), (Read, u32::MAX), (Write, u32::MAX)] {
            let mut requests = Requests::default();
            requests.make(PageId { object: ObjectId(5), index }, kind, 0);
            assert_eq!([4, 5, 6].map(|object| requests.any_of(ObjectId(object))), [false, true, false]);
        }
    }

    #[test]
    fn hops_are_none_at_home_and_two_or_three_elsewhere() {
        let [a, b, c] = [0, 1, 2].map(Rank::from_index);
        assert_eq!([hops(a, a, a), hops(a, b, b), hops(a, a, b), hops(a, b, c)], [0, 2, 2, 3]);
    }
}
