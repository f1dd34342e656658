//! Versions: which IR version a model needs, and which one it gets.

use onnxd_ir::{Attr, DataType, Graph, Model, Opsets, Tensor, ValueType};

/// The newest IR version that `onnx.proto` describes.
pub const IR_VERSION_MAX: i64 = 14;
/// The newest version of the standard's operators that goes with it.
pub const OPSET_MAX: i64 = 28;
/// The newest IR version that is chosen without need: current runtimes all read it.
pub const IR_VERSION_TARGET: i64 = 10;
/// The newest opset that is written without need: ONNX Runtime reads it since 1.20, of late 2024.
pub const OPSET_TARGET: i64 = 21;
/// What a runtime reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// The newest opset.
    pub opset: i64,
    /// The newest IR version.
    pub ir_version: i64,
}

/// Releases of ONNX Runtime 1.x from their minor version on, with opset and IR version. Releases from 1.15 to 1.31
/// were tried with models of all opsets and IR versions.
const RUNTIMES: &[(u32, i64, i64)] = &[
    (15, 19, 9),
    (17, 20, 9),
    (18, 21, 10),
    (21, 22, 10),
    (23, 23, 11),
    (24, 25, 13),
    (25, 26, 13),
];

/// ONNX Runtime GenAI, and the minor version of ONNX Runtime 1.x that its models are written for.
const GENAI: &str = "onnxruntime-genai";
const GENAI_MINOR: u32 = 23;

/// What the runtime reads that is named as `onnxruntime-1.23`, or `onnxruntime-genai`; `None` for another name or an
/// older version. Newer ones read at least what the newest known one does.
#[must_use]
pub fn read_by(runtime: &str) -> Option<Runtime> {
    if runtime == GENAI {
        return read_by(&format!("onnxruntime-1.{GENAI_MINOR}"));
    }
    let minor: u32 = runtime.strip_prefix("onnxruntime-1.")?.parse().ok()?;
    let (_, opset, ir_version) = *RUNTIMES.iter().rev().find(|(from, ..)| *from <= minor)?;
    Some(Runtime { opset, ir_version })
}

/// What a model becomes whose IR version is too old to be kept.
pub(crate) const IR_VERSION_RAISED: i64 = 8;
/// From this version on an initializer need not be listed as input; onnxd writes nothing older.
pub(crate) const IR_VERSION_MIN: i64 = 4;

/// First operator set that was released with an IR version (releases 1.4 to 1.23 of ONNX).
const OPSET_NEEDS: &[(i64, i64)] = &[
    (9, 4),
    (10, 5),
    (11, 6),
    (12, 7),
    (15, 8),
    (19, 9),
    (21, 10),
    (23, 11),
    (24, 12),
    (25, 13),
    (28, 14),
];

/// The IR version that `model` is written with.
///
/// Without `wanted` the model's own is kept, but at most `newest` ([`IR_VERSION_TARGET`] for current runtimes); one
/// below 4 becomes 8. In any case the result is not less than [`required_ir`], also where less was wanted.
pub fn choose_ir(model: &Model, wanted: Option<i64>, newest: i64) -> i64 {
    let kept = match model.ir_version {
        IR_VERSION_MIN.. => model.ir_version.min(newest),
        _ => IR_VERSION_RAISED,
    };
    wanted.unwrap_or(kept).max(required_ir(model))
}

/// The least IR version that can express `model`: what its operator sets were released with, and
/// what functions, element types, sparse tensors and annotations need.
///
/// `metadata_props` of nodes and values, which came with version 10, do not count: older readers
/// skip them.
pub fn required_ir(model: &Model) -> i64 {
    let mut needed = IR_VERSION_MIN.max(opset_needs(&model.opsets));
    for function in &model.functions {
        needed = needed.max(8).max(opset_needs(&function.opsets));
        if !function.defaults.is_empty() {
            needed = needed.max(9);
        }
        if !function.overload.is_empty() {
            needed = needed.max(10);
        }
    }
    let defaults = model.functions.iter().flat_map(|f| &f.defaults);
    needed = defaults.fold(needed, |needed, (_, attr)| needed.max(attr_needs(attr)));
    model.for_each_graph(|graph| needed = needed.max(graph_needs(graph)));
    needed
}

fn opset_needs(opsets: &Opsets) -> i64 {
    let standard = opsets.iter().filter(|(domain, _)| matches!(domain.as_str(), "" | "ai.onnx"));
    let version = standard.map(|(_, version)| *version).max().unwrap_or(0);
    let needs = OPSET_NEEDS.iter().filter(|(first, _)| *first <= version);
    needs.map(|(_, ir)| *ir).max().unwrap_or(IR_VERSION_MIN)
}

fn graph_needs(graph: &Graph) -> i64 {
    let mut needed = IR_VERSION_MIN;
    if !graph.annotations.is_empty() {
        needed = needed.max(5);
    }
    if !graph.sparse.is_empty() {
        needed = needed.max(6);
    }
    for id in graph.value_ids() {
        let value = &graph[id];
        needed = needed.max(value.ty.as_ref().map_or(0, type_needs));
        needed = needed.max(value.initializer().map_or(0, |t| dtype_needs(t.dtype())));
    }
    for (_, node) in graph.nodes() {
        if !node.overload.is_empty() {
            needed = needed.max(10);
        }
        needed = node.attrs.iter().fold(needed, |needed, (_, attr)| needed.max(attr_needs(attr)));
    }
    needed
}

/// Sub-graphs are visited on their own.
fn attr_needs(attr: &Attr) -> i64 {
    let tensors = |list: &[Tensor]| list.iter().map(|t| dtype_needs(t.dtype())).max().unwrap_or(0);
    match attr {
        Attr::Tensor(tensor) => dtype_needs(tensor.dtype()),
        Attr::Tensors(list) => tensors(list),
        Attr::Sparse(sparse) => dtype_needs(sparse.values.dtype()).max(6),
        Attr::Sparses(list) => {
            list.iter().map(|s| dtype_needs(s.values.dtype()).max(6)).max().unwrap_or(0)
        }
        Attr::Type(ty) => type_needs(ty),
        Attr::Types(list) => list.iter().map(type_needs).max().unwrap_or(0),
        _ => 0,
    }
}

fn type_needs(ty: &ValueType) -> i64 {
    match ty {
        ValueType::Tensor { dtype, .. } => dtype.map_or(0, dtype_needs),
        ValueType::Sparse { dtype, .. } => dtype.map_or(0, dtype_needs).max(8),
        ValueType::Sequence(of) | ValueType::Map(_, of) => type_needs(of),
        ValueType::Optional(of) => type_needs(of).max(8),
        ValueType::Opaque { .. } => 0,
    }
}

fn dtype_needs(dtype: DataType) -> i64 {
    use DataType::*;
    match dtype {
        Float8E4M3FN | Float8E4M3FNUZ | Float8E5M2 | Float8E5M2FNUZ => 9,
        Uint4 | Int4 => 10,
        Float4E2M1 => 11,
        Float8E8M0 => 12,
        Uint2 | Int2 => 13,
        _ => IR_VERSION_MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::Function;

    fn model(ir: i64, opset: i64) -> Model {
        Model::new(Graph::new("g"), ir, opset)
    }

    #[test]
    fn runtimes_read_opsets_up_to_theirs() {
        let read = |version: &str| {
            let found = read_by(&format!("onnxruntime-{version}"))?;
            Some((found.opset, found.ir_version))
        };
        let found = ["1.17", "1.20", "1.23", "1.40"].map(read);
        assert_eq!(found, [Some((20, 9)), Some((21, 10)), Some((23, 11)), Some((26, 13))]);
        assert_eq!(read_by(GENAI), read_by("onnxruntime-1.23"));
        for other in ["onnxruntime-1.2", "onnxruntime-1.x", "onnxruntime", "tensorrt-10"] {
            assert_eq!(read_by(other), None, "{other}");
        }
    }

    #[test]
    fn operator_sets_need_the_ir_version_they_were_released_with() {
        let cases = [(7, 4), (9, 4), (13, 7), (14, 7), (15, 8), (18, 8), (20, 9), (22, 10)];
        for (opset, ir) in cases {
            assert_eq!(required_ir(&model(4, opset)), ir, "operator set {opset}");
        }
        assert_eq!(required_ir(&model(4, OPSET_MAX)), IR_VERSION_MAX);
    }

    #[test]
    fn the_choice_keeps_raises_and_caps() {
        let choose_ir = |model: &Model, wanted| choose_ir(model, wanted, IR_VERSION_TARGET);
        assert_eq!(choose_ir(&model(3, 8), None), 8);
        assert_eq!(choose_ir(&model(3, 21), None), 10);
        assert_eq!(choose_ir(&model(6, 11), None), 6);
        assert_eq!(choose_ir(&model(4, 13), None), 7);
        assert_eq!(choose_ir(&model(13, 21), None), 10);
        assert_eq!(choose_ir(&model(13, 25), None), 13);
        assert_eq!(choose_ir(&model(8, 17), Some(12)), 12);
        assert_eq!(super::choose_ir(&model(10, 20), None, 9), 9, "what an older runtime reads");
        assert_eq!(choose_ir(&model(8, 17), Some(3)), 8);
    }

    #[test]
    fn constructs_raise_the_need() {
        let packed = |dtype| Tensor::new(dtype, vec![1], bytes::Bytes::from_static(&[1])).unwrap();
        for (dtype, ir) in [(DataType::Uint8, 4), (DataType::Int4, 10), (DataType::Int2, 13)] {
            let mut m = model(4, 7);
            m.graph.add_initializer("w", packed(dtype));
            assert_eq!(required_ir(&m), ir, "{dtype}");
        }
        let mut m = model(4, 7);
        m.functions.push(Function::default());
        assert_eq!(required_ir(&m), 8);
        m.functions[0].defaults.push(("axis".into(), Attr::Int(1)));
        assert_eq!(required_ir(&m), 9);
        m.functions[0].overload = "f16".into();
        assert_eq!(required_ir(&m), 10);
    }

    #[test]
    fn the_newest_ir_version_is_that_of_the_messages() {
        let newest = onnxd_proto::onnx::Version::IrVersion as i64;
        assert_eq!(IR_VERSION_MAX, newest);
    }
}
