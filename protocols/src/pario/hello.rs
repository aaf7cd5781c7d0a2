//! The first frame of a byte stream: who speaks, to whom, and by which of its streams.
//!
//! A server may get the address that another one had, and be reached in its place: it answers nothing that is not for it.
//!
//! A client that gives a stream up asks the same by the next one. What was written to the first one is still on its way then: the system
//! goes on to send it, and may succeed when the second stream has been answered for long. So streams are numbered, and a server takes none
//! that comes behind a later one: what is asked by it is over.

use super::messages::{Frame, Reader};
use crate::transport::Rank;
use std::collections::BTreeMap;

/// What a client says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub client: Rank,
    /// Whom it asks.
    pub server: Rank,
    /// Its life: another number whenever it begins anew.
    pub life: u64,
    /// Which of the streams it is that were opened in that life, in order.
    pub number: u64,
}

impl Hello {
    pub(super) fn into_frame(self) -> Frame {
        let Hello { client, server, life, number } = self;
        let [client, server] = [client, server].map(|rank| rank.get().to_le_bytes());
        let head = [&client[..], &server, &life.to_le_bytes(), &number.to_le_bytes()].concat();
        Frame { head, data: Vec::new() }
    }

    /// What a frame says, if it is one.
    pub(super) fn of(frame: &Frame) -> Option<Hello> {
        let mut head = Reader(&frame.head);
        let (client, server) = (head.rank()?, head.rank()?);
        let (life, number) = (head.u64()?, head.u64()?);
        head.end(Hello { client, server, life, number })
    }
}

/// The streams that came last, by their clients: in which life, and which number.
#[derive(Debug, Default)]
pub(super) struct Newest(BTreeMap<Rank, (u64, u64)>);

impl Newest {
    /// Whether a stream is to be taken. Which one of two lives is the later one is not known: there the one counts that comes last.
    pub(super) fn takes(&mut self, hello: Hello) -> bool {
        let Hello { client, life, number, .. } = hello;
        let is_late = self.0.get(&client).is_some_and(|(of, last)| *of == life && number <= *last);
        if !is_late {
            self.0.insert(client, (life, number));
        }
        !is_late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(index: u32, life: u64, number: u64) -> Hello {
        Hello { client: Rank::from_index(index), server: Rank::from_index(9), life, number }
    }

    #[test]
    fn a_hello_comes_out_as_it_went_in_and_no_other_frame_is_one() {
        let said = hello(6, u64::MAX - 1, 1 << 40);
        let frame = said.into_frame();
        assert_eq!(Hello::of(&frame), Some(said));
        for len in 0..frame.head.len() {
            assert_eq!(Hello::of(&Frame { head: frame.head[..len].to_vec(), data: Vec::new() }), None);
        }
        let longer = Frame { head: [&frame.head[..], &[0]].concat(), data: Vec::new() };
        let nobody = Frame { head: vec![0; frame.head.len()], data: Vec::new() };
        assert_eq!((Hello::of(&longer), Hello::of(&nobody)), (None, None));
    }

    #[test]
    fn a_stream_is_taken_unless_a_later_one_of_its_clients_life_was() {
        let mut newest = Newest::default();
        assert!(newest.takes(hello(0, 7, 2)));
        assert!(!newest.takes(hello(0, 7, 1)) && !newest.takes(hello(0, 7, 2)));
        assert!(newest.takes(hello(1, 7, 1)), "another client");
        assert!(newest.takes(hello(0, 7, 3)));
        assert!(newest.takes(hello(0, 4, 1)), "another life");
    }
}
