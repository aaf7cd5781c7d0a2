//! What drives a world: time, or a caller that takes one event after the other.
//!
//! The core (adapters, flows, machines, connection managers) says what becomes due and what goes on its way. A driver
//! keeps that until it happens, and makes it happen. There are two: [`timed`](super::timed) has an event queue in virtual
//! time; [`untimed`](super::untimed) has none, lists what could happen next and leaves the choice to an explorer. Here
//! stands all that the core asks of its driver, with the answers of both side by side.

use super::World;
use super::events::Event;
use super::timed::Timed;
use super::untimed::{Transition, Untimed};
use crate::NodeId;
use crate::cm::{Address, Message};
use crate::config::{Config, Order};
use crate::hca::{HcaId, Key, News};
use std::hash::Hash;
use weft_verbs::Nanos;

/// A driver's part of the state.
#[derive(Debug)]
// A world has one of them, and no path to its events may be longer than it has to be.
#[expect(clippy::large_enum_variant)]
pub(crate) enum Driver {
    Timed(Timed),
    Untimed(Untimed),
}

/// What a driver keeps beside the state: room for what it does over and over, and what the present event has done.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub untimed: Transition,
}

impl Clone for Driver {
    fn clone(&self) -> Driver {
        match self {
            Driver::Timed(timed) => Driver::Timed(timed.clone()),
            Driver::Untimed(untimed) => Driver::Untimed(untimed.clone()),
        }
    }

    fn clone_from(&mut self, from: &Driver) {
        match (self, from) {
            (Driver::Timed(timed), Driver::Timed(from)) => timed.clone_from(from),
            (Driver::Untimed(untimed), Driver::Untimed(from)) => untimed.clone_from(from),
            (this, from) => *this = from.clone(),
        }
    }
}

impl Driver {
    /// The driver that a configuration asks for.
    pub fn new(config: &Config) -> Driver {
        match config.order {
            Order::Fifo => Driver::Timed(Timed::new(false)),
            Order::Chosen => Driver::Timed(Timed::new(true)),
            Order::Untimed => {
                Driver::Untimed(Untimed::new(config.nodes, config.nodes * u32::from(config.devices)))
            }
        }
    }

    /// Whether a driver that has no time.
    #[inline(always)]
    pub const fn is_untimed(&self) -> bool {
        matches!(self, Driver::Untimed(_))
    }

    /// The timed driver, if it is one.
    #[inline(always)]
    pub fn if_timed(&self) -> Option<&Timed> {
        match self {
            Driver::Timed(timed) => Some(timed),
            Driver::Untimed(_) => None,
        }
    }

    #[inline(always)]
    pub fn if_timed_mut(&mut self) -> Option<&mut Timed> {
        match self {
            Driver::Timed(timed) => Some(timed),
            Driver::Untimed(_) => None,
        }
    }

    /// The untimed driver, if it is one.
    #[inline(always)]
    pub fn if_untimed(&self) -> Option<&Untimed> {
        match self {
            Driver::Untimed(untimed) => Some(untimed),
            Driver::Timed(_) => None,
        }
    }

    #[inline(always)]
    pub fn if_untimed_mut(&mut self) -> Option<&mut Untimed> {
        match self {
            Driver::Untimed(untimed) => Some(untimed),
            Driver::Timed(_) => None,
        }
    }

    /// The untimed driver, for its own code.
    #[inline(always)]
    pub fn untimed(&self) -> &Untimed {
        match self {
            Driver::Untimed(untimed) => untimed,
            Driver::Timed(_) => unreachable!("{TIMED}"),
        }
    }

    #[inline(always)]
    pub fn untimed_mut(&mut self) -> &mut Untimed {
        match self {
            Driver::Untimed(untimed) => untimed,
            Driver::Timed(_) => unreachable!("{TIMED}"),
        }
    }
}

const TIMED: &str = "only an untimed driver asks for its own part of the state";

impl World {
    #[inline(always)]
    pub fn is_untimed(&self) -> bool {
        self.state.driver.is_untimed()
    }

    /// Something becomes due at a time. An untimed driver reads from the state what can happen.
    #[inline]
    pub fn schedule(&mut self, at: Nanos, event: Event) {
        if let Driver::Timed(timed) = &mut self.state.driver {
            timed.events.insert(at.max(self.state.now), event.code());
        }
    }

    /// A queue pair may want its timer to be set, or have more to send.
    #[inline]
    pub(super) fn schedule_qp(&mut self, hca: HcaId, key: Key) {
        match self.state.driver {
            Driver::Timed(_) => self.schedule_qp_timed(hca, key),
            Driver::Untimed(_) => self.wants_service(hca, key),
        }
    }

    /// A packet leaves an adapter.
    #[inline]
    pub(super) fn transmit(&mut self, id: u32, flow: Option<Key>) {
        match self.state.driver {
            Driver::Timed(_) => self.transmit_timed(id, flow),
            Driver::Untimed(_) => self.transmit_untimed(id, flow),
        }
    }

    /// A message leaves a connection manager: a datagram that can be lost. False if it is lost at once, and that is known.
    pub(super) fn transmit_cm(&mut self, to: Address, message: Message) -> bool {
        match self.state.driver {
            Driver::Timed(_) => {
                self.transmit_cm_timed(to, message);
                true
            }
            Driver::Untimed(_) => self.transmit_cm_untimed(to, message),
        }
    }

    /// The engine was called for a queue pair.
    #[inline]
    pub(super) fn engine_called(&mut self, hca: HcaId, key: Key) {
        if self.is_untimed() {
            self.note_change(hca, key);
        }
    }

    /// There is news at an adapter.
    pub(super) fn news_raised(&mut self, hca: HcaId, news: &News) {
        if self.is_untimed() && news.completion {
            self.touch_queued(hca, news.channel);
            if self.in_order() {
                self.stamp_completions(hca);
            }
        }
        if news.event && self.in_order() {
            self.note_arrivals(hca);
        }
    }

    /// A queue pair was made.
    pub(super) fn qp_created(&mut self, hca: HcaId, key: Key) {
        if self.is_untimed() {
            self.begin_pair(hca, key);
        }
    }

    /// A receive request was accepted.
    #[inline]
    pub(super) fn receive_posted(&mut self, hca: HcaId, key: Key) {
        if self.is_untimed() {
            self.count_receive(hca, key);
        }
    }

    /// A program waits, until a deadline if it has one.
    pub(super) fn parked(&mut self, node: NodeId, deadline: Option<Nanos>) {
        match self.state.driver {
            Driver::Timed(_) => {
                if let Some(at) = deadline {
                    self.step_by(node, at.max(self.state.now + Nanos(1)));
                }
            }
            Driver::Untimed(_) => self.park_until(node, deadline),
        }
    }

    /// Something that a node's program learns, and that what it does next may depend on.
    #[inline]
    pub fn saw(&mut self, node: NodeId, what: &(impl Hash + ?Sized)) {
        if let Driver::Untimed(untimed) = &mut self.state.driver {
            untimed.saw(node, what);
        }
    }

    /// When an adapter has what a processor posts at a time. Where there is no time, it has it at once.
    #[inline]
    pub(super) fn posted_at(&self, at: Nanos) -> Nanos {
        if self.is_untimed() { Nanos::ZERO } else { at }
    }

    /// The time as a node's connection manager sees it. Where there is no time, its timers run out because a message was
    /// lost.
    pub(super) fn cm_time(&self, node: NodeId) -> Nanos {
        if self.is_untimed() { Nanos::ZERO } else { self.local_time(node) }
    }

    /// The next region's number.
    pub(super) fn next_region(&mut self, node: NodeId) -> u32 {
        match &mut self.state.driver {
            Driver::Timed(timed) => timed.next_region(),
            Driver::Untimed(untimed) => untimed.next_region(node),
        }
    }

    /// What tells a random word that a program asks for in its node's next incarnation from one of the incarnation
    /// before: explorers answer each such question alike.
    pub(super) fn incarnation_salt(&self, node: NodeId) -> u64 {
        match &self.state.driver {
            Driver::Timed(_) => 0,
            Driver::Untimed(untimed) => untimed.incarnation(node) << 32,
        }
    }
}
