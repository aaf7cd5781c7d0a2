//! The state machine, driven by hand.

use super::*;

const PROBE: Duration = Duration::from_millis(1_000);
const GATHER: Duration = Duration::from_millis(20);
const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn roster(nodes: u32) -> Roster {
    let text = |text: &str| text.to_string();
    let terms = Terms { cluster: text("c"), program: text("1"), scenario: text("d"), nodes };
    Roster::new(terms, PROBE, GATHER)
}

fn joins(rank: u32, incarnation: u64) -> Join {
    let text = |text: &str| text.to_string();
    let (cluster, program, scenario) = (text("c"), text("1"), text("d"));
    Join { cluster, program, scenario, rank, nodes: 3, incarnation, address: None, blob: vec![rank as u8] }
}

fn from(rank: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, rank])
}

/// What an operator reads, and who is told what: ranks with their presence.
fn done(roster: &mut Roster) -> Vec<String> {
    let shown = |action: Action| match action {
        Action::Note(note) => note.to_string(),
        Action::Tell(conns, entries) => {
            let conns: Vec<u64> = conns.iter().map(|conn| conn.0).collect();
            let entries: Vec<_> = entries.into_iter().map(|entry| (entry.rank, entry.presence)).collect();
            format!("tell {conns:?} {entries:?}")
        }
        Action::Welcome(conn) => format!("welcome {}", conn.0),
        Action::Refuse(conn, _) => format!("refuse {}", conn.0),
        Action::Probe(conn) => format!("probe {}", conn.0),
        Action::Farewell(conn) => format!("farewell {}", conn.0),
        Action::Drop(conn) => format!("drop {}", conn.0),
    };
    roster.actions().into_iter().map(shown).collect()
}

/// Three nodes that have met and know it, on connections 0, 1, 2.
fn met() -> Roster {
    let mut roster = roster(3);
    for rank in 0..3 {
        roster.join(ms(0), ConnId(rank), from(rank as u8), joins(rank as u32, rank));
    }
    roster.tick(GATHER);
    roster.actions();
    roster
}

/// Its connection broke at its own end only, so that the question whether it is there went nowhere.
#[test]
fn a_node_that_comes_back_while_another_process_claims_its_rank_keeps_it() {
    let mut roster = met();
    roster.join(ms(100), ConnId(5), from(5), joins(1, 77));
    roster.actions();
    roster.join(ms(300), ConnId(6), from(1), joins(1, 1));
    let told = done(&mut roster);
    assert!(told.iter().any(|line| line.starts_with("refuse 5")), "{told:?}");
    roster.tick(ms(100) + PROBE);
    let told = done(&mut roster);
    assert!(roster.conn(1) == Some(ConnId(6)) && !told.iter().any(|line| line.contains("lost")), "{told:?}");
}

#[test]
fn nodes_that_come_together_are_told_of_together() {
    let mut roster = roster(3);
    roster.join(ms(0), ConnId(7), from(0), joins(0, 1));
    roster.join(ms(5), ConnId(8), from(1), joins(1, 2));
    assert_eq!(
        done(&mut roster),
        [
            "welcome 7",
            "node 0 joined from 10.0.0.0: 1 of 3 are here",
            "welcome 8",
            "node 1 joined from 10.0.0.1: 2 of 3 are here",
        ]
    );
    roster.tick(ms(19));
    assert_eq!((done(&mut roster), roster.deadline()), (vec![], Some(ms(20))));
    roster.tick(ms(20));
    assert_eq!(done(&mut roster), ["tell [7, 8] [(0, Present), (1, Present)]"]);
    assert_eq!(roster.deadline(), None, "nothing is owed");
    roster.join(ms(30), ConnId(9), from(2), joins(2, 3));
    roster.tick(ms(50));
    assert_eq!(
        done(&mut roster),
        [
            "welcome 9",
            "node 2 joined from 10.0.0.2: 3 of 3 are here",
            "all 3 nodes have met",
            "tell [9] [(0, Present), (1, Present), (2, Present)]",
            "tell [7, 8] [(2, Present)]",
        ]
    );
}

#[test]
fn a_rank_whose_holder_answers_is_not_given_away() {
    let mut roster = met();
    roster.join(ms(100), ConnId(5), from(9), joins(1, 77));
    assert_eq!(done(&mut roster), ["probe 1"]);
    roster.is_here(ConnId(1));
    assert_eq!(
        done(&mut roster),
        [
            "refuse 5",
            "refused a node at 10.0.0.9: rank 1 is taken by 10.0.0.1, which is alive: give this node a rank of its own",
        ]
    );
    assert_eq!((roster.deadline(), roster.conn(1)), (None, Some(ConnId(1))));
}

#[test]
fn a_rank_whose_holder_is_silent_goes_to_the_process_that_claims_it() {
    let mut roster = met();
    roster.join(ms(100), ConnId(5), from(9), joins(1, 77));
    // A third one does not wait in line.
    roster.join(ms(200), ConnId(6), from(8), joins(1, 78));
    assert_eq!(done(&mut roster)[1], "refuse 6");
    roster.tick(ms(1_100));
    roster.tick(ms(1_120));
    assert_eq!(
        done(&mut roster),
        [
            "drop 1",
            "node 1 was lost: it did not answer while another process claimed its rank",
            "welcome 5",
            "node 1 joined from 10.0.0.9: 3 of 3 are here",
            // Others are told of the new one only: they see by its incarnation that it is new.
            "tell [5] [(0, Present), (1, Present), (2, Present)]",
            "tell [0, 2] [(1, Present)]",
        ]
    );
    // The old connection's end says nothing of the new one.
    roster.gone(ms(1_200), ConnId(1), "it closed the connection");
    assert_eq!((done(&mut roster), roster.conn(1)), (vec![], Some(ConnId(5))));
}

#[test]
fn a_process_that_lost_its_connection_has_its_place_at_once_and_others_are_told_nothing() {
    let mut roster = met();
    roster.report(ms(50), ConnId(1), Report { view: Some(view()), ..Report::default() });
    roster.join(ms(100), ConnId(5), from(1), joins(1, 1));
    roster.tick(ms(200));
    assert_eq!(
        done(&mut roster),
        [
            "drop 1",
            "welcome 5",
            "node 1 is connected again",
            "tell [5] [(0, Present), (1, Present), (2, Present)]",
        ]
    );
    assert_eq!(roster.status(ms(300)).members[1].report.view, Some(view()), "its report is kept");
}

fn view() -> crate::message::View {
    crate::message::View { number: 4, members: vec![0, 1] }
}

#[test]
fn a_node_that_leaves_and_one_that_is_lost_are_told_apart() {
    let mut roster = met();
    roster.leave(ms(100), ConnId(2));
    roster.gone(ms(105), ConnId(1), "it closed the connection");
    roster.gone(ms(106), ConnId(2), "it closed the connection");
    roster.tick(ms(120));
    assert_eq!(
        done(&mut roster),
        [
            "farewell 2",
            "node 2 left",
            "node 1 was lost: it closed the connection",
            "tell [0] [(1, Lost(\"it closed the connection\")), (2, Left)]",
        ]
    );
    roster.join(ms(130), ConnId(6), from(2), joins(2, 9));
    assert_eq!(done(&mut roster)[1], "node 2 joined from 10.0.0.2: 2 of 3 are here");
    let counts = roster.counts;
    assert_eq!((counts.joined, counts.left, counts.lost), (4, 1, 1));
}

/// The coordinator began anew, and node 2 is not there any more.
#[test]
fn what_others_knew_of_a_node_that_does_not_come_is_told_to_all_and_it_may_come_later() {
    let mut roster = roster(3);
    roster.join(ms(0), ConnId(0), from(0), joins(0, 1));
    roster.join(ms(0), ConnId(1), from(1), joins(1, 2));
    roster.tick(GATHER);
    roster.actions();
    let knows =
        |rank: u32, presence| Entry { rank, incarnation: 3, address: from(2), blob: vec![9], presence };
    roster.known(ms(100), ConnId(9), knows(2, Presence::Present));
    roster.known(ms(100), ConnId(1), knows(0, Presence::Left));
    roster.known(ms(100), ConnId(1), knows(3, Presence::Present));
    assert_eq!(done(&mut roster), [""; 0], "a stranger's word, one of who is here, and no rank");
    for by in [1, 0] {
        roster.known(ms(100), ConnId(by), knows(2, Presence::Present));
    }
    roster.tick(ms(120));
    assert_eq!(
        done(&mut roster),
        [
            "node 2 was lost: it did not come to the new coordinator",
            "tell [0, 1] [(2, Lost(\"it did not come to the new coordinator\"))]",
        ]
    );
    roster.join(ms(200), ConnId(5), from(2), joins(2, 3));
    assert_eq!(
        done(&mut roster),
        ["welcome 5", "node 2 joined from 10.0.0.2: 3 of 3 are here", "all 3 nodes have met"]
    );
}

#[test]
fn a_call_to_a_node_that_is_down_and_to_one_that_there_is_not_are_told_apart() {
    let mut roster = met();
    roster.leave(ms(100), ConnId(2));
    assert_eq!(roster.callee(Some(1), "files"), Ok((1, ConnId(1))));
    assert_eq!(roster.callee(Some(2), "files"), Err(Refusal::NotHere { node: 2 }));
    assert_eq!(roster.callee(Some(3), "files"), Err(Refusal::NoSuchRank { rank: 3, last: 2 }));
    let system = "files".to_string();
    assert_eq!(roster.callee(None, "files"), Err(Refusal::NoSystem { system }));
}

#[test]
fn a_node_that_has_left_is_known_to_have_left_to_a_new_coordinator() {
    let mut roster = roster(3);
    roster.join(ms(0), ConnId(0), from(0), joins(0, 1));
    roster.tick(GATHER);
    roster.actions();
    let presence = Presence::Left;
    let entry = Entry { rank: 1, incarnation: 3, address: from(2), blob: Vec::new(), presence };
    roster.known(ms(100), ConnId(0), entry);
    roster.tick(ms(120));
    assert_eq!(done(&mut roster), ["tell [0] [(1, Left)]"]);
    assert_eq!(roster.counts.lost, 0);
}

#[test]
fn who_does_not_belong_is_refused_with_what_to_do() {
    let text = |text: &str| text.to_string();
    let cases = [
        (
            Join { cluster: text("d"), ..joins(0, 1) },
            "this is cluster 'c', and the caller belongs to 'd': is the address right?",
        ),
        (
            Join { program: text("2"), ..joins(0, 1) },
            "the coordinator is of version 1, and the caller of 2: install the same one on all machines",
        ),
        (
            Join { scenario: text("e"), ..joins(0, 1) },
            "the coordinator and the caller do not run the same (d and e): give all machines the same file and options",
        ),
        (
            Join { scenario: String::new(), ..joins(0, 1) },
            "the coordinator and the caller do not run the same (d and no systems): give all machines the same file and options",
        ),
        (Join { nodes: 4, ..joins(0, 1) }, "the cluster has 3 nodes, and the caller says 4"),
        (joins(3, 1), "there is no rank 3: the cluster's ranks are 0 to 2"),
        (
            Join { blob: vec![0; BLOB + 1], ..joins(0, 1) },
            "what the node says of its adapters has 4097 bytes, and at most 4096 are taken",
        ),
    ];
    for (join, line) in cases {
        let mut roster = roster(3);
        roster.join(ms(0), ConnId(1), from(1), join);
        assert_eq!(
            done(&mut roster),
            ["refuse 1".to_string(), format!("refused a node at 10.0.0.1: {line}")]
        );
        assert_eq!((roster.counts.refused, roster.deadline()), (1, None));
    }
}

#[test]
fn a_cluster_that_ends_takes_nobody() {
    let mut roster = met();
    roster.join(ms(100), ConnId(5), from(9), joins(1, 77));
    roster.end(ms(110));
    roster.join(ms(120), ConnId(6), from(9), joins(1, 78));
    let line = "refused a node at 10.0.0.9: the coordinator is ending";
    assert_eq!(done(&mut roster), ["probe 1", "refuse 5", line, "refuse 6", line]);
}
