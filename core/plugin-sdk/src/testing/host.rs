//! A host in memory: files, tensors and the graph of one conversion. It is never freed, so that what it lends stays
//! valid, as in a worker.

use bytes::Bytes;
use onnxd_plugin_abi as abi;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::mem::size_of;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One conversion. Its job comes first, so that the host's functions find the rest.
#[repr(C)]
pub(crate) struct TestHost {
    job: abi::Job,
    state: Mutex<HostState>,
}

#[derive(Default)]
pub(crate) struct HostState {
    pub(crate) submission: Vec<u8>,
    pub(crate) files: BTreeMap<String, Bytes>,
    pub(crate) graph: Bytes,
    pub(crate) artifacts: BTreeMap<String, Vec<u8>>,
    pub(crate) logged: Vec<String>,
    /// Progress in words, as it was told.
    pub(crate) told: Vec<String>,
    /// What progress is answered with.
    pub(crate) cancelled: bool,
    /// How often a graph was put and a file mapped.
    pub(crate) counted: Counted,
    /// Tensors that the plugin made, and what it made parts of, with the offset.
    pub(crate) made: Vec<u64>,
    pub(crate) aliases: Vec<(u64, u64)>,
    /// What was mapped and made, by id.
    lent: BTreeMap<u64, Lent>,
    last: u64,
}

/// How often a plugin did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) graphs_put: usize,
    pub(crate) files_mapped: usize,
    pub(crate) files_unmapped: usize,
}

#[derive(Clone, Copy)]
struct Lent {
    first: *const u8,
    len: usize,
    /// Element type and sizes, of tensors.
    dtype: u32,
    dims: &'static [i64],
}

// SAFETY: the memory is leaked, so that every thread may read it as long as it likes; it is written only before it is
// sealed, by the plugin that asked for it.
unsafe impl Send for Lent {}

impl HostState {
    fn lend(&mut self, lent: Lent) -> u64 {
        self.last += 1;
        self.lent.insert(self.last, lent);
        self.last
    }

    fn went_on(&self) -> abi::Status {
        if self.cancelled { abi::CANCELLED } else { abi::OK }
    }

    /// Lends a tensor, and gives its id.
    #[cfg(test)]
    pub(crate) fn lend_tensor(&mut self, dtype: u32, dims: &[i64], bytes: &[u8]) -> u64 {
        let (first, len) = (copied(bytes), bytes.len());
        self.lend(Lent { first, len, dtype, dims: dims.to_vec().leak() })
    }

    /// The bytes of what is lent by this id.
    #[cfg(test)]
    pub(crate) fn bytes(&self, id: u64) -> &'static [u8] {
        let lent = self.lent[&id];
        // SAFETY: as many bytes as it says, which are leaked. Tests look after the call, when nothing is written.
        unsafe { std::slice::from_raw_parts(lent.first, lent.len) }
    }
}

impl TestHost {
    /// A host of these files, which say what `submission` is.
    pub(crate) fn new(submission: Vec<u8>, files: BTreeMap<String, Bytes>) -> &'static TestHost {
        let job = abi::Job { struct_size: size_of::<abi::Job>() as u32, threads: 1 };
        let state = Mutex::new(HostState { submission, files, ..HostState::default() });
        Box::leak(Box::new(TestHost { job, state }))
    }

    pub(crate) fn job(&'static self) -> *const abi::Job {
        (&raw const *self).cast()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Zeroed bytes that belong to the test from now on, aligned for every type.
fn allocated(len: usize) -> *mut u8 {
    vec![0u64; len.div_ceil(size_of::<u64>()).max(1)].leak().as_mut_ptr().cast()
}

/// Bytes in memory of that kind.
fn copied(bytes: &[u8]) -> *const u8 {
    let first = allocated(bytes.len());
    // SAFETY: `first` is new memory of this size.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), first, bytes.len()) };
    first
}

/// # Safety
/// `desc` points to a description with as many sizes as it says, all of them aligned.
unsafe fn shape(desc: *const abi::Tensor) -> (u32, &'static [i64]) {
    // SAFETY: the description is readable as the caller promises.
    let (dtype, dims, rank) = unsafe { ((*desc).dtype, (*desc).dims, (*desc).rank as usize) };
    let dims = match rank {
        0 => Vec::new(),
        // SAFETY: there are sizes, as many as the rank, as the caller promises; they are copied.
        _ => unsafe { std::slice::from_raw_parts(dims, rank) }.to_vec(),
    };
    (dtype, dims.leak())
}

/// # Safety
/// `job` is one of [`TestHost::job`].
unsafe fn host(job: *const abi::Job) -> &'static TestHost {
    // SAFETY: the caller promises a job of a `TestHost`, which is never freed and begins with its job.
    unsafe { &*job.cast::<TestHost>() }
}

/// A text of the plugin, copied.
///
/// # Safety
/// `from` is null or readable during this call.
unsafe fn text(from: abi::Str) -> String {
    // SAFETY: as the caller promises; the text is copied.
    String::from_utf8_lossy(unsafe { from.as_bytes() }).into_owned()
}

unsafe extern "C" fn log(job: *const abi::Job, level: i32, part: abi::Str, said: abi::Str) {
    let word = match level {
        abi::LOG_ERROR => "error",
        abi::LOG_WARN => "warning",
        abi::LOG_INFO => "info",
        _ => "debug",
    };
    // SAFETY: the SDK lends both texts for the call.
    let (part, said) = unsafe { (text(part), text(said)) };
    let line = format!("{word}: {part}: {said}");
    // SAFETY: this table is only ever given jobs of its hosts (`JobHandle::of`).
    unsafe { host(job) }.state().logged.push(line);
}

unsafe extern "C" fn progress(job: *const abi::Job, _: u64, _: u64) -> abi::Status {
    // SAFETY: this table is only ever given jobs of its hosts.
    unsafe { host(job) }.state().went_on()
}

unsafe extern "C" fn progress_about(
    job: *const abi::Job,
    done: u64,
    total: u64,
    about: abi::Str,
) -> abi::Status {
    // SAFETY: this table is only ever given jobs of its hosts.
    let mut state = unsafe { host(job) }.state();
    // SAFETY: the SDK lends the text for the call.
    let about = unsafe { text(about) };
    state.told.push(format!("{about}: {done}/{total}"));
    state.went_on()
}

unsafe extern "C" fn submission(job: *const abi::Job, out: *mut abi::Str) -> abi::Status {
    // SAFETY: this table is only ever given jobs of its hosts.
    let bytes: &'static [u8] = unsafe { host(job) }.state().submission.clone().leak();
    // SAFETY: the SDK passes a variable; the bytes are leaked, so that the view stays valid.
    unsafe { *out = abi::Str::of(bytes) };
    abi::OK
}

unsafe extern "C" fn input_map(
    job: *const abi::Job,
    name: abi::Str,
    out: *mut abi::Bytes,
) -> abi::Status {
    // SAFETY: this table is only ever given jobs of its hosts.
    let mut state = unsafe { host(job) }.state();
    // SAFETY: the SDK lends the name for the call.
    let name = unsafe { text(name) };
    let Some(bytes) = state.files.get(&name).cloned() else { return abi::INVALID };
    state.counted.files_mapped += 1;
    // Aligned as a mapped file is.
    let (first, len) = (copied(&bytes), bytes.len());
    let id = state.lend(Lent { first, len, dtype: 0, dims: &[] });
    // SAFETY: the SDK passes a variable as `out`.
    unsafe { ((*out).ptr, (*out).len, (*out).id) = (first, len, id) };
    abi::OK
}

unsafe extern "C" fn input_unmap(job: *const abi::Job, id: u64) -> abi::Status {
    // SAFETY: this table is only ever given jobs of its hosts.
    let mut state = unsafe { host(job) }.state();
    match state.lent.remove(&id) {
        Some(_) => {
            state.counted.files_unmapped += 1;
            abi::OK
        }
        None => abi::INVALID,
    }
}

unsafe extern "C" fn graph_get(job: *const abi::Job, out: *mut abi::Str) -> abi::Status {
    // SAFETY: this table is only ever given jobs of its hosts.
    let bytes: &'static [u8] = unsafe { host(job) }.state().graph.to_vec().leak();
    // SAFETY: the SDK passes a variable; the bytes are leaked, so that the view stays valid.
    unsafe { *out = abi::Str::of(bytes) };
    abi::OK
}

unsafe extern "C" fn graph_put(job: *const abi::Job, model: abi::Str) -> abi::Status {
    // SAFETY: the SDK lends the bytes for the call.
    let bytes = Bytes::copy_from_slice(unsafe { model.as_bytes() });
    // SAFETY: this table is only ever given jobs of its hosts.
    let mut state = unsafe { host(job) }.state();
    (state.graph, state.counted.graphs_put) = (bytes, state.counted.graphs_put + 1);
    abi::OK
}

unsafe extern "C" fn tensor_get(
    job: *const abi::Job,
    id: u64,
    out: *mut abi::Tensor,
) -> abi::Status {
    // SAFETY: this table is only ever given jobs of its hosts.
    let Some(lent) = unsafe { host(job) }.state().lent.get(&id).copied() else {
        return abi::INVALID;
    };
    // SAFETY: the SDK passes a variable as `out`.
    unsafe {
        ((*out).data, (*out).nbytes) = (lent.first.cast(), lent.len as u64);
        ((*out).dtype, (*out).rank) = (lent.dtype, lent.dims.len() as u32);
        (*out).dims = lent.dims.as_ptr();
    }
    abi::OK
}

unsafe extern "C" fn tensor_new(
    job: *const abi::Job,
    desc: *const abi::Tensor,
    id: *mut u64,
    data: *mut *mut c_void,
) -> abi::Status {
    // SAFETY: the SDK lends a description and its sizes, made from a slice of them.
    let ((dtype, dims), len) = unsafe { (shape(desc), (*desc).nbytes as usize) };
    let first = allocated(len);
    // SAFETY: this table is only ever given jobs of its hosts.
    let mut state = unsafe { host(job) }.state();
    let new = state.lend(Lent { first, len, dtype, dims });
    state.made.push(new);
    // SAFETY: the SDK passes variables.
    unsafe { (*id, *data) = (new, first.cast()) };
    abi::OK
}

unsafe extern "C" fn tensor_seal(_: *const abi::Job, _: u64) -> abi::Status {
    abi::OK
}

unsafe extern "C" fn tensor_alias(
    job: *const abi::Job,
    source: u64,
    offset: u64,
    desc: *const abi::Tensor,
    id: *mut u64,
) -> abi::Status {
    // SAFETY: this table is only ever given jobs of its hosts.
    let mut state = unsafe { host(job) }.state();
    let Some(from) = state.lent.get(&source).copied() else { return abi::INVALID };
    // SAFETY: the SDK lends a description and its sizes, made from a slice of them.
    let (dtype, dims) = unsafe { shape(desc) };
    let elements: usize = dims.iter().map(|dim| *dim as usize).product();
    let known = crate::ir::DataType::from_number(dtype as i32);
    let Some(len) = known.and_then(|known| known.byte_len(elements)) else { return abi::INVALID };
    let offset = offset as usize;
    if offset.checked_add(len).is_none_or(|end| end > from.len) {
        return abi::INVALID;
    }
    // SAFETY: `from` has `len` bytes in one piece, and the part ends within them.
    let first = unsafe { from.first.add(offset) };
    let new = state.lend(Lent { first, len, dtype, dims });
    state.aliases.push((source, offset as u64));
    // SAFETY: the SDK passes a variable.
    unsafe { *id = new };
    abi::OK
}

unsafe extern "C" fn artifact(
    job: *const abi::Job,
    name: abi::Str,
    _: abi::Str,
    data: abi::Str,
) -> abi::Status {
    // SAFETY: the SDK lends name and bytes for the call; both are copied.
    let (name, data) = unsafe { (text(name), data.as_bytes().to_vec()) };
    // SAFETY: this table is only ever given jobs of its hosts.
    unsafe { host(job) }.state().artifacts.insert(name, data);
    abi::OK
}

pub(crate) static TABLE: abi::Host = abi::Host {
    struct_size: size_of::<abi::Host>() as u32,
    abi_major: abi::ABI_MAJOR,
    abi_minor: abi::ABI_MINOR,
    log: Some(log),
    progress: Some(progress),
    submission: Some(submission),
    input_map: Some(input_map),
    graph_get: Some(graph_get),
    graph_put: Some(graph_put),
    tensor_get: Some(tensor_get),
    tensor_new: Some(tensor_new),
    tensor_seal: Some(tensor_seal),
    tensor_alias: Some(tensor_alias),
    artifact: Some(artifact),
    metric: None,
    run_model: None,
    extension: None,
    input_unmap: Some(input_unmap),
    progress_about: Some(progress_about),
    tensor_derive: None,
    tensor_derivation: None,
};
