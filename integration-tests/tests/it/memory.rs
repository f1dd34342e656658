//! How much memory conversions take, by the peak that their own report names.

use onnxd_integration_tests::{command, converted, folder_with, outcome, with_plugins_of};
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use tempfile::TempDir;

const OUTPUTS: usize = 1024;
const PASSES: [&str; 3] =
    ["libonnxd_passes_cleanup.so", "libonnxd_passes_fusion.so", "libonnxd_passes_layout.so"];

/// A folder with one front-end and the passes that every conversion asks for.
fn folder_of(frontend: &str) -> TempDir {
    folder_with(&[&[frontend][..], &PASSES].concat())
}

/// Peak of the process that reads and writes one fully connected layer of so many inputs, in bytes.
fn peak(folder: &Path, inputs: usize, sets: &[&str]) -> u64 {
    let ini = format!(
        "[sp]\nSizeX={inputs}\nSizeY=1\n[fc]\nInput=sp\nType=Fc\nNbOutputs={OUTPUTS}\n\
         ConfigSection=plain\n[fc.Target]\n[plain]\nNoBias=1\n"
    );
    fs::write(folder.join("net.ini"), ini).unwrap();
    let (status, stderr, report) = converted(folder, "out", &["net.ini", "weights"], sets);
    assert_eq!(status, 0, "{stderr}");
    let stages = report["stages"].as_array().unwrap();
    stages.iter().map(|stage| stage["peak_rss_bytes"].as_u64().unwrap()).max().unwrap()
}

/// Largest anonymous memory of the process `root` and those below it while it runs, in bytes, as far as it is seen.
fn peak_anonymous(root: &mut Child) -> u64 {
    let anonymous = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    let mut peak = 0;
    while root.try_wait().unwrap().is_none() {
        let mut family = vec![root.id()];
        for at in 0.. {
            let Some(pid) = family.get(at).copied() else { break };
            for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
                let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
                family
                    .extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
        }
        peak = peak.max(family.into_iter().map(anonymous).max().unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    }
    peak
}

/// Weights that a front-end transposes, slices, concatenates and casts are held nowhere, and come out the same.
#[test]
fn derived_weights_are_not_held() {
    const SIDE: usize = 1024;
    const LAYERS: usize = 16;
    /// The same for weights of any size: it takes 64 MiB of them to see that nothing is held.
    const BYTES_MAX: u64 = 24 << 20;
    let folder = folder_of("libhostile_plugins.so");
    let at = folder.path();
    let counted = (0..SIDE * SIDE).flat_map(|i| ((i % 2003) as f32).to_le_bytes());
    let layer: Vec<u8> = counted.collect();
    let mut weights = layer.repeat(LAYERS);
    // No two are equal.
    for (i, layer) in weights.chunks_exact_mut(layer.len()).enumerate() {
        layer[..4].copy_from_slice(&(i as f32).to_le_bytes());
    }
    fs::write(at.join("weights.bin"), weights).unwrap();
    let convert = |way: &str| {
        fs::write(at.join("net.derived"), format!("{SIDE} {LAYERS} {way}\n")).unwrap();
        let mut run = command(at);
        with_plugins_of(&mut run, &at.join("plugins"));
        run.arg("convert").arg(at.join("net.derived")).arg(at.join("weights.bin"));
        run.arg("--out").arg(at.join(format!("out{way}"))).stderr(std::process::Stdio::null());
        let mut child = run.spawn().unwrap();
        let peak = peak_anonymous(&mut child);
        assert!(child.wait().unwrap().success(), "{way}");
        let model = onnxd_onnx::load(&at.join(format!("out{way}/model.onnx"))).unwrap().model;
        let graph = &model.graph;
        let weights = graph.value_ids().filter_map(|v| graph[v].initializer().cloned());
        (peak, weights.collect::<Vec<_>>())
    };
    let (derived, one) = convert("");
    let (held, other) = convert("held");
    assert_eq!(one.len(), LAYERS);
    assert!(one == other, "the weights differ");
    assert!(
        held > (SIDE * SIDE * 2 * LAYERS) as u64 && held > BYTES_MAX,
        "{held} bytes are seen where all are held"
    );
    assert!(derived < BYTES_MAX, "{derived} bytes");
}

/// Terabytes that are derived from little end where the files of a worker end, and nothing is held of them.
#[test]
fn derived_weights_without_end_end_at_the_limit() {
    let folder = folder_of("libhostile_plugins.so");
    let at = folder.path();
    fs::write(at.join("weights.bin"), vec![0; 256 * 256 * 4]).unwrap();
    fs::write(at.join("net.derived"), "256 1 endless\n").unwrap();
    let mut run = command(at);
    with_plugins_of(&mut run, &at.join("plugins"));
    run.arg("convert").arg(at.join("net.derived")).arg(at.join("weights.bin"));
    run.env("ONNXD_WORKER_FILE_MIB_MAX", "8").arg("--out").arg(at.join("out"));
    let (status, stderr) = outcome(&run.output().unwrap());
    assert_eq!(status, 75, "{stderr}");
    assert!(stderr.contains("N0304") && stderr.contains("model.onnx.data"), "{stderr}");
}

/// Weights of an N2D2 network are held once, whether they are read from text or made up, and the
/// text is not held at all.
#[test]
fn weights_of_n2d2_are_held_once() {
    const INPUTS: usize = 8192;
    let folder = folder_of("libonnxd_frontend_n2d2.so");
    let at = folder.path();
    fs::create_dir(at.join("weights")).unwrap();
    let write = |inputs: usize| {
        let text = "0.03125 ".repeat(OUTPUTS * inputs);
        fs::write(at.join("weights/fc_weights.syntxt"), text).unwrap();
    };
    let bytes = (OUTPUTS * INPUTS * 4) as u64;
    for sets in [&[][..], &["source.random=true"]] {
        write(1);
        let small = peak(at, 1, sets);
        write(INPUTS);
        let large = peak(at, INPUTS, sets);
        assert!(large > bytes, "{sets:?}: {large} bytes, with weights of {bytes}");
        let more = large - small;
        assert!(more < bytes + bytes / 2, "{sets:?}: {more} bytes for weights of {bytes}");
    }
}
