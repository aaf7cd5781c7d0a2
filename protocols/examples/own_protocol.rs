//! A protocol of one's own on the runtime: a task, a queue pair and a wait.
//!
//! One node asks, the other one answers with the next number. Each is one task that posts to its queue pair and waits for
//! completions; the queue pairs are connected by hand, as a launcher does it.
//!
//! `cargo run -p weft-protocols --example own_protocol`

use std::cell::Cell;
use std::rc::Rc;
use weft_protocols::rt::{BufferGuard, CompletionSink, Failed, Local, QpHandle, Rt, RtConfig, WaitPoint};
use weft_sim::choice::Seeded;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim};
use weft_verbs::*;

/// Bytes of a message.
const LEN: u32 = 8;

/// One end of the connection: a runtime, a queue pair, and memory for a message each way.
struct End<V: Verbs> {
    rt: Rt<V>,
    qp: QpHandle<V>,
    /// The first word is sent, the second one is received into.
    memory: V::Mr,
    received: CompletionSink<V>,
}

impl<V: Verbs> End<V> {
    fn new(context: &V::Context) -> std::result::Result<End<V>, Box<dyn std::error::Error>> {
        let rt = Rt::new(context, RtConfig::default())?;
        let pd = context.alloc_pd()?;
        let memory = pd.alloc_mr(2 * LEN as usize, AccessFlags::LOCAL_WRITE)?;
        let qp = rt.create_qp(&pd, QpCaps { max_send_wr: 4, max_recv_wr: 4, ..QpCaps::default() })?;
        Ok(End { rt, qp, memory, received: CompletionSink::new() })
    }

    /// Posts the receive for the next message. It guards its memory until it has completed.
    fn expect(&self) -> Result<()> {
        let buffer = BufferGuard::Range { mr: self.memory.clone(), at: LEN, len: LEN };
        self.qp.post_recv(&self.received, 0, buffer)
    }

    /// Sends a number, and waits until the peer's adapter has it. The wait says what is needed after it.
    async fn send(&self, number: u64) -> std::result::Result<(), Failed> {
        self.memory.store(0, number).expect("the memory has two words");
        let buffer = BufferGuard::Range { mr: self.memory.clone(), at: 0, len: LEN };
        let posted = self.qp.post(SendOp::Send { imm: None }, Local::Guarded(buffer));
        let (outcome, _buffer) = posted.expect("the send queue has room").at(("sending", number)).await;
        outcome.map(drop)
    }

    /// Waits for the peer's next number.
    async fn receive(&self) -> std::result::Result<u64, Failed> {
        self.received.next().at("receiving").await.outcome?;
        Ok(self.memory.load(LEN as usize).expect("the memory has two words"))
    }
}

async fn ask<V: Verbs>(end: End<V>, question: u64, answer: Rc<Cell<Option<u64>>>) {
    end.expect().expect("the receive queue has room");
    end.send(question).at(question).await.expect("nothing breaks here");
    answer.set(end.receive().at(question).await.ok());
}

async fn reply<V: Verbs>(end: End<V>) {
    end.expect().expect("the receive queue has room");
    let question = end.receive().at(()).await.expect("nothing breaks here");
    end.send(question + 1).at(()).await.expect("nothing breaks here");
}

/// Moves a queue pair to ready-to-send, towards the peer's.
fn connect<V: Verbs>(here: &End<V>, there: &End<V>) -> Result<()> {
    let access = AccessFlags::empty();
    here.qp.qp().modify(&Modify::Init(ToInit { port: 1, pkey_index: 0, access, qkey: 0 }))?;
    here.qp.qp().modify(&Modify::Rtr(ToRtr {
        dest_qp: there.qp.num(),
        rq_psn: Psn::new(0),
        path: Path::to(there.rt.context().gid(1, 0)?, 1),
        mtu: Mtu::B2048,
        min_rnr_timer: RnrTimer::new(12).expect("a code below 32"),
        max_dest_rd_atomic: 1,
        alt: None,
    }))?;
    here.qp.qp().modify(&Modify::Rts(ToRts {
        sq_psn: Psn::new(0),
        timeout: AckTimeout::new(14).expect("an exponent below 32"),
        retry: Retries::MOST,
        rnr_retry: Retries::FOREVER,
        max_rd_atomic: 1,
        alt: None,
        migration: Migration::Migrated,
    }))
}

/// Runs both tasks on a simulated fabric of two nodes, and gives back the answer to 41.
fn run() -> std::result::Result<Option<u64>, Box<dyn std::error::Error>> {
    let profile = Profile::builtin("present-day")?;
    let fabric = Fabric::new(Config::new(2, profile), Box::new(Seeded::new(1)))?;
    let end = |node| End::<Sim>::new(&fabric.devices(NodeId(node))[0].open()?);
    let (client, server) = (end(0)?, end(1)?);
    connect(&client, &server)?;
    connect(&server, &client)?;
    fabric.mount(NodeId(0), Box::new(client.rt.program()));
    fabric.mount(NodeId(1), Box::new(server.rt.program()));
    let answer = Rc::new(Cell::new(None));
    let (asks, replies) = (client.rt.clone(), server.rt.clone());
    asks.spawn(ask(client, 41, Rc::clone(&answer)));
    replies.spawn(reply(server));
    fabric.run_until(Nanos::from_millis(1));
    Ok(answer.get())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    println!("the answer to 41 is {:?}", run()?);
    Ok(())
}

#[test]
fn the_answer_is_the_next_number() {
    assert_eq!(run().expect("a good configuration"), Some(42));
}
