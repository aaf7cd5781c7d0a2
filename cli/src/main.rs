//! The program `weft`: a module a command, and what commands share.
//!
//! | module | idea |
//! |---|---|
//! | `command_line`, `args`, `device_args`, `fs_args`, `making_args`, `segment_args`, `port_args`, `help` | command lines, and how `--help` explains them |
//! | `run`, `sweep`, `report`, `metrics`, `picture`, `trace` | a scenario from one seed or many, and what is told of it |
//! | `explore` | the worlds: `check`, `fuzz`, `replay` |
//! | `paper`, `profiles`, `calibrate`, `bench` | figures: of papers, of profiles, of this machine |
//! | `node`, `stores` | a scenario on real machines |
//! | `sockets` | `pipe`, `cp`, `perf`: byte streams between two machines |
//! | `daemon`, `control`, `status` | a node that lives, and who is in its cluster |
//! | `door`, `segment`, `fs`, `fsck` | what is asked of such nodes, and what a server's store has |
//! | `device`, `devices`, `new`, `manual` | what is here to run on; what is made to keep |
//! | `bridge`, `taken`, `troubles` | between the threads of a process; why a node cannot begin, or connect |
//! | `output`, `table`, `progress`, `logfile`, `part` | what is printed and written |
//! | `exit`, `interrupt`, `memory`, `panics`, `seeds` | how a command ends; many runs at a time |

mod args;
mod bench;
mod bridge;
#[cfg(feature = "hw")]
mod calibrate;
mod command_line;
mod control;
mod daemon;
#[cfg(feature = "hw")]
mod device;
#[cfg(feature = "hw")]
mod device_args;
mod devices;
mod door;
mod exit;
mod explore;
mod fs;
mod fs_args;
mod fsck;
mod help;
mod interrupt;
mod lock;
mod lock_args;
mod logfile;
mod making_args;
mod manual;
mod memory;
mod metrics;
mod new;
#[cfg(feature = "hw")]
mod node;
mod output;
mod panics;
mod paper;
mod part;
mod picture;
#[cfg(any(feature = "hw", test))]
mod port_args;
mod profiles;
mod progress;
mod report;
mod run;
mod seeds;
mod segment;
mod segment_args;
mod sockets;
mod status;
mod stores;
mod sweep;
mod table;
mod taken;
mod trace;
mod troubles;
mod whole;

use args::Command;
use exit::{Exit, Failure};
use std::io::{self, Write};
use std::process::ExitCode;

/// The explorer makes and drops the programs of a world tens of thousands of times a second.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    interrupt::outlive_large_files();
    match act() {
        Ok(exit) => exit.into(),
        Err(failure) => {
            // Nobody may be reading; the exit code tells the same.
            let line = memory::shortage().map_or_else(|| failure.to_string(), str::to_string);
            let _ = writeln!(io::stderr().lock(), "weft: {line}");
            failure.exit().into()
        }
    }
}

fn act() -> Result<Exit, Failure> {
    let cli = match command_line::read() {
        Ok(Ok(cli)) => cli,
        Ok(Err(asked_for)) => return output::text(&asked_for).map(|()| Exit::Held),
        Err(complaint) => return Err(Failure::bad_input(complaint)),
    };
    // Simulated clusters can take more than there is. A node that lives is its system's to end, and nothing else grows.
    let simulates = |command: &Command| {
        use Command::{Bench, Check, Fuzz, Paper, Replay, Run};
        matches!(command, Run(_) | Check(_) | Fuzz(_) | Replay(_) | Paper(_) | Bench { .. })
    };
    if simulates(&cli.command) {
        memory::watch();
        panics::install();
    }
    match cli.command {
        Command::Run(args) => run::run(&args),
        #[cfg(feature = "hw")]
        Command::Node(args) => node::node(&args),
        #[cfg(not(feature = "hw"))]
        Command::Node(_) => Err(Failure::no_devices("weft node")),
        #[cfg(feature = "hw")]
        Command::Calibrate(args) => calibrate::run(&args),
        #[cfg(not(feature = "hw"))]
        Command::Calibrate(_) => Err(Failure::no_devices("weft calibrate")),
        #[cfg(feature = "hw")]
        Command::Pipe(args) => sockets::pipe(&args),
        #[cfg(feature = "hw")]
        Command::Cp(args) => sockets::cp(&args),
        #[cfg(feature = "hw")]
        Command::Perf(args) => sockets::perf(&args),
        #[cfg(not(feature = "hw"))]
        Command::Pipe(_) => Err(Failure::no_devices("weft pipe")),
        #[cfg(not(feature = "hw"))]
        Command::Cp(_) => Err(Failure::no_devices("weft cp")),
        #[cfg(not(feature = "hw"))]
        Command::Perf(_) => Err(Failure::no_devices("weft perf")),
        Command::Profiles(args) => profiles::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Bench { what } => bench::run(&what),
        Command::Paper(args) => paper::run(&args),
        Command::Check(args) => explore::check::run(&args),
        Command::Fuzz(args) => explore::fuzz::run(&args),
        Command::Replay(args) => explore::replay::run(&args),
        Command::New(args) => new::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
        Command::Daemon(args) => daemon::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Segment(args) => segment::run(&args),
        Command::Lock(args) => lock::run(&args),
        Command::Fs(args) => fs::run(&args),
        Command::Fsck(args) => fsck::run(&args),
    }
}
