//! `weft status`: who is in a cluster, and what each node reports of itself.

use crate::args::StatusArgs;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output;
use crate::table::{Table, count, short, wrap};
use serde_json::Value;
use std::path::Path;
use weft_control::ask::{CallError, Callee, Meeting, status};
use weft_control::daemon::config::Config;
use weft_control::message::{Member, Presence, Status};
use weft_control::net::{Endpoint, Tcp};
use weft_control::secret::Secret;
use weft_control::timing::Timing;

/// Asks the coordinator, and shows what it says.
pub fn run(args: &StatusArgs) -> Result<Exit, Failure> {
    interrupt::end_at_once();
    let (of, _) = meeting(args.config.as_deref(), args.at.as_ref(), args.secret.as_deref())?;
    let asked = crate::control::run(status(&Tcp, &of, &Timing::default()))?;
    let status = asked.map_err(|why: CallError| match why.is_final() {
        true => Failure::bad_input(why),
        false => Failure::unfinished(why),
    })?;
    match args.json {
        true => output::json(&object(&status)?)?,
        false => output::text(&text(&status))?,
    }
    Ok(Exit::Held)
}

/// Where a cluster is asked, and its secret: as given, and otherwise as the daemons' configuration file says. Its name is the file's, which is
/// given back.
pub fn meeting(
    config: Option<&Path>,
    at: Option<&Endpoint>,
    secret: Option<&Path>,
) -> Result<(Meeting, Option<Config>), Failure> {
    let config = config.map(Config::read).transpose().map_err(Failure::bad_input)?;
    let cluster = config.as_ref().map(|config| &config.cluster);
    let at = at.or_else(|| Some(&cluster?.meet)).cloned();
    let at = at.unwrap_or_else(|| Endpoint::new("127.0.0.1", weft_control::PORT));
    let secret = secret.or_else(|| cluster?.secret.as_deref());
    let secret = secret.map_or_else(|| Ok(Secret::none()), Secret::read).map_err(Failure::bad_input)?;
    let at = Callee::Coordinator(at);
    let of = Meeting { at, secret, cluster: cluster.map(|cluster| cluster.name.clone()) };
    Ok((of, config))
}

/// For programs. Of a node that has not come there is nothing to say when.
fn object(status: &Status) -> Result<Value, Failure> {
    let mut object = serde_json::to_value(status).map_err(Failure::unfinished)?;
    let members = object["members"].as_array_mut().into_iter().flatten();
    for member in members.filter(|member| member["presence"].is_null()) {
        member["since_ms"] = Value::Null;
        member["heard_ms"] = Value::Null;
    }
    Ok(object)
}

/// For people.
fn text(status: &Status) -> String {
    let present = status.members.iter().filter(|member| member.presence == Some(Presence::Present)).count();
    let mut text = format!(
        "cluster '{}': {present} of {} nodes are here\nthe coordinator is of version {} and up for {}\n",
        status.cluster,
        status.members.len(),
        status.program,
        span(status.up_ms)
    );
    let mut nodes = Table::new("nodes", 3, &["node", "state", "address", "since", "heard", "view"]);
    for member in &status.members {
        nodes.row(row(member));
    }
    nodes.print(&mut text);
    let mut reports = Table::new("what they report", 4, &["node", "system", "what", "value"]);
    let mut long = String::new();
    for member in &status.members {
        let is_here = member.presence == Some(Presence::Present);
        let node = if is_here { member.rank.to_string() } else { format!("{} (last)", member.rank) };
        for (system, values) in &member.report.systems {
            for (key, value) in values {
                let shown = short(value, 24);
                if shown != *value {
                    long.push('\n');
                    wrap(&format!("node {node}, {system}, {key}: {value}"), 0, &mut long);
                }
                reports.row([node.clone(), short(system, 16), short(key, 24), shown]);
            }
        }
    }
    if !reports.is_empty() {
        reports.print(&mut text);
    }
    text.push_str(&long);
    let lost = status.members.iter().filter_map(|member| match &member.presence {
        Some(Presence::Lost(why)) => Some(format!("\nnode {} was lost: {why}\n", member.rank)),
        _ => None,
    });
    text.extend(lost);
    text
}

fn row(member: &Member) -> [String; 6] {
    let none = || "-".to_string();
    let state = match &member.presence {
        None => "not come",
        Some(Presence::Present) => "here",
        Some(Presence::Left) => "left",
        Some(Presence::Lost(_)) => "lost",
    };
    let came = member.presence.is_some();
    let since = if came { span(member.since_ms) } else { none() };
    let heard = if came { span(member.heard_ms) } else { none() };
    let address = member.address.map_or_else(none, |address| address.to_string());
    let view = member.report.view.as_ref().map_or_else(none, |view| count(view.number));
    [member.rank.to_string(), state.to_string(), address, since, heard, view]
}

/// A span in the unit that people would say it in.
pub fn span(millis: u64) -> String {
    match millis / 1_000 {
        0 => format!("{millis} ms"),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use weft_control::message::{Counts, Report, View};

    fn member(rank: u32, presence: Option<Presence>) -> Member {
        let address = presence.as_ref().map(|_| [10, 0, 0, rank as u8].into());
        let report = Report::default();
        Member { rank, presence, address, since_ms: 90_000, heard_ms: 250, report }
    }

    #[test]
    fn the_table_says_who_is_here_and_who_is_not_and_why() {
        let mut first = member(0, Some(Presence::Present));
        first.report.view = Some(View { number: 1_234, members: vec![0] });
        let said = |key: &str, value: &str| BTreeMap::from([(key.to_string(), value.to_string())]);
        let why = "no connection with n2: it turned this node down: its mesh is not running";
        first.report.systems.insert("connections".into(), said("last", why));
        first.report.systems.insert("locks".into(), said("a key that is much too long to be shown", "7"));
        let members = vec![
            first,
            member(1, Some(Presence::Left)),
            member(2, Some(Presence::Lost("nothing was heard of it for 5 s".into()))),
            member(3, None),
        ];
        let (cluster, program) = ("blue".to_string(), "0.1.0".to_string());
        let status = Status { cluster, program, up_ms: 10_000_000, members, counts: Counts::default() };
        let text = text(&status);
        assert_eq!(
            text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"),
            "\
cluster 'blue': 1 of 4 nodes are here
the coordinator is of version 0.1.0 and up for 2 h

nodes
  node  state     address   since   heard   view
  0     here      10.0.0.0   90 s  250 ms  1,234
  1     left      10.0.0.1   90 s  250 ms      -
  2     lost      10.0.0.2   90 s  250 ms      -
  3     not come  -             -       -      -

what they report
  node  system       what                      value
  0     connections  last                      no connection with n2: ~
  0     locks        a key that is much too ~  7

node 0, connections, last: no connection with n2: it turned this node down: its
mesh is not running

node 2 was lost: nothing was heard of it for 5 s"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn when_a_node_was_heard_of_that_never_came_no_program_is_told() {
        let members = vec![member(0, Some(Presence::Present)), member(1, None)];
        let (cluster, program) = ("blue".to_string(), "0.1.0".to_string());
        let status = Status { cluster, program, up_ms: 10, members, counts: Counts::default() };
        let members = &object(&status).expect("it is an object")["members"];
        assert_eq!((&members[0]["since_ms"], &members[0]["heard_ms"]), (&90_000.into(), &250.into()));
        assert!(members[1]["since_ms"].is_null() && members[1]["heard_ms"].is_null(), "{members}");
    }
}
