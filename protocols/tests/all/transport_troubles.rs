//! Connections that do not come to be: both ends say why, until there is one.

use crate::common::{Cluster, STYLES, ms, rank};
use weft_protocols::transport::{Cause, Channel, Incoming, Rejection};
use weft_sim::NodeId;
use weft_sim::fault::Fault;
use weft_verbs::VerbsError;

const CHANNEL: Channel = Channel(3);

/// `ENOMEM`, as at the limit of locked memory.
const NO_MEMORY: VerbsError = VerbsError::Os { call: "ibv_create_qp", errno: 12 };

#[test]
fn a_node_at_its_limit_of_locked_memory_and_who_wants_to_connect_to_it_say_why_they_cannot() {
    for style in STYLES {
        let cluster = Cluster::new(2, 1, style);
        let mut inbox = cluster.members[1].mesh.open(CHANNEL).expect("free");
        cluster.plan(ms(1), Fault::NoMemory { node: NodeId(1), lasts: Some(ms(30)) });
        let mesh = cluster.members[0].mesh.clone();
        cluster.members[0].at(ms(2), move || mesh.send(rank(1), CHANNEL, b"late").expect("there is room"));
        cluster.run(ms(20));
        let troubles = [0, 1].map(|node| cluster.members[node].mesh.troubles());
        let causes = troubles.each_ref().map(|all| {
            let all: Vec<_> = all.iter().map(|trouble| (trouble.peer, trouble.cause)).collect();
            all
        });
        let turned_down = Cause::Rejected(Rejection::Unable);
        assert_eq!(
            causes,
            [vec![(Some(rank(1)), turned_down)], vec![(Some(rank(0)), Cause::Queue(NO_MEMORY))]]
        );
        assert!(troubles.iter().flatten().all(|trouble| trouble.times > 1), "{troubles:?}");
        cluster.run(ms(80));
        assert!(matches!(inbox.try_recv(), Some(Incoming::Message(_))));
        for member in &cluster.members {
            assert_eq!(member.mesh.troubles(), [], "they are connected");
        }
    }
}
