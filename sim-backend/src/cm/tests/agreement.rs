//! Whatever the network does, both ends agree.

use super::*;
use proptest::prelude::*;

/// What one end saw of a connection: at most one outcome, and an end only after it.
fn check_story(events: &[CmEvent], id: CmId) {
    let (mut outcome, mut ended) = (0, 0);
    for event in events {
        match event {
            CmEvent::Established { id: i, .. } if *i == id => {
                assert_eq!(ended, 0, "{events:?}");
                outcome += 1;
            }
            CmEvent::Rejected { id: i, .. } | CmEvent::Unreachable { id: i } if *i == id => {
                outcome += 1;
                ended += 1;
            }
            CmEvent::Disconnected { id: i } if *i == id => ended += 1,
            _ => {}
        }
    }
    assert!(outcome <= 1 && ended <= 1, "{events:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_loss_doubling_and_order_ends_in_agreement(seed: u64, loss in 0u32..600_000, act in 0u64..6) {
        let mut choice = Seeded::new(seed);
        let (mut net, a) = Net::pair();
        net.connect(0, a, qp(10));
        let (mut b, mut ended, mut steps) = (None, false, 0);
        loop {
            steps += 1;
            prop_assert!(steps < 10_000, "it does not come to rest");
            if let Some(CmEvent::Request { id, .. }) =
                net.sides[1].events.iter().find(|e| matches!(e, CmEvent::Request { .. })).cloned()
            {
                prop_assert!(b.is_none_or(|b| b == id), "one attempt makes one request");
                if b.is_none() {
                    b = Some(id);
                    // It may be over already; then the answer is refused.
                    let _ = if act == 1 {
                        net.act(1, |m, now, io| m.reject(now, APP, id, b"", io))
                    } else {
                        net.accept(1, id, qp(20))
                    };
                }
            }
            if !ended && act >= 2 && choice.chance("end", 100_000) {
                ended = true;
                let (node, id) = if act % 2 == 0 { (0, Some(a)) } else { (1, b) };
                if let Some(id) = id {
                    let _ = net.act(node, |m, now, io| m.disconnect(now, APP, id, io));
                }
            }
            if net.flying.is_empty() || choice.chance("timer", 50_000) {
                if !net.tick() && net.flying.is_empty() {
                    break;
                }
                continue;
            }
            let at = choice.pick("which", net.flying.len() as u64) as usize;
            if choice.chance("loss", loss) {
                net.flying.remove(at);
            } else {
                if choice.chance("double", 100_000) {
                    let copy = net.flying[at].clone();
                    net.flying.push(copy);
                }
                net.deliver(at);
            }
        }
        check_story(&net.sides[0].events, a);
        if let Some(b) = b {
            check_story(&net.sides[1].events, b);
        }
        // The passive end's is the one that was answered: a copy of the request that comes after all repetitions have ended makes
        // another one, which nobody has accepted.
        let is_known = |node: usize, id: CmId| {
            let conn = net.sides[node].manager.conns.get(&CommId(id.0 as u32));
            conn.is_some_and(|conn| conn.is_known())
        };
        let stands = |node: usize| if node == 0 { is_known(0, a) } else { b.is_some_and(|b| is_known(1, b)) };
        if stands(0) && stands(1) {
            let (qa, qb) = (net.qp(0, 10), net.qp(1, 20));
            prop_assert_eq!((qa.state(), qb.state()), (QpState::Rts, QpState::Rts));
            prop_assert_eq!((qa.rtr().rq_psn, qb.rtr().rq_psn), (qb.rts().sq_psn, qa.rts().sq_psn));
        }
        if loss == 0 && !ended && act != 1 {
            prop_assert!(stands(0) && stands(1));
        }
        if ended || act == 1 || !stands(0) {
            prop_assert!(net.sides[0].manager.conns.len() <= 1 && net.sides[1].manager.conns.len() <= 1);
        }
    }
}
