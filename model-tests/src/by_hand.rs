//! Connections that are made by hand, where making them is not what is measured or explored.

use weft_sim::{SimContext, SimQp};
use weft_verbs::*;

/// A queue pair with its device.
pub(crate) type End<'a> = (&'a SimContext, &'a SimQp);

/// What the two ends of a connection agree on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub mtu: Mtu,
    pub rnr_timer: RnrTimer,
    pub rd_atomic: u8,
}

/// Connects two new queue pairs; what each lets its peer do is `access`.
pub(crate) fn connect(a: End<'_>, b: End<'_>, access: AccessFlags) -> Result<()> {
    let init = ToInit { port: 1, pkey_index: 0, access, qkey: 0 };
    let terms = Terms { mtu: Mtu::B2048, rnr_timer: RnrTimer::new(1).expect("a code"), rd_atomic: 1 };
    for ((_, qp), (at, peer)) in [(a, b), (b, a)] {
        qp.modify(&Modify::Init(init))?;
        join(qp, peer.num(), at.gid(1, 0)?, terms)?;
    }
    Ok(())
}

/// Brings an initialised queue pair to the state in which it sends, with time-outs that no healthy fabric reaches.
pub(crate) fn join(qp: &SimQp, peer: QpNum, at: Gid, terms: Terms) -> Result<()> {
    let Terms { mtu, rnr_timer, rd_atomic } = terms;
    let rtr = ToRtr {
        dest_qp: peer,
        rq_psn: Psn::new(0),
        path: Path::to(at, 1),
        mtu,
        min_rnr_timer: rnr_timer,
        max_dest_rd_atomic: rd_atomic,
        alt: None,
    };
    let rts = ToRts {
        sq_psn: Psn::new(0),
        timeout: AckTimeout::new(14).expect("an exponent"),
        retry: Retries::MOST,
        rnr_retry: Retries::FOREVER,
        max_rd_atomic: rd_atomic,
        alt: None,
        migration: Migration::Migrated,
    };
    [Modify::Rtr(rtr), Modify::Rts(rts)].iter().try_for_each(|change| qp.modify(change))
}
