//! The host knows no plugin by name: what it has to know of one stands in that plugin's descriptor.

use onnxd_integration_tests::{components, root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files and folders that may name one, and why.
const MAY: &[(&str, &str)] = &[
    ("core/daemon/src/cli/demo.rs", "it drops an example, which is a network of some format"),
    ("core/daemon/src/cli/plugins/new.rs", "it copies the examples"),
    ("core/hugging-face/", "it is a front-end, which plugins link and the host does not"),
    ("core/intake/src/formats.rs", "it tells files of every framework by their content"),
    ("core/ir/src/ops/quant.rs", "names of ONNX operators begin so"),
    ("core/pickle/", "it reads files of `torch.save`, whichever front-end has them"),
    ("core/rewrite/src/equalize_weights.rs", "the pass is defined there; its plugin only lists it"),
];

/// Words by which the host would know a plugin: its id and folder, its own params, and as whole texts ids of components
/// and names of formats.
struct PluginWords {
    parts: BTreeSet<String>,
    wholes: BTreeSet<String>,
}

fn names() -> PluginWords {
    let (mut parts, mut wholes) = (BTreeSet::new(), BTreeSet::new());
    for entry in std::fs::read_dir(root().join("plugins")).unwrap() {
        let folder = entry.unwrap().file_name().into_string().unwrap();
        parts.extend(Some(folder).filter(|name| name.contains('-')));
    }
    for (plugin, component) in components() {
        parts.insert(plugin);
        // A word with a digit or a joint cannot be meant otherwise, wherever it stands.
        let telling = |word: &str| word.contains(|c: char| c == '-' || c.is_ascii_digit());
        for word in [&component.id, &component.format] {
            let word = word.to_lowercase();
            if telling(&word) {
                parts.insert(word)
            } else {
                wholes.insert(word)
            };
        }
        parts.extend(component.params.iter().map(|param| param.key.clone()));
        let sections = component.params.iter().filter_map(|param| param.key.rsplit_once('.'));
        let own = sections.map(|(section, _)| section).filter(|section| section.contains('.'));
        parts.extend(own.map(str::to_owned));
    }
    wholes.remove("");
    PluginWords { parts, wholes }
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" && name != "target" {
            sources(&path, into);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            into.push(path);
        }
    }
}

/// The texts between quotation marks in a line of code.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    let code = line.trim_start();
    let code = if code.starts_with("//") { "" } else { code };
    code.split('"').skip(1).step_by(2)
}

/// What is named in a text: with its line.
fn found(text: &str, names: &PluginWords) -> Vec<(usize, String)> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().zip(1..);
    let named =
        lines.flat_map(|(line, number)| literals(line).map(move |l| (l.to_lowercase(), number)));
    let known = named.filter(|(literal, _)| {
        names.wholes.contains(literal)
            || names.parts.iter().any(|name| literal.contains(name.as_str()))
    });
    known.map(|(literal, number)| (number, literal)).collect()
}

#[test]
fn the_host_names_no_plugin() {
    let (names, mut files) = (names(), Vec::new());
    ["core", "config"].iter().for_each(|folder| sources(&root().join(folder), &mut files));
    assert!(files.len() > 300 && names.parts.contains("n2d2") && names.wholes.contains("qdq"));
    let mut wrong = Vec::new();
    for file in &files {
        let place = file.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        if MAY.iter().any(|(may, _)| place.starts_with(may)) {
            continue;
        }
        let text = std::fs::read_to_string(file).unwrap();
        let hits = found(&text, &names).into_iter();
        wrong.extend(hits.map(|(line, literal)| format!("{place}:{line} names \"{literal}\"")));
    }
    assert!(wrong.is_empty(), "declare it in the plugin's descriptor: {wrong:#?}");
}

/// No crate beside plugins has the front-end that they share.
#[test]
fn the_host_links_no_front_end() {
    for entry in std::fs::read_dir(root().join("core")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let is_own = folder.ends_with("hugging-face");
        assert_eq!(manifest.contains("\"onnxd-hugging-face"), is_own, "{}", folder.display());
        assert!(!manifest.contains("\nonnxd-hugging-face"), "{}", folder.display());
    }
}

#[test]
fn names_are_found_where_they_stand_in_code() {
    let names = names();
    let text = "// \"n2d2\"\nif format == \"QDQ\" { params[\"quantization.n2d2.calib\"] }\n\
                let id = \"org.onnxd.quant-inc\";\nlet op = \"QLinearConv\";\n";
    let lines: Vec<usize> = found(text, &names).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [2, 2, 3]);
}
