//! Sections of type `ONNX`: a network read from a file in the middle of another one.
//!
//! N2D2 makes a layer of each node of the file, named after the node's first output; other layers
//! and targets use these names. Here the nodes stay as they are, whatever their operators.

mod lower;

use std::collections::HashMap;

use onnxd_plugin_sdk::External;
use onnxd_plugin_sdk::bytes::Bytes;
use onnxd_plugin_sdk::ir::verify::{VerifyLevel, verify};
use onnxd_plugin_sdk::ir::{Graph, Model, Origin, ValueId};
use onnxd_plugin_sdk::onnx::{decode, external_files};

use crate::diag::{Code, Diagnostic, Diagnostics, shown};
use crate::ini::{Files, Ini, SectionRef, candidates, folder_of, similar};
use crate::sections::cell_sections;

pub(crate) use lower::lower;

/// `Type` of such a section.
pub(crate) const KIND: &str = "ONNX";
/// Operators that N2D2 leaves out because they compute nothing.
const BYPASSED: &[&str] =
    &["Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"];

/// The file of a section, with the ignored nodes taken out.
pub(crate) struct OnnxFile {
    pub(crate) model: Model,
    /// What the file says and the model does not keep.
    pub(crate) notes: Vec<String>,
    /// First outputs of named nodes.
    by_node: HashMap<String, ValueId>,
    /// What stands for the results of ignored nodes.
    instead: HashMap<ValueId, ValueId>,
}

/// All sections that name an ONNX file.
pub(crate) fn sections(ini: &Ini) -> impl Iterator<Item = SectionRef<'_>> {
    cell_sections(ini).filter(is_onnx)
}

pub(crate) fn is_onnx(section: &SectionRef) -> bool {
    section.text("Type").ok().flatten().is_some_and(|kind| kind == KIND)
}

/// Where the file of a section is, or where it should be.
fn path_of(
    section: SectionRef,
    folder: &str,
    files: &dyn Files,
) -> Result<(String, bool), Diagnostic> {
    let written = section.required::<String>("File")?;
    let paths = candidates(folder, &written);
    let found = paths.iter().find(|path| files.has(path));
    match (found, paths.first()) {
        (Some(found), _) => Ok((found.clone(), true)),
        (None, Some(first)) => Ok((first.clone(), false)),
        (None, None) => Err(section.problem("File", "names no file")),
    }
}

/// The files that a section refers to, and whether they are there: the ONNX file and its external
/// data.
pub(crate) fn referred(
    section: SectionRef,
    network: &str,
    files: &dyn Files,
) -> Vec<(&'static str, String, bool)> {
    let Ok((path, found)) = path_of(section, folder_of(network), files) else { return Vec::new() };
    let locations = match files.bytes(&path) {
        Some(bytes) => external_files(bytes).unwrap_or_default(),
        None => Default::default(),
    };
    let data = locations.into_iter().map(|location| {
        let path = External::path(&path, &location);
        let found = files.has(&path);
        ("external data", path, found)
    });
    let data: Vec<_> = data.collect();
    [("ONNX file", path, found)].into_iter().chain(data).collect()
}

impl OnnxFile {
    /// Reads the file of a section.
    pub(crate) fn read(
        section: SectionRef,
        network: &str,
        files: &dyn Files,
    ) -> Result<OnnxFile, Diagnostics> {
        if !section.or("ONNX_init", true)? {
            let message = "0 is not supported: the parameters of an ONNX file are part of it";
            let mut problem = section.problem("ONNX_init", message).help("Remove the line.");
            problem.code = Code::FeatureUnsupported.as_str().into();
            return Err(problem.into());
        }
        let (path, _) = path_of(section, folder_of(network), files)?;
        let missing = |path: &str| {
            Diagnostic::new(
                Code::FileMissing,
                format!("the ONNX file `{}` is missing", shown(path)),
            )
        };
        let read = |path: &str| files.bytes(path).ok_or_else(|| missing(path));
        let decoded: Result<_, Diagnostics> = read(&path)
            .map_err(Diagnostics::from)
            .and_then(|bytes: Bytes| decode(bytes, &mut External::new(&path, &read)));
        let located = |found: Diagnostics| located(found, section, &path);
        let mut decoded = decoded.map_err(located)?;
        verify(&decoded.model, VerifyLevel::Full).or_ok(()).map_err(located)?;
        let graph = &mut decoded.model.graph;
        // An initializer that a caller could replace is a parameter all the same.
        let held = graph.inputs().iter().copied().filter(|v| graph[*v].initializer().is_some());
        let held: Vec<ValueId> = held.collect();
        graph.unmark_inputs(&held);
        let named = graph.nodes().filter(|(_, node)| !node.name.is_empty());
        let mut by_node = HashMap::new();
        for (name, out) in named.filter_map(|(_, n)| Some((n.name.clone(), n.output(0)?))) {
            by_node.entry(name).or_insert(out);
        }
        let mut file = OnnxFile {
            model: decoded.model,
            notes: decoded.notes,
            by_node,
            instead: HashMap::new(),
        };
        for name in section.or("Ignore", String::new())?.split_whitespace() {
            file.ignore(section, name)?;
        }
        Ok(file)
    }

    fn graph(&self) -> &Graph {
        &self.model.graph
    }

    /// The first output that N2D2 calls a node by, or that of a node called so.
    fn made(&self, name: &str) -> Option<ValueId> {
        let graph = self.graph();
        let of_node = |v: &ValueId| {
            matches!(graph[*v].origin(), Origin::Node(..)) || self.instead.contains_key(v)
        };
        let value = graph.value_named(name).filter(of_node);
        value.or_else(|| self.by_node.get(name).copied())
    }

    /// What the file computes under a name.
    pub(crate) fn result(&self, name: &str) -> Option<ValueId> {
        let mut value = self.made(name)?;
        while let Some(next) = self.instead.get(&value) {
            value = *next;
        }
        Some(value)
    }

    /// Names of all results, for suggestions.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let graph = self.graph();
        let outputs = graph.nodes().filter_map(|(_, node)| node.output(0));
        outputs.map(|v| graph[v].name.as_str())
    }

    /// The results that the file itself lists.
    pub(crate) fn outputs(&self) -> &[ValueId] {
        self.graph().outputs()
    }

    /// Takes a node out; its first input that is no constant stands for its result.
    fn ignore(&mut self, section: SectionRef, name: &str) -> Result<(), Diagnostic> {
        let made = self.made(name).filter(|v| !self.instead.contains_key(v));
        let Some(id) = made.and_then(|v| self.graph().producer(v)) else {
            let help = match similar(name, self.names()) {
                Some(near) => format!("Did you mean `{near}`?"),
                None => "Nodes are named by their first output.".into(),
            };
            let message = format!("names `{}`, which no node of the file computes", shown(name));
            section.warn_ignored("Ignore", &message, help);
            return Ok(());
        };
        let graph = &mut self.model.graph;
        let node = &graph[id];
        let input = node.inputs.iter().flatten().find(|v| graph.constant(**v).is_none());
        let others = node.outputs.iter().skip(1).flatten();
        let used = others.filter(|v| graph.uses(**v) > 0).count();
        let (Some(input), Some(out), 0) = (input.copied(), node.output(0), used) else {
            let message = format!("cannot take out `{}`: nothing stands for it", shown(name));
            return Err(section.problem("Ignore", message));
        };
        graph.replace_uses(out, input);
        graph.remove_node(id);
        self.instead.insert(out, input);
        Ok(())
    }

    /// Results of the softmax operators at the file's ends, which N2D2 makes targets of; without
    /// those that lead to one of `wanted` anyway.
    pub(crate) fn ends(&self, wanted: &[ValueId]) -> Vec<ValueId> {
        let graph = self.graph();
        let softmax = graph.nodes().filter(|(_, node)| node.is("Softmax"));
        let outs = softmax.filter_map(|(_, node)| node.output(0));
        outs.filter(|v| self.is_end(*v, wanted)).collect()
    }

    fn is_end(&self, value: ValueId, wanted: &[ValueId]) -> bool {
        let graph = self.graph();
        let mut pending = vec![value];
        let mut seen = vec![false; graph.value_ids().len()];
        while let Some(v) = pending.pop() {
            if wanted.contains(&v) {
                return false;
            }
            if std::mem::replace(&mut seen[v.index()], true) {
                continue;
            }
            for reader in graph.readers(v) {
                let node = &graph[*reader];
                if !node.is_standard() || !BYPASSED.contains(&node.op.as_str()) {
                    return false;
                }
                pending.extend(node.outputs.iter().flatten());
            }
        }
        true
    }
}

/// Findings about a file, at the section that names it.
fn located(found: Diagnostics, section: SectionRef, path: &str) -> Diagnostics {
    let at = |d: Diagnostic| {
        let message = match &d.layer {
            Some(layer) => format!("`{path}`, node `{}`: {}", shown(&layer.name), d.message),
            None => format!("`{path}`: {}", d.message),
        };
        d.saying(message).at(section.layer())
    };
    Diagnostics(found.0.into_iter().map(at).collect())
}
