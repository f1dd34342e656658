//! `report.txt`: for people at 80 columns and for `grep`; every line begins with the name of its table.
//!
//! Cells wrap at blanks within their column. A word is never broken, so that it can be found: a line is longer only
//! where a word is.

use crate::findings::findings;
use crate::format::line;
use crate::head::head;
use crate::sections::{Section, column_title, is_number, sections};
use onnxd_proto::onnxd::Report;

/// Columns of a line, where words allow.
const WIDTH: usize = 80;
/// Digits of a digest that are enough to tell files apart; `report.json` has all.
const DIGEST_DIGITS: usize = 16;
/// Cells up to here, such as `18 of 32`, stay in one line.
const SHORT: usize = 8;
/// Between two cells.
const GAP: usize = 2;

/// The report as plain text.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let head = head(report);
    let first =
        [("name", line(&report.name)), ("verdict", head.verdict), ("summary", head.summary)];
    let last = [("job", line(&report.job))];
    for (key, value) in first.into_iter().chain(head.facts).chain(last) {
        let key = format!("{key:<8}");
        push_row(&mut out, &key, &[value], &[WIDTH - key.len() - GAP], &[false]);
    }
    push_findings(&mut out, report);
    for section in sections(report) {
        out.push('\n');
        push_table(&mut out, &section);
    }
    out
}

fn push_findings(out: &mut String, report: &Report) {
    const KEY: &str = "finding";
    let width = WIDTH - KEY.len() - GAP;
    for found in findings(report) {
        out.push('\n');
        let place =
            if found.place.is_empty() { String::new() } else { format!(" at {}", found.place) };
        let head = format!("{} {} {}{place}", found.code, found.severity, found.class);
        for text in [head, found.message, found.help] {
            if !text.is_empty() {
                push_row(out, KEY, &[text], &[width], &[false]);
            }
        }
    }
}

fn push_table(out: &mut String, section: &Section) {
    let titles = section.columns.iter().map(|c| column_title(c).to_uppercase()).collect();
    let short = |row: &Vec<String>| -> Vec<String> {
        let cells = row.iter().zip(section.columns);
        let cut = |(cell, column): (&String, &&str)| match column_title(column) {
            "sha256" => cell.chars().take(DIGEST_DIGITS).collect(),
            _ => cell.clone(),
        };
        cells.map(cut).collect()
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(titles).chain(section.rows.iter().map(short)).collect();
    let budget = WIDTH.saturating_sub(section.key.len() + GAP * section.columns.len());
    let widths = fitted(&rows, section.columns.len(), budget);
    let numbers: Vec<bool> = section.columns.iter().map(|c| is_number(c)).collect();
    for row in &rows {
        push_row(out, section.key, row, &widths, &numbers);
    }
}

/// Widths of the columns: as wide as their cells, less for the widest ones where the sum is over `budget`, and never
/// less than the longest word.
fn fitted(rows: &[Vec<String>], columns: usize, budget: usize) -> Vec<usize> {
    let most = |of: fn(&str) -> usize| -> Vec<usize> {
        let column = |i: usize| rows.iter().map(|r| of(&r[i])).max().unwrap_or(0);
        (0..columns).map(column).collect()
    };
    let mut widths = most(|cell| cell.chars().count());
    let least = most(|cell| match cell.chars().count() {
        few if few <= SHORT => few,
        _ => cell.split(' ').map(|w| w.chars().count()).max().unwrap_or(0),
    });
    while widths.iter().sum::<usize>() > budget {
        let narrower = (0..columns).filter(|i| widths[*i] > least[*i]);
        let Some(widest) = narrower.max_by_key(|i| widths[*i]) else { break };
        widths[widest] -= 1;
    }
    widths
}

/// One row, over as many lines as its cells take.
fn push_row(out: &mut String, key: &str, row: &[String], widths: &[usize], numbers: &[bool]) {
    let cells: Vec<Vec<String>> =
        row.iter().zip(widths).map(|(cell, width)| wrapped(cell, *width)).collect();
    let lines = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
    for i in 0..lines {
        let mut text = key.to_owned();
        for ((cell, width), number) in cells.iter().zip(widths).zip(numbers) {
            let cell = cell.get(i).map_or("", String::as_str);
            text.push_str(&" ".repeat(GAP));
            text += &if *number { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
}

/// Lines of words, at most so wide where words allow.
fn wrapped(cell: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    let mut used = 0;
    for word in cell.split(' ') {
        let length = word.chars().count();
        let last = lines.last_mut().expect("there is a line from the beginning");
        if used == 0 {
            last.push_str(word);
            used = length;
        } else if used + 1 + length <= width {
            last.push(' ');
            last.push_str(word);
            used += 1 + length;
        } else {
            lines.push(word.to_owned());
            used = length;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_wrap_at_blanks_and_words_stay_whole() {
        assert_eq!(wrapped("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrapped("abcdefgh ij", 4), ["abcdefgh", "ij"]);
        assert_eq!(wrapped("", 4), [""]);
        let rows = [vec!["short".to_owned(), "many words in one cell".to_owned()]];
        assert_eq!(fitted(&rows, 2, 100), [5, 22]);
        assert_eq!(fitted(&rows, 2, 15), [5, 10]);
        assert_eq!(fitted(&rows, 2, 3), [5, 5]);
        assert_eq!(fitted(&[vec!["18 of 32".to_owned()]], 1, 3), [8]);
    }
}
