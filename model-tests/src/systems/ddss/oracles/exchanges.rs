//! Gets and puts under the lock where values have no versions: model null.

use super::super::history::{Event, Timeless, Value, What};
use crate::history::RequestId;
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
    /// Nodes that have died, or were left out: what they believe to hold may be another's already.
    ended: BTreeSet<u32>,
}

impl Exchanges {
    pub fn state(&self) -> impl std::hash::Hash + '_ {
        (&self.segments, &self.put, &self.ended)
    }

    fn holds(&mut self, event: &Event, found: Value) -> Result<(), String> {
        let mine = Value::Of(event.request);
        let segment = self.segments.entry((event.segment, event.life)).or_default();
        let may_have = segment.may_have.get_or_insert_with(|| [Value::Zero].into());
        if self.ended.contains(&event.request.client.node) {
            may_have.extend([mine, Value::Torn]);
            return Ok(());
        }
        let is_amid = |last: RequestId| may_have.contains(&Value::Of(last)) && may_have.len() > 1;
        let died = |last: &RequestId| self.ended.contains(&last.client.node) && is_amid(*last);
        if segment.last.as_ref().is_some_and(died) {
            may_have.insert(Value::Torn);
        }
        let judged = if may_have.contains(&found) {
            Ok(())
        } else {
            let known: Vec<String> = may_have.iter().map(Value::to_string).collect();
            Err(format!("{}, where there can only be {}", Timeless(event), known.join(" or ")))
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
                Err(format!("{}, but the next holder of the lock found {found}", Timeless(event)))
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
        match event.what {
            What::Puts => drop(self.put.insert(event.segment)),
            What::Crashed | What::LeftOut => drop(self.ended.insert(event.request.client.node)),
            What::Holds { value } if !self.put.contains(&event.segment) => return self.holds(event, value),
            What::Exchanged { .. } if !self.put.contains(&event.segment) => return self.exchanged(event),
            _ => {}
        }
        Ok(())
    }
}
