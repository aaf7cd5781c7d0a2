//! Runs a toy program, one chosen step at a time.

use super::op::{Op, Program, Test, Value};
use crate::explore::system::{Coverage, Fingerprint, Stuck, TransitionSystem, Violation};
use crate::explore::trace_event::{BandState, TraceEvent};
use std::collections::VecDeque;
use std::rc::Rc;
use weft_sim::choice::EventId;
use weft_sim::explore::{AccessKind, Actor, Enabled, FaultSet, Footprint, Object, Outcome};

/// A toy program under way.
#[derive(Clone, Debug)]
pub struct Machine {
    program: Rc<Program>,
    words: Vec<u8>,
    processes: Vec<Process>,
    channels: Vec<Channel>,
    /// Who is in the critical section.
    inside: Vec<u8>,
    violation: Option<Violation>,
    trace: Option<Vec<TraceEvent>>,
}

#[derive(Clone, Debug, Default)]
struct Process {
    at: usize,
    register: u8,
    steps: u32,
    stopped: bool,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    /// The packets in order: number, value, sender.
    queue: VecDeque<Packet>,
    /// Packets that have left the order.
    strays: Vec<Packet>,
    sent: u32,
    down: bool,
    cuts: u32,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    number: u32,
    value: u8,
    from: u8,
}

/// What an event is about; it makes up the high byte of its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Step = 1,
    Timeout,
    Delivery,
    Stray,
    Repair,
}

const fn identity(about: About, which: u8, count: u32) -> u64 {
    (about as u64) << 56 | (which as u64) << 32 | count as u64
}

/// What can be touched.
#[derive(Clone, Copy, Debug)]
enum Thing {
    Word(u8),
    /// Whether a process goes on.
    Life(u8),
    Link(u8),
    /// The end of a channel's queue: who sends first comes first.
    Tail(u8),
    /// A packet: sent before it is delivered.
    Packet(u8, u32),
    Section,
}

impl From<Thing> for Object {
    fn from(thing: Thing) -> Object {
        let (kind, which, count) = match thing {
            Thing::Word(word) => (1, word, 0),
            Thing::Life(process) => (2, process, 0),
            Thing::Link(channel) => (3, channel, 0),
            Thing::Packet(channel, number) => (4, channel, number),
            Thing::Section => (5, 0, 0),
            Thing::Tail(channel) => (6, channel, 0),
        };
        Object(kind << 60 | u64::from(which) << 32 | u64::from(count))
    }
}

/// Notes touches if somebody asks for them.
struct Touches<'a>(Option<&'a mut Footprint>);

impl Touches<'_> {
    fn note(&mut self, thing: Thing, how: AccessKind) {
        if let Some(footprint) = &mut self.0 {
            footprint.push(thing.into(), how);
        }
    }
}

impl Machine {
    /// A program at its beginning.
    pub fn new(program: Program) -> Machine {
        let mut machine = Machine {
            words: vec![0; program.words.into()],
            processes: vec![Process::default(); program.processes.len()],
            channels: vec![Channel::default(); program.channels.len()],
            inside: Vec::new(),
            violation: None,
            trace: None,
            program: Rc::new(program),
        };
        (0..machine.processes.len()).for_each(|process| machine.settle(process as u8));
        machine
    }

    /// The words that the processes share.
    pub fn words(&self) -> &[u8] {
        &self.words
    }

    fn op(&self, process: u8) -> Option<Op> {
        let at = &self.processes[process as usize];
        if at.stopped { None } else { self.program.processes[process as usize].get(at.at).copied() }
    }

    fn value(&self, process: u8, value: Value) -> u8 {
        match value {
            Value::Is(value) => value,
            Value::Register(more) => self.processes[process as usize].register.wrapping_add(more),
        }
    }

    fn passes(&self, process: u8, found: u8, test: Test) -> bool {
        match test {
            Test::Equals(value) => found == self.value(process, value),
            Test::Differs(value) => found != self.value(process, value),
        }
    }

    /// Takes the branches that the process stands before. A loop of nothing but branches ends after one round.
    fn settle(&mut self, process: u8) {
        for _ in 0..self.program.processes[process as usize].len() {
            let Some(Op::Branch(test, to)) = self.op(process) else { return };
            let jumps = self.passes(process, self.processes[process as usize].register, test);
            let at = &mut self.processes[process as usize].at;
            *at = if jumps { to.into() } else { *at + 1 };
        }
    }

    fn can_step(&self, process: u8) -> bool {
        match self.op(process) {
            None => false,
            Some(Op::Await(word, test) | Op::AwaitOrTimeout(word, test)) => {
                self.passes(process, self.words[word as usize], test)
            }
            Some(_) => true,
        }
    }

    fn step(&mut self, process: u8, op: Op, touches: &mut Touches<'_>) {
        touches.note(Thing::Life(process), AccessKind::Read);
        let mut register = self.processes[process as usize].register;
        match op {
            Op::Read(word) => {
                touches.note(Thing::Word(word), AccessKind::Read);
                register = self.words[word as usize];
            }
            Op::Write(word, value) => {
                self.changes(word, touches);
                self.words[word as usize] = self.value(process, value);
            }
            Op::FetchAdd(word, value) => {
                self.changes(word, touches);
                register = self.words[word as usize];
                self.words[word as usize] = register.wrapping_add(self.value(process, value));
            }
            Op::CompareSwap(word, expected, new) => {
                self.changes(word, touches);
                let was = self.words[word as usize];
                if was == self.value(process, expected) {
                    self.words[word as usize] = self.value(process, new);
                }
                register = was;
            }
            Op::Await(word, _) => {
                touches.note(Thing::Word(word), AccessKind::Read);
                register = self.words[word as usize];
            }
            Op::AwaitOrTimeout(word, test) => {
                touches.note(Thing::Word(word), AccessKind::Read);
                register = self.passes(process, self.words[word as usize], test).into();
            }
            Op::Send(channel, value) => self.send(process, channel, self.value(process, value), touches),
            Op::Stop(other) => {
                touches.note(Thing::Life(other), AccessKind::Write);
                self.processes[other as usize].stopped = true;
            }
            Op::Enter => self.enter(process, touches),
            Op::Leave => {
                touches.note(Thing::Section, AccessKind::Write);
                self.inside.retain(|inside| *inside != process);
                self.band(process, BandState::Nothing);
            }
            Op::Check(word, test) => {
                touches.note(Thing::Word(word), AccessKind::Read);
                let found = self.words[word as usize];
                if !self.passes(process, found, test) {
                    let text = format!("process {process} finds {found} in word {word}, which is not {test}");
                    self.violation.get_or_insert(Violation::new("check", text));
                }
            }
            Op::Branch(..) => {}
        }
        let at = &mut self.processes[process as usize];
        (at.register, at.at, at.steps) = (register, at.at + 1, at.steps + 1);
        self.settle(process);
    }

    /// A word is written. That enables those who wait for it, unless they were stopped.
    fn changes(&self, word: u8, touches: &mut Touches<'_>) {
        touches.note(Thing::Word(word), AccessKind::Write);
        for process in 0..self.processes.len() as u8 {
            if self.waits_for(process) == Some(word) {
                touches.note(Thing::Life(process), AccessKind::Read);
            }
        }
    }

    /// The word that a process waits for, or would if it had not been stopped.
    fn waits_for(&self, process: u8) -> Option<u8> {
        let at = self.processes[process as usize].at;
        match self.program.processes[process as usize].get(at)? {
            Op::Await(word, _) | Op::AwaitOrTimeout(word, _) => Some(*word),
            _ => None,
        }
    }

    fn enter(&mut self, process: u8, touches: &mut Touches<'_>) {
        touches.note(Thing::Section, AccessKind::Write);
        if let Some(other) = self.inside.first() {
            let text = format!("process {process} enters while process {other} is inside");
            self.violation.get_or_insert(Violation::new("mutual exclusion", text));
        }
        self.inside.push(process);
        self.band(process, BandState::Exclusive("inside".to_string()));
    }

    fn send(&mut self, process: u8, channel: u8, value: u8, touches: &mut Touches<'_>) {
        touches.note(Thing::Link(channel), AccessKind::Read);
        touches.note(Thing::Tail(channel), AccessKind::Write);
        let link = &mut self.channels[channel as usize];
        let number = link.sent;
        link.sent += 1;
        touches.note(Thing::Packet(channel, number), AccessKind::Cause);
        let packet = Packet { number, value, from: process };
        if !link.down {
            link.queue.push_back(packet);
        }
        let id = identity(About::Delivery, channel, number);
        let to = self.reader(channel);
        self.tell(|| TraceEvent::Send { packet: id, from: process.into(), to, text: format!("{value}") });
        if self.channels[channel as usize].down {
            self.tell(|| TraceEvent::Lost { packet: id });
        }
    }

    /// The first process that looks at a channel's word, for the diagram.
    fn reader(&self, channel: u8) -> u32 {
        let word = self.program.channels[channel as usize];
        let looks = |op: &Op| matches!(op, Op::Read(at) | Op::Await(at, _) | Op::AwaitOrTimeout(at, _) | Op::FetchAdd(at, _) if *at == word);
        self.program.processes.iter().position(|ops| ops.iter().any(looks)).unwrap_or(0) as u32
    }

    fn deliver(&mut self, channel: u8, packet: Packet, touches: &mut Touches<'_>) {
        let word = self.program.channels[channel as usize];
        touches.note(Thing::Packet(channel, packet.number), AccessKind::Cause);
        self.changes(word, touches);
        self.words[word as usize] = packet.value;
        let id = identity(About::Delivery, channel, packet.number);
        self.tell(|| TraceEvent::Arrive { packet: id, text: format!("word {word} = {}", packet.value) });
    }

    fn delivery(&mut self, channel: u8, outcome: Outcome, touches: &mut Touches<'_>) -> Option<()> {
        let packet = self.channels[channel as usize].queue.pop_front()?;
        let id = identity(About::Delivery, channel, packet.number);
        touches.note(Thing::Link(channel), AccessKind::Read);
        match outcome {
            Outcome::Done => self.deliver(channel, packet, touches),
            Outcome::Drop => {
                touches.note(Thing::Packet(channel, packet.number), AccessKind::Cause);
                self.tell(|| TraceEvent::Lost { packet: id });
            }
            Outcome::Delay => {
                touches.note(Thing::Packet(channel, packet.number), AccessKind::Cause);
                self.channels[channel as usize].strays.push(packet);
                self.channels[channel as usize].strays.sort_by_key(|stray| stray.number);
            }
            _ => {
                touches.note(Thing::Packet(channel, packet.number), AccessKind::Cause);
                touches.note(Thing::Link(channel), AccessKind::Write);
                let link = &mut self.channels[channel as usize];
                let lost = std::mem::take(&mut link.queue);
                link.down = true;
                let to = self.reader(channel);
                let nodes = vec![packet.from.into(), to];
                self.tell(|| TraceEvent::Fault { nodes, text: format!("channel {channel} is cut") });
                for packet in std::iter::once(packet).chain(lost) {
                    self.tell(|| TraceEvent::Lost {
                        packet: identity(About::Delivery, channel, packet.number),
                    });
                }
            }
        }
        Some(())
    }

    fn happen(&mut self, event: EventId, outcome: Outcome, touches: &mut Touches<'_>) -> Option<()> {
        let which = (event.0 >> 32) as u8;
        let about = event.0 >> 56;
        if about == About::Step as u64 || about == About::Timeout as u64 {
            let op = self.op(which)?;
            if let Some(word) = self.waits_for(which) {
                // However it goes, it can go because of what is there.
                touches.note(Thing::Word(word), AccessKind::Read);
            }
            if outcome == Outcome::Crash {
                touches.note(Thing::Life(which), AccessKind::Write);
                self.processes[which as usize].stopped = true;
                self.tell(|| TraceEvent::Fault { nodes: vec![which.into()], text: "crashes".to_string() });
                return Some(());
            }
            self.tell(|| TraceEvent::Note { node: which.into(), text: op.to_string() });
            self.step(which, op, touches);
            if let Some(word) = self.waits_for(which) {
                // Whether this step has enabled the next one is part of what it does.
                touches.note(Thing::Word(word), AccessKind::Read);
            }
        } else if about == About::Delivery as u64 {
            self.delivery(which, outcome, touches)?;
        } else if about == About::Stray as u64 {
            let strays = &mut self.channels[which as usize].strays;
            let index = strays.iter().position(|stray| u64::from(stray.number) == event.0 & 0xffff_ffff)?;
            let packet = strays.remove(index);
            self.deliver(which, packet, touches);
        } else {
            touches.note(Thing::Link(which), AccessKind::Write);
            let link = &mut self.channels[which as usize];
            (link.down, link.cuts) = (false, link.cuts + 1);
        }
        Some(())
    }

    fn band(&mut self, process: u8, state: BandState) {
        self.tell(|| TraceEvent::Band { node: process.into(), of: "the section".to_string(), state });
    }

    fn tell(&mut self, event: impl FnOnce() -> TraceEvent) {
        if let Some(trace) = &mut self.trace {
            trace.push(event());
        }
    }

    fn steps_enabled(&self, out: &mut Vec<Enabled>) {
        for process in 0..self.processes.len() as u8 {
            if self.can_step(process) {
                out.push(self.of_process(About::Step, process));
            }
        }
    }

    fn of_process(&self, about: About, process: u8) -> Enabled {
        Enabled {
            event: EventId(identity(about, process, self.processes[process as usize].steps)),
            actor: Actor(identity(About::Step, process, 0)),
            faults: FaultSet::one(Outcome::Crash),
            quiescent: about == About::Timeout,
        }
    }

    fn deliveries_enabled(&self, out: &mut Vec<Enabled>) {
        let enabled = |event, actor, faults| Enabled {
            event: EventId(event),
            actor: Actor(actor),
            faults,
            quiescent: false,
        };
        for (channel, link) in (0..).zip(&self.channels) {
            if let Some(packet) = link.queue.front() {
                let faults = [Outcome::Drop, Outcome::Delay, Outcome::Cut].into_iter().collect();
                let event = identity(About::Delivery, channel, packet.number);
                out.push(enabled(event, identity(About::Delivery, channel, 0), faults));
            }
            for stray in &link.strays {
                let event = identity(About::Stray, channel, stray.number);
                out.push(enabled(event, event, FaultSet::NONE));
            }
            if link.down {
                let event = identity(About::Repair, channel, link.cuts);
                out.push(enabled(event, identity(About::Repair, channel, 0), FaultSet::NONE));
            }
        }
    }
}

impl TransitionSystem for Machine {
    fn enabled(&mut self, out: &mut Vec<Enabled>) {
        self.steps_enabled(out);
        self.deliveries_enabled(out);
        if out.is_empty() {
            let late = (0..self.processes.len() as u8)
                .filter(|process| matches!(self.op(*process), Some(Op::AwaitOrTimeout(..))));
            out.extend(late.map(|process| self.of_process(About::Timeout, process)));
        }
    }

    fn take(
        &mut self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
    ) -> Result<(), Stuck> {
        self.happen(event, outcome, &mut Touches(touched)).ok_or(Stuck { event, outcome })
    }

    fn violation(&mut self) -> Option<Violation> {
        self.violation.clone()
    }

    fn finish(&mut self) -> Result<(), Violation> {
        let waits = |process: &u8| self.op(*process).is_some();
        match (0..self.processes.len() as u8).find(waits) {
            Some(process) if self.program.must_end => {
                let op = self.op(process).map_or_else(String::new, |op| op.to_string());
                let text = format!("process {process} never comes further: it {op}");
                Err(Violation::new("progress", text))
            }
            _ => Ok(()),
        }
    }

    fn fingerprint(&mut self) -> Option<Fingerprint> {
        let mut state: Vec<u8> = self.words.clone();
        for process in &self.processes {
            state.extend([process.at as u8, process.register, process.stopped.into()]);
            state.extend(process.steps.to_le_bytes());
        }
        for link in &self.channels {
            state.extend([
                link.down.into(),
                link.cuts as u8,
                link.queue.len() as u8,
                link.strays.len() as u8,
            ]);
            state.extend(link.sent.to_le_bytes());
            for packet in link.queue.iter().chain(&link.strays) {
                state.extend([packet.number as u8, packet.value]);
            }
        }
        state.extend(&self.inside);
        // FNV-1a of 128 bits.
        let step =
            |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        Some(Fingerprint(state.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step)))
    }

    fn coverage(&mut self, sink: &mut Coverage) {
        sink.sometimes(
            "every process came to its end",
            (0..self.processes.len() as u8).all(|p| self.op(p).is_none()),
        );
        sink.sometimes("a channel was repaired", self.channels.iter().any(|link| link.cuts > 0));
    }

    fn columns(&self) -> Vec<String> {
        (0..self.processes.len()).map(|process| format!("p{process}")).collect()
    }

    fn record_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    fn take_trace(&mut self) -> Vec<TraceEvent> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
