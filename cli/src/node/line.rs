//! A node's line to the judge: a thread that keeps the node in the control plane's cluster and passes on what both say.

use super::waiting::Waiting;
use crate::bridge::End;
use crate::exit::Failure;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weft_control::member::{self, Config, MemberError, Membership};
use weft_control::net::Tcp;

/// After how many attempts to join somebody is told: as many as fit into this.
const ROUND: Duration = Duration::from_secs(2);

/// A node's line.
pub struct Line(JoinHandle<Result<(), Failure>>);

impl Line {
    /// Begins to join, as long as `config` says. The socket hears what the judge says, and ends with the node's place in the cluster.
    ///
    /// # Errors
    /// The system's.
    pub fn open(config: Config) -> Result<(UnixStream, Line), Failure> {
        let (here, there) = UnixStream::pair().map_err(Failure::unfinished)?;
        let thread = thread::spawn(move || crate::control::run(keep(config, there))?);
        Ok((here, Line(thread)))
    }

    /// Waits for its end, which comes with that of the socket. Where both ended in an error, the line knows the reason.
    pub fn close<T>(self, lived: Result<T, Failure>) -> Result<T, Failure> {
        let kept =
            self.0.join().unwrap_or_else(|_| Err(Failure::unfinished("the line to the coordinator failed")));
        lived.map_err(|why| kept.err().unwrap_or(why))
    }
}

async fn keep(config: Config, node: UnixStream) -> Result<(), Failure> {
    let mut node = End::new(node).map_err(Failure::unfinished)?;
    let Some(mut membership) = enter(config, &mut node).await? else { return Ok(()) };
    let mut members = membership.members();
    loop {
        let away = async { members.wait_for(|members| !members.coordinator).await.is_ok() };
        tokio::select! {
            biased;
            said = node.next() => match said {
                Some(said) => membership.send(said).await,
                None => {
                    membership.leave().await;
                    return Ok(());
                }
            },
            told = membership.data() => match told {
                Some(told) => node.say(&told).await,
                None => return Err(ended(&membership)),
            },
            // What was on its way is lost, and the history would have a hole.
            _ = away => return Err(ended(&membership)),
        }
    }
}

/// Tries to join until the node is in, and says so now and then; nodes start in any order. None if the node has gone meanwhile.
async fn enter(config: Config, node: &mut End) -> Result<Option<Membership>, Failure> {
    let mut said = Vec::new();
    let mut joining = pin!(join(config));
    let membership = loop {
        tokio::select! {
            biased;
            joined = &mut joining => break joined?,
            early = node.next() => match early {
                Some(early) => said.push(early),
                None => return Ok(None),
            },
        }
    };
    for early in said {
        membership.send(early).await;
    }
    Ok(Some(membership))
}

async fn join(config: Config) -> Result<Membership, Failure> {
    let (began, mut waiting) = (Instant::now(), Waiting::new());
    loop {
        let left = config.patience.saturating_sub(began.elapsed());
        let round = Config { patience: ROUND.min(left), ..config.clone() };
        match member::join(Tcp, round).await {
            Ok(membership) => return Ok(membership),
            Err(MemberError::GaveUp { last, .. }) if left > ROUND => {
                waiting.tell(|| format!("node 0: {last}"));
            }
            Err(MemberError::GaveUp { last, .. }) => {
                let tried = config.patience;
                return Err(Failure::unfinished(MemberError::GaveUp { tried, last }));
            }
            Err(why @ MemberError::Call(_)) => return Err(Failure::bad_input(why)),
            Err(why) => return Err(Failure::unfinished(why)),
        }
    }
}

fn ended(membership: &Membership) -> Failure {
    match &membership.members().borrow().ended {
        Some(why) => Failure::unfinished(why),
        None => Failure::unfinished("the coordinator was lost"),
    }
}
