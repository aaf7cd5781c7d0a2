//! How much memory and processor time this takes, where the system says so.

use std::fs;

/// What the process has in memory now, in bytes.
pub(super) fn resident() -> Option<u64> {
    status("VmRSS:")
}

/// The most that the process has had in memory, in bytes.
pub(super) fn peak() -> Option<u64> {
    status("VmHWM:")
}

/// A line of Linux's report on this process; other systems have none.
fn status(field: &str) -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/self/status").ok()?, field).map(|n| n * 1024)
}

fn kibibytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// For how long this thread has had a processor, in seconds. Unlike the wall clock it does not run while others
/// have it.
pub(super) fn on_processor() -> Option<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<u64>().ok()? as f64 / 1e9)
}

/// Fewer things than this are lost in what the process takes and gives back by pages.
const ENOUGH: u64 = 256;

/// How much memory grew between two looks, for each of `n` things that were made in between.
pub(super) fn each(before: Option<u64>, after: Option<u64>, n: u64) -> Option<u64> {
    (n >= ENOUGH).then_some(after?.saturating_sub(before?) / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_report_is_read() {
        let text = "Name:\tweft\nVmHWM:\t    2048 kB\nVmRSS:\t     100 kB\n";
        assert_eq!(kibibytes(text, "VmHWM:"), Some(2048));
        assert_eq!(kibibytes(text, "VmSwap:"), None);
        assert_eq!(kibibytes("VmHWM:\t many\n", "VmHWM:"), None);
    }

    #[test]
    fn what_is_not_known_is_not_divided() {
        assert_eq!(each(Some(100), Some(100_100), 1_000), Some(100));
        assert_eq!(each(Some(100), None, 1_000), None);
        assert_eq!(each(Some(100), Some(400), 3), None);
    }
}
