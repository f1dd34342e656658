//! What a file name alone says: part of a drop, a temporary name of a copy under way, or litter.
//!
//! Copy programs and editors write under a temporary name first; such a file is never a member of a
//! submission, but as long as it changes the folder around it is not complete.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use wildmatch::WildMatch;

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
/// Names that copy programs use until a file or folder is complete; `*` stands for any characters.
/// Of downloads, uploads and copies; `_UNPACK_` of programs that unpack archives.
pub const UNFINISHED: &[&str] = &[
    "*.part", "*.partial", "*.tmp", "*.crdownload", "*.download", "*.filepart", "*.opdownload",
    "*.uploading", "*.incomplete", "_UNPACK_*",
];
/// Names of what editors, downloads (`.lock`), file managers and storage appliances leave behind, and of
/// the copies that Syncthing and Dropbox keep of a file that two machines changed.
pub const IGNORED: &[&str] = &[
    "*~", "~$*", "*.swp", "*.swo", "*.swx", "*.sync-conflict-*", "* conflicted copy *", "*.lock",
    "Thumbs.db", "ehthumbs.db", "desktop.ini", "@eaDir", "#recycle", "__MACOSX", "lost+found",
];

/// Length of the random suffix in the temporary names of rsync (`.name.AbC123`).
const RSYNC_RANDOM_LEN: usize = 6;

/// What names say by the settings. Hidden files and rsync's temporary names need none.
#[derive(Clone, Debug)]
pub struct NameRules {
    unfinished: Arc<[WildMatch]>,
    ignored: Arc<[WildMatch]>,
}

impl Default for NameRules {
    fn default() -> NameRules {
        NameRules::new(UNFINISHED, IGNORED)
    }
}

impl NameRules {
    /// `*` stands for any characters and `?` for one; upper and lower case are the same.
    pub fn new<T: AsRef<str>>(unfinished: &[T], ignored: &[T]) -> NameRules {
        let all = |patterns: &[T]| {
            let one = |pattern: &T| WildMatch::new_case_insensitive(pattern.as_ref());
            patterns.iter().map(one).collect()
        };
        NameRules { unfinished: all(unfinished), ignored: all(ignored) }
    }

    /// Classifies one name.
    pub fn classify(&self, name: &OsStr) -> NameClass {
        let text = name.to_string_lossy();
        let is = |patterns: &[WildMatch]| patterns.iter().any(|pattern| pattern.matches(&text));
        if text.eq_ignore_ascii_case(PRESET) {
            NameClass::Preset
        } else if is(&self.unfinished) || rsync_final(name.as_bytes()).is_some() {
            NameClass::Transient
        } else if text.starts_with('.') || is(&self.ignored) {
            NameClass::Litter
        } else {
            NameClass::Plain
        }
    }

    /// The name that a file under a temporary name will have in the end: without what the pattern
    /// adds in front or behind.
    pub fn final_name<'n>(&self, transient: &'n OsStr) -> &'n OsStr {
        let bytes = transient.as_bytes();
        if let Some(inner) = rsync_final(bytes) {
            return OsStr::from_bytes(inner);
        }
        let text = transient.to_string_lossy();
        let pattern = self.unfinished.iter().find(|pattern| pattern.matches(&text));
        let pattern = pattern.map(ToString::to_string).unwrap_or_default();
        let fits = |added: &str| !added.contains('*') && added.len() < bytes.len();
        let inner = match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            (Some(end), None) if fits(end) => &bytes[..bytes.len() - end.len()],
            (None, Some(begin)) if fits(begin) => &bytes[begin.len()..],
            _ => bytes,
        };
        OsStr::from_bytes(inner)
    }
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
        NameRules::default().classify(OsStr::new(name))
    }

    #[test]
    fn temporary_hidden_and_plain_names() {
        for name in
            ["a.onnx.part", "A.TMP", "x.crdownload", ".net.ini.a1B2c3", "y.filepart", "_UNPACK_net"]
        {
            assert_eq!(class_of(name), NameClass::Transient, "{name}");
        }
        for name in [
            ".hidden", "a~", "a.swp", "Thumbs.db", ".DS_Store", "@eaDir", "~$net.onnx",
            "net.sync-conflict-20261128-101112-ABCDEFG.onnx",
            "net (Ann's conflicted copy 2026-11-28).onnx", "model.safetensors.lock",
        ] {
            assert_eq!(class_of(name), NameClass::Litter, "{name}");
        }
        for name in ["net.ini", "partial", "a.onnx.data", "weights", "tmp", "net.params.toml"] {
            assert_eq!(class_of(name), NameClass::Plain, "{name}");
        }
    }

    #[test]
    fn the_settings_say_which_names_are_unfinished() {
        let names = NameRules::new(&["*.lock?"], &["old*"]);
        let class = |name: &str| names.classify(OsStr::new(name));
        assert_eq!(class("net.onnx.lock1"), NameClass::Transient);
        assert_eq!((class("OLD net"), class("net.part")), (NameClass::Litter, NameClass::Plain));
        assert_eq!((class(".hidden"), class(PRESET)), (NameClass::Litter, NameClass::Preset));
        assert_eq!(names.final_name(OsStr::new("a.lock1")), "a");
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
        for name in ["net.onnx.part", ".net.onnx.a1B2c3", "net.onnx.TMP", "_unpack_net.onnx"] {
            assert_eq!(NameRules::default().final_name(OsStr::new(name)), "net.onnx", "{name}");
        }
    }

    #[test]
    fn stems() {
        assert_eq!(stem(OsStr::new("resnet.v2.onnx")), b"resnet.v2");
        assert_eq!(stem(OsStr::new("plain")), b"plain");
    }
}
