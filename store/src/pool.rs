//! A pool of threads that makes the calls of a store, so that nobody who asks for one waits.
//!
//! Calls wait in the order in which they came; those that are under way at once take effect in any order. When one has ended it lies in
//! the pool until it is [taken](Pool::take).

use crate::Objects;
use crate::crew::Crew;
use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use weft_verbs::{DiskDone, DiskError, ObjectName};

/// Threads of a machine's disk: so many calls are under way at once.
pub const THREADS: usize = 8;

/// Memory of somebody else's that a transfer reads or writes while it is under way.
pub trait Memory: Send {
    /// How many bytes.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a file from some byte on into what is behind the first `done` bytes; how many bytes.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn read_from(&mut self, file: &File, done: usize, at: u64) -> io::Result<usize>;

    /// Writes what is behind the first `done` bytes to a file from some byte on; how many bytes.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn write_to(&self, file: &File, done: usize, at: u64) -> io::Result<usize>;
}

/// A transfer's memory.
pub enum Buffer {
    /// Its own.
    Owned(Vec<u8>),
    /// Somebody else's.
    Foreign(Box<dyn Memory>),
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Buffer {
    fn len(&self) -> usize {
        match self {
            Buffer::Owned(bytes) => bytes.len(),
            Buffer::Foreign(memory) => memory.len(),
        }
    }
}

/// What a store is asked for: the contract's calls.
#[derive(Debug)]
pub enum Call {
    /// Makes an empty object.
    Create(ObjectName),
    /// Removes an object.
    Remove(ObjectName),
    /// Asks for an object's size.
    Size(ObjectName),
    /// Asks for the names of all objects.
    List,
    /// Reads as many bytes as the buffer has, or as there are.
    Read {
        /// The object.
        object: ObjectName,
        /// Its first byte to read.
        at: u64,
        /// Where to.
        into: Buffer,
    },
    /// Writes the whole buffer.
    Write {
        /// The object.
        object: ObjectName,
        /// Its first byte to write.
        at: u64,
        /// What to write.
        from: Buffer,
    },
    /// Makes durable what was written to an object.
    Sync(ObjectName),
    /// Gives an object another size, durably.
    Resize {
        /// The object.
        object: ObjectName,
        /// The size.
        size: u64,
    },
}

/// A call that has ended.
#[derive(Debug)]
pub struct End {
    /// The call's number.
    pub id: u64,
    /// What it came to.
    pub outcome: Result<DiskDone, DiskError>,
    /// Its buffer, if it had one.
    pub buffer: Option<Buffer>,
}

impl Call {
    /// Makes the call, and waits for its end.
    fn make(self, objects: &Objects) -> (Result<DiskDone, DiskError>, Option<Buffer>) {
        let done = |()| DiskDone::Done;
        let outcome = match self {
            Call::Create(object) => objects.create(object).map(done),
            Call::Remove(object) => objects.remove(object).map(done),
            Call::Size(object) => objects.size(object).map(DiskDone::Size),
            Call::List => objects.list().map(DiskDone::Objects),
            Call::Sync(object) => objects.sync(object).map(done),
            Call::Resize { object, size } => objects.resize(object, size).map(done),
            Call::Read { object, at, mut into } => {
                let read = objects.read(object, at, into.len(), |file, done, at| match &mut into {
                    Buffer::Owned(bytes) => file.read_at(&mut bytes[done..], at),
                    Buffer::Foreign(memory) => memory.read_from(file, done, at),
                });
                return (read.map(DiskDone::Moved), Some(into));
            }
            Call::Write { object, at, from } => {
                let written = objects.write(object, at, from.len(), |file, done, at| match &from {
                    Buffer::Owned(bytes) => file.write_at(&bytes[done..], at),
                    Buffer::Foreign(memory) => memory.write_to(file, done, at),
                });
                return (written.map(DiskDone::Moved), Some(from));
            }
        };
        (outcome, None)
    }
}

/// Threads that make the calls of a store. When it is dropped, all calls that have begun are made first.
pub struct Pool {
    objects: Arc<Objects>,
    crew: Crew<(u64, Call), End>,
    begun: Cell<u64>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("store", &self.objects.directory().path()).finish_non_exhaustive()
    }
}

impl Pool {
    /// So many threads for a store's calls. The bell is rung by any of them when a call has ended and none lay there to be taken.
    ///
    /// # Errors
    ///
    /// The system has no more threads.
    pub fn start(
        objects: Arc<Objects>,
        threads: usize,
        bell: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Pool> {
        let at = Arc::clone(&objects);
        let make = move |(id, call): (u64, Call)| {
            let (outcome, buffer) = call.make(&at);
            End { id, outcome, buffer }
        };
        Ok(Pool { objects, crew: Crew::start(threads, make, bell)?, begun: Cell::new(0) })
    }

    /// Begins a call: its number.
    pub fn begin(&self, call: Call) -> u64 {
        let id = self.begun.get() + 1;
        self.begun.set(id);
        if let Some(recording) = &self.objects.recording {
            recording.begun(self.objects.directory().id().server, id, &call);
        }
        self.crew.give((id, call));
        id
    }

    /// Takes the calls that have ended.
    pub fn take(&self) -> Vec<End> {
        let ended = self.crew.take();
        if let Some(recording) = &self.objects.recording {
            ended.iter().for_each(|end| recording.ended(self.objects.directory().id().server, end));
        }
        ended
    }
}
