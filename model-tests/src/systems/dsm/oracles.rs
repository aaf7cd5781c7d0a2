//! What shared memory promises.

mod deaths;
mod memories;
mod sequential;

use deaths::Beginning;
pub use deaths::ByName;
use memories::Each;
pub use memories::One;
pub use sequential::Sequential;

use super::apps::{Answer, Application, Input};
use super::history::{Event, What};
use crate::history::{ClientId, HistoryEvent};
use crate::oracle::{Oracle, Oracles, Returns, Violation, show};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use weft_verbs::Nanos;

/// Nobody leaves a barrier before all have entered it.
#[derive(Clone, Debug, Default, Hash)]
pub struct Together {
    parties: u32,
    /// By round, while somebody is in it: who has entered, and how many have left.
    rounds: BTreeMap<u32, (BTreeSet<ClientId>, u32)>,
}

impl Oracle<Event> for Together {
    fn name(&self) -> &'static str {
        "barrier"
    }

    fn promise(&self) -> &'static str {
        "nobody leaves before all have entered"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        match event.what {
            // A thread whose call was dropped may call again, and counts once.
            What::Enters(round) => drop(self.rounds.entry(round).or_default().0.insert(event.request.client)),
            What::Leaves(round) => {
                let (entered, left) = self.rounds.entry(round).or_default();
                *left += 1;
                let (entered, left) = (entered.len() as u32, *left);
                if entered < self.parties {
                    return Err(format!("{event}, and {entered} of {} have entered", self.parties));
                }
                if left == self.parties {
                    self.rounds.remove(&round);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// An application comes to what a sequential run comes to.
#[derive(Clone, Debug, Default)]
pub struct Right {
    application: Option<(Application, Input)>,
    parties: u32,
    /// The sum of the parts so far, and how many there are.
    sum: u64,
    parts: u32,
    /// What a sequential run comes to, once somebody has asked.
    expected: OnceCell<Answer>,
}

impl Right {
    /// What a sequential run comes to; nothing of no application.
    pub fn expected(&self) -> Answer {
        let run = || self.application.map(|(application, input)| application.sequential(input));
        *self.expected.get_or_init(|| run().unwrap_or_default())
    }
}

impl Oracle<Event> for Right {
    fn name(&self) -> &'static str {
        "answer"
    }

    fn promise(&self) -> &'static str {
        "a program has a sequential run's answer"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let What::Ran { part, .. } = event.what else { return Ok(()) };
        self.sum = self.sum.wrapping_add(part);
        self.parts += 1;
        if self.parts == self.parties && self.sum != self.expected().value {
            let expected = self.expected().value;
            return Err(format!("the answer is {:#x}, and a sequential run's is {expected:#x}", self.sum));
        }
        Ok(())
    }
}

/// All the oracles of shared memory.
#[derive(Clone, Debug)]
pub struct DsmOracles {
    sequential: Each<Sequential>,
    together: Each<Together>,
    one: One,
    right: Right,
    by_name: ByName,
    beginning: Beginning,
    progress: Returns<Event>,
}

impl DsmOracles {
    /// Oracles that have seen nothing of memory with so many words a minipage and so many threads.
    pub fn new(words_a_page: u32, threads: u32) -> DsmOracles {
        let together = Together { parties: threads, ..Together::default() };
        DsmOracles {
            sequential: Each::of(Sequential::new(words_a_page)),
            together: Each::of(together),
            one: One::default(),
            right: Right { parties: threads, ..Right::default() },
            by_name: ByName::default(),
            beginning: Beginning::default(),
            progress: Returns::default(),
        }
    }

    /// The same, where threads run an application.
    #[must_use]
    pub fn of(self, application: Application, input: Input) -> DsmOracles {
        DsmOracles { right: Right { application: Some((application, input)), ..self.right }, ..self }
    }

    /// The same on so many nodes, of which some may die.
    #[must_use]
    pub fn among(self, nodes: u32) -> DsmOracles {
        DsmOracles { sequential: self.sequential.map(|sequential| sequential.among(nodes)), ..self }
    }

    /// What a sequential run of the application comes to.
    pub fn expected(&self) -> Answer {
        self.right.expected()
    }

    /// The same where nobody looks at a clock: see [`Sequential::by_thread`].
    #[must_use]
    pub fn by_thread(self) -> DsmOracles {
        DsmOracles { sequential: self.sequential.map(Sequential::by_thread), ..self }
    }

    /// Those that judge: nobody asks for an answer where no application runs.
    fn judging(&mut self) -> impl Iterator<Item = &mut dyn Oracle<Event>> {
        let DsmOracles { sequential, together, one, right, by_name, progress, .. } = self;
        let runs = right.application.is_some();
        let first: [&mut dyn Oracle<Event>; 3] = [sequential, together, one];
        let last: [&mut dyn Oracle<Event>; 2] = [by_name, progress];
        let right: Option<&mut dyn Oracle<Event>> = if runs { Some(right) } else { None };
        first.into_iter().chain(right).chain(last)
    }
}

impl Oracles for DsmOracles {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        let mut these = DsmOracles { right: self.right.clone(), ..DsmOracles::new(1, 0) };
        these.judging().map(|oracle| (oracle.name(), oracle.promise())).collect()
    }

    /// There is an answer once each thread has its part.
    fn untested(&self) -> Vec<&'static str> {
        [self.right.name()].into_iter().filter(|_| self.right.parts < self.right.parties).collect()
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(Violation)) {
        self.beginning.observe(event);
        if event.what == What::Crashed {
            self.progress.node_restarted(event.request.client.node);
        }
        show(event, self.judging(), broken);
    }

    fn ended(&self) -> u64 {
        self.progress.ended()
    }

    fn unended(&self) -> u64 {
        self.progress.unended()
    }

    fn oldest(&self) -> Option<Nanos> {
        self.progress.oldest()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        let DsmOracles { beginning, progress, .. } = self;
        progress.excuse(|request| beginning.waits(request.client.node));
        let name = self.sequential.name();
        let unexplained = self.sequential.all_mut().flat_map(Sequential::unexplained).map(|event| {
            Violation { oracle: name, at: event.at(), text: format!("{event}, which no store explains") }
        });
        let unnamed = self.by_name.unnamed().map(|event| Violation {
            oracle: self.by_name.name(),
            at: event.at(),
            text: deaths::nobody_died(event),
        });
        unexplained.chain(unnamed).chain(self.progress.finish(now, healthy)).collect()
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        self.sequential.hash(&mut to);
        self.together.hash(&mut to);
        self.one.hash(&mut to);
        self.by_name.hash(&mut to);
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::Spent;
    use super::*;
    use crate::history::RequestId;

    const INPUT: Input = Input { size: 8, rounds: 1 };

    fn event(node: u32, what: What) -> Event {
        let request = RequestId { client: ClientId { node, index: 0 }, number: 0 };
        Event { at_ns: 0, request, what }
    }

    #[test]
    fn where_no_application_runs_no_answer_is_promised() {
        let answers = |oracles: DsmOracles| oracles.promises().iter().any(|(name, _)| *name == "answer");
        assert!(!answers(DsmOracles::new(1, 2)));
        assert!(answers(DsmOracles::new(1, 2).of(Application::Sor, INPUT)));
    }

    #[test]
    fn an_answer_to_which_a_thread_has_not_come_is_not_judged() {
        let mut oracles = DsmOracles::new(1, 2).of(Application::Sor, INPUT);
        let expected = oracles.expected().value;
        let ran = |part| What::Ran { part, spent: Spent::default() };
        for (node, part, untested) in [(0, expected, vec!["answer"]), (1, 0, vec![])] {
            oracles.observe(&event(node, What::Runs), &mut |_| {});
            oracles.observe(&event(node, ran(part)), &mut |violation| panic!("{violation}"));
            assert_eq!(oracles.untested(), untested);
        }
    }
}
