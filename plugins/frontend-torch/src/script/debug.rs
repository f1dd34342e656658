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

use crate::archive::pickle::Pickled;
use crate::diag::shown;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

const WITH_TABLE: &str = "FORMAT_WITH_STRING_TABLE";
/// Bytes of sources that are looked through for the lines of one file of code; later findings name printed code.
const LOOKED_MAX: usize = 1 << 28;
/// What a number of a line costs of it.
const LINE_COST: usize = 16;

/// A line of the user's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Its name without folders; may be empty.
    pub(crate) file: Rc<str>,
    /// From 1 within the file.
    pub(crate) line: u64,
    /// The line without its indentation, shortened if it is very long.
    pub(crate) text: String,
    /// The function it is in, if the source has one.
    pub(crate) function: Option<String>,
}

/// The marks of one file of code, in the order of their offsets.
pub(crate) struct Origins {
    table: Option<Rc<[Pickled]>>,
    marks: Vec<Mark>,
    /// What is left of [`LOOKED_MAX`].
    left: Cell<usize>,
}

struct Mark {
    /// In the printed code.
    offset: usize,
    /// Text or lines, file, number of the first line. Empty where nothing is known.
    source: Rc<[Pickled]>,
    /// Where the range begins in the text of the source.
    start: usize,
    /// The line, once it was asked for, and whether a literal is there.
    found: OnceCell<Option<(Origin, bool)>>,
}

impl Origins {
    /// Reads what a `*.debug_pkl` holds. The model does not depend on it: one that is damaged gives nothing.
    pub(crate) fn read(pickled: &Pickled) -> Option<Origins> {
        let top = pickled.items()?;
        let (table, records) = match &top[..] {
            [Pickled::Text(format), table, records] if &**format == WITH_TABLE => {
                (Some(Rc::from(table.items()?)), records.items()?)
            }
            _ => (None, top),
        };
        let mut marks = records.iter().map(mark).collect::<Option<Vec<Mark>>>()?;
        marks.sort_by_key(|mark| mark.offset);
        Some(Origins { table, marks, left: Cell::new(LOOKED_MAX) })
    }

    /// The line of printed code between two offsets: of its beginning, or else of the first call in it. A literal tells
    /// nothing, because equal ones are printed with the place of one of them.
    pub(crate) fn between(&self, start: usize, end: usize) -> Option<Origin> {
        let first = self.marks.partition_point(|mark| mark.offset <= start).saturating_sub(1);
        let behind = self.marks.partition_point(|mark| mark.offset < end).max(first);
        let (begin, rest) = self.marks[first..behind].split_first()?;
        let known = |mark: &Mark| mark.found.get_or_init(|| self.origin(mark)).clone();
        let in_rest = |mark| known(mark).filter(|(_, literal)| !literal);
        known(begin).or_else(|| rest.iter().find_map(in_rest)).map(|(origin, _)| origin)
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
                let text = shown(text.trim());
                let origin = Origin { file: self.file(file)?, line, text, function };
                return Some((origin, literal));
            }
            passed += text.len();
            line = line.checked_add(1)?;
        }
        None
    }

    /// Counts what is looked through; nothing once it is too much.
    fn look(&self, cost: usize) -> Option<()> {
        self.left.set(self.left.get().checked_sub(cost)?);
        Some(())
    }

    fn lines(&self, source: &Pickled) -> Option<Vec<Rc<str>>> {
        if let Pickled::Text(text) = source {
            self.look(text.len())?;
            return Some(text.split_inclusive('\n').map(Rc::from).collect());
        }
        let lines = source.items()?;
        self.look(lines.len().saturating_mul(LINE_COST))?;
        lines.iter().map(|line| self.text(line)).collect()
    }

    /// The name of a file. Folders of the machine that saved the model stay out.
    fn file(&self, source: &Pickled) -> Option<Rc<str>> {
        let path = self.text(source)?;
        self.look(path.len())?;
        Some(shown(path.rsplit(['/', '\\']).next().unwrap_or_default()).into())
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

fn mark(record: &Pickled) -> Option<Mark> {
    let record = record.items()?;
    let [offset, range, ..] = &record[..] else { return None };
    let range = range.items()?;
    let [source, start, _end] = &range[..] else { return None };
    let Pickled::Tuple(source) = source else { return None };
    Some(Mark {
        offset: position(offset)?,
        source: source.clone(),
        start: position(start)?,
        found: OnceCell::new(),
    })
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
    Some(shown(name.trim()))
}
