//! Meshes that connect over byte streams, without the connection manager.

use crate::common::{Cluster, STYLES, ms, rank, seeds};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::transport::{Bootstrap, BootstrapError, Channel, Incoming};
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::{AccessFlags, Context, MemoryRegion, Nanos, OutOfBand, Service};

const HOW: Bootstrap = Bootstrap { service: Service(700), gid_index: 0, timeout: Nanos::from_secs(20) };
const CHANNEL: Channel = Channel(3);

type End = Result<(), BootstrapError>;

/// What became of each node's bootstrap.
#[derive(Clone, Default)]
struct Ends(Rc<RefCell<Vec<(usize, End)>>>);

impl Ends {
    fn sorted(&self) -> Vec<(usize, End)> {
        let mut ends = self.0.borrow().clone();
        ends.sort_by_key(|(node, _)| *node);
        ends
    }
}

/// A node connects at a moment.
fn join(cluster: &Cluster, node: usize, at: Nanos, how: Bootstrap, ends: &Ends) {
    let member = &cluster.members[node];
    let (mesh, rt, ends) = (member.mesh.clone(), member.rt.clone(), ends.clone());
    drop(member.rt.spawn(async move {
        rt.sleep_until(at).await;
        let end = mesh.bootstrap(how).await;
        ends.0.borrow_mut().push((node, end));
    }));
}

/// From a moment on every node sends to every other one and adds to a word of the first. Looked at 100 ms later.
fn use_it(cluster: &Cluster, at: Nanos, context: &str) {
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
    assert_eq!(word.load(0), Ok(nodes as u64), "{context}");
    for (node, inbox) in inboxes.iter_mut().enumerate() {
        let sender = |incoming| match incoming {
            Incoming::Message(m) => usize::from(m[0]),
            other => panic!("{context}: {other:?}"),
        };
        let mut heard: Vec<_> = std::iter::from_fn(|| inbox.try_recv()).map(sender).collect();
        heard.sort_unstable();
        let others: Vec<_> = (0..nodes).filter(|peer| *peer != node).collect();
        assert_eq!(heard, others, "{context}");
    }
}

#[test]
fn nodes_connect_over_byte_streams_and_the_connection_manager_is_not_asked() {
    for style in STYLES {
        let cluster = Cluster::new(4, 1, style);
        let ends = Ends::default();
        (0..4).for_each(|node| join(&cluster, node, Nanos::ZERO, HOW, &ends));
        use_it(&cluster, ms(500), "quiet");
        assert_eq!(ends.sorted(), [0, 1, 2, 3].map(|node| (node, Ok(()))));
        for member in &cluster.members {
            let stats = member.mesh.stats();
            let seen = (member.mesh.audit().connections, stats.reconnects, stats.fences);
            assert_eq!(seen, (4, 0, 0), "three peers and itself, and nothing was made anew");
        }
    }
}

#[test]
fn a_link_that_is_cut_while_nodes_meet_delays_them_and_no_more() {
    for seed in seeds(20) {
        let cluster = Cluster::new(3, seed, STYLES[0]);
        let link = Link::Pair(NodeId(0), NodeId(1 + (seed % 2) as u32));
        let at = Nanos::from_micros(5 * seed);
        cluster.plan(at, Fault::Cut { link, way: Way::Both, lasts: Some(ms(300)) });
        let ends = Ends::default();
        (0..3).for_each(|node| join(&cluster, node, Nanos::ZERO, HOW, &ends));
        use_it(&cluster, ms(19_000), &format!("seed {seed}"));
        assert_eq!(ends.sorted(), [0, 1, 2].map(|node| (node, Ok(()))), "seed {seed}");
    }
}

#[test]
fn who_does_not_come_is_named() {
    let cluster = Cluster::new(3, 1, STYLES[0]);
    let (how, ends) = (Bootstrap { timeout: ms(200), ..HOW }, Ends::default());
    [0, 2].into_iter().for_each(|node| join(&cluster, node, Nanos::ZERO, how, &ends));
    cluster.run(ms(1_000));
    let ends = ends.sorted();
    let [(0, first), (2, second)] = &ends[..] else { panic!("{ends:?}") };
    // Node 2 calls node 1 next, and gives up.
    assert_eq!(*first, Err(BootstrapError::Absent(vec!["n1".to_string()])));
    assert!(matches!(second, Err(BootstrapError::Unreachable { node, .. }) if node == "n1"), "{second:?}");
}

/// Somebody calls and says nothing; the peer that is awaited is heard all the same.
#[test]
fn a_stranger_at_the_meeting_place_is_hung_up_on() {
    let cluster = Cluster::new(2, 1, STYLES[0]);
    let ends = Ends::default();
    join(&cluster, 0, Nanos::ZERO, HOW, &ends);
    join(&cluster, 1, ms(100), HOW, &ends);
    let member = &cluster.members[1];
    let (rt, line) = (member.rt.clone(), Rc::new(RefCell::new(None)));
    let kept = Rc::clone(&line);
    drop(member.rt.spawn(async move {
        rt.sleep(ms(1)).await;
        let oob = rt.context().out_of_band().expect("the fabric has streams");
        kept.replace(oob.connect("n0", HOW.service).ok());
    }));
    cluster.run(ms(50));
    assert!(line.borrow().is_some(), "the stranger was not let in");
    use_it(&cluster, ms(19_000), "a stranger");
    assert_eq!(ends.sorted(), [(0, Ok(())), (1, Ok(()))]);
}
