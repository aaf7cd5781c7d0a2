//! Two or three managers on a network that loses, doubles and reorders.

mod agreement;
mod incarnations;
mod set_up;
mod trouble;
mod untimed;

use super::*;
use crate::choice::{Choice, Seeded};
use weft_verbs::{AckTimeout, Gid, QpState, Retries, RnrTimer, ToRtr, ToRts};

/// A queue pair as the manager sees it.
#[derive(Clone, Debug, Default)]
struct FakeQp {
    changes: Vec<Modify>,
    gone: bool,
}

impl FakeQp {
    fn state(&self) -> QpState {
        match self.changes.last() {
            None => QpState::Init,
            Some(Modify::Rtr(_)) => QpState::Rtr,
            Some(_) => QpState::Rts,
        }
    }
    fn rtr(&self) -> ToRtr {
        let is = |m: &Modify| if let Modify::Rtr(to) = m { Some(*to) } else { None };
        self.changes.iter().find_map(is).expect("it went to RTR")
    }
    fn rts(&self) -> ToRts {
        let is = |m: &Modify| if let Modify::Rts(to) = m { Some(*to) } else { None };
        self.changes.iter().find_map(is).expect("it went to RTS")
    }
}

#[derive(Default)]
struct Around {
    sent: Vec<(Address, Message)>,
    qps: BTreeMap<u32, FakeQp>,
    psn: u32,
}

impl Surroundings for Around {
    fn send(&mut self, to: Address, message: Message) -> bool {
        self.sent.push((to, message));
        true
    }
    fn modify(&mut self, qp: QpRef, change: &Modify) -> Result<()> {
        let fake = self.qps.entry(qp.num.0).or_default();
        if fake.gone {
            return Err(VerbsError::Invalid("the queue pair is gone"));
        }
        change.check(fake.state(), weft_verbs::QpType::Rc)?;
        fake.changes.push(*change);
        Ok(())
    }
    fn starting_psn(&mut self) -> Psn {
        self.psn += 1_000;
        Psn::new(self.psn)
    }
}

struct Side {
    manager: Manager,
    around: Around,
    events: Vec<CmEvent>,
}

struct Net {
    now: Nanos,
    sides: Vec<Side>,
    /// Messages on their way, in the order of sending.
    flying: Vec<(Address, Message)>,
}

const APP: Owner = Owner(0);
const PORT: Service = Service(7);
const SETTINGS: Settings =
    Settings { response: Nanos(1_000), retries: 3, mtu: Mtu::B2048, max_rd_atomic: 16 };

/// How many connections and attempts applications know of.
fn known(manager: &Manager) -> usize {
    manager.conns.values().filter(|conn| conn.is_known()).count()
}

fn address(node: u32) -> Address {
    let mut gid = [0; 16];
    gid[15] = node as u8;
    Address { hca: HcaId(node), port: 1, gid: Gid(gid) }
}

fn qp(n: u32) -> QpRef {
    QpRef { num: QpNum(n), generation: 0 }
}

fn params(private: &[u8]) -> ConnParams<'_> {
    ConnParams {
        private,
        responder_resources: 4,
        initiator_depth: 8,
        timeout: AckTimeout::new(14).unwrap(),
        retry: Retries::MOST,
        rnr_retry: Retries::FOREVER,
        min_rnr_timer: RnrTimer::new(12).unwrap(),
        mtu: None,
        traffic_class: 0,
    }
}

impl Net {
    fn new(nodes: u32) -> Net {
        let side = |node| Side {
            manager: Manager::new(SETTINGS, 0),
            around: Around { psn: node * 77, ..Around::default() },
            events: vec![],
        };
        Net { now: Nanos(0), sides: (0..nodes).map(side).collect(), flying: vec![] }
    }

    /// A net of nodes 0 and 1; 1 listens, 0 has resolved it.
    fn pair() -> (Net, CmId) {
        let mut net = Net::new(2);
        net.sides[1].manager.listen(APP, PORT).unwrap();
        let id = net.resolved(0, 1);
        (net, id)
    }

    fn resolved(&mut self, from: usize, to: u32) -> CmId {
        let id = self.sides[from].manager.resolve(APP, Some((address(from as u32), address(to))), PORT);
        self.collect();
        assert_eq!(self.sides[from].events.pop(), Some(CmEvent::Resolved { id }));
        id
    }

    fn act<R>(&mut self, node: usize, f: impl FnOnce(&mut Manager, Nanos, &mut Around) -> R) -> R {
        let side = &mut self.sides[node];
        let result = f(&mut side.manager, self.now, &mut side.around);
        self.collect();
        result
    }

    fn collect(&mut self) {
        for side in &mut self.sides {
            self.flying.append(&mut side.around.sent);
            side.events.extend(std::iter::from_fn(|| side.manager.event(APP)));
        }
    }

    fn connect(&mut self, node: usize, id: CmId, qp: QpRef) {
        self.act(node, |m, now, io| m.connect(now, APP, id, qp, &params(b"hello"), io)).unwrap();
    }

    fn accept(&mut self, node: usize, id: CmId, qp: QpRef) -> Result<()> {
        self.act(node, |m, now, io| m.accept(now, APP, id, qp, &params(b"welcome"), io))
    }

    fn disconnect(&mut self, node: usize, id: CmId) {
        self.act(node, |m, now, io| m.disconnect(now, APP, id, io)).unwrap();
    }

    /// The kinds of message on their way.
    fn names(&self) -> Vec<&'static str> {
        self.flying.iter().map(|(_, m)| m.name()).collect()
    }

    fn deliver(&mut self, at: usize) {
        let (to, message) = self.flying.remove(at);
        self.act(to.hca.0 as usize, |m, now, io| m.on_message(now, to, message, io));
    }

    fn deliver_all(&mut self) {
        while !self.flying.is_empty() {
            self.deliver(0);
        }
    }

    fn lose(&mut self, name: &str) {
        let at = self.names().iter().position(|n| *n == name).expect("such a message");
        self.flying.remove(at);
    }

    /// Lets the earliest timer fire. `false` if there is none.
    fn tick(&mut self) -> bool {
        let Some(at) = self.sides.iter().filter_map(|s| s.manager.deadline()).min() else { return false };
        self.now = self.now.max(at);
        for node in 0..self.sides.len() {
            self.act(node, |m, now, io| m.on_timer(now, io));
        }
        true
    }

    /// Node 1's request event, taken.
    fn request(&mut self) -> CmId {
        let Some(CmEvent::Request { id, service: PORT, .. }) = self.sides[1].events.pop() else {
            panic!("no request: {:?}", self.sides[1].events)
        };
        id
    }

    /// Connects node 0's queue pair 10 with node 1's 20.
    fn connected() -> (Net, CmId, CmId) {
        let (mut net, a) = Net::pair();
        net.connect(0, a, qp(10));
        net.deliver_all();
        let b = net.request();
        net.accept(1, b, qp(20)).unwrap();
        net.deliver_all();
        assert_eq!(net.sides[0].events, [CmEvent::Established { id: a, private: b"welcome".to_vec() }]);
        assert_eq!(net.sides[1].events, [CmEvent::Established { id: b, private: vec![] }]);
        net.sides.iter_mut().for_each(|s| s.events.clear());
        (net, a, b)
    }

    fn qp(&self, node: usize, num: u32) -> &FakeQp {
        &self.sides[node].around.qps[&num]
    }
}
