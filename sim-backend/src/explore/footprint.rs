//! What a transition touched, and so which transitions commute.

use std::fmt;

/// Something that a transition can touch, by an identity that is stable from run to run: 4 bits of kind, and what the
/// kind needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object(pub u64);

/// How something was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AccessKind {
    /// It was looked at.
    Read,
    /// It was changed.
    Write,
    /// One transition made it, and another one could happen only because of it: the packet that was sent, the
    /// wake-up. The two are ordered, and cannot be reversed, even if they conflict elsewhere.
    Cause,
    /// The same, where nothing else could have made it: the two are no race, whatever else they share.
    EnablingEdge,
}

/// One object touched in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Touch {
    /// What.
    pub object: Object,
    /// What was done to it.
    pub kind: AccessKind,
}

/// What one transition touched. An object may be in it several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    touches: Vec<Touch>,
}

impl Footprint {
    /// Nothing touched yet.
    pub const fn new() -> Footprint {
        Footprint { touches: Vec::new() }
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.touches.clear();
    }

    /// Adds a touch.
    #[inline]
    pub fn push(&mut self, object: Object, kind: AccessKind) {
        self.touches.push(Touch { object, kind });
    }

    /// Everything touched, in no particular order.
    pub fn touches(&self) -> &[Touch] {
        &self.touches
    }

    /// Whether both touched something in a way that makes their order matter, or one made the other possible.
    pub fn conflicts(&self, other: &Footprint) -> bool {
        self.meets(other, |a, b| match (a, b) {
            (AccessKind::Cause | AccessKind::EnablingEdge, b) => a == b,
            (a, AccessKind::Cause | AccessKind::EnablingEdge) => a == b,
            (a, b) => a == AccessKind::Write || b == AccessKind::Write,
        })
    }

    /// Whether one made the other possible.
    pub fn is_cause_of(&self, other: &Footprint) -> bool {
        self.meets(other, |a, b| a == b && matches!(a, AccessKind::Cause | AccessKind::EnablingEdge))
    }

    fn meets(&self, other: &Footprint, how: impl Fn(AccessKind, AccessKind) -> bool) -> bool {
        self.touches.iter().any(|a| other.touches.iter().any(|b| a.object == b.object && how(a.kind, b.kind)))
    }
}

impl fmt::Display for Object {
    /// What it is, and three numbers, of which a kind may use fewer: the adapter, node or port; the queue pair's place
    /// or number; a count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, middle, count) = (self.0 >> 42 & 0x3ff, self.0 >> 18 & 0xff_ffff, self.0 & 0x3_ffff);
        let kind = match (self.0 >> 60, self.0 >> 56 & 0xf) {
            (1, _) => {
                return write!(f, "word {}+{}", self.0 >> 36 & 0xff_ffff, (self.0 & ((1 << 36) - 1)) * 8);
            }
            (0, 1) => "standing",
            (0, 2) => "event",
            (0, 3) => "accepts",
            (0, 4) => "disk call",
            (0, 5) => "kept write",
            (2, _) => "mode",
            (3, _) => "sends",
            (4, _) => "receives",
            (5, _) => "receive",
            (6, _) => "tail",
            (7, _) => "packet",
            (8, _) => "late packet",
            (9, _) => "datagram",
            (10, _) => "message",
            (11, _) => "node",
            (12, _) => "wake-up",
            (13, _) => "loss",
            (14, _) => "link",
            (15, 0) => "quiescence",
            (15, 1) => "regions",
            (15, 2) => "shared receives",
            (15, 3) => "manager",
            (15, 4) => "lost message",
            (15, 5) => "awaited receive",
            (15, 8) => "refusal",
            (15, 9) => "completion",
            (15, 10) => "last completion",
            (15, 11) => "armed",
            (15, 12) => "room",
            (15, 13) => "connection",
            (15, 14) => "names",
            (15, 15) => "holders",
            (15, _) => "breakage",
            _ => "object",
        };
        write!(f, "{kind} {unit}/{middle}/{count}")
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, touch) in self.touches.iter().enumerate() {
            let how = match touch.kind {
                AccessKind::Read => "reads",
                AccessKind::Write => "writes",
                AccessKind::Cause => "cause",
                AccessKind::EnablingEdge => "enabling edge",
            };
            write!(f, "{}{how} {}", if i == 0 { "" } else { ", " }, touch.object)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(list: &[(u64, AccessKind)]) -> Footprint {
        let mut footprint = Footprint::new();
        list.iter().for_each(|&(object, how)| footprint.push(Object(object), how));
        footprint
    }

    #[test]
    fn transitions_conflict_when_one_changes_what_the_other_touches() {
        let reader = print(&[(1, AccessKind::Read), (2, AccessKind::Read)]);
        assert!(!reader.conflicts(&reader));
        assert!(
            reader.conflicts(&print(&[(2, AccessKind::Write)]))
                && print(&[(2, AccessKind::Write)]).conflicts(&reader)
        );
        assert!(!reader.conflicts(&print(&[(3, AccessKind::Write)])));
    }

    #[test]
    fn a_cause_orders_its_effect_and_nothing_else() {
        let (sent, delivered) =
            (print(&[(7, AccessKind::Cause)]), print(&[(7, AccessKind::Cause), (1, AccessKind::Write)]));
        assert!(sent.conflicts(&delivered) && sent.is_cause_of(&delivered));
        assert!(!sent.conflicts(&print(&[(7, AccessKind::Write)])));
    }
}
