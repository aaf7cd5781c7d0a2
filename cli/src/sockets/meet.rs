//! How the two ends of a pipe or a copy meet: by one TCP connection, over which each says where its devices are.

use crate::exit::Failure;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use weft_control::net::{Endpoint, canonical};

/// How long the other end may take to introduce itself. Who connects and says nothing does not keep others waiting.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// After how long whoever waits for its turn is told so.
const SOON: Duration = Duration::from_secs(1);
/// How long it may take to reach the other end: as long as a stream waits for a peer that is away. (What is lost on a cut link is sent again
/// after 1, 3, 7 and 15 s.)
const REACHED_WITHIN: Duration = Duration::from_secs(30);
/// How long an introduction may be, in bytes.
const LONGEST: usize = 4_096;
/// Between two looks at whether the user wants to stop.
const GLANCE: Duration = Duration::from_millis(100);

/// What an end says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Introduction {
    /// What it is: `weft-pipe-1`, say. Both ends must be the same.
    pub weft: String,
    /// The addresses of its devices, by rail.
    pub addresses: Vec<IpAddr>,
    /// The service of their connection managers at which it listens.
    pub service: u16,
}

/// Listens for others.
pub fn listen(port: u16) -> Result<TcpListener, Failure> {
    // Both families where the machine has both.
    let any = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let places = any.map(|address| SocketAddr::new(address, port));
    let listener = TcpListener::bind(&places[..]);
    let listener = listener.map_err(|why| Failure::unfinished(format!("port {port}: {why}")))?;
    listener.set_nonblocking(true).map_err(Failure::unfinished)?;
    Ok(listener)
}

/// Waits for the next one who connects: `None` when the user wants to stop.
pub fn accept(
    listener: &TcpListener,
    stop: &dyn Fn() -> bool,
) -> Result<Option<(TcpStream, SocketAddr)>, Failure> {
    let mut told = false;
    while !stop() {
        match listener.accept() {
            Ok((stream, from)) => {
                stream.set_nonblocking(false).map_err(Failure::unfinished)?;
                return Ok(Some((stream, canonical(from))));
            }
            // One who is gone again is nobody's trouble.
            Err(why) if [ErrorKind::WouldBlock, ErrorKind::ConnectionAborted].contains(&why.kind()) => {
                thread::sleep(GLANCE);
            }
            Err(why) if is_for_good(&why) => return Err(Failure::unfinished(why)),
            // Whoever calls waits until there are descriptors again, say: what is under way for others goes on.
            Err(why) => {
                if !std::mem::replace(&mut told, true) {
                    let _ = writeln!(io::stderr().lock(), "weft: nobody can be taken now: {why}");
                }
                thread::sleep(GLANCE);
            }
        }
    }
    Ok(None)
}

/// Whether the listener itself is of no use any more.
fn is_for_good(why: &io::Error) -> bool {
    // EBADF, EINVAL, ENOTSOCK, EOPNOTSUPP (accept(2)).
    why.raw_os_error().is_none_or(|number| [9, 22, 88, 95].contains(&number))
}

/// Connects to one who listens, unless the user wants to stop meanwhile.
pub fn call(to: &Endpoint, stop: &dyn Fn() -> bool) -> Result<TcpStream, Failure> {
    let place = to.clone();
    let called = beside(move || reach(&place), stop)?;
    called.map_err(|why| Failure::unfinished(format!("{to}: {why}")))
}

/// Makes a call that may take long in a thread, and waits for its end, unless the user wants to stop meanwhile: the process ends then, and the
/// thread with it.
fn beside<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
    stop: &dyn Fn() -> bool,
) -> Result<T, Failure> {
    let (tell, told) = mpsc::channel();
    thread::Builder::new().spawn(move || drop(tell.send(call()))).map_err(Failure::unfinished)?;
    loop {
        match told.recv_timeout(GLANCE) {
            Ok(end) => return Ok(end),
            Err(RecvTimeoutError::Timeout) if !stop() => {}
            Err(RecvTimeoutError::Timeout) => return Err(Failure::unfinished("it was interrupted")),
            Err(why) => return Err(Failure::unfinished(why)),
        }
    }
}

/// Connects to the first of a place's addresses that answers.
fn reach(to: &Endpoint) -> io::Result<TcpStream> {
    let mut why = io::Error::other("the name has no address");
    for address in (to.host.as_str(), to.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, REACHED_WITHIN) {
            Ok(stream) => return Ok(stream),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Introduces one who was called to the one who calls. The connection is of no more use afterwards.
///
/// Whoever calls speaks second: one that has gone by now has said nothing, and is not waited for.
pub fn answer(
    stream: &TcpStream,
    own: &Introduction,
    stop: &dyn Fn() -> bool,
) -> Result<Introduction, String> {
    say(stream, own)?;
    known(&hear(stream, PATIENCE, stop)?, own)
}

/// How one who calls waits for its turn: the other end may take one after another.
#[derive(Clone, Copy)]
pub struct Turn {
    /// How long.
    pub patience: Duration,
    /// Its user is not told that it waits.
    pub quiet: bool,
}

/// The same for the one who calls, and waits for its turn.
pub fn ask(
    stream: &TcpStream,
    own: &Introduction,
    turn: Turn,
    stop: &dyn Fn() -> bool,
) -> Result<Introduction, String> {
    await_turn(stream, turn, stop)?;
    let said = hear(stream, PATIENCE, stop)?;
    // A stranger is told, too, who called.
    let told = say(stream, own);
    let theirs = known(&said, own)?;
    told.map(|()| theirs)
}

/// Waits until the other end says something, or has gone.
fn await_turn(stream: &TcpStream, turn: Turn, stop: &dyn Fn() -> bool) -> Result<(), String> {
    let (began, comes) = (Instant::now(), || stream.peek(&mut [0]));
    if look(stream, began + SOON.min(turn.patience), stop, comes)?.is_some() {
        return Ok(());
    }
    if !turn.quiet {
        let _ = writeln!(io::stderr().lock(), "weft: waiting for the other end, which may be busy");
    }
    let seconds = turn.patience.as_secs();
    let busy = || format!("the other end has said nothing for {seconds} s: it may be busy with another");
    look(stream, began + turn.patience, stop, comes)?.map(drop).ok_or_else(busy)
}

/// Looks at a connection again and again until something comes there, or has gone; `None` if nothing has by then.
fn look<T>(
    stream: &TcpStream,
    until: Instant,
    stop: &dyn Fn() -> bool,
    mut comes: impl FnMut() -> io::Result<T>,
) -> Result<Option<T>, String> {
    stream.set_read_timeout(Some(GLANCE)).map_err(|why| why.to_string())?;
    while Instant::now() < until {
        if stop() {
            return Err("it was interrupted".to_string());
        }
        match comes() {
            Ok(came) => return Ok(Some(came)),
            Err(why) if is_silence(&why) => {}
            Err(why) => return Err(format!("the other end: {why}")),
        }
    }
    Ok(None)
}

fn is_silence(why: &io::Error) -> bool {
    [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted].contains(&why.kind())
}

fn say(mut stream: &TcpStream, own: &Introduction) -> Result<(), String> {
    stream.set_write_timeout(Some(PATIENCE)).map_err(|why| why.to_string())?;
    let mut line = serde_json::to_vec(own).map_err(|why| why.to_string())?;
    line.push(b'\n');
    stream.write_all(&line).map_err(|why| format!("the other end: {why}"))
}

/// A line of the other end, all of which comes so soon.
fn hear(mut stream: &TcpStream, patience: Duration, stop: &dyn Fn() -> bool) -> Result<String, String> {
    let until = Instant::now() + patience;
    let (mut said, mut part) = (Vec::new(), [0; 512]);
    while !said.contains(&b'\n') && said.len() < LONGEST {
        match look(stream, until, stop, || stream.read(&mut part))? {
            None => return Err("the other end does not introduce itself".to_string()),
            Some(0) if said.is_empty() => return Err("the other end has gone".to_string()),
            Some(0) => break,
            Some(len) => said.extend_from_slice(&part[..len]),
        }
    }
    let line = said.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

/// Whoever has introduced itself with such a line, if the two can do something with each other.
fn known(said: &str, own: &Introduction) -> Result<Introduction, String> {
    let theirs: Introduction =
        serde_json::from_str(said).map_err(|_| "the other end speaks another language".to_string())?;
    if theirs.weft != own.weft {
        return Err(format!("the other end is {}, and this is {}", theirs.weft, own.weft));
    }
    if theirs.addresses.is_empty() {
        return Err("the other end has no device with an IP address".to_string());
    }
    Ok(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(weft: &str, service: u16) -> Introduction {
        let addresses = vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1))];
        Introduction { weft: weft.to_string(), addresses, service }
    }

    fn connected(port: u16) -> TcpStream {
        call(&Endpoint::new("localhost", port), &|| false).expect("it listens")
    }

    fn patient(patience: Duration) -> Turn {
        Turn { patience, quiet: true }
    }

    fn asked(stream: TcpStream, weft: &str) -> Result<Introduction, String> {
        ask(&stream, &own(weft, 7), patient(PATIENCE), &|| false)
    }

    /// What each end learns of the other; the one that is called runs in a thread.
    fn met(
        caller: impl FnOnce(TcpStream) + Send + 'static,
        called: &Introduction,
    ) -> Result<Introduction, String> {
        let listener = listen(0).expect("a port of the system's choice");
        let port = listener.local_addr().expect("it listens").port();
        let calling = thread::spawn(move || caller(connected(port)));
        let (stream, _) = accept(&listener, &|| false).expect("it listens").expect("nobody stops");
        let end = answer(&stream, called, &|| false);
        calling.join().expect("it ends");
        end
    }

    #[test]
    fn two_that_are_the_same_learn_where_the_other_is() {
        let caller = |stream| {
            let theirs = asked(stream, "weft-pipe-1");
            assert_eq!(theirs, Ok(own("weft-pipe-1", 8)));
        };
        assert_eq!(met(caller, &own("weft-pipe-1", 8)), Ok(own("weft-pipe-1", 7)));
    }

    #[test]
    fn strangers_are_told_apart() {
        let copies = |stream| drop(asked(stream, "weft-cp-1"));
        let why = met(copies, &own("weft-pipe-1", 8)).expect_err("another tool");
        assert!(why.contains("weft-cp-1"), "{why}");
        let browser = |mut stream: TcpStream| {
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
            // It stays until it has an answer.
            let _ = stream.read(&mut [0; 512]);
        };
        let why = met(browser, &own("weft-pipe-1", 8)).expect_err("a stranger");
        assert!(why.contains("another language"), "{why}");
        let silent = |stream: TcpStream| drop(stream);
        assert!(met(silent, &own("weft-pipe-1", 8)).is_err());
    }

    /// As one that takes callers one after another is while it has another one: the call is in the system's queue.
    fn busy() -> (TcpListener, TcpStream) {
        let listener = listen(0).expect("a port of the system's choice");
        let port = listener.local_addr().expect("it listens").port();
        (listener, connected(port))
    }

    #[test]
    fn a_caller_that_goes_before_its_turn_keeps_nobody() {
        let (listener, calls) = busy();
        let end = ask(&calls, &own("weft-perf-1", 7), patient(PATIENCE), &|| true);
        assert_eq!(end, Err("it was interrupted".to_string()));
        drop(calls);
        let (stream, _) = accept(&listener, &|| false).expect("it listens").expect("nobody stops");
        let began = Instant::now();
        assert!(answer(&stream, &own("weft-perf-1", 8), &|| false).is_err(), "nobody is there");
        assert!(began.elapsed() < PATIENCE / 2);
    }

    #[test]
    fn a_caller_that_has_waited_long_enough_is_told_why() {
        let (_listener, calls) = busy();
        let end = ask(&calls, &own("weft-perf-1", 7), patient(GLANCE), &|| false);
        assert!(end.as_ref().is_err_and(|why| why.contains("busy")), "{end:?}");
    }

    #[test]
    fn a_caller_that_never_ends_its_line_keeps_nobody() {
        let (listener, mut calls) = busy();
        let drips = thread::spawn(move || {
            while calls.write_all(b" ").is_ok() {
                thread::sleep(GLANCE / 10);
            }
        });
        let (stream, _) = accept(&listener, &|| false).expect("it listens").expect("nobody stops");
        let began = Instant::now();
        assert!(hear(&stream, GLANCE, &|| false).is_err());
        assert!(began.elapsed() < PATIENCE / 2);
        drop(stream);
        drips.join().expect("it ends");
    }

    #[test]
    fn one_who_calls_and_is_not_answered_stops_when_its_user_wants() {
        let (_answers, answered) = mpsc::channel::<()>();
        let end = beside(move || answered.recv(), &|| true);
        assert_eq!(end.map_err(|why| why.to_string()), Err("it was interrupted".to_string()));
    }

    #[test]
    fn one_who_calls_by_ipv4_is_told_by_that_address() {
        let listener = listen(0).expect("a port of the system's choice");
        let port = listener.local_addr().expect("it listens").port();
        let _calls = call(&Endpoint::new("127.0.0.1", port), &|| false).expect("it listens");
        let (_, from) = accept(&listener, &|| false).expect("it listens").expect("nobody stops");
        assert_eq!(from.ip().to_string(), "127.0.0.1");
    }

    #[test]
    fn a_listener_stops_when_its_user_wants() {
        let (listener, calls) = busy();
        let (stream, _) = accept(&listener, &|| false).expect("it listens").expect("nobody stops");
        assert!(accept(&listener, &|| true).expect("it listens").is_none());
        let end = answer(&stream, &own("weft-perf-1", 8), &|| true);
        assert_eq!(end, Err("it was interrupted".to_string()));
        drop(calls);
    }
}
