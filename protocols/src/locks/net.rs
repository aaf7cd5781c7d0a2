//! A daemon's network: messages that are never refused, atomics that are never lost without a word.

use super::ncosed::{self, OutcomeUnknown, Word};
use super::srsl;
use super::stats::{Counters, bump};
use super::views::{self, Stamp};
use super::{LockConfig, LockKey, Scheme, codec::Encoded};
use crate::members::Member;
use crate::rt::sync::Signal;
use crate::rt::{Rt, WaitPoint};
use crate::transport::{Channel, Mesh, NotExecuted, OpError, Rank, SendError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::rc::Rc;
use weft_verbs::{Nanos, RemoteSlice, Verbs};

/// The pauses before something is tried again that the mesh refused: from, to.
const PAUSES: (Nanos, Nanos) = (Nanos::from_micros(10), Nanos::from_millis(10));

/// Messages that wait for room, by receiver, each with the view that it is said in.
type Kept = BTreeMap<Rank, VecDeque<(Encoded, Stamp)>>;

/// What a daemon's requesters and homes send through. Clones are the same network.
pub(crate) struct Net<V: Verbs> {
    rt: Rt<V>,
    mesh: Mesh<V>,
    channel: Channel,
    scheme: Scheme,
    counters: Rc<Counters>,
    /// Messages that the mesh had no room for; a task sends them as room comes.
    kept: Rc<RefCell<Kept>>,
    /// The view of the membership that messages are said in, zero for none; `None` where there is no membership.
    view: Option<Rc<Cell<Stamp>>>,
    /// By rank: the member of that view; and how many atomics are under way to it, and what tells that one of these numbers is zero.
    incarnations: Rc<RefCell<Vec<u64>>>,
    /// A peer has begun anew, or a view has.
    began: Signal,
    under_way: Rc<[Cell<u32>]>,
    settled: Signal,
}

impl<V: Verbs> Clone for Net<V> {
    fn clone(&self) -> Self {
        Net {
            rt: self.rt.clone(),
            mesh: self.mesh.clone(),
            channel: self.channel,
            scheme: self.scheme,
            counters: Rc::clone(&self.counters),
            kept: Rc::clone(&self.kept),
            view: self.view.clone(),
            incarnations: Rc::clone(&self.incarnations),
            began: self.began.clone(),
            under_way: Rc::clone(&self.under_way),
            settled: self.settled.clone(),
        }
    }
}

impl<V: Verbs> Net<V> {
    pub(crate) fn new(
        rt: &Rt<V>,
        mesh: &Mesh<V>,
        config: &LockConfig,
        counters: &Rc<Counters>,
        in_views: bool,
    ) -> Net<V> {
        Net {
            rt: rt.clone(),
            mesh: mesh.clone(),
            channel: config.channel,
            scheme: config.scheme,
            counters: Rc::clone(counters),
            kept: Rc::default(),
            view: in_views.then(Rc::default),
            incarnations: Rc::default(),
            began: Signal::new(),
            under_way: vec![Cell::new(0); mesh.size() as usize].into(),
            settled: Signal::new(),
        }
    }

    /// Messages are said in this view from now on, and words are those of its members.
    pub(crate) fn speak_in(&self, stamp: Stamp, members: &[Member]) {
        if let Some(view) = &self.view {
            view.set(stamp);
        }
        let mut incarnations = self.incarnations.borrow_mut();
        incarnations.clear();
        incarnations.resize(self.under_way.len(), 0);
        for member in members {
            incarnations[member.rank.index()] = member.incarnation;
        }
        drop(incarnations);
        self.began.notify();
    }

    /// A peer has begun anew: what is kept for it may be meant for this incarnation.
    pub(crate) fn peer_began(&self) {
        self.began.notify();
    }

    /// Whether no atomic is under way to a node's words.
    pub(crate) fn is_settled(&self, with: Rank) -> bool {
        self.under_way[with.index()].get() == 0
    }

    /// Waits until no atomic is under way to a node's words.
    pub(crate) async fn settled(&self, with: Rank) {
        self.settled.until(|| self.is_settled(with)).at(()).await;
    }

    /// Whether a node's words mean nothing any more: it has another incarnation than in the view.
    fn is_another(&self, node: Rank) -> bool {
        let known = self.mesh.incarnation_of(node);
        self.view.is_some()
            && node != self.mesh.me()
            && known.is_some_and(|known| self.incarnations.borrow().get(node.index()) != Some(&known))
    }

    /// The view that messages are said in.
    pub(crate) fn view(&self) -> Stamp {
        self.view.as_ref().map_or(0, |view| view.get())
    }

    pub(crate) fn mesh(&self) -> &Mesh<V> {
        &self.mesh
    }

    /// How many messages are kept back.
    pub(crate) fn kept(&self) -> usize {
        self.kept.borrow().values().map(VecDeque::len).sum()
    }

    /// Sends, or keeps until the mesh has room; behind what is kept already. Of a view nothing is given to the mesh for a node of which it
    /// knows another incarnation than the view's: requesters tell each other things that nobody says twice.
    fn post(&self, to: Rank, message: Encoded) {
        bump(&self.counters.messages_sent);
        let stamp = self.view();
        let message = if self.view.is_some() { message.u64(stamp) } else { message };
        if let Some(kept) = self.kept.borrow_mut().get_mut(&to) {
            kept.push_back((message, stamp));
            return;
        }
        if stamp != 0 && self.is_another(to) {
            return self.keep(to, message, stamp);
        }
        match self.mesh.send(to, self.channel, message.bytes()) {
            Ok(()) => {}
            Err(SendError::Full { .. } | SendError::Memory(_)) => self.keep(to, message, stamp),
            // A member of this view: the incarnation that was expelled is not it. It will connect.
            Err(SendError::PeerGone(_)) if stamp != 0 => self.keep(to, message, stamp),
            // A node that ends has nobody to talk to, and one that was expelled hears nothing.
            Err(SendError::Closed | SendError::PeerGone(_)) => {}
            // A rank that a peer made up, or a mesh that cannot carry the longest message; nothing is placed here.
            Err(SendError::NoSuchPeer(_) | SendError::TooLong { .. } | SendError::OtherRail(_)) => {
                bump(&self.counters.out_of_turn);
            }
        }
    }

    fn keep(&self, to: Rank, message: Encoded, stamp: Stamp) {
        self.kept.borrow_mut().insert(to, VecDeque::from([(message, stamp)]));
        let net = self.clone();
        self.rt.spawn(async move { net.send_kept(to).at(to).await });
    }

    /// Sends what is kept for one peer, in order. Ends when nothing is left.
    async fn send_kept(&self, to: Rank) {
        let mut pause = PAUSES.0;
        loop {
            let front = self.kept.borrow().get(&to).and_then(|kept| kept.front().copied());
            let Some((message, stamp)) = front else {
                self.kept.borrow_mut().remove(&to);
                return;
            };
            if stamp != self.view() {
                // Of a view that is over.
                self.kept.borrow_mut().get_mut(&to).map(VecDeque::pop_front);
                continue;
            }
            if self.is_another(to) {
                // Said now, it would be lost with the session of that one. The member will connect: it has to report to this node.
                self.began.until(|| !self.is_another(to) || self.view() != stamp).at((to, stamp)).await;
                continue;
            }
            match self.mesh.send(to, self.channel, message.bytes()) {
                Ok(()) => {
                    pause = PAUSES.0;
                    if let Some(kept) = self.kept.borrow_mut().get_mut(&to) {
                        kept.pop_front();
                    }
                }
                Err(SendError::Full { .. }) if self.mesh.room(to).at(()).await.is_ok() => {}
                Err(SendError::Memory(_)) => self.pause(&mut pause).at(()).await,
                Err(SendError::Full { .. } | SendError::PeerGone(_)) if stamp != 0 => {
                    self.pause(&mut pause).at(()).await;
                }
                Err(_) => {
                    self.kept.borrow_mut().remove(&to);
                    return;
                }
            }
        }
    }

    async fn pause(&self, pause: &mut Nanos) {
        self.rt.sleep(*pause).at(*pause).await;
        *pause = (*pause * 2).min(PAUSES.1);
    }

    /// Waits for an atomic's result. One that certainly did not execute is posted again: the mesh waits for the
    /// connection by itself, so this is for what an adapter refuses for a while. One of unknown outcome is resolved
    /// before that is told.
    ///
    /// Among members, what another incarnation than the view's was to execute, or one that was expelled, has no outcome that counts: the
    /// next view decides without it. Whoever does not wait for that drops the future: the atomic counts as under way until its
    /// outcome is fixed all the same.
    async fn see_through<F>(&self, to: Rank, post: impl Fn() -> F) -> Result<Word, OutcomeUnknown>
    where
        F: Future<Output = Result<u64, OpError>>,
    {
        let mut under_way = UnderWay::begin(self, to);
        let outcome = self.until_known(to, post).at(()).await;
        under_way.is_fixed = true;
        outcome
    }

    fn no_more_under_way(&self, to: Rank) {
        let under_way = &self.under_way[to.index()];
        under_way.set(under_way.get() - 1);
        if self.view.is_some() && under_way.get() == 0 {
            self.settled.notify();
        }
    }

    async fn until_known<F>(&self, to: Rank, post: impl Fn() -> F) -> Result<Word, OutcomeUnknown>
    where
        F: Future<Output = Result<u64, OpError>>,
    {
        let mut pause = PAUSES.0;
        loop {
            if self.is_another(to) {
                return Err(OutcomeUnknown);
            }
            match post().at(pause).await {
                Ok(was) => return Ok(Word(was)),
                Err(OpError::Unknown(_)) => {
                    bump(&self.counters.unknown_outcomes);
                    self.resolve(to).at("unknown").await;
                    return Err(OutcomeUnknown);
                }
                // Whoever waits for it is about to be told that the service has ended, and drops this.
                Err(OpError::NotExecuted(NotExecuted::Closed)) => return pending().at("closed").await,
                Err(OpError::NotExecuted(NotExecuted::PeerGone(_) | NotExecuted::PeerReset(_)))
                    if self.view.is_some() =>
                {
                    return Err(OutcomeUnknown);
                }
                Err(OpError::NotExecuted(_)) => {
                    bump(&self.counters.reposted);
                    self.pause(&mut pause).at(()).await;
                }
            }
        }
    }

    async fn resolve(&self, to: Rank) {
        let mut pause = PAUSES.0;
        loop {
            match self.mesh.resolve_outcomes(to).at(pause).await {
                Ok(()) => return,
                // A node that ends uses no word any more.
                Err(NotExecuted::Closed) => return,
                Err(NotExecuted::PeerGone(_)) if self.view.is_some() => return,
                Err(_) => self.pause(&mut pause).at(()).await,
            }
        }
    }

    /// Compare-and-swap on a word at `home`.
    pub(crate) async fn swap(
        &self,
        home: Rank,
        at: RemoteSlice,
        compare: Word,
        swap: Word,
    ) -> Result<Word, OutcomeUnknown> {
        bump(&self.counters.compare_swaps);
        self.see_through(home, || self.mesh.compare_swap(home, at, compare.0, swap.0)).at(()).await
    }
}

/// An atomic that may execute, or have executed, at a node's words.
struct UnderWay<'a, V: Verbs> {
    net: &'a Net<V>,
    to: Rank,
    /// Its outcome is known, or will never be, and it executes no more.
    is_fixed: bool,
}

impl<'a, V: Verbs> UnderWay<'a, V> {
    fn begin(net: &'a Net<V>, to: Rank) -> UnderWay<'a, V> {
        let under_way = &net.under_way[to.index()];
        under_way.set(under_way.get() + 1);
        UnderWay { net, to, is_fixed: false }
    }
}

/// Where nobody waits for its outcome any more, it has still to be fixed: a late copy must not meet the word's next use.
impl<V: Verbs> Drop for UnderWay<'_, V> {
    fn drop(&mut self) {
        let to = self.to;
        if self.is_fixed {
            return self.net.no_more_under_way(to);
        }
        let net = self.net.clone();
        let fixes = async move {
            net.resolve(to).at(to).await;
            net.no_more_under_way(to);
        };
        drop(self.net.rt.spawn(fixes));
    }
}

impl<V: Verbs> srsl::Wire for Net<V> {
    fn send(&self, to: Rank, key: LockKey, message: srsl::Message) {
        self.post(to, message.encode(key));
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl<V: Verbs> ncosed::Wire for Net<V> {
    fn me(&self) -> Rank {
        self.mesh.me()
    }

    fn view(&self) -> u64 {
        views::number(Net::view(self))
    }

    fn send(&self, to: Rank, key: LockKey, message: ncosed::Message) {
        self.post(to, message.encode(self.scheme, key));
    }

    fn compare_swap(
        &self,
        home: Rank,
        at: RemoteSlice,
        compare: Word,
        swap: Word,
    ) -> impl Future<Output = Result<Word, OutcomeUnknown>> {
        self.swap(home, at, compare, swap)
    }

    async fn fetch_add(&self, home: Rank, at: RemoteSlice, add: u64) -> Result<Word, OutcomeUnknown> {
        bump(&self.counters.fetch_adds);
        self.see_through(home, || self.mesh.fetch_add(home, at, add)).at(()).await
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::words::tests::Home;

    #[test]
    fn pauses_are_twice_as_long_each_time_up_to_a_bound() {
        let home = Home::new();
        let (net, rt) = (home.net.clone(), home.rt.clone());
        let pauses = home.run(async move {
            let (mut pause, mut pauses) = (PAUSES.0, Vec::new());
            for _ in 0..13 {
                let before = rt.now();
                net.pause(&mut pause).await;
                pauses.push((rt.now() - before).0 / 1_000);
            }
            pauses
        });
        let expected = [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120, 10_000, 10_000, 10_000];
        // In microseconds; what the processor itself takes is much less.
        assert_eq!(pauses, expected);
    }
}
