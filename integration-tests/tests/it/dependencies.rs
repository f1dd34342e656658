//! What the libraries that onnxd builds upon may be: their licences, where they come from, what they need.

use cargo_metadata::{CargoOpt, MetadataCommand, Package};
use std::collections::{BTreeMap, BTreeSet};

/// Licences that a program may be linked with and given away. One of each `OR` must be here, and all of an `AND`.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Libraries that are built in two versions, with the reason.
const TWICE: &[(&str, &str)] = &[
    ("foldhash", "of both versions of hashbrown"),
    ("hashbrown", "petgraph, a tool of prost-build, asks for the older one"),
    ("miniz_oxide", "png asks for the older one"),
    ("syn", "some derive macros ask for the older one"),
];

/// Crates that link a library of the system or claim a link name, with the reason why they need no system package.
const LINKS: &[(&str, &str)] = &[
    ("ort-sys", "ONNX Runtime is loaded while the program runs"),
    ("rayon-core", "the name only keeps it from being linked twice"),
];

fn packages() -> Vec<Package> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let filter = ["--filter-platform".to_owned(), platform];
    let mut command = MetadataCommand::new();
    command.features(CargoOpt::AllFeatures).other_options(filter);
    command.exec().unwrap().packages
}

fn allowed(licence: &str) -> bool {
    let licence = licence.replace('/', " OR ").replace(['(', ')'], " ");
    licence.split(" AND ").all(|part| {
        part.split(" OR ").any(|one| {
            let one = one.trim().split(" WITH ").next().unwrap_or_default();
            LICENCES.contains(&one)
        })
    })
}

#[test]
fn libraries_may_be_given_away_and_come_from_the_registry() {
    let mut wrong = Vec::new();
    for package in packages() {
        let licence = package.license.clone().unwrap_or_default();
        if !allowed(&licence) {
            wrong.push(format!("{} has the licence `{licence}`", package.name));
        }
        let source = package.source.map(|s| s.repr).unwrap_or_default();
        if !source.is_empty() && !source.starts_with("registry+") {
            wrong.push(format!("{} comes from {source}", package.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(allowed("MIT/Apache-2.0") && allowed("(MIT OR GPL-2.0) AND Unicode-3.0"));
    assert!(!allowed("GPL-3.0") && !allowed("MIT AND GPL-3.0") && !allowed(""));
}

#[test]
fn libraries_are_built_once_and_need_no_system_package() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut links = BTreeSet::new();
    for package in packages() {
        versions.entry(package.name.to_string()).or_default().insert(package.version.to_string());
        if package.links.is_some() {
            links.insert(package.name.to_string());
        }
    }
    let twice: BTreeSet<_> =
        versions.iter().filter(|(_, v)| v.len() > 1).map(|(n, _)| n.as_str()).collect();
    assert_eq!(twice, TWICE.iter().map(|(name, _)| *name).collect());
    let links: BTreeSet<_> = links.iter().map(String::as_str).collect();
    assert_eq!(links, LINKS.iter().map(|(name, _)| *name).collect());
}
