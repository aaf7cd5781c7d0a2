//! The streams of a node, by handle.

use super::message::Handle;
use super::socket::Socket;
use crate::transport::Rank;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_verbs::Verbs;

struct Place<V: Verbs> {
    use_of: u32,
    /// The last use in which this end gave up its stream.
    given_up: Option<u32>,
    socket: Option<Rc<Socket<V>>>,
}

/// The streams of a node. A place is used again, and each use has a number: a message that comes late finds nothing.
pub(super) struct Table<V: Verbs> {
    places: Vec<Place<V>>,
    free: Vec<u32>,
    first_use: u32,
    /// The same streams by peer, in the order of their places: what is asked of one peer again and again must not cost by the others'.
    by_peer: BTreeMap<Rank, BTreeMap<u32, Rc<Socket<V>>>>,
}

impl<V: Verbs> Table<V> {
    /// No streams; uses are counted from a number that no other incarnation of the node has.
    pub fn new(first_use: u32) -> Table<V> {
        Table { places: Vec::new(), free: Vec::new(), first_use, by_peer: BTreeMap::new() }
    }

    /// Keeps a stream that is made for its handle.
    pub fn insert(&mut self, make: impl FnOnce(Handle) -> Rc<Socket<V>>) -> Rc<Socket<V>> {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { use_of: self.first_use, given_up: None, socket: None });
            self.places.len() as u32 - 1
        });
        let entry = &mut self.places[place as usize];
        let socket = make(Handle { place, use_of: entry.use_of });
        entry.socket = Some(Rc::clone(&socket));
        self.by_peer.entry(socket.peer).or_default().insert(place, Rc::clone(&socket));
        socket
    }

    /// The stream of a handle, if it is there.
    pub fn get(&self, handle: Handle) -> Option<&Rc<Socket<V>>> {
        let entry = self.places.get(handle.place as usize)?;
        entry.socket.as_ref().filter(|_| entry.use_of == handle.use_of)
    }

    /// Whether this end has given up the stream of a handle, or a later one in its place: its peer may not have known that yet.
    pub fn has_given_up(&self, handle: Handle) -> bool {
        let last = self.places.get(handle.place as usize).and_then(|entry| entry.given_up);
        let nth = |use_of: u32| use_of.wrapping_sub(self.first_use);
        last.is_some_and(|last| nth(handle.use_of) <= nth(last))
    }

    /// Forgets a stream. One that did not fail has ended in order, and nothing comes for it any more.
    pub fn remove(&mut self, handle: Handle) {
        let Some(entry) = self.places.get_mut(handle.place as usize) else { return };
        if entry.use_of == handle.use_of
            && let Some(socket) = entry.socket.take()
        {
            entry.given_up = if socket.lives() { entry.given_up } else { Some(entry.use_of) };
            entry.use_of = entry.use_of.wrapping_add(1);
            self.free.push(handle.place);
            if let Some(streams) = self.by_peer.get_mut(&socket.peer) {
                streams.remove(&handle.place);
                if streams.is_empty() {
                    self.by_peer.remove(&socket.peer);
                }
            }
        }
    }

    /// All streams. It looks at each place that was ever in use.
    pub fn all(&self) -> impl Iterator<Item = &Rc<Socket<V>>> {
        self.places.iter().filter_map(|place| place.socket.as_ref())
    }

    /// The streams with a peer.
    pub fn with(&self, peer: Rank) -> impl Iterator<Item = &Rc<Socket<V>>> {
        self.by_peer.get(&peer).into_iter().flat_map(BTreeMap::values)
    }

    /// The peers with which there are streams.
    pub fn peers(&self) -> impl Iterator<Item = Rank> {
        self.by_peer.keys().copied()
    }

    /// How many streams there are.
    pub fn count(&self) -> usize {
        self.by_peer.values().map(BTreeMap::len).sum()
    }
}
