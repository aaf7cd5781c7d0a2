//! Strong coherence for active caches (6.3.2): proxies keep documents with their versions, and before they serve one they ask the back
//! end's memory for its version: eight bytes by a one-sided read, however busy the back end is. Model version.

use crate::cluster::{Fails, Machine, run};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_protocols::ddss::{Ddss, DdssError, Model, Name, Spec};
use weft_verbs::{Nanos, Verbs};

const PROXIES: u32 = 3;
const DOCUMENTS: u64 = 4;
const SPEC: Spec = Spec { size: 4_096, model: Model::Version };
const REQUESTS: u64 = 60;

/// The name of a document whose home is the back end, the last node.
fn name(document: u64) -> Name {
    Name(document * u64::from(PROXIES + 1) + u64::from(PROXIES))
}

/// A proxy's copies.
#[derive(Default)]
struct Cache {
    copies: BTreeMap<u64, (u64, Vec<u8>)>,
    hits: u64,
}

impl Cache {
    /// Serves a document: the copy, if it is the latest version; otherwise the copy is made anew. Returns its version.
    async fn serve<V: Verbs>(&mut self, ddss: &Ddss<V>, document: u64) -> Result<u64, DdssError> {
        let segment = ddss.open(name(document), SPEC).await?;
        let (held, mut copy) = match self.copies.remove(&document) {
            Some((version, copy)) => (Some(version), copy),
            None => (None, vec![0; SPEC.size as usize]),
        };
        let version = match ddss.get_if_newer(&segment, held, &mut copy).await? {
            Some(newer) => newer,
            None => {
                self.hits += 1;
                held.unwrap_or_default()
            }
        };
        self.copies.insert(document, (version, copy));
        Ok(version)
    }
}

/// What a node has counted: requests that were served, of those copies that were good, and those that were stale.
type Served = (u64, u64, u64);

/// The back end updates documents; `updated` has the versions whose updates have completed, for the judgement.
async fn node(
    node: u32,
    machine: Machine,
    updated: Rc<[Cell<u64>; DOCUMENTS as usize]>,
) -> Result<Served, Fails> {
    let Machine { rt, ddss } = machine;
    if node == PROXIES {
        for update in 0..40u64 {
            rt.sleep(Nanos::from_micros(25)).await;
            let document = update % 2;
            let segment = ddss.open(name(document), SPEC).await?;
            let version = ddss.put(&segment, &[update as u8; SPEC.size as usize]).await?;
            updated[document as usize].set(version.unwrap_or_default());
        }
        return Ok((0, 0, 0));
    }
    let (mut cache, mut stale) = (Cache::default(), 0);
    for request in 0..REQUESTS {
        rt.sleep(Nanos::from_micros(10)).await;
        let document = request % DOCUMENTS;
        let completed = updated[document as usize].get();
        stale += u64::from(cache.serve(&ddss, document).await? < completed);
    }
    Ok((REQUESTS, cache.hits, stale))
}

fn served() -> Result<Served, Fails> {
    let updated = Rc::new([const { Cell::new(0) }; DOCUMENTS as usize]);
    let served = run(PROXIES + 1, |which, machine| node(which, machine, Rc::clone(&updated)))?;
    Ok(served.into_iter().fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2)))
}

pub fn show() -> Result<String, Fails> {
    let (served, hits, stale) = served()?;
    Ok(format!("{served} documents served, {hits} of them without moving data, {stale} stale"))
}

#[test]
fn no_proxy_serves_what_had_been_updated_and_most_requests_move_no_data() {
    let (served, hits, stale) = served().expect("a run that ends");
    assert_eq!((served, stale), (REQUESTS * u64::from(PROXIES), 0));
    assert!(hits > served / 3 && hits < served, "{hits} of {served}");
}
