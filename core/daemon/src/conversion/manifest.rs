//! `manifest.sha256`: every file that onnxd wrote into a result folder, with its digest.
//!
//! A later conversion to the same folder replaces or removes only files that are still what the
//! manifest says. The form is that of `sha256sum`, so `sha256sum -c manifest.sha256` checks a result.
//! Lines that it takes for comments tell how large files looked, so that a later conversion need not read them.

use super::files::{digest, inner, sync_folder, write};
use super::stamp::Stamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Its name in a result folder.
pub(crate) const MANIFEST: &str = "manifest.sha256";
/// Its first line; `sha256sum` takes it for a comment. Another first line means another author.
const HEAD: &str = "# onnxd result 1";
/// What the line of a file's stamp begins with.
const STAMP: &str = "# unchanged ";
/// Largest manifest that is read, in bytes.
const BYTES_MAX: u64 = 64 << 20;
/// Hexadecimal digits of a digest.
const DIGITS: usize = 64;

/// Files of a result by their names, relative to its folder. A name has several digests while a
/// result is being replaced by another one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Manifest {
    digests: BTreeMap<String, BTreeSet<String>>,
    /// Of large files, where they lay when the manifest was written.
    stamps: BTreeMap<String, Stamp>,
}

impl Manifest {
    /// The manifest of `folder`; `None` if there is none that onnxd wrote.
    pub(crate) fn read(folder: &Path) -> io::Result<Option<Manifest>> {
        let path = folder.join(MANIFEST);
        match path.symlink_metadata() {
            Ok(data) if data.is_file() && data.len() <= BYTES_MAX => {}
            Ok(_) => return Ok(None),
            Err(e)
                if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(e) => return Err(e),
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8(bytes).ok().and_then(|text| Manifest::parse(&text)))
    }

    fn parse(text: &str) -> Option<Manifest> {
        let mut lines = text.lines();
        let mut manifest = Manifest::default();
        if lines.next() != Some(HEAD) {
            return None;
        }
        for line in lines {
            if let Some(stamp) = line.strip_prefix(STAMP) {
                let (stamp, name) = stamp.split_once("  ")?;
                let name = unescaped(name)?;
                // One of another form says nothing.
                manifest.stamps.extend(stamp.parse().ok().map(|stamp| (name, stamp)));
                continue;
            }
            let (escaped, line) = line.strip_prefix('\\').map_or((false, line), |l| (true, l));
            let (digest, name) = line.split_once("  ")?;
            let name = if escaped { unescaped(name)? } else { name.to_owned() };
            let is_digest = digest.len() == DIGITS && digest.bytes().all(|b| b.is_ascii_hexdigit());
            if !is_digest || inner(&name).is_none() {
                return None;
            }
            manifest.add(&name, digest);
        }
        Some(manifest)
    }

    /// Its text: one line for each file, in the order of the names.
    pub(crate) fn text(&self) -> String {
        let line = |name: &str, digest: &str| match escaped(name) {
            Some(name) => format!("\\{digest}  {name}\n"),
            None => format!("{digest}  {name}\n"),
        };
        let stamp = |(name, stamp): (&String, &Stamp)| {
            let name = escaped(name).unwrap_or_else(|| name.clone());
            format!("{STAMP}{stamp}  {name}\n")
        };
        let stamps = self.stamps.iter().map(stamp);
        let lines = self.digests.iter().flat_map(|(name, all)| all.iter().map(|d| line(name, d)));
        format!("{HEAD}\n{}", stamps.chain(lines).collect::<String>())
    }

    pub(crate) fn add(&mut self, name: &str, digest: &str) {
        self.digests.entry(name.to_owned()).or_default().insert(digest.to_owned());
    }

    /// Writes it to `at`, and brings it to the disk. Its files lie in `folder`, where they stay what they are.
    pub(crate) fn write(&mut self, at: &Path, folder: &Path) -> io::Result<()> {
        self.stamp(at, folder)?;
        self.put(at)
    }

    /// As [`Manifest::write`], after the files that were stamped then were moved to `folder`.
    pub(crate) fn write_moved(&mut self, at: &Path, folder: &Path) -> io::Result<()> {
        let before = std::mem::take(&mut self.stamps);
        self.stamp(at, folder)?;
        self.stamps.retain(|name, now| before.get(name).is_some_and(|before| now.is_moved(before)));
        self.put(at)
    }

    fn stamp(&mut self, at: &Path, folder: &Path) -> io::Result<()> {
        let paths: Vec<PathBuf> = self.names().map(|name| folder.join(name)).collect();
        let stamps = Stamp::settled(paths.iter().map(PathBuf::as_path), at)?;
        let names = self.digests.keys().cloned();
        self.stamps = names.zip(stamps).filter_map(|(name, s)| Some((name, s?))).collect();
        Ok(())
    }

    fn put(&self, at: &Path) -> io::Result<()> {
        write(at, self.text().as_bytes())?;
        File::open(at)?.sync_all()?;
        at.parent().map_or(Ok(()), sync_folder)
    }

    /// What either of the two says.
    pub(crate) fn with(mut self, other: &Manifest) -> Manifest {
        for (name, digests) in &other.digests {
            digests.iter().for_each(|digest| self.add(name, digest));
        }
        self
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.digests.keys().map(String::as_str)
    }

    pub(crate) fn names_file(&self, name: &str) -> bool {
        self.digests.contains_key(name)
    }

    /// Whether the file `name` in `folder` is what the manifest says.
    pub(crate) fn fits(&self, folder: &Path, name: &str) -> bool {
        let (path, stamp) = (folder.join(name), self.stamps.get(name));
        let Some(known) = self.digests.get(name) else { return false };
        if stamp.is_some_and(|stamp| Stamp::of(&path).is_ok_and(|now| now == *stamp)) {
            return true;
        }
        digest(&path).is_ok_and(|(_, sha256)| known.contains(&sha256))
    }
}

/// A name that would break its line, as `sha256sum` writes it.
fn escaped(name: &str) -> Option<String> {
    let pairs = [("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r")];
    let any = name.contains(['\\', '\n', '\r']);
    any.then(|| pairs.iter().fold(name.to_owned(), |text, (from, to)| text.replace(from, to)))
}

fn unescaped(name: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next()? {
                '\\' => '\\',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            c => c,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_comes_back() {
        let mut manifest = Manifest::default();
        for (i, name) in ["model.onnx", "a b/c", "new\nline", "back\\n", "\r"].iter().enumerate() {
            manifest.add(name, &format!("{i:064x}"));
        }
        manifest.add("model.onnx", &"f".repeat(DIGITS));
        for (name, stamp) in [("model.onnx", "1 2 3 4"), ("new\nline", "4 5 -6 7")] {
            manifest.stamps.insert(name.to_owned(), stamp.parse().unwrap());
        }
        let text = manifest.text();
        assert_eq!(text.lines().count(), 9, "{text}");
        let other = text.replace("# unchanged 1 2 3 4  ", "# unchanged 1 2 3  ");
        assert_eq!(Manifest::parse(&text), Some(manifest.clone()));
        manifest.stamps.remove("model.onnx");
        assert_eq!(Manifest::parse(&other), Some(manifest));
    }

    #[test]
    fn what_onnxd_did_not_write_is_no_manifest() {
        let line = |name: &str| format!("{}  {name}\n", "0".repeat(DIGITS));
        let bad = [
            line("model.onnx"),
            format!("{HEAD}\n{}notes\n", line("model.onnx")),
            format!("{HEAD}\n{}", line("../model.onnx")),
            format!("{HEAD}\n{}", line("/etc/passwd")),
            format!("{HEAD}\nabc  model.onnx\n"),
            String::new(),
        ];
        for text in bad {
            assert_eq!(Manifest::parse(&text), None, "{text}");
        }
    }
}
