//! Connecting: a stream is made by the end that asks for it, and the ports that it asks from.

use super::endpoint::Endpoint;
use super::service::{Sdp, Shared, greeting};
use super::socket::Socket;
use super::stream::Address;
use super::{SdpError, SdpOptions, SdpStream};
use crate::transport::Rank;
use std::rc::Rc;
use weft_verbs::Verbs;

/// The ports that calls of `connect` take, and of `bind` that ask for none, one after the other.
pub(super) const EPHEMERAL: std::ops::RangeInclusive<u16> = 49_152..=65_535;

impl<V: Verbs> Sdp<V> {
    /// Connects to a port of a node. If that node begins anew meanwhile, its next life is asked.
    ///
    /// # Errors
    ///
    /// The peer refuses, or gives the stream up at once, or does not answer in time; or this node has as many streams with that port as it has
    /// ports of its own (`PortInUse`).
    pub async fn connect(&self, to: Rank, port: u16) -> Result<SdpStream<V>, SdpError> {
        self.connect_with(to, port, self.shared.options).await
    }

    /// Connects to a port of a node, with options for this stream.
    ///
    /// # Errors
    ///
    /// As [`Sdp::connect`]; or the options cannot be.
    pub async fn connect_with(
        &self,
        to: Rank,
        port: u16,
        options: SdpOptions,
    ) -> Result<SdpStream<V>, SdpError> {
        let Shared { mesh, .. } = &*self.shared;
        options.check(mesh)?;
        if to.index() >= mesh.size() as usize {
            return Err(SdpError::NoSuchPeer(to));
        }
        let there = Address { rank: to, port };
        let connects = async {
            loop {
                match self.connects(there, options).await {
                    // The connection went over to another rail while the stream was made: nothing went over it that could be lost.
                    Err(SdpError::AddressChanged { .. }) => {}
                    end => return end,
                }
            }
        };
        let stream = self.within(options.connect_timeout, connects).await?;
        self.shared.stats.borrow_mut().connected += 1;
        Ok(stream)
    }

    async fn connects(&self, there: Address, options: SdpOptions) -> Result<SdpStream<V>, SdpError> {
        let Shared { rt, mesh, .. } = &*self.shared;
        let id = u128::from(rt.random()) << 64 | u128::from(rt.random());
        let largest = self.largest();
        let here = Address { rank: mesh.me(), port: self.port_toward(there)? };
        let socket = self.shared.table.borrow_mut().insert(|handle| {
            let me = greeting(handle, options);
            Rc::new(Socket::new(handle, id, [here, there], options, Endpoint::asking(me).taking(largest)))
        });
        self.begins_with(&socket);
        // From here on, a call that is dropped gives the stream up.
        let stream = SdpStream::new(self, Rc::clone(&socket));
        self.flush(&socket);
        stream.stands().await?;
        Ok(stream)
    }

    /// A port for a stream toward an address: two streams between the same two ports of two nodes could not be told apart.
    fn port_toward(&self, there: Address) -> Result<u16, SdpError> {
        let table = self.shared.table.borrow();
        let with_it = || table.with(there.rank).filter(|socket| socket.remote == there);
        self.ephemeral(|port| with_it().any(|socket| socket.local.port == port))
            .ok_or(SdpError::PortInUse(there.port))
    }

    /// The next port behind the one that was taken last, among those for which nobody asks, where nobody listens and that is not in use.
    pub(super) fn ephemeral(&self, is_in_use: impl Fn(u16) -> bool) -> Option<u16> {
        let Shared { next_port, listeners, .. } = &*self.shared;
        let listeners = listeners.borrow();
        let next = next_port.get();
        let mut ports = (next..=*EPHEMERAL.end()).chain(*EPHEMERAL.start()..next);
        let port = ports.find(|port| !listeners.contains_key(port) && !is_in_use(*port))?;
        next_port.set(if port == *EPHEMERAL.end() { *EPHEMERAL.start() } else { port + 1 });
        Some(port)
    }
}
