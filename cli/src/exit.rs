//! How the program ends: its exit codes, and the one line that says why.

use crate::output;
use std::fmt;
use std::process::ExitCode;
use weft_check::Verdict;
use weft_check::run::RunError;
use weft_store::StoreRefused;

/// The program's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// Everything that must hold held.
    Held = 0,
    /// An oracle was violated.
    Violated = 1,
    /// Bad input: a scenario, an option or a file that cannot be used.
    BadInput = 2,
    /// The run could not finish.
    Unfinished = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Exit {
        match verdict {
            Verdict::Held => Exit::Held,
            Verdict::HeldSoFar => Exit::Unfinished,
            Verdict::Violated => Exit::Violated,
        }
    }
}

/// A reason to end without a result: one line for people, and the exit code.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    line: String,
}

impl Failure {
    /// The user gave something that cannot be used.
    pub fn bad_input(line: impl fmt::Display) -> Failure {
        Failure::new(Exit::BadInput, line)
    }

    /// This build drives no devices, and something wants one.
    #[cfg(not(feature = "hw"))]
    pub fn no_devices(what: &str) -> Failure {
        Failure::bad_input(format!(
            "{what} needs a build that drives devices, and this one does not: cargo build --release -p weft --features hw \
             (hw-backend/README.md says what that takes)"
        ))
    }

    /// The program could not do what it was asked.
    pub fn unfinished(line: impl fmt::Display) -> Failure {
        Failure::new(Exit::Unfinished, line)
    }

    /// The user asked to stop.
    pub fn interrupted() -> Failure {
        Failure::unfinished("interrupted")
    }

    /// A promise was broken, and there is no report to show it in.
    pub fn violated(line: impl fmt::Display) -> Failure {
        Failure::new(Exit::Violated, line)
    }

    /// A node that its devices ended did not do what it was for.
    #[cfg(feature = "hw")]
    pub fn of_devices(fatal: Option<weft_verbs::VerbsError>) -> Result<(), Failure> {
        fatal.map_or(Ok(()), |why| Err(Failure::unfinished(format!("this node has ended: {why}"))))
    }

    /// A store cannot be used: somebody has to set that right first, or only to wait.
    pub fn store(why: StoreRefused) -> Failure {
        match why {
            StoreRefused::Busy { .. } => Failure::unfinished(why),
            _ => Failure::bad_input(why),
        }
    }

    /// Why a run gave no report.
    pub fn of_run(error: &RunError) -> Failure {
        match error {
            RunError::Cluster(_) => Failure::bad_input(error),
            RunError::Interrupted { .. } => Failure::unfinished(error),
        }
    }

    /// An error's text may span lines (a TOML parser draws the place); it is told in one.
    fn new(exit: Exit, line: impl fmt::Display) -> Failure {
        let line = line.to_string();
        Failure { exit, line: line.split_whitespace().collect::<Vec<_>>().join(" ") }
    }

    /// The same, with where it happened in front.
    pub fn at(self, place: impl fmt::Display) -> Failure {
        Failure { line: format!("{place}: {}", self.line), ..self }
    }

    /// The same, with what else is to be known behind it.
    pub fn and(self, more: impl fmt::Display) -> Failure {
        Failure { line: format!("{}; {more}", self.line), ..self }
    }

    /// The same, with what its reader knows in place of what it does not know.
    pub fn saying(self, known: &str, instead_of: &str) -> Failure {
        Failure { line: self.line.replace(instead_of, known), ..self }
    }

    /// The same after a verdict that was told: a broken promise counts more than what went wrong beside it.
    pub fn after(self, verdict: Exit) -> Failure {
        Failure { exit: if verdict == Exit::Violated { verdict } else { self.exit }, ..self }
    }

    /// The exit code it asks for.
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&output::shown(&self.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_in_one_line() {
        let failure = Failure::bad_input("at line 3\n  | nodes = 0\n  | ^ too few\n");
        assert_eq!(failure.to_string(), "at line 3 | nodes = 0 | ^ too few");
    }

    #[test]
    fn what_a_peer_says_in_a_failure_does_not_move_the_cursor() {
        let failure = Failure::unfinished("the receiver refuses: \u{1b}]0;root\u{7}").at("a\rb");
        assert_eq!(failure.to_string(), "a?b: the receiver refuses: ?]0;root?");
    }

    #[cfg(feature = "hw")]
    #[test]
    fn a_node_whose_device_is_gone_is_unfinished_and_says_why() {
        let failure = Failure::of_devices(Some(weft_verbs::VerbsError::DeviceGone)).expect_err("it is gone");
        assert_eq!(failure.to_string(), "this node has ended: the device is gone");
        assert_eq!(failure.exit(), Exit::Unfinished);
        assert!(Failure::of_devices(None).is_ok());
    }
}
