//! `onnxd print`: an ONNX file as text, its figures, or the types of its values.

use super::{Ended, out};
use serde_json::json;
use std::path::PathBuf;

/// Shows an ONNX file as readable text.
#[derive(clap::Args)]
pub(crate) struct Print {
    /// The model.
    #[arg(value_name = "FILE.onnx")]
    model: PathBuf,
    /// Shows op counts, inputs, outputs and sizes instead of the graph.
    #[arg(long)]
    summary: bool,
    /// Shows the type of every value, declared or inferred, instead of the graph.
    #[arg(long, conflicts_with = "summary")]
    types: bool,
    /// Prints the summary (or the types) as JSON.
    #[arg(long)]
    json: bool,
}

impl Print {
    pub(crate) fn run(&self) -> Ended {
        if self.types {
            return self.print_types();
        }
        if !self.summary && !self.json {
            out::source_text(&onnxd_worker::tools::print(&self.model)?);
            return Ok(0);
        }
        let onnxd_worker::tools::Summary { model, ops } =
            onnxd_worker::tools::summary(&self.model)?;
        if self.json {
            out::json(&json!({
                "model": self.model,
                "ir_version": model.ir_version,
                "opset": model.opset,
                "inputs": model.inputs,
                "outputs": model.outputs,
                "ops": ops,
                "parameters": model.parameters,
                "bytes": model.bytes,
            }));
            return Ok(0);
        }
        let row = |cells: &[&str]| cells.iter().map(|&c| c.to_owned()).collect::<Vec<_>>();
        let mut rows = vec![row(&["ir version", &model.ir_version.to_string()])];
        for (domain, version) in &model.opset {
            let domain = if domain.is_empty() { "ai.onnx" } else { domain };
            rows.push(row(&["opset", domain, &version.to_string()]));
        }
        rows.extend(model.inputs.iter().map(|v| row(&["input", &v.name, &v.r#type])));
        rows.extend(model.outputs.iter().map(|v| row(&["output", &v.name, &v.r#type])));
        rows.extend(ops.iter().map(|(op, n)| row(&["op", op, &n.to_string()])));
        rows.push(row(&["parameters", &model.parameters.to_string()]));
        rows.push(row(&["bytes", &model.bytes.to_string()]));
        out::print(&out::table(&rows));
        Ok(0)
    }
    fn print_types(&self) -> Ended {
        let values = onnxd_worker::tools::types(&self.model)?;
        if self.json {
            let values = values
                .iter()
                .map(|v| json!({ "graph": v.graph, "name": v.name, "type": v.r#type }));
            out::json(&json!({ "model": self.model, "values": values.collect::<Vec<_>>() }));
            return Ok(0);
        }
        let rows = values
            .into_iter()
            .map(|v| vec![v.graph, v.name, v.r#type.unwrap_or_else(|| "unknown".to_owned())]);
        out::print(&out::table(&rows.collect::<Vec<_>>()));
        Ok(0)
    }
}
