//! `weft profiles`: the calibration profiles, and every figure of one with its unit and source.

use crate::args::ProfilesArgs;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::table::{Table, count, micros, wrap};
use serde::Serialize;
use std::fmt::Write;
use weft_sim::profile::{Figure, Profile};
use weft_verbs::Wait;

/// Lists them, or shows the one that was asked for.
pub fn run(args: &ProfilesArgs) -> Result<Exit, Failure> {
    match &args.name {
        Some(name) => {
            let profile = Profile::find(name).map_err(Failure::bad_input)?;
            match args.json {
                true => output::json(&whole(&profile))?,
                false => output::text(&page(&profile))?,
            }
        }
        None => {
            let profiles = all()?;
            match args.json {
                true => output::json(&List { profiles: profiles.iter().map(entry).collect() })?,
                false => output::text(&list(&profiles))?,
            }
        }
    }
    Ok(Exit::Held)
}

/// The profiles that the program brings, in their order.
pub fn all() -> Result<Vec<Profile>, Failure> {
    let read = |name| Profile::builtin(name).map_err(|e| Failure::unfinished(format!("profile {name}: {e}")));
    Profile::names().map(read).collect()
}

#[derive(Serialize)]
struct List<'a> {
    profiles: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    about: &'a str,
}

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    entry: Entry<'a>,
    primitives: Vec<Primitive>,
    figures: Vec<FigureEntry<'a>>,
}

#[derive(Serialize)]
struct FigureEntry<'a> {
    name: &'a str,
    about: &'a str,
    value: u64,
    unit: &'a str,
    source: &'a str,
    fitted: bool,
}

/// What an operation takes on an idle fabric, as the sum of the profile's figures.
#[derive(Serialize)]
struct Primitive {
    name: &'static str,
    poll_ns: u64,
    notify_ns: u64,
}

fn entry(profile: &Profile) -> Entry<'_> {
    Entry { name: &profile.name, about: &profile.about }
}

fn whole(profile: &Profile) -> Whole<'_> {
    let figures = profile.figures().iter().map(figure_entry).collect();
    Whole { entry: entry(profile), primitives: primitives(profile), figures }
}

fn figure_entry(figure: &Figure) -> FigureEntry<'_> {
    let Figure { name, about, value, unit, source, fitted, .. } = figure;
    FigureEntry { name, about: about.trim(), value: *value, unit, source, fitted: *fitted }
}

fn primitives(profile: &Profile) -> Vec<Primitive> {
    let both = |name, time: &dyn Fn(Wait) -> weft_verbs::Nanos| Primitive {
        name,
        poll_ns: time(Wait::Poll).0,
        notify_ns: time(Wait::Notify).0,
    };
    vec![
        both("send, 128 bytes, one way", &|wait| profile.one_way_send(128, wait)),
        both("read, 8 bytes", &|wait| profile.read(8, wait)),
        both("compare-and-swap", &|wait| profile.compare_swap(wait)),
        both("fetch-and-add", &|wait| profile.fetch_add(wait)),
    ]
}

fn list(profiles: &[Profile]) -> String {
    let mut text = String::new();
    for profile in profiles {
        let _ = writeln!(text, "{}", profile.name);
        wrap(&profile.about, 4, &mut text);
    }
    let _ = writeln!(text, "\n`weft profiles NAME` shows the figures of one, with their units and sources.");
    text
}

fn page(profile: &Profile) -> String {
    let mut text = format!("{}\n", profile.name);
    wrap(&profile.about, 4, &mut text);
    let title = "Operations on an idle fabric, sums of the figures below, in microseconds";
    let mut table = Table::new(title, 1, &["operation", "polling", "notified"]);
    for Primitive { name, poll_ns, notify_ns } in primitives(profile) {
        table.row([name.to_string(), micros(poll_ns), micros(notify_ns)]);
    }
    table.print(&mut text);
    let mut last = "";
    for figure in profile.figures() {
        let (group, field) = figure.name.split_once('.').unwrap_or(("", &figure.name));
        if group != last {
            let _ = writeln!(text, "\n{group}");
            last = group;
        }
        let fitted = if figure.fitted { " (fitted)" } else { "" };
        let _ = writeln!(text, "  {field} = {} {}{fitted}", count(figure.value), figure.unit);
        wrap(figure.about, 6, &mut text);
        wrap(&format!("Source: {}", figure.source), 6, &mut text);
    }
    text
}
