//! Where the nodes of a run meet: the control plane's coordinator, with the judge above it.

use super::judge::{Judge, Outcome, Terms};
use crate::control::{PROGRAM, raise_file_limit, runtime};
use crate::exit::Failure;
use crate::interrupt;
use std::io::Write;
use std::time::Duration;
use weft_check::scenario::{Scenario, WaitStyle};
use weft_check::system::System;
use weft_control::coordinator::{Config, Coordinator, Event, Handle, StartError};
use weft_control::net::{Endpoint, Tcp};
use weft_control::roster;
use weft_control::secret::Secret;
use weft_control::timing::Timing;

/// After which silence a node counts as lost: machines under load may be slow, and a run is no service.
pub const SILENCE: Duration = Duration::from_secs(15);

/// What the nodes of a run must agree on before they meet.
#[derive(Clone, Debug)]
pub struct Agreed {
    /// The run's name, its cluster's for the control plane.
    pub cluster: String,
    /// The digest of its scenario.
    pub scenario: String,
    /// How many nodes it has.
    pub nodes: u32,
    /// Its secret, if it has one.
    pub secret: Secret,
}

impl Agreed {
    /// On a scenario with this seed. What a machine may choose for itself is no part of it: its device, and how it learns of completions.
    pub fn on(scenario: &Scenario, seed: u64, secret: Secret) -> Agreed {
        let mut same = scenario.clone();
        let cluster = &mut same.cluster;
        (cluster.device, cluster.device_port, cluster.gid, cluster.wait) =
            (None, None, None, WaitStyle::default());
        let bytes = serde_json::to_vec(&(&same, seed)).expect("a scenario can always be written");
        let title = title(scenario);
        let cluster = if title.is_empty() { scenario.workload.kind().name.to_string() } else { title };
        Agreed {
            cluster: cluster.chars().take(60).collect(),
            scenario: weft_control::secret::digest(&bytes),
            nodes: scenario.cluster.nodes,
            secret,
        }
    }

    /// How long things take.
    pub fn timing() -> Timing {
        Timing { silence: SILENCE, pause_most: Duration::from_millis(500), ..Timing::default() }
    }
}

/// A scenario's title in one line: what its run, and the stores of its nodes, are called by.
pub fn title(scenario: &Scenario) -> String {
    scenario.title.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A coordinator that listens on all addresses of this machine, of both families where it has both.
pub struct Meeting {
    coordinator: Coordinator<Tcp>,
    handle: Handle,
    events: tokio::sync::mpsc::Receiver<Event>,
    runtime: tokio::runtime::Runtime,
}

impl Meeting {
    /// Listens. What an operator has to know of who comes is logged.
    pub fn open(agreed: &Agreed, port: u16) -> Result<Meeting, Failure> {
        let Agreed { cluster, scenario, nodes, secret } = agreed.clone();
        if secret.is_none() {
            // Nobody may be reading.
            let _ = writeln!(
                std::io::stderr(),
                "without --secret FILE whoever reaches port {port} of this machine can take part in this run"
            );
        }
        let terms = roster::Terms { cluster, program: PROGRAM.to_string(), scenario, nodes };
        let both = Config { listen: Endpoint::new("::", port), terms, secret, timing: Agreed::timing() };
        raise_file_limit();
        let runtime = runtime()?;
        let opened = runtime.block_on(async {
            let ipv4 = Config { listen: Endpoint::new("0.0.0.0", port), ..both.clone() };
            match Coordinator::bind_unprotected(&Tcp, both).await {
                Err(StartError::Listen { .. }) => Coordinator::bind_unprotected(&Tcp, ipv4).await,
                opened => opened,
            }
        });
        let (coordinator, handle, events) = opened.map_err(|why| match why {
            StartError::Random(_) => Failure::unfinished(why),
            StartError::Listen { .. } | StartError::Unprotected { .. } => Failure::bad_input(why),
        })?;
        Ok(Meeting { coordinator, handle, events, runtime })
    }

    /// The port at which it listens.
    #[cfg(test)]
    pub fn port(&self) -> u16 {
        self.coordinator.local().expect("it listens").port()
    }

    /// Takes the nodes of a run, and returns when it is over and they have gone.
    pub fn hold<S: System>(self, terms: Terms, work: &S::Workload) -> Outcome<S> {
        let Meeting { coordinator, handle, mut events, runtime } = self;
        let judge = Judge::<S>::new(terms, work);
        let judged = async {
            let outcome = judge.drive(&handle, &mut events, &interrupt::requested).await;
            handle.end();
            drop(events);
            outcome
        };
        runtime.block_on(async { tokio::join!(judged, coordinator.run()).0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn nodes_reach_a_meeting_place_by_both_families_where_its_machine_has_both() {
        let (cluster, scenario) = ("a run".to_string(), String::new());
        let agreed = Agreed { cluster, scenario, nodes: 2, secret: Secret::of(&[7; 32]) };
        let meeting = Meeting::open(&agreed, 0).expect("a port of the system's choice");
        let has = |address: &&str| TcpListener::bind((*address, 0)).is_ok();
        for address in ["127.0.0.1", "::1"].into_iter().filter(has) {
            assert!(TcpStream::connect((address, meeting.port())).is_ok(), "{address}");
        }
    }

    #[test]
    fn machines_may_differ_in_their_devices_and_in_nothing_else() {
        let text = "[cluster]\nnodes = 3\n[workload]\nkind = \"messages\"\nmessages = 5\n";
        let digest = |more: &[&str], seed| {
            let more: Vec<_> = more.iter().map(|field| field.parse().expect("a field")).collect();
            let scenario = Scenario::parse_with("s.toml", text, &more, weft_check::systems::KINDS);
            Agreed::on(&scenario.expect("a scenario"), seed, Secret::none()).scenario
        };
        let ours = digest(&[], 1);
        assert_eq!(ours, digest(&["cluster.device=\"rxe1\"", "cluster.wait=\"notify\""], 1));
        assert_ne!(ours, digest(&["workload.messages=6"], 1));
        assert_ne!(ours, digest(&[], 2));
    }
}
