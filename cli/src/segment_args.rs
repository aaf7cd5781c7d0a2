//! The command line of `weft segment`.

use crate::whole::whole;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use weft_control::net::Endpoint;
use weft_protocols::ddss::named::LARGEST_VALUE;
use weft_protocols::ddss::{Header, Model};

/// `weft segment`.
#[derive(Debug, Args)]
pub struct SegmentArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: SegmentCommand,
    /// Where the cluster is.
    #[command(flatten)]
    pub of: ClusterArgs,
    /// The node that does it; without it the first one that runs segments (`list`: all)
    #[arg(long, global = true, value_name = "RANK")]
    pub node: Option<u32>,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
}

/// Where a cluster of daemons is asked.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// The daemons' configuration file, which says where the coordinator is and which file has the secret
    #[arg(long, global = true, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Where the coordinator is; without it and without a file, on this machine
    #[arg(long, global = true, value_name = "HOST[:PORT]")]
    pub at: Option<Endpoint>,
    /// The file with the cluster's secret
    #[arg(long, global = true, value_name = "FILE")]
    pub secret: Option<PathBuf>,
}

/// What can be done with segments.
#[derive(Debug, Subcommand)]
pub enum SegmentCommand {
    /// Make a file's content the value of a name; its segment is made if it is not there
    Put {
        /// The name: 1 to 255 bytes
        name: String,
        /// The file; without one, or `-`: standard input
        file: Option<PathBuf>,
        /// The most bytes of its values, if the segment is made [default: a power of two that has room, at least 64]
        #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST_VALUE)))]
        size: Option<u32>,
        /// Its coherence model, if the segment is made: null, read, write, strict, version, `delta(2)`, `temporal(100us)` [default:
        /// version]
        #[arg(long, value_parser = model)]
        model: Option<Model>,
        /// The node that keeps it, if the segment is made [default: the one that keeps its name, by a hash]
        #[arg(long, value_name = "RANK", value_parser = clap::value_parser!(u32).range(0..i64::from(Header::NODES)))]
        home: Option<u32>,
    },
    /// Write the value of a name to standard output, as it is (also with `--json`)
    Get {
        /// The name
        name: String,
        /// Write it to this file instead, whole or not at all, and say its version; `-` is standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print a line for each new version of a name's value: its number and what it is (not under null, where values have no versions)
    Watch {
        /// The name
        name: String,
        /// Begin with the version after this one, not with the one that is there
        #[arg(long, value_name = "VERSION", value_parser = whole)]
        from: Option<u64>,
        /// End after so many lines
        #[arg(long, value_name = "N", value_parser = whole)]
        count: Option<u64>,
    },
    /// Show what all nodes keep
    List,
    /// Release the segment of a name: its value is gone
    Rm {
        /// The name
        name: String,
    },
}

fn model(text: &str) -> Result<Model, String> {
    text.parse().map_err(|()| {
        "a model is null, read, write, strict, version, delta(VERSIONS) or temporal(TIMEus)".to_string()
    })
}

/// Examples that its help shows.
pub const SEGMENT_EXAMPLES: &str = "\
Examples:
  A value that all nodes see
    echo 0.25 | weft segment --cluster /etc/weft/cluster.toml put load
    weft segment --cluster /etc/weft/cluster.toml get load
  A program that follows a configuration
    weft segment --cluster /etc/weft/cluster.toml watch config
  What there is, and where
    weft segment --cluster /etc/weft/cluster.toml list";
