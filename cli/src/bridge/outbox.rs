//! The end of a thread that runs an RDMA runtime.

use super::{CHUNK, take, write};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::{Poll, Waker};
use weft_verbs::Stream;

/// What is to be said to the other end.
#[derive(Default)]
pub struct Outbox {
    bytes: RefCell<VecDeque<u8>>,
    talker: RefCell<Option<Waker>>,
}

impl Outbox {
    /// Says a message, as soon as the other end takes it.
    pub fn say(&self, message: &[u8]) {
        write(message, &mut *self.bytes.borrow_mut());
        if let Some(talker) = self.talker.take() {
            talker.wake();
        }
    }

    /// Whether all has been said.
    #[cfg(feature = "hw")]
    pub fn is_empty(&self) -> bool {
        self.bytes.borrow().is_empty()
    }

    /// Writes what is to be said and tells what is heard, behind what was `heard` before, until that says so or the other end is gone:
    /// how.
    pub async fn talk<T>(
        &self,
        mut stream: impl Stream,
        mut heard: Vec<u8>,
        mut hear: impl FnMut(Vec<u8>) -> ControlFlow<T>,
    ) -> Result<T, String> {
        poll_fn(|cx| {
            self.talker.replace(Some(cx.waker().clone()));
            loop {
                while let Some(message) = take(&mut heard) {
                    if let ControlFlow::Break(told) = hear(message) {
                        return Poll::Ready(Ok(told));
                    }
                }
                let mut idle = true;
                let mut out = self.bytes.borrow_mut();
                if !out.is_empty() {
                    match stream.poll_write(cx, out.make_contiguous()) {
                        Poll::Ready(Ok(written)) => {
                            out.drain(..written);
                            idle = false;
                        }
                        Poll::Ready(Err(why)) => return Poll::Ready(Err(why.to_string())),
                        Poll::Pending => {}
                    }
                }
                drop(out);
                let mut bytes = [0; CHUNK];
                match stream.poll_read(cx, &mut bytes) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err("it closed the line".to_string())),
                    Poll::Ready(Ok(read)) => {
                        heard.extend_from_slice(&bytes[..read]);
                        idle = false;
                    }
                    Poll::Ready(Err(why)) => return Poll::Ready(Err(why.to_string())),
                    Poll::Pending => {}
                }
                if idle {
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}
