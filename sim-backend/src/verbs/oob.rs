//! Byte streams between machines.

use super::{Sim, SimContext, WorldRef, on_drop};
use crate::NodeId;
use crate::streams::{EndId, Ready};
use crate::world::World;
use std::fmt;
use std::io;
use std::task::{Context, Poll};
use weft_verbs::{Caps, OutOfBand, Result, Service, Stream, StreamListener, VerbsError};

/// A machine's ordinary network.
#[derive(Clone)]
pub struct SimOob {
    context: SimContext,
}

impl fmt::Debug for SimOob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimOob").field(&self.context).finish()
    }
}

impl SimOob {
    pub(super) fn open(context: &SimContext) -> Result<SimOob> {
        let oob = SimOob { context: context.clone() };
        oob.check()?;
        // Streams are made of time.
        let timeless = context.place().world.borrow().is_untimed();
        if timeless { Err(VerbsError::Unsupported(Caps::OUT_OF_BAND)) } else { Ok(oob) }
    }

    fn check(&self) -> Result<()> {
        let ctx = self.context.place();
        ctx.world.borrow_mut().hca_mut(ctx.hca)?.check_context(ctx.ctx)
    }

    fn handle(&self, id: EndId) -> Handle {
        let ctx = self.context.place();
        Handle { world: ctx.world.clone(), node: ctx.node, id }
    }
}

impl OutOfBand<Sim> for SimOob {
    fn listen(&self, service: Service) -> Result<SimStreamListener> {
        self.check()?;
        let ctx = self.context.place();
        let id = ctx.world.borrow_mut().listen(ctx.node, service)?;
        Ok(SimStreamListener(self.handle(id)))
    }

    fn connect(&self, node: &str, service: Service) -> Result<SimStream> {
        self.check()?;
        let ctx = self.context.place();
        let mut world = ctx.world.borrow_mut();
        let nodes = world.state.machines.len() as u32;
        let peer = NodeId::and_cable_from_name(node).map(|(node, _)| node).filter(|node| node.0 < nodes);
        let peer = peer.ok_or(VerbsError::Invalid("there is no machine of that name"))?;
        let id = world.connect_stream(ctx.node, peer, service);
        drop(world);
        Ok(SimStream(self.handle(id)))
    }
}

/// A stream's end or a listener of a machine.
struct Handle {
    world: WorldRef,
    node: NodeId,
    id: EndId,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("node", &self.node).field("id", &self.id).finish_non_exhaustive()
    }
}

impl Handle {
    /// Calls the world; where it has nothing yet, remembers whom to wake.
    fn poll<T>(
        &self,
        what: Ready,
        cx: &Context<'_>,
        call: impl FnOnce(&mut World) -> io::Result<Option<T>>,
    ) -> Poll<io::Result<T>> {
        let mut world = self.world.borrow_mut();
        match call(&mut world).transpose() {
            Some(answer) => Poll::Ready(answer),
            None => {
                world.wake_when(self.id, what, cx.waker());
                Poll::Pending
            }
        }
    }
}

/// Takes incoming byte streams. Those that nobody accepted are reset with its drop.
#[derive(Debug)]
pub struct SimStreamListener(Handle);

impl Drop for SimStreamListener {
    fn drop(&mut self) {
        let Handle { node, id, .. } = self.0;
        on_drop(&self.0.world, move |world| world.close_listener(node, id));
    }
}

impl StreamListener<Sim> for SimStreamListener {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<SimStream>> {
        let Handle { world, node, id } = &self.0;
        let found = self.0.poll(Ready::Accept, cx, |world| world.accept_stream(*node, *id));
        found.map_ok(|id| SimStream(Handle { world: world.clone(), node: *node, id }))
    }
}

/// A byte stream. With its drop what was written is sent yet, unless something was left unread.
#[derive(Debug)]
pub struct SimStream(Handle);

impl Drop for SimStream {
    fn drop(&mut self) {
        let Handle { node, id, .. } = self.0;
        on_drop(&self.0.world, move |world| world.close_stream(node, id));
    }
}

impl Stream for SimStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let Handle { node, id, .. } = self.0;
        self.0.poll(Ready::Read, cx, |world| world.read_stream(node, id, into))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Handle { node, id, .. } = self.0;
        self.0.poll(Ready::Write, cx, |world| world.write_stream(node, id, bytes))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Handle { node, id, .. } = self.0;
        Poll::Ready(self.0.world.borrow_mut().shut_stream(node, id))
    }
}
