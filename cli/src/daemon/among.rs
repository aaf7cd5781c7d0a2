//! What a daemon's node runs among members: segments and locks. Where the others go on without it, it begins anew by itself, as another
//! incarnation: what it kept and held is gone, as if its daemon had been started again.

use super::services::{none, owned};
use super::{LOCKS, SEGMENTS};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_control::message::{Failed, Report, View};
use weft_protocols::ddss::named::{Named, NamedError, Request};
use weft_protocols::ddss::{Ddss, DdssError};
use weft_protocols::locks::remote::{self, Remote, RemoteError};
use weft_protocols::locks::{LockConfig, LockError, LockService, Scheme};
use weft_protocols::members::{Change, Members, MembersConfig};
use weft_protocols::rt::Rt;
use weft_protocols::transport::{Mesh, MeshConfig, TransportError};
use weft_verbs::{Nanos, Verbs};

/// How long a node that is out waits before it begins anew, and before it tries that again.
const PAUSE: Nanos = Nanos::from_secs(1);

/// How often a node that leaves looks whether it has.
const LOOK: Nanos = Nanos::from_millis(10);

/// Which systems those are.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// Whether there are segments.
    pub segments: bool,
    /// By which scheme there are locks, if there are.
    pub locks: Option<Scheme>,
}

/// One incarnation.
struct Life<V: Verbs> {
    mesh: Mesh<V>,
    members: Members<V>,
    segments: Option<(Ddss<V>, Named<V>)>,
    locks: Option<(LockService<V>, Remote<V>)>,
}

/// Why an incarnation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Most of those that it was in a view with have begun anew.
    Lost,
    /// The others have left it out.
    Out,
}

/// What a node runs among members, incarnation after incarnation.
pub struct Among<V: Verbs> {
    rt: Rt<V>,
    runs: Runs,
    mesh: MeshConfig,
    members: MembersConfig,
    /// None between two.
    life: RefCell<Option<Rc<Life<V>>>>,
    /// The node leaves, and does not come back.
    leaves: Cell<bool>,
}

impl<V: Verbs> Among<V> {
    /// Starts it. `refused` says why a mesh could not be.
    ///
    /// # Errors
    /// What cannot be, in one line.
    pub fn start(
        rt: &Rt<V>,
        runs: Runs,
        mesh: MeshConfig,
        members: MembersConfig,
        refused: impl FnOnce(TransportError) -> String,
    ) -> Result<Rc<Among<V>>, String> {
        let life = Life::start(rt, runs, mesh.clone(), members, refused)?;
        let life = RefCell::new(Some(Rc::new(life)));
        let among = Rc::new(Among { rt: rt.clone(), runs, mesh, members, life, leaves: Cell::new(false) });
        drop(rt.spawn(Rc::clone(&among).live()));
        Ok(among)
    }

    fn life(&self) -> Option<Rc<Life<V>>> {
        self.life.borrow().clone()
    }

    /// What it is connected by, while there is something.
    pub fn mesh(&self) -> Option<Mesh<V>> {
        self.life().map(|life| life.mesh.clone())
    }

    /// Begins anew whenever the others have gone on without this node.
    async fn live(self: Rc<Self>) {
        while let Some(end) = self.end().await {
            // At once: who is asked into a view with this incarnation still would lose that, too.
            let life = self.life.take();
            life.inspect(|life| life.mesh.close());
            tracing::warn!("node {}: {}", self.mesh.me.index(), end.told());
            let mut told = None;
            while self.life.borrow().is_none() {
                self.rt.sleep(PAUSE).await;
                if self.leaves.get() {
                    return;
                }
                match Life::start(&self.rt, self.runs, self.mesh.clone(), self.members, |why| why.to_string())
                {
                    Ok(life) => drop(self.life.replace(Some(Rc::new(life)))),
                    Err(why) if told.as_ref() == Some(&why) => {}
                    Err(why) => {
                        tracing::warn!("node {}: its systems cannot begin anew: {why}", self.mesh.me.index());
                        told = Some(why);
                    }
                }
            }
        }
    }

    /// Waits until the present incarnation is of no more use. None if there is to be no other one.
    async fn end(&self) -> Option<End> {
        let life = self.life()?;
        let mut changes = life.members.changes();
        loop {
            let change = changes.recv().await.ok()?;
            match change {
                _ if self.leaves.get() => return None,
                Change::Begins { .. } => {}
                Change::Lost => return Some(End::Lost),
                Change::Out => {
                    // What it has said arrives first, if it can.
                    self.rt.sleep(self.members.patience).await;
                    return (!self.leaves.get()).then_some(End::Out);
                }
            }
        }
    }

    /// Serves a call to segments.
    ///
    /// # Errors
    /// Why it was not served.
    pub async fn segments(&self, body: &[u8]) -> Result<Vec<u8>, Failed> {
        let request = Request::from_bytes(body).map_err(|why| Failed::for_good(why.to_string()))?;
        let life = self.life().ok_or_else(|| Failed::for_now(format!("its segments {ANEW}")))?;
        let (_, named) = life.segments.as_ref().ok_or_else(|| none(SEGMENTS))?;
        let reply = named.serve_in_time(request).await.map_err(|why| of_segments(&why))?;
        Ok(reply.to_bytes())
    }

    /// Serves a call to locks.
    ///
    /// # Errors
    /// Why it was not served.
    pub async fn locks(&self, body: &[u8]) -> Result<Vec<u8>, Failed> {
        let request = remote::Request::from_bytes(body).map_err(|why| Failed::for_good(why.to_string()))?;
        let life = self.life().ok_or_else(|| Failed::for_now(format!("its locks {ANEW}")))?;
        let (_, remote) = life.locks.as_ref().ok_or_else(|| none(LOCKS))?;
        let reply = remote.serve(request).await.map_err(|why| of_locks(&why))?;
        Ok(reply.to_bytes())
    }

    /// Has this node leave the others: waits until they go on without it and have heard what it said, and no longer than until then. The view
    /// without it may have been its own to tell.
    pub async fn leave(&self, end: Nanos) {
        self.leaves.set(true);
        self.life().inspect(|life| life.members.leave());
        while !self.has_left() && self.rt.now() < end {
            self.rt.sleep(LOOK).await;
        }
        if let Some(mesh) = self.mesh() {
            // What does not arrive in time is lost as if the node had died.
            let _ = self.rt.deadline(end, mesh.all_received()).await;
        }
    }

    /// Whether the others go on without this node, or there are none.
    fn has_left(&self) -> bool {
        self.life().is_none_or(|life| {
            life.members.is_out() || life.members.view().is_none_or(|view| view.members.len() < 2)
        })
    }

    /// What is to be said of it.
    pub fn report(&self, report: &mut Report) {
        let Some(life) = self.life() else {
            let systems = [(SEGMENTS, self.runs.segments), (LOCKS, self.runs.locks.is_some())];
            for (system, _) in systems.into_iter().filter(|(_, runs)| *runs) {
                report.systems.insert(super::not_running(system), owned([("state", ANEW.to_string())]));
            }
            return;
        };
        // Also where its view was lost: it may be in a view again, and its calls end all the same.
        let is_out = life.is_out();
        let view = life.members.view().filter(|_| !is_out);
        let (state, runs) = state_of(is_out, view.is_some());
        report.view = view.map(|view| View {
            number: view.id.number,
            members: view.members.iter().map(|member| member.rank.index() as u32).collect(),
        });
        let all = [(SEGMENTS, life.of_segments()), (LOCKS, life.of_locks())];
        for (system, said) in all {
            let Some(mut said) = said else { continue };
            said.insert("state".to_string(), state.to_string());
            // Calls go to nodes that report the system.
            let name = if runs { system.to_string() } else { super::not_running(system) };
            report.systems.insert(name, said);
        }
    }
}

impl<V: Verbs> Life<V> {
    fn start(
        rt: &Rt<V>,
        runs: Runs,
        mesh: MeshConfig,
        members: MembersConfig,
        refused: impl FnOnce(TransportError) -> String,
    ) -> Result<Life<V>, String> {
        let mesh = Mesh::start(rt, mesh).map_err(refused)?;
        // The next attempt listens on the same service.
        Life::over(rt, runs, &mesh, members).inspect_err(|_| mesh.close())
    }

    fn over(rt: &Rt<V>, runs: Runs, mesh: &Mesh<V>, members: MembersConfig) -> Result<Life<V>, String> {
        let members = Members::start(rt, mesh, members).map_err(|why| why.to_string())?;
        let segments = || {
            let ddss = Ddss::start_among(rt, mesh, &members).map_err(|why| why.to_string())?;
            let named = Named::new(rt, &ddss);
            Ok::<_, String>((ddss, named))
        };
        let segments = runs.segments.then(segments).transpose()?;
        let locks = |scheme| {
            let config = LockConfig::new(scheme, mesh.size());
            let locks = LockService::start_with(rt, mesh, config, &members).map_err(|why| why.to_string())?;
            let remote = Remote::new(rt, &locks);
            Ok::<_, String>((locks, remote))
        };
        let locks = runs.locks.map(locks).transpose()?;
        Ok(Life { mesh: mesh.clone(), members, segments, locks })
    }

    /// Whether it is of no more use.
    fn is_out(&self) -> bool {
        self.members.is_out() || self.segments.as_ref().is_some_and(|(ddss, _)| ddss.is_out())
    }

    /// What is to be said of its segments, if it has them.
    fn of_segments(&self) -> Option<BTreeMap<String, String>> {
        let (ddss, _) = self.segments.as_ref()?;
        let (kept, stats) = (ddss.kept(), ddss.stats());
        Some(owned([
            ("kept", kept.len().to_string()),
            ("bytes", kept.iter().map(|(_, bytes)| bytes).sum::<u64>().to_string()),
            ("gets", stats.gets.to_string()),
            ("puts", stats.puts.to_string()),
        ]))
    }

    /// What is to be said of its locks, if it has them.
    fn of_locks(&self) -> Option<BTreeMap<String, String>> {
        let (_, remote) = self.locks.as_ref()?;
        let (holds, waits) = remote.count();
        Some(owned([("held", holds.to_string()), ("waiting", waits.to_string())]))
    }
}

impl End {
    /// What the log says.
    fn told(self) -> &'static str {
        match self {
            End::Lost => {
                "most nodes of its view have begun anew, and so does this one; what it kept and held is gone"
            }
            End::Out => {
                "the others have left this node out, and it begins anew; what it kept and held is gone"
            }
        }
    }
}

/// What is said of a node between two incarnations.
const ANEW: &str = "begin anew";

/// What a node says of these systems, and whether it serves calls.
fn state_of(is_out: bool, has_view: bool) -> (&'static str, bool) {
    match (is_out, has_view) {
        (true, _) => (ANEW, false),
        (false, false) => ("waits for a view", false),
        (false, true) => ("running", true),
    }
}

/// Why a call to locks was not served, and whether it may be if it is asked again: a node that is left out begins anew.
fn of_locks(why: &RemoteError) -> Failed {
    let is_final = match why {
        RemoteError::Name | RemoteError::Patience { .. } | RemoteError::Taken => true,
        RemoteError::Full => false,
        RemoteError::Lock(why) => {
            !matches!(why, LockError::Closed | LockError::HomeFull | LockError::LeftOut)
        }
    };
    Failed { why: why.to_string(), is_final }
}

/// Why a call to segments was not served, and whether it may be if it is asked again: what depends on nodes, and not on what was asked,
/// passes.
fn of_segments(why: &NamedError) -> Failed {
    use DdssError::{Absent, Closed, NotExecuted, Out, Send, Slow, Verbs};
    let is_final = !match why {
        NamedError::Restless(_) | NamedError::Down(_) | NamedError::Late { .. } => true,
        NamedError::Ddss(why) => {
            matches!(
                why,
                Absent(_)
                    | Closed
                    | DdssError::Memory
                    | DdssError::Unknown
                    | NotExecuted(_)
                    | Out
                    | Send(_)
                    | Slow
                    | Verbs(_)
            )
        }
        _ => false,
    };
    Failed { why: why.to_string(), is_final }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_protocols::rt::RtConfig;

    /// It begins anew by itself, and whoever waits for a lock goes on waiting.
    #[test]
    fn who_asks_a_node_for_a_lock_that_is_left_out_may_ask_again() {
        let failed = |why| of_locks(&RemoteError::Lock(why)).is_final;
        assert!(!failed(LockError::LeftOut) && !failed(LockError::Closed) && !failed(LockError::HomeFull));
        assert!(of_locks(&RemoteError::Name).is_final);
    }
    use weft_protocols::transport::Rank;
    use weft_sim::choice::Seeded;
    use weft_sim::fault::{Fault, Link, Way};
    use weft_sim::profile::Profile;
    use weft_sim::{Config, Fabric, NodeId, Sim};
    use weft_verbs::Device;

    fn secs(n: u64) -> Nanos {
        Nanos::from_secs(n)
    }

    fn millis(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    const BOTH: Runs = Runs { segments: true, locks: Some(Scheme::Ncosed) };

    /// Starts what a node runs, at first or after a crash.
    fn start(fabric: &Fabric, node: u32) -> Rc<Among<Sim>> {
        patient(fabric, node, millis(300))
    }

    /// The same with another patience.
    fn patient(fabric: &Fabric, node: u32, patience: Nanos) -> Rc<Among<Sim>> {
        let nodes = fabric.nodes();
        let context = fabric.devices(NodeId(node))[0].open().expect("the device opens");
        let rt = Rt::new(&context, RtConfig::default()).expect("it starts");
        let names = (0..nodes).map(|n| NodeId(n).to_string()).collect();
        let mesh = MeshConfig::new(Rank::from_index(node), names);
        let members = MembersConfig { nodes, lease: millis(300), drift: millis(3), patience };
        let among = Among::start(&rt, BOTH, mesh, members, |why| why.to_string()).expect("it starts");
        fabric.mount(NodeId(node), Box::new(rt.program()));
        among
    }

    fn crash(fabric: &Fabric, node: u32) {
        let now = fabric.now();
        fabric.plan(now, Fault::Crash { node: NodeId(node) }).expect("it runs");
        fabric.run_until(now + Nanos::from_millis(1));
    }

    fn back(fabric: &Fabric, node: u32) -> Rc<Among<Sim>> {
        fabric.plan(fabric.now(), Fault::Restart { node: NodeId(node) }).expect("it is down");
        fabric.run_until(fabric.now() + Nanos(1));
        start(fabric, node)
    }

    /// Nodes that have met.
    fn met(nodes: u32) -> (Fabric, Vec<Rc<Among<Sim>>>) {
        met_by(nodes, start)
    }

    fn met_by(nodes: u32, start: impl Fn(&Fabric, u32) -> Rc<Among<Sim>>) -> (Fabric, Vec<Rc<Among<Sim>>>) {
        let profile = Profile::builtin("present-day").expect("it is built in");
        let fabric = Fabric::new(Config::new(nodes, profile), Box::new(Seeded::new(1))).expect("it can be");
        let all: Vec<_> = (0..nodes).map(|node| start(&fabric, node)).collect();
        fabric.run_until(secs(2));
        assert!(all.iter().all(|of| runs(of) == nodes as usize));
        (fabric, all)
    }

    /// How many members its view has, if it serves calls; else none.
    fn runs(among: &Among<Sim>) -> usize {
        let mut report = Report::default();
        among.report(&mut report);
        let serves = |system| report.systems.contains_key(system);
        assert_eq!(serves(SEGMENTS), serves(LOCKS));
        let view = report.view.clone().filter(|_| serves(SEGMENTS));
        view.map_or(0, |view| view.members.len())
    }

    /// Of two, each restart of one takes the view of the other, which was to be restarted by hand, and took the view of the first by that.
    #[test]
    fn of_two_nodes_either_may_be_restarted_and_both_run_again() {
        let (fabric, mut all) = met(2);
        for node in [0, 1, 0] {
            crash(&fabric, node);
            all[node as usize] = back(&fabric, node);
            fabric.run_until(fabric.now() + secs(6));
            assert_eq!(
                all.iter().map(|of| runs(of)).collect::<Vec<_>>(),
                [2, 2],
                "node {node} was restarted"
            );
        }
    }

    #[test]
    fn who_is_left_of_a_view_whose_majority_was_restarted_runs_again() {
        let (fabric, mut all) = met(3);
        for node in [0, 1] {
            crash(&fabric, node);
        }
        for node in [0, 1] {
            all[node as usize] = back(&fabric, node);
        }
        fabric.run_until(fabric.now() + secs(6));
        assert!(all.iter().all(|of| runs(of) == 3));
    }

    #[test]
    fn a_node_that_leaves_does_not_begin_anew() {
        let (fabric, all) = met(3);
        let (leaves, at) = (Rc::clone(&all[2]), fabric.now() + secs(1));
        drop(all[2].rt.spawn({
            let rt = all[2].rt.clone();
            async move {
                rt.sleep_until(at).await;
                leaves.leave(at + secs(2)).await;
            }
        }));
        fabric.nudge(NodeId(2));
        fabric.run_until(at + secs(5));
        assert!(all[2].has_left());
        assert_eq!(all.iter().map(|of| runs(of)).collect::<Vec<_>>(), [2, 2, 0]);
    }

    /// The lowest rank tells the others of the view without it, and its link fails just then.
    #[test]
    fn a_node_that_leaves_waits_until_what_it_has_said_has_arrived_and_no_longer_than_it_may() {
        for (cut, ends) in [(millis(300), millis(1_900)), (secs(9), millis(2_100))] {
            let (fabric, all) = met_by(3, |fabric, node| patient(fabric, node, secs(9)));
            let (leaves, at) = (Rc::clone(&all[0]), fabric.now());
            let (rt, left) = (leaves.rt.clone(), Rc::new(Cell::new(None)));
            let tell = Rc::clone(&left);
            drop(all[0].rt.spawn(async move {
                leaves.leave(at + secs(2)).await;
                tell.set(Some(rt.now() - at));
            }));
            fabric.nudge(NodeId(0));
            while !all[0].has_left() {
                fabric.run_until(fabric.now() + Nanos(100));
            }
            let link = Link::Node(NodeId(0));
            let lost = Fault::Cut { link, way: Way::Both, lasts: Some(cut) };
            fabric.plan(fabric.now(), lost).expect("it runs");
            fabric.run_until(fabric.now() + cut.min(millis(1_500)));
            assert_eq!(left.get(), None, "nobody has heard the last of it");
            fabric.run_until(at + secs(4));
            let took = left.get().expect("it leaves");
            assert!(took <= ends && (took >= secs(2)) == (cut > secs(2)), "{took}");
        }
    }

    #[test]
    fn a_node_that_is_out_serves_no_calls_though_it_has_a_view() {
        assert_eq!(state_of(true, true), ("begin anew", false));
        assert_eq!(state_of(false, true), ("running", true));
        assert_eq!(state_of(false, false), ("waits for a view", false));
    }

    #[test]
    fn a_node_that_is_down_is_no_mistake_of_who_asks() {
        assert!(of_segments(&NamedError::Name).is_final);
        assert!(!of_segments(&NamedError::Ddss(DdssError::Absent(Rank::from_index(1)))).is_final);
        // The next call goes to another node.
        assert!(!of_segments(&NamedError::Ddss(DdssError::Out)).is_final);
        let node = Rank::from_index(1);
        assert!(!of_segments(&NamedError::Down(node)).is_final, "it may be started again");
        assert!(!of_segments(&NamedError::Late { changes: true }).is_final, "they may be up again");
        assert!(of_segments(&NamedError::Gone(node)).is_final, "a value that has died stays dead");
        assert!(of_segments(&NamedError::Ddss(DdssError::NoSuchNode(node))).is_final);
    }
}
