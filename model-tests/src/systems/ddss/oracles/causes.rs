//! What a call says that fails.

use super::super::history::{Event, Timeless, What, Why};
use super::home;
use crate::oracle::{Oracle, Outcasts, Violation, unexplained};
use std::collections::BTreeSet;
use weft_protocols::ddss::Model;
use weft_verbs::Nanos;

/// A call fails with cause: faults of links are repaired and not told, and who dies or is left out is named.
#[derive(Clone, Debug, Hash)]
pub(super) struct Causes {
    nodes: u32,
    /// Values are good for a time, and a home may be slower.
    is_temporal: bool,
    outcasts: Outcasts,
    /// Who has been served by which home: they are members of one view.
    served: BTreeSet<(u32, u32)>,
}

impl Causes {
    pub fn new(model: Model, nodes: u32) -> Causes {
        let (outcasts, served) = (Outcasts::default(), BTreeSet::new());
        Causes { nodes, is_temporal: matches!(model, Model::Temporal(_)), outcasts, served }
    }

    fn is_known(&self, why: Why, node: u32) -> bool {
        match why {
            // It may not have come yet.
            Why::Absent(other) => !self.served.contains(&(node, other)),
            Why::Slow => self.is_temporal,
            Why::NotSaid | Why::Out | Why::Unknown => true,
            Why::Other => false,
        }
    }

    /// A node is in the views of others no more.
    fn goes(&mut self, node: u32) {
        self.served.retain(|(served, home)| ![*served, *home].contains(&node));
    }

    /// What nothing has explained by the end.
    pub fn finish(&self, now: Nanos) -> impl Iterator<Item = Violation> {
        self.outcasts.finish(self.name(), now)
    }
}

impl Oracle<Event> for Causes {
    fn name(&self) -> &'static str {
        "causes"
    }

    fn promise(&self) -> &'static str {
        "no call fails unless a node that it needs is gone"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let node = event.request.client.node;
        match event.what {
            What::Crashed => {
                self.goes(node);
                self.outcasts.crashes(node);
            }
            What::LeftOut => {
                self.goes(node);
                self.outcasts.is_left_out(node);
            }
            What::Got { .. } | What::Put { .. } | What::Exchanged { .. } => {
                self.served.insert((node, home(event.segment, self.nodes)));
            }
            What::Failed(Why::Out) => self.outcasts.says(node, || Timeless(event).to_string()),
            What::Failed(why) if !self.is_known(why, node) => {
                return Err(unexplained(&Timeless(event).to_string()));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{ClientId, RequestId};

    /// Whether it is an error that a call of node 1 fails, to a segment that it has put to before; meanwhile nodes are left out, or crash.
    fn is_told(model: Model, meanwhile: &[(u32, What)], why: Why) -> bool {
        let mut oracle = Causes::new(model, 4);
        let request = RequestId { client: ClientId { node: 1, index: 0 }, number: 0 };
        let event = |what| Event { at_ns: 0, request, segment: 1, life: 0, what };
        let before = [event(What::Put { version: None })].into_iter();
        let meanwhile = meanwhile.iter().map(|(node, what)| Event::of_node(Nanos::ZERO, *node, *what));
        for event in before.chain(meanwhile) {
            oracle.observe(&event).expect("nothing fails");
        }
        oracle.observe(&event(What::Failed(why))).is_err() || oracle.finish(Nanos::ZERO).count() > 0
    }

    #[test]
    fn a_call_fails_for_want_of_who_is_gone_and_of_nobody_else() {
        let write = |meanwhile: &[_], why| is_told(Model::Write, meanwhile, why);
        let home = home(1, 4);
        let another = (home + 1) % 4;
        assert!(!write(&[], Why::Absent(another)), "it may not have come");
        assert!(write(&[(another, What::LeftOut)], Why::Absent(home)), "it was there");
        for gone in [What::LeftOut, What::Crashed] {
            assert!(!write(&[(home, gone)], Why::Absent(home)));
        }
        assert!(write(&[(2, What::LeftOut)], Why::Out) && write(&[(1, What::Crashed)], Why::Out));
        assert!(!write(&[(1, What::LeftOut)], Why::Out));
        assert!(!write(&[(2, What::Crashed)], Why::Out), "that may have been a majority");
        assert!(write(&[], Why::Slow) && !is_told(Model::Temporal(9), &[], Why::Slow));
        assert!(write(&[(0, What::Crashed), (1, What::LeftOut)], Why::Other));
    }
}
