//! What `[workload]` may say of messages, and what clients send.

use crate::fields::{
    Dice, Rule, Span, Spread, broken, clients, count, draw, in_section, no_time, one, requests_or_duration,
};
use crate::history::ClientId;
use crate::system::Amount;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use weft_sim::choice::Rng;
use weft_verbs::Nanos;

/// `[workload]` with `kind = "messages"`: what the clients send to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageWork {
    /// To whom clients send: `"storm"` (another node each time), `"ring"` (the next node) or `"burst"` (`burst` messages in a
    /// row to the same node, another one each time). Default: `"storm"`.
    #[serde(default)]
    pub pattern: Pattern,
    /// Sending processes on each machine, 1 to 1024. Default: 1.
    #[serde(default = "one")]
    pub clients: u32,
    /// How long messages are, 16 to 65,536 bytes: a length, or a range `{ min = 16, max = 1024 }`, each length equally likely.
    /// Default: 16 to 1,024.
    #[serde(default)]
    pub bytes: Lengths,
    /// How many messages each client sends. Give this or `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
    /// How long clients go on sending, in virtual time. Give this or `messages`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// How long a client rests before each message; with `"burst"`, before each burst. Default: `"0us"`, none.
    #[serde(default = "no_time")]
    pub think: Spread,
    /// `"burst"`: how many messages a burst has, 1 to 100,000. Default: 32, half the credits of a connection.
    #[serde(default = "burst")]
    pub burst: u32,
}

fn burst() -> u32 {
    32
}

/// To whom clients send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// To another node each time.
    #[default]
    Storm,
    /// To the next node.
    Ring,
    /// Several in a row to the same node.
    Burst,
}

/// Lengths of messages in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Lengths {
    /// The shortest.
    pub min: u32,
    /// The longest.
    pub max: u32,
}

impl Default for Lengths {
    fn default() -> Lengths {
        Lengths { min: SHORTEST, max: 1_024 }
    }
}

impl<'de> Deserialize<'de> for Lengths {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Lengths, D::Error> {
        struct Written;
        impl<'de> de::Visitor<'de> for Written {
            type Value = Lengths;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of bytes (64) or a range ({ min = 16, max = 1024 })")
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Lengths, E> {
                let bytes = u32::try_from(bytes).map_err(|_| E::custom("a length is above 0"))?;
                Ok(Lengths { min: bytes, max: bytes })
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Lengths, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Range {
                    min: u32,
                    max: u32,
                }
                let Range { min, max } = Range::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Lengths { min, max })
            }
        }
        from.deserialize_any(Written)
    }
}

/// The shortest message: what its receiver tells it by.
pub(super) const SHORTEST: u32 = 16;
/// The longest message.
const LONGEST: u32 = 65_536;

impl MessageWork {
    /// One client a machine that sends so many messages.
    pub fn of(messages: u32) -> MessageWork {
        MessageWork {
            pattern: Pattern::Storm,
            clients: one(),
            bytes: Lengths::default(),
            messages: Some(messages),
            duration: None,
            think: no_time(),
            burst: burst(),
        }
    }

    /// A workload that is drawn at random.
    pub(super) fn drawn(dice: &mut Dice<'_>) -> MessageWork {
        // Each connection has receive buffers of the longest message, so the longest is no longer than two pages.
        let lengths = [(16, 16), (16, 64), (16, 1_024), (1_000, 5_000), (8_192, 8_192)];
        let (min, max) = dice.among(&lengths);
        MessageWork {
            pattern: dice.among(&[Pattern::Storm, Pattern::Ring, Pattern::Burst]),
            clients: dice.among(&[1, 1, 2, 3]),
            bytes: Lengths { min, max },
            messages: Some(dice.from(3, 60) as u32),
            duration: None,
            think: dice.pause([0, 10, 300]),
            burst: dice.among(&[2, 8, 32, 200]),
        }
    }

    /// How much work there is.
    pub fn amount(&self) -> Amount {
        Amount::of(self.clients, self.messages, self.duration)
    }

    /// Checks what the types of the fields cannot express.
    ///
    /// # Errors
    ///
    /// The first broken rule.
    pub fn check(&self, nodes: u32) -> Rule {
        let at = |field| in_section("workload", field);
        if nodes < 2 {
            return broken(in_section("cluster", "nodes"), "messages take two machines at least".into());
        }
        clients(self.clients)?;
        let Lengths { min, max } = self.bytes;
        if min > max || min < SHORTEST || max > LONGEST {
            return broken(at("bytes"), format!("from {SHORTEST} to {LONGEST}, min not above max"));
        }
        requests_or_duration("messages", self.messages, self.duration)?;
        count(at("burst"), self.burst, 100_000, "give the messages of one burst")
    }
}

/// One message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// To which node.
    pub to: u32,
    /// How long it is.
    pub bytes: u32,
}

/// What one client sends. The same seed and client give the same messages, whatever becomes of them.
#[derive(Clone, Debug)]
pub struct Plan {
    work: MessageWork,
    nodes: u32,
    node: u32,
    rng: Rng,
    /// The node that a burst goes to, and how many are left of it.
    burst: (u32, u32),
}

impl Plan {
    /// The plan of one client among so many nodes in the run of one seed.
    pub fn new(work: &MessageWork, nodes: u32, seed: u64, client: ClientId) -> Plan {
        let [rng] = draw::of_client(seed ^ 0x6d65_7373_0000_0000, client);
        Plan { work: work.clone(), nodes, node: client.node, rng, burst: (0, 0) }
    }

    /// The next message, and how long the client rests before it.
    pub fn next_message(&mut self) -> (Nanos, Request) {
        let Lengths { min, max } = self.work.bytes;
        let bytes = min + self.rng.below(u64::from(max - min) + 1) as u32;
        let think = draw::time(&mut self.rng, self.work.think);
        let another = (self.node + 1 + self.rng.below(u64::from(self.nodes) - 1) as u32) % self.nodes;
        let (think, to) = match self.work.pattern {
            Pattern::Storm => (think, another),
            Pattern::Ring => (think, (self.node + 1) % self.nodes),
            Pattern::Burst => {
                let begins = self.burst.1 == 0;
                if begins {
                    self.burst = (another, self.work.burst);
                }
                self.burst.1 -= 1;
                (if begins { think } else { Nanos::ZERO }, self.burst.0)
            }
        };
        (think, Request { to, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(pattern: Pattern, node: u32, seed: u64) -> Vec<Request> {
        let work = MessageWork { pattern, burst: 4, ..MessageWork::of(1) };
        let mut plan = Plan::new(&work, 5, seed, ClientId { node, index: 0 });
        (0..400).map(|_| plan.next_message().1).collect()
    }

    #[test]
    fn nobody_sends_to_itself_and_lengths_are_those_of_the_scenario() {
        for pattern in [Pattern::Storm, Pattern::Ring, Pattern::Burst] {
            for Request { to, bytes } in messages(pattern, 3, 1) {
                assert!(to != 3 && to < 5 && (16..=1_024).contains(&bytes), "{pattern:?} {to} {bytes}");
            }
        }
    }

    #[test]
    fn a_pattern_is_what_its_name_says() {
        assert!(messages(Pattern::Ring, 4, 1).iter().all(|message| message.to == 0));
        assert!(
            messages(Pattern::Burst, 0, 1).chunks(4).all(|burst| burst.iter().all(|m| m.to == burst[0].to))
        );
        let storm = messages(Pattern::Storm, 0, 1);
        assert!((1..5).all(|node| storm.iter().filter(|message| message.to == node).count() > 60));
    }

    #[test]
    fn a_plan_is_its_seeds_and_its_clients() {
        let one = messages(Pattern::Storm, 0, 1);
        assert_eq!(one, messages(Pattern::Storm, 0, 1));
        assert_ne!(one, messages(Pattern::Storm, 0, 2));
    }
}
