//! Files of params that an option names, such as N2D2's `export-parameters`.

use super::submission::Submission;
use super::submission_params::read_params;
use onnxd_config::{Declared, Params};
use onnxd_diagnostics::{Code, Diagnostic, shown};
use std::path::Path;

/// Name and text of files of params.
type Texts = Vec<(String, String)>;

impl Submission {
    /// `texts` behind the files of params that options there or in `overrides` name: what is said directly wins.
    ///
    /// # Errors
    /// `N0105` for a file that is no part of the drop, or names another; `N0107` for one that cannot be read.
    pub(super) fn with_named_params(
        &self,
        declared: &Declared,
        mut texts: Texts,
        overrides: &[String],
    ) -> Result<Texts, Diagnostic> {
        let known: Vec<(&str, &str)> =
            texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let named = Params::files_named(declared, &known, overrides);
        let read = named.iter().map(|name| self.named_params(name));
        let read = read.collect::<Result<Texts, Diagnostic>>()?;
        for (name, text) in &read {
            if !Params::files_named(declared, &[(name, text)], &[]).is_empty() {
                let text = format!("`{}` names a further file of params", shown(name));
                let help = "Name that file in the params themselves, or copy its lines.";
                return Err(Diagnostic::new(Code::ParamsBadValue, text).help(help));
            }
        }
        texts.splice(0..0, read);
        Ok(texts)
    }

    fn named_params(&self, name: &str) -> Result<(String, String), Diagnostic> {
        let folder = self.network.rsplit_once('/').map_or("", |(folder, _)| folder);
        let beside = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let called = |name: &str| self.files.iter().find(|f| f.name == name);
        let Some(file) = called(&beside).or_else(|| called(name)) else {
            let text = format!("params name the file `{}`, which is not there", shown(name));
            let help =
                "Put both in one folder, and drop that; on a command line, name the file, too.";
            return Err(Diagnostic::new(Code::ParamsBadValue, text).help(help));
        };
        let path = Path::new(&file.path);
        read_params(path, onnxd_files::regular(path)).map(|(_, text)| (ini_name(name), text))
    }
}

/// How messages call the file. Its text is INI, whatever the name ends with, and names tell what is read.
fn ini_name(name: &str) -> String {
    if name.ends_with(".ini") { name.to_owned() } else { format!("{name}.ini") }
}
