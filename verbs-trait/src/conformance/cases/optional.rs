//! What a backend may lack: it refuses by name what it has not, and keeps its word on what it has.

use super::datagrams::datagram_qp;
use super::prelude::*;

cases! { "optional":
    what_a_device_lacks_it_refuses_by_name, "contract, Caps";
    each_port_carries_traffic, "3.5.1", needs Caps::MULTI_PORT;
}

/// Checks that a call answers "unsupported" and names the capability.
fn names<T>(answer: Result<T>, cap: Caps) -> Outcome {
    match answer {
        Err(VerbsError::Unsupported(named)) if named.contains(cap) => Ok(()),
        Err(other) => Err(Failure::new(format!("a call that needs {cap} answered: {other}"))),
        Ok(_) => Err(Failure::new(format!("a call that needs {cap}, which is missing, succeeded"))),
    }
}

fn what_a_device_lacks_it_refuses_by_name<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let lacking = Caps::all() - bed.harness.capabilities();
    let Pair { a, b } = bed.pair_with(&setup)?;
    let path = a.path_to(&b)?;
    if lacking.contains(Caps::UD) {
        names(a.pd.create_ah(&path), Caps::UD)?;
        names(datagram_qp(&a, None, &setup), Caps::UD)?;
    }
    if lacking.contains(Caps::SRQ) {
        names(a.pd.create_srq(8, 1), Caps::SRQ)?;
    }
    if lacking.contains(Caps::APM) {
        let alt = Some(AltPath { path, pkey_index: 0, timeout: setup.ack });
        let migration = Some(Migration::Rearm);
        names(a.qp.modify(&Modify::Update(Update { alt, ..Update::default() })), Caps::APM)?;
        names(a.qp.modify(&Modify::Update(Update { migration, ..Update::default() })), Caps::APM)?;
        a.qp.modify(&Modify::Reset)?;
        a.qp.modify(&a.to_init(&setup))?;
        let Modify::Rtr(rtr) = a.to_rtr(&b, &setup, 0)? else { unreachable!("to_rtr makes an Rtr") };
        names(a.qp.modify(&Modify::Rtr(ToRtr { alt, ..rtr })), Caps::APM)?;
        a.qp.modify(&Modify::Rtr(rtr))?;
        let Modify::Rts(rts) = a.to_rts(&setup, 0) else { unreachable!("to_rts makes an Rts") };
        names(a.qp.modify(&Modify::Rts(ToRts { alt, ..rts })), Caps::APM)?;
        names(a.qp.modify(&Modify::Rts(ToRts { migration: Migration::Armed, ..rts })), Caps::APM)?;
        a.qp.modify(&Modify::Rts(rts))?;
    }
    if lacking.contains(Caps::CQ_RESIZE) {
        names(a.sends.resize(64), Caps::CQ_RESIZE)?;
    }
    if lacking.contains(Caps::SOLICITED) {
        names(a.sends.arm(Arm::Solicited), Caps::SOLICITED)?;
    }
    if lacking.contains(Caps::SQD) {
        names(a.qp.modify(&Modify::Sqd { notify: false }), Caps::SQD)?;
    }
    if lacking.contains(Caps::ATOMICS) {
        names(a.fetch_add(1, 0, b.word(0)?, 1).map_err(|e| e.why), Caps::ATOMICS)?;
        let access = AccessFlags::REMOTE_ATOMIC;
        names(
            a.qp.modify(&Modify::Update(Update { access: Some(access), ..Update::default() })),
            Caps::ATOMICS,
        )?;
        a.qp.modify(&Modify::Reset)?;
        names(a.qp.modify(&a.to_init(&Setup { access, ..setup })), Caps::ATOMICS)?;
    }
    if lacking.contains(Caps::OUT_OF_BAND) {
        names(a.ctx.out_of_band(), Caps::OUT_OF_BAND)?;
    }
    if lacking.contains(Caps::DISK) {
        names(a.ctx.disk(), Caps::DISK)?;
    }
    if lacking.contains(Caps::BROUGHT_MEMORY)
        && let Some(memory) = bed.harness.brought_memory(64)
    {
        names(a.pd.register(memory, ALL_RIGHTS), Caps::BROUGHT_MEMORY)?;
    }
    Ok(())
}

fn each_port_carries_traffic<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let setup = Setup::new(bed);
    let (mut a, mut b) = (bed.end(0, &setup)?, bed.end(1, &setup)?);
    (a.port, b.port) = (2, 2);
    a.connect(&b, &setup, 0)?;
    b.connect(&a, &setup, 1)?;
    a.write(1, 0..8, b.word(0)?)?;
    bed.done(&a.sends, 1)?;
    Ok(())
}
