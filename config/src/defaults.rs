//! Defaults that follow from the machine or from other settings.
//!
//! The process's surroundings are passed as a value, so that tests need no real environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Libraries of plugins make pools of their own, as large as the machine, and two of them may be in one process.
const THREADS_PER_CORE: u64 = 2;
/// Threads of a conversion beyond pools.
const THREADS_SPARE: u64 = 64;

/// What the defaults depend on.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Environment variables that are valid text.
    pub vars: BTreeMap<String, String>,
    /// Names of variables whose value is not valid text.
    pub not_text: Vec<String>,
    /// Processor cores that may be used.
    pub cores: usize,
    /// Folder of the running program, if the system tells.
    pub program_dir: Option<PathBuf>,
    /// Current folder.
    pub current_dir: PathBuf,
}

impl Environment {
    /// The surroundings of this process.
    pub fn of_process() -> Environment {
        let mut environment = Environment {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            program_dir: std::env::current_exe().ok().and_then(|p| Some(p.parent()?.to_owned())),
            current_dir: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            ..Environment::default()
        };
        for (name, value) in std::env::vars_os() {
            let Ok(name) = name.into_string() else { continue };
            match value.into_string() {
                Ok(value) => {
                    environment.vars.insert(name, value);
                }
                Err(_) => environment.not_text.push(name),
            }
        }
        environment
    }

    /// A variable that is set and not empty.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// `path` made absolute: `~/` is the home folder, anything relative is below `base`.
    pub(crate) fn absolute(&self, base: &Path, path: &str) -> String {
        let in_home = path.strip_prefix("~/").map(|rest| self.home().join(rest));
        in_home.unwrap_or_else(|| base.join(path)).to_string_lossy().into_owned()
    }

    fn home(&self) -> PathBuf {
        self.var("HOME").map_or_else(|| self.current_dir.clone(), PathBuf::from)
    }

    /// First folder of a list as systemd passes it.
    fn service_dir(&self, name: &str) -> Option<PathBuf> {
        self.var(name)?.split(':').next().map(PathBuf::from)
    }

    fn state_dir(&self) -> PathBuf {
        // Beside the inbox: what lies in the folder of the state must not be taken for a drop.
        let of_service = self.service_dir("STATE_DIRECTORY").map(|dir| dir.join("state"));
        of_service.unwrap_or_else(|| {
            let state = self.var("XDG_STATE_HOME").map(PathBuf::from);
            state.unwrap_or_else(|| self.home().join(".local/state")).join("onnxd")
        })
    }

    /// The built-in folders for plugins, the program's own first.
    pub fn plugin_dirs(&self) -> Vec<PathBuf> {
        let beside = self.program_dir.clone();
        beside.into_iter().chain([PathBuf::from("/usr/lib/onnxd/plugins")]).collect()
    }

    /// The computed default of a setting; `of` gives the value of a setting decided before it.
    pub(crate) fn computed(&self, key: &str, of: impl Fn(&str) -> Value) -> Option<Value> {
        let path = |p: PathBuf| Value::from(p.to_string_lossy().into_owned());
        let below = |key: &str, name: &str| {
            path(Path::new(of(key).as_str().unwrap_or_default()).join(name))
        };
        Some(match key {
            "paths.root" => path(
                self.service_dir("STATE_DIRECTORY").unwrap_or_else(|| self.home().join("onnxd")),
            ),
            "intake.inbox" => below("paths.root", "inbox"),
            "output.outbox" => below("paths.root", "outbox"),
            "output.failed" => below("paths.root", "failed"),
            "output.done" => below("paths.root", "done"),
            "output.unmatched" => below("paths.root", "unmatched"),
            "state.dir" => path(self.state_dir()),
            "control.socket" => match self.service_dir("RUNTIME_DIRECTORY") {
                Some(dir) => path(dir.join("control.sock")),
                None => below("state.dir", "control.sock"),
            },
            "worker.parallel_max" => json!((self.cores / 2).max(1)),
            "worker.threads" => {
                let parallel = of("worker.parallel_max").as_u64().unwrap_or(1).max(1);
                json!((self.cores as u64 / parallel).max(1))
            }
            "worker.threads_max" => {
                let own = of("worker.threads").as_u64().unwrap_or(1);
                json!(own + THREADS_PER_CORE * self.cores as u64 + THREADS_SPARE)
            }
            _ => return None,
        })
    }
}
