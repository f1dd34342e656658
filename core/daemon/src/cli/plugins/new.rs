//! `onnxd plugins new`: a folder to start a plugin from; it builds, and its tests pass, as it is.

use crate::cli::{Ended, out};
use onnxd_diagnostics::{Code, Diagnostic, shown};
use std::path::{Path, PathBuf};

const FRONTEND: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("template/Cargo.toml.txt")),
    ("src/lib.rs", include_str!("template/frontend_lib.rs.txt")),
    ("src/reader.rs", include_str!("template/reader.rs.txt")),
    ("README.md", include_str!("template/README.md.txt")),
];
const PASS: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("template/Cargo.toml.txt")),
    ("src/lib.rs", include_str!("template/pass_lib.rs.txt")),
    ("src/rule.rs", include_str!("template/rule.rs.txt")),
    ("README.md", include_str!("template/README.md.txt")),
];
const QUANTIZER: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("template/Cargo.toml.txt")),
    ("src/lib.rs", include_str!("template/quantizer_lib.rs.txt")),
    ("src/round.rs", include_str!("template/round.rs.txt")),
    ("README.md", include_str!("template/README.md.txt")),
];

macro_rules! in_c {
    ($source:literal) => {
        &[
            ("plugin.c", include_str!(concat!("../../../../../plugins/example-c/", $source))),
            ("onnxd_plugin.h", include_str!("../../../../plugin-abi/onnxd_plugin.h")),
            ("onnxd_message.h", include_str!("../../../../plugin-abi/onnxd_message.h")),
            ("onnxd_graph.h", include_str!("../../../../plugin-abi/onnxd_graph.h")),
            ("README.md", include_str!("template/README_c.md.txt")),
        ]
    };
}
const FRONTEND_C: &[(&str, &str)] = in_c!("gain.c");
const PASS_C: &[(&str, &str)] = in_c!("strip_doc.c");
const QUANTIZER_C: &[(&str, &str)] = in_c!("round.c");

/// Writes the folder of a new plugin: it builds as it is, with one component, and in Rust its test.
#[derive(clap::Args)]
pub(crate) struct New {
    /// Id of the plugin, such as `org.example.my-plugin`; the folder is called like its last word.
    #[arg(value_name = "ID")]
    id: String,
    /// What its first component does.
    #[arg(long, value_enum, default_value = "pass")]
    kind: ComponentKind,
    /// What it is written in.
    #[arg(long, value_enum, default_value = "rust")]
    language: Language,
    /// For plugins in Rust: where `core/plugin-sdk` of onnxd's sources is.
    #[arg(long, value_name = "DIR", default_value = "../onnxd/core/plugin-sdk")]
    sdk: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ComponentKind {
    /// Reads networks of some format.
    Frontend,
    /// Changes graphs.
    Pass,
    /// Leaves few bits of them.
    Quantizer,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Language {
    /// With the SDK.
    Rust,
    /// With two headers.
    C,
}

impl New {
    pub(crate) fn run(&self) -> Ended {
        let name = last_word(&self.id)?;
        let folder = Path::new(name);
        let disk = |e: std::io::Error| {
            Diagnostic::new(Code::Disk, format!("`{}` could not be made: {e}", folder.display()))
        };
        std::fs::create_dir(folder).map_err(disk)?;
        let (files, feature) = match (self.language, self.kind) {
            (Language::Rust, ComponentKind::Frontend) => (FRONTEND, ""),
            (Language::Rust, ComponentKind::Pass) => (PASS, "\"pass\""),
            (Language::Rust, ComponentKind::Quantizer) => (QUANTIZER, "\"quantizer\""),
            (Language::C, ComponentKind::Frontend) => (FRONTEND_C, ""),
            (Language::C, ComponentKind::Pass) => (PASS_C, ""),
            (Language::C, ComponentKind::Quantizer) => (QUANTIZER_C, ""),
        };
        let sdk = onnxd_config::toml_text(&self.sdk.to_string_lossy().into());
        for (path, text) in files {
            let path = folder.join(path);
            let parent = path.parent().unwrap_or(folder);
            let text = fill(text, &self.id, &sdk, feature);
            let written = std::fs::create_dir_all(parent);
            written.and_then(|()| std::fs::write(&path, text)).map_err(disk)?;
        }
        let library = format!("lib{}.so", name.replace('-', "_"));
        let (build, folder) = match self.language {
            Language::Rust => ("cargo test && cargo build --release".into(), "target/release/"),
            Language::C => (format!("cc -std=c11 -shared -fPIC -O2 -o {library} plugin.c -lm"), ""),
        };
        out::print(&format!(
            "{name}/ is ready. Next:\n  cd {name} && {build}\n  \
             onnxd plugins check {folder}{library}"
        ));
        Ok(0)
    }
}

fn fill(template: &str, id: &str, sdk: &str, feature: &str) -> String {
    let name = id.rsplit('.').next().unwrap_or(id);
    let crate_name = name.replace('-', "_");
    let pairs = [
        // The examples in C are templates as they are.
        ("org.onnxd.example-c-gain", id),
        ("org.onnxd.example-c-round", id),
        ("org.onnxd.example-c", id),
        ("@ID@", id),
        ("@NAME@", name),
        ("@CRATE@", &crate_name),
        ("\"@SDK@\"", sdk),
        ("\"@FEATURE@\"", feature),
    ];
    pairs.iter().fold(template.to_owned(), |text, (mark, value)| text.replace(mark, value))
}

/// The last word of an id, if the id is one.
fn last_word(id: &str) -> Result<&str, Diagnostic> {
    let is_word = |word: &str| {
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && !word.ends_with('-')
            && word.chars().all(letter)
    };
    match id.rsplit_once('.') {
        Some((_, last)) if id.split('.').all(is_word) => Ok(last),
        _ => {
            let text = format!("`{}` is not the id of a plugin", shown(id));
            let help = "Two or more words of lower-case letters, digits and `-`, joined by `.`: \
                        `org.example.my-plugin`.";
            Err(Diagnostic::new(Code::Usage, text).help(help))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        assert_eq!(last_word("org.example.my-plugin").unwrap(), "my-plugin");
        for bad in ["plugin", "org.", "Org.x", "a.b c", "a.-b", "a..b", "../x.y"] {
            assert!(last_word(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_stays_open() {
        let in_rust = FRONTEND.iter().chain(PASS).chain(QUANTIZER);
        for (path, text) in in_rust.chain(FRONTEND_C).chain(PASS_C).chain(QUANTIZER_C) {
            let filled = fill(text, "org.example.my-plugin", "\"/sdk\"", "\"pass\"");
            assert!(
                !filled.contains('@') && !filled.contains("onnxd.example-c"),
                "{path}: {filled}"
            );
            assert!(!text.trim().is_empty());
        }
        let manifest: toml::Table =
            fill(FRONTEND[0].1, "org.example.x", "\"/a \\\"b\"", "").parse().unwrap();
        let sdk = &manifest["dependencies"]["onnxd-plugin-sdk"]["path"];
        assert_eq!(sdk.as_str(), Some("/a \"b"));
    }
}
