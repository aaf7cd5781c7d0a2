//! Worlds that use all of a lock service's interface: downgrades, tries, deadlines, two locks, two applications of a node, holds that
//! last, and limits at their smallest.
//!
//! Small ones, and many: what a world shows is in which ways its calls meet, and each call more makes it many times as large.

use super::once_there_is_room;
use crate::explore::Entry;
use crate::harness::{self, Nodes, RecorderOf, Requests, SystemModel, of_system, worlds};
use crate::history::{ClientId, RequestId};
use crate::record::Record;
use crate::system::Place;
use crate::systems::locks::history::{Event, What};
use crate::systems::locks::workload::{LockWork, Request, WaitPolicy};
use crate::systems::locks::{LockCounts, Locks};
use weft_protocols::locks::{LockClient, LockKey, LockService, Mode, Scheme};
use weft_protocols::rt::fingerprint::StateHasher;
use weft_protocols::rt::{Rt, WaitPoint};
use weft_protocols::transport::{MeshConfig, MeshStats, Planted};
use weft_sim::Sim;
use weft_verbs::{Nanos, Verbs};

/// Where time comes last, how long anything takes says only that it ends when nothing else can happen.
const AT_LAST: Nanos = Nanos::from_millis(1);

/// The first lock: at home on the first of two or three nodes.
const FIRST: LockKey = LockKey(3);
/// The second one: at home on the second of them.
const SECOND: LockKey = LockKey(1);

/// A lock service, and what its clients call.
#[derive(Clone, Copy)]
struct Calls {
    scheme: Scheme,
    /// How often a node may hand a lock to its own next application; `None` for the default.
    hand_overs: Option<u32>,
    /// The count of shared requests from which on a word is given up; `None` for the default.
    shared_limit: Option<u32>,
    /// Whether every node has used both locks once before.
    warm: bool,
    /// What the nodes' connections have.
    mesh: Connections,
}

/// What the nodes' connections have.
#[derive(Clone, Copy)]
enum Connections {
    /// Room for all that a world sends, and no timers.
    Roomy,
    /// Room for one message, and timers.
    Narrow,
    /// Timers for acknowledgements and probes.
    Timed,
    /// Adapters without remote atomics; and a mistake of the processors that stand in for them.
    Atomless(Option<Planted>),
}

/// A scheme, whose nodes know where the locks' words are.
const fn of(scheme: Scheme) -> Calls {
    Calls { scheme, hand_overs: None, shared_limit: None, warm: true, mesh: Connections::Roomy }
}

const SRSL: Calls = Calls { warm: false, ..of(Scheme::Srsl) };
const DQNL: Calls = of(Scheme::Dqnl);
const NCOSED: Calls = of(Scheme::Ncosed);

/// The worlds.
pub(super) fn worlds() -> Vec<Entry> {
    use Connections::{Atomless, Narrow, Timed};
    worlds! { Calls::KEYS;
        "srsl-downgrades" of_system(SRSL, "d,s,x") Held, "the lock server: who holds alone goes on sharing";
        "srsl-downgrades-late" of_system(SRSL, "Dx,s") Held, "the same, while somebody waits to share";
        "srsl-tries" of_system(SRSL, "T,xt") Held, "the lock server: who would have to wait is refused";
        "srsl-tries-held" of_system(SRSL, "X+T,t") Held, "the same, beside a hold that lasts, of another application of its node and of another node";
        "srsl-held-downgraded" of_system(SRSL, "D,s") Held, "the lock server: who goes on sharing for long lets others share";
        "srsl-deadlines" of_system(SRSL, "X,Us,u") Held, "the lock server: who has waited for too long gives up";
        "srsl-deadlines-tries" of_system(SRSL, "X,UT") Held, "the same, and tries then";
        "srsl-local" of_system(SRSL, "x+x,x") Held, "the lock server: two applications of a node";
        "srsl-local-shared" of_system(SRSL, "d+s,s+x") Held, "the same, which share";
        "srsl-in-turn" of_system(Calls { hand_overs: Some(0), ..SRSL }, "x+x,x") Held, "the same, and none hands the lock to the other";
        "srsl-two-locks" of_system(SRSL, "xy,yx") Held, "the lock server: two locks, at home on two nodes";
        "srsl-narrow" of_system(Calls { mesh: Narrow, ..SRSL }, "xx,x,x") Held, "the lock server: connections with room for one message";
        "srsl-timed" of_system(Calls { mesh: Timed, ..SRSL }, "x,x") Held, "the lock server: late acknowledgements, and probes";
        "dqnl-calls" of_system(DQNL, "d,T,x") Held, "the distributed queue: who holds alone cannot share, and who only tries waits for nobody";
        "dqnl-deadlines" of_system(DQNL, "X,Ux") Held, "the distributed queue: who has waited for too long gives up";
        "dqnl-local" of_system(DQNL, "x+x,x") Held, "the distributed queue: two applications of a node";
        "ncosed-downgrades" of_system(NCOSED, "d,s,x") Held, "N-CoSED: who holds alone goes on sharing";
        "ncosed-downgrades-late" of_system(NCOSED, "Dx,s") Held, "the same, while somebody waits to share";
        "ncosed-tries" of_system(NCOSED, "T,xt") Held, "N-CoSED: who would have to wait is refused";
        "ncosed-tries-shared" of_system(NCOSED, "t,s,x") Held, "the same, beside somebody who shares";
        "ncosed-tries-held" of_system(NCOSED, "X+T,t") Held, "the same, beside a hold that lasts, of another application of its node and of another node";
        "ncosed-deadlines" of_system(NCOSED, "X,Us,u") Held, "N-CoSED: who has waited for too long gives up";
        "ncosed-deadlines-tries" of_system(NCOSED, "X,UT") Held, "the same, and tries then";
        "ncosed-local" of_system(NCOSED, "x+x,x") Held, "N-CoSED: two applications of a node";
        "ncosed-local-shared" of_system(NCOSED, "d+s,s+x") Held, "the same, which share";
        "ncosed-in-turn" of_system(Calls { hand_overs: Some(0), ..NCOSED }, "x+x,x") Held,
            "the same, and none hands the lock to the other";
        "ncosed-two-locks" of_system(NCOSED, "xy,yx") Held, "N-CoSED: two locks, at home on two nodes";
        "ncosed-held" of_system(NCOSED, "X,Sx,s") Held, "N-CoSED: holds that last until nothing else can happen";
        "ncosed-held-downgraded" of_system(NCOSED, "D,s,x") Held, "the same, of who goes on sharing";
        "ncosed-limit" of_system(Calls { shared_limit: Some(2), ..NCOSED }, "ss,ss,x") Held,
            "N-CoSED: two shared requests are as many as a word counts";
        "ncosed-limit-held" of_system(Calls { shared_limit: Some(2), ..NCOSED }, "S,Ss,dt") Held, "the same, with holds that last";
        "ncosed-limit-cold" of_system(Calls { shared_limit: Some(2), warm: false, ..NCOSED }, "S,Ss,t") Held,
            "the same, and nobody knows where the lock's word is";
        "ncosed-limit-words" of_system(Calls { shared_limit: Some(1), ..NCOSED }, "ssssssssssssssssssssssssssssssssssss,s") Held,
            "the same, so often that a word that was given up is used again";
        "ncosed-limit-one" of_system(Calls { shared_limit: Some(1), ..NCOSED }, "s,sx") Held, "the same, of one";
        "ncosed-narrow" of_system(Calls { mesh: Narrow, ..NCOSED }, "xx,s,x") Held, "N-CoSED: connections with room for one message";
        "ncosed-atomless" of_system(Calls { mesh: Atomless(None), ..NCOSED }, "x,x") Held, "N-CoSED: adapters without remote atomics; processors stand in";
        "ncosed-atomless-shared" of_system(Calls { mesh: Atomless(None), ..NCOSED }, "s,x") Held, "the same, and somebody shares: sums beside swaps";
        "planted-ncosed-overlapping-atomics" of_system(Calls { mesh: Atomless(Some(Planted::OverlapsAtomics)), warm: false, ..NCOSED }, "x,x") Violated,
            "the same, and a processor begins an atomic before the last one has ended";
        "ncosed-timed" of_system(Calls { mesh: Timed, ..NCOSED }, "x,x") Held, "N-CoSED: late acknowledgements, and probes";
    }
}

impl SystemModel for Calls {
    type System = Locks;

    const LETTERS: &'static str = "x to hold exclusively and s to share, d to go on sharing, T and t to try, U and u until a deadline, X, S and D \
                                   to hold until nothing else can happen, y and z of another lock, as in x+s,dy";

    const BRANCHES: &'static [&'static str] =
        &["a connection was made again", "a message was sent again", "a word was given up and rebuilt"];

    fn work(&self) -> LockWork {
        let Calls { hand_overs, shared_limit, .. } = *self;
        LockWork { hand_overs, shared_limit, ..LockWork::idle(self.scheme) }
    }

    fn request(&self, _: ClientId, letter: char) -> Option<Request> {
        use Mode::{Exclusive, Shared};
        let (key, mode) = match letter {
            'x' | 'X' | 'd' | 'D' | 'T' | 'U' => (FIRST, Exclusive),
            's' | 'S' | 't' | 'u' => (FIRST, Shared),
            'y' => (SECOND, Exclusive),
            'z' => (SECOND, Shared),
            _ => return None,
        };
        let wait = match letter {
            'T' | 't' => WaitPolicy::Try,
            'U' | 'u' => WaitPolicy::Until(AT_LAST),
            _ => WaitPolicy::Wait,
        };
        let hold = if matches!(letter, 'X' | 'S' | 'D') { AT_LAST } else { Nanos::ZERO };
        let downgrade = matches!(letter, 'd' | 'D');
        Some(Request { think: Nanos::ZERO, key, mode, wait, hold, downgrade })
    }

    fn mesh(&self, config: &mut MeshConfig) {
        match self.mesh {
            Connections::Roomy => return,
            Connections::Narrow => (config.send_depth, config.max_queued) = (4, 1),
            Connections::Timed => {}
            Connections::Atomless(planted) => {
                (config.atomics, config.planted) = (false, planted);
                return;
            }
        }
        harness::with_timers(config);
    }

    /// Its clients are its own.
    fn drops(&self) -> bool {
        false
    }

    fn drift(&self) -> Option<Nanos> {
        match self.mesh {
            Connections::Roomy | Connections::Atomless(_) => None,
            Connections::Narrow | Connections::Timed => Some(harness::DRIFT),
        }
    }

    fn warm_up(&self) -> &'static str {
        if self.warm { "Ty" } else { "" }
    }

    fn start_clients(&self, nodes: &Nodes<Self>, requests: &Requests, recorder: &RecorderOf<Self>) {
        for (index, Place { rt, node, .. }) in nodes.places().enumerate() {
            for (id, letters) in requests.of(*node) {
                let known = |letter| self.request(id, letter).expect("letters were checked");
                let calls = letters.chars().map(known);
                let (calls, locks) = (calls.collect(), nodes.service(index).client());
                rt.spawn(client(rt.clone(), locks, id, calls, recorder.clone()));
            }
        }
    }

    fn reached(&self, counts: LockCounts, mesh: MeshStats) -> impl IntoIterator<Item = bool> {
        [mesh.reconnects, mesh.messages_repeated, counts.rebuilds].map(|count| count > 0)
    }

    fn fingerprint(&self, service: &LockService<Sim>, to: &mut StateHasher) -> bool {
        service.fingerprint(to)
    }
}

/// An application: makes one call after the other.
async fn client<V: Verbs>(
    rt: Rt<V>,
    locks: LockClient<V>,
    client: ClientId,
    calls: Vec<Request>,
    recorder: RecorderOf<Calls>,
) {
    for (number, call) in (0..).zip(calls) {
        let request = RequestId { client, number };
        perform(&rt, &locks, request, call, &recorder).at((client.index, number)).await;
    }
}

/// Makes one call, and holds what it is granted: until the node's next step, or until nothing else can happen.
async fn perform<V: Verbs>(
    rt: &Rt<V>,
    locks: &LockClient<V>,
    request: RequestId,
    call: Request,
    recorder: &RecorderOf<Calls>,
) {
    let Request { key, mode, wait, hold, downgrade, .. } = call;
    let record = |what| recorder.record(Event { at: Nanos::ZERO, request, key, mode, what });
    let deadline = match wait {
        WaitPolicy::Until(time) => Some(time),
        WaitPolicy::Try => Some(Nanos::ZERO),
        WaitPolicy::Wait => None,
    };
    record(What::Requested { deadline });
    let answer = once_there_is_room(rt, async || match wait {
        WaitPolicy::Wait => locks.lock(key, mode).at("waits").await,
        WaitPolicy::Until(time) => locks.lock_until(key, mode, rt.now() + time).at("waits").await,
        WaitPolicy::Try => locks.try_lock(key, mode).at("tries").await,
    });
    let mut grant = match answer.await {
        Ok(grant) => grant,
        Err(why) => return record((&why).into()),
    };
    record(What::Granted { token: grant.token() });
    if holds(rt, hold).at("holds").await {
        record(What::Outlasts);
    }
    // A scheme that cannot leaves the hold as it is.
    if downgrade && grant.downgrade().await.is_ok() {
        record(What::Downgraded { token: grant.token() });
        if holds(rt, hold).at("shares").await {
            record(What::Outlasts);
        }
    }
    record(What::Released);
    grant.unlock().await;
}

/// Says whether it was until nothing else could happen.
async fn holds<V: Verbs>(rt: &Rt<V>, time: Nanos) -> bool {
    if time == Nanos::ZERO {
        rt.yield_now().at(()).await;
        return false;
    }
    rt.sleep(time).await;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locks_are_at_home_on_two_nodes() {
        for nodes in 2..=3 {
            let homes = [FIRST, SECOND].map(|key| key.home(nodes).index());
            assert_eq!(homes, [0, 1], "of {nodes}");
        }
    }
}
