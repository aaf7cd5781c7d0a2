//! Files where the adapters of a server refuse to register memory for a while.

use crate::common::{Cluster, NOBODYS, ms, rank, us, without_memory};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::pario::{FsConfig, FsError, Pario, Storage};
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::Nanos;

/// One server, whose client's data ride in messages up to 256 bytes.
const CONFIG: FsConfig = FsConfig {
    eager: 256,
    unit: 4_096,
    stages: 4,
    storage: Storage::Memory { most: 1 << 20 },
    ..FsConfig::new(1)
};

/// A node that is to be cut off, and to acknowledge nothing of what the server has used its memory for.
const DEAD: usize = 2;

/// When a write ended, and how.
type Ended = (Nanos, Result<(), FsError>);

/// A server, a client and another node.
fn cluster(rails: u8) -> Cluster {
    // Too short for the longest paths, so that few regions hold all messages.
    Cluster::of_few_regions(3, rails, 4, |config| config.max_message = 802)
}

/// The client writes so many bytes to a file of its own, at each of these moments; when each write ended.
fn writes(cluster: &Cluster, len: usize, moments: [Nanos; 2]) -> Rc<RefCell<Vec<Ended>>> {
    let start = |node: usize| {
        let member = &cluster.members[node];
        Pario::start(&member.rt, &member.mesh, CONFIG).expect("it can be")
    };
    let [_server, files] = [0, 1].map(start);
    let (rt, told) = (cluster.members[1].rt.clone(), Rc::<RefCell<Vec<Ended>>>::default());
    let tells = Rc::clone(&told);
    drop(rt.clone().spawn(async move {
        let file = files.create("f", None).await.expect("nothing is there");
        for at in moments {
            rt.sleep_until(at).await;
            let buffer = files.buffer(len).expect("there is room");
            let (written, _) = files.write(&file, 0, buffer).await;
            tells.borrow_mut().push((rt.now(), written));
        }
    }));
    told
}

/// Cuts the dead node off at a moment, and from then to another one the server has no memory for a message.
fn server_has_no_memory(cluster: &Cluster, from: Nanos, to: Nanos) {
    cluster.plan(from, Fault::Cut { link: Link::Node(NodeId(DEAD as u32)), way: Way::Both, lasts: None });
    let server = cluster.members[0].clone();
    drop(server.rt.clone().spawn(async move { without_memory(&server, DEAD, from + us(5), to).await }));
}

#[test]
fn what_a_server_without_memory_has_done_is_answered_once_there_is_some() {
    let cluster = cluster(1);
    let told = writes(&cluster, 100, [ms(10), ms(20)]);
    server_has_no_memory(&cluster, ms(19), ms(30));
    cluster.run(ms(29));
    assert_eq!(told.borrow().len(), 1, "there is no memory for the second answer");
    cluster.run(ms(31));
    let [(_, before), (answered, written)] = told.take().try_into().expect("both are answered");
    assert_eq!((before, written), (Ok(()), Ok(())));
    assert!((ms(30)..ms(33)).contains(&answered), "{answered}");
}

/// The server has lost the adapter of its first rail.
#[test]
fn a_pull_that_messages_carry_waits_at_its_server_for_memory_for_them() {
    let cluster = cluster(2);
    cluster.plan(ms(5), Fault::PortDown { node: NodeId(0), port: 1, lasts: None });
    for at in [ms(2), ms(7)] {
        let mesh = cluster.members[0].mesh.clone();
        cluster.members[0].at(at, move || {
            [1, DEAD].iter().for_each(|node| mesh.send(rank(*node), NOBODYS, &[0]).expect("there is room"));
        });
    }
    let told = writes(&cluster, 4_096, [ms(12), ms(21)]);
    server_has_no_memory(&cluster, ms(20), ms(30));
    cluster.run(ms(29));
    assert_eq!(cluster.members[0].mesh.rail(rank(1)), Some(1), "messages carry a read over that one");
    assert_eq!(told.borrow().len(), 1, "there is no memory for the messages");
    cluster.run(ms(31));
    let [(_, before), (answered, written)] = told.take().try_into().expect("both are answered");
    assert_eq!((before, written), (Ok(()), Ok(())));
    assert!((ms(30)..ms(33)).contains(&answered), "{answered}");
}
