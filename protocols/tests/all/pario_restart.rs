//! Files whose server begins anew: what was refused has not happened, and what was answered is there.

use crate::common::{Cluster, Member, ms};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::pario::{FsConfig, FsError, Pario};
use weft_protocols::rt::Rt;
use weft_sim::fault::Fault;
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

/// When the server crashes, and when it is there again.
const CRASHES: Nanos = Nanos::from_millis(100);
const IS_BACK: Nanos = Nanos::from_millis(101);

/// Runs what a client does to its end, while the machine with the only server crashes and comes back. `faults` strike before that.
fn while_the_server_begins_anew(
    seed: u64,
    config: FsConfig,
    faults: &[(Nanos, Fault)],
    does: impl AsyncFn(&Rt<Sim>, &Pario<Sim>) + 'static,
) {
    let mut cluster = Cluster::with_messages(2, seed, Wait::Poll, config.max_message());
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
    assert!(ended.get(), "seed {seed}: a call has not ended");
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
