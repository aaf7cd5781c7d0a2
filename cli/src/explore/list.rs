//! `weft check --list`: the worlds, what must come of each, and what of its size can be chosen.

use super::{all, build};
use crate::exit::{Exit, Failure};
use crate::table::wrap;
use crate::{help, output};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use weft_check::explore::{Entry, Expected, Key, Size};
use weft_check::systems::{self, Registered};

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    /// The system that it is about, if it is about one.
    system: Option<&'static str>,
    about: &'static str,
    expected: Expected,
    /// Its usual size.
    size: Size,
    /// What of its size can be chosen.
    keys: &'static [Key],
    /// The world of which `about` says that it is the same, if it does.
    #[serde(skip)]
    same_as: Option<&'static str>,
}

/// Shows the worlds; if a word is given, those of that system and those whose names begin so.
pub fn run(only: Option<&str>, json: bool) -> Result<Exit, Failure> {
    let mut listed = listed()?;
    if let Some(word) = only {
        listed.retain(|world| world.system == Some(word) || world.name.starts_with(word));
        if listed.is_empty() {
            let known = help::kinds();
            return Err(Failure::bad_input(format!(
                "no world's name begins with '{word}', and it is none of the systems {known}"
            )));
        }
    }
    if json {
        #[derive(Serialize)]
        struct Worlds {
            worlds: Vec<Listed>,
        }
        output::json(&Worlds { worlds: listed })?;
        return Ok(Exit::Held);
    }
    output::text(&text(&listed)).map(|()| Exit::Held)
}

fn listed() -> Result<Vec<Listed>, Failure> {
    let mut listed: Vec<Listed> = Vec::new();
    for entry in all() {
        let size = build(&entry, &Size::default())?.size();
        let Entry { name, about, expected, keys, .. } = entry;
        let is_of = |system: &&dyn Registered| system.worlds().iter().any(|world| world.name == name);
        let system = systems::all().iter().copied().find(is_of).map(Registered::kind);
        let same_as = same(about).and_then(|_| base(name, &listed));
        listed.push(Listed { name, system, about, expected, size, keys, same_as });
    }
    Ok(listed)
}

/// Where a description says that its world is the same as another one: what is before that, and what is behind it.
fn same(about: &str) -> Option<(&str, &str)> {
    let (before, behind) = about.split_once("the same")?;
    (before.is_empty() || before.ends_with(": ")).then_some((before, behind))
}

/// The world that one is like: the one of the longest name with which its own begins, or the one above it, or the one that this is like.
fn base(name: &str, above: &[Listed]) -> Option<&'static str> {
    let begins = |world: &&Listed| name.strip_prefix(world.name).is_some_and(|rest| rest.starts_with('-'));
    let named = above.iter().filter(begins).map(|world| world.name).max_by_key(|name| name.len());
    named.or_else(|| above.last().map(|last| last.same_as.unwrap_or(last.name)))
}

fn text(listed: &[Listed]) -> String {
    let mut text = String::from("Worlds\n");
    let mut above: Option<&Listed> = None;
    for world in listed {
        let Listed { name, about, expected, size, same_as, .. } = world;
        let must = match expected {
            Expected::Held => "must hold",
            Expected::Violated => "must fail",
            Expected::ViolatedUnderFaults => "must fail under a fault",
        };
        wrap(&format!("{name}: {must}; {size}"), 2, &mut text);
        // What stands above says what it is the same as, where it is that or like that.
        let is_known = above.is_some_and(|above| [Some(above.name), above.same_as].contains(same_as));
        match (same(about), same_as) {
            (Some((before, behind)), Some(base)) if !is_known => {
                wrap(&format!("{before}the same as {base}{behind}"), 6, &mut text);
            }
            _ => wrap(about, 6, &mut text),
        }
        above = Some(world);
    }
    text.push_str("\nWhat --set changes of a size\n");
    for ((name, help), of) in keys(listed) {
        let of: Vec<&str> = of.into_iter().collect();
        wrap(&format!("{name} ({}): {help}", of.join(", ")), 2, &mut text);
    }
    text
}

/// Every key with what it means, and the systems of whose worlds.
fn keys(listed: &[Listed]) -> BTreeMap<(&'static str, &'static str), BTreeSet<&'static str>> {
    let mut keys: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for world in listed {
        for key in world.keys {
            keys.entry((key.name, key.help)).or_default().insert(world.system.unwrap_or("toys"));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(only: &str) -> String {
        let mut listed = listed().expect("the worlds");
        listed.retain(|world| world.name.starts_with(only));
        text(&listed)
    }

    #[test]
    fn a_world_that_is_the_same_as_another_one_says_as_which_where_that_does_not_stand_above() {
        let polling = |text: &str, scheme: &str, says: &str| {
            let (_, rest) = text.split_once(&format!("  {scheme}-polling:")).expect("it is listed");
            assert!(
                rest.lines().nth(1).is_some_and(|line| line.trim_start().starts_with(says)),
                "{rest:.200}"
            );
        };
        polling(&shown("dqnl"), "dqnl", "the same, nodes that");
        polling(&shown("dqnl-polling"), "dqnl", "the same as dqnl, nodes that");
        // They stand below another scheme's world.
        polling(&shown(""), "srsl", "the same as srsl, nodes that");
    }

    #[test]
    fn what_can_be_set_is_told_with_the_systems_of_whose_worlds() {
        let text = shown("");
        assert!(text.contains("  calls (locks): "), "{text}");
    }
}
