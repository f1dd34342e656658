//! Tells that a file is unchanged without reading it: by its inode, size and time of change.

use std::fmt::{self, Display};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;
use std::thread::sleep;
use std::time::Duration;

/// Bytes of the smallest file that is worth it; others are read as fast.
const BYTES_MIN: u64 = 1 << 20;
/// A file system's clock goes on in steps of at most this. A change within the step of the one before would not show.
const STEP: Duration = Duration::from_millis(20);

/// A file at some time. Every change of its data or its links gives it another time of change, which
/// no program can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    bytes: u64,
    /// Nanoseconds since 1970.
    changed: i128,
}

impl Stamp {
    /// Of what lies at `path`; a link is not followed.
    pub(super) fn of(path: &Path) -> io::Result<Stamp> {
        path.symlink_metadata().map(|data| Stamp::from(&data))
    }

    /// The stamps of those files `paths` that are worth it. Their file system's clock, which writing
    /// `clock` asks, has gone on since each was changed.
    pub(super) fn settled<'a>(
        paths: impl IntoIterator<Item = &'a Path>,
        clock: &Path,
    ) -> io::Result<Vec<Option<Stamp>>> {
        let stamps = paths.into_iter().map(Stamp::of).collect::<io::Result<Vec<Stamp>>>()?;
        let large = |stamp: Stamp| (stamp.bytes >= BYTES_MIN).then_some(stamp);
        let stamps: Vec<Option<Stamp>> = stamps.into_iter().map(large).collect();
        if let Some(last) = stamps.iter().flatten().map(|s| s.changed).max() {
            let now = Stamp::from(&File::create(clock)?.metadata()?).changed;
            let left = last + STEP.as_nanos().cast_signed() - now;
            if left > 0 {
                sleep(Duration::from_nanos(left.unsigned_abs() as u64).min(STEP));
            }
        }
        Ok(stamps)
    }
}

impl From<&Metadata> for Stamp {
    fn from(data: &Metadata) -> Stamp {
        let changed = i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec());
        Stamp { inode: data.ino(), bytes: data.len(), changed }
    }
}

impl Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.inode, self.bytes, self.changed)
    }
}

impl FromStr for Stamp {
    type Err = ();

    fn from_str(text: &str) -> Result<Stamp, ()> {
        let mut parts = text.split(' ');
        let mut next = || parts.next().ok_or(());
        let inode = next()?.parse().map_err(|_| ())?;
        let bytes = next()?.parse().map_err(|_| ())?;
        let changed = next()?.parse().map_err(|_| ())?;
        parts.next().map_or(Ok(Stamp { inode, bytes, changed }), |_| Err(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::SystemTime;

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
        assert!(written < SystemTime::now());
        fs::write(&path, "small").unwrap();
        assert_eq!(settled(), None);
    }
}
