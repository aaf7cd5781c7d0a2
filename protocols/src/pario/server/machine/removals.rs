//! What is done to a file on all of its servers: a file without names and opens ends, one that is cut ends earlier. And a client that
//! begins anew leaves nothing.

use super::*;

/// Whom to answer.
type Asker = Option<(Rank, u64)>;

impl Machine {
    /// Removes the objects of a file on all of its servers, and answers then.
    pub(super) fn remove_objects(&mut self, gone: Gone, answer: Asker, out: &mut Vec<Action>) {
        let handle = gone.handle;
        self.barred.add(handle);
        let each = |_| (StoreCall::Remove(handle), Request::Remove { handle });
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
        self.spread.insert(spread, Spread { handle, removes, left, failed: None, answer });
        for part in 0..layout.servers() {
            let server = layout.server(part, self.config.servers);
            let (op, (call, request)) = (self.begin(Op::Part { spread }), each(part));
            if server == self.me {
                self.in_turn(op, handle, vec![WHOLE], call, out);
            } else {
                out.push(Action::Spread { op, server, request });
            }
        }
    }

    pub(super) fn part_ended(&mut self, number: u64, end: Result<(), Refusal>, out: &mut Vec<Action>) {
        let Some(spread) = self.spread.get_mut(&number) else { return };
        spread.left -= 1;
        if let Err(why) = end {
            spread.failed.get_or_insert(why);
        }
        if spread.left > 0 {
            return;
        }
        let Some(Spread { handle, removes, failed, answer, .. }) = self.spread.remove(&number) else {
            return;
        };
        // Who removes a file has done so, whatever is left of it. Its log says that it ends, so the home's next life removes the rest.
        let refused = failed.filter(|_| !removes);
        if removes && failed.is_none() {
            self.ended(handle);
        }
        let answered =
            |(to, id)| Action::Answer { to, id, answer: refused.map_or(Answer::Done, Answer::Refused) };
        out.extend(answer.map(answered));
        if !removes {
            self.is_cut(handle, out);
        }
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
