//! `THIRD-PARTY-NOTICES.md`: the libraries that the built program and plugins contain, and the texts of their licences.
//!
//! `UPDATE_EXPECT=1 cargo test -p onnxd-integration-tests --test it notices::` writes it from the lock file and the
//! sources of the libraries.

use crate::licences::{declared, taken};
use cargo_metadata::{DependencyKind, MetadataCommand, Package, PackageId};
use onnxd_integration_tests::root;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::fs;

/// Systems that onnxd is built for.
const PLATFORMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Words by which the text of a licence is known.
const KNOWN_BY: &[(&str, &str)] = &[
    ("Apache-2.0", "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION"),
    ("BSD-3-Clause", "Redistribution and use in source and binary forms"),
    ("BSL-1.0", "Boost Software License - Version 1.0"),
    ("CC0-1.0", "CC0 1.0 Universal"),
    ("ISC", "Permission to use, copy, modify, and/or distribute this software"),
    ("MIT", "Permission is hereby granted, free of charge"),
    ("Unicode-3.0", "UNICODE LICENSE V3"),
    ("Zlib", "This software is provided 'as-is'"),
];

/// Behind this the Apache License shows how to apply it.
const APACHE_END: &str = "END OF TERMS AND CONDITIONS";

/// Libraries that come without the text of their licence, which is that of another one.
const WITHOUT_TEXT: &[(&str, &str)] = &[("fxhash", "cfg-if")];

const HEAD: &str =
    "<!-- UPDATE_EXPECT=1 cargo test -p onnxd-integration-tests --test it notices:: writes this file. -->

# Libraries in onnxd

The program `onnxd` and its plugins are built from these libraries, besides sources of their own. Give this file away
with them. A library that offers several licences is used under the one that is named here. Each text stands once,
below the list.

Other parts:

- the standard library of Rust: MIT OR Apache-2.0; used under Apache-2.0
  - Copyright (c) The Rust Project Contributors
- `onnx.proto` and the tables of operators of the ONNX standard: Apache-2.0
  - Copyright (c) ONNX Project Contributors

## Libraries

";

/// Packages that become part of the default members: by normal and build dependencies, on any of the platforms.
fn shipped() -> Vec<Package> {
    let mut command = MetadataCommand::new();
    let filters = PLATFORMS.iter().flat_map(|platform| ["--filter-platform", platform]);
    let options = ["--locked"].into_iter().chain(filters).map(str::to_owned);
    command.manifest_path(root().join("Cargo.toml"));
    let metadata = command.other_options(options.collect::<Vec<_>>()).exec().unwrap();
    let resolved = metadata.resolve.as_ref().expect("metadata with dependencies");
    let nodes: HashMap<&PackageId, _> = resolved.nodes.iter().map(|n| (&n.id, n)).collect();
    let mut pending: Vec<_> = metadata.workspace_default_members.iter().collect();
    let mut found = BTreeSet::new();
    while let Some(id) = pending.pop() {
        if found.insert(id) {
            let used = nodes[id].deps.iter();
            let used =
                used.filter(|d| d.dep_kinds.iter().any(|k| k.kind != DependencyKind::Development));
            pending.extend(used.map(|d| &d.pkg));
        }
    }
    let foreign = metadata.packages.iter().filter(|p| p.source.is_some() && found.contains(&p.id));
    let mut foreign: Vec<Package> = foreign.cloned().collect();
    foreign.sort_by(|a, b| (&*a.name, &a.version).cmp(&(&*b.name, &b.version)));
    foreign
}

/// Files of a package that are about licences, with their names.
fn files(package: &Package) -> Vec<(String, String)> {
    let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap().to_uppercase();
        let about =
            ["LICEN", "COPY", "NOTICE", "UNLICEN"].iter().any(|word| name.starts_with(word));
        if about && entry.file_type().unwrap().is_file() {
            let text = fs::read_to_string(entry.path()).unwrap();
            found.push((name, text.trim_start_matches('\u{feff}').replace("\r\n", "\n")));
        }
    }
    found.sort();
    found
}

/// Whether a line says who has the rights: not what a licence says of copyright, nor a line to be filled in.
fn is_copyright(line: &str) -> bool {
    let line = line.trim().trim_start_matches("- ");
    if let Some(rest) = line.strip_prefix("(C) ") {
        return rest.starts_with(|c: char| c.is_ascii_digit());
    }
    let dated = line.contains(|c: char| c.is_ascii_digit() || c == '\u{a9}');
    let named = dated || line.contains("(c)") || line.contains("(C)");
    line.starts_with("Copyright") && named && !line.contains("yyyy")
}

fn copyrights(files: &[(String, String)]) -> BTreeSet<String> {
    let lines = files.iter().flat_map(|(_, text)| text.lines());
    lines
        .filter(|line| is_copyright(line))
        .map(|line| line.trim().trim_start_matches("- ").to_owned())
        .collect()
}

/// Lines at the head of texts that say which licence it is and where it stands; some texts lack them.
const TITLES: [&str; 8] = [
    "mit license", "mit license (mit)", "isc license", "isc license (isc)", "zlib license",
    "http://www.apache.org/licenses/", "https://www.apache.org/licenses/",
    "https://www.apache.org/licenses/license-2.0",
];

/// A text without what differs from library to library: its title, and who has the rights.
fn body(text: &str) -> String {
    let text = text.split(APACHE_END).next().unwrap_or_default();
    let is_title = |line: &str| {
        let line = line.trim().trim_start_matches('#').trim().to_lowercase();
        TITLES.contains(&line.trim_start_matches("the "))
    };
    let lines = text.lines().map(str::trim_end);
    let mut kept: Vec<&str> = lines.filter(|l| !is_copyright(l) && !is_title(l)).collect();
    kept.dedup_by(|a, b| a.is_empty() && b.is_empty());
    kept.join("\n").trim_matches('\n').to_owned()
}

/// Equal texts have equal keys, however their lines are broken.
fn key(body: &str) -> String {
    body.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The texts that go with a package: of its licences, and what it adds to them.
fn texts(
    package: &Package,
    licences: &BTreeSet<String>,
    others: &[Package],
) -> Vec<(String, String)> {
    let own = files(package);
    let mut found = Vec::new();
    for licence in licences {
        let known = KNOWN_BY.iter().find(|(name, _)| name == licence);
        let words = known.unwrap_or_else(|| panic!("no words are known of {licence}")).1;
        let text_of = |files: &[(String, String)]| {
            files.iter().find(|(_, text)| key(text).contains(words)).map(|(_, text)| body(text))
        };
        let other = WITHOUT_TEXT.iter().find(|(name, _)| *name == package.name.as_str());
        let other = other.and_then(|(_, other)| others.iter().find(|p| p.name.as_str() == *other));
        let text = text_of(&own).or_else(|| text_of(&files(other?)));
        found.push((
            licence.clone(),
            text.unwrap_or_else(|| panic!("{} has no {licence}", package.name)),
        ));
    }
    let adds = |name: &str| name.starts_with("NOTICE") || name.contains("THIRD-PARTY");
    let added = own.iter().filter(|(name, _)| adds(name));
    found.extend(added.map(|(_, text)| (format!("of {}", package.name), text.trim().to_owned())));
    found
}

fn notices() -> String {
    let (packages, allowed) = (shipped(), declared().licences);
    let mut out = HEAD.to_owned();
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut shown = String::new();
    for package in &packages {
        let said = package.license.clone().unwrap_or_default();
        let licences = taken(&said, &allowed).unwrap_or_else(|| panic!("{}: {said}", package.name));
        let mut refs = Vec::new();
        for (title, text) in texts(package, &licences, &packages) {
            let next = numbers.len() + 1;
            let number = *numbers.entry(key(&text)).or_insert(next);
            if number == next {
                write!(shown, "\n### Text {number}: {title}\n\n```text\n{text}\n```\n").unwrap();
            }
            refs.push(number.to_string());
        }
        let (name, version) = (&package.name, &package.version);
        let names = Vec::from_iter(licences).join(" and ");
        writeln!(out, "- `{name}` {version}: {said}; used under {names}, text {}", refs.join(", "))
            .unwrap();
        for line in copyrights(&files(package)) {
            writeln!(out, "  - {line}").unwrap();
        }
    }
    out + "\n## Texts\n" + &shown
}

#[test]
fn notices_are_those_of_the_lock_file() {
    let path = root().join("THIRD-PARTY-NOTICES.md");
    let wanted = notices();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(path, wanted).unwrap();
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    for (i, (found, wanted)) in text.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(found, wanted, "THIRD-PARTY-NOTICES.md:{}; UPDATE_EXPECT=1 writes it", i + 1);
    }
    assert_eq!(text.lines().count(), wanted.lines().count());
}

#[test]
fn texts_that_differ_in_lines_and_owners_alone_are_one() {
    let one = "The MIT License (MIT)\n\nCopyright (c) 2020 A\n\nPermission is\nhereby granted";
    let two = "MIT License\r\n\r\nCopyright 2021 B\r\n\r\nPermission is hereby granted\r\n";
    assert_eq!(key(&body(one)), key(&body(two)));
    assert_ne!(key(&body(one)), key(&body("Permission is hereby denied")));
    for line in ["  Copyright (c) 2020 A", "Copyright 2014-2020 B", "(C) 2024 C", "Copyright (c) D"]
    {
        assert!(is_copyright(line), "{line}");
    }
    for line in ["copyright license to reproduce", "Copyright [yyyy] [name]", "(c) You must retain"]
    {
        assert!(!is_copyright(line), "{line}");
    }
}
