//! `weft daemon`: a node that lives, until SIGTERM.

#[cfg(feature = "hw")]
mod engine;
#[cfg(feature = "hw")]
mod frame;
#[cfg(feature = "hw")]
mod seat;
#[cfg(feature = "hw")]
mod services;

use crate::args::DaemonArgs;
use crate::control::{PROGRAM, log, runtime};
use crate::exit::{Exit, Failure};
use tokio::signal::unix::{Signal, SignalKind, signal};
use weft_control::daemon::config::Config;
use weft_control::daemon::systems::none;
use weft_control::daemon::{DaemonError, Options, run as live};
use weft_control::net::Tcp;
use weft_control::secret::Secret;
use weft_control::timing::Timing;

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
    let address = crate::node::device::address(&on.open(None)?)?;
    let setup = engine::Setup { rank, on, store, systems: config.systems, spin: config.node.spin };
    Ok((Some(setup), address.to_string().into_bytes()))
}

fn failure(why: DaemonError) -> Failure {
    match why.is_final() {
        true => Failure::bad_input(why),
        false => Failure::unfinished(why),
    }
}

fn on(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|why| Failure::unfinished(format!("signals cannot be taken: {why}")))
}
