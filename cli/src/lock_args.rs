//! The command line of `weft lock`.

use crate::segment_args::ClusterArgs;
use crate::whole::whole;
use clap::{Args, Subcommand};
use std::ffi::OsString;

/// `weft lock`.
#[derive(Debug, Args)]
pub struct LockArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: LockCommand,
    /// Where the cluster is.
    #[command(flatten)]
    pub of: ClusterArgs,
    /// The node that does it; without it the one whose rank the configuration file says, or else the first one that runs locks
    /// (`list`: all)
    #[arg(long, global = true, value_name = "RANK")]
    pub node: Option<u32>,
}

/// What can be done with locks.
#[derive(Debug, Subcommand)]
pub enum LockCommand {
    /// Run a command while a lock is held, and give the lock back when the command has ended
    ///
    /// The command finds the lock's name in WEFT_LOCK and the grant's fencing token in WEFT_TOKEN. Its exit code is that of `weft
    /// lock run`; 128 and the signal's number where a signal ended it. Where the lock was lost meanwhile, the command and what it has started are
    /// ended (SIGTERM, and SIGKILL when others may have the lock), and the exit code is 3. It is 3, too, where the lock was not had, and 2 where it cannot be.
    Run {
        /// Share the lock with others that do
        #[arg(long)]
        shared: bool,
        /// Do not wait if the lock is not free
        #[arg(long = "try", conflicts_with = "wait")]
        tries: bool,
        /// For how many seconds to wait for the lock [default: as long as it takes]
        #[arg(long, value_name = "SECONDS", value_parser = whole)]
        wait: Option<u64>,
        /// After how many seconds without a word of this program the node gives the lock back
        #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
        patience: u64,
        /// The lock's name: 1 to 255 bytes
        name: String,
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Show which locks programs hold by `weft lock run`, and wait for
    List {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
}

/// Examples that its help shows.
pub const LOCK_EXAMPLES: &str = "\
Examples:
  One backup at a time, in the whole cluster
    weft lock --cluster /etc/weft/cluster.toml run backup -- /usr/local/sbin/backup
  Not at all if somebody else does it
    weft lock --cluster /etc/weft/cluster.toml run --try reindex -- make index
  Who holds what
    weft lock --cluster /etc/weft/cluster.toml list";
