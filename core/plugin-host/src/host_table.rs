//! The functions that the host offers to plugins, over the call in progress.
//!
//! Everything a plugin passes is checked before it is used; nonsense gives a status and a log line.
//! What cannot be checked is whether a pointer points to what it claims: a worker may crash there.

use crate::Refusal;
use crate::context::{ABOUT_BYTES_MAX, Artifact, HostCall, HostEvent, find};
use crate::files;
use bytes::Bytes;
use onnxd_diagnostics::refuse;
use onnxd_plugin_abi as abi;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// Largest encoded graph, in bytes; weights are not part of it.
const GRAPH_BYTES_MAX: usize = 1 << 30;
/// Largest sum of the messages that a call hands over, and largest file, in bytes.
const ARTIFACT_BYTES_MAX: usize = 256 << 20;
/// Most metrics of a job.
const METRICS_MAX: usize = 10_000;
/// Longest name of an artifact, metric, input or media type, in bytes.
const NAME_BYTES_MAX: usize = 4096;

const RESERVED: [&str; 5] = [
    abi::ARTIFACT_PROBE,
    abi::ARTIFACT_PASS_LOG,
    abi::ARTIFACT_QUANTIZE_LOG,
    abi::ARTIFACT_IMPORT_LOG,
    abi::ARTIFACT_DIAGNOSTICS,
];

/// The host's table, the same for every plugin and call.
pub(crate) static HOST: abi::Host = abi::Host {
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
    metric: Some(metric),
    run_model: Some(run_model),
    extension: Some(extension),
    input_unmap: Some(input_unmap),
    progress_about: Some(progress_about),
    tensor_derive: Some(derived::tensor_derive),
    tensor_derivation: Some(derived::tensor_derivation),
};

/// Runs one function of the table: finds the call, catches panics, logs a refusal.
fn serve(
    job: *const abi::Job,
    function: &str,
    work: impl FnOnce(&HostCall) -> Result<(), Refusal>,
) -> abi::Status {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let Some(call) = find(job) else { return abi::INVALID };
        match work(&call) {
            Ok(()) => abi::OK,
            Err(refusal) if refusal.text.is_empty() => refusal.status,
            Err(refusal) => {
                let text = format!("{function} refused: {}", refusal.text);
                call.log(abi::LOG_WARN, "onnxd.host", &text);
                refusal.status
            }
        }
    }));
    outcome.unwrap_or(abi::INTERNAL)
}

/// The bytes a plugin passed.
///
/// # Safety
/// As the ABI demands: `s` points to `len` readable bytes.
unsafe fn bytes<'a>(s: abi::Str, what: &str, bytes_max: usize) -> Result<&'a [u8], Refusal> {
    refuse!(s.len > bytes_max => Refusal::invalid(format!("{what} has {} bytes, limit {bytes_max}", s.len)));
    refuse!(s.ptr.is_null() && s.len > 0 => Refusal::invalid(format!("{what} is a null pointer")));
    // SAFETY: null only if it is empty; `len` bytes are readable as the caller promises.
    Ok(unsafe { s.as_bytes() })
}

/// The text a plugin passed.
///
/// # Safety
/// See [`bytes()`].
unsafe fn text<'a>(s: abi::Str, what: &str, bytes_max: usize) -> Result<&'a str, Refusal> {
    // SAFETY: the caller promises of `s` what `bytes` asks.
    let bytes = unsafe { bytes(s, what, bytes_max) }?;
    std::str::from_utf8(bytes).map_err(|_| Refusal::invalid(format!("{what} is not UTF-8")))
}

/// The first bytes of the text that a plugin passed, at a character's end; the others are not looked at.
///
/// # Safety
/// See [`bytes()`].
unsafe fn beginning<'a>(s: abi::Str, what: &str, bytes_max: usize) -> Result<&'a str, Refusal> {
    let part = abi::Str { len: s.len.min(bytes_max), ..s };
    // SAFETY: the caller promises `s.len` readable bytes; `part` is the beginning of them.
    let bytes = unsafe { bytes(part, what, bytes_max) }?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(e) if part.len < s.len && e.error_len().is_none() => {
            Ok(std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or_default())
        }
        Err(_) => Err(Refusal::invalid(format!("{what} is not UTF-8"))),
    }
}

/// Writes a result through a plugin's pointer.
///
/// # Safety
/// `out` is null or writable.
unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Refusal> {
    refuse!(out.is_null() => Refusal::invalid("the result's pointer is null"));
    // SAFETY: not null, so that it is writable as the caller promises; no alignment is assumed.
    // What was there is plain data of the plugin's, which needs no drop.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// Refuses a struct that is null or shorter than in version 1.0.
///
/// # Safety
/// `pointer` is null or begins with a readable `struct_size`.
unsafe fn sized<T>(pointer: *const T, what: &str) -> Result<u32, Refusal> {
    refuse!(pointer.is_null() => Refusal::invalid(format!("the {what} is a null pointer")));
    // SAFETY: not null, so that it begins with a readable size as the caller promises; no alignment
    // is assumed.
    let found = unsafe { pointer.cast::<u32>().read_unaligned() };
    let expected = size_of::<T>();
    refuse!((found as usize) < expected =>
        Refusal::invalid(format!("struct_size of the {what} is {found}, expected at least {expected}")));
    Ok(found)
}

/// A tensor's description as a plugin passed it: dtype and dims.
///
/// # Safety
/// `desc` is null or readable, and so are its dims.
unsafe fn described(desc: *const abi::Tensor) -> Result<(i32, Vec<i64>), Refusal> {
    // SAFETY: null, or a description that begins with its size, as the caller promises.
    unsafe { sized(desc, "description") }?;
    // SAFETY: `sized` saw that it is not null and at least as long as ours; readable as the caller
    // promises. Any bits are numbers and pointers.
    let desc = unsafe { desc.read_unaligned() };
    let dtype = i32::try_from(desc.dtype)
        .map_err(|_| Refusal::invalid(format!("data type {} is unknown", desc.dtype)))?;
    if desc.rank > abi::RANK_MAX {
        let (rank, max) = (desc.rank, abi::RANK_MAX);
        return Err(Refusal::invalid(format!("rank {rank} is above {max}")));
    }
    refuse!(desc.dims.is_null() && desc.rank > 0 => Refusal::invalid("dims is a null pointer"));
    let dims: Vec<i64> = (0..desc.rank as usize)
        // SAFETY: `rank` sizes are readable as the caller promises; no alignment is assumed.
        .map(|i| unsafe { desc.dims.add(i).read_unaligned() })
        .collect();
    let expected = crate::element::tensor_bytes(dtype, &dims)?;
    if desc.nbytes != 0 && desc.nbytes != expected {
        let found = desc.nbytes;
        return Err(Refusal::invalid(format!(
            "nbytes is {found}, dtype {dtype} and dims {dims:?} come to {expected}"
        )));
    }
    Ok((dtype, dims))
}

unsafe extern "C" fn log(job: *const abi::Job, level: i32, target: abi::Str, line: abi::Str) {
    serve(job, "log", |call| {
        // SAFETY: the plugin lends `target` until this function returns.
        let target = String::from_utf8_lossy(unsafe { bytes(target, "target", NAME_BYTES_MAX) }?);
        // SAFETY: the plugin lends `line` until this function returns.
        let line = String::from_utf8_lossy(unsafe { bytes(line, "message", 1 << 20) }?);
        call.log(level.clamp(abi::LOG_ERROR, abi::LOG_TRACE), &target, &line);
        Ok(())
    });
}

unsafe extern "C" fn progress(job: *const abi::Job, done: u64, total: u64) -> abi::Status {
    serve(job, "progress", |call| went_on(call, done, total, String::new()))
}

unsafe extern "C" fn progress_about(
    job: *const abi::Job,
    done: u64,
    total: u64,
    about: abi::Str,
) -> abi::Status {
    serve(job, "progress_about", |call| {
        // SAFETY: the plugin lends `about` until this function returns; `went_on` gets a copy.
        let about = unsafe { beginning(about, "text", ABOUT_BYTES_MAX) }?;
        went_on(call, done, total, about.to_owned())
    })
}

/// Passes progress on, and tells of cancellation.
fn went_on(call: &HostCall, done: u64, total: u64, about: String) -> Result<(), Refusal> {
    call.emit(HostEvent::Progress { done, total, about });
    // What was read since is not read any more.
    call.tensors.release_inputs();
    refuse!(call.cancel.load(Ordering::Relaxed) => Refusal::new(abi::CANCELLED, ""));
    Ok(())
}

unsafe extern "C" fn submission(job: *const abi::Job, out: *mut abi::Str) -> abi::Status {
    serve(job, "submission", |call| {
        call.own_thread()?;
        // SAFETY: `out` is null or has room for a `Str`. The view lasts as long as promised: the
        // context owns the call, and so the submission, and outlives `run`.
        unsafe { put(out, abi::Str::of(&call.submission)) }
    })
}

unsafe extern "C" fn input_map(
    job: *const abi::Job,
    name: abi::Str,
    out: *mut abi::Bytes,
) -> abi::Status {
    serve(job, "input_map", |call| {
        call.own_thread()?;
        // SAFETY: the plugin lends `name` until this function returns.
        let name = unsafe { text(name, "name", NAME_BYTES_MAX) }?;
        // SAFETY: `out` is null or a `Bytes` of the plugin's with its size set.
        let struct_size = unsafe { sized(out, "result") }?;
        let path = call.inputs.get(name).ok_or_else(|| {
            Refusal::invalid(format!("the submission has no file `{}`", name.escape_debug()))
        })?;
        let id = call.tensors.map_file(path)?;
        call.state().mapped.insert(name.to_owned());
        let bytes = call.tensors.bytes(id).unwrap_or_default();
        let view =
            abi::Bytes { struct_size, reserved: 0, ptr: bytes.as_ptr(), len: bytes.len(), id };
        // SAFETY: `sized` saw that there is room for the view. The table keeps the map until the
        // plugin gives it back or the worker ends.
        unsafe { put(out, view) }
    })
}

unsafe extern "C" fn input_unmap(job: *const abi::Job, id: u64) -> abi::Status {
    serve(job, "input_unmap", |call| {
        call.own_thread()?;
        call.tensors.unmap_file(id)
    })
}

unsafe extern "C" fn graph_get(job: *const abi::Job, out: *mut abi::Str) -> abi::Status {
    serve(job, "graph_get", |call| {
        call.own_thread()?;
        let graph = call.state().graph_in.clone();
        let graph = graph.ok_or_else(|| Refusal::new(abi::UNSUPPORTED, "the job has no graph"))?;
        // SAFETY: `out` is null or has room for a `Str`. The context keeps the graph until the call
        // is over, so the view outlives this clone.
        unsafe { put(out, abi::Str::of(&graph)) }
    })
}

unsafe extern "C" fn graph_put(job: *const abi::Job, model: abi::Str) -> abi::Status {
    serve(job, "graph_put", |call| {
        call.own_thread()?;
        // SAFETY: the plugin lends `model` until this function returns; a copy is kept.
        let model = unsafe { bytes(model, "graph", GRAPH_BYTES_MAX) }?;
        call.state().graph_out = Some(copied(model)?);
        Ok(())
    })
}

unsafe extern "C" fn tensor_get(
    job: *const abi::Job,
    id: u64,
    out: *mut abi::Tensor,
) -> abi::Status {
    serve(job, "tensor_get", |call| {
        // SAFETY: `out` is null or a `Tensor` of the plugin's with its size set.
        let struct_size = unsafe { sized(out, "result") }?;
        let array = match call.tensors.derived(id) {
            Some(derived) => Some(call.tensors.computed(id, &derived)?),
            None => call.tensors.get(id),
        };
        let array =
            array.ok_or_else(|| Refusal::invalid(format!("no sealed tensor has the id {id}")))?;
        let data = array.bytes.as_ptr();
        let aligned = (data as usize).is_multiple_of(64);
        let view = abi::Tensor {
            struct_size,
            dtype: array.dtype.unsigned_abs(),
            rank: array.dims.len() as u32,
            flags: if aligned { abi::TENSOR_ALIGNED_64 } else { 0 },
            dims: array.dims.as_ptr(),
            data: data.cast(),
            nbytes: array.bytes.len() as u64,
        };
        // SAFETY: `sized` saw that there is room for the view. The table keeps sealed tensors as
        // long as the worker lives, and computed ones until no call is running (`TensorTable::lend`).
        unsafe { put(out, view) }
    })
}

unsafe extern "C" fn tensor_new(
    job: *const abi::Job,
    desc: *const abi::Tensor,
    id: *mut u64,
    data: *mut *mut std::ffi::c_void,
) -> abi::Status {
    serve(job, "tensor_new", |call| {
        refuse!(id.is_null() || data.is_null() => Refusal::invalid("the result's pointer is null"));
        // SAFETY: the plugin lends the description and its dims until this function returns.
        let (dtype, dims) = unsafe { described(desc) }?;
        let (new, first) = call.tensors.create(dtype, &dims)?;
        // SAFETY: not null, as was seen above, and a place of the plugin's for an id.
        unsafe { put(id, new) }?;
        // SAFETY: the same for an address. The memory stays where it is when it is sealed.
        unsafe { put(data, first.cast()) }
    })
}

unsafe extern "C" fn tensor_seal(job: *const abi::Job, id: u64) -> abi::Status {
    serve(job, "tensor_seal", |call| call.tensors.seal(id))
}

unsafe extern "C" fn tensor_alias(
    job: *const abi::Job,
    source: u64,
    byte_offset: u64,
    desc: *const abi::Tensor,
    id: *mut u64,
) -> abi::Status {
    serve(job, "tensor_alias", |call| {
        refuse!(id.is_null() => Refusal::invalid("the result's pointer is null"));
        // SAFETY: the plugin lends the description and its dims until this function returns.
        let (dtype, dims) = unsafe { described(desc) }?;
        let new = call.tensors.alias(source, byte_offset, dtype, &dims)?;
        // SAFETY: not null, as was seen above, and a place of the plugin's for an id.
        unsafe { put(id, new) }
    })
}

unsafe extern "C" fn artifact(
    job: *const abi::Job,
    name: abi::Str,
    mime: abi::Str,
    data: abi::Str,
) -> abi::Status {
    serve(job, "artifact", |call| {
        call.own_thread()?;
        // SAFETY: the plugin lends `name` until this function returns.
        let name = unsafe { text(name, "name", NAME_BYTES_MAX) }?;
        // SAFETY: it lends `mime` as long.
        let mime = unsafe { text(mime, "media type", NAME_BYTES_MAX) }?;
        // SAFETY: it lends `data` as long; what is kept of it is a copy or in a file.
        let data = unsafe { bytes(data, "artifact", ARTIFACT_BYTES_MAX) }?;
        if !is_artifact_name(name) {
            let shown = name.escape_debug();
            return Err(Refusal::invalid(format!("`{shown}` is not a name for an artifact")));
        }
        let mut state = call.state();
        if !RESERVED.contains(&name) {
            return state.files.put(call.outputs.as_ref(), name, data);
        }
        let others = state.artifacts.iter().filter(|(other, _)| *other != name);
        let sum = others.fold(data.len(), |sum, (_, a)| sum + a.data.len());
        refuse!(sum > ARTIFACT_BYTES_MAX => Refusal::invalid(format!("artifacts exceed {ARTIFACT_BYTES_MAX} bytes")));
        let artifact = Artifact { mime: mime.to_owned(), data: copied(data)? };
        state.artifacts.insert(name.to_owned(), artifact);
        Ok(())
    })
}

unsafe extern "C" fn metric(job: *const abi::Job, key: abi::Str, value: f64) -> abi::Status {
    serve(job, "metric", |call| {
        // SAFETY: the plugin lends `key` until this function returns.
        let key = unsafe { text(key, "key", NAME_BYTES_MAX) }?;
        let mut state = call.state();
        refuse!(state.metrics.len() >= METRICS_MAX && !state.metrics.contains_key(key) =>
            Refusal::invalid(format!("more than {METRICS_MAX} metrics")));
        state.metrics.insert(key.to_owned(), value);
        Ok(())
    })
}

unsafe extern "C" fn run_model(job: *const abi::Job, _run: *const abi::Run) -> abi::Status {
    serve(job, "run_model", |_| {
        Err(Refusal::new(abi::UNSUPPORTED, "this host offers no executor to plugins"))
    })
}

unsafe extern "C" fn extension(_name: abi::Str) -> *const std::ffi::c_void {
    std::ptr::null()
}

fn is_artifact_name(name: &str) -> bool {
    match name.starts_with("onnxd.") {
        true => RESERVED.contains(&name),
        false => files::is_name(name),
    }
}

fn copied(data: &[u8]) -> Result<Bytes, Refusal> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(data.len()).map_err(|_| Refusal::out_of_memory(data.len() as u64))?;
    copy.extend_from_slice(data);
    Ok(copy.into())
}

mod derived;
#[cfg(test)]
mod tests;
