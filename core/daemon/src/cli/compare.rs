//! `onnxd compare`: how far two ONNX files differ on the same inputs.

use super::{Ended, FINDINGS, out};
use onnxd_worker::tools::Comparison;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Runs two ONNX files on the same inputs and compares what they give.
#[derive(clap::Args)]
pub(crate) struct Compare {
    /// The first model.
    #[arg(value_name = "A.onnx")]
    a: PathBuf,
    /// The second model.
    #[arg(value_name = "B.onnx")]
    b: PathBuf,
    /// Arrays under the names of the inputs; without them values are made up by a fixed rule.
    #[arg(long, value_name = "FILE.npz")]
    inputs: Option<PathBuf>,
    /// Largest absolute difference that is none.
    #[arg(long, value_name = "X", default_value_t = 1e-5)]
    tolerance_abs: f64,
    /// Largest relative difference that is none.
    #[arg(long, value_name = "X", default_value_t = 1e-4)]
    tolerance_rel: f64,
    /// Prints the differences as JSON.
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub(crate) fn run(&self) -> Ended {
        let tolerance = (self.tolerance_abs, self.tolerance_rel);
        let inputs = self.inputs.as_deref();
        let found = onnxd_worker::tools::compare(&self.a, &self.b, inputs, tolerance)?;
        if self.json {
            let rows: Vec<Value> = found.values.iter().map(as_json).collect();
            let notes = &found.notes;
            out::json(&json!({ "a": self.a, "b": self.b, "notes": notes, "values": rows }));
        } else {
            let head = ["KIND", "NAME", "MAX ABS", "MEAN ABS", "COSINE", "SQNR DB", "VERDICT"];
            let mut rows = vec![head.map(str::to_owned).to_vec()];
            rows.extend(found.values.iter().map(as_row));
            out::print(&out::table(&rows));
            for note in &found.notes {
                out::print(note);
            }
        }
        let equal = found.values.iter().filter(|c| c.output).all(|c| c.within);
        Ok(if equal { 0 } else { FINDINGS })
    }
}

fn kind(c: &Comparison) -> &'static str {
    if c.output { "output" } else { "value" }
}

fn as_row(c: &Comparison) -> Vec<String> {
    let mut row = vec![kind(c).to_owned(), c.name.clone()];
    match &c.difference {
        Ok(d) => {
            row.extend([d.max_abs, d.mean_abs].map(|x| format!("{x:.3e}")));
            row.extend([format!("{:.6}", d.cosine), format!("{:.1}", d.sqnr_db)]);
            row.push(if c.within { "equal" } else { "different" }.to_owned());
        }
        Err(why) => {
            row.extend(["-", "-", "-", "-"].map(str::to_owned));
            row.push(why.clone());
        }
    }
    row
}

fn as_json(c: &Comparison) -> Value {
    match &c.difference {
        Ok(d) => json!({
            "name": c.name,
            "kind": kind(c),
            "max_abs": real(d.max_abs),
            "mean_abs": real(d.mean_abs),
            "cosine": real(d.cosine),
            "sqnr_db": real(d.sqnr_db),
            "within": c.within,
        }),
        Err(why) => json!({ "name": c.name, "kind": kind(c), "error": why, "within": false }),
    }
}

/// A number; what JSON's numbers cannot say is a word, as in reports.
fn real(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { json!(x.to_string().to_lowercase()) }
}
