//! Byte streams between machines: the paper's TCP.

use crate::paper::{Machine, PaperError, refused};
use std::future::poll_fn;
use weft_sim::{NodeId, SimStream};
use weft_verbs::{Context, OutOfBand, Service, Stream, StreamListener};

/// What will be the listening end of the next stream to this port of a machine.
pub(super) fn accept(
    at: &Machine,
    port: Service,
) -> Result<impl Future<Output = Option<SimStream>> + use<>, PaperError> {
    let mut listener = at.rt.context().out_of_band().and_then(|oob| oob.listen(port)).map_err(refused)?;
    Ok(async move { poll_fn(|cx| listener.poll_accept(cx)).await.ok() })
}

/// The other end: a stream to a port of another node.
pub(super) fn connect(from: &Machine, node: u32, port: Service) -> Result<SimStream, PaperError> {
    let name = NodeId(node).cable(1);
    from.rt.context().out_of_band().and_then(|oob| oob.connect(&name, port)).map_err(refused)
}

/// So many bytes, which are dropped.
pub(super) async fn read(stream: &mut SimStream, mut wanted: usize) -> Option<()> {
    let mut chunk = vec![0; wanted.min(1 << 16)];
    while wanted > 0 {
        let most = wanted.min(chunk.len());
        wanted -= poll_fn(|cx| stream.poll_read(cx, &mut chunk[..most])).await.ok().filter(|n| *n > 0)?;
    }
    Some(())
}

/// As many bytes as there is room for.
pub(super) async fn read_exact(stream: &mut SimStream, mut into: &mut [u8]) -> Option<()> {
    while !into.is_empty() {
        let n = poll_fn(|cx| stream.poll_read(cx, into)).await.ok().filter(|n| *n > 0)?;
        into = &mut into[n..];
    }
    Some(())
}

/// All of these bytes.
pub(super) async fn write(stream: &mut SimStream, mut bytes: &[u8]) -> Option<()> {
    while !bytes.is_empty() {
        let n = poll_fn(|cx| stream.poll_write(cx, bytes)).await.ok()?;
        bytes = &bytes[n..];
    }
    Some(())
}
