//! What must hold in the world: after every step, and when nothing can happen any more.

use super::node::{Doing, WorldNode};
use super::{Verdict, World};
use crate::locks::Mode;
use crate::locks::ncosed::Word;
use crate::transport::Rank;

impl World {
    /// Who holds, and how.
    pub(in crate::locks::ncosed) fn holding(&self) -> Vec<(Rank, Mode)> {
        let holds = |node: &WorldNode| match node.application.doing.get() {
            Doing::Holding(mode) => Some((node.rank, mode)),
            _ => None,
        };
        self.nodes.iter().filter_map(holds).collect()
    }

    /// What must hold after every step.
    pub(super) fn judge(&mut self) -> Verdict {
        let holding = self.holding();
        for (i, &(a, mode_a)) in holding.iter().enumerate() {
            for &(b, mode_b) in &holding[i + 1..] {
                if !mode_a.goes_with(mode_b) {
                    return Err(format!("{a} holds {mode_a} and {b} holds {mode_b}"));
                }
            }
        }
        for node in &self.nodes {
            if node.wire.counters.out_of_turn.get() > 0 {
                return Err(format!("a message to {} was out of turn", node.rank));
            }
        }
        if let Some(late) = self.shared.borrow_mut().late.take() {
            return Err(late);
        }
        self.judge_sharing()?;
        self.judge_order()
    }

    /// Where nodes do not share, nothing is ever counted.
    fn judge_sharing(&self) -> Verdict {
        match self.words.values().find(|word| !self.scheme.shares() && word.shared() > 0) {
            Some(word) => Err(format!("the word {word:?} counts")),
            None => Ok(()),
        }
    }

    /// Exclusive requests hold in the order of their atomics; those that a freeze overtook before their atomic
    /// took effect come after all whose did.
    fn judge_order(&mut self) -> Verdict {
        for node in &self.nodes {
            if node.application.doing.get() != Doing::Holding(Mode::Exclusive)
                || node.application.judged.replace(true)
            {
                continue;
            }
            match self.order.iter().position(|&r| r == node.rank) {
                Some(0) => drop(self.order.pop_front()),
                Some(n) => return Err(format!("{} passed {n} others", node.rank)),
                None if self.order.is_empty() => {}
                None => return Err(format!("{} came before its turn", node.rank)),
            }
        }
        Ok(())
    }

    /// What must hold when nothing can happen any more.
    pub(super) fn judge_the_end(&self) -> Verdict {
        if let Some(node) = self.nodes.iter().find(|n| n.task.is_some()) {
            return Err(format!("{} waits for ever, {:?}", node.rank, node.application.doing.get()));
        }
        if let Some(node) = self.nodes.iter().find(|n| n.requester.is_taken()) {
            return Err(format!("{} still has something to do with the lock", node.rank));
        }
        let word = self.home.word().map(|at| self.words[&at.addr]);
        if word.is_some_and(|word| word != Word::FREE) {
            return Err(format!("the word is {word:?} at rest"));
        }
        if (self.home.unspent(), self.home.entries(), self.home.is_rebuilding()) != (0, 0, false) {
            return Err(format!("the home is not at rest: {:?}", self.home));
        }
        Ok(())
    }
}
