//! The command line of `weft fs`.

use crate::segment_args::ClusterArgs;
use crate::whole::whole;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `weft fs`.
#[derive(Debug, Args)]
pub struct FsArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: FsCommand,
    /// Where the cluster is.
    #[command(flatten)]
    pub of: ClusterArgs,
    /// The node that does it; without it the first one that runs files
    #[arg(long, global = true, value_name = "RANK")]
    pub node: Option<u32>,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Show no progress
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// What can be done with files.
#[derive(Debug, Subcommand)]
pub enum FsCommand {
    /// Show what is in a directory
    Ls {
        /// The directory's path
        #[arg(default_value = "/")]
        directory: String,
        /// With the sizes of files
        #[arg(short, long)]
        long: bool,
    },
    /// Copy a local file to a new file of the cluster, which has its name once it is whole
    Put {
        /// The local file; `-`: standard input
        from: PathBuf,
        /// The new file's path [default: the local file's name, in the root]
        name: Option<String>,
        /// Bytes of a strip [default: 1 MiB]
        #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
        strip: Option<u32>,
        /// Over how many servers it is striped [default: all]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        servers: Option<u16>,
        /// Take the place of a file of that path
        #[arg(short, long)]
        force: bool,
    },
    /// Copy a file of the cluster to a local file
    Get {
        /// The file's path
        name: String,
        /// The local file; `-`: standard output [default: the same name, here]
        to: Option<PathBuf>,
    },
    /// Show a file's size and how it is striped
    Stat {
        /// The file's path
        name: String,
    },
    /// Give a file another size: bytes behind it are gone, and new ones are zero
    Truncate {
        /// The file's path
        name: String,
        /// Its size in bytes
        #[arg(value_parser = whole)]
        size: u64,
    },
    /// Remove files
    Rm {
        /// Their paths
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Make directories
    Mkdir {
        /// Their paths
        #[arg(required = true)]
        paths: Vec<String>,
    },
    /// Remove directories in which nothing is
    Rmdir {
        /// Their paths
        #[arg(required = true)]
        paths: Vec<String>,
    },
    /// Give a file, or a directory with all that is in it, another path, at once
    Mv {
        /// The path that it has
        from: String,
        /// The path that it is to have; of a directory: it goes in there
        to: String,
        /// Take the place of a file of that path
        #[arg(short, long)]
        force: bool,
    },
}

/// Examples that its help shows.
pub const FS_EXAMPLES: &str = "\
Examples:
  A file into the cluster, and out of it
    weft fs --cluster /etc/weft/cluster.toml put results.dat
    weft fs --cluster /etc/weft/cluster.toml get results.dat copy.dat
  From a program, striped over two servers
    tar c src | weft fs --cluster /etc/weft/cluster.toml put - src.tar --servers 2
  What there is
    weft fs --cluster /etc/weft/cluster.toml ls -l";
