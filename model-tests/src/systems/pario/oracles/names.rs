//! Names: what is made is there until it is removed, and what was never made is not.
//!
//! A name's state is known for sure while no call that may change it is under way. Of those that overlap, those that
//! succeeded are counted: between two of them that made a file there is one that removed it.

use super::super::history::{Call, Event, Timeless, What};
use crate::history::RequestId;
use crate::oracle::Oracle;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of one name.
#[derive(Clone, Debug, Default, Hash)]
struct Name {
    /// Whether it is there, when nothing is under way. Nobody knows once a change of it has failed.
    there: Option<bool>,
    /// Calls under way that may change it.
    changing: u32,
    /// What those that succeeded added, since it was known last: made less removed.
    net: i32,
    /// Grows with each call that may change it, at its begin and its end.
    version: u64,
    /// A client that is gone may have changed it, at any time.
    lost: bool,
    /// A call that failed may have made it: then nobody was told of its handle.
    unknown: bool,
}

/// A call under way, and the versions of the names that it may tell of when it began; none while they were changing.
#[derive(Clone, Debug, Hash)]
struct Open {
    call: Call,
    versions: BTreeMap<u32, u64>,
    /// The version of the name that it may change, if no other call may.
    alone: Option<u64>,
}

/// The oracle of names.
#[derive(Clone, Debug, Hash)]
pub struct Names {
    names: BTreeMap<u32, Name>,
    open: BTreeMap<RequestId, Open>,
    /// All handles that were made.
    made: BTreeSet<u64>,
}

impl Names {
    /// So many names, of which none is there.
    pub fn new(names: u32) -> Names {
        let none = Name { there: Some(false), ..Name::default() };
        Names {
            names: (0..names).map(|name| (name, none.clone())).collect(),
            open: BTreeMap::new(),
            made: BTreeSet::new(),
        }
    }

    fn called(&mut self, request: RequestId, call: Call) {
        let stable = |names: &BTreeMap<u32, Name>| {
            let of = names.iter().filter(|(_, name)| name.changing == 0 && name.there.is_some());
            of.map(|(number, name)| (*number, name.version)).collect::<BTreeMap<_, _>>()
        };
        let mut versions = match call {
            Call::List | Call::Create(_) | Call::Open(_) | Call::Unlink(_) => stable(&self.names),
            _ => return,
        };
        if let Call::Create(name) | Call::Open(name) | Call::Unlink(name) = call {
            versions.retain(|number, _| *number == name);
        }
        let mut alone = None;
        if let Some(name) = self.changed(call) {
            name.changing += 1;
            name.version += 1;
            alone = (name.changing == 1).then_some(name.version);
            // Its own begin is no change by another one.
            versions.values_mut().for_each(|version| *version += 1);
        }
        self.open.insert(request, Open { call, versions, alone });
    }

    fn changed(&mut self, call: Call) -> Option<&mut Name> {
        match call {
            Call::Create(name) | Call::Unlink(name) => self.names.get_mut(&name),
            _ => None,
        }
    }

    /// Whether a name was there all the time since a call began; `None` if it may have changed meanwhile.
    fn surely(&self, open: &Open, name: u32) -> Option<bool> {
        let known = self.names.get(&name)?;
        (open.versions.get(&name) == Some(&known.version)).then_some(known.there)?
    }

    fn ended(&mut self, event: &Event) -> Result<(), String> {
        let Some(open) = self.open.remove(&event.request) else { return Ok(()) };
        let judged = self.told(&open, &event.what);
        let net = match (open.call, &event.what) {
            (Call::Create(_), What::Opened(_)) => Some(1),
            (Call::Unlink(_), What::Done) => Some(-1),
            (_, What::Failed) => None,
            _ => Some(0),
        };
        // What a call has done that was alone is known again.
        let learnt = match (open.call, &event.what) {
            (Call::Create(_), What::Opened(_) | What::Exists) => Some(true),
            (Call::Unlink(_), What::Done | What::NotFound) => Some(false),
            _ => None,
        };
        let settled = self.changed(open.call).map_or(Ok(()), |name| {
            let alone = open.alone == Some(name.version) && !name.lost;
            name.changing -= 1;
            name.version += 1;
            match net {
                _ if name.there.is_none() && alone && learnt.is_some() => {
                    (name.there, name.net) = (learnt, 0);
                }
                Some(net) => name.net += net,
                None => (name.there, name.unknown) = (None, true),
            }
            name.settle()
        });
        judged.and(settled).map_err(|why| format!("{}: {why}", Timeless(event)))
    }

    /// Judges what a call was told of names that did not change meanwhile, and of handles.
    fn told(&mut self, open: &Open, what: &What) -> Result<(), String> {
        let wrong = |name: u32, there: bool| {
            let is = if there { "was there" } else { "was not there" };
            Err(format!("{}, and name {name} {is} all the time", open.call))
        };
        match (open.call, what) {
            (Call::Create(name), What::Opened(handle)) => {
                if !self.made.insert(*handle) {
                    return Err(format!("handle {handle:x} was given out before"));
                }
                if self.surely(open, name) == Some(true) { wrong(name, true) } else { Ok(()) }
            }
            (Call::Create(name), What::Exists) if self.surely(open, name) == Some(false) => {
                wrong(name, false)
            }
            (Call::Open(name), What::Opened(handle)) => {
                // Its maker may have failed, and never been told of it.
                let unknown = self.names.get(&name).is_some_and(|name| name.unknown);
                if !unknown && !self.made.contains(handle) && self.surely(open, name).is_some() {
                    return Err(format!("nobody made handle {handle:x}"));
                }
                if self.surely(open, name) == Some(false) { wrong(name, false) } else { Ok(()) }
            }
            (Call::Unlink(name), What::Done) if self.surely(open, name) == Some(false) => wrong(name, false),
            (Call::Open(name) | Call::Unlink(name), What::NotFound)
                if self.surely(open, name) == Some(true) =>
            {
                wrong(name, true)
            }
            (Call::List, What::Names(names)) => {
                let listed = |name: u32| names.iter().filter(|listed| **listed == name).count();
                for &name in self.names.keys() {
                    match (self.surely(open, name), listed(name)) {
                        (_, 2..) => return Err(format!("name {name} is listed twice")),
                        (Some(true), 0) => return wrong(name, true),
                        (Some(false), 1..) => return wrong(name, false),
                        _ => {}
                    }
                }
                let stranger = names.iter().find(|name| !self.names.contains_key(name));
                stranger.map_or(Ok(()), |name| Err(format!("name {name} is a stranger")))
            }
            _ => Ok(()),
        }
    }
}

impl Names {
    /// A node has crashed and is there again: its clients' calls never end. Where nothing survives a server, nothing is known.
    pub(super) fn restarted(&mut self, node: u32, all_gone: bool) {
        let of_node = |request: &RequestId| request.client.node == node;
        let gone = self.open.iter().filter(|(request, _)| of_node(request));
        let changes: Vec<Call> = gone.map(|(_, open)| open.call).collect();
        self.open.retain(|request, _| !of_node(request));
        for call in changes {
            if let Some(name) = self.changed(call) {
                name.changing -= 1;
                name.version += 1;
                (name.there, name.lost, name.unknown) = (None, true, true);
            }
        }
        if all_gone {
            self.made.clear();
            for name in self.names.values_mut() {
                name.version += 1;
                (name.there, name.unknown) = (None, true);
            }
        }
    }
}

impl Name {
    /// Counts together what happened, once nothing is under way.
    fn settle(&mut self) -> Result<(), String> {
        let Some(there) = self.there.filter(|_| self.changing == 0) else { return Ok(()) };
        let now = i32::from(there) + std::mem::take(&mut self.net);
        self.there = Some(now == 1);
        if (0..=1).contains(&now) {
            return Ok(());
        }
        Err(format!(
            "it was {} there, and was made {now} times more than removed",
            if there { "" } else { "not" }
        ))
    }
}

impl Oracle<Event> for Names {
    fn name(&self) -> &'static str {
        "names"
    }

    fn promise(&self) -> &'static str {
        "there from making to removal; no handle comes twice"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        match event.what {
            What::Calls(call) => {
                self.called(event.request, call);
                Ok(())
            }
            _ => self.ended(event),
        }
    }
}
