//! The session's promises, under connections that break at any point.

use super::*;
use proptest::prelude::*;

/// One end with what a connection would hold for it.
struct End {
    session: Session<u64>,
    /// Frames on their way to this end.
    wire: VecDeque<(Header, u64)>,
    /// Buffers that this end has posted and that no frame has filled.
    posted: u32,
    delivered: Vec<u64>,
    pushed: u64,
}

impl End {
    fn new(buffers: u32) -> End {
        let session = Session::new(buffers);
        End { session, wire: VecDeque::new(), posted: 0, delivered: Vec::new(), pushed: 0 }
    }
}

struct Pair {
    ends: [End; 2],
}

impl Pair {
    fn new(buffers: [u32; 2]) -> Pair {
        Pair { ends: buffers.map(End::new) }
    }

    fn connect(&mut self) {
        let [a, b] = &self.ends;
        let positions = [b.session.received(), a.session.received()];
        let buffers = [b.session.buffers, a.session.buffers];
        for (i, end) in self.ends.iter_mut().enumerate() {
            assert!(end.session.connected(positions[i], buffers[i]));
            end.posted = end.session.buffers;
            end.wire.clear();
        }
    }

    /// The connection breaks. Each end has received some of what was under way, and loses the rest.
    fn cut(&mut self, drained: [usize; 2]) {
        for (i, count) in drained.into_iter().enumerate() {
            for _ in 0..count {
                self.arrive(i, false);
            }
            self.ends[i].session.disconnected();
        }
    }

    fn push(&mut self, from: usize) {
        let end = &mut self.ends[from];
        end.pushed += 1;
        end.session.push(end.pushed);
    }

    fn put(&mut self, to: usize, header: Header, message: u64) {
        let end = &mut self.ends[to];
        assert!(end.posted as usize > end.wire.len(), "a receiver would not be ready");
        end.wire.push_back((header, message));
    }

    fn pump(&mut self, from: usize) {
        loop {
            let session = &mut self.ends[from].session;
            let frame = match session.next_message() {
                Some((header, message)) => Some((header, *message)),
                None => session.credit_return().map(|header| (header, 0)),
            };
            let Some((header, message)) = frame else { return };
            self.put(1 - from, header, message);
        }
    }

    fn late_ack(&mut self, from: usize) {
        if let Some(header) = self.ends[from].session.late_ack() {
            self.put(1 - from, header, 0);
        }
    }

    fn arrive(&mut self, at: usize, repost: bool) {
        let end = &mut self.ends[at];
        let Some((header, message)) = end.wire.pop_front() else { return };
        end.posted -= 1;
        match end.session.on_frame(header) {
            Received::Deliver => end.delivered.push(message),
            Received::Violation => panic!("an honest peer was accused"),
            Received::Duplicate | Received::Control => {}
        }
        if repost {
            end.posted += 1;
            end.session.reposted();
        }
    }

    fn quiesce(&mut self) {
        for _ in 0..10_000 {
            self.pump(0);
            self.pump(1);
            if self.ends.iter().all(|e| e.wire.is_empty()) {
                return;
            }
            self.arrive(0, true);
            self.arrive(1, true);
        }
        panic!("frames travel for ever");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Pump(usize),
    Arrive(usize),
    Ack(usize),
    Cut([usize; 2]),
    Connect,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0usize..2).prop_map(Step::Push),
        6 => (0usize..2).prop_map(Step::Pump),
        12 => (0usize..2).prop_map(Step::Arrive),
        1 => (0usize..2).prop_map(Step::Ack),
        1 => [0usize..20, 0usize..20].prop_map(Step::Cut),
        2 => Just(Step::Connect),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_arrives_once_and_in_order_wherever_the_connection_breaks(
        buffers in [MIN_BUFFERS..20, MIN_BUFFERS..20],
        steps in steps(),
    ) {
        let mut pair = Pair::new(buffers);
        let mut up = false;
        for step in steps {
            match step {
                Step::Push(from) => pair.push(from),
                Step::Pump(from) if up => pair.pump(from),
                Step::Arrive(at) if up => pair.arrive(at, true),
                Step::Ack(from) if up => pair.late_ack(from),
                Step::Cut(drained) if up => {
                    pair.cut(drained);
                    up = false;
                }
                Step::Connect if !up => {
                    pair.connect();
                    up = true;
                }
                _ => {}
            }
        }
        if !up {
            pair.connect();
        }
        pair.quiesce();
        for from in 0..2 {
            let sent: Vec<u64> = (1..=pair.ends[from].pushed).collect();
            prop_assert_eq!(&pair.ends[1 - from].delivered, &sent);
            // Quiet, and nothing is held up for want of credit.
            prop_assert!(!pair.ends[from].session.has_unsent());
        }
        // The last acknowledgements were not due by themselves; a timer brings them.
        pair.late_ack(0);
        pair.late_ack(1);
        pair.quiesce();
        for end in &pair.ends {
            prop_assert_eq!(end.session.kept(), 0);
            prop_assert!(!end.session.owes_ack());
        }
    }

    /// Both sides talk at once and look at what arrived as late as possible.
    #[test]
    fn credits_do_not_deadlock_when_floods_cross(
        buffers in [MIN_BUFFERS..20, MIN_BUFFERS..20],
        bursts in prop::collection::vec((0usize..2, 1usize..40), 1..60),
    ) {
        let mut pair = Pair::new(buffers);
        pair.connect();
        for _ in 0..200 {
            pair.push(0);
            pair.push(1);
        }
        for (at, count) in bursts {
            pair.pump(0);
            pair.pump(1);
            for _ in 0..count {
                pair.arrive(at, true);
            }
        }
        pair.quiesce();
        prop_assert_eq!(pair.ends[0].delivered.len(), 200);
        prop_assert_eq!(pair.ends[1].delivered.len(), 200);
    }
}

#[test]
fn a_message_is_kept_until_the_peers_session_acknowledges_it() {
    let mut pair = Pair::new([8, 8]);
    pair.connect();
    pair.push(0);
    pair.pump(0);
    pair.arrive(1, true);
    assert_eq!(pair.ends[0].session.kept(), 1, "arrival is not acknowledgement");
    pair.late_ack(1);
    pair.arrive(0, true);
    assert_eq!(pair.ends[0].session.kept(), 0);
}

#[test]
fn a_message_received_before_the_cut_is_not_repeated() {
    let mut pair = Pair::new([8, 8]);
    pair.connect();
    pair.push(0);
    pair.push(0);
    pair.pump(0);
    pair.cut([0, 1]);
    pair.connect();
    pair.pump(0);
    assert_eq!(pair.ends[1].wire.len(), 1);
    pair.quiesce();
    assert_eq!(pair.ends[1].delivered, [1, 2]);
}

#[test]
fn a_repeated_frame_is_dropped_and_a_gap_is_refused() {
    let mut session = Session::<u64>::new(8);
    assert!(session.connected(0, 8));
    let frame = |seq| Header { seq, ack: 0, grant: 8, ..Header::default() };
    assert_eq!(session.on_frame(frame(1)), Received::Deliver);
    assert_eq!(session.on_frame(frame(1)), Received::Duplicate);
    assert_eq!(session.on_frame(frame(3)), Received::Violation);
    assert_eq!(session.received(), 1);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_refused() {
    let mut session = Session::new(8);
    assert!(session.connected(0, 8));
    session.push(1u64);
    assert_eq!(
        session.on_frame(Header { seq: 0, ack: 1, grant: 8, ..Header::default() }),
        Received::Violation
    );
    assert_eq!(session.kept(), 1);
    assert!(!session.connected(2, 8), "nor is such a position at a reconnection");
}

#[test]
fn the_last_credits_are_for_returning_credits() {
    let mut session = Session::new(8);
    assert!(session.connected(0, 8));
    (0..10u64).for_each(|m| session.push(m));
    let mut sent = 0;
    while session.next_message().is_some() {
        sent += 1;
    }
    assert_eq!(sent, 8 - RESERVE);
    assert_eq!(session.credit_return(), None, "nothing is owed");
    for seq in 1..=4 {
        session.on_frame(Header { seq, ack: 0, grant: 8, ..Header::default() });
        session.reposted();
    }
    assert_eq!(session.late_ack(), None, "an acknowledgement may not use the reserve");
    assert_eq!(session.credit_return(), Some(Header { seq: 0, ack: 4, grant: 12, ..Header::default() }));
}

#[test]
fn a_reset_hands_back_what_was_not_acknowledged_and_begins_at_one() {
    let mut session = Session::new(8);
    assert!(session.connected(0, 8));
    (0..3u64).for_each(|m| session.push(m));
    session.next_message();
    session.on_frame(Header { seq: 1, ack: 1, grant: 8, ..Header::default() });
    assert_eq!(session.reset(), [1, 2]);
    assert_eq!(session.received(), 0);
    assert!(session.connected(0, 8));
    session.push(9);
    assert_eq!(session.next_message().map(|(h, m)| (h.seq, *m)), Some((1, 9)));
}
