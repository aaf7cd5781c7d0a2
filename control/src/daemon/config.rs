//! A daemon's configuration file. The same file can be on all machines: the rank may come from elsewhere.

mod fields;

use crate::net::Endpoint;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most nodes of a cluster.
pub const NODES: u32 = 4_096;

/// The longest lease, and the longest patience, in milliseconds: an hour.
const LONGEST_SPAN: u64 = 3_600_000;

/// The longest file.
const LONGEST: u64 = 1 << 20;

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What all machines agree on.
    pub cluster: Cluster,
    /// What this machine does.
    #[serde(default)]
    pub node: Node,
    /// What the daemons run.
    #[serde(default)]
    pub systems: Systems,
}

/// `[cluster]`: the same on all machines.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// The cluster's name.
    pub name: String,
    /// How many nodes it has.
    pub nodes: u32,
    /// Where the coordinator is.
    #[serde(deserialize_with = "endpoint")]
    pub meet: Endpoint,
    /// The file with the secret. Without one, the coordinator listens on the loopback address only.
    pub secret: Option<PathBuf>,
}

/// `[node]`: this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Which node this is, from 0; `--rank` and `SLURM_PROCID` say it as well.
    pub rank: Option<u32>,
    /// Whether this node is the coordinator; without it, node 0 is.
    pub coordinate: Option<bool>,
    /// Where the coordinator listens. Default: `127.0.0.1:7471`.
    #[serde(default, deserialize_with = "some_endpoint")]
    listen: Option<Endpoint>,
    /// Where metrics are read, if anywhere.
    #[serde(default, deserialize_with = "endpoint_with_port")]
    pub metrics: Option<Endpoint>,
    /// Where programs of this machine ask this node's systems, if anywhere but at the coordinator.
    #[serde(default, deserialize_with = "endpoint_with_port")]
    pub door: Option<Endpoint>,
    /// For how many seconds the daemon tries to join. Default: 120.
    patience_s: Option<u64>,
    /// The directory in which a file server keeps its bytes.
    pub store: Option<PathBuf>,
    /// By which of its addresses other nodes reach this one's byte streams, where systems run by `tcp`; it listens there. Default: the one
    /// by which it reaches the meeting place.
    pub address: Option<IpAddr>,
    /// The RDMA device that systems use. Default: the first one that has an IP address.
    pub device: Option<String>,
    /// Its port, from 1. Default: 1.
    pub device_port: Option<u8>,
    /// The index of the port's address. Default: as the device chooses.
    pub gid: Option<u8>,
    /// The traffic class of the packets of its RDMA device. Default: 0, as the system has it.
    #[serde(default)]
    pub traffic_class: u8,
    /// Whether the node spins on its completion queues: fewer microseconds for a whole processor. Default: no.
    #[serde(default)]
    pub spin: bool,
}

/// `[systems]`: what all daemons run, the same on all machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Systems {
    /// Shared data segments, for programs and for `weft segment`. Default: no.
    pub segments: bool,
    /// Distributed locks, for `weft lock`, and the protocol that decides them. Default: none.
    pub locks: Option<Locks>,
    /// Striped files on so many servers, the nodes of the first ranks, for `weft fs`. Default: 0, none.
    pub file_servers: u32,
    /// What carries them: an RDMA device, or byte streams for machines that have none. Default: an RDMA device.
    pub wire: Wire,
    /// For how many milliseconds a lease runs: what a node that died had locked goes on after that. Default: 9,000, a patience.
    pub lease_ms: u64,
    /// By how many milliseconds two clocks may differ over one lease. Default: 90, a hundred times what crystals drift in 9 s.
    pub drift_ms: u64,
    /// How many milliseconds a node that is asked may be silent before it is suspected: more than a connection between nodes that live is
    /// ever away. Default: 9,000: an adapter asks for up to 2.2 s before it says that a connection has broken, and where the request for
    /// another one is lost, the system repeats it after 4 to 6.2 s.
    pub patience_ms: u64,
}

/// The protocol that decides who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Locks {
    /// The lock's home grants it by messages. Its fencing tokens grow with each grant.
    Srsl,
    /// N-CoSED: remote atomics on a word of the home's, whose processor is asked only where there is contention. Its fencing tokens grow
    /// with each view of the members, and are the same for all grants of one.
    Ncosed,
}

impl Locks {
    /// As a configuration has it.
    fn name(self) -> &'static str {
        match self {
            Locks::Srsl => "srsl",
            Locks::Ncosed => "ncosed",
        }
    }
}

/// What carries the systems of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// RDMA devices.
    #[default]
    Verbs,
    /// Byte streams: no device is needed, and all data are copied. Files run by them.
    Tcp,
}

impl Default for Systems {
    fn default() -> Systems {
        let (segments, locks, file_servers, wire) = (false, None, 0, Wire::default());
        Systems { segments, locks, file_servers, wire, lease_ms: 9_000, drift_ms: 90, patience_ms: 9_000 }
    }
}

impl Systems {
    /// Whether there is one.
    pub fn any(&self) -> bool {
        self.segments || self.locks.is_some() || self.file_servers > 0
    }

    /// What all daemons must agree on; empty without systems.
    pub fn digest(&self) -> String {
        let Systems { segments, locks, file_servers, wire, lease_ms, drift_ms, patience_ms } = self;
        let mut parts = Vec::new();
        if *segments {
            parts.push("segments".to_string());
        }
        if let Some(locks) = locks {
            parts.push(format!("locks by {}", locks.name()));
        }
        if !parts.is_empty() {
            parts.push(format!("lease {lease_ms} ms, drift {drift_ms} ms, patience {patience_ms} ms"));
        }
        if *file_servers > 0 {
            let by = if *wire == Wire::Tcp { " by tcp" } else { "" };
            parts.push(format!("{file_servers} file servers{by}"));
        }
        parts.join(", ")
    }

    fn check(&self, nodes: u32) -> Result<(), String> {
        if self.file_servers > nodes {
            return Err(format!(
                "[systems] file_servers = {}: at most {nodes}, as many as there are nodes",
                self.file_servers
            ));
        }
        if self.segments && self.wire == Wire::Tcp {
            return Err("[systems] segments = true: they need RDMA devices, wire = \"verbs\"".to_string());
        }
        if let Some(locks) = self.locks.filter(|_| self.wire == Wire::Tcp) {
            let says = "they need RDMA devices, wire = \"verbs\"";
            return Err(format!("[systems] locks = \"{}\": {says}", locks.name()));
        }
        fields::within("systems", "lease_ms", self.lease_ms)?;
        fields::within("systems", "patience_ms", self.patience_ms)?;
        match self.drift_ms < self.lease_ms {
            true => Ok(()),
            false => Err(format!("[systems] drift_ms = {}: less than lease_ms", self.drift_ms)),
        }
    }
}

fn endpoint<'de, D: Deserializer<'de>>(from: D) -> Result<Endpoint, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

fn some_endpoint<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Endpoint>, D::Error> {
    endpoint(from).map(Some)
}

fn endpoint_with_port<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Endpoint>, D::Error> {
    Endpoint::with_port(&String::deserialize(from)?).map(Some).map_err(serde::de::Error::custom)
}

/// Why a file is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{wrong}", path.display())]
pub struct ConfigError {
    path: PathBuf,
    wrong: Wrong,
}

/// What is wrong with a text, and in which line, from 1, if it is about one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    line: Option<usize>,
    why: String,
}

impl Wrong {
    /// What the parser has found, at the line that it is about.
    fn of(text: &str, error: &toml::de::Error) -> Wrong {
        let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        Wrong { line: error.span().map(|span| line(span.start)), why: fields::told(text, error) }
    }
}

impl From<String> for Wrong {
    fn from(why: String) -> Wrong {
        Wrong { line: None, why }
    }
}

/// As it stands behind the name of a file.
impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))?;
        write!(f, ": {}", self.why)
    }
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let failed = |wrong: Wrong| ConfigError { path: path.into(), wrong };
        let about = std::fs::metadata(path).map_err(|why| failed(why.to_string().into()))?;
        if about.len() > LONGEST {
            return Err(failed("it is longer than a megabyte: is it the right file?".to_string().into()));
        }
        let text = std::fs::read_to_string(path).map_err(|why| failed(why.to_string().into()))?;
        Config::parse(&text).map_err(failed)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<Config, Wrong> {
        let config: Config = toml::from_str(text).map_err(|why| Wrong::of(text, &why))?;
        fields::name(&config.cluster.name)?;
        fields::within("cluster", "nodes", config.cluster.nodes.into())?;
        config.node.check()?;
        config.systems.check(config.cluster.nodes)?;
        Ok(config)
    }

    /// Whether the node of this rank is the coordinator.
    pub fn coordinates(&self, rank: u32) -> bool {
        self.node.coordinate.unwrap_or(rank == 0)
    }

    /// The rank: as given, or as the file says, or as Slurm says.
    ///
    /// # Errors
    /// Nobody says it, or it is none of the cluster's.
    pub fn rank(&self, given: Option<u32>, slurm: Option<&str>) -> Result<u32, String> {
        let of_slurm = |text: &str| {
            text.parse().map_err(|_| format!("SLURM_PROCID is '{}', and no number", text.escape_default()))
        };
        let rank = match (given.or(self.node.rank), slurm) {
            (None, Some(text)) => Some(of_slurm(text)?),
            (rank, _) => rank,
        };
        let rank = rank.ok_or(
            "which node this is, nobody says: give --rank, or rank in [node], or start it with srun",
        )?;
        let nodes = self.cluster.nodes;
        match rank < nodes {
            true => Ok(rank),
            false => Err(format!("there is no rank {rank}: the cluster's ranks are 0 to {}", nodes - 1)),
        }
    }
}

/// Whether one machine cannot listen at both.
fn meets(one: &Endpoint, other: &Endpoint) -> bool {
    let is_any = |host: &str| host == "0.0.0.0" || host == "::";
    let same = one.host == other.host || is_any(&one.host) || is_any(&other.host);
    one.port == other.port && one.port != 0 && same
}

impl Node {
    fn check(&self) -> Result<(), String> {
        let numbers = [
            ("rank", self.rank.map(u64::from)),
            ("patience_s", self.patience_s),
            ("device_port", self.device_port.map(u64::from)),
        ];
        for (field, number) in numbers {
            number.map_or(Ok(()), |number| fields::within("node", field, number))?;
        }
        if let Some(address) = self.address.filter(|address| address.to_canonical().is_unspecified()) {
            let says = "nobody reaches this node by that: say one of its addresses, or leave it out";
            return Err(format!("[node] address = \"{address}\": {says}"));
        }
        let listens =
            [("the coordinator listens", Some(self.listen())), ("metrics are read", self.metrics.clone())];
        for (field, at, others) in [("metrics", &self.metrics, &listens[..1]), ("door", &self.door, &listens)]
        {
            let Some(at) = at else { continue };
            let taken =
                |(_, other): &&(_, Option<Endpoint>)| other.as_ref().is_some_and(|other| meets(at, other));
            if let Some((what, _)) = others.iter().find(taken) {
                return Err(format!("[node] {field} = \"{at}\": {what} there, give it another port"));
            }
        }
        Ok(())
    }

    /// Where the coordinator listens.
    pub fn listen(&self) -> Endpoint {
        self.listen.clone().unwrap_or_else(|| Endpoint::new("127.0.0.1", crate::PORT))
    }

    /// How long the daemon tries to join.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_s.unwrap_or(120))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[cluster]\nname = \"blue\"\nnodes = 2\nmeet = \"n0\"\n";

    #[test]
    fn what_is_not_said_has_its_default() {
        let config = Config::parse(SMALL).expect("it is one");
        assert_eq!((config.cluster.meet.to_string(), config.cluster.secret), ("n0:7471".to_string(), None));
        assert_eq!(config.node.listen().to_string(), "127.0.0.1:7471");
        assert_eq!((config.node.metrics.clone(), config.node.patience()), (None, Duration::from_secs(120)));
        let config = Config::parse(SMALL).expect("it is one");
        assert_eq!((config.coordinates(0), config.coordinates(1)), (true, false));
    }

    #[test]
    fn the_rank_is_the_flags_or_the_files_or_slurms() {
        let config =
            Config::parse(&format!("{SMALL}[node]\nrank = 1\ncoordinate = true\n")).expect("it is one");
        assert_eq!((config.rank(Some(0), Some("1")), config.rank(None, Some("0"))), (Ok(0), Ok(1)));
        assert!(config.coordinates(1));
        let config = Config::parse(SMALL).expect("it is one");
        assert_eq!(config.rank(None, Some("1")), Ok(1));
        assert_eq!(
            config.rank(Some(2), None),
            Err("there is no rank 2: the cluster's ranks are 0 to 1".into())
        );
        assert!(config.rank(None, Some("x")).is_err() && config.rank(None, None).is_err());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let cases = [
            (SMALL.replace("nodes = 2", "nodes = 0"), "[cluster] nodes = 0: a whole number from 1 to 4096"),
            (SMALL.replace("\"blue\"", "\"\""), "[cluster] name: 1 to 256 characters"),
            (SMALL.replace("\"n0\"", "\"n0:x\""), ":4: [cluster] meet: 'n0:x' is no HOST or HOST:PORT"),
            (format!("{SMALL}nodez = 1\n"), ":5: unknown field `nodez`"),
            (format!("{SMALL}[nodes]\n"), "unknown field `nodes`"),
            (
                format!("{SMALL}[systems]\nlease_ms = 0\n"),
                "[systems] lease_ms = 0: a whole number from 1 to 3600000",
            ),
            (format!("{SMALL}[systems]\nfile_servers = 3\n"), "[systems] file_servers = 3: at most 2"),
            (format!("{SMALL}[systems]\ndrift_ms = 9000\n"), "[systems] drift_ms = 9000: less than lease_ms"),
            (
                format!("{SMALL}[systems]\nsegments = true\nwire = \"tcp\"\n"),
                "[systems] segments = true: they need RDMA devices",
            ),
            (
                format!("{SMALL}[systems]\nwire = \"rail\"\n"),
                ":6: [systems] wire = \"rail\": \"verbs\" or \"tcp\"",
            ),
            (
                format!("{SMALL}[node]\nmetrics = \"9471\"\n"),
                ":6: [node] metrics: '9471' has no port: HOST:PORT, as in 127.0.0.1:9471",
            ),
            (
                format!("{SMALL}[node]\nlisten = \"n0:80\"\nmetrics = \"n0:80\"\n"),
                "[node] metrics = \"n0:80\": the coordinator listens there, give it another port",
            ),
            (
                format!("{SMALL}[node]\nmetrics = \"[::1]:80\"\ndoor = \"[::1]:80\"\n"),
                "[node] door = \"[::1]:80\": metrics are read there, give it another port",
            ),
            (
                format!("{SMALL}[node]\naddress = \"0.0.0.0\"\n"),
                "[node] address = \"0.0.0.0\": nobody reaches this node by that",
            ),
            (format!("{SMALL}[node]\naddress = \"::\"\n"), "[node] address = \"::\": nobody reaches"),
            (
                format!("{SMALL}[node]\ntraffic_class = 256\n"),
                ":6: [node] traffic_class = 256: a whole number from 0 to 255",
            ),
            (
                format!("{SMALL}[node] # this one\nrank = -1\n"),
                ":6: [node] rank = -1: a whole number from 0 to 4095",
            ),
            (
                format!("{SMALL}[systems]\nlease_ms = -5\n"),
                ":6: [systems] lease_ms = -5: a whole number from 1 to 3600000",
            ),
            (
                format!("{SMALL}[node]\npatience_s = 1e9\n"),
                ":6: [node] patience_s = 1e9: a whole number from 1 to 31622400",
            ),
            (format!("{SMALL}[node]\npatience_s = 0\n"), "[node] patience_s = 0: a whole number from 1 to"),
            (format!("{SMALL}[node]\nspin = 1\n"), ":6: [node] spin = 1: true or false"),
            (SMALL.replace("meet = \"n0\"\n", ""), "[cluster] meet is missing: HOST or HOST:PORT"),
            (String::new(), "there is no section [cluster]"),
        ];
        for (text, says) in cases {
            let line = Config::parse(&text).expect_err(&text).to_string();
            assert!(line.contains(says) && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn a_value_of_another_kind_is_told_what_its_field_must_be_whichever_field_it_is() {
        for section in ["cluster", "node", "systems"] {
            let header = if section == "cluster" { String::new() } else { format!("[{section}]\n") };
            let line =
                |line: &str| Config::parse(&format!("{SMALL}{header}{line}\n")).expect_err(line).to_string();
            let unknown = line("nothing = 1");
            let fields: Vec<&str> = unknown.split('`').skip(3).step_by(2).collect();
            assert!(fields.len() >= 4, "{unknown}");
            let second = |field: &&str| !SMALL.contains(&format!("{field} ="));
            for field in fields.into_iter().filter(second) {
                let told = line(&format!("{field} = []"));
                assert!(told.contains(&format!(": [{section}] {field} = []: ")), "{told}");
            }
        }
    }
}
