//! `onnxd demo`: a real daemon on a scratch folder, the shipped network dropped into it.
//!
//! The daemon is the same program, started as a person would start it, so what the demo shows is
//! what an installation does.

use super::context::Context;
use super::failure::Failure;
use super::{Ended, out};
use crate::conversion::attempt::class_of;
use crate::conversion::publish::{REPORT, read_report};
use onnxd_config::toml_text;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnxd::{FileRole, Verdict};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// For the daemon to be ready, and for the result to appear.
const LIMIT: Duration = Duration::from_secs(60);
/// For the daemon to end when it is asked to.
const ENDING: Duration = Duration::from_secs(15);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// Last lines of the daemon's log that are shown when something went wrong.
const LOG_LINES: usize = 10;
/// Name of the drop.
const NAME: &str = "digits";

macro_rules! weights {
    ($name:literal) => {
        (
            concat!("weights/", $name, ".syntxt"),
            include_bytes!(concat!("../../demo/weights/", $name, ".syntxt")),
        )
    };
}

/// The files of the drop; part of the program, so that it can be moved alone with its plugins.
const FILES: [(&str, &[u8]); 12] = [
    ("digits.ini", include_bytes!("../../demo/digits.ini")),
    ("params.ini", include_bytes!("../../demo/params.ini")),
    ("inputs.npz", include_bytes!("../../demo/inputs.npz")),
    ("outputs.npz", include_bytes!("../../demo/outputs.npz")),
    weights!("stem_weights"),
    weights!("stem_biases"),
    weights!("detail_weights"),
    weights!("detail_biases"),
    weights!("mix_weights"),
    weights!("mix_biases"),
    weights!("digit_weights"),
    weights!("digit_biases"),
];

/// Converts the shipped example end to end: starts a daemon on a scratch folder, drops a network
/// with weights and params, waits for the result, and stops the daemon.
#[derive(clap::Args)]
pub(crate) struct Demo {
    /// Folder for everything; must not exist yet. Default: a new one for temporary files.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Prints where everything is as JSON.
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub(crate) fn run(&self) -> Ended {
        let dir = match &self.dir {
            Some(dir) => std::path::absolute(dir).map_err(|e| disk(dir, &e))?,
            None => std::env::temp_dir().join(format!("onnxd-demo-{}", ulid::Ulid::generate())),
        };
        // The daemon of the demo would wait for plugins that a user brings.
        Context::load(None)?.plugins()?.has_frontend()?;
        fs::create_dir(&dir).map_err(|e| disk(&dir, &e))?;
        let mut daemon = Daemon::start(&dir)?;
        let root = dir.join("root");
        let result = daemon
            .wait("the inbox", || root.join("inbox").is_dir().then_some(()))
            .and_then(|()| drop_network(&dir, &root.join("inbox")))
            .and_then(|()| daemon.wait("the result", || finished(&root)))
            .inspect_err(|_| daemon.show_log());
        let stopped = daemon.stop();
        let result = result?;
        stopped?;
        self.show(&result)
    }

    fn show(&self, result: &Path) -> Ended {
        let report = read_report(&result.join(REPORT))?;
        let model = report
            .outputs
            .iter()
            .find(|f| f.role() == FileRole::Model)
            .map(|f| result.join(&f.path));
        if self.json {
            out::json(&json!({
                "verdict": report.verdict().as_str_name(),
                "folder": result,
                "model": model,
                "report": result.join("report.html"),
            }));
        } else {
            out::print(&onnxd_report::receipt(&report));
            let mut rows = vec![vec!["folder:".to_owned(), result.display().to_string()]];
            rows.extend(model.map(|m| vec!["model:".to_owned(), m.display().to_string()]));
            let page = result.join("report.html");
            rows.push(vec!["report:".to_owned(), page.display().to_string()]);
            out::print(&format!("\n{}", out::table(&rows)));
        }
        Ok(match report.verdict() {
            Verdict::Succeeded => 0,
            Verdict::Failed => class_of(&report).exit_code(),
            _ => super::FINDINGS,
        })
    }
}

/// The daemon of the demo. It does not outlive this value.
struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    fn start(dir: &Path) -> Result<Daemon, Diagnostic> {
        let path = |name: &str| toml_text(&json!(dir.join(name)));
        let config = format!(
            "[paths]\nroot = {}\n\n[intake]\nsettle_ms = 200\n\n[state]\ndir = {}\n\n\
             [control]\nsocket = {}\n",
            path("root"),
            path("state"),
            path("control.sock")
        );
        let file = dir.join("onnxd.toml");
        fs::write(&file, config).map_err(|e| disk(&file, &e))?;
        let log = dir.join("daemon.log");
        let stderr = File::create(&log).map_err(|e| disk(&log, &e))?;
        let start = |e: std::io::Error| {
            Diagnostic::new(Code::WorkerStart, format!("the daemon could not be started: {e}"))
        };
        let program = std::env::current_exe().map_err(start)?;
        let child = Command::new(program)
            .args(["run", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map_err(start)?;
        Ok(Daemon { child, log })
    }

    /// Looks until there is something, the daemon has ended, or the time is over.
    fn wait<T>(&mut self, what: &str, look: impl Fn() -> Option<T>) -> Result<T, Diagnostic> {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            if let Some(found) = look() {
                return Ok(found);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let text = format!("the daemon ended while the demo waited for {what}: {status}");
                return Err(Diagnostic::new(Code::NotRunning, text).help(""));
            }
            std::thread::sleep(PAUSE);
        }
        let text = format!("{what} did not appear within {} s", LIMIT.as_secs());
        Err(Diagnostic::new(Code::WorkerTimeout, text).help("The daemon's log says more."))
    }

    fn show_log(&self) {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
            out::error(&format!("daemon: {line}"));
        }
    }

    /// Asks the daemon to end, as systemd does.
    fn stop(&mut self) -> Result<(), Failure> {
        let failed = |why: String| {
            let text = format!("the daemon did not stop cleanly: {why}");
            Failure::from(Diagnostic::new(Code::Internal, text))
        };
        // Has it ended already, `wait` below says how.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let until = Instant::now() + ENDING;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(failed(status.to_string())),
                Ok(None) => std::thread::sleep(PAUSE),
                Err(e) => return Err(failed(e.to_string())),
            }
        }
        Err(failed(format!("it was still running after {} s", ENDING.as_secs())))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // Both fail only if it has ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Writes the network aside, then drops it by one rename, as the manual recommends.
fn drop_network(dir: &Path, inbox: &Path) -> Result<(), Diagnostic> {
    let aside = dir.join("aside").join(NAME);
    for (name, contents) in FILES {
        let path = aside.join(name);
        let folder = path.parent().unwrap_or(&aside);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, contents));
        written.map_err(|e| disk(&path, &e))?;
    }
    fs::rename(&aside, inbox.join(NAME)).map_err(|e| disk(inbox, &e))
}

/// The folder of the result, be it good or bad.
fn finished(root: &Path) -> Option<PathBuf> {
    let good = root.join("outbox").join(NAME);
    if good.join(REPORT).is_file() {
        return Some(good);
    }
    let failed = fs::read_dir(root.join("failed")).ok()?.flatten().map(|e| e.path());
    failed.into_iter().find(|folder| folder.join(REPORT).is_file())
}

fn disk(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::new(Code::Disk, format!("`{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_holds_every_file_of_the_demo() {
        let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo");
        for (name, contents) in FILES {
            assert_eq!(fs::read(demo.join(name)).unwrap(), contents, "{name}");
        }
        let weights = fs::read_dir(demo.join("weights")).unwrap().count();
        assert_eq!(FILES.iter().filter(|(name, _)| name.starts_with("weights/")).count(), weights);
        assert!(FILES.iter().map(|(_, contents)| contents.len()).sum::<usize>() < 300_000);
    }
}
