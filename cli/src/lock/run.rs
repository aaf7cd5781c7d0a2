//! `weft lock run`: a command that runs as long as a lock is held, and no longer.

use super::group::Group;
use super::wish::{Asker, Held, PAUSE};
use crate::door::{Door, Unserved};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use rustix::process::Signal;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::Command;
use weft_protocols::locks::remote::{Reply, Wish};
use weft_verbs::Nanos;
use weft_verbs::machine::now;

/// Into how many parts the time is divided for which the lock counts. When all but one have passed without an answer of the node, the
/// command is asked to end, and when all have, it is ended.
const PARTS: u64 = 3;

/// Into how many parts the same time is divided, after one of which the node is to answer. An answer says for how long the lock counts from
/// when it was asked for, and a node's lease is a third less just before it is renewed: so two answers fit into what is left of one.
const ANSWERS: u64 = 8;

/// After how long it is said that a lock is held for what a command has left behind.
const WHILE: Nanos = Nanos::from_secs(1);

/// Takes the lock, runs the command, and gives the lock back.
pub fn run(door: &Door, wish: Wish, wait: Option<u64>, command: &[OsString]) -> Result<Exit, Failure> {
    // Who is ready to wait for longer than clocks count waits as long as it takes.
    let end = wait.and_then(|seconds| seconds.checked_mul(1_000_000_000)?.checked_add(now().0)).map(Nanos);
    let status = door.block_on(async {
        let mut asker = Asker::new(door, wish);
        let held = asker.take(end).await?;
        let ended = match Job::begin(command, asker.name(), held) {
            Ok(job) => job.run(async |wait| asker.ask(true, wait).await).await,
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

type Answered = (Nanos, Result<(u32, Reply), Unserved>);

/// A command that runs under a lock.
struct Job<'a> {
    name: &'a str,
    group: Group,
    held: Held,
    /// Why it was asked to end.
    ends: Option<&'static str>,
    /// The strongest signal that its processes were sent.
    sent: Option<Signal>,
    /// Since when the lock is held for what the command has left behind, and whether that was said.
    left: Option<(Nanos, bool)>,
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        interrupt::stay(false);
    }
}

impl<'a> Job<'a> {
    fn begin(command: &[OsString], name: &'a str, held: Held) -> Result<Job<'a>, Failure> {
        let (program, arguments) = command.split_first().ok_or_else(|| Failure::bad_input("no command"))?;
        let mut wanted = Command::new(program);
        wanted.args(arguments).env("WEFT_LOCK", name);
        if let Some(token) = held.token {
            wanted.env("WEFT_TOKEN", token.to_string());
        }
        // This program ends after the command.
        interrupt::stay(true);
        let group = Group::start(wanted).map_err(|why| {
            interrupt::stay(false);
            Failure::bad_input(why).at(program.display())
        })?;
        Ok(Job { name, group, held, ends: None, sent: None, left: None })
    }

    /// Waits for the command and what it has started, and goes on saying that the lock is wanted: `ask` says it, and waits so long for news.
    /// They have ended, or were killed, when this returns.
    async fn run(
        mut self,
        ask: impl AsyncFn(Duration) -> Result<(u32, Reply), Unserved>,
    ) -> Result<ExitStatus, Failure> {
        let mut call = Box::pin(again(&ask, self.held, Duration::ZERO));
        let mut looks = tokio::time::interval(interrupt::LOOK);
        loop {
            tokio::select! {
                biased;
                ended = self.group.ended(), if self.group.status().is_none() => ended.map_err(Failure::unfinished)?,
                _ = looks.tick() => {}
                (asked, answer) = &mut call => {
                    let pause = self.heard(asked, answer);
                    call = Box::pin(again(&ask, self.held, pause));
                }
            }
            if let Some(status) = self.look(now()) {
                return match self.ends {
                    None => Ok(status),
                    Some(why) => Err(Failure::unfinished(format!("lock '{}' {why}", self.name))),
                };
            }
        }
    }

    /// Looks at the command, at the clock, and whether the user wants it to end. How the command has ended, once nothing of it is left.
    fn look(&mut self, now: Nanos) -> Option<ExitStatus> {
        self.group.look();
        // What was killed ends as soon as the system lets it.
        if self.group.is_over() || self.sent == Some(Signal::KILL) && self.group.status().is_some() {
            return self.group.status();
        }
        let Held { asked, until, .. } = self.held;
        let late = asked + Nanos((until - asked).0 * (PARTS - 1) / PARTS);
        if now >= late {
            self.ends.get_or_insert("was lost: its node did not answer");
        }
        let is_asked_to = self.ends.is_some() || interrupt::signals() > 0;
        match self.sent {
            Some(Signal::KILL) => {}
            _ if now >= until || interrupt::signals() > 1 => self.end(Signal::KILL),
            None if is_asked_to => self.end(Signal::TERM),
            _ => self.tell_what_is_left(now),
        }
        None
    }

    fn end(&mut self, by: Signal) {
        self.sent = Some(by);
        self.group.end(by);
    }

    /// Says, after a while and once, that the command has ended and others of its group have not.
    fn tell_what_is_left(&mut self, now: Nanos) {
        if self.group.status().is_none() {
            return;
        }
        let (since, is_told) = self.left.get_or_insert((now, false));
        if now >= *since + WHILE && !std::mem::replace(is_told, true) {
            let says = "is held until what it has started has ended, too";
            // Nobody may be reading.
            let _ = writeln!(io::stderr(), "weft: the command has ended, and lock '{}' {says}", self.name);
        }
    }

    /// What a node has said of the lock. Says after which pause it is asked again.
    fn heard(&mut self, asked: Nanos, answer: Result<(u32, Reply), Unserved>) -> Duration {
        match answer {
            // Once the command was asked to end, it ends.
            Ok((_, Reply::Holds { counts_for, .. })) if self.ends.is_none() => {
                let until = asked + counts_for;
                if until > self.held.until {
                    (self.held.asked, self.held.until) = (asked, until);
                }
                Duration::ZERO
            }
            Ok((_, Reply::Lost)) => {
                self.ends.get_or_insert("was lost: the others went on without its node, or that forgot it");
                PAUSE
            }
            Ok(_) | Err(_) => PAUSE,
        }
    }
}

/// Says once more that the lock is wanted; the answer, and when that was.
async fn again(
    ask: &impl AsyncFn(Duration) -> Result<(u32, Reply), Unserved>,
    held: Held,
    pause: Duration,
) -> Answered {
    tokio::time::sleep(pause).await;
    let asked = now();
    let wait = Nanos(held.until.0.saturating_sub(asked.0) / ANSWERS);
    (asked, ask(Duration::from_nanos(wait.0)).await)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::Came;
    use rustix::process::{Pid, test_kill_process};
    use std::time::Instant;

    #[test]
    fn a_commands_code_is_passed_on_and_a_signals_as_shells_do() {
        assert_eq!(code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(code(ExitStatus::from_raw(15)), 143);
    }

    const SPAN: Nanos = Nanos::from_millis(900);

    fn shell(script: &str) -> Vec<OsString> {
        ["sh", "-c", script].map(OsString::from).to_vec()
    }

    /// Runs a script under a lock that counts for [`SPAN`] from each answer, of which there are so many.
    fn runs(script: &str, answers: u32) -> (Result<ExitStatus, Failure>, Duration) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (asked, began) = (now(), Instant::now());
        let left = std::cell::Cell::new(answers);
        let ended = runtime.block_on(async {
            let held = Held { token: Some(7), asked, until: asked + SPAN };
            let job = Job::begin(&shell(script), "x", held).expect("there is a shell");
            job.run(async |wait| {
                tokio::time::sleep(wait).await;
                match left.get() {
                    0 => Err(Unserved { why: Failure::unfinished("nobody is there"), came: Came::Unknown }),
                    more => {
                        left.set(more - 1);
                        Ok((0, Reply::Holds { token: None, counts_for: SPAN }))
                    }
                }
            })
            .await
        });
        (ended, began.elapsed())
    }

    fn lives(pid: &str) -> bool {
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw).expect("a process");
        test_kill_process(pid).is_ok()
    }

    #[test]
    fn what_a_command_has_started_is_ended_with_it_when_the_lock_is_lost_however_it_takes_the_signal() {
        let file = std::env::temp_dir().join(format!("weft-lock-left-{}", std::process::id()));
        let worker = "trap '' TERM; echo $$ > FILE; while :; do sleep 0.1; done";
        let script = format!(
            "sh -c \"{}\" & wait",
            worker.replace("$$", "\\$\\$").replace("FILE", &file.display().to_string())
        );
        let (ended, took) = runs(&script, 0);
        let why = ended.expect_err("it was lost").to_string();
        assert!(why.contains("lock 'x' was lost: its node did not answer"), "{why}");
        assert!(took >= Duration::from_nanos(SPAN.0), "others have it before: {took:?}");
        let pid = std::fs::read_to_string(&file).expect("it began");
        std::thread::sleep(Duration::from_millis(200));
        assert!(!lives(&pid), "it works on without the lock");
        let _ = std::fs::remove_file(file);
    }

    #[test]
    fn the_lock_is_held_until_what_a_command_has_left_behind_has_ended_too() {
        let (ended, took) = runs("sleep 1.5 & exit 3", 1_000);
        assert_eq!(ended.map(code).map_err(|why| why.to_string()), Ok(3));
        assert!(took >= Duration::from_millis(1_500), "{took:?}");
    }

    #[test]
    fn a_command_that_stops_itself_is_ended_all_the_same() {
        let (ended, took) = runs("kill -STOP $$; exit 0", 0);
        assert!(ended.is_err() && took < Duration::from_nanos(SPAN.0), "{took:?}");
    }

    /// As a machine that was suspended wakes: the clock has gone on.
    #[test]
    fn a_lock_whose_time_has_passed_while_nobody_looked_is_given_up_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let _within = runtime.enter();
        let asked = now();
        let held = Held { token: None, asked, until: asked + SPAN };
        let mut job = Job::begin(&shell("sleep 60"), "x", held).expect("there is a shell");
        assert_eq!(job.look(asked), None);
        assert_eq!((job.sent, job.ends), (None, None));
        job.look(asked + Nanos::from_secs(3_600));
        assert_eq!(job.sent, Some(Signal::KILL));
    }
}
