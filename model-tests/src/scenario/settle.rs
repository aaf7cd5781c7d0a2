//! `settle` in `[run]`: whether a request has the time to end that only waits, for an adapter or for other users.

use super::schema::Scenario;
use crate::fields::{Rule, Span, broken, in_section};
use weft_sim::fault::FaultKind;
use weft_sim::profile::Profile;
use weft_verbs::Nanos;

/// An adapter's time-out is one to four times what its exponent says (IBA 9.7.6.1.3).
const LONGEST_TIMEOUT: u64 = 4;

/// Refuses a scenario in which a request may have to wait for longer than it may take: no oracle could tell it from one that hangs.
pub(super) fn check(scenario: &Scenario) -> Rule {
    let asks = match scenario.faults.iter().any(|fault| loses_packets(fault.kind)) {
        true => connects_anew_after(scenario),
        false => Some(Nanos::ZERO),
    };
    let Some(asks) = asks else {
        let problem = "the profile's adapters wait for an acknowledgement for ever, and the faults lose packets: give it";
        return broken(in_section("transport", "ack_timeout"), problem.into());
    };
    let held_up = scenario.workload.held_up();
    let least = asks.0.saturating_add(held_up.0);
    if scenario.run.settle.nanos().0 > least {
        return Ok(());
    }
    let [least, asks, held_up] = [least, asks.0, held_up.0].map(in_whole_ms);
    let ways = match (asks.nanos(), held_up.nanos()) {
        (_, Nanos::ZERO) => format!("an adapter asks in vain and connects anew ({HOW_SOON})"),
        (Nanos::ZERO, _) => format!("it waits for another machine ({HOW_LONG})"),
        _ => format!(
            "an adapter asks in vain and connects anew, {asks} ({HOW_SOON}), and it waits for another machine, {held_up} ({HOW_LONG})"
        ),
    };
    broken(
        in_section("run", "settle"),
        format!("more than {least}: a request may wait for so long while {ways}"),
    )
}

const HOW_SOON: &str = "less with ack_timeout or retries lower in [transport]";
const HOW_LONG: &str = "less with a shorter hold or keepalive";

/// Whether an adapter may have to ask again for what faults of a kind do.
fn loses_packets(kind: FaultKind) -> bool {
    use FaultKind::{DiskError, DiskFull, Duplicate, NoMemory, SlowNode};
    !matches!(kind, Duplicate | SlowNode | DiskFull | DiskError | NoMemory)
}

/// After how long at the most a connection stands again whose other end is gone, once no packet is lost any more: the adapter asks in
/// vain as often as it does, and the connection manager repeats what was lost. `None` if adapters never give a connection up.
fn connects_anew_after(scenario: &Scenario) -> Option<Nanos> {
    let asks = scenario.gives_up_after()? * LONGEST_TIMEOUT;
    let transport = Profile::find(&scenario.cluster.profile).ok()?.transport;
    Some(asks + transport.cm_timeout().span()? * (transport.cm_retries + 1))
}

/// A time in milliseconds, rounded up.
fn in_whole_ms(nanos: u64) -> Span {
    const MS: u64 = Nanos::from_millis(1).0;
    Span(Nanos(nanos.div_ceil(MS).saturating_mul(MS)))
}
