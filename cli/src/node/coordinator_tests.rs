//! The coordinator, met by nodes that are written by hand.

use super::super::wire::line;
use super::*;
use weft_check::systems::messages::Messages;
use weft_check::systems::messages::history::{Event, Sent, What};
use weft_check::systems::messages::workload::MessageWork;

const SECOND: Duration = Duration::from_secs(1);

fn terms(nodes: u32, silence: Duration) -> Terms {
    let (patience, settle, limit) = (SECOND * 5, SECOND * 5, SECOND * 30);
    Terms { nodes, patience, silence, settle, limit, members: false, restarts: false }
}

struct Node {
    to: TcpStream,
    from: BufReader<TcpStream>,
    rank: u32,
}

impl Node {
    fn join(at: std::net::SocketAddr, rank: u32) -> Node {
        let to = TcpStream::connect(at).expect("the coordinator listens");
        let from = BufReader::new(to.try_clone().expect("a handle"));
        let mut node = Node { to, from, rank };
        let address = IpAddr::from([10, 0, 0, rank as u8]);
        node.say(&ToCoordinator::Hello { rank, address, device: "rxe0".into() });
        node
    }

    fn say(&mut self, up: &Up<Messages>) {
        self.to.write_all(&line(up)).expect("said");
    }

    fn hear(&mut self) -> ToNode {
        let mut text = String::new();
        self.from.read_line(&mut text).expect("a line");
        serde_json::from_str(&text).expect("a message")
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

/// Two nodes that have begun, and the coordinator's thread.
fn two(silence: Duration) -> (Node, Node, thread::JoinHandle<Ended>) {
    let (a, b, _, coordinator) = two_of(terms(2, silence));
    (a, b, coordinator)
}

/// The same, and where the coordinator is.
fn two_of(terms: Terms) -> (Node, Node, std::net::SocketAddr, thread::JoinHandle<Ended>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let coordinator = thread::spawn(move || {
        let work: MessageWork = toml::from_str("messages = 2").expect("a workload");
        let outcome = run::<Messages>(&listener, &terms, &work, &|| false).expect("a run");
        let held = outcome.recorder.judge(|judge| judge.checks()).iter().all(|check| check.held);
        (outcome.lost, outcome.after_loss, held, outcome.unfinished)
    });
    let (mut a, mut b) = (Node::join(at, 0), Node::join(at, 1));
    a.begin();
    b.begin();
    assert!(matches!((a.hear(), b.hear()), (ToNode::Begin { .. }, ToNode::Begin { .. })));
    (a, b, at, coordinator)
}

fn rest(node: &mut Node) {
    assert!(matches!(node.hear(), ToNode::ComeToRest));
    node.say(&ToCoordinator::Rest { left: Vec::new(), counts: Counts::default() });
}

#[test]
fn a_run_in_which_every_message_arrives_holds() {
    let (mut a, mut b, coordinator) = two(SECOND * 5);
    a.sends(1, 0);
    b.sends(0, 0);
    a.receives(1, 0);
    b.receives(0, 0);
    a.say(&ToCoordinator::ClientsDone);
    b.say(&ToCoordinator::ClientsDone);
    rest(&mut a);
    rest(&mut b);
    assert_eq!(coordinator.join().expect("no panic"), (vec![], Clients { asked: 2, served: 2 }, true, None));
}

#[test]
fn a_message_that_arrives_twice_is_found_out() {
    let (mut a, mut b, coordinator) = two(SECOND * 5);
    a.sends(1, 0);
    b.receives(0, 0);
    a.sends(1, 1);
    b.receives(0, 0);
    a.say(&ToCoordinator::ClientsDone);
    b.say(&ToCoordinator::ClientsDone);
    rest(&mut a);
    rest(&mut b);
    let (.., held, _) = coordinator.join().expect("no panic");
    assert!(!held);
}

#[test]
fn survivors_of_a_lost_node_come_to_the_end() {
    let (mut a, b, coordinator) = two(SECOND * 5);
    drop(b);
    thread::sleep(Duration::from_millis(200));
    a.sends_to_itself(0);
    a.say(&ToCoordinator::ClientsDone);
    rest(&mut a);
    let (lost, after, held, unfinished) = coordinator.join().expect("no panic");
    assert_eq!((lost.len(), after, held, unfinished), (1, Clients { asked: 1, served: 1 }, true, None));
    assert!(after.went_on());
}

/// A node may count as lost only when the survivors are through: what they were served while it was silent counts.
#[test]
fn survivors_that_are_quicker_than_the_time_out_have_gone_on() {
    let (mut a, b, coordinator) = two(SECOND);
    thread::sleep(HEARTBEAT + Duration::from_millis(100));
    a.sends_to_itself(0);
    a.say(&ToCoordinator::ClientsDone);
    for _ in 0..5 {
        a.say(&ToCoordinator::Alive);
        thread::sleep(SECOND / 5);
    }
    rest(&mut a);
    let (lost, after, held, unfinished) = coordinator.join().expect("no panic");
    assert_eq!((lost.len(), after, held, unfinished), (1, Clients { asked: 1, served: 1 }, true, None));
    drop(b);
}

#[test]
fn survivors_whose_messages_never_arrive_have_not_gone_on() {
    let (mut a, b, coordinator) = two(SECOND * 5);
    a.sends_to_itself(0);
    drop(b);
    thread::sleep(Duration::from_millis(200));
    a.sends(0, 1);
    a.say(&ToCoordinator::ClientsDone);
    rest(&mut a);
    let (_, after, ..) = coordinator.join().expect("no panic");
    assert_eq!(after, Clients { asked: 1, served: 0 });
    assert!(!after.went_on());
    assert!(Clients::default().went_on(), "nothing was asked, nothing was denied");
}

#[test]
fn among_members_a_node_that_was_lost_comes_back_and_takes_part_again() {
    let (mut a, b, at, coordinator) = two_of(Terms { members: true, ..terms(2, SECOND * 5) });
    drop(b);
    thread::sleep(Duration::from_millis(200));
    let mut b = Node::join(at, 1);
    b.begin();
    assert!(matches!(b.hear(), ToNode::Begin { passed: 150.. }), "it is told how late it is");
    a.sends_to_itself(0);
    b.sends_to_itself(0);
    a.say(&ToCoordinator::ClientsDone);
    b.say(&ToCoordinator::ClientsDone);
    rest(&mut a);
    rest(&mut b);
    let (lost, after, held, unfinished) = coordinator.join().expect("no panic");
    // What it does after its return is not counted as a survivor's.
    assert_eq!((lost.len(), after.asked, held, unfinished), (1, 1, true, None));
}
