//! A protocol of one's own on real devices: the node with number 0 answers, each other one asks once and says how long that took.
//!
//! On each machine, with the addresses of all in the same order:
//!
//! `cargo run --release -p weft-hw --features ibverbs --example messages -- NUMBER ADDRESS ADDRESS...`
//!
//! The two tasks know of no device: `weft-protocols` has an example of that name whose tasks run on the simulated fabric, and these would as well.

use std::cell::Cell;
use std::error::Error;
use std::net::IpAddr;
use std::rc::Rc;
use weft_hw::{Driver, Hw, HwDevice};
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Channel, Incoming, Mesh, MeshConfig, Rank};
use weft_verbs::{Device, Verbs, Wait};

/// Every protocol of a node has a channel of its own.
const CHANNEL: Channel = Channel(7);

/// Answers whoever asks.
async fn answer<V: Verbs>(mesh: Mesh<V>) -> Result<(), Box<dyn Error>> {
    let mut inbox = mesh.open(CHANNEL)?;
    while let Some(incoming) = inbox.recv().await {
        if let Incoming::Message(message) = incoming {
            mesh.room(message.from()).await?;
            mesh.send(message.from(), CHANNEL, &message)?;
        }
    }
    Ok(())
}

/// Asks the first node, and waits for the answer.
async fn ask<V: Verbs>(rt: Rt<V>, mesh: Mesh<V>) -> Result<(), Box<dyn Error>> {
    let mut inbox = mesh.open(CHANNEL)?;
    let began = rt.now();
    mesh.send(Rank::from_index(0), CHANNEL, b"is anybody there?")?;
    if let Some(Incoming::Message(_)) = inbox.recv().await {
        println!("answered after {}, the connection included", rt.now() - began);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let me: u32 = words.next().ok_or("say this node's number, and the addresses of all")?.parse()?;
    let addresses = words.map(|word| word.parse()).collect::<Result<Vec<IpAddr>, _>>()?;
    let device = HwDevice::find(None)?.ok_or("there is no RDMA device")?;
    let context = device.open()?;
    let names: Vec<String> = (0..addresses.len()).map(|node| format!("n{node}")).collect();
    for (name, address) in names.iter().zip(addresses) {
        context.name_peer(name, address);
    }
    let rt = Rt::<Hw>::new(&context, RtConfig { wait: Wait::Notify, ..RtConfig::default() })?;
    let mesh = Mesh::start(&rt, MeshConfig::new(Rank::from_index(me), names))?;
    let ended = Rc::new(Cell::new(false));
    let (ends, clock) = (Rc::clone(&ended), rt.clone());
    drop(rt.spawn(async move {
        let done = if me == 0 { answer(mesh).await } else { ask(clock, mesh).await };
        if let Err(why) = done {
            eprintln!("{why}");
        }
        ends.set(true);
    }));
    // The same steps that the simulator makes; it sleeps until the device has something.
    Driver::new(&[context])?.run(&mut rt.program(), || ended.get());
    Ok(())
}
