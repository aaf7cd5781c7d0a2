//! What a machine without an adapter has not: queue pairs and their company.

use crate::{Tcp, no_adapter};
use weft_verbs::{
    Arm, Caps, CmEvent, CmId, CompletionChannel, CompletionQueue, ConnParams, ConnectionManager, CqId,
    Modify, PostError, QpAttr, QpNum, QpState, QueuePair, RecvWr, Result, SendWr, Service,
    SharedReceiveQueue, SrqId, VerbsError, WorkCompletion,
};

/// A completion queue, or a channel of some, on which nothing ever completes.
#[derive(Clone, Copy, Debug)]
pub struct NoQueue {
    pub(crate) capacity: u32,
}

impl CompletionChannel for NoQueue {
    fn event(&self) -> Option<CqId> {
        None
    }
}

impl CompletionQueue for NoQueue {
    fn id(&self) -> CqId {
        CqId(0)
    }

    fn poll(&self, _out: &mut Vec<WorkCompletion>, _max: usize) -> Result<usize> {
        Ok(0)
    }

    fn arm(&self, _next: Arm) -> Result<()> {
        Ok(())
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn resize(&self, _cqe: u32) -> Result<()> {
        Err(VerbsError::Unsupported(Caps::CQ_RESIZE))
    }
}

/// A queue pair, or an address handle: there is none.
#[derive(Clone, Copy, Debug)]
pub enum NoQueuePair {}

impl QueuePair<Tcp> for NoQueuePair {
    fn num(&self) -> QpNum {
        match *self {}
    }

    fn state(&self) -> QpState {
        match *self {}
    }

    fn query(&self) -> Result<QpAttr> {
        match *self {}
    }

    fn modify(&self, _change: &Modify) -> Result<()> {
        match *self {}
    }

    fn post_send(&self, _list: &[SendWr<'_, Tcp>]) -> std::result::Result<(), PostError> {
        match *self {}
    }

    fn post_recv(&self, _list: &[RecvWr<'_, Tcp>]) -> std::result::Result<(), PostError> {
        match *self {}
    }
}

/// A shared receive queue: there is none.
#[derive(Clone, Copy, Debug)]
pub enum NoSrq {}

impl SharedReceiveQueue<Tcp> for NoSrq {
    fn id(&self) -> SrqId {
        match *self {}
    }

    fn post_recv(&self, _list: &[RecvWr<'_, Tcp>]) -> std::result::Result<(), PostError> {
        match *self {}
    }

    fn arm_limit(&self, _limit: u32) -> Result<()> {
        match *self {}
    }
}

/// A connection manager that nobody asks and that reaches nobody.
#[derive(Clone, Copy, Debug)]
pub struct NoCm;

impl ConnectionManager<Tcp> for NoCm {
    fn listen(&self, _service: Service) -> Result<()> {
        Ok(())
    }

    fn resolve(&self, _node: &str, _service: Service) -> Result<CmId> {
        no_adapter()
    }

    fn port(&self, _id: CmId) -> Result<u8> {
        no_adapter()
    }

    fn connect(&self, _id: CmId, qp: &NoQueuePair, _params: &ConnParams<'_>) -> Result<()> {
        match *qp {}
    }

    fn accept(&self, _id: CmId, qp: &NoQueuePair, _params: &ConnParams<'_>) -> Result<()> {
        match *qp {}
    }

    fn reject(&self, _id: CmId, _private: &[u8]) -> Result<()> {
        no_adapter()
    }

    fn disconnect(&self, _id: CmId) -> Result<()> {
        no_adapter()
    }

    fn event(&self) -> Option<CmEvent> {
        None
    }
}
