//! What oracles know of nodes that die.

use super::super::history::{Event, What, Why};
use crate::history::ClientId;
use crate::oracle::Oracle;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// Which nodes are **aside**: all others go on without them.
///
/// A node that is left out though it lives goes on with what it has until it learns that. Nobody sees what it does then, and it
/// sees nothing new: the order of all accesses has its last ones at the time at which it was left out, whatever its clock said.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Aside {
    nodes: u32,
    /// By node: those that go on without it.
    outlived: BTreeMap<u32, BTreeSet<u32>>,
}

impl Aside {
    /// All of so many nodes take part.
    pub fn of(nodes: u32) -> Aside {
        Aside { nodes, outlived: BTreeMap::new() }
    }

    /// A node goes on without another one. Gives all that are aside from now on, new or not.
    pub fn outlives(&mut self, node: u32, died: u32) -> Vec<u32> {
        self.outlived.entry(died).or_default().insert(node);
        self.outlived.keys().copied().filter(|node| self.has(*node)).collect()
    }

    /// Whether all that nobody has outlived go on without a node. Before that it may still have had a part in what they do.
    pub fn has(&self, node: u32) -> bool {
        let Some(without) = self.outlived.get(&node) else { return false };
        (0..self.nodes).all(|other| without.contains(&other) || self.outlived.contains_key(&other))
    }
}

/// Calls fail only where a node has died, and say which one or what is lost with it.
///
/// One step of a node tells its threads of a death and writes that into the history, in any order. So a call that fails by the name of
/// somebody of whom nothing is known yet is judged once its step is over: when its thread calls again, or at the end.
#[derive(Clone, Debug, Default, Hash)]
pub struct ByName {
    died: BTreeSet<u32>,
    /// By thread: the call that failed, of whose cause nothing is known.
    early: BTreeMap<ClientId, Early>,
}

/// A call that failed before its cause was known.
#[derive(Clone, Debug)]
struct Early(Event);

impl Hash for Early {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.0.request, self.0.to_string()).hash(to);
    }
}

impl ByName {
    /// Whether a call that ended so at a node did so by what has died. A node is shut down only where it has itself.
    fn is_named(&self, node: u32, what: What) -> bool {
        match what {
            What::Failed(Why::Closed) => self.died.contains(&node),
            What::Failed(Why::Lost(_) | Why::Ended) => !self.died.is_empty(),
            What::Failed(Why::Died(node)) => self.died.contains(&node),
            What::Failed(Why::Other) => false,
            _ => true,
        }
    }

    /// Calls that failed, and nobody died.
    pub fn unnamed(&self) -> impl Iterator<Item = &Event> {
        self.early.values().map(|Early(event)| event)
    }
}

/// What is wrong with a call that failed.
pub(super) fn nobody_died(event: &Event) -> String {
    let who = if event.what == What::Failed(Why::Closed) { "it has not" } else { "nobody has" };
    format!("{event}, and {who} died")
}

impl Oracle<Event> for ByName {
    fn name(&self) -> &'static str {
        "by name"
    }

    fn promise(&self) -> &'static str {
        "a call fails by the name of what died"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let dies = match event.what {
            What::Crashed | What::LeftOut => Some(event.request.client.node),
            What::Outlives(node) => Some(node),
            _ => None,
        };
        if let Some(node) = dies {
            self.died.insert(node);
            let early = std::mem::take(&mut self.early);
            let is_early = |Early(event): &Early| !self.is_named(event.request.client.node, event.what);
            self.early = early.into_iter().filter(|(_, early)| is_early(early)).collect();
        }
        if let Some(Early(before)) = self.early.remove(&event.request.client) {
            return Err(nobody_died(&before));
        }
        match event.what {
            What::Failed(Why::Other) => Err(nobody_died(event)),
            what if self.is_named(event.request.client.node, what) => Ok(()),
            _ => {
                self.early.insert(event.request.client, Early(*event));
                Ok(())
            }
        }
    }
}

/// Which nodes wait for others before the memory begins.
///
/// It begins when all nodes are in one view. One that was left out of a view though it lives is in none until somebody restarts it:
/// meanwhile the others wait, and nobody has to answer them.
#[derive(Clone, Debug, Default)]
pub(super) struct Beginning {
    begun: BTreeSet<u32>,
    left_out: BTreeSet<u32>,
}

impl Beginning {
    pub fn observe(&mut self, event: &Event) {
        let node = event.request.client.node;
        match event.what {
            What::Begun(_) => drop(self.begun.insert(node)),
            What::LeftOut => drop(self.left_out.insert(node)),
            // What it is next knows nothing of that.
            What::Crashed => {
                self.begun.remove(&node);
                self.left_out.remove(&node);
            }
            _ => {}
        }
    }

    /// Whether a node waits for one that is left out.
    pub fn waits(&self, node: u32) -> bool {
        !self.left_out.is_empty() && !self.begun.contains(&node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::RequestId;

    #[test]
    fn a_thread_may_be_told_of_a_death_before_the_history_is_and_not_in_an_earlier_step() {
        let event = |index, what| {
            let request = RequestId { client: ClientId { node: 0, index }, number: 0 };
            Event { at_ns: 0, request, what }
        };
        let [told, dies] = [event(1, What::Failed(Why::Died(2))), event(u32::MAX, What::Outlives(2))];
        let other = event(u32::MAX, What::Outlives(1));
        let judged = |events: &[Event]| {
            let mut oracle = ByName::default();
            let judged = events.iter().try_for_each(|event| oracle.observe(event));
            (judged.is_ok(), oracle.unnamed().count())
        };
        assert_eq!(judged(&[told, dies, event(1, What::Enters(1))]), (true, 0));
        assert_eq!(judged(&[told, other, event(2, What::Enters(1))]), (true, 1));
        assert!(!judged(&[told, other, event(1, What::Enters(1)), dies]).0);
    }

    #[test]
    fn a_node_is_aside_once_all_that_nobody_outlived_go_on_without_it() {
        let mut aside = Aside::of(4);
        let nobody: Vec<u32> = Vec::new();
        assert_eq!(aside.outlives(0, 3), nobody);
        assert_eq!(aside.outlives(1, 3), nobody);
        assert!(!aside.has(3), "n2 may still get something of it");
        assert_eq!(aside.outlives(2, 3), [3]);
        // Two go on without two.
        let mut aside = Aside::of(4);
        for (node, died) in [(0, 2), (0, 3), (1, 2)] {
            assert_eq!(aside.outlives(node, died), if node == 1 { vec![2] } else { vec![] });
        }
        assert_eq!(aside.outlives(1, 3), [2, 3]);
    }
}
