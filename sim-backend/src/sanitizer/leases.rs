//! Which bytes of a region requests in flight may touch.

use std::collections::VecDeque;
use std::ops::Range;

/// Ranges are looked up by the page that they begin in.
const PAGE: u64 = 4096;

/// A queue with a ledger of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// A queue pair's, by its place.
    Send(u32),
    /// A queue pair's.
    Receive(u32),
    /// A shared receive queue, by its place.
    Shared(u32),
}

/// A request, by its queue and its number in that queue's ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub queue: Queue,
    pub request: u32,
}

/// A range of a region that a request holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub at: u32,
    pub len: u32,
    pub by: Holder,
    /// Whether the request may write there, or else read.
    pub writes: bool,
}

impl Lease {
    fn covers(&self, range: &Range<u64>) -> bool {
        u64::from(self.at) < range.end && range.start < u64::from(self.at) + u64::from(self.len)
    }
}

/// The leases of a region: short ones in a list for every page, so that neither a request nor an access looks
/// at more than its neighbours, and those longer than a page in one list.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    /// Oldest first, since the oldest is mostly the first to go.
    pages: Vec<VecDeque<Lease>>,
    long: VecDeque<Lease>,
    count: u32,
}

impl Leases {
    #[inline]
    pub fn add(&mut self, lease: Lease) {
        self.count += 1;
        if u64::from(lease.len) > PAGE {
            return self.long.push_back(lease);
        }
        let page = (u64::from(lease.at) / PAGE) as usize;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, VecDeque::new);
        }
        self.pages[page].push_back(lease);
    }

    /// Ends a lease of a request, that begins at `at` and is `len` long.
    #[inline]
    pub fn end(&mut self, at: u32, len: u32, by: Holder) {
        let list = match u64::from(len) > PAGE {
            true => Some(&mut self.long),
            false => self.pages.get_mut((u64::from(at) / PAGE) as usize),
        };
        let Some(list) = list else { return };
        if list.front().is_some_and(|lease| lease.by == by) {
            list.pop_front();
        } else if let Some(place) = list.iter().position(|lease| lease.by == by) {
            list.remove(place);
        } else {
            return;
        }
        self.count -= 1;
    }

    /// The oldest lease of the first page with one that shares a byte with the range, of those that may write
    /// or, if `any`, of all.
    #[inline]
    pub fn find(&self, range: Range<u64>, any: bool) -> Option<Lease> {
        if self.count == 0 { None } else { self.search(range, any) }
    }

    fn search(&self, range: Range<u64>, any: bool) -> Option<Lease> {
        // A short lease begins in the page of its bytes or in the one before.
        let first = (range.start / PAGE).saturating_sub(1) as usize;
        let end = (range.end.div_ceil(PAGE) as usize).min(self.pages.len());
        let short = self.pages.get(first.min(end)..end).unwrap_or(&[]);
        let meets = |lease: &&Lease| (any || lease.writes) && lease.covers(&range);
        short.iter().flatten().find(meets).or_else(|| self.long.iter().find(meets)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(request: u32) -> Holder {
        Holder { queue: Queue::Send(0), request }
    }

    fn lease(at: u32, len: u32, request: u32, writes: bool) -> Lease {
        Lease { at, len, by: sent(request), writes }
    }

    /// Every lease is found by exactly the accesses that share a byte with it, be it short, long or across
    /// pages.
    #[test]
    fn a_lease_is_found_by_what_it_shares_a_byte_with() {
        for (at, len) in [(0, 1), (4095, 2), (4000, 4096), (8192, 4096), (100, 20_000), (12_288, 8)] {
            let mut leases = Leases::default();
            leases.add(lease(at, len, 7, true));
            let (first, end) = (u64::from(at), u64::from(at + len));
            for start in (first.saturating_sub(5000)..end + 5000).step_by(7) {
                for size in [1, 8, 5000] {
                    let expected = start < end && first < start + size;
                    assert_eq!(leases.find(start..start + size, false).is_some(), expected, "{at} {start}");
                }
            }
            leases.end(at, len, sent(7));
            assert!(leases.find(0..100_000, true).is_none());
        }
    }

    #[test]
    fn of_two_leases_of_the_same_bytes_each_ends_alone() {
        let mut leases = Leases::default();
        (1..=3).for_each(|request| leases.add(lease(64, 8, request, request == 2)));
        leases.end(64, 8, sent(1));
        assert_eq!(leases.find(64..65, true).map(|l| l.by), Some(sent(2)));
        leases.end(64, 8, sent(2));
        assert_eq!(leases.find(64..65, false), None);
        assert_eq!(leases.find(64..65, true).map(|l| l.by), Some(sent(3)));
        leases.end(64, 8, Holder { queue: Queue::Receive(0), request: 3 });
        assert_eq!(leases.find(64..65, true).map(|l| l.by), Some(sent(3)), "another queue's request 3");
    }
}
