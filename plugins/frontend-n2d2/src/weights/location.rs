//! Where the weights of a network lie, and which files each layer reads there.

use crate::ini::{Files, Ini, SectionRef, file_name_of, folder_of, join};
use crate::options::ImportOptions;

/// Where weights come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// Nowhere: random numbers.
    Random,
    /// A folder, relative to the submission's root.
    Folder(String),
}

/// The place that the params name, else N2D2's choice: `weights_validation` if there is a
/// validation set, `weights` if not. Also a sentence for the report where there was a choice.
pub(crate) fn locate(
    ini: &Ini,
    network: &str,
    files: &dyn Files,
    options: &ImportOptions,
) -> (Location, Option<String>) {
    if options.random {
        return (Location::Random, Some("random, as the params ask".into()));
    }
    let beside = |name: &str| join(folder_of(network), name).unwrap_or_else(|| name.to_owned());
    if let Some(named) = &options.weights {
        let near = beside(named);
        let only_near = files.has_folder(&near) && !files.has_folder(named);
        let folder = if only_near { near } else { named.clone() };
        return (Location::Folder(folder), None);
    }
    let [weights, validation] = ["weights", "weights_validation"].map(beside);
    let (folder, why) = match [files.has_folder(&weights), files.has_folder(&validation)] {
        [true, true] if has_validation_set(ini) => {
            (validation, Some("the network has a validation set"))
        }
        [true, true] => (weights, Some("the network has no validation set")),
        [false, true] => (validation, None),
        _ => (weights, None),
    };
    let note = why.map(|why| format!("{folder}, because {why}"));
    (Location::Folder(folder), note)
}

fn has_validation_set(ini: &Ini) -> bool {
    let share = ini.section("database").and_then(|s| s.get::<f64>("Validation").ok().flatten());
    share.is_some_and(|share| share > 0.0)
}

/// What a layer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WantedFile {
    Weights { kind: &'static str, bias: bool },
    BatchNorm,
}

impl WantedFile {
    /// The files of a layer and whether they are there, in the order in which they are looked
    /// for: one text file, several, or the binary state.
    pub(crate) fn files(
        self,
        folder: &str,
        section: &SectionRef,
        files: &dyn Files,
    ) -> Vec<(String, bool)> {
        let path = |suffix: &str| path(folder, section.name(), suffix);
        let (parts, state): (&[&str], _) = match self {
            WantedFile::Weights { kind, bias: true } => (&["weights", "biases"], kind),
            WantedFile::Weights { kind, bias: false } => (&["weights"], kind),
            WantedFile::BatchNorm => (&["scales", "biases", "means", "variances"], "BatchNorm"),
        };
        let parts: Vec<String> =
            parts.iter().map(|part| path(&format!("_{part}.syntxt"))).collect();
        let alternatives = [path(".syntxt"), path(&format!("/{state}.syn"))];
        if files.has(&alternatives[0]) {
            let [single, _] = alternatives;
            return vec![(single, true)];
        }
        if !files.has(&parts[0]) && files.has(&alternatives[1]) {
            let [_, state] = alternatives;
            return vec![(state, true)];
        }
        parts.into_iter().map(|part| (files.has(&part), part)).map(|(has, p)| (p, has)).collect()
    }
}

/// The file of a layer.
pub(crate) fn path(folder: &str, layer: &str, suffix: &str) -> String {
    let slash = if folder.is_empty() { "" } else { "/" };
    format!("{folder}{slash}{}{suffix}", file_name_of(layer))
}
