//! Tells that a file is unchanged without reading it: by its inode, size, and times of writing and of change.

use std::fmt::{self, Display};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::str::FromStr;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// Bytes of the smallest file that is worth it; others are read as fast.
const BYTES_MIN: u64 = 1 << 20;
/// The clocks of most file systems go on in steps of at most this. A change within the step of the one before would not
/// show.
const STEP: Duration = Duration::from_millis(20);

/// A file at some time. Every change of its data or its links gives it another time of change. No program can set that
/// time, but for those that set the clock of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    bytes: u64,
    /// Nanoseconds since 1970, as all times here.
    written: i128,
    changed: i128,
}

impl Stamp {
    /// Of the file at `path`; a link is not followed. It is opened, as network file systems ask their server then.
    pub(super) fn of(path: &Path) -> io::Result<Stamp> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        file.metadata().map(|data| Stamp::from(&data))
    }

    /// The stamps of those files `paths` that are worth it and tell later changes. That is so where
    /// the clock of their file system, which changing `clock` asks, has gone on since each was changed.
    pub(super) fn settled<'a>(
        paths: impl IntoIterator<Item = &'a Path>,
        clock: &Path,
    ) -> io::Result<Vec<Option<Stamp>>> {
        Stamp::settled_by(paths, || time_of(clock))
    }

    fn settled_by<'a>(
        paths: impl IntoIterator<Item = &'a Path>,
        time: impl Fn() -> io::Result<i128>,
    ) -> io::Result<Vec<Option<Stamp>>> {
        let stamps = paths.into_iter().map(Stamp::of).collect::<io::Result<Vec<Stamp>>>()?;
        let large = |stamp: Stamp| (stamp.bytes >= BYTES_MIN).then_some(stamp);
        let stamps: Vec<Option<Stamp>> = stamps.into_iter().map(large).collect();
        let Some(last) = stamps.iter().flatten().map(|s| s.changed).max() else {
            return Ok(stamps);
        };
        let mut now = time()?;
        if now <= last {
            sleep(STEP);
            now = time()?;
        }
        // Steps of seconds may not be over.
        Ok(stamps.into_iter().map(|s| s.filter(|s| s.changed < now)).collect())
    }

    /// Whether moving alone may have made the one from the other: only the time of change differs.
    pub(super) fn is_moved(&self, before: &Stamp) -> bool {
        *self == Stamp { changed: self.changed, ..*before }
    }
}

/// The time of a file system, which it gives the file `clock` as it is changed. Where the time of change is but the
/// time of writing, as on FAT, that is long ago.
fn time_of(clock: &Path) -> io::Result<i128> {
    let file = File::create(clock)?;
    file.set_modified(SystemTime::UNIX_EPOCH)?;
    file.metadata().map(|data| Stamp::from(&data).changed)
}

impl From<&Metadata> for Stamp {
    fn from(data: &Metadata) -> Stamp {
        let time = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        Stamp {
            inode: data.ino(),
            bytes: data.len(),
            written: time(data.mtime(), data.mtime_nsec()),
            changed: time(data.ctime(), data.ctime_nsec()),
        }
    }
}

impl Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.inode, self.bytes, self.written, self.changed)
    }
}

impl FromStr for Stamp {
    type Err = ();

    fn from_str(text: &str) -> Result<Stamp, ()> {
        let mut parts = text.split(' ');
        let mut next = || parts.next().ok_or(());
        let inode = next()?.parse().map_err(|_| ())?;
        let bytes = next()?.parse().map_err(|_| ())?;
        let written = next()?.parse().map_err(|_| ())?;
        let changed = next()?.parse().map_err(|_| ())?;
        parts.next().map_or(Ok(Stamp { inode, bytes, written, changed }), |_| Err(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_change_shows_though_size_and_time_of_writing_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, vec![1; BYTES_MIN as usize]).unwrap();
        let written = path.metadata().unwrap().modified().unwrap();
        let settled = || Stamp::settled([path.as_path()], &folder.path().join("clock")).unwrap()[0];
        let before = settled().unwrap();
        assert_eq!(Stamp::of(&path).unwrap(), before);
        assert_eq!(before.to_string().parse(), Ok(before));
        fs::write(&path, vec![2; BYTES_MIN as usize]).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
        assert_ne!(Stamp::of(&path).unwrap(), before);
        assert!(Stamp::of(&path).unwrap().is_moved(&before));
        fs::write(&path, "small").unwrap();
        assert_eq!(settled(), None);
    }

    /// As on file systems that count seconds, or that know no time of change.
    #[test]
    fn a_clock_that_stands_still_tells_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, vec![1; BYTES_MIN as usize]).unwrap();
        let last = Stamp::of(&path).unwrap().changed;
        let at = |time: i128| Stamp::settled_by([path.as_path()], || Ok(time)).unwrap()[0];
        assert!(at(last + 1).is_some());
        assert_eq!((at(last), at(0)), (None, None));
    }
}
