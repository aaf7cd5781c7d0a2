//! The program that measures: one operation after the other, each many times, with nothing else going on.

use super::bench::{Bench, Operation};
use super::{Measured, Place, SMALL};
use std::rc::Rc;
use weft_verbs::{
    AccessFlags, Arm, Caps, Clock, CompletionChannel, CompletionQueue, Context, Host, Nanos, Node, Park,
    ProtectionDomain, Verbs, Wait, WcOp, Work, WorkCompletion,
};

/// How long an operation within a machine may take.
const PATIENCE: Nanos = Nanos::from_secs(2);
/// How often what is slow is measured: registering, waking up.
const SLOW: usize = 20;

/// Times of one thing.
#[derive(Default)]
struct Times(Vec<u64>);

impl Times {
    fn median(&mut self) -> u64 {
        self.0.sort_unstable();
        self.0.get(self.0.len() / 2).copied().unwrap_or(0)
    }
}

/// What is measured of an operation.
#[derive(Default)]
struct Probe {
    post: Times,
    whole: Times,
}

/// An operation under way.
struct Underway {
    began: Nanos,
    /// Completions that have not been taken.
    missing: u32,
    wait: Wait,
}

/// The program. What it has measured is in its [`Place`] once it has ended.
pub struct Prober<V: Verbs> {
    context: V::Context,
    host: V::Host,
    port: u8,
    gid_index: u8,
    rounds: usize,
    place: Place,
    bench: Option<Bench<V>>,
    /// The plan: an operation, how its completion is learned of, and what was measured.
    plan: Vec<(Operation, Wait, Probe)>,
    /// Which of the plan, and how often it was done.
    at: (usize, usize),
    underway: Option<Underway>,
    empty: Times,
    hit: Times,
    event: Times,
    arm: Times,
    measured: Measured,
    out: Vec<WorkCompletion>,
}

impl<V: Verbs> Prober<V> {
    /// Measures on a port of a device, under one of its GIDs, each operation so many times.
    pub fn new(context: &V::Context, port: u8, gid_index: u8, rounds: usize) -> (Prober<V>, Place) {
        let place = Place::default();
        let prober = Prober {
            host: context.host(),
            context: context.clone(),
            port,
            gid_index,
            rounds: rounds.max(1),
            place: Rc::clone(&place),
            bench: None,
            plan: Vec::new(),
            at: (0, 0),
            underway: None,
            empty: Times::default(),
            hit: Times::default(),
            event: Times::default(),
            arm: Times::default(),
            measured: Measured::default(),
            out: Vec::with_capacity(1),
        };
        (prober, place)
    }

    fn timed<T>(&self, what: impl FnOnce() -> T) -> (T, u64) {
        let began = self.host.now();
        let done = what();
        (done, (self.host.now() - began).0)
    }

    /// What is measured without the adapter's work, and what the rest is measured on.
    fn begin(&mut self) -> Result<(), String> {
        let text = |error: weft_verbs::VerbsError| error.to_string();
        let packet = self.context.port_attr(self.port).map_err(text)?.active_mtu.bytes();
        let pd = self.context.alloc_pd().map_err(text)?;
        let register = |pages: u64| -> Result<u64, String> {
            let mut times = Times::default();
            for _ in 0..SLOW {
                let (region, span) =
                    self.timed(|| pd.alloc_mr((pages * 4096) as usize, AccessFlags::LOCAL_WRITE));
                drop(region.map_err(text)?);
                times.0.push(span);
            }
            Ok(times.median())
        };
        let (one, many) = (register(1)?, register(Measured::PAGES)?);
        let bench =
            Bench::<V>::new(&self.context, &self.host, self.port, self.gid_index, packet).map_err(text)?;
        let modify = bench.modified.iter().sum::<u64>() / bench.modified.len().max(1) as u64;
        let (mut copies, mut calls) = (Times::default(), Times::default());
        let (from, mut to) = (vec![1u8; 1 << 20], vec![0u8; 1 << 20]);
        for _ in 0..SLOW {
            let copy = || {
                std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
                self.host.spend(Work::Copy { bytes: 1 << 20 });
            };
            copies.0.push(self.timed(copy).1);
            let call = || {
                std::thread::yield_now();
                self.host.spend(Work::Syscall);
            };
            calls.0.push(self.timed(call).1);
            let (polled, span) = self.timed(|| bench.cq.poll(&mut Vec::new(), 1));
            polled.map_err(text)?;
            self.empty.0.push(span);
        }
        self.measured = Measured {
            register: one,
            register_many: many,
            create: bench.created,
            modify,
            copy: copies.median(),
            syscall: calls.median(),
            ..Measured::default()
        };
        self.bench = Some(bench);
        let mut plan = vec![
            (Operation::Send(SMALL), Wait::Poll),
            (Operation::Send(packet.max(2 * SMALL)), Wait::Poll),
            (Operation::Read, Wait::Poll),
            (Operation::Writes(1), Wait::Poll),
            (Operation::Writes(Measured::LIST), Wait::Poll),
            (Operation::Send(SMALL), Wait::Notify),
        ];
        if self.context.device_attr().caps.contains(Caps::ATOMICS) {
            plan.extend([(Operation::CompareSwap, Wait::Poll), (Operation::FetchAdd, Wait::Poll)]);
        }
        self.plan = plan.into_iter().map(|(operation, wait)| (operation, wait, Probe::default())).collect();
        Ok(())
    }

    /// Posts the next operation, or ends.
    fn next(&mut self) -> Result<Park, String> {
        let Some(bench) = &self.bench else { return Err("nothing to measure on".into()) };
        let (index, done) = self.at;
        let Some((operation, wait, _)) = self.plan.get(index) else {
            self.end();
            return Ok(Park::Done);
        };
        let (operation, wait) = (*operation, *wait);
        if done == if wait == Wait::Notify { self.rounds.min(SLOW * 10) } else { self.rounds } {
            self.at = (index + 1, 0);
            return Ok(Park::Again);
        }
        bench.prepare(operation).map_err(|error| error.to_string())?;
        if wait == Wait::Notify {
            let (armed, span) = self.timed(|| bench.cq.arm(Arm::Next));
            armed.map_err(|error| error.to_string())?;
            self.arm.0.push(span);
        }
        let began = self.host.now();
        let (posted, span) = self.timed(|| bench.post(operation));
        posted.map_err(|error| error.to_string())?;
        self.plan[index].2.post.0.push(span);
        self.underway = Some(Underway { began, missing: operation.completions(), wait });
        Ok(self.parked(wait, began))
    }

    fn parked(&self, style: Wait, began: Nanos) -> Park {
        Park::Until { style, deadline: Some(began + PATIENCE) }
    }

    /// Looks for completions of what is under way.
    fn look(&mut self, underway: Underway) -> Result<Park, String> {
        let Some(bench) = &self.bench else { return Err("nothing to measure on".into()) };
        let Underway { began, mut missing, wait } = underway;
        if wait == Wait::Notify {
            let (event, span) = self.timed(|| bench.channel.event());
            if event.is_some() {
                self.event.0.push(span);
            }
        }
        let mut out = std::mem::take(&mut self.out);
        let (polled, span) = self.timed(|| bench.cq.poll(&mut out, 1));
        polled.map_err(|error| error.to_string())?;
        let completion = out.pop();
        self.out = out;
        let now = self.host.now();
        match completion {
            None if now >= began + PATIENCE => {
                return Err(format!("an operation took longer than {PATIENCE}"));
            }
            None => {
                self.empty.0.push(span);
            }
            Some(WorkCompletion { result, .. }) => {
                let op = result.map_err(|error| format!("an operation failed: {error}"))?.op;
                self.hit.0.push(span);
                let (operation, _, probe) = &mut self.plan[self.at.0];
                if op == WcOp::Recv || operation.completions() == 1 {
                    probe.whole.0.push((now - began).0);
                }
                missing -= 1;
            }
        }
        if missing == 0 {
            self.at.1 += 1;
            return self.next();
        }
        // Who has been woken polls for the rest.
        self.underway = Some(Underway { began, missing, wait: Wait::Poll });
        Ok(self.parked(Wait::Poll, began))
    }

    fn end(&mut self) {
        let mut spans = self.plan.iter_mut().map(|(.., probe)| (probe.post.median(), probe.whole.median()));
        let mut next = || spans.next().unwrap_or_default();
        let (send, send_packet, read, one, list, notified) = (next(), next(), next(), next(), next(), next());
        let (compare_swap, fetch_add) = (spans.next(), spans.next());
        let measured = Measured {
            post: one.0,
            post_list: list.0,
            poll_empty: self.empty.median(),
            poll_hit: self.hit.median(),
            arm: self.arm.median(),
            event: self.event.median(),
            send: send.1,
            send_packet: send_packet.1,
            send_notified: notified.1,
            read: read.1,
            compare_swap: compare_swap.map(|(_, whole)| whole),
            fetch_add: fetch_add.map(|(_, whole)| whole),
            ..self.measured
        };
        self.place.replace(Some(Ok(measured)));
    }

    fn advance(&mut self) -> Result<Park, String> {
        match self.underway.take() {
            Some(underway) => self.look(underway),
            None if self.bench.is_none() => {
                self.begin()?;
                Ok(Park::Again)
            }
            None => self.next(),
        }
    }
}

impl<V: Verbs> Node for Prober<V> {
    fn step(&mut self) -> Park {
        self.advance().unwrap_or_else(|why| {
            self.place.replace(Some(Err(why)));
            Park::Done
        })
    }
}
