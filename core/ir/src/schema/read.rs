//! Reads `operators.txt` and `microsoft.txt`. The files are part of the program, so a mistake in
//! them is a panic that tests find.
//!
//! Every library of a process has the table anew, and a network has few of its operators. So the
//! files are only searched for the names that they have; what a name stands for is read when it is
//! asked for. Reading both files whole took a millisecond in each library.

use super::{
    AttrSchema, Domain, OpSchema, OperatorEntry, Param, ParamKind, ParamType, Registry, TypeSet,
};
use std::collections::HashMap;
use std::sync::OnceLock;

/// Short names of attribute types, by their number in `AttributeProto.AttributeType`.
const KINDS: [&str; 15] =
    ["", "f", "i", "s", "t", "g", "fs", "is", "ss", "ts", "gs", "sp", "sps", "tp", "tps"];

/// The sets of types that one file lists, by their numbers.
pub(super) struct Sets(Vec<Set>);

struct Set {
    text: &'static str,
    read: OnceLock<TypeSet>,
}

impl Sets {
    /// The sets at the head of a file, before its first domain.
    fn parse(text: &'static str) -> Sets {
        let head = text.lines().take_while(|l| !l.starts_with("domain "));
        let sets = head.filter_map(|l| l.strip_prefix("types "));
        Sets(sets.map(|text| Set { text, read: OnceLock::new() }).collect())
    }

    fn get(&self, number: usize) -> &TypeSet {
        let set = &self.0[number];
        set.read.get_or_init(|| {
            let mut types = TypeSet::default();
            set.text.split(' ').skip(1).for_each(|t| types.add(t));
            types
        })
    }
}

pub(super) fn registry(texts: &[&'static str]) -> Registry {
    let mut domains = HashMap::new();
    texts.iter().for_each(|text| index(text, &mut domains));
    Registry { domains }
}

/// Adds what one file lists. A domain that is listed already keeps its version.
fn index(text: &'static str, domains: &mut HashMap<&'static str, Domain>) {
    // Lives as long as the table, which lives as long as the program.
    let sets: &'static Sets = Box::leak(Box::new(Sets::parse(text)));
    let listed = |line: &&str| !line.starts_with('#') && !line.starts_with("types ");
    let mut domain = None;
    for line in text.lines().filter(listed) {
        let (first, rest) = split(line, ' ');
        if first == "domain" {
            let (version, name) = split(rest, ' ');
            let number = || version.parse().expect("a version is a number");
            let version = (version != "?").then(number);
            let new = || Domain { version, operators: HashMap::new() };
            domain = Some(domains.entry(name).or_insert_with(new));
        } else {
            let of = domain.as_mut().expect("operators follow their domain");
            of.operators.entry(first).or_default().lines.push((line, sets));
        }
    }
}

impl OperatorEntry {
    /// All versions, oldest first.
    pub(super) fn versions(&self) -> &[OpSchema] {
        let read = || self.lines.iter().map(|(line, sets)| operator(line, sets)).collect();
        self.read.get_or_init(read)
    }
}

/// The text before and after the first `at`.
fn split(text: &'static str, at: char) -> (&'static str, &'static str) {
    text.split_once(at).unwrap_or((text, ""))
}

fn words(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split(' ').filter(|w| !w.is_empty())
}

fn count(text: &str) -> usize {
    if text == "*" { usize::MAX } else { text.parse().expect("a count is a number or `*`") }
}

fn operator(line: &'static str, sets: &'static Sets) -> OpSchema {
    let fields: Vec<&'static str> = line.split('|').collect();
    let [head, inputs, outputs, attributes, constraints, counts] = fields[..] else {
        panic!("an operator has six fields: {line}");
    };
    let mut head = words(head);
    let counts: Vec<usize> = words(counts).map(count).collect();
    OpSchema {
        name: head.next().expect("an operator has a name"),
        since: head.next().and_then(|v| v.parse().ok()).expect("an operator has a version"),
        deprecated: head.next().is_some(),
        inputs: words(inputs).map(param).collect(),
        outputs: words(outputs).map(param).collect(),
        attributes: words(attributes).map(attribute).collect(),
        constraints: words(constraints)
            .map(|c| {
                let (letter, set) = split(c, '=');
                (letter, sets.get(count(set)))
            })
            .collect(),
        inputs_min: counts[0],
        inputs_max: counts[1],
        outputs_min: counts[2],
        outputs_max: counts[3],
    }
}

fn param(text: &'static str) -> Param {
    let (name, ty) = split(text, ':');
    let ty = match ty.strip_prefix('=') {
        Some(fixed) => {
            let mut set = TypeSet::default();
            set.add(fixed);
            ParamType::Fixed(set)
        }
        None => ParamType::Letter(ty),
    };
    if let Some(name) = name.strip_suffix('?') {
        return Param { name, kind: ParamKind::Optional, ty };
    }
    let Some((name, min)) = name.split_once('*') else {
        return Param { name, kind: ParamKind::Single, ty };
    };
    let homogeneous = !min.ends_with('~');
    let min = count(min.trim_end_matches('~'));
    Param { name, kind: ParamKind::Variadic { min, homogeneous }, ty }
}

fn attribute(text: &'static str) -> AttrSchema {
    let (name, rest) = split(text, ':');
    let (kind, default) = match rest.split_once('=') {
        Some((kind, default)) => (kind, Some(default)),
        None => (rest, None),
    };
    let required = kind.ends_with('!');
    let kind = kind.trim_end_matches('!');
    let kind = KINDS.iter().position(|k| *k == kind).expect("an attribute has a known type");
    AttrSchema { name, kind: kind as i32, required, default }
}
