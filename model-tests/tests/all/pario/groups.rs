//! Groups of clients: what all call together.

use std::cell::RefCell;
use std::rc::Rc;
use weft_check::paper::{Cluster, Machine};
use weft_protocols::pario::{Datatype, Distribution, FsConfig, FsError, Pario, View};
use weft_sim::profile::Profile;
use weft_sim::{Config, Sim};
use weft_verbs::{Nanos, Wait};

const SERVERS: u32 = 2;
const MEMBERS: u32 = 3;
const ROWS: u64 = 5;
const LEN: u64 = 24;

/// Every third row is a member's.
fn rows(member: u32) -> Option<View> {
    let rows = Datatype::vector(ROWS, LEN * u64::from(MEMBERS), Datatype::bytes(LEN)?)?;
    View::new(u64::from(member) * LEN, rows)
}

async fn member(files: Pario<Sim>, member: u32) -> Result<Vec<u8>, FsError> {
    let group = files.group(7, member, MEMBERS)?;
    assert_eq!(group.open("none").await.err().map(|why| why == FsError::NotFound), Some(true));
    let layout = Distribution::stripe(32, SERVERS as u16, 0).ok_or(FsError::Distribution)?;
    let file = group.create("a", Some(layout)).await?;
    let len = ROWS * LEN;
    let (mine, all) = (rows(member).ok_or(FsError::TooLong)?, View::of(0..len).ok_or(FsError::TooLong)?);
    let buffer = files.buffer(len as usize)?;
    buffer.write(0, &vec![member as u8 + 1; len as usize])?;
    group.write_all(&file, &mine, buffer, &all).await.0?;
    group.barrier().await?;
    let next = rows((member + 1) % MEMBERS).ok_or(FsError::TooLong)?;
    let (read, buffer) = group.read_all(&file, &next, files.buffer(len as usize)?, &all).await;
    assert_eq!(read?, len as usize);
    let mut bytes = vec![0; len as usize];
    buffer.read(0, &mut bytes)?;
    group.resize(&file, 3).await?;
    assert_eq!(files.size(&file).await?, 3, "at every member when it returns");
    group.barrier().await?;
    files.close(file).await?;
    Ok(bytes)
}

#[test]
fn members_see_what_the_others_wrote_before_a_barrier_and_one_resizes_for_all() {
    let profile = Profile::builtin("present-day").expect("a profile");
    let nodes = SERVERS + MEMBERS;
    let config = FsConfig::new(SERVERS);
    let cluster = Cluster::new(
        Config::new(nodes, profile),
        |_| Wait::Poll,
        |mesh| {
            mesh.max_message = config.max_message();
        },
    )
    .expect("a cluster");
    let start = |Machine { rt, mesh }: &Machine| Pario::start(rt, mesh, config).expect("it can be");
    let files: Vec<_> = cluster.machines.iter().map(start).collect();
    let ends = Rc::new(RefCell::new(Vec::new()));
    for nth in 0..MEMBERS {
        let node = (SERVERS + nth) as usize;
        let (files, ends) = (files[node].clone(), Rc::clone(&ends));
        drop(cluster.machines[node].rt.spawn(async move {
            let end = member(files, nth).await;
            ends.borrow_mut().push((nth, end));
        }));
    }
    let mut ends = cluster.finish(Nanos::from_secs(5), &ends, MEMBERS as usize).expect("all end");
    ends.sort_by_key(|(nth, _)| *nth);
    for (nth, end) in ends {
        let other = ((nth + 1) % MEMBERS) as u8 + 1;
        assert_eq!(end, Ok(vec![other; (ROWS * LEN) as usize]), "member {nth}");
    }
    assert!(files.iter().flat_map(Pario::leftovers).all(|(_, left)| left == 0));
}
