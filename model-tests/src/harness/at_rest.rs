//! What is asked of nodes once nothing happens any more, whatever they run.

use super::Member;
use crate::explore::Violation;
use crate::oracle::{Conduct, Leaks, Leftover, Standing};
use weft_verbs::Nanos;

/// The first thing that is wrong with a node at rest: what it had to drop, or what it has left over.
pub fn at_rest(
    node: usize,
    conduct: Conduct,
    left: impl IntoIterator<Item = (&'static str, u64)>,
) -> Option<Violation> {
    let node = node as u32;
    let mut broken = conduct.finish(Nanos::ZERO, node);
    broken.extend(Leaks::finish(Nanos::ZERO, &Leftover::named(node, left)));
    broken.into_iter().next().map(Violation::from)
}

/// The first connection that was made again, which where there was no fault is wrong.
pub(super) fn first_broke(members: &[Member]) -> Option<Violation> {
    (0..).zip(members).find_map(|(node, member)| broke(node, member))
}

/// The same of one node.
pub(super) fn broke(node: u32, member: &Member) -> Option<Violation> {
    Standing::finish(Nanos::ZERO, node, &member.mesh.stats()).map(Violation::from)
}
