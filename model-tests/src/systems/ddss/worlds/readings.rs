//! Readings of the paper and bugs that were planted, as clients over the transport's one-sided operations: each must be refuted.
//!
//! A segment is a header as the shipped one, a lock in a word of its own, as the paper has it, and slots of one short value.

use super::super::history::{Event, Value, What, Why};
use super::{NAME, Publishing};
use crate::harness::{Nodes, RecorderOf, Requests};
use crate::history::{ClientId, RequestId};
use crate::record::Record;
use weft_protocols::ddss::{Header, Model, Name};
use weft_protocols::rt::{BufferGuard, BufferPool, Label};
use weft_protocols::transport::{Mesh, OpError, Rank};
use weft_sim::Sim;
use weft_verbs::{AccessFlags, MemoryRegion, RemoteSlice, SendOp, Verbs};

/// What is done otherwise than it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Values are put in place, and a fetch-and-add on the version stands behind that; a get reads the version, then the value (a
    /// reading of ddss.txt, 5.3: a fetch-and-add updates the version for every put).
    InPlace,
    /// The header is swapped before the slot is written.
    PublishFirst,
    /// A get does not look at the header again.
    OneLook,
    /// A get reads the value first, and the header only then.
    VersionLast,
    /// All nodes write the same two slots.
    SharedSlots,
    /// Who did not get the lock gives it back all the same, by a write.
    BlindUnlock,
    /// A put in place stands behind the swap of the lock in one list, whatever the swap finds.
    BehindSwap,
    /// A get under read takes the lock, reads and gives the lock back in one list, and does not look at the header behind the value: a lost
    /// answer has the adapter read once more when the lock is another's.
    ReleasedBehind,
    /// A put whose answer was lost is made again whenever its header is not there, though others may have superseded it.
    PutAgain,
    /// Another segment has the memory at once when this one is released, while a get may be under way.
    Reused,
    /// When a neighbour is released, free memory becomes one with this segment's, which is in use, and another segment has it.
    Coalesced,
}

impl Reading {
    /// Who judges it.
    pub fn model(self) -> Model {
        match self {
            Reading::InPlace => Model::Version,
            Reading::ReleasedBehind => Model::Read,
            _ => Model::Strict,
        }
    }
}

/// The segment that has the memory next.
const NEXT: Name = Name(1);
/// The segment in front of it.
const NEIGHBOUR: Name = Name(2);

const LOCK: u32 = 8;
const SLOTS: u32 = 16;
const MOST_SLOTS: u32 = 9;

/// A node's view of the segment.
#[derive(Clone)]
struct Segment {
    reading: Reading,
    home: Rank,
    at: RemoteSlice,
    /// Keeps it where it is.
    _memory: <Sim as Verbs>::Mr,
}

type Done<T> = Result<T, OpError>;

impl Segment {
    fn new(reading: Reading, home: &Mesh<Sim>) -> Segment {
        let access = AccessFlags::LOCAL_WRITE
            .union(AccessFlags::REMOTE_READ)
            .union(AccessFlags::REMOTE_WRITE)
            .union(AccessFlags::REMOTE_ATOMIC);
        let len = (SLOTS + MOST_SLOTS * Value::SHORTEST) as usize;
        let memory = home.alloc(len, access).expect("a few bytes");
        let at = memory.remote(0..len).expect("all of it");
        let segment = Label::new("segment").number(NAME.0);
        home.label(&memory, 0..SLOTS as usize, segment.part("header")).keep();
        home.label(&memory, SLOTS as usize..len, segment.cut("slot", Value::SHORTEST)).keep();
        Segment { reading, home: home.me(), at, _memory: memory }
    }

    async fn call(
        self,
        mesh: Mesh<Sim>,
        client: ClientId,
        letters: String,
        recorder: RecorderOf<Publishing>,
    ) {
        let words = mesh.pool(Value::SHORTEST);
        let this = Client { segment: self, words, mesh, node: client.node };
        let reading = this.segment.reading;
        for (number, letter) in (0..).zip(letters.chars()) {
            let request = RequestId { client, number };
            let of = |segment, request| {
                let recorder = recorder.clone();
                move |what| recorder.record(Event { at_ns: 0, request, segment, life: 0, what })
            };
            let neighbour = letter == 'r' && reading == Reading::Coalesced;
            let happens = of(if neighbour { NEIGHBOUR.0 } else { NAME.0 }, request);
            happens(match letter {
                'p' => What::Puts,
                'x' | 't' => What::Exchanges,
                'r' => What::Releases,
                _ => What::Gets,
            });
            let done = match letter {
                'p' => this.put(request).await,
                'x' | 't' => this.exchange(request).await,
                _ if reading == Reading::ReleasedBehind => this.get_released_behind().await,
                'r' => {
                    // Its memory is another segment's, whose first value comes.
                    let request = RequestId { number: number + 100, ..request };
                    let next = of(NEXT.0, request);
                    next(What::Puts);
                    let put = this.put_next(request).await;
                    next(put.unwrap_or(What::Failed(Why::NotSaid)));
                    put.map(|_| What::Released)
                }
                _ => this.get().await,
            };
            happens(done.unwrap_or(What::Failed(Why::NotSaid)));
        }
    }
}

/// Starts the clients of a reading on a segment of their own, whose home is the first node.
pub(super) fn start(
    reading: Reading,
    nodes: &Nodes<Publishing>,
    requests: &Requests,
    recorder: &RecorderOf<Publishing>,
) {
    let mut places = nodes.places().peekable();
    let Some(segment) = places.peek().map(|home| Segment::new(reading, &home.mesh)) else { return };
    for place in places {
        for (client, letters) in requests.of(place.node) {
            let (mesh, letters) = (place.mesh.clone(), letters.to_owned());
            drop(place.rt.spawn(segment.clone().call(mesh, client, letters, recorder.clone())));
        }
    }
}

struct Client {
    segment: Segment,
    mesh: Mesh<Sim>,
    node: u32,
    words: BufferPool<Sim>,
}

impl Client {
    fn slot(&self, slot: u16) -> RemoteSlice {
        let at = SLOTS + u32::from(slot) * Value::SHORTEST;
        self.segment.at.slice(at..at + Value::SHORTEST).expect("a slot")
    }

    fn word(&self, at: u32) -> RemoteSlice {
        self.segment.at.word(at).expect("a word")
    }

    async fn header(&self) -> Done<Header> {
        let mut bytes = [0; 8];
        self.mesh.read(self.segment.home, self.word(0), &mut bytes).await?;
        Ok(Header::from_word(u64::from_ne_bytes(bytes)))
    }

    async fn value(&self, slot: u16) -> Done<Value> {
        let mut bytes = [0; Value::SHORTEST as usize];
        self.mesh.read(self.segment.home, self.slot(slot), &mut bytes).await?;
        Ok(Value::of(&bytes))
    }

    async fn write(&self, slot: u16, request: RequestId) -> Done<()> {
        let value = Value::bytes(request, Value::SHORTEST as usize);
        self.mesh.write(self.segment.home, self.slot(slot), &value).await
    }

    async fn swap(&self, from: Header, to: Header) -> Done<Header> {
        let found = self.mesh.compare_swap(self.segment.home, self.word(0), from.word(), to.word()).await?;
        Ok(Header::from_word(found))
    }

    /// Adds a version to the header: what a put in place does behind the value.
    async fn add_version(&self) -> Done<u64> {
        let one = Header::default().next(0).word();
        let before = self.mesh.fetch_add(self.segment.home, self.word(0), one).await?;
        Ok(Header::from_word(before).version + 1)
    }

    async fn get(&self) -> Done<What> {
        let got = |value, header: Header| What::Got { value, version: Some(header.version) };
        if self.segment.reading == Reading::VersionLast {
            let value = self.value(0).await?;
            return Ok(got(value, self.header().await?));
        }
        let mut header = self.header().await?;
        loop {
            let value = self.value(header.slot).await?;
            if matches!(self.segment.reading, Reading::InPlace | Reading::OneLook) {
                return Ok(got(value, header));
            }
            let now = self.header().await?;
            if now == header {
                return Ok(got(value, header));
            }
            header = now;
        }
    }

    async fn put(&self, request: RequestId) -> Done<What> {
        let put = |version| What::Put { version: Some(version) };
        match self.segment.reading {
            Reading::InPlace | Reading::BlindUnlock | Reading::VersionLast => {
                self.write(0, request).await?;
                self.add_version().await.map(put)
            }
            Reading::ReleasedBehind => self.put_locked(request).await,
            Reading::BehindSwap => Ok(self.put_behind_swap(request).await?.map_or(What::Locked, put)),
            Reading::PublishFirst
            | Reading::OneLook
            | Reading::SharedSlots
            | Reading::PutAgain
            | Reading::Reused
            | Reading::Coalesced => self.publish(request).await.map(put),
        }
    }

    /// The first put to a segment that is made where this one is.
    async fn put_next(&self, request: RequestId) -> Done<What> {
        let put = |version| What::Put { version: Some(version) };
        match self.segment.reading {
            // Its slots are where this one's are, behind a header elsewhere.
            Reading::Coalesced => self.write(0, request).await.map(|()| put(1)),
            _ => self.publish(request).await.map(put),
        }
    }

    async fn publish(&self, request: RequestId) -> Done<u64> {
        let first = self.segment.reading == Reading::PublishFirst;
        let mut header = self.header().await?;
        loop {
            let own = match self.segment.reading {
                Reading::SharedSlots => 1,
                _ => 1 + 2 * self.node as u16,
            };
            let next = header.next(if header.slot == own { own + 1 } else { own });
            if !first {
                self.write(next.slot, request).await?;
            }
            let found = match self.swap(header, next).await {
                Err(OpError::Unknown(_)) if self.segment.reading == Reading::PutAgain => {
                    let now = self.header().await?;
                    if now == next { header } else { now }
                }
                done => done?,
            };
            if found == header {
                if first {
                    self.write(next.slot, request).await?;
                }
                return Ok(next.version);
            }
            header = found;
        }
    }

    /// Takes the lock, puts in place, gives the lock back: three round trips.
    async fn put_locked(&self, request: RequestId) -> Done<What> {
        let (home, lock, me) = (self.segment.home, self.word(LOCK), u64::from(self.mesh.me().get()));
        // One try, as with an exchange.
        if self.mesh.compare_swap(home, lock, 0, me).await? != 0 {
            return Ok(What::Locked);
        }
        self.write(0, request).await?;
        let version = self.add_version().await?;
        self.mesh.compare_swap(home, lock, me, 0).await?;
        Ok(What::Put { version: Some(version) })
    }

    async fn get_released_behind(&self) -> Done<What> {
        let me = u64::from(self.mesh.me().get());
        let block = |len| BufferGuard::Block { block: self.words.alloc().expect("a block"), len };
        let list = [
            (SendOp::CompareSwap { at: self.word(LOCK), compare: 0, swap: me }, block(8)),
            (SendOp::Read { from: self.word(0) }, block(8)),
            (SendOp::Read { from: self.slot(0) }, block(Value::SHORTEST)),
            (SendOp::CompareSwap { at: self.word(LOCK), compare: me, swap: 0 }, block(8)),
        ];
        let [lock, header, value, _] = self.mesh.post_list(self.segment.home, list).await?;
        if word(&lock) != 0 {
            return Ok(What::Locked);
        }
        let mut bytes = [0; Value::SHORTEST as usize];
        if let BufferGuard::Block { block, .. } = &value {
            block.read(0, &mut bytes).expect("it fits");
        }
        let version = Some(Header::from_word(word(&header)).version);
        Ok(What::Got { value: Value::of(&bytes), version })
    }

    async fn put_behind_swap(&self, request: RequestId) -> Done<Option<u64>> {
        let me = u64::from(self.mesh.me().get());
        let block = |bytes: &[u8]| {
            let block = self.words.alloc().expect("a block");
            block.write(0, bytes).expect("it fits");
            BufferGuard::Block { block, len: bytes.len() as u32 }
        };
        let value = Value::bytes(request, Value::SHORTEST as usize);
        let list = [
            (SendOp::CompareSwap { at: self.word(LOCK), compare: 0, swap: me }, block(&[0; 8])),
            (SendOp::Write { to: self.slot(0), imm: None }, block(&value)),
            (SendOp::FetchAdd { at: self.word(0), add: Header::default().next(0).word() }, block(&[0; 8])),
            (SendOp::CompareSwap { at: self.word(LOCK), compare: me, swap: 0 }, block(&[0; 8])),
        ];
        let [lock, _, before, _] = self.mesh.post_list(self.segment.home, list).await?;
        // One try, as with an exchange.
        Ok((word(&lock) == 0).then(|| Header::from_word(word(&before)).version + 1))
    }

    /// Locks, gets and puts in place, unlocks.
    async fn exchange(&self, request: RequestId) -> Done<What> {
        let (home, lock, me) = (self.segment.home, self.word(LOCK), u64::from(self.mesh.me().get()));
        // One try: who waits for ever is not what is refuted here.
        match self.mesh.compare_swap(home, lock, 0, me).await {
            Ok(0) => {}
            Ok(_) => {
                if self.segment.reading == Reading::BlindUnlock {
                    self.mesh.write(home, lock, &[0; 8]).await?;
                }
                return Ok(What::Locked);
            }
            Err(error) => return Err(error),
        }
        let (header, value) = (self.header().await?, self.value(0).await?);
        self.write(0, request).await?;
        let put = self.add_version().await?;
        self.mesh.compare_swap(home, lock, me, 0).await?;
        Ok(What::Exchanged { value, got: Some(header.version), put: Some(put) })
    }
}

fn word(guard: &BufferGuard<Sim>) -> u64 {
    match guard {
        BufferGuard::Block { block, .. } => block.word().expect("a word"),
        _ => 0,
    }
}
