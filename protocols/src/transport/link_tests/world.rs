//! Two ends of a link and all that lies between them: a connection manager that loses, delays and reorders, queue
//! pairs that break at any moment, and nodes that restart.

mod views;

use super::super::*;
use crate::transport::session::{Header, Received, Session};
use std::collections::VecDeque;
use weft_verbs::CmId;

pub const BUFFERS: u32 = 8;

/// A message: who sent it, in which incarnation, and its number.
type Body = (usize, u64, u64);

#[derive(Clone, Copy, Debug)]
pub enum Packet {
    Request {
        from: ConnId,
        hello: Hello,
        queue: u64,
    },
    Accept {
        to: ConnId,
        from: ConnId,
        hello: Hello,
        queue: u64,
    },
    Ready {
        to: ConnId,
    },
    Reject {
        to: ConnId,
        refusal: Refusal,
    },
    End {
        to: ConnId,
    },
    /// A request or an answer over the queue pair of a connection that stood by.
    Greet {
        to: ConnId,
        asks: bool,
        hello: Hello,
        queue: u64,
    },
}

/// A connection that stands by: its identities at both ends, and its queue pairs.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    id: ConnId,
    theirs: ConnId,
    number: u64,
    peer: u64,
}

/// A queue pair as the other end's packets find it.
#[derive(Clone, Copy, Debug)]
struct Qp {
    number: u64,
    peer: Option<u64>,
    fenced: bool,
}

#[derive(Debug)]
pub struct End {
    incarnation: u64,
    /// It takes its peer for gone, and has retired, as [`Mesh`](crate::transport::Mesh) does.
    pub gone: bool,
    retired: bool,
    pub link: Link,
    pub session: Session<Body>,
    qp: Option<Qp>,
    /// One that is connected by other means and waits to be adopted.
    prepared: Option<Qp>,
    /// What stands by, and of which such connection the queue pair in use is.
    standby: Option<Ahead>,
    via: Option<Ahead>,
    /// The manager's connections: own identity, the other's once known, the queue pair.
    ids: Vec<(ConnId, Option<ConnId>, u64)>,
    /// Manager's events that the node has not looked at.
    mail: VecDeque<Event>,
    pauses: Vec<u32>,
    pub pushed: u64,
    /// By sender's incarnation, the numbers delivered to this incarnation.
    delivered: Vec<(u64, u64)>,
    /// Queue pairs that operations of ours were aimed at.
    aimed: Vec<u64>,
}

impl End {
    fn new(me: usize, incarnation: u64, rails: u8) -> End {
        let ranks = [Rank::from_index(0), Rank::from_index(1)];
        End {
            incarnation,
            gone: false,
            retired: false,
            link: Link::new(ranks[me], ranks[1 - me], incarnation, rails, Down::default()),
            session: Session::new(BUFFERS),
            qp: None,
            prepared: None,
            standby: None,
            via: None,
            ids: Vec::new(),
            mail: VecDeque::new(),
            pauses: Vec::new(),
            pushed: 0,
            delivered: Vec::new(),
            aimed: Vec::new(),
        }
    }

    fn live(&self, number: u64) -> bool {
        self.qp.or(self.prepared).is_some_and(|qp| qp.number == number && !qp.fenced)
    }

    /// The connection that stood by becomes the one in use, if it has this identity, or is it already.
    fn use_standby(&mut self, id: ConnId) -> Option<Ahead> {
        if self.via.is_some_and(|via| via.id == id) && self.qp.is_some() {
            return self.via;
        }
        let ahead = self.standby.take_if(|standby| standby.id == id)?;
        assert!(self.qp.is_none(), "an old queue pair is left");
        self.qp = Some(Qp { number: ahead.number, peer: Some(ahead.peer), fenced: false });
        self.via = Some(ahead);
        self.via
    }
}

pub struct World {
    pub ends: [End; 2],
    /// The manager's datagrams, by destination.
    pub datagrams: Vec<(usize, Packet)>,
    /// Frames on their way: destination, its queue pair, what. In order for each queue pair.
    frames: Vec<(usize, u64, Header, Body)>,
    pub next: u64,
    rails: u8,
    /// Connections are made that stand by.
    ahead: bool,
    /// A membership says who is there, and who is not; by node, all incarnations that are no more.
    views: bool,
    past: [Vec<u64>; 2],
}

impl World {
    pub fn new() -> World {
        World::over(1)
    }

    /// Two rails.
    pub fn railed() -> World {
        World::over(2)
    }

    /// Two rails, and connections that stand by.
    pub fn ahead() -> World {
        World { ahead: true, ..World::over(2) }
    }

    fn over(rails: u8) -> World {
        let ends = [End::new(0, 1, rails), End::new(1, 2, rails)];
        World {
            ends,
            datagrams: Vec::new(),
            frames: Vec::new(),
            next: 2,
            rails,
            ahead: false,
            views: false,
            past: Default::default(),
        }
    }

    /// Both ends have a queue pair that is connected to the other's and not adopted yet.
    pub fn prepared() -> World {
        let mut world = World::new();
        let numbers = [world.fresh(), world.fresh()];
        for at in 0..2 {
            let qp = Qp { number: numbers[at], peer: Some(numbers[1 - at]), fenced: false };
            world.ends[at].prepared = Some(qp);
        }
        world
    }

    /// Adopts what was prepared, unless the connection manager was faster.
    pub fn adopt(&mut self, at: usize) {
        let peer = &self.ends[1 - at];
        let hello = Hello {
            lease: 0,
            lacks_atomics: false,
            rank: Rank::from_index(1 - at as u32),
            to: Rank::from_index(at as u32),
            session: peer.incarnation,
            with: 0,
            generation: 1,
            buffers: BUFFERS,
            max_message: 0,
            received: 0,
        };
        let end = &mut self.ends[at];
        let Some(qp) = end.prepared.take() else { return };
        if end.link.takes_adoption() && end.qp.is_none() {
            end.qp = Some(qp);
            self.handle(at, Event::Adopted(hello));
        }
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn handle(&mut self, at: usize, event: Event) {
        let end = &mut self.ends[at];
        let mut actions = Vec::new();
        end.link.on_event(event, end.session.kept() > 0, &mut actions);
        if event == Event::Drained {
            (end.qp, end.via) = (None, None);
        }
        for action in actions {
            self.act(at, action);
        }
    }

    fn hello(&mut self, at: usize, with: u64, generation: u32) -> Hello {
        // Whatever was prepared is superseded.
        self.ends[at].prepared = None;
        let end = &self.ends[at];
        assert!(end.qp.is_none(), "an old queue pair is left while a new one is made");
        Hello {
            lease: 0,
            lacks_atomics: false,
            rank: Rank::from_index(at as u32),
            to: Rank::from_index(1 - at as u32),
            session: end.incarnation,
            with,
            generation,
            buffers: BUFFERS,
            max_message: 0,
            received: if with == end.link.incarnation() { end.session.received() } else { 0 },
        }
    }

    fn act(&mut self, at: usize, action: Action) {
        match action {
            Action::Fence => {
                self.ends[at].session.disconnected();
                // There is none where what stood by was gone when it was to be accepted.
                let ahead = self.ahead;
                let qp = self.ends[at].qp.as_mut();
                assert!(qp.is_some() || ahead, "there is one to fence");
                qp.into_iter().for_each(|qp| qp.fenced = true);
            }
            Action::Disconnect(id) => {
                self.ends[at].standby.take_if(|standby| standby.id == id);
                self.forget(at, id);
            }
            Action::Discard => (self.ends[at].qp, self.ends[at].via) = (None, None),
            Action::Resolve(rail) => {
                assert!(rail < self.rails, "there is no such rail");
                let id = ConnId { rail, id: CmId(self.fresh()) };
                self.handle(at, Event::Begun(id));
                self.ends[at].mail.push_back(Event::Resolved(id));
            }
            Action::Connect(id, generation) => {
                let incarnation = self.ends[at].link.incarnation();
                if let Some(ahead) = self.ends[at].standby.filter(|standby| standby.id == id) {
                    let hello = self.hello(at, incarnation, generation);
                    self.ends[at].use_standby(id);
                    return self.greet(at, ahead, true, hello);
                }
                if self.ends[at].ids.iter().any(|e| e.0 == id) {
                    // What stood by is gone, and the link has not heard of it yet.
                    return self.handle(at, Event::Failed(id));
                }
                let (hello, queue) = (self.hello(at, incarnation, generation), self.fresh());
                self.ends[at].qp = Some(Qp { number: queue, peer: None, fenced: false });
                self.ends[at].ids.push((id, None, queue));
                self.datagrams.push((1 - at, Packet::Request { from: id, hello, queue }));
            }
            Action::Accept(id, request) => {
                if let Some(ahead) = self.ends[at].use_standby(id) {
                    let qp = self.ends[at].qp.take();
                    let hello = self.hello(at, request.session, request.generation);
                    self.ends[at].qp = qp;
                    self.greet(at, ahead, false, hello);
                    return self.handle(at, Event::Established(id));
                }
                if self.ahead && !self.ends[at].ids.iter().any(|e| e.0 == id) {
                    return self.handle(at, Event::Failed(id));
                }
                let hello = self.hello(at, request.session, request.generation);
                let queue = self.fresh();
                let end = &mut self.ends[at];
                let entry = end.ids.iter_mut().find(|e| e.0 == id).expect("a request that arrived");
                let (to, theirs) = (entry.1.expect("it came from somewhere"), entry.2);
                entry.2 = queue;
                end.qp = Some(Qp { number: queue, peer: Some(theirs), fenced: false });
                self.datagrams.push((1 - at, Packet::Accept { to, from: id, hello, queue }));
            }
            Action::Reject(id, refusal) => {
                if self.ends[at].standby.take_if(|standby| standby.id == id).is_some() {
                    return self.forget(at, id);
                }
                if let Some(to) = self.take_id(at, id) {
                    self.datagrams.push((1 - at, Packet::Reject { to, refusal }));
                }
            }
            Action::NewIncarnation(again) => {
                self.ends[at].gone = false;
                if again {
                    self.ends[at].session.reset();
                }
            }
            Action::Resume(hello) => self.resume(at, hello),
            Action::Pause(_, number) => self.ends[at].pauses.push(number),
            Action::Outcast(_) | Action::Gone => self.give_up(at),
        }
    }

    fn resume(&mut self, at: usize, hello: Hello) {
        let aimed = std::mem::take(&mut self.ends[at].aimed);
        for number in aimed {
            assert!(!self.ends[1 - at].live(number), "an old operation could still execute");
        }
        assert!(self.ends[at].session.connected(hello.received, hello.buffers), "an impossible position");
    }

    fn take_id(&mut self, at: usize, id: ConnId) -> Option<ConnId> {
        let index = self.ends[at].ids.iter().position(|e| e.0 == id)?;
        self.ends[at].ids.remove(index).1
    }

    fn forget(&mut self, at: usize, id: ConnId) {
        if let Some(to) = self.take_id(at, id) {
            self.datagrams.push((1 - at, Packet::End { to }));
        }
    }

    /// A datagram reaches the manager of its destination.
    pub fn arrive(&mut self, at: usize, packet: Packet) {
        match packet {
            Packet::Request { from, hello, queue } => {
                let id = ConnId { rail: from.rail, id: CmId(self.fresh()) };
                self.ends[at].ids.push((id, Some(from), queue));
                self.ends[at].mail.push_back(Event::Request(id, hello));
            }
            Packet::Accept { to, from, hello, queue } => {
                let end = &mut self.ends[at];
                let Some(entry) = end.ids.iter_mut().find(|e| e.0 == to) else {
                    self.datagrams.push((1 - at, Packet::End { to: from }));
                    return;
                };
                entry.1 = Some(from);
                let own = entry.2;
                if let Some(qp) = end.qp.as_mut().filter(|qp| qp.number == own) {
                    qp.peer = Some(queue);
                }
                end.mail.push_back(Event::Accepted(to, hello));
                self.datagrams.push((1 - at, Packet::Ready { to: from }));
            }
            Packet::Ready { to } => {
                if self.ends[at].ids.iter().any(|e| e.0 == to) {
                    self.ends[at].mail.push_back(Event::Established(to));
                }
            }
            Packet::Reject { to, refusal } => {
                if self.take_id(at, to).is_some() || self.ends[at].link.id() == Some(to) {
                    self.ends[at].mail.push_back(Event::Rejected(to, Some(refusal)));
                }
            }
            Packet::End { to } => {
                if self.ends[at].ids.iter().any(|e| e.0 == to) {
                    self.take_id(at, to);
                    let standby = self.ends[at].standby.take_if(|standby| standby.id == to);
                    let over = if standby.is_some() { Event::NoStandby(to) } else { Event::Disconnected(to) };
                    self.ends[at].mail.push_back(over);
                }
            }
            Packet::Greet { to, asks, hello, queue } => {
                let end = &mut self.ends[at];
                let stands_by = end.standby.is_some_and(|standby| standby.number == queue);
                if stands_by || end.live(queue) {
                    let event = if asks { Event::Request(to, hello) } else { Event::Accepted(to, hello) };
                    // It is looked at before what the connection manager says.
                    let ahead = end.mail.iter().position(|event| matches!(event, Event::StandsBy(_)));
                    end.mail.insert(ahead.unwrap_or(end.mail.len()), event);
                }
            }
        }
    }

    fn greet(&mut self, at: usize, ahead: Ahead, asks: bool, hello: Hello) {
        self.datagrams.push((1 - at, Packet::Greet { to: ahead.theirs, asks, hello, queue: ahead.peer }));
    }

    /// A connection stands by at both ends, or one end gives it up.
    pub fn change_standby(&mut self, at: usize, pick: usize) {
        if let Some(ahead) = self.ends[at].standby.take() {
            self.forget(at, ahead.id);
            return self.handle(at, Event::NoStandby(ahead.id));
        }
        let incarnations = [0, 1].map(|at| (self.ends[at].incarnation, self.ends[at].link.incarnation()));
        let met = incarnations[0].0 == incarnations[1].1 && incarnations[1].0 == incarnations[0].1;
        if !met || self.ends.iter().any(|end| !end.link.is_up() || end.standby.is_some()) {
            return;
        }
        let rail = (pick % usize::from(self.rails)) as u8;
        let ids = [self.fresh(), self.fresh()].map(|id| ConnId { rail, id: CmId(id) });
        let numbers = [self.fresh(), self.fresh()];
        for at in 0..2 {
            let (id, theirs) = (ids[at], ids[1 - at]);
            let ahead = Ahead { id, theirs, number: numbers[at], peer: numbers[1 - at] };
            self.ends[at].standby = Some(ahead);
            self.ends[at].ids.push((id, Some(theirs), numbers[at]));
            self.ends[at].mail.push_back(Event::StandsBy(id));
        }
    }

    pub fn push(&mut self, from: usize) {
        let end = &mut self.ends[from];
        if end.gone {
            return;
        }
        end.pushed += 1;
        let body = (from, end.incarnation, end.pushed);
        end.session.push(body);
        self.handle(from, Event::Wanted);
    }

    pub fn pump(&mut self, from: usize) {
        let end = &mut self.ends[from];
        let Some(peer) = end.qp.filter(|_| end.link.is_up()).and_then(|qp| qp.peer) else { return };
        loop {
            let frame = match end.session.next_message() {
                Some((header, body)) => (header, *body),
                None => match end.session.credit_return() {
                    Some(header) => (header, (from, 0, 0)),
                    None => break,
                },
            };
            self.frames.push((1 - from, peer, frame.0, frame.1));
        }
        end.aimed.push(peer);
    }

    /// The oldest frame of some queue pair arrives; where its queue pair does not take it, it is lost.
    fn deliver(&mut self, pick: usize) {
        if self.frames.is_empty() {
            return;
        }
        let (at, queue, ..) = self.frames[pick % self.frames.len()];
        let first = self.frames.iter().position(|f| f.1 == queue).expect("this one at least");
        let (_, _, header, body) = self.frames[first];
        let end = &mut self.ends[at];
        if !end.live(queue) {
            self.frames.remove(first);
            return;
        }
        if !end.link.is_up() {
            // Held until the connection is reported to stand.
            return;
        }
        self.frames.remove(first);
        match end.session.on_frame(header) {
            Received::Deliver => {
                let last = end.delivered.iter().rev().find(|d| d.0 == body.1).map_or(0, |d| d.1);
                assert!(body.1 != 0 && body.2 > last, "out of order, or twice");
                end.delivered.push((body.1, body.2));
            }
            Received::Violation => panic!("an honest peer was accused"),
            Received::Duplicate | Received::Control => {}
        }
        end.session.reposted();
    }

    /// The queue pairs at both ends break, or one that the other end does not notice.
    pub fn break_qp(&mut self, at: usize) {
        if self.ends[at].link.is_up() {
            self.frames.clear();
            self.handle(at, Event::Broken);
        }
    }

    fn time_out(&mut self, at: usize) {
        if let Some(id) = self.ends[at].link.id()
            && !self.ends[at].link.is_up()
            && self.ends[at].ids.iter().any(|e| e.0 == id)
        {
            self.take_id(at, id);
            self.handle(at, Event::Failed(id));
        }
    }

    fn restart(&mut self, at: usize) {
        let incarnation = self.fresh();
        self.past[at].push(self.ends[at].incarnation);
        self.frames.retain(|f| f.0 != at);
        self.ends[at] = End::new(at, incarnation, self.rails);
    }

    /// The node takes its oldest event, or something local happens.
    pub fn node(&mut self, at: usize) {
        if let Some(event) = self.ends[at].mail.pop_front() {
            self.handle(at, event);
        } else if self.ends[at].link.is_draining() {
            self.handle(at, Event::Drained);
        } else if let Some(number) = self.ends[at].pauses.pop() {
            self.handle(at, Event::Paused(number));
        }
        self.pump(at);
    }

    /// The port of one of a node's rails loses its link or has it again, or its connection is to go back to a better rail.
    fn move_rails(&mut self, at: usize, pick: usize) {
        let rail = (pick / 3 % usize::from(self.rails)) as u8;
        match pick % 3 {
            0 => self.handle(at, Event::RailDown(rail)),
            1 => self.handle(at, Event::RailUp(rail)),
            _ => self.handle(at, Event::FailBack(rail)),
        }
    }

    /// One step of the world, as the numbers say.
    fn step(&mut self, kind: u8, pick: usize) {
        let at = pick % 2;
        match kind {
            0..=9 if self.ends[at].prepared.is_some() => self.adopt(at),
            50..=59 if self.rails > 1 => self.move_rails(at, pick / 2),
            40..=49 if self.views => self.change_members(at, pick / 2),
            46..=49 if self.ahead => self.change_standby(at, pick / 2),
            0..=59 => self.node(at),
            60..=119 => {
                if !self.datagrams.is_empty() {
                    let (to, packet) = self.datagrams.remove(pick % self.datagrams.len());
                    self.arrive(to, packet);
                }
            }
            120..=139 => {
                if !self.datagrams.is_empty() {
                    self.datagrams.remove(pick % self.datagrams.len());
                }
            }
            140..=189 => self.deliver(pick),
            190..=219 => self.push(at),
            220..=234 => self.break_qp(at),
            235..=249 => self.time_out(at),
            _ => self.restart(at),
        }
    }

    /// What the numbers say, one step after the other.
    pub fn run(&mut self, steps: Vec<(u8, u16)>) {
        for (kind, pick) in steps {
            self.step(kind, usize::from(pick));
        }
    }

    /// Faults have stopped: what was lost is noticed, and everything else arrives.
    pub fn heal(&mut self) {
        (0..2).for_each(|at| self.adopt(at));
        for round in 0..5_000 {
            for at in 0..2 {
                self.node(at);
                let end = &self.ends[at];
                let peer = &self.ends[1 - at];
                // A queue pair whose far end is gone fails, if it is used.
                let gone = end.qp.and_then(|qp| qp.peer).is_some_and(|number| !peer.live(number));
                if gone && end.link.is_up() && end.session.kept() > 0 {
                    self.handle(at, Event::Broken);
                }
                // The manager's retries end, after the pauses of the others.
                if self.datagrams.is_empty() && round % 7 == 0 {
                    self.time_out(at);
                }
            }
            if !self.datagrams.is_empty() {
                let (to, packet) = self.datagrams.remove(0);
                self.arrive(to, packet);
            }
            for _ in 0..4 {
                self.deliver(0);
            }
            for at in 0..2 {
                if self.ends[at].link.is_up()
                    && let Some(peer) = self.ends[at].qp.and_then(|qp| qp.peer)
                    && let Some(header) = self.ends[at].session.late_ack()
                {
                    self.frames.push((1 - at, peer, header, (at, 0, 0)));
                }
            }
        }
    }

    pub fn delivered(&self, from: usize) -> Vec<u64> {
        let incarnation = self.ends[from].incarnation;
        self.ends[1 - from].delivered.iter().filter(|d| d.0 == incarnation).map(|d| d.1).collect()
    }
}
