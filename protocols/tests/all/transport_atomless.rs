//! Nodes whose adapters have no remote atomics, and refuse queue pairs that are to serve them.

use crate::common::{Cluster, ms, rank};
use weft_protocols::transport::{Channel, GuestConfig, Incoming, Introduced, MeshConfig};
use weft_verbs::{AccessFlags, MemoryRegion};

const CHANNEL: Channel = Channel(3);

/// Connects all nodes without the connection manager.
fn connect_by_cards(cluster: &Cluster) {
    let introduced: Vec<_> = cluster
        .members
        .iter()
        .map(|member| member.mesh.introduce(0).expect("nothing was said yet"))
        .collect();
    let cards: Vec<_> = introduced.iter().map(Introduced::cards).collect();
    let of = |node: usize| cards.iter().map(|cards| cards[node].clone()).collect::<Vec<_>>();
    let receiving = introduced.into_iter().enumerate().map(|(node, of_node)| of_node.receive(&of(node)));
    let receiving: Vec<_> = receiving.collect::<Result<_, _>>().expect("good cards");
    receiving.into_iter().for_each(|node| node.connect().expect("all receive"));
}

#[test]
fn nodes_connect_either_way_and_a_processor_stands_in_for_its_adapter() {
    for by_cards in [false, true] {
        let cluster = Cluster::without_atomics(3, 1, |_| {});
        if by_cards {
            connect_by_cards(&cluster);
        }
        let rights = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC;
        let word = cluster.members[0].mesh.alloc(8, rights).expect("there is memory");
        let there = word.remote(0..8).expect("a word");
        let mut inbox = cluster.members[1].mesh.open(CHANNEL).expect("free");
        for (node, member) in cluster.members.iter().enumerate() {
            let mesh = member.mesh.clone();
            drop(member.rt.spawn(async move {
                mesh.send(rank(1), CHANNEL, &[node as u8]).expect("there is room");
                mesh.fetch_add(rank(0), there, 1).await.expect("it executes");
            }));
        }
        cluster.run(ms(100));
        assert_eq!(word.load(0), Ok(3), "by cards: {by_cards}");
        assert_eq!(std::iter::from_fn(|| inbox.try_recv()).count(), 3, "by cards: {by_cards}");
    }
}

#[test]
fn a_guest_connects_to_its_server() {
    let special = |config: &mut MeshConfig| {
        let whole = config.clone();
        *config = match config.me == rank(0) {
            true => whole.with_guests(1, GuestConfig::default()),
            false => whole.as_guest_of(1),
        };
    };
    let cluster = Cluster::without_atomics(2, 1, special);
    let mut inbox = cluster.members[0].mesh.open(CHANNEL).expect("free");
    let guest = cluster.members[1].mesh.clone();
    cluster.members[1].at(ms(1), move || guest.send(rank(0), CHANNEL, b"hello").expect("there is room"));
    cluster.run(ms(100));
    assert!(matches!(inbox.try_recv(), Some(Incoming::Message(message)) if message[..] == *b"hello"));
}
