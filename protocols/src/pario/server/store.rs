//! Where a server keeps its objects: on the machine's disk, or in memory.

use super::super::access::Run;
use super::super::error::Refusal;
use super::super::{FsError, Handle, Storage};
use super::log::{self, Commit, Unread, Unwritten};
use super::machine::{Place, StoreCall, Stored};
use super::names::Names;
use crate::rt::Rt;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use weft_verbs::{
    Context, Disk, DiskBuffer, DiskCall, DiskDone, DiskEnd, DiskError, DiskRequest, MemoryRegion, ObjectName,
    Verbs, Work,
};

/// Objects in memory.
#[derive(Debug, Default)]
struct Objects {
    bytes: BTreeMap<Handle, Vec<u8>>,
    taken: u64,
    most: u64,
}

impl Objects {
    fn read(&self, handle: Handle, at: u64, out: &mut [u8]) -> u32 {
        let object = self.bytes.get(&handle).map_or(&[][..], Vec::as_slice);
        let from = object.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
        let moved = from.len().min(out.len());
        out[..moved].copy_from_slice(&from[..moved]);
        out[moved..].fill(0);
        moved as u32
    }

    fn write(&mut self, handle: Handle, at: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let object = self.bytes.entry(handle).or_default();
        let end = at + bytes.len() as u64;
        let more = end.saturating_sub(object.len() as u64);
        if self.taken + more > self.most {
            return Err(Refusal::Full);
        }
        self.taken += more;
        if more > 0 {
            object.resize(end as usize, 0);
        }
        object[at as usize..end as usize].copy_from_slice(bytes);
        Ok(())
    }

    fn cut(&mut self, handle: Handle, size: u64, grows: bool) -> Result<(), Refusal> {
        let before = self.bytes.get(&handle).map_or(0, |object| object.len() as u64);
        if size == before || (size > before && !grows) {
            return Ok(());
        }
        if self.taken - before + size > self.most {
            return Err(Refusal::Full);
        }
        self.taken = self.taken - before + size;
        self.bytes.entry(handle).or_default().resize(size as usize, 0);
        Ok(())
    }

    fn remove(&mut self, handle: Handle) {
        self.taken -= self.bytes.remove(&handle).map_or(0, |object| object.len() as u64);
    }
}

/// A server's objects, and its staging.
pub(super) struct Store<V: Verbs> {
    rt: Rt<V>,
    kind: Kind<V>,
    /// Places in staging, one behind the other.
    staging: V::Mr,
    unit: u32,
}

enum Kind<V: Verbs> {
    Memory(RefCell<Objects>),
    Disk(V::Disk),
}

impl<V: Verbs> Store<V> {
    pub(super) fn open(rt: &Rt<V>, storage: Storage, staging: V::Mr, unit: u32) -> Result<Store<V>, FsError> {
        let kind = match storage {
            Storage::Memory { most } => Kind::Memory(RefCell::new(Objects { most, ..Objects::default() })),
            Storage::Disk => Kind::Disk(rt.context().disk()?),
        };
        Ok(Store { rt: rt.clone(), kind, staging, unit })
    }

    /// Calls the disk, or what stands for it. An object that is not there has no bytes.
    pub(super) async fn call(&self, call: StoreCall) -> Result<Stored, Refusal> {
        match &self.kind {
            Kind::Memory(objects) => self.in_memory(objects, call),
            Kind::Disk(disk) => self.on_disk(disk, call).await,
        }
    }

    fn in_memory(&self, objects: &RefCell<Objects>, call: StoreCall) -> Result<Stored, Refusal> {
        let copied = |len: u64| self.rt.spend(Work::Copy { bytes: len });
        let mut objects = objects.borrow_mut();
        match call {
            StoreCall::Size(handle) => {
                Ok(Stored::Size(objects.bytes.get(&handle).map_or(0, |object| object.len() as u64)))
            }
            StoreCall::Sync(_) => Ok(Stored::Done),
            StoreCall::Remove(handle) => {
                objects.remove(handle);
                Ok(Stored::Done)
            }
            StoreCall::Cut { handle, size, grows } => objects.cut(handle, size, grows).map(|()| Stored::Done),
            StoreCall::Read { handle, runs, into } => {
                let mut bytes = vec![0; into.len()];
                copied(bytes.len() as u64);
                let (mut moved, mut rest) = (0, &mut bytes[..]);
                for Run { at, len } in runs {
                    let (here, behind) = rest.split_at_mut(len as usize);
                    moved += objects.read(handle, at, here);
                    rest = behind;
                }
                let bytes = match into {
                    Place::Bytes(_) => bytes,
                    Place::Stage { stage, .. } => {
                        self.staging.write(self.place(stage.0), &bytes).map_err(|_| Refusal::Io)?;
                        Vec::new()
                    }
                };
                Ok(Stored::Read { moved, bytes })
            }
            StoreCall::Write { handle, runs, from } => {
                let bytes = match from {
                    Place::Bytes(bytes) => bytes,
                    Place::Stage { stage, len } => {
                        let mut bytes = vec![0; len as usize];
                        self.staging.read(self.place(stage.0), &mut bytes).map_err(|_| Refusal::Io)?;
                        bytes
                    }
                };
                copied(bytes.len() as u64);
                let mut rest = &bytes[..];
                for Run { at, len } in runs {
                    let (here, behind) = rest.split_at(len as usize);
                    objects.write(handle, at, here)?;
                    rest = behind;
                }
                Ok(Stored::Done)
            }
        }
    }

    fn place(&self, stage: u32) -> usize {
        stage as usize * self.unit as usize
    }

    async fn on_disk(&self, disk: &V::Disk, call: StoreCall) -> Result<Stored, Refusal> {
        let name = |handle: Handle| ObjectName(handle.0);
        let (call, nothing) = match call {
            StoreCall::Read { handle, runs, into } => {
                return self.read(disk, name(handle), &runs, into).await;
            }
            StoreCall::Write { handle, runs, from } => {
                return self.write(disk, name(handle), &runs, from).await;
            }
            StoreCall::Cut { handle, size, grows } => {
                return self.cut(disk, name(handle), size, grows).await;
            }
            StoreCall::Size(handle) => (DiskCall::Size(name(handle)), Stored::Size(0)),
            StoreCall::Sync(handle) => (DiskCall::Sync(name(handle)), Stored::Done),
            StoreCall::Remove(handle) => (DiskCall::Remove(name(handle)), Stored::Done),
        };
        match end(disk.begin(call)).await.outcome {
            Ok(DiskDone::Size(size)) => Ok(Stored::Size(size)),
            Ok(_) => Ok(Stored::Done),
            Err(DiskError::NoObject(_)) => Ok(nothing),
            Err(why) => Err(Refusal::from(&why)),
        }
    }

    /// Ends an object. Its turn is this call's: nobody else changes its size meanwhile.
    async fn cut(
        &self,
        disk: &V::Disk,
        object: ObjectName,
        size: u64,
        grows: bool,
    ) -> Result<Stored, Refusal> {
        let before = match end(disk.begin(DiskCall::Size(object))).await.outcome {
            Ok(DiskDone::Size(before)) => Some(before),
            Err(DiskError::NoObject(_)) => None,
            Ok(_) => return Err(Refusal::Io),
            Err(why) => return Err(Refusal::from(&why)),
        };
        if before == Some(size) {
            // By bytes that may not be durable yet, and with them where it ends.
            let synced = end(disk.begin(DiskCall::Sync(object))).await.outcome;
            return synced.map(|_| Stored::Done).map_err(|why| Refusal::from(&why));
        }
        let now = before.unwrap_or_default();
        if now == size || (now < size && !grows) {
            return Ok(Stored::Done);
        }
        if before.is_none() {
            end(disk.begin(DiskCall::Create(object))).await.outcome.map_err(|why| Refusal::from(&why))?;
        }
        let cut = end(disk.begin(DiskCall::Resize { object, size })).await.outcome;
        cut.map(|_| Stored::Done).map_err(|why| Refusal::from(&why))
    }

    /// The directory that an earlier life of this server left, and its log: the number, and where it ends, if it may be written on. One
    /// that left nothing had nothing.
    pub(super) async fn find_log(&self) -> Result<(Names, Option<u64>, Option<(u64, u64)>), Refusal> {
        let Kind::Disk(disk) = &self.kind else { return Ok((Names::default(), None, None)) };
        let Ok(DiskDone::Objects(objects)) = end(disk.begin(DiskCall::List)).await.outcome else {
            return Err(Refusal::Io);
        };
        let mut logs: Vec<u64> = objects.iter().filter_map(|object| log::log_of(*object)).collect();
        logs.sort_unstable_by(|a, b| b.cmp(a));
        let (mut found, mut batches) = (None, Vec::new());
        for &number in &logs {
            let mut whole = self.whole(disk, log::object(number)).await?;
            match log::read(number, &whole) {
                Ok(log) => {
                    let clean = (log.torn == 0).then_some((log.end, whole.len() as u64));
                    found = Some((log.names, number, clean));
                    whole.truncate(log.end as usize);
                    batches = whole;
                }
                // Its first commit never ended, so nobody was told of it; the one before is there.
                Err(Unread::NoCheckpoint) => continue,
                Err(Unread::Damaged { .. }) => return Err(Refusal::Damaged),
            }
            break;
        }
        // A file's object was made after its name was durable.
        let mut files = objects.iter().filter(|object| log::log_of(**object).is_none());
        let is_damaged = match &found {
            None => files.next().is_some() || !log::may_be_unfinished(&logs),
            Some((names, ..)) => files.any(|file| names.is_unheard_of(Handle(file.0))),
        };
        if is_damaged {
            return Err(Refusal::Damaged);
        }
        let (names, newest, clean) = found
            .map_or((Names::default(), None, None), |(names, newest, clean)| (names, Some(newest), clean));
        if let Some(newest) = newest {
            write_back::<V>(disk, log::object(newest), batches).await?;
        }
        for &other in logs.iter().filter(|log| Some(**log) != newest) {
            end(disk.begin(DiskCall::Remove(log::object(other)))).await;
        }
        Ok((names, newest, clean))
    }

    async fn whole(&self, disk: &V::Disk, object: ObjectName) -> Result<Vec<u8>, Refusal> {
        let Ok(DiskDone::Size(size)) = end(disk.begin(DiskCall::Size(object))).await.outcome else {
            return Err(Refusal::Io);
        };
        let into = DiskBuffer::Owned(vec![0; usize::try_from(size).map_err(|_| Refusal::Damaged)?]);
        let DiskEnd { outcome, buffer } = end(disk.begin(DiskCall::Read { object, at: 0, into })).await;
        match (outcome, buffer) {
            (Ok(DiskDone::Moved(len)), Some(DiskBuffer::Owned(mut bytes))) => {
                bytes.truncate(len);
                Ok(bytes)
            }
            _ => Err(Refusal::Io),
        }
    }

    /// Writes a batch of the log and makes it durable; a log whose place it takes is removed then. Nothing is there of one that found no
    /// room.
    pub(super) async fn commit(&self, commit: Commit) -> Result<(), Unwritten> {
        let Kind::Disk(disk) = &self.kind else { return Ok(()) };
        let Commit { log, zeros, at, bytes, replaces } = commit;
        let object = log::object(log);
        let room = put::<V>(disk, object, zeros.start, vec![0; (zeros.end - zeros.start) as usize]).await;
        let written = match room {
            Ok(()) => put::<V>(disk, object, at, bytes).await,
            // The batch was not written, and zeros behind the log's end say nothing.
            Err(Refusal::Full) if at > 0 => return Err(Unwritten::Full { cut: false }),
            failed => failed,
        };
        match written {
            Ok(()) => {}
            Err(Refusal::Full) => {
                take_back::<V>(disk, object, at).await.map_err(Unwritten::Failed)?;
                return Err(Unwritten::Full { cut: true });
            }
            Err(why) => return Err(Unwritten::Failed(why)),
        }
        // Whatever it says, nobody knows what is durable.
        let synced = end(disk.begin(DiskCall::Sync(object))).await.outcome;
        synced.map_err(|_| Unwritten::Failed(Refusal::Io))?;
        if let Some(older) = replaces {
            // One that stays is removed by the next life.
            end(disk.begin(DiskCall::Remove(log::object(older)))).await;
        }
        Ok(())
    }

    /// Reads runs, all at once. What is not there is zero.
    async fn read(
        &self,
        disk: &V::Disk,
        object: ObjectName,
        runs: &[Run],
        into: Place,
    ) -> Result<Stored, Refusal> {
        let begun: Vec<_> = self
            .buffers(runs, &into)
            .map(|(Run { at, .. }, into)| disk.begin(DiskCall::Read { object, at, into }))
            .collect();
        let (mut moved, mut bytes, mut failed) = (0, Vec::new(), None);
        for (request, run) in begun.into_iter().zip(runs) {
            let DiskEnd { outcome, buffer } = end(request).await;
            let here = match outcome {
                Ok(DiskDone::Moved(here)) => here,
                Ok(_) | Err(DiskError::NoObject(_)) => 0,
                Err(why) => {
                    failed = Some(Refusal::from(&why));
                    continue;
                }
            };
            moved += here as u32;
            match buffer {
                Some(DiskBuffer::Owned(mut read)) => {
                    read[here..].fill(0);
                    if runs.len() == 1 {
                        bytes = read;
                    } else {
                        self.rt.spend(Work::Copy { bytes: run.len.into() });
                        bytes.extend(read);
                    }
                }
                Some(DiskBuffer::Region { mr, at, len }) if here < len => {
                    mr.write(at + here, &vec![0; len - here]).map_err(|_| Refusal::Io)?;
                }
                _ => {}
            }
        }
        failed.map_or(Ok(Stored::Read { moved, bytes }), Err)
    }

    /// Writes runs, all at once.
    async fn write(
        &self,
        disk: &V::Disk,
        object: ObjectName,
        runs: &[Run],
        from: Place,
    ) -> Result<Stored, Refusal> {
        let begun: Vec<_> = match from {
            Place::Bytes(bytes) if runs.len() == 1 => {
                let from = DiskBuffer::Owned(bytes);
                runs.iter()
                    .zip([from])
                    .map(|(run, from)| disk.begin(DiskCall::Write { object, at: run.at, from }))
                    .collect()
            }
            from => {
                if let Place::Bytes(bytes) = &from {
                    self.rt.spend(Work::Copy { bytes: bytes.len() as u64 });
                }
                let buffers = self.buffers(runs, &from);
                buffers.map(|(run, from)| disk.begin(DiskCall::Write { object, at: run.at, from })).collect()
            }
        };
        let mut failed = None;
        for request in begun {
            if let Err(why) = end(request).await.outcome {
                failed = Some(Refusal::from(&why));
            }
        }
        failed.map_or(Ok(Stored::Done), Err)
    }

    /// Memory for each of some runs: parts of a place in staging, or of bytes, which are copied.
    fn buffers<'a>(
        &'a self,
        runs: &'a [Run],
        place: &'a Place,
    ) -> impl Iterator<Item = (Run, DiskBuffer<V>)> + 'a {
        let mut behind = 0;
        runs.iter().map(move |run| {
            let (at, len) = (behind, run.len as usize);
            behind += len;
            let buffer = match place {
                Place::Bytes(bytes) => DiskBuffer::Owned(bytes[at..at + len].to_vec()),
                Place::Stage { stage, .. } => {
                    DiskBuffer::Region { mr: self.staging.clone(), at: self.place(stage.0) + at, len }
                }
            };
            (*run, buffer)
        })
    }
}

/// Writes bytes to a log, if there are any.
async fn put<V: Verbs>(disk: &V::Disk, object: ObjectName, at: u64, bytes: Vec<u8>) -> Result<(), Refusal> {
    if bytes.is_empty() {
        return Ok(());
    }
    let write = DiskCall::Write { object, at, from: DiskBuffer::Owned(bytes) };
    end(disk.begin(write)).await.outcome.map(drop).map_err(|why| Refusal::from(&why))
}

/// What was read of a log is durable from then on. A server that was killed on a machine that goes on may have left a batch that is written
/// and not durable. And where a sync has failed, the system may take that batch to be written: only what is written once more is synced.
async fn write_back<V: Verbs>(disk: &V::Disk, object: ObjectName, bytes: Vec<u8>) -> Result<(), Refusal> {
    match put::<V>(disk, object, 0, bytes).await {
        // It is there as it was: a full disk is to be emptied all the same.
        Ok(()) | Err(Refusal::Full) => {}
        failed => return failed,
    }
    end(disk.begin(DiskCall::Sync(object))).await.outcome.map(drop).map_err(|why| Refusal::from(&why))
}

/// A batch found no room, and parts of it may be there, or all: the log ends before it again, and one that was to begin with it is none.
/// Where that fails nobody knows what a restart would find.
async fn take_back<V: Verbs>(disk: &V::Disk, object: ObjectName, at: u64) -> Result<(), Refusal> {
    let call = match at {
        0 => DiskCall::Remove(object),
        size => DiskCall::Resize { object, size },
    };
    match end(disk.begin(call)).await.outcome {
        Ok(_) => Ok(()),
        Err(DiskError::NoObject(_)) if at == 0 => Ok(()),
        Err(_) => Err(Refusal::Io),
    }
}

async fn end<V: Verbs, R: DiskRequest<V>>(mut request: R) -> DiskEnd<V> {
    poll_fn(|cx| request.poll_end(cx)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::RtConfig;
    use crate::rt::fake::{Fake, V};
    use std::future::Future;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Context as TaskContext, Poll, Waker};
    use weft_verbs::{AccessFlags, ProtectionDomain};

    /// What comes of a batch behind 60 bytes of a log where so many writes find room, and what the disk was asked for.
    fn commit(writes: usize) -> (Result<(), Unwritten>, Vec<String>) {
        let (fake, calls) = (Fake::default(), Rc::new(RefCell::new(Vec::new())));
        let asked = Rc::clone(&calls);
        fake.world.borrow_mut().disk = Some(Box::new(move |call| {
            let (text, done) = match call {
                DiskCall::Write { at, from, .. } if asked.borrow().len() < writes => {
                    (format!("write {at} {}", from.len()), Ok(DiskDone::Moved(from.len())))
                }
                DiskCall::Write { at, from, .. } => {
                    (format!("write {at} {}", from.len()), Err(DiskError::Full))
                }
                DiskCall::Resize { size, .. } => (format!("resize {size}"), Ok(DiskDone::Done)),
                DiskCall::Sync(_) => ("sync".into(), Ok(DiskDone::Done)),
                _ => ("another call".into(), Err(DiskError::Io)),
            };
            asked.borrow_mut().push(text);
            done
        }));
        let rt = Rt::<V>::new(&fake, RtConfig::default()).expect("the fake device obeys");
        let staging = fake.alloc_mr(0, AccessFlags::LOCAL_WRITE).expect("there is memory");
        let store = Store::open(&rt, Storage::Disk, staging, 0).expect("there is a disk");
        let batch = Commit { log: 3, zeros: 100..200, at: 60, bytes: vec![1; 30], replaces: None };
        let mut committing = pin!(store.commit(batch));
        match committing.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(end) => (end, calls.take()),
            Poll::Pending => panic!("each call has ended"),
        }
    }

    /// The log would count on zeros that are not there, or write some over others.
    #[test]
    fn it_is_told_whether_a_batch_without_room_took_the_zeros_behind_the_log_with_it() {
        let (end, calls) = commit(0);
        assert_eq!(
            (end, &calls[..]),
            (Err(Unwritten::Full { cut: false }), &["write 100 100".to_string()][..])
        );
        let (end, calls) = commit(1);
        assert_eq!(end, Err(Unwritten::Full { cut: true }));
        assert_eq!(calls, ["write 100 100", "write 60 30", "resize 60"]);
        let (end, calls) = commit(2);
        assert_eq!((end, calls.len()), (Ok(()), 3));
    }
}
