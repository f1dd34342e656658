//! Saves a plan beside the job's files before the first rename, so that a start after a crash can
//! finish it. Lines of words; every byte of a path that is not plain is written as `%XX`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use onnxd_diagnostics::{Code, Diagnostic, shown};

use crate::file::DropFile;
use crate::plan::MovePlan;
use crate::tree::Stamp;

const HEAD: &str = "onnxd-claim 1";
/// A plan of the most entries a scan keeps, with the longest names.
const BYTES_MAX: u64 = 512 << 20;

impl MovePlan {
    /// Writes the plan so that it is there completely or not at all.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = path.with_file_name(name);
        let mut file = fs::File::create(&new)?;
        file.write_all(self.to_text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    /// Reads what [`MovePlan::save`] wrote.
    pub fn load(path: &Path) -> Result<MovePlan, Diagnostic> {
        let bad = |what: String| Diagnostic::new(Code::Unreadable, what);
        let read = || {
            let bytes = fs::metadata(path)?.len();
            if bytes > BYTES_MAX {
                return Err(io::Error::other("too large for a plan"));
            }
            fs::read_to_string(path)
        };
        let text = read().map_err(|e| bad(format!("{}: {e}", path.display())))?;
        MovePlan::parse(&text).map_err(|line| {
            bad(format!("{}: not a plan of a claim at `{}`", path.display(), shown(line)))
        })
    }

    fn to_text(&self) -> String {
        let mut out = format!("{HEAD}\n");
        let mut line = |key: &str, path: &Path, stamp: Option<&Stamp>| {
            let _ = write!(out, "{key} {}", escape(path));
            if let Some(s) = stamp {
                let Stamp { dev, ino, size, mtime_ns, ctime_ns, mode, uid, gid } = s;
                let _ = write!(out, " {dev} {ino} {size} {mtime_ns} {ctime_ns} {mode} {uid} {gid}");
            }
            out.push('\n');
        };
        line("inbox", &self.set.inbox, None);
        line("root", &self.set.root, self.set.whole.as_ref());
        line("dest", &self.dest, None);
        self.set.marker.iter().for_each(|m| line("marker", &m.name, Some(&m.stamp)));
        self.set.files.iter().for_each(|f| line("file", &f.name, Some(&f.stamp)));
        out.push_str("end\n");
        out
    }

    /// The error is the first line that is wrong.
    fn parse(text: &str) -> Result<MovePlan, &str> {
        let MovePlan { mut set, mut dest } = MovePlan::default();
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(text.lines().next().unwrap_or(""));
        }
        for line in lines.by_ref() {
            let mut words = line.split(' ');
            let key = words.next().unwrap_or("");
            if key == "end" {
                return Ok(MovePlan { set, dest });
            }
            let name = words.next().and_then(unescape).ok_or(line)?;
            let stamp = stamp(words).ok_or(line)?;
            match (key, stamp) {
                ("inbox", None) => set.inbox = name,
                ("dest", None) => dest = name,
                ("root", whole) => (set.root, set.whole) = (name, whole),
                ("marker", Some(stamp)) => set.marker = Some(DropFile { name, stamp }),
                ("file", Some(stamp)) => set.files.push(DropFile { name, stamp }),
                _ => return Err(line),
            }
        }
        Err("the end")
    }
}

/// `None` if the words are wrong, `Some(None)` if there are none.
fn stamp<'a>(words: impl Iterator<Item = &'a str>) -> Option<Option<Stamp>> {
    let words: Vec<&str> = words.collect();
    let [dev, ino, size, mtime, ctime, mode, uid, gid] = words.as_slice() else {
        return words.is_empty().then_some(None);
    };
    Some(Some(Stamp {
        dev: dev.parse().ok()?,
        ino: ino.parse().ok()?,
        size: size.parse().ok()?,
        mtime_ns: mtime.parse().ok()?,
        ctime_ns: ctime.parse().ok()?,
        mode: mode.parse().ok()?,
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
    }))
}

fn escape(path: &Path) -> String {
    let mut out = String::new();
    for &b in path.as_os_str().as_bytes() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                out.push(char::from(b));
            }
            _ => {
                let _ = write!(out, "%{b:02X}");
            }
        }
    }
    out
}

fn unescape(word: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&b, tail)) = rest.split_first() {
        rest = tail;
        if b == b'%' {
            let (hex, tail) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(b);
        }
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::FileSet;
    use crate::testing::stamp;

    fn plan() -> MovePlan {
        let odd = OsString::from_vec(b"we\xffird \n %name".to_vec());
        let set = FileSet {
            inbox: "/in box".into(),
            root: PathBuf::from("u").join(&odd),
            whole: Some(stamp(4, 4096)),
            files: vec![
                DropFile { name: odd.into(), stamp: stamp(5, 6) },
                DropFile {
                    name: "weights/ü".into(), stamp: Stamp { mtime_ns: -5, ..stamp(7, 0) }
                },
            ],
            marker: Some(DropFile { name: "u/x.ready".into(), stamp: stamp(9, 0) }),
        };
        set.plan("/work/1/input".as_ref())
    }

    #[test]
    fn reads_what_it_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claim");
        plan().save(&path).unwrap();
        assert_eq!(MovePlan::load(&path).unwrap(), plan());
        let MovePlan { set, dest } = plan();
        let files = FileSet { whole: None, marker: None, root: PathBuf::new(), ..set }.plan(&dest);
        files.save(&path).unwrap();
        assert_eq!(MovePlan::load(&path).unwrap(), files);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_plan_is_an_error() {
        let text = plan().to_text();
        for cut in 0..text.len() - 1 {
            assert!(MovePlan::parse(&text[..cut]).is_err(), "cut at {cut}");
        }
        assert!(MovePlan::parse(&text.replace("dest", "desk")).is_err());
        assert!(MovePlan::parse(&text.replace("%FF", "%FX")).is_err());
        assert!(MovePlan::load(Path::new("/nonexistent")).is_err());
    }
}
