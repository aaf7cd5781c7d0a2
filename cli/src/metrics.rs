//! A system's figures for people: tables of counts and of times.

use crate::table::{self, Table, count, micros};
use weft_check::metrics::{Group, Latencies, Layout, Metrics, Percentiles};

/// A table of counted numbers.
pub fn group(group: &Group) -> Table {
    let numbers = group.counts.iter();
    let is_wide =
        numbers.clone().map(|of| table::column(of.label, &count(of.value))).sum::<usize>() > table::WIDTH;
    match group.layout {
        Layout::Row if is_wide => listed(group, "what", "count"),
        Layout::Row => {
            let heads: Vec<&str> = numbers.clone().map(|of| of.label).collect();
            let mut table = Table::new(group.title, 0, &heads);
            table.line(numbers.map(|of| count(of.value)).collect());
            table
        }
        Layout::Column(head) => listed(group, head, "count"),
        Layout::Figures(head, figure) => listed(group, head, figure),
    }
}

/// A line for each number.
fn listed(group: &Group, what: &str, figure: &str) -> Table {
    let mut table = Table::new(group.title, 1, &[what, figure]);
    for of in &group.counts {
        table.row([of.label.to_string(), count(of.value)]);
    }
    table
}

/// The unit of times, as tables of them have it.
#[derive(Clone, Copy)]
pub enum Clock {
    /// The simulated fabric's.
    Virtual,
    /// A real one.
    #[cfg(feature = "hw")]
    Real,
}

/// A table of times with their unit.
pub fn title(of: &str, clock: Clock) -> String {
    match clock {
        Clock::Virtual => format!("{of}, in microseconds of virtual time"),
        #[cfg(feature = "hw")]
        Clock::Real => format!("{of}, in microseconds"),
    }
}

/// All of a system's tables: what came of requests, how long that took, and the rest.
pub fn figures(metrics: &Metrics, clock: Clock, text: &mut String) {
    let (first, rest) = metrics.groups.split_at(metrics.groups.len().min(1));
    first.iter().for_each(|of| group(of).print(text));
    metrics.latencies.iter().for_each(|of| latencies(of, clock).print(text));
    rest.iter().for_each(|of| group(of).print(text));
}

/// A table of distributions of times.
fn latencies(of: &Latencies, clock: Clock) -> Table {
    let [what, counted] = of.heads;
    let title = title(of.title, clock);
    let mut table = Table::new(&title, 1, &[what, counted, "min", "mean", "p50", "p90", "p99", "max"]);
    for (name, times) in &of.rows {
        table.row(percentiles(name, times));
    }
    table
}

/// A time of a distribution of so many: where there is none, it has none.
pub fn time(of: u64) -> impl Fn(u64) -> String {
    move |nanos| if of == 0 { "-".to_string() } else { micros(nanos) }
}

fn percentiles(name: &str, of: &Percentiles) -> [String; 8] {
    let Percentiles { count: n, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, max_ns } = *of;
    let [min, mean, p50, p90, p99, max] = [min_ns, mean_ns, p50_ns, p90_ns, p99_ns, max_ns].map(time(n));
    [name.to_string(), count(n), min, mean, p50, p90, p99, max]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_do_not_fit_a_line_of_a_terminal_have_a_line_each() {
        let printed = |labels: &[&'static str]| {
            let counts: Vec<_> = labels.iter().map(|&label| (label, label, 1_234_567)).collect();
            let mut text = String::new();
            group(&Group::new("calls", "Calls", Layout::Row, &counts)).print(&mut text);
            text
        };
        // Each takes eleven columns.
        let seven = printed(&["got"; 7]);
        assert_eq!(seven.lines().map(str::len).collect::<Vec<_>>(), [0, 5, 77, 77]);
        let eight = printed(&["got"; 8]);
        assert_eq!(eight.lines().count(), 3 + 8, "{eight}");
        assert!(eight.contains("\n  what      count\n  got   1,234,567\n"), "{eight}");
    }
}
