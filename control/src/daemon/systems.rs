//! Systems that a daemon runs: what they are given, and how they and the daemon follow each other.
//!
//! They are a future beside the daemon's own. What they are is none of the control plane's business: it passes on clients' calls
//! and their answers, and what the systems report.

use crate::coordinator::CLIENTS;
use crate::member::Members;
use crate::message::{Answer, Failed, Report};
use std::future::Future;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

/// How long systems may take to end once the daemon was told to go.
pub const DRAIN: Duration = Duration::from_secs(5);

/// A client's call to a system of this node.
#[derive(Debug)]
pub struct Request {
    /// The system.
    pub system: String,
    /// What it is to do, in its own language.
    pub body: Vec<u8>,
    /// Where the answer goes. Dropped without one, the client is told that there is none.
    pub answer: oneshot::Sender<Answer>,
}

/// What systems are given.
#[derive(Debug)]
pub struct Seat {
    /// Which node this is.
    pub rank: u32,
    /// Who is in the cluster.
    pub members: watch::Receiver<Members>,
    /// Clients' calls.
    pub calls: mpsc::Receiver<Request>,
    /// What the systems say of themselves, in place of what they said before.
    pub reports: mpsc::Sender<Report>,
    /// True once they are to end. Then the future is to return, within [`DRAIN`].
    pub stop: watch::Receiver<bool>,
}

/// The systems of a node that runs none.
///
/// # Errors
/// None.
pub async fn none(mut seat: Seat) -> Result<(), String> {
    let stopped = async {
        // Without a daemon nothing is to be done any more, either.
        let _ = seat.stop.wait_for(|stop| *stop).await;
    };
    let refused = async {
        while let Some(Request { system, answer, .. }) = seat.calls.recv().await {
            // Who asked may have gone.
            let _ = answer.send(Answer::Failed(Failed::for_good(does_not_run(seat.rank, &system))));
        }
    };
    tokio::select! {
        () = stopped => {}
        () = refused => {}
    }
    Ok(())
}

/// What a node says to who calls a system of it that its daemon does not run.
pub fn does_not_run(rank: u32, system: &str) -> String {
    format!("node {rank} does not run {system}")
}

/// Asks the systems of a node. Clones ask the same ones.
#[derive(Clone, Debug)]
pub(super) struct Asker(mpsc::Sender<Request>);

impl Asker {
    /// Asks at once; what is given back waits for the answer.
    pub fn ask(&self, system: String, body: Vec<u8>) -> impl Future<Output = Answer> + Send + use<> {
        let (answer, told) = oneshot::channel();
        // What is refused goes at once, and with it what would answer.
        let is_passed = self.0.try_send(Request { system, body, answer }).is_ok();
        async move {
            let why = match told.await {
                Ok(answer) => return answer,
                Err(_) if is_passed => {
                    "the node's systems ended before they answered: whether they did what was asked is not known"
                }
                Err(_) => "the node has more calls than it takes: call again",
            };
            Answer::Failed(Failed::for_now(why))
        }
    }
}

/// The daemon's end of a [`Seat`].
pub(super) struct Desk {
    asker: Asker,
    reports: mpsc::Receiver<Report>,
    stop: watch::Sender<bool>,
    /// Calls that the systems have.
    open: JoinSet<(u64, Answer)>,
}

/// What happened at a desk.
pub(super) enum Event {
    /// A call has its answer.
    Answered(u64, Answer),
    /// The systems report.
    Report(Report),
}

impl Desk {
    /// A desk, and the seat at it.
    pub fn new(rank: u32, members: watch::Receiver<Members>) -> (Desk, Seat) {
        // As many as can ask at a time may wait until the systems look at them: one more is of a client that has gone.
        let (calls, called) = mpsc::channel(CLIENTS);
        let (report, reports) = mpsc::channel(1);
        let (stop, stopped) = watch::channel(false);
        let seat = Seat { rank, members, calls: called, reports: report, stop: stopped };
        (Desk { asker: Asker(calls), reports, stop, open: JoinSet::new() }, seat)
    }

    /// What asks the systems.
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Passes a call on.
    pub fn call(&mut self, id: u64, system: String, body: Vec<u8>) {
        let answer = self.asker.ask(system, body);
        self.open.spawn(async move { (id, answer.await) });
    }

    /// What happens next.
    pub async fn next(&mut self) -> Event {
        loop {
            tokio::select! {
                biased;
                Some(Ok((id, answer))) = self.open.join_next(), if !self.open.is_empty() => {
                    return Event::Answered(id, answer);
                }
                Some(report) = self.reports.recv() => return Event::Report(report),
                // The systems have ended, and say nothing more.
                else => std::future::pending().await,
            }
        }
    }

    /// Tells the systems to end.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_is_one_too_many_is_answered_at_once_and_need_not_be_asked_about() {
        let (_tell, members) = watch::channel(Members::default());
        // Its systems look at nothing.
        let (mut desk, _seat) = Desk::new(0, members);
        for id in 0..=CLIENTS as u64 {
            desk.call(id, "files".to_string(), vec![]);
        }
        let Event::Answered(id, Answer::Failed(failed)) = desk.next().await else {
            panic!("nothing else happens")
        };
        assert_eq!((id, failed.is_final), (CLIENTS as u64, false));
        assert!(failed.why.contains("call again"), "{}", failed.why);
    }
}
