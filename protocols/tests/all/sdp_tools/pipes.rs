//! Pipes.

use super::{Place, Task, accept, both, coded, connect};
use crate::common::{ms, us};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use weft_protocols::sdp::SdpError;
use weft_protocols::sdp::pipe::{Ends, PipeError, Piped, pipe};
use weft_sim::NodeId;
use weft_sim::fault::{Fault, Link, Way};
use weft_verbs::{Nanos, Stream};

/// An input of so many coded bytes that then ends, or fails, or says nothing any more.
struct Input {
    bytes: Vec<u8>,
    at: usize,
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Ends,
    Fails,
    Waits,
}

impl Stream for Input {
    fn poll_read(&mut self, _: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let len = into.len().min(self.bytes.len() - self.at).min(9_001);
        into[..len].copy_from_slice(&self.bytes[self.at..self.at + len]);
        self.at += len;
        match self.then {
            Then::Fails if len == 0 => Poll::Ready(Err(io::ErrorKind::Other.into())),
            Then::Waits if len == 0 => Poll::Pending,
            _ => Poll::Ready(Ok(len)),
        }
    }

    fn poll_write(&mut self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        unreachable!("it is an input")
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        unreachable!("it is an input")
    }
}

/// An output: what was written, and whether it has ended.
#[derive(Clone, Default)]
struct Output(Rc<RefCell<(Vec<u8>, bool)>>);

impl Stream for Output {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        unreachable!("it is an output")
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let len = bytes.len().min(5_003);
        self.0.borrow_mut().0.extend_from_slice(&bytes[..len]);
        Poll::Ready(Ok(len))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().1 = true;
        Poll::Ready(Ok(()))
    }
}

/// A pipe whose ends have these inputs: what each end says, and what came out at each.
fn piped(
    inputs: [(u32, Then); 2],
    ends: [Ends; 2],
    faults: &[(Nanos, Fault)],
) -> [(Result<Piped, PipeError>, Output); 2] {
    let outputs = [Output::default(), Output::default()];
    let said = Rc::new(RefCell::new([None, None]));
    let task = |end: usize| {
        let (output, said, (len, then)) = (outputs[end].clone(), Rc::clone(&said), inputs[end]);
        move |place: Place| -> Task {
            Box::pin(async move {
                let stream = if end == 0 { connect(&place).await } else { accept(&place).await };
                let input = Input { bytes: coded(len), at: 0, then };
                said.borrow_mut()[end] = Some(pipe(&place.rt, stream, input, output, ends[end]).await);
            })
        }
    };
    both(faults, task(0), task(1));
    let [near, far] = said.take();
    let [out_near, out_far] = outputs;
    [(near.expect("it ended"), out_near), (far.expect("it ended"), out_far)]
}

#[test]
fn a_pipe_carries_both_ways_while_a_link_is_cut() {
    let cut = |at| {
        let link = Link::Port(NodeId(1), 1);
        (at, Fault::Cut { link, way: Way::Both, lasts: Some(ms(1)) })
    };
    for faults in [vec![], vec![cut(us(300))], vec![cut(us(900)), cut(ms(4))]] {
        let [near, far] = piped([(300_000, Then::Ends), (20_000, Then::Ends)], [Ends::Both; 2], &faults);
        assert_eq!(near.0.expect("it held"), Piped { sent: 300_000, received: 20_000 });
        assert_eq!(far.0.expect("it held"), Piped { sent: 20_000, received: 300_000 });
        assert!(*near.1.0.borrow() == (coded(20_000), true));
        assert!(*far.1.0.borrow() == (coded(300_000), true));
    }
}

#[test]
fn an_input_that_a_person_types_does_not_keep_a_pipe_whose_peer_has_ended() {
    let ends = [Ends::Both, Ends::WithPeer];
    let [near, far] = piped([(30_000, Then::Ends), (10, Then::Waits)], ends, &[]);
    assert_eq!(near.0.expect("it held"), Piped { sent: 30_000, received: 10 });
    assert_eq!(far.0.expect("it held"), Piped { sent: 10, received: 30_000 });
    assert!(*far.1.0.borrow() == (coded(30_000), true));
}

#[test]
fn an_input_that_fails_is_an_error_at_both_ends_and_not_the_end_of_what_came() {
    let [near, far] = piped([(30_000, Then::Fails), (0, Then::Ends)], [Ends::Both; 2], &[]);
    assert!(matches!(near.0, Err(PipeError::Input(_))), "{:?}", near.0);
    assert!(matches!(far.0, Err(PipeError::Stream(SdpError::Reset))), "{:?}", far.0);
    assert!(!far.1.0.borrow().1, "the output is not told an end");
}
