//! Reads and writes of a peer's memory: of all lengths that are treated otherwise, from a buffer of one's own, by several tasks at once,
//! with errors, and given up half-way.
//!
//! Every node but the last writes a part of the last one's memory that nobody else writes, and reads it again. Both are repeated where
//! they did not come to an end that is known: what is read then is what was written.

use crate::explore::{Coverage, Entry, Key, Size, SizeError, Violation};
use crate::harness::{self, Member, Model, Shape, any_counted, worlds};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_protocols::rt::{BufferGuard, Rt};
use weft_protocols::transport::{Mesh, MeshConfig, NotExecuted, OpError, Rank};
use weft_sim::{Sim, SimMr};
use weft_verbs::{AccessFlags, MemoryRegion, Nanos, RemoteSlice, SendOp, VerbsError, Wait, WcError};

/// It is judged at its end alone.
type Recorder = harness::Recorder<()>;

const KEYS: &[Key] = &[
    Key { name: "tasks", help: "how many tasks of the first node write and read, each of another length" },
    Key { name: "rails", help: "how many adapters each node has" },
];

/// The worlds of reads and writes.
pub fn worlds() -> Vec<Entry> {
    use What::{Copies, GivesUp, InPlace, Wrong};
    worlds! { KEYS;
        "operations" make(Copies, 5, 1) Held, "one-sided operations: tasks write a peer's memory, and read it again";
        "operations-in-place" make(InPlace, 2, 1) Held, "the same from and to registered memory, without a copy";
        "operations-wrong" make(Wrong, 1, 1) Held, "the same, and operations that cannot be executed";
        "operations-given-up" make(GivesUp, 2, 1) Held, "the same, and operations that nobody waits for";
        "operations-carried" make(Copies, 5, 2) Held, "the same while connections go over from one rail to another";
        "operations-carried-in-place" make(InPlace, 2, 2) Held, "the same from and to registered memory, without a copy";
    }
}

/// How a task writes and reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// From and to memory that is copied.
    Copies,
    /// From and to a registered buffer.
    InPlace,
    /// It first asks for what cannot be.
    Wrong,
    /// It first asks and does not wait.
    GivesUp,
}

/// What a task writes, in bytes: nothing, what fits into a word, a block, and more than a block.
const LENGTHS: [usize; 5] = [8, 5_000, 100, 0, 3];
/// Where tasks write, one behind the other.
const PLACE: usize = 5_120;

fn make(size: &Size, what: What, tasks: u32, rails: u32) -> Result<Operations, SizeError> {
    let tasks = size.number("tasks")?.unwrap_or(tasks);
    let rails = size.number("rails")?.unwrap_or(rails);
    size.within("tasks", tasks, 1..=LENGTHS.len() as u32)?;
    size.within("rails", rails, 1..=4)?;
    Ok(Operations { what, tasks, rails: rails as u8 })
}

/// Tasks of the first node write the second one's memory, and read it.
struct Operations {
    what: What,
    tasks: u32,
    rails: u8,
}

/// What an execution keeps.
struct State {
    memory: SimMr,
    /// How many tasks have ended.
    ended: Rc<Cell<u32>>,
    /// What was wrong first.
    broken: Rc<RefCell<Option<String>>>,
}

/// What a task writes.
fn data(task: usize) -> Vec<u8> {
    (0..LENGTHS[task]).map(|at| (at % 251) as u8 ^ (task as u8 + 1)).collect()
}

/// Whether the system had no memory to give for an operation: there is some in the next step. (What
/// [`lacks_memory`](OpError::lacks_memory) says of a device that is gone, too, no world may meet.)
pub(super) fn wants_memory(why: &OpError) -> bool {
    matches!(why, OpError::NotExecuted(NotExecuted::Refused(VerbsError::Os { .. })))
}

/// A task of the first node.
struct Task {
    rt: Rt<Sim>,
    mesh: Mesh<Sim>,
    home: Rank,
    what: What,
    number: usize,
    /// Its part of the memory.
    at: RemoteSlice,
    broken: Rc<RefCell<Option<String>>>,
}

impl Task {
    async fn run(self) {
        match self.what {
            What::Wrong => self.asks_what_cannot_be().await,
            What::GivesUp => self.asks_and_does_not_wait().await,
            What::Copies | What::InPlace => {}
        }
        let wrote = data(self.number);
        let found = match self.what {
            What::InPlace => self.in_place(&wrote).await,
            _ => self.by_copies(&wrote).await,
        };
        if found.is_some_and(|found| found != wrote) {
            self.breaks(format!("task {} reads something else than it wrote", self.number));
        }
    }

    async fn by_copies(&self, wrote: &[u8]) -> Option<Vec<u8>> {
        while let Err(why) = self.mesh.write(self.home, self.at, wrote).await {
            self.goes_on(why).await?;
        }
        let mut found = vec![0; wrote.len()];
        while let Err(why) = self.mesh.read(self.home, self.at, &mut found).await {
            self.goes_on(why).await?;
        }
        Some(found)
    }

    async fn in_place(&self, wrote: &[u8]) -> Option<Vec<u8>> {
        let mr = loop {
            match self.mesh.alloc(wrote.len(), AccessFlags::LOCAL_WRITE) {
                Err(VerbsError::Os { .. }) => self.rt.yield_now().await,
                mr => break mr.expect("a few bytes"),
            }
        };
        let all = || BufferGuard::Range { mr: mr.clone(), at: 0, len: wrote.len() as u32 };
        mr.write(0, wrote).expect("as many");
        while let Err(why) = self.mesh.write_from(self.home, self.at, all()).await {
            self.goes_on(why).await?;
        }
        mr.write(0, &vec![0; wrote.len()]).expect("as many");
        while let Err(why) = self.mesh.read_into(self.home, self.at, all()).await {
            self.goes_on(why).await?;
        }
        let mut found = vec![0; wrote.len()];
        mr.read(0, &mut found).expect("as many");
        Some(found)
    }

    /// Whether an operation is to be repeated. It is refused to nobody, but for a system that has no memory to give: a shortage is over with
    /// the step that it struck.
    async fn goes_on(&self, why: OpError) -> Option<()> {
        match why {
            OpError::Unknown(_) => Some(()),
            why if wants_memory(&why) => {
                self.rt.yield_now().await;
                Some(())
            }
            OpError::NotExecuted(
                why @ (NotExecuted::Failed(WcError::RemAccess)
                | NotExecuted::AtPeer(_)
                | NotExecuted::Refused(_)
                | NotExecuted::Length { .. }
                | NotExecuted::NoSuchPeer(_)),
            ) => {
                self.breaks(format!("task {} is refused its memory: {why}", self.number));
                None
            }
            OpError::NotExecuted(_) => Some(()),
        }
    }

    /// A read, which is answered once the system has memory to give.
    async fn read(&self, from: Rank, at: RemoteSlice, into: &mut [u8]) -> Result<(), OpError> {
        loop {
            match self.mesh.read(from, at, into).await {
                Err(why) if wants_memory(&why) => self.rt.yield_now().await,
                answer => return answer,
            }
        }
    }

    /// A peer that there is not, more than there is, and memory whose key nobody has.
    async fn asks_what_cannot_be(&self) {
        let mut byte = [0];
        let nobody = Rank::from_index(self.mesh.size());
        let of_nobody = self.read(nobody, self.at, &mut byte).await;
        if of_nobody != Err(OpError::NotExecuted(NotExecuted::NoSuchPeer(nobody))) {
            self.breaks(format!("a read of nobody's memory ends with {of_nobody:?}"));
        }
        let too_long = self.read(self.home, self.at, &mut vec![0; PLACE + 1]).await;
        if !matches!(too_long, Err(OpError::NotExecuted(NotExecuted::Length { .. }))) {
            self.breaks(format!("a read of too much ends with {too_long:?}"));
        }
        let foreign = RemoteSlice { rkey: self.at.rkey ^ 0x5555, ..self.at };
        let refused = self.read(self.home, foreign, &mut byte).await;
        if refused.is_ok() {
            self.breaks("memory was read without its key".into());
        }
        self.lists_what_cannot_be().await;
    }

    /// A list that is too long, one with a message in it, and one whose last operation is refused.
    async fn lists_what_cannot_be(&self) {
        let word = self.at.slice(0..8).expect("the first word");
        let pool = self.mesh.pool(8);
        let block = loop {
            match pool.alloc() {
                Ok(block) => break block,
                // The system has no memory in this step.
                Err(_) => self.rt.yield_now().await,
            }
        };
        let bytes = || BufferGuard::Block { block: block.clone(), len: 8 };
        let read = || (SendOp::Read { from: word }, bytes());
        let too_long = self.mesh.post_list(self.home, [read(), read(), read(), read()]).await.err();
        let is_full = |why: &OpError| {
            matches!(why, OpError::NotExecuted(NotExecuted::Refused(VerbsError::QueueFull { .. })))
        };
        if !too_long.as_ref().is_some_and(is_full) {
            self.breaks(format!("a list of too much ends with {too_long:?}"));
        }
        let message = [(SendOp::Send { imm: None }, BufferGuard::Nothing)];
        let refused = self.mesh.post_list(self.home, message).await.err();
        let is_invalid =
            |why: &OpError| matches!(why, OpError::NotExecuted(NotExecuted::Refused(VerbsError::Invalid(_))));
        if !refused.as_ref().is_some_and(is_invalid) {
            self.breaks(format!("a list with a message in it ends with {refused:?}"));
        }
        // Nobody may add to this memory.
        let adds = [read(), (SendOp::FetchAdd { at: word, add: 1 }, bytes())];
        match self.mesh.post_list(self.home, adds).await {
            Ok(_) => self.breaks("an addition to what nobody may add to ends well".into()),
            Err(OpError::NotExecuted(NotExecuted::Failed(WcError::RemAccess))) => {
                self.breaks("a list whose first operation was executed was not".into());
            }
            Err(_) => {}
        }
    }

    /// One that waits for its turn, and one that is posted.
    async fn asks_and_does_not_wait(&self) {
        let word = self.at.slice(0..8).expect("the first word");
        for first in [false, true] {
            let given_up = async {
                let mut bytes = [0; 8];
                self.mesh.read(self.home, word, &mut bytes).await
            };
            // What is polled once has a deadline that has passed. Whether the other one ended in time is all one.
            let _ = self.rt.deadline(self.rt.now() + Nanos(u64::from(!first)), given_up).await;
        }
    }

    fn breaks(&self, how: String) {
        self.broken.borrow_mut().get_or_insert(how);
    }
}

impl Model for Operations {
    type State = State;
    type Oracles = ();

    fn size(&self) -> Size {
        Size::new([("tasks", self.tasks), ("rails", self.rails.into())])
    }

    fn rails(&self) -> u8 {
        self.rails
    }

    /// So few places in the send queue that tasks wait for their turn.
    fn mesh(&self, config: &mut MeshConfig) {
        config.send_depth = 4;
    }

    fn breaks_connections(&self) -> bool {
        self.what == What::Wrong
    }

    fn oracles(&self) {}

    fn shape(&self) -> Shape {
        Shape { nodes: 2, wait: Wait::Poll, home: Some(1), one_by_one: true }
    }

    fn start(&self, _: usize, members: &[Member], recorder: &Recorder) -> State {
        let [first, last] = members else { unreachable!("the shape has two nodes") };
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let memory = last.mesh.alloc(PLACE * self.tasks as usize, access).expect("a few bytes");
        let (ended, broken) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(None)));
        for number in 0..self.tasks as usize {
            let at = memory.remote(PLACE * number..PLACE * (number + 1)).expect("a part of it");
            let (rt, mesh, broken) = (first.rt.clone(), first.mesh.clone(), Rc::clone(&broken));
            let task = Task { rt, mesh, home: last.mesh.me(), what: self.what, number, at, broken };
            let (ended, recorder) = (Rc::clone(&ended), recorder.clone());
            first.rt.spawn(async move {
                task.run().await;
                ended.set(ended.get() + 1);
                recorder.say(0, || format!("task {number} has ended"));
            });
        }
        State { memory, ended, broken }
    }

    fn finish(&self, state: &State, members: &[Member], _: &Recorder) -> Result<(), Violation> {
        if let Some(text) = &*state.broken.borrow() {
            return Err(Violation::new("reads and writes", text.clone()));
        }
        if state.ended.get() < self.tasks {
            return Err(Violation::new("progress", "a task has not ended, and nothing happens any more"));
        }
        for task in 0..self.tasks as usize {
            let wrote = data(task);
            let mut found = vec![0; wrote.len()];
            state.memory.read(PLACE * task, &mut found).expect("it is as long");
            if found != wrote {
                return Err(Violation::new(
                    "reads and writes",
                    format!("what task {task} wrote is not there"),
                ));
            }
        }
        self.judge_each(state, members)
    }

    fn coverage(&self, _: &State, members: &[Member], sink: &mut Coverage) {
        let any = |of| any_counted(members, of);
        sink.sometimes("an outcome was lost", any(|stats| stats.unknown_outcomes));
        if self.rails > 1 {
            sink.sometimes("messages carried an operation", any(|stats| stats.carried));
        }
    }
}
