//! Calls to the coordinator or to a daemon, and a client's side: it asks, is answered, and asks again or goes.

use crate::connection::Out;
use crate::frame::Ended;
use crate::handshake::{Channel, HandshakeError, call};
use crate::message::{Answer, Ask, Call, Opening, Question, Status, ToClient, decode};
use crate::net::{Endpoint, Network};
use crate::refusal::Refusal;
use crate::secret::{self, Secret};
use crate::timing::{Pauses, Timing};
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep, timeout};

/// How often a client comes whose connection ends before it has asked.
const ATTEMPTS: u32 = 4;

/// Who is called, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callee {
    /// The coordinator of a cluster.
    Coordinator(Endpoint),
    /// The daemon of a node, at its own door.
    Daemon(Endpoint),
}

impl Callee {
    fn at(&self) -> &Endpoint {
        let (Callee::Coordinator(at) | Callee::Daemon(at)) = self;
        at
    }
}

impl fmt::Display for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if let Callee::Daemon(_) = self { "daemon" } else { "coordinator" };
        write!(f, "the {who} at {}", self.at())
    }
}

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It cannot be reached.
    #[error("{at} cannot be reached: {why}")]
    Unreachable {
        /// Who was called.
        at: Callee,
        /// Why.
        why: String,
    },
    /// It is there, and the connection came to nothing before anything was asked.
    #[error("{at}: {why}")]
    Handshake {
        /// Who was called.
        at: Callee,
        /// Why.
        why: HandshakeError,
    },
    /// The connection came to nothing behind the question.
    #[error("{at}: {why}: whether what was asked is done is not known")]
    Unanswered {
        /// Who was called.
        at: Callee,
        /// Why.
        why: Ended,
    },
    /// It does not answer this.
    #[error("{at} refused: {why}")]
    Refused {
        /// Who was called.
        at: Callee,
        /// Why.
        why: Refusal,
    },
}

impl CallError {
    /// Whether another attempt cannot end otherwise until somebody changes something.
    pub fn is_final(&self) -> bool {
        match self {
            CallError::Unreachable { .. } | CallError::Unanswered { .. } => false,
            CallError::Handshake { why, .. } => why.is_final(),
            // What is asked for may be there later: a node that is down, or a system that waits.
            CallError::Refused { why, .. } => !matches!(
                why,
                Refusal::Full { .. }
                    | Refusal::LostAmid { .. }
                    | Refusal::NoAnswer { .. }
                    | Refusal::NoSystem { .. }
                    | Refusal::NotHere { .. }
            ),
        }
    }

    /// Whether a node may have been asked, so that what was asked for may be done.
    pub fn may_have_come(&self) -> bool {
        match self {
            CallError::Unreachable { .. } | CallError::Handshake { .. } => false,
            CallError::Unanswered { .. } => true,
            CallError::Refused { why, .. } => {
                matches!(why, Refusal::LostAmid { .. } | Refusal::NoAnswer { .. })
            }
        }
    }
}

/// The cluster that a client asks.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// Who is asked.
    pub at: Callee,
    /// Its secret.
    pub secret: Secret,
    /// Its name, if the client knows it: a coordinator of another cluster does not answer then.
    pub cluster: Option<String>,
}

/// Connects to the first of a machine's addresses that answers. Each has a time of its own: one that is silent says nothing of the next.
async fn connect<N: Network>(net: &N, at: &Callee, timing: &Timing) -> Result<N::Stream, CallError> {
    let unreachable = |why| CallError::Unreachable { at: at.clone(), why };
    let mut why = "the name has no address".to_string();
    for address in in_time(timing, net.resolve(at.at())).await.map_err(unreachable)? {
        match in_time(timing, net.connect(address)).await {
            Ok(stream) => return Ok(stream),
            Err(other) => why = other,
        }
    }
    Err(unreachable(why))
}

/// Waits for something for [`Timing::connect`], and no longer.
async fn in_time<T>(timing: &Timing, step: impl Future<Output = io::Result<T>>) -> Result<T, String> {
    match timeout(timing.connect, step).await {
        Ok(done) => done.map_err(|why| why.to_string()),
        Err(_) => Err(format!("no answer within {}", crate::frame::span(timing.connect))),
    }
}

/// Connects, proves who it is, and says its first message.
pub(crate) async fn open<N: Network>(
    net: &N,
    at: &Callee,
    secret: &Secret,
    timing: &Timing,
    opening: &Opening,
) -> Result<Channel<N::Stream>, CallError> {
    let stream = connect(net, at, timing).await?;
    let failed = |why: HandshakeError| CallError::Handshake { at: at.clone(), why };
    let mut channel = call(stream, secret, timing.handshake).await.map_err(failed)?;
    let Out { kind, body } = Out::control(opening);
    let said = channel.writer.write(kind, &body, timing.handshake).await;
    said.map_err(|why| failed(why.into()))?;
    Ok(channel)
}

/// The same for a client. One whose connection ends before it has asked comes back, a few times: the coordinator may have had too many at its
/// door. Nothing was asked, so nothing is done twice.
async fn open_again<N: Network>(
    net: &N,
    Meeting { at, secret, .. }: &Meeting,
    timing: &Timing,
    opening: &Opening,
) -> Result<Channel<N::Stream>, CallError> {
    let let_go = |why: &HandshakeError| {
        matches!(why, HandshakeError::Ended(Ended::Closed | Ended::Cut | Ended::Broke(_)))
    };
    // Without a number of its own it comes back when others do.
    let mut pauses = Pauses::new(timing, secret::number().unwrap_or_default());
    for _ in 1..ATTEMPTS {
        match open(net, at, secret, timing, opening).await {
            Err(CallError::Handshake { why, .. }) if let_go(&why) => sleep(pauses.next()).await,
            opened => return opened,
        }
    }
    open(net, at, secret, timing, opening).await
}

/// Asks for the state of a cluster.
pub async fn status<N: Network>(net: &N, of: &Meeting, timing: &Timing) -> Result<Status, CallError> {
    let opening = Opening::Ask(Ask { cluster: of.cluster.clone(), question: Question::Status });
    let mut channel = open_again(net, of, timing, &opening).await?;
    match answer(&mut channel, timing.handshake).await {
        Ok(ToClient::Status(status)) => Ok(*status),
        Ok(other) => Err(misunderstood(&of.at, &other)),
        // No node was asked for anything.
        Err(why) => Err(CallError::Handshake { at: of.at.clone(), why: why.into() }),
    }
}

/// Calls systems of nodes, through the coordinator or at a node's own door. Its connections stay for a while for the next call; there are as many as there are calls
/// at a time.
#[derive(Debug)]
pub struct Caller<N: Network> {
    net: N,
    of: Meeting,
    timing: Timing,
    /// Connections on which no call is open, and since when. The latest is the last.
    kept: Mutex<Vec<(Instant, Channel<N::Stream>)>>,
}

impl<N: Network> Caller<N> {
    /// It connects when there is something to say.
    pub fn new(net: N, of: Meeting, timing: Timing) -> Caller<N> {
        Caller { net, of, timing, kept: Mutex::default() }
    }

    /// Calls a system of a node: the node's rank, and its answer.
    ///
    /// # Errors
    /// Why it was not served.
    pub async fn call(&self, call: Call) -> Result<(u32, Answer), CallError> {
        let ask = Ask { cluster: self.of.cluster.clone(), question: Question::Call(call) };
        let (channel, answer) = match self.again(&ask).await? {
            Some(answered) => answered,
            None => {
                let mut channel = open_again(&self.net, &self.of, &self.timing, &Opening::Ask(ask)).await?;
                let answer = self.answer(&mut channel).await?;
                (channel, answer)
            }
        };
        match answer {
            ToClient::Answer { node, answer } => {
                self.kept().push((Instant::now(), channel));
                Ok((node, answer))
            }
            other => Err(misunderstood(&self.of.at, &other)),
        }
    }

    /// Asks on a connection that was kept. None if there is none, or it ended before this was asked.
    async fn again(&self, ask: &Ask) -> Result<Option<(Channel<N::Stream>, ToClient)>, CallError> {
        let Some(mut channel) = self.take().await else { return Ok(None) };
        let Out { kind, body } = Out::control(ask);
        if channel.writer.write(kind, &body, self.timing.handshake).await.is_err() {
            // What does not come as a whole is not looked at.
            return Ok(None);
        }
        let answer = self.answer(&mut channel).await?;
        Ok((answer != ToClient::Bye).then_some((channel, answer)))
    }

    /// A connection that was kept, and is not known to have ended.
    async fn take(&self) -> Option<Channel<N::Stream>> {
        loop {
            let (since, mut channel) = self.kept().pop()?;
            if since.elapsed() < self.timing.idle / 2 && is_silent(&mut channel).await {
                return Some(channel);
            }
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, Channel<N::Stream>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The coordinator says it if the node does not answer.
    async fn answer(&self, channel: &mut Channel<N::Stream>) -> Result<ToClient, CallError> {
        let answered = answer(channel, self.timing.call + self.timing.handshake).await;
        answered.map_err(|why| CallError::Unanswered { at: self.of.at.clone(), why })
    }
}

/// Whether the coordinator has said no more than that it is there.
async fn is_silent<S: AsyncRead + AsyncWrite + Unpin>(channel: &mut Channel<S>) -> bool {
    loop {
        match channel.reader.next(Duration::ZERO).await.map(|frame| decode(&frame.body)) {
            Err(Ended::Silent(_)) => return true,
            Ok(Ok(ToClient::Alive)) => {}
            _ => return false,
        }
    }
}

fn misunderstood(at: &Callee, answer: &ToClient) -> CallError {
    let at = at.clone();
    match answer {
        ToClient::Refused(why) => CallError::Refused { at, why: why.clone() },
        _ => CallError::Unanswered { at, why: Ended::Message("it answers another question".to_string()) },
    }
}

/// The next thing that the coordinator says, but that it is there.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    channel: &mut Channel<S>,
    patience: Duration,
) -> Result<ToClient, Ended> {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let answer = decode(&channel.reader.next(left).await?.body)?;
        // While a node thinks, the coordinator says that it is there.
        if answer != ToClient::Alive {
            return Ok(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_down_is_no_mistake_of_who_asks() {
        let is_final = |why| {
            CallError::Refused { at: Callee::Coordinator(Endpoint::new("n0", crate::PORT)), why }.is_final()
        };
        let system = "files".to_string();
        for why in [Refusal::NotHere { node: 1 }, Refusal::NoSystem { system }, Refusal::Full { most: 256 }] {
            assert!(!is_final(why.clone()), "{why}");
        }
        let holder = "10.0.0.1".to_string();
        for why in [Refusal::NoSuchRank { rank: 7, last: 2 }, Refusal::RankTaken { rank: 1, holder }] {
            assert!(is_final(why.clone()), "{why}");
        }
    }

    #[test]
    fn a_call_of_which_no_node_has_heard_is_told_from_one_that_may_be_done() {
        let at = Callee::Daemon(Endpoint::new("n0", crate::PORT));
        let refused = |why| CallError::Refused { at: at.clone(), why }.may_have_come();
        assert!(
            refused(Refusal::LostAmid { node: 1 }) && refused(Refusal::NoAnswer { node: 1, seconds: 30 })
        );
        assert!(!refused(Refusal::NotHere { node: 1 }) && !refused(Refusal::Full { most: 256 }));
        let (closed, at_first) = (Ended::Closed, HandshakeError::from(Ended::Closed));
        assert!(CallError::Unanswered { at: at.clone(), why: closed }.may_have_come());
        assert!(!CallError::Handshake { at: at.clone(), why: at_first }.may_have_come());
        assert!(!CallError::Unreachable { at: at.clone(), why: String::new() }.may_have_come());
    }
}
