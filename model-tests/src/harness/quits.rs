//! Calls whose users do not wait for their end: a task that drops its call at any moment, as `select` and time-outs do.
//!
//! The node before it says when: its message comes at any point of the programs. Messages of one node arrive in order, so that one says
//! nothing new which answers the call.

use crate::polled::polled;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use weft_protocols::rt::Rt;
use weft_protocols::rt::sync::Signal;
use weft_protocols::transport::{Channel, Incoming, Mesh};
use weft_sim::Sim;

/// The messages that say so.
const QUIT: Channel = Channel(61);

/// Whether the users of a node wait no longer.
#[derive(Default)]
pub struct Quits {
    are_told: Cell<bool>,
    told: Signal,
}

impl Quits {
    /// Of a node, told by another one from now on at any moment.
    pub fn told(rt: &Rt<Sim>, at: &Mesh<Sim>, by: &Mesh<Sim>) -> Rc<Quits> {
        let quits = Rc::<Quits>::default();
        let mut inbox = at.open(QUIT).expect("nobody else has the channel");
        let here = Rc::clone(&quits);
        rt.spawn(async move {
            while let Some(incoming) = inbox.recv().await {
                if let Incoming::Message(_) = incoming {
                    here.are_told.set(true);
                    here.told.notify();
                }
            }
        });
        by.send(at.me(), QUIT, &[0]).expect("there is room for one message");
        quits
    }

    async fn wait(&self) {
        self.told.until(|| self.are_told.get()).await;
    }

    /// Makes a call of a user that may quit, or of one that does not. `None` if it quits first: then the call is dropped, at the earliest
    /// where it first waits.
    pub async fn call<T>(quits: Option<&Quits>, call: impl Future<Output = T>) -> Option<T> {
        let Some(quits) = quits else { return Some(call.await) };
        let (mut call, mut told) = (pin!(call), pin!(quits.wait()));
        poll_fn(|cx| match call.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => told.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// Makes a call that its user looks at once and then leaves, as a loop of `select` does while another branch of it runs. `None` if it
    /// did not end at once: it is dropped once its user quits, whatever has come of it meanwhile.
    pub async fn leave<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        let mut call = pin!(call);
        match polled(call.as_mut()).await {
            Poll::Ready(done) => Some(done),
            Poll::Pending => {
                self.wait().await;
                None
            }
        }
    }
}
