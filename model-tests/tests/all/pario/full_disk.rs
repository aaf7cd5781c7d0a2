//! A full disk can be emptied by removing, whatever filled it and in whatever order it is removed.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use weft_check::paper::{Cluster, Machine};
use weft_protocols::pario::{FsConfig, FsError, Pario, SetAttributes};
use weft_sim::profile::Profile;
use weft_sim::{Config, Sim};
use weft_verbs::{Nanos, Wait};

/// Bytes of each server's disk.
const CAPACITY: u64 = 256 << 10;

/// Makes files until no more can be made: with so many bytes in each. Says how many there are.
async fn fill(files: &Pario<Sim>, prefix: &str, bytes: usize) -> Result<u32, FsError> {
    for number in 0.. {
        let file = match files.create(&format!("{prefix}{number}"), None).await {
            Err(FsError::Full) => return Ok(number),
            made => made?,
        };
        let written = match bytes {
            0 => Ok(()),
            _ => files.write(&file, 0, files.buffer(bytes)?).await.0,
        };
        files.close(file).await?;
        match written {
            Err(FsError::Full) => return Ok(number + 1),
            written => written?,
        }
    }
    Ok(0)
}

/// Adds to a file until the last byte of the disk is taken.
async fn top_up(files: &Pario<Sim>, path: &str) -> Result<(), FsError> {
    let file = files.open(path).await?;
    let mut end = files.size(&file).await?;
    for len in [512_usize, 8, 1] {
        while files.write(&file, end, files.buffer(len)?).await.0.is_ok() {
            end += len as u64;
        }
    }
    files.close(file).await
}

async fn fills_and_empties(files: Pario<Sim>) -> Result<[u32; 4], FsError> {
    let mut made = [0; 4];
    for (nth, made) in made.iter_mut().enumerate() {
        // Names take room, too: there are more of them than the room that is kept for a hundred.
        let named = fill_names(&files, if nth % 2 == 0 { 300 } else { 0 }).await?;
        let written = fill(&files, "written", 4 << 10).await?;
        // Of two servers each has one of them.
        for path in ["written0", "written1"] {
            top_up(&files, path).await?;
        }
        let empty = fill(&files, "empty", 0).await?;
        // What frees nothing first.
        for number in 0..named {
            files.unlink(&format!("named{number}")).await?;
        }
        for number in 0..empty {
            files.unlink(&format!("empty{number}")).await?;
        }
        for number in 0..written {
            files.unlink(&format!("written{number}")).await?;
        }
        assert_eq!(files.readdir("").await?, []);
        *made = written;
    }
    Ok(made)
}

async fn fill_names(files: &Pario<Sim>, names: u32) -> Result<u32, FsError> {
    for number in 0..names {
        let file = files.create(&format!("named{number}"), None).await?;
        files.close(file).await?;
    }
    Ok(names)
}

/// Fills a disk, and alters a file as often as there is room. Says how often that was.
async fn alters_and_empties(files: Pario<Sim>) -> Result<u32, FsError> {
    let named = fill_names(&files, 20).await?;
    let written = fill(&files, "written", 4 << 10).await?;
    top_up(&files, "written0").await?;
    let mut altered = 0;
    let set = SetAttributes { modified: Some(1), ..SetAttributes::default() };
    while altered < 1_000 {
        match files.set_attributes("written0", set).await {
            Err(FsError::Full) => break,
            set => set?,
        }
        altered += 1;
    }
    for number in 0..named {
        files.unlink(&format!("named{number}")).await?;
    }
    for number in 0..written {
        files.unlink(&format!("written{number}")).await?;
    }
    assert_eq!(files.readdir("").await?, []);
    Ok(altered)
}

/// What comes of a client's work at so many servers with small disks.
fn on_small_disks<T: 'static, F>(servers: u32, work: impl FnOnce(Pario<Sim>) -> F) -> T
where
    F: Future<Output = Result<T, FsError>> + 'static,
{
    let mut profile = Profile::builtin("present-day").expect("a profile");
    profile.disk.as_mut().expect("a disk").capacity_bytes = CAPACITY;
    let config = FsConfig::new(servers);
    let change = |mesh: &mut weft_protocols::transport::MeshConfig| {
        mesh.max_message = config.max_message();
    };
    let cluster = Cluster::new(Config::new(3, profile), |_| Wait::Poll, change).expect("a cluster");
    let start = |Machine { rt, mesh }: &Machine| Pario::start(rt, mesh, config).expect("it can be");
    let files: Vec<_> = cluster.machines.iter().map(start).collect();
    let ended = Rc::new(RefCell::new(Vec::new()));
    let (client, end) = (work(files[2].clone()), Rc::clone(&ended));
    drop(cluster.machines[2].rt.spawn(async move {
        let done = client.await;
        end.borrow_mut().push(done);
    }));
    let mut ended = cluster.finish(Nanos::from_secs(60), &ended, 1).expect("all calls end");
    ended.remove(0).unwrap_or_else(|why| panic!("{servers} servers: {why}"))
}

#[test]
fn a_full_disk_can_be_emptied_by_removing_whatever_filled_it() {
    for servers in [1, 2] {
        let made = on_small_disks(servers, fills_and_empties);
        // A log is up to 1 MiB longer by then, which is much of such a disk.
        assert!(made.iter().all(|made| *made > 10), "{servers} servers: {made:?}");
    }
}

#[test]
fn a_full_disk_can_be_emptied_however_often_files_were_altered_on_it() {
    let altered = on_small_disks(1, alters_and_empties);
    // Half a piece of the log's room is there for it, and none that removals take.
    assert!((1..1_000).contains(&altered), "{altered}");
}
