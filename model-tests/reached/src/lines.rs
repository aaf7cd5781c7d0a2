//! What the lines of each file come to, and which were not reached.

use crate::coverage::Lines;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// One file.
#[derive(Serialize)]
pub struct File {
    /// Where it is, from the workspace's folder on.
    pub path: String,
    /// How many of its lines can run.
    pub lines: usize,
    /// How many of these did.
    pub reached: usize,
    /// Those that did not, in order.
    pub unreached: Vec<Range>,
}

/// Lines that follow each other, as far as they can run at all, and that were not reached.
#[derive(Serialize)]
pub struct Range {
    /// The first.
    pub from: usize,
    /// The last.
    pub to: usize,
    /// The function that they are of.
    pub function: Option<String>,
}

impl File {
    /// A file of the workspace in `root`.
    pub fn new(root: &Path, path: &Path, lines: &Lines) -> File {
        let text = fs::read_to_string(path).unwrap_or_default();
        let text: Vec<&str> = text.lines().collect();
        let mut unreached: Vec<Range> = Vec::new();
        let mut goes_on = false;
        for (&line, &reached) in lines {
            let function = function(&text, line);
            match unreached.last_mut() {
                Some(last) if goes_on && !reached && last.function == function => last.to = line,
                _ if !reached => unreached.push(Range { from: line, to: line, function }),
                _ => {}
            }
            goes_on = !reached;
        }
        let path = path.strip_prefix(root).unwrap_or(path).display().to_string();
        File {
            path,
            lines: lines.len(),
            reached: lines.values().filter(|reached| **reached).count(),
            unreached,
        }
    }
}

/// The name of the function that a line belongs to: the last one that begins before its end, by the text.
fn function(text: &[&str], line: usize) -> Option<String> {
    let before = text.get(..line.min(text.len()))?;
    before.iter().rev().find_map(|line| {
        let line = line.trim_start();
        let (words, after) = line.split_once("fn ")?;
        let is_declared = words.split_whitespace().all(|word| {
            ["const", "async", "unsafe"].contains(&word) || word.starts_with("pub") || word.ends_with(')')
        });
        let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (is_declared && !name.is_empty()).then_some(name)
    })
}
