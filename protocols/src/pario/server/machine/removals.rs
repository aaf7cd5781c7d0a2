//! Removals: a file without names and opens ends on all of its servers, and a client that begins anew leaves nothing.

use super::*;

impl Machine {
    /// Removes the objects of a file on all of its servers, and answers then.
    pub(super) fn remove_objects(&mut self, gone: Gone, answer: Option<(Rank, u64)>, out: &mut Vec<Action>) {
        let Gone { handle, layout } = gone;
        let removal = self.number();
        self.removals.insert(removal, Removal { handle, left: u32::from(layout.servers()), answer });
        for part in 0..layout.servers() {
            let server = layout.server(part, self.config.servers);
            let op = self.begin(Op::Part { removal });
            if server == self.me {
                self.in_turn(op, handle, vec![WHOLE], StoreCall::Remove(handle), out);
            } else {
                out.push(Action::Remove { op, server, handle });
            }
        }
    }

    pub(super) fn part_removed(&mut self, number: u64, out: &mut Vec<Action>) {
        let Some(removal) = self.removals.get_mut(&number) else { return };
        removal.left -= 1;
        if removal.left > 0 {
            return;
        }
        let Some(Removal { handle, answer, .. }) = self.removals.remove(&number) else { return };
        self.ended(handle);
        let answered = |(to, id)| Action::Answer { to, id, answer: Answer::Done };
        out.extend(answer.map(answered));
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
        self.forget(client, out);
    }
}
