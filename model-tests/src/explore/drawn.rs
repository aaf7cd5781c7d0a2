//! Worlds of drawn sizes: other scripts of the same calls, other numbers, other faults.
//!
//! The list of worlds has the scripts that somebody thought of. Here the scripts are drawn that nobody thought of: those of the list
//! are changed at random and spliced, and each is searched a little.

use super::Counterexample;
use super::any_model::{AnyModel, Entry, Expected, Watch};
use super::options::Options;
use super::script::{Notation, Script};
use super::search::Progress;
use super::sense::Notations;
use super::size::{Key, Size, Value};
use super::smaller::{Hunt, SmallerError, find};
use super::walk::Strategy;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;
use weft_sim::choice::Rng;
use weft_sim::explore::FaultSet;

/// Worlds whose sizes are drawn.
#[derive(Debug)]
pub struct Drawn {
    worlds: Vec<(Entry, Size)>,
    /// What is known of each key. Its name and its help say what it is: keys of two systems may have one name.
    keys: BTreeMap<(&'static str, &'static str), Values>,
}

/// What worlds say by a key.
#[derive(Debug, Default)]
struct Values {
    /// Its values in the list.
    whole: BTreeSet<Value>,
    /// The scripts of single clients.
    clients: BTreeSet<String>,
    /// The calls of all scripts, and letters that a world knows though none uses it.
    calls: BTreeSet<String>,
    notation: Notation,
}

/// A world that was drawn, and how it is searched.
#[derive(Clone, Debug)]
pub struct Draw {
    /// The world.
    pub entry: Entry,
    /// Its size.
    pub size: Size,
    /// How its scripts are written.
    pub notations: Notations,
    /// How it is searched.
    pub hunt: Hunt,
    /// Under which faults.
    pub options: Options,
}

/// How many sizes are tried before a world is taken as it stands in the list.
const TRIES: u32 = 50;
/// Calls that a drawn script has beyond the longest one of its world's list.
const MORE_CALLS: usize = 3;
/// Executions of a search: a short one each, and many worlds.
const EXECUTIONS: u64 = 400;
/// Events of a search by executions: there are worlds whose executions are long.
const EVENTS: u64 = 100_000;
/// Walks of a search.
const WALKS: u64 = 60;

impl Drawn {
    /// Of those of these worlds that must hold.
    pub fn of(entries: impl IntoIterator<Item = Entry>) -> Drawn {
        let must_hold = entries.into_iter().filter(|entry| entry.expected == Expected::Held);
        let usual = |entry: Entry| Some((entry, entry.build(&Size::default()).ok()?.size()));
        let worlds: Vec<(Entry, Size)> = must_hold.filter_map(usual).collect();
        let mut keys: BTreeMap<_, Values> = BTreeMap::new();
        let values = worlds.iter().flat_map(|(entry, size)| {
            entry.keys.iter().filter_map(move |key| Some((entry, size, key, size.get(key.name)?)))
        });
        for (_, _, key, value) in values.clone() {
            keys.entry((key.name, key.help)).or_default().hear(value);
        }
        for (entry, size, key, value) in values {
            keys.entry((key.name, key.help)).or_default().learn(entry, size, key.name, value);
        }
        Drawn { worlds, keys }
    }

    /// Whether there is no world.
    pub fn is_empty(&self) -> bool {
        self.worlds.is_empty()
    }

    /// A world, as a seed draws it.
    pub fn draw(&self, seed: u64) -> Draw {
        let mut rng = Rng::from_seed(seed);
        let tried = (0..TRIES).find_map(|_| {
            let (entry, usual) = self.one(&mut rng);
            let size = self.change(&mut rng, entry, usual);
            let model = entry.build(&size).ok()?;
            self.notations(entry).make_sense(entry, &size).then_some((*entry, model))
        });
        let (entry, model) = tried.unwrap_or_else(|| {
            let (entry, usual) = self.one(&mut rng);
            (*entry, entry.build(usual).expect("it was built in its usual size"))
        });
        search(&mut rng, entry, self.notations(&entry), model.as_ref())
    }

    fn one(&self, rng: &mut Rng) -> &(Entry, Size) {
        &self.worlds[rng.below(self.worlds.len() as u64) as usize]
    }

    /// Another size of a world, which it may refuse.
    fn change(&self, rng: &mut Rng, entry: &Entry, usual: &Size) -> Size {
        let mut size = usual.clone();
        let has_script = entry.keys.iter().any(|key| matches!(usual.get(key.name), Some(Value::Text(_))));
        for key in entry.keys {
            let (Some(usual), Some(values)) = (usual.get(key.name), self.keys.get(&(key.name, key.help)))
            else {
                continue;
            };
            match usual {
                _ if has_script && rng.below(8) == 0 => size.set(key.name, one_of(rng, &values.whole)),
                // What numbers alone say is explored by the list's worlds.
                Value::Number(number) if has_script && rng.below(4) == 0 => {
                    size.set(key.name, (number + rng.below(3) as u32).saturating_sub(1));
                }
                Value::Number(_) => {}
                Value::Text(text) => size.set(key.name, values.edited(rng, text)),
            }
        }
        size
    }

    /// How a world's scripts are written.
    fn notations(&self, entry: &Entry) -> Notations {
        let known = |key: &Key| Some((key.name, self.keys.get(&(key.name, key.help))?.notation));
        Notations(entry.keys.iter().filter_map(known).collect())
    }
}

/// How a world is searched: under up to two faults, by its first executions or by walks.
fn search(rng: &mut Rng, entry: Entry, notations: Notations, model: &dyn AnyModel) -> Draw {
    let kinds = model.usual_faults();
    let most = if kinds.is_empty() { 0 } else { model.most_faults().unwrap_or(2).min(2) };
    let faults = rng.below(u64::from(most) + 1) as u32;
    let some = |kinds: FaultSet, rng: &mut Rng| kinds.iter().filter(|_| rng.below(2) == 0).collect();
    let kinds = if rng.below(2) == 0 { kinds } else { some(kinds, rng) };
    let hunt = match rng.below(2) {
        0 => Hunt::Explore(EXECUTIONS),
        _ => Hunt::Walk(Strategy::Swarm, WALKS),
    };
    let options = Options { faults, kinds: Some(kinds), livelock: Options::WALK, ..Options::default() };
    Draw { entry, size: model.size(), notations, hunt, options }
}

/// The letters that a world knows at the end of its script.
fn letters(entry: &Entry, size: &Size, key: &str, text: &str) -> Vec<String> {
    let knows = |letter: &String| {
        let mut longer = size.clone();
        longer.set(key, format!("{text}{letter}"));
        entry.build(&longer).is_ok()
    };
    ('a'..='z').chain('A'..='Z').map(|letter| letter.to_string()).filter(knows).collect()
}

fn one_of<T: Clone>(rng: &mut Rng, all: &BTreeSet<T>) -> T {
    let at = rng.below(all.len() as u64) as usize;
    all.iter().nth(at).expect("there is one").clone()
}

impl Values {
    fn hear(&mut self, value: &Value) {
        self.whole.insert(value.clone());
        if matches!(value, Value::Text(text) if text.contains('.')) {
            self.notation = Notation::Words;
        }
    }

    fn learn(&mut self, entry: &Entry, size: &Size, key: &str, value: &Value) {
        let Value::Text(text) = value else { return };
        for calls in self.notation.script(text).nodes.iter().flatten() {
            self.clients.insert(self.notation.told(calls));
            self.calls.extend(calls.iter().cloned());
        }
        if self.notation == Notation::Letters {
            self.calls.extend(letters(entry, size, key, text));
        }
    }

    /// A text with one to four changes.
    fn edited(&self, rng: &mut Rng, text: &str) -> String {
        let mut script = self.notation.script(text);
        let most = script.len() + MORE_CALLS;
        for _ in 0..=rng.below(4) {
            self.edit(rng, &mut script);
        }
        match script.len() <= most {
            true => script.text(),
            false => text.to_owned(),
        }
    }

    fn edit(&self, rng: &mut Rng, Script { nodes, notation }: &mut Script) {
        let at = |rng: &mut Rng, len: usize| rng.below(len as u64) as usize;
        let node = at(rng, nodes.len());
        let client = at(rng, nodes[node].len());
        let change = rng.below(16);
        if change == 0 {
            return nodes.push(vec![notation.calls(&one_of(rng, &self.clients))]);
        }
        if change == 1 && nodes.len() > 1 {
            return drop(nodes.remove(node));
        }
        if change == 2 {
            return nodes[node].push(vec![one_of(rng, &self.calls)]);
        }
        let calls = &mut nodes[node][client];
        let place = at(rng, calls.len() + 1);
        match (change, calls.get_mut(place)) {
            (3..=4, _) => *calls = notation.calls(&one_of(rng, &self.clients)),
            (5..=6, Some(_)) => drop(calls.remove(place)),
            (7..=9, Some(call)) => *call = one_of(rng, &self.calls),
            (10..=11, Some(call)) => notation.toggle(call),
            (12, Some(_)) => calls.swap(0, place),
            _ => calls.insert(place, one_of(rng, &self.calls)),
        }
    }
}

impl Draw {
    /// Searches it.
    ///
    /// # Errors
    ///
    /// The world is not deterministic.
    pub fn search(&self, watch: Watch<'_>) -> Result<Option<Counterexample>, SmallerError> {
        let mut model = self.entry.build(&self.size).expect("it was built in this size");
        let mut few = |progress: &Progress| match progress.transitions < EVENTS {
            true => watch(progress),
            false => ControlFlow::Break(()),
        };
        find(model.as_mut(), self.hunt, &self.options, &mut few)
    }
}

impl fmt::Display for Draw {
    /// As `weft check` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.entry.name, self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems;
    use std::collections::BTreeSet;

    fn all() -> Drawn {
        Drawn::of(systems::worlds())
    }

    #[test]
    fn a_seed_draws_one_world_and_many_seeds_draw_what_the_list_has_not() {
        let (drawn, again) = (all(), all());
        let known: BTreeSet<String> = drawn.worlds.iter().map(|(_, size)| size.to_string()).collect();
        let draws: Vec<Draw> = (0..60).map(|seed| drawn.draw(seed)).collect();
        for (seed, draw) in (0..).zip(&draws).take(5) {
            assert_eq!(again.draw(seed).to_string(), draw.to_string());
        }
        let new = draws.iter().filter(|draw| !known.contains(&draw.size.to_string())).count();
        assert!(new > 20, "{new} of {}", draws.len());
        let worlds: BTreeSet<&str> = draws.iter().map(|draw| draw.entry.name).collect();
        assert!(worlds.len() > 40, "of {} worlds", worlds.len());
    }

    /// What the list has is what is changed: a call that makes no sense there would be drawn in no script. (A user of a stream may wait for
    /// what never comes, and has to drop its call then.)
    #[test]
    fn scripts_of_the_list_whose_calls_may_be_dropped_make_sense_but_for_some_of_streams() {
        let drawn = all();
        let (mut sound, mut others) = (0, Vec::new());
        for (entry, size) in &drawn.worlds {
            let notations = drawn.notations(entry);
            if !notations.dropped_or_not(size).is_empty() {
                match notations.make_sense(entry, size) {
                    true => sound += 1,
                    false => others.push(entry.name),
                }
            }
        }
        assert!(sound > 20, "{sound}");
        assert!(others.len() < 5 && others.iter().all(|name| name.starts_with("sdp-")), "{others:?}");
    }

    fn planted() -> Entry {
        let all = systems::worlds().into_iter();
        all.into_iter().find(|entry| entry.name == "planted-ddss-one-look").expect("it is there")
    }

    /// A bug that was planted, as if nobody knew of it, in a world whose list has no script that shows it.
    #[test]
    fn a_bug_that_no_script_of_the_list_shows_is_found_by_drawn_ones() {
        let unknown = Entry {
            expected: Expected::Held,
            make: |size| {
                let mut quiet = Size::new([("calls", "p,g")]);
                size.get("calls").into_iter().for_each(|calls| quiet.set("calls", calls.clone()));
                planted().build(&quiet)
            },
            ..planted()
        };
        let drawn = Drawn::of([unknown]);
        let holds = |calls: &str| {
            let mut model = unknown.build(&Size::new([("calls", calls)])).expect("it is a script");
            let mut watch = |_: &Progress| ControlFlow::Continue(());
            model.explore(&Options::default(), &mut watch).expect("it is explored").held()
        };
        assert!(holds("p,g"), "one put does not show it");
        let found = (0..400).find_map(|seed| {
            let found = drawn.draw(seed).search(&mut |_| ControlFlow::Continue(()));
            found.expect("it is searched")
        });
        assert!(found.is_some());
    }

    /// As `weft fuzz worlds` draws them; more of them than a test has time for.
    #[test]
    fn drawn_worlds_hold() {
        let drawn = all();
        for seed in 0..20 {
            let draw = drawn.draw(seed);
            let found = draw.search(&mut |_| ControlFlow::Continue(())).expect("it is searched");
            assert!(found.is_none(), "seed {seed}, {draw}: {found:?}");
        }
    }
}
