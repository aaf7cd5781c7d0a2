//! `weft fs`: files of a cluster from the shell, by a daemon.

use crate::daemon::FILES;
use crate::door::{Calls, Came, Door, Unserved, odd};
use crate::exit::{Exit, Failure};
use crate::fs_args::{FsArgs, FsCommand};
use crate::logfile::LogFile;
use crate::progress::Progress;
use crate::table::{Table, count, short};
use crate::{interrupt, output, part};
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use weft_control::secret;
use weft_protocols::pario::remote::{Listed, MOST, RemoteError, Reply, Request};
use weft_protocols::pario::{self, Distribution, Handle};

/// Calls that a copy has under way: one is read from a disk, one written to another, and two are on their way.
const AT_ONCE: usize = 4;

/// How often a file is copied from its beginning that others replace meanwhile.
const TRIES: u32 = 4;

/// Asks, and shows what is answered.
pub fn run(args: &FsArgs) -> Result<Exit, Failure> {
    let door = Door::new(&args.of, args.node)?.telling(!args.quiet);
    match &args.command {
        FsCommand::Ls { directory, long } => {
            let directory = check_directory(directory)?;
            ls(&door, directory.as_str(), *long, args.json)?
        }
        FsCommand::Put { from, name, strip, servers, force } => {
            let asked = name.clone().map_or_else(|| name_of(from), Ok)?;
            let path = check(&asked)?;
            if asked.ends_with('/') {
                lists(&door, &path).map_err(|why| no_directory(&asked, why))?;
            }
            let (layout, name) = ((*strip, *servers), path.as_str());
            let size = Put { door: &door, path: &path, quiet: args.quiet }.put(from, layout, *force)?;
            said(args, &json!({ "name": name, "bytes": size }), || {
                format!("{}: {} bytes\n", output::shown(name), count(size))
            })?;
        }
        FsCommand::Get { name, to } => {
            let name = check(name)?;
            let name = name.as_str();
            let to = to.clone().unwrap_or_else(|| PathBuf::from(last(name)));
            let size = get(&door, name, &to, args.quiet)?;
            if to != Path::new("-") {
                let text =
                    || format!("{}: {} bytes\n", output::shown(&to.display().to_string()), count(size));
                said(args, &json!({ "name": name, "bytes": size }), text)?;
            }
        }
        FsCommand::Stat { name } => {
            let name = check(name)?;
            let name = name.as_str();
            let (_, size, layout) = stat(&door, name)?;
            let (strip, servers, first) = (layout.strip(), layout.servers(), layout.first());
            let object =
                json!({ "name": name, "bytes": size, "strip": strip, "servers": servers, "first": first });
            said(args, &object, || {
                let (name, size, strip) = (output::shown(name), count(size), count(strip.into()));
                format!(
                    "{name}: {size} bytes in strips of {strip} over {servers} servers from server {first}\n"
                )
            })?;
        }
        FsCommand::Truncate { name, size } => {
            let name = check(name)?.to_string();
            done(&ask(&door, &Request::Truncate { name, size: *size })?)?;
        }
        FsCommand::Rm { names } => each(&door, names, |name| Request::Remove { name })?,
        FsCommand::Mkdir { paths } => each(&door, paths, |path| Request::MakeDirectory { path })?,
        FsCommand::Rmdir { paths } => each(&door, paths, |path| Request::RemoveDirectory { path })?,
        FsCommand::Mv { from, to, force } => mv(&door, from, to, *force)?,
    }
    Ok(Exit::Held)
}

fn said(args: &FsArgs, object: &serde_json::Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
    match args.json {
        true => output::json(object),
        false => output::text(&text()),
    }
}

/// Asks for something of each path. What is no path is refused before anything is done; one of which it cannot be had is told, and the
/// next ones are asked all the same. Where nobody answers, none of them is.
fn each(door: &Door, paths: &[String], request: impl Fn(String) -> Request) -> Result<(), Failure> {
    let paths = paths.iter().map(|path| check(path)).collect::<Result<Vec<_>, _>>()?;
    let mut refused: Option<Failure> = None;
    for path in paths {
        let Err(why) = ask(door, &request(path.to_string())).and_then(|reply| done(&reply)) else { continue };
        let is_last = why.exit() != Exit::BadInput;
        if let Some(before) = refused.replace(why) {
            // Nobody may be reading; the exit code tells the same.
            let _ = writeln!(io::stderr(), "weft: {before}");
        }
        if is_last {
            break;
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Gives something another path; where that is one of a directory, it keeps its name in there.
fn mv(door: &Door, from: &str, asked: &str, replaces: bool) -> Result<(), Failure> {
    let (from, to) = (check(from)?, check_directory(asked)?);
    let to = match is_there(lists(door, &to))? {
        true => check(&format!("{to}/{}", last(from.as_str())))?,
        // A directory may be given a path with a slash at its end.
        false if asked.ends_with('/') => {
            lists(door, &from).map(|()| to).map_err(|why| no_directory(asked, why))?
        }
        false => to,
    };
    let (from, to) = (from.to_string(), check(to.as_str())?.to_string());
    done(&ask(door, &Request::Rename { from, to, replaces })?)
}

/// Looks whether a path is known to be one of a directory. Whatever else it is, what is asked next says.
fn lists(door: &Door, path: &pario::Path) -> Result<(), Failure> {
    let list = Request::List { directory: path.to_string(), after: String::new(), sizes: false };
    match ask(door, &list)? {
        Reply::Names { .. } => Ok(()),
        _ => Err(odd()),
    }
}

/// Why something cannot be in a directory: its path has a slash at its end, and is one of none.
fn no_directory(asked: &str, why: Failure) -> Failure {
    match why.exit() {
        Exit::BadInput => Failure::bad_input(format!("{asked}: there is no such directory")),
        _ => why,
    }
}

fn ls(door: &Door, directory: &str, sizes: bool, as_json: bool) -> Result<(), Failure> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let list = Request::List { directory: directory.to_string(), after, sizes };
        let Reply::Names { entries, more } = ask(door, &list)? else { return Err(odd()) };
        let last = entries.last().map(|entry| entry.name.clone());
        // A file that was removed meanwhile has no size.
        all.extend(entries.into_iter().filter(|entry| !sizes || entry.is_directory || entry.size.is_some()));
        match last.filter(|_| more) {
            Some(last) => after = last,
            None => break,
        }
    }
    if as_json {
        let row = |Listed { name, is_directory, size }: &Listed| json!({ "name": name, "directory": is_directory, "bytes": size });
        return output::json(&all.iter().map(row).collect::<Vec<_>>());
    }
    let mut text = String::new();
    if sizes && !all.is_empty() {
        let mut table = Table::new("files", 1, &["name", "bytes"]);
        for entry in &all {
            table.row([shown(entry), entry.size.map(count).unwrap_or_default()]);
        }
        table.print(&mut text);
    } else {
        all.iter().for_each(|entry| text.push_str(&format!("{}\n", shown(entry))));
    }
    output::text(text.trim_start_matches('\n'))
}

/// A new file of the cluster.
struct Put<'a> {
    door: &'a Door,
    path: &'a pario::Path,
    quiet: bool,
}

impl Put<'_> {
    /// Makes it under another name, fills it, and gives it its own: a part of it never has that. One that was not filled is removed again,
    /// also where the user asks to stop.
    fn put(&self, from: &Path, layout: (Option<u32>, Option<u16>), force: bool) -> Result<u64, Failure> {
        // Before anything is removed.
        let (reader, size) = opened(from)?;
        self.may_be_made(force)?;
        let part = part_of(self.path, secret::number().map_err(Failure::unfinished)?);
        let handle = self.create(&part, layout).map_err(|unserved| self.not_made(&part, unserved))?;
        // Where there is no part, its directory may have been given another path.
        let moved =
            || format!("{part} may be left where its directory is by now, to be removed by weft fs rm");
        let filled = self.fill(reader, (&part, handle), (from, size));
        let size = filled.map_err(|why| self.not_put(&part, why, |_| Some(moved())))?;
        let named = self.give_name(&part, force);
        // Where there is no part, it may have its own name already.
        let named = named.map_err(|Unserved { why, came }| {
            self.not_put(&part, why, |_| (came == Came::ToNothing).then(moved))
        });
        named.map(|()| size)
    }

    /// Why a part was not made. As long as the call may be under way that was to make it, only its node removes it behind that, and another
    /// one that finds nothing proves nothing.
    fn not_made(&self, part: &str, Unserved { why, came }: Unserved) -> Failure {
        match came {
            Came::ToNothing => self.of_its_own(part, why),
            _ => self.not_put(part, why, |by_its_node| {
                (came == Came::Unknown || !by_its_node).then(|| left(part))
            }),
        }
    }

    /// Why the file was not put. Its part is removed by the node that was asked for it or, if that is what failed, by another one. What may
    /// be left is said: where there is no part, what `nothing` says of that, by whether the part's own node has looked.
    fn not_put(&self, part: &str, why: Failure, nothing: impl Fn(bool) -> Option<String>) -> Failure {
        let (found, by_its_node) = match self.remove(self.door.node, part) {
            Found::Unknown if self.door.node.is_some() => (self.remove(None, part), false),
            found => (found, true),
        };
        let left = match found {
            Found::Something => None,
            Found::Nothing => nothing(by_its_node),
            Found::Unknown => Some(left(part)),
        };
        let why = self.of_its_own(part, why);
        left.into_iter().fold(why, Failure::and)
    }

    /// The same of the file's own name.
    fn of_its_own(&self, part: &str, why: Failure) -> Failure {
        let name = self.path.as_str();
        why.saying(name, &format!("{part} to {name}")).saying(name, part)
    }

    /// Has a node remove the part, whatever the user asks meanwhile.
    fn remove(&self, node: Option<u32>, part: &str) -> Found {
        let remove = Request::Remove { name: part.to_string() };
        match is_there(self.door.clean(node, FILES, remove.to_bytes())) {
            Ok(true) => Found::Something,
            Ok(false) => Found::Nothing,
            Err(_) => Found::Unknown,
        }
    }

    /// Refuses now what would fail once all bytes are there.
    fn may_be_made(&self, force: bool) -> Result<(), Failure> {
        let name = self.path.as_str();
        if is_there(lists(self.door, self.path))? {
            return Err(Failure::bad_input(format!("{name} is a directory: say the new file's name in it")));
        }
        match !force && is_there(stat(self.door, name))? {
            true => Err(Failure::bad_input(format!("{name} exists; add --force to replace it"))),
            false => Ok(()),
        }
    }

    fn create(&self, part: &str, (strip, servers): (Option<u32>, Option<u16>)) -> Result<Handle, Unserved> {
        let create = Request::Create { name: part.to_string(), strip, servers };
        // That it may be done need not be told: what a put makes, it removes.
        let answer = self.door.call(self.door.node, FILES, create.to_bytes(), None)?;
        match reply(answer) {
            Ok(Reply::Stat { handle, .. }) => Ok(handle),
            other => Err(Unserved { why: other.err().unwrap_or_else(odd), came: Came::Unknown }),
        }
    }

    /// Gives the part the file's own name.
    fn give_name(&self, part: &str, replaces: bool) -> Result<(), Unserved> {
        let rename = Request::Rename { from: part.to_string(), to: self.path.to_string(), replaces };
        let answer = self.door.call(self.door.node, FILES, rename.to_bytes(), Some(rename.about()))?;
        let done = reply(answer).and_then(|reply| done(&reply));
        done.map_err(|why| Unserved { why, came: Came::Unknown })
    }

    fn fill(
        &self,
        reader: Box<dyn Read + Send>,
        (part, handle): (&str, Handle),
        (from, size): (&Path, Option<u64>),
    ) -> Result<u64, Failure> {
        let mut progress = Progress::begin(self.quiet);
        let mut calls = Calls::new(self.door, FILES, AT_ONCE);
        let pieces = pieces(reader);
        let mut at = 0;
        loop {
            let bytes = next(&pieces, from)?;
            let len = bytes.len() as u64;
            if len == 0 {
                break;
            }
            if calls.is_full()
                && let Some(written) = calls.next()
            {
                done(&reply(written?)?)?;
            }
            calls.begin(Request::Write { name: part.to_string(), handle, at, bytes }.to_bytes());
            at += len;
            let share = size.map(|size| at as f64 / size.max(1) as f64);
            progress.at(share, || format!("{} bytes", count(at)));
        }
        while let Some(written) = calls.next() {
            done(&reply(written?)?)?;
        }
        progress.end();
        Ok(at)
    }
}

/// Whether what was looked at is there.
///
/// # Errors
/// Nobody has said.
fn is_there<T>(looked_at: Result<T, Failure>) -> Result<bool, Failure> {
    match looked_at {
        Err(why) if why.exit() == Exit::BadInput => Ok(false),
        other => other.map(|_| true),
    }
}

/// What may be left.
fn left(part: &str) -> String {
    format!("{part} may be left, to be removed by weft fs rm")
}

/// What came of the removal of a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// It was there, and is no more.
    Something,
    /// There was none.
    Nothing,
    /// Nobody knows.
    Unknown,
}

/// A local file to be read, and its size if it has one.
fn opened(from: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
    if from == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let path = from.to_path_buf();
    let failed = move |why| Failure::bad_input(format!("{}: {why}", path.display()));
    // A pipe is there once somebody writes to it, and until then the user may ask to stop.
    let (path, refused) = (from.to_path_buf(), failed.clone());
    let file = interrupt::unless_requested(move || File::open(&path).map_err(refused))?;
    let about = file.metadata().map_err(&failed)?;
    match about.is_dir() {
        true => Err(failed(io::ErrorKind::IsADirectory.into())),
        false => Ok((Box::new(file), about.is_file().then_some(about.len()))),
    }
}

/// Reads ahead, on a thread of its own: who asks to stop need not wait for an input that says nothing. A piece without bytes is the end.
fn pieces(mut from: Box<dyn Read + Send>) -> Receiver<io::Result<Vec<u8>>> {
    let (send, pieces) = sync_channel(1);
    thread::spawn(move || {
        loop {
            let mut bytes = Vec::new();
            let read = from.by_ref().take(MOST.into()).read_to_end(&mut bytes).map(|_| bytes);
            let is_last = read.as_ref().map_or(true, Vec::is_empty);
            if send.send(read).is_err() || is_last {
                return;
            }
        }
    });
    pieces
}

/// The next piece of a file, unless the user asks to stop.
fn next(pieces: &Receiver<io::Result<Vec<u8>>>, from: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |why| match from == Path::new("-") {
        true => Failure::unfinished(format!("cannot read standard input: {why}")),
        false => Failure::unfinished(why).at(from.display()),
    };
    loop {
        match pieces.recv_timeout(interrupt::LOOK) {
            Ok(piece) => return piece.map_err(failed),
            Err(RecvTimeoutError::Timeout) if interrupt::requested() => return Err(Failure::interrupted()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(Vec::new()),
        }
    }
}

/// Copies a file; a part of it never has the final name, and none is left where the user asks to stop. Where another file takes its place
/// meanwhile, that one is copied.
fn get(door: &Door, name: &str, to: &Path, quiet: bool) -> Result<u64, Failure> {
    let mut tries = 1..TRIES;
    loop {
        let (handle, size, _) = stat(door, name)?;
        if to == Path::new("-") {
            let failed = |why| Failure::unfinished(format!("cannot write to standard output: {why}"));
            return copy(door, (name, handle, size), (&mut io::stdout().lock(), &failed), quiet);
        }
        let file = LogFile::create(to, "the file")?;
        let failed = |why| file.failure(&why);
        match copy(door, (name, handle, size), (&mut file.writer()?, &failed), quiet) {
            Ok(copied) => return file.finish_on_disk().map(|()| copied),
            Err(why) if file.leaves_nothing() && was_replaced(name, &why) && tries.next().is_some() => {}
            Err(why) => return Err(why),
        }
    }
}

/// Whether a call says that the name is another file's by now.
fn was_replaced(name: &str, why: &Failure) -> bool {
    why.to_string() == Failure::unfinished(RemoteError::Replaced(name.to_string())).to_string()
}

fn copy(
    door: &Door,
    (name, handle, size): (&str, Handle, u64),
    (to, failed): (&mut dyn Write, &dyn Fn(io::Error) -> Failure),
    quiet: bool,
) -> Result<u64, Failure> {
    // Whether somebody still reads what was written: a reader that has seen enough is no error.
    let is_read = |written: io::Result<()>| match written {
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).map_err(failed),
    };
    let mut progress = Progress::begin(quiet);
    let mut calls = Calls::new(door, FILES, AT_ONCE);
    // Where the next call begins that is asked, and the next one that is answered.
    let (mut ahead, mut at) = (0, 0);
    loop {
        // Behind the size that it had there is mostly nothing, and one call finds that out.
        while !calls.is_full() && (ahead < size || ahead == at) {
            let read = Request::Read { name: name.to_string(), handle, at: ahead, len: MOST };
            calls.begin(read.to_bytes());
            ahead += u64::from(MOST);
        }
        let Some(read) = calls.next() else { break };
        let Reply::Bytes(bytes) = reply(read?)? else { return Err(odd()) };
        if bytes.is_empty() {
            break;
        }
        at += bytes.len() as u64;
        if !is_read(to.write_all(&bytes))? {
            return Ok(at);
        }
        if bytes.len() < MOST as usize {
            // The file ended there. What was asked beyond that is asked again, should it have grown.
            calls = Calls::new(door, FILES, AT_ONCE);
            ahead = at;
        }
        progress.at(at as f64 / size.max(1) as f64, || format!("{} bytes", count(at)));
    }
    is_read(to.flush())?;
    progress.end();
    Ok(at)
}

fn stat(door: &Door, name: &str) -> Result<(Handle, u64, Distribution), Failure> {
    match ask(door, &Request::Stat { name: name.to_string() })? {
        Reply::Stat { handle, size, layout } => Ok((handle, size, layout)),
        _ => Err(odd()),
    }
}

fn ask(door: &Door, request: &Request) -> Result<Reply, Failure> {
    let changes = request.changes().then(|| request.about());
    reply(door.call(door.node, FILES, request.to_bytes(), changes)?)
}

/// What a node's answer says.
fn reply((node, bytes): (u32, Vec<u8>)) -> Result<Reply, Failure> {
    Reply::from_bytes(&bytes).map_err(|why| Failure::unfinished(why).at(format_args!("node {node}")))
}

fn done(reply: &Reply) -> Result<(), Failure> {
    match reply {
        Reply::Done => Ok(()),
        _ => Err(odd()),
    }
}

/// The name under which a local file is put.
fn name_of(from: &Path) -> Result<String, Failure> {
    let name = from.file_name().and_then(|name| name.to_str()).filter(|_| from != Path::new("-"));
    let said = || Failure::bad_input(format!("{}: say the new file's name behind it", from.display()));
    name.map(str::to_string).ok_or_else(said)
}

/// The name that a file has until it is whole, in the same directory; where that leaves no room for a name of so many bytes, in the nearest
/// one above it that does.
fn part_of(path: &pario::Path, number: u64) -> String {
    let mut directory = path.parent();
    let room = |directory: &pario::Path| {
        let slash = usize::from(!directory.is_root());
        pario::Path::LONGEST.checked_sub(directory.as_str().len() + slash + part::ADDED)
    };
    let room = loop {
        match room(&directory) {
            Some(room) => break room,
            None => directory = directory.parent(),
        }
    };
    let slash = if directory.is_root() { "" } else { "/" };
    format!("{directory}{slash}{}", part::part_of(last(path.as_str()), number, room))
}

/// The last name of a path.
fn last(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// What a path is, and what is asked for by it.
fn check(path: &str) -> Result<pario::Path, Failure> {
    let checked = check_directory(path)?;
    match checked.is_root() {
        true => Err(Failure::bad_input(format!("{path:?} is the root, and what is asked for is none"))),
        false => Ok(checked),
    }
}

/// The same, which may be the root.
fn check_directory(path: &str) -> Result<pario::Path, Failure> {
    pario::Path::new(path).ok_or_else(|| {
        let told = short(path, 64);
        Failure::bad_input(format!(
            "{told:?} is no path: names of 1 to 255 bytes, neither '.' nor '..', with '/' between, at most 1024 bytes in all"
        ))
    })
}

/// A name; of a directory, with a slash behind it.
fn shown(entry: &Listed) -> String {
    let slash = if entry.is_directory { "/" } else { "" };
    output::shown(&entry.name) + slash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_whole_yet_has_a_name_of_its_own_in_the_same_directory() {
        let long = "\u{fc}".repeat(127);
        let deep = [&long[..]; 4].join("/");
        let deepest = [&"d".repeat(255)[..]; 4].join("/");
        let deepest_file = format!("{}/f", &deepest[1..]);
        let deeper = format!("{}/{}", &deepest[..3 * 256 - 1], "e".repeat(200));
        let deeper_file = format!("{deeper}/{}", "f".repeat(55));
        for (path, directory) in [
            ("data", ""),
            ("/a/data", "a"),
            ("a/b/data/", "a/b"),
            (&long, ""),
            (&deep, &deep[..3 * 255 - 1]),
            (&deeper_file, &deeper),
            // As long as a path may be: 1,024 bytes. There is no room beside the last name, and there is in the directory above.
            (&deepest_file, &deepest[1..][..3 * 256 - 2]),
        ] {
            let path = pario::Path::new(path).expect("a path");
            let part = pario::Path::new(&part_of(&path, u64::MAX)).expect("a path");
            assert_eq!(part.parent().as_str(), directory, "{path}");
            assert_ne!(last(part.as_str()), last(path.as_str()));
        }
        assert_eq!((last("a/b"), last("c")), ("b", "c"));
    }
}
