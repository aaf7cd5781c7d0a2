//! Calls that their users drop.

use crate::common::unless_it_waits;
use std::cell::RefCell;
use std::rc::Rc;
use weft_check::paper::{Cluster, Machine};
use weft_protocols::pario::{FsConfig, FsError, Pario};
use weft_sim::profile::Profile;
use weft_sim::{Config, Sim};
use weft_verbs::{Nanos, Wait};

/// Makes a file, removes its name, and drops the call that closes it where it first waits.
async fn closes_half_way(files: Pario<Sim>) -> Result<bool, FsError> {
    let file = files.create("a", None).await?;
    files.unlink("a").await?;
    // A write that nobody waits for keeps the close waiting.
    let buffer = files.buffer(64)?;
    drop(unless_it_waits(files.write(&file, 0, buffer)).await);
    Ok(unless_it_waits(files.close(file)).await.is_some())
}

#[test]
fn a_file_whose_close_was_dropped_is_closed_all_the_same() {
    let profile = Profile::builtin("present-day").expect("a profile");
    let config = FsConfig::new(1);
    let change = |mesh: &mut weft_protocols::transport::MeshConfig| mesh.max_message = config.max_message();
    let cluster = Cluster::new(Config::new(2, profile), |_| Wait::Poll, change).expect("a cluster");
    let start = |Machine { rt, mesh }: &Machine| Pario::start(rt, mesh, config).expect("it can be");
    let files: Vec<_> = cluster.machines.iter().map(start).collect();
    let (client, ended) = (files[1].clone(), Rc::new(RefCell::new(Vec::new())));
    let (end, rt) = (Rc::clone(&ended), cluster.machines[1].rt.clone());
    drop(cluster.machines[1].rt.spawn(async move {
        let done = closes_half_way(client).await;
        rt.sleep(Nanos::from_millis(100)).await;
        end.borrow_mut().push(done);
    }));
    let ended = cluster.finish(Nanos::from_secs(5), &ended, 1).expect("all calls end");
    assert_eq!(ended, [Ok(false)], "it had to wait");
    for (node, files) in files.iter().enumerate() {
        assert!(files.leftovers().iter().all(|(_, left)| *left == 0), "n{node}: {:?}", files.leftovers());
    }
}
