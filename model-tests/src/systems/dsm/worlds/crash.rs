//! A program on memory of which a node dies: the others leave it out, each at its own moment, whatever is in motion then.
//!
//! A witness, the next node behind it, tells the others who is dead: its messages come at any point of the program, at each node at another
//! one. Who is told so leaves the dead out from there on, as the membership has it do: expels it, and begins the view without it. The
//! dead is told, too, and stops. Until each of that happens it goes on; so what it does is all that a node can have done which
//! crashes at any event, and more.

use super::super::history::{Event, What};
use super::super::oracles::DsmOracles;
use super::super::tell_of_others;
use super::books::books;
use super::litmus::{ByThread, Plan, WORDS_A_PAGE};
use super::steps::Program;
use crate::explore::{AnyModel, Coverage, Size, SizeError, Violation};
use crate::harness::{self, Harness, Model, Shape};
use crate::oracle::Conduct;
use weft_protocols::dsm::{Alive, Dsm, DsmConfig, DsmStats, Reading, Shared};
use weft_protocols::members::{Change, Member, View, ViewId};
use weft_protocols::rt::Rt;
use weft_protocols::rt::sync::{MailboxSender, mailbox};
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, MeshConfig, Rank};
use weft_sim::Sim;
use weft_verbs::{Nanos, Wait};

/// The oracles, where what a node does counts until the others go on without it.
type Oracles = ByThread<true>;

/// The witness's messages: the rank of the dead.
const TOLD: Channel = Channel(60);

struct Crash<R> {
    name: &'static str,
    program: Program,
    /// How many nodes there are.
    all: u32,
    /// Who dies; otherwise any node, each in an initial configuration.
    dies: Option<u32>,
    reading: R,
}

pub fn make<R: Reading>(plan: Plan, reading: R, size: &Size) -> Result<Box<dyn AnyModel>, SizeError> {
    let program = Program::read(&plan, size)?;
    let dies = size.number("dies")?.or(plan.dies);
    // A majority goes on, so there are three and the witness.
    let all = size.number("all")?.unwrap_or(plan.all);
    size.within("all", all, 3..=5)?;
    size.within("nodes", program.last_node().max(dies.unwrap_or(0)) + 1, 1..=all)?;
    let program = program.with("all", Some(all)).with("dies", dies);
    Ok(Harness::boxed(Crash { name: plan.name, program, all, dies, reading }))
}

/// What an execution keeps.
pub struct State<R: Reading> {
    services: Vec<Dsm<Sim, R>>,
    shared: Shared<[u64]>,
    dead: u32,
    /// For the members that begin views.
    _changes: Vec<MailboxSender<Change>>,
}

/// The view with all nodes, or that without one.
fn view(members: &[harness::Member], without: Option<u32>) -> View {
    let member = |(rank, member): (u32, &harness::Member)| Member {
        rank: Rank::from_index(rank),
        incarnation: member.mesh.incarnation(),
    };
    let lives = |(rank, _): &(u32, _)| Some(*rank) != without;
    let members = (0..).zip(members).filter(lives).map(member).collect();
    View {
        id: ViewId { number: 1 + u64::from(without.is_some()), ..ViewId::default() },
        members,
        ..View::default()
    }
}

/// Leaves the dead out when the witness says so; who is dead stops.
async fn leaves_out(
    mut inbox: Inbox,
    mesh: Mesh<Sim>,
    changes: MailboxSender<Change>,
    then: View,
    dead: Member,
) {
    while let Some(incoming) = inbox.recv().await {
        if let Incoming::Message(_) = incoming {
            leave_out(&mesh, &changes, &then, dead);
        }
    }
}

fn leave_out(mesh: &Mesh<Sim>, changes: &MailboxSender<Change>, then: &View, dead: Member) {
    let change = if mesh.me() == dead.rank {
        Change::Out
    } else {
        mesh.expel(dead.rank, dead.incarnation);
        Change::Begins { view: then.clone(), left: vec![dead] }
    };
    // Its memory may have ended.
    let _ = changes.send(change);
}

impl<R: Reading> Crash<R> {
    /// Who dies in an initial configuration.
    fn dead(&self, configuration: usize) -> u32 {
        self.dies.unwrap_or(configuration as u32)
    }
}

impl<R: Reading> Model for Crash<R> {
    type State = State<R>;
    type Oracles = Oracles;

    fn name(&self) -> &str {
        self.name
    }

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
        format!("n{} dies", self.dead(number))
    }

    fn start(
        &self,
        number: usize,
        members: &[harness::Member],
        recorder: &harness::Recorder<Oracles>,
    ) -> State<R> {
        let dead = self.dead(number);
        let (first, then) = (view(members, None), view(members, Some(dead)));
        let dies = first.members[dead as usize];
        let (mut services, mut all) = (Vec::new(), Vec::new());
        for (node, harness::Member { rt, mesh }) in (0..).zip(members) {
            let (changes, told) = mailbox();
            let config = DsmConfig::default();
            let dsm = Dsm::start_under(rt, mesh, config, Alive::Told(&first, told), self.reading);
            let dsm = dsm.expect("nobody else has the channel");
            tell_of_others(&dsm, rt, node, recorder.clone());
            let inbox = mesh.open(TOLD).expect("nobody else has the channel");
            rt.spawn(leaves_out(inbox, mesh.clone(), changes.clone(), then.clone(), dies));
            if node == dead {
                let mesh = mesh.clone();
                rt.spawn(async move {
                    mesh.expelled().await;
                    mesh.close();
                });
            }
            services.push(dsm);
            all.push(changes);
        }
        let shared = self.program.shared(&services[0]);
        self.program.start(members, &services, &[], recorder);
        // Any that lives.
        let witness = (dead as usize + 1) % members.len();
        let (witness, changes) = (&members[witness], all[witness].clone());
        witness.rt.spawn(tells(witness.rt.clone(), witness.mesh.clone(), changes, then, dies));
        State { services, shared, dead, _changes: all }
    }

    /// Who was left out learns it by what it is told. What the witness had to say may have been dropped with a connection that a fault
    /// broke: a membership would ask.
    fn rests_after_faults(&self, configuration: usize, recorder: &harness::Recorder<Oracles>) {
        recorder.record_at_end(&Event::of_node(Nanos::ZERO, self.dead(configuration), What::Crashed));
    }

    fn finish(
        &self,
        state: &State<R>,
        members: &[harness::Member],
        _: &harness::Recorder<Oracles>,
    ) -> Result<(), Violation> {
        let mut nodes = members.iter().enumerate();
        if let Some(violation) = nodes.find_map(|(node, member)| self.violation_at(state, node, member)) {
            return Err(violation);
        }
        let lives = |rank: Rank| rank.index() != state.dead as usize;
        books(&state.services, state.shared, lives).map_err(|text| Violation::new("book", text))
    }

    fn violation_at(&self, state: &State<R>, node: usize, _: &harness::Member) -> Option<Violation> {
        if node == state.dead as usize {
            return None;
        }
        let dsm = &state.services[node];
        let DsmStats { out_of_turn, malformed, .. } = dsm.stats();
        harness::at_rest(node, Conduct { out_of_turn, malformed }, dsm.unfinished())
    }

    fn coverage(&self, state: &State<R>, _: &[harness::Member], sink: &mut Coverage) {
        let any = |of: fn(&DsmStats) -> u64| state.services.iter().any(|dsm| of(&dsm.stats()) > 0);
        sink.sometimes("a minipage was sent", any(|stats| stats.transfers));
        sink.sometimes("a minipage was lost with the dead", any(|stats| stats.lost));
        sink.sometimes("a transfer was under way when an epoch began", any(|stats| stats.fenced));
        sink.sometimes("a message came of an epoch that was over", any(|stats| stats.stale));
    }
}

/// Tells the others, and leaves the dead out itself.
async fn tells(rt: Rt<Sim>, mesh: Mesh<Sim>, changes: MailboxSender<Change>, then: View, dead: Member) {
    let others = (0..mesh.size()).map(Rank::from_index).filter(|node| *node != mesh.me());
    for node in others {
        // There is room for one message each.
        let _ = mesh.send(node, TOLD, &[0]);
    }
    rt.yield_now().await;
    leave_out(&mesh, &changes, &then, dead);
}
