//! The processes of a command, and the terminal that is lent to them.

use nix::sys::signal::{SigSet, Signal as Nix};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpgrp, getpid, kill_process, kill_process_group,
    set_child_subreaper, test_kill_process_group, waitid, waitpgid,
};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::process::ExitStatus;
use tokio::process::{Child, Command};

/// A command, and what it has started.
pub struct Group {
    child: Child,
    pid: Pid,
    /// How the command itself has ended.
    status: Option<ExitStatus>,
    /// Whether its processes are a group of their own, so that all of them can be told to end.
    is_own: bool,
    terminal: Option<Terminal>,
    /// How often more its processes are told to go on that the user has stopped.
    goes_on: u8,
}

/// How often they are told. Those of a group are stopped one after the other: who saw the first one stop may tell them before the last one was.
const TOLD: u8 = 4;

impl Group {
    /// Starts a command in a group of its own, which has the terminal where this program had it. Behind a pipe the terminal stays with the
    /// other programs of the pipe, and a command that reads from it stays among them.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mut command: Command) -> io::Result<Group> {
        let terminal = if is_piped() { None } else { Terminal::of_ours() };
        let is_own = terminal.is_some() || !io::stdin().is_terminal();
        if is_own {
            command.process_group(0);
        }
        // What a process of the group has started is this program's child once that one has ended, and is waited for. Where the system does
        // not know that, it is another's, who waits for it.
        let _ = set_child_subreaper(Some(getpid()));
        let child = command.spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(id as i32));
        let pid = pid.ok_or_else(|| io::Error::other("a process without a number"))?;
        Ok(Group { child, pid, status: None, is_own, terminal, goes_on: 0 })
    }

    /// Waits until the command itself has ended.
    ///
    /// # Errors
    /// The system does not say.
    pub async fn ended(&mut self) -> io::Result<()> {
        self.status = Some(self.child.wait().await?);
        Ok(())
    }

    /// How the command itself has ended, if it has.
    pub fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Whether the command has ended, and all that it has started and that stayed in its group.
    pub fn is_over(&self) -> bool {
        if self.status.is_none() || !self.is_own {
            return self.status.is_some();
        }
        while let Ok(Some(_)) = waitpgid(self.pid, WaitOptions::NOHANG) {}
        test_kill_process_group(self.pid) == Err(Errno::SRCH)
    }

    /// Lends the terminal to the command where this program has come to have it, and has it go on if the user stopped it: a lock would be
    /// held for as long.
    pub fn look(&mut self) {
        let has_come = self.terminal.as_ref().is_some_and(|terminal| terminal.lend(self.pid));
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let by =
            waitid(WaitId::Pid(self.pid), stopped).ok().flatten().and_then(|said| said.stopping_signal());
        if has_come || by == Some(Signal::TSTP.as_raw()) {
            self.goes_on = TOLD;
        }
        if self.goes_on > 0 {
            self.goes_on -= 1;
            self.signal(Signal::CONT);
        }
    }

    /// Tells all of them something: one that is stopped hears it when it goes on.
    pub fn end(&self, by: Signal) {
        self.signal(by);
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        // Those that have ended meanwhile are waited for next.
        let _ = match self.is_own {
            true => kill_process_group(self.pid, signal),
            false => kill_process(self.pid, signal),
        };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(terminal) = &self.terminal {
            terminal.take_back(self.pid);
        }
    }
}

/// Whether what this program writes is read by another one.
fn is_piped() -> bool {
    fstat(io::stdout()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

/// The terminal from which this program was started.
struct Terminal(File);

impl Terminal {
    /// There is one, and this program's group reads from it.
    fn of_ours() -> Option<Terminal> {
        let terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
        (tcgetpgrp(&terminal) == Ok(getpgrp())).then_some(Terminal(terminal))
    }

    /// From now on the group reads from it, if this program's does; whether it did.
    fn lend(&self, to: Pid) -> bool {
        tcgetpgrp(&self.0) == Ok(getpgrp()) && tcsetpgrp(&self.0, to).is_ok()
    }

    /// This program's group reads from it again, if that one did.
    fn take_back(&self, from: Pid) {
        if tcgetpgrp(&self.0) != Ok(from) {
            return;
        }
        // Who is not in the foreground is stopped for this by default.
        if SigSet::from(Nix::SIGTTOU).thread_block().is_ok() {
            let _ = tcsetpgrp(&self.0, getpgrp());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    const INSIDE: &str = "WEFT_TEST_AT_A_TERMINAL";

    /// Runs this very test at a terminal of its own, and types Ctrl-Z as soon as the command has it.
    fn at_a_terminal() -> std::io::Result<String> {
        let this = std::env::current_exe()?;
        let test = "lock::group::tests::a_command_has_the_terminal_while_it_runs_and_goes_on_when_it_is_stopped_there";
        let line = format!("{} --exact {test} --nocapture", this.display());
        let mut script = std::process::Command::new("script");
        script
            .args(["-qec", &line, "/dev/null"])
            .env(INSIDE, "yes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut script = script.spawn()?;
        let (mut types, said) = (script.stdin.take(), script.stdout.take());
        let mut all = String::new();
        for line in BufReader::new(said.ok_or_else(|| std::io::Error::other("no output"))?).lines() {
            let line = line?;
            if line.contains("has the terminal")
                && let Some(keys) = &mut types
            {
                keys.write_all(b"\x1a")?;
                keys.flush()?;
            }
            all.push_str(&line);
            all.push('\n');
        }
        script.wait()?;
        Ok(all)
    }

    #[test]
    fn a_command_has_the_terminal_while_it_runs_and_goes_on_when_it_is_stopped_there() {
        if std::env::var_os(INSIDE).is_none() {
            // Where there is no `script` (util-linux), there is no terminal.
            let Ok(said) = at_a_terminal() else { return };
            assert!(said.contains("read hello") && said.contains("test result: ok"), "{said}");
            return;
        }
        let terminal = File::open("/dev/tty").expect("`script` gives one");
        let mut command = Command::new("sh");
        // It reads from the terminal, and is stopped there before it does.
        command.args(["-c", "echo has the terminal; sleep 0.5; echo hello > /dev/tty; echo read hello"]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut group = Group::start(command).expect("there is a shell");
            let (began, mut had) = (Instant::now(), false);
            while group.status().is_none() {
                group.look();
                had |= tcgetpgrp(&terminal) == Ok(group.pid);
                let waits = tokio::time::timeout(Duration::from_millis(20), group.ended());
                if let Ok(ended) = waits.await {
                    ended.expect("it is ours");
                }
                assert!(began.elapsed() < Duration::from_secs(10), "it was stopped, and nobody has it go on");
            }
            assert!(had && group.status().is_some_and(|status| status.success()));
        });
        assert_eq!(tcgetpgrp(&terminal), Ok(getpgrp()), "it is this program's again");
    }
}
