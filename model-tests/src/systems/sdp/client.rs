//! What a client does: it writes a request on a stream, and reads the answer.

use super::coding::{Coding, Head, Way};
use super::history::{Event, What};
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
use weft_verbs::Verbs;

/// What a client calls.
pub struct Client<V: Verbs> {
    sdp: Sdp<V>,
    node: u32,
    keep: bool,
    mover: Mover<V>,
    /// By server: the connections that are kept.
    kept: BTreeMap<u32, Rc<SdpStream<V>>>,
}

impl<V: Verbs> Client<V> {
    pub(super) fn new(service: &Service<V>, work: &SdpWork) -> Client<V> {
        let Service { rt, sdp, node, .. } = service;
        let mover = Mover::new(rt, sdp, work);
        Client { sdp: sdp.clone(), node: *node, keep: work.keep, mover, kept: BTreeMap::new() }
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
        stream.write_all(&head.encode()).await?;
        self.mover.write(&stream, Coding::of(id, Way::There), Head::LEN, bytes).await?;
        if !self.keep {
            stream.shutdown()?;
        }
        let read = self.mover.read(&stream, Coding::of(id, Way::Back), 0, reply).await?;
        if self.keep {
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
}
