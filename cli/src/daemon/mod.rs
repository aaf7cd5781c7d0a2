//! `weft daemon`: a node that lives, until a signal asks it to leave.

mod among;
mod engine;
mod frame;
mod machine;
mod seat;
mod services;
mod troubles;

use crate::args::{DaemonArgs, LogFormat};
use crate::control::{PROGRAM, log, raise_file_limit};
use crate::exit::{Exit, Failure};
use crate::interrupt::Signals;
use machine::Machine;
use std::net::IpAddr;
use weft_control::daemon::config::{Config, Wire};
use weft_control::daemon::systems::none;
use weft_control::daemon::{DaemonError, Options, run as live};
use weft_control::message::WAITS;
use weft_control::net::Tcp;
use weft_control::secret::Secret;
use weft_control::timing::Timing;
use weft_store::StoreId;

/// What calls to segments are for.
pub const SEGMENTS: &str = "segments";

/// What calls to locks are for.
pub const LOCKS: &str = "locks";

/// What calls to files are for.
pub const FILES: &str = "files";

/// Under what a node reports connections that it could not make or accept, while there are any. It is no system, and no call is for it.
const CONNECTIONS: &str = "connections";

/// What a node reports while it cannot serve a system: calls go to another one.
fn not_running(system: &str) -> String {
    format!("{system}{WAITS}")
}

/// Runs the daemon. Where its lines are objects, why it ends is one as well.
pub fn run(args: &DaemonArgs) -> Result<Exit, Failure> {
    log(args.log_level, args.log);
    let ended = serve(args);
    if let (Err(why), LogFormat::Json) = (&ended, args.log) {
        tracing::error!("{why}");
    }
    ended
}

fn serve(args: &DaemonArgs) -> Result<Exit, Failure> {
    let config = Config::read(&args.config).map_err(Failure::bad_input)?;
    let slurm = std::env::var("SLURM_PROCID").ok();
    let rank = config.rank(args.rank, slurm.as_deref()).map_err(Failure::bad_input)?;
    let secret = config.cluster.secret.as_deref().map_or_else(|| Ok(Secret::none()), Secret::read);
    let secret = secret.map_err(Failure::bad_input)?;
    raise_file_limit();
    let (setup, blob) = setup(&config, rank, args.new_store)?;
    let (program, timing, scenario) = (PROGRAM.to_string(), Timing::default(), config.systems.digest());
    let options = Options { rank, secret, program, scenario, blob, timing };
    let ended = crate::control::run(async {
        let refused = |why| Failure::unfinished(format!("signals cannot be taken: {why}"));
        let mut signals = Signals::take().map_err(refused)?;
        let stop = signals.next();
        let ready = || {
            // Without systemd there is nobody to tell.
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
            tracing::info!("node {rank}: ready");
        };
        let systems = async |place| match setup {
            Some(setup) => seat::run(place, setup, &config).await,
            None => none(place).await,
        };
        Ok::<_, Failure>(live(&Tcp, &config, options, systems, ready, stop).await)
    })??;
    ended.map(|()| Exit::Held).map_err(failure)
}

/// What systems need, if there are any, and where others find this node: what cannot be is said before anybody waits.
fn setup(config: &Config, rank: u32, new_store: bool) -> Result<(Option<engine::Setup>, Vec<u8>), Failure> {
    if !config.systems.any() {
        return Ok((None, Vec::new()));
    }
    let (on, address) = on(config)?;
    let serves_files = rank < config.systems.file_servers;
    let store = match (&config.node.store, serves_files) {
        (Some(path), true) => {
            let id = StoreId { cluster: config.cluster.name.clone(), server: rank };
            Some(crate::stores::open(path, &id, Some(config.systems.file_servers), new_store)?)
        }
        (None, true) => {
            let wanted = format!(
                "node {rank} is a file server: [node] store says in which directory it keeps its bytes"
            );
            return Err(Failure::bad_input(wanted));
        }
        (_, false) => None,
    };
    let (systems, spin, traffic_class) = (config.systems, config.node.spin, config.node.traffic_class);
    let setup = engine::Setup { rank, on, store, systems, spin, traffic_class };
    Ok((Some(setup), address.to_string().into_bytes()))
}

/// What the systems of a node run on, and where that is.
fn on(config: &Config) -> Result<(Machine, IpAddr), Failure> {
    if config.systems.wire == Wire::Tcp {
        let address = machine::address(config)?;
        return Ok((Machine::Tcp(address), address));
    }
    #[cfg(not(feature = "hw"))]
    return Err(Failure::no_devices("a daemon with [systems] and without wire = \"tcp\""));
    #[cfg(feature = "hw")]
    {
        let device = crate::device::Choice::of_daemon(&config.node);
        let context = device.open(None)?;
        let address = crate::device::address(&context)?;
        Ok((Machine::Rdma(device.of_opened(&context)), address))
    }
}

fn failure(why: DaemonError) -> Failure {
    match why.is_final() {
        true => Failure::bad_input(why),
        false => Failure::unfinished(why),
    }
}
