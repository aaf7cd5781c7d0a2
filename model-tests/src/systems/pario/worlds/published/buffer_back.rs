//! A reading of the paper: a reader that has waited for its deadline takes its buffer back.
//!
//! pvfs2-quadrics.txt, 4.2, leaves open what becomes of a buffer whose transfer takes too long. Here a client offers a buffer
//! for a read, gives up at once, fills the same buffer and offers it for a write. The server pushes into it what it was
//! first asked for.

use super::super::super::content::{self, Run, Value};
use super::super::super::history::{Call, Cells, Event, What};
use super::super::{InOrder, oracles};
use crate::harness::{Member, Model, Recorder, Shape};
use crate::history::{ClientId, RequestId};
use crate::record::Record;
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::rt::{Label, Rt};
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, Rank};
use weft_sim::Sim;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Verbs, Wait};

const CHANNEL: Channel = Channel(0);
const READ: u8 = 0;
const WRITE: u8 = 1;
const LEN: usize = content::SHORTEST as usize;
const CELLS: Cells = Cells { file: 1, first: 0, cells: 1, rows: 1, stride: 0, bytes: content::SHORTEST };

/// Node 0 keeps one cell, and node 1 reads and writes it.
pub(super) struct BufferBack;

type Mr = <Sim as Verbs>::Mr;

impl Model for BufferBack {
    type State = ();
    type Oracles = InOrder;

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn oracles(&self) -> InOrder {
        oracles()
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<InOrder>) {
        let inbox = |member: &Member| member.mesh.open(CHANNEL).expect("nobody else has it");
        let [server, client] = members else { return };
        server.rt.spawn(serve(server.rt.clone(), server.mesh.clone(), inbox(server)));
        client.rt.spawn(call(client.rt.clone(), client.mesh.clone(), inbox(client), recorder.clone()));
    }
}

/// Pushes a read and pulls a write, each by itself, and answers.
async fn serve(rt: Rt<Sim>, mesh: Mesh<Sim>, mut inbox: Inbox) {
    let file = Rc::new(RefCell::new([0; LEN]));
    while let Some(incoming) = inbox.recv().await {
        let Incoming::Message(message) = incoming else { continue };
        let (from, Some((&kind, memory))) = (message.from(), message.bytes().split_first()) else { continue };
        let Ok(memory) = memory.try_into().map(RemoteSlice::from_bytes) else { continue };
        let (mesh, file) = (mesh.clone(), Rc::clone(&file));
        drop(rt.spawn(async move {
            let mut bytes = *file.borrow();
            let moved = match kind {
                READ => mesh.write(from, memory, &bytes).await,
                _ => mesh.read(from, memory, &mut bytes).await,
            };
            if kind == WRITE {
                *file.borrow_mut() = bytes;
            }
            if moved.is_ok() {
                mesh.send(from, CHANNEL, &[kind]).expect("room for a few messages");
            }
        }));
    }
}

async fn call(rt: Rt<Sim>, mesh: Mesh<Sim>, mut inbox: Inbox, recorder: Recorder<InOrder>) {
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
    let memory = || mesh.alloc(LEN, access).expect("a few bytes");
    let id = |number| RequestId { client: ClientId { node: 1, index: 0 }, number };
    let happens = |number, what| recorder.record(Event { at_ns: 0, request: id(number), what });
    let (buffer, fresh) = (memory(), memory());
    mesh.label(&buffer, 0..LEN, Label::new("the buffer")).keep();
    mesh.label(&fresh, 0..LEN, Label::new("the fresh buffer")).keep();

    happens(0, What::Calls(Call::Read(CELLS)));
    ask(&mesh, READ, &buffer);
    rt.yield_now().await;
    happens(0, What::Dropped);

    happens(1, What::Calls(Call::Write(CELLS)));
    let mut bytes = [0; LEN];
    content::fill(id(1), CELLS.file, 0, &mut bytes);
    buffer.write(0, &bytes).expect("within it");
    ask(&mesh, WRITE, &buffer);
    answered(&mut inbox, WRITE).await;
    happens(1, What::Done);

    happens(2, What::Calls(Call::Read(CELLS)));
    ask(&mesh, READ, &fresh);
    // One more answer is that to the read that was given up, if it has not come yet.
    let value = loop {
        answered(&mut inbox, READ).await;
        fresh.read(0, &mut bytes).expect("within it");
        let value = content::value(CELLS.file, 0, &bytes);
        if value != Value::Zero || inbox.is_empty() {
            break value;
        }
    };
    happens(2, What::Has(vec![Run { first: 0, cells: 1, value }]));
}

fn ask(mesh: &Mesh<Sim>, kind: u8, memory: &Mr) {
    let memory = memory.remote(0..LEN).expect("all of it").to_bytes();
    mesh.send(Rank::from_index(0), CHANNEL, &[&[kind][..], &memory].concat())
        .expect("room for a few messages");
}

async fn answered(inbox: &mut Inbox, kind: u8) {
    while let Some(incoming) = inbox.recv().await {
        if matches!(&incoming, Incoming::Message(message) if message.bytes() == [kind]) {
            return;
        }
    }
}
