//! A place with a real daemon: its folders, its process, its socket, and how to wait for it.

use onnxd_integration_tests::{command, library, onnxd, write_small_model};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nothing on a loaded machine takes longer, unless it never happens.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Short, and longer than the pauses of the writers in these tests.
pub(crate) const SETTLE: Duration = Duration::from_millis(150);

/// Folders of one daemon.
pub(crate) struct Site {
    dir: TempDir,
    settings: Vec<(String, String)>,
}

impl Site {
    pub(crate) fn new() -> Site {
        let dir = tempfile::tempdir().unwrap();
        let mut site = Site { dir, settings: Vec::new() };
        site.set("PATHS_ROOT", &site.at("").display().to_string());
        site.set("INTAKE_SETTLE_MS", &SETTLE.as_millis().to_string());
        // A drop must not wait for a machine that is busy with other tests.
        site.set("JOBS_MIN_FREE_MIB", "0");
        fs::create_dir_all(site.inbox()).unwrap();
        site
    }

    /// Sets `SECTION_KEY` for all processes started from now on.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.set_variable(&format!("ONNXD_{key}"), value);
    }

    /// Sets a variable of the environment for them.
    pub(crate) fn set_variable(&mut self, name: &str, value: &str) {
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn inbox(&self) -> PathBuf {
        self.at("inbox")
    }

    pub(crate) fn outbox(&self) -> PathBuf {
        self.at("outbox")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.at("state")
    }

    /// The built program with this site's settings.
    pub(crate) fn onnxd(&self, args: &[&str]) -> Command {
        let mut command = command(&self.state());
        command.envs(self.settings.iter().map(|(k, v)| (k, v))).args(args);
        command
    }

    /// Runs a command to its end: exit status, standard output, standard error.
    pub(crate) fn run(&self, args: &[&str]) -> (i32, String, String) {
        let output = self.onnxd(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    /// Starts the daemon without waiting for it.
    pub(crate) fn spawn(&self) -> Daemon {
        assert!(onnxd().exists());
        let log = fs::File::options().create(true).append(true).open(self.at("log")).unwrap();
        let mut command = self.onnxd(&["run"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Daemon { child: command.spawn().unwrap(), log: self.at("log") }
    }

    /// Starts the daemon and waits until it answers.
    pub(crate) fn start(&self) -> Daemon {
        let mut daemon = self.spawn();
        wait("the daemon to answer", || {
            daemon.assert_runs();
            self.try_ask(r#"{"do":"status"}"#)
        });
        daemon
    }

    /// One request on the socket.
    pub(crate) fn try_ask(&self, line: &str) -> Option<Value> {
        let mut stream = UnixStream::connect(self.state().join("control.sock")).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{line}\n").as_bytes()).ok()?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).ok()?;
        serde_json::from_str(&answer).ok()
    }

    /// The answer to one request. A daemon that is busy with a job says so at once, and is asked again.
    pub(crate) fn ask(&self, line: &str) -> Value {
        wait(&format!("the daemon to be free for {line}"), || {
            let answer =
                self.try_ask(line).unwrap_or_else(|| panic!("no answer to {line}\n{}", self.log()));
            (answer["diagnostic"]["code"] != "N0307").then_some(answer)
        })
    }

    /// All jobs, newest first.
    pub(crate) fn jobs(&self) -> Vec<Value> {
        let answer = self.ask(r#"{"do":"jobs.list"}"#);
        answer["jobs"].as_array().unwrap().clone()
    }

    /// Jobs of this name.
    pub(crate) fn jobs_named(&self, name: &str) -> Vec<Value> {
        self.jobs().into_iter().filter(|j| j["name"] == name).collect()
    }

    /// Waits until the only job of this name has this state; the job.
    pub(crate) fn wait_for(&self, name: &str, state: &str) -> Value {
        wait_or(
            &format!("{name} to be {state}"),
            || self.log(),
            || {
                let jobs = self.jobs_named(name);
                assert!(jobs.len() <= 1, "one drop, several jobs: {jobs:?}\n{}", self.log());
                let ends = ["succeeded", "failed", "cancelled", "quarantined", "duplicate"];
                let end = jobs
                    .iter()
                    .find(|j| j["state"] != state && ends.iter().any(|e| j["state"] == *e));
                assert!(end.is_none(), "waited for {state}: {end:?}\n{}", self.log());
                jobs.into_iter().find(|j| j["state"] == state)
            },
        )
    }

    /// Waits until intake shows `drop` in this state; why.
    pub(crate) fn wait_for_drop(&self, drop: &str, state: &str) -> String {
        wait_or(
            &format!("{drop} to be {state}"),
            || self.log(),
            || {
                let answer = self.ask(r#"{"do":"inbox"}"#);
                let items = answer["items"].as_array()?.clone();
                let item = items.into_iter().find(|i| i["drop"] == drop && i["state"] == state)?;
                Some(item["why"].as_str()?.to_owned())
            },
        )
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.at("log")).unwrap_or_default()
    }

    /// Names in a folder below the site.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        names(&self.at(folder))
    }
}

/// Names in a folder, sorted; none if it does not exist.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A daemon that does not outlive the test.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        wait("the daemon to end", || self.child.try_wait().unwrap())
    }

    /// Asks it to end, and waits.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Kills it without warning.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.ended();
    }

    /// The most memory that it ever had.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    fn assert_runs(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            panic!("the daemon ended: {status}\n{log}");
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until there is an answer.
pub(crate) fn wait<T>(what: &str, answer: impl FnMut() -> Option<T>) -> T {
    wait_or(what, String::new, answer)
}

pub(crate) fn wait_or<T>(
    what: &str,
    log: impl Fn() -> String,
    mut answer: impl FnMut() -> Option<T>,
) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(Instant::now() < until, "waited in vain for {what}\n{}", log());
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The report in a result's folder.
pub(crate) fn report(folder: &Path) -> Value {
    let text = fs::read(folder.join("report.json"))
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    serde_json::from_slice(&text).unwrap()
}

/// A drop of a model that is unlike those with another mark.
pub(crate) fn drop_model(site: &Site, path: &str, mark: &str) {
    let staged = site.at("staged.onnx");
    write_small_model(&staged, mark);
    let to = site.inbox().join(path);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::rename(&staged, to).unwrap();
}

/// A folder with a model and params that use a plugin which misbehaves.
pub(crate) fn drop_hostile(site: &Site, name: &str, pass: &str) {
    let staged = site.at("staged").join(name);
    fs::create_dir_all(&staged).unwrap();
    write_small_model(&staged.join("model.onnx"), name);
    let params = format!("[passes]\nprofile = \"none\"\nenable = [\"{pass}\"]\n");
    fs::write(staged.join("params.toml"), params).unwrap();
    fs::rename(&staged, site.inbox().join(name)).unwrap();
}

/// A site whose daemon also has the plugin that misbehaves.
pub(crate) fn hostile_site() -> Site {
    let mut site = Site::new();
    let plugins = site.at("plugins");
    fs::create_dir(&plugins).unwrap();
    let shipped = ["frontend_onnx", "passes_cleanup", "passes_fusion", "passes_layout"];
    let shipped = shipped.map(|name| format!("libonnxd_{name}.so"));
    for name in shipped.iter().map(String::as_str).chain(["libhostile_plugins.so"]) {
        fs::copy(library(name), plugins.join(name)).unwrap();
    }
    site.set("PLUGINS_PATH", &plugins.display().to_string());
    site
}
