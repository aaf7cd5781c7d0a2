//! Files whose users drop what they have open and what they wait for, as time-outs and `select` do it: nothing stays open, and nothing that is
//! called afterwards waits for it.

use crate::common::{Cluster, begins, ms};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use weft_protocols::pario::{FsConfig, Pario, Storage};
use weft_sim::Sim;

const CONFIG: FsConfig = FsConfig { storage: Storage::Memory { most: 1 << 20 }, ..FsConfig::new(1) };

/// Runs what a client does to its end, whose node keeps so many messages for the server, and sees that nothing is left over.
fn at_a_client(max_queued: u32, does: impl AsyncFn(&Pario<Sim>) + 'static) {
    let cluster = Cluster::narrow_with_messages(2, 1, max_queued, CONFIG.max_message());
    let start = |node: usize| {
        let member = &cluster.members[node];
        Pario::start(&member.rt, &member.mesh, CONFIG).expect("the channel is free")
    };
    let [server, client] = [0, 1].map(start);
    let (ended, files) = (Rc::new(Cell::new(false)), client.clone());
    let told = Rc::clone(&ended);
    drop(cluster.members[1].rt.spawn(async move {
        does(&files).await;
        told.set(true);
    }));
    cluster.run(ms(20));
    assert!(ended.get(), "a call has not ended");
    for files in [&server, &client] {
        let left = files.leftovers();
        assert!(left.iter().all(|(_, count)| *count == 0), "{left:?}");
    }
}

#[test]
fn a_file_that_is_dropped_is_closed_when_its_calls_have_ended() {
    at_a_client(64, async |files| {
        let file = files.create("f", None).await.expect("nothing is there");
        let buffer = files.buffer(4_096).expect("there is room");
        begins(pin!(files.write(&file, 0, buffer))).await;
        // It has no other name: its bytes are gone once it is closed.
        files.unlink("f").await.expect("it is there");
        drop(file);
    });
}

#[test]
fn a_file_is_closed_whose_opening_nobody_waits_for_any_more() {
    at_a_client(64, async |files| {
        begins(pin!(files.create("f", None))).await;
        // It is behind the other.
        begins(pin!(files.open("f"))).await;
        files.unlink("f").await.expect("it is there");
    });
}

#[test]
fn a_close_does_not_wait_for_a_call_that_was_dropped_before_there_was_room_for_it() {
    at_a_client(1, async |files| {
        let file = files.create("f", None).await.expect("nothing is there");
        {
            let mut sync = pin!(files.sync(&file));
            begins(sync.as_mut()).await;
            begins(pin!(files.sync(&file))).await;
            sync.await.expect("memory is synced");
        }
        files.close(file).await.expect("it is open");
    });
}
