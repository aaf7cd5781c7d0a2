//! Locks for programs that are no task of a node, as daemons serve them: whoever counts on a lock counts on it alone, also where clients
//! stop asking without a word and where their node is left out.

use super::members::{Node, begin, crash, start_of};
use crate::common::{Cluster, Dice, ms, seeds};
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::locks::remote::{LONGEST_NAME, Remote, RemoteError, Reply, Request, Row, Wish, WishId};
use weft_protocols::locks::{Mode, Scheme, Token};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::Nanos;

const NODES: u32 = 3;

/// How long a client's wish stands: the shortest that there is.
const PATIENCE: Nanos = Nanos::from_secs(1);

fn wish(id: u128, name: &str, mode: Mode) -> Wish {
    let (id, name, by) = (WishId(id), name.to_string(), format!("client {id}"));
    Wish { id, name, mode, by, tries: false, patience: PATIENCE }
}

fn hold(wish: &Wish, holds: bool, wait: Nanos) -> Request {
    Request::Hold { wish: wish.clone(), holds, wait }
}

struct Desks {
    cluster: Cluster,
    nodes: Vec<Node>,
    remote: Vec<Remote<Sim>>,
}

type Told = Rc<RefCell<Option<Result<Reply, RemoteError>>>>;

impl Desks {
    fn new(scheme: Scheme) -> Desks {
        let (cluster, nodes) = start_of(NODES, scheme);
        let remote = cluster.members.iter().zip(&nodes);
        let remote = remote.map(|(member, (_, locks))| Remote::new(&member.rt, locks)).collect();
        cluster.run(ms(100));
        Desks { cluster, nodes, remote }
    }

    /// Asks as a call that travels does, and goes on.
    fn begin(&self, node: usize, request: &Request) -> Told {
        let request = Request::from_bytes(&request.to_bytes()).expect("it is one");
        let (remote, told) = (self.remote[node].clone(), Told::default());
        let tell = Rc::clone(&told);
        self.cluster.members[node].rt.spawn(async move {
            drop(tell.replace(Some(remote.serve(request).await)));
        });
        told
    }

    fn ask(&self, node: usize, request: &Request) -> Result<Reply, RemoteError> {
        let told = self.begin(node, request);
        for _ in 0..3_000 {
            if told.borrow().is_none() {
                self.cluster.run(ms(1));
            }
        }
        told.take().expect("it is answered within three seconds")
    }

    fn shown(&self, node: usize) -> Vec<Row> {
        match self.ask(node, &Request::Show { after: None }) {
            Ok(Reply::Shown { rows, more: None }) => rows,
            other => panic!("{other:?}"),
        }
    }
}

fn token(reply: &Result<Reply, RemoteError>) -> Token {
    match reply {
        Ok(Reply::Holds { token: Some(token), counts_for }) if *counts_for > Nanos::ZERO => *token,
        other => panic!("it holds: {other:?}"),
    }
}

#[test]
fn a_client_waits_for_another_nodes_client_and_has_a_greater_token() {
    let desks = Desks::new(Scheme::Srsl);
    let (one, other) = (wish(1, "build", Mode::Exclusive), wish(2, "build", Mode::Exclusive));
    let first = token(&desks.ask(0, &hold(&one, false, ms(100))));
    assert_eq!(desks.ask(1, &hold(&other, false, ms(100))), Ok(Reply::Waits));
    let waits = desks.begin(1, &hold(&other, false, ms(500)));
    desks.cluster.run(ms(50));
    assert_eq!(*waits.borrow(), None, "the first one holds");
    let [row] = &desks.shown(1)[..] else { panic!("one wish") };
    assert_eq!((row.name.as_str(), row.by.as_str(), row.holds), ("build", "client 2", false));
    assert_eq!(desks.ask(0, &Request::Give { id: one.id }), Ok(Reply::Given));
    desks.cluster.run(ms(5));
    assert!(token(&waits.take().expect("it is granted at once")) > first);
    assert_eq!((desks.remote[0].count(), desks.remote[1].count()), ((0, 0), (1, 0)));
}

#[test]
fn a_call_that_is_made_twice_is_one_wish() {
    let desks = Desks::new(Scheme::Srsl);
    let one = wish(1, "build", Mode::Exclusive);
    let granted = token(&desks.ask(0, &hold(&one, false, ms(100))));
    // Its answer was lost.
    assert_eq!(token(&desks.ask(0, &hold(&one, false, ms(100)))), granted);
    assert_eq!(token(&desks.ask(0, &hold(&one, true, ms(50)))), granted);
    assert_eq!(desks.shown(0).len(), 1);
    for _ in 0..2 {
        assert_eq!(desks.ask(0, &Request::Give { id: one.id }), Ok(Reply::Given));
    }
    assert_eq!(desks.ask(0, &hold(&one, true, ms(50))), Ok(Reply::Lost), "it is not taken anew");
}

#[test]
fn whoever_does_not_wait_is_told_that_the_lock_is_not_free_and_leaves_nothing() {
    let desks = Desks::new(Scheme::Ncosed);
    let one = wish(1, "build", Mode::Shared);
    token(&desks.ask(0, &hold(&one, false, ms(100))));
    let tries = |id, mode| Wish { tries: true, ..wish(id, "build", mode) };
    for node in 0..2 {
        assert_eq!(desks.ask(node, &hold(&tries(2, Mode::Exclusive), false, ms(100))), Ok(Reply::Busy));
        assert_eq!(desks.remote[node].count().1, 0);
    }
    assert!(matches!(desks.ask(1, &hold(&tries(3, Mode::Shared), false, ms(100))), Ok(Reply::Holds { .. })));
}

#[test]
fn the_lock_of_a_client_that_asks_no_more_is_granted_on_after_its_patience_and_no_sooner() {
    let desks = Desks::new(Scheme::Srsl);
    let (dies, next) = (wish(1, "build", Mode::Exclusive), wish(2, "build", Mode::Exclusive));
    token(&desks.ask(0, &hold(&dies, false, ms(100))));
    let began = desks.cluster.fabric.now();
    assert_eq!(desks.ask(1, &hold(&next, false, ms(900))), Ok(Reply::Waits));
    token(&desks.ask(1, &hold(&next, false, PATIENCE)));
    let waited = desks.cluster.fabric.now() - began;
    assert!((PATIENCE..PATIENCE + ms(150)).contains(&waited), "{waited}");
    assert_eq!(desks.ask(0, &hold(&dies, true, ms(10))), Ok(Reply::Lost));
}

#[test]
fn one_that_waits_and_asks_no_more_is_taken_out_of_the_queue() {
    let desks = Desks::new(Scheme::Srsl);
    let (holds, dies) = (wish(1, "build", Mode::Exclusive), wish(2, "build", Mode::Exclusive));
    token(&desks.ask(0, &hold(&holds, false, ms(100))));
    assert_eq!(desks.ask(1, &hold(&dies, false, ms(10))), Ok(Reply::Waits));
    for _ in 0..4 {
        token(&desks.ask(0, &hold(&holds, true, ms(400))));
    }
    assert_eq!(desks.remote[1].count(), (0, 0));
}

#[test]
fn a_client_of_a_node_that_the_others_leave_out_hears_at_once_that_it_has_lost_its_lock() {
    let desks = Desks::new(Scheme::Srsl);
    let one = wish(1, "build", Mode::Exclusive);
    token(&desks.ask(2, &hold(&one, false, ms(100))));
    let cut = Fault::Cut { link: Link::Node(NodeId(2)), way: Way::Both, lasts: Some(ms(300)) };
    desks.cluster.plan(desks.cluster.fabric.now(), cut);
    // Nobody is left out whom nobody waits for.
    let next = desks.begin(0, &hold(&wish(2, "build", Mode::Exclusive), false, PATIENCE));
    let (began, mut counted_until) = (desks.cluster.fabric.now(), Nanos::ZERO);
    let lost = loop {
        let asked = desks.cluster.fabric.now();
        assert!(asked < began + ms(900), "it is told");
        match desks.ask(2, &hold(&one, true, ms(5))) {
            Ok(Reply::Holds { counts_for: Nanos::ZERO, .. }) => {}
            Ok(Reply::Holds { counts_for, .. }) => counted_until = counted_until.max(asked + counts_for),
            Ok(Reply::Lost) => break desks.cluster.fabric.now(),
            other => panic!("{other:?}"),
        }
    };
    let view = desks.nodes[0].0.grants_from();
    assert!(
        counted_until <= view,
        "it counted on the lock until {counted_until}, and others may have it from {view} on"
    );
    assert!(lost > counted_until);
    token(&next.take().expect("it is granted on"));
}

#[test]
fn what_cannot_be_wished_is_refused() {
    let desks = Desks::new(Scheme::Srsl);
    let of = |name: &str| desks.ask(0, &hold(&wish(1, name, Mode::Shared), false, ms(10)));
    for wrong in ["", "a\nb", &"x".repeat(LONGEST_NAME + 1)] {
        assert_eq!(of(wrong), Err(RemoteError::Name));
    }
    let brief = Wish { patience: ms(999), ..wish(1, "a", Mode::Shared) };
    assert_eq!(desks.ask(0, &hold(&brief, false, ms(10))), Err(RemoteError::Patience { of: ms(999) }));
    token(&of("a"));
    assert_eq!(of("b"), Err(RemoteError::Taken));
}

#[test]
fn all_wishes_are_shown_however_many() {
    let desks = Desks::new(Scheme::Srsl);
    let names: Vec<String> = (0..300).map(|n| format!("{n:0>200}")).collect();
    for (id, name) in (0..).zip(&names) {
        drop(desks.begin(0, &hold(&wish(id, name, Mode::Exclusive), false, ms(100))));
    }
    desks.cluster.run(ms(100));
    let (mut shown, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let Ok(Reply::Shown { rows, more }) = desks.ask(0, &Request::Show { after }) else {
            panic!("it shows")
        };
        shown.extend(rows.into_iter().map(|row| row.name));
        (after, pages) = (more, pages + 1);
        if more.is_none() {
            break;
        }
    }
    assert_eq!(shown, names);
    assert!(pages > 1);
}

/// For how long each client counts on its lock.
#[derive(Default)]
struct Counted(Vec<(Mode, Nanos, Nanos)>);

impl Counted {
    /// A client has asked, and may count on the lock until then, if it does not hear otherwise.
    fn counts(&mut self, mode: Mode, from: Nanos, until: Nanos) -> usize {
        self.0.push((mode, from, until));
        self.0.len() - 1
    }

    fn overlap(&self) -> Option<String> {
        let pairs = self
            .0
            .iter()
            .enumerate()
            .flat_map(|(at, one)| self.0[..at].iter().map(move |other| (one, other)));
        let meets = |&((mode, from, until), (other, begins, ends)): &(
            &(Mode, Nanos, Nanos),
            &(Mode, Nanos, Nanos),
        )| { !mode.goes_with(*other) && from < ends && begins < until };
        let mut overlaps = pairs.filter(meets);
        overlaps.next().map(|pair| format!("{pair:?}"))
    }
}

/// Clients that hold for a while, give back or die, and one node that is cut off and left out.
#[test]
fn nobody_counts_on_a_lock_while_somebody_else_does() {
    for seed in seeds(8) {
        let mut dice = Dice::new(seed);
        let desks = Desks::new(if seed % 2 == 0 { Scheme::Srsl } else { Scheme::Ncosed });
        let counted = Rc::new(RefCell::new(Counted::default()));
        for client in 0..12_u64 {
            let node = (client % 3) as usize;
            let (rt, remote) = (desks.cluster.members[node].rt.clone(), desks.remote[node].clone());
            let mode = if dice.below(3) == 0 { Mode::Shared } else { Mode::Exclusive };
            let wish = wish(client.into(), "build", mode);
            let (rests, holds_for, dies) = (ms(dice.below(2_000)), ms(dice.below(300)), dice.below(3) == 0);
            let counted = Rc::clone(&counted);
            desks.cluster.members[node].rt.spawn(async move {
                rt.sleep(rests).await;
                let (mut held, mut place) = (None, None);
                loop {
                    let asked = rt.now();
                    let reply = remote.serve(hold(&wish, held.is_some(), ms(5))).await;
                    let now = rt.now();
                    match reply {
                        Ok(Reply::Waits) => continue,
                        Ok(Reply::Holds { counts_for, .. }) => {
                            let since = *held.get_or_insert(now);
                            let until = asked + counts_for;
                            let mut counted = counted.borrow_mut();
                            let place = *place.get_or_insert_with(|| counted.counts(mode, now, until));
                            counted.0[place].2 = counted.0[place].2.max(until);
                            if now < since + holds_for {
                                continue;
                            }
                            if dies {
                                return;
                            }
                            // From now on it does not count on it.
                            counted.0[place].2 = now;
                        }
                        Ok(_) | Err(_) => return,
                    }
                    let _ = remote.serve(Request::Give { id: wish.id }).await;
                    return;
                }
            });
        }
        let cut = Fault::Cut { link: Link::Node(NodeId(2)), way: Way::Both, lasts: Some(ms(200)) };
        desks.cluster.plan(desks.cluster.fabric.now() + ms(dice.below(3_000)), cut);
        desks.cluster.run(Nanos::from_secs(30));
        let counted = counted.borrow();
        assert!(counted.0.len() > 6, "seed {seed}: {} clients held", counted.0.len());
        assert_eq!(counted.overlap(), None, "seed {seed}");
    }
}

#[test]
fn the_locks_of_a_dead_nodes_clients_are_granted_on() {
    let mut desks = Desks::new(Scheme::Ncosed);
    let (one, next) = (wish(1, "build", Mode::Exclusive), wish(2, "build", Mode::Exclusive));
    let first = token(&desks.ask(2, &hold(&one, false, ms(100))));
    crash(&desks.cluster, 2);
    assert!(token(&desks.ask(0, &hold(&next, false, Nanos::from_secs(1)))) > first);
    // Its client asks the node that came back.
    desks.cluster.plan(desks.cluster.fabric.now(), Fault::Restart { node: NodeId(2) });
    desks.cluster.run(ms(1));
    desks.cluster.members[2] = desks.cluster.start(2);
    desks.nodes[2] = begin(&desks.cluster, 2, Scheme::Ncosed);
    desks.remote[2] = Remote::new(&desks.cluster.members[2].rt, &desks.nodes[2].1);
    assert_eq!(desks.ask(2, &hold(&one, true, ms(10))), Ok(Reply::Lost));
}
