//! Streams to one peer that share the room of the transport.

use crate::common::{Cluster, ms};
use crate::sdp::{OPTIONS, PORT, connect, places, read_all};
use std::cell::Cell;
use std::rc::Rc;
use weft_verbs::{Nanos, Wait};

#[test]
fn a_stream_that_always_has_something_to_say_keeps_no_other_one_to_its_peer_from_saying_anything() {
    // There is room for one message.
    let cluster = Cluster::narrow(2, 1, Wait::Poll, 1);
    let [client, server] = places(&cluster, OPTIONS());
    let (written, heard) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (all_written, hears, rt) = (Rc::clone(&written), Rc::clone(&heard), server.rt.clone());
    drop(server.rt.clone().spawn(async move {
        let listener = server.sdp.bind(PORT).expect("nobody has the port");
        let [long, short] = [listener.accept().await, listener.accept().await].map(Result::unwrap);
        drop(rt.spawn(async move { assert_eq!(read_all(&long).await.len(), 40_000) }));
        assert_eq!(read_all(&short).await, b"hello");
        assert!(!all_written.get(), "the other stream has not said all that it has to say");
        hears.set(true);
    }));
    let rt = client.rt.clone();
    drop(client.rt.clone().spawn(async move {
        let [long, short] = [connect(&client).await, connect(&client).await];
        let writes = rt.spawn(async move {
            long.write_all(&[7; 40_000]).await.expect("written");
            written.set(true);
            long.close().await.expect("closed");
        });
        rt.sleep(ms(1)).await;
        short.write_all(b"hello").await.expect("written");
        short.close().await.expect("closed");
        writes.await.expect("it is not dropped");
    }));
    cluster.run(Nanos::from_secs(100));
    assert!(heard.get(), "it came");
}
