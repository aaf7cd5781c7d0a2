//! The paper's cluster.

use crate::paper::{Cluster, Machine, PaperError, refused};
use weft_protocols::pario::{Distribution, File, FsConfig, Pario};
use weft_protocols::rt::Rt;
use weft_sim::profile::Profile;
use weft_sim::{Config, Sim};
use weft_verbs::{Nanos, Wait};

/// Nodes whose messages may be so long.
pub(super) fn cluster(profile: &Profile, nodes: u32, max_message: u32) -> Result<Cluster, PaperError> {
    let config = Config { sanitize: false, ..Config::new(nodes, profile.clone()) };
    Cluster::new(config, |_| Wait::Poll, |mesh| mesh.max_message = max_message)
}

/// The file that all clients share: the first of them makes it, and the others open it when it is there, at `then`.
pub(super) async fn shared_file(
    rt: &Rt<Sim>,
    files: &Pario<Sim>,
    is_first: bool,
    layout: Distribution,
    then: Nanos,
) -> Option<File<Sim>> {
    if is_first {
        return files.create("a file", Some(layout)).await.ok();
    }
    rt.sleep_until(then).await;
    files.open("a file").await.ok()
}

/// Keeps a file open until then: nobody closes it while others read.
pub(super) async fn keeps_open<T>(rt: &Rt<Sim>, file: T, until: Nanos) {
    rt.sleep_until(until).await;
    drop(file);
}

/// Starts the file service on every node.
pub(super) fn files(cluster: &Cluster, config: FsConfig) -> Result<Vec<Pario<Sim>>, PaperError> {
    let start = |Machine { rt, mesh }: &Machine| Pario::start(rt, mesh, config).map_err(refused);
    cluster.machines.iter().map(start).collect()
}
