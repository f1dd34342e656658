//! The host's functions, made safe: missing ones answer "unsupported", views carry their lifetime rule.

mod derive;

use crate::LogLevel;
use crate::diagnostics::{Code, Diagnostic};
use crate::ir::{DataType, Tensor};
use bytes::Bytes;
use onnxd_plugin_abi as abi;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::mem::{offset_of, size_of};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A full-size copy of the host's table; functions the host does not have are `None`.
static HOST: OnceLock<HostTable> = OnceLock::new();

struct HostTable(abi::Host);

/// Keeps a copy of the table. Fields beyond what the host was compiled with stay absent.
///
/// # Safety
/// `host` is null or points to at least `struct_size` readable bytes of a host table.
pub(crate) unsafe fn install(host: *const abi::Host) -> bool {
    // SAFETY: the caller promises of `host` what `copied` asks.
    let table = unsafe { copied(host) }.filter(|table| table.abi_major == abi::ABI_MAJOR);
    table.is_some_and(|table| HOST.set(HostTable(table)).is_ok() || HOST.get().is_some())
}

/// # Safety
/// See [`install`].
unsafe fn copied(host: *const abi::Host) -> Option<abi::Host> {
    if host.is_null() {
        return None;
    }
    // SAFETY: not null; the first field is readable in every version of the table.
    let size = unsafe { (*host).struct_size } as usize;
    if size < offset_of!(abi::Host, log) {
        return None;
    }
    let mut table = std::mem::MaybeUninit::<abi::Host>::zeroed();
    // SAFETY: `host` has `size` readable bytes as the caller promises, `table` has room for as many as are copied, and
    // a local variable overlaps with neither. Whole functions are copied. All-zero is a valid table without functions.
    Some(unsafe {
        let bytes = size.min(size_of::<abi::Host>());
        let bytes = bytes - bytes % size_of::<usize>();
        std::ptr::copy_nonoverlapping(host.cast::<u8>(), table.as_mut_ptr().cast(), bytes);
        table.assume_init()
    })
}

/// Tells of progress; a host that takes no words hears the numbers alone.
///
/// # Safety
/// The functions of `host` may be called with `job`, from this thread.
unsafe fn tell(
    host: &abi::Host,
    job: *const abi::Job,
    (done, total): (u64, u64),
    about: &str,
) -> abi::Status {
    match (host.progress_about.filter(|_| !about.is_empty()), host.progress) {
        // SAFETY: the host's function with a job of its own, as the caller promises; the text is lent for the call.
        (Some(f), _) => unsafe { f(job, done, total, abi::Str::of(about.as_bytes())) },
        // SAFETY: the same, with numbers alone.
        (None, Some(f)) => unsafe { f(job, done, total) },
        (None, None) => abi::OK,
    }
}

fn host() -> &'static abi::Host {
    &HOST.get().expect("the entry point installed the host's table").0
}

thread_local! {
    /// The host and the job of the call that this thread is in, for [`log`].
    static CURRENT: Cell<Option<(&'static abi::Host, *const abi::Job)>> = const { Cell::new(None) };
}

/// What `f` gives, whose lines of the log go to this job.
pub(crate) fn with_current<T>(job: &JobHandle, f: impl FnOnce() -> T) -> T {
    struct Earlier(Option<(&'static abi::Host, *const abi::Job)>);
    impl Drop for Earlier {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _earlier = Earlier(CURRENT.replace(Some((job.host, job.job))));
    f()
}

/// What [`crate::log!`] calls.
#[doc(hidden)]
pub fn log(level: LogLevel, part: &str, text: &str) {
    if let Some((host, job)) = CURRENT.get() {
        // SAFETY: `with_current` set both from a handle that it borrows, and takes them back before it returns, so
        // that they are a host and a job of it that is alive.
        unsafe { JobHandle::of(host, job) }.log(level, part, text);
    }
}

fn refused(what: &str, status: abi::Status) -> Diagnostic {
    let (code, why) = match status {
        abi::UNSUPPORTED => (Code::PluginRefused, "this onnxd does not offer it"),
        abi::OUT_OF_MEMORY => (Code::OutOfMemory, "memory ran out"),
        abi::IO => (Code::Unreadable, "the file cannot be read or written"),
        abi::INVALID => (Code::PluginContract, "the host refused the arguments"),
        _ => (Code::Internal, "the host failed"),
    };
    Diagnostic::new(code, format!("{what}: {why} (status {status})"))
}

/// The conversion in progress.
pub(crate) struct JobHandle {
    host: &'static abi::Host,
    job: *const abi::Job,
    /// Memory the host lent, by address: what lies in it goes back by id, not by copy.
    regions: Mutex<BTreeMap<usize, Region>>,
    /// Tensors of the host that are not found by their address: derived ones, and copies of what others derive from.
    known: Mutex<HashMap<TensorOrigin, (Tensor, u64)>>,
    /// Shared by all views.
    views: Arc<()>,
}

impl std::fmt::Debug for JobHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("JobHandle")
    }
}

// SAFETY: all fields but `job` may be shared. The job is read and never written; the host's functions take it in any
// thread, or answer `INVALID` where they are for the thread of `run` alone.
unsafe impl Sync for JobHandle {}
// SAFETY: what holds for `Sync` holds here; the handle owns nothing of the job that a certain thread would have to
// free.
unsafe impl Send for JobHandle {}

/// A view into memory that the host keeps until the current call returns. All views of a call share one count, by which
/// the end of the call finds out whether the plugin kept some.
struct Borrowed {
    bytes: &'static [u8],
    _counted: Arc<()>,
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}

/// Where the elements of a tensor come from, their type and sizes.
type TensorOrigin = ((usize, usize), DataType, Vec<usize>);

fn known_as(tensor: &Tensor) -> TensorOrigin {
    (tensor.identity(), tensor.dtype(), tensor.dims().to_vec())
}

/// Memory that the host lent, and where it lies.
struct Region {
    len: usize,
    id: u64,
    /// Element type and sizes, if it is a tensor.
    shape: Option<(i32, Vec<i64>)>,
}

/// What `tensor_get` and `input_map` describe.
pub(crate) struct Mapped {
    pub(crate) id: u64,
    pub(crate) bytes: Bytes,
}

impl JobHandle {
    /// A job of the host that is installed.
    ///
    /// # Safety
    /// `job` is one that this host gave, and alive until the current call returns.
    pub(crate) unsafe fn new(job: *const abi::Job) -> JobHandle {
        // SAFETY: as the caller promises.
        unsafe { JobHandle::of(host(), job) }
    }

    /// A job of this host; for tests of plugins, which bring one of their own.
    ///
    /// # Safety
    /// `job` is one that `host` gave, and alive until the current call returns. All calls of the host's functions rely
    /// on it.
    pub(crate) unsafe fn of(host: &'static abi::Host, job: *const abi::Job) -> JobHandle {
        let (regions, known, views) = Default::default();
        JobHandle { host, job, regions, known, views }
    }

    /// Shared by every view that is still alive, and by the handle.
    pub(crate) fn views(&self) -> Arc<()> {
        self.views.clone()
    }

    /// # Safety
    /// Null, or readable and unchanged until the current call returns. [`crate::entry`] finds views that outlive it.
    unsafe fn view(&self, ptr: *const u8, len: usize) -> Bytes {
        if ptr.is_null() || len == 0 {
            return Bytes::new();
        }
        // SAFETY: not null, readable and unchanged until the call returns, as the caller promises. Longer than that
        // the lifetime says too much: `_counted` lets the end of the call find views that were kept, and fail it.
        let bytes = unsafe { std::slice::from_raw_parts(ptr, len) };
        Bytes::from_owner(Borrowed { bytes, _counted: self.views() })
    }

    pub(crate) fn threads(&self) -> usize {
        // SAFETY: the job is alive (`JobHandle::of`), and has these two fields in every version of the interface.
        unsafe { (*self.job).threads.max(1) as usize }
    }

    pub(crate) fn progress(&self, done: u64, total: u64, about: &str) -> Result<(), Diagnostic> {
        // SAFETY: host and job belong together, and the job is alive (`JobHandle::of`).
        match unsafe { tell(self.host, self.job, (done, total), about) } {
            abi::CANCELLED => {
                Err(Diagnostic::new(Code::WorkerTimeout, "the conversion was cancelled"))
            }
            _ => Ok(()),
        }
    }

    /// Writes a line to the log; a host without one hears nothing.
    pub(crate) fn log(&self, level: LogLevel, part: &str, text: &str) {
        let level = match level {
            LogLevel::Error => abi::LOG_ERROR,
            LogLevel::Warning => abi::LOG_WARN,
            LogLevel::Info => abi::LOG_INFO,
            LogLevel::Debug => abi::LOG_DEBUG,
        };
        let Some(f) = self.host.log else { return };
        let [part, text] = [part, text].map(|text| abi::Str::of(text.as_bytes()));
        // SAFETY: the job is alive (`JobHandle::of`); both texts are lent for the call, and the host copies them.
        unsafe { f(self.job, level, part, text) }
    }

    fn text(
        &self,
        what: &str,
        f: Option<unsafe extern "C" fn(*const abi::Job, *mut abi::Str) -> abi::Status>,
    ) -> Result<Bytes, Diagnostic> {
        let f = f.ok_or_else(|| refused(what, abi::UNSUPPORTED))?;
        let mut out = abi::Str::EMPTY;
        // SAFETY: the job is alive (`JobHandle::of`), and `out` is a variable that the host may write to.
        match unsafe { f(self.job, &mut out) } {
            // SAFETY: with `OK` the host lends these bytes, unchanged until the call returns.
            abi::OK => Ok(unsafe { self.view(out.ptr, out.len) }),
            status => Err(refused(what, status)),
        }
    }

    pub(crate) fn submission(&self) -> Result<Bytes, Diagnostic> {
        self.text("submission", self.host.submission)
    }

    #[cfg(any(feature = "pass", feature = "quantizer"))]
    pub(crate) fn graph(&self) -> Result<Bytes, Diagnostic> {
        self.text("graph_get", self.host.graph_get)
    }

    pub(crate) fn put_graph(&self, model: &[u8]) -> Result<(), Diagnostic> {
        let f = self.host.graph_put.ok_or_else(|| refused("graph_put", abi::UNSUPPORTED))?;
        // SAFETY: the job is alive (`JobHandle::of`); the bytes are lent for the call, and the host copies them.
        match unsafe { f(self.job, abi::Str::of(model)) } {
            abi::OK => Ok(()),
            status => Err(refused("graph_put", status)),
        }
    }

    pub(crate) fn artifact(&self, name: &str, data: &[u8]) -> Result<(), Diagnostic> {
        self.hand_over(name, "application/x-protobuf", data)
    }

    pub(crate) fn file(&self, name: &str, data: &[u8]) -> Result<(), Diagnostic> {
        self.hand_over(name, "application/octet-stream", data)
    }

    fn hand_over(&self, name: &str, mime: &str, data: &[u8]) -> Result<(), Diagnostic> {
        let f = self.host.artifact.ok_or_else(|| refused("artifact", abi::UNSUPPORTED))?;
        let mime = abi::Str::of(mime.as_bytes());
        // SAFETY: the job is alive (`JobHandle::of`); texts and bytes are lent for the call, and the host copies them.
        match unsafe { f(self.job, abi::Str::of(name.as_bytes()), mime, abi::Str::of(data)) } {
            abi::OK => Ok(()),
            status => Err(refused(name, status)),
        }
    }

    pub(crate) fn map_input(&self, name: &str) -> Result<Mapped, Diagnostic> {
        let f = self.host.input_map.ok_or_else(|| refused("input_map", abi::UNSUPPORTED))?;
        let struct_size = size_of::<abi::Bytes>() as u32;
        let mut out = abi::Bytes { struct_size, reserved: 0, ptr: std::ptr::null(), len: 0, id: 0 };
        // SAFETY: the job is alive (`JobHandle::of`); the name is lent for the call, and `out` is a variable of the
        // size that it names.
        match unsafe { f(self.job, abi::Str::of(name.as_bytes()), &mut out) } {
            abi::OK => {
                // SAFETY: with `OK` the host lends these bytes until the call returns, or until they are given back,
                // before which `with_input` and `InputReader` drop their views.
                let bytes = unsafe { self.view(out.ptr, out.len) };
                Ok(Mapped { id: out.id, bytes })
            }
            status => Err(refused(name, status)),
        }
    }

    pub(crate) fn input_map(&self, name: &str) -> Result<Bytes, Diagnostic> {
        let mapped = self.map_input(name)?;
        self.remember(&mapped, None);
        Ok(mapped.bytes)
    }

    /// What `f` makes of the content of a file, which is mapped only while `f` looks at it, where the host can do that.
    pub(crate) fn with_input<T>(
        &self,
        name: &str,
        f: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Diagnostic> {
        let Mapped { id, bytes } = self.map_input(name)?;
        let result = f(&bytes);
        drop(bytes);
        self.unmap_input(id)?;
        Ok(result)
    }

    /// Gives back what [`JobHandle::map_input`] mapped, where the host can do that. The caller has no view of it left.
    pub(crate) fn unmap_input(&self, id: u64) -> Result<(), Diagnostic> {
        let Some(unmap) = self.host.input_unmap else { return Ok(()) };
        // SAFETY: the job is alive (`JobHandle::of`). The two callers are in this crate and have dropped their
        // view; the host counts how often a file was mapped, so that views of others stay valid.
        match unsafe { unmap(self.job, id) } {
            abi::OK => Ok(()),
            status => Err(refused("input_unmap", status)),
        }
    }

    /// Notes where lent memory lies; `shape` is element type and sizes of a tensor.
    pub(crate) fn remember(&self, mapped: &Mapped, shape: Option<(i32, Vec<i64>)>) {
        let len = mapped.bytes.len();
        if len == 0 {
            return;
        }
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let start = mapped.bytes.as_ptr() as usize;
        // Several views may begin at one address: a mapped file and its first tensor. The longest serves all.
        if regions.get(&start).is_none_or(|known| known.len < len) {
            regions.insert(start, Region { len, id: mapped.id, shape });
        }
    }

    /// Notes which tensor of the host a tensor is.
    pub(crate) fn note(&self, tensor: &Tensor, id: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // The tensor is kept, so that nothing else comes to have its identity.
        known.insert(known_as(tensor), (tensor.clone(), id));
    }

    /// The tensor of the host that was noted.
    pub(crate) fn noted(&self, tensor: &Tensor) -> Option<u64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&known_as(tensor)).map(|(_, id)| *id)
    }

    /// Whether `bytes` lie in lent memory.
    pub(crate) fn lends(&self, bytes: &[u8]) -> bool {
        let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let start = bytes.as_ptr() as usize;
        let before = regions.range(..=start).next_back();
        before.is_some_and(|(first, region)| start - first + bytes.len() <= region.len)
    }

    /// The tensor of type `dtype` and sizes `dims` over `bytes`, if they lie in lent memory: the host's own if there is
    /// one, else a new one; nothing is copied.
    pub(crate) fn lent_tensor(
        &self,
        dtype: i32,
        dims: &[i64],
        bytes: &[u8],
    ) -> Result<Option<u64>, Diagnostic> {
        let start = bytes.as_ptr() as usize;
        let (id, offset) = {
            let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((first, region)) = regions.range(..=start).next_back() else {
                return Ok(None);
            };
            let offset = start - first;
            if offset + bytes.len() > region.len {
                return Ok(None);
            }
            let same = |(t, d): &(i32, Vec<i64>)| *t == dtype && d == dims;
            if offset == 0 && bytes.len() == region.len && region.shape.as_ref().is_some_and(same) {
                return Ok(Some(region.id));
            }
            (region.id, offset as u64)
        };
        self.alias(id, offset, dtype, dims).map(Some)
    }

    /// A tensor that lies in memory, its type and sizes.
    pub(crate) fn tensor(&self, id: u64) -> Result<(Mapped, i32, Vec<i64>), Diagnostic> {
        let f = self.host.tensor_get.ok_or_else(|| refused("tensor_get", abi::UNSUPPORTED))?;
        let mut out = descriptor(0, &[]);
        // SAFETY: the job is alive (`JobHandle::of`), and `out` is a variable of the size that it names.
        match unsafe { f(self.job, id, &mut out) } {
            abi::OK => {
                // SAFETY: with `OK` the host lends the elements of a sealed tensor until the call returns.
                let bytes = unsafe { self.view(out.data.cast(), out.nbytes as usize) };
                // SAFETY: it lends `rank` sizes as long.
                let dims = unsafe { derive::lent(out.dims, out.rank as usize) };
                Ok((Mapped { id, bytes }, out.dtype as i32, dims))
            }
            status => Err(refused("tensor_get", status)),
        }
    }

    /// Copies `bytes` into a new tensor of the host.
    pub(crate) fn new_tensor(
        &self,
        dtype: i32,
        dims: &[i64],
        bytes: &[u8],
    ) -> Result<u64, Diagnostic> {
        let (id, data) = self.open_tensor(dtype, dims, bytes.len())?;
        if !bytes.is_empty() {
            // SAFETY: the host made this memory for the tensor, so that it has `len` writable bytes, is apart from
            // `bytes`, and is used by no other code until it is sealed. `open_tensor` saw that it is not null.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len()) };
        }
        self.seal_tensor(id)?;
        Ok(id)
    }

    /// A new tensor of the host, and its `len` zeroed bytes, which are to be written until it is sealed.
    pub(crate) fn open_tensor(
        &self,
        dtype: i32,
        dims: &[i64],
        len: usize,
    ) -> Result<(u64, *mut u8), Diagnostic> {
        let new = self.host.tensor_new.ok_or_else(|| refused("tensor_new", abi::UNSUPPORTED))?;
        let (mut id, mut data) = (0u64, std::ptr::null_mut());
        let mut desc = descriptor(dtype, dims);
        desc.nbytes = len as u64;
        // SAFETY: the job is alive (`JobHandle::of`); description and dims are lent for the call, and the host
        // checks them. Both results are variables.
        match unsafe { new(self.job, &desc, &mut id, &mut data) } {
            abi::OK if data.is_null() && len > 0 => Err(refused("tensor_new", abi::OUT_OF_MEMORY)),
            abi::OK => Ok((id, data.cast())),
            status => Err(refused("tensor_new", status)),
        }
    }

    /// Ends writing to a tensor.
    pub(crate) fn seal_tensor(&self, id: u64) -> Result<(), Diagnostic> {
        let seal = self.host.tensor_seal.ok_or_else(|| refused("tensor_seal", abi::UNSUPPORTED))?;
        // SAFETY: the job is alive (`JobHandle::of`), and the host checks the id. Who wrote to the tensor has done so:
        // `new_tensor` above, or a `Room`, which `seal` consumes.
        match unsafe { seal(self.job, id) } {
            abi::OK => Ok(()),
            status => Err(refused("tensor_seal", status)),
        }
    }

    /// A tensor over part of a tensor or mapped file; nothing is copied.
    fn alias(&self, source: u64, offset: u64, dtype: i32, dims: &[i64]) -> Result<u64, Diagnostic> {
        let f = self.host.tensor_alias.ok_or_else(|| refused("tensor_alias", abi::UNSUPPORTED))?;
        let mut id = 0;
        // SAFETY: the job is alive (`JobHandle::of`); the description is lent for the call, and the host checks it,
        // the id and the range. The result is a variable.
        match unsafe { f(self.job, source, offset, &descriptor(dtype, dims), &mut id) } {
            abi::OK => Ok(id),
            status => Err(refused("tensor_alias", status)),
        }
    }
}

/// Sizes as the interface takes them.
pub(crate) fn sizes(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|d| *d as i64).collect()
}

fn descriptor(dtype: i32, dims: &[i64]) -> abi::Tensor {
    abi::Tensor {
        struct_size: size_of::<abi::Tensor>() as u32,
        dtype: dtype as u32,
        rank: dims.len() as u32,
        flags: 0,
        dims: dims.as_ptr(),
        data: std::ptr::null(),
        nbytes: 0,
    }
}

#[cfg(test)]
mod tests;
