//! What a diagram shows of a world.

use super::super::node::{Letter, Part};
use super::World;
use crate::explore::{BandState, TraceEvent};
use weft_protocols::members::{Message, View};

impl World {
    pub(super) fn band(&mut self, node: u32) {
        if self.trace.is_none() {
            return;
        }
        let state = match &self.nodes[node as usize] {
            Some(up) if up.has() => BandState::Exclusive("has".into()),
            Some(up) if up.part == Part::Wants => BandState::Waiting("wants".into()),
            _ => BandState::Nothing,
        };
        self.tell(|| TraceEvent::Band { node, of: "the right".into(), state });
    }

    pub(super) fn tell(&mut self, event: impl FnOnce() -> TraceEvent) {
        if let Some(trace) = &mut self.trace {
            trace.push(event());
        }
    }
}

pub(super) fn list(view: &View) -> String {
    let members: Vec<String> = view
        .members
        .iter()
        .map(|member| format!("n{}#{:x}", member.rank.index(), member.incarnation))
        .collect();
    format!("view {} of {}", view.id.number, members.join(" "))
}

/// A letter in a few words.
pub(super) fn words(letter: &Letter) -> String {
    match letter {
        Letter::Member(envelope) => match &envelope.message {
            Message::Join => "join".into(),
            Message::Leave => "leave".into(),
            Message::Prepare { after, ballot } => {
                format!("prepare {} after {}", ballot.round, after.id.number)
            }
            Message::Promise { ballot, .. } => format!("promise {}", ballot.round),
            Message::Accept { ballot, next, .. } => format!("accept {}: {}", ballot.round, list(next)),
            Message::Accepted { ballot, .. } => format!("accepted {}", ballot.round),
            Message::Decided { view } => format!("decided: {}", list(view)),
            Message::Renew { id, .. } => format!("renew {id}"),
            Message::Renewed { id, .. } => format!("renewed {id}"),
            Message::Ping { view } => format!("ping in view {}", view.number),
            Message::Pong { view } => format!("pong in view {}", view.number),
            Message::Complaint { about } => format!("n{} is silent", about.rank.index()),
            Message::Vouch { about } => format!("n{} is there", about.rank.index()),
            Message::GivenUp { view } => format!("view {} is given up", view.number),
            Message::Ask { view, .. } => format!("do you act in view {}?", view.number),
            Message::Acts { view, .. } => format!("I act in view {}", view.number),
        },
        Letter::Report(view, _, claim) => format!("in view {}: {claim:?}", view.number),
        Letter::Grant(view) => format!("in view {}: granted", view.number),
        Letter::Done(view, _) => format!("in view {}: done", view.number),
    }
}
