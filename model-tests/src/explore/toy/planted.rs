//! Classic bugs, as toy worlds: an explorer that misses one of them is broken.

use super::Toy;
use super::op::{Op, Program, Test, Value};
use Test::{Differs, Equals};
use Value::{Is, Register};

/// Two processes increment a counter by reading it and writing it back: one increment can be lost.
pub fn lost_update() -> Toy {
    const COUNTER: u8 = 0;
    const DONE: u8 = 1;
    let increments = vec![Op::Read(COUNTER), Op::Write(COUNTER, Register(1)), Op::FetchAdd(DONE, Is(1))];
    let reader = vec![Op::Await(DONE, Equals(Is(2))), Op::Check(COUNTER, Equals(Is(2)))];
    Toy::new(
        "toy-lost-update",
        Program {
            processes: vec![increments.clone(), increments, reader],
            words: 2,
            must_end: true,
            ..Program::default()
        },
    )
}

/// An MCS lock (Mellor-Crummey and Scott, 1991) whose newcomer links itself behind its predecessor before it sets the
/// flag that the predecessor clears: the hand-over can fall between the two, and is overwritten.
pub fn mcs_links_first() -> Toy {
    const TAIL: u8 = 0;
    let locked = |me: u8| 1 + me;
    let next = |me: u8| 3 + me;
    let process = |me: u8, other: u8| {
        vec![
            // 0: swap myself in, in two guesses: nobody, or the other one.
            Op::CompareSwap(TAIL, Is(0), Is(me + 1)),
            Op::Branch(Equals(Is(0)), 7),
            Op::CompareSwap(TAIL, Is(other + 1), Is(me + 1)),
            Op::Branch(Equals(Is(0)), 0),
            // 4: behind the other: link, then the flag. The right order is the reverse.
            Op::Write(next(other), Is(me + 1)),
            Op::Write(locked(me), Is(1)),
            Op::Await(locked(me), Equals(Is(0))),
            // 7: mine.
            Op::Enter,
            Op::Leave,
            // 9: nobody behind me: free it. Else wait for the link, and hand over.
            Op::CompareSwap(TAIL, Is(me + 1), Is(0)),
            Op::Branch(Equals(Is(me + 1)), 13),
            Op::Await(next(me), Differs(Is(0))),
            Op::Write(locked(other), Is(0)),
        ]
    };
    Toy::new(
        "toy-mcs-links-first",
        Program {
            processes: vec![process(0, 1), process(1, 0)],
            words: 5,
            must_end: true,
            ..Program::default()
        },
    )
}

/// A word is added to by message. The answer does not come in time, so the message is sent again: but it was
/// only late, and both are executed.
pub fn blind_resend() -> Toy {
    const REQUEST: u8 = 0;
    const ANSWER: u8 = 1;
    const SUM: u8 = 2;
    let (to_home, to_me) = (0, 1);
    let requester = vec![
        Op::Send(to_home, Is(1)),
        Op::AwaitOrTimeout(ANSWER, Equals(Is(1))),
        Op::Branch(Equals(Is(1)), 5),
        Op::Send(to_home, Is(1)),
        Op::Await(ANSWER, Equals(Is(1))),
    ];
    // Executes what comes, and says so. It is asked twice at most.
    let serve = [
        Op::Await(REQUEST, Equals(Is(1))),
        Op::Write(REQUEST, Is(0)),
        Op::FetchAdd(SUM, Is(1)),
        Op::Check(SUM, Equals(Is(1))),
        Op::Send(to_me, Is(1)),
    ];
    Toy::new(
        "toy-blind-resend",
        Program {
            processes: vec![requester, [serve, serve].concat()],
            words: 3,
            channels: vec![REQUEST, ANSWER],
            must_end: false,
        },
    )
}

/// A ticket lock whose tickets are one bit: with three processes the third has the first one's number.
pub fn ticket_wraps() -> Toy {
    const SERVING: u8 = 0;
    const TICKET: u8 = 1;
    let process = |ticket: u8| {
        vec![
            Op::FetchAdd(TICKET, Is(128)),
            Op::Branch(Equals(Is(0)), 4),
            Op::Await(SERVING, Equals(Is(128))),
            Op::Branch(Equals(Is(128)), 5),
            Op::Await(SERVING, Equals(Is(0))),
            Op::Enter,
            Op::Leave,
            Op::FetchAdd(SERVING, Is(128)),
            Op::Branch(Equals(Is(ticket)), 9),
        ]
    };
    Toy::new(
        "toy-ticket-wraps",
        Program { processes: vec![process(1); 3], words: 2, must_end: true, ..Program::default() },
    )
}

/// A test-and-set lock of two processes, with nothing wrong.
pub fn sound_lock() -> Toy {
    const LOCK: u8 = 0;
    let process = vec![
        Op::CompareSwap(LOCK, Is(0), Is(1)),
        Op::Branch(Equals(Is(0)), 4),
        Op::Await(LOCK, Equals(Is(0))),
        Op::Branch(Equals(Is(0)), 0),
        Op::Enter,
        Op::Leave,
        Op::Write(LOCK, Is(0)),
    ];
    Toy::new(
        "toy-sound-lock",
        Program { processes: vec![process; 2], words: 1, must_end: true, ..Program::default() },
    )
}
