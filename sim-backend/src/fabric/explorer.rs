//! The explorer's interface to a fabric: all that drives an [untimed](crate::Order::Untimed) world, and nothing else
//! needs.

use super::Fabric;
use crate::NodeId;
use crate::choice::EventId;
use crate::explore::{Enabled, Footprint, NotEnabled, Outcome, Policy, Snapshot, Taken, Underway};
use crate::world::{Happened, Untimed};
use weft_verbs::QpNum;

impl Fabric {
    /// What an [untimed](crate::Order::Untimed) world offers from now on: see [`explore`](crate::explore).
    pub fn set_policy(&self, policy: Policy) {
        if let Some(untimed) = self.world.borrow_mut().state.driver.if_untimed_mut() {
            untimed.policy = policy;
        }
    }

    /// Lists everything that can happen next in an [untimed](crate::Order::Untimed) world, in a deterministic order, in place
    /// of what was in the list. Nothing in any other world.
    pub fn enabled(&self, out: &mut Vec<Enabled>) {
        let mut world = self.world.borrow_mut();
        match world.is_untimed() {
            true => world.enabled(out),
            false => out.clear(),
        }
    }

    /// Lets one of the enabled events happen, in one of the ways that it can, with the program's step if it is one.
    /// What it touched takes the place of what was in `touched`. Must not be called from a program's step.
    pub fn take(
        &self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
    ) -> Result<Taken, NotEnabled> {
        self.take_with(event, outcome, touched, |node| {
            self.step(node);
        })
    }

    /// The same, where somebody else steps programs.
    pub(crate) fn take_with(
        &self,
        event: EventId,
        outcome: Outcome,
        touched: Option<&mut Footprint>,
        step: impl FnOnce(NodeId),
    ) -> Result<Taken, NotEnabled> {
        let Some(print) = touched else { return self.take_unseen(event, outcome, step) };
        self.world.borrow_mut().begin_print(print);
        let taken = self.take_unseen(event, outcome, step);
        self.world.borrow_mut().end_print(print);
        taken
    }

    fn take_unseen(
        &self,
        event: EventId,
        outcome: Outcome,
        step: impl FnOnce(NodeId),
    ) -> Result<Taken, NotEnabled> {
        let happened = {
            let mut world = self.world.borrow_mut();
            if !world.is_untimed() {
                return Err(NotEnabled { event, outcome });
            }
            world.serve_queue_pairs();
            world.take(event, outcome)?
        };
        let mut taken = Taken::default();
        match happened {
            Happened::Done => {}
            Happened::Step(node) => {
                taken.stepped = Some(node);
                step(node);
                taken.in_vain = outcome == Outcome::NoMemory && self.world.borrow_mut().end_shortage(node);
            }
            Happened::Crashed(node) => {
                taken.crashed = Some(node);
                self.drop_program(node);
            }
            Happened::Restarted(node) => {
                taken.restarted = Some(node);
                self.drop_program(node);
            }
        }
        self.world.borrow_mut().serve_queue_pairs();
        self.release();
        Ok(taken)
    }

    /// The fabric as it is, without its programs.
    pub fn snapshot(&self) -> Snapshot {
        let mut world = self.world.borrow_mut();
        world.serve_queue_pairs();
        Snapshot(Box::new(world.state.clone()))
    }

    /// A number for the state of an [untimed](crate::Order::Untimed) world: the same whenever the same can happen from here on,
    /// and the same of it. Of a program it takes all that it has seen. Two different states of a world have the same number
    /// with a chance of 2^-128. 0 for any other world.
    pub fn fingerprint(&self) -> u128 {
        self.fingerprint_of(&[])
    }

    /// The same, where programs have a fingerprint of their own state: a number for each node, `None` for a program that
    /// has none and counts by what it has seen. The same number must mean that the program does the same from here on,
    /// whatever its node's clock says and whatever names it has given to requests. It covers what the program has in
    /// memory that no peer may touch, but for what posted requests read there.
    pub fn fingerprint_of(&self, contents: &[Option<u128>]) -> u128 {
        let mut sum = 0u128;
        self.digest(contents, |_, _, part| {
            sum =
                sum.rotate_left(1).wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(part);
        });
        sum
    }

    fn digest(&self, contents: &[Option<u128>], each: impl FnMut(&'static str, u32, u128)) {
        let mut world = self.world.borrow_mut();
        if world.is_untimed() {
            world.serve_queue_pairs();
            world.digest(contents, each);
        }
    }

    /// Send requests of a queue pair of one of a node's adapters, counted from 0, that have not ended, whatever its program
    /// has learned of it.
    pub fn unended_sends(&self, node: NodeId, device: u8, qp: QpNum) -> u32 {
        self.world.borrow_mut().call(move |world| world.unended_sends(node, device, qp))
    }

    /// How many bytes the n-th message has, from 0, that a queue pair has received and its program has not polled.
    pub fn arrived(&self, node: NodeId, device: u8, qp: QpNum, n: usize) -> Option<u32> {
        self.world.borrow_mut().call(move |world| world.arrived(node, device, qp, n))
    }

    /// Looks at what programs know. What their handles are asked meanwhile is nothing that the programs have seen.
    pub fn unobserved<A>(&self, look: impl FnOnce() -> A) -> A {
        let seen = self.world.borrow().state.driver.if_untimed().map(Untimed::seen);
        let answer = look();
        if let (Some(seen), Some(untimed)) = (seen, self.world.borrow_mut().state.driver.if_untimed_mut()) {
            untimed.set_seen(&seen);
        }
        answer
    }

    /// The connection managers' messages that are under way in an untimed world: the event log tells of their sending only.
    pub fn underway(&self) -> Vec<Underway> {
        self.world.borrow().underway().collect()
    }

    /// The parts of the [fingerprint](Fabric::fingerprint), with their names: to see in what two states differ.
    pub fn fingerprint_parts(&self) -> Vec<(String, u128)> {
        self.fingerprint_parts_of(&[])
    }

    /// The parts of [`Fabric::fingerprint_of`].
    pub fn fingerprint_parts_of(&self, contents: &[Option<u128>]) -> Vec<(String, u128)> {
        let mut parts = Vec::new();
        self.digest(contents, |name, number, digest| parts.push((format!("{name} {number}"), digest)));
        parts
    }

    /// Takes the programs away and puts the fabric back as it was. What the programs' handles stood for is there again;
    /// their drop destroys nothing. Handles that are still held are good for what they were made for, if it was
    /// there then.
    pub fn reset_to(&self, root: &Snapshot) {
        self.drop_programs();
        self.world.borrow_mut().put_back(&root.0);
    }
}
