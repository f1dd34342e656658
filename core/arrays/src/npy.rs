//! Single arrays: the header, and the data after it.

use crate::ARRAYS_BYTES_MAX;
use bytes::Bytes;
use onnxd_diagnostics::shown;
use onnxd_ir::{DataType, Tensor};
use std::io::Read;

/// The first bytes of every array.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
/// Longest header of an array.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// Elements of an array of strings; each takes a hundred bytes of memory even if it is empty.
const STRINGS_MAX: usize = 1 << 24;
/// What is reserved before the data is seen; a damaged archive may announce any size.
const RESERVED_BYTES_MAX: u64 = 1 << 20;

/// NumPy's name of each type.
const DESCRIPTORS: [(&str, DataType); 12] = [
    ("f4", DataType::Float),
    ("f8", DataType::Double),
    ("f2", DataType::Float16),
    ("i1", DataType::Int8),
    ("i2", DataType::Int16),
    ("i4", DataType::Int32),
    ("i8", DataType::Int64),
    ("u1", DataType::Uint8),
    ("u2", DataType::Uint16),
    ("u4", DataType::Uint32),
    ("u8", DataType::Uint64),
    ("b1", DataType::Bool),
];

/// Descriptor of a tensor; strings become fixed-width UTF-32, complex numbers pairs, other types of up to a
/// byte and bfloat16 stay raw bytes. `None` for packed types.
pub(crate) fn descriptor(tensor: &Tensor) -> Option<String> {
    if let Some(strings) = tensor.as_strings() {
        return Some(format!("<U{}", width(&points(strings))));
    }
    let dtype = tensor.dtype();
    let known = DESCRIPTORS.iter().find(|(_, t)| *t == dtype).map(|(d, _)| (*d).to_owned());
    let descr = known.or_else(|| match dtype {
        DataType::Complex64 => Some("c8".into()),
        DataType::Complex128 => Some("c16".into()),
        _ if dtype.bits() >= 8 => Some(format!("V{}", dtype.bits() / 8)),
        _ => None,
    })?;
    let order = if descr.ends_with('1') { '|' } else { '<' };
    Some(format!("{order}{descr}"))
}

/// Strings as [`descriptor`] says.
pub(crate) fn padded(strings: &[Bytes]) -> Vec<u8> {
    let texts = points(strings);
    let width = width(&texts);
    let code = |text: &[char], i: usize| text.get(i).map_or(0, |c| *c as u32).to_le_bytes();
    texts.iter().flat_map(|text| (0..width).flat_map(|i| code(text, i))).collect()
}

fn points(strings: &[Bytes]) -> Vec<Vec<char>> {
    strings.iter().map(|s| String::from_utf8_lossy(s).chars().collect()).collect()
}

fn width(texts: &[Vec<char>]) -> usize {
    texts.iter().map(Vec::len).max().unwrap_or(0).max(1)
}

pub(crate) fn header(descr: &str, dims: &[usize]) -> Vec<u8> {
    let comma = if dims.len() == 1 { "," } else { "" };
    let shape: Vec<String> = dims.iter().map(usize::to_string).collect();
    let shape = shape.join(", ");
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}{comma}), }}");
    // The data begins at a multiple of 64 bytes.
    while (10 + text.len() + 1) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out
}

/// Reads an array of a file (or entry of an archive) of `size` bytes.
pub(crate) fn read_npy(from: &mut dyn Read, size: u64) -> Result<Tensor, String> {
    let layout = ArrayHeader::read(from, size)?;
    if layout.bytes()? > ARRAYS_BYTES_MAX {
        return Err("the array is larger than its file".into());
    }
    let mut bytes = layout.take(from, &layout.dims)?;
    if layout.fortran {
        bytes = to_row_major(&bytes, &layout.dims, layout.item);
    }
    layout.tensor(layout.dims.clone(), bytes)
}

/// What a header says.
#[derive(Clone, Debug)]
pub(crate) struct ArrayHeader {
    pub(crate) dims: Vec<usize>,
    /// Whether the first axis is the fastest.
    pub(crate) fortran: bool,
    /// Whether numbers begin with their highest byte.
    pub(crate) swapped: bool,
    kind: ElementKind,
    /// Bytes of an element.
    item: usize,
}

#[derive(Clone, Copy, Debug)]
enum ElementKind {
    Numbers(DataType),
    /// Texts of so many code points.
    Strings(usize),
}

impl ArrayHeader {
    /// Reads a header. The data after it must fit in `size` bytes.
    pub(crate) fn read(from: &mut dyn Read, size: u64) -> Result<ArrayHeader, String> {
        let (descr, fortran, dims) = read_header(from)?;
        let (order, kind) = descr.split_at(usize::from(descr.starts_with(['<', '>', '|', '='])));
        let width = kind.strip_prefix('U').and_then(|w| w.parse::<usize>().ok());
        let dtype = DESCRIPTORS.iter().find(|(d, _)| *d == kind).map(|(_, t)| *t);
        let kind = match (width, dtype) {
            (Some(width), _) => ElementKind::Strings(width),
            (None, Some(dtype)) => ElementKind::Numbers(dtype),
            (None, None) => return Err(format!("type `{}` has no counterpart", shown(&descr))),
        };
        let item = match kind {
            ElementKind::Strings(width) => {
                width.checked_mul(4).ok_or("strings that are too long")?
            }
            ElementKind::Numbers(dtype) => dtype.bits() / 8,
        };
        let layout = ArrayHeader { dims, fortran, swapped: order == ">", kind, item };
        if layout.bytes()? > size {
            return Err("the array is larger than its file".into());
        }
        let count = layout.dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        if matches!(kind, ElementKind::Strings(_)) && count.is_none_or(|n| n > STRINGS_MAX) {
            return Err(format!("more than {STRINGS_MAX} strings"));
        }
        Ok(layout)
    }

    /// Numbers in row-major order; `swapped` as in the field of that name.
    pub(crate) fn of_numbers(
        dtype: DataType,
        dims: Vec<usize>,
        swapped: bool,
        size: u64,
    ) -> Result<ArrayHeader, String> {
        let (kind, item) = (ElementKind::Numbers(dtype), dtype.bits() / 8);
        let layout = ArrayHeader { dims, fortran: false, swapped, kind, item };
        match layout.bytes()? > size {
            true => Err("the array is larger than its file".into()),
            false => Ok(layout),
        }
    }

    /// Type of the elements.
    pub(crate) fn dtype(&self) -> DataType {
        match self.kind {
            ElementKind::Numbers(dtype) => dtype,
            ElementKind::Strings(_) => DataType::String,
        }
    }

    /// How many bytes the elements take, unpacked.
    pub(crate) fn bytes(&self) -> Result<u64, String> {
        self.bytes_of(&self.dims)
    }

    fn bytes_of(&self, dims: &[usize]) -> Result<u64, String> {
        let bytes = dims.iter().try_fold(self.item, |n, d| n.checked_mul(*d));
        bytes.map(|n| n as u64).ok_or_else(|| "the array is larger than its file".into())
    }

    /// The bytes of the next elements, as many as `dims` hold.
    pub(crate) fn take(&self, from: &mut dyn Read, dims: &[usize]) -> Result<Vec<u8>, String> {
        let wanted = self.bytes_of(dims)?;
        let mut bytes = Vec::with_capacity(wanted.min(RESERVED_BYTES_MAX) as usize);
        from.take(wanted).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
        match bytes.len() as u64 == wanted {
            true => Ok(bytes),
            false => Err(format!("{} bytes of {wanted}", bytes.len())),
        }
    }

    /// A tensor of elements in row-major order.
    pub(crate) fn tensor(&self, dims: Vec<usize>, mut bytes: Vec<u8>) -> Result<Tensor, String> {
        if self.swapped {
            let unit = if let ElementKind::Strings(_) = self.kind { 4 } else { self.item };
            bytes.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
        }
        match self.kind {
            ElementKind::Strings(width) => strings(dims, &bytes, width),
            ElementKind::Numbers(dtype) => {
                Tensor::new(dtype, dims, bytes.into()).map_err(|e| e.to_string())
            }
        }
    }
}

fn strings(dims: Vec<usize>, bytes: &[u8], width: usize) -> Result<Tensor, String> {
    let decode = |cell: &[u8]| {
        let points = cell.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let text: Option<String> = points.take_while(|p| *p != 0).map(char::from_u32).collect();
        text.map(Bytes::from).ok_or("text that is not Unicode")
    };
    let cells: Result<Vec<Bytes>, _> = match width {
        0 => Ok(vec![Bytes::new(); dims.iter().product()]),
        width => bytes.chunks_exact(4 * width).map(decode).collect(),
    };
    Tensor::strings(dims, cells?).map_err(|e| e.to_string())
}

/// Elements stored first axis fastest, put in row-major order.
fn to_row_major(bytes: &[u8], dims: &[usize], item: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0usize; dims.len()];
    let strides: Vec<usize> = dims
        .iter()
        .scan(1, |stride, d| {
            let this = *stride;
            *stride *= d;
            Some(this)
        })
        .collect();
    for _ in 0..bytes.len() / item.max(1) {
        let at: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        out.extend_from_slice(&bytes[at * item..(at + 1) * item]);
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    out
}

/// The Python dictionary of the header: `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
fn read_header(from: &mut dyn Read) -> Result<(String, bool, Vec<usize>), String> {
    let mut start = [0u8; 8];
    from.read_exact(&mut start).map_err(|_| "it is shorter than a header")?;
    if &start[..6] != MAGIC {
        return Err("it is not an array of NumPy".into());
    }
    let mut length = [0u8; 4];
    let width = if start[6] == 1 { 2 } else { 4 };
    from.read_exact(&mut length[..width]).map_err(|_| "it is shorter than a header")?;
    let length = u32::from_le_bytes(length) as usize;
    if length > HEADER_BYTES_MAX {
        return Err(format!("a header of {length} bytes"));
    }
    let mut text = vec![0u8; length];
    from.read_exact(&mut text).map_err(|_| "it is shorter than a header")?;
    let text = String::from_utf8(text).map_err(|_| "a header that is not text")?;
    let after = |key: &str| {
        let at = text.find(&format!("'{key}'")).map(|i| &text[i + key.len() + 2..]);
        let value = at.and_then(|rest| rest.trim_start().strip_prefix(':')).map(str::trim_start);
        value.ok_or_else(|| format!("a header without {key}"))
    };
    let descr = after("descr")?;
    let descr = descr.strip_prefix('\'').and_then(|d| d.split_once('\'')).map(|(d, _)| d);
    let descr = descr.ok_or("records are not supported")?.to_owned();
    let fortran = after("fortran_order")?.starts_with("True");
    let shape = after("shape")?;
    let shape = shape.strip_prefix('(').and_then(|s| s.split_once(')')).map(|(s, _)| s);
    let sizes = shape.ok_or("a header without a shape")?.split(',').map(str::trim);
    let dims = sizes.filter(|s| !s.is_empty()).map(str::parse).collect::<Result<_, _>>();
    Ok((descr, fortran, dims.map_err(|_| "a shape that is not of whole numbers")?))
}
