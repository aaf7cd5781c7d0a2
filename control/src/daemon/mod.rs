//! A node that lives: it joins, serves until it is told to go, drains, and leaves.
//!
//! One of the daemons is the coordinator as well. When that one goes, the others keep what they know and come back to it
//! once it is there again: a coordinator can be updated while systems run.

pub mod config;
mod door;
pub mod metrics;
pub mod systems;

use crate::coordinator::{self, Coordinator, Handle, StartError};
use crate::frame::span;
use crate::member::{self, Called, MemberError, join};
use crate::message::{Join, Report};
use crate::net::{Endpoint, Network};
use crate::roster::Terms;
use crate::secret::{self, Secret};
use crate::timing::{Timing, at};
use config::Config;
use door::Door;
use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::io;
use std::pin::pin;
use systems::{Asker, DRAIN, Desk, Event, Seat};
use tokio::time::Instant;

/// What a daemon needs beside its configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which node this is.
    pub rank: u32,
    /// The cluster's secret, read already.
    pub secret: Secret,
    /// The version of the program.
    pub program: String,
    /// What all nodes must agree on beside it, as their systems' settings; empty where there are none.
    pub scenario: String,
    /// What others need to reach this node's adapters.
    pub blob: Vec<u8>,
    /// How long things take.
    pub timing: Timing,
}

/// Why a daemon ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Its coordinator does not begin, or its own door.
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
    /// Its systems have ended by themselves.
    #[error("node {0}: {1}")]
    Systems(u32, String),
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

/// Runs a daemon and its systems until `stop` is there. `ready` is called once, when it is in the cluster.
///
/// # Errors
/// It cannot begin, is refused, or is not in the cluster any more; its systems ended by themselves.
pub async fn run<N: Network, F: Future<Output = Result<(), String>>>(
    net: &N,
    config: &Config,
    options: Options,
    systems: impl FnOnce(Seat) -> F,
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
    let at_door = match &config.node.door {
        Some(at) => Some(door::bind(net, at, &options.secret).await?),
        None => None,
    };
    let state = metrics::State::new(config, &options, handle);
    let door = Door::new(config, &options);
    let received = async {
        match at_door {
            Some(listener) => door.serve::<N>(listener).await,
            None => pending().await,
        }
    };
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
    let ready = |systems| {
        door.open(systems);
        ready();
    };
    let life = live(net, config, &options, &state, systems, ready, stop);
    let (served, coordinated, received, life) = (pin!(served), pin!(coordinated), pin!(received), pin!(life));
    // The coordinator ends with the daemon and says nothing: its nodes wait for the next one.
    tokio::select! {
        biased;
        ended = life => ended,
        () = served => Ok(()),
        () = received => Ok(()),
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
        scenario: options.scenario.clone(),
        nodes: config.cluster.nodes,
    };
    let (secret, timing) = (options.secret.clone(), options.timing);
    let config = coordinator::Config { listen: config.node.listen(), terms, secret, timing };
    let (coordinator, handle, _) = Coordinator::bind(net, config).await?;
    Ok((coordinator, handle))
}

async fn live<N: Network, F: Future<Output = Result<(), String>>>(
    net: &N,
    config: &Config,
    options: &Options,
    state: &metrics::State,
    systems: impl FnOnce(Seat) -> F,
    ready: impl FnOnce(Asker),
    stop: impl Future<Output = ()>,
) -> Result<(), DaemonError> {
    let mut stop = pin!(stop);
    let rank = options.rank;
    let member = member_config(config, options)?;
    let mut membership = tokio::select! {
        biased;
        joined = join(net.clone(), member) => joined?,
        () = &mut stop => {
            tracing::info!("node {rank}: told to go before it was in");
            return Ok(());
        }
    };
    state.follow(membership.members());
    membership.report(with_process(Report::default())).await?;
    let (mut desk, seat) = Desk::new(rank, membership.members());
    ready(desk.asker());
    let (mut systems, mut ended) = (pin!(systems(seat)), pin!(membership.ended()));
    // When the systems have to have ended.
    let mut end = None;
    loop {
        tokio::select! {
            biased;
            // Before the systems, which may end because of it.
            why = &mut ended => return Err(why.into()),
            ended = &mut systems => match (ended, end) {
                (Ok(()), Some(_)) => break,
                (Ok(()), None) => return Err(DaemonError::Systems(rank, "its systems have ended".to_string())),
                (Err(why), _) => return Err(DaemonError::Systems(rank, why)),
            },
            () = &mut stop, if end.is_none() => {
                tracing::info!("node {rank}: told to go: leaving");
                end = Some(Instant::now() + DRAIN);
                desk.stop();
            }
            event = desk.next() => match event {
                Event::Answered(id, answer) => membership.answer(id, answer).await,
                Event::Report(report) => membership.report(with_process(report)).await?,
            },
            Some(Called { id, system, body }) = membership.called() => desk.call(id, system, body),
            () = at(end) => {
                tracing::warn!("node {rank}: its systems have not ended within {}", span(DRAIN));
                break;
            }
        }
    }
    membership.leave().await;
    Ok(())
}

fn member_config(config: &Config, options: &Options) -> Result<member::Config, DaemonError> {
    let join = Join {
        cluster: config.cluster.name.clone(),
        program: options.program.clone(),
        scenario: options.scenario.clone(),
        rank: options.rank,
        nodes: config.cluster.nodes,
        incarnation: secret::number().map_err(DaemonError::Random)?,
        address: None,
        blob: options.blob.clone(),
    };
    let patience = config.node.patience();
    tracing::info!("node {}: calls {} for at most {}", options.rank, config.cluster.meet, span(patience));
    let (secret, timing) = (options.secret.clone(), options.timing);
    Ok(member::Config { at: config.cluster.meet.clone(), join, secret, timing, patience })
}

/// Under what a daemon reports what is no system's.
const ITSELF: &str = "daemon";

/// What the systems report, and which process they are in.
fn with_process(mut report: Report) -> Report {
    let about = BTreeMap::from([("process".to_string(), std::process::id().to_string())]);
    report.systems.insert(ITSELF.to_string(), about);
    report
}
