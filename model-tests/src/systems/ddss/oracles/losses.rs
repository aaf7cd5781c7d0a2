//! Segments that died with their homes: whoever had one is told so, and nobody is told so for nothing.
//!
//! A node has one view of a segment. When the home has died, one call of the node by the segment's name ends with that; what has the name then is
//! another segment, all zero, and must not be taken for the first. The other way round, a segment that has served a call which began after
//! its home had ended last is kept by the home's present incarnation: it is lost when that one ends, and not before.
//!
//! Clients of one node call beside each other, and what a call is told it says a while later. So nothing is said against a node while
//! another one of its calls by the same name is under way, and nothing of a name of which a segment may have been released.

use super::super::history::{Event, What, Why};
use super::home;
use crate::history::{HistoryEvent, RequestId, Stage};
use std::collections::{BTreeMap, BTreeSet};

/// What a node knows by a name.
#[derive(Clone, Debug, Default, Hash)]
struct Known {
    /// The segments of that name that have served calls of the node.
    lives: BTreeSet<u64>,
    /// A call has been told since that one is lost, or may have been: its user dropped it.
    told: bool,
    /// The segment that has served a call which began after its home had ended last.
    present: Option<u64>,
}

/// A call under way.
#[derive(Clone, Copy, Debug, Hash)]
struct Call {
    name: u64,
    /// Its home has ended since it began.
    outlived: bool,
    /// What was present when it began, unless its home has ended since.
    present: Option<u64>,
}

/// What nodes are told of segments that died with their homes.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Losses {
    nodes: u32,
    /// Nodes that have crashed, or that a view has left out.
    ended: BTreeSet<u32>,
    /// By node and name.
    known: BTreeMap<(u32, u64), Known>,
    calls: BTreeMap<RequestId, Call>,
}

impl Losses {
    /// Among so many nodes nothing has been lost.
    pub fn among(nodes: u32) -> Losses {
        Losses { nodes, ..Losses::default() }
    }

    /// Among how many nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The next event; `released`: a segment of its name has been released, or may have been.
    pub fn observe(&mut self, event: &Event, released: bool) -> Result<(), String> {
        let node = event.request.client.node;
        match event.what {
            What::Crashed => {
                self.known.retain(|(of, _), _| *of != node);
                self.calls.retain(|request, _| request.client.node != node);
                self.ends(node);
            }
            What::LeftOut => self.ends(node),
            What::Holds { .. } => {}
            _ if event.stage() == Stage::Asked => {
                let name = event.segment;
                let present = self.known.get(&(node, name)).and_then(|known| known.present);
                self.calls.insert(event.request, Call { name, outlived: false, present });
            }
            what => {
                let call = self.calls.remove(&event.request);
                return self.returns(event, what, call, released);
            }
        }
        Ok(())
    }

    /// A node has ended, and with it all segments of which it is the home.
    fn ends(&mut self, node: u32) {
        self.ended.insert(node);
        let nodes = self.nodes;
        let is_its = |name| home(name, nodes) == node;
        let known = self.known.iter_mut().filter(|((_, name), _)| is_its(*name));
        known.for_each(|(_, known)| known.present = None);
        let calls = self.calls.values_mut().filter(|call| is_its(call.name));
        calls.for_each(|call| (call.outlived, call.present) = (true, None));
    }

    fn returns(
        &mut self,
        event: &Event,
        what: What,
        call: Option<Call>,
        released: bool,
    ) -> Result<(), String> {
        let known = self.known.entry((event.request.client.node, event.segment)).or_default();
        match what {
            What::Got { .. } | What::Unchanged { .. } | What::Put { .. } | What::Exchanged { .. } => {
                self.served(event, call, released)
            }
            What::Lost => {
                known.told = true;
                self.lost(event, call)
            }
            What::Failed(Why::NotSaid | Why::Dropped) => {
                known.told = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn served(&mut self, event: &Event, call: Option<Call>, released: bool) -> Result<(), String> {
        let (node, name) = (event.request.client.node, event.segment);
        let of_this = |(request, call): (&RequestId, &Call)| request.client.node == node && call.name == name;
        let may_be_told = released || self.calls.iter().any(of_this);
        let home_ended = self.ended.contains(&home(name, self.nodes));
        let known = self.known.entry((node, name)).or_default();
        let is_another = !known.lives.is_empty() && !known.lives.contains(&event.life);
        let in_silence = is_another && home_ended && !known.told && !may_be_told;
        known.told &= !is_another;
        known.lives.insert(event.life);
        // A copy may be good for a time for which its home is not asked.
        let by_home = !matches!(event.what, What::Unchanged { .. });
        if by_home && call.is_some_and(|call| !call.outlived) {
            known.present = Some(event.life);
        }
        match in_silence {
            true => Err(format!("{event}, and nobody was told that the segment before is lost")),
            false => Ok(()),
        }
    }

    /// Who does not say which segment is lost means the one that has the name.
    fn lost(&self, event: &Event, call: Option<Call>) -> Result<(), String> {
        if !self.ended.contains(&home(event.segment, self.nodes)) {
            return Err(format!("{event}, which has neither crashed nor been left out"));
        }
        let present = call.and_then(|call| call.present);
        match present.is_some_and(|present| [0, present].contains(&event.life)) {
            true => Err(format!("{event}, which has not ended since it served a call")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::history::Value;
    use super::*;
    use crate::history::ClientId;
    use weft_verbs::Nanos;

    const NODES: u32 = 3;
    const NAME: u64 = 1;

    /// What happens: to a node, or to a call of the only client of a node on a segment.
    enum Happens {
        To(u32, What),
        Of(u32, u64, What),
    }
    use Happens::{Of, To};

    const GETS: What = What::Gets;
    const GOT: What = What::Got { value: Value::Zero, version: Some(0) };
    const UNCHANGED: What = What::Unchanged { version: 0 };
    const DROPPED: What = What::Failed(Why::Dropped);

    /// How many events of a history are refused.
    fn refused(history: &[Happens]) -> usize {
        let mut losses = Losses::among(NODES);
        let mut refused = |happens: &Happens| {
            let event = match *happens {
                To(node, what) => Event::of_node(Nanos::ZERO, node, what),
                Of(client, life, what) => {
                    // Client 11 is the second one of node 1.
                    let client = ClientId { node: client % 10, index: client / 10 };
                    let request = RequestId { client, number: 0 };
                    Event { at_ns: 0, request, segment: NAME, life, what }
                }
            };
            losses.observe(&event, false).is_err()
        };
        history.iter().filter(|happens| refused(happens)).count()
    }

    fn home() -> u32 {
        super::home(NAME, NODES)
    }

    fn user() -> u32 {
        (home() + 1) % NODES
    }

    #[test]
    fn who_had_a_segment_is_told_of_its_loss_before_the_next_one_serves_it() {
        let user = user();
        // The first segment serves a call, its home dies, this happens, and the next segment serves a call.
        let silently = |ends: What, meanwhile: &dyn Fn() -> Vec<Happens>| {
            let mut history = vec![Of(user, 0, GETS), Of(user, 7, GOT), To(home(), ends)];
            history.extend(meanwhile());
            history.extend([Of(user, 0, GETS), Of(user, 8, GOT)]);
            refused(&history)
        };
        for ends in [What::Crashed, What::LeftOut] {
            assert_eq!(silently(ends, &Vec::new), 1);
            assert_eq!(silently(ends, &|| vec![Of(user, 0, GETS), Of(user, 0, What::Lost)]), 0);
            assert_eq!(silently(ends, &|| vec![Of(user, 0, GETS), Of(user, 7, What::Lost)]), 0);
            assert_eq!(silently(ends, &|| vec![Of(user, 0, GETS), Of(user, 0, DROPPED)]), 0, "maybe told");
            let absent = What::Failed(Why::Absent(home()));
            assert_eq!(silently(ends, &|| vec![Of(user, 0, GETS), Of(user, 0, absent)]), 1, "not of a loss");
            let third = 3 - home() - user;
            assert_eq!(silently(ends, &|| vec![Of(third, 0, GETS), Of(third, 0, What::Lost)]), 1, "another");
            assert_eq!(silently(ends, &|| vec![Of(user + 10, 0, GETS)]), 0, "who may be told by now");
            assert_eq!(silently(ends, &|| vec![To(user, What::Crashed)]), 0, "it knows of nothing any more");
        }
        let never = [To(home(), What::Crashed), Of(user, 0, GETS), Of(user, 8, GOT)];
        assert_eq!(refused(&never), 0, "it had nothing");
    }

    #[test]
    fn each_loss_is_told_anew() {
        let user = user();
        let history = |again: What| {
            [
                Of(user, 0, GETS),
                Of(user, 7, GOT),
                To(home(), What::Crashed),
                Of(user, 0, GETS),
                Of(user, 0, What::Lost),
                Of(user, 0, GETS),
                Of(user, 8, GOT),
                To(home(), What::Crashed),
                Of(user, 0, GETS),
                Of(user, 0, again),
                Of(user, 0, GETS),
                Of(user, 9, GOT),
            ]
        };
        assert_eq!(refused(&history(What::Lost)), 0);
        assert_eq!(refused(&history(What::Failed(Why::Unknown))), 1);
    }

    #[test]
    fn a_segment_that_is_served_again_is_lost_when_its_home_ends_once_more_and_not_before() {
        let user = user();
        // The home is back and serves a call that began then, or before; then this happens, and a loss is told.
        let told = |began_before: bool, meanwhile: &dyn Fn() -> Vec<Happens>, life| {
            let mut history = vec![Of(user, 0, GETS), To(home(), What::Crashed)];
            if !began_before {
                history.extend([Of(user, 0, What::Lost), Of(user, 0, GETS)]);
            }
            history.push(Of(user, 8, GOT));
            history.extend(meanwhile());
            history.extend([Of(user, 0, GETS), Of(user, life, What::Lost)]);
            refused(&history)
        };
        assert_eq!(told(false, &Vec::new, 0), 1);
        assert_eq!(told(false, &Vec::new, 8), 1);
        assert_eq!(told(false, &Vec::new, 7), 0, "by a key of the first one");
        assert_eq!(told(true, &Vec::new, 0), 0, "the first one may have served it");
        for ends in [What::Crashed, What::LeftOut] {
            assert_eq!(told(false, &|| vec![To(home(), ends)], 0), 0, "it has ended again");
        }
        // A copy is good for a time, and its home dies meanwhile.
        let of_a_copy = [
            Of(user, 0, GETS),
            Of(user, 7, GOT),
            To(home(), What::Crashed),
            Of(user, 0, GETS),
            Of(user, 7, UNCHANGED),
            Of(user, 0, GETS),
            Of(user, 0, What::Lost),
        ];
        assert_eq!(refused(&of_a_copy), 0);
        // Another client of the node has called before, and says now what it was told then.
        let history = [
            To(home(), What::Crashed),
            Of(user + 10, 0, GETS),
            Of(user, 0, GETS),
            Of(user, 8, GOT),
            Of(user + 10, 0, What::Lost),
        ];
        assert_eq!(refused(&history), 0);
    }
}
