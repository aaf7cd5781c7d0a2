//! What waits for the transport: a peer that takes no messages now must not hold up the others.

use super::message::Message;
use super::piece::Piece;
use super::service::{CHANNEL, Sdp, Shared};
use super::socket::Socket;
use super::suspend::{Asked, Suspended};
use super::turns::Turns;
use crate::transport::{BEFORE_MEMORY_IS_ASKED_FOR, Rank, SendError};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use weft_verbs::{Nanos, Verbs};

/// What a node owes one peer.
pub(super) struct Outbox<V: Verbs> {
    /// Streams that wait for the transport's room. As long as there is a line, a task gives it to them.
    line: Option<Line<V>>,
    /// A task watches whether the peer acknowledges, for those whose patience lasts so long at least.
    patience: Option<Nanos>,
    /// A task probes the peer while something is open with it.
    pub probes: bool,
    /// A task asks whether the peer is there when nothing was heard of it for so long, while a stream wants that.
    pub keepalive: Option<Nanos>,
    /// How often the connection had come to stand when its streams were last told so.
    pub ups: u64,
    /// One-sided operations of streams with the peer that are under way.
    pub under_way: u32,
    /// Parts of buffers that went there or came from there by one-sided operations.
    pub moved: u64,
    /// How much one of them moves.
    pub piece: Piece,
    /// How much all of them move at a time.
    pub turns: Turns,
    /// Nothing is started with the peer now.
    pub suspended: Option<Suspended>,
    /// How often that was so.
    pub suspensions: u32,
    /// The peer has asked while this end did, and has not said that it goes on.
    pub asked: Option<Asked>,
}

impl<V: Verbs> Default for Outbox<V> {
    fn default() -> Outbox<V> {
        Outbox {
            line: None,
            patience: None,
            probes: false,
            keepalive: None,
            ups: 0,
            under_way: 0,
            moved: 0,
            piece: Piece::default(),
            turns: Turns::default(),
            suspended: None,
            suspensions: 0,
            asked: None,
        }
    }
}

/// Streams that take room one after the other.
struct Line<V: Verbs> {
    /// The one whose turn it is.
    turn: Option<Rc<Socket<V>>>,
    /// Those that had something to say when there was no room.
    blocked: VecDeque<Rc<Socket<V>>>,
}

impl<V: Verbs> Line<V> {
    /// How many messages there must be room for before one of a stream. Whoever stands in line is counted, too: it has room for itself in its
    /// turn alone, or a stream that is woken before the line's task could take each room that comes, and keep its place.
    fn before(&self, socket: &Rc<Socket<V>>) -> usize {
        match &self.turn {
            Some(turn) if Rc::ptr_eq(turn, socket) => 0,
            turn => usize::from(turn.is_some()) + self.blocked.len(),
        }
    }

    fn join(&mut self, socket: &Rc<Socket<V>>) {
        if !self.blocked.iter().any(|known| Rc::ptr_eq(known, socket)) {
            self.blocked.push_back(Rc::clone(socket));
        }
    }
}

impl<V: Verbs> Default for Line<V> {
    fn default() -> Line<V> {
        Line { turn: None, blocked: VecDeque::new() }
    }
}

/// Lets those run that are ready.
async fn others_first() {
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Into how many parts the time is divided after which a peer is given up; it is looked at after each.
const LOOKS: u64 = 8;

/// How long a peer has been seen to be silent when it is given up: it may have been so for one part of the time before.
fn over_after(give_up: Nanos) -> Nanos {
    give_up / LOOKS * (LOOKS - 1)
}

impl<V: Verbs> Sdp<V> {
    /// Sends a message that belongs to no stream of this node. Where the transport has no room or no memory for it, it is sent when there is
    /// some. What answers the last life of a peer is of no use to its next one.
    pub(super) fn answer(&self, to: Rank, message: &Message<'_>) {
        if self.is_over(to) {
            return;
        }
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let sent = self.shared.mesh.send(to, CHANNEL, &bytes);
        if matches!(sent, Err(SendError::Full { .. } | SendError::Memory(_))) {
            let sdp = self.clone();
            drop(self.shared.rt.spawn(async move { sdp.say(to, &bytes).await }));
        }
    }

    /// Sends a message that belongs to no stream as soon as the transport has room and memory for it; not if that is not waited for, nor if the
    /// peer begins anew meanwhile.
    pub(super) async fn say(&self, to: Rank, bytes: &[u8]) {
        let Shared { mesh, rt, .. } = &*self.shared;
        let life = mesh.resets_of(to);
        while mesh.room(to).await.is_ok() && mesh.resets_of(to) == life {
            match mesh.send(to, CHANNEL, bytes) {
                Err(SendError::Full { .. }) => {}
                Err(SendError::Memory(_)) => rt.sleep(BEFORE_MEMORY_IS_ASKED_FOR).await,
                _ => return,
            }
        }
    }

    /// Whether the transport has room for a message of a stream, beside one for each that comes before it in line.
    pub(super) fn has_room(&self, socket: &Rc<Socket<V>>) -> bool {
        let outboxes = self.shared.outboxes.borrow();
        let line = outboxes.get(&socket.peer).and_then(|outbox| outbox.line.as_ref());
        line.map_or(0, |line| line.before(socket)) < self.shared.mesh.room_left(socket.peer)
    }

    /// Has a stream try again once the transport takes messages to its peer.
    pub(super) fn block(&self, socket: &Rc<Socket<V>>) {
        let peer = socket.peer;
        let begins = self.outbox(peer, |outbox| {
            let begins = outbox.line.is_none();
            outbox.line.get_or_insert_default().join(socket);
            begins
        });
        if begins {
            let sdp = self.clone();
            drop(self.shared.rt.spawn(async move { sdp.wait_for_room(peer).await }));
        }
        // There is room once the peer acknowledges something, and one that is gone never does.
        self.watch(peer, socket.options.give_up);
    }

    /// Gives room to one stream after the other, as they stand in line. If whoever looks first had it, with little room a stream that always
    /// has something to say could keep the others from saying anything.
    async fn wait_for_room(self, peer: Rank) {
        while self.has_line(peer) {
            if let Err(why) = self.shared.mesh.room(peer).await {
                return self.room_never_comes(peer, why);
            }
            if let Some(socket) = self.next_turn(peer) {
                self.flush(&socket);
                socket.writable.notify();
                // Its user has the room while those run who are ready now, and those whom they wake.
                for _ in 0..2 {
                    others_first().await;
                }
            }
        }
    }

    /// Ends a turn, and with the last one the line. Whether somebody stands in it.
    fn has_line(&self, peer: Rank) -> bool {
        self.outbox(peer, |outbox| {
            let line = outbox.line.take().filter(|line| !line.blocked.is_empty());
            outbox.line = line.map(|line| Line { turn: None, ..line });
            outbox.line.is_some()
        })
    }

    /// Begins the turn of the stream that stands first in line.
    fn next_turn(&self, peer: Rank) -> Option<Rc<Socket<V>>> {
        self.outbox(peer, |outbox| {
            let line = outbox.line.as_mut()?;
            line.turn = line.blocked.pop_front();
            line.turn.clone()
        })
    }

    fn room_never_comes(&self, peer: Rank, why: SendError) {
        let line = self.outbox(peer, |outbox| outbox.line.take()).unwrap_or_default();
        match why {
            SendError::PeerGone(peer) => self.is_no_more(peer),
            _ => line.blocked.iter().for_each(|socket| self.closed(socket)),
        }
    }

    /// Sees to it that a peer is given up in time that does not acknowledge, or of which nothing is heard while something is open with it: for
    /// a stream, or for the node, whose patience lasts so long.
    pub(super) fn watch(&self, peer: Rank, give_up: Nanos) {
        self.probe(peer);
        let before = self.shared.outboxes.borrow().get(&peer).and_then(|outbox| outbox.patience);
        if give_up == Nanos::MAX || before.is_some_and(|before| before <= give_up) {
            return;
        }
        self.outbox(peer, |outbox| outbox.patience = Some(give_up));
        if before.is_some() {
            return self.shared.sooner.notify();
        }
        drop(self.shared.rt.spawn(self.clone().look_after(peer)));
    }

    /// The patience of those who give a peer up first: of its streams, and of the node while it starts nothing with the peer. None if nobody
    /// does.
    pub(super) fn patience(&self, peer: Rank) -> Option<Nanos> {
        self.all_patience(peer).into_iter().min()
    }

    /// The patience of each of them.
    fn all_patience(&self, peer: Rank) -> Vec<Nanos> {
        let node = self.is_suspended(peer).then_some(self.shared.options.give_up);
        let table = self.shared.table.borrow();
        let streams = table.with(peer).filter(|socket| socket.lives());
        let all = streams.map(|socket| socket.options.give_up).chain(node);
        all.filter(|give_up| *give_up != Nanos::MAX).collect()
    }

    /// How long to rest until a peer is looked at again that has been silent for so long: a part of the least patience, and not beyond the
    /// end of another one.
    fn next_look(&self, peer: Rank, least: Nanos, silent: Nanos) -> Nanos {
        let ends = self.all_patience(peer).into_iter().map(|give_up| over_after(give_up) - silent);
        let next = ends.filter(|left| *left > Nanos::ZERO).min();
        next.unwrap_or(least).min(least / LOOKS).max(Nanos(1))
    }

    /// Rests for so long, or until a task of the peer's outbox is to look sooner. True if it is.
    pub(super) async fn rests(&self, most: Nanos, mut sooner: impl FnMut() -> bool) -> bool {
        let Shared { rt, sooner: changed, .. } = &*self.shared;
        rt.deadline(rt.now() + most, changed.until(&mut sooner)).await.is_ok()
    }

    /// Signs that the peer's node lives, as far as streams can tell: what is heard of it, and what goes on of buffers. That its adapter answers
    /// is none.
    pub(super) fn heard(&self, peer: Rank) -> u64 {
        self.shared.mesh.heard(peer) + self.moved_with(peer)
    }

    /// How much has gone on of buffers that the peer has advertised or that wait for it. It ends where the node hangs: no more of them goes on
    /// than it had advertised.
    fn moved_with(&self, peer: Rank) -> u64 {
        self.shared.outboxes.borrow().get(&peer).map_or(0, |outbox| outbox.moved)
    }

    /// Ends when nothing is open with the peer. An acknowledgement of anything is a sign of life, and so is what goes on of buffers: the
    /// acknowledgement may stand behind that. Where every message is acknowledged and the peer has yet to do something, such as to read what
    /// is advertised, it is asked as soon as nothing is heard of it: nothing else would tell that it is gone.
    async fn look_after(self, peer: Rank) {
        let Shared { rt, mesh, .. } = &*self.shared;
        let signs = || (mesh.oldest_unacknowledged(peer), self.moved_with(peer), self.heard(peer));
        let (mut oldest, mut moved, mut heard) = signs();
        let mut since = rt.now();
        while self.has_open(peer)
            && !mesh.is_closed()
            && let Some(least) = self.patience(peer)
        {
            self.outbox(peer, |outbox| outbox.patience = Some(least));
            let shorter = || self.outbox(peer, |outbox| outbox.patience != Some(least));
            if self.rests(self.next_look(peer, least, rt.now() - since), shorter).await {
                continue;
            }
            if mesh.is_gone(peer) {
                self.is_no_more(peer);
                break;
            }
            let before = (oldest, moved, heard);
            (oldest, moved, heard) = signs();
            let goes_on = (before.0, before.1) != (oldest, moved);
            if goes_on || (oldest.is_none() && before.2 != heard) {
                since = rt.now();
            } else if oldest.is_none() && self.has_open(peer) {
                self.ask(peer);
                // What is heard no more is not heard since then, but since before.
                oldest = mesh.oldest_unacknowledged(peer);
            } else {
                let silent = rt.now() - since;
                self.gone(peer, |give_up| give_up != Nanos::MAX && silent >= over_after(give_up));
            }
        }
        self.outbox(peer, |outbox| outbox.patience = None);
    }

    pub(super) fn outbox<T>(&self, peer: Rank, run: impl FnOnce(&mut Outbox<V>) -> T) -> T {
        run(self.shared.outboxes.borrow_mut().entry(peer).or_default())
    }
}
