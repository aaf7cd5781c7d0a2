//! A node that restarts in a world whose membership is not explored with it: the others leave its last incarnation out and take the next one
//! in, each at its own moment.
//!
//! The one that is back greets the others, and each that hears it, or that is told by the first of the others, expels the
//! incarnation before, begins a view without it, and one with the next. Who is greeted answers with that view, which begins on the node
//! that is back. So a view may come before the connection or after it, and one node may act in it while another has yet to hear.

use super::Member;
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::members::{self, Change, View, ViewId};
use weft_protocols::rt::sync::{Mailbox, MailboxSender, mailbox};
use weft_protocols::transport::{Channel, Incoming, Mesh, Rank};
use weft_sim::Sim;

/// Greetings and views.
const TOLD: Channel = Channel(60);

/// The incarnations that a node takes for the present ones, by rank, and how often they have changed.
#[derive(Clone)]
struct Known {
    changes: u64,
    incarnations: Vec<u64>,
}

/// What a node does about a node that is back.
struct Node {
    mesh: Mesh<Sim>,
    changes: MailboxSender<Change>,
    known: RefCell<Known>,
}

/// Starts at a node what begins its views, which come by the mailbox. These are the first incarnations of all; of a node that
/// `is_back` others tell it what is so now.
pub fn start(node: &Member, at_first: &[u64], is_back: bool) -> Mailbox<Change> {
    let (changes, told) = mailbox();
    let known = RefCell::new(Known { changes: 0, incarnations: at_first.to_vec() });
    let (rt, mesh) = (&node.rt, node.mesh.clone());
    let node = Rc::new(Node { mesh, changes, known });
    if is_back {
        for other in node.others() {
            // There is room for one message each.
            let _ = node.mesh.send(other, TOLD, &[]);
        }
    } else {
        node.begins(None, Vec::new());
    }
    rt.spawn(node.hears());
    told
}

impl Node {
    fn others(&self) -> impl Iterator<Item = Rank> + use<> {
        let me = self.mesh.me();
        (0..self.mesh.size()).map(Rank::from_index).filter(move |node| *node != me)
    }

    async fn hears(self: Rc<Self>) {
        let mut inbox = self.mesh.open(TOLD).expect("nobody else has the channel");
        while let Some(incoming) = inbox.recv().await {
            let Incoming::Message(message) = incoming else { continue };
            match message.bytes() {
                [] => self.is_greeted(message.from()),
                told => self.is_told(Known::read(told)),
            }
        }
    }

    fn is_greeted(&self, by: Rank) {
        let now = self.mesh.incarnation_of(by).unwrap_or_default();
        let mut known = self.known.borrow().clone();
        let before = std::mem::replace(&mut known.incarnations[by.index()], now);
        known.changes += u64::from(before != now);
        self.is_told(known.clone());
        let first = self.others().find(|other| *other != by).is_none_or(|other| self.mesh.me() < other);
        for other in self.others().filter(|other| *other == by || first) {
            let _ = self.mesh.send(other, TOLD, &known.bytes());
        }
    }

    /// Takes in what is so now, if it is news.
    fn is_told(&self, now: Known) {
        let before = self.known.borrow().clone();
        let comes_in = before.incarnations[self.mesh.me().index()] != self.mesh.incarnation();
        if now.changes <= before.changes {
            return;
        }
        let changed = (0..).map(Rank::from_index).zip(before.incarnations.iter().zip(&now.incarnations));
        let left = changed.filter(|(_, (before, now))| before != now);
        let left = left.map(|(rank, (before, _))| members::Member { rank, incarnation: *before });
        let left: Vec<_> = left.filter(|_| !comes_in).collect();
        for member in &left {
            self.mesh.expel(member.rank, member.incarnation);
        }
        self.known.replace(now);
        if let [one] = left[..] {
            self.begins(Some(one.rank), left);
        }
        self.begins(None, Vec::new());
    }

    fn begins(&self, without: Option<Rank>, left: Vec<members::Member>) {
        let Known { changes, incarnations } = &*self.known.borrow();
        let all = (0..).map(Rank::from_index).zip(incarnations);
        let members = all.filter(|(rank, _)| Some(*rank) != without);
        let members = members.map(|(rank, incarnation)| members::Member { rank, incarnation: *incarnation });
        let number = 1 + 2 * changes - u64::from(without.is_some());
        let view = View {
            id: ViewId { number, ..ViewId::default() },
            members: members.collect(),
            ..View::default()
        };
        // The service may have ended.
        drop(self.changes.send(Change::Begins { view, left }));
    }
}

impl Known {
    fn bytes(&self) -> Vec<u8> {
        let words = [self.changes].into_iter().chain(self.incarnations.iter().copied());
        words.flat_map(u64::to_le_bytes).collect()
    }

    fn read(bytes: &[u8]) -> Known {
        let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        Known { changes: words[0], incarnations: words[1..].to_vec() }
    }
}
