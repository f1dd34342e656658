#!/usr/bin/env python3
"""Judge ONNX -> ONNX conversion on random graphs: ONNX's checker and ONNX Runtime say whether a conversion kept meaning.

    random_graphs.py --onnxd target/release/onnxd [--seeds 0:300] [--keep DIR] [--formulas rotary ...]
    random_graphs.py --onnxd target/release/onnxd --models FILE-OR-FOLDER...

Every seed gives one model, always the same: chains of what the passes look at, with weights that are shared,
overridable, computed or quantized, graph outputs in the middle, sub-graphs and local functions that read outer values.
Each is converted with the default passes and with those that run on demand, and must
- pass `onnx.checker` with full_check, keep names, order and types of inputs and outputs, and its metadata,
- give the same outputs in ONNX Runtime without graph optimization (or in ONNX's reference evaluator where the runtime
  has no kernel), with defaults and with overridden initializers,
- not be rewritten when its conversion is converted again.
Needs numpy, onnx, onnxruntime. Models given by --models are judged the same way where they run unconverted.
"""
import argparse
import collections
import copy
import json
import os
import subprocess
import sys
import tempfile
import traceback

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import random_formulas

OPSETS = [7, 9, 11, 12, 13, 17, 18, 20, 21, 23, 24]
IR_OF = {7: [3, 4, 8], 9: [3, 4, 8], 11: [6, 8], 12: [7, 8], 13: [7, 8, 10], 17: [8, 10], 18: [8, 10], 20: [9, 10], 21: [10], 23: [11], 24: [12]}
EXTRA = ["equalize-weights", "fuse-softplus", "fuse-swish", "unroll-loops", "fuse-reductions", "fuse-global-pool", "fuse-group-norm", "fuse-recurrent-all"]
VARIANTS = {"default": [], "extra": ["--set", f"passes.enable={json.dumps(EXTRA)}"], "onnxruntime": ["--set", "passes.profile=onnxruntime", "--set", "passes.enable=fuse-microsoft-skip-norm"]}
ODD = ["{}", "a.{}", "net/{}:0", "{} x", "{}é", "0{}", "/m/{}/out_0", "{}_folded", "{}_1"]
FLOATS = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE, np.float16: TensorProto.FLOAT16}


class Scope:
    """One graph that is being made: nodes, initializers and the values (name, shape) that may be read."""

    def __init__(self, make, values=()):
        self.make, self.nodes, self.inits, self.values = make, [], [], list(values)
        self.last = None

    def add(self, op, inputs, shape, outputs=1, domain="", **attrs):
        m = self.make
        names = [m.name("v") for _ in range(outputs)]
        title = m.pick(["", "node", m.name("n")] if m.twins else ["", m.name("n"), m.name("n")])
        node = helper.make_node(op, inputs, names, name=title, domain=domain, **attrs)
        if m.chance(0.1):
            node.doc_string = "made at random"
        self.nodes.append(node)
        if shape is not None:
            self.values.append((names[0], tuple(shape)))
            self.last = self.values[-1]
        return names[0] if outputs == 1 else names

    def const(self, array):
        """A constant by one of the ways in which exporters write one."""
        m = self.make
        array = np.asarray(array)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key in m.shared and m.chance(0.3) and not m.in_function:
            return m.shared[key]
        name = m.name("w")
        way = m.pick(["init"] * 6 + ["node", "identity", "input"])
        # Early versions of Constant give floats only.
        if m.in_function or way == "node" and (m.opset >= 9 or array.dtype.kind == "f"):
            tensor = numpy_helper.from_array(array, "")
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
            return name
        inner = m.depth > 0 and m.chance(0.5)
        home = self if inner else m.main
        home.inits.append(numpy_helper.from_array(array, name))
        if not inner and (m.ir < 4 or way == "input"):
            m.listed.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
            if m.ir >= 4 and array.dtype == m.dtype:
                m.overridable.append((name, array))
        if not inner and array.dtype == m.dtype:
            m.shared[key] = name
        if way == "identity":
            again = m.name("w")
            self.nodes.append(helper.make_node("Identity", [name], [again]))
            return again
        return name

    def weights(self, *shape):
        m = self.make
        same = [(k, n) for k, n in m.shared.items() if k[1] == shape]
        if same and m.chance(0.25) and not m.in_function:
            return m.pick(same)[1]
        if m.opset >= 10 and m.dtype is np.float32 and m.chance(0.15):
            ints = self.const(m.rng.integers(-100, 100, shape).astype(np.int8))
            return self.add("DequantizeLinear", [ints, self.const(np.float32(0.01))], None)
        array = m.floats(*shape)
        if len(shape) == 2 and m.chance(0.1):
            return self.add("Transpose", [self.const(array.T.copy())], None, perm=[1, 0])
        return self.const(array)


class Maker:
    # Names of formulas that are made and nothing else, on values with three axes.
    formulas = ()

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.opset = self.pick(OPSETS)
        self.ir = self.pick(IR_OF[self.opset])
        self.dtype = self.pick([np.float32] * 8 + [np.float64, np.float16])
        self.odd, self.count = self.chance(0.4), 0
        self.twins, self.untyped = self.chance(0.1), self.chance(0.1)
        self.shared, self.listed, self.overridable, self.functions = {}, [], [], []
        self.depth, self.in_function = 0, False
        self.main = Scope(self)

    # ---- chance ----

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def floats(self, *shape):
        scale = 10.0 ** self.rng.uniform(-1, 0.3)
        return (self.rng.standard_normal(shape) * scale).astype(self.dtype)

    def name(self, stem):
        self.count += 1
        form = self.pick(ODD) if self.odd else "{}"
        return form.format(f"{stem}{self.count}")

    # ---- operators; each takes a scope and a value (name, shape) ----

    def conv(self, s, v):
        name, (_, channels, *size) = v
        group = self.pick([1, 1, channels] + [2] * (channels % 2 == 0))
        out = group * self.int(1, 3)
        kernel = [self.int(1, min(3, n)) for n in size]
        attrs, size = self.window(size, kernel, dilate=True)
        if group > 1:
            attrs["group"] = group
        if self.chance(0.5):
            attrs["kernel_shape"] = kernel
        inputs = [name, s.weights(out, channels // group, *kernel)]
        if self.chance(0.5):
            inputs.append(s.weights(out))
        return s.add("Conv", inputs, (v[1][0], out, *size), **attrs)

    def conv_transpose(self, s, v):
        name, (batch, channels, *size) = v
        group = self.pick([1, 1] + [2] * (channels % 2 == 0))
        per_group, kernel = self.int(1, 2), [self.int(1, 3) for _ in size]
        strides = [self.int(1, 2) for _ in size]
        attrs = {"strides": strides, "group": group}
        pads = [0] * 2 * len(size)
        if self.chance(0.5):
            pads = [self.int(0, (k - 1) // 2) for k in kernel + kernel]
            attrs["pads"] = pads
        extra = [0] * len(size)
        if self.chance(0.3):
            extra = [self.int(0, st - 1) for st in strides]
            attrs["output_padding"] = extra
        n = len(size)
        size = [st * (d - 1) + x + k - pads[i] - pads[i + n] for i, (d, st, k, x) in enumerate(zip(size, strides, kernel, extra))]
        if min(size) < 1 or max(size) > 24:
            return None
        inputs = [name, s.weights(channels, per_group, *kernel)]
        if self.chance(0.5):
            inputs.append(s.weights(per_group * group))
        return s.add("ConvTranspose", inputs, (batch, per_group * group, *size), **attrs)

    def window(self, size, kernel, dilate=False, pool=False, ceil=False):
        """Attributes of a sliding window and the sizes it gives."""
        n, attrs = len(size), {}
        strides, dilations, pads = [1] * n, [1] * n, [0] * 2 * n
        if self.chance(0.5):
            strides = attrs["strides"] = [self.int(1, 2) for _ in size]
        if dilate and self.chance(0.3):
            dilations = attrs["dilations"] = [2 if 2 * k - 1 <= d else 1 for k, d in zip(kernel, size)]
        auto = self.pick(["", "", "", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
        if auto.startswith("SAME") and max(dilations) > 1:
            auto = ""
        if auto:
            attrs["auto_pad"] = auto
        if auto in ("", "NOTSET") and self.chance(0.6):
            pads = attrs["pads"] = [self.int(0, k - 1 if pool else 2) for k in kernel + kernel]
        if auto.startswith("SAME"):
            return attrs, [-(-d // st) for d, st in zip(size, strides)]
        if ceil and not auto and self.chance(0.3):
            attrs["ceil_mode"] = 1
            return attrs, None
        span = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
        return attrs, [(d + pads[i] + pads[i + n] - sp) // st + 1 for i, (d, st, sp) in enumerate(zip(size, strides, span))]

    def pool(self, s, v):
        name, (batch, channels, *size) = v
        op = self.pick(["MaxPool", "AveragePool"])
        kernel = [self.int(1, min(3, n)) for n in size]
        dilate = op == "MaxPool" and self.opset >= 10
        attrs, out = self.window(size, kernel, dilate=dilate, pool=True, ceil=self.opset >= 11)
        if op == "AveragePool" and self.chance(0.4):
            attrs["count_include_pad"] = self.int(0, 1)
        shape = None if out is None or min(out) < 1 else (batch, channels, *out)
        made = s.add(op, [name], shape, kernel_shape=kernel, **attrs)
        if shape is None:
            s.extra_outputs.append(made)
        return made

    def batch_norm(self, s, v):
        name, shape = v
        channels = shape[1]
        if self.chance(0.6):
            if len(shape) == 2:
                self.gemm(s, v)
            else:
                self.pick([self.conv, self.conv, self.conv_transpose])(s, v)
            name, shape = s.last
            channels = shape[1]
        variance = (np.abs(self.floats(channels)) + 0.1).astype(self.dtype)
        rest = [s.weights(channels), s.weights(channels), s.weights(channels), s.const(variance)]
        attrs = {"epsilon": self.pick([1e-5, 1e-3])} if self.chance(0.6) else {}
        if self.opset < 9 and self.chance(0.5):
            attrs["spatial"] = 1
        if self.opset >= 14 and self.chance(0.3):
            attrs["training_mode"] = 0
        return s.add("BatchNormalization", [name] + rest, shape, **attrs)

    def arithmetic(self, s, v):
        name, shape = v
        if self.chance(0.5):
            self.linear(s, v)
            name, shape = s.last
        op = self.pick(["Add", "Add", "Mul", "Mul", "Sub", "Div"])
        rank = len(shape)
        forms = [(), (1,), (shape[-1],), shape, (1,) * rank]
        forms += [(shape[1],) + (1,) * (rank - 2), (1, shape[1]) + (1,) * (rank - 2)] * 3
        pair = [name, s.weights(*self.pick(forms))]
        if self.chance(0.3) and op != "Div":
            pair.reverse()
        return s.add(op, pair, shape)

    def scaled(self, s, v):
        """A factor near weights: behind or before them, through layout, a bias or another constant."""
        self.linear(s, v)
        for _ in range(self.int(1, 3)):
            name, shape = s.last
            kind = self.pick(["factor", "factor", "bias", "move", "linear", "twice"])
            if kind == "linear":
                self.linear(s, s.last)
            elif kind == "move":
                self.same(s, s.last)
            elif kind == "bias":
                s.add("Add", [name, s.weights(shape[-1])], shape)
            else:
                factor = np.array(self.pick([0.125, 2.0, -1.5]), self.dtype)
                s.add(self.pick(["Mul", "Div"]), [name, s.const(factor.reshape(self.pick([(), (1,)])))], shape)
            if kind == "twice":
                self.linear(s, s.last)
        return s.last[0]

    def perceptron(self, s, v):
        """Products with biases and what lies between them, of matrices or more axes."""
        for _ in range(self.int(2, 4)):
            name, shape = s.last if s.last[1][:-1] == v[1][:-1] else v
            out = (*shape[:-1], self.int(1, 4))
            product = s.add("MatMul", [name, s.weights(shape[-1], out[-1])], out)
            form = self.pick([(out[-1],), (1, out[-1]), (1,)])
            pair = [product, s.const(self.floats(*form))]
            if self.chance(0.2):
                pair.reverse()
            s.add("Add", pair, out)
            kind = self.pick(["activation", "softmax", "residual", "reshape", "factor", "mean", "none"])
            if kind == "activation":
                self.activation(s, s.last)
            elif kind == "softmax":
                s.add("Softmax", [s.last[0]], out, axis=self.pick([-1, len(out) - 1, 1]) if self.opset >= 11 else 1)
            elif kind == "residual":
                self.residual(s, s.last)
            elif kind == "reshape":
                s.add("Reshape", [s.last[0], s.const(np.array([-1, out[-1]], np.int64))], (int(np.prod(out[:-1])), out[-1]))
                s.add("Reshape", [s.last[0], s.const(np.array(out, np.int64))], out)
            elif kind == "factor":
                s.add("Mul", [s.last[0], s.const(self.floats(*[1] * (len(out) - 1), out[-1]))], out)
            elif kind == "mean" and self.opset < 18:
                s.add("ReduceMean", [s.last[0]], (*out[:-1], 1), axes=[-1 if self.opset >= 11 else len(out) - 1])
        return s.last[0]

    def attention(self, s, v):
        """Scores of queries and keys, either of them or both scaled."""
        name, shape = v
        wide, parts = shape[-1], []
        for _ in range(2):
            part = s.add("MatMul", [name, s.weights(wide, 4)], (*shape[:-1], 4))
            if self.chance(0.4):
                part = s.add("Add", [part, s.weights(4)], (*shape[:-1], 4))
            if self.chance(0.6):
                part = s.add(self.pick(["Mul", "Div"]), [part, s.const(np.array(2.0, self.dtype))], (*shape[:-1], 4))
            parts.append(part)
        rank = len(shape)
        perm = list(range(rank - 2)) + [rank - 1, rank - 2]
        parts[1] = s.add("Transpose", [parts[1]], None, perm=perm)
        out = (*shape[:-1], shape[-2])
        scores = s.add("MatMul", parts, out)
        if self.chance(0.5):
            scores = s.add("Div", [scores, s.const(np.array(3.0, self.dtype))], out)
        return s.add("Softmax", [scores], out, axis=rank - 1)

    def linear(self, s, v):
        return self.pick([self.gemm, self.matmul])(s, v) if len(v[1]) == 2 else self.conv(s, v)

    def residual(self, s, v):
        same = [u for u in s.values if u[1] == v[1]]
        return s.add(self.pick(["Add", "Sum", "Mul", "Max"]), [v[0], self.pick(same)[0]], v[1])

    def pad(self, s, v):
        name, shape = v
        rank, mode = len(shape), self.pick(["constant"] * 5 + ["edge"])
        pads = [0] * 2 * rank
        if self.chance(0.8):
            for axis in range(2, rank) if self.chance(0.8) else range(rank):
                pads[axis], pads[rank + axis] = self.int(0, 2), self.int(0, 2)
        value = self.pick([0.0, 0.0, 0.0, 1.5])
        out = tuple(d + pads[i] + pads[rank + i] for i, d in enumerate(shape))
        attrs = {} if mode == "constant" and self.chance(0.5) else {"mode": mode}
        if self.opset < 11:
            made = s.add("Pad", [name], out, pads=pads, value=value, **attrs)
        else:
            inputs = [name]
            axes = None
            if self.opset >= 18 and self.chance(0.5):
                kept = [i for i in range(rank) if pads[i] or pads[rank + i]] or [rank - 1]
                axes = [i - rank if self.chance(0.5) else i for i in kept]
                pads = [pads[i] for i in kept] + [pads[rank + i] for i in kept]
            inputs.append(s.const(np.array(pads, np.int64)))
            if value or axes or self.chance(0.5):
                inputs.append(s.const(np.array(value, self.dtype)) if value or self.chance(0.5) else "")
            if axes:
                inputs += [""] * (2 - len(inputs) + 1) if len(inputs) < 3 else []
                inputs.append(s.const(np.array(axes, np.int64)))
            while inputs[-1] == "":
                inputs.pop()
            made = s.add("Pad", inputs, out, **attrs)
        if rank > 2 and self.chance(0.7):
            self.pick([self.conv, self.conv, self.pool])(s, s.last)
        return made

    def relu_pad_pool(self, s, v):
        self.activation(s, v)
        self.pad(s, s.last)
        if len(v[1]) > 2:
            self.pool(s, s.last)

    def activation(self, s, v):
        op = self.pick(["Relu", "Relu", "LeakyRelu", "Sigmoid", "Clip", "Neg"])
        if op != "Clip":
            return s.add(op, [v[0]], v[1], **({"alpha": 0.2} if op == "LeakyRelu" else {}))
        low, high = self.pick([(0, 6), (-1, 1), (None, 2), (0, None)])
        if self.opset < 11:
            return s.add("Clip", [v[0]], v[1], **{k: float(x) for k, x in (("min", low), ("max", high)) if x is not None})
        bounds = ["" if x is None else s.const(np.array(x, self.dtype)) for x in (low, high)]
        return s.add("Clip", [v[0]] + (bounds if bounds[1] else bounds[:1]), v[1])

    def dropout(self, s, v):
        outputs = 2 if self.chance(0.3) else 1
        if self.opset < 12:
            made = s.add("Dropout", [v[0]], v[1], outputs, **({"ratio": 0.3} if self.chance(0.5) else {}))
        else:
            inputs = [v[0]]
            if self.chance(0.6):
                inputs.append(s.const(np.array(0.3, np.float32)) if self.chance(0.7) else "")
                if self.chance(0.5):
                    inputs.append(s.const(np.array(False)))
            while inputs[-1] == "":
                inputs.pop()
            made = s.add("Dropout", inputs, v[1], outputs)
        if outputs == 2 and self.opset >= 10 and self.chance(0.5):
            s.extra_outputs.append(made[1])
        return made

    def same(self, s, v):
        """Something that may return its input."""
        name, shape = v
        rank = len(shape)
        code = FLOATS[self.dtype]
        kind = self.pick(["Identity", "Identity", "Cast", "Casts", "Transpose", "Concat", "Sum", "Max", "Reshape", "Expand", "Real"])
        if kind == "Cast":
            return s.add("Cast", [name], shape, to=code)
        if kind == "Casts":
            wide = s.add("Cast", [name], None, to=TensorProto.DOUBLE)
            return s.add("Cast", [wide], shape, to=code)
        if kind == "Transpose":
            return s.add("Transpose", [name], shape, perm=list(range(rank)))
        if kind == "Real":
            attrs = {} if self.chance(0.5) else {"perm": list(range(rank))[::-1]}
            return s.add("Transpose", [name], shape[::-1], **attrs)
        if kind == "Concat":
            count, axis = self.int(1, 2), self.int(0, rank - 1)
            out = [d * count if i == axis else d for i, d in enumerate(shape)]
            return s.add("Concat", [name] * count, out, axis=axis)
        if kind in ("Sum", "Max"):
            return s.add(kind, [name] * self.int(1, 2), shape)
        if kind == "Reshape":
            wanted = [self.pick([d, d, 0]) for d in shape]
            if self.chance(0.3):
                wanted[self.int(0, rank - 1)] = -1
            return s.add("Reshape", [name, s.const(np.array(wanted, np.int64))], shape)
        if kind == "Expand" and self.opset >= 8:
            wanted = [self.pick([d, d, 1]) for d in shape]
            return s.add("Expand", [name, s.const(np.array(wanted, np.int64))], shape)
        return s.add("Identity", [name], shape)

    def reshaped(self, s, name, shape, to):
        return s.add("Reshape", [name, s.const(np.array(to, np.int64))], tuple(to))

    def axes(self, s, op, name, axes, shape):
        """Squeeze or Unsqueeze."""
        if self.opset < 13:
            return s.add(op, [name], shape, axes=axes)
        return s.add(op, [name, s.const(np.array(axes, np.int64))], shape)

    def cut(self, s, name, shape, axis, start, end):
        """Slice along one axis."""
        out = tuple(end - start if i == axis else d for i, d in enumerate(shape))
        end = self.pick([end, 2**40]) if end == shape[axis] else end
        axis = self.pick([axis, axis - len(shape)])
        if self.opset < 10:
            return s.add("Slice", [name], out, starts=[start], ends=[end], axes=[axis])
        return s.add("Slice", [name] + [s.const(np.array([x], np.int64)) for x in (start, end, axis)], out)

    def split(self, s, name, axis, sizes):
        attrs = {"axis": axis, "split": sizes} if self.opset < 13 else {"axis": axis}
        inputs = [name] if self.opset < 13 else [name, s.const(np.array(sizes, np.int64))]
        return s.add("Split", inputs, None, outputs=len(sizes), **attrs)

    def chain(self, s, v):
        """Operators that move elements, one behind the other; some may be read in between."""
        name, shape = v
        rank = len(shape)
        axis = self.int(0, rank - 1)
        kind = self.pick(["Transpose", "Reshape", "Axes", "Casts", "Slice", "Pad", "Concat", "Split", "Gather", "Share"])
        if kind == "Transpose":
            for _ in range(self.int(2, 3)):
                perm = [int(i) for i in self.rng.permutation(rank)]
                shape = tuple(shape[i] for i in perm)
                name = s.add("Transpose", [name], shape, perm=perm)
        elif kind == "Reshape":
            name = s.add("Flatten", [name], (int(np.prod(shape[:1])), int(np.prod(shape[1:]))), axis=1)
            name = self.pick([self.reshaped, self.reshaped, lambda s, n, _, to: n])(s, name, None, (shape[0], int(np.prod(shape[1:]))))
            wanted = self.pick([shape, (shape[0], 1) + shape[1:], (1, int(np.prod(shape)))])
            name = self.reshaped(s, name, None, wanted)
        elif kind == "Axes" and rank < 5:
            long = shape[:axis] + (1,) + shape[axis:]
            name = self.axes(s, "Unsqueeze", name, [axis], long)
            if self.chance(0.3):
                name, long = self.axes(s, "Unsqueeze", name, [0], (1,) + long), (1,) + long
            if self.chance(0.4):
                perm = sorted(range(len(long)), key=lambda i: long[i] == 1)
                name, long = s.add("Transpose", [name], tuple(long[i] for i in perm), perm=perm), tuple(long[i] for i in perm)
            at = self.pick([i for i, d in enumerate(long) if d == 1])
            name = self.axes(s, "Squeeze", name, [at], long[:at] + long[at + 1 :])
        elif kind == "Casts":
            wide = s.add("Cast", [name], None, to=self.pick([TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.FLOAT16]))
            name = s.add("Cast", [wide], shape, to=FLOATS[self.dtype])
        elif kind == "Slice":
            for i in {axis, self.int(0, rank - 1)}:
                start = self.int(0, shape[i] - 1)
                end = self.int(start + 1, shape[i])
                name = self.cut(s, name, shape, i, start, end)
                shape = tuple(end - start if j == i else d for j, d in enumerate(shape))
        elif kind == "Pad" and self.opset >= 11:
            for value in self.pick([(0.0, 0.0), (0.0, 1.0), (1.5, 1.5)]):
                pads = [self.int(0, 1) for _ in range(2 * rank)]
                shape = tuple(d + pads[i] + pads[i + rank] for i, d in enumerate(shape))
                inputs = [name, s.const(np.array(pads, np.int64)), s.const(np.array(value, self.dtype))]
                name = s.add("Pad", inputs, shape)
        elif kind == "Concat":
            inner = tuple(2 * d if i == axis else d for i, d in enumerate(shape))
            other = self.pick([axis, axis, 0])
            twice = s.add("Concat", [name, name], inner, axis=axis)
            if other == axis:
                name = s.add("Concat", [twice, name], tuple(3 * d if i == axis else d for i, d in enumerate(shape)), axis=axis)
            else:
                name = s.add("Concat", [twice, twice], tuple(2 * d if i == other else d for i, d in enumerate(inner)), axis=other)
        elif kind == "Split" and shape[axis] > 1:
            first = self.int(1, shape[axis] - 1)
            parts = self.split(s, name, axis, [first, shape[axis] - first])
            parts = self.pick([parts, parts, parts[::-1]])
            if self.chance(0.2):
                parts[0] = s.add("Relu", [parts[0]], None)
            name = s.add("Concat", parts, shape, axis=axis)
        elif kind == "Gather":
            index = self.int(0, shape[axis] - 1)
            taken = s.add("Gather", [name, s.const(np.array(index, np.int64))], None, axis=axis)
            name = self.axes(s, "Unsqueeze", taken, [axis], tuple(1 if i == axis else d for i, d in enumerate(shape)))
        elif kind == "Share" and shape[axis] > 1:
            first = self.int(1, shape[axis] - 1)
            low = self.cut(s, name, shape, axis, 0, first)
            high = self.cut(s, name, shape, axis, self.pick([first, first, first - 1]), shape[axis])
            low = s.add(self.pick(["Neg", "Relu"]), [low], None)
            s.add("Relu", [high], None)
            size = first + s.values[-1][1][axis]
            name = s.add("Concat", [high, low], tuple(size if i == axis else d for i, d in enumerate(shape)), axis=axis)
        return name

    def layout(self, s, v):
        """Operators that work on any order of axes between Transposes, some of which may not cancel."""
        name, shape = v
        rank = len(shape)
        perm = self.pick([list(range(rank))[::-1], [0] + list(range(2, rank)) + [1], [int(i) for i in self.rng.permutation(rank)]])
        back = [perm.index(i) for i in range(rank)]
        turn = lambda n, d, p: (s.add("Transpose", [n], tuple(d[i] for i in p), perm=p), tuple(d[i] for i in p))
        name, shape = turn(name, shape, perm)
        first = (name, shape)
        for _ in range(self.int(1, 4)):
            axis = self.int(0, rank - 1)
            kind = self.pick(["Relu", "Add", "Add", "Residual", "Reduce", "Mean", "Concat", "Split", "Slice", "Pad", "Softmax", "Turn"])
            if kind == "Relu":
                name = s.add("Relu", [name], shape)
            elif kind == "Add":
                dims = [self.pick([1, d]) for d in shape][self.int(0, rank) :]
                name = s.add(self.pick(["Add", "Mul"]), self.pick([[name, s.const(self.floats(*dims))], [s.const(self.floats(*dims)), name]]), shape)
            elif kind == "Residual" and first[1] == shape:
                name = s.add("Add", [name, first[0]], shape)
            elif kind == "Reduce":
                name = s.add("ReduceMax", [name], tuple(1 if i == axis else d for i, d in enumerate(shape)), axes=[axis]) if self.opset < 18 else name
                shape = s.last[1] if self.opset < 18 else shape
            elif kind == "Mean" and self.opset < 18:
                name = s.add("ReduceMean", [name], (1,) * rank, axes=list(range(rank)))
                shape = (1,) * rank
            elif kind == "Concat":
                shape = tuple(2 * d if i == axis else d for i, d in enumerate(shape))
                name = s.add("Concat", [name, name], shape, axis=self.pick([axis, axis - rank]) if self.opset >= 11 else axis)
            elif kind == "Split" and shape[axis] > 1:
                parts = self.split(s, name, axis, [1, shape[axis] - 1])
                shape = tuple(shape[axis] - 1 if i == axis else d for i, d in enumerate(shape))
                name = s.add("Neg", [parts[1]], shape)
            elif kind == "Slice":
                start = self.int(0, shape[axis] - 1)
                name = self.cut(s, name, shape, axis, start, shape[axis])
                shape = s.last[1]
            elif kind == "Pad" and self.opset >= 11:
                pads = [self.int(0, 1) for _ in range(2 * rank)]
                shape = tuple(d + pads[i] + pads[i + rank] for i, d in enumerate(shape))
                name = s.add("Pad", [name, s.const(np.array(pads, np.int64))], shape)
            elif kind == "Softmax":
                name = s.add("Softmax", [name], shape, axis=rank - 1)
            elif kind == "Turn":
                again = self.pick([perm, back])
                name, shape = turn(name, shape, again)
        return turn(name, shape, self.pick([back, back, perm]))[0]

    def flatten(self, s, v):
        name, shape = v
        if self.opset >= 13 and self.chance(0.4):
            size = s.add("Shape", [name], None)
            batch = s.add("Gather", [size, s.const(np.array([0], np.int64))], None, axis=0)
            wanted = s.add("Concat", [batch, s.const(np.array([-1], np.int64))], None, axis=0)
            return s.add("Reshape", [name, wanted], (shape[0], int(np.prod(shape[1:]))))
        axis = self.pick([1, 1, 1, 2])
        out = (int(np.prod(shape[:axis])), int(np.prod(shape[axis:])))
        return s.add("Flatten", [name], out, axis=axis)

    def gemm(self, s, v):
        name, (rows, depth) = v
        attrs, out = {}, self.int(1, 4)
        if self.chance(0.2):
            attrs["transA"], rows, depth = 1, depth, rows
        if self.chance(0.4):
            attrs["transB"] = 1
        if self.chance(0.3):
            attrs["alpha"] = 0.5
        if self.chance(0.3):
            attrs["beta"] = 2.0
        inputs = [name, s.weights(*((out, depth) if "transB" in attrs else (depth, out)))]
        if self.opset < 11 or self.chance(0.6):
            inputs.append(s.weights(*self.pick([(out,), (out,), (1, out), (), (rows, 1)])))
        return s.add("Gemm", inputs, (rows, out), **attrs)

    def matmul(self, s, v):
        name, shape = v
        out = self.int(1, 4)
        return s.add("MatMul", [name, s.weights(shape[-1], out)], (*shape[:-1], out))

    def twice(self, s, v):
        """Equal nodes."""
        op = self.pick(["Relu", "Sigmoid", "Identity"])
        pair = [s.add(op, [v[0]], v[1]) for _ in range(2)]
        return s.add("Add", pair, v[1])

    def quantized(self, s, v):
        if self.opset < 10 or self.dtype is not np.float32:
            return None
        parameters = [s.const(np.float32(0.05)), s.const(np.uint8(128))]
        ints = s.add("QuantizeLinear", [v[0]] + parameters, None)
        return s.add("DequantizeLinear", [ints] + parameters, v[1])

    def pair(self, s, v):
        """Two linear layers with something homogeneous between them."""
        self.linear(s, v)
        if self.chance(0.7):
            s.add(self.pick(["Relu", "Identity", "LeakyRelu"]), [s.last[0]], s.last[1])
        if len(s.last[1]) > 2 and self.chance(0.3):
            self.flatten(s, s.last)
        self.linear(s, s.last)

    # ---- sub-graphs and functions ----

    def inner(self, s, v, steps):
        """A sub-graph's scope that starts from the outer value `v` and keeps its shape in the end."""
        scope = Scope(self, [v])
        scope.last, scope.extra_outputs = v, []
        self.depth += 1
        for _ in range(steps):
            self.pick(SHAPED)(scope, scope.last)
        self.depth -= 1
        return scope

    def branch(self, s, v):
        steps = [self.inner(s, v, self.int(1, 3)) for _ in range(2)]
        if self.chance(0.3):  # what is computed inside and outside, and a twin of the whole node
            for scope in [s] + steps:
                scope.add("Relu", [v[0]], v[1])
            for scope in steps:
                scope.add("Neg", [scope.last[0]], v[1])
        graphs = []
        for scope in steps:
            if not scope.nodes or scope.last is v:
                scope.add("Identity", [v[0]], v[1])
            out = helper.make_tensor_value_info(scope.last[0], FLOATS[self.dtype], list(scope.last[1]))
            graphs.append(helper.make_graph(scope.nodes, self.pick(["then", "g"]), [], [out], scope.inits))
        cond = self.pick([s.const(np.array(self.chance(0.5))), "cond"])
        self.wants_cond |= cond == "cond"
        made = s.add("If", [cond], None, then_branch=graphs[0], else_branch=graphs[1])
        s.values.append((made, v[1]))
        if self.chance(0.2) and self.depth == 0 and not any(n.op_type in ("If", "Loop") for scope in steps for n in scope.nodes):
            again = [copy.deepcopy(g) for g in graphs]
            for g in again:
                self.rename(g)
            twin = s.add("If", [cond], None, then_branch=again[0], else_branch=again[1])
            s.add("Add", [made, twin], v[1])
        s.last = s.values[-1]

    def rename(self, graph):
        """Gives what a sub-graph computes other names."""
        own = [o for n in graph.node for o in n.output] + [t.name for t in graph.initializer]
        new = {name: self.name("t") for name in own if name}
        for n in graph.node:
            n.input[:] = [new.get(i, i) for i in n.input]
            n.output[:] = [new.get(o, o) for o in n.output]
        for t in list(graph.initializer) + list(graph.output):
            t.name = new.get(t.name, t.name)

    def loop(self, s, v):
        carried = (self.name("carried"), v[1])
        scope = self.inner(s, carried, self.int(1, 3))
        scope.values.append(v)
        again, code = self.name("again"), FLOATS[self.dtype]
        seen = scope.add("Add", [scope.last[0], v[0]], v[1])
        carry = scope.last
        scope.nodes.append(helper.make_node("Identity", ["go" + carried[0]], [again]))
        every = scope.add("Identity", [seen], v[1])
        info = helper.make_tensor_value_info
        inputs = [info("i" + carried[0], TensorProto.INT64, []), info("go" + carried[0], TensorProto.BOOL, []), info(carried[0], code, list(v[1]))]
        outputs = [info(again, TensorProto.BOOL, []), info(carry[0], code, list(v[1])), info(every, code, list(v[1]))]
        body = helper.make_graph(scope.nodes, "body", inputs, outputs, scope.inits)
        made = s.add("Loop", [s.const(np.array(2, np.int64)), s.const(np.array(True)), v[0]], None, 2, body=body)
        s.values.append((made[0], v[1]))
        s.last = s.values[-1]
        s.extra_outputs.append(made[1])

    def function(self, s, v):
        if self.ir < 8 or self.depth or self.opset < 13:
            return
        if not self.functions or self.chance(0.4):
            body = Scope(self, [("fx", None)])
            self.in_function = True
            a = body.add("LeakyRelu", ["fx"], None)
            body.nodes[-1].ClearField("attribute")
            reference = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
            body.nodes[-1].attribute.append(reference)
            a = body.add("Identity", [a], None)
            a = body.add("Dropout", [a], None)
            b = body.add("LeakyRelu", [body.const(self.floats(1))], None)
            body.nodes[-1].ClearField("attribute")
            body.nodes[-1].attribute.append(reference)
            b = body.add("Add", [b, body.const(self.floats(1))], None)
            a = body.add("Add", [a, b], None)
            self.in_function = False
            opsets = [helper.make_opsetid("", self.opset)]
            self.functions.append(helper.make_function("local.fn", f"F{len(self.functions)}", ["fx"], [a], body.nodes, opsets, ["slope"]))
        return s.add(self.pick(self.functions).name, [v[0]], v[1], domain="local.fn", slope=self.pick([0.1, 0.5]))

    # ---- the whole ----

    def model(self):
        s = self.main
        s.extra_outputs, self.wants_cond = [], False
        spatial = 1 if self.formulas else self.pick([0, 1, 2, 2, 2, 2, 3])
        shape = (self.int(1, 2), self.pick([1, 2, 4])) + tuple(self.int(4, 6) for _ in range(spatial))
        info = helper.make_tensor_value_info
        inputs = []
        for _ in range(self.int(1, 2)):
            name = self.name("x")
            dims = ["N" if i == 0 and self.chance(0.3) and d == 2 else d for i, d in enumerate(shape)]
            inputs.append(info(name, FLOATS[self.dtype], dims))
            s.values.append((name, shape))
        s.last = s.values[0]
        for _ in range(self.int(3, 10)):
            self.step(s)
        code = FLOATS[self.dtype]
        outs = [s.last]
        made = [v for v in s.values[len(inputs):] if v is not s.last]
        outs += [v for v in made if self.chance(0.1)]
        if self.chance(0.1) and s.last[0] != s.values[0][0]:
            outs.append(s.values[0])
        constants = [(t.name, tuple(t.dims)) for t in s.inits if t.data_type == code]
        if constants and self.chance(0.15):
            outs.append(self.pick(constants))
        outs = list(dict(outs).items())
        outputs = [info(n, code, list(d)) if self.chance(0.7) else info(n, code, None) for n, d in outs]
        if self.untyped:
            outputs = [onnx.ValueInfoProto(name=o.name) for o in outputs]
        outputs += [onnx.ValueInfoProto(name=n) for n in s.extra_outputs]
        inputs += self.listed
        if self.wants_cond:
            inputs.append(info("cond", TensorProto.BOOL, []))
        if self.chance(0.2):
            order = self.rng.permutation(len(s.nodes))
            s.nodes = [s.nodes[i] for i in order]
        graph = helper.make_graph(s.nodes, self.pick(["", "g", "main/graph:1"]), inputs, outputs, s.inits)
        opsets = [helper.make_opsetid(self.pick(["", "", "ai.onnx"]), self.opset)]
        if self.chance(0.2):
            opsets.append(helper.make_opsetid("com.microsoft", 1))
        if self.functions:
            opsets.append(helper.make_opsetid("local.fn", 1))
        model = helper.make_model(graph, opset_imports=opsets, ir_version=self.ir, functions=self.functions, producer_name="judge")
        for n in s.extra_outputs if not self.untyped else []:
            fill_type(model, n)
        if self.chance(0.3):
            helper.set_model_props(model, {"author": "judge", "k.é": "v\nw"})
            model.doc_string, model.model_version, model.domain = "about", 7, "org.judge"
        if self.chance(0.5):
            try:
                model = onnx.shape_inference.infer_shapes(model)
            except Exception:
                pass
        return model

    def step(self, s):
        v = s.last if self.chance(0.75) else self.pick(s.values)
        rank = len(v[1])
        if self.formulas:
            return random_formulas.formula(self, s, v, self.formulas)
        if int(np.prod(v[1])) > 3000:
            return
        if self.chance(0.3):
            return random_formulas.formula(self, s, v)
        choices = [self.same] * 4 + [self.activation] * 2 + [self.residual, self.twice, self.quantized, self.dropout, self.dropout]
        choices += [self.branch, self.loop, self.function, self.arithmetic, self.arithmetic, self.pad] + [self.chain] * 4 + [self.layout] * 3
        choices += [self.scaled, self.scaled, self.attention, self.perceptron]
        if rank > 2:
            choices += [self.conv, self.conv_transpose, self.batch_norm, self.batch_norm, self.batch_norm, self.pool]
            choices += [self.relu_pad_pool, self.pad, self.pair, self.pair, self.flatten, self.matmul]
        else:
            choices += [self.gemm, self.matmul, self.batch_norm, self.batch_norm, self.pair]
        self.pick(choices)(s, v)


def shaped_same(m, s, v):
    s.add("Identity", [v[0]], v[1])


def shaped_add(m, s, v):
    channels = (v[1][1],) + (1,) * (len(v[1]) - 2)
    s.add(m.pick(["Add", "Mul"]), [v[0], s.weights(*channels)], v[1])


def shaped_conv(m, s, v):
    if len(v[1]) > 2:
        s.add("Conv", [v[0], s.weights(v[1][1], v[1][1], *[1] * (len(v[1]) - 2))], v[1])
        if m.chance(0.6):
            n = v[1][1]
            variance = (np.abs(m.floats(n)) + 0.1).astype(m.dtype)
            rest = [s.weights(n), s.weights(n), s.weights(n), s.const(variance)]
            s.add("BatchNormalization", [s.last[0]] + rest, v[1])


SHAPED = [lambda s, v, f=f: f(s.make, s, v) for f in (shaped_same, shaped_add, shaped_conv)]
SHAPED += [lambda s, v: s.make.activation(s, v), lambda s, v: s.make.dropout(s, v), lambda s, v: s.make.twice(s, v)]


def fill_type(model, name):
    """The declared type of an output whose shape only inference knows."""
    info = next(o for o in model.graph.output if o.name == name)
    inner = copy.deepcopy(model)
    del inner.graph.output[:]
    if all(opset.domain != "com.microsoft" for opset in inner.opset_import):
        inner.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    found = {v.name: v.type.tensor_type.elem_type for v in onnx.shape_inference.infer_shapes(inner).graph.value_info}
    like = next(o for o in model.graph.output if o.type.WhichOneof("value"))
    info.type.tensor_type.elem_type = found.get(name) or like.type.tensor_type.elem_type


# ---- judging ----


def session(model_or_path):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = model_or_path if isinstance(model_or_path, str) else model_or_path.SerializeToString()
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run_runtime(model, feeds):
    s = session(model)
    known = {i.name for i in s.get_inputs()} | {i.name for i in s.get_overridable_initializers()}
    return s.run(None, {k: v for k, v in feeds.items() if k in known})


def load(model):
    return onnx.load(model) if isinstance(model, str) else model


def run_renamed(model, feeds):
    """The runtime refuses nodes of equal names."""
    copy = onnx.ModelProto()
    copy.CopyFrom(load(model))
    visit(copy, lambda node: node.ClearField("name"), lambda tensor: tensor)
    return run_runtime(copy, feeds)


def run_float32(model, feeds):
    """Both sides as single precision, for which the runtime has every kernel."""
    copy = onnx.ModelProto()
    copy.CopyFrom(load(model))
    wide = (TensorProto.DOUBLE, TensorProto.FLOAT16)

    def single(tensor):
        if tensor.data_type in wide:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))

    def node_single(node):
        node.ClearField("name")
        for a in node.attribute:
            if node.op_type == "Cast" and a.name == "to" and a.i in wide:
                a.i = TensorProto.FLOAT

    def type_single(info):
        if info.type.tensor_type.elem_type in wide:
            info.type.tensor_type.elem_type = TensorProto.FLOAT

    visit(copy, node_single, single, type_single)
    feeds = {k: v.astype(np.float32) if v.dtype in (np.float64, np.float16) else v for k, v in feeds.items()}
    return run_runtime(copy, feeds)


def visit(model, on_node, on_tensor, on_info=lambda info: None):
    def nodes(list_of_nodes):
        for node in list_of_nodes:
            on_node(node)
            for a in node.attribute:
                if a.type == onnx.AttributeProto.TENSOR:
                    on_tensor(a.t)
                for g in [a.g] * (a.type == onnx.AttributeProto.GRAPH) + list(a.graphs):
                    graph(g)

    def graph(g):
        for t in g.initializer:
            on_tensor(t)
        for info in [*g.input, *g.output, *g.value_info]:
            on_info(info)
        nodes(g.node)

    graph(model.graph)
    for f in model.functions:
        nodes(f.node)


def run_reference(model, feeds):
    if any(n.op_type in ("Loop", "If") for n in load(model).graph.node):
        raise ValueError("the reference evaluator is not trusted with sub-graphs")
    return ReferenceEvaluator(load(model)).run(None, feeds)


def differ(got, want, rtol):
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    if want.dtype.kind != "f":
        return None if np.array_equal(got, want) else "integers differ"
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if not np.array_equal(finite, np.isfinite(got)):
        return "infinities differ"
    if not finite.any():
        return None
    error, scale = np.abs(got - want)[finite].max(), np.abs(want[finite]).max()
    return f"max abs {error:.3g} at magnitude {scale:.3g}" if error > rtol * max(scale, 1e-3) else None


def feeds_of(model, rng, overrides=()):
    initialized = {t.name for t in model.graph.initializer}
    feeds = {}
    for i in model.graph.input:
        if i.name in initialized:
            continue
        t = i.type.tensor_type
        shape = [d.dim_value if d.dim_value > 0 else (2 if d.dim_param == "N" or not k else 4) for k, d in enumerate(t.shape.dim)]
        dtype = helper.tensor_dtype_to_np_dtype(t.elem_type)
        if dtype == np.bool_:
            feeds[i.name] = np.array(rng.random(shape) < 0.5)
        elif np.dtype(dtype).kind in "iu":
            feeds[i.name] = rng.integers(0, 3, shape).astype(dtype)
        else:
            feeds[i.name] = rng.standard_normal(shape).astype(dtype)
    for name, array in overrides:
        feeds[name] = (array * 1.5 + 0.25).astype(array.dtype)
    return feeds


def signature(infos):
    def dims(t):
        return [d.dim_param or d.dim_value for d in t.shape.dim] if t.HasField("shape") else None

    return [(i.name, i.type.tensor_type.elem_type, dims(i.type.tensor_type)) for i in infos]


def interface_changed(old, new, ir):
    initialized = {t.name for t in old.graph.initializer} if ir < 4 else set()
    kept = [i for i in old.graph.input if i.name not in initialized]
    if signature(kept) != signature(new.graph.input):
        return "inputs changed"
    inputs = {i.name for i in old.graph.input}  # an input that is an output has one type, that of the input
    for a, b in zip(signature(old.graph.output), signature(new.graph.output)):
        refined = a[0] in inputs or a[2] is None or (b[2] is not None and len(a[2]) == len(b[2]) and all(x in (y, 0) for x, y in zip(a[2], b[2])))
        if a[0] != b[0] or a[1] not in (b[1], 0) or not refined:
            return f"output changed: {a} to {b}"
    if len(old.graph.output) != len(new.graph.output):
        return "number of outputs changed"
    props = {p.key: p.value for p in new.metadata_props}
    lost = [p.key for p in old.metadata_props if props.get(p.key) != p.value and not p.key.startswith("onnxd.")]
    return f"metadata lost: {lost}" if lost else None


def convert(onnxd, path, out, extra):
    done = subprocess.run([onnxd, "convert", path, "--out", out, *extra], capture_output=True, timeout=300, stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        text = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
        return None, f"exit {done.returncode}: {' | '.join(text)[:400]}"
    report = json.load(open(os.path.join(out, "report.json")))
    return report, None


def checked(model):
    try:
        onnx.checker.check_model(model, full_check=True)
        return None
    except Exception as e:
        return str(e).strip().replace("\n", " ")[:300]


def original_run(model, feed_sets):
    """The first engine that runs the unconverted model, with its results."""
    why = ""
    for run in (run_runtime, run_renamed, run_float32, run_reference):
        try:
            return run, [run(model, f) for f in feed_sets], ""
        except Exception as e:
            why += f"{run.__name__}: {str(e)[-160:]} ".replace("\n", " ")
    return None, None, why


def variants(model):
    """Params of each conversion. Models of new opsets are lowered, and also kept."""
    opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    kept = {"kept": ["--set", f"export.opset={opset}"]} if opset >= 23 else {}
    return {**VARIANTS, **kept}


def judge(onnxd, model, path, work, feed_sets, rtol, counts):
    """Why a conversion is wrong, per variant."""
    run, wants, why = original_run(path, feed_sets)
    if run is None:
        counts[f"not judged, original does not run"] += 1
        return [f"SKIP {why}"] if os.environ.get("JUDGE_VERBOSE") else []
    counts["judged by " + run.__name__[4:]] += 1
    rtol = max(rtol, 1e-4) if run is run_float32 else rtol
    original_check, failures = checked(path), []
    for variant, extra in variants(model).items():
        if variant == "onnxruntime" and run is run_reference:
            continue  # which has none of its operators
        out = os.path.join(work, variant)
        report, why = convert(onnxd, path, out, extra)
        if not why:
            why = judge_one(onnxd, model, os.path.join(out, "model.onnx"), run, feed_sets, wants, rtol, original_check, counts)
        if report:
            for p in report.get("passes", []):
                counts["rewrites " + p["name"]] += p.get("rewrites", 0)
        if not why and variant == "default":
            again, why = convert(onnxd, os.path.join(out, "model.onnx"), out + "-again", extra)
            done = sum(p.get("rewrites", 0) for p in again["passes"]) if again else 0
            if done:
                why = f"converting again makes {done} rewrites: " + str([(p["name"], p["rewrites"]) for p in again["passes"] if p.get("rewrites")])
            elif not why:
                why = same_model(os.path.join(out, "model.onnx"), os.path.join(out + "-again", "model.onnx"))
        counts["conversions"] += 1
        if why:
            failures.append(f"{variant}: {why}")
    return failures


def same_model(first, second):
    a, b = onnx.load(first), onnx.load(second)
    for m in (a, b):
        del m.metadata_props[:]
        m.graph.ClearField("doc_string")
    return None if a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True) else "converting again changes the model"


def judge_one(onnxd, model, made, run, feed_sets, wants, rtol, original_check, counts):
    why = checked(made)
    if why and (original_check is None or why != original_check):
        unsorted = original_check and any(t in original_check for t in ("topological", "Field 'name'"))
        if original_check is None or unsorted or "Field 'type'" in original_check or "Field 'shape'" in original_check:
            return f"checker: {why}"
    why = interface_changed(model, onnx.load(made, load_external_data=False), model.ir_version)
    if why:
        return why
    for feeds, want in zip(feed_sets, wants):
        try:
            got = run(made, feeds)
        except Exception as e:
            return f"does not run: {str(e)[:300]}"
        for info, g, w in zip(model.graph.output, got, want):
            if isinstance(w, np.ndarray) or np.isscalar(w):
                why = differ(g, w, rtol)
                if why:
                    return f"{info.name}: {why}"
    return None


def judge_seed(onnxd, seed, work, counts):
    maker = Maker(seed)
    model = maker.model()
    rng = np.random.default_rng(seed + 1)
    path = os.path.join(work, "model.onnx")
    onnx.save(model, path)
    sets = [feeds_of(model, rng)]
    if maker.overridable:
        sets.append(feeds_of(model, rng, maker.overridable))
    rtol = {np.float32: 1e-4, np.float64: 1e-6, np.float16: 3e-2}[maker.dtype]
    if any(n.op_type == "QuantizeLinear" for n in model.graph.node):
        rtol = max(rtol, 5e-2)  # a step of quantization may flip
    return judge(onnxd, model, path, work, sets, rtol, counts)


def judge_file(onnxd, path, work, counts):
    model = onnx.load(path, load_external_data=False)
    feeds = feeds_of(model, np.random.default_rng(1))
    quantized = any("Quant" in n.op_type or "Integer" in n.op_type for n in model.graph.node)
    return judge(onnxd, model, path, work, [feeds], 5e-2 if quantized else 1e-4, counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--seeds", default="0:300", help="first:end")
    parser.add_argument("--formulas", nargs="*", default=[], help="makes only these of random_formulas.py")
    parser.add_argument("--models", nargs="*", help="files or folders, instead of random graphs")
    parser.add_argument("--keep", help="folder for the models that fail")
    options = parser.parse_args()
    Maker.formulas = options.formulas
    onnxd, counts, failed = os.path.abspath(options.onnxd), collections.Counter(), 0
    if options.models:
        cases = [p for p in options.models if os.path.isfile(p)]
        for folder in options.models:
            cases += sorted(os.path.join(d, f) for d, _, fs in os.walk(folder) for f in fs if f.endswith(".onnx"))
    else:
        first, end = map(int, options.seeds.split(":"))
        cases = range(first, end)
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="graphs-") as work:
            try:
                judge_case = judge_file if options.models else judge_seed
                why = judge_case(onnxd, case, work, counts)
            except Exception:
                why = [traceback.format_exc(limit=-3).replace("\n", " | ")]
            for text in why:
                print(f"FAIL {case} {text}", flush=True)
            failed += bool(why)
            if why and options.keep and not options.models:
                os.makedirs(options.keep, exist_ok=True)
                os.replace(os.path.join(work, "model.onnx"), os.path.join(options.keep, f"{case}.onnx"))
    for key in sorted(counts):
        print(f"  {key}: {counts[key]}")
    print(f"{len(cases)} models, {failed} with failures")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
