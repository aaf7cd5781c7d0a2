//! What a client does: it writes a request on a stream, and reads the answer.

use super::coding::{Coding, Head, Way};
use super::history::{Event, What};
use super::workload::{Request, SdpWork};
use super::{PORT, Service};
use crate::history::RequestId;
use crate::record::Record;
use std::collections::BTreeMap;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::{Sdp, SdpError, SdpStream};
use weft_protocols::transport::Rank;
use weft_verbs::Verbs;

/// What a client calls.
pub struct Client<V: Verbs> {
    sdp: Sdp<V>,
    node: u32,
    keep: bool,
    /// The bytes of one call.
    call: Vec<u8>,
    /// By server: the connections that are kept.
    kept: BTreeMap<u32, SdpStream<V>>,
}

/// How much of a request or an answer was read, and whether it is what was written.
pub(super) struct Read {
    pub bytes: u32,
    pub intact: bool,
}

impl<V: Verbs> Client<V> {
    pub(super) fn new(service: &Service<V>, work: &SdpWork) -> Client<V> {
        let Service { sdp, node, .. } = service;
        let call = vec![0; work.call as usize];
        Client { sdp: sdp.clone(), node: *node, keep: work.keep, call, kept: BTreeMap::new() }
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
        let read = self.ask(id, request, &happens).await;
        happens(match read {
            Ok(Read { bytes, intact }) => What::Answered { bytes, intact },
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
                stream
            }
        };
        let head = Head { request: id, bytes, reply };
        stream.write_all(&head.encode()).await?;
        let coding = Coding::of(id, Way::There);
        write_coded(&stream, coding, Head::LEN, bytes, &mut self.call).await?;
        if !self.keep {
            stream.shutdown()?;
        }
        let read = read_coded(&stream, Coding::of(id, Way::Back), 0, reply, &mut self.call).await?;
        if self.keep {
            self.kept.insert(to, stream);
            return Ok(read);
        }
        if stream.read(&mut self.call).await? > 0 {
            happens(What::Surplus);
        }
        stream.close().await?;
        Ok(read)
    }
}

/// Writes the bytes from one position to another.
pub(super) async fn write_coded<V: Verbs>(
    stream: &SdpStream<V>,
    coding: Coding,
    from: u32,
    to: u32,
    call: &mut [u8],
) -> Result<(), SdpError> {
    let mut at = from;
    while at < to {
        let len = call.len().min((to - at) as usize);
        coding.fill(at.into(), &mut call[..len]);
        stream.write_all(&call[..len]).await?;
        at += len as u32;
    }
    Ok(())
}

/// Reads the bytes from one position to another, and looks at each.
pub(super) async fn read_coded<V: Verbs>(
    stream: &SdpStream<V>,
    coding: Coding,
    from: u32,
    to: u32,
    call: &mut [u8],
) -> Result<Read, SdpError> {
    let mut read = Read { bytes: from, intact: true };
    while read.bytes < to {
        let most = call.len().min((to - read.bytes) as usize);
        match stream.read(&mut call[..most]).await? {
            0 => return Err(SdpError::UnexpectedEnd),
            len => {
                read.intact &= coding.is_at(read.bytes.into(), &call[..len]);
                read.bytes += len as u32;
            }
        }
    }
    Ok(read)
}
