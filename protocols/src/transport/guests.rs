//! Guests: peers that are known by their session alone, come and go, and share one receive queue.
//!
//! Servers are named peers of each other. Who only uses them is a **guest**: it knows the servers' names, and they know nothing of it
//! until it asks. What a mesh is between peers ([`session`](super::session), [`link`](super::link)) holds between a guest and its server;
//! three things differ.
//!
//! - **Asking.** The guest asks, again and again if need be, and the server answers: it has no address to ask at. A guest that has
//!   something at the server ([`Mesh::hold`]) asks even if it has nothing to say, since the server may have.
//! - **Visits.** A server knows a guest by the session that it says. One that it does not know begins a *visit*, with a number that no
//!   other has, and that number is what the guest takes for the server's incarnation. So if a guest was forgotten, or the server
//!   began anew, the guest finds another incarnation of its server, and learns that all that came before is lost
//!   ([`Incoming::PeerReset`](super::Incoming::PeerReset)).
//! - **The lease.** Of a guest that is silent for longer than its lease, or that says farewell ([`Mesh::leave`]), its server keeps nothing.
//!   Its connection is fenced and drained first, and only then is anybody told: what it could reach is given to nobody before.
//!   Then its place, and the rank by which this server calls it, is free for another guest, which is to the systems what a new incarnation
//!   is of a named peer.
//!
//! | module | idea |
//! |---|---|
//! | `guest_slots` | whose are the buffers of the shared queue: a state machine without I/O |
//! | `guest_host` | what the mesh's one task does for guests |
//! | `guest_leases` | leases at the server's end |
//! | `guest_visits` | the guest's end: what it has at servers, signs of life, farewell |
//!
//! docs/internals.md says what a guest may rely on.

use super::wire::Hello;
use super::{Channel, MeshConfig, TransportError};
use weft_verbs::{Caps, DeviceAttr, Nanos};

/// The channel on which a guest says farewell.
pub(super) const FAREWELL: Channel = Channel(253);

/// How a node takes guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestConfig {
    /// Guests at a time, at most; others are refused until one has gone. Default: 4,096.
    pub most: u32,
    /// Receive buffers that all guests share beside the two that each has of its own. Default: 256, as many as four named peers have.
    pub common: u32,
    /// How long a guest may be silent. Default: 10 s, PVFS2's time-out of a client's job; at most 65 s. [`Nanos::MAX`] for ever.
    pub lease: Nanos,
    /// Most requests outstanding on the connection to one guest. At least 4. Default: 32, a unit of 64 pieces in two parts.
    pub send_depth: u32,
}

impl Default for GuestConfig {
    fn default() -> GuestConfig {
        GuestConfig { most: 4_096, common: 256, lease: Nanos::from_secs(10), send_depth: 32 }
    }
}

impl GuestConfig {
    /// The lease as guests are told it, in milliseconds; 0 for ever.
    pub(super) fn lease_told(&self) -> u16 {
        if self.lease == Nanos::MAX { 0 } else { (self.lease.0 / 1_000_000).clamp(1, 65_535) as u16 }
    }
}

/// The lease that a server tells.
pub(super) fn told_lease(hello: &Hello) -> Nanos {
    if hello.lease == 0 { Nanos::MAX } else { Nanos::from_millis(hello.lease.into()) }
}

/// Refuses what cannot work with guests.
pub(super) fn check(config: &MeshConfig, device: &DeviceAttr) -> Result<(), TransportError> {
    let refuse = |field: &'static str, value: u64, must| Err(TransportError::Config { field, value, must });
    if !config.other_rails.is_empty() {
        return refuse("other_rails", config.other_rails.len() as u64, "none where there are guests");
    }
    let Some(guests) = config.guests else { return Ok(()) };
    if guests.most == 0 || guests.most > 1 << 20 {
        return refuse("guests.most", guests.most.into(), "from 1 to 1,048,576");
    }
    if guests.send_depth < 4 || guests.send_depth >= device.max_qp_wr {
        return refuse(
            "guests.send_depth",
            guests.send_depth.into(),
            "at least 4, and less than the device's",
        );
    }
    if guests.lease < Nanos::from_millis(1)
        || guests.lease > Nanos::from_secs(65) && guests.lease != Nanos::MAX
    {
        return refuse("guests.lease", guests.lease.0, "from 1 ms to 65 s, or for ever");
    }
    if !device.caps.contains(Caps::SRQ | Caps::QP_EVENTS) {
        return refuse("guests", 0, "none on a device without shared receive queues and their events");
    }
    Ok(())
}
