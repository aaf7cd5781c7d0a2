//! Nodes that were refused: a line in the log for each address, and another one when it is refused for another reason.
//!
//! A node that was in, and is refused, comes back every few seconds until somebody has changed something: a line each time would
//! fill a disk.

use crate::lines::Lines;
use crate::refusal::Refusal;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// How many addresses are remembered.
const ADDRESSES: usize = 4_096;

/// Why nodes were refused last.
#[derive(Debug)]
pub struct Refused {
    last: BTreeMap<IpAddr, Refusal>,
    lines: Lines,
}

impl Refused {
    /// Nobody yet.
    pub fn new() -> Refused {
        Refused { last: BTreeMap::new(), lines: Lines::new("refused") }
    }

    /// Writes that a node was refused, unless that was the last that was written of its address. Where there were many, it is written
    /// when the node comes back.
    pub fn write(&mut self, now: Duration, from: IpAddr, why: &Refusal) {
        let is_known = self.last.get(&from) == Some(why);
        if is_known || !self.lines.write(now, format_args!("a node at {from}: {why}")) {
            return;
        }
        if self.last.len() >= ADDRESSES {
            self.last.clear();
        }
        self.last.insert(from, why.clone());
    }

    /// What is said of refused nodes.
    pub fn lines(&mut self) -> &mut Lines {
        &mut self.lines
    }

    /// A node was let in: what is refused to its address from now on is news.
    pub fn let_in(&mut self, from: IpAddr) {
        self.last.remove(&from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reason_is_remembered_by_address_until_a_node_of_it_is_let_in_and_of_so_many_addresses() {
        let mut refused = Refused::new();
        let [one, other] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let nodes = |caller| Refusal::Nodes { coordinator: 3, caller };
        // A line is written where this changes: see `write`.
        for (from, why) in [(one, nodes(4)), (other, Refusal::Ending), (one, nodes(4)), (one, nodes(5))] {
            refused.write(Duration::ZERO, from, &why);
        }
        assert_eq!(refused.last, BTreeMap::from([(one, nodes(5)), (other, Refusal::Ending)]));
        refused.let_in(one);
        assert_eq!(refused.last, BTreeMap::from([(other, Refusal::Ending)]));
        for address in 0..10_000_u32 {
            let now = Duration::from_secs(10) * address;
            refused.write(now, IpAddr::from(address.to_be_bytes()), &Refusal::Ending);
        }
        assert!(refused.last.len() <= ADDRESSES);
    }

    #[test]
    fn a_node_for_which_there_was_no_line_has_one_when_it_comes_back() {
        let mut refused = Refused::new();
        let nodes: Vec<IpAddr> = (1..=16).map(|last| IpAddr::from([10, 0, 0, last])).collect();
        for (seconds, named) in [(0, 10), (5, 10), (10, 16)] {
            let now = Duration::from_secs(seconds);
            nodes.iter().for_each(|from| refused.write(now, *from, &Refusal::Ending));
            assert_eq!(refused.last.len(), named, "after {seconds} s");
        }
    }
}
