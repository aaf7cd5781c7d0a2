//! What a backend may lack: it refuses by name what it has not, and keeps its word on what it has.

use super::datagrams::datagram_qp;
use super::prelude::*;
use std::task::{Context as TaskContext, Poll, Waker};

cases! { "optional":
    what_a_device_lacks_it_refuses_by_name, "contract, Caps";
    a_connection_moves_to_its_alternate_path_when_asked, "17.2.8", needs Caps::APM.union(Caps::MULTI_PORT);
    each_port_carries_traffic, "3.5.1", needs Caps::MULTI_PORT;
    a_byte_stream_carries_bytes_both_ways, "contract, OutOfBand", needs Caps::OUT_OF_BAND;
}

/// Checks that a call answers "unsupported" and names the capability.
fn names<T>(answer: Result<T>, cap: Caps) -> Outcome {
    match answer {
        Err(VerbsError::Unsupported(named)) if named.contains(cap) => Ok(()),
        Err(other) => Err(Failure::new(format!("a call that needs {cap} answered: {other}"))),
        Ok(_) => Err(Failure::new(format!("a call that needs {cap}, which is missing, succeeded"))),
    }
}

fn what_a_device_lacks_it_refuses_by_name<H: Harness>(lab: &mut Lab<'_, H>) -> Outcome {
    let setup = Setup::new(lab);
    let lacking = Caps::all() - lab.harness.capabilities();
    let Pair { a, b } = lab.pair_with(&setup)?;
    let path = a.path_to(&b)?;
    if lacking.contains(Caps::UD) {
        names(a.pd.create_ah(&path), Caps::UD)?;
        names(datagram_qp(&a, None, &setup), Caps::UD)?;
    }
    if lacking.contains(Caps::SRQ) {
        names(a.pd.create_srq(8, 1), Caps::SRQ)?;
    }
    if lacking.contains(Caps::APM) {
        let alt = Some(AltPath { path, timeout: setup.ack });
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
    }
    if lacking.contains(Caps::OUT_OF_BAND) {
        names(a.ctx.out_of_band(), Caps::OUT_OF_BAND)?;
    }
    if lacking.contains(Caps::BROUGHT_MEMORY)
        && let Some(memory) = lab.harness.brought_memory(64)
    {
        names(a.pd.register(memory, ALL_RIGHTS), Caps::BROUGHT_MEMORY)?;
    }
    Ok(())
}

/// The way between two ends by their second ports.
fn second_path<V: Verbs>(from: &End<V>, to: &End<V>) -> Outcome<Path> {
    let mut path = Path::to(to.ctx.gid(2, to.gid_index)?, 2);
    path.dlid = to.ctx.port_attr(2)?.lid;
    path.sgid_index = from.gid_index;
    Ok(path)
}

fn a_connection_moves_to_its_alternate_path_when_asked<H: Harness>(lab: &mut Lab<'_, H>) -> Outcome {
    let setup = Setup::new(lab);
    let Pair { a, b } = lab.pair_with(&setup)?;
    for (end, peer) in [(&a, &b), (&b, &a)] {
        let alt = Some(AltPath { path: second_path(end, peer)?, timeout: setup.ack });
        let migration = Some(Migration::Rearm);
        end.qp.modify(&Modify::Update(Update { alt, migration, ..Update::default() }))?;
    }
    a.write(1, 0..8, b.word(0)?)?;
    lab.done(&a.sends, 1)?;
    b.write(2, 0..8, a.word(0)?)?;
    lab.done(&b.sends, 2)?;
    check_eq!(a.qp.query()?.migration, Migration::Armed, "migration after both sides rearmed");
    let migration = Some(Migration::Migrated);
    a.qp.modify(&Modify::Update(Update { migration, ..Update::default() }))?;
    a.write(3, 0..8, b.word(0)?)?;
    lab.done(&a.sends, 3)?;
    check_eq!(lab.async_event(&b.ctx)?, AsyncEvent::PathMigrated(b.qp.num()), "the peer's event");
    Ok(())
}

fn each_port_carries_traffic<H: Harness>(lab: &mut Lab<'_, H>) -> Outcome {
    let setup = Setup::new(lab);
    let (mut a, mut b) = (lab.end(0, &setup)?, lab.end(1, &setup)?);
    (a.port, b.port) = (2, 2);
    a.connect(&b, &setup, 0)?;
    b.connect(&a, &setup, 1)?;
    a.write(1, 0..8, b.word(0)?)?;
    lab.done(&a.sends, 1)?;
    Ok(())
}

fn a_byte_stream_carries_bytes_both_ways<H: Harness>(lab: &mut Lab<'_, H>) -> Outcome {
    const PORT: Service = Service(7_000);
    lab.at_least(2)?;
    let mut cx = TaskContext::from_waker(Waker::noop());
    let io = |e: std::io::Error| Failure::new(format!("a stream failed: {e}"));
    let mut listener = lab.ctx(1).out_of_band()?.listen(PORT)?;
    let name = lab.machines[1].name.clone();
    let mut near = lab.ctx(0).out_of_band()?.connect(&name, PORT)?;
    let mut far = lab.until("a stream to arrive", || match listener.poll_accept(&mut cx) {
        Poll::Ready(stream) => Ok(Some(stream.map_err(io)?)),
        Poll::Pending => Ok(None),
    })?;
    let data = pattern(50_000, 1);
    for back in [false, true] {
        let (from, to) = if back { (&mut far, &mut near) } else { (&mut near, &mut far) };
        let (mut sent, mut seen) = (0, Vec::new());
        lab.until("a stream's bytes", || {
            if sent < data.len()
                && let Poll::Ready(n) = from.poll_write(&mut cx, &data[sent..])
            {
                sent += n.map_err(io)?;
            }
            let mut chunk = [0; 4_096];
            while let Poll::Ready(n) = to.poll_read(&mut cx, &mut chunk) {
                let n = n.map_err(io)?;
                check!(n > 0, "the stream ended after {} bytes", seen.len());
                seen.extend_from_slice(&chunk[..n]);
            }
            Ok((seen.len() == data.len()).then_some(()))
        })?;
        check!(seen == data, "the stream changed");
    }
    Ok(())
}
