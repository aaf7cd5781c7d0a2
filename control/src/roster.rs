//! The coordinator's decisions: who is in, who is refused, who has left or is lost, and who is told what.
//!
//! A state machine without I/O or clock. Connections are numbers, time is a span since the beginning, and what is to be
//! done comes out as [`Action`]s. Sockets and tasks are in [`crate::coordinator`].
//!
//! The rank of a node belongs to one process at a time. A process that calls while another one holds the rank is not
//! refused at once: a machine that was killed and booted again calls before its old connection counts as dead. The holder
//! is probed; if it answers within [`crate::timing::Timing::probe`], the rank was given twice, and the caller is refused.

use crate::message::{
    BLOB, Counts, Entry, Join, Member, NOT_COME, Presence, REPORT, Report, Status, TEXT, encode,
};
use crate::refusal::Refusal;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// A connection, by a number that is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// What a cluster is.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Its name, so that nodes of another one are noticed.
    pub cluster: String,
    /// The version of the program, which must be the same everywhere.
    pub program: String,
    /// The digest of the scenario or configuration, which must be the same everywhere; may be empty.
    pub scenario: String,
    /// How many ranks there are.
    pub nodes: u32,
}

/// What a coordinator is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell a node that it is in.
    Welcome(ConnId),
    /// Refuse a node, and close.
    Refuse(ConnId, Refusal),
    /// Ask a node whether it is there.
    Probe(ConnId),
    /// Tell several nodes the same changes.
    Tell(Vec<ConnId>, Vec<Entry>),
    /// Say farewell to a node, and close.
    Farewell(ConnId),
    /// Close without a word.
    Drop(ConnId),
    /// Tell the operator and those above.
    Note(Note),
}

/// What an operator sees of a cluster, and those above act upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A node is in.
    Joined {
        /// Which one.
        rank: u32,
        /// Which process.
        incarnation: u64,
        /// Where it is.
        address: IpAddr,
        /// How many nodes are in with it.
        present: u32,
        /// Of how many.
        nodes: u32,
    },
    /// A node's connection broke, and the same process has made another one.
    Again {
        /// Which one.
        rank: u32,
    },
    /// All ranks are there for the first time.
    Met {
        /// How many.
        nodes: u32,
    },
    /// A node left.
    Left {
        /// Which one.
        rank: u32,
    },
    /// A node went without saying so.
    Lost {
        /// Which one.
        rank: u32,
        /// How that was noticed.
        why: String,
    },
    /// A node was refused.
    Refused {
        /// Where it called from.
        from: IpAddr,
        /// Why.
        why: Refusal,
    },
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Note::Joined { rank, address, present, nodes, .. } => {
                write!(f, "node {rank} joined from {address}: {present} of {nodes} are here")
            }
            Note::Again { rank } => write!(f, "node {rank} is connected again"),
            Note::Met { nodes } => write!(f, "all {nodes} nodes have met"),
            Note::Left { rank } => write!(f, "node {rank} left"),
            Note::Lost { rank, why } => write!(f, "node {rank} was lost: {why}"),
            Note::Refused { from, why } => write!(f, "refused a node at {from}: {why}"),
        }
    }
}

/// A rank.
#[derive(Debug, Default)]
struct Place {
    /// What others are told, once a node has come.
    entry: Option<Entry>,
    /// The version of the roster in which the entry last changed.
    changed: u64,
    /// The node's connection, while it is there.
    conn: Option<ConnId>,
    /// The version of the roster that the node has been told.
    told: u64,
    since: Duration,
    heard: Duration,
    report: Report,
}

/// A caller that claims a rank which another process holds.
#[derive(Debug)]
struct Contest {
    caller: ConnId,
    from: IpAddr,
    join: Join,
    until: Duration,
}

/// The state machine.
#[derive(Debug)]
pub struct Roster {
    terms: Terms,
    /// See [`crate::timing::Timing`].
    probe: Duration,
    gather: Duration,
    places: Vec<Place>,
    ranks: BTreeMap<ConnId, u32>,
    /// By the rank that is claimed.
    contests: BTreeMap<u32, Contest>,
    version: u64,
    /// When the oldest change came that not all have been told.
    untold: Option<Duration>,
    present: u32,
    met: bool,
    ending: bool,
    /// What was counted.
    pub counts: Counts,
    actions: Vec<Action>,
}

impl Roster {
    /// A cluster to which nobody has come.
    pub fn new(terms: Terms, probe: Duration, gather: Duration) -> Roster {
        let places = (0..terms.nodes).map(|_| Place::default()).collect();
        Roster {
            terms,
            probe,
            gather,
            places,
            ranks: BTreeMap::new(),
            contests: BTreeMap::new(),
            version: 0,
            untold: None,
            present: 0,
            met: false,
            ending: false,
            counts: Counts::default(),
            actions: Vec::new(),
        }
    }

    /// What is to be done since the last call, in order.
    pub fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// When [`Roster::tick`] has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let untold = self.untold.map(|since| since + self.gather);
        self.contests.values().map(|contest| contest.until).chain(untold).min()
    }

    /// The connection of a node that is there.
    pub fn conn(&self, rank: u32) -> Option<ConnId> {
        self.places.get(rank as usize)?.conn
    }

    /// The node that a call goes to: the one that is named, or the first that reports the system.
    ///
    /// # Errors
    /// It is not there, or there is none.
    pub fn callee(&self, node: Option<u32>, system: &str) -> Result<(u32, ConnId), Refusal> {
        match node {
            Some(rank) if rank >= self.terms.nodes => Err(self.no_such_rank(rank)),
            Some(node) => self.conn(node).map(|conn| (node, conn)).ok_or(Refusal::NotHere { node }),
            None => {
                let runs = |place: &&Place| place.report.systems.contains_key(system);
                let conn = |(rank, place): (u32, &Place)| Some((rank, place.conn?));
                let mut here = (0..).zip(&self.places).filter(|(_, place)| runs(place)).filter_map(conn);
                here.next().ok_or_else(|| Refusal::NoSystem { system: system.to_string() })
            }
        }
    }

    /// The node that a connection is of.
    pub fn rank(&self, conn: ConnId) -> Option<u32> {
        self.ranks.get(&conn).copied()
    }

    /// A node wants to join.
    pub fn join(&mut self, now: Duration, conn: ConnId, from: IpAddr, join: Join) {
        if let Err(why) = self.may_join(&join) {
            return self.refuse(conn, from, why);
        }
        let place = &self.places[join.rank as usize];
        let (holder, entry) = match (place.conn, &place.entry) {
            (Some(holder), Some(entry)) => (holder, entry),
            _ => return self.admit(now, conn, from, join),
        };
        if entry.incarnation == join.incarnation {
            // Its old connection is dead, or its process would not have made another.
            self.ranks.remove(&holder);
            self.actions.push(Action::Drop(holder));
            self.admit(now, conn, from, join);
            // Who connects is alive: whoever has claimed its rank meanwhile is refused.
            return self.is_here(conn);
        }
        let address = entry.address;
        if self.contests.contains_key(&join.rank) {
            return self.refuse(
                conn,
                from,
                Refusal::RankTaken { rank: join.rank, holder: address.to_string() },
            );
        }
        self.actions.push(Action::Probe(holder));
        let until = now + self.probe;
        self.contests.insert(join.rank, Contest { caller: conn, from, join, until });
    }

    fn may_join(&self, join: &Join) -> Result<(), Refusal> {
        let Terms { cluster, program, scenario, nodes } = &self.terms;
        let short = |what: &str, bytes: usize, most: usize| match bytes > most {
            true => Err(Refusal::TooLong { what: what.to_string(), bytes: bytes as u64, most: most as u64 }),
            false => Ok(()),
        };
        short("the name of the cluster", join.cluster.len(), TEXT)?;
        short("the version of the program", join.program.len(), TEXT)?;
        short("the digest of the scenario", join.scenario.len(), TEXT)?;
        short("what the node says of its adapters", join.blob.len(), BLOB)?;
        let differ =
            |ours: &String, theirs: &String| (ours != theirs).then(|| (ours.clone(), theirs.clone()));
        if self.ending {
            return Err(Refusal::Ending);
        }
        if let Some((coordinator, caller)) = differ(cluster, &join.cluster) {
            return Err(Refusal::Cluster { coordinator, caller });
        }
        if let Some((coordinator, caller)) = differ(program, &join.program) {
            return Err(Refusal::Program { coordinator, caller });
        }
        if let Some((coordinator, caller)) = differ(scenario, &join.scenario) {
            return Err(Refusal::Scenario { coordinator, caller });
        }
        if *nodes != join.nodes {
            return Err(Refusal::Nodes { coordinator: *nodes, caller: join.nodes });
        }
        match join.rank < *nodes {
            true => Ok(()),
            false => Err(self.no_such_rank(join.rank)),
        }
    }

    fn no_such_rank(&self, rank: u32) -> Refusal {
        Refusal::NoSuchRank { rank, last: self.terms.nodes.saturating_sub(1) }
    }

    /// Refuses a node.
    pub fn refuse(&mut self, conn: ConnId, from: IpAddr, why: Refusal) {
        self.counts.refused += 1;
        self.actions.push(Action::Refuse(conn, why.clone()));
        self.actions.push(Action::Note(Note::Refused { from, why }));
    }

    fn admit(&mut self, now: Duration, conn: ConnId, from: IpAddr, join: Join) {
        let Join { rank, incarnation, address, blob, .. } = join;
        let entry =
            Entry { rank, incarnation, address: address.unwrap_or(from), blob, presence: Presence::Present };
        let place = &mut self.places[rank as usize];
        let was_present = place.entry.as_ref().is_some_and(|entry| entry.presence == Presence::Present);
        let again = was_present && place.entry.as_ref().is_some_and(|old| old.incarnation == incarnation);
        let report = if again { std::mem::take(&mut place.report) } else { Report::default() };
        // It has been told nothing on this connection.
        let changed = if place.entry.as_ref() == Some(&entry) { place.changed } else { self.version + 1 };
        let since = if again { place.since } else { now };
        let address = entry.address;
        *place = Place { entry: Some(entry), changed, conn: Some(conn), told: 0, since, heard: now, report };
        self.version = self.version.max(changed);
        self.ranks.insert(conn, rank);
        self.untold.get_or_insert(now);
        self.actions.push(Action::Welcome(conn));
        if again {
            return self.actions.push(Action::Note(Note::Again { rank }));
        }
        if !was_present {
            self.present += 1;
        }
        self.counts.joined += 1;
        let (present, nodes) = (self.present, self.terms.nodes);
        self.actions.push(Action::Note(Note::Joined { rank, incarnation, address, present, nodes }));
        if present == nodes && !std::mem::replace(&mut self.met, true) {
            self.actions.push(Action::Note(Note::Met { nodes }));
        }
    }

    /// Something came from a node.
    pub fn heard(&mut self, now: Duration, conn: ConnId) {
        if let Some(rank) = self.rank(conn) {
            self.places[rank as usize].heard = now;
        }
    }

    /// A node answered a probe: the rank was given twice.
    pub fn is_here(&mut self, conn: ConnId) {
        let Some(rank) = self.rank(conn) else { return };
        let Some(Contest { caller, from, .. }) = self.contests.remove(&rank) else { return };
        let holder = self.places[rank as usize].entry.as_ref().map(|entry| entry.address.to_string());
        self.refuse(caller, from, Refusal::RankTaken { rank, holder: holder.unwrap_or_default() });
    }

    /// A node reports of itself. A report that is too long is cut to nothing, and the node's connection closed: it knows
    /// the bound.
    pub fn report(&mut self, now: Duration, conn: ConnId, report: Report) {
        let Some(rank) = self.rank(conn) else { return };
        if encode(&report).len() > REPORT {
            self.actions.push(Action::Drop(conn));
            return self.gone(now, conn, &format!("its report has more than {REPORT} bytes"));
        }
        self.places[rank as usize].report = report;
    }

    /// A node tells of one that never came to this coordinator, and has had the time to. Those who come from now on learn where it was.
    pub fn known(&mut self, now: Duration, by: ConnId, entry: Entry) {
        if self.rank(by).is_none() || entry.blob.len() > BLOB {
            return;
        }
        let place = self.places.get_mut(entry.rank as usize);
        let Some(place) = place.filter(|place| place.entry.is_none()) else { return };
        let (rank, has_left) = (entry.rank, entry.presence == Presence::Left);
        let presence = if has_left { Presence::Left } else { Presence::Lost(NOT_COME.to_string()) };
        self.version += 1;
        let (entry, changed) = (Some(Entry { presence, ..entry }), self.version);
        *place = Place { entry, changed, since: now, heard: now, ..Place::default() };
        self.untold.get_or_insert(now);
        if !has_left {
            self.counts.lost += 1;
            self.actions.push(Action::Note(Note::Lost { rank, why: NOT_COME.to_string() }));
        }
    }

    /// A node leaves.
    pub fn leave(&mut self, now: Duration, conn: ConnId) {
        let Some(rank) = self.ranks.remove(&conn) else { return };
        self.counts.left += 1;
        self.vacate(now, rank, Presence::Left);
        self.actions.push(Action::Farewell(conn));
        self.actions.push(Action::Note(Note::Left { rank }));
        self.settle(now, rank);
    }

    /// A connection ended.
    pub fn gone(&mut self, now: Duration, conn: ConnId, why: &str) {
        self.contests.retain(|_, contest| contest.caller != conn);
        let Some(rank) = self.ranks.remove(&conn) else { return };
        self.counts.lost += 1;
        let why: String = why.chars().take(TEXT).collect();
        self.vacate(now, rank, Presence::Lost(why.clone()));
        self.actions.push(Action::Note(Note::Lost { rank, why }));
        self.settle(now, rank);
    }

    fn vacate(&mut self, now: Duration, rank: u32, presence: Presence) {
        let place = &mut self.places[rank as usize];
        self.version += 1;
        (place.conn, place.changed, place.since) = (None, self.version, now);
        if let Some(entry) = &mut place.entry {
            entry.presence = presence;
        }
        self.present -= 1;
        self.untold.get_or_insert(now);
    }

    /// The holder of a rank is gone: who claims it has it.
    fn settle(&mut self, now: Duration, rank: u32) {
        if let Some(Contest { caller, from, join, .. }) = self.contests.remove(&rank) {
            self.admit(now, caller, from, join);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) {
        let silent: Vec<u32> =
            self.contests.iter().filter(|(_, contest)| contest.until <= now).map(|(rank, _)| *rank).collect();
        for rank in silent {
            let Some(holder) = self.conn(rank) else { continue };
            self.actions.push(Action::Drop(holder));
            self.gone(now, holder, "it did not answer while another process claimed its rank");
        }
        if self.untold.is_some_and(|since| since + self.gather <= now) {
            self.tell();
        }
    }

    /// Tells everybody what has changed since it was last told.
    fn tell(&mut self) {
        self.untold = None;
        let mut groups: BTreeMap<u64, Vec<ConnId>> = BTreeMap::new();
        let version = self.version;
        for place in &mut self.places {
            if let Some(conn) = place.conn.filter(|_| place.told < version) {
                groups.entry(place.told).or_default().push(conn);
                place.told = version;
            }
        }
        for (told, conns) in groups {
            let changed = self.places.iter().filter(|place| place.changed > told);
            let entries: Vec<Entry> = changed.filter_map(|place| place.entry.clone()).collect();
            self.actions.push(Action::Tell(conns, entries));
        }
    }

    /// Nobody may join any more.
    pub fn end(&mut self, now: Duration) {
        self.ending = true;
        for (_, Contest { caller, from, .. }) in std::mem::take(&mut self.contests) {
            self.refuse(caller, from, Refusal::Ending);
        }
        self.tick(now);
    }

    /// What an operator is told.
    pub fn status(&self, now: Duration) -> Status {
        let millis = |since: Duration| now.saturating_sub(since).as_millis() as u64;
        let members = (0..).zip(&self.places).map(|(rank, place)| Member {
            rank,
            presence: place.entry.as_ref().map(|entry| entry.presence.clone()),
            address: place.entry.as_ref().map(|entry| entry.address),
            since_ms: millis(place.since),
            heard_ms: millis(place.heard),
            report: place.report.clone(),
        });
        Status {
            cluster: self.terms.cluster.clone(),
            program: self.terms.program.clone(),
            up_ms: millis(Duration::ZERO),
            members: members.collect(),
            counts: self.counts,
        }
    }
}

#[cfg(test)]
#[path = "roster_tests.rs"]
mod tests;
