//! What commands that speak the control plane's protocol have in common.

use crate::args::LogFormat;
use crate::exit::Failure;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, SubscriberExt};

/// The version that all nodes of a cluster must have: the word that a build was given, or the release's.
pub const PROGRAM: &str = match option_env!("WEFT_BUILD") {
    Some(build) if !build.is_empty() => build,
    _ => env!("CARGO_PKG_VERSION"),
};

/// One thread is enough for the control plane.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::unfinished)
}

/// Runs something on that thread. What it leaves behind is not waited for: a name that its resolver is still looking for, say.
pub fn run<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = runtime()?;
    let ended = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(ended)
}

/// Lets this process open as many files as the system lets it at all. Usually it begins with 1,024, and a coordinator may need one for
/// each node, each client, and as many again for those who have not said yet who they are.
pub fn raise_file_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it is refused, the coordinator makes room for those who come.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Lines on standard error from a level on, for people or for programs.
pub fn log(level: Level, format: LogFormat) {
    let filter = Targets::new().with_target("weft", level).with_target("weft_control", level);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    // There is no other subscriber in this process to be in the way.
    let _ = tracing::subscriber::set_global_default(
        tracing_subscriber::registry().with(lines.with_filter(filter)),
    );
}

#[cfg(test)]
#[path = "language_tests.rs"]
mod language_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_open_as_many_files_as_the_system_lets_it() {
        raise_file_limit();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
    }
}
