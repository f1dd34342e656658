//! Target sections: the layers whose results are the outputs of the model.

use std::collections::HashMap;

use onnxd_plugin_sdk::ir::{Node, ValueId};

use crate::build::{Build, Feature};
use crate::diag::{Code, Diagnostic, Layer};
use crate::ini::{Ini, SectionRef};
use crate::network::Network;

const SUFFIX: &str = ".Target";

/// Settings for scores during learning and tests.
const SILENT: &[&str] = &[
    "BinaryThreshold",
    "ConfigSection",
    "DataAsTarget",
    "DefaultValue",
    "ImageLogFormat",
    "LabelsHueOffset",
    "LabelsMapping",
    "LabelsName",
    "CreateMissingLabels",
    "MaskLabelTarget",
    "MaskedLabel",
    "NoDisplayLabel",
    "NoEstimatedLabel",
    "TargetValue",
    "TopN",
    "Type",
    "ValueThreshold",
    "WeakTarget",
];

/// A target section and the index of its layer.
pub(crate) struct Target<'i> {
    section: SectionRef<'i>,
    cell: usize,
}

/// All targets in the order of the file.
pub(crate) fn find<'i>(ini: &'i Ini, network: &Network<'i>) -> Vec<Target<'i>> {
    let cells = network.cells.iter().enumerate();
    let by_name: HashMap<&str, usize> = cells.map(|(i, c)| (c.section.name(), i)).collect();
    let target = |section: SectionRef<'i>| {
        let name = section.name();
        let mut ends = name.match_indices(SUFFIX).map(|(at, _)| at);
        let cell = ends.find_map(|at| by_name.get(&name[..at]).copied())?;
        let kind = section.text("Type").ok().flatten();
        // Other kinds of targets have settings of their own.
        if kind.is_none_or(|kind| kind == "TargetScore") {
            section.warn_unread(SILENT, SILENT);
        }
        Some(Target { section, cell })
    };
    let named = |s: &SectionRef| s.name().contains(SUFFIX) && !s.has("Input");
    ini.sections().filter(named).filter_map(target).collect()
}

/// Lists the results of targeted layers as outputs, each under its layer's name.
pub(crate) fn mark(
    build: &mut Build,
    network: &Network,
    targets: &[Target],
    features: &[Option<Feature>],
) {
    for target in targets {
        let Some(feature) = features[target.cell] else { continue };
        let cell = &network.cells[target.cell];
        let layer = cell.section.layer();
        let from_node = build.graph.producer(feature.value).is_some();
        let output = match build.graph[feature.value].name == layer.name {
            true => feature.value,
            // A dropout is not part of the model: its target moves to what it reads.
            false if cell.kind == "Dropout" && from_node => {
                let name = build.graph[feature.value].name.clone();
                build.notes.push(moved(&layer, &name));
                feature.value
            }
            false => named(build, feature, &layer),
        };
        match build.graph.is_output(output) {
            false => build.graph.mark_output(output),
            true => build.notes.push(repeated(target.section)),
        }
    }
}

/// A layer that does nothing still has to show up under its own name.
fn named(build: &mut Build, feature: Feature, layer: &Layer) -> ValueId {
    if let Some(value) = build.graph.value_named(&layer.name) {
        return value;
    }
    let ty = build.value_type(feature.size, feature.flat);
    let out = build.graph.add_value(&layer.name, Some(ty));
    let node = Node::new("Identity", [feature.value], [out]);
    build.graph.add_node(Node { layers: vec![layer.clone()], ..node });
    out
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
