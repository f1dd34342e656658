//! Where printed code comes from in the user's program: `*.debug_pkl` beside each file of code.
//!
//! The file is a list of marks. A mark holds from its offset in the printed code to the next mark. It names a range of
//! a source: text, file and first line. Since torch 1.10 texts are numbers of lines in a common table:
//!
//! ```text
//! ("FORMAT_WITH_STRING_TABLE", (text, ...), ((offset, (((line, ...), file, first), start, end), tag), ...))
//! ```
//!
//! Before: `((offset, ((text, file, first), start, end)), ...)`.
#![allow(dead_code)]

use super::ast::Statement;
use crate::archive::pickle::Pickled;
use crate::diag::{Code, Diagnostic};
use std::rc::Rc;

const WITH_TABLE: &str = "FORMAT_WITH_STRING_TABLE";

/// A line of the user's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// As the user's Python named it; may be empty.
    pub(crate) file: Rc<str>,
    /// From 1 within the file.
    pub(crate) line: u64,
    /// The line without its indentation.
    pub(crate) text: String,
    /// The function it is in, if the source has one.
    pub(crate) function: Option<String>,
}

/// The marks of one file of code, in the order of their offsets.
pub(crate) struct Origins {
    table: Option<Rc<[Pickled]>>,
    marks: Vec<Mark>,
}

struct Mark {
    /// In the printed code.
    offset: usize,
    /// Text or lines, file, number of the first line. Empty where nothing is known.
    source: Rc<[Pickled]>,
    /// Where the range begins in the text of the source.
    start: usize,
}

impl Origins {
    /// Reads what a `*.debug_pkl` holds. Conversion works without it, so an error is for a note.
    pub(crate) fn read(module: &str, pickled: &Pickled) -> Result<Origins, Diagnostic> {
        read(pickled).ok_or_else(|| {
            let message = format!("the lines of `{module}` are damaged; messages lack them");
            Diagnostic::new(Code::SourceSyntax, message)
                .help("Nothing is to be done; the model does not depend on this file.")
        })
    }

    /// The line that a statement comes from.
    pub(crate) fn of(&self, statement: &Statement) -> Option<Origin> {
        self.between(statement.offset, statement.end)
    }

    /// The line of printed code between two offsets: of its beginning, or else of the first call in it. A literal tells
    /// nothing, because equal ones are printed with the place of one of them.
    pub(crate) fn between(&self, start: usize, end: usize) -> Option<Origin> {
        let first = self.marks.partition_point(|mark| mark.offset <= start).saturating_sub(1);
        let behind = self.marks.partition_point(|mark| mark.offset < end).max(first);
        let (begin, rest) = self.marks[first..behind].split_first()?;
        let in_rest = |mark| self.origin(mark).filter(|(_, literal)| !literal);
        self.origin(begin).or_else(|| rest.iter().find_map(in_rest)).map(|(origin, _)| origin)
    }

    /// The line of a mark, and whether a literal is there.
    fn origin(&self, mark: &Mark) -> Option<(Origin, bool)> {
        let [text, file, first] = &*mark.source else { return None };
        let (mut line, mut passed) = (u64::try_from(integer(first)?).ok()?, 0);
        let mut function = None;
        for text in self.lines(text)?.iter() {
            function = function.or_else(|| function_name(text));
            if let Some(byte) = text.as_bytes().get(mark.start - passed) {
                let literal = !byte.is_ascii_alphabetic() && *byte != b'_';
                let text = text.trim().to_owned();
                let origin = Origin { file: self.text(file)?, line, text, function };
                return Some((origin, literal));
            }
            passed += text.len();
            line = line.checked_add(1)?;
        }
        None
    }

    fn lines(&self, source: &Pickled) -> Option<Vec<Rc<str>>> {
        match source {
            Pickled::Text(text) => Some(text.split_inclusive('\n').map(Rc::from).collect()),
            lines => lines.items()?.iter().map(|line| self.text(line)).collect(),
        }
    }

    /// A text, or its number in the table.
    fn text(&self, value: &Pickled) -> Option<Rc<str>> {
        match value {
            Pickled::Text(text) => Some(text.clone()),
            Pickled::None => Some("".into()),
            number => match self.table.as_ref()?.get(position(number)?)? {
                Pickled::Text(text) => Some(text.clone()),
                _ => None,
            },
        }
    }
}

fn read(pickled: &Pickled) -> Option<Origins> {
    let top = pickled.items()?;
    let (table, records) = match &top[..] {
        [Pickled::Text(format), table, records] if &**format == WITH_TABLE => {
            (Some(Rc::from(table.items()?)), records.items()?)
        }
        _ => (None, top),
    };
    let mut marks = records.iter().map(mark).collect::<Option<Vec<Mark>>>()?;
    marks.sort_by_key(|mark| mark.offset);
    Some(Origins { table, marks })
}

fn mark(record: &Pickled) -> Option<Mark> {
    let record = record.items()?;
    let [offset, range, ..] = &record[..] else { return None };
    let range = range.items()?;
    let [source, start, _end] = &range[..] else { return None };
    let Pickled::Tuple(source) = source else { return None };
    Some(Mark { offset: position(offset)?, source: source.clone(), start: position(start)? })
}

fn position(value: &Pickled) -> Option<usize> {
    usize::try_from(integer(value)?).ok()
}

fn integer(value: &Pickled) -> Option<i64> {
    match value {
        Pickled::Int(number) => Some(*number),
        _ => None,
    }
}

/// `    def forward(self, x):`
fn function_name(line: &str) -> Option<String> {
    let (name, _) = line.trim_start().strip_prefix("def ")?.split_once('(')?;
    Some(name.trim().to_owned())
}
