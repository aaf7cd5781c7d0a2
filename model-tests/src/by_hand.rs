//! Connections that are made by hand, where making them is not what is measured.

use sim_backend::{SimContext, SimQp};
use verbs_trait::*;

/// A queue pair with its device.
pub(crate) type End<'a> = (&'a SimContext, &'a SimQp);

/// Connects two queue pairs; what each lets its peer do is `access`.
pub(crate) fn connect(a: End<'_>, b: End<'_>, access: AccessFlags) -> Result<()> {
    join(a.1, b, access)?;
    join(b.1, a, access)
}

/// Brings a queue pair to the state in which it sends, with time-outs that no healthy fabric reaches.
fn join(qp: &SimQp, (at, peer): End<'_>, access: AccessFlags) -> Result<()> {
    let init = ToInit { port: 1, pkey_index: 0, access, qkey: 0 };
    let rtr = ToRtr {
        dest_qp: peer.num(),
        rq_psn: Psn::new(0),
        path: Path::to(at.gid(1, 0)?, 1),
        mtu: Mtu::B2048,
        min_rnr_timer: RnrTimer::new(1).expect("a code"),
        max_dest_rd_atomic: 1,
        alt: None,
    };
    let rts = ToRts {
        sq_psn: Psn::new(0),
        timeout: AckTimeout::new(14).expect("an exponent"),
        retry: Retries::MOST,
        rnr_retry: Retries::FOREVER,
        max_rd_atomic: 1,
        alt: None,
        migration: Migration::Migrated,
    };
    [Modify::Init(init), Modify::Rtr(rtr), Modify::Rts(rts)].iter().try_for_each(|change| qp.modify(change))
}
