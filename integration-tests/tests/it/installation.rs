//! Installations as people make them: the program alone, libraries that are no plugins, and what the
//! manual tells to copy.

use crate::site::Site;
use cargo_metadata::{CrateType, MetadataCommand};
use onnxd_integration_tests::{
    command, copy_program, library, onnxd, outcome, root, with_plugins_of, write_small_model,
};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Much less than the demo waits for a result.
const AT_ONCE: Duration = Duration::from_secs(30);

/// A folder whose folder `bin` has the program and nothing beside it.
fn alone() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    let program = folder.path().join("bin/onnxd");
    if fs::hard_link(onnxd(), &program).is_err() {
        copy_program(&program);
    }
    folder
}

fn run(program: &TempDir, args: &[&str]) -> (i32, String, Duration) {
    let mut run = Command::new(program.path().join("bin/onnxd"));
    run.env_clear().env("HOME", program.path()).args(args);
    let started = Instant::now();
    let (status, stderr) = outcome(&run.output().unwrap());
    (status, stderr, started.elapsed())
}

/// The folders that systemd makes for the unit, and no settings.
#[test]
fn the_daemon_starts_in_the_folders_of_a_service() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["lib", "run"] {
        fs::create_dir(at(name)).unwrap();
    }
    let mut run = command(&at("unused"));
    run.env_remove("ONNXD_STATE_DIR").arg("once");
    run.env("STATE_DIRECTORY", at("lib")).env("RUNTIME_DIRECTORY", at("run"));
    let (status, stderr) = outcome(&run.output().unwrap());
    assert_eq!(status, 0, "{stderr}");
    assert!(at("lib/inbox").is_dir() && at("lib/state").is_dir());
}

#[test]
fn without_a_front_end_commands_say_so_at_once() {
    let program = alone();
    let at = |name: &str| program.path().join(name).display().to_string();
    write_small_model(&program.path().join("net.onnx"), "");
    let (net, out, demo) = (at("net.onnx"), at("out"), at("demo"));
    for args in [&["convert", &net, "--out", &out][..], &["once"], &["demo", "--dir", &demo]] {
        let (status, stderr, took) = run(&program, args);
        assert_eq!(status, 75, "{args:?}: {stderr}");
        assert!(stderr.contains("N0407"), "{args:?}: {stderr}");
        let searched =
            format!("`{}`", program.path().join("bin").canonicalize().unwrap().display());
        assert!(stderr.contains(&searched), "{args:?}: {stderr}");
        assert!(stderr.contains("`/usr/lib/onnxd/plugins`"), "{args:?}: {stderr}");
        assert!(took < AT_ONCE, "{args:?}: {took:?}");
    }
    assert!(!Path::new(&demo).exists());
    let output = Command::new(program.path().join("bin/onnxd"))
        .env_clear()
        .env("HOME", program.path())
        .arg("doctor")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("no front-end is installed"), "{told}");
}

#[test]
fn a_daemon_without_a_front_end_waits_for_plugins_and_says_so() {
    let mut site = Site::new();
    let plugins = site.at("plugins");
    fs::create_dir(&plugins).unwrap();
    site.set("PLUGINS_PATH", &plugins.display().to_string());
    site.set("PLUGINS_BUILTIN", "false");
    let daemon = site.start();
    let health = site.ask(r#"{"do":"health"}"#);
    assert_eq!(health["healthy"], false, "{health}");
    let problems = health["problems"].to_string();
    assert!(problems.contains("no front-end is installed"), "{problems}");
    assert!(problems.contains(&*plugins.to_string_lossy()), "{problems}");
    assert!(site.log().contains("nothing can be converted"), "{}", site.log());

    let name = "libonnxd_frontend_onnx.so";
    fs::copy(library(name), plugins.join(name)).unwrap();
    let reloaded = site.ask(r#"{"do":"reload"}"#);
    assert_eq!(reloaded["plugins_changed"], true, "{reloaded}");
    let health = site.ask(r#"{"do":"health"}"#);
    assert_eq!(health["healthy"], true, "{health}");
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn a_library_beside_a_plugin_is_no_finding_and_a_broken_plugin_is() {
    let folder = tempfile::tempdir().unwrap();
    let name = "libonnxd_frontend_onnx.so";
    fs::copy(library(name), folder.path().join(name)).unwrap();
    // How a library begins, and not a word of the plugin interface.
    let dependency = [&b"\x7fELF"[..], &[0; 60], b"and so on"].concat();
    fs::write(folder.path().join("libdependency.so"), dependency).unwrap();
    let list = |args: &[&str]| {
        let mut run = command(folder.path());
        with_plugins_of(&mut run, folder.path());
        let output = run.args(["plugins", "list"]).args(args).output().unwrap();
        let (status, stderr) = outcome(&output);
        (status, String::from_utf8_lossy(&output.stdout).into_owned(), stderr)
    };
    let (status, listed, stderr) = list(&[]);
    assert_eq!((status, stderr.as_str()), (0, ""), "{listed}");
    assert!(!listed.contains("libdependency.so"), "{listed}");
    let (status, listed, stderr) = list(&["--all"]);
    assert_eq!((status, stderr.as_str()), (0, ""), "{listed}");
    assert!(listed.contains("no plugin: ") && listed.contains("libdependency.so"), "{listed}");

    let whole = fs::read(library(name)).unwrap();
    fs::write(folder.path().join("libbroken.so"), &whole[..whole.len() / 20]).unwrap();
    let (status, listed, stderr) = list(&[]);
    assert_eq!(status, 1, "{listed}");
    assert!(listed.contains("org.onnxd.frontend-onnx"), "{listed}");
    assert!(stderr.contains("libbroken.so"), "{stderr}");
    let (status, listed, _) = list(&["--json"]);
    assert!(status == 1 && listed.contains("libbroken.so"), "{listed}");
}

#[test]
fn folders_of_the_settings_come_beside_the_built_in_ones() {
    let folder = tempfile::tempdir().unwrap();
    let name = "libexample_plugin.so";
    fs::copy(library(name), folder.path().join(name)).unwrap();
    let list = |only: &str| {
        let mut run = command(folder.path());
        run.env("ONNXD_PLUGINS_PATH", folder.path()).env("ONNXD_PLUGINS_BUILTIN", only);
        let output = run.args(["plugins", "list"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let both = list("true");
    assert!(both.contains("org.onnxd.example") && both.contains("org.onnxd.frontend-onnx"));
    let one = list("false");
    assert!(one.contains("org.onnxd.example") && !one.contains("org.onnxd.frontend-onnx"));
}

/// Every plugin that a build makes is in the table of what to install.
#[test]
fn the_manual_installs_every_plugin() {
    let metadata = MetadataCommand::new().current_dir(root()).no_deps().exec().unwrap();
    let plugins = root().join("plugins");
    let shipped: Vec<String> = metadata
        .workspace_packages()
        .into_iter()
        .filter(|p| p.manifest_path.as_std_path().starts_with(&plugins))
        .filter(|p| metadata.workspace_default_members.contains(&p.id))
        .flat_map(|p| p.targets.iter().filter(|t| t.crate_types.contains(&CrateType::CDyLib)))
        .map(|t| format!("lib{}.so", t.name.replace('-', "_")))
        .collect();
    assert!(shipped.len() >= 7, "{shipped:?}");
    let manual = fs::read_to_string(root().join("docs/manual.md")).unwrap();
    let row = manual.lines().find(|l| l.ends_with("| `/usr/lib/onnxd/plugins/` |"));
    let globs: Vec<&str> = row.expect("the table of what to install").split('`').collect();
    let fits = |library: &str| {
        globs.iter().any(|glob| {
            let parts = glob.split_once('*');
            parts.is_some_and(|(a, b)| library.starts_with(a) && library.ends_with(b))
        })
    };
    let missing: Vec<_> = shipped.iter().filter(|library| !fits(library)).collect();
    assert!(missing.is_empty(), "the manual's table lacks {missing:?}");
}

#[test]
fn components_of_every_kind_are_put_through_cases() {
    let folder = tempfile::tempdir().unwrap();
    for (name, cases) in [
        ("libonnxd_frontend_onnx.so", 7),
        ("libonnxd_quant_n2d2.so", 7),
        ("libonnxd_quant_onnx.so", 10),
        ("libonnxd_quant_inc.so", 10),
    ] {
        let mut run = command(folder.path());
        let output = run.args(["plugins", "check"]).arg(library(name)).output().unwrap();
        let (status, stderr) = outcome(&output);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(status, 0, "{told}{stderr}");
        assert_eq!(told.matches("pass  ").count(), cases, "{told}");
    }
}
