//! `weft daemon`: a node that lives, until SIGTERM.

use crate::args::{DaemonArgs, LogFormat};
use crate::exit::{Exit, Failure};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use weft_control::daemon::config::Config;
use weft_control::daemon::{DaemonError, Options, run as live};
use weft_control::net::Tcp;
use weft_control::secret::Secret;
use weft_control::timing::Timing;

/// The version that all nodes of a cluster must have.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// Runs the daemon.
pub fn run(args: &DaemonArgs) -> Result<Exit, Failure> {
    let config = Config::read(&args.config).map_err(Failure::bad_input)?;
    let slurm = std::env::var("SLURM_PROCID").ok();
    let rank = config.rank(args.rank, slurm.as_deref()).map_err(Failure::bad_input)?;
    let secret = config.cluster.secret.as_deref().map_or_else(|| Ok(Secret::none()), Secret::read);
    let secret = secret.map_err(Failure::bad_input)?;
    log(args.log_level, args.log);
    let options = Options { rank, secret, program: PROGRAM.to_string(), timing: Timing::default() };
    let ended = runtime()?.block_on(async {
        let (mut terminate, mut interrupt) = (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        let ready = || {
            // Without systemd there is nobody to tell.
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
            tracing::info!("node {rank}: ready");
        };
        Ok(live(&Tcp, &config, options, ready, stop).await)
    })?;
    ended.map(|()| Exit::Held).map_err(failure)
}

fn failure(why: DaemonError) -> Failure {
    match why.is_final() {
        true => Failure::bad_input(why),
        false => Failure::unfinished(why),
    }
}

/// One thread is enough for the control plane.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::unfinished)
}

fn on(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|why| Failure::unfinished(format!("signals cannot be taken: {why}")))
}

/// Lines on standard error from a level on, for people or for programs.
fn log(level: Level, format: LogFormat) {
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
