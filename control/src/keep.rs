//! The task that keeps a node in its cluster: one connection after the other.

use crate::ask::{CallError, Callee, open};
use crate::connection::{Out, Pace, QUEUE, converse};
use crate::frame::{Ended, Frame, Kind};
use crate::handshake::Channel;
use crate::member::{Config, MemberError, Members};
use crate::message::{
    Answer, Entry, Failed, FromNode, KNOWN, NOT_COME, Opening, Presence, Report, ToNode, decode,
};
use crate::net::Network;
use crate::refusal::Refusal;
use crate::timing::{Pauses, at};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

/// What the node asks of the task.
#[derive(Debug)]
pub enum Command {
    /// Report this from now on.
    Report(Report),
    /// Send data to those above the coordinator.
    Data(Vec<u8>),
    /// Answer a call.
    Answer(u64, Answer),
    /// Leave.
    Leave,
}

/// A client's call, as the node is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// By which its answer is known.
    pub id: u64,
    /// The system that it is for.
    pub system: String,
    /// What it is to do.
    pub body: Vec<u8>,
}

/// A connection on which the coordinator said welcome.
pub struct Entered<S> {
    channel: Channel<S>,
    coordinator: u64,
    beat: Duration,
    silence: Duration,
}

/// One attempt to join.
async fn enter<N: Network>(net: &N, config: &Config) -> Result<Entered<N::Stream>, CallError> {
    let Config { at, join, secret, timing, .. } = config;
    let at = Callee::Coordinator(at.clone());
    let mut channel = open(net, &at, secret, timing, &Opening::Join(join.clone())).await?;
    let ended = |why: Ended| CallError::Handshake { at: at.clone(), why: why.into() };
    let within = timing.handshake + timing.probe;
    let answer = async {
        loop {
            match decode(&channel.reader.next(within).await?.body)? {
                ToNode::Welcome { coordinator, beat_ms, silence_ms } => {
                    return Ok(Ok((coordinator, beat_ms, silence_ms)));
                }
                ToNode::Refused(why) => return Ok(Err(why)),
                // It may have to probe another node first.
                _ => {}
            }
        }
    };
    let answer = timeout(within, answer).await.unwrap_or(Err(Ended::Silent(within)));
    let welcome = answer.map_err(ended)?;
    let (coordinator, beat, silence) = welcome.map_err(|why| CallError::Refused { at: at.clone(), why })?;
    let (beat, silence) = (Duration::from_millis(beat), Duration::from_millis(silence));
    Ok(Entered { channel, coordinator, beat, silence })
}

/// Tries to join until it is in, is refused, or has tried for as long as it may.
pub async fn enter_first<N: Network>(net: &N, config: &Config) -> Result<Entered<N::Stream>, MemberError> {
    let began = Instant::now();
    let mut pauses = Pauses::new(&config.timing, config.join.incarnation);
    let mut told = None;
    loop {
        let last = match enter(net, config).await {
            Ok(entered) => return Ok(entered),
            Err(why) if why.is_final() => return Err(why.into()),
            Err(why) => why,
        };
        let pause = pauses.next();
        if began.elapsed() + pause >= config.patience {
            return Err(MemberError::GaveUp { tried: config.patience, last });
        }
        // It may go on for minutes: each reason is told once.
        match told.as_ref() == Some(&last) {
            true => tracing::debug!("node {}: {last}; trying again", config.join.rank),
            false => tracing::info!("node {}: {last}; trying again", config.join.rank),
        }
        told = Some(last);
        sleep(pause).await;
    }
}

/// Whether a node that was in has no place any more: another process has its rank, or the cluster ends.
fn is_given_up(why: &CallError) -> bool {
    matches!(why, CallError::Refused { why: Refusal::RankTaken { .. } | Refusal::Ending, .. })
}

/// Why a connection is not the last one, or is.
enum Over {
    /// It broke.
    Broke(Ended),
    /// The node left.
    Left,
    /// The node is not in the cluster any more.
    Ended(MemberError),
}

/// What the task knows.
pub struct Keeper<N: Network> {
    net: N,
    config: Config,
    members: watch::Sender<Members>,
    data: mpsc::Sender<Vec<u8>>,
    calls: mpsc::Sender<Called>,
    report: Option<Report>,
    /// The coordinator that the node knows.
    coordinator: Option<u64>,
    /// Ranks of which only the last coordinator told, and until when a new one may tell of them too. Then it is told of them, until it
    /// does.
    unconfirmed: BTreeMap<u32, Instant>,
}

impl<N: Network> Keeper<N> {
    /// Keeps a node in its cluster.
    pub fn new(
        net: N,
        config: Config,
        members: watch::Sender<Members>,
        data: mpsc::Sender<Vec<u8>>,
        calls: mpsc::Sender<Called>,
    ) -> Keeper<N> {
        let unconfirmed = BTreeMap::new();
        Keeper { net, config, members, data, calls, report: None, coordinator: None, unconfirmed }
    }

    /// Until the node leaves, or is not in the cluster any more.
    pub async fn run(mut self, first: Entered<N::Stream>, mut commands: mpsc::Receiver<Command>) {
        let (rank, at) = (self.config.join.rank, self.config.at.clone());
        let mut entered = first;
        loop {
            self.meet(entered.coordinator, entered.silence);
            let why = match self.live(entered, &mut commands).await {
                Over::Broke(why) => why,
                Over::Left => {
                    tracing::info!("node {rank}: left");
                    return;
                }
                Over::Ended(why) => return self.end(why),
            };
            tracing::warn!("node {rank}: the coordinator at {at} was lost: {why}; trying again");
            self.members.send_modify(|members| members.coordinator = false);
            entered = match self.enter_again(&mut commands).await {
                ControlFlow::Continue(entered) => entered,
                ControlFlow::Break(None) => {
                    tracing::info!("node {rank}: left while the coordinator was away");
                    return;
                }
                ControlFlow::Break(Some(why)) => return self.end(why),
            };
            tracing::info!("node {rank}: the coordinator at {at} is back");
        }
    }

    fn end(&self, why: MemberError) {
        tracing::error!("node {}: not in the cluster any more: {why}", self.config.join.rank);
        self.members.send_modify(|members| {
            members.coordinator = false;
            members.ended = Some(why);
        });
    }

    /// A coordinator that began anew knows nobody: those whom the last one knew have a while to come to it. Of those who came while this
    /// node was away, either one tells before it has been silent for too long.
    fn meet(&mut self, coordinator: u64, silence: Duration) {
        let now = Instant::now();
        if self.coordinator.replace(coordinator).is_some_and(|last| last != coordinator) {
            let until = now + silence * 2;
            self.unconfirmed = self.members.borrow().entries.keys().map(|rank| (*rank, until)).collect();
        }
        for until in self.unconfirmed.values_mut() {
            *until = (*until).max(now + silence);
        }
        self.members.send_modify(|members| members.coordinator = true);
    }

    /// Tries to join again, for as long as the node lives. A coordinator that refuses it was changed since it was in, and may be changed
    /// again.
    async fn enter_again(
        &mut self,
        commands: &mut mpsc::Receiver<Command>,
    ) -> ControlFlow<Option<MemberError>, Entered<N::Stream>> {
        let Config { timing, join, .. } = &self.config;
        let (rank, mut pauses) = (join.rank, Pauses::new(timing, join.incarnation));
        let mut refused = None;
        loop {
            let pause = if refused.is_some() { timing.pause_refused } else { pauses.next() };
            let mut attempt = pin!(async {
                sleep(pause).await;
                enter(&self.net, &self.config).await
            });
            let ended = loop {
                tokio::select! {
                    biased;
                    ended = &mut attempt => break ended,
                    command = commands.recv() => match command {
                        Some(Command::Report(report)) => self.report = Some(report),
                        // Who would hear it is away.
                        Some(Command::Data(_) | Command::Answer(..)) => {}
                        Some(Command::Leave) | None => return ControlFlow::Break(None),
                    },
                }
            };
            match ended {
                Ok(entered) => return ControlFlow::Continue(entered),
                Err(why) if is_given_up(&why) => return ControlFlow::Break(Some(why.into())),
                Err(why) if why.is_final() => {
                    if refused.as_ref() != Some(&why) {
                        tracing::warn!("node {rank}: {why}; trying again");
                    }
                    refused = Some(why);
                }
                Err(why) => {
                    tracing::debug!("node {rank}: {why}; trying again");
                    refused = None;
                }
            }
        }
    }

    /// One connection, from the welcome to its end.
    async fn live(&mut self, entered: Entered<N::Stream>, commands: &mut mpsc::Receiver<Command>) -> Over {
        let Entered { channel, beat, silence, .. } = entered;
        let linger = self.config.timing.linger;
        let (out, queue) = mpsc::channel(QUEUE);
        let (tell, mut heard) = mpsc::channel(QUEUE);
        let alive = Out::control(&FromNode::Alive);
        let pace = Pace { beat, silence, linger };
        let mut talk = pin!(converse(channel, queue, pace, alive, tell, Ok));
        let mut out = Some(out);
        let mut leaving = None;
        if let (Some(out), Some(report)) = (&out, &self.report) {
            let _ = out.try_send(Out::control(&FromNode::Report(report.clone())));
        }
        let ended = loop {
            let unconfirmed = self.unconfirmed.values().min().copied();
            let deadline = leaving.into_iter().chain(unconfirmed).min();
            tokio::select! {
                biased;
                Some(frame) = heard.recv() => match self.hear(frame, out.as_ref()).await {
                    ControlFlow::Continue(()) => {}
                    ControlFlow::Break(None) => {
                        // Closing the queue closes the connection once all is said.
                        out = None;
                        leaving.get_or_insert(Instant::now() + linger * 2);
                    }
                    ControlFlow::Break(Some(over)) => return over,
                },
                ended = &mut talk => break ended,
                command = commands.recv(), if leaving.is_none() => {
                    let message = match command {
                        Some(Command::Report(report)) => {
                            self.report = Some(report.clone());
                            Out::control(&FromNode::Report(report))
                        }
                        Some(Command::Data(data)) => Out::data(data),
                        Some(Command::Answer(id, answer)) => Out::control(&FromNode::Answer { id, answer }),
                        Some(Command::Leave) | None => {
                            leaving = Some(Instant::now() + linger * 2);
                            Out::control(&FromNode::Leave)
                        }
                    };
                    let Some(out) = &out else { continue };
                    // If more is sent than the line takes, this waits; `talk` goes on meanwhile.
                    tokio::select! {
                        biased;
                        sent = out.send(message) => drop(sent),
                        ended = &mut talk => break ended,
                    }
                }
                () = at(deadline) => {
                    if leaving.is_some_and(|at| at <= Instant::now()) {
                        return Over::Left;
                    }
                    tell_known(out.as_ref(), &self.give_up_on_unconfirmed(silence * 2));
                }
            }
        };
        // The last message may have come together with the end of the connection.
        while let Ok(frame) = heard.try_recv() {
            if let ControlFlow::Break(Some(over)) = self.hear(frame, None).await {
                return over;
            }
        }
        match leaving {
            Some(_) => Over::Left,
            None => Over::Broke(ended.err().unwrap_or(Ended::Closed)),
        }
    }

    /// Does what a message says. `Break(None)`: the farewell.
    async fn hear(&mut self, frame: Frame, out: Option<&mpsc::Sender<Out>>) -> ControlFlow<Option<Over>> {
        let at = || self.config.at.clone();
        if frame.kind == Kind::Data {
            // Those above may have no use for it.
            let _ = self.data.send(frame.body).await;
            return ControlFlow::Continue(());
        }
        match decode(&frame.body) {
            Ok(ToNode::Roster(entries)) => self.update(entries),
            Ok(ToNode::Probe) => {
                if let Some(out) = out {
                    let _ = out.try_send(Out::control(&FromNode::Here));
                }
            }
            Ok(ToNode::Call { id, system, body }) => {
                if let (Err(_), Some(out)) = (self.calls.try_send(Called { id, system, body }), out) {
                    let why = "the node has more calls than it takes: call again";
                    let answer = Answer::Failed(Failed::for_now(why));
                    let _ = out.try_send(Out::control(&FromNode::Answer { id, answer }));
                }
            }
            Ok(ToNode::Farewell) => return ControlFlow::Break(None),
            Ok(ToNode::Ending) => {
                return ControlFlow::Break(Some(Over::Ended(MemberError::Ended { at: at() })));
            }
            Ok(ToNode::Refused(why)) => {
                let why: Refusal = why;
                return ControlFlow::Break(Some(Over::Ended(
                    CallError::Refused { at: Callee::Coordinator(at()), why }.into(),
                )));
            }
            Ok(ToNode::Alive | ToNode::Welcome { .. }) => {}
            Err(why) => return ControlFlow::Break(Some(Over::Broke(why))),
        }
        ControlFlow::Continue(())
    }

    fn update(&mut self, entries: Vec<Entry>) {
        for entry in &entries {
            self.unconfirmed.remove(&entry.rank);
        }
        self.members.send_modify(|members| {
            members.entries.extend(entries.into_iter().map(|entry| (entry.rank, entry)));
        });
    }

    /// Nodes that have not come to a new coordinator in time are lost: what it has to be told, since nodes that are started anew wait
    /// until they know of all. What is said is lost with its connection, so it is said again after a while, until a roster has it.
    fn give_up_on_unconfirmed(&mut self, again: Duration) -> Vec<Entry> {
        let now = Instant::now();
        let mut known = Vec::new();
        self.members.send_modify(|members| {
            for (rank, until) in self.unconfirmed.iter_mut().filter(|(_, until)| **until <= now) {
                *until = now + again;
                let Some(entry) = members.entries.get_mut(rank) else { continue };
                if entry.presence == Presence::Present {
                    entry.presence = Presence::Lost(NOT_COME.to_string());
                }
                known.push(entry.clone());
            }
        });
        known
    }
}

/// Tells a coordinator of ranks that it does not know. Where the queue is full, it is told later.
fn tell_known(out: Option<&mpsc::Sender<Out>>, known: &[Entry]) {
    let Some(out) = out else { return };
    for part in known.chunks(KNOWN) {
        let _ = out.try_send(Out::control(&FromNode::Known(part.to_vec())));
    }
}
