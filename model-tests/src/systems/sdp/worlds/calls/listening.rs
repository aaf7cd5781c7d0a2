//! The node that listens: each connection that it accepts has users of its own.

use super::super::super::PORT;
use super::history::{Event, What};
use super::script::Called;
use super::user::{Line, User};
use crate::harness::Quits;
use crate::record::Record;
use std::rc::Rc;
use weft_protocols::sdp::{SdpError, SdpListener, SdpStream};
use weft_sim::Sim;

/// What becomes of the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listening {
    /// It accepts for ever.
    Accepts,
    /// The same, and a call of `accept` is dropped at any moment.
    DropsAccept,
    /// It is dropped at any moment, with the call that waits.
    Stops,
}

/// What the node that listens needs.
pub(super) struct Server {
    /// What its users are made of.
    pub user: User,
    pub listening: Listening,
    /// What the users of a connection call.
    pub scripts: Rc<[Vec<Called>]>,
}

/// The first port that calls of `connect` take: they take one after the other.
const FIRST: u16 = 49_152;

impl Server {
    pub async fn listen(self) {
        let Ok(listener) = self.user.sdp.bind(PORT) else { return };
        let mut quits = self.user.quits.clone().filter(|_| self.listening != Listening::Accepts);
        loop {
            let accepted = Quits::call(quits.as_deref(), next(&listener)).await;
            match (accepted, self.listening) {
                (Some(Ok(stream)), _) => self.serve(stream),
                (Some(Err(_)), _) => return,
                (None, Listening::Stops) => break,
                (None, _) => quits = None,
            }
        }
        self.user.recorder.record(Event { node: 1, stream: 0, what: What::StopsListening });
        drop(listener);
    }

    fn serve(&self, stream: SdpStream<Sim>) {
        let number = u32::from(stream.peer_addr().port - FIRST) + 1;
        let line = Line::new(1, self.scripts.len());
        self.user.recorder.record(Event { node: 1, stream: number, what: What::Accepts });
        line.stands(number, stream);
        for script in self.scripts.iter() {
            let user = User { line: Rc::clone(&line), ..self.user.clone() };
            drop(self.user.rt.spawn(user.run(script.clone())));
        }
    }
}

/// The next connection: one that waits, or one that comes.
async fn next(listener: &SdpListener<Sim>) -> Result<SdpStream<Sim>, SdpError> {
    match listener.try_accept()? {
        Some(stream) => Ok(stream),
        None => listener.accept().await,
    }
}
