//! A simulated cluster with a mesh on every node.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::sdp::message::Message;
use weft_protocols::sdp::{Sdp, SdpOptions};
use weft_protocols::transport::{Channel, Mesh, MeshConfig, Rank};
use weft_sim::choice::Seeded;
use weft_sim::fault::Fault;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, RunEnd, Sim};
use weft_verbs::{AccessFlags, AckTimeout, Context, Device, Nanos, ProtectionDomain, Retries, Verbs, Wait};

pub const STYLES: [Wait; 2] = [Wait::Poll, Wait::Notify];

/// A node's runtime and mesh, held by the test beside the node's own tasks.
#[derive(Clone)]
pub struct Member {
    pub rt: Rt<Sim>,
    pub mesh: Mesh<Sim>,
}

pub struct Cluster {
    pub fabric: Fabric,
    pub members: Vec<Member>,
    wait: Wait,
    rails: u8,
    /// The adapters' time-out, as an exponent.
    timeout: u8,
    /// The longest message; the mesh's own without one.
    max_message: Option<u32>,
    /// How many messages are kept for one peer; the mesh's own number without one.
    max_queued: Option<u32>,
    send_depth: Option<u32>,
    /// How long an acknowledgement waits for a message that carries it; the mesh's own delay without one.
    ack_delay: Option<Nanos>,
    /// What else is special of a node's mesh.
    special: fn(&mut MeshConfig),
}

pub fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

pub fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

pub fn rank(index: usize) -> Rank {
    Rank::from_index(index as u32)
}

/// Polls a call once, which waits.
pub async fn begins<T>(mut call: Pin<&mut impl Future<Output = T>>) {
    let waits = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
    assert!(waits, "the call does not wait");
}

/// All regions that the adapters of a node register beside those that it has: until they are dropped registration is refused.
pub fn all_regions(rt: &Rt<Sim>) -> Vec<<Sim as Verbs>::Mr> {
    let of_rail = |rt: Rt<Sim>| {
        let pd = rt.context().alloc_pd().expect("there is room");
        std::iter::from_fn(move || pd.alloc_mr(8, AccessFlags::LOCAL_WRITE).ok())
    };
    (0..rt.rails()).filter_map(|rail| rt.rail(rail)).flat_map(of_rail).collect()
}

/// A channel that no system has.
pub const NOBODYS: Channel = Channel(40);

/// Sends to a node that acknowledges nothing until there is no memory for a message more. All regions are taken.
pub fn use_up(member: &Member, dead: usize) -> impl Fn() + use<> {
    let mesh = member.mesh.clone();
    move || while mesh.send(rank(dead), NOBODYS, &[0]).is_ok() {}
}

/// Registers nothing more, and has no memory for a message more, from a moment to another one: what is acknowledged meanwhile is used at once.
pub async fn without_memory(member: &Member, dead: usize, from: Nanos, to: Nanos) {
    let (uses, rt) = (use_up(member, dead), member.rt.clone());
    rt.sleep_until(from).await;
    let _regions = all_regions(&rt);
    while rt.now() < to {
        uses();
        rt.sleep(us(20)).await;
    }
}

/// A message of sockets, as it is sent.
pub fn encoded(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// The sockets of a node, and its runtime.
pub fn sockets(member: &Member, options: SdpOptions) -> (Rt<Sim>, Sdp<Sim>) {
    (member.rt.clone(), Sdp::start(&member.rt, &member.mesh, options).expect("good options"))
}

/// A server that accepts one connection, and for a minute neither reads nor writes.
pub fn accepts_and_rests((rt, sdp): (Rt<Sim>, Sdp<Sim>), port: u16) {
    drop(rt.clone().spawn(async move {
        let stream = sdp.bind(port).expect("free").accept().await.expect("one comes");
        rt.sleep(Nanos::from_secs(60)).await;
        drop(stream);
    }));
}

/// Which seeds a test runs: so many, or as many as `WEFT_SEEDS` says, for a long search.
pub fn seeds(default: u64) -> std::ops::Range<u64> {
    let asked = std::env::var("WEFT_SEEDS").ok().and_then(|text| text.parse().ok());
    0..asked.unwrap_or(default)
}

impl Member {
    /// Runs something on the node at a point in time. A node that waits cannot see what a test does from
    /// outside.
    pub fn at(&self, time: Nanos, run: impl FnOnce() + 'static) {
        let sleep = self.rt.sleep_until(time);
        drop(self.rt.spawn(async move {
            sleep.await;
            run();
        }));
    }

    /// Leaves the mesh at a point in time.
    pub fn close_at(&self, time: Nanos) {
        let mesh = self.mesh.clone();
        self.at(time, move || mesh.close());
    }
}

impl Cluster {
    pub fn new(nodes: u32, seed: u64, wait: Wait) -> Cluster {
        Cluster::railed(nodes, 1, seed, wait)
    }

    /// Of nodes of several adapters.
    pub fn railed(nodes: u32, rails: u8, seed: u64, wait: Wait) -> Cluster {
        Cluster::timed(nodes, rails, seed, wait, (4, None))
    }

    /// Of nodes whose messages may be so long.
    pub fn with_messages(nodes: u32, seed: u64, wait: Wait, longest: u32) -> Cluster {
        Cluster::timed(nodes, 1, seed, wait, (4, Some(longest)))
    }

    /// Of nodes that keep no more messages for one peer than this until it has acknowledged them.
    pub fn narrow(nodes: u32, seed: u64, wait: Wait, max_queued: u32) -> Cluster {
        let mut cluster = Cluster::unmanned(nodes, 1, seed, wait);
        cluster.max_queued = Some(max_queued);
        cluster.manned()
    }

    /// The same, whose send queues have so many places.
    pub fn shallow(nodes: u32, seed: u64, wait: Wait, max_queued: u32, send_depth: u32) -> Cluster {
        let mut cluster = Cluster::unmanned(nodes, 1, seed, wait);
        (cluster.max_queued, cluster.send_depth) = (Some(max_queued), Some(send_depth));
        cluster.manned()
    }

    /// The same, of messages that may be so long.
    pub fn narrow_with_messages(nodes: u32, seed: u64, max_queued: u32, longest: u32) -> Cluster {
        let mut cluster = Cluster::unmanned(nodes, 1, seed, Wait::Poll);
        (cluster.max_queued, cluster.max_message) = (Some(max_queued), Some(longest));
        cluster.manned()
    }

    /// Of nodes whose acknowledgements wait so long for a message that carries them.
    pub fn acknowledging_late(nodes: u32, rails: u8, seed: u64, ack_delay: Nanos) -> Cluster {
        let mut cluster = Cluster::unmanned(nodes, rails, seed, Wait::Notify);
        cluster.ack_delay = Some(ack_delay);
        cluster.manned()
    }

    /// Of nodes whose meshes have something special.
    pub fn special(nodes: u32, rails: u8, seed: u64, wait: Wait, special: fn(&mut MeshConfig)) -> Cluster {
        let mut cluster = Cluster::unmanned(nodes, rails, seed, wait);
        cluster.special = special;
        cluster.manned()
    }

    /// The same where processors look at memory that peers may be about to change: nobody watches for that.
    pub fn unwatched(nodes: u32, rails: u8, seed: u64, special: fn(&mut MeshConfig)) -> Cluster {
        let mut cluster =
            Cluster::on_fabric(nodes, rails, seed, Wait::Poll, |config| config.sanitize = false);
        cluster.special = special;
        cluster.manned()
    }

    /// The same of nodes of one adapter, which registers so many regions of memory at most.
    pub fn scarce(nodes: u32, seed: u64, regions: u32, special: fn(&mut MeshConfig)) -> Cluster {
        let mut cluster = Cluster::on_fabric(nodes, 1, seed, Wait::Notify, |config| {
            config.sanitize = false;
            config.profile.adapter.max_mr = regions.into();
        });
        cluster.special = special;
        cluster.manned()
    }

    /// Of nodes whose adapters register so few regions that a test can take them all.
    pub fn of_few_regions(nodes: u32, rails: u8, seed: u64, special: fn(&mut MeshConfig)) -> Cluster {
        let mut cluster = Cluster::on_fabric(nodes, rails, seed, Wait::Poll, |config| {
            config.profile.adapter.max_mr = 40;
        });
        cluster.special = special;
        cluster.manned()
    }

    /// Of nodes whose adapters have no remote atomics.
    pub fn without_atomics(nodes: u32, seed: u64, special: fn(&mut MeshConfig)) -> Cluster {
        let mut cluster = Cluster::on_fabric(nodes, 1, seed, Wait::Notify, |config| config.atomics = false);
        cluster.special = special;
        cluster.manned()
    }

    /// Of nodes whose adapters take at least 25 ms to give a dead link up.
    pub fn slow_to_give_up(nodes: u32, rails: u8, seed: u64) -> Cluster {
        Cluster::timed(nodes, rails, seed, Wait::Poll, (11, None))
    }

    fn timed(
        nodes: u32,
        rails: u8,
        seed: u64,
        wait: Wait,
        (timeout, max_message): (u8, Option<u32>),
    ) -> Cluster {
        let mut cluster = Cluster::unmanned(nodes, rails, seed, wait);
        (cluster.timeout, cluster.max_message) = (timeout, max_message);
        cluster.manned()
    }

    /// A fabric on which nothing runs yet.
    fn unmanned(nodes: u32, rails: u8, seed: u64, wait: Wait) -> Cluster {
        Cluster::on_fabric(nodes, rails, seed, wait, |_| {})
    }

    fn on_fabric(nodes: u32, rails: u8, seed: u64, wait: Wait, change: impl FnOnce(&mut Config)) -> Cluster {
        let profile = Profile::builtin("present-day").expect("it is built in");
        let mut config = Config { devices: rails, ..Config::new(nodes, profile) };
        change(&mut config);
        let fabric = Fabric::new(config, Box::new(Seeded::new(seed))).expect("a good configuration");
        let (members, timeout) = (Vec::new(), 4);
        let (max_message, max_queued, send_depth, ack_delay) = (None, None, None, None);
        let special = |_: &mut MeshConfig| {};
        Cluster {
            fabric,
            members,
            wait,
            rails,
            timeout,
            max_message,
            max_queued,
            send_depth,
            ack_delay,
            special,
        }
    }

    fn manned(mut self) -> Cluster {
        self.members = (0..self.fabric.nodes()).map(|node| self.start(node)).collect();
        self
    }

    /// Starts a node's program; before the first one, or after a crash.
    pub fn start(&self, node: u32) -> Member {
        self.start_as(node, node)
    }

    /// The same for a node that takes itself for another one.
    pub fn start_as(&self, node: u32, me: u32) -> Member {
        let devices = self.fabric.devices(NodeId(node));
        let contexts: Vec<_> =
            devices.iter().map(|device| device.open().expect("the device opens")).collect();
        let rt = Rt::over(&contexts, RtConfig { wait: self.wait, ..RtConfig::default() }).expect("it starts");
        let mut config = config(self.fabric.nodes(), me);
        let names = |rail: u8| (0..self.fabric.nodes()).map(|n| NodeId(n).cable(rail + 1)).collect();
        config.other_rails = (1..self.rails).map(names).collect();
        config.hold_off = ms(3);
        config.max_queued = self.max_queued.unwrap_or(config.max_queued);
        config.send_depth = self.send_depth.unwrap_or(config.send_depth);
        config.max_message = self.max_message.unwrap_or(config.max_message);
        config.ack_delay = self.ack_delay.unwrap_or(config.ack_delay);
        config.timeout = AckTimeout::new(self.timeout).expect("an exponent");
        (self.special)(&mut config);
        let mesh = Mesh::start(&rt, config).expect("it starts");
        self.fabric.mount(NodeId(node), Box::new(rt.program()));
        Member { rt, mesh }
    }

    /// A node that rests does not see what a test has told it meanwhile, so each is told to look.
    pub fn run(&self, span: Nanos) -> RunEnd {
        (0..self.fabric.nodes()).for_each(|node| self.fabric.nudge(NodeId(node)));
        self.fabric.run_until(self.fabric.now() + span)
    }

    pub fn plan(&self, at: Nanos, fault: Fault) {
        self.fabric.plan(at, fault).expect("a good fault");
    }

    /// Everything has ended and nothing is leaked: connections and what they keep posted aside.
    pub fn assert_at_rest(&self, context: &str) {
        for (node, member) in self.members.iter().enumerate() {
            let mesh = member.mesh.audit();
            assert_eq!((mesh.unacked, mesh.outstanding, mesh.waiting), (0, 0, 0), "{context}: n{node}");
            let rt = member.rt.audit();
            assert_eq!(rt.sends, 0, "{context}: n{node}");
            assert_eq!(rt.slots, rt.unsignaled + rt.receives, "{context}: n{node}");
            assert_eq!(rt.tasks, 1, "{context}: n{node}: the mesh's driver alone");
            assert_eq!(rt.timers, 0, "{context}: n{node}");
        }
    }
}

/// Sizes and times that make a cut of a millisecond exhaust the adapter's retries.
pub fn config(nodes: u32, node: u32) -> MeshConfig {
    let names = (0..nodes).map(|n| format!("n{n}")).collect();
    MeshConfig {
        recv_buffers: 16,
        send_depth: 16,
        timeout: AckTimeout::new(4).expect("an exponent"),
        retry: Retries::new(2).expect("a count"),
        ack_delay: us(200),
        probe_after: ms(2),
        reconnect_min: us(100),
        reconnect_max: ms(5),
        ..MeshConfig::new(rank(node as usize), names)
    }
}

/// A small generator for the test's own decisions, apart from the world's.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}

/// Whatever a test is about, no memory may have been touched while it may not be.
impl Drop for Cluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.fabric.violations_found(), 0, "{}", self.fabric.violations()[0]);
        }
    }
}
