//! A node that is no mesh: it asks for connections, answers requests, and sends frames, as no mesh does.
//!
//! Whoever hears it turns it down and says why, or gives up the connection, and all others go on. Another version of the program, a node
//! at another one's address and a program of another kind are such nodes.

mod answers;
mod asks;

use crate::explore::Entry;
use weft_protocols::rt::{QpHandle, Rt};
use weft_sim::Sim;
use weft_verbs::{
    AccessFlags, AckTimeout, ConnParams, Context, Modify, Nanos, QpCaps, QueuePair, Result, Retries,
    RnrTimer, ToInit,
};

/// The worlds of strangers.
pub fn worlds() -> Vec<Entry> {
    [asks::worlds(), answers::worlds()].concat()
}

/// The first bytes of all that a mesh says when it asks and when it answers.
const VERSION: u16 = 2;

/// What a mesh says of itself when it asks for a connection, or accepts one.
#[derive(Clone, Copy)]
struct Hello {
    version: u16,
    /// From 1; 0 is nobody.
    rank: u32,
    to: u32,
    incarnation: u64,
    /// With which incarnation of the other it has met.
    with: u64,
    generation: u32,
    buffers: u32,
    longest: u32,
    received: u64,
}

impl Hello {
    fn bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; 48];
        let mut put = |at: usize, number: &[u8]| bytes[at..at + number.len()].copy_from_slice(number);
        put(0, &self.version.to_le_bytes());
        put(4, &self.rank.to_le_bytes());
        put(8, &self.incarnation.to_le_bytes());
        put(16, &self.with.to_le_bytes());
        put(24, &self.generation.to_le_bytes());
        put(28, &self.buffers.to_le_bytes());
        put(32, &self.longest.to_le_bytes());
        put(36, &self.received.to_le_bytes());
        put(44, &self.to.to_le_bytes());
        bytes
    }
}

/// The header of a frame, and what is behind it.
fn frame(number: u64, acknowledged: u64, channel: u8, content: &[u8]) -> Vec<u8> {
    let head = [&number.to_le_bytes()[..], &acknowledged.to_le_bytes(), &100_u32.to_le_bytes()].concat();
    [&head[..], &[channel, 0, 0, 0], content].concat()
}

/// A queue pair of a stranger's own.
fn queue_pair(rt: &Rt<Sim>) -> Result<QpHandle<Sim>> {
    let pd = rt.context().alloc_pd()?;
    let caps = QpCaps { max_send_wr: 4, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 64 };
    let queue = rt.create_qp(&pd, caps)?;
    queue.qp().modify(&Modify::Init(ToInit {
        port: 1,
        pkey_index: 0,
        access: AccessFlags::LOCAL_WRITE,
        qkey: 0,
    }))?;
    Ok(queue)
}

/// What a stranger brings into a connection, beside what it says.
fn params(private: &[u8]) -> ConnParams<'_> {
    ConnParams {
        private,
        responder_resources: 1,
        initiator_depth: 1,
        timeout: AckTimeout::at_least(Nanos::from_millis(60)),
        retry: Retries::MOST,
        rnr_retry: Retries::FOREVER,
        min_rnr_timer: RnrTimer::new(12).expect("a code"),
        mtu: None,
        traffic_class: 0,
    }
}
