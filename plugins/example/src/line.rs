//! The front-end for line files. Every error names the line it is about; all are reported at once.

use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, Layer};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Model, Opsets, ValueType};
use onnxd_plugin_sdk::lower::{Driver, Fallback, Lower, Lowered, Lowering, Table, Value};
use onnxd_plugin_sdk::{Claim, Frontend, Imported, Probe, Submission, rows};

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
        let (model, notes) = import(submission, text)?;
        Ok(Imported { model, notes, ..Imported::default() })
    }
}

/// `scale OFFSET GAIN`
fn scale(b: &Lower, x: Var, offset: f64, gain: f64) -> Lowered<Var> {
    b.mul(b.add(x, offset)?, gain)
}

/// `clip MIN MAX`
fn clip(b: &Lower, x: Var, min: f64, max: f64) -> Lowered<Var> {
    b.clip(x).min(min).max(max).one()
}

fn table() -> Table {
    rows! { Table::new();
        "scale" => scale(x, offset, gain);
        "clip" => clip(x, min, max);
    }
}

/// The model, and what a user should know.
fn import(submission: &Submission, text: &str) -> Result<(Model, Vec<Diagnostic>), Diagnostics> {
    let file = submission.network();
    if text.lines().count() > LINES_MAX {
        let text = format!("`{file}` has more than {LINES_MAX} lines");
        return Err(Diagnostic::new(Code::SourceLimit, text).into());
    }
    let table = table();
    let opsets = Opsets::from([(String::new(), 17)]);
    let fallback = Fallback::of(submission.lowered());
    let driver = Driver::new(&table, &(), Graph::new("line"), opsets, fallback);
    let vector = ValueType::tensor(DataType::Float, [Dim::from("n")]);
    let mut value = Value::Var(driver.builder().input("x", vector.clone()));
    for (i, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        let Some(op) = words.next() else { continue };
        let name = format!("line{}", i + 1);
        let place = format!("{file}:{}", i + 1);
        let layer = Layer { name: name.clone(), kind: op.to_owned(), place };
        let arguments = [value].into_iter().chain(words.map(argument)).collect();
        let item = Lowering {
            op: op.to_owned(),
            layer,
            arguments,
            results: vec![name],
            types: vec![Some(vector.clone())],
            ..Lowering::default()
        };
        value = driver.lower(item).remove(0);
    }
    if let Value::Var(v) = value {
        let name = driver.builder().name_of(v);
        driver.builder().output(v, &name)?;
    }
    let (graph, functions, notes) = driver.finish_model()?;
    Ok((Model { functions, ..Model::new(graph, 8, 17) }, notes))
}

fn argument(word: &str) -> Value {
    word.parse().map_or_else(|_| Value::from(word), Value::Float)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::ir::Tensor;
    use onnxd_plugin_sdk::testing::{self, Dropped};

    #[test]
    fn a_file_computes_what_it_says() {
        let dropped = Dropped::file("a.line", "scale 1 2\n\nclip 0 5\n");
        assert_eq!(testing::probe(&Line, &dropped).unwrap().claim, Claim::ByContent);
        let imported = testing::import(&Line, &dropped).unwrap();
        let x = Tensor::vector(vec![-3.0f32, 0.5, 9.0]);
        let outputs = testing::run(&imported.model, [("x", x)]).unwrap();
        assert_eq!(outputs[0].1, Tensor::vector(vec![0.0f32, 3.0, 5.0]));
    }

    #[test]
    fn all_bad_lines_are_named() {
        let dropped = Dropped::file("a.line", "bend 1\nscale 1 x\n");
        let found = testing::import(&Line, &dropped).unwrap_err();
        let codes: Vec<&str> = found.0.iter().map(|d| d.code.as_ref()).collect();
        assert_eq!(codes, ["N0203", "N0204"]);
        assert_eq!(found.0[1].layer.as_ref().unwrap().place, "a.line:2");
    }
}
