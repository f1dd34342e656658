//! The params of a submission: what its own files say, over what holds for its folder and for all conversions.

use super::Plugins;
use super::submission::Submission;
use onnxd_config::{PARAMS_BYTES_MAX, Params, Preset};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_files::regular_beneath;
use onnxd_intake::names::{PRESET, is_params};
use onnxd_proto::onnxd::InputFile;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

impl Submission {
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

    /// The params of a drop that lies in `folder` of the inbox, whose presets hold for it.
    ///
    /// # Errors
    /// As [`Submission::params`]; `N0107` for a preset that cannot be read.
    pub(crate) fn params_below(
        &self,
        plugins: &Plugins,
        inbox: &Path,
        folder: &Path,
    ) -> Result<Params, Diagnostics> {
        self.params(plugins, &presets(inbox, folder)?, None, &[])
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
}

/// The params that folders of the inbox hold for what is below them, from the inbox down to `folder`.
///
/// # Errors
/// `N0107` for one that cannot be read.
fn presets(inbox: &Path, folder: &Path) -> Result<Vec<Preset>, Diagnostic> {
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
