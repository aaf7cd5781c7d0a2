//! What a process that waits for others says meanwhile: for whom, every two seconds.

use std::io::Write;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(2);

/// Somebody waits.
pub struct Waiting {
    told: Instant,
}

impl Waiting {
    /// From now on.
    pub fn new() -> Waiting {
        Waiting { told: Instant::now() }
    }

    /// Says for whom, on standard error, if it is time to.
    pub fn tell(&mut self, whom: impl FnOnce() -> String) {
        if self.told.elapsed() >= EVERY {
            self.told = Instant::now();
            // Nobody may be reading.
            let _ = writeln!(std::io::stderr().lock(), "waiting for {}", whom());
        }
    }
}

/// The nodes that have not come, by whether each one has.
pub fn nodes(came: impl ExactSizeIterator<Item = bool>) -> String {
    let all = came.len();
    let missing = came.enumerate().filter(|(_, came)| !came);
    let missing: Vec<String> = missing.map(|(rank, _)| rank.to_string()).collect();
    let word = if missing.len() == 1 { "node" } else { "nodes" };
    format!("{word} {} of {all}", missing.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_that_have_not_come_are_named() {
        assert_eq!(nodes([true, false, false].into_iter()), "nodes 1, 2 of 3");
        assert_eq!(nodes([false, true].into_iter()), "node 0 of 2");
    }

    #[test]
    fn one_who_waits_says_so_every_two_seconds_and_not_more_often() {
        let (mut waiting, mut said) = (Waiting::new(), 0);
        waiting.tell(|| unreachable!("it has only begun"));
        for _ in 0..2 {
            waiting.told -= EVERY;
            waiting.tell(|| {
                said += 1;
                "node 1".into()
            });
            waiting.tell(|| unreachable!("it has just said so"));
        }
        assert_eq!(said, 2);
    }
}
