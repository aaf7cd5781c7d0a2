//! Section 7.3, Table 3: creating and resizing a file, collectively.
//!
//! By PVFS2's own steps, which the service here does not take: it makes a file by one request and one commit at the directory's home.
//! Two servers take the steps' requests. The first client asks them, and all meet in MPI's barrier. Its messages go by TCP in both
//! columns: a second client adds 46 us to a resize over Elan4, where a queued message takes 3.

use super::cluster::cluster;
use super::streams::{accept, connect, read, read_exact, write};
use crate::paper::{Cluster, Fitted, Machine, PaperError, Row, X, refused};
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use weft_protocols::pario::Wire;
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, Rank};
use weft_sim::profile::Profile;
use weft_sim::{Sim, SimStream};
use weft_verbs::{Nanos, Service};

/// Metadata and data are at both (7.3).
const SERVERS: u32 = 2;
/// Clients of the table's last line.
const MOST: u32 = 6;

/// What a server's processor does for a request.
const WORK: Nanos = Nanos(134_000);
/// What either end's processor does for a message by TCP, beyond the stream's own work.
const TCP_WORK: Nanos = Nanos(3_000);
/// A change that is made durable.
const SYNC: Nanos = Nanos::from_micros(6_742);

/// Where servers listen, and processes of the program.
const PORT: Service = Service(7_000);
const BARRIER: Service = Service(7_001);

/// Operations that are measured, and from one's begin to the next one's.
const ROUNDS: u32 = 5;
const BEGIN: Nanos = Nanos::from_millis(20);
const SPAN: Nanos = Nanos::from_millis(100);

/// What the paper's table says, in milliseconds, by clients.
const CREATE: [(&str, [f64; MOST as usize]); 2] = [
    ("TCP", [28.114, 28.401, 28.875, 28.892, 29.481, 29.611]),
    ("Elan4", [27.669, 28.248, 28.750, 28.710, 29.123, 29.410]),
];
const RESIZE: [(&str, [f64; MOST as usize]); 2] = [
    ("TCP", [0.192, 0.248, 0.330, 0.274, 0.331, 0.338]),
    ("Elan4", [0.141, 0.187, 0.201, 0.180, 0.226, 0.213]),
];

/// Whom a step asks, all at once, and whether its change is made durable before the answer.
struct Step {
    servers: u32,
    synced: bool,
}

/// The directory's attributes; the file's metadata; its data at every server; their handles into the metadata; its name.
const CREATING: &[Step] = &[
    Step { servers: 1, synced: false },
    Step { servers: 1, synced: true },
    Step { servers: SERVERS, synced: true },
    Step { servers: 1, synced: true },
    Step { servers: 1, synced: true },
];
/// Where the file's data end, at every server; its attributes are in the client's cache.
const RESIZING: &[Step] = &[Step { servers: SERVERS, synced: false }];

/// The constants that were fitted, each to one of the table's cells.
pub(super) fn fitted() -> [Fitted; 3] {
    let fitted = |name: &str, value: Nanos, cell: &str| Fitted {
        name: name.to_string(),
        value: value.0,
        unit: "ns",
        source: format!("fitted: Table 3, {cell}, 1 client"),
    };
    [
        fitted("table_3.request", WORK, "resize by Elan4"),
        fitted("table_3.tcp_message", TCP_WORK, "resize by TCP"),
        fitted("table_3.sync", SYNC, "creation by Elan4"),
    ]
}

/// A client's way to a server.
enum Line {
    Elan4 { mesh: Mesh<Sim>, inbox: Inbox, peer: Rank, channel: Channel },
    Tcp { rt: Rt<Sim>, stream: SimStream },
}

impl Line {
    /// A request, which says whether its change is to be durable; or an answer.
    async fn say(&mut self, synced: bool) -> Option<()> {
        let word = [synced.into()];
        match self {
            Line::Elan4 { mesh, peer, channel, .. } => mesh.send(*peer, *channel, &word).ok().map(drop),
            Line::Tcp { stream, .. } => write(stream, &word).await,
        }
    }

    async fn hear(&mut self) -> Option<bool> {
        let mut word = [0];
        match self {
            Line::Elan4 { inbox, .. } => match inbox.recv().await? {
                Incoming::Message(message) => word.copy_from_slice(message.get(..1)?),
                Incoming::PeerReset { .. } => return None,
            },
            Line::Tcp { rt, stream } => {
                read_exact(stream, &mut word).await?;
                rt.compute(TCP_WORK).await;
            }
        }
        Some(word == [1])
    }
}

/// Two nodes on channels or streams of their own. The server is begun.
fn line(cluster: &Cluster, wire: Wire, client: u32, server: u32) -> Result<Line, PaperError> {
    let [near, far] = [client, server].map(|node| &cluster.machines[node as usize]);
    let rt = far.rt.clone();
    if wire == Wire::Tcp {
        let accepted = accept(far, PORT)?;
        drop(far.rt.spawn(async move {
            let stream = accepted.await?;
            serve(rt.clone(), Line::Tcp { rt, stream }).await
        }));
        return Ok(Line::Tcp { rt: near.rt.clone(), stream: connect(near, server, PORT)? });
    }
    let channel = Channel(server as u8);
    let end = |at: &Machine, peer: u32| {
        let inbox = at.mesh.open(channel).map_err(refused)?;
        Ok(Line::Elan4 { mesh: at.mesh.clone(), inbox, peer: Rank::from_index(peer), channel })
    };
    drop(far.rt.spawn(serve(rt, end(far, client)?)));
    end(near, server)
}

/// A server: for each request its work, and what makes the change durable.
async fn serve(rt: Rt<Sim>, mut line: Line) -> Option<()> {
    loop {
        let synced = line.hear().await?;
        rt.compute(WORK).await;
        if synced {
            rt.sleep(SYNC).await;
        }
        line.say(false).await?;
    }
}

/// A call's steps, one after the other.
async fn carry_out(steps: &[Step], lines: &mut [Line]) -> Option<()> {
    for step in steps {
        let asked = &mut lines[..step.servers as usize];
        for line in asked.iter_mut() {
            line.say(step.synced).await?;
        }
        for line in asked {
            line.hear().await?;
        }
    }
    Some(())
}

/// A process's streams for MPI's barrier: in each round it tells one process, and hears from another.
struct Barrier {
    told: Vec<SimStream>,
    heard: Vec<Accepted>,
}

type Accepted = Pin<Box<dyn Future<Output = Option<SimStream>>>>;

/// The streams of all clients. In round `k` each tells the one that is `2^k` further: behind the last round each has heard of all.
fn barriers(cluster: &Cluster, clients: u32) -> Result<Vec<Barrier>, PaperError> {
    let machine = |client: u32| &cluster.machines[(SERVERS + client) as usize];
    let mut all: Vec<Barrier> =
        (0..clients).map(|_| Barrier { told: Vec::new(), heard: Vec::new() }).collect();
    for round in (0..).take_while(|round| 1 << round < clients) {
        let port = Service(BARRIER.0 + round);
        for (client, barrier) in (0..).zip(&mut all) {
            barrier.heard.push(Box::pin(accept(machine(client), port)?));
        }
        for (client, barrier) in (0..).zip(&mut all) {
            barrier.told.push(connect(machine(client), SERVERS + (client + (1 << round)) % clients, port)?);
        }
    }
    Ok(all)
}

/// How long a collective call takes: from its begin until all processes know that it is done, in milliseconds.
fn measure(profile: &Profile, wire: Wire, steps: &'static [Step], clients: u32) -> Result<f64, PaperError> {
    let cluster = cluster(profile, SERVERS + clients, 2_048)?;
    let book = Rc::new(RefCell::new(Vec::new()));
    let lines: Vec<Line> =
        (0..SERVERS).map(|server| line(&cluster, wire, SERVERS, server)).collect::<Result<_, _>>()?;
    let mut lines = Some(lines);
    for (client, Barrier { mut told, heard: accepted }) in
        barriers(&cluster, clients)?.into_iter().enumerate()
    {
        let rt = cluster.machines[SERVERS as usize + client].rt.clone();
        let (book, mut lines) = (Rc::clone(&book), lines.take());
        drop(rt.clone().spawn(async move {
            let mut heard = Vec::new();
            for end in accepted {
                heard.push(end.await?);
            }
            for round in 0..=ROUNDS {
                let begin = BEGIN + SPAN * u64::from(round);
                rt.sleep_until(begin).await;
                if let Some(lines) = &mut lines {
                    carry_out(steps, lines).await?;
                }
                for (next, last) in told.iter_mut().zip(&mut heard) {
                    write(next, &[1]).await?;
                    read(last, 1).await?;
                }
                // The first connects.
                if round > 0 {
                    book.borrow_mut().push((round, rt.now() - begin));
                }
            }
            Some(())
        }));
    }
    let end = BEGIN + SPAN * u64::from(ROUNDS + 2);
    let all = cluster.finish(end, &book, (ROUNDS * clients) as usize)?;
    let slowest = |round| all.iter().filter(|(of, _)| *of == round).map(|(_, took)| *took).max();
    let sum: Nanos = (1..=ROUNDS).filter_map(slowest).fold(Nanos::ZERO, |sum, took| sum + took);
    Ok(sum.as_micros_f64() / f64::from(ROUNDS) / 1e3)
}

/// Table 3.
pub(super) fn rows(profile: &Profile, mut progress: impl FnMut(f64)) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for (nth, (call, steps, paper)) in
        [("create", CREATING, CREATE), ("resize", RESIZING, RESIZE)].into_iter().enumerate()
    {
        for (column, cells) in paper {
            let wire = if column == "TCP" { Wire::Tcp } else { Wire::Verbs };
            for (clients, paper) in (1..).zip(cells) {
                let took = measure(profile, wire, steps, clients)?;
                rows.push(Row::new(
                    "Table 3",
                    format!("{call}, {column}"),
                    X::Number(clients.into()),
                    "ms",
                    paper,
                    took,
                ));
            }
        }
        progress((nth + 1) as f64 / 2.0);
    }
    Ok(rows)
}
