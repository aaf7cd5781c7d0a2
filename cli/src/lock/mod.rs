//! `weft lock`: distributed locks from the shell, by a daemon.

mod group;
mod run;
mod wish;

use crate::daemon::LOCKS;
use crate::door::{Door, odd};
use crate::exit::{Exit, Failure};
use crate::lock_args::{LockArgs, LockCommand};
use crate::output;
use crate::table::{Table, short};
use serde_json::json;
use weft_protocols::locks::remote::{Reply, Request, Row};

/// Does what is asked.
pub fn run(args: &LockArgs) -> Result<Exit, Failure> {
    let door = Door::new(&args.of, args.node)?;
    match &args.command {
        LockCommand::Run { shared, tries, wait, patience, name, command } => {
            let wish = wish::new(name, *shared, *tries, *patience, command)?;
            run::run(&door, wish, *wait, command)
        }
        LockCommand::List { json } => list(&door, *json),
    }
}

/// What clients of all nodes hold and wait for that are here.
fn list(door: &Door, as_json: bool) -> Result<Exit, Failure> {
    let mut all = door.of_all(LOCKS, |node, rows| {
        rows.extend(shown(door, node)?.into_iter().map(|row| (node, row)));
        Ok(())
    })?;
    // Who holds a lock comes before those who wait for it, and these in the order in which they began to.
    let order = |(_, row): &(u32, Row)| (row.name.clone(), !row.holds, std::cmp::Reverse(row.since));
    all.rows.sort_by_key(order);
    if as_json {
        let row = |(node, Row { name, mode, holds, token, since, by }): &(u32, Row)| {
            let (mode, token) = (mode.to_string(), token.map(|token| token.0));
            json!({
                "name": name, "mode": mode, "held": holds, "token": token, "seconds": since.as_secs_f64(), "node": node,
                "by": by,
            })
        };
        output::json(&all.rows.iter().map(row).collect::<Vec<_>>())?;
    } else {
        let mut table = Table::new("locks", 4, &["name", "mode", "state", "node", "for", "token", "by"]);
        for (node, Row { name, mode, holds, token, since, by }) in &all.rows {
            let state = if *holds { "held" } else { "waits" };
            let token = token.map_or_else(|| "-".to_string(), |token| token.to_string());
            let since = crate::status::span(since.0 / 1_000_000);
            let (mode, state, node) = (mode.to_string(), state.to_string(), node.to_string());
            table.row([short(name, 24), mode, state, node, since, token, short(by, 24)]);
        }
        let mut text = String::new();
        table.print(&mut text);
        output::text(text.trim_start_matches('\n'))?;
    }
    Ok(all.tell_without("what its clients hold"))
}

/// What clients of a node hold and wait for: as many rows as go into an answer, and again, as long as there are more.
fn shown(door: &Door, node: u32) -> Result<Vec<Row>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let (_, bytes) = door.call(Some(node), LOCKS, Request::Show { after }.to_bytes(), None)?;
        let reply = Reply::from_bytes(&bytes);
        let reply = reply.map_err(|why| Failure::unfinished(why).at(format_args!("node {node}")))?;
        let Reply::Shown { rows, more } = reply else { return Err(odd()) };
        all.extend(rows);
        match more {
            Some(_) => after = more,
            None => return Ok(all),
        }
    }
}
