//! Parameters of layers, which N2D2 reads from the sections named by `ConfigSection` only.
//!
//! Written in the layer's own section they have no effect in N2D2; here they count, with a
//! warning, because that is what their author meant.

use super::value::FromText;
use super::{SectionRef, similar};
use crate::diag::{Diagnostic, shown};

impl<'a> SectionRef<'a> {
    /// The computing model of the layer (`Frame`); the GPU variant is the same network.
    pub(crate) fn model(self) -> Result<String, Diagnostic> {
        let own = self.text("Model")?;
        let model = match own {
            Some(model) => model,
            None => self.ini.global().or("DefaultModel", "Transcode".to_owned())?,
        };
        Ok(model.strip_suffix("_CUDA").unwrap_or(&model).to_owned())
    }

    /// A parameter of the layer; of several configuration sections the last one that has it.
    pub(crate) fn parameter<T: FromText>(self, key: &str) -> Result<Option<T>, Diagnostic> {
        let mut found = None;
        for section in self.config_sections()? {
            found = section.get(key)?.or(found);
        }
        if !self.has(key) {
            return Ok(found);
        }
        let own = self.get(key)?;
        let (message, help) = match found {
            None => (
                "counts here, but N2D2 would ignore it outside of a configuration section",
                format!("Move it to a section that `ConfigSection=` of `{}` names.", self.name()),
            ),
            Some(_) => (
                "is ignored, because a configuration section sets it too",
                "Remove one of the two lines.".to_owned(),
            ),
        };
        self.warn_ignored(key, message, help);
        Ok(found.or(own))
    }

    /// The sections named by `ConfigSection(Model)`, else by `ConfigSection`.
    pub(crate) fn config_sections(self) -> Result<Vec<SectionRef<'a>>, Diagnostic> {
        let model = self.model()?;
        let keys = [
            format!("ConfigSection({model})"),
            format!("ConfigSection({model}_CUDA)"),
            "ConfigSection".to_owned(),
        ];
        let Some(key) = keys.iter().find(|key| self.has(key)) else { return Ok(Vec::new()) };
        self.names(key)?
            .iter()
            .map(|name| self.ini.section(name).ok_or_else(|| self.no_section(key, name)))
            .collect()
    }

    fn no_section(self, key: &str, name: &str) -> Diagnostic {
        let problem =
            self.problem(key, format!("names section `{}`, which is missing", shown(name)));
        match similar(name, self.ini.sections().map(SectionRef::name)) {
            Some(near) => problem.help(format!("Did you mean `{near}`?")),
            None => problem.help("Add the section, or remove its name."),
        }
    }
}
