//! What a server does: it reads requests to their end, and answers each.

use super::client::{read_coded, write_coded};
use super::coding::{Coding, Head, Way};
use super::history::{Event, What};
use crate::history::RequestId;
use crate::record::Record;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::{SdpError, SdpListener, SdpStream};
use weft_verbs::Verbs;

/// What a server of one node needs.
#[derive(Clone)]
pub(super) struct Server<V: Verbs, R> {
    pub rt: Rt<V>,
    pub node: u32,
    /// How many bytes a call of write or read is given at most.
    pub call: u32,
    pub record: R,
}

impl<V: Verbs, R: Record<Event>> Server<V, R> {
    /// Accepts connections, and serves each by a task of its own.
    pub async fn listen(self, listener: SdpListener<V>) {
        while let Ok(stream) = listener.accept().await {
            let server = Server { rt: self.rt.clone(), record: self.record.clone(), ..self };
            drop(self.rt.spawn(server.serve(stream)));
        }
    }

    /// Serves a connection until its client writes no more.
    async fn serve(self, stream: SdpStream<V>) {
        let mut call = vec![0; self.call as usize];
        let mut serving = None;
        loop {
            match self.serve_one(&stream, &mut call, &mut serving).await {
                Ok(true) => serving = None,
                Ok(false) => break,
                Err(why) => {
                    // Between two requests there is nothing that could be lost.
                    if let Some(request) = serving {
                        self.happens(request, What::Breaks(why.into()));
                    }
                    return;
                }
            }
        }
        // All was answered: whether the client has read it is its own affair.
        let _ = stream.close().await;
    }

    fn happens(&self, request: RequestId, what: What) {
        self.record.record(Event { at_ns: self.rt.now().0, node: self.node, request, what });
    }

    /// Serves the next request; false if there is none. `serving` is the request, once it is known.
    async fn serve_one(
        &self,
        stream: &SdpStream<V>,
        call: &mut [u8],
        serving: &mut Option<RequestId>,
    ) -> Result<bool, SdpError> {
        let mut head = [0; Head::LEN as usize];
        let first = stream.read(&mut head).await?;
        if first == 0 {
            return Ok(false);
        }
        stream.read_exact(&mut head[first..]).await?;
        let Some(Head { request, bytes, reply }) = Head::decode(&head) else {
            // Nobody wrote that; whose request it was, nobody knows, and it will not end.
            return Err(SdpError::Aborted);
        };
        *serving = Some(request);
        let read = read_coded(stream, Coding::of(request, Way::There), Head::LEN, bytes, call).await?;
        self.happens(request, What::Took { bytes: read.bytes, intact: read.intact });
        self.record.written().await;
        write_coded(stream, Coding::of(request, Way::Back), 0, reply, call).await?;
        Ok(true)
    }
}
