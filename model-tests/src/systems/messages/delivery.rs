//! Messages arrive in order, each once; and of those that do not arrive, somebody is told.

use super::history::{Event, Sent, What};
use crate::oracle::{Oracle, Oracles, Violation, show};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use weft_verbs::Nanos;

/// All messages from one node to another, over all their incarnations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Correspondence {
    /// What arrived last, and in which incarnation of the receiver.
    last: Option<(u32, Sent)>,
    /// How many messages of the sender's last incarnation arrived.
    arrived: u64,
    /// How many messages the sender's last incarnation has sent.
    sent: u64,
    /// The sender's last incarnation.
    sender: u32,
    /// The receiver's last incarnation: how often it has restarted.
    receiver: u32,
    /// How often the sender's last incarnation was told of another incarnation of the receiver.
    resets: u32,
    /// How many messages it was told are lost.
    lost: u64,
}

impl Correspondence {
    /// The sender sends a message.
    pub fn sends(&mut self) {
        self.sent += 1;
    }

    /// A message arrives.
    ///
    /// # Errors
    ///
    /// It has arrived before, or comes after a later one, or one before it is missing.
    pub fn arrives(&mut self, message: Sent) -> Result<(), String> {
        let judged = match self.last {
            Some((_, before)) if message == before => Err(format!("{message} arrives twice")),
            Some((_, before)) if message < before => Err(format!("{message} arrives after {before}")),
            Some((to, before))
                if to == self.receiver
                    && before.incarnation == message.incarnation
                    && message.number > before.number + 1 =>
            {
                Err(format!("{message} arrives after {before}"))
            }
            _ => Ok(()),
        };
        self.last = Some((self.receiver, message));
        self.arrived += u64::from(message.incarnation == self.sender);
        judged
    }

    /// The sender is told that the receiver has restarted, and that so many messages may be lost.
    ///
    /// # Errors
    ///
    /// The receiver has not restarted so often.
    pub fn told(&mut self, lost: u64) -> Result<(), String> {
        self.resets += 1;
        // Of what had arrived already none is lost, and what is sent from now on was not meant.
        self.lost += lost.min(self.open());
        if self.resets > self.receiver {
            return Err(format!("told of {} restarts, of which there were {}", self.resets, self.receiver));
        }
        Ok(())
    }

    /// The sender has restarted: what it had sent is owed to nobody any more.
    pub fn sender_restarted(&mut self) {
        let Correspondence { last, sender, receiver, .. } = *self;
        *self = Correspondence { last, sender: sender + 1, receiver, ..Correspondence::default() };
    }

    /// The receiver's last incarnation: how often it has restarted.
    pub fn receiver(&self) -> u32 {
        self.receiver
    }

    /// The receiver has restarted.
    pub fn receiver_restarted(&mut self) {
        self.receiver += 1;
    }

    /// How many messages have neither arrived nor been told to be lost. More may be told than is lost: nobody knows what a
    /// dead node saw.
    pub fn open(&self) -> u64 {
        self.sent.saturating_sub(self.arrived).saturating_sub(self.lost)
    }

    /// Judges the end.
    ///
    /// # Errors
    ///
    /// Messages neither arrived nor were told to be lost.
    pub fn finish(&self) -> Result<(), String> {
        match self.open() {
            0 => Ok(()),
            _ => {
                let missing = self.sent.saturating_sub(self.arrived);
                Err(format!("{missing} of {} never arrive, and {} were told", self.sent, self.lost))
            }
        }
    }
}

/// Messages arrive in the order in which they were sent, each exactly once, whatever breaks between two nodes. If one of
/// them restarts, nothing arrives twice either, and the other one is told how many may be gone.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    /// By sender and receiver.
    pairs: BTreeMap<(u32, u32), Correspondence>,
    /// How often each node that restarted did.
    restarts: BTreeMap<u32, u32>,
    /// How many messages were sent, by all incarnations.
    sent: u64,
    /// How many were open as their sender restarted, and have not arrived since: a figure, and no state of what is promised.
    lost_with_sender: u64,
}

impl Delivery {
    /// The oracle's name, as reports have it.
    pub const NAME: &'static str = "exactly once, in order";
    /// What is promised, in a few words.
    pub const PROMISE: &'static str = "in order, each once, none lost without a word";

    /// The violation of a promise between two nodes.
    pub fn violation(now: Nanos, from: u32, to: u32, text: &str) -> Violation {
        Violation { oracle: Delivery::NAME, at: now, text: between(from, to, text) }
    }

    /// What is known of the messages from one node to another.
    fn pair(&mut self, from: u32, to: u32) -> &mut Correspondence {
        let incarnation = |node| self.restarts.get(&node).copied().unwrap_or(0);
        let (sender, receiver) = (incarnation(from), incarnation(to));
        let new = || Correspondence { sender, receiver, ..Correspondence::default() };
        self.pairs.entry((from, to)).or_insert_with(new)
    }

    fn restarted(&mut self, node: u32) {
        *self.restarts.entry(node).or_default() += 1;
        for ((from, to), pair) in &mut self.pairs {
            if *from == node {
                self.lost_with_sender += pair.open();
                pair.sender_restarted();
            }
            if *to == node {
                pair.receiver_restarted();
            }
        }
    }
}

fn between(from: u32, to: u32, text: &str) -> String {
    format!("from n{from} to n{to}: {text}")
}

impl Oracle<Event> for Delivery {
    fn name(&self) -> &'static str {
        Delivery::NAME
    }

    fn promise(&self) -> &'static str {
        Delivery::PROMISE
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let node = event.node;
        match event.what {
            What::Sent { to, .. } => {
                self.sent += 1;
                self.pair(node, to).sends();
                Ok(())
            }
            What::Arrived { from, sent, .. } => {
                let pair = self.pair(from, node);
                let is_late = u64::from(sent.incarnation < pair.sender);
                let judged = pair.arrives(sent);
                self.lost_with_sender = self.lost_with_sender.saturating_sub(is_late);
                judged.map_err(|text| between(from, node, &text))
            }
            What::PeerRestarted { peer, lost } => {
                self.pair(node, peer).told(lost).map_err(|text| between(node, peer, &text))
            }
            What::Restarted => {
                self.restarted(node);
                Ok(())
            }
        }
    }
}

/// What arrives is what was sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Intact;

impl Oracle<Event> for Intact {
    fn name(&self) -> &'static str {
        "intact"
    }

    fn promise(&self) -> &'static str {
        "what arrives is what was sent, byte by byte"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        match event.what {
            What::Arrived { from, sent, intact: false, .. } => {
                Err(between(from, event.node, &format!("{sent} arrives with other bytes")))
            }
            _ => Ok(()),
        }
    }
}

/// All the oracles of the transport by itself.
#[derive(Clone, Debug, Default)]
pub struct MessageOracles {
    delivery: Delivery,
    intact: Intact,
}

impl MessageOracles {
    /// How many messages were on their way as their sender crashed, and never arrived. They are owed to nobody.
    pub fn lost_with_sender(&self) -> u64 {
        self.delivery.lost_with_sender
    }
}

impl Oracles for MessageOracles {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        let all: [&dyn Oracle<Event>; 2] = [&self.delivery, &self.intact];
        all.map(|oracle| (oracle.name(), oracle.promise())).to_vec()
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(Violation)) {
        let all: [&mut dyn Oracle<Event>; 2] = [&mut self.delivery, &mut self.intact];
        show(event, all, broken);
    }

    fn ended(&self) -> u64 {
        self.delivery.sent - self.unended()
    }

    fn unended(&self) -> u64 {
        self.delivery.pairs.values().map(Correspondence::open).sum()
    }

    fn finish(&mut self, now: Nanos, _: Nanos) -> Vec<Violation> {
        let broken = |((from, to), pair): (&(u32, u32), &Correspondence)| {
            Some(Delivery::violation(now, *from, *to, &pair.finish().err()?))
        };
        self.delivery.pairs.iter().filter_map(broken).collect()
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        self.delivery.pairs.hash(&mut to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle;

    const fn message(incarnation: u32, number: u32) -> Sent {
        Sent { incarnation, number }
    }

    /// What is said of messages from n0 to n1, of which `sent` were sent before they arrived.
    fn said(sent: u32, then: &[What]) -> Vec<String> {
        let sends = (0..sent).map(|number| What::Sent { to: 1, sent: message(0, number), bytes: 9 });
        let event = |what| {
            let node = match what {
                What::Arrived { .. } | What::Restarted => 1,
                What::Sent { .. } | What::PeerRestarted { .. } => 0,
            };
            Event { at: Nanos::ZERO, node, what }
        };
        let history = sends.chain(then.iter().copied()).map(event);
        let said = oracle::said(&mut MessageOracles::default(), history);
        said.into_iter().map(|violation| violation.text).collect()
    }

    const fn arrives(number: u32) -> What {
        What::Arrived { from: 0, sent: message(0, number), bytes: 9, intact: true }
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn what_a_sender_had_on_its_way_as_it_crashed_is_counted_until_it_arrives() {
        let mut delivery = Delivery::default();
        let mut sees = |node, what| {
            delivery.observe(&Event { at: Nanos::ZERO, node, what }).expect("as promised");
            delivery.lost_with_sender
        };
        (0..3).for_each(|number| {
            assert_eq!(sees(0, What::Sent { to: 1, sent: message(0, number), bytes: 9 }), 0)
        });
        assert_eq!(sees(1, arrives(0)), 0);
        assert_eq!(sees(0, What::Restarted), 2);
        assert_eq!(sees(1, arrives(1)), 1, "it comes late");
        sees(0, What::Sent { to: 1, sent: message(1, 0), bytes: 9 });
        assert_eq!(sees(1, What::Arrived { from: 0, sent: message(1, 0), bytes: 9, intact: true }), 1);
    }

    #[test]
    fn all_in_order_is_as_promised() {
        assert_eq!(said(2, &[arrives(0), arrives(1)]), NOTHING);
    }

    #[test]
    fn twice_late_missing_lost_and_damaged_are_told_apart() {
        assert_eq!(said(1, &[arrives(0), arrives(0)]), ["from n0 to n1: message 0 arrives twice"]);
        assert_eq!(said(2, &[arrives(1), arrives(0)]), ["from n0 to n1: message 0 arrives after message 1"]);
        assert_eq!(
            said(3, &[arrives(0), arrives(2)]),
            [
                "from n0 to n1: message 2 arrives after message 0",
                "from n0 to n1: 1 of 3 never arrive, and 0 were told"
            ]
        );
        assert_eq!(said(2, &[arrives(0)]), ["from n0 to n1: 1 of 2 never arrive, and 0 were told"]);
        let damaged = What::Arrived { from: 0, sent: message(0, 0), bytes: 9, intact: false };
        assert_eq!(said(1, &[damaged]), ["from n0 to n1: message 0 arrives with other bytes"]);
    }

    #[test]
    fn after_a_restart_what_is_gone_must_have_been_told() {
        let told = |lost| What::PeerRestarted { peer: 1, lost };
        // The second of three was in the dead node's memory.
        assert_eq!(said(3, &[arrives(0), What::Restarted, told(1), arrives(2)]), NOTHING);
        assert_eq!(said(3, &[arrives(0), What::Restarted, arrives(2)]).len(), 1);
        // More may be told than is gone: nobody knows what the dead node saw.
        assert_eq!(said(2, &[arrives(0), arrives(1), What::Restarted, told(2)]), NOTHING);
        assert_eq!(said(0, &[told(0)]), ["from n0 to n1: told of 1 restarts, of which there were 0"]);
        assert_eq!(
            said(1, &[arrives(0), What::Restarted, told(1), arrives(0)]).len(),
            1,
            "nothing comes twice"
        );
    }

    /// Two had arrived, and were told to be lost all the same. That excuses none that is sent later.
    #[test]
    fn what_was_told_to_be_lost_and_had_arrived_excuses_nothing_that_is_lost_later() {
        let mut pair = Correspondence::default();
        for number in 0..2 {
            pair.sends();
            assert_eq!(pair.arrives(message(0, number)), Ok(()));
        }
        pair.receiver_restarted();
        assert_eq!(pair.told(2), Ok(()));
        (0..3).for_each(|_| pair.sends());
        assert_eq!(pair.arrives(message(0, 4)), Ok(()));
        assert!(pair.finish().is_err(), "the third and the fourth are nowhere");
    }

    #[test]
    fn what_an_earlier_incarnation_sent_is_owed_to_nobody_but_never_comes_late() {
        let mut pair = Correspondence::default();
        pair.sends();
        pair.sends();
        assert_eq!(pair.arrives(message(0, 0)), Ok(()));
        pair.sender_restarted();
        pair.sends();
        assert_eq!(pair.arrives(message(1, 0)), Ok(()));
        assert_eq!(pair.finish(), Ok(()));
        assert!(pair.arrives(message(0, 1)).is_err());
    }
}
