//! What was given and changed nothing: params that were not read, and files whose names promise a part that files of
//! other names play. Both look like success unless the report says so.

use super::session::Session;
use onnxd_config::{Clash, Params};
use onnxd_diagnostics::{Code, Diagnostic, Severity, nearest, shown};
use onnxd_proto::onnxd::{IdleParam, Param, ParamsRead};
use std::collections::BTreeSet;

/// The origin of a default.
const UNSET: &str = "default";

/// Keys and sections that count before or after the worker's stages.
const READ_OUTSIDE: [&str; 5] =
    ["job", "export.folder", "passes.profile", "passes.enable", "passes.disable"];

/// Adds what had no effect to the findings.
pub(crate) fn tell(session: &mut Session) {
    let resolved = session.described.read_on_resolution(&session.params);
    let declared = session.described.declared();
    let in_vain = Params::idle(&declared, &session.params);
    let in_vain = in_vain.into_iter().map(|(key, why)| IdleParam { key: key.to_owned(), why });
    let outside = READ_OUTSIDE.iter().map(|key| (*key).to_owned()).chain(resolved);
    let keys = session.params.seen().keys.iter().cloned().chain(outside).collect();
    let read = ParamsRead { keys, idle: in_vain.collect() };
    session.looked().by_plugin(BTreeSet::new(), Some(&read));
    let set = session.request.params.iter().filter(|p| p.origin != UNSET);
    let mut found: Vec<Diagnostic> = set.flat_map(|param| idle(session, param)).collect();
    found.extend(misnamed(session));
    found.extend(unread(session));
    // What a plugin reads has the other one's default, at least.
    let read = |clash: &&Clash| clash.params.iter().any(|key| session.looked().has_param(key));
    found.extend(declared.clashes.iter().filter(read).map(|clash| clash.why.clone()));
    for finding in found {
        session.note(&finding, Severity::Error);
    }
}

/// Who had a say in the conversion.
fn who(session: &Session) -> String {
    let frontend = session.report.recognition.as_ref().map_or("", |r| r.frontend.as_str());
    match &session.report.quantization {
        None => format!("front-end `{frontend}`, no quantization"),
        Some(done) => {
            let mode = session.params.peek("quantization.mode").as_str().unwrap_or_default();
            format!("front-end `{frontend}`, quantizer `{}`, mode {mode}", done.quantizer)
        }
    }
}

/// What of a param had no effect, and why.
fn idle(session: &Session, param: &Param) -> Vec<Diagnostic> {
    let looked = session.looked();
    let mut why: Vec<String> =
        looked.idle.iter().filter(|i| i.key == param.key).map(|i| i.why.clone()).collect();
    if why.is_empty() && !looked.has_param(&param.key) {
        why.push(format!("has no effect in this conversion ({})", who(session)));
    }
    let (key, origin) = (&param.key, shown(&param.origin));
    let value = shown(&param.value).replace("\\\"", "\"");
    let told = why.into_iter().map(|why| {
        let text = format!("`{key}` = {value} ({origin}) {why}");
        Diagnostic::new(Code::ParamsWithoutEffect, text)
    });
    told.collect()
}

/// A part that a file plays by its name.
struct Role {
    /// Stems that are taken for its own, misspelt or not.
    stems: &'static [&'static str],
    endings: &'static [&'static str],
    /// What is read, and from where.
    read: &'static str,
}

const ROLES: [Role; 3] = [
    Role {
        stems: &["params", "parameters"],
        endings: &["", "toml", "ini", "txt", "yaml", "yml", "json", "cfg", "conf"],
        read: "params are read from `params.toml` or `params.ini` beside the network",
    },
    Role {
        stems: &["calib", "calibration"],
        endings: &["npz", "npy", "zip", "csv", "txt", "bin", "h5", "pt", "pkl"],
        read: "calibration data are read from `calib.npz` or the folder `calib`, or from where \
               `calibration.data` says",
    },
    Role {
        stems: &["inputs", "outputs"],
        endings: &["npz", "npy", "zip", "csv", "txt", "bin", "pb"],
        read: "references are read from `inputs.npz` and `outputs.npz` beside the network, or from \
               where `check.inputs` and `check.outputs` say",
    },
];

/// What holds samples; the first one is read.
const SAMPLES: [&str; 2] = ["calib.npz", "calib/"];

/// Files under names that are read, wherever the rules for them look.
const NAMES: [&str; 4] = ["calib.npz", "calibration.json", "inputs.npz", "outputs.npz"];

const QUANTIZE: &str = "Add `quantization.format = \"QDQ\"` to `params.toml` to quantize with these samples, or \
                        leave them out.";
const SEE_CALIBRATION: &str = "Look at the params of `calibration`, or leave the samples out.";
const LEAVE_ONE_OUT: &str = "Leave one of them out.";

/// Samples that nothing read although they have the right names: whoever dropped them expects that they count, but for
/// whoever set the format to none.
fn unread(session: &Session) -> Vec<Diagnostic> {
    let looked = session.looked();
    let folder = session.request.network.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside =
        |name: &str| if folder.is_empty() { name.into() } else { format!("{folder}/{name}") };
    let is_read = |part: &str| looked.files.iter().any(|file| is_of(file, part));
    let dropped = |part: &str| session.request.files.iter().any(|file| is_of(&file.name, part));
    let samples = SAMPLES.map(beside);
    let read_instead = samples.iter().find(|part| is_read(part));
    let is_quantized = session.report.quantization.is_some();
    let has_format = |param: &Param| param.key == "quantization.format" && param.origin != UNSET;
    if !is_quantized && session.request.params.iter().any(has_format) {
        return Vec::new();
    }
    let told = samples.iter().filter(|part| dropped(part) && !is_read(part)).map(|part| {
        let (why, help) = match read_instead {
            Some(other) => (format!("`{}` is read instead", shown(other)), LEAVE_ONE_OUT),
            None if is_quantized => ("the quantization read none".into(), SEE_CALIBRATION),
            None => ("the network was not quantized".into(), QUANTIZE),
        };
        let text = format!("`{}` was not read: {why}", shown(part));
        Diagnostic::new(Code::FileNotRead, text).help(help)
    });
    told.collect()
}

/// Whether a file is that part of a drop, or lies in that folder.
fn is_of(file: &str, part: &str) -> bool {
    file == part || part.ends_with('/') && file.starts_with(part)
}

/// Files that nothing read, under a name that is nearly one which is.
fn misnamed(session: &Session) -> Vec<Diagnostic> {
    let looked = session.looked();
    let names: Vec<&str> = session.request.files.iter().map(|f| f.name.as_str()).collect();
    let unread = names.iter().filter(|name| !looked.files.contains(**name));
    let mut told = BTreeSet::new();
    let found = unread.filter_map(|name| {
        let (what, read) = near_miss(name, &session.request.network, &names)?;
        told.insert(what.clone()).then(|| {
            let text = format!("`{}` was not read: {read}", shown(&what));
            Diagnostic::new(Code::FileNotRead, text)
        })
    });
    found.collect()
}

/// The file or folder that was probably meant to be read, and what is read.
fn near_miss(name: &str, network: &str, all: &[&str]) -> Option<(String, String)> {
    let folder = network.rsplit_once('/').map_or("", |(folder, _)| folder);
    let inner = match folder {
        "" => name,
        folder => name.strip_prefix(folder)?.strip_prefix('/')?,
    };
    if name == network || NAMES.contains(&inner) {
        return None;
    }
    if let Some((top, _)) = inner.split_once('/') {
        let near = top != "calib" && nearest(top, ROLES[1].stems.iter().copied()).is_some();
        let whole = &name[..name.len() - inner.len() + top.len()];
        return near.then(|| (format!("{whole}/"), ROLES[1].read.to_owned()));
    }
    let stem = network.rsplit('/').next().and_then(|n| Some(n.rsplit_once('.')?.0));
    let is = |base: &str, name: &str| base.eq_ignore_ascii_case(name);
    let own = |base: &str| {
        let named = |ending| stem.is_some_and(|stem| is(base, &format!("{stem}.params.{ending}")));
        named("toml") || named("ini")
    };
    if own(inner) {
        return None;
    }
    if is(inner, "params.toml") || is(inner, "params.ini") {
        let first = all.iter().find(|n| own(n.rsplit('/').next().unwrap_or(n)))?;
        return Some((name.to_owned(), format!("`{}` is read instead", shown(first))));
    }
    let (stem, ending) = inner.rsplit_once('.').unwrap_or((inner, ""));
    let word = stem.rsplit('.').next().unwrap_or(stem);
    let ending = ending.to_lowercase();
    let fits = |role: &&Role| {
        role.endings.contains(&ending.as_str())
            && nearest(word, role.stems.iter().copied()).is_some()
    };
    ROLES.iter().find(fits).map(|role| (name.to_owned(), role.read.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_of_names_that_are_read() {
        let of = |name: &str| near_miss(name, "net.onnx", &[name]).map(|(what, _)| what);
        for name in [
            "params.txt", "param.toml", "params.yaml", "parms.ini", "PARAMS", "net.params.yml",
            "other.params.toml", "parameters.json", "calib.npy", "calibration.npz", "input.npz",
            "output.npz", "inputs.npy", "outputs.npy",
        ] {
            assert_eq!(of(name).as_deref(), Some(name), "{name}");
        }
        assert_eq!(of("calibration/1.png").as_deref(), Some("calibration/"));
        for name in [
            "params.toml", "Params.toml", "net.params.ini", "calib.npz", "calib/1.png",
            "calibration.json", "inputs.npz", "outputs.npz", "README.md", "weights/params.txt",
            "block.ini", "net.data", "labels.txt", "report.txt", "input.png", "test.npz",
            "format.txt",
        ] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn names_count_beside_the_network() {
        let of = |name: &str| near_miss(name, "a/net.ini", &[name]).map(|(what, _)| what);
        assert_eq!(of("a/params.txt").as_deref(), Some("a/params.txt"));
        assert_eq!(of("a/calibs/1.png").as_deref(), Some("a/calibs/"));
        assert_eq!(of("params.txt"), None);
    }

    #[test]
    fn params_of_the_network_displace_those_of_the_folder() {
        let all = ["net.onnx", "net.params.toml", "params.toml"];
        let (what, why) = near_miss("params.toml", "net.onnx", &all).unwrap();
        assert_eq!(
            (what.as_str(), why.as_str()),
            ("params.toml", "`net.params.toml` is read instead")
        );
        assert_eq!(near_miss("params.toml", "net.onnx", &["net.onnx", "params.toml"]), None);
    }
}
