//! Table 2: what goes in, measured again to see that it comes back.

use super::cluster::cluster;
use super::streams::{accept, connect, read, write};
use crate::paper::{Cluster, Machine, PaperError, Row, X, refused};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::rt::{BufferGuard, Rt};
use weft_protocols::transport::{Channel, Incoming, Mesh, Rank};
use weft_sim::profile::Profile;
use weft_sim::{Sim, SimStream};
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, RemoteSlice, Service};

const ROUNDS: u32 = 20;
/// Between two operations: longer than what one leaves behind.
const PAUSE: Nanos = Nanos::from_micros(500);
const END: Nanos = Nanos::from_secs(2);
const CHANNEL: Channel = Channel(0);
const NEAR: Rank = Rank::from_index(0);
const FAR: Rank = Rank::from_index(1);
/// Bytes of an operation whose bandwidth is measured, and how many there are.
const LARGE: u32 = 1 << 20;
const MANY: u32 = 32;

/// Table 2.
pub(super) fn rows(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let latency =
        |name, paper, measured| Row::new("Table 2", name, X::Name("latency"), "us", paper, measured);
    let bandwidth =
        |name, paper, measured| Row::new("Table 2", name, X::Name("bandwidth"), "MB/s", paper, measured);
    let one = |figures: Vec<f64>| figures.into_iter().next().unwrap_or(f64::NAN);
    Ok(vec![
        latency("TCP over Elan IP", 23.92, one(stream_latency(profile)?)),
        latency("RDMA write", 1.93, one(write_latency(profile)?)),
        latency("RDMA read", 3.19, one(read_latency(profile)?)),
        latency("QDMA", 3.02, one(message_latency(profile)?)),
        bandwidth("TCP over Elan IP", 482.26, one(stream_bandwidth(profile)?)),
        bandwidth("RDMA write", 910.1, one(bandwidth_of(profile, true)?)),
        bandwidth("RDMA read", 911.1, one(bandwidth_of(profile, false)?)),
        bandwidth("QDMA", 368.2, one(message_bandwidth(profile)?)),
    ])
}

type Book = Rc<RefCell<Vec<f64>>>;

fn two(profile: &Profile) -> Result<(Cluster, Machine, Machine, Book), PaperError> {
    let cluster = cluster(profile, 2, 2_048)?;
    let [near, far] = [cluster.machines[0].clone(), cluster.machines[1].clone()];
    Ok((cluster, near, far, Rc::default()))
}

const ACCESS: AccessFlags =
    AccessFlags::LOCAL_WRITE.union(AccessFlags::REMOTE_READ).union(AccessFlags::REMOTE_WRITE);

fn region(mesh: &Mesh<Sim>, len: u32) -> Result<(<Sim as weft_verbs::Verbs>::Mr, RemoteSlice), PaperError> {
    let mr = mesh.alloc(len as usize, ACCESS).map_err(refused)?;
    let at = mr.remote(0..len as usize).map_err(refused)?;
    Ok((mr, at))
}

/// A read of eight bytes, from the call until its data are there.
fn read_latency(profile: &Profile) -> Result<Vec<f64>, PaperError> {
    let (cluster, near, far, book) = two(profile)?;
    let (_kept, at) = region(&far.mesh, 8)?;
    let results = Rc::clone(&book);
    drop(near.rt.clone().spawn(async move {
        let (mut bytes, mut sum) = ([0; 8], Nanos::ZERO);
        near.mesh.read(FAR, at, &mut bytes).await.ok()?;
        for _ in 0..ROUNDS {
            near.rt.sleep(PAUSE).await;
            let begin = near.rt.now();
            near.mesh.read(FAR, at, &mut bytes).await.ok()?;
            sum += near.rt.now() - begin;
        }
        results.borrow_mut().push(sum.as_micros_f64() / f64::from(ROUNDS));
        Some(())
    }));
    cluster.finish(END, &book, 1)
}

/// A write of eight bytes, from the call until a processor that polls the target memory sees it.
fn write_latency(profile: &Profile) -> Result<Vec<f64>, PaperError> {
    let (cluster, near, far, book) = two(profile)?;
    let (kept, at) = region(&far.mesh, 8)?;
    let begun = Rc::new(RefCell::new(Nanos::ZERO));
    let (results, began, looks) = (Rc::clone(&book), Rc::clone(&begun), far.rt.clone());
    drop(near.rt.clone().spawn(async move {
        near.mesh.write(FAR, at, &0_u64.to_ne_bytes()).await.ok()?;
        for n in 1..=u64::from(ROUNDS) {
            near.rt.sleep(PAUSE).await;
            *begun.borrow_mut() = near.rt.now();
            near.mesh.write(FAR, at, &n.to_ne_bytes()).await.ok()?;
        }
        Some(())
    }));
    drop(far.rt.spawn(async move {
        let (mut seen, mut sum) = (0, Nanos::ZERO);
        while seen < u64::from(ROUNDS) {
            match kept.load(0).ok()? {
                found if found != seen => {
                    (seen, sum) = (found, sum + (looks.now() - *began.borrow()));
                }
                _ => looks.yield_now().await,
            }
        }
        results.borrow_mut().push(sum.as_micros_f64() / f64::from(ROUNDS));
        Some(())
    }));
    cluster.finish(END, &book, 1)
}

/// A message of eight bytes one way: half of there and back.
fn message_latency(profile: &Profile) -> Result<Vec<f64>, PaperError> {
    let (cluster, near, far, book) = two(profile)?;
    let mut inbox = near.mesh.open(CHANNEL).map_err(refused)?;
    let mut echoes = far.mesh.open(CHANNEL).map_err(refused)?;
    let results = Rc::clone(&book);
    drop(far.rt.clone().spawn(async move {
        while let Some(Incoming::Message(message)) = echoes.recv().await {
            far.mesh.send(NEAR, CHANNEL, message.bytes()).ok()?;
        }
        Some(())
    }));
    drop(near.rt.clone().spawn(async move {
        let mut sum = Nanos::ZERO;
        for round in 0..=ROUNDS {
            near.rt.sleep(PAUSE).await;
            let begin = near.rt.now();
            near.mesh.send(FAR, CHANNEL, &[1; 8]).ok()?;
            inbox.recv().await?;
            // The first connects.
            sum += if round == 0 { Nanos::ZERO } else { near.rt.now() - begin };
        }
        results.borrow_mut().push(sum.as_micros_f64() / f64::from(ROUNDS) / 2.0);
        Some(())
    }));
    cluster.finish(END, &book, 1)
}

/// Messages of 2,000 bytes one way, as many as credits let go.
fn message_bandwidth(profile: &Profile) -> Result<Vec<f64>, PaperError> {
    const LEN: usize = 2_000;
    const MESSAGES: u32 = 2_000;
    let (cluster, near, far, book) = two(profile)?;
    let mut inbox = far.mesh.open(CHANNEL).map_err(refused)?;
    let results = Rc::clone(&book);
    drop(near.rt.clone().spawn(async move {
        for _ in 0..=MESSAGES {
            near.mesh.room(FAR).await.ok()?;
            near.mesh.send(FAR, CHANNEL, &[1; LEN]).ok()?;
            // The processor does nothing else meanwhile.
            near.rt.yield_now().await;
        }
        Some(())
    }));
    drop(far.rt.clone().spawn(async move {
        inbox.recv().await?;
        let begin = far.rt.now();
        for _ in 0..MESSAGES {
            inbox.recv().await?;
        }
        results.borrow_mut().push(megabytes(MESSAGES * LEN as u32, far.rt.now() - begin));
        Some(())
    }));
    cluster.finish(END, &book, 1)
}

/// Writes or reads of a mebibyte, four at a time.
fn bandwidth_of(profile: &Profile, writes: bool) -> Result<Vec<f64>, PaperError> {
    const AT_ONCE: u32 = 4;
    let (cluster, near, far, book) = two(profile)?;
    let (_kept, at) = region(&far.mesh, LARGE)?;
    let (mr, _) = region(&near.mesh, LARGE)?;
    let begun = Rc::new(RefCell::new(Nanos::ZERO));
    for _ in 0..AT_ONCE {
        let (near, mr, begun, results) = (near.clone(), mr.clone(), Rc::clone(&begun), Rc::clone(&book));
        drop(near.rt.clone().spawn(async move {
            for n in 0..=MANY / AT_ONCE {
                let guard = BufferGuard::Range { mr: mr.clone(), at: 0, len: LARGE };
                match writes {
                    true => drop(near.mesh.write_from(FAR, at, guard).await.ok()?),
                    false => drop(near.mesh.read_into(FAR, at, guard).await.ok()?),
                }
                if n == 0 {
                    let mut begun = begun.borrow_mut();
                    *begun = begun.max(near.rt.now());
                }
            }
            let took = near.rt.now() - *begun.borrow();
            results.borrow_mut().push(megabytes(MANY * LARGE, took));
            Some(())
        }));
    }
    let all = cluster.finish(END, &book, AT_ONCE as usize)?;
    Ok(vec![all.into_iter().fold(f64::MAX, f64::min)])
}

fn megabytes(bytes: u32, span: Nanos) -> f64 {
    f64::from(bytes) / span.as_micros_f64()
}

const PORT: Service = Service(7_000);

/// Both ends of a stream: what each does with its own.
fn stream<N: Future<Output = Option<()>> + 'static, F: Future<Output = Option<()>> + 'static>(
    near: &Machine,
    far: &Machine,
    at_near: impl FnOnce(Rt<Sim>, SimStream) -> N + 'static,
    at_far: impl FnOnce(Rt<Sim>, SimStream) -> F + 'static,
) -> Result<(), PaperError> {
    let accepted = accept(far, PORT)?;
    let stream = connect(near, 1, PORT)?;
    let rt = far.rt.clone();
    drop(far.rt.spawn(async move { at_far(rt, accepted.await?).await }));
    drop(near.rt.spawn(at_near(near.rt.clone(), stream)));
    Ok(())
}

/// A byte one way by a stream: half of there and back.
fn stream_latency(profile: &Profile) -> Result<Vec<f64>, PaperError> {
    let (cluster, near, far, book) = two(profile)?;
    let results = Rc::clone(&book);
    let asks = move |rt: Rt<Sim>, mut stream: SimStream| async move {
        let mut sum = Nanos::ZERO;
        for round in 0..=ROUNDS {
            rt.sleep(PAUSE).await;
            let begin = rt.now();
            write(&mut stream, &[1]).await?;
            read(&mut stream, 1).await?;
            sum += if round == 0 { Nanos::ZERO } else { rt.now() - begin };
        }
        results.borrow_mut().push(sum.as_micros_f64() / f64::from(ROUNDS) / 2.0);
        Some(())
    };
    let answers = |_, mut stream: SimStream| async move {
        loop {
            read(&mut stream, 1).await?;
            write(&mut stream, &[1]).await?;
        }
    };
    stream(&near, &far, asks, answers)?;
    cluster.finish(END, &book, 1)
}

/// A stream one way.
fn stream_bandwidth(profile: &Profile) -> Result<Vec<f64>, PaperError> {
    const BYTES: usize = 16 << 20;
    let (cluster, near, far, book) = two(profile)?;
    let results = Rc::clone(&book);
    let sends = |_, mut stream: SimStream| async move {
        let chunk = vec![1; 1 << 16];
        for _ in 0..BYTES / chunk.len() {
            write(&mut stream, &chunk).await?;
        }
        // It is open until the other end has read all.
        read(&mut stream, 1).await
    };
    let takes = move |rt: Rt<Sim>, mut stream: SimStream| async move {
        read(&mut stream, 1 << 16).await?;
        let (begin, rest) = (rt.now(), BYTES - (1 << 16));
        read(&mut stream, rest).await?;
        results.borrow_mut().push(megabytes(rest as u32, rt.now() - begin));
        write(&mut stream, &[1]).await
    };
    stream(&near, &far, sends, takes)?;
    cluster.finish(END, &book, 1)
}
