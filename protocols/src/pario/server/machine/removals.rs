//! What is done to a file on all of its servers: a file without names and opens ends, one that is cut ends earlier. And a client that
//! begins anew leaves nothing.
//!
//! Who removes a file is answered when its servers have removed their objects, so that their room is free by then. A server that does not
//! answer is not waited for: that the file ends is durable, and the rest is done when that server is back. Otherwise a client whose calls wait for
//! one server has none left for names, which need the home alone. And that server is asked for a few removals only, and for the others as
//! it answers: a home that begins anew has all of them to make at once. So is the home's own disk where nobody waits for a removal: behind all of
//! them names would be told, and bytes moved, a minute later.

use super::*;

/// Removals for which a server is asked at once. Each is asked for again and again while that server is away.
const MOST_ASKED: usize = 64;

/// Whom to answer.
type Asker = Option<(Rank, u64)>;

impl Machine {
    /// Removes the objects of a file on all of its servers, and answers when those have that are not away.
    pub(super) fn remove_objects(&mut self, gone: Gone, answer: Asker, out: &mut Vec<Action>) {
        let handle = gone.handle;
        self.barred.add(handle);
        let first = self.barred.first(handle);
        let each = |_| (StoreCall::Remove(handle), Request::Remove { handle, first });
        self.spread(gone, (true, answer), each, out);
    }

    /// Cuts the objects of a file on all of its servers, and answers then. The one that has the last byte grows, if need be.
    pub(super) fn cut_objects(&mut self, file: Gone, size: u64, answer: (Rank, u64), out: &mut Vec<Action>) {
        let Gone { handle, layout } = file;
        let last = size.checked_sub(1).map(|last| layout.locate(last).0);
        let each = |part| {
            let (size, grows) = (layout.extent(part, &(0..size)).end, last == Some(part));
            (StoreCall::Cut { handle, size, grows }, Request::Cut { handle, size, grows })
        };
        self.spread(file, (false, Some(answer)), each, out);
    }

    fn spread(
        &mut self,
        Gone { handle, layout }: Gone,
        (removes, answer): (bool, Asker),
        each: impl Fn(u16) -> (StoreCall, Request),
        out: &mut Vec<Action>,
    ) {
        let spread = self.number();
        let left = u32::from(layout.servers());
        let mut late = 0;
        for part in 0..layout.servers() {
            let (server, (call, request)) = (layout.server(part, self.config.servers), each(part));
            if server == self.me && (!removes || answer.is_some()) {
                let op = self.begin(Op::Part { spread, at: None, late: false });
                self.in_turn(op, handle, vec![WHOLE], call, out);
            } else if removes {
                late += u32::from(!self.remove_at(server, spread, request, out));
            } else {
                let op = self.begin(Op::Part { spread, at: None, late: false });
                out.push(Action::Spread { op, server, request });
            }
        }
        self.spread.insert(spread, Spread { handle, removes, left, late, failed: None, answer });
        self.look_at(spread, out);
    }

    /// Asks a server to remove its object, or will do so later: then nobody waits for it. Whether it is asked.
    fn remove_at(&mut self, server: u32, spread: u64, request: Request, out: &mut Vec<Action>) -> bool {
        let asks = |at: &Removals| !at.is_away && at.asked < MOST_ASKED;
        let is_asked = self.removals.get(&server).is_none_or(asks);
        let op = self.begin(Op::Part { spread, at: Some(server), late: !is_asked });
        let at = self.removals.entry(server).or_default();
        if is_asked {
            at.asked += 1;
            self.ask_removal(server, op, request, out);
        } else {
            at.unasked.push_back((op, request));
        }
        is_asked
    }

    fn ask_removal(&mut self, server: u32, op: u64, request: Request, out: &mut Vec<Action>) {
        match request {
            Request::Remove { handle, .. } if server == self.me => {
                self.in_turn(op, handle, vec![WHOLE], StoreCall::Remove(handle), out);
            }
            request => out.push(Action::Spread { op, server, request }),
        }
    }

    /// A server has not removed its object for long.
    pub(super) fn is_late(&mut self, op: u64, out: &mut Vec<Action>) {
        let Some(Op::Part { spread: number, at: Some(server), late }) = self.ops.get_mut(&op) else { return };
        let (number, server, was_late) = (*number, *server, std::mem::replace(late, true));
        self.removals.entry(server).or_default().is_away = true;
        if let Some(spread) = self.spread.get_mut(&number).filter(|_| !was_late) {
            spread.late += 1;
            self.look_at(number, out);
        }
    }

    /// A server has answered to a removal: it is asked for what it was not asked for yet.
    pub(super) fn has_removed(&mut self, server: u32, out: &mut Vec<Action>) {
        let Some(at) = self.removals.get_mut(&server) else { return };
        (at.asked, at.is_away) = (at.asked - 1, false);
        let more = (MOST_ASKED - at.asked).min(at.unasked.len());
        let now: Vec<_> = at.unasked.drain(..more).collect();
        at.asked += more;
        if at.asked == 0 {
            self.removals.remove(&server);
        }
        for (op, request) in now {
            self.ask_removal(server, op, request, out);
        }
    }

    pub(super) fn part_ended(
        &mut self,
        number: u64,
        was_late: bool,
        end: Result<(), Refusal>,
        out: &mut Vec<Action>,
    ) {
        let Some(spread) = self.spread.get_mut(&number) else { return };
        spread.left -= 1;
        spread.late -= u32::from(was_late);
        if let Err(why) = end {
            spread.failed.get_or_insert(why);
        }
        self.look_at(number, out);
    }

    /// Answers who waits for a removal or a cut, if nothing is left to wait for, and has done with it if nothing is left.
    fn look_at(&mut self, number: u64, out: &mut Vec<Action>) {
        let Some(spread) = self.spread.get_mut(&number).filter(|spread| spread.left == spread.late) else {
            return;
        };
        if spread.removes {
            // Who removes a file has done so, whatever is left of it. Its log says that it ends, so the home's next life removes the rest.
            out.extend(spread.answer.take().map(|(to, id)| Action::Answer { to, id, answer: Answer::Done }));
        }
        if spread.left > 0 {
            return;
        }
        let Some(Spread { handle, removes, failed, answer, .. }) = self.spread.remove(&number) else {
            return;
        };
        if removes {
            if failed.is_none() {
                self.ended(handle);
            }
            return;
        }
        let answered =
            |(to, id)| Action::Answer { to, id, answer: failed.map_or(Answer::Done, Answer::Refused) };
        out.extend(answer.map(answered));
        self.is_cut(handle, out);
    }

    pub(super) fn on_reset(&mut self, client: Rank, out: &mut Vec<Action>) {
        let orphaned = self.jobs.values_mut().filter(|job| job.client == Some(client));
        orphaned.for_each(|job| job.client = None);
        // Its last life moves nothing any more: its connection is fenced.
        let taken: Vec<u64> =
            self.offered.iter().filter(|(_, (to, _))| *to == client).map(|(op, _)| *op).collect();
        for op in taken {
            self.offered.remove(&op);
            self.on_moved(op, false, out);
        }
        self.leave_rounds(client);
        self.waits_no_more(client);
        self.forget(client, out);
    }
}
