//! Byte streams beside the fabric: TCP, without blocking.

use crate::device::{ContextInner, HwContext, NO_ADDRESS};
use crate::Hw;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::task::{Context, Poll};
use weft_verbs::machine::notice_death;
use weft_verbs::{OutOfBand, Result, Service, Stream, StreamListener, VerbsError};

/// The machine's ordinary network.
#[derive(Clone)]
pub struct HwOob(Rc<ContextInner>);

impl fmt::Debug for HwOob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HwOob").finish_non_exhaustive()
    }
}

impl HwOob {
    pub(crate) fn new(context: &HwContext) -> HwOob {
        HwOob(Rc::clone(&context.0))
    }

    /// A stream that a launcher has connected already.
    pub fn adopt(&self, stream: TcpStream) -> Result<HwStream> {
        stream.set_nonblocking(true).map_err(refused("fcntl"))?;
        HwStream::new(stream, &self.0)
    }

    /// One end of a pair of connected sockets, whose other end another thread of this process has.
    pub fn adopt_local(&self, stream: UnixStream) -> Result<HwStream> {
        // Reads, writes and readiness are those of any stream socket; what only TCP has fails and is not needed.
        self.adopt(TcpStream::from(OwnedFd::from(stream)))
    }
}

fn refused(call: &'static str) -> impl Fn(io::Error) -> VerbsError {
    move |error| crate::ffi::refused(call, error.raw_os_error().unwrap_or(libc::EINVAL))
}

/// Begins a TCP connection: the stream can be written once it stands.
fn connect_without_waiting(to: SocketAddr) -> Result<TcpStream> {
    let failed = |call, why: Errno| crate::ffi::refused(call, why.raw_os_error());
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None);
    let socket = socket.map_err(|why| failed("socket", why))?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(why) => Err(failed("connect", why)),
    }
}

impl OutOfBand<Hw> for HwOob {
    fn listen(&self, service: Service) -> Result<HwListener> {
        let own = self.0.address().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let listener = TcpListener::bind(SocketAddr::new(own, service.0)).map_err(refused("bind"))?;
        listener.set_nonblocking(true).map_err(refused("fcntl"))?;
        let token = self.0.reactor.watch_stream(listener.as_fd())?;
        Ok(HwListener { listener, token, context: Rc::clone(&self.0) })
    }

    fn connect(&self, node: &str, service: Service) -> Result<HwStream> {
        let address = self.0.lookup(node).ok_or_else(|| {
            self.0.trouble(format!("{node} cannot be reached: {NO_ADDRESS}"));
            VerbsError::Invalid(NO_ADDRESS)
        })?;
        let stream = connect_without_waiting(SocketAddr::new(address, service.0))?;
        // Without this a silent stream to a machine that lost its power may stay for ever.
        let _ = notice_death(&stream);
        HwStream::new(stream, &self.0)
    }
}

/// Takes incoming streams.
pub struct HwListener {
    listener: TcpListener,
    token: u64,
    context: Rc<ContextInner>,
}

impl fmt::Debug for HwListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.listener.fmt(f)
    }
}

impl Drop for HwListener {
    fn drop(&mut self) {
        self.context.reactor.forget_stream(self.listener.as_fd(), self.token);
    }
}

impl StreamListener<Hw> for HwListener {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<HwStream>> {
        // The waker first: readiness that comes in between is not lost.
        self.context.reactor.when_readable(self.token, cx.waker());
        match self.listener.accept() {
            Ok((stream, _)) => {
                let _ = notice_death(&stream);
                let made = stream.set_nonblocking(true).and_then(|()| {
                    HwStream::new(stream, &self.context).map_err(|e| io::Error::other(e.to_string()))
                });
                Poll::Ready(made)
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Poll::Pending,
            Err(e) => Poll::Ready(Err(e)),
        }
    }
}

/// A byte stream: TCP.
pub struct HwStream {
    stream: TcpStream,
    token: u64,
    context: Rc<ContextInner>,
}

impl fmt::Debug for HwStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

impl HwStream {
    fn new(stream: TcpStream, context: &Rc<ContextInner>) -> Result<HwStream> {
        let _ = stream.set_nodelay(true);
        let token = context.reactor.watch_stream(stream.as_fd())?;
        Ok(HwStream { stream, token, context: Rc::clone(context) })
    }
}

impl Drop for HwStream {
    fn drop(&mut self) {
        self.context.reactor.forget_stream(self.stream.as_fd(), self.token);
    }
}

fn ready<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(e) if e.kind() == ErrorKind::WouldBlock => Poll::Pending,
        other => Poll::Ready(other),
    }
}

impl Stream for HwStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.context.reactor.when_readable(self.token, cx.waker());
        ready(self.stream.read(into))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.context.reactor.when_writable(self.token, cx.waker());
        ready(self.stream.write(bytes))
    }

    fn poll_shutdown(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}
