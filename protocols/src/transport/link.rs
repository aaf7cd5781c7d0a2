//! The connection to one peer, from the first attempt to the last: a state machine without I/O.
//!
//! The rule is **freeze, fence, report, resume**. On any sign of failure an end stops posting, moves its
//! queue pair to the error state and drains it; only then does it report its receive position, in a request or
//! an acceptance, and only then does a new queue pair take over. So when a new generation stands, on either
//! side, both old queue pairs are fenced: no operation of the old generation can execute any more, and what
//! it had carried is known exactly.
//!
//! Both sides may ask at once. A request that has been sent by the lower rank goes first; the higher rank
//! gives up its own. A request of the higher rank that comes again, over another rail, says that the lower rank's has not
//! arrived, and may never: then the lower rank gives up its own. Generations are numbered so that a request that was delayed
//! on its way is known for what it is.
//!
//! Where nodes have several rails, each attempt goes over one of them ([`RailChoice`]). The rule does not ask which: an end
//! fences and drains its own adapter, which needs nobody else, and only then asks or answers over whatever rail. So a dead
//! rail delays no report, and when a generation stands on one rail, both queue pairs of the last one are fenced on theirs.

mod ahead;
mod barred;
mod events;

use super::Rank;
use super::grounds::Grounds;
use super::rail::{ConnId, Down, RailChoice};
use super::wire::{Hello, Refusal};
pub(super) use events::{Action, Event};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    /// No connection, and nothing under way.
    Idle,
    /// Between two attempts.
    Pausing,
    /// Waiting for the address.
    Resolving(Option<ConnId>),
    /// Our request is out.
    Asking(ConnId),
    /// Our acceptance is out.
    Accepting(ConnId, Hello),
    /// The connection stands. The connection manager knows it, unless it was adopted: then it is on rail 0.
    Up(Option<ConnId>),
}

/// The connection to one peer.
#[derive(Clone, Debug, Hash)]
pub(super) struct Link {
    me: Rank,
    peer: Rank,
    /// This node's incarnation.
    session: u64,
    state: State,
    /// A fenced queue pair is on its way to be empty; nothing is asked or accepted until then.
    draining: bool,
    /// Its connection had come to stand: what it still received belongs to the session. Of one that never stood, the
    /// other end may be of another incarnation than the session's; its sender repeats what nobody counted.
    stood: bool,
    /// A request that waits for the drain.
    waiting: Option<(ConnId, Hello)>,
    /// The peer's incarnation, and earlier ones: their late requests are stale.
    incarnation: Option<u64>,
    past: Vec<u64>,
    /// Incarnations of the peer that were expelled, however many, and on what grounds.
    barred: Vec<(u64, Grounds)>,
    /// This node has nothing to do with anybody any more.
    retired: bool,
    /// The latest generation agreed with this incarnation of the peer, and the latest proposed by us.
    floor: u32,
    proposed: u32,
    /// Attempts that failed since the last success.
    failures: u32,
    pauses: u32,
    rails: RailChoice,
    /// The connection that stands was asked for by this end.
    asked: bool,
    /// The peer, of the higher rank, was told that its request crosses this end's present one, which is out over another rail.
    told_of_crossing: bool,
    /// This end never asks: the peer is a guest, which asks by itself.
    answers_only: bool,
    /// The connection moves to another rail: so many attempts are made for that, whether something waits for it or not.
    moving: u8,
    /// A connection that stands by: nothing went over it yet.
    standby: Option<ConnId>,
}

/// As many failures in a row a pause is counted for at most, where the other end's request is on its way: 8 to 16 ms by default.
const CROSSED: u32 = 4;

/// How many earlier incarnations of a peer are remembered.
const PAST_INCARNATIONS: usize = 16;

impl Link {
    /// A link over so many rails, of which some are known to be down.
    pub(super) fn new(me: Rank, peer: Rank, session: u64, rails: u8, down: Down) -> Link {
        Link {
            me,
            peer,
            session,
            state: State::Idle,
            draining: false,
            stood: false,
            waiting: None,
            incarnation: None,
            past: Vec::new(),
            barred: Vec::new(),
            retired: false,
            floor: 0,
            proposed: 0,
            failures: 0,
            pauses: 0,
            rails: RailChoice::new(rails, down),
            asked: false,
            told_of_crossing: false,
            answers_only: false,
            moving: 0,
            standby: None,
        }
    }

    /// A link to a guest, which asks by itself, in this visit of its.
    pub(super) fn to_guest(me: Rank, guest: Rank, visit: u64) -> Link {
        Link { answers_only: true, ..Link::new(me, guest, visit, 1, Down::default()) }
    }

    /// From now on this end does not ask: it is leaving.
    pub(super) fn asks_no_more(&mut self) {
        self.answers_only = true;
    }

    /// Whether nothing stands, is under way, or is on its way to be empty.
    pub(super) fn is_idle(&self) -> bool {
        !self.draining && self.waiting.is_none() && matches!(self.state, State::Idle | State::Pausing)
    }

    /// Whether the connection stands.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Whether the peer may hold that a connection stands.
    pub(super) fn may_stand(&self) -> bool {
        matches!(self.state, State::Up(_) | State::Accepting(..))
    }

    /// Whether a fenced queue pair is draining.
    pub(super) fn is_draining(&self) -> bool {
        self.draining
    }

    /// Whether what arrives counts: the connection stands, or stood and is draining.
    pub(super) fn accepts_frames(&self) -> bool {
        self.is_up() || self.stood
    }

    /// The incarnation of the peer that we have a session with; 0 for none.
    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation.unwrap_or(0)
    }

    /// Whether this end has asked by that attempt, and nobody has answered.
    pub(super) fn asks(&self, attempt: ConnId) -> bool {
        self.state == State::Asking(attempt)
    }

    /// Whether this request was accepted, and nobody has said yet that the connection stands.
    fn accepts(&self, request: ConnId) -> bool {
        matches!(self.state, State::Accepting(id, _) if id == request)
    }

    /// The request that waits for the drain is given up, if there is one.
    pub(super) fn waits_no_more(&mut self) -> Option<ConnId> {
        self.waiting.take().map(|(id, _)| id)
    }

    /// The attempt or connection that the connection manager knows.
    pub(super) fn id(&self) -> Option<ConnId> {
        match self.state {
            State::Idle | State::Pausing => None,
            State::Resolving(id) | State::Up(id) => id,
            State::Asking(id) | State::Accepting(id, _) => Some(id),
        }
    }

    /// Takes an event. `wanted` says whether something waits for the connection.
    pub(super) fn on_event(&mut self, event: Event, wanted: bool, actions: &mut Vec<Action>) {
        match event {
            Event::Wanted => self.ask_if(self.state == State::Idle, actions),
            Event::Begun(id) => self.begun(id, actions),
            Event::NotBegun => {
                if self.state == State::Resolving(None) {
                    self.rails.failed(self.rails.next());
                    self.pause(actions);
                }
            }
            Event::Resolved(id) if self.state == State::Resolving(Some(id)) => {
                self.ask_over(id, actions);
            }
            Event::Request(id, hello) => self.requested(id, hello, actions),
            Event::Accepted(id, hello) if self.state == State::Asking(id) => {
                self.confirmed(id, true, hello, actions);
            }
            Event::Established(id) => {
                if let State::Accepting(own, hello) = self.state
                    && own == id
                {
                    self.confirmed(id, false, hello, actions);
                }
            }
            Event::Adopted(hello) if self.takes_adoption() => {
                if let State::Resolving(own) = self.state {
                    actions.extend(own.map(Action::Disconnect));
                }
                match self.bar(hello.session) {
                    Some(_) => {
                        self.state = State::Idle;
                        self.fence(actions);
                    }
                    None => self.stands(None, self.me < self.peer, hello, actions),
                }
            }
            Event::Rejected(id, refusal) if self.state == State::Asking(id) => {
                self.refused(refusal, actions);
            }
            // Some connection managers say so if the one that asked gives up what was accepted.
            Event::Rejected(id, _) if self.accepts(id) => self.attempt_failed(actions),
            Event::Failed(id) if self.id() == Some(id) => self.attempt_failed(actions),
            Event::Disconnected(id) if self.id() == Some(id) => self.broken(false, actions),
            Event::Broken => self.broken(true, actions),
            Event::Drained => self.drained(wanted, actions),
            Event::Paused(number) => {
                if self.state == State::Pausing && number == self.pauses {
                    self.state = State::Idle;
                    self.ask_if(wanted || self.moving > 0, actions);
                }
            }
            Event::RailDown(rail) => self.rail_down(rail, actions),
            Event::RailUp(rail) => {
                self.rails.set_down(rail, false);
                self.leave_dead_rail(actions);
            }
            Event::FailBack(rail) => {
                if self.better_rail() == Some(rail) {
                    self.broken(true, actions);
                    self.rails.prefer(rail);
                    self.moving = self.rails.count();
                }
            }
            Event::Prefer(rail) => self.rails.set_preferred(rail),
            Event::Expelled(incarnation, grounds) => self.expelled(incarnation, grounds, actions),
            Event::Retired => self.retire(actions),
            Event::Farewell => {
                let waiting = self.waits_no_more();
                actions.extend(waiting.map(|id| Action::Reject(id, Refusal::Unable)));
                self.broken(true, actions);
            }
            Event::StandsBy(id) => self.stands_by(id, actions),
            Event::NoStandby(id) => drop(self.standby.take_if(|standby| *standby == id)),
            Event::Unanswered(id) if self.state == State::Asking(id) => self.broken(true, actions),
            // Of attempts and connections that were given up.
            Event::Resolved(_)
            | Event::Accepted(..)
            | Event::Adopted(_)
            | Event::Rejected(..)
            | Event::Failed(_)
            | Event::Unanswered(_)
            | Event::Disconnected(_) => {}
        }
    }

    fn ask_if(&mut self, go: bool, actions: &mut Vec<Action>) {
        if go && self.state == State::Idle && !self.draining && !self.retired && !self.answers_only {
            match self.take_standby() {
                Some(id) => self.ask_over(id, actions),
                None => {
                    self.state = State::Resolving(None);
                    actions.push(Action::Resolve(self.rails.next()));
                }
            }
        }
    }

    fn ask_over(&mut self, id: ConnId, actions: &mut Vec<Action>) {
        self.proposed = self.proposed.max(self.floor) + 1;
        self.state = State::Asking(id);
        self.told_of_crossing = false;
        actions.push(Action::Connect(id, self.proposed));
    }

    fn begun(&mut self, id: ConnId, actions: &mut Vec<Action>) {
        match self.state {
            State::Resolving(None) => self.state = State::Resolving(Some(id)),
            _ => actions.push(Action::Disconnect(id)),
        }
    }

    fn requested(&mut self, id: ConnId, hello: Hello, actions: &mut Vec<Action>) {
        self.standby.take_if(|standby| *standby == id);
        if self.state == State::Asking(id) {
            return self.crossed(id, hello, actions);
        }
        if self.retired {
            // What it expelled, it expelled before others left it out: only these are to be believed.
            actions.push(Action::Reject(id, Refusal::Retired));
            return;
        }
        if let Some(grounds) = self.bar(hello.session) {
            actions.push(Action::Reject(id, Refusal::Expelled(grounds)));
            return;
        }
        if self.past.contains(&hello.session) {
            actions.push(Action::Reject(id, Refusal::Stale { floor: 0 }));
            return;
        }
        if self.incarnation == Some(hello.session) && hello.generation <= self.floor {
            actions.push(Action::Reject(id, Refusal::Stale { floor: self.floor }));
            return;
        }
        match self.state {
            // The first request that crosses this end's own is turned down, so that no two yield to each other: the peer takes this
            // end's when it arrives, and asks no more. One that comes again over another rail says that it has not arrived. Its rail may
            // be dead, and the connection manager tells so only after seconds, while the peer's works.
            State::Asking(own) if self.me < self.peer && !(self.told_of_crossing && own.rail != id.rail) => {
                self.told_of_crossing |= own.rail != id.rail;
                actions.push(Action::Reject(id, Refusal::SimultaneousOpen));
                return;
            }
            State::Asking(own) => {
                actions.push(Action::Disconnect(own));
                actions.push(Action::Discard);
            }
            State::Resolving(own) => actions.extend(own.map(Action::Disconnect)),
            State::Accepting(..) | State::Up(_) => {
                // The peer has given up the generation that we still held.
                let own = self.id();
                self.fence(actions);
                actions.extend(own.map(Action::Disconnect));
            }
            State::Idle | State::Pausing => {}
        }
        self.state = State::Idle;
        if let Some((older, _)) = self.waiting.replace((id, hello)) {
            actions.push(Action::Reject(older, Refusal::Stale { floor: self.floor }));
        }
        self.answer(actions);
    }

    /// Accepts the request that waits, once nothing of an old generation is left.
    fn answer(&mut self, actions: &mut Vec<Action>) {
        if self.draining {
            return;
        }
        let Some((id, request)) = self.waiting.take() else { return };
        // Above our own latest proposal too: a request of ours that is still on its way is stale from now on.
        let hello = Hello { generation: request.generation.max(self.proposed), ..request };
        if self.incarnation == Some(hello.session) {
            self.floor = hello.generation;
        }
        // Another incarnation is believed only once the connection stands: this request may be a late one of a node
        // that has restarted since, and then nobody answers.
        self.state = State::Accepting(id, hello);
        actions.push(Action::Accept(id, hello));
    }

    /// Both ends know that the connection stands. Nothing comes of it if the peer was expelled meanwhile.
    fn confirmed(&mut self, id: ConnId, asked: bool, hello: Hello, actions: &mut Vec<Action>) {
        match self.bar(hello.session) {
            Some(_) => self.broken(true, actions),
            None => self.stands(Some(id), asked, hello, actions),
        }
    }

    /// Both ends know that the connection stands, and which of them asked for it. (Of one that was adopted, the lower rank did.)
    fn stands(&mut self, id: Option<ConnId>, asked: bool, hello: Hello, actions: &mut Vec<Action>) {
        self.asked = asked;
        self.meet(hello.session, actions);
        self.floor = hello.generation.max(self.proposed);
        self.up(id, hello, actions);
    }

    /// Whether a connection made by other means can take its place here: there was none before, so nothing of
    /// an older generation needs a fence.
    pub(super) fn takes_adoption(&self) -> bool {
        let free = matches!(self.state, State::Idle | State::Pausing | State::Resolving(_));
        free && self.incarnation.is_none() && self.waiting.is_none() && !self.draining && !self.retired
    }

    /// Notes which incarnation of the peer this is.
    fn meet(&mut self, incarnation: u64, actions: &mut Vec<Action>) {
        if self.incarnation == Some(incarnation) {
            return;
        }
        let known = self.incarnation.replace(incarnation);
        if let Some(old) = known {
            if self.past.len() == PAST_INCARNATIONS {
                self.past.remove(0);
            }
            self.past.push(old);
        }
        self.drop_standby(actions);
        self.floor = 0;
        actions.push(Action::NewIncarnation(known.is_some()));
    }

    fn up(&mut self, id: Option<ConnId>, hello: Hello, actions: &mut Vec<Action>) {
        self.state = State::Up(id);
        self.failures = 0;
        self.moving = 0;
        let rail = id.map_or(0, |id| id.rail);
        self.rails.prefer(rail);
        self.drop_standby_on(rail, actions);
        // A position that the peer counted with an earlier incarnation of ours means nothing.
        let received = if hello.with == self.session { hello.received } else { 0 };
        actions.push(Action::Resume(Hello { received, ..hello }));
    }

    fn refused(&mut self, refusal: Option<Refusal>, actions: &mut Vec<Action>) {
        actions.push(Action::Discard);
        match refusal {
            Some(Refusal::Stale { floor }) => self.proposed = self.proposed.max(floor),
            Some(Refusal::Expelled(grounds)) => actions.push(Action::Outcast(grounds)),
            Some(Refusal::Retired) => actions.push(Action::Gone),
            // Of two that ask at once: its request is on the way, ours is the second choice. Where its request was lost, it takes seconds
            // until it is repeated, so the pauses grow; not beyond what is short beside that, since it may have given its request up.
            Some(Refusal::SimultaneousOpen) => self.failures = self.failures.min(CROSSED),
            Some(Refusal::Stranger | Refusal::Astray | Refusal::Unable | Refusal::Trial) | None => {}
        }
        self.pause(actions);
    }

    fn attempt_failed(&mut self, actions: &mut Vec<Action>) {
        self.rail_failed();
        match self.state {
            State::Accepting(..) | State::Up(_) => {
                // The queue pair may have received already.
                self.fence(actions);
                self.leave();
            }
            State::Asking(_) => {
                actions.push(Action::Discard);
                self.pause(actions);
            }
            State::Resolving(_) => self.pause(actions),
            State::Idle | State::Pausing => {}
        }
    }

    fn broken(&mut self, tell: bool, actions: &mut Vec<Action>) {
        self.rail_failed();
        match self.state {
            State::Up(_) | State::Accepting(..) => {
                let own = self.id().filter(|_| tell);
                self.fence(actions);
                actions.extend(own.map(Action::Disconnect));
                self.leave();
            }
            State::Asking(id) => {
                actions.push(Action::Disconnect(id));
                actions.push(Action::Discard);
                self.pause(actions);
            }
            State::Idle | State::Pausing | State::Resolving(_) => {}
        }
    }

    fn fence(&mut self, actions: &mut Vec<Action>) {
        self.draining = true;
        self.stood = self.is_up();
        actions.push(Action::Fence);
    }

    /// What stood or was accepted has ended. An accepted attempt counts among those of a move, or two ends that each give up
    /// what the other accepts would ask for ever without a pause.
    fn leave(&mut self) {
        if let State::Accepting(..) = self.state {
            self.moving = self.moving.saturating_sub(1);
        }
        self.state = State::Idle;
    }

    fn drained(&mut self, wanted: bool, actions: &mut Vec<Action>) {
        (self.draining, self.stood) = (false, false);
        if self.waiting.is_some() {
            self.answer(actions);
        } else if self.moving > 0 {
            self.ask_if(true, actions);
        } else if wanted && self.me > self.peer {
            // The lower rank goes first; this one only if nothing comes of that.
            self.pause(actions);
        } else {
            self.ask_if(wanted, actions);
        }
    }

    fn pause(&mut self, actions: &mut Vec<Action>) {
        self.state = State::Pausing;
        self.pauses = self.pauses.wrapping_add(1);
        actions.push(Action::Pause(self.failures, self.pauses));
        self.failures = self.failures.saturating_add(1);
        self.moving = self.moving.saturating_sub(1);
    }
}

#[path = "link_rails.rs"]
mod rails;

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
