"""Writes microsoft.txt from the schema registry of the `onnxruntime` package.

    python core/ir/src/schema/dump_microsoft.py > core/ir/src/schema/microsoft.txt

The form is described in `mod.rs`. Only operators that the executor or shape inference knows are
listed; `?` as version says that the domain has others, which pass through unseen.
"""

from types import SimpleNamespace

import onnx
import onnxruntime
from dump_schema import OPTION, dump
from onnx import defs
from onnxruntime.capi import onnxruntime_pybind11_state as state

# `LayerNormalization` without its beta; the runtime keeps it in the standard's own domain.
STANDARD = {"SimplifiedLayerNormalization"}
MICROSOFT = set("""
    Attention BiasGelu DequantizeLinear DynamicQuantizeLSTM DynamicQuantizeMatMul
    EmbedLayerNormalization FastGelu FusedConv FusedGemm FusedMatMul GatherBlockQuantized Gelu
    GroupQueryAttention MatMulInteger16 MatMulIntegerToFloat MatMulNBits MultiHeadAttention
    NhwcMaxPool
    QAttention QEmbedLayerNormalization QGemm QLinearAdd QLinearAveragePool QLinearConcat
    QLinearConv QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean
    QLinearSigmoid QLinearSoftmax QLinearWhere QuantizeLinear QuickGelu RotaryEmbedding
    SkipLayerNormalization SkipSimplifiedLayerNormalization Tokenizer Trilu
""".split())


def parameter(p):
    option = OPTION.__members__[str(p.option).rsplit(".", 1)[1]]
    return SimpleNamespace(
        name=p.name, option=option, min_arity=1, is_homogeneous=p.isHomogeneous, type_str=p.typeStr
    )


def attribute(a):
    kind = defs.OpSchema.AttrType.__members__[str(a.type).rsplit(".", 1)[1]]
    value = onnx.AttributeProto.FromString(a._default_value)
    return SimpleNamespace(name=a.name, type=kind, required=a.required, default_value=value)


def schema(s):
    return SimpleNamespace(
        domain=s.domain, name=s.name, since_version=s.since_version, deprecated=s.deprecated,
        inputs=[parameter(p) for p in s.inputs], outputs=[parameter(p) for p in s.outputs],
        attributes={name: attribute(a) for name, a in s.attributes.items()},
        type_constraints=s.type_constraints,
        min_input=s.min_input, max_input=s.max_input,
        min_output=s.min_output, max_output=s.max_output,
    )


def main():
    known = {"": STANDARD, "com.microsoft": MICROSOFT}
    found = [s for s in state.get_all_operator_schema() if s.name in known.get(s.domain, ())]
    missing = STANDARD | MICROSOFT
    missing -= {s.name for s in found}
    if missing:
        raise SystemExit(f"onnxruntime has no operator {sorted(missing)}")
    print(f"# onnxruntime {onnxruntime.__version__}; written by dump_microsoft.py")
    dump(sorted(map(schema, found), key=lambda s: (s.domain, s.name)), dict.fromkeys(known, "?"))


if __name__ == "__main__":
    main()
