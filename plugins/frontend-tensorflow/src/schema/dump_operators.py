"""Prints `operators.txt`: `python dump_operators.py > operators.txt`, with TensorFlow installed.

A line is an operator with its inputs, its attributes and its outputs, sorted by name:

    ConcatV2(values*N, axis; N: int, T: type, Tidx: type = int32) -> output

`values*N` is a list with as many tensors as the attribute N says, and `input**Tin` one with as many as the list Tin
has types. Operators that no saved model of a network calls (of the input pipeline, devices and collectives) are left
out, and so are attributes that say nothing of the result.
"""

import re

from tensorflow.python.framework import op_def_registry
from tensorflow.core.framework import types_pb2
# Registers the operators of XLA.
from tensorflow.compiler.tf2xla.ops import gen_xla_ops  # noqa: F401
import tensorflow as tf

LEFT_OUT = re.compile(
    r"^_|Dataset|TPU|Tpu|Xla|XLA|Collective|Nccl|Boosted|Grad$|GradV2$|^Sparse?Apply|^Resource(Sparse)?Apply|^Sparse?Apply|Tensor?Forest"
    r"|Summary|Debug|Iterator|Barrier|^Stage|^Map(Stage|Unstage|Size|Clear|Peek|Incomplete)|OrderedMap|Risc|DTensor|Uniform(Quant|Dequ)"
    r"|Backprop(Filter|Bias)|^Stats|^SdcaO|Load.*Parameters|Retrieve.*Parameters|Ragged?Cross|^Cudnn|^Mlir|^Batch(Function)?$|KafkaD"
)
KEPT = {"IteratorGetNext", "TensorForestTreePredict", "XlaConv", "XlaConvV2", "XlaDynamicSlice", "XlaDynamicUpdateSlice"}
# What TensorFlow's optimizer puts in place of several operators.
KEPT |= {"_FusedMatMul", "_FusedConv2D", "_FusedConv3D", "_FusedDepthwiseConv2dNative", "_FusedBatchNormEx"}


def word(number):
    return types_pb2.DataType.Name(number)[3:].lower()


def default(kind, value):
    if kind.startswith("list("):
        items = getattr(value.list, {"int": "i", "float": "f", "bool": "b", "string": "s", "type": "type", "shape": "shape"}.get(kind[5:-1], "s"))
        return "[" + ", ".join(one(kind[5:-1], v) for v in items) + "]"
    return one(kind, {"int": value.i, "float": value.f, "bool": value.b, "string": value.s, "type": value.type}.get(kind, value.shape))


def one(kind, v):
    if kind == "string":
        text = v.decode("utf-8", "replace").replace('"', "'").replace("\n", "\\n")
        return f'"{text}"'
    if kind == "bool":
        return "true" if v else "false"
    if kind == "type":
        return word(v)
    if kind == "float":
        return repr(round(v, 9)) if abs(v) < 1e9 else repr(v)
    if kind == "int":
        return str(v)
    return "?" if getattr(v, "unknown_rank", True) else "[" + ", ".join(str(d.size) for d in v.dim) + "]"


def arg(a):
    if a.number_attr:
        return f"{a.name}*{a.number_attr}"
    return f"{a.name}**{a.type_list_attr}" if a.type_list_attr else a.name


for name in sorted(set(tf.raw_ops.__dict__) | KEPT):
    op = op_def_registry.get(name)
    if op is None or (LEFT_OUT.search(name) and name not in KEPT):
        continue
    inputs = ", ".join(arg(a) for a in op.input_arg)
    attrs = ", ".join(
        f"{a.name}: {a.type}" + (f" = {default(a.type, a.default_value)}" if a.HasField("default_value") else "")
        for a in op.attr
    )
    outputs = ", ".join(arg(a) for a in op.output_arg)
    print(f"{name}({inputs}{'; ' if attrs else ''}{attrs}) -> {outputs}".rstrip())
