//! What a server does: it reads requests to their end, and answers each.

use super::coding::{Coding, Head, Way};
use super::history::{Event, What};
use super::moves::Mover;
use super::workload::SdpWork;
use crate::history::RequestId;
use crate::record::Record;
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::sdp::{Sdp, SdpError, SdpListener, SdpStream};
use weft_verbs::Verbs;

/// What a server of one node needs.
pub(super) struct Server<V: Verbs, R> {
    pub rt: Rt<V>,
    pub node: u32,
    pub sdp: Sdp<V>,
    pub work: Rc<SdpWork>,
    pub record: R,
    /// Connections that are being served.
    pub serving: Rc<Cell<u64>>,
}

impl<V: Verbs, R: Clone> Clone for Server<V, R> {
    fn clone(&self) -> Server<V, R> {
        let Server { rt, node, sdp, work, record, serving } = self;
        let (sdp, work, record) = (sdp.clone(), Rc::clone(work), record.clone());
        Server { rt: rt.clone(), node: *node, sdp, work, record, serving: Rc::clone(serving) }
    }
}

impl<V: Verbs, R: Record<Event>> Server<V, R> {
    /// Accepts connections, and serves each by a task of its own.
    pub async fn listen(self, listener: SdpListener<V>) {
        while let Ok(stream) = listener.accept().await {
            let server = self.clone();
            drop(self.rt.spawn(async move {
                server.serving.update(|served| served + 1);
                server.serve(Rc::new(stream)).await;
                server.serving.update(|served| served - 1);
            }));
        }
    }

    /// Serves a connection until its client writes no more.
    async fn serve(&self, stream: Rc<SdpStream<V>>) {
        let mut mover = Mover::new(&self.rt, &self.sdp, &self.work);
        let mut serving = None;
        loop {
            match self.serve_one(&stream, &mut mover, &mut serving).await {
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
        if let Some(stream) = Rc::into_inner(stream) {
            let _ = stream.close().await;
        }
    }

    fn happens(&self, request: RequestId, what: What) {
        self.record.record(Event { at_ns: self.rt.now().0, node: self.node, request, what });
    }

    /// Serves the next request; false if there is none. `serving` is the request, once it is known.
    async fn serve_one(
        &self,
        stream: &Rc<SdpStream<V>>,
        mover: &mut Mover<V>,
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
        let answer = Coding::of(request, Way::Back);
        let early = if self.work.duplex { reply.saturating_sub(1) } else { 0 };
        let writes = self.work.duplex.then(|| {
            let (mut mover, stream) = (Mover::new(&self.rt, &self.sdp, &self.work), Rc::clone(stream));
            self.rt.spawn(async move { mover.write(&stream, answer, 0, early).await })
        });
        let read = mover.read(stream, Coding::of(request, Way::There), Head::LEN, bytes).await?;
        self.happens(request, What::Took { bytes: read.bytes, intact: read.intact, stall_ns: read.stall.0 });
        self.record.written().await;
        if let Some(writes) = writes {
            // A task that was not carried out is one of a node that has ended.
            writes.await.unwrap_or(Err(SdpError::Closed))?;
        }
        mover.write(stream, answer, early, reply).await?;
        if self.work.duplex && !self.work.keep {
            stream.shutdown()?;
        }
        Ok(true)
    }
}
