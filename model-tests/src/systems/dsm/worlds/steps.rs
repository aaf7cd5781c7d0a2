//! A small program on the nodes of a world: its memory, its threads, and what each of them does, step by step.

use super::super::client::Client;
use super::super::history::{Event, Op};
use super::super::workload::Request;
use super::claims::{self, Claimed};
use super::litmus::{Plan, WORDS_A_PAGE, nodes_of};
use super::program::{self, Step, Thread, WORDS, Words};
use crate::explore::{Size, SizeError};
use crate::harness::Member;
use crate::history::{ClientId, RequestId};
use crate::record::Record;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_protocols::dsm::{Dsm, Grain, Placement, Reading, Shared};
use weft_protocols::locks::{LockClient, LockService, Mode};
use weft_protocols::rt::Rt;
use weft_protocols::transport::Rank;
use weft_sim::Sim;

/// By thread: what its loads and additions saw.
pub type Seen = Rc<RefCell<Vec<Vec<u64>>>>;

/// A program, and where its threads run.
pub struct Program {
    pub words: Words,
    pub threads: Vec<Thread>,
    pub nodes: Vec<u32>,
    /// The node that manages all minipages at first.
    pub manager: u32,
    /// What else its world takes, which none of its sizes changes.
    also: Vec<(&'static str, u32)>,
}

impl Program {
    /// A plan's, as far as a size does not say otherwise.
    pub fn read(plan: &Plan, size: &Size) -> Result<Program, SizeError> {
        let threads = program::read(&size.text("threads").unwrap_or_else(|| plan.threads.into()))?;
        let words = size.text("words").map_or(Ok(plan.words), |name| Words::read(&name))?;
        let nodes = nodes_of(size, plan.nodes, threads.len())?;
        let manager = size.number("manager")?.unwrap_or(plan.manager);
        Ok(Program { words, threads, nodes, manager, also: Vec::new() })
    }

    /// The same; its world takes this, too, if it does.
    pub fn with(mut self, key: &'static str, value: Option<u32>) -> Program {
        self.also.extend(value.map(|value| (key, value)));
        self
    }

    /// The last node that runs a thread, or manages.
    pub fn last_node(&self) -> u32 {
        self.nodes.iter().copied().fold(self.manager, u32::max)
    }

    /// Its size.
    pub fn size(&self) -> Size {
        self.sized(&self.threads, &self.nodes)
    }

    /// Its size without one thread, or without one step.
    pub fn smaller(&self) -> Vec<Size> {
        let without = program::without_one(&self.threads, &self.nodes);
        without.into_iter().map(|(threads, nodes)| self.sized(&threads, &nodes)).collect()
    }

    fn sized(&self, threads: &[Thread], nodes: &[u32]) -> Size {
        let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
        let mut size = Size::new([
            ("threads", program::words(threads)),
            ("nodes", nodes.join(",")),
            ("words", self.words.name().into()),
        ]);
        size.set("manager", self.manager);
        self.also.iter().for_each(|(key, value)| size.set(*key, *value));
        size
    }

    /// The words that its threads access.
    pub fn shared<R: Reading>(&self, dsm: &Dsm<Sim, R>) -> Shared<[u64]> {
        let placement = Placement::Node(Rank::from_index(self.manager));
        // Words that are together need no memory but their own minipage's; the others' stay as they always were.
        let len = self.words.all(WORDS_A_PAGE).max(WORDS * WORDS_A_PAGE as usize);
        let shared = dsm.named(0, len, Grain::Bytes(8 * WORDS_A_PAGE), placement);
        shared.expect("messages are long enough")
    }

    /// Starts its threads, on nodes that have lock services or not.
    pub fn start<R: Reading>(
        &self,
        members: &[Member],
        services: &[Dsm<Sim, R>],
        locks: &[LockService<Sim>],
        recorder: &impl Record<Event>,
    ) -> Seen {
        let seen = Rc::new(RefCell::new(vec![Vec::new(); self.threads.len()]));
        for (index, (thread, node)) in (0..).zip(self.threads.iter().zip(&self.nodes)) {
            let (member, dsm) = (&members[*node as usize], &services[*node as usize]);
            let client = Client {
                thread: dsm.thread(),
                words: self.shared(dsm),
                parties: self.threads.len() as u32,
                meets: true,
                seen: BTreeMap::new(),
            };
            let id = ClientId { node: *node, index };
            let steps = (thread.clone(), self.words, locks.get(*node as usize).map(LockService::client));
            let steps = run(member.rt.clone(), client, id, steps, Rc::clone(&seen), recorder.clone());
            member.rt.spawn(steps);
        }
        seen
    }
}

/// Runs a thread's steps. What its loads and additions see goes to `seen`.
async fn run<R: Reading>(
    rt: Rt<Sim>,
    mut client: Client<Sim, R>,
    id: ClientId,
    (thread, words, locks): (Thread, Words, Option<LockClient<Sim>>),
    seen: Seen,
    recorder: impl Record<Event>,
) {
    let mut rounds = 0;
    let mut grant = None;
    // Claims take a number for each word.
    for (number, step) in (0..).step_by(WORDS).zip(thread) {
        let first = RequestId { client: id, number };
        let request = match step {
            Step::Access(word, op) => {
                Some(Request::Access { word: words.place(word, WORDS_A_PAGE), op, claims: 0 })
            }
            Step::Barrier => {
                rounds += 1;
                Some(Request::Barrier(rounds - 1))
            }
            Step::Prefetch(word) => {
                let word = words.place(word, WORDS_A_PAGE) as usize;
                // It may be freed meanwhile.
                drop(client.thread.prefetch(client.words, word..word + 1));
                None
            }
            Step::Bump(word) => {
                let last = seen.borrow()[id.index as usize].last().map_or(1, |last| last + 1);
                let word = words.place(word, WORDS_A_PAGE);
                Some(Request::Access { word, op: Op::Store(last), claims: 0 })
            }
            Step::Lock => {
                let locks = locks.as_ref().expect("the world has locks");
                grant = locks.lock("the lock", Mode::Exclusive).await.ok();
                None
            }
            Step::Unlock => {
                if let Some(grant) = grant.take() {
                    grant.unlock().await;
                }
                None
            }
            Step::Free => {
                client.thread.free(client.words).await.expect("nobody else frees it");
                None
            }
            Step::Claim(claimed, how) => {
                let step = Claimed { words: claimed, places: words, how, first };
                let saw = claims::claim(&rt, &mut client, step, WORDS_A_PAGE, &recorder).await;
                seen.borrow_mut()[id.index as usize].extend(saw);
                None
            }
        };
        if let Some(request) = request {
            // What fails is recorded.
            let _ = client.perform(&rt, first, request, &recorder).await;
        }
        if let Some(Request::Access { word, op, .. }) = request
            && !matches!(op, Op::Store(_))
        {
            let saw = client.seen.get(&word).copied();
            seen.borrow_mut()[id.index as usize].extend(saw);
        }
        // Whatever may happen between two accesses can happen here: a task that yields runs again before the messages that the
        // next step takes in, so it yields once more.
        rt.yield_now().await;
        rt.yield_now().await;
    }
}
