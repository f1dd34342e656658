//! All that may be said about a conversion: the params that all conversions have, and what the installed plugins add.

use std::collections::HashMap;
use std::sync::LazyLock;

use onnxd_diagnostics::{Code, Diagnostic};
use serde::Deserialize;
use serde_json::Value;

use crate::descriptor::{Component, Condition, Implied, Spelling, is_below};
use crate::kind::ValueKind;
use crate::table::{DefaultValue, KeyRow};

/// Names the quantizer.
const FORMAT: &str = "quantization.format";

/// The params that all conversions have.
pub(crate) static HOST_ROWS: LazyLock<Vec<KeyRow>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Host {
        components: Vec<Component>,
    }
    let text = format!("[[components]]\n{}", onnxd_params::host::ROWS.concat());
    let host: Host = toml::from_str(&text).expect("the rows are TOML; a test reads each");
    let params = host.components.into_iter().flat_map(|c| c.params);
    params
        .map(|mut param| {
            param.normalize().expect("the rows keep to the rules for rows; a test reads each");
            param.row()
        })
        .collect()
});

/// The table that params are resolved against.
#[derive(Clone, Debug)]
pub struct Declared {
    rows: Vec<KeyRow>,
    pub(super) spellings: Vec<SpelledRow>,
    components: Vec<Component>,
    /// Operators that passes lower for all front-ends.
    pub lowered: Vec<Lowered>,
    /// The plugin of each row that is not the host's.
    owners: HashMap<String, String>,
    /// What two plugins declare and only one can have.
    pub clashes: Vec<Clash>,
}

/// A param that two plugins declare differently, of which the first one's counts; or an operator that both lower.
#[derive(Clone, Debug, PartialEq)]
pub struct Clash {
    /// The ids of the plugins.
    pub plugins: [String; 2],
    /// The params: one for both, or one is a section that the other one lies in. None for an operator.
    pub params: Vec<String>,
    /// For people.
    pub why: Diagnostic,
}

/// An operator of a source that a pass lowers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// Its name, such as `my::gelu_tanh`.
    pub op: String,
    /// The plugin.
    pub plugin: String,
    /// The pass.
    pub pass: String,
}

/// A spelling without section.
#[derive(Clone, Debug)]
pub(super) struct SpelledRow {
    pub(super) spelling: Spelling,
    /// The row that its value belongs to, or one of its own; what is ignored or refused has none.
    pub(super) row: Option<KeyRow>,
}

impl Default for Declared {
    fn default() -> Declared {
        Declared::from_components([])
    }
}

impl Declared {
    /// What all conversions have, and what these components add, each with the id of its plugin.
    pub fn from_components<'c>(
        components: impl IntoIterator<Item = (&'c str, &'c Component)>,
    ) -> Declared {
        let mut all = Declared {
            rows: HOST_ROWS.clone(),
            spellings: Vec::new(),
            components: Vec::new(),
            lowered: Vec::new(),
            owners: HashMap::new(),
            clashes: Vec::new(),
        };
        for (plugin, component) in components {
            for param in &component.params {
                all.add(plugin, param.row());
            }
            for op in &component.lowers {
                all.add_lowered(plugin, component, op);
            }
            all.components.push(component.clone());
        }
        let quantizers = all.components.iter().filter(|c| c.kind == "quantizer");
        let formats = quantizers.map(Component::format).map(str::to_owned).collect();
        if let Some(row) = all.rows.iter_mut().find(|row| row.key == FORMAT) {
            row.kind = ValueKind::Quantizer(formats);
        }
        let spellings =
            all.components.iter().flat_map(spellings).map(|spelling| all.named(spelling));
        all.spellings = spellings.collect();
        all
    }

    /// The rows of all keys, for help.
    pub fn rows(&self) -> &[KeyRow] {
        &self.rows
    }

    /// A row goes behind the others of its section.
    fn add(&mut self, plugin: &str, row: KeyRow) {
        let clash = |known_row: &&KeyRow| {
            known_row.key == row.key
                || is_below(&known_row.key, &row.key)
                || is_below(&row.key, &known_row.key)
        };
        if let Some(known_row) = self.rows.iter().find(clash) {
            if !known_row.is_same(&row) {
                // No plugin is inspected successfully that declares a row of the host.
                let first = self.owners.get(&known_row.key).cloned().unwrap_or_default();
                let text = match known_row.key == row.key {
                    true => format!(
                        "the plugins `{first}` and `{plugin}` declare the param `{}` differently; \
                         that of `{first}` counts",
                        row.key
                    ),
                    false => format!(
                        "the param `{}` of plugin `{first}` and `{}` of plugin `{plugin}` exclude \
                         each other; that of `{first}` counts",
                        known_row.key, row.key
                    ),
                };
                self.clashes.push(Clash {
                    plugins: [first, plugin.to_owned()],
                    params: vec![known_row.key.clone(), row.key],
                    why: Diagnostic::new(Code::ParamsClash, text),
                });
            }
            return;
        }
        self.owners.insert(row.key.clone(), plugin.to_owned());
        let top = |key: &str| key.split('.').next().unwrap_or_default().to_owned();
        let after = self.rows.iter().rposition(|known_row| top(&known_row.key) == top(&row.key));
        self.rows.insert(after.map_or(self.rows.len(), |at| at + 1), row);
    }

    fn add_lowered(&mut self, plugin: &str, pass: &Component, op: &str) {
        if let Some(known) = self.lowered.iter().find(|known| known.op == op) {
            let text = format!("plugin `{plugin}`: it lowers `{op}`, as `{}` does", known.plugin);
            let why = Diagnostic::new(Code::PluginRefused, text);
            let why = why.help("Disable one of the plugins; a network with that operator fails.");
            let plugins = [known.plugin.clone(), plugin.to_owned()];
            self.clashes.push(Clash { plugins, params: Vec::new(), why });
        }
        let (plugin, pass) = (plugin.to_owned(), pass.id.clone());
        self.lowered.push(Lowered { op: op.to_owned(), plugin, pass });
    }

    fn named(&self, spelling: Spelling) -> SpelledRow {
        let own = |kind: &ValueKind| KeyRow {
            key: spelling.name.clone(),
            kind: kind.clone(),
            default: DefaultValue::Unset,
            help: String::new(),
        };
        let row = match &spelling.key {
            Some(key) => self.rows.iter().find(|row| row.key == *key).cloned(),
            None => spelling.kind.as_ref().map(own),
        };
        SpelledRow { row, spelling }
    }

    pub(super) fn implies(&self) -> impl Iterator<Item = &Implied> {
        self.components.iter().flat_map(|c| &c.implies)
    }

    pub(super) fn computed(&self) -> impl Iterator<Item = &Implied> {
        self.components.iter().flat_map(|c| &c.computed)
    }

    pub(super) fn refuses(&self) -> impl Iterator<Item = &crate::descriptor::Refused> {
        self.components.iter().flat_map(|c| &c.refuses)
    }

    /// When a pass runs, beside being asked for.
    fn runs(&self, pass: &str) -> Option<&Condition> {
        let id = pass.rsplit('/').next().unwrap_or(pass);
        let of = |c: &&Component| c.kind == "pass" && c.id == id;
        self.components.iter().find(of).map(|c| &c.runs)
    }

    /// Whether a pass of a profile runs with these params; one that is not installed is told later.
    pub(super) fn pass_runs(&self, pass: &str, value: &dyn Fn(&str) -> Value) -> bool {
        self.runs(pass).is_none_or(|runs| runs.holds(value, &[]))
    }
}

fn spellings(component: &Component) -> Vec<Spelling> {
    let of_params = component.params.iter().filter_map(|param| {
        let name = param.option.clone()?;
        Some(Spelling { name, key: Some(param.key.clone()), ..Spelling::default() })
    });
    of_params.chain(component.options.iter().cloned()).collect()
}
