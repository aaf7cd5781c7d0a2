//! Small identities that every part of the fabric shares.

use std::fmt;

/// A node of the fabric, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The node of a network name (`n0`, `n1`, ...), the inverse of its `Display`.
    ///
    /// One node has one name: `n01` and `n+1` name nobody.
    pub fn from_name(name: &str) -> Option<NodeId> {
        number(name.strip_prefix('n')?).map(NodeId)
    }

    /// The node of a network name and the number of its cable, from 1: `n3` is the first of a node, `n3.2` its second.
    pub fn and_cable_from_name(name: &str) -> Option<(NodeId, u8)> {
        let Some((node, cable)) = name.split_once('.') else { return Some((NodeId::from_name(name)?, 1)) };
        let cable = number(cable).and_then(|n| u8::try_from(n).ok()).filter(|&n| n > 0)?;
        Some((NodeId::from_name(node)?, cable))
    }

    /// The network name of one of its cables, counted from 1; the inverse of [`NodeId::and_cable_from_name`].
    pub fn cable(self, cable: u8) -> String {
        if cable == 1 { self.to_string() } else { format!("{self}.{cable}") }
    }

    /// The node's index into flat tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A number written in the one way in which it is printed.
fn number(digits: &str) -> Option<u32> {
    let canonical = digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()));
    if canonical { digits.parse().ok() } else { None }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_its_node_are_one_to_one() {
        for n in [0, 1, 9, 10, 4_294_967_295] {
            assert_eq!(NodeId::from_name(&NodeId(n).to_string()), Some(NodeId(n)));
        }
        for wrong in ["", "n", "0", "n01", "n+1", "n-1", "n4294967296", "N1", "n1 "] {
            assert_eq!(NodeId::from_name(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_name_may_say_which_cable() {
        for (name, cable) in [("n7", 1), ("n7.1", 1), ("n7.255", 255)] {
            assert_eq!(NodeId::and_cable_from_name(name), Some((NodeId(7), cable)), "{name:?}");
            assert_eq!(NodeId::and_cable_from_name(&NodeId(7).cable(cable)), Some((NodeId(7), cable)));
        }
        for wrong in ["n7.", "n7.0", "n7.01", "n7.256", "n7.1.1", ".1", "n.1", "7.1"] {
            assert_eq!(NodeId::and_cable_from_name(wrong), None, "{wrong:?}");
        }
    }
}
