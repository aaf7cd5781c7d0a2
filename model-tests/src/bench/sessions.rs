//! The ring's nodes as tasks on the transport: sessions, credits, acknowledgements.

use super::BenchError;
use super::ring::{Ring, Tally};
use std::rc::Rc;
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, MeshConfig, Rank};
use weft_sim::{Fabric, NodeId, Sim};
use weft_verbs::{Device, Nanos, Wait};

const CHANNEL: Channel = Channel(0);

/// The longest message that a session of the ring carries.
pub(super) const LONGEST: u64 = 1_024;

/// Starts a task on every node. Connections are made when the first messages want them.
pub(super) fn start(ring: &Ring, fabric: &Fabric, tally: &Rc<Tally>) -> Result<Vec<Mesh<Sim>>, BenchError> {
    let names: Vec<String> = (0..ring.nodes).map(|node| NodeId(node).to_string()).collect();
    (0..ring.nodes).map(|node| station(ring, fabric, &names, node, tally)).collect()
}

fn station(
    ring: &Ring,
    fabric: &Fabric,
    names: &[String],
    node: u32,
    tally: &Rc<Tally>,
) -> Result<Mesh<Sim>, BenchError> {
    let ctx = fabric.devices(NodeId(node))[0].open().map_err(BenchError::cluster)?;
    let config = RtConfig { wait: Wait::Poll, ..RtConfig::default() };
    let rt = Rt::<Sim>::new(&ctx, config).map_err(BenchError::cluster)?;
    let config = MeshConfig {
        max_message: LONGEST as u32,
        recv_buffers: (4 * ring.window).max(8),
        send_depth: 8 * ring.window,
        // Timers that would keep a ring awake that has run dry.
        ack_delay: Nanos::MAX,
        probe_after: Nanos::MAX,
        ..MeshConfig::new(Rank::from_index(node), names.to_vec())
    };
    let mesh = Mesh::start(&rt, config).map_err(BenchError::cluster)?;
    let inbox = mesh.open(CHANNEL).map_err(BenchError::cluster)?;
    let next = Rank::from_index((node + 1) % ring.nodes);
    let task = pass_on(mesh.clone(), inbox, next, (ring.window, ring.bytes), Rc::clone(tally));
    drop(rt.spawn(task));
    fabric.mount(NodeId(node), Box::new(rt.program()));
    Ok(mesh)
}

/// Passes messages on until enough have arrived, or until one cannot be sent.
async fn pass_on(
    mesh: Mesh<Sim>,
    mut inbox: Inbox,
    next: Rank,
    (window, bytes): (u32, u32),
    tally: Rc<Tally>,
) -> Option<()> {
    let content = vec![7; bytes as usize];
    for _ in 0..window {
        mesh.send(next, CHANNEL, &content).ok()?;
    }
    while let Some(Incoming::Message(message)) = inbox.recv().await {
        tally.add(1);
        if tally.is_full() {
            break;
        }
        mesh.send(next, CHANNEL, message.bytes()).ok()?;
    }
    Some(())
}
