//! What a client does: it writes a request on a stream, and reads the answer.

use super::coding::{Coding, Head, Way};
use super::history::{Event, What, Why};
use super::moves::{Mover, Read};
use super::workload::{Request, SdpWork};
use super::{PORT, Service};
use crate::history::RequestId;
use crate::record::Record;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::{Sdp, SdpError, SdpStream};
use weft_protocols::transport::Rank;
use weft_verbs::{Nanos, Verbs};

/// What a client calls.
pub struct Client<V: Verbs> {
    sdp: Sdp<V>,
    node: u32,
    /// How often its node had restarted.
    life: u32,
    work: Rc<SdpWork>,
    rt: Rt<V>,
    mover: Mover<V>,
    /// By server: the connections that are kept.
    kept: BTreeMap<u32, Rc<SdpStream<V>>>,
}

impl<V: Verbs> Client<V> {
    pub(super) fn new(service: &Service<V>) -> Client<V> {
        let Service { rt, sdp, node, work, life, .. } = service;
        let (mover, work) = (Mover::new(rt, sdp, work), Rc::clone(work));
        let (sdp, rt) = (sdp.clone(), rt.clone());
        Client { sdp, node: *node, life: *life, work, rt, mover, kept: BTreeMap::new() }
    }

    /// A request by a number that no other life of the node has: a server may read one of an earlier life late.
    pub(super) fn in_life(&self, id: RequestId) -> RequestId {
        id.in_life(self.life)
    }

    pub(super) fn wants_first(&self) -> bool {
        self.work.wants_first
    }

    /// A request was dropped, and its stream with it.
    pub(super) fn dropped(&mut self, request: RequestId, at: Nanos) -> Event {
        Event { at_ns: at.0, node: self.node, request, what: What::Fails(Why::Dropped) }
    }

    /// Makes a request.
    pub(super) async fn perform(
        &mut self,
        rt: &Rt<V>,
        id: RequestId,
        request: Request,
        record: &impl Record<Event>,
    ) {
        let node = self.node;
        let happens = |what| record.record(Event { at_ns: rt.now().0, node, request: id, what });
        let Request { to, bytes, reply } = request;
        happens(What::Asks { to, bytes, reply });
        record.written().await;
        let read = loop {
            match self.ask(id, request, &happens).await {
                Err(SdpError::AddressChanged { acknowledged }) => {
                    happens(What::Moved { acknowledged });
                    // The server may take the request once more, and say so before this is known.
                    record.written().await;
                }
                end => break end,
            }
        };
        happens(match read {
            Ok(Read { bytes, intact, stall }) => What::Answered { bytes, intact, stall_ns: stall.0 },
            Err(why) => What::Fails(why.into()),
        });
        record.written().await;
    }

    async fn ask(
        &mut self,
        id: RequestId,
        Request { to, bytes, reply }: Request,
        happens: &impl Fn(What),
    ) -> Result<Read, SdpError> {
        let stream = match self.kept.remove(&to) {
            Some(stream) => stream,
            None => {
                let stream = self.sdp.connect(Rank::from_index(to), PORT).await?;
                happens(What::Connected);
                Rc::new(stream)
            }
        };
        let head = Head { request: id, bytes, reply };
        let read = match self.work.wants_first {
            true => self.exchange_early(&stream, head).await?,
            false => self.exchange(&stream, head).await?,
        };
        if self.work.keep {
            self.kept.insert(to, stream);
            return Ok(read);
        }
        if stream.read(&mut [0]).await? > 0 {
            happens(What::Surplus);
        }
        if let Some(stream) = Rc::into_inner(stream) {
            stream.close().await?;
        }
        Ok(read)
    }

    /// Writes the request, and reads the answer.
    async fn exchange(&mut self, stream: &Rc<SdpStream<V>>, head: Head) -> Result<Read, SdpError> {
        let Head { request, bytes, reply } = head;
        stream.write_all(&head.encode()).await?;
        self.mover.write(stream, Coding::of(request, Way::There), Head::LEN, bytes).await?;
        if !self.work.keep {
            stream.shutdown()?;
        }
        self.mover.read(stream, Coding::of(request, Way::Back), 0, reply).await
    }

    /// The same, and begins to read before it writes the last byte of the request: the server has nothing to answer before it knows
    /// where the answer is wanted.
    async fn exchange_early(&mut self, stream: &Rc<SdpStream<V>>, head: Head) -> Result<Read, SdpError> {
        let Head { request, bytes, reply } = head;
        let there = Coding::of(request, Way::There);
        let (encoded, mut last) = (head.encode(), [0]);
        if bytes > Head::LEN {
            stream.write_all(&encoded).await?;
            self.mover.write(stream, there, Head::LEN, bytes - 1).await?;
            there.fill(u64::from(bytes - 1), &mut last);
        } else {
            let (tail, rest) = encoded.split_last().ok_or(SdpError::UnexpectedEnd)?;
            stream.write_all(rest).await?;
            last = [*tail];
        }
        let (mut mover, reads) = (Mover::new(&self.rt, &self.sdp, &self.work), Rc::clone(stream));
        let back = Coding::of(request, Way::Back);
        let answer = self.rt.spawn(async move { mover.read(&reads, back, 0, reply).await });
        // Its turn comes before that of the last byte.
        self.rt.yield_now().await;
        stream.write_all(&last).await?;
        if !self.work.keep {
            stream.shutdown()?;
        }
        // A task that was not carried out is one of a node that has ended.
        answer.await.unwrap_or(Err(SdpError::Closed))
    }
}
