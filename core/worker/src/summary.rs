//! Figures for the report.

use onnxd_ir::{Model, ValueType};
use onnxd_proto::onnxd as message;
use std::collections::{BTreeMap, BTreeSet};

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
pub(crate) fn describe(
    model: &Model,
    bytes: u64,
    states: Vec<message::State>,
) -> message::ModelSummary {
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
        states,
        lowered_from: 0,
        file: String::new(),
    }
}

/// Largest resident memory of this process so far. What getrusage tells includes the peak of the
/// process that started this one.
pub(crate) fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    peak_of(&status).unwrap_or_else(|| {
        // SAFETY: `rusage` is numbers alone, so that all-zero is a valid one. The call writes into this
        // variable; if it fails, zeros stay.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        usage.ru_maxrss as u64 * 1024
    })
}

/// The peak that the kernel's description of a process names, in bytes.
fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: &str = "ONNXD_TEST_TELL_PEAK";

    #[test]
    fn the_peak_is_that_of_this_process_alone() {
        if std::env::var_os(ASKED).is_some() {
            println!("peak={}", peak_rss_bytes());
            return;
        }
        let ballast = std::hint::black_box(vec![1u8; 192 << 20]);
        assert!(peak_rss_bytes() > 192 << 20);
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--nocapture", "the_peak_is_that_of_this_process_alone"]);
        let said = child.env(ASKED, "1").output().unwrap().stdout;
        drop(ballast);
        let said = String::from_utf8(said).unwrap();
        let peak = said.split("peak=").nth(1).and_then(|s| s.split_whitespace().next());
        let peak: u64 = peak.unwrap_or_else(|| panic!("{said}")).parse().unwrap();
        assert!((1 << 20..128 << 20).contains(&peak), "{peak} bytes");
    }

    #[test]
    fn a_peak_is_found_or_not() {
        assert_eq!(peak_of("VmPeak:\t 9 kB\nVmHWM:\t   12 kB\nVmRSS:\t 1 kB\n"), Some(12288));
        for text in ["", "VmHWM: x kB", "VmHWM: 12", "VmHWM: 99999999999999999999 kB"] {
            assert_eq!(peak_of(text), None, "{text}");
        }
    }
}
