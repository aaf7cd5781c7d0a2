//! Which module of a crate imports which: read from the sources' text, without their tests.
//!
//! The reader knows tokens, `use` trees, inline modules, `#[cfg(test)]`, and re-exports by the root or by a folder's
//! `mod.rs`. It expands no macro: a path in a macro counts as it stands.

use super::tokens::{Token, tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The imports between the modules of one folder: who imports whom.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// A module, by its names from the crate's root on.
type Module = Vec<String>;

/// The sources of a crate, read once.
#[derive(Default)]
pub struct Sources {
    modules: BTreeMap<Module, Read>,
    /// Modules that are folders.
    folders: BTreeSet<Module>,
}

/// What one file says.
#[derive(Default)]
struct Read {
    /// Paths that it names, from the root on.
    named: Vec<Named>,
    /// Names that it takes from elsewhere, and where from.
    aliases: BTreeMap<String, Module>,
    /// Those of them that it passes on.
    public: BTreeSet<String>,
    /// Modules all of whose names it takes.
    globs: Vec<Module>,
    /// Items that it declares.
    declared: BTreeSet<String>,
    /// Its modules that only tests have.
    tests: BTreeSet<String>,
}

struct Named {
    path: Module,
    line: usize,
}

/// An import from one module to another, and the first place that makes it.
pub type Places = BTreeMap<(String, String), String>;

impl Sources {
    /// Reads a crate's `src`.
    pub fn read(src: &Path) -> Sources {
        let mut sources = Sources::default();
        for root in ["lib.rs", "main.rs"] {
            if src.join(root).is_file() {
                sources.file(&src.join(root), Vec::new());
            }
        }
        sources.folder(src, &Vec::new());
        sources
    }

    fn file(&mut self, path: &Path, module: Module) {
        let text = fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let read = Reader::read(&text, &module);
        let known = self.modules.entry(module).or_default();
        known.named.extend(read.named);
        known.aliases.extend(read.aliases);
        known.public.extend(read.public);
        known.globs.extend(read.globs);
        known.declared.extend(read.declared);
        known.tests.extend(read.tests);
    }

    /// Reads a folder's files, outer ones first: they say which inner ones are tests.
    fn folder(&mut self, folder: &Path, module: &Module) {
        let mut entries: Vec<_> = fs::read_dir(folder)
            .expect("a source folder")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        entries.sort_by_key(|path| (path.is_dir(), path.clone()));
        for path in entries {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let is_root = module.is_empty() && ["lib", "main"].contains(&name.as_str());
            let is_test = self.modules.get(module).is_some_and(|outer| outer.tests.contains(&name));
            if is_root || is_test || name == "mod" {
                continue;
            }
            let inner: Module = module.iter().cloned().chain([name]).collect();
            if path.is_dir() {
                if path.join("mod.rs").is_file() {
                    self.file(&path.join("mod.rs"), inner.clone());
                }
                self.folders.insert(inner.clone());
                self.folder(&path, &inner);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                self.file(&path, inner);
            }
        }
    }

    /// Folders that hold folders, the root first.
    pub fn outer_folders(&self) -> BTreeSet<Module> {
        self.folders.iter().map(|folder| folder[..folder.len() - 1].to_vec()).collect()
    }

    /// Who imports whom among the modules directly in a folder, and where. What stands in the folder's own `mod.rs` (or
    /// the root) names all of them, and is nobody's import.
    pub fn graph(&self, folder: &[String]) -> (Graph, Places) {
        let (mut graph, mut places) = (Graph::new(), Places::new());
        for (module, read) in self.modules.iter().filter(|(module, _)| module.len() > folder.len()) {
            if !module.starts_with(folder) {
                continue;
            }
            let from = &module[folder.len()];
            for Named { path, line } in &read.named {
                let Some(to) = self.inside(folder, path, 0).filter(|to| to != from) else { continue };
                places
                    .entry((from.clone(), to.clone()))
                    .or_insert_with(|| format!("{}:{line}", module.join("/")));
                graph.entry(from.clone()).or_default().insert(to);
            }
        }
        (graph, places)
    }

    /// The module directly in a folder that a path leads into, through re-exports.
    fn inside(&self, folder: &[String], path: &[String], deep: usize) -> Option<String> {
        if deep > 8 {
            return None;
        }
        // The deepest module that the path begins with, and the name that follows.
        let known = (0..=path.len()).rev().find(|&len| self.modules.contains_key(&path[..len]))?;
        let (module, rest) = path.split_at(known);
        if module.len() > folder.len() && module.starts_with(folder) {
            return Some(module[folder.len()].clone());
        }
        let name = rest.first()?;
        let from = self.origin(module, name)?;
        (from != path).then(|| self.inside(folder, &from, deep + 1)).flatten()
    }

    /// Where a module has a name from that it does not declare itself.
    fn origin(&self, module: &[String], name: &str) -> Option<Module> {
        let read = self.modules.get(module)?;
        if let Some(path) = read.aliases.get(name) {
            return Some(path.clone());
        }
        if read.declared.contains(name) {
            return None;
        }
        let named = |from: &&Module| {
            self.modules
                .get(*from)
                .is_some_and(|read| read.declared.contains(name) || read.public.contains(name))
        };
        read.globs.iter().find(named).map(|from| from.iter().cloned().chain([name.to_owned()]).collect())
    }

    /// Whether a module is a folder.
    pub fn is_folder(&self, outer: &[String], name: &str) -> bool {
        self.folders.contains(&outer.iter().cloned().chain([name.to_owned()]).collect::<Module>())
    }
}

/// Sets of modules each of which reaches each other one.
pub fn cycles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            open.extend(graph.get(at).into_iter().flatten().filter(|to| seen.insert((*to).clone())));
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<String>> = graph.keys().map(|from| (from, reached(from))).collect();
    let mut found = BTreeSet::new();
    for (from, to) in &reach {
        let cycle: BTreeSet<String> =
            to.iter().filter(|to| reach.get(to).is_some_and(|back| back.contains(*from))).cloned().collect();
        if cycle.len() > 1 {
            found.insert(cycle);
        }
    }
    found.into_iter().collect()
}

/// Reads one file's tokens.
struct Reader {
    tokens: Vec<Token>,
    at: usize,
    /// The module at this place: the file's, and inline ones with the depth of their braces.
    module: Module,
    inline: Vec<usize>,
    depth: usize,
    /// Whether the present `use` passes on what it takes.
    is_public: bool,
    read: Read,
}

/// Words before the name of a declared item.
const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "const", "static", "type", "union", "mod"];

impl Reader {
    fn read(text: &str, module: &Module) -> Read {
        let mut reader = Reader {
            tokens: tokens(text),
            at: 0,
            module: module.clone(),
            inline: Vec::new(),
            depth: 0,
            is_public: false,
            read: Read::default(),
        };
        while reader.at < reader.tokens.len() {
            reader.step();
        }
        reader.read
    }

    fn text(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| &token.text)
    }

    fn step(&mut self) {
        match self.text(0) {
            "#" if self.text(1) == "[" && self.text(2) == "cfg" => return self.cfg(),
            "{" => self.depth += 1,
            "}" => {
                if self.inline.last() == Some(&self.depth) {
                    self.inline.pop();
                    self.module.pop();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            "mod" if self.text(2) == "{" => {
                let name = self.text(1).to_owned();
                self.module.push(name);
                self.inline.push(self.depth + 1);
                self.at += 1;
            }
            "use" => {
                self.is_public =
                    self.at > 0 && ["pub", ")"].contains(&self.tokens[self.at - 1].text.as_str());
                self.at += 1;
                return self.paths(true);
            }
            "crate" | "super" | "self" if self.text(1) == "::" => return self.paths(false),
            word if ITEMS.contains(&word) && self.depth == self.inline.last().copied().unwrap_or(0) => {
                let name = self.text(1).to_owned();
                if self.inline.is_empty() {
                    self.read.declared.insert(name);
                }
            }
            _ => {}
        }
        self.at += 1;
    }

    /// An attribute `cfg`: what only tests have is passed over.
    fn cfg(&mut self) {
        let mut words = Vec::new();
        while self.at < self.tokens.len() && self.text(0) != "]" {
            words.push(self.text(0).to_owned());
            self.at += 1;
        }
        self.at += 1;
        if !words.iter().any(|word| word == "test") || words.iter().any(|word| word == "not") {
            return;
        }
        let mut depth = 0;
        while self.at < self.tokens.len() {
            match self.text(0) {
                "mod" if depth == 0 && self.text(2) == ";" => {
                    let name = self.text(1).to_owned();
                    self.read.tests.insert(name);
                }
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            let ends = depth == 0 && [";", "}"].contains(&self.text(0));
            self.at += 1;
            if ends {
                return;
            }
        }
    }

    /// A path, or a tree of paths after `use`.
    fn paths(&mut self, is_use: bool) {
        let line = self.tokens[self.at].line;
        let mut base = match self.text(0) {
            "crate" => Some(Vec::new()),
            "self" | "super" => Some(self.module.clone()),
            // A module's own, or another crate.
            _ => is_use.then(|| self.module.clone()),
        };
        let is_bare = !["crate", "self", "super"].contains(&self.text(0));
        while ["crate", "self", "super"].contains(&self.text(0)) {
            if self.text(0) == "super" {
                base.as_mut().expect("a base").pop();
            }
            self.at += 1;
            if self.text(0) == "::" {
                self.at += 1;
            }
        }
        let Some(base) = base else { return };
        self.tree(base, line, is_use, is_bare);
    }

    fn tree(&mut self, mut path: Module, line: usize, is_use: bool, is_bare: bool) {
        loop {
            let word = self.text(0).to_owned();
            match word.as_str() {
                "{" if is_use => {
                    self.at += 1;
                    while self.at < self.tokens.len() && self.text(0) != "}" {
                        if self.text(0) == "," {
                            self.at += 1;
                            continue;
                        }
                        self.tree(path.clone(), line, is_use, is_bare);
                    }
                    self.at += 1;
                    return;
                }
                "*" if is_use => {
                    self.at += 1;
                    self.read.globs.push(path.clone());
                    self.read.named.push(Named { path, line });
                    return;
                }
                "self" if is_use => self.at += 1,
                _ if word.chars().all(|c| c.is_alphanumeric() || c == '_') && !word.is_empty() => {
                    path.push(word);
                    self.at += 1;
                }
                _ => {}
            }
            if self.text(0) != "::" {
                break;
            }
            self.at += 1;
        }
        if is_use {
            let alias =
                if self.text(0) == "as" { self.text(1) } else { path.last().map_or("", String::as_str) };
            let alias = alias.to_owned();
            if self.text(0) == "as" {
                self.at += 2;
            }
            if self.inline.is_empty() {
                if self.is_public {
                    self.read.public.insert(alias.clone());
                }
                self.read.aliases.insert(alias, path.clone());
            }
        }
        // A bare path in `use` is a child's name or another crate's: the root and a folder's `mod.rs` re-export so.
        if !is_bare {
            self.read.named.push(Named { path, line });
        }
    }
}
