//! From the files of a network to its model.
//!
//! Everything that is wrong is reported at once: a layer that cannot be built stops only what
//! follows it.

use onnxd_plugin_sdk::Imported;
use onnxd_plugin_sdk::ir::Model;

use crate::build::{Build, Feature};
use crate::cell::Cell;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::ini::{Files, Ini};
use crate::network::{Network, Parent};
use crate::options::Options;
use crate::weights::Weights;
use crate::{environment, layers, targets};

/// Version of the file format, and of the operators.
const IR_VERSION: i64 = 8;
const OPSET: i64 = 17;
/// Findings that are kept.
const PROBLEMS_MAX: usize = 100;

/// Called with the number of layers that are done, and of all.
pub(crate) type Progress<'p> = dyn Fn(u64, u64) -> Result<(), Diagnostic> + 'p;

/// Reads the network of an INI file.
pub(crate) fn import(
    path: &str,
    files: &dyn Files,
    options: &Options,
    progress: &Progress,
) -> Result<Imported, Diagnostics> {
    let ini = Ini::parse(path, files)?;
    let mut problems = Diagnostics::default();
    let Some(network) = Network::read(&ini, &mut problems) else { return Err(problems) };
    check_globals(&ini, &mut problems);
    let found = targets::find(&ini, &network);
    let has_onnx = network.cells.iter().any(|cell| cell.kind == "ONNX");
    if found.is_empty() && !has_onnx {
        let message = "the network has no target: no section is called `LAYER.Target`";
        problems.push(Diagnostic::new(Code::TargetMissing, message));
    }
    let (weights, weights_note) = Weights::locate(&ini, path, files, options);
    let names = network.cells.iter().map(|cell| cell.section.name().to_owned());
    let mut build = Build::new(stem(path), options.dtype, weights, names);
    let mut walk = Walk { ini: &ini, network: &network, build: &mut build, problems };
    let features = walk.run(progress)?;
    let mut problems = walk.problems;
    problems.0.extend(build.resolve_shares());
    problems.0.truncate(PROBLEMS_MAX);
    problems.or_ok(())?;
    targets::mark(&mut build, &network, &found, &features);
    warn_unread_parameters(&network);
    let warnings = ini.warnings();
    if options.strict && !warnings.is_empty() {
        return Err(Diagnostics(warnings));
    }
    let mut metadata = environment::metadata(&ini, network.environment);
    metadata.extend(weights_note.map(|note| ("source.weights".to_owned(), note)));
    let mut notes = warnings;
    notes.append(&mut build.notes);
    notes.append(&mut build.weights.notes());
    Ok(Imported { model: Model::new(build.graph, IR_VERSION, OPSET), notes, metadata })
}

/// Name of the file without folder and extension.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

fn check_globals(ini: &Ini, problems: &mut Diagnostics) {
    const KEY: &str = "InsertBatchNormAfterConv";
    match ini.global().or(KEY, false) {
        Ok(false) => {}
        Ok(true) => {
            let message = format!("`{KEY}=1` is not supported: the inserted layers have no names");
            let help = "Write the BatchNorm layers into the network.";
            problems.push(Diagnostic::new(Code::FeatureUnsupported, message).help(help));
        }
        Err(problem) => problems.push(problem),
    }
}

/// Parameters that no layer has asked for, once all have been built.
fn warn_unread_parameters(network: &Network) {
    for cell in &network.cells {
        for section in cell.section.config_sections().unwrap_or_default() {
            section.warn_unread(layers::PARAMETER_KEYS, layers::SILENT_PARAMETERS);
        }
    }
}

/// Builds one layer after the other.
struct Walk<'w, 'f, 'i> {
    ini: &'i Ini,
    network: &'w Network<'i>,
    build: &'w mut Build<'f>,
    problems: Diagnostics,
}

impl Walk<'_, '_, '_> {
    /// What each layer computes; nothing for those that cannot be built.
    fn run(&mut self, progress: &Progress) -> Result<Vec<Option<Feature>>, Diagnostics> {
        let input = match environment::size(self.network.environment) {
            Ok(size) => Some(self.build.input(size)),
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        };
        let mut features = vec![None; self.network.cells.len()];
        let total = self.network.order.len() as u64;
        for (done, index) in self.network.order.iter().enumerate() {
            progress(done as u64, total)?;
            features[*index] = self.cell(*index, input, &features);
            if self.problems.0.len() >= PROBLEMS_MAX {
                break;
            }
        }
        Ok(features)
    }

    fn cell(
        &mut self,
        index: usize,
        input: Option<Feature>,
        features: &[Option<Feature>],
    ) -> Option<Feature> {
        let cell = &self.network.cells[index];
        if cell.kind.is_empty() {
            return None;
        }
        let Some(row) = layers::find(&cell.kind) else {
            self.problems.push(layers::refusal(&cell.kind, cell.section.layer()));
            return None;
        };
        let parent = |parent: &Parent| match parent {
            Parent::Environment => Some((crate::build::INPUT, input?)),
            Parent::Cell(index) => {
                Some((self.network.cells[*index].section.name(), features[*index]?))
            }
            Parent::Missing => None,
        };
        // What follows a layer that could not be built is not worth a word.
        let parents: Option<Vec<_>> = cell.parents.iter().map(parent).collect();
        let (parents, inputs) = parents?.into_iter().unzip();
        let nodes = self.build.graph.node_bound();
        let mut under = Cell {
            build: self.build,
            section: cell.section,
            layer: cell.section.layer(),
            inputs,
            parents,
        };
        let inputs = under.inputs.clone();
        match layers::lower(row, &mut under) {
            Ok(feature) => {
                self.finish(index, nodes, &inputs, feature);
                cell.section.warn_unread(row.keys, layers::COMMON_KEYS);
                Some(feature)
            }
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    /// Names the result, and sets what expressions may ask for.
    fn finish(&mut self, index: usize, nodes: usize, inputs: &[Feature], result: Feature) {
        let section = self.network.cells[index].section;
        let producer = self.build.graph.producer(result.value);
        if producer.is_some_and(|node| node.index() >= nodes) {
            self.build.graph.rename(result.value, section.name());
        }
        let channels: usize = inputs.iter().map(|x| x.size.channels).sum();
        let plane = inputs.iter().map(|x| x.size.plane()).max().unwrap_or([1, 1]);
        for (key, value) in [
            ("_NbOutputs", result.size.channels),
            ("_OutputsWidth", result.size.width),
            ("_OutputsHeight", result.size.height),
            ("_NbChannels", channels),
            ("_ChannelsWidth", plane[1]),
            ("_ChannelsHeight", plane[0]),
        ] {
            self.ini.set_property(section, key, value);
        }
    }
}
