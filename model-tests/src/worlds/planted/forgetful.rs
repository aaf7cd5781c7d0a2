//! An executor that forgets to poll after arming: what completes between its last empty poll and the arming wakes
//! nobody (IBA 11.4.2.2).

use crate::explore::{Coverage, Size, Violation};
use crate::worlds::book::Book;
use crate::worlds::cluster::{Member, Shape};
use crate::worlds::stage::Play;
use weft_protocols::rt::{Program, Rt};
use weft_sim::Sim;
use weft_sim::explore::FaultSet;
use weft_verbs::{Node, Park, Wait};

/// A play whose nodes' executors forget to poll after arming.
pub struct Forgetful<P>(pub P);

/// The program, but for the poll.
struct Armed {
    rt: Rt<Sim>,
    program: Program<Sim>,
    /// It has armed, and waits without having polled.
    forgot: bool,
}

impl Node for Armed {
    fn step(&mut self) -> Park {
        if self.program.is_about_to_arm() && !self.forgot && self.rt.arm().is_ok() {
            self.forgot = true;
            return Park::Until { style: Wait::Notify, deadline: None };
        }
        self.forgot = false;
        self.program.step()
    }
}

impl<P: Play> Play for Forgetful<P> {
    type Cast = P::Cast;

    fn name(&self) -> &str {
        self.0.name()
    }

    fn size(&self) -> Size {
        self.0.size()
    }

    fn smaller(&self) -> Vec<Size> {
        self.0.smaller()
    }

    fn survives(&self) -> FaultSet {
        self.0.survives()
    }

    fn shape(&self) -> Shape {
        Shape { wait: Wait::Notify, ..self.0.shape() }
    }

    fn book(&self) -> Book {
        self.0.book()
    }

    fn scripts(&self) -> usize {
        self.0.scripts()
    }

    fn script(&self, number: usize) -> String {
        self.0.script(number)
    }

    fn start(&self, script: usize, members: &[Member], book: &Book) -> P::Cast {
        self.0.start(script, members, book)
    }

    fn program(&self, member: &Member) -> Box<dyn Node> {
        Box::new(Armed { rt: member.rt.clone(), program: member.rt.program(), forgot: false })
    }

    fn finish(&self, cast: &P::Cast, members: &[Member], book: &Book) -> Result<(), Violation> {
        self.0.finish(cast, members, book)
    }

    fn coverage(&self, cast: &P::Cast, members: &[Member], sink: &mut Coverage) {
        self.0.coverage(cast, members, sink);
    }
}
