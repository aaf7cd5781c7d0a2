//! `weft check`, `weft fuzz` and `weft replay`: the explorer's worlds, explored, fuzzed and run again.

pub mod args;
pub mod check;
mod drawn;
mod every;
pub mod files;
pub mod fuzz;
mod list;
pub mod panicked;
pub mod replay;
mod swarm;
mod target;
mod walks;

use crate::exit::Failure;
use weft_check::explore::{AnyModel, Entry, Size, toy};
use weft_check::scenario::nearest;
use weft_check::systems;

/// Every world, in the order of the list.
pub fn all() -> Vec<Entry> {
    let mut all = systems::worlds();
    all.extend(toy::all());
    all
}

/// The world of a name.
fn find(name: &str) -> Result<Entry, Failure> {
    let all = all();
    let unknown = || {
        let known: Vec<String> = all.iter().map(|world| world.name.to_string()).collect();
        let meant = nearest(name, &known).map_or_else(String::new, |name| format!(": did you mean {name}?"));
        Failure::bad_input(format!("there is no world '{name}'{meant} (see `weft check --list`)"))
    };
    all.iter().find(|world| world.name == name).copied().ok_or_else(unknown)
}

/// Builds a world.
fn build(entry: &Entry, size: &Size) -> Result<Box<dyn AnyModel>, Failure> {
    entry.build(size).map_err(|error| Failure::bad_input(format!("{}: {error}", entry.name)))
}
