//! Streams on a network that loses, doubles and reorders.

use super::*;
use crate::choice::{Choice, Seeded};

const SETTINGS: Settings = Settings { segment: 100, timeout: Nanos(1_000), retries: 7 };
const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);
const SERVICE: Service = Service(9);

struct Net {
    now: Nanos,
    streams: Streams,
    flying: Vec<Segment>,
    ready: Vec<(EndId, Ready)>,
    timers: BTreeMap<EndId, Nanos>,
}

impl Net {
    fn new() -> Net {
        let streams = Streams::new(SETTINGS);
        Net { now: Nanos::ZERO, streams, flying: vec![], ready: vec![], timers: BTreeMap::new() }
    }

    fn act<T>(&mut self, call: impl FnOnce(&mut Streams, Nanos, &mut Actions) -> T) -> T {
        let mut out = Actions::default();
        let answer = call(&mut self.streams, self.now, &mut out);
        self.flying.append(&mut out.segments);
        self.ready.append(&mut out.ready);
        for id in out.timers {
            if let Some(at) = self.streams.timer_to_set(id) {
                self.timers.insert(id, at);
            }
        }
        answer
    }

    fn deliver(&mut self, index: usize) {
        let segment = self.flying.remove(index);
        self.act(|streams, now, out| streams.on_segment(now, segment, out));
    }

    fn settle(&mut self) {
        while !self.flying.is_empty() {
            self.deliver(0);
        }
    }

    /// Lets the earliest timer fire.
    fn tick(&mut self) -> bool {
        let Some((id, at)) = self.timers.iter().map(|(id, at)| (*id, *at)).min_by_key(|(_, at)| *at) else {
            return false;
        };
        self.timers.remove(&id);
        self.now = self.now.max(at);
        self.act(|streams, now, out| streams.on_timer(now, id, out));
        true
    }

    fn write(&mut self, id: EndId, bytes: &[u8]) -> io::Result<Option<usize>> {
        self.act(|streams, now, out| streams.write(now, id, bytes, out))
    }

    fn read(&mut self, id: EndId) -> io::Result<Option<Vec<u8>>> {
        let mut into = [0; 64];
        let n = self.act(|streams, _, out| streams.read(id, &mut into, out))?;
        Ok(n.map(|n| into[..n].to_vec()))
    }

    fn close(&mut self, id: EndId) {
        self.act(|streams, now, out| streams.close(now, id, out));
    }

    /// A stream that stands: its asking and its accepting end.
    fn joined() -> (Net, EndId, EndId) {
        let mut net = Net::new();
        let listener = net.streams.listen(B, SERVICE).unwrap();
        let a = net.act(|streams, now, out| streams.connect(now, (A, B), SERVICE, out));
        net.settle();
        let b = net.streams.accept(listener).unwrap().expect("a stream to accept");
        net.act(|streams, _, out| streams.close_listener(listener, out));
        (net, a, b)
    }
}

/// Whatever happens to segments, a reader sees a prefix of what was written; and all of it, and the end, once they
/// arrive again.
#[test]
fn bytes_come_in_order_once_whatever_happens_to_segments() {
    for seed in 0..300 {
        let mut dice = Seeded::new(seed);
        let (mut net, a, b) = Net::joined();
        let mut sent: [Vec<u8>; 2] = Default::default();
        let mut seen: [Vec<u8>; 2] = Default::default();
        for _ in 0..400 {
            let way = dice.pick("way", 2) as usize;
            let (from, to) = if way == 0 { (a, b) } else { (b, a) };
            let flying = net.flying.len() as u64;
            match dice.pick("what", 12) {
                0..=2 => {
                    let n = dice.pick("bytes", 400) as usize;
                    let bytes: Vec<u8> = (0..n).map(|i| (sent[way].len() + i) as u8).collect();
                    let n = net.write(from, &bytes).unwrap().unwrap_or(0);
                    sent[way].extend_from_slice(&bytes[..n]);
                }
                3..=5 => seen[way].extend(net.read(to).unwrap().unwrap_or_default()),
                6..=8 if flying > 0 => net.deliver(dice.pick("which", flying) as usize),
                9 if flying > 0 => drop(net.flying.remove(dice.pick("which", flying) as usize)),
                10 if flying > 0 => {
                    let copy = net.flying[dice.pick("which", flying) as usize].clone();
                    net.flying.push(copy);
                }
                11 => {
                    // Fewer than would use up the retries of a stream that nothing reaches.
                    net.settle();
                    net.tick();
                }
                _ => {}
            }
            for way in 0..2 {
                assert!(sent[way].starts_with(&seen[way]), "seed {seed}");
            }
        }
        for id in [a, b] {
            net.act(|streams, now, out| streams.shutdown(now, id, out)).unwrap();
        }
        let mut ended = [false; 2];
        while ended != [true; 2] {
            net.settle();
            for (way, to) in [b, a].into_iter().enumerate() {
                match net.read(to).unwrap() {
                    Some(bytes) if bytes.is_empty() => ended[way] = true,
                    Some(bytes) => seen[way].extend(bytes),
                    None => {}
                }
            }
            net.tick();
        }
        assert!(sent == seen, "seed {seed}");
        net.close(a);
        net.close(b);
        net.settle();
        assert_eq!((net.streams.alive(A), net.streams.alive(B)), (0, 0), "seed {seed}: nothing is left");
        assert!(net.streams.answered.is_empty(), "seed {seed}: nobody is remembered");
    }
}

#[test]
fn a_request_that_nothing_answers_fails_after_its_retries() {
    let mut net = Net::new();
    let a = net.act(|streams, now, out| streams.connect(now, (A, B), SERVICE, out));
    let mut asked = 0;
    loop {
        asked += net.flying.drain(..).count();
        if !net.tick() {
            break;
        }
    }
    assert_eq!(asked, 8, "once, and seven times more");
    assert_eq!(net.now, Nanos(1_000 * 255), "each time-out twice the one before");
    assert_eq!(net.write(a, b"x").unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_closed_window_is_asked_about_for_ever() {
    let (mut net, a, b) = Net::joined();
    while net.write(a, &[7; 1_000]).unwrap().is_some() {
        net.settle();
    }
    for _ in 0..100 {
        assert!(net.tick(), "a timer runs");
        net.settle();
    }
    let mut seen = 0;
    // The news of the room is lost each time.
    while let Some(bytes) = net.read(b).unwrap() {
        seen += bytes.len();
        net.flying.clear();
    }
    assert_eq!(seen, end::ROOM);
    net.tick();
    net.settle();
    assert!(net.read(b).unwrap().is_some(), "what waited for room came");
    assert!(net.write(a, b"more").unwrap().is_some());
}

#[test]
fn a_machine_that_crashed_resets_when_it_is_there_again() {
    let (mut net, a, b) = Net::joined();
    net.streams.crash(B);
    assert_eq!(net.read(b).unwrap_err().kind(), io::ErrorKind::NotConnected);
    assert_eq!(net.read(a).unwrap(), None, "nobody tells");
    net.write(a, b"anybody?").unwrap();
    net.settle();
    assert_eq!(net.read(a).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn an_attempt_that_was_dropped_leaves_nothing_at_the_peer() {
    let mut net = Net::new();
    let listener = net.streams.listen(B, SERVICE).unwrap();
    let a = net.act(|streams, now, out| streams.connect(now, (A, B), SERVICE, out));
    net.close(a);
    net.settle();
    let b = net.streams.accept(listener).unwrap().expect("it was asked for");
    assert_eq!(net.read(b).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn a_request_that_comes_twice_opens_one_stream() {
    let mut net = Net::new();
    let listener = net.streams.listen(B, SERVICE).unwrap();
    net.act(|streams, now, out| streams.connect(now, (A, B), SERVICE, out));
    let copy = net.flying[0].clone();
    net.flying.push(copy);
    net.settle();
    assert!(net.streams.accept(listener).unwrap().is_some());
    assert!(net.streams.accept(listener).unwrap().is_none());
}

#[test]
fn a_listener_that_nobody_empties_takes_no_more() {
    let mut net = Net::new();
    net.streams.listen(B, SERVICE).unwrap();
    for _ in 0..BACKLOG + 5 {
        net.act(|streams, now, out| streams.connect(now, (A, B), SERVICE, out));
    }
    net.settle();
    assert_eq!(net.streams.alive(B) as usize, BACKLOG + 1, "those, and the listener");
}
