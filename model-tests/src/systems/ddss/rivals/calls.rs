//! Calls of a peer's processor by two messages of the transport.

use super::Answer;
use crate::system::Place;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::rt::sync::{OneshotSender, oneshot};
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, Rank, SendError, TransportError};
use weft_verbs::{Verbs, Work};

const CHANNEL: Channel = Channel(9);
/// What stands before a message's payload: what it is, its number, and a name or a version.
pub(super) const HEAD: usize = 17;
const ANSWER: u8 = 0;

/// What a call asks for: its kind, the name that it is about, and its payload.
pub(super) type Question<'a> = (u8, u64, &'a [u8]);

/// What it is answered: a number and a payload.
type Reply = (u64, Vec<u8>);

/// A node's calls, and those that it answers.
pub(super) struct Calls<V: Verbs> {
    rt: Rt<V>,
    mesh: Mesh<V>,
    asked: RefCell<BTreeMap<u64, OneshotSender<Reply>>>,
    next: Cell<u64>,
}

impl<V: Verbs> Calls<V> {
    /// Opens the channel. `serve` answers peers' calls: a number and a payload. It is called in the order in which they arrive.
    pub fn start(
        place: &Place<V>,
        serve: impl Fn(Question<'_>) -> Reply + 'static,
    ) -> Result<Rc<Calls<V>>, TransportError> {
        let inbox = place.mesh.open(CHANNEL)?;
        let (rt, mesh) = (place.rt.clone(), place.mesh.clone());
        let calls = Rc::new(Calls { rt, mesh, asked: RefCell::default(), next: Cell::new(0) });
        drop(place.rt.spawn(Rc::clone(&calls).listen(inbox, serve)));
        Ok(calls)
    }

    /// The node that keeps what has a name: round robin, as with segments.
    pub fn home(&self, name: u64) -> Rank {
        Rank::from_index((name % u64::from(self.mesh.size().max(1))) as u32)
    }

    /// Calls the home of a name.
    pub async fn call(&self, (kind, name, payload): Question<'_>) -> Answer<Reply> {
        let id = self.next.replace(self.next.get() + 1);
        let (tell, told) = oneshot();
        self.asked.borrow_mut().insert(id, tell);
        self.send(self.home(name), (kind, id, name, payload)).await?;
        told.await.ok()
    }

    async fn send(&self, to: Rank, (kind, id, word, payload): (u8, u64, u64, &[u8])) -> Option<()> {
        let head = [&[kind][..], &id.to_le_bytes(), &word.to_le_bytes()].concat();
        let message = [&head, payload].concat();
        loop {
            self.mesh.room(to).await.ok()?;
            match self.mesh.send(to, CHANNEL, &message) {
                Err(SendError::Full { .. }) => {}
                done => return done.ok(),
            }
        }
    }

    async fn listen(self: Rc<Self>, mut inbox: Inbox, serve: impl Fn(Question<'_>) -> (u64, Vec<u8>)) {
        while let Some(incoming) = inbox.recv().await {
            let Incoming::Message(message) = incoming else { continue };
            let Some((head, payload)) = message.bytes().split_first_chunk::<HEAD>() else { continue };
            let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
            let (id, word) = (word(1), word(9));
            if head[0] == ANSWER {
                let waiting = self.asked.borrow_mut().remove(&id);
                // Nobody waits if the call was dropped.
                drop(waiting.map(|waiting| waiting.send((word, payload.to_vec()))));
                continue;
            }
            // What a home's daemon does to a request beside copying it.
            self.rt.spend(Work::Bookkeeping);
            let (version, value) = serve((head[0], word, payload));
            let (calls, to) = (Rc::clone(&self), message.from());
            // From a task of its own: a peer that takes nothing now must not hold up the others.
            drop(self.rt.spawn(async move { calls.send(to, (ANSWER, id, version, &value)).await }));
        }
    }
}
