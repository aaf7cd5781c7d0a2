//! A scene whose programs are known by heart: it is the fabric's state, and a book.

use super::super::book::{Book, Pages};
use super::super::cluster::Cluster;
use super::{Company, Play, set_up};
use crate::explore::Violation;
use sim_backend::choice::EventId;
use sim_backend::explore::{Footprint, NotEnabled, Outcome, Snapshot, Taken};
use sim_backend::{Fabric, NodeId, Repertoire, RepertoireStats, Root};

/// One script's programs.
pub(super) struct ByHeart<P: Play> {
    script: usize,
    /// The book in which they write, in all executions.
    book: Book,
    repertoire: Repertoire<Company<P>, Finding>,
    /// States to come back to.
    saved: Vec<Saved>,
}

/// What is found at a node at an end.
struct Finding {
    broken: Option<Violation>,
    reached: u32,
}

#[derive(Default)]
struct Saved {
    state: Option<Snapshot>,
    pages: Pages,
}

impl<P: Play> ByHeart<P> {
    /// Of programs of which nothing is known yet.
    pub fn new(script: usize, play: &P, fabric: &Fabric, root: &Root) -> ByHeart<P> {
        let book = play.book().heard_by(fabric.asides());
        ByHeart { script, book, repertoire: Repertoire::new(fabric, root.anew()), saved: Vec::new() }
    }

    pub fn script(&self) -> usize {
        self.script
    }

    pub fn book(&self) -> &Book {
        &self.book
    }

    pub fn stats(&self) -> RepertoireStats {
        self.repertoire.stats()
    }

    /// Begins an execution.
    pub fn begin(&mut self, play: &P, cluster: &Cluster, fabric: &Fabric) {
        let ByHeart { script, book, repertoire, .. } = self;
        repertoire.begin(|| set_up(play, cluster.connected(fabric), fabric, *script, book));
        book.rewrite(play.book());
    }

    pub fn take(
        &mut self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
        play: &P,
        cluster: &Cluster,
        fabric: &Fabric,
    ) -> Result<Taken, NotEnabled> {
        let ByHeart { script, book, repertoire, .. } = self;
        let build = || set_up(play, cluster.connected(fabric), fabric, *script, book);
        repertoire.take(event, outcome, touched, build)
    }

    /// What is found at the nodes: what is broken first, and every branch that any of them reached.
    pub fn look_at_nodes(
        &mut self,
        play: &P,
        cluster: &Cluster,
        fabric: &Fabric,
    ) -> (Option<Violation>, u32) {
        let ByHeart { script, book, repertoire, .. } = self;
        let (mut broken, mut reached) = (None, 0);
        for node in 0..fabric.nodes() {
            let build = || set_up(play, cluster.connected(fabric), fabric, *script, book);
            let index = node as usize;
            let look = |Company { cast, members }: &Company<P>| Finding {
                broken: play.broken_at(cast, index, &members[index]),
                reached: play.reached_at(cast, index, &members[index]),
            };
            let found = repertoire.ask(NodeId(node), build, look);
            broken = broken.or_else(|| found.broken.clone());
            reached |= found.reached;
        }
        (broken, reached)
    }

    /// Keeps the present state under a number.
    pub fn save(&mut self, number: usize) -> bool {
        if self.saved.len() <= number {
            self.saved.resize_with(number + 1, Saved::default);
        }
        let Saved { state, pages } = &mut self.saved[number];
        self.repertoire.save(state);
        self.book.save(pages);
        true
    }

    /// Goes back to what was kept.
    pub fn put_back(&mut self, number: usize) -> bool {
        let Some(Saved { state: Some(state), pages }) = self.saved.get(number) else { return false };
        let there = self.repertoire.put_back(state);
        if there {
            self.book.put_back(pages);
        }
        there
    }
}
