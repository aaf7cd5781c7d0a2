//! Values by names that are texts, as daemons serve them: on four nodes of a simulated cluster.

use crate::common::{Cluster, Dice, Member, ms, rank, seeds, us};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use weft_protocols::ddss::named::{
    LARGEST_VALUE, LONGEST_NAME, Named, NamedError, Reply, Request, Row, Seen,
};
use weft_protocols::ddss::{Ddss, DdssError, Model, Name, Placement, Spec};
use weft_sim::fault::{Fault, Link, Way};
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

const NODES: u32 = 4;

/// What a node is to begin, once it looks.
type Jobs = Rc<RefCell<Vec<Pin<Box<dyn Future<Output = ()>>>>>>;

struct Desks {
    cluster: Cluster,
    ddss: Vec<Ddss<Sim>>,
    named: Vec<Named<Sim>>,
    jobs: Vec<Jobs>,
}

impl Desks {
    fn new(seed: u64) -> Desks {
        let cluster = Cluster::new(NODES, seed, Wait::Notify);
        let start = |node: usize| {
            let member = &cluster.members[node];
            Ddss::start(&member.rt, &member.mesh).expect("the channel is free")
        };
        let ddss: Vec<_> = (0..NODES as usize).map(start).collect();
        let named = ddss.iter().zip(&cluster.members).map(|(ddss, member)| Named::new(&member.rt, ddss));
        let named = named.collect();
        let jobs: Vec<Jobs> = ddss.iter().map(|_| Jobs::default()).collect();
        for (member, jobs) in cluster.members.iter().zip(&jobs) {
            let (rt, jobs) = (member.rt.clone(), Rc::clone(jobs));
            member.at(us(1), move || {
                let looks = rt.clone();
                drop(rt.spawn(async move {
                    loop {
                        jobs.take().into_iter().for_each(|job| drop(looks.spawn(job)));
                        looks.sleep(us(100)).await;
                    }
                }));
            });
        }
        Desks { cluster, ddss, named, jobs }
    }

    fn begin(&self, node: usize, does: impl Future<Output = ()> + 'static) {
        self.jobs[node].borrow_mut().push(Box::pin(does));
    }

    /// Runs what a node does; what it came to.
    fn run<T: 'static>(&self, node: usize, does: impl Future<Output = T> + 'static) -> T {
        let told = Rc::new(RefCell::new(None));
        let keep = Rc::clone(&told);
        self.begin(node, async move { drop(keep.replace(Some(does.await))) });
        for _ in 0..100 {
            if told.borrow().is_none() {
                self.cluster.run(ms(20));
            }
        }
        told.take().expect("it ends within two seconds")
    }

    fn ask(&self, node: usize, request: Request) -> Result<Reply, NamedError> {
        // As it travels.
        let request = Request::from_bytes(&request.to_bytes()).expect("it is one");
        let named = self.named[node].clone();
        self.run(node, async move { named.serve(request).await })
    }

    /// The answers of a node that is asked for all that it keeps.
    fn pages(&self, node: usize) -> Vec<Vec<Row>> {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let reply = self.ask(node, Request::Kept { after });
            let Ok(Reply::Kept { rows, more }) = reply else { panic!("it says what it keeps: {reply:?}") };
            pages.push(rows);
            match more {
                Some(_) => after = more,
                None => return pages,
            }
        }
    }

    /// What a node keeps.
    fn kept(&self, node: usize) -> Vec<Row> {
        self.pages(node).concat()
    }
}

/// When a call ended, and what it came to.
type Told = Rc<RefCell<Option<(Nanos, Result<Reply, NamedError>)>>>;

/// The nodes as daemons serve them: a call that takes too long ends.
struct Calls {
    cluster: Cluster,
    named: Vec<Named<Sim>>,
}

impl Calls {
    fn new(seed: u64) -> Calls {
        let cluster = Cluster::new(NODES, seed, Wait::Notify);
        let start = |member: &Member| {
            let ddss = Ddss::start(&member.rt, &member.mesh).expect("the channel is free");
            Named::new(&member.rt, &ddss)
        };
        let named = cluster.members.iter().map(start).collect();
        Calls { cluster, named }
    }

    /// A node asks at a moment.
    fn begin(&self, node: usize, at: Nanos, request: Request) -> Told {
        let (told, named, rt) =
            (Told::default(), self.named[node].clone(), self.cluster.members[node].rt.clone());
        let tells = Rc::clone(&told);
        self.cluster.members[node].at(at, move || {
            let now = rt.clone();
            drop(rt.spawn(async move {
                let reply = named.serve_in_time(request).await;
                tells.replace(Some((now.now(), reply)));
            }));
        });
        told
    }
}

fn put(name: &str, value: &[u8]) -> Request {
    Request::Put { name: name.into(), size: None, model: None, home: None, value: value.into() }
}

fn get(name: &str) -> Request {
    Request::Get { name: name.into(), known: None, wait: Nanos::ZERO }
}

/// FNV-1a of the text, by the definition of the hash, without the highest bit.
fn number(name: &str) -> Name {
    let number = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    Name(number & !(1 << 63))
}

fn value(reply: Result<Reply, NamedError>) -> (u64, Vec<u8>) {
    match reply {
        Ok(Reply::Value { version, value, .. }) => (version, value),
        other => panic!("no value: {other:?}"),
    }
}

#[test]
fn what_was_put_by_a_name_on_one_node_is_got_on_another_until_it_is_removed() {
    let desks = Desks::new(1);
    assert_eq!(desks.ask(0, get("load")), Err(NamedError::Unknown("load".into())));
    let Ok(Reply::Put { version: Some(first), home }) = desks.ask(1, put("load", b"0.25")) else {
        panic!("it was not put")
    };
    assert_eq!(value(desks.ask(3, get("load"))), (first, b"0.25".to_vec()));
    let longer = b"a longer value than that".to_vec();
    let Ok(Reply::Put { version: Some(second), .. }) = desks.ask(2, put("load", &longer)) else {
        panic!("it was not put")
    };
    assert!(second > first);
    assert_eq!(value(desks.ask(1, get("load"))), (second, longer.clone()));
    let rows = desks.kept(home.index());
    let row = &rows[0];
    assert_eq!((rows.len(), row.name.as_deref(), row.version), (1, Some("load"), second));
    assert_eq!(
        (row.len, row.size, row.model),
        (longer.len() as u32, 64, Model::Version),
        "as it is put anew"
    );
    assert_eq!(desks.ask(0, Request::Remove { name: "load".into() }), Ok(Reply::Removed));
    assert_eq!(desks.ask(3, get("load")), Err(NamedError::Unknown("load".into())));
    assert_eq!(desks.kept(home.index()), []);
    assert!(matches!(desks.ask(3, put("load", b"anew")), Ok(Reply::Put { .. })));
}

/// A call has room for 100 KiB, and the values' names take more.
#[test]
fn a_node_says_all_that_it_keeps_in_answers_that_a_call_has_room_for() {
    const NAMES: usize = 430;
    let desks = Desks::new(9);
    let named = desks.named[0].clone();
    let name = |nth| format!("{nth:0>240}");
    desks.run(0, async move {
        for nth in 0..NAMES {
            let put = Request::Put {
                name: name(nth),
                size: None,
                model: None,
                home: Some(rank(2)),
                value: vec![1],
            };
            named.serve(put).await.expect("there is room");
        }
    });
    let pages = desks.pages(2);
    for rows in &pages[..pages.len() - 1] {
        let bytes = Reply::Kept { rows: rows.clone(), more: None }.to_bytes().len();
        assert!((30 * 1_024..40 * 1_024).contains(&bytes), "{bytes}");
    }
    let mut names: Vec<_> =
        pages.concat().into_iter().map(|row| row.name.expect("it was put by it")).collect();
    names.sort();
    assert_eq!(names, (0..NAMES).map(name).collect::<Vec<_>>());
}

#[test]
fn who_waits_for_a_new_version_has_it_within_a_look_and_otherwise_hears_that_there_is_none() {
    for model in
        [Model::Version, Model::Write, Model::Strict, Model::Delta(2), Model::Temporal(500), Model::Read]
    {
        let desks = Desks::new(2);
        let first = Request::Put {
            name: "load".into(),
            size: Some(16),
            model: Some(model),
            home: Some(rank(2)),
            value: b"1".to_vec(),
        };
        let Ok(Reply::Put { version: Some(version), .. }) = desks.ask(1, first) else { panic!("{model}") };
        let seen = Seen { version, of: None };
        let wait = |wait| Request::Get { name: "load".into(), known: Some(seen), wait };
        assert_eq!(desks.ask(3, wait(ms(50))), Ok(Reply::Same { version }), "{model}");
        let (watches, puts) = (desks.named[3].clone(), desks.named[0].clone());
        let began = desks.cluster.fabric.now();
        let rt = desks.cluster.members[0].rt.clone();
        desks.begin(0, async move {
            rt.sleep(ms(70)).await;
            puts.serve(put("load", b"2")).await.expect("it is put");
        });
        let request = wait(ms(500));
        let rt = desks.cluster.members[3].rt.clone();
        let (reply, at) = desks.run(3, async move { (watches.serve(request).await, rt.now()) });
        assert_eq!(value(reply), (version + 1, b"2".to_vec()), "{model}");
        assert!(at < began + ms(70 + 25), "{model}: {}", at - began);
    }
}

#[test]
fn who_has_seen_a_value_is_shown_the_next_one_of_its_name_also_where_that_was_removed_and_put_anew() {
    let desks = Desks::new(5);
    desks.ask(0, put("load", b"1")).expect("it is put");
    let Ok(Reply::Value { version, of, .. }) = desks.ask(1, get("load")) else { panic!("it is there") };
    let known = |of| Some(Seen { version, of });
    let again = |known| Request::Get { name: "load".into(), known, wait: Nanos::ZERO };
    assert_eq!(desks.ask(2, again(known(Some(of)))), Ok(Reply::Same { version }));
    desks.ask(3, Request::Remove { name: "load".into() }).expect("it is removed");
    desks.ask(2, put("load", b"2")).expect("it is put");
    let next = value(desks.ask(1, again(known(Some(of)))));
    assert_eq!(next, (version, b"2".to_vec()), "another segment, whose versions begin anew");
    assert_eq!(desks.ask(1, again(known(None))), Ok(Reply::Same { version }), "of any segment");
}

/// As all else that its user types and reads.
#[test]
fn nodes_are_counted_from_zero_in_what_a_user_of_names_is_told() {
    let told = |why: DdssError| NamedError::from(why).to_string();
    assert_eq!(told(DdssError::Absent(rank(1))), "node 1 is not among the members");
    assert_eq!(told(DdssError::NoSuchNode(rank(9))), "there is no node 9");
    assert_eq!(told(DdssError::Gone(rank(0))), "node 0 has died, and what it kept is gone");
    assert_eq!(
        DdssError::Gone(rank(0)).to_string(),
        "node 0 has died, and the segments that it kept with it"
    );
}

#[test]
fn what_does_not_fit_or_is_otherwise_is_refused_and_changes_nothing() {
    let desks = Desks::new(3);
    desks.ask(0, put("load", b"1")).expect("it is put");
    let refused = |request: Request, says: &str| {
        let why = desks.ask(1, request).expect_err(says).to_string();
        assert_eq!(why, says);
    };
    refused(
        put("load", &[0; 65]),
        "a value of 65 bytes does not fit into 'load', which takes 64: remove it, and put it anew with a larger size",
    );
    let otherwise = Request::Put {
        name: "load".into(),
        size: None,
        model: Some(Model::Strict),
        home: None,
        value: Vec::new(),
    };
    refused(
        otherwise,
        "'load' is there, takes 64 bytes and is under version: remove it first, or do not say what it is to be",
    );
    refused(put("a\nb", b""), "a name has 1 to 255 bytes and no control characters");
    let huge = Request::Put {
        name: "huge".into(),
        size: Some(Spec::LARGEST),
        model: None,
        home: None,
        value: Vec::new(),
    };
    assert!(matches!(desks.ask(1, huge), Err(NamedError::Ddss(DdssError::Impossible(..)))));
    refused(Request::Remove { name: "none".into() }, "there is no segment 'none'");
    let short =
        Request::Put { name: "fresh".into(), size: Some(10), model: None, home: None, value: vec![0; 20] };
    refused(short, "a value of 20 bytes is longer than the size that was asked for, 10");
    refused(get("fresh"), "there is no segment 'fresh'");
    assert_eq!(value(desks.ask(2, get("load"))).1, b"1");
}

#[test]
fn a_value_is_put_without_a_size_up_to_the_largest_that_there_can_be() {
    let desks = Desks::new(6);
    for len in [(1 << 19) + 1, 700_000, LARGEST_VALUE as usize] {
        let name = format!("{len:x>LONGEST_NAME$}");
        desks.ask(0, put(&name, &vec![7; len])).expect("it is put");
        assert_eq!(value(desks.ask(1, get(&name))).1.len(), len);
        desks.ask(2, Request::Remove { name }).expect("it is removed");
    }
}

/// Its asker was told so long before, and has asked again. The node that keeps names is cut off at any moment of the call, and comes back.
#[test]
fn a_put_that_was_late_is_not_done_later_and_nobody_keeps_what_has_no_name() {
    const CUT: Nanos = Nanos::from_millis(10);
    let keeper = number("load").home(NODES).index();
    let [home, asker] = [1, 2].map(|behind| (keeper + behind) % NODES as usize);
    let mut done = Vec::new();
    for after in (0..16).map(|step| us(20 * step)) {
        let calls = Calls::new(8);
        let (cluster, asks) = (&calls.cluster, |node, at, request| calls.begin(node, at, request));
        let put = |value: &[u8]| Request::Put {
            name: "load".into(),
            size: None,
            model: None,
            home: Some(rank(home)),
            value: value.into(),
        };
        // All that a call takes is connected.
        asks(asker, us(1), put(b"0"));
        asks(asker, ms(5), Request::Remove { name: "load".into() });
        let late = asks(asker, CUT, put(b"1"));
        let link = Link::Node(NodeId(keeper as u32));
        cluster.plan(CUT + after, Fault::Cut { link, way: Way::Both, lasts: Some(Nanos::from_secs(60)) });
        cluster.run(Nanos::from_secs(70));
        let (at, reply) = late.take().expect("it has ended");
        done.push(reply.is_ok());
        let now = cluster.fabric.now();
        let (kept, got) = (asks(home, now, Request::Kept { after: None }), asks(asker, now, get("load")));
        cluster.run(ms(50));
        let (_, kept) = kept.take().expect("it says what it keeps");
        let (_, got) = got.take().expect("it is asked");
        match reply {
            Ok(_) => assert_eq!(value(got).1, b"1", "{after}"),
            Err(why) => {
                assert_eq!(why, NamedError::Late { changes: true });
                assert!(at - CUT < Nanos::from_secs(30), "the control plane waits no longer: {at}");
                // The name may stand for what was released, until it is put anew.
                assert_eq!(got, Err(NamedError::Unknown("load".into())), "{after}");
                assert_eq!(kept, Ok(Reply::Kept { rows: Vec::new(), more: None }), "{after}");
                let anew = asks(asker, cluster.fabric.now(), put(b"2"));
                cluster.run(ms(50));
                assert!(matches!(anew.take(), Some((_, Ok(_)))), "{after}");
            }
        }
    }
    assert!(done.contains(&true) && done.contains(&false), "{done:?}");
}

/// Its asker hears nothing more from the node that keeps names. Others find the name, and are told that their value is put.
#[test]
fn what_others_have_put_meanwhile_is_not_lost_with_a_put_that_was_late() {
    const CUT: Nanos = Nanos::from_millis(10);
    let keeper = number("load").home(NODES).index();
    let [home, asker, other] = [1, 2, 3].map(|behind| (keeper + behind) % NODES as usize);
    let (mut late, mut found) = (0, 0);
    let cuts = (0..16).map(|step| us(20 * step));
    for (after, model) in cuts.flat_map(|after| [(after, Model::Version), (after, Model::Null)]) {
        let calls = Calls::new(8);
        let put = |value: &[u8]| Request::Put {
            name: "load".into(),
            size: None,
            model: Some(model),
            home: Some(rank(home)),
            value: value.into(),
        };
        // All that a call takes is connected.
        for (node, at) in [(asker, us(1)), (other, ms(2))] {
            calls.begin(node, at, put(b"0"));
            calls.begin(node, at + ms(1), Request::Remove { name: "load".into() });
        }
        let first = calls.begin(asker, CUT, put(b"1"));
        let link = Link::Pair(NodeId(asker as u32), NodeId(keeper as u32));
        let cut = Fault::Cut { link, way: Way::Both, lasts: Some(Nanos::from_secs(60)) };
        calls.cluster.plan(CUT + after, cut);
        let second = calls.begin(other, Nanos::from_secs(1), put(b"2"));
        calls.cluster.run(Nanos::from_secs(70));
        let (first, second) = (first.take().expect("it has ended").1, second.take().expect("it has ended").1);
        let Ok(Reply::Put { version, .. }) = second else { panic!("it was not put: {second:?}") };
        if first.is_err() {
            assert_eq!(first, Err(NamedError::Late { changes: true }));
            late += 1;
            found += u32::from(version == Some(2));
        }
        let now = calls.cluster.fabric.now();
        let got = calls.begin(asker, now, get("load"));
        let kept = calls.begin(home, now, Request::Kept { after: None });
        calls.cluster.run(ms(50));
        assert_eq!(value(got.take().expect("it is asked").1).1, b"2", "{after}, {model}");
        let Some((_, Ok(Reply::Kept { rows, .. }))) = kept.take() else { panic!("it says what it keeps") };
        assert_eq!(rows.len(), 1, "{after}, {model}: nobody finds the others: {rows:?}");
    }
    assert!(found > 0 && late > found, "{found} of {late}");
}

/// No home answers within a microsecond.
#[test]
fn what_nobody_gets_in_the_time_of_its_model_is_listed_replaced_and_removed_all_the_same() {
    let desks = Desks::new(6);
    let first = Request::Put {
        name: "load".into(),
        size: None,
        model: Some(Model::Temporal(1)),
        home: Some(rank(2)),
        value: b"1".to_vec(),
    };
    let Ok(Reply::Put { version: Some(version), .. }) = desks.ask(1, first) else { panic!("it was not put") };
    desks
        .ask(
            1,
            Request::Put {
                name: "other".into(),
                size: None,
                model: None,
                home: Some(rank(2)),
                value: Vec::new(),
            },
        )
        .expect("it is put");
    assert_eq!(desks.ask(1, get("load")), Err(NamedError::Ddss(DdssError::Slow)));
    let rows = desks.kept(2);
    let names: Vec<_> = rows.iter().map(|row| (row.name.as_deref(), row.len)).collect();
    assert_eq!(names, [(Some("load"), 1), (Some("other"), 0)]);
    let Ok(Reply::Put { version: Some(second), .. }) = desks.ask(3, put("load", b"2")) else {
        panic!("it was not replaced")
    };
    assert_eq!(second, version + 1);
    assert_eq!(desks.ask(0, Request::Remove { name: "load".into() }), Ok(Reply::Removed));
    assert_eq!(desks.ask(1, get("load")), Err(NamedError::Unknown("load".into())));
}

#[test]
fn under_null_there_is_no_version_to_wait_for_and_who_wants_the_next_one_is_told_so() {
    let desks = Desks::new(7);
    let first = Request::Put {
        name: "load".into(),
        size: None,
        model: Some(Model::Null),
        home: None,
        value: b"1".to_vec(),
    };
    desks.ask(0, first).expect("it is put");
    let Ok(Reply::Value { version, of, value, .. }) = desks.ask(1, get("load")) else {
        panic!("it is there")
    };
    assert_eq!((version, value), (0, b"1".to_vec()));
    for of in [None, Some(of)] {
        let next = Request::Get { name: "load".into(), known: Some(Seen { version, of }), wait: ms(500) };
        assert_eq!(desks.ask(2, next), Err(NamedError::Versionless("load".into())));
    }
}

/// The node that keeps the name was not there when the segment was released, say.
#[test]
fn what_is_put_takes_the_place_of_what_was_released_though_the_name_stands_for_that_still() {
    let desks = Desks::new(8);
    let (ddss, name) = (desks.ddss[0].clone(), number("load"));
    let home = rank((name.home(NODES).index() + 1) % NODES as usize);
    let bound = desks.run(0, async move {
        let key = ddss.allocate(Spec { size: 64, model: Model::Version }, Placement::On(home)).await?;
        ddss.release(key).await?;
        // The home would know it.
        ddss.bind(name, key).await
    });
    assert_eq!(bound, Ok(()));
    assert_eq!(desks.ask(2, get("load")), Err(NamedError::Unknown("load".into())));
    let put = desks.ask(1, put("load", b"1"));
    assert!(matches!(put, Ok(Reply::Put { .. })), "{put:?}");
    assert_eq!(value(desks.ask(2, get("load"))).1, b"1");
}

/// As where the node has been started anew that kept the name, and another one keeps the value.
#[test]
fn a_value_whose_name_is_lost_is_removed_by_that_name_at_its_home_and_no_other_value_is() {
    let desks = Desks::new(10);
    let (ddss, name) = (desks.ddss[0].clone(), number("load"));
    let home = (name.home(NODES).index() + 1) % NODES as usize;
    for name in ["load", "other"] {
        let (name, value) = (name.into(), b"1".to_vec());
        let put = Request::Put { name, size: None, model: None, home: Some(rank(home)), value };
        desks.ask(0, put).expect("it is put");
    }
    let lost = desks.run(0, async move {
        let key = ddss.lookup(name).await?;
        ddss.bind_instead(name, None, key).await
    });
    assert_eq!(lost, Ok(()));
    let remove = || Request::Remove { name: "load".into() };
    let unknown = Err(NamedError::Unknown("load".into()));
    assert_eq!(desks.ask(name.home(NODES).index(), remove()), unknown);
    assert_eq!(desks.ask(home, remove()), Ok(Reply::Removed));
    assert_eq!(desks.ask(home, remove()), unknown);
    assert_eq!(desks.kept(home).into_iter().map(|row| row.name).collect::<Vec<_>>(), [Some("other".into())]);
}

#[test]
fn what_a_program_keeps_under_a_names_number_is_not_taken_for_its_value() {
    let desks = Desks::new(4);
    let name = number("load");
    let ddss = desks.ddss[1].clone();
    desks
        .run(1, async move {
            let segment = ddss.open(name, Spec { size: 64, model: Model::Write }).await?;
            ddss.put(&segment, &[7; 64]).await
        })
        .expect("it is put");
    for request in [get("load"), put("load", b"1"), Request::Remove { name: "load".into() }] {
        assert_eq!(desks.ask(2, request), Err(NamedError::Foreign("load".into())));
    }
}

#[test]
fn nodes_that_put_get_and_remove_the_same_names_at_once_leave_one_segment_a_name() {
    for seed in seeds(40) {
        let desks = Desks::new(seed);
        let ended = Rc::new(RefCell::new(Vec::new()));
        for (node, named) in desks.named.iter().enumerate() {
            let (named, ended, mut dice) =
                (named.clone(), Rc::clone(&ended), Dice::new(seed << 8 | node as u64));
            desks.begin(node, async move {
                for call in 0..6_u8 {
                    let name = ["a", "b"][dice.below(2) as usize];
                    let request = match dice.below(4) {
                        0 => Request::Remove { name: name.into() },
                        1 => get(name),
                        _ => put(name, &[node as u8, call]),
                    };
                    let reply = named.serve(request).await;
                    ended.borrow_mut().push(reply);
                }
            });
        }
        desks.cluster.run(ms(400));
        let ended = ended.take();
        assert_eq!(ended.len(), 6 * NODES as usize, "seed {seed}: a call has not ended");
        for reply in ended {
            match reply {
                Ok(_) | Err(NamedError::Unknown(_) | NamedError::Restless(_)) => {}
                Err(why) => panic!("seed {seed}: {why}"),
            }
        }
        let mut names = Vec::new();
        for node in 0..NODES as usize {
            names.extend(desks.kept(node).into_iter().map(|row| row.name.expect("all were put by names")));
        }
        names.sort();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before, "seed {seed}: {names:?}");
        for name in names {
            assert!(
                matches!(desks.ask(0, get(&name)), Ok(Reply::Value { .. })),
                "seed {seed}: {name} is lost"
            );
        }
    }
}
