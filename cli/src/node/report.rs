//! What a run on real machines came to.

use super::judge::{Clients, Outcome};
use super::wire::History;
use crate::exit::Exit;
use crate::metrics::{Clock, figures};
use crate::report;
use crate::table::{Table, count, wrap};
use serde::Serialize;
use weft_check::metrics::Metrics;
use weft_check::oracle::{Check, Sanitizer, Standing, Violation};
use weft_check::scenario::Scenario;
use weft_check::system::{Measured, System};

/// A judged run.
#[derive(Serialize)]
pub struct Judged {
    title: String,
    system: &'static str,
    variant: Option<(&'static str, String)>,
    nodes: u32,
    seed: u64,
    held: bool,
    unfinished: Option<String>,
    checks: Vec<Check>,
    violations: Vec<Violation>,
    #[serde(flatten)]
    metrics: Metrics,
    seconds: f64,
    lost: Vec<(u32, String)>,
    returned: Vec<(u32, Clients)>,
    /// Whether those are to take part again.
    #[serde(skip)]
    comes_back: bool,
    after_loss: Clients,
    history: History,
    troubles: Vec<String>,
}

/// Puts a run's outcome together.
pub fn judge<S: System>(scenario: &Scenario, work: &S::Workload, seed: u64, outcome: Outcome<S>) -> Judged {
    let Outcome { recorder, counts, lost, returned, after_loss, history, troubles, unfinished } = outcome;
    // The simulator's sanitizer sees every access of memory, and a simulated run knows of all that goes wrong; nobody does here.
    let checks = recorder.judge(|judge| judge.checks()).into_iter();
    let checks: Vec<_> =
        checks.filter(|check| ![Sanitizer::NAME, Standing::NAME].contains(&check.oracle)).collect();
    let (busy, mesh, counts) = (recorder.busy(), counts.mesh, counts.service);
    let measure = |meter: &_, oracles: &_| S::metrics(Measured { work, oracles, meter, counts, mesh, busy });
    Judged {
        title: scenario.title.clone(),
        system: S::KIND,
        variant: S::variant(work),
        nodes: scenario.cluster.nodes,
        seed,
        held: checks.iter().all(|check| check.held),
        unfinished,
        violations: recorder.judge(|judge| judge.violations().to_vec()),
        checks,
        metrics: recorder.measured(measure),
        seconds: busy.as_secs_f64(),
        lost,
        returned,
        comes_back: S::COMES_BACK,
        after_loss,
        history,
        troubles,
    }
}

impl Judged {
    /// The exit code that it asks for. Survivors of a lost node must have gone on without it: their requests end, or the
    /// run would be unfinished, and of those that they made after its last word some are granted. So must one that came back, where
    /// the system takes it in again.
    pub fn exit(&self) -> Exit {
        match (self.held, &self.unfinished) {
            (false, _) => Exit::Violated,
            (true, Some(_)) => Exit::Unfinished,
            (true, None) if !self.lost.is_empty() && !self.after_loss.went_on() => Exit::Violated,
            (true, None)
                if self.comes_back && !self.returned.iter().all(|(_, clients)| clients.went_on()) =>
            {
                Exit::Violated
            }
            (true, None) => Exit::Held,
        }
    }

    /// For people: as `weft run` has it, with what only real machines have.
    pub fn text(&self) -> String {
        let mut text = match self.exit() {
            Exit::Unfinished => "UNFINISHED\n".to_string(),
            Exit::Violated if self.held => {
                "VIOLATED: survivors of a lost node, or it when it was back, did not go on\n".to_string()
            }
            _ => report::verdict(&self.checks, &self.violations),
        };
        self.unfinished.iter().for_each(|why| wrap(why, 2, &mut text));
        for (rank, why) in &self.lost {
            wrap(&format!("node {rank} was lost: {why}"), 2, &mut text);
        }
        for (rank, Clients { asked, served }) in &self.returned {
            let (asked, served) = (count(*asked), count(*served));
            let after =
                format!("node {rank} came back, and made {asked} requests, of which {served} were served");
            wrap(&after, 2, &mut text);
        }
        if !self.lost.is_empty() {
            let Clients { asked, served } = self.after_loss;
            let (asked, served) = (count(asked), count(served));
            let after = format!(
                "since it fell silent, survivors made {asked} requests, of which {served} were served"
            );
            wrap(&after, 2, &mut text);
        }
        self.troubles.iter().take(10).for_each(|trouble| wrap(trouble, 2, &mut text));
        report::title(&self.title, &mut text);
        self.facts().print(&mut text);
        figures(&self.metrics, Clock::Real, &mut text);
        report::checks(&self.checks).print(&mut text);
        text
    }

    fn facts(&self) -> Table {
        let name = self.variant.as_ref().map_or(self.system, |(_, value)| value);
        let mut table = Table::facts(&format!("{name} on {} real nodes", self.nodes));
        table.row(["time".into(), format!("{:.1} s", self.seconds)]);
        for rate in &self.metrics.rates {
            let shown = if rate.value < 1_000.0 {
                format!("{:.1}", rate.value)
            } else {
                count(rate.value.round() as u64)
            };
            table.row([rate.label.into(), shown]);
        }
        if self.history.lived > 0 {
            let share = 100.0 * self.history.waited as f64 / self.history.lived as f64;
            table.row(["clients waited for the history".into(), format!("{share:.1} % of their time")]);
        }
        table
    }
}
