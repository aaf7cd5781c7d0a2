//! Units: how the data of a request go between client, staging and disk.

use super::*;

impl Machine {
    /// A request whose data ride in messages: one call of the disk, since its bytes lie together in the object.
    pub(super) fn eager(
        &mut self,
        (client, id): (Rank, u64),
        bytes: Bytes,
        (mut left, extent): (Pieces, Range<u64>),
        call: StoreCall,
        out: &mut Vec<Action>,
    ) {
        left.by_ref().for_each(drop);
        let writes = matches!(call, StoreCall::Write { .. });
        let job = self.number();
        let (client, memory) = (Some(client), None);
        self.jobs.insert(
            job,
            Job {
                client,
                id,
                bytes,
                memory,
                writes,
                left,
                begun: 1,
                short: false,
                failed: None,
                ending: false,
            },
        );
        self.counts.eager += 1;
        let op = self.begin(Op::Eager { job });
        self.in_turn(op, bytes.handle, extent, call, out);
    }

    /// A request whose data go through staging.
    pub(super) fn staged(
        &mut self,
        (client, id): (Rank, u64),
        bytes: Bytes,
        left: Pieces,
        (memory, writes): (RemoteSlice, bool),
    ) {
        let job = self.number();
        let (client, memory) = (Some(client), Some(memory));
        self.jobs.insert(
            job,
            Job {
                client,
                id,
                bytes,
                memory,
                writes,
                left,
                begun: 0,
                short: false,
                failed: None,
                ending: false,
            },
        );
        self.counts.staging_waits += u64::from(self.free.is_empty());
        self.waiting.push_back(job);
    }

    /// Gives free places to those who wait, one unit each in turn.
    pub(super) fn hand_out_places(&mut self, out: &mut Vec<Action>) {
        while !self.free.is_empty()
            && let Some(number) = self.waiting.pop_front()
        {
            let Some(job) = self.jobs.get_mut(&number) else { continue };
            // What has failed, or has nobody to be answered, begins nothing more.
            let wanted = job.failed.is_none() && job.client.is_some();
            let Some(piece) = job.left.next().filter(|_| wanted) else {
                self.end_if_done(number, out);
                continue;
            };
            job.begun += 1;
            self.waiting.push_back(number);
            let Some(stage) = self.free.pop() else { return };
            self.begin_unit(number, piece, stage, out);
        }
    }

    pub(super) fn begin_unit(&mut self, number: u64, piece: Piece, stage: Stage, out: &mut Vec<Action>) {
        let Some(job) = self.jobs.get(&number) else { return };
        let (handle, writes) = (job.bytes.handle, job.writes);
        if writes {
            let (from, at) = (job.client, remote(job, piece));
            let op = self.begin(Op::Pull { job: number, piece, stage });
            match (from, at) {
                (Some(from), Some(at)) => {
                    self.counts.pulls += 1;
                    out.push(Action::Pull { op, from, at, stage });
                }
                _ => self.on_moved(op, false, out),
            }
        } else {
            let op = self.begin(Op::Read { job: number, piece, stage });
            let into = Place::Stage { stage, len: piece.len };
            let call = StoreCall::Read { handle, at: piece.physical, into };
            self.in_turn(op, handle, within(piece), call, out);
        }
    }

    /// Calls the disk when it is the range's turn.
    pub(super) fn in_turn(
        &mut self,
        op: u64,
        handle: Handle,
        range: Range<u64>,
        call: StoreCall,
        out: &mut Vec<Action>,
    ) {
        let writes = !matches!(call, StoreCall::Read { .. });
        match self.ranges.ask(op, handle, range, writes) {
            true => out.push(Action::Store { op, call }),
            false => drop(self.held.insert(op, call)),
        }
    }

    /// A transfer at an object has ended, and others may have their turn.
    pub(super) fn turn_over(&mut self, op: u64, handle: Handle, out: &mut Vec<Action>) {
        for op in self.ranges.end(op, handle) {
            if let Some(call) = self.held.remove(&op) {
                out.push(Action::Store { op, call });
            }
        }
    }

    pub(super) fn on_stored(&mut self, number: u64, end: Result<Stored, Refusal>, out: &mut Vec<Action>) {
        let Some(op) = self.ops.remove(&number) else { return };
        match op {
            Op::Plain { from, id } => {
                // A removal is the one plain call that took a turn; its object is known by it.
                self.end_any_turn(number, out);
                out.push(Action::Answer { to: from, id, answer: plain_answer(end) });
            }
            Op::Part { removal } => {
                self.end_any_turn(number, out);
                self.part_removed(removal, out);
            }
            Op::Durable { job } => {
                if let (Err(refusal), Some(job)) = (end, self.jobs.get_mut(&job)) {
                    job.failed = Some(refusal);
                }
                self.answer(job, Vec::new(), out);
            }
            Op::Eager { job } => {
                self.turn_of_job_over(number, job, out);
                let bytes = self.note_read(job, self.extent_len(job), end);
                self.unit_ended(job, bytes, out);
            }
            Op::Write { job, stage } => {
                self.turn_of_job_over(number, job, out);
                self.free.push(stage);
                self.note_read(job, 0, end);
                self.unit_ended(job, Vec::new(), out);
            }
            Op::Read { job, piece, stage } => {
                self.turn_of_job_over(number, job, out);
                self.note_read(job, piece.len, end);
                self.push(job, piece, stage, out);
            }
            // Transfers end otherwise.
            Op::Pull { .. } | Op::Push { .. } => {
                self.ops.insert(number, op);
            }
        }
    }

    pub(super) fn turn_of_job_over(&mut self, op: u64, job: u64, out: &mut Vec<Action>) {
        if let Some(handle) = self.jobs.get(&job).map(|job| job.bytes.handle) {
            self.turn_over(op, handle, out);
        }
    }

    pub(super) fn end_any_turn(&mut self, op: u64, out: &mut Vec<Action>) {
        if let Some(handle) = self.ranges.object_of(op) {
            self.turn_over(op, handle, out);
        }
    }

    pub(super) fn extent_len(&self, job: u64) -> u32 {
        let part = |bytes: Bytes| bytes.layout.part(self.me, self.config.servers).unwrap_or_default();
        self.jobs.get(&job).map_or(0, |job| {
            let Bytes { at, len, layout, .. } = job.bytes;
            let extent = layout.extent(part(job.bytes), &(at..at + u64::from(len)));
            (extent.end - extent.start) as u32
        })
    }

    /// Notes how a request's call of the disk ended, and takes the bytes that it read.
    pub(super) fn note_read(&mut self, job: u64, wanted: u32, end: Result<Stored, Refusal>) -> Vec<u8> {
        let Some(job) = self.jobs.get_mut(&job) else { return Vec::new() };
        match end {
            Ok(Stored::Read { moved, bytes }) => {
                job.short |= moved < wanted;
                bytes
            }
            Ok(_) => Vec::new(),
            Err(refusal) => {
                job.failed = Some(refusal);
                Vec::new()
            }
        }
    }

    /// A unit that was read goes to its client.
    pub(super) fn push(&mut self, number: u64, piece: Piece, stage: Stage, out: &mut Vec<Action>) {
        let op = self.begin(Op::Push { job: number, stage });
        let job = self.jobs.get(&number).filter(|job| job.failed.is_none());
        match job.and_then(|job| Some((job.client?, remote(job, piece)?))) {
            Some((to, at)) => {
                self.counts.pushes += 1;
                out.push(Action::Push { op, to, at, stage });
            }
            // Failed, or nobody is there to take it.
            None => self.on_moved(op, true, out),
        }
    }

    pub(super) fn on_moved(&mut self, number: u64, done: bool, out: &mut Vec<Action>) {
        let Some(op) = self.ops.remove(&number) else { return };
        let (job, stage, pulled) = match op {
            Op::Pull { job, piece, stage } => (job, stage, Some(piece)),
            Op::Push { job, stage } => (job, stage, None),
            other => {
                self.ops.insert(number, other);
                return;
            }
        };
        let Some(known) = self.jobs.get_mut(&job) else { return self.free.push(stage) };
        if !done {
            known.failed.get_or_insert(Refusal::Memory);
        }
        let handle = known.bytes.handle;
        // A client that began anew has not been promised anything: its unit is not written.
        match pulled.filter(|_| done && known.client.is_some()) {
            Some(piece) => {
                let op = self.begin(Op::Write { job, stage });
                let from = Place::Stage { stage, len: piece.len };
                let call = StoreCall::Write { handle, at: piece.physical, from };
                self.in_turn(op, handle, within(piece), call, out);
            }
            None => {
                self.free.push(stage);
                self.unit_ended(job, Vec::new(), out);
            }
        }
    }

    pub(super) fn unit_ended(&mut self, number: u64, bytes: Vec<u8>, out: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.begun -= 1;
        if job.memory.is_some() {
            return self.end_if_done(number, out);
        }
        self.finish(number, bytes, out);
    }

    /// Ends a request of which nothing is under way and nothing is to begin.
    pub(super) fn end_if_done(&mut self, number: u64, out: &mut Vec<Action>) {
        let Some(job) = self.jobs.get(&number) else { return };
        let over = job.failed.is_some() || job.client.is_none() || job.left.clone().next().is_none();
        if over && job.begun == 0 && !job.ending {
            self.finish(number, Vec::new(), out);
        }
    }

    /// All units of a request have ended.
    pub(super) fn finish(&mut self, number: u64, bytes: Vec<u8>, out: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.ending = true;
        if job.writes && job.failed.is_none() && self.config.sync == Sync::Each {
            let call = StoreCall::Sync(job.bytes.handle);
            let op = self.begin(Op::Durable { job: number });
            return out.push(Action::Store { op, call });
        }
        self.answer(number, bytes, out);
    }

    pub(super) fn answer(&mut self, number: u64, bytes: Vec<u8>, out: &mut Vec<Action>) {
        let Some(job) = self.jobs.remove(&number) else { return };
        let Some(to) = job.client else { return };
        let answer = match (job.failed, job.writes, job.memory) {
            (Some(refusal), ..) => Answer::Refused(refusal),
            (None, true, _) => Answer::Done,
            (None, false, Some(_)) => Answer::Pushed { short: job.short },
            (None, false, None) => Answer::Data { bytes, short: job.short },
        };
        out.push(Action::Answer { to, id: job.id, answer });
    }
}
