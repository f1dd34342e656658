#!/usr/bin/env python3
"""Judge the built-in executor on random integer graphs: it must give ONNX Runtime's bits.

    integer_graphs.py --onnxd target/release/onnxd [--seeds 0:2000] [--only KIND] [--per-model 50]

Every seed gives one small graph, always the same: a quantization operator alone with whatever its definition allows,
or a chain as quantizers and integer exporters write them. ONNX Runtime computes each alone, without graph optimization;
onnxd computes many in one model. Integers must be equal, and floats have equal bits, except where a float operator whose
rounding the standard leaves open (Conv, MatMul, Sigmoid, ...) sits in the chain with scales that make it inexact: there an
integer may be off by one.

What ONNX Runtime has no kernel for is judged by ONNX's reference evaluator, if that can, and counted as such.
Left out, because another program's answer has no definite meaning there:
- where the product of 16-bit scales of QLinearMatMul is rounded: the runtime has no kernel, results may be off by three;
- quantizing NaN to integers: the standard does not say what it becomes;
- products of scales that float cannot hold: a sum of zero times infinity is NaN;
- quotients of float16 that are rounded to another integer when they are computed in float: the runtime does that, and
  the reference evaluator, which judges types that the runtime has no kernel for, does not;
- quotients beyond 32 bits that are quantized from 16-bit floats, to 4 bits or in blocks: the runtime turns them into
  integers before it limits them, so that large ones become the least (the standard demands saturation; from `float` to 8
  and 16 bits without blocks the runtime saturates, and this is judged);
- without `saturate`, what would round to 480 in E4M3FN (NaN, the runtime gives 448) and to 65536 in E5M2 (infinity, the
  runtime gives NaN).
Sums of products of signed 8-bit weights saturate in 16 bits in ONNX Runtime on x86 processors without dot-product
instructions, although the operators are defined as exact. Therefore it also computes a twin of each graph, in which all
operands of integer products are unsigned, 128 more with a zero point 128 more. What the twin gives is expected; where
it differs from the graph itself this is counted as `saturated`.
Needs numpy, ml_dtypes, onnx, onnxruntime.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import warnings

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

warnings.filterwarnings("ignore", category=RuntimeWarning)
onnxruntime.set_default_logger_severity(4)

U8, S8, I32, F32, F16, I64 = np.uint8, np.int8, np.int32, np.float32, np.float16, np.int64
BYTES = [U8, S8]
BF16 = ml_dtypes.bfloat16
NARROW = [ml_dtypes.int4, ml_dtypes.uint4]
EIGHT = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz]
FOUR = [ml_dtypes.float4_e2m1fn]
QUANTIZED = {10: BYTES, 13: BYTES, 19: BYTES + EIGHT, 21: BYTES + EIGHT + NARROW + [np.int16, np.uint16]}
QUANTIZED[23] = QUANTIZED[25] = QUANTIZED[21] + FOUR
REALS = {10: [F32], 13: [F32], 19: [F32, F16, BF16], 21: [F32, F16, BF16], 23: [F32, F16, BF16], 25: [F32, F16, BF16]}
ODD = NARROW + EIGHT + FOUR + [BF16]
SHOWN = {**{d: np.int8 for d in NARROW}, **{d: F32 for d in EIGHT + FOUR + [BF16]}}


def code(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def is_integer(dtype):
    return dtype in NARROW or np.dtype(dtype).kind in "iu"


def limits(dtype):
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


class Case:
    """One graph that is being made."""

    def __init__(self, seed, opsets):
        self.rng, self.seed = np.random.default_rng(seed), seed
        self.opset = self.pick(opsets)
        self.nodes, self.inits, self.feeds, self.outputs, self.count = [], [], {}, [], 0
        self.fed = self.chance(0.5)

    # ---- chance ----

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def shape(self, rank, most=6):
        return tuple(self.int(1, most) for _ in range(rank))

    def scale(self, dtype=F32, tame=False):
        """One positive scale: usual, a power of two, or at the edges of the type."""
        kind = self.pick(["usual"] * 4 + ["power"] * 3 + (["edge"] if not tame else []))
        if kind == "power":
            return np.array(2.0 ** self.int(-7, 3), dtype)
        if kind == "edge":
            info = ml_dtypes.finfo(dtype)
            least = [float(info.smallest_subnormal) * self.int(1, 9), float(info.smallest_normal)]
            return np.array(self.pick(least + [float(info.max) / 3, float(info.max)]), dtype)
        return np.array(10 ** self.rng.uniform(-3, 0.5), dtype)

    def scales(self, shape, dtype=F32, tame=False):
        n = int(np.prod(shape))
        return np.array([self.scale(dtype, tame) for _ in range(n)], dtype).reshape(shape)

    def integers(self, dtype, shape, bits=None):
        low, high = limits(dtype)
        if bits:
            low, high = max(low, -(1 << bits)), min(high, 1 << bits)
        if self.chance(0.2):
            return self.rng.choice(np.array([low, high, 0, 1], np.int64), shape).astype(dtype)
        return self.rng.integers(low, high, shape, endpoint=True).astype(dtype)

    def reals(self, dtype, shape, scale, span):
        """Numbers around what `scale` maps to `span` steps: inside, ties, far outside, infinities, denormals."""
        n = int(np.prod(shape))
        s = np.broadcast_to(np.asarray(scale, np.float64), (n,)) if np.size(scale) == 1 else float(np.max(scale))
        x = self.rng.uniform(-1.2 * span, 1.2 * span, n) * s
        ties = (self.rng.integers(-span, span + 1, n) + 0.5) * s
        x = np.where(self.rng.random(n) < 0.3, ties, x)
        odd = self.rng.choice([0.0, -0.0, np.inf, -np.inf, 1e30, -1e30, 1e-45, 3e-39, 2.0**31, -(2.0**31), 2.0**63], n)
        x = np.where(self.rng.random(n) < 0.1, odd, x)
        return x.astype(dtype).reshape(shape)

    # ---- graph ----

    def name(self):
        self.count += 1
        return f"c{self.seed}_{self.count}"

    def const(self, array):
        name = self.name()
        self.inits.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def data(self, array):
        """An input of the graph, or a constant where half of the graphs and odd types have one."""
        if not self.fed or array.dtype.type in ODD:
            return self.const(array)
        name = self.name()
        self.feeds[name] = np.asarray(array)
        return name

    def op(self, kind, *inputs, outputs=1, **attrs):
        names = [self.name() for _ in range(outputs)]
        inputs = list(inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        self.nodes.append(helper.make_node(kind, [x or "" for x in inputs], names, name=names[0], **attrs))
        return names[0] if outputs == 1 else names

    def cast(self, x, dtype):
        return self.op("Cast", x, to=code(dtype))

    def out(self, x, dtype, slack=0):
        """An output; types that numpy lacks are shown through ones that hold their values."""
        if dtype in SHOWN:
            x, dtype = self.cast(x, SHOWN[dtype]), SHOWN[dtype]
        self.outputs.append((x, code(dtype), slack))


def model_of(cases):
    graph_inputs, outputs, nodes, inits = [], [], [], []
    for c in cases:
        nodes += c.nodes
        inits += c.inits
        graph_inputs += [helper.make_tensor_value_info(n, code(a.dtype), a.shape) for n, a in c.feeds.items()]
        outputs += [helper.make_tensor_value_info(n, t, None) for n, t, _ in c.outputs]
    graph = helper.make_graph(nodes, "integers", graph_inputs, outputs, inits)
    opset = [helper.make_opsetid("", cases[0].opset)]
    return helper.make_model(graph, opset_imports=opset, ir_version={10: 5, 13: 7, 19: 9, 21: 10, 23: 11}.get(cases[0].opset, 12))


# ---- single operators ----


def layout(c, shape, real, tame=False):
    """A form of scale that fits a shape: (scale array, attributes, shape that broadcasts against the tensor)."""
    forms = ["scalar", "scalar", "one"] + ["axis"] * 3 * (c.opset >= 13 and len(shape) > 0)
    form = c.pick(forms + ["blocked"] * 2 * (c.opset >= 21 and len(shape) > 0))
    if form in ("scalar", "one"):
        scale = c.scales(() if form == "scalar" else (1,), real, tame)
        return scale, ({"axis": 0} if form == "one" and shape and c.opset >= 13 and c.chance(0.3) else {}), scale.reshape(())
    axis = c.int(0, len(shape) - 1)
    attrs = {} if axis == 1 and c.chance(0.5) else {"axis": axis - len(shape) if c.chance(0.4) else axis}
    if form == "axis":
        scale = c.scales((shape[axis],), real, tame)
        return scale, attrs, scale.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    block = c.int(1, shape[axis])
    blocks = -(-shape[axis] // block)
    scale = c.scales(tuple(blocks if i == axis else d for i, d in enumerate(shape)), real, tame)
    wide = np.repeat(scale, block, axis=axis).take(range(shape[axis]), axis=axis)
    return scale, {**attrs, "block_size": block}, wide


def zero_like(c, dtype, scale, p=0.7):
    """A zero point of the shape of the scale, or none."""
    if not c.chance(p):
        return None
    if not is_integer(dtype):
        return np.zeros(scale.shape, dtype)
    return np.zeros(scale.shape, dtype) if c.chance(0.2) else c.integers(dtype, scale.shape)


def spread(c, shape, wide, dtype, real, bounded):
    """Numbers of which each lies around the range of its own scale."""
    span = limits(dtype)[1] if is_integer(dtype) else float(ml_dtypes.finfo(dtype).max)
    steps = c.reals(np.float64, shape, 1.0, max(int(min(span, 1e6)), 1))
    bounded = bounded or real is not F32 or dtype in NARROW
    steps = steps.clip(-(2.0**30), 2.0**30) if bounded else steps
    most = float(ml_dtypes.finfo(real).max)
    x = steps * np.broadcast_to(wide, shape).astype(np.float64)
    x = (x.clip(-most, most) if bounded else x).astype(real)
    return np.nan_to_num(x.astype(np.float64), nan=1.0, posinf=np.inf, neginf=-np.inf).astype(real)


def quantize(c):
    real, dtype = c.pick(REALS[c.opset]), c.pick(QUANTIZED[c.opset])
    shape = c.shape(c.int(0, 4))
    scale, attrs, wide = layout(c, shape, real)
    zero = zero_like(c, dtype, scale)
    if zero is None and c.opset >= 21:
        attrs["output_dtype"] = code(dtype)
    elif zero is None:
        dtype = U8
    if c.opset >= 23 and real is BF16 and c.chance(0.4):
        attrs["precision"] = code(c.pick([F32, BF16]))
    if dtype in EIGHT and c.chance(0.5):
        attrs["saturate"] = c.int(0, 1)
    x = spread(c, shape, wide, dtype, real, "block_size" in attrs)
    if attrs.get("saturate") == 0:
        steps = np.abs(x.astype(F32) / np.broadcast_to(wide, shape).astype(F32))
        x = np.where((470 < steps) & (steps < 513) | (6e4 < steps) & (steps < 7e4), real(0), x)
    if real is F16:
        def steps(quotient):
            return np.rint(quotient.clip(-65504, 65504)) if is_integer(dtype) else quotient.astype(dtype).astype(F32)
        with np.errstate(all="ignore"):
            divisor = np.broadcast_to(wide, shape)
            halves, floats = x / divisor, x.astype(F32) / divisor.astype(F32)
            same = (np.isinf(halves) == np.isinf(floats)) & (steps(halves) == steps(floats)) | np.isnan(x)
        x = np.where(same, x, real(0))
    if real is F32 and c.chance(0.08) and is_integer(dtype):
        x, scale = c.integers(I32, shape, 20), np.maximum(scale, F32(1e-3))
        if c.opset >= 19:
            scale = np.maximum(np.abs(scale), 1).clip(1, 1e4).astype(I32)
    q = c.op("QuantizeLinear", c.data(x), c.const(scale), zero is not None and c.const(zero), **attrs)
    c.out(q, dtype)
    if c.chance(0.3) and scale.dtype != I32:
        known = ("axis", "block_size")
        back = c.op("DequantizeLinear", q, c.const(scale), zero is not None and c.const(zero), **{k: v for k, v in attrs.items() if k in known})
        c.out(back, real)


def dequantize(c):
    real, dtype = c.pick(REALS[c.opset]), c.pick(QUANTIZED[c.opset] + [I32] * 2)
    shape = c.shape(c.int(0, 4))
    scale, attrs, _ = layout(c, shape, real)
    zero = zero_like(c, dtype, scale)
    if dtype is I32 and zero is not None:
        zero = np.zeros_like(zero)
    if is_integer(dtype):
        x = c.integers(dtype, shape)
    else:
        with np.errstate(all="ignore"):
            x = (c.rng.standard_normal(shape) * 10 ** c.rng.uniform(-3, 3)).astype(dtype)
    y = real
    if c.opset >= 23 and c.chance(0.3):
        y = c.pick(REALS[c.opset])
        attrs["output_dtype"] = code(y)
    c.out(c.op("DequantizeLinear", c.data(x), c.const(scale), zero is not None and c.const(zero), **attrs), y)


def dynamic(c):
    shape = c.shape(c.int(0, 4))
    x = c.rng.standard_normal(shape).astype(F32) * F32(10 ** c.rng.uniform(-3, 3)) + F32(c.pick([0, 0, 5, -5, 1e4]))
    if c.chance(0.1):
        x = np.full(shape, c.pick([0.0, -0.0, 1.0, -1.0, 3e38, 1e-44]), F32)
    if c.chance(0.1):
        x = (x * 0 + c.integers(I32, shape, 7)).astype(F32)
    x = np.asarray(x, F32)
    for y, dtype in zip(c.op("DynamicQuantizeLinear", c.data(x), outputs=3), (U8, F32, U8)):
        c.out(y, dtype)


def window(c, size, kernel):
    """Attributes of a convolution, by chance, that leave an output."""
    n, attrs = len(size), {}
    if c.chance(0.5):
        attrs["strides"] = [c.int(1, 3) for _ in size]
    dilations = [c.int(1, 2) if 2 * k - 1 <= d else 1 for k, d in zip(kernel, size)]
    if c.chance(0.3):
        attrs["dilations"] = dilations
    auto = c.pick(["", "", "", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
    if auto:
        attrs["auto_pad"] = auto
    if auto in ("", "NOTSET") and c.chance(0.6):
        attrs["pads"] = [c.int(0, 2) for _ in range(2 * n)]
    if c.chance(0.5):
        attrs["kernel_shape"] = list(kernel)
    return attrs


def conv_operands(c, x_type=None, w_type=None, bits=None, rank=None):
    rank = rank or c.pick([1, 2, 2, 2, 3])
    group = c.pick([1, 1, 1, 2, 3])
    per, out = c.int(1, 5), c.int(1, 5)
    per, out = (1, c.int(1, 2)) if group > 1 and c.chance(0.5) else (per, out)
    kernel = c.shape(rank, 3)
    size = tuple(k + c.int(0, 5) for k in kernel)
    x = c.integers(x_type or c.pick(BYTES), (c.int(1, 2), per * group, *size), bits)
    w = c.integers(w_type or c.pick(BYTES), (out * group, per, *kernel), bits)
    attrs = window(c, size, kernel)
    if group > 1 or c.chance(0.2):
        attrs["group"] = group
    return x, w, attrs


def zero_of(c, array, shapes):
    return c.integers(array.dtype.type, c.pick(shapes))


def conv_integer(c):
    x, w, attrs = conv_operands(c)
    zx = c.chance(0.6) and zero_of(c, x, [()])
    zw = c.chance(0.5) and zero_of(c, w, [(), (w.shape[0],)])
    given = [c.const(z) if z is not False else None for z in (zx, zw)]
    c.out(c.op("ConvInteger", c.data(x), c.const(w) if c.chance(0.7) else c.data(w), *given, **attrs), I32)


def product_operands(c):
    m, k, n = c.int(1, 7), c.int(1, 40), c.int(1, 20)
    a_batch, b_batch = c.pick([((), ()), ((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)), ((1, 2), (3, 1))])
    a, b = c.integers(c.pick(BYTES), (*a_batch, m, k)), c.integers(c.pick(BYTES), (*b_batch, k, n))
    if not a_batch and not b_batch and c.chance(0.15):
        a = a[0]
    elif not a_batch and not b_batch and c.chance(0.1):
        b = b[:, 0]
    return a, b


def column_shapes(b):
    shapes = [(), (), (1,)]
    if b.ndim == 2:
        shapes += [(b.shape[-1],)] * 2
    if b.ndim > 2:
        shapes += [(*b.shape[:-2], 1, b.shape[-1])]
    return shapes


def matmul_integer(c):
    a, b = product_operands(c)
    za = c.chance(0.6) and zero_of(c, a, [(), (1,)] + ([(a.shape[-2],)] if a.ndim == 2 else []))
    zb = c.chance(0.6) and zero_of(c, b, column_shapes(b))
    given = [c.const(z) if z is not False else None for z in (za, zb)]
    c.out(c.op("MatMulInteger", c.data(a), c.const(b) if c.chance(0.7) else c.data(b), *given), I32)


def fitting(c, a, b, ways):
    """A scale for results so that some saturate and some do not, or any scale."""
    if c.chance(0.15):
        return c.scale()
    return np.array(float(a) * float(np.max(b)) * np.sqrt(ways) * 60 * 10 ** c.rng.uniform(-1, 1), F32)


def qlinear_conv(c):
    x, w, attrs = conv_operands(c)
    y_type = x.dtype.type if c.chance(0.8) else c.pick(BYTES)
    xs, ws = c.scale(tame=c.chance(0.9)), c.scales(c.pick([(), (1,), (w.shape[0],)]), tame=c.chance(0.9))
    zw = np.zeros(ws.shape, w.dtype) if c.chance(0.4) else zero_of(c, w, [(), ws.shape])
    ys = fitting(c, xs, ws, np.prod(w.shape[1:]))
    if not np.isfinite(ys) or ys == 0:
        ys = np.array(1, F32)
    with np.errstate(all="ignore"):
        if not np.isfinite(xs * ws / ys).all():  # times a sum of zero that is NaN
            ys, ws = np.array(1, F32), np.where(np.isfinite(xs * ws), ws, F32(1))
    zx, zy = zero_of(c, x, [()]), np.array(c.integers(y_type, ()), y_type)
    bias = c.chance(0.6) and c.integers(I32, (w.shape[0],), c.pick([8, 16, 30]))
    given = [c.const(v) for v in (xs, zx, w, ws, zw, ys, zy)]
    c.out(c.op("QLinearConv", c.data(x), *given, bias is not False and c.const(bias), **attrs), y_type)


def qlinear_matmul(c):
    a, b = product_operands(c)
    y_type = a.dtype.type if c.chance(0.8) else c.pick(BYTES)
    real = c.pick(REALS[c.opset]) if c.opset >= 21 and c.chance(0.3) else F32
    tame = real is not F32 or c.chance(0.9)
    sa = c.scales(c.pick([(), (1,)] + ([(a.shape[-2],)] if a.ndim == 2 and c.chance(0.2) else [])), real, tame)
    sb = c.scales(c.pick(column_shapes(b)), real, tame)
    zb = c.integers(b.dtype.type, sb.shape)
    ys = np.array(fitting(c, np.max(sa), sb, a.shape[-1]), real)
    if not np.isfinite(ys.astype(F32)) or ys == 0:
        ys = np.array(1, real)
    given = [c.const(v) for v in (sa, c.integers(a.dtype.type, sa.shape))]
    rest = [c.const(v) for v in (sb, zb, ys, np.array(c.integers(y_type, ()), y_type))]
    c.out(c.op("QLinearMatMul", c.data(a), *given, c.const(b) if c.chance(0.7) else c.data(b), *rest), y_type, 0 if real is F32 else 3)


# ---- chains ----


def quant_pair(c, x, dtype, scale, zero):
    """Quantize and dequantize: (integers, reals)."""
    s, z = c.const(scale), c.const(zero)
    q = c.op("QuantizeLinear", x, s, z)
    return q, c.op("DequantizeLinear", q, s, z)


def parameters(c, dtype, exact):
    scale = np.array(2.0 ** c.int(-5, -1), F32) if exact else c.scale(tame=True)
    return scale, np.array(c.integers(dtype, (), 5), dtype)


def qdq_network(c):
    """Float operators between quantizers; with scales that are powers of two nothing is rounded in between."""
    exact, dtype = c.chance(0.6), c.pick(BYTES)
    scale, zero = parameters(c, dtype, exact)
    channels, size = c.int(1, 4), c.int(3, 7)
    shape = (c.int(1, 2), channels, size, size)
    x = c.data(c.reals(F32, shape, scale, 100).clip(-1e4, 1e4))
    q, x = quant_pair(c, x, dtype, scale, zero)
    c.out(q, dtype)
    slack = 0
    for _ in range(c.int(1, 3)):
        kind = c.pick(["Conv", "Conv", "Relu", "Add", "MaxPool", "AveragePool", "Sigmoid", "Concat", "Transpose", "Reshape"])
        if kind == "Conv":
            out = c.int(1, 4)
            ws = np.array([2.0 ** c.int(-7, -3) if exact else c.scale(tame=True) for _ in range(out)], F32)
            w = c.integers(S8, (out, shape[1], 1, 1) if min(shape[2:]) < 3 or c.chance(0.3) else (out, shape[1], 3, 3))
            dq = {"axis": 0} if c.opset >= 13 else {}
            ws = ws if dq else ws[0]
            real = c.op("DequantizeLinear", c.const(w), c.const(ws), c.const(np.zeros(ws.shape, S8)), **dq)
            bias = c.op("DequantizeLinear", c.const(c.integers(I32, (out,), 10)), c.const(ws * scale), **dq)
            x = c.op("Conv", x, real, bias, pads=[1, 1, 1, 1] if w.shape[2] == 3 else [0] * 4)
            shape, slack = (shape[0], out, *shape[2:]), slack if exact else 1
        elif kind in ("Relu", "Sigmoid"):
            x, slack = c.op(kind, x), 1 if kind == "Sigmoid" else slack
        elif kind == "Add":
            x = c.op("Add", x, x)
        elif kind in ("MaxPool", "AveragePool") and min(shape[2:]) >= 2:
            x = c.op(kind, x, kernel_shape=[2, 2])
            shape, slack = (*shape[:2], shape[2] - 1, shape[3] - 1), slack if kind == "MaxPool" or exact else 1
        elif kind == "Concat":
            x = c.op("Concat", x, x, axis=1)
            shape = (shape[0], 2 * shape[1], *shape[2:])
        elif kind == "Transpose":
            x = c.op("Transpose", x, perm=[0, 1, 3, 2])
            shape = (*shape[:2], shape[3], shape[2])
        elif kind == "Reshape":
            x = c.op("Reshape", x, c.const(np.array(shape, I64)))
        dtype = c.pick(BYTES)
        scale, zero = parameters(c, dtype, exact)
        q, x = quant_pair(c, x, dtype, scale, zero)
        c.out(q, dtype, slack)
        if slack:
            return
    c.out(x, F32)


def integer_layer(c, x, shape, x_type):
    """ConvInteger or MatMulInteger with a bias in 32 bits: (sums, shape, shape of one number per output)."""
    if len(shape) == 4:
        out, kernel = c.int(1, 5), c.int(1, min(3, *shape[2:]))
        w = c.integers(S8, (out, shape[1], kernel, kernel))
        pads = [c.int(0, kernel - 1) for _ in range(4)]
        attrs = {"pads": pads, "strides": [1, 1], "dilations": [1, 1], "group": 1, "kernel_shape": [kernel] * 2}
        y = c.op("ConvInteger", x, c.const(w), **attrs)
        h, wide = (d + pads[i] + pads[i + 2] - kernel + 1 for i, d in enumerate(shape[2:]))
        shape, each = (shape[0], out, h, wide), (1, out, 1, 1)
    else:
        out = c.int(1, 8)
        y = c.op("MatMulInteger", x, c.const(c.integers(S8, (shape[1], out))))
        shape, each = (shape[0], out), (1, out)
    return c.op("Add", y, c.const(c.integers(I32, each, c.pick([8, 14])))), shape, each


def float_rescale(c, y, each, low, high, dtype):
    factor = np.array(10 ** c.rng.uniform(-4, -1), F32)
    factor = c.scales(each, tame=True) * F32(0.01) if c.chance(0.5) else factor
    y = c.op("Mul", c.cast(y, F32), c.const(factor))
    way = c.pick(["even", "away", "up"])
    if way == "even" and c.opset >= 11:
        y = c.op("Round", y)
    elif way == "away":
        sign = c.op("Sign", y)
        y = c.op("Mul", sign, c.op("Floor", c.op("Add", c.op("Abs", y), c.const(F32(0.5)))))
    else:
        y = c.op("Floor", c.op("Add", y, c.const(F32(0.5))))
    if c.opset >= 12 and c.chance(0.3):
        y = c.cast(y, I32)
        return c.cast(c.op("Clip", y, c.const(I32(low)), c.const(I32(high))), dtype)
    return c.cast(c.op("Clip", y, c.const(F32(low)), c.const(F32(high))), dtype)


def shift_rescale(c, y, each, low, high, dtype):
    shift = c.int(4, 12)
    if c.chance(0.3):
        y = c.op("Max", y, c.const(I32(0)))
        shifts = c.rng.integers(1, shift + 1, each).astype(np.uint32) if c.chance(0.5) else np.uint32(shift)
        y = c.op("BitShift", c.cast(y, np.uint32), c.const(shifts), direction="RIGHT")
        return c.cast(c.op("Clip", c.cast(y, I32), c.const(I32(low)), c.const(I32(high))), dtype)
    factor = c.rng.integers(1, 1 << 12, each if c.chance(0.5) else ()).astype(I64)
    y = c.op("Add", c.op("Mul", c.cast(y, I64), c.const(factor)), c.const(I64(1 << (shift - 1))))
    step = c.const(I64(1 << shift))
    rest = c.op("Mod", y, step)
    y = c.op("Div", c.op("Sub", y, rest), step) if c.chance(0.8) else c.op("Div", y, step)
    return c.cast(c.op("Clip", y, c.const(I64(low)), c.const(I64(high))), dtype)


def integer_network(c):
    """Integers throughout: sums in 32 bits, rescaled by a float factor, a fixed-point factor or a shift."""
    bits = c.pick([8, 8, 8, 4])
    dtype = c.pick(BYTES)
    shape = (c.int(1, 2), c.int(1, 4), c.int(2, 6), c.int(2, 6)) if c.chance(0.7) else (c.int(1, 3), c.int(1, 30))
    x = c.data(c.integers(dtype, shape))
    for _ in range(c.int(1, 3)):
        if len(shape) == 4 and c.chance(0.2):
            shape = (shape[0], int(np.prod(shape[1:])))
            x = c.op("Flatten", x, axis=1)
        if len(shape) == 4 and min(shape[2:]) >= 2 and c.chance(0.3) and c.opset >= 12:
            x = c.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4)
            shape = (*shape[:2], shape[2] // 2, shape[3] // 2)
        y, shape, each = integer_layer(c, x, shape, dtype)
        c.out(y, I32)
        if c.opset >= 14 and c.chance(0.4):
            y = c.op("Relu", y)
        dtype = c.pick(BYTES)
        low, high = (0, (1 << bits) - 1) if dtype is U8 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        rescale = c.pick([float_rescale, shift_rescale]) if c.opset >= 12 else float_rescale
        if c.opset < 11:
            return
        x = rescale(c, y, each, low, high, dtype)
        c.out(x, dtype)
        if c.chance(0.3):
            wide = c.op("Add", c.cast(x, I32), c.cast(x, I32))
            wide = c.op("Min", wide, c.const(I32(high))) if c.opset >= 12 else wide
            c.out(wide, I32)


def dynamic_network(c):
    """What dynamic quantization of a linear layer writes."""
    m, k, n = c.int(1, 5), c.int(1, 30), c.int(1, 8)
    x = c.data((c.rng.standard_normal((m, k)) * 10 ** c.rng.uniform(-2, 2)).astype(F32))
    q, scale, zero = c.op("DynamicQuantizeLinear", x, outputs=3)
    columns = c.chance(0.5)
    ws = c.scales((n,) if columns else (), tame=True)
    w, zw = c.integers(S8, (k, n)), c.const(c.integers(S8, (n,) if columns else (), 4))
    y = c.op("MatMulInteger", q, c.const(w), zero, zw)
    c.out(y, I32)
    y = c.op("Mul", c.cast(y, F32), c.op("Mul", scale, c.const(ws)))
    y = c.op("Add", y, c.const(c.rng.standard_normal(n).astype(F32)))
    c.out(y, F32)
    c.out(c.op("Relu", y), F32)


def qlinear_network(c):
    """QLinearConv layers with integer operators and quantizers in between."""
    dtype, channels, size = c.pick(BYTES), c.int(1, 4), c.int(3, 7)
    shape = (1, channels, size, size)
    scale, zero = parameters(c, dtype, False)
    x = c.op("QuantizeLinear", c.data(c.reals(F32, shape, scale, 100).clip(-1e6, 1e6)), c.const(scale), c.const(zero))
    for _ in range(c.int(1, 3)):
        out = c.int(1, 4)
        kernel = 1 if min(shape[2:]) < 3 else 3
        ws = c.scales((out,), tame=True)
        to, given = parameters(c, dtype, False), c.integers(S8, (out, shape[1], kernel, kernel))
        to = (np.array(fitting(c, scale, ws, given[0].size), F32), to[1])
        rest = [c.const(v) for v in (scale, zero, given, ws, np.zeros(out, S8), *to, c.integers(I32, (out,), 12))]
        x = c.op("QLinearConv", x, *rest, pads=[c.int(0, kernel - 1) for _ in range(4)][:4] if kernel == 3 else [0] * 4)
        scale, zero = to
        c.out(x, dtype)
        kind = c.pick(["", "pool", "requantize", "transpose", "flatten"])
        real = c.op("DequantizeLinear", x, c.const(scale), c.const(zero))
        c.out(real, F32)
        if kind == "flatten":
            flat = c.op("Flatten", x, axis=1)
            c.out(c.op("MatMulInteger", c.op("Transpose", flat, perm=[1, 0]), flat, c.const(zero), c.const(zero)), I32)
        if kind == "transpose":
            c.out(c.op("Transpose", x, perm=[0, 2, 3, 1]), dtype)
        if kind == "requantize":
            c.out(c.op("QuantizeLinear", c.op("Relu", real), c.const(c.scale(tame=True)), c.const(zero)), dtype)
        if kind != "pool" or c.opset < 12:
            return
        x = c.op("MaxPool", x, kernel_shape=[1, 1])
        shape = None
        return


KINDS = {
    "QuantizeLinear": (quantize, 5, [10, 13, 19, 21, 23, 25]),
    "DequantizeLinear": (dequantize, 4, [10, 13, 19, 21, 23, 25]),
    "DynamicQuantizeLinear": (dynamic, 2, [11]),
    "ConvInteger": (conv_integer, 4, [10, 21]),
    "MatMulInteger": (matmul_integer, 4, [10, 21]),
    "QLinearConv": (qlinear_conv, 5, [10, 21]),
    "QLinearMatMul": (qlinear_matmul, 4, [10, 21]),
    "quantize-dequantize networks": (qdq_network, 3, [10, 13, 19, 21]),
    "integer networks": (integer_network, 4, [11, 13, 14, 17, 21]),
    "dynamic networks": (dynamic_network, 1, [11, 17]),
    "QLinear networks": (qlinear_network, 2, [10, 13, 21]),
}
DEALT = [kind for kind, (_, weight, _) in KINDS.items() for _ in range(weight)]


def made(seed):
    kind = DEALT[seed % len(DEALT)]
    make, _, opsets = KINDS[kind]
    case = Case(seed, opsets)
    case.kind = kind
    make(case)
    return case


# ---- judging ----


# Integer products: (operand, its zero point), and the zero point of the result.
PRODUCTS = {
    "ConvInteger": (((0, 2), (1, 3)), None),
    "MatMulInteger": (((0, 2), (1, 3)), None),
    "QLinearConv": (((0, 2), (3, 5)), 7),
    "QLinearMatMul": (((0, 2), (3, 5)), 7),
}


class Twin:
    """The same graph with unsigned operands in all integer products."""

    def __init__(self, model):
        self.graph = onnx.ModelProto.FromString(model.SerializeToString()).graph
        self.count, self.nodes = 0, []
        known = onnx.shape_inference.infer_shapes(model).graph
        self.types = {v.name: v.type.tensor_type.elem_type for v in [*known.input, *known.value_info, *known.output]}
        self.types |= {t.name: t.data_type for t in known.initializer}
        self.inits = {t.name: t for t in self.graph.initializer}
        for node in self.graph.node:
            self.rewrite(node)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)

    def const(self, array):
        self.count += 1
        self.graph.initializer.append(numpy_helper.from_array(array, f"twin{self.count}"))
        return f"twin{self.count}"

    def moved(self, name, by, to, out=None):
        """`name + by` in another 8-bit type."""
        if name in self.inits:
            return self.const((numpy_helper.to_array(self.inits[name]).astype(I32) + by).astype(to))
        self.count += 1
        wide, sum_, narrow = (f"twin{self.count}{part}" for part in "abc")
        self.nodes.append(helper.make_node("Cast", [name], [wide], to=T.INT32))
        self.nodes.append(helper.make_node("Add", [wide, self.const(I32(by))], [sum_]))
        self.nodes.append(helper.make_node("Cast", [sum_], [out or narrow], to=code(to)))
        return out or narrow

    def rewrite(self, node):
        operands, result = PRODUCTS.get(node.op_type, ((), None))
        inputs = list(node.input) + [""] * 4
        for x, zero in operands:
            if self.types.get(inputs[x]) == T.INT8:
                inputs[x] = self.moved(inputs[x], 128, U8)
                inputs[zero] = self.moved(inputs[zero], 128, U8) if inputs[zero] else self.const(np.array(128, U8))
        output = node.output[0]
        back = result is not None and self.types.get(inputs[result]) == T.INT8
        if back:
            inputs[result] = self.moved(inputs[result], 128, U8)
            node.output[0] = output + "_u8"
        if operands:
            while not inputs[-1]:
                inputs.pop()
            del node.input[:]
            node.input.extend(inputs)
        self.nodes.append(node)
        if back:
            self.moved(node.output[0], -128, S8, output)


def twin_of(model):
    twin = onnx.ModelProto.FromString(model.SerializeToString())
    twin.graph.CopyFrom(Twin(model).graph)
    return twin


def runtime(model, case):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run([n for n, _, _ in case.outputs], case.feeds)


def in_floats(case):
    """A single integer product as a product of floats, which is exact below 2^24; None for other graphs."""
    if case.kind not in ("ConvInteger", "MatMulInteger"):
        return None
    node, floats = case.nodes[0], Case(case.seed, [13])
    values = {t.name: numpy_helper.to_array(t) for t in case.inits} | case.feeds
    x, w, zx, zw = [values[n].astype(np.int64) if n else np.int64(0) for n in [*node.input, "", ""][:4]]
    if case.kind == "MatMulInteger":
        return [((x - along(zx, 1)) @ (w - along(zw, 0))).astype(I32)]
    x, w = x - along(zx, 0), w - along(zw, w.ndim - 1)
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    y = floats.op("Conv", floats.const(x.astype(F32)), floats.const(w.astype(F32)), **attrs)
    floats.out(floats.cast(y, I32), I32)
    try:
        return runtime(model_of([floats]), floats)
    except Exception:
        return None


def along(zero, axes):
    """A zero point in the shape that broadcasts: `axes` follow the one it belongs to."""
    return np.reshape(zero, ()) if np.size(zero) == 1 else zero.reshape([-1] + [1] * axes) if np.ndim(zero) == 1 else zero


def expected(case, counts):
    """The outputs that another program gives, or None where no other can."""
    model, own = model_of([case]), None
    products = any(n.op_type in PRODUCTS for n in case.nodes)
    try:
        own = runtime(model, case)
    except Exception as e:
        case.refusal = str(e).split("\n")[0]
    try:
        found = runtime(twin_of(model), case) if products else own
    except Exception:
        found = own if own is not None else in_floats(case)
    if found is not None:
        same = own is None or all(np.array_equal(x, y, equal_nan=True) for x, y in zip(own, found))
        case.judge = "ONNX Runtime" if own is not None and same else "ONNX Runtime's twin"
        counts["judge", case.judge] += 1
        counts["saturated", case.kind] += not same
        return found
    case.judge = "reference evaluator"
    try:
        if case.kind in ("ConvInteger", "QLinearConv") and len(case.nodes[0].input) > 3:
            raise NotImplementedError("the reference evaluator is not trusted with scales per channel")
        found = ReferenceEvaluator(model).run([n for n, _, _ in case.outputs], case.feeds)
        counts["no kernel", reason(case)] += 1
    except Exception:
        case.judge, found = "none", None
        counts["refused", reason(case)] += 1
    counts["judge", case.judge] += 1
    return found


def reason(case):
    """The runtime's refusal without names, paths and places in its sources."""
    text = re.sub(r"c\d+_\d+|/\S+|[\w:]+\([^()]*\)|\[ONNXRuntimeError\] : \d+ : \w+ : |\d+", "", case.refusal)
    return f"{case.kind}: {text.split('Status Message:')[-1].strip()[:90]}"


def evaluated(onnxd, cases, work):
    """onnxd's outputs by name, or its complaint."""
    paths = [os.path.join(work, f) for f in ("m.onnx", "in.npz", "out.npz")]
    with open(paths[0], "wb") as f:
        f.write(model_of(cases).SerializeToString())
    np.savez(paths[1], **{n: a for c in cases for n, a in c.feeds.items()})
    command = [onnxd, "eval", paths[0], "--inputs", paths[1], "--out", paths[2]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        return None, (done.stderr or done.stdout).strip().replace("\n", " | ")[:400]
    with np.load(paths[2]) as arrays:
        return {n: arrays[n] for n in arrays.files}, None


def difference(found, wanted, slack, signs):
    """What differs, or None."""
    wanted = np.asarray(wanted)
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{found.dtype}{found.shape} where {wanted.dtype}{wanted.shape} is expected"
    if wanted.dtype.kind == "f":
        bits = f"u{wanted.dtype.itemsize}"
        same = (found.view(bits) == wanted.view(bits)) | (np.isnan(found) & np.isnan(wanted))
        if not signs:
            same |= (found == 0) & (wanted == 0)
    else:
        same = np.abs(found.astype(np.int64) - wanted.astype(np.int64)) <= slack
    if same.all():
        return None
    at = tuple(np.argwhere(~same)[0])
    return f"{np.sum(~same)} of {same.size} differ, first at {at}: {found[at]!r} where {wanted[at]!r} is expected"


def judge(onnxd, cases, wanted, work):
    """One line for every case that is wrong."""
    found, why = evaluated(onnxd, cases, work)
    if found is None and len(cases) > 1:
        return [w for c, y in zip(cases, wanted) for w in judge(onnxd, [c], [y], work)]
    wrong = []
    for case, outputs in zip(cases, wanted):
        complaints = [why] if found is None else []
        for (name, _, slack), y in zip(case.outputs, outputs if found else []):
            text = difference(found[name], y, slack, case.judge != "reference evaluator")
            complaints += [f"{name}: {text}"] if text else []
        if complaints:
            wrong.append(f"FAIL {case.seed} {case.kind} opset {case.opset}, {case.judge}: {complaints[0]}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--seeds", default="0:2000", metavar="FIRST:END")
    parser.add_argument("--only", help="one kind of graph")
    parser.add_argument("--per-model", type=int, default=50, help="graphs that onnxd computes at once")
    parser.add_argument("--write", metavar="FILE", help="write the model of the first seed there, and judge nothing")
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    if options.write:
        onnx.save(model_of([made(first)]), options.write)
        return
    counts, failed, total, waiting = collections.Counter(), 0, 0, collections.defaultdict(list)
    onnxd = os.path.abspath(options.onnxd)
    with tempfile.TemporaryDirectory(prefix="integers-") as work:

        def flush(opset):
            pairs = waiting.pop(opset, [])
            wrong = judge(onnxd, *map(list, zip(*pairs)), work) if pairs else []
            print("\n".join(wrong), end="\n" * bool(wrong), flush=True)
            return len(wrong)

        for seed in range(first, end):
            if options.only and options.only not in DEALT[seed % len(DEALT)]:
                continue
            case = made(seed)
            total += 1
            counts["kind", case.kind] += 1
            wanted = expected(case, counts)
            if wanted is not None:
                waiting[case.opset].append((case, wanted))
            if len(waiting[case.opset]) >= options.per_model:
                failed += flush(case.opset)
        failed += sum(flush(opset) for opset in list(waiting))
    for (what, which), n in sorted(counts.items()):
        print(f"  {what}: {which}: {n}")
    print(f"{total} graphs, {failed} with failures")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
