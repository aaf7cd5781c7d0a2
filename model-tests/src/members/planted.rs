//! The mistakes that the specification warns of, each made in what stands around the shipped state machine.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Planted {
    /// A node that restarts has the incarnation that it had, and has forgotten what it promised: it votes twice.
    Amnesia,
    /// After a cold start, what was held in an earlier life is granted at once.
    ColdStartDoesNotWait,
    /// After any view, what was held by those who left is granted at once.
    GrantsAtOnce,
    /// Who waits for the end of a lease trusts its own clock.
    NoDrift,
    /// A lease runs from when the answers to its renewal came.
    LeaseFromReceipt,
    /// A member whose node is still in the view, as another incarnation, is taken for one that is still there.
    ByRank,
    /// A lease is renewed by one that has accepted the next view.
    RenewsStill,
}
