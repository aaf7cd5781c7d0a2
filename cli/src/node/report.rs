//! What a run on real machines came to.

use super::coordinator::{AfterLoss, Outcome};
use crate::exit::Exit;
use crate::table::{Table, count};
use serde::Serialize;
use weft_check::lock_world::{Latencies, Percentiles, Requests};
use weft_check::oracle::{Check, Violation};
use weft_check::scenario::Scenario;

/// A judged run.
#[derive(Serialize)]
pub struct Judged {
    title: String,
    scheme: String,
    nodes: u32,
    seed: u64,
    held: bool,
    unfinished: Option<String>,
    checks: Vec<Check>,
    violations: Vec<Violation>,
    requests: Requests,
    latency: Latencies,
    seconds: f64,
    messages: u64,
    atomics: u64,
    reconnects: u64,
    resent: u64,
    lost: Vec<(u32, String)>,
    after_loss: AfterLoss,
    troubles: Vec<String>,
}

/// Puts a run's outcome together.
pub fn judge(scenario: &Scenario, seed: u64, outcome: Outcome) -> Judged {
    let Outcome { scribe, counts, lost, after_loss, troubles, unfinished } = outcome;
    // The simulator's sanitizer sees every access of memory; nobody does here.
    let checks = scribe.judge(|judge| judge.checks()).into_iter();
    let checks: Vec<_> = checks.filter(|check| check.oracle != "sanitizer").collect();
    Judged {
        title: scenario.title.clone(),
        scheme: scenario.workload.scheme.to_string(),
        nodes: scenario.cluster.nodes,
        seed,
        held: checks.iter().all(|check| check.held),
        unfinished,
        violations: scribe.judge(|judge| judge.violations().to_vec()),
        checks,
        requests: scribe.requests(),
        latency: scribe.latencies(),
        seconds: scribe.busy().as_secs_f64(),
        messages: counts.messages,
        atomics: counts.atomics,
        reconnects: counts.reconnects,
        resent: counts.resent,
        lost,
        after_loss,
        troubles,
    }
}

impl Judged {
    /// The exit code that it asks for. Survivors of a lost node must have gone on without it: their requests end, or the
    /// run would be unfinished, and of those that they made after its last word some are granted.
    pub fn exit(&self) -> Exit {
        match (self.held, &self.unfinished) {
            (false, _) => Exit::Violated,
            (true, Some(_)) => Exit::Unfinished,
            (true, None) if !self.lost.is_empty() && !self.after_loss.went_on() => Exit::Violated,
            (true, None) => Exit::Held,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let verdict = match self.exit() {
            Exit::Held => "held: every promise was kept",
            Exit::Violated => "VIOLATED",
            _ => "unfinished",
        };
        let mut text = format!("{}\n{verdict}\n", self.title);
        text.extend(self.unfinished.iter().map(|why| format!("  {why}\n")));
        for (rank, why) in &self.lost {
            text.push_str(&format!("  node {rank} was lost: {why}\n"));
        }
        if !self.lost.is_empty() {
            let AfterLoss { asked, granted } = self.after_loss;
            let (asked, granted) = (count(asked), count(granted));
            text.push_str(&format!(
                "  since it fell silent, survivors made {asked} requests and were granted {granted}\n"
            ));
        }
        self.facts().print(&mut text);
        for check in &self.checks {
            let mark = if check.held { "held" } else { "VIOLATED" };
            text.push_str(&format!("  {mark:8}  {}: {}\n", check.oracle, check.promise));
        }
        for violation in self.violations.iter().take(10) {
            text.push_str(&format!("  {}: {}\n", violation.oracle, violation.text));
        }
        let troubles = self.troubles.iter().take(10).map(|trouble| format!("  {trouble}\n"));
        text.extend(troubles);
        text
    }

    fn facts(&self) -> Table {
        let mut table = Table::facts(&format!("{} on {} real nodes", self.scheme, self.nodes));
        let Requests { made, granted, timed_out, refused, failed, unended } = self.requests;
        let ends = format!(
            "{} made, {} granted, {} gave up, {} refused, {} failed, {} open",
            count(made),
            count(granted),
            count(timed_out),
            count(refused),
            count(failed),
            count(unended)
        );
        let spread = |p: &Percentiles| {
            let ms = |ns: u64| ns as f64 / 1e6;
            format!("median {:.2} ms, 99 % {:.2} ms, of {}", ms(p.p50_ns), ms(p.p99_ns), count(p.count))
        };
        let wire = format!(
            "{} messages, {} atomics, {} reconnections, {} messages sent again",
            count(self.messages),
            count(self.atomics),
            count(self.reconnects),
            count(self.resent)
        );
        table
            .row(["requests".into(), ends])
            .row(["shared, to the grant".into(), spread(&self.latency.shared)])
            .row(["exclusive, to the grant".into(), spread(&self.latency.exclusive)])
            .row(["time".into(), format!("{:.1} s", self.seconds)])
            .row(["fabric".into(), wire]);
        table
    }
}
