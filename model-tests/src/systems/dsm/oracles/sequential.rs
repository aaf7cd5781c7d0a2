//! Sequential consistency: there is one order of all accesses in which each finds what the last store before it left.
//!
//! The protocol gives the order: an access's **place** is its minipage's version, and how many stores were executed under that
//! version's grant. Accesses to one minipage are ordered so; and if no access comes before one that had returned when it was
//! called, the orders of all minipages fit together in one, that of time (Herlihy and Wing 1990: linearizability is local).
//!
//! Events of several machines may arrive in another order than that in which they happened. What an access found is compared
//! with the stores that are known; if an access that may store has not returned, it is compared again when it does.

use super::super::history::{At, Event, Op, What, Why};
use super::deaths::Aside;
use crate::history::{ClientId, RequestId};
use crate::oracle::Oracle;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::ops::Bound;

/// How many stores to a word, and how many versions of a minipage, are remembered. An access that is older misses something.
const REMEMBERED: usize = 64;

/// A word's stores by their places: what each left, and the last place at which that was found.
#[derive(Clone, Debug, Default, Hash)]
struct Word {
    stores: BTreeMap<At, (u64, At)>,
    /// Those of the stores that nobody has recorded: their nodes died. Each was executed at its place or before, where it was found first.
    unrecorded: BTreeSet<At>,
    /// Stores were forgotten.
    forgot: bool,
}

impl Word {
    /// The last store before a place, or at it. Before the first one there is zero.
    fn last(&mut self, at: At) -> Option<(&At, &mut (u64, At))> {
        if !self.forgot {
            self.stores.entry(At::default()).or_default();
        }
        self.stores.range_mut(..=at).next_back()
    }

    fn insert(&mut self, at: At, value: u64, found_at: At) {
        self.stores.insert(at, (value, found_at));
        while self.stores.len() > REMEMBERED {
            if let Some((oldest, _)) = self.stores.pop_first() {
                self.unrecorded.remove(&oldest);
            }
            self.forgot = true;
        }
    }

    /// An access finds, at a place, what a node that died may have left there.
    ///
    /// Between the last store before that place and the place there must be room: that one's value was not found at the place or
    /// after it. If an access further on has found the store already, it is the same one, executed earlier. Otherwise it is one of those
    /// in `perhaps`, which has its place from now on and is executed no second time.
    fn finds_unrecorded(&mut self, perhaps: &mut Vec<Op>, found: u64, at: At) -> bool {
        let Some((_, (last, found_at))) = self.last(at) else { return true };
        let last = *last;
        if *found_at >= at {
            return false;
        }
        let next = self.stores.range((Bound::Excluded(at), Bound::Unbounded)).next();
        let next = next.map(|(place, (value, found_at))| (*place, *value, *found_at));
        if let Some((place, value, found_at)) = next
            && value == found
            && self.unrecorded.remove(&place)
        {
            self.stores.remove(&place);
            self.insert(at, value, found_at);
            return self.unrecorded.insert(at);
        }
        let Some(one) = perhaps.iter().position(|op| op.stores(last) == Some(found)) else { return false };
        perhaps.remove(one);
        self.insert(at, found, at);
        self.unrecorded.insert(at)
    }
}

/// What is known of a minipage.
#[derive(Clone, Debug, Default, Hash)]
struct Page {
    /// By version: the node that stores under it, and its stores.
    writers: BTreeMap<u64, (u32, Stores)>,
}

/// Stores under one version, by number and word: who made them.
type Stores = BTreeMap<(u32, u32), ClientId>;

/// Whether nobody has stored in this place but the same thread in another word: what a claim stores is one.
fn is_alone(stores: &mut Stores, number: u32, word: u32, thread: ClientId) -> bool {
    let alone = stores.range((number, 0)..=(number, u32::MAX)).all(|(_, other)| *other == thread);
    alone && stores.insert((number, word), thread).is_none()
}

/// Sequential consistency.
#[derive(Clone, Debug)]
pub struct Sequential {
    words_a_page: u32,
    /// No access comes before any that had returned when it was called; otherwise before its own thread's only.
    in_real_time: bool,
    words: BTreeMap<u32, Word>,
    pages: BTreeMap<u32, Page>,
    /// By minipage and, unless all are one, by thread: the highest place of an access that has returned.
    returned: BTreeMap<(u32, Option<ClientId>), At>,
    /// The calls that are under way.
    began: BTreeMap<RequestId, Call>,
    /// How many accesses to each word that may store are under way.
    storing: BTreeMap<u32, u32>,
    /// Accesses that no known store explains.
    unexplained: Vec<Event>,
    /// Nodes that others go on without: what they do is judged no more.
    aside: Aside,
    /// Minipages that somebody was told are lost.
    lost: BTreeSet<u32>,
    /// By word: what nodes were about to do to it when they crashed. They may have done it, each once; what was seen is taken out.
    perhaps: BTreeMap<u32, Vec<Op>>,
}

/// A call that is under way.
#[derive(Clone, Copy, Debug, Hash)]
struct Call {
    word: u32,
    op: Op,
    /// The highest place in its minipage that had returned when it began.
    after: At,
}

impl Hash for Sequential {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.words, &self.pages, &self.returned, &self.began, &self.storing).hash(to);
        (&self.aside, &self.lost, &self.perhaps).hash(to);
        for event in &self.unexplained {
            event.request.hash(to);
        }
    }
}

impl Sequential {
    /// Nothing was accessed yet.
    pub fn new(words_a_page: u32) -> Sequential {
        Sequential {
            words_a_page,
            in_real_time: true,
            words: BTreeMap::new(),
            pages: BTreeMap::new(),
            returned: BTreeMap::new(),
            began: BTreeMap::new(),
            storing: BTreeMap::new(),
            unexplained: Vec::new(),
            aside: Aside::default(),
            lost: BTreeSet::new(),
            perhaps: BTreeMap::new(),
        }
    }

    /// The same on so many nodes, of which some may die.
    #[must_use]
    pub fn among(self, nodes: u32) -> Sequential {
        Sequential { aside: Aside::of(nodes), ..self }
    }

    /// Where nobody looks at a clock that all nodes share: the order of accesses keeps that of each thread.
    #[must_use]
    pub fn by_thread(self) -> Sequential {
        Sequential { in_real_time: false, ..self }
    }

    fn returns(&self, request: RequestId, word: u32) -> (u32, Option<ClientId>) {
        (word / self.words_a_page, (!self.in_real_time).then_some(request.client))
    }

    /// Accesses that no store explains, at the end: no call that is under way counts for them any more.
    pub fn unexplained(&mut self) -> Vec<Event> {
        let mut unexplained = std::mem::take(&mut self.unexplained);
        unexplained.sort_by_key(place);
        unexplained.retain(|event| {
            let What::Accessed { word, op, found, place, .. } = event.what else { return false };
            let stored = op.stores(found).is_some();
            !self.explains(word, found, place, stored) && !self.finds_unrecorded(word, found, place, stored)
        });
        unexplained
    }

    fn begins(&mut self, request: RequestId, word: u32, op: Op) {
        let after = self.returned.get(&self.returns(request, word)).copied().unwrap_or_default();
        self.began.insert(request, Call { word, op, after });
        if op != Op::Load {
            *self.storing.entry(word).or_default() += 1;
        }
    }

    /// A call ends and has done nothing. What others found has to be explained without it.
    fn gives_up(&mut self, request: RequestId) -> Result<(), String> {
        let Some(Call { word, op, .. }) = self.began.remove(&request) else { return Ok(()) };
        if op == Op::Load {
            return Ok(());
        }
        self.stored(word);
        if self.storing.contains_key(&word) { Ok(()) } else { self.explain(word) }
    }

    /// A node's calls end with it.
    fn goes(&mut self, node: u32) -> Result<(), String> {
        let calls: Vec<RequestId> =
            self.began.keys().copied().filter(|request| request.client.node == node).collect();
        calls.into_iter().try_for_each(|request| {
            let Call { word, op, .. } = self.began[&request];
            if op != Op::Load {
                self.perhaps.entry(word).or_default().push(op);
            }
            self.gives_up(request)
        })
    }

    fn ends(&mut self, event: &Event, word: u32, op: Op, found: u64, at: At) -> Result<(), String> {
        if self.lost.contains(&(word / self.words_a_page)) {
            return Err(format!("{event}, and somebody was told that it is lost"));
        }
        if op != Op::Load {
            self.stored(word);
        }
        let stores = op.stores(found);
        self.in_time(event, word, at, stores.is_some())?;
        if let Some(value) = stores {
            self.store(event, word, at, value)?;
        }
        // Nobody asks what a store found.
        if !matches!(op, Op::Store(_)) && !self.explains(word, found, at, stores.is_some()) {
            if !self.storing.contains_key(&word) {
                return Err(format!("{event}, which the last store before it did not leave"));
            }
            self.unexplained.push(*event);
        }
        if stores.is_some() || !self.storing.contains_key(&word) {
            self.explain(word)?;
        }
        Ok(())
    }

    /// One less that may store.
    fn stored(&mut self, word: u32) {
        if let Some(storing) = self.storing.get_mut(&word) {
            *storing -= 1;
            if *storing == 0 {
                self.storing.remove(&word);
            }
        }
    }

    /// No access comes before one that had returned when it began, and no two nodes store under one version.
    fn in_time(&mut self, event: &Event, word: u32, at: At, stores: bool) -> Result<(), String> {
        let began = self.began.remove(&event.request).map_or(At::default(), |call| call.after);
        let returned = self.returned.entry(self.returns(event.request, word)).or_default();
        *returned = at.max(*returned);
        let page = self.pages.entry(word / self.words_a_page).or_default();
        if stores {
            let thread = event.request.client;
            let (writer, stores) = page.writers.entry(at.0).or_insert((thread.node, Stores::new()));
            let alone = *writer == thread.node && is_alone(stores, at.1, word, thread);
            while page.writers.len() > REMEMBERED {
                page.writers.pop_first();
            }
            if !alone {
                return Err(format!("{event}, and another store has this place"));
            }
        }
        if at < began || (stores && at == began) {
            let At(version, stores) = began;
            return Err(format!(
                "{event}, but one at version {version}, store {stores}, had returned before it was called"
            ));
        }
        Ok(())
    }

    /// Remembers a store. Nobody may have found, after this place, what an earlier store left.
    fn store(&mut self, event: &Event, word: u32, at: At, value: u64) -> Result<(), String> {
        let word = self.words.entry(word).or_default();
        if let Some((_, (older, found_at))) = word.last(at)
            && *found_at >= at
        {
            return Err(format!("{event}, but the {older:#x} before it was found after it"));
        }
        word.insert(at, value, at);
        Ok(())
    }

    /// Whether an access found what the last store before it left. Remembers that it did. What a node did last before it died nobody has
    /// recorded: that counts once no other call can have left what was found.
    fn explains(&mut self, of: u32, found: u64, at: At, stored: bool) -> bool {
        let before = before(at, stored);
        match self.words.entry(of).or_default().last(before) {
            Some((_, (value, found_at))) if *value == found => {
                *found_at = before.max(*found_at);
                true
            }
            Some(_) if self.storing.contains_key(&of) => false,
            Some(_) => self.finds_unrecorded(of, found, at, stored),
            None => true,
        }
    }

    /// Whether an access found what a node that died may have left.
    fn finds_unrecorded(&mut self, of: u32, found: u64, at: At, stored: bool) -> bool {
        let Some(perhaps) = self.perhaps.get_mut(&of) else { return false };
        self.words.entry(of).or_default().finds_unrecorded(perhaps, found, before(at, stored))
    }

    /// Compares again what was not explained so far, in the order of places: what one finds others may have stored after.
    fn explain(&mut self, of: u32) -> Result<(), String> {
        let mut again = std::mem::take(&mut self.unexplained);
        again.sort_by_key(place);
        for event in again {
            let What::Accessed { word, op, found, place, .. } = event.what else { continue };
            if word == of && self.explains(word, found, place, op.stores(found).is_some()) {
                continue;
            }
            if word == of && !self.storing.contains_key(&word) {
                return Err(format!("{event}, which the last store before it did not leave"));
            }
            self.unexplained.push(event);
        }
        Ok(())
    }
}

/// Where an access looks: what stored itself found what was there before.
fn before(at: At, stored: bool) -> At {
    if stored { At(at.0, at.1.saturating_sub(1)) } else { at }
}

/// The place of an access.
fn place(event: &Event) -> At {
    if let What::Accessed { place, .. } = event.what { place } else { At::default() }
}

impl Oracle<Event> for Sequential {
    fn name(&self) -> &'static str {
        "sequential consistency"
    }

    fn promise(&self) -> &'static str {
        "an access finds what the last store left"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let node = event.request.client.node;
        match event.what {
            What::Crashed => self.goes(node),
            What::Outlives(died) => {
                let aside = self.aside.outlives(node, died);
                aside.into_iter().try_for_each(|node| self.goes(node))
            }
            _ if self.aside.has(node) => Ok(()),
            What::Accesses { word, op } => {
                self.begins(event.request, word, op);
                Ok(())
            }
            What::Accessed { word, op, found, place, .. } => self.ends(event, word, op, found, place),
            What::Failed(why) => {
                if let Why::Lost(word) = why {
                    self.lost.insert(word / self.words_a_page);
                }
                self.gives_up(event.request)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one thread of a node does to the only word.
    #[derive(Clone, Copy)]
    enum Does {
        Begins(Op),
        /// It found this, at this place.
        Found(Op, u64, At),
        Dies,
    }
    use Does::{Begins, Dies, Found};

    /// A copy of a version: all that was stored under it.
    const fn copy(version: u64) -> At {
        At(version, u32::MAX)
    }

    /// Which events of a history the oracle refuses, by number; the last number if it refuses the end.
    fn refused(history: &[(u32, Does)]) -> Vec<usize> {
        let mut oracle = Sequential::new(1).among(4);
        let mut refused = Vec::new();
        for (number, (node, does)) in history.iter().enumerate() {
            let request = RequestId { client: ClientId { node: *node, index: 0 }, number: 0 };
            let what = match *does {
                Begins(op) => What::Accesses { word: 0, op },
                Found(op, found, place) => What::Accessed { word: 0, op, found, place, hops: None },
                Dies => What::Crashed,
            };
            if oracle.observe(&Event { at_ns: 0, request, what }).is_err() {
                refused.push(number);
            }
        }
        let end = history.len();
        refused.extend(oracle.unexplained().iter().map(|_| end));
        refused
    }

    /// A load by a node.
    fn loads(node: u32, found: u64, at: At) -> [(u32, Does); 2] {
        [(node, Begins(Op::Load)), (node, Found(Op::Load, found, at))]
    }

    /// A node dies amid this; then others load.
    fn after(dies_amid: Op, loads: &[[(u32, Does); 2]]) -> Vec<usize> {
        let dies = [(2, Begins(dies_amid)), (2, Dies)];
        refused(&dies.into_iter().chain(loads.concat()).collect::<Vec<_>>())
    }

    #[test]
    fn what_a_node_that_died_has_left_is_there_once_it_was_seen() {
        let (seen, not) = (loads(0, 7, copy(1)), loads(1, 0, copy(1)));
        assert_eq!(after(Op::Store(7), &[seen]), [0; 0]);
        assert_eq!(after(Op::Store(7), &[not]), [0; 0], "or it has left nothing");
        assert_eq!(after(Op::Store(7), &[seen, not]), [5], "an older one after the newer one was seen");
        assert_eq!(after(Op::Store(7), &[not, seen]), [5], "two copies of one version differ");
        let later = loads(1, 0, copy(3));
        assert_eq!(after(Op::Store(7), &[seen, later]), [5]);
        assert_eq!(after(Op::Store(7), &[seen, loads(1, 7, copy(3))]), [0; 0]);
    }

    #[test]
    fn what_a_node_that_died_had_under_way_is_executed_once() {
        let all = [loads(0, 1, copy(1)), loads(1, 1, copy(2)), loads(0, 2, copy(3))];
        assert_eq!(after(Op::Add(1), &all[..2]), [0; 0]);
        assert_eq!(after(Op::Add(1), &all), [7], "one addition counts twice");
    }

    /// Machines tell of what they did one after another: the first load to be heard of may be the last one.
    #[test]
    fn what_a_node_that_died_has_left_may_have_been_found_earlier_than_was_heard_first() {
        let found = |node, found, version| (node, Found(Op::Load, found, copy(version)));
        let refused = |third| {
            let begin = [0, 1, 3].map(|node| (node, Begins(Op::Load)));
            let dies = [(2, Begins(Op::Store(7))), (2, Dies)];
            refused(&[&begin[..], &dies, &[found(0, 7, 5), found(1, 7, 2), third]].concat())
        };
        assert_eq!(refused(found(3, 0, 1)), [0; 0]);
        assert_eq!(refused(found(3, 7, 3)), [0; 0]);
        assert_eq!(refused(found(3, 0, 4)), [7]);
    }

    /// What a living thread has stored may be heard of after it was found: the dead one's is not taken for it.
    #[test]
    fn what_another_call_may_explain_is_not_the_dead_one_s() {
        let store = Op::Store(7);
        let living = |returns: bool| {
            let begins = [(2, Begins(store)), (2, Dies), (3, Begins(store))];
            let found = loads(0, 7, At(2, 1));
            let ends = [(3, Found(store, 0, At(2, 1)))];
            [&begins[..], &found, &ends[..usize::from(returns)]].concat()
        };
        assert_eq!(refused(&living(true)), [0; 0]);
        assert_eq!(refused(&living(false)), [0; 0], "it never returned, and the dead one's explains it");
    }
}
