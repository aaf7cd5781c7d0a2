//! What `weft cp`, `weft pipe` and `weft perf` are, between nodes of two rails while links fail: copies of files, pipes, measurements.

mod copies;
mod measurements;
mod pipes;

use crate::common::{Cluster, rank};
use std::future::Future;
use std::pin::Pin;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::{Sdp, SdpOptions, SdpStream};
use weft_sim::Sim;
use weft_sim::fault::Fault;
use weft_verbs::{Nanos, Wait};

const PORT: u16 = 22;

#[derive(Clone)]
pub struct Place {
    rt: Rt<Sim>,
    sdp: Sdp<Sim>,
}

pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Runs a task on each of two nodes with two rails, under faults, to their ends.
pub fn both(
    faults: &[(Nanos, Fault)],
    client: impl FnOnce(Place) -> Task,
    server: impl FnOnce(Place) -> Task,
) {
    both_of(Cluster::railed(2, 2, 1, Wait::Notify), faults, client, server);
}

pub fn both_of(
    cluster: Cluster,
    faults: &[(Nanos, Fault)],
    client: impl FnOnce(Place) -> Task,
    server: impl FnOnce(Place) -> Task,
) {
    let options = SdpOptions { buffers: 16, buffer_bytes: 200, ..SdpOptions::default() };
    let places = [0, 1].map(|node| {
        let member = &cluster.members[node];
        let sdp = Sdp::start(&member.rt, &member.mesh, options).expect("good options");
        Place { rt: member.rt.clone(), sdp }
    });
    faults.iter().for_each(|(at, fault)| cluster.plan(*at, *fault));
    let tasks =
        [places[1].rt.spawn(server(places[1].clone())), places[0].rt.spawn(client(places[0].clone()))];
    cluster.run(Nanos::from_secs(100));
    assert!(tasks.iter().all(|task| task.is_finished()), "both come to their ends");
    assert_eq!(places.map(|place| place.sdp.streams()), [0, 0], "no stream is left over");
}

pub async fn accept(place: &Place) -> SdpStream<Sim> {
    place.sdp.bind(PORT).expect("nobody has the port").accept().await.expect("somebody comes")
}

pub async fn connect(place: &Place) -> SdpStream<Sim> {
    place.sdp.connect(rank(1), PORT).await.expect("the server listens")
}

pub fn coded(len: u32) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}
