//! Operators that have no counterpart in ONNX: of TensorFlow above all strings and tables, code of Python, files,
//! queues, data sets, training.

use super::RowContext;
use onnxd_plugin_sdk::lower::Table;

/// Reasons, as ends of sentences, and indented below each the operators that share it.
const REFUSED: &str = include_str!("refused.txt");

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    said(table, REFUSED)
}

/// Adds operators with the reasons of such a text.
pub(crate) fn said(mut table: Table<RowContext>, text: &'static str) -> Table<RowContext> {
    let mut reason = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix(' ') {
            None => reason = line,
            Some(operators) => {
                table =
                    operators.split_whitespace().fold(table, |table, op| table.refused(op, reason));
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::REFUSED;
    use crate::ops::{RowContext, table};
    use onnxd_plugin_sdk::ir::{Graph, Opsets};
    use onnxd_plugin_sdk::lower::{Driver, Fallback, Lowering};

    /// Operators that the reader of graphs runs itself.
    const RUN: &str = "Assert Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp Case \
        CheckNumericsV2 Const ControlTrigger DestroyResourceOp DisableCopyOnRead EmptyTensorList Enter \
        Exit If IsVariableInitialized LoopCond Merge NextIteration NoOp PartitionedCall Placeholder \
        PlaceholderV2 PrintV2 ReadVariableOp RefEnter RefExit RefMerge RefNextIteration RefSwitch RemoteCall \
        ResourceGather ResourceGatherNd StatefulPartitionedCall StatelessCase StatelessIf \
        StatelessWhile Switch VarHandleOp VarIsInitializedOp Variable VariableShape VariableV2 While";

    #[test]
    fn no_operator_is_refused_twice() {
        let lines = REFUSED.lines().filter(|line| line.starts_with(' '));
        let mut all: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        all.sort_unstable();
        let twice: Vec<&str> = all.windows(2).filter(|w| w[0] == w[1]).map(|w| w[0]).collect();
        assert!(all.len() > 400 && twice.is_empty(), "{} {twice:?}", all.len());
    }

    #[test]
    fn every_operator_is_converted_or_refused_with_a_reason() {
        let table = table();
        let rows = table.operators();
        let source = RowContext::default();
        let lines = include_str!("../schema/operators.txt").lines();
        let names = lines.filter_map(|line| line.split('(').next());
        let open = |op: &&str| {
            let opsets = Opsets::from([(String::new(), 18)]);
            let driver = Driver::new(&table, &source, Graph::new("g"), opsets, Fallback::default());
            driver.lower(Lowering { op: (*op).to_owned(), ..Lowering::default() });
            let found = driver.finish().err().unwrap_or_default();
            found.0.iter().any(|found| found.to_string().contains("is not known"))
        };
        // Lists have rows of their kinds.
        let taken = |op: &&str| {
            rows.binary_search(op).is_ok()
                || rows.contains(&format!("complex::{op}").as_str())
                || op.starts_with("TensorList")
                || op.starts_with("TensorArray")
                || RUN.split_whitespace().any(|run| run == *op)
        };
        let unknown: Vec<&str> = names.filter(|op| !taken(op)).filter(open).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
