//! `weft lock run`: a command that runs as long as a lock is held, and no longer.

use super::wish::{Asker, Held, PAUSE};
use crate::door::{Door, Unserved};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use weft_protocols::locks::remote::{Reply, Wish};

/// Into how many parts the time is divided for which the lock counts. When all but one have passed without an answer of the node, the
/// command is asked to end, and when all have, it is ended.
const PARTS: u32 = 3;

/// Into how many parts the same time is divided, after one of which the node is to answer. An answer says for how long the lock counts from
/// when it was asked for, and a node's lease is a third less just before it is renewed: so two answers fit into what is left of one.
const ANSWERS: u32 = 8;

/// Takes the lock, runs the command, and gives the lock back.
pub fn run(door: &Door, wish: Wish, wait: Option<u64>, command: &[OsString]) -> Result<Exit, Failure> {
    let end = wait.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let status = door.block_on(async {
        let mut asker = Asker::new(door, wish);
        let held = asker.take(end).await?;
        let ended = match Job::begin(command, asker.name(), held) {
            Ok(job) => job.run(&asker).await,
            Err(why) => Err(why),
        };
        asker.give().await;
        ended
    })?;
    match code(status) {
        0 => Ok(Exit::Held),
        // The command's own code is none of this program's four.
        code => std::process::exit(code),
    }
}

/// The exit code of a command, as shells have it.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// A command that runs under a lock.
struct Job {
    child: Child,
    pid: Pid,
    /// Whether its processes are a group of their own, which signals go to.
    is_group: bool,
    held: Held,
    /// Why it was asked to end.
    ends: Option<&'static str>,
}

impl Job {
    fn begin(command: &[OsString], name: &str, held: Held) -> Result<Job, Failure> {
        let (program, arguments) = command.split_first().ok_or_else(|| Failure::bad_input("no command"))?;
        let mut wanted = Command::new(program);
        wanted.args(arguments).env("WEFT_LOCK", name);
        if let Some(token) = held.token {
            wanted.env("WEFT_TOKEN", token.to_string());
        }
        // At a terminal it stays in the group that reads from there, and is stopped, with this program.
        let is_group = !io::stdin().is_terminal();
        if is_group {
            wanted.process_group(0);
        }
        let failed = |why: io::Error| Failure::bad_input(why).at(program.display());
        let child = wanted.spawn().map_err(failed)?;
        let pid = child.id().and_then(|id| Pid::from_raw(id as i32));
        let pid = pid.ok_or_else(|| Failure::unfinished("a process without a number"))?;
        Ok(Job { child, pid, is_group, held, ends: None })
    }

    /// Waits for the command, and goes on saying that the lock is wanted. The command has ended, or was killed, when this returns.
    async fn run(mut self, asker: &Asker<'_>) -> Result<ExitStatus, Failure> {
        let mut call = Box::pin(ask(asker, self.held, Duration::ZERO));
        let (mut killed, mut interrupted) = (false, false);
        loop {
            let Held { asked, until, .. } = self.held;
            let late = asked + (until - asked) * (PARTS - 1) / PARTS;
            tokio::select! {
                biased;
                status = self.child.wait() => {
                    let status = status.map_err(Failure::unfinished)?;
                    return match self.ends {
                        None => Ok(status),
                        Some(why) => Err(Failure::unfinished(format!("lock '{}' {why}", asker.name()))),
                    };
                }
                () = tokio::time::sleep_until(until.into()), if !killed => {
                    killed = true;
                    self.end("was lost: its node did not answer", Signal::KILL);
                }
                () = tokio::time::sleep_until(late.into()), if self.ends.is_none() => {
                    self.end("was lost: its node did not answer", Signal::TERM);
                }
                () = interrupt::waited_for(), if !interrupted => {
                    interrupted = true;
                    self.signal(Signal::TERM);
                }
                (asked, answer) = &mut call => {
                    let pause = self.heard(asked, answer);
                    call = Box::pin(ask(asker, self.held, pause));
                }
            }
        }
    }

    /// What a node has said of the lock. Says after which pause it is asked again.
    fn heard(&mut self, asked: Instant, answer: Result<(u32, Reply), Unserved>) -> Duration {
        match answer {
            // Once the command was asked to end, it ends.
            Ok((_, Reply::Holds { counts_for, .. })) if self.ends.is_none() => {
                let until = asked + Duration::from_nanos(counts_for.0);
                if until > self.held.until {
                    (self.held.asked, self.held.until) = (asked, until);
                }
                Duration::ZERO
            }
            Ok((_, Reply::Lost)) if self.ends.is_none() => {
                self.end("was lost: the others went on without its node, or that forgot it", Signal::TERM);
                PAUSE
            }
            Ok(_) | Err(_) => PAUSE,
        }
    }

    /// Has the command end, and keeps why.
    fn end(&mut self, why: &'static str, by: Signal) {
        self.ends.get_or_insert(why);
        self.signal(by);
    }

    fn signal(&self, signal: Signal) {
        // One that has ended meanwhile is waited for next.
        let _ = match self.is_group {
            true => kill_process_group(self.pid, signal),
            false => kill_process(self.pid, signal),
        };
    }
}

/// Says once more that the lock is wanted; the answer, and when that was.
async fn ask(asker: &Asker<'_>, held: Held, pause: Duration) -> (Instant, Result<(u32, Reply), Unserved>) {
    tokio::time::sleep(pause).await;
    let asked = Instant::now();
    (asked, asker.ask(true, held.until.saturating_duration_since(asked) / ANSWERS).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_code_is_passed_on_and_a_signals_as_shells_do() {
        assert_eq!(code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(code(ExitStatus::from_raw(15)), 143);
    }
}
