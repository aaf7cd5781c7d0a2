//! How much memory the process takes, where the system says so.

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

/// How much grew between two looks, for each of `n` things that were made in between.
pub(super) fn each(before: Option<u64>, after: Option<u64>, n: u64) -> Option<u64> {
    Some(after?.saturating_sub(before?) / n.max(1))
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
        assert_eq!(each(Some(100), Some(400), 3), Some(100));
        assert_eq!(each(Some(100), None, 3), None);
    }
}
