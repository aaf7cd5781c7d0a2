//! What is played on a stage: a world's programs, and its judgement.

use super::book::Book;
use super::cluster::{Member, Shape};
use crate::explore::{Coverage, Size, Violation};
use weft_protocols::rt::Digest;
use weft_sim::explore::{FaultSet, Outcome};
use weft_sim::{Fabric, NodeId};
use weft_verbs::{Node, QpNum};

/// A world's programs and its judgement: the fabric is the stage, and this is what is played on it.
pub trait Play {
    /// What one execution keeps for its end: services, words, counters.
    type Cast;

    /// The world's name.
    fn name(&self) -> &str;

    /// The cluster that it wants.
    fn shape(&self) -> Shape;

    /// Its whole size, as a user would write it; empty if it has one size only.
    fn size(&self) -> Size {
        Size::default()
    }

    /// The sizes that are smaller by one thing. Some may be too small.
    fn smaller(&self) -> Vec<Size> {
        self.size().one_less()
    }

    /// Whether a node that has crashed takes others with it: if so, nobody's request need end.
    fn needs(&self, cast: &Self::Cast, node: NodeId, book: &Book) -> bool {
        let _ = (cast, node, book);
        true
    }

    /// The faults that it can be explored under: those that it promises to survive, and a crash if it says what that
    /// may cost.
    fn bears(&self) -> FaultSet {
        self.survives()
    }

    /// The faults that it promises to survive. Neither a crash nor a restart, unless it says so: what a node held is then
    /// gone.
    fn survives(&self) -> FaultSet {
        FaultSet::ALL.without(Outcome::Crash).without(Outcome::Restart)
    }

    /// An empty book for an execution.
    fn book(&self) -> Book {
        Book::new(false)
    }

    /// How many scripts it has. If there are several, the first choice of an execution is which one is played.
    fn scripts(&self) -> usize {
        1
    }

    /// What a script is, for people.
    fn script(&self, number: usize) -> String {
        let _ = number;
        String::new()
    }

    /// Starts what runs on the nodes, by one of the scripts; or what is to run before that, if the play has a
    /// [rehearsal](Play::is_rehearsed).
    fn start(&self, script: usize, members: &[Member], book: &Book) -> Self::Cast;

    /// Whether something runs before the first choice: in one fixed order, to its rest. What is explored begins in the
    /// state that this leads to.
    fn is_rehearsed(&self) -> bool {
        false
    }

    /// Starts what runs on the nodes after the rehearsal.
    fn begin(&self, script: usize, cast: &mut Self::Cast, members: &[Member], book: &Book) {
        let _ = (script, cast, members, book);
    }

    /// A node has crashed and is there again: starts what runs on it in its next life. Of plays that bear
    /// [`Outcome::Restart`].
    fn restart(&self, cast: &mut Self::Cast, node: NodeId, member: &Member, book: &Book) {
        let _ = (cast, node, member, book);
    }

    /// What a node's driver steps.
    fn program(&self, member: &Member) -> Box<dyn Node> {
        Box::new(member.rt.program())
    }

    /// Judges an end at which every request has ended: what is left over, and what the play itself promises. Unless it
    /// is judged otherwise, the first node at which something is broken.
    ///
    /// # Errors
    ///
    /// The promise that was broken.
    fn finish(&self, cast: &Self::Cast, members: &[Member], book: &Book) -> Result<(), Violation> {
        let _ = book;
        let mut nodes = members.iter().enumerate();
        nodes.find_map(|(node, member)| self.broken_at(cast, node, member)).map_or(Ok(()), Err)
    }

    /// What a node has broken by an end, by itself.
    fn broken_at(&self, cast: &Self::Cast, node: usize, member: &Member) -> Option<Violation> {
        let _ = (cast, node, member);
        None
    }

    /// A bit for each of the [branches](Play::branches): whether a node has reached it.
    fn reached_at(&self, cast: &Self::Cast, node: usize, member: &Member) -> u32 {
        let _ = (cast, node, member);
        0
    }

    /// The names of the interesting branches that a node may reach.
    fn branches(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether programs may be known by heart (see [`Repertoire`](weft_sim::Repertoire)): what a node's program does depends on nothing outside of
    /// it but what the fabric answers, and the play is judged by its book and by each node for itself.
    fn is_by_heart(&self) -> bool {
        false
    }

    /// Adds to a hash what a node still knows, between two steps, and says whether that is all. If it is not, the node
    /// counts by all that it has seen.
    fn content(
        &self,
        cast: &Self::Cast,
        node: usize,
        member: &Member,
        unseen: &Unseen<'_>,
        to: &mut Digest,
    ) -> bool {
        let _ = (cast, node, member, unseen, to);
        false
    }

    /// Names the interesting branches and says which were taken: unless it says so otherwise, those that any node
    /// reached.
    fn coverage(&self, cast: &Self::Cast, members: &[Member], sink: &mut Coverage) {
        if !self.branches().is_empty() {
            let nodes = members.iter().enumerate();
            let reached = nodes.map(|(node, member)| self.reached_at(cast, node, member));
            cover(self.branches(), reached.fold(0, |all, of| all | of), sink);
        }
    }
}

/// Names branches, and says by a bit for each which were reached.
pub(super) fn cover(branches: &[&'static str], reached: u32, sink: &mut Coverage) {
    for (bit, name) in branches.iter().enumerate() {
        sink.sometimes(name, reached & 1 << bit != 0);
    }
}

/// What a node's adapters hold of its requests, and its program cannot know.
pub struct Unseen<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) node: NodeId,
}

impl weft_protocols::rt::Unseen for Unseen<'_> {
    fn unended_sends(&self, qp: QpNum) -> u32 {
        self.fabric.unended_sends(self.node, qp)
    }

    fn arrived(&self, qp: QpNum, n: usize) -> Option<u32> {
        self.fabric.arrived(self.node, qp, n)
    }
}
