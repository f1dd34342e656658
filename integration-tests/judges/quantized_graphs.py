#!/usr/bin/env python3
"""Judge quantization on random graphs: ONNX's checker and ONNX Runtime say whether every written file is sound.

    quantized_graphs.py --onnxd target/release/onnxd [--seeds 0:60] [--keep DIR]

Every seed gives one float model, always the same (chains of what is quantized and of what is not, with weights that are
shared, values that several read, residual branches, sub-graphs, outputs in the middle) and a few samples. It is
quantized in pairs of forms, each with settings at random: static to 8 bits, static with every operator that can be named, static with 16
and 4 bits, dynamic, weights alone, and as Neural Compressor writes it. Every file must
- pass `onnx.checker` with full_check, and run in ONNX Runtime without and with all graph optimizations;
- be computed alike by `onnxd eval` and ONNX Runtime, and in both forms: cut at all integers that are computed, so that
  every part starts from the same ones, integers differ by one step at most, at few places, and floats by FLOATS;
- with all optimizations stay nearer to what it is without them than it is to the float model, by a half of the power (where
  weights have 7 bits, since products with `int8` saturate on processors without instructions for them, and where no
  weights stayed in float of which ONNX Runtime makes integers by itself);
- stay as near to the float model as that is to itself with noise of half a step in all that became integers, to a factor.
Needs numpy, onnx, onnxruntime.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import traceback

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import random_graphs

BATCHES = 4
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16)
# Relative to the largest number of a tensor.
FLOATS = 1e-4
# Share of integers that may be one step off, where a sum lies almost between two.
TIES = 0.03
# What noise at random gives is the largest power of DRAWS; rounding is not quite at random.
DRAWS, NOISE = 8, 4.0
# Power of what optimizations change, relative to that of quantization.
OPTIMIZED = 0.5
# Power below which nothing counts, relative to that of the outputs.
NOTHING = 1e-9
# Operators that compute on integers where they are named, and some that do so by themselves.
NAMED = """Conv ConvTranspose Gemm MatMul Add Mul Relu Clip Concat Transpose Reshape Flatten Split Slice Gather GatherElements TopK MaxPool
    AveragePool GlobalAveragePool Pad Softmax Where Sub Div CumSum ArgMax PRelu Tanh HardSigmoid Sigmoid Max Neg BatchNormalization
    InstanceNormalization LayerNormalization EmbedLayerNormalization""".split()
RECIPES = ("QDQ_OP_FP32_BIAS", "QDQ_OP_INT32_BIAS", "QDQ_OP_FP32_BIAS_QDQ")
LEVEL = onnxruntime.GraphOptimizationLevel
onnxruntime.set_default_logger_severity(4)


class Network(random_graphs.Maker):
    """A model of float32, with more of what is quantized than random_graphs has."""

    def __init__(self, seed):
        super().__init__(seed)
        self.dtype, self.twins, self.untyped = np.float32, False, False
        self.opset = self.pick([11, 13, 17, 17, 21])
        self.ir = self.pick(random_graphs.IR_OF[self.opset])

    def step(self, s):
        v = s.last if self.chance(0.8) else self.pick(s.values)
        if int(np.prod(v[1])) > 2000:
            return
        choices = [self.linear, self.linear, self.linear_bias, self.activation, self.activation, self.residual, self.moved]
        choices += [self.moved, self.joined, self.split, self.arithmetic, self.softmax, self.mean, self.same, self.branch, self.pad]
        choices += [self.function, self.choice, self.places, self.normalization]
        if len(v[1]) == 3:
            choices += [self.projections, self.projections, self.words]
        if len(v[1]) > 2:
            choices += [self.conv, self.conv, self.conv, self.conv_transpose, self.batch_norm, self.pool, self.relu_pad_pool]
            choices += [self.pair, self.flatten, self.matmul, self.attention, self.global_pool]
        else:
            choices += [self.gemm, self.gemm, self.matmul, self.pair, self.table]
        self.pick(choices)(s, v)

    def linear_bias(self, s, v):
        self.matmul(s, v)
        name, shape = s.last
        pair = [name, s.weights(shape[-1])]
        return s.add("Add", pair[::self.pick([1, -1])], shape)

    def softmax(self, s, v):
        op = self.pick(["Softmax", "Sigmoid", "Tanh", "LayerNormalization", "HardSigmoid"])
        if op == "LayerNormalization":
            if self.opset < 17:
                return None
            return s.add(op, [v[0], s.weights(v[1][-1]), s.weights(v[1][-1])], v[1])
        return s.add(op, [v[0]], v[1], **({"axis": len(v[1]) - 1} if op == "Softmax" else {}))

    def attention(self, s, v):
        """A product of two computed values."""
        name, shape = v
        other = s.add("Transpose", [name], (*shape[:-2], shape[-1], shape[-2]), perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
        scores = s.add("MatMul", [name, other], (*shape[:-1], shape[-2]))
        s.add("Softmax", [scores], (*shape[:-1], shape[-2]), axis=len(shape) - 1)
        return s.add("MatMul", [s.last[0], name], shape)

    def function(self, s, v):
        name, shape = v
        op = self.pick(["Sub", "Div", "PRelu", "Max", "Neg", "CumSum", "Tanh"])
        if op == "CumSum":
            return s.add(op, [name, s.const(np.array(self.int(1, len(shape) - 1)))], shape)
        if op in ("Neg", "Tanh"):
            return s.add(op, [name], shape)
        if op == "Div":
            return s.add(op, [name, s.const(self.rng.uniform(0.5, 4, shape[-1:]).astype(np.float32))], shape)
        others = [u[0] for u in s.values if u[1] == shape] if op in ("Sub", "Max") else []
        return s.add(op, [name, self.pick(others + [s.weights(shape[-1])])], shape)

    def choice(self, s, v):
        """Of two values, by constants."""
        name, shape = v
        others = [u[0] for u in s.values if u[1] == shape]
        pair = [name, self.pick(others + [s.weights(shape[-1])])]
        return s.add("Where", [s.const(self.rng.random(shape[1:]) < 0.5), *pair[::self.pick([1, -1])]], shape)

    def places(self, s, v):
        """The largest of an axis, elements at places, and where the largest are."""
        name, shape = v
        axis = self.int(1, len(shape) - 1)
        out = lambda n: [n if i == axis else d for i, d in enumerate(shape)]
        op = self.pick(["TopK", "GatherElements", "ArgMax"])
        if op == "TopK":
            k = self.int(1, shape[axis])
            return s.add(op, [name, s.const(np.array([k]))], out(k), outputs=2, axis=axis)
        if op == "GatherElements":
            places = self.rng.integers(0, shape[axis], out(3))
            return s.add(op, [name, s.const(places)], out(3), axis=axis)
        found = s.add(op, [name], None, axis=axis)
        if s is self.main:
            s.extra_outputs.append(found)
        return found

    def normalization(self, s, v):
        name, shape = v
        if len(shape) < 3 or self.chance(0.3):
            return self.softmax(s, v)
        factors = [self.rng.uniform(0.5, 2, shape[1]), self.rng.standard_normal(shape[1])]
        return s.add("InstanceNormalization", [name, *(s.const(f.astype(np.float32)) for f in factors)], shape)

    def projections(self, s, v):
        """Attention with its projections, as ONNX Runtime has it."""
        name, shape = v
        heads = self.int(1, 2)
        hidden = heads * 4
        given = [name, s.weights(shape[2], 3 * hidden), s.weights(3 * hidden)]
        return s.add("Attention", given, (*shape[:2], hidden), domain="com.microsoft", num_heads=heads, unidirectional=self.int(0, 1))

    def words(self, s, v):
        """The first layer of BERT, for words that are always the same, though no constants."""
        name, shape = v
        like = s.add("IsNaN", [s.add("Gather", [name, s.const(np.array(0))], None, axis=2)], None)
        ids = s.add("Cast", [like], None, to=onnx.TensorProto.INT32)
        ids = s.add("Add", [ids, s.const(self.rng.integers(0, 20, shape[:2]).astype(np.int32))], None)
        tables = [s.weights(20, shape[2]), s.weights(shape[1] + 1, shape[2]), "", s.weights(shape[2]), s.weights(shape[2])]
        rows = s.add("EmbedLayerNormalization", [ids, "", *tables], None, outputs=2, domain="com.microsoft")[0]
        return s.add("Add", [name, rows], shape)

    def joined(self, s, v):
        name, shape = v
        axis = self.int(0, len(shape) - 1)
        like = [u for u in s.values if len(u[1]) == len(shape) and u[1][:axis] + u[1][axis + 1:] == shape[:axis] + shape[axis + 1:]]
        other = self.pick(like)
        out = [d + other[1][i] if i == axis else d for i, d in enumerate(shape)]
        return s.add("Concat", [name, other[0]], out, axis=self.pick([axis, axis - len(shape)]))

    def split(self, s, v):
        name, shape = v
        axes = [i for i, d in enumerate(shape) if i and d % 2 == 0]
        if not axes:
            return None
        axis = self.pick(axes)
        out = [d // 2 if i == axis else d for i, d in enumerate(shape)]
        attrs = {"axis": axis} | ({"num_outputs": 2} if self.opset >= 18 else {})
        parts = s.add("Split", [name], out, outputs=2, **attrs)
        s.values.append((parts[1], tuple(out)))
        if self.chance(0.6):
            s.add(self.pick(["Add", "Mul"]), parts, out)

    def moved(self, s, v):
        name, shape = v
        rank, op = len(shape), self.pick(["Transpose", "Reshape", "Slice", "Gather", "Unsqueeze", "Tile"])
        ints = lambda *xs: s.const(np.array(xs, np.int64))
        if op == "Transpose":
            perm = [0] + [1 + int(i) for i in self.rng.permutation(rank - 1)]
            return s.add(op, [name], [shape[i] for i in perm], perm=perm)
        if op == "Reshape" and rank > 2:
            out = (*shape[:-2], shape[-2] * shape[-1])
            return s.add(op, [name, ints(*shape[:-2], -1)], out)
        axis = self.int(1, rank - 1)
        if op == "Slice" and shape[axis] > 1:
            out = [d - 1 if i == axis else d for i, d in enumerate(shape)]
            return s.add(op, [name, ints(1), ints(99), ints(axis - rank)], out)
        if op == "Gather":
            out = [2 if i == axis else d for i, d in enumerate(shape)]
            return s.add(op, [name, ints(0, -1)], out, axis=axis)
        if op == "Tile" and shape[axis] < 3:
            out = [d * 2 if i == axis else d for i, d in enumerate(shape)]
            return s.add(op, [name, ints(*[2 if i == axis else 1 for i in range(rank)])], out)

    def mean(self, s, v):
        name, shape = v
        axes = self.pick([[i for i in range(2, len(shape))], [len(shape) - 1]])
        out = [1 if i in axes else d for i, d in enumerate(shape)]
        if not axes:
            return None
        if self.opset >= 18:
            return s.add("ReduceMean", [name, s.const(np.array(axes, np.int64))], out)
        return s.add("ReduceMean", [name], out, axes=axes)

    def global_pool(self, s, v):
        return s.add("GlobalAveragePool", [v[0]], (*v[1][:2], *[1] * (len(v[1]) - 2)))

    def table(self, s, v):
        """Rows of a constant, added to a value."""
        rows = s.add("Gather", [s.weights(200, v[1][-1]), s.const(self.rng.integers(0, 200, v[1][:-1]))], v[1])
        return s.add("Add", [v[0], rows], v[1])


def network(seed):
    """The maker, its model, and feeds for each batch."""
    make = Network(seed)
    model, rng = make.model(), np.random.default_rng(seed + 1)
    batch = make.main.values[0][1][0]
    if not any(o.domain == "com.microsoft" for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    for i in list(model.graph.input):
        first = i.type.tensor_type.shape.dim[:1]
        if i.name == "cond":
            model.graph.input.remove(i)
            model.graph.initializer.append(numpy_helper.from_array(np.array(True), "cond"))
        elif first and first[0].dim_param:
            first[0].dim_value = batch
    feeds = [random_graphs.feeds_of(model, rng) for _ in range(BATCHES)]
    if make.chance(0.3):
        for i in model.graph.input:
            if i.name in feeds[0]:
                i.type.tensor_type.shape.dim[0].dim_param = "N"
    return make, model, feeds


# ---- running ----


def session(model, level=LEVEL.ORT_DISABLE_ALL):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, level
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def run(model, feeds, level=LEVEL.ORT_DISABLE_ALL):
    """Outputs by name, for each batch."""
    s = session(model, level)
    names = [o.name for o in s.get_outputs()]
    return [dict(zip(names, s.run(None, f))) for f in feeds]


def exposed(model, feeds):
    """All values that nodes of the main graph compute."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    known = {o.name for o in copy.graph.output}
    for node in copy.graph.node:
        copy.graph.output.extend(onnx.ValueInfoProto(name=n) for n in node.output if n and n not in known)
    return run(copy, feeds)


def cut(model, values):
    """The model with the integers that it computes as inputs, and what it makes of them as outputs."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for node in copy.graph.node:
        for i, n in enumerate(node.output):
            if n in values and values[n].dtype.type in INTEGERS:
                node.output[i] = n + "/made"
                kind = helper.np_dtype_to_tensor_dtype(values[n].dtype), values[n].shape
                copy.graph.input.append(helper.make_tensor_value_info(n, *kind))
                copy.graph.output.append(helper.make_tensor_value_info(n + "/made", *kind))
    return copy


def evaluated(onnxd, model, feeds, work):
    """Outputs by name as onnxd computes them."""
    paths = [os.path.join(work, f) for f in ("cut.onnx", "in.npz", "out.npz")]
    onnx.save(model, paths[0])
    found = []
    for f in feeds:
        np.savez(paths[1], **f)
        command = [onnxd, "eval", paths[0], "--inputs", paths[1], "--out", paths[2]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise ValueError(f"onnxd eval: {(done.stderr or done.stdout).strip()[:300]}")
        with np.load(paths[2]) as arrays:
            found.append({n: arrays[n] for n in arrays.files})
    return found


def rounded_by_runtime(model):
    """Whether weights stay in float that ONNX Runtime makes integers by itself: those of a convolution between others."""
    by = {n: node.op_type for node in model.graph.node for n in node.output}
    products = [n for n in model.graph.node if n.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul")]
    return any(by.get(n.input[0]) == "DequantizeLinear" and by.get(n.input[1]) != "DequantizeLinear" for n in products)


def power(a, b):
    """Of the difference of outputs."""
    return sum(float(np.sum(np.square(x[n].astype(np.float64) - y[n]))) for x, y in zip(a, b) for n in x if x[n].dtype.kind == "f")


def apart(found, wanted, stats):
    """What is not alike, in a sentence."""
    for name in wanted[0]:
        a = np.concatenate([f[name].ravel() for f in found])
        b = np.concatenate([f[name].ravel() for f in wanted])
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{name}: {a.dtype}{a.shape} where {b.dtype}{b.shape} is expected"
        if b.dtype.type in INTEGERS:
            steps = np.abs(a.astype(np.int64) - b)
            stats["integers"] += steps.size
            stats["integers one step off"] += int((steps == 1).sum())
            if steps.max(initial=0) > 1 or (steps > 0).sum() > 2 + TIES * steps.size:
                return f"{name}: {(steps > 0).sum()} of {steps.size} integers differ, by {steps.max()}"
        elif b.dtype.kind == "f":
            far = np.abs(a.astype(np.float64) - b).max(initial=0)
            if not far <= FLOATS * np.abs(b).max(initial=0) + 1e-30:
                return f"{name}: floats differ by {far:.3g} of {np.abs(b).max():.3g}"
        elif not np.array_equal(a, b):
            return f"{name}: differs"
    return None


# ---- what scales imply ----


def parameters(model):
    """Scales of constants and of computed values, by the name that these had in the float model."""
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    constants, computed = {}, {}
    for node in model.graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or not node.input[1] in values:
            continue
        scale = values[node.input[1]].astype(np.float64)
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "DequantizeLinear" and node.input[0] in values:
            q = values[node.input[0]].astype(np.float64)
            if values[node.input[0]].dtype == np.int32:
                continue
            scale = spread(scale, q.shape, attrs.get("axis", 1), attrs.get("block_size", 0))
            zero = values[node.input[2]].astype(np.float64) if len(node.input) > 2 else np.zeros(())
            zero = spread(zero, q.shape, attrs.get("axis", 1), attrs.get("block_size", 0))
            constants[node.input[0].removesuffix("_quantized")] = (scale, (q - zero) * scale)
        elif node.op_type == "QuantizeLinear":
            zero = values[node.input[2]]
            info = np.iinfo(zero.dtype)
            range_ = [(end - float(zero)) * float(scale) for end in (info.min, info.max)]
            computed[node.output[0].removesuffix("_quantized")] = (float(scale), range_)
    return constants, computed


def spread(scale, shape, axis, block):
    if scale.ndim == 0 or scale.size == 1:
        return np.full(shape, scale.reshape(()))
    if block:
        return np.repeat(scale, block, axis=axis).take(range(shape[axis]), axis=axis)
    return np.broadcast_to(scale.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))]), shape)


def noisy(float_model, constants, computed, shapes, rng):
    """The float model with noise of half a step in all that became integers; None if weights are others."""
    copy = onnx.ModelProto.FromString(float_model.SerializeToString())
    graph, count = copy.graph, 0
    # Weights that are inputs too are quantized as such where nothing is fed.
    shapes = {t.name: tuple(t.dims) for t in graph.initializer} | shapes
    if set(constants) - {t.name for t in graph.initializer}:
        return None, 0
    for t in graph.initializer:
        if t.name in constants:
            scale, real = constants[t.name]
            w = numpy_helper.to_array(t)
            if w.shape != real.shape or w.dtype != np.float32:
                return None, 0
            if not np.all(np.abs(w - real) <= 0.51 * scale + 1e-6 * np.abs(w).max(initial=0)) and scale.size != 1:
                return None, 0
            t.CopyFrom(numpy_helper.from_array((w + rng.uniform(-0.5, 0.5, w.shape) * scale).astype(np.float32), t.name))
            count += 1
    nodes = []

    def disturb(name, out):
        scale, (low, high) = computed[name.removesuffix("~")]
        noise = rng.uniform(-0.5, 0.5, shapes[name.removesuffix("~")]).astype(np.float32) * np.float32(scale)
        base = out.removesuffix("~")
        for role, array in (("noise", noise), ("low", np.float32(low)), ("high", np.float32(high))):
            graph.initializer.append(numpy_helper.from_array(np.asarray(array), f"{base}~{role}"))
        return [helper.make_node("Add", [name, f"{base}~noise"], [f"{base}~sum"]),
                helper.make_node("Clip", [f"{base}~sum", f"{base}~low", f"{base}~high"], [out])]

    inputs = {i.name for i in graph.input} & set(computed)
    for name in inputs:
        nodes += disturb(name, name + "~")
    for node in graph.node:
        for i, n in enumerate(node.input):
            if n in inputs:
                node.input[i] = n + "~"
        nodes.append(node)
        for i, n in enumerate(node.output):
            if n in computed and n in shapes:
                node.output[i] = n + "~"
                nodes += disturb(n + "~", n)
                count += 1
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del graph.node[:]
    graph.node.extend(nodes)
    return copy, count


def noise_of_steps(model, case):
    """The largest power of noise in some draws; None if the weights are not the float model's, such as equalized ones."""
    constants, computed = parameters(model)
    rng, draws = np.random.default_rng(case["seed"]), []
    for _ in range(DRAWS):
        other, count = noisy(case["float"], constants, computed, case["shapes"], rng)
        if not count:
            return None
        draws.append(power(run(other, case["feeds"]), case["wanted"]))
    return max(draws)


# ---- judging ----


def ways(make):
    """Pairs of forms with the same settings, at random."""
    pick, chance = make.pick, make.chance
    def settings(**more):
        return {"per_channel": chance(0.7), "symmetric": chance(0.3), "reduce_range": chance(0.6), **more}

    activation = pick(["uint8", "uint8", "int8"])
    # The kernels of signed activations have no exact form of products beyond 7 bits on all processors.
    signed = {"reduce_range": True} if activation == "int8" else {}
    byte = settings(activation_type=activation, weight_type=pick(["int8", "int8", "uint8"]), **signed)
    wide = settings(activation_type=pick(["uint16", "int16", "uint8"]), weight_type=pick(["int8", "int16", "uint16", "int4", "uint4"]))
    # Dynamic products with weights that are named `int8` saturate on processors without VNNI.
    dynamic = settings(mode="dynamic", weight_type=pick(["int8" if "vnni" in open("/proc/cpuinfo").read() else "uint8", "uint8"]))
    alone = settings(mode="weight_only", weight_type=pick(["int4", "uint4", "int8", "uint8"]), block_size=pick([16, 32, 64]), reduce_range=False)
    named = {**byte, "op_types": NAMED, "matmul_const_b_only": False}
    recipe = pick(RECIPES)
    inc = {"recipe": recipe, "reduce_range": chance(0.6), "per_channel": chance(0.8)}
    forms = ("QDQ", "QLinear")
    return [("static", forms, byte), ("named", forms, named), ("wide", forms, wide), ("dynamic", forms, dynamic), ("weights", forms, alone),
            ("inc", ("inc-qdq", "inc-qlinear"), inc), ("inc dynamic", ("inc-qdq", "inc-qlinear"), {"mode": "dynamic"})]


def convert(onnxd, path, calib, settings, batch, out):
    """The written model and its report, or a complaint."""
    params = out + ".toml"
    with open(params, "w") as f:
        if settings:
            f.write("[quantization]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in settings.items()))
        f.write(f"[calibration]\nbatch_size = {batch}\n" if batch else "")
    command = [onnxd, "convert", path, *([calib] if settings else []), "--params", params, "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        text = (done.stdout + done.stderr).strip().splitlines()
        return None, None, f"exit {done.returncode}: {' | '.join(text[-4:])[:500]}"
    with open(os.path.join(out, "report.json")) as f:
        return onnx.load(os.path.join(out, "model.onnx")), json.load(f), None


def judge_file(onnxd, model, case, form, settings, work, stats):
    """What is wrong with one file; also its outputs and integers."""
    feeds, wanted = case["feeds"], case["wanted"]
    onnx.checker.check_model(model, full_check=True)
    plain = run(model, feeds)
    if any(plain[0].get(n) is None or plain[0][n].shape != a.shape for n, a in wanted[0].items()):
        yield "outputs are missing or of other shapes"
        return
    values = exposed(model, feeds)
    parts = cut(model, values[0])
    given = [{**f, **{n: v[n] for n in v if v[n].dtype.type in INTEGERS}} for f, v in zip(feeds, values)]
    why = apart(evaluated(onnxd, parts, given, work), run(parts, given), stats)
    if why:
        yield f"onnxd eval and ONNX Runtime: {why}"
    case["values"], zeros = given, [{n: np.zeros_like(a) for n, a in w.items()} for w in wanted]
    noise, size = power(plain, wanted), power(wanted, zeros)
    if case["optimized"] is not None:
        moved = power(run(model, feeds, LEVEL.ORT_ENABLE_ALL), plain)
        stats["run with all optimizations"] += 1
        if settings.get("reduce_range") and not rounded_by_runtime(model):
            stats["ratios"].append(moved / max(noise + 10 * case["optimized"] + NOTHING * size, 1e-30))
            if moved > OPTIMIZED * noise + 10 * case["optimized"] + NOTHING * size:
                yield f"optimizations change {moved:.3g}, quantization {noise:.3g} of {size:.3g}"
    if form in ("QDQ", "inc-qdq") and "mode" not in settings:
        implied = noise_of_steps(model, case)
        stats["compared with noise of their steps"] += implied is not None
        if implied is not None:
            stats["noises"].append(noise / max(implied, NOTHING * size, 1e-30))
            if noise > NOISE * implied + NOTHING * size:
                yield f"{10 * np.log10(size / noise):.1f} dB where the scales imply {10 * np.log10(size / max(implied, 1e-30)):.1f}"


def judge_pair(onnxd, case, path, calib, batch, way, work, stats):
    kind, forms, settings = way
    made = []
    for form in forms:
        say = lambda why: f"{kind} {form} {json.dumps(settings)}: {why}"
        out = os.path.join(work, f"{kind}-{form}".replace(" ", "-"))
        model, report, why = convert(onnxd, path, calib, {"format": form, **settings}, batch, out)
        stats["files"] += 1
        if why:
            yield say(why)
            return
        try:
            for why in judge_file(onnxd, model, case, form, settings, work, stats):
                yield say(why)
            made.append((model, case["values"]))
        except Exception as e:
            yield say(traceback.format_exc(limit=-1).strip().replace("\n", " | ")[-500:])
    if len(made) < 2:
        return
    (pairs, first), (_, second) = made
    # The form of pairs from the integers of the other one, where it has them.
    common = {n: a for n, a in second[0].items() if n in first[0] and a.dtype == first[0][n].dtype}
    given = [{n: (s if n in common else f)[n] for n in f} for f, s in zip(first, second)]
    names = set(common) - set(case["feeds"][0])
    parts = cut(pairs, {n: common[n] for n in names})
    found = run(parts, [{n: g[n] for n in g if n in names or n in case["feeds"][0]} for g in given])
    wanted = [{n + "/made": s[n] for n in names} for s in second]
    stats["integers of both forms"] += sum(a.size for a in wanted[0].values())
    why = apart(found, wanted, stats) if names else None
    if why:
        yield f"{kind} {json.dumps(settings)}: both forms: {why}"


def judge_seed(onnxd, seed, work, stats):
    make, model, feeds = network(seed)
    path, calib = os.path.join(work, "net.onnx"), os.path.join(work, "calib.npz")
    onnx.save(model, path)
    np.savez(calib, **{n: np.concatenate([f[n] for f in feeds]) for n in feeds[0]})
    batch = next(iter(feeds[0].values())).shape[0]
    try:
        wanted = run(model, feeds)
    except Exception:
        stats["not judged, the model itself does not run"] += 1
        return
    if not all(np.isfinite(a).all() and np.abs(a).max(initial=0) < 1e6 for w in wanted for a in w.values() if a.dtype.kind == "f"):
        stats["not judged, its numbers are too large"] += 1
        return
    plain, _, why = convert(onnxd, path, calib, {}, None, os.path.join(work, "float"))
    if why:
        yield f"float: {why}"
        return
    case = {"seed": seed, "feeds": feeds, "wanted": wanted, "float": plain}
    case["shapes"] = {n: a.shape for n, a in exposed(plain, feeds)[0].items()} | {n: a.shape for n, a in feeds[0].items()}
    try:
        case["optimized"] = power(run(plain, feeds, LEVEL.ORT_ENABLE_ALL), run(plain, feeds))
    except Exception:
        case["optimized"] = None
    stats["graphs"] += 1
    for way in ways(make):
        yield from judge_pair(onnxd, case, path, calib, batch, way, work, stats)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxd", required=True)
    parser.add_argument("--seeds", default="0:60", metavar="FIRST:END")
    parser.add_argument("--keep", help="folder for what fails")
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    onnxd, stats, failed = os.path.abspath(options.onnxd), collections.Counter(), 0
    stats["ratios"], stats["noises"] = [], []
    for seed in range(first, end):
        with tempfile.TemporaryDirectory(prefix="quantized-") as work:
            try:
                wrong = list(judge_seed(onnxd, seed, work, stats))
            except Exception:
                wrong = [traceback.format_exc(limit=-3).replace("\n", " | ")]
            for text in wrong:
                print(f"FAIL {seed} {text}", flush=True)
            failed += bool(wrong)
            if wrong and options.keep:
                os.makedirs(options.keep, exist_ok=True)
                os.replace(work, os.path.join(options.keep, str(seed)))
                os.makedirs(work)
    for what, say in (("ratios", "power that optimizations change"), ("noises", "power of quantization by that of noise")):
        numbers = stats.pop(what)
        if numbers:
            print(f"  {say}: median {np.median(numbers):.2g}, most {max(numbers):.2g}, of {len(numbers)}")
    for what, n in sorted(stats.items()):
        print(f"  {what}: {n}")
    print(f"{stats['graphs']} graphs, {stats['files']} quantized models, {failed} with failures")
    sys.exit(1 if failed or not stats["files"] else 0)


if __name__ == "__main__":
    main()
