//! A scene whose programs are known by heart: it is the fabric's state, and a book.

use super::super::book::{Book, Pages};
use super::super::cluster::Cluster;
use super::{Company, Play, content, set_up};
use crate::explore::Violation;
use weft_sim::choice::EventId;
use weft_sim::explore::{Footprint, NotEnabled, Outcome, Snapshot, Taken};
use weft_sim::{Fabric, NodeId, Repertoire, RepertoireStats, Root};

/// One script's programs.
pub(super) struct ByHeart<P: Play> {
    script: usize,
    /// The book in which they write, in all executions.
    book: Book,
    /// Its nodes note what they know.
    tells: bool,
    repertoire: Repertoire<Company<P>, Answer>,
    /// States to come back to.
    saved: Vec<Saved>,
}

/// What a node is asked.
enum Answer {
    /// At an end: what is broken, and which branches were reached.
    Finds(Option<Violation>, u32),
    /// At rest: what it still knows.
    Knows(Option<u128>),
}

/// The numbers of the questions.
const FINDS: u8 = 0;
const KNOWS: u8 = 1;

#[derive(Default)]
struct Saved {
    state: Option<Snapshot>,
    pages: Pages,
}

impl<P: Play> ByHeart<P> {
    /// Of programs of which nothing is known yet.
    pub fn new(script: usize, play: &P, fabric: &Fabric, root: &Root, tells: bool) -> ByHeart<P> {
        let book = play.book().heard_by(fabric.asides());
        let repertoire = Repertoire::new(fabric, root.anew());
        ByHeart { script, book, tells, repertoire, saved: Vec::new() }
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
        let ByHeart { script, book, tells, repertoire, .. } = self;
        repertoire.begin(|| set_up(play, cluster, fabric, *script, book, *tells));
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
        let ByHeart { script, book, tells, repertoire, .. } = self;
        let build = || set_up(play, cluster, fabric, *script, book, *tells);
        repertoire.take(event, outcome, touched, build)
    }

    /// What is found at the nodes: what is broken first, and every branch that any of them reached.
    pub fn look_at_nodes(
        &mut self,
        play: &P,
        cluster: &Cluster,
        fabric: &Fabric,
    ) -> (Option<Violation>, u32) {
        let (mut broken, mut reached) = (None, 0);
        for node in 0..fabric.nodes() {
            let index = node as usize;
            let look = |Company { cast, members }: &Company<P>| {
                let member = &members[index];
                Answer::Finds(play.broken_at(cast, index, member), play.reached_at(cast, index, member))
            };
            if let Answer::Finds(fault, branches) = self.ask(NodeId(node), FINDS, play, cluster, fabric, look)
            {
                broken = broken.or_else(|| fault.clone());
                reached |= branches;
            }
        }
        (broken, reached)
    }

    /// What each node still knows, if it can say it.
    pub fn contents(&mut self, play: &P, cluster: &Cluster, fabric: &Fabric) -> Vec<Option<u128>> {
        let known = |node| {
            let look = |company: &Company<P>| Answer::Knows(content(play, company, fabric, node));
            match self.ask(node, KNOWS, play, cluster, fabric, look) {
                Answer::Knows(content) => *content,
                Answer::Finds(..) => None,
            }
        };
        (0..fabric.nodes()).map(NodeId).map(known).collect()
    }

    fn ask(
        &mut self,
        node: NodeId,
        number: u8,
        play: &P,
        cluster: &Cluster,
        fabric: &Fabric,
        look: impl FnOnce(&Company<P>) -> Answer,
    ) -> &Answer {
        let ByHeart { script, book, tells, repertoire, .. } = self;
        let build = || set_up(play, cluster, fabric, *script, book, *tells);
        repertoire.ask(node, number, build, look)
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
