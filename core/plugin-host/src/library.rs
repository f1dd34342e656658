//! Opening plugins and calling their functions; the only file that names `libloading`.
//!
//! A library is never closed: code that runs at thread end may still live in it. A worker ends
//! instead. Everything a plugin says is copied before it is believed.

use crate::context::JobContext;
use crate::header::{RawHeader, check, check_start, refused};
use crate::host_table::HOST;
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};
use onnxd_diagnostics::{Code, Diagnostic, refuse};
use onnxd_plugin_abi as abi;
use onnxd_proto::onnxd::PluginInfo;
use std::ffi::{c_char, c_void};
use std::mem::{ManuallyDrop, offset_of};
use std::path::Path;

/// Room for a plugin's error text, in bytes.
const ERROR_TEXT_BYTES_MAX: usize = 4096;

/// Longest text in a header besides the descriptor, in bytes.
const HEADER_TEXT_BYTES_MAX: usize = 256;

const BROKEN: &str = "Report it to the plugin's author; `onnxd plugins check` shows the same.";

/// A library in memory whose header was found.
pub(crate) struct Opened {
    header: *const abi::Header,
}

impl Opened {
    /// Opens a library; its initialisers run.
    pub(crate) fn open(path: &Path) -> Result<Opened, Diagnostic> {
        // SAFETY: initialisers of a plugin are foreign code, which may do anything to this process.
        // The process is a worker, confined and made for that; the daemon itself never comes here.
        // The library stays loaded, so that no address in it becomes stale.
        let handle = unsafe { Handle::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let handle = handle.map_err(|e| refused(path, system_text(&e), MISSING))?;
        let handle = ManuallyDrop::new(handle);
        // SAFETY: any symbol has an address, and no more than that is taken from it here. `header`
        // checks what lies there before it is believed.
        let symbol = unsafe { handle.get::<*const abi::Header>(abi::PLUGIN_SYMBOL.as_bytes()) };
        let symbol = symbol.map_err(|_| {
            let why = format!("exports no symbol `{}`: not an onnxd plugin", abi::PLUGIN_SYMBOL);
            refused(path, why, "Remove the file from the plugin folder.")
        })?;
        let header: *const abi::Header = symbol.into_raw().cast_const().cast();
        refuse!(header.is_null() || !header.is_aligned() =>
            refused(path, "the header's address is null or odd", BROKEN));
        Ok(Opened { header })
    }

    /// The header's contents; its strings are read after magic and size are right.
    pub(crate) fn header(&self, path: &Path) -> Result<RawHeader, Diagnostic> {
        let header = self.header;
        // SAFETY: `open` found the symbol, not null and aligned to 8. The library stays loaded, and
        // loaded objects are readable to the end of their last page, so sixteen bytes are.
        let (magic, struct_size) = unsafe { ((*header).magic, (*header).struct_size) };
        check_start(path, magic, struct_size)?;
        // SAFETY: the magic is that of plugins, which promise with it that `struct_size` bytes are
        // there, static and never written. `check_start` saw that they are not fewer than ours.
        // Every field may have any bits; the one function is nullable.
        let header = unsafe { &*header };
        let text = |s: abi::Str, what: &str, bytes_max: usize| {
            // SAFETY: texts of a header are static and never written, as `abi::Header` demands.
            let text = unsafe { static_text(s, bytes_max) };
            text.map_err(|why| refused(path, format!("{what} in the header {why}"), BROKEN))
        };
        let descriptor_max = onnxd_config::descriptor::DESCRIPTOR_BYTES_MAX;
        Ok(RawHeader {
            abi_major: header.abi_major,
            abi_minor: header.abi_minor,
            min_host_minor: header.min_host_minor,
            abi_tag: text(header.abi_tag, "abi_tag", HEADER_TEXT_BYTES_MAX)?,
            id: text(header.id, "id", HEADER_TEXT_BYTES_MAX)?,
            version: text(header.version, "version", HEADER_TEXT_BYTES_MAX)?,
            descriptor: text(header.descriptor, "descriptor", descriptor_max)?,
            has_entry: header.entry.is_some(),
        })
    }

    fn entry(&self) -> Option<*const abi::Plugin> {
        // SAFETY: `Library::open`, the only caller, has had `header` check magic and size; the
        // header is static.
        let entry = unsafe { (*self.header).entry }?;
        // SAFETY: the plugin's function, whose signature the ABI's major fixes (`check` compared
        // it). The table that it is given is a static of ours.
        Some(unsafe { entry(&raw const HOST) })
    }
}

const MISSING: &str = "Install the libraries the plugin needs, or a build for this machine.";

/// A plugin that is ready to make instances.
pub struct Library {
    id: String,
    version: String,
    table: abi::Plugin,
}

/// What a plugin function answered besides `OK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The status.
    pub status: abi::Status,
    /// The plugin's text, or the host's if the function does not exist; may be empty.
    pub text: String,
}

impl Library {
    /// Opens a library in this process and calls its entry.
    ///
    /// # Errors
    /// [`Code::PluginRefused`], or [`Code::PluginContract`] if its table is broken.
    pub fn open(path: &Path) -> Result<Library, Diagnostic> {
        let opened = Opened::open(path)?;
        let header = opened.header(path)?;
        check(path, &header)?;
        let (id, version) = (header.id, header.version);
        let broken = |why: String| {
            Diagnostic::new(Code::PluginContract, format!("plugin {id} {version}: {why}"))
        };
        let table = opened.entry().unwrap_or(std::ptr::null());
        if table.is_null() {
            let why = format!(
                "{id} {version} refuses this host (plugin ABI {}.{}): its entry returned null",
                abi::ABI_MAJOR,
                abi::ABI_MINOR
            );
            return Err(refused(path, why, "See the plugin's manual for the onnxd it needs."));
        }
        // SAFETY: not null. An entry returns a table that begins with its size and lives as long as
        // the process, as `abi::Header::entry` demands.
        let table = unsafe { negotiated(table) }.map_err(broken)?;
        Ok(Library { id, version, table })
    }

    /// Opens a library that was inspected before.
    ///
    /// # Errors
    /// As [`Library::open`]; also if id or version are not what the inspection found.
    pub fn open_inspected(info: &PluginInfo) -> Result<Library, Diagnostic> {
        let path = Path::new(&info.path);
        let library = Library::open(path)?;
        if (&library.id, &library.version) != (&info.id, &info.version) {
            let why = format!(
                "found {} {}, expected {} {}: the file was replaced meanwhile",
                library.id, library.version, info.id, info.version
            );
            return Err(refused(path, why, "Start the conversion again."));
        }
        Ok(library)
    }

    /// The plugin's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The plugin's version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Makes an instance.
    ///
    /// # Errors
    /// The plugin's answer.
    pub fn create(&self, kind: &str, params_json: &str) -> Result<Instance<'_>, Failure> {
        let Some(create) = self.table.create else { return Err(missing("create")) };
        let Some(run) = self.table.run else { return Err(missing("run")) };
        let Some(destroy) = self.table.destroy else { return Err(missing("destroy")) };
        let mut raw: *mut c_void = std::ptr::null_mut();
        let (kind, params) = (kind.as_bytes(), params_json.as_bytes());
        answered(|err| {
            // SAFETY: the plugin's function. Both texts and `raw` are borrowed until it returns, and
            // `err` is the buffer of `answered`.
            unsafe { create(abi::Str::of(kind), abi::Str::of(params), &raw mut raw, err) }
        })?;
        Ok(Instance { library: self, raw, run, destroy })
    }

    /// The functions of an extension, if the plugin offers it.
    fn probe_function(&self) -> Option<RunFunction> {
        let extension = self.table.extension?;
        // SAFETY: the plugin's function, which any thread may call after `entry`; the name is static.
        let found = unsafe { extension(abi::Str::of(abi::EXTENSION_PROBE.as_bytes())) };
        let found: *const abi::ProbeExtension = found.cast();
        if found.is_null() || !found.is_aligned() {
            return None;
        }
        // SAFETY: not null and aligned. Under this name a plugin offers a static struct that begins
        // with its size.
        let size = unsafe { (*found).struct_size } as usize;
        if size < size_of::<abi::ProbeExtension>() {
            return None;
        }
        // SAFETY: the struct says that it reaches beyond this field, which is a nullable function.
        unsafe { (*found).probe }
    }
}

type RunFunction =
    unsafe extern "C" fn(*mut c_void, *const abi::Job, *mut abi::ErrorBuffer) -> abi::Status;

/// An instance of a plugin's components; destroyed when dropped.
pub struct Instance<'a> {
    library: &'a Library,
    raw: *mut c_void,
    run: RunFunction,
    destroy: unsafe extern "C" fn(*mut c_void),
}

impl Instance<'_> {
    /// Does the work over the context's graph or submission.
    ///
    /// # Errors
    /// The plugin's answer.
    pub fn run(&mut self, context: &mut JobContext) -> Result<(), Failure> {
        self.call(self.run, context)
    }

    /// Asks a front-end whether the submission is its own.
    ///
    /// # Errors
    /// The plugin's answer; `UNSUPPORTED` if it has no such function.
    pub fn probe(&mut self, context: &mut JobContext) -> Result<(), Failure> {
        let probe = self.library.probe_function().ok_or_else(|| missing(abi::EXTENSION_PROBE))?;
        self.call(probe, context)
    }

    fn call(&mut self, function: RunFunction, context: &mut JobContext) -> Result<(), Failure> {
        let running = context.start();
        answered(|err| {
            // SAFETY: the plugin's function and the instance that its `create` made. `&mut self` keeps
            // other threads away from it. The job is never freed, `running` keeps it known to the
            // host's functions, and `err` is the buffer of `answered`.
            unsafe { function(self.raw, std::ptr::from_ref(running.job), err) }
        })
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        // SAFETY: the plugin's function, called for the instance that its `create` made: once, and
        // nothing uses the instance afterwards. The borrowed library is still there.
        unsafe { (self.destroy)(self.raw) };
    }
}

fn missing(function: &str) -> Failure {
    Failure {
        status: abi::UNSUPPORTED,
        text: format!("the plugin does not offer the function `{function}`"),
    }
}

/// Calls with an error buffer and copies what was written into it.
fn answered(call: impl FnOnce(*mut abi::ErrorBuffer) -> abi::Status) -> Result<(), Failure> {
    let mut text = vec![0u8; ERROR_TEXT_BYTES_MAX];
    let mut buffer =
        abi::ErrorBuffer { cap: text.len(), len: 0, ptr: text.as_mut_ptr().cast::<c_char>() };
    let status = call(&raw mut buffer);
    if status == abi::OK {
        return Ok(());
    }
    text.truncate(buffer.len);
    let text = String::from_utf8_lossy(&text);
    let text = text.trim_end_matches('\0').trim().to_owned();
    Err(Failure { status, text })
}

/// The plugin's table in our own layout: what an older one lacks is `None`.
///
/// # Safety
/// `table` is not null. If it is aligned, it points to a `struct_size` and as many readable bytes as
/// that says, which nothing writes.
unsafe fn negotiated(table: *const abi::Plugin) -> Result<abi::Plugin, String> {
    refuse!(!table.is_aligned() => "the address of its table is odd");
    // SAFETY: not null, as the caller promises, and aligned; every table begins with its size.
    let size = unsafe { (*table).struct_size } as usize;
    let least = offset_of!(abi::Plugin, extension);
    refuse!(size < least => "struct_size of its table is {size}, expected {least} or more");
    let mut own = abi::Plugin {
        struct_size: 0,
        reserved: 0,
        create: None,
        run: None,
        destroy: None,
        extension: None,
    };
    // Whole functions only: the first half of an address is not one that may be called.
    let shared = size.min(size_of::<abi::Plugin>());
    let shared = shared - shared % size_of::<usize>();
    // SAFETY: the plugin's table has `size` readable bytes, as the caller promises, and ours has
    // room for `shared`. A local variable and a static do not overlap. All fields are numbers or
    // nullable functions, which have no invalid bits.
    unsafe {
        std::ptr::copy_nonoverlapping(table.cast::<u8>(), (&raw mut own).cast(), shared);
    }
    Ok(own)
}

/// A static text of a header, copied.
///
/// # Safety
/// `s` is null, or has `len` readable bytes that nothing writes.
unsafe fn static_text(s: abi::Str, bytes_max: usize) -> Result<String, String> {
    refuse!(s.len > bytes_max => "has {} bytes, limit {bytes_max}", s.len);
    refuse!(s.ptr.is_null() || s.len == 0 => "is empty");
    // SAFETY: not null and bounded; readable as the caller promises.
    let bytes = unsafe { s.as_bytes() };
    String::from_utf8(bytes.to_vec()).map_err(|_| "is not UTF-8".into())
}

/// The loader's own sentence.
fn system_text(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}
