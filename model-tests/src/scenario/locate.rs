//! Finds a field's line in a scenario's text, and the field at a place of it.

use super::error::Place;
use super::{Override, ScenarioError};
use crate::fields::Step;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A scenario's text with the places of its fields. What a command line gives instead stands behind the text's end, two
/// bytes for each.
pub(super) struct Document<'a> {
    file: &'a str,
    text: &'a str,
    overrides: &'a [Override],
    root: DeTable<'a>,
}

impl<'a> Document<'a> {
    /// Reads the structure of `text`, which must be TOML.
    pub(super) fn new(
        file: &'a str,
        text: &'a str,
        overrides: &'a [Override],
    ) -> Result<Document<'a>, ScenarioError> {
        let empty = Document { file, text, overrides, root: DeTable::new() };
        let root = DeTable::parse(text).map_err(|error| {
            let at = empty.place(error.span().map_or(0, |span| span.start));
            let why = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            ScenarioError::Syntax { at, why }
        })?;
        let mut document = Document { root: root.into_inner(), ..empty };
        for (number, field) in overrides.iter().enumerate() {
            let at = document.behind(number);
            field.apply(&mut document.root, at)?;
        }
        Ok(document)
    }

    /// Where an override stands.
    fn behind(&self, number: usize) -> usize {
        self.text.len() + 1 + 2 * number
    }

    /// The override that stands at a byte.
    fn given(&self, byte: usize) -> Option<&Override> {
        let number = byte.checked_sub(self.behind(0))? / 2;
        self.overrides.get(number)
    }

    /// Reads the whole document.
    pub(super) fn deserializer(&self) -> toml::Deserializer<'a> {
        toml::Deserializer::from(Spanned::new(0..self.text.len(), self.root.clone()))
    }

    /// A section or a field of the root.
    pub(super) fn value(&self, name: &str) -> Option<&Spanned<DeValue<'a>>> {
        self.root.get(name)
    }

    /// The line at a byte of the text.
    pub(super) fn place(&self, byte: usize) -> Place {
        if let Some(given) = self.given(byte) {
            return Place { file: format!("--set {}", given.text()), line: None };
        }
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        Place { file: self.file.to_owned(), line: Some(line) }
    }

    /// What is written there, shortened to one line of moderate length.
    pub(super) fn source(&self, span: Range<usize>) -> String {
        const LONGEST: usize = 60;
        let given = self.given(span.start).and_then(|given| given.text().split_once('='));
        let written = given.map(|(_, value)| value).or_else(|| self.text.get(span)).unwrap_or("");
        let text = written.split_whitespace().collect::<Vec<_>>().join(" ");
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
