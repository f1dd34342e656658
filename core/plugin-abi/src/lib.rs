//! The binary interface between onnxd and its plugins, as `repr(C)` definitions without code.
//!
//! `onnxd_plugin.h` is the same interface for C; a test compares both field by field. Everything a
//! plugin author must know is said here and there: who may call what from which thread, who owns
//! memory, and what each status means.
//!
//! # Promise
//! A plugin built for 1.x loads in every onnxd that speaks 1.y. Within a major, structs only grow
//! at their end, and the reader looks at `struct_size` before it touches a field. New abilities are
//! named extensions with a version of their own (`onnxd.probe/1`).
//!
//! # Ownership
//! Whoever allocates frees; nothing is freed across the boundary. The host lends views, which stay
//! valid until `run` (or `probe`) returns. It copies what it is given, except tensors, which the
//! plugin writes into memory that the host gave it.
//!
//! # Threads
//! `create`, `run`, `probe` and `destroy` of one instance are called by one thread at a time.
//! During `run` any thread may call `log`, `progress`, `progress_about`, `metric`, `extension` and the
//! `tensor_*` functions; everything else is for the thread that called `run`. All threads of a plugin are
//! joined before `run` returns, and there are never more than [`Job::threads`] at work.
//!
//! # Unwinding
//! No panic and no C++ exception may cross the boundary in either direction.
//!
//! # Graph
//! A graph crosses as the bytes of an ONNX `ModelProto`. Every tensor with elements of fixed size
//! and at least one element, be it an initializer or an attribute, carries no data but a handle:
//! `data_location = EXTERNAL` and `external_data = [{key: "handle", value: "42"}]`, where 42 is an
//! id for [`Host::tensor_get`]. Tensors of strings and empty tensors stay inline.

#![warn(missing_docs)]

use core::ffi::{c_char, c_void};

/// Version of this interface; independent of onnxd's own. Majors must be equal.
pub const ABI_MAJOR: u16 = 1;
/// Grows when structs grow.
pub const ABI_MINOR: u16 = 3;
/// First bytes of every header.
pub const MAGIC: [u8; 8] = *b"ONNXDPLG";
/// Which family of hosts the plugin is for; a fork of the interface changes it.
pub const ABI_TAG: &str = "onnxd";
/// Name of the exported data symbol, a [`Header`].
pub const PLUGIN_SYMBOL: &str = "onnxd_plugin_header";
/// Name of the plugin extension that is a [`ProbeExtension`].
pub const EXTENSION_PROBE: &str = "onnxd.probe/1";

/// Artifact holding the message `onnxd.Probe`: the answer to a probe.
pub const ARTIFACT_PROBE: &str = "onnxd.probe";
/// Artifact holding the message `onnxd.PassLog`: what passes did and skipped.
pub const ARTIFACT_PASS_LOG: &str = "onnxd.pass-log";
/// Artifact holding one message with the fields of `onnxd.QuantizeLog` and `onnxd.Quantization`: what a quantizer did.
pub const ARTIFACT_QUANTIZE_LOG: &str = "onnxd.quantize-log";
/// Artifact holding the message `onnxd.ImportLog`: notes and metadata of a front-end, and further models of the
/// network.
pub const ARTIFACT_IMPORT_LOG: &str = "onnxd.import-log";
/// Artifact holding the message `onnxd.Diagnostics`: why a call failed, better than a line of text.
pub const ARTIFACT_DIAGNOSTICS: &str = "onnxd.diagnostics";

/// Key of the `external_data` entry whose value is a tensor's id in decimal digits.
pub const HANDLE_KEY: &str = "handle";
/// Largest rank of a tensor.
pub const RANK_MAX: u32 = 32;
/// Bytes of the text that [`Host::progress_about`] shows; a longer one is cut.
pub const ABOUT_BYTES_MAX: u32 = 160;
/// Bit of [`Tensor::flags`]: `data` is aligned to 64 bytes. Without it, nothing is promised.
pub const TENSOR_ALIGNED_64: u32 = 1;

/// What a call came to; values not named here are reserved and read as [`INTERNAL`].
pub type Status = i32;
/// Done.
pub const OK: Status = 0;
/// Not mine, or nothing to do; not an error.
pub const DECLINED: Status = 1;
/// The input (or an argument) is wrong; the same call fails the same way again.
pub const INVALID: Status = 2;
/// A defect of the callee. A text that contains "panic" marks a caught panic.
pub const INTERNAL: Status = 3;
/// Stopped because `progress` or `progress_about` asked for it.
pub const CANCELLED: Status = 4;
/// The operator, feature or function is not available.
pub const UNSUPPORTED: Status = 5;
/// Memory ran out.
pub const OUT_OF_MEMORY: Status = 6;
/// A file could not be read or written.
pub const IO: Status = 7;

/// Level of [`Host::log`]: something failed.
pub const LOG_ERROR: i32 = 1;
/// Level of [`Host::log`]: something is suspicious.
pub const LOG_WARN: i32 = 2;
/// Level of [`Host::log`]: what a user may want to know.
pub const LOG_INFO: i32 = 3;
/// Level of [`Host::log`]: what the plugin's author wants to know.
pub const LOG_DEBUG: i32 = 4;
/// Level of [`Host::log`]: everything.
pub const LOG_TRACE: i32 = 5;

/// Borrowed bytes: UTF-8 text without a terminating zero, or an encoded message.
///
/// Valid for the duration of the call unless its user says otherwise. `ptr` may be null if `len` is
/// 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Str {
    /// First byte.
    pub ptr: *const u8,
    /// Number of bytes.
    pub len: usize,
}

impl Str {
    /// No bytes.
    pub const EMPTY: Str = Str { ptr: core::ptr::null(), len: 0 };

    /// A view of `bytes`, which must outlive every use of the result.
    #[must_use]
    pub const fn of(bytes: &[u8]) -> Str {
        Str { ptr: bytes.as_ptr(), len: bytes.len() }
    }

    /// The bytes; empty if the pointer is null.
    ///
    /// # Safety
    /// `ptr` is null or points to `len` readable bytes that nothing writes during `'a`.
    #[must_use]
    pub const unsafe fn as_bytes<'a>(self) -> &'a [u8] {
        if self.ptr.is_null() {
            return &[];
        }
        // SAFETY: as the caller promises; null was handled.
        unsafe { core::slice::from_raw_parts(self.ptr, self.len) }
    }
}

// SAFETY: a `Str` is a view without interior state; whoever reads it promises validity
// (`as_bytes`), and a static header needs it shareable.
unsafe impl Sync for Str {}
// SAFETY: see `Sync`.
unsafe impl Send for Str {}

/// A message buffer owned by the caller. The callee writes at most `cap` bytes of UTF-8 without a
/// terminating zero, cuts the rest off, and sets `len`. Nothing is freed. May be null.
#[repr(C)]
#[derive(Debug)]
pub struct ErrorBuffer {
    /// Room at `ptr`.
    pub cap: usize,
    /// Bytes written; 0 before the call.
    pub len: usize,
    /// The buffer.
    pub ptr: *mut c_char,
}

/// A dropped file, mapped read-only.
#[repr(C)]
#[derive(Debug)]
pub struct Bytes {
    /// Size of this struct as the caller knows it; set before the call.
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// First byte; aligned to a page.
    pub ptr: *const u8,
    /// Length in bytes.
    pub len: usize,
    /// Names the mapping as source for [`Host::tensor_alias`]; unique among tensors and mappings.
    pub id: u64,
}

/// An array in memory: little-endian, row-major; types below 8 bits packed, low bits first.
#[repr(C)]
#[derive(Debug)]
pub struct Tensor {
    /// Size of this struct as the caller knows it; set before the call.
    pub struct_size: u32,
    /// `TensorProto.DataType`; strings have no such array.
    pub dtype: u32,
    /// Number of dimensions, at most [`RANK_MAX`].
    pub rank: u32,
    /// Bits, see [`TENSOR_ALIGNED_64`]; set by the host, ignored as an argument.
    pub flags: u32,
    /// `rank` sizes, none negative; may be null if `rank` is 0.
    pub dims: *const i64,
    /// First byte; ignored as an argument.
    pub data: *const c_void,
    /// Length of `data` in bytes. As an argument it must be 0 or what dtype and dims come to.
    pub nbytes: u64,
}

/// [`Derivation::kind`]: the element at the coordinates `i` is element `offset + Σ iₐ·strides[a]` of the one source, in
/// row-major order. Permutes, slices with steps, reverses, expands.
pub const DERIVE_STRIDED: u32 = 1;
/// [`Derivation::kind`]: the elements of the one source, in their order, converted as ONNX's `Cast` does.
pub const DERIVE_CAST: u32 = 2;
/// [`Derivation::kind`]: the sources one after the other along `axis`.
pub const DERIVE_CONCAT: u32 = 3;
/// [`Derivation::kind`]: the elements of the first source, a float tensor, multiplied by the element of the
/// second one, a vector of `double`, at their coordinate along `axis`; in double precision, and rounded.
pub const DERIVE_SCALED: u32 = 4;
/// [`Derivation::kind`]: what the second source, a vector of 4, 16 or 256 elements, has for every 2, 4 or 8 bits of the
/// bytes of the first one, the low bits first. Both may have elements of less than a byte. Since 1.3.
pub const DERIVE_LOOKUP: u32 = 5;
/// [`Derivation::kind`]: slices of the first source along `axis`: those that the second one, a vector of int64 in
/// memory, names, in its order. Since 1.3.
pub const DERIVE_TAKEN: u32 = 6;
/// [`Derivation::kind`]: what blocks of small integers say. The one source has their bytes (`uint8`), `axis` is the
/// number of their format in GGML, and `offset` says what is taken of them: 0 the elements (`float`), 1 their integers
/// (`int8`), 2 what these are multiplied by (`float`), 3 what is subtracted then (`float`). Since 1.3.
pub const DERIVE_BLOCKS: u32 = 7;
/// Derivations inside each other.
pub const DERIVATIONS_MAX: u32 = 16;

/// How the elements of a tensor come from those of others. They are computed where the model is written,
/// block by block.
#[repr(C)]
#[derive(Debug)]
pub struct Derivation {
    /// Size of this struct as the caller knows it; set before the call.
    pub struct_size: u32,
    /// [`DERIVE_STRIDED`] or another of these.
    pub kind: u32,
    /// Ids of tensors whose elements are whole bytes, except those of [`DERIVE_LOOKUP`].
    pub sources: *const u64,
    /// Entries at `sources`: any number of [`DERIVE_CONCAT`]; one of [`DERIVE_STRIDED`],
    /// [`DERIVE_CAST`] and [`DERIVE_BLOCKS`]; else two.
    pub source_count: usize,
    /// Of [`DERIVE_STRIDED`]: the element at the coordinates 0. Of [`DERIVE_BLOCKS`]: what is taken.
    pub offset: u64,
    /// Of [`DERIVE_STRIDED`]: as many strides, in elements, as the result has dimensions; 0 repeats, negative ones run
    /// backwards. Null otherwise.
    pub strides: *const i64,
    /// Of [`DERIVE_CONCAT`], [`DERIVE_SCALED`] and [`DERIVE_TAKEN`]. Of [`DERIVE_BLOCKS`]: the format.
    pub axis: u32,
    /// Zero.
    pub reserved: u32,
}

/// One conversion in progress. Opaque except for these first fields; only the host makes one.
#[repr(C)]
#[derive(Debug)]
pub struct Job {
    /// How many bytes from here may be read.
    pub struct_size: u32,
    /// Threads the plugin may keep busy, the calling one included; at least 1.
    pub threads: u32,
}

/// A named tensor given to or taken from [`Host::run_model`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NamedTensor {
    /// Name of the graph's input or output.
    pub name: Str,
    /// Id of the tensor.
    pub id: u64,
}

/// A request to evaluate a model.
#[repr(C)]
#[derive(Debug)]
pub struct Run {
    /// Size of this struct as the caller knows it.
    pub struct_size: u32,
    /// Zero.
    pub flags: u32,
    /// Encoded `ModelProto` with handles; empty means the job's own graph.
    pub graph: Str,
    /// What to feed.
    pub inputs: *const NamedTensor,
    /// Entries at `inputs`.
    pub input_count: usize,
    /// Names are read, ids are written.
    pub outputs: *mut NamedTensor,
    /// Entries at `outputs`.
    pub output_count: usize,
}

/// What a plugin exports under [`PLUGIN_SYMBOL`]: data, read without running the plugin's code.
///
/// All strings are static.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// Size of this struct as the plugin was compiled with.
    pub struct_size: u32,
    /// [`ABI_MAJOR`] the plugin was compiled with.
    pub abi_major: u16,
    /// [`ABI_MINOR`] the plugin was compiled with; informative.
    pub abi_minor: u16,
    /// Lowest minor of the host the plugin can live with; 0 unless it cannot do without more.
    pub min_host_minor: u16,
    /// Zero.
    pub reserved: [u16; 3],
    /// [`ABI_TAG`].
    pub abi_tag: Str,
    /// Reverse domain name, `org.example.fuse-pads`: lower-case letters, digits, `.` and `-`.
    pub id: Str,
    /// Semantic version, `1.2.0`.
    pub version: Str,
    /// TOML, see `onnxd_plugin.h`, "Descriptor".
    pub descriptor: Str,
    /// Called once per process before anything else; null means the plugin refuses this host.
    /// The host's table and the plugin's table both live as long as the process.
    pub entry: Option<unsafe extern "C" fn(host: *const Host) -> *const Plugin>,
}

/// What a plugin can do. A null function is one the plugin does not have.
#[repr(C)]
pub struct Plugin {
    /// Size of this struct as the plugin was compiled with.
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// Makes an instance. `kind` is `frontend/ID`, `quantizer/ID` or `pass`; `params_json` is
    /// `{"params": {...}}`, for passes with the list of components to run and the number of
    /// rewrites after which to stop (0: no limit): `{"passes": [{"id": "fuse-pad"}],
    /// "rewrites_max": 0, "params": {...}}`. An unknown component is [`INVALID`]. `inst`
    /// is written only with [`OK`].
    pub create: Option<
        unsafe extern "C" fn(
            kind: Str,
            params_json: Str,
            inst: *mut *mut c_void,
            err: *mut ErrorBuffer,
        ) -> Status,
    >,
    /// Does the work: reads submission or graph, puts the graph. Called at most once per instance.
    pub run: Option<
        unsafe extern "C" fn(inst: *mut c_void, job: *const Job, err: *mut ErrorBuffer) -> Status,
    >,
    /// Frees an instance.
    pub destroy: Option<unsafe extern "C" fn(inst: *mut c_void)>,
    /// A static struct by name, null if not offered. Any thread, any time after `entry`.
    pub extension: Option<unsafe extern "C" fn(name: Str) -> *const c_void>,
}

/// Extension [`EXTENSION_PROBE`] of a plugin with front-ends.
#[repr(C)]
pub struct ProbeExtension {
    /// Size of this struct as the plugin was compiled with.
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// Says through the artifact [`ARTIFACT_PROBE`] whether the submission is the front-end's own
    /// and which files are missing. Must be quick: reads beginnings, not whole files. No graph is
    /// put.
    pub probe: Option<
        unsafe extern "C" fn(inst: *mut c_void, job: *const Job, err: *mut ErrorBuffer) -> Status,
    >,
}

/// What the host offers. A function beyond `struct_size`, or null, does not exist.
///
/// Every function answers [`INVALID`] to null pointers, unknown ids, text that is not UTF-8 and to
/// a job whose `run` has returned, without effect.
#[repr(C)]
pub struct Host {
    /// Size of this struct as the host was compiled with.
    pub struct_size: u32,
    /// [`ABI_MAJOR`] of the host.
    pub abi_major: u16,
    /// [`ABI_MINOR`] of the host.
    pub abi_minor: u16,
    /// Writes one line to the job's log. Any thread during `run`.
    pub log: Option<unsafe extern "C" fn(job: *const Job, level: i32, target: Str, message: Str)>,
    /// Says how far the work is; `total` 0 means unknown. Call it at least once per second of work:
    /// [`CANCELLED`] asks to return at once with the same status. Any thread during `run`.
    pub progress: Option<unsafe extern "C" fn(job: *const Job, done: u64, total: u64) -> Status>,
    /// The encoded message `onnxd.Submission`: names of all dropped files, which of them is the
    /// network, and the resolved params. Borrowed until `run` returns.
    pub submission: Option<unsafe extern "C" fn(job: *const Job, out: *mut Str) -> Status>,
    /// Maps a file of the submission by its name there. Borrowed until `run` returns. Mapping a
    /// name again gives the same id. [`IO`] if the file cannot be read.
    pub input_map:
        Option<unsafe extern "C" fn(job: *const Job, name: Str, out: *mut Bytes) -> Status>,
    /// The graph to work on. Borrowed until `run` returns, also after `graph_put`.
    /// [`UNSUPPORTED`] if the job has none, as in an import.
    pub graph_get: Option<unsafe extern "C" fn(job: *const Job, out: *mut Str) -> Status>,
    /// Hands over the resulting graph; copied. A later call replaces an earlier one.
    pub graph_put: Option<unsafe extern "C" fn(job: *const Job, model: Str) -> Status>,
    /// A sealed tensor, read-only, borrowed until `run` returns. Set `out.struct_size` first.
    /// Any thread during `run`.
    pub tensor_get:
        Option<unsafe extern "C" fn(job: *const Job, id: u64, out: *mut Tensor) -> Status>,
    /// Room for a new tensor: zeroed, aligned to 64 bytes, writable until `tensor_seal`.
    /// Any thread during `run`.
    pub tensor_new: Option<
        unsafe extern "C" fn(
            job: *const Job,
            desc: *const Tensor,
            id: *mut u64,
            data: *mut *mut c_void,
        ) -> Status,
    >,
    /// Ends writing. Afterwards the memory must not be written, by no thread; writing to it may
    /// crash. Only a sealed tensor may be named by a graph. Any thread during `run`.
    pub tensor_seal: Option<unsafe extern "C" fn(job: *const Job, id: u64) -> Status>,
    /// A new sealed tensor over the bytes of another sealed tensor or of a mapped input, beginning
    /// at `byte_offset`; nothing is copied. Any thread during `run`.
    pub tensor_alias: Option<
        unsafe extern "C" fn(
            job: *const Job,
            source: u64,
            byte_offset: u64,
            desc: *const Tensor,
            id: *mut u64,
        ) -> Status,
    >,
    /// Hands over a result besides the graph; copied. Names beginning with `onnxd.` are reserved
    /// for the `ARTIFACT_` constants. Any other name is that of a file beside the model, which is
    /// written at once: letters, digits, `.`, `-` and `_`, folders between `/`; not `model.*`,
    /// `report.*`, `receipt.*`; [`UNSUPPORTED`] in a probe. A later call with the same name
    /// replaces an earlier one.
    pub artifact:
        Option<unsafe extern "C" fn(job: *const Job, name: Str, mime: Str, data: Str) -> Status>,
    /// A number for the report. Any thread during `run`.
    pub metric: Option<unsafe extern "C" fn(job: *const Job, key: Str, value: f64) -> Status>,
    /// Evaluates a model with the host's executor; [`UNSUPPORTED`] where there is none.
    pub run_model: Option<unsafe extern "C" fn(job: *const Job, run: *const Run) -> Status>,
    /// A static struct of the host by name, null if not offered. Any thread, any time.
    pub extension: Option<unsafe extern "C" fn(name: Str) -> *const c_void>,
    /// Gives a mapped file back: its bytes must not be read any more, unless it was mapped more often than it was given
    /// back. Tensors over it stay. For those who read thousands of files one after the other. Since 1.1.
    pub input_unmap: Option<unsafe extern "C" fn(job: *const Job, id: u64) -> Status>,
    /// As `progress`, and says in words what `done` of `total` count: `candidate 3 of 7, sample`. The
    /// host shows them with the one that is being worked on: `candidate 3 of 7, sample 12 of 64`; with
    /// `done` and `total` 0 the text alone. What is new has another text: within one text, counts
    /// only grow. The host shows the first [`ABOUT_BYTES_MAX`] bytes, in one line. Any thread during
    /// `run`. Since 1.2.
    pub progress_about:
        Option<unsafe extern "C" fn(job: *const Job, done: u64, total: u64, about: Str) -> Status>,
    /// A new sealed tensor that is derived from others and takes no memory. [`INVALID`] if it would read beyond its
    /// sources, or is derived more than [`DERIVATIONS_MAX`] times over. Any thread during `run`. Since 1.2.
    pub tensor_derive: Option<
        unsafe extern "C" fn(
            job: *const Job,
            from: *const Derivation,
            desc: *const Tensor,
            id: *mut u64,
        ) -> Status,
    >,
    /// How a tensor is derived, and its type and sizes, without data; [`DECLINED`] if it lies in memory. Borrowed until
    /// `run` returns. [`Host::tensor_get`] computes a derived tensor, and keeps it in memory until `run` returns. Set
    /// both sizes first. Any thread during `run`. Since 1.2.
    pub tensor_derivation: Option<
        unsafe extern "C" fn(
            job: *const Job,
            id: u64,
            from: *mut Derivation,
            desc: *mut Tensor,
        ) -> Status,
    >,
}
