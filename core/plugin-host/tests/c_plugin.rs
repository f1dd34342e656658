//! The whole interface against a plugin in C: what loads, what is refused with which words, and
//! what becomes of each answer.

use bytes::Bytes;
use onnxd_diagnostics::{Class, Diagnostic};
use onnxd_params::Resolved;
use onnxd_plugin_abi::ABI_MINOR;
use onnxd_plugin_host::call::{CallError, import, probe, run_passes};
use onnxd_plugin_host::{HostEvent, JobContext, Library, Submission, TensorTable, inspect};
use onnxd_proto::onnxd::{ClaimLevel, InputFile};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Compiles the plugin with macros; `None` where there is no C compiler.
///
/// Every library stays on disk while the tests run: the loader knows open libraries by their inode,
/// which a deleted file would leave to the next one.
fn built(macros: &[&str]) -> Option<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler `cc` on this machine");
        return None;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join(format!("c_plugin_{number}.so"));
    let result = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-shared", "-fPIC", "-I"])
        .arg(here.join("../plugin-abi"))
        .args(macros.iter().map(|m| format!("-D{m}")))
        .arg("-o")
        .arg(&library)
        .arg(here.join("tests/plugin.c"))
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    Some(library)
}

struct Bench {
    library: Library,
    context: JobContext,
    cancel: Arc<AtomicBool>,
    events: Arc<Mutex<Vec<HostEvent>>>,
    folder: tempfile::TempDir,
}

fn bench(macros: &[&str], network: &str) -> Option<Bench> {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::open(&built(macros)?).unwrap();
    let path = folder.path().join(network);
    std::fs::write(&path, b"TOY!abc").unwrap();
    let path = path.into_os_string().into_string().unwrap();
    let files = [InputFile { name: network.into(), path, ..InputFile::default() }];
    let params = Resolved::default();
    let submission = Submission { files: &files, network, params: &params, lowered: &[] };
    let (cancel, events) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let seen: Arc<Mutex<Vec<HostEvent>>> = Arc::clone(&events);
    let sink = move |event| seen.lock().unwrap().push(event);
    let context = JobContext::new(submission, TensorTable::new(), 1, Arc::clone(&cancel), sink);
    Some(Bench { library, context, cancel, events, folder })
}

fn pass(id: &str) -> Vec<String> {
    vec![id.to_owned()]
}

fn refusal(macros: &[&str]) -> Option<Diagnostic> {
    let library = built(macros)?;
    Some(inspect(&library).unwrap_err())
}

#[test]
fn a_good_plugin_is_inspected() {
    let Some(library) = built(&[]) else { return };
    let info = inspect(&library).unwrap();
    assert_eq!((info.id.as_str(), info.version.as_str()), ("org.example.test", "1.2.3"));
    assert_eq!((info.abi_major, info.abi_minor, info.sha256.len()), (1, ABI_MINOR.into(), 64));
    assert_eq!(info.components[0].globs, ["*.toy"]);
    assert_eq!(info.components.len(), 2);
    assert!(Library::open_inspected(&info).is_ok());
    let other = onnxd_proto::onnxd::PluginInfo { version: "1.2.4".into(), ..info };
    let refusal = Library::open_inspected(&other).err().unwrap();
    assert!(refusal.message.contains("found org.example.test 1.2.3"), "{refusal}");
}

#[test]
fn bad_headers_are_refused_with_expected_and_found() {
    let other = format!("built for plugin ABI 2.{ABI_MINOR}, this onnxd has 1.{ABI_MINOR}");
    let older = format!("needs plugin ABI 1.7 or later, this onnxd has 1.{ABI_MINOR}");
    for (macros, expected) in [
        (&["MAGIC=\"NOTAPLUG\""][..], "begins with \"NOTAPLUG\", expected \"ONNXDPLG\""),
        (&["MAJOR=2"], other.as_str()),
        (&["MIN_HOST_MINOR=7"], &older),
        (&["HEADER_SIZE=40"], "struct_size is 40, expected 96 or more"),
        (&["ID=\"org.\\xff\\xfe\""], "id in the header is not UTF-8"),
        (&["ID=\"\""], "id in the header is empty"),
        (&["ID=\"Spaces in it\""], "id `Spaces in it`: expected two or more words"),
        (&["SPOIL_NULL_ENTRY"], "has no entry function"),
        (&["SPOIL_NO_SYMBOL"], "exports no symbol `onnxd_plugin_header`"),
    ] {
        let Some(refusal) = refusal(macros) else { return };
        assert!(refusal.message.contains(expected), "{expected}: {}", refusal.message);
        assert_eq!(refusal.code, "N0403");
        assert!(!refusal.help.is_empty());
    }
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    std::fs::write(&text, b"hello").unwrap();
    assert!(inspect(&text).unwrap_err().message.contains("text.so"));
}

#[test]
fn bad_tables_are_told() {
    let Some(library) = built(&["SPOIL_REFUSES"]) else { return };
    let refused = Library::open(&library).err().unwrap();
    assert!(refused.message.contains("org.example.test 1.2.3 refuses this host"), "{refused}");

    let Some(library) = built(&["TABLE_SIZE=16"]) else { return };
    let broken = Library::open(&library).err().unwrap();
    assert!(broken.message.contains("struct_size of its table is 16"), "{broken}");
    assert_eq!(broken.code, "N0406");

    let Some(Bench { library, mut context, folder: _folder, .. }) =
        bench(&["SPOIL_NO_RUN"], "net.toy")
    else {
        return;
    };
    let one = failed(import(&library, "toy", &mut context));
    assert!(one.message.contains("does not offer the function `run`"), "{one}");
}

#[test]
fn an_older_table_without_extensions_works_as_far_as_it_goes() {
    // offsetof(onnxd_plugin, extension): the table ends before that function, or within its address.
    for size in ["TABLE_SIZE=32", "TABLE_SIZE=36"] {
        let Some(Bench { library, mut context, folder: _folder, .. }) = bench(&[size], "net.toy")
        else {
            return;
        };
        assert!(import(&library, "toy", &mut context).is_ok());
        let one = failed(probe(&library, "toy", &mut context));
        assert!(one.message.contains("`onnxd.probe/1`"), "{one}");
    }
}

#[test]
fn a_model_goes_from_front_end_to_pass_without_a_copy() {
    let Some(Bench { library, mut context, events, folder: _folder, .. }) = bench(&[], "net.toy")
    else {
        return;
    };
    let answer = probe(&library, "toy", &mut context).unwrap();
    assert_eq!(answer.level(), ClaimLevel::ClaimByContent);

    let imported = import(&library, "toy", &mut context).unwrap();
    assert_eq!(imported.model, "t2");
    let table = Arc::clone(context.tensors());
    assert_eq!(table.bytes(2).unwrap(), "abc");
    assert_eq!(table.bytes(2).unwrap().as_ptr(), table.bytes(1).unwrap()[4..].as_ptr());
    assert_eq!(context.take_metrics()["files"], 1.0);

    context.set_graph(imported.model);
    let passed = run_passes(&library, &pass("increment"), 0, &mut context).unwrap();
    assert_eq!(passed.model.unwrap(), "t3");
    assert_eq!(table.bytes(3).unwrap(), "bcd");
    let passed = run_passes(&library, &pass("nothing"), 0, &mut context).unwrap();
    assert_eq!(passed.model, None);

    let logged = HostEvent::Log { level: 3, target: "toy".into(), text: "imported".into() };
    assert!(events.lock().unwrap().contains(&logged));
}

#[test]
fn a_front_end_declines() {
    let Some(Bench { library, mut context, folder: _folder, .. }) = bench(&[], "other.bin") else {
        return;
    };
    let answer = probe(&library, "toy", &mut context).unwrap();
    assert_eq!((answer.level(), answer.reason.as_str()), (ClaimLevel::ClaimNo, "no net.toy"));
}

fn failed<T: std::fmt::Debug>(result: Result<T, CallError>) -> Diagnostic {
    match result {
        Err(CallError::Failed(all)) => all.0.into_iter().next().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_become_diagnostics() {
    let Some(Bench { library, mut context, folder: _folder, .. }) = bench(&[], "net.toy") else {
        return;
    };
    context.set_graph(Bytes::from_static(b"t1"));
    let mut run = |id: &str| failed(run_passes(&library, &pass(id), 0, &mut context));
    for (id, code, class, text) in [
        ("panics", "N0402", Class::Internal, "panicked at 'oh'"),
        ("invalid", "N0502", Class::Input, "bad graph"),
        ("reserved", "N0406", Class::Internal, "reserved status 77: what"),
        ("lies", "N0404", Class::Internal, "it failed"),
        ("explains", "X1", Class::Input, "m [explains of plugin org.example.test 1.2.3]"),
    ] {
        let one = run(id);
        assert_eq!((one.code.as_ref(), one.class), (code, class), "{one}");
        assert!(one.message.contains(text), "{one}");
        let who = format!("[{id} of plugin org.example.test 1.2.3]");
        assert!(one.message.contains(&who), "{one}");
    }
    let one = failed(import(&library, "robots", &mut context));
    assert_eq!(one.code, "N0105");
    assert!(one.message.contains("unknown component [robots of plugin"), "{one}");
}

#[test]
fn cancellation_is_no_failure() {
    let Some(Bench { library, mut context, cancel, folder: _folder, .. }) = bench(&[], "net.toy")
    else {
        return;
    };
    context.set_graph(Bytes::from_static(b"t1"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            cancel.store(true, Ordering::Relaxed);
        });
        let result = run_passes(&library, &pass("waits"), 0, &mut context);
        assert_eq!(result, Err(CallError::Cancelled));
    });
}
