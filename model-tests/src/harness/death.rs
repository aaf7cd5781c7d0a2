//! A node that dies in a world whose membership is not explored with it: the others leave it out, each at its own moment, whatever is under
//! way then.
//!
//! A witness, the next node behind it, tells the others who is dead: its messages come at any point of the programs, at each node at another
//! one. Who is told so leaves the dead out from there on, as a membership has it do: expels it, and begins the view without it. The
//! dead is told, too, or refused by one that has left it out, and has no part from there on. Until then it goes on; so what it does is all
//! that a node can have done which crashes at any event, and more.

use super::Member;
use std::rc::Rc;
use weft_protocols::members::{self, Change, View, ViewId};
use weft_protocols::rt::Rt;
use weft_protocols::rt::sync::{Mailbox, MailboxSender, mailbox};
use weft_protocols::transport::{Channel, Incoming, Mesh, Rank};
use weft_sim::Sim;

/// The witness's messages.
const TOLD: Channel = Channel(60);

/// Who dies, and the views before and after that.
#[derive(Clone)]
pub struct Death {
    dead: members::Member,
    first: View,
    then: View,
    fences: bool,
}

/// What a node does about it.
struct Node<F> {
    death: Death,
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    changes: MailboxSender<Change>,
    left_out: F,
}

impl Death {
    /// The death of one of these nodes.
    pub fn of(dead: u32, nodes: &[Member]) -> Death {
        let member = |(rank, node): (u32, &Member)| members::Member {
            rank: Rank::from_index(rank),
            incarnation: node.mesh.incarnation(),
        };
        let all: Vec<_> = (0..).zip(nodes).map(member).collect();
        let dead = all[dead as usize];
        let view =
            |number, members| View { id: ViewId { number, ..ViewId::default() }, members, ..View::default() };
        let lives = all.iter().copied().filter(|member| *member != dead).collect();
        Death { dead, first: view(1, all), then: view(2, lives), fences: true }
    }

    /// A mistake: who leaves the dead out goes on at once, and what that one had sent may still land.
    pub fn unfenced(self) -> Death {
        Death { fences: false, ..self }
    }

    /// Who dies.
    pub fn dead(&self) -> usize {
        self.dead.rank.index()
    }

    /// Starts at a node what begins its views: those come by the mailbox. Says so when it leaves the dead out.
    pub fn start(&self, node: &Member, left_out: impl Fn() + Clone + 'static) -> Mailbox<Change> {
        let (changes, told) = mailbox();
        let begins = Change::Begins { view: self.first.clone(), left: Vec::new() };
        changes.send(begins).expect("it is not dropped yet");
        let (rt, mesh) = (node.rt.clone(), node.mesh.clone());
        let me = mesh.me();
        let node = Rc::new(Node { death: self.clone(), rt: rt.clone(), mesh, changes, left_out });
        rt.spawn(Rc::clone(&node).hears());
        if me == self.dead.rank {
            rt.spawn(Rc::clone(&node).is_refused());
        }
        if me.index() == (self.dead() + 1) % self.first.members.len() {
            rt.spawn(node.tells());
        }
        told
    }
}

impl<F: Fn() + Clone + 'static> Node<F> {
    async fn hears(self: Rc<Self>) {
        let mut inbox = self.mesh.open(TOLD).expect("nobody else has the channel");
        while let Some(incoming) = inbox.recv().await {
            if let Incoming::Message(_) = incoming {
                self.leaves_out().await;
            }
        }
    }

    async fn is_refused(self: Rc<Self>) {
        self.mesh.expelled().await;
        self.leaves_out().await;
    }

    /// Tells the others, and leaves the dead out itself.
    async fn tells(self: Rc<Self>) {
        let others = (0..self.mesh.size()).map(Rank::from_index).filter(|node| *node != self.mesh.me());
        for node in others {
            // There is room for one message each.
            let _ = self.mesh.send(node, TOLD, &[0]);
        }
        self.rt.yield_now().await;
        self.leaves_out().await;
    }

    async fn leaves_out(&self) {
        let Death { dead, then, fences, .. } = &self.death;
        if self.mesh.me() == dead.rank {
            // The service may have ended.
            drop(self.changes.send(Change::Out));
            self.rt.yield_now().await;
            return self.mesh.retire();
        }
        if *fences {
            self.mesh.expel(dead.rank, dead.incarnation);
        }
        (self.left_out)();
        drop(self.changes.send(Change::Begins { view: then.clone(), left: vec![*dead] }));
    }
}
