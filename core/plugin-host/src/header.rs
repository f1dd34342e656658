//! The header of a library, and whether this host would load the library by it.
//!
//! A refusal always says what was expected, what was found, and what to do.

use onnxd_config::Descriptor;
use onnxd_config::descriptor::{ID_BYTES_MAX, is_word};
use onnxd_diagnostics::{Code, Diagnostic, refuse, shown};
use onnxd_plugin_abi as abi;
use std::path::Path;

const REBUILD: &str = "Rebuild the plugin with the `onnxd_plugin.h` or the SDK of this onnxd.";
const NEWER: &str = "Install a newer onnxd, or an older version of the plugin.";
const FOREIGN: &str =
    "Remove the file from the plugin folder, or replace it by a plugin for onnxd.";
const AUTHOR: &str = "Report it to the plugin's author; `onnxd plugins check` shows the same.";

/// A header's contents, copied.
pub(crate) struct RawHeader {
    pub(crate) abi_major: u16,
    pub(crate) abi_minor: u16,
    pub(crate) min_host_minor: u16,
    pub(crate) abi_tag: String,
    pub(crate) id: String,
    pub(crate) version: String,
    pub(crate) descriptor: String,
    pub(crate) has_entry: bool,
}

/// A refusal to load a library.
pub(crate) fn refused(
    path: &Path,
    why: impl std::fmt::Display,
    what_to_do: &'static str,
) -> Diagnostic {
    Diagnostic::new(Code::PluginRefused, format!("plugin `{}`: {why}", path.display()))
        .help(what_to_do)
}

/// Checks the header's first fields, before anything behind them is read.
pub(crate) fn check_start(path: &Path, magic: [u8; 8], struct_size: u32) -> Result<(), Diagnostic> {
    if magic != abi::MAGIC {
        let found = magic.escape_ascii();
        let expected = abi::MAGIC.escape_ascii();
        let why = format!("the header begins with \"{found}\", expected \"{expected}\"");
        return Err(refused(path, why, FOREIGN));
    }
    let expected = size_of::<abi::Header>();
    refuse!((struct_size as usize) < expected =>
        refused(path, format!("the header's struct_size is {struct_size}, expected {expected} or more"), REBUILD));
    Ok(())
}

/// Checks everything else, and reads the descriptor.
pub(crate) fn check(path: &Path, header: &RawHeader) -> Result<Descriptor, Diagnostic> {
    if header.abi_tag != abi::ABI_TAG {
        let found = shown(&header.abi_tag);
        let why = format!("made for `{found}`, expected `{}`", abi::ABI_TAG);
        return Err(refused(path, why, FOREIGN));
    }
    check_version(path, header)?;
    let id = shown(&header.id);
    if !is_plugin_id(&header.id) {
        let why = format!(
            "id `{id}`: expected two or more words of lower-case letters, digits and `-`, \
             joined by `.`"
        );
        return Err(refused(path, why, AUTHOR));
    }
    if !is_version(&header.version) {
        let found = shown(&header.version);
        let why = format!("version `{found}` of {id}: expected a semantic version like `1.2.0`");
        return Err(refused(path, why, AUTHOR));
    }
    refuse!(!header.has_entry => refused(path, format!("the header of {id} has no entry function"), AUTHOR));
    Descriptor::parse(&header.descriptor)
        .map_err(|e| refused(path, format!("{id} {}: {e}", header.version), AUTHOR))
}

fn check_version(path: &Path, header: &RawHeader) -> Result<(), Diagnostic> {
    let RawHeader { abi_major, abi_minor, min_host_minor, .. } = *header;
    if abi_major != abi::ABI_MAJOR {
        let host = abi::ABI_MAJOR;
        let why = format!(
            "built for plugin ABI {abi_major}.{abi_minor}, this onnxd has {host}.{}; \
             the majors must be equal",
            abi::ABI_MINOR
        );
        return Err(refused(path, why, if abi_major > host { NEWER } else { REBUILD }));
    }
    if min_host_minor > abi::ABI_MINOR {
        let why = format!(
            "needs plugin ABI {abi_major}.{min_host_minor} or later, this onnxd has {}.{}",
            abi::ABI_MAJOR,
            abi::ABI_MINOR
        );
        return Err(refused(path, why, NEWER));
    }
    Ok(())
}

fn is_plugin_id(id: &str) -> bool {
    id.len() <= ID_BYTES_MAX && id.contains('.') && id.split('.').all(|word| is_word(word, '-'))
}

/// Three numbers, then optionally a pre-release and a build part.
fn is_version(version: &str) -> bool {
    let end = version.find(['-', '+']).unwrap_or(version.len());
    let (core, rest) = version.split_at(end);
    let numbers: Vec<&str> = core.split('.').collect();
    let number = |n: &&str| !n.is_empty() && n.len() < 10 && n.chars().all(|c| c.is_ascii_digit());
    let extra = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    version.len() <= 64
        && numbers.len() == 3
        && numbers.iter().all(number)
        && rest.len() != 1
        && rest.chars().all(extra)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_abi::ABI_MINOR;

    fn header() -> RawHeader {
        RawHeader {
            abi_major: abi::ABI_MAJOR,
            abi_minor: abi::ABI_MINOR,
            min_host_minor: 0,
            abi_tag: "onnxd".into(),
            id: "org.example.a-b".into(),
            version: "1.2.0-rc.1".into(),
            descriptor: "summary = 's'\n[[components]]\nkind = 'pass'\nid = 'p'".into(),
            has_entry: true,
        }
    }

    #[test]
    fn refusals_say_expected_and_found() {
        assert!(check(Path::new("a.so"), &header()).is_ok());
        type Spoil = fn(&mut RawHeader);
        let other = format!("built for plugin ABI 2.{ABI_MINOR}, this onnxd has 1.{ABI_MINOR}");
        let older = format!("needs plugin ABI 1.9 or later, this onnxd has 1.{ABI_MINOR}");
        let cases: [(Spoil, &str); 7] = [
            (|h| h.abi_major = 2, &other),
            (|h| h.min_host_minor = 9, &older),
            (|h| h.abi_tag = "fork".into(), "made for `fork`, expected `onnxd`"),
            (|h| h.id = "noDots".into(), "id `noDots`"),
            (|h| h.version = "1.2".into(), "version `1.2`"),
            (|h| h.has_entry = false, "no entry function"),
            (|h| h.descriptor = "{".into(), "org.example.a-b 1.2.0-rc.1: the descriptor"),
        ];
        for (spoil, expected) in cases {
            let mut bad = header();
            spoil(&mut bad);
            let refusal = check(Path::new("a.so"), &bad).unwrap_err();
            assert!(refusal.message.contains(expected), "{}", refusal.message);
            assert_eq!(refusal.code, "N0403");
            assert!(!refusal.help.is_empty());
        }
    }

    #[test]
    fn versions_and_ids() {
        for good in ["0.1.0", "10.2.3-alpha.1+build-5"] {
            assert!(is_version(good), "{good}");
        }
        for bad in ["", "1", "1.2.x", "1.2.3-", "1..3", "v1.2.3", "1.2.3-\n"] {
            assert!(!is_version(bad), "{bad}");
        }
        assert!(is_plugin_id("org.onnxd.frontend-onnx"));
        for bad in ["", "org", ".a", "org.", "Org.a", "org.a b"] {
            assert!(!is_plugin_id(bad), "{bad}");
        }
    }
}
