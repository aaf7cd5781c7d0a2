//! A membership beside the two ends: it expels whom it knows to be no more, in any order and by either end, and says who is there.

use super::*;

impl World {
    /// Nodes retire and begin anew, and a membership says who is there.
    pub fn among_members() -> World {
        World { views: true, ..World::new() }
    }

    /// What waits for the peer ends, as in [`Mesh`](crate::transport::Mesh): nothing is said to it any more.
    pub(super) fn give_up(&mut self, at: usize) {
        assert!(self.views, "nobody expels anybody here, nor retires");
        let end = &mut self.ends[at];
        end.gone = true;
        if end.link.is_up() {
            end.qp.iter_mut().for_each(|qp| qp.fenced = true);
        }
        end.session.disconnected();
        end.session.reset();
    }

    /// One end expels somebody who is no more, or retires, or hears who is there.
    pub(super) fn change_members(&mut self, at: usize, pick: usize) {
        match pick % 4 {
            0 => self.retire(at),
            1 | 2 => self.expel(at, pick / 4),
            _ => self.admit(at),
        }
    }

    fn retire(&mut self, at: usize) {
        if !std::mem::replace(&mut self.ends[at].retired, true) {
            self.give_up(at);
            self.handle(at, Event::Retired);
        }
    }

    fn expel(&mut self, at: usize, pick: usize) {
        let other = &self.ends[1 - at];
        let gone = self.past[1 - at].iter().copied().chain(other.retired.then_some(other.incarnation));
        let gone: Vec<u64> = gone.collect();
        if gone.is_empty() || self.ends[at].retired {
            return;
        }
        let incarnation = gone[pick % gone.len()];
        if self.ends[at].link.is_for(incarnation) {
            self.give_up(at);
        }
        self.handle(at, Event::Expelled(incarnation, Grounds::default()));
    }

    /// A view that has both begins at one end.
    fn admit(&mut self, at: usize) {
        let incarnation = self.ends[1 - at].incarnation;
        if self.ends.iter().all(|end| !end.retired) {
            let end = &mut self.ends[at];
            end.gone &= !end.link.may_admit(incarnation);
        }
    }

    /// Who is out begins anew, and a view that has both begins at both ends.
    pub fn all_come_in(&mut self) {
        for at in 0..2 {
            if self.ends[at].retired {
                self.restart(at);
            }
        }
        (0..2).for_each(|at| self.admit(at));
    }
}
