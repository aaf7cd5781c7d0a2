//! A queue pair against a model of its states, over random requests: the legal ones are taken, the others are refused by
//! name and change nothing, and what was posted is flushed, waits or vanishes as the state has it (IBA 10.3.1).

use crate::common::{Side, fabric, init, rtr, rts, settle};
use proptest::prelude::*;
use std::collections::VecDeque;
use weft_sim::{Sim, SimQp};
use weft_verbs::*;

/// What a caller may ask for.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Reset,
    Init,
    Rtr,
    Rts,
    Update,
    Sqd,
    Resume,
    Err,
    PostReceive,
    PostSend,
}

/// Figure 124, written apart from the contract's table: where a request leads from a state, and which state it asks for.
fn leads(from: QpState, ask: Ask) -> (Option<QpState>, QpState) {
    use QpState::*;
    let (to, legal) = match ask {
        Ask::Reset => (Reset, true),
        Ask::Init => (Init, [Reset, Init].contains(&from)),
        Ask::Rtr => (Rtr, from == Init),
        Ask::Rts => (Rts, from == Rtr),
        Ask::Update => (from, [Rts, Sqd].contains(&from)),
        Ask::Sqd => (Sqd, [Rts, Sqd].contains(&from)),
        Ask::Resume => (Rts, from == Sqd),
        Ask::Err => (Err, from != Reset),
        Ask::PostReceive | Ask::PostSend => (from, true),
    };
    (legal.then_some(to), to)
}

/// What must be true of the queue pair.
struct Model {
    state: QpState,
    /// Receives that wait for a message: none comes.
    receives: VecDeque<u64>,
    /// Sends that wait, since the queue is being drained.
    sends: VecDeque<u64>,
    /// Which attributes were given since the last reset.
    given: [bool; 3],
    next: u64,
}

impl Model {
    fn new() -> Model {
        let none = VecDeque::new();
        Model { state: QpState::Reset, receives: none.clone(), sends: none, given: [false; 3], next: 0 }
    }

    /// Takes a request over, and says which completions it brings.
    fn modify(&mut self, ask: Ask) -> Vec<(u64, Option<WcError>)> {
        let Some(to) = leads(self.state, ask).0 else { return vec![] };
        self.state = to;
        match ask {
            Ask::Reset => {
                self.receives.clear();
                self.sends.clear();
                self.given = [false; 3];
            }
            Ask::Init => self.given[0] = true,
            Ask::Rtr => self.given[1] = true,
            Ask::Rts => self.given[2] = true,
            Ask::Err => {
                let sends = std::mem::take(&mut self.sends);
                let receives = std::mem::take(&mut self.receives);
                return sends.into_iter().chain(receives).map(|id| (id, Some(WcError::Flush))).collect();
            }
            _ => {}
        }
        vec![]
    }
}

fn change(ask: Ask, peer: &Side, kind: QpType) -> Option<Modify> {
    let timer = RnrTimer::new(2).expect("a code");
    let update = match kind {
        QpType::Rc => Update { min_rnr_timer: Some(timer), ..Update::default() },
        QpType::Ud => Update { qkey: Some(9), ..Update::default() },
    };
    Some(match ask {
        Ask::Reset => Modify::Reset,
        Ask::Init => Modify::Init(init()),
        Ask::Rtr => Modify::Rtr(rtr(peer)),
        Ask::Rts => Modify::Rts(rts()),
        Ask::Update => Modify::Update(update),
        Ask::Sqd => Modify::Sqd { notify: false },
        Ask::Resume => Modify::Resume,
        Ask::Err => Modify::Err,
        Ask::PostReceive | Ask::PostSend => return None,
    })
}

fn queue_pair(side: &Side, kind: QpType) -> SimQp {
    let made = QpInit::<'_, Sim> {
        kind,
        send_cq: &side.cq,
        recv_cq: &side.cq,
        srq: None,
        caps: QpCaps::default(),
        sq_sig_all: false,
    };
    side.pd.create_qp(&made).expect("it is made")
}

/// Lets the queue pair and its model do the same, and compares them after every step.
fn compare(kind: QpType, asks: &[Ask]) -> std::result::Result<(), TestCaseError> {
    let fabric = fabric(2);
    let (side, peer) = (Side::new(&fabric, 0), Side::new(&fabric, 1));
    let qp = queue_pair(&side, kind);
    let mut model = Model::new();
    for &ask in asks {
        // What waits in a drained queue would leave, and be lost: that is not what this test is about.
        if matches!(ask, Ask::Resume) && !model.sends.is_empty() {
            continue;
        }
        let before = qp.query().expect("it is there");
        let mut brings = vec![];
        match change(ask, &peer, kind) {
            Some(change) => {
                let (legal, to) = leads(model.state, ask);
                let from = model.state;
                let refused = legal.is_none().then_some(VerbsError::NoTransition { from, to });
                prop_assert_eq!(qp.modify(&change).err(), refused);
                if legal.is_none() {
                    prop_assert_eq!(
                        qp.query().expect("it is there"),
                        before,
                        "what is refused changes nothing"
                    );
                }
                brings = model.modify(ask);
            }
            None => {
                // Each queue has room for all that a case posts.
                let id = model.next;
                model.next += 1;
                let (posted, accepted) = post(&qp, &side, ask, id, model.state, kind);
                prop_assert_eq!(posted, accepted, "{:?} in {}", ask, model.state);
                match (accepted, model.state, ask) {
                    (false, ..) => {}
                    (_, QpState::Err, _) => brings.push((id, Some(WcError::Flush))),
                    (_, _, Ask::PostReceive) => model.receives.push_back(id),
                    _ => model.sends.push_back(id),
                }
            }
        }
        settle(&fabric);
        let told: Vec<_> = side.polled().iter().map(|done| (done.wr_id, done.result.err())).collect();
        prop_assert_eq!(told, brings);
        let now = qp.query().expect("it is there");
        prop_assert_eq!((now.state, qp.state()), (model.state, model.state));
        prop_assert_eq!([now.init.is_some(), now.rtr.is_some(), now.rts.is_some()], model.given);
    }
    Ok(())
}

/// Posts, and says whether that was accepted and whether it must be. Sends are only posted where nothing of them leaves.
fn post(qp: &SimQp, side: &Side, ask: Ask, id: u64, state: QpState, kind: QpType) -> (bool, bool) {
    if let Ask::PostReceive = ask {
        let posted = qp.post_recv(&[RecvWr { wr_id: id, data: &side.sge(0, 64) }]);
        return (posted.is_ok(), state != QpState::Reset);
    }
    if matches!(state, QpState::Rts) || kind == QpType::Ud {
        return (false, false);
    }
    let data = side.sge(0, 8);
    let send = SendWr {
        wr_id: id,
        op: SendOp::Send { imm: None },
        data: Payload::Sge(&data),
        flags: SendFlags::SIGNALED,
    };
    (qp.post_send(&[send]).is_ok(), matches!(state, QpState::Sqd | QpState::Err))
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    use Ask::*;
    // Most requests that come in order are legal; the way forward is asked for most often.
    let one = prop_oneof![
        1 => Just(Reset), 3 => Just(Init), 3 => Just(Rtr), 3 => Just(Rts), 2 => Just(Update),
        2 => Just(Sqd), 1 => Just(Resume), 1 => Just(Err), 2 => Just(PostReceive), 2 => Just(PostSend),
    ];
    prop::collection::vec(one, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reliable_queue_pair_goes_as_its_model_does(asks in asks()) {
        compare(QpType::Rc, &asks)?;
    }

    #[test]
    fn a_datagram_queue_pair_goes_as_its_model_does(asks in asks()) {
        compare(QpType::Ud, &asks)?;
    }
}
