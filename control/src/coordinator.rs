//! The coordinator: where the nodes of a cluster meet.
//!
//! One task accepts connections and owns the [`Roster`]; each connection has a task that reads and writes. All of them end
//! with the future of [`Coordinator::run`], and their sockets with them.
//!
//! A stranger can cost little: connections that have not proved who they are are bounded in number and time
//! (the module `doorkeeper`), take no memory for what they announce, and their lines in the log are bounded too.

use crate::calls::Calls;
pub use crate::clients::CLIENTS;
use crate::clients::Clients;
use crate::connection::{Out, Pace, QUEUE, converse};
use crate::doorkeeper::Doorkeeper;
use crate::frame::{Ended, Frame, Kind};
use crate::handshake::{Channel, HandshakeError, admit};
use crate::lines::Lines;
use crate::message::{Ask, Call, ENTRIES, FromNode, Opening, Question, Status, ToClient, ToNode, decode};
use crate::net::{Endpoint, Listener, Network, are_files_used_up};
use crate::refusal::Refusal;
use crate::refused::Refused;
use crate::roster::{Action, ConnId, Note, Roster, Terms};
use crate::secret::{self, Secret};
use crate::timing::{Timing, at};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

/// How many connections may be without proof at a time: all clients that may ask, which can come in the same moment, twice as many as there
/// are nodes, and some.
fn half_open(nodes: u32) -> usize {
    CLIENTS + nodes as usize * 2 + 64
}

/// What a coordinator is.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens.
    pub listen: Endpoint,
    /// What the cluster is.
    pub terms: Terms,
    /// Its secret.
    pub secret: Secret,
    /// How long things take.
    pub timing: Timing,
}

/// Why a coordinator does not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Everybody could join.
    #[error(
        "{listen} can be reached from other machines, and there is no secret: give one, or listen on 127.0.0.1"
    )]
    Unprotected {
        /// Where it would listen.
        listen: Endpoint,
    },
    /// It cannot listen.
    #[error("cannot listen on {listen}: {why}")]
    Listen {
        /// Where.
        listen: Endpoint,
        /// Why.
        why: io::Error,
    },
    /// The system has no random bytes.
    #[error("{0}")]
    Random(io::Error),
}

/// What those above are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What happened to the cluster.
    Note(Note),
    /// A node sent data.
    Data(u32, Vec<u8>),
}

/// What those above ask for.
#[derive(Debug)]
enum Command {
    Send(u32, Out),
    Status(oneshot::Sender<Status>),
    End,
}

/// Tells a coordinator what to do. Clones tell the same one.
#[derive(Clone, Debug)]
pub struct Handle(mpsc::UnboundedSender<Command>);

impl Handle {
    /// Sends data to a node, if it is there.
    pub fn send(&self, rank: u32, data: &[u8]) {
        let _ = self.0.send(Command::Send(rank, Out::data(data)));
    }

    /// The state of the cluster; `None` once the coordinator has ended.
    pub async fn status(&self) -> Option<Status> {
        let (tell, told) = oneshot::channel();
        let _ = self.0.send(Command::Status(tell));
        told.await.ok()
    }

    /// Ends: nodes are told that this was all.
    pub fn end(&self) {
        let _ = self.0.send(Command::End);
    }
}

/// What tasks of connections tell the one that owns the roster.
enum Input {
    Opened(Opening, mpsc::Sender<Out>),
    FromNode(FromNode),
    Asked(Ask),
    Data(Vec<u8>),
}

/// How a connection's task ended.
struct Over {
    conn: ConnId,
    from: SocketAddr,
    how: How,
}

enum How {
    Stranger(HandshakeError),
    Ended(Result<(), Ended>),
}

/// A coordinator that listens.
pub struct Coordinator<N: Network> {
    listener: N::Listener,
    config: Config,
    number: u64,
    commands: mpsc::UnboundedReceiver<Command>,
    events: mpsc::Sender<Event>,
}

impl<N: Network> Coordinator<N> {
    /// Listens. Those above may look at the events, or drop them.
    pub async fn bind(
        net: &N,
        config: Config,
    ) -> Result<(Coordinator<N>, Handle, mpsc::Receiver<Event>), StartError> {
        if config.secret.is_none() && !config.listen.is_loopback() {
            return Err(StartError::Unprotected { listen: config.listen });
        }
        Coordinator::bind_unprotected(net, config).await
    }

    /// Listens, on whatever address and without a secret if there is none: for a network on which everybody is trusted.
    pub async fn bind_unprotected(
        net: &N,
        config: Config,
    ) -> Result<(Coordinator<N>, Handle, mpsc::Receiver<Event>), StartError> {
        let listener = net.bind(&config.listen).await;
        let listener = listener.map_err(|why| StartError::Listen { listen: config.listen.clone(), why })?;
        let number = secret::number().map_err(StartError::Random)?;
        let (tell, commands) = mpsc::unbounded_channel();
        let (events, seen) = mpsc::channel(QUEUE);
        let Terms { cluster, nodes, .. } = &config.terms;
        tracing::info!("cluster '{cluster}' of {nodes} nodes meets at {}", config.listen);
        Ok((Coordinator { listener, config, number, commands, events }, Handle(tell), seen))
    }

    /// Where it listens.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.listener.local()
    }

    /// Runs until [`Handle::end`], or until nobody has the handle any more. Dropping the future ends everything at once.
    pub async fn run(self) {
        let Config { terms, timing, .. } = &self.config;
        let service = Service::<N> {
            roster: Roster::new(terms.clone(), timing.probe, timing.gather),
            door: Doorkeeper::new(half_open(terms.nodes)),
            failures: Lines::new("could not take"),
            refused: Refused::new(),
            refused_clients: Lines::new("refused"),
            paused: None,
            calls: Calls::new(self.number, timing.call),
            tasks: JoinSet::new(),
            conns: BTreeMap::new(),
            clients: Clients::new(timing.idle),
            began: Instant::now(),
            accepted: 0,
            coordinator: self,
        };
        service.run().await;
    }
}

/// A connection that has proved who it is.
struct Conn {
    /// The queue of what it is told; none once it is being closed.
    out: Option<mpsc::Sender<Out>>,
}

struct Service<N: Network> {
    coordinator: Coordinator<N>,
    roster: Roster,
    door: Doorkeeper,
    /// What is said of connections that could not be taken.
    failures: Lines,
    /// What is said of nodes that were refused.
    refused: Refused,
    /// What is said of clients that were refused.
    refused_clients: Lines,
    /// None is taken until then.
    paused: Option<Instant>,
    calls: Calls,
    tasks: JoinSet<Over>,
    conns: BTreeMap<ConnId, Conn>,
    clients: Clients,
    began: Instant,
    accepted: u64,
}

impl<N: Network> Service<N> {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Lines that others can cause at will.
    fn lines(&mut self) -> [&mut Lines; 4] {
        [self.door.lines(), &mut self.failures, self.refused.lines(), &mut self.refused_clients]
    }

    async fn run(mut self) {
        let (tell, mut inputs) = mpsc::channel(QUEUE);
        loop {
            let counts = self.lines().into_iter().filter_map(|lines| lines.deadline()).min();
            let deadlines = [self.roster.deadline(), self.calls.deadline(), self.clients.deadline(), counts];
            let deadline = deadlines.into_iter().flatten().min();
            let deadline = deadline.map(|at| self.began + at);
            // In this order, so that the same events give the same run.
            tokio::select! {
                biased;
                // A task says all it has to say before it ends.
                Some((conn, from, input)) = inputs.recv() => self.hear(conn, from, input).await,
                Some(over) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    // A socket less is open.
                    self.paused = None;
                    self.over(over);
                }
                command = self.coordinator.commands.recv() => match command {
                    Some(Command::Send(rank, out)) => self.send(rank, out),
                    // Who asked may have gone.
                    Some(Command::Status(tell)) => drop(tell.send(self.roster.status(self.now()))),
                    Some(Command::End) | None => return self.end().await,
                },
                () = at(deadline) => {
                    let now = self.now();
                    self.roster.tick(now);
                    let late = self.calls.tick(now);
                    self.disappoint(late);
                    let idle = self.clients.tick(now);
                    self.let_go(idle);
                    self.lines().into_iter().for_each(|lines| lines.flush(now));
                }
                () = at(self.paused) => self.paused = None,
                came = self.coordinator.listener.accept(), if self.paused.is_none() => match came {
                    Ok((stream, from)) => self.accept(stream, from, tell.clone()),
                    Err(why) => self.fail(&why),
                },
            }
            self.act().await;
        }
    }

    fn accept(
        &mut self,
        stream: N::Stream,
        from: SocketAddr,
        tell: mpsc::Sender<(ConnId, SocketAddr, Input)>,
    ) {
        self.accepted += 1;
        let conn = ConnId(self.accepted);
        let Config { secret, timing, .. } = &self.coordinator.config;
        let task = self.tasks.spawn(serve(stream, conn, from, secret.clone(), *timing, tell));
        let victim = self.door.enter(conn.0, from, task);
        self.has_made_room(victim);
    }

    /// A connection could not be taken. The next attempt is made when another connection has ended, at the latest after a pause:
    /// before that it would fail alike.
    fn fail(&mut self, why: &io::Error) {
        let now = self.now();
        self.failures.write(now, format_args!("a connection: {why}"));
        self.paused = Some(Instant::now() + self.coordinator.config.timing.pause_first);
        if are_files_used_up(why) {
            // The system says so also where nobody waits, and the one that took the last file is let be.
            let victim = self.door.make_room(2);
            self.has_made_room(victim);
        }
    }

    /// The doorkeeper may have closed a connection for the sake of another one.
    fn has_made_room(&mut self, victim: Option<SocketAddr>) {
        let Some(victim) = victim else { return };
        self.roster.counts.strangers += 1;
        let now = self.now();
        self.door.complain(now, victim, "too many of its connections have not said who they are");
    }

    fn over(&mut self, over: Result<Over, JoinError>) {
        let Over { conn, from, how } = match over {
            Ok(over) => over,
            Err(why) if why.is_cancelled() => return,
            Err(why) => std::panic::resume_unwind(why.into_panic()),
        };
        self.door.leave(conn.0);
        let now = self.now();
        match how {
            // Nobody has been turned away: a program that was stopped goes like that.
            How::Stranger(HandshakeError::Ended(why @ (Ended::Closed | Ended::Cut | Ended::Broke(_)))) => {
                tracing::debug!("{from} went before it had said who it is: {why}");
            }
            How::Stranger(why) => {
                self.roster.counts.strangers += 1;
                self.door.complain(now, from, &why.to_string());
            }
            How::Ended(how) => {
                self.conns.remove(&conn);
                self.clients.gone(conn);
                let why = how.err().unwrap_or(Ended::Closed);
                self.roster.gone(now, conn, &why.to_string());
                let waited = self.calls.gone(conn);
                self.disappoint(waited);
            }
        }
    }

    async fn hear(&mut self, conn: ConnId, from: SocketAddr, input: Input) {
        let now = self.now();
        self.roster.heard(now, conn);
        match input {
            Input::Opened(Opening::Join(join), out) => {
                self.door.leave(conn.0);
                self.conns.insert(conn, Conn { out: Some(out) });
                self.roster.join(now, conn, from.ip(), join);
            }
            Input::Opened(Opening::Ask(ask), out) => {
                self.door.leave(conn.0);
                self.conns.insert(conn, Conn { out: Some(out) });
                match self.clients.come(now, conn) {
                    Some(idle) => {
                        self.let_go(idle);
                        self.answer(conn, from, ask);
                    }
                    None => self.refuse(conn, from, Refusal::Full { most: CLIENTS as u32 }),
                }
            }
            // One that was let go before this came is told so, and asks elsewhere; one whose question is open breaks the rules.
            Input::Asked(ask) => match self.clients.ask_again(conn) {
                true => self.answer(conn, from, ask),
                false => self.close(conn),
            },
            Input::FromNode(FromNode::Alive) => {}
            Input::FromNode(FromNode::Here) => self.roster.is_here(conn),
            Input::FromNode(FromNode::Report(report)) => self.roster.report(now, conn, report),
            Input::FromNode(FromNode::Answer { id, answer }) => {
                if let Some((client, node)) = self.calls.answered(id, conn) {
                    self.roster.counts.answered += 1;
                    self.say(client, Out::control(&ToClient::Answer { node, answer }));
                    self.clients.answered(now, client);
                }
            }
            Input::FromNode(FromNode::Known(entries)) => {
                entries.into_iter().for_each(|entry| self.roster.known(now, conn, entry));
            }
            Input::FromNode(FromNode::Leave) => self.roster.leave(now, conn),
            Input::Data(data) => {
                if let Some(rank) = self.roster.rank(conn) {
                    let _ = self.coordinator.events.send(Event::Data(rank, data)).await;
                }
            }
        }
    }

    fn answer(&mut self, conn: ConnId, from: SocketAddr, Ask { cluster, question }: Ask) {
        let here = &self.coordinator.config.terms.cluster;
        let refused = match question {
            _ if cluster.as_ref().is_some_and(|cluster| cluster != here) => {
                Refusal::Cluster { coordinator: here.clone(), caller: cluster.unwrap_or_default() }
            }
            Question::Status => {
                self.roster.counts.answered += 1;
                let status = ToClient::Status(Box::new(self.roster.status(self.now())));
                self.say(conn, Out::control(&status));
                return self.close(conn);
            }
            Question::Call(call) => match self.call(conn, call) {
                Ok(()) => return,
                Err(why) => why,
            },
        };
        self.refuse(conn, from, refused);
    }

    fn refuse(&mut self, client: ConnId, from: SocketAddr, why: Refusal) {
        self.roster.counts.refused += 1;
        let now = self.now();
        self.refused_clients.write(now, format_args!("a client at {}: {why}", from.ip()));
        self.say(client, Out::control(&ToClient::Refused(why)));
        self.close(client);
    }

    /// Passes a client's call on to a node, which answers later.
    fn call(&mut self, client: ConnId, call: Call) -> Result<(), Refusal> {
        call.is_short()?;
        let Call { node, system, body } = call;
        let callee = self.roster.callee(node, &system)?;
        let id = self.calls.begin(self.now(), client, callee);
        self.say(callee.1, Out::control(&ToNode::Call { id, system, body }));
        Ok(())
    }

    /// Tells clients that their calls come to nothing.
    fn disappoint(&mut self, clients: Vec<(ConnId, Refusal)>) {
        for (client, why) in clients {
            self.say(client, Out::control(&ToClient::Refused(why)));
            self.close(client);
        }
    }

    /// Closes connections of clients that ask nothing. What one asks before it hears of that is not looked at.
    fn let_go(&mut self, clients: impl IntoIterator<Item = ConnId>) {
        for client in clients {
            self.say(client, Out::control(&ToClient::Bye));
            self.close(client);
        }
    }

    /// Does what the roster has decided.
    async fn act(&mut self) {
        for action in self.roster.actions() {
            match action {
                Action::Welcome(conn) => {
                    let Timing { beat, silence, .. } = self.coordinator.config.timing;
                    let (beat_ms, silence_ms) = (beat.as_millis() as u64, silence.as_millis() as u64);
                    let coordinator = self.coordinator.number;
                    self.say(conn, Out::control(&ToNode::Welcome { coordinator, beat_ms, silence_ms }));
                }
                Action::Refuse(conn, why) => {
                    self.say(conn, Out::control(&ToNode::Refused(why)));
                    self.close(conn);
                }
                Action::Probe(conn) => self.say(conn, Out::control(&ToNode::Probe)),
                Action::Tell(conns, entries) => {
                    for part in entries.chunks(ENTRIES) {
                        let out = Out::control(&ToNode::Roster(part.to_vec()));
                        conns.iter().for_each(|conn| self.say(*conn, out.clone()));
                    }
                }
                Action::Farewell(conn) => {
                    self.say(conn, Out::control(&ToNode::Farewell));
                    self.close(conn);
                }
                Action::Drop(conn) => self.close(conn),
                Action::Note(note) => {
                    self.log(&note);
                    let _ = self.coordinator.events.send(Event::Note(note)).await;
                }
            }
        }
    }

    fn log(&mut self, note: &Note) {
        match note {
            Note::Refused { from, why } => self.refused.write(self.began.elapsed(), *from, why),
            Note::Lost { .. } => tracing::warn!("{note}"),
            Note::Joined { address, .. } => {
                self.refused.let_in(*address);
                tracing::info!("{note}");
            }
            Note::Again { .. } | Note::Met { .. } | Note::Left { .. } => tracing::info!("{note}"),
        }
    }

    /// Says something to a connection. One that has not read so much that its queue is full is closed.
    fn say(&mut self, conn: ConnId, out: Out) {
        let queue = self.conns.get(&conn).and_then(|conn| conn.out.as_ref());
        if queue.is_some_and(|queue| queue.try_send(out).is_err()) {
            self.close(conn);
        }
    }

    /// Closes a connection once all is written that waits.
    fn close(&mut self, conn: ConnId) {
        // Its task ends when the sender of its queue is gone.
        if let Some(conn) = self.conns.get_mut(&conn) {
            conn.out = None;
        }
    }

    fn send(&mut self, rank: u32, out: Out) {
        if let Some(conn) = self.roster.conn(rank) {
            self.say(conn, out);
        }
    }

    /// Tells all nodes that this was all, and waits until they have closed, or a while.
    async fn end(mut self) {
        self.roster.end(self.began.elapsed());
        self.act().await;
        let idle = self.clients.let_go();
        self.let_go(idle);
        for conn in self.conns.keys().copied().collect::<Vec<_>>() {
            self.say(conn, Out::control(&ToNode::Ending));
            self.close(conn);
        }
        let Timing { silence, linger, .. } = self.coordinator.config.timing;
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(silence.min(linger * 2), all).await;
        let Terms { cluster, .. } = &self.coordinator.config.terms;
        tracing::info!("cluster '{cluster}' has ended");
    }
}

/// A connection from its beginning to its end.
async fn serve<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    stream: S,
    conn: ConnId,
    from: SocketAddr,
    secret: Secret,
    timing: Timing,
    tell: mpsc::Sender<(ConnId, SocketAddr, Input)>,
) -> Over {
    let over = |how| Over { conn, from, how };
    let mut channel = match admit(stream, &secret, timing.handshake).await {
        Ok(channel) => channel,
        Err(why) => return over(How::Stranger(why)),
    };
    let opening = match open(&mut channel, timing.handshake).await {
        Ok(opening) => opening,
        Err(why) => return over(How::Stranger(why.into())),
    };
    let client = matches!(opening, Opening::Ask(_));
    let (out, queue) = mpsc::channel(QUEUE);
    if tell.send((conn, from, Input::Opened(opening, out))).await.is_err() {
        return over(How::Ended(Ok(())));
    }
    let Timing { beat, silence, linger, handshake, call, .. } = timing;
    // A client says nothing while its question is open, and what it is told is short.
    let silence = if client { call + handshake } else { silence };
    let read = |frame: Frame| {
        let input = match frame.kind {
            Kind::Control if client => Input::Asked(decode(&frame.body)?),
            Kind::Control => Input::FromNode(decode(&frame.body)?),
            Kind::Data => Input::Data(frame.body),
        };
        Ok((conn, from, input))
    };
    let alive = if client { Out::control(&ToClient::Alive) } else { Out::control(&ToNode::Alive) };
    let ended = converse(channel, queue, Pace { beat, silence, linger }, alive, tell, read).await;
    over(How::Ended(ended))
}

async fn open<S: tokio::io::AsyncRead + tokio::io::AsyncWrite>(
    channel: &mut Channel<S>,
    within: Duration,
) -> Result<Opening, Ended> {
    let frame = tokio::time::timeout(within, channel.reader.next(within)).await;
    decode(&frame.map_err(|_| Ended::Silent(within))??.body)
}
