//! The judge of a run: addresses are exchanged, the history is written down, the oracles judge it.
//!
//! A client tells what it saw before it goes on with it, and waits until that is written: a grant before it uses it, a
//! release before it makes it. So the order in which events arrive here is one in which they happened, whatever the
//! machines' clocks say, and two holders of one lock cannot hide behind them.

use super::troubles::Troubles;
use super::waiting::{self, Waiting};
use super::wire::{Counts, HEARTBEAT, History, ToCoordinator, ToNode, body, leftover};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;
use weft_check::history::{HistoryEvent, Stage};
use weft_check::oracle::Leftover;
use weft_check::record::{Record, Recorder};
use weft_check::system::System;
use weft_control::coordinator::{Event, Handle};
use weft_control::roster::Note;
use weft_verbs::Nanos;

/// What a run is, as far as its judge has to know.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How many nodes.
    pub nodes: u32,
    /// How long all may take to come, and then once more to become ready.
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

impl Terms {
    fn lost_may_come_back(&self) -> bool {
        self.members || self.restarts
    }
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
    /// What it cost that nothing went on before it was written down.
    pub history: History,
    /// What kept nodes from each other.
    pub troubles: Vec<String>,
    /// Why the run did not come to its end, if so.
    pub unfinished: Option<String>,
    /// Whether all nodes have met: before that nothing is done that could be judged.
    pub met: bool,
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

/// What nodes of a system say.
pub type Up<S> = ToCoordinator<<S as System>::Event, <S as System>::Counts>;

/// The process that has a rank, or had it last.
#[derive(Default)]
struct Seat {
    /// Which process; none before the first.
    incarnation: Option<u64>,
    addresses: Option<Vec<IpAddr>>,
    heard: Option<Instant>,
    /// Its cards for the others, and whether it has taken theirs.
    cards: Option<Vec<String>>,
    receiving: bool,
    ready: bool,
    done: bool,
    rested: bool,
    over: bool,
    /// Events of it that were written down, and of how many of them it has been told.
    written: u64,
    told: u64,
}

impl Seat {
    /// A process is there, and the run goes on with it.
    fn is_here(&self) -> bool {
        self.incarnation.is_some() && !self.over
    }
}

/// Judges what the nodes of a run say, and tells them how it goes on.
pub struct Judge<S: System> {
    terms: Terms,
    /// By rank.
    seats: Vec<Seat>,
    /// What is to be said, and to whom.
    says: Vec<(u32, ToNode)>,
    began: Instant,
    /// When the last one had come.
    all_came: Option<Instant>,
    /// When all had met.
    met: Option<Instant>,
    /// Says who is missing until then.
    waiting: Waiting,
    /// When the last node was lost, or the clients were all through.
    quiet_since: Instant,
    recorder: Recorder<S::Oracles, S::Meter>,
    left: Vec<Leftover>,
    counts: Counts<S::Counts>,
    history: History,
    lost: Vec<(u32, String)>,
    /// Nodes that came back, and when.
    returned: Vec<(u32, Nanos)>,
    /// When the last lost node fell silent.
    silent_since: Nanos,
    /// Requests that were made, and served: when, and to which node.
    asked: Vec<(Nanos, u32)>,
    served: Vec<(Nanos, u32)>,
    troubles: Troubles,
    unfinished: Option<String>,
}

/// How often the judge looks at its clocks.
const GLANCE: Duration = Duration::from_millis(50);

/// How long nodes may take to go when the run is over.
const FAREWELL: Duration = Duration::from_secs(3);

impl<S: System> Judge<S> {
    /// Of a run to which nobody has come.
    pub fn new(terms: Terms, work: &S::Workload) -> Judge<S> {
        let now = Instant::now();
        Judge {
            terms,
            seats: (0..terms.nodes).map(|_| Seat::default()).collect(),
            says: Vec::new(),
            began: now,
            all_came: None,
            met: None,
            waiting: Waiting::new(),
            quiet_since: now,
            recorder: Recorder::new(S::oracles(work, terms.nodes), S::Meter::default()),
            left: Vec::new(),
            counts: Counts::default(),
            history: History::default(),
            lost: Vec::new(),
            returned: Vec::new(),
            silent_since: Nanos::ZERO,
            asked: Vec::new(),
            served: Vec::new(),
            troubles: Troubles::default(),
            unfinished: None,
        }
    }

    fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    /// Judges until the run is over; returns when the nodes have been told so.
    pub async fn drive(
        mut self,
        handle: &Handle,
        events: &mut Receiver<Event>,
        stop: &dyn Fn() -> bool,
    ) -> Outcome<S> {
        while self.unfinished.is_none() && !self.is_over() {
            match timeout(GLANCE, events.recv()).await {
                Ok(Some(event)) => {
                    self.take(event);
                    while let Ok(event) = events.try_recv() {
                        self.take(event);
                    }
                }
                Ok(None) => self.unfinished = Some("the coordinator ended".to_string()),
                Err(_) => {}
            }
            self.acknowledge();
            self.look_at_clocks();
            if stop() {
                self.unfinished = Some(match self.met {
                    Some(_) => "it was interrupted".to_string(),
                    None => format!("interrupted while waiting for {}", self.missing()),
                });
            }
            self.speak(handle);
        }
        self.say_to_all(&ToNode::End);
        self.speak(handle);
        let here: BTreeSet<u32> = self.here().collect();
        let outcome = self.outcome();
        // Those who do not go are told by the coordinator, which ends.
        let _ = timeout(FAREWELL, see_off(here, events)).await;
        outcome
    }

    fn speak(&mut self, handle: &Handle) {
        for (rank, down) in self.says.drain(..) {
            handle.send(rank, &body(&down));
        }
    }

    /// All nodes that are alive have come to rest, and somebody has.
    fn is_over(&self) -> bool {
        self.met.is_some() && self.alive().all(|seat| seat.rested) && self.somebody_rested()
    }

    fn somebody_rested(&self) -> bool {
        self.seats.iter().any(|seat| seat.rested)
    }

    /// Nobody is there, and nobody has come to the end.
    fn all_are_lost(&self) -> bool {
        self.alive().next().is_none() && !self.somebody_rested()
    }

    fn alive(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().filter(|seat| seat.is_here())
    }

    fn say(&mut self, rank: u32, down: ToNode) {
        self.says.push((rank, down));
    }

    fn here(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.seats).filter(|(_, seat)| seat.is_here()).map(|(rank, _)| rank)
    }

    fn say_to_all(&mut self, down: &ToNode) {
        let here: Vec<u32> = self.here().collect();
        here.into_iter().for_each(|rank| self.say(rank, down.clone()));
    }

    fn seat(&mut self, rank: u32) -> &mut Seat {
        &mut self.seats[rank as usize]
    }

    /// Takes what the coordinator tells.
    fn take(&mut self, event: Event) {
        match event {
            Event::Note(Note::Joined { rank, incarnation, .. }) => self.joined(rank, incarnation),
            // What was on its way is lost, and a history with holes is none.
            Event::Note(Note::Again { rank }) => self.refuse(rank, "its connection broke"),
            Event::Note(Note::Lost { rank, why }) => self.lose(rank, &why),
            Event::Note(Note::Left { rank }) => self.lose(rank, "it left"),
            Event::Note(Note::Met { .. } | Note::Refused { .. }) => {}
            Event::Data(rank, bytes) => {
                // What a process says that counts as lost belongs to nothing any more.
                if self.seat(rank).over {
                    return;
                }
                self.seat(rank).heard = Some(Instant::now());
                match serde_json::from_slice(&bytes) {
                    Ok(up) => self.hear(rank, up),
                    Err(why) => self.refuse(rank, &format!("it speaks another language: {why}")),
                }
            }
        }
    }

    /// Goes on without a node that is there.
    fn refuse(&mut self, rank: u32, why: &str) {
        self.say(rank, ToNode::Without(why.to_string()));
        self.lose(rank, why);
    }

    /// A process has taken a rank that no other one has.
    fn joined(&mut self, rank: u32, incarnation: u64) {
        // What a rank's process has handed in at the end stays.
        let rested = self.seat(rank).rested;
        let heard = Some(Instant::now());
        let next = Seat { incarnation: Some(incarnation), heard, rested, ..Seat::default() };
        let before = std::mem::replace(self.seat(rank), next);
        let why = match (before.incarnation, self.met) {
            (None, _) => return,
            _ if rested => "the node had come to the end already",
            (Some(old), _) if old == incarnation => "its connection broke",
            (Some(_), Some(_)) if self.terms.lost_may_come_back() => {
                return self.came_back(rank, before.addresses);
            }
            (Some(_), _) => "a node that was lost does not come back to this scenario",
        };
        // Those that come back are still told where it was.
        let seat = self.seat(rank);
        (seat.over, seat.addresses, seat.cards) = (true, before.addresses, before.cards);
        self.say(rank, ToNode::Without(why.to_string()));
    }

    /// A node that was lost is there again.
    fn came_back(&mut self, rank: u32, addresses: Option<Vec<IpAddr>>) {
        // Where it was; it will say the same, or be refused.
        self.seat(rank).addresses = addresses;
        self.returned.push((rank, self.now()));
        if !self.terms.members {
            // Before it does anything in its new life.
            S::restarted(rank, self.now(), &self.recorder);
        }
    }

    fn hear(&mut self, rank: u32, up: Up<S>) {
        match up {
            ToCoordinator::Hello { addresses } => self.meet(rank, addresses),
            ToCoordinator::Cards(cards) => self.deal(rank, cards),
            ToCoordinator::Receiving => {
                self.seat(rank).receiving = true;
                if self.seats.iter().all(|seat| seat.receiving) {
                    self.say_to_all(&ToNode::Connect);
                }
            }
            ToCoordinator::Ready => {
                self.seat(rank).ready = true;
                if let Some(met) = self.met {
                    self.say(rank, ToNode::Begin { passed: met.elapsed().as_millis() as u64 });
                } else if self.seats.iter().all(|seat| seat.ready) {
                    self.met = Some(Instant::now());
                    self.quiet_since = Instant::now();
                    // Until now they had nothing to say.
                    self.seats.iter_mut().for_each(|seat| seat.heard = Some(Instant::now()));
                    self.say_to_all(&ToNode::Begin { passed: 0 });
                    // Nobody may be reading.
                    let _ = writeln!(io::stderr(), "all {} nodes have met", self.terms.nodes);
                }
            }
            ToCoordinator::Saw(event) => self.write_down(rank, event),
            ToCoordinator::Alive => {}
            ToCoordinator::Leaving => self.lose(rank, "it left on request"),
            ToCoordinator::Trouble { why, times } => self.troubles.add(format!("n{rank}: {why}"), times),
            ToCoordinator::ClientsDone => {
                self.seat(rank).done = true;
                self.rest_when_done();
            }
            ToCoordinator::Rest { left, counts, history } => {
                self.seat(rank).rested = true;
                self.counts += counts;
                self.history += history;
                self.left.extend(left.into_iter().map(|left| leftover(rank, left)));
            }
        }
    }

    /// A process says where its devices are. Once all are known, each is told of all.
    fn meet(&mut self, rank: u32, addresses: Vec<IpAddr>) {
        match &self.seat(rank).addresses {
            Some(before) if *before != addresses => {
                return self.refuse(rank, "it came back with other addresses, by which nobody finds it");
            }
            _ => {}
        }
        for address in addresses.iter().filter(|address| address.is_loopback()) {
            self.troubles.add(format!("n{rank}: {address} is a loopback address"), 1);
        }
        self.seat(rank).addresses = Some(addresses);
        let all = self.seats.iter().map(|seat| seat.addresses.clone()).collect::<Option<Vec<_>>>();
        let Some(addresses) = all else { return };
        if self.met.is_none() {
            self.all_came.get_or_insert_with(Instant::now);
            return self.say_to_all(&ToNode::Book { addresses, lives: 0 });
        }
        let lives = self.returned.iter().filter(|(returned, _)| *returned == rank).count() as u32;
        self.say(rank, ToNode::Book { addresses, lives });
    }

    /// A node has a card for each other one. Once all have, each is told of those for it.
    fn deal(&mut self, rank: u32, cards: Vec<String>) {
        if cards.len() != self.seats.len() {
            return self
                .refuse(rank, &format!("it has {} cards for {} nodes", cards.len(), self.seats.len()));
        }
        self.seat(rank).cards = Some(cards);
        let all = self.seats.iter().map(|seat| seat.cards.clone()).collect::<Option<Vec<_>>>();
        let Some(all) = all else { return };
        for rank in 0..self.terms.nodes {
            let for_it = all.iter().map(|cards| cards[rank as usize].clone()).collect();
            self.say(rank, ToNode::Cards(for_it));
        }
    }

    fn write_down(&mut self, rank: u32, event: S::Event) {
        let event = event.by_another_clock(self.now());
        let entry = (event.at(), event.node());
        match event.stage() {
            Stage::Asked => self.asked.push(entry),
            Stage::Served => self.served.push(entry),
            Stage::Amid | Stage::Other | Stage::OfNode => {}
        }
        self.recorder.record(event);
        self.seat(rank).written += 1;
    }

    /// Tells each node how many of its events are written down: once for all that came together.
    fn acknowledge(&mut self) {
        for (rank, seat) in (0..).zip(&mut self.seats) {
            if seat.told < seat.written {
                seat.told = seat.written;
                self.says.push((rank, ToNode::Written(seat.written)));
            }
        }
    }

    fn rest_when_done(&mut self) {
        if self.met.is_some() && self.alive().all(|seat| seat.done) {
            self.quiet_since = Instant::now();
            self.say_to_all(&ToNode::ComeToRest);
        }
    }

    fn lose(&mut self, rank: u32, why: &str) {
        let seat = self.seat(rank);
        if std::mem::replace(&mut seat.over, true) || seat.rested {
            return;
        }
        // It said that it was alive once a beat, so at the latest one beat after its last word it was not.
        let silent = seat.heard.map_or_else(Instant::now, |heard| (heard + HEARTBEAT).min(Instant::now()));
        if self.met.is_none() {
            self.unfinished = Some(format!("node {rank} was lost before all had met: {why}"));
            return;
        }
        self.lost.push((rank, why.to_string()));
        let silent = Nanos(silent.duration_since(self.began).as_nanos() as u64);
        if self.terms.members {
            S::crashed(rank, silent, &self.recorder);
        }
        self.silent_since = self.silent_since.max(silent);
        self.quiet_since = Instant::now();
        self.rest_when_done();
    }

    fn look_at_clocks(&mut self) {
        let silence = self.terms.silence;
        // One that does not run yet says nothing, and is known to be alive by its connection.
        let runs = |seat: &Seat| self.met.is_some() && seat.ready && !seat.over;
        let is_silent = |seat: &Seat| runs(seat) && seat.heard.is_some_and(|heard| heard.elapsed() > silence);
        let silent = (0..).zip(&self.seats).filter(|(_, seat)| is_silent(seat)).map(|(rank, _)| rank);
        for rank in silent.collect::<Vec<u32>>() {
            self.refuse(rank, &format!("it was silent for {} s", silence.as_secs()));
        }
        let Some(met) = self.met else { return self.look_at_the_meeting() };
        let all_through = self.alive().all(|seat| seat.done);
        let had_their_time = self.quiet_since.elapsed() > self.terms.settle;
        if self.all_are_lost() && (had_their_time || !self.terms.lost_may_come_back()) {
            self.unfinished = Some("all nodes were lost".to_string());
        } else if all_through && had_their_time {
            // What is left will be judged.
            self.unfinished = Some("nodes do not come to rest".to_string());
        }
        if met.elapsed() > self.terms.limit + self.terms.settle {
            let open = self.recorder.judge(|judge| judge.unended());
            self.unfinished = Some(format!("the time is over and {open} requests are open"));
        }
    }

    /// Nobody waits for ever for nodes that do not come, or, once all have, for nodes that do not become ready.
    fn look_at_the_meeting(&mut self) {
        if self.all_came.unwrap_or(self.began).elapsed() > self.terms.patience {
            let late = match self.all_came {
                Some(_) => "nodes that came and were not ready",
                None => "nodes that did not come",
            };
            let missing = (0_u32..).zip(self.at_the_meeting()).filter(|(_, met)| !met);
            let missing: Vec<u32> = missing.map(|(rank, _)| rank).collect();
            self.unfinished = Some(format!("{late}: {missing:?}"));
        }
        let missing = self.missing();
        self.waiting.tell(|| missing);
    }

    /// Whether each node has come, or, once all have, has become ready.
    fn at_the_meeting(&self) -> impl ExactSizeIterator<Item = bool> {
        let all_came = self.all_came.is_some();
        let has_met = move |seat: &Seat| if all_came { seat.ready } else { seat.addresses.is_some() };
        self.seats.iter().map(has_met)
    }

    /// For whom the others wait.
    fn missing(&self) -> String {
        let wait = if self.all_came.is_some() { " to be ready" } else { "" };
        format!("{}{wait}", waiting::nodes(self.at_the_meeting()))
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
            history: self.history,
            troubles: self.troubles.told(),
            unfinished: self.unfinished,
            met: self.met.is_some(),
        }
    }
}

/// Waits until these nodes have gone.
async fn see_off(mut here: BTreeSet<u32>, events: &mut Receiver<Event>) {
    while !here.is_empty() {
        match events.recv().await {
            Some(Event::Note(Note::Left { rank } | Note::Lost { rank, .. })) => drop(here.remove(&rank)),
            Some(_) => {}
            None => return,
        }
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
