//! The Ethernet between the machines: a switch in this process.
//!
//! QEMU sends and takes frames over a stream, each with its length before it (4 bytes, big-endian). One thread reads
//! from each card; one thread switches, holds frames back that are delayed, and writes.

use crate::control::Rule;
use crate::faults::{RuleId, Rules, Verdict};
use crate::frame::{self, Nic, To};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Largest frame that is taken: jumbo frames and their headers.
const MAX_FRAME: u32 = 64 * 1024;

enum Message {
    /// A card was plugged in.
    Card(Nic, TcpStream),
    Frame(Nic, Vec<u8>),
    Stop,
}

/// The switch. Dropping it unplugs all cards.
pub struct Hub {
    ports: Vec<u16>,
    rules: Arc<Mutex<Rules>>,
    orders: Sender<Message>,
}

/// A frame that waits: when it is due, and which came first.
type Waiting = Reverse<(Instant, u64, Nic, Vec<u8>)>;

impl Hub {
    /// A switch for so many cards.
    pub fn start(cards: usize) -> io::Result<Hub> {
        let (orders, messages) = mpsc::channel();
        let mut ports = Vec::new();
        for nic in 0..cards {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            ports.push(listener.local_addr()?.port());
            let orders = orders.clone();
            thread::spawn(move || take_card(nic, &listener, &orders));
        }
        let rules = Arc::new(Mutex::new(Rules::default()));
        let mut switch =
            Switch { cards: (0..cards).map(|_| None).collect(), rules: Arc::clone(&rules), ..Switch::new() };
        thread::spawn(move || switch.run(&messages));
        Ok(Hub { ports, rules, orders })
    }

    /// The port of the loopback address at which a card is plugged in.
    pub fn port(&self, nic: Nic) -> u16 {
        self.ports[nic]
    }

    /// The rules in force.
    pub fn rules(&self) -> Arc<Mutex<Rules>> {
        Arc::clone(&self.rules)
    }

    /// Puts a rule in force.
    pub fn push(&self, rule: Rule) -> RuleId {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).push(rule)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.orders.send(Message::Stop);
    }
}

/// Waits for a card and reads its frames; and for the next one there, when its machine is booted again.
fn take_card(nic: Nic, listener: &TcpListener, orders: &Sender<Message>) {
    while let Ok((stream, _)) = listener.accept() {
        let _ = stream.set_nodelay(true);
        let Ok(writer) = stream.try_clone() else { return };
        if orders.send(Message::Card(nic, writer)).is_err() {
            return;
        }
        let mut reader = io::BufReader::with_capacity(1 << 17, stream);
        while let Ok(frame) = read_frame(&mut reader) {
            if orders.send(Message::Frame(nic, frame)).is_err() {
                return;
            }
        }
    }
}

fn read_frame(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > MAX_FRAME {
        return Err(io::Error::other("a frame that is too long"));
    }
    let mut frame = vec![0; length as usize];
    from.read_exact(&mut frame)?;
    Ok(frame)
}

struct Switch {
    cards: Vec<Option<TcpStream>>,
    rules: Arc<Mutex<Rules>>,
    waiting: BinaryHeap<Waiting>,
    made: u64,
}

impl Switch {
    fn new() -> Switch {
        Switch { cards: Vec::new(), rules: Arc::default(), waiting: BinaryHeap::new(), made: 0 }
    }

    fn run(&mut self, messages: &Receiver<Message>) {
        loop {
            let message = match self.waiting.peek() {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(Reverse((due, ..))) => {
                    messages.recv_timeout(due.saturating_duration_since(Instant::now()))
                }
            };
            match message {
                Ok(Message::Card(nic, stream)) => self.cards[nic] = Some(stream),
                Ok(Message::Frame(from, frame)) => self.switch(from, &frame),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.deliver_due();
        }
    }

    fn switch(&mut self, from: Nic, frame: &[u8]) {
        let others = match frame::receiver(frame) {
            Some(To::One(nic)) => nic..nic + 1,
            Some(To::All) => 0..self.cards.len(),
            None => return,
        };
        for to in others.filter(|to| *to != from) {
            let class = frame::class(frame);
            let verdict = self.rules.lock().unwrap_or_else(PoisonError::into_inner).judge(from, to, class);
            match verdict {
                Verdict::Pass => self.deliver(to, frame),
                Verdict::Drop => {}
                Verdict::Duplicate => {
                    self.deliver(to, frame);
                    self.deliver(to, frame);
                }
                Verdict::Delay(late) => {
                    self.made += 1;
                    self.waiting.push(Reverse((Instant::now() + late, self.made, to, frame.to_vec())));
                }
            }
        }
    }

    fn deliver_due(&mut self) {
        while self.waiting.peek().is_some_and(|Reverse((due, ..))| *due <= Instant::now()) {
            if let Some(Reverse((_, _, to, frame))) = self.waiting.pop() {
                self.deliver(to, &frame);
            }
        }
    }

    /// A card that is gone takes nothing.
    fn deliver(&mut self, to: Nic, frame: &[u8]) {
        let Some(card) = self.cards.get_mut(to) else { return };
        let Some(stream) = card else { return };
        let mut bytes = Vec::with_capacity(4 + frame.len());
        bytes.extend((frame.len() as u32).to_be_bytes());
        bytes.extend(frame);
        if stream.write_all(&bytes).is_err() {
            *card = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Act, Way};
    use std::time::Duration;

    fn plug(hub: &Hub, nic: Nic) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, hub.port(nic))).expect("the hub listens");
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a time-out");
        stream
    }

    fn frame(to: Nic, text: &[u8]) -> Vec<u8> {
        let mut frame = [frame::mac(to), frame::mac(9)].concat();
        frame.extend([0x88, 0xb5]);
        frame.extend(text);
        frame
    }

    fn send(stream: &mut TcpStream, frame: &[u8]) {
        stream.write_all(&(frame.len() as u32).to_be_bytes()).expect("sent");
        stream.write_all(frame).expect("sent");
    }

    /// Two cards that the hub has both seen.
    fn two(hub: &Hub) -> (TcpStream, TcpStream) {
        let (mut a, mut b) = (plug(hub, 0), plug(hub, 1));
        for _ in 0..50 {
            send(&mut a, &frame(1, b"hello"));
            if read_frame(&mut b).is_ok() {
                while read_frame(&mut b).is_ok() {}
                return (a, b);
            }
        }
        panic!("the hub never switched a frame");
    }

    #[test]
    fn frames_go_to_their_receiver_and_to_nobody_else() {
        let hub = Hub::start(3).expect("ports");
        let (mut a, mut b) = two(&hub);
        let mut c = plug(&hub, 2);
        send(&mut a, &frame(1, b"one"));
        assert_eq!(read_frame(&mut b).expect("a frame"), frame(1, b"one"));
        assert!(read_frame(&mut c).is_err() && read_frame(&mut a).is_err());
    }

    #[test]
    fn a_cut_link_carries_nothing_and_a_healed_one_does() {
        let hub = Hub::start(2).expect("ports");
        let (mut a, mut b) = two(&hub);
        let cut = hub.push(Rule::cut(0, 1));
        send(&mut a, &frame(1, b"lost"));
        assert!(read_frame(&mut b).is_err());
        hub.rules().lock().expect("no panic").remove(cut);
        send(&mut a, &frame(1, b"found"));
        assert_eq!(read_frame(&mut b).expect("a frame"), frame(1, b"found"));
        assert_eq!(hub.rules().lock().expect("no panic").struck(cut), 1);
    }

    #[test]
    fn a_delayed_frame_is_overtaken() {
        let hub = Hub::start(2).expect("ports");
        let (mut a, mut b) = two(&hub);
        let (way, class) = (Way::There, None);
        let (skip, count, ppm, seed) = (0, 1, 1_000_000, 0);
        hub.push(Rule { from: 0, to: 1, way, class, skip, count, ppm, seed, act: Act::Delay(50_000_000) });
        send(&mut a, &frame(1, b"first"));
        send(&mut a, &frame(1, b"second"));
        let seen = [(); 2].map(|()| read_frame(&mut b).expect("a frame"));
        assert_eq!(seen, [frame(1, b"second"), frame(1, b"first")]);
    }
}
