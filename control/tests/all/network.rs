//! Turmoil's network, with a count of the sockets that are open, and a bound of those that a door may have taken.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
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
pub struct Simulated {
    sockets: Sockets,
    /// How many streams that it took a host may have open at a time.
    most: usize,
}

impl Simulated {
    /// Counts the sockets here.
    pub fn new(sockets: Sockets) -> Simulated {
        Simulated { sockets, most: usize::MAX }
    }

    /// The same on a host that takes so many streams at a time and no more: then no file is left.
    pub fn with_files(self, most: usize) -> Simulated {
        Simulated { most, ..self }
    }

    /// A connection to a port of a host that listens.
    pub async fn to(&self, host: &str, port: u16) -> Stream {
        self.connect(SocketAddr::new(turmoil::lookup(host), port)).await.expect("it listens")
    }
}

impl Network for Simulated {
    type Stream = Stream;
    type Listener = Door;

    async fn bind(&self, at: &Endpoint) -> io::Result<Door> {
        let listener = turmoil::net::TcpListener::bind((at.host.as_str(), at.port)).await?;
        let (sockets, taken, backlog) = (self.sockets.clone(), Sockets::default(), Mutex::default());
        Ok(Door { listener, sockets, taken, most: self.most, backlog, _one: self.sockets.one() })
    }

    /// A name with commas is one of several machines.
    async fn resolve(&self, of: &Endpoint) -> io::Result<Vec<SocketAddr>> {
        Ok(of.host.split(',').map(|host| SocketAddr::new(turmoil::lookup(host), of.port)).collect())
    }

    async fn connect(&self, to: SocketAddr) -> io::Result<Stream> {
        let stream = turmoil::net::TcpStream::connect(to).await?;
        Ok(Stream { stream, _one: self.sockets.one(), _taken: None })
    }
}

/// A listening socket.
pub struct Door {
    listener: turmoil::net::TcpListener,
    sockets: Sockets,
    /// Those that it took.
    taken: Sockets,
    most: usize,
    /// One that has come, and for which no file is left.
    backlog: Mutex<Option<(turmoil::net::TcpStream, SocketAddr)>>,
    _one: One,
}

impl Door {
    fn backlog(&self) -> Option<(turmoil::net::TcpStream, SocketAddr)> {
        self.backlog.lock().expect("nobody panics with it").take()
    }
}

impl Listener for Door {
    type Stream = Stream;

    async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (stream, from) = match self.backlog() {
            Some(waited) => waited,
            None => self.listener.accept().await?,
        };
        if self.taken.open() >= self.most {
            *self.backlog.lock().expect("nobody panics with it") = Some((stream, from));
            // Linux's EMFILE; what has come waits.
            return Err(io::Error::from_raw_os_error(24));
        }
        Ok((Stream { stream, _one: self.sockets.one(), _taken: Some(self.taken.one()) }, from))
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
    /// If a door took it.
    _taken: Option<One>,
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
