//! What the page says: its code blocks, each by the heading above it.

use std::fs;
use std::path::Path;

/// The page's parts.
pub struct Page {
    /// The system's files, in full.
    pub files: Vec<File>,
    /// What other files get.
    pub lines: Vec<Change>,
    /// The bug that is planted.
    pub bug: Change,
    /// The scenario.
    pub scenario: String,
    /// The commands that are shown before the bug is planted.
    pub holds: Vec<Shown>,
    /// And after.
    pub finds: Vec<Shown>,
}

/// A command of the program, and what it prints.
pub struct Shown {
    /// What follows `weft`.
    pub command: String,
    /// What the page shows below it; nothing where the page shows none.
    pub output: String,
}

/// The commands of a block, each with the lines below it.
fn shown(block: &str) -> impl Iterator<Item = Shown> {
    let commands = block.split("$ weft ").skip(1);
    commands.map(|text| {
        let (command, output) = text.split_once('\n').expect("a command is a line");
        Shown { command: command.to_owned(), output: output.trim_end().to_owned() }
    })
}

/// A file of the system.
pub struct File {
    /// Its path in the workspace.
    pub path: String,
    /// What it holds.
    pub text: String,
}

/// A place of a file, before and after.
pub struct Change {
    /// The file's path in the workspace.
    pub path: String,
    /// Lines with ` `, `-` or `+` before them.
    diff: String,
}

impl Change {
    fn lines(&self, signs: &'static [char]) -> impl Iterator<Item = &str> {
        self.diff.lines().filter_map(move |line| line.strip_prefix(signs))
    }

    /// The lines that are new, each with its file and without the white space around it.
    pub fn added(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines(&['+']).map(|line| (self.path.as_str(), line.trim()))
    }

    /// The lines that go.
    pub fn removed(&self) -> impl Iterator<Item = &str> {
        self.lines(&['-'])
    }

    /// Makes the change in the file's text.
    pub fn apply(&self, text: &str) -> String {
        let block = |signs| self.lines(signs).map(|line| format!("{line}\n")).collect::<String>();
        let (before, after) = (block(&[' ', '-']), block(&[' ', '+']));
        assert_eq!(text.matches(&before).count(), 1, "{} does not have once:\n{before}", self.path);
        text.replace(&before, &after)
    }
}

/// A code block: the path in the heading above it, if there is one, its language, and what it holds.
struct Block {
    path: String,
    language: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let (mut found, mut path, mut lines) = (Vec::new(), String::new(), page.lines());
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            path = line.split('`').nth(1).unwrap_or("").to_owned();
        } else if let Some(language) = line.strip_prefix("```") {
            let text = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n"));
            found.push(Block { path: path.clone(), language: language.to_owned(), text: text.collect() });
        }
    }
    found
}

impl Page {
    /// Reads it.
    pub fn read(path: &Path) -> Page {
        let text = fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let (mut files, mut changes, mut scenario) = (Vec::new(), Vec::new(), String::new());
        let (mut holds, mut finds) = (Vec::new(), Vec::new());
        for Block { path, language, text } in blocks(&text) {
            let is_own = files.iter().any(|file: &File| file.path == path);
            match language.as_str() {
                "rust" => files.push(File { path, text }),
                "diff" => changes.push((is_own, Change { path, diff: text })),
                "toml" => scenario = text,
                "console" => {
                    let is_planted = changes.iter().any(|(is_own, _)| *is_own);
                    if is_planted { &mut finds } else { &mut holds }.extend(shown(&text));
                }
                _ => {}
            }
        }
        let (mut bug, lines): (Vec<_>, Vec<_>) = changes.into_iter().partition(|(is_own, _)| *is_own);
        let (_, bug) = bug.pop().expect("a bug is planted");
        let lines = lines.into_iter().map(|(_, change)| change).collect();
        Page { files, lines, bug, scenario, holds, finds }
    }
}
