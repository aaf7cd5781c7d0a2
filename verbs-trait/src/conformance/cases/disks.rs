//! Disks beside the fabric: named objects, and transfers between them and memory (the contract's `Disk`).

use super::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

const DISK: Caps = Caps::DISK;

cases! { "disks":
    what_was_written_is_read, "contract, Disk", needs DISK;
    a_transfer_reaches_registered_memory_and_nothing_beside_it, "contract, DiskBuffer", needs DISK;
    bytes_that_nobody_wrote_are_zero_and_there_are_none_behind_the_end, "contract, DiskCall", needs DISK;
    objects_are_made_listed_and_removed_by_name, "contract, DiskCall", needs DISK;
    what_is_cut_off_is_zero_if_it_is_there_again, "contract, DiskCall", needs DISK;
    what_cannot_be_done_is_refused_by_its_reason, "contract, DiskError", needs DISK;
    calls_that_are_under_way_at_once_all_end, "contract, Disk", needs DISK;
    a_call_whose_handle_is_dropped_goes_on, "contract, DiskRequest", needs DISK;
    an_end_steps_the_node_and_wakes_the_task, "contract, DiskRequest; Park", needs DISK, with HarnessCaps::MOUNT;
}

type DiskOf<H> = <<H as Harness>::V as Verbs>::Disk;

const A: ObjectName = ObjectName(1);

fn disk<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome<DiskOf<H>> {
    bed.at_least(1)?;
    Ok(bed.ctx(0).disk()?)
}

/// Makes a call and waits for its end.
fn run<H: Harness>(
    bed: &mut TestBed<'_, H>,
    disk: &DiskOf<H>,
    call: DiskCall<H::V>,
) -> Outcome<DiskEnd<H::V>> {
    let mut request = disk.begin(call);
    bed.until("a disk's call to end", || {
        match request.poll_end(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(end) => Ok(Some(end)),
            Poll::Pending => Ok(None),
        }
    })
}

fn outcome<H: Harness>(
    bed: &mut TestBed<'_, H>,
    disk: &DiskOf<H>,
    call: DiskCall<H::V>,
) -> Outcome<std::result::Result<DiskDone, DiskError>> {
    Ok(run(bed, disk, call)?.outcome)
}

fn write<V: Verbs>(object: ObjectName, at: u64, bytes: &[u8]) -> DiskCall<V> {
    DiskCall::Write { object, at, from: DiskBuffer::Owned(bytes.to_vec()) }
}

fn read<V: Verbs>(object: ObjectName, at: u64, len: usize) -> DiskCall<V> {
    DiskCall::Read { object, at, into: DiskBuffer::Owned(vec![9; len]) }
}

/// The bytes that are read, as many as there are.
fn bytes<H: Harness>(bed: &mut TestBed<'_, H>, disk: &DiskOf<H>, at: u64, len: usize) -> Outcome<Vec<u8>> {
    let end = run(bed, disk, read(A, at, len))?;
    let Some(DiskBuffer::Owned(mut bytes)) = end.buffer else {
        return Err(Failure::new("the buffer did not come back"));
    };
    check_eq!(bytes.len(), len, "the buffer's length");
    match end.outcome {
        Ok(DiskDone::Moved(moved)) => bytes.truncate(moved),
        other => return Err(Failure::new(format!("a read came to {other:?}"))),
    }
    Ok(bytes)
}

fn what_was_written_is_read<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let disk = disk(bed)?;
    let data = pattern(300_000, 1);
    check_eq!(outcome(bed, &disk, write(A, 0, &data))?, Ok(DiskDone::Moved(data.len())), "a write");
    check!(bytes(bed, &disk, 0, data.len())? == data, "the object has other bytes");
    let other = pattern(70_000, 2);
    check_eq!(
        outcome(bed, &disk, write(A, 12_345, &other))?,
        Ok(DiskDone::Moved(other.len())),
        "a write over it"
    );
    check!(bytes(bed, &disk, 12_345, other.len())? == other, "the part has other bytes");
    check!(bytes(bed, &disk, 0, 12_345)? == data[..12_345], "bytes before the part changed");
    check_eq!(outcome(bed, &disk, DiskCall::Sync(A))?, Ok(DiskDone::Done), "a sync");
    check_eq!(outcome(bed, &disk, DiskCall::Size(A))?, Ok(DiskDone::Size(300_000)), "the size");
    Ok(())
}

fn a_transfer_reaches_registered_memory_and_nothing_beside_it<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let disk = disk(bed)?;
    let mr = bed.ctx(0).alloc_pd()?.alloc_mr(64, AccessFlags::LOCAL_WRITE)?;
    mr.write(0, &[5; 64])?;
    let part = |at| DiskBuffer::Region { mr: mr.clone(), at, len: 16 };
    outcome(bed, &disk, write(A, 0, &[1; 16]))?.map_err(|why| Failure::new(why.to_string()))?;
    let end = run(bed, &disk, DiskCall::Read { object: A, at: 0, into: part(24) })?;
    check_eq!(end.outcome, Ok(DiskDone::Moved(16)), "a read into a region");
    let mut seen = [0; 64];
    mr.read(0, &mut seen)?;
    check!(seen[..24] == [5; 24] && seen[24..40] == [1; 16] && seen[40..] == [5; 24], "memory is {seen:?}");
    mr.write(0, &[6; 16])?;
    check_eq!(
        outcome(bed, &disk, DiskCall::Write { object: A, at: 8, from: part(0) })?,
        Ok(DiskDone::Moved(16)),
        "a write"
    );
    check_eq!(bytes(bed, &disk, 0, 100)?, [[1; 8].as_slice(), &[6; 16]].concat(), "the object");
    Ok(())
}

fn bytes_that_nobody_wrote_are_zero_and_there_are_none_behind_the_end<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let disk = disk(bed)?;
    outcome(bed, &disk, write(A, 100_000, &[7; 8]))?.map_err(|why| Failure::new(why.to_string()))?;
    check_eq!(outcome(bed, &disk, DiskCall::Size(A))?, Ok(DiskDone::Size(100_008)), "the size");
    check_eq!(bytes(bed, &disk, 99_990, 100)?, [[0; 10].as_slice(), &[7; 8]].concat(), "the end");
    check_eq!(bytes(bed, &disk, 100_008, 10)?, Vec::<u8>::new(), "behind the end");
    check_eq!(bytes(bed, &disk, 1 << 40, 10)?, Vec::<u8>::new(), "far behind the end");
    Ok(())
}

fn what_is_cut_off_is_zero_if_it_is_there_again<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let disk = disk(bed)?;
    let resize = |size| DiskCall::Resize { object: A, size };
    check_eq!(outcome(bed, &disk, resize(5))?, Err(DiskError::NoObject(A)), "no object");
    outcome(bed, &disk, write(A, 0, &[7; 20_000]))?.map_err(|why| Failure::new(why.to_string()))?;
    check_eq!(outcome(bed, &disk, resize(10))?, Ok(DiskDone::Done), "a cut");
    check_eq!(outcome(bed, &disk, DiskCall::Size(A))?, Ok(DiskDone::Size(10)), "the size");
    check_eq!(bytes(bed, &disk, 0, 100)?, vec![7; 10], "what is left");
    check_eq!(outcome(bed, &disk, resize(30_000))?, Ok(DiskDone::Done), "more");
    check_eq!(bytes(bed, &disk, 8, 4)?, vec![7, 7, 0, 0], "the cut");
    check!(bytes(bed, &disk, 10, 30_000)? == vec![0; 29_990], "what was cut off is there again");
    check_eq!(outcome(bed, &disk, resize((1 << 63) + 1))?.is_err(), true, "beyond the largest object");
    Ok(())
}

fn objects_are_made_listed_and_removed_by_name<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let disk = disk(bed)?;
    let names = [ObjectName(3), ObjectName(7), ObjectName(u64::MAX)];
    for name in names {
        check_eq!(outcome(bed, &disk, DiskCall::Create(name))?, Ok(DiskDone::Done), "a create");
    }
    check_eq!(outcome(bed, &disk, DiskCall::List)?, Ok(DiskDone::Objects(names.to_vec())), "the list");
    check_eq!(outcome(bed, &disk, DiskCall::Size(names[1]))?, Ok(DiskDone::Size(0)), "a fresh object's size");
    check_eq!(outcome(bed, &disk, DiskCall::Remove(names[1]))?, Ok(DiskDone::Done), "a remove");
    let left = vec![names[0], names[2]];
    check_eq!(outcome(bed, &disk, DiskCall::List)?, Ok(DiskDone::Objects(left)), "the list");
    Ok(())
}

fn what_cannot_be_done_is_refused_by_its_reason<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let disk = disk(bed)?;
    for call in [DiskCall::Remove(A), DiskCall::Size(A), DiskCall::Sync(A), read(A, 0, 1)] {
        check_eq!(outcome(bed, &disk, call)?, Err(DiskError::NoObject(A)), "an object that is not there");
    }
    check_eq!(outcome(bed, &disk, DiskCall::Create(A))?, Ok(DiskDone::Done), "a create");
    check_eq!(outcome(bed, &disk, DiskCall::Create(A))?, Err(DiskError::Exists(A)), "a second one");
    let at = (1 << 63) - 1;
    let beyond = Err(DiskError::Position { at, len: 2 });
    check_eq!(outcome(bed, &disk, write(A, at, &[1, 2]))?, beyond, "a write beyond 2^63");
    check_eq!(outcome(bed, &disk, read(A, at, 2))?, beyond, "a read beyond 2^63");
    let mr = bed.ctx(0).alloc_pd()?.alloc_mr(64, AccessFlags::LOCAL_WRITE)?;
    let outside = || DiskBuffer::Region { mr: mr.clone(), at: 60, len: 8 };
    let refused = [
        outcome(bed, &disk, DiskCall::Write { object: A, at: 0, from: outside() })?,
        outcome(bed, &disk, DiskCall::Read { object: A, at: 0, into: outside() })?,
    ];
    let range = Err(DiskError::Memory(VerbsError::OutOfRange { at: 60, len: 8, size: 64 }));
    check!(refused.iter().all(|end| *end == range), "a range outside of its region: {refused:?}");
    check_eq!(outcome(bed, &disk, DiskCall::Size(A))?, Ok(DiskDone::Size(0)), "nothing was written");
    Ok(())
}

fn calls_that_are_under_way_at_once_all_end<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let disk = disk(bed)?;
    let data = |n: u64| pattern(10_000, n);
    let mut requests: Vec<_> =
        (0..40).map(|n| disk.begin(write(ObjectName(n % 4), 10_000 * n, &data(n)))).collect();
    bed.until("the calls to end", || {
        requests
            .retain_mut(|request| request.poll_end(&mut TaskContext::from_waker(Waker::noop())).is_pending());
        Ok(requests.is_empty().then_some(()))
    })?;
    for n in 0..40 {
        let end = run(bed, &disk, read(ObjectName(n % 4), 10_000 * n, 10_000))?;
        let Some(DiskBuffer::Owned(bytes)) = end.buffer else {
            return Err(Failure::new("the buffer did not come back"));
        };
        check!(bytes == data(n), "the {n}th write is not there");
    }
    Ok(())
}

fn a_call_whose_handle_is_dropped_goes_on<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let disk = disk(bed)?;
    let mr = bed.ctx(0).alloc_pd()?.alloc_mr(32, AccessFlags::LOCAL_WRITE)?;
    mr.write(0, &[4; 32])?;
    drop(disk.begin(DiskCall::Write { object: A, at: 0, from: DiskBuffer::Region { mr, at: 0, len: 32 } }));
    let mut asked = None;
    bed.until("the write to take effect", || {
        let request = asked.get_or_insert_with(|| disk.begin(DiskCall::Size(A)));
        match request.poll_end(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(DiskEnd { outcome: Ok(DiskDone::Size(32)), .. }) => return Ok(Some(())),
            Poll::Ready(_) => asked = None,
            Poll::Pending => {}
        }
        Ok(None)
    })?;
    check_eq!(bytes(bed, &disk, 0, 32)?, vec![4; 32], "the object");
    Ok(())
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes some blocks one after the other, and looks at its call only when its task was woken.
struct Writer<V: Verbs> {
    disk: V::Disk,
    request: Option<V::DiskRequest>,
    woken: Arc<Count>,
    looked: u32,
    left: Rc<Cell<u64>>,
    failed: Rc<RefCell<Option<DiskError>>>,
    style: Wait,
}

impl<V: Verbs> Node for Writer<V> {
    fn step(&mut self) -> Park {
        let waker = Waker::from(Arc::clone(&self.woken));
        while self.left.get() > 0 && self.woken.0.load(Ordering::Relaxed) >= self.looked {
            let at = 100 * self.left.get();
            let request = self.request.get_or_insert_with(|| self.disk.begin(write(A, at, &[1; 100])));
            match request.poll_end(&mut TaskContext::from_waker(&waker)) {
                Poll::Pending => self.looked = self.woken.0.load(Ordering::Relaxed) + 1,
                Poll::Ready(end) => {
                    *self.failed.borrow_mut() = end.outcome.err();
                    self.request = None;
                    self.left.set(self.left.get() - 1);
                }
            }
        }
        Park::Until { style: self.style, deadline: None }
    }
}

fn an_end_steps_the_node_and_wakes_the_task<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for style in [Wait::Poll, Wait::Notify] {
        bed.world(1, 0)?;
        let (left, failed) = (Rc::new(Cell::new(5)), Rc::new(RefCell::new(None)));
        let writer: Writer<H::V> = Writer {
            disk: disk(bed)?,
            request: None,
            woken: Arc::default(),
            looked: 0,
            left: Rc::clone(&left),
            failed: Rc::clone(&failed),
            style,
        };
        bed.mount(0, Box::new(writer))?;
        bed.until("the program to write", || Ok((left.get() == 0).then_some(())))?;
        check!(failed.borrow().is_none(), "a write failed: {:?}", failed.borrow());
    }
    Ok(())
}
