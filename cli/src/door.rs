//! The door of a cluster of daemons: what commands ask systems through.

mod ways;

use crate::daemon::{FILES, LOCKS, SEGMENTS};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::progress::Progress;
use crate::segment_args::ClusterArgs;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, JoinHandle};
use ways::Ways;
use weft_control::ask::{self, CallError, Meeting};
use weft_control::daemon::config::Systems;
use weft_control::daemon::systems::does_not_run;
use weft_control::message::{Answer, Call, Failed, Presence};
use weft_control::net::Tcp;
use weft_control::refusal::Refusal;
use weft_control::timing::Timing;

/// Where daemons are asked.
pub struct Door {
    of: Meeting,
    ways: Arc<Ways>,
    /// What the cluster runs, where its file was given.
    systems: Option<Systems>,
    /// The node that is to serve calls; none: the first one that runs the system.
    pub node: Option<u32>,
    /// This machine's node, where the cluster's file says which one that is.
    own: Option<u32>,
    timing: Timing,
    /// Whether a call that takes long says that it waits.
    tells: bool,
    /// There until it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Door {
    /// What is under way is not waited for: a name that its resolver is still looking for, say.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What is known of a call that was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// It changed nothing: no node was asked, or one has refused it for good.
    ToNothing,
    /// Its node has said why. It may have asked others.
    ToItsNode,
    /// Nobody has answered. It may be under way still.
    Unknown,
}

/// A call that was not served.
#[derive(Debug)]
pub struct Unserved {
    /// Why.
    pub why: Failure,
    /// What is known of it.
    pub came: Came,
}

/// For those who tell why, and nothing else of it.
impl From<Unserved> for Failure {
    fn from(unserved: Unserved) -> Failure {
        unserved.why
    }
}

impl Door {
    /// The door of a cluster. From now on Ctrl-C ends calls, and the command with them.
    ///
    /// # Errors
    /// The configuration or the secret cannot be read.
    pub fn new(of: &ClusterArgs, node: Option<u32>) -> Result<Door, Failure> {
        interrupt::install();
        let ClusterArgs { cluster, at, secret } = of;
        let (of, config) = crate::status::meeting(cluster.as_deref(), at.as_ref(), secret.as_deref())?;
        let systems = config.as_ref().map(|config| config.systems);
        let (own, door) = config.map(|config| (config.node.rank, config.node.door)).unwrap_or_default();
        // Who says where the coordinator is wants that one to be asked.
        let door = door.filter(|_| at.is_none());
        // A thread of its own: calls go on while the command reads or writes a file.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(Failure::unfinished)?;
        let timing = Timing::default();
        let ways = Arc::new(Ways::new(&of, door.map(|door| (door, own)), timing));
        Ok(Door { of, ways, systems, node, own, timing, tells: false, runtime: Some(runtime) })
    }

    /// The same, of which a call that takes long says that it waits.
    pub fn telling(mut self, tells: bool) -> Door {
        self.tells = tells;
        self
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().unwrap_or_else(|| unreachable!("it is dropped"))
    }

    /// Calls a system of a node: the node's rank, and its answer. `changes`: what may be another than before by it.
    ///
    /// # Errors
    /// It was not served: why.
    pub fn call(
        &self,
        node: Option<u32>,
        system: &str,
        body: Vec<u8>,
        changes: Option<&str>,
    ) -> Result<(u32, Vec<u8>), Unserved> {
        if interrupt::requested() {
            return Err(Unserved { why: Failure::interrupted(), came: Came::ToNothing });
        }
        let mut progress = Progress::begin(!self.tells);
        progress.step(None, "waiting for an answer");
        let why = match (self.wait(self.begin(node, system, body)), changes) {
            (Some(ended), _) => return self.answered(ended),
            (None, None) => Failure::interrupted(),
            (None, Some(what)) => {
                Failure::unfinished("interrupted, and nobody knows whether it was done").at(what)
            }
        };
        Err(Unserved { why, came: Came::Unknown })
    }

    /// The node that is to take locks: one that was named, or this machine's, whose clients' locks go when it does.
    pub fn node_for_locks(&self) -> Option<u32> {
        self.node.or(self.own)
    }

    /// Runs something that asks.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime().block_on(future)
    }

    /// Calls it, also if the user asked to stop.
    ///
    /// # Errors
    /// It was not served: why.
    pub async fn ask(
        &self,
        node: Option<u32>,
        system: &str,
        body: Vec<u8>,
    ) -> Result<(u32, Vec<u8>), Unserved> {
        self.answered(self.begin(node, system, body).await)
    }

    /// Asks every node that is here of a system, or the one that was named. `asks` adds to the rows what a node says.
    ///
    /// # Errors
    /// The coordinator does not answer, the user asked to stop, or no node says anything.
    pub fn of_all<T>(
        &self,
        system: &str,
        asks: impl Fn(u32, &mut Vec<(u32, T)>) -> Result<(), Failure>,
    ) -> Result<OfAll<T>, Failure> {
        let (mut rows, mut without) = (Vec::new(), Vec::new());
        let nodes = self.nodes()?;
        for node in &nodes {
            if let Err(why) = asks(*node, &mut rows) {
                if interrupt::requested() {
                    return Err(why);
                }
                without.push((*node, why));
            }
        }
        if !without.is_empty() && without.len() == nodes.len() && rows.is_empty() {
            // Who asks one node is told what that says.
            if self.node.is_some() {
                return without.pop().map_or_else(|| Err(odd()), |(_, why)| Err(why));
            }
            if without.iter().all(|(node, why)| why.to_string() == does_not_run(*node, system)) {
                return Err(self.nobody_runs(system));
            }
        }
        Ok(OfAll { rows, without })
    }

    /// Why a system that no node runs cannot be asked. Its nodes may run it later if the cluster's file has it, or if nobody has the file.
    fn nobody_runs(&self, system: &str) -> Failure {
        let why = Refusal::NoSystem { system: system.to_string() };
        match self.systems.as_ref().is_none_or(|systems| has(systems, system)) {
            true => Failure::unfinished(why),
            false => Failure::bad_input(why),
        }
    }

    /// Begins a call, which goes on by itself.
    fn begin(&self, node: Option<u32>, system: &str, body: Vec<u8>) -> Asked {
        let call = Call { node, system: system.to_string(), body };
        let ways = self.ways.clone();
        self.runtime().spawn(async move { ways.call(call).await })
    }

    /// Calls it even if the user asked to stop: it removes what would be left behind.
    ///
    /// # Errors
    /// It was not served: why.
    pub fn clean(&self, node: Option<u32>, system: &str, body: Vec<u8>) -> Result<(), Failure> {
        Ok(self.block_on(self.ask(node, system, body)).map(drop)?)
    }

    /// Waits for something, unless the user asks to stop.
    fn wait<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        self.runtime().block_on(async {
            tokio::select! {
                biased;
                () = interrupt::waited_for() => None,
                ended = future => Some(ended),
            }
        })
    }

    /// What came of a call.
    fn answered(&self, ended: Ended) -> Result<(u32, Vec<u8>), Unserved> {
        let (why, came) = match ended {
            Ok(Ok((node, Answer::Done(bytes)))) => return Ok((node, bytes)),
            Ok(Ok((_, Answer::Failed(Failed { why, is_final: true })))) => {
                (Failure::bad_input(why), Came::ToNothing)
            }
            Ok(Ok((_, Answer::Failed(Failed { why, is_final: false })))) => {
                (Failure::unfinished(why), Came::ToItsNode)
            }
            Ok(Err(why)) => {
                let came = if why.may_have_come() { Came::Unknown } else { Came::ToNothing };
                (failure(self.systems.as_ref(), why), came)
            }
            Err(why) => (Failure::unfinished(why), Came::Unknown),
        };
        Err(Unserved { why, came })
    }

    /// The nodes that are asked when all are: those that are here, or the one that was named.
    ///
    /// # Errors
    /// The coordinator does not answer.
    pub fn nodes(&self) -> Result<Vec<u32>, Failure> {
        if let Some(node) = self.node {
            return Ok(vec![node]);
        }
        let asked = ask::status(&Tcp, &self.of, &self.timing);
        let status = self.wait(asked).ok_or_else(Failure::interrupted)?;
        let status = status.map_err(|why| failure(self.systems.as_ref(), why))?;
        let here = status.members.iter().filter(|member| member.presence == Some(Presence::Present));
        Ok(here.map(|member| member.rank).collect())
    }
}

/// What all nodes say that are asked, and of those that say nothing, why.
pub struct OfAll<T> {
    /// By node.
    pub rows: Vec<(u32, T)>,
    without: Vec<(u32, Failure)>,
}

impl<T> OfAll<T> {
    /// Says on standard error who does not say `what`; the rest is shown all the same.
    pub fn tell_without(&self, what: &str) -> Exit {
        for (node, why) in &self.without {
            // Nobody may be reading.
            let _ = writeln!(io::stderr(), "weft: node {node} does not say {what}: {why}");
        }
        if self.without.is_empty() { Exit::Held } else { Exit::Unfinished }
    }
}

type Asked = JoinHandle<Result<(u32, Answer), CallError>>;
type Ended = Result<Result<(u32, Answer), CallError>, JoinError>;

/// Calls to a system that are under way at a time, the oldest first. Those that nobody wants to hear of any more are given up with it: the
/// daemon may serve them all the same.
pub struct Calls<'a> {
    door: &'a Door,
    system: &'a str,
    most: usize,
    asked: VecDeque<Asked>,
}

impl<'a> Calls<'a> {
    /// So many at a time, at most.
    pub fn new(door: &'a Door, system: &'a str, most: usize) -> Calls<'a> {
        Calls { door, system, most, asked: VecDeque::new() }
    }

    /// Whether another one has to wait until the oldest has ended.
    pub fn is_full(&self) -> bool {
        self.asked.len() >= self.most
    }

    /// Begins another one.
    pub fn begin(&mut self, body: Vec<u8>) {
        self.asked.push_back(self.door.begin(self.door.node, self.system, body));
    }

    /// How the oldest one ends: the node that answered, and its answer. None if there is none.
    pub fn next(&mut self) -> Option<Result<(u32, Vec<u8>), Failure>> {
        let ended = self.door.wait(self.asked.pop_front()?);
        Some(ended.ok_or_else(Failure::interrupted).and_then(|ended| Ok(self.door.answered(ended)?)))
    }
}

impl Drop for Calls<'_> {
    fn drop(&mut self) {
        self.asked.iter().for_each(JoinHandle::abort);
    }
}

/// Why a call came to nothing. A system that the cluster's file does not have will not run later.
fn failure(systems: Option<&Systems>, why: CallError) -> Failure {
    let never = match (&why, systems) {
        (CallError::Refused { why: Refusal::NoSystem { system }, .. }, Some(systems)) => {
            !has(systems, system)
        }
        _ => false,
    };
    match never || why.is_final() {
        true => Failure::bad_input(why),
        false => Failure::unfinished(why),
    }
}

/// Whether the daemons of a file run a system.
fn has(systems: &Systems, system: &str) -> bool {
    match system {
        FILES => systems.file_servers > 0,
        SEGMENTS => systems.segments,
        LOCKS => systems.locks.is_some(),
        _ => true,
    }
}

/// A daemon of another version answered.
pub fn odd() -> Failure {
    Failure::unfinished("the daemon answers another question: are both programs of one version?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_control::ask::Callee;
    use weft_control::net::Endpoint;

    #[test]
    fn a_system_that_no_node_runs_may_run_later_where_the_clusters_file_has_it() {
        let told = |systems: Option<Systems>, system: &str| {
            let why = Refusal::NoSystem { system: system.to_string() };
            let at = Callee::Coordinator(Endpoint::new("n0", weft_control::PORT));
            failure(systems.as_ref(), CallError::Refused { at, why }).exit()
        };
        let files = Systems { file_servers: 1, ..Systems::default() };
        assert_eq!(told(Some(files), FILES), Exit::Unfinished);
        assert_eq!(told(Some(files), SEGMENTS), Exit::BadInput);
        assert_eq!(told(None, FILES), Exit::Unfinished, "nobody has said what it runs");
    }
}
