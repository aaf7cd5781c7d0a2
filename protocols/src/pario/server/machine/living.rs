//! Whether a file has not ended, where a client may ask for one that has.
//!
//! A guest may have been forgotten and not know it yet, and so may a client whose byte stream to a file's home broke. What it had open may
//! have ended, and an object that is not there reads as zeros. A server [bars](super::super::bars) what it has removed, but only as long as it
//! lives. So of a file that was made before this life of it the server asks the file's home, once, before it says anything of its bytes, or
//! that they are durable: what ends later is barred.

use super::*;

/// What a server knows of files that have not ended.
#[derive(Debug, Default)]
pub(super) struct Living {
    /// Files of which the home was asked.
    known: Bars,
    /// Handles behind this number were given out in this life of the server. None before its home was asked anything.
    fresh: Option<u64>,
    /// What waits for the home's answer, by file.
    waiting: BTreeMap<Handle, Vec<(Rank, u64, Request)>>,
}

impl Living {
    /// Of how many files the home is asked.
    pub(super) fn asked(&self) -> usize {
        self.waiting.len()
    }

    fn has(&self, handle: Handle) -> bool {
        self.fresh.is_some_and(|fresh| handle.number() > fresh) || self.known.has(handle)
    }
}

impl Machine {
    /// From now on clients may ask for files that have ended: there are guests, or byte streams.
    pub(in super::super) fn with_clients_that_are_forgotten(mut self) -> Machine {
        self.living = Some(Living::default());
        self
    }

    /// Whether a request has to wait until the file's home has said that the file has not ended.
    pub(super) fn waits_for_home(&self, request: &Request) -> Result<bool, Refusal> {
        let (Some(living), Some(handle)) = (&self.living, request.of_data()) else { return Ok(false) };
        self.lives(handle)?;
        match &self.directory {
            Some(_) => self.lives_at_home(handle).map(|_| false),
            None => Ok(!living.has(handle)),
        }
    }

    /// Whether a file has not ended, which its home is asked; how many handles were given out.
    pub(super) fn lives_at_home(&self, handle: Handle) -> Result<u64, Refusal> {
        let directory = self.directory.as_ref().ok_or(Refusal::Stale)?;
        match directory.names.lives(handle) {
            true => Ok(directory.names.given()),
            false => Err(directory.failed.unwrap_or(Refusal::Stale)),
        }
    }

    /// Asks the home of a file, unless it is asked already.
    pub(super) fn ask_home(&mut self, (from, id): (Rank, u64), request: Request, out: &mut Vec<Action>) {
        let (Some(living), Some(handle)) = (&mut self.living, request.of_data()) else { return };
        let waiting = living.waiting.entry(handle).or_default();
        waiting.push((from, id, request));
        if waiting.len() == 1 {
            let op = self.begin(Op::Lives { handle });
            out.push(Action::Lives { op, handle });
        }
    }

    /// The home has said whether a file has not ended, or cannot.
    pub(super) fn on_lives(&mut self, op: u64, end: Result<u64, Refusal>, out: &mut Vec<Action>) {
        let Some(Op::Lives { handle }) = self.ops.remove(&op) else { return };
        let Some(living) = &mut self.living else { return };
        let waiting = living.waiting.remove(&handle).unwrap_or_default();
        match end {
            Ok(given) => {
                living.known.add(handle);
                living.fresh.get_or_insert(given);
            }
            Err(Refusal::Stale) => self.barred.add(handle),
            Err(_) => {}
        }
        let unknown = end.err().filter(|why| *why != Refusal::Stale);
        for (from, id, request) in waiting {
            let done = unknown.map_or_else(|| self.on_request(from, id, request, out), Err);
            if let Err(why) = done {
                out.push(Action::Answer { to: from, id, answer: Answer::Refused(why) });
            }
        }
    }

    /// A client that began anew waits for nothing.
    pub(super) fn waits_no_more(&mut self, client: Rank) {
        let waiting = self.living.iter_mut().flat_map(|living| living.waiting.values_mut());
        waiting.for_each(|waiting| waiting.retain(|(from, ..)| *from != client));
    }
}
