//! What a daemon counts, in the text format of Prometheus (version 0.0.4), over HTTP.
//!
//! It answers `GET /metrics` and nothing else, reads at most a few kilobytes of a request within two seconds, and serves
//! so many at a time. It has no secret: give it an address that only those who may read it can reach.

use super::config::Config;
use super::{ITSELF, Options};
use crate::coordinator::Handle;
use crate::lines::Lines;
use crate::member::Members;
use crate::message::{Member, Presence, WAITS};
use crate::net::{Listener, Network};
use crate::timing::at;
use std::cell::RefCell;
use std::fmt::Write;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// How many are served at a time; others wait.
const SERVED: usize = 8;

/// The longest request.
const LONGEST: usize = 4_096;

/// How long a request and its answer may take.
const WITHIN: Duration = Duration::from_secs(2);

/// What the metrics are of.
pub struct State {
    cluster: String,
    program: String,
    rank: u32,
    nodes: u32,
    coordinator: Option<Handle>,
    members: RefCell<Option<watch::Receiver<Members>>>,
}

/// Metrics as they are written.
#[derive(Default)]
struct Text(String);

impl Text {
    fn metric(&mut self, kind: &str, name: &str, help: &str, values: &[(String, u64)]) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }

    /// What nodes report of their systems. The last report of one that is not here says nothing any more.
    fn of_systems(&mut self, members: &[Member]) {
        let (mut running, mut views, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for Member { rank, presence, report, .. } in members {
            let is_here = *presence == Some(Presence::Present);
            let view = report.view.as_ref().filter(|_| is_here);
            views.extend(view.map(|view| (format!("{{rank=\"{rank}\"}}"), view.number)));
            for (name, said) in report.systems.iter().filter(|(name, _)| *name != ITSELF) {
                let system = quoted(name.strip_suffix(WAITS).unwrap_or(name));
                let is_running = said.get("state").map(|state| is_here && state == "running");
                let labels = format!("{{rank=\"{rank}\",system=\"{system}\"}}");
                running.extend(is_running.map(|is_running| (labels, u64::from(is_running))));
                for (what, value) in said.iter().filter(|_| is_here) {
                    let labels = format!("{{rank=\"{rank}\",system=\"{system}\",what=\"{}\"}}", quoted(what));
                    numbers.extend(value.parse().ok().map(|value| (labels, value)));
                }
            }
        }
        self.metric("gauge", "weft_system_running", "Whether a node's part of a system runs.", &running);
        self.metric("gauge", "weft_view", "The view of members in which a node's systems run.", &views);
        self.metric(
            "gauge",
            "weft_reported",
            "What a node's systems report, as `weft status` shows it.",
            &numbers,
        );
    }

    fn one(&mut self, kind: &str, name: &str, help: &str, value: u64) {
        self.metric(kind, name, help, &[(String::new(), value)]);
    }
}

/// A label's value: three characters need another way to be written.
fn quoted(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl State {
    /// Of a daemon that has not joined yet.
    pub fn new(config: &Config, options: &Options, coordinator: Option<Handle>) -> State {
        State {
            cluster: config.cluster.name.clone(),
            program: options.program.clone(),
            rank: options.rank,
            nodes: config.cluster.nodes,
            coordinator,
            members: RefCell::default(),
        }
    }

    /// The daemon has joined.
    pub fn follow(&self, members: watch::Receiver<Members>) {
        self.members.replace(Some(members));
    }

    /// All metrics at this moment.
    pub async fn text(&self) -> String {
        let mut text = Text::default();
        let Members { entries, coordinator, .. } =
            self.members.borrow().as_ref().map(|members| members.borrow().clone()).unwrap_or_default();
        let members = Members { entries, ..Members::default() };
        let (cluster, program) = (quoted(&self.cluster), quoted(&self.program));
        let info = format!("{{cluster=\"{cluster}\",rank=\"{}\",version=\"{program}\"}}", self.rank);
        text.metric("gauge", "weft_node_info", "Which node this is.", &[(info, 1)]);
        let connected = u64::from(coordinator);
        text.one("gauge", "weft_coordinator_connected", "Whether the coordinator is there.", connected);
        text.one("gauge", "weft_nodes", "How many nodes the cluster has.", u64::from(self.nodes));
        let missing = members.missing(self.nodes);
        let here = |rank: u32| u64::from(missing.binary_search(&rank).is_err());
        let each: Vec<_> = (0..self.nodes).map(|rank| (format!("{{rank=\"{rank}\"}}"), here(rank))).collect();
        text.metric("gauge", "weft_node_present", "Whether a node is there, as this one knows.", &each);
        if let Some(handle) = &self.coordinator
            && let Some(status) = handle.status().await
        {
            let counts = status.counts;
            for (name, help, value) in [
                ("weft_joined_total", "Nodes that joined, each time.", counts.joined),
                ("weft_left_total", "Nodes that left.", counts.left),
                ("weft_lost_total", "Nodes that were lost.", counts.lost),
                ("weft_answered_total", "Questions that were answered.", counts.answered),
                ("weft_refused_total", "Nodes and clients that were refused.", counts.refused),
                ("weft_strangers_total", "Connections that did not prove who they are.", counts.strangers),
            ] {
                text.one("counter", name, help, value);
            }
            text.of_systems(&status.members);
        }
        text.0
    }
}

/// Answers for as long as the daemon lives.
pub async fn serve<N: Network>(listener: N::Listener, state: &State) {
    let (mut tasks, mut failures) = (JoinSet::new(), Lines::new("metrics: could not take"));
    let began = Instant::now();
    loop {
        let deadline = failures.deadline().map(|deadline| began + deadline);
        tokio::select! {
            biased;
            () = at(deadline) => failures.flush(began.elapsed()),
            Some(done) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(why) = done && why.is_panic() {
                    std::panic::resume_unwind(why.into_panic());
                }
            }
            came = listener.accept(), if tasks.len() < SERVED => match came {
                Ok((stream, _)) => {
                    let body = state.text().await;
                    tasks.spawn(async move { drop(timeout(WITHIN, answer(stream, &body)).await) });
                }
                Err(why) => {
                    failures.write(began.elapsed(), format_args!("a connection: {why}"));
                    sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
}

/// One request, one answer (RFC 9112; the connection is closed after it).
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, body: &str) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST {
        let mut chunk = [0; 1_024];
        match stream.read(&mut chunk).await? {
            0 => return Ok(()),
            count => request.extend_from_slice(&chunk[..count]),
        }
    }
    let (status, body) = match request.starts_with(b"GET /metrics ") {
        true => ("200 OK", body),
        false => ("404 Not Found", "only GET /metrics is answered\n"),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await?;
    // To close with something unread would destroy the answer on its way (RFC 9112, 9.6).
    let mut rest = stream.take(16 * LONGEST as u64);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.map(drop)
}
