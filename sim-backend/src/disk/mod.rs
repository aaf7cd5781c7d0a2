//! A machine's disk, as a state machine without I/O: calls and the passing of time go in, ends come out.
//!
//! # What a call costs
//!
//! The [profile](crate::profile::Disk) has the figures. A disk works at `depth` calls at a time; others wait in the order in
//! which they came. Between its cache and its medium runs one stream of `bytes_per_second`.
//!
//! | call | ends |
//! |---|---|
//! | write | once its bytes are in the cache (`cache_ns_per_kib`), which has room when no more than `cache_bytes` wait for the medium |
//! | read | as fast as the cache, if all objects together fit into it; otherwise `access_ns` and the stream's time later |
//! | sync | `sync_ns` after the medium has all that was written before |
//! | create, remove, resize, size, list | at once: the names are in memory |
//!
//! What the caller's processor does for a transfer (`read_cpu_ns_per_kib`, `write_cpu_ns_per_kib`) it has done when the call
//! begins. A call takes effect when it ends.
//!
//! A write that finds no room for all of its bytes writes those that fit. After a sync has failed, all later ones of its object do.
//!
//! What was written is durable once it was synced, and by nothing else: of all that was not, calls under way included, a
//! [power cut](crash) leaves each sector of 512 bytes as any write since has made it. What was created, removed or resized stays so.
//!
//! # Not modelled
//!
//! - Errors that strike one sector, and a sector that is torn in itself.
//! - Where bytes lie: a seek costs `access_ns` wherever it goes, and what is read once is not in the cache for that.

mod crash;
mod object;
#[cfg(test)]
mod tests;

pub(crate) use crash::PowerCut;
use crash::{Undecided, Unsynced};
pub(crate) use object::Object;

use crate::profile;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::result::Result;
use weft_verbs::{DiskDone, DiskError, Nanos, ObjectName};

/// What a transfer's bytes are for the disk, which does not know regions: `R` names one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Buffer<R> {
    /// A range of a region, by its first byte and its length.
    Region { region: R, at: usize, len: usize },
    /// The bytes themselves; where they are read, room for them.
    Owned(Vec<u8>),
    /// Nobody's: a reader that was dropped, and whose region may be gone.
    Nowhere { len: usize },
}

impl<R> Buffer<R> {
    fn len(&self) -> usize {
        match self {
            Buffer::Region { len, .. } | Buffer::Nowhere { len } => *len,
            Buffer::Owned(bytes) => bytes.len(),
        }
    }
}

/// A call of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call<R> {
    Create(ObjectName),
    Remove(ObjectName),
    Size(ObjectName),
    List,
    Read { object: ObjectName, at: u64, into: Buffer<R> },
    Write { object: ObjectName, at: u64, from: Buffer<R> },
    Sync(ObjectName),
    Resize { object: ObjectName, size: u64 },
}

impl<R> Call<R> {
    /// How long the caller's processor is busy with its bytes.
    pub fn work(&self, costs: &profile::Disk) -> Nanos {
        let (bytes, each) = match self {
            Call::Read { into, .. } => (into.len(), costs.read_cpu_ns_per_kib),
            Call::Write { from, .. } => (from.len(), costs.write_cpu_ns_per_kib),
            _ => (0, 0),
        };
        Nanos((bytes as u64).saturating_mul(each).div_ceil(1024))
    }
}

impl<R> fmt::Display for Call<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Create(object) => write!(f, "create {object}"),
            Call::Remove(object) => write!(f, "remove {object}"),
            Call::Size(object) => write!(f, "size of {object}"),
            Call::List => f.write_str("list"),
            Call::Read { object, at, into } => write!(f, "read {object} from {at} len={}", into.len()),
            Call::Write { object, at, from } => write!(f, "write {object} from {at} len={}", from.len()),
            Call::Sync(object) => write!(f, "sync {object}"),
            Call::Resize { object, size } => write!(f, "resize {object} to {size}"),
        }
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct End {
    pub outcome: Result<DiskDone, DiskError>,
    /// The bytes of a transfer of owned memory.
    pub bytes: Option<Vec<u8>>,
}

/// Registered memory as a disk reaches it; false where there is no such memory any more.
pub(crate) trait Memory<R> {
    fn read(&mut self, region: &R, at: usize, out: &mut [u8]) -> bool;
    fn write(&mut self, region: &R, at: usize, bytes: &[u8]) -> bool;
}

/// One disk. `R` names a region.
#[derive(Clone, Debug)]
pub(crate) struct Disk<R> {
    objects: BTreeMap<ObjectName, Object>,
    /// Bytes that all objects take.
    taken: u64,
    /// How many calls there were.
    calls: u32,
    /// Calls under way, and how many writes had ended when each began.
    under_way: BTreeMap<u32, (Call<R>, u64)>,
    ended: BTreeMap<u32, End>,
    /// When each place at the disk is free.
    places: Vec<Nanos>,
    /// When the medium has all that was written so far, and has delivered all that was read.
    medium: Nanos,
    /// Writes that have ended.
    written: u64,
    /// What of them a power cut may undo, by object.
    unsynced: BTreeMap<ObjectName, Unsynced>,
    /// What one has left open.
    undecided: Undecided,
    /// How many versions of sectors were ever undecided.
    versions: u32,
    /// Every transfer, sync, resize and removal fails.
    pub broken: bool,
    /// There is no more room than this.
    limit: Option<u64>,
    /// Objects of which a sync has failed: nobody knows what is durable of them, and no later sync says so.
    doubtful: BTreeSet<ObjectName>,
}

impl<R> Default for Disk<R> {
    fn default() -> Disk<R> {
        Disk {
            objects: BTreeMap::new(),
            taken: 0,
            calls: 0,
            under_way: BTreeMap::new(),
            ended: BTreeMap::new(),
            places: Vec::new(),
            medium: Nanos::ZERO,
            written: 0,
            unsynced: BTreeMap::new(),
            undecided: Undecided::default(),
            versions: 0,
            broken: false,
            limit: None,
            doubtful: BTreeSet::new(),
        }
    }
}

/// How long so many bytes take at so many bytes a second.
fn stream(bytes: u64, bytes_per_second: u64) -> Nanos {
    Nanos((u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_second.max(1))) as u64)
}

impl<R: Clone> Disk<R> {
    /// A call begins; says its number, and when it ends.
    pub fn begin(&mut self, now: Nanos, call: Call<R>, costs: &profile::Disk) -> (u32, Nanos) {
        let end = self.schedule(now, &call, costs);
        (self.begin_untimed(call), end)
    }

    /// The same where there is no time.
    pub fn begin_untimed(&mut self, call: Call<R>) -> u32 {
        self.calls += 1;
        self.under_way.insert(self.calls, (call, self.written));
        self.calls
    }

    /// Whether it has room for more than what is taken now, and whether it works at all.
    pub fn suffer(&mut self, full: bool, broken: bool) {
        self.limit = full.then(|| self.limit.unwrap_or(self.taken));
        self.broken = broken;
    }

    /// The calls that have not ended.
    pub fn unended(&self) -> impl Iterator<Item = u32> {
        self.under_way.keys().copied()
    }

    /// Whether a call under way is a transfer or a sync: what fails where a disk does.
    pub fn moves_bytes(&self, id: u32) -> bool {
        let call = self.under_way.get(&id).map(|(call, _)| call);
        matches!(call, Some(Call::Read { .. } | Call::Write { .. } | Call::Sync(_)))
    }

    /// Whether a call under way writes what takes room that is not taken yet.
    pub fn takes_room(&self, id: u32) -> bool {
        let Some((Call::Write { object, at, from }, _)) = self.under_way.get(&id) else { return false };
        let nothing = Object::default();
        self.objects.get(object).unwrap_or(&nothing).fitting(*at, from.len(), 0) < from.len()
    }

    /// When a call ends that begins now.
    fn schedule(&mut self, now: Nanos, call: &Call<R>, costs: &profile::Disk) -> Nanos {
        self.places.resize(costs.depth as usize, Nanos::ZERO);
        let Some(place) = (0..self.places.len()).min_by_key(|place| self.places[*place]) else { return now };
        let begin = now.max(self.places[place]);
        let cached = |len: usize| Nanos((len as u64).saturating_mul(costs.cache_ns_per_kib).div_ceil(1024));
        let end = match call {
            Call::Create(_) | Call::Remove(_) | Call::Resize { .. } | Call::Size(_) | Call::List => {
                return now;
            }
            Call::Write { from, .. } => {
                let len = from.len();
                self.medium = self.medium.max(begin) + stream(len as u64, costs.bytes_per_second);
                let room = stream(costs.cache_bytes, costs.bytes_per_second);
                (begin + cached(len)).max(Nanos(self.medium.0.saturating_sub(room.0)))
            }
            Call::Read { into, .. } if self.taken <= costs.cache_bytes => begin + cached(into.len()),
            Call::Read { into, .. } => {
                let from = self.medium.max(begin + Nanos(costs.access_ns));
                self.medium = from + stream(into.len() as u64, costs.bytes_per_second);
                self.medium
            }
            Call::Sync(_) => self.medium.max(begin) + Nanos(costs.sync_ns),
        };
        self.places[place] = end;
        end
    }

    /// A call's time has come: it takes effect. False if a crash has forgotten it.
    pub fn end(&mut self, id: u32, costs: &profile::Disk, memory: &mut impl Memory<R>) -> bool {
        let Some((call, written)) = self.under_way.remove(&id) else { return false };
        let end = match call {
            Call::Read { object, at, into } => self.read(object, at, into, memory),
            Call::Write { object, at, from } => self.write(object, at, from, costs, memory),
            other => End { outcome: self.name(other, written), bytes: None },
        };
        self.ended.insert(id, end);
        true
    }

    /// How a call ended, if it has and nobody has asked yet.
    pub fn outcome(&self, id: u32) -> Option<&Result<DiskDone, DiskError>> {
        self.ended.get(&id).map(|end| &end.outcome)
    }

    /// How a call ended, if it has.
    pub fn take(&mut self, id: u32) -> Option<End> {
        self.ended.remove(&id)
    }

    /// Nobody waits for a call any more. Its memory may go: what is to be written is taken out of it now.
    pub fn abandon(&mut self, id: u32, memory: &mut impl Memory<R>) {
        self.ended.remove(&id);
        match self.under_way.get_mut(&id).map(|(call, ..)| call) {
            Some(Call::Write { from: from @ Buffer::Region { .. }, .. }) => {
                let Buffer::Region { region, at, len } = &*from else { return };
                let mut bytes = vec![0; *len];
                memory.read(region, *at, &mut bytes);
                *from = Buffer::Owned(bytes);
            }
            Some(Call::Read { into, .. }) => *into = Buffer::Nowhere { len: into.len() },
            _ => {}
        }
    }

    /// Calls that move no bytes. So many writes had ended when this one began.
    fn name(&mut self, call: Call<R>, written: u64) -> Result<DiskDone, DiskError> {
        let there = |object| self.objects.get(&object).ok_or(DiskError::NoObject(object));
        match call {
            Call::Create(object) if self.objects.contains_key(&object) => Err(DiskError::Exists(object)),
            Call::Create(object) => {
                self.objects.insert(object, Object::default());
                Ok(DiskDone::Done)
            }
            Call::Remove(_) if self.broken => Err(DiskError::Io),
            Call::Remove(object) => {
                self.taken -= there(object)?.taken();
                self.objects.remove(&object);
                self.unsynced.remove(&object);
                self.doubtful.remove(&object);
                Ok(DiskDone::Done)
            }
            Call::Resize { object, size } => self.resize(object, size),
            Call::Size(object) => there(object).map(|object| DiskDone::Size(object.size())),
            Call::Sync(object) => {
                there(object)?;
                if self.broken || self.doubtful.contains(&object) {
                    self.doubtful.insert(object);
                    return Err(DiskError::Io);
                }
                if self.unsynced.get_mut(&object).is_some_and(|unsynced| unsynced.sync(written)) {
                    self.unsynced.remove(&object);
                }
                Ok(DiskDone::Done)
            }
            Call::List => Ok(DiskDone::Objects(self.objects.keys().copied().collect())),
            Call::Read { .. } | Call::Write { .. } => Ok(DiskDone::Done),
        }
    }

    fn resize(&mut self, object: ObjectName, size: u64) -> Result<DiskDone, DiskError> {
        position(size, 0)?;
        if self.broken {
            return Err(DiskError::Io);
        }
        let there = self.objects.get_mut(&object).ok_or(DiskError::NoObject(object))?;
        self.taken -= there.taken();
        there.end_at(size);
        self.taken += there.taken();
        if self.unsynced.get_mut(&object).is_some_and(|unsynced| unsynced.end_at(size)) {
            self.unsynced.remove(&object);
        }
        Ok(DiskDone::Done)
    }

    fn read(&mut self, object: ObjectName, at: u64, into: Buffer<R>, memory: &mut impl Memory<R>) -> End {
        let len = into.len();
        let found = match self.objects.get(&object) {
            _ if self.broken => Err(DiskError::Io),
            None => Err(DiskError::NoObject(object)),
            Some(found) => position(at, len).map(|()| found),
        };
        let (outcome, bytes) = match (found, into) {
            (Ok(found), Buffer::Owned(mut bytes)) => (Ok(found.read(at, &mut bytes)), Some(bytes)),
            (Ok(found), Buffer::Region { region, at: to, len }) => {
                let mut bytes = vec![0; found.readable(at, len)];
                found.read(at, &mut bytes);
                memory.write(&region, to, &bytes);
                (Ok(bytes.len()), None)
            }
            (Ok(found), Buffer::Nowhere { len }) => (Ok(found.readable(at, len)), None),
            (Err(why), Buffer::Owned(bytes)) => (Err(why), Some(bytes)),
            (Err(why), _) => (Err(why), None),
        };
        End { outcome: outcome.map(DiskDone::Moved), bytes }
    }

    fn write(
        &mut self,
        object: ObjectName,
        at: u64,
        from: Buffer<R>,
        costs: &profile::Disk,
        memory: &mut impl Memory<R>,
    ) -> End {
        let (bytes, owned) = match from {
            Buffer::Owned(bytes) => (bytes, true),
            Buffer::Nowhere { len } => (vec![0; len], false),
            Buffer::Region { region, at, len } => {
                let mut bytes = vec![0; len];
                memory.read(&region, at, &mut bytes);
                (bytes, false)
            }
        };
        let outcome = self.put(object, at, &bytes, costs);
        End { outcome, bytes: owned.then_some(bytes) }
    }

    fn put(
        &mut self,
        object: ObjectName,
        at: u64,
        bytes: &[u8],
        costs: &profile::Disk,
    ) -> Result<DiskDone, DiskError> {
        position(at, bytes.len())?;
        if self.broken {
            return Err(DiskError::Io);
        }
        let room = self.limit.unwrap_or(u64::MAX).min(costs.capacity_bytes).saturating_sub(self.taken);
        let nothing = Object::default();
        let there = self.objects.get(&object);
        let fits = there.unwrap_or(&nothing).fitting(at, bytes.len(), room);
        if fits > 0 || bytes.is_empty() {
            self.taken += there.unwrap_or(&nothing).would_take(at, fits);
            self.unsynced.entry(object).or_default().note(self.written, there, at, fits);
            self.written += 1;
            self.objects.entry(object).or_default().write(at, &bytes[..fits]);
        }
        if fits < bytes.len() { Err(DiskError::Full) } else { Ok(DiskDone::Moved(fits)) }
    }
}

impl<R: Hash> Disk<R> {
    /// All that what comes depends on, where there is no time.
    pub fn digest(&self, to: &mut impl Hasher) {
        (self.calls, self.written, self.versions, self.broken, &self.under_way, &self.ended).hash(to);
        for (name, object) in &self.objects {
            (name, object.size()).hash(to);
            object.chunks().for_each(|chunk| chunk.hash(to));
        }
        (&self.unsynced, &self.undecided, self.limit, &self.doubtful).hash(to);
    }
}

fn position(at: u64, len: usize) -> Result<(), DiskError> {
    let len = len as u64;
    match at.checked_add(len) {
        Some(end) if end <= 1 << 63 => Ok(()),
        _ => Err(DiskError::Position { at, len }),
    }
}
