//! Arming, events, and what wakes a node (IBA 11.4.2.2, the contract's `Park`).

use super::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

cases! { "wake":
    an_armed_queue_raises_an_event_for_the_next_completion, "11.4.2.2";
    an_unarmed_queue_raises_none, "11.4.2.2";
    arming_says_nothing_of_completions_already_there, "11.4.2.2";
    one_arming_yields_one_event, "11.4.2.2";
    arming_twice_yields_one_event, "11.4.2.2";
    an_event_names_its_queue, "11.4.2.2";
    queues_on_one_channel_raise_their_own_events, "11.4.2.2";
    a_queue_without_a_channel_can_be_polled, "11.2.6.1";
    solicited_arming_waits_for_a_solicited_message, "11.4.2.2", needs Caps::SOLICITED;
    an_error_counts_as_solicited, "11.4.2.2", needs Caps::SOLICITED;
    arming_for_all_outlasts_arming_for_solicited, "11.4.2.2", needs Caps::SOLICITED;
    a_parked_node_that_polls_is_woken_by_a_completion, "contract, Park", with HarnessCaps::MOUNT;
    a_parked_node_that_armed_is_woken_by_the_next_completion, "contract, Park", with HarnessCaps::MOUNT;
    a_node_that_armed_and_did_not_poll_again_is_woken_by_nothing_else, "contract, Park; 11.4.2.2",
        with HarnessCaps::MOUNT;
    a_node_that_sleeps_unarmed_is_not_woken_by_completions, "contract, Park", with HarnessCaps::MOUNT;
    an_event_that_was_not_taken_ends_the_next_wait, "contract, Park", with HarnessCaps::MOUNT;
    a_deadline_wakes_a_node, "contract, Park", with HarnessCaps::MOUNT;
    a_node_that_asks_for_another_step_gets_it, "contract, Park", with HarnessCaps::MOUNT;
    a_node_that_is_done_is_not_stepped_again, "contract, Park", with HarnessCaps::MOUNT;
}

/// A pair whose second end receives into a queue on a channel.
struct Belled<V: Verbs> {
    a: End<V>,
    b: End<V>,
    channel: V::Channel,
}

fn belled<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome<Belled<H::V>> {
    let setup = Setup::new(bed);
    bed.at_least(2)?;
    let ctx = bed.ctx(1);
    let channel = ctx.create_channel()?;
    let recvs = ctx.create_cq(64, Some(&channel))?;
    let sends = ctx.create_cq(64, None)?;
    let b = bed.end_on(1, ctx.alloc_pd()?, sends, recvs, &setup)?;
    let a = bed.end(0, &setup)?;
    a.connect(&b, &setup, 0)?;
    b.connect(&a, &setup, 1)?;
    Ok(Belled { a, b, channel })
}

impl<V: Verbs> Belled<V> {
    /// A message arrives and is left in the completion queue.
    fn ring<H: Harness<V = V>>(&self, bed: &mut TestBed<'_, H>, wr_id: u64, flags: SendFlags) -> Outcome {
        self.b.recv(wr_id, 0..8)?;
        self.a.post_with(wr_id, SendOp::Send { imm: None }, 0..8, SendFlags::SIGNALED | flags)?;
        bed.done(&self.a.sends, wr_id)?;
        bed.settle();
        Ok(())
    }

    fn no_event(&self, when: &str) -> Outcome {
        check_eq!(self.channel.event(), None, "{when}");
        Ok(())
    }
}

const PLAIN: SendFlags = SendFlags::empty();

fn an_armed_queue_raises_an_event_for_the_next_completion<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    for round in 0..5 {
        bell.b.recvs.arm(Arm::Next)?;
        bell.no_event("armed, and nothing has completed")?;
        bell.ring(bed, round, PLAIN)?;
        check_eq!(bed.channel_event(&bell.channel)?, bell.b.recvs.id(), "the event of round {round}");
        bed.done(&bell.b.recvs, round)?;
    }
    bell.no_event("after all events were taken")
}

fn an_unarmed_queue_raises_none<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    bell.ring(bed, 1, PLAIN)?;
    bell.no_event("a completion on a queue that was never armed")
}

fn arming_says_nothing_of_completions_already_there<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    bell.ring(bed, 1, PLAIN)?;
    bell.b.recvs.arm(Arm::Next)?;
    bed.settle();
    bell.no_event("armed with a completion in the queue")?;
    bed.done(&bell.b.recvs, 1)?;
    bed.settle();
    bell.no_event("polled after arming")?;
    bell.ring(bed, 2, PLAIN)?;
    check_eq!(bed.channel_event(&bell.channel)?, bell.b.recvs.id(), "the next completion's event");
    Ok(())
}

fn one_arming_yields_one_event<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    bell.b.recvs.arm(Arm::Next)?;
    for i in 0..4 {
        bell.ring(bed, i, PLAIN)?;
    }
    bed.channel_event(&bell.channel)?;
    bell.no_event("a second event after one arming")
}

fn arming_twice_yields_one_event<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    bell.b.recvs.arm(Arm::Next)?;
    bell.b.recvs.arm(Arm::Next)?;
    bell.ring(bed, 1, PLAIN)?;
    bell.ring(bed, 2, PLAIN)?;
    bed.channel_event(&bell.channel)?;
    bell.no_event("a second event after arming twice")
}

fn an_event_names_its_queue<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    bed.at_least(2)?;
    let ctx = bed.ctx(0);
    let channel = ctx.create_channel()?;
    let (sends, recvs) = (ctx.create_cq(8, Some(&channel))?, ctx.create_cq(8, Some(&channel))?);
    let a = bed.end_on(0, ctx.alloc_pd()?, sends, recvs, &setup)?;
    let b = bed.end(1, &setup)?;
    a.connect(&b, &setup, 0)?;
    b.connect(&a, &setup, 1)?;
    a.sends.arm(Arm::Next)?;
    a.recvs.arm(Arm::Next)?;
    b.recv(1, 0..8)?;
    a.send(2, 0..8)?;
    check_eq!(bed.channel_event(&channel)?, a.sends.id(), "the send's event");
    a.recv(3, 0..8)?;
    b.send(4, 0..8)?;
    check_eq!(bed.channel_event(&channel)?, a.recvs.id(), "the receive's event");
    Ok(())
}

fn queues_on_one_channel_raise_their_own_events<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    bed.at_least(2)?;
    let ctx = bed.ctx(0);
    let channel = ctx.create_channel()?;
    let mut pairs = Vec::new();
    for _ in 0..4 {
        let (sends, recvs) = (ctx.create_cq(8, Some(&channel))?, ctx.create_cq(8, None)?);
        let a = bed.end_on(0, ctx.alloc_pd()?, sends, recvs, &setup)?;
        let b = bed.end(1, &setup)?;
        a.connect(&b, &setup, 0)?;
        b.connect(&a, &setup, 1)?;
        pairs.push(Pair { a, b });
    }
    // Only the second and the last are armed; the others complete in silence.
    pairs[1].a.sends.arm(Arm::Next)?;
    pairs[3].a.sends.arm(Arm::Next)?;
    for Pair { a, b } in pairs.iter().rev() {
        a.write(1, 0..8, b.word(0)?)?;
        bed.settle();
    }
    let seen = [bed.channel_event(&channel)?, bed.channel_event(&channel)?];
    check_eq!(seen, [pairs[3].a.sends.id(), pairs[1].a.sends.id()], "events, oldest first");
    check_eq!(channel.event(), None, "a third event");
    Ok(())
}

fn a_queue_without_a_channel_can_be_polled<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    bell.ring(bed, 1, PLAIN)?;
    bed.done(&bell.b.recvs, 1)?;
    bell.no_event("a completion on a queue without a channel")
}

fn solicited_arming_waits_for_a_solicited_message<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    bell.b.recvs.arm(Arm::Solicited)?;
    bell.ring(bed, 1, PLAIN)?;
    bell.no_event("a message that did not ask for an event")?;
    bell.ring(bed, 2, SendFlags::SOLICITED)?;
    check_eq!(bed.channel_event(&bell.channel)?, bell.b.recvs.id(), "the solicited message's event");
    bell.ring(bed, 3, SendFlags::SOLICITED)?;
    bell.no_event("a second solicited message after one arming")
}

fn an_error_counts_as_solicited<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    bell.b.recvs.arm(Arm::Solicited)?;
    bell.b.recv(1, 0..8)?;
    bell.b.qp.modify(&Modify::Err)?;
    check_eq!(bed.channel_event(&bell.channel)?, bell.b.recvs.id(), "the flush's event");
    Ok(())
}

/// Asking for the next completion is not weakened by asking for solicited ones afterwards (11.4.2.2).
fn arming_for_all_outlasts_arming_for_solicited<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    bell.b.recvs.arm(Arm::Next)?;
    bell.b.recvs.arm(Arm::Solicited)?;
    bell.ring(bed, 1, PLAIN)?;
    check_eq!(bed.channel_event(&bell.channel)?, bell.b.recvs.id(), "the plain message's event");
    Ok(())
}

/// A program in steps: each closure is one step, and says what to wait for. An event on the channel that was
/// not taken would end each wait at once; every step takes them first.
struct Script<V: Verbs> {
    channel: Option<V::Channel>,
    steps: Vec<Box<dyn FnMut() -> Park>>,
    taken: Rc<RefCell<usize>>,
}

impl<V: Verbs> Node for Script<V> {
    fn step(&mut self) -> Park {
        while self.channel.as_ref().is_some_and(|channel| channel.event().is_some()) {}
        let at = *self.taken.borrow();
        *self.taken.borrow_mut() += 1;
        match self.steps.get_mut(at) {
            Some(step) => step(),
            None => Park::Until { style: Wait::Notify, deadline: None },
        }
    }
}

fn park(style: Wait) -> Park {
    Park::Until { style, deadline: None }
}

/// Mounts a script on node 1, and answers how many steps it has taken.
fn perform<H: Harness>(
    bed: &mut TestBed<'_, H>,
    channel: Option<&<H::V as Verbs>::Channel>,
    steps: Vec<Box<dyn FnMut() -> Park>>,
) -> Outcome<Rc<RefCell<usize>>> {
    let taken = Rc::new(RefCell::new(0));
    let script = Script::<H::V> { channel: channel.cloned(), steps, taken: taken.clone() };
    bed.mount(1, Box::new(script))?;
    Ok(taken)
}

/// Long enough for a wake-up and everything before it.
fn while_<H: Harness>(bed: &mut TestBed<'_, H>) {
    let span = bed.timing().round_trip * 100;
    bed.advance(span);
}

fn a_parked_node_that_polls_is_woken_by_a_completion<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    let steps = perform(
        bed,
        Some(&bell.channel),
        vec![Box::new(|| park(Wait::Poll)), Box::new(|| park(Wait::Notify))],
    )?;
    while_(bed);
    check_eq!(*steps.borrow(), 1, "steps before anything happened");
    bell.ring(bed, 1, PLAIN)?;
    while_(bed);
    check_eq!(*steps.borrow(), 2, "steps after a completion");
    Ok(())
}

fn a_parked_node_that_armed_is_woken_by_the_next_completion<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    let cq = bell.b.recvs.clone();
    let steps = perform(
        bed,
        Some(&bell.channel),
        vec![Box::new(move || {
            cq.arm(Arm::Next).expect("an armed queue");
            park(Wait::Notify)
        })],
    )?;
    while_(bed);
    check_eq!(*steps.borrow(), 1, "steps before anything happened");
    bell.ring(bed, 1, PLAIN)?;
    while_(bed);
    check_eq!(*steps.borrow(), 2, "steps after a completion");
    bell.ring(bed, 2, PLAIN)?;
    while_(bed);
    check_eq!(*steps.borrow(), 2, "steps after another completion, not armed again");
    Ok(())
}

/// The lost wake-up: a completion that came before the arming is seen by polling again, or not at all.
fn a_node_that_armed_and_did_not_poll_again_is_woken_by_nothing_else<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let bell = belled(bed)?;
    bell.ring(bed, 1, PLAIN)?;
    let cq = bell.b.recvs.clone();
    let steps = perform(
        bed,
        Some(&bell.channel),
        vec![Box::new(move || {
            cq.arm(Arm::Next).expect("an armed queue");
            park(Wait::Notify)
        })],
    )?;
    while_(bed);
    check_eq!(*steps.borrow(), 1, "steps with a completion that came before the arming");
    // Neither a message's arrival at memory nor a completion of another, unarmed queue.
    bell.a.write(2, 0..8, bell.b.word(0)?)?;
    bed.done(&bell.a.sends, 2)?;
    bell.b.write(3, 0..8, bell.a.word(0)?)?;
    while_(bed);
    check_eq!(*steps.borrow(), 1, "steps after completions elsewhere");
    bell.ring(bed, 4, PLAIN)?;
    while_(bed);
    check_eq!(*steps.borrow(), 2, "steps after a new completion");
    Ok(())
}

fn a_node_that_sleeps_unarmed_is_not_woken_by_completions<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    let steps = perform(bed, Some(&bell.channel), vec![Box::new(|| park(Wait::Notify))])?;
    while_(bed);
    bell.ring(bed, 1, PLAIN)?;
    while_(bed);
    check_eq!(*steps.borrow(), 1, "steps after a completion that nobody armed for");
    Ok(())
}

/// A channel is readable until its event is taken, as a file descriptor is: an event between a node's last look
/// and its sleep is not lost.
fn an_event_that_was_not_taken_ends_the_next_wait<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    bell.b.recvs.arm(Arm::Next)?;
    bell.ring(bed, 1, PLAIN)?;
    let channel = bell.channel.clone();
    let steps = perform(
        bed,
        None,
        vec![
            Box::new(|| park(Wait::Notify)),
            Box::new(move || {
                channel.event();
                park(Wait::Notify)
            }),
        ],
    )?;
    while_(bed);
    check_eq!(*steps.borrow(), 2, "steps with an event that came before the first");
    Ok(())
}

fn a_deadline_wakes_a_node<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for style in [Wait::Poll, Wait::Notify] {
        bed.world(2, 0)?;
        let host = bed.ctx(1).host();
        let delay = bed.timing().round_trip * 50;
        let due = host.now() + delay;
        let woken = Rc::new(RefCell::new(None));
        let seen = woken.clone();
        let steps = perform(
            bed,
            None,
            vec![
                Box::new(move || Park::Until { style, deadline: Some(due) }),
                Box::new(move || {
                    *seen.borrow_mut() = Some(host.now());
                    park(Wait::Notify)
                }),
            ],
        )?;
        bed.advance(delay / 2);
        check_eq!(*steps.borrow(), 1, "steps before the deadline");
        bed.advance(delay);
        check_eq!(*steps.borrow(), 2, "steps after the deadline");
        let woken = *woken.borrow();
        check!(
            woken.is_some_and(|at| at >= due),
            "woken at {woken:?}, and was to be at {due:?} at the earliest"
        );
    }
    Ok(())
}

fn a_node_that_asks_for_another_step_gets_it<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    bed.world(2, 0)?;
    let again = |_| Box::new(|| Park::Again) as Box<dyn FnMut() -> Park>;
    let steps = perform(bed, None, (0..5).map(again).collect())?;
    while_(bed);
    check_eq!(*steps.borrow(), 6, "steps");
    Ok(())
}

fn a_node_that_is_done_is_not_stepped_again<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let bell = belled(bed)?;
    bell.b.recvs.arm(Arm::Next)?;
    let steps = perform(bed, Some(&bell.channel), vec![Box::new(|| Park::Done)])?;
    while_(bed);
    bell.ring(bed, 1, PLAIN)?;
    while_(bed);
    check_eq!(*steps.borrow(), 1, "steps");
    Ok(())
}
