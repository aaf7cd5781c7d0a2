//! What kept the nodes of a run from each other: each thing once, however often it was said.

use crate::table::count;

/// What nodes have said, and how often it came.
#[derive(Debug, Default)]
pub struct Troubles(Vec<(String, u64)>);

impl Troubles {
    /// It came so often since it was said last.
    pub fn add(&mut self, why: String, times: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == why) {
            Some((_, so_far)) => *so_far += times,
            None => self.0.push((why, times)),
        }
    }

    /// A sentence each, in the order in which they came first.
    pub fn told(self) -> Vec<String> {
        let told = |(why, times)| match times {
            0 | 1 => why,
            times => format!("{why} ({} times)", count(times)),
        };
        self.0.into_iter().map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_with_each_attempt_is_told_once_with_how_often_it_came() {
        let mut troubles = Troubles::default();
        for (why, times) in [("n1: no memory", 3), ("n2: no answer", 1), ("n1: no memory", 1_200)] {
            troubles.add(why.to_string(), times);
        }
        assert_eq!(troubles.told(), ["n1: no memory (1,203 times)", "n2: no answer"]);
    }
}
