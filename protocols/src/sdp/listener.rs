//! Listening: connections that wait to be accepted.

use super::service::Sdp;
use super::socket::Socket;
use super::stream::Address;
use super::{SdpError, SdpOptions, SdpStream};
use crate::rt::sync::Signal;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use weft_verbs::Verbs;

/// The connections that wait at a port.
pub(super) struct Backlog<V: Verbs> {
    pub options: SdpOptions,
    waiting: RefCell<VecDeque<Rc<Socket<V>>>>,
    arrived: Signal,
}

impl<V: Verbs> Backlog<V> {
    /// Whether no more connections are taken. Those that failed before anybody accepted them, and left nothing to be read, keep nobody out:
    /// a client that asked again and again while its link was cut would find its own.
    pub fn is_full(&self) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let most = self.options.backlog as usize;
        if waiting.len() >= most {
            waiting.retain(|socket| socket.lives() || socket.has_unread());
        }
        waiting.len() >= most
    }

    /// Another connection waits.
    pub fn push(&self, socket: Rc<Socket<V>>) {
        self.waiting.borrow_mut().push_back(socket);
        self.arrived.notify();
    }

    /// The node has left the cluster.
    pub fn closed(&self) {
        self.arrived.notify();
    }
}

/// Accepts connections to a port. Dropping it aborts those that were not accepted.
pub struct SdpListener<V: Verbs> {
    sdp: Sdp<V>,
    port: u16,
    backlog: Rc<Backlog<V>>,
}

impl<V: Verbs> SdpListener<V> {
    pub(super) fn bind(sdp: &Sdp<V>, port: u16, options: SdpOptions) -> Result<SdpListener<V>, SdpError> {
        let port = match port {
            0 => sdp.ephemeral(|_| false).ok_or(SdpError::PortInUse(0))?,
            port => port,
        };
        let mut listeners = sdp.shared.listeners.borrow_mut();
        if listeners.contains_key(&port) {
            return Err(SdpError::PortInUse(port));
        }
        let backlog = Rc::new(Backlog { options, waiting: RefCell::default(), arrived: Signal::new() });
        listeners.insert(port, Rc::clone(&backlog));
        Ok(SdpListener { sdp: sdp.clone(), port, backlog })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> Address {
        Address { rank: self.sdp.shared.mesh.me(), port: self.port }
    }

    /// The next connection, if one waits.
    ///
    /// # Errors
    ///
    /// The node has left the cluster.
    pub fn try_accept(&self) -> Result<Option<SdpStream<V>>, SdpError> {
        let next = self.backlog.waiting.borrow_mut().pop_front();
        if next.is_none() && self.sdp.is_closed() {
            return Err(SdpError::Closed);
        }
        Ok(next.map(|socket| SdpStream::new(&self.sdp, socket)))
    }

    /// Waits for the next connection. It may have failed meanwhile, which its first use tells.
    ///
    /// # Errors
    ///
    /// The node has left the cluster.
    pub async fn accept(&self) -> Result<SdpStream<V>, SdpError> {
        loop {
            let arrived = self.backlog.arrived.changed();
            if let Some(stream) = self.try_accept()? {
                return Ok(stream);
            }
            arrived.await;
        }
    }

    /// How many connections wait.
    pub fn waiting(&self) -> usize {
        self.backlog.waiting.borrow().len()
    }
}

impl<V: Verbs> Drop for SdpListener<V> {
    fn drop(&mut self) {
        self.sdp.shared.listeners.borrow_mut().remove(&self.port);
        for socket in self.backlog.waiting.borrow_mut().drain(..) {
            self.sdp.abort(&socket);
        }
    }
}
