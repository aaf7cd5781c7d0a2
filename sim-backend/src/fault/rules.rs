//! Ordered rules over packets, for tests that want exactly one packet disturbed.

use super::{Op, PacketClass, PacketInfo, Verdict};
use crate::NodeId;
use crate::choice::Choice;

/// Identifies a rule of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(u32);

/// A pattern of packets and what happens to those that fit it.
///
/// ```
/// use weft_sim::NodeId;
/// use weft_sim::fault::{PacketClass, Rule, Verdict};
///
/// // The second acknowledgement from n1 to n0 is lost, once.
/// let rule = Rule::new(Verdict::Drop).src(NodeId(1)).dst(NodeId(0)).class(PacketClass::Ack).after(1).times(1);
/// # let _ = rule;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    verdict: Verdict,
    src: Option<NodeId>,
    dst: Option<NodeId>,
    class: Option<PacketClass>,
    op: Option<Op>,
    qp: Option<u32>,
    psn: Option<u32>,
    after: u64,
    times: u64,
    ppm: u32,
}

impl Rule {
    /// A rule that every packet fits, always.
    pub const fn new(verdict: Verdict) -> Rule {
        Rule {
            verdict,
            src: None,
            dst: None,
            class: None,
            op: None,
            qp: None,
            psn: None,
            after: 0,
            times: u64::MAX,
            ppm: 1_000_000,
        }
    }

    /// Only packets from this node.
    #[must_use]
    pub const fn src(self, node: NodeId) -> Rule {
        Rule { src: Some(node), ..self }
    }

    /// Only packets to this node.
    #[must_use]
    pub const fn dst(self, node: NodeId) -> Rule {
        Rule { dst: Some(node), ..self }
    }

    /// Only packets of this class.
    #[must_use]
    pub const fn class(self, class: PacketClass) -> Rule {
        Rule { class: Some(class), ..self }
    }

    /// Only packets of this operation.
    #[must_use]
    pub const fn op(self, op: Op) -> Rule {
        Rule { op: Some(op), ..self }
    }

    /// Only packets to the queue pair of this number.
    #[must_use]
    pub const fn qp(self, qp: u32) -> Rule {
        Rule { qp: Some(qp), ..self }
    }

    /// Only packets of this sequence number.
    #[must_use]
    pub const fn psn(self, psn: u32) -> Rule {
        Rule { psn: Some(psn), ..self }
    }

    /// Lets the first `n` packets that fit pass.
    #[must_use]
    pub const fn after(self, n: u64) -> Rule {
        Rule { after: n, ..self }
    }

    /// Strikes at most so often, and lets what fits pass from then on.
    #[must_use]
    pub const fn times(self, n: u64) -> Rule {
        Rule { times: n, ..self }
    }

    /// Strikes a packet that fits so many times in a million.
    #[must_use]
    pub const fn ppm(self, ppm: u32) -> Rule {
        Rule { ppm, ..self }
    }

    fn fits(&self, packet: &PacketInfo) -> bool {
        fn any_or<T: PartialEq>(want: Option<T>, is: T) -> bool {
            want.is_none_or(|want| want == is)
        }
        any_or(self.src, packet.src)
            && any_or(self.dst, packet.dst)
            && any_or(self.class, packet.class)
            && any_or(self.op, packet.op)
            && any_or(self.qp, packet.qp)
            && any_or(self.psn, packet.psn)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: RuleId,
    rule: Rule,
    seen: u64,
    struck: u64,
}

/// Rules in order: the first that strikes decides. A rule that a packet fits without being struck (too early,
/// used up, or spared by its rate) leaves the packet to the rules behind it.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    list: Vec<Entry>,
    made: u32,
}

impl Rules {
    /// Adds a rule at the end.
    pub fn push(&mut self, rule: Rule) -> RuleId {
        let id = RuleId(self.made);
        self.made += 1;
        self.list.push(Entry { id, rule, seen: 0, struck: 0 });
        id
    }

    /// Takes a rule out; `false` if it is not there.
    pub fn remove(&mut self, id: RuleId) -> bool {
        let before = self.list.len();
        self.list.retain(|entry| entry.id != id);
        self.list.len() < before
    }

    /// Takes all rules out.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many packets a rule has struck; `None` if it is not there.
    pub fn struck(&self, id: RuleId) -> Option<u64> {
        self.list.iter().find(|entry| entry.id == id).map(|entry| entry.struck)
    }

    /// What happens to a packet.
    pub fn judge(&mut self, packet: &PacketInfo, choice: &mut dyn Choice) -> Verdict {
        for entry in &mut self.list {
            if !entry.rule.fits(packet) {
                continue;
            }
            entry.seen += 1;
            let due = entry.seen > entry.rule.after && entry.struck < entry.rule.times;
            if due && choice.chance("rule", entry.rule.ppm) {
                entry.struck += 1;
                return entry.rule.verdict;
            }
        }
        Verdict::Pass
    }
}
