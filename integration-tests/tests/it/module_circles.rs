//! Modules of a crate use each other in one direction: no circle of siblings, but for a few that are one thing in
//! several files.
//!
//! A module uses another one if any file of it names something there by a path. What a module itself holds, beside its
//! children, counts for none of them.

use onnxd_integration_tests::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Circles that may stay: crate, module whose children they are, and the children.
const MAY_STAY: &[&str] = &[
    // A tensor is a value of the program, and a view has such values as arguments of its operator.
    "frontend-torch::machine: alias, item",
    // A tensor may be derived, and a derivation is of tensors: one recursive type.
    "ir: derived, tensor",
];

/// Its names, from the crate on.
type Module = Vec<String>;

#[test]
fn modules_use_each_other_in_one_direction() {
    let mut found = BTreeSet::new();
    for folder in ["core", "plugins"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.join("src").is_dir() {
                found.extend(circles(&name, &modules(&path.join("src"))));
            }
        }
    }
    let allowed: BTreeSet<String> = MAY_STAY.iter().map(|text| (*text).to_owned()).collect();
    let new: Vec<&String> = found.difference(&allowed).collect();
    assert!(new.is_empty(), "circles: {new:#?}");
    let stale: Vec<&String> = allowed.difference(&found).collect();
    assert!(stale.is_empty(), "these are no circles any more: {stale:#?}");
}

/// The modules below `source` with their text, without tests and comments.
fn modules(source: &Path) -> BTreeMap<Module, String> {
    let mut modules = BTreeMap::new();
    let mut pending = vec![source.to_owned()];
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let within = path.strip_prefix(source).unwrap().with_extension("");
        let mut names: Module =
            within.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let is_test = |name: &String| {
            ["tests", "testing"].contains(&name.as_str()) || name.ends_with("_tests")
        };
        if path.extension().is_none_or(|e| e != "rs") || names.iter().any(is_test) {
            continue;
        }
        names.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let code = text.lines().map(|line| line.split("//").next().unwrap());
        modules.insert(names, code.collect::<Vec<_>>().join("\n"));
    }
    modules
}

/// The circles of siblings, one line each.
fn circles(name: &str, modules: &BTreeMap<Module, String>) -> Vec<String> {
    let mut uses = BTreeSet::new();
    for (module, text) in modules {
        let used = paths(text).into_iter().filter_map(|path| named(modules, module, &path));
        uses.extend(used.map(|used| (module, used)));
    }
    let parents: BTreeSet<&[String]> =
        modules.keys().flat_map(|m| (0..m.len()).map(|n| &m[..n])).collect();
    let mut circles = Vec::new();
    for parent in parents {
        let child = |module: &[String]| module.strip_prefix(parent)?.first().cloned();
        let mut edges = BTreeMap::<String, BTreeSet<String>>::new();
        for (user, used) in &uses {
            if let (Some(user), Some(used)) = (child(user), child(used)) {
                edges.entry(user).or_default().insert(used);
            }
        }
        let mut seen = BTreeSet::new();
        for one in edges.keys() {
            let circle: Vec<&String> =
                edges.keys().filter(|o| leads(&edges, one, o) && leads(&edges, o, one)).collect();
            if circle.len() > 1 && seen.insert(circle.clone()) {
                let members: Vec<&str> = circle.into_iter().map(String::as_str).collect();
                let within = [&[name.to_owned()], parent].concat().join("::");
                circles.push(format!("{within}: {}", members.join(", ")));
            }
        }
    }
    circles
}

/// Whether `to` can be reached from `from`.
fn leads(edges: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    let (mut pending, mut seen) = (vec![from], BTreeSet::from([from]));
    while let Some(at) = pending.pop() {
        if at == to {
            return true;
        }
        pending.extend(
            edges
                .get(at)
                .into_iter()
                .flatten()
                .filter(|next| seen.insert(next.as_str()))
                .map(String::as_str),
        );
    }
    false
}

/// The module that a path in `module` leads into.
fn named(modules: &BTreeMap<Module, String>, module: &Module, path: &[String]) -> Option<Module> {
    let mut at = module.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (at, rest) = (Vec::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {}
        child => {
            let is_child = modules.contains_key(&[&at[..], &[child.to_owned()]].concat());
            if !is_child {
                return None;
            }
        }
    }
    while let Some((_, more)) = rest.split_first().filter(|(first, _)| *first == "super") {
        at.pop();
        rest = more;
    }
    for name in rest {
        at.push(name.clone());
        if !modules.contains_key(&at) {
            at.pop();
            break;
        }
    }
    Some(at)
}

/// All paths of more than one name in a text; those of a tree in braces one by one.
fn paths(text: &str) -> Vec<Vec<String>> {
    let bytes = text.as_bytes();
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let begins = is_name(bytes[at])
            && (at == 0 || !(is_name(bytes[at - 1]) || [b':', b'.'].contains(&bytes[at - 1])));
        at = if begins { tree(text, at, &[], &mut found) } else { at + 1 };
    }
    found.retain(|path| path.len() > 1);
    found
}

/// Reads the tree of paths at a place of the text; where it ends.
fn tree(text: &str, from: usize, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let rest = |at: usize| text.as_bytes().get(at..).unwrap_or_default();
    let blanks = |at: usize| at + rest(at).iter().take_while(|b| b.is_ascii_whitespace()).count();
    let mut path = prefix.to_vec();
    let mut at = blanks(from);
    loop {
        if rest(at).first() == Some(&b'{') && !path.is_empty() {
            at = blanks(at + 1);
            while rest(at).first().is_some_and(|b| *b != b'}') {
                let end = blanks(tree(text, at, &path, found));
                let comma = rest(end).iter().position(|b| [b',', b'}'].contains(b));
                at = end + comma.unwrap_or(rest(end).len());
                at = blanks(at + usize::from(rest(at).first() == Some(&b',')));
            }
            return at + 1;
        }
        let length =
            rest(at).iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        if length > 0 {
            path.push(text[at..at + length].to_owned());
            at += length;
        }
        if length == 0 || !rest(at).starts_with(b"::") {
            found.push(path);
            return at.max(from + 1);
        }
        at = blanks(at + 2);
    }
}

#[test]
fn paths_are_read_from_trees() {
    let found = paths("use a::{b, self, c::{D, *}}; x.y(crate::d::e(1), E::F { g: h })");
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["a::b", "a::self", "a::c::D", "a::c", "crate::d::e", "E::F"]);
}

#[test]
fn circles_are_found() {
    let of = |files: &[(&str, &str)]| {
        let module = |name: &str| name.split("::").map(str::to_owned).collect::<Module>();
        let files = files.iter().map(|(name, text)| (module(name), (*text).to_owned()));
        circles("x", &files.collect())
    };
    let one_way = [("a", "use crate::b::f;"), ("b", ""), ("b::c", "use super::d;"), ("b::d", "")];
    assert_eq!(of(&one_way), [""; 0]);
    let back = [("a", "use crate::b::f;"), ("b", ""), ("b::c", "super::super::a::g()")];
    assert_eq!(of(&back), ["x: a, b"]);
    let three = [
        ("b", ""),
        ("b::c", "use super::d;"),
        ("b::d", "super::e::f()"),
        ("b::e", "use crate::b::c;"),
    ];
    assert_eq!(of(&three), ["x::b: c, d, e"]);
}
