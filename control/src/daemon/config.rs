//! A daemon's configuration file. The same file can be on all machines: the rank may come from elsewhere.

use crate::message::TEXT;
use crate::net::Endpoint;
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most nodes of a cluster.
pub const NODES: u32 = 4_096;

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
    #[serde(default, deserialize_with = "some_endpoint")]
    pub metrics: Option<Endpoint>,
    /// For how many seconds the daemon tries to join. Default: 120.
    patience_s: Option<u64>,
}

fn endpoint<'de, D: Deserializer<'de>>(from: D) -> Result<Endpoint, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

fn some_endpoint<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Endpoint>, D::Error> {
    endpoint(from).map(Some)
}

/// Why a file is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}", path = path.display())]
pub struct ConfigError {
    path: PathBuf,
    why: String,
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let failed = |why: String| ConfigError { path: path.into(), why };
        let about = std::fs::metadata(path).map_err(|why| failed(why.to_string()))?;
        if about.len() > LONGEST {
            return Err(failed("it is longer than a megabyte: is it the right file?".to_string()));
        }
        let text = std::fs::read_to_string(path).map_err(|why| failed(why.to_string()))?;
        Config::parse(&text).map_err(failed)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|why| why.to_string())?;
        let Cluster { name, nodes, .. } = &config.cluster;
        if name.is_empty() || name.len() > TEXT || name.contains(char::is_control) {
            return Err(format!("[cluster] name: 1 to {TEXT} characters without control characters"));
        }
        if !(1..=NODES).contains(nodes) {
            return Err(format!("[cluster] nodes = {nodes}: 1 to {NODES}"));
        }
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
        let rank = given.or(self.node.rank).or_else(|| slurm?.parse().ok());
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

impl Node {
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
            (SMALL.replace("nodes = 2", "nodes = 0"), "[cluster] nodes = 0: 1 to 4096"),
            (SMALL.replace("\"blue\"", "\"\""), "[cluster] name: 1 to 256 characters"),
            (SMALL.replace("\"n0\"", "\"n0:x\""), "'n0:x' is no HOST or HOST:PORT"),
            (format!("{SMALL}nodez = 1\n"), "unknown field `nodez`"),
            (format!("{SMALL}[nodes]\n"), "unknown field `nodes`"),
            (String::new(), "missing field `cluster`"),
        ];
        for (text, says) in cases {
            let line = Config::parse(&text).expect_err(&text);
            assert!(line.contains(says), "{line}");
        }
    }
}
