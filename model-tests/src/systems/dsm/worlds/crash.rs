//! A program on memory of which a node dies: the others leave it out, each at its own moment, whatever is in motion then.
//!
//! A witness, the next node behind it, tells the others who is dead: its messages come at any point of the program, at each node at another
//! one. Who is told so leaves the dead out from there on, as the membership has it do: expels it, and begins the view without it. The
//! dead is told, too, and stops. Until each of that happens it goes on; so what it does is all that a node can have done which
//! crashes at any event, and more. Where a second node dies, the witness says that next: at each node at any point behind the first.
//!
//! The witness itself goes on without the dead at once, and has got nothing before that. Where a thread has a step that tells (`d`), its node
//! is the witness, and says so from there on: then it may have what its thread accessed before.

use super::super::history::{Event, What};
use super::super::oracles::DsmOracles;
use super::super::tell_of_others;
use super::books::books;
use super::litmus::{ByThread, Plan, WORDS_A_PAGE};
use super::steps::{Moment, Program};
use crate::explore::{Coverage, Size, SizeError, Violation};
use crate::harness::{self, Model, Shape};
use crate::oracle::Conduct;
use std::rc::Rc;
use weft_protocols::dsm::{Alive, Dsm, DsmConfig, DsmStats, Reading, Shared};
use weft_protocols::members::{Change, Member, View, ViewId};
use weft_protocols::rt::Rt;
use weft_protocols::rt::sync::{MailboxSender, mailbox};
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, MeshConfig, Rank};
use weft_sim::Sim;
use weft_verbs::{Nanos, Wait};

/// The oracles, where what a node does counts until the others go on without it.
type Oracles = ByThread<true>;

/// The witness's messages: which of the deaths it is.
const TOLD: Channel = Channel(60);

pub struct Crash {
    program: Program,
    /// How many nodes there are.
    all: u32,
    /// Who dies; otherwise any node, each in an initial configuration.
    dies: Option<u32>,
    /// Who dies next, if anybody does.
    then: Option<u32>,
    pulls: bool,
    reading: Reading,
}

pub fn make(plan: Plan, reading: Reading, size: &Size) -> Result<Crash, SizeError> {
    let program = Program::read(&plan, size)?;
    let dies = size.number("dies")?.or(plan.dies);
    let then = size.number("then")?.or(plan.then);
    // A majority goes on, so there are three and the witness.
    let all = size.number("all")?.unwrap_or(plan.all);
    size.within("all", all, 3..=5)?;
    let highest = program.last_node().max(dies.unwrap_or(0)).max(then.unwrap_or(0));
    size.within("nodes", highest + 1, 1..=all)?;
    if then.is_some() && (dies.is_none() || then == dies) {
        return Err(SizeError("two nodes die, one after the other: say both".into()));
    }
    if program.locks() || program.gives_up() {
        let why = "threads of a world where a node dies have no lock (l, u), and give up no claim (%)";
        return Err(SizeError(why.into()));
    }
    let tellers: Vec<u32> = program.tellers().collect();
    let lives = |node: &u32| dies.is_some() && Some(*node) != dies && Some(*node) != then;
    if tellers.len() > 1 || !tellers.iter().all(lives) {
        let why = "one thread tells of a death, once (d), at a node that lives: say which one dies";
        return Err(SizeError(why.into()));
    }
    let program = program.with("all", Some(all)).with("dies", dies).with("then", then);
    Ok(Crash { program, all, dies, then, pulls: plan.pulls, reading })
}

/// What an execution keeps.
pub struct State {
    services: Vec<Dsm<Sim>>,
    shared: Shared<[u64]>,
    deaths: Deaths,
    /// For the members that begin views.
    _changes: Vec<MailboxSender<Change>>,
}

/// The nodes that die, one after the other, and the views without them.
#[derive(Clone)]
struct Deaths {
    dead: Vec<Member>,
    then: Vec<View>,
}

impl Deaths {
    fn of(members: &[harness::Member], dead: &[u32]) -> Deaths {
        let all = view(members, &[]).members;
        Deaths {
            dead: dead.iter().map(|node| all[*node as usize]).collect(),
            then: (1..=dead.len()).map(|number| view(members, &dead[..number])).collect(),
        }
    }

    fn has(&self, rank: Rank) -> bool {
        self.dead.iter().any(|dead| dead.rank == rank)
    }

    /// The next node behind the first one that lives.
    fn witness(&self, nodes: usize) -> usize {
        let behind = self.dead[0].rank.index() + 1;
        let mut others = (0..nodes).map(|node| (behind + node) % nodes);
        others.find(|node| !self.has(Rank::from_index(*node as u32))).expect("two die at most")
    }

    /// A node leaves out the one of this number; who it is stops.
    fn happens(&self, number: usize, mesh: &Mesh<Sim>, changes: &MailboxSender<Change>) {
        let (Some(&dead), Some(then)) = (self.dead.get(number), self.then.get(number)) else { return };
        let change = if !then.members.iter().any(|member| member.rank == mesh.me()) {
            Change::Out
        } else {
            mesh.expel(dead.rank, dead.incarnation);
            Change::Begins { view: then.clone(), left: vec![dead] }
        };
        // Its memory may have ended.
        let _ = changes.send(change);
    }
}

/// The view with all nodes, or that without some.
fn view(members: &[harness::Member], without: &[u32]) -> View {
    let member = |(rank, member): (u32, &harness::Member)| Member {
        rank: Rank::from_index(rank),
        incarnation: member.mesh.incarnation(),
    };
    let lives = |(rank, _): &(u32, _)| !without.contains(rank);
    let members = (0..).zip(members).filter(lives).map(member).collect();
    View { id: ViewId { number: 1 + without.len() as u64, ..ViewId::default() }, members, ..View::default() }
}

/// One of the dead is told by the mesh that it is out: its membership says so to what uses it, and then it is shut down.
async fn is_refused(rt: Rt<Sim>, mesh: Mesh<Sim>, changes: MailboxSender<Change>) {
    mesh.expelled().await;
    // Its memory may have ended.
    let _ = changes.send(Change::Out);
    rt.yield_now().await;
    mesh.close();
}

/// Leaves the dead out when the witness says so.
async fn leaves_out(mut inbox: Inbox, mesh: Mesh<Sim>, changes: MailboxSender<Change>, deaths: Deaths) {
    while let Some(incoming) = inbox.recv().await {
        if let Incoming::Message(message) = incoming
            && let &[number] = message.bytes()
        {
            deaths.happens(number.into(), &mesh, &changes);
        }
    }
}

impl Crash {
    /// Who dies in an initial configuration, one after the other.
    fn dead(&self, configuration: usize) -> Vec<u32> {
        [Some(self.dies.unwrap_or(configuration as u32)), self.then].into_iter().flatten().collect()
    }
}

impl Model for Crash {
    type State = State;
    type Oracles = Oracles;

    fn size(&self) -> Size {
        self.program.size()
    }

    fn smaller(&self) -> Vec<Size> {
        self.program.smaller()
    }

    fn shape(&self) -> Shape {
        Shape { nodes: self.all, wait: Wait::Poll, home: None, one_by_one: true }
    }

    /// Reports make more messages than worlds have otherwise.
    fn mesh(&self, config: &mut MeshConfig) {
        config.recv_buffers = 16;
    }

    fn oracles(&self) -> Oracles {
        ByThread(DsmOracles::new(WORDS_A_PAGE, self.program.threads.len() as u32).among(self.all).by_thread())
    }

    fn promises(&self) -> &'static [&'static str] {
        &["book"]
    }

    fn configurations(&self) -> usize {
        if self.dies.is_some() { 1 } else { self.all as usize }
    }

    fn configuration(&self, number: usize) -> String {
        let dead: Vec<String> = self.dead(number).iter().map(|node| format!("n{node} dies")).collect();
        dead.join(", then ")
    }

    fn start(
        &self,
        number: usize,
        members: &[harness::Member],
        recorder: &harness::Recorder<Oracles>,
    ) -> State {
        let (first, deaths) = (view(members, &[]), Deaths::of(members, &self.dead(number)));
        let (mut services, mut all) = (Vec::new(), Vec::new());
        for (node, harness::Member { rt, mesh }) in (0..).zip(members) {
            let (changes, told) = mailbox();
            let config = DsmConfig { pulls: self.pulls, ..DsmConfig::default() };
            let dsm = Dsm::start_under(rt, mesh, config, Alive::Told(&first, told), self.reading);
            let dsm = dsm.expect("nobody else has the channel");
            tell_of_others(&dsm, rt, node, recorder.clone());
            let inbox = mesh.open(TOLD).expect("nobody else has the channel");
            rt.spawn(leaves_out(inbox, mesh.clone(), changes.clone(), deaths.clone()));
            if deaths.has(mesh.me()) {
                rt.spawn(is_refused(rt.clone(), mesh.clone(), changes.clone()));
            }
            services.push(dsm);
            all.push(changes);
        }
        let shared = self.program.shared(&services[0]);
        let seen = self.program.start(members, &services, &[], recorder);
        let teller = self.program.tellers().next();
        let witness = teller.map_or_else(|| deaths.witness(members.len()), |node| node as usize);
        let told = teller.map(|_| seen.told);
        let (rt, mesh) = (members[witness].rt.clone(), members[witness].mesh.clone());
        members[witness].rt.spawn(tells(rt, mesh, all[witness].clone(), deaths.clone(), told));
        State { services, shared, deaths, _changes: all }
    }

    /// Who was left out learns it by what it is told. What the witness had to say may have been dropped with a connection that a fault
    /// broke: a membership would ask.
    fn rests_after_faults(&self, configuration: usize, recorder: &harness::Recorder<Oracles>) {
        for node in self.dead(configuration) {
            recorder.record_at_end(&Event::of_node(Nanos::ZERO, node, What::Crashed));
        }
    }

    fn finish(
        &self,
        state: &State,
        members: &[harness::Member],
        _: &harness::Recorder<Oracles>,
    ) -> Result<(), Violation> {
        self.judge_each(state, members)?;
        let lives = |rank: Rank| !state.deaths.has(rank);
        books(&state.services, state.shared, lives).map_err(|text| Violation::new("book", text))
    }

    fn violation_at(&self, state: &State, node: usize, _: &harness::Member) -> Option<Violation> {
        if state.deaths.has(Rank::from_index(node as u32)) {
            return None;
        }
        let dsm = &state.services[node];
        let DsmStats { out_of_turn, malformed, .. } = dsm.stats();
        harness::at_rest(node, Conduct { out_of_turn, malformed }, dsm.unfinished())
    }

    fn coverage(&self, state: &State, _: &[harness::Member], sink: &mut Coverage) {
        let any = |of: fn(&DsmStats) -> u64| state.services.iter().any(|dsm| of(&dsm.stats()) > 0);
        sink.sometimes("a minipage was sent", any(|stats| stats.transfers));
        sink.sometimes("a minipage was lost with the dead", any(|stats| stats.lost));
        sink.sometimes("a transfer was under way when an epoch began", any(|stats| stats.fenced));
        sink.sometimes("a message came of an epoch that was over", any(|stats| stats.stale));
    }
}

/// Tells the others, and leaves the dead out itself: at once, or when a thread says so.
async fn tells(
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    changes: MailboxSender<Change>,
    deaths: Deaths,
    when: Option<Rc<Moment>>,
) {
    if let Some(when) = when {
        when.wait().await;
    }
    for number in 0..deaths.dead.len() {
        let others = (0..mesh.size()).map(Rank::from_index).filter(|node| *node != mesh.me());
        for node in others {
            // There is room for one message each; who has died before hears nothing more.
            let _ = mesh.send(node, TOLD, &[number as u8]);
        }
        rt.yield_now().await;
        deaths.happens(number, &mesh, &changes);
    }
}
