//! N-CoSED on a mesh, small: one lock, one word, no recovery. Test-only code, kept to be refuted.

use super::super::client::Locker;
use super::Reading;
use crate::harness::Member;
use std::cell::RefCell;
use std::rc::Rc;
use weft_protocols::locks::Mode;
use weft_protocols::rt::Rt;
use weft_protocols::rt::sync::Signal;
use weft_protocols::transport::{Channel, Inbox, Incoming, Mesh, OpError, Rank};
use weft_sim::Sim;
use weft_verbs::RemoteSlice;

/// The channel of its messages.
pub const CHANNEL: Channel = Channel(1);

/// What nodes say to each other: a kind, and two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Say {
    /// To the old tail: I come after you, and so many who share come between.
    Queue { readers: u32 },
    /// To the tail: I share when you are done.
    Read,
    /// It is yours.
    Grant,
    /// To the home: that one comes next, once so many have released.
    Wait { who: u32, readers: u32 },
    /// To the home: I share no more.
    Release,
    /// To the home: look at the word again.
    Kick,
}

impl Say {
    fn encode(self) -> [u8; 12] {
        let [kind, a, b] = match self {
            Say::Queue { readers } => [0, readers, 0],
            Say::Read => [1, 0, 0],
            Say::Grant => [2, 0, 0],
            Say::Wait { who, readers } => [3, who, readers],
            Say::Release => [4, 0, 0],
            Say::Kick => [5, 0, 0],
        };
        let mut bytes = [0; 12];
        [kind, a, b].iter().zip(bytes.chunks_mut(4)).for_each(|(n, at)| at.copy_from_slice(&n.to_le_bytes()));
        bytes
    }

    fn decode(bytes: &[u8]) -> Say {
        let number = |i: usize| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().expect("4 bytes"));
        match number(0) {
            0 => Say::Queue { readers: number(1) },
            1 => Say::Read,
            2 => Say::Grant,
            3 => Say::Wait { who: number(1), readers: number(2) },
            4 => Say::Release,
            _ => Say::Kick,
        }
    }
}

/// A word `[exclusive | shared]`, the shared half of so many bits.
#[derive(Clone, Copy)]
struct Halves(u32);

impl Halves {
    fn word(self, tail: u32, shared: u64) -> u64 {
        u64::from(tail) << self.0 | shared
    }

    fn tail(self, word: u64) -> u32 {
        (word >> self.0) as u32
    }

    fn shared(self, word: u64) -> u32 {
        (word & ((1 << self.0) - 1)) as u32
    }
}

/// What a node knows of its place among the others.
#[derive(Debug, Default)]
struct Seat {
    granted: bool,
    /// It leaves: whoever arrives to share is granted at once.
    leaving: bool,
    /// Those who share and were sent here, not granted yet; and how many were.
    arrived: Vec<Rank>,
    served: u32,
    /// Who comes next, and how many who share before it.
    successor: Option<(Rank, u32)>,
}

impl Seat {
    /// A new exclusive request: whoever arrives now is behind it.
    fn begin(&mut self) {
        (self.leaving, self.served) = (false, 0);
    }
}

/// What the home knows.
#[derive(Debug, Default)]
struct Home {
    released: u32,
    waiting: Option<(Rank, u32)>,
    resetting: bool,
    kicked: bool,
    /// A reset with fewer releases is pointless.
    worth_trying: u32,
}

/// How many interesting branches were taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// A compare-and-swap found another value than it guessed.
    pub missed: u32,
    /// A holder left before it knew its successor, and found that it has one.
    pub followed_late: u32,
    /// The home was asked to count releases for somebody.
    pub waits: u32,
    /// The home was kicked.
    pub kicks: u32,
    /// The home's reset failed.
    pub resets_failed: u32,
    /// Those who share were sent to an exclusive holder.
    pub redirected: u32,
}

/// One node of the lock. Clones are the same node.
#[derive(Clone)]
pub struct Node {
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    home: Rank,
    word: RemoteSlice,
    halves: Halves,
    reading: Reading,
    seat: Rc<RefCell<Seat>>,
    at_home: Rc<RefCell<Home>>,
    changed: Signal,
    seen: Rc<RefCell<Seen>>,
}

impl Node {
    /// A node of a lock whose word is at `home`; its shared half has so many bits.
    pub fn new(member: &Member, home: Rank, word: RemoteSlice, shared_bits: u32, reading: Reading) -> Node {
        Node {
            rt: member.rt.clone(),
            mesh: member.mesh.clone(),
            home,
            word,
            halves: Halves(shared_bits),
            reading,
            seat: Rc::default(),
            at_home: Rc::default(),
            changed: Signal::new(),
            seen: Rc::default(),
        }
    }

    /// The branches that it has taken.
    pub fn seen(&self) -> Seen {
        *self.seen.borrow()
    }

    /// Says what the lock's word means.
    pub fn word_in_words(&self) -> impl Fn(u64) -> String + use<> {
        let halves = self.halves;
        move |word| match (halves.tail(word).checked_sub(1), halves.shared(word)) {
            (None, 0) => "free".into(),
            (None, shared) => format!("{shared} shared"),
            (Some(tail), 0) => format!("n{tail} last"),
            (Some(tail), shared) => format!("n{tail} last, {shared} shared"),
        }
    }

    /// Whether the node has nothing left of the lock.
    pub fn is_clean(&self) -> bool {
        let (seat, home) = (self.seat.borrow(), self.at_home.borrow());
        seat.arrived.is_empty() && seat.successor.is_none() && home.released == 0 && home.waiting.is_none()
    }

    fn me(&self) -> u32 {
        self.mesh.me().get()
    }

    fn say(&self, to: Rank, what: Say) {
        self.mesh.send(to, CHANNEL, &what.encode()).expect("a small world has room");
    }

    fn count(&self, add: impl FnOnce(&mut Seen)) {
        add(&mut self.seen.borrow_mut());
    }

    // Atomics.

    async fn compare_swap(&self, compare: u64, swap: u64) -> u64 {
        let was = loop {
            match self.mesh.compare_swap(self.home, self.word, compare, swap).await {
                Ok(was) => break was,
                Err(why) => self.again(why).await,
            }
        };
        self.count(|seen| seen.missed += u32::from(was != compare));
        was
    }

    async fn fetch_add(&self, add: u64) -> u64 {
        loop {
            match self.mesh.fetch_add(self.home, self.word, add).await {
                Ok(was) => return was,
                Err(why) => self.again(why).await,
            }
        }
    }

    /// What to do about an atomic that failed: the same once more, or nothing any more.
    async fn again(&self, why: OpError) {
        if self.reading != Reading::ResendsAtomics && matches!(why, OpError::Unknown(_)) {
            std::future::pending::<()>().await;
        }
    }

    // Taking it.

    async fn lock_exclusive(&self) {
        self.seat.borrow_mut().begin();
        let mine = self.halves.word(self.me(), 0);
        let mut seen = 0;
        loop {
            let was = self.compare_swap(seen, mine).await;
            if was == seen {
                break;
            }
            if self.reading == Reading::ZeroTailHoldsUnswapped && self.halves.tail(was) == 0 {
                return;
            }
            seen = was;
        }
        let readers = self.halves.shared(seen);
        match Rank::new(self.halves.tail(seen)) {
            None if readers == 0 || self.reading == Reading::ZeroTailHolds => return,
            None => self.say(self.home, Say::Wait { who: self.me(), readers }),
            Some(tail) => self.say(tail, Say::Queue { readers }),
        }
        self.until_granted().await;
    }

    async fn lock_shared(&self) {
        let was = self.fetch_add(1).await;
        if let Some(tail) = Rank::new(self.halves.tail(was)) {
            self.count(|seen| seen.redirected += 1);
            self.say(tail, Say::Read);
            self.until_granted().await;
        }
    }

    async fn until_granted(&self) {
        self.changed.until(|| self.seat.borrow().granted).await;
        self.seat.borrow_mut().granted = false;
    }

    // Giving it back.

    async fn unlock_exclusive(&self) {
        self.seat.borrow_mut().leaving = true;
        self.grant_arrived();
        self.leave().await;
    }

    async fn leave(&self) {
        let mut shared = self.seat.borrow().served;
        loop {
            let successor = self.seat.borrow_mut().successor.take();
            if let Some((next, readers)) = successor {
                return self.pass_to(next, readers).await;
            }
            if self.reading == Reading::ResetsByWrite {
                return self.mesh.write(self.home, self.word, &[0; 8]).await.expect("no faults here");
            }
            let seen = self.halves.word(self.me(), u64::from(shared));
            let left = if self.reading == Reading::ResetsBoth { 0 } else { u64::from(shared) };
            let was = self.compare_swap(seen, self.halves.word(0, left)).await;
            if was == seen || self.reading == Reading::IgnoresFailedReset {
                break;
            }
            if self.halves.tail(was) == self.me() {
                shared = self.halves.shared(was);
            } else {
                self.count(|seen| seen.followed_late += 1);
                self.changed.until(|| self.seat.borrow().successor.is_some()).await;
            }
        }
        if shared > 0 {
            if self.reading != Reading::NoKick {
                self.say(self.home, Say::Kick);
            }
            self.until_served(shared).await;
        }
    }

    async fn pass_to(&self, next: Rank, readers: u32) {
        if self.reading == Reading::SuccessorFirst {
            return self.say(next, Say::Grant);
        }
        self.until_served(readers).await;
        match readers {
            0 => self.say(next, Say::Grant),
            readers => self.say(self.home, Say::Wait { who: next.get(), readers }),
        }
    }

    async fn until_served(&self, readers: u32) {
        if self.reading != Reading::AsksTooSoon {
            self.changed.until(|| self.seat.borrow().served >= readers).await;
        }
    }

    fn grant_arrived(&self) {
        let arrived = std::mem::take(&mut self.seat.borrow_mut().arrived);
        self.seat.borrow_mut().served += arrived.len() as u32;
        arrived.into_iter().for_each(|reader| self.say(reader, Say::Grant));
    }

    // Hearing.

    /// Takes in what the others say, until the mesh is closed.
    pub async fn hear(self, mut inbox: Inbox) {
        while let Some(Incoming::Message(message)) = inbox.recv().await {
            self.heard(message.from(), Say::decode(&message));
        }
    }

    fn heard(&self, from: Rank, what: Say) {
        match what {
            Say::Grant => self.seat.borrow_mut().granted = true,
            Say::Queue { readers } => self.seat.borrow_mut().successor = Some((from, readers)),
            Say::Read => {
                self.seat.borrow_mut().arrived.push(from);
                if self.seat.borrow().leaving {
                    self.grant_arrived();
                }
            }
            Say::Release => self.at_home.borrow_mut().released += 1,
            Say::Wait { who, readers } => {
                self.count(|seen| seen.waits += 1);
                self.at_home.borrow_mut().waiting = Rank::new(who).map(|who| (who, readers));
            }
            Say::Kick => {
                self.count(|seen| seen.kicks += 1);
                let mut home = self.at_home.borrow_mut();
                home.worth_trying = 0;
                home.kicked = home.resetting && self.reading != Reading::ForgetsKick;
            }
        }
        self.changed.notify();
        self.serve();
    }

    // The home's part: it counts releases for whoever waits for them, and resets the shared half.

    fn serve(&self) {
        let mut home = self.at_home.borrow_mut();
        if home.resetting && self.reading != Reading::ServesWhileResetting {
            return;
        }
        match home.waiting {
            Some((_, readers)) if home.released < readers => {}
            Some((who, readers)) => {
                home.released -= readers;
                (home.waiting, home.worth_trying) = (None, 0);
                self.say(who, Say::Grant);
            }
            None if !home.resetting && home.released > 0 && home.released >= home.worth_trying => {
                home.resetting = true;
                self.rt.spawn(self.clone().reset(home.released));
            }
            None => {}
        }
    }

    async fn reset(self, releases: u32) {
        let failed = match self.reading {
            Reading::HomeResetsBlindly => {
                let mut seen = u64::from(releases);
                loop {
                    let was = self.compare_swap(seen, self.halves.word(self.halves.tail(seen), 0)).await;
                    if was == seen {
                        break None;
                    }
                    seen = was;
                }
            }
            Reading::HomeSubtracts => {
                self.fetch_add(u64::from(releases).wrapping_neg()).await;
                None
            }
            _ => {
                let seen = u64::from(releases);
                let was = self.compare_swap(seen, 0).await;
                (was != seen).then_some(was)
            }
        };
        let mut home = self.at_home.borrow_mut();
        home.resetting = false;
        let kicked = std::mem::take(&mut home.kicked);
        home.worth_trying = match failed {
            None => {
                home.released = home.released.saturating_sub(releases);
                0
            }
            Some(_) if kicked => 0,
            Some(was) if self.halves.tail(was) == 0 => self.halves.shared(was),
            // Whoever released was sent to an exclusive holder, which kicks when it leaves, or is before one.
            Some(_) => u32::MAX,
        };
        drop(home);
        self.count(|seen| seen.resets_failed += u32::from(failed.is_some()));
        self.serve();
    }
}

impl Locker for Node {
    type Held = Mode;

    async fn lock(&self, mode: Mode) -> Mode {
        match mode {
            Mode::Exclusive => self.lock_exclusive().await,
            Mode::Shared => self.lock_shared().await,
        }
        mode
    }

    async fn unlock(&self, mode: Mode) {
        match mode {
            Mode::Exclusive => self.unlock_exclusive().await,
            Mode::Shared => self.say(self.home, Say::Release),
        }
    }
}
