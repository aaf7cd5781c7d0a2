//! Shared memory whose nodes are told by the test who has died, each at its own moment.

use crate::common::{Cluster, begins, ms, rank};
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use weft_protocols::dsm::{Alive, Dsm, DsmConfig, DsmError, Grain, Placement, Repaired, Shared};
use weft_protocols::members::{Change, Member, View, ViewId};
use weft_protocols::rt::sync::{MailboxSender, mailbox};
use weft_sim::Sim;
use weft_verbs::{Nanos, Wait};

/// What a call came to, once it has.
pub type Found<T> = Rc<RefCell<Option<T>>>;

/// Nodes that share memory which has begun with all of them.
pub struct Told {
    pub cluster: Cluster,
    pub all: Vec<Dsm<Sim>>,
    tells: Vec<MailboxSender<Change>>,
}

impl Told {
    pub fn new(nodes: u32) -> Told {
        Told::of(Cluster::new(nodes, 1, Wait::Poll), DsmConfig::default())
    }

    /// All nodes of a cluster.
    pub fn of(cluster: Cluster, config: DsmConfig) -> Told {
        let mut told = Told { cluster, all: Vec::new(), tells: Vec::new() };
        let first = told.view(&(0..told.cluster.members.len()).collect::<Vec<_>>());
        for at in &told.cluster.members {
            let (tells, changes) = mailbox();
            let alive = Alive::Told(&first, changes);
            let dsm = Dsm::start_under(&at.rt, &at.mesh, config, alive, Repaired);
            told.all.push(dsm.expect("the channel is free"));
            told.tells.push(tells);
        }
        told
    }

    fn member(&self, node: usize) -> Member {
        Member { rank: rank(node), incarnation: self.cluster.members[node].mesh.incarnation() }
    }

    /// The fewer are in a view, the later it is.
    fn view(&self, nodes: &[usize]) -> View {
        let number = (self.cluster.members.len() + 1 - nodes.len()) as u64;
        let members = nodes.iter().map(|node| self.member(*node)).collect();
        View { id: ViewId { number, ..ViewId::default() }, members, ..View::default() }
    }

    /// At a moment a node is told that these live: the others are expelled from its mesh by then.
    pub fn tell(&self, at: Nanos, node: usize, lives: &[usize]) {
        let (view, tells) = (self.view(lives), self.tells[node].clone());
        let dead = (0..self.all.len()).filter(|node| !lives.contains(node));
        let left: Vec<Member> = dead.map(|node| self.member(node)).collect();
        let mesh = self.cluster.members[node].mesh.clone();
        self.cluster.members[node].at(at, move || {
            left.iter().for_each(|dead| mesh.expel(dead.rank, dead.incarnation));
            let _ = tells.send(Change::Begins { view, left });
        });
    }

    /// At a moment a node is told that the others have gone on without it.
    pub fn leave_out(&self, at: Nanos, node: usize) {
        let tells = self.tells[node].clone();
        self.cluster.members[node].at(at, move || drop(tells.send(Change::Out)));
    }

    /// A node calls something at a moment.
    pub fn call<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        at: Nanos,
        node: usize,
        call: impl FnOnce(Dsm<Sim>) -> F + 'static,
    ) -> Found<T> {
        let (dsm, found) = (self.all[node].clone(), Found::default());
        let (finds, rt) = (Rc::clone(&found), self.cluster.members[node].rt.clone());
        drop(rt.clone().spawn(async move {
            rt.sleep_until(at).await;
            let came = call(dsm).await;
            *finds.borrow_mut() = Some(came);
        }));
        found
    }

    /// A node loads a word at a moment.
    pub fn load(&self, at: Nanos, node: usize, of: Shared<[u64]>) -> Found<Result<u64, DsmError>> {
        self.call(at, node, move |dsm| async move { dsm.thread().load(of, 0).await })
    }
}

/// A word in a minipage that a node manages.
fn word_at(node: usize) -> (usize, Grain, Placement) {
    (1, Grain::Bytes(64), Placement::Node(rank(node)))
}

/// The second one stores in what the first one made after its death, and then says so in older memory at the third one, which knows of no
/// death yet.
#[test]
fn what_one_that_is_left_out_stores_in_younger_memory_is_not_zero_for_those_who_know_that_it_did() {
    let told = Told::new(3);
    let (len, grain, placement) = word_at(2);
    let says = told.all[0].named::<u64>(1, len, grain, placement).expect("it fits");
    told.tell(ms(10), 0, &[0, 2]);
    told.cluster.run(ms(11));
    let (len, grain, placement) = word_at(1);
    let young = told.all[0].alloc::<u64>(len, grain, placement).expect("it fits");
    let stored = told.call(ms(12), 1, move |dsm| async move {
        let mut thread = dsm.thread();
        thread.store(young, 0, 1).await?;
        thread.store(says, 0, 1).await
    });
    let before = told.load(ms(20), 2, says);
    let early = told.load(ms(21), 2, young);
    told.tell(ms(30), 2, &[0, 2]);
    let after = [0, 2].map(|node| [told.load(ms(40), node, says), told.load(ms(41), node, young)]);
    told.cluster.run(ms(50));
    assert_eq!(before.take(), Some(Ok(0)), "it is told of what is never found");
    assert_eq!(stored.take(), None, "one that is out may store nothing there");
    let after = after.map(|found| found.map(|found| found.take()));
    assert_eq!(
        after,
        [(); 2].map(|()| [Some(Ok(0)), Some(Ok(0))]),
        "by node: what is told, and in the younger"
    );
    assert_eq!(early.take(), Some(Ok(0)), "who asked too early has it when it is told");
    told.leave_out(ms(70), 1);
    told.cluster.run(ms(20));
    assert_eq!(stored.take(), Some(Err(DsmError::Out)));
}

/// Who goes from the first view to the third one does not know which of the two died first, and so not whether the second one lived when the
/// third one made the memory. Its manager knows.
#[test]
fn what_nobody_has_written_is_not_lost_to_one_that_missed_a_view() {
    let told = Told::new(4);
    told.tell(ms(10), 2, &[0, 2, 3]);
    told.cluster.run(ms(11));
    let (len, grain, placement) = word_at(1);
    let young = told.all[2].alloc::<u64>(len, grain, placement).expect("it fits");
    told.tell(ms(20), 2, &[2, 3]);
    told.tell(ms(20), 3, &[2, 3]);
    let found = [(3, 30), (2, 35)].map(|(node, at)| told.load(ms(at), node, young));
    told.cluster.run(ms(40));
    assert_eq!(found.map(|found| found.take()), [Some(Ok(0)), Some(Ok(0))]);
}

/// The call that waits is polled when the minipage is lost, and again only when its object is freed.
#[test]
fn an_access_whose_minipage_is_lost_and_freed_before_it_looks_finds_nothing() {
    let told = Told::new(3);
    let (len, grain, placement) = word_at(0);
    let word = told.all[0].named::<u64>(1, len, grain, placement).expect("it fits");
    let stored = told.call(ms(1), 2, move |dsm| async move { dsm.thread().store(word, 0, 7).await });
    told.tell(ms(10), 0, &[0, 1]);
    told.tell(ms(10), 1, &[0, 1]);
    let rt = told.cluster.members[1].rt.clone();
    let found = told.call(ms(20), 1, move |dsm| async move {
        let mut thread = dsm.thread();
        let mut load = pin!(thread.load(word, 0));
        begins(load.as_mut()).await;
        rt.sleep_until(ms(40)).await;
        load.await
    });
    let freed = told.call(ms(30), 0, move |dsm| async move { dsm.thread().free(word).await });
    told.cluster.run(ms(50));
    assert_eq!((stored.take(), freed.take()), (Some(Ok(())), Some(Ok(()))));
    assert_eq!(found.take(), Some(Err(DsmError::Freed(word.object()))));
    assert_eq!(told.all[1].unfinished().map(|(_, open)| open), [0; 10]);
}

#[test]
fn who_waits_for_a_death_is_told_of_those_before_the_end_and_then_of_the_end() {
    let told = Told::new(3);
    let died = [0, 1].map(|after| told.call(ms(1), 0, move |dsm| async move { dsm.next_death(after).await }));
    told.tell(ms(10), 0, &[0, 2]);
    told.leave_out(ms(20), 0);
    told.cluster.run(ms(30));
    assert_eq!(died.map(|died| died.take()), [Some(Ok(rank(1))), Some(Err(DsmError::Out))]);
}
