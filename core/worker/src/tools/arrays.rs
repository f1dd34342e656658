//! Arrays in NumPy's files: `.npz` archives and single `.npy` files.

use bytes::Bytes;
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_ir::{DataType, Model, Tensor};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

/// Named tensors in the order of the file.
pub type Arrays = Vec<(String, Tensor)>;

/// Most arrays of one archive.
const ARRAYS_MAX: usize = 100_000;
/// Longest header of an array.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// Elements of an array of strings; each takes a hundred bytes of memory even if it is empty.
const STRINGS_MAX: usize = 1 << 24;
/// Bytes of all arrays of a file, unpacked; a run of the executor holds no more.
const ARRAYS_BYTES_MAX: u64 = 16 << 30;
/// What is reserved before the data is seen; a damaged archive may announce any size.
const RESERVED_BYTES_MAX: u64 = 1 << 20;

fn bad(path: &Path, why: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::ArrayFile, format!("`{}`: {why}", path.display()))
}

/// Reads an archive, or a single array under the file's stem.
///
/// # Errors
/// `N0107` if the file cannot be read, `N0508` if it is damaged or has a type without ONNX counterpart.
pub fn read(path: &Path) -> Result<Arrays, Diagnostic> {
    let open = File::open(path);
    let file =
        open.map_err(|e| Diagnostic::new(Code::Unreadable, format!("`{}`: {e}", path.display())))?;
    let size = file.metadata().map_or(0, |m| m.len());
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let tensor = read_npy(&mut BufReader::new(file), size).map_err(|e| bad(path, e))?;
        return Ok(vec![(stem, tensor)]);
    }
    let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(|e| bad(path, e))?;
    if archive.len() > ARRAYS_MAX {
        return Err(bad(path, format!("more than {ARRAYS_MAX} arrays")));
    }
    let mut arrays = Vec::with_capacity(archive.len());
    let mut left = ARRAYS_BYTES_MAX;
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).map_err(|e| bad(path, e))?;
        let name = entry.name().map_err(|e| bad(path, e))?.into_owned();
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        let size = entry.size();
        let much = || bad(path, format!("more than {ARRAYS_BYTES_MAX} bytes of arrays"));
        left = left.checked_sub(size).ok_or_else(much)?;
        let tensor = read_npy(&mut entry, size)
            .map_err(|e| bad(path, format!("array `{}`: {e}", shown(&name))))?;
        arrays.push((name, tensor));
    }
    Ok(arrays)
}

/// Arrays by the names of a model's inputs. A single array fits a single input whatever its name.
pub fn feeds(model: &Model, arrays: &Arrays) -> BTreeMap<String, Tensor> {
    let graph = &model.graph;
    let fed: Vec<&String> = graph
        .inputs()
        .iter()
        .filter(|v| graph[**v].initializer().is_none())
        .map(|v| &graph[*v].name)
        .collect();
    match (fed.as_slice(), arrays.as_slice()) {
        ([name], [(_, tensor)]) => BTreeMap::from([((*name).clone(), tensor.clone())]),
        _ => arrays.iter().cloned().collect(),
    }
}

/// The array that belongs to output `place` of `outputs`: the one of its name, else the one at its place unless that
/// bears the name of another output.
pub(crate) fn belonging<'a>(
    arrays: &'a Arrays,
    outputs: &[&str],
    place: usize,
) -> Option<&'a Tensor> {
    let named = arrays.iter().find(|(name, _)| name == outputs[place]);
    let at_place = || arrays.get(place).filter(|(name, _)| !outputs.contains(&name.as_str()));
    named.or_else(at_place).map(|(_, tensor)| tensor)
}

/// Writes an archive of stored (not compressed) arrays.
///
/// # Errors
/// `N0304` if the file cannot be written, `N0508` for a type NumPy does not have.
pub fn write(path: &Path, arrays: &Arrays) -> Result<(), Diagnostic> {
    let disk = |e: io::Error| Diagnostic::new(Code::Disk, format!("`{}`: {e}", path.display()));
    let mut archive = zip::ZipWriter::new(BufWriter::new(File::create(path).map_err(disk)?));
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .large_file(true);
    for (name, tensor) in arrays {
        let started = archive.start_file(format!("{name}.npy"), options);
        started.map_err(|e| disk(io::Error::other(e)))?;
        let (descr, bytes) = encoded(tensor).ok_or_else(|| {
            bad(path, format!("array `{}` has type {}", shown(name), tensor.dtype()))
        })?;
        archive.write_all(&header(&descr, tensor.dims())).map_err(disk)?;
        archive.write_all(&bytes).map_err(disk)?;
    }
    let mut file = archive.finish().map_err(|e| disk(io::Error::other(e)))?;
    file.flush().map_err(disk)
}

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

/// Descriptor and bytes of a tensor; strings become fixed-width UTF-32, complex numbers pairs, other types of up to a
/// byte and bfloat16 stay raw bytes. `None` for packed types.
fn encoded(tensor: &Tensor) -> Option<(String, Bytes)> {
    if let Some(strings) = tensor.as_strings() {
        let texts: Vec<Vec<char>> =
            strings.iter().map(|s| String::from_utf8_lossy(s).chars().collect()).collect();
        let width = texts.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let padded = texts.iter().flat_map(|text| {
            (0..width).flat_map(|i| text.get(i).map_or(0, |c| *c as u32).to_le_bytes())
        });
        return Some((format!("<U{width}"), padded.collect()));
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
    Some((format!("{order}{descr}"), tensor.bytes().clone()))
}

fn header(descr: &str, dims: &[usize]) -> Vec<u8> {
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

fn read_npy(from: &mut dyn Read, size: u64) -> Result<Tensor, String> {
    let (descr, fortran, dims) = read_header(from)?;
    let (order, kind) = descr.split_at(usize::from(descr.starts_with(['<', '>', '|', '='])));
    let width = kind.strip_prefix('U').and_then(|w| w.parse::<usize>().ok());
    let dtype = DESCRIPTORS.iter().find(|(d, _)| *d == kind).map(|(_, t)| *t);
    let item = match (width, dtype) {
        (Some(width), _) => width.checked_mul(4),
        (None, Some(dtype)) => Some(dtype.bits() / 8),
        (None, None) => return Err(format!("type `{}` has no counterpart", shown(&descr))),
    };
    let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let wanted = count.zip(item).and_then(|(n, item)| n.checked_mul(item));
    let wanted = wanted.map(|n| n as u64).filter(|n| *n <= ARRAYS_BYTES_MAX && *n <= size);
    let wanted = wanted.ok_or("the array is larger than its file")?;
    if width.is_some() && count.is_none_or(|n| n > STRINGS_MAX) {
        return Err(format!("more than {STRINGS_MAX} strings"));
    }
    let mut bytes = Vec::with_capacity(wanted.min(RESERVED_BYTES_MAX) as usize);
    from.take(wanted).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 != wanted {
        return Err(format!("{} bytes of {wanted}", bytes.len()));
    }
    let item = item.unwrap_or(1);
    if order == ">" {
        let unit = if width.is_some() { 4 } else { item };
        bytes.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
    }
    if fortran {
        bytes = to_row_major(&bytes, &dims, item);
    }
    match (width, dtype) {
        (Some(width), _) => strings(dims, &bytes, width),
        (None, dtype) => {
            let dtype = dtype.ok_or("unknown type")?;
            Tensor::new(dtype, dims, bytes.into()).map_err(|e| e.to_string())
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
    if &start[..6] != b"\x93NUMPY" {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let words = ["a", "", "long word"].map(Bytes::from).to_vec();
        let arrays: Arrays = vec![
            ("x".into(), Tensor::from_vec(vec![2, 2], vec![1.5f32, -2.0, 0.0, 4.0])),
            ("n".into(), Tensor::scalar(7i64)),
            ("b".into(), Tensor::from_vec_as(DataType::Bool, vec![3], vec![1u8, 0, 1])),
            ("empty".into(), Tensor::vector(Vec::<f64>::new())),
            ("s".into(), Tensor::strings(vec![3], words).unwrap()),
        ];
        write(&path, &arrays).unwrap();
        assert_eq!(read(&path).unwrap(), arrays);
    }

    #[test]
    fn arrays_belong_by_name_and_else_by_place() {
        let array = |name: &str, x: f32| (name.to_owned(), Tensor::scalar(x));
        let arrays = vec![array("b", 1.0), array("a", 2.0), array("other", 3.0)];
        let of = |outputs: &[&str], place| {
            belonging(&arrays, outputs, place).map(|t| t.to_reals().unwrap().values[0])
        };
        assert_eq!(of(&["a", "b", "c"], 0), Some(2.0));
        assert_eq!(of(&["a", "b", "c"], 2), Some(3.0), "a name that no output has");
        assert_eq!(of(&["a", "c"], 1), None, "the array at this place belongs to `a`");
    }

    #[test]
    fn column_major_and_big_endian() {
        let mut file = header(">i2", &[2, 2]);
        let at = file.windows(5).position(|w| w == b"False").unwrap();
        file[at..at + 5].copy_from_slice(b"True ");
        for x in [1i16, 3, 2, 4] {
            file.extend_from_slice(&x.to_be_bytes());
        }
        let tensor = read_npy(&mut file.as_slice(), file.len() as u64).unwrap();
        assert_eq!(tensor, Tensor::from_vec(vec![2, 2], vec![1i16, 2, 3, 4]));
    }

    #[test]
    fn damage_is_named() {
        let mut file = header("<f4", &[1 << 40]);
        let found = read_npy(&mut file.as_slice(), file.len() as u64);
        assert_eq!(found.unwrap_err(), "the array is larger than its file");
        file.truncate(20);
        assert!(read_npy(&mut file.as_slice(), 20).is_err());
        assert!(read_npy(&mut b"PK".as_slice(), 2).is_err());
        let file = header("<U0", &[1 << 40]);
        let found = read_npy(&mut file.as_slice(), file.len() as u64);
        assert_eq!(found.unwrap_err(), "more than 16777216 strings");
        let file = header("<f4", &[1 << 30]);
        let found = read_npy(&mut file.as_slice(), u64::MAX);
        assert_eq!(
            found.unwrap_err(),
            "0 bytes of 4294967296",
            "an archive that announces too much"
        );
    }
}
