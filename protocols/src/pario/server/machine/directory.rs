//! Requests about names, at the directory's home: batches of them, each committed before any of it is answered.
//!
//! While a batch is being committed, requests wait, those included that only look: so nobody is told what a crash may take back.
//! All that waited is the next batch, and one sync serves it.

use super::super::answered::Kept;
use super::super::log::{Log, Unwritten};
use super::super::names::{Change, Names};
use super::*;

/// A directory, and how it is kept.
#[derive(Debug)]
pub(in super::super) struct Directory {
    pub names: Names,
    /// Its log, where it survives its server.
    pub log: Option<Log>,
    /// Why nothing is told of it any more.
    pub failed: Option<Refusal>,
    /// The batch that is being committed.
    running: Option<Batch>,
    /// What came meanwhile.
    queued: VecDeque<(Rank, u64, Request)>,
    /// Files that nobody can reach any more, which a batch of their own says if no other does.
    endings: Vec<Change>,
    /// Files whose objects are removed, which the next batch says.
    ended: Vec<Handle>,
    /// What waits until a file is cut.
    held: Vec<(Rank, u64, Request)>,
}

impl Directory {
    /// One that is empty and gone with its server: that of one of the server's lives.
    pub(in super::super) fn in_memory(epoch: u64) -> Directory {
        Directory::new(Names::in_memory(epoch), None)
    }

    /// One that was found.
    pub(in super::super) fn new(names: Names, log: Option<Log>) -> Directory {
        let (running, queued, ended) = (None, VecDeque::new(), Vec::new());
        let (failed, held, endings) = (None, Vec::new(), Vec::new());
        Directory { names, log, failed, running, queued, endings, ended, held }
    }

    /// One of which nothing can be told.
    pub(in super::super) fn broken(why: Refusal) -> Directory {
        Directory { failed: Some(why), ..Directory::new(Names::default(), None) }
    }

    /// Requests and changes that have not been answered and committed.
    pub(super) fn unsettled(&self) -> usize {
        self.queued.len() + self.held.len() + self.endings.len() + usize::from(self.running.is_some())
    }
}

/// Requests that take effect together.
#[derive(Debug, Default)]
struct Batch {
    /// Each with the file that lost its name by it.
    changes: Vec<(Change, Option<Handle>)>,
    answers: Vec<(Rank, u64, Result<Answer, Refusal>)>,
    /// Files that may have ended with their names, and whom to answer then.
    ends: Vec<(Handle, Rank, u64)>,
    /// The same of files that were closed, which is done whatever becomes of the batch.
    closes: Vec<(Handle, Rank, u64)>,
    /// Files that are to be cut, where, and whom to answer then.
    cuts: Vec<(Gone, u64, Rank, u64)>,
    /// What waits until a file is cut.
    held: Vec<(Rank, u64, Request)>,
    /// How many answers were given before.
    known_again: u64,
    /// Its requests but for closes that are done and for those that are held.
    asked: Vec<(Rank, u64, Request)>,
}

impl Machine {
    /// A request about names.
    pub(super) fn on_name(
        &mut self,
        from: Rank,
        id: u64,
        request: Request,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let directory = self.directory.as_mut().ok_or(Refusal::Stale)?;
        directory.failed.map_or(Ok(()), Err)?;
        // By when it came, and not by when its turn comes: the client may tell in between what it has open but for this.
        if let Request::Close { handle, epoch } = &request
            && *epoch != self.epoch
            && directory.names.is_untold(from, *handle)
        {
            out.push(Action::Answer { to: from, id, answer: Answer::Done });
            return Ok(());
        }
        directory.queued.push_back((from, id, request));
        if directory.running.is_none() {
            self.next_batch(out);
        }
        Ok(())
    }

    /// All that waits takes effect, and is answered when it is durable.
    fn next_batch(&mut self, out: &mut Vec<Action>) {
        let Some(directory) = &mut self.directory else { return };
        let mut batch = Batch::default();
        while let Some((from, id, request)) = directory.queued.pop_front() {
            let asked = (from, id, request.clone());
            let (held, closes) = (batch.held.len(), batch.closes.len());
            let logged = directory.log.is_some();
            let of = Home {
                servers: self.config.servers,
                me: self.me as u16,
                room: self.names_room,
                epoch: self.epoch,
                logged,
            };
            name_request(&mut directory.names, of, (from, id), request, &mut batch);
            if (batch.held.len(), batch.closes.len()) == (held, closes) {
                batch.asked.push(asked);
            }
        }
        directory.held.append(&mut batch.held);
        self.counts.known_again += batch.known_again;
        batch.end_files(directory);
        if directory.log.is_none() || batch.changes.is_empty() {
            return self.settle(batch, out);
        }
        let ended = std::mem::take(&mut directory.ended).into_iter();
        batch.changes.extend(ended.map(|handle| (Change::Ended { handle }, None)));
        self.commit(batch, out);
    }

    /// Writes a batch's changes to the log.
    fn commit(&mut self, batch: Batch, out: &mut Vec<Action>) {
        let Some(directory) = &mut self.directory else { return };
        let Some(log) = &mut directory.log else { return };
        let changes: Vec<Change> = batch.changes.iter().map(|(change, _)| change.clone()).collect();
        let commit = log.commit(&directory.names, &changes);
        directory.running = Some(batch);
        self.counts.commits += 1;
        let op = self.begin(Op::Commit);
        out.push(Action::Commit { op, commit });
    }

    /// A batch is durable, or is not.
    pub(super) fn on_committed(&mut self, op: u64, end: Result<(), Unwritten>, out: &mut Vec<Action>) {
        self.ops.remove(&op);
        let Some(directory) = &mut self.directory else { return };
        let (Some(batch), Some(log)) = (directory.running.take(), &mut directory.log) else { return };
        match end {
            Ok(()) => self.settle(batch, out),
            // No batch of it is there. The older log may have room where a new one has not.
            Err(Unwritten::Full { cut }) => match log.refused(cut) {
                true => return self.commit(batch, out),
                false => self.refuse(batch, out),
            },
            Err(Unwritten::Failed(why)) => {
                directory.failed = Some(why);
                let refused = |to, id| Action::Answer { to, id, answer: Answer::Refused(why) };
                out.extend(batch.answers.iter().map(|(to, id, _)| refused(*to, *id)));
                let ends = batch.ends.iter().chain(&batch.closes);
                out.extend(ends.map(|(_, to, id)| refused(*to, *id)));
                out.extend(batch.cuts.iter().map(|(.., to, id)| refused(*to, *id)));
                out.extend(directory.held.drain(..).map(|(to, id, _)| refused(to, id)));
                out.extend(directory.queued.drain(..).map(|(to, id, _)| refused(to, id)));
            }
        }
        self.sweep(out);
        let waits = |directory: &Directory| directory.running.is_none() && !directory.queued.is_empty();
        if self.directory.as_ref().is_some_and(waits) {
            self.next_batch(out);
        }
    }

    /// A batch has found no room: what makes something is refused, and the rest is asked again without that. Where nothing does, what
    /// alters a file is; removals alone are refused where even they find none.
    fn refuse(&mut self, mut batch: Batch, out: &mut Vec<Action>) {
        let Some(directory) = &mut self.directory else { return };
        directory.take_back(&batch);
        if batch.only_ends() {
            // Their room is wanted more than the record, by which the next life would not wait for who might have them open.
            batch.changes.iter().for_each(|(change, _)| directory.names.end_again(change));
        }
        let names = &directory.names;
        let is_done = |from: Rank, request: &Request| {
            request.asked().is_some_and(|asked| names.has_answered(from, asked))
        };
        let asked = std::mem::take(&mut batch.asked);
        let any = |is: &fn(&Request) -> bool| asked.iter().any(|(from, _, of)| is(of) && !is_done(*from, of));
        let first = [Request::makes, Request::alters, Request::removes].into_iter().find(any);
        let (refused, again): (Vec<_>, Vec<_>) = asked
            .into_iter()
            .partition(|(from, _, request)| !is_done(*from, request) && first.is_some_and(|is| is(request)));
        let full = |(to, id, _)| Action::Answer { to, id, answer: Answer::Refused(Refusal::Full) };
        out.extend(refused.into_iter().map(full));
        for asked in again.into_iter().rev() {
            directory.queued.push_front(asked);
        }
        if !batch.cuts.is_empty() {
            // They waited for one of these cuts.
            directory.queued.extend(directory.held.drain(..));
        }
        self.end_files(std::mem::take(&mut batch.closes), out);
        self.remove_files(&batch, out);
    }

    /// Answers what has taken effect for good, and removes what has ended with it.
    fn settle(&mut self, mut batch: Batch, out: &mut Vec<Action>) {
        for (to, id, answer) in std::mem::take(&mut batch.answers) {
            self.counts.places += u64::from(matches!(answer, Ok(Answer::Place { .. })));
            let answer = answer.unwrap_or_else(Answer::Refused);
            out.push(Action::Answer { to, id, answer });
        }
        for (file, size, to, id) in std::mem::take(&mut batch.cuts) {
            self.cut_objects(file, size, (to, id), out);
        }
        self.end_files(std::mem::take(&mut batch.ends), out);
        self.end_files(std::mem::take(&mut batch.closes), out);
        self.remove_files(&batch, out);
    }

    /// A file is cut, or its client is told why it is not.
    pub(super) fn is_cut(&mut self, handle: Handle, out: &mut Vec<Action>) {
        let Some(directory) = &mut self.directory else { return };
        directory.names.is_cut(handle);
        directory.queued.extend(directory.held.drain(..));
        if directory.running.is_none() && !directory.queued.is_empty() {
            self.next_batch(out);
        }
    }

    /// Removes files that have ended, and answers who waits for that.
    fn end_files(&mut self, ends: Vec<(Handle, Rank, u64)>, out: &mut Vec<Action>) {
        for (handle, to, id) in ends {
            let names = self.directory.as_mut().map(|directory| &mut directory.names);
            match names.and_then(|names| names.remove_if_ending(handle)) {
                None => out.push(Action::Answer { to, id, answer: Answer::Done }),
                Some(gone) => self.remove_objects(gone, Some((to, id)), out),
            }
        }
    }

    /// Removes the other files that have ended with a batch.
    fn remove_files(&mut self, batch: &Batch, out: &mut Vec<Action>) {
        for (change, _) in &batch.changes {
            let Change::Ending { handle } = change else { continue };
            let names = self.directory.as_mut().map(|directory| &mut directory.names);
            if let Some(gone) = names.and_then(|names| names.remove_if_ending(*handle)) {
                self.remove_objects(gone, None, out);
            }
        }
    }

    /// Ends files that nobody can reach any more; while an unlink is being committed, not before it is. Where a commit has failed, none ends
    /// any more: a restart may find its name.
    pub(super) fn sweep(&mut self, out: &mut Vec<Action>) {
        let Some(directory) = self.directory.as_mut().filter(|directory| directory.failed.is_none()) else {
            return;
        };
        // As a commit ends, it is looked again.
        if directory.running.is_some() {
            return;
        }
        // Those of which the log knows it since an earlier life.
        let gone = directory.names.remove_found_ending();
        directory.endings = directory.names.unused();
        let any = !directory.endings.is_empty();
        for gone in gone {
            self.remove_objects(gone, None, out);
        }
        if any {
            self.next_batch(out);
        }
    }

    /// The objects of a file are removed on all of its servers.
    pub(super) fn ended(&mut self, handle: Handle) {
        if let Some(directory) = &mut self.directory {
            directory.names.apply(&Change::Ended { handle });
            if directory.log.is_some() {
                directory.ended.push(handle);
            }
        }
    }

    /// A client began anew.
    pub(super) fn forget(&mut self, client: Rank, out: &mut Vec<Action>) {
        let Some(directory) = &mut self.directory else { return };
        directory.queued.retain(|(from, ..)| *from != client);
        directory.held.retain(|(from, ..)| *from != client);
        if let Some(batch) = &mut directory.running {
            batch.asked.retain(|(from, ..)| *from != client);
        }
        directory.names.forget(client);
        self.sweep(out);
    }

    /// A client has these files open since an earlier life of this server.
    pub(super) fn on_heard(
        &mut self,
        client: Rank,
        open: &[(Handle, u32)],
        more: bool,
        out: &mut Vec<Action>,
    ) {
        let Some(directory) = &mut self.directory else { return };
        directory.names.heard(client, open, more);
        self.sweep(out);
    }
}

impl Directory {
    /// A batch has not taken effect after all.
    fn take_back(&mut self, batch: &Batch) {
        for (to, _, answer) in &batch.answers {
            if let Ok(Answer::Opened { handle, .. }) = answer {
                // It was opened in this very batch.
                let _ = self.names.close(*to, *handle, false);
            }
        }
        for (change, unlinked) in batch.changes.iter().rev() {
            self.names.undo(change, *unlinked);
            if let Change::Ended { handle } = change {
                self.ended.push(*handle);
            }
        }
        for (file, ..) in &batch.cuts {
            self.names.is_cut(file.handle);
        }
    }
}

/// A directory's home, as far as its requests depend on it.
#[derive(Clone, Copy)]
struct Home {
    servers: u32,
    me: u16,
    /// Bytes of names in an answer.
    room: usize,
    epoch: u64,
    /// Whether what it answers survives it.
    logged: bool,
}

impl Home {
    /// An answer that was kept.
    fn answer(self, kept: Kept) -> Answer {
        match kept {
            Kept::Done => Answer::Done,
            Kept::Opened { handle, layout } => Answer::Opened { handle, layout, epoch: self.epoch },
            Kept::Place { at } => Answer::Place { at },
        }
    }
}

/// Carries one request out, unless it was carried out before.
fn name_request(names: &mut Names, of: Home, (from, id): (Rank, u64), request: Request, batch: &mut Batch) {
    let Request::Recorded { asked, request } = request else {
        let _ = carry_out(names, of, (from, id), request, batch);
        return;
    };
    if let Some(kept) = names.answered(from, asked) {
        batch.known_again += 1;
        return batch.answers.push((from, id, kept.map(|kept| of.answer(kept))));
    }
    let held = batch.held.len();
    let kept = carry_out(names, of, (from, id), *request, batch);
    if let Some((.., request)) = batch.held.get_mut(held) {
        // It is known by its number when its turn comes.
        let inner = Box::new(request.clone());
        *request = Request::Recorded { asked, request: inner };
    }
    if let Some(kept) = kept.filter(|_| of.logged) {
        let change = Change::Answered { client: from, asked, kept };
        names.apply(&change);
        batch.changes.push((change, None));
    }
}

/// Carries one request out; what is answered to it, if it changed something and is answered with the batch.
fn carry_out(
    names: &mut Names,
    of: Home,
    (from, id): (Rank, u64),
    request: Request,
    batch: &mut Batch,
) -> Option<Kept> {
    let mut effect = None;
    let mut changes = |change, kept: Kept| {
        batch.changes.push((change, None));
        effect = Some(kept);
        of.answer(kept)
    };
    let answer = match request {
        Request::Create { path, layout } => match layout.of_file(names.given(), of.servers) {
            layout if !layout.fits(of.servers) => Err(Refusal::Distribution),
            layout => names
                .create(of.me, from, path, layout)
                .map(|(handle, change)| changes(change, Kept::Opened { handle, layout })),
        },
        Request::Open { path } => {
            let opened = names.open(from, &path);
            opened.map(|(handle, layout)| of.answer(Kept::Opened { handle, layout }))
        }
        Request::List { directory, after } => {
            let listed = names.list(&directory, after.as_ref(), of.room);
            listed.map(|(names, more)| Answer::Names { names, more })
        }
        Request::Stat { path } => {
            names.stat(&path).map(|(file, attributes)| Answer::Stat { file, attributes })
        }
        Request::SetAttributes { path, set } => {
            names.set_attributes(&path, set).map(|change| changes(change, Kept::Done))
        }
        Request::MakeDirectory { path } => {
            names.make_directory(path).map(|change| changes(change, Kept::Done))
        }
        Request::RemoveDirectory { path } => {
            names.remove_directory(path).map(|change| changes(change, Kept::Done))
        }
        Request::Rename { from: old, to, replaces } => match names.rename(old, to, replaces) {
            Ok(Some((Some(replaced), change))) => return batch.unlinks(change, replaced, (from, id)),
            Ok(Some((None, change))) => Ok(changes(change, Kept::Done)),
            Ok(None) => Ok(Answer::Done),
            Err(why) => Err(why),
        },
        Request::Unlink { path } => match names.unlink(&path) {
            Ok((handle, change)) => return batch.unlinks(change, handle, (from, id)),
            Err(why) => Err(why),
        },
        Request::Close { handle, epoch: opened } => match names.close(from, handle, opened != of.epoch) {
            Ok(()) => {
                batch.closes.push((handle, from, id));
                return None;
            }
            Err(why) => Err(why),
        },
        place_or_cut => return carry_out_at_end(names, of, (from, id), place_or_cut, batch),
    };
    batch.answers.push((from, id, answer));
    effect
}

/// The same of a request about a file's end.
fn carry_out_at_end(
    names: &mut Names,
    of: Home,
    (from, id): (Rank, u64),
    request: Request,
    batch: &mut Batch,
) -> Option<Kept> {
    let answer = match request {
        Request::Place { handle, .. } | Request::Truncate { handle, .. } if names.is_cutting(handle) => {
            batch.held.push((from, id, request));
            return None;
        }
        Request::Place { handle, len, least, cuts } => match names.cuts(from, handle) {
            Ok(now) if (of.epoch, now) != cuts => Ok(Answer::Cuts((of.epoch, now))),
            Ok(_) => names.place(from, handle, (len, least)).map(|(at, change)| {
                batch.changes.push((change, None));
                Answer::Place { at }
            }),
            Err(why) => Err(why),
        },
        Request::Placed { handle, at } => {
            names.placed(from, handle, at);
            Ok(Answer::Done)
        }
        Request::Truncate { handle, size } => match names.cut(from, handle) {
            Ok((layout, change)) => {
                batch.changes.push((change, None));
                batch.cuts.push((Gone { handle, layout }, size, from, id));
                return None;
            }
            Err(why) => Err(why),
        },
        _ => Err(Refusal::Stale),
    };
    let kept = match answer {
        Ok(Answer::Place { at }) => Some(Kept::Place { at }),
        _ => None,
    };
    batch.answers.push((from, id, answer));
    kept
}

impl Batch {
    /// Files that nobody can reach any more end with this batch, be it by a request in it or otherwise. Before that is durable
    /// nothing of them is removed: a guest that was forgotten and does not know it may claim them in the home's next life.
    fn end_files(&mut self, directory: &mut Directory) {
        let Directory { names, endings, .. } = directory;
        let asked = self.ends.iter().chain(&self.closes);
        let ended = asked.filter_map(|(handle, ..)| names.end_if_unused(*handle));
        self.changes.extend(std::mem::take(endings).into_iter().chain(ended).map(|change| (change, None)));
    }

    /// Whether nothing of it was asked for but what ends.
    fn only_ends(&self) -> bool {
        self.changes.iter().all(|(change, _)| matches!(change, Change::Ending { .. } | Change::Ended { .. }))
    }

    /// A file loses its name, and may end by that.
    fn unlinks(&mut self, change: Change, file: Handle, (from, id): (Rank, u64)) -> Option<Kept> {
        self.changes.push((change, Some(file)));
        self.ends.push((file, from, id));
        Some(Kept::Done)
    }
}
