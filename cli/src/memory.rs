//! Memory that runs out ends the program in one line, and not in an abort or by the system's hand.
//!
//! What a run will take cannot be known before it: the messages that wait depend on its faults. So a thread looks several times a
//! second at what is left, and asks the run to stop while there is enough to end it in order.

use crate::exit::Exit;
use crate::{interrupt, logfile};
use std::fs;
use std::io::Write;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// Between two looks. A run takes some ten MiB meanwhile.
const PERIOD: Duration = Duration::from_millis(20);
/// How long a run has to stop in order.
const GRACE: Duration = Duration::from_secs(2);
const MIB: u64 = 1 << 20;

/// Why the run was stopped, if it was for want of memory.
static SHORT: OnceLock<String> = OnceLock::new();

/// What ended the program, if it was that.
pub fn shortage() -> Option<&'static str> {
    SHORT.get().map(String::as_str)
}

/// Watches from now on. Where the system does not say what is left, nothing happens.
pub fn watch() {
    let _ = thread::Builder::new().name("memory".into()).spawn(|| {
        while SHORT.get().is_none() {
            thread::sleep(PERIOD);
            if let Some(why) = scarce(&|path| fs::read_to_string(path).ok()) {
                let _ = SHORT.set(format!("out of memory: {why}: make the cluster or the workload smaller"));
            }
        }
        interrupt::request();
        thread::sleep(GRACE);
        // Nobody has asked whether to stop: the cluster is still being built, say.
        let _ = writeln!(std::io::stderr(), "weft: {}", shortage().unwrap_or("out of memory"));
        logfile::abandon();
        std::process::exit(Exit::Unfinished as i32);
    });
}

/// What is nearly used up, if anything is; `read` reads files of the system.
fn scarce(read: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let machine = || {
        let text = read("/proc/meminfo")?;
        let (all, left) = (kib(&text, "MemTotal:")?, kib(&text, "MemAvailable:")?);
        (left < (all / 64).max(64 * MIB)).then(|| format!("{} MiB are left on this machine", left / MIB))
    };
    let process = || {
        let limits = read("/proc/self/limits")?;
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
        let limit: u64 = limit.split_whitespace().next()?.parse().ok()?;
        let left = limit.saturating_sub(kib(&read("/proc/self/status")?, "VmSize:")?);
        // The allocator takes addresses by large pieces, more than it uses.
        (left < (limit / 4).min(1024 * MIB)).then(|| {
            format!(
                "{} MiB are left of the {} MiB that a process may take (ulimit -v)",
                left / MIB,
                limit / MIB
            )
        })
    };
    let group = || {
        let limit: u64 = read("/sys/fs/cgroup/memory.max")?.trim().parse().ok()?;
        let text = read("/sys/fs/cgroup/memory.stat")?;
        let used = text.lines().find_map(|line| line.strip_prefix("anon "))?.trim().parse().ok()?;
        let left = limit.saturating_sub(used);
        (left < (limit / 64).max(32 * MIB))
            .then(|| format!("{} MiB are left of the {} MiB of its control group", left / MIB, limit / MIB))
    };
    process().or_else(group).or_else(machine)
}

/// A figure in kibibytes, as bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(files: &[(&str, &str)]) -> Option<String> {
        scarce(&|path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_string()))
    }

    #[test]
    fn what_is_nearly_used_up_is_named() {
        let memory = |left: u64| format!("MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable: {left} kB\n");
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[("/proc/meminfo", &memory(1_000_000))]), None);
        assert_eq!(said(&[("/proc/meminfo", &memory(102_400))]).unwrap(), "100 MiB are left on this machine");
        let limits = "Max cpu time  unlimited\nMax address space  1073741824  unlimited  bytes\n";
        let with = |size: &str| said(&[("/proc/self/limits", limits), ("/proc/self/status", size)]);
        assert_eq!(with("VmSize:  700000 kB\n"), None);
        assert!(with("VmSize: 1000000 kB\n").unwrap().contains("of the 1024 MiB that a process may take"));
        let unlimited = "Max address space  unlimited  unlimited  bytes\n";
        assert_eq!(said(&[("/proc/self/limits", unlimited), ("/proc/self/status", "VmSize: 9 kB\n")]), None);
        let group = |used: &str| {
            said(&[("/sys/fs/cgroup/memory.max", "1073741824\n"), ("/sys/fs/cgroup/memory.stat", used)])
        };
        assert_eq!(group("anon 500000000\nfile 900000000\n"), None);
        assert!(group("anon 1073000000\nfile 0\n").unwrap().contains("control group"));
        assert_eq!(said(&[("/sys/fs/cgroup/memory.max", "max\n")]), None);
    }
}
