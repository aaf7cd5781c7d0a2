//! `weft segment`: shared data segments from the shell, by a daemon.

use crate::daemon::SEGMENTS;
use crate::door::{Door, odd};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::logfile::LogFile;
use crate::output;
use crate::segment_args::{SegmentArgs, SegmentCommand};
use crate::table::{Table, count, short};
use serde_json::json;
use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::time::Duration;
use weft_control::message::CALL;
use weft_protocols::ddss::named::{LONGEST_NAME, Reply, Request, Row, Seen};
use weft_protocols::transport::Rank;
use weft_verbs::Nanos;

/// The longest value that a call has room for.
const LONGEST_VALUE: usize = CALL - LONGEST_NAME - 64;

/// How long a daemon waits for a new version before it says that there is none.
const WAIT: Duration = Duration::from_secs(10);

/// Asks, and shows what is answered.
pub fn run(args: &SegmentArgs) -> Result<Exit, Failure> {
    let door = Door::new(&args.of, args.node)?;
    match &args.command {
        SegmentCommand::Put { name, file, size, model, home } => {
            check(name)?;
            let file = file.clone();
            let value = interrupt::unless_requested(move || read(file.as_deref()))?;
            let home = home.map(Rank::from_index);
            let request = Request::Put { name: name.clone(), size: *size, model: *model, home, value };
            let Reply::Put { version, home } = ask(&door, &request)? else { return Err(odd()) };
            let home = home.index();
            match (args.json, version) {
                (true, version) => output::json(&json!({ "name": name, "version": version, "home": home }))?,
                (false, Some(version)) => {
                    output::text(&format!("{name}: version {version}, kept by node {home}\n"))?;
                }
                (false, None) => output::text(&format!("{name}: kept by node {home}\n"))?,
            }
            Ok(Exit::Held)
        }
        SegmentCommand::Get { name, output: to } => {
            check(name)?;
            get(&door, args.json, name, named(to.as_deref()))
        }
        SegmentCommand::Watch { name, from, count } => watch(&door, args.json, name, *from, *count),
        SegmentCommand::List => list(&door, args.json),
        SegmentCommand::Rm { name } => {
            check(name)?;
            remove(&door, name).map(|()| Exit::Held)
        }
    }
}

/// Writes a value to a file, and says which it is; or as it is to standard output.
fn get(door: &Door, as_json: bool, name: &str, to: Option<&Path>) -> Result<Exit, Failure> {
    let request = Request::Get { name: name.to_string(), known: None, wait: Nanos::ZERO };
    let Reply::Value { version, home, model, value, .. } = ask(door, &request)? else { return Err(odd()) };
    let (home, bytes) = (home.index(), value.len());
    let Some(path) = to else { return raw(&value).map(|()| Exit::Held) };
    write(path, &value)?;
    if as_json {
        let model = model.to_string();
        output::json(
            &json!({ "name": name, "version": version, "model": model, "bytes": bytes, "home": home }),
        )?;
    } else {
        output::text(&format!("{name}: version {version} under {model}, kept by node {home}\n"))?;
    }
    Ok(Exit::Held)
}

/// Shows one version after the other, as long as nobody says that it is enough.
fn watch(
    door: &Door,
    as_json: bool,
    name: &str,
    from: Option<u64>,
    most: Option<u64>,
) -> Result<Exit, Failure> {
    check(name)?;
    let (mut known, mut shown) = (from.map(|version| Seen { version, of: None }), 0);
    while most.is_none_or(|most| shown < most) {
        let wait = Nanos::from_millis(WAIT.as_millis() as u64);
        let request = Request::Get { name: name.to_string(), known, wait };
        let reply = match ask(door, &request) {
            // Without a number there is no other end.
            Err(_) if most.is_none() && interrupt::requested() => break,
            reply => reply?,
        };
        match reply {
            Reply::Value { version, of, value, .. } => {
                let text = String::from_utf8_lossy(&value);
                let line = match as_json {
                    true => json!({ "name": name, "version": version, "bytes": value.len(), "text": text })
                        .to_string(),
                    false => format!("{version}\t{}", one_line(&text)),
                };
                if !output::one(&format!("{line}\n"))? {
                    break;
                }
                (known, shown) = (Some(Seen { version, of: Some(of) }), shown + 1);
            }
            Reply::Same { .. } => {}
            _ => return Err(odd()),
        }
    }
    Ok(Exit::Held)
}

/// What all nodes keep that are here.
fn list(door: &Door, as_json: bool) -> Result<Exit, Failure> {
    let mut all = door.of_all(SEGMENTS, |node, rows| kept(door, node, rows))?;
    all.rows.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    if as_json {
        let row = |(home, Row { name, version, len, size, memory, model }): &(u32, Row)| {
            let model = model.to_string();
            json!({
                "name": name, "version": version, "bytes": len, "size": size, "memory": memory, "model": model,
                "home": home,
            })
        };
        output::json(&all.rows.iter().map(row).collect::<Vec<_>>())?;
    } else {
        let mut table = Table::new("segments", 1, &["name", "version", "bytes", "size", "model", "home"]);
        for (home, Row { name, version, len, size, model, .. }) in &all.rows {
            let name = name.as_deref().map_or_else(|| "(a program's)".to_string(), |name| short(name, 30));
            let version = if *version == 0 { "-".to_string() } else { count(*version) };
            let (bytes, size) = (count((*len).into()), count((*size).into()));
            table.row([name, version, bytes, size, model.to_string(), home.to_string()]);
        }
        let mut text = String::new();
        table.print(&mut text);
        output::text(text.trim_start_matches('\n'))?;
    }
    Ok(all.tell_without("what it keeps"))
}

/// Removes a value. Where the node that kept its name has been started anew since, the one that keeps the value knows of it alone: so all
/// are asked, if the first one knows of none.
fn remove(door: &Door, name: &str) -> Result<(), Failure> {
    let request = Request::Remove { name: name.to_string() };
    let asked = |node| match ask_node(door, node, &request)? {
        Reply::Removed => Ok(()),
        _ => Err(odd()),
    };
    let is_unknown = |done: &Result<(), Failure>| matches!(done, Err(why) if why.exit() == Exit::BadInput);
    let mut done = asked(door.node);
    if is_unknown(&done) && door.node.is_none() {
        let mut others = door.nodes()?.into_iter();
        while is_unknown(&done)
            && let Some(node) = others.next()
        {
            done = asked(Some(node));
        }
    }
    done
}

/// What a node keeps: as many rows as go into an answer, and again, as long as there are more.
fn kept(door: &Door, node: u32, rows: &mut Vec<(u32, Row)>) -> Result<(), Failure> {
    let mut after = None;
    loop {
        let reply = ask_node(door, Some(node), &Request::Kept { after })?;
        let Reply::Kept { rows: kept, more } = reply else { return Err(odd()) };
        rows.extend(kept.into_iter().map(|row| (node, row)));
        if more.is_none() {
            return Ok(());
        }
        after = more;
    }
}

/// Asks the node that was named, or the first one that runs segments.
fn ask(door: &Door, request: &Request) -> Result<Reply, Failure> {
    ask_node(door, door.node, request)
}

fn ask_node(door: &Door, node: Option<u32>, request: &Request) -> Result<Reply, Failure> {
    let (node, bytes) = door.call(node, SEGMENTS, request.to_bytes(), request.changes())?;
    Reply::from_bytes(&bytes).map_err(|why| Failure::unfinished(why).at(format_args!("node {node}")))
}

fn check(name: &str) -> Result<(), Failure> {
    match (1..=LONGEST_NAME).contains(&name.len()) {
        true => Ok(()),
        false => Err(Failure::bad_input(format!("a name has 1 to {LONGEST_NAME} bytes, not {}", name.len()))),
    }
}

/// A value from a file or standard input.
fn read(file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let (from, name): (Box<dyn Read>, String) = match named(file) {
        Some(file) => {
            let opened = fs::File::open(file);
            let failed = |why| Failure::bad_input(format!("{}: {why}", file.display()));
            (Box::new(opened.map_err(failed)?), file.display().to_string())
        }
        None => (Box::new(io::stdin().lock()), "standard input".to_string()),
    };
    let mut value = Vec::new();
    let failed = |why| Failure::bad_input(format!("{name}: {why}"));
    from.take(LONGEST_VALUE as u64 + 1).read_to_end(&mut value).map_err(failed)?;
    match value.len() <= LONGEST_VALUE {
        true => Ok(value),
        false => Err(Failure::bad_input(format!(
            "{name} has more than {LONGEST_VALUE} bytes, the most that daemons pass on; programs put up to 1,048,312"
        ))),
    }
}

/// A file that is not standard input or output.
fn named(file: Option<&Path>) -> Option<&Path> {
    file.filter(|file| *file != Path::new("-"))
}

/// Gives a file a value, whole: who reads it has the older one or this one.
fn write(path: &Path, value: &[u8]) -> Result<(), Failure> {
    let file = LogFile::create(path, "the value")?;
    let mut writer = file.writer()?;
    writer.write_all(value).and_then(|()| writer.flush()).map_err(|why| file.failure(&why))?;
    file.finish_on_disk()
}

/// A value as it is, and on a terminal with an end of line.
fn raw(value: &[u8]) -> Result<(), Failure> {
    let end: &[u8] = if io::stdout().is_terminal() && !value.ends_with(b"\n") { b"\n" } else { b"" };
    output::bytes(&[value, end].concat())
}

/// A value as one line: others' characters do not move a terminal's cursor.
fn one_line(text: &str) -> String {
    text.trim_end_matches('\n').chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_a_values_file_has_the_older_value_or_the_new_one_and_no_part_of_either() {
        let path = std::env::temp_dir().join(format!("weft-segment-{}", std::process::id()));
        write(&path, b"an older value").expect("it can be written");
        let mut reads = fs::File::open(&path).expect("it is there");
        write(&path, b"a new one").expect("it can be written");
        let mut text = String::new();
        reads.read_to_string(&mut text).expect("it can be read");
        let now = fs::read_to_string(&path);
        fs::remove_file(&path).expect("it is there");
        assert_eq!((text.as_str(), now.ok().as_deref()), ("an older value", Some("a new one")));
    }

    #[test]
    fn a_dash_is_no_file() {
        assert_eq!(named(Some(Path::new("-"))), None);
        assert_eq!(named(Some(Path::new("./-"))), Some(Path::new("./-")));
    }
}
