//! Where output goes: results to standard output, everything else to standard error.
//!
//! Names and texts come from files of unknown origin, so nothing leaves here unescaped:
//! neither a terminal nor a reader of lines obeys them.

use super::layout;
use onnxd_diagnostics::{escaped, escaped_json, escaped_lines};
use serde::Serialize;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::os::fd::AsFd;

/// Prints a result of whole lines for people; a terminal breaks them between words. A reader that
/// has gone away, such as `head`, is no error.
pub(crate) fn print(text: &str) {
    write_out(&layout::wrapped(&escaped_lines(text), columns()));
}

/// Prints text that has a syntax, whose lines stay what they are.
pub(crate) fn source_text(text: &str) {
    write_out(&escaped_lines(text));
}

/// Prints JSON, whose values stay what they are.
pub(crate) fn json_text(json: &str) {
    write_out(&escaped_json(json));
}

fn write_out(text: &str) {
    let mut out = stdout().lock();
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    // No reader is left.
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
    let line = escaped(line);
    // No reader is left.
    let _ = writeln!(stderr().lock(), "{}", layout::wrapped(&line, columns_of(stderr())));
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

/// Rows as lines for standard output.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    layout::table(rows, columns())
}

/// Columns of the terminal that standard output is; `None` if it is none.
pub(crate) fn columns() -> Option<usize> {
    columns_of(stdout())
}

fn columns_of(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// The line that is overwritten, cut to the terminal that standard error is. A terminal wraps when
/// its last column is used.
pub(crate) fn fitted_status(line: &str) -> String {
    const COLUMNS: usize = 80;
    layout::cut(&escaped(line), columns_of(stderr()).unwrap_or(COLUMNS).saturating_sub(1))
}
