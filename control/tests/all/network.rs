//! Turmoil's network, with a count of the sockets that are open.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weft_control::net::{Endpoint, Listener, Network};

/// Sockets that are open on all hosts of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Sockets(Arc<AtomicUsize>);

impl Sockets {
    /// How many.
    pub fn open(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn one(&self) -> One {
        self.0.fetch_add(1, Ordering::SeqCst);
        One(self.clone())
    }
}

/// Stands for an open socket.
#[derive(Debug)]
struct One(Sockets);

impl Drop for One {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The network of the host that uses it.
#[derive(Clone, Debug)]
pub struct Simulated(pub Sockets);

impl Network for Simulated {
    type Stream = Stream;
    type Listener = Door;

    async fn bind(&self, at: &Endpoint) -> io::Result<Door> {
        let listener = turmoil::net::TcpListener::bind((at.host.as_str(), at.port)).await?;
        Ok(Door { listener, sockets: self.0.clone(), _one: self.0.one() })
    }

    async fn connect(&self, to: &Endpoint) -> io::Result<Stream> {
        let stream = turmoil::net::TcpStream::connect((to.host.as_str(), to.port)).await?;
        Ok(Stream { stream, _one: self.0.one() })
    }
}

/// A listening socket.
pub struct Door {
    listener: turmoil::net::TcpListener,
    sockets: Sockets,
    _one: One,
}

impl Listener for Door {
    type Stream = Stream;

    async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (stream, from) = self.listener.accept().await?;
        Ok((Stream { stream, _one: self.sockets.one() }, from))
    }

    fn local(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connected socket.
#[derive(Debug)]
pub struct Stream {
    stream: turmoil::net::TcpStream,
    _one: One,
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
