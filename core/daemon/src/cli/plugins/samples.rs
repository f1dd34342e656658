//! `onnxd plugins check --drop` and `--model`: the author's samples through the plugin, by whole conversions of their
//! own.

use super::timed_child::wait;
use crate::cli::scratch::Scratch;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnxd::PluginInfo;
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// For one conversion.
const LIMIT: Duration = Duration::from_secs(600);
/// Most findings of a conversion that are shown.
const FINDINGS_MAX: usize = 3;

/// A case, the component that it is about, and how it ended.
type CaseResult = (String, String, Result<String, String>);

/// Converts `path` by each of the plugin's passes alone and by each of its quantizers; what is `dropped`, by its
/// front-ends, too.
pub(super) fn check(
    info: &PluginInfo,
    path: &Path,
    dropped: bool,
    config: Option<&Path>,
) -> Result<Vec<CaseResult>, Diagnostic> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let of = |kind| info.components.iter().filter(move |c| c.kind == kind);
    let mut cases = Vec::new();
    if dropped && of("frontend").next().is_some() {
        cases.push((format!("converts {name}"), String::new(), Vec::new()));
    }
    for pass in of("pass") {
        let alone = format!("passes.enable=[\"{}/{}\"]", info.id, pass.id);
        let sets = vec!["passes.profile=none".to_owned(), alone];
        cases.push((format!("rewrites {name}"), pass.id.clone(), sets));
    }
    for quantizer in of("quantizer") {
        let format = vec![format!("quantization.format={}", quantizer.id)];
        cases.push((format!("quantizes {name}"), quantizer.id.clone(), format));
    }
    let mut case_results = Vec::new();
    for (case, id, sets) in cases {
        let run = SampleRun::new(info, path, config, &sets)?;
        let seen = match case.split(' ').next() {
            Some("converts") => run.converted(info),
            Some("rewrites") => run.rewritten(),
            _ => run.quantized(),
        };
        let again = SampleRun::new(info, path, config, &sets)?;
        let seen = seen.and_then(|text| match run.model == again.model {
            true => Ok(text),
            false => Err("a second run gave other bytes".to_owned()),
        });
        case_results.push((case, id, seen));
    }
    Ok(case_results)
}

/// One conversion.
struct SampleRun {
    status: Option<i32>,
    report: Value,
    model: Vec<u8>,
}

impl SampleRun {
    fn new(
        info: &PluginInfo,
        path: &Path,
        config: Option<&Path>,
        sets: &[String],
    ) -> Result<SampleRun, Diagnostic> {
        let scratch = Scratch::new(
            std::env::temp_dir().join(format!("onnxd-check-{}", ulid::Ulid::generate())),
        )?;
        let disk = |e: std::io::Error| Diagnostic::new(Code::Disk, e.to_string());
        let out = scratch.path().join("out");
        let log = File::create(scratch.path().join("log")).map_err(disk)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("convert").arg(path).arg("--out").arg(&out).args(["--plugin", &info.path]);
        command.args(sets.iter().flat_map(|set| ["--set", set]));
        command.args(config.iter().flat_map(|file| [Path::new("--config"), file]));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let ended = wait(&mut command, LIMIT).map_err(|e| {
            Diagnostic::new(Code::WorkerStart, format!("a conversion could not be started: {e}"))
        })?;
        let report = fs::read(out.join("report.json")).unwrap_or_default();
        Ok(SampleRun {
            status: ended.and_then(|status| status.code()),
            report: serde_json::from_slice(&report).unwrap_or_default(),
            model: model_bytes(&out).map_err(disk)?,
        })
    }

    /// That there is a result, and what is to be said of it; `Err` with the first findings if there is none.
    fn result(&self) -> Result<(), String> {
        let Some(status) = self.status else {
            return Err(format!("it did not end within {} s", LIMIT.as_secs()));
        };
        match status {
            0 | 1 if !self.model.is_empty() => Ok(()),
            _ => Err(format!("status {status}: {}", self.findings(|_| true))),
        }
    }

    /// The first findings of which `is` holds, by their codes.
    fn findings(&self, is: impl Fn(&str) -> bool) -> String {
        let all = self.report["diagnostics"].as_array().into_iter().flatten();
        let named = all.filter(|d| is(d["code"].as_str().unwrap_or_default()));
        let text = |d: &Value| {
            let part = |key: &str| d[key].as_str().unwrap_or_default().to_owned();
            format!("{} {}", part("code"), part("message"))
        };
        named.map(text).take(FINDINGS_MAX).collect::<Vec<_>>().join("; ")
    }

    /// By a front-end of this plugin.
    fn converted(&self, info: &PluginInfo) -> Result<String, String> {
        self.result()?;
        let by = &self.report["recognition"];
        let plugin = by["plugin"].as_str().unwrap_or_default();
        if plugin != info.id {
            return Err(format!("`{plugin}` took the network, not this plugin"));
        }
        let found = self.findings(|_| true);
        let verdict = self.report["verdict"].as_str().unwrap_or_default();
        let frontend = by["frontend"].as_str().unwrap_or_default();
        Ok(match found.is_empty() {
            true => format!("{verdict} by {frontend}"),
            false => format!("{verdict} by {frontend}: {found}"),
        })
    }

    /// Without a change of what is computed.
    fn rewritten(&self) -> Result<String, String> {
        self.result()?;
        let changed = self.findings(|code| {
            [Code::PluginContract, Code::ResultChanged].iter().any(|c| c.as_str() == code)
        });
        if !changed.is_empty() {
            return Err(changed);
        }
        let rewrites = self.report["passes"][0]["rewrites"].as_u64().unwrap_or(0);
        if rewrites == 0 {
            let skipped = &self.report["passes"][0]["skipped"][0]["reason"];
            return Ok(format!("0 rewrites: {}", skipped.as_str().unwrap_or("nothing to do")));
        }
        let row = &self.report["comparisons"][0];
        let of = |key: &str| row[key].as_u64().unwrap_or(0);
        let (equal, left) = (of("equal"), of("not_compared"));
        Ok(format!("{rewrites} rewrites; {equal} values compared equal, {left} not compared"))
    }

    /// With a measured distance from the float network.
    fn quantized(&self) -> Result<String, String> {
        self.result()?;
        let low = self.findings(|code| code == Code::QuantizationPoor.as_str());
        if !low.is_empty() {
            return Err(low);
        }
        let quality = &self.report["quantization"]["quality"];
        let Some(db) = quality["sqnr_db"].as_f64() else {
            // The host compared it on random numbers, or says why nothing was compared.
            let told = self.findings(|code| code == Code::QuantizationLoss.as_str());
            let compared =
                told.rsplit_once("; ").filter(|(_, text)| text.starts_with("on random numbers"));
            return compared.map(|(_, text)| text.to_owned()).ok_or(told);
        };
        let (worst, worst_db) =
            (quality["worst"].as_str().unwrap_or_default(), &quality["worst_db"]);
        let (samples, origin) =
            (&quality["samples"], quality["origin"].as_str().unwrap_or_default());
        let worst_db = worst_db.as_f64().unwrap_or(db);
        Ok(format!("{db:.1} dB on {samples} samples ({origin}); worst `{worst}`, {worst_db:.1} dB"))
    }
}

/// The model and its data, without the report.
fn model_bytes(out: &Path) -> std::io::Result<Vec<u8>> {
    let mut files: Vec<PathBuf> = match fs::read_dir(out) {
        Ok(entries) => entries.map(|e| Ok(e?.path())).collect::<std::io::Result<_>>()?,
        Err(_) => Vec::new(),
    };
    let is_model = |path: &PathBuf| path.to_string_lossy().contains("model.onnx");
    files.retain(|path| path.is_file() && is_model(path));
    files.sort();
    files.iter().try_fold(Vec::new(), |mut all, path| {
        all.extend(fs::read(path)?);
        Ok(all)
    })
}
