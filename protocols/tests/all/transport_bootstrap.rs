//! Meshes that connect by cards, which the test carries, without the connection manager.

use crate::common::{Cluster, STYLES, ms, rank};
use weft_protocols::transport::{Acquainted, BootstrapError, Channel, Incoming, Introduced};
use weft_sim::Sim;
use weft_verbs::{AccessFlags, MemoryRegion, Nanos};

const CHANNEL: Channel = Channel(3);

type Cards = Vec<Vec<u8>>;

/// Each node with its queue pairs, and the cards that each has for each.
fn introduced(cluster: &Cluster) -> (Vec<Introduced<Sim>>, Vec<Cards>) {
    let nodes: Vec<_> = cluster
        .members
        .iter()
        .map(|member| member.mesh.introduce(0).expect("nothing was said yet"))
        .collect();
    let cards = nodes.iter().map(Introduced::cards).collect();
    (nodes, cards)
}

/// The cards for a node.
fn cards_for(cards: &[Cards], node: usize) -> Cards {
    cards.iter().map(|of| of[node].clone()).collect()
}

fn receiving(nodes: Vec<Introduced<Sim>>, cards: &[Cards]) -> Vec<Acquainted<Sim>> {
    let receive = |(node, of): (usize, Introduced<Sim>)| of.receive(&cards_for(cards, node)).expect("cards");
    nodes.into_iter().enumerate().map(receive).collect()
}

/// From a moment on every node sends to every other one and adds to a word of the first. Looked at 100 ms later.
fn use_it(cluster: &Cluster, at: Nanos) {
    let nodes = cluster.members.len();
    let words = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC;
    let word = cluster.members[0].mesh.alloc(8, words).expect("memory");
    let there = word.remote(0..8).expect("a word");
    let mut inboxes: Vec<_> = cluster.members.iter().map(|m| m.mesh.open(CHANNEL).expect("free")).collect();
    for (node, member) in cluster.members.iter().enumerate() {
        let (mesh, rt) = (member.mesh.clone(), member.rt.clone());
        drop(member.rt.spawn(async move {
            rt.sleep_until(at).await;
            for peer in (0..nodes).filter(|peer| *peer != node) {
                mesh.send(rank(peer), CHANNEL, &[node as u8]).expect("there is room");
            }
            mesh.fetch_add(rank(0), there, 1).await.expect("it executes");
        }));
    }
    cluster.run(at + ms(100));
    assert_eq!(word.load(0), Ok(nodes as u64));
    for (node, inbox) in inboxes.iter_mut().enumerate() {
        let sender = |incoming| match incoming {
            Incoming::Message(m) => usize::from(m[0]),
            other => panic!("{other:?}"),
        };
        let mut heard: Vec<_> = std::iter::from_fn(|| inbox.try_recv()).map(sender).collect();
        heard.sort_unstable();
        let others: Vec<_> = (0..nodes).filter(|peer| *peer != node).collect();
        assert_eq!(heard, others);
    }
}

#[test]
fn nodes_connect_by_cards_and_the_connection_manager_is_not_asked() {
    for style in STYLES {
        let cluster = Cluster::new(4, 1, style);
        let (nodes, cards) = introduced(&cluster);
        receiving(nodes, &cards).into_iter().try_for_each(Acquainted::connect).expect("connected");
        use_it(&cluster, ms(1));
        for member in &cluster.members {
            let stats = member.mesh.stats();
            let seen = (member.mesh.audit().connections, stats.reconnects, stats.fences);
            assert_eq!(seen, (4, 0, 0), "three peers and itself, and nothing was made anew");
        }
    }
}

#[test]
fn a_card_that_is_missing_strange_or_anothers_is_refused_by_name() {
    let cluster = Cluster::new(3, 1, STYLES[0]);
    let refused = |change: &dyn Fn(&mut Cards)| {
        let (mut nodes, cards) = introduced(&Cluster::new(3, 1, STYLES[0]));
        let mut cards = cards_for(&cards, 0);
        change(&mut cards);
        nodes.swap_remove(0).receive(&cards).err()
    };
    assert_eq!(refused(&|_| ()), None);
    let of = |node: &str| Some(BootstrapError::Card(node.to_string()));
    assert_eq!(refused(&|cards| drop(cards.pop())), Some(BootstrapError::Cards { got: 2, want: 3 }));
    assert_eq!(refused(&|cards| cards[1].clear()), of("n1"));
    assert_eq!(refused(&|cards| cards[2] = b"GET / HTTP/1.1".to_vec()), of("n2"));
    assert_eq!(refused(&|cards| cards.swap(1, 2)), of("n1"), "the cards of two nodes, exchanged");
    // A node that has spoken cannot begin anew.
    cluster.members[0].mesh.send(rank(1), CHANNEL, b"early").expect("there is room");
    cluster.run(ms(1));
    let said = cluster.members[0].mesh.introduce(0).err().expect("it has a connection").to_string();
    assert_eq!(said, "the connection to n1: rank 2 is connected, or was");
}
