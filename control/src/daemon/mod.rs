//! A node that lives: it joins, serves until it is told to go, drains, and leaves.
//!
//! One of the daemons is the coordinator as well. When that one goes, the others keep what they know and come back to it
//! once it is there again: a coordinator can be updated while systems run.

pub mod config;
pub mod metrics;

use crate::coordinator::{self, Coordinator, Handle, StartError};
use crate::frame::span;
use crate::member::{self, MemberError, Membership, join};
use crate::message::{Join, Report};
use crate::net::{Endpoint, Network};
use crate::roster::Terms;
use crate::secret::{Secret, nonce};
use crate::timing::Timing;
use config::Config;
use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::io;
use std::pin::pin;

/// What a daemon needs beside its configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which node this is.
    pub rank: u32,
    /// The cluster's secret, read already.
    pub secret: Secret,
    /// The version of the program.
    pub program: String,
    /// How long things take.
    pub timing: Timing,
}

/// Why a daemon ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Its coordinator does not begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It is not in the cluster.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// It cannot listen for who reads its metrics.
    #[error("metrics: cannot listen on {at}: {why}")]
    Metrics {
        /// Where.
        at: Endpoint,
        /// Why.
        why: io::Error,
    },
    /// The system has no random bytes.
    #[error("{0}")]
    Random(io::Error),
}

impl DaemonError {
    /// Whether somebody has to change something before another start can end otherwise.
    pub fn is_final(&self) -> bool {
        match self {
            DaemonError::Start(why) => matches!(why, StartError::Unprotected { .. }),
            DaemonError::Member(MemberError::Call(why)) => why.is_final(),
            _ => false,
        }
    }
}

/// Runs a daemon until `stop` is there. `ready` is called once, when it is in the cluster.
///
/// # Errors
/// It cannot begin, is refused, or is not in the cluster any more.
pub async fn run<N: Network>(
    net: &N,
    config: &Config,
    options: Options,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<(), DaemonError> {
    let coordinator = match config.coordinates(options.rank) {
        true => Some(bind(net, config, &options).await?),
        false => None,
    };
    let (handle, running) = match coordinator {
        Some((coordinator, handle)) => (Some(handle), Some(coordinator.run())),
        None => (None, None),
    };
    let metrics = match &config.node.metrics {
        Some(at) => {
            let listener = net.bind(at).await;
            Some(listener.map_err(|why| DaemonError::Metrics { at: at.clone(), why })?)
        }
        None => None,
    };
    let state = metrics::State::new(config, &options, handle);
    let served = async {
        match metrics {
            Some(listener) => metrics::serve::<N>(listener, &state).await,
            None => pending().await,
        }
    };
    let coordinated = async {
        match running {
            Some(running) => running.await,
            None => pending().await,
        }
    };
    let life = live(net, config, &options, &state, ready, stop);
    let (served, coordinated, life) = (pin!(served), pin!(coordinated), pin!(life));
    // The coordinator ends with the daemon and says nothing: its nodes wait for the next one.
    tokio::select! {
        biased;
        ended = life => ended,
        () = served => Ok(()),
        () = coordinated => Ok(()),
    }
}

async fn bind<N: Network>(
    net: &N,
    config: &Config,
    options: &Options,
) -> Result<(Coordinator<N>, Handle), StartError> {
    let terms = Terms {
        cluster: config.cluster.name.clone(),
        program: options.program.clone(),
        scenario: String::new(),
        nodes: config.cluster.nodes,
    };
    let (secret, timing) = (options.secret.clone(), options.timing);
    let config = coordinator::Config { listen: config.node.listen(), terms, secret, timing };
    let (coordinator, handle, _) = Coordinator::bind(net, config).await?;
    Ok((coordinator, handle))
}

async fn live<N: Network>(
    net: &N,
    config: &Config,
    options: &Options,
    state: &metrics::State,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<(), DaemonError> {
    let mut stop = pin!(stop);
    let member = member_config(config, options)?;
    let membership = tokio::select! {
        biased;
        joined = join(net.clone(), member) => joined?,
        () = &mut stop => {
            tracing::info!("node {}: told to go before it was in", options.rank);
            return Ok(());
        }
    };
    state.follow(membership.members());
    membership.report(about_this_process()).await?;
    ready();
    tokio::select! {
        biased;
        () = &mut stop => drain(membership, options.rank).await,
        why = membership.ended() => return Err(why.into()),
    }
    Ok(())
}

/// What systems have under way ends here, once daemons run systems; then the node leaves.
async fn drain(membership: Membership, rank: u32) {
    tracing::info!("node {rank}: told to go: leaving");
    membership.leave().await;
}

fn member_config(config: &Config, options: &Options) -> Result<member::Config, DaemonError> {
    let random = nonce().map_err(DaemonError::Random)?;
    let incarnation = random.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
    let join = Join {
        cluster: config.cluster.name.clone(),
        program: options.program.clone(),
        scenario: String::new(),
        rank: options.rank,
        nodes: config.cluster.nodes,
        incarnation,
        address: None,
        blob: Vec::new(),
    };
    let patience = config.node.patience();
    tracing::info!("node {}: calls {} for at most {}", options.rank, config.cluster.meet, span(patience));
    let (secret, timing) = (options.secret.clone(), options.timing);
    Ok(member::Config { at: config.cluster.meet.clone(), join, secret, timing, patience })
}

fn about_this_process() -> Report {
    let about = BTreeMap::from([("process".to_string(), std::process::id().to_string())]);
    Report { view: None, systems: BTreeMap::from([("daemon".to_string(), about)]) }
}
