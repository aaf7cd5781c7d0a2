//! A world's state is plain data: taken, kept, put back.

use super::World;
use crate::choice::First;
use crate::config::{Config, Order};
use crate::hca::{Atomic, Gather, HcaId, Key, NewQp, Op, Remote, SendRequest, Sge};
use crate::profile::Profile;
use crate::{NodeId, log::Log};
use weft_verbs::*;

/// Two connected queue pairs, posted to without handles.
struct Pair {
    world: World,
    qp: Key,
    mr: Key,
    cq: Key,
    word: Remote,
}

const A: (NodeId, HcaId) = (NodeId(0), HcaId(0));
const B: (NodeId, HcaId) = (NodeId(1), HcaId(1));

fn pair() -> Pair {
    let mut config = Config::new(2, Profile::builtin("ncosed-2007").unwrap());
    config.order = Order::Fifo;
    let mut world = World::new(&config, Box::new(First));
    let mut side = |(node, hca): (NodeId, HcaId)| {
        let ctx = world.hca_mut(hca).unwrap().open();
        let pd = world.alloc_pd(hca, ctx).unwrap();
        let cq = world.create_cq(node, hca, ctx, 64, None).unwrap();
        let new = NewQp {
            kind: QpType::Rc,
            pd,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            caps: QpCaps::default(),
            sq_sig_all: true,
        };
        let (qp, num) = world.create_qp(node, hca, ctx, new).unwrap();
        let mr = world.alloc_mr(node, hca, pd, 64, AccessFlags::all()).unwrap();
        (cq, qp, num, mr)
    };
    let (a, b) = (side(A), side(B));
    for ((node, hca), qp, peer, to) in [(A, a.1, b.2, B.1), (B, b.1, a.2, A.1)] {
        let gid = world.gid(to, 1, 0).unwrap();
        let init = ToInit { port: 1, pkey_index: 0, access: AccessFlags::all(), qkey: 0 };
        let rtr = ToRtr {
            dest_qp: peer,
            rq_psn: Psn::new(0),
            path: Path::to(gid, 1),
            mtu: Mtu::B1024,
            min_rnr_timer: RnrTimer::new(1).unwrap(),
            max_dest_rd_atomic: 4,
            alt: None,
        };
        let rts = ToRts {
            sq_psn: Psn::new(0),
            timeout: AckTimeout::new(14).unwrap(),
            retry: Retries::MOST,
            rnr_retry: Retries::MOST,
            max_rd_atomic: 4,
            alt: None,
            migration: Migration::Migrated,
        };
        for change in [Modify::Init(init), Modify::Rtr(rtr), Modify::Rts(rts)] {
            world.modify_qp(node, hca, qp, &change).unwrap();
        }
    }
    let word = Remote { addr: b.3.addr, rkey: b.3.rkey };
    Pair { world, qp: a.1, mr: a.3.key, cq: a.0, word }
}

impl Pair {
    fn add(&mut self, wr_id: u64) {
        let atomic = Atomic::FetchAdd { add: 1 };
        let data = Gather::One(Sge { mr: self.mr, at: 0, len: 8 });
        let op = Op::Atomic { at: self.word, atomic };
        let request = SendRequest { wr_id, op, data, flags: SendFlags::empty() };
        self.world.post_send(A.0, A.1, self.qp, true, request, &[]).unwrap();
    }

    fn happen(&mut self, events: usize) {
        for _ in 0..events {
            let Some(event) = self.world.next_event(Nanos::MAX) else { return };
            self.world.happen(event);
        }
    }

    /// Everything to its end: what was polled, and the log.
    fn finish(&mut self) -> (Vec<WorkCompletion>, Vec<u8>) {
        self.world.log = Log::memory();
        self.happen(usize::MAX);
        let mut out = vec![];
        self.world.poll_cq(A.0, A.1, self.cq, &mut out, 64).unwrap();
        (out, self.world.log.take())
    }
}

#[test]
fn a_state_put_back_goes_on_as_it_did() {
    // At every point of a run, packets on their way and timers set.
    for events in 0..20 {
        let mut pair = pair();
        (0..4).for_each(|n| pair.add(n));
        pair.happen(events);
        let kept = pair.world.state.clone();
        let first = pair.finish();
        assert_eq!(first.0.len(), 4);
        pair.add(99);
        pair.happen(3);
        pair.world.state.clone_from(&kept);
        assert_eq!(pair.finish(), first, "after {events} events");
    }
}
