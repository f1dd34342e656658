//! The functions behind a plugin's table: each catches panics, turns errors into statuses, and frees what it made.

use crate::component::Component;
use crate::diagnostics::{Class, Code, Diagnostic, Diagnostics};
use crate::frontend::Frontend;
use crate::host::{self, JobHandle};
use crate::messages;
use crate::quantizer::{QuantizeContext, Quantizer};
use crate::rewrite::{Fuel, Pass, run_passes};
use crate::submission::Submission;
use crate::tensors::{HostTensors, hand_over};
use onnxd_plugin_abi as abi;
use onnxd_proto::onnxd as message;
use prost::Message;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Instant;

/// What [`crate::export_plugin!`] says about a plugin.
pub trait Definition {
    /// Everything it provides.
    fn components() -> Vec<Component>;
}

enum Instance {
    Frontend(Box<dyn Frontend>),
    Passes { passes: Vec<Box<dyn Pass>>, rewrites_max: u64 },
    Quantizer(Box<dyn Quantizer>),
}

/// Keeps the host's table and returns the plugin's.
///
/// # Safety
/// `host` is null or points to a host table that lives as long as the process.
pub unsafe fn entry(host: *const abi::Host, plugin: &'static abi::Plugin) -> *const abi::Plugin {
    remember_places();
    // SAFETY: as the caller promises.
    match unsafe { host::install(host) } {
        true => plugin,
        false => std::ptr::null(),
    }
}

/// # Safety
/// As documented for [`abi::Plugin::create`].
pub unsafe extern "C" fn create<D: Definition>(
    kind: abi::Str,
    params_json: abi::Str,
    inst: *mut *mut c_void,
    err: *mut abi::ErrorBuffer,
) -> abi::Status {
    let made = catch_unwind(|| {
        // SAFETY: the host lends both strings for the duration of the call.
        let (kind, params) = unsafe { (kind.as_bytes(), params_json.as_bytes()) };
        let kind = std::str::from_utf8(kind).map_err(|e| contract(format!("kind: {e}")))?;
        let params: Value = match params {
            [] => Value::Null,
            json => serde_json::from_slice(json).map_err(|e| contract(format!("params: {e}")))?,
        };
        instance::<D>(kind, &params)
    });
    match made {
        Ok(Ok(instance)) if !inst.is_null() => {
            // SAFETY: the host gives a writable place.
            unsafe { *inst = Box::into_raw(Box::new(instance)).cast() };
            abi::OK
        }
        Ok(Ok(_)) => abi::INVALID,
        Ok(Err(diagnostic)) => fail(err, &diagnostic.into()),
        Err(panic) => panicked(err, panic.as_ref()),
    }
}

/// # Safety
/// As documented for [`abi::Plugin::run`].
pub unsafe extern "C" fn run(
    inst: *mut c_void,
    job: *const abi::Job,
    err: *mut abi::ErrorBuffer,
) -> abi::Status {
    // SAFETY: the host passes what `create` made, and a job that is alive.
    unsafe {
        call(inst, job, err, |instance, job| match instance {
            Instance::Frontend(frontend) => import(frontend.as_ref(), job),
            Instance::Passes { passes, rewrites_max } => rewrite(passes, *rewrites_max, &job),
            Instance::Quantizer(quantizer) => quantize(quantizer.as_mut(), job),
        })
    }
}

/// # Safety
/// As documented for [`abi::ProbeExtension::probe`].
unsafe extern "C" fn probe(
    inst: *mut c_void,
    job: *const abi::Job,
    err: *mut abi::ErrorBuffer,
) -> abi::Status {
    // SAFETY: as for `run`.
    unsafe {
        call(inst, job, err, |instance, job| match instance {
            Instance::Frontend(frontend) => {
                let submission = submission(job)?;
                let answer = messages::probe(frontend.probe(&submission)?);
                submission.job().artifact(abi::ARTIFACT_PROBE, &answer.encode_to_vec())?;
                Ok(())
            }
            _ => Err(contract("only front-ends have a probe".into()).into()),
        })
    }
}

/// # Safety
/// `inst` was made by `create` and is not used any more.
pub unsafe extern "C" fn destroy(inst: *mut c_void) {
    if !inst.is_null() {
        // SAFETY: `create` made it from a box; a panic in a destructor must not cross.
        let _ = catch_unwind(AssertUnwindSafe(|| unsafe {
            drop(Box::from_raw(inst.cast::<Instance>()));
        }));
    }
}

/// # Safety
/// `name` is readable during the call.
pub unsafe extern "C" fn extension(name: abi::Str) -> *const c_void {
    static PROBE: abi::ProbeExtension = abi::ProbeExtension {
        struct_size: size_of::<abi::ProbeExtension>() as u32,
        reserved: 0,
        probe: Some(probe),
    };
    // SAFETY: as the caller promises.
    match unsafe { name.as_bytes() } == abi::EXTENSION_PROBE.as_bytes() {
        true => (&raw const PROBE).cast(),
        false => std::ptr::null(),
    }
}

/// # Safety
/// `inst` was made by `create`; `job` is alive.
unsafe fn call(
    inst: *mut c_void,
    job: *const abi::Job,
    err: *mut abi::ErrorBuffer,
    f: impl FnOnce(&mut Instance, JobHandle) -> Result<(), Diagnostics>,
) -> abi::Status {
    if inst.is_null() || job.is_null() {
        return abi::INVALID;
    }
    // SAFETY: as the caller promises; one thread at a time uses an instance.
    let instance = unsafe { &mut *inst.cast::<Instance>() };
    let handle = JobHandle::new(job);
    let views = handle.views();
    let mut outcome = catch_unwind(AssertUnwindSafe(|| f(instance, handle)));
    if Arc::strong_count(&views) > 1 && outcome.is_ok() {
        let text = "the plugin keeps data of the host beyond the call".to_owned();
        outcome = Ok(Err(contract(text).into()));
    }
    match outcome {
        Ok(Ok(())) => abi::OK,
        Ok(Err(found)) => {
            let reporter = JobHandle::new(job);
            let items = found.0.iter().map(|d| messages::diagnostic(d, "error")).collect();
            let bytes = message::Diagnostics { items }.encode_to_vec();
            let _ = reporter.artifact(abi::ARTIFACT_DIAGNOSTICS, &bytes);
            match reporter.progress(0, 0, "") {
                Err(_) => abi::CANCELLED,
                Ok(()) => fail(err, &found),
            }
        }
        Err(panic) => panicked(err, panic.as_ref()),
    }
}

fn instance<D: Definition>(kind: &str, params: &Value) -> Result<Instance, Diagnostic> {
    let components = D::components();
    if let Some(wanted) = kind.strip_prefix("frontend/") {
        return components
            .iter()
            .find_map(|c| match c {
                Component::Frontend { id, make } if *id == wanted => Some(make()),
                _ => None,
            })
            .map(Instance::Frontend)
            .ok_or_else(|| contract(format!("no front-end `{wanted}` in this plugin")));
    }
    if let Some(wanted) = kind.strip_prefix("quantizer/") {
        return components
            .iter()
            .find_map(|c| match c {
                Component::Quantizer { id, make } if *id == wanted => Some(make()),
                _ => None,
            })
            .map(Instance::Quantizer)
            .ok_or_else(|| contract(format!("no quantizer `{wanted}` in this plugin")));
    }
    if kind != "pass" {
        return Err(contract(format!("no component of kind `{kind}` in this plugin")));
    }
    let listed = params["passes"].as_array().ok_or_else(|| contract("no list of passes".into()))?;
    let passes = listed.iter().map(|entry| pass(&components, entry)).collect::<Result<_, _>>()?;
    Ok(Instance::Passes { passes, rewrites_max: params["rewrites_max"].as_u64().unwrap_or(0) })
}

fn pass(components: &[Component], entry: &Value) -> Result<Box<dyn Pass>, Diagnostic> {
    let wanted = entry["id"].as_str().unwrap_or_default();
    match &entry["options"] {
        Value::Null => {}
        Value::Object(options) => {
            if let Some(option) = options.keys().next() {
                return Err(contract(format!("pass `{wanted}` has no option `{option}`")));
            }
        }
        other => return Err(contract(format!("options of pass `{wanted}` are {other}"))),
    }
    components
        .iter()
        .find_map(|c| match c {
            Component::Pass { id, make } if *id == wanted => Some(make()),
            _ => None,
        })
        .ok_or_else(|| contract(format!("no pass `{wanted}` in this plugin")))
}

fn submission(job: JobHandle) -> Result<Submission, Diagnostic> {
    let bytes = job.submission()?;
    let decoded = message::Submission::decode(bytes);
    Submission::new(job, decoded.map_err(|e| contract(format!("submission: {e}")))?)
}

fn import(frontend: &dyn Frontend, job: JobHandle) -> Result<(), Diagnostics> {
    let submission = submission(job)?;
    let mut imported = frontend.import(&submission)?;
    // Passes and quantizers find these facts in the model.
    for (key, value) in &imported.metadata {
        imported.model.set_metadata(&format!("onnxd.{key}"), value.clone());
    }
    let job = submission.job();
    hand_over(&mut imported.model, job)?;
    job.put_graph(&onnxd_onnx::encode_to_bytes(&imported.model, &mut HostTensors(job))?)?;
    let log = message::ImportLog {
        notes: imported.notes.iter().map(|d| messages::diagnostic(d, "warning")).collect(),
        metadata: imported.metadata.into_iter().collect(),
        params_read: Some(submission.params_read(&BTreeSet::new())),
    };
    Ok(job.artifact(abi::ARTIFACT_IMPORT_LOG, &log.encode_to_vec())?)
}

fn rewrite(
    passes: &[Box<dyn Pass>],
    rewrites_max: u64,
    job: &JobHandle,
) -> Result<(), Diagnostics> {
    let mut model = onnxd_onnx::decode(job.graph()?, &mut HostTensors(job))?.model;
    let passes: Vec<&dyn Pass> = passes.iter().map(AsRef::as_ref).collect();
    // Passes see no params.
    let params_read = Some(message::ParamsRead::default());
    let mut log = message::PassLog { params_read, ..message::PassLog::default() };
    let mut started = Instant::now();
    let works_on = |at: usize| job.progress(0, 0, passes.get(at).map_or("", |pass| pass.name()));
    works_on(0)?;
    run_passes(&mut model, &passes, Fuel::limited(rewrites_max), &mut |report, _| {
        log.passes.push(messages::pass(report, started.elapsed().as_secs_f64()));
        started = Instant::now();
        works_on(log.passes.len())
    })?;
    if log.passes.iter().any(|p| p.rewrites > 0) {
        hand_over(&mut model, job)?;
        job.put_graph(&onnxd_onnx::encode_to_bytes(&model, &mut HostTensors(job))?)?;
    }
    Ok(job.artifact(abi::ARTIFACT_PASS_LOG, &log.encode_to_vec())?)
}

fn quantize(quantizer: &mut dyn Quantizer, job: JobHandle) -> Result<(), Diagnostics> {
    let submission = submission(job)?;
    let graph = submission.job().graph()?;
    let mut model = onnxd_onnx::decode(graph, &mut HostTensors(submission.job()))?.model;
    // Contradictions are the host's to report.
    let _ = onnxd_ir::infer::infer(&mut model);
    let mut cx = QuantizeContext::new(submission, &model)?;
    keep_freed_memory();
    quantizer.quantize(&mut model, &mut cx)?;
    give_back_freed_memory();
    let job = cx.submission().job();
    hand_over(&mut model, job)?;
    job.put_graph(&onnxd_onnx::encode_to_bytes(&model, &mut HostTensors(job))?)?;
    Ok(job.artifact(abi::ARTIFACT_QUANTIZE_LOG, &messages::quantized(&cx).encode_to_vec())?)
}

/// Lets the allocator keep what is freed, up to some: running a model on samples frees and takes
/// tensors all the time, and new pages from the kernel took an eighth of a transformer's time.
fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: these change only how the allocator grows and shrinks.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 32 << 20);
    }
}

/// Running a model on samples leaves freed memory behind, beside which the result is copied.
fn give_back_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the allocator returns pages that nothing lies in.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn contract(message: String) -> Diagnostic {
    Diagnostic::new(Code::PluginContract, message)
}

/// Writes the findings into the host's buffer and chooses the status.
fn fail(err: *mut abi::ErrorBuffer, found: &Diagnostics) -> abi::Status {
    write(err, &found.to_string());
    let has = |code: Code| found.0.iter().any(|d| d.code == code.as_str());
    match found.class() {
        Class::Input => abi::INVALID,
        Class::Unsupported => abi::UNSUPPORTED,
        Class::Environment if has(Code::OutOfMemory) => abi::OUT_OF_MEMORY,
        Class::Environment => abi::IO,
        Class::Internal if has(Code::PluginContract) => abi::INVALID,
        Class::Internal => abi::INTERNAL,
    }
}

/// Where the last panic began, as only the hook is told.
static PANICKED_AT: Mutex<Option<String>> = Mutex::new(None);

/// Has every panic of this plugin, in any thread, leave its place; the library has a hook of its own.
fn remember_places() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let mut place = PANICKED_AT.lock().unwrap_or_else(PoisonError::into_inner);
            *place = info.location().map(ToString::to_string);
            drop(place);
            before(info);
        }));
    });
}

fn panicked(err: *mut abi::ErrorBuffer, panic: &(dyn std::any::Any + Send)) -> abi::Status {
    let place = PANICKED_AT.lock().unwrap_or_else(PoisonError::into_inner).take();
    let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    write(err, &format!("panic{place}: {text}"));
    abi::INTERNAL
}

fn write(err: *mut abi::ErrorBuffer, text: &str) {
    // SAFETY: the buffer is null or the host's, with `cap` writable bytes.
    let Some(buffer) = (unsafe { err.as_mut() }) else { return };
    if buffer.ptr.is_null() {
        return;
    }
    let mut len = text.len().min(buffer.cap);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    // SAFETY: `len` is at most `cap`.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.ptr.cast(), len) };
    buffer.len = len;
}

#[cfg(test)]
mod tests;
