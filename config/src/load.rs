//! Loads the settings: defaults, then file, then environment, then command line; the last one
//! wins, and every value knows where it comes from.

use std::io::Read;
use std::path::{Path, PathBuf};

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use serde_json::Value;

use crate::defaults::Environment;
use crate::folders;
use crate::kind::ValueKind;
use crate::params::Preset;
use crate::settings::{ROWS, SECTIONS, Settings};
use crate::source::{Codes, KeyReader, SectionFilter};
use crate::table::{GivenValue, KeyEntry, overlay, sections};

/// The section of params that hold for all conversions; they are checked when the plugins are known.
const DEFAULTS: &str = "defaults";
/// Largest settings file that is read.
const BYTES_MAX: usize = 1 << 20;

const CODES: Codes = Codes {
    syntax: Code::ConfigSyntax,
    unknown_key: Code::ConfigUnknownKey,
    bad_value: Code::ConfigBadValue,
};

/// The settings and where each comes from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings, typed; all paths are absolute.
    pub settings: Settings,
    /// Every key with its value and origin, in the order of the rows.
    pub entries: Vec<KeyEntry>,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
}

/// Where a settings file is looked for when none is named: the user's, then the machine's.
pub fn default_files(environment: &Environment) -> Vec<PathBuf> {
    let user = environment.var("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = || environment.var("HOME").map(|home| Path::new(home).join(".config"));
    let user = user.or_else(home).map(|dir| dir.join("onnxd/onnxd.toml"));
    user.into_iter().chain([PathBuf::from("/etc/onnxd/onnxd.toml")]).collect()
}

/// Loads `file`, or the first of [`default_files`] that exists, and overlays it with variables
/// named like `ONNXD_INTAKE_SETTLE_MS` and then with `overrides` of the form `KEY=VALUE`.
///
/// Relative paths are relative to the file they stand in, elsewhere to the current folder.
/// Errors name everything that is wrong at once, with codes `N0701` to `N0704`.
pub fn load(
    file: Option<&Path>,
    environment: &Environment,
    overrides: &[String],
) -> Result<Loaded, Diagnostics> {
    let file = match file {
        Some(named) => Some(environment.current_dir.join(named)),
        None => default_files(environment).into_iter().find(|f| f.exists()),
    };
    let mut reader = KeyReader::new(&ROWS, CODES, BYTES_MAX);
    let (mut from_file, mut defaults) = (Vec::new(), Preset::default());
    if let Some(file) = &file {
        let text = read(file)?;
        let name = file.display().to_string();
        from_file = reader.toml_of(&name, &text, SectionFilter::Without(DEFAULTS));
        if toml::from_str::<toml::Table>(&text).is_ok_and(|all| all.contains_key(DEFAULTS)) {
            defaults = Preset::of_section(name, text, DEFAULTS);
        }
        let folder = file.parent().unwrap_or(&environment.current_dir);
        from_file.iter_mut().for_each(|g| make_absolute(environment, folder, g));
    }
    let mut from_elsewhere = environment_layer(&mut reader, environment);
    for text in overrides {
        if let Some((key, value)) = reader.pair(text) {
            let given = reader.text("--set", key, value);
            from_elsewhere.extend(given);
        }
    }
    from_elsewhere.iter_mut().for_each(|g| make_absolute(environment, &environment.current_dir, g));
    let entries = with_computed(environment, overlay(&ROWS, [from_file, from_elsewhere]));
    if reader.is_clean() {
        folders::check(&mut reader, &entries);
    }
    reader.finish(())?;
    let settings: Settings = serde_json::from_value(sections(&entries))
        .map_err(|why| Diagnostic::new(Code::Internal, format!("settings: {why}")))?;
    Ok(Loaded { settings: Settings { defaults, ..settings }, entries, file })
}

/// The default values of all keys.
pub(crate) fn defaults(environment: &Environment) -> Vec<KeyEntry> {
    with_computed(environment, overlay(&ROWS, []))
}

fn read(file: &Path) -> Result<String, Diagnostics> {
    let unreadable = |why: String| {
        let found = Diagnostic::new(Code::ConfigSyntax, format!("{}: {why}.", file.display()))
            .help("Check that the settings file exists and may be read.");
        Diagnostics::from(found)
    };
    let open = std::fs::File::open(file).map_err(|e| unreadable(e.to_string()))?;
    let mut bytes = Vec::new();
    let limit = BYTES_MAX as u64 + 1;
    open.take(limit).read_to_end(&mut bytes).map_err(|e| unreadable(e.to_string()))?;
    if bytes.len() > BYTES_MAX {
        return Err(unreadable(format!("the file has more than {BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| unreadable("the file is not UTF-8 text".to_owned()))
}

/// Values of variables named after a key. Unknown names within a section are errors; names of
/// no section are left to other programs.
fn environment_layer<'t>(
    reader: &mut KeyReader<'t>,
    environment: &Environment,
) -> Vec<GivenValue<'t>> {
    let mut given = Vec::new();
    for row in ROWS.iter() {
        let name = variable(&row.key);
        if environment.not_text.contains(&name) {
            reader.bad_value(&name, "the value is not UTF-8 text");
        }
        if let Some(text) = environment.vars.get(&name) {
            given.extend(reader.text(&name, &row.key, text));
        }
    }
    let of_section = |name: &str| SECTIONS.iter().any(|(s, _)| name.starts_with(&variable(s)));
    for name in environment.vars.keys().filter(|n| of_section(n)) {
        if !ROWS.iter().any(|r| variable(&r.key) == *name) {
            let key = name["ONNXD_".len()..].to_lowercase().replacen('_', ".", 1);
            reader.unknown_key(name, &key);
        }
    }
    given
}

/// `ONNXD_INTAKE_SETTLE_MS` for `intake.settle_ms`; for a section the prefix of its variables.
fn variable(key: &str) -> String {
    let end = if key.contains('.') { "" } else { "_" };
    format!("ONNXD_{}{end}", key.to_uppercase().replace('.', "_"))
}

fn make_absolute(environment: &Environment, base: &Path, given: &mut GivenValue) {
    let absolute = |v: &mut Value| {
        if let Value::String(path) = v {
            *path = environment.absolute(base, path);
        }
    };
    match (&given.row.kind, &mut given.value) {
        (ValueKind::Path, path) => absolute(path),
        (ValueKind::List(item), Value::Array(paths)) if matches!(**item, ValueKind::Path) => {
            paths.iter_mut().for_each(absolute);
        }
        _ => {}
    }
}

/// Fills in the computed defaults, in the order of the rows: later ones may use earlier ones.
fn with_computed(environment: &Environment, mut entries: Vec<KeyEntry>) -> Vec<KeyEntry> {
    for i in 0..entries.len() {
        if entries[i].origin.is_empty() {
            let of = |key: &str| {
                entries.iter().find(|e| e.key == key).map_or(Value::Null, |e| e.value.clone())
            };
            let value = environment.computed(&entries[i].key, of);
            entries[i].value = value.expect("every computed default has a rule; a test checks");
            "default".clone_into(&mut entries[i].origin);
        }
    }
    entries
}

#[cfg(test)]
mod tests;
