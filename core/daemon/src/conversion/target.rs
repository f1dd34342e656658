//! The folder of `onnxd convert --out`: what may be replaced there, and how a result gets in.
//!
//! A file there is replaced or removed only if it is an earlier result's, unchanged, and no input of
//! this conversion. Everything else stays; where it is in the way, the conversion is refused.

use super::files::{digest, inner, move_file, move_folder, remove_file, sync_folder, write};
use super::manifest::{MANIFEST, Manifest};
use super::publish::{MODEL_FILES, VIEWS};
use super::{Outcome, Verdict};
use onnxd_diagnostics::{Code, Diagnostic, shown};
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folder for the reports of a failed conversion where the result of an earlier one is.
const FAILED: &str = "failed";
/// Files that a worker is told of.
const TAKEN_MAX: usize = 1000;
/// Names that a refusal shows.
const NAMES_SHOWN: usize = 10;

/// Device and inode: the same file under any name.
type Inode = (u64, u64);

/// A folder for a result.
#[derive(Clone, Debug)]
pub(crate) struct ResultFolder {
    folder: PathBuf,
    /// Of the result that lies there; empty if there is none.
    earlier: Manifest,
    /// Files that this conversion reads.
    inputs: HashSet<Inode>,
}

impl ResultFolder {
    /// The folder `out`, which need not exist.
    ///
    /// # Errors
    /// `N0704` if it cannot be a folder, `N0304` if it cannot be looked at.
    pub(crate) fn new(out: &Path) -> Result<ResultFolder, Diagnostic> {
        let unusable = |why: String| {
            let text = format!("`{}` cannot be the folder for the result{why}", out.display());
            Diagnostic::new(Code::Usage, text)
        };
        let absolute = std::path::absolute(out).map_err(|e| unusable(format!(": {e}")))?;
        let folder = match (absolute.canonicalize(), absolute.symlink_metadata()) {
            (Ok(there), _) if there.is_dir() => there,
            (Ok(_), _) => return Err(unusable(": it is a file".to_owned())),
            (Err(_), Ok(_)) => {
                return Err(unusable(": it is a link that leads nowhere".to_owned()));
            }
            (Err(_), Err(_)) => absolute,
        };
        if folder.to_str().is_none() {
            return Err(unusable(": its path is not valid UTF-8".to_owned()));
        }
        if folder.file_name().is_none() && !folder.is_dir() {
            return Err(unusable(String::new()));
        }
        ResultFolder::at(folder, HashSet::new())
    }

    fn at(folder: PathBuf, inputs: HashSet<Inode>) -> Result<ResultFolder, Diagnostic> {
        let earlier = Manifest::read(&folder).map_err(|e| disk("read", &folder, &e))?;
        Ok(ResultFolder { folder, earlier: earlier.unwrap_or_default(), inputs })
    }

    /// A hidden name on the same file system, for the result in the making: in the folder if it
    /// exists, because the one above may be another file system or not ours to write to.
    pub(crate) fn scratch(&self, job: &str) -> PathBuf {
        let name = format!(".onnxd-{job}");
        match self.folder.is_dir() {
            true => self.folder.join(name),
            false => self.folder.with_file_name(name),
        }
    }

    /// Names files that are read; they are never touched, whatever name they have in the folder.
    pub(crate) fn protect<'a>(&mut self, inputs: impl IntoIterator<Item = &'a Path>) {
        let inode = |path: &Path| path.metadata().ok().map(|data| (data.dev(), data.ino()));
        self.inputs.extend(inputs.into_iter().filter_map(inode));
    }

    /// Whether onnxd wrote `file`, an absolute path, here earlier, and it is unchanged since.
    pub(crate) fn wrote(&self, file: &Path) -> bool {
        let Some(name) = file.strip_prefix(&self.folder).ok().and_then(Path::to_str) else {
            return false;
        };
        let failed = || self.below(FAILED.to_owned()).is_ok_and(|f| f.wrote(file));
        match self.is_known(name) {
            true => self.foreign(name).is_none(),
            false => name.starts_with(FAILED) && failed(),
        }
    }

    /// Refuses what a conversion would certainly write over, before its work is done; `sub` is the
    /// folder below for the model, if the params ask for one.
    ///
    /// # Errors
    /// `N0705` that names what is in the way.
    pub(crate) fn check_early(&self, sub: Option<&str>) -> Result<(), Diagnostic> {
        let below = |name: &&str| sub.map_or((*name).to_owned(), |sub| format!("{sub}/{name}"));
        let models: Vec<String> = MODEL_FILES.iter().map(below).collect();
        self.check(models.iter().map(String::as_str).chain(VIEWS))
    }

    /// Models that lie where those of the result are to go, and must stay. Which of them a network that makes several
    /// would replace is known once it was read.
    pub(crate) fn taken(&self, sub: Option<&str>) -> Vec<String> {
        let folder = sub.map_or(self.folder.clone(), |sub| self.folder.join(sub));
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        let models = names.filter(|name| name.ends_with(".onnx"));
        let path = |name: &str| sub.map_or(name.to_owned(), |sub| format!("{sub}/{name}"));
        models.filter(|name| self.foreign(&path(name)).is_some()).take(TAKEN_MAX).collect()
    }

    fn check<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), Diagnostic> {
        let names: BTreeSet<&str> = names.into_iter().chain([MANIFEST]).collect();
        let foreign: Vec<String> = names
            .into_iter()
            .filter_map(|name| Some(format!("`{}` ({})", shown(name), self.foreign(name)?)))
            .collect();
        if foreign.is_empty() {
            return Ok(());
        }
        let more = foreign.len().saturating_sub(NAMES_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let text = format!(
            "the result would replace files in `{}` that are not an earlier result of onnxd: {}{more}",
            self.folder.display(),
            foreign[..foreign.len().min(NAMES_SHOWN)].join(", ")
        );
        Err(Diagnostic::new(Code::OutputTaken, text))
    }

    fn is_known(&self, name: &str) -> bool {
        match name {
            MANIFEST => self.holds_any(),
            name => self.earlier.names_file(name),
        }
    }

    fn holds_any(&self) -> bool {
        self.earlier.names().next().is_some()
    }

    /// A folder below; a link there is left alone, wherever it leads.
    fn below(&self, name: String) -> Result<ResultFolder, Diagnostic> {
        let folder = self.folder.join(name);
        match folder.symlink_metadata() {
            Ok(data) if !data.is_dir() => {
                let why = io::Error::from(io::ErrorKind::NotADirectory);
                Err(disk("used", &folder, &why))
            }
            _ => ResultFolder::at(folder, self.inputs.clone()),
        }
    }

    /// Why what lies under `name` must stay; `None` if nothing does, or an earlier result's file.
    fn foreign(&self, name: &str) -> Option<&'static str> {
        let Some(path) = inner(name) else { return Some("no name of a result") };
        let folders = path.ancestors().skip(1).filter(|p| *p != Path::new(""));
        let folders = folders.map(|f| self.folder.join(f).symlink_metadata());
        if folders.flatten().any(|data| !data.is_dir()) {
            return Some("its folder is a file or a link");
        }
        let data = match self.folder.join(path).symlink_metadata() {
            Ok(data) => data,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => return Some("it cannot be looked at"),
        };
        match data.file_type() {
            kind if kind.is_dir() => Some("a folder"),
            kind if !kind.is_file() => Some("a link or a special file"),
            _ if self.inputs.contains(&(data.dev(), data.ino())) => Some("an input of this run"),
            _ if !self.is_known(name) => Some("not written by onnxd"),
            _ if name == MANIFEST || self.earlier.fits(&self.folder, name) => None,
            _ => Some("changed since onnxd wrote it"),
        }
    }

    /// Brings a prepared success here, and takes the earlier result away.
    ///
    /// # Errors
    /// `N0705` if something is in the way, `N0304`.
    pub(crate) fn publish(&self, outcome: &Outcome) -> Result<(), Diagnostic> {
        self.bring(outcome)?;
        match self.below(FAILED.to_owned()) {
            Ok(failed) => failed.clear(&[]).map_err(|e| disk("tidied", &failed.folder, &e)),
            Err(_) => Ok(()),
        }
    }

    /// Brings the reports of a failure to where they harm nothing, and says where: here, or in the
    /// folder `failed` below if a result is here or something is in the way.
    ///
    /// # Errors
    /// `N0304`.
    pub(crate) fn publish_failure(&self, outcome: &Outcome) -> Result<PathBuf, Diagnostic> {
        let holds_result = self.earlier.names().any(|name| !VIEWS.contains(&name));
        if !holds_result && self.check(VIEWS).is_ok() {
            return self.bring(outcome).map(|()| self.folder.clone());
        }
        let usual = self.below(FAILED.to_owned()).ok().filter(|t| t.check(VIEWS).is_ok());
        let below = match usual {
            Some(usual) => usual,
            None => self.below(format!("{FAILED}.{}", outcome.report.job))?,
        };
        below.bring(outcome).map(|()| below.folder)
    }

    fn bring(&self, outcome: &Outcome) -> Result<(), Diagnostic> {
        let result = &outcome.out_dir;
        let new = manifest(outcome).map_err(|e| disk("written", result, &e))?;
        match move_folder(result, &self.folder) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done.map_err(|e| disk("published", &self.folder, &e)),
        }
        self.check(new.names())?;
        self.update(result, new).map_err(|e| disk("published", &self.folder, &e))
    }

    /// File by file: the old model goes first and the new one comes last, so a model that is there
    /// belongs to the report beside it. Until then the manifest names the files of both results:
    /// what an interrupted update leaves is onnxd's own.
    fn update(&self, result: &Path, mut new: Manifest) -> io::Result<()> {
        let (old, both) = (result.join("old.manifest"), self.earlier.clone().with(&new));
        write(&old, both.text().as_bytes())?;
        fs::rename(&old, self.folder.join(MANIFEST))?;
        self.clear(&[MANIFEST])?;
        let (views, outputs): (Vec<&str>, Vec<&str>) =
            new.names().partition(|name| VIEWS.contains(name));
        let (models, others): (Vec<&str>, Vec<&str>) =
            outputs.into_iter().partition(|name| name.ends_with(".onnx"));
        for name in views.into_iter().chain(others).chain(models) {
            let to = self.folder.join(name);
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            move_file(&result.join(name), &to)?;
        }
        let listed = result.join(MANIFEST);
        new.write_moved(&listed, &self.folder)?;
        fs::rename(listed, self.folder.join(MANIFEST))?;
        sync_folder(&self.folder)
    }

    /// Removes what an earlier result left here, but for `kept`; a folder goes with its last file.
    fn clear(&self, kept: &[&str]) -> io::Result<()> {
        let own = |name: &&str| !kept.contains(name) && self.foreign(name).is_none();
        let (models, others): (Vec<&str>, Vec<&str>) =
            self.earlier.names().chain([MANIFEST]).filter(own).partition(|n| n.ends_with(".onnx"));
        for name in models.into_iter().chain(others) {
            remove_file(&self.folder.join(name))?;
            let folders = Path::new(name).ancestors().skip(1).filter(|p| *p != Path::new(""));
            for folder in folders {
                // Fails where something else is in it, as it should.
                let _ = fs::remove_dir(self.folder.join(folder));
            }
        }
        if kept.is_empty() && self.holds_any() {
            let _ = fs::remove_dir(&self.folder);
        }
        Ok(())
    }
}

/// Writes the manifest of a prepared result. The outputs were held against their digests already.
fn manifest(outcome: &Outcome) -> io::Result<Manifest> {
    let mut manifest = Manifest::default();
    if !matches!(outcome.verdict, Verdict::Failed { .. }) {
        outcome.report.outputs.iter().for_each(|file| manifest.add(&file.path, &file.sha256));
    }
    for name in VIEWS {
        manifest.add(name, &digest(&outcome.out_dir.join(name))?.1);
    }
    // All other files were brought to the disk when the result was prepared.
    manifest.write(&outcome.out_dir.join(MANIFEST), &outcome.out_dir)?;
    Ok(manifest)
}

fn disk(what: &str, path: &Path, error: &io::Error) -> Diagnostic {
    let text = format!("`{}` could not be {what}: {error}", path.display());
    Diagnostic::new(Code::Disk, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversion::publish::{REPORT, prepare, read_report};
    use crate::conversion::testing::success;
    use onnxd_diagnostics::Diagnostics;
    use std::os::unix::fs::symlink;

    const DATA: &str = "model.onnx.data";

    struct Case(tempfile::TempDir);

    impl Case {
        fn new() -> Case {
            Case(tempfile::tempdir().unwrap())
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
            fs::write(self.at(name), text).unwrap();
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.at(name)).unwrap()
        }

        fn target(&self, inputs: &[&str]) -> ResultFolder {
            let mut target = ResultFolder::new(&self.at("out")).unwrap();
            let inputs: Vec<PathBuf> = inputs.iter().map(|name| self.at(name)).collect();
            target.protect(inputs.iter().map(PathBuf::as_path));
            target
        }

        fn succeed(&self, job: &str, names: &[&str], inputs: &[&str]) -> Result<(), Diagnostic> {
            let mut outcome = success(self.0.path(), job, names);
            prepare(&mut outcome, None).unwrap();
            self.target(inputs).publish(&outcome)
        }

        fn fail(&self, job: &str) -> PathBuf {
            let found = Diagnostics::from(Diagnostic::new(Code::SourceSyntax, "bad"));
            let work = self.at(&format!("work-{job}"));
            let mut outcome = Outcome::failed(job, "net", &found, work);
            prepare(&mut outcome, None).unwrap();
            let folder = self.target(&[]).publish_failure(&outcome).unwrap();
            assert_eq!(read_report(&folder.join(REPORT)).unwrap().job, job);
            folder
        }
    }

    #[test]
    fn an_earlier_result_goes_as_a_whole_and_other_files_stay() {
        let case = Case::new();
        let stimuli = ["model.onnx", DATA, "stimuli/env0.pgm", "export/stimuli/env1.pgm"];
        case.succeed("J1", &stimuli, &[]).unwrap();
        case.write("out/mine.txt", "mine");
        case.write("out/stimuli/mine.pgm", "mine");
        case.succeed("J2", &["model.onnx"], &[]).unwrap();
        assert_eq!(case.read("out/model.onnx"), "J2");
        for gone in [DATA, "stimuli/env0.pgm", "export", ".onnxd-J1"] {
            assert!(!case.at("out").join(gone).exists(), "{gone}");
        }
        assert_eq!(case.read("out/mine.txt") + &case.read("out/stimuli/mine.pgm"), "minemine");
        let manifest = Manifest::read(&case.at("out")).unwrap().unwrap();
        assert_eq!(manifest.names().count(), VIEWS.len() + 1);
        assert!(manifest.names().all(|name| manifest.fits(&case.at("out"), name)));
    }

    #[test]
    fn what_a_person_wrote_or_changed_is_in_the_way() {
        for (name, text, why) in [
            ("model.onnx", "mine", "not written by onnxd"),
            ("report.txt", "mine", "not written by onnxd"),
            ("stimuli", "mine", "its folder is a file"),
        ] {
            let case = Case::new();
            case.write(&format!("out/{name}"), text);
            let error = case.succeed("J1", &["model.onnx", "stimuli/env0.pgm"], &[]).unwrap_err();
            assert_eq!((error.code.as_ref(), error.class.exit_code()), ("N0705", 2), "{error}");
            assert!(error.message.contains(name) && error.message.contains(why), "{error}");
            assert_eq!(fs::read_dir(case.at("out")).unwrap().count(), 1, "{name}");
            assert_eq!(case.read(&format!("out/{name}")), text);
        }
        let case = Case::new();
        case.succeed("J1", &["model.onnx"], &[]).unwrap();
        case.write("out/model.onnx", "J1, changed");
        let error = case.target(&[]).check_early(None).unwrap_err().to_string();
        assert!(error.contains("`model.onnx` (changed since onnxd wrote it)"), "{error}");
        assert!(case.succeed("J2", &["model.onnx"], &[]).is_err());
        assert_eq!(case.read("out/model.onnx"), "J1, changed");
        // Of a network that makes several models, all files count, and those of others do not.
        let case = Case::new();
        case.succeed("J1", &["encoder.onnx", "decoder.onnx"], &[]).unwrap();
        case.write("out/decoder.onnx", "J1, changed");
        case.write("out/notes.txt", "mine");
        assert_eq!(case.target(&[]).taken(None), ["decoder.onnx"]);
        case.write("out/sub/mine.onnx", "mine");
        assert_eq!(case.target(&[]).taken(Some("sub")), ["mine.onnx"]);
        assert!(case.target(&[]).taken(Some("none")).is_empty());
        // A manifest of the same name that another program wrote.
        let case = Case::new();
        case.write("out/manifest.sha256", &format!("{}  model.onnx\n", "0".repeat(64)));
        assert!(case.succeed("J1", &["model.onnx"], &[]).is_err());
    }

    #[test]
    fn inputs_are_never_touched_whatever_they_are_called() {
        let case = Case::new();
        case.succeed("J1", &["model.onnx"], &[]).unwrap();
        fs::hard_link(case.at("out/model.onnx"), case.at("hard.onnx")).unwrap();
        symlink(case.at("out/../out/model.onnx"), case.at("soft.onnx")).unwrap();
        for input in ["out/model.onnx", "hard.onnx", "soft.onnx"] {
            let early = case.target(&[input]).check_early(None).unwrap_err().to_string();
            assert!(early.contains("`model.onnx` (an input of this run)"), "{input}: {early}");
            assert!(case.succeed("J2", &["model.onnx"], &[input]).is_err(), "{input}");
            assert_eq!(case.read("out/model.onnx"), "J1");
            fs::remove_dir_all(case.at("work-J2")).unwrap();
        }
        fs::remove_file(case.at("out/model.onnx")).unwrap();
        case.write("elsewhere.onnx", "mine");
        symlink(case.at("elsewhere.onnx"), case.at("out/model.onnx")).unwrap();
        assert!(case.succeed("J3", &["model.onnx"], &[]).is_err());
        assert_eq!(case.read("elsewhere.onnx"), "mine");
    }

    #[test]
    fn a_failure_leaves_the_earlier_result_alone() {
        let case = Case::new();
        assert_eq!(case.fail("J0"), case.at("out"), "there was no result");
        case.succeed("J1", &["model.onnx"], &[]).unwrap();
        let before = case.read("out/report.json");
        assert_eq!(case.fail("J2"), case.at("out/failed"));
        assert_eq!(case.fail("J3"), case.at("out/failed"));
        assert_eq!(
            case.read("out/model.onnx") + &case.read("out/report.json"),
            "J1".to_owned() + &before
        );
        assert!(case.target(&[]).wrote(&case.at("out/failed/report.txt")));
        case.write("out/failed/report.txt", "mine");
        assert_eq!(case.fail("J4"), case.at("out/failed.J4"));
        case.write("out/failed/report.txt", "mine");
        case.succeed("J5", &["model.onnx"], &[]).unwrap();
        assert_eq!(case.read("out/failed/report.txt"), "mine");
        assert!(!case.at("out/failed/report.json").exists());
    }

    #[test]
    fn an_empty_folder_or_a_link_of_a_person_called_failed_stays() {
        let case = Case::new();
        case.succeed("J1", &["model.onnx"], &[]).unwrap();
        fs::create_dir(case.at("out/failed")).unwrap();
        case.succeed("J2", &["model.onnx"], &[]).unwrap();
        assert!(case.at("out/failed").is_dir());
        fs::remove_dir(case.at("out/failed")).unwrap();
        let other = Case::new();
        other.succeed("J3", &["model.onnx"], &[]).unwrap();
        symlink(other.at("out"), case.at("out/failed")).unwrap();
        case.succeed("J4", &["model.onnx"], &[]).unwrap();
        assert_eq!(case.fail("J5"), case.at("out/failed.J5"));
        assert_eq!(other.read("out/model.onnx"), "J3");
    }

    #[test]
    fn an_interrupted_update_is_repaired_by_the_next() {
        let case = Case::new();
        case.succeed("J1", &["model.onnx", DATA], &[]).unwrap();
        let mut outcome = success(case.0.path(), "J2", &["model.onnx", DATA]);
        prepare(&mut outcome, None).unwrap();
        let new = manifest(&outcome).unwrap();
        // The model cannot be moved, so the update stops in the middle.
        fs::remove_file(outcome.out_dir.join("model.onnx")).unwrap();
        assert!(case.target(&[]).update(&outcome.out_dir, new).is_err());
        assert_eq!(case.read(&format!("out/{DATA}")), "J2");
        assert!(!case.at("out/model.onnx").exists(), "a model without its report");
        case.succeed("J3", &["model.onnx"], &[]).unwrap();
        assert!(!case.at("out").join(DATA).exists());
    }

    #[test]
    fn what_cannot_be_a_folder_is_said() {
        let case = Case::new();
        case.write("out", "mine");
        assert!(ResultFolder::new(&case.at("out")).unwrap_err().message.contains("it is a file"));
        symlink("nowhere", case.at("link")).unwrap();
        let error = ResultFolder::new(&case.at("link")).unwrap_err().into_finding().message;
        assert!(error.contains("leads nowhere"), "{error}");
    }
}
