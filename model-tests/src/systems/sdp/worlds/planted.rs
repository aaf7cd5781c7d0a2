//! Clients that speak the protocol's messages by themselves, and each get one thing wrong, against the shipped server.

use super::super::PORT;
use super::super::coding::{Coding, Head, Way};
use super::super::history::{Event, What};
use super::super::oracles::SdpOracles;
use super::super::workload::Request;
use super::transfer::{BUFFERS, Kind, PAYLOAD};
use crate::harness::Recorder;
use crate::history::RequestId;
use crate::polled::polled;
use crate::record::Record;
use std::pin::pin;
use weft_protocols::rt::{BufferGuard, Label, Rt};
use weft_protocols::sdp::CHANNEL;
use weft_protocols::sdp::message::{Greeting, Handle, Header, Message};
use weft_protocols::transport::{Incoming, Mesh, Rank};
use weft_sim::Sim;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Verbs};

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

/// How much of an answer a client wants into its memory, and what it has there next.
const ANSWER: usize = 64;
const OTHER: [u8; ANSWER] = [1; ANSWER];

/// Sends what follows the head of a request.
fn body(
    kind: Kind,
    rt: &Rt<Sim>,
    end: &mut End,
    id: RequestId,
    len: u32,
    memory: &mut Option<<Sim as Verbs>::Mr>,
) {
    let mut bytes = vec![0; len as usize];
    Coding::of(id, Way::There).fill(Head::LEN.into(), &mut bytes);
    match kind {
        Kind::ReusesSource | Kind::RecallsBlindly | Kind::CancelsUnrevoked => {
            let access = AccessFlags::LOCAL_WRITE.union(AccessFlags::REMOTE_READ);
            let mr = memory.insert(end.mesh.alloc(bytes.len(), access).expect("a few bytes"));
            end.mesh.label(mr, 0..bytes.len(), Label::new("the source")).keep();
            mr.write(0, &bytes).expect("they fit");
            let source = mr.remote(0..bytes.len()).expect("all of it");
            end.send(&Message::SrcAvail { header: end.header(), source });
            end.sent += u64::from(len);
            if kind == Kind::RecallsBlindly {
                end.send(&Message::SrcAvailCancel { header: end.header() });
            }
            if kind == Kind::CancelsUnrevoked {
                // The reading of the thesis: a broken connection has cancelled what was advertised over it. The server knows nothing of
                // that, and reads it over the next one.
                let (mr, mesh) = (mr.clone(), end.mesh.clone());
                drop(rt.spawn(async move {
                    mesh.resumed().await;
                    mr.write(0, &vec![0; mr.len()]).expect("they fit");
                }));
                return;
            }
            // The bug of the third: the message is sent, and it takes that for the end of the transfer. Or it takes its cancel
            // for the end of it.
            mr.write(0, &vec![0; bytes.len()]).expect("they fit");
        }
        Kind::RefillsEarly => {
            let access = AccessFlags::LOCAL_WRITE.union(AccessFlags::REMOTE_WRITE);
            let mr = memory.insert(end.mesh.alloc(ANSWER, access).expect("a few bytes"));
            let sink = mr.remote(0..ANSWER).expect("all of it");
            end.mesh.label(mr, 0..ANSWER, Label::new("the sink")).keep();
            end.send(&Message::SinkAvail { header: end.header(), start: 0, sink });
            end.send(&Message::SinkAvailCancel { header: end.header() });
            // The bug of one more: the server may be writing there, and it fills its memory with something else.
            mr.write(0, &OTHER).expect("it fits");
        }
        Kind::UsesVoidSink => {
            let first = &bytes[..PAYLOAD as usize];
            end.send(&Message::Data { header: end.header(), bytes: first });
            end.sent += u64::from(PAYLOAD);
        }
        _ => {}
    }
}

impl End {
    /// Writes where the server wants the rest of a request.
    async fn write_there(&self, kind: Kind, sink: RemoteSlice, rest: &[u8]) {
        let mr = self.mesh.alloc(rest.len(), AccessFlags::LOCAL_WRITE).expect("a few bytes");
        self.mesh.label(&mr, 0..rest.len(), Label::new("the source")).keep();
        mr.write(0, rest).expect("they fit");
        loop {
            let guard = BufferGuard::Range { mr: mr.clone(), at: 0, len: rest.len() as u32 };
            if self.mesh.write_from(self.server, sink, guard).await.is_ok() {
                return;
            }
            if kind == Kind::ReturnsOnError {
                // The bug: the user is told of an error, and has the buffer back. The stream goes on all the same.
                mr.write(0, &vec![0; rest.len()]).expect("they fit");
            }
            let _ = self.mesh.resolve_outcomes(self.server).await;
        }
    }

    /// Reads the server's answer into memory that its user wants back meanwhile.
    async fn read_and_deregister(&self, source: RemoteSlice, memory: &<Sim as Verbs>::Mr) -> Vec<u8> {
        let guard = BufferGuard::Range { mr: memory.clone(), at: 0, len: source.len };
        let mut reads = pin!(self.mesh.read_into(self.server, source, guard));
        let begun = polled(reads.as_mut()).await;
        // The bug: the adapter's work with it has not ended, so the registration does not either; and its user has it back.
        let _ = memory.deregister();
        memory.write(0, &OTHER).expect("it fits");
        if begun.is_pending() {
            // Right is to fence first, and to await this before anything else.
            let _ = reads.await;
            self.mesh.suspect(self.server);
        }
        let mut answer = vec![0; source.len as usize];
        while self.mesh.read(self.server, source, &mut answer).await.is_err() {}
        answer
    }
}

/// Makes a request, and reads its answer.
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
    let greeting = Greeting { from: Handle::default(), buffers: BUFFERS, buffer_bytes: PAYLOAD, adverts: 2 };
    end.send(&Message::Hello { id: 1, port: PORT, from_port: 1, greeting });
    let (mut answer, mut forgotten, mut memory) = (Vec::new(), false, None);
    while let Some(incoming) = inbox.recv().await {
        let Incoming::Message(received) = incoming else { continue };
        match Message::decode(received.bytes()).expect("the server speaks the protocol") {
            Message::HelloAck { greeting, .. } => {
                end.peer = greeting.from;
                let head = Head { request: id, bytes, reply }.encode();
                end.send(&Message::Data { header: end.header(), bytes: &head });
                end.sent += head.len() as u64;
                body(kind, &rt, &mut end, id, bytes - Head::LEN, &mut memory);
                if !matches!(kind, Kind::UsesVoidSink | Kind::RecallsBlindly | Kind::ReturnsOnError) {
                    end.send(&Message::DisConn { header: end.header() });
                    end.sent += 1;
                }
                // The bug of one: it takes its own end for the stream's.
                forgotten = kind == Kind::ForgetsEnd;
            }
            _ if forgotten => {}
            // What was not read goes as data.
            Message::SendSm { header } => {
                end.taken += 1;
                let mut rest = vec![0; (end.sent - header.acked) as usize];
                Coding::of(id, Way::There).fill(header.acked, &mut rest);
                end.sent = header.acked;
                for bytes in rest.chunks(PAYLOAD as usize) {
                    end.send(&Message::Data { header: end.header(), bytes });
                    end.sent += bytes.len() as u64;
                }
                end.send(&Message::DisConn { header: end.header() });
                end.sent += 1;
            }
            Message::SinkAvail { sink, .. } => {
                end.taken += 1;
                // The bug of the fourth: what it has sent meanwhile voids the range, whose buffer has another use by now.
                let Some(left) = u64::from(bytes).checked_sub(end.sent).filter(|left| *left > 0) else {
                    continue;
                };
                let at = end.sent - u64::from(Head::LEN);
                let mut rest = vec![0; left as usize];
                Coding::of(id, Way::There).fill(u64::from(Head::LEN) + at, &mut rest);
                let sink = sink.slice(0..left as u32).expect("it takes the rest");
                end.write_there(kind, sink, &rest).await;
                end.send(&Message::RdmaWrCompl { header: end.header(), len: left as u32 });
                end.sent += left;
                end.send(&Message::DisConn { header: end.header() });
                end.sent += 1;
            }
            Message::SrcAvail { source, .. } => {
                end.taken += 1;
                let mr = end.mesh.alloc(ANSWER, AccessFlags::LOCAL_WRITE).expect("a few bytes");
                end.mesh.label(&mr, 0..ANSWER, Label::new("the buffer")).keep();
                let mr = memory.insert(mr);
                answer.extend(end.read_and_deregister(source, mr).await);
                end.received += u64::from(source.len);
                end.send(&Message::RdmaRdCompl { header: end.header(), len: source.len });
            }
            Message::RdmaWrCompl { len, .. } => {
                let mut bytes = vec![0; len as usize];
                memory.as_ref().expect("it gave some").read(0, &mut bytes).expect("it fits");
                answer.extend_from_slice(&bytes);
                end.received += u64::from(len);
                end.taken += 1;
            }
            Message::SinkCancelAck { .. } => end.taken += 1,
            // Without the credit the server could not answer.
            Message::RdmaRdCompl { .. } if kind == Kind::CancelsUnrevoked => {
                end.taken += 1;
                end.send(&Message::Data { header: end.header(), bytes: &[] });
            }
            Message::Data { bytes, .. } => {
                answer.extend_from_slice(bytes);
                end.received += bytes.len() as u64;
                if bytes.is_empty() {
                    continue;
                }
                end.taken += 1;
                // The bug of the other: who writes no more has nothing to send, not even credits.
                if kind != Kind::KeepsCredits && end.taken.is_multiple_of(2) {
                    end.send(&Message::Data { header: end.header(), bytes: &[] });
                }
            }
            Message::DisConn { .. } => {
                end.received += 1;
                end.send(&Message::Data { header: end.header(), bytes: &[] });
                let mut intact = Coding::of(id, Way::Back).is_at(0, &answer);
                if matches!(kind, Kind::RefillsEarly | Kind::DeregistersFirst) {
                    let mut other = [0; ANSWER];
                    memory.as_ref().expect("it gave some").read(0, &mut other).expect("it fits");
                    intact &= other == OTHER;
                }
                happens(What::Answered { bytes: answer.len() as u32, intact, stall_ns: 0 });
                return;
            }
            _ => {}
        }
    }
}
