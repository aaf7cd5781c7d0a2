//! `weft fs`: files of a cluster from the shell, by a daemon.

use crate::daemon::FILES;
use crate::door::Door;
use crate::exit::{Exit, Failure};
use crate::fs_args::{FsArgs, FsCommand};
use crate::output;
use crate::progress::Progress;
use crate::table::{Table, count};
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use weft_protocols::pario::remote::{MOST, Reply, Request};
use weft_protocols::pario::{Distribution, Handle, Name};

/// Asks, and shows what is answered.
pub fn run(args: &FsArgs) -> Result<Exit, Failure> {
    let door = Door::new(&args.of, args.node)?;
    match &args.command {
        FsCommand::Ls { long } => ls(&door, *long, args.json)?,
        FsCommand::Put { from, name, strip, servers, force } => {
            let name = name.clone().map_or_else(|| name_of(from), Ok)?;
            check(&name)?;
            let layout = (*strip, *servers);
            let size = Put { door: &door, name: &name, quiet: args.quiet }.put(from, layout, *force)?;
            said(args, &json!({ "name": name, "bytes": size }), || {
                format!("{name}: {} bytes\n", count(size))
            })?;
        }
        FsCommand::Get { name, to } => {
            check(name)?;
            let to = to.clone().unwrap_or_else(|| PathBuf::from(name));
            let size = get(&door, name, &to, args.quiet)?;
            if to != Path::new("-") {
                let text = || format!("{}: {} bytes\n", to.display(), count(size));
                said(args, &json!({ "name": name, "bytes": size }), text)?;
            }
        }
        FsCommand::Stat { name } => {
            check(name)?;
            let (_, size, layout) = stat(&door, name)?;
            let (strip, servers, first) = (layout.strip(), layout.servers(), layout.first());
            let object =
                json!({ "name": name, "bytes": size, "strip": strip, "servers": servers, "first": first });
            said(args, &object, || {
                let (size, strip) = (count(size), count(strip.into()));
                format!(
                    "{name}: {size} bytes in strips of {strip} over {servers} servers from server {first}\n"
                )
            })?;
        }
        FsCommand::Rm { names } => {
            for name in names {
                check(name)?;
                done(&ask(&door, &Request::Remove { name: name.clone() })?)?;
            }
        }
    }
    Ok(Exit::Held)
}

fn said(args: &FsArgs, object: &serde_json::Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
    match args.json {
        true => output::json(object),
        false => output::text(&text()),
    }
}

fn ls(door: &Door, sizes: bool, as_json: bool) -> Result<(), Failure> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let Reply::Names { files, more } = ask(door, &Request::List { after, sizes })? else {
            return Err(odd());
        };
        let last = files.last().map(|(name, _)| name.clone());
        // A file that was removed meanwhile has no size.
        all.extend(files.into_iter().filter(|(_, size)| !sizes || size.is_some()));
        match last.filter(|_| more) {
            Some(last) => after = last,
            None => break,
        }
    }
    if as_json {
        let row = |(name, size): &(String, Option<u64>)| json!({ "name": name, "bytes": size });
        return output::json(&all.iter().map(row).collect::<Vec<_>>());
    }
    let mut text = String::new();
    if sizes && !all.is_empty() {
        let mut table = Table::new("files", 1, &["name", "bytes"]);
        for (name, size) in &all {
            table.row([shown(name), count(size.unwrap_or_default())]);
        }
        table.print(&mut text);
    } else {
        all.iter().for_each(|(name, _)| text.push_str(&format!("{}\n", shown(name))));
    }
    output::text(text.trim_start_matches('\n'))
}

/// A new file of the cluster.
struct Put<'a> {
    door: &'a Door,
    name: &'a str,
    quiet: bool,
}

impl Put<'_> {
    /// Makes it, and fills it. One that was not filled is removed again.
    fn put(&self, from: &Path, layout: (Option<u32>, Option<u16>), force: bool) -> Result<u64, Failure> {
        // Before anything is removed.
        let (mut reader, size): (Box<dyn Read>, Option<u64>) = if from == Path::new("-") {
            (Box::new(io::stdin().lock()), None)
        } else {
            let failed = |why| Failure::bad_input(format!("{}: {why}", from.display()));
            let file = File::open(from).map_err(failed)?;
            let about = file.metadata().map_err(failed)?;
            if about.is_dir() {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            (Box::new(file), about.is_file().then_some(about.len()))
        };
        if force && stat(self.door, self.name).is_ok() {
            done(&ask(self.door, &Request::Remove { name: self.name.to_string() })?)?;
        }
        let (strip, servers) = layout;
        let create = Request::Create { name: self.name.to_string(), strip, servers };
        let Reply::Stat { handle, .. } = ask(self.door, &create)? else { return Err(odd()) };
        let filled = self.fill(&mut reader, handle, size);
        if filled.is_err() {
            // What has failed is told, whatever this comes to.
            let _ = ask(self.door, &Request::Remove { name: self.name.to_string() });
        }
        filled
    }

    fn fill(&self, from: &mut dyn Read, handle: Handle, size: Option<u64>) -> Result<u64, Failure> {
        let mut progress = Progress::begin(self.quiet);
        let mut at = 0;
        loop {
            let mut bytes = Vec::new();
            from.take(MOST.into()).read_to_end(&mut bytes).map_err(Failure::unfinished)?;
            let len = bytes.len() as u64;
            if len == 0 {
                break;
            }
            let write = Request::Write { name: self.name.to_string(), handle, at, bytes };
            done(&ask(self.door, &write)?)?;
            at += len;
            let share = size.map_or(0.0, |size| at as f64 / size.max(1) as f64);
            progress.at(share, || format!("{} bytes", count(at)));
        }
        progress.end();
        Ok(at)
    }
}

/// Copies a file; a part of it never has the final name.
fn get(door: &Door, name: &str, to: &Path, quiet: bool) -> Result<u64, Failure> {
    let (handle, size, _) = stat(door, name)?;
    if to == Path::new("-") {
        return copy(door, (name, handle, size), &mut io::stdout().lock(), quiet);
    }
    let failed = |why: io::Error| Failure::unfinished(format!("{}: {why}", to.display()));
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let mut file = File::create(&part).map_err(failed)?;
    let copied = copy(door, (name, handle, size), &mut file, quiet);
    let kept = copied.and_then(|size| std::fs::rename(&part, to).map(|()| size).map_err(failed));
    if kept.is_err() {
        // What has failed is told, whatever this comes to.
        let _ = std::fs::remove_file(&part);
    }
    kept
}

fn copy(
    door: &Door,
    (name, handle, size): (&str, Handle, u64),
    to: &mut dyn Write,
    quiet: bool,
) -> Result<u64, Failure> {
    let mut progress = Progress::begin(quiet);
    let mut at = 0;
    loop {
        let read = Request::Read { name: name.to_string(), handle, at, len: MOST };
        let Reply::Bytes(bytes) = ask(door, &read)? else { return Err(odd()) };
        if bytes.is_empty() {
            break;
        }
        to.write_all(&bytes).map_err(Failure::unfinished)?;
        at += bytes.len() as u64;
        progress.at(at as f64 / size.max(1) as f64, || format!("{} bytes", count(at)));
    }
    to.flush().map_err(Failure::unfinished)?;
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
    let (node, bytes) = door.call(door.node, FILES, request.to_bytes())?;
    Reply::from_bytes(&bytes).map_err(|why| Failure::unfinished(why).at(format_args!("node {node}")))
}

fn done(reply: &Reply) -> Result<(), Failure> {
    match reply {
        Reply::Done => Ok(()),
        _ => Err(odd()),
    }
}

fn odd() -> Failure {
    Failure::unfinished("the daemon answers another question: are both programs of one version?")
}

/// The name under which a local file is put.
fn name_of(from: &Path) -> Result<String, Failure> {
    let name = from.file_name().and_then(|name| name.to_str()).filter(|_| from != Path::new("-"));
    let said = || Failure::bad_input(format!("{}: say the new file's name behind it", from.display()));
    name.map(str::to_string).ok_or_else(said)
}

fn check(name: &str) -> Result<(), Failure> {
    let told = || name.chars().take(64).collect::<String>();
    match Name::new(name) {
        Some(_) => Ok(()),
        None => Err(Failure::bad_input(format!(
            "{:?} is no name of a file: 1 to 255 bytes without '/', and neither '.' nor '..'",
            told()
        ))),
    }
}

/// A name without what moves a terminal's cursor.
fn shown(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
