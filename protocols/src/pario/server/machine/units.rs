//! Units: how the data of a request go between client, staging and disk.

use super::*;

impl Machine {
    /// A request whose data ride in messages: one call of the disk.
    pub(super) fn eager(
        &mut self,
        (client, id): (Rank, u64),
        handle: Handle,
        unit: Unit,
        call: StoreCall,
        out: &mut Vec<Action>,
    ) {
        let writes = matches!(call, StoreCall::Write { .. });
        let job = self.job((client, id), handle, writes);
        if let Some(job) = self.jobs.get_mut(&job) {
            job.begun = 1;
        }
        self.counts.eager += 1;
        let op = self.begin(Op::Eager { job, len: unit.len });
        self.in_turn(op, handle, ranges(&unit), call, out);
    }

    /// A request whose data go through staging.
    pub(super) fn staged(
        &mut self,
        asked: (Rank, u64),
        bytes: &Bytes,
        left: Peekable<Pieces>,
        (memory, writes): (&Memory, bool),
    ) {
        let (client, job) = (asked.0, self.job(asked, bytes.handle, writes));
        // The other servers have about as much of it each.
        let bytes = u64::from(bytes.len.div_ceil(bytes.layout.servers().into()));
        self.load += bytes;
        if let Some(job) = self.jobs.get_mut(&job) {
            (job.memory, job.left, job.loads) = (Some(memory.slice), Some(left), (memory.load.into(), bytes));
        }
        self.counts.staging_waits += u64::from(self.free.is_empty());
        self.waiting.wait(client, job);
    }

    fn job(&mut self, (client, id): (Rank, u64), handle: Handle, writes: bool) -> u64 {
        let (number, client) = (self.number(), Some(client));
        let (memory, left, begun, short, failed, ending) = (None, None, 0, false, None, false);
        let loads = (0, 0);
        let job = Job { client, id, handle, memory, writes, loads, left, begun, short, failed, ending };
        self.jobs.insert(number, job);
        number
    }

    /// Gives free places to those who wait, in turn.
    pub(super) fn hand_out_places(&mut self, out: &mut Vec<Action>) {
        while !self.free.is_empty()
            && let Some((client, number)) = self.waiting.next()
        {
            let mut job = self.jobs.get_mut(&number);
            // Its object may be removed: what a guest that was forgotten still reads are no zeros.
            if let Some(job) = job.as_deref_mut().filter(|job| self.barred.has(job.handle)) {
                job.failed.get_or_insert(Refusal::Stale);
            }
            // What has failed, or has nobody to be answered, begins nothing more.
            let left = job.filter(|job| job.failed.is_none() && job.client.is_some());
            let unit = left.and_then(|job| {
                let unit = Unit::take(job.left.as_mut()?, self.config.unit)?;
                job.begun += 1;
                Some(unit)
            });
            let (Some(unit), Some(stage)) = (unit, self.free.last().copied()) else {
                self.end_if_done(number, out);
                self.waiting.tidy(client);
                continue;
            };
            self.free.pop();
            self.waiting.took(client, stage, unit.len);
            self.waiting.wait(client, number);
            self.begin_unit(number, unit, stage, out);
        }
    }

    /// A place is free again.
    pub(super) fn give_back(&mut self, stage: Stage) {
        self.waiting.freed(stage);
        self.free.push(stage);
    }

    fn begin_unit(&mut self, number: u64, unit: Unit, stage: Stage, out: &mut Vec<Action>) {
        let Some(Job { handle, writes, client, memory, .. }) = self.jobs.get(&number) else { return };
        let (handle, client, memory) = (*handle, *client, *memory);
        if *writes {
            let runs = unit.memory.clone();
            let op = self.begin(Op::Pull { job: number, unit, stage });
            match (client, memory) {
                (Some(to), Some(_)) if self.client_moves(number) => {
                    self.offer(op, number, to, (stage, runs), out)
                }
                (Some(from), Some(memory)) => {
                    self.counts.pulls += 1;
                    out.push(Action::Pull { op, from, memory, runs, stage });
                }
                _ => self.on_moved(op, false, out),
            }
        } else {
            let into = Place::Stage { stage, len: unit.len };
            let call = StoreCall::Read { handle, runs: unit.object.clone(), into };
            let turn = ranges(&unit);
            let op = self.begin(Op::Read { job: number, unit, stage });
            self.in_turn(op, handle, turn, call, out);
        }
    }

    /// Whether the client is to move a request's units (5.1, Figure 6).
    fn client_moves(&self, number: u64) -> bool {
        let Some(Job { writes, loads: (client, _), .. }) = self.jobs.get(&number) else { return false };
        let heavy = self.load >= u64::from(self.config.stages) * u64::from(self.config.unit);
        match self.config.movers {
            Movers::Server => false,
            Movers::Client => true,
            Movers::Adaptive if heavy => true,
            // The receiver reads if it is less loaded than the sender.
            Movers::Adaptive if *writes => self.load >= *client,
            Movers::Adaptive => *client < self.load,
        }
    }

    /// A place is the client's until it says that all is moved, or began anew.
    fn offer(
        &mut self,
        op: u64,
        number: u64,
        to: Rank,
        (stage, runs): (Stage, Vec<Run>),
        out: &mut Vec<Action>,
    ) {
        let Some(Job { id, writes, .. }) = self.jobs.get(&number) else { return };
        let (id, writes) = (*id, *writes);
        self.counts.offered += 1;
        self.offered.insert(op, (to, id));
        out.push(Action::Offer { op, to, id, stage, runs, writes });
    }

    /// Calls the disk when it is the range's turn.
    pub(super) fn in_turn(
        &mut self,
        op: u64,
        handle: Handle,
        ranges: Vec<Range<u64>>,
        call: StoreCall,
        out: &mut Vec<Action>,
    ) {
        let writes = !matches!(call, StoreCall::Read { .. });
        match self.ranges.ask(op, handle, ranges, writes) {
            true => out.push(Action::Store { op, call }),
            false => drop(self.held.insert(op, call)),
        }
    }

    /// A call about an object has ended, and others may have their turn if it had one.
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
            Op::Plain { from, id, handle } => {
                self.turn_over(number, handle, out);
                let end = match end {
                    // It took no turn: what it says of a file that has ended meanwhile may be of before or behind its end.
                    Ok(Stored::Size(_)) => self.lives(handle).and(end),
                    end => end,
                };
                out.push(Action::Answer { to: from, id, answer: plain_answer(end, self.epoch) });
            }
            Op::Part { spread, at, late } => {
                if let Some(handle) = self.spread.get(&spread).map(|spread| spread.handle) {
                    self.turn_over(number, handle, out);
                }
                at.into_iter().for_each(|server| self.has_removed(server, out));
                self.part_ended(spread, late, end.map(drop), out);
            }
            Op::Durable { handle } => self.durable(handle, end.err(), out),
            Op::Eager { job, len } => {
                self.turn_of_job_over(number, job, out);
                let bytes = self.note_read(job, len, end);
                self.unit_ended(job, bytes, out);
            }
            Op::Write { job, stage } => {
                self.turn_of_job_over(number, job, out);
                self.give_back(stage);
                self.note_read(job, 0, end);
                self.unit_ended(job, Vec::new(), out);
            }
            Op::Read { job, unit, stage } => {
                self.turn_of_job_over(number, job, out);
                self.note_read(job, unit.len, end);
                self.push(job, unit, stage, out);
            }
            // Transfers end otherwise.
            Op::Pull { .. } | Op::Push { .. } | Op::Commit | Op::Lives { .. } => {
                self.ops.insert(number, op);
            }
        }
    }

    pub(super) fn turn_of_job_over(&mut self, op: u64, job: u64, out: &mut Vec<Action>) {
        if let Some(handle) = self.jobs.get(&job).map(|job| job.handle) {
            self.turn_over(op, handle, out);
        }
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
    fn push(&mut self, number: u64, unit: Unit, stage: Stage, out: &mut Vec<Action>) {
        let op = self.begin(Op::Push { job: number, stage });
        let job = self.jobs.get(&number).filter(|job| job.failed.is_none());
        match job.and_then(|job| Some((job.client?, job.memory?))) {
            Some((to, _)) if self.client_moves(number) => {
                self.offer(op, number, to, (stage, unit.memory), out);
            }
            Some((to, memory)) => {
                self.counts.pushes += 1;
                out.push(Action::Push { op, to, memory, runs: unit.memory, stage });
            }
            // Failed, or nobody is there to take it.
            None => self.on_moved(op, true, out),
        }
    }

    pub(super) fn on_moved(&mut self, number: u64, done: bool, out: &mut Vec<Action>) {
        let Some(op) = self.ops.remove(&number) else { return };
        let (job, stage, pulled) = match op {
            Op::Pull { job, unit, stage } => (job, stage, Some(unit)),
            Op::Push { job, stage } => (job, stage, None),
            other => {
                self.ops.insert(number, other);
                return;
            }
        };
        let Some(known) = self.jobs.get_mut(&job) else { return self.give_back(stage) };
        if !done {
            known.failed.get_or_insert(Refusal::Memory);
        }
        let handle = known.handle;
        let gone = pulled.is_some() && self.barred.has(handle);
        if gone {
            known.failed.get_or_insert(Refusal::Stale);
        }
        // A client that began anew has not been promised anything: its unit is not written.
        match pulled.filter(|_| done && !gone && known.client.is_some()) {
            Some(unit) => {
                let op = self.begin(Op::Write { job, stage });
                let from = Place::Stage { stage, len: unit.len };
                let turn = ranges(&unit);
                let call = StoreCall::Write { handle, runs: unit.object, from };
                self.in_turn(op, handle, turn, call, out);
            }
            None => {
                self.give_back(stage);
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
        let Some(job) = self.jobs.get_mut(&number) else { return };
        let none_left = job.left.as_mut().is_none_or(|left| left.peek().is_none());
        let over = job.failed.is_some() || job.client.is_none() || none_left;
        if over && job.begun == 0 && !job.ending {
            self.finish(number, Vec::new(), out);
        }
    }

    /// All units of a request have ended.
    pub(super) fn finish(&mut self, number: u64, bytes: Vec<u8>, out: &mut Vec<Action>) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.ending = true;
        if job.writes && job.failed.is_none() && self.config.sync == Sync::Each {
            let handle = job.handle;
            return match self.syncing.get_mut(&handle) {
                Some(syncing) => syncing.next.push(number),
                None => self.make_durable(handle, vec![number], out),
            };
        }
        self.answer(number, bytes, out);
    }

    fn make_durable(&mut self, handle: Handle, covered: Vec<u64>, out: &mut Vec<Action>) {
        self.syncing.insert(handle, Syncing { covered, next: Vec::new() });
        let op = self.begin(Op::Durable { handle });
        out.push(Action::Store { op, call: StoreCall::Sync(handle) });
    }

    /// Writes are durable, or nobody knows.
    fn durable(&mut self, handle: Handle, failed: Option<Refusal>, out: &mut Vec<Action>) {
        let Some(Syncing { covered, next }) = self.syncing.remove(&handle) else { return };
        for number in covered {
            if let Some(job) = self.jobs.get_mut(&number) {
                job.failed = failed;
            }
            self.answer(number, Vec::new(), out);
        }
        if !next.is_empty() {
            self.make_durable(handle, next, out);
        }
    }

    pub(super) fn answer(&mut self, number: u64, bytes: Vec<u8>, out: &mut Vec<Action>) {
        let Some(job) = self.jobs.remove(&number) else { return };
        self.load -= job.loads.1;
        let Some(to) = job.client else { return };
        let answer = match (job.failed, job.writes, job.memory) {
            (Some(refusal), ..) => Answer::Refused(refusal),
            (None, true, _) => Answer::At { epoch: self.epoch },
            (None, false, Some(_)) => Answer::Pushed { short: job.short },
            (None, false, None) => Answer::Data { bytes, short: job.short },
        };
        out.push(Action::Answer { to, id: job.id, answer });
    }
}

/// Where a unit lies in its object.
fn ranges(unit: &Unit) -> Vec<Range<u64>> {
    unit.object.iter().map(|run| run.range()).collect()
}
