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
pub(super) struct TestHost {
    job: abi::Job,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) submission: Vec<u8>,
    pub(super) files: BTreeMap<String, Bytes>,
    pub(super) graph: Bytes,
    pub(super) artifacts: BTreeMap<String, Vec<u8>>,
    pub(super) logged: Vec<String>,
    /// What was mapped and made, by id.
    lent: BTreeMap<u64, Lent>,
    last: u64,
}

#[derive(Clone, Copy)]
struct Lent {
    first: *const u8,
    len: usize,
    /// Element type and sizes, of tensors.
    dtype: u32,
    dims: &'static [i64],
}

// SAFETY: the memory is leaked, and is written only before it is sealed.
unsafe impl Send for Lent {}

impl State {
    fn lend(&mut self, lent: Lent) -> u64 {
        self.last += 1;
        self.lent.insert(self.last, lent);
        self.last
    }
}

impl TestHost {
    /// A host of these files, which say what `submission` is.
    pub(super) fn new(submission: Vec<u8>, files: BTreeMap<String, Bytes>) -> &'static TestHost {
        let job = abi::Job { struct_size: size_of::<abi::Job>() as u32, threads: 1 };
        let state = Mutex::new(State { submission, files, ..State::default() });
        Box::leak(Box::new(TestHost { job, state }))
    }

    pub(super) fn job(&'static self) -> *const abi::Job {
        (&raw const *self).cast()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Zeroed bytes that belong to the test from now on, aligned for every type.
fn allocated(len: usize) -> *mut u8 {
    vec![0u64; len.div_ceil(size_of::<u64>()).max(1)].leak().as_mut_ptr().cast()
}

/// # Safety
/// `desc` points to a description with as many sizes as it says.
unsafe fn shape(desc: *const abi::Tensor) -> (u32, &'static [i64]) {
    // SAFETY: as the caller promises.
    let (dtype, dims, rank) = unsafe { ((*desc).dtype, (*desc).dims, (*desc).rank as usize) };
    let dims = match rank {
        0 => Vec::new(),
        _ => unsafe { std::slice::from_raw_parts(dims, rank) }.to_vec(),
    };
    (dtype, dims.leak())
}

/// # Safety
/// `job` is one of [`TestHost::job`].
unsafe fn host(job: *const abi::Job) -> &'static TestHost {
    // SAFETY: as the caller promises; hosts are never freed, and the job comes first.
    unsafe { &*job.cast::<TestHost>() }
}

/// A text of the plugin.
fn text(from: abi::Str) -> String {
    // SAFETY: the SDK passes texts that last as long as the call.
    String::from_utf8_lossy(unsafe { from.as_bytes() }).into_owned()
}

unsafe extern "C" fn log(job: *const abi::Job, level: i32, part: abi::Str, said: abi::Str) {
    let word = match level {
        abi::LOG_ERROR => "error",
        abi::LOG_WARN => "warning",
        abi::LOG_INFO => "info",
        _ => "debug",
    };
    let line = format!("{word}: {}: {}", text(part), text(said));
    // SAFETY: see `host`; so in every function below.
    unsafe { host(job) }.state().logged.push(line);
}

unsafe extern "C" fn progress(_: *const abi::Job, _: u64, _: u64) -> abi::Status {
    abi::OK
}

unsafe extern "C" fn submission(job: *const abi::Job, out: *mut abi::Str) -> abi::Status {
    let bytes: &'static [u8] = unsafe { host(job) }.state().submission.clone().leak();
    unsafe { *out = abi::Str::of(bytes) };
    abi::OK
}

unsafe extern "C" fn input_map(
    job: *const abi::Job,
    name: abi::Str,
    out: *mut abi::Bytes,
) -> abi::Status {
    let mut state = unsafe { host(job) }.state();
    let Some(bytes) = state.files.get(&text(name)).cloned() else { return abi::INVALID };
    // Aligned as a mapped file is.
    let (first, len) = (allocated(bytes.len()), bytes.len());
    let id = state.lend(Lent { first, len, dtype: 0, dims: &[] });
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), first, bytes.len());
        ((*out).ptr, (*out).len, (*out).id) = (first, bytes.len(), id);
    }
    abi::OK
}

unsafe extern "C" fn input_unmap(job: *const abi::Job, id: u64) -> abi::Status {
    match unsafe { host(job) }.state().lent.remove(&id) {
        Some(_) => abi::OK,
        None => abi::INVALID,
    }
}

unsafe extern "C" fn graph_get(job: *const abi::Job, out: *mut abi::Str) -> abi::Status {
    let bytes: &'static [u8] = unsafe { host(job) }.state().graph.to_vec().leak();
    unsafe { *out = abi::Str::of(bytes) };
    abi::OK
}

unsafe extern "C" fn graph_put(job: *const abi::Job, model: abi::Str) -> abi::Status {
    let bytes = Bytes::copy_from_slice(unsafe { model.as_bytes() });
    unsafe { host(job) }.state().graph = bytes;
    abi::OK
}

unsafe extern "C" fn tensor_get(
    job: *const abi::Job,
    id: u64,
    out: *mut abi::Tensor,
) -> abi::Status {
    let Some(lent) = unsafe { host(job) }.state().lent.get(&id).copied() else {
        return abi::INVALID;
    };
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
    let ((dtype, dims), len) = unsafe { (shape(desc), (*desc).nbytes as usize) };
    let first = allocated(len);
    let new = unsafe { host(job) }.state().lend(Lent { first, len, dtype, dims });
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
    let mut state = unsafe { host(job) }.state();
    let Some(from) = state.lent.get(&source).copied() else { return abi::INVALID };
    let (dtype, dims) = unsafe { shape(desc) };
    let elements: usize = dims.iter().map(|dim| *dim as usize).product();
    let known = crate::ir::DataType::from_number(dtype as i32);
    let Some(len) = known.and_then(|known| known.byte_len(elements)) else { return abi::INVALID };
    let offset = offset as usize;
    if offset + len > from.len {
        return abi::INVALID;
    }
    // SAFETY: the part lies in what was lent.
    let first = unsafe { from.first.add(offset) };
    let new = state.lend(Lent { first, len, dtype, dims });
    unsafe { *id = new };
    abi::OK
}

unsafe extern "C" fn artifact(
    job: *const abi::Job,
    name: abi::Str,
    _: abi::Str,
    data: abi::Str,
) -> abi::Status {
    let data = unsafe { data.as_bytes() }.to_vec();
    unsafe { host(job) }.state().artifacts.insert(text(name), data);
    abi::OK
}

pub(super) static TABLE: abi::Host = abi::Host {
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
    progress_about: None,
    tensor_derive: None,
    tensor_derivation: None,
};
