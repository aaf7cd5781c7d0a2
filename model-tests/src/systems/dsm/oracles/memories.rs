//! Which memory each node has. Where nodes agree on who is alive one memory may begin after another, and what is promised is promised of
//! each by itself; and of all of them together, that no node has one while another one has another.

use super::super::history::{Event, What};
use crate::history::{HistoryEvent, Stage};
use crate::oracle::Oracle;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// A promise, of each memory by itself.
///
/// The word that a memory has begun comes from each node by itself, and on real machines it may come after what other nodes found in
/// that memory. So what a node has called before that word counts as called in the memory of which others speak already.
#[derive(Clone, Debug)]
pub(super) struct Each<O> {
    /// Of a memory that nobody has accessed.
    fresh: O,
    /// By the memory's name; zero where nodes have no agreement about who is alive.
    memories: BTreeMap<u64, O>,
    /// The memory that began last.
    latest: Option<Latest>,
    /// By node: the memory that it has, or what it has called before it has one.
    of: BTreeMap<u32, Has>,
}

/// The memory that began last, and the nodes that have or had a part in it, or may.
#[derive(Clone, Debug, Hash)]
struct Latest {
    name: u64,
    parts: BTreeSet<u32>,
}

#[derive(Clone, Debug)]
enum Has {
    /// This memory.
    Memory(u64),
    /// None that it has told of. These calls have not ended, and if somebody has told of a memory they count as made in that one.
    None { calls: Vec<Event>, counts_in: Option<u64> },
}

impl<O: Hash> Hash for Each<O> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.memories, &self.latest).hash(to);
        for (node, has) in &self.of {
            node.hash(to);
            match has {
                Has::Memory(name) => name.hash(to),
                Has::None { calls, counts_in } => {
                    counts_in.hash(to);
                    calls.iter().for_each(|call| call.request.hash(to));
                }
            }
        }
    }
}

impl<O: Clone> Each<O> {
    pub fn of(fresh: O) -> Each<O> {
        Each { fresh, memories: BTreeMap::new(), latest: None, of: BTreeMap::new() }
    }

    /// The same of another promise, before anything has happened.
    pub fn map(self, change: impl FnOnce(O) -> O) -> Each<O> {
        Each::of(change(self.fresh))
    }

    /// The memories.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut O> {
        self.memories.values_mut()
    }

    fn memory(&mut self, name: u64) -> &mut O {
        self.memories.entry(name).or_insert_with(|| self.fresh.clone())
    }
}

impl<O: Oracle<Event> + Clone> Each<O> {
    /// A node waits for memory. It may have a part in the one of which others speak, unless it had one in an earlier life.
    fn waits(&mut self, node: u32) {
        let counts_in =
            self.latest.as_mut().and_then(|Latest { name, parts }| parts.insert(node).then_some(*name));
        self.of.insert(node, Has::None { calls: Vec::new(), counts_in });
    }

    /// A node has this memory. If it is the first one to say so, what the others that wait have called may be executed in it.
    fn begins(&mut self, event: &Event, name: u64) -> Result<(), String> {
        let node = event.request.client.node;
        if self.latest.as_ref().is_none_or(|latest| latest.name != name) {
            let waiting = self.of.iter().filter(|(_, has)| matches!(has, Has::None { .. }));
            let waiting: BTreeSet<u32> = waiting.map(|(node, _)| *node).collect();
            self.latest = Some(Latest { name, parts: waiting.clone() });
            waiting.into_iter().try_for_each(|node| self.may_take_part(event, node, name))?;
        }
        if let Some(latest) = &mut self.latest {
            latest.parts.insert(node);
        }
        self.may_take_part(event, node, name)?;
        self.of.insert(node, Has::Memory(name));
        Ok(())
    }

    /// What a node has called counts as made in this memory, and in no other one.
    fn may_take_part(&mut self, event: &Event, node: u32, name: u64) -> Result<(), String> {
        let Some(Has::None { calls, counts_in }) = self.of.get_mut(&node) else { return Ok(()) };
        let before = counts_in.replace(name);
        if before == Some(name) {
            return Ok(());
        }
        let calls = calls.clone();
        if let Some(before) = before {
            self.memory(before).observe(&Event::of_node(event.at(), node, What::Crashed))?;
        }
        let memory = self.memory(name);
        calls.iter().try_for_each(|call| memory.observe(call))
    }
}

impl<O: Oracle<Event> + Clone> Oracle<Event> for Each<O> {
    fn name(&self) -> &'static str {
        self.fresh.name()
    }

    fn promise(&self) -> &'static str {
        self.fresh.promise()
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let node = event.request.client.node;
        let of = match (event.what, self.of.get_mut(&node)) {
            (What::Waits, _) => {
                self.waits(node);
                return Ok(());
            }
            (What::Begun(name), _) => return self.begins(event, name),
            (_, None) => Some(0),
            (_, Some(Has::Memory(name))) => Some(*name),
            (What::Failed(_), Some(Has::None { calls, counts_in })) => {
                calls.retain(|call| call.request != event.request);
                *counts_in
            }
            (_, Some(Has::None { calls, counts_in })) => {
                if event.stage() == Stage::Asked {
                    calls.push(*event);
                }
                *counts_in
            }
        };
        if event.what == What::Crashed {
            self.of.remove(&node);
        }
        of.map_or(Ok(()), |name| self.memory(name).observe(event))
    }
}

/// No memory begins while a node that lives has another one.
#[derive(Clone, Debug, Default, Hash)]
pub struct One {
    /// By node: the memory that it has.
    of: BTreeMap<u32, u64>,
}

impl Oracle<Event> for One {
    fn name(&self) -> &'static str {
        "one memory"
    }

    fn promise(&self) -> &'static str {
        "none begins while another one is there"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let node = event.request.client.node;
        match event.what {
            What::Begun(name) => {
                self.of.insert(node, name);
                match self.of.iter().find(|(_, other)| **other != name) {
                    Some((other, _)) => Err(format!("{event}, and n{other} has another one")),
                    None => Ok(()),
                }
            }
            What::Crashed | What::LeftOut => {
                self.of.remove(&node);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::history::{At, Op};
    use super::super::Sequential;
    use super::*;
    use crate::history::{ClientId, RequestId};

    /// A memory's name.
    const MEMORY: u64 = 7;

    fn call(node: u32, what: What) -> Event {
        let request = RequestId { client: ClientId { node, index: 0 }, number: 0 };
        Event { at_ns: 0, request, what }
    }

    fn of_node(node: u32, what: What) -> Event {
        Event::of_node(weft_verbs::Nanos::ZERO, node, what)
    }

    fn judged(events: &[Event]) -> Result<(), String> {
        let mut oracle = Each::of(Sequential::new(16).among(2));
        events.iter().try_for_each(|event| oracle.observe(event))
    }

    fn stores(node: u32, value: u64, place: At) -> [Event; 2] {
        let op = Op::Store(value);
        let done = What::Accessed { word: 3, op, found: 0, place, hops: Some(2) };
        [call(node, What::Accesses { word: 3, op }), call(node, done)]
    }

    fn loads(node: u32, found: u64, place: At) -> [Event; 2] {
        let done = What::Accessed { word: 3, op: Op::Load, found, place, hops: Some(2) };
        [call(node, What::Accesses { word: 3, op: Op::Load }), call(node, done)]
    }

    #[test]
    fn what_a_node_called_may_be_found_before_it_says_that_its_memory_has_begun() {
        let [asks, stored] = stores(1, 5, At(1, 1));
        let [looks, found] = loads(0, 5, At(2, 0));
        let [began, late] = [0, 1].map(|node| of_node(node, What::Begun(MEMORY)));
        let waits = [0, 1].map(|node| of_node(node, What::Waits));
        let told = [waits[0], waits[1], asks, looks, began, found, late, stored];
        assert_eq!(judged(&told), Ok(()));
        // Also where not even that it waits was known.
        assert_eq!(judged(&[waits[0], looks, began, waits[1], asks, found, late, stored]), Ok(()));
        // And where it dies before it says so.
        let dies = of_node(1, What::Crashed);
        assert_eq!(judged(&[waits[0], waits[1], asks, looks, began, dies, found]), Ok(()));
    }

    #[test]
    fn nothing_is_found_that_nobody_has_called() {
        let [asks, stored] = stores(1, 5, At(1, 1));
        let [looks, found] = loads(0, 5, At(2, 0));
        let [began, late] = [0, 1].map(|node| of_node(node, What::Begun(MEMORY)));
        let waits = [0, 1].map(|node| of_node(node, What::Waits));
        assert!(judged(&[waits[0], waits[1], looks, began, found, late, asks, stored]).is_err());
        // What was called in the next life of a node is none of this memory's calls.
        let next = [of_node(1, What::Crashed), of_node(1, What::Waits), asks];
        let told = [&waits[..], &[began, late], &next, &[looks, found]].concat();
        assert!(judged(&told).is_err());
    }
}
