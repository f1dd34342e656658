//! Where output goes: results to standard output, everything else to standard error.
//!
//! Names and texts come from files that anybody may have written, so nothing leaves here unescaped:
//! neither a terminal nor a reader of lines obeys them.

use onnxd_diagnostics::{escaped, escaped_json, escaped_lines};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{IsTerminal, Write, stderr, stdout};

/// Prints a result of whole lines. A reader that has gone away, such as `head`, is no error.
pub(crate) fn print(text: &str) {
    write_out(&escaped_lines(text));
}

/// Prints JSON, whose values stay what they are.
pub(crate) fn json_text(json: &str) {
    write_out(&escaped_json(json));
}

fn write_out(text: &str) {
    let mut out = stdout().lock();
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    // Nobody is left to be told.
    let _ = write!(out, "{text}{newline}").and_then(|()| out.flush());
}

/// Prints a result for programs.
pub(crate) fn json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => json_text(&text),
        Err(why) => error(&format!("the result cannot be written as JSON: {why}")),
    }
}

/// Prints a line beside the result.
pub(crate) fn error(line: &str) {
    // Nobody is left to be told.
    let _ = writeln!(stderr().lock(), "{}", escaped(line));
}

/// Prints text and commands for the terminal beside the result, without ending the line.
pub(crate) fn status(text: &str) {
    let mut err = stderr().lock();
    let _ = write!(err, "{text}").and_then(|()| err.flush());
}

/// Whether a person watches standard error.
pub(crate) fn is_watched() -> bool {
    stderr().is_terminal()
}

/// Cells that are longer do not push the other rows apart.
const PADDED_MAX: usize = 60;

/// Rows as text, columns padded to equal width, two blanks between them. A cell is one line.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<Cow<'_, str>>> =
        rows.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| {
        let longest = rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max();
        longest.unwrap_or(0).min(PADDED_MAX)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Columns of the terminal that `stream` is; `None` if it is none.
fn columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Lines that fit the terminal, if standard output is one.
pub(crate) fn fitted(text: &str) -> String {
    let Some(columns) = columns(stdout()) else { return text.to_owned() };
    text.lines().map(|line| cut(line, columns) + "\n").collect()
}

/// The line that is overwritten, cut to the terminal that standard error is. A terminal wraps when
/// its last column is used.
pub(crate) fn fitted_status(line: &str) -> String {
    const COLUMNS: usize = 80;
    cut(&escaped(line), columns(stderr()).unwrap_or(COLUMNS).saturating_sub(1))
}

fn cut(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    let kept: String = line.chars().take(columns.saturating_sub(3)).collect();
    kept.trim_end().to_owned() + "..."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut() {
        assert_eq!(cut("0123456789", 10), "0123456789");
        assert_eq!(cut("0123 56789 ", 8), "0123...");
    }

    #[test]
    fn columns_line_up() {
        let rows = [["a", "long cell"], ["bcd", ""]].map(|r| r.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "a    long cell\nbcd\n");
    }
}
