//! Readings of how a name is made: when it is answered, what a client does whose server began anew, and what comes first.
//!
//! Node 0 keeps one name in the first byte of an object, its log, and node 1 makes and opens it, while either crashes and comes
//! back.

use super::super::super::Files;
use super::super::super::history::{Call, What, Why};
use super::super::{InOrder, oracles};
use super::{Came, End, Teller};
use crate::explore::Violation;
use crate::harness::{Member, Model, Recorder, Shape};
use crate::system::System;
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use weft_protocols::transport::Rank;
use weft_sim::explore::{FaultSet, Outcome};
use weft_sim::{NodeId, Sim};
use weft_verbs::{
    Context, Disk, DiskBuffer, DiskCall, DiskDone, DiskEnd, DiskRequest, Nanos, ObjectName, Verbs, Wait,
};

const SERVER: Rank = Rank::from_index(0);
const CLIENT: Rank = Rank::from_index(1);
const LOG: ObjectName = ObjectName(1);
const FILE: ObjectName = ObjectName(2);
const PROMISE: &str = "no object is without a name";

// From the client.
const CREATE: u8 = 0;
const OPEN: u8 = 1;
// From the server.
const OPENED: u8 = 2;
const EXISTS: u8 = 3;
const NONE: u8 = 4;
const BEGINS: u8 = 5;

/// How the paper is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// PVFS2 without `trovesync`: a call is answered when it is done in memory.
    AnsweredEarly,
    /// The paper has reliable queues, and nothing about a server that is gone: who was not answered asks again.
    Retried,
    /// PVFS2 makes metafile and data files, and then the entry (3).
    ObjectsFirst,
}

/// One name at node 0.
#[derive(Clone, Copy)]
pub(super) struct Names(pub Reading);

/// Whether the server has found an object without a name when it began.
type Orphan = Rc<Cell<bool>>;

impl Model for Names {
    type State = Orphan;
    type Oracles = InOrder;

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn usual_faults(&self) -> FaultSet {
        FaultSet::one(Outcome::Restart)
    }

    fn promises(&self) -> &'static [&'static str] {
        if self.0 == Reading::ObjectsFirst { &[PROMISE] } else { &[] }
    }

    fn oracles(&self) -> InOrder {
        oracles()
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<InOrder>) -> Orphan {
        let [server, client] = members else { return Orphan::default() };
        let orphan = Orphan::default();
        server.rt.spawn(Server::new(*self, server).serve(Rc::clone(&orphan), false));
        let again = self.0 == Reading::Retried;
        client.rt.spawn(call(Teller { node: 1, recorder: recorder.clone() }, End::of(client), again));
        orphan
    }

    fn restart(&self, orphan: &mut Orphan, node: NodeId, member: &Member, recorder: &Recorder<InOrder>) {
        Files::restarted(node.0, Nanos::ZERO, recorder);
        if node == NodeId(0) {
            member.rt.spawn(Server::new(*self, member).serve(Rc::clone(orphan), true));
        }
    }

    fn finish(&self, orphan: &Orphan, _: &[Member], _: &Recorder<InOrder>) -> Result<(), Violation> {
        match orphan.get() {
            true => Err(Violation::new(PROMISE, "a file's object is there, and its name is not")),
            false => Ok(()),
        }
    }
}

type SimDisk = <Sim as Verbs>::Disk;

struct Server {
    reading: Reading,
    end: End,
    disk: SimDisk,
    /// The name is there.
    made: bool,
}

impl Server {
    fn new(names: Names, member: &Member) -> Server {
        let disk = member.rt.context().disk().expect("nodes have disks");
        Server { reading: names.0, end: End::of(member), disk, made: false }
    }

    async fn call(&self, call: DiskCall<Sim>) -> DiskEnd<Sim> {
        let mut request = self.disk.begin(call);
        poll_fn(|cx| request.poll_end(cx)).await
    }

    /// What an earlier life has left.
    async fn recover(&mut self, orphan: &Cell<bool>) {
        let read = DiskCall::Read { object: LOG, at: 0, into: DiskBuffer::Owned(vec![0]) };
        let has = self.call(read).await.buffer;
        self.made = matches!(has, Some(DiskBuffer::Owned(byte)) if byte == [1]);
        let all = self.call(DiskCall::List).await.outcome;
        let objects = if let Ok(DiskDone::Objects(objects)) = all { objects } else { Vec::new() };
        orphan.set(objects.contains(&FILE) && !self.made);
    }

    async fn serve(mut self, orphan: Orphan, again: bool) {
        if again {
            self.recover(&orphan).await;
            // Its client is told that it began anew.
            self.end.send(CLIENT, BEGINS, &[]);
        }
        while let Some(came) = self.end.next().await {
            let Came::Message(from, kind, _) = came else { continue };
            match (kind, self.made) {
                (CREATE, true) => self.end.send(from, EXISTS, &[]),
                (CREATE, false) => self.create(from).await,
                (_, made) => self.end.send(from, if made { OPENED } else { NONE }, &[]),
            }
        }
    }

    async fn create(&mut self, from: Rank) {
        self.made = true;
        match self.reading {
            Reading::AnsweredEarly => self.end.send(from, OPENED, &[]),
            Reading::Retried => {}
            Reading::ObjectsFirst => drop(self.call(DiskCall::Create(FILE)).await),
        }
        self.call(DiskCall::Write { object: LOG, at: 0, from: DiskBuffer::Owned(vec![1]) }).await;
        self.call(DiskCall::Sync(LOG)).await;
        if self.reading != Reading::AnsweredEarly {
            self.end.send(from, OPENED, &[]);
        }
    }
}

/// Makes the name and opens it. `again`: whether a call is made once more whose server began anew.
async fn call(teller: Teller, mut end: End, again: bool) {
    teller.happens(0, What::Calls(Call::Create(0)));
    let told = match answer(&mut end, CREATE, again).await {
        Some(OPENED) => What::Opened(1),
        Some(_) => What::Exists,
        None => What::Failed(Why::Unknown),
    };
    teller.happens(0, told);
    teller.happens(1, What::Calls(Call::Open(0)));
    let told = match answer(&mut end, OPEN, true).await {
        Some(OPENED) => What::Opened(1),
        Some(_) => What::NotFound,
        None => What::Failed(Why::Unknown),
    };
    teller.happens(1, told);
}

async fn answer(end: &mut End, kind: u8, again: bool) -> Option<u8> {
    end.send(SERVER, kind, &[]);
    loop {
        match end.next().await? {
            Came::Message(_, BEGINS, _) => {}
            Came::Message(_, kind, _) => return Some(kind),
            Came::Reset if again => end.send(SERVER, kind, &[]),
            Came::Reset => return None,
        }
    }
}
