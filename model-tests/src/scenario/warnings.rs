//! What is odd about a scenario that is right in every field.

use super::schema::Scenario;
use crate::fields::Spread;
use weft_sim::fault::FaultKind;
use weft_sim::profile::Profile;
use weft_verbs::{AckTimeout, Nanos};

impl Scenario {
    /// What about the scenario makes its verdict say less than one might think, a line each.
    pub fn warnings(&self) -> Vec<String> {
        self.outlived().into_iter().collect()
    }

    /// Links that fail for a shorter time than adapters go on asking break no connection. What a protocol does then is what
    /// such a scenario is written for. Where there is another rail, a connection does not wait for that: it leaves a port that
    /// says that it has no link.
    fn outlived(&self) -> Option<String> {
        let detection = self.gives_up_after()?;
        let lasts = |spread: Option<Spread>| spread.map_or(Nanos::MAX, |spread| spread.max.nanos());
        let breaks = self.faults.iter().filter_map(|fault| match fault.kind {
            FaultKind::PortDown if self.cluster.rails > 1 => Some(Nanos::MAX),
            FaultKind::Cut | FaultKind::PortDown | FaultKind::LoseCompletion => Some(lasts(fault.lasts)),
            FaultKind::Flap => Some(lasts(fault.down)),
            _ => None,
        });
        let longest = breaks.max().filter(|longest| *longest < detection)?;
        Some(format!(
            "No failure of a link breaks a connection: the longest lasts {longest}, and adapters go on asking for \
             {detection} at least. Let it last longer, or set ack_timeout and retries in [transport] lower."
        ))
    }

    /// How long an adapter asks for an acknowledgement before it gives a connection up, at least: it asks once and
    /// `retries` times more, and waits for one time-out each time. `None` if it never gives up.
    pub(super) fn gives_up_after(&self) -> Option<Nanos> {
        let profile = Profile::find(&self.cluster.profile).ok()?;
        let transport = &self.transport;
        let timeout = transport.ack_timeout.map_or(Some(profile.transport.ack_timeout()), AckTimeout::new)?;
        let retries = transport.retries.unwrap_or(profile.transport.retry().count());
        Some(timeout.span()? * (u64::from(retries) + 1))
    }
}

#[cfg(test)]
mod tests {
    fn warnings(transport: &str, faults: &str) -> Vec<String> {
        on_rails(1, transport, faults)
    }

    fn on_rails(rails: u8, transport: &str, faults: &str) -> Vec<String> {
        let head =
            format!("[cluster]\nnodes = 3\nrails = {rails}\n[workload]\nkind = \"messages\"\nmessages = 5\n");
        crate::parse(&format!("{head}[transport]\n{transport}\n{faults}")).expect("a scenario").warnings()
    }

    const CUT: &str =
        "[[faults]]\nkind = \"cut\"\nrate = \"200/s\"\nlasts = { min = \"100us\", max = \"50ms\" }\n";

    #[test]
    fn cuts_that_adapters_outlast_are_told() {
        let told = warnings("", CUT);
        assert!(told[0].contains("the longest lasts 50.00 ms") && told[0].contains("536.87 ms"), "{told:?}");
        assert_eq!(warnings("ack_timeout = 5\nretries = 1", CUT), [""; 0]);
        assert_eq!(warnings("", "[[faults]]\nkind = \"cut\"\nat = \"1ms\"\n"), [""; 0], "until faults stop");
        assert_eq!(warnings("", ""), [""; 0]);
        let longer = "[[faults]]\nkind = \"port-down\"\nat = \"1ms\"\nlasts = \"1s\"\n";
        assert_eq!(warnings("", &format!("{CUT}{longer}")), [""; 0], "one that breaks connections is enough");
        let short = longer.replace("1s", "1ms");
        assert_eq!(warnings("", &short).len(), 1, "one rail waits for its adapter");
        assert_eq!(on_rails(2, "", &short), [""; 0], "a connection leaves a port without a link at once");
        assert_eq!(on_rails(2, "", CUT).len(), 1, "a cut is silent");
    }
}
