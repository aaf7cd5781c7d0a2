//! Thousands of connections, made and ended in every way, and then a count of what is left: of this process' objects, of
//! its descriptors, and of the kernel's.
//!
//! `hw-churn [CONNECTIONS]`: each has a protection domain, memory, completion queues on a channel and queue pairs of its
//! own, on both sides. One in three is disconnected, one in three is dropped as it stands, as a crash would, and one in
//! three is given up before it is answered.

use std::process::ExitCode;
use std::time::{Duration, Instant};
use weft_hw::{Census, HwCm, HwContext, HwDevice, HwQp};
use weft_verbs::{
    AccessFlags, AckTimeout, CmEvent, CmId, ConnParams, ConnectionManager, Context, Device, Modify,
    ProtectionDomain, QpCaps, QpInit, QpType, QueuePair, Retries, RnrTimer, Service, ToInit,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const SERVICE: Service = Service(4_791);

fn main() -> ExitCode {
    let connections = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2_000);
    match churn(connections) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("hw-churn: {why}");
            ExitCode::FAILURE
        }
    }
}

fn churn(connections: u32) -> Result<()> {
    let began = Instant::now();
    // `librdmacm` opens the device for itself when it first sees it, and keeps it.
    lives(3)?;
    let (descriptors, objects) = (descriptors()?, kernel_objects());
    lives(connections)?;
    let left = Census::now();
    if left != Census::default() {
        return Err(format!("left behind: {left}").into());
    }
    // The kernel forgets connections some time after they ended.
    std::thread::sleep(Duration::from_secs(2));
    let (after, now) = (self::descriptors()?, kernel_objects());
    println!("descriptors {descriptors} before and {after} after; kernel: {objects} before, {now} after");
    if after != descriptors || now != objects {
        return Err("descriptors or objects of the kernel are left behind".into());
    }
    println!("{connections} connections in {:.0} s, nothing left", began.elapsed().as_secs_f64());
    Ok(())
}

/// Makes and ends so many connections in a context of their own.
fn lives(connections: u32) -> Result<()> {
    let device = HwDevice::find(None)?.ok_or("there is no RDMA device")?;
    let context = device.open()?;
    let name = context.address()?.to_string();
    let (active, passive) = (context.connection_manager()?, context.connection_manager()?);
    passive.listen(SERVICE)?;
    for n in 0..connections {
        connection(&context, (&active, &passive), &name, n)
            .map_err(|why| format!("connection {n}: {why}"))?;
        if n % 500 == 499 {
            println!("{} connections: {}", n + 1, Census::now());
        }
    }
    Ok(())
}

fn descriptors() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

/// The kernel's count of RDMA objects, of all processes; nothing where there is no tool to ask it.
fn kernel_objects() -> String {
    let shown = std::process::Command::new("rdma").args(["resource", "show"]).output();
    shown.map_or_else(|_| String::new(), |done| String::from_utf8_lossy(&done.stdout).trim().to_string())
}

fn queue_pair(context: &HwContext) -> Result<HwQp> {
    let pd = context.alloc_pd()?;
    let channel = context.create_channel()?;
    let cq = context.create_cq(16, Some(&channel))?;
    let (kind, srq, sq_sig_all) = (QpType::Rc, None, false);
    let caps = QpCaps { max_send_wr: 8, max_recv_wr: 8, ..QpCaps::default() };
    let qp = pd.create_qp(&QpInit { kind, send_cq: &cq, recv_cq: &cq, srq, caps, sq_sig_all })?;
    let access = AccessFlags::all();
    qp.modify(&Modify::Init(ToInit { port: 1, pkey_index: 0, access, qkey: 0 }))?;
    // A receive that is posted and never served holds its region.
    let mr = pd.alloc_mr(4_096, access)?;
    let into = [weft_verbs::Sge { mr: &mr, at: 0, len: 64 }];
    qp.post_recv(&[weft_verbs::RecvWr { wr_id: 1, data: &into }])?;
    Ok(qp)
}

fn params() -> Result<ConnParams<'static>> {
    Ok(ConnParams {
        private: b"churn",
        responder_resources: 4,
        initiator_depth: 4,
        timeout: AckTimeout::new(14).ok_or("an exponent")?,
        retry: Retries::new(2).ok_or("a count")?,
        rnr_retry: Retries::new(2).ok_or("a count")?,
        min_rnr_timer: RnrTimer::new(12).ok_or("a code")?,
        mtu: None,
        traffic_class: 0,
    })
}

fn next(cm: &HwCm, other: &HwCm, held: &mut Vec<CmEvent>) -> Result<CmEvent> {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if let Some(event) = cm.event() {
            return Ok(event);
        }
        held.extend(other.event());
        std::thread::yield_now();
    }
    Err("waited in vain for an event".into())
}

fn connection(context: &HwContext, (active, passive): (&HwCm, &HwCm), name: &str, n: u32) -> Result<()> {
    let mut held = Vec::new();
    let id = active.resolve(name, SERVICE)?;
    let resolved = next(active, passive, &mut held)?;
    if resolved != (CmEvent::Resolved { id }) {
        return Err(format!("expected a resolved address, saw {resolved:?}").into());
    }
    let ours = queue_pair(context)?;
    active.connect(id, &ours, &params()?)?;
    let request = loop {
        match next(passive, active, &mut held)? {
            CmEvent::Request { id, .. } => break id,
            // What earlier connections have to tell yet.
            _ => continue,
        }
    };
    if n % 3 == 2 {
        active.disconnect(id)?;
        return end(passive, request);
    }
    let theirs = queue_pair(context)?;
    passive.accept(request, &theirs, &params()?)?;
    while !matches!(next(active, passive, &mut held)?, CmEvent::Established { id: seen, .. } if seen == id) {}
    if n.is_multiple_of(3) {
        active.disconnect(id)?;
        return end(passive, request);
    }
    // Both sides as a crash leaves them: queue pairs gone, nobody told.
    drop((ours, theirs));
    active.disconnect(id)?;
    end(passive, request)
}

/// Ends the passive side's part, if the peer has not done so already.
fn end(cm: &HwCm, id: CmId) -> Result<()> {
    let _ = cm.disconnect(id);
    Ok(())
}
