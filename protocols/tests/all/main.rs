//! The tests of the runtime, the transport and the systems on the simulated fabric.
//!
//! One binary: each further one would be linked with the fabric once more.

mod common;
mod ddss_crash;
mod ddss_lives;
mod ddss_memory;
mod ddss_named;
mod ddss_transfers;
mod ddss_waits;
mod dsm_crash;
mod dsm_crash_at_every_event;
mod dsm_dropped;
mod dsm_freed;
mod dsm_memory;
mod dsm_placed;
mod dsm_restart;
mod dsm_told;
mod lint;
mod locks;
mod members;
mod pario_dropped;
mod pario_growing;
mod pario_limits;
mod pario_memory;
mod pario_remote;
mod pario_restart;
mod sdp;
mod sdp_crash;
mod sdp_dropped;
mod sdp_failover;
mod sdp_long_buffers;
mod sdp_memory;
mod sdp_ports;
mod sdp_room;
mod sdp_tools;
mod together;
mod transport_adoption;
mod transport_atomless;
mod transport_bootstrap;
mod transport_expel;
mod transport_guests;
mod transport_messages;
mod transport_operations;
mod transport_rails;
mod transport_room;
mod transport_troubles;
