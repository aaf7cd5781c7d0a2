//! What `weft pipe` and `weft cp` do, on this machine's devices.

use super::args::{CpArgs, Over, PipeArgs, Target};
use super::broken::Broken;
use super::meet::{self, Introduction, PATIENCE, Turn};
use super::pair::{Devices, PORT, Pair, Role, Waits, listener};
use super::stdio;
use super::store::{Folder, Reads};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::table::count;
use crate::{interrupt, output};
use std::cell::RefCell;
use std::fs::{self, File, Metadata};
use std::future::ready;
use std::io::{self, IsTerminal, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use weft_control::net::Endpoint;
use weft_protocols::sdp::SdpError;
use weft_protocols::sdp::copy::{self, CopyError, Stored};
use weft_protocols::sdp::pipe::{Ends, PipeError, pipe as carry};
use weft_protocols::transport::MeshStats;
use weft_verbs::Nanos;

const PIPE: &str = "weft-pipe-1";
const COPY: &str = "weft-cp-1";
/// How long one who takes a file waits for more of it. A link that is down for so long has been given up by then.
const SILENCE: Nanos = Nanos::from_secs(60);

/// `weft pipe`.
pub fn pipe(args: &PipeArgs) -> Result<Exit, Failure> {
    interrupt::install();
    let devices = Devices::open(&args.over)?;
    let (pair, role) = match (&args.to, args.listen) {
        (Some(to), _) => (
            calls(meet::call(to, &interrupt::requested)?, devices, soon(&args.over), PIPE, Waits::Forever)?,
            Role::Caller,
        ),
        (None, port) => {
            let waiting = meet::listen(port.unwrap_or_default())?;
            let Some((stream, _)) = meet::accept(&waiting, &interrupt::requested)? else {
                return Err(Failure::unfinished("it was interrupted"));
            };
            (called(stream, devices, PIPE, Waits::Forever)?, Role::Listener)
        }
    };
    let input = stdio::Input::open(&pair.contexts[0]).map_err(Failure::unfinished)?;
    let (output, writes) = stdio::output(&pair.contexts[0]).map_err(Failure::unfinished)?;
    let ends = if io::stdin().is_terminal() { Ends::WithPeer } else { Ends::Both };
    let (rt, sdp, mesh, began) = (pair.rt.clone(), pair.sdp.clone(), pair.mesh.clone(), Instant::now());
    let ended = pair.run(async move {
        let stream = match role {
            Role::Listener => sdp.bind(PORT)?.accept().await?,
            Role::Caller => sdp.connect(listener(), PORT).await?,
        };
        // It has parted: that the peer's end has all of it is a part of how it ends.
        let piped = carry(&rt, stream, input, output, ends).await?;
        Ok((piped, ready(())))
    });
    let piped = writes.end(ended?).map_err(|why: Broken<PipeError>| Failure::unfinished(why))?;
    if !args.over.quiet {
        let (sent, received) = (count(piped.sent), count(piped.received));
        say(&format!("sent {sent} bytes, received {received}, {}", course(began, mesh.stats())));
    }
    Ok(Exit::Held)
}

/// `weft cp`.
pub fn cp(args: &CpArgs) -> Result<Exit, Failure> {
    interrupt::install();
    match (&args.serve, &args.file, &args.to) {
        (Some(folder), ..) => serve(folder, args.port, &args.over),
        (None, Some(file), Some(to)) => put(file, to, args.port, &args.over),
        // The command line's rules let nothing else through.
        _ => Err(Failure::bad_input("a file and NODE:PATH, or --serve DIR")),
    }
}

/// A file that is to be sent, and its length.
fn opened(file: &Path) -> Result<(File, u64), Failure> {
    let wrong = |why: io::Error| Failure::bad_input(format!("{}: {why}", file.display()));
    let len_of = |meta: Metadata| match meta.is_file() {
        true => Ok(meta.len()),
        false => Err(Failure::bad_input(format!("{} is no file", file.display()))),
    };
    // To open a named pipe waits for a writer, and Ctrl-C does not end that.
    len_of(fs::metadata(file).map_err(wrong)?)?;
    let source = File::open(file).map_err(wrong)?;
    let len = len_of(source.metadata().map_err(wrong)?)?;
    Ok((source, len))
}

fn put(file: &Path, to: &Target, port: u16, over: &Over) -> Result<Exit, Failure> {
    let name = to.name_of(file).map_err(Failure::bad_input)?;
    let (source, len) = opened(file)?;
    let place = Endpoint::new(&*to.node, port);
    let devices = Devices::open(over)?;
    let pair =
        calls(meet::call(&place, &interrupt::requested)?, devices, soon(over), COPY, Waits::WhileItLives)?;
    let source = stdio::pair(&pair.contexts[0]).and_then(|pair| Reads::new(source, pair));
    let source = source.map_err(Failure::unfinished)?;
    let (rt, sdp, mesh, began) = (pair.rt.clone(), pair.sdp.clone(), pair.mesh.clone(), Instant::now());
    let progress = std::rc::Rc::new(RefCell::new(Some(Progress::begin(over.quiet))));
    let (shows, stored) = (std::rc::Rc::clone(&progress), name.clone());
    let ended = pair.run(async move {
        let stream = sdp.connect(listener(), PORT).await?;
        let tell = |there: u64| {
            if let Some(shown) = shows.borrow_mut().as_mut() {
                let words = || format!("{} of {} bytes", count(there), count(len));
                shown.at(there as f64 / len.max(1) as f64, words);
            }
        };
        let parting = copy::put_and_stay(&rt, &sdp, stream, (&name, len), source, tell).await?;
        Ok(((), parting.part()))
    });
    progress.take().map(Progress::end).unwrap_or_default();
    ended?.map_err(|why: Broken<CopyError>| Failure::unfinished(why).at(file.display()))?;
    if !over.quiet {
        say(&format!("{}:{stored}: {} bytes, {}", to.node, count(len), course(began, mesh.stats())));
    }
    Ok(Exit::Held)
}

/// Takes files until the user wants to stop. Each sender has a thread with devices of its own, so a slow one holds up nobody.
fn serve(folder: &Path, port: u16, over: &Over) -> Result<Exit, Failure> {
    if !folder.is_dir() {
        return Err(Failure::bad_input(format!("{} is no folder", folder.display())));
    }
    // What is wrong with the devices is said before anybody comes.
    drop(Devices::open(over)?);
    let waiting = meet::listen(port)?;
    let mut takers = Vec::new();
    say(&format!("taking files into {} at port {port}", folder.display()));
    while let Some((stream, from)) = meet::accept(&waiting, &interrupt::requested)? {
        let (folder, over) = (folder.to_path_buf(), over.clone());
        takers.retain(|taker: &std::thread::JoinHandle<()>| !taker.is_finished());
        let takes = move || match take(stream, &folder, &over) {
            Ok((Ok(Stored { name, len }), course)) if !over.quiet => {
                say(&format!("{name}: {} bytes from {}, {course}", count(len), from.ip()));
            }
            Ok((Ok(_), _)) => {}
            Ok((Err(why @ Broken { why: CopyError::Named(_), .. }), _)) => {
                say(&format!("a file of {}: {why}", from.ip()))
            }
            Ok((Err(why), _)) => say(&not_stored(from, &Failure::unfinished(why))),
            Err(why) => say(&not_stored(from, &why)),
        };
        match std::thread::Builder::new().spawn(takes) {
            Ok(taker) => takers.push(taker),
            Err(why) => say(&not_stored(from, &Failure::unfinished(why))),
        }
    }
    takers.into_iter().for_each(|taker| drop(taker.join()));
    Ok(Exit::Held)
}

fn not_stored(from: SocketAddr, why: &Failure) -> String {
    format!("nothing stored of {}: {why}", from.ip())
}

/// What became of a file, and how it went.
type Taken = (Result<Stored, Broken<CopyError>>, String);

fn take(stream: TcpStream, folder: &Path, over: &Over) -> Result<Taken, Failure> {
    let devices = Devices::open(over)?;
    let pair = called(stream, devices, COPY, Waits::AtMost(SILENCE))?;
    let (rt, sdp, mesh, began) = (pair.rt.clone(), pair.sdp.clone(), pair.mesh.clone(), Instant::now());
    let context = pair.contexts[0].clone();
    let (folder, fate) = Folder::new(folder, move || stdio::pair(&context));
    let ended = pair.run(async move {
        let listens = sdp.bind(PORT)?;
        let until = rt.now() + SILENCE;
        let stream = rt.deadline(until, listens.accept()).await.unwrap_or(Err(SdpError::TimedOut))?;
        let (stored, parting) = copy::take_and_stay(&sdp, stream, &folder, |_| ()).await?;
        Ok((stored, parting.part()))
    });
    let ended = match ended {
        // Whether it is safe nobody has waited for.
        Err(why) if fate.is_named() => Err(CopyError::Named(why.to_string()).into()),
        ended => ended?,
    };
    Ok((ended, course(began, mesh.stats())))
}

/// Meets the one who has called, for streams that wait so long for it.
pub(super) fn called(stream: TcpStream, devices: Devices, weft: &str, waits: Waits) -> Result<Pair, Failure> {
    let own: Introduction = devices.introduction(weft)?;
    let theirs = meet::answer(&stream, &own, &interrupt::requested).map_err(Failure::unfinished)?;
    Pair::start(devices, Role::Listener, &own, &theirs, waits)
}

/// Meets the one who was called, when it is this one's turn there.
pub(super) fn calls(
    stream: TcpStream,
    devices: Devices,
    turn: Turn,
    weft: &str,
    waits: Waits,
) -> Result<Pair, Failure> {
    let own: Introduction = devices.introduction(weft)?;
    let theirs = meet::ask(&stream, &own, turn, &interrupt::requested).map_err(Failure::unfinished)?;
    Pair::start(devices, Role::Caller, &own, &theirs, waits)
}

/// How one waits who finds the other end idle.
fn soon(over: &Over) -> Turn {
    Turn { patience: PATIENCE, quiet: over.quiet }
}

/// How it went: the time, and how often the connection was made again.
pub(super) fn course(began: Instant, mesh: MeshStats) -> String {
    let span: Duration = began.elapsed();
    let mut text = format!("{:.1} s", span.as_secs_f64());
    if mesh.reconnects > 0 {
        text += &format!(", {} connections made again", count(mesh.reconnects));
    }
    if mesh.failovers + mesh.failbacks > 0 {
        text += &format!(" ({} to another rail, {} back)", count(mesh.failovers), count(mesh.failbacks));
    }
    text
}

/// Says something to whoever watches; standard output is for data. Names of files are what others have sent.
pub(super) fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "weft: {}", output::shown(line));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn what_is_no_file_is_refused_and_nobody_waits_for_it() {
        let pipe = std::env::temp_dir().join(format!("weft-run-pipe-{}", std::process::id()));
        assert!(Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
        let (tells, told) = mpsc::channel();
        let path = pipe.clone();
        // Who opens it waits for good.
        let _ = thread::spawn(move || tells.send(opened(&path).map(drop).map_err(|why| why.to_string())));
        let end = told.recv_timeout(Duration::from_secs(20));
        let _ = fs::remove_file(&pipe);
        let why = end.expect("it ends").expect_err("it is no file");
        assert!(why.ends_with("is no file"), "{why}");
    }
}
