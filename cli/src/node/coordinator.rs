//! Where the nodes of a run meet: addresses are exchanged, the history is written down, the oracles judge it.
//!
//! A client tells what it saw before it goes on with it, and waits until that is written: a grant before it uses it, a
//! release before it makes it. So the order in which events arrive here is one in which they happened, whatever the
//! machines' clocks say, and two holders of one lock cannot hide behind them.

use super::waiting::{self, Waiting};
use super::wire::{Counts, HEARTBEAT, ToCoordinator, ToNode, leftover};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};
use weft_check::history::{HistoryEvent, Stage};
use weft_check::oracle::Leftover;
use weft_check::record::{Record, Recorder};
use weft_check::system::System;
use weft_verbs::Nanos;

/// What a run is, as far as its coordinator has to know.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How many nodes.
    pub nodes: u32,
    /// How long all may take to meet.
    pub patience: Duration,
    /// After which silence a node counts as lost.
    pub silence: Duration,
    /// How long requests may take to end once no node was lost any more.
    pub settle: Duration,
    /// How long the run may last in all.
    pub limit: Duration,
    /// Whether nodes agree on who is alive: then a node that is lost may come back, and the others' requests must end without it.
    pub members: bool,
    /// Whether a node that is lost may come back, and the others' requests must end once it has.
    pub restarts: bool,
}

/// How a run went.
pub struct Outcome<S: System> {
    /// The history, judged.
    pub recorder: Recorder<S::Oracles, S::Meter>,
    /// What all nodes counted.
    pub counts: Counts<S::Counts>,
    /// Nodes that were lost, with how.
    pub lost: Vec<(u32, String)>,
    /// Those of them that came back, with what their clients did after that.
    pub returned: Vec<(u32, Clients)>,
    /// What survivors did without them.
    pub after_loss: Clients,
    /// What nodes could not reach.
    pub troubles: Vec<String>,
    /// Why the run did not come to its end, if so.
    pub unfinished: Option<String>,
}

/// What clients did from some moment on. Of survivors: since the last lost node was last heard of. It counts as lost only later,
/// when quick survivors may be through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Clients {
    /// Requests made.
    pub asked: u64,
    /// Requests served.
    pub served: u64,
}

impl Clients {
    /// Whether they went on: something was served, or nothing asked for.
    pub fn went_on(self) -> bool {
        self.served > 0 || self.asked == 0
    }
}

enum News<S: System> {
    From(usize, Box<Up<S>>),
    Gone(usize, String),
    Came(TcpStream),
}

/// What nodes of a system say.
type Up<S> = ToCoordinator<<S as System>::Event, <S as System>::Counts>;

/// One connection.
struct Stream {
    writer: TcpStream,
    rank: Option<u32>,
    heard: Instant,
    ready: bool,
    done: bool,
    rested: bool,
    over: bool,
    written: u64,
}

/// Takes the nodes of a run, and returns when it is over.
pub fn run<S: System>(
    listener: &TcpListener,
    terms: &Terms,
    work: &S::Workload,
    stop: &dyn Fn() -> bool,
) -> io::Result<Outcome<S>> {
    let (tell, news) = mpsc::channel();
    let doors = listener.try_clone()?;
    let came = tell.clone();
    thread::spawn(move || {
        while let Ok((stream, _)) = doors.accept() {
            if came.send(News::Came(stream)).is_err() {
                return;
            }
        }
    });
    let mut coordinator = Coordinator::<S>::new(*terms, work, tell);
    coordinator.drive(&news, stop);
    Ok(coordinator.outcome())
}

struct Coordinator<S: System> {
    terms: Terms,
    tell: Sender<News<S>>,
    streams: Vec<Stream>,
    addresses: Vec<Option<IpAddr>>,
    began: Instant,
    /// When all had met.
    met: Option<Instant>,
    /// Says who is missing until then.
    waiting: Waiting,
    /// When the last node was lost, or the clients were all through.
    quiet_since: Instant,
    recorder: Recorder<S::Oracles, S::Meter>,
    left: Vec<Leftover>,
    counts: Counts<S::Counts>,
    lost: Vec<(u32, String)>,
    /// Nodes that came back, and when.
    returned: Vec<(u32, Nanos)>,
    /// When the last lost node fell silent.
    silent_since: Nanos,
    /// Requests that were made, and served: when, and to which node.
    asked: Vec<(Nanos, u32)>,
    served: Vec<(Nanos, u32)>,
    troubles: Vec<String>,
    unfinished: Option<String>,
}

const GLANCE: Duration = Duration::from_millis(50);

impl<S: System> Coordinator<S> {
    fn new(terms: Terms, work: &S::Workload, tell: Sender<News<S>>) -> Coordinator<S> {
        let now = Instant::now();
        Coordinator {
            terms,
            tell,
            streams: Vec::new(),
            addresses: vec![None; terms.nodes as usize],
            began: now,
            met: None,
            waiting: Waiting::new(),
            quiet_since: now,
            recorder: Recorder::new(S::oracles(work, terms.nodes), S::Meter::default()),
            left: Vec::new(),
            counts: Counts::default(),
            lost: Vec::new(),
            returned: Vec::new(),
            silent_since: Nanos::ZERO,
            asked: Vec::new(),
            served: Vec::new(),
            troubles: Vec::new(),
            unfinished: None,
        }
    }

    fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn drive(&mut self, news: &Receiver<News<S>>, stop: &dyn Fn() -> bool) {
        while self.unfinished.is_none() && !self.is_over() {
            match news.recv_timeout(GLANCE) {
                Ok(News::Came(stream)) => self.take(stream),
                Ok(News::From(stream, up)) => self.hear(stream, *up),
                Ok(News::Gone(stream, why)) => self.lose(stream, &why),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.look_at_clocks();
            if stop() {
                self.unfinished = Some("it was interrupted".to_string());
            }
        }
        for stream in 0..self.streams.len() {
            self.say(stream, &ToNode::End);
        }
    }

    /// All nodes that are alive have come to rest.
    fn is_over(&self) -> bool {
        let all = self.met.is_some() && self.alive().all(|stream| stream.rested);
        all && (self.alive().count() > 0 || !self.lost.is_empty())
    }

    fn alive(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter().filter(|stream| stream.rank.is_some() && !stream.over)
    }

    fn take(&mut self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let Ok(reader) = stream.try_clone() else { return };
        let (number, tell) = (self.streams.len(), self.tell.clone());
        thread::spawn(move || read(number, reader, &tell));
        self.streams.push(Stream {
            writer: stream,
            rank: None,
            heard: Instant::now(),
            ready: false,
            done: false,
            rested: false,
            over: false,
            written: 0,
        });
    }

    fn say(&mut self, stream: usize, down: &ToNode) {
        // Whoever cannot be written to is heard of by the reader.
        let _ = self.streams[stream].writer.write_all(&super::wire::line(down));
    }

    fn say_to_all(&mut self, down: &ToNode) {
        for stream in 0..self.streams.len() {
            self.say(stream, down);
        }
    }

    fn hear(&mut self, stream: usize, up: Up<S>) {
        self.streams[stream].heard = Instant::now();
        match up {
            ToCoordinator::Hello { rank, address, device } => self.meet(stream, rank, address, &device),
            ToCoordinator::Ready => {
                self.streams[stream].ready = true;
                if let Some(met) = self.met {
                    self.say(stream, &ToNode::Begin { passed: met.elapsed().as_millis() as u64 });
                } else if self.streams.iter().filter(|stream| stream.ready).count()
                    == self.terms.nodes as usize
                {
                    self.met = Some(Instant::now());
                    self.quiet_since = Instant::now();
                    self.say_to_all(&ToNode::Begin { passed: 0 });
                    let _ = writeln!(io::stderr(), "all {} nodes have met", self.terms.nodes);
                }
            }
            ToCoordinator::Saw(event) => self.write_down(stream, event),
            ToCoordinator::Alive => {}
            ToCoordinator::Leaving => self.lose(stream, "it left on request"),
            ToCoordinator::Trouble(text) => self.troubles.push(self.of(stream, &text)),
            ToCoordinator::ClientsDone => {
                self.streams[stream].done = true;
                self.rest_when_done();
            }
            ToCoordinator::Rest { left, counts } => {
                let rank = self.streams[stream].rank.unwrap_or(0);
                self.streams[stream].rested = true;
                self.counts += counts;
                self.left.extend(left.into_iter().map(|left| leftover(rank, left)));
            }
        }
    }

    fn of(&self, stream: usize, text: &str) -> String {
        self.streams[stream].rank.map_or_else(|| text.to_string(), |rank| format!("n{rank}: {text}"))
    }

    /// A node that was lost is there again, or one that is silent and has not counted as lost so far.
    fn come_back(&mut self, stream: usize, rank: u32) -> bool {
        let is_it = |of: &Stream| of.rank == Some(rank);
        let Some(before) = self.streams.iter().rposition(is_it) else { return false };
        if self.met.is_none() || !(self.terms.members || self.terms.restarts) {
            return false;
        }
        if !self.streams[before].over {
            if self.streams[before].heard.elapsed() < 2 * HEARTBEAT {
                return false;
            }
            self.lose(before, "it began anew");
        }
        self.streams[stream].rank = Some(rank);
        self.returned.push((rank, self.now()));
        if !self.terms.members {
            // Before it does anything in its new life.
            S::restarted(rank, self.now(), &self.recorder);
        }
        let lives = self.returned.iter().filter(|(returned, _)| *returned == rank).count() as u32;
        if let Some(addresses) = self.addresses.iter().copied().collect::<Option<Vec<_>>>() {
            self.say(stream, &ToNode::Book { addresses, lives });
        }
        true
    }

    fn meet(&mut self, stream: usize, rank: u32, address: IpAddr, device: &str) {
        let knows_it = self.addresses.get(rank as usize).copied().flatten() == Some(address);
        if knows_it && self.come_back(stream, rank) {
            return;
        }
        match self.addresses.get_mut(rank as usize) {
            Some(place @ None) => *place = Some(address),
            Some(Some(_)) => {
                self.unfinished = Some(format!("two nodes say that they are node {rank}"));
                return;
            }
            None => {
                self.unfinished = Some(format!("there is no node {rank} among {}", self.terms.nodes));
                return;
            }
        }
        self.streams[stream].rank = Some(rank);
        self.troubles
            .extend(address.is_loopback().then(|| format!("n{rank}: {device} has a loopback address")));
        if let Some(addresses) = self.addresses.iter().copied().collect::<Option<Vec<_>>>() {
            self.say_to_all(&ToNode::Book { addresses, lives: 0 });
        }
    }

    fn write_down(&mut self, stream: usize, event: S::Event) {
        let event = event.by_another_clock(self.now());
        let entry = (event.at(), event.node());
        match event.stage() {
            Stage::Asked => self.asked.push(entry),
            Stage::Served => self.served.push(entry),
            Stage::Other => {}
        }
        self.recorder.record(event);
        self.streams[stream].written += 1;
        let written = self.streams[stream].written;
        self.say(stream, &ToNode::Written(written));
    }

    fn rest_when_done(&mut self) {
        if self.met.is_some() && self.alive().all(|stream| stream.done) {
            self.quiet_since = Instant::now();
            self.say_to_all(&ToNode::ComeToRest);
        }
    }

    fn lose(&mut self, stream: usize, why: &str) {
        if std::mem::replace(&mut self.streams[stream].over, true) || self.streams[stream].rested {
            return;
        }
        let Some(rank) = self.streams[stream].rank else { return };
        if self.met.is_none() {
            self.unfinished = Some(format!("node {rank} was lost before all had met: {why}"));
            return;
        }
        self.lost.push((rank, why.to_string()));
        // It said that it was alive once a beat, so at the latest one beat after its last word it was not.
        let silent = (self.streams[stream].heard + HEARTBEAT).min(Instant::now());
        let silent = Nanos(silent.duration_since(self.began).as_nanos() as u64);
        if self.terms.members {
            S::crashed(rank, silent, &self.recorder);
        }
        self.silent_since = self.silent_since.max(silent);
        self.quiet_since = Instant::now();
        self.rest_when_done();
    }

    fn look_at_clocks(&mut self) {
        let silent: Vec<usize> = (0..self.streams.len())
            .filter(|n| !self.streams[*n].over && self.streams[*n].rank.is_some())
            .filter(|n| self.streams[*n].heard.elapsed() > self.terms.silence)
            .collect();
        for stream in silent {
            let why = format!("it was silent for {} s", self.terms.silence.as_secs());
            self.lose(stream, &why);
        }
        if self.met.is_none() && self.began.elapsed() > self.terms.patience {
            let missing: Vec<_> =
                (0..self.terms.nodes).filter(|n| self.addresses[*n as usize].is_none()).collect();
            self.unfinished = Some(format!("nodes that did not come: {missing:?}"));
        }
        let Some(met) = self.met else {
            let addresses = &self.addresses;
            return self.waiting.tell(|| waiting::nodes(addresses));
        };
        let all_through = self.alive().all(|stream| stream.done);
        if all_through && self.quiet_since.elapsed() > self.terms.settle {
            // They had their time; what is left will be judged.
            self.unfinished = Some("nodes do not come to rest".to_string());
        }
        if met.elapsed() > self.terms.limit + self.terms.settle {
            let open = self.recorder.judge(|judge| judge.unended());
            self.unfinished = Some(format!("the time is over and {open} requests are open"));
        }
    }

    fn after_loss(&self) -> Clients {
        let lost = |rank: u32| self.lost.iter().any(|(lost, _)| *lost == rank);
        self.clients(self.silent_since, |rank| !lost(rank))
    }

    /// What the clients of some nodes did from a moment on.
    fn clients(&self, from: Nanos, of: impl Fn(u32) -> bool) -> Clients {
        let count =
            |list: &[(Nanos, u32)]| list.iter().filter(|(at, rank)| *at >= from && of(*rank)).count() as u64;
        Clients { asked: count(&self.asked), served: count(&self.served) }
    }

    fn outcome(self) -> Outcome<S> {
        let now = self.now();
        let healthy = Nanos(self.quiet_since.elapsed().as_nanos() as u64);
        // Without members no system survives the loss of a node that does not come back: what it held stays held, and what it was
        // home to is gone. What the survivors have open then is no violation, and what they keep is no leak.
        let lost = |node: u32| self.lost.iter().filter(|(lost, _)| *lost == node).count();
        let back = |node: u32| self.returned.iter().filter(|(back, _)| *back == node).count();
        let all_are_back = (0..self.terms.nodes).all(|node| lost(node) == back(node));
        if self.terms.members || all_are_back {
            self.recorder.judge(|judge| judge.judge_end(now, healthy));
            if self.unfinished.is_none() {
                self.recorder.judge(|judge| judge.judge_leaks(now, &self.left));
            }
        }
        let since_return = |(node, at): &(u32, Nanos)| (*node, self.clients(*at, |rank| rank == *node));
        let returned = self.returned.iter().map(since_return).collect();
        let counts = self.counts;
        self.recorder.judge(|judge| judge.judge_conduct(now, 0, S::conduct(&counts.service)));
        Outcome {
            after_loss: self.after_loss(),
            recorder: self.recorder,
            counts,
            lost: self.lost,
            returned,
            troubles: self.troubles,
            unfinished: self.unfinished,
        }
    }
}

fn read<S: System>(number: usize, stream: TcpStream, tell: &Sender<News<S>>) {
    let mut reader = BufReader::new(stream);
    let mut text = String::new();
    let why = loop {
        text.clear();
        match reader.read_line(&mut text) {
            Ok(0) => break "its connection closed".to_string(),
            Err(error) => break error.to_string(),
            Ok(_) => match serde_json::from_str(&text) {
                Ok(up) => drop(tell.send(News::From(number, Box::new(up)))),
                Err(error) => break format!("it speaks another language: {error}"),
            },
        }
    };
    let _ = tell.send(News::Gone(number, why));
}

#[cfg(test)]
#[path = "coordinator_tests.rs"]
mod tests;
