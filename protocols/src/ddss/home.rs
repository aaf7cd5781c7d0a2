//! The segments of which a node is the home: a state machine without I/O.

use super::messages::Message;
use super::{Name, Spec};
use std::collections::BTreeMap;
use weft_verbs::RemoteSlice;

/// The segments that a node keeps.
#[derive(Debug, Default)]
pub(super) struct Home {
    segments: BTreeMap<Name, (Spec, RemoteSlice)>,
}

/// What to do about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Answer it.
    Answer(Message),
    /// Make the segment first, and [tell](Home::made) the home.
    Make,
}

impl Home {
    /// Somebody asks for a segment.
    pub fn on_open(&self, id: u64, name: Name, spec: Spec) -> Action {
        match self.segments.get(&name) {
            Some((there, at)) if *there == spec => Action::Answer(Message::Here { id, at: *at }),
            Some((there, _)) => Action::Answer(Message::Otherwise { id, spec: *there }),
            None => Action::Make,
        }
    }

    /// The segment was made.
    pub fn made(&mut self, name: Name, spec: Spec, at: RemoteSlice) {
        self.segments.insert(name, (spec, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddss::Model;

    #[test]
    fn a_segment_is_made_once_and_who_says_otherwise_is_told() {
        let (mut home, name) = (Home::default(), Name(1));
        let spec = Spec { size: 8, model: Model::Null };
        let at = RemoteSlice { addr: 0, len: 16, rkey: 1 };
        assert_eq!(home.on_open(5, name, spec), Action::Make);
        home.made(name, spec, at);
        assert_eq!(home.on_open(6, name, spec), Action::Answer(Message::Here { id: 6, at }));
        let larger = Spec { size: 16, ..spec };
        assert_eq!(home.on_open(7, name, larger), Action::Answer(Message::Otherwise { id: 7, spec }));
    }
}
