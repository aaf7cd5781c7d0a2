//! The primitives of Table 1 and of section 4.1, measured to check that the fabric gives back what went in.

use super::style;
use crate::by_hand::connect;
use crate::paper::{PaperError, Row, X, refused};
use std::cell::RefCell;
use std::rc::Rc;
use std::result::Result;
use weft_sim::choice::First;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim, SimChannel, SimContext, SimCq, SimHost, SimMr, SimPd, SimQp};
use weft_verbs::*;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Primitive {
    Send,
    CompareSwap,
    FetchAdd,
}

const BYTES: u32 = 128;

const TABLE_1: [(Primitive, &str, [f64; 2]); 3] = [
    (Primitive::Send, "send/recv, 128 bytes", [4.07, 11.18]),
    (Primitive::CompareSwap, "compare-and-swap", [5.78, 12.97]),
    (Primitive::FetchAdd, "fetch-and-add", [5.77, 12.96]),
];

pub(super) fn rows(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for (primitive, name, paper) in TABLE_1 {
        for (wait, paper) in [Wait::Poll, Wait::Notify].into_iter().zip(paper) {
            let measured = measure(profile, primitive, wait)?;
            rows.push(Row::new("Table 1", name, X::Name(style(wait)), "us", paper, measured));
        }
    }
    let [whole, begin] = ipc(profile)?;
    let row = |name, paper, measured| {
        Row::new("Section 4.1, IPC", name, X::Name("64 bytes"), "us", paper, measured)
    };
    rows.extend([row("message", 2.9, whole), row("initiation", 1.1, begin)]);
    Ok(rows)
}

/// What a message of 128 bytes takes, in microseconds.
pub(super) fn send(profile: &Profile, wait: Wait) -> Result<f64, PaperError> {
    measure(profile, Primitive::Send, wait)
}

/// What the fabric charges for an IPC message, and for its initiation alone, in microseconds.
fn ipc(profile: &Profile) -> Result<[f64; 2], PaperError> {
    let fabric = fabric(profile)?;
    let host = fabric.devices(NodeId(0))[0].open().map_err(refused)?.host();
    let begin = host.now();
    host.spend(Work::IpcSend);
    let initiated = host.now() - begin;
    host.spend(Work::IpcReceive);
    Ok([host.now() - begin, initiated].map(Nanos::as_micros_f64))
}

/// From the post until the program has the completion: the receiver's for a send, its own for an atomic.
fn measure(profile: &Profile, primitive: Primitive, wait: Wait) -> Result<f64, PaperError> {
    let fabric = fabric(profile)?;
    let sides = [0, 1].map(|node| side(&fabric, node).map_err(refused));
    let [a, b] = sides;
    let (a, b) = (a?, b?);
    connect((&a.ctx, &a.qp), (&b.ctx, &b.qp), AccessFlags::REMOTE_ATOMIC).map_err(refused)?;
    let at = b.mr.remote(0..8).map_err(refused)?;
    let times: Rc<RefCell<Vec<Nanos>>> = Rc::default();
    let is_send = primitive == Primitive::Send;
    for (node, side) in [(1, b), (0, a)] {
        let role = match (node, is_send) {
            (0, true) => Role::Sender,
            (0, false) => Role::Requester,
            (_, true) => Role::Receiver,
            // An atomic needs no program at the other side.
            (_, false) => Role::Bystander,
        };
        let prober = Prober { primitive, wait, role, side, at, begun: false, times: Rc::clone(&times) };
        fabric.mount(NodeId(node), Box::new(prober));
    }
    fabric.run_until(Nanos::from_secs(1));
    match times.borrow()[..] {
        [begin, end] => Ok((end - begin).as_micros_f64()),
        _ => Err(PaperError::Unfinished("a primitive did not complete".to_string())),
    }
}

fn fabric(profile: &Profile) -> Result<Fabric, PaperError> {
    Fabric::new(Config::new(2, profile.clone()), Box::new(First)).map_err(refused)
}

/// One end of a connection.
struct Side {
    ctx: SimContext,
    _pd: SimPd,
    channel: SimChannel,
    cq: SimCq,
    qp: SimQp,
    mr: SimMr,
    host: SimHost,
}

fn side(fabric: &Fabric, node: u32) -> Result<Side, VerbsError> {
    let ctx = fabric.devices(NodeId(node))[0].open()?;
    let (pd, channel, host) = (ctx.alloc_pd()?, ctx.create_channel()?, ctx.host());
    let cq = ctx.create_cq(16, Some(&channel))?;
    let caps = QpCaps { max_send_wr: 4, max_recv_wr: 4, ..QpCaps::default() };
    let init = QpInit { kind: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, caps, sq_sig_all: false };
    let qp = pd.create_qp(&init)?;
    let mr = pd.alloc_mr(BYTES as usize, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC)?;
    Ok(Side { ctx, _pd: pd, channel, cq, qp, mr, host })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Sender,
    Receiver,
    Requester,
    Bystander,
}

/// Posts in its first step, and takes the completion in its second.
struct Prober {
    primitive: Primitive,
    wait: Wait,
    role: Role,
    side: Side,
    at: RemoteSlice,
    begun: bool,
    /// When it was posted and when it was over.
    times: Rc<RefCell<Vec<Nanos>>>,
}

impl Prober {
    /// What the node waits for then. A request that is refused leaves no times.
    fn begin(&mut self) -> Result<Park, VerbsError> {
        let Side { qp, cq, mr, host, .. } = &self.side;
        let data = [Sge { mr, at: 0, len: BYTES }];
        let waiting = Park::Until { style: self.wait, deadline: None };
        cq.arm(Arm::Next)?;
        if self.role == Role::Receiver {
            qp.post_recv(&[RecvWr { wr_id: 1, data: &data }]).map_err(|refused| refused.why)?;
        }
        if matches!(self.role, Role::Receiver | Role::Bystander) {
            return Ok(waiting);
        }
        // The other side is ready by then.
        host.spend(Work::Compute(Nanos::from_millis(1)));
        self.times.borrow_mut().push(host.now());
        let word = [Sge { mr, at: 0, len: 8 }];
        let (op, data): (SendOp<'_, Sim>, _) = match self.primitive {
            Primitive::Send => (SendOp::Send { imm: None }, &data),
            Primitive::CompareSwap => (SendOp::CompareSwap { at: self.at, compare: 0, swap: 1 }, &word),
            Primitive::FetchAdd => (SendOp::FetchAdd { at: self.at, add: 1 }, &word),
        };
        let wr = SendWr { wr_id: 2, op, data: Payload::Sge(data), flags: SendFlags::SIGNALED };
        qp.post_send(&[wr]).map_err(|refused| refused.why)?;
        Ok(waiting)
    }

    fn end(&mut self) -> Result<(), VerbsError> {
        if self.wait == Wait::Notify {
            self.side.channel.event();
        }
        let mut done = Vec::new();
        self.side.cq.poll(&mut done, 4)?;
        let over = done.iter().any(|completion| completion.result.is_ok());
        if over && self.role != Role::Sender {
            self.times.borrow_mut().push(self.side.host.now());
        }
        Ok(())
    }
}

impl Node for Prober {
    fn step(&mut self) -> Park {
        if !std::mem::replace(&mut self.begun, true) {
            return self.begin().unwrap_or(Park::Done);
        }
        // One that was refused is missing among the times.
        let _ = self.end();
        Park::Done
    }
}
