//! What keeps a node from others, in words: why its mesh could not make or accept connections.

use std::collections::BTreeMap;
use weft_protocols::transport::{Cause, Mesh, Rank, Trouble};
use weft_verbs::Verbs;

/// A trouble of a node among nodes of these names, in a sentence.
pub fn words(trouble: &Trouble, names: &[String]) -> String {
    let name = trouble.peer.and_then(|rank| names.get(rank.index()));
    format!("no connection with {}: {}", name.map_or("a guest", String::as_str), trouble.cause)
}

/// What was told of a mesh.
#[derive(Debug, Default)]
pub struct Told(BTreeMap<(Option<Rank>, &'static str), u64>);

impl Told {
    /// What has come since this was asked last, in words, and how often; the last one last. Why a peer is out of reach is said by the devices.
    pub fn fresh<V: Verbs>(&mut self, mesh: &Mesh<V>) -> Vec<(String, u64)> {
        self.fresh_of(&mesh.troubles(), mesh.names())
    }

    fn fresh_of(&mut self, now: &[Trouble], names: &[String]) -> Vec<(String, u64)> {
        let key = |trouble: &Trouble| (trouble.peer, trouble.cause.kind());
        let all = now.iter().map(|trouble| (key(trouble), trouble.times)).collect();
        let before = std::mem::replace(&mut self.0, all);
        let said = now.iter().filter(|trouble| trouble.cause != Cause::Unreachable);
        let since = |trouble: &Trouble| match before.get(&key(trouble)) {
            Some(times) if *times <= trouble.times => trouble.times - times,
            // There was a connection meanwhile.
            _ => trouble.times,
        };
        let fresh = said.map(|trouble| (words(trouble, names), since(trouble)));
        fresh.filter(|(_, times)| *times > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_protocols::transport::Rejection;
    use weft_verbs::VerbsError;

    #[test]
    fn each_time_that_a_connection_did_not_come_to_be_is_told_once() {
        let names = ["n0".to_string(), "n1".to_string()];
        let trouble = |peer, cause, times| Trouble { peer, cause, times };
        let full = VerbsError::Os { call: "ibv_reg_mr", errno: 12 };
        let (queue, rejected) = (Cause::Queue(full), Cause::Rejected(Rejection::NoListener));
        let of = |times| trouble(Some(Rank::from_index(1)), queue, times);
        let mut told = Told::default();
        let mut fresh = |now: &[Trouble]| told.fresh_of(now, &names);
        let memory = "no connection with n1: this node has no queue pair or no buffers for it: \
                      ibv_reg_mr failed: Cannot allocate memory (os error 12)";
        let said = |text: &str, times| vec![(text.to_string(), times)];
        assert_eq!(fresh(&[of(2)]), said(memory, 2));
        assert_eq!(fresh(&[of(2)]), []);
        assert_eq!(
            fresh(&[of(5), trouble(Some(Rank::from_index(1)), Cause::Unreachable, 1)]),
            said(memory, 3)
        );
        assert_eq!(fresh(&[]), [], "there is a connection");
        assert_eq!(fresh(&[of(1)]), said(memory, 1));
        let down = "no connection with n0: it turned this node down: its mesh is not running";
        assert_eq!(fresh(&[trouble(Some(Rank::from_index(0)), rejected, 1), of(1)]), said(down, 1));
        let places = "no connection with a guest: all 4 places for guests are taken";
        assert_eq!(fresh(&[trouble(None, Cause::Full(4), 7)]), said(places, 7));
    }
}
