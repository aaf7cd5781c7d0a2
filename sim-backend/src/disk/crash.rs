//! What a power cut does to a disk: of what was written and not synced, any sector may be on the medium and any other not.
//!
//! A disk with a cache writes its sectors in any order and whenever it likes, so time makes nothing durable: a sync does. A sector is
//! written whole. It has had **versions** since it was last durable, one for each write that changed it, and a power cut leaves
//! any one of them, whatever it leaves of the others. What an object's names say (that it is there, where it ends) is as free: an end
//! may be there without the bytes before it, which are zero then. Calls under way may have reached the medium, in parts.
//!
//! After the cut all that is *undecided*, until somebody chooses: a [draw](PowerCut) for each sector, or an explorer, which chooses sectors
//! alone: an object ends where it was synced to end then, or behind its last sector that is there.

use super::{Buffer, Call, Disk, Memory, Object};
use crate::choice::Rng;
use crate::profile;
use std::collections::BTreeMap;
use std::mem;
use weft_verbs::ObjectName;

/// Bytes that a disk keeps or loses together.
pub(super) const SECTOR: u64 = 512;

/// Older versions of a sector that are kept, at most. Of more, those between the durable one and the latest are forgotten: a crash that
/// leaves one of them is not drawn.
const VERSIONS: usize = 8;

/// What an object, or a part of it, was before a write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Before<T> {
    /// The write that changed it, by how many had ended before.
    until: u64,
    was: T,
}

/// Older versions, the durable one first. The latest is the object's own.
type Older<T> = Vec<Before<T>>;

fn note<T>(older: &mut Older<T>, until: u64, was: T) {
    if older.len() == VERSIONS {
        older.remove(1);
    }
    older.push(Before { until, was });
}

/// What was changed by one of the first so many writes is durable now.
fn covered<T>(older: &mut Older<T>, writes: u64) {
    older.retain(|before| before.until >= writes);
}

/// What was written to one object and is not durable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Unsynced {
    /// Where it ended; nowhere while it was not there.
    ends: Older<Option<u64>>,
    /// Its sectors' bytes, as many as there were.
    sectors: BTreeMap<u64, Older<Box<[u8]>>>,
}

impl Unsynced {
    /// A write is about to be done, the nth, to what is there.
    pub fn note(&mut self, nth: u64, there: Option<&Object>, at: u64, len: usize) {
        let (size, end) = (there.map(Object::size), at + len as u64);
        if size.is_none_or(|size| len > 0 && size < end) {
            note(&mut self.ends, nth, size);
        }
        let touched = if len > 0 { at / SECTOR..end.div_ceil(SECTOR) } else { 0..0 };
        for number in touched {
            let was = there.map_or(Box::default(), |object| object.sector(number));
            note(self.sectors.entry(number).or_default(), nth, was);
        }
    }

    /// The object ends here, durably: nothing is open any more behind that. Whether nothing is open at all.
    pub fn end_at(&mut self, size: u64) -> bool {
        self.ends.clear();
        self.sectors.retain(|number, older| {
            let len = size.saturating_sub(number * SECTOR) as usize;
            older.iter_mut().filter(|before| before.was.len() > len).for_each(|before| {
                before.was = before.was[..len].into();
            });
            len > 0
        });
        self.sectors.is_empty()
    }

    /// The first so many writes are durable; whether that is all.
    pub fn sync(&mut self, writes: u64) -> bool {
        covered(&mut self.ends, writes);
        self.sectors.retain(|_, older| {
            covered(older, writes);
            !older.is_empty()
        });
        self.ends.is_empty() && self.sectors.is_empty()
    }
}

/// A version of a sector that a power cut may have left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Version {
    /// Its number, of all that were ever undecided on this disk.
    id: u32,
    bytes: Box<[u8]>,
}

/// A sector of which nobody knows what it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sector {
    object: ObjectName,
    number: u64,
    /// The durable version first, the latest last.
    versions: Vec<Version>,
    /// Which of them is there.
    chosen: usize,
}

impl Sector {
    /// The versions that may be there instead of the durable one, as long as none was chosen.
    pub fn open(&self) -> impl Iterator<Item = u32> + '_ {
        let left = if self.chosen == 0 { &self.versions[1..] } else { &[] };
        left.iter().map(|version| version.id)
    }

    /// The number of its first version: by that it is known.
    pub fn id(&self) -> u32 {
        self.versions[0].id
    }
}

/// What a power cut has left open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Undecided {
    pub sectors: Vec<Sector>,
    /// Where objects may end, the durable end first, and which it is.
    ends: Vec<(ObjectName, Vec<Option<u64>>, usize)>,
    /// Objects whose removal was under way, and whether they are gone.
    removals: Vec<(ObjectName, bool)>,
    /// Objects whose resizing was under way, to which size, and whether they have it.
    resizes: Vec<(ObjectName, u64, bool)>,
}

/// Draws what a power cut leaves: everything alike, or nearly all as it was, or nearly all as it was written.
#[derive(Debug)]
pub(crate) struct PowerCut {
    draw: Rng,
    /// Of four choices, so many go one way.
    leaning: u64,
    latest: bool,
}

impl PowerCut {
    /// What a seed draws.
    pub fn new(seed: u64) -> PowerCut {
        let mut draw = Rng::from_seed(seed);
        let (leaning, latest) = (draw.below(4), draw.below(2) == 1);
        PowerCut { draw, leaning, latest }
    }

    /// One of so many versions, the oldest first.
    fn of(&mut self, versions: usize) -> usize {
        match (self.draw.below(4) < self.leaning, self.latest) {
            (true, true) => versions - 1,
            (true, false) => 0,
            (false, _) => self.draw.below(versions as u64) as usize,
        }
    }
}

impl<R: Clone> Disk<R> {
    /// Calls under way reach the disk's cache: what a power cut finds there it keeps or loses.
    fn land(&mut self, costs: &profile::Disk, memory: &mut impl Memory<R>) {
        for (call, ..) in mem::take(&mut self.under_way).into_values() {
            match call {
                // One that finds no room leaves nothing.
                Call::Write { object, at, from } => {
                    let bytes = match from {
                        Buffer::Owned(bytes) => bytes,
                        Buffer::Nowhere { len } => vec![0; len],
                        Buffer::Region { region, at, len } => {
                            let mut bytes = vec![0; len];
                            memory.read(&region, at, &mut bytes);
                            bytes
                        }
                    };
                    drop(self.put(object, at, &bytes, costs));
                }
                Call::Create(object) if !self.objects.contains_key(&object) => {
                    self.unsynced.entry(object).or_default().note(self.written, None, 0, 0);
                    self.objects.insert(object, Object::default());
                }
                Call::Remove(object) if self.objects.contains_key(&object) => {
                    self.undecided.removals.push((object, false));
                }
                Call::Resize { object, size } if self.objects.contains_key(&object) => {
                    self.undecided.resizes.push((object, size, false));
                }
                _ => {}
            }
        }
    }

    /// The power is cut: what is not durable is undecided. Calls under way are a part of that where it is said what a call is to reach;
    /// where it is not, they are forgotten.
    pub fn crash(&mut self, reach: Option<(&profile::Disk, &mut impl Memory<R>)>) {
        // One cut soon after another.
        self.settle();
        if let Some((costs, memory)) = reach {
            self.land(costs, memory);
        }
        self.under_way.clear();
        self.ended.clear();
        self.places.clear();
        self.doubtful.clear();
        for (object, unsynced) in mem::take(&mut self.unsynced) {
            let there = self.objects.get(&object);
            for (number, older) in unsynced.sectors {
                let latest = there.map_or(Box::default(), |there| there.sector(number));
                let all = older.into_iter().map(|before| before.was).chain([latest]);
                let mut version = |bytes| {
                    self.versions += 1;
                    Version { id: self.versions, bytes }
                };
                let versions = all.map(&mut version).collect();
                self.undecided.sectors.push(Sector { object, number, versions, chosen: 0 });
            }
            let ends = unsynced.ends.into_iter().map(|before| before.was).chain([there.map(Object::size)]);
            self.undecided.ends.push((object, ends.collect(), 0));
        }
    }

    /// Whether a power cut has left something open.
    pub fn is_undecided(&self) -> bool {
        self.undecided != Undecided::default()
    }

    /// Sectors of which nobody knows what they have.
    pub fn undecided(&self) -> &[Sector] {
        &self.undecided.sectors
    }

    /// A version is what the power cut left of its sector; which sector that is.
    pub fn keep(&mut self, id: u32) -> Option<u32> {
        let found = self.undecided.sectors.iter_mut().find(|sector| sector.open().any(|open| open == id))?;
        found.chosen = found.versions.iter().position(|version| version.id == id)?;
        Some(found.id())
    }

    /// Draws all that is undecided.
    pub fn draw(&mut self, mut cut: PowerCut) {
        for sector in &mut self.undecided.sectors {
            sector.chosen = cut.of(sector.versions.len());
        }
        for (_, ends, chosen) in &mut self.undecided.ends {
            *chosen = cut.of(ends.len());
        }
        for (_, gone) in &mut self.undecided.removals {
            *gone = cut.of(2) == 1;
        }
        for (.., done) in &mut self.undecided.resizes {
            *done = cut.of(2) == 1;
        }
        self.settle();
    }

    /// What was chosen is what the medium has, and durable. Where nobody has chosen, nothing was written.
    pub fn settle(&mut self) {
        if !self.is_undecided() {
            return;
        }
        let Undecided { sectors, ends, removals, resizes } = mem::take(&mut self.undecided);
        // An object ends where it was chosen to end, or behind its last sector that is there.
        let mut lasts: BTreeMap<ObjectName, u64> = BTreeMap::new();
        for Sector { object, number, versions, chosen } in &sectors {
            let bytes = &versions[*chosen].bytes;
            if !bytes.is_empty() {
                let last = lasts.entry(*object).or_default();
                *last = number * SECTOR + bytes.len() as u64;
            }
            if let Some(there) = self.objects.get_mut(object) {
                there.put_sector(*number, bytes);
            }
        }
        for (object, ends, chosen) in &ends {
            match (ends[*chosen], lasts.get(object), self.objects.get_mut(object)) {
                (None, None, _) => drop(self.objects.remove(object)),
                (end, last, Some(there)) => there.end_at(end.max(last.copied()).unwrap_or_default()),
                (_, _, None) => {}
            }
        }
        for (object, size, _) in resizes.iter().filter(|(.., done)| *done) {
            self.objects.entry(*object).and_modify(|object| object.end_at(*size));
        }
        for (object, gone) in &removals {
            if *gone {
                self.objects.remove(object);
            }
        }
        self.taken = self.objects.values().map(Object::taken).sum();
    }

    /// All objects with their bytes.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectName, Vec<u8>)> {
        self.objects.iter().map(|(name, object)| {
            let mut bytes = vec![0; object.size() as usize];
            object.read(0, &mut bytes);
            (*name, bytes)
        })
    }
}
