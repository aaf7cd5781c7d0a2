//! Gets and puts under the lock where values have no versions: model null.

use super::super::history::{Event, Value, What};
use crate::history::{HistoryEvent, RequestId, Stage};
use crate::oracle::Oracle;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a segment that is used under its lock.
#[derive(Clone, Debug, Default, Hash)]
struct Segment {
    /// What it may have now. Nothing is known of one that had no holder yet: it has zero.
    may_have: Option<BTreeSet<Value>>,
    /// Who had the lock last, as far as anybody said.
    last: Option<RequestId>,
    /// For each that had it and has not returned: what the next one found.
    found: BTreeMap<RequestId, Value>,
}

/// The holder alone, without versions: whoever has the lock finds what the one before it has put, or, if that one did not return, what that
/// one had found. It says so between its get and its put. Judged of segments to which nobody puts without the lock.
///
/// Null writes in place, so that one who died amid its put may have left a part of it: the next holder may find a torn value then (ddss.md: a put
/// cut in the middle never becomes visible under a model that forbids torn values). Who puts after that leaves a whole one.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchanges {
    segments: BTreeMap<(u64, u64), Segment>,
    /// Names of segments to which somebody puts without the lock.
    put: BTreeSet<u64>,
    /// In which of its lives each node called last, if not in its first.
    lives: BTreeMap<u32, u32>,
    /// Lives of nodes that have died, or were left out: what they believe to hold may be another's already.
    ended: BTreeSet<(u32, u32)>,
}

/// The node that makes a request, and in which of its lives.
fn caller(request: &RequestId) -> (u32, u32) {
    (request.client.node, request.life())
}

impl Exchanges {
    pub fn state(&self) -> impl std::hash::Hash + '_ {
        (&self.segments, &self.put, &self.lives, &self.ended)
    }

    /// A node has died, or was left out. Who says late of one life that it was left out says it of the next as well, if that one has called.
    fn ends(&mut self, node: u32) {
        self.ended.insert((node, self.lives.get(&node).copied().unwrap_or_default()));
    }

    fn calls(&mut self, request: &RequestId) {
        let (node, life) = caller(request);
        if life > 0 {
            self.lives.insert(node, life);
        }
    }

    fn holds(&mut self, event: &Event, found: Value) -> Result<(), String> {
        let mine = Value::Of(event.request);
        let segment = self.segments.entry((event.segment, event.life)).or_default();
        let may_have = segment.may_have.get_or_insert_with(|| [Value::Zero].into());
        if self.ended.contains(&caller(&event.request)) {
            may_have.extend([mine, Value::Torn]);
            return Ok(());
        }
        let is_amid = |last: RequestId| may_have.contains(&Value::Of(last)) && may_have.len() > 1;
        let died = |last: &RequestId| self.ended.contains(&caller(last)) && is_amid(*last);
        if segment.last.as_ref().is_some_and(died) {
            may_have.insert(Value::Torn);
        }
        let judged = if may_have.contains(&found) {
            Ok(())
        } else {
            let known: Vec<String> = may_have.iter().map(Value::to_string).collect();
            Err(format!("{event}, where there can only be {}", known.join(" or ")))
        };
        segment.may_have = Some([found, mine].into());
        if let Some(last) = segment.last.replace(event.request) {
            segment.found.insert(last, found);
        }
        judged
    }

    fn exchanged(&mut self, event: &Event) -> Result<(), String> {
        let mine = Value::Of(event.request);
        let Some(segment) = self.segments.get_mut(&(event.segment, event.life)) else { return Ok(()) };
        if segment.last == Some(event.request) {
            segment.may_have = Some([mine].into());
        }
        match segment.found.remove(&event.request) {
            Some(found) if found != mine => {
                Err(format!("{event}, but the next holder of the lock found {found}"))
            }
            _ => Ok(()),
        }
    }
}

impl Oracle<Event> for Exchanges {
    fn name(&self) -> &'static str {
        "holder alone"
    }

    fn promise(&self) -> &'static str {
        "nobody puts while another one has the lock"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        if event.stage() == Stage::Asked {
            self.calls(&event.request);
        }
        match event.what {
            What::Puts => drop(self.put.insert(event.segment)),
            What::Crashed | What::LeftOut => self.ends(event.request.client.node),
            What::Holds { value } if !self.put.contains(&event.segment) => return self.holds(event, value),
            What::Exchanged { .. } if !self.put.contains(&event.segment) => return self.exchanged(event),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ClientId;
    use weft_verbs::Nanos;

    #[test]
    fn a_node_that_is_back_holds_the_lock_alone_like_any_other() {
        let of = |node, life| RequestId { client: ClientId { node, index: 0 }, number: 0 }.in_life(life);
        // A node dies, is back, has the lock and returns, or dies again; then another one has it and finds this.
        let refused = |dies_again: bool, found: Value| {
            let mut exchanges = Exchanges::default();
            let call = |request, what| Event { at_ns: 0, request, segment: 1, life: 0, what };
            let crashes = Event::of_node(Nanos::ZERO, 0, What::Crashed);
            let done = What::Exchanged { value: Value::Zero, got: None, put: None };
            let history = [
                call(of(0, 0), What::Exchanges),
                crashes,
                call(of(0, 1), What::Exchanges),
                call(of(1, 0), What::Exchanges),
                call(of(0, 1), What::Holds { value: Value::Zero }),
                if dies_again { crashes } else { call(of(0, 1), done) },
                call(of(1, 0), What::Holds { value: found }),
            ];
            history.iter().filter(|event| exchanges.observe(event).is_err()).count()
        };
        let mine = Value::Of(of(0, 1));
        assert_eq!(refused(false, mine), 0);
        assert_eq!(refused(false, Value::Zero), 1);
        assert_eq!(refused(false, Value::Torn), 1);
        for found in [Value::Zero, mine, Value::Torn] {
            assert_eq!(refused(true, found), 0, "it died amid its put");
        }
    }

    #[test]
    fn what_a_node_that_is_back_finds_is_judged() {
        let of = |node, life| RequestId { client: ClientId { node, index: 0 }, number: 0 }.in_life(life);
        let refused = |life: u32, found: Value| {
            let mut exchanges = Exchanges::default();
            let call = |request, what| Event { at_ns: 0, request, segment: 1, life: 0, what };
            let history = [
                Event::of_node(Nanos::ZERO, 0, What::Crashed),
                call(of(0, life), What::Exchanges),
                call(of(0, life), What::Holds { value: found }),
            ];
            history.iter().filter(|event| exchanges.observe(event).is_err()).count()
        };
        let strange = Value::Of(of(2, 0));
        assert_eq!((refused(1, Value::Zero), refused(1, strange)), (0, 1));
        assert_eq!(refused(0, strange), 0, "the dead one may hold what is another's by now");
    }
}
