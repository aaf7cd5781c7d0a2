//! The judge, met by nodes that are written by hand: by the control plane, over the line that every node has.

use super::super::line::Line;
use super::super::meeting::{Agreed, Meeting};
use super::*;
use crate::bridge;
use crate::exit::Failure;
use std::os::unix::net::UnixStream;
use std::thread;
use weft_check::systems::messages::Messages;
use weft_check::systems::messages::history::{Event, Sent, What};
use weft_check::systems::messages::workload::MessageWork;
use weft_control::member::Config;
use weft_control::message::Join;
use weft_control::net::Endpoint;
use weft_control::secret::Secret;

const SECOND: Duration = Duration::from_secs(1);

fn terms(nodes: u32, silence: Duration) -> Terms {
    let (patience, settle, limit) = (SECOND * 5, SECOND * 5, SECOND * 30);
    Terms { nodes, patience, silence, settle, limit, members: false, restarts: false }
}

fn agreed(nodes: u32) -> Agreed {
    Agreed { cluster: "a test".into(), scenario: "the same".into(), nodes, secret: Secret::none() }
}

/// How a process of a rank joins.
fn config(agreed: &Agreed, port: u16, rank: u32, incarnation: u64) -> Config {
    let Agreed { cluster, scenario, nodes, secret } = agreed.clone();
    let program = crate::control::PROGRAM.to_string();
    let join = Join { cluster, program, scenario, rank, nodes, incarnation, address: None, blob: Vec::new() };
    Config {
        at: Endpoint::new("127.0.0.1", port),
        join,
        secret,
        timing: Agreed::timing(),
        patience: SECOND * 5,
    }
}

struct Node {
    stream: UnixStream,
    line: Line,
    heard: Vec<u8>,
    rank: u32,
}

impl Node {
    fn join(port: u16, rank: u32, incarnation: u64) -> Node {
        let (stream, line) = Line::open(config(&agreed(2), port, rank, incarnation)).expect("a line");
        let mut node = Node { stream, line, heard: Vec::new(), rank };
        node.say(&ToCoordinator::Hello { addresses: vec![IpAddr::from([10, 0, 0, rank as u8])] });
        node
    }

    fn say(&mut self, up: &Up<Messages>) {
        let mut bytes = Vec::new();
        bridge::write(&body(up), &mut bytes);
        self.stream.write_all(&bytes).expect("said");
    }

    fn hear(&mut self) -> ToNode {
        let message = bridge::next(&mut self.stream, &mut self.heard).expect("a socket");
        serde_json::from_slice(&message.expect("the line holds")).expect("a message")
    }

    /// Goes, and waits until that is known.
    fn go(self) {
        let Node { stream, line, .. } = self;
        drop(stream);
        line.close(Ok(())).expect("it left");
    }

    fn sees(&mut self, what: What) {
        self.say(&ToCoordinator::Saw(Event { at: Nanos(1), node: self.rank, what }));
        assert!(matches!(self.hear(), ToNode::Written(_)));
    }

    fn sends(&mut self, to: u32, number: u32) {
        self.sees(What::Sent { to, sent: Sent { incarnation: 0, number }, bytes: 16 });
    }

    fn receives(&mut self, from: u32, number: u32) {
        self.sees(What::Arrived { from, sent: Sent { incarnation: 0, number }, bytes: 16, intact: true });
    }

    /// What a node can do alone: it sends a message to itself, which arrives.
    fn sends_to_itself(&mut self, number: u32) {
        self.sends(self.rank, number);
        self.receives(self.rank, number);
    }

    fn begin(&mut self) {
        assert!(matches!(self.hear(), ToNode::Book { addresses, .. } if addresses.len() == 2));
        self.say(&ToCoordinator::Ready);
    }
}

/// Nodes lost, what survivors did after that, whether all checks held, and why it did not finish.
type Ended = (Vec<(u32, String)>, Clients, bool, Option<String>);

/// Two nodes that have begun, and the judge's thread.
fn two(silence: Duration) -> (Node, Node, thread::JoinHandle<Ended>) {
    let (a, b, _, judge) = two_of(terms(2, silence));
    (a, b, judge)
}

/// The same, and where they met.
fn two_of(terms: Terms) -> (Node, Node, u16, thread::JoinHandle<Ended>) {
    let (port, judge) = meet_at(agreed(2), terms);
    let (mut a, mut b) = (Node::join(port, 0, 7), Node::join(port, 1, 8));
    a.begin();
    b.begin();
    assert!(matches!((a.hear(), b.hear()), (ToNode::Begin { .. }, ToNode::Begin { .. })));
    (a, b, port, judge)
}

#[test]
fn cards_reach_whom_they_are_for_and_nobody_sends_before_all_receive() {
    let (port, judge) = meet_at(agreed(2), terms(2, SECOND * 5));
    let (mut a, mut b) = (Node::join(port, 0, 7), Node::join(port, 1, 8));
    for node in [&mut a, &mut b] {
        assert!(matches!(node.hear(), ToNode::Book { .. }));
        let card = |to: u32| format!("{} for {to}", node.rank);
        node.say(&ToCoordinator::Cards([0, 1].map(card).to_vec()));
    }
    for node in [&mut a, &mut b] {
        let ToNode::Cards(cards) = node.hear() else { panic!("no cards") };
        assert_eq!(cards, [0, 1].map(|from| format!("{from} for {}", node.rank)));
    }
    b.say(&ToCoordinator::Receiving);
    b.stream.set_read_timeout(Some(SECOND / 5)).expect("a time-out");
    assert!(bridge::next(&mut b.stream, &mut b.heard).is_err(), "the other one does not receive yet");
    b.stream.set_read_timeout(None).expect("no time-out");
    a.say(&ToCoordinator::Receiving);
    assert!(matches!((a.hear(), b.hear()), (ToNode::Connect, ToNode::Connect)));
    // A node that has not a card for each.
    a.say(&ToCoordinator::Cards(vec![String::new()]));
    assert!(matches!(a.hear(), ToNode::Without(why) if why == "it has 1 cards for 2 nodes"));
    let (_, _, _, unfinished) = judge.join().expect("the judge");
    assert_eq!(
        unfinished.expect("they had not met"),
        "node 0 was lost before all had met: it has 1 cards for 2 nodes"
    );
}

fn meet_at(agreed: Agreed, terms: Terms) -> (u16, thread::JoinHandle<Ended>) {
    let meeting = Meeting::open(&agreed, 0).expect("a port");
    let port = meeting.port();
    let judge = thread::spawn(move || {
        let work: MessageWork = toml::from_str("messages = 2").expect("a workload");
        let outcome = meeting.hold::<Messages>(terms, &work);
        let held = outcome.recorder.judge(|judge| judge.checks()).iter().all(|check| check.held);
        (outcome.lost, outcome.after_loss, held, outcome.unfinished)
    });
    (port, judge)
}

fn rest(node: &mut Node) {
    assert!(matches!(node.hear(), ToNode::ComeToRest));
    node.say(&ToCoordinator::Rest {
        left: Vec::new(),
        counts: Counts::default(),
        history: History::default(),
    });
}

/// The clients of these nodes are through, and so is the run.
fn finish<const N: usize>(mut nodes: [&mut Node; N]) {
    nodes.iter_mut().for_each(|node| node.say(&ToCoordinator::ClientsDone));
    nodes.into_iter().for_each(rest);
}

#[test]
fn a_run_in_which_every_message_arrives_holds() {
    let (mut a, mut b, judge) = two(SECOND * 5);
    a.sends(1, 0);
    b.sends(0, 0);
    a.receives(1, 0);
    b.receives(0, 0);
    finish([&mut a, &mut b]);
    assert_eq!(judge.join().expect("no panic"), (vec![], Clients { asked: 2, served: 2 }, true, None));
}

#[test]
fn a_message_that_arrives_twice_is_found_out() {
    let (mut a, mut b, judge) = two(SECOND * 5);
    a.sends(1, 0);
    b.receives(0, 0);
    a.sends(1, 1);
    b.receives(0, 0);
    finish([&mut a, &mut b]);
    let (.., held, _) = judge.join().expect("no panic");
    assert!(!held);
}

#[test]
fn survivors_of_a_lost_node_come_to_the_end() {
    let (mut a, b, judge) = two(SECOND * 5);
    b.go();
    a.sends_to_itself(0);
    finish([&mut a]);
    let (lost, after, held, unfinished) = judge.join().expect("no panic");
    assert_eq!((lost.len(), after, held, unfinished), (1, Clients { asked: 1, served: 1 }, true, None));
    assert!(after.went_on());
}

#[test]
fn a_run_in_which_every_node_is_lost_is_unfinished() {
    let lost = Some("all nodes were lost".to_string());
    let (a, b, judge) = two(SECOND * 5);
    a.go();
    b.go();
    let (nodes, .., unfinished) = judge.join().expect("no panic");
    assert_eq!((nodes.len(), unfinished), (2, lost.clone()));
    let began = Instant::now();
    let (a, b, _, judge) = two_of(Terms { restarts: true, settle: SECOND, ..terms(2, SECOND * 5) });
    a.go();
    b.go();
    assert_eq!(judge.join().expect("no panic").3, lost);
    assert!(began.elapsed() > SECOND, "one of them may come back");
}

/// A node may count as lost only when the survivors are through: what they were served while it was silent counts.
#[test]
fn survivors_that_are_quicker_than_the_time_out_have_gone_on() {
    let (mut a, b, judge) = two(SECOND);
    thread::sleep(HEARTBEAT + Duration::from_millis(100));
    a.sends_to_itself(0);
    a.say(&ToCoordinator::ClientsDone);
    for _ in 0..5 {
        a.say(&ToCoordinator::Alive);
        thread::sleep(SECOND / 5);
    }
    rest(&mut a);
    let (lost, after, held, unfinished) = judge.join().expect("no panic");
    assert_eq!((lost.len(), after, held, unfinished), (1, Clients { asked: 1, served: 1 }, true, None));
    drop(b);
}

#[test]
fn survivors_whose_messages_never_arrive_have_not_gone_on() {
    let (mut a, b, judge) = two(SECOND * 5);
    a.sends_to_itself(0);
    b.go();
    a.sends(0, 1);
    finish([&mut a]);
    let (_, after, ..) = judge.join().expect("no panic");
    assert_eq!(after, Clients { asked: 1, served: 0 });
    assert!(!after.went_on());
    assert!(Clients::default().went_on(), "nothing was asked, nothing was denied");
}

#[test]
fn among_members_a_node_that_was_lost_comes_back_and_takes_part_again() {
    let (mut a, b, port, judge) = two_of(Terms { members: true, ..terms(2, SECOND * 5) });
    b.go();
    thread::sleep(Duration::from_millis(200));
    let mut b = Node::join(port, 1, 9);
    assert!(matches!(b.hear(), ToNode::Book { lives: 1, .. }));
    b.say(&ToCoordinator::Ready);
    assert!(matches!(b.hear(), ToNode::Begin { passed: 150.. }), "it is told how late it is");
    a.sends_to_itself(0);
    b.sends_to_itself(0);
    finish([&mut a, &mut b]);
    let (lost, after, held, unfinished) = judge.join().expect("no panic");
    // What it does after its return is not counted as a survivor's.
    assert_eq!((lost.len(), after.asked, held, unfinished), (1, 1, true, None));
}

#[test]
fn without_members_a_node_that_was_lost_is_told_why_it_does_not_come_back() {
    let (mut a, b, port, judge) = two_of(terms(2, SECOND * 5));
    b.go();
    let mut b = Node::join(port, 1, 9);
    assert!(matches!(b.hear(), ToNode::Without(why) if why.contains("does not come back")));
    finish([&mut a]);
    assert_eq!(judge.join().expect("no panic").0, [(1, "it left".to_string())]);
}

/// Its promises are judged at the end, and what it counted counts once.
#[test]
fn a_node_that_dies_when_it_has_come_to_the_end_is_not_taken_in_again() {
    let (mut a, mut b, port, judge) = two_of(Terms { restarts: true, ..terms(2, SECOND * 5) });
    a.sends(1, 0);
    a.say(&ToCoordinator::ClientsDone);
    b.say(&ToCoordinator::ClientsDone);
    rest(&mut b);
    b.go();
    for incarnation in [9, 10] {
        let mut b = Node::join(port, 1, incarnation);
        assert!(matches!(b.hear(), ToNode::Without(why) if why == "the node had come to the end already"));
        b.go();
    }
    rest(&mut a);
    let (lost, _, held, unfinished) = judge.join().expect("no panic");
    assert_eq!(
        (lost, held, unfinished),
        (vec![], false, None),
        "the message that never arrived is found out"
    );
}

/// It has said nothing yet, and its connection holds.
#[test]
fn a_node_may_wait_for_the_last_one_longer_than_silence_is_taken_for_death() {
    let (port, judge) = meet_at(agreed(2), terms(2, SECOND / 2));
    let mut a = Node::join(port, 0, 7);
    thread::sleep(SECOND);
    let mut b = Node::join(port, 1, 8);
    a.begin();
    b.begin();
    for node in [&mut a, &mut b] {
        assert!(matches!(node.hear(), ToNode::Begin { passed: 0 }));
    }
    finish([&mut a, &mut b]);
    assert_eq!(judge.join().expect("no panic"), (vec![], Clients::default(), true, None));
}

#[test]
fn nodes_that_do_not_come_and_those_that_are_not_ready_are_named_when_patience_ends() {
    let hasty = Terms { patience: SECOND * 2, ..terms(2, SECOND * 5) };
    let unfinished = |judge: thread::JoinHandle<Ended>| judge.join().expect("the judge").3;
    let (port, judge) = meet_at(agreed(2), hasty);
    let mut a = Node::join(port, 0, 7);
    assert!(matches!(a.hear(), ToNode::End));
    drop(a);
    assert_eq!(unfinished(judge).as_deref(), Some("nodes that did not come: [1]"));
    let (port, judge) = meet_at(agreed(2), hasty);
    let (mut a, mut b) = (Node::join(port, 0, 7), Node::join(port, 1, 8));
    a.begin();
    assert!(matches!(b.hear(), ToNode::Book { .. }));
    assert!(matches!((a.hear(), b.hear()), (ToNode::End, ToNode::End)));
    drop((a, b));
    assert_eq!(unfinished(judge).as_deref(), Some("nodes that came and were not ready: [1]"));
}

#[test]
fn a_node_that_comes_late_has_as_long_to_become_ready_as_any() {
    let (port, judge) = meet_at(agreed(2), Terms { patience: SECOND * 2, ..terms(2, SECOND * 5) });
    let mut a = Node::join(port, 0, 7);
    thread::sleep(SECOND * 3 / 2);
    let mut b = Node::join(port, 1, 8);
    a.begin();
    thread::sleep(SECOND);
    b.begin();
    for node in [&mut a, &mut b] {
        assert!(matches!(node.hear(), ToNode::Begin { .. }));
    }
    finish([&mut a, &mut b]);
    assert_eq!(judge.join().expect("no panic").3, None);
}

#[test]
fn who_has_another_scenario_another_secret_or_no_rank_is_told_in_one_line_and_the_others_go_on() {
    let secret = |byte| Secret::of(&[byte; 32]);
    let ours = Agreed { secret: secret(1), ..agreed(1) };
    let (port, judge) = meet_at(ours.clone(), terms(1, SECOND * 5));
    let refused = |theirs: &Agreed, rank: u32| {
        let (mut stream, line) = Line::open(config(theirs, port, rank, 5)).expect("a line");
        assert_eq!(bridge::next(&mut stream, &mut Vec::new()).expect("a socket"), None);
        let lived = Err::<(), _>(Failure::unfinished("the coordinator was lost"));
        line.close(lived).expect_err("refused").to_string()
    };
    let said = refused(&Agreed { scenario: "another".into(), ..ours.clone() }, 0);
    assert!(said.contains("give all machines the same file and options"), "{said}");
    let said = refused(&Agreed { secret: secret(2), ..ours.clone() }, 0);
    assert!(said.contains("the secrets differ"), "{said}");
    let said = refused(&ours, 1);
    assert!(said.contains("there is no rank 1"), "{said}");
    let (stream, line) = Line::open(config(&ours, port, 0, 6)).expect("a line");
    let mut a = Node { stream, line, heard: Vec::new(), rank: 0 };
    a.say(&ToCoordinator::Hello { addresses: vec![IpAddr::from([10, 0, 0, 1])] });
    assert!(matches!(a.hear(), ToNode::Book { .. }));
    a.say(&ToCoordinator::Ready);
    assert!(matches!(a.hear(), ToNode::Begin { .. }));
    finish([&mut a]);
    assert_eq!(judge.join().expect("no panic").3, None);
}

#[test]
fn a_node_that_gives_up_says_for_how_long_it_has_tried() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").and_then(|held| held.local_addr());
    let port = nobody.expect("a port").port();
    let patience = SECOND * 3;
    let (_stream, line) = Line::open(Config { patience, ..config(&agreed(2), port, 1, 5) }).expect("a line");
    let lived = Err::<(), _>(Failure::unfinished("the coordinator was lost"));
    let said = line.close(lived).expect_err("nobody is there").to_string();
    assert!(said.ends_with("; tried for 3 s"), "{said}");
}

#[test]
fn a_port_in_use_is_said_before_anybody_waits() {
    let held = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = held.local_addr().expect("an address").port();
    let why = Meeting::open(&agreed(2), port).err().expect("it is in use");
    assert!(why.to_string().contains("cannot listen on"), "{why}");
}
