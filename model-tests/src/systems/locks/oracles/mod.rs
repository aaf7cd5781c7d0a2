//! The promises of a lock service, each watched by an oracle.
//!
//! [`Bypass`] gives a figure and no verdict.

mod at_most_once;
mod bypass;
mod causes;
mod in_vain;
mod linearizability;
mod mutual_exclusion;
mod progress;
mod tokens;

#[cfg(test)]
mod against_brute_force;
#[cfg(test)]
mod tests;

pub use at_most_once::AtMostOnce;
pub use bypass::{Bypass, MostBypassed};
pub use causes::Causes;
pub use in_vain::InVain;
pub use linearizability::{ReadersWriter, calls_of_a_lock};
pub use mutual_exclusion::MutualExclusion;
pub use progress::Progress;
pub use tokens::Tokens;

use super::history::{Event, What};
use crate::oracle::{Oracle, Oracles, Violation, show};
use std::hash::Hasher;
use weft_protocols::locks::Mode;
use weft_verbs::Nanos;

/// All the oracles of a lock service.
#[derive(Clone, Debug, Default)]
pub struct LockOracles {
    exclusion: MutualExclusion,
    beside: BesideExclusion,
    bypass: Bypass,
}

impl LockOracles {
    /// Oracles that have seen nothing. `tokens` says whether every grant must carry a fencing token.
    pub fn new(tokens: bool) -> LockOracles {
        LockOracles {
            exclusion: MutualExclusion::default(),
            beside: BesideExclusion::new(tokens),
            bypass: Bypass::default(),
        }
    }

    /// The same, where who wants to share may have to wait for those who do: of words that count so few shared requests that one must be
    /// given up first, and of a scheme whose nodes share nothing.
    #[must_use]
    pub fn where_sharers_wait(self) -> LockOracles {
        LockOracles { beside: self.beside.where_sharers_wait(), ..self }
    }

    /// How unfair it was.
    pub fn bypass(&self) -> MostBypassed {
        self.bypass.most()
    }
}

/// What is promised of a lock service beside mutual exclusion: of explored worlds that have leases, where that is judged by the nodes'
/// clocks.
#[derive(Clone, Debug, Default)]
pub struct BesideExclusion {
    once: AtMostOnce,
    tokens: Tokens,
    causes: Causes,
    progress: Progress,
    in_vain: InVain,
}

impl BesideExclusion {
    /// Oracles that have seen nothing. `tokens` says whether tokens grow with every exclusive grant.
    pub fn new(tokens: bool) -> BesideExclusion {
        BesideExclusion {
            once: AtMostOnce::default(),
            tokens: Tokens::new(tokens),
            causes: Causes::default(),
            progress: Progress::default(),
            in_vain: InVain::default(),
        }
    }

    /// The same, where who wants to share may have to wait for those who do: of words that count so few shared requests that one must be
    /// given up first, and of a scheme whose nodes share nothing.
    #[must_use]
    pub fn where_sharers_wait(self) -> BesideExclusion {
        BesideExclusion { in_vain: self.in_vain.of_tries_alone(), ..self }
    }

    /// The same, of nodes that are all members: every grant has a token, and one that is left out may lose what it has.
    #[must_use]
    pub fn among_members(self) -> BesideExclusion {
        BesideExclusion { tokens: self.tokens.among_members(), causes: self.causes.unsaid(), ..self }
    }
}

impl Oracles for BesideExclusion {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        // Who waits in vain only worlds know.
        let all: [&dyn Oracle<Event>; 4] = [&self.once, &self.tokens, &self.causes, &self.progress];
        all.map(|oracle| (oracle.name(), oracle.promise())).to_vec()
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(Violation)) {
        let BesideExclusion { once, tokens, causes, progress, in_vain } = self;
        let oracles: [&mut dyn Oracle<Event>; 4] = [once, tokens, causes, &mut *progress];
        show(event, oracles, broken);
        match event.what {
            What::Outlasts => in_vain.outlasts(event.request, progress),
            What::Refused => in_vain.refused(event.request, progress),
            What::TimedOut { .. } if event.mode == Mode::Exclusive => in_vain.gives_up(event.key),
            _ => {}
        }
    }

    fn ended(&self) -> u64 {
        self.progress.ended()
    }

    fn unended(&self) -> u64 {
        self.progress.unended()
    }

    fn oldest(&self) -> Option<Nanos> {
        self.progress.oldest()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        self.progress.finish(now, healthy).into_iter().chain(self.causes.finish(now)).collect()
    }

    fn finish_unharmed(&self) -> Option<Violation> {
        self.in_vain.found()
    }

    fn state(&self, to: &mut dyn Hasher) {
        self.once.state(to);
        self.tokens.state(to);
        self.causes.state(to);
        self.in_vain.state(to);
    }
}

impl Oracles for LockOracles {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        let first = (self.exclusion.name(), self.exclusion.promise());
        [vec![first], self.beside.promises()].concat()
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(Violation)) {
        let exclusion: [&mut dyn Oracle<Event>; 1] = [&mut self.exclusion];
        show(event, exclusion, broken);
        self.beside.observe(event, broken);
        self.bypass.observe(event);
    }

    fn ended(&self) -> u64 {
        self.beside.ended()
    }

    fn unended(&self) -> u64 {
        self.beside.unended()
    }

    fn oldest(&self) -> Option<Nanos> {
        self.beside.oldest()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        self.beside.finish(now, healthy)
    }

    fn finish_unharmed(&self) -> Option<Violation> {
        self.beside.finish_unharmed()
    }

    /// Where each request stands, and the highest tokens. Who holds follows from the former.
    fn state(&self, to: &mut dyn Hasher) {
        self.beside.state(to);
    }
}
