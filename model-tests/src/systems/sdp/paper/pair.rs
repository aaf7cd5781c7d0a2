//! Two of the thesis's machines, and their sockets.

use crate::paper::{self, PaperError, refused};
use weft_protocols::rt::Rt;
use weft_protocols::sdp::{Sdp, SdpOptions};
use weft_sim::profile::Profile;
use weft_sim::{Config, Sim};
use weft_verbs::{Nanos, Wait};

/// A machine.
#[derive(Clone)]
pub(super) struct Machine {
    pub rt: Rt<Sim>,
    pub sdp: Sdp<Sim>,
}

/// Two machines: the first one sends, the second one receives.
pub(super) struct Pair {
    pub below: paper::Cluster,
    pub sender: Machine,
    pub receiver: Machine,
}

impl Pair {
    /// Machines of so many rails, whose processors wait in this way.
    pub fn new(profile: &Profile, rails: u8, wait: Wait, options: SdpOptions) -> Result<Pair, PaperError> {
        let config = Config { devices: rails, ..Config::new(2, profile.clone()) };
        let below = paper::Cluster::new(
            config,
            |_| wait,
            |mesh| {
                mesh.max_message = options.longest_message();
                // A failover registers the buffers of the other rail: many at a time.
                mesh.chunk = 1 << 20;
            },
        )?;
        let start = |node: usize| {
            let paper::Machine { rt, mesh } = &below.machines[node];
            let sdp = Sdp::start(rt, mesh, options).map_err(refused)?;
            Ok::<_, PaperError>(Machine { rt: rt.clone(), sdp })
        };
        let (sender, receiver) = (start(0)?, start(1)?);
        Ok(Pair { below, sender, receiver })
    }

    /// How long the processors of the sender and of the receiver were busy so far. Waiting is no work, even if it spins.
    pub fn busy(&self) -> [Nanos; 2] {
        let stats = self.below.fabric.stats();
        [0, 1].map(|node| Nanos(stats.busy[node].total()))
    }
}
