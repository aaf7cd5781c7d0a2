//! What is needed of a network, so that the same code runs on a machine's and on a simulated one.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use tokio::io::{AsyncRead, AsyncWrite};

/// A network of byte streams.
pub trait Network: Clone + Send + Sync + 'static {
    /// A byte stream in both directions.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Where streams arrive.
    type Listener: Listener<Stream = Self::Stream>;

    /// Listens at an address of this machine.
    fn bind(&self, at: &Endpoint) -> impl Future<Output = io::Result<Self::Listener>> + Send;

    /// The addresses of a machine, in the order in which they are to be tried.
    fn resolve(&self, of: &Endpoint) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;

    /// Connects to an address.
    fn connect(&self, to: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// Where streams arrive.
pub trait Listener: Send + Sync + 'static {
    /// What arrives.
    type Stream;

    /// The next stream, and where it comes from.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;

    /// Where it listens; tells the port where the system chose one.
    fn local(&self) -> io::Result<SocketAddr>;
}

/// Where somebody comes from, as people write it: one who comes by IPv4 to a socket of IPv6 has an address of IPv6 there.
pub fn canonical(from: SocketAddr) -> SocketAddr {
    SocketAddr::new(from.ip().to_canonical(), from.port())
}

/// Whether a stream could not be taken because this process, or the machine, has as many files open as it may (EMFILE, ENFILE).
pub fn are_files_used_up(why: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(why.raw_os_error(), Some(ENFILE | EMFILE))
}

/// A machine, by name or address, and a port: `n0:7471`, `10.0.0.1:7471`, `[::1]:7471`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address.
    pub host: String,
    /// A TCP port.
    pub port: u16,
}

impl Endpoint {
    /// A machine and a port.
    pub fn new(host: impl Into<String>, port: u16) -> Endpoint {
        Endpoint { host: host.into(), port }
    }

    /// Reads `HOST:PORT`, for what has no usual port.
    ///
    /// # Errors
    /// It is none, or says no port: one line.
    pub fn with_port(text: &str) -> Result<Endpoint, String> {
        let missing = || format!("'{text}' has no port: HOST:PORT, as in 127.0.0.1:9471");
        let (host, port) = parts(text)?;
        port.map(|port| Endpoint::new(host, port)).ok_or_else(missing)
    }

    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        address.map_or(self.host == "localhost", |address| address.is_loopback())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    /// `HOST` or `HOST:PORT`; without a port it is [`crate::PORT`].
    fn from_str(text: &str) -> Result<Endpoint, String> {
        let (host, port) = parts(text)?;
        Ok(Endpoint::new(host, port.unwrap_or(crate::PORT)))
    }
}

/// The host of a text, and the port if it has one.
fn parts(text: &str) -> Result<(&str, Option<u16>), String> {
    let wrong = || format!("'{text}' is no HOST or HOST:PORT");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(wrong)?) })
        }
        // More than one colon is an IPv6 address without a port.
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map(|port| port.parse().map_err(|_| wrong())).transpose()?;
    match host.is_empty() || host.contains(char::is_whitespace) {
        true => Err(wrong()),
        false => Ok((host, port)),
    }
}

/// The machine's TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Network for Tcp {
    type Stream = tokio::net::TcpStream;
    type Listener = tokio::net::TcpListener;

    async fn bind(&self, at: &Endpoint) -> io::Result<tokio::net::TcpListener> {
        tokio::net::TcpListener::bind((at.host.as_str(), at.port)).await
    }

    async fn resolve(&self, of: &Endpoint) -> io::Result<Vec<SocketAddr>> {
        tokio::net::lookup_host((of.host.as_str(), of.port)).await.map(Iterator::collect)
    }

    async fn connect(&self, to: SocketAddr) -> io::Result<tokio::net::TcpStream> {
        let stream = tokio::net::TcpStream::connect(to).await?;
        // Messages are short and waited for.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Listener for tokio::net::TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn accept(&self) -> io::Result<(tokio::net::TcpStream, SocketAddr)> {
        let (stream, from) = tokio::net::TcpListener::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((stream, canonical(from)))
    }

    fn local(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_they_are_shown() {
        for (text, host, port) in [
            ("n0", "n0", 7_471),
            ("n0:80", "n0", 80),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("::1", "::1", 7_471),
            ("[::1]:80", "::1", 80),
            ("[::1]", "::1", 7_471),
        ] {
            let endpoint: Endpoint = text.parse().expect(text);
            assert_eq!(endpoint, Endpoint::new(host, port), "{text}");
            assert_eq!(endpoint.to_string().parse(), Ok(endpoint), "{text}");
        }
        for text in ["", ":80", "n0:", "n0:x", "n0:70000", "[::1", "[::1]80", "a b"] {
            assert_eq!(text.parse::<Endpoint>(), Err(format!("'{text}' is no HOST or HOST:PORT")));
        }
    }

    #[tokio::test]
    async fn one_who_comes_by_ipv4_to_all_addresses_is_told_by_that_address() {
        let mut listener = Tcp.bind(&Endpoint::new("::", 0)).await;
        if listener.is_err() {
            // Not all machines have IPv6.
            listener = Tcp.bind(&Endpoint::new("0.0.0.0", 0)).await;
        }
        let listener = listener.expect("a port of the system's choice");
        let port = listener.local().expect("it listens").port();
        let _stream = Tcp.connect(SocketAddr::from(([127, 0, 0, 1], port))).await.expect("it listens");
        let (_, from) = Listener::accept(&listener).await.expect("one has come");
        assert_eq!(from.ip().to_string(), "127.0.0.1");
        let other: SocketAddr = "[fd00::1]:80".parse().expect("an address");
        assert_eq!(canonical(other), other);
    }

    #[test]
    fn loopback_is_known_by_address_or_name() {
        for (host, loopback) in
            [("127.0.0.1", true), ("::1", true), ("localhost", true), ("0.0.0.0", false), ("n0", false)]
        {
            assert_eq!(Endpoint::new(host, 1).is_loopback(), loopback, "{host}");
        }
    }
}
