//! Allocation, keys, and names for them.

use super::key::{Key, Placement};
use super::messages::Message;
use super::parties::Party;
use super::service::{Asked, Ddss};
use super::{DdssError, Holdings, Name, Segment, Spec};
use crate::transport::Rank;
use weft_verbs::Verbs;

impl<V: Verbs> Ddss<V> {
    /// Allocates a segment, all zero, and returns its key (ddss.txt, 5.2 and 5.9). Waits for the home as long as it takes. Round robin
    /// passes over nodes that are not among the members. If the call is dropped, a segment that was made for it is released.
    ///
    /// # Errors
    ///
    /// The segment cannot be, no node has that rank, or its home has no memory for it.
    pub async fn allocate(&self, spec: Spec, placement: Placement) -> Result<Key, DdssError> {
        spec.check(self.0.mesh.size())?;
        match placement {
            Placement::Local => self.allocate_on(self.0.mesh.me(), spec).await,
            Placement::On(rank) => self.allocate_on(rank, spec).await,
            Placement::RoundRobin => self.allocate_in_turn(spec).await,
        }
    }

    /// Allocates on the next node in turn, or on the one behind it where that goes meanwhile.
    async fn allocate_in_turn(&self, spec: Spec) -> Result<Key, DdssError> {
        // Who is there is known from the first view on.
        self.until_there_is_a_view().await;
        for _ in 1..self.0.mesh.size() {
            match self.allocate_on(self.next_home(), spec).await {
                Err(DdssError::Gone(_) | DdssError::Absent(_)) => {}
                done => return done,
            }
        }
        self.allocate_on(self.next_home(), spec).await
    }

    async fn allocate_on(&self, home: Rank, spec: Spec) -> Result<Key, DdssError> {
        let home = self.until_it_is_a_member(home).await?;
        let request = self.ask(home, |id| Message::Allocate { id, spec }).await?;
        match Asked::new(self, request).answer().await? {
            Message::Allocated { key: Some(key), .. } => Ok(key),
            _ => Err(DdssError::Memory),
        }
    }

    /// The node on which round robin allocates next: the next one that the view has. Without a view it is the next one.
    fn next_home(&self) -> Rank {
        let (last, nodes) = (self.0.next_home.get(), self.0.mesh.size());
        let mut in_turn = (1..=nodes).map(|steps| (last + steps) % nodes);
        let next = in_turn.find(|next| self.may_be_a_home(Rank::from_index(*next)));
        let next = next.unwrap_or((last + 1) % nodes);
        self.0.next_home.set(next);
        Rank::from_index(next)
    }

    /// Opens the segment of a key.
    ///
    /// # Errors
    ///
    /// The key names a node or a segment that cannot be in this cluster, or the segment is being released. Of one that was
    /// released before, the first call finds that out.
    pub fn attach(&self, key: Key) -> Result<Segment<V>, DdssError> {
        let Key { home, incarnation, spec, at, .. } = key;
        let nodes = self.0.mesh.size();
        let fits = spec.is_possible(nodes) && spec.footprint(nodes) == u64::from(at.memory.len);
        if home.index() >= nodes as usize || !fits {
            return Err(DdssError::Key);
        }
        if self.is_leaving(key) {
            return Err(DdssError::Released);
        }
        self.check_party(Party { rank: home, incarnation })?;
        let segment = self.opened(key);
        if segment.key() == key { Ok(segment) } else { Err(DdssError::Key) }
    }

    /// Gives a key a name, by which every node can look it up. A name that stands for another key is not given again.
    ///
    /// # Errors
    ///
    /// The name stands for another segment. [`DdssError::Released`] if one that was opened by it is being released at this moment, or if the
    /// name's home kept the key's segment and that has been released.
    pub async fn bind(&self, name: Name, key: Key) -> Result<(), DdssError> {
        self.bind_instead(name, Some(key), None).await
    }

    /// Has a name stand for another key, or for none, if it stands for this one: for a name whose segment died with its home, or was bound
    /// to it when it had been released.
    ///
    /// # Errors
    ///
    /// As of [`Ddss::bind`]; the name of a segment that was opened by it is that segment's until it is gone.
    pub async fn bind_instead(
        &self,
        name: Name,
        key: Option<Key>,
        instead: Option<Key>,
    ) -> Result<(), DdssError> {
        let keeper = name.home(self.0.mesh.size());
        match self.request(keeper, |id| Message::Bind { id, name, key, instead }).await? {
            Message::Key { key: found, .. } if found == key => Ok(()),
            Message::Key { key: Some(Key { spec: Spec { size, model }, .. }), .. } => {
                Err(DdssError::Otherwise { size, model })
            }
            Message::Key { key: None, .. } => Err(DdssError::Released),
            _ => Err(DdssError::Closed),
        }
    }

    /// The key that a name stands for: one that was bound, or that of a segment which was opened by its name.
    ///
    /// # Errors
    ///
    /// The node has been shut down.
    pub async fn lookup(&self, name: Name) -> Result<Option<Key>, DdssError> {
        let keeper = name.home(self.0.mesh.size());
        match self.request(keeper, |id| Message::Find { id, name }).await? {
            Message::Key { key, .. } => Ok(key),
            _ => Err(DdssError::Closed),
        }
    }

    /// The segments that this node keeps, and how many bytes of its memory each takes.
    pub fn kept(&self) -> Vec<(Key, u64)> {
        let nodes = self.0.mesh.size();
        let home = self.0.home.borrow();
        home.keys().map(|key| (key, key.spec.footprint(nodes))).collect()
    }

    /// What a name that this node keeps stands for here, as [`Ddss::lookup`] finds it.
    pub fn kept_by(&self, name: Name) -> Option<Key> {
        self.0.home.borrow().find(name)
    }

    /// What memory a node holds for segments, and how it is used.
    ///
    /// # Errors
    ///
    /// No node has that rank, or this node has been shut down.
    pub async fn holdings(&self, node: Rank) -> Result<Holdings, DdssError> {
        match self.request(node, |id| Message::Count { id }).await? {
            Message::Holds { holdings, .. } => Ok(holdings),
            _ => Err(DdssError::Closed),
        }
    }
}
