//! Tables for people: names to the left, numbers to the right, nothing wrapped, no wider than 80 columns.

use crate::output::shown;
use comfy_table::{CellAlignment, ContentArrangement, Table as Grid, presets};
use std::fmt::Write;

/// How far columns stand apart.
const GAP: usize = 2;

/// A titled table.
#[derive(Debug)]
pub struct Table {
    title: String,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Leading columns that hold words; the others hold numbers.
    words: usize,
}

impl Table {
    /// A table whose first `words` columns hold words and are flush left.
    pub fn new(title: &str, words: usize, heads: &[&str]) -> Table {
        Table {
            title: title.to_string(),
            heads: heads.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
            words,
        }
    }

    /// A table of names and what they stand for, without a header.
    pub fn facts(title: &str) -> Table {
        Table::new(title, 2, &[])
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) -> &mut Table {
        self.rows.push(cells.into());
        self
    }

    /// Adds a row whose length is known only now.
    pub fn line(&mut self, cells: Vec<String>) -> &mut Table {
        self.rows.push(cells);
        self
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Appends it to a report, after an empty line.
    pub fn print(&self, to: &mut String) {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if !self.heads.is_empty() {
            grid.set_header(&self.heads);
        }
        grid.add_rows(&self.rows);
        for (index, column) in grid.column_iter_mut().enumerate() {
            column.set_padding((GAP as u16, 0));
            if index >= self.words {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let _ = writeln!(to, "\n{}", self.title);
        let _ = writeln!(to, "{}", grid.trim_fmt());
    }
}

/// The width that text for people keeps to.
pub const WIDTH: usize = 80;

/// How wide a column is that has this cell alone under its head.
pub fn column(head: &str, cell: &str) -> usize {
    GAP + head.chars().count().max(cell.chars().count())
}

/// Appends a paragraph, broken between words and indented.
pub fn wrap(paragraph: &str, indent: usize, to: &mut String) {
    let mut used = 0;
    for word in paragraph.split_whitespace().map(shown) {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > WIDTH {
            to.push('\n');
            used = 0;
        }
        if used == 0 {
            to.push_str(&" ".repeat(indent));
            used = indent;
        } else {
            to.push(' ');
            used += 1;
        }
        to.push_str(&word);
        used += length;
    }
    to.push('\n');
}

/// A number with its thousands apart: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A span in microseconds, with as many decimals as its size leaves of interest.
pub fn micros(nanos: u64) -> String {
    let micros = nanos as f64 / 1e3;
    match nanos {
        0..100_000 => format!("{micros:.2}"),
        100_000..1_000_000 => format!("{micros:.1}"),
        _ => count(micros.round() as u64),
    }
}

/// So many characters of a text; the last one says where more was left out.
pub fn short(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['~']).collect(),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_span_keeps_the_digits_that_matter() {
        assert_eq!(
            [0, 5_780, 99_999, 123_456, 1_234_567].map(micros),
            ["0.00", "5.78", "100.00", "123.5", "1,235"]
        );
    }

    #[test]
    fn a_paragraph_is_broken_between_words() {
        let mut text = String::new();
        wrap(&"word ".repeat(30), 4, &mut text);
        assert!(text.lines().all(|line| line.starts_with("    word") && line.len() <= WIDTH));
        assert_eq!((text.matches("word").count(), text.lines().count()), (30, 2));
    }

    #[test]
    fn what_a_file_says_in_a_paragraph_does_not_move_the_cursor() {
        let mut text = String::new();
        wrap("a\u{1b}[31mred \u{7}", 0, &mut text);
        assert_eq!(text, "a?[31mred ?\n");
    }

    #[test]
    fn numbers_line_up_on_the_right() {
        let mut table = Table::new("Requests", 1, &["mode", "granted"]);
        table.row(["exclusive".into(), "7".into()]).row(["shared".into(), "1,234".into()]);
        let mut text = String::new();
        table.print(&mut text);
        assert_eq!(text, "\nRequests\n  mode       granted\n  exclusive        7\n  shared       1,234\n");
    }
}
