#!/usr/bin/env python3
"""Judge the executor's kernels of `com.microsoft` operators: ONNX Runtime computes the same random cases.

    microsoft_operators.py --onnxd target/release/onnxd [--cases 300] [--seed 0] [--only QLinearAdd,...]

Every operator gets random shapes, element types, zero points that are there or not, scales per column, axes and pads.
Cases are put into models of some fifty nodes each. Integers must agree bit for bit, floats to the operator's tolerance
relative to the largest element of the output, or to one where that is larger. Cases that ONNX Runtime refuses are counted, not judged.
On x86 without VNNI the runtime's sums of uint8 times int8 saturate in 16 bits, so that weights stay within 7 bits there.
Needs numpy, onnx, onnxruntime.
"""
import argparse
import collections
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
PER_MODEL = 50
Case = collections.namedtuple("Case", "op inputs attrs outputs domain tolerance")
Fixed = collections.namedtuple("Fixed", "array")  # an initializer, never an input
CASES = {}


def cases(op, outputs=(None,), domain=MS, tolerance=1e-6):
    def add(f):
        CASES[op] = lambda r: Case(op, *f(r), outputs, domain, tolerance)
        return f
    return add


class Dice:
    def __init__(self, seed):
        self.g = np.random.default_rng(seed)

    def n(self, low, high):
        return int(self.g.integers(low, high + 1))

    def one(self, *of):
        return of[self.n(0, len(of) - 1)]

    def chance(self, p):
        return self.g.random() < p

    def shape(self, rank=None, high=7):
        return tuple(self.n(1, high) for _ in range(self.n(1, 4) if rank is None else rank))

    def ints(self, dtype, shape, low=None, high=None):
        info = np.iinfo(dtype)
        low, high = info.min if low is None else low, info.max if high is None else high
        return self.g.integers(low, high + 1, shape).astype(dtype)

    def eight(self, shape=(), dtype=None):
        return self.ints(dtype or self.one(np.uint8, np.int8), shape)

    def weights(self, dtype, shape):
        """Within 7 bits."""
        return self.ints(dtype, shape, 0 if dtype == np.uint8 else -64, 63)

    def reals(self, shape, spread=1.0):
        return (self.g.normal(size=shape) * spread).astype(np.float32)

    def scale(self, shape=()):
        """Also scales at which many results lie halfway between two integers."""
        if self.chance(0.4):
            return (self.g.integers(1, 20, shape) / np.float32(64)).astype(np.float32)
        return np.asarray(self.g.uniform(0.001, 0.1, shape), np.float32)

    def zero(self, dtype, absent=0.2):
        return None if self.chance(absent) else self.eight((), dtype)

    def broadcast(self, shape):
        """A shape that broadcasts to it."""
        kept = [1 if self.chance(0.3) else d for d in shape]
        return tuple(kept[self.n(0, len(kept)) if self.chance(0.3) else 0:])


def eight_type(r):
    return r.one(np.uint8, np.int8)


# --- quantized, elementwise ---------------------------------------------------

def binary(r):
    t, shape = eight_type(r), r.shape()
    inputs = []
    for _ in range(2):
        inputs += [r.eight(r.broadcast(shape) if r.chance(0.5) else shape, t), r.scale(), r.zero(t, 0.02)]
    return inputs + [r.scale() * np.float32(2)] + ([] if r.chance(0.2) else [r.eight((), t)]), {}


cases("QLinearAdd")(binary)
cases("QLinearMul")(binary)


def unary(r):
    t = eight_type(r)
    return [r.eight(r.shape(), t), r.scale(), r.zero(t), r.scale(), r.zero(t)]


@cases("QLinearLeakyRelu")
def _(r):
    return unary(r), {"alpha": float(np.float32(r.g.uniform(-1, 2)))} if r.chance(0.8) else {}


@cases("QLinearSigmoid")
def _(r):
    inputs = unary(r)
    if r.chance(0.6):
        inputs[3] = np.array(1 / 256, np.float32)
    return inputs, {}


@cases("QLinearSoftmax")
def _(r):
    t, shape = eight_type(r), r.shape()
    axis = r.n(-len(shape), len(shape) - 1)
    opset = r.one(11, 12, 13, 17)
    # One element alone, and scales below 1/256 with two, overflow in the runtime.
    shape = tuple(d + 2 if i == axis % len(shape) else d for i, d in enumerate(shape))
    inputs = [r.eight(shape, t), r.scale(), r.zero(t)]
    if r.chance(0.7):
        inputs += [np.array(1 / 256, np.float32), np.array(np.iinfo(t).min, t)]
    else:
        inputs += [np.array(r.g.uniform(0.004, 0.1), np.float32), r.eight((), t)]
    return inputs, {"axis": axis, "opset": opset}


@cases("QLinearConcat")
def _(r):
    t, shape = eight_type(r), r.shape()
    axis = r.n(-len(shape), len(shape) - 1)
    inputs = [r.scale(), r.eight((), t)]
    for _ in range(r.n(1, 4)):
        part = tuple(r.n(1, 5) if i == axis % len(shape) else d for i, d in enumerate(shape))
        same = r.chance(0.2)
        inputs += [r.eight(part, t), inputs[0] if same else r.scale(), inputs[1] if same else r.eight((), t)]
    return inputs, {"axis": axis}


@cases("QLinearWhere")
def _(r):
    t, shape = eight_type(r), r.shape()
    three = [r.broadcast(shape) if r.chance(0.5) else shape for _ in range(3)]
    condition = r.g.integers(0, 2, three[0]).astype(bool)
    return [condition, r.eight(three[1], t), r.scale(), r.eight((), t), r.eight(three[2], t), r.scale(), r.eight((), t),
            r.scale(), r.eight((), t)], {}


# --- quantized pooling and convolution ----------------------------------------

def image(r, last, axes, low=4, channels=None):
    spatial = tuple(r.n(low, 9) for _ in range(axes))
    c = (channels or r.n(1, 5),)
    return (r.n(1, 2),) + (spatial + c if last else c + spatial)


def walk(r, axes, dilations=True):
    attrs = {}
    kernel = [r.n(1, 3) for _ in range(axes)]
    if r.chance(0.5):
        attrs["strides"] = [r.n(1, 3) for _ in range(axes)]
    if r.chance(0.5):
        attrs["pads"] = [r.n(0, k - 1) for k in kernel + kernel]
    elif r.chance(0.3):
        attrs["auto_pad"] = r.one("SAME_UPPER", "SAME_LOWER", "VALID")
    if dilations and "auto_pad" not in attrs and r.chance(0.3):
        attrs["dilations"] = [r.n(1, 2) for _ in range(axes)]
    return kernel, attrs


@cases("QLinearAveragePool")
def _(r):
    t, last, axes = eight_type(r), r.n(0, 1), r.n(1, 3)
    kernel, attrs = walk(r, axes, dilations=False)
    if "auto_pad" in attrs:  # see NhwcMaxPool
        attrs.pop("strides", None)
    attrs |= {"kernel_shape": kernel, "channels_last": last, "count_include_pad": r.n(0, 1), "ceil_mode": r.n(0, 1)}
    zero = [] if r.chance(0.2) else [r.eight((), t)]
    return [r.eight(image(r, last, axes), t), r.scale(), r.zero(t, 0.02), r.scale(), *zero], attrs


@cases("QLinearGlobalAveragePool")
def _(r):
    t, last = eight_type(r), r.n(0, 1)
    return [r.eight(image(r, last, r.n(1, 3)), t), r.scale(), r.eight((), t), r.scale(), r.eight((), t)], \
        {"channels_last": last}


@cases("NhwcMaxPool")
def _(r):
    axes = r.n(1, 3)
    kernel, attrs = walk(r, axes)
    if "auto_pad" in attrs:  # the runtime pads by less than nothing where strides leave gaps
        attrs.pop("strides", None)
    return [r.eight(image(r, 1, axes, 5))], attrs | {"kernel_shape": kernel, "ceil_mode": r.n(0, 1)}


@cases("QLinearConv")
def _(r):
    x_type, w_type = r.one((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))
    last, axes, group = r.n(0, 1), r.n(1, 2), r.one(1, 1, 2)
    kernel, attrs = walk(r, axes)
    c, m = group * r.n(1, 3), group * r.n(1, 3)
    columns = (m,) if r.chance(0.5) else ()
    w = r.weights(w_type, (m, c // group, *kernel))
    inputs = [r.eight(image(r, last, axes, 5, c), x_type), r.scale(), r.eight((), x_type), Fixed(w),
              Fixed(r.scale(columns)), Fixed(np.zeros(columns, w_type)), r.scale(), r.eight((), x_type)]
    if r.chance(0.6):
        inputs.append(Fixed(r.ints(np.int32, (m,), -3000, 3000)))
    return inputs, attrs | {"kernel_shape": kernel, "group": group, "channels_last": last}


# --- integer products ---------------------------------------------------------

def factors(r, batched):
    a_type, b_type = r.one((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))
    m, k, n = r.n(1, 9), r.n(1, 40), r.n(1, 20)
    batch = r.shape(r.n(0, 2), 3) if batched else ()
    return a_type, b_type, batch + (m, k), (k, n)


@cases("QGemm")
def _(r):
    a_type, b_type, (m, k), (_, n) = factors(r, False)
    flip_a, flip_b = r.n(0, 1), r.n(0, 1)
    columns = (n,) if r.chance(0.5) else ()
    b_zero = r.weights(b_type, columns) if b_type == np.int8 else r.ints(b_type, columns, 0, 63)
    a = r.eight((k, m) if flip_a else (m, k), a_type)
    b = r.weights(b_type, (n, k) if flip_b else (k, n))
    c = r.one(None, (n,), (m, n), (1, n), (m, 1), (1,), ())
    inputs = [a, r.scale(), r.eight((), a_type), b, r.scale(columns), b_zero,
              None if c is None else r.ints(np.int32, c, -9000, 9000)]
    if r.chance(0.7):
        inputs += [r.scale() * np.float32(k), r.eight((), a_type)]
    attrs = {"transA": flip_a, "transB": flip_b}
    return inputs, attrs | ({"alpha": float(np.float32(r.g.uniform(0.3, 2)))} if r.chance(0.5) else {})


@cases("MatMulIntegerToFloat")
def _(r):
    a_type, b_type, a, b = factors(r, True)
    columns = (b[1],) if r.chance(0.5) else ()
    inputs = [r.eight(a, a_type), r.weights(b_type, b), r.scale(), r.scale(columns), r.zero(a_type),
              None if r.chance(0.3) else r.weights(b_type, columns), None if r.chance(0.4) else r.reals((b[1],))]
    return inputs, {}


@cases("DynamicQuantizeMatMul")
def _(r):
    _, b_type, a, b = factors(r, True)
    columns = (b[1],) if r.chance(0.5) else ()
    inputs = [r.reals(a), r.weights(b_type, b), r.scale(columns),
              None if r.chance(0.3) else r.weights(b_type, columns), None if r.chance(0.4) else r.reals((b[1],))]
    return inputs, {}


@cases("MatMulInteger16")
def _(r):
    _, _, a, b = factors(r, True)
    return [r.ints(np.int16, a, -3000, 3000), r.ints(np.int16, b, -3000, 3000)], {}


# --- blocks -------------------------------------------------------------------

def packed(values, bits):
    """Along the last axis, the lowest bits first."""
    per = 8 // bits
    pad = -values.shape[-1] % per
    wide = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, pad)]).astype(np.uint16)
    wide = wide.reshape(*values.shape[:-1], -1, per)
    return sum(wide[..., i] << (bits * i) for i in range(per)).astype(np.uint8)


@cases("MatMulNBits", tolerance=4e-6)
def _(r):
    bits, block = r.one(4, 4, 8, 2), r.one(16, 32, 64, 128)
    k, n, grouped = r.n(1, 200), r.n(1, 40), r.chance(0.2)
    blocks = -(-k // block)
    if grouped:  # the runtime mixes up rows whose last block is not full, and groups of 2 bits
        k, bits = blocks * block, 4
    half = r.chance(0.2)
    real = np.float16 if half else np.float32
    q = r.ints(np.uint8, (n, blocks * block), 0, 2 ** bits - 1)
    flat = r.chance(0.3)
    scales = (r.reals((n, blocks)) * np.float32(0.1)).astype(real)
    zero = "none" if grouped else r.one("none", "packed", "packed", "real")  # the runtime forgets them beside groups
    zeros = None
    if zero == "packed":
        zeros = packed(r.ints(np.uint8, (n, blocks), 0, 2 ** bits - 1), bits)
    elif zero == "real":
        zeros = r.g.uniform(0, 2 ** bits, (n, blocks)).astype(real)
    shape = lambda x: x if x is None else Fixed(x.reshape(-1) if flat else x)
    inputs = [r.reals(r.shape(r.n(0, 2), 3) + (r.n(1, 5), k)).astype(real),
              Fixed(packed(q, bits).reshape(n, blocks, -1)), shape(scales), shape(zeros),
              Fixed(np.sort(r.ints(np.int32, (k,), 0, blocks - 1))) if grouped else None,
              r.reals((n,)).astype(real) if r.chance(0.4) else None]
    return inputs, {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": r.one(0, 1)}


@cases("GatherBlockQuantized")
def _(r):
    block, kind = r.one(16, 32, 64), r.one("uint8", "uint4", "int4")
    rank = r.n(2, 3)
    real = r.one(np.float32, np.float32, np.float16)
    bits = r.one(4, 8) if kind == "uint8" else 4
    axis = rank - 1 if kind == "uint8" else r.n(0, rank - 1)
    gather = 0 if kind == "uint8" else r.one(*[a for a in range(rank) if a != axis])
    dims = [r.n(1, 6) for _ in range(rank)]
    dims[axis] = block * r.n(1, 3) if r.chance(0.7) else 2 * r.n(1, 60)
    low, high = (-8, 7) if kind == "int4" else (0, 2 ** bits - 1)
    scale_dims = [-(-d // block) if i == axis else d for i, d in enumerate(dims)]
    scales = r.reals(scale_dims).astype(real)

    def tensor(shape):
        values = r.ints(np.int16, shape, low, high)
        if kind == "uint8":
            return Fixed(packed(values, bits))
        return Fixed(helper.make_tensor("x", getattr(TensorProto, kind.upper()), shape, values.ravel().tolist()))

    indices = r.ints(r.one(np.int32, np.int64), r.shape(r.n(0, 2), 4), -dims[gather], dims[gather] - 1)
    inputs = [tensor(dims), indices, scales, tensor(scale_dims) if r.chance(0.6) else None]
    attrs = {"block_size": block, "gather_axis": gather, "quantize_axis": axis}
    return inputs, attrs | ({"bits": bits} if kind == "uint8" else {})


@cases("QuantizeLinear")
def _(r):
    shape = r.shape()
    t = r.one(np.uint8, np.int8, np.uint16, np.int16)
    axis = r.n(-len(shape), len(shape) - 1) if r.chance(0.5) else None
    columns = () if axis is None else (shape[axis],)
    inputs = [r.reals(shape, r.one(1, 100)), r.scale(columns), r.ints(t, columns)]
    if r.chance(0.2) and axis is None:
        inputs.pop()
    return inputs, {} if axis is None else {"axis": axis}


@cases("DequantizeLinear")
def _(r):
    shape = r.shape()
    t = r.one(np.uint8, np.int8, np.uint16, np.int16, np.int32)
    axis = r.n(-len(shape), len(shape) - 1) if r.chance(0.5) else None
    columns = () if axis is None else (shape[axis],)
    zero = [] if t == np.int32 or r.chance(0.2) else [r.ints(t, columns)]
    return [r.ints(t, shape), r.scale(columns), *zero], {} if axis is None else {"axis": axis}


# --- recurrent, attention -----------------------------------------------------

@cases("DynamicQuantizeLSTM", outputs=(None,) * 3, tolerance=2e-3)
def _(r):
    steps, batch, width, hidden, two = r.n(1, 5), r.n(1, 3), r.n(1, 9), r.n(1, 7), r.n(0, 1)
    d, t = 1 + two, eight_type(r)
    per_column = r.chance(0.4) and t == np.int8
    columns = (d, 4 * hidden) if per_column else (d,)
    zero = lambda: np.zeros(columns, t) if per_column else r.weights(t, columns)
    w, u = r.weights(t, (d, width, 4 * hidden)), r.weights(t, (d, hidden, 4 * hidden))
    scale = lambda: Fixed(np.asarray(r.g.uniform(0.002, 0.02, columns), np.float32))
    state = lambda: r.reals((d, batch, hidden), 0.5) if r.chance(0.5) else None
    inputs = [r.reals((steps, batch, width)), Fixed(w), Fixed(u), r.reals((d, 8 * hidden)) if r.chance(0.7) else None,
              None, state(), state(), r.reals((d, 3 * hidden)) if r.chance(0.3) else None,
              scale(), Fixed(zero()), scale(), Fixed(zero())]
    attrs = {"hidden_size": hidden, "direction": "bidirectional" if two else r.one("forward", "reverse")}
    return inputs, attrs | ({"clip": 2.0} if r.chance(0.2) else {})


def masked(r, batch, length, keys):
    kind = r.one("none", "none", "lengths", "both", "keys", "pairs")
    if kind == "none":
        return None
    if kind == "lengths":
        return r.ints(np.int32, (batch,), 1, keys)
    if kind == "both":
        ends = r.ints(np.int32, (batch,), 1, keys)
        return np.concatenate([ends, r.ints(np.int32, (batch,), 0, 0)])
    mask = r.ints(np.int32, (batch, keys) if kind == "keys" else (batch, length, keys), 0, 1)
    mask[..., 0] = 1
    return mask


@cases("Attention", outputs=(None, None), tolerance=2e-5)
def _(r):
    batch, length, heads, size, width = r.n(1, 3), r.n(1, 6), r.n(1, 3), r.n(1, 5), r.n(1, 8)
    hidden, past = heads * size, r.n(1, 3) if r.chance(0.3) else 0
    attrs = {"num_heads": heads, "unidirectional": r.n(0, 1)}
    if r.chance(0.3):
        attrs["scale"] = float(np.float32(r.g.uniform(0.2, 1)))
    mask = masked(r, batch, length, length + past)
    bias = r.reals((batch, heads, length, length + past)) if r.chance(0.2) else None
    return [r.reals((batch, length, width)), Fixed(r.reals((width, 3 * hidden))), r.reals((3 * hidden,)), mask,
            r.reals((2, batch, heads, past, size)) if past else None, bias], attrs


@cases("QAttention", outputs=(None, None), tolerance=1e-4)
def _(r):
    batch, length, heads, size, width = r.n(1, 3), r.n(1, 6), r.n(1, 3), r.n(1, 5), r.n(1, 8)
    hidden, past, t = heads * size, r.n(1, 3) if r.chance(0.3) else 0, eight_type(r)
    columns = (3 * hidden,) if r.chance(0.4) else ()
    inputs = [r.eight((batch, length, width), np.uint8), Fixed(r.weights(t, (width, 3 * hidden))), r.reals((3 * hidden,)),
              r.scale(), r.scale(columns), masked(r, batch, length, length + past), r.eight((), np.uint8),
              r.weights(t, columns), r.reals((2, batch, heads, past, size)) if past else None]
    return inputs, {"num_heads": heads, "unidirectional": r.n(0, 1)}


@cases("MultiHeadAttention", outputs=(None,) * 3, tolerance=2e-5)
def _(r):
    batch, length, heads, size = r.n(1, 3), r.n(1, 6), r.n(1, 3), 4 * r.n(1, 3)
    past = r.n(1, 3) if r.chance(0.3) else 0
    keys = length if past else r.n(1, 6)
    value = size if past else r.one(size, 4 * r.n(1, 3))
    flat = r.chance(0.7)
    bias = r.reals((heads * (2 * size + value),))
    if flat:
        three = [r.reals((batch, length, heads * size)), r.reals((batch, keys, heads * size)),
                 r.reals((batch, keys, heads * value))]
    else:
        # The packed forms have no kernel for processors.
        past, bias, value = 0, None, size
        three = [r.reals((batch, length, heads * size)), r.reals((batch, heads, keys, size)),
                 r.reals((batch, heads, keys, value))]
    all_keys = keys + past
    mask = r.one(None, r.ints(np.int32, (batch,), 1, all_keys), r.ints(np.int32, (batch, all_keys), 0, 1))
    if mask is not None and mask.ndim == 2:
        mask[:, 0] = 1
    inputs = three + [bias if r.chance(0.5) else None, mask,
                      r.reals((batch, heads, length, all_keys)) if r.chance(0.3) else None]
    if past:
        inputs += [r.reals((batch, heads, past, size)), r.reals((batch, heads, past, value))]
    return inputs, {"num_heads": heads, "unidirectional": r.n(0, 1) if keys == length else 0}


@cases("GroupQueryAttention", outputs=(None,) * 3, tolerance=2e-5)
def _(r):
    batch, new, kv_heads, size = r.n(1, 2), r.n(1, 4), r.n(1, 2), 16 * r.n(1, 2)
    heads, past = kv_heads * r.n(1, 3), r.n(1, 3) if r.chance(0.6) else 0
    # The runtime takes a part of a prompt behind a cache for one row alone.
    batch = 1 if past and new > 1 else batch
    total, packed, turns = past + new, r.chance(0.5), r.chance(0.6)
    widths = [(heads + 2 * kv_heads) * size] if packed else [heads * size, kv_heads * size, kv_heads * size]
    inputs = [r.reals((batch, new, width)) for width in widths] + [None, None] * packed
    inputs += [r.reals((batch, kv_heads, past, size)) for _ in range(2)]
    inputs += [np.full((batch,), total - 1, np.int32), np.array([total], np.int32)]
    inputs += [r.reals((total + 2, 8)) for _ in range(2)] if turns else []
    attrs = {"num_heads": heads, "kv_num_heads": kv_heads, "do_rotary": int(turns)}
    attrs |= {"rotary_interleaved": r.n(0, 1)} if turns else {}
    attrs |= {"local_window_size": r.n(1, total)} if r.chance(0.4) else {}
    attrs |= {"softcap": 2.0} if r.chance(0.3) else {}
    return inputs, attrs | ({"scale": 0.7} if r.chance(0.5) else {})


@cases("RotaryEmbedding", tolerance=2e-5)
def _(r):
    batch, length, heads, size = r.n(1, 3), r.n(1, 6), r.n(1, 3), 4 * r.n(1, 3)
    width, rows = r.one(size, size, size // 2), length + r.n(0, 3)
    x = r.reals(r.one((batch, length, heads * size), (batch, heads, length, size)))
    ids = r.one(r.ints(np.int64, (1,), 0, rows - length), r.ints(np.int64, (batch, length), 0, rows - 1))
    attrs = {"interleaved": r.n(0, 1)}
    if width < size:
        attrs |= {"rotary_embedding_dim": width, "num_heads": heads}
    return [x, ids, r.reals((rows, width // 2)), r.reals((rows, width // 2))], attrs


# --- float --------------------------------------------------------------------

def smooth(r):
    return [r.reals(r.shape(), 3)], {}


cases("Gelu", tolerance=1e-5)(smooth)


@cases("QuickGelu", tolerance=1e-5)
def _(r):
    return [r.reals(r.shape(), 3)], {"alpha": 1.5} if r.chance(0.5) else {}


@cases("BiasGelu", tolerance=1e-5)
def _(r):
    shape = r.shape()
    return [r.reals(shape, 3), r.reals(shape[-1:])], {}


@cases("FastGelu", tolerance=1e-5)
def _(r):
    shape = r.shape()
    return [r.reals(shape, 3), r.reals(shape[-1:]) if r.chance(0.5) else None], {}


@cases("SkipLayerNormalization", outputs=(None, "", "", None), tolerance=4e-6)
def _(r):
    shape = r.shape(3, 9)
    last = (shape[-1] + 2,)
    shape = shape[:-1] + last
    skip = r.one(shape, shape[1:], (1,) + shape[1:])
    return [r.reals(shape), r.reals(skip), r.reals(last), r.reals(last) if r.chance(0.7) else None,
            r.reals(last) if r.chance(0.5) else None], {"epsilon": 1e-5} if r.chance(0.5) else {}


@cases("SkipSimplifiedLayerNormalization", outputs=(None, "", "", None), tolerance=4e-6)
def _(r):
    inputs, attrs = CASES["SkipLayerNormalization"](r)[1:3]
    del inputs[3]
    return inputs, attrs


@cases("SimplifiedLayerNormalization", domain="", tolerance=4e-6)
def _(r):
    shape = r.shape(3, 9)
    return [r.reals(shape), r.reals(shape[-1:])], {"axis": -1, "epsilon": 1e-5}


@cases("EmbedLayerNormalization", outputs=(None, None), tolerance=2e-5)
def _(r):
    batch, words, hidden = r.n(1, 3), r.n(1, 6), r.n(4, 12)
    segments = r.chance(0.6)
    inputs = [r.ints(np.int32, (batch, words), 0, 9), r.ints(np.int32, (batch, words), 0, 1) if segments else None,
              Fixed(r.reals((10, hidden))), Fixed(r.reals((8, hidden))), Fixed(r.reals((2, hidden))) if segments else None,
              r.reals((hidden,)), r.reals((hidden,)),
              r.ints(np.int32, (batch, words), 0, 1) if r.chance(0.5) else None,
              r.ints(np.int32, (batch, words), 0, 7) if r.chance(0.3) else None]
    return inputs, {"epsilon": 1e-5}


@cases("QEmbedLayerNormalization", outputs=(None, None), tolerance=2e-5)
def _(r):
    batch, words, hidden, t = r.n(1, 3), r.n(1, 6), r.n(4, 12), np.uint8
    segments = r.chance(0.6)
    table = lambda n: Fixed(r.eight((n, hidden), t))
    inputs = [r.ints(np.int32, (batch, words), 0, 9), r.ints(np.int32, (batch, words), 0, 1) if segments else None,
              table(10), table(8), table(2) if segments else None, Fixed(r.eight((hidden,), t)),
              Fixed(r.eight((hidden,), t)), r.ints(np.int32, (batch, words), 0, 1) if r.chance(0.5) else None]
    for make in (r.scale, lambda: r.eight((), t)):
        inputs += [Fixed(make()), Fixed(make()), Fixed(make()) if segments else None, Fixed(make()), Fixed(make())]
    return inputs, {"epsilon": 1e-5}


@cases("FusedMatMul", tolerance=4e-6)
def _(r):
    m, k, n = r.n(1, 6), r.n(1, 9), r.n(1, 6)
    batch = r.shape(r.n(0, 2), 3)
    flips = {"transA": r.n(0, 1), "transB": r.n(0, 1)}
    a = batch + ((k, m) if flips["transA"] else (m, k))
    b = batch + ((n, k) if flips["transB"] else (k, n))
    if batch and r.chance(0.3):
        for side, dims in (("A", a), ("B", b)):
            dims = list(dims)
            dims[:-1] = [dims[-2]] + dims[:-2]
            flips[f"transBatch{side}"] = 1
            a, b = (tuple(dims), b) if side == "A" else (a, tuple(dims))
    return [r.reals(a), r.reals(b)], flips | {"alpha": float(np.float32(r.g.uniform(0.3, 2)))}


@cases("FusedGemm", tolerance=4e-6)
def _(r):
    m, k, n = r.n(1, 6), r.n(1, 9), r.n(1, 6)
    kind, extra = r.one(("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"activation_alpha": 0.2}))
    attrs = {"activation": kind, "alpha": 0.5, "transB": r.n(0, 1)} | extra
    b = (n, k) if attrs["transB"] else (k, n)
    return [r.reals((m, k)), r.reals(b), r.reals((n,)) if r.chance(0.7) else None], attrs


@cases("FusedConv", tolerance=4e-6)
def _(r):
    kernel, attrs = walk(r, 2)
    c, m = r.n(1, 3), r.n(1, 3)
    kind, extra = r.one(("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"activation_params": [0.2]}),
                        ("Clip", {"activation_params": [-0.5, 1.0]}), ("HardSigmoid", {"activation_params": [0.3, 0.4]}))
    attrs |= {"activation": kind, "kernel_shape": kernel} | extra
    return [r.reals(image(r, 0, 2, 5, c)), Fixed(r.reals((m, c, *kernel))), Fixed(r.reals((m,))) if r.chance(0.6) else None], \
        attrs


@cases("Trilu")
def _(r):
    t = r.one(np.float32, np.int64)
    return [r.reals(r.shape(r.n(2, 4)), 9).astype(t), np.array(r.n(-3, 3)) if r.chance(0.7) else None], {"upper": r.n(0, 1)}


# --- models -------------------------------------------------------------------

def typed(array, name):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def model_of(numbered):
    """One node per case; its operands are inputs of the model or initializers."""
    nodes, inputs, inits, outputs, feeds = [], [], [], [], {}
    for number, case in numbered:
        names = []
        for i, x in enumerate(case.inputs):
            name = "" if x is None else f"x{number}_{i}"
            names.append(name)
            if isinstance(x, Fixed):
                made = x.array if isinstance(x.array, TensorProto) else numpy_helper.from_array(np.asarray(x.array), name)
                made = TensorProto.FromString(made.SerializeToString())
                made.name = name
                inits.append(made)
            elif x is not None:
                feeds[name] = np.asarray(x)
                inputs.append(typed(feeds[name], name))
        # Trailing names stay empty: some of the runtime's kernels read beyond a shorter list and end the process.
        made = ["" if o == "" else f"y{number}_{i}" for i, o in enumerate(case.outputs)]
        nodes.append(helper.make_node(case.op, names, made, f"n{number}", domain=case.domain, **case.attrs))
        # The type of an output is for both sides to infer; only its name is given.
        outputs += [onnx.ValueInfoProto(name=name) for name in made if name]
    graph = helper.make_graph(nodes, "g", inputs, outputs, inits)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


def by_runtime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))


def by_onnxd(onnxd, model, feeds, wanted, folder):
    """The types and shapes that the runtime found are declared, so that verification and inference meet them."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for output in model.graph.output:
        output.CopyFrom(typed(wanted[output.name], output.name))
    paths = [os.path.join(folder, name) for name in ("m.onnx", "in.npz", "out.npz")]
    onnx.save(model, paths[0])
    np.savez(paths[1], **feeds)
    for command in (["check", paths[0]], ["eval", paths[0], "--inputs", paths[1], "--out", paths[2]]):
        done = subprocess.run([onnxd, *command], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError((done.stdout + done.stderr).strip())
    with np.load(paths[2]) as found:
        return {name: found[name] for name in found.files}


def differs(found, wanted, tolerance):
    """What is wrong, in words; nothing if all is well."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{list(found.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind in "iub":
        wrong = np.argwhere(found != wanted)
        if len(wrong) == 0:
            return None
        at = tuple(wrong[0])
        return f"{len(wrong)} of {wanted.size} differ, at {list(map(int, at))} {found[at]} instead of {wanted[at]}"
    if wanted.dtype == np.float16:
        tolerance = max(tolerance, 2e-3)
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    error = np.abs(a - b).max(initial=0)
    limit = tolerance * max(1, np.abs(b).max(initial=0))
    return None if error <= limit else f"error {error:.3g}, {error / limit * tolerance:.3g} of the largest"


def judge(args, numbered, folder, tally):
    model, feeds = model_of(numbered)
    try:
        wanted = by_runtime(model, feeds)
    except Exception as refusal:
        if len(numbered) > 1:
            return [judge(args, [case], folder, tally) for case in numbered]
        if args.verbose:
            print("refused", numbered[0][1].op, str(refusal)[:300], file=sys.stderr)
        tally[numbered[0][1].op]["refused"] += 1
        return
    try:
        found = by_onnxd(args.onnxd, model, feeds, wanted, folder)
    except RuntimeError as failure:
        if len(numbered) > 1:
            return [judge(args, [case], folder, tally) for case in numbered]
        return report(args, numbered[0], str(failure), tally)
    for number, case in numbered:
        names = [f"y{number}_{i}" for i, o in enumerate(case.outputs) if o != ""]
        wrong = [differs(found[n], wanted[n], case.tolerance) for n in names]
        report(args, (number, case), next((w for w in wrong if w), None), tally)


def report(args, numbered, wrong, tally):
    number, case = numbered
    counts = tally[case.op]
    counts["failed" if wrong else "passed"] += 1
    if wrong and counts["failed"] <= args.show:
        shown = [None if x is None else getattr(getattr(x, "array", x), "shape", "tensor") for x in case.inputs]
        print(f"{case.op} case {number}: {wrong}\n    inputs {shown} attributes {case.attrs}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--cases", type=int, default=300, help="per operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="operators, separated by commas")
    parser.add_argument("--show", type=int, default=2, help="failures that are shown per operator")
    parser.add_argument("--verbose", action="store_true", help="also show why the runtime refuses a case")
    args = parser.parse_args()
    tally = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as folder:
        for op in args.only.split(",") if args.only else CASES:
            made = [(i, CASES[op](Dice([args.seed, i, *op.encode()]))) for i in range(args.cases)]
            for start in range(0, len(made), PER_MODEL):
                judge(args, made[start:start + PER_MODEL], folder, tally)
            print(f"{op:35} passed {tally[op]['passed']:5} failed {tally[op]['failed']:5} "
                  f"refused by the runtime {tally[op]['refused']:5}", flush=True)
    whole = sum(tally.values(), collections.Counter())
    print(f"{'all':35} passed {whole['passed']:5} failed {whole['failed']:5} refused {whole['refused']:5}")
    sys.exit(1 if whole["failed"] else 0)


if __name__ == "__main__":
    main()
