//! Byte streams: TCP, without blocking.

use crate::device::{Inner, TcpContext};
use crate::{Tcp, refused};
use mio::Token;
use mio::net;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::task::{Context, Poll};
use weft_verbs::machine::notice_death;
use weft_verbs::{OutOfBand, Result, Service, Stream, StreamListener, VerbsError};

/// The machine's network.
#[derive(Clone)]
pub struct TcpOob(Rc<Inner>);

impl fmt::Debug for TcpOob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpOob").finish_non_exhaustive()
    }
}

impl TcpOob {
    pub(crate) fn new(context: &TcpContext) -> TcpOob {
        TcpOob(Rc::clone(&context.0))
    }

    /// One end of a pair of connected sockets, whose other end another thread of this process has.
    ///
    /// # Errors
    ///
    /// The operating system cannot watch it.
    pub fn adopt_local(&self, stream: UnixStream) -> Result<TcpStream> {
        stream.set_nonblocking(true).map_err(refused("fcntl"))?;
        let local = Socket::Local(net::UnixStream::from_std(stream));
        TcpStream::new(local, &self.0).map_err(refused("epoll_ctl"))
    }
}

impl OutOfBand<Tcp> for TcpOob {
    fn listen(&self, service: Service) -> Result<TcpStreamListener> {
        let at = SocketAddr::new(self.0.address, service.0);
        let mut listener = net::TcpListener::bind(at).map_err(refused("bind"))?;
        let token = self.0.reactor.watch(&mut listener).map_err(refused("epoll_ctl"))?;
        Ok(TcpStreamListener { listener, token, machine: Rc::clone(&self.0) })
    }

    fn connect(&self, node: &str, service: Service) -> Result<TcpStream> {
        let no_address = VerbsError::Invalid("nobody told the address of a machine of that name");
        let address = self.0.lookup(node).ok_or(no_address)?;
        let stream =
            net::TcpStream::connect(SocketAddr::new(address, service.0)).map_err(refused("connect"))?;
        TcpStream::new(Socket::Tcp(stream), &self.0).map_err(refused("epoll_ctl"))
    }
}

/// Takes incoming streams.
pub struct TcpStreamListener {
    listener: net::TcpListener,
    token: Token,
    machine: Rc<Inner>,
}

impl fmt::Debug for TcpStreamListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.listener.fmt(f)
    }
}

impl Drop for TcpStreamListener {
    fn drop(&mut self) {
        self.machine.reactor.forget(&mut self.listener, self.token);
    }
}

impl StreamListener<Tcp> for TcpStreamListener {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        // The waker first: readiness that comes in between is not lost.
        self.machine.reactor.when_readable(self.token, cx.waker());
        match ready(self.listener.accept()) {
            Poll::Ready(Ok((stream, _))) => Poll::Ready(TcpStream::new(Socket::Tcp(stream), &self.machine)),
            Poll::Ready(Err(why)) => Poll::Ready(Err(why)),
            Poll::Pending => Poll::Pending,
        }
    }
}

enum Socket {
    Tcp(net::TcpStream),
    Local(net::UnixStream),
}

/// A byte stream.
pub struct TcpStream {
    socket: Socket,
    token: Token,
    machine: Rc<Inner>,
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Socket::Tcp(stream) => stream.fmt(f),
            Socket::Local(stream) => stream.fmt(f),
        }
    }
}

impl TcpStream {
    fn new(mut socket: Socket, machine: &Rc<Inner>) -> io::Result<TcpStream> {
        let token = match &mut socket {
            Socket::Tcp(stream) => {
                // One that is still connecting may refuse: then small messages wait for each other.
                let _ = stream.set_nodelay(true);
                // Without this a stream to a machine that lost its power may stay for ever.
                let _ = notice_death(stream);
                machine.reactor.watch(stream)?
            }
            Socket::Local(stream) => machine.reactor.watch(stream)?,
        };
        Ok(TcpStream { socket, token, machine: Rc::clone(machine) })
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        match &mut self.socket {
            Socket::Tcp(stream) => self.machine.reactor.forget(stream, self.token),
            Socket::Local(stream) => self.machine.reactor.forget(stream, self.token),
        }
    }
}

/// What a call came to that does not block. A stream that is connecting answers like one that is full.
fn ready<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => Poll::Pending,
        other => Poll::Ready(other),
    }
}

impl Stream for TcpStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.machine.reactor.when_readable(self.token, cx.waker());
        ready(match &mut self.socket {
            Socket::Tcp(stream) => stream.read(into),
            Socket::Local(stream) => stream.read(into),
        })
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.machine.reactor.when_writable(self.token, cx.waker());
        ready(match &mut self.socket {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Local(stream) => stream.write(bytes),
        })
    }

    fn poll_shutdown(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match &self.socket {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Local(stream) => stream.shutdown(Shutdown::Write),
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::net::sockopt;
    use std::net::TcpListener;

    #[test]
    fn streams_are_told_to_notice_a_machine_that_lost_its_power_at_both_ends() {
        let context = TcpContext::open(None, None).expect("a machine");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let asks = net::TcpStream::connect(listener.local_addr().expect("an address")).expect("a stream");
        let (asked, _) = listener.accept().expect("it comes");
        asked.set_nonblocking(true).expect("it may");
        for end in [asks, net::TcpStream::from_std(asked)] {
            let stream = TcpStream::new(Socket::Tcp(end), &context.0).expect("it is watched");
            let Socket::Tcp(socket) = &stream.socket else { panic!("it is none of TCP") };
            assert_eq!(sockopt::socket_keepalive(socket), Ok(true));
            assert_eq!(sockopt::tcp_user_timeout(socket), Ok(40_000));
        }
    }
}
