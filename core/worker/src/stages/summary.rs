//! Figures for the report.

use onnxd_ir::{Model, ValueType};
use onnxd_proto::onnxd as message;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// How often each operator occurs, sub-graphs and functions included.
pub(crate) fn count_ops(model: &Model) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    model.for_each_graph(|graph| {
        for (_, node) in graph.nodes() {
            let name = match node.is_standard() {
                true => node.op.clone(),
                false => format!("{}.{}", node.domain, node.op),
            };
            *counts.entry(name).or_insert(0) += 1;
        }
    });
    counts
}

/// The table of the report from the three counts.
pub(crate) fn op_counts(counts: &[BTreeMap<String, u64>; 3]) -> Vec<message::OpCount> {
    let names: BTreeSet<&String> = counts.iter().flat_map(BTreeMap::keys).collect();
    let of = |i: usize, name: &String| counts[i].get(name).copied().unwrap_or(0);
    let row = |name: &String| message::OpCount {
        op: name.clone(),
        source: of(0, name),
        after_passes: of(1, name),
        r#final: of(2, name),
    };
    names.into_iter().map(row).collect()
}

/// Versions, inputs, outputs and size of the written model.
pub(crate) fn describe(model: &Model, bytes: u64) -> message::ModelSummary {
    let graph = &model.graph;
    let value = |v: &onnxd_ir::ValueId| message::ValueSummary {
        name: graph[*v].name.clone(),
        r#type: graph[*v].ty.as_ref().map(ValueType::to_string).unwrap_or_default(),
    };
    let mut parameters = 0;
    model.for_each_graph(|graph| {
        let tensors = graph.value_ids().filter_map(|v| graph[v].initializer());
        parameters += tensors.map(|t| t.len() as u64).sum::<u64>();
    });
    message::ModelSummary {
        ir_version: model.ir_version,
        opset: model.opsets.iter().map(|(d, v)| (d.clone(), *v)).collect(),
        inputs: graph.inputs().iter().map(value).collect(),
        outputs: graph.outputs().iter().map(value).collect(),
        op_counts: Vec::new(),
        parameters,
        bytes,
    }
}

/// Size and SHA-256 of a file, read in pieces.
pub(crate) fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => {
                hasher.update(&buffer[..n]);
                bytes += n as u64;
            }
        }
    }
    let mut hex = String::with_capacity(64);
    for byte in hasher.finalize() {
        let _ = write!(hex, "{byte:02x}");
    }
    Ok((bytes, hex))
}

/// Largest resident memory of this process so far.
pub(crate) fn peak_rss_bytes() -> u64 {
    // SAFETY: an all-zero `rusage` is valid, and the call only writes into it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    usage.ru_maxrss as u64 * 1024
}
