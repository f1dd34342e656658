//! Arrays in NumPy's files, `.npz` archives and single `.npy` files; and in IDX files, of which only streams are read.

mod idx;
mod npy;
mod stream;

pub use stream::{ArrayRows, StoredArray, is_stored, stored};

use stream::Unpacked;

use npy::{descriptor, header, padded, read_npy};
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_ir::{Model, Tensor, ValueId, ValueType};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

/// Named tensors in the order of the file.
pub type Arrays = Vec<(String, Tensor)>;

/// Most arrays of one archive.
const ARRAYS_MAX: usize = 100_000;
/// Bytes of all arrays of a file, unpacked; a run of the executor holds no more.
const ARRAYS_BYTES_MAX: u64 = 16 << 30;

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
    let mut unpacked = Unpacked::for_file_bytes(size);
    let mut left = ARRAYS_BYTES_MAX;
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).map_err(|e| bad(path, e))?;
        let name = entry.name().map_err(|e| bad(path, e))?.into_owned();
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        let size = entry.size();
        let much = || bad(path, format!("more than {ARRAYS_BYTES_MAX} bytes of arrays"));
        left = left.checked_sub(size).ok_or_else(much)?;
        unpacked.add(size).map_err(|e| bad(path, e))?;
        let tensor = read_npy(&mut entry, size)
            .map_err(|e| bad(path, format!("array `{}`: {e}", shown(&name))))?;
        arrays.push((name, tensor));
    }
    Ok(arrays)
}

/// Arrays by the names of a model's inputs. A single array fits a single input whatever its name, unless that is no
/// tensor and the array a part of it.
pub fn feeds(model: &Model, arrays: &Arrays) -> BTreeMap<String, Tensor> {
    let graph = &model.graph;
    let fed: Vec<_> =
        graph.inputs().iter().filter(|v| graph[**v].initializer().is_none()).collect();
    let is_tensor = |v: ValueId| matches!(graph[v].ty, None | Some(ValueType::Tensor { .. }));
    match (fed.as_slice(), arrays.as_slice()) {
        ([v], [(_, tensor)]) if is_tensor(**v) => {
            BTreeMap::from([(graph[**v].name.clone(), tensor.clone())])
        }
        _ => arrays.iter().cloned().collect(),
    }
}

/// The array that belongs to each of `outputs`: the one of its name, else the one at its place unless that bears the
/// name of another output.
#[must_use]
pub fn belonging<'a>(arrays: &'a Arrays, outputs: &[&str]) -> Vec<Option<&'a Tensor>> {
    // Of arrays with the same name the first counts.
    let named: HashMap<&str, &Tensor> =
        arrays.iter().rev().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let taken: HashSet<&str> = outputs.iter().copied().collect();
    let at_place = |i: usize| arrays.get(i).filter(|(name, _)| !taken.contains(name.as_str()));
    let of = |(i, name): (usize, &&str)| {
        named.get(name).copied().or_else(|| at_place(i).map(|(_, tensor)| tensor))
    };
    outputs.iter().enumerate().map(of).collect()
}

/// The archive's comment, which NumPy neither reads nor keeps: who wrote the file.
const COMMENT: &str = "onnxd";

/// Whether the file is an archive that [`write()`] made, and no other program has written since.
#[must_use]
pub fn is_own(path: &Path) -> bool {
    let archive = File::open(path).ok().map(|file| zip::ZipArchive::new(BufReader::new(file)));
    archive.is_some_and(|archive| archive.is_ok_and(|a| a.comment() == COMMENT.as_bytes()))
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
    let mut written: HashMap<&str, &Tensor> = HashMap::new();
    for (name, tensor) in arrays {
        // What a graph lists twice among its outputs is there once.
        if written.insert(name, tensor).is_some_and(|before| before == tensor) {
            continue;
        }
        let started = archive.start_file(format!("{name}.npy"), options);
        started.map_err(|e| disk(io::Error::other(e)))?;
        let descr = descriptor(tensor).ok_or_else(|| {
            bad(path, format!("array `{}` has type {}", shown(name), tensor.dtype()))
        })?;
        archive.write_all(&header(&descr, tensor.dims())).map_err(disk)?;
        match tensor.as_strings() {
            Some(strings) => archive.write_all(&padded(strings)).map_err(disk)?,
            // A derived tensor is computed a block at a time.
            None => tensor.in_blocks(|block| archive.write_all(block)).map_err(disk)?,
        }
    }
    archive.set_comment(COMMENT).map_err(|e| disk(io::Error::other(e)))?;
    let mut file = archive.finish().map_err(|e| disk(io::Error::other(e)))?;
    file.flush().map_err(disk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use onnxd_ir::DataType;

    #[test]
    fn equal_arrays_of_one_name_are_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let named = |name: &str, x: f32| (name.to_owned(), Tensor::vector(vec![x, f32::NAN]));
        write(&path, &vec![named("y", 1.0), named("z", 1.0), named("y", 1.0)]).unwrap();
        assert_eq!(read(&path).unwrap().len(), 2);
        let found = write(&path, &vec![named("y", 1.0), named("y", 2.0)]).unwrap_err();
        assert!(found.message.contains("uplicate"), "{found}");
    }

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
        assert!(is_own(&path));
        std::fs::write(&path, "a person's").unwrap();
        assert!(!is_own(&path));
    }

    #[test]
    fn arrays_belong_by_name_and_else_by_place() {
        let array = |name: &str, x: f32| (name.to_owned(), Tensor::scalar(x));
        let arrays = vec![array("b", 1.0), array("a", 2.0), array("other", 3.0)];
        let of = |outputs: &[&str], place: usize| -> Option<f64> {
            belonging(&arrays, outputs)[place].map(|t| t.to_reals().unwrap().values[0])
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

    fn idx(code: u8, dims: &[u32], data: &[u8]) -> Vec<u8> {
        let mut file = vec![0, 0, code, dims.len() as u8];
        file.extend(dims.iter().flat_map(|n| n.to_be_bytes()));
        file.extend(data);
        file
    }

    /// Of one array: in pieces of two rows.
    fn rows(file: Vec<u8>) -> Result<Vec<Tensor>, String> {
        let arrays = stored(&file.into(), "x")?;
        assert!(arrays.len() == 1 && arrays[0].is_idx());
        let mut rows = arrays[0].rows()?;
        let mut found = Vec::new();
        while let Some(piece) = rows.take(2)? {
            found.push(piece);
        }
        Ok(found)
    }

    #[test]
    fn idx_files_are_read_row_by_row() {
        let bytes = |dims: &[usize], data: &[u8]| Tensor::from_vec(dims.to_vec(), data.to_vec());
        let file = idx(8, &[3, 1, 2], &[1, 2, 3, 4, 5, 6]);
        let expected = vec![bytes(&[2, 1, 2], &[1, 2, 3, 4]), bytes(&[1, 1, 2], &[5, 6])];
        assert!(is_stored(&file));
        assert_eq!(rows(file.clone()).unwrap(), expected);
        assert_eq!(rows(packed(&file)).unwrap(), expected);
        let words = idx(0x0b, &[1, 2], &[0x01, 0x02, 0xff, 0xfe]);
        assert_eq!(rows(words).unwrap(), [Tensor::from_vec(vec![1, 2], vec![0x0102i16, -2])]);
    }

    fn packed(file: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(file).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn any_number_of_rows_of_nothing_is_refused() {
        assert_eq!(rows(idx(8, &[3, 5, 0], &[])).unwrap().len(), 2);
        let why = rows(idx(8, &[0x2a00_0000, 40, 0], &[])).unwrap_err();
        assert!(why.contains("without elements"), "{why}");
    }

    #[test]
    fn archives_whose_arrays_blow_up_together_are_refused() {
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated);
        let mut archive = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        for i in 0..5 {
            archive.start_file(format!("{i}.npy"), options).unwrap();
            archive.write_all(&header("|u1", &[60 << 20])).unwrap();
            archive.write_all(&vec![0; 60 << 20]).unwrap();
        }
        let bytes = archive.finish().unwrap().into_inner();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        std::fs::write(&path, &bytes).unwrap();
        let words = "bytes unpacked, the limit of a file of this size";
        let why = stored(&bytes.into(), "a").unwrap_err();
        assert!(why.contains(words), "{why}");
        let one = read(&path).unwrap_err();
        assert!(one.code == "N0508" && one.message.contains(words), "{one}");
    }

    #[test]
    fn idx_files_that_lie_are_refused() {
        let file = idx(8, &[3, 2, 2], &[7; 11]);
        assert_eq!(rows(file.clone()).unwrap_err(), "array `x`: the array is larger than its file");
        assert_eq!(rows(packed(&file)).unwrap_err(), "array `x`: 3 bytes of 4");
        let sizes = idx(8, &[u32::MAX; 4], &[]);
        assert!(rows(packed(&sizes)).is_err() && rows(sizes).is_err());
        let long = packed(&idx(8, &[1, 2], &[7; 3]));
        assert!(rows(long).unwrap_err().ends_with("more bytes than its header tells"));
        let mut damaged = packed(&idx(8, &[1, 2], &[7; 2]));
        let crc = damaged.len() - 6;
        damaged[crc] ^= 1;
        assert!(rows(damaged).is_err());
        assert!(rows(packed(b"no IDX file")).is_err());
        let whole = packed(&idx(8, &[3, 2], &[7; 6]));
        for end in 2..whole.len() {
            assert!(rows(whole[..end].to_vec()).is_err(), "{end}");
        }
    }

    #[test]
    fn a_few_bytes_that_become_very_many_are_refused() {
        // Only the header is read for this.
        let zeros = |rows: u32| packed(&idx(8, &[rows, 1 << 10, 1 << 10], &[]));
        assert!(stored(&zeros(64).into(), "x").is_ok());
        let found = stored(&zeros(65).into(), "x").unwrap_err();
        assert!(found.contains("more than 200 times"), "{found}");
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
