//! Target sections: the layers whose results are the outputs of the model.

use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::ValueId;

use crate::cell::{Built, Lowered};
use crate::diag::{Code, Diagnostic, Diagnostics, Layer, shown};
use crate::ini::{Ini, SectionRef};
use crate::network::{Network, Parent};
use crate::sections::TARGET;
use crate::source::NetworkSource;

/// Settings for scores during learning and tests.
const SILENT: &[&str] = &[
    "BinaryThreshold", "ConfigSection", "DataAsTarget", "DefaultValue", "ImageLogFormat",
    "LabelsHueOffset", "LabelsMapping", "LabelsName", "CreateMissingLabels", "MaskLabelTarget",
    "MaskedLabel", "NoDisplayLabel", "NoEstimatedLabel", "TargetValue", "TopN", "Type",
    "ValueThreshold", "WeakTarget",
];

/// A target and what it is of.
pub(crate) struct Target<'i> {
    /// Its section; nothing for the targets that ONNX files bring along.
    section: Option<SectionRef<'i>>,
    /// The name that the output gets.
    pub(crate) name: String,
    of: Parent,
}

impl Target<'_> {
    /// What the target is of, if it is the result of an ONNX file.
    pub(crate) fn result(&self) -> Option<(usize, ValueId)> {
        match self.of {
            Parent::Result(cell, value) => Some((cell, value)),
            _ => None,
        }
    }
}

/// All targets in the order of the file, then those of ONNX files.
pub(crate) fn find<'i>(
    ini: &'i Ini,
    network: &Network<'i>,
    problems: &mut Diagnostics,
) -> Vec<Target<'i>> {
    let mut target = |section: SectionRef<'i>| {
        let name = section.name();
        let mut ends = name.match_indices(TARGET).map(|(at, _)| &name[..at]);
        let named_end = ends.find_map(|of| Some((of, network.names.find(of).transpose()?)));
        let (of, named_end) = match named_end {
            Some((of, Ok(named_end))) => (of, named_end),
            // Names of layers are misspelt easily where they stand in another file.
            None if network.names.has_files() => {
                let of = name.split(TARGET).next().unwrap_or(name);
                let message = format!("the target is of `{}`, which is no layer", shown(of));
                problems.push(network.names.unknown(of, message).at(section.layer()));
                return None;
            }
            None => return None,
            Some((of, Err(why))) => {
                let message = format!("the target is of `{}`, which {why}", shown(of));
                problems.push(network.names.unknown(of, message).at(section.layer()));
                return None;
            }
        };
        let kind = section.text("Type").ok().flatten();
        // Other kinds of targets have settings of their own.
        if kind.is_none_or(|kind| kind == "TargetScore") {
            section.warn_unread(SILENT);
        }
        Some(Target { section: Some(section), name: of.to_owned(), of: named_end })
    };
    let named = |s: &SectionRef| s.name().contains(TARGET) && !s.has("Input");
    let mut targets: Vec<Target> = ini.sections().filter(named).filter_map(&mut target).collect();
    for (cell, file) in network.names.files() {
        let results = targets.iter().filter_map(Target::result);
        let wanted: Vec<ValueId> = results.filter(|(c, _)| *c == cell).map(|(_, v)| v).collect();
        let ends = file.ends(&wanted).into_iter();
        targets.extend(ends.map(|value| Target {
            section: None,
            name: file.model.graph[value].name.clone(),
            of: Parent::Result(cell, value),
        }));
    }
    targets
}

/// Lists the results of targeted layers as outputs, each under its layer's name.
pub(crate) fn mark(
    b: &GraphBuilder,
    source: &NetworkSource,
    network: &Network,
    targets: &[Target],
    built: &Built,
) -> Lowered<()> {
    for target in targets {
        let output = match target.of {
            Parent::Cell(cell) => built.features[cell].map(|x| (cell, x.value)),
            Parent::Result(cell, value) => {
                built.results.get(&(cell, value)).map(|value| (cell, *value))
            }
            Parent::Environment | Parent::Missing => None,
        };
        let Some((cell, value)) = output else { continue };
        let cell = &network.cells[cell];
        let layer = match target.of {
            Parent::Result(..) => Layer { name: target.name.clone(), ..cell.section.layer() },
            _ => cell.section.layer(),
        };
        let (id, name) = (b.id(value)?, b.name_of(value));
        // A dropout is not part of the model: its target moves to what it reads.
        let moves = matches!(target.of, Parent::Cell(_))
            && name != layer.name
            && cell.kind == "Dropout"
            && b.graph().producer(id).is_some();
        let output = if moves {
            source.note(moved(&layer, &name));
            id
        } else {
            b.id(named(b, value, &layer)?)?
        };
        let listed = b.graph().is_output(output);
        match target.section {
            Some(section) if listed => source.note(repeated(section)),
            _ if listed => {}
            _ => b.graph_mut().mark_output(output),
        }
    }
    Ok(())
}

/// A layer that does nothing still has to show up under its own name.
fn named(b: &GraphBuilder, value: Var, layer: &Layer) -> Lowered {
    let known = b.graph().value_named(&layer.name);
    if let Some(id) = known {
        return Ok(b.var(id));
    }
    let out = b.in_layer(layer.clone(), |b| b.identity(value))?;
    b.rename(out, &layer.name);
    Ok(out)
}

fn moved(layer: &Layer, name: &str) -> Diagnostic {
    let message = format!(
        "the target of `{}` moves to `{name}`: dropout is not part of the model",
        layer.name
    );
    Diagnostic::new(Code::LayerParameterIgnored, message).at(layer.clone()).help("")
}

fn repeated(section: SectionRef) -> Diagnostic {
    let message = format!("`{}` names an output that the model has already", section.name());
    Diagnostic::new(Code::LayerParameterIgnored, message).at(section.layer()).help("")
}
