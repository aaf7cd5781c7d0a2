//! Messages arrive in order, each once; and of those that do not arrive, somebody is told.

use crate::oracle::Violation;
use std::fmt;
use weft_verbs::Nanos;

/// A message, by what its receiver knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sent {
    /// Which life of its sender it is from: how often that had restarted.
    pub life: u32,
    /// Which one of that life's messages to this receiver it is, from 0.
    pub number: u32,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.life {
            0 => write!(f, "message {}", self.number),
            life => write!(f, "message {} of life {life}", self.number),
        }
    }
}

/// All messages from one node to another, over all their lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Correspondence {
    /// What arrived, in its order, and in which life of its receiver.
    pub arrived: Vec<(u32, Sent)>,
    /// How many messages the sender's last life has sent.
    pub sent: u32,
    /// The sender's last life.
    pub life: u32,
    /// What the sender's last life was told of a new life of the receiver: each time, how many messages were dropped.
    pub resets: Vec<u64>,
    /// How often the receiver has restarted.
    pub restarts: u32,
}

/// Messages arrive in the order in which they were sent, each exactly once, whatever breaks between two nodes. If one of
/// them restarts, nothing arrives twice either, and the other one is told how many may be gone.
#[derive(Debug, Default)]
pub struct Delivery;

impl Delivery {
    /// The oracle's name, as reports have it.
    pub const NAME: &'static str = "exactly once, in order";
    /// What is promised, in a few words.
    pub const PROMISE: &'static str = "messages arrive in order, each once, and none is lost without a word";

    /// Judges what one node heard from another, at rest.
    pub fn finish(now: Nanos, from: u32, to: u32, all: &Correspondence) -> Option<Violation> {
        let broken = out_of_order(all).or_else(|| gap(all)).or_else(|| unaccounted(all));
        broken.map(|text| Violation {
            oracle: Delivery::NAME,
            at: now,
            text: format!("from n{from} to n{to}: {text}"),
        })
    }
}

/// Twice, or after a later one: over all lives of the receiver.
fn out_of_order(all: &Correspondence) -> Option<String> {
    let late = all.arrived.windows(2).find(|pair| pair[1].1 <= pair[0].1)?;
    let [(_, before), (_, after)] = [late[0], late[1]];
    Some(match before == after {
        true => format!("{after} arrives twice"),
        false => format!("{after} arrives after {before}"),
    })
}

/// Between two messages of one life to one life, one is missing.
fn gap(all: &Correspondence) -> Option<String> {
    let missing = |pair: &&[(u32, Sent)]| {
        let [(to, before), (still, after)] = [pair[0], pair[1]];
        to == still && before.life == after.life && after.number > before.number + 1
    };
    let pair = all.arrived.windows(2).find(missing)?;
    Some(format!("{} arrives after {}", pair[1].1, pair[0].1))
}

/// What the sender, which lives, sent and nobody heard, beyond what it was told.
fn unaccounted(all: &Correspondence) -> Option<String> {
    if all.resets.len() as u64 > u64::from(all.restarts) {
        return Some(format!("told of {} new lives, of which there were {}", all.resets.len(), all.restarts));
    }
    let arrived = all.arrived.iter().filter(|(_, sent)| sent.life == all.life).count() as u64;
    let told: u64 = all.resets.iter().sum();
    let missing = u64::from(all.sent).saturating_sub(arrived);
    (missing > told).then(|| format!("{missing} of {} never arrive, and {told} were told", all.sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(arrived: &[(u32, u32, u32)], sent: u32, resets: &[u64], restarts: u32) -> Option<String> {
        let arrived = arrived.iter().map(|&(to, life, number)| (to, Sent { life, number })).collect();
        let life = 0;
        let all = Correspondence { arrived, sent, life, resets: resets.to_vec(), restarts };
        Delivery::finish(Nanos::ZERO, 0, 1, &all).map(|violation| violation.text)
    }

    #[test]
    fn all_in_order_is_as_promised() {
        assert_eq!(judged(&[(0, 0, 0), (0, 0, 1)], 2, &[], 0), None);
    }

    #[test]
    fn twice_late_missing_and_lost_are_told_apart() {
        let text = |arrived: &[(u32, u32, u32)], sent| judged(arrived, sent, &[], 0).unwrap_or_default();
        assert_eq!(text(&[(0, 0, 0), (0, 0, 0)], 1), "from n0 to n1: message 0 arrives twice");
        assert_eq!(text(&[(0, 0, 1), (0, 0, 0)], 2), "from n0 to n1: message 0 arrives after message 1");
        assert_eq!(text(&[(0, 0, 0), (0, 0, 2)], 3), "from n0 to n1: message 2 arrives after message 0");
        assert_eq!(text(&[(0, 0, 0)], 2), "from n0 to n1: 1 of 2 never arrive, and 0 were told");
    }

    #[test]
    fn after_a_restart_what_is_gone_must_have_been_told() {
        // The second of three was in the dead node's memory.
        assert_eq!(judged(&[(0, 0, 0), (1, 0, 2)], 3, &[1], 1), None);
        assert!(judged(&[(0, 0, 0), (1, 0, 2)], 3, &[], 1).is_some());
        // More may be told than is gone: nobody knows what the dead node saw.
        assert_eq!(judged(&[(0, 0, 0), (0, 0, 1)], 2, &[2], 1), None);
        assert!(judged(&[(0, 0, 0), (0, 0, 1)], 2, &[2], 0).is_some(), "there was no restart");
        assert!(judged(&[(0, 0, 0), (1, 0, 0)], 1, &[1], 1).is_some(), "and nothing comes twice");
    }

    #[test]
    fn what_an_earlier_life_sent_is_owed_to_nobody_but_never_comes_late() {
        let arrived = vec![(0, Sent { life: 0, number: 0 }), (0, Sent { life: 1, number: 0 })];
        let mut all = Correspondence { arrived, sent: 1, life: 1, ..Correspondence::default() };
        assert_eq!(Delivery::finish(Nanos::ZERO, 0, 1, &all), None);
        all.arrived.push((0, Sent { life: 0, number: 1 }));
        assert!(Delivery::finish(Nanos::ZERO, 0, 1, &all).is_some());
    }
}
