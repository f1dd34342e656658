//! Text laid out for a terminal: widths as it shows them, and lines that end between words.
//!
//! Words are never broken: who copies a digest or a path gets all of it. What is wider than the
//! terminal is left to the terminal.

use onnxd_diagnostics::escaped;
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// Between cells of a row, and between those of a line that was not made here.
const GAP: &str = "  ";
/// Cells that are longer do not push the other rows apart; of a terminal, at most a third.
const PADDED_MAX: usize = 60;
/// What does not fit goes on in the next line with so many blanks, if less room than `ROOM_MIN` is
/// left in this one.
const HANG: usize = 4;
const ROOM_MIN: usize = 28;

/// Columns that a terminal takes to show `text`.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The line, or as much of its beginning as fits.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    const MORE: &str = "...";
    if width(line) <= columns {
        return line.to_owned();
    }
    let room = columns.saturating_sub(MORE.len());
    let ends = line.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| width(&line[..*end]) <= room).last().unwrap_or(0);
    line[..end].trim_end().to_owned() + &MORE[..MORE.len().min(columns)]
}

/// Lines of at most `columns`, without one as they are. What a line goes on with hangs two blanks
/// further in than it begins.
pub(crate) fn wrapped(text: &str, columns: Option<usize>) -> Cow<'_, str> {
    let Some(columns) = columns.filter(|most| text.lines().any(|line| width(line) > *most)) else {
        return Cow::Borrowed(text);
    };
    let mut all = String::with_capacity(text.len() + text.len() / 8);
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        let indent = content.len() - content.trim_start_matches(' ').len();
        let mut flow = Flow { columns, hang: indent + GAP.len(), ..Flow::default() };
        flow.cells(content, 0);
        all.push_str(flow.text.trim_end_matches(' '));
        all.push_str(&line[content.len()..]);
    }
    Cow::Owned(all)
}

/// Rows as text, columns padded to equal width. A cell is one line, unless it is wider than what a
/// terminal leaves of its line.
pub(crate) fn table(rows: &[Vec<String>], columns: Option<usize>) -> String {
    let rows: Vec<Vec<Cow<'_, str>>> =
        rows.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect()).collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let most = columns.map_or(PADDED_MAX, |columns| PADDED_MAX.min(columns / 3));
    let longest = |i: usize| rows.iter().filter_map(|row| row.get(i)).map(|c| width(c)).max();
    let widths: Vec<usize> = (0..count).map(|i| longest(i).unwrap_or(0).min(most)).collect();
    let mut text = String::new();
    for row in &rows {
        text.push_str(&laid_out(row, &widths, columns.unwrap_or(usize::MAX)));
        text.push('\n');
    }
    text
}

fn laid_out(row: &[Cow<'_, str>], widths: &[usize], columns: usize) -> String {
    let used = row.len() - row.iter().rev().take_while(|cell| cell.is_empty()).count();
    let (mut flow, mut padding) = (Flow { columns, hang: HANG, ..Flow::default() }, 0);
    for (i, cell) in row[..used].iter().enumerate() {
        let gap = padding + if i > 0 { GAP.len() } else { 0 };
        if flow.at.saturating_add(gap + width(cell)) > columns {
            let rest: Vec<&str> =
                row[i..used].iter().map(AsRef::as_ref).filter(|c| !c.is_empty()).collect();
            let begin = flow.at + gap;
            match columns.saturating_sub(begin) >= ROOM_MIN {
                true => flow.begin_at(begin),
                false => flow.next_line(0),
            }
            rest.iter().for_each(|cell| flow.cells(cell, GAP.len()));
            break;
        }
        flow.word(cell, gap);
        padding = widths[i].saturating_sub(width(cell));
    }
    flow.text.trim_end_matches(' ').to_owned()
}

/// Text that goes on in a new line where the next word does not fit.
#[derive(Default)]
struct Flow {
    text: String,
    columns: usize,
    hang: usize,
    /// Columns taken in this line.
    at: usize,
    /// No word is in this line yet.
    is_fresh: bool,
}

impl Flow {
    fn blanks(&mut self, count: usize) {
        self.text.extend(std::iter::repeat_n(' ', count));
        self.at += count;
    }

    /// Leaves blanks up to a column, where further lines begin, too.
    fn begin_at(&mut self, column: usize) {
        self.blanks(column.saturating_sub(self.at));
        (self.hang, self.is_fresh) = (column, true);
    }

    /// Further in as far as a word of this width has room.
    fn next_line(&mut self, width: usize) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
        self.at = 0;
        self.blanks(self.hang.min(self.columns.saturating_sub(width)));
        self.is_fresh = true;
    }

    fn word(&mut self, word: &str, gap: usize) {
        let width = width(word);
        let gap = if self.is_fresh { 0 } else { gap };
        if self.at.saturating_add(gap + width) <= self.columns || self.text.is_empty() {
            self.blanks(gap);
        } else if !self.is_fresh || self.at > self.columns.saturating_sub(width) {
            self.next_line(width);
        }
        self.text.push_str(word);
        self.at += width;
        self.is_fresh = false;
    }

    /// Cells that lie two or more blanks apart.
    fn cells(&mut self, line: &str, gap: usize) {
        let (mut rest, mut gap) = (line, gap);
        loop {
            let begin = rest.len() - rest.trim_start_matches(' ').len();
            gap += begin;
            rest = &rest[begin..];
            let end = rest.find(GAP).unwrap_or(rest.len());
            if rest.is_empty() {
                break;
            }
            self.cell(&rest[..end], gap);
            (rest, gap) = (&rest[end..], 0);
        }
    }

    /// Words, of which a path or what is quoted is one.
    fn cell(&mut self, cell: &str, gap: usize) {
        let (mut rest, mut gap) = (cell, gap);
        while !rest.is_empty() {
            let end = if is_path(rest) { rest.len() } else { word_end(rest) };
            self.word(&rest[..end], gap);
            rest = rest[end..].trim_start_matches(' ');
            gap = 1;
        }
    }
}

/// Whether all of it is a path, blanks and all.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains(": ")
}

/// Where the first word ends; blanks between backticks end none.
fn word_end(text: &str) -> usize {
    let mut is_quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '`' => is_quoted = !is_quoted,
            ' ' if !is_quoted || !text[at..].contains('`') => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_by_what_a_terminal_shows() {
        assert_eq!(cut("0123456789", 10), "0123456789");
        assert_eq!(cut("0123 56789 ", 8), "0123...");
        assert_eq!(cut("\u{7f51}\u{7edc}\u{7f51}\u{7edc}", 8), "\u{7f51}\u{7edc}\u{7f51}\u{7edc}");
        assert_eq!(cut("\u{7f51}\u{7edc}\u{7f51}\u{7edc}", 7), "\u{7f51}\u{7edc}...");
        assert_eq!(cut("\u{1f600}\u{1f600}\u{1f600}", 5), "\u{1f600}...");
        assert_eq!(["ab", "abc", "abcd"].map(|t| cut(t, 2)), ["ab", "..", ".."]);
        for columns in 0..12 {
            assert!(width(&cut("a\u{7f51}b\u{1f600}\u{e9}cd ef", columns)) <= columns);
        }
    }

    #[test]
    fn lines_end_between_words_and_hang() {
        let text = "  key: one two three\nshort\n";
        assert_eq!(wrapped(text, None), text);
        assert_eq!(wrapped(text, Some(40)), text);
        assert_eq!(wrapped(text, Some(12)), "  key: one\n    two\n    three\nshort\n");
        let wide = "\u{7f51}\u{7edc} \u{7f51}\u{7edc} x";
        assert_eq!(wrapped(wide, Some(9)), "\u{7f51}\u{7edc} \u{7f51}\u{7edc}\n  x");
        assert_eq!(wrapped("  a   b   c", Some(8)), "  a   b\n    c", "gaps stay within a line");
    }

    #[test]
    fn digests_paths_and_quotes_stay_whole() {
        let digest = "0123456789abcdef0123456789abcdef";
        assert_eq!(
            wrapped(&format!("sha256: {digest} x"), Some(33)),
            format!("sha256:\n {digest}\n  x")
        );
        assert_eq!(
            wrapped(&format!("sha256: {digest} x"), Some(20)),
            format!("sha256:\n{digest}\n  x")
        );
        let line = "inbox  /srv/my drops/in  of `a b c` d";
        assert_eq!(wrapped(line, Some(20)), "inbox\n  /srv/my drops/in\n  of `a b c` d");
        let unpaired = wrapped("it`s one two", Some(8)).into_owned();
        assert_eq!(unpaired, "it`s one\n  two");
    }

    fn rows<const N: usize>(rows: &[[&str; N]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect()
    }

    #[test]
    fn columns_line_up() {
        let plain = rows(&[["a", "long cell"], ["bcd", ""]]);
        assert_eq!(table(&plain, None), "a    long cell\nbcd\n");
        assert_eq!(table(&plain, Some(14)), "a    long cell\nbcd\n");
        let wide = rows(&[["\u{7f51}\u{7edc}", "x"], ["abc", "y"]]);
        assert_eq!(table(&wide, None), "\u{7f51}\u{7edc}  x\nabc   y\n");
    }

    #[test]
    fn rows_go_on_below_their_last_cell_or_in_the_next_line() {
        let help = "what the setting is for in some words";
        let row = rows(&[["key", help]]);
        let hanging = "key  what the setting is for in\n     some words\n";
        assert_eq!(table(&row, Some(33)), hanging);
        let narrow = "key\n    what the setting\n    is for in some\n    words\n";
        assert_eq!(table(&row, Some(20)), narrow);
        let long = rows(&[["param", "a.long.key", "\"value\"", "default", help]]);
        let text = table(&long, Some(40));
        assert!(text.starts_with("param  a.long.key  \"value\"  default\n    what "), "{text}");
        assert!(text.lines().all(|line| width(line) <= 40), "{text}");
        let row = rows(&[["files", "net.onnx  /srv/my drops/net.onnx  5  0123456789abcdef"]]);
        let inner = "files\n    net.onnx\n    /srv/my drops/net.onnx  5\n    0123456789abcdef\n";
        assert_eq!(table(&row, Some(30)), inner, "cells within a cell stay apart");
        let same = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(same(&text), same(&table(&long, None)), "nothing is lost");
    }
}
