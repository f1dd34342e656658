//! The front-end for line files. Every error names the line it is about; all are reported at once.

use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, Layer, shown};
use onnxd_plugin_sdk::ir::ops::{Add, Clip, Mul, Op};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Model, Tensor, ValueId, ValueType};
use onnxd_plugin_sdk::{Claim, Frontend, Imported, Probe, Submission};

/// Longer files are refused.
const LINES_MAX: usize = 10_000;

pub(crate) struct Line;

impl Frontend for Line {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        let text = submission.read(submission.network())?;
        let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(match first.starts_with(b"scale ") || first.starts_with(b"clip ") {
            true => Probe::new(Claim::ByContent, "its first line is a scale or a clip"),
            false => Probe::new(Claim::ByExtension, "the file's name ends in .line"),
        })
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        let bytes = submission.read(submission.network())?;
        let text = std::str::from_utf8(&bytes).map_err(|e| {
            Diagnostic::new(Code::SourceSyntax, format!("not UTF-8 at byte {}", e.valid_up_to()))
        })?;
        let model = import(submission.network(), text)?;
        Ok(Imported { model, ..Imported::default() })
    }
}

fn vector() -> Option<ValueType> {
    Some(ValueType::tensor(DataType::Float, [Dim::from("n")]))
}

fn import(file: &str, text: &str) -> Result<Model, Diagnostics> {
    if text.lines().count() > LINES_MAX {
        let text = format!("`{file}` has more than {LINES_MAX} lines");
        return Err(Diagnostic::new(Code::SourceLimit, text).into());
    }
    let mut graph = Graph::new("line");
    let mut found = Diagnostics::default();
    let mut value = graph.add_input("x", vector());
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let number = i + 1;
        let place = Layer {
            name: format!("line{number}"),
            kind: line.split_whitespace().next().unwrap_or_default().to_owned(),
            place: format!("{file}:{number}"),
        };
        match lower(&mut graph, value, line, number) {
            Ok(next) => value = named(&mut graph, next, place),
            Err(problem) => found.push(problem.at(place)),
        }
    }
    graph.mark_output(value);
    found.or_ok(Model::new(graph, 8, 17))
}

fn lower(g: &mut Graph, x: ValueId, line: &str, number: usize) -> Result<ValueId, Diagnostic> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let constant = |g: &mut Graph, role: &str, word: &str| {
        let value: f32 = word.parse().map_err(|_| {
            Diagnostic::new(Code::LayerParameter, format!("`{}` is not a number", shown(word)))
        })?;
        Ok(g.add_initializer(&format!("line{number}_{role}"), Tensor::scalar(value)))
    };
    match words.as_slice() {
        ["scale", offset, gain] => {
            let (offset, gain) = (constant(g, "offset", offset)?, constant(g, "gain", gain)?);
            let sum = add(g, &format!("line{number}_sum"), Add::new(x, offset));
            Ok(add(g, &format!("line{number}"), Mul::new(sum, gain)))
        }
        ["clip", min, max] => {
            let (min, max) = (constant(g, "min", min)?, constant(g, "max", max)?);
            let clip = Clip { min: Some(min), max: Some(max), ..Clip::new(x) };
            Ok(add(g, &format!("line{number}"), clip))
        }
        [kind, ..] => {
            let text = format!("`{}` is neither a scale nor a clip of two numbers", shown(kind));
            Err(Diagnostic::new(Code::LayerUnsupported, text))
        }
        [] => Ok(x),
    }
}

fn add<O: Op>(g: &mut Graph, name: &str, op: O) -> ValueId {
    let out = g.add(name, op);
    g[out].ty = vector();
    out
}

/// Lets the nodes of one line know where they come from.
fn named(graph: &mut Graph, value: ValueId, layer: Layer) -> ValueId {
    for id in graph.node_ids() {
        if graph[id].layers.is_empty() {
            graph.node_mut(id).layers.push(layer.clone());
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::eval::{Executor, RunOptions};

    #[test]
    fn a_file_computes_what_it_says() {
        let model = import("a.line", "scale 1 2\n\nclip 0 5\n").unwrap();
        let feeds = [("x".to_owned(), Tensor::vector(vec![-3.0f32, 0.5, 9.0]))].into();
        let executor = Executor::new(&model).unwrap();
        let outputs = executor.run(&feeds, RunOptions::default()).unwrap();
        assert_eq!(outputs[0].1, Tensor::vector(vec![0.0f32, 3.0, 5.0]));
    }

    #[test]
    fn all_bad_lines_are_named() {
        let found = import("a.line", "bend 1\nscale 1 x\n").unwrap_err();
        let codes: Vec<&str> = found.0.iter().map(|d| d.code.as_ref()).collect();
        assert_eq!(codes, ["N0203", "N0204"]);
        assert_eq!(found.0[1].layer.as_ref().unwrap().place, "a.line:2");
    }
}
