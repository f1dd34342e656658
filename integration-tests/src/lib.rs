//! What the judges of the built program share: where it is, small models, and how to run a conversion.

use onnxd_config::descriptor::Component;
use onnxd_config::{Declared, Descriptor};
use onnxd_ir::ops::Relu;
use onnxd_ir::{DataType, Dim, Graph, Model, Tensor, ValueType};
use onnxd_onnx::{WriteOptions, write_model};
use onnxd_plugin_host::inspect;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use tempfile::TempDir;

pub mod numbers;

/// The plugins that onnxd comes with.
pub const PLUGINS: [&str; 12] = [
    "libonnxd_frontend_onnx.so", "libonnxd_frontend_n2d2.so", "libonnxd_frontend_torch.so",
    "libonnxd_frontend_tensorflow.so", "libonnxd_frontend_hf.so", "libonnxd_passes_cleanup.so",
    "libonnxd_passes_fusion.so", "libonnxd_passes_layout.so", "libonnxd_passes_mediapipe.so",
    "libonnxd_quant_onnx.so", "libonnxd_quant_inc.so", "libonnxd_quant_n2d2.so",
];

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the repository").into()
}

/// The folder that the build put programs and plugins into: that of this test, one level up from `deps`.
pub fn build_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let folder = test.parent().and_then(Path::parent).expect("tests lie below the build folder");
    folder.into()
}

/// The built program.
///
/// # Panics
/// If it was not built.
pub fn onnxd() -> PathBuf {
    let path = build_folder().join("onnxd");
    assert!(path.exists(), "{} is missing: run `cargo build --workspace` first", path.display());
    path
}

/// Copies the built program to a place from which it can be started at once.
///
/// Another process writes the copy. Programs that other tests start meanwhile would inherit a file that is open here,
/// and a program that is open for writing cannot be started.
///
/// # Panics
/// If it was not built or cannot be copied.
pub fn copy_program(to: &Path) {
    let copied = Command::new("cp").arg(onnxd()).arg(to).status().expect("`cp` starts");
    assert!(copied.success(), "{} cannot be written", to.display());
}

/// A command that runs the built program without the user's settings and state.
///
/// It knows the built plugins already. A program that does not reads all of them, 600 MB where nothing is optimized.
pub fn command(state: &Path) -> Command {
    let inspected = inspected();
    let own = state.join("plugins");
    if state.is_dir() && !own.exists() {
        copied(&inspected.join("onnxd/plugins"), &own);
    }
    command_of(state, inspected)
}

/// As [`command`], for a program that keeps what it finds out about plugins in `cache`, unless it has a state folder.
fn command_of(state: &Path, cache: &Path) -> Command {
    let mut command = Command::new(onnxd());
    command.env_clear().env("HOME", state).env("ONNXD_STATE_DIR", state);
    command.env("XDG_CACHE_HOME", cache);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// A folder beside the program with what inspections of the built plugins gave. An entry of an older build does not
/// count, and is replaced.
fn inspected() -> &'static Path {
    static INSPECTED: LazyLock<PathBuf> = LazyLock::new(|| {
        let cache = build_folder().join("inspected");
        let list = command_of(&cache.join("none"), &cache).args(["plugins", "list"]).output();
        let told = list.expect("the program starts");
        let folder = cache.join("onnxd/plugins");
        assert!(folder.is_dir(), "nothing was found out about plugins: {}", outcome(&told).1);
        cache
    });
    &INSPECTED
}

/// A library that the build put beside the program.
///
/// # Panics
/// If it was not built.
pub fn library(name: &str) -> PathBuf {
    let path = build_folder().join(name);
    assert!(path.exists(), "{} is missing: run `cargo build --workspace` first", path.display());
    path
}

/// `Relu` of a vector, with a weight so that there is something to map.
pub fn small_model() -> Model {
    let mut g = Graph::new("small");
    let vector = || Some(ValueType::tensor(DataType::Float, [Dim::from("n"), Dim::from(4)]));
    let x = g.add_input("x", vector());
    let w = g.add_initializer("w", Tensor::vector(vec![1.0f32, -2.0, 3.0, -4.0]));
    let sum = g.add("sum", onnxd_ir::ops::Add::new(x, w));
    let y = g.add("y", Relu::new(sum));
    g[sum].ty = vector();
    g[y].ty = vector();
    g.mark_output(y);
    Model::new(g, 8, 17)
}

/// Writes [`small_model`], with a documentation text that makes it unlike others.
///
/// # Panics
/// If it cannot be written.
pub fn write_small_model(path: &Path, mark: &str) {
    let model = Model { doc: mark.to_owned(), ..small_model() };
    write_model(&model, path, &WriteOptions::default()).expect("the model can be written");
}

/// Has a command use the plugins of one folder and no others.
pub fn with_plugins_of(command: &mut Command, folder: &Path) {
    command.env("ONNXD_PLUGINS_PATH", folder).env("ONNXD_PLUGINS_BUILTIN", "false");
}

/// Exit status and standard error.
pub fn outcome(output: &Output) -> (i32, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or(-1), text)
}

/// A folder of a test's own whose folder `plugins` holds these and no others.
///
/// # Panics
/// If one was not built, or the folder cannot be made.
pub fn folder_with(plugins: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path().join("plugins");
    fs::create_dir_all(&at).expect("a folder for plugins");
    for name in plugins {
        fs::copy(library(name), at.join(name)).expect("a copy of a plugin");
    }
    folder
}

/// Exit status, standard error and report (null without one) of a conversion of `files` to the folder `out`, with the
/// params `sets` and the plugins of the folder.
///
/// # Panics
/// If the program cannot be started.
pub fn converted(folder: &Path, out: &str, files: &[&str], sets: &[&str]) -> (i32, String, Value) {
    let out = folder.join(out);
    let mut run = command(folder);
    with_plugins_of(&mut run, &folder.join("plugins"));
    run.arg("convert");
    run.args(files.iter().map(|f| folder.join(f))).arg("--out").arg(&out);
    for set in sets {
        run.args(["--set", set]);
    }
    let (status, stderr) = outcome(&run.output().expect("the program starts"));
    let report = fs::read(out.join("report.json")).unwrap_or_default();
    (status, stderr, serde_json::from_slice(&report).unwrap_or(Value::Null))
}

/// Copies a file, or a folder with all below it; makes the folders above.
///
/// # Panics
/// If something cannot be read or written.
pub fn copied(from: &Path, to: &Path) {
    if from.is_file() {
        fs::create_dir_all(to.parent().expect("a file lies in a folder")).expect("a new folder");
        fs::copy(from, to).expect("a copy");
        return;
    }
    fs::create_dir_all(to).expect("a new folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        copied(&from.join(&name), &to.join(&name));
    }
}

/// The components of the plugins that lie beside the program, each with the id of its plugin.
pub fn components() -> Vec<(String, Component)> {
    let entries = fs::read_dir(build_folder()).unwrap().map(|entry| entry.unwrap().path());
    let is_plugin = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libonnxd_") && name.ends_with(".so")
    };
    let mut libraries: Vec<PathBuf> = entries.filter(is_plugin).collect();
    libraries.sort();
    let of = |library: &PathBuf| {
        let plugin = inspect(library).unwrap();
        let described = Descriptor::parse(&plugin.descriptor).unwrap();
        described.components.into_iter().map(move |component| (plugin.id.clone(), component))
    };
    libraries.iter().flat_map(of).collect()
}

/// The params of all conversions and of the plugins that lie beside the program.
pub fn declared() -> Declared {
    let components = components();
    let declared = Declared::from_components(components.iter().map(|(id, c)| (id.as_str(), c)));
    assert!(declared.clashes.is_empty(), "{:?}", declared.clashes);
    declared
}
