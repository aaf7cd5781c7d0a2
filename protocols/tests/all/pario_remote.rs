//! Files for those outside of the mesh, call by call, as daemons serve them: on four nodes of a simulated cluster, two of them servers.

use crate::common::{Cluster, Member, ms, us};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use weft_protocols::pario::remote::{Listed, MOST, Remote, RemoteError, Reply, Request};
use weft_protocols::pario::{FsConfig, FsError, Handle, Pario, Storage, Wire};
use weft_sim::fault::Fault;
use weft_sim::{NodeId, Sim};
use weft_verbs::{Nanos, Wait};

/// Runs what an asker at a node without a server does, to its end.
fn at_a_client<F: Future<Output = ()> + 'static>(does: impl FnOnce(Asker) -> F + 'static) {
    at_a_client_by(Wire::Verbs, does);
}

fn at_a_client_by<F: Future<Output = ()> + 'static>(wire: Wire, does: impl FnOnce(Asker) -> F + 'static) {
    let config = FsConfig { storage: Storage::Memory { most: 1 << 24 }, wire, ..FsConfig::new(2) };
    let cluster = Cluster::with_messages(4, 1, Wait::Notify, config.max_message());
    let start = |member: &Member| Pario::start(&member.rt, &member.mesh, config);
    let files: Vec<_> = cluster.members.iter().map(|m| start(m).expect("the channel is free")).collect();
    let member = &cluster.members[3];
    let (rt, ended) = (member.rt.clone(), Rc::new(RefCell::new(false)));
    let asker = Asker(Remote::new(&rt, &files[3]), files[3].clone());
    let tell = Rc::clone(&ended);
    member.at(us(1), move || {
        drop(rt.spawn(async move {
            does(asker).await;
            tell.replace(true);
        }));
    });
    cluster.run(ms(2_000));
    assert!(*ended.borrow(), "a call has not ended");
}

struct Asker(Remote<Sim>, Pario<Sim>);

impl Asker {
    async fn ask(&self, request: Request) -> Result<Reply, RemoteError> {
        // As it travels.
        let request = Request::from_bytes(&request.to_bytes()).expect("it is one");
        let reply = self.0.serve(request).await?;
        Ok(Reply::from_bytes(&reply.to_bytes()).expect("it is one"))
    }

    async fn create(&self, name: &str, strip: Option<u32>) -> Result<Handle, RemoteError> {
        match self.ask(Request::Create { name: name.into(), strip, servers: None }).await? {
            Reply::Stat { handle, .. } => Ok(handle),
            other => panic!("{other:?}"),
        }
    }

    async fn write(&self, name: &str, handle: Handle, at: u64, bytes: &[u8]) -> Result<Reply, RemoteError> {
        self.ask(Request::Write { name: name.into(), handle, at, bytes: bytes.to_vec() }).await
    }

    async fn list(&self, directory: &str, after: &str, sizes: bool) -> (Vec<Listed>, bool) {
        let list = Request::List { directory: directory.into(), after: after.into(), sizes };
        match self.ask(list).await {
            Ok(Reply::Names { entries, more }) => (entries, more),
            other => panic!("{other:?}"),
        }
    }

    async fn rename(&self, from: &str, to: &str, replaces: bool) -> Result<Reply, RemoteError> {
        self.ask(Request::Rename { from: from.into(), to: to.into(), replaces }).await
    }

    async fn read(&self, name: &str, handle: Handle, at: u64, len: u32) -> Vec<u8> {
        match self.ask(Request::Read { name: name.into(), handle, at, len }).await {
            Ok(Reply::Bytes(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_file_that_was_written_in_calls_is_read_in_calls_and_gone_once_it_is_removed() {
    at_a_client(async |asker| {
        let handle = asker.create("data", Some(4_096)).await.expect("it is made");
        let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n * 7 % 251) as u8).collect();
        for (part, at) in bytes.chunks(MOST as usize).zip((0..).step_by(MOST as usize)) {
            asker.write("data", handle, at, part).await.expect("it is written");
        }
        let stat = asker.ask(Request::Stat { name: "data".into() }).await.expect("it is there");
        let Reply::Stat { size, layout, .. } = stat else { panic!("{stat:?}") };
        assert_eq!((size, layout.strip(), layout.servers()), (300_000, 4_096, 2));
        let mut read = Vec::new();
        while read.len() < bytes.len() {
            read.extend(asker.read("data", handle, read.len() as u64, 50_000).await);
        }
        assert!(read == bytes, "other bytes come back");
        assert_eq!(asker.read("data", handle, 300_000, 10).await, b"", "there is nothing behind the end");
        assert_eq!(asker.ask(Request::Remove { name: "data".into() }).await, Ok(Reply::Done));
        let gone = asker.ask(Request::Stat { name: "data".into() }).await;
        assert_eq!(
            gone.map_err(|why| why.to_string()),
            Err("data: there is no file or directory of that name".into())
        );
    });
}

#[test]
fn all_names_are_told_in_order_whatever_their_number() {
    at_a_client(async |asker| {
        let mut names: Vec<String> = (0..300).map(|n| format!("file-{n}")).collect();
        for name in &names {
            asker.create(name, None).await.expect("it is made");
        }
        names.sort();
        let (mut told, mut after) = (Vec::new(), String::new());
        loop {
            let (entries, more) = asker.list("", &after, told.is_empty()).await;
            let sized = entries.iter().filter(|entry| entry.size == Some(0)).count();
            assert_eq!(sized, if told.is_empty() { entries.len() } else { 0 });
            told.extend(entries.into_iter().map(|entry| entry.name));
            after = told.last().expect("some are told").clone();
            if !more {
                break;
            }
        }
        assert_eq!(told, names);
    });
}

#[test]
fn names_that_are_told_in_parts_are_asked_for_once_each() {
    at_a_client(async |asker| {
        let long = "n".repeat(60);
        for n in 0..600 {
            asker.ask(Request::MakeDirectory { path: format!("{long}{n:03}") }).await.expect("it is made");
        }
        let asked = || asker.1.stats().asked;
        let before = asked();
        assert_eq!(asker.1.readdir("").await.map(|all| all.len()), Ok(600));
        let (at_once, before) = (asked() - before, asked());
        let (first, more) = asker.list("", "", true).await;
        let (second, even_more) = asker.list("", &first[255].name, true).await;
        let (third, _) = asker.list("", &second[255].name, true).await;
        assert_eq!((first.len(), more, second.len(), even_more, third.len()), (256, true, 256, true, 88));
        // An answer may have names of two parts.
        assert!(asked() - before <= at_once + 3, "{} and {at_once}", asked() - before);
    });
}

/// By a byte stream the directory's server tells thousands at once, and looks for each of them.
#[test]
fn of_names_alone_a_call_tells_all_that_the_server_has_told_it() {
    at_a_client_by(Wire::Tcp, async |asker| {
        for n in 0..600 {
            asker.ask(Request::MakeDirectory { path: n.to_string() }).await.expect("it is made");
        }
        let before = asker.1.stats().asked;
        let (names, more) = asker.list("", "", false).await;
        assert_eq!((names.len(), more, asker.1.stats().asked - before), (600, false, 1));
    });
}

#[test]
fn files_begin_at_the_servers_in_turn_and_so_do_those_of_one_server() {
    at_a_client(async |asker| {
        let mut first = Vec::new();
        for (name, servers) in [("a", Some(1)), ("b", Some(1)), ("c", None), ("d", None)] {
            let made = asker.ask(Request::Create { name: name.into(), strip: None, servers }).await;
            let Ok(Reply::Stat { handle, layout, .. }) = made else { panic!("{made:?}") };
            asker.write(name, handle, 0, name.as_bytes()).await.expect("it is written");
            assert_eq!(asker.read(name, handle, 0, 9).await, name.as_bytes());
            let found = asker.ask(Request::Stat { name: name.into() }).await;
            assert_eq!(found, Ok(Reply::Stat { handle, size: 1, layout }));
            first.push((layout.first(), layout.servers()));
        }
        assert_eq!(first, [(0, 1), (1, 1), (0, 2), (1, 2)]);
    });
}

#[test]
fn what_is_another_file_by_now_or_too_much_or_cannot_be_is_refused() {
    at_a_client(async |asker| {
        let old = asker.create("data", None).await.expect("it is made");
        let again = asker.create("data", None).await;
        assert_eq!(again, Err(RemoteError::Fs("data".into(), FsError::Exists)));
        asker.ask(Request::Remove { name: "data".into() }).await.expect("it is removed");
        let new = asker.create("data", None).await.expect("it is made");
        assert_eq!(asker.write("data", old, 0, b"late").await, Err(RemoteError::Replaced("data".into())));
        assert_eq!(asker.read("data", new, 0, 10).await, b"", "nothing was written");
        let long = vec![0; MOST as usize + 1];
        assert_eq!(asker.write("data", new, 0, &long).await, Err(RemoteError::TooMuch(long.len() as u64)));
        let read = Request::Read { name: "data".into(), handle: new, at: 0, len: u32::MAX };
        assert_eq!(asker.ask(read).await, Err(RemoteError::TooMuch(u32::MAX.into())));
        let at = u64::MAX - 1;
        let beyond = asker.write("data", new, at, b"far").await;
        assert_eq!(beyond, Err(RemoteError::Fs("data".into(), FsError::Position { at, len: 3 })));
        let none = asker.create("a//b", None).await;
        assert_eq!(none, Err(RemoteError::Fs("a//b".into(), FsError::Path("a//b".into()))));
        let many = Request::Create { name: "many".into(), strip: None, servers: Some(9) };
        assert_eq!(asker.ask(many).await, Err(RemoteError::Fs("many".into(), FsError::Distribution)));
    });
}

#[test]
fn directories_are_made_filled_moved_and_removed() {
    at_a_client(async |asker| {
        let make = |path: &str| Request::MakeDirectory { path: path.into() };
        let unmake = |path: &str| Request::RemoveDirectory { path: path.into() };
        let fs = |path: &str, why| Err(RemoteError::Fs(path.into(), why));
        assert_eq!(asker.ask(make("a")).await, Ok(Reply::Done));
        assert_eq!(asker.ask(make("/a/b/")).await, Ok(Reply::Done));
        assert_eq!(asker.ask(make("a")).await, fs("a", FsError::Exists));
        let nowhere = |path: &str| Err(RemoteError::NoDirectory { path: path.into(), directory: "c".into() });
        assert_eq!(asker.ask(make("c/d")).await, nowhere("c/d"));
        assert_eq!(asker.create("c/data", None).await.map(|_| Reply::Done), nowhere("c/data"));
        assert_eq!(asker.ask(make("/")).await, fs("/", FsError::Root));
        let handle = asker.create("a/b/data", None).await.expect("it is made");
        asker.write("a/b/data", handle, 0, b"bytes").await.expect("it is written");
        assert_eq!(asker.ask(unmake("a/b")).await, fs("a/b", FsError::NotEmpty));
        let create = async |path: &str| asker.create(path, None).await.map(|_| Reply::Done);
        assert_eq!(create("a/b/data/x").await, fs("a/b/data/x", FsError::NotDirectory));
        assert_eq!(create("a/b").await, fs("a/b", FsError::Exists));
        let into_itself = asker.rename("a", "a/b/c", true).await;
        assert_eq!(into_itself, fs("a to a/b/c", FsError::Inside));
        assert_eq!(asker.rename("a/b", "moved", false).await, Ok(Reply::Done));
        assert_eq!(asker.read("moved/data", handle, 0, 9).await, b"bytes");
        let listed = |name: &str, is_directory, size| Listed { name: name.into(), is_directory, size };
        assert_eq!(asker.list("", "", true).await.0, [listed("a", true, None), listed("moved", true, None)]);
        assert_eq!(asker.list("moved", "", true).await.0, [listed("data", false, Some(5))]);
        assert_eq!(asker.list("a", "", false).await, (Vec::new(), false));
        assert_eq!(asker.ask(unmake("a")).await, Ok(Reply::Done));
        assert_eq!(asker.ask(unmake("a")).await, fs("a", FsError::NotFound));
    });
}

/// Names that are told of files are those of directories by the time at which the sizes are asked for.
#[test]
fn sizes_are_told_while_directories_take_the_places_of_files() {
    at_a_client(async |asker| {
        let files = asker.1.clone();
        let changes = async {
            loop {
                for name in ["a", "b", "c"] {
                    let file = files.create(name, None).await?;
                    files.close(file).await?;
                    files.unlink(name).await?;
                    files.mkdir(name).await?;
                    files.rmdir(name).await?;
                }
            }
        };
        let lists = async {
            for _ in 0..200 {
                asker.list("", "", true).await;
            }
        };
        let (mut changes, mut lists) = (pin!(changes), pin!(lists));
        poll_fn(|cx| {
            let failed: Poll<Result<(), FsError>> = changes.as_mut().poll(cx);
            assert!(failed.is_pending(), "{failed:?}");
            lists.as_mut().poll(cx)
        })
        .await;
    });
}

#[test]
fn a_file_that_is_renamed_takes_another_ones_place_at_once() {
    at_a_client(async |asker| {
        let old = asker.create("data", None).await.expect("it is made");
        let new = asker.create("data.part", None).await.expect("it is made");
        asker.write("data.part", new, 0, b"whole").await.expect("it is written");
        let kept = asker.rename("data.part", "data", false).await;
        assert_eq!(kept, Err(RemoteError::Fs("data.part to data".into(), FsError::Exists)));
        assert_eq!(asker.rename("data.part", "data", true).await, Ok(Reply::Done));
        assert_eq!(asker.read("data", new, 0, 9).await, b"whole");
        let late = asker.write("data", old, 0, b"late").await;
        assert_eq!(late, Err(RemoteError::Replaced("data".into())));
        assert_eq!(asker.list("", "", false).await.0.len(), 1);
    });
}

#[test]
fn of_calls_that_a_server_which_is_down_makes_late_nothing_goes_on_when_it_is_back() {
    let storage = Storage::Memory { most: 1 << 24 };
    let config = FsConfig { storage, wire: Wire::Tcp, ..FsConfig::new(1) };
    let mut cluster = Cluster::with_messages(2, 1, Wait::Notify, config.max_message());
    let start = |member: &Member| Pario::start(&member.rt, &member.mesh, config).expect("it can be");
    let mut services: Vec<_> = cluster.members.iter().map(start).collect();
    let (rt, files) = (cluster.members[1].rt.clone(), services[1].clone());
    let (asker, late) = (Rc::new(Asker(Remote::new(&rt, &files), files.clone())), Rc::new(RefCell::new(0)));
    let told = Rc::clone(&late);
    drop(rt.clone().spawn(async move {
        let handle = asker.create("data", None).await.expect("its server is there");
        rt.sleep_until(ms(10)).await;
        let (lists, told_of_list) = (Rc::clone(&asker), Rc::clone(&told));
        drop(rt.spawn(async move {
            let root = Request::List { directory: String::new(), after: String::new(), sizes: false };
            let late = RemoteError::Late { about: "/".into(), changes: false };
            assert_eq!(lists.ask(root).await, Err(late), "the root's path is empty, and its name is not");
            *told_of_list.borrow_mut() += 1;
        }));
        // More than may be open at a time.
        for at in 0..70 {
            let (asker, told) = (Rc::clone(&asker), Rc::clone(&told));
            drop(rt.spawn(async move {
                let written = asker.write("data", handle, at, b"x").await;
                assert_eq!(written, Err(RemoteError::Late { about: "data".into(), changes: true }));
                *told.borrow_mut() += 1;
            }));
        }
    }));
    cluster.plan(ms(5), Fault::Crash { node: NodeId(0) });
    cluster.run(Nanos::from_secs(21));
    assert_eq!(*late.borrow(), 71, "a call takes longer than calls may");
    let asked = files.stats().asked;
    cluster.plan(cluster.fabric.now(), Fault::Restart { node: NodeId(0) });
    cluster.run(Nanos(1));
    cluster.members[0] = cluster.start(0);
    services[0] = start(&cluster.members[0]);
    cluster.run(Nanos::from_secs(120));
    assert_eq!(files.stats().asked, asked, "a call that has ended asks again");
    let left = files.leftovers();
    assert!(left.iter().all(|(_, count)| *count == 0), "{left:?}");
}
