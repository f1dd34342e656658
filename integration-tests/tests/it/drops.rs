//! Drops of every kind start their job once, and only when they are complete.

use crate::site::{self, SETTLE, Site, report};
use onnxd_integration_tests::{root, small_model, write_small_model};
use onnxd_ir::Tensor;
use onnxd_onnx::{External, WriteOptions, write_model};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::sleep;

fn model(site: &Site, name: &str) -> PathBuf {
    let staged = site.at("staged").join(name);
    fs::create_dir_all(staged.parent().unwrap()).unwrap();
    write_small_model(&staged, name);
    staged
}

/// Writes in pieces, with pauses below the settle time.
fn write_slowly(from: &Path, to: &Path) {
    let bytes = fs::read(from).unwrap();
    let mut file = fs::File::create(to).unwrap();
    for piece in bytes.chunks(bytes.len().div_ceil(8)) {
        file.write_all(piece).unwrap();
        file.flush().unwrap();
        sleep(SETTLE / 3);
    }
}

/// The result of the only job of this name is there, whole, and the original is put away.
fn assert_converted(site: &Site, folder: &str, name: &str) {
    let job = site.wait_for(name, "succeeded");
    let id = job["job"].as_str().unwrap();
    let result = site.outbox().join(folder).join(name);
    assert_eq!(job["published"], result.display().to_string());
    let files = site::names(&result);
    let wanted = ["model.onnx", "receipt.txt", "report.html", "report.json", "report.txt"];
    assert!(wanted.iter().all(|w| files.iter().any(|f| f == w)), "{name}: {files:?}");
    assert_eq!(report(&result)["job"], id);
    let done = site.at("done").join(folder).join(format!("{name}.{id}"));
    site::wait("the originals", || done.is_dir().then_some(()));
}

#[test]
fn every_way_to_put_a_file_into_a_folder() {
    let site = Site::new();
    let inbox = site.inbox();
    // One that lies there before the daemon starts.
    write_small_model(&inbox.join("early.onnx"), "early");
    let daemon = site.start();

    fs::copy(model(&site, "copied.onnx"), inbox.join("copied.onnx")).unwrap();
    fs::rename(model(&site, "moved.onnx"), inbox.join("moved.onnx")).unwrap();
    let linked = model(&site, "linked.onnx");
    fs::hard_link(&linked, inbox.join("linked.onnx")).unwrap();

    fs::copy(model(&site, "renamed.onnx"), inbox.join("renamed.onnx.part")).unwrap();
    sleep(SETTLE * 2);
    assert!(site.jobs_named("renamed").is_empty(), "a temporary name is no drop");
    fs::rename(inbox.join("renamed.onnx.part"), inbox.join("renamed.onnx")).unwrap();

    // As `tar` does it: folders first, then one file after the other.
    fs::create_dir_all(inbox.join("tar/extracted")).unwrap();
    write_slowly(&model(&site, "extracted.onnx"), &inbox.join("tar/extracted/network.onnx"));
    fs::write(inbox.join("tar/extracted/README"), "from a tar archive").unwrap();

    let tree = site.at("staged/tree");
    fs::create_dir_all(tree.join("alice/nested")).unwrap();
    write_small_model(&tree.join("alice/nested/network.onnx"), "nested");
    fs::rename(tree.join("alice"), inbox.join("alice")).unwrap();

    write_slowly(&model(&site, "slow.onnx"), &inbox.join("slow.onnx"));

    for name in ["early", "copied", "moved", "linked", "renamed", "slow"] {
        assert_converted(&site, "", name);
    }
    assert_converted(&site, "tar", "extracted");
    assert_converted(&site, "alice", "nested");
    assert!(linked.exists(), "the other name of a hard link stays");
    assert_eq!(site.jobs().len(), 8, "each drop is one job\n{}", site.log());
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn a_model_and_its_data_in_every_order() {
    let site = Site::new();
    let daemon = site.start();
    let orders = [
        ["params", "model", "data"],
        ["params", "data", "model"],
        ["model", "params", "data"],
        ["data", "params", "model"],
    ];
    for (n, order) in orders.iter().enumerate() {
        let name = format!("net{n}");
        let staged = site.at("staged").join(&name);
        fs::create_dir_all(&staged).unwrap();
        let mut large = small_model();
        // Large enough to go to a file of its own, and different from the others.
        let (x, value) = (large.graph.outputs()[0], n as f32);
        let w = large.graph.add_initializer("big", Tensor::vector(vec![value; 1024]));
        let sum = large.graph.add("sum_of_all", onnxd_ir::ops::ReduceSum::new(w));
        let y = large.graph.add("shifted", onnxd_ir::ops::Add::new(x, sum));
        large.graph[y].ty = large.graph[x].ty.clone();
        large.graph.mark_output(y);
        let options = WriteOptions { external: External::Always, ..WriteOptions::default() };
        write_model(&large, &staged.join(format!("{name}.onnx")), &options).unwrap();
        fs::write(staged.join(format!("{name}.params.toml")), "[export]\nopset = 17\n").unwrap();
        for part in order {
            let file = match *part {
                "params" => format!("{name}.params.toml"),
                "model" => format!("{name}.onnx"),
                _ => format!("{name}.onnx.data"),
            };
            assert!(site.jobs_named(&name).is_empty(), "started before {part} came");
            fs::rename(staged.join(&file), site.inbox().join(&file)).unwrap();
            sleep(SETTLE * 2);
        }
        assert_converted(&site, "", &name);
        let report = report(&site.outbox().join(&name));
        let sources = report["source"].as_array().unwrap().len();
        assert_eq!(sources, 3, "{order:?}: all parts belong to the job");
    }
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn what_is_missing_is_shown() {
    let site = Site::new();
    let daemon = site.start();
    let demo = root().join("core/daemon/demo");
    let inbox = site.inbox();
    fs::create_dir(inbox.join("digits")).unwrap();
    for file in ["params.ini", "digits.ini"] {
        fs::copy(demo.join(file), inbox.join("digits").join(file)).unwrap();
    }
    let why = site.wait_for_drop("digits", "waiting");
    assert!(why.contains("weights"), "{why}");
    let weights = site.at("staged-weights");
    fs::create_dir(&weights).unwrap();
    for name in site::names(&demo.join("weights")) {
        fs::copy(demo.join("weights").join(&name), weights.join(&name)).unwrap();
    }
    fs::rename(&weights, inbox.join("digits/weights")).unwrap();
    assert_converted(&site, "", "digits");
    assert_eq!(site.jobs().len(), 1);
    assert_eq!(daemon.stop().code(), Some(0));
}

/// Whoever sees the folders only learns why a drop is not taken, and what it is.
#[test]
fn drops_that_stay_have_receipts() {
    let site = Site::new();
    let daemon = site.start();
    let inbox = site.inbox();
    fs::create_dir_all(inbox.join("bob/digits")).unwrap();
    fs::copy(root().join("core/daemon/demo/digits.ini"), inbox.join("bob/digits/digits.ini"))
        .unwrap();
    fs::write(inbox.join("squeeze.param"), b"7767517\nand so on").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", inbox.join("link.onnx")).unwrap();
    let receipt = |name: &str| {
        let path = site.outbox().join(format!("{name}.receipt.txt"));
        site::wait(name, || fs::read_to_string(&path).ok())
    };
    let waiting = receipt("bob/digits");
    assert!(waiting.contains("result: waiting") && waiting.contains("weights"), "{waiting}");
    let unmatched = receipt("squeeze.param");
    let what = "it is an ncnn network (param); not read by this version";
    assert!(unmatched.contains("result: unmatched") && unmatched.contains(what), "{unmatched}");
    assert!(receipt("link.onnx").contains("result: refused"));
    // The same words on the command line.
    let path = inbox.join("squeeze.param").display().to_string();
    for args in
        [&["explain", &path][..], &["convert", &path, "--out", &site.at("o").display().to_string()]]
    {
        let (status, _, stderr) = site.run(args);
        assert!(status == 2 && stderr.contains(what), "{args:?} {status} {stderr}");
    }
    // Also after a start the daemon knows which receipts are its own.
    assert_eq!(daemon.stop().code(), Some(0));
    fs::remove_file(inbox.join("link.onnx")).unwrap();
    fs::write(site.outbox().join("mine.receipt.txt"), "not onnxd's").unwrap();
    let daemon = site.start();
    let weights = root().join("core/daemon/demo/weights");
    fs::create_dir(site.at("weights")).unwrap();
    for name in site::names(&weights) {
        fs::copy(weights.join(&name), site.at("weights").join(&name)).unwrap();
    }
    fs::rename(site.at("weights"), inbox.join("bob/digits/weights")).unwrap();
    assert_converted(&site, "bob", "digits");
    let left = ["bob", "mine.receipt.txt", "squeeze.param.receipt.txt"];
    site::wait("receipts to go", || (site.names("outbox") == left).then_some(()));
    site::wait("the receipt to go", || (site.names("outbox/bob") == ["digits"]).then_some(()));
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn what_nobody_wants_goes_aside() {
    let mut site = Site::new();
    site.set("INTAKE_UNMATCHED_AFTER_S", "1");
    let daemon = site.start();
    fs::create_dir(site.inbox().join("pictures")).unwrap();
    fs::write(site.inbox().join("pictures/cat.jpg"), "meow").unwrap();
    fs::write(site.inbox().join("letter.doc"), "dear").unwrap();
    let (cat, letter) = (site.at("unmatched/pictures/cat.jpg"), site.at("unmatched/letter.doc"));
    site::wait("both to be moved", || (cat.is_file() && letter.is_file()).then_some(()));
    assert!(site.jobs().is_empty());
    let wanted = ["letter.doc", "letter.doc.receipt.txt", "pictures", "pictures.receipt.txt"];
    site::wait("the receipts", || (site.names("unmatched") == wanted).then_some(()));
    fs::write(site.inbox().join("letter.doc"), "dear again").unwrap();
    let second = site.at("unmatched/letter.doc.1/letter.doc");
    site::wait("the second letter", || second.is_file().then_some(()));
    assert_eq!(fs::read(&letter).unwrap(), b"dear", "nothing is replaced");
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn params_of_the_settings_and_of_folders_hold_for_drops() {
    let site = Site::new();
    let settings = site.state().join(".config/onnxd");
    fs::create_dir_all(&settings).unwrap();
    let text = "[defaults]\nexport.opset = 18\nexport.input_names = [\"of_site\"]\n";
    fs::write(settings.join("onnxd.toml"), text).unwrap();
    let (inbox, team) = (site.inbox(), site.inbox().join("team/a"));
    fs::create_dir_all(&team).unwrap();
    fs::write(inbox.join("team/onnxd.params.toml"), "export.opset = 19\n").unwrap();
    let daemon = site.start();
    site::drop_model(&site, "plain.onnx", "1");
    for name in ["team/a/x.onnx", "team/a/y.onnx"] {
        site::drop_model(&site, name, name);
    }
    fs::write(team.join("y.params.toml"), "export.opset = 20\n").unwrap();
    let params = |folder: &str, name: &str| {
        site.wait_for(name, "succeeded");
        let report = report(&site.outbox().join(folder).join(name));
        let of = |key: &str| {
            let mut all = report["params"].as_array().unwrap().iter();
            let param = all.find(|p| p["key"] == key).unwrap();
            (param["value"].to_string(), param["origin"].as_str().unwrap().to_owned())
        };
        (of("export.opset"), of("export.input_names"))
    };
    let ((opset, origin), (names, _)) = params("", "plain");
    assert!(opset.contains("18") && origin.ends_with("onnxd.toml:2"), "{opset} {origin}");
    assert!(names.contains("of_site"), "{names}");
    let ((opset, origin), (names, _)) = params("team/a", "x");
    assert!(opset.contains("19") && names.contains("of_site"), "{opset} {names}");
    assert_eq!(origin, "team/onnxd.params.toml:1");
    let ((opset, origin), _) = params("team/a", "y");
    assert!(opset.contains("20") && origin == "y.params.toml:1", "{opset} {origin}");
    assert!(inbox.join("team/onnxd.params.toml").exists(), "it stays for later drops");
    drop(daemon);
    let settings = settings.join("onnxd.toml");
    fs::write(settings, "[defaults]\nexport.opest = 18\n").unwrap();
    let (status, _, stderr) = site.run(&["once"]);
    assert!(status == 78 || status == 2, "{status} {stderr}");
    assert!(stderr.contains("onnxd.toml:2: unknown key `export.opest`"), "{stderr}");
}

#[test]
fn changed_presets_and_defaults_count_for_drops_that_wait() {
    let mut site = Site::new();
    // Long enough for half a preset to be seen and not taken.
    site.set("INTAKE_SETTLE_MS", "1000");
    let settings = site.state().join(".config/onnxd");
    fs::create_dir_all(&settings).unwrap();
    let defaults = |format: &str| {
        let text = format!("[defaults]\nquantization.format = \"{format}\"\n");
        fs::write(settings.join("onnxd.toml"), text).unwrap();
    };
    defaults("QDQ");
    let preset = site.inbox().join("team/onnxd.params.toml");
    fs::create_dir_all(site.inbox().join("team/a")).unwrap();
    fs::write(&preset, "quantization.format = \"QLinear\"\n").unwrap();
    let daemon = site.start();
    site::drop_model(&site, "plain.onnx", "1");
    site::drop_model(&site, "team/a/x.onnx", "2");
    site::drop_model(&site, "team/a/y.onnx", "3");
    fs::write(site.inbox().join("team/a/y.params.toml"), "quantization.format = \"QDQ\"\n")
        .unwrap();
    for drop in ["plain.onnx", "team/a/x.onnx", "team/a/y.onnx"] {
        let why = site.wait_for_drop(drop, "waiting");
        assert!(why.contains("calib"), "{drop}: {why}");
    }
    fs::write(&preset, "quantization.for").unwrap();
    sleep(SETTLE);
    fs::write(&preset, "quantization.format = \"none\"\n").unwrap();
    site.wait_for("x", "succeeded");
    site.wait_for_drop("plain.onnx", "waiting");
    // Alone in its folder, which is a drop by now.
    site.wait_for_drop("team/a", "waiting");
    defaults("none");
    assert_eq!(site.run(&["ctl", "reload"]).0, 0);
    site.wait_for("plain", "succeeded");
    fs::remove_file(&preset).unwrap();
    site.wait_for_drop("team/a", "waiting");
    assert_eq!(site.jobs().len(), 2, "its own params win");
    assert_eq!(daemon.stop().code(), Some(0));
}

/// Whoever converts what was dropped before gets the same params, if asked.
#[test]
fn commands_read_presets_of_folders() {
    let site = Site::new();
    let presets = site.at("models");
    let out = site.at("result").display().to_string();
    fs::create_dir_all(presets.join("team/a")).unwrap();
    fs::create_dir_all(site.inbox().join("team")).unwrap();
    fs::write(presets.join("onnxd.params.toml"), "export.opset = 18\njob.name = \"of_all\"\n")
        .unwrap();
    fs::write(presets.join("team/onnxd.params.toml"), "export.opset = 19\n").unwrap();
    fs::copy(presets.join("team/onnxd.params.toml"), site.inbox().join("team/onnxd.params.toml"))
        .unwrap();
    let (beside, inner, dropped) = (
        presets.join("team/x.onnx").display().to_string(),
        presets.join("team/a/y.onnx").display().to_string(),
        site.inbox().join("team/z.onnx").display().to_string(),
    );
    for model in [&beside, &inner, &dropped] {
        write_small_model(Path::new(model), "model");
    }
    let root = presets.display().to_string();
    let folder = site.at("own").display().to_string();
    fs::create_dir(&folder).unwrap();
    write_small_model(&site.at("own/w.onnx"), "model");
    fs::write(site.at("own/onnxd.params.toml"), "export.opset = 20\n").unwrap();
    let origin = |args: &[&str]| {
        let (status, stdout, stderr) = site.run(&[args, &["--json"]].concat());
        assert_eq!(status, 0, "{args:?}: {stderr}");
        let said: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        let params = said["params"].as_array().unwrap();
        let opset = params.iter().find(|p| p["key"] == "export.opset").unwrap();
        let notes = said["notes"].to_string() + &said["diagnostics"].to_string();
        (opset["origin"].as_str().unwrap().to_owned(), notes.contains("`--presets DIR`"))
    };
    for command in [&["explain", "--all"][..], &["convert", "--out", &out]] {
        let of = |more: &[&str]| origin(&[command, more].concat());
        assert_eq!(of(&[&inner]), ("default".to_owned(), false));
        let (opset, told) = of(&[&beside]);
        assert!(opset == "default" && told, "{opset}: what is not read is told");
        let of_team = ("team/onnxd.params.toml:1".to_owned(), false);
        assert_eq!(of(&[&inner, "--presets", &root]), of_team);
        assert_eq!(of(&[&beside, "--presets", &root]), of_team);
        assert_eq!(of(&[&dropped]), of_team, "of the inbox");
        assert_eq!(of(&[&folder, "--presets", &folder]).0, "onnxd.params.toml:1", "with its own");
        let (status, _, stderr) = site.run(&[command, &[&dropped, "--presets", &root]].concat());
        assert!(status == 2 && stderr.contains("does not lie in"), "{status} {stderr}");
    }
    let report = report(&site.at("result"));
    let name =
        report["params"].as_array().unwrap().iter().find(|p| p["key"] == "job.name").unwrap();
    assert_eq!(name["origin"], "default", "the last one was of the inbox");
}
