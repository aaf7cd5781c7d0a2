//! The simplest history: clients make requests, and each gets an answer.
//!
//! A system whose clients do nothing else has its event type, its recording and its figures here, and needs to say only
//! what answers are right: its [`Promise`].

use crate::harness::Explored;
use crate::history::{ClientId, HistoryEvent, RequestId, Stage, nanos};
use crate::mesh_counts::MeshCounts;
use crate::metrics::{Group, Latencies, Layout, Metrics, Rate, Times};
use crate::oracle::{Oracles, PROGRESS, Violation};
use crate::record::{Meter, Record};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use weft_protocols::rt::Rt;
use weft_verbs::{Nanos, Verbs};

/// What requests and answers are: plain data.
pub trait Data: Clone + Debug + Serialize + DeserializeOwned + Send + 'static {}

impl<T: Clone + Debug + Serialize + DeserializeOwned + Send + 'static> Data for T {}

/// A client makes a request, or comes to the end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call<Q, A> {
    /// When, by the clock of the client's node.
    #[serde(with = "nanos")]
    pub at: Nanos,
    /// Whose request it is, and which.
    pub id: RequestId,
    /// What is asked for.
    pub request: Q,
    /// How it ended; `None` while it has not.
    pub end: Option<End<A>>,
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End<A> {
    /// With an answer.
    Answered(A),
    /// Its client has dropped it: it may have been carried out or not, or may yet be.
    Dropped,
}

impl<Q: Data, A: Data> HistoryEvent for Call<Q, A> {
    fn at(&self) -> Nanos {
        self.at
    }

    fn by_another_clock(self, at: Nanos) -> Self {
        Call { at, ..self }
    }

    fn node(&self) -> u32 {
        self.id.client.node
    }

    fn stage(&self) -> Stage {
        match self.end {
            None => Stage::Asked,
            Some(End::Answered(_)) => Stage::Served,
            Some(End::Dropped) => Stage::Other,
        }
    }
}

impl<Q: Debug, A: Debug> fmt::Display for Call<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { id, request, end, .. } = self;
        match end {
            None => write!(f, "{id} asks: {request:?}"),
            Some(End::Answered(answer)) => write!(f, "{id} is answered: {request:?}: {answer:?}"),
            Some(End::Dropped) => write!(f, "{id} is dropped: {request:?}"),
        }
    }
}

/// Awaits the answer to a request, and records both.
pub async fn call<V: Verbs, Q: Data, A: Data>(
    rt: &Rt<V>,
    id: RequestId,
    request: Q,
    record: &impl Record<Call<Q, A>>,
    answer: impl Future<Output = A>,
) {
    record.record(Call { at: rt.now(), id, request: request.clone(), end: None });
    record.written().await;
    let end = Some(End::Answered(answer.await));
    record.record(Call { at: rt.now(), id, request, end });
    record.written().await;
}

/// What a client sees of a request that it drops: of systems whose users may, for [`System::dropped`](crate::system::System::dropped).
pub fn dropped<Q: Data, A: Data>(id: RequestId, request: &Q, at: Nanos) -> Option<Call<Q, A>> {
    Some(Call { at, id, request: request.clone(), end: Some(End::Dropped) })
}

/// What a system promises of its answers. It is told of requests and answers in the order in which they happen.
pub trait Promise<Q, A>: Clone + Default + Hash + 'static {
    /// The promise's name, as reports have it.
    const NAME: &'static str;
    /// What is promised, in a few words.
    const PROMISE: &'static str;

    /// A client makes a request.
    fn asked(&mut self, client: ClientId, request: &Q);

    /// The client gets its answer.
    ///
    /// # Errors
    ///
    /// The answer is not as promised; what is wrong with it, in one line.
    fn answered(&mut self, client: ClientId, request: &Q, answer: &A) -> Result<(), String>;

    /// The client has dropped the request, which may have been carried out or not, or may yet be.
    fn dropped(&mut self, client: ClientId, request: &Q) {
        let _ = (client, request);
    }
}

/// The oracles of calls: a system's promise, and that every request ends.
#[derive(Clone, Debug)]
pub struct Answers<P, Q, A> {
    promise: P,
    /// The requests without an end, with when they were made.
    open: BTreeMap<RequestId, Nanos>,
    ended: u64,
    of: PhantomData<fn(Q, A)>,
}

impl<P: Default, Q, A> Default for Answers<P, Q, A> {
    fn default() -> Self {
        Answers { promise: P::default(), open: BTreeMap::new(), ended: 0, of: PhantomData }
    }
}

impl<P: Promise<Q, A>, Q: Data, A: Data> Oracles for Answers<P, Q, A> {
    type Event = Call<Q, A>;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        vec![(P::NAME, P::PROMISE), (PROGRESS, "once faults stop, every request ends")]
    }

    fn observe(&mut self, call: &Call<Q, A>, broken: &mut dyn FnMut(Violation)) {
        let Call { at, id, request, end } = call;
        let Some(end) = end else {
            self.open.insert(*id, *at);
            return self.promise.asked(id.client, request);
        };
        self.open.remove(id);
        self.ended += 1;
        let answer = match end {
            End::Answered(answer) => answer,
            End::Dropped => return self.promise.dropped(id.client, request),
        };
        if let Err(text) = self.promise.answered(id.client, request, answer) {
            broken(Violation { oracle: P::NAME, at: *at, text });
        }
    }

    fn ended(&self) -> u64 {
        self.ended
    }

    fn unended(&self) -> u64 {
        self.open.len() as u64
    }

    fn oldest(&self) -> Option<Nanos> {
        self.open.values().copied().min()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        let violation = |(id, since): (&RequestId, &Nanos)| Violation {
            oracle: PROGRESS,
            at: now,
            text: format!("{id} waits since {since}; the last fault was over {healthy} ago"),
        };
        self.open.iter().map(violation).collect()
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        self.promise.hash(&mut to);
        self.open.len().hash(&mut to);
        self.open.keys().for_each(|id| id.hash(&mut to));
    }
}

impl<P: Promise<Q, A>, Q: Data, A: Data> Explored for Answers<P, Q, A> {}

/// Measures how long answers take.
#[derive(Clone, Debug, Default)]
pub struct CallTimes {
    open: BTreeMap<RequestId, Nanos>,
    times: Times,
}

impl<Q: Data, A: Data> Meter<Call<Q, A>> for CallTimes {
    fn measure(&mut self, call: &Call<Q, A>) {
        if call.end.is_none() {
            self.open.insert(call.id, call.at);
        } else if let Some(since) = self.open.remove(&call.id)
            && !matches!(call.end, Some(End::Dropped))
        {
            self.times.add(call.at - since);
        }
    }
}

impl CallTimes {
    /// The figures: answers a second and how long they take, and what the transport had to do over.
    pub fn metrics(&self, mesh: MeshCounts, busy: Nanos) -> Metrics {
        let times = self.times.percentiles();
        let transport = [
            ("reconnects", "connections made again", mesh.reconnects),
            ("resent", "messages sent again", mesh.messages_repeated),
        ];
        Metrics {
            picture: None,
            rates: vec![Rate::of("requests_per_second", "requests a second", times.count, busy)],
            groups: vec![Group::new("transport", "Transport", Layout::Column("what"), &transport)],
            latencies: vec![Latencies {
                key: "latency",
                title: "Time from a request to its answer",
                heads: ["", "requests"],
                rows: vec![("request", times)],
            }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{Options, explore};
    use crate::harness::{Harness, Member, Model, Recorder, Shape};
    use std::ops::ControlFlow;
    use weft_verbs::Wait;

    /// Answers are the requests'.
    #[derive(Clone, Default, Hash)]
    struct Echo(u64);

    impl Promise<u64, u64> for Echo {
        const NAME: &'static str = "echo";
        const PROMISE: &'static str = "each answer is its request";

        fn asked(&mut self, _: ClientId, _: &u64) {
            self.0 += 1;
        }

        fn answered(&mut self, client: ClientId, request: &u64, answer: &u64) -> Result<(), String> {
            if request == answer { Ok(()) } else { Err(format!("{client} gets {answer} for {request}")) }
        }
    }

    fn event(at: u64, number: u32, answer: Option<u64>) -> Call<u64, u64> {
        let id = RequestId { client: ClientId { node: 1, index: 0 }, number };
        Call { at: Nanos(at), id, request: 7, end: answer.map(End::Answered) }
    }

    #[test]
    fn a_wrong_answer_and_one_that_never_comes_are_told() {
        let mut oracles = Answers::<Echo, u64, u64>::default();
        let mut said = Vec::new();
        for call in [
            event(1, 0, None),
            event(2, 0, Some(8)),
            event(3, 1, None),
            event(4, 1, Some(7)),
            event(5, 2, None),
        ] {
            oracles.observe(&call, &mut |violation| said.push(violation.to_string()));
        }
        assert_eq!(said, ["echo: at 2 ns: n1/c0 gets 8 for 7"]);
        assert_eq!((oracles.ended(), oracles.unended()), (2, 1));
        let late: Vec<String> = oracles.finish(Nanos(9), Nanos(4)).iter().map(ToString::to_string).collect();
        assert_eq!(late, ["progress: at 9 ns: n1/c0#2 waits since 5 ns; the last fault was over 4 ns ago"]);
    }

    #[test]
    fn a_request_that_its_client_drops_has_ended_and_takes_no_time() {
        let (asks, mut oracles) = (event(1_000, 0, None), Answers::<Echo, u64, u64>::default());
        let drops = dropped::<u64, u64>(asks.id, &asks.request, Nanos(3_000)).expect("it is seen");
        let mut times = CallTimes::default();
        for call in [asks, drops] {
            oracles.observe(&call, &mut |violation| panic!("{violation}"));
            times.measure(&call);
        }
        assert_eq!((oracles.ended(), oracles.unended()), (1, 0));
        assert!(oracles.finish(Nanos(9_000), Nanos(4_000)).is_empty());
        assert_eq!(times.times.percentiles().count, 0);
        assert_eq!(drops.to_string(), "n1/c0#0 is dropped: 7");
    }

    /// A client that is answered something else than it asked for.
    struct Deaf;

    impl Model for Deaf {
        type State = ();
        type Oracles = Answers<Echo, u64, u64>;

        fn oracles(&self) -> Self::Oracles {
            Answers::default()
        }

        fn shape(&self) -> Shape {
            Shape { nodes: 2, wait: Wait::Poll, home: None, one_by_one: true }
        }

        fn start(&self, _: usize, members: &[Member], recorder: &Recorder<Self::Oracles>) {
            let id = RequestId { client: ClientId { node: 0, index: 0 }, number: 0 };
            let (rt, recorder) = (members[0].rt.clone(), recorder.clone());
            members[0].rt.spawn(async move { call(&rt, id, 7u64, &recorder, async { 8u64 }).await });
        }
    }

    #[test]
    fn calls_are_explored_with_the_oracles_that_judge_their_runs() {
        let mut go_on = |_: &_| ControlFlow::Continue(());
        let report = explore(&mut Harness::new("deaf", Deaf), &Options::default(), &mut go_on);
        let found = report.expect("it is deterministic").counterexample.expect("a violation");
        assert_eq!(found.violation.oracle, "echo");
        assert!(found.violation.text.contains("n0/c0 gets 8 for 7"), "{}", found.violation);
    }

    #[test]
    fn times_are_from_a_request_to_its_answer() {
        let mut times = CallTimes::default();
        for call in [event(1_000, 0, None), event(3_000, 0, Some(7)), event(4_000, 1, None)] {
            times.measure(&call);
        }
        let metrics = times.metrics(MeshCounts::default(), Nanos::from_secs(1));
        assert_eq!(
            (metrics.rate("requests_per_second"), metrics.latency("latency", "request").max_ns),
            (1.0, 2_000)
        );
    }

    #[test]
    fn an_event_travels_and_keeps_all_but_its_clock() {
        let sent = event(5, 3, Some(7));
        let text = serde_json::to_string(&sent).expect("plain data");
        let read: Call<u64, u64> = serde_json::from_str(&text).expect("plain data");
        assert_eq!(read, sent);
        assert_eq!(read.by_another_clock(Nanos(8)), Call { at: Nanos(8), ..sent });
    }
}
