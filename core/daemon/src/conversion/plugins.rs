//! The plugins in use: found on the search path, inspected in confined children, never mapped here.

use super::Launcher;
use onnxd_config::{Declared, Descriptor, Environment, Params, Preset, Settings};
use onnxd_diagnostics::{Code, Diagnostic, nearest, shown};
use onnxd_plugin_host::cache::Cache;
use onnxd_plugin_host::discover::{Folder, Shadowed, discover, first_of_each_id};
use onnxd_plugin_host::{from_message, hexadecimal};
use onnxd_proto::onnxd::request::What;
use onnxd_proto::onnxd::worker_event::What as Event;
use onnxd_proto::onnxd::{InspectRequest, InspectResult, PluginComponent, PluginInfo};
use onnxd_worker::recognition::{NetworkNames, claims_name};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// For a library to be opened and to say what it is; a busy machine takes its time.
const INSPECT_LIMIT: Duration = Duration::from_secs(10);

/// All plugins that were found, and what became of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plugins {
    /// Those in use, in the order of the search path.
    pub(crate) used: Vec<PluginInfo>,
    /// Those whose id an earlier one has.
    pub(crate) shadowed: Vec<Shadowed>,
    /// Those that the settings disable.
    pub(crate) disabled: Vec<PluginInfo>,
    /// Files that cannot be used, and why.
    pub(crate) refused: Vec<Diagnostic>,
    /// Libraries that are no plugins, and do not claim to be: plugins may need them.
    pub(crate) bystanders: Vec<PathBuf>,
    /// Folders that were looked through.
    pub(crate) searched: Vec<PathBuf>,
    /// The params of all conversions and of the plugins in use.
    pub(crate) declared: Declared,
    /// Params that hold for all conversions unless theirs say otherwise.
    pub(crate) defaults: Preset,
}

impl Plugins {
    /// Looks through the search path. A library is inspected once; later its result is cached.
    ///
    /// # Errors
    /// `N0303` if no child can be started; what is wrong with one library is in `refused`.
    pub(crate) fn discover(
        settings: &Settings,
        environment: &Environment,
        launcher: &Launcher,
    ) -> Result<Plugins, Diagnostic> {
        let folders = folders(settings, environment);
        let libraries = discover(&folders);
        let cache = cache_folder(settings, environment).map(Cache::new);
        let mut plugins = Plugins {
            refused: libraries.refused,
            bystanders: libraries.bystanders,
            searched: folders.iter().map(|f| f.path().to_owned()).collect(),
            ..Plugins::default()
        };
        for library in &plugins.bystanders {
            tracing::debug!(path = %library.display(), "a library that is no plugin");
        }
        let (mut good, mut descriptors) = (Vec::new(), Descriptors::new());
        for library in &libraries.libraries {
            if let Some((plugin, descriptor)) = cache.as_ref().and_then(|c| c.get(library)) {
                descriptors.insert(plugin.path.clone(), descriptor);
                good.push(plugin);
                continue;
            }
            match inspect(launcher, library) {
                Ok(info) => {
                    // Without the cache the next start only takes a little longer.
                    if let Some(Err(why)) = cache.as_ref().map(|c| c.put(&info)) {
                        tracing::debug!(%why, "the result of an inspection was not stored");
                    }
                    good.push(info);
                }
                Err(why) if why.code == Code::WorkerStart.as_str() => return Err(why),
                Err(why) => plugins.refused.push(why),
            }
        }
        let is_disabled = |p: &PluginInfo| settings.plugins.disable.contains(&p.id);
        (plugins.disabled, good) = good.into_iter().partition(is_disabled);
        (plugins.used, plugins.shadowed) = first_of_each_id(good);
        plugins.declared = declared(&plugins.used, descriptors);
        plugins.defaults = settings.defaults.clone();
        Ok(plugins)
    }

    /// Files that cannot be used, and what two plugins declare and only one can have.
    pub(crate) fn problems(&self) -> Vec<Diagnostic> {
        let clashes = self.declared.clashes.iter().map(|clash| clash.why.clone());
        self.refused.iter().cloned().chain(clashes).collect()
    }

    /// Adds a library that a command names; it comes before one of the same id.
    ///
    /// # Errors
    /// As [`inspect`].
    pub(crate) fn add(&mut self, launcher: &Launcher, library: &Path) -> Result<(), Diagnostic> {
        let absolute = library.canonicalize().map_err(|e| {
            Diagnostic::new(Code::Unreadable, format!("`{}`: {e}", library.display()))
        })?;
        let info = inspect(launcher, &absolute)?;
        let by = info.path.clone();
        let is_same = |p: &PluginInfo| p.id == info.id;
        let (same, others) = std::mem::take(&mut self.used).into_iter().partition(is_same);
        let shadowed: Vec<PluginInfo> = same;
        self.shadowed
            .extend(shadowed.into_iter().map(|plugin| Shadowed { plugin, by: by.clone() }));
        self.used = std::iter::once(info).chain(others).collect::<Vec<PluginInfo>>();
        self.declared = declared(&self.used, Descriptors::new());
        Ok(())
    }

    /// Whether the params of the settings are known, and right by themselves.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn check_defaults(&self) -> Result<(), Diagnostic> {
        let presets = std::slice::from_ref(&self.defaults);
        let found = Params::resolve_over(presets, &self.declared, &[], &[]).err();
        found.and_then(|found| found.0.into_iter().next()).map_or(Ok(()), Err)
    }

    /// Digest of ids, versions and contents of the plugins in use.
    pub(crate) fn digest(&self) -> String {
        let mut lines: Vec<String> =
            self.used.iter().map(|p| format!("{} {} {}\n", p.id, p.version, p.sha256)).collect();
        lines.sort();
        hexadecimal(&Sha256::digest(lines.concat()))
    }

    /// Whether networks can be read at all.
    ///
    /// # Errors
    /// `N0407` with where was looked.
    pub(crate) fn has_frontend(&self) -> Result<(), Diagnostic> {
        let mut components = self.used.iter().flat_map(|p| &p.components);
        if components.any(|c| c.kind == "frontend") {
            return Ok(());
        }
        let searched: Vec<String> =
            self.searched.iter().map(|folder| format!("`{}`", folder.display())).collect();
        let refused = match self.refused.len() {
            0 => String::new(),
            1 => "; one library was refused".to_owned(),
            n => format!("; {n} libraries were refused"),
        };
        let text = format!(
            "no front-end is installed, so that nothing can be converted: plugins were looked for \
             in {}{refused}",
            searched.join(", ")
        );
        Err(Diagnostic::new(Code::FrontendMissing, text))
    }

    /// File names that front-ends may claim.
    pub(crate) fn frontend_globs(&self) -> Vec<&str> {
        let components = self.used.iter().flat_map(|p| &p.components);
        let frontends = components.filter(|c| c.kind == "frontend");
        frontends.flat_map(|c| c.globs.iter().map(String::as_str)).collect()
    }

    /// Whether a front-end may claim a file of this name, folders before it aside.
    pub(crate) fn may_be_network(&self, name: &str) -> bool {
        self.frontend_globs().iter().any(|glob| claims_name(glob, name))
    }

    /// The names that front-ends may claim, for many comparisons.
    pub(crate) fn network_names(&self) -> NetworkNames {
        NetworkNames::from_globs(self.frontend_globs())
    }

    /// The component called `fuse-pad` or `org.example.tidy/remove-foo`.
    ///
    /// # Errors
    /// `N0109` with the nearest name.
    pub(crate) fn component(
        &self,
        id: &str,
    ) -> Result<(&PluginInfo, &PluginComponent), Diagnostic> {
        let (plugin, name) = id.rsplit_once('/').map_or((None, id), |(p, c)| (Some(p), c));
        let plugins = self.used.iter().filter(|p| plugin.is_none_or(|wanted| p.id == wanted));
        let mut all = plugins.flat_map(|p| p.components.iter().map(move |c| (p, c)));
        all.find(|(_, c)| c.id == name).ok_or_else(|| {
            let names = self.used.iter().flat_map(|p| &p.components).map(|c| c.id.as_str());
            let near = nearest(name, names).map(|n| format!("; did you mean `{n}`?"));
            let text = format!(
                "no installed plugin has a component `{}`{}",
                shown(id),
                near.unwrap_or_default()
            );
            Diagnostic::new(Code::ComponentUnknown, text)
        })
    }
}

/// Descriptors that were read, by the path of the library.
type Descriptors = BTreeMap<String, Descriptor>;

/// Params as the plugins declare them; their descriptors were checked when they were inspected. Those that are not
/// known yet are read.
fn declared(plugins: &[PluginInfo], mut known: Descriptors) -> Declared {
    let mut read = |p: &PluginInfo| {
        let known = known.remove(&p.path);
        Some((p.id.clone(), known.or_else(|| Descriptor::parse(&p.descriptor).ok())?))
    };
    let described: Vec<(String, Descriptor)> = plugins.iter().filter_map(&mut read).collect();
    let components =
        described.iter().flat_map(|(id, d)| d.components.iter().map(|c| (id.as_str(), c)));
    Declared::from_components(components)
}

/// Opens one library in a confined child and says what it is.
///
/// # Errors
/// `N0403` with the reason; `N0303` if no child can be started.
pub(crate) fn inspect(launcher: &Launcher, library: &Path) -> Result<PluginInfo, Diagnostic> {
    let refuse = |why: &str| {
        let text = format!("plugin `{}`: {why}", library.display());
        Diagnostic::new(Code::PluginRefused, text)
            .help("Remove it from the plugin folder, or report it to its author.")
    };
    let Some(path) = library.to_str() else {
        return Err(refuse("its path is not valid UTF-8"));
    };
    let request = What::Inspect(InspectRequest { path: path.to_owned() });
    match launcher.ask(request, INSPECT_LIMIT) {
        Ok(Event::Inspected(InspectResult { plugin: Some(info), refused: None })) => Ok(info),
        Ok(Event::Inspected(InspectResult { refused: Some(why), .. })) => Err(from_message(&why)),
        Ok(_) => Err(refuse("its inspection gave another answer than was asked for")),
        Err(found) => Err(match found.0.into_iter().next() {
            Some(why) if why.code == Code::WorkerStart.as_str() => why,
            Some(why) => refuse(&format!("inspecting it failed: {}", why.message)),
            None => refuse("inspecting it failed without a reason"),
        }),
    }
}

/// The search path. Beside the program lie other libraries too, so names count there.
fn folders(settings: &Settings, environment: &Environment) -> Vec<Folder> {
    let mut folders = Vec::new();
    let builtin = if settings.plugins.builtin { environment.plugin_dirs() } else { Vec::new() };
    for path in settings.plugins.path.iter().chain(&builtin) {
        if Some(path) == environment.program_dir.as_ref() {
            folders.push(Folder::Program(path.clone()));
            folders.push(Folder::Plugins(path.join("plugins")));
        } else {
            folders.push(Folder::Plugins(path.clone()));
        }
    }
    folders
}

/// The state folder where there is one, else the user's cache.
fn cache_folder(settings: &Settings, environment: &Environment) -> Option<PathBuf> {
    if settings.state.dir.is_dir() && rustix::fs::access(&settings.state.dir, WRITE).is_ok() {
        return Some(settings.state.dir.join("plugins"));
    }
    let home = || environment.var("HOME").map(|home| Path::new(home).join(".cache"));
    let base = environment.var("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
    base.is_absolute().then(|| base.join("onnxd/plugins"))
}

const WRITE: rustix::fs::Access = rustix::fs::Access::WRITE_OK;

#[cfg(test)]
mod tests {
    use super::*;

    fn plugins() -> Plugins {
        let component = |kind: &str, id: &str, globs: &[&str]| PluginComponent {
            kind: kind.into(),
            id: id.into(),
            globs: globs.iter().map(|&g| g.into()).collect(),
            ..Default::default()
        };
        let plugin = |id: &str, components| PluginInfo {
            id: id.into(),
            version: "1.0.0".into(),
            components,
            ..Default::default()
        };
        let used = vec![
            plugin("a.front", vec![component("frontend", "onnx", &["*.onnx", "saved.pb"])]),
            plugin("b.tidy", vec![component("pass", "fuse-pad", &["*.never"])]),
            plugin("c.tidy", vec![component("pass", "fuse-pad", &[])]),
        ];
        Plugins { used, ..Plugins::default() }
    }

    #[test]
    fn networks_by_the_globs_of_front_ends() {
        let plugins = plugins();
        for name in ["a/net.ONNX", "saved.pb", "x/saved.pb"] {
            assert!(plugins.may_be_network(name), "{name}");
        }
        for name in ["net.onnx.data", "unsaved.pb", "x.never"] {
            assert!(!plugins.may_be_network(name), "{name}");
        }
    }

    #[test]
    fn components_by_id() {
        let plugins = plugins();
        let plugin_of = |id: &str| plugins.component(id).map(|(p, _)| p.id.clone());
        assert_eq!(plugin_of("fuse-pad").unwrap(), "b.tidy");
        assert_eq!(plugin_of("c.tidy/fuse-pad").unwrap(), "c.tidy");
        let why = plugin_of("fuse-pat").unwrap_err();
        assert!(why.message.contains("did you mean `fuse-pad`?"), "{why}");
    }

    #[test]
    fn the_digest_knows_no_order_but_contents() {
        let (a, mut b) = (plugins(), plugins());
        b.used.reverse();
        assert_eq!(a.digest(), b.digest());
        b.used[0].sha256 = "00".into();
        assert_ne!(a.digest(), b.digest());
    }
}
