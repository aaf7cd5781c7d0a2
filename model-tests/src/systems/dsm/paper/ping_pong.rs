//! Table 2: a message there and back, by the context in which it is received. The paper's test is of the adapter and the context
//! alone (section 5.2), so this one is programs on the bare verbs, which answer where they take the completion.

use crate::by_hand::connect;
use crate::paper::{Fitted, PaperError, Row, X, refused};
use std::cell::RefCell;
use std::rc::Rc;
use std::result::Result;
use weft_sim::choice::First;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim, SimChannel, SimContext, SimCq, SimHost, SimMr, SimPd, SimQp};
use weft_verbs::*;

/// A control message, in bytes.
const BYTES: u32 = 64;

/// How often a message goes there and back.
const ROUNDS: usize = 10;

/// What a process takes on top of the interrupt, to be signalled and to take a message in: fitted.
pub(super) const SIGNAL: Nanos = Nanos(15_000);

/// What a task queue takes on top of the interrupt: fitted.
pub(super) const TASK_QUEUE: Nanos = Nanos(5_000);

/// A receive context (section 3.1): its name, how the node waits, what it takes on top of that, and the paper's time.
const CONTEXTS: [(&str, Wait, Nanos, f64); 4] = [
    ("polling", Wait::Poll, Nanos::ZERO, 45.0),
    ("interrupt", Wait::Notify, Nanos::ZERO, 60.0),
    ("task queue", Wait::Notify, TASK_QUEUE, 70.0),
    ("process", Wait::Notify, SIGNAL, 90.0),
];

/// The contexts that take something on top, which was fitted: half of what Table 2 has above the interrupt, since a message there
/// and back is received twice.
pub(super) fn fitted() -> Vec<Fitted> {
    let fitted = |(name, _, takes, _): &(&str, Wait, Nanos, f64)| Fitted {
        name: name.to_string(),
        value: takes.0,
        unit: "ns",
        source: format!("fitted: Table 2, {name} less interrupt, a message each way"),
    };
    CONTEXTS.iter().filter(|(_, _, takes, _)| *takes > Nanos::ZERO).map(fitted).collect()
}

pub(super) fn rows(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let row = |(name, wait, takes, paper): (&'static str, Wait, Nanos, f64)| {
        let measured = there_and_back(profile, wait, takes)?;
        Ok(Row::new("Table 2", name, X::Name("there and back"), "us", paper, measured))
    };
    CONTEXTS.into_iter().map(row).collect()
}

/// Mean time, in microseconds.
fn there_and_back(profile: &Profile, wait: Wait, takes: Nanos) -> Result<f64, PaperError> {
    let fabric = Fabric::new(Config::new(2, profile.clone()), Box::new(First)).map_err(refused)?;
    let (a, b) = (side(&fabric, 0).map_err(refused)?, side(&fabric, 1).map_err(refused)?);
    connect((&a.ctx, &a.qp), (&b.ctx, &b.qp), AccessFlags::LOCAL_WRITE).map_err(refused)?;
    let times: Rc<RefCell<Vec<Nanos>>> = Rc::default();
    for (node, side) in [(1, b), (0, a)] {
        let begins = node == 0;
        let player =
            Player { side, wait, takes, begins, begun: None, waits: false, times: Rc::clone(&times) };
        fabric.mount(NodeId(node), Box::new(player));
    }
    fabric.run_until(Nanos::from_secs(1));
    let times = times.borrow();
    if times.len() != ROUNDS {
        return Err(PaperError::Unfinished(format!("{} of {ROUNDS} messages came back", times.len())));
    }
    let sum = times.iter().fold(Nanos::ZERO, |sum, time| sum + *time);
    Ok(sum.as_micros_f64() / ROUNDS as f64)
}

/// One end of the connection.
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
    let cq = ctx.create_cq(64, Some(&channel))?;
    let caps = QpCaps { max_send_wr: 2 * ROUNDS as u32, max_recv_wr: 4, ..QpCaps::default() };
    let init = QpInit { kind: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, caps, sq_sig_all: false };
    let qp = pd.create_qp(&init)?;
    let mr = pd.alloc_mr(2 * BYTES as usize, AccessFlags::LOCAL_WRITE)?;
    Ok(Side { ctx, _pd: pd, channel, cq, qp, mr, host })
}

/// Sends a message and waits for it to come back, or sends back what comes.
struct Player {
    side: Side,
    wait: Wait,
    takes: Nanos,
    begins: bool,
    /// When its message was sent that is on its way.
    begun: Option<Nanos>,
    waits: bool,
    times: Rc<RefCell<Vec<Nanos>>>,
}

impl Player {
    fn send(&mut self) -> Result<(), VerbsError> {
        let Side { qp, mr, host, .. } = &self.side;
        if self.begins {
            // What the last round left behind is over by then.
            host.spend(Work::Compute(Nanos::from_millis(1)));
            self.begun = Some(host.now());
        }
        let data = [Sge { mr, at: 0, len: BYTES }];
        let (op, data): (SendOp<'_, Sim>, _) = (SendOp::Send { imm: None }, Payload::Sge(&data));
        let wr = SendWr { wr_id: 2, op, data, flags: SendFlags::empty() };
        qp.post_send(&[wr]).map_err(|refused| refused.why)
    }

    /// Makes ready for the next message. It comes after what this node has sent, so that nothing can come in between.
    fn expect(&self) -> Result<(), VerbsError> {
        let Side { qp, cq, mr, .. } = &self.side;
        let data = [Sge { mr, at: BYTES, len: BYTES }];
        qp.post_recv(&[RecvWr { wr_id: 1, data: &data }]).map_err(|refused| refused.why)?;
        if self.wait == Wait::Notify { cq.arm(Arm::Next) } else { Ok(()) }
    }

    /// One step: false when nothing is left to do.
    fn play(&mut self) -> Result<bool, VerbsError> {
        if !std::mem::replace(&mut self.waits, true) {
            self.expect()?;
            if self.begins {
                self.send()?;
            }
            return Ok(true);
        }
        if self.wait == Wait::Notify {
            self.side.channel.event();
        }
        let mut done = Vec::new();
        self.side.cq.poll(&mut done, 4)?;
        if done.is_empty() {
            return Ok(true);
        }
        self.side.host.spend(Work::Compute(self.takes));
        if let Some(begun) = self.begun.take() {
            self.times.borrow_mut().push(self.side.host.now() - begun);
            if self.times.borrow().len() == ROUNDS {
                return Ok(false);
            }
            self.expect()?;
            self.send()?;
        } else {
            self.send()?;
            self.expect()?;
        }
        Ok(true)
    }
}

impl Node for Player {
    fn step(&mut self) -> Park {
        match self.play() {
            Ok(true) => Park::Until { style: self.wait, deadline: None },
            // A request that is refused leaves times missing.
            Ok(false) | Err(_) => Park::Done,
        }
    }
}
