//! Every node adds one to a word. Ways of doing so that lose an addition, or do one twice.

use crate::explore::Violation;
use crate::history::{ClientId, Event, RequestId, What};
use crate::worlds::book::Book;
use crate::worlds::cluster::{Member, Shape};
use crate::worlds::stage::Play;
use protocols::locks::{LockKey, Mode};
use protocols::transport::{Mesh, OpError, Rank};
use sim_backend::{Sim, SimMr};
use verbs_trait::{AccessFlags, MemoryRegion, Nanos, RemoteSlice, Wait};

/// How a node adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adding {
    /// By fetch-and-add, once.
    Atomically,
    /// It reads the word and writes what it read plus one.
    ByReadAndWrite,
    /// By fetch-and-add, again and again until one completes.
    UntilItCompletes,
}

/// A word at the first node, to which each node adds one.
pub struct Counter {
    /// The world's name.
    pub name: &'static str,
    /// How many nodes there are.
    pub nodes: u32,
    /// How they add.
    pub adding: Adding,
}

async fn add(mesh: &Mesh<Sim>, home: Rank, at: RemoteSlice, adding: Adding) -> Result<(), OpError> {
    if adding == Adding::ByReadAndWrite {
        let mut word = [0; 8];
        mesh.read(home, at, &mut word).await?;
        return mesh.write(home, at, &(u64::from_ne_bytes(word) + 1).to_ne_bytes()).await;
    }
    while let Err(why) = mesh.fetch_add(home, at, 1).await {
        if adding != Adding::UntilItCompletes {
            return Err(why);
        }
    }
    Ok(())
}

impl Play for Counter {
    type Cast = SimMr;

    fn name(&self) -> &str {
        self.name
    }

    fn shape(&self) -> Shape {
        Shape { nodes: self.nodes, wait: Wait::Poll, home: Some(0), one_by_one: false }
    }

    fn start(&self, _: usize, members: &[Member], book: &Book) -> SimMr {
        let access = AccessFlags::LOCAL_WRITE
            | AccessFlags::REMOTE_ATOMIC
            | AccessFlags::REMOTE_READ
            | AccessFlags::REMOTE_WRITE;
        let word = members[0].mesh.alloc(8, access).expect("eight bytes");
        let (home, at) = (members[0].mesh.me(), word.remote(0..8).expect("a word"));
        for (node, member) in (0..).zip(members) {
            let (mesh, book, adding) = (member.mesh.clone(), book.clone(), self.adding);
            member.rt.spawn(async move {
                let request = RequestId { client: ClientId { node, index: 0 }, number: 0 };
                let (key, mode) = (LockKey(0), Mode::Shared);
                let record = |what| book.record(Event { at: Nanos::ZERO, request, key, mode, what });
                record(What::Requested { deadline: None });
                // What did not come about is not counted, and the word must not have it either.
                let added = add(&mesh, home, at, adding).await;
                record(if added.is_ok() { What::Granted { token: None } } else { What::Failed });
                if added.is_ok() {
                    record(What::Released);
                }
            });
        }
        word
    }

    fn finish(&self, word: &SimMr, _: &[Member], _: &Book) -> Result<(), Violation> {
        match word.load(0) {
            Ok(sum) if sum == u64::from(self.nodes) => Ok(()),
            other => {
                let text = format!("{} nodes have added one each, and the word is {other:?}", self.nodes);
                Err(Violation::new("sum", text))
            }
        }
    }
}
