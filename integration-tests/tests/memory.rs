//! How much memory conversions take, by the peak that their own report names.

use onnxd_integration_tests::{converted, folder_with};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const OUTPUTS: usize = 1024;

fn network() -> TempDir {
    let passes = ["libonnxd_passes_cleanup.so", "libonnxd_passes_fusion.so"];
    folder_with(&["libonnxd_frontend_n2d2.so", passes[0], passes[1]])
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

/// Weights of an N2D2 network are held once, whether they are read from text or made up, and the
/// text is not held at all.
#[test]
fn weights_of_n2d2_are_held_once() {
    const INPUTS: usize = 8192;
    let folder = network();
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
