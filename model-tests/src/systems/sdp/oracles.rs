//! The promises of sockets: what is written is read, in order and once; and links that break are a stall and no error.

use super::history::{Event, What, Why};
use super::workload::FailoverMode;
use crate::history::{ClientId, RequestId};
use crate::oracle::{Oracle, Oracles, PROGRESS, Violation, show};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use weft_verbs::Nanos;

/// A request that has not ended.
#[derive(Clone, Copy, Debug, Hash)]
struct Open {
    since_ns: u64,
    to: u32,
    bytes: u32,
    reply: u32,
    /// How many times the server has taken it.
    taken: u32,
    /// How many connections it went over: it is made anew over another one when its address changes. The server may take it from
    /// each, and from an earlier one after the request was answered over a later one.
    connections: u32,
    /// Its server has restarted since.
    orphaned: bool,
    /// A connection was made for it, and its address has not changed since.
    connected: bool,
    /// Over how many connections all of it has arrived, as far as its client knows: by the answer, or as it was told when the address changed.
    arrived: u32,
}

impl Open {
    fn new(since_ns: u64, to: u32, bytes: u32, reply: u32) -> Open {
        let (orphaned, connected) = (false, false);
        Open { since_ns, to, bytes, reply, taken: 0, connections: 1, orphaned, connected, arrived: 0 }
    }

    /// Its connection's address has changed, and its client is told how many bytes of the stream have arrived; whether as many can have. A stream
    /// that was kept has carried those of others, too.
    fn moves(&mut self, acknowledged: u64) -> bool {
        self.connections += 1;
        let (all, own) = (u64::from(self.bytes), std::mem::take(&mut self.connected));
        self.arrived += u32::from(own && acknowledged == all);
        !own || acknowledged <= all
    }

    /// It is answered, with so many bytes; whether it may be.
    fn is_answered(&mut self, bytes: u32) -> bool {
        let right = bytes == self.reply && self.taken > 0;
        self.arrived += u32::from(right);
        right
    }

    /// The server has taken it once more; whether it may have.
    fn takes(&mut self, bytes: u32) -> bool {
        self.taken += 1;
        bytes == self.bytes && self.taken <= self.connections
    }
}

/// The requests under way. The oracles look at what they were, so there is one list.
#[derive(Clone, Debug, Default)]
struct Requests {
    open: BTreeMap<RequestId, Open>,
    /// Those that were answered, and that the server may still take from an earlier connection.
    answered: BTreeMap<RequestId, Open>,
    made: u64,
    /// How often nodes have restarted, if at all.
    restarted: BTreeMap<u32, u32>,
    /// Nodes that have crashed for good.
    crashed: BTreeSet<u32>,
    /// The requests that went with the nodes of their clients: a server that has them may still take them.
    gone: BTreeMap<RequestId, Open>,
    /// Clients that have dropped a request, and its stream with it.
    quitters: BTreeSet<ClientId>,
    /// A peer of which nothing is heard is asked whether it is there.
    asks: bool,
}

impl Requests {
    /// A node has crashed: its clients' requests are nobody's any more.
    fn dies(&mut self, node: u32) {
        let of_it = |request: &RequestId| request.client.node == node;
        let all = std::mem::take(&mut self.open).into_iter();
        let (its, others): (BTreeMap<_, _>, _) = all.partition(|(request, _)| of_it(request));
        self.open = others;
        self.made -= its.len() as u64;
        self.gone.extend(its);
    }

    /// A request has ended.
    fn ends(&mut self, request: RequestId) {
        let open = self.open.remove(&request);
        let late = open.filter(|open| open.taken < open.connections);
        self.answered.extend(late.map(|open| (request, open)));
    }

    /// The requests that must end. One that waits for the answer of a server that has restarted need not, unless such are asked: a reader
    /// who has nothing open learns of that by keepalive only.
    fn waiting(&self) -> impl Iterator<Item = (&RequestId, &Open)> {
        self.open.iter().filter(|(_, open)| self.asks || !open.orphaned)
    }

    /// Whether a stream may be reset: its server has restarted, or its client is no more. A connection that was made for a request since then
    /// is one with the server's present incarnation; a kept one may be with the one before.
    fn may_reset(&self, request: &RequestId) -> bool {
        let restarted =
            |open: &Open| self.restarted.contains_key(&open.to) && (open.orphaned || !open.connected);
        self.is_of_restarted(request) || self.open.get(request).is_some_and(restarted)
    }

    /// Those whose server has taken them less often than they have arrived there: what came before a stream failed is read. One that was away
    /// has lost what it had not read.
    fn untaken(&self) -> impl Iterator<Item = (&RequestId, &Open)> {
        let lives = |open: &Open| !self.restarted.contains_key(&open.to) && !self.crashed.contains(&open.to);
        let all = self.open.iter().chain(&self.answered);
        all.filter(move |(_, open)| open.taken < open.arrived && lives(open))
    }

    /// Whether a request was made in an earlier life of its client's node. Its server may be done with it later than the client was.
    fn is_of_restarted(&self, request: &RequestId) -> bool {
        self.restarted.get(&request.client.node).is_some_and(|lives| request.life() < *lives)
    }

    /// Whether a stream may fail for want of a sign of life: its server is dead, or its client.
    fn may_time_out(&self, request: &RequestId) -> bool {
        let dead = |open: &Open| self.crashed.contains(&open.to);
        self.crashed.contains(&request.client.node) || self.open.get(request).is_some_and(dead)
    }
}

/// All the oracles of sockets.
#[derive(Clone, Debug, Default)]
pub struct SdpOracles {
    requests: Requests,
    unbroken: Unbroken,
}

impl SdpOracles {
    /// The oracles of streams that do this when their connection goes over to another rail, to which users may have it moved, and that are
    /// kept for the next request or not.
    pub fn of(failover: FailoverMode, moves: bool, keeps: bool) -> SdpOracles {
        let is_told = failover == FailoverMode::Application;
        let unbroken = Unbroken { is_told, moves, keeps, ..Unbroken::default() };
        SdpOracles { unbroken, ..SdpOracles::default() }
    }

    /// The same where a peer of which nothing is heard is asked whether it is there, or not.
    #[must_use]
    pub fn with_keepalive(mut self, asks: bool) -> SdpOracles {
        self.requests.asks = asks;
        self
    }
}

/// Bytes out are bytes in.
struct Bytes<'a>(&'a mut Requests);

impl Bytes<'_> {
    const NAME: &'static str = "byte stream";
}

impl Oracle<Event> for Bytes<'_> {
    fn name(&self) -> &'static str {
        Bytes::NAME
    }

    fn promise(&self) -> &'static str {
        "bytes out are bytes in, in order, once"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        let Requests { open, answered, gone, .. } = &mut *self.0;
        let right = match event.what {
            What::Took { bytes, intact, .. } => {
                let lives = open.get_mut(&event.request).or_else(|| answered.get_mut(&event.request));
                let request = lives.or_else(|| gone.get_mut(&event.request));
                intact && request.is_some_and(|request| request.takes(bytes))
            }
            What::Answered { bytes, intact, .. } => {
                let open = open.get_mut(&event.request);
                intact && open.is_some_and(|open| open.is_answered(bytes))
            }
            What::Moved { acknowledged } => {
                open.get_mut(&event.request).is_none_or(|open| open.moves(acknowledged))
            }
            What::Surplus => false,
            _ => true,
        };
        if right { Ok(()) } else { Err(event.to_string()) }
    }
}

/// Links that break are a stall and no error, unless users want to be told of another address.
#[derive(Clone, Copy, Debug, Default)]
struct Unbroken {
    is_told: bool,
    /// Users have connections moved.
    moves: bool,
    /// They keep streams.
    keeps: bool,
    /// The request in question goes over a stream that stood: who connects is told of no other address.
    has_stood: bool,
    /// When one was first told of another address.
    told: Option<Nanos>,
    /// The stream in question may be reset.
    resets: bool,
    /// It may fail because nothing is heard of its peer.
    times_out: bool,
    /// Its client may have dropped it.
    is_dropped: bool,
}

impl Oracle<Event> for Unbroken {
    fn name(&self) -> &'static str {
        "unbroken"
    }

    fn promise(&self) -> &'static str {
        "no stream fails because a link does"
    }

    fn observe(&mut self, event: &Event) -> Result<(), String> {
        match event.what {
            What::Moved { .. } if !self.has_stood => Err(event.to_string()),
            What::Moved { .. } | What::Breaks(Why::AddressChanged) if self.is_told => {
                self.told.get_or_insert(Nanos(event.at_ns));
                Ok(())
            }
            What::Fails(Why::Reset) | What::Breaks(Why::Reset) if self.resets => Ok(()),
            What::Fails(Why::TimedOut) | What::Breaks(Why::TimedOut) if self.times_out => Ok(()),
            What::Fails(Why::Dropped) => Ok(()),
            // A stream that is dropped closes or resets, by what was written and is unread.
            What::Breaks(Why::Reset | Why::UnexpectedEnd) if self.is_dropped => Ok(()),
            What::Moved { .. } | What::Fails(_) | What::Breaks(_) => Err(event.to_string()),
            _ => Ok(()),
        }
    }
}

/// Once faults stop, every request ends.
struct Progress;

impl Progress {
    const NAME: &'static str = PROGRESS;
    const PROMISE: &'static str = "once faults stop, every request ends";
}

impl Oracles for SdpOracles {
    type Event = Event;

    fn promises(&self) -> Vec<(&'static str, &'static str)> {
        let mut requests = Requests::default();
        let bytes = Bytes(&mut requests);
        vec![
            (bytes.name(), bytes.promise()),
            (self.unbroken.name(), self.unbroken.promise()),
            (Progress::NAME, Progress::PROMISE),
        ]
    }

    fn observe(&mut self, event: &Event, broken: &mut dyn FnMut(Violation)) {
        if let What::Asks { to, bytes, reply } = event.what {
            self.requests.made += 1;
            self.requests.open.insert(event.request, Open::new(event.at_ns, to, bytes, reply));
        }
        if let Some(open) = self.requests.open.get_mut(&event.request) {
            open.connected |= event.what == What::Connected;
        }
        if let What::Restarts | What::Crashes = event.what {
            let Requests { restarted, crashed, .. } = &mut self.requests;
            match event.what {
                What::Restarts => *restarted.entry(event.node).or_default() += 1,
                _ => drop(crashed.insert(event.node)),
            }
            let asked = self.requests.open.values_mut().filter(|open| open.to == event.node);
            asked.for_each(|open| open.orphaned |= event.what == What::Restarts);
            return self.requests.dies(event.node);
        }
        self.unbroken.resets = self.requests.may_reset(&event.request);
        self.unbroken.times_out = self.requests.may_time_out(&event.request);
        if event.what == What::Fails(Why::Dropped) {
            self.requests.quitters.insert(event.request.client);
        }
        let first_kept = |open: &Open| self.unbroken.keeps && open.connections == 1;
        let open = self.requests.open.get(&event.request);
        self.unbroken.has_stood = open.is_some_and(|open| open.connected || first_kept(open));
        self.unbroken.is_dropped = self.requests.quitters.contains(&event.request.client);
        let mut bytes = Bytes(&mut self.requests);
        let oracles: [&mut dyn Oracle<Event>; 2] = [&mut bytes, &mut self.unbroken];
        show(event, oracles, broken);
        if matches!(event.what, What::Answered { .. } | What::Fails(_)) {
            self.requests.ends(event.request);
        }
    }

    fn ended(&self) -> u64 {
        self.requests.made - self.unended()
    }

    fn unended(&self) -> u64 {
        self.requests.waiting().count() as u64
    }

    fn oldest(&self) -> Option<Nanos> {
        self.requests.waiting().map(|(_, open)| Nanos(open.since_ns)).min()
    }

    fn finish(&mut self, now: Nanos, healthy: Nanos) -> Vec<Violation> {
        let violation = |(request, open): (&RequestId, &Open)| Violation {
            oracle: Progress::NAME,
            at: now,
            text: format!(
                "{request} sends {} bytes to n{} and does not end since {}; the last fault was over {healthy} ago",
                open.bytes,
                open.to,
                Nanos(open.since_ns)
            ),
        };
        let untaken = |(request, open): (&RequestId, &Open)| Violation {
            oracle: Bytes::NAME,
            at: now,
            text: format!(
                "{request}: its client knows that all {} bytes have arrived {} times, and n{} has read them {} times",
                open.bytes, open.arrived, open.to, open.taken
            ),
        };
        self.requests.waiting().map(violation).chain(self.requests.untaken().map(untaken)).collect()
    }

    fn finish_unharmed(&self) -> Option<Violation> {
        let told = self.unbroken.told.filter(|_| !self.unbroken.moves);
        told.map(|at| Violation {
            oracle: self.unbroken.name(),
            at,
            text: "a user is told of another address, though no link failed and nobody moved a connection"
                .into(),
        })
    }

    fn state(&self, mut to: &mut dyn Hasher) {
        for requests in [&self.requests.open, &self.requests.answered, &self.requests.gone] {
            requests.len().hash(&mut to);
            for (request, open) in requests {
                let Open {
                    to: server, bytes, reply, taken, connections, orphaned, connected, arrived, ..
                } = open;
                (request, server, bytes, reply, taken, connections, orphaned, connected, arrived)
                    .hash(&mut to);
            }
        }
        (&self.requests.restarted, &self.requests.crashed, &self.requests.quitters).hash(&mut to);
        self.unbroken.told.is_some().hash(&mut to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ClientId;
    use crate::oracle;

    /// What happens to a request.
    fn event(what: &What) -> Event {
        let request = RequestId { client: ClientId { node: 0, index: 0 }, number: 0 };
        Event { at_ns: 1, node: 0, request, what: *what }
    }

    fn said(history: &[What]) -> Vec<&'static str> {
        let said = oracle::said(&mut SdpOracles::default(), history.iter().map(event));
        said.iter().map(|violation| violation.oracle).collect()
    }

    const ASKS: What = What::Asks { to: 1, bytes: 100, reply: 9 };
    const TOOK: What = What::Took { bytes: 100, intact: true, stall_ns: 0 };
    const ANSWERED: What = What::Answered { bytes: 9, intact: true, stall_ns: 0 };

    #[test]
    fn what_is_lost_repeated_damaged_surplus_or_answered_too_soon_is_told() {
        let bytes = ["byte stream"];
        assert_eq!(said(&[ASKS, TOOK, ANSWERED]), [""; 0]);
        assert_eq!(said(&[ASKS, What::Took { bytes: 99, intact: true, stall_ns: 0 }, ANSWERED]), bytes);
        assert_eq!(
            said(&[ASKS, What::Took { bytes: 100, intact: false, stall_ns: 0 }, ANSWERED]),
            [bytes[0]; 2]
        );
        assert_eq!(said(&[ASKS, TOOK, TOOK, ANSWERED]), bytes);
        assert_eq!(said(&[ASKS, TOOK, What::Answered { bytes: 10, intact: true, stall_ns: 0 }]), bytes);
        assert_eq!(said(&[ASKS, ANSWERED]), bytes);
        assert_eq!(said(&[ASKS, TOOK, What::Surplus, ANSWERED]), bytes);
    }

    #[test]
    fn a_changed_address_is_an_error_unless_users_want_to_be_told() {
        let moved = [
            ASKS,
            What::Connected,
            TOOK,
            What::Moved { acknowledged: 9 },
            What::Breaks(Why::AddressChanged),
            TOOK,
            ANSWERED,
        ];
        for (mode, expected) in [(FailoverMode::Application, 0), (FailoverMode::Transparent, 2)] {
            let (mut oracles, mut told) = (SdpOracles::of(mode, false, false), 0);
            for what in &moved {
                oracles.observe(&event(what), &mut |_| told += 1);
            }
            assert_eq!(told, expected, "{mode:?}");
        }
    }

    #[test]
    fn a_stream_that_never_stood_has_changed_no_address() {
        let told = |keeps, history: &[What]| {
            let mut oracles = SdpOracles::of(FailoverMode::Application, true, keeps);
            oracle::said(&mut oracles, history.iter().map(event)).len()
        };
        let moved = What::Moved { acknowledged: 0 };
        for (again, of_kept) in
            [(&[moved][..], 0), (&[moved, moved], 1), (&[moved, What::Connected, moved], 0)]
        {
            let history = [&[ASKS], again, &[What::Connected, TOOK, ANSWERED]].concat();
            assert_eq!(told(true, &history), of_kept);
            assert!(told(false, &history) > of_kept, "it was connected for this request alone");
        }
    }

    /// What is said of a stream whose address has changed, in an execution without a fault.
    fn told_of_another_address(moves: bool, history: &[What]) -> Vec<&'static str> {
        let mut oracles = SdpOracles::of(FailoverMode::Application, moves, true);
        let said = oracle::said(&mut oracles, history.iter().map(event));
        said.into_iter().chain(oracles.finish_unharmed()).map(|violation| violation.oracle).collect()
    }

    #[test]
    fn who_is_told_of_another_address_where_no_link_failed_and_nothing_moved_is_told_wrongly() {
        for what in [What::Moved { acknowledged: 0 }, What::Breaks(Why::AddressChanged)] {
            let history = [ASKS, What::Connected, what, What::Connected, TOOK, ANSWERED];
            assert_eq!(told_of_another_address(false, &history), ["unbroken"]);
            assert_eq!(told_of_another_address(true, &history), [""; 0]);
        }
    }

    #[test]
    fn no_more_bytes_have_arrived_than_were_written_and_what_has_arrived_is_read() {
        let told = |acknowledged, taken: &[What]| {
            let moved =
                [ASKS, What::Connected, What::Moved { acknowledged }, What::Connected, TOOK, ANSWERED];
            told_of_another_address(true, &[&moved[..], taken].concat())
        };
        assert_eq!(told(99, &[]), [""; 0]);
        assert_eq!(told(100, &[]), ["byte stream"], "no server has read it");
        assert_eq!(told(100, &[TOOK]), [""; 0], "it was read late");
        assert_eq!(told(101, &[]), ["byte stream"]);
        let kept = [ASKS, What::Moved { acknowledged: 500 }, What::Connected, TOOK, ANSWERED];
        assert_eq!(
            told_of_another_address(true, &kept),
            [""; 0],
            "a stream that was kept has carried others"
        );
    }

    #[test]
    fn a_request_is_taken_once_from_each_connection_even_after_it_was_answered() {
        let moved = What::Moved { acknowledged: 9 };
        for (history, expected) in [
            (vec![ASKS, moved, TOOK, ANSWERED, TOOK], 0),
            (vec![ASKS, moved, TOOK, ANSWERED, TOOK, TOOK], 1),
            (vec![ASKS, TOOK, TOOK, moved, ANSWERED], 1),
            (vec![ASKS, TOOK, ANSWERED, TOOK], 1),
        ] {
            let (mut oracles, mut told) = (SdpOracles::of(FailoverMode::Application, false, true), 0);
            for what in &history {
                oracles.observe(&event(what), &mut |_| told += 1);
            }
            assert_eq!(told, expected, "{history:?}");
        }
    }

    #[test]
    fn a_reset_is_an_error_unless_the_server_or_the_client_has_restarted() {
        let request = RequestId { client: ClientId { node: 0, index: 0 }, number: 0 };
        let told = |node, what| {
            let (mut oracles, mut told) = (SdpOracles::default(), 0);
            for (node, what) in [(0, ASKS), (node, What::Restarts), (0, what)] {
                oracles.observe(&Event { at_ns: 1, node, request, what }, &mut |_| told += 1);
            }
            (told, oracles.unended())
        };
        assert_eq!(told(1, What::Fails(Why::Reset)), (0, 0));
        assert_eq!(told(1, What::Fails(Why::Aborted)), (1, 0));
        assert_eq!(told(2, What::Fails(Why::Reset)), (1, 0));
        assert_eq!(told(0, TOOK), (0, 0), "nobody waits for it any more");
    }

    #[test]
    fn a_connection_that_was_made_after_the_server_restarted_is_not_reset_by_that() {
        let request = RequestId { client: ClientId { node: 0, index: 0 }, number: 0 };
        let told = |history: &[(u32, What)]| {
            let (mut oracles, mut told) = (SdpOracles::default(), 0);
            for &(node, what) in history.iter().chain(&[(0, What::Fails(Why::Reset))]) {
                oracles.observe(&Event { at_ns: 1, node, request, what }, &mut |_| told += 1);
            }
            told
        };
        let (asks, restarts, connected) = ((0, ASKS), (1, What::Restarts), (0, What::Connected));
        assert_eq!(told(&[restarts, asks, connected]), 1);
        assert_eq!(told(&[restarts, asks]), 0, "over a connection that was kept, or amid the making of one");
        assert_eq!(told(&[asks, connected, restarts]), 0);
        assert_eq!(told(&[asks, restarts, connected]), 0, "what was on its way may have come");
        assert_eq!(told(&[restarts, asks, connected, restarts]), 0, "it has restarted once more");
    }

    #[test]
    fn whether_a_request_was_asked_before_its_server_restarted_is_a_difference() {
        use crate::harness::Explored;
        use weft_protocols::rt::fingerprint::StateHasher;
        use weft_sim::explore::AccessKind;

        let request = RequestId { client: ClientId { node: 0, index: 0 }, number: 0 };
        let event = |(node, what)| Event { at_ns: 1, node, request, what };
        let state = |history: [(u32, What); 2]| {
            let (mut oracles, mut state) = (SdpOracles::default(), StateHasher::default());
            history.map(event).iter().for_each(|event| oracles.observe(event, &mut |_| ()));
            oracles.state(&mut state);
            state.whole()
        };
        let (asks, restarts) = ((0, ASKS), (1, What::Restarts));
        assert_ne!(state([asks, restarts]), state([restarts, asks]));
        let access = |what| SdpOracles::access(&event(what));
        assert_eq!([asks, restarts].map(access), [Some(AccessKind::Read), Some(AccessKind::Write)]);
    }

    #[test]
    fn what_is_asked_of_a_server_that_has_restarted_must_end() {
        let request = RequestId { client: ClientId { node: 0, index: 0 }, number: 0 };
        let unended = |history: [(u32, What); 2]| {
            let mut oracles = SdpOracles::default();
            for (node, what) in history {
                oracles.observe(&Event { at_ns: 1, node, request, what }, &mut |_| ());
            }
            oracles.unended()
        };
        assert_eq!(
            unended([(0, ASKS), (1, What::Restarts)]),
            0,
            "who waits for an answer does not learn of it"
        );
        let mut asks = SdpOracles::default().with_keepalive(true);
        for (node, what) in [(0, ASKS), (1, What::Restarts)] {
            asks.observe(&Event { at_ns: 1, node, request, what }, &mut |_| ());
        }
        assert_eq!(asks.unended(), 1, "by keepalive it does");
        assert_eq!(unended([(1, What::Restarts), (0, ASKS)]), 1);
    }

    #[test]
    fn a_time_out_is_an_error_unless_the_server_or_the_client_is_dead_and_a_request_to_the_dead_must_end() {
        let request = RequestId { client: ClientId { node: 0, index: 0 }, number: 0 };
        let told = |dead, at, what| {
            let (mut oracles, mut told) = (SdpOracles::default(), 0);
            for (node, what) in [(0, ASKS), (dead, What::Crashes), (at, what)] {
                oracles.observe(&Event { at_ns: 1, node, request, what }, &mut |_| told += 1);
            }
            (told, oracles.unended())
        };
        assert_eq!(told(1, 0, What::Fails(Why::TimedOut)), (0, 0));
        assert_eq!(told(1, 0, What::Connected), (0, 1), "whose server is dead waits in vain");
        assert_eq!(told(1, 0, What::Fails(Why::Reset)), (1, 0), "nobody was there to reset it");
        assert_eq!(told(2, 0, What::Fails(Why::TimedOut)), (1, 0));
        assert_eq!(told(0, 1, What::Breaks(Why::TimedOut)), (0, 0));
        assert_eq!(told(0, 1, TOOK), (0, 0));
        assert_eq!(told(0, 1, What::Took { bytes: 100, intact: false, stall_ns: 0 }), (1, 0));
    }

    #[test]
    fn an_error_and_a_request_that_never_ends_are_told() {
        assert_eq!(said(&[ASKS, What::Fails(Why::Reset)]), ["unbroken"]);
        assert_eq!(said(&[ASKS, TOOK]), ["progress"]);
    }
}
