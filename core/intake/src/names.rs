//! What a file name alone says: part of a drop, a temporary name of a copy under way, or litter.
//!
//! Copy programs and editors write under a temporary name first; such a file is never a member of a
//! submission, but as long as it changes the folder around it is not complete.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What to do with a directory entry before looking at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameClass {
    /// A member of a drop.
    Plain,
    /// A temporary name of a copy that is under way.
    Transient,
    /// Hidden files and what file managers and storage appliances leave behind.
    Litter,
    /// Params for all drops in the folder and below; stays where it is.
    Preset,
}

/// Name of the params for all drops in a folder and below.
pub const PRESET: &str = "onnxd.params.toml";
/// Suffixes of downloads, uploads and copies that are under way, in lower case.
const TRANSIENT_SUFFIXES: &[&str] =
    &[".part", ".partial", ".tmp", ".crdownload", ".download", ".filepart", ".opdownload"];
/// Suffixes of editors' backup and swap files, in lower case.
const LITTER_SUFFIXES: &[&str] = &["~", ".swp", ".swo", ".swx"];
/// Whole names, in lower case.
const LITTER_NAMES: &[&str] =
    &["thumbs.db", "ehthumbs.db", "desktop.ini", "@eadir", "#recycle", "__macosx", "lost+found"];

/// Length of the random suffix in the temporary names of rsync (`.name.AbC123`).
const RSYNC_RANDOM_LEN: usize = 6;

/// Classifies one name.
pub fn classify(name: &OsStr) -> NameClass {
    let lower = name.as_bytes().to_ascii_lowercase();
    let ends = |suffixes: &[&str]| suffixes.iter().any(|s| lower.ends_with(s.as_bytes()));
    if lower == PRESET.as_bytes() {
        NameClass::Preset
    } else if ends(TRANSIENT_SUFFIXES) || rsync_final(name.as_bytes()).is_some() {
        NameClass::Transient
    } else if lower.first() == Some(&b'.')
        || ends(LITTER_SUFFIXES)
        || LITTER_NAMES.iter().any(|n| lower == n.as_bytes())
    {
        NameClass::Litter
    } else {
        NameClass::Plain
    }
}

/// The name a file under a temporary name will have in the end.
pub fn final_name(transient: &OsStr) -> &OsStr {
    let bytes = transient.as_bytes();
    let inner = rsync_final(bytes).unwrap_or_else(|| stem(transient));
    OsStr::from_bytes(inner)
}

/// `NAME` of `.NAME.XXXXXX` with six random letters or digits.
fn rsync_final(name: &[u8]) -> Option<&[u8]> {
    let inner = name.strip_prefix(b".")?;
    let dot = inner.iter().rposition(|b| *b == b'.')?;
    let random = &inner[dot + 1..];
    let is_random =
        random.len() == RSYNC_RANDOM_LEN && random.iter().all(u8::is_ascii_alphanumeric);
    (dot > 0 && is_random).then_some(&inner[..dot])
}

/// `params.toml`, `NAME.params.ini` and the like: never a network, whatever a front-end claims.
pub fn is_params(name: &OsStr) -> bool {
    let lower = name.as_bytes().to_ascii_lowercase();
    [b"params.toml".as_slice(), b"params.ini"].iter().any(|params| {
        lower.strip_suffix(*params).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"."))
    })
}

const ROLE_FILES: [&[u8]; 5] =
    [b"calib.npz", b"calibration.json", b"inputs.npz", b"outputs.npz", b"test.npz"];

/// Files that change the meaning of a network beside them although nothing refers to them.
pub fn is_role_file(name: &OsStr) -> bool {
    is_params(name) || ROLE_FILES.contains(&name.as_bytes())
}

/// Folders that belong to the only network beside them.
pub fn is_role_folder(name: &OsStr) -> bool {
    [b"weights".as_slice(), b"weights_validation", b"calib"].contains(&name.as_bytes())
}

/// `name` without its last extension.
pub fn stem(name: &OsStr) -> &[u8] {
    let bytes = name.as_bytes();
    match bytes.iter().rposition(|b| *b == b'.') {
        Some(dot) if dot > 0 => &bytes[..dot],
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class_of(name: &str) -> NameClass {
        classify(OsStr::new(name))
    }

    #[test]
    fn temporary_hidden_and_plain_names() {
        for name in ["a.onnx.part", "A.TMP", "x.crdownload", ".net.ini.a1B2c3", "y.filepart"] {
            assert_eq!(class_of(name), NameClass::Transient, "{name}");
        }
        for name in [".hidden", "a~", "a.swp", "Thumbs.db", ".DS_Store", "@eaDir", ".stfolder"] {
            assert_eq!(class_of(name), NameClass::Litter, "{name}");
        }
        for name in ["net.ini", "partial", "a.onnx.data", "weights", "tmp", "net.params.toml"] {
            assert_eq!(class_of(name), NameClass::Plain, "{name}");
        }
    }

    #[test]
    fn params_are_recognised_by_name() {
        for name in ["params.toml", "Params.INI", "net.params.toml", "a.b.params.ini"] {
            assert!(is_params(OsStr::new(name)), "{name}");
        }
        for name in ["myparams.toml", "params.toml.onnx", "net.ini"] {
            assert!(!is_params(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn final_names() {
        for name in ["net.onnx.part", ".net.onnx.a1B2c3", "net.onnx.TMP"] {
            assert_eq!(final_name(OsStr::new(name)), "net.onnx", "{name}");
        }
    }

    #[test]
    fn stems() {
        assert_eq!(stem(OsStr::new("resnet.v2.onnx")), b"resnet.v2");
        assert_eq!(stem(OsStr::new("plain")), b"plain");
    }
}
