//! A wish for a lock, and what a node says of it.

use crate::daemon::LOCKS;
use crate::door::{Came, Door, Unserved};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::progress::Progress;
use std::ffi::OsString;
use std::time::Duration;
use weft_protocols::locks::Mode;
use weft_protocols::locks::remote::{LONGEST_NAME, LONGEST_WAIT, Reply, Request, Wish, WishId};
use weft_verbs::Nanos;
use weft_verbs::machine::now;

/// The pause after a call that was not served.
pub const PAUSE: Duration = Duration::from_millis(200);

/// A wish that no other program has. Who wants it is told to those who look.
///
/// # Errors
/// The lock cannot have the name, or the system gives no random bytes.
pub fn new(
    name: &str,
    shared: bool,
    tries: bool,
    patience: u64,
    command: &[OsString],
) -> Result<Wish, Failure> {
    if !(1..=LONGEST_NAME).contains(&name.len()) || name.contains(char::is_control) {
        let says = "a lock's name has 1 to 255 bytes and no control characters";
        return Err(Failure::bad_input(format!("'{}': {says}", name.escape_default())));
    }
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(Failure::unfinished)?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let command: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let by = format!("{} on {host}: {}", std::process::id(), command.join(" "));
    let mut by: String = by.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    by.truncate((0..=LONGEST_NAME.min(by.len())).rev().find(|end| by.is_char_boundary(*end)).unwrap_or(0));
    Ok(Wish {
        id: WishId(u128::from_le_bytes(id)),
        name: name.to_string(),
        mode: if shared { Mode::Shared } else { Mode::Exclusive },
        by,
        tries,
        patience: Nanos::from_secs(patience),
    })
}

/// A lock that this program holds.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The fencing token.
    pub token: Option<u64>,
    /// When the call was made whose answer says so, by a clock that counts the time for which the machine was suspended.
    pub asked: Nanos,
    /// Until when it counts.
    pub until: Nanos,
}

/// A wish at a node.
pub struct Asker<'a> {
    door: &'a Door,
    wish: Wish,
    /// The node that has it, once one has answered: no other one knows of it.
    node: Option<u32>,
}

impl<'a> Asker<'a> {
    /// One that nobody has been asked for.
    pub fn new(door: &'a Door, wish: Wish) -> Asker<'a> {
        Asker { door, wish, node: door.node_for_locks() }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.wish.name
    }

    /// Says that the wish stands, and waits for news.
    pub async fn ask(&self, holds: bool, wait: Duration) -> Result<(u32, Reply), Unserved> {
        let wait = Nanos(wait.as_nanos().try_into().unwrap_or(u64::MAX));
        let request = Request::Hold { wish: self.wish.clone(), holds, wait };
        let (node, bytes) = self.door.ask(self.node, LOCKS, request.to_bytes()).await?;
        match Reply::from_bytes(&bytes) {
            Ok(reply) => Ok((node, reply)),
            Err(why) => {
                let why = Failure::unfinished(why).at(format_args!("node {node}"));
                Err(Unserved { why, came: Came::ToItsNode })
            }
        }
    }

    /// Says that it does not stand any more. Where nobody hears that, the node's patience says it.
    pub async fn give(&self) {
        let request = Request::Give { id: self.wish.id };
        let _ = tokio::time::timeout(LEAVES, self.door.ask(self.node, LOCKS, request.to_bytes())).await;
    }

    /// Waits for the lock, no longer than until then. Says on standard error that it waits, after a while.
    ///
    /// # Errors
    /// It was not had: why.
    pub async fn take(&mut self, end: Option<Nanos>) -> Result<Held, Failure> {
        let taken = self.taken(end).await;
        if taken.is_err() {
            self.give().await;
        }
        taken
    }

    async fn taken(&mut self, end: Option<Nanos>) -> Result<Held, Failure> {
        let mut progress = Progress::begin(false);
        progress.step(None, &format!("waiting for lock '{}'", self.name()));
        let (mut holds, mut pause) = (false, PAUSE);
        loop {
            let asked = now();
            let left = end.map(|end| Duration::from_nanos(end.0.saturating_sub(asked.0)));
            let wait = if holds { Duration::ZERO } else { left.map_or(LONGEST, |left| left.min(LONGEST)) };
            let reply = tokio::select! {
                biased;
                () = interrupt::waited_for() => return Err(Failure::interrupted()),
                reply = self.ask(holds, wait) => reply,
            };
            let is_over = end.is_some_and(|end| end <= now());
            match reply {
                Ok((node, Reply::Holds { token, counts_for })) => {
                    self.node = Some(node);
                    let until = asked + counts_for;
                    if now() + Nanos(counts_for.0 / 2) < until {
                        return Ok(Held { token: token.map(|token| token.0), asked, until });
                    }
                    // The call has waited, and what it says counts from when it was made: the next one waits for nothing.
                    holds = true;
                    if counts_for == Nanos::ZERO {
                        // Its node's lease has run out, and may be renewed yet.
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                // It is asked for anew.
                Ok((_, Reply::Lost)) if holds => holds = false,
                Ok((_, Reply::Busy)) => {
                    return Err(Failure::unfinished(format!("lock '{}' is not free", self.name())));
                }
                Ok((node, Reply::Waits)) if !is_over => self.node = Some(node),
                Ok(_) if is_over => {
                    let within = "was not granted in the time that there was";
                    return Err(Failure::unfinished(format!("lock '{}' {within}", self.name())));
                }
                // It was forgotten, and is asked for anew.
                Ok(_) => tokio::time::sleep(PAUSE).await,
                Err(Unserved { why, .. }) if is_over || why.exit() == Exit::BadInput => return Err(why),
                Err(Unserved { why, .. }) => {
                    progress.step(None, &format!("waiting for lock '{}': {why}", self.name()));
                    tokio::time::sleep(pause).await;
                    // As many may wait as a cluster has programs.
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
            }
        }
    }
}

/// The longest pause of one who waits after calls that were not served.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// How long one call waits for the lock.
const LONGEST: Duration = Duration::from_secs(10);
const _: () = assert!(LONGEST.as_nanos() < LONGEST_WAIT.0 as u128);

/// How long a program that ends tries to say so.
const LEAVES: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_a_lock_is_told_in_one_short_line() {
        let command = ["sh", "-c", &format!("echo a\nb; {}", "ü".repeat(200))].map(OsString::from);
        let wish = new("build", true, false, 30, &command).expect("it can be");
        assert!(wish.by.len() <= LONGEST_NAME && wish.by.contains(": sh -c echo a?b; üü"), "{}", wish.by);
        assert_eq!(wish.mode, Mode::Shared);
        assert_ne!(wish.id, new("build", true, false, 30, &command).expect("it can be").id);
        assert!(
            new("", true, false, 30, &command).is_err() && new("a\nb", true, false, 30, &command).is_err()
        );
    }
}
