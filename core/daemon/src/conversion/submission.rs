//! From command-line paths or a claimed folder to the files of one conversion, and its params.
//!
//! Names are relative to the submission's root, as a front-end sees them.

use super::Plugins;
use super::files::inner;
use onnxd_config::{PARAMS_BYTES_MAX, Params, Preset, Settings};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_files::regular_beneath;
use onnxd_intake::names::{NameClass, Names, PRESET, is_params, is_role_file, is_role_folder};
use onnxd_intake::scan::DEPTH_MAX;
use onnxd_proto::onnxd::{InputFile, Need, PluginInfo};
use onnxd_worker::recognition::{Choice, Question};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Names that the settings call unfinished or ignored.
pub(crate) fn names(settings: &Settings) -> Names {
    Names::new(&settings.intake.unfinished, &settings.intake.ignored)
}

/// Most files of one submission.
pub(crate) const FILES_MAX: usize = 100_000;

/// Asks the front-ends about a submission.
type Ask<'a> = &'a dyn Fn(&Submission) -> Result<Choice, Diagnostics>;

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
    fn of(network: &str, files: &[InputFile]) -> Submission {
        let (name, network) = (stem(network).to_owned(), network.to_owned());
        Submission { name, network, files: files.to_vec() }
    }

    /// What the front-ends among `plugins` are asked about it.
    pub(crate) fn question<'a>(
        &'a self,
        plugins: &'a [PluginInfo],
        params: &'a Value,
    ) -> Question<'a> {
        Question { plugins, files: &self.files, network: &self.network, params }
    }

    /// Files and folders that a person named. One folder is the root; several paths lie side by
    /// side by their last names, and the first file that may be a network is it.
    ///
    /// # Errors
    /// Everything that is wrong with the paths, or that no network is among them.
    pub(crate) fn from_paths(
        paths: &[PathBuf],
        plugins: &Plugins,
        names: &Names,
        ours: &dyn Fn(&Path) -> bool,
        ask: Ask<'_>,
    ) -> Result<Submission, Diagnostics> {
        let mut walk = Walk::new(names, ours);
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
        names: &Names,
        needs: &[Need],
    ) -> Result<bool, Diagnostics> {
        let mut walk =
            Walk { files: std::mem::take(&mut self.files), ..Walk::new(names, &|_| false) };
        let before = walk.files.len();
        for need in needs.iter().filter(|need| !need.found) {
            // A front-end may also take a file by its last name, as networks name paths of others.
            let last = need.path.rsplit('/').next().unwrap_or(&need.path);
            for name in [need.path.as_str(), last] {
                let Some(path) = inner(name).map(|path| folder.join(path)) else { continue };
                match path.symlink_metadata() {
                    Ok(data) if data.is_dir() && name == need.path => walk.folder(&path, name, 0),
                    // Another need may have brought it already.
                    Ok(data) if data.is_file() && walk.files.iter().any(|f| f.name == name) => {}
                    Ok(data) if data.is_file() => walk.file(&path, name.to_owned()),
                    _ => continue,
                }
                break;
            }
        }
        self.files = walk.finish()?;
        Ok(self.files.len() > before)
    }

    /// The params that lie in the submission, or in `file` instead, then `overrides`.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(crate) fn params(
        &self,
        plugins: &Plugins,
        presets: &[Preset],
        file: Option<&Path>,
        overrides: &[String],
    ) -> Result<Params, Diagnostics> {
        let texts = match file {
            Some(file) => vec![read_params(file, File::open(file))?],
            // Those of a drop, which others can still change.
            None => {
                let files = self.params_files();
                let paths = files.iter().map(|file| Path::new(&file.path));
                let texts = paths.map(|path| read_params(path, onnxd_files::regular(path)));
                texts.collect::<Result<Vec<_>, Diagnostic>>()?
            }
        };
        let texts = self.with_named_params(&plugins.declared, texts, overrides)?;
        let texts: Vec<(&str, &str)> =
            texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let presets = [std::slice::from_ref(&plugins.defaults), presets].concat();
        Params::resolve_over(&presets, &plugins.declared, &texts, overrides)
    }

    /// Params files beside a network that was named alone, without `given` ones. They may be of another network, so
    /// they are not read. And presets beside what was named.
    pub(crate) fn unread_params(
        &self,
        paths: &[PathBuf],
        given: Option<&Path>,
        presets: &Presets,
    ) -> Vec<Diagnostic> {
        let folder = folder_of_single_file(paths).filter(|_| given.is_none());
        let entries = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let params = names.filter(|name| is_params(OsStr::new(name)));
        let files: Vec<InputFile> =
            params.map(|name| InputFile { name, ..InputFile::default() }).collect();
        let there = Submission::of(&self.network, &files);
        let told = there.params_files().into_iter().map(|file| {
            let name = shown(&file.name);
            let text = format!("`{name}` lies beside the network and was not read");
            let help = format!(
                "A network that is named alone takes no params from its folder. Name `{name}`, \
                 too, or the folder, or give `--params`."
            );
            Diagnostic::new(Code::FileNotRead, text).help(help)
        });
        let preset = unread_preset(paths).filter(|_| presets.is_none());
        told.chain(preset).collect()
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

/// The params that folders of the inbox hold for what is below them, from the inbox down to `folder`.
///
/// # Errors
/// `N0107` for one that cannot be read.
pub(crate) fn presets(inbox: &Path, folder: &Path) -> Result<Vec<Preset>, Diagnostic> {
    let unreadable = |e| read_params(inbox, Err(e)).unwrap_err();
    let top = OwnedFd::from(File::open(inbox).map_err(unreadable)?);
    let below = folder.ancestors().collect::<Vec<_>>().into_iter().rev();
    let preset = |file: PathBuf| match regular_beneath(&top, &file) {
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        opened => {
            let read = read_params(&inbox.join(&file), opened);
            Some(read.map(|(_, text)| Preset::of_file(file.to_string_lossy().into_owned(), text)))
        }
    };
    below.map(|at| at.join(PRESET)).filter_map(preset).collect()
}

/// The presets for what a command names: those from `root` down to the folder that the drop lies in; without `root`,
/// those of the inbox, if the drop lies there.
///
/// # Errors
/// `N0704` if the drop does not lie in `root`; as [`presets`].
pub(crate) fn presets_of(
    paths: &[PathBuf],
    root: Option<&Path>,
    inbox: &Path,
) -> Result<Presets, Diagnostic> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let drop = real(&paths[0]);
    let top = real(root.unwrap_or(inbox));
    match (folder_of_drop(&drop).and_then(|folder| folder.strip_prefix(&top).ok()), root) {
        (Some(below), _) => Ok(Some(presets(&top, below)?)),
        (None, None) => Ok(None),
        (None, Some(root)) => {
            let (drop, root) = (shown_path(&paths[0]), shown_path(root));
            let text = format!("`{drop}` does not lie in `{root}`, which `--presets` names");
            Err(Diagnostic::new(Code::Usage, text)
                .help("Name the folder in which presets begin to hold for the drop."))
        }
    }
}

/// What presets say; `None` where none are looked for.
pub(crate) type Presets = Option<Vec<Preset>>;

fn shown_path(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

/// Where a drop lies; a folder with a preset is a place for drops.
fn folder_of_drop(drop: &Path) -> Option<&Path> {
    if drop.join(PRESET).is_file() { Some(drop) } else { drop.parent() }
}

/// A preset beside what was named: the daemon would read it.
fn unread_preset(paths: &[PathBuf]) -> Option<Diagnostic> {
    let drop = paths.first()?.canonicalize().ok()?;
    let preset = folder_of_drop(&drop)?.join(PRESET);
    preset.is_file().then_some(())?;
    let text = format!("`{}` was not read", shown_path(&preset));
    let help = "`--presets DIR` reads presets as the daemon does, from DIR down to the drop.";
    Some(Diagnostic::new(Code::FileNotRead, text).help(help))
}

/// The folder of the only file that was named.
fn folder_of_single_file(paths: &[PathBuf]) -> Option<&Path> {
    let [path] = paths else { return None };
    let folder = path.parent().filter(|_| path.is_file())?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// Collects files, and everything that is wrong with them.
struct Walk<'a> {
    files: Vec<InputFile>,
    found: Diagnostics,
    full: bool,
    ours: &'a dyn Fn(&Path) -> bool,
    names: &'a Names,
}

impl<'a> Walk<'a> {
    fn new(names: &'a Names, ours: &'a dyn Fn(&Path) -> bool) -> Walk<'a> {
        Walk { files: Vec::new(), found: Diagnostics::default(), full: false, ours, names }
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
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
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
                Ok(kind) if kind.is_symlink() => {
                    let text = format!("`{}` is a symbolic link", shown(&name));
                    self.found.push(Diagnostic::new(Code::SymlinkRefused, text));
                }
                Ok(_) if path.canonicalize().is_ok_and(|path| (self.ours)(&path)) => {}
                Ok(_) => self.file(&path, name),
                Err(e) => self.unreadable(&path, &e),
            }
        }
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
        if !absolute.is_file() {
            let text = format!("`{}` is not a regular file", path.display());
            self.found.push(Diagnostic::new(Code::Unreadable, text));
            return;
        }
        match absolute.into_os_string().into_string() {
            Ok(path) => self.files.push(InputFile { path, name, sha256: String::new() }),
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
    let mut left: Vec<(String, Result<Choice, Diagnostics>)> = Vec::new();
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
    let mut alone: Vec<&(String, Result<Choice, Diagnostics>)> =
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

/// Name and text of an `opened` params file.
pub(super) fn read_params(
    path: &Path,
    opened: io::Result<File>,
) -> Result<(String, String), Diagnostic> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let unreadable = |why: &dyn std::fmt::Display| {
        Diagnostic::new(Code::Unreadable, format!("params `{}`: {why}", path.display()))
    };
    let file = opened.map_err(|e| unreadable(&e))?;
    let mut bytes = Vec::new();
    // One byte more shows that there is too much; the params' own reader says so.
    let read = file.take(PARAMS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|e| unreadable(&e))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable(&"it is not UTF-8 text"))?;
    Ok((name, text))
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
