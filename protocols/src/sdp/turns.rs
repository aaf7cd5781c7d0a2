//! How much of buffers is under way with a peer at a time.
//!
//! What the two nodes say to each other stands in one line with what their adapters move. If each stream had a part of a buffer under way,
//! both would be silent for as long as the link takes for all of them, and each would take the other one for dead, however soon it
//! answers. So the parts of all streams with a peer have room for one of the longest together, and get it in the order in
//! which they ask.

use crate::rt::sync::{OneshotSender, oneshot};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

#[derive(Default)]
struct Line {
    /// How many bytes are under way.
    bytes: u64,
    /// Parts that wait, each with its bytes and how many may be under way with it.
    waiting: VecDeque<(u32, u32, OneshotSender<Turn>)>,
}

impl Line {
    /// Whether a part may go. One that is alone always may.
    fn has_room(&self, bytes: u32, most: u32) -> bool {
        self.bytes == 0 || self.bytes + u64::from(bytes) <= u64::from(most)
    }
}

/// Room for parts of buffers with one peer. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Turns(Rc<RefCell<Line>>);

impl Turns {
    /// Waits until a part of so many bytes may go: no more than `most` bytes are under way then.
    pub async fn turn(&self, bytes: u32, most: u32) -> Turn {
        let told = {
            let mut line = self.0.borrow_mut();
            if line.waiting.is_empty() && line.has_room(bytes, most) {
                return self.begins(line, bytes);
            }
            let (tell, told) = oneshot();
            line.waiting.push_back((bytes, most, tell));
            told
        };
        match told.await {
            Ok(turn) => turn,
            // Nobody but a turn takes a waiter out of the line.
            Err(_) => self.begins(self.0.borrow_mut(), bytes),
        }
    }

    fn begins(&self, mut line: std::cell::RefMut<'_, Line>, bytes: u32) -> Turn {
        line.bytes += u64::from(bytes);
        Turn { turns: self.clone(), bytes }
    }

    /// Those go that stand first in line and have room.
    fn go_on(&self) {
        loop {
            let mut line = self.0.borrow_mut();
            let fits = line.waiting.front().is_some_and(|(bytes, most, _)| line.has_room(*bytes, *most));
            let next = if fits { line.waiting.pop_front() } else { None };
            let Some((bytes, _, tell)) = next else { return };
            let turn = self.begins(line, bytes);
            // One who waits no more gives it back at once.
            drop(tell.send(turn));
        }
    }
}

/// Room for a part of a buffer, until it is dropped.
pub(super) struct Turn {
    turns: Turns,
    bytes: u32,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.0.borrow_mut().bytes -= u64::from(self.bytes);
        self.turns.go_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn polled<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn parts_have_room_for_one_of_the_longest_together_and_go_in_the_order_in_which_they_came() {
        let turns = Turns::default();
        let [first, second] = [4, 4].map(|bytes| polled(pin!(turns.turn(bytes, 8))).expect("there is room"));
        let mut long = Box::pin(turns.turn(8, 8));
        let mut short = Box::pin(turns.turn(1, 8));
        assert!(polled(long.as_mut()).is_none() && polled(short.as_mut()).is_none());
        drop(first);
        assert!(polled(short.as_mut()).is_none(), "short ones do not keep a long one waiting for ever");
        drop(second);
        let long = polled(long.as_mut()).expect("it is its turn");
        assert!(polled(short.as_mut()).is_none());
        drop(long);
        assert!(polled(short.as_mut()).is_some());
    }

    #[test]
    fn one_who_waits_no_more_takes_no_room() {
        let turns = Turns::default();
        let first = polled(pin!(turns.turn(8, 8))).expect("there is room");
        let mut waits = [8, 8, 8].map(|bytes| Box::pin(turns.turn(bytes, 8)));
        assert!(waits.iter_mut().all(|wait| polled(wait.as_mut()).is_none()));
        let [dropped, given, last] = waits;
        let mut last = last;
        drop(dropped);
        drop(first);
        // It was given its turn, and has not looked.
        drop(given);
        assert!(polled(last.as_mut()).is_some());
    }
}
