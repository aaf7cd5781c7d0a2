//! Who may say that the others go on without its node.

use super::Violation;
use std::collections::{BTreeMap, BTreeSet};
use weft_verbs::Nanos;

/// The nodes that have no part in the membership any more, by the histories of those that have.
///
/// A node that is left out may learn that before a view has begun that leaves it out, from who has fenced it off already. So what it says is
/// explained by what happened before, or by what happens later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outcasts {
    crashed: BTreeSet<u32>,
    left_out: BTreeSet<u32>,
    /// By node: what it has said first that nothing explains yet.
    unexplained: BTreeMap<u32, String>,
}

impl Outcasts {
    /// A node has crashed. With it and others a majority may be gone, and the view is lost for the rest.
    pub fn crashes(&mut self, node: u32) {
        self.crashed.insert(node);
        self.unexplained.clear();
    }

    /// A view has begun that leaves a node out.
    pub fn is_left_out(&mut self, node: u32) {
        self.left_out.insert(node);
        self.unexplained.remove(&node);
    }

    /// Somebody on a node says that the others go on without it, in these words.
    pub fn says(&mut self, node: u32, words: impl FnOnce() -> String) {
        let others_crashed = self.crashed.iter().any(|crashed| *crashed != node);
        if !self.left_out.contains(&node) && !others_crashed {
            self.unexplained.entry(node).or_insert_with(words);
        }
    }

    /// Whether anybody has crashed or was left out.
    pub fn any(&self) -> bool {
        !self.crashed.is_empty() || !self.left_out.is_empty()
    }

    /// What nothing has explained by the end, as violations of an oracle.
    pub fn finish(&self, oracle: &'static str, now: Nanos) -> impl Iterator<Item = Violation> {
        let violation = move |words: &String| Violation { oracle, at: now, text: unexplained(words) };
        self.unexplained.values().map(violation)
    }
}

/// What is wrong with what somebody says.
pub fn unexplained(words: &str) -> String {
    format!("{words}, and nothing has happened that explains it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_that_it_is_out_is_left_out_sooner_or_later_or_a_majority_is_gone() {
        // What is told at the end where something happens before n1 says so, and where it happens later.
        let told = |happens: fn(&mut Outcasts)| {
            [true, false].map(|before| {
                let mut outcasts = Outcasts::default();
                if before {
                    happens(&mut outcasts);
                }
                outcasts.says(1, || "n1 is out".into());
                if !before {
                    happens(&mut outcasts);
                }
                outcasts.finish("", Nanos::ZERO).count()
            })
        };
        assert_eq!(told(|outcasts| outcasts.is_left_out(1)), [0, 0]);
        assert_eq!(told(|outcasts| outcasts.crashes(2)), [0, 0]);
        assert_eq!(told(|outcasts| outcasts.is_left_out(2)), [1, 1], "another one was");
        assert_eq!(told(|_| {}), [1, 1]);
        assert_eq!(
            told(|outcasts| outcasts.crashes(1)),
            [1, 0],
            "it was itself that crashed, before it said so"
        );
    }
}
