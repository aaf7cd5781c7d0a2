//! The cases of the contract's suite that need no adapter: streams and disks.

use crate::bed::{Net, Scratch};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use weft_tcp::{Driver, Tcp, TcpDevice};
use weft_verbs::conformance::{self, Fault, FaultId, Harness, HarnessCaps, Machine, Timing, Verdict};
use weft_verbs::{Caps, Nanos, Node, PinnedMemory};

struct Machines {
    net: Net,
    scratch: Scratch,
    devices: Vec<TcpDevice>,
    mounted: Vec<(Driver, Box<dyn Node>)>,
    began: Instant,
    round: usize,
}

/// How long programs run before others do.
const SLICE: Nanos = Nanos::from_micros(200);

impl Harness for Machines {
    type V = Tcp;

    fn capabilities(&self) -> Caps {
        Caps::OUT_OF_BAND | Caps::DISK
    }

    fn harness_caps(&self) -> HarnessCaps {
        HarnessCaps::MOUNT
    }

    fn timing(&self) -> Timing {
        Timing { round_trip: Nanos::from_millis(2), timeout: Nanos::from_secs(20), seeds: 1 }
    }

    fn start(&mut self, nodes: usize, _seed: u64) -> Result<Vec<Machine<Tcp>>, String> {
        self.mounted.clear();
        self.devices.clear();
        self.round += 1;
        let first = self.round * 16;
        for n in 0..nodes {
            let store = self.scratch.store(first + n);
            self.devices.push(TcpDevice::new(Some(self.net.address(n)), Some(store)));
        }
        let machine = |(n, device): (usize, &TcpDevice)| {
            let name = self.net.address(n).to_string();
            Machine { name, device: device.clone(), port: 1, gid_index: 0, second: None }
        };
        Ok(self.devices.iter().enumerate().map(machine).collect())
    }

    fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn advance(&mut self, span: Nanos) {
        let until = self.now() + span;
        loop {
            if self.mounted.is_empty() {
                let machines = self.devices.iter().flat_map(TcpDevice::open_contexts);
                machines.for_each(|machine| machine.make_progress());
            }
            for (driver, node) in &mut self.mounted {
                driver.run_until(node.as_mut(), weft_tcp::now() + SLICE);
            }
            if self.now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn inject(&mut self, _fault: &Fault) -> Option<FaultId> {
        None
    }

    fn struck(&self, _fault: FaultId) -> u64 {
        0
    }

    fn heal(&mut self, _fault: FaultId) {}

    fn mount(&mut self, node: usize, program: Box<dyn Node>) -> bool {
        let Some(context) = self.devices[node].open_contexts().pop() else { return false };
        self.mounted.push((Driver::new(&context), program));
        true
    }

    fn brought_memory(&mut self, _len: usize) -> Option<Box<dyn PinnedMemory>> {
        None
    }
}

#[test]
fn streams_and_disks_keep_what_the_contract_says_of_them() {
    let (net, scratch) = (Net::new(), Scratch::new("conformance"));
    let (devices, mounted) = (Vec::new(), Vec::new());
    let mut machines = Machines { net, scratch, devices, mounted, began: Instant::now(), round: 0 };
    let wanted = |group: &str| ["streams", "disks"].contains(&group);
    let report = conformance::run(&mut machines, |case| wanted(case.group), &mut |_| {});
    let mut lacking = BTreeSet::new();
    for row in &report.rows {
        match &row.verdict {
            Verdict::Passed => {}
            Verdict::Lacking { .. } => drop(lacking.insert(row.case)),
            Verdict::Failed(why) => panic!("{}: {why}", row.case),
        }
    }
    // Those that need faults between the machines.
    assert!(
        report.rows.len() - lacking.len() >= 16,
        "{} of {} lack something: {lacking:?}",
        lacking.len(),
        report.rows.len()
    );
}
