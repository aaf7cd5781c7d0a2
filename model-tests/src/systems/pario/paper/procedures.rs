//! Table 3: PVFS2's own procedures for creating and resizing a file, which are not this project's (7.3).
//!
//! Creation makes a metafile, the data files on all servers, the metafile's attributes and the entry, one after the other, and each
//! server syncs each step (3). A resize asks all servers at once. In a collective call of MPI-IO the first process does it, tells the
//! others by a broadcast, and they look a new file up. Requests are messages of the mesh (Elan4) or of byte streams (TCP).

use super::cluster::cluster;
use super::primitives::{fill, read, write};
use crate::paper::{Fitted, Machine, PaperError, Row, X, refused};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, Rank};
use weft_sim::profile::Profile;
use weft_sim::{Sim, SimStream};
use weft_verbs::{
    Context, Disk, DiskBuffer, DiskCall, DiskRequest, Nanos, ObjectName, OutOfBand, Service, StreamListener,
    Verbs, Work,
};

/// Two servers, of data and of metadata (7.3).
const SERVERS: u32 = 2;
const CLIENTS: u32 = 6;

/// What a step's sync takes: fitted to creation by one client by Elan4.
const SYNC: Nanos = Nanos(6_828_000);
/// Work of a request at its client, and as much at its server: fitted to resizing by one client by Elan4.
const REQUEST: Nanos = Nanos(44_500);
/// Work of a message by TCP beside what Table 2 has: fitted to resizing by one client by TCP.
const TCP: Nanos = Nanos(3_500);
/// One level of MPI's broadcast: a message by TCP (Table 2).
const LEVEL: Nanos = Nanos(23_920);

/// How often a client looks whether the broadcast has come.
const LOOK: Nanos = Nanos::from_micros(1);

/// Bytes of a request, and of its answer.
const LEN: usize = 64;
const CHANNEL: Channel = Channel(0);
const PORT: Service = Service(7_100);
const BEGIN: Nanos = Nanos::from_millis(50);
const END: Nanos = Nanos::from_secs(1);

/// The table's cells: creation and resizing, by TCP and by Elan4, for 1 to 6 clients, in milliseconds.
const PAPER: [(&str, [f64; 6], [f64; 6]); 2] = [
    (
        "create",
        [28.114, 28.401, 28.875, 28.892, 29.481, 29.611],
        [27.669, 28.248, 28.750, 28.710, 29.123, 29.410],
    ),
    ("resize", [0.192, 0.248, 0.330, 0.274, 0.331, 0.338], [0.141, 0.187, 0.201, 0.180, 0.226, 0.213]),
];

/// What was fitted here.
pub(super) fn fitted() -> [Fitted; 3] {
    let one = |name: &str, value: Nanos, source: &str| Fitted {
        name: name.to_string(),
        value: value.0,
        unit: "ns",
        source: source.to_string(),
    };
    [
        one("procedures.sync", SYNC, "a synced step: creation by one client by Elan4"),
        one(
            "procedures.request",
            REQUEST,
            "work of a request at either end: resizing by one client by Elan4",
        ),
        one("procedures.tcp", TCP, "work of a message by TCP: resizing by one client by TCP"),
    ]
}

/// A client's way to a server.
enum Way {
    Mesh(Mesh<Sim>, Rank),
    Stream(SimStream),
}

/// A client.
struct Client {
    rt: Rt<Sim>,
    ways: Vec<Way>,
    inbox: Inbox,
}

impl Client {
    /// Asks some servers at once, and waits until all have answered.
    async fn ask(&mut self, servers: &[usize], syncs: bool) -> Option<()> {
        let request = [u8::from(syncs); LEN];
        for &server in servers {
            self.rt.spend(Work::Compute(REQUEST));
            match &mut self.ways[server] {
                Way::Mesh(mesh, rank) => mesh.send(*rank, CHANNEL, &request).ok()?,
                Way::Stream(stream) => {
                    self.rt.spend(Work::Compute(TCP));
                    write(stream, &request).await?;
                }
            }
        }
        for &server in servers {
            match &mut self.ways[server] {
                Way::Mesh(..) => drop(self.inbox.recv().await?),
                Way::Stream(stream) => read(stream, LEN).await?,
            }
        }
        Some(())
    }

    async fn create(&mut self) -> Option<()> {
        // Metafile, data files, attributes, entry.
        for servers in [&[0][..], &[0, 1], &[0], &[0]] {
            self.ask(servers, true).await?;
        }
        Some(())
    }
}

/// A server carries a request out.
async fn served(rt: &Rt<Sim>, disk: &<Sim as Verbs>::Disk, syncs: bool) {
    rt.spend(Work::Compute(REQUEST));
    if !syncs {
        return;
    }
    let object = ObjectName(1);
    for call in
        [DiskCall::Write { object, at: 0, from: DiskBuffer::Owned(vec![1; LEN]) }, DiskCall::Sync(object)]
    {
        let mut request = disk.begin(call);
        poll_fn(|cx| request.poll_end(cx)).await;
    }
}

fn serve(Machine { rt, mesh }: &Machine) -> Result<(), PaperError> {
    let disk = rt.context().disk().map_err(refused)?;
    let mut inbox = mesh.open(CHANNEL).map_err(refused)?;
    let (by_mesh, disk_too, mesh) = (rt.clone(), disk.clone(), mesh.clone());
    drop(rt.spawn(async move {
        while let Some(Incoming::Message(message)) = inbox.recv().await {
            let (rt, disk, mesh) = (by_mesh.clone(), disk_too.clone(), mesh.clone());
            let (from, syncs) = (message.from(), message.bytes().first() == Some(&1));
            drop(by_mesh.spawn(async move {
                served(&rt, &disk, syncs).await;
                mesh.send(from, CHANNEL, &[0; LEN])
            }));
        }
    }));
    let mut listener = rt.context().out_of_band().and_then(|oob| oob.listen(PORT)).map_err(refused)?;
    let rt = rt.clone();
    drop(rt.clone().spawn(async move {
        while let Ok(stream) = poll_fn(|cx| listener.poll_accept(cx)).await {
            let (rt_too, disk) = (rt.clone(), disk.clone());
            drop(rt.spawn(answer_by(rt_too, disk, stream)));
        }
    }));
    Ok(())
}

/// Answers by a stream until it ends.
async fn answer_by(rt: Rt<Sim>, disk: <Sim as Verbs>::Disk, mut stream: SimStream) -> Option<()> {
    loop {
        let mut request = [0; LEN];
        fill(&mut stream, &mut request).await?;
        rt.spend(Work::Compute(TCP));
        served(&rt, &disk, request[0] == 1).await;
        write(&mut stream, &[0; LEN]).await?;
    }
}

/// What clients do together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Create,
    Resize,
}

/// How long it takes until all clients are through, in milliseconds.
fn measure(profile: &Profile, call: Call, clients: u32, tcp: bool) -> Result<f64, PaperError> {
    let mut profile = profile.clone();
    profile.set("disk.sync_ns", SYNC.0 as i64, "fitted")?;
    let cluster = cluster(&profile, SERVERS + clients, 256)?;
    cluster.machines.iter().take(SERVERS as usize).try_for_each(serve)?;
    let done = Rc::new(Cell::new(false));
    let book = Rc::new(RefCell::new(Vec::new()));
    for number in 0..clients {
        let Machine { rt, mesh } = cluster.machines[(SERVERS + number) as usize].clone();
        let inbox = mesh.open(CHANNEL).map_err(refused)?;
        let (done, book) = (Rc::clone(&done), Rc::clone(&book));
        drop(rt.clone().spawn(async move {
            let mut ways = Vec::new();
            for server in 0..SERVERS {
                ways.push(match tcp {
                    false => Way::Mesh(mesh.clone(), Rank::from_index(server)),
                    true => {
                        let oob = rt.context().out_of_band().ok()?;
                        Way::Stream(oob.connect(&format!("n{server}"), PORT).ok()?)
                    }
                });
            }
            let mut client = Client { rt: rt.clone(), ways, inbox };
            // The first requests connect.
            client.ask(&[0, 1], false).await?;
            rt.sleep_until(BEGIN).await;
            if number == 0 {
                match call {
                    Call::Create => client.create().await?,
                    Call::Resize => client.ask(&[0, 1], false).await?,
                }
                let levels = u64::from(clients.next_power_of_two().trailing_zeros());
                rt.sleep(LEVEL * levels).await;
                done.set(true);
            } else {
                // Another machine's news, which it looks for in no time.
                while !done.get() {
                    rt.sleep(LOOK).await;
                }
                if call == Call::Create {
                    client.ask(&[0], false).await?;
                }
            }
            book.borrow_mut().push(rt.now() - BEGIN);
            Some(())
        }));
    }
    let all = cluster.finish(END, &book, clients as usize)?;
    Ok(all.into_iter().max().unwrap_or_default().as_micros_f64() / 1_000.0)
}

/// Table 3.
pub(super) fn rows(profile: &Profile) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for ((name, tcp, elan), call) in PAPER.into_iter().zip([Call::Create, Call::Resize]) {
        for (wire, paper) in [("TCP", tcp), ("Elan4", elan)] {
            for clients in 1..=CLIENTS {
                let took = measure(profile, call, clients, wire == "TCP")?;
                let paper = paper[clients as usize - 1];
                let x = X::Number(clients.into());
                rows.push(Row::new("Table 3", format!("{name}, {wire}"), x, "ms", paper, took));
            }
        }
    }
    Ok(rows)
}
