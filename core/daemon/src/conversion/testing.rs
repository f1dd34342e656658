//! A success to publish, for the tests of what brings results to their places.

use super::files::digest;
use super::{Outcome, Verdict};
use onnxd_proto::onnxd::{FileDigest, FileRole, Report};
use std::fs;
use std::path::Path;

/// A success in the folder `work-JOB` whose outputs hold the job's name.
pub(crate) fn success(root: &Path, job: &str, names: &[&str]) -> Outcome {
    let out_dir = root.join(format!("work-{job}"));
    let file = |name: &&str| {
        let path = out_dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, job).unwrap();
        let (bytes, sha256) = digest(&path).unwrap();
        let role = if name.ends_with("model.onnx") { FileRole::Model } else { FileRole::Artifact };
        FileDigest { path: (*name).into(), bytes, sha256, role: role.into() }
    };
    let report = Report {
        schema: 1,
        job: job.into(),
        name: "net".into(),
        verdict: onnxd_proto::onnxd::Verdict::Succeeded.into(),
        outputs: names.iter().map(file).collect(),
        ..Report::default()
    };
    Outcome { report, verdict: Verdict::Succeeded, out_dir }
}
