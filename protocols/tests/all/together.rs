//! All five systems on one mesh.

use crate::common::{Cluster, ms, sockets};
use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::ddss::{Ddss, Model, Name, Spec};
use weft_protocols::dsm::Dsm;
use weft_protocols::locks::{LockConfig, LockKey, LockService, Mode, Scheme};
use weft_protocols::pario::{FsConfig, Pario, Storage};
use weft_protocols::sdp::SdpOptions;
use weft_verbs::Wait;

#[test]
fn a_program_uses_all_systems_over_one_mesh() {
    let files = FsConfig { storage: Storage::Memory { most: 1 << 20 }, ..FsConfig::new(1) };
    let cluster = Cluster::with_messages(2, 1, Wait::Notify, files.max_message().max(16 << 10));
    let uses = Rc::new(Cell::new(0));
    for member in &cluster.members {
        let (rt, mesh) = (&member.rt, &member.mesh);
        let locks = LockService::start(rt, mesh, LockConfig::new(Scheme::Ncosed, 2)).expect("locks");
        let segments = Ddss::start(rt, mesh).expect("segments");
        let (_, sdp) = sockets(member, SdpOptions::default());
        let memory = Dsm::start(rt, mesh).expect("shared memory");
        let pario = Pario::start(rt, mesh, files).expect("files");
        let (rt, uses) = (rt.clone(), Rc::clone(&uses));
        drop(rt.spawn(async move {
            let _they_run = (sdp, memory);
            let held = locks.client().lock(LockKey::named("all"), Mode::Exclusive).await.expect("a lock");
            let spec = Spec { size: 64, model: Model::Write };
            segments.open(Name(1), spec).await.expect("a segment");
            if let Ok(file) = pario.create("file", None).await {
                pario.close(file).await.expect("it is open");
            }
            pario.open("file").await.expect("one of both has made it");
            drop(held);
            uses.set(uses.get() + 1);
        }));
    }
    cluster.run(ms(100));
    assert_eq!(uses.get(), 2);
}
