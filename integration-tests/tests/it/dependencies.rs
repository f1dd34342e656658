//! What the libraries that onnxd builds upon may be: their licences, where they come from, what they need. `deny.toml`
//! declares it, for this and for `cargo deny`, which is not on every machine.

use crate::licences::{declared, taken};
use cargo_metadata::semver::Version;
use cargo_metadata::{CargoOpt, MetadataCommand, Package};
use onnxd_integration_tests::root;
use std::collections::{BTreeMap, BTreeSet};
use toml::Table;

/// Crates that link a library of the system or claim a link name, with the reason why they need no system package.
const LINKS: &[(&str, &str)] = &[
    ("ort-sys", "ONNX Runtime is loaded while the program runs"),
    ("rayon-core", "the name only keeps it from being linked twice"),
    ("wasm-bindgen-shared", "the same; it is built for the web only"),
];

/// The packages of the lock file, and whether it is all of them. Those for other systems are not built, so that a
/// machine without network may lack them; `cargo fetch` loads them.
fn packages() -> (Vec<Package>, bool) {
    let asked = |more: &[&str]| {
        let mut command = MetadataCommand::new();
        let options = ["--locked"].iter().chain(more).map(|option| (*option).to_owned());
        command.features(CargoOpt::AllFeatures).other_options(options.collect::<Vec<_>>());
        command.exec().map(|metadata| metadata.packages)
    };
    if let Ok(all) = asked(&[]) {
        return (all, true);
    }
    eprintln!("skipped: crates for other systems, which are not on this machine");
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    (asked(&["--offline", "--filter-platform", &platform]).unwrap(), false)
}

/// Name, version and source of each package of a lock file; our own have no source.
fn locked(file: &str) -> Vec<(String, String, Option<String>)> {
    let lock: Table = std::fs::read_to_string(root().join(file)).unwrap().parse().unwrap();
    let packages = lock["package"].as_array().unwrap().iter();
    let text = |package: &toml::Value, key: &str| package.get(key)?.as_str().map(str::to_owned);
    packages
        .map(|p| (text(p, "name").unwrap(), text(p, "version").unwrap(), text(p, "source")))
        .collect()
}

#[test]
fn libraries_may_be_given_away() {
    let allowed = declared().licences;
    let (packages, all) = packages();
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for package in &packages {
        let licence = package.license.clone().unwrap_or_default();
        match taken(&licence, &allowed) {
            Some(names) => used.extend(names),
            None => wrong.push(format!("{} has the licence `{licence}`", package.name)),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    if !all {
        return;
    }
    let listed: BTreeSet<String> = allowed.into_iter().collect();
    assert_eq!(used, listed, "deny.toml allows licences that nothing needs");
    let seen: BTreeSet<_> =
        packages.iter().map(|p| (p.name.to_string(), p.version.to_string())).collect();
    let locked: BTreeSet<_> =
        locked("Cargo.lock").into_iter().map(|(name, version, _)| (name, version)).collect();
    assert_eq!(seen, locked, "cargo tells of all packages of the lock file");
}

#[test]
fn libraries_come_from_the_registry() {
    let registries = declared().registries;
    let mut wrong = Vec::new();
    for file in ["Cargo.lock", "fuzz/Cargo.lock"] {
        for (name, version, source) in locked(file) {
            let from = source.as_deref().map(|s| s.strip_prefix("registry+").unwrap_or(s));
            let ours = name.starts_with("onnxd-");
            if from.map_or(!ours, |from| !registries.iter().any(|known| known == from)) {
                wrong.push(format!("{file}: {name} {version} comes from {source:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let anything = |package: &Package| {
        let wild = package.dependencies.iter().filter(|d| d.path.is_none());
        let wild = wild.filter(|d| package.source.is_none() && d.req.comparators.is_empty());
        wild.map(|d| format!("{} asks for any version of {}", package.name, d.name))
            .collect::<Vec<_>>()
    };
    let wild: Vec<_> = packages().0.iter().flat_map(anything).collect();
    assert!(wild.is_empty(), "{wild:#?}");
}

#[test]
fn libraries_are_built_once() {
    let declared = declared();
    let mut versions: BTreeMap<String, BTreeSet<Version>> = BTreeMap::new();
    for (name, version, _) in locked("Cargo.lock") {
        versions.entry(name).or_default().insert(version.parse().unwrap());
    }
    let mut older = BTreeSet::new();
    for (name, versions) in &mut versions {
        versions.pop_last();
        older.extend(versions.iter().map(|version| (name.clone(), version.to_string())));
    }
    let listed = declared.older.iter().map(|(name, version, _)| (name.clone(), version.clone()));
    assert_eq!(older, listed.collect(), "`skip` of deny.toml lists the older ones, and no others");
    let banned = declared.banned.iter().filter(|(name, _)| versions.contains_key(name));
    assert_eq!(banned.collect::<Vec<_>>(), Vec::<&(String, String)>::new());
}

#[test]
fn libraries_need_no_system_package() {
    let (packages, all) = packages();
    let links = packages.iter().filter(|package| package.links.is_some());
    let links: BTreeSet<_> = links.map(|package| package.name.as_str()).collect();
    let known: BTreeSet<_> = LINKS.iter().map(|(name, _)| *name).collect();
    assert!(if all { links == known } else { links.is_subset(&known) }, "{links:?}");
}

/// An exception without a reason, or for a library that is gone, does not stay.
#[test]
fn every_exception_of_deny_toml_has_a_reason() {
    let declared = declared();
    let older = declared.older.iter().map(|(name, _, reason)| (name, reason));
    let others = declared.banned.iter().chain(&declared.ignored).map(|(what, why)| (what, why));
    for (what, reason) in older.chain(others) {
        assert!(reason.split_whitespace().count() >= 3, "{what}: `{reason}` is no reason");
    }
    let locked = locked("Cargo.lock");
    for (id, reason) in &declared.ignored {
        let name = reason.split(':').next().unwrap_or_default();
        assert!(locked.iter().any(|(known, ..)| known == name), "{id}: `{name}` is not there");
    }
}
