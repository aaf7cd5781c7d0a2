//! The service of the transport by itself: a node numbers what it sends, and takes down what arrives.

use super::history::{Event, Sent, What};
use super::workload::{Request, SHORTEST};
use crate::record::Record;
use crate::system::Place;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, Rank, SendError};
use weft_verbs::Verbs;

const CHANNEL: Channel = Channel(0);

/// What runs on a node: a client sends by it, and a task of it listens.
pub struct MessageService<V: Verbs> {
    client: MessageClient<V>,
    malformed: Rc<Cell<u64>>,
}

/// What sends for one client.
pub struct MessageClient<V: Verbs> {
    mesh: Mesh<V>,
    node: u32,
    incarnation: u32,
    /// How many messages were sent to each node.
    sent: Rc<RefCell<Vec<u32>>>,
}

impl<V: Verbs> Clone for MessageClient<V> {
    fn clone(&self) -> MessageClient<V> {
        let MessageClient { mesh, node, incarnation, sent } = self;
        MessageClient { mesh: mesh.clone(), node: *node, incarnation: *incarnation, sent: Rc::clone(sent) }
    }
}

impl<V: Verbs> MessageService<V> {
    /// Begins to listen.
    pub(super) fn start(place: &Place<V>, record: &impl Record<Event>) -> Result<MessageService<V>, String> {
        let Place { rt, mesh, node, nodes, incarnation, .. } = place;
        let inbox = mesh.open(CHANNEL).map_err(|why| why.to_string())?;
        let malformed = Rc::new(Cell::new(0));
        rt.spawn(listen(rt.clone(), inbox, *node, Rc::clone(&malformed), record.clone()));
        let client = MessageClient {
            mesh: mesh.clone(),
            node: *node,
            incarnation: *incarnation,
            sent: Rc::new(RefCell::new(vec![0; *nodes as usize])),
        };
        Ok(MessageService { client, malformed })
    }

    /// What sends for a client.
    pub fn client(&self) -> MessageClient<V> {
        self.client.clone()
    }

    /// How many messages could not be read.
    pub fn malformed(&self) -> u64 {
        self.malformed.get()
    }
}

impl<V: Verbs> MessageClient<V> {
    /// Sends a message, once the transport has room for it.
    pub(super) async fn send(&self, rt: &Rt<V>, request: Request, record: &impl Record<Event>) {
        let to = Rank::from_index(request.to);
        // A mesh that is closed sends nothing any more, and nothing is owed.
        while self.mesh.room(to).await.is_ok() {
            let number = self.sent.borrow()[request.to as usize];
            let sent = Sent { incarnation: self.incarnation, number };
            match self.mesh.send(to, CHANNEL, &encode(sent, request.bytes)) {
                Ok(()) => {
                    self.sent.borrow_mut()[request.to as usize] += 1;
                    let what = What::Sent { to: request.to, sent, bytes: request.bytes };
                    record.record(Event { at: rt.now(), node: self.node, what });
                    return;
                }
                // Another client took the place.
                Err(SendError::Full { .. }) => {}
                Err(_) => return,
            }
        }
    }
}

async fn listen<V: Verbs>(
    rt: Rt<V>,
    mut inbox: Inbox,
    node: u32,
    malformed: Rc<Cell<u64>>,
    record: impl Record<Event>,
) {
    while let Some(incoming) = inbox.recv().await {
        let what = match incoming {
            Incoming::Message(message) => {
                let (from, bytes) = (message.from().index() as u32, message.bytes());
                let Some((sent, intact)) = decode(bytes) else {
                    malformed.set(malformed.get() + 1);
                    continue;
                };
                What::Arrived { from, sent, bytes: bytes.len() as u32, intact }
            }
            Incoming::PeerReset { peer, lost } => What::PeerRestarted { peer: peer.index() as u32, lost },
        };
        record.record(Event { at: rt.now(), node, what });
    }
}

/// A message's bytes: what its receiver tells it by, its length, and a pattern of its own.
fn encode(sent: Sent, bytes: u32) -> Vec<u8> {
    let mut message = Vec::with_capacity(bytes as usize);
    message.extend(sent.incarnation.to_le_bytes());
    message.extend(sent.number.to_le_bytes());
    message.extend(bytes.to_le_bytes());
    let filler = sent.number.wrapping_mul(31).wrapping_add(sent.incarnation);
    message.extend((SHORTEST - 4..bytes).map(|at| filler.wrapping_add(at) as u8));
    message
}

/// Which message it is, and whether the rest of it is as it was sent.
fn decode(message: &[u8]) -> Option<(Sent, bool)> {
    let word = |at: usize| Some(u32::from_le_bytes(message.get(at..at + 4)?.try_into().ok()?));
    let sent = Sent { incarnation: word(0)?, number: word(4)? };
    Some((sent, message == encode(sent, word(8)?.min(message.len() as u32))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_told_by_its_head_and_a_changed_byte_by_its_body() {
        let sent = Sent { incarnation: 2, number: 7 };
        for bytes in [16, 17, 64, 1_024] {
            let mut message = encode(sent, bytes);
            assert_eq!(message.len(), bytes as usize);
            assert_eq!(decode(&message), Some((sent, true)));
            *message.last_mut().expect("it has bytes") ^= 1;
            assert_eq!(decode(&message), Some((sent, false)));
            message.pop();
            assert_eq!(decode(&message), Some((sent, false)), "cut short");
        }
        assert_eq!(decode(&[1, 2, 3]), None);
    }
}
