//! A dropper who keeps descriptors of the folder that he dropped, and uses them once onnxd has taken it.

use crate::site::{Site, wait};
use onnxd_ir::ops::Add;
use onnxd_ir::{DataType, Graph, Model, Tensor, ValueType};
use onnxd_onnx::{External, WriteOptions, write_model};
use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, openat, symlinkat, unlinkat, utimensat,
};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const ELEMENTS: usize = 1 << 20;
/// What only the daemon's user may read.
const SECRET: &str = "secret = \"do not tell\"";

/// `net.onnx` with `net.onnx.data`: y = x + `weight`.
fn write_net(folder: &Path, weight: f32) {
    let mut g = Graph::new("net");
    let vector = || Some(ValueType::tensor(DataType::Float, [ELEMENTS as i64]));
    let x = g.add_input("x", vector());
    let w = g.add_initializer("w", Tensor::vector(vec![weight; ELEMENTS]));
    let y = g.add("y", Add::new(x, w));
    g[y].ty = vector();
    g.mark_output(y);
    let options = WriteOptions { external: External::Always, ..WriteOptions::default() };
    write_model(&Model::new(g, 8, 17), &folder.join("net.onnx"), &options).unwrap();
}

/// A drop whose folder the dropper keeps open.
struct HeldDrop {
    site: Site,
    folder: OwnedFd,
}

impl HeldDrop {
    /// Drops `net/` and does `then` as soon as it has left the inbox.
    fn drop_and(site: Site, then: impl FnOnce(&HeldDrop)) -> HeldDrop {
        let (ready, inbox) = (site.at("net"), site.inbox().join("net"));
        fs::create_dir(&ready).unwrap();
        write_net(&ready, 1.0);
        fs::write(ready.join("params.toml"), "export.opset = 17\n").unwrap();
        let folder = File::open(&ready).unwrap().into();
        fs::rename(&ready, &inbox).unwrap();
        wait("the drop to be taken", || (!inbox.exists()).then_some(()));
        let kept = HeldDrop { site, folder };
        then(&kept);
        kept
    }

    fn secret(&self) -> std::path::PathBuf {
        self.site.at("secret")
    }

    fn replace_by_link(&self, name: &str) {
        unlinkat(&self.folder, name, AtFlags::empty()).unwrap();
        symlinkat(self.secret(), &self.folder, name).unwrap();
    }

    /// Waits for the end of the only job, and looks for what must not be told.
    fn ended(&self) -> serde_json::Value {
        let job = wait("the job to end", || {
            let ends = ["succeeded", "failed"];
            let jobs = self.site.jobs_named("net");
            jobs.into_iter().find(|job| ends.iter().any(|end| job["state"] == *end))
        });
        wait("the originals to be away", || {
            let folder = self.site.state().join("jobs").join(job["job"].as_str().unwrap());
            (!folder.join("originals").exists()).then_some(())
        });
        self.assert_tells_nothing();
        let ask = format!(r#"{{"do":"jobs.show","job":{}}}"#, job["job"]);
        self.site.ask(&ask)["job"].clone()
    }

    fn assert_tells_nothing(&self) {
        assert_eq!(fs::read_to_string(self.secret()).unwrap(), SECRET);
        for place in ["outbox", "done", "failed"] {
            assert_tells_nothing(&self.site.at(place));
        }
        assert!(!self.site.log().contains("do not tell"), "{}", self.site.log());
    }
}

fn assert_tells_nothing(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            assert_tells_nothing(&path);
        } else if kind.is_file() {
            let told = fs::read(&path).unwrap();
            let secret = b"do not tell";
            assert!(!told.windows(secret.len()).any(|w| w == secret), "{}", path.display());
        }
    }
}

fn site() -> Site {
    let site = Site::new();
    fs::write(site.at("secret"), SECRET).unwrap();
    site
}

#[test]
fn a_link_that_is_planted_for_a_receipt_is_not_followed() {
    let site = site();
    let daemon = site.start();
    let kept = HeldDrop::drop_and(site, |kept| {
        for name in ["receipt.txt", "report.json", ".receipt.txt.part", "report.html"] {
            symlinkat(kept.secret(), &kept.folder, name).unwrap();
        }
    });
    let job = kept.ended();
    let ends = kept.site.at(if job["state"] == "succeeded" { "done" } else { "failed" });
    let receipt = ends.join(format!("net.{}", job["job"].as_str().unwrap())).join("receipt.txt");
    assert!(fs::symlink_metadata(receipt).unwrap().is_file());
    daemon.stop();
}

#[test]
fn a_link_in_place_of_data_or_params_is_not_followed() {
    for name in ["net.onnx.data", "params.toml"] {
        let site = site();
        let daemon = site.start();
        let kept = HeldDrop::drop_and(site, |kept| kept.replace_by_link(name));
        // Seen while it was moved, it goes back and is refused in the inbox.
        let went_back = wait("the drop to be back, or its job to end", || {
            let ended = kept.site.jobs().first().is_some_and(|job| job["state"] == "failed");
            let back = kept.site.inbox().join("net").exists();
            (ended || back).then_some(back)
        });
        if went_back {
            let why = kept.site.wait_for_drop("net", "refused");
            assert!(why.contains("symbolic link"), "{why}");
        } else {
            // Before or after it was copied: what goes away would not be what was converted.
            let job = kept.ended();
            let code = job["diagnostics"][0]["code"].as_str().unwrap();
            assert!(["N0108", "N0113"].contains(&code), "{name}: {job}");
        }
        kept.assert_tells_nothing();
        daemon.stop();
    }
}

/// Another user drops the same files: he must get their model, not what the first one made of his.
#[test]
fn what_is_written_after_the_digest_changes_no_result() {
    let site = site();
    let daemon = site.start();
    let kept = HeldDrop::drop_and(site, |kept| {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let data = openat(&kept.folder, "net.onnx.data", flags, Mode::empty()).unwrap();
        let mut data = File::from(data);
        let before = data.metadata().unwrap();
        // Other weights of the same size, and the time of before.
        let other: Vec<u8> =
            std::iter::repeat_n(2.0f32.to_le_bytes(), ELEMENTS).flatten().collect();
        data.write_all(&other).unwrap();
        drop(data);
        let time = Timespec { tv_sec: before.mtime(), tv_nsec: before.mtime_nsec() as _ };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(&kept.folder, "net.onnx.data", &times, AtFlags::empty()).unwrap();
    });
    let first = kept.ended();
    let site = &kept.site;
    fs::create_dir(site.at("second")).unwrap();
    write_net(&site.at("second"), 1.0);
    fs::write(site.at("second/params.toml"), "export.opset = 17\n").unwrap();
    fs::rename(site.at("second"), site.inbox().join("second")).unwrap();
    let second = wait("the second job to end", || {
        let jobs = site.jobs_named("second").into_iter();
        jobs.into_iter().find(|job| ["succeeded", "duplicate"].iter().any(|s| job["state"] == *s))
    });
    // The first one is refused if its bytes changed before they were copied.
    let same = first["state"] == "succeeded";
    assert_eq!(second["state"] == "duplicate", same, "{first}\n{second}");
    let model = fs::read(site.at("outbox/second/model.onnx")).unwrap();
    let has = |weight: f32| {
        let bytes = weight.to_le_bytes().repeat(64);
        model.windows(bytes.len()).any(|w| w == bytes)
    };
    assert!(has(1.0) && !has(2.0), "{first}\n{second}");
    daemon.stop();
}

/// A file that was taken half, and that its writer completes later: no model is made of half a file.
#[test]
fn a_file_that_goes_on_while_it_is_taken_is_taken_whole_or_refused() {
    let site = site();
    let daemon = site.start();
    let kept = HeldDrop::drop_and(site, |kept| {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
        let data = openat(&kept.folder, "net.onnx.data", flags, Mode::empty()).unwrap();
        File::from(data).write_all(b"the other half").unwrap();
    });
    let job = kept.ended();
    if job["state"] == "succeeded" {
        // It changed while it was moved, went back to the inbox, and was taken again: with both halves.
        let whole = 4 * ELEMENTS + "the other half".len();
        assert_eq!(job["files"][1]["bytes"], whole, "{job}");
    } else {
        let first = &job["diagnostics"][0];
        assert_eq!((&job["state"], &first["code"]), (&"failed".into(), &"N0113".into()), "{job}");
        assert!(first["help"].as_str().unwrap().contains("Drop the files again"), "{job}");
    }
    daemon.stop();
}
