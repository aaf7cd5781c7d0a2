//! What a user may choose of a stream.

use super::SdpError;
use super::credits::LEAST_BUFFERS;
use super::message::{HEADER_LEN, LONGEST_CONTROL};
use crate::transport::Mesh;
use weft_verbs::{Nanos, Verbs};

/// What a stream does when its connection goes over to another rail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failover {
    /// It goes on: its user sees a pause.
    #[default]
    Transparent,
    /// It fails with [`AddressChanged`](SdpError::AddressChanged), which says how much the peer is known to have, and its user connects
    /// again (the thesis's sockets over a bonded interface).
    Application,
}

/// How the bytes of one direction of a stream may come to their reader (annex A4's modes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Through private buffers only.
    Buffered,
    /// Or advertised by the writer, one range at a time.
    Combined,
    /// Or advertised by the writer or wanted by the reader, several ranges at a time.
    #[default]
    Pipelined,
}

/// The options of streams: those of a node's service, of a listener, or of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdpOptions {
    /// Private receive buffers of a stream, in messages: the credits of its peer. At least 4. Default: 16.
    pub buffers: u32,
    /// How many bytes of data a private buffer takes. The mesh must carry messages of so much and [`HEADER_LEN`](super::message::HEADER_LEN)
    /// (`MeshConfig::max_message`). Default: 8,192.
    pub buffer_bytes: u32,
    /// Owned buffers with more bytes than this go by ZCopy; 0 disables it. Default: 65,536, as in OFED.
    pub zcopy_threshold: u32,
    /// Advertisements of one stream and direction that may be open at a time, 1 to 64: the depth of the pipeline. Default: 4.
    pub zcopy_depth: u32,
    /// Connections that wait to be accepted; one more is refused. Default: 128, as in Linux before 5.4.
    pub backlog: u32,
    /// How long a call of [`connect`](super::Sdp::connect) waits. Default: 30 s.
    pub connect_timeout: Option<Nanos>,
    /// How long a read waits. Default: for ever.
    pub read_timeout: Option<Nanos>,
    /// How long a write waits. Default: for ever.
    pub write_timeout: Option<Nanos>,
    /// How long [`close`](super::SdpStream::close) waits until the peer has received everything; then it aborts. Default: 30 s.
    pub linger: Option<Nanos>,
    /// How long messages to a peer may go unacknowledged, or nothing be heard of it while something is open with it, until the stream
    /// fails with `TimedOut`: each of its own options, also one that has nothing open itself, and also if other streams or systems of the node
    /// have it. At least twice the mesh's delay of acknowledgements, and as long as the link takes for 16 MiB: a part of a buffer each
    /// way. [`Nanos::MAX`] for ever. Default: 30 s.
    pub give_up: Nanos,
    /// How long a connection that is to go over to another rail as planned may take: for a trial of the rail, and then for the move, during
    /// which streams pause. At least as long as the link takes for 8 MiB of each stream that moves a buffer at the time: a move waits for
    /// the parts of buffers that are under way. Default: 1 s.
    pub move_timeout: Option<Nanos>,
    /// What a stream does when its connection goes over to another rail. Default: it goes on.
    pub failover: Failover,
    /// Within how long a dead link is found by probes, while something is open with the peer; at least six times the mesh's delay of
    /// acknowledgements, and as long as the link takes for 6 MiB: a third of it for the part of a buffer that goes each way, of 1 MiB. It holds
    /// for all streams of a node. Default: not at all, and it is found by ports and adapters.
    pub probe: Option<Nanos>,
    /// How long nothing may be heard of a peer until it is asked whether it is there, though nothing is open with it. Of several streams
    /// with it the shortest counts. Default: for ever.
    pub keepalive: Option<Nanos>,
}

impl Default for SdpOptions {
    fn default() -> SdpOptions {
        let half_a_minute = Nanos::from_secs(30);
        SdpOptions {
            buffers: 16,
            buffer_bytes: 8_192,
            zcopy_threshold: 65_536,
            zcopy_depth: 4,
            backlog: 128,
            connect_timeout: Some(half_a_minute),
            read_timeout: None,
            write_timeout: None,
            linger: Some(half_a_minute),
            give_up: half_a_minute,
            move_timeout: Some(Nanos::from_secs(1)),
            failover: Failover::Transparent,
            probe: None,
            keepalive: None,
        }
    }
}

impl SdpOptions {
    /// No time-outs at all: for worlds that are explored, where each is one more event.
    #[must_use]
    pub fn without_timeouts(self) -> SdpOptions {
        SdpOptions {
            connect_timeout: None,
            read_timeout: None,
            write_timeout: None,
            linger: None,
            give_up: Nanos::MAX,
            move_timeout: None,
            probe: None,
            keepalive: None,
            ..self
        }
    }

    /// The longest message of such a stream, in bytes: what the mesh must carry.
    pub fn longest_message(&self) -> u32 {
        self.buffer_bytes.saturating_add(HEADER_LEN).max(LONGEST_CONTROL)
    }

    /// Refuses what cannot work on a mesh.
    pub(super) fn check<V: Verbs>(&self, mesh: &Mesh<V>) -> Result<(), SdpError> {
        self.check_for(mesh.max_message(), mesh.ack_delay())
    }

    /// The same on a mesh that carries messages of `max_message` bytes, and acknowledges what has come within `ack_delay`.
    fn check_for(&self, max_message: u32, ack_delay: Nanos) -> Result<(), SdpError> {
        let refuse = |field, value: u32, must| Err(SdpError::Options { field, value: value.into(), must });
        if self.buffers < LEAST_BUFFERS || self.buffers > 1 << 20 {
            return refuse("buffers", self.buffers, "from 4 to 1,048,576");
        }
        if max_message < LONGEST_CONTROL {
            return refuse("the mesh's max_message", max_message, "56 at least");
        }
        if self.buffer_bytes == 0 || self.longest_message() > max_message {
            return refuse("buffer_bytes", self.buffer_bytes, "at least 1, and what the mesh carries");
        }
        if !(1..=64).contains(&self.zcopy_depth) {
            return refuse("zcopy_depth", self.zcopy_depth, "from 1 to 64");
        }
        if self.probe == Some(Nanos::ZERO) || self.keepalive == Some(Nanos::ZERO) {
            return refuse("probe or keepalive", 0, "more than zero");
        }
        // A message that has arrived may not be acknowledged before that, and a peer that lives would be given up.
        if self.give_up < ack_delay * 2 {
            let must = "in nanoseconds at least twice the mesh's delay of acknowledgements";
            return Err(SdpError::Options { field: "give_up", value: self.give_up.0, must });
        }
        if self.backlog == 0 {
            return refuse("backlog", 0, "at least 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first stream would end at its first control message, and nobody would say why.
    #[test]
    fn sockets_are_refused_by_a_mesh_that_cannot_carry_each_of_their_messages() {
        let options = SdpOptions { buffer_bytes: 16, ..SdpOptions::default() };
        let refused = |options: SdpOptions, longest| options.check_for(longest, Nanos::ZERO).is_err();
        assert!(refused(options, LONGEST_CONTROL - 1) && !refused(options, LONGEST_CONTROL));
        let longest = SdpOptions::default().longest_message();
        assert!(refused(SdpOptions::default(), longest - 1) && !refused(SdpOptions::default(), longest));
    }
}
