//! Makes a claimed drop a job: digests of its files, its resolved params, and its identity.
//!
//! Runs in a thread of its own per job, because files may be large.

use std::path::Path;
use std::sync::Arc;

use onnxd_config::settings::Take;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_intake::MovePlan;
use onnxd_params::{Resolved, Section, host};
use onnxd_plugin_host::hexadecimal;
use onnxd_proto::onnxd::{InputFile, Job};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::copies;
use crate::conversion::{Plugins, Submission};
use crate::run::event::Prepared;
use crate::run::layout::JobDir;

/// Reads the files of a claimed job. Everything that is wrong is found at once.
pub(crate) fn prepare(
    job: &Job,
    plan: &MovePlan,
    dir: &JobDir,
    take: Take,
    plugins: &Plugins,
) -> Result<Prepared, Diagnostics> {
    let mut job = job.clone();
    for (file, known) in plan.set.files.iter().zip(&job.files) {
        if file.name.to_str() != Some(&known.name) {
            return Err(not_text(&file.name).into());
        }
    }
    for (copied, known) in copies::take(plan, dir, take)?.into_iter().zip(&mut job.files) {
        (known.bytes, known.sha256) = (copied.bytes, copied.sha256);
    }
    let submission = submission(&job, dir);
    let params = submission.params_below(plugins, Path::new(&job.inbox), Path::new(&job.folder))?;
    let identity = identity(&submission, params.resolved(), plugins);
    Ok(Prepared { identity, params, files: job.files })
}

/// The files of a claimed job as a conversion sees them.
pub(crate) fn submission(job: &Job, dir: &JobDir) -> Submission {
    // A worker opens inputs where no component of their path is a link.
    let input = dir.input().canonicalize().unwrap_or_else(|_| dir.input());
    let file = |f: &InputFile| InputFile {
        path: input.join(&f.name).to_string_lossy().into_owned(),
        ..f.clone()
    };
    Submission {
        name: job.name.clone(),
        network: job.network.clone(),
        files: job.files.iter().map(file).collect(),
    }
}

/// The params of a job on record. What cannot be read there has its default; the worker says what is wrong.
pub(crate) fn params(job: &Job) -> Arc<Resolved> {
    Arc::new(Resolved::parse(&job.params_json).unwrap_or_default())
}

/// Those that concern the job itself. A value that an older onnxd recorded in another type has its default, and the
/// other limits stay.
pub(crate) fn own(params: &Arc<Resolved>) -> host::Job {
    let own = |key: &str| params.typed::<Option<u64>>(&format!("job.{key}"), "null").ok().flatten();
    host::Job::of(params).unwrap_or_else(|_| {
        let limits = json!({
            "attempts_max": own("attempts_max"),
            "memory_mib_max": own("memory_mib_max"),
            "timeout_s": own("timeout_s"),
        });
        Arc::new(Resolved::from_json(json!({ "job": limits }))).section()
    })
}

/// Digest of everything that decides about the result. What only says when and with which limits
/// a job runs is left out, and so is the text of params: what it means is in `params`.
pub(crate) fn identity(submission: &Submission, params: &Resolved, plugins: &Plugins) -> String {
    let mut params = params.peek("").clone();
    if let Some(job) = params.get_mut("job").and_then(Value::as_object_mut) {
        job.retain(|key, _| key == "frontend");
    }
    let texts = submission.params_files();
    let inputs = submission.files.iter().filter(|f| !texts.iter().any(|t| t.name == f.name));
    let mut files: Vec<[&str; 2]> = inputs.map(|f| [f.name.as_str(), &f.sha256]).collect();
    files.sort_unstable();
    let all = json!({
        "onnxd": env!("CARGO_PKG_VERSION"),
        "files": files,
        "params": params,
        "plugins": plugins.digest(),
    });
    hexadecimal(&Sha256::digest(all.to_string()))
}

fn not_text(name: &Path) -> Diagnostic {
    let message = format!("The file name `{}` is not UTF-8 text", name.display());
    Diagnostic::new(Code::Unreadable, message).help("Rename the file, and drop it again.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::PluginInfo;

    #[test]
    fn the_identity_is_of_what_decides_the_result() {
        let file = |name: &str, sha: &str| InputFile {
            name: name.into(),
            sha256: sha.into(),
            ..InputFile::default()
        };
        let of = |files: &[InputFile], params: Value, plugin: &str| {
            let used = vec![PluginInfo { id: plugin.into(), ..PluginInfo::default() }];
            let submission =
                Submission { name: "n".into(), network: "a".into(), files: files.to_vec() };
            identity(
                &submission,
                &Resolved::from_json(params),
                &Plugins { used, ..Plugins::default() },
            )
        };
        let (a, b) = (file("a", "1"), file("b", "2"));
        let params = json!({"job": {"priority": 1, "frontend": null}, "export": {"opset": 17}});
        let base = of(&[a.clone(), b.clone()], params.clone(), "p");
        assert_eq!(base, of(&[b.clone(), a.clone()], params.clone(), "p"), "order");
        let with = [a.clone(), b.clone(), file("params.toml", "3")];
        assert_eq!(base, of(&with, params.clone(), "p"), "text of params");
        let urgent = json!({"job": {"priority": 7, "frontend": null}, "export": {"opset": 17}});
        assert_eq!(base, of(&[a.clone(), b.clone()], urgent, "p"), "priority");
        let other = json!({"job": {"priority": 1, "frontend": null}, "export": {"opset": 18}});
        assert_ne!(base, of(&[a.clone(), b.clone()], other, "p"), "params");
        assert_ne!(base, of(&[a.clone(), b.clone()], params.clone(), "q"), "plugins");
        assert_ne!(base, of(&[a.clone(), file("c", "2")], params.clone(), "p"), "names");
        assert_ne!(base, of(&[a, file("b", "3")], params, "p"), "contents");
        assert_eq!(base.len(), 64);
    }

    #[test]
    fn one_value_of_another_type_leaves_the_other_limits() {
        let params = json!({"job": {"attempts_max": "3", "timeout_s": 60, "memory_mib_max": 64}});
        let own = own(&Arc::new(Resolved::from_json(params)));
        assert_eq!((own.attempts_max(), own.timeout_s()), (None, Some(60)));
        assert_eq!(own.memory_mib_max(), Some(64));
    }
}
