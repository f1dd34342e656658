//! Model files. Above a threshold the weights go to a file of their own, because protobuf ends at
//! 2 GiB, at offsets that other programs can map.

use crate::encode::to_packed;
use crate::packed::Encoded;
use crate::sink::{Placement, TensorSink};
use crate::stream::{StandIns, StreamWriter};
use bytes::BufMut;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::{Model, Tensor};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The largest message that other readers of protobuf accept.
const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;

/// Tensors from this size on are aligned for mapping, smaller ones for vector instructions.
const PAGE_ALIGNED_BYTES_MIN: u64 = 64 * 1024;
const SMALL_ALIGNMENT: u64 = 64;

/// Whether tensors go to a file of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum External {
    /// If the model would be larger than the threshold.
    #[default]
    Auto,
    /// Always, from 1 KiB per tensor.
    Always,
    /// Never; a model above 2 GiB is then refused.
    Never,
}

/// How a model file is written.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Whether tensors go to a file of their own.
    pub external: External,
    /// Size of the message above which [`External::Auto`] chooses it.
    pub threshold_bytes: u64,
    /// Size of the tensors that go there at least; smaller ones stay in the message.
    pub tensor_bytes_min: u64,
    /// Offsets of tensors of at least 64 KiB are multiples of this, at least 64.
    pub alignment_bytes: u64,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        let threshold_bytes = 1_500_000_000;
        WriteOptions {
            external: External::Auto,
            threshold_bytes,
            tensor_bytes_min: 1024,
            alignment_bytes: 4096,
        }
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFiles {
    /// Files with their sizes in bytes, the model first.
    pub files: Vec<(PathBuf, u64)>,
}

/// A data file beside several models. What more than one of them has is in it once.
pub struct SharedData {
    /// Its name, as models refer to it.
    location: String,
    bytes: u64,
    /// Offsets of tensors by what tells which share their elements. They are held, so that no other tensor takes their
    /// place in memory.
    known: HashMap<(usize, usize), (Tensor, u64)>,
}

impl SharedData {
    /// One that is not written yet, called so.
    pub fn named(name: impl Into<String>) -> SharedData {
        SharedData { location: name.into(), bytes: 0, known: HashMap::new() }
    }
}

/// Writes `model` to `path`, and its weights to `path` + `.data` where `options` say so. Files
/// appear complete: they are written beside and renamed; a model may so replace the very file its
/// tensors are mapped from. Whoever keeps them brings them to the disk.
///
/// # Errors
/// N0304 if writing fails, N0105 if the message would be too large, else as [`crate::to_proto`].
pub fn write_model(
    model: &Model,
    path: &Path,
    options: &WriteOptions,
) -> Result<WrittenFiles, Diagnostic> {
    let mut data = SharedData::named(format!("{}.data", name_of(path)?));
    write_model_sharing(model, path, options, &mut data)
}

/// As [`write_model`], with weights in a file that further models may put theirs into.
///
/// # Errors
/// As there. Models that refer to the file are of no use then.
pub fn write_model_sharing(
    model: &Model,
    path: &Path,
    options: &WriteOptions,
    data: &mut SharedData,
) -> Result<WrittenFiles, Diagnostic> {
    name_of(path)?;
    let target = ModelPaths { model: path.to_owned(), data: path.with_file_name(&data.location) };
    let written = target.write(model, options, data);
    if written.is_err() {
        // What is left of a failed attempt is of no use; the error says more than a failed removal.
        for partial in [&target.model, &target.data] {
            let _ = std::fs::remove_file(partial_of(partial));
        }
    }
    written
}

/// The file's name, as text.
fn name_of(path: &Path) -> Result<&str, Diagnostic> {
    path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        let text = format!("{} has no file name in UTF-8", path.display());
        Diagnostic::new(Code::Disk, text)
    })
}

struct ModelPaths {
    model: PathBuf,
    data: PathBuf,
}

impl ModelPaths {
    fn write(
        &self,
        model: &Model,
        options: &WriteOptions,
        data: &mut SharedData,
    ) -> Result<WrittenFiles, Diagnostic> {
        let whole = match options.external {
            External::Always => false,
            External::Never => true,
            External::Auto => derived_bytes(model) <= options.threshold_bytes,
        };
        if whole {
            let mut stand_ins = StandIns::default();
            let proto = to_packed(model, &mut stand_ins)?;
            let bytes = proto.encoded_len();
            if options.external == External::Never || bytes as u64 <= options.threshold_bytes {
                let written = self.write_proto(&proto, stand_ins)?;
                publish(&self.model)?;
                return Ok(WrittenFiles { files: vec![(self.model.clone(), written)] });
            }
        }
        let mut sink = DataFile::new(self, options, data)?;
        let proto = to_packed(model, &mut sink)?;
        let (data_bytes, small) = sink.finish()?;
        data.bytes = data_bytes;
        let model_bytes = self.write_proto(&proto, small)?;
        let mut files = vec![(self.model.clone(), model_bytes)];
        if data_bytes == 0 {
            // Every tensor was small; the file would only be clutter.
            let partial = partial_of(&self.data);
            std::fs::remove_file(&partial).map_err(|e| failed(&partial, &e))?;
        } else {
            publish(&self.data)?;
            files.push((self.data.clone(), data_bytes));
        }
        publish(&self.model)?;
        Ok(WrittenFiles { files })
    }

    fn write_proto(&self, proto: &Encoded, stand_ins: StandIns) -> Result<u64, Diagnostic> {
        let bytes = proto.encoded_len();
        if bytes > MESSAGE_BYTES_MAX {
            let text = format!("the model takes {bytes} bytes; a protobuf file ends at 2 GiB");
            let help = "Allow external data.";
            return Err(Diagnostic::new(Code::ParamsBadValue, text).help(help));
        }
        let mut writer = create(&self.model)?.with(stand_ins);
        proto.encode(&mut writer);
        writer.finish().map_err(|e| failed(&self.model, &e))
    }
}

/// Bytes of the derived initializers of all graphs: address space that a message would take.
fn derived_bytes(model: &Model) -> u64 {
    let mut bytes = 0u64;
    model.for_each_graph(|graph| {
        let used = graph.value_ids().filter(|v| graph.uses(*v) > 0);
        let tensors = used.filter_map(|v| graph[v].initializer());
        let tensors = tensors.filter(|tensor| tensor.derivation().is_some());
        bytes = tensors.fold(bytes, |sum, tensor| sum.saturating_add(tensor.byte_len() as u64));
    });
    bytes
}

/// Puts tensors into the data file.
struct DataFile<'a> {
    target: &'a ModelPaths,
    writer: StreamWriter,
    alignment: u64,
    tensor_bytes_min: u64,
    small: StandIns,
    data: &'a mut SharedData,
}

impl<'a> DataFile<'a> {
    fn new(
        target: &'a ModelPaths,
        options: &WriteOptions,
        data: &'a mut SharedData,
    ) -> Result<DataFile<'a>, Diagnostic> {
        let writer = match data.bytes {
            0 => create(&target.data)?,
            bytes => go_on(&target.data, bytes)?,
        };
        let alignment = options.alignment_bytes.max(SMALL_ALIGNMENT);
        let tensor_bytes_min = options.tensor_bytes_min;
        Ok(DataFile {
            target,
            writer,
            alignment,
            tensor_bytes_min,
            small: StandIns::default(),
            data,
        })
    }

    /// The number of bytes, and what stands in the message for small tensors.
    fn finish(self) -> Result<(u64, StandIns), Diagnostic> {
        let written = self.writer.finish().map_err(|e| failed(&self.target.data, &e))?;
        Ok((written, self.small))
    }

    fn pad(&mut self, alignment: u64) {
        const ZEROS: [u8; 4096] = [0; 4096];
        let mut missing =
            self.writer.position().next_multiple_of(alignment) - self.writer.position();
        while missing > 0 {
            let step = missing.min(ZEROS.len() as u64);
            self.writer.put_slice(&ZEROS[..step as usize]);
            missing -= step;
        }
    }
}

impl TensorSink for DataFile<'_> {
    fn place(&mut self, tensor: &Tensor) -> Result<Placement, Diagnostic> {
        let length = tensor.byte_len() as u64;
        if length < self.tensor_bytes_min {
            return self.small.place(tensor);
        }
        let key = tensor.identity();
        let offset = match self.data.known.get(&key) {
            Some((_, offset)) => *offset,
            None => {
                let large = length >= PAGE_ALIGNED_BYTES_MIN;
                self.pad(if large { self.alignment } else { SMALL_ALIGNMENT });
                let offset = self.writer.position();
                self.writer.put_tensor(tensor);
                self.data.known.insert(key, (tensor.clone(), offset));
                offset
            }
        };
        let location = self.data.location.clone();
        Ok(Placement::External { location, offset, length })
    }
}

/// Where a file is written before it is complete.
fn partial_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

fn create(path: &Path) -> Result<StreamWriter, Diagnostic> {
    let partial = partial_of(path);
    File::create(&partial).map(StreamWriter::new).map_err(|e| failed(&partial, &e))
}

/// Opens a file of so many bytes to write behind them.
fn go_on(path: &Path, bytes: u64) -> Result<StreamWriter, Diagnostic> {
    let partial = partial_of(path);
    let open = || {
        std::fs::rename(path, &partial)?;
        // Not to append: holes are left by going on, and what follows a hole stands behind it.
        let mut file = File::options().write(true).open(&partial)?;
        file.seek(SeekFrom::Start(bytes))?;
        Ok(file)
    };
    open().map(|file| StreamWriter::behind(file, bytes)).map_err(|e| failed(&partial, &e))
}

fn publish(path: &Path) -> Result<(), Diagnostic> {
    std::fs::rename(partial_of(path), path).map_err(|e| failed(path, &e))
}

fn failed(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::of_write(error), format!("{}: {error}", path.display()))
}
