//! Rows that are shown together as a table: the same for the terminal and for a page.

use super::{Row, X};

/// A table about one of the paper's figures. Its first column holds words, the others hold numbers.
#[derive(Clone, Debug)]
pub struct Group {
    /// The figure's name, as rows have it.
    pub figure: &'static str,
    /// What the table shows.
    pub title: String,
    /// The columns' heads.
    pub heads: Vec<String>,
    /// The lines below them.
    pub cells: Vec<Vec<String>>,
}

impl Group {
    /// A line for each row, the paper's value beside ours where the paper has one of any of them.
    pub fn compared(figure: &'static str, title: String, rows: &[&Row]) -> Group {
        let given = rows.iter().any(|row| row.paper.is_some());
        // A number tells the rows of a series apart.
        let is_alone = |row: &Row| rows.iter().filter(|other| other.series == row.series).count() == 1;
        let line = |row: &&Row| {
            let name = match &row.x {
                X::Number(_) if is_alone(row) => row.series.clone(),
                x => format!("{}, {x}", row.series),
            };
            match given {
                true => {
                    let off = known(row.deviation_percent, percent);
                    vec![name, known(row.paper, value), value(row.measured), off]
                }
                false => vec![name, value(row.measured)],
            }
        };
        let heads = if given { &["", "paper", "here", "deviation"][..] } else { &["", "here"] };
        let heads = heads.iter().map(ToString::to_string).collect();
        Group { figure, title, heads, cells: rows.iter().map(line).collect() }
    }

    /// A line for each number that is shown, with a column for each series. `head` says what the numbers are.
    pub fn lines(figure: &'static str, title: String, head: &str, shown: &[u64], rows: &[&Row]) -> Group {
        let series = names(rows);
        let at = |n: u64, name: &str| {
            let row = rows.iter().find(|row| row.x == X::Number(n) && row.series == name);
            known(row.map(|row| row.measured), value)
        };
        let line = |n: &u64| [vec![n.to_string()], series.iter().map(|name| at(*n, name)).collect()].concat();
        let heads = [vec![head.to_string()], series.clone()].concat();
        Group { figure, title, heads, cells: shown.iter().map(line).collect() }
    }
}

/// The series of some rows, in their order.
pub fn names(rows: &[&Row]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for row in rows {
        if !all.contains(&row.series) {
            all.push(row.series.clone());
        }
    }
    all
}

/// A cell; a dash for what is not known.
pub fn known(value: Option<f64>, words: fn(f64) -> String) -> String {
    value.map_or("-".to_string(), words)
}

/// A cell with a value.
pub fn value(value: f64) -> String {
    format!("{value:.2}")
}

/// A cell with a deviation: with its sign, and none for what rounds to nothing.
pub fn percent(percent: f64) -> String {
    match format!("{percent:+.1} %") {
        zero if zero == "+0.0 %" || zero == "-0.0 %" => "0.0 %".to_string(),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_series_are_told_apart_by_their_numbers() {
        let row = |series: &str, x| Row::new("Figure 1", series, x, "us", None, 1.0);
        let rows = [
            row("put", X::Number(1)),
            row("put", X::Number(2)),
            row("get", X::Number(1)),
            row("swap", X::Name("of a word")),
        ];
        let group = Group::compared("Figure 1", String::new(), &rows.iter().collect::<Vec<_>>());
        let names: Vec<&str> = group.cells.iter().map(|line| line[0].as_str()).collect();
        assert_eq!(names, ["put, 1", "put, 2", "get", "swap, of a word"]);
    }
}
