//! `[workload]`: which system a scenario is about, and that system's own fields.
//!
//! A scenario does not know the systems: it is read with a list of their [`Kind`]s, which parse and check what is theirs.

use crate::fields::Rule;
use crate::system::System;
use serde::ser::{Error as _, SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use toml::Spanned;
use toml::de::DeTable;
use weft_protocols::transport::MeshConfig;
use weft_verbs::Nanos;

/// `[workload]`: a system's kind, and its own fields.
#[derive(Clone)]
pub struct Workload {
    kind: Kind,
    fields: Arc<dyn Fields>,
}

/// A kind of workload: what a scenario has to know of a system.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Its name, as `kind` in `[workload]`.
    pub name: &'static str,
    /// What to write there at least, beside `kind`.
    pub example: &'static str,
    restarts: bool,
    /// Whether nodes use their machine's disk.
    pub disks: bool,
    /// Whether users may drop their calls.
    pub quits: bool,
    /// For how long a peer may be out of reach until users are told so.
    pub patience: Nanos,
    survives: fn(&dyn Any) -> bool,
    parse: fn(Spanned<DeTable<'_>>) -> Parsed,
    check: fn(&dyn Any, u32) -> Rule,
    variant: fn(&dyn Any) -> Option<(&'static str, String)>,
    mesh: fn(&dyn Any, &mut MeshConfig),
    memory: fn(&dyn Any, u32) -> u64,
    held_up: fn(&dyn Any) -> Nanos,
    lacks_for_restarts: fn(&dyn Any) -> Option<&'static str>,
}

type Parsed = Result<Arc<dyn Fields>, toml::de::Error>;

/// A system's own fields, whatever their type.
trait Fields: Any + fmt::Debug + Send + Sync {
    fn table(&self) -> Result<toml::Table, toml::ser::Error>;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<T: Serialize + PartialEq + fmt::Debug + Send + Sync + 'static> Fields for T {
    fn table(&self) -> Result<toml::Table, toml::ser::Error> {
        toml::Table::try_from(self)
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>().is_some_and(|other| other == self)
    }
}

impl Kind {
    /// The kind of a system.
    pub const fn of<S: System>() -> Kind {
        Kind {
            name: S::KIND,
            example: S::EXAMPLE,
            restarts: S::RESTARTS,
            disks: S::DISKS,
            quits: S::QUITS,
            patience: S::PATIENCE,
            survives: |fields| fields.downcast_ref::<S::Workload>().is_some_and(S::survives),
            parse: |table| {
                let fields = S::Workload::deserialize(toml::Deserializer::from(table))?;
                Ok(Arc::new(fields))
            },
            check: |fields, nodes| match fields.downcast_ref::<S::Workload>() {
                Some(fields) => S::check(fields, nodes),
                None => Ok(()),
            },
            variant: |fields| fields.downcast_ref::<S::Workload>().and_then(S::variant),
            mesh: |fields, config| {
                if let Some(fields) = fields.downcast_ref::<S::Workload>() {
                    S::mesh(fields, config);
                }
            },
            memory: |fields, nodes| {
                fields.downcast_ref::<S::Workload>().map_or(0, |fields| S::memory(fields, nodes))
            },
            held_up: |fields| fields.downcast_ref::<S::Workload>().map_or(Nanos::ZERO, S::held_up),
            lacks_for_restarts: |fields| fields.downcast_ref::<S::Workload>().and_then(S::lacks_for_restarts),
        }
    }

    /// Reads a system's own fields from a table without `kind`.
    pub(super) fn read(self, table: Spanned<DeTable<'_>>) -> Result<Workload, toml::de::Error> {
        Ok(Workload { kind: self, fields: (self.parse)(table)? })
    }
}

impl Workload {
    /// The workload of a system with these fields.
    pub fn of<S: System>(fields: S::Workload) -> Workload {
        Workload { kind: Kind::of::<S>(), fields: Arc::new(fields) }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Which of its kinds it is about, if there are several: a name for what varies, and its value.
    pub fn variant(&self) -> Option<(&'static str, String)> {
        (self.kind.variant)(&*self.fields)
    }

    /// Its fields, if it is of this system.
    pub fn get<S: System>(&self) -> Option<&S::Workload> {
        let fields: &dyn Any = &*self.fields;
        fields.downcast_ref()
    }

    /// The same with other fields.
    pub fn change<S: System>(&mut self, change: impl FnOnce(&mut S::Workload)) {
        if let Some(mut fields) = self.get::<S>().cloned() {
            change(&mut fields);
            self.fields = Arc::new(fields);
        }
    }

    /// Whether the services survive a node that crashes, where nodes agree on who is alive; see [`System::survives`].
    pub(super) fn survives(&self) -> bool {
        (self.kind.survives)(&*self.fields)
    }

    pub(crate) fn check(&self, nodes: u32) -> Rule {
        (self.kind.check)(&*self.fields, nodes)
    }

    /// What the system needs of the connections; see [`System::mesh`].
    pub(super) fn mesh(&self, config: &mut MeshConfig) {
        (self.kind.mesh)(&*self.fields, config);
    }

    /// The bytes that the services of so many nodes register; see [`System::memory`].
    pub(super) fn memory(&self, nodes: u32) -> u64 {
        (self.kind.memory)(&*self.fields, nodes)
    }

    /// Whether nodes may restart without members, and if not, what it lacks for that, where it lacks something.
    pub(super) fn restarts(&self) -> Result<(), Option<&'static str>> {
        match (self.kind.lacks_for_restarts)(&*self.fields) {
            None if self.kind.restarts => Ok(()),
            lacks => Err(lacks),
        }
    }

    /// For how long a request may wait for another node; see [`System::held_up`].
    pub(super) fn held_up(&self) -> Nanos {
        (self.kind.held_up)(&*self.fields)
    }
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workload").field("kind", &self.kind.name).field("fields", &self.fields).finish()
    }
}

impl PartialEq for Workload {
    fn eq(&self, other: &Workload) -> bool {
        self.kind.name == other.kind.name && self.fields.equals(&*other.fields)
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let fields = self.fields.table().map_err(S::Error::custom)?;
        let mut map = to.serialize_map(Some(fields.len() + 1))?;
        map.serialize_entry("kind", self.kind.name)?;
        for (name, value) in &fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
