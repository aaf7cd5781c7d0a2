//! The command lines of commands that make something to keep: a crate, completions, manual pages.

use clap::Args;
use std::path::PathBuf;

/// `weft new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The folder to make; its last part is the crate's name
    pub path: PathBuf,
    /// Where the sources of Weft are [default: where this program was built from]
    #[arg(long, value_name = "DIRECTORY")]
    pub weft: Option<PathBuf>,
}

/// `weft completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `weft man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write the page and one of each command into this folder instead, which is made if need be
    pub folder: Option<PathBuf>,
}
