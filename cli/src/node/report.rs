//! What a run on real machines came to.

use super::judge::{Clients, Outcome};
use super::wire::History;
use crate::exit::{Exit, Failure};
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
    verdict: Exit,
    unfinished: Option<String>,
    checks: Vec<Check>,
    violations: Vec<Violation>,
    #[serde(flatten)]
    metrics: Metrics,
    seconds: f64,
    lost: Vec<(u32, String)>,
    returned: Vec<(u32, Clients)>,
    after_loss: Clients,
    history: History,
    troubles: Vec<String>,
}

/// Puts a run's outcome together.
///
/// # Errors
/// The nodes have never met: nothing was done, so that no check of it says anything.
pub fn judge<S: System>(
    scenario: &Scenario,
    work: &S::Workload,
    seed: u64,
    outcome: Outcome<S>,
) -> Result<Judged, Failure> {
    let went_on = went_on(&outcome);
    let Outcome { recorder, counts, lost, returned, after_loss, history, troubles, unfinished, met } =
        outcome;
    if !met {
        let why: Vec<String> = unfinished.into_iter().chain(troubles).collect();
        return Err(Failure::unfinished(why.join("; ")));
    }
    // The simulator's sanitizer sees every access of memory, and a simulated run knows of all that goes wrong; nobody does here.
    let checks = recorder.judge(|judge| judge.checks()).into_iter();
    let checks: Vec<_> =
        checks.filter(|check| ![Sanitizer::NAME, Standing::NAME].contains(&check.oracle)).collect();
    let (busy, mesh, counts) = (recorder.busy(), counts.mesh, counts.service);
    let measure = |meter: &_, oracles: &_| S::metrics(Measured { work, oracles, meter, counts, mesh, busy });
    Ok(Judged {
        title: scenario.title.clone(),
        system: S::KIND,
        variant: S::variant(work),
        nodes: scenario.cluster.nodes,
        seed,
        verdict: match (checks.iter().all(|check| check.held), &unfinished) {
            (false, _) => Exit::Violated,
            (true, Some(_)) => Exit::Unfinished,
            (true, None) if !went_on => Exit::Violated,
            (true, None) => Exit::Held,
        },
        unfinished,
        violations: recorder.judge(|judge| judge.violations().to_vec()),
        checks,
        metrics: recorder.measured(measure),
        seconds: busy.as_secs_f64(),
        lost,
        returned,
        after_loss,
        history,
        troubles,
    })
}

/// Survivors of a lost node must have gone on without it: their requests end, or the run would be unfinished, and of those that they
/// made after its last word some are granted. So must one that came back, where the system takes it in again.
fn went_on<S: System>(outcome: &Outcome<S>) -> bool {
    let survivors = outcome.lost.is_empty() || outcome.after_loss.went_on();
    let returned = || outcome.returned.iter().all(|(_, clients)| clients.went_on());
    survivors && (!S::COMES_BACK || returned())
}

impl Judged {
    /// The exit code that it asks for.
    pub fn exit(&self) -> Exit {
        self.verdict
    }

    /// For people: as `weft run` has it, with what only real machines have.
    pub fn text(&self) -> String {
        let mut text = match self.verdict {
            Exit::Unfinished => "UNFINISHED\n".to_string(),
            Exit::Violated if self.checks.iter().all(|check| check.held) => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use weft_check::record::Recorder;
    use weft_check::systems::KINDS;
    use weft_check::systems::messages::Messages;

    fn judged(served: u64, unfinished: Option<&str>, met: bool) -> Result<Judged, Failure> {
        let text = "[cluster]\nnodes = 2\n[workload]\nkind = \"messages\"\nmessages = 2\n";
        let scenario = Scenario::parse_with("s.toml", text, &[], KINDS).expect("a scenario");
        let work = scenario.workload.get::<Messages>().expect("messages");
        let outcome = Outcome::<Messages> {
            recorder: Recorder::new(Messages::oracles(work, 2), Default::default()),
            counts: Default::default(),
            lost: vec![(1, "it left".to_string())],
            returned: Vec::new(),
            after_loss: Clients { asked: 1, served },
            history: History::default(),
            troubles: vec!["n0: no memory".to_string()],
            unfinished: unfinished.map(str::to_string),
            met,
        };
        judge::<Messages>(&scenario, work, 1, outcome)
    }

    #[test]
    fn what_programs_read_is_what_the_exit_code_says() {
        let told = |served, unfinished| {
            let judged = judged(served, unfinished, true).expect("they have met");
            let told = serde_json::to_value(&judged).expect("an object");
            (judged.exit(), told["verdict"].as_str().map(str::to_string))
        };
        let says = |exit, word: &str| (exit, Some(word.to_string()));
        assert_eq!(told(1, None), says(Exit::Held, "held"));
        assert_eq!(told(0, None), says(Exit::Violated, "violated"));
        assert_eq!(told(1, Some("why")), says(Exit::Unfinished, "unfinished"));
    }

    #[test]
    fn of_a_run_in_which_the_nodes_never_met_no_check_is_said_to_have_held() {
        let never = judged(0, Some("interrupted while waiting for node 1 of 2"), false);
        let never = never.err().expect("there is nothing to report");
        assert_eq!(never.to_string(), "interrupted while waiting for node 1 of 2; n0: no memory");
        assert_eq!(never.exit(), Exit::Unfinished);
    }
}
