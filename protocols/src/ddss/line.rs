//! Turns at a segment that several nodes want at once: the home hands them over by messages, one after another.
//!
//! As long as headers are seldom wanted at once, whose swap comes first wins, and the others swap again. A call whose swap has missed
//! twice, or that finds the lock taken, asks the home for a turn. The home marks the header; from then on nobody swaps it but the node
//! whose turn it is, and every other call asks for a turn, too. So nobody asks again and again, and a call waits for those before
//! it alone. When nobody waits any more, the home takes the mark away.

use super::home::Step;
use super::key::Place;
use super::messages::Message;
use super::segment::Open;
use super::service::{Asked, Ddss};
use super::{DdssError, Header, Name};
use crate::transport::{NotExecuted, OpError};
use weft_verbs::{RemoteSlice, Verbs};

/// How often a call's swap may miss before it asks for a turn.
pub(super) const MOST_MISSES: u32 = 2;

/// A header that the home has turned into another one.
pub(super) struct Turned {
    /// What it was.
    pub was: Header,
    /// What it is.
    pub is: Header,
}

impl<V: Verbs> Ddss<V> {
    /// Asks the home for a turn and waits for it. To be called in the task's turn among those of its node, with which it is given back
    /// unless the caller [leaves](Ddss::leave).
    pub(super) async fn enter(&self, open: &Open<V>) -> Result<(), DdssError> {
        self.0.stats.borrow_mut().turns += 1;
        // Who has a turn and no part in the segment would keep the turn when its node dies.
        self.take_part(open).await?;
        self.check(open)?;
        let (name, at) = (open.name, open.place());
        let request = self.ask(self.home_of(open), |id| Message::Enter { id, name, at }).await?;
        match Asked::new(self, request).answer().await? {
            Message::Granted { header, .. } => {
                // It may be older than what this node has seen: who had the lock as the header was marked may have put since, and left
                // before the home knew that it is marked.
                open.saw(Header::from_word(header));
                open.entered.set(true);
                Ok(())
            }
            Message::Released { .. } => {
                open.close();
                Err(DdssError::Released)
            }
            _ => Err(DdssError::Closed),
        }
    }

    /// Ends the node's turn, which it has until that is said: the call may be dropped while there is no room for it.
    pub(super) async fn leave(&self, open: &Open<V>) -> Result<(), DdssError> {
        let (name, at, header) = (open.name, open.place(), open.last.get().word());
        let said = self.send(self.home_of(open), Message::Leave { name, at, header }).await;
        open.entered.set(false);
        said
    }

    /// At the home: does what the line of the segment at a place asks for.
    pub(super) fn step(&self, name: Name, at: Place, step: Step, header: u64) {
        // It may be another node's turn from now on, also where there is nothing to do: whether that node lives is asked.
        self.waits();
        match step {
            Step::Nothing => {}
            Step::Grant { to, id } => self.send_later(to, Message::Granted { id, name, at, header }),
            Step::Late { to, id } => self.send_later(to, Message::Released { id }),
            Step::Close => {
                let ddss = self.clone();
                drop(self.0.rt.spawn(async move {
                    let Ok(Turned { was, is }) = ddss.mark(name, at, true).await else { return };
                    let step = ddss.0.home.borrow_mut().closed(name, at, was);
                    ddss.step(name, at, step, is.word());
                }));
            }
            Step::Open => {
                let ddss = self.clone();
                drop(self.0.rt.spawn(async move {
                    if ddss.mark(name, at, false).await.is_ok() {
                        let step = ddss.0.home.borrow_mut().opened(name, at);
                        ddss.step(name, at, step, 0);
                    }
                }));
            }
        }
    }

    /// At the home: marks the header, or takes the mark away.
    async fn mark(&self, name: Name, at: Place, marked: bool) -> Result<Turned, DdssError> {
        let guess = Header::default().marked(!marked);
        // Nobody else marks headers.
        let mark = |header: Header| (header.is_marked() != marked).then(|| header.marked(marked));
        self.turn_header(name, at, Some(guess), mark).await
    }

    /// At the home: turns a header into another one, through the adapter, as everybody changes it; not if it is none to be turned.
    /// Without a guess of what it is the header is read first.
    pub(super) async fn turn_header(
        &self,
        name: Name,
        at: Place,
        guess: Option<Header>,
        turn: impl Fn(Header) -> Option<Header>,
    ) -> Result<Turned, DdssError> {
        let (mesh, home) = (&self.0.mesh, self.0.mesh.me());
        let word = at.memory.word(0).ok_or(DdssError::Closed)?;
        let mut guess = match guess {
            Some(guess) => guess,
            None => self.own_header(name, at, word).await?,
        };
        loop {
            // What is under way when the segment begins to go is waited for; nothing comes after it.
            if !self.0.home.borrow().is_kept(name, at) {
                return Err(DdssError::Released);
            }
            let Some(next) = turn(guess) else { return Ok(Turned { was: guess, is: guess }) };
            match mesh.compare_swap(home, word, guess.word(), next.word()).await {
                Ok(found) if found == guess.word() => return Ok(Turned { was: guess, is: next }),
                Ok(found) => guess = Header::from_word(found),
                Err(OpError::NotExecuted(NotExecuted::Failed(_))) => {}
                Err(OpError::NotExecuted(NotExecuted::Refused(_))) => self.until_there_may_be_memory().await,
                Err(OpError::NotExecuted(why)) => return Err(DdssError::NotExecuted(why)),
                Err(OpError::Unknown(_)) => {
                    while let Err(why) = mesh.resolve_outcomes(home).await {
                        super::io::again(why)?;
                    }
                    let now = self.own_header(name, at, word).await?;
                    // Only the home sets marks: it was executed, and has replaced what it compared with.
                    if now.is_marked() && next.is_marked() && !guess.is_marked() {
                        return Ok(Turned { was: guess, is: now });
                    }
                    guess = now;
                }
            }
        }
    }

    /// At the home: reads a header.
    async fn own_header(&self, name: Name, at: Place, word: RemoteSlice) -> Result<Header, DdssError> {
        let mut bytes = [0; 8];
        loop {
            // As for a swap: nothing is posted any more once the segment begins to go.
            if !self.0.home.borrow().is_kept(name, at) {
                return Err(DdssError::Released);
            }
            match self.0.mesh.read(self.0.mesh.me(), word, &mut bytes).await {
                Ok(()) => break,
                Err(OpError::NotExecuted(NotExecuted::Refused(_))) => self.until_there_may_be_memory().await,
                Err(OpError::NotExecuted(why)) => super::io::again(why)?,
                Err(OpError::Unknown(_)) => {}
            }
        }
        Ok(Header::from_word(u64::from_ne_bytes(bytes)))
    }
}
