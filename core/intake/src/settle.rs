//! Decides when something is quiet: nothing about it changed between two scans a settle time apart.
//!
//! The state of this machine is the previous scan: an entry that looks the same keeps the time of
//! its last change, everything else starts anew. Files present at start-up take the same path as
//! files that arrive later, and an entry that keeps changing is simply never quiet.

use std::time::{Duration, Instant};

use crate::tree::{FileEntry, Folder, SeenTimes, Stamp};

/// Takes over the times of everything that `old` showed in the same way; the rest changed at `now`.
pub fn carry_over(old: Option<&Folder>, new: &mut Folder, now: Instant) {
    new.seen = seen(old.map(|o| (o.stamp, o.seen)), new.stamp, now);
    carry_files(old.map_or(&[], |o| &o.files), &mut new.files, now);
    carry_files(old.map_or(&[], |o| &o.transient), &mut new.transient, now);
    let before = old.and_then(|o| o.preset.as_ref());
    carry_files(before.map_or(&[], std::slice::from_ref), new.preset.as_mut_slice(), now);
    for folder in &mut new.folders {
        let before = old.and_then(|o| o.folder(folder.path.file_name()?));
        carry_over(before, folder, now);
    }
}

/// Both lists are sorted by name, so one pass over both suffices.
fn carry_files(old: &[FileEntry], new: &mut [FileEntry], now: Instant) {
    let mut old = old.iter().peekable();
    for file in new {
        while old.next_if(|o| o.name < file.name).is_some() {}
        let before = old.next_if(|o| o.name == file.name).map(|o| (o.stamp, o.seen));
        file.seen = seen(before, file.stamp, now);
    }
}

fn seen(before: Option<(Stamp, SeenTimes)>, stamp: Stamp, now: Instant) -> SeenTimes {
    match before {
        Some((old, seen)) if old == stamp => seen,
        Some((_, seen)) => SeenTimes { changed: now, ..seen },
        None => SeenTimes::new(now),
    }
}

/// Nothing changed for the settle time.
pub fn is_settled(seen: SeenTimes, now: Instant, settle: Duration) -> bool {
    now.saturating_duration_since(seen.changed) >= settle
}

/// Everything in the folder and below is settled, temporary files and sub-folders included.
pub fn folder_settled(folder: &Folder, now: Instant, settle: Duration) -> bool {
    let mut settled = true;
    folder.each_seen(&mut |seen| settled &= is_settled(seen, now, settle));
    settled
}

/// The next instant at which something that is not settled may become so.
pub fn next_settled(folder: &Folder, now: Instant, settle: Duration) -> Option<Instant> {
    let mut next: Option<Instant> = None;
    folder.each_seen(&mut |seen| {
        let at = seen.changed + settle;
        if at > now && next.is_none_or(|n| at < n) {
            next = Some(at);
        }
    });
    next
}

/// Whether `new` has a folder that `old` did not have: events from inside it may have been lost.
pub fn has_new_folder(old: Option<&Folder>, new: &Folder) -> bool {
    new.folders.iter().any(|folder| match old.and_then(|o| o.folder(folder.name())) {
        None => true,
        Some(before) => has_new_folder(Some(before), folder),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{file, folder};
    use std::ffi::OsStr;

    const SETTLE: Duration = Duration::from_millis(2_000);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn changed(tree: &Folder, name: &str) -> Instant {
        tree.file(OsStr::new(name)).unwrap().seen.changed
    }

    #[test]
    fn unchanged_files_keep_their_time_and_changed_ones_start_anew() {
        let t0 = Instant::now();
        let mut a = folder("", &[file("a", 1), file("b", 1), file("d", 1)], &[]);
        carry_over(None, &mut a, t0);
        let mut b = folder("", &[file("a", 1), file("b", 2), file("c", 1)], &[]);
        carry_over(Some(&a), &mut b, t0 + ms(700));
        assert_eq!(changed(&b, "a"), t0);
        assert_eq!(changed(&b, "b"), t0 + ms(700));
        assert_eq!(changed(&b, "c"), t0 + ms(700));
        assert_eq!(b.file(OsStr::new("b")).unwrap().seen.first, t0);
    }

    #[test]
    fn a_slow_writer_is_never_settled() {
        let t0 = Instant::now();
        let mut old = None;
        for step in 0..1_000 {
            let now = t0 + ms(step * 1_999);
            let mut tree = folder("", &[file("slow.onnx", step)], &[]);
            carry_over(old.as_ref(), &mut tree, now);
            assert!(!is_settled(tree.files[0].seen, now, SETTLE));
            assert!(!is_settled(tree.files[0].seen, now + ms(1_999), SETTLE));
            assert!(next_settled(&tree, now, SETTLE).is_some_and(|at| at <= now + SETTLE));
            old = Some(tree);
        }
    }

    #[test]
    fn settles_exactly_after_the_settle_time() {
        let t0 = Instant::now();
        let mut tree = folder("", &[file("a.onnx", 1)], &[]);
        carry_over(None, &mut tree, t0);
        let mut again = tree.clone();
        carry_over(Some(&tree), &mut again, t0 + SETTLE);
        assert!(!folder_settled(&again, t0 + SETTLE - ms(1), SETTLE));
        assert!(folder_settled(&again, t0 + SETTLE, SETTLE));
        assert_eq!(next_settled(&again, t0 + SETTLE, SETTLE), None);
    }

    #[test]
    fn times_of_the_file_system_mean_nothing_but_change() {
        let t0 = Instant::now();
        for mtime in [0, -1, i128::from(i64::MAX) * 1_000_000_000] {
            let mut one = file("a", 1);
            one.stamp.mtime_ns = mtime;
            let mut tree = folder("", &[one], &[]);
            carry_over(None, &mut tree, t0);
            assert!(!is_settled(tree.files[0].seen, t0, SETTLE));
            assert!(is_settled(tree.files[0].seen, t0 + SETTLE, SETTLE));
        }
    }

    #[test]
    fn a_temporary_file_keeps_its_folder_busy() {
        let t0 = Instant::now();
        let mut tree = folder("d", &[file("a", 1)], &[]);
        carry_over(None, &mut tree, t0);
        let mut later = tree.clone();
        later.transient.push(file("w.part", 1));
        carry_over(Some(&tree), &mut later, t0 + ms(1_500));
        assert!(!folder_settled(&later, t0 + SETTLE, SETTLE));
    }

    #[test]
    fn new_folders_are_noticed_at_any_depth() {
        let old = folder("", &[], &[folder("a", &[], &[])]);
        let new = folder("", &[], &[folder("a", &[], &[folder("a/b", &[], &[])])]);
        assert!(has_new_folder(Some(&old), &new));
        assert!(!has_new_folder(Some(&new), &new));
        assert!(has_new_folder(None, &old));
    }
}
