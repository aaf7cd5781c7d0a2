//! Which memory each node has. Where nodes agree on who is alive one memory may begin after another, and what is promised is promised of
//! each by itself; and of all of them together, that no node has one while another one has another.

use super::super::history::{Event, Timeless, What};
use crate::oracle::Oracle;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// A promise, of each memory by itself.
#[derive(Clone, Debug)]
pub(super) struct Each<O> {
    /// Of a memory that nobody has accessed.
    fresh: O,
    /// By the memory's name; zero where nodes have no agreement about who is alive.
    memories: BTreeMap<u64, O>,
    /// By node: the memory that it has, or the calls that it has made before it has one.
    of: BTreeMap<u32, Has>,
}

#[derive(Clone, Debug)]
enum Has {
    Memory(u64),
    None(Vec<Event>),
}

impl<O: Hash> Hash for Each<O> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.memories.hash(to);
        for (node, has) in &self.of {
            node.hash(to);
            match has {
                Has::Memory(name) => name.hash(to),
                Has::None(calls) => calls.iter().for_each(|call| call.request.hash(to)),
            }
        }
    }
}

impl<O: Clone> Each<O> {
    pub fn of(fresh: O) -> Each<O> {
        Each { fresh, memories: BTreeMap::new(), of: BTreeMap::new() }
    }

    /// The same of another promise, before anything has happened.
    pub fn map(self, change: impl FnOnce(O) -> O) -> Each<O> {
        Each::of(change(self.fresh))
    }

    /// The memories.
    pub fn all(&self) -> impl Iterator<Item = &O> {
        self.memories.values()
    }

    fn memory(&mut self, name: u64) -> &mut O {
        self.memories.entry(name).or_insert_with(|| self.fresh.clone())
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
        match (event.what, self.of.get_mut(&node)) {
            (What::Waits, _) => {
                self.of.insert(node, Has::None(Vec::new()));
                Ok(())
            }
            // What it has called is executed from now on: not before what has returned by now.
            (What::Begun(name), has) => {
                let calls = has.map(|has| std::mem::replace(has, Has::Memory(name)));
                self.of.insert(node, Has::Memory(name));
                let Some(Has::None(calls)) = calls else { return Ok(()) };
                let memory = self.memory(name);
                calls.iter().try_for_each(|call| memory.observe(call))
            }
            (What::Crashed, Some(Has::None(_))) => {
                self.of.remove(&node);
                Ok(())
            }
            (What::Failed(_), Some(Has::None(calls))) => {
                calls.retain(|call| call.request != event.request);
                Ok(())
            }
            (_, Some(Has::None(calls))) => {
                calls.push(*event);
                Ok(())
            }
            (what, has) => {
                let name = if let Some(Has::Memory(name)) = has { *name } else { 0 };
                if what == What::Crashed {
                    self.of.remove(&node);
                }
                self.memory(name).observe(event)
            }
        }
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
                    Some((other, _)) => Err(format!("{}, and n{other} has another one", Timeless(event))),
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
