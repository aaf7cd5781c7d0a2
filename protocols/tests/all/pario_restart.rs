//! Files whose server begins anew: what was refused has not happened, and what was answered is there.

use crate::common::{Cluster, Member, ms, rank, us};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::pario::{Distribution, FsConfig, FsError, Pario, Wire};
use weft_protocols::rt::Rt;
use weft_protocols::transport::{GuestConfig, MeshConfig};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

/// When the server crashes, and when it is there again.
const CRASHES: Nanos = Nanos::from_millis(100);
const IS_BACK: Nanos = Nanos::from_millis(101);
/// How long a link is cut, so that streams break.
const CUT: Nanos = Nanos::from_secs(60);

/// Runs what a client does to its end, while the machine with the only server crashes and comes back. `faults` strike before that.
fn while_the_server_begins_anew(
    seed: u64,
    config: FsConfig,
    faults: &[(Nanos, Fault)],
    does: impl AsyncFn(&Rt<Sim>, &Pario<Sim>) + 'static,
) {
    let cluster = Cluster::with_messages(2, seed, Wait::Poll, config.max_message());
    while_its_server_begins_anew(cluster, config, faults, does);
}

/// The same in a cluster.
fn while_its_server_begins_anew(
    mut cluster: Cluster,
    config: FsConfig,
    faults: &[(Nanos, Fault)],
    does: impl AsyncFn(&Rt<Sim>, &Pario<Sim>) + 'static,
) {
    let start = |member: &Member| Pario::start(&member.rt, &member.mesh, config).expect("it can be");
    let mut services: Vec<_> = cluster.members.iter().map(start).collect();
    let (ended, files, rt) = (Rc::new(Cell::new(false)), services[1].clone(), cluster.members[1].rt.clone());
    let tell = Rc::clone(&ended);
    drop(cluster.members[1].rt.spawn(async move {
        does(&rt, &files).await;
        tell.set(true);
    }));
    faults.iter().for_each(|(at, fault)| cluster.plan(*at, *fault));
    cluster.plan(CRASHES, Fault::Crash { node: NodeId(0) });
    cluster.run(IS_BACK);
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(0) });
    cluster.run(Nanos(1));
    cluster.members[0] = cluster.start(0);
    services[0] = start(&cluster.members[0]);
    cluster.run(ms(200));
    assert!(ended.get(), "a call has not ended");
}

/// Makes a file of these bytes.
async fn put(files: &Pario<Sim>, path: &str, bytes: &[u8]) -> Result<(), FsError> {
    let file = files.create(path, None).await?;
    let buffer = files.buffer(bytes.len())?;
    buffer.write(0, bytes)?;
    files.write(&file, 0, buffer).await.0?;
    files.close(file).await
}

async fn get<const LEN: usize>(files: &Pario<Sim>, path: &str) -> Result<[u8; LEN], FsError> {
    let file = files.open(path).await?;
    let (read, buffer) = files.read(&file, 0, files.buffer(LEN)?).await;
    assert_eq!(read?, LEN);
    let mut bytes = [0; LEN];
    buffer.read(0, &mut bytes)?;
    files.close(file).await?;
    Ok(bytes)
}

/// Who is told that the server has failed looks there for whether it was the disk.
#[test]
fn a_server_whose_disk_fails_as_it_reads_its_log_counts_an_error_of_the_disk() {
    let config = FsConfig::new(1);
    let mut cluster = Cluster::with_messages(2, 1, Wait::Poll, config.max_message());
    let start = |member: &Member| Pario::start(&member.rt, &member.mesh, config).expect("it can be");
    let services: Vec<_> = cluster.members.iter().map(start).collect();
    let files = services[1].clone();
    drop(cluster.members[1].rt.spawn(async move {
        put(&files, "f", b"x").await.expect("nothing is in the way");
    }));
    cluster.plan(CRASHES, Fault::Crash { node: NodeId(0) });
    cluster.run(IS_BACK);
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(0) });
    cluster.run(Nanos(1));
    cluster.fabric.break_disk(NodeId(0), true);
    cluster.members[0] = cluster.start(0);
    let server = start(&cluster.members[0]);
    cluster.run(ms(100));
    assert_eq!((server.failed(), server.stats().disk_errors), (Some(FsError::Io), 1));
}

#[test]
fn a_rename_that_a_full_disk_refused_has_not_happened_after_a_restart() {
    let config = FsConfig { log_room: 4_096, ..FsConfig::new(1) };
    let full = (ms(20), Fault::DiskFull { node: NodeId(0), lasts: None });
    for seed in 0..8 {
        while_the_server_begins_anew(seed, config, &[full], async move |rt, files| {
            put(files, "new", b"new bytes").await.expect("there is room");
            put(files, "old", b"old bytes").await.expect("there is room");
            rt.sleep_until(ms(21)).await;
            let mut made = 0;
            while files.mkdir(&format!("d{made}")).await != Err(FsError::Full) {
                made += 1;
            }
            assert!(made > 0, "the log had no room from the start");
            assert_eq!(files.rename("new", "old").await, Err(FsError::Full));
            assert!(rt.now() < CRASHES, "all of it was answered before the crash");
            rt.sleep_until(IS_BACK).await;
            assert_eq!(get(files, "old").await.as_ref(), Ok(b"old bytes"), "seed {seed}");
            assert_eq!(get(files, "new").await.as_ref(), Ok(b"new bytes"), "seed {seed}");
            assert_eq!(files.readdir("").await.expect("it is there").len(), made + 2, "seed {seed}");
            // The room that is kept for removals is still there.
            files.unlink("new").await.expect("a full disk can be emptied");
        });
    }
}

/// A server that forgets no guest for its silence, and its guest.
fn for_ever(config: &mut MeshConfig) {
    let whole = MeshConfig { max_message: FsConfig::new(1).max_message(), ..config.clone() };
    let guests = GuestConfig { lease: Nanos::MAX, ..GuestConfig::default() };
    *config = match config.me == rank(0) {
        true => whole.with_guests(1, guests),
        false => whole.as_guest_of(1),
    };
}

#[test]
fn what_a_guest_has_open_whose_lease_never_ends_is_open_when_its_server_is_back() {
    let cluster = Cluster::special(2, 1, 1, Wait::Poll, for_ever);
    while_its_server_begins_anew(cluster, FsConfig::new(1), &[], async |rt, files| {
        let file = files.create("f", None).await.expect("nothing is there");
        let buffer = files.buffer(5).expect("there is room");
        buffer.write(0, b"bytes").expect("it fits");
        files.write(&file, 0, buffer).await.0.expect("it is open");
        files.unlink("f").await.expect("it is there");
        rt.sleep_until(IS_BACK + ms(20)).await;
        // It gives no signs of life, and so learns of the server's next life by its first call.
        let again = files.read(&file, 0, files.buffer(5).expect("there is room")).await.0;
        assert_eq!(again, Err(FsError::Unknown));
        let (read, buffer) = files.read(&file, 0, files.buffer(5).expect("there is room")).await;
        let mut bytes = [0; 5];
        buffer.read(0, &mut bytes).expect("it has them");
        assert_eq!((read, bytes), (Ok(5), *b"bytes"));
        files.close(file).await.expect("it is open");
    });
}

#[test]
fn a_file_is_closed_though_its_home_has_forgotten_the_client_whose_stream_broke() {
    let config = FsConfig { wire: Wire::Tcp, ..FsConfig::new(1) };
    let cluster = Cluster::with_messages(2, 1, Wait::Poll, config.max_message());
    let start = |member: &Member| Pario::start(&member.rt, &member.mesh, config).expect("it can be");
    let services: Vec<_> = cluster.members.iter().map(start).collect();
    let (ended, files, rt) = (Rc::new(Cell::new(false)), services[1].clone(), cluster.members[1].rt.clone());
    let tell = Rc::clone(&ended);
    drop(cluster.members[1].rt.spawn(async move {
        put(&files, "f", b"bytes").await.expect("nothing is there");
        let file = files.open("f").await.expect("it is there");
        rt.sleep_until(ms(20) + us(1)).await;
        let written = files.write(&file, 0, files.buffer(5).expect("there is room")).await.0;
        assert_eq!(written, Err(FsError::Unknown), "its stream broke");
        rt.sleep_until(CUT).await;
        assert_eq!(files.close(file).await, Ok(()));
        tell.set(true);
    }));
    let link = Link::Pair(NodeId(0), NodeId(1));
    cluster.plan(ms(20), Fault::Cut { link, way: Way::Both, lasts: Some(CUT) });
    cluster.run(CUT * 2);
    assert!(ended.get(), "a call has not ended");
}

/// Bytes of all objects of a node's disk that stay if its machine crashes now.
fn durable(cluster: &Cluster, node: u32) -> usize {
    cluster.fabric.disk_after_crash(NodeId(node), 0).iter().map(|(_, bytes)| bytes.len()).sum()
}

/// A machine that has crashed runs a server again.
fn comes_back(cluster: &mut Cluster, services: &mut [Pario<Sim>], node: u32, config: FsConfig) {
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(node) });
    cluster.run(Nanos(1));
    let member = cluster.start(node);
    services[node as usize] = Pario::start(&member.rt, &member.mesh, config).expect("it can be");
    cluster.members[node as usize] = member;
}

#[test]
fn a_cut_that_a_server_has_carried_out_is_not_carried_out_again_when_that_begins_anew() {
    const STRIP: usize = 4_096;
    let config = FsConfig::new(2);
    let mut cluster = Cluster::with_messages(4, 1, Wait::Poll, config.max_message());
    let start = |member: &Member| Pario::start(&member.rt, &member.mesh, config).expect("it can be");
    let mut services: Vec<_> = cluster.members.iter().map(start).collect();
    let (cut, written) = (Rc::new(RefCell::new(None)), Rc::new(RefCell::new(None)));
    let is_back = Rc::new(Cell::new(false));

    let (rt, files, tell) = (cluster.members[2].rt.clone(), services[2].clone(), Rc::clone(&cut));
    drop(cluster.members[2].rt.spawn(async move {
        let layout = Distribution::stripe(STRIP as u32, 2, 0);
        let file = files.create("f", layout).await.expect("nothing is there");
        files.write(&file, 0, files.buffer(4 * STRIP).expect("there is room")).await.0.expect("it is open");
        rt.sleep_until(ms(20)).await;
        *tell.borrow_mut() = Some(files.truncate(&file, 1).await);
        rt.sleep(Nanos::MAX).await;
    }));
    let (rt, files, tell, back) =
        (cluster.members[3].rt.clone(), services[3].clone(), Rc::clone(&written), Rc::clone(&is_back));
    drop(cluster.members[3].rt.spawn(async move {
        rt.sleep_until(ms(15)).await;
        let file = files.open("f").await.expect("it is there");
        while !back.get() {
            rt.sleep(us(10)).await;
        }
        let buffer = files.buffer(5).expect("there is room");
        buffer.write(0, b"later").expect("it fits");
        // In the second server's part.
        files.write(&file, STRIP as u64, buffer).await.0.expect("its server is back");
        *tell.borrow_mut() = Some(rt.now());
        rt.sleep_until(ms(500)).await;
        let (read, buffer) = files.read(&file, STRIP as u64, files.buffer(5).expect("there is room")).await;
        let mut bytes = [0; 5];
        buffer.read(0, &mut bytes).expect("it has them");
        assert_eq!((read, bytes), (Ok(5), *b"later"), "what was answered is there");
    }));

    cluster.run(ms(19));
    assert_eq!(durable(&cluster, 1), 2 * STRIP);
    while durable(&cluster, 1) > 0 {
        cluster.run(Nanos(100));
    }
    // The home does not hear of it for a while.
    let (now, link) = (cluster.fabric.now(), Link::Pair(NodeId(0), NodeId(1)));
    cluster.plan(now, Fault::Cut { link, way: Way::Both, lasts: Some(ms(50)) });
    cluster.plan(now, Fault::Crash { node: NodeId(1) });
    cluster.run(ms(1));
    assert_eq!(*cut.borrow(), None, "it was answered before the crash");
    comes_back(&mut cluster, &mut services, 1, config);
    is_back.set(true);
    cluster.run(ms(600));
    let written = written.borrow().expect("a write ends");
    assert!(written < now + ms(50), "before the home has heard that the server began anew: {written}");
    assert_eq!(*cut.borrow(), Some(Err(FsError::Unknown)));
}

#[test]
fn an_object_whose_removal_waits_for_a_stream_that_breaks_is_removed_when_its_server_is_back() {
    const LONG: usize = 64 << 10;
    let config = FsConfig { wire: Wire::Tcp, window: 256, ..FsConfig::new(2) };
    let mut cluster = Cluster::with_messages(3, 1, Wait::Poll, config.max_message());
    let start = |member: &Member| Pario::start(&member.rt, &member.mesh, config).expect("it can be");
    let mut services: Vec<_> = cluster.members.iter().map(start).collect();
    let (gone, removed) = (Rc::new(Cell::new(None)), Rc::new(RefCell::new(None)));

    // Much waits for room in the stream from the home to the other server, which does not read it.
    let (rt, files) = (cluster.members[0].rt.clone(), services[0].clone());
    drop(cluster.members[0].rt.spawn(async move {
        let file = files.create("busy", Some(Distribution::single(1))).await.expect("nothing is there");
        let file = Rc::new(file);
        rt.sleep_until(ms(20)).await;
        for nth in 0..200 {
            let (files, file) = (files.clone(), Rc::clone(&file));
            drop(rt.spawn(async move {
                let buffer = files.buffer(LONG).expect("there is room");
                drop(files.write(&file, nth * LONG as u64, buffer).await);
            }));
        }
    }));
    let (rt, files) = (cluster.members[2].rt.clone(), services[2].clone());
    let (tell, told) = (Rc::clone(&gone), Rc::clone(&removed));
    drop(cluster.members[2].rt.spawn(async move {
        let file = files.create("gone", Some(Distribution::single(1))).await.expect("nothing is there");
        files.write(&file, 0, files.buffer(1).expect("there is room")).await.0.expect("it is open");
        tell.set(Some(file.handle()));
        files.close(file).await.expect("it is open");
        rt.sleep_until(ms(30)).await;
        *told.borrow_mut() = Some(files.unlink("gone").await);
    }));

    cluster.run(ms(20) + us(100));
    cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(1) });
    cluster.run(ms(20));
    let is_there = |cluster: &Cluster| {
        let handle = gone.get().expect("it was made");
        let objects = cluster.fabric.disk_after_crash(NodeId(1), 0);
        objects.iter().any(|(object, _)| object.0 == handle.0)
    };
    assert!(is_there(&cluster) && removed.borrow().is_none(), "its removal is under way");
    comes_back(&mut cluster, &mut services, 1, config);
    cluster.run(ms(2_000));
    assert_eq!(*removed.borrow(), Some(Ok(())));
    assert!(!is_there(&cluster), "nobody removes it any more");
}

/// As many removals and cuts as a client may ask for at a time wait for that server, and their user has given them up.
#[test]
fn while_a_server_is_down_calls_that_do_not_need_it_are_answered_and_removals_are_too() {
    const STRIP: usize = 4_096;
    for wire in [Wire::Verbs, Wire::Tcp] {
        let config = FsConfig { wire, window: 4, ..FsConfig::new(2) };
        let mut cluster = Cluster::with_messages(3, 1, Wait::Poll, config.max_message());
        let start = |member: &Member| Pario::start(&member.rt, &member.mesh, config).expect("it can be");
        let mut services: Vec<_> = cluster.members.iter().map(start).collect();
        let (rt, files) = (cluster.members[2].rt.clone(), services[2].clone());
        let took = Rc::new(RefCell::new(Vec::new()));
        let tell = Rc::clone(&took);
        drop(cluster.members[2].rt.spawn(async move {
            let mut cut = Vec::new();
            for nth in 0..10 {
                let layout = Distribution::stripe(STRIP as u32, 2, 0);
                let file = files.create(&format!("f{nth}"), layout).await.expect("nothing is there");
                let buffer = files.buffer(2 * STRIP).expect("there is room");
                files.write(&file, 0, buffer).await.0.expect("it is open");
                match nth {
                    0..4 => cut.push(file),
                    _ => files.close(file).await.expect("it is open"),
                }
            }
            rt.sleep_until(ms(100)).await;
            for (nth, file) in cut.into_iter().enumerate() {
                let (rt, files) = (rt.clone(), files.clone());
                drop(rt.clone().spawn(async move {
                    let name = format!("f{}", nth + 4);
                    let removed = rt.deadline(rt.now() + ms(50), files.unlink(&name)).await;
                    let cut = rt.deadline(rt.now() + ms(50), files.truncate(&file, 1)).await;
                    assert!(removed.is_err() && cut.is_err(), "the other server is down");
                }));
            }
            rt.sleep_until(ms(300)).await;
            for (directory, file) in [("d", "f8"), ("e", "f9")] {
                let asked = rt.now();
                files.mkdir(directory).await.expect("nothing is there");
                files.unlink(file).await.expect("it is there");
                tell.borrow_mut().push(rt.now() - asked);
            }
        }));
        cluster.run(ms(90));
        assert_eq!(durable(&cluster, 1), 10 * STRIP, "{wire:?}");
        cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(1) });
        cluster.run(ms(2_000));
        assert!(
            matches!(took.borrow()[..], [one, two] if one < ms(1_000) && two < ms(50)),
            "{wire:?}: {took:?}"
        );
        if wire == Wire::Tcp {
            // Its machine is there, and refuses streams.
            cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(1) });
            cluster.run(Nanos(1));
            cluster.members[1] = cluster.start(1);
            let asked = services[0].stats().asked;
            cluster.run(ms(5_000));
            let asked = services[0].stats().asked - asked;
            assert!(
                asked < 100,
                "for a second each of four removals and four cuts asks it but once: {asked}"
            );
            services[1] = start(&cluster.members[1]);
        } else {
            comes_back(&mut cluster, &mut services, 1, config);
        }
        cluster.run(ms(2_000));
        let objects = cluster.fabric.disk_after_crash(NodeId(1), 0).len();
        assert_eq!(objects, 4, "{wire:?}: what was removed is gone");
        for node in [0, 2] {
            let left = services[node].leftovers();
            assert!(left.iter().all(|(_, count)| *count == 0), "{wire:?}, node {node}: {left:?}");
        }
    }
}
