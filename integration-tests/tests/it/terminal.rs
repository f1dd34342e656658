//! What people see: on a terminal lines end between words and fit, elsewhere they stay whole, and what a plugin says
//! of its work neither floods nor forges nor commands anything.

use crate::site::{Site, wait};
use onnxd_integration_tests::{command, folder_with, outcome, with_plugins_of, write_small_model};
use onnxd_ir::Tensor;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Goes to the begin of the line that is overwritten, and clears it.
const CLEAR: &str = "\r\u{1b}[2K";

/// Exit status and all that a terminal of so many columns gets from a command.
fn on_terminal(mut command: Command, columns: u16) -> (i32, String) {
    // Programs that other tests start meanwhile must not inherit the terminal.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let mut master = File::from(openpt(flags).unwrap());
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let name = Path::new(OsStr::from_bytes(name.as_bytes()));
    let slave = File::options().read(true).write(true).open(name).unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&slave, size).unwrap();
    command.stdin(Stdio::null()).stdout(slave.try_clone().unwrap()).stderr(slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let (mut all, mut part) = (Vec::new(), [0; 4096]);
    // Once no process has the other side open, reading is an error.
    while let Ok(n @ 1..) = master.read(&mut part) {
        all.extend_from_slice(&part[..n]);
    }
    let status = child.wait().unwrap().code().unwrap_or(-1);
    (status, String::from_utf8(all).unwrap().replace("\r\n", "\n"))
}

/// Standard output and standard error without a terminal.
fn piped(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Columns that these tests' characters take.
fn width(text: &str) -> usize {
    text.chars().map(|c| if c >= '\u{1100}' { 2 } else { 1 }).sum()
}

/// Lines fit, unless they are one word or a path; and nothing else is said than without a terminal.
fn fits(shown: &str, plain: &str, columns: u16) {
    for line in shown.lines().filter(|line| width(line) > columns.into()) {
        let is_whole = !line.trim().contains(' ') || line.trim().starts_with('/');
        assert!(is_whole, "{} of {columns} columns: {line}", width(line));
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(shown), words(plain));
}

fn prepared(plugins: &[&str]) -> tempfile::TempDir {
    let folder = folder_with(plugins);
    write_small_model(&folder.path().join("net.onnx"), "");
    let samples = Tensor::from_vec(vec![7, 4], (0..28).map(|i| i as f32 / 4.0 - 2.0).collect());
    onnxd_arrays::write(&folder.path().join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
    folder
}

fn run(folder: &Path, args: &[&str]) -> Command {
    let mut run = command(folder);
    with_plugins_of(&mut run, &folder.join("plugins"));
    run.current_dir(folder).args(args);
    run
}

/// What was shown in the line that is overwritten, and the lines that stayed.
fn parted(shown: &str) -> (Vec<String>, Vec<String>) {
    let (mut overwritten, mut stayed) = (Vec::new(), Vec::new());
    for part in shown.split(CLEAR) {
        match part.ends_with('\n') {
            true => stayed.extend(part.lines().map(str::to_owned)),
            false => overwritten.push(part.to_owned()),
        }
    }
    (overwritten, stayed)
}

#[test]
fn progress_is_one_line_that_fits_and_plain_lines_elsewhere() {
    let folder = prepared(&["libexample_plugin.so", "libonnxd_frontend_onnx.so"]);
    let out = ["--out", "out", "--set", "passes.profile=none", "--set"];
    let args =
        [&["convert", "net.onnx", "calib.npz"][..], &out, &["quantization.format=round-weights"]]
            .concat();
    for columns in [80, 40, 20] {
        let (status, shown) = on_terminal(run(folder.path(), &args), columns);
        assert_eq!(status, 0, "{shown}");
        let (overwritten, _) = parted(&shown);
        assert!(overwritten.iter().any(|line| line.starts_with("quantize: ")), "{shown}");
        for line in overwritten {
            assert!(width(&line) < columns.into() && !line.contains(['\n', '\u{1b}']), "{line:?}");
        }
    }
    let plain = piped(run(folder.path(), &args));
    assert!(plain.contains("\nquantize\n") && !plain.contains('\u{1b}'), "{plain}");
}

#[test]
fn what_a_plugin_says_of_its_work_is_bounded_and_harmless() {
    let folder = prepared(&["libhostile_plugins.so", "libonnxd_frontend_onnx.so"]);
    let out = ["--out", "out", "--set", "passes.profile=none", "--set"];
    let args = [&["convert", "net.onnx"][..], &out, &["quantization.format=talk"]].concat();
    let (_, shown) = on_terminal(run(folder.path(), &args), 80);
    let (overwritten, stayed) = parted(&shown);
    assert!(overwritten.iter().any(|l| l.contains("a\\u{1b}[2J\\u{1b}]0;")), "{overwritten:#?}");
    for line in &overwritten {
        assert!(width(line) < 80 && !line.contains(char::is_control), "{line:?}");
    }
    assert!(stayed.iter().all(|l| !l.starts_with("N0901") && !l.contains('\u{1b}')), "{stayed:?}");
    let output = run(folder.path(), &args).output().unwrap();
    let (_, plain) = outcome(&output);
    assert!(plain.lines().count() < 30 && plain.len() < 10_000, "{} bytes", plain.len());
    assert!(!plain.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{plain}");
}

#[test]
fn explanations_and_plugins_fit() {
    let folder = prepared(&["libexample_plugin.so", "libonnxd_frontend_onnx.so"]);
    let long = "\u{7f51}\u{7edc}\u{1f600} a network with a long name ".repeat(4) + ".onnx";
    write_small_model(&folder.path().join(&long), "");
    let commands: [&[&str]; 6] = [
        &["explain", &long],
        &["explain", "--all", "net.onnx"],
        &["plugins", "list"],
        &["plugins", "inspect", "org.onnxd.example"],
        &["check", &long],
        &["explain", "plugins"],
    ];
    for args in commands {
        let plain = piped(run(folder.path(), args));
        for columns in [80, 40] {
            let (_, shown) = on_terminal(run(folder.path(), args), columns);
            fits(&shown, &plain, columns);
        }
    }
}

#[test]
fn the_daemon_tells_how_far_a_job_is_and_its_answers_fit() {
    let mut site = Site::new();
    let plugins = folder_with(&["libhostile_plugins.so", "libonnxd_frontend_onnx.so"]);
    let path = plugins.path().join("plugins").display().to_string();
    site.set("PLUGINS_PATH", &path);
    site.set("PLUGINS_BUILTIN", "false");
    let _daemon = site.start();
    let drop = site.at("drop \u{7f51}\u{7edc}");
    std::fs::create_dir_all(&drop).unwrap();
    write_small_model(&drop.join("net.onnx"), "");
    std::fs::write(drop.join("params.toml"), "[passes]\nprofile = \"none\"\nenable = [\"hang\"]\n")
        .unwrap();
    std::fs::rename(&drop, site.inbox().join("drop \u{7f51}\u{7edc}")).unwrap();
    let job = wait("the pass to be named", || {
        site.jobs().into_iter().find(|job| job["progress"] == "hang")
    });
    assert_eq!(job["stage"], "optimize");
    let status = site.ask(r#"{"do":"status"}"#);
    assert_eq!(status["running"][0]["progress"], "hang");
    let id = job["job"].as_str().unwrap();
    let (_, listed, _) = site.run(&["jobs", "list"]);
    assert!(listed.contains("running (optimize)") && listed.contains("  hang\n"), "{listed}");
    site.run(&["jobs", "cancel", id]);
    wait("its end", || site.jobs().into_iter().find(|job| job["stage"] == ""));
    let commands: [&[&str]; 5] = [
        &["jobs", "show", id],
        &["ctl", "status"],
        &["ctl", "health"],
        &["ctl", "inbox"],
        &["ctl", "check-config"],
    ];
    // Ages and scans go on between two answers.
    let same = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    for args in commands {
        let plain = piped(site.onnxd(args));
        for columns in [80, 40] {
            let (_, shown) = on_terminal(site.onnxd(args), columns);
            fits(&same(&shown), &same(&plain), columns);
        }
    }
}
