//! The settings of the daemon, one row each; types, help, example file and checks follow from it.

use std::path::PathBuf;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::kind::{ValueKind, refusal};
use crate::params::Preset;
use crate::table::{KeyRow, default_text};
use ValueKind::{Bool, Int, List, Path, Text};

macro_rules! settings {
    ($(
        $(#[doc = $about:literal])+
        $section:ident: $Section:ident {
            $($(#[doc = $help:literal])+
            $key:ident: $type:ty = $kind:expr, $default:tt $($more:literal)?;)+
        }
    )+) => {
        /// All settings, typed.
        #[derive(Clone, Debug, PartialEq, Deserialize)]
        pub struct Settings {
            $($(#[doc = $about])+ pub $section: $Section,)+
            /// The params of section `defaults`, which hold for all conversions.
            #[serde(skip)]
            pub defaults: Preset,
        }
        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug, PartialEq, Deserialize)]
            pub struct $Section {
                $($(#[doc = $help])+ pub $key: $type,)+
            }
        )+
        /// All rows, in the order of help and example file.
        pub static ROWS: LazyLock<Vec<KeyRow>> = LazyLock::new(|| vec![$($(KeyRow::of_settings(
            concat!(stringify!($section), ".", stringify!($key)),
            $kind,
            default_text!($default $($more)?),
            concat!($($help,)+),
        ),)+)+]);
        /// Each section with what it is about.
        pub static SECTIONS: &[(&str, &str)] =
            &[$((stringify!($section), concat!($($about,)+)),)+];
    };
}

const SECONDS: ValueKind = Int(0, 31_536_000);
const COUNT: ValueKind = Int(1, 1_000_000_000);
const MODE: ValueKind = ValueKind::Special("an octal file mode such as \"0644\"", check_mode);

settings! {
    /// Where everything lies.
    paths: Paths {
        /// Folder that holds inbox, outbox, failed, done and unmatched, unless those are set.
        root: PathBuf = Path, computed "$STATE_DIRECTORY as a service, else ~/onnxd";
    }
    /// What is watched, and when a drop counts as complete.
    intake: Intake {
        /// Folder people drop networks into.
        inbox: PathBuf = Path, computed "inbox below paths.root";
        /// A drop counts as complete once none of its files changed for this long.
        settle_ms: u64 = Int(0, 3_600_000), 2000;
        /// The whole inbox is looked through this often, whatever the system reported.
        rescan_s: u64 = Int(1, 86_400), 30;
        /// Look through the inbox instead of trusting notifications of the system, as network
        /// file systems need.
        poll: bool = Bool, false;
        /// What no front-end recognises is moved away after this long; 0 leaves it.
        unmatched_after_s: u64 = SECONDS, 3600;
        /// A drop counts as complete only when a file of its name with `.ready` added appears.
        ready_markers: bool = Bool, false;
        /// Names of files and folders that are not complete yet; `*` and `?` stand for any
        /// characters and for one. A drop is not taken while one of them changes in it, nor while a
        /// download (`*.incomplete`) lies in it.
        unfinished: Vec<String> = List(Box::new(Text)), [
            "*.part", "*.partial", "*.tmp", "*.crdownload", "*.download", "*.filepart",
            "*.opdownload", "*.uploading", "*.incomplete", "_UNPACK_*"
        ];
        /// Names of files and folders that are not looked at, hidden ones aside.
        ignored: Vec<String> = List(Box::new(Text)), [
            "*~", "~$*", "*.swp", "*.swo", "*.swx", "*.sync-conflict-*", "* conflicted copy *",
            "*.lock", "Thumbs.db", "ehthumbs.db", "desktop.ini", "@eaDir", "#recycle", "__MACOSX",
            "lost+found"
        ];
        /// Whether conversions read a copy of a drop, or the drop itself where all of it belongs to
        /// the daemon's own user. Whoever can still write into a drop that was moved can change
        /// what is converted.
        take: Take = ValueKind::words(&["copy", "move"]), "copy";
        /// At most this much of the drops below one folder of the inbox is copied and not converted
        /// yet. The others wait in the inbox.
        in_flight_mib: u64 = Int(1, 1_073_741_824), 65536;
    }
    /// What is written, and what becomes of the originals.
    output: Output {
        /// Folder for results.
        outbox: PathBuf = Path, computed "outbox below paths.root";
        /// Folder for the originals of failed conversions, with the reason.
        failed: PathBuf = Path, computed "failed below paths.root";
        /// Folder for the originals of successful conversions.
        done: PathBuf = Path, computed "done below paths.root";
        /// Folder for what no front-end recognised.
        unmatched: PathBuf = Path, computed "unmatched below paths.root";
        /// What becomes of the originals after success: moved to output.done, or deleted.
        originals: Originals = ValueKind::words(&["move", "delete"]), "move";
        /// Permissions of the files in the outbox, in octal.
        mode: FileMode = MODE, "0644";
        /// Keep the folder that a conversion worked in, also after success.
        keep_work: bool = Bool, false;
    }
    /// Where the daemon keeps what it knows.
    state: State {
        /// Folder of the job store and of running jobs.
        dir: PathBuf = Path,
            computed "state below $STATE_DIRECTORY, else $XDG_STATE_HOME/onnxd, else ~/.local/state/onnxd";
    }
    /// How `onnxd jobs` and `onnxd ctl` reach the daemon.
    control: Control {
        /// Unix socket of the running daemon.
        socket: PathBuf = Path,
            computed "control.sock in $RUNTIME_DIRECTORY, else in state.dir";
    }
    /// The processes that convert, and their limits.
    worker: Worker {
        /// Conversions that run at the same time.
        parallel_max: u32 = Int(1, 1024), computed "half the processor cores, at least 1";
        /// Threads of one conversion.
        threads: u32 = Int(1, 1024), computed "processor cores / parallel_max, at least 1";
        /// Memory of one conversion, mapped input files not counted.
        memory_mib_max: u64 = Int(64, 1_048_576), 8192;
        /// A conversion that takes longer is stopped.
        timeout_s: u64 = Int(1, 2_592_000), 3600;
        /// A conversion that uses more processor time is stopped; 0 sets no limit.
        cpu_s: u64 = SECONDS, 0;
        /// Largest file a conversion may write.
        file_mib_max: u64 = Int(1, 16_777_216), 262_144;
        /// All that a conversion may write; one that writes more is stopped.
        disk_mib_max: u64 = Int(1, 1_073_741_824), 262_144;
        /// Threads that a conversion may have in all, those that its plugins start counted.
        threads_max: u32 = Int(1, 1_000_000),
            computed "worker.threads + 2 * processor cores + 64";
        /// Whether a conversion may run where the system cannot confine it completely.
        confine: Confine = ValueKind::words(&["required", "best-effort"]), "best-effort";
    }
    /// How often jobs are tried and how long they are remembered.
    jobs: Jobs {
        /// A job that fails for reasons of the machine is tried this often.
        attempts_max: u32 = Int(1, 100), 3;
        /// Finished jobs are forgotten after this many days.
        retain_days: u32 = Int(1, 36_500), 30;
        /// At most this many finished jobs are remembered.
        retain_max: u64 = COUNT, 10000;
        /// No job is started while the disk has less space.
        min_free_mib: u64 = Int(0, 1_073_741_824), 256;
        /// Running conversions may go on this long when the daemon is told to stop.
        drain_timeout_s: u64 = Int(0, 86_400), 20;
    }
    /// Which plugins are loaded.
    plugins: Plugins {
        /// Folders that are searched for plugins, in this order, before the built-in ones.
        path: Vec<PathBuf> = List(Box::new(Path)), [];
        /// Search the built-in folders, too: the program's own, then `/usr/lib/onnxd/plugins`.
        builtin: bool = Bool, true;
        /// Ids of plugins that are not used.
        disable: Vec<String> = List(Box::new(Text)), [];
    }
    /// What runs models.
    engine: Engine {
        /// Library of ONNX Runtime; empty means `$ORT_DYLIB_PATH`, else where libraries usually lie.
        onnxruntime_library: String = Text, "";
    }
    /// What the daemon says about its work.
    log: Log {
        /// Least important messages that are shown.
        level: LogLevel = ValueKind::words(&["error", "warn", "info", "debug", "trace"]), "info";
        /// `text` for people, `json` for programs; `auto` is text with colours on a terminal and
        /// plain text elsewhere.
        format: LogFormat = ValueKind::words(&["auto", "text", "json"]), "auto";
    }
}

/// What becomes of the originals after success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Originals {
    /// Moved to `output.done`.
    Move,
    /// Deleted.
    Delete,
}

/// What conversions read of a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Take {
    /// A copy that only the daemon can write.
    Copy,
    /// The drop itself, if all of it belongs to the daemon's own user; else a copy.
    Move,
}

/// Whether a worker may run where it cannot be confined completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confine {
    /// No: the job fails.
    Required,
    /// Yes, with what the system offers.
    BestEffort,
}

/// Least important messages that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Notation of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Text with colours on a terminal, plain elsewhere.
    Auto,
    /// Text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Permissions of a file, written in octal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct FileMode(pub u32);

impl TryFrom<String> for FileMode {
    type Error = String;

    /// Three or four octal digits that leave the owner able to read and write.
    fn try_from(text: String) -> Result<FileMode, String> {
        let refuse = |wanted: &str| Err(refusal(wanted, &Value::from(text.as_str())));
        let octal = matches!(text.len(), 3 | 4) && text.bytes().all(|b| (b'0'..=b'7').contains(&b));
        let bits = u32::from_str_radix(&text, 8);
        match bits {
            Ok(bits) if octal && bits & 0o600 == 0o600 && bits <= 0o777 => Ok(FileMode(bits)),
            Ok(_) if octal => {
                refuse("a mode that lets the owner read and write, without special bits")
            }
            _ => refuse("an octal file mode such as \"0644\""),
        }
    }
}

fn check_mode(value: Value) -> Result<Value, String> {
    match value {
        Value::String(text) => FileMode::try_from(text.clone()).map(|_| Value::String(text)),
        other => Err(refusal("an octal file mode such as \"0644\", in quotes", &other)),
    }
}
