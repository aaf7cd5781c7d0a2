//! Finds a field's line in a scenario's text, and the field at a place of it.

use super::error::{Place, Step};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A scenario's text with the places of its fields.
pub(super) struct Document<'a> {
    file: &'a str,
    text: &'a str,
    root: DeTable<'a>,
}

impl<'a> Document<'a> {
    /// Reads the structure of `text`, which must be TOML.
    pub(super) fn new(file: &'a str, text: &'a str) -> Result<Document<'a>, super::ScenarioError> {
        match DeTable::parse(text) {
            Ok(root) => Ok(Document { file, text, root: root.into_inner() }),
            Err(error) => {
                let empty = Document { file, text, root: DeTable::new() };
                let at = empty.place(error.span().map_or(0, |span| span.start));
                let why = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
                Err(super::ScenarioError::Syntax { at, why })
            }
        }
    }

    /// The line at a byte of the text.
    pub(super) fn place(&self, byte: usize) -> Place {
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        Place { file: self.file.to_owned(), line }
    }

    /// What is written there, shortened to one line of moderate length.
    pub(super) fn source(&self, span: Range<usize>) -> String {
        const LONGEST: usize = 60;
        let text = self.text.get(span).unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ");
        match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        }
    }

    /// The path of the innermost field whose name or value contains `span`.
    pub(super) fn path_at(&self, span: &Range<usize>) -> Vec<Step> {
        let mut path = Vec::new();
        in_table(&self.root, span, &mut path);
        path
    }

    /// The value at `path`.
    pub(super) fn find(&self, path: &[Step]) -> Option<Range<usize>> {
        let mut value: Option<&Spanned<DeValue<'_>>> = None;
        for step in path {
            value = Some(match (step, value.map(Spanned::get_ref)) {
                (Step::Field(name), None) => self.root.get(name.as_str())?,
                (Step::Field(name), Some(DeValue::Table(table))) => table.get(name.as_str())?,
                (Step::Item(index), Some(DeValue::Array(list))) => list.get(*index)?,
                _ => return None,
            });
        }
        value.map(Spanned::span)
    }

    /// Where the innermost part of `path` that exists begins.
    pub(super) fn nearest(&self, path: &[Step]) -> usize {
        let existing = (0..path.len()).rev().find_map(|end| self.find(&path[..end]));
        existing.map_or(0, |span| span.start)
    }

    /// The path as a person would say it: `[cluster] nodes`, `[[faults]] 2 lasts`.
    pub(super) fn name(&self, path: &[Step], field: Option<&str>) -> String {
        let mut names: Vec<String> = path.iter().map(step_name).collect();
        names.extend(field.map(str::to_owned));
        if let [section, ..] = &mut names[..]
            && path.first().is_some_and(|first| self.is_section(first))
        {
            *section = match path.get(1) {
                Some(Step::Item(_)) => format!("[[{section}]]"),
                _ => format!("[{section}]"),
            };
        }
        names.join(" ")
    }

    fn is_section(&self, step: &Step) -> bool {
        let Step::Field(name) = step else { return false };
        matches!(
            self.root.get(name.as_str()).map(Spanned::get_ref),
            Some(DeValue::Table(_) | DeValue::Array(_))
        ) || matches!(name.as_str(), "cluster" | "transport" | "workload" | "run" | "faults")
    }
}

fn step_name(step: &Step) -> String {
    match step {
        Step::Field(name) => name.clone(),
        // People count from one.
        Step::Item(index) => (index + 1).to_string(),
    }
}

fn in_table(table: &DeTable<'_>, span: &Range<usize>, path: &mut Vec<Step>) {
    for (key, value) in table.iter() {
        if contains(&key.span(), span) && !is_header(value, span) {
            // The span is a name, not a value. An unknown field is named by its table and itself.
            return;
        }
        path.push(Step::Field(key.get_ref().to_string()));
        if in_value(value, span, path) {
            return;
        }
        path.pop();
    }
}

/// Whether the span covers more than a name: a table's own header.
fn is_header(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> bool {
    value.get_ref().is_table() && contains(&value.span(), span)
}

/// Extends `path` to the span if the value or a part of it contains the span.
fn in_value(value: &Spanned<DeValue<'_>>, span: &Range<usize>, path: &mut Vec<Step>) -> bool {
    let depth = path.len();
    match value.get_ref() {
        DeValue::Table(table) => {
            in_table(table, span, path);
            path.len() > depth
                || contains(&value.span(), span)
                || table.keys().any(|key| contains(&key.span(), span))
        }
        DeValue::Array(list) => {
            for (index, item) in list.iter().enumerate() {
                path.push(Step::Item(index));
                if in_value(item, span, path) {
                    return true;
                }
                path.pop();
            }
            contains(&value.span(), span)
        }
        _ => contains(&value.span(), span),
    }
}

fn contains(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end && inner.start < inner.end
}
