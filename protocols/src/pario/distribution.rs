//! Where a file's bytes lie: from its own positions to those of the objects on its servers, and back.
//!
//! A file is fixed at creation to be round robin in strips over some servers. Its bytes on one of them, in their order, are
//! one **object**; which of the file's servers it is on is its **part**, from 0. All of this is pure arithmetic: client and
//! server find the same pieces, and only the distribution travels (spec of PVFS2's `simple_stripe`).

use std::ops::Range;

/// How a file is laid out. `single` is the stripe over one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Distribution {
    strip: u32,
    servers: u16,
    first: u16,
}

impl Distribution {
    /// The strip that a file has unless it is told otherwise, in bytes.
    pub const STRIP: u32 = 1 << 20;

    /// In the place of a first server: as it makes the file, the directory's home takes the next one in turn.
    pub const IN_TURN: u16 = u16::MAX;

    /// Strips of so many bytes over so many servers, the first of them on server `first` of the cluster, from 0, or
    /// [in turn](Distribution::IN_TURN). `None` where strips or servers are zero.
    pub const fn stripe(strip: u32, servers: u16, first: u16) -> Option<Distribution> {
        match (strip, servers) {
            (0, _) | (_, 0) => None,
            _ => Some(Distribution { strip, servers, first }),
        }
    }

    /// All of it on one server.
    pub const fn single(server: u16) -> Distribution {
        Distribution { strip: Distribution::STRIP, servers: 1, first: server }
    }

    /// A strip's length in bytes.
    pub const fn strip(self) -> u32 {
        self.strip
    }

    /// How many servers it is over: its parts.
    pub const fn servers(self) -> u16 {
        self.servers
    }

    /// The server of the first strip.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The distribution of the `number`-th file of a cluster of so many servers, if it was asked for with this one.
    pub(super) const fn of_file(self, number: u64, servers: u32) -> Distribution {
        match self.first {
            Distribution::IN_TURN => Distribution { first: (number % servers as u64) as u16, ..self },
            _ => self,
        }
    }

    /// Whether a cluster of so many servers can hold it.
    pub const fn fits(self, servers: u32) -> bool {
        (self.servers as u32) <= servers && (self.first as u32) < servers
    }

    /// The server of a part, in a cluster of so many.
    pub const fn server(self, part: u16, servers: u32) -> u32 {
        (self.first as u32 + part as u32) % servers
    }

    /// The part of a server; `None` if it has none of the file.
    pub const fn part(self, server: u32, servers: u32) -> Option<u16> {
        let part = (server + servers - self.first as u32) % servers;
        if part < self.servers as u32 { Some(part as u16) } else { None }
    }

    /// Where a byte of the file lies: its part, and its position in that object.
    pub const fn locate(self, logical: u64) -> (u16, u64) {
        let (strip, servers) = (self.strip as u64, self.servers as u64);
        let (number, within) = (logical / strip, logical % strip);
        ((number % servers) as u16, number / servers * strip + within)
    }

    /// Where a byte of an object lies in the file. Saturates: no file is so long.
    pub fn logical(self, part: u16, physical: u64) -> u64 {
        let (strip, servers) = (u64::from(self.strip), u64::from(self.servers));
        let (number, within) = (physical / strip, physical % strip);
        number
            .saturating_mul(servers)
            .saturating_add(u64::from(part))
            .saturating_mul(strip)
            .saturating_add(within)
    }

    /// The size that a file has to say the least, since an object of it has this size.
    pub fn size(self, part: u16, object: u64) -> u64 {
        match object.checked_sub(1) {
            Some(last) => self.logical(part, last).saturating_add(1),
            None => 0,
        }
    }

    /// A part's bytes among those of a range of the file: they are adjacent in the object. Empty if there are none.
    pub fn extent(self, part: u16, range: &Range<u64>) -> Range<u64> {
        let below = |end: u64| {
            let (strip, servers, part) = (u64::from(self.strip), u64::from(self.servers), u64::from(part));
            let (number, within) = (end / strip, end % strip);
            // Whole strips of the part before the one that the end lies in, and the part of that one.
            let whole = number / servers + u64::from(number % servers > part);
            whole * strip + if number % servers == part { within } else { 0 }
        };
        below(range.start)..below(range.end.max(range.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn distributions() -> impl Strategy<Value = Distribution> {
        let strips = prop_oneof![1..20_u32, Just(64), Just(4096), Just(Distribution::STRIP)];
        (strips, 1..9_u16, 0..9_u16).prop_map(|(strip, servers, first)| {
            Distribution::stripe(strip, servers, first).expect("neither is zero")
        })
    }

    proptest! {
        #[test]
        fn a_byte_is_found_where_it_was_put(layout in distributions(), logical in 0..1_u64 << 50) {
            let (part, physical) = layout.locate(logical);
            prop_assert!(part < layout.servers());
            prop_assert_eq!(layout.logical(part, physical), logical);
        }

        #[test]
        fn no_two_bytes_share_a_place(layout in distributions(), part in 0..9_u16, physical in 0..1_u64 << 40) {
            prop_assume!(part < layout.servers());
            prop_assert_eq!(layout.locate(layout.logical(part, physical)), (part, physical));
        }

        #[test]
        fn the_largest_part_says_the_size(layout in distributions(), size in 1..1_u64 << 40) {
            let object = |part| layout.extent(part, &(0..size)).end;
            let sizes = (0..layout.servers()).map(|part| layout.size(part, object(part)));
            prop_assert_eq!(sizes.max(), Some(size));
        }

        #[test]
        fn a_part_and_its_server_name_each_other(layout in distributions(), part in 0..9_u16, servers in 1..12_u32) {
            prop_assume!(layout.fits(servers) && part < layout.servers());
            prop_assert_eq!(layout.part(layout.server(part, servers), servers), Some(part));
        }
    }

    #[test]
    fn a_file_of_one_server_lies_there_as_it_is() {
        let single = Distribution::single(3);
        assert_eq!(single.locate(5_000_000_000), (0, 5_000_000_000));
        assert_eq!((single.server(0, 4), single.part(3, 4), single.part(0, 4)), (3, Some(0), None));
    }

    #[test]
    fn strips_go_round() {
        let layout = Distribution::stripe(10, 3, 1).unwrap();
        assert_eq!((layout.locate(9), layout.locate(10), layout.locate(35)), ((0, 9), (1, 0), (0, 15)));
        assert_eq!(layout.extent(0, &(5..35)), 5..15);
        assert_eq!(layout.extent(2, &(5..12)), 0..0);
    }
}
