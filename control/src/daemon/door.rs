//! A daemon's own door: where programs of its machine ask the systems of its node, also while the coordinator is away.
//!
//! What is said there is what clients and the coordinator say to each other ([`ToClient`]), but of this node alone: another node's systems,
//! and the cluster's state, are asked for at the coordinator.

use super::Options;
use super::config::Config;
use super::systems::Asker;
use crate::connection::Out;
use crate::coordinator::{CLIENTS, StartError};
use crate::frame::Ended;
use crate::handshake::{Channel, HandshakeError, admit};
use crate::lines::Lines;
use crate::message::{Ask, Call, Opening, Question, ToClient, decode};
use crate::net::{Endpoint, Listener, Network};
use crate::refusal::Refusal;
use crate::secret::Secret;
use crate::timing::{Timing, at};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// A door. Clones are the same one.
#[derive(Clone)]
pub(super) struct Door(Arc<Node>);

/// Whose door it is.
struct Node {
    rank: u32,
    cluster: String,
    secret: Secret,
    timing: Timing,
    /// There once the node is in the cluster.
    systems: OnceLock<Asker>,
}

/// Listens for those who ask at a node's own door.
///
/// # Errors
/// It cannot, or everybody could ask.
pub(super) async fn bind<N: Network>(
    net: &N,
    listen: &Endpoint,
    secret: &Secret,
) -> Result<N::Listener, StartError> {
    if secret.is_none() && !listen.is_loopback() {
        return Err(StartError::Unprotected { listen: listen.clone() });
    }
    net.bind(listen).await.map_err(|why| StartError::Listen { listen: listen.clone(), why })
}

impl Door {
    /// The door of a node that is not in the cluster yet: what is asked is refused.
    pub fn new(config: &Config, options: &Options) -> Door {
        let Options { rank, secret, timing, .. } = options;
        let (cluster, systems) = (config.cluster.name.clone(), OnceLock::new());
        Door(Arc::new(Node { rank: *rank, cluster, secret: secret.clone(), timing: *timing, systems }))
    }

    /// The node is in the cluster: from now on its systems are asked.
    pub fn open(&self, systems: Asker) {
        // A daemon joins once.
        let _ = self.0.systems.set(systems);
    }

    /// Serves those who come, for as long as the daemon lives. One more than may ask at a time waits until another one has gone.
    pub async fn serve<N: Network>(&self, listener: N::Listener) {
        let (mut tasks, mut lines) = (JoinSet::new(), Lines::new("door: turned away"));
        let began = Instant::now();
        loop {
            let deadline = lines.deadline().map(|deadline| began + deadline);
            tokio::select! {
                biased;
                () = at(deadline) => lines.flush(began.elapsed()),
                Some(done) = tasks.join_next(), if !tasks.is_empty() => match done {
                    Ok(Ok(())) => {}
                    Ok(Err(Stranger { from, why })) => drop(lines.write(began.elapsed(), format_args!("{from}: {why}"))),
                    Err(why) => std::panic::resume_unwind(why.into_panic()),
                },
                came = listener.accept(), if tasks.len() < CLIENTS => match came {
                    Ok((stream, from)) => {
                        let node = Arc::clone(&self.0);
                        tasks.spawn(async move { node.receive(stream).await.or_else(|why| told_of(from, why)) });
                    }
                    Err(why) => {
                        lines.write(began.elapsed(), format_args!("a connection: {why}"));
                        sleep(self.0.timing.pause_first).await;
                    }
                },
            }
        }
    }
}

/// One who was turned away.
struct Stranger {
    from: SocketAddr,
    why: HandshakeError,
}

/// Whether there is something to tell of a connection that has ended: a program that was stopped just goes.
fn told_of(from: SocketAddr, why: HandshakeError) -> Result<(), Stranger> {
    match why {
        HandshakeError::Ended(Ended::Closed | Ended::Cut | Ended::Broke(_)) => Ok(()),
        why => Err(Stranger { from, why }),
    }
}

impl Node {
    /// Answers one question after the other, until there is none for a while.
    async fn receive<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> Result<(), HandshakeError> {
        let Timing { handshake, idle, linger, .. } = self.timing;
        let mut channel = admit(stream, &self.secret, handshake).await?;
        let Opening::Ask(mut ask) = decode(&channel.reader.next(handshake).await?.body)? else {
            let why = "a node wants to join: where the cluster meets, `meet` says, and not `door`";
            return Err(Ended::Message(why.to_string()).into());
        };
        loop {
            let told = self.answer(ask, &mut channel).await?;
            say(&mut channel, &told, handshake).await?;
            if !matches!(told, ToClient::Answer { .. }) {
                break;
            }
            ask = match channel.reader.next(idle).await {
                Ok(frame) => decode(&frame.body)?,
                Err(Ended::Silent(_)) => {
                    say(&mut channel, &ToClient::Bye, handshake).await?;
                    break;
                }
                Err(why) => return Err(why.into()),
            };
        }
        channel.writer.finish().await;
        // Closing at once could destroy the last message on its way (RFC 1122, 4.2.2.13).
        let _ = timeout(linger, channel.reader.next(linger)).await;
        Ok(())
    }

    /// What a question comes to. While the systems think, the client hears that somebody is there.
    async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        ask: Ask,
        channel: &mut Channel<S>,
    ) -> Result<ToClient, Ended> {
        let (systems, Call { system, body, .. }) = match self.admits(ask)? {
            Ok(admitted) => admitted,
            Err(why) => return Ok(ToClient::Refused(why)),
        };
        let Timing { call, beat, handshake, .. } = self.timing;
        let (mut answer, end) = (pin!(systems.ask(system, body)), Instant::now() + call);
        while Instant::now() < end {
            match timeout(beat, &mut answer).await {
                Ok(answer) => return Ok(ToClient::Answer { node: self.rank, answer }),
                Err(_) => say(channel, &ToClient::Alive, handshake).await?,
            }
        }
        Ok(ToClient::Refused(Refusal::NoAnswer { node: self.rank, seconds: call.as_secs() }))
    }

    /// Who is to answer what a client asks, or why nobody does.
    ///
    /// # Errors
    /// It is asked for what the coordinator alone has.
    fn admits(&self, Ask { cluster, question }: Ask) -> Result<Result<(&Asker, Call), Refusal>, Ended> {
        let Question::Call(call) = question else {
            let why = "a client asks for the state of the cluster, which the coordinator has";
            return Err(Ended::Message(why.to_string()));
        };
        if let Some(caller) = cluster.filter(|cluster| *cluster != self.cluster) {
            return Ok(Err(Refusal::Cluster { coordinator: self.cluster.clone(), caller }));
        }
        if let Err(why) = call.is_short() {
            return Ok(Err(why));
        }
        let node = call.node.unwrap_or(self.rank);
        let systems = self.systems.get().filter(|_| node == self.rank);
        Ok(systems.map(|systems| (systems, call)).ok_or(Refusal::NotHere { node }))
    }
}

async fn say<S: AsyncRead + AsyncWrite + Unpin>(
    channel: &mut Channel<S>,
    message: &ToClient,
    within: Duration,
) -> Result<(), Ended> {
    let Out { kind, body } = Out::control(message);
    channel.writer.write(kind, &body, within).await
}
