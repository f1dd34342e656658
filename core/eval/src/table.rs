//! All kernels: those of the standard's operators and of ONNX Runtime's, searched by operator and version.

use crate::call::KernelRow;
use crate::{microsoft, standard};
use onnxd_ir::Node;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The rows of all operators by name, whatever their domain.
static BY_NAME: LazyLock<HashMap<&str, Vec<&KernelRow>>> = LazyLock::new(|| {
    let mut named = HashMap::<&str, Vec<&KernelRow>>::new();
    rows().for_each(|row| named.entry(row.op).or_default().push(row));
    named
});

/// All rows.
fn rows() -> impl Iterator<Item = &'static KernelRow> {
    standard::rows().chain(microsoft::ROWS)
}

/// The row that computes the node's operator as version `opset` of its domain defines it.
pub(crate) fn find(node: &Node, opset: i64) -> Option<&'static KernelRow> {
    named(node).find(|row| row.computes(node, opset))
}

/// Whether any version of the node's operator has a kernel.
pub(crate) fn knows(node: &Node) -> bool {
    named(node).any(|row| row.is_of(node))
}

fn named(node: &Node) -> impl Iterator<Item = &'static KernelRow> {
    BY_NAME.get(node.op.as_str()).into_iter().flatten().copied()
}

/// The operators of a domain that have a kernel; one with several rows is named as often.
pub fn operators(domain: &str) -> impl Iterator<Item = &'static str> {
    rows().filter(move |row| row.domain == domain).map(|row| row.op)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_a_rule_of_inference() {
        let all = rows().map(|row| (row.domain, row.op));
        let without: Vec<_> = all.filter(|(d, op)| !onnxd_ir::infer::has_rule(d, op)).collect();
        assert!(without.is_empty(), "{without:?}");
    }

    #[test]
    fn rows_of_an_operator_do_not_overlap() {
        let rows: Vec<&KernelRow> = rows().collect();
        for (i, a) in rows.iter().enumerate() {
            for b in &rows[i + 1..] {
                let apart =
                    (a.domain, a.op) != (b.domain, b.op) || a.until < b.since || b.until < a.since;
                assert!(apart, "{} has two rows for one version", a.op);
            }
        }
    }

    #[test]
    fn every_typed_view_has_a_kernel() {
        let sources = [
            include_str!("../../ir/src/ops/activation.rs"),
            include_str!("../../ir/src/ops/control.rs"),
            include_str!("../../ir/src/ops/conv.rs"),
            include_str!("../../ir/src/ops/linear.rs"),
            include_str!("../../ir/src/ops/logic.rs"),
            include_str!("../../ir/src/ops/math.rs"),
            include_str!("../../ir/src/ops/norm.rs"),
            include_str!("../../ir/src/ops/pool.rs"),
            include_str!("../../ir/src/ops/quant.rs"),
            include_str!("../../ir/src/ops/reduce.rs"),
            include_str!("../../ir/src/ops/shape.rs"),
        ];
        let modules = include_str!("../../ir/src/ops/mod.rs");
        let families = modules.lines().filter(|l| l.starts_with("mod ") && l.ends_with(';'));
        assert_eq!(families.count(), sources.len(), "a family of ir/ops is not looked at");
        let mut views = 0;
        for line in sources.iter().flat_map(|s| s.lines()) {
            let Some(name) = line.strip_prefix("    ").and_then(|l| l.split('(').next()) else {
                continue;
            };
            let starts = name.starts_with(|c: char| c.is_ascii_uppercase());
            if !starts || !line.contains('(') || name.contains(' ') {
                continue;
            }
            views += 1;
            let node = Node::new(name, [], []);
            assert!(find(&node, 17).is_some(), "{name} has a typed view but no kernel");
        }
        assert!(views >= 50, "only {views} typed views were found");
    }
}
