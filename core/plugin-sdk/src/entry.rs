//! The functions behind a plugin's table: each catches panics, turns errors into statuses, and frees what it made.

use crate::component::{Component, Instance, instance};
use crate::contract::contract;
use crate::diagnostics::{Class, Code, Diagnostics};
use crate::host::{self, JobHandle};
use onnxd_plugin_abi as abi;
use onnxd_proto::onnxd as message;
use prost::Message;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Once, PoisonError};

/// What [`crate::export_plugin!`] says about a plugin.
pub trait Definition {
    /// Everything it provides.
    fn components() -> Vec<Component>;
}

/// Keeps the host's table and returns the plugin's.
///
/// # Safety
/// `host` is null or points to a host table that lives as long as the process.
pub unsafe fn entry(host: *const abi::Host, plugin: &'static abi::Plugin) -> *const abi::Plugin {
    remember_places();
    // SAFETY: null, or a table that begins with its size and has as many readable bytes, as the caller
    // promises.
    match unsafe { host::install(host) } {
        true => plugin,
        false => std::ptr::null(),
    }
}

/// Makes an instance of components.
///
/// # Safety
/// Both texts are readable during the call, `inst` is null or writable, and `err` is null or a buffer as
/// [`abi::ErrorBuffer`] says. See [`abi::Plugin::create`].
pub unsafe extern "C" fn create<D: Definition>(
    kind: abi::Str,
    params_json: abi::Str,
    inst: *mut *mut c_void,
    err: *mut abi::ErrorBuffer,
) -> abi::Status {
    let made = catch_unwind(|| {
        // SAFETY: the caller lends both texts for the duration of the call, and nothing keeps them.
        let (kind, params) = unsafe { (kind.as_bytes(), params_json.as_bytes()) };
        let kind = std::str::from_utf8(kind).map_err(|e| contract(format!("kind: {e}")))?;
        instance(&D::components(), kind, params)
    });
    match made {
        Ok(Ok(instance)) if !inst.is_null() => {
            // SAFETY: not null, so that it is the host's place for an instance, writable and aligned.
            unsafe { *inst = Box::into_raw(Box::new(instance)).cast() };
            abi::OK
        }
        Ok(Ok(_)) => abi::INVALID,
        // SAFETY: the caller's buffer, null or writable.
        Ok(Err(diagnostic)) => unsafe { fail(err, &diagnostic.into()) },
        // SAFETY: the caller's buffer, null or writable.
        Err(panic) => unsafe { panicked(err, panic.as_ref()) },
    }
}

/// Has an instance do its work.
///
/// # Safety
/// `inst` is null or was made by [`create`] and not destroyed, and no other thread uses it. `job` is null or
/// the host's, alive until this returns. `err` is null or a buffer as [`abi::ErrorBuffer`] says. See
/// [`abi::Plugin::run`].
pub unsafe extern "C" fn run(
    inst: *mut c_void,
    job: *const abi::Job,
    err: *mut abi::ErrorBuffer,
) -> abi::Status {
    // SAFETY: the caller promises what `call` asks.
    unsafe { call(inst, job, err, |instance, job| instance.run(job)) }
}

/// # Safety
/// As [`run`]; see [`abi::ProbeExtension::probe`].
unsafe extern "C" fn probe(
    inst: *mut c_void,
    job: *const abi::Job,
    err: *mut abi::ErrorBuffer,
) -> abi::Status {
    // SAFETY: the caller promises what `call` asks.
    unsafe { call(inst, job, err, |instance, job| instance.probe(job)) }
}

/// Frees an instance.
///
/// # Safety
/// `inst` is null, or was made by [`create`] and is not used any more, by no thread.
pub unsafe extern "C" fn destroy(inst: *mut c_void) {
    if !inst.is_null() {
        // A panic in a destructor must not cross.
        // SAFETY: `create` made it from a box of this type, and the caller gives it up.
        let _ = catch_unwind(AssertUnwindSafe(|| unsafe {
            drop(Box::from_raw(inst.cast::<Box<dyn Instance>>()));
        }));
    }
}

/// A static struct by name; null if there is none.
///
/// # Safety
/// `name` is readable during the call.
pub unsafe extern "C" fn extension(name: abi::Str) -> *const c_void {
    static PROBE: abi::ProbeExtension = abi::ProbeExtension {
        struct_size: size_of::<abi::ProbeExtension>() as u32,
        reserved: 0,
        probe: Some(probe),
    };
    // SAFETY: the caller lends `name` for the duration of the call, and nothing keeps it.
    match unsafe { name.as_bytes() } == abi::EXTENSION_PROBE.as_bytes() {
        true => (&raw const PROBE).cast(),
        false => std::ptr::null(),
    }
}

/// # Safety
/// As [`run`].
unsafe fn call(
    inst: *mut c_void,
    job: *const abi::Job,
    err: *mut abi::ErrorBuffer,
    f: impl FnOnce(&mut dyn Instance, JobHandle) -> Result<(), Diagnostics>,
) -> abi::Status {
    if inst.is_null() || job.is_null() {
        return abi::INVALID;
    }
    // SAFETY: not null, so that `create` made it from a box of this type, as the caller promises; no other
    // thread uses it meanwhile.
    let instance = unsafe { &mut *inst.cast::<Box<dyn Instance>>() };
    // SAFETY: the host's job, alive until this returns. A handle that outlives it calls functions which
    // answer `INVALID` to a job that is over.
    let handle = unsafe { JobHandle::new(job) };
    let views = handle.views();
    // SAFETY: the same job; `current` ends with this function.
    let current = unsafe { JobHandle::new(job) };
    let work = || host::with_current(&current, || f(instance.as_mut(), handle));
    let mut outcome = catch_unwind(AssertUnwindSafe(work));
    if Arc::strong_count(&views) > 1 && outcome.is_ok() {
        let text = "the plugin keeps data of the host beyond the call".to_owned();
        outcome = Ok(Err(contract(text).into()));
    }
    match outcome {
        Ok(Ok(())) => abi::OK,
        Ok(Err(found)) => {
            // SAFETY: the same job; `reporter` ends with this function.
            let reporter = unsafe { JobHandle::new(job) };
            let items = found.0.iter().map(Into::into).collect();
            let bytes = message::Diagnostics { items }.encode_to_vec();
            let _ = reporter.artifact(abi::ARTIFACT_DIAGNOSTICS, &bytes);
            match reporter.progress(0, 0, "") {
                Err(_) => abi::CANCELLED,
                // SAFETY: the caller's buffer, null or writable.
                Ok(()) => unsafe { fail(err, &found) },
            }
        }
        // SAFETY: the caller's buffer, null or writable.
        Err(panic) => unsafe { panicked(err, panic.as_ref()) },
    }
}

/// Writes the findings into the host's buffer and chooses the status.
///
/// # Safety
/// As [`write()`].
unsafe fn fail(err: *mut abi::ErrorBuffer, found: &Diagnostics) -> abi::Status {
    // SAFETY: the caller promises what `write` asks.
    unsafe { write(err, &found.to_string()) };
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

/// Writes what a panic said, and where it began, into the host's buffer.
///
/// # Safety
/// As [`write()`].
unsafe fn panicked(err: *mut abi::ErrorBuffer, panic: &(dyn std::any::Any + Send)) -> abi::Status {
    let place = PANICKED_AT.lock().unwrap_or_else(PoisonError::into_inner).take();
    let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    // SAFETY: the caller promises what `write` asks.
    unsafe { write(err, &format!("panic{place}: {text}")) };
    abi::INTERNAL
}

/// # Safety
/// `err` is null, or a buffer whose `ptr` is null or has `cap` writable bytes, which nothing else touches
/// meanwhile.
unsafe fn write(err: *mut abi::ErrorBuffer, text: &str) {
    // SAFETY: null, or the host's buffer, which the caller may write to alone.
    let Some(buffer) = (unsafe { err.as_mut() }) else { return };
    if buffer.ptr.is_null() {
        return;
    }
    let mut len = text.len().min(buffer.cap);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    // SAFETY: `ptr` is not null and has `cap` writable bytes, of which `len` are used. The text is ours
    // and lies elsewhere.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.ptr.cast(), len) };
    buffer.len = len;
}

#[cfg(test)]
mod tests;
