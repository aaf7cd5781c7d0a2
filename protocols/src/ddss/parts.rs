//! What a node has to do with a segment, by its home, where nodes agree on who is alive.
//!
//! A node that died may have left its lock in the header, and a turn in the line. Its next incarnation goes by the same rank, so it has no
//! part in the segment before that is gone: it would take the lock for its own, and lose it to the home's late swap.

/// A request for a part in a segment, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// The segment was opened by its name.
    Opens(u64),
    /// It was by its key.
    Joins(u64),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    /// It has never had one.
    #[default]
    None,
    /// It has one.
    Has {
        /// An earlier incarnation had one, too.
        again: bool,
    },
    /// What it has is being taken away. Requests of its next incarnation wait for that.
    Ends(Vec<Waits>),
    /// It had one, and nothing of that is left.
    Had,
}

impl Part {
    /// It is to have one. Says whether an earlier incarnation had one; none if the request waits.
    pub fn begin(&mut self, waits: Waits) -> Option<bool> {
        let again = match self {
            Part::Ends(waiting) => {
                waiting.push(waits);
                return None;
            }
            Part::Has { again } => *again,
            Part::Had => true,
            Part::None => false,
        };
        *self = Part::Has { again };
        Some(again)
    }

    /// It has none any more. Says whether it had one, so that what is left of it is to be taken away. One that has died before its
    /// part began waits for nothing.
    pub fn end(&mut self) -> bool {
        self.end_waiting();
        let had = matches!(self, Part::Has { .. });
        if had {
            *self = Part::Ends(Vec::new());
        }
        had
    }

    /// Nobody waits for a part any more. Who did.
    pub fn end_waiting(&mut self) -> Vec<Waits> {
        if let Part::Ends(waiting) = self { std::mem::take(waiting) } else { Vec::new() }
    }

    /// Nothing is left of it. Whose requests have waited for that: they have a part.
    pub fn ended(&mut self) -> Vec<Waits> {
        let waiting = self.end_waiting();
        if matches!(self, Part::Ends(_)) {
            *self = if waiting.is_empty() { Part::Had } else { Part::Has { again: true } };
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_incarnation_has_a_part_once_nothing_of_the_last_one_is_left() {
        let mut part = Part::default();
        assert_eq!(part.begin(Waits::Opens(1)), Some(false));
        assert_eq!((part.end(), part.end()), (true, false), "it is taken away once");
        assert_eq!(part.begin(Waits::Joins(2)), None);
        // That one dies as well, and the next one comes.
        assert!(!part.end());
        assert_eq!(part.begin(Waits::Opens(3)), None);
        assert_eq!(part.ended(), [Waits::Opens(3)]);
        assert_eq!(part.begin(Waits::Joins(4)), Some(true));
        assert!(part.end());
        assert_eq!(part.ended(), []);
        assert_eq!(part, Part::Had);
        assert_eq!(part.ended(), []);
        assert_eq!(part.begin(Waits::Opens(5)), Some(true));
    }
}
