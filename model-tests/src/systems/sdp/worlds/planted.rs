//! Clients that speak the protocol's messages by themselves, and each get one thing wrong, against the shipped server.

use super::super::PORT;
use super::super::coding::{Coding, Head, Way};
use super::super::history::{Event, What};
use super::super::oracles::SdpOracles;
use super::super::workload::Request;
use super::transfer::{BUFFERS, Kind, PAYLOAD};
use crate::harness::Recorder;
use crate::history::RequestId;
use crate::record::Record;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::CHANNEL;
use weft_protocols::sdp::message::{Greeting, Handle, Header, Message};
use weft_protocols::transport::{Incoming, Mesh, Rank};
use weft_sim::Sim;

/// One end of a stream, as a careless hand would write it: what it has sent and received, and nothing else.
struct End {
    mesh: Mesh<Sim>,
    server: Rank,
    peer: Handle,
    sent: u64,
    received: u64,
    /// Messages that it has taken.
    taken: u32,
}

impl End {
    fn header(&self) -> Header {
        Header { to: self.peer, grant: BUFFERS + self.taken, acked: self.received, at: self.sent }
    }

    fn send(&self, message: &Message<'_>) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.mesh.send(self.server, CHANNEL, &bytes).expect("few messages, and short");
    }
}

/// Makes a request that fits into one message, and reads its answer.
pub(super) async fn client(
    kind: Kind,
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    id: RequestId,
    Request { to, bytes, reply }: Request,
    recorder: Recorder<SdpOracles>,
) {
    let happens = |what| recorder.record(Event { at_ns: rt.now().0, node: 0, request: id, what });
    happens(What::Asks { to, bytes, reply });
    let mut inbox = mesh.open(CHANNEL).expect("nobody else opens it");
    let server = Rank::from_index(to);
    let mut end = End { mesh, server, peer: Handle::default(), sent: 0, received: 0, taken: 0 };
    let greeting = Greeting { from: Handle::default(), buffers: BUFFERS, buffer_bytes: PAYLOAD };
    end.send(&Message::Hello { id: 1, port: PORT, from_port: 1, greeting });
    let (mut answer, mut forgotten) = (Vec::new(), false);
    while let Some(incoming) = inbox.recv().await {
        let Incoming::Message(received) = incoming else { continue };
        match Message::decode(received.bytes()).expect("the server speaks the protocol") {
            Message::HelloAck { greeting, .. } => {
                end.peer = greeting.from;
                let head = Head { request: id, bytes, reply }.encode();
                end.send(&Message::Data { header: end.header(), bytes: &head });
                end.sent += head.len() as u64;
                end.send(&Message::DisConn { header: end.header() });
                end.sent += 1;
                // The bug of one: it takes its own end for the stream's.
                forgotten = kind == Kind::ForgetsEnd;
            }
            _ if forgotten => {}
            Message::Data { bytes, .. } => {
                answer.extend_from_slice(bytes);
                end.received += bytes.len() as u64;
                end.taken += 1;
                // The bug of the other: who writes no more has nothing to send, not even credits.
                if kind != Kind::KeepsCredits && end.taken.is_multiple_of(2) {
                    end.send(&Message::Data { header: end.header(), bytes: &[] });
                }
            }
            Message::DisConn { .. } => {
                end.received += 1;
                end.send(&Message::Data { header: end.header(), bytes: &[] });
                let intact = Coding::of(id, Way::Back).is_at(0, &answer);
                happens(What::Answered { bytes: answer.len() as u32, intact });
                return;
            }
            _ => {}
        }
    }
}
