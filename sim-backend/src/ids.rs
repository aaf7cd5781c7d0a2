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
        let digits = name.strip_prefix('n')?;
        let canonical =
            digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()));
        if canonical { digits.parse().ok().map(NodeId) } else { None }
    }

    /// The node's index into flat tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
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
}
