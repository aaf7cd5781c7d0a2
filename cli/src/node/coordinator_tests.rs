//! The coordinator, met by nodes that are written by hand.

use super::super::wire::line;
use super::*;
use model_tests::history::{ClientId, Event, RequestId, What};
use protocols::locks::{LockKey, Mode};

fn terms(nodes: u32) -> Terms {
    let second = Duration::from_secs(1);
    let (patience, silence, settle, limit) = (second * 5, second * 5, second * 5, second * 30);
    Terms { nodes, tokens: false, patience, silence, settle, limit }
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
        node.say(&Up::Hello { rank, address, device: "rxe0".into() });
        node
    }

    fn say(&mut self, up: &Up) {
        self.to.write_all(&line(up)).expect("said");
    }

    fn hear(&mut self) -> Down {
        let mut text = String::new();
        self.from.read_line(&mut text).expect("a line");
        serde_json::from_str(&text).expect("a message")
    }

    fn sees(&mut self, what: What) {
        let client = ClientId { node: self.rank, index: 0 };
        let request = RequestId { client, number: 0 };
        let event = Event { at: Nanos(1), request, key: LockKey(1), mode: Mode::Exclusive, what };
        self.say(&Up::Saw(event.into()));
        assert!(matches!(self.hear(), Down::Written(_)));
    }

    fn begin(&mut self) {
        assert!(matches!(self.hear(), Down::Book(book) if book.len() == 2));
        self.say(&Up::Ready);
    }
}

/// Nodes lost, grants after that, whether all checks held, and why it did not finish.
type Ended = (Vec<(u32, String)>, u64, bool, Option<String>);

/// Two nodes that have begun, and the coordinator's thread.
fn two() -> (Node, Node, thread::JoinHandle<Ended>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let coordinator = thread::spawn(move || {
        let outcome = run(&listener, &terms(2), &|| false).expect("a run");
        let held = outcome.scribe.judge(|judge| judge.checks()).iter().all(|check| check.held);
        (outcome.lost, outcome.granted_after_loss, held, outcome.unfinished)
    });
    let (mut a, mut b) = (Node::join(at, 0), Node::join(at, 1));
    a.begin();
    b.begin();
    assert!(matches!((a.hear(), b.hear()), (Down::Begin, Down::Begin)));
    (a, b, coordinator)
}

fn rest(node: &mut Node) {
    assert!(matches!(node.hear(), Down::ComeToRest));
    node.say(&Up::Rest { left: Vec::new(), counts: Counts::default() });
}

const ASKS: What = What::Requested { deadline: None };
const GRANTED: What = What::Granted { token: None };

#[test]
fn a_run_in_which_holders_take_turns_holds() {
    let (mut a, mut b, coordinator) = two();
    for node in [&mut a, &mut b] {
        [ASKS, GRANTED, What::Released].into_iter().for_each(|what| node.sees(what));
    }
    a.say(&Up::Through);
    b.say(&Up::Through);
    rest(&mut a);
    rest(&mut b);
    assert_eq!(coordinator.join().expect("no panic"), (vec![], 2, true, None));
}

#[test]
fn two_holders_at_once_are_found_out() {
    let (mut a, mut b, coordinator) = two();
    for node in [&mut a, &mut b] {
        [ASKS, GRANTED].into_iter().for_each(|what| node.sees(what));
    }
    for node in [&mut a, &mut b] {
        node.sees(What::Released);
        node.say(&Up::Through);
    }
    rest(&mut a);
    rest(&mut b);
    let (.., held, _) = coordinator.join().expect("no panic");
    assert!(!held);
}

#[test]
fn survivors_of_a_lost_node_come_to_the_end() {
    let (mut a, b, coordinator) = two();
    drop(b);
    thread::sleep(Duration::from_millis(200));
    [ASKS, GRANTED, What::Released].into_iter().for_each(|what| a.sees(what));
    a.say(&Up::Through);
    rest(&mut a);
    let (lost, after, held, unfinished) = coordinator.join().expect("no panic");
    assert_eq!((lost.len(), after, held, unfinished), (1, 1, true, None));
}
