//! `weft daemon`: a node that lives, until SIGTERM.

#[cfg(feature = "hw")]
mod bridge;
#[cfg(feature = "hw")]
mod engine;
#[cfg(feature = "hw")]
mod seat;
#[cfg(feature = "hw")]
mod services;

use crate::args::{DaemonArgs, LogFormat};
use crate::exit::{Exit, Failure};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use weft_control::daemon::config::Config;
use weft_control::daemon::systems::none;
use weft_control::daemon::{DaemonError, Options, run as live};
use weft_control::net::Tcp;
use weft_control::secret::Secret;
use weft_control::timing::Timing;

/// The version that all nodes of a cluster must have.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// What calls to segments are for.
pub const SEGMENTS: &str = "segments";

/// What calls to files are for.
pub const FILES: &str = "files";

/// What a node reports while it cannot serve a system: calls go to another one.
#[cfg(feature = "hw")]
fn not_running(system: &str) -> String {
    format!("{system} (waits)")
}

/// Runs the daemon.
pub fn run(args: &DaemonArgs) -> Result<Exit, Failure> {
    let config = Config::read(&args.config).map_err(Failure::bad_input)?;
    let slurm = std::env::var("SLURM_PROCID").ok();
    let rank = config.rank(args.rank, slurm.as_deref()).map_err(Failure::bad_input)?;
    let secret = config.cluster.secret.as_deref().map_or_else(|| Ok(Secret::none()), Secret::read);
    let secret = secret.map_err(Failure::bad_input)?;
    log(args.log_level, args.log);
    #[cfg(not(feature = "hw"))]
    if config.systems.any() {
        return Err(Failure::no_devices("a daemon with [systems]"));
    }
    #[cfg(feature = "hw")]
    let (setup, blob) = setup(&config, rank)?;
    #[cfg(not(feature = "hw"))]
    let blob = Vec::new();
    let (program, timing, scenario) = (PROGRAM.to_string(), Timing::default(), config.systems.digest());
    let options = Options { rank, secret, program, scenario, blob, timing };
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
        #[cfg(feature = "hw")]
        let systems = async |place| match setup {
            Some(setup) => seat::run(place, setup, config.cluster.nodes).await,
            None => none(place).await,
        };
        #[cfg(not(feature = "hw"))]
        let systems = none;
        Ok(live(&Tcp, &config, options, systems, ready, stop).await)
    })?;
    ended.map(|()| Exit::Held).map_err(failure)
}

/// What systems need, if there are any, and where others find this node's adapter: what cannot be is said before anybody waits.
#[cfg(feature = "hw")]
fn setup(config: &Config, rank: u32) -> Result<(Option<engine::Setup>, Vec<u8>), Failure> {
    if !config.systems.any() {
        return Ok((None, Vec::new()));
    }
    let on = crate::node::device::Choice::of_daemon(&config.node);
    let serves_files = rank < config.systems.file_servers;
    let store = match (&config.node.store, serves_files) {
        (Some(path), true) => Some(crate::stores::open(path, &config.cluster.name, rank)?),
        (None, true) => {
            let wanted = format!(
                "node {rank} is a file server: [node] store says in which directory it keeps its bytes"
            );
            return Err(Failure::bad_input(wanted));
        }
        (_, false) => None,
    };
    let context = on.open(None)?;
    let address = context.address().ok_or_else(|| {
        let (device, port) = (context.device_name(), context.port());
        Failure::bad_input(format!("port {port} of {device} has no IP address, by which peers find it"))
    })?;
    let setup = engine::Setup { rank, on, store, systems: config.systems, spin: config.node.spin };
    Ok((Some(setup), address.to_string().into_bytes()))
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
