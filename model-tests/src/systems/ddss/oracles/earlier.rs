//! Earlier versions that are got by their distance from the current one: model delta.

use super::super::history::{Event, What};
use crate::history::RequestId;
use crate::oracle::Oracle;
use std::collections::BTreeMap;

/// A get of the version so many before the current one returns none that is nearer. The current version is at most as high as there are puts
/// that were called before the get returned: each makes one version at most. (That it returns none that is further back
/// [`Latest`](super::Latest) judges.)
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Earlier {
    /// Gets under way.
    asked: BTreeMap<RequestId, Asked>,
    /// Of each call under way that puts, how often.
    putting: BTreeMap<RequestId, u64>,
    /// By name, how many puts were called.
    called: BTreeMap<u64, u64>,
    /// Of those, how many found the lock taken.
    locked: BTreeMap<u64, u64>,
    /// How many have ended: by name, and which of the segments that had the name they were on.
    ended: BTreeMap<(u64, u64), u64>,
}

/// A get under way. What had ended before it began is no version of its segment if it was on another one; of what ends later nobody asks, so
/// that it does not matter which of two calls ends first.
#[derive(Clone, Debug, Hash)]
struct Asked {
    /// How far back it asks for.
    back: u8,
    /// Puts that had found the lock taken.
    locked: u64,
    /// Puts that had ended, by the segment of the name that they were on.
    ended: BTreeMap<u64, u64>,
}

impl Earlier {
    /// A call begins that puts.
    fn puts(&mut self, event: &Event) {
        let times = event.what.puts();
        self.putting.insert(event.request, times);
        *self.called.entry(event.segment).or_default() += times;
    }

    /// Whether a call that is under way asks for an earlier version.
    pub fn is_asked_by(&self, call: RequestId) -> bool {
        self.asked.contains_key(&call)
    }

    fn asks(&mut self, event: &Event, back: u8) {
        let of_name = self.ended.range((event.segment, 0)..=(event.segment, u64::MAX));
        let ended = of_name.map(|((_, life), times)| (*life, *times)).collect();
        let locked = self.locked.get(&event.segment).copied().unwrap_or(0);
        self.asked.insert(event.request, Asked { back, locked, ended });
    }

    fn got(&self, event: &Event, asked: &Asked, version: u64) -> Result<(), String> {
        let Asked { back, locked, ended } = asked;
        let back = *back;
        let elsewhere: u64 = ended.iter().filter(|(of, _)| **of != event.life).map(|(_, times)| times).sum();
        let called = self.called.get(&event.segment).copied().unwrap_or(0);
        let highest = called.saturating_sub(locked + elsewhere);
        if version <= highest.saturating_sub(back.into()) {
            return Ok(());
        }
        Err(format!("{event}, and asked for {back} before the current one, which is {highest} at most"))
    }

    fn ends(&mut self, event: &Event) {
        let Some(times) = self.putting.remove(&event.request) else { return };
        if event.what == What::Locked {
            *self.locked.entry(event.segment).or_default() += times;
        } else if event.life > 0 {
            *self.ended.entry((event.segment, event.life)).or_default() += times;
        }
    }
}

impl Oracle<Event> for Earlier {
    fn name(&self) -> &'static str {
        "earlier"
    }

    fn promise(&self) -> &'static str {
        "an earlier version is as far back as was asked for"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        match event.what {
            what if what.puts() > 0 => self.puts(event),
            What::GetsEarlier { back } => self.asks(event, back),
            What::Gets | What::Releases | What::Holds { .. } | What::Crashed | What::LeftOut => {}
            What::Got { version: Some(version), .. } => {
                let asked = self.asked.remove(&event.request);
                return asked.map_or(Ok(()), |asked| self.got(event, &asked, version));
            }
            _ => {
                self.asked.remove(&event.request);
                self.ends(event);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::history::Value;
    use super::*;
    use crate::history::ClientId;

    /// A history of one segment: by a request of each number, and which segment of the name it was on.
    fn refused(history: &[(u32, u64, What)]) -> usize {
        let mut earlier = Earlier::default();
        let client = ClientId { node: 0, index: 0 };
        let event = |number, life, what| {
            let request = RequestId { client, number };
            Event { at_ns: 0, request, segment: 1, life, what }
        };
        history
            .iter()
            .filter(|(number, life, what)| earlier.observe(&event(*number, *life, *what)).is_err())
            .count()
    }

    const fn got(version: u64) -> What {
        What::Got { value: Value::Zero, version: Some(version) }
    }

    const fn put(version: u64) -> What {
        What::Put { version: Some(version) }
    }

    /// Three puts, of which two have ended, and one finds the lock taken; then a get.
    fn after_three(asks: What, version: u64) -> usize {
        refused(&[
            (0, 0, What::Puts),
            (0, 5, put(1)),
            (1, 0, What::Puts),
            (2, 0, What::Exchanges),
            (3, 0, What::Exchanges),
            (2, 5, What::Exchanged { value: Value::Zero, got: Some(1), put: Some(2) }),
            (3, 5, What::Locked),
            (4, 0, asks),
            (4, 5, got(version)),
        ])
    }

    #[test]
    fn a_version_that_is_nearer_than_was_asked_for_is_noticed() {
        let back = |back, version| after_three(What::GetsEarlier { back }, version);
        assert_eq!([back(0, 3), back(1, 2), back(2, 1), back(4, 0)], [0; 4], "the third put may be there");
        assert_eq!([back(0, 4), back(1, 3), back(2, 2), back(4, 1)], [1; 4]);
        assert_eq!(after_three(What::Gets, 9), 0, "a get of the current version is not judged here");
    }

    #[test]
    fn puts_to_a_segment_that_had_the_name_before_say_nothing_of_the_next_one() {
        let of = |life, version| {
            refused(&[
                (0, 0, What::Puts),
                (0, 5, put(1)),
                (1, 0, What::Puts),
                (1, 6, put(1)),
                (2, 0, What::GetsEarlier { back: 1 }),
                (2, life, got(version)),
            ])
        };
        assert_eq!((of(6, 0), of(6, 1), of(5, 1)), (0, 1, 1));
    }

    #[test]
    fn a_put_that_failed_may_be_there_for_ever() {
        let history =
            [(0, 0, What::Puts), (0, 0, What::Lost), (1, 0, What::GetsEarlier { back: 0 }), (1, 5, got(1))];
        assert_eq!(refused(&history), 0);
    }
}
