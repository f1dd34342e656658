//! From command-line paths or a claimed folder to the files of one conversion, and its params.
//!
//! Names are relative to the submission's root, as a front-end sees them.

use super::Plugins;
use super::files::inner;
use super::links::followed;
use onnxd_config::Settings;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_intake::downloads::{self, is_download};
use onnxd_intake::names::{NameClass, NameRules, is_params, is_role_file, is_role_folder};
use onnxd_intake::scan::DEPTH_MAX;
use onnxd_params::Resolved;
use onnxd_proto::onnxd::{InputFile, Need, PluginInfo};
use onnxd_worker::recognition::{ChosenFrontend, Question};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

/// Names that the settings call unfinished or ignored.
pub(crate) fn names(settings: &Settings) -> NameRules {
    NameRules::new(&settings.intake.unfinished, &settings.intake.ignored)
}

/// Most files of one submission.
pub(crate) const FILES_MAX: usize = 100_000;

/// Asks the front-ends about a submission.
type Ask<'a> = &'a dyn Fn(&Submission) -> Result<ChosenFrontend, Diagnostics>;

/// What one conversion works on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Submission {
    /// Name of the folder, or the network's stem.
    pub(crate) name: String,
    /// Relative to the root; one of `files`.
    pub(crate) network: String,
    /// All files, sorted by name.
    pub(crate) files: Vec<InputFile>,
}

impl Submission {
    /// What the front-ends are asked about when `network` may be one.
    pub(super) fn of(network: &str, files: &[InputFile]) -> Submission {
        let (name, network) = (stem(network).to_owned(), network.to_owned());
        Submission { name, network, files: files.to_vec() }
    }

    /// What the front-ends among `plugins` are asked about it.
    pub(crate) fn question<'a>(
        &'a self,
        plugins: &'a [PluginInfo],
        params: &'a Resolved,
    ) -> Question<'a> {
        let Submission { files, network, .. } = self;
        let about = onnxd_plugin_host::Submission { files, network, params, lowered: &[] };
        Question { plugins, about }
    }

    /// Files and folders that a person named. One folder is the root; several paths lie side by
    /// side by their last names, and the first file that may be a network is it.
    ///
    /// # Errors
    /// Everything that is wrong with the paths, or that no network is among them.
    pub(crate) fn from_paths(
        paths: &[PathBuf],
        plugins: &Plugins,
        names: &NameRules,
        ours: &dyn Fn(&Path) -> bool,
        ask: Ask<'_>,
    ) -> Result<Submission, Diagnostics> {
        let mut walk = FileWalk::new(names, ours);
        let mut named = Vec::new();
        for path in paths {
            match (fs::metadata(path), paths.len()) {
                (Err(e), _) => walk.unreadable(path, &e),
                (Ok(data), 1) if data.is_dir() => walk.folder(path, "", 0),
                (Ok(data), _) => {
                    let Some(name) = base_name(path) else {
                        walk.found.push(not_text(path));
                        continue;
                    };
                    if data.is_dir() {
                        walk.folder(path, &name, 0);
                    } else {
                        walk.file(path, name.clone());
                        named.push(name);
                    }
                }
            }
        }
        let files = walk.finish()?;
        let of_named = named.iter().filter(|name| is_candidate(name, plugins));
        let of_named: Vec<&String> = of_named.collect();
        let network = match of_named.as_slice() {
            // The front-ends say why they do not take what was named.
            [] if files.len() == 1 && named.len() == 1 => named[0].clone(),
            [] => only_network(&files, nearest_candidates(&files, plugins), plugins, ask)?,
            [one] => (*one).clone(),
            [first, ..] => first_network(&files, &of_named, ask).unwrap_or(first).clone(),
        };
        let folder = paths.first().filter(|p| paths.len() == 1 && p.is_dir());
        let folder = folder.and_then(|p| base_name(&p.canonicalize().ok()?));
        let name = folder.unwrap_or_else(|| stem(&network).to_owned());
        Ok(Submission { name, network, files })
    }

    /// Adds what `needs` miss and what lies in `folder`, where a single network came from. Whether
    /// anything was added.
    ///
    /// # Errors
    /// Everything that is wrong with what would be added.
    pub(crate) fn complete(
        &mut self,
        folder: &Path,
        names: &NameRules,
        needs: &[Need],
    ) -> Result<bool, Diagnostics> {
        let mut walk =
            FileWalk { files: std::mem::take(&mut self.files), ..FileWalk::new(names, &|_| false) };
        let before = walk.files.len();
        for need in needs.iter().filter(|need| !need.found) {
            // A front-end may also take a file by its last name, as networks name paths of others.
            let last = need.path.rsplit('/').next().unwrap_or(&need.path);
            for name in [need.path.as_str(), last] {
                let Some(path) = inner(name).map(|path| folder.join(path)) else { continue };
                match path.symlink_metadata() {
                    Ok(data) if data.is_dir() && name == need.path => walk.folder(&path, name, 0),
                    Ok(data) if data.is_dir() => continue,
                    // Another need may have brought it already.
                    Ok(_) if walk.files.iter().any(|f| f.name == name) => {}
                    Ok(data) if data.is_file() => walk.file(&path, name.to_owned()),
                    Ok(data) if data.is_symlink() => walk.link(&path, name.to_owned()),
                    _ => continue,
                }
                break;
            }
        }
        self.files = walk.finish()?;
        Ok(self.files.len() > before)
    }

    /// `<stem>.params.ini|toml`, else `params.ini|toml` beside the network; TOML wins over INI.
    pub(crate) fn params_files(&self) -> Vec<&InputFile> {
        let (folder, network) = match self.network.rsplit_once('/') {
            Some((folder, name)) => (format!("{folder}/"), name),
            None => (String::new(), self.network.as_str()),
        };
        let find = |prefix: &str| -> Vec<&InputFile> {
            let names = ["ini", "toml"].map(|ext| format!("{folder}{prefix}params.{ext}"));
            let of = |name: &String| self.files.iter().find(|f| f.name.eq_ignore_ascii_case(name));
            names.iter().filter_map(of).collect()
        };
        let own = find(&format!("{}.", stem(network)));
        if own.is_empty() { find("") } else { own }
    }
}

/// Collects files, and everything that is wrong with them.
struct FileWalk<'a> {
    files: Vec<InputFile>,
    found: Diagnostics,
    full: bool,
    ours: &'a dyn Fn(&Path) -> bool,
    names: &'a NameRules,
}

impl<'a> FileWalk<'a> {
    fn new(names: &'a NameRules, ours: &'a dyn Fn(&Path) -> bool) -> FileWalk<'a> {
        FileWalk { files: Vec::new(), found: Diagnostics::default(), full: false, ours, names }
    }

    fn folder(&mut self, folder: &Path, prefix: &str, depth: usize) {
        if depth > DEPTH_MAX {
            let text = format!("`{}` is more than {DEPTH_MAX} folders deep", folder.display());
            self.found.push(Diagnostic::new(Code::SubmissionTooLarge, text));
            return;
        }
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = match entries {
            Ok(entries) => entries,
            Err(e) => return self.unreadable(folder, &e),
        };
        downloads::below(folder).iter().for_each(|path| self.unfinished(&folder.join(path)));
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
            if is_download(&name) {
                self.unfinished(&path);
            }
            if self.names.classify(&name) != NameClass::Plain || self.full {
                continue;
            }
            let Some(name) = name.to_str() else {
                self.found.push(not_text(&path));
                continue;
            };
            let slash = if prefix.is_empty() { "" } else { "/" };
            let name = format!("{prefix}{slash}{name}");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.folder(&path, &name, depth + 1),
                Ok(kind) if kind.is_symlink() => self.link(&path, name),
                Ok(_) if path.canonicalize().is_ok_and(|path| (self.ours)(&path)) => {}
                Ok(_) => self.file(&path, name),
                Err(e) => self.unreadable(&path, &e),
            }
        }
    }

    /// A link to a file is that file under the link's name.
    fn link(&mut self, path: &Path, name: String) {
        match followed(path) {
            Ok(file) if file.canonicalize().is_ok_and(|file| (self.ours)(&file)) => {}
            Ok(file) => self.file(&file, name),
            Err(found) => self.found.push(found),
        }
    }

    /// What is being fetched there may be a part of the network.
    fn unfinished(&mut self, path: &Path) {
        let text = format!("a download is not finished: `{}`", shown(&path.to_string_lossy()));
        self.found.push(Diagnostic::new(Code::DownloadUnfinished, text));
    }

    fn file(&mut self, path: &Path, name: String) {
        if self.files.len() == FILES_MAX {
            let text = format!("the submission has more than {FILES_MAX} files");
            self.found.push(Diagnostic::new(Code::SubmissionTooLarge, text));
            self.full = true;
            return;
        }
        let absolute = match path.canonicalize() {
            Ok(absolute) => absolute,
            Err(e) => return self.unreadable(path, &e),
        };
        let Some(data) = absolute.metadata().ok().filter(Metadata::is_file) else {
            let text = format!("`{}` is not a regular file", path.display());
            self.found.push(Diagnostic::new(Code::Unreadable, text));
            return;
        };
        match absolute.into_os_string().into_string() {
            Ok(path) => {
                let (bytes, sha256) = (data.len(), String::new());
                self.files.push(InputFile { path, name, bytes, sha256 });
            }
            Err(_) => self.found.push(not_text(path)),
        }
    }

    fn unreadable(&mut self, path: &Path, error: &std::io::Error) {
        let text = format!("`{}`: {error}", path.display());
        self.found.push(Diagnostic::new(Code::Unreadable, text));
    }

    fn finish(mut self) -> Result<Vec<InputFile>, Diagnostics> {
        self.files.sort_by(|a, b| a.name.cmp(&b.name));
        for pair in self.files.windows(2).filter(|pair| pair[0].name == pair[1].name) {
            let text = format!(
                "`{}` and `{}` would both be `{}`",
                pair[0].path,
                pair[1].path,
                shown(&pair[0].name)
            );
            self.found.push(Diagnostic::new(Code::Usage, text).help("Put them into one folder."));
        }
        self.found.or_ok(self.files)
    }
}

/// The first of the named files that a front-end takes.
fn first_network<'a>(
    files: &[InputFile],
    named: &[&'a String],
    ask: Ask<'_>,
) -> Option<&'a String> {
    named.iter().copied().find(|network| ask(&Submission::of(network, files)).is_ok())
}

/// Candidates nearest to the root.
fn nearest_candidates(files: &[InputFile], plugins: &Plugins) -> Vec<String> {
    let candidates: Vec<&str> =
        files.iter().map(|f| f.name.as_str()).filter(|n| is_candidate(n, plugins)).collect();
    let depth = |name: &str| name.matches('/').count();
    let nearest = candidates.iter().map(|n| depth(n)).min().unwrap_or(0);
    candidates.into_iter().filter(|n| depth(n) == nearest).map(str::to_owned).collect()
}

/// The only network among `candidates`, as the inbox finds it: what no front-end takes is none, and
/// what another network uses is a part of that one.
fn only_network(
    files: &[InputFile],
    candidates: Vec<String>,
    plugins: &Plugins,
    ask: Ask<'_>,
) -> Result<String, Diagnostics> {
    let mut left: Vec<(String, Result<ChosenFrontend, Diagnostics>)> = Vec::new();
    let mut declined = Diagnostics::default();
    match candidates.as_slice() {
        [] => return Err(no_candidate(plugins).into()),
        // The front-ends are asked when it is converted.
        [one] => return Ok(one.clone()),
        _ => {}
    }
    for network in candidates {
        match ask(&Submission::of(&network, files)) {
            Err(found) if found.0.iter().all(|d| d.code == Code::NoFrontend.as_str()) => {
                declined.0.extend(found.0);
            }
            asked => left.push((network, asked)),
        }
    }
    let used = |name: &str| {
        let needs = left.iter().filter(|(other, _)| other != name);
        let mut needs = needs.flat_map(|(_, asked)| asked.iter().flat_map(|c| &c.needs));
        needs.any(|need| need.found_as.iter().any(|found| found == name))
    };
    let mut alone: Vec<&(String, Result<ChosenFrontend, Diagnostics>)> =
        left.iter().filter(|(name, _)| !used(name)).collect();
    if alone.is_empty() {
        // Networks that use each other.
        alone = left.iter().collect();
    }
    match alone.as_slice() {
        [(one, _)] => Ok(one.clone()),
        [] => Err(declined),
        several => Err(several
            .iter()
            .find_map(|(_, asked)| asked.clone().err())
            .unwrap_or_else(|| too_many(&several.iter().map(|(n, _)| n).collect::<Vec<_>>()))),
    }
}

fn no_candidate(plugins: &Plugins) -> Diagnostic {
    let globs = plugins.frontend_globs().join(", ");
    let globs = if globs.is_empty() { "nothing: no front-end is installed" } else { &globs };
    let text = format!("none of the files may be a network; front-ends read {globs}");
    Diagnostic::new(Code::NoFrontend, text)
}

fn too_many(networks: &[&String]) -> Diagnostics {
    const NAMES_SHOWN: usize = 10;
    let names = networks.iter().take(NAMES_SHOWN).map(|n| format!("`{}`", shown(n)));
    let names = names.collect::<Vec<_>>().join(", ");
    let text = format!("the front-ends take {} files for networks: {names}", networks.len());
    let help = "Name the network's file first, then what belongs to it.";
    Diagnostic::new(Code::Usage, text).help(help).into()
}

/// Whether a file may be a network by its name and place.
fn is_candidate(name: &str, plugins: &Plugins) -> bool {
    let mut parts = name.rsplit('/');
    let base = OsStr::new(parts.next().unwrap_or(name));
    let in_role_folder = parts.any(|folder| is_role_folder(OsStr::new(folder)));
    !in_role_folder && !is_role_file(base) && !is_params(base) && plugins.may_be_network(name)
}

/// A file's name without folders and last extension.
pub(crate) fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
}

fn base_name(path: &Path) -> Option<String> {
    let named = path.file_name().map(OsStr::to_owned);
    let name = named.or_else(|| path.canonicalize().ok()?.file_name().map(OsStr::to_owned))?;
    name.into_string().ok()
}

fn not_text(path: &Path) -> Diagnostic {
    let text = format!("the name `{}` is not valid UTF-8", shown(&path.to_string_lossy()));
    Diagnostic::new(Code::Unreadable, text).help("Rename the file.")
}

#[cfg(test)]
#[path = "submission_tests.rs"]
mod tests;
