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
//! A node that died does not come back to the segments: it would take its own slots for free ones. Homes refuse it, and it asks them
//! before it posts anything ([`DdssError::Out`]). A home that it was connected with knows by the new connection that it died: no view
//! need say so, and none does where a majority died and the others begin anew.
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
use super::line::Turned;
use super::messages::Message;
use super::segment::Segment;
use super::service::Ddss;
use crate::members::{Change, Hold, Member, Members, View, Watch};
use crate::rt::sync::{Mailbox, Signal};
use crate::transport::{NotExecuted, Rank};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use weft_verbs::{Nanos, RemoteSlice, Verbs};

/// How long something is waited for before it is asked whether the node lives for which it waits.
const GRACE: Nanos = Nanos::from_millis(2);

/// What a node keeps of the membership.
pub(super) struct Following<V: Verbs> {
    /// Who says when leases run out, and asks whether the others live; nobody where views come from elsewhere.
    members: Option<Members<V>>,
    /// The last view that has begun here.
    view: RefCell<Option<View>>,
    /// The nodes that were in a view here: no other one can have opened a segment of this node.
    met: RefCell<BTreeSet<Rank>>,
    /// What nodes have said that no view here has yet.
    early: RefCell<BTreeMap<Rank, Vec<Message>>>,
    gone: RefCell<BTreeSet<Rank>>,
    /// The others go on without this node.
    out: Cell<bool>,
    /// Who lives has changed, for this node.
    changed: Signal,
    /// Posts under way, by home, and how many have ended.
    posts: RefCell<BTreeMap<Rank, (u32, u64)>>,
    /// Something is waited for that was not.
    waits: Signal,
}

impl<V: Verbs> Following<V> {
    pub fn new(members: Option<Members<V>>) -> Following<V> {
        Following {
            members,
            view: RefCell::default(),
            met: RefCell::default(),
            early: RefCell::default(),
            gone: RefCell::default(),
            out: Cell::new(false),
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
    /// Whether a node has died.
    pub(super) fn is_gone(&self, node: Rank) -> bool {
        self.0.following.as_ref().is_some_and(|following| following.gone.borrow().contains(&node))
    }

    /// The nodes that have not died.
    pub(super) fn nodes(&self) -> Vec<Rank> {
        (0..self.0.mesh.size()).map(Rank::from_index).filter(|node| !self.is_gone(*node)).collect()
    }

    /// Those of them that may have a part in this node's segments.
    pub(super) fn parties(&self) -> Vec<Rank> {
        let mut nodes = self.nodes();
        if let Some(following) = &self.0.following {
            let met = following.met.borrow();
            nodes.retain(|node| met.contains(node));
        }
        nodes
    }

    /// Whether the view has a node, in the incarnation with which this one is connected.
    fn is_member(&self, node: Rank) -> bool {
        let view = self.0.following.as_ref().map(|following| following.view.borrow());
        let member = view.as_ref().and_then(|view| view.as_ref()?.of(node));
        let met = self.0.mesh.incarnation_of(node);
        member.is_some_and(|member| met.is_none_or(|met| met == member.incarnation))
    }

    /// Whether this node has no part in the segments any more.
    pub(super) fn is_out(&self) -> bool {
        self.0.following.as_ref().is_some_and(|following| following.out.get())
    }

    /// Why an answer of a node does not come any more.
    pub(super) async fn no_answer(&self, of: Rank) -> DdssError {
        match self.check(of) {
            Ok(()) => self.who_is_out(of, NotExecuted::PeerGone(of)).await,
            Err(why) => why,
        }
    }

    /// An error if a node has died, or the others go on without this one.
    pub(super) fn check(&self, node: Rank) -> Result<(), DdssError> {
        match &self.0.following {
            Some(following) if following.out.get() => Err(DdssError::Out),
            Some(following) if following.gone.borrow().contains(&node) => Err(DdssError::Gone(node)),
            _ => Ok(()),
        }
    }

    /// Waits until the view has the node that is to be asked: before, nobody tells this one that it died. Without a view that takes as long as
    /// it takes. In one, the node may have died before this one came, so that no view will tell.
    pub(super) async fn until_it_is_a_member(&self, asked: Rank) -> Result<(), DdssError> {
        let Some(following) = &self.0.following else { return Ok(()) };
        let rt = &self.0.rt;
        let ends = || self.check(asked).is_err();
        following.changed.until(|| following.view.borrow().is_some() || ends()).await;
        let comes = following.changed.until(|| self.is_member(asked) || ends());
        let came = rt.deadline(rt.now() + following.longest_lease(), comes).await;
        self.check(asked)?;
        came.map_err(|_| DdssError::Absent(asked))
    }

    /// Keeps what a node says until the view has it. What a node says that has no part any more counts at once; and this node, once it has
    /// none, goes on as a home for whoever asks.
    pub(super) fn keeps(&self, from: Rank, said: Message) -> bool {
        let Some(following) = &self.0.following else { return false };
        let counts = matches!(said, Message::Refused | Message::Parted { .. });
        if counts || following.out.get() || self.is_member(from) {
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
    /// said which; if it does not say, because it does not believe who refuses this node, the call just fails.
    pub(super) async fn who_is_out(&self, node: Rank, why: NotExecuted) -> DdssError {
        let Some(following) = &self.0.following else { return DdssError::Gone(node) };
        let told = following.changed.until(|| self.check(node).is_err());
        let _ = self.0.rt.deadline(self.0.rt.now() + GRACE, told).await;
        self.check(node).err().unwrap_or(DdssError::NotExecuted(why))
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
                    if let Some(following) = &self.0.following {
                        following.met.borrow_mut().extend(view.members.iter().map(|member| member.rank));
                        following.view.replace(Some(view.clone()));
                    }
                    left.iter().for_each(|member| self.dies(member.rank));
                    let is_another = |member: &&Member| {
                        self.0.mesh.incarnation_of(member.rank).is_some_and(|met| met != member.incarnation)
                    };
                    view.members.iter().filter(is_another).for_each(|member| self.begins_anew(member.rank));
                    if let Some(following) = &self.0.following {
                        following.changed.notify();
                    }
                    self.hear_early();
                }
                Change::Lost => self.ends(),
                Change::Out => {
                    self.ends();
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
            self.part_from(|_| true);
            self.hear_early();
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

    /// A home, or one that was to drain a segment of this node, knows that this node died before. It has nothing under way here: its
    /// calls to this node end with [`DdssError::Gone`], and it takes no turn that it is granted.
    pub(super) fn on_refused(&self, by: Rank) {
        self.owes_nothing(by);
        self.ends();
    }

    /// Takes in who has refused to have a connection with this node: what it was asked it does not answer.
    pub(super) async fn hear_refusals(self, mut refusals: Mailbox<Rank>) {
        while let Ok(by) = refusals.recv().await {
            self.0.asked.borrow_mut().retain(|_, (of, _)| *of != by);
            self.owes_nothing(by);
        }
    }

    /// At the home: of a node that refuses this one nothing is under way here.
    fn owes_nothing(&self, node: Rank) {
        let Some(following) = &self.0.following else { return };
        self.drains_nothing(node);
        self.bury(node, self.0.rt.now() + following.longest_lease());
    }

    fn dies(&self, node: Rank) {
        let is_news = !self.is_gone(node);
        self.is_no_more(node, Nanos::ZERO);
        if is_news {
            // If this node was never connected with the one that died, it has opened segments of the next incarnation, which others
            // use who know of no other.
            self.part_from(|home| home == node);
        }
    }

    /// Another incarnation of a node has connected, or is in the view: the one that this node was connected with is no more.
    pub(super) fn begins_anew(&self, node: Rank) {
        let Some(following) = &self.0.following else { return };
        following.early.borrow_mut().remove(&node);
        if !self.is_gone(node) {
            // When its lease was renewed last is not known: before now.
            self.is_no_more(node, self.0.rt.now() + following.longest_lease());
        }
    }

    fn is_no_more(&self, node: Rank, lease_over: Nanos) {
        let Some(following) = &self.0.following else { return };
        following.gone.borrow_mut().insert(node);
        following.changed.notify();
        self.0.asked.borrow_mut().retain(|_, (of, _)| *of != node);
        self.drains_nothing(node);
        self.bury(node, lease_over);
    }

    /// At the home: no segment that is being released waits for that node.
    fn drains_nothing(&self, node: Rank) {
        let draining = self.0.home.borrow().drained_by(node);
        for name in draining {
            self.on_drained(node, name);
        }
    }

    /// At the home: what a node that died had comes to an end, once its lease has.
    fn bury(&self, node: Rank, lease_over: Nanos) {
        let ddss = self.clone();
        drop(self.0.rt.spawn(async move { ddss.bury_in_time(node, lease_over).await }));
    }

    async fn bury_in_time(&self, node: Rank, lease_over: Nanos) {
        let Some(Following { members, .. }) = &self.0.following else { return };
        let grants_from = || members.as_ref().map_or(Nanos::ZERO, Members::grants_from);
        let over = || grants_from().max(lease_over);
        while self.0.rt.now() < over() {
            self.0.rt.sleep(over() - self.0.rt.now()).await;
        }
        let kept = self.0.home.borrow().places();
        for (name, at) in kept {
            self.let_go(node, name, at).await;
        }
    }

    /// At the home: a node has neither lock nor turn any more.
    async fn let_go(&self, node: Rank, name: Name, at: RemoteSlice) {
        let freed = self.turn_header(name, at, None, |header| header.is_held_by(node).then(|| header.free()));
        // One that is being released has no line any more.
        let Ok(Turned { is, .. }) = freed.await else { return };
        let step = self.0.home.borrow_mut().on_gone(name, node);
        self.step(name, step, is.word());
    }

    /// At the home: a node that lives has no part in a segment any more. What it had under the lock's lease has ended by its own word.
    pub(super) fn on_parted(&self, from: Rank, name: Name) {
        let at = self.0.home.borrow().places().into_iter().find(|(kept, _)| *kept == name);
        if let Some((_, at)) = at {
            let ddss = self.clone();
            drop(self.0.rt.spawn(async move { ddss.let_go(from, name, at).await }));
        }
    }

    /// Has no part any more in the segments that are open here of some homes, and says so to them.
    fn part_from(&self, of: impl Fn(Rank) -> bool) {
        let open = self.0.open.borrow();
        for segment in open.values().filter(|segment| of(segment.0.home) && segment.0.confirmed.get()) {
            let (ddss, segment) = (self.clone(), segment.clone());
            drop(self.0.rt.spawn(async move { drop(ddss.part(segment).await) }));
        }
    }

    /// Nothing is posted to the segment any more: says so once what was posted has ended.
    async fn part(&self, Segment(open): Segment<V>) -> Result<(), DdssError> {
        open.is_there()?;
        self.all_ended(open.home, open.header()).await?;
        self.tell(open.home, Message::Parted { name: open.name }).await
    }

    /// Has the nodes asked whether they live for which this one waits and from which nothing has come for a while.
    pub(super) async fn watch(self) {
        let Some(following) = &self.0.following else { return };
        let Some(members) = &following.members else { return };
        let mut watches: BTreeMap<Rank, Watch<V>> = BTreeMap::new();
        let mut before = BTreeMap::new();
        loop {
            if before.is_empty() {
                following.waits.until(|| !self.awaited().is_empty()).await;
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
        let nodes = posting.chain(asked.values().map(|(of, _)| *of)).chain(self.0.home.borrow().awaited());
        let nodes = nodes.filter(|node| *node != self.0.mesh.me() && !following.gone.borrow().contains(node));
        nodes.map(|node| (node, ended(&node))).collect()
    }

    /// Refuses a node that has died and begun anew.
    pub(super) fn refuse(&self, node: Rank) {
        self.send_later(node, Message::Refused);
    }
}
