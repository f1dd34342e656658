//! Confinement and supervision for real: this program starts itself as a worker that tries what a
//! plugin must not do, and ends in every way a plugin can make it end.

use onnxd_diagnostics::Diagnostic;
use onnxd_proto::onnxd::request::What;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{
    ConvertRequest, ConvertResult, InputFile, Limits, Request, StageStarted, WorkerEvent,
};
use onnxd_worker::confine::outcome::{Exit, Outcome, conclude};
use onnxd_worker::confine::parent::{WorkerProcess, spawn};
use onnxd_worker::confine::{ConfinementMode, LOG_TARGET, NAMESPACES, SUBCOMMAND, THREADS};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[path = "confine_cases/child.rs"]
mod child;

const MEMORY_BYTES: u64 = 256 << 20;
const THREADS_MAX: u32 = 40;
const DISK_BYTES: u64 = 64 << 20;
/// The user of a second run where the first is root's, to whom the kernel grants more.
const NOBODY: u32 = 65534;
/// The argument of that run.
const AGAIN: &str = "again";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    match words.as_slice() {
        [SUBCOMMAND, fd, mode] => child::main(fd, mode),
        ["middle", folder] => middle(Path::new(folder)),
        // What the test runner may ask for.
        [.., "--list"] => {}
        [AGAIN] => all(),
        _ => {
            all();
            all_as_another_user();
        }
    }
}

fn all() {
    let tests: [(&str, fn()); 16] = [
        ("what_a_worker_may_not_do", what_a_worker_may_not_do),
        ("calls_that_no_filter_sees_do_nothing", calls_that_no_filter_sees_do_nothing),
        ("limits_hold", limits_hold),
        ("threads_have_a_limit", threads_have_a_limit),
        ("the_disk_has_a_limit", the_disk_has_a_limit),
        ("namespaces_are_a_workers_own", namespaces_are_a_workers_own),
        ("success_needs_a_result", success_needs_a_result),
        ("every_crash_is_attributed", every_crash_is_attributed),
        ("a_hanging_worker_is_stopped_in_time", a_hanging_worker_is_stopped_in_time),
        ("nonsense_on_the_link_ends_the_worker", nonsense_on_the_link_ends_the_worker),
        ("floods_of_messages_are_held_back", floods_are_held_back),
        ("standard_error_is_bounded", standard_error_is_bounded),
        ("a_worker_is_stopped_on_request", a_worker_is_stopped_on_request),
        ("a_worker_outlives_the_thread_that_started_it", outlives_the_thread),
        ("a_worker_dies_with_its_parent", dies_with_its_parent),
        ("a_program_that_is_missing_is_told", a_program_that_is_missing_is_told),
    ];
    for (name, test) in tests {
        test();
        // The runner shows it, as that of other tests.
        println!("test {name} ... ok");
    }
}

/// Where root runs the tests, all of them once more as a user without rights.
fn all_as_another_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Workers may read the program's folder, and must not read the folders of the tests.
    let [bin, temporary] = ["bin", "tmp"].map(|name| folder.path().join(name));
    [&bin, &temporary].into_iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let own = bin.join("confine");
    std::fs::copy(program(), &own).unwrap();
    for path in [folder.path(), &bin, &temporary, &own] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut again = std::process::Command::new(&own);
    again.arg(AGAIN).env("TMPDIR", &temporary).current_dir(&temporary);
    let status = again.uid(NOBODY).gid(NOBODY).status().unwrap();
    assert!(status.success(), "as user {NOBODY}: {status}");
}

/// A folder with an input, a file beside it, and a work folder.
struct ConfinedFolder {
    folder: tempfile::TempDir,
}

impl ConfinedFolder {
    fn new() -> ConfinedFolder {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        std::fs::write(folder.path().join("input.bin"), b"input").unwrap();
        std::fs::write(folder.path().join("secret.txt"), b"secret").unwrap();
        ConfinedFolder { folder }
    }

    fn start(&self, case: &str, limits: Limits) -> WorkerProcess {
        start(self.folder.path(), case, limits)
    }

    fn run(&self, case: &str, limits: Limits) -> Outcome {
        self.start(case, limits).follow(|_| {})
    }
}

fn start(folder: &Path, case: &str, limits: Limits) -> WorkerProcess {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let input = InputFile { path: path("input.bin"), ..Default::default() };
    let convert = ConvertRequest {
        name: case.to_owned(),
        files: vec![input],
        work_dir: path("work"),
        ..Default::default()
    };
    let request = Request { limits: Some(limits), what: Some(What::Convert(convert)) };
    spawn(&request, &program(), ConfinementMode::BestEffort).unwrap()
}

fn program() -> PathBuf {
    std::env::current_exe().unwrap()
}

fn usual() -> Limits {
    let (memory_bytes, file_bytes) = (MEMORY_BYTES, 1 << 20);
    let (threads_max, disk_bytes) = (THREADS_MAX, DISK_BYTES);
    let (wall_ms, cpu_seconds, threads) = (30_000, 20, 2);
    Limits { memory_bytes, file_bytes, wall_ms, cpu_seconds, threads, threads_max, disk_bytes }
}

fn only(outcome: &Outcome) -> Diagnostic {
    let mut all = conclude(outcome).unwrap_err().0;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn what_a_worker_may_not_do() {
    for case in [
        "files", "process_files", "network", "processes", "signals", "rights", "own_limits",
        "threads",
    ] {
        let (mut report, place) = (String::new(), ConfinedFolder::new());
        let outcome = place.start(case, usual()).follow(|event| {
            report += said(event, "").filter(|text| text.contains("confined: ")).unwrap_or("");
        });
        assert!(report.contains("confined: "), "{report}");
        if report.starts_with("not ") {
            eprintln!("not tested: {case}: {report}");
            continue;
        }
        let result = conclude(&outcome);
        assert!(result.is_ok(), "{case}: {}\n{}", result.unwrap_err(), outcome.stderr);
    }
}

/// Some kernels let the two calls of probes pass before any filter.
fn calls_that_no_filter_sees_do_nothing() {
    let outcome = ConfinedFolder::new().run("uprobe", usual());
    assert!(conclude(&outcome).is_ok(), "{outcome:?}");
    let outcome = ConfinedFolder::new().run("uretprobe", usual());
    let refused = conclude(&outcome).is_ok() || outcome.exit == Exit::Signal(ILL);
    assert!(refused, "{outcome:?}");
}

const ILL: i32 = rustix::process::Signal::ILL.as_raw();

fn limits_hold() {
    let place = ConfinedFolder::new();
    for case in ["file_size", "memory_is_refused"] {
        let outcome = place.run(case, usual());
        assert!(conclude(&outcome).is_ok(), "{case}: {outcome:?}");
    }
    let one = only(&place.run("memory_bomb", usual()));
    assert_eq!(one.code, "N0305", "{one}");

    let begin = Instant::now();
    let one = only(&place.run("busy", Limits { cpu_seconds: 1, ..usual() }));
    assert_eq!(one.code, "N0405", "{one}");
    assert!(one.message.contains("processor time"), "{one}");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

/// What a worker or its parent says about its confinement, if it begins with `head`.
fn said<'a>(event: &'a WorkerEvent, head: &str) -> Option<&'a str> {
    match &event.what {
        Some(Event::Log(line)) if line.target == LOG_TARGET => line.text.strip_prefix(head),
        _ => None,
    }
}

/// Either the kernel refuses more, or the parent ends the worker.
fn threads_have_a_limit() {
    let (mut held, place) = (String::new(), ConfinedFolder::new());
    let begin = Instant::now();
    // Address space must not be what ends it.
    let limits = Limits { memory_bytes: 0, ..usual() };
    let outcome = place.start("ten_thousand_threads", limits).follow(|event| {
        held += said(event, THREADS).unwrap_or_default();
    });
    if held.ends_with("held by the kernel") {
        let one = only(&outcome);
        assert_eq!(one.code, "TEST", "{one}");
        // The first thread counts, too.
        assert!(one.message.starts_with(&format!("{} threads, then ", THREADS_MAX - 1)), "{one}");
    } else {
        assert!(held.contains("counted by the parent"), "{held}");
        let one = only(&outcome);
        assert_eq!(one.code, "N0313", "{one}");
        assert!(one.message.contains("plugin org.example.bad"), "{one}");
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

fn the_disk_has_a_limit() {
    for case in [
        "many_files", "files_behind_half_a_message", "nameless_files", "mapped_files",
        "many_folders",
    ] {
        let (place, begin) = (ConfinedFolder::new(), Instant::now());
        let one = only(&place.run(case, usual()));
        assert_eq!(one.code, "N0312", "{case}: {one}");
        assert!(one.message.contains("plugin org.example.bad"), "{one}");
        assert!(begin.elapsed() < Duration::from_secs(15), "{case}: {:?}", begin.elapsed());
    }
}

fn namespaces_are_a_workers_own() {
    let (mut own, mut differ) = (String::new(), Vec::new());
    let worker = ConfinedFolder::new().start("sleeps", Limits { wall_ms: 2000, ..usual() });
    let pid = worker.pid();
    let killer = worker.killer();
    let _outcome = worker.follow(|event| {
        own += said(event, NAMESPACES).unwrap_or_default();
        if matches!(event.what, Some(Event::Stage(_))) {
            let of = |who: &str, kind: &str| std::fs::read_link(format!("/proc/{who}/ns/{kind}"));
            let kinds = ["user", "net", "ipc", "uts", "cgroup"];
            let differs =
                |kind: &&str| of(&pid.to_string(), kind).unwrap() != of("self", kind).unwrap();
            differ = kinds.into_iter().filter(differs).collect();
            killer.kill_group(Duration::ZERO);
        }
    });
    for (word, kinds) in [("user", &["user"][..]), ("network", &["net", "ipc", "uts", "cgroup"])] {
        let says = own.contains(word) && !own.starts_with("none");
        assert!(kinds.iter().all(|kind| differ.contains(kind) == says), "{own}: {differ:?}");
    }
    eprintln!("namespaces {own}");
}

fn success_needs_a_result() {
    let place = ConfinedFolder::new();
    let good = place.run("nothing", usual());
    assert_eq!(conclude(&good).unwrap(), ConvertResult::default());
    let one = only(&place.run("exit_0", usual()));
    assert_eq!(one.code, "N0903");
    assert!(one.message.contains("plugin org.example.bad, component oops"), "{one}");
    let one = only(&place.run("result_then_crash", usual()));
    assert_eq!(one.code, "N0401", "{one}");
}

fn every_crash_is_attributed() {
    let place = ConfinedFolder::new();
    for (case, code, text) in [
        ("segfault", "N0401", "signal 11"),
        ("abort", "N0401", "signal 6"),
        ("stack_overflow", "N0401", "stack overflow"),
        ("panic", "N0402", "panicked"),
        ("exit_3", "N0406", "status 3"),
        ("killed", "N0301", "SIGKILL"),
    ] {
        let one = only(&place.run(case, usual()));
        assert_eq!(one.code, code, "{case}: {one}");
        assert!(one.message.contains(text), "{case}: {one}");
        let who = "plugin org.example.bad, component oops, in stage `optimize`";
        assert!(one.message.contains(who), "{case}: {one}");
    }
}

fn a_hanging_worker_is_stopped_in_time() {
    let limits = Limits { wall_ms: 400, ..usual() };
    let place = ConfinedFolder::new();
    for case in ["sleeps", "closes_and_sleeps"] {
        let begin = Instant::now();
        let outcome = place.run(case, limits);
        assert!(begin.elapsed() < Duration::from_secs(15), "{case}");
        assert!(matches!(outcome.exit, Exit::Signal(9 | 15)), "{case}: {outcome:?}");
        let one = only(&outcome);
        assert!(one.message.contains("org.example.bad"), "{one}");
        if case == "sleeps" {
            assert_eq!(one.code, "N0405");
            assert!(begin.elapsed() < Duration::from_secs(5));
        } else {
            assert_eq!(one.code, "N0406");
            assert!(one.message.contains("closed its link to onnxd without an answer"), "{one}");
        }
    }
}

fn nonsense_on_the_link_ends_the_worker() {
    for (case, why) in
        [("nonsense", "bytes was announced"), ("message_bomb", "it would take more than")]
    {
        let one = only(&ConfinedFolder::new().run(case, usual()));
        assert_eq!(one.code, "N0406");
        assert!(one.message.contains("plugin org.example.bad"), "{one}");
        assert!(one.message.contains(why), "{one}");
    }
}

fn floods_are_held_back() {
    let (mut lines, mut stages, mut progress, mut last) = (0, 0, 0, String::new());
    let outcome =
        ConfinedFolder::new().start("floods", usual()).follow(|event| match &event.what {
            Some(Event::Log(line)) => {
                lines += 1;
                last.clone_from(&line.text);
            }
            Some(Event::Stage(_)) => stages += 1,
            Some(Event::Progress(_)) => progress += 1,
            _ => {}
        });
    assert!(conclude(&outcome).is_ok(), "{outcome:?}");
    // Of 20,000 each, sent within some seconds.
    assert!(lines <= 2002 && stages < 10_000 && progress < 10_000, "{lines} {stages} {progress}");
    assert!(last.contains("of this worker's log were dropped"), "{last}");
}

fn standard_error_is_bounded() {
    let outcome = ConfinedFolder::new().run("chatter", usual());
    assert!(conclude(&outcome).is_ok(), "{outcome:?}");
    assert!(outcome.stderr.len() <= 16 * 1024);
    assert!(outcome.stderr.ends_with("last line\n"));
}

fn a_worker_is_stopped_on_request() {
    let worker = ConfinedFolder::new().start("sleeps", usual());
    let killer = worker.killer();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        killer.kill_group(Duration::from_millis(500));
        killer
    });
    let outcome = worker.follow(|_| {});
    assert!(outcome.stopped);
    assert_eq!(only(&outcome).code, "N0301");
    // The process number is free now; nothing must be sent to it.
    stopper.join().unwrap().kill_group(Duration::ZERO);
}

fn outlives_the_thread() {
    let place = ConfinedFolder::new();
    let folder = place.folder.path().to_owned();
    let worker = std::thread::spawn(move || start(&folder, "slow", usual())).join().unwrap();
    let outcome = worker.follow(|_| {});
    assert!(conclude(&outcome).is_ok(), "{outcome:?}");
}

fn dies_with_its_parent() {
    use std::io::{BufRead, BufReader};
    let place = ConfinedFolder::new();
    let mut middle = std::process::Command::new(program())
        .arg("middle")
        .arg(place.folder.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(middle.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let process = PathBuf::from("/proc").join(line.trim());
    assert!(process.exists(), "{line}");
    middle.kill().unwrap();
    middle.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    while is_running(&process) {
        assert!(Instant::now() < until, "the worker outlived its parent");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that has ended may stay listed until its new parent asks for its status.
fn is_running(process: &Path) -> bool {
    match std::fs::read_to_string(process.join("stat")) {
        Ok(stat) => !stat.contains(") Z ") && !stat.contains(") X "),
        Err(_) => false,
    }
}

/// A parent to be killed: says which process its worker is, once it runs.
fn middle(folder: &Path) {
    let worker = start(folder, "sleeps", usual());
    let pid = worker.pid();
    let _outcome = worker.follow(|event| {
        if matches!(event.what, Some(Event::Stage(_))) {
            println!("{pid}");
        }
    });
}

fn a_program_that_is_missing_is_told() {
    let refused =
        spawn(&Request::default(), Path::new("/nonexistent/onnxd"), ConfinementMode::Required);
    let one = refused.err().unwrap();
    assert_eq!(one.code, "N0303");
    assert!(one.message.contains("`/nonexistent/onnxd worker` could not be started"), "{one}");
}

/// What the child says when it begins the part in which a plugin is in charge.
fn stage() -> WorkerEvent {
    WorkerEvent {
        what: Some(Event::Stage(StageStarted {
            stage: "optimize".into(),
            plugin: "org.example.bad".into(),
            component: "oops".into(),
        })),
    }
}
