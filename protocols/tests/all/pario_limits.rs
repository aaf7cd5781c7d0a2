//! Files where there is little of something: a group of more members than a node may have calls, appends of no bytes, a region of one
//! byte in a long list, an append to the longest file, and a node that knows of fewer servers.

use crate::common::{Cluster, Member, ms};
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use weft_protocols::pario::{Datatype, FsConfig, FsError, Pario, Storage, View};
use weft_protocols::rt::Rt;
use weft_sim::Sim;
use weft_verbs::Wait;

/// In memory, where there is room for little.
fn in_memory(config: FsConfig) -> FsConfig {
    FsConfig { storage: Storage::Memory { most: 8 << 20 }, ..config }
}

/// Runs so many programs at a node without a server, and sees that all end.
fn at_a_client(
    config: FsConfig,
    programs: u32,
    does: impl AsyncFn(&Rt<Sim>, &Pario<Sim>, u32) + Clone + 'static,
) {
    let cluster = Cluster::with_messages(2, 1, Wait::Poll, config.max_message());
    let start = |node: usize| {
        let member = &cluster.members[node];
        Pario::start(&member.rt, &member.mesh, config).expect("it can be")
    };
    let [_server, client] = [0, 1].map(start);
    let ended = Rc::new(Cell::new(0));
    for program in 0..programs {
        let (rt, files) = (cluster.members[1].rt.clone(), client.clone());
        let (does, tell) = (does.clone(), Rc::clone(&ended));
        drop(cluster.members[1].rt.spawn(async move {
            does(&rt, &files, program).await;
            tell.set(tell.get() + 1);
        }));
    }
    cluster.run(ms(100));
    assert_eq!(ended.get(), programs, "a call has not ended");
}

#[test]
fn a_group_may_have_more_members_on_a_node_than_the_node_may_have_calls() {
    const MEMBERS: u32 = 5;
    at_a_client(in_memory(FsConfig { window: 2, ..FsConfig::new(1) }), MEMBERS, async |_, files, member| {
        let group = files.group(7, member, MEMBERS).expect("it is one of them");
        group.barrier().await.expect("all come");
        let file = group.create("f", None).await.expect("nothing is there");
        group.resize(&file, 100).await.expect("it is open");
        assert_eq!(files.size(&file).await, Ok(100));
        files.close(file).await.expect("it is open");
    });
}

#[test]
fn an_append_of_no_bytes_says_where_the_file_ends_and_takes_no_place() {
    at_a_client(in_memory(FsConfig::new(1)), 1, async |_, files, _| {
        let file = files.create("f", None).await.expect("nothing is there");
        let buffer = |len| files.buffer(len).expect("there is room");
        assert_eq!(files.append(&file, buffer(10)).await.0, Ok(0));
        let before = files.stats().asked;
        assert_eq!(files.append(&file, buffer(0)).await.0, Ok(10));
        assert_eq!(files.stats().asked, before + 1, "but for the size, it asks for something");
        assert_eq!(files.append(&file, buffer(10)).await.0, Ok(10));
        files.close(file).await.expect("it is open");
    });
}

/// Its home has counted the opening: a file that nobody could close would never end.
#[test]
fn a_file_on_more_servers_than_a_node_knows_of_is_refused_there_and_is_not_kept_open() {
    let [two, one] = [2, 1].map(|servers| in_memory(FsConfig::new(servers)));
    let cluster = Cluster::with_messages(3, 1, Wait::Poll, two.max_message());
    let start = |(member, config): (&Member, FsConfig)| {
        Pario::start(&member.rt, &member.mesh, config).expect("it can be")
    };
    let files: Vec<_> = cluster.members.iter().zip([two, two, one]).map(start).collect();
    let ended = Rc::new(Cell::new(0));
    let at = |node: usize, does: Pin<Box<dyn Future<Output = ()>>>| {
        let (before, tell) = (ended.get(), Rc::clone(&ended));
        drop(cluster.members[node].rt.spawn(async move {
            does.await;
            tell.set(tell.get() + 1);
        }));
        cluster.run(ms(20));
        assert_eq!(ended.get(), before + 1, "a call of node {node} has not ended");
    };
    let (maker, other) = (files[1].clone(), files[2].clone());
    at(
        1,
        Box::pin(async move {
            let file = maker.create("f", None).await.expect("nothing is there");
            maker.close(file).await.expect("it is open");
        }),
    );
    at(
        2,
        Box::pin(async move {
            assert_eq!(other.open("f").await.map(drop), Err(FsError::Distribution));
            assert_eq!(other.stat("f").await.map(drop), Err(FsError::Distribution));
        }),
    );
    let maker = files[1].clone();
    at(1, Box::pin(async move { maker.unlink("f").await.expect("it is there") }));
    let left = files[0].leftovers();
    assert!(left.iter().all(|(_, left)| *left == 0), "{left:?}");
}

#[test]
fn a_list_of_two_regions_is_not_too_long_because_one_of_them_is_short() {
    at_a_client(in_memory(FsConfig::new(1)), 1, async |_, files, _| {
        const LEN: usize = 1 + (2 << 20);
        let file = files.create("f", None).await.expect("nothing is there");
        let regions = Datatype::regions([(0, 1), (4_096, 2 << 20)]).expect("they are below 2^63");
        let (regions, all) = (View::new(0, regions).unwrap(), View::of(0..LEN as u64).unwrap());
        let (written, ends) = (files.buffer(LEN).expect("there is room"), [0, LEN - 4]);
        ends.iter().for_each(|at| written.write(*at, b"ends").expect("there is room"));
        assert_eq!(files.write_list(&file, &regions, written, &all).await.0, Ok(()));
        let read = files.buffer(LEN).expect("there is room");
        let (read, bytes) = files.read_list(&file, &regions, read, &all).await;
        assert_eq!(read, Ok(LEN));
        for at in ends {
            let mut end = [0; 4];
            bytes.read(at, &mut end).expect("it is there");
            assert_eq!(&end, b"ends");
        }
        files.close(file).await.expect("it is open");
    });
}

#[test]
fn an_append_that_would_end_beyond_the_longest_file_is_told_where_and_takes_no_place() {
    const END: u64 = (1 << 63) - 5;
    // On a disk, where a hole takes no room.
    at_a_client(FsConfig::new(1), 1, async |_, files, _| {
        let file = files.create("f", None).await.expect("nothing is there");
        let append = async |len| files.append(&file, files.buffer(len).expect("there is room")).await.0;
        assert_eq!(files.truncate(&file, END).await, Ok(()));
        assert_eq!(append(10).await, Err(FsError::Position { at: END, len: 10 }));
        assert_eq!(append(5).await, Ok(END));
        assert_eq!(files.truncate(&file, 0).await, Ok(()));
        assert_eq!(files.size(&file).await, Ok(0));
        assert_eq!(append(10).await, Ok(0));
        files.close(file).await.expect("it is open");
    });
}
