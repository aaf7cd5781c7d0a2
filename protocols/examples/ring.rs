//! How fast messages are through the whole stack: tasks, sessions, credits, queue pairs, the simulated fabric.
//!
//! Every node starts with a window of messages and passes on each that it receives to the next node.
//!
//! `cargo run --release -p protocols --example ring [NODES [MESSAGES [WINDOW [sanitize]]]]`

use protocols::rt::{Rt, RtConfig};
use protocols::transport::{Channel, Incoming, Mesh, MeshConfig, Rank};
use sim_backend::choice::First;
use sim_backend::profile::Profile;
use sim_backend::{Config, Fabric, NodeId, Order, Sim};
use std::cell::Cell;
use std::rc::Rc;
use verbs_trait::{Device, Nanos, Wait};

const CHANNEL: Channel = Channel(0);

fn station(fabric: &Fabric, names: &[String], node: u32, window: u32, left: &Rc<Cell<u64>>) -> Mesh<Sim> {
    let ctx = fabric.devices(NodeId(node))[0].open().expect("a device");
    let rt = Rt::new(&ctx, RtConfig { wait: Wait::Poll, ..RtConfig::default() }).expect("a runtime");
    let config = MeshConfig {
        recv_buffers: 4 * window,
        send_depth: 8 * window,
        ack_delay: Nanos::MAX,
        probe_after: Nanos::MAX,
        ..MeshConfig::new(Rank::from_index(node), names.to_vec())
    };
    let mesh: Mesh<Sim> = Mesh::start(&rt, config).expect("a mesh");
    let mut inbox = mesh.open(CHANNEL).expect("an inbox");
    let next = Rank::from_index((node + 1) % names.len() as u32);
    let (own, own_rt, left) = (mesh.clone(), rt.clone(), Rc::clone(left));
    drop(rt.spawn(async move {
        for _ in 0..window {
            own.send(next, CHANNEL, &[7; 32]).expect("room");
        }
        while let Some(Incoming::Message(message)) = inbox.recv().await {
            left.set(left.get().saturating_sub(1));
            if left.get() == 0 {
                own_rt.shutdown();
                return;
            }
            own.send(next, CHANNEL, &message).expect("room");
        }
    }));
    fabric.mount(NodeId(node), Box::new(rt.program()));
    mesh
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| args.next().map_or(default, |text| text.parse().expect("a number"));
    let (nodes, messages, window) = (number(16) as u32, number(2_000_000), number(32) as u32);
    let profile = Profile::builtin("present-day").expect("a profile");
    let mut config = Config::new(nodes, profile);
    config.order = Order::Fifo;
    config.sanitize = args.next().is_some_and(|text| text == "sanitize");
    let fabric = Fabric::new(config, Box::new(First)).expect("a fabric");
    let names: Vec<String> = (0..nodes).map(|n| format!("n{n}")).collect();
    let left = Rc::new(Cell::new(messages));
    let meshes: Vec<_> = (0..nodes).map(|node| station(&fabric, &names, node, window, &left)).collect();
    let begun = std::time::Instant::now();
    fabric.run_until(Nanos::from_secs(1_000));
    let took = begun.elapsed().as_secs_f64();
    let control: u64 = meshes.iter().map(|mesh| mesh.stats().control_frames).sum();
    println!(
        "{nodes} nodes, window {window}: {messages} messages and {control} control frames in {took:.3} s: \
         {:.0} messages a second; virtual time {}, {} events, {} steps",
        messages as f64 / took,
        fabric.now(),
        fabric.stats().events,
        fabric.stats().steps,
    );
}
