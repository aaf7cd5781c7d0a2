//! Rules for frames, and what they have struck.

use crate::control::{Act, Class, Rule, Way};
use crate::frame::Nic;
use std::time::Duration;

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It arrives.
    Pass,
    /// It is lost.
    Drop,
    /// It arrives twice.
    Duplicate,
    /// It arrives later; later frames overtake it.
    Delay(Duration),
}

/// Names a rule.
pub type RuleId = u64;

struct Entry {
    id: RuleId,
    rule: Rule,
    seen: u64,
    struck: u64,
    draws: SplitMix,
}

/// Rules in order: the first that strikes a frame decides. One that fits without striking (too early, used up, or
/// spared by its rate) leaves the frame to those behind it.
#[derive(Default)]
pub struct Rules {
    list: Vec<Entry>,
    /// Rules taken out, with what they had struck.
    over: Vec<(RuleId, u64)>,
    made: RuleId,
}

impl Rules {
    /// Adds a rule at the end.
    pub fn push(&mut self, rule: Rule) -> RuleId {
        let id = self.made;
        self.made += 1;
        let draws = SplitMix(rule.seed);
        self.list.push(Entry { id, rule, seen: 0, struck: 0, draws });
        id
    }

    /// Takes a rule out.
    pub fn remove(&mut self, id: RuleId) {
        let over = self.list.iter().filter(|entry| entry.id == id).map(|entry| (id, entry.struck));
        self.over.extend(over);
        self.list.retain(|entry| entry.id != id);
    }

    /// Takes all rules out and forgets what they struck.
    pub fn clear(&mut self) {
        self.list.clear();
        self.over.clear();
    }

    /// How many frames a rule has struck, be it in force or over.
    pub fn struck(&self, id: RuleId) -> u64 {
        let now = self.list.iter().find(|entry| entry.id == id).map(|entry| entry.struck);
        let then = || self.over.iter().find(|(over, _)| *over == id).map(|(_, struck)| *struck);
        now.or_else(then).unwrap_or(0)
    }

    /// What happens to a frame from one card to another. `class` is `None` for what is no RoCE packet.
    pub fn judge(&mut self, from: Nic, to: Nic, class: Option<Class>) -> Verdict {
        for entry in &mut self.list {
            if !fits(&entry.rule, from, to, class) {
                continue;
            }
            entry.seen += 1;
            let due = entry.seen > entry.rule.skip && entry.struck < entry.rule.count;
            if due && entry.draws.below(1_000_000) < u64::from(entry.rule.ppm) {
                entry.struck += 1;
                return verdict(entry.rule.act, &mut entry.draws);
            }
        }
        Verdict::Pass
    }
}

fn fits(rule: &Rule, from: Nic, to: Nic, class: Option<Class>) -> bool {
    let there = (rule.from, rule.to) == (from, to);
    let back = rule.way == Way::Both && (rule.to, rule.from) == (from, to);
    let of_class = match (rule.class, class) {
        // Everything on the wire.
        (None, _) => true,
        (Some(_), None) => false,
        (Some(Class::Any), Some(is)) => is != Class::Cm,
        (Some(Class::Request), Some(is)) => matches!(is, Class::Request | Class::AtomicRequest),
        (Some(wanted), Some(is)) => wanted == is,
    };
    (there || back) && of_class
}

fn verdict(act: Act, draws: &mut SplitMix) -> Verdict {
    match act {
        Act::Pass => Verdict::Pass,
        Act::Drop => Verdict::Drop,
        Act::Duplicate => Verdict::Duplicate,
        Act::Delay(nanos) => Verdict::Delay(Duration::from_nanos(nanos)),
        Act::DelayUpTo(nanos) => Verdict::Delay(Duration::from_nanos(draws.below(nanos.max(1)) + 1)),
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): small, seeded, the same everywhere.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(act: Act) -> Rule {
        let (skip, count, ppm, seed) = (0, u64::MAX, 1_000_000, 1);
        Rule { from: 0, to: 1, way: Way::There, class: None, skip, count, ppm, seed, act }
    }

    #[test]
    fn a_rule_strikes_its_direction_its_class_and_its_number() {
        let mut rules = Rules::default();
        let id = rules.push(Rule { class: Some(Class::Ack), skip: 1, count: 2, ..rule(Act::Drop) });
        let verdicts = [0; 5].map(|_| rules.judge(0, 1, Some(Class::Ack)));
        use Verdict::*;
        assert_eq!(verdicts, [Pass, Drop, Drop, Pass, Pass]);
        for (from, to, class) in [(1, 0, Some(Class::Ack)), (0, 1, Some(Class::Nak)), (0, 1, None)] {
            assert_eq!(rules.judge(from, to, class), Pass);
        }
        assert_eq!(rules.struck(id), 2);
        rules.remove(id);
        assert_eq!((rules.struck(id), rules.judge(0, 1, Some(Class::Ack))), (2, Pass));
    }

    #[test]
    fn the_first_rule_that_strikes_decides() {
        let mut rules = Rules::default();
        rules.push(Rule { count: 1, ..rule(Act::Drop) });
        let behind = rules.push(Rule { way: Way::Both, ..rule(Act::Duplicate) });
        assert_eq!(rules.judge(0, 1, None), Verdict::Drop);
        assert_eq!(
            (rules.judge(0, 1, None), rules.judge(1, 0, None)),
            (Verdict::Duplicate, Verdict::Duplicate)
        );
        assert_eq!(rules.struck(behind), 2);
    }

    #[test]
    fn rates_are_kept_and_seeds_repeat() {
        let run = |seed| {
            let mut rules = Rules::default();
            rules.push(Rule { ppm: 250_000, seed, ..rule(Act::Drop) });
            (0..4_000).map(|_| rules.judge(0, 1, None) == Verdict::Drop).collect::<Vec<_>>()
        };
        let lost = run(7).iter().filter(|lost| **lost).count();
        assert!((800..1_200).contains(&lost), "{lost} of 4,000 at a quarter");
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn any_packet_is_not_the_connection_managers_and_atomics_are_requests() {
        let mut rules = Rules::default();
        let any = rules.push(Rule { class: Some(Class::Any), ..rule(Act::Pass) });
        rules.judge(0, 1, Some(Class::Cm));
        rules.judge(0, 1, None);
        assert_eq!(rules.struck(any), 0);
        rules.judge(0, 1, Some(Class::Rnr));
        assert_eq!(rules.struck(any), 1);
        rules.clear();
        let requests = rules.push(Rule { class: Some(Class::Request), ..rule(Act::Pass) });
        rules.judge(0, 1, Some(Class::AtomicRequest));
        assert_eq!(rules.struck(requests), 1);
    }
}
