//! A run's figures as data: what a system measured, in a form that reports print, sums add up and programs read.

use hdrhistogram::Histogram;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use weft_verbs::Nanos;

/// A system's figures of one run, or of many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Figures a second of virtual time.
    pub rates: Vec<Rate>,
    /// Numbers that were counted, in tables.
    pub groups: Vec<Group>,
    /// How long things took, in tables.
    pub latencies: Vec<Latencies>,
    /// A distribution that is worth a picture.
    pub picture: Option<Curves>,
}

/// Distributions of times in full, each by its name: which share of them is at most so long.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// What they are of, without the unit.
    pub title: &'static str,
    /// From the shortest time up, in nanoseconds, and the share of those that are no longer.
    pub curves: Vec<(&'static str, Vec<(u64, f64)>)>,
}

/// So many a second of virtual time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Its name for programs.
    pub key: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// How many a second.
    pub value: f64,
}

impl Rate {
    /// So many in a span of time.
    pub fn of(key: &'static str, label: &'static str, number: u64, span: Nanos) -> Rate {
        let seconds = span.as_secs_f64();
        Rate { key, label, value: if seconds > 0.0 { number as f64 / seconds } else { 0.0 } }
    }
}

/// A table of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name for programs.
    pub key: &'static str,
    /// Its title for people.
    pub title: &'static str,
    /// How it is laid out.
    pub layout: Layout,
    /// The numbers.
    pub counts: Vec<Count>,
    /// Whether a sum over many runs has it: a sum of the most of each run says nothing, nor one of percents or of means. All runs of a
    /// scenario have those that do, in the same order: a sum that is added in another order is then the same.
    pub adds_up: bool,
}

impl Group {
    /// A table of numbers that add up over many runs: each with its name for programs and for people.
    pub fn new(
        key: &'static str,
        title: &'static str,
        layout: Layout,
        counts: &[(&'static str, &'static str, u64)],
    ) -> Group {
        let count = |&(key, label, value): &_| Count { key, label, value };
        Group { key, title, layout, counts: counts.iter().map(count).collect(), adds_up: true }
    }
}

/// How a table of numbers is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One line, with a column for each number, where they fit a terminal; otherwise a line for each.
    Row,
    /// A line for each number, under this head.
    Column(&'static str),
    /// A line for each number, which is no count: the heads of the lines' names and of the numbers.
    Figures(&'static str, &'static str),
}

/// A number that was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Its name for programs.
    pub key: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// The number.
    pub value: u64,
}

/// A table of distributions of times.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    /// Its name for programs.
    pub key: &'static str,
    /// Its title for people, without the unit.
    pub title: &'static str,
    /// What its lines tell apart, and what each counts.
    pub heads: [&'static str; 2],
    /// The distributions by name.
    pub rows: Vec<(&'static str, Percentiles)>,
}

/// A distribution; all zero if it is empty. What is between its ends is to three significant digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many values it has.
    pub count: u64,
    /// The smallest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The value that 90 % do not exceed.
    pub p90_ns: u64,
    /// The value that 99 % do not exceed.
    pub p99_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

/// Times as they are measured: the shortest, the longest and their sum as they are, the others to three significant digits.
#[derive(Clone, Debug)]
pub struct Times {
    all: Histogram<u64>,
    least: u64,
    most: u64,
    sum: u128,
}

impl Default for Times {
    fn default() -> Times {
        // The highest trackable value grows by itself.
        let all = Histogram::new(3).expect("three digits are within the histogram's bounds");
        Times { all, least: u64::MAX, most: 0, sum: 0 }
    }
}

impl Times {
    /// One more.
    pub fn add(&mut self, time: Nanos) {
        // It grows as it must: the clamp of `saturating_record` would be to its present size.
        self.all.record(time.0).expect("a histogram that resizes takes any value");
        self.least = self.least.min(time.0);
        self.most = self.most.max(time.0);
        self.sum += u128::from(time.0);
    }

    /// Their distribution in full: each time that was, and the share of those that are no longer.
    pub fn curve(&self) -> Vec<(u64, f64)> {
        let (mut seen, all) = (0, self.all.len() as f64);
        let point = |of: hdrhistogram::iterators::IterationValue<u64>| {
            seen += of.count_since_last_iteration();
            (self.within(of.value_iterated_to()), seen as f64 / all)
        };
        self.all.iter_recorded().map(point).collect()
    }

    /// A value of the histogram, which stands for all that share its digits, but for those that were not.
    fn within(&self, value: u64) -> u64 {
        value.max(self.least).min(self.most)
    }

    /// Their distribution.
    pub fn percentiles(&self) -> Percentiles {
        if self.all.is_empty() {
            return Percentiles::default();
        }
        let at = |percent| self.within(self.all.value_at_percentile(percent));
        Percentiles {
            count: self.all.len(),
            min_ns: self.least,
            mean_ns: (self.sum / u128::from(self.all.len())) as u64,
            p50_ns: at(50.0),
            p90_ns: at(90.0),
            p99_ns: at(99.0),
            max_ns: self.most,
        }
    }
}

impl Metrics {
    /// The number of this name in a group.
    pub fn count(&self, group: &str, count: &str) -> u64 {
        let group = self.groups.iter().find(|of| of.key == group);
        group.and_then(|of| of.counts.iter().find(|of| of.key == count)).map_or(0, |count| count.value)
    }

    /// The rate of this name.
    pub fn rate(&self, key: &str) -> f64 {
        self.rates.iter().find(|rate| rate.key == key).map_or(0.0, |rate| rate.value)
    }

    /// The distribution of this name in a table.
    pub fn latency(&self, table: &str, row: &str) -> Percentiles {
        let table = self.latencies.iter().find(|of| of.key == table);
        let row = table.and_then(|of| of.rows.iter().find(|(name, _)| *name == row));
        row.map(|(_, of)| *of).unwrap_or_default()
    }

    /// Adds the numbers of another run that add up. Rates and distributions of several runs do not.
    pub fn add(&mut self, other: &Metrics) {
        for theirs in other.groups.iter().filter(|group| group.adds_up) {
            match self.groups.iter_mut().find(|group| group.key == theirs.key) {
                None => self.groups.push(theirs.clone()),
                Some(ours) => {
                    for count in &theirs.counts {
                        match ours.counts.iter_mut().find(|known| known.key == count.key) {
                            Some(known) => known.value += count.value,
                            None => ours.counts.push(*count),
                        }
                    }
                }
            }
        }
    }
}

/// Each table under its key, with a field for each number.
impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for rate in &self.rates {
            map.serialize_entry(rate.key, &rate.value)?;
        }
        for group in &self.groups {
            map.serialize_entry(group.key, &Fields(group.counts.iter().map(|of| (of.key, of.value))))?;
        }
        for table in &self.latencies {
            map.serialize_entry(table.key, &Fields(table.rows.iter().copied()))?;
        }
        map.end()
    }
}

/// Named values as the fields of an object.
struct Fields<I>(I);

impl<I: Iterator<Item = (&'static str, T)> + Clone, T: Serialize> Serialize for Fields<I> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_to_three_digits() {
        let mut times = Times::default();
        assert_eq!(times.percentiles(), Percentiles::default());
        (0..100).for_each(|number| times.add(Nanos(100_000 * number)));
        let of = times.percentiles();
        assert_eq!((of.count, of.min_ns), (100, 0));
        assert_eq!((of.mean_ns, of.max_ns), (4_950_000, 9_900_000));
        assert!(of.p50_ns.abs_diff(4_900_000) <= 4_900, "{}", of.p50_ns);
    }

    #[test]
    fn the_distribution_of_one_time_is_that_time() {
        let mut times = Times::default();
        times.add(Nanos(37_200_123));
        let of = times.percentiles();
        let all = [of.min_ns, of.mean_ns, of.p50_ns, of.p90_ns, of.p99_ns, of.max_ns];
        assert_eq!((all, times.curve()), ([37_200_123; 6], vec![(37_200_123, 1.0)]));
    }

    fn group(value: u64, adds_up: bool) -> Group {
        Group { adds_up, ..Group::new("requests", "Requests", Layout::Row, &[("made", "made", value)]) }
    }

    #[test]
    fn numbers_of_several_runs_add_up_where_that_says_something() {
        let mut sum = Metrics::default();
        for value in [3, 4] {
            sum.add(&Metrics { groups: vec![group(value, true)], ..Metrics::default() });
            sum.add(&Metrics { groups: vec![group(100, false)], ..Metrics::default() });
        }
        assert_eq!(sum.count("requests", "made"), 7);
    }

    #[test]
    fn a_program_reads_each_table_under_its_key() {
        let metrics = Metrics {
            picture: None,
            rates: vec![Rate::of("made_per_second", "made a second", 10, Nanos::from_secs(2))],
            groups: vec![group(3, true)],
            latencies: Vec::new(),
        };
        let json = serde_json::to_value(&metrics).expect("plain data");
        assert_eq!(json, serde_json::json!({ "made_per_second": 5.0, "requests": { "made": 3 } }));
    }
}
