//! How segments follow the membership: a node that dies blocks nobody.
//!
//! The dead are expelled from the mesh before a view is told, so that nothing of theirs lands any more. A value is published by one
//! swap, so one who died amid a put has published it or not. What is left of the dead is a lock in a header, a turn in a line, and
//! an answer that somebody waits for:
//!
//! - Who waits for one that is dead ends with [`DdssError::Gone`]: its segments died with it.
//! - A home ends the turns of the dead, and does not wait for them when it releases a segment.
//! - It frees their locks when their leases have run out, since one who holds a lock may act by it elsewhere as long as
//!   it has its lease ([`Held::is_valid`](super::Held::is_valid)).
//!
//! A node that comes back is another incarnation ([`Party`]), and has a part in the segments once the view has it. All that a home keeps of a
//! node is of one incarnation: what the one before had is taken away first ([`parts`](super::parts)), and only then is the next one answered. Keys say
//! which incarnation of their home made them, so that what the one before kept stays gone by name. A home that was connected with
//! the one that died knows so by the new connection, before any view says it.
//!
//! A node that has no part in the segments any more and lives all the same goes on as a home, since others may not know: it answers, and
//! lets go what others release. And it says so to the homes of the segments that it had open, once nothing of its own is under way
//! there: they would wait for what it does not give back, and nobody expels it.
//!
//! A node asks another one something only while its view has that one, and heeds one only that its view has. So whoever has a part in a
//! segment was in its home's view and the home in its own, and a view tells each of the end of the other. What comes early is kept until
//! a view begins with its sender: views begin at one node later than at another.

use super::DdssError;
use super::Name;
use super::key::Place;
use super::line::Turned;
use super::messages::Message;
use super::parties::{Parties, Party};
use super::segment::{Open, Segment};
use super::service::Ddss;
use crate::members::{Change, Hold, Members, Watch};
use crate::rt::sync::{Mailbox, Signal};
use crate::transport::{Inbox, Mesh, NotExecuted, Rank};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use weft_verbs::{Nanos, Verbs};

/// How long something is waited for before it is asked whether the node lives for which it waits.
const GRACE: Nanos = Nanos::from_millis(2);

/// What a node keeps of the membership.
pub(super) struct Following<V: Verbs> {
    /// Who says when leases run out, and asks whether the others live; nobody where views come from elsewhere.
    members: Option<Members<V>>,
    /// Who that is, by the views that have begun here and by the connections.
    parties: RefCell<Parties>,
    /// What nodes have said that no view here has yet.
    early: RefCell<BTreeMap<Rank, Vec<Message>>>,
    /// The others go on without this node, or its view is lost: it has no part in the segments of others any more.
    out: Cell<bool>,
    /// The others go on without this node: it hears of no view any more.
    hears_of_none: Cell<bool>,
    /// Who lives has changed, for this node.
    changed: Signal,
    /// Posts under way, by home, and how many have ended.
    posts: RefCell<BTreeMap<Rank, (u32, u64)>>,
    /// Something is waited for that was not.
    waits: Signal,
}

impl<V: Verbs> Following<V> {
    /// At a node that hears the others by this inbox: what waits there may be of incarnations that have ended since.
    pub fn new(mesh: &Mesh<V>, inbox: &Inbox, members: Option<Members<V>>) -> Following<V> {
        Following {
            members,
            parties: RefCell::new(Parties::new(mesh.resets_before(inbox))),
            early: RefCell::default(),
            out: Cell::new(false),
            hears_of_none: Cell::new(false),
            changed: Signal::new(),
            posts: RefCell::default(),
            waits: Signal::new(),
        }
    }
}

impl<V: Verbs> Following<V> {
    /// How long a lease may run yet by this node's clock that was renewed just now.
    fn longest_lease(&self) -> Nanos {
        self.members.as_ref().map_or(Nanos::ZERO, |members| members.lease() + members.drift())
    }
}

/// A post that is under way.
pub(super) struct Posting<'a, V: Verbs>(&'a Following<V>, Rank);

impl<V: Verbs> Drop for Posting<'_, V> {
    fn drop(&mut self) {
        if let Some((open, ended)) = self.0.posts.borrow_mut().get_mut(&self.1) {
            (*open, *ended) = (*open - 1, *ended + 1);
        }
    }
}

// What the rest of the protocol asks.
impl<V: Verbs> Ddss<V> {
    fn parties(&self) -> Option<std::cell::Ref<'_, Parties>> {
        self.0.following.as_ref().map(|following| following.parties.borrow())
    }

    /// Whether some incarnation of a node has died.
    pub(super) fn has_ever_died(&self, node: Rank) -> bool {
        self.parties().is_some_and(|parties| parties.has_ever_died(node))
    }

    /// Whether a node has died and is not back.
    fn is_dead(&self, node: Rank) -> bool {
        self.parties().is_some_and(|parties| parties.is_dead(node))
    }

    /// The nodes that have not died, or are back.
    pub(super) fn nodes(&self) -> Vec<Rank> {
        (0..self.0.mesh.size()).map(Rank::from_index).filter(|node| !self.is_dead(*node)).collect()
    }

    /// Those of them that may have a part in this node's segments.
    pub(super) fn users(&self) -> Vec<Rank> {
        self.parties().map_or_else(|| self.nodes(), |parties| parties.all_alive())
    }

    /// Whom of a node something is said to now: the incarnation that has a part here, or else the one that is connected.
    pub(super) fn party(&self, rank: Rank) -> Party {
        let met = || self.0.mesh.incarnation_of(rank);
        let known =
            self.parties().map(|parties| parties.alive(rank).map(|party| party.incarnation).or_else(met));
        Party { rank, incarnation: known.flatten().unwrap_or_default() }
    }

    /// Who is asked about a segment.
    pub(super) fn home_of(&self, open: &Open<V>) -> Party {
        let Party { rank, incarnation } = open.home;
        Party { rank, incarnation: if self.asks_first() { incarnation } else { 0 } }
    }

    /// The incarnation of a node that the view has, if it is the one with which this node is connected, or none is.
    fn member(&self, node: Rank) -> Option<Party> {
        let member = self.parties()?.member(node)?;
        let met = self.0.mesh.incarnation_of(node);
        met.is_none_or(|met| met == member.incarnation).then_some(member)
    }

    /// Whether a node may be asked to keep a segment that it need not keep: all may where nobody agrees on who is alive.
    pub(super) fn may_be_a_home(&self, node: Rank) -> bool {
        !self.asks_first() || self.member(node).is_some()
    }

    /// Whether what a node says now is said by an incarnation that has died: another one has connected since, or a view has left it out.
    pub(super) fn is_of_the_dead(&self, from: Rank) -> bool {
        let (mesh, Some(parties)) = (&self.0.mesh, self.parties()) else { return false };
        let met = mesh.incarnation_of(from).map(|incarnation| Party { rank: from, incarnation });
        !parties.is_up_to(from, mesh.resets_of(from)) || met.is_some_and(|met| parties.has_died(met))
    }

    /// Whether what is meant for one incarnation of a node would be said to it now.
    pub(super) fn may_be_told(&self, to: Party) -> bool {
        let met = self.0.mesh.incarnation_of(to.rank);
        let has_died = self.parties().is_some_and(|parties| parties.has_died(to));
        !has_died && met.is_none_or(|met| met == to.incarnation)
    }

    /// Waits for a member that has not connected yet, where the incarnation before it has: what is said now would be said to that one. (If it
    /// is a later one that has, this node hears so, or the next view says it.) Whoever is waited for is watched, and so connects.
    pub(super) async fn until_it_has_connected(&self, to: Party) {
        let Some(following) = self.0.following.as_ref().filter(|_| to.incarnation != 0) else { return };
        let mesh = &self.0.mesh;
        let is_away =
            || mesh.incarnation_of(to.rank).map_or(mesh.is_gone(to.rank), |met| met != to.incarnation);
        while is_away() && !following.parties.borrow().has_died(to) && !mesh.is_closed() {
            self.news(following).await;
        }
    }

    /// Waits until something may have changed of who is alive, or of who is connected.
    async fn news(&self, following: &Following<V>) {
        let (mut connects, mut changes) = (pin!(self.0.mesh.resumed()), pin!(following.changed.changed()));
        poll_fn(|cx| match connects.as_mut().poll(cx) {
            Poll::Pending => changes.as_mut().poll(cx),
            ready => ready,
        })
        .await;
    }

    /// Whether this node has no part in the segments any more, until it is started anew: the others go on without it, or its view was
    /// lost, so that nobody tells it who dies. All its calls end with [`DdssError::Out`].
    pub fn is_out(&self) -> bool {
        self.0.following.as_ref().is_some_and(|following| following.out.get())
    }

    /// Why an answer does not come any more.
    pub(super) async fn no_answer(&self, of: Party) -> DdssError {
        match self.check_party(of) {
            Ok(()) => self.who_is_out(of, NotExecuted::PeerGone(of.rank)).await,
            Err(why) => why,
        }
    }

    /// An error if an incarnation of a node has died, or the others go on without this node.
    pub(super) fn check_party(&self, party: Party) -> Result<(), DdssError> {
        match &self.0.following {
            Some(following) if following.out.get() => Err(DdssError::Out),
            Some(following) if following.parties.borrow().has_died(party) => Err(DdssError::Gone(party.rank)),
            _ => Ok(()),
        }
    }

    /// The same of the home of a segment. One that has a part in it was connected with that incarnation of the home.
    pub(super) fn check(&self, open: &Open<V>) -> Result<(), DdssError> {
        let Party { rank, incarnation } = open.home;
        self.check_party(open.home)?;
        let met = self.0.mesh.incarnation_of(rank).filter(|_| self.asks_first() && open.has_part());
        if met.is_some_and(|met| met != incarnation) { Err(DdssError::Gone(rank)) } else { Ok(()) }
    }

    /// Whom to ask about a segment that was made by this incarnation of its home: the one that is a member.
    pub(super) async fn home_to_ask(&self, made_by: Party) -> Result<Party, DdssError> {
        self.check_party(made_by)?;
        if let Some(following) = &self.0.following
            && self.is_dead(made_by.rank)
        {
            // The key came to know sooner than this node that its home is back.
            let lives = || self.member(made_by.rank).is_some() || self.check_party(made_by).is_err();
            let _ = self.for_a_lease(following.changed.until(lives)).await;
        }
        self.until_it_is_a_member(made_by.rank).await
    }

    /// Waits until the view has the node that is to be asked: before, nobody tells this one that it died. Without a view that takes as long as
    /// it takes. In one, the node may have died before this one came, so that no view will tell.
    pub(super) async fn until_it_is_a_member(&self, rank: Rank) -> Result<Party, DdssError> {
        if rank.index() >= self.0.mesh.size() as usize {
            return Err(DdssError::NoSuchNode(rank));
        }
        let Some(following) = &self.0.following else { return Ok(Party { rank, incarnation: 0 }) };
        let ends = || following.out.get() || self.is_dead(rank);
        self.until_there_is_a_view().await;
        let comes = following.changed.until(|| self.member(rank).is_some() || ends());
        let came = self.for_a_lease(comes).await;
        if following.out.get() {
            return Err(DdssError::Out);
        }
        match self.member(rank) {
            Some(member) => Ok(member),
            None if self.is_dead(rank) => Err(DdssError::Gone(rank)),
            None if came => Err(DdssError::Gone(rank)),
            None => Err(DdssError::Absent(rank)),
        }
    }

    /// Waits for the first view, where there are views, or until this node is out.
    pub(super) async fn until_there_is_a_view(&self) {
        if let Some(following) = &self.0.following {
            following.changed.until(|| following.parties.borrow().has_view() || following.out.get()).await;
        }
    }

    /// Waits for something for as long as a lease runs, or as it takes where there are none. Says whether it has come.
    async fn for_a_lease(&self, comes: impl Future<Output = ()>) -> bool {
        let following = self.0.following.as_ref();
        match following.and_then(|following| following.members.as_ref().map(|_| following.longest_lease())) {
            None => comes.await,
            Some(lease) => return self.0.rt.deadline(self.0.rt.now() + lease, comes).await.is_ok(),
        }
        true
    }

    /// Keeps what a node says until the view has it. That it has no part any more counts at once, and so does what it has said before, but for
    /// its calls, which it does not wait for. This node, once it hears of no view, goes on as a home for whoever asks. (Where its view is lost
    /// another one comes, and says which incarnations have died.)
    pub(super) fn keeps(&self, from: Rank, said: Message) -> bool {
        let Some(following) = &self.0.following else { return false };
        if matches!(said, Message::Parted { .. }) {
            let early = following.early.borrow_mut().remove(&from).unwrap_or_default();
            early.into_iter().filter(|said| !said.is_call()).for_each(|said| self.heed(from, said));
            return false;
        }
        if following.hears_of_none.get() || self.member(from).is_some() {
            return false;
        }
        following.early.borrow_mut().entry(from).or_default().push(said);
        true
    }

    /// Waits for something that may not come any more once the others go on without this node.
    pub(super) async fn unless_out<T>(&self, comes: impl Future<Output = T>) -> Result<T, DdssError> {
        let Some(following) = &self.0.following else { return Ok(comes.await) };
        let (mut comes, mut out) = (pin!(comes), pin!(following.changed.until(|| following.out.get())));
        poll_fn(|cx| match out.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(DdssError::Out)),
            Poll::Pending => comes.as_mut().poll(cx).map(Ok),
        })
        .await
    }

    /// The transport has nothing to do with a node any more: that one is out, or this one is. The transport knows before the membership has
    /// said which, and it may take long to hear that; meanwhile the membership is asked whether that node lives.
    pub(super) async fn who_is_out(&self, of: Party, why: NotExecuted) -> DdssError {
        let Some(following) = &self.0.following else { return DdssError::Gone(of.rank) };
        let check = || match self.check_party(of) {
            Ok(()) if !self.may_be_told(of) => Err(DdssError::Gone(of.rank)),
            checked => checked,
        };
        let _watched = self.posting(of.rank);
        while check().is_ok() && !self.0.mesh.is_closed() {
            self.news(following).await;
        }
        check().err().unwrap_or(DdssError::NotExecuted(why))
    }

    /// Whether a segment's home is asked before anything is posted to it: it knows who died.
    pub(super) fn asks_first(&self) -> bool {
        self.0.following.is_some()
    }

    /// As long as it is there, something of this node is on its way to a home.
    pub(super) fn posting(&self, home: Rank) -> Option<Posting<'_, V>> {
        let following = self.0.following.as_ref()?;
        let mut posts = following.posts.borrow_mut();
        posts.entry(home).or_default().0 += 1;
        drop(posts);
        self.waits();
        Some(Posting(following, home))
    }

    /// Something is waited for.
    pub(super) fn waits(&self) {
        if let Some(following) = &self.0.following {
            following.waits.notify();
        }
    }

    /// The lease under which a lock is held, once it runs; none where nobody agrees on who is alive.
    pub(super) async fn leased(&self) -> Result<Option<Hold<V>>, DdssError> {
        let Some(Following { members: Some(members), .. }) = &self.0.following else { return Ok(None) };
        let hold = members.hold();
        if members.leased().await { Ok(Some(hold)) } else { Err(DdssError::Out) }
    }

    /// Whether what was granted to this node counts.
    pub(super) fn has_lease(&self) -> bool {
        let following = self.0.following.as_ref();
        following.is_none_or(|following| {
            !following.out.get() && following.members.as_ref().is_none_or(Members::has_lease)
        })
    }
}

// What happens.
impl<V: Verbs> Ddss<V> {
    /// Takes in who lives, view after view.
    pub(super) async fn follow(self, mut changes: Mailbox<Change>) {
        while let Ok(change) = changes.recv().await {
            match change {
                Change::Begins { view, left } => {
                    let Some(following) = &self.0.following else { return };
                    let died = following.parties.borrow_mut().begins(view, &left);
                    for party in died {
                        let is_told = left.iter().any(|member| member.rank == party.rank);
                        // Of one that died between two views nobody has said when its lease was renewed last: before now.
                        let over =
                            if is_told { Nanos::ZERO } else { self.0.rt.now() + following.longest_lease() };
                        self.is_no_more(party, over);
                    }
                    following.changed.notify();
                    self.hear_early();
                }
                Change::Lost => self.ends(),
                Change::Out => {
                    let Some(following) = &self.0.following else { return };
                    following.hears_of_none.set(true);
                    self.ends();
                    self.hear_early();
                    self.0.home.borrow_mut().forget_all_who_wait();
                }
            }
        }
    }

    /// The others go on without this node: all its calls end.
    pub(super) fn ends(&self) {
        let Some(following) = &self.0.following else { return };
        if !following.out.replace(true) {
            following.changed.notify();
            self.0.asked.borrow_mut().clear();
            self.0.open.borrow().values().for_each(|Segment(open)| open.wake_all());
            self.part_from_all();
        }
    }

    /// Heeds what was said too early, if it is time now.
    fn hear_early(&self) {
        let Some(following) = &self.0.following else { return };
        let early = following.early.take();
        for (from, said) in
            early.into_iter().flat_map(|(from, said)| said.into_iter().map(move |said| (from, said)))
        {
            self.hear(from, said);
        }
    }

    /// Takes in who has refused to have a connection with this node: what it was asked it does not answer.
    pub(super) async fn hear_refusals(self, mut refusals: Mailbox<Rank>) {
        while let Ok(by) = refusals.recv().await {
            self.0.asked.borrow_mut().retain(|_, (of, _)| of.rank != by);
            self.owes_nothing(by);
        }
    }

    /// At the home: of a node that refuses this one nothing is under way here.
    fn owes_nothing(&self, node: Rank) {
        let Some(following) = &self.0.following else { return };
        self.drains_nothing(node);
        self.bury(node, self.0.rt.now() + following.longest_lease());
    }

    /// A node has connected in another incarnation than the one that this node was connected with. (What was said before that to this node
    /// is heard before this.)
    pub(super) fn begins_anew(&self, node: Rank) {
        let Some(following) = &self.0.following else { return };
        following.early.borrow_mut().remove(&node);
        let died = following.parties.borrow_mut().begins_anew(node, self.0.mesh.incarnation_of(node));
        // When its lease was renewed last is not known: before now.
        let lease_over = self.0.rt.now() + following.longest_lease();
        match died {
            Some(party) => self.is_no_more(party, lease_over),
            None => self.bury(node, lease_over),
        }
        following.changed.notify();
    }

    fn is_no_more(&self, party: Party, lease_over: Nanos) {
        let Some(following) = &self.0.following else { return };
        following.changed.notify();
        self.0.asked.borrow_mut().retain(|_, (of, _)| *of != party);
        self.0.going.borrow_mut().end_with(party);
        // Calls that have one of them end by name; no other comes to have it. Who opens the name of one that was used is told, however it was
        // opened before.
        self.0.open.borrow_mut().retain(|_, Segment(open)| {
            let died = open.home == party;
            if died && open.has_part() && open.name.is_given() {
                self.0.named.borrow_mut().entry(open.name).or_insert_with(|| open.key());
            }
            if died {
                open.wake_all();
            }
            !died
        });
        self.drains_nothing(party.rank);
        self.bury(party.rank, lease_over);
    }

    /// At the home: no segment that is being released waits for that node.
    fn drains_nothing(&self, node: Rank) {
        let draining = self.0.home.borrow().drained_by(node);
        for (name, at) in draining {
            self.on_drained(node, name, at);
        }
    }

    /// At the home: what a node that died had comes to an end, once its lease has. Its next incarnation has no part before that.
    fn bury(&self, node: Rank, lease_over: Nanos) {
        let left = self.0.home.borrow_mut().parts_from_all(node);
        if left.is_empty() {
            return;
        }
        let ddss = self.clone();
        drop(self.0.rt.spawn(async move {
            ddss.until_leases_are_over(lease_over).await;
            for (name, at) in left {
                ddss.let_go(node, name, at).await;
            }
        }));
    }

    async fn until_leases_are_over(&self, lease_over: Nanos) {
        let Some(Following { members, .. }) = &self.0.following else { return };
        let grants_from = || members.as_ref().map_or(Nanos::ZERO, Members::grants_from);
        let over = || grants_from().max(lease_over);
        while self.0.rt.now() < over() {
            self.0.rt.sleep(over() - self.0.rt.now()).await;
        }
    }

    /// At the home: a node has neither lock nor turn any more.
    async fn let_go(&self, node: Rank, name: Name, at: Place) {
        let freed = self.turn_header(name, at, None, |header| header.is_held_by(node).then(|| header.free()));
        // One that is being released has no line any more.
        let Ok(Turned { is, .. }) = freed.await else { return };
        let step = self.0.home.borrow_mut().on_gone(name, at, node, is.is_marked());
        self.step(name, at, step, is.word());
        let answers = self.0.home.borrow_mut().has_parted(name, at, node);
        answers.into_iter().for_each(|answer| self.answer_later(node, name, answer));
    }

    /// At the home: a node that lives has no part in a segment any more. What it had under the lock's lease has ended by its own word.
    pub(super) fn on_parted(&self, from: Rank, name: Name, at: Place) {
        if self.0.home.borrow_mut().parts_from(from, name, at) {
            let ddss = self.clone();
            drop(self.0.rt.spawn(async move { ddss.let_go(from, name, at).await }));
        }
    }

    /// Has no part any more in the segments that are open here, and says so to their homes.
    fn part_from_all(&self) {
        let open = self.0.open.borrow();
        for segment in open.values().filter(|segment| segment.0.has_part()) {
            let (ddss, segment) = (self.clone(), segment.clone());
            drop(self.0.rt.spawn(async move { drop(ddss.part(segment).await) }));
        }
    }

    /// Nothing is posted to the segment any more: says so once what was posted has ended.
    async fn part(&self, Segment(open): Segment<V>) -> Result<(), DdssError> {
        open.is_there()?;
        self.all_ended(open.home, open.header()).await?;
        self.say(self.home_of(&open), Message::Parted { name: open.name, at: open.key().at }).await
    }

    /// Has the nodes asked whether they live for which this one waits and from which nothing has come for a while.
    pub(super) async fn watch(self) {
        let Some(following) = &self.0.following else { return };
        let Some(members) = &following.members else { return };
        let mut watches: BTreeMap<Rank, Watch<V>> = BTreeMap::new();
        let mut before = BTreeMap::new();
        while !self.0.mesh.is_closed() {
            if before.is_empty() {
                following.waits.until(|| self.0.mesh.is_closed() || !self.awaited().is_empty()).await;
            }
            let now = self.awaited();
            watches.retain(|node, _| now.get(node).is_some_and(|ended| before.get(node) == Some(ended)));
            for (node, _) in now.iter().filter(|(node, ended)| before.get(*node) == Some(*ended)) {
                watches.entry(*node).or_insert_with(|| members.watch(*node));
            }
            before = now;
            if !before.is_empty() {
                self.0.rt.sleep(GRACE).await;
            }
        }
    }

    /// The nodes for which this one waits, and how much of each has come.
    fn awaited(&self) -> BTreeMap<Rank, u64> {
        let Some(following) = &self.0.following else { return BTreeMap::new() };
        let posts = following.posts.borrow();
        let ended = |node: &Rank| posts.get(node).map_or(0, |(_, ended)| *ended);
        let posting = posts.iter().filter(|(_, (open, _))| *open > 0).map(|(node, _)| *node);
        let asked = self.0.asked.borrow();
        let nodes =
            posting.chain(asked.values().map(|(of, _)| of.rank)).chain(self.0.home.borrow().awaited());
        let nodes = nodes.filter(|node| *node != self.0.mesh.me() && !self.is_dead(*node));
        nodes.map(|node| (node, ended(&node))).collect()
    }
}
