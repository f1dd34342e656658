//! Whether an INI file is an N2D2 network, and which files it needs.
//!
//! Asked again whenever files arrive, so nothing but the INI and its templates is read.

use onnxd_plugin_sdk::{Claim, LEARNED_RANGES, Need, Probe};

use crate::ini::{Files, Ini, SectionRef, TemplateFile};
use crate::layers::{self, Parameters};
use crate::onnx;
use crate::options::ImportOptions;
use crate::quantizers;
use crate::sections::{cell_sections, environment};
use crate::weights::{Location, WantedFile, locate, path_of};

/// Answers for the INI file at `path`.
pub(crate) fn probe(path: &str, files: &dyn Files, options: &ImportOptions) -> Probe {
    let mut templates = Vec::new();
    let parsed = Ini::parse_listing(path, files, &mut templates);
    let mut needs: Vec<Need> = templates.into_iter().map(template).collect();
    let ini = match parsed {
        Ok(ini) => ini,
        Err(_) => return broken(path, files, needs),
    };
    let has_environment = environment(&ini).is_some();
    let layer = cell_sections(&ini).find(|section| section.has("Type"));
    let (claim, reason) = match (has_environment, layer) {
        (true, Some(layer)) => {
            let name = layer.name();
            (Claim::ByContent, format!("the file has an environment and layers such as `{name}`"))
        }
        (true, None) => (Claim::ByExtension, "the file has an environment, but no layer".into()),
        (false, Some(_)) => (Claim::ByExtension, "the file has layers, but no environment".into()),
        (false, None) => {
            return Probe::new(Claim::No, "the file has neither an environment nor layers");
        }
    };
    needs.extend(onnx::sections(&ini).flat_map(|section| onnx_files(section, path, files)));
    needs.extend(weights(&ini, path, files, options));
    let learned = learns_ranges(&ini, options).then(|| LEARNED_RANGES.to_owned());
    Probe { needs, facts: learned.into_iter().collect(), ..Probe::new(claim, reason) }
}

/// A file with mistakes is still ours: the import says what is wrong with it.
fn broken(path: &str, files: &dyn Files, needs: Vec<Need>) -> Probe {
    let text = files.read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let starts = ["[sp]", "[env]", "[cenv]", "Input=", "Input ="];
    let ours = text.unwrap_or_default().lines().any(|line| {
        let line = line.trim_start_matches('\u{feff}').trim_start();
        starts.iter().any(|start| line.starts_with(start))
    });
    let (claim, reason) = match ours {
        true if needs.iter().any(|need| need.found_as.is_empty()) => {
            (Claim::ByContent, "the file describes layers by templates")
        }
        true => (Claim::ByExtension, "the file looks like an N2D2 network with mistakes"),
        false => (Claim::No, "the file is no INI file of N2D2"),
    };
    let needs = if ours { needs } else { vec![] };
    Probe { needs, ..Probe::new(claim, reason) }
}

fn template(file: TemplateFile) -> Need {
    let found_as = if file.found { vec![file.path.clone()] } else { vec![] };
    Need { what: "template".into(), path: file.path, found_as, optional: false }
}

/// The ONNX file that a section names, and its external data.
fn onnx_files(section: SectionRef, path: &str, files: &dyn Files) -> Vec<Need> {
    let need = |(what, path, found): (&str, String, bool)| {
        let found_as = if found { vec![path.clone()] } else { vec![] };
        Need { what: what.into(), path, found_as, optional: false }
    };
    onnx::referred(section, path, files).into_iter().map(need).collect()
}

/// The weights files of all layers, or the folder if there is none.
fn weights(ini: &Ini, path: &str, files: &dyn Files, options: &ImportOptions) -> Vec<Need> {
    let learned: Vec<(SectionRef, WantedFile)> = cell_sections(ini).filter_map(wanted).collect();
    let folder = match locate(ini, path, files, options).0 {
        Location::Folder(folder) if !learned.is_empty() => folder,
        _ => return Vec::new(),
    };
    if !files.has_folder(&folder) {
        let optional = options.weights_ignore;
        let what = "weights folder".into();
        return vec![Need { what, path: folder, found_as: vec![], optional }];
    }
    let needs = learned.iter().flat_map(|(section, wanted)| wanted.files(&folder, section, files));
    let need = |(path, found): (String, bool)| {
        let found_as = if found { vec![path.clone()] } else { vec![] };
        let optional = options.weights_ignore;
        Need { what: "weights".into(), path, found_as, optional }
    };
    let learned = learned_ranges(ini, &folder, files, options);
    needs.chain(learned).map(need).collect()
}

/// The files of the quantizers of training.
fn learned_ranges(
    ini: &Ini,
    folder: &str,
    files: &dyn Files,
    options: &ImportOptions,
) -> Vec<(String, bool)> {
    if options.ignore_quantizers {
        return Vec::new();
    }
    let suffixes = |section: &SectionRef| {
        let of = |key| quantizers::file(key, quantizers::method(*section, key).ok().flatten()?);
        [of(quantizers::WEIGHTS), of(quantizers::ACTIVATIONS)]
    };
    let paths = cell_sections(ini).flat_map(|section| {
        let suffixes = suffixes(&section).into_iter().flatten();
        suffixes.map(move |suffix| path_of(folder, section.name(), suffix))
    });
    paths.map(|path| (files.has(&path), path)).map(|(has, path)| (path, has)).collect()
}

/// Whether the network has learned the ranges of its activations, so that no data has to show them.
fn learns_ranges(ini: &Ini, options: &ImportOptions) -> bool {
    let learns = |s: SectionRef| quantizers::method(s, quantizers::ACTIVATIONS);
    let mut sections = cell_sections(ini);
    !options.ignore_quantizers
        && !options.random
        && sections.any(|section| learns(section).is_ok_and(|method| method.is_some()))
}

/// Which files a layer reads; nothing for layers that learn nothing.
fn wanted(section: SectionRef) -> Option<(SectionRef, WantedFile)> {
    let kind = section.text("Type").ok().flatten()?;
    let shares = |key: &str| section.has(key);
    let wanted = match layers::find(&kind)?.parameters {
        Parameters::None => return None,
        Parameters::BatchNorm => WantedFile::BatchNorm,
        Parameters::Weights => {
            let no_bias = section.parameter::<bool>("NoBias").ok().flatten().unwrap_or(false);
            let bias = !no_bias && !shares("BiasesSharing");
            if shares("WeightsSharing") && !bias {
                return None;
            }
            WantedFile::Weights { kind: layers::find(&kind)?.kind, bias }
        }
    };
    Some((section, wanted))
}
