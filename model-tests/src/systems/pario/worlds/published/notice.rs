//! A reading of the paper: the notice of a transfer may come by any queue.
//!
//! pvfs2-quadrics.txt, 5.2, chains the notice to the last RDMA, and 3 has one queue for all that comes to a process. By verbs the
//! order of two operations is that of their queue pair: a notice by another one may overtake the data. Here the server pushes what
//! is read, and has another server tell the client so.

use super::super::super::content;
use super::super::super::history::{Call, Cells, What};
use super::super::{InOrder, oracles};
use super::{Came, End, Teller};
use crate::harness::{Member, Model, Recorder, Shape};
use weft_protocols::rt::{Label, Rt};
use weft_protocols::transport::Rank;
use weft_sim::Sim;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Wait};

const LEN: usize = content::SHORTEST as usize;
const CELLS: Cells = Cells { file: 1, first: 0, cells: 1, rows: 1, stride: 0, bytes: content::SHORTEST };
const SERVER: Rank = Rank::from_index(0);
const CLIENT: Rank = Rank::from_index(1);
const OTHER: Rank = Rank::from_index(2);

const WRITE: u8 = 0;
const READ: u8 = 1;
const TELL: u8 = 2;

/// Node 0 has a file of one cell, node 1 writes and reads it, and node 2 is another server.
pub(super) struct NoticeElsewhere;

impl Model for NoticeElsewhere {
    type State = ();
    type Oracles = InOrder;

    fn shape(&self) -> Shape {
        Shape { nodes: 3, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn oracles(&self) -> InOrder {
        oracles()
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<InOrder>) {
        let [server, client, other] = members else { return };
        server.rt.spawn(serve(server.rt.clone(), End::of(server)));
        other.rt.spawn(relay(End::of(other)));
        client.rt.spawn(call(Teller { node: 1, recorder: recorder.clone() }, End::of(client)));
    }
}

async fn serve(rt: Rt<Sim>, mut end: End) {
    let mut file = vec![0; LEN];
    while let Some(Came::Message(from, kind, has)) = end.next().await {
        if kind == WRITE {
            file = has;
            end.send(from, WRITE, &[]);
            continue;
        }
        let Ok(memory) = has.try_into().map(RemoteSlice::from_bytes) else { return };
        let (mesh, bytes) = (end.mesh.clone(), file.clone());
        drop(rt.spawn(async move { mesh.write(from, memory, &bytes).await }));
        end.send(OTHER, TELL, &[]);
    }
}

async fn relay(mut end: End) {
    while let Some(Came::Message(..)) = end.next().await {
        end.send(CLIENT, TELL, &[]);
    }
}

async fn call(teller: Teller, mut end: End) {
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let buffer = end.mesh.alloc(LEN, access).expect("a few bytes");
    end.mesh.label(&buffer, 0..LEN, Label::new("the buffer")).keep();
    let mut bytes = [0; LEN];
    content::fill(teller.id(0), CELLS.file, 0, &mut bytes);
    teller.happens(0, What::Calls(Call::Write(CELLS)));
    end.send(SERVER, WRITE, &bytes);
    end.next().await;
    teller.happens(0, What::Done);

    teller.happens(1, What::Calls(Call::Read(CELLS)));
    end.send(SERVER, READ, &buffer.remote(0..LEN).expect("all of it").to_bytes());
    end.next().await;
    buffer.read(0, &mut bytes).expect("all of it");
    teller.happens(1, What::Has(content::runs(CELLS.file, 0, &bytes, LEN)));
}
