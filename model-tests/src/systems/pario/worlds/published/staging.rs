//! A reading of the paper: a place in staging that was offered is the server's again after a time-out.
//!
//! pvfs2-quadrics.txt, 4.2 and 5.1, bound a server's staging and do not say when a place comes back whose client is slow. Here the
//! time-out of an offer has always passed when the next client asks: the place is offered to that one. The first client's RDMA
//! write, which nothing recalls, lands among the second one's bytes.

use super::super::super::content;
use super::super::super::history::{Call, Cells, What};
use super::super::{InOrder, oracles};
use super::{Came, End, Teller};
use crate::harness::{Member, Model, Recorder, Shape};
use weft_protocols::rt::Label;
use weft_protocols::transport::Rank;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, Wait};

const LEN: usize = content::SHORTEST as usize;
const FILE: u64 = 1;
const SERVER: Rank = Rank::from_index(0);

// From clients.
const WRITE: u8 = 0;
const MOVED: u8 = 1;
const READ: u8 = 2;
// From the server.
const OFFER: u8 = 3;
const WRITTEN: u8 = 4;
const GIVEN_UP: u8 = 5;
const BYTES: u8 = 6;

/// Node 0 keeps a cell for each other node, which writes it.
pub(super) struct StagingBack;

impl Model for StagingBack {
    type State = ();
    type Oracles = InOrder;

    fn shape(&self) -> Shape {
        Shape { nodes: 3, wait: Wait::Poll, home: None, one_by_one: true }
    }

    fn oracles(&self) -> InOrder {
        oracles()
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder<InOrder>) {
        let [server, clients @ ..] = members else { return };
        server.rt.spawn(serve(End::of(server)));
        for (node, client) in (1..).zip(clients) {
            client.rt.spawn(write(Teller { node, recorder: recorder.clone() }, End::of(client)));
        }
    }
}

/// One place in staging, for one client at a time.
async fn serve(mut end: End) {
    let place = end.mesh.alloc(LEN, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE);
    let place = place.expect("a few bytes");
    end.mesh.label(&place, 0..LEN, Label::new("staging")).keep();
    let (mut file, mut offered_to) = ([[0; LEN]; 3], None);
    while let Some(Came::Message(from, kind, _)) = end.next().await {
        let cell = &mut file[from.index()];
        match kind {
            WRITE => {
                let late: Option<Rank> = offered_to.replace(from);
                late.into_iter().for_each(|late| end.send(late, GIVEN_UP, &[]));
                end.send(from, OFFER, &place.remote(0..LEN).expect("all of it").to_bytes());
            }
            MOVED if offered_to == Some(from) => {
                offered_to = None;
                place.read(0, cell).expect("all of it");
                end.send(from, WRITTEN, &[]);
            }
            READ => end.send(from, BYTES, cell),
            // Of a place that is another one's by now.
            _ => {}
        }
    }
}

/// Writes the node's cell, and reads it if that was done.
async fn write(teller: Teller, mut end: End) {
    let first = u64::from(teller.node);
    let cells = Cells { file: FILE, first, cells: 1, rows: 1, stride: 0, bytes: LEN as u32 };
    let mut bytes = [0; LEN];
    content::fill(teller.id(0), FILE, first, &mut bytes);
    teller.happens(0, What::Calls(Call::Write(cells)));
    end.send(SERVER, WRITE, &[]);
    while let Some(Came::Message(_, kind, has)) = end.next().await {
        match kind {
            OFFER => {
                let Ok(place) = has.try_into().map(RemoteSlice::from_bytes) else { return };
                // One that failed would be told by its client; none fails here.
                let _ = end.mesh.write(SERVER, place, &bytes).await;
                end.send(SERVER, MOVED, &[]);
            }
            GIVEN_UP => return teller.happens(0, What::Dropped),
            WRITTEN => {
                teller.happens(0, What::Done);
                teller.happens(1, What::Calls(Call::Read(cells)));
                end.send(SERVER, READ, &[]);
            }
            _ => return teller.happens(1, What::Has(content::runs(FILE, first, &has, LEN))),
        }
    }
}
