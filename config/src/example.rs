//! Prints the example settings file from the rows, so that it can never be out of date.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::defaults::Environment;
use crate::settings::{ROWS, SECTIONS};
use crate::table::{DefaultValue, KeyEntry};

const WIDTH: usize = 96;

/// The text of `onnxd.example.toml`: every setting, commented out, with its default as a service.
pub fn example() -> String {
    let about = "Every key is shown with its default as a service";
    print(about, &service_entries(), &[])
}

/// The text of a settings file for a folder of one's own: everything lies beside the file.
pub fn starter(cores: usize) -> String {
    let here = ("STATE_DIRECTORY".to_owned(), ".".to_owned());
    let surroundings = Environment { vars: BTreeMap::from([here]), cores, ..service() };
    let entries = crate::load::defaults(&surroundings);
    print("Every key is shown with its value", &entries, &["paths.root", "state.dir"])
}

/// All settings, commented out but for those that are `set`.
fn print(about: &str, entries: &[KeyEntry], set: &[&str]) -> String {
    let mut out = format!(
        "# Settings of onnxd. {about}; remove the `#`\n\
         # before a key to change it. Relative paths are relative to this file. A variable named\n\
         # like ONNXD_INTAKE_SETTLE_MS wins over this file, `--set KEY=VALUE` over both.\n",
    );
    for (section, about) in SECTIONS {
        out += &format!("\n# {}\n[{section}]\n", about.trim());
        for (row, entry) in ROWS.iter().zip(entries).filter(|(r, _)| r.section() == *section) {
            let mut help = row.help.clone();
            if let DefaultValue::Computed(words) = row.default {
                help += &format!(" Default: {words}.");
            }
            help += &format!(" ({})", row.kind);
            out += &wrapped(&help);
            let off = if set.contains(&entry.key.as_str()) { "" } else { "#" };
            out += &assignment(off, row.name(), &entry.toml());
        }
    }
    out += "\n# Params for every conversion that does not say otherwise stand in a section [defaults]:\n\
            # export.opset = 17\n";
    out
}

/// The surroundings that the example's defaults are computed for.
pub(crate) fn service() -> Environment {
    let var = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Environment {
        vars: BTreeMap::from([
            var("STATE_DIRECTORY", "/var/lib/onnxd"),
            var("RUNTIME_DIRECTORY", "/run/onnxd"),
        ]),
        cores: 4,
        program_dir: Some(PathBuf::from("/usr/bin")),
        current_dir: PathBuf::from("/"),
        ..Environment::default()
    }
}

fn service_entries() -> Vec<KeyEntry> {
    crate::load::defaults(&service())
}

/// `name = value`, a long list in several lines.
fn assignment(off: &str, name: &str, value: &str) -> String {
    let line = format!("{off}{name} = {value}");
    let items = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let Some(items) = items.filter(|_| line.len() > WIDTH) else { return line + "\n" };
    let mut out = format!("{off}{name} = [\n{off}");
    let mut column = off.len();
    for item in items.split_inclusive(", ").map(str::trim_end) {
        if column + item.len() > WIDTH {
            out += &format!("\n{off}");
            column = off.len();
        }
        out += item;
        column += item.len();
    }
    out + &format!("\n{off}]\n")
}

/// Comment lines of bounded width.
fn wrapped(text: &str) -> String {
    let mut out = String::from("#");
    let mut column = 1;
    for word in text.split_whitespace() {
        if column + 1 + word.len() > WIDTH {
            out += "\n#";
            column = 1;
        }
        out += " ";
        out += word;
        column += 1 + word.len();
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    fn uncommented() -> String {
        let shown = example();
        let line = |l: &str| match l.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => key.to_owned(),
            _ => l.to_owned(),
        };
        shown.lines().map(|l| line(l) + "\n").collect()
    }

    #[test]
    fn example_file_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/onnxd.example.toml");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, example()).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap();
        assert_eq!(kept, example(), "run with UPDATE_EXPECT=1 to rewrite onnxd.example.toml");
        assert!(example().lines().all(|l| l.len() <= 100));
    }

    #[test]
    fn the_starter_keeps_everything_beside_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("onnxd.toml");
        std::fs::write(&file, starter(4)).unwrap();
        let settings = load(Some(&file), &service(), &[]).unwrap().settings;
        let folders = [&settings.intake.inbox, &settings.output.outbox, &settings.state.dir];
        for folder in folders {
            assert!(folder.starts_with(dir.path()), "{}", folder.display());
        }
        let shown = starter(4);
        let is_row = |l: &&str| l.starts_with('#') && !l.starts_with("# ") && l.contains(" = ");
        let commented = shown.lines().filter(is_row);
        assert_eq!(commented.count(), ROWS.len() - 2);
        assert!(shown.contains("\n#inbox = \"./inbox\"\n"), "{shown}");
    }

    #[test]
    fn example_file_states_the_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("onnxd.toml");
        std::fs::write(&file, uncommented()).unwrap();
        let stated = load(Some(&file), &service(), &[]).unwrap();
        for (entry, default) in stated.entries.iter().zip(service_entries()) {
            assert_eq!(entry.value, default.value, "{}", entry.key);
            assert!(entry.origin.contains("onnxd.toml:"), "{} {}", entry.key, entry.origin);
        }
        std::fs::write(&file, example()).unwrap();
        let untouched = load(Some(&file), &service(), &[]).unwrap();
        assert_eq!(untouched.settings, stated.settings);
        assert!(untouched.entries.iter().all(|e| e.origin == "default"));
    }
}
