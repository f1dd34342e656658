//! Claims across file systems, where rename(2) cannot: copy, sync, rename the copy, then remove the
//! source, so that a crash leaves either the source or the complete copy.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use onnxd_diagnostics::{Code, Diagnostic};
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, fstat, openat, unlinkat};

use crate::claim_error::{ClaimError, system, to_errno};
use crate::file::DropFile;
use crate::folders::{fsync_dir, make_dir, open_dir};
use crate::names::NameRules;
use crate::plan::MovePlan;
use crate::tree::Stamp;

const O_READ: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Copies one file to `dest` and removes the source.
pub(crate) fn file(
    above: &OwnedFd,
    name: &OsStr,
    seen: &Stamp,
    source: &Path,
    dest: &Path,
) -> Result<(), ClaimError> {
    duplicate(above, name, seen, source, dest)?;
    unlinkat(above, name, AtFlags::empty()).map_err(|e| system(source, e))
}

/// The way back, for a claim that has to be undone.
pub(crate) fn file_back(dest: &Path, above: &OwnedFd, name: &OsStr) -> Result<(), ClaimError> {
    let failed = |e: &io::Error| system(dest, to_errno(e));
    let from = fs::File::open(dest).map_err(|e| failed(&e))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let to = openat(above, name, flags, Mode::from_raw_mode(0o660)).map_err(|e| system(dest, e))?;
    fill(&from, fs::File::from(to)).map_err(|e| failed(&e))?;
    fs::remove_file(dest).map_err(|e| failed(&e))
}

/// Copies the folder of a plan to its destination and removes the source.
pub(crate) fn folder(
    above: &OwnedFd,
    name: &OsStr,
    plan: &MovePlan,
    names: &NameRules,
) -> Result<(), ClaimError> {
    let partial = partial(&plan.dest);
    match fs::remove_dir_all(&partial) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(system(&partial, to_errno(&e)));
        }
        _ => make_dir(&partial)?,
    }
    let source = plan.set.root_dir();
    for DropFile { name: file, stamp } in &plan.set.files {
        let (from, to) = (source.join(file), partial.join(file));
        make_dir(to.parent().unwrap_or(&partial))?;
        let (parent, file_name) = open_inside(above, name, file, &source)?;
        duplicate(&parent, &file_name, stamp, &from, &to)?;
    }
    plan.check_folder(open_dir(above, name, &source)?, names, Stamp::same_content)?;
    // An empty folder may stand there; anything else is a reason to stop.
    fs::rename(&partial, &plan.dest).map_err(|e| system(&plan.dest, to_errno(&e)))?;
    remove_sources(above, name, plan)
}

/// Removes the planned files that are still unchanged, then the folders that are empty.
pub(crate) fn remove_sources(
    above: &OwnedFd,
    name: &OsStr,
    plan: &MovePlan,
) -> Result<(), ClaimError> {
    let source = plan.set.root_dir();
    let mut folders = vec![];
    for DropFile { name: file, stamp } in &plan.set.files {
        folders.extend(file.ancestors().skip(1).filter(|a| !a.as_os_str().is_empty()));
        let opened = open_inside(above, name, file, &source);
        let Ok((parent, file_name)) = opened else { continue };
        let here = rustix::fs::statat(&parent, &file_name, AtFlags::SYMLINK_NOFOLLOW);
        if here.is_ok_and(|s| Stamp::from(&s).same_content(stamp)) {
            unlinkat(&parent, &file_name, AtFlags::empty())
                .map_err(|e| system(&source.join(file), e))?;
        }
    }
    folders.sort();
    folders.dedup();
    for folder in folders.iter().rev() {
        if let Ok((parent, folder_name)) = open_inside(above, name, folder, &source) {
            let _ = unlinkat(&parent, &folder_name, AtFlags::REMOVEDIR);
        }
    }
    // What was not part of the plan (hidden files, newer ones) stays, and so does its folder.
    let _ = unlinkat(above, name, AtFlags::REMOVEDIR);
    fsync_dir(above);
    Ok(())
}

/// The folder that holds `file` inside the folder `name`, without following links.
fn open_inside(
    above: &OwnedFd,
    name: &OsStr,
    file: &Path,
    source: &Path,
) -> Result<(OwnedFd, OsString), ClaimError> {
    let mut dir = open_dir(above, name, source)?;
    for component in file.parent().unwrap_or(Path::new("")).components() {
        dir = open_dir(&dir, component.as_os_str(), source)?;
    }
    Ok((dir, file.file_name().unwrap_or_default().to_owned()))
}

/// Copies under a temporary name, keeps the time, syncs, renames.
fn duplicate(
    above: &OwnedFd,
    name: &OsStr,
    seen: &Stamp,
    source: &Path,
    dest: &Path,
) -> Result<(), ClaimError> {
    let failed = |e: &io::Error| system(source, to_errno(e));
    let from = openat(above, name, O_READ, Mode::empty()).map_err(|e| system(source, e))?;
    no_link_of_others(above, &from, source)?;
    let partial = partial(dest);
    let to = fs::File::create(&partial).map_err(|e| failed(&e))?;
    let from = fs::File::from(from);
    fill(&from, to).map_err(|e| failed(&e))?;
    let after = Stamp::from(&fstat(&from).map_err(|e| system(source, e))?);
    if !after.same_content(seen) {
        let _ = fs::remove_file(&partial);
        return Err(ClaimError::Changed(source.to_owned()));
    }
    fs::rename(&partial, dest).map_err(|e| failed(&e))
}

/// A second name of a file of somebody else would make the daemon read what the dropper may not. The
/// copy has one name, so that nobody sees it later.
fn no_link_of_others(above: &OwnedFd, file: &OwnedFd, source: &Path) -> Result<(), ClaimError> {
    let stat = |of: &OwnedFd| fstat(of).map_err(|e| system(source, e));
    let file = stat(file)?;
    if file.st_nlink < 2 || file.st_uid == stat(above)?.st_uid {
        return Ok(());
    }
    let text = format!("`{}` is a hard link to a file of another user", source.display());
    let why = Diagnostic::new(Code::SymlinkRefused, text);
    Err(ClaimError::Blocked(why.help("Drop a copy of the file: `cp` without `-l`.")))
}

fn fill(mut from: &fs::File, mut to: fs::File) -> io::Result<()> {
    io::copy(&mut from, &mut to)?;
    let meta = from.metadata()?;
    let time = |s: i64, ns: i64| Timespec { tv_sec: s as _, tv_nsec: ns as _ };
    let times = Timestamps {
        last_access: time(meta.atime(), meta.atime_nsec()),
        last_modification: time(meta.mtime(), meta.mtime_nsec()),
    };
    rustix::fs::futimens(&to, &times)?;
    to.sync_all()
}

fn partial(dest: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(dest.file_name().unwrap_or_default());
    name.push(".partial");
    dest.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::FileSet;
    use rustix::fs::CWD;

    fn opened(path: &Path) -> OwnedFd {
        openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    fn stamp(path: &Path) -> Stamp {
        (&rustix::fs::lstat(path).unwrap()).into()
    }

    fn plan(dir: &Path) -> MovePlan {
        let net = dir.join("inbox/net");
        fs::create_dir_all(net.join("weights")).unwrap();
        fs::write(net.join("net.ini"), "[sp]").unwrap();
        fs::write(net.join("weights/a"), "1 2 3").unwrap();
        let files = ["net.ini", "weights/a"];
        let set = FileSet {
            inbox: dir.join("inbox"),
            root: PathBuf::from("net"),
            whole: Some(stamp(&net)),
            files: files.map(|f| DropFile { name: f.into(), stamp: stamp(&net.join(f)) }).into(),
            marker: None,
        };
        set.plan(&dir.join("job/input"))
    }

    #[test]
    fn a_folder_is_copied_whole_and_its_source_removed() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan(dir.path());
        fs::create_dir(dir.path().join("job")).unwrap();
        fs::write(dir.path().join("inbox/net/.hidden"), "").unwrap();
        folder(&opened(&plan.set.inbox), OsStr::new("net"), &plan, &NameRules::default()).unwrap();
        assert_eq!(fs::read_to_string(plan.dest.join("weights/a")).unwrap(), "1 2 3");
        assert!(stamp(&plan.dest.join("net.ini")).same_bytes(&plan.set.files[0].stamp));
        assert!(!plan.set.inbox.join("net/weights").exists());
        assert!(plan.set.inbox.join("net/.hidden").exists());
        assert!(!dir.path().join("job/.input.partial").exists());
    }

    #[test]
    fn a_complete_copy_whose_source_is_still_there_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan(dir.path());
        fs::create_dir_all(plan.dest.join("weights")).unwrap();
        for file in ["net.ini", "weights/a"] {
            let source = plan.set.inbox.join("net").join(file);
            fs::copy(&source, plan.dest.join(file)).unwrap();
            let time = fs::metadata(&source).unwrap().modified().unwrap();
            let copy = fs::File::options().write(true).open(plan.dest.join(file)).unwrap();
            copy.set_modified(time).unwrap();
        }
        plan.execute(&NameRules::default()).unwrap();
        assert!(!plan.set.inbox.join("net").exists());
        assert!(plan.dest.join("weights/a").exists());
    }

    #[test]
    fn a_file_that_changed_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan(dir.path());
        fs::create_dir(dir.path().join("job")).unwrap();
        fs::write(plan.set.inbox.join("net/weights/a"), "1 2 3 4").unwrap();
        let result =
            folder(&opened(&plan.set.inbox), OsStr::new("net"), &plan, &NameRules::default());
        assert_eq!(result, Err(ClaimError::Changed(plan.set.inbox.join("net/weights/a"))));
        assert!(!plan.dest.exists());
        assert!(plan.set.inbox.join("net/net.ini").exists());
    }

    /// Only root can give files away.
    #[test]
    fn a_hard_link_to_a_file_of_another_user_is_not_copied() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan(dir.path());
        let secret = dir.path().join("secret");
        fs::write(&secret, "not the dropper's").unwrap();
        if std::os::unix::fs::chown(&secret, Some(65_534), None).is_err() {
            return;
        }
        let (net, dest) = (opened(&plan.set.inbox.join("net")), dir.path().join("taken"));
        let copied = |name: &str| {
            let source = plan.set.inbox.join("net").join(name);
            duplicate(&net, name.as_ref(), &stamp(&source), &source, &dest)
        };
        fs::hard_link(&secret, plan.set.inbox.join("net/a")).unwrap();
        let Err(ClaimError::Blocked(why)) = copied("a") else { panic!() };
        assert_eq!(why.code, "N0108");
        assert!(!dest.exists());
        fs::hard_link(plan.set.inbox.join("net/net.ini"), dir.path().join("second")).unwrap();
        assert_eq!(copied("net.ini"), Ok(()), "of the folder's own user");
    }
}
