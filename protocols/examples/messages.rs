//! A protocol of one's own on the transport: messages, and an atomic on a peer's memory.
//!
//! Node 0 tells node 1 where its counter is. Node 1 adds to it with its own adapter and says so. Connections are made when
//! they are needed, and again if they break; neither task knows of them.
//!
//! `cargo run -p weft-protocols --example messages`

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Channel, Incoming, Mesh, MeshConfig, Rank};
use weft_sim::choice::Seeded;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim};
use weft_verbs::{AccessFlags, Device, MemoryRegion, Nanos, RemoteSlice, Verbs};

/// Every protocol of a node has a channel of its own.
const CHANNEL: Channel = Channel(7);

/// Says where the counter is, and looks at it when the peer has added to it.
async fn publish<V: Verbs>(
    mesh: Mesh<V>,
    peer: Rank,
    seen: Rc<Cell<Option<u64>>>,
) -> Result<(), Box<dyn Error>> {
    let mut inbox = mesh.open(CHANNEL)?;
    let counter = mesh.alloc(8, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC)?;
    let at = counter.remote(0..8)?;
    mesh.send(peer, CHANNEL, &[at.addr.to_be_bytes(), u64::from(at.rkey).to_be_bytes()].concat())?;
    if let Some(Incoming::Message(_)) = inbox.recv().await {
        // The peer's atomic has ended, and nobody else does any: a load would not go with one that is under way.
        seen.set(Some(counter.load(0)?));
    }
    Ok(())
}

/// Adds to the counter of which the peer tells, and says so.
async fn add<V: Verbs>(mesh: Mesh<V>, number: u64) -> Result<(), Box<dyn Error>> {
    let mut inbox = mesh.open(CHANNEL)?;
    if let Some(Incoming::Message(message)) = inbox.recv().await {
        let (addr, rkey) = message.split_at(8);
        let [addr, rkey] = [addr, rkey].map(|word| u64::from_be_bytes(word.try_into().expect("8 bytes")));
        let at = RemoteSlice { addr, rkey: rkey as u32, len: 8 };
        // An error would say whether the peer's word may have changed; see `OpError`.
        mesh.fetch_add(message.from(), at, number).await?;
        mesh.send(message.from(), CHANNEL, b"added")?;
    }
    Ok(())
}

/// Runs both tasks on a simulated fabric of two nodes, and gives back what node 0 has seen.
fn run(number: u64) -> Result<Option<u64>, Box<dyn Error>> {
    let profile = Profile::builtin("present-day")?;
    let fabric = Fabric::new(Config::new(2, profile), Box::new(Seeded::new(1)))?;
    let names = vec!["n0".to_owned(), "n1".to_owned()];
    let seen = Rc::new(Cell::new(None));
    for node in 0..2 {
        let rt = Rt::<Sim>::new(&fabric.devices(NodeId(node))[0].open()?, RtConfig::default())?;
        let mesh = Mesh::start(&rt, MeshConfig::new(Rank::from_index(node), names.clone()))?;
        match node {
            0 => drop(rt.spawn(publish(mesh, Rank::from_index(1), Rc::clone(&seen)))),
            _ => drop(rt.spawn(add(mesh, number))),
        }
        fabric.mount(NodeId(node), Box::new(rt.program()));
    }
    fabric.run_until(Nanos::from_millis(100));
    Ok(seen.get())
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("the counter is {:?}", run(5)?);
    Ok(())
}

#[test]
fn the_peer_s_addition_is_seen() {
    assert_eq!(run(5).expect("a good configuration"), Some(5));
}
