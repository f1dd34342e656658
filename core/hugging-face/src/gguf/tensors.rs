//! Where tensors lie, and of which type their elements are.

use super::cursor::Cursor;
use crate::diag::{Diagnostic, shown};
use crate::problem::{damaged, over_limit, truncated, unsupported};
use crate::raw::Raw;
use bytes::Bytes;
use onnxd_plugin_sdk::ir::{BlockFormat, DataType, element_count};
use std::collections::HashSet;

/// Axes of a tensor, as the format limits them.
const RANK_MAX: u32 = 4;

/// Types of single elements, by their numbers.
const ELEMENTS: [(u32, DataType); 8] = [
    (0, DataType::Float),
    (1, DataType::Float16),
    (24, DataType::Int8),
    (25, DataType::Int16),
    (26, DataType::Int32),
    (27, DataType::Int64),
    (28, DataType::Double),
    (30, DataType::Bfloat16),
];

/// Types that are known by name alone.
const NAMED: [(u32, &str); 19] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (29, "IQ1_M"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (40, "NVFP4"),
];

/// How the elements of a tensor lie in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Elements(DataType),
    Blocks(BlockFormat),
}

impl Kind {
    /// Bytes of a row of so many elements, if that is a whole number of blocks.
    fn row(self, elements: usize) -> Option<usize> {
        let (size, count) = match self {
            Kind::Elements(dtype) => (dtype.bits() / 8, 1),
            Kind::Blocks(format) => (format.bytes(), format.elements()),
        };
        elements.is_multiple_of(count).then(|| (elements / count).checked_mul(size))?
    }

    pub(super) fn name(self) -> String {
        match self {
            Kind::Elements(dtype) => dtype.to_string(),
            Kind::Blocks(format) => format.name().to_owned(),
        }
    }
}

/// A tensor of a file: where its elements lie is checked.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Sizes, outermost axis first.
    pub(crate) dims: Vec<usize>,
    pub(crate) bytes: Bytes,
}

impl Stored {
    /// What the file says of it, with the type of its elements by its name in GGML.
    pub(crate) fn raw(&self) -> Raw {
        let kind = match self.kind {
            Kind::Elements(DataType::Float) => "F32".to_owned(),
            Kind::Elements(DataType::Float16) => "F16".to_owned(),
            Kind::Elements(DataType::Bfloat16) => "BF16".to_owned(),
            Kind::Elements(DataType::Double) => "F64".to_owned(),
            Kind::Elements(_) | Kind::Blocks(_) => self.kind.name(),
        };
        Raw { kind, dims: self.dims.clone(), bytes: Some(self.bytes.clone()) }
    }
}

/// A tensor as the file describes it.
struct Described {
    name: String,
    kind: Kind,
    dims: Vec<usize>,
    begin: u64,
    bytes: u64,
}

/// All tensors of a file, in the order of their elements.
pub(super) fn read(
    at: &mut Cursor<'_>,
    count: u64,
    alignment: u64,
) -> Result<Vec<Stored>, Diagnostic> {
    let (mut all, mut names) = (Vec::new(), HashSet::new());
    for _ in 0..count {
        let offset = at.offset();
        let described = described(at, alignment)?;
        if !names.insert(described.name.clone()) {
            let (file, name) = (at.file, shown(&described.name));
            let why = format!("`{file}`: tensor `{name}` is there twice, again at offset {offset}");
            return Err(damaged(why));
        }
        all.push(described);
    }
    all.sort_by_key(|tensor| tensor.begin);
    let begin = (at.offset() as u64).next_multiple_of(alignment).min(at.bytes.len() as u64);
    let data = at.bytes.slice(begin as usize..);
    check_order(at.file, &all, data.len() as u64)?;
    let stored = |tensor: Described| {
        let Described { name, kind, dims, begin, bytes } = tensor;
        // All tensors end within the data, so that these are sizes of this machine.
        let bytes = data.slice(begin as usize..(begin + bytes) as usize);
        Stored { name, kind, dims, bytes }
    };
    Ok(all.into_iter().map(stored).collect())
}

fn described(at: &mut Cursor<'_>, alignment: u64) -> Result<Described, Diagnostic> {
    let file = at.file;
    let name = at.name("the name of a tensor")?;
    let told = format!("tensor `{}`", shown(&name));
    let rank = at.u32(&told)?;
    if rank > RANK_MAX {
        return Err(over_limit(format!("`{file}`: {told} has {rank} axes, of {RANK_MAX} at most")));
    }
    let mut sizes = Vec::new();
    for _ in 0..rank {
        sizes.push(at.u64(&told)?);
    }
    let kind = kind_of(file, &told, at.u32(&told)?)?;
    let begin = at.u64(&told)?;
    let wrong = |why: String| Err(damaged(format!("`{file}`: {told} {why}")));
    if !begin.is_multiple_of(alignment) {
        return wrong(format!("begins at offset {begin}, which is no multiple of {alignment}"));
    }
    // The file has the innermost axis first.
    let dims = sizes.iter().rev().map(|size| usize::try_from(*size).ok());
    let dims = dims.collect::<Option<Vec<usize>>>();
    let Some(dims) = dims.filter(|dims| element_count(dims).is_some()) else {
        return wrong(format!("has more elements than can be counted: {sizes:?}"));
    };
    // What follows may take a step for each of the other sizes.
    if dims.contains(&0) {
        return wrong(format!("has no elements: its sizes are {sizes:?}"));
    }
    let inner = dims.last().copied().unwrap_or(1);
    let Some(row) = kind.row(inner) else {
        let kind = kind.name();
        return wrong(format!("has rows of {inner} elements, which are no whole blocks of {kind}"));
    };
    let rows: usize = dims.iter().rev().skip(1).product();
    match rows.checked_mul(row) {
        Some(bytes) => Ok(Described { name, kind, dims, begin, bytes: bytes as u64 }),
        None => wrong(format!("has more bytes than can be counted: {sizes:?}")),
    }
}

fn kind_of(file: &str, told: &str, number: u32) -> Result<Kind, Diagnostic> {
    if let Some((_, dtype)) = ELEMENTS.iter().find(|(known, _)| *known == number) {
        return Ok(Kind::Elements(*dtype));
    }
    if let Some(format) = BlockFormat::from_number(number) {
        return Ok(Kind::Blocks(format));
    }
    let name = NAMED.iter().find(|(known, _)| *known == number);
    Err(match name {
        Some((_, name)) => {
            let why = format!("`{file}`: {told} has elements of type {name}, which are not read");
            unsupported(why).help("Take a file of the model in another type, such as Q4_K_M.")
        }
        None => unsupported(format!("`{file}`: {told} has elements of the unknown type {number}")),
    })
}

/// Whether tensors lie one behind the other, within the data.
fn check_order(file: &str, tensors: &[Described], data: u64) -> Result<(), Diagnostic> {
    let mut at = 0;
    for Described { name, begin, bytes, .. } in tensors {
        let name = shown(name);
        if *begin < at {
            return Err(damaged(format!(
                "`{file}`: tensor `{name}` begins at offset {begin}, within the tensor before it, which ends at {at}"
            )));
        }
        let end = begin.saturating_add(*bytes);
        if end > data {
            return Err(truncated(format!(
                "`{file}`: tensor `{name}` ends at offset {end}, and the file has {data} bytes of tensors"
            )));
        }
        at = at.max(end);
    }
    Ok(())
}
