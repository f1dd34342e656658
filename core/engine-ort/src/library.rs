//! Finds and loads the library.

use onnxd_diagnostics::{Code, Diagnostic};
use ort::environment::Environment;
use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Names the library, before anything is looked for.
const VARIABLE: &str = "ORT_DYLIB_PATH";

/// For people without it.
pub const HOW_TO_GET: &str = "Install ONNX Runtime, from the packages of the system or with \
    `pip install onnxruntime`, and name its library in `ORT_DYLIB_PATH`; a Python package has it in \
    `onnxruntime/capi/libonnxruntime.so.VERSION`.";

/// How the file is called; versions follow.
const NAME: &str = "libonnxruntime.so";

/// Where libraries usually lie.
const FOLDERS: [&str; 7] = [
    "/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu", "/opt/onnxruntime/lib",
];

/// The loaded library. A process loads one, once.
#[derive(Clone, Debug)]
pub struct OrtLibrary {
    path: PathBuf,
    version: String,
    environment: Environment,
}

static LOADED: Mutex<Option<OrtLibrary>> = Mutex::new(None);

impl OrtLibrary {
    /// Loads the library: the one at `named`, else at `$ORT_DYLIB_PATH`, else the first that works
    /// of those in `$LD_LIBRARY_PATH` and in the usual folders. If one is loaded already, it is
    /// that.
    ///
    /// # Errors
    /// `N0310` if there is none, or the one that is named cannot be used.
    pub fn load(named: Option<&Path>) -> Result<OrtLibrary, Diagnostic> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = &*loaded {
            return Ok(library.clone());
        }
        let candidates = match named.map(Path::to_owned).or_else(from_environment) {
            Some(path) => vec![path],
            None => candidates(),
        };
        let mut problems = Vec::new();
        for path in candidates {
            match open(&path) {
                Ok(library) => return Ok(loaded.insert(library).clone()),
                Err(why) => problems.push(why),
            }
        }
        let text = match problems.as_slice() {
            [] => format!("ONNX Runtime is not there: no {NAME} in the usual folders"),
            problems => format!("ONNX Runtime cannot be used: {}", problems.join("; ")),
        };
        Err(Diagnostic::new(Code::EngineMissing, text).help(HOW_TO_GET))
    }

    /// Where it was found.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says its version is.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }
}

fn from_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Files of the name, those in the folders that come first before others, newer before older ones.
fn candidates() -> Vec<PathBuf> {
    let first = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let first: Vec<PathBuf> = std::env::split_paths(&first).filter(|p| p.is_absolute()).collect();
    let folders = first.into_iter().chain(FOLDERS.map(PathBuf::from));
    folders.flat_map(|folder| libraries(&folder)).collect()
}

fn libraries(folder: &Path) -> Vec<PathBuf> {
    // A folder that cannot be read has nothing to offer.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let rest = name.to_str()?.strip_prefix(NAME)?.to_owned();
            let version = rest.split('.').skip(1).map(str::parse).collect::<Result<_, _>>();
            Some((version.ok()?, entry.path()))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).collect()
}

fn open(path: &Path) -> Result<OrtLibrary, String> {
    let version = version_of(path)?;
    let builder = ort::init_from(path).map_err(|e| e.to_string())?;
    let built = builder.with_name("onnxd").with_telemetry(false).build();
    let environment = built.map_err(|e| format!("{}: {}", path.display(), e.message()))?;
    Ok(OrtLibrary { path: path.to_owned(), version, environment })
}

/// The first part of what `OrtGetApiBase` returns, which stays as it is in all versions.
#[repr(C)]
struct ApiBase {
    get_api: *const c_void,
    version: Option<unsafe extern "C" fn() -> *const c_char>,
}

/// Asks the library for its version, and so makes sure that it is one.
fn version_of(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: the name ends with a zero. Initializers of the library are foreign code, which may do
    // anything to this process: the user or the system named the library to be run here. It stays open,
    // so that no address in it becomes stale.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: `dlerror` takes nothing. Its message is valid until the next such call of this thread.
        let why = unsafe { libc::dlerror() };
        if why.is_null() {
            return Err(format!("{shown} cannot be loaded"));
        }
        // SAFETY: not null; a message ends with a zero, and is copied before the next call.
        let why = unsafe { CStr::from_ptr(why) };
        return Err(OsStr::from_bytes(why.to_bytes()).to_string_lossy().into_owned());
    }
    // SAFETY: the handle is that of an open library, and the name ends with a zero.
    let symbol = unsafe { libc::dlsym(handle, c"OrtGetApiBase".as_ptr()) };
    if symbol.is_null() {
        return Err(format!("{shown} is not a library of ONNX Runtime"));
    }
    // SAFETY: not null, and a function of this type in every version of ONNX Runtime. Any bits of an
    // address may be seen as a function that is unsafe to call.
    let get: unsafe extern "C" fn() -> *const ApiBase = unsafe { std::mem::transmute(symbol) };
    // SAFETY: the library exports this name, which ONNX Runtime alone does. It takes nothing, and returns
    // null or a struct that lives as long as the library.
    let base = unsafe { get().as_ref() }.ok_or_else(|| format!("{shown} has no interface"))?;
    let version = base.version.ok_or_else(|| format!("{shown} has no version"))?;
    // SAFETY: a function of the library, of this type in every version of ONNX Runtime.
    let version = unsafe { version() };
    if version.is_null() {
        return Err(format!("{shown} has no version"));
    }
    // SAFETY: not null; the version is a constant of the library that ends with a zero.
    Ok(unsafe { CStr::from_ptr(version) }.to_string_lossy().into_owned())
}
