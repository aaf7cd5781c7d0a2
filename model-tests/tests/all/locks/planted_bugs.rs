//! The oracles can fail: clients with a bug, planted among sound ones, are caught in a running world.

use super::scenarios::calm;
use weft_check::history::{ClientId, RequestId};
use weft_check::record::Record;
use weft_check::run::{Report, RunOptions, World};
use weft_check::scenario::Span;
use weft_check::systems::locks::history::{Event, What};
use weft_check::systems::locks::{LockRecorder, Locks};
use weft_protocols::locks::Scheme;
use weft_protocols::locks::{LockKey, Mode};
use weft_verbs::*;

/// The lock that everybody wants.
const KEY: LockKey = LockKey(0);

/// What a rogue client writes in the book.
struct Pen {
    book: LockRecorder,
    rt: weft_protocols::rt::Rt<weft_sim::Sim>,
    client: ClientId,
}

impl Pen {
    fn of(world: &World<Locks>, node: u32) -> Pen {
        let rt = world.machines()[node as usize].place.rt.clone();
        Pen { book: world.recorder().clone(), rt, client: ClientId { node, index: 99 } }
    }

    fn writes(&self, number: u32, what: What) {
        let request = RequestId { client: self.client, number };
        self.book.record(Event { at: self.rt.now(), request, key: KEY, mode: Mode::Exclusive, what });
    }
}

/// Runs a world of sound clients, and of what `plant` adds to it.
fn run_with(scheme: Scheme, plant: impl FnOnce(&mut World<Locks>)) -> Report {
    let mut scenario = calm(scheme);
    scenario.workload.change::<Locks>(|work| work.keys = weft_check::systems::locks::workload::Keys::Single);
    scenario.workload.change::<Locks>(|work| {
        work.hold = "5us".parse().map(|Span(time)| weft_check::scenario::Spread::fixed(time)).unwrap()
    });
    scenario.run.settle = "50ms".parse().unwrap();
    let mut world = World::<Locks>::seeded(&scenario, 1).unwrap_or_else(|error| panic!("{error}"));
    world.start_clients();
    plant(&mut world);
    world.run(RunOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn broken(report: &Report) -> Vec<&'static str> {
    report.checks.iter().filter(|check| !check.held).map(|check| check.oracle).collect()
}

const ASKS: What = What::Requested { deadline: None };
const GRANTED: What = What::Granted { token: None };

#[test]
fn a_client_that_holds_without_a_grant_breaks_mutual_exclusion() {
    let report = run_with(Scheme::Ncosed, |world| {
        let pen = Pen::of(world, 1);
        world.start(1, async move {
            for number in 0..200 {
                pen.writes(number, ASKS);
                // It should have awaited `lock` here.
                pen.writes(number, GRANTED);
                pen.rt.sleep(Nanos::from_micros(20)).await;
                pen.writes(number, What::Released);
            }
        });
    });
    assert_eq!(broken(&report), ["mutual exclusion"]);
}

#[test]
fn a_client_that_takes_its_deadline_for_a_grant_breaks_mutual_exclusion() {
    for scheme in Scheme::ALL {
        let report = run_with(scheme, |world| {
            let pen = Pen::of(world, 2);
            let locks = world.machines()[2].service.client();
            world.start(2, async move {
                for number in 0..100 {
                    pen.writes(number, ASKS);
                    let soon = pen.rt.now() + Nanos::from_micros(30);
                    let granted = locks.lock_until(KEY, Mode::Exclusive, soon).await;
                    pen.writes(number, GRANTED);
                    pen.rt.sleep(Nanos::from_micros(10)).await;
                    pen.writes(number, What::Released);
                    if let Ok(grant) = granted {
                        grant.unlock().await;
                    }
                }
            });
        });
        // A made-up grant has no token either, where there are tokens.
        assert_eq!(broken(&report)[0], "mutual exclusion", "{scheme}");
    }
}

#[test]
fn a_client_that_never_unlocks_stops_progress() {
    for scheme in Scheme::ALL {
        let report = run_with(scheme, |world| {
            let pen = Pen::of(world, 0);
            let locks = world.machines()[0].service.client();
            world.start(0, async move {
                pen.writes(0, ASKS);
                if let Ok(grant) = locks.lock(KEY, Mode::Exclusive).await {
                    pen.writes(0, What::Granted { token: grant.token() });
                    pen.rt.sleep_until(Nanos::MAX).await;
                    grant.unlock().await;
                }
            });
        });
        assert_eq!(broken(&report), ["progress"], "{scheme}");
        assert!(report.violations.iter().any(|violation| violation.text.contains("waits for lock")));
    }
}

#[test]
fn a_grant_that_is_kept_in_secret_is_a_leak() {
    for scheme in Scheme::ALL {
        let report = run_with(scheme, |world| {
            // A lock that nobody else wants, so that nobody waits for it.
            let locks = world.machines()[3].service.client();
            world.start(3, async move {
                let grant = locks.lock(LockKey(77), Mode::Exclusive).await;
                std::mem::forget(grant);
            });
        });
        assert!(broken(&report).contains(&"no leaks"), "{scheme}: {:?}", broken(&report));
    }
}

/// A receive buffer that is looked at before its message is known to be there.
fn impatient(ctx: &weft_sim::SimContext) -> Result<()> {
    let (pd, cq) = (ctx.alloc_pd()?, ctx.create_cq(1, None)?);
    let (kind, caps) = (QpType::Rc, QpCaps::default());
    let qp = pd.create_qp(&QpInit { kind, send_cq: &cq, recv_cq: &cq, srq: None, caps, sq_sig_all: true })?;
    let access = AccessFlags::LOCAL_WRITE;
    qp.modify(&Modify::Init(ToInit { port: 1, pkey_index: 0, access, qkey: 0 }))?;
    let mr = pd.alloc_mr(64, access)?;
    qp.post_recv(&[RecvWr { wr_id: 1, data: &[Sge { mr: &mr, at: 0, len: 64 }] }])
        .map_err(|refused| refused.why)?;
    mr.load(0).map(drop)
}

#[test]
fn a_look_into_a_posted_buffer_is_reported_with_the_task_that_took_it() {
    let report = run_with(Scheme::Srsl, |world| {
        let ctx = world.fabric().devices(weft_sim::NodeId(2))[0].open().unwrap();
        world.start(2, async move { impatient(&ctx).unwrap() });
    });
    assert_eq!(broken(&report), ["sanitizer"]);
    let [only] = &report.violations[..] else { panic!("{:?}", report.violations) };
    let text = &only.text;
    let (second, first) = text.split_once("; ").unwrap();
    assert!(second.contains("n2 task ") && second.contains(" reads 8 bytes"), "{text}");
    assert!(first.starts_with("n2 task ") && first.contains(" recv wr=1 of qp"), "{text}");
}
