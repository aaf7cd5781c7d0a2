//! Names: what is made is there until it is removed, and what was never made is not.
//!
//! A name's state is known for sure while no call that may change it is under way. Of those that overlap, those that
//! succeeded are counted: between two of them that made a file there is one that removed it. A file that is renamed has one of both
//! names at any time: its old name is removed as its new one is made. Whether that took another file's place nobody is told, so that among
//! others that overlap nothing is known of the new name until a call of it is alone. Which file has a name is known as long as the calls that
//! change it come one after the other, from the one that made the file on: then who opens the name opens that file.
//!
//! Directories are made and never removed: from then on nothing is refused for want of them.

use super::super::history::{Call, Event, What};
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
    /// It may be changed at any time, by a call of which nobody will say when: its client is gone, or has dropped it.
    lost: bool,
    /// A call that failed may have made it: then nobody was told of its handle.
    unknown: bool,
    /// The file that has it, where it is known which: calls have changed it one after the other since the one that made the file.
    handle: Option<u64>,
}

/// A call under way, and the versions of the names that it may tell of when it began; none while they were changing.
#[derive(Clone, Debug, Hash)]
struct Open {
    call: Call,
    versions: BTreeMap<u32, u64>,
    /// The versions of the names that it may change, of those that no other call may.
    alone: BTreeMap<u32, u64>,
    /// Directories that were there when it began.
    directories: BTreeSet<u32>,
    /// Since it began a server came back that knows nothing any more: what the call made may have gone with it.
    forgotten: bool,
}

/// The oracle of names.
#[derive(Clone, Debug, Hash)]
pub struct Names {
    names: BTreeMap<u32, Name>,
    open: BTreeMap<RequestId, Open>,
    /// All handles that were made.
    made: BTreeSet<u64>,
    /// Directories that are there.
    directories: BTreeSet<u32>,
    /// A file may have another name than it was made by.
    renamed: bool,
    /// Over how many directories names are spread; 0 where all are in the root.
    spread: u32,
    /// A call may be carried out after it has failed, since its server may live on: by byte streams.
    pub(super) late: bool,
}

impl Names {
    /// So many names, of which none is there, spread over so many directories; 0 for the root.
    pub fn new(names: u32, directories: u32) -> Names {
        let none = Name { there: Some(false), ..Name::default() };
        Names {
            names: (0..names).map(|name| (name, none.clone())).collect(),
            open: BTreeMap::new(),
            made: BTreeSet::new(),
            directories: BTreeSet::new(),
            renamed: false,
            spread: directories,
            late: false,
        }
    }

    /// The names of which it is known whether they are there, and the file that has one, where that is known, too.
    pub(super) fn known(&self) -> impl Iterator<Item = (u32, bool, Option<u64>)> {
        let stable = self.names.iter().filter(|(_, name)| name.changing == 0);
        stable.filter_map(|(number, name)| Some((*number, name.there?, name.handle)))
    }

    fn called(&mut self, request: RequestId, call: Call) {
        // Of which names it may be told.
        let tells_of = |number| match call {
            Call::List => true,
            Call::Open(name) | Call::Stat(name) | Call::Say(name) => name == number,
            _ => changed(call).any(|name| name == number),
        };
        if call.is_of_bytes()
            || matches!(call, Call::Close(_) | Call::Sync(_) | Call::Meet(..) | Call::CutBy(..))
        {
            return;
        }
        let stable = self.names.iter().filter(|(_, name)| name.changing == 0 && name.there.is_some());
        let stable = stable.map(|(number, name)| (*number, name.version));
        let mut versions: BTreeMap<u32, u64> = stable.filter(|(number, _)| tells_of(*number)).collect();
        self.renamed |= matches!(call, Call::Rename(..));
        let mut alone = BTreeMap::new();
        for number in changed(call) {
            let Some(name) = self.names.get_mut(&number) else { continue };
            name.changing += 1;
            name.version += 1;
            if name.changing == 1 {
                alone.insert(number, name.version);
            }
            // Its own begin is no change by another one.
            versions.entry(number).and_modify(|version| *version += 1);
        }
        let directories = self.directories.clone();
        self.open.insert(request, Open { call, versions, alone, directories, forgotten: false });
    }

    /// The directory of a name; none if it is in the root.
    fn directory(&self, name: u32) -> Option<u32> {
        (self.spread > 0).then(|| name % self.spread)
    }

    /// Whether a name was there all the time since a call began; `None` if it may have changed meanwhile.
    fn surely(&self, open: &Open, name: u32) -> Option<bool> {
        let known = self.names.get(&name)?;
        (open.versions.get(&name) == Some(&known.version)).then_some(known.there)?
    }

    /// Whether no other call may have changed a name since a call began that may.
    fn is_alone(&self, open: &Open, name: u32) -> bool {
        let known = self.names.get(&name).filter(|known| !known.lost);
        known.is_some_and(|known| open.alone.get(&name) == Some(&known.version))
    }

    /// The file that a call gives another name, if it is known which.
    fn moved(&self, open: &Open) -> Option<u64> {
        let Call::Rename(from, _) = open.call else { return None };
        self.names.get(&from).filter(|_| self.is_alone(open, from))?.handle
    }

    fn ended(&mut self, event: &Event) -> Result<(), String> {
        let Some(open) = self.open.remove(&event.request) else { return Ok(()) };
        if event.what == What::Dropped || (self.late && matches!(event.what, What::Failed(_))) {
            self.stays_open(open.call);
            return Ok(());
        }
        let judged = self.told(&open, &event.what);
        if let (Call::MakeDirectory(directory), What::Done | What::Exists) = (open.call, &event.what)
            && !open.forgotten
        {
            self.directories.insert(directory);
        }
        let moved = self.moved(&open);
        let mut settled = Ok(());
        for number in changed(open.call) {
            let alone = self.is_alone(&open, number);
            let Some(name) = self.names.get_mut(&number) else { continue };
            name.changing -= 1;
            name.version += 1;
            let did = done(open.call, number, &event.what);
            name.handle = match (&did, &event.what) {
                (Done::Adds(0, _), _) if alone => name.handle,
                (Done::Adds(1, _), What::Opened(handle)) if alone => Some(*handle),
                (Done::Stands(true), _) if alone => moved,
                _ => None,
            };
            match did {
                // What a call has done that was alone is known again.
                Done::Stands(there) if alone => (name.there, name.net) = (Some(there), 0),
                Done::Stands(_) => name.there = None,
                Done::Adds(_, Some(there)) if name.there.is_none() && alone => {
                    (name.there, name.net) = (Some(there), 0);
                }
                Done::Adds(net, _) => name.net += net,
                Done::Unknown => (name.there, name.unknown) = (None, true),
            }
            settled = settled.and(name.settle());
        }
        judged.and(settled).map_err(|why| format!("{event}: {why}"))
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
            (Call::Create(name), What::NotFound) => match self.directory(name) {
                Some(directory) if !open.directories.contains(&directory) => Ok(()),
                _ => Err(format!("{}, and its directory was there all the time", open.call)),
            },
            (Call::Rename(from, _), What::Done) if self.surely(open, from) == Some(false) => {
                wrong(from, false)
            }
            // For want of a directory, it may be, of the new name.
            (Call::Rename(from, to), What::NotFound)
                if self.surely(open, from) == Some(true)
                    && self.directory(to).is_none_or(|directory| open.directories.contains(&directory)) =>
            {
                wrong(from, true)
            }
            (Call::Say(name), What::Done) if self.surely(open, name) == Some(false) => wrong(name, false),
            (Call::Open(name), What::Opened(handle))
            | (Call::Stat(name), What::Told { file: handle, .. }) => {
                // Its maker may not have been told of it: it failed, or is under way; by this name, or by one that was renamed to this.
                let maybe = |(number, of): (&u32, &Name)| of.unknown && (self.renamed || *number == name);
                let making = |open: &Open| self.renamed && matches!(open.call, Call::Create(_));
                let unknown = self.names.iter().any(maybe) || self.open.values().any(making);
                if !unknown && !self.made.contains(handle) && self.surely(open, name).is_some() {
                    return Err(format!("nobody made handle {handle:x}"));
                }
                let has = self.names.get(&name).and_then(|known| known.handle);
                match (self.surely(open, name), has) {
                    (Some(false), _) => wrong(name, false),
                    (Some(true), Some(has)) if has != *handle => {
                        Err(format!("{}, and name {name} was that of {has:x} all the time", open.call))
                    }
                    _ => Ok(()),
                }
            }
            (Call::Unlink(name), What::Done) if self.surely(open, name) == Some(false) => wrong(name, false),
            (Call::Open(name) | Call::Stat(name) | Call::Say(name) | Call::Unlink(name), What::NotFound)
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
    /// Nobody will say when a call took effect, or that it never does.
    fn stays_open(&mut self, call: Call) {
        for number in changed(call) {
            let Some(name) = self.names.get_mut(&number) else { continue };
            name.changing -= 1;
            name.version += 1;
            (name.there, name.lost, name.unknown, name.handle) = (None, true, true, None);
        }
    }

    /// A node has crashed and is there again: its clients' calls never end. Where nothing survives a server, nothing is known.
    pub(super) fn restarted(&mut self, node: u32, all_gone: bool) {
        let of_node = |request: &RequestId| request.client.node == node;
        let gone = self.open.iter().filter(|(request, _)| of_node(request));
        let changes: Vec<Call> = gone.map(|(_, open)| open.call).collect();
        self.open.retain(|request, _| !of_node(request));
        changes.into_iter().for_each(|call| self.stays_open(call));
        if all_gone {
            self.made.clear();
            self.directories.clear();
            for open in self.open.values_mut() {
                open.directories.clear();
                open.forgotten = true;
            }
            for name in self.names.values_mut() {
                name.version += 1;
                (name.there, name.unknown, name.handle) = (None, true, None);
            }
        }
    }
}

/// The names that a call may change.
pub(super) fn changed(call: Call) -> impl Iterator<Item = u32> {
    let names = match call {
        Call::Create(name) | Call::Unlink(name) => [Some(name), None],
        Call::Rename(from, to) => [Some(from), Some(to)],
        _ => [None, None],
    };
    names.into_iter().flatten()
}

/// What a call has done to a name.
enum Done {
    /// It made it so many times more than it removed it; and whether the name is there after that, if nobody else changes it.
    Adds(i32, Option<bool>),
    /// Whatever there was, it is there now, or not.
    Stands(bool),
    /// Nobody knows.
    Unknown,
}

fn done(call: Call, name: u32, what: &What) -> Done {
    match (call, what) {
        (_, What::Failed(_) | What::Stale) => Done::Unknown,
        (Call::Create(_), What::Opened(_)) => Done::Adds(1, Some(true)),
        (Call::Create(_), What::Exists) => Done::Adds(0, Some(true)),
        (Call::Unlink(_), What::Done) => Done::Adds(-1, Some(false)),
        (Call::Unlink(_), What::NotFound) => Done::Adds(0, Some(false)),
        (Call::Rename(from, _), What::Done) if name == from => Done::Adds(-1, Some(false)),
        (Call::Rename(..), What::Done) => Done::Stands(true),
        _ => Done::Adds(0, None),
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
        "one file from making to removal; no handle comes twice"
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
