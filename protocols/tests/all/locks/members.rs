//! Locks among members: a node that dies holding, waiting or as a lock's home is survived, and one that hangs does no harm.

use crate::common::{Cluster, ms, rank};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::locks::{Grant, LockConfig, LockError, LockKey, LockService, Mode, Scheme, Token};
use weft_protocols::members::{CHANNEL, Envelope, Member, Members, MembersConfig, Message};
use weft_protocols::transport::Channel;
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

const NODES: u32 = 3;

/// Short times, longer than a connection is away.
pub(super) fn settings(nodes: u32) -> MembersConfig {
    MembersConfig { lease: ms(20), drift: ms(1), patience: ms(10), ..MembersConfig::new(nodes) }
}

/// After a crash nobody waits longer: a renewal is due, is not answered; the one that proposes asks, too; a view is decided,
/// leases run out.
pub(super) fn longest() -> Nanos {
    let MembersConfig { lease, drift, patience, .. } = settings(NODES);
    Nanos(lease.0 / 3) + patience * 2 + lease + drift + ms(3)
}

pub(super) type Node = (Members<Sim>, LockService<Sim>);

pub(super) fn begin(cluster: &Cluster, node: usize, scheme: Scheme) -> Node {
    let (member, nodes) = (&cluster.members[node], cluster.fabric.nodes());
    let members = Members::start(&member.rt, &member.mesh, settings(nodes)).expect("it starts");
    let config = LockConfig::new(scheme, nodes);
    let locks = LockService::start_with(&member.rt, &member.mesh, config, &members).expect("it starts");
    // A node that waits cannot see what a test does from outside: it looks once a millisecond.
    let rt = member.rt.clone();
    member.rt.spawn(async move {
        loop {
            rt.sleep(ms(1)).await;
        }
    });
    (members, locks)
}

fn start(scheme: Scheme) -> (Cluster, Vec<Node>) {
    start_of(NODES, scheme)
}

pub(super) fn start_of(nodes: u32, scheme: Scheme) -> (Cluster, Vec<Node>) {
    let cluster = Cluster::new(nodes, 1, Wait::Notify);
    let nodes = (0..nodes as usize).map(|node| begin(&cluster, node, scheme)).collect();
    (cluster, nodes)
}

pub(super) fn crash(cluster: &Cluster, node: usize) {
    cluster.plan(cluster.fabric.now(), Fault::Crash { node: NodeId(node as u32) });
    cluster.run(Nanos(1));
}

pub(super) fn come_back(cluster: &mut Cluster, nodes: &mut [Node], node: usize, scheme: Scheme) {
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(node as u32) });
    cluster.run(ms(1));
    cluster.members[node] = cluster.start(node as u32);
    nodes[node] = begin(cluster, node, scheme);
}

/// A lock that is at home on this node, while all are there.
fn at_home(node: usize) -> LockKey {
    at_home_of(NODES, node)
}

pub(super) fn at_home_of(nodes: u32, node: usize) -> LockKey {
    (0..).map(LockKey).find(|key| key.home(nodes) == rank(node)).expect("every node is a home")
}

/// When a lock was granted and with which token, or why it was not.
type Granted = Result<(Nanos, Option<Token>), LockError>;

/// A request, and what has come of it.
#[derive(Clone, Default)]
pub(super) struct Request(Rc<RefCell<Option<Granted>>>);

impl Request {
    pub(super) fn granted_at(&self) -> Option<Nanos> {
        self.0.borrow().as_ref().and_then(|result| result.as_ref().ok()).map(|(at, _)| *at)
    }

    fn token(&self) -> Option<Token> {
        self.0.borrow().as_ref().and_then(|result| result.as_ref().ok()).and_then(|(_, token)| *token)
    }
}

/// Asks for a lock, and does something with the grant.
pub(super) fn ask<F: Future<Output = ()> + 'static>(
    cluster: &Cluster,
    nodes: &[Node],
    node: usize,
    key: LockKey,
    then: impl FnOnce(Grant<Sim>) -> F + 'static,
) -> Request {
    let request = Request::default();
    let (rt, client, result) = (cluster.members[node].rt.clone(), nodes[node].1.client(), request.clone());
    let task = async move {
        let grant = client.lock(key, Mode::Exclusive).await;
        let told = grant.as_ref().map(|grant| (rt.now(), grant.token())).map_err(Clone::clone);
        *result.0.borrow_mut() = Some(told);
        if let Ok(grant) = grant {
            then(grant).await;
        }
    };
    drop(cluster.members[node].rt.spawn(task));
    cluster.run(ms(2));
    request
}

pub(super) async fn for_ever(grant: Grant<Sim>) {
    grant.lost().await;
}

/// Of a grant in a later view, whatever the scheme counts.
fn grows(before: &Request, after: &Request) {
    assert!(before.token() < after.token(), "{:?} {:?}", before.token(), after.token());
}

#[test]
fn what_a_member_that_dies_held_is_granted_on_when_its_lease_has_run_out() {
    for scheme in Scheme::ALL {
        let (cluster, nodes) = start(scheme);
        cluster.run(ms(50));
        let held = ask(&cluster, &nodes, 2, at_home(0), for_ever);
        let waits = ask(&cluster, &nodes, 1, at_home(0), for_ever);
        cluster.run(ms(30));
        assert!(held.granted_at().is_some() && waits.granted_at().is_none());
        let (lease, died) = (nodes[2].0.lease_until(), cluster.fabric.now());
        crash(&cluster, 2);
        cluster.run(longest());
        let at = waits.granted_at().expect("it is granted on");
        assert!(at >= lease && at <= died + longest(), "{lease} {died} {at}");
        grows(&held, &waits);
    }
}

#[test]
fn a_waiter_that_dies_is_passed_over() {
    for scheme in Scheme::ALL {
        let (cluster, nodes) = start(scheme);
        cluster.run(ms(50));
        let rt = cluster.members[0].rt.clone();
        let held = ask(&cluster, &nodes, 0, at_home(0), move |grant| async move {
            rt.sleep(ms(100)).await;
            grant.unlock().await;
        });
        let _dies = ask(&cluster, &nodes, 2, at_home(0), for_ever);
        let waits = ask(&cluster, &nodes, 1, at_home(0), for_ever);
        crash(&cluster, 2);
        cluster.run(longest());
        assert!(held.granted_at().is_some() && waits.granted_at().is_none(), "one that lives holds it");
        cluster.run(ms(70));
        assert!(waits.granted_at().is_some(), "the one before it is dead");
    }
}

#[test]
fn a_lock_whose_home_dies_is_kept_by_its_holder_and_granted_by_the_next_member() {
    for scheme in Scheme::ALL {
        let (cluster, nodes) = start(scheme);
        cluster.run(ms(50));
        let released = Rc::new(Cell::new(Nanos::ZERO));
        let (rt, at) = (cluster.members[2].rt.clone(), Rc::clone(&released));
        let held = ask(&cluster, &nodes, 2, at_home(1), move |grant| async move {
            rt.sleep(ms(200)).await;
            assert!(grant.counts());
            at.set(rt.now());
            grant.unlock().await;
        });
        let waits = ask(&cluster, &nodes, 0, at_home(1), for_ever);
        crash(&cluster, 1);
        cluster.run(ms(150));
        assert!(waits.granted_at().is_none(), "it is held");
        cluster.run(ms(100));
        let at = waits.granted_at().expect("it was released");
        assert!(at >= released.get() && released.get() > Nanos::ZERO);
        grows(&held, &waits);
        let other = ask(&cluster, &nodes, 2, LockKey(at_home(1).0 + 1_000), for_ever);
        cluster.run(ms(5));
        assert!(other.granted_at().is_some(), "nobody waits any more for those who left");
    }
}

#[test]
fn a_member_that_comes_back_takes_part_again_and_its_locks_come_home() {
    for scheme in Scheme::ALL {
        let (mut cluster, mut nodes) = start(scheme);
        cluster.run(ms(50));
        let first = ask(&cluster, &nodes, 2, at_home(1), for_ever);
        crash(&cluster, 1);
        cluster.run(ms(5));
        come_back(&mut cluster, &mut nodes, 1, scheme);
        cluster.run(longest());
        assert_eq!(nodes[0].0.view().map(|view| view.members.len()), Some(3));
        let second = ask(&cluster, &nodes, 1, at_home(1), for_ever);
        let third = ask(&cluster, &nodes, 1, at_home(0), for_ever);
        cluster.run(longest());
        assert!(third.granted_at().is_some(), "it takes part");
        assert!(second.granted_at().is_none(), "what is held since before it crashed it knows of");
        crash(&cluster, 2);
        cluster.run(longest());
        assert!(second.granted_at().is_some());
        grows(&first, &second);
    }
}

/// What a lock protects: it refuses whoever comes with a smaller token than the largest that it has seen.
#[derive(Default)]
struct Register {
    largest: Cell<Option<Token>>,
    value: Cell<u32>,
}

impl Register {
    fn write(&self, token: Option<Token>, value: u32) -> bool {
        if token < self.largest.get() {
            return false;
        }
        self.largest.set(token);
        self.value.set(value);
        true
    }
}

#[test]
fn a_holder_that_hangs_for_a_minute_wakes_up_and_does_no_harm() {
    for scheme in Scheme::ALL {
        let (cluster, nodes) = start(scheme);
        cluster.run(ms(50));
        let (register, refused) = (Rc::new(Register::default()), Rc::new(Cell::new(false)));
        let of = (Rc::clone(&register), Rc::clone(&refused), cluster.members[2].rt.clone());
        let hangs = ask(&cluster, &nodes, 2, at_home(0), move |grant| async move {
            let (register, refused, rt) = of;
            assert!(register.write(grant.token(), 1));
            // It looks at nothing for a minute, neither at its lease nor at what it is told.
            rt.sleep(Nanos::from_secs(60)).await;
            assert!(!grant.counts(), "who looks knows");
            refused.set(!register.write(grant.token(), 2));
            grant.lost().await;
        });
        let cut =
            Fault::Cut { link: Link::Node(NodeId(2)), way: Way::Both, lasts: Some(Nanos::from_secs(59)) };
        let hung = cluster.fabric.now();
        cluster.plan(hung, cut);
        let of = Rc::clone(&register);
        let next = ask(&cluster, &nodes, 1, at_home(0), move |grant| async move {
            assert!(of.write(grant.token(), 3));
            grant.unlock().await;
        });
        cluster.run(longest());
        let at = next.granted_at().expect("the others go on");
        assert!(nodes[2].0.lease_until() <= at, "what the one that hangs had counts no more");
        assert!(hangs.token() < next.token());
        cluster.run(Nanos::from_secs(61));
        assert!(refused.get(), "the register knows a larger token");
        assert_eq!(register.value.get(), 3);
        assert!(nodes[2].0.is_out());
        let after = ask(&cluster, &nodes, 2, at_home(0), for_ever);
        assert!(matches!(&*after.0.borrow(), Some(Err(LockError::LeftOut))), "it must be restarted");
        let member = &cluster.members[2];
        let config = LockConfig { channel: Channel(2), ..LockConfig::new(scheme, NODES) };
        let late = LockService::start_with(&member.rt, &member.mesh, config, &nodes[2].0);
        let (client, answer) = (late.expect("it starts").client(), Rc::new(RefCell::new(None)));
        let of = Rc::clone(&answer);
        drop(member.rt.spawn(async move {
            *of.borrow_mut() = client.lock(at_home(0), Mode::Exclusive).await.err();
        }));
        cluster.run(ms(2));
        assert_eq!(
            *answer.borrow(),
            Some(LockError::LeftOut),
            "a service that is started too late is told so"
        );
    }
}

/// Who holds alone is cut off, its lease runs out, and another node is granted the lock alone. Then it goes on sharing.
#[test]
fn a_hold_that_is_downgraded_after_its_lease_has_run_out_lets_nobody_in() {
    for scheme in [Scheme::Srsl, Scheme::Ncosed] {
        let (cluster, nodes) = start(scheme);
        cluster.run(ms(50));
        let rt = cluster.members[2].rt.clone();
        let downgraded = Rc::new(Cell::new(false));
        let of = Rc::clone(&downgraded);
        let held = ask(&cluster, &nodes, 2, at_home(0), move |mut grant| async move {
            rt.sleep(ms(80)).await;
            assert!(!grant.counts());
            grant.downgrade().await.expect("nodes share");
            of.set(true);
            grant.lost().await;
        });
        assert!(held.granted_at().is_some());
        let (client, answer) = (nodes[2].1.client(), Rc::new(RefCell::new(None)));
        let of = Rc::clone(&answer);
        let task = async move {
            let told = client.lock(at_home(0), Mode::Shared).await.map(|grant| grant.counts());
            *of.borrow_mut() = Some(told);
        };
        drop(cluster.members[2].rt.spawn(task));
        let cut = Fault::Cut { link: Link::Node(NodeId(2)), way: Way::Both, lasts: Some(ms(200)) };
        cluster.plan(cluster.fabric.now(), cut);
        let next = ask(&cluster, &nodes, 1, at_home(0), for_ever);
        cluster.run(ms(120));
        assert!(next.granted_at().is_some() && downgraded.get(), "{scheme}");
        assert_eq!(*answer.borrow(), None, "{scheme}: node 1 holds it alone");
        cluster.run(ms(300));
        assert_eq!(*answer.borrow(), Some(Err(LockError::LeftOut)), "{scheme}");
    }
}

/// As one says it that was started anew for a cluster that is to grow.
#[test]
fn a_view_that_names_a_node_which_is_not_configured_is_heeded_by_nobody_and_locks_go_on() {
    for scheme in Scheme::ALL {
        let cluster = Cluster::new(NODES, 1, Wait::Notify);
        let nodes: Vec<_> = (0..2).map(|node| begin(&cluster, node, scheme)).collect();
        cluster.run(ms(50));
        let before = nodes[0].0.view().expect("two of three begin");
        let other = &cluster.members[2];
        let as_many = other.mesh.open(CHANNEL).expect("nobody else uses it");
        let one_more = Member { rank: rank(3), incarnation: 9 };
        let mut next = before.clone();
        next.id.number += 1;
        next.members.push(Member { rank: rank(2), incarnation: other.mesh.incarnation() });
        next.members.push(one_more);
        for to in 0..2 {
            let message = Message::Decided { view: next.clone() };
            let envelope = Envelope { from: other.mesh.incarnation(), to: 0, message };
            other.mesh.send(rank(to), CHANNEL, &envelope.encode()).expect("there is room");
        }
        cluster.run(ms(50));
        for (members, _) in &nodes {
            assert_eq!(members.view().as_ref(), Some(&before));
        }
        assert!(ask(&cluster, &nodes, 1, at_home(0), |grant| grant.unlock()).granted_at().is_some());
        drop(as_many);
    }
}

#[test]
fn without_a_majority_requests_wait_or_time_out() {
    for scheme in Scheme::ALL {
        let (cluster, nodes) = start(scheme);
        cluster.run(ms(50));
        crash(&cluster, 1);
        crash(&cluster, 2);
        let (rt, client) = (cluster.members[0].rt.clone(), nodes[0].1.client());
        let told = Rc::new(Cell::new(false));
        let (at, of) = (rt.now() + ms(100), Rc::clone(&told));
        let task = async move {
            let result = client.lock_until(at_home(1), Mode::Exclusive, at).await;
            of.set(result.err() == Some(LockError::Deadline));
        };
        drop(rt.spawn(task));
        cluster.run(ms(110));
        assert!(told.get());
    }
}

#[test]
fn who_tries_at_a_cold_start_has_a_free_lock_once_nobody_can_hold_anything_of_before() {
    for scheme in Scheme::ALL {
        let (cluster, nodes) = start(scheme);
        let (rt, client, request) = (cluster.members[1].rt.clone(), nodes[1].1.client(), Request::default());
        let result = request.clone();
        let task = async move {
            let grant = client.try_lock(at_home(0), Mode::Exclusive).await;
            *result.0.borrow_mut() = Some(grant.map(|grant| (rt.now(), grant.token())));
        };
        drop(cluster.members[1].rt.spawn(task));
        cluster.run(ms(50));
        let MembersConfig { lease, drift, .. } = settings(NODES);
        let at = request.granted_at().unwrap_or_else(|| panic!("{scheme}: {:?}", request.0.borrow()));
        assert!(at >= lease + drift, "{scheme}: {at}");
    }
}

/// Though it held the lock as the view began, nobody does any more.
#[test]
fn who_held_a_lock_as_a_view_began_gives_it_back_and_tries_has_it() {
    for scheme in Scheme::ALL {
        let (cluster, nodes) = start(scheme);
        cluster.run(ms(50));
        let (rt, members, client) = (cluster.members[1].rt.clone(), nodes[1].0.clone(), nodes[1].1.client());
        let request = Request::default();
        let result = request.clone();
        let held = ask(&cluster, &nodes, 1, at_home(0), move |grant| async move {
            while members.view().is_none_or(|view| view.members.len() == NODES as usize) {
                rt.sleep(ms(1)).await;
            }
            grant.unlock().await;
            // It is back at its home before it is wanted again.
            rt.sleep(ms(1)).await;
            let tried = client.try_lock(at_home(0), Mode::Exclusive).await;
            *result.0.borrow_mut() = Some(tried.map(|grant| (rt.now(), grant.token())));
        });
        assert!(held.granted_at().is_some());
        crash(&cluster, 2);
        cluster.run(longest() + ms(5));
        let at = request.granted_at().unwrap_or_else(|| panic!("{scheme}: {:?}", request.0.borrow()));
        // Where words are used, nobody has one until those who left hold nothing any more; a queue's home knows who holds.
        let fence = nodes[0].0.grants_from().min(nodes[1].0.grants_from());
        assert_eq!(at >= fence, scheme != Scheme::Srsl, "{scheme}: {at} {fence}");
        grows(&held, &request);
    }
}

#[test]
fn nothing_is_sent_while_nothing_is_held() {
    for scheme in Scheme::ALL {
        let (cluster, nodes) = start(scheme);
        cluster.run(ms(50));
        for node in 0..3 {
            let request = ask(&cluster, &nodes, node, at_home(1), |grant| grant.unlock());
            assert!(request.granted_at().is_some());
        }
        cluster.run(ms(200));
        let sent = || -> u64 { cluster.members.iter().map(|member| member.mesh.stats().messages_sent).sum() };
        let before = sent();
        cluster.run(Nanos::from_secs(10));
        assert_eq!(sent(), before);
        assert!(nodes.iter().all(|(_, locks)| locks.audit().is_clean()));
    }
}

/// What a request costs, and how many messages it makes, alone among three nodes.
fn cost(cluster: &Cluster, nodes: &[Node]) -> (Nanos, u64) {
    let sent = || -> u64 { cluster.members.iter().map(|member| member.mesh.stats().messages_sent).sum() };
    let (before, begin) = (sent(), cluster.fabric.now());
    let request = ask(cluster, nodes, 2, at_home(0), |grant| grant.unlock());
    (request.granted_at().expect("nobody else wants it") - begin, sent() - before)
}

#[test]
fn the_first_grant_after_an_idle_lease_pays_one_renewal_and_the_next_ones_nothing() {
    for scheme in Scheme::ALL {
        let (cluster, nodes) = start(scheme);
        cluster.run(ms(50));
        // Connections are made, and the lock's word is known.
        cost(&cluster, &nodes);
        cluster.run(ms(100));
        let (first, renewal) = cost(&cluster, &nodes);
        let (next, usual) = cost(&cluster, &nodes);
        println!("{scheme}: {first} and {renewal} messages; under the lease {next} and {usual} messages");
        // It asks the two others, and is answered by both, while it asks for the lock.
        assert_eq!(renewal - usual, 4, "{scheme}");
        assert!(first < next * 2, "{scheme}: {first}, {next}");
    }
}
