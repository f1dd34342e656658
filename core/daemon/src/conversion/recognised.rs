//! What a file is that no front-end could read, in the words of its framework, beside the reason.

use std::path::Path;

use onnxd_diagnostics::{Code, Diagnostics};
use onnxd_intake::formats::sentence;
use onnxd_proto::onnxd::Report;

/// Findings after which the content of a file says more than the reason.
fn is_about_format(code: &str) -> bool {
    [Code::NoFrontend, Code::OnnxMalformed].iter().any(|c| c.as_str() == code)
}

fn with_format(path: &Path, message: &str) -> Option<String> {
    sentence(path).map(|what| format!("{what} ({message})"))
}

/// Findings about files or folders that were named; the first that is known is told.
pub(crate) fn tell<P: AsRef<Path>>(paths: &[P], mut found: Diagnostics) -> Diagnostics {
    for one in found.0.iter_mut().filter(|d| is_about_format(&d.code)) {
        // A person may name a link to a file.
        let real = |path: &P| path.as_ref().canonicalize().ok();
        let mut paths = paths.iter().filter_map(real);
        let told = paths.find_map(|path| with_format(&path, &one.message));
        told.into_iter().for_each(|message| one.message = message);
    }
    found
}

/// The same in the report of a failed conversion of `network`.
pub(crate) fn tell_in_report(network: &Path, report: &mut Report) {
    let Report { diagnostics, summary, .. } = report;
    for one in diagnostics.iter_mut().filter(|d| is_about_format(&d.code)) {
        if let Some(message) = with_format(network, &one.message) {
            if *summary == one.message {
                summary.clone_from(&message);
            }
            one.message = message;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_diagnostics::Diagnostic;

    #[test]
    fn only_findings_about_formats_are_explained() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("net.bin");
        std::fs::write(&path, b"7767517\n").unwrap();
        let told = |code| {
            let found = Diagnostics::from(Diagnostic::new(code, "nobody takes it"));
            tell(&[&path], found).0.remove(0).into_finding().message
        };
        let wanted = "it is an ncnn network (param); not read by this version (nobody takes it)";
        assert_eq!(told(Code::NoFrontend), wanted);
        assert_eq!(told(Code::Disk), "nobody takes it");
    }
}
