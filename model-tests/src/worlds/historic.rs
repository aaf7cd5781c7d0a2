//! A lock world whose history as a whole is judged, too: by stateright's tester, which knows nothing of the oracles
//! that watch the history as it grows.

use super::book::Book;
use super::cluster::{Member, Shape};
use super::stage::Play;
use crate::explore::{Coverage, Size, Violation};
use crate::oracle::Linearizability;
use crate::systems::locks::oracles::{ReadersWriter, calls_of_a_lock};
use weft_sim::NodeId;
use weft_sim::explore::FaultSet;
use weft_verbs::Node;

/// A play on one lock under another name, with a judgement more.
pub struct Historic<P> {
    /// The world's name.
    pub name: &'static str,
    /// The play.
    pub play: P,
}

impl<P: Play> Play for Historic<P> {
    type Cast = P::Cast;

    fn name(&self) -> &str {
        self.name
    }

    fn size(&self) -> Size {
        self.play.size()
    }

    fn smaller(&self) -> Vec<Size> {
        self.play.smaller()
    }

    fn shape(&self) -> Shape {
        self.play.shape()
    }

    fn survives(&self) -> FaultSet {
        self.play.survives()
    }

    fn bears(&self) -> FaultSet {
        self.play.bears()
    }

    fn needs(&self, cast: &P::Cast, node: NodeId, book: &Book) -> bool {
        self.play.needs(cast, node, book)
    }

    fn book(&self) -> Book {
        self.play.book().keeping_events()
    }

    fn scripts(&self) -> usize {
        self.play.scripts()
    }

    fn script(&self, number: usize) -> String {
        self.play.script(number)
    }

    fn start(&self, script: usize, members: &[Member], book: &Book) -> P::Cast {
        self.play.start(script, members, book)
    }

    fn is_rehearsed(&self) -> bool {
        self.play.is_rehearsed()
    }

    fn begin(&self, script: usize, cast: &mut P::Cast, members: &[Member], book: &Book) {
        self.play.begin(script, cast, members, book);
    }

    fn program(&self, member: &Member) -> Box<dyn Node> {
        self.play.program(member)
    }

    fn finish(&self, cast: &P::Cast, members: &[Member], book: &Book) -> Result<(), Violation> {
        self.play.finish(cast, members, book)?;
        let judged =
            book.events(|events| Linearizability::judge(ReadersWriter::default(), &calls_of_a_lock(events)));
        judged.map_err(|text| Violation::new(Linearizability::NAME, text))
    }

    fn coverage(&self, cast: &P::Cast, members: &[Member], sink: &mut Coverage) {
        self.play.coverage(cast, members, sink);
    }
}
