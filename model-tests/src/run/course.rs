//! The course of a run: requests under faults, the requests that are left without, and then rest.

use super::faults::Strike;
use super::leftovers::{at_rest, is_clean, left_alive};
use super::log::EventLog;
use super::world::{Client, SLICE, World};
use super::{Phase, Progress, Report, RunError, RunOptions};
use crate::named::Named;
use crate::oracle::Oracles;
use crate::system::System;
use std::ops::ControlFlow;
use weft_sim::RunEnd;
use weft_sim::log::Log;
use weft_verbs::Nanos;

/// How long the service may take at least to come to rest after the last request ended: acknowledgements that are sent
/// lazily, connections that are still being made anew. Where a request may take longer for such, so may this.
const REST: Nanos = Nanos::from_secs(10);

impl<S: System> World<S> {
    /// Runs to the end and judges.
    pub fn run(mut self, mut options: RunOptions<'_>) -> Result<Report, RunError> {
        self.begin_log(options.log.take());
        self.sample(options.sample);
        self.under_faults(&mut options)?;
        self.stop_faults();
        self.bring_all_back()?;
        let (settled, healthy) = self.settle(&mut options)?;
        self.judge_clients(settled);
        self.come_to_rest(&mut options)?;
        // What a request has been told may be explained by what others learn later, as that its node is out.
        self.recorder.judge(|judge| judge.judge_end(settled, healthy));
        if self.is_unharmed() {
            self.recorder.judge(|judge| judge.judge_unharmed(settled));
        }
        self.sample_the_rest();
        let metrics = self.metrics();
        self.judge_conduct();
        self.judge_connections();
        self.judge_leaks();
        self.judge_memory();
        self.write_log();
        // A log that lost a line, to a full disk say, is no log; the verdict is one all the same.
        let log_error = self.fabric.log(Log::finish).err().map(|error| error.to_string());
        Ok(Report { log_error, ..self.report(metrics) })
    }

    fn begin_log(&mut self, to: Option<Box<dyn std::io::Write>>) {
        self.log = to.map(EventLog::new);
        let log = match &self.log {
            Some(log) => {
                let notes = log.clone();
                self.recorder.tell(move |event| notes.note(event));
                Log::to(Box::new(log.clone()))
            }
            None => Log::digest_only(),
        };
        self.fabric.set_log(log);
    }

    /// Writes the lines of the log that wait for names.
    fn write_log(&self) {
        if let Some(log) = &self.log {
            log.write(&|node, address| {
                let machine = self.machines.get(node as usize)?;
                let labelled = || Named::labelled(&machine.place.rt, address);
                S::name_of(&machine.service, address).or_else(labelled)
            });
        }
    }

    /// Clients make their requests while faults strike.
    fn under_faults(&mut self, options: &mut RunOptions<'_>) -> Result<(), RunError> {
        let limit = self.scenario.run.limit.nanos();
        while !self.all_done() && self.fabric.now() < limit {
            let next = [self.plan.next(), self.down.next()].into_iter().flatten().fold(limit, Nanos::min);
            let end = self.go_on_until(self.slice(next));
            self.bring_back(self.fabric.now())?;
            self.strike()?;
            self.tell(Phase::Faults, options)?;
            if end == RunEnd::Idle && self.down.next().is_none() {
                // Requests wait and nothing is under way: no fault to come can change that.
                break;
            }
        }
        Ok(())
    }

    /// When the run looks up next, at `end` at the latest: after one slice, or after all those together in which nothing happens, as while
    /// all clients rest. Both ways end at the same moments, so that what the run does there does not depend on it.
    fn slice(&self, end: Nanos) -> Nanos {
        let now = self.fabric.now();
        let whole = |until: Nanos| (until - now).0 / SLICE.0;
        let due = self.fabric.due().filter(|due| *due > now + SLICE);
        // A node that is in a step is started again once that ends.
        let steps = self.machines.iter().map(|machine| machine.place.rt.now()).filter(|own| *own > now);
        // What is due at the end of a slice happens in it.
        let empty = due.map_or(0, |due| whole(steps.fold(due, Nanos::min) - Nanos(1)));
        (now + SLICE * empty.min(whole(end)).max(1)).min(end)
    }

    fn strike(&mut self) -> Result<(), RunError> {
        let now = self.fabric.now();
        for fault in self.plan.strike(now) {
            let strikes = match fault {
                Strike::Restart { node, lasts, kind } => match self.in_step_until(node) {
                    None => self.crash(node, lasts, kind)?,
                    Some(later) => {
                        self.plan.strikes_at(later, fault);
                        false
                    }
                },
                Strike::Fault(fault) => {
                    self.fabric.plan(now, fault).map_err(|why| RunError::Cluster(why.to_string()))?;
                    true
                }
            };
            self.struck += u64::from(strikes);
        }
        Ok(())
    }

    /// Nothing goes wrong any more: clients make the requests that they have left, and each must end in time. Says when they had, or
    /// should have, and for how long nothing had gone wrong then.
    fn settle(&mut self, options: &mut RunOptions<'_>) -> Result<(Nanos, Nanos), RunError> {
        let healed = self.fabric.now();
        let span = self.scenario.run.settle.nanos();
        // Who rests may be waited for, as at a barrier.
        let mut rested = healed;
        self.go_on_until_rest(options, |world| {
            if world.clients.iter().any(Client::rests) {
                rested = world.fabric.now();
            }
            let oldest = world.recorder.judge(|judge| judge.oracles().oldest());
            let since = oldest.unwrap_or_else(|| world.recorder.last()).max(rested);
            (!world.all_done()).then(|| since + span)
        })?;
        let now = self.fabric.now();
        Ok((now, now - healed))
    }

    /// Nobody may wait any more. Where a request is open, its oracle says so; of what a client waits for beside its requests' calls, as of a
    /// guest's farewell, no oracle hears.
    fn judge_clients(&self, now: Nanos) {
        if self.recorder.judge(|judge| judge.unended()) > 0 {
            return;
        }
        for client in self.clients.iter().filter(|client| client.is_busy()) {
            self.recorder.judge(|judge| judge.judge_client(now, client.node));
        }
    }

    /// Nobody asks for anything any more: what is under way comes to its end.
    fn come_to_rest(&mut self, options: &mut RunOptions<'_>) -> Result<(), RunError> {
        let rest = REST.max(self.scenario.run.settle.nanos()) + S::lingers(&self.work);
        let end = self.fabric.now() + rest;
        self.go_on_until_rest(options, |world| {
            (world.all_done() && !is_clean(&world.machines)).then_some(end)
        })
    }

    /// Runs on without faults, each time at most until `end`; `None` is that it need not go on.
    fn go_on_until_rest(
        &mut self,
        options: &mut RunOptions<'_>,
        mut end: impl FnMut(&World<S>) -> Option<Nanos>,
    ) -> Result<(), RunError> {
        while let Some(end) = end(self).filter(|end| self.fabric.now() < *end) {
            if !self.all_done() {
                self.start_the_left_out_again()?;
            }
            let run = self.go_on_until(self.slice(end));
            self.tell(Phase::Settling, options)?;
            if run != RunEnd::Reached {
                break;
            }
        }
        Ok(())
    }

    /// No node may have had to drop a message.
    fn judge_conduct(&self) {
        let now = self.fabric.now();
        for (node, machine) in (0..).zip(&self.machines) {
            let conduct = S::conduct(&S::counts(&machine.service));
            self.recorder.judge(|judge| judge.judge_conduct(now, node, conduct));
        }
    }

    /// Whether nothing was done to anybody, and all adapters have had their answers in time. (A node that others had left out, since it was
    /// too busy to answer, was started again.)
    fn is_unharmed(&self) -> bool {
        self.struck == 0 && self.crashes.is_empty() && self.fabric.stats().timeouts == 0
    }

    /// No connection may have broken without cause.
    fn judge_connections(&self) {
        if S::BREAKS_CONNECTIONS || !self.is_unharmed() {
            return;
        }
        let now = self.fabric.now();
        for (node, machine) in (0..).zip(&self.machines) {
            let counted = machine.place.mesh.stats();
            self.recorder.judge(|judge| judge.judge_connections(now, node, &counted));
        }
    }

    /// No memory may have been touched while it may not be.
    fn judge_memory(&self) {
        let (all, first) = (self.fabric.violations_found(), self.fabric.violations());
        self.recorder.judge(|judge| judge.judge_memory(all, &first));
    }

    /// Nothing may be left over. After requests that did not end much is, and they have been reported; and while a client rests between two
    /// nothing is over.
    fn judge_leaks(&mut self) {
        if !self.all_done() {
            return;
        }
        let mut leftovers = at_rest(&self.machines);
        leftovers.extend(left_alive(self));
        let now = self.fabric.now();
        self.recorder.judge(|judge| judge.judge_leaks(now, &leftovers));
    }

    fn tell(&self, phase: Phase, options: &mut RunOptions<'_>) -> Result<(), RunError> {
        self.write_log();
        let Some(progress) = &mut options.progress else { return Ok(()) };
        let now = self.fabric.now();
        let at = Progress {
            phase,
            now,
            ended: self.recorder.judge(|judge| judge.oracles().ended()),
            total: self.requests_in_all(),
            until: self.until(),
            faults: self.struck,
            events: self.fabric.stats().events,
        };
        match progress(&at) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                // Who broke it off wants to see what it did until then.
                let log_error = self.fabric.log(Log::finish).err().map(|error| error.to_string());
                Err(RunError::Interrupted { at: now, log_error })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::systems::pario::Files;

    #[test]
    fn a_queue_of_holds_that_takes_longer_than_one_request_may_is_no_hang() {
        let text = "[cluster]\nnodes = 2\n[workload]\nkind = \"locks\"\nscheme = \"ncosed\"\nclients = 8\nshared = 0.3\nhold = \"30ms\"\n\
                    requests = 2\n[run]\nlimit = \"10ms\"\nsettle = \"100ms\"\n";
        let scenario = crate::parse(text).expect("a good scenario");
        let report = crate::run(&scenario, 1, RunOptions::default()).expect("it runs");
        assert!(
            report.held() && report.metrics.count("requests", "granted") == 32,
            "{:?}",
            report.violations
        );
    }

    #[test]
    fn time_in_which_nothing_happens_takes_no_work() {
        let text = "[cluster]\nnodes = 2\n[workload]\nkind = \"locks\"\nscheme = \"ncosed\"\nthink = \"1000s\"\nrequests = 2\n";
        let scenario = crate::parse(text).expect("a good scenario");
        let mut looks = 0;
        let mut progress = |_: &Progress| {
            looks += 1;
            ControlFlow::Continue(())
        };
        let options = RunOptions { progress: Some(&mut progress), ..RunOptions::default() };
        let report = crate::run(&scenario, 1, options).expect("it runs");
        assert!(report.held() && report.virtual_ns >= 2_000_000_000_000, "{:?}", report.violations);
        assert!(looks < 10_000, "{looks} looks");
    }

    /// A guest is forgotten by its lease.
    #[test]
    fn what_is_kept_of_a_guest_that_died_is_no_leak_while_its_lease_runs() {
        let text = "[cluster]\nnodes = 3\n[workload]\nkind = \"pario\"\naccess = \"small\"\nservers = 1\nguests = true\nlease = \"40s\"\nvisit = 2\n\
                    dies = 1.0\nrequests = 6\n";
        let scenario = crate::parse(text).expect("a good scenario");
        let report = crate::run(&scenario, 1, RunOptions::default()).expect("it runs");
        assert!(report.held() && report.virtual_ns > 40_000_000_000, "{:?}", report.violations);
    }

    #[test]
    fn a_client_that_does_not_go_on_though_nothing_is_open_is_told_of() {
        let text = "[cluster]\nnodes = 2\n[workload]\nkind = \"pario\"\naccess = \"mix\"\nrequests = 2\n";
        let scenario = crate::parse(text).expect("a good scenario");
        let verdict = |waits: bool| {
            let mut world = World::<Files>::seeded(&scenario, 1).expect("a good scenario");
            world.start_clients();
            if waits {
                world.start(1, std::future::pending());
            }
            world.run(RunOptions::default()).expect("it runs").verdict
        };
        assert_eq!(verdict(false), Verdict::Held);
        assert_eq!(verdict(true), Verdict::Violated);
    }
}
