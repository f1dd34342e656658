//! What `deny.toml` declares of libraries, and licences as manifests write them. `cargo deny` reads the same file.

use onnxd_integration_tests::root;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// The part of `deny.toml` that these tests hold.
pub(crate) struct Declared {
    /// Licences that are allowed; those that come first are preferred.
    pub(crate) licences: Vec<String>,
    /// Libraries that may be there beside a newer version: name, version, and the reason.
    pub(crate) older: Vec<(String, String, String)>,
    /// Libraries that must not be there, with the reason.
    pub(crate) banned: Vec<(String, String)>,
    pub(crate) registries: Vec<String>,
    /// Advisories that do not concern onnxd, with the reason.
    pub(crate) ignored: Vec<(String, String)>,
}

fn texts(table: &Table, section: &str, key: &str) -> Vec<String> {
    let list = table[section][key].as_array().expect("a list");
    list.iter().map(|one| one.as_str().expect("a text").to_owned()).collect()
}

/// Entries with a reason: what `name` says of each, and the reason.
fn reasoned(table: &Table, section: &str, key: &str, name: &str) -> Vec<(String, String)> {
    let list = table[section][key].as_array().expect("a list");
    let text = |one: &Value, key: &str| one[key].as_str().expect("a text").to_owned();
    list.iter().map(|one| (text(one, name), text(one, "reason"))).collect()
}

pub(crate) fn declared() -> Declared {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let table: Table = text.parse().unwrap();
    let older = reasoned(&table, "bans", "skip", "crate").into_iter().map(|(package, reason)| {
        let (name, version) = package.split_once('@').expect("`name@version`");
        (name.to_owned(), version.to_owned(), reason)
    });
    Declared {
        licences: texts(&table, "licenses", "allow"),
        older: older.collect(),
        banned: reasoned(&table, "bans", "deny", "crate"),
        registries: texts(&table, "sources", "allow-registry"),
        ignored: reasoned(&table, "advisories", "ignore", "id"),
    }
}

/// The licences under which a package is taken: of an `OR` the alternative that `allowed` prefers, of an `AND` all.
/// `None` if that cannot be done, or if `expression` is none.
pub(crate) fn taken(expression: &str, allowed: &[String]) -> Option<BTreeSet<String>> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), allowed };
    parser.words.reverse();
    let taken = parser.any();
    taken.filter(|_| parser.words.is_empty())
}

/// What is left of an SPDX expression, the next word last.
struct Parser<'a> {
    words: Vec<&'a str>,
    allowed: &'a [String],
}

impl Parser<'_> {
    fn follows(&mut self, word: &str) -> bool {
        self.words.pop_if(|next| next.eq_ignore_ascii_case(word)).is_some()
    }

    /// One or more of [`Parser::all`], with `OR` between them.
    fn any(&mut self) -> Option<BTreeSet<String>> {
        let mut found = vec![self.all()];
        while self.follows("OR") {
            found.push(self.all());
        }
        let rank = |name: &String| self.allowed.iter().position(|allowed| allowed == name);
        found.into_iter().flatten().min_by_key(|names| names.iter().map(rank).max())
    }

    /// One or more of [`Parser::one`], with `AND` between them, which bind tighter.
    fn all(&mut self) -> Option<BTreeSet<String>> {
        let mut found = self.one();
        while self.follows("AND") {
            let other = self.one();
            found = found.zip(other).map(|(a, b)| &a | &b);
        }
        found
    }

    /// A licence, which an exception makes another one, or an expression in parentheses.
    fn one(&mut self) -> Option<BTreeSet<String>> {
        if self.follows("(") {
            let inner = self.any();
            return self.follows(")").then_some(inner).flatten();
        }
        let mut name = self.words.pop()?.to_owned();
        if self.follows("WITH") {
            name += &format!(" WITH {}", self.words.pop()?);
        }
        self.allowed.contains(&name).then(|| BTreeSet::from([name]))
    }
}

#[test]
fn expressions_are_read_as_spdx_says() {
    let allowed = ["Apache-2.0", "MIT", "Unicode-3.0"].map(str::to_owned);
    for (expression, wanted) in [
        ("MIT", "MIT"),
        ("MIT/Apache-2.0", "Apache-2.0"),
        ("MIT OR GPL-3.0", "MIT"),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", "Apache-2.0 Unicode-3.0"),
        ("GPL-3.0 OR MIT AND Unicode-3.0", "MIT Unicode-3.0"),
        ("MIT AND GPL-3.0 OR Apache-2.0", "Apache-2.0"),
        ("Apache-2.0 WITH LLVM-exception OR MIT", "MIT"),
        ("GPL-3.0", ""),
        ("MIT AND GPL-3.0", ""),
        ("Apache-2.0 WITH LLVM-exception", ""),
        ("(MIT", ""),
        ("MIT Apache-2.0", ""),
        ("MIT OR", "MIT"),
        ("", ""),
    ] {
        let found = taken(expression, &allowed).unwrap_or_default();
        assert_eq!(Vec::from_iter(found).join(" "), wanted, "{expression}");
    }
}
