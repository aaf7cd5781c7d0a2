//! Planted bugs: what the explorer must find in any case, each beside the same thing without the bug.

mod counter;
mod forgetful;
mod mcs;
mod open;
mod ticket;

pub use counter::{Adding, Counter};
pub use forgetful::Forgetful;
pub use mcs::Mcs;
pub use open::Open;
pub use ticket::Tickets;

use weft_protocols::rt::Rt;
use weft_protocols::rt::sync::Signal;
use weft_protocols::transport::{Channel, Mesh};
use weft_sim::Sim;

/// A signal that every message on a channel gives, whatever it says.
fn bell(rt: &Rt<Sim>, mesh: &Mesh<Sim>, channel: Channel) -> Signal {
    let mut inbox = mesh.open(channel).expect("nobody opened it");
    let bell = Signal::new();
    let ring = bell.clone();
    rt.spawn(async move {
        while inbox.recv().await.is_some() {
            ring.notify();
        }
    });
    bell
}
