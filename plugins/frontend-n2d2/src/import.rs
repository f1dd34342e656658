//! From the files of a network to its model.
//!
//! Everything that is wrong is reported at once: a layer that cannot be built stops only what
//! follows it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use onnxd_plugin_sdk::Imported;
use onnxd_plugin_sdk::build::GraphBuilder;
use onnxd_plugin_sdk::ir::ValueId;
use onnxd_plugin_sdk::lower::Missing;

use crate::cell::{Built, Cell, Feature, Lowered};
use crate::diag::{Code, Diagnostic, Diagnostics, refuse};
use crate::ini::{Files, Ini, SectionRef};
use crate::network::{Network, Parent};
use crate::options::ImportOptions;
use crate::sections::TARGET;
use crate::source::{INPUT, NetworkSource, OPSET};
use crate::targets::Target;
use crate::weights::ParameterFiles;
use crate::{environment, known_types, layers, onnx, targets};

/// Version of the file format.
const IR_VERSION: i64 = 8;
/// Findings that are kept.
const PROBLEMS_MAX: usize = 100;

/// Called with the number of layers that are done, and of all.
pub(crate) type Progress<'p> = dyn Fn(u64, u64) -> Result<(), Diagnostic> + 'p;

/// Reads the network of an INI file.
pub(crate) fn import(
    path: &str,
    files: &dyn Files,
    options: &ImportOptions,
    progress: &Progress,
) -> Result<Imported, Diagnostics> {
    let ini = Ini::parse(path, files)?;
    let mut problems = Diagnostics::default();
    let Some(network) = Network::read(&ini, path, files, &mut problems) else {
        return Err(problems);
    };
    check_globals(&ini, &mut problems);
    let targets_found = targets::find(&ini, &network, &mut problems);
    if targets_found.is_empty() && problems.0.is_empty() {
        let message = "the network has no target: no section is called `LAYER.Target`";
        problems.push(Diagnostic::new(Code::TargetMissing, message));
    }
    let (weights, weights_note) = ParameterFiles::locate(&ini, path, files, options);
    let names = network.cells.iter().map(|cell| cell.section.name().to_owned());
    let wanted = wanted(&network, &targets_found);
    let results =
        targets_found.iter().map(|target| target.name.clone()).chain(names_of(&network, &wanted));
    let source = NetworkSource::new(options.dtype, weights, names);
    let builder = source.builder(stem(path), OPSET, results);
    let built = Built { features: vec![None; network.cells.len()], results: HashMap::new() };
    let mut walk = LayerImport {
        ini: &ini,
        network: &network,
        source: &source,
        builder: &builder,
        wanted,
        built,
        problems,
        missing: Missing::default(),
        channels: 0,
    };
    walk.run(progress)?;
    let LayerImport { problems: found_in_layers, missing, built, channels, .. } = walk;
    let mut problems = Diagnostics(missing.findings(layers::refusal));
    problems.0.extend(found_in_layers.0);
    problems.0.extend(source.resolve_shares(&builder));
    problems.0.truncate(PROBLEMS_MAX);
    problems.or_ok(())?;
    targets::mark(&builder, &source, &network, &targets_found, &built)?;
    warn_unread_parameters(&network);
    warn_overrides(&ini, &network);
    known_types::warn_unknown(&ini, network.environment);
    let warnings = ini.warnings();
    refuse!(options.strict && !warnings.is_empty() => Diagnostics(warnings));
    let mut metadata = environment::metadata(&ini, network.environment, channels);
    metadata.extend(weights_note.map(|note| ("source.weights".to_owned(), note)));
    let mut notes = warnings;
    notes.append(&mut source.notes.take());
    notes.append(&mut source.weights.notes());
    notes.extend(network.names.files().flat_map(|(cell, file)| {
        let note = |text: &String| Diagnostic::new(Code::LayerParameterIgnored, text.clone());
        let layer = network.cells[cell].section.layer();
        file.notes.iter().map(move |text| note(text).at(layer.clone()).help(""))
    }));
    let model = source.model(builder.finish(), IR_VERSION, OPSET);
    Ok(Imported { model, notes, metadata, ..Imported::default() })
}

/// By layer, the results of its ONNX file that layers and targets use.
type WantedResults = BTreeMap<usize, BTreeSet<ValueId>>;

fn wanted(network: &Network, targets: &[Target]) -> WantedResults {
    let parents = network.cells.iter().flat_map(|cell| &cell.parents);
    let read = parents.filter_map(|parent| match parent {
        Parent::Result(cell, value) => Some((*cell, *value)),
        _ => None,
    });
    let mut wanted = WantedResults::new();
    for (cell, value) in read.chain(targets.iter().filter_map(Target::result)) {
        wanted.entry(cell).or_default().insert(value);
    }
    wanted
}

fn names_of(network: &Network, wanted: &WantedResults) -> Vec<String> {
    let of_file = |(cell, values): (&usize, &BTreeSet<ValueId>)| {
        let graph = network.names.file(*cell).map(|file| &file.model.graph);
        let names = graph.into_iter().flat_map(|graph| values.iter().map(|v| &graph[*v].name));
        names.cloned().collect::<Vec<_>>()
    };
    wanted.iter().flat_map(of_file).collect()
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
            section.warn_unread(layers::SILENT_PARAMETERS);
        }
    }
}

/// Warns about settings that would change the layers of a file. Sections tell N2D2 how to train them
/// (`[onnx:Conv_def]`, or one called like a layer); a conversion takes them as the file has them.
fn warn_overrides(ini: &Ini, network: &Network) {
    for section in ini.sections().filter(|s| !s.has("Input") && !s.name().contains(TARGET)) {
        if !describes(section, network) {
            continue;
        }
        section.warn_ignored_settings(
            &["ConfigSection", "Solver", "WeightsFiller", "BiasFiller"],
            "is ignored: a layer of an ONNX file computes what the file says",
            "Remove the line, or change the file.",
        );
    }
}

/// Whether a section is about layers of an ONNX file.
fn describes(section: SectionRef, network: &Network) -> bool {
    let name = section.name();
    let defaults = name.match_indices(':').any(|(at, _)| network.names.is_file(&name[..at]));
    defaults || network.names.is_result(name)
}

/// Builds one layer after the other.
struct LayerImport<'w, 'f, 'i> {
    ini: &'i Ini,
    network: &'w Network<'i>,
    source: &'w NetworkSource<'f>,
    builder: &'w GraphBuilder,
    wanted: WantedResults,
    built: Built,
    problems: Diagnostics,
    /// Types of layers that cannot be converted.
    missing: Missing,
    /// Of the environment.
    channels: usize,
}

impl LayerImport<'_, '_, '_> {
    fn run(&mut self, progress: &Progress) -> Result<(), Diagnostics> {
        let input = match environment::size(self.ini, self.network.environment) {
            Ok(size) => {
                self.channels = size.channels;
                let sizes = [size.channels, size.height, size.width];
                let value = self.builder.input(INPUT, self.source.shaped(&sizes));
                Some(Feature { value, size, flat: false })
            }
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        };
        let total = self.network.order.len() as u64;
        for (done, index) in self.network.order.iter().enumerate() {
            progress(done as u64, total)?;
            if let Err(found) = self.cell(*index, input) {
                self.problems.0.extend(found.0);
            }
            if self.problems.0.len() >= PROBLEMS_MAX {
                break;
            }
        }
        Ok(())
    }

    /// Builds a layer, unless it follows one that could not be built: that is not worth a word.
    fn cell(&mut self, index: usize, input: Option<Feature>) -> Result<(), Diagnostics> {
        let cell = &self.network.cells[index];
        if cell.kind.is_empty() {
            return Ok(());
        }
        let row = match layers::find(&cell.kind) {
            None if cell.kind != onnx::KIND => {
                self.missing.add(&cell.kind, cell.section.layer());
                return Ok(());
            }
            row => row,
        };
        let mut parents = Vec::new();
        let mut inputs = Vec::new();
        for parent in &cell.parents {
            let Some((name, feature)) = self.parent(index, *parent, input)? else { return Ok(()) };
            parents.push(name);
            inputs.push(feature);
        }
        let Some(row) = row else { return self.file(index, inputs) };
        let nodes = self.builder.graph().node_bound();
        let read = inputs.clone();
        let feature = self.in_cell(index, inputs, parents, |b| {
            let value = layers::lower(row, b)?;
            Ok(b.feature(value)?)
        })?;
        self.finish(index, nodes, &read, feature)?;
        cell.section.warn_unread(layers::COMMON_KEYS);
        self.built.features[index] = Some(feature);
        Ok(())
    }

    /// An input of layer `index` under its name; nothing if it could not be built.
    fn parent(
        &mut self,
        index: usize,
        parent: Parent,
        input: Option<Feature>,
    ) -> Result<Option<(String, Feature)>, Diagnostic> {
        match parent {
            Parent::Missing => Ok(None),
            Parent::Environment => Ok(input.map(|x| (INPUT.to_owned(), x))),
            Parent::Cell(cell) => {
                let name = self.network.cells[cell].section.name();
                Ok(self.built.features[cell].map(|x| (name.to_owned(), x)))
            }
            Parent::Result(cell, value) => {
                let Some(value) = self.built.results.get(&(cell, value)).copied() else {
                    return Ok(None);
                };
                let layer = self.network.cells[index].section.layer();
                let name = self.builder.name_of(value);
                let x = Feature::from_var(self.builder, value, &layer)?;
                let cast = |b: &GraphBuilder| b.cast(value, self.source.dtype);
                let value = self.builder.in_layer(layer, cast)?;
                Ok(Some((name, Feature { value, ..x })))
            }
        }
    }

    /// Adds what the ONNX file of a layer computes.
    fn file(&mut self, index: usize, inputs: Vec<Feature>) -> Result<(), Diagnostics> {
        let section = self.network.cells[index].section;
        let Some(file) = self.network.names.file(index) else { return Ok(()) };
        let Some(wanted) = self.wanted.get(&index) else {
            let message = "no layer and no target uses what the ONNX file computes";
            let note = Diagnostic::new(Code::LayerParameterIgnored, message).at(section.layer());
            self.source.note(note.help("Remove the section, or add a target."));
            return Ok(());
        };
        let wanted: Vec<ValueId> = wanted.iter().copied().collect();
        let placed = self.in_cell(index, inputs, Vec::new(), |b| onnx::lower(b, file, &wanted))?;
        self.built.results.extend(placed.into_iter().map(|(v, place)| ((index, v), place)));
        section.asked("IgnoreInputSize");
        section.warn_unread(layers::COMMON_KEYS);
        Ok(())
    }

    /// Lets `f` add what layer `index` computes.
    fn in_cell<R>(
        &self,
        index: usize,
        inputs: Vec<Feature>,
        parents: Vec<String>,
        f: impl FnOnce(&mut Cell) -> Result<R, Diagnostics>,
    ) -> Result<R, Diagnostics> {
        let section = self.network.cells[index].section;
        let layer = section.layer();
        self.builder.in_layer(layer.clone(), |builder| {
            f(&mut Cell { builder, source: self.source, section, layer, inputs, parents })
        })
    }

    /// Names the result, and sets what expressions may ask for.
    fn finish(
        &mut self,
        index: usize,
        nodes: usize,
        inputs: &[Feature],
        result: Feature,
    ) -> Lowered<()> {
        let section = self.network.cells[index].section;
        let id = self.builder.id(result.value)?;
        let producer = self.builder.graph().producer(id);
        if producer.is_some_and(|node| node.index() >= nodes) {
            self.builder.rename(result.value, section.name());
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
        Ok(())
    }
}
