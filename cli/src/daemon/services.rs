//! The services of a daemon's node, on any backend: what they are asked, and what they report.

use super::among::{Among, Runs};
use crate::taken::Address;
use crate::troubles::words;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use weft_check::scenario::{Membership, Span};
use weft_control::daemon::config::{Locks, Systems, Wire as By};
use weft_control::message::{CALL, Failed, Report};
use weft_protocols::locks::Scheme;
use weft_protocols::pario::remote::{self, Remote, RemoteError};
use weft_protocols::pario::{FsConfig, FsError, Pario, STREAMS, Wire};
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Mesh, MeshConfig, Rank, TransportError, Trouble};
use weft_verbs::{Nanos, Service, Verbs};

/// What a node runs.
pub struct Services<V: Verbs> {
    among: Option<Rc<Among<V>>>,
    files: Option<Files<V>>,
}

/// What is a node's own.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Which node it is.
    pub rank: u32,
    /// The port of its device.
    pub port: u8,
    /// By which address others reach it.
    pub at: IpAddr,
    /// The traffic class of its packets.
    pub traffic_class: u8,
}

struct Files<V: Verbs> {
    rank: u32,
    mesh: Mesh<V>,
    pario: Pario<V>,
    remote: Remote<V>,
    /// What the log of this daemon says of the disk.
    told: Cell<Disk>,
}

/// How the disk with a node's store is, the better first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Disk {
    #[default]
    Sound,
    /// It has refused something.
    Erred,
    /// The server answers nothing about names any more.
    Failed,
}

impl Disk {
    fn after(errors: u64, failed: Option<&FsError>) -> Disk {
        match (errors, failed) {
            (_, Some(_)) => Disk::Failed,
            (1.., None) => Disk::Erred,
            (0, None) => Disk::Sound,
        }
    }

    /// Whether this is worse than what was told last, and is to be told; then it has been.
    fn is_news(self, told: &Cell<Disk>) -> bool {
        self > told.replace(self)
    }
}

/// Where the connections of files are made. They are others than those of segments and locks: whom the members leave out is dead to their mesh, and
/// goes on with files, which wait for a server until it answers.
const FILES: Service = Service(4_792);

/// What else a node can be given, where another one is in its way.
const ELSEWHERE: &str =
    "each cluster on a machine needs an address of its own there ([node] address, or device and gid)";

/// How long it takes at the most until Linux repeats a request for a connection that was lost: 4,096 ms for the answer, and twice the way
/// there, for which it takes 1,024 ms on RoCE.
const REPEATED: Nanos = Nanos::from_millis(4_096 + 2 * 1_024);

/// What is wrong with a patience that is over before a connection that broke can stand again: nodes that live are left out for good.
fn hasty(patience: Span, config: &MeshConfig) -> Option<String> {
    let (patience, detection) = (patience.nanos(), config.detection()?);
    let away = detection + REPEATED;
    (patience < away).then(|| {
        format!(
            "[systems] patience_ms: {patience} is less than {away}: an adapter asks for {detection} at least before a connection is made \
             anew, and a request that is lost meanwhile is repeated after {REPEATED}. So a link that fails for a moment leaves out a node \
             that lives"
        )
    })
}

impl<V: Verbs> Services<V> {
    /// Starts them at a node, in a mesh of nodes of these names.
    ///
    /// # Errors
    /// What cannot be, in one line.
    pub fn start(
        rt: &Rt<V>,
        own: &Own,
        systems: &Systems,
        names: Vec<String>,
    ) -> Result<Services<V>, String> {
        let nodes = names.len() as u32;
        let Systems { segments, locks, file_servers, wire, lease_ms, drift_ms, patience_ms } = *systems;
        let span = |millis| Span(Nanos::from_millis(millis));
        let membership =
            Membership { lease: span(lease_ms), drift: span(drift_ms), patience: span(patience_ms) };
        let mut config = MeshConfig::new(Rank::from_index(own.rank), names);
        (config.port, config.traffic_class) = (own.port, own.traffic_class);
        let at = own.at.to_string();
        let there = Address { at: &at, instead: ELSEWHERE };
        let why = |service, why: TransportError| {
            let refused = if let TransportError::Verbs(refused) = &why { Some(*refused) } else { None };
            there.why(service, refused, why.to_string())
        };
        let runs = Runs { segments, locks: locks.map(scheme) };
        let among = match segments || locks.is_some() {
            true => {
                let mut config = config.clone();
                membership.mesh(nodes, &mut config);
                if let Some(warning) = hasty(membership.patience, &config) {
                    tracing::warn!("node {}: {warning}", own.rank);
                }
                let service = config.service;
                Some(Among::start(rt, runs, config, membership.config(nodes), |of| why(service, of))?)
            }
            false => None,
        };
        let files = match file_servers {
            0 => None,
            servers => {
                let wire = match wire {
                    By::Verbs => Wire::Verbs,
                    By::Tcp => Wire::Tcp,
                };
                let files = FsConfig { wire, ..FsConfig::new(servers) };
                config.service = FILES;
                config.max_message = config.max_message.max(files.max_message());
                let mesh = Mesh::start(rt, config).map_err(|of| why(FILES, of))?;
                let pario = Pario::start(rt, &mesh, files).map_err(|why| {
                    let refused = if let FsError::Verbs(refused) = &why { Some(*refused) } else { None };
                    there.why(STREAMS, refused, why.to_string())
                })?;
                let remote = Remote::new(rt, &pario);
                Some(Files { rank: own.rank, mesh, pario, remote, told: Cell::default() })
            }
        };
        Ok(Services { among, files })
    }

    /// What they are connected by, each at its own place, as long as it is there.
    pub fn meshes(&self) -> [Option<Mesh<V>>; 2] {
        let among = self.among.as_ref().and_then(|among| among.mesh());
        [among, self.files.as_ref().map(|files| files.mesh.clone())]
    }

    /// Serves a call to segments.
    ///
    /// # Errors
    /// Why it was not served.
    pub async fn segments(&self, body: &[u8]) -> Result<Vec<u8>, Failed> {
        let Some(among) = &self.among else { return Err(none(super::SEGMENTS)) };
        fitting(among.segments(body).await?)
    }

    /// Serves a call to locks.
    ///
    /// # Errors
    /// Why it was not served.
    pub async fn locks(&self, body: &[u8]) -> Result<Vec<u8>, Failed> {
        let Some(among) = &self.among else { return Err(none(super::LOCKS)) };
        fitting(among.locks(body).await?)
    }

    /// Serves a call to files.
    ///
    /// # Errors
    /// Why it was not served.
    pub async fn files(&self, body: &[u8]) -> Result<Vec<u8>, Failed> {
        let Some(Files { remote: files, .. }) = &self.files else { return Err(none(super::FILES)) };
        let request = remote::Request::from_bytes(body).map_err(|why| Failed::for_good(why.to_string()))?;
        fitting(files.serve(request).await.map_err(|why| of_files(&why))?.to_bytes())
    }

    /// Has this node leave the others, for which they have until then.
    pub async fn leave(&self, end: Nanos) {
        if let Some(among) = &self.among {
            among.leave(end).await;
        }
    }

    /// What is to be said of them.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        if let Some(among) = &self.among {
            among.report(&mut report);
        }
        if let Some(files) = &self.files {
            files.report(&mut report);
        }
        let meshes: Vec<Mesh<V>> = self.meshes().into_iter().flatten().collect();
        let troubles: Vec<Trouble> = meshes.iter().flat_map(Mesh::troubles).collect();
        if let (Some(last), Some(mesh)) = (troubles.last(), meshes.first()) {
            let said = connections(&troubles, words(last, mesh.names()));
            report.systems.insert(super::CONNECTIONS.to_string(), said);
        }
        report
    }
}

impl<V: Verbs> Files<V> {
    fn report(&self, report: &mut Report) {
        let (stats, failed) = (self.pario.stats(), self.pario.failed());
        let state = state_of_files(failed.as_ref());
        let (rank, errors) = (self.rank, stats.disk_errors);
        if Disk::after(errors, failed.as_ref()).is_news(&self.told) {
            tracing::warn!("node {rank}: {}", news_of_files(errors, &state));
        }
        let said = [
            ("state", state),
            ("requests made", stats.asked.to_string()),
            ("pulls", stats.pulls.to_string()),
            ("pushes", stats.pushes.to_string()),
            ("disk errors", errors.to_string()),
        ];
        let mut said: BTreeMap<String, String> = owned(said);
        if let Some(nodes) = waits_for(&self.pario.removals_wait_for()) {
            said.insert("removals wait for".to_string(), nodes);
        }
        report.systems.insert(super::FILES.to_string(), said);
    }
}

/// What a node says of connections that it could not make or accept: how often, by kind, and the last one in words.
fn connections(troubles: &[Trouble], last: String) -> BTreeMap<String, String> {
    let mut times = BTreeMap::new();
    for trouble in troubles {
        *times.entry(trouble.cause.kind()).or_insert(0) += trouble.times;
    }
    let counts = times.into_iter().map(|(kind, times)| (kind.to_string(), times.to_string()));
    counts.chain([("last".to_string(), last)]).collect()
}

/// What a node says of its files, by why its server answers nothing about names.
fn state_of_files(failed: Option<&FsError>) -> String {
    match failed {
        None => "running".to_string(),
        Some(why) => format!("failed: {why}"),
    }
}

/// For whom removals wait, if they do.
fn waits_for(nodes: &[Rank]) -> Option<String> {
    let ranks: Vec<String> = nodes.iter().map(|node| node.index().to_string()).collect();
    match &ranks[..] {
        [] => None,
        [node] => Some(format!("node {node}")),
        nodes => Some(format!("nodes {}", nodes.join(", "))),
    }
}

/// What the log says of them. A damaged log is no error of the disk.
fn news_of_files(errors: u64, state: &str) -> String {
    match errors {
        0 => format!("files: {state}"),
        _ => format!("the disk with its store failed ({errors} errors); files: {state}"),
    }
}

pub(super) fn owned<const N: usize>(said: [(&str, String); N]) -> BTreeMap<String, String> {
    said.map(|(key, value)| (key.to_string(), value)).into()
}

/// The protocol by which a configuration has locks.
fn scheme(locks: Locks) -> Scheme {
    match locks {
        Locks::Srsl => Scheme::Srsl,
        Locks::Ncosed => Scheme::Ncosed,
    }
}

pub(super) fn none(system: &str) -> Failed {
    Failed::for_good(format!("this node does not run {system}"))
}

/// Why a call to files was not served, and whether it may be if it is asked again: what depends on servers, and not on what was asked,
/// passes.
fn of_files(why: &RemoteError) -> Failed {
    use FsError::{Closed, Full, Io, Member, NotExecuted, Send, Unknown, WritesLost};
    let is_final = !match why {
        RemoteError::Late { .. } | RemoteError::Replaced(_) | RemoteError::Verbs(_) => true,
        RemoteError::Fs(_, why) => matches!(
            why,
            Closed
                | Full
                | Io
                | FsError::Memory
                | Member
                | NotExecuted(_)
                | Send(_)
                | Unknown
                | FsError::Verbs(_)
                | WritesLost
        ),
        RemoteError::TooMuch(_) | RemoteError::Layout | RemoteError::NoDirectory { .. } => false,
    };
    Failed { why: why.to_string(), is_final }
}

/// An answer that the control plane passes on.
fn fitting(bytes: Vec<u8>) -> Result<Vec<u8>, Failed> {
    match bytes.len() <= CALL {
        true => Ok(bytes),
        false => {
            let why = format!("the answer has {} bytes, and at most {CALL} are passed on", bytes.len());
            Err(Failed::for_good(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_protocols::transport::Cause;
    use weft_verbs::VerbsError;

    fn mesh() -> MeshConfig {
        MeshConfig::new(Rank::from_index(0), vec!["n0".to_string()])
    }

    /// An adapter's timer may take four times its time-out, and the request may come too early and be lost. Beside that there is time for
    /// an attempt.
    #[test]
    fn by_default_a_connection_that_broke_is_made_again_before_the_patience_is_over() {
        let (mesh, systems) = (mesh(), Systems::default());
        let detection = mesh.detection().expect("an adapter gives up");
        let made_again = detection * 4 + REPEATED + mesh.probe_after + Nanos::from_millis(500);
        assert!(Nanos::from_millis(systems.patience_ms) > made_again, "{made_again}");
        assert!(systems.lease_ms >= systems.patience_ms && systems.drift_ms * 100 >= systems.lease_ms);
    }

    #[test]
    fn a_patience_that_is_shorter_than_a_broken_connection_is_told_with_the_figures() {
        let told = |millis| hasty(Span(Nanos::from_millis(millis)), &mesh());
        let warning = told(50).expect("it is too short");
        let told_of = |figure: &str| warning.contains(figure);
        assert!(told_of("50.00 ms") && told_of("536.87 ms") && told_of("6.144 s"), "{warning}");
        // A request that is lost takes longer than an adapter asks.
        let warning = told(3_000).expect("it is too short");
        assert!(warning.contains("3.000 s is less than 6.681 s"), "{warning}");
        assert_eq!((told(6_681), told(Systems::default().patience_ms)), (None, None));
    }

    #[test]
    fn connections_that_did_not_come_to_be_are_counted_by_kind_and_the_last_one_is_told() {
        let trouble = |peer, cause, times| Trouble { peer: Some(Rank::from_index(peer)), cause, times };
        let full = Cause::Queue(VerbsError::Os { call: "ibv_reg_mr", errno: 12 });
        let troubles = [trouble(1, full, 2), trouble(2, Cause::Unreachable, 1), trouble(2, full, 40)];
        let said = connections(&troubles, "why".to_string());
        assert_eq!(
            said,
            owned([("no queue pair", "42".into()), ("unreachable", "1".into()), ("last", "why".into())])
        );
    }

    #[test]
    fn a_server_that_cannot_use_its_disk_is_not_running() {
        assert_eq!(state_of_files(None), "running");
        assert_eq!(state_of_files(Some(&FsError::Damaged)), "failed: the directory's log is damaged");
    }

    #[test]
    fn a_damaged_log_is_not_told_as_a_disk_that_failed() {
        let damaged = state_of_files(Some(&FsError::Damaged));
        assert_eq!(news_of_files(0, &damaged), "files: failed: the directory's log is damaged");
        let said = "the disk with its store failed (1 errors); files: failed: a server's disk failed";
        assert_eq!(news_of_files(1, &state_of_files(Some(&FsError::Io))), said);
    }

    #[test]
    fn a_disk_is_told_of_when_it_fails_and_once_more_when_its_server_answers_nothing_any_more() {
        let told = Cell::default();
        let is_news = |errors, failed| Disk::after(errors, failed).is_news(&told);
        assert!(!is_news(0, None));
        assert!(is_news(1, None) && !is_news(2, None));
        assert!(is_news(2, Some(&FsError::Damaged)) && !is_news(3, Some(&FsError::Damaged)));
    }

    #[test]
    fn a_server_that_is_down_is_no_mistake_of_who_asks() {
        let file = |why| of_files(&RemoteError::Fs("f".to_string(), why)).is_final;
        assert!(!of_files(&RemoteError::Late { about: "f".to_string(), changes: true }).is_final);
        assert!(!of_files(&RemoteError::Replaced("f".to_string())).is_final, "there is a file of that name");
        assert!(!file(FsError::Unknown) && !file(FsError::Full));
        assert!(file(FsError::Exists) && file(FsError::NotFound) && file(FsError::Distribution));
    }
}
