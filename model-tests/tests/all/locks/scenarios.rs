//! Scenarios for the tests of the lock world.

use std::path::Path;
use weft_check::scenario::Scenario;
use weft_check::systems::locks::Locks;
use weft_protocols::locks::Scheme;

/// A small cluster under every kind of accident: four machines, few locks, connections that are given up soon.
const SMALL: &str = r#"
[cluster]
nodes = 4

[transport]
ack_timeout = 5
retries = 1

[workload]
kind = "locks"
scheme = "ncosed"
clients = 2
locks = 3
keys = { zipf = 0.99 }
shared = 0.5
requests = 20
think = { min = "0us", max = "40us" }
hold = { min = "0us", max = "10us" }
deadline = "300us"
hurried = 0.3
tries = 0.1
"#;

const ACCIDENTS: &str = r#"
[run]
limit = "40ms"

[[faults]]
kind = "cut"
rate = "500/s"
between = "random"
lasts = { min = "50us", max = "2ms" }

[[faults]]
kind = "cut"
rate = "200/s"
way = "to"
lasts = { min = "20us", max = "1ms" }

[[faults]]
kind = "lose-completion"
rate = "500/s"
lasts = "1200us"

[[faults]]
kind = "flap"
rate = "200/s"
down = "30us"
up = "50us"
times = 3

[[faults]]
kind = "loss"
rate = "300/s"
share = 0.1
lasts = "500us"

[[faults]]
kind = "duplicate"
rate = "300/s"
share = 0.5
lasts = "500us"

[[faults]]
kind = "delay"
rate = "300/s"
extra = "2us"
jitter = "30us"
lasts = "500us"

[[faults]]
kind = "corrupt"
rate = "300/s"
share = 0.1
lasts = "500us"

[[faults]]
kind = "port-down"
rate = "100/s"
lasts = { min = "20us", max = "2ms" }

[[faults]]
kind = "slow-node"
rate = "200/s"
percent = 500
lasts = "500us"
"#;

/// The small cluster without accidents.
pub fn calm(scheme: Scheme) -> Scenario {
    let mut scenario = weft_check::parse(SMALL).expect("a scenario");
    scenario.workload.change::<Locks>(|work| work.scheme = scheme);
    scenario
}

/// The small cluster under every kind of accident.
pub fn stormy(scheme: Scheme) -> Scenario {
    let mut scenario = weft_check::parse(&format!("{SMALL}{ACCIDENTS}")).expect("a scenario");
    scenario.workload.change::<Locks>(|work| work.scheme = scheme);
    scenario
}

/// A scenario that comes with Weft.
pub fn shipped(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name);
    weft_check::load(path).unwrap_or_else(|error| panic!("{error}"))
}
